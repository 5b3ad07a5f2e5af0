// SPDX-License-Identifier: Apache-2.0
// diff(NOW, BASE[, "share"]) as text: made from two sides, and found again in a query, also within filters and views.
import { callOf, filtersOf, refilter, unfiltered } from '../query/filters';
import { tokenize } from '../query/query';

/** before and after: what is around the call. base: without what scales it to the time of the other side. */
export interface DiffExpr { now: string; base: string; scale: number; shares: boolean; before: string; after: string }

const SCALED = /^([\s\S]*) \* \((\d+(?:\.\d+)?) \/ (\d+(?:\.\d+)?)\)$/;

/** The first diff(…) of an expression; null if it has none. */
export function diffOf(expr: string): DiffExpr | null {
	const tokens = tokenize(expr), start = tokens.find((t) => t.kind === 'function' && t.text === 'diff')?.start;
	if (start === undefined) return null;
	let depth = 0;
	const end = tokens.find((t) => t.start > start && t.kind === 'paren' && (t.text === '(' ? ++depth === 0 : t.text === ')' && --depth === 0))?.end;
	const call = end === undefined ? null : callOf(expr.slice(start, end));
	if (!call || call.args.length < 2) return null;
	const scaled = SCALED.exec(call.args[1]);
	return {
		now: call.args[0], base: scaled ? scaled[1] : call.args[1], scale: scaled ? Number(scaled[2]) / Number(scaled[3]) : 1,
		shares: /^["'`]share["'`]$/.test(call.args[2] ?? ''), before: expr.slice(0, start), after: expr.slice(end),
	};
}

const seconds = (s: number) => String(Math.round(s * 1000) / 1000);

/** Seconds that each side was observed for; null if that says nothing: snapshots, and rates, which are per second already. */
export interface Observed { now: number; base: number }

/** Whether amounts of both sides are of unequal times: a thousandth is the jitter of scrapes. */
export const unequal = (o: Observed | null): o is Observed => o !== null && o.now > 0 && o.base > 0 && Math.abs(o.now / o.base - 1) > 1e-3;

/** The comparison as an expression. Amounts of unequal times are per time: the base is scaled to what it would be in the time of now.
 * Filters that both sides have are around it, so that shares are of the whole. */
export function diffExpr(now: string, base: string, measure: 'share' | 'absolute', observed: Observed | null): string {
	const filters = filtersOf(now), alike = filters.length > 0 && JSON.stringify(filters) === JSON.stringify(filtersOf(base));
	if (alike) return refilter(diffExpr(unfiltered(now), unfiltered(base), measure, observed), filters);
	if (measure === 'share') return `diff(${now}, ${base}, "share")`;
	return `diff(${now}, ${base}${unequal(observed) ? ` * (${seconds(observed.now)} / ${seconds(observed.base)})` : ''})`;
}
