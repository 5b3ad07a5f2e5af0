// SPDX-License-Identifier: Apache-2.0
// Why a query has nothing to show: finds out by asking the server a few cheap questions.
import { api, type Target } from '../base/api';
import { types } from '../base/state';
import { parseDuration } from '../base/units';
import { threshold } from '../pages/alerting';
import { matchersOf, selectors, type Selector } from '../query/query';
import { findType } from '../query/typepicker';

export type Reason =
	/** Nothing is stored. */
	| { kind: 'empty' }
	/** No series has that name, at any time. near: names that are like it. */
	| { kind: 'name'; name: string; near: string[] }
	/** matcher: the one that selects nothing by itself; '' if only all of them together do. values: the label's existing
	 * values. */
	| { kind: 'matcher'; s: Selector; matcher: string; label: string; values: string[] }
	/** There is data at other times: the last before the range, the first after it. retention: the retention time, '' unknown. */
	| { kind: 'time'; before: number | null; after: number | null; retention: string; gone: boolean; down: Target[] }
	/** There are series, but a comparison with a number removes all of their values. */
	| { kind: 'comparison'; expr: string; op: string; bound: number; low: number; high: number }
	/** A range in brackets is too short for two samples. */
	| { kind: 'window'; range: string; longer: string; query: string }
	| { kind: 'down'; down: Target[] }
	| { kind: 'rest' };

const bare = (s: Selector, matchers: string[]): string => s.name && s.nameStart !== s.nameEnd ? `${s.name}{${matchers.join(',')}}` : `{${[...s.name ? [`__name__=${JSON.stringify(s.name)}`] : [], ...matchers].join(',')}}`;
const ownMatchers = (s: Selector): string[] => matchersOf(s).filter((m) => !/^(["'`]|__name__\b)/.test(m));
const labelOf = (matcher: string): string => /^\s*([\w.]+)/.exec(matcher)?.[1] ?? '';

const FOREVER = 10 * 365 * 86400, MANY = 12;

export async function whyNothing(q: string, from: number, to: number, now: number, signal: AbortSignal): Promise<Reason> {
	const all = selectors(q);
	for (const s of all) {
		const own = ownMatchers(s);
		if ((s.name || own.length) && !await api.some(bare(s, own), from, to, signal)) return ofSelector(s, own, from, to, now, signal);
	}
	return ofTheRest(q, from, to, signal);
}

/** A selector that finds nothing in that time. */
async function ofSelector(s: Selector, own: string[], from: number, to: number, now: number, signal: AbortSignal): Promise<Reason> {
	const some = (matchers: string[], a: number, b: number) => api.some(bare(s, matchers), a, b, signal);
	const ever: [number, number] = [Math.max(0, now - FOREVER), now + 86400];
	if (s.name && !await some([], ...ever)) return ofName(s.name, signal);
	const there = await some(own, ...ever), down = await downTargets(own, signal);
	if (!there && down.length) return { kind: 'down', down };
	/* a matcher is in the way if without it there is something: in this time, or if there is nothing then anyway, at all */
	for (const [a, b] of there ? [[from, to]] : [[from, to], ever]) {
		if (!own.length || !await some([], a, b)) continue;
		for (const m of own) {
			if (own.length > 1 && !await some(own.filter((x) => x !== m), a, b)) continue;
			return { kind: 'matcher', s, matcher: m, label: labelOf(m), values: await valuesOf(bare(s, own.filter((x) => x !== m)), labelOf(m), signal) };
		}
		return { kind: 'matcher', s, matcher: '', label: '', values: [] };
	}
	if (!there) return { kind: 'rest' };
	const [before, after] = await Promise.all([edge((a, b) => some(own, a, b), from, -1, now, signal), edge((a, b) => some(own, a, b), to, 1, now, signal)]);
	const retention = await api.status('runtimeinfo', signal).then((a) => String(a.data.storageRetention ?? ''), () => '');
	const kept = parseDuration(retention.split(' ')[0]);
	return { kind: 'time', before, after, retention, gone: kept > 0 && to < now - kept, down: before !== null && after === null ? down : [] };
}

const valuesOf = (match: string, label: string, signal: AbortSignal): Promise<string[]> => label ? api.labelValues(label, match, MANY, signal).then((a) => a.data, () => []) : Promise.resolve([]);

async function ofName(name: string, signal: AbortSignal): Promise<Reason> {
	const known = (types.value ?? []).filter((t) => t.series > 0), metrics = await api.labelValues('__name__', undefined, 20000, signal).then((a) => a.data, () => []);
	if (!known.length && !metrics.length) return { kind: 'empty' };
	const names = [...new Set([...known.map((t) => t.alias || t.name), ...metrics.filter((m) => !findType(types.value, m))])];
	return { kind: 'name', name, near: nearest(name, names) };
}

/** Names that one may have meant: those that contain it or are in it, and those that have most of its pairs of letters. */
export function nearest(name: string, names: string[]): string[] {
	const n = name.toLowerCase(), pairs = [...n].map((c, i) => c + (n[i + 1] ?? '')).slice(0, -1);
	const likeness = (x: string) => x.includes(n) || (x.length > 2 && n.includes(x)) ? 1 : pairs.filter((p) => x.includes(p)).length / Math.max(pairs.length, x.length - 1);
	return names.map((x) => ({ x, l: likeness(x.toLowerCase()) })).filter((c) => c.l > 0.5).sort((a, b) => b.l - a.l || a.x.length - b.x.length).slice(0, 5).map((c) => c.x);
}

const REACHES = [3600, 6 * 3600, 86400, 7 * 86400, 31 * 86400, FOREVER];

/** The moment nearest to t, in that direction, at which there is something: to about a fiftieth of how far away it is. null: there is none. */
async function edge(some: (a: number, b: number) => Promise<boolean>, t: number, to: 1 | -1, now: number, signal: AbortSignal): Promise<number | null> {
	const span = (near: number, far: number): [number, number] => to > 0 ? [t + near, t + far] : [t - far, t - near];
	const end = to > 0 ? now - t : FOREVER;
	let near = 0;
	for (const reach of REACHES) {
		const far = Math.min(reach, end);
		if (far <= near) return null;
		if (await some(...span(near, far))) {
			let a = near, b = far;
			while (b - a > Math.max(5, b / 50) && !signal.aborted) {
				const mid = (a + b) / 2;
				if (await some(...span(a, mid))) b = mid; else a = mid;
			}
			return t + to * b;
		}
		near = far;
	}
	return null;
}

/** Targets that cannot be scraped, of those that the matchers name. */
async function downTargets(matchers: string[], signal: AbortSignal): Promise<Target[]> {
	const equal = matchers.flatMap((m) => { const x = /^([\w.]+)\s*=\s*"([^"\\]*)"$/.exec(m); return x ? [[x[1], x[2]]] : []; });
	if (!equal.length) return [];
	const found = await api.targets({ state: 'active', health: 'down', limit: 200 }, signal).then((a) => a.data.activeTargets, () => []);
	return found.filter((t) => equal.every(([k, v]) => t.labels[k] === v));
}

/** All selectors find something: what the query does with it leaves nothing. */
async function ofTheRest(q: string, from: number, to: number, signal: AbortSignal): Promise<Reason> {
	const c = threshold(q), step = Math.max(1, (to - from) / 50);
	if (c) {
		const a = await api.range(c.expr, from, to, step, signal).catch(() => null);
		const values = a?.data.flatMap((r) => r.values.map(([, v]) => v)).filter(Number.isFinite) ?? [];
		if (values.length) return { kind: 'comparison', ...c, low: values.reduce((x, y) => Math.min(x, y)), high: values.reduce((x, y) => Math.max(x, y)) };
	}
	for (const longer of ['2m', '5m', '15m']) {
		const short = selectors(q).filter((s) => s.range !== null && parseDuration(s.range) < parseDuration(longer));
		if (!short.length) continue;
		const query = [...short].reverse().reduce((text, s) => `${text.slice(0, s.rangeStart)}[${longer}]${text.slice(s.rangeEnd)}`, q);
		const a = await api.range(query, from, to, step, signal).catch(() => null);
		if (a?.data.length) return { kind: 'window', range: short[0].range!, longer, query };
	}
	return { kind: 'rest' };
}

