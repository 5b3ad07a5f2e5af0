// SPDX-License-Identifier: Apache-2.0
// What the server tells of itself, made ready for people. Pure.
import type { Block, BucketStatus, FlagInfo, ServerStatus, StorageStatus } from '../base/api';
import { ago, moment } from '../base/time';
import { formatValue } from '../base/units';

/** Parses the text format: the sum of each name's series, and each series by its name{labels}. */
export function parseMetrics(text: string): Map<string, number> {
	const out = new Map<string, number>();
	for (const line of text.split('\n')) {
		const m = /^([a-zA-Z_:][\w:]*)(\{.*\})? (\S+)/.exec(line);
		if (!m) continue;
		const v = Number(m[3]);
		out.set(m[1], (out.get(m[1]) ?? 0) + v);
		if (m[2]) out.set(m[1] + m[2], v);
	}
	return out;
}

/** The value of a flag as a number: "256MiB" are bytes, "1000" is itself; NaN if it is neither. */
export function flagNumber(value: string | undefined): number {
	const m = /^([\d.]+)\s*([kKMGTPE]i?B|B)?$/.exec(value ?? '');
	if (!m) return NaN;
	const unit = (m[2] ?? 'B').toUpperCase();
	return Number(m[1]) * (unit === 'B' ? 1 : 1024 ** ('KMGTPE'.indexOf(unit[0]) + 1));
}

export interface Limit { what: string; flag: string; used: number; most: number; unit: 'bytes' | 'count' }

/* The limits: their flag, the metric of the use, and the metric of the limit if it is not the flag's value itself. */
const LIMITS: [string, string, string, string, Limit['unit']][] = [
	['The process, all budgets together', 'memory', 'process_resident_memory_bytes', '', 'bytes'],
	['Hours not sealed yet', 'storage.head-memory', 'pyrrha_tsdb_head_bytes', 'pyrrha_tsdb_head_budget_bytes', 'bytes'],
	['Names and stacks', 'storage.dictionary-memory', 'pyrrha_tsdb_dictionary_bytes', 'pyrrha_tsdb_dictionary_budget_bytes', 'bytes'],
	['Cache of the disk', 'storage.cache-memory', 'pyrrha_tsdb_block_cache_bytes', 'pyrrha_tsdb_block_cache_budget_bytes', 'bytes'],
	['Profiles to write', 'storage.queue-memory', 'pyrrha_tsdb_queue_bytes', '', 'bytes'],
	['Head log not in a table yet', '', 'pyrrha_tsdb_head_log_memory_bytes', 'pyrrha_tsdb_head_log_memory_budget_bytes', 'bytes'],
	['Series of today', 'storage.max-series', '#series', '', 'count'],
	['Disk', 'storage.tsdb.retention.size', '#disk', '', 'bytes'],
	['Memory of scrapes', 'scrape.memory', 'pyrrha_target_memory_bytes', 'pyrrha_target_memory_limit_bytes', 'bytes'],
	['Queries at work', 'query.max-concurrency', 'pyrrha_engine_queries', 'pyrrha_engine_queries_concurrent_max', 'count'],
	['Memory of queries', 'query.memory', 'pyrrha_engine_query_bytes', '', 'bytes'],
	['Answers not taken yet', 'web.answer-memory', 'pyrrha_http_memory_bytes{of="answers"}', '', 'bytes'],
	['Connections', 'web.max-connections', 'pyrrha_http_connections', '', 'count'],
	['Open files', '', 'process_open_fds', 'process_max_fds', 'count'],
];

export function limitsOf(metrics: Map<string, number>, flags: FlagInfo[], storage: StorageStatus | null): Limit[] {
	const value = new Map(flags.map((f) => [f.name, f.value]));
	const used = (m: string) => m === '#series' ? storage?.headStats.numSeries ?? NaN : m === '#disk' ? storage?.storage.diskBytes ?? NaN : metrics.get(m) ?? NaN;
	return LIMITS.map(([what, flag, of, bound, unit]) => ({ what, flag, unit, used: used(of), most: bound ? metrics.get(bound) ?? NaN : flagNumber(value.get(flag)) }))
		.filter((l) => Number.isFinite(l.used) || Number.isFinite(l.most));
}

/* Metrics that are above 0 where something is wrong, or was since the start. */
const PROBLEMS: [string, string][] = [
	['pyrrha_tsdb_write_failed', 'The storage cannot write: is its disk full?'],
	['pyrrha_tsdb_lost_records_total', '# records could not be read, and are lost.'],
	['pyrrha_tsdb_holes', 'Data is lost in # ranges of time: answers about them say so. See the log and pyrtool tsdb verify.'],
	['pyrrha_tsdb_series_over_limit_total', '# new series were refused (--storage.max-series): drop labels that always change.'],
	['pyrrha_tsdb_target_samples_other_total', '# samples became (other): a target has more names than --storage.max-target-… allow.'],
	['pyrrha_target_windows_lost_total', '# windows of agents are lost: the server was away longer than their --history.'],
	['pyrrha_notifications_dropped_total', '# alerts reached no Alertmanager.'],
];

export const problemsOf = (metrics: Map<string, number>): string[] => PROBLEMS.filter(([m]) => (metrics.get(m) ?? 0) > 0).map(([m, text]) => text.replace('#', metrics.get(m)!.toLocaleString('en-US')));

export interface Day { day: string; parts: number; samples: number; series: number; bytes: number }

/** Sealed parts by their day (UTC), the newest first. A rollup sums up samples that were counted already. */
export function daysOf(blocks: Block[]): Day[] {
	const out = new Map<string, Day>();
	for (const b of blocks) {
		const day = new Date(b.minTime).toISOString().slice(0, 10);
		const d = out.get(day) ?? { day, parts: 0, samples: 0, series: 0, bytes: 0 };
		d.parts++;
		if (b.compaction.level === 1) d.samples += b.stats.numSamples;
		d.series = Math.max(d.series, b.stats.numSeries);
		d.bytes += b.stats.numBytes;
		out.set(day, d);
	}
	return [...out.values()].sort((a, b) => b.day.localeCompare(a.day));
}

/** Flags with the text in their name, value or help; explicitly set ones first. */
export function flagsWith(flags: FlagInfo[], text: string, given: boolean): FlagInfo[] {
	const t = text.trim().toLowerCase();
	return flags.filter((f) => (!given || f.given) && (!t || `${f.name} ${f.value} ${f.help}`.toLowerCase().includes(t))).sort((a, b) => Number(b.given) - Number(a.given));
}

/** Other servers, in rows; true: it is bad. now: seconds. */
export const serverRows = (list: ServerStatus[], now: number): [string, string, boolean?][] => list.map((s) => [s.url, [
	s.health, ...Object.entries(s.externalLabels).map((l) => l.join('=')), s.lastError, s.lastAnswer && `answered ${ago(Date.parse(s.lastAnswer) / 1000, now)}`,
].filter(Boolean).join(', '), s.health === 'down']);

/** What the bucket has, in rows; true: it is bad. now: seconds. */
export function bucketRows(b: BucketStatus, now: number): [string, string, boolean?][] {
	const at = (rfc3339: string) => Date.parse(rfc3339) / 1000, since = (rfc3339: string) => `${moment(at(rfc3339))}, ${ago(at(rfc3339), now)}`;
	const w = b.waiting, a = b.absent, o = b.others, size = (n: number) => formatValue(n, 'bytes');
	return [
		['Bucket', b.store],
		['State', b.why ? `${b.state}: ${b.why}` : b.state, b.state !== 'writing' || b.why !== ''],
		['Server', b.id],
		['Holds', `${b.days} days, ${size(b.bytes)}`],
		['Waits', w.parts ? `${w.parts} parts, ${size(w.bytes)}, since ${since(w.since)}` : 'nothing', w.parts > 0 && now - at(w.since) > 7200],
		['Last success', b.lastSuccess && since(b.lastSuccess)],
		['Last error', b.lastError && `${since(b.lastErrorTime)}: ${b.lastError}`, true],
		['Others', o ? `${o.days} days, ${o.servers} servers ${o.lastError}` : ''],
		['Not on this disk', a.days ? `${a.days} days, ${moment(at(a.from))} to ${moment(at(a.until))}, ${size(b.cache.bytes)} cached` : ''],
	];
}
