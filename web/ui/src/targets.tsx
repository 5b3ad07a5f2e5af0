// SPDX-License-Identifier: Apache-2.0
// What is scraped and how it went: one table per job, one row per target and profile, errors in full.
import { useEffect } from 'preact/hooks';
import { useSignal } from '@preact/signals';
import { api, ApiError, type Target, type Targets } from './api';
import { ErrorBox } from './errors';
import { Search } from './icons';
import { ago } from './time';
import { Segments } from './ui';
import { formatValue } from './units';

type Health = 'all' | 'up' | 'down';

/** A target is up if every profile of it is; the API has one entry per profile. */
export function summarize(list: Target[]): { total: number; up: number; down: number } {
	const health = new Map<string, Target['health']>();
	for (const t of list) {
		const id = `${t.scrapePool} ${instanceOf(t)}`;
		const was = health.get(id);
		/* A profile type that a target does not serve is neither: the others decide. */
		health.set(id, was === 'down' || t.health === 'down' ? 'down' : was === 'up' || t.health === 'up' ? 'up' : 'unknown');
	}
	const all = [...health.values()];
	return { total: all.length, up: all.filter((h) => h === 'up').length, down: all.filter((h) => h === 'down').length };
}

export const instanceOf = (t: Target): string => t.labels.instance ?? hostOf(t.scrapeUrl);
/** What the pill says: a profile type that a target does not serve, by design, is off and nothing to worry about. */
export const healthOf = (t: Target): string => t.health === 'unknown' ? (t.note ? 'off' : 'waiting') : t.health;
export const profileOf = (t: Target): string => t.profile ?? t.labels.__profile__ ?? t.labels.profile ?? '';

function hostOf(u: string): string {
	try { return new URL(u).host; } catch { return u; }
}

export function TargetsPage() {
	const data = useSignal<Targets | null>(null);
	const error = useSignal<ApiError | null>(null);
	const health = useSignal<Health>('all');
	const find = useSignal('');
	useEffect(() => {
		const ask = () => {
			if (document.hidden) return;
			api.targets().then((a) => { data.value = a.data; error.value = null; }, (e) => { error.value = e; });
		};
		ask();
		const timer = setInterval(ask, 5000);
		return () => clearInterval(timer);
	}, []);
	const active = data.value?.activeTargets ?? [];
	const s = summarize(active);
	const needle = find.value.trim().toLowerCase();
	const shown = active.filter((t) => (health.value === 'all' || (health.value === 'up' ? t.health === 'up' : t.health !== 'up' && !t.note))
		&& (!needle || JSON.stringify([t.scrapePool, t.scrapeUrl, t.labels, t.lastError, t.note, t.profile]).toLowerCase().includes(needle)));
	const pools = [...new Set(shown.map((t) => t.scrapePool))].sort();
	return (
		<div class="wide">
			<div class="page-head">
				<h1>Targets</h1>
				<Segments<Health> label="Health" value={health.value} onChange={(h) => { health.value = h; }}
					options={[['all', `All ${s.total}`], ['up', `Up ${s.up}`], ['down', `Down ${s.total - s.up}`]]} />
				<label class="field"><Search /><input type="search" placeholder="Filter by URL, label or error" value={find.value} onInput={(e) => { find.value = e.currentTarget.value; }} /></label>
			</div>
			{error.value && <ErrorBox error={error.value} />}
			{data.value && active.length === 0 && (
				<div class="empty"><h2>Nothing is scraped</h2><p>Add a job under <code>scrape_configs</code> in the configuration file and reload the server.</p></div>
			)}
			{data.value && active.length > 0 && shown.length === 0 && <p class="hint">No target matches the filter.</p>}
			{pools.map((p) => <Pool key={p} name={p} targets={shown.filter((t) => t.scrapePool === p)} />)}
			{(data.value?.droppedTargets?.length ?? 0) > 0 && <p class="hint">{data.value!.droppedTargets.length} discovered targets were dropped by relabelling.</p>}
		</div>
	);
}

function Pool({ name, targets }: { name: string; targets: Target[] }) {
	const s = summarize(targets);
	const sorted = [...targets].sort((a, b) => instanceOf(a).localeCompare(instanceOf(b)) || profileOf(a).localeCompare(profileOf(b)) || a.scrapeUrl.localeCompare(b.scrapeUrl));
	return (
		<section class="panel pool">
			<header class="panel-head"><h2>{name}</h2><span class={`pill ${s.down ? 'down' : s.up === s.total ? 'up' : 'unknown'}`}><i class="dot" />{s.up}/{s.total} up</span></header>
			<div class="scroll-x">
				<table class="data">
					<thead><tr><th>Target</th><th>Profile</th><th>Health</th><th>Labels</th><th class="num">Last scrape</th><th class="num">Took</th><th class="num">Bytes</th><th class="num">Samples</th></tr></thead>
					<tbody>{sorted.map((t, i) => <Row key={t.scrapeUrl} t={t} first={!sameTarget(sorted[i - 1], t)}
						error={sameTarget(t, sorted[i + 1]) && sorted[i + 1].lastError === t.lastError ? '' : t.lastError} />)}</tbody>
				</table>
			</div>
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
