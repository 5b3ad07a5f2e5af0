// SPDX-License-Identifier: Apache-2.0
// As much of ProfQL as a page needs: tokens to colour and complete, and where selectors are, so that a click on the
// graph or the type list can rewrite a query. The server has the grammar; nothing here decides whether a query is valid.
import { formatDuration } from '../base/units';
import { filtersOf, refilter, unfiltered } from './filters';

export type TokenKind =
	| 'space' | 'comment' | 'string' | 'number' | 'duration' | 'op' | 'paren' | 'comma'
	| 'function' | 'keyword' | 'metric' | 'label' | 'bad';
export interface Token { kind: TokenKind; text: string; start: number; end: number }

const KEYWORDS = new Set(['by', 'without', 'on', 'ignoring', 'group_left', 'group_right', 'offset', 'bool', 'and', 'or',
	'unless', 'start', 'end', 'inf', 'nan', 'atan2']);
const GROUPING = new Set(['by', 'without', 'on', 'ignoring', 'group_left', 'group_right']);

const PATTERNS: [TokenKind, RegExp][] = [
	['space', /\s+/y],
	['comment', /#[^\n]*/y],
	['string', /"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?|`[^`]*`?/y],
	['duration', /(?:\d+(?:ms|[smhdwy]))+(?![\w.])/y],
	['number', /0[xX][\da-fA-F]+|(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?/y],
	['metric', /[A-Za-z_][\w:]*/y],
	['op', /=~|!~|!=|==|<=|>=|[-+*/%^=<>@:]/y],
	['paren', /[()[\]{}]/y],
	['comma', /,/y],
	['bad', /[\s\S]/y],
];

export function tokenize(q: string): Token[] {
	const out: Token[] = [];
	for (let at = 0; at < q.length;) {
		for (const [kind, re] of PATTERNS) {
			re.lastIndex = at;
			const m = re.exec(q);
			if (!m) continue;
			out.push({ kind, text: m[0], start: at, end: at + m[0].length });
			at += m[0].length;
			break;
		}
	}
	classify(out);
	return out;
}

const meaningful = (t: Token) => t.kind !== 'space' && t.kind !== 'comment';

function after(tokens: Token[], i: number): number {
	for (let j = i + 1; j < tokens.length; j++) if (meaningful(tokens[j])) return j;
	return -1;
}

/** `<` opens a selector only after a name or where an operand may start, and only if a matcher or a quoted name follows. */
function opensSelector(tokens: Token[], i: number, before: Token | undefined): boolean {
	if (before && !(before.kind === 'metric' || before.kind === 'function' || before.kind === 'keyword' || before.kind === 'op' || before.kind === 'comma' || before.text === '('))
		return false;
	const a = after(tokens, i);
	if (a < 0) return false;
	if (tokens[a].text === '>') return true;
	const b = after(tokens, a);
	if (tokens[a].kind === 'string') return b >= 0 && /^(>|,)$/.test(tokens[b].text);
	if (tokens[a].kind !== 'metric' || b < 0 || !/^(=|!=|=~|!~)$/.test(tokens[b].text)) return false;
	const c = after(tokens, b);
	return c >= 0 && tokens[c].kind === 'string';
}

/** Names get their meaning from where they stand: before "(", in braces, after by. */
function classify(tokens: Token[]): void {
	const open: string[] = [];
	let before: Token | undefined, grouping = false;
	tokens.forEach((t, i) => {
		if (!meaningful(t)) return;
		const inside = open[open.length - 1];
		if (t.text === '{' || t.text === '[') open.push(t.text);
		else if (t.text === '(') { open.push(grouping ? 'by' : '('); grouping = false; }
		else if (t.text === '<' && inside !== '{' && inside !== '<' && opensSelector(tokens, i, before)) { open.push('<'); t.kind = 'paren'; }
		else if (t.text === '>' && inside === '<') { open.pop(); t.kind = 'paren'; }
		else if (t.kind === 'paren') open.pop();
		else if (t.kind === 'metric') {
			const next = after(tokens, i);
			if (inside === '{' || inside === '<' || inside === 'by') t.kind = 'label';
			else if (KEYWORDS.has(t.text.toLowerCase()) && (tokens[next]?.text !== '{')) { t.kind = 'keyword'; grouping = GROUPING.has(t.text.toLowerCase()); }
			else if (next >= 0 && (tokens[next].text === '(' || /^(by|without)$/i.test(tokens[next].text))) t.kind = 'function';
		}
		if (t.kind !== 'keyword' && t.kind !== 'label') grouping = false;
		before = t;
	});
}

export interface Selector {
	start: number; end: number;
	/** The type's name or alias; empty if only labels select. */
	name: string; nameStart: number; nameEnd: number;
	/** Between the braces, without them; null if there are none. */
	matchers: string | null; bodyStart: number; bodyEnd: number;
	/** The text of `[…]` without brackets, null if the selector has none or it is a subquery. */
	range: string | null; rangeStart: number; rangeEnd: number;
}

export function selectors(q: string): Selector[] {
	const toks = tokenize(q).filter(meaningful);
	const out: Selector[] = [];
	for (let i = 0; i < toks.length; i++) {
		const t = toks[i];
		const braces = t.kind === 'paren' && (t.text === '{' || t.text === '<');
		if (t.kind !== 'metric' && !braces) continue;
		if (braces && frameMatcher(toks, i)) { i = closing(toks, i); continue; }
		const s: Selector = { start: t.start, end: t.end, name: '', nameStart: t.start, nameEnd: t.start, matchers: null,
			bodyStart: -1, bodyEnd: -1, range: null, rangeStart: -1, rangeEnd: -1 };
		if (t.kind === 'metric') { s.name = t.text; s.nameEnd = t.end; }
		let j = t.kind === 'metric' ? i + 1 : i;
		if (toks[j]?.kind === 'paren' && (toks[j].text === '{' || toks[j].text === '<')) {
			const close = closing(toks, j);
			s.bodyStart = toks[j].end;
			s.bodyEnd = close < toks.length ? toks[close].start : q.length;
			s.matchers = q.slice(s.bodyStart, s.bodyEnd);
			s.end = close < toks.length ? toks[close].end : q.length;
			if (!s.name) s.name = /(?:__name__\s*=\s*)?["'`]([^"'`]*)["'`]/.exec(/^\s*["'`]|__name__\s*=\s*["']/.test(s.matchers) ? s.matchers : '')?.[1] ?? '';
			j = close + 1;
		}
		if (toks[j]?.text === '[') {
			const close = closing(toks, j);
			const text = q.slice(toks[j].end, close < toks.length ? toks[close].start : q.length);
			if (!toks.slice(j + 1, close).some((x) => x.text === ':')) {
				s.range = text.trim();
				s.rangeStart = toks[j].start;
				s.rangeEnd = s.end = close < toks.length ? toks[close].end : q.length;
			}
			j = close + 1;
		}
		out.push(s);
		i = j - 1;
	}
	return out;
}

/** `{function="x"}` as an argument is a frame matcher, which selects stacks, not series. */
function frameMatcher(toks: Token[], i: number): boolean {
	const before = toks[i - 1];
	return before?.kind === 'comma' && /^(function|file|line|binary|package)$/.test(toks[i + 1]?.text ?? '');
}

function closing(toks: Token[], i: number): number {
	const want = { '{': '}', '<': '>', '[': ']', '(': ')' }[toks[i].text];
	let j = i + 1;
	while (j < toks.length && !(toks[j].kind === 'paren' && toks[j].text === want)) j++;
	return j;
}

const withoutRange = (q: string, s: Selector) => q.slice(s.start, s.rangeStart >= 0 ? s.rangeStart : s.end).trim();

/** The functions around the only selector, the outermost first, and the outermost grouping; null if there is anything else. */
function wrappers(rest: string): { functions: string[]; by: string } | null {
	const functions: string[] = [];
	let by = '';
	for (let text = rest.trim(); text !== '\u0001';) {
		const m = /^(\w*) ?(?:(by|without) ?\(([^()]*)\) ?)?\((.*)\)$/.exec(text.replace(/^(\w+) ?(\(.*\)) ?((?:by|without) ?\([^()]*\))$/, '$1 $3 $2'));
		if (!m || !/^(|merge|merge_over_time|avg_over_time|rate|increase|sum)$/.test(m[1])) return null;
		if (m[1]) functions.push(m[1]);
		if (m[2] && !by) by = `${m[2]} (${m[3].trim()})`;
		text = m[4].trim();
	}
	return functions.length > 2 ? null : { functions, by };
}

interface Plain { selector: string; name: string; by: string; functions: string[]; s: Selector }

/** The only selector of a query that does nothing but add its profiles up; null if the query does more. */
export function plainSelector(q: string): Plain | null {
	const sel = selectors(q);
	if (sel.length !== 1) return null;
	const s = sel[0];
	const rest = (q.slice(0, s.start) + '\u0001' + q.slice(s.end)).replace(/#[^\n]*/g, '').replace(/\s+/g, ' ').trim();
	const w = wrappers(rest);
	return w && { selector: withoutRange(q, s), name: s.name, s, ...w };
}

export type Kind = 'delta' | 'cumulative' | 'gauge';

/** The first side of a comparison of two merges: its series are what one wants to see over time. */
function comparedSelector(q: string): Plain | null {
	const sel = selectors(q), m = /^\s*diff\s*\(/.exec(q);
	return m && sel.length === 2 ? plainSelector(q.slice(sel[0].start, sel[0].end)) : null;
}

/** The same merge beside the one of the equally long stretch before it; null if the query is no plain merge of a range. */
export function withBefore(q: string, sel: Selection): string | null {
	const filters = filtersOf(q), p = plainSelector(unfiltered(q));
	if (!p) return null;
	const r = sel && 'from' in sel ? formatDuration(Math.max(1, Math.round(sel.to - sel.from))) : p.s.range;
	return r ? refilter(`diff(merge(${p.selector}[${r}]), merge(${p.selector}[${r}] offset ${r}))`, filters) : null;
}

/** What to draw over time. A query of numbers is drawn as it is typed. One that adds profiles up has no graph of its own
 * that tells anything (each point would be the sum of a range): its series are drawn instead, which is `derived`. `plain`:
 * the values are of the type that the query names, so that its unit is known. */
export function graphQuery(q: string, kindOf: (name: string) => Kind | undefined, window: number): { expr: string; plain: boolean; derived: boolean } {
	const filters = filtersOf(q), own = plainSelector(unfiltered(q)), p = own ?? comparedSelector(q);
	const kind = p ? kindOf(p.name) : undefined;
	if (!p || !kind) return { expr: q, plain: false, derived: false };
	if (own?.functions.some((f) => !/^merge/.test(f))) {
		const unit = kind === 'gauge' || own.functions.includes('rate');
		return { expr: q, plain: unit, derived: false };
	}
	const per = refilter(kind === 'gauge' ? p.selector : `rate(${p.selector}[${formatDuration(window)}])`, filters);
	const expr = p.by ? `sum ${p.by} (${per})` : per;
	return { expr, plain: true, derived: expr !== q.trim() };
}

/** The matchers of a selector, each as it is typed. */
export function matchersOf(s: Selector): string[] {
	const out: string[] = [];
	let at = 0;
	const body = s.matchers ?? '';
	for (const t of tokenize(body))
		if (t.kind === 'comma') { out.push(body.slice(at, t.start).trim()); at = t.end; }
	out.push(body.slice(at).trim());
	return out.filter(Boolean);
}

export type Op = '=' | '!=' | '=~' | '!~';
export interface Matcher { label: string; op: Op; value: string; /** As it is typed. */ text: string }

/** The text of a quoted string; as it is typed if its escapes are none that JSON knows. */
export function unquoted(s: string): string {
	const quote = s[0], body = s.length > 1 && s.endsWith(quote) ? s.slice(1, -1) : s.slice(1);
	if (quote === '`') return body;
	try {
		return JSON.parse(`"${quote === "'" ? body.replace(/\\'/g, "'").replace(/(^|[^\\])((?:\\\\)*)"/g, '$1$2\\"') : body}"`) as string;
	} catch {
		return body;
	}
}

export const labelText = (label: string): string => /^[A-Za-z_]\w*$/.test(label) ? label : JSON.stringify(label);
export const matcherText = (label: string, op: Op, value: string): string => `${labelText(label)}${op}${JSON.stringify(value)}`;

/** One matcher as it is typed; null if it is none yet, or names the type. */
export function parseMatcher(text: string): Matcher | null {
	const t = tokenize(`{${text}}`).slice(1, -1).filter((x) => x.kind !== 'space' && x.kind !== 'comment');
	if (t.length !== 3 || !/^(=|!=|=~|!~)$/.test(t[1].text) || t[2].kind !== 'string') return null;
	const label = t[0].kind === 'string' ? unquoted(t[0].text) : t[0].text;
	return label === '__name__' ? null : { label, op: t[1].text as Op, value: unquoted(t[2].text), text };
}

/** Whether it is the selector's type: quoted alone, or by __name__. */
export const namesType = (text: string): boolean => /^(["'`]|__name__\b)/.test(text) && parseMatcher(text) === null;

/** What is picked on the graph; of: only of the series with these labels. */
export type Selection = { at: number; of?: Record<string, string> } | { from: number; to: number } | null;

/** The query and time that answer for a moment or a range picked on the graph. */
export function flameQuery(q: string, sel: Selection, end: number): { expr: string; time: number } {
	const filters = filtersOf(q);
	if (filters.length) {
		const f = flameQuery(unfiltered(q), sel, end);
		return { expr: refilter(f.expr, filters), time: f.time };
	}
	if (!sel) {
		const p = plainSelector(q);
		/* a bare range is no profile yet: adding it up is what is meant */
		return { expr: p && p.s.range !== null && p.s.start === 0 && p.s.end === q.trimEnd().length ? `merge(${q.trim()})` : q, time: end };
	}
	const p = plainSelector(q);
	if ('at' in sel) return { expr: withMatchers(p ? `merge(${p.selector})` : q, sel.of ?? {}), time: sel.at };
	const range = `[${formatDuration(Math.max(1, Math.round(sel.to - sel.from)))}]`;
	if (p) return { expr: `merge(${p.selector}${range})`, time: sel.to };
	let out = q;
	for (const s of selectors(q).reverse())
		if (s.range !== null) out = out.slice(0, s.rangeStart) + range + out.slice(s.rangeEnd);
	return { expr: out, time: sel.to };
}

/** The same question about another type: in each selector that has the first one's. A rate of one kind corresponds to a mean of the other. */
export function withType(q: string, name: string, kind?: Kind): string {
	const all = selectors(q), first = all[0];
	const spelled = /^[A-Za-z_:][\w:]*$/.test(name);
	if (!first || !spelled || (first.nameStart === first.nameEnd && first.name)) return `merge(${spelled ? name : `{${JSON.stringify(name)}}`}[5m])`;
	let out = q;
	for (const s of all.reverse()) {
		if (s.name !== first.name) continue;
		const before = out.slice(0, s.nameStart), call = kind === 'gauge' ? before.replace(/\b(rate|increase)(\s*\(\s*)$/, 'avg_over_time$2') : kind ? before.replace(/\bavg_over_time(\s*\(\s*)$/, 'rate$1') : before;
		out = call + name + out.slice(s.nameEnd);
	}
	return out;
}

/** Every selector with other matchers. */
function rewritten(q: string, change: (matchers: string[]) => string[]): string {
	let out = q;
	for (const s of selectors(q).reverse()) {
		const old = matchersOf(s), now = change(old);
		if (now.length === old.length && now.every((m, i) => m === old[i])) continue;
		const named = s.nameEnd > s.nameStart;
		if (s.bodyStart < 0) out = `${out.slice(0, s.nameEnd)}{${now.join(',')}}${out.slice(s.nameEnd)}`;
		else if (!now.length && named) out = out.slice(0, s.bodyStart - 1) + out.slice(s.bodyEnd + 1);
		else out = out.slice(0, s.bodyStart) + now.join(',') + out.slice(s.bodyEnd);
	}
	return out;
}

/** Adds a matcher to every selector. One that wants something of the label takes the place of what was wanted of it before. */
export function withMatcher(q: string, label: string, op: Op, value: string): string {
	const text = matcherText(label, op, value);
	return rewritten(q, (old) => {
		if (old.includes(text)) return old;
		const at = op[0] === '!' ? -1 : old.findIndex((m) => { const p = parseMatcher(m); return p?.label === label && p.op[0] === '='; });
		return at < 0 ? [...old, text] : old.map((m, i) => i === at ? text : m).filter((m, i, all) => all.indexOf(m) === i);
	});
}

/** Replaces one matcher by another. */
export const replaceMatcher = (q: string, old: string, now: string): string => rewritten(q, (all) => all.map((m) => m === old ? now : m));
/** A query without one matcher (all of them, if none is named). */
export const withoutMatcher = (q: string, matcher?: string): string => rewritten(q, (all) => all.filter((m) => matcher === undefined ? namesType(m) : m !== matcher));
/** Adds equality on several labels. */
export const withMatchers = (q: string, labels: Record<string, string>): string =>
	Object.entries(labels).reduce((to, [k, v]) => withMatcher(to, k, '=', v), q);

/** The place in an error message: "1:7: …" (line and column, from 1), as an offset into the query. */
export function errorOffset(message: string, q: string): number | null {
	const m = /(?:^|[\s:"(])(\d+):(\d+):/.exec(message);
	if (!m) return null;
	const lines = q.split('\n'), line = Number(m[1]) - 1, col = Number(m[2]) - 1;
	if (line < 0 || line >= lines.length || col < 0) return null;
	return lines.slice(0, line).reduce((n, l) => n + l.length + 1, 0) + Math.min(col, lines[line].length);
}
