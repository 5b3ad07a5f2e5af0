// SPDX-License-Identifier: Apache-2.0
// What could stand at the caret: types and functions where an expression may begin, labels and their values (of the
// series that the rest of the selector matches) inside braces, durations inside brackets, and what the selected profiles
// have for functions, files and binaries where frames are matched.
import { api } from '../base/api';
import { contextAt, rank, type Context } from '../base/context';
import { findLabels } from './labelnames';
import { cached, findValues, labelNames, literal } from './labelvalues';
import { selectors } from './query';
import { bounds, functions, range, types } from '../base/state';

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

const FRAME_KEYS: [string, string][] = [
	['function', 'As it is stored; a C++ or Rust name with its parameters.'], ['file', 'Its whole path, or the last part.'],
	['binary', 'Its whole path, or the last part.'], ['line', 'Of the source file.'],
];
const OFFERED = 60;
const GRANULARITIES = ['function', 'line', 'file', 'binary', 'package'];
const FRAMES_AT_ONCE = 5000;

/** The answer of a minute and whether there is more: then what is typed is searched for. */
async function frameNames(key: string, profiles: string, typed: string): Promise<string[]> {
	const match = selectors(profiles).map((s) => profiles.slice(s.start, s.rangeStart >= 0 ? s.rangeStart : s.end).trim()).filter((m) => m !== '{}');
	if (!match.length) return [];
	const { from, to } = bounds(range.value, Math.ceil(Date.now() / 60000) * 60);
	const ask = (search?: string) => cached(`frames ${key} ${match} ${from} ${to} ${search}`, () =>
		api.frameValues(key, match, Math.max(from, to - 3600), to, FRAMES_AT_ONCE, search).then((a) => a.data));
	const all = await ask();
	return all.length < FRAMES_AT_ONCE || !typed ? all : ask(typed);
}

/** Quotes and escapes a value for where it is to stand. */
const written = (c: Context, next: string, v: string): string => {
	const quote = c.quote || '"', text = c.regexp ? literal(v) : v;
	return `${c.quote ? '' : quote}${quote === '`' ? text : JSON.stringify(text).slice(1, -1)}${next === quote ? '' : quote}`;
};

/** What is offered has no backslashes; what is typed may escape with them. */
const unescaped = (typed: string) => typed.replace(/\\/g, '');

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
		const found = findLabels(c.prefix, await labelNames(c.selector ?? '')).slice(0, OFFERED);
		const items = found.map(({ label: n, as }): Suggestion => ({ label: n, insert: c.kind === 'label' ? `${n}=""` : n, detail: as, back: c.kind === 'label' ? 1 : 0, kind: 'label', then: c.kind === 'label' }));
		return { from: c.from, items, typed };
	}
	case 'value': {
		const plain = c.regexp ? unescaped(c.prefix) : c.prefix;
		const values = await findValues(c.label!, c.selector ?? '', plain);
		const items = rank(values.map((v): Suggestion => ({ label: v, insert: written(c, q[caret], v), kind: 'value' })), plain);
		return { from: c.from, items, typed: true };
	}
	case 'frameKey': {
		const items = rank(FRAME_KEYS.map(([name, help]): Suggestion => ({ label: name, insert: `${name}=""`, back: 1, kind: 'label', help, then: true })), c.prefix);
		return { from: c.from, items, typed };
	}
	case 'frame': {
		if (!/^(function|file|binary)$/.test(c.label ?? '')) return null;
		const plain = unescaped(c.prefix);
		const names = await frameNames(c.label!, c.profiles ?? '', plain);
		const items = rank(names.map((v): Suggestion => ({ label: v, insert: written(c, q[caret], v), kind: c.label === 'function' ? 'function' : 'value' })), plain);
		return { from: c.from, items, typed: true };
	}
	case 'granularity':
		return { from: c.from, items: rank(GRANULARITIES.map((v): Suggestion => ({ label: v, insert: written(c, q[caret], v), kind: 'value' })), c.prefix), typed: true };
	case 'duration':
		return { from: c.from, items: rank(DURATIONS.map((d): Suggestion => ({ label: d, insert: d, kind: 'duration' })), c.prefix), typed: typed && !DURATIONS.includes(c.prefix) };
	default:
		return null;
	}
}
