// SPDX-License-Identifier: Apache-2.0
// One side of a comparison: a query at a time. How it is written in the address, how it moves through time, and the expression that
// answers for it wherever and whenever it is asked.
import { flameQuery, plainSelector, selectors, tokenize, withMatchers, type Selection } from '../query/query';
import { unfiltered } from '../query/filters';
import { parseDuration } from '../base/units';

export type Side = { query: string } & ({ from: number; to: number } | { at: number });
export interface Comparison { base: Side; now: Side }

/** The length that represents a moment, in seconds. */
const MOMENT = 300;

export const lengthOf = (s: Side): number => 'at' in s ? MOMENT : s.to - s.from;
export const endOf = (s: Side): number => 'at' in s ? s.at : s.to;
export const startOf = (s: Side): number => 'at' in s ? s.at : s.from;
export const samePlace = (a: Side, b: Side): boolean => printSide(a) === printSide(b);

const round = (t: number) => Math.round(t * 1000) / 1000;

/** "FROM-TO QUERY" or "AT QUERY", in seconds since 1970. */
export const printSide = (s: Side): string => `${'at' in s ? round(s.at) : `${round(s.from)}-${round(s.to)}`} ${s.query}`;

/** For a malformed text: null. */
export function parseSide(text: string): Side | null {
	const m = /^(\d+(?:\.\d+)?)(?:-(\d+(?:\.\d+)?))? ([\s\S]*\S[\s\S]*)$/.exec(text);
	if (!m) return null;
	const from = Number(m[1]), to = Number(m[2]);
	if (m[2] === undefined) return { query: m[3], at: from };
	return to > from ? { query: m[3], from, to } : null;
}

/** The same side that many seconds earlier. */
export const earlier = (s: Side, seconds: number): Side => 'at' in s ? { query: s.query, at: s.at - seconds } : { query: s.query, from: s.from - seconds, to: s.to - seconds };
/** The time of the same length that ends where this one begins. */
export const before = (s: Side): Side => earlier(s, lengthOf(s));

/** The profile that the page shows for a query: the time picked on its graph, else the range of its only selector, else the query at `end`. */
export function sideOf(q: string, picked: Selection, end: number): Side {
	if (picked && 'at' in picked) return { query: picked.of ? withMatchers(q, picked.of) : q, at: picked.at };
	if (picked) return { query: q, from: picked.from, to: picked.to };
	const p = plainSelector(unfiltered(q)), seconds = p?.s.range ? parseDuration(p.s.range) : NaN;
	return seconds > 0 ? { query: q, from: end - seconds, to: end } : { query: q, at: end };
}

/** The same expression whatever time it is asked for: `@` behind everything that is read, unless it says its time itself. A selector in a
 * subquery has the times of that subquery, which is changed instead. */
export function pinned(expr: string, time: number): string {
	const at = ` @ ${round(time)}`, tokens = tokenize(expr).filter((t) => t.kind !== 'space' && t.kind !== 'comment');
	const inner: [number, number][] = [], places: number[] = [];
	tokens.forEach((t, i) => {
		if (t.text !== '[' || t.kind !== 'paren') return;
		const close = tokens.findIndex((x, k) => k > i && x.text === ']' && x.kind === 'paren');
		if (close < 0 || !tokens.slice(i, close).some((x) => x.text === ':')) return;
		places.push(tokens[close].end);
		inner.push([operandStart(expr, tokens, i), t.start]);
	});
	for (const s of selectors(expr)) places.push(s.end);
	const said = (from: number) => /^\s*(?:offset\s+-?\S+\s*)?@/i.test(expr.slice(from));
	let out = expr;
	for (const p of [...new Set(places)].sort((a, b) => b - a))
		if (!said(p) && !inner.some(([from, to]) => p > from && p <= to)) out = out.slice(0, p) + at + out.slice(p);
	return out;
}

/** The start of the operand before tokens[i]: a call in parentheses, or a selector. */
function operandStart(expr: string, tokens: { text: string; start: number; end: number; kind: string }[], i: number): number {
	const s = selectors(expr).find((x) => x.end === tokens[i - 1]?.end || x.start < tokens[i].start && x.end >= tokens[i].end);
	if (s) return s.start;
	let depth = 0;
	for (let k = i - 1; k >= 0; k--) {
		if (tokens[k].text === ')') depth++;
		else if (tokens[k].text === '(' && --depth === 0) {
			const name = tokens[k - 1];
			return name?.kind === 'function' ? name.start : tokens[k].start;
		}
	}
	return 0;
}

/** The one profile of a side; several elements of a query are added up. */
export function sideExpr(s: Side): { expr: string; time: number } {
	const f = flameQuery(s.query, s, endOf(s));
	const p = plainSelector(unfiltered(f.expr)), single = p && !p.by && p.functions[0] === 'merge';
	return { expr: pinned(single ? f.expr : `merge(${f.expr})`, f.time), time: f.time };
}
