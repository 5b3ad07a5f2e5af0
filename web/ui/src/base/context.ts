// SPDX-License-Identifier: Apache-2.0
// What is being typed at the caret, and how candidates for it are ordered. Knows the text only, not the server.
import { tokenize, type Token } from '../query/query';

export interface Context {
	kind: 'expression' | 'label' | 'value' | 'duration' | 'grouping' | 'frameKey' | 'frame' | 'granularity' | 'none';
	from: number; prefix: string;
	label?: string; quote?: string;
	/** The selector around the caret without the matcher being typed, for asking what else matches. */
	selector?: string;
	/** In a frame matcher: the argument whose frames are meant, and whether the typed value is a regular expression. */
	profiles?: string; regexp?: boolean;
}

/** A bracket that is open at the caret; of a call its name, how many commas there were, and where the first one is. */
interface Open { text: string; at: number; call: string; commas: number; comma: number }

/* By their second argument: a string is an expression that frames match, or a granularity. */
const FILTERS = new Set(['focus', 'ignore', 'hide', 'show', 'show_from', 'prune_from', 'callers', 'callees', 'samples']);
const READOUTS = new Set(['self', 'total', 'share', 'self_share', 'share_low', 'share_high', 'self_share_low', 'self_share_high']);

/** The word being typed at the caret. */
export function contextAt(q: string, caret: number): Context {
	const tokens = tokenize(q.slice(0, caret));
	const last = tokens[tokens.length - 1];
	const stack: Open[] = [];
	const open = (text: string, at: number) => {
		const before = text === '(' ? tokens.slice(0, at).reverse().find((t) => t.kind !== 'space') : undefined;
		stack.push({ text, at, call: before && /^(function|metric)$/.test(before.kind) ? before.text : '', commas: 0, comma: -1 });
	};
	let grouping = -1;
	tokens.forEach((t, i) => {
		if (t.kind === 'keyword' && /^(by|without|on|ignoring|group_left|group_right)$/i.test(t.text)) grouping = i;
		if (t.kind === 'paren' || t.text === '<') {
			if (t.text === '(' && grouping >= 0 && i - grouping <= 2) open('by', i);
			else if ('([{'.includes(t.text) || (t.text === '<' && opens(tokens, i))) open(t.text === '<' ? '{' : t.text, i);
			else if (t.text !== '<') stack.pop();
		}
		const top = stack[stack.length - 1];
		if (t.kind === 'comma' && top && top.commas++ === 0) top.comma = i;
	});
	if (last?.kind === 'comment') return { kind: 'none', from: caret, prefix: '' };
	const inside = stack[stack.length - 1];
	const word = last && ['metric', 'label', 'function', 'keyword', 'duration', 'number'].includes(last.kind) ? last : undefined;
	const from = word ? word.start : caret, prefix = word ? word.text : '';
	if (inside?.text === '[') return { kind: 'duration', from, prefix };
	if (inside?.text === 'by') return { kind: 'grouping', from, prefix };
	if (inside?.text === '{') {
		const profiles = tokens.slice(0, inside.at).reverse().find((t) => t.kind !== 'space')?.kind === 'comma' ? framesOf(q, tokens, stack.slice(0, -1)) : null;
		const c = braces(q, tokens, inside.at, caret, from, prefix);
		if (profiles === null || c.kind === 'none') return c;
		return { ...c, kind: c.kind === 'label' ? 'frameKey' : 'frame', selector: undefined, profiles };
	}
	if (last?.kind === 'string' && last.end === caret && !closed(last.text)) {
		const string: Context = { kind: 'none', from: last.start + 1, prefix: last.text.slice(1), quote: last.text[0] };
		const regexp = inside?.call === 'frames' ? stack.slice(0, -1) : FILTERS.has(inside?.call ?? '') ? stack : null;
		const profiles = regexp && framesOf(q, tokens, regexp);
		if (profiles !== null) return { ...string, kind: 'frame', label: 'function', regexp: true, profiles };
		return inside && READOUTS.has(inside.call) && (inside.commas === 1 || inside.commas === 2) ? { ...string, kind: 'granularity' } : string;
	}
	if (last?.kind === 'string' || last?.kind === 'number' || last?.kind === 'duration') return { kind: 'none', from: caret, prefix: '' };
	return { kind: 'expression', from, prefix };
}

/** The first argument of the call whose second one the caret is in, if that one takes frames; else null. */
function framesOf(q: string, tokens: Token[], stack: Open[]): string | null {
	const call = stack[stack.length - 1];
	if (!call || call.commas !== 1 || !(FILTERS.has(call.call) || READOUTS.has(call.call))) return null;
	return q.slice(tokens[call.at].end, tokens[call.comma].start);
}

/** While `<` is being typed nothing follows yet, so it counts as opening right after a name. */
const opens = (tokens: Token[], i: number) => tokens[i].kind === 'paren' || tokens[i - 1]?.kind === 'metric';

function braces(q: string, tokens: Token[], open: number, caret: number, from: number, prefix: string): Context {
	const body = tokens.slice(open + 1).filter((t) => t.kind !== 'space');
	const comma = body.map((t) => t.kind).lastIndexOf('comma');
	const matcher = body.slice(comma + 1);
	const name = tokens[open - 1]?.kind === 'metric' ? tokens[open - 1].text : '';
	const done = comma >= 0 ? q.slice(tokens[open].end, body[comma].start) : '';
	const selector = `${name}{${done}}`;
	if (matcher.length >= 2 && /^(=|!=|=~|!~)$/.test(matcher[1].text)) {
		const value = matcher[2], regexp = matcher[1].text.endsWith('~');
		if (!value) return { kind: 'value', from: caret, prefix: '', label: matcher[0].text, quote: '', selector, regexp };
		if (value.kind === 'string' && value.end === caret && !closed(value.text))
			return { kind: 'value', from: value.start + 1, prefix: value.text.slice(1), label: matcher[0].text, quote: value.text[0], selector, regexp };
		return { kind: 'none', from: caret, prefix: '' };
	}
	if (matcher.length <= 1) return { kind: 'label', from, prefix, selector };
	return { kind: 'none', from: caret, prefix: '' };
}

const closed = (s: string) => s.length > 1 && s[s.length - 1] === s[0] && s[s.length - 2] !== '\\';

/** Prefix matches first, then matches inside; a word's own full match is not hidden. */
export function rank<T extends { label: string }>(items: T[], prefix: string, limit = 60): T[] {
	const p = prefix.toLowerCase();
	const score = (s: T) => { const at = s.label.toLowerCase().indexOf(p); return at < 0 ? 3 : at === 0 ? 0 : 1; };
	return items.map((s) => ({ s, k: score(s) })).filter((x) => x.k < 3)
		.sort((a, b) => a.k - b.k).map((x) => x.s).slice(0, limit);
}
