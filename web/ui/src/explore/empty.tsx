// SPDX-License-Identifier: Apache-2.0
// Before there is anything to see: what is happening, live, instead of "no data".
import { useEffect } from 'preact/hooks';
import { useSignal } from '@preact/signals';
import { api, type Job, type Target } from '../base/api';
import { sum } from '../pages/jobs';
import { go } from '../base/state';
import { healthOf, instanceOf, profileOf } from '../pages/targets';
import { parseDuration } from '../base/units';
import { ScrollX } from '../base/ui';

const ROWS = 12;

export function Empty() {
	const targets = useSignal<Target[] | null>(null), jobs = useSignal<Job[]>([]);
	const all = useSignal(0);
	const now = useSignal(Date.now() / 1000);
	useEffect(() => {
		const ask = () => {
			now.value = Date.now() / 1000;
			api.targets({ state: 'active', limit: ROWS }).then((a) => { targets.value = a.data.activeTargets; all.value = a.data.activeTargetCount; }, () => undefined);
			api.jobs().then((a) => { jobs.value = a.data.jobs; }, () => undefined);
		};
		ask();
		const timer = setInterval(ask, 2000);
		return () => clearInterval(timer);
	}, []);
	const list = targets.value;
	if (!list) return <div class="panel loading" aria-busy="true"><div class="skeleton" /><div class="skeleton tall" /></div>;
	if (!list.length) {
		return (
			<div class="empty">
				<h1>Nothing is scraped yet</h1>
				<p>Tell the server what to profile: anything that serves pprof over HTTP, for example a Go program with <code>net/http/pprof</code>.</p>
				<pre>{'scrape_configs:\n  - job_name: my-service\n    static_configs:\n      - targets: ["127.0.0.1:6060"]'}</pre>
				<p>Put this into the configuration file and reload the server; this page notices by itself.</p>
			</div>
		);
	}
	const s = sum(jobs.value);
	return (
		<div class="empty">
			<h1><i class="spinner" />Waiting for the first profile</h1>
			<p>{s.total === 1 ? '1 target is' : `${s.total} targets are`} configured, {s.up} up, {s.down} down. {soonest(list)}</p>
			<ScrollX label="Targets"><table class="data">
				<tbody>{list.map((t) => (
					<tr key={t.scrapeUrl}><td>{t.scrapePool}</td><td>{instanceOf(t)}</td><td>{profileOf(t)}</td><td><span class={`pill ${t.health}`}><i class="dot" />{healthOf(t)}</span></td><td class={t.lastError ? 'error-text' : 'hint'}>{t.lastError || t.note}</td></tr>
				))}</tbody>
			</table></ScrollX>
			{all.value > ROWS && <p class="hint">and {all.value - ROWS} more</p>}
			<button type="button" onClick={() => go('targets')}>All targets</button>
		</div>
	);
}

/** A profile of CPU takes as long as it measures, so the first one comes an interval after the first scrape began. */
function soonest(list: Target[]): string {
	const intervals = list.map((t) => parseDuration(t.scrapeInterval ?? '')).filter((n) => Number.isFinite(n));
	return intervals.length ? `The first samples come within about ${Math.ceil(Math.min(...intervals))} seconds.` : '';
}
