// SPDX-License-Identifier: Apache-2.0
// Asks for a comparison: the profile of each side, then the difference; and a line of each side over time.
import { useEffect } from 'preact/hooks';
import { useSignal, type Signal } from '@preact/signals';
import { api, ApiError } from '../base/api';
import { stepFor, tick, types } from '../base/state';
import { axisUnit } from '../graph/graphpanel';
import { alignSeries, type GraphSeries } from '../graph/seriesnames';
import { loadProfile, type ProfileState } from '../profile/load';
import { collapse, viewKey } from '../profile/view';
import { graphQuery, selectors } from '../query/query';
import { findType } from '../query/typepicker';
import type { AxisUnit } from '../base/units';
import { diffExpr, type Observed } from './diffexpr';
import { endOf, printSide, sideExpr, startOf, type Comparison, type Side } from './sides';
import { measure } from './state';

export type Loaded = { profile: ProfileState } | { error: ApiError };
export interface Compared {
	base: Loaded | null; now: Loaded | null;
	diff: Loaded | null;
	/** Seconds that each side was observed for, where that counts. */
	observed: Observed | null;
	warnings: string[];
	busy: boolean;
}

const failed = (e: unknown): ApiError => e instanceof ApiError ? e : new ApiError('internal', String(e));

/** Rates are per second already, and a state has no length. */
function observedOf(now: ProfileState, base: ProfileState): Observed | null {
	return [now, base].some((p) => /\brate\s*\(/.test(p.expr) || !p.tree.seconds) ? null : { now: now.tree.seconds, base: base.tree.seconds };
}

async function load(c: Comparison, width: number, signal: AbortSignal, show: (c: Partial<Compared>) => void): Promise<void> {
	const asked = `${printSide(c.base)}\n${printSide(c.now)}`, warnings: string[] = [];
	const one = async (expr: string, time: number, w: number): Promise<Loaded> => {
		try {
			const a = await loadProfile(expr, time, w, signal);
			warnings.push(...a.warnings);
			return { profile: { ...a.profile, asked } };
		} catch (e) {
			return { error: failed(e) };
		}
	};
	const e = { now: sideExpr(c.now), base: sideExpr(c.base) };
	const sides = Promise.all([one(e.now.expr, e.now.time, width / 2), one(e.base.expr, e.base.time, width / 2)]);
	const whole = measure.value === 'share' ? one(diffExpr(e.now.expr, e.base.expr, 'share', null), e.now.time, width) : null;
	const [now, base] = await sides;
	if (signal.aborted) return;
	const observed = 'profile' in now && 'profile' in base ? observedOf(now.profile, base.profile) : null;
	show({ now, base, observed });
	const diff = 'error' in now || 'error' in base ? null : await (whole ?? one(diffExpr(e.now.expr, e.base.expr, 'absolute', observed), e.now.time, width));
	if (!signal.aborted) show({ diff, warnings: [...new Set(warnings)], busy: false });
}

export function useCompared(c: Comparison): Signal<Compared> {
	const state = useSignal<Compared>({ base: null, now: null, diff: null, observed: null, warnings: [], busy: true });
	useEffect(() => {
		const abort = new AbortController();
		state.value = { ...state.value, busy: true };
		void load(c, 2 ** Math.ceil(Math.log2(4 * innerWidth)), abort.signal, (more) => { state.value = { ...state.value, ...more }; });
		return () => abort.abort();
	}, [printSide(c.base), printSide(c.now), measure.value, viewKey.value, collapse.value, tick.value]);
	return state;
}

export interface SideGraph { from: number; to: number; times: number[]; series: GraphSeries[]; unit: AxisUnit; expr: string }

/** Which stretch of time a side's graph shows: both the same where the sides are near, so that one sees them beside each other. */
export function graphSpan(side: Side, c: Comparison, now: number): { from: number; to: number } {
	const length = Math.max(endOf(c.base) - startOf(c.base), endOf(c.now) - startOf(c.now), 60);
	const from = Math.min(startOf(c.base), startOf(c.now)), to = Math.max(endOf(c.base), endOf(c.now)), near = to - from < 10 * length;
	const around = near ? { from: from - length / 2, to: to + length / 2 } : { from: startOf(side) - 2 * length, to: endOf(side) + 2 * length };
	return { from: around.from, to: Math.max(around.from + 60, Math.min(around.to, now)) };
}

/** All of a side as one line. */
async function loadGraph(q: string, span: { from: number; to: number }, signal: AbortSignal): Promise<SideGraph> {
	const step = stepFor(span.to - span.from), from = Math.floor(span.from / step) * step, to = Math.floor(span.to / step) * step;
	const g = graphQuery(q, (n) => findType(types.value, n)?.kind, Math.max(step, 30)), expr = g.plain ? `sum(${g.expr})` : g.expr;
	const a = await api.range(expr, from, to, step, signal);
	const { times, series } = alignSeries(a.data, from, to, step, expr);
	return { from, to, times, series, expr, unit: g.plain ? axisUnit(selectors(q)[0]?.name ?? '') : '' };
}

/** null while there is none, or the query has none. */
export function useSideGraph(side: Side, c: Comparison): Signal<SideGraph | null> {
	const graph = useSignal<SideGraph | null>(null);
	const span = graphSpan(side, c, Math.floor(Date.now() / 30000) * 30 + 30);
	useEffect(() => {
		if (types.value === null) return;
		const abort = new AbortController();
		loadGraph(side.query, span, abort.signal).then((g) => { graph.value = g; }, () => { if (!abort.signal.aborted) graph.value = null; });
		return () => abort.abort();
	}, [side.query, span.from, span.to, types.value !== null]);
	return graph;
}
