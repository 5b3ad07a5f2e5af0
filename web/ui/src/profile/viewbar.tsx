// SPDX-License-Identifier: Apache-2.0
// How one looks at the profile: which way up, what is joined, what comes first, what colours say; and what filters took away.
import { useState } from 'preact/hooks';
import { api } from '../base/api';
import { Chevron } from '../base/icons';
import { MenuButton, MenuItem } from '../base/menu';
import { colorBy, has, writeUrl } from '../base/state';
import { queried } from '../compare/state';
import { Chip } from '../base/ui';
import { DiffScale } from '../compare/diffscale';
import type { ColorBy } from '../flame/colors';
import { describeFilter, filtersOf } from '../query/filters';
import { selectors, withBefore } from '../query/query';
import { Libraries } from './libraries';
import type { ProfileState } from './load';
import { collapse, collapsed, dropFilter, inverted, REPEATS, rootBelow, rowsBy, sandwich, sandwichOf } from './view';

/** A setting of the view, which changes what is shown and not what is asked about. */
function set<T>(s: { value: T }, v: T): void {
	s.value = v;
	writeUrl('replace');
}

export function Toggle({ on, name, title, onChange }: { on: boolean; name: string; title: string; onChange: (on: boolean) => void }) {
	return <button type="button" class={`toggle ${on ? 'on' : ''}`} aria-pressed={on} title={title} onClick={() => onChange(!on)}>{name}</button>;
}

export function ViewBar({ state, waits, onShow, failed }: { state: ProfileState; waits: boolean; onShow: () => void; failed: string }) {
	const joined = collapsed(state.expr), diff = state.tree.base !== undefined, filters = filtersOf(queried.value);
	return (
		<div class="view-bar">
			<div class="toggles" role="group" aria-label="View">
				<Toggle on={rootBelow.value} name="Root below" title="Grows upwards, as flames do" onChange={(on) => set(rootBelow, on)} />
				{has('invert') && <Toggle on={inverted.value} name="Inverted" title="What costs comes first, its callers behind it (an iceberg)" onChange={(on) => set(inverted, on)} />}
				{has('collapse') && <Toggle on={joined} name="Join recursion" onChange={(on) => set(collapse, on ? 'on' : 'off')}
					title={`Calls of a function by itself become one box; values stay.${collapse.value === 'auto' ? ` By itself where a stack repeats a function more than ${REPEATS} times.` : ''}`} />}
			</div>
			{has('tagroot') && <Rows state={state} />}
			{has('hide') && <Libraries state={state} />}
			{diff || state.tree.before ? <DiffScale /> : null}
			{!diff && <select aria-label="Colour by" title="Colour by" value={colorBy.value} onChange={(e) => set(colorBy, e.currentTarget.value as ColorBy)}>
				<option value="package">by package</option><option value="binary">by binary</option><option value="file">by file</option><option value="function">fire</option>
				<option value="change" disabled={!withBefore(state.expr, null)}>by change{withBefore(state.expr, null) ? '' : ' (of a range)'}</option>
			</select>}
			<span class="tags">
				{sandwich.value && <Chip class="filter" name={`callers and callees of ${sandwich.value}`} onRemove={() => sandwichOf('')} />}
				{filters.map((f) => { const d = describeFilter(f); return <Chip key={`${f.fn} ${f.args}`} class="filter" name={`${d.verb} ${d.what}`} title={`${f.fn}(…, ${f.args})`} onRemove={() => dropFilter(f)} />; })}
			</span>
			{failed && <span class="hint view-failed" role="alert">This view cannot be shown: {failed}</span>}
			<button type="button" class={`waits tiny ${waits ? '' : 'unseen'}`} tabIndex={waits ? 0 : -1} aria-hidden={!waits} title="It waits while one reads here" onClick={onShow}>newer data is there</button>
		</div>
	);
}

/** Values of a label as the first level: pods side by side. */
function Rows({ state }: { state: ProfileState }) {
	const [labels, setLabels] = useState<string[]>([]), [asked, setAsked] = useState('');
	const s = selectors(state.expr)[0], match = s ? state.expr.slice(s.start, s.rangeStart >= 0 ? s.rangeStart : s.end).trim() : '';
	const load = () => {
		if (!match || asked === match) return;
		setAsked(match);
		api.labels(match).then((a) => setLabels(a.data.filter((l) => l !== '__name__')), () => setAsked(''));
	};
	const pick = (label: string, close: () => void) => { set(rowsBy, label); close(); };
	return (
		<span class={rowsBy.value ? 'rows-by on' : 'rows-by'} onPointerEnter={load} onFocusIn={load}>
			<MenuButton label="Rows by label" title="The values of a label as the first level of the graph" button={<>{rowsBy.value ? `Rows by ${rowsBy.value}` : 'Rows by label'}<Chevron /></>}>
				{(close) => <>
					<MenuItem checked={!rowsBy.value} onPick={() => pick('', close)}>no label</MenuItem>
					{[...new Set([...labels, ...(rowsBy.value ? [rowsBy.value] : [])])].map((l) => <MenuItem key={l} checked={l === rowsBy.value} onPick={() => pick(l, close)}>{l}</MenuItem>)}
				</>}
			</MenuButton>
		</span>
	);
}
