// SPDX-License-Identifier: Apache-2.0
// Agents, from the metrics that they tell of themselves and that are stored. Pure.
import type { Labels, VectorSample } from '../base/api';

/** Since when counters are looked at. */
export const SPAN = '1h';
/** All agents: those whose metrics are stored, and those whose profiles are requested. Small: some series each. */
export const WHO = '{__name__=~"pyrrha_agent_build_info|pyrrha_agent_host_info|profile_up", profile=~"(on|off)_cpu|"}';
/** Their state at the last answer. */
export const WERE = `last_over_time({__name__=~"pyrrha_agent_(build|host)_info"}[${SPAN}])`;

export interface Agent {
	key: string; instance: string; jobs: string[]; node: string; version: string; kernel: string;
	/** Whether its metrics, its profiles are there: null if they are not asked for. */
	metrics: boolean; up: boolean | null;
}

/** The data of an answering agent; shares are of CPU time and of stacks. NaN: it does not say. */
export interface Figures {
	hertz: number; cpus: number; cost: number; started: number; processes: number; threshold: number; configBad: boolean;
	reduced: string[]; samples: number; lost: number; truncated: number; lostBy: [string, number][]; endsBy: [string, number][]; late: number;
}

const KEYS = ['__name__', 'job', 'profile', 'version', 'kernel', 'machine', 'exported_node'];

/* Its labels except those that differ between its jobs. */
const identity = (l: Labels): string => JSON.stringify(Object.entries(l).filter(([k]) => !KEYS.includes(k) && k !== 'node').sort());
const nodeOf = (l: Labels): string => l.exported_node ?? l.node ?? '';

/** The host part of its address. */
export const hostOf = (instance: string): string => instance.replace(/:\d+$/, '');

export function agentsOf(now: VectorSample[], before: VectorSample[]): Agent[] {
	const all = new Map<string, Agent>();
	const add = (l: Labels): Agent => {
		const key = identity(l);
		let a = all.get(key);
		if (!a) all.set(key, a = { key, instance: l.instance ?? '', jobs: [], node: '', version: '', kernel: '', metrics: false, up: null });
		if (l.job && !a.jobs.includes(l.job)) a.jobs.push(l.job);
		return a;
	};
	for (const { metric: l, value } of now) {
		const a = add(l);
		if (l.__name__ === 'profile_up') { a.up = (a.up ?? true) && value[1] === '1'; a.node ||= l.node ?? ''; continue; }
		a.metrics = true;
		a.version = l.version ?? a.version;
		if (l.kernel) { a.kernel = `${l.kernel} ${l.machine}`; a.node = nodeOf(l); }
	}
	for (const { metric: l } of before) {
		const a = all.get(identity(l));
		if (!a || a.metrics) continue;
		a.version ||= l.version ?? '';
		a.node = nodeOf(l) || a.node;
	}
	return joined([...all.values()]).sort((a, b) => nameOf(a).localeCompare(nameOf(b), 'en', { numeric: true }) || a.key.localeCompare(b.key));
}

/** Two jobs may give one agent different labels: an address that has metrics once and profiles once is one agent. */
function joined(all: Agent[]): Agent[] {
	const told = new Map<string, Agent[]>();
	for (const a of all) if (a.metrics) told.set(a.instance, [...told.get(a.instance) ?? [], a]);
	return all.filter((a) => {
		const same = a.metrics ? undefined : told.get(a.instance);
		if (same?.length !== 1) return true;
		same[0].up = a.up;
		same[0].jobs.push(...a.jobs.filter((j) => !same[0].jobs.includes(j)));
		return false;
	});
}

export const nameOf = (a: Agent): string => a.node || hostOf(a.instance);
export const versionsOf = (all: Agent[]): string[] => [...new Set(all.map((a) => a.version).filter(Boolean))].sort((a, b) => b.localeCompare(a, 'en', { numeric: true }));

export type AgentState = 'up' | 'down' | 'no metrics' | 'no profiles';
export const stateOf = (a: Agent): AgentState => a.up === false ? 'down' : !a.metrics ? 'no metrics' : a.up === null ? 'no profiles' : 'up';

const quoted = (s: string): string => JSON.stringify(s);
const escaped = (s: string): string => s.replace(/[\\^$.|?*+()[\]{}]/g, '\\$&');
/** A matcher of these agents; of all without any. */
const among = (some: Agent[] | null): string => some ? `, instance=~${quoted(some.map((a) => escaped(a.instance)).join('|'))}` : '';

const GAUGES = 'frequency_hertz|cpus|cost_ratio|reduced|processes|config_last_reload_successful|off_cpu_threshold_seconds|build_info';
const COUNTERS = 'samples|stacks|lost_samples|off_cpu_lost|unseen_seconds|late_drains';
export const gaugesOf = (some: Agent[] | null): string => `{__name__=~"pyrrha_agent_(${GAUGES})"${among(some)}} or on (instance, job, __name__) (process_start_time_seconds${some ? `{${among(some).slice(2)}}` : ''} and on (instance, job) pyrrha_agent_build_info)`;
export const countersOf = (some: Agent[] | null): string => `label_replace(increase({__name__=~"pyrrha_agent_(${COUNTERS})_total"${among(some)}}[${SPAN}]), "__of__", "$1", "__name__", "pyrrha_agent_(.*)_total")`;

const share = (part: number, of: number): number => of > 0 ? part / of : NaN;

/** By the key of the agent. */
export function figuresOf(gauges: VectorSample[], counters: VectorSample[]): Map<string, Figures> {
	const own = ['__of__', 'reason', 'end', 'by'], all = new Map<string, { g: Record<string, number>; reduced: string[]; c: Record<string, [string, number][]> }>();
	const at = (l: Labels) => {
		const key = identity(Object.fromEntries(Object.entries(l).filter(([k]) => !own.includes(k))));
		let x = all.get(key);
		if (!x) all.set(key, x = { g: {}, reduced: [], c: {} });
		return x;
	};
	for (const { metric: l, value } of gauges) {
		const x = at(l);
		if (l.__name__ !== 'pyrrha_agent_reduced') x.g[l.__name__.replace('pyrrha_agent_', '')] = Number(value[1]);
		else if (value[1] === '1') x.reduced.push(l.profile ?? l.exported_profile ?? '');
	}
	for (const { metric: l, value } of counters) (at(l).c[l.__of__] ??= []).push([l.reason ?? l.end ?? '', Number(value[1])]);
	return new Map([...all].map(([key, { g, reduced, c }]) => {
		const total = (list: [string, number][] = []) => list.reduce((s, [, v]) => s + v, 0);
		const hertz = g.frequency_hertz ?? NaN, seen = total(c.samples), lost = total(c.lost_samples) + total(c.unseen_seconds) * (hertz || 0), stacks = total(c.stacks);
		const lostBy: [string, number][] = [...(c.lost_samples ?? []).map(([k, v]): [string, number] => [k, share(v, seen + lost)]), ['ticks', share(total(c.unseen_seconds) * (hertz || 0), seen + lost)]];
		const largest = (list: [string, number][]) => list.filter(([, v]) => v > 0).sort((a, b) => b[1] - a[1]);
		return [key, {
			hertz, reduced, cpus: g.cpus ?? NaN, cost: g.cost_ratio ?? NaN, started: g.process_start_time_seconds ?? NaN, processes: g.processes ?? NaN,
			threshold: g.off_cpu_threshold_seconds ?? NaN, configBad: g.config_last_reload_successful === 0, samples: seen,
			lost: share(lost, seen + lost), truncated: share(total((c.stacks ?? []).filter(([k]) => k !== 'bottom')), stacks),
			lostBy: largest(lostBy), endsBy: largest((c.stacks ?? []).filter(([k]) => k !== 'bottom').map(([k, v]) => [k, share(v, stacks)])), late: total(c.late_drains),
		}];
	}));
}

/** Above these shares something is wrong that one may mend. */
export const MUCH_LOST = 0.01, MUCH_TRUNCATED = 0.05;
export const troubled = (a: Agent, f: Figures | undefined): boolean => stateOf(a) === 'down' || !!f && (f.lost > MUCH_LOST || f.truncated > MUCH_TRUNCATED || f.configBad);

/** Remedies for the reasons that have one. */
export const REASONS: Record<string, string> = {
	ring_full: 'The agent does not get enough CPU time: raise its limit, or lower the frequency.',
	ticks: 'CPU time of which the kernel told nothing.',
	no_table: 'Programs whose file was written to while they run: restart them.',
	tables_full: 'There is no memory left for unwind tables: raise --unwind-memory.',
	table_not_built: 'Programs that had just started: later stacks are whole. Very many of them need a higher --max-cost.',
	unsupported_rule: 'Unwind rules that tables cannot express: frame pointers help (-fno-omit-frame-pointer).',
	bad_frame: 'Code without tables and frame pointers, as of some just-in-time compilers.',
	over_budget: 'Waits of which no stack was taken: the time for that was used up.',
};

/** The lines of a scrape configuration that store an agent's own metrics. */
export const METRICS_LINES = (job: string): string => `scrape_configs:\n  - job_name: ${/^[\w-]+$/.test(job) ? job : quoted(job)}\n    metrics_path: /metrics # this line\n    profiling_config: {preset: agent}`;
