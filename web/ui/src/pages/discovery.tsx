// SPDX-License-Identifier: Apache-2.0
// Where targets come from: jobs and their sources, what each source has and what is wrong with it; and of every target
// that was found its labels before and after relabelling, or why it is not scraped. There may be tens of thousands: the
// server searches, and gives a page.
import { useSignal } from '@preact/signals';
import { api, ApiError, type Dropped as DroppedRow, type Job, type Labels, type RelabelStep, type Source } from '../base/api';
import { ErrorBox } from '../base/errors';
import { advice, changes, groupActive, groupDropped, nameOf, ruleText, stateOf, sum, troubled, type Found } from './jobs';
import { find, job, unscraped } from '../base/state';
import { asked, FindField, JobSelect, Pager, usePage, usePoll } from './targetlist';
import { ago } from '../base/time';
import { CopyButton, Segments } from '../base/ui';

const ROWS = 100;
const JOBS = 50;

const n = (v: number) => v.toLocaleString('en-US');
const count = (v: number, one: string) => `${n(v)} ${one}${v === 1 ? '' : 's'}`;

export function DiscoveryPage() {
	const jobs = useSignal<Job[] | null>(null);
	const error = useSignal<ApiError | null>(null);
	usePoll(5000, () => { api.jobs().then((a) => { jobs.value = a.data.jobs; error.value = null; }, (e) => { error.value = e; }); }, []);
	const list = jobs.value;
	return (
		<div class="wide">
			<div class="page-head"><h1>Service discovery</h1>{list && list.length > 1 && <JobSelect jobs={list} />}<FindField what="Filter by label, URL or reason" /></div>
			{error.value && <ErrorBox error={error.value} />}
			{list?.length === 0 && <div class="empty"><h2>There is no job</h2><p>Add one under <code>scrape_configs</code> in the configuration file and reload the server.</p></div>}
			{list && list.length > 0 && <Jobs jobs={job.value ? list.filter((j) => j.scrapePool === job.value) : list} />}
			{list && list.length > 0 && <FoundTargets jobs={list} />}
		</div>
	);
}

/** Jobs with something wrong come first. */
function Jobs({ jobs }: { jobs: Job[] }) {
	const limit = useSignal(JOBS);
	const sorted = [...jobs].sort((a, b) => Number(troubled(b)) - Number(troubled(a)));
	return (
		<section class="panel jobs">
			<header class="panel-head"><h2>Jobs</h2><span class="hint">{n(jobs.length)}</span></header>
			<ul class="job-list">{sorted.slice(0, limit.value).map((j) => {
				const on = job.value === j.scrapePool;
				return (
					<li key={j.scrapePool}>
						<button type="button" class="link" aria-pressed={on} title={on ? 'Show all jobs' : 'Show only this job'} onClick={() => asked(() => { job.value = on ? '' : j.scrapePool; })}>{j.scrapePool}</button>
						<span class="counts"><span>{n(j.targets)} <small>{j.targets === 1 ? 'target' : 'targets'}</small></span><span class={j.down ? 'error-text' : ''}>{n(j.up)} <small>up</small></span>
							<span class={j.failedProfiles ? 'error-text' : ''} title={j.failedProfiles ? `${count(j.failedProfiles, 'profile')} cannot be scraped` : ''}>{n(j.dropped)} <small>not scraped</small></span></span>
						<div>{j.sources.length ? j.sources.map((s, i) => <SourceLine key={i} s={s} />) : <span class="hint">no source of targets</span>}
							<JobConfig pool={j.scrapePool} /></div>
					</li>
				);
			})}</ul>
			{jobs.length > limit.value && <button type="button" class="more-rows" onClick={() => { limit.value += 10 * JOBS; }}>{n(jobs.length - limit.value)} more jobs</button>}
		</section>
	);
}

/** The job as the server understood it, asked for when it is opened. */
function JobConfig({ pool }: { pool: string }) {
	const yaml = useSignal<string | null>(null), error = useSignal<ApiError | null>(null);
	return (
		<details class="job-config" onToggle={(e) => {
			if (!e.currentTarget.open) { yaml.value = null; return; }
			api.jobConfig(pool).then((a) => { yaml.value = a.data.yaml; }, (x) => { error.value = x; });
		}}>
			<summary>Configuration</summary>
			{error.value && <ErrorBox error={error.value} />}
			{yaml.value !== null && <div class="lines"><pre>{yaml.value}</pre><CopyButton text={yaml.value} title="Copy" /></div>}
		</details>
	);
}

const STATES = { ready: ['up', 'ready'], waiting: ['unknown', 'waiting'], failing: ['down', 'failing'] } as const;

function SourceLine({ s }: { s: Source }) {
	const [cls, text] = STATES[stateOf(s)];
	const since = s.since ? Date.parse(s.since) / 1000 : 0, changed = Date.parse(s.lastChange) / 1000;
	return (
		<div class="source">
			<span class={`pill ${cls}`}><i class="dot" />{text}</span>
			<code>{s.kind.replace(/_configs$/, '')}{s.role && ` ${s.role}`}</code>
			{s.name && <span class="source-name">{s.name}</span>}
			<span class="hint" title={changed > 0 ? `It last reported a change ${ago(changed)}.` : ''}>{count(s.targets, 'target')} in {count(s.groups, 'group')}</span>
			{s.error && <p class="error-text">{s.error}{since > 0 && <span class="hint"> since {ago(since)}</span>}</p>}
			{s.error && <p class="hint">{advice(s.error)}{s.targets > 0 && ' Its earlier targets stay in use.'}</p>}
		</div>
	);
}

function FoundTargets({ jobs }: { jobs: Job[] }) {
	const mine = job.value ? jobs.filter((j) => j.scrapePool === job.value) : jobs, s = sum(mine), dropped = unscraped.value;
	const page = usePage(dropped ? 'dropped' : 'active', ROWS, '');
	const data = page.data.value;
	const rows = data ? dropped ? groupDropped(data.droppedTargets) : groupActive(data.activeTargets) : [];
	const all = data ? dropped ? data.droppedTargetCount : data.activeTargetCount : 0;
	return (
		<section class="panel found">
			<header class="panel-head">
				<h2>Targets</h2>
				<Segments<'active' | 'dropped'> label="Which targets" value={dropped ? 'dropped' : 'active'} onChange={(v) => asked(() => { unscraped.value = v === 'dropped'; })}
					options={[['active', `Scraped ${n(s.total)}`], ['dropped', `Not scraped ${n(s.dropped)}`, 'Found, but dropped by relabelling, or impossible to scrape']]} />
				<div class="grow" />
				<Pager page={page} all={all} rows={ROWS} what="rows" />
			</header>
			{page.error.value && <ErrorBox error={page.error.value} />}
			{data && rows.length === 0 && <p class="hint nothing">{find.value ? 'Nothing matches the filter.' : dropped ? 'Everything that was found is scraped.' : 'No target is scraped.'}</p>}
			{rows.length > 0 && <ul class="found-list">{rows.map((f, i) => <Row key={`${f.pool} ${nameOf(f)} ${i}`} f={f} />)}</ul>}
		</section>
	);
}

/** Discovered targets that are not scraped, and the reasons. */
export const Dropped = ({ rows }: { rows: DroppedRow[] }) => (
	<section class="panel found" aria-label="Not scraped"><h2 class="unseen">Not scraped</h2><ul class="found-list">{groupDropped(rows).map((f, i) => <Row key={`${f.pool} ${nameOf(f)} ${i}`} f={f} />)}</ul></section>
);

/** One target: its name and labels; opened, what it was found with, and what rules made of that. */
function Row({ f }: { f: Found }) {
	const open = useSignal(false);
	const labels = Object.entries(f.after ?? f.before).filter(([k]) => f.after ? k !== 'job' && k !== 'instance' : !k.startsWith('__') || k.startsWith('__meta_'));
	return (
		<li class={open.value ? 'open' : ''}>
			<button type="button" class="found-head" aria-expanded={open.value} onClick={() => { open.value = !open.value; }}>
				<i class="twist" aria-hidden="true">{open.value ? '▾' : '▸'}</i>
				<b>{nameOf(f)}</b>
				<span class="hint">{f.pool}</span>
				{f.reason && <span class={f.failed ? 'error-text' : 'reason'}>{f.reason}</span>}
				<span class="chips">{labels.slice(0, 12).map(([k, v]) => <code key={k}>{k}=<b>{v}</b></code>)}{labels.length > 12 && <span class="hint">and {labels.length - 12} more</span>}</span>
			</button>
			{open.value && <Opened f={f} />}
		</li>
	);
}

export function Opened({ f }: { f: Found }) {
	const steps = useSignal<RelabelStep[] | null>(null);
	const error = useSignal<ApiError | null>(null);
	const ask = () => api.relabelSteps(f.pool, f.before).then((a) => { steps.value = a.data.steps; }, (e) => { error.value = e; });
	return (
		<div class="found-body">
			{f.profiles.length > 0 && <p class="hint">{f.profiles.length === 1 ? 'Profile' : 'Profiles'}: {f.profiles.join(', ')}. Labels are those of the first.</p>}
			<div class="before-after">
				<LabelTable title="Discovered" labels={f.before} />
				{f.after ? <LabelTable title="After relabelling" labels={f.after} />
					: <div><h3>After relabelling</h3><p class={f.failed ? 'error-text' : ''}>{f.reason || 'It is not scraped.'}</p></div>}
			</div>
			{error.value && <ErrorBox error={error.value} />}
			{!steps.value && <button type="button" onClick={() => void ask()}>Show what each rule did</button>}
			{steps.value && <Steps steps={steps.value} before={f.before} />}
		</div>
	);
}

const LabelTable = ({ title, labels }: { title: string; labels: Labels }) => (
	<div><h3>{title}</h3><table class="data"><tbody>{Object.entries(labels).map(([k, v]) => <tr key={k}><th scope="row">{k}</th><td class="mono">{v}</td></tr>)}</tbody></table></div>
);

function Steps({ steps, before }: { steps: RelabelStep[]; before: Labels }) {
	if (!steps.length) return <p class="hint">The job has no relabelling rules.</p>;
	return (
		<ol class="steps">{steps.map((s, i) => {
			const was = i ? steps[i - 1].output : before, alive = i === 0 || steps[i - 1].keep, c = changes(was, s.output);
			return (
				<li key={i} class={alive ? '' : 'past'}>
					<code>{ruleText(s.rule)}</code>
					{!alive ? null : !s.keep ? <span class="error-text">drops it</span>
						: c.set.length + c.gone.length === 0 ? <span class="hint">changes nothing</span>
							: <span class="chips">{c.set.map(([k, v]) => <code key={k} class="set">{k}=<b>{v}</b></code>)}{c.gone.map((k) => <code key={k} class="gone">{k}</code>)}</span>}
				</li>
			);
		})}</ol>
	);
}
