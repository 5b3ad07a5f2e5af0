// SPDX-License-Identifier: Apache-2.0
// What is scraped and how it went: one table per job, one row per target and profile, errors in full and what to do about them; and
// what was found and is not scraped.
import { useSignal } from '@preact/signals';
import { api, type Job, type Target } from '../base/api';
import { ErrorBox } from '../base/errors';
import { Dropped, Opened } from './discovery';
import { groupActive, sum } from './jobs';
import { find, inUrl, job, oneOf } from '../base/state';
import { asked, FindField, JobSelect, Pager, usePage, usePoll } from './targetlist';
import { ago } from '../base/time';
import { Segments, ScrollX } from '../base/ui';
import { formatValue, parseDuration } from '../base/units';

type Health = 'all' | 'up' | 'down' | 'unknown' | 'dropped';
const ROWS = 200;
const health = inUrl<Health>(['targets'], 'state', 'all', oneOf<Health>('all', 'up', 'down', 'unknown', 'dropped'));

const number = (v: number): string => v.toLocaleString('en-US');

export const instanceOf = (t: Target): string => t.labels.instance ?? hostOf(t.scrapeUrl);
/** The pill's text: a profile type that a target does not serve, by design, is off and not an error. */
export const healthOf = (t: Target): string => t.health === 'unknown' ? (t.note ? 'off' : 'waiting') : t.health;
export const profileOf = (t: Target): string => t.profile ?? t.labels.__profile__ ?? t.labels.profile ?? '';

function hostOf(u: string): string {
	try { return new URL(u).host; } catch { return u; }
}

export function TargetsPage() {
	const jobs = useSignal<Job[] | null>(null);
	const dropped = health.value === 'dropped';
	const page = usePage(dropped ? 'dropped' : 'active', ROWS, health.value === 'all' || dropped ? '' : health.value);
	usePoll(5000, () => { api.jobs().then((a) => { jobs.value = a.data.jobs; }, () => undefined); }, []);
	const data = page.data.value, shown = data?.activeTargets ?? [], all = jobs.value ?? [];
	const s = sum(job.value ? all.filter((j) => j.scrapePool === job.value) : all);
	const pools = [...new Set(shown.map((t) => t.scrapePool))];
	const nothing = jobs.value !== null && s.total + s.dropped === 0;
	const none = data && (dropped ? data.droppedTargets : shown).length === 0;
	return (
		<div class="wide">
			<div class="page-head">
				<h1>Targets</h1>
				<Segments<Health> label="Health" value={health.value} onChange={(h) => asked(() => { health.value = h; })}
					options={[['all', `All ${number(s.total)}`], ['up', `Up ${number(s.up)}`], ['down', `Down ${number(s.down)}`],
						...(s.total > s.up + s.down || health.value === 'unknown' ? [['unknown', `Waiting ${number(s.total - s.up - s.down)}`, 'Not asked yet, or without any profile that they serve'] as [Health, string, string]] : []),
						...(s.dropped || dropped ? [['dropped', `Not scraped ${number(s.dropped)}`, 'Found, but dropped by relabelling, or impossible to scrape'] as [Health, string, string]] : [])]} />
				{all.length > 1 && <JobSelect jobs={all} />}
				<FindField what="Filter by URL, label or error" />
				<Pager page={page} all={(dropped ? data?.droppedTargetCount : data?.activeTargetCount) ?? 0} rows={ROWS} what="rows" />
			</div>
			{page.error.value && <ErrorBox error={page.error.value} />}
			{!data && !page.error.value && <div class="panel loading" aria-busy="true"><div class="skeleton" /></div>}
			{none && nothing && !find.value && <NothingScraped jobs={all.length} />}
			{none && !(nothing && !find.value) && <p class="hint">{find.value ? 'No target matches the filter.' : dropped ? 'Everything that was found is scraped.' : health.value === 'down' ? 'No target is down.' : 'No target is like that.'}</p>}
			{dropped ? data && data.droppedTargets.length > 0 && <Dropped rows={data.droppedTargets} />
				: pools.map((p) => <Pool key={p} name={p} targets={shown.filter((t) => t.scrapePool === p)} job={all.find((j) => j.scrapePool === p)} />)}
		</div>
	);
}

const NothingScraped = ({ jobs }: { jobs: number }) => (
	<div class="empty">
		<h2>Nothing is scraped</h2>
		{jobs > 0 ? <p>{jobs === 1 ? 'The job has' : `The ${jobs} jobs have`} found no target yet: Discovery shows where {jobs === 1 ? 'it looks' : 'they look'}.</p>
			: <><p>Name what to profile in the configuration file: anything that serves pprof over HTTP, for example a Go program with <code>net/http/pprof</code>.</p>
				<pre>{'scrape_configs:\n  - job_name: my-service\n    static_configs:\n      - targets: ["127.0.0.1:6060"]'}</pre>
				<p>Then reload the server; this page notices by itself.</p></>}
	</div>
);

function Pool({ name, targets, job: j }: { name: string; targets: Target[]; job?: Job }) {
	const sorted = [...targets].sort((a, b) => instanceOf(a).localeCompare(instanceOf(b)) || profileOf(a).localeCompare(profileOf(b)) || a.scrapeUrl.localeCompare(b.scrapeUrl));
	const groups: Target[][] = [];
	for (const t of sorted) {
		const last = groups[groups.length - 1];
		if (last && instanceOf(last[0]) === instanceOf(t)) last.push(t);
		else groups.push([t]);
	}
	return (
		<section class="panel pool">
			<header class="panel-head"><h2>{name}</h2>{j && <span class={`pill ${j.down ? 'down' : j.up === j.targets ? 'up' : 'unknown'}`}><i class="dot" />{j.up}/{j.targets} up</span>}</header>
			<ScrollX label={`Targets of ${name}`}>
				<table class="data cards">
					<thead><tr><th>Target</th><th>Profile</th><th>Health</th><th>Labels</th><th class="num">Last scrape</th><th class="num">Took</th><th class="num">Bytes</th><th class="num">Samples</th></tr></thead>
					<tbody>{groups.map((g) => <TargetRows key={instanceOf(g[0])} rows={g} />)}</tbody>
				</table>
			</ScrollX>
		</section>
	);
}

/** One target: a row for each of its profiles, an error below the last of the rows that share it; opened, its labels. */
function TargetRows({ rows }: { rows: Target[] }) {
	const open = useSignal(false);
	return (
		<>
			{rows.map((t, i) => (
				<Row key={t.scrapeUrl} t={t} alone={rows.every((r) => r.health === 'unknown')} error={t.lastError !== '' && rows[i + 1]?.lastError !== t.lastError}
					head={i ? undefined : <button type="button" class="link" aria-expanded={open.value} title="Labels before and after relabelling" onClick={() => { open.value = !open.value; }}><i class="twist" aria-hidden="true">{open.value ? '▾' : '▸'}</i>{instanceOf(t)}</button>} />
			))}
			{open.value && groupActive(rows).map((f, i) => <tr key={i} class="opened"><td colSpan={8}><Opened f={f} /></td></tr>)}
		</>
	);
}

/** alone: nothing of the target is scraped, so that what it does not serve is no choice of its own. */
function Row({ t, head, error, alone }: { t: Target; alone: boolean; head?: preact.ComponentChildren; error: boolean }) {
	const when = Date.parse(t.lastScrape) / 1000;
	const scraped = Number.isFinite(when) && when > 0;
	const labels = Object.entries(t.labels).filter(([k]) => k !== 'job' && k !== 'instance' && !k.startsWith('__'));
	const slow = t.lastScrapeDuration > 0.8 * parseDuration(t.scrapeTimeout ?? '');
	return (
		<>
			<tr class={`${head ? 'first' : ''} ${t.lastError ? 'has-error' : ''}`}>
				<th scope="row" class="host" title={instanceOf(t)}>{head ?? <span class="unseen">{instanceOf(t)}</span>}</th>
				<td data-of="Profile"><a href={t.globalUrl || t.scrapeUrl} rel="noreferrer" target="_blank" title={t.scrapeUrl}>{profileOf(t) || pathOf(t.scrapeUrl)}</a></td>
				<td data-of="Health"><span class={`pill ${t.health}`}><i class="dot" />{healthOf(t)}</span></td>
				<td class="labels">{labels.map(([k, v]) => <code key={k}>{k}=<b>{v}</b></code>)}</td>
				<td data-of="Last scrape" class="num" title={scraped ? `${t.lastScrape}, every ${t.scrapeInterval}` : `every ${t.scrapeInterval}`}>{scraped ? ago(when) : 'not yet'}</td>
				<td data-of="Took" class={`num ${scraped && slow && !t.lastError ? 'warn' : ''}`} title={`scrape_timeout is ${t.scrapeTimeout}`}>{scraped ? formatValue(t.lastScrapeDuration, 'seconds') : '–'}</td>
				<td data-of="Bytes" class="num">{t.lastBytes ? formatValue(t.lastBytes, 'bytes') : '–'}</td>
				<td data-of="Samples" class="num">{t.lastSamples !== undefined && scraped ? t.lastSamples.toLocaleString('en-US') : '–'}</td>
			</tr>
			{error && <tr class="error-row"><td /><td colSpan={7}>{t.lastError}<p class="remedy">{t.remedy}</p></td></tr>}
			{t.note && <tr class="note-row"><td /><td colSpan={7}>{t.note}{alone && /^not served/.test(t.note) && <p class="remedy">{t.remedy}</p>}</td></tr>}
		</>
	);
}

function pathOf(u: string): string {
	try { return new URL(u).pathname; } catch { return u; }
}
