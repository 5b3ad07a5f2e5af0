// SPDX-License-Identifier: Apache-2.0
// Rules by group: what is evaluated, how often, how that went. What fires is on the page of alerts.
import { useRef } from 'preact/hooks';
import { useSignal, type Signal } from '@preact/signals';
import { api, ApiError, type Answer, type Labels, type Rule, type RuleGroup } from '../base/api';
import { count, patience, pillOf, stateOf, wanted, when } from './alerting';
import { ErrorBox, Warnings } from '../base/errors';
import { Search } from '../base/icons';
import { go, page, pageHref, query, queryHref, range, ruleFind, ruleState, selection, writeUrl } from '../base/state';
import { asked, usePoll } from './targetlist';
import { ago } from '../base/time';
import { Segments } from '../base/ui';
import { formatDuration, formatValue } from '../base/units';

const ROWS = 300;

export const number = (v: number): string => v.toLocaleString('en-US');

/** The current groups, requested regularly; a slow answer is awaited. */
export function useGroups<R extends Rule>(ask: () => Promise<Answer<{ groups: RuleGroup<R>[] }>>): { groups: Signal<RuleGroup<R>[] | null>; error: Signal<ApiError | null>; warnings: Signal<string[]> } {
	const groups = useSignal<RuleGroup<R>[] | null>(null), error = useSignal<ApiError | null>(null), warnings = useSignal<string[]>([]);
	const busy = useRef(false);
	usePoll(5000, () => {
		if (busy.current) return;
		busy.current = true;
		ask().then((a) => { groups.value = a.data.groups; warnings.value = a.warnings; error.value = null; }, (e) => { error.value = e; }).finally(() => { busy.current = false; });
	}, []);
	return { groups, error, warnings };
}

/** A query that opens where queries are looked at. */
export const QueryLink = ({ q }: { q: string }) => (
	<a class="query-link" href={queryHref(q)} title="Open the query" onClick={(e) => {
		if (e.metaKey || e.ctrlKey || e.shiftKey || e.button) return;
		e.preventDefault();
		query.value = q;
		range.value = { last: 3600 };
		selection.value = null;
		go('explore');
	}}><code>{q.length > 2000 ? `${q.slice(0, 2000)}…` : q}</code></a>
);

export const RuleFind = ({ what }: { what: string }) => (
	<label class="field"><Search /><input type="search" placeholder={what} aria-label={what} value={ruleFind.value} onInput={(e) => asked(() => { ruleFind.value = e.currentTarget.value; })} /></label>
);

export const LabelChips = ({ labels, without = [] }: { labels: Labels; without?: string[] }) => (
	<span class="chips">{Object.entries(labels).filter(([k]) => !without.includes(k)).map(([k, v]) => <code key={k} title={v.length > 200 ? v.slice(0, 2000) : undefined}>{k}=<b>{v.length > 200 ? `${v.slice(0, 200)}…` : v}</b></code>)}</span>
);

export const StatePill = ({ state }: { state: string }) => <span class={`pill ${pillOf(state)}`}><i class="dot" />{state}</span>;

export const NoRules = ({ what }: { what: 'rules' | 'alerts' }) => (
	<div class="empty">
		<h2>There are no {what === 'rules' ? 'rules' : 'alerting rules'}</h2>
		<p>A rule is a query that the server evaluates at intervals, {what === 'rules' ? 'recorded as a series or told as an alert' : 'to tell you when it finds something'}. Name files of them in the configuration file:</p>
		<pre>{'rule_files: ["rules/*.yml"]'}</pre>
		<p>and write one, for example <code>rules/cpu.yml</code>:</p>
		<pre>{'groups:\n  - name: cpu\n    interval: 15s\n    rules:\n      - alert: FunctionEatsCPU\n        expr: self_share_low(merge by (job) (cpu[5m]), 3) > 0.3\n        for: 5m'}</pre>
		<p>Then reload the server; this page notices by itself.</p>
	</div>
);

type State = '' | 'firing' | 'pending' | 'failed';

export function RulesPage() {
	const { groups, error, warnings } = useGroups<Rule>(() => api.rules());
	const all = groups.value;
	const n = count(all ?? [], stateOf), state = (['firing', 'pending', 'failed'].includes(ruleState.value) ? ruleState.value : '') as State;
	const total = (all ?? []).reduce((s, g) => s + g.rules.length, 0);
	const shown = all && wanted(all, (r) => !state || stateOf(r) === state, ruleFind.value);
	return (
		<div class="wide">
			<div class="page-head">
				<h1>Rules</h1>
				<Segments<State> label="State" value={state} onChange={(s) => asked(() => { ruleState.value = s; })}
					options={[['', `All ${number(total)}`], ['firing', `Firing ${number(n.firing ?? 0)}`], ['pending', `Pending ${number(n.pending ?? 0)}`], ['failed', `Failed ${number(n.failed ?? 0)}`, 'The last evaluation went wrong']]} />
				<RuleFind what="Filter by name, query, label or error" />
			</div>
			{error.value && <ErrorBox error={error.value} />}
			{all && total === 0 && <NoRules what="rules" />}
			{shown && total > 0 && shown.length === 0 && <p class="hint">No rule matches the filter.</p>}
			{shown && <Groups groups={shown} />}
			<Warnings of={warnings.value} />
		</div>
	);
}

/** As many groups as there is room for on a page that stays quick. */
function Groups({ groups }: { groups: RuleGroup[] }) {
	const limit = useSignal(ROWS);
	let rows = 0;
	const shown = groups.filter((g) => { const fits = rows < limit.value; rows += g.rules.length; return fits; });
	return (
		<>
			{shown.map((g) => <Group key={`${g.file} ${g.name}`} g={g} />)}
			{shown.length < groups.length && <button type="button" class="more-rows" onClick={() => { limit.value += 10 * ROWS; }}>{number(groups.length - shown.length)} more groups</button>}
		</>
	);
}

function Group({ g }: { g: RuleGroup }) {
	const limit = useSignal(ROWS), last = when(g.lastEvaluation), late = g.evaluationTime > g.interval;
	return (
		<section class="panel rules">
			<header class="panel-head">
				<h2>{g.name}</h2><code class="file">{g.file}</code><div class="grow" />
				<span class="facts-line">
					<span>every {formatDuration(g.interval)}</span>
					<span title={last ? g.lastEvaluation : ''}>{last ? `evaluated ${ago(last)}` : 'not evaluated yet'}</span>
					{last > 0 && <span class={late ? 'error-text' : ''} title={late ? 'An evaluation takes longer than the interval: slots are skipped' : ''}>took {formatValue(g.evaluationTime, 'seconds')}</span>}
					{g.limit > 0 && <span>limit {number(g.limit)}</span>}
				</span>
			</header>
			<ul>{g.rules.slice(0, limit.value).map((r, i) => <Row key={`${r.name} ${i}`} r={r} />)}</ul>
			{g.rules.length > limit.value && <button type="button" class="more-rows" onClick={() => { limit.value += 10 * ROWS; }}>{number(g.rules.length - limit.value)} more rules</button>}
		</section>
	);
}

function Row({ r }: { r: Rule }) {
	const last = when(r.lastEvaluation), more = r.type === 'alerting' ? patience(r) : '';
	const state = stateOf(r), active = r.type === 'alerting' && (r.state === 'firing' || r.state === 'pending');
	return (
		<li class="rule">
			<StatePill state={state} />
			<div>
				<div class="rule-name"><b>{r.name}</b><span class="hint">{r.type === 'alerting' ? 'alert' : 'record'}{more && ` ${more}`}</span><LabelChips labels={r.labels} />
					{active && <a class="see" href={`${pageHref('alerts')}?${new URLSearchParams({ find: r.name })}`} onClick={(e) => {
						if (e.metaKey || e.ctrlKey || e.shiftKey || e.button) return;
						e.preventDefault();
						page.value = 'alerts';
						ruleState.value = '';
						ruleFind.value = r.name;
						writeUrl('push');
						scrollTo(0, 0);
					}}>its alerts</a>}</div>
				<QueryLink q={r.query} />
				{r.lastError && <p class="error-text">{r.lastError}</p>}
			</div>
			<span class="rule-times"><span title={last ? r.lastEvaluation : ''}>{last ? ago(last) : 'not yet'}</span><span>{last ? formatValue(r.evaluationTime, 'seconds') : ''}</span></span>
		</li>
	);
}
