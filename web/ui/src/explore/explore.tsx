// SPDX-License-Identifier: Apache-2.0
// The first page: a query, its series over time, and the profile it stands for. One run asks for both; a run that is
// overtaken is aborted, and what is on screen stays until the next answer is there.
import { useEffect } from 'preact/hooks';
import { useSignal } from '@preact/signals';
import { CompareButton } from '../compare/compare';
import { startCompare } from '../compare/state';
import { api, ApiError, type ProfileType, type QueryData, type VectorSample } from '../base/api';
import { loadFunctions } from '../query/complete';
import { Empty } from './empty';
import { ErrorBox, Warnings } from '../base/errors';
import { visibleWidth } from '../flame/tree';
import { Close, Grid, Link } from '../base/icons';
import { keyTable } from '../base/keys';
import { loadProfile, type ProfileState } from '../profile/load';
import { ProfilePanel } from '../profile/profilepanel';
import { errorOffset, flameQuery, plainSelector, selectors, withType, type Selection } from '../query/query';
import { History, remember } from '../query/history';
import { isOverview, partsOf } from '../query/parts';
import { Pickers, type Opened } from '../query/pickers';
import { unfiltered } from '../query/filters';
import { QueryBar } from '../query/querybar';
import { GraphPanel, graphIsRead, runGraph, type GraphState } from '../graph/graphpanel';
import { bounds, has, permalink, query, range, refresh, selection, tick, types, writeUrl } from '../base/state';
import { clock, moment } from '../base/time';
import { RefreshControl, TimeRange } from '../graph/timerange';
import { busiest, findType, spelling, TypePicker } from '../query/typepicker';
import { CopyButton } from '../base/ui';
import { formatDuration, parseDuration } from '../base/units';
import { openId } from '../share/opened';
import { OpenedView } from '../share/openedview';
import { ExplainPanel } from '../query/explain';
import { lookAgain, Overview, Rail, railOpen, toggleRail } from './overview';
import { ValueTable } from './valuetable';

export type { ProfileState } from '../profile/load';

const nowSeconds = () => Date.now() / 1000;

const keys = keyTable('Explore', {
	type: ['t', 'choose the profile type'], label: ['l', 'only profiles with a label'], by: ['b', 'sum by a label'], history: ['h', 'earlier and saved queries'],
	query: ['q', 'type a query'], rail: ['o', 'show or hide who uses the CPU'], overview: ['g o', 'the overview: {}'],
});

export function Explore() {
	const graph = useSignal<GraphState | null>(null);
	const profile = useSignal<ProfileState | null>(null);
	const values = useSignal<{ expr: string; samples: VectorSample[] } | null>(null);
	const error = useSignal<ApiError | null>(null);
	const graphError = useSignal<ApiError | null>(null);
	const warnings = useSignal<string[]>([]);
	const busy = useSignal(false);
	/* Whether nothing was answered yet: a server that has just started gets a shorter graph, not an empty one. */
	const fresh = useSignal(true);
	/* Whether the types were asked for: what a graph shows depends on their kinds. */
	const asked = useSignal(false);
	const now = useSignal(nowSeconds());
	const opened = useSignal<Opened>('');
	const overview = isOverview(query.value);

	/* Types first: they show which questions are possible. Until there are any, keep looking. */
	useEffect(() => {
		let timer = 0;
		const ask = async () => {
			try {
				types.value = (await api.profileTypes()).data;
				if (error.value && !query.value) error.value = null;
			} catch (e) {
				if (types.value === null) error.value = e as ApiError;
			}
			asked.value = true;
			if (!query.value && types.value) {
				const first = busiest(types.value);
				if (first) {
					query.value = withType('', spelling(first));
					writeUrl('replace');
				}
			}
			timer = window.setTimeout(ask, types.value?.some((t) => t.series > 0) ? 30000 : 2000);
		};
		void ask();
		void loadFunctions();
		return () => clearTimeout(timer);
	}, []);

	useEffect(() => {
		if (!query.value || !asked.value || openId.value) return;
		if (overview) {
			graph.value = profile.value = values.value = error.value = graphError.value = null;
			warnings.value = [];
			busy.value = false;
			return;
		}
		const abort = new AbortController();
		const q = query.value;
		now.value = nowSeconds();
		busy.value = true;
		const work = [
			runGraph(q, now.value, abort.signal).then((g) => {
				const first = g.state.times.findIndex((_, i) => g.state.series.some((s) => s.values[i] !== null));
				if (first >= 0) fitRange(g.state.times[first], g.state.from, now.value, fresh.value);
				fresh.value = false;
				graph.value = g.state; graphError.value = null;
				return g.warnings;
			}, (e) => fail(e, graphError)),
			runProfile(q, now.value, visibleWidth(), abort.signal).then((p) => {
				profile.value = p.profile ?? null;
				values.value = p.values ?? null;
				error.value = null;
				return p.warnings;
			}, (e) => fail(e, error)),
		];
		function fail(e: unknown, where: { value: ApiError | null }): string[] {
			if (!abort.signal.aborted) where.value = e instanceof ApiError ? e : new ApiError('internal', String(e));
			return [];
		}
		void Promise.all(work).then((w) => {
			if (abort.signal.aborted) return;
			busy.value = false;
			if (!error.value && !graphError.value) remember(q);
			warnings.value = [...new Set(w.flat())];
		});
		return () => abort.abort();
	}, [query.value, range.value, selection.value, tick.value, asked.value, types.value !== null, openId.value]);

	/* The moving window moves on by itself, unless a moment is picked, the page is hidden or someone is reading a box. */
	useEffect(() => {
		if (!refresh.value || !('last' in range.value)) return;
		const timer = setInterval(() => { if (!document.hidden && !selection.value && !graphIsRead.value && error.value?.kind !== 'bad_data' && !document.querySelector('.flame canvas.over, .popover-body, .completions')) tick.value++; }, refresh.value * 1000);
		return () => clearInterval(timer);
	}, [refresh.value, range.value]);

	const run = (q: string) => {
		if (!q) return;
		if (q === query.value) tick.value++;
		else {
			/* one series was picked of what was selected: of something else it is no part */
			const s = selection.value;
			if (s && 'at' in s && s.of && selectors(q)[0]?.matchers !== selectors(query.value)[0]?.matchers) selection.value = { at: s.at };
			query.value = q;
		}
		writeUrl('push');
	};
	const open = (o: Opened) => ({ open: opened.value === o, setOpen: (is: boolean) => { if (is || opened.value === o) opened.value = is ? o : ''; } });
	/* A picker changes a query; of the overview it makes one. */
	const base = overview ? withType('', spelling(busiest(types.value ?? []) ?? { name: 'cpu' } as ProfileType)) : query.value;
	const show = (o: Opened) => { opened.value = o; };
	keys.use({
		type: () => show('type'), label: () => show('label'), by: () => show('by'), history: () => show('history'), rail: toggleRail, overview: () => run('{}'),
		query: () => document.querySelector<HTMLElement>('.editor textarea')?.focus(),
	});
	const select = (s: Selection) => { selection.value = s; writeUrl('push'); };
	const first = selectors(query.value)[0];
	const current = findType(types.value, first?.name ?? '');
	const parts = partsOf(base);
	const list = types.value ?? [];
	const fatal = error.value ?? (graphError.value && !profile.value && !values.value ? graphError.value : null);
	const at = fatal && fatal.status && query.value ? errorOffset(fatal.message, query.value) : null;
	const span = defaultSpan(query.value, now.value);

	if (openId.value) return <OpenedView />;
	if (types.value !== null && !list.some((t) => t.series > 0) && !query.value) return <Empty />;
	const beside = railOpen.value && !overview;
	return (
		<div class={`explore ${beside ? 'with-rail' : ''}`}>
			{beside && <Rail ready={!fresh.value || fatal !== null} onRun={run} />}
			<h1 class="unseen">Explore profiles</h1>
			<section class="controls">
				<div class="picks">
					{!overview && <button type="button" class="square" title="Who uses the CPU (o)" aria-label="Who uses the CPU" aria-expanded={railOpen.value} onClick={toggleRail}><Grid /></button>}
					<TypePicker types={list} current={current} {...open('type')} onPick={(t) => run(withType(overview ? '' : query.value, spelling(t), t.kind))} />
				</div>
				<QueryBar value={query.value} onRun={run} errorAt={at} ran={query.value}>
					<History query={query.value} {...open('history')} onRun={run} />
				</QueryBar>
				<Pickers query={base} parts={parts} opened={opened.value} setOpened={show} onRun={run} />
				<div class="when">
					<TimeRange value={range.value} now={now.value} onChange={(r) => { range.value = r; selection.value = null; writeUrl('push'); }} />
					<RefreshControl every={refresh.value} busy={busy.value} onNow={() => { tick.value++; lookAgain.value++; }} onEvery={(s) => { refresh.value = s; writeUrl('replace'); }} />
					{has('diff') && <CompareButton />}
					<CopyButton class="square" icon={<Link />} title="Copy a link to exactly this" text={() => permalink(now.value)} />
				</div>
				<div class={`progress ${busy.value ? 'on' : ''}`} />
			</section>
			{overview && <Overview ready={asked.value} onFirst={(first) => { const b = bounds(range.value, nowSeconds()); fitRange(first, b.from + (b.to - b.from) / 15, b.to, fresh.value); fresh.value = false; }} onRun={run} />}
			{fatal && <ErrorBox error={fatal} query={fatal.status ? query.value : undefined} at={at} />}
			{graphError.value && !fatal && <ErrorBox error={graphError.value} />}
			{!overview && !graph.value && !graphError.value && !fatal && <div class="panel loading graph-place" aria-busy="true"><div class="skeleton" /></div>}
			{graph.value && <GraphPanel state={graph.value} title={graph.value.plain && current ? current.title : 'Value of the query'} stale={(fatal ?? graphError.value) !== null} selection={selection.value} span={span} onSelect={select} onRun={run} />}
			{profile.value && <ProfilePanel state={profile.value} stale={fatal !== null} selection={<Picked query={query.value} selection={selection.value} span={span} time={profile.value.time} onClear={() => select(null)} />} />}
			{values.value && <ValueTable expr={values.value.expr} samples={values.value.samples} />}
			{graph.value && (profile.value || values.value) && !fatal && <ExplainPanel key={graph.value.expr} expr={graph.value.expr} times={graph.value.times} />}
			{!overview && !profile.value && !values.value && !fatal && <div class="panel loading" aria-busy="true"><div class="skeleton tall" /></div>}
			<Warnings of={warnings.value} />
		</div>
	);
}

/** While the user has not chosen a range: at first only the time with data, later more, up to an hour. first: since when there is data; from:
 * where the shown part begins. */
function fitRange(first: number, from: number, now: number, isFirst: boolean): void {
	const r = range.value, lengths = [300, 900, 3600];
	if (!('auto' in r)) return;
	const filled = first <= from + r.last / 100, age = now - first;
	if (!isFirst && !(filled && r.last < 3600)) return;
	const last = filled ? lengths.find((n) => n > r.last) ?? 3600 : lengths.find((n) => n >= age) ?? 3600;
	if (last !== r.last) range.value = { last, auto: true };
}

/** The part of the graph that the query as typed adds up: the last `[range]` of a plain merge. */
function defaultSpan(q: string, now: number): { from: number; to: number } | null {
	const r = range.value, end = bounds(r, now).to, p = plainSelector(unfiltered(q));
	const seconds = p?.s.range ? parseDuration(p.s.range) : NaN;
	return Number.isFinite(seconds) && seconds > 0 ? { from: end - seconds, to: end } : null;
}

/** The time range of the flame graph below. */
function Picked({ query: q, selection: s, span, time, onClear }: {
	query: string; selection: Selection; span: { from: number; to: number } | null; time: number; onClear: () => void;
}) {
	const compare = has('diff') && <button type="button" class="ghost tiny" title="Compare with the time before, of the same length" onClick={() => startCompare()}>vs before</button>;
	if (s) {
		return (
			<span class="picked on">
				{'at' in s ? <>profiles at <b>{moment(s.at)}</b>{s.of && <> of <b>{Object.values(s.of).filter(Boolean).join(' · ')}</b></>}</> : <><b>{clock(s.from)} – {clock(s.to)}</b> ({formatDuration(s.to - s.from)})</>}
				{compare}
				<button type="button" class="ghost tiny" title="Back to the query as typed" aria-label="Clear the picked time" onClick={onClear}><Close /></button>
			</span>
		);
	}
	return <span class="picked">{span && plainSelector(unfiltered(q)) ? <><b>{clock(span.from)} – {clock(span.to)}</b> ({formatDuration(span.to - span.from)})</> : <>at <b>{moment(time)}</b></>}{compare}</span>;
}

/** The profile of the query; what is no profile but numbers is shown as numbers. */
async function runProfile(q: string, now: number, width: number, signal: AbortSignal): Promise<{ profile?: ProfileState; values?: { expr: string; samples: VectorSample[] }; warnings: string[] }> {
	const f = flameQuery(q, selection.value, bounds(range.value, now).to);
	try {
		const a = await loadProfile(f.expr, f.time, width, signal);
		return { profile: { ...a.profile, asked: JSON.stringify([q, selection.value, range.value]) }, warnings: a.warnings };
	} catch (e) {
		if (!(e instanceof ApiError) || e.status < 400 || e.status >= 500) throw e;
		const a = await api.query(f.expr, f.time, signal).catch(() => null);
		const samples = a && vectorOf(a.data);
		if (!samples) throw e;
		return { values: { expr: f.expr, samples }, warnings: a.warnings };
	}
}

function vectorOf(d: QueryData): VectorSample[] | null {
	switch (d.resultType) {
	case 'vector': return d.result;
	case 'scalar': case 'string': return [{ metric: {}, value: d.result }];
	default: return null;
	}
}
