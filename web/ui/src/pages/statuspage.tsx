// SPDX-License-Identifier: Apache-2.0
// Which server this is, how it was started, what it keeps, how far it is from its limits, and what is wrong with it.
import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';
import { useSignal } from '@preact/signals';
import { api, ApiError, url, type Block, type BucketStatus, type FlagInfo, type ProfileType, type ServerStatus, type StorageStatus } from '../base/api';
import { ErrorBox } from '../base/errors';
import { Search, Warn } from '../base/icons';
import { asFlag, asText, inUrl } from '../base/state';
import { ago, moment } from '../base/time';
import { Bar, CopyButton, ScrollX } from '../base/ui';
import { formatDuration, formatShare, formatValue } from '../base/units';
import { bucketRows, daysOf, flagsWith, limitsOf, parseMetrics, problemsOf, serverRows, type Limit } from './status';
import { asked, usePoll } from './targetlist';

type Facts = Record<string, string | number | boolean>;
const flagFind = inUrl(['status'], 'find', '', asText), onlyGiven = inUrl(['status'], 'given', false, asFlag);
const ROWS = 20;

const LINKS: [string, string][] = [
	['metrics', 'Its metrics, for Prometheus'],
	['debug/pprof/', 'Its profiles'],
	['api/v1/targets', 'Targets as JSON'],
	['-/healthy', 'Is it alive'],
	['-/ready', 'Does it answer queries'],
];

const n = (v: number): string => v.toLocaleString('en-US');
const when = (rfc3339: unknown): number => Date.parse(String(rfc3339)) / 1000 || 0;

interface State {
	build: Facts; runtime: Facts; flags: FlagInfo[]; config: string | null; storage: StorageStatus | null; blocks: Block[]; types: ProfileType[];
	metrics: Map<string, number>; bucket: BucketStatus | null; servers: ServerStatus[]; error: ApiError | null;
}

/** Requests that are made once, or now and then; the first failure is shown. */
function useStatus() {
	const state = useSignal<State>({ build: {}, runtime: {}, flags: [], config: null, storage: null, blocks: [], types: [], metrics: new Map(), bucket: null, servers: [], error: null });
	const set = (part: Partial<State>) => { state.value = { ...state.value, ...part }; };
	const take = <T,>(ask: Promise<T>, part: (answer: T) => Partial<State>) => void ask.then((a) => set(part(a)), (error) => state.value.error ?? set({ error }));
	useEffect(() => {
		take(api.status('buildinfo'), (a) => ({ build: a.data }));
		take(api.flagDetails(), (a) => ({ flags: a.data }));
		take(api.profileTypes(), (a) => ({ types: a.data }));
		take(api.status('config'), (a) => ({ config: String(a.data.yaml) }));
	}, []);
	usePoll(15000, () => {
		set({ error: null });
		take(api.status('runtimeinfo'), (a) => ({ runtime: a.data }));
		take(api.storage(ROWS), (a) => ({ storage: a.data }));
		take(api.status<BucketStatus>('bucket'), (a) => ({ bucket: a.data.configured ? a.data : null }));
		take(api.status<{ servers: ServerStatus[] }>('servers'), (a) => a.data);
		take(api.blocks(), (a) => ({ blocks: a.data.blocks }));
		take(api.metrics(), (text) => ({ metrics: parseMetrics(text) }));
	}, []);
	return state.value;
}

const SECTIONS = ['Server', 'Storage', 'Bucket', 'Limits', 'Configuration', 'Flags', 'Elsewhere'];

export function StatusPage() {
	const s = useStatus(), now = when(s.runtime.serverTime);
	/* /flags and /config are addresses of Prometheus's page. */
	useEffect(() => {
		const at = /\/(flags|config)$/.exec(location.pathname)?.[1];
		if (at && s.config !== null && s.flags.length > 0) document.getElementById(at === 'flags' ? 'flags' : 'configuration')?.scrollIntoView();
	}, [s.config !== null && s.flags.length > 0]);
	return (
		<div class="wide">
			<div class="page-head">
				<h1>Status</h1>
				<nav class="jump" aria-label="On this page">{SECTIONS.filter((t) => t !== 'Bucket' || s.bucket).map((t) => <button key={t} type="button" class="link" onClick={() => document.getElementById(t.toLowerCase())!.scrollIntoView()}>{t}</button>)}</nav>
			</div>
			{s.error && <ErrorBox error={s.error} />}
			<Problems runtime={s.runtime} metrics={s.metrics} />
			<Section title="Server"><Server build={s.build} r={s.runtime} /></Section>
			<Section title="Storage">{s.storage ? <Storage s={s.storage} types={s.types} blocks={s.blocks} /> : <div class="loading" aria-busy="true"><div class="skeleton" /></div>}</Section>
			{s.bucket && <Section title="Bucket"><FactTable rows={bucketRows(s.bucket, now)} /></Section>}
			{s.servers.length > 0 && <Section title="Servers"><FactTable rows={serverRows(s.servers, now)} /></Section>}
			<Section title="Limits"><Limits limits={limitsOf(s.metrics, s.flags, s.storage)} /></Section>
			<Section title="Configuration" more={s.config ? <CopyButton text={s.config} title="Copy the configuration" /> : undefined}>
				{s.config ? <pre class="config" tabIndex={0} aria-label="Configuration">{s.config}</pre> : s.config === '' && <p class="hint nothing">There is none.</p>}
			</Section>
			<Flags flags={s.flags} />
			<Section title="Elsewhere">
				<table class="data facts"><tbody>
					{LINKS.map(([path, what]) => <tr key={path}><th scope="row"><a href={url(path)}>/{path}</a></th><td>{what}</td></tr>)}
				</tbody></table>
			</Section>
		</div>
	);
}

const Section = ({ title, more, children }: { title: string; more?: ComponentChildren; children: ComponentChildren }) => (
	<section class="panel" id={title.toLowerCase()}><header class="panel-head"><h2>{title}</h2><div class="grow" />{more}</header>{children}</section>
);

/** The errors, if there are any. */
function Problems({ runtime, metrics }: { runtime: Facts; metrics: Map<string, number> }) {
	const list = problemsOf(metrics);
	if (runtime.reloadConfigSuccess === false) list.unshift(`The configuration could not be read; the one before is at work. ${runtime.lastConfigError}`);
	if (metrics.get('pyrrha_web_config_last_reload_successful') === 0) list.push('The web configuration could not be read; the one before is at work.');
	if (runtime.retentionWaits) list.push(`The wall clock was set (${runtime.lastClockStep}): nothing is dropped for another ${runtime.retentionWaits}.`);
	return list.length === 0 ? null : <div class="error" role="status"><Warn /><ul>{list.map((t) => <li key={t}>{t}</li>)}</ul></div>;
}

function Server({ build, r }: { build: Facts; r: Facts }) {
	const start = when(r.startTime), read = when(r.lastConfigTime), now = when(r.serverTime), cpu = Number(r.cpuSeconds), up = now - start;
	const rows: [string, ComponentChildren][] = start ? [
		['Version', build.version],
		['Host', `${r.hostname}, ${r.kernel} ${r.machine}, ${r.GOMAXPROCS} CPUs`],
		['Started', <span title={String(r.startTime)}>{moment(start)}, {ago(start, now)}</span>],
		['Configuration read', <span title={String(r.lastConfigTime)}>{moment(read)}, {ago(read, now)}</span>],
		['Kept', r.storageRetention],
		['Memory', formatValue(Number(r.residentBytes), 'bytes')],
		['CPU', `${formatValue(cpu, 'seconds')}${up > 0 ? `, ${(cpu / up).toFixed(2)} cores on average` : ''}`],
		['Process', `${r.processId}, ${r.threads} threads, in ${r.CWD}`],
		['Wall clock', Number(r.clockSteps) ? `set ${n(Number(r.clockSteps))} times since the start, last ${r.lastClockStep}` : ''],
	] : [['Version', build.version]];
	return <FactTable rows={rows} />;
}

/** Rows without a value are left out; true: it is bad. */
const FactTable = ({ rows }: { rows: [string, ComponentChildren, boolean?][] }) => (
	<table class="data facts"><tbody>{rows.filter(([, v]) => v).map(([k, v, bad]) => <tr key={k}><th scope="row">{k}</th><td class={bad ? 'error-text' : ''}>{v}</td></tr>)}</tbody></table>
);

/* ---- storage ---- */

function Storage({ s, types, blocks }: { s: StorageStatus; types: ProfileType[]; blocks: Block[] }) {
	const h = s.headStats, st = s.storage, empty = h.minTime === 0 && h.maxTime === 0;
	const names = new Set(types.map((t) => t.name));
	return (
		<div class="storage">
			<div class="tiles">
				<Tile name="On disk" value={formatValue(st.diskBytes + st.headLogBytes, 'bytes')} more={`in ${n(st.partitions)} ${st.partitions === 1 ? 'day' : 'days'} and ${n(st.parts)} parts`} />
				<Tile name="Series today" value={n(h.numSeries)} more={`${n(h.numLabelPairs)} pairs of labels`} />
				<Tile name="Not sealed yet" value={formatValue(st.memory.head, 'bytes')} more={`${n(st.windows)} ${st.windows === 1 ? 'window' : 'windows'}, ${n(h.chunkCount)} series; log ${formatValue(st.headLogBytes, 'bytes')}`} />
				<Tile name="Holds" value={empty ? 'nothing yet' : formatDuration(Math.max(60, Math.round((h.maxTime - h.minTime) / 60000) * 60))} more={empty ? '' : `${moment(h.minTime / 1000)} to ${moment(h.maxTime / 1000)}`} />
				{st.masks > 0 && <Tile name="Deleted" value={n(st.masks)} more="ranges whose space comes back soon" />}
			</div>
			<div class="lists">
				<Types types={types} />
				<List title="Series by metric" of={h.numSeries} rows={s.seriesCountByMetricName.filter((r) => !names.has(r.name)).map((r) => [r.name, r.value])} />
				<List title="Values by label" rows={s.labelValueCountByLabelName.map((r) => [r.name, r.value])} />
				<List title="Series by label and value" of={h.numSeries} rows={s.seriesCountByLabelValuePair.map((r) => [r.name, r.value])} />
				<Days blocks={blocks} />
			</div>
		</div>
	);
}

const Tile = ({ name, value, more }: { name: string; value: string; more: string }) => <div><span class="hint">{name}</span><b>{value}</b><small>{more}</small></div>;

/** Totals of the storage. */
const Types = ({ types }: { types: ProfileType[] }) => (
	<div><h3>Series by profile type <span class="hint">of all days</span></h3>
		{!types.some((t) => t.series) ? <p class="hint">No profile is stored yet.</p> : <table class="data"><thead><tr><th>Type</th><th>Kind</th><th>Unit</th><th class="num">Series</th></tr></thead>
			<tbody>{[...types].filter((t) => t.series).sort((a, b) => b.series - a.series).map((t) => <tr key={t.name}><th scope="row" title={t.name}>{t.title}{t.alias && <> <code>{t.alias}</code></>}</th><td>{t.kind}</td><td>{t.unit}</td><td class="num">{n(t.series)}</td></tr>)}</tbody></table>}</div>
);

/** The largest of many, of today. */
const List = ({ title, rows, of }: { title: string; rows: [string, number][]; of?: number }) => (
	<div><h3>{title} <span class="hint">today, the largest</span></h3>
		{rows.length === 0 ? <p class="hint">There are none yet.</p> : <table class="data"><tbody>{rows.map(([name, v]) => (
			<tr key={name}><th scope="row">{name}</th><td class="num">{n(v)}</td>{of !== undefined && <td class="num share">{formatShare(v / of)}</td>}</tr>
		))}</tbody></table>}</div>
);

function Days({ blocks }: { blocks: Block[] }) {
	const limit = useSignal(ROWS), days = daysOf(blocks);
	return (
		<div><h3>Sealed, by day <span class="hint">UTC</span></h3>
			{days.length === 0 ? <p class="hint">Nothing is sealed yet: an hour is sealed some minutes after it has ended.</p> : (
				<table class="data"><thead><tr><th>Day</th><th class="num">Size</th><th class="num">Samples</th><th class="num">Bytes each</th><th class="num">Parts</th></tr></thead>
					<tbody>{days.slice(0, limit.value).map((d) => <tr key={d.day}><th scope="row">{d.day}</th><td class="num">{formatValue(d.bytes, 'bytes')}</td><td class="num">{n(d.samples)}</td><td class="num">{d.samples ? (d.bytes / d.samples).toFixed(1) : '–'}</td><td class="num">{n(d.parts)}</td></tr>)}</tbody></table>
			)}
			{days.length > limit.value && <button type="button" class="more-rows" onClick={() => { limit.value += 10 * ROWS; }}>{n(days.length - limit.value)} more days</button>}</div>
	);
}

/* ---- limits and flags ---- */

const Limits = ({ limits }: { limits: Limit[] }) => (
	<ScrollX label="Limits"><table class="data cards limits">
		<thead><tr><th>What</th><th class="num">Now</th><th class="num">At most</th><th class="num">Share</th><th>Flag</th></tr></thead>
		<tbody>{limits.map((l) => {
			const share = l.most > 0 ? l.used / l.most : NaN;
			return (
				<tr key={l.what}><th scope="row">{l.what}</th>
					<td data-of="Now" class="num">{Number.isFinite(l.used) ? formatValue(l.used, l.unit) : '–'}</td>
					<td data-of="At most" class="num">{l.most > 0 ? formatValue(l.most, l.unit) : 'no limit'}</td>
					<td data-of="Share" class={`num share ${share > 0.9 ? 'error-text' : ''}`}>{Number.isFinite(share) ? <><Bar share={share} />{formatShare(share)}</> : '–'}</td>
					<td data-of="Flag">{l.flag && <code>--{l.flag}</code>}</td></tr>
			);
		})}</tbody>
	</table></ScrollX>
);

function Flags({ flags }: { flags: FlagInfo[] }) {
	const shown = flagsWith(flags, flagFind.value, onlyGiven.value);
	return (
		<Section title="Flags" more={<>
			<label class="check"><input type="checkbox" checked={onlyGiven.value} onChange={(e) => asked(() => { onlyGiven.value = e.currentTarget.checked; })} />only those that were set</label>
			<label class="field"><Search /><input type="search" placeholder="Filter flags" aria-label="Filter flags" value={flagFind.value} onInput={(e) => asked(() => { flagFind.value = e.currentTarget.value; })} /></label>
		</>}>
			{flags.length > 0 && shown.length === 0 && <p class="hint nothing">{onlyGiven.value && !flagFind.value ? 'None was given: all have their defaults.' : 'No flag matches the filter.'}</p>}
			<table class="data flags"><tbody>{shown.map((f) => (
				<tr key={f.name}><th scope="row"><code>--{f.name}</code>{f.given && <small class="given">given</small>}</th><td><code>{f.value === '' ? <span class="hint">not set</span> : f.value}</code><p class="hint">{f.help}</p></td></tr>
			))}</tbody></table>
		</Section>
	);
}
