// SPDX-License-Identifier: Apache-2.0
// The parts of a query that are picked rather than typed: its type, its matchers, the labels it is summed by. They are read out of the
// text and written back into it, so that what was typed around them stays as it is.
import { labelText, matchersOf, namesType, parseMatcher, plainSelector, selectors, tokenize, unquoted, type Matcher, type Selector, type Token } from './query';

/* ---- sum by ---- */

/** A call with a selector inside: offsets of its name, of its grouping (`by (…)`, with the space before it; -1: none) and its end. */
interface Call { name: string; start: number; nameEnd: number; end: number; word: string; labels: string[]; clauseStart: number; clauseEnd: number }

function pairs(toks: Token[]): Map<number, number> {
	const open: number[] = [], out = new Map<number, number>();
	toks.forEach((t, i) => {
		if (t.kind !== 'paren') return;
		if ('([{<'.includes(t.text)) open.push(i);
		else if (open.length) out.set(open.pop()!, i);
	});
	return out;
}

/** The calls around a place, the innermost first. */
function callsAround(q: string, at: number): Call[] {
	const toks = tokenize(q).filter((t) => t.kind !== 'space' && t.kind !== 'comment');
	const closing = pairs(toks), opening = new Map([...closing].map(([a, b]) => [b, a]));
	const grouping = (i: number) => toks[i]?.kind === 'keyword' && /^(by|without)$/i.test(toks[i].text);
	const labelsOf = (open: number) => toks.slice(open + 1, closing.get(open)).filter((t) => t.kind === 'label' || t.kind === 'string').map((t) => t.kind === 'string' ? unquoted(t.text) : t.text);
	const out: Call[] = [];
	for (const [open, close] of closing) {
		if (toks[open].text !== '(' || toks[open].start > at || toks[close].end <= at || grouping(open - 1)) continue;
		let name = open - 1, clause = -1;
		const before = toks[name]?.text === ')' ? opening.get(name) : undefined;
		if (before !== undefined && grouping(before - 1)) { clause = before; name = before - 2; }
		if (toks[name]?.kind !== 'function') continue;
		const after = clause < 0 && grouping(close + 1) && toks[close + 2]?.text === '(' && closing.has(close + 2);
		if (after) clause = close + 2;
		const word = clause < 0 ? '' : toks[clause - 1].text.toLowerCase();
		out.push({
			name: toks[name].text, start: toks[name].start, nameEnd: toks[name].end, word, labels: clause < 0 ? [] : labelsOf(clause),
			end: after ? toks[closing.get(clause)!].end : toks[close].end,
			clauseStart: clause < 0 ? -1 : after ? toks[close].end : toks[name].end, clauseEnd: clause < 0 ? -1 : after ? toks[closing.get(clause)!].end : toks[open].start,
		});
	}
	return out.sort((a, b) => b.start - a.start);
}

const AGGREGATIONS = /^(merge|sum|avg|min|max|count|stddev|stdvar|group)$/;
const OVER_TIME = /^(rate|irate|increase|delta|deriv|\w+_over_time)$/;

const clauseOf = (labels: string[]) => labels.length ? ` by (${labels.map(labelText).join(', ')})` : '';

/** One selector's grouping: of the innermost aggregation around it. */
const aggregation = (q: string, s: Selector): Call | undefined => callsAround(q, s.start).find((c) => AGGREGATIONS.test(c.name));

/** The query, grouped by these labels; null where there is nothing to group. */
export function withSumBy(q: string, labels: string[]): string | null {
	let out = q;
	const all = selectors(q);
	if (!all.length) return null;
	for (const s of all.reverse()) {
		const around = callsAround(out, s.start), a = around.find((c) => AGGREGATIONS.test(c.name));
		if (a) {
			out = a.clauseStart < 0 ? out.slice(0, a.nameEnd) + clauseOf(labels) + out.slice(a.nameEnd)
				: out.slice(0, a.clauseStart) + clauseOf(labels) + out.slice(a.clauseEnd);
			continue;
		}
		if (!labels.length) continue;
		const inner = around[0];
		if (inner && !OVER_TIME.test(inner.name)) return null;
		const from = inner ? inner.start : s.start, to = inner ? inner.end : s.end;
		out = `${out.slice(0, from)}${!inner && s.range !== null ? 'merge' : 'sum'}${clauseOf(labels)}(${out.slice(from, to)})${out.slice(to)}`;
	}
	return out;
}

/* ---- all parts ---- */

/** The part of a query that pickers show. note: the part that they cannot show, in words; '' = they show all. */
export interface Parts { name: string; matchers: Matcher[]; by: string[]; canGroup: boolean; note: string }

export function partsOf(q: string): Parts {
	const all = selectors(q);
	if (!all.length) return { name: '', matchers: [], by: [], canGroup: false, note: q.trim() ? 'The query names no profiles.' : '' };
	const texts = all.map((s) => matchersOf(s).filter((m) => !namesType(m)));
	const shared = texts[0].filter((m) => texts.every((t) => t.includes(m)));
	const matchers = shared.map(parseMatcher).filter((m): m is Matcher => m !== null);
	const groups = all.map((s) => aggregation(q, s)), by = groups[0]?.word === 'by' ? groups[0].labels : [];
	const alike = groups.every((g) => (g?.word ?? '') === (groups[0]?.word ?? '') && String(g?.labels ?? '') === String(groups[0]?.labels ?? ''));
	return { name: all[0].name, matchers, by: alike ? by : [], canGroup: withSumBy(q, ['x']) !== null, note: noteOf(q, all, texts, matchers, groups, alike) };
}

function noteOf(q: string, all: Selector[], texts: string[][], matchers: Matcher[], groups: (Call | undefined)[], alike: boolean): string {
	if (all.length > 1) {
		const same = alike && all.every((s) => s.name === all[0].name) && texts.every((t) => t.length === matchers.length);
		return same ? `The pickers change all ${all.length} selectors.` : `The ${all.length} selectors differ: the pickers show what they share.`;
	}
	if (texts[0].length > matchers.length) return 'A matcher is not complete.';
	if (groups[0]?.word === 'without') return `Summed without ${groups[0].labels.join(', ')}.`;
	return plainSelector(q) ? '' : 'The query does more than the pickers show.';
}

/** A selector of the first one's type with all matchers except those of one label, to find other values. */
export function selectorWithout(q: string, label?: string): string {
	const s = selectors(q)[0];
	if (!s) return '';
	const kept = matchersOf(s).filter((m) => { const p = parseMatcher(m); return p ? p.label !== label : namesType(m); });
	const name = s.nameEnd > s.nameStart ? s.name : '';
	return kept.length ? `${name}{${kept.join(',')}}` : name;
}

/** The query that pickers and the rail treat as "all": the overview. */
export const isOverview = (q: string): boolean => /^\s*(\{\s*\}|<\s*>)\s*$/.test(q);
