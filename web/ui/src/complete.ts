// SPDX-License-Identifier: Apache-2.0
// What could stand at the caret: types and functions where an expression may begin, labels and their values (of the
// series that the rest of the selector matches) inside braces, durations inside brackets.
import { api } from './api';
import { contextAt, rank } from './context';
import { functions, types } from './state';

export interface Suggestion {
	label: string; insert: string; kind: 'type' | 'function' | 'keyword' | 'label' | 'value' | 'duration';
	detail?: string; help?: string;
	/** How far the caret stays behind the end of what was inserted. */
	back?: number;
	/** Whether to go on suggesting there. */
	then?: boolean;
}
export interface Completion {
	from: number; items: Suggestion[];
	/** Something was typed that the items complete, so Enter takes one instead of running the query. */
	typed: boolean;
}

const DURATIONS = ['30s', '1m', '5m', '15m', '30m', '1h', '6h', '1d'];
const cache = new Map<string, Promise<string[]>>();

/** Asks once per minute and question; an answer that failed is no answer. */
function cached(key: string, ask: () => Promise<string[]>): Promise<string[]> {
	const k = `${Math.floor(Date.now() / 60000)} ${key}`;
	let p = cache.get(k);
	if (!p) {
		if (cache.size > 200) cache.clear();
		p = ask().catch(() => []);
		cache.set(k, p);
	}
	return p;
}

const KEYWORDS: [string, string][] = [
	['by', 'Keeps only these labels.'], ['without', 'Drops these labels.'], ['offset', 'Looks back in time.'],
	['and', 'Elements that the right side has, too.'], ['or', 'Elements of either side.'], ['unless', 'Elements that the right side lacks.'],
	['on', 'Matches by these labels only.'], ['ignoring', 'Matches by all but these labels.'], ['bool', 'Compares to 0 or 1.'],
	['group_left', 'Many on the left to one.'], ['group_right', 'One to many on the right.'],
];

let asking: Promise<void> | null = null;
/** The server lists its functions once; those that take profiles come first. */
export const loadFunctions = (): Promise<void> => asking ??= api.functions().then((a) => {
	functions.value = a.data.sort((x, y) => Number(y.profiles) - Number(x.profiles));
}, () => { asking = null; });

const expressionItems = (): Suggestion[] => [
	...(types.value ?? []).map((t): Suggestion => ({
		label: t.alias || t.name, insert: t.alias || t.name, kind: 'type', detail: t.title, help: t.help,
	})),
	...functions.value.map((f): Suggestion => ({
		label: f.name, insert: `${f.name}()`, back: 1, kind: 'function', detail: f.signature.startsWith(f.name) ? f.signature.slice(f.name.length).trim() : f.signature, help: f.doc,
	})),
	...KEYWORDS.map(([name, help]): Suggestion => ({ label: name, insert: `${name} `, kind: 'keyword', help })),
];

export async function complete(q: string, caret: number, demanded: boolean): Promise<Completion | null> {
	const c = contextAt(q, caret);
	const typed = c.prefix.length > 0;
	switch (c.kind) {
	case 'expression': {
		if (!typed && !demanded) return null;
		await loadFunctions();
		const followed = /^\s*[({]/.test(q.slice(caret)); /* do not write a second pair of parentheses */
		const items = rank(expressionItems(), c.prefix).map((s) => followed && s.kind === 'function' ? { ...s, insert: s.label, back: 0 } : s);
		return { from: c.from, items, typed };
	}
	case 'label': case 'grouping': {
		const match = c.selector && c.selector !== '{}' ? c.selector : undefined;
		const names = (await cached(`labels ${match}`, () => api.labels(match).then((a) => a.data))).filter((n) => n !== '__name__');
		const items = rank(names.map((n): Suggestion => ({ label: n, insert: c.kind === 'label' ? `${n}=""` : n, back: c.kind === 'label' ? 1 : 0, kind: 'label', then: c.kind === 'label' })), c.prefix);
		return { from: c.from, items, typed };
	}
	case 'value': {
		const match = c.selector && c.selector !== '{}' ? c.selector : undefined;
		const values = await cached(`values ${c.label} ${match}`, () => api.labelValues(c.label!, match).then((a) => a.data));
		const quote = c.quote || '"';
		const next = q[caret] === quote;
		const escape = (v: string) => quote === '`' ? v : JSON.stringify(v).slice(1, -1);
		const items = rank(values.map((v): Suggestion => ({ label: v, insert: `${c.quote ? '' : quote}${escape(v)}${next ? '' : quote}`, kind: 'value' })), c.prefix);
		return { from: c.from, items, typed: true };
	}
	case 'duration':
		return { from: c.from, items: rank(DURATIONS.map((d): Suggestion => ({ label: d, insert: d, kind: 'duration' })), c.prefix), typed: typed && !DURATIONS.includes(c.prefix) };
	default:
		return null;
	}
}
