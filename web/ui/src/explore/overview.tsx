// SPDX-License-Identifier: Apache-2.0
// Who uses the CPU, as a page of its own (the query {}), and left of every other query, where a click adds the matcher. It is asked for when what
// it is about changes, and then seldom: it does not follow each refresh.
import { useEffect, useRef } from 'preact/hooks';
import { computed, signal, useSignal } from '@preact/signals';
import type { ApiError, ProfileType } from '../base/api';
import { Close, Search } from '../base/icons';
import { kept } from '../base/kept';
import { bounds, query, range, types } from '../base/state';
import { Bar, Cut } from '../base/ui';
import { formatAxis, formatDuration, formatShare } from '../base/units';
import { isOverview, partsOf } from '../query/parts';
import { matcherText, withMatcher, withoutMatcher, withType } from '../query/query';
import { findType, grouped, spelling } from '../query/typepicker';
import { askShares, observer, type Group, type Row, type Shares } from './shares';

const IN_RAIL = 8, ON_PAGE = 20;
/** Seconds between two looks: of a short range more often, of a long one when a sixtieth of it has passed. */
const pause = (seconds: number) => seconds <= 300 ? 10 : Math.max(60, seconds / 60);

/** A habit; a narrow window has no room for it unless one asks. */
const wanted = kept<boolean>('rail', true, (v) => typeof v === 'boolean');
const wide = matchMedia('(min-width: 1200px)');
const isWide = signal(wide.matches), overlaid = signal(false);
wide.addEventListener('change', () => { isWide.value = wide.matches; overlaid.value = false; });
export const railOpen = computed(() => isWide.value ? wanted.value : overlaid.value);
export function toggleRail(): void {
	if (isWide.value) wanted.value = !wanted.value; else overlaid.value = !overlaid.value;
}

const searchText = signal('');
/** Counts up to ask again now. */
export const lookAgain = signal(0);

/** The query with what was clicked; without it, if it had that already. The overview becomes a profile. */
function withClick(q: string, type: ProfileType, label: string, name: string): string {
	const text = matcherText(label, '=', name), parts = partsOf(q);
	if (isOverview(q) || !parts.name) return withMatcher(withType('', spelling(type)), label, '=', name);
	return parts.matchers.some((m) => m.text === text) ? withoutMatcher(q, text) : withMatcher(q, label, '=', name);
}

function useShares(rows: number, ready: boolean, onFirst?: (first: number) => void): { type: ProfileType | undefined; shares: Shares | null; failed: string } {
	const shares = useSignal<Shares | null>(null), failed = useSignal('');
	const parts = partsOf(query.value), type = observer(types.value ?? [], findType(types.value, parts.name));
	const r = range.value, matchers = isOverview(query.value) ? [] : parts.matchers, search = searchText.value;
	const key = JSON.stringify([type?.name, matchers.map((m) => m.text), search, r, rows]), before = useRef('');
	useEffect(() => {
		if (!type || !ready) return;
		const abort = new AbortController();
		let timer = 0;
		const look = async () => {
			const reading = before.current === key && (document.hidden || document.querySelector('.shares:hover, .shares:focus-within'));
			if (!reading) {
				const b = bounds(r, Date.now() / 1000);
				try {
					const s = await askShares({ type, matchers, search, from: b.from, to: b.to, rows }, abort.signal);
					if (abort.signal.aborted) return;
					shares.value = s;
					failed.value = '';
					before.current = key;
					if (s.first !== null) onFirst?.(s.first);
				} catch (e) {
					if (abort.signal.aborted) return;
					failed.value = (e as ApiError).message;
				}
			}
			if ('last' in r) timer = window.setTimeout(() => void look(), 1000 * pause(r.last));
		};
		timer = window.setTimeout(() => void look(), before.current && search ? 250 : 0);
		return () => { abort.abort(); clearTimeout(timer); };
	}, [key, ready, lookAgain.value]);
	return { type, shares: shares.value, failed: failed.value };
}

interface Props { ready: boolean; onRun: (q: string) => void }

export function Rail({ ready, onRun }: Props) {
	const { type, shares, failed } = useShares(IN_RAIL, ready);
	if (types.value !== null && !type) return null;
	return (
		<aside class="rail shares" id="rail" aria-label="Who uses the CPU">
			<div class="rail-head">
				<button type="button" class="link" title="Everything at once: {}" onClick={() => onRun('{}')}>Overview</button>
				<small>{shares && formatAxis(shares.total, 'cores')}{shares && ' cores'}</small>
				<button type="button" class="ghost tiny" title="Hide this (o)" aria-label="Hide the overview" onClick={toggleRail}><Close /></button>
			</div>
			<SearchBox />
			<Groups shares={shares} failed={failed} type={type} onRun={onRun} />
		</aside>
	);
}

export function Overview({ ready, onFirst, onRun }: Props & { onFirst: (first: number) => void }) {
	const { type, shares, failed } = useShares(ON_PAGE, ready, onFirst);
	const r = range.value, others = (types.value ?? []).filter((t) => t !== type && t.series > 0);
	return (
		<section class="overview shares" aria-label="Overview">
			<header class="overview-head">
				<h2>{type ? 'Who uses the CPU' : 'No CPU profiles yet'}</h2>
				{shares && type && <p class="hint"><b>{formatAxis(shares.total, 'cores')}</b> cores in the mean of {'last' in r ? `the last ${formatDuration(r.last)}` : 'this time'}, by {type.title}</p>}
				<div class="grow" />
				{type && <SearchBox />}
			</header>
			{type && <Groups shares={shares} failed={failed} type={type} onRun={onRun} />}
			{others.length > 0 && <div class="panel others"><h2>Other profiles</h2>{grouped(others).map(([g, members]) => (
				<p key={g}><span>{g}</span>{members.map((t) => <button type="button" key={t.name} onClick={() => onRun(withType('', spelling(t)))}>{t.title}</button>)}</p>
			))}</div>}
		</section>
	);
}

const SearchBox = () => (
	<label class="field share-search"><Search /><input type="search" aria-label="Search containers, units and processes" placeholder="search by name or label" value={searchText.value} onInput={(e) => { searchText.value = e.currentTarget.value; }} /></label>
);

function Groups({ shares, failed, type, onRun }: { shares: Shares | null; failed: string; type: ProfileType | undefined; onRun: (q: string) => void }) {
	const chosen = new Set(partsOf(query.value).matchers.map((m) => m.text));
	if (!shares || !type) return <div class="share-groups">{failed ? <p class="hint">{failed}</p> : <div class="skeleton" aria-busy="true" />}</div>;
	return (
		<div class="share-groups">
			{failed && <p class="hint">{failed}</p>}
			{shares.groups.map((g) => <ShareGroup key={g.label} group={g} total={shares.total} chosen={chosen} onPick={(name) => onRun(withClick(query.value, type, g.label, name))} />)}
			{!shares.groups.length && <p class="hint">{searchText.value ? `Nothing that used CPU is called “${searchText.value}”.` : 'Nothing used CPU in this time.'}</p>}
		</div>
	);
}

function ShareGroup({ group: g, total, chosen, onPick }: { group: Group; total: number; chosen: Set<string>; onPick: (name: string) => void }) {
	return (
		<section class="share-group panel">
			<h3>{g.title}<small>{g.label}</small></h3>
			<ul>{g.rows.map((r) => {
				const on = chosen.has(matcherText(g.label, '=', r.name)), share = total > 0 ? r.cores / total : 0;
				return (
					<li key={r.name}>
						<button type="button" class={on ? 'on' : ''} aria-pressed={on} title={`${r.name}\n${formatAxis(r.cores, 'cores')} cores, ${formatShare(share)}`} onClick={() => onPick(r.name)}>
							<Cut text={r.name} /><Small row={r} /><em>{formatAxis(r.cores, 'cores')}</em><Bar share={share} />
						</button>
					</li>
				);
			})}</ul>
			{g.more && <p class="hint">The {g.rows.length} largest; the search finds the others.</p>}
		</section>
	);
}

/** A line over time without axes, as high as its own maximum. */
function Small({ row }: { row: Row }) {
	const top = Math.max(...row.line.map((v) => v ?? 0), 1e-9), n = Math.max(1, row.line.length - 1);
	let path = '', pen = 'M';
	row.line.forEach((v, i) => {
		if (v === null) { pen = 'M'; return; }
		path += `${pen}${(100 * i / n).toFixed(1)} ${(15 - 14 * v / top).toFixed(1)}`;
		pen = 'L';
	});
	return <svg class="small-graph" viewBox="0 0 100 16" preserveAspectRatio="none" aria-hidden="true"><path d={path} /></svg>;
}
