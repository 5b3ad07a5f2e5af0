// SPDX-License-Identifier: Apache-2.0
// What the server tells of rules and alerts, made ready for people. Pure.
import type { Alert, AlertingRule, Labels, Rule, RuleGroup } from '../base/api';
import { tokenize } from '../query/query';
import { formatDuration } from '../base/units';

const COMPARISON = /^(>|<|>=|<=|==|!=)$/;

/** An expression that is compared with a number, and that number; the expression is worth drawing also if nothing fires. null if the
 * query is anything else. */
export function threshold(query: string): { expr: string; op: string; bound: number } | null {
	const tokens = tokenize(query).filter((t) => t.kind !== 'space' && t.kind !== 'comment');
	let depth = 0, at = -1;
	for (const [i, t] of tokens.entries()) {
		if (t.kind === 'paren') depth += '([{<'.includes(t.text) ? 1 : -1;
		if (depth === 0 && t.kind === 'keyword' && /^(and|or|unless)$/i.test(t.text)) return null;
		if (depth !== 0 || t.kind !== 'op' || !COMPARISON.test(t.text)) continue;
		if (at >= 0) return null;
		at = i;
	}
	const rest = tokens.slice(at + 1), sign = rest[0]?.text === '-' || rest[0]?.text === '+' ? 1 : 0;
	if (at < 1 || rest.length !== sign + 1 || rest[sign].kind !== 'number') return null;
	const bound = Number(rest[sign].text.replace(/_/g, '')) * (rest[0].text === '-' ? -1 : 1);
	return Number.isFinite(bound) ? { expr: query.slice(0, tokens[at].start).trim(), op: tokens[at].text, bound } : null;
}

/** Whether a series of the rule's query is the alert's: the rule's own labels may have taken the place of the series'. */
export function isSeriesOf(series: Labels, alert: Alert, rule: AlertingRule): boolean {
	const own = (l: Labels) => JSON.stringify(Object.entries(l).filter(([k]) => k !== '__name__' && k !== 'alertname' && !Object.hasOwn(rule.labels, k)).sort());
	return own(series) === own(alert.labels);
}

/** Errors first: firing, pending, failed, then the others in file order. */
export const weight = (r: Rule): number => {
	const state = r.type === 'alerting' ? r.state : '';
	return state === 'firing' ? 0 : state === 'pending' ? 1 : r.health === 'err' ? 2 : 3;
};

export const stateOf = (r: Rule): string => r.type === 'alerting' && (r.state === 'firing' || r.state === 'pending') ? r.state : r.health === 'err' ? 'failed' : r.health === 'ok' ? (r.type === 'alerting' ? 'inactive' : 'ok') : 'waiting';
/** The class of a pill. */
export const pillOf = (state: string): string => state === 'firing' || state === 'failed' ? 'down' : state === 'pending' || state === 'waiting' ? 'unknown' : 'up';

/** The groups with the rules that are wanted; those without any are left out. A text is looked for in all that is shown. */
export function wanted<R extends Rule>(groups: RuleGroup<R>[], state: (r: R) => boolean, text: string): RuleGroup<R>[] {
	const t = text.trim().toLowerCase();
	const has = (s: string) => s.toLowerCase().includes(t);
	const inLabels = (l: Labels) => Object.entries(l).some(([k, v]) => has(`${k}=${v}`));
	const inAlerts = (r: R) => r.type === 'alerting' && (inLabels(r.annotations) || (r.alerts ?? []).some((a) => inLabels(a.labels) || inLabels(a.annotations)));
	return groups.map((g) => {
		const whole = !t || has(g.name) || has(g.file);
		return { ...g, rules: g.rules.filter((r) => state(r) && (whole || has(r.name) || has(r.query) || has(r.lastError ?? '') || inLabels(r.labels) || inAlerts(r))) };
	}).filter((g) => g.rules.length > 0);
}

/** How many there are of each state. */
export function count<T>(groups: { rules: T[] }[], of: (r: T) => string): Record<string, number> {
	const out: Record<string, number> = {};
	for (const g of groups) for (const r of g.rules) out[of(r)] = (out[of(r)] ?? 0) + 1;
	return out;
}

/** Seconds of a moment; 0 if it never was. */
export const when = (rfc3339: string): number => Math.max(0, Date.parse(rfc3339) / 1000 || 0);

/** "for 5m, kept firing for 1h" */
export function patience(r: AlertingRule): string {
	return [r.duration ? `for ${formatDuration(r.duration)}` : '', r.keepFiringFor ? `kept firing for ${formatDuration(r.keepFiringFor)}` : ''].filter(Boolean).join(', ');
}

/** Texts of annotations come from anywhere: only addresses of the web become links. */
export function linkOf(text: string): string | null {
	if (!/^https?:\/\/\S+$/.test(text) || text.length > 8192) return null;
	try { return new URL(text).href; } catch { return null; }
}

/** The most important ones come first. */
export function ordered(annotations: Labels): [string, string][] {
	const rank = (k: string) => k === 'summary' ? 0 : k === 'description' || k === 'message' ? 1 : 2;
	return Object.entries(annotations).sort((a, b) => rank(a[0]) - rank(b[0]));
}
