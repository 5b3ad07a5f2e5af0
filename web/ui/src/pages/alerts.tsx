// SPDX-License-Identifier: Apache-2.0
// Alerts: rules that tell of something, those that do so now first, each alert with its labels, annotations, since when it is
// active, and a graph of what it looks at.
import { useEffect } from 'preact/hooks';
import { useSignal } from '@preact/signals';
import { api, ApiError, type Alert, type AlertingRule, type Labels, type RuleGroup } from '../base/api';
import { count, isSeriesOf, linkOf, ordered, patience, stateOf, threshold, wanted, weight, when } from './alerting';
import { ErrorBox, Warnings } from '../base/errors';
import { LabelChips, NoRules, number, QueryLink, RuleFind, StatePill, useGroups } from './rules';
import { SeriesGraph } from '../graph/seriesgraph';
import { alignSeries, type GraphSeries } from '../graph/seriesnames';
import { go, query, range, ruleFind, ruleState, selection, stepFor } from '../base/state';
import { asked } from './targetlist';
import { ago, moment } from '../base/time';
import { Segments } from '../base/ui';
import { formatAxis } from '../base/units';

const RULES = 100;
const ALERTS = 50;
const TEXT = 500;
const HOUR = 3600;

type State = '' | 'firing' | 'pending' | 'inactive' | 'failed';
type Found = { g: RuleGroup<AlertingRule>; r: AlertingRule };

export function AlertsPage() {
	const { groups, error, warnings } = useGroups<AlertingRule>(() => api.alertingRules());
	const limit = useSignal(RULES);
	const all = groups.value, n = count(all ?? [], stateOf), total = (all ?? []).reduce((s, g) => s + g.rules.length, 0);
	const state = (['firing', 'pending', 'inactive', 'failed'].includes(ruleState.value) ? ruleState.value : '') as State;
	const found: Found[] | null = all && wanted(all, (r) => !state || stateOf(r) === state, ruleFind.value).flatMap((g) => g.rules.map((r) => ({ g, r })))
		.map((f, i) => ({ f, i })).sort((a, b) => weight(a.f.r) - weight(b.f.r) || a.i - b.i).map((x) => x.f);
	return (
		<div class="wide">
			<div class="page-head">
				<h1>Alerts</h1>
				<Segments<State> label="State" value={state} onChange={(s) => asked(() => { ruleState.value = s; })}
					options={[['', `All ${number(total)}`], ['firing', `Firing ${number(n.firing ?? 0)}`], ['pending', `Pending ${number(n.pending ?? 0)}`, 'Found, but not for long enough'],
						['inactive', `Inactive ${number(n.inactive ?? 0)}`], ...(n.failed ? [['failed', `Failed ${number(n.failed)}`, 'The last evaluation went wrong'] as [State, string, string]] : [])]} />
				<RuleFind what="Filter by name, label, annotation or query" />
			</div>
			{error.value && <ErrorBox error={error.value} />}
			{all && total === 0 && <NoRules what="alerts" />}
			{found && total > 0 && found.length === 0 && <p class="hint">No alert matches the filter.</p>}
			{found?.slice(0, limit.value).map(({ g, r }, i) => <RulePanel key={`${g.file} ${g.name} ${r.name} ${JSON.stringify(r.labels)} ${i}`} g={g} r={r} />)}
			{found && found.length > limit.value && <button type="button" class="more-rows" onClick={() => { limit.value += 10 * RULES; }}>{number(found.length - limit.value)} more rules</button>}
			<Warnings of={warnings.value} />
		</div>
	);
}

/** One rule with its alerts: all of them if it fires, otherwise only the rule. */
function RulePanel({ g, r }: { g: RuleGroup; r: AlertingRule }) {
	const limit = useSignal(ALERTS), alerts = r.alerts ?? [], last = when(r.lastEvaluation), more = patience(r);
	const sorted = [...alerts].sort((a, b) => Number(a.state === 'pending') - Number(b.state === 'pending') || a.activeAt.localeCompare(b.activeAt));
	return (
		<section class="panel alert-rule" aria-label={r.name}>
			<header class="panel-head">
				<StatePill state={stateOf(r)} /><h2>{r.name}</h2>
				{alerts.length > 0 && <span class="unit">{number(alerts.length)} {alerts.length === 1 ? 'alert' : 'alerts'}</span>}
				<LabelChips labels={r.labels} /><div class="grow" />
				<span class="facts-line">{more && <span>{more}</span>}<span>{g.name}</span><span title={last ? r.lastEvaluation : ''}>{last ? `evaluated ${ago(last)}` : 'not evaluated yet'}</span></span>
			</header>
			<div class="alert-query"><QueryLink q={r.query} />{r.lastError && <p class="error-text">{r.lastError}</p>}</div>
			{alerts.length > 0 && <ul class="alert-list">{sorted.slice(0, limit.value).map((a) => <AlertRow key={JSON.stringify(a.labels)} a={a} r={r} />)}</ul>}
			{alerts.length > limit.value && <button type="button" class="more-rows" onClick={() => { limit.value += 10 * ALERTS; }}>{number(alerts.length - limit.value)} more alerts</button>}
		</section>
	);
}

function AlertRow({ a, r }: { a: Alert; r: AlertingRule }) {
	const open = useSignal(false), since = when(a.activeAt), kept = a.keepFiringSince ? when(a.keepFiringSince) : 0, v = Number(a.value.replace('Inf', 'Infinity'));
	return (
		<li>
			<div class="alert-head">
				<StatePill state={a.state} />
				<LabelChips labels={a.labels} without={['alertname']} />
				<div class="grow" />
				<span class="facts-line">
					<span title={a.value}>value <b>{formatAxis(v, '')}</b></span>
					<span title={a.activeAt}>active since <b>{moment(since)}</b>, {ago(since)}</span>
					{kept > 0 && <span title={a.keepFiringSince}>gone since {moment(kept)}, kept firing</span>}
				</span>
				<button type="button" aria-expanded={open.value} onClick={() => { open.value = !open.value; }}>{open.value ? 'Hide graph' : 'Graph'}</button>
			</div>
			<Annotations annotations={a.annotations} />
			{open.value && <AlertGraph a={a} r={r} since={since} />}
		</li>
	);
}

const Annotations = ({ annotations }: { annotations: Labels }) => Object.keys(annotations).length === 0 ? null : (
	<dl class="annotations">{ordered(annotations).map(([k, v]) => <div key={k}><dt>{k}</dt><dd><AnnotationText text={v} /></dd></div>)}</dl>
);

/** However long: the beginning, and the rest when it is asked for. */
function AnnotationText({ text }: { text: string }) {
	const all = useSignal(false), link = linkOf(text);
	const shown = all.value || text.length <= TEXT ? text : `${text.slice(0, TEXT)}…`;
	return (
		<>
			{link ? <a href={link} rel="noreferrer" target="_blank">{shown}</a> : shown}
			{text.length > TEXT && <> <button type="button" class="link" onClick={() => { all.value = !all.value; }}>{all.value ? 'Less' : `All of its ${number(text.length)} characters`}</button></>}
		</>
	);
}

interface Drawn { times: number[]; series: GraphSeries[]; expr: string }

/** The alert's expression over the last hour, and from a little before it became active if that is within a day: with the threshold as
 * a line, if the rule is a comparison with one. */
function AlertGraph({ a, r, since }: { a: Alert; r: AlertingRule; since: number }) {
	const drawn = useSignal<Drawn | null>(null), error = useSignal<ApiError | null>(null);
	useEffect(() => {
		const abort = new AbortController();
		drawAlert(a, r, since, abort.signal).then((d) => { drawn.value = d; }, (e) => { if (!abort.signal.aborted) error.value = e instanceof ApiError ? e : new ApiError('internal', String(e)); });
		return () => abort.abort();
	}, []);
	const d = drawn.value;
	if (error.value) return <ErrorBox error={error.value} />;
	if (!d) return <div class="loading" aria-busy="true"><div class="skeleton" /></div>;
	if (!d.series.some((s) => s.values.some((v) => v !== null))) return <p class="hint">The query has no values in this time.</p>;
	return <SeriesGraph times={d.times} series={d.series} unit="" selection={null} span={{ from: since, to: d.times[d.times.length - 1] }} onFilter={() => undefined}
		onSelect={(s) => { query.value = d.expr; range.value = { from: d.times[0], to: d.times[d.times.length - 1] }; selection.value = s; go('explore'); }} />;
}

async function drawAlert(a: Alert, r: AlertingRule, since: number, signal: AbortSignal): Promise<Drawn> {
	const t = threshold(r.query), expr = t?.expr ?? r.query, now = Date.now() / 1000;
	const span = Math.max(HOUR, Math.min(24 * HOUR, (now - since) * 1.25)), step = stepFor(span);
	const to = Math.floor(now / step) * step, from = to - Math.floor(span / step) * step;
	const answer = await api.range(expr, from, to, step, signal);
	const result = answer.data.filter((s) => isSeriesOf(s.metric, a, r));
	const { times, series } = alignSeries(result, from, to, step, expr);
	if (t && series.length > 0) series.push({ labels: {}, name: `${t.op} ${t.bound}`, values: times.map(() => t.bound), mean: t.bound, last: t.bound });
	return { times, series, expr };
}
