// SPDX-License-Identifier: Apache-2.0
// What is scraped and how it went: one table per job, one row per target and profile, errors in full.
import { useSignal } from '@preact/signals';
import { api, type Job, type Target } from '../base/api';
import { ErrorBox } from '../base/errors';
import { sum } from './jobs';
import { find, go, job, pageHref } from '../base/state';
import { FindField, JobSelect, Pager, usePage, usePoll } from './targetlist';
import { ago } from '../base/time';
import { Segments, ScrollX } from '../base/ui';
import { formatValue } from '../base/units';

type Health = 'all' | 'up' | 'down';
const ROWS = 200;

const number = (v: number): string => v.toLocaleString('en-US');

export const instanceOf = (t: Target): string => t.labels.instance ?? hostOf(t.scrapeUrl);
/** What the pill says: a profile type that a target does not serve, by design, is off and nothing to worry about. */
export const healthOf = (t: Target): string => t.health === 'unknown' ? (t.note ? 'off' : 'waiting') : t.health;
export const profileOf = (t: Target): string => t.profile ?? t.labels.__profile__ ?? t.labels.profile ?? '';

function hostOf(u: string): string {
	try { return new URL(u).host; } catch { return u; }
}

export function TargetsPage() {
	const jobs = useSignal<Job[]>([]);
	const health = useSignal<Health>('all');
	const page = usePage('active', ROWS, health.value === 'all' ? '' : health.value);
	usePoll(5000, () => { api.jobs().then((a) => { jobs.value = a.data.jobs; }, () => undefined); }, []);
	const data = page.data.value, shown = data?.activeTargets ?? [];
	const s = sum(job.value ? jobs.value.filter((j) => j.scrapePool === job.value) : jobs.value);
	const pools = [...new Set(shown.map((t) => t.scrapePool))];
	const nothing = !find.value && !job.value && health.value === 'all';
	return (
		<div class="wide">
			<div class="page-head">
				<h1>Targets</h1>
				<Segments<Health> label="Health" value={health.value} onChange={(h) => { health.value = h; }}
					options={[['all', `All ${number(s.total)}`], ['up', `Up ${number(s.up)}`], ['down', `Down ${number(s.down)}`]]} />
				{jobs.value.length > 1 && <JobSelect jobs={jobs.value} />}
				<FindField what="Filter by URL, label or error" />
				<Pager page={page} all={data?.activeTargetCount ?? 0} rows={ROWS} what="rows" />
			</div>
			{page.error.value && <ErrorBox error={page.error.value} />}
			{data && shown.length === 0 && nothing && (
				<div class="empty"><h2>Nothing is scraped</h2><p>Add a job under <code>scrape_configs</code> in the configuration file and reload the server.</p></div>
			)}
			{data && shown.length === 0 && !nothing && <p class="hint">No target matches the filter.</p>}
			{pools.map((p) => <Pool key={p} name={p} targets={shown.filter((t) => t.scrapePool === p)} job={jobs.value.find((j) => j.scrapePool === p)} />)}
			{s.dropped > 0 && <p class="hint">{number(s.dropped)} more were discovered and are not scraped: <a href={pageHref('discovery')} onClick={(e) => { e.preventDefault(); go('discovery'); }}>Discovery</a> says why.</p>}
		</div>
	);
}

function Pool({ name, targets, job: j }: { name: string; targets: Target[]; job?: Job }) {
	const sorted = [...targets].sort((a, b) => instanceOf(a).localeCompare(instanceOf(b)) || profileOf(a).localeCompare(profileOf(b)) || a.scrapeUrl.localeCompare(b.scrapeUrl));
	return (
		<section class="panel pool">
			<header class="panel-head"><h2>{name}</h2>{j && <span class={`pill ${j.down ? 'down' : j.up === j.targets ? 'up' : 'unknown'}`}><i class="dot" />{j.up}/{j.targets} up</span>}</header>
			<ScrollX label={`Targets of ${name}`}>
				<table class="data">
					<thead><tr><th>Target</th><th>Profile</th><th>Health</th><th>Labels</th><th class="num">Last scrape</th><th class="num">Took</th><th class="num">Bytes</th><th class="num">Samples</th></tr></thead>
					<tbody>{sorted.map((t, i) => <Row key={t.scrapeUrl} t={t} first={!sameTarget(sorted[i - 1], t)}
						error={sameTarget(t, sorted[i + 1]) && sorted[i + 1].lastError === t.lastError ? '' : t.lastError} />)}</tbody>
				</table>
			</ScrollX>
		</section>
	);
}

const sameTarget = (a: Target | undefined, b: Target | undefined): boolean => a !== undefined && b !== undefined && instanceOf(a) === instanceOf(b);

/** `error` stands below the last of the rows that share it. */
function Row({ t, first, error }: { t: Target; first: boolean; error: string }) {
	const when = Date.parse(t.lastScrape) / 1000;
	const scraped = Number.isFinite(when) && when > 0;
	const labels = Object.entries(t.labels).filter(([k]) => k !== 'job' && k !== 'instance' && !k.startsWith('__'));
	return (
		<>
			<tr class={`${first ? 'first' : ''} ${t.lastError ? 'has-error' : ''}`}>
				<td class="host" title={instanceOf(t)}>{first ? instanceOf(t) : ''}</td>
				<td><a href={t.globalUrl || t.scrapeUrl} rel="noreferrer" target="_blank" title={t.scrapeUrl}>{profileOf(t) || pathOf(t.scrapeUrl)}</a></td>
				<td><span class={`pill ${t.health}`}><i class="dot" />{healthOf(t)}</span></td>
				<td class="labels">{labels.map(([k, v]) => <code key={k}>{k}=<b>{v}</b></code>)}</td>
				<td class="num" title={scraped ? t.lastScrape : ''}>{scraped ? ago(when) : 'not yet'}</td>
				<td class="num">{scraped ? formatValue(t.lastScrapeDuration, 'seconds') : '–'}</td>
				<td class="num">{t.lastBytes ? formatValue(t.lastBytes, 'bytes') : '–'}</td>
				<td class="num">{t.lastSamples !== undefined && scraped ? t.lastSamples.toLocaleString('en-US') : '–'}</td>
			</tr>
			{error && <tr class="error-row"><td /><td colSpan={7}>{error}</td></tr>}
			{t.note && <tr class="note-row"><td /><td colSpan={7}>{t.note}</td></tr>}
		</>
	);
}

function pathOf(u: string): string {
	try { return new URL(u).pathname; } catch { return u; }
}
