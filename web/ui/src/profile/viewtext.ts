// SPDX-License-Identifier: Apache-2.0
// How a way of looking at a profile is asked for: the expression of the profile, wrapped. What a tree that was trimmed cannot tell (callers,
// joined recursion, pods first) is left to the server, so that its numbers are exact.
import { callOf, filtersOf, frameIs, refilter, unfiltered } from '../query/filters';

export interface View { collapsed: boolean; inverted: boolean; rowsBy: string }

/** An aggregation that keeps this label, too. What keeps its labels anyway stays as it is. */
export function keepingLabel(q: string, label: string): string {
	const m = /^\s*(merge|sum)\s*(?:(by|without)\s*\(([^()]*)\)\s*)?(?=\()/.exec(q);
	const after = /\)\s*(by|without)\s*\(([^()]*)\)\s*$/.exec(q);
	if (!m || !callOf(q.slice(0, m.index) + m[1] + q.slice(m[0].length, after ? after.index + 1 : undefined))) return q;
	const how = m[2] ?? after?.[1] ?? 'by', labels = (m[3] ?? after?.[2] ?? '').split(',').map((l) => l.trim()).filter(Boolean);
	const kept = how === 'without' ? labels.filter((l) => l !== label) : labels.includes(label) ? labels : [...labels, label];
	return `${m[1]} ${how} (${kept.join(', ')})${q.slice(m[0].length, after ? after.index + 1 : undefined)}`;
}

/** The expression whose tree is shown. */
export function wrapView(expr: string, v: View): string {
	const core = unfiltered(expr), filters = filtersOf(expr), diff = callOf(core), l = JSON.stringify(v.rowsBy);
	/* of a comparison upside down the pods would be below */
	const rows = v.rowsBy && !(v.inverted && diff?.fn === 'diff'), sides = rows && diff?.fn === 'diff' ? diff.args : null;
	let q = expr;
	/* the sides of a comparison may have different pods, and only a profile that is one element on both sides is compared whole */
	if (sides) q = refilter(`diff(${[...sides.slice(0, 2).map((a) => `merge(tagroot(${keepingLabel(a, v.rowsBy)}, ${l}))`), ...sides.slice(2)].join(', ')})`, filters);
	else if (rows) q = refilter(keepingLabel(core, v.rowsBy), filters);
	if (v.collapsed) q = `collapse(${q}, "recursion")`;
	if (v.inverted) q = `invert(${q})`;
	return rows && !sides ? `tagroot(${q}, ${l})` : q;
}

/** All occurrences of a function: its callers (read upwards), and its callees. With recursion, callers start at the innermost call and
 * callees at the outermost, so that both add up to its total, each stack counted once. */
export const callersExpr = (expr: string, name: string): string => `show_from(invert(${expr}), ${frameIs(name)})`;
export const calleesExpr = (expr: string, name: string): string => `show_from(${expr}, ${frameIs(name)})`;
