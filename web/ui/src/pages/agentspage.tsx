// SPDX-License-Identifier: Apache-2.0
// Agents: which hosts are profiled, by which version, how often, and what they cannot see.
import { useEffect } from 'preact/hooks';
import { useSignal } from '@preact/signals';
import { api, ApiError, type QueryData, type VectorSample } from '../base/api';
import { ErrorBox } from '../base/errors';
import { Search } from '../base/icons';
import { asNumber, asText, find, go, inUrl, job, oneOf, pageHref, writeUrl } from '../base/state';
import { ago } from '../base/time';
import { CopyButton, ScrollX, Segments } from '../base/ui';
import { formatShare, formatValue } from '../base/units';
import { agentsOf, countersOf, figuresOf, gaugesOf, METRICS_LINES, MUCH_LOST, MUCH_TRUNCATED, nameOf, REASONS, SPAN, stateOf, troubled, versionsOf, WERE, WHO, type Agent, type Figures } from './agents';
import { QueryLink } from './rules';
import { asked, Pages, usePoll } from './targetlist';

const ROWS = 100;
type Wanted = '' | 'up' | 'down' | 'blind';
const agentFind = inUrl(['agents'], 'find', '', asText);
const wantedState = inUrl<Wanted>(['agents'], 'state', '', oneOf<Wanted>('', 'up', 'down', 'blind'));
const offset = inUrl(['agents'], 'offset', 0, asNumber);

const vector = (d: QueryData): VectorSample[] => d.resultType === 'vector' ? d.result : [];
const n = (v: number): string => v.toLocaleString('en-US');

function useAgents() {
	const agents = useSignal<Agent[] | null>(null), error = useSignal<ApiError | null>(null);
	usePoll(10000, () => {
		const now = Date.now() / 1000;
		Promise.all([api.query(WHO, now), api.query(WERE, now)]).then(([who, were]) => { agents.value = agentsOf(vector(who.data), vector(were.data)); error.value = null; }, (e) => { error.value = e; });
	}, []);
	return { agents, error };
}

/** Figures of the shown ones; of all at once if there are few. */
function useFigures(shown: Agent[], few: boolean) {
	const figures = useSignal(new Map<string, Figures>()), error = useSignal<ApiError | null>(null);
	const some = few ? null : shown.filter((a) => a.metrics), key = few ? `all ${shown.some((a) => a.metrics)}` : some!.map((a) => a.key).join();
	useEffect(() => {
		if (!(some ?? shown).some((a) => a.metrics)) return;
		const stop = new AbortController();
		const ask = () => {
			if (document.hidden) return;
			const now = Date.now() / 1000;
			Promise.all([api.query(gaugesOf(some), now, stop.signal), api.query(countersOf(some), now, stop.signal)])
				.then(([g, c]) => { figures.value = figuresOf(vector(g.data), vector(c.data)); error.value = null; }, (e) => { if (!stop.signal.aborted) error.value = e; });
		};
		ask();
		const timer = setInterval(ask, 15000);
		return () => { stop.abort(); clearInterval(timer); };
	}, [key]);
	return { figures: figures.value, error: error.value };
}

export function AgentsPage() {
	const { agents, error } = useAgents(), all = agents.value ?? [], text = agentFind.value.trim().toLowerCase();
	const isWanted = (a: Agent) => !wantedState.value || (wantedState.value === 'up' ? stateOf(a) === 'up' : wantedState.value === 'down' ? stateOf(a) === 'down' : !a.metrics);
	const found = all.filter((a) => isWanted(a) && (!text || [a.node, a.instance, a.version, a.kernel, ...a.jobs].some((s) => s.toLowerCase().includes(text))));
	const from = offset.value < found.length ? offset.value : 0, shown = found.slice(from, from + ROWS);
	const told = useFigures(shown, all.length <= ROWS), f = told.figures;
	const rows = [...shown].sort((a, b) => Number(troubled(b, f.get(b.key))) - Number(troubled(a, f.get(a.key))));
	const versions = versionsOf(all), blind = all.filter((a) => !a.metrics && a.up !== false);
	return (
		<div class="wide">
			<div class="page-head">
				<h1>Agents</h1>
				{all.length > 0 && <>
					<Segments<Wanted> label="State" value={wantedState.value} onChange={(s) => asked(() => { wantedState.value = s; offset.value = 0; })}
						options={[['', `All ${n(all.length)}`], ['up', `Up ${n(all.filter((a) => stateOf(a) === 'up').length)}`], ['down', `Down ${n(all.filter((a) => stateOf(a) === 'down').length)}`],
							['blind', `Without metrics ${n(all.filter((a) => !a.metrics).length)}`, 'Their profiles are stored, not what they tell of themselves']]} />
					<label class="field"><Search /><input type="search" placeholder="Filter by host, version or job" aria-label="Filter by host, version or job" value={agentFind.value}
						onInput={(e) => asked(() => { agentFind.value = e.currentTarget.value; offset.value = 0; })} /></label>
					<span class="hint">{versions.length === 1 ? `all of version ${versions[0]}` : versions.length > 1 ? `${versions.length} versions, the newest is ${versions[0]}` : ''}</span>
					<Pages offset={from} all={found.length} rows={ROWS} what="agents" go={(to) => { offset.value = to; writeUrl('push'); scrollTo(0, 0); }} />
				</>}
			</div>
			{(error.value ?? told.error) && <ErrorBox error={(error.value ?? told.error)!} />}
			{!agents.value && !error.value && <div class="panel loading" aria-busy="true"><div class="skeleton" /></div>}
			{agents.value && all.length === 0 && <NoAgents />}
			{all.length > 0 && found.length === 0 && <p class="hint">No agent matches the filter.</p>}
			{rows.length > 0 && (
				<section class="panel agents" aria-label="Agents">
					<h2 class="unseen">Those that match</h2>
					<ScrollX label="Agents">
						<table class="data cards">
							<thead><tr><th>Host</th><th>State</th><th>Version</th><th class="num">Frequency</th><th class="num">CPUs</th><th class="num" title={`Of the CPU time of the last ${SPAN}`}>Lost</th><th class="num" title={`Of the stacks of the last ${SPAN}`}>Truncated</th><th class="num" title="Of the host's CPUs">Costs</th><th class="num">Started</th></tr></thead>
							<tbody>{rows.map((a) => <Row key={a.key} a={a} f={f.get(a.key)} newest={versions[0]} />)}</tbody>
						</table>
					</ScrollX>
				</section>
			)}
			{blind.length > 0 && <Blind agents={blind} />}
		</div>
	);
}

const PILLS = { up: 'up', down: 'down', 'no metrics': 'unknown', 'no profiles': 'unknown' } as const;
const known = (v: number, text: (v: number) => string): string => Number.isFinite(v) ? text(v) : '–';

function Row({ a, f, newest }: { a: Agent; f: Figures | undefined; newest: string | undefined }) {
	const open = useSignal(false), state = stateOf(a);
	return (
		<>
			<tr>
				<th scope="row"><button type="button" class="link" aria-expanded={open.value} title={a.instance} onClick={() => { open.value = !open.value; }}><i class="twist" aria-hidden="true">{open.value ? '▾' : '▸'}</i>{nameOf(a)}</button></th>
				<td data-of="State"><span class={`pill ${PILLS[state]}`}><i class="dot" />{state}</span></td>
				<td data-of="Version" class={a.version && a.version !== newest ? 'old' : ''} title={a.version && a.version !== newest ? `The newest here is ${newest}` : undefined}>{a.version || '–'}</td>
				<td data-of="Frequency" class="num">{f ? <>{known(f.hertz, (v) => `${Number(v.toFixed(1))} Hz`)}{f.reduced.length > 0 && <small class="warn" title="--max-cost lets it take less than it was asked for"> lowered</small>}</> : '–'}</td>
				<td data-of="CPUs" class="num">{f ? known(f.cpus, n) : '–'}</td>
				<td data-of="Lost" class={`num ${f && f.lost > MUCH_LOST ? 'error-text' : ''}`}>{f ? known(f.lost, formatShare) : '–'}</td>
				<td data-of="Truncated" class={`num ${f && f.truncated > MUCH_TRUNCATED ? 'error-text' : ''}`}>{f ? known(f.truncated, formatShare) : '–'}</td>
				<td data-of="Costs" class="num">{f ? known(f.cost, formatShare) : '–'}</td>
				<td data-of="Started" class="num">{f ? known(f.started, (v) => ago(v)) : '–'}</td>
			</tr>
			{state === 'down' && <tr class="error-row"><td colSpan={9}>It does not answer. <a href={`${pageHref('targets')}?${new URLSearchParams({ find: a.instance })}`} onClick={(e) => {
				if (e.metaKey || e.ctrlKey || e.shiftKey || e.button) return;
				e.preventDefault();
				find.value = a.instance;
				job.value = '';
				go('targets');
			}}>Targets</a> says why, and what to do.</td></tr>}
			{f?.configBad && <tr class="error-row"><td colSpan={9}>Its configuration could not be read when it last changed: the one before is at work. Its log says why.</td></tr>}
			{open.value && <tr class="opened"><td colSpan={9}><Opened a={a} f={f} /></td></tr>}
		</>
	);
}

function Opened({ a, f }: { a: Agent; f: Figures | undefined }) {
	const me = `instance=${JSON.stringify(a.instance)}`;
	return (
		<div class="opened-body">
			<dl class="annotations">
				<div><dt>Address</dt><dd>{a.instance}</dd></div>
				<div><dt>{a.jobs.length === 1 ? 'Job' : 'Jobs'}</dt><dd>{a.jobs.join(', ')}</dd></div>
				{a.kernel && <div><dt>Kernel</dt><dd>{a.kernel}</dd></div>}
				{f && Number.isFinite(f.processes) && <div><dt>Processes</dt><dd>{n(f.processes)}</dd></div>}
				{f && f.threshold > 0 && <div><dt>Waits</dt><dd>of {formatValue(f.threshold, 'seconds')} and more</dd></div>}
				{f && f.late >= 1 && <div><dt>Late</dt><dd>{n(Math.round(f.late))} times in the last {SPAN} it did not get the CPU for two seconds</dd></div>}
			</dl>
			{f && <Shares title="Lost" list={f.lostBy} nothing="Nothing was lost." />}
			{f && <Shares title="Truncated stacks" list={f.endsBy} nothing="All stacks are whole." />}
			<div><h3>To look at</h3><ul class="queries">
				<li><QueryLink q={`sum by (comm) (rate(on_cpu{${me}}[5m]))`} /></li>
				{a.metrics && <><li><QueryLink q={`sum by (end) (rate(pyrrha_agent_stacks_total{${me}, end!="bottom"}[5m]))`} /></li>
					<li><QueryLink q={`sum by (reason) (rate(pyrrha_agent_lost_samples_total{${me}}[5m]))`} /></li>
					<li><QueryLink q={`pyrrha_agent_frequency_hertz{${me}}`} /></li></>}
			</ul></div>
		</div>
	);
}

const Shares = ({ title, list, nothing }: { title: string; list: [string, number][]; nothing: string }) => (
	<div><h3>{title}, last {SPAN}</h3>{list.length === 0 ? <p class="hint">{nothing}</p> : (
		<dl class="annotations agent-shares">{list.map(([k, v]) => <div key={k}><dt>{formatShare(v)}</dt><dd><code>{k}</code> <span class="hint">{REASONS[k] ?? ''}</span></dd></div>)}</dl>
	)}</div>
);

/** Agents with only profiles stored: the configuration for the rest. */
function Blind({ agents }: { agents: Agent[] }) {
	const jobs = [...new Set(agents.flatMap((a) => a.jobs))].slice(0, 5);
	return (
		<section class="panel advice" aria-label="Without metrics">
			<h2>The metrics of {agents.length === 1 ? nameOf(agents[0]) : `${n(agents.length)} agents`} are not stored</h2>
			<p>So their version, frequency, lost and truncated shares are not known. A job that scrapes an agent's profiles scrapes its metrics, too, with a <code>metrics_path</code>:</p>
			{jobs.map((j) => <div key={j} class="lines"><pre>{METRICS_LINES(j)}</pre><CopyButton text={METRICS_LINES(j)} title="Copy" /></div>)}
			<p class="hint">Then reload the server; this page notices by itself.</p>
		</section>
	);
}

const NEW_JOB = 'scrape_configs:\n  - job_name: agent\n    metrics_path: /metrics\n    profiling_config: {preset: agent}\n    static_configs:\n      - targets: ["127.0.0.1:7071"]';

const NoAgents = () => (
	<div class="empty">
		<h2>There is no agent</h2>
		<p>An agent profiles every process of a Linux host, whatever it is written in, and changes none of them. Start one on each host, as root or with the rights of its unit in <code>deploy/</code>:</p>
		<pre>pyrrha-agent</pre>
		<p>and scrape it, its profiles and its metrics:</p>
		<div class="lines"><pre>{NEW_JOB}</pre><CopyButton text={NEW_JOB} title="Copy" /></div>
		<p>Then reload the server; this page notices by itself. Agents whose profiles are stored under other names than on_cpu and off_cpu, and without their metrics, are not found.</p>
	</div>
);
