// SPDX-License-Identifier: Apache-2.0
// Why the graph has nothing to show, and what would help.
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { pageHref, range, selection, types, writeUrl } from '../base/state';
import { day, moment, clock } from '../base/time';
import { formatAxis, formatDuration } from '../base/units';
import { selectors, withMatchers, withoutMatcher, withType } from '../query/query';
import { findType, spelling } from '../query/typepicker';
import type { GraphState } from './graphpanel';
import { whyNothing, type Reason } from './reasons';

/** Moments are found to a fiftieth of how far away they are. */
const about = (t: number, from: number): string => Math.abs(t - from) > 3 * 86400 ? day(t) : Math.abs(t - from) > 3600 ? `${moment(t).slice(0, -3)}` : clock(t);
const lasting = (s: number): string => formatDuration(s > 86400 ? Math.round(s / 3600) * 3600 : s > 600 ? Math.round(s / 60) * 60 : Math.round(s));

export function NoSeries({ q, g, onRun }: { q: string; g: GraphState; onRun: (q: string) => void }) {
	const [found, setFound] = useState<{ q: string; reason: Reason } | null>(null);
	useEffect(() => {
		const abort = new AbortController();
		whyNothing(q, g.from, g.to, Date.now() / 1000, abort.signal).then((reason) => setFound({ q, reason }), () => undefined);
		return () => abort.abort();
	}, [q, g.expr, g.to - g.from, Math.floor(g.to / 60)]);
	return (
		<div class="none" role="status">
			{found?.q === q ? <Why reason={found.reason} q={q} g={g} onRun={onRun} /> : <p>No series in this time range.</p>}
		</div>
	);
}

const Act = ({ onClick, children }: { onClick: () => void; children: ComponentChildren }) => <button type="button" class="link" onClick={onClick}>{children}</button>;
const List = <T,>({ items, item }: { items: T[]; item: (t: T) => ComponentChildren }) => <>{items.map((t, i) => <span key={i}>{i > 0 && ', '}{item(t)}</span>)}</>;

function Why({ reason: r, q, g, onRun }: { reason: Reason; q: string; g: GraphState; onRun: (q: string) => void }) {
	const s = selectors(q)[0], chosen = findType(types.value, s?.name ?? '');
	const subject = chosen?.title ?? (s?.name ? <code>{s.name}</code> : <code>{s ? q.slice(s.start, s.end) : q}</code>);
	switch (r.kind) {
	case 'empty':
		return <><p>Nothing is stored yet.</p><p class="hint">The first samples come when a target was scraped: <a href={pageHref('targets')}>targets</a> says how they are.</p></>;
	case 'name':
		return (
			<>
				<p>There is no profile type and no metric called <code>{r.name}</code>.</p>
				{r.near.length > 0 ? <p class="hint">Did you mean <List items={r.near} item={(n) => <Act onClick={() => onRun(renamed(q, r.name, n))}><code>{n}</code></Act>} />?</p> : <Others not={chosen?.name} onRun={onRun} />}
			</>
		);
	case 'matcher':
		return (
			<>
				<p>No series of {findType(types.value, r.s.name)?.title ?? (r.s.name ? <code>{r.s.name}</code> : 'any type')} {r.matcher ? <>match <code>{r.matcher}</code></> : <>match all of <code>{`{${r.s.matchers}}`}</code></>} in this time range.</p>
				{r.values.length > 0 && <p class="hint"><code>{r.label}</code> has <List items={r.values} item={(v) => <Act onClick={() => onRun(withMatchers(withoutMatcher(q, r.matcher), { [r.label]: v }))}><code>{v}</code></Act>} /></p>}
				<p class="hint"><Act onClick={() => onRun(withoutMatcher(q, r.matcher || undefined))}>{r.matcher ? 'Leave that matcher out' : 'Leave the matchers out'}</Act></p>
			</>
		);
	case 'time': return <Elsewhere r={r} g={g} subject={subject} />;
	case 'down': return <><p>No series of {subject} match.</p><Down r={r} /></>;
	case 'comparison':
		return (
			<>
				<p>The values are between {formatAxis(r.low, g.unit)} and {formatAxis(r.high, g.unit)} in this time range: none is {r.op} {r.bound}.</p>
				<p class="hint"><Act onClick={() => onRun(r.expr)}>Show the values without the comparison</Act></p>
			</>
		);
	case 'window':
		return <><p>There are series, but not enough samples within <code>[{r.range}]</code>: they are scraped less often than that.</p><p class="hint"><Act onClick={() => onRun(r.query)}>Use <code>[{r.longer}]</code></Act></p></>;
	case 'rest':
		return <><p>{s ? <>The query leaves nothing of the series that it selects in this time range.</> : <>The query selects no series.</>}</p><Others not={chosen?.name} onRun={onRun} /></>;
	}
}

function Elsewhere({ r, g, subject }: { r: Extract<Reason, { kind: 'time' }>; g: GraphState; subject: ComponentChildren }) {
	const show = (t: number, last: boolean) => () => {
		const wide = Math.max(300, g.to - g.from), slack = wide / 10;
		range.value = last ? { from: Math.round(t - wide + slack), to: Math.round(t + slack) } : { from: Math.round(t - slack), to: Math.round(t + wide - slack) };
		selection.value = null;
		writeUrl('push');
	};
	return (
		<>
			{r.before === null && r.after !== null && <p>This range ends before the first data of {subject}, which {r.gone ? 'is kept' : 'came'} from about {about(r.after, g.to)} on, {lasting(r.after - g.to)} later.</p>}
			{r.before !== null && r.after === null && <p>The last data of {subject} is from about {about(r.before, g.from)}, {lasting(g.from - r.before)} before this range: none came since.</p>}
			{r.before !== null && r.after !== null && <p>There is no data of {subject} in this range: it is in a gap from about {about(r.before, g.from)} to about {about(r.after, g.to)}.</p>}
			{r.before === null && r.after === null && <p>There is no data of {subject} in this time range.</p>}
			{r.gone && <p class="hint">What is older than the retention ({r.retention}) is no longer kept.</p>}
			<Down r={r} />
			<p class="hint">
				{r.before !== null && <Act onClick={show(r.before, true)}>Show the last data before it</Act>}
				{r.before !== null && r.after !== null && ' · '}
				{r.after !== null && <Act onClick={show(r.after, false)}>Show the first data {r.before === null ? 'there is' : 'after it'}</Act>}
			</p>
		</>
	);
}

function Down({ r }: { r: { down: { labels: Record<string, string>; scrapePool: string; lastError: string }[] } }) {
	if (!r.down.length) return null;
	const names = [...new Set(r.down.map((t) => `${t.scrapePool}/${t.labels.instance ?? ''}`))], first = r.down.find((t) => t.lastError);
	return <p class="hint">{names.length === 1 ? 'A target is' : `${names.length} targets are`} down: {names.slice(0, 3).join(', ')}{names.length > 3 && ' …'}{first && <>. {first.lastError}</>} <a href={pageHref('targets')}>Targets</a></p>;
}

function Others({ not, onRun }: { not?: string; onRun: (q: string) => void }) {
	const known = (types.value ?? []).filter((t) => t.series > 0 && t.name !== not);
	return known.length > 0 ? <p class="hint">There is data for <List items={known} item={(t) => <Act onClick={() => onRun(withType('', spelling(t)))}>{t.title}</Act>} />.</p> : null;
}

/** The same query with another name in its place. */
const renamed = (q: string, from: string, to: string): string => {
	const s = selectors(q).find((x) => x.name === from);
	return s && s.nameEnd > s.nameStart ? q.slice(0, s.nameStart) + to + q.slice(s.nameEnd) : withType('', to);
};

/** Series there are, but nothing to see in them. */
export function AllZero({ g }: { g: GraphState }) {
	const values = g.series.flatMap((s) => s.values).filter((v) => v !== null);
	if (values.some((v) => v !== 0)) return null;
	return (
		<p class="graph-note" role="status">
			{values.length ? <>All values are 0 in this time{g.plain ? ': what was measured did nothing.' : '.'} Data is not missing.</> : <>The series have no numbers in this time: a division by 0 gives none.</>}
		</p>
	);
}
