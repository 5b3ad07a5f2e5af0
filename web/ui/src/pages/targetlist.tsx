// SPDX-License-Identifier: Apache-2.0
// What the pages of targets share: asking for a page of them now and then, and the controls that say which.
import { useEffect } from 'preact/hooks';
import { useSignal, type Signal } from '@preact/signals';
import { api, ApiError, type Job, type Targets } from '../base/api';
import { Search } from '../base/icons';
import { asNumber, find, inUrl, job, writeUrl } from '../base/state';

const EVERY_MS = 5000;
const TYPING_MS = 250;

/** Changes what is asked for, and the address with it: another list begins at its beginning. */
export function asked(change: () => void): void {
	first.value = 0;
	change();
	writeUrl('replace');
}

/** Now, and again every so often while the page is looked at. */
export function usePoll(ms: number, ask: () => void, when: unknown[]): void {
	useEffect(() => {
		const look = () => { if (!document.hidden) ask(); };
		look();
		const timer = setInterval(look, ms);
		return () => clearInterval(timer);
	}, when);
}

/** The first row of the page that is shown. */
const first = inUrl(['targets', 'discovery'], 'offset', 0, asNumber);

export interface PageOf { data: Signal<Targets | null>; error: Signal<ApiError | null>; offset: Signal<number> }

/** Rows of the job and text that are looked for. An answer that a newer question overtook is not shown. */
export function usePage(state: 'active' | 'dropped', limit: number, health: string): PageOf {
	const data = useSignal<Targets | null>(null), error = useSignal<ApiError | null>(null), offset = first;
	const what = `${state} ${health} ${job.value} ${find.value}`;
	useEffect(() => {
		const stop = new AbortController();
		const ask = () => {
			if (document.hidden) return;
			api.targets({ state, limit, offset: offset.value, scrapePool: job.value, search: find.value.trim(), health: health || undefined }, stop.signal)
				.then((a) => {
					data.value = a.data;
					error.value = null;
					const all = state === 'active' ? a.data.activeTargetCount : a.data.droppedTargetCount;
					if (offset.value > 0 && offset.value >= all) { offset.value = 0; writeUrl('replace'); } /* there are fewer than there were */
				}, (e) => { if (!stop.signal.aborted) error.value = e; });
		};
		const soon = setTimeout(ask, data.value ? TYPING_MS : 0), timer = setInterval(ask, EVERY_MS);
		return () => { stop.abort(); clearTimeout(soon); clearInterval(timer); };
	}, [what, offset.value, limit]);
	return { data, error, offset };
}

export const FindField = ({ what }: { what: string }) => (
	<label class="field"><Search /><input type="search" placeholder={what} aria-label={what} value={find.value} onInput={(e) => asked(() => { find.value = e.currentTarget.value; })} /></label>
);

export const JobSelect = ({ jobs }: { jobs: Job[] }) => (
	<select aria-label="Job" value={job.value} onChange={(e) => asked(() => { job.value = e.currentTarget.value; })}>
		<option value="">All jobs</option>
		{jobs.map((j) => <option key={j.scrapePool} value={j.scrapePool}>{j.scrapePool}</option>)}
	</select>
);

export const Pager = ({ page, all, rows, what }: { page: PageOf; all: number; rows: number; what: string }) =>
	<Pages offset={page.offset.value} all={all} rows={rows} what={what} go={(to) => { page.offset.value = to; writeUrl('push'); scrollTo(0, 0); }} />;

/** "1–100 of 2,000" between two buttons; nothing where one page is all. */
export function Pages({ offset: from, all, rows, what, go }: { offset: number; all: number; rows: number; what: string; go: (offset: number) => void }) {
	if (all <= rows && from === 0) return null;
	const number = (v: number) => v.toLocaleString('en-US');
	return (
		<nav class="pager" aria-label={`Pages of ${what}`}>
			<button type="button" disabled={from === 0} onClick={() => go(Math.max(0, from - rows))}>Previous</button>
			<span>{number(Math.min(from + 1, all))}–{number(Math.min(from + rows, all))} of {number(all)} {what}</span>
			<button type="button" disabled={from + rows >= all} onClick={() => go(from + rows)}>Next</button>
		</nav>
	);
}
