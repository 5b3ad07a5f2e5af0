// SPDX-License-Identifier: Apache-2.0
// What one compares with most often, each a click away.
import { useEffect, useState } from 'preact/hooks';
import { api } from '../base/api';
import { Chevron } from '../base/icons';
import { Popover } from '../base/ui';
import { formatDuration } from '../base/units';
import { matchersOf, selectors, withMatchers, withoutMatcher } from '../query/query';
import { before, earlier, lengthOf, samePlace, type Comparison } from './sides';
import { compare } from './state';

export function Presets({ c }: { c: Comparison }) {
	const ago: [string, number][] = [['an hour ago', 3600], ['a day ago', 86400], ['a week ago', 604800]];
	const items = [{ name: `the ${formatDuration(lengthOf(c.now))} before`, side: before(c.now) }, ...ago.map(([name, s]) => ({ name, side: earlier(c.now, s) }))];
	return (
		<>
			<span class="hint">Base is</span>
			<div class="base-is" role="group" aria-label="Base">
				{items.map((p) => <button key={p.name} type="button" aria-pressed={samePlace(p.side, c.base)} class={samePlace(p.side, c.base) ? 'on' : ''} onClick={() => compare({ base: p.side, now: c.now })}>{p.name}</button>)}
			</div>
			<Labels c={c} />
			<button type="button" title="Swap the two sides" onClick={() => compare({ base: c.now, now: c.base })}>⇄ Swap sides</button>
		</>
	);
}

/** The first selector of a query with the matcher of a label left out: what else that label can be. */
function othersOf(q: string, label: string): string {
	const s = selectors(q)[0], m = s && matchersOf(s).find((x) => x.replace(/\s*(=|!=|=~|!~)[\s\S]*/, '').trim() === label);
	const rest = m ? withoutMatcher(q, m) : q, t = selectors(rest)[0];
	return t ? rest.slice(t.start, t.rangeStart >= 0 ? t.rangeStart : t.end).trim() : '';
}

/** A label's value according to a query; '' if it has none. */
function valueIn(q: string, label: string): string {
	const s = selectors(q)[0], m = s && matchersOf(s).find((x) => new RegExp(`^${label}\\s*=\\s*["'\`]`).test(x));
	try {
		return m ? JSON.parse(m.slice(m.indexOf('=') + 1).trim()) as string : '';
	} catch {
		return '';
	}
}

const FIRST = ['version', 'image', 'container', 'pod', 'instance', 'job'];

/** Two values of a label at the same time: two containers, two hosts, two versions. */
function Labels({ c }: { c: Comparison }) {
	const [open, setOpen] = useState(false);
	const [labels, setLabels] = useState<string[]>([]), [label, setLabel] = useState(''), [values, setValues] = useState<string[]>([]);
	const [a, setA] = useState(''), [b, setB] = useState('');
	const q = c.now.query;
	useEffect(() => {
		if (!open) return;
		const match = othersOf(q, label);
		api.labels(match || undefined).then((r) => {
			const all = r.data.filter((l) => l !== '__name__');
			setLabels(all);
			if (!label) setLabel(FIRST.find((l) => all.includes(l)) ?? all[0] ?? '');
		}, () => undefined);
	}, [open]);
	useEffect(() => {
		if (!open || !label) return;
		const abort = new AbortController();
		api.labelValues(label, othersOf(q, label) || undefined).then((r) => {
			if (abort.signal.aborted) return;
			setValues(r.data);
			const now = valueIn(q, label) || r.data[0] || '', base = valueIn(c.base.query, label);
			setB(now);
			setA(base && base !== now ? base : r.data.find((v) => v !== now) ?? now);
		}, () => undefined);
		return () => abort.abort();
	}, [open, label]);
	const apply = (e: Event) => {
		e.preventDefault();
		setOpen(false);
		compare({ base: { ...c.now, query: withMatchers(q, { [label]: a }) }, now: { ...c.now, query: withMatchers(q, { [label]: b }) } });
	};
	const choice = (name: string, value: string, all: string[], onPick: (v: string) => void) => (
		<label>{name}<select value={value} onChange={(e) => onPick(e.currentTarget.value)}>{all.map((v) => <option key={v} value={v}>{v || '(none)'}</option>)}</select></label>
	);
	return (
		<Popover open={open} setOpen={setOpen} has="dialog" title="Two containers, two hosts, two versions, at the same time" button={<>values of a label<Chevron /></>}>
			<form class="label-sides" onSubmit={apply}>
				{choice('Label', label, labels, setLabel)}
				{choice('Base', a, values, setA)}
				{choice('Now', b, values, setB)}
				{values.length < 2 && label && <p class="hint">{label} has one value here.</p>}
				<button class="primary" disabled={!label || !a || !b}>Compare</button>
			</form>
		</Popover>
	);
}
