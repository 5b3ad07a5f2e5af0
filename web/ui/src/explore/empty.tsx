// SPDX-License-Identifier: Apache-2.0
// Before there is anything to see: what was looked for, what was found and what it answered, live, instead of "no data".
import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';
import { useSignal } from '@preact/signals';
import { api, type ApiError, type Job, type Target } from '../base/api';
import { Check, Warn } from '../base/icons';
import { sum } from '../pages/jobs';
import { go } from '../base/state';
import { healthOf, instanceOf, profileOf } from '../pages/targets';
import { ago } from '../base/time';
import { ScrollX } from '../base/ui';
import { formatValue, parseDuration } from '../base/units';

const ROWS = 12, ERRORS = 3;

export function Empty() {
	const targets = useSignal<Target[] | null>(null), jobs = useSignal<Job[] | null>(null), failed = useSignal('');
	const all = useSignal(0);
	useEffect(() => {
		const ask = () => {
			if (document.hidden) return;
			Promise.all([api.targets({ state: 'active', limit: ROWS }), api.jobs()]).then(([t, j]) => {
				targets.value = t.data.activeTargets;
				all.value = t.data.activeTargetCount;
				jobs.value = j.data.jobs;
				failed.value = '';
			}, (e: ApiError) => { failed.value = e.message; });
		};
		ask();
		const timer = setInterval(ask, 2000);
		return () => clearInterval(timer);
	}, []);
	if (!targets.value || !jobs.value)
		return failed.value ? <div class="empty"><h1>The server does not answer yet</h1><p role="status">{failed.value}</p></div>
			: <div class="panel loading" aria-busy="true"><div class="skeleton" /><div class="skeleton tall" /></div>;
	const list = targets.value, s = sum(jobs.value), nothing = jobs.value.length === 0;
	return (
		<div class="empty">
			<h1>{!nothing && s.total > 0 && s.down < s.total && <i class="spinner" />}{nothing ? 'Nothing is scraped yet' : s.total === 0 ? 'No target was found yet' : s.down === s.total ? 'No target answers' : 'Waiting for the first profile'}</h1>
			<ol class="checks" aria-live="polite">
				<Discovered jobs={jobs.value} />
				{s.total > 0 && <Scraped s={s} list={list} all={all.value} />}
				{s.up > 0 && <Step state="wait"><p>The first profile. {soonest(list)}</p></Step>}
			</ol>
			{nothing ? <Example /> : <button type="button" onClick={() => go('targets')}>All targets</button>}
		</div>
	);
}

function Step({ state, children }: { state: 'good' | 'bad' | 'wait'; children: ComponentChildren }) {
	return <li class={state}>{state === 'wait' ? <i class="spinner" /> : <i class="mark">{state === 'good' ? <Check /> : <Warn />}</i>}<div>{children}</div></li>;
}

const plural = (n: number, one: string) => `${n} ${one}${n === 1 ? '' : 's'}`;

/** What discovery found, and the errors of failed sources. */
function Discovered({ jobs }: { jobs: Job[] }) {
	const s = sum(jobs), sources = jobs.flatMap((j) => j.sources.map((x) => ({ job: j.scrapePool, ...x })));
	const broken = sources.filter((x) => x.error), unread = sources.filter((x) => !x.error && !x.ready);
	if (!jobs.length) return <Step state="bad"><p>The configuration has no scrape jobs.</p></Step>;
	return (
		<Step state={broken.length ? 'bad' : s.total ? 'good' : unread.length ? 'wait' : 'bad'}>
			<p>{plural(jobs.length, 'job')}: {jobs.slice(0, 6).map((j) => j.scrapePool).join(', ')}{jobs.length > 6 && ', …'}. {plural(s.total, 'target')} found{s.dropped > 0 && `, ${s.dropped} more dropped by relabelling rules`}.</p>
			{unread.length > 0 && <p class="hint">Not read yet: {unread.slice(0, ERRORS).map((x) => `${x.kind}${x.role ? ` (${x.role})` : ''} of ${x.job}`).join(', ')}{unread.length > ERRORS && ', …'}</p>}
			{broken.slice(0, ERRORS).map((x) => <p class="error-text" key={x.job + x.kind + x.name}>{x.kind} of {x.job}: {x.error}</p>)}
		</Step>
	);
}

/** The answers of targets, failed ones first. */
function Scraped({ s, list, all }: { s: ReturnType<typeof sum>; list: Target[]; all: number }) {
	const rows = [...list].sort((a, b) => Number(b.health === 'down') - Number(a.health === 'down'));
	const waiting = s.total - s.up - s.down;
	return (
		<Step state={s.down ? 'bad' : s.up ? 'good' : 'wait'}>
			<p>{s.up ? `${plural(s.up, 'target')} up` : 'No target is up yet'}{s.down > 0 && `, ${s.down} down`}{waiting > 0 && `, ${waiting} not scraped yet`}.</p>
			<ScrollX label="Targets">
				<table class="data">
					<tbody>{rows.map((t) => (
						<tr key={`${t.scrapePool} ${t.scrapeUrl} ${profileOf(t)}`}><td>{t.scrapePool}</td><td>{instanceOf(t)}</td><td>{profileOf(t)}</td><td><span class={`pill ${t.health}`}><i class="dot" />{healthOf(t)}</span></td><td class={t.lastError ? 'error-text' : 'hint'}>{t.lastError || t.note || answer(t)}</td></tr>
					))}</tbody>
				</table>
			</ScrollX>
			{all > ROWS && <p class="hint">and {all - ROWS} more</p>}
		</Step>
	);
}

/** The result of the last scrape. */
function answer(t: Target): string {
	const when = Date.parse(t.lastScrape) / 1000;
	if (!(when > 0)) return 'being scraped for the first time';
	return `${t.lastBytes ? formatValue(t.lastBytes, 'bytes') : 'an answer'}${t.lastSamples !== undefined ? `, ${plural(t.lastSamples, 'sample')}` : ''}, ${ago(when)}`;
}

function Example() {
	return (
		<>
			<p>Tell the server what to profile: anything that serves pprof over HTTP, such as <code>net/http/pprof</code> of Go, or a whole host by <code>pyrrha-agent</code>.</p>
			<pre>{'scrape_configs:\n  - job_name: my-service\n    static_configs:\n      - targets: ["127.0.0.1:6060"]\n  - job_name: agent\n    metrics_path: /metrics\n    profiling_config: {preset: agent}\n    static_configs:\n      - targets: ["127.0.0.1:7071"]'}</pre>
			<p>Put this into the configuration file and reload the server; this page notices by itself.</p>
		</>
	);
}

/** A profile of CPU takes as long as it measures, so the first one comes an interval after the first scrape began. */
function soonest(list: Target[]): string {
	const intervals = list.map((t) => parseDuration(t.scrapeInterval ?? '')).filter((n) => Number.isFinite(n));
	return intervals.length ? `It comes within about ${Math.ceil(Math.min(...intervals))} seconds.` : '';
}
