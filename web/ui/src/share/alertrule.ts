// SPDX-License-Identifier: Apache-2.0
// An alert about a function: its rule as YAML, a threshold of what was usual, and when it would have fired. Pure.
import { refilter, filtersOf, frameIs, unfiltered } from '../query/filters';
import { plainSelector, selectors, type Kind } from '../query/query';
import { formatDuration } from '../base/units';

/** sure: a share counts only as far as it is certain, by three standard errors. */
export interface AlertRule { profile: string; name: string; above: number; seconds: number; sure: boolean }

const ERRORS = 3;

/** The profile for a rule, without its own time: of a type that is a flow, of a range. null: no rule can be made of the query. */
export function alertProfile(q: string, kindOf: (name: string) => Kind | undefined): string | null {
	const core = unfiltered(q).trim(), p = plainSelector(core), many = selectors(core);
	if (!many.length || /^\s*diff\s*\(/.test(core)) return null;
	if (!p) return q.trim();
	const range = p.s.range !== null || kindOf(p.name) !== 'delta' ? '' : '[5m]';
	const ranged = core.slice(0, p.s.end) + range + core.slice(p.s.end);
	return refilter(p.functions.length ? ranged : `merge(${ranged})`, filtersOf(q));
}

export const shareExpr = (profile: string, name: string): string => `share(${profile}, ${frameIs(name)})`;
export const lowExpr = (profile: string, name: string): string => `share_low(${profile}, ${frameIs(name)}, ${ERRORS})`;
export const alertExpr = (r: AlertRule): string => `${r.sure ? lowExpr(r.profile, r.name) : shareExpr(r.profile, r.name)} > ${r.above}`;

/* Characters that YAML takes in no form but escaped. */
const HIDDEN = /[^\x20-\x7e\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\u{10000}-\u{10ffff}]/gu;

/** A text as one line of YAML. */
export function yamlText(s: string): string {
	if (!HIDDEN.test(s)) return `'${s.replace(/'/g, "''")}'`;
	HIDDEN.lastIndex = 0;
	return `"${s.replace(/["\\]/g, '\\$&').replace(HIDDEN, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`)}"`;
}

/** Escapes a text for a template: names of Rust and C++ have braces. */
const literal = (s: string): string => s.replace(/\{\{/g, '{{ "{{" }}');

/** "main.(*Server).handle" as "MainServerHandle". */
const camel = (name: string): string => name.slice(0, 80).split(/[^A-Za-z0-9]+/).filter(Boolean).map((w) => w[0].toUpperCase() + w.slice(1)).join('');

export function ruleYaml(r: AlertRule, interval = '1m'): string {
	return `groups:
- name: ${yamlText(`function ${r.name}`.slice(0, 200))}
  interval: ${interval}
  rules:
  - alert: ${/^[A-Za-z]/.test(camel(r.name)) ? camel(r.name) : 'Function'}High
    expr: ${yamlText(alertExpr(r))}
    for: ${r.seconds ? formatDuration(r.seconds) : '0s'}
    labels: {severity: ticket}
    annotations:
      summary: ${yamlText(`${literal(r.name)} takes {{ $value | humanizePercentage }}${r.sure ? ' at least' : ''}`)}
`;
}

const quantile = (sorted: number[], q: number): number => sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))];

/** Above what was usual: clearly more than it had for nine tenths of the time, in the series that had most. Of a spike of two hours in a day it
 * says that it is one. null: nothing was seen. */
export function usualThreshold(series: number[][]): number | null {
	let most = 0, any = false;
	for (const list of series) {
		const v = list.filter(Number.isFinite).sort((a, b) => a - b);
		if (!v.length) continue;
		any = true;
		const median = quantile(v, 0.5), spread = quantile(v.map((x) => Math.abs(x - median)).sort((a, b) => a - b), 0.5) * 1.4826;
		most = Math.max(most, 1.25 * quantile(v, 0.9), median + 5 * spread);
	}
	return any ? Math.min(0.99, round(Math.max(most, 0.005))) : null;
}

/** To two digits, upwards. */
const round = (v: number): number => {
	const unit = 10 ** (Math.floor(Math.log10(v)) - 1);
	return Number((Math.ceil(v / unit - 1e-9) * unit).toPrecision(2));
};

export interface Span { from: number; to: number }

/** When it would have fired, by points of a graph: above for as long as `seconds`. Ascending times; a gap of more than two steps ends it. */
export function firedBetween(points: [number, number][], above: number, seconds: number, step: number): Span[] {
	const out: Span[] = [];
	let since = NaN, last = NaN, firing: Span | null = null;
	for (const [t, v] of points) {
		if (!(v > above) || t - last > 2 * step) { since = NaN; firing = null; }
		if (!(v > above)) continue;
		if (Number.isNaN(since)) since = t;
		last = t;
		if (firing) firing.to = t;
		else if (t - since >= seconds) out.push(firing = { from: t, to: t });
	}
	return out;
}
