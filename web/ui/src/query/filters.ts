// SPDX-License-Identifier: Apache-2.0
// Filters as text of the query: calls around it that take stacks or frames away. Because they are part of the query, links, downloads and
// alerts mean what is on the screen. The first of a list is the innermost call, which is applied first.
import { selectors, tokenize, type Token } from './query';

const FILTERS = ['focus', 'ignore', 'hide', 'show', 'show_from', 'prune_from', 'where'] as const;
export type FilterName = typeof FILTERS[number];
/** args: what follows the profile, as it is typed: a frame matcher such as {function="x"}, or a string. */
export interface Filter { fn: FilterName; args: string }

/** A frame matcher for one frame's name (or file, or binary). */
export const frameIs = (name: string, key: 'function' | 'file' | 'binary' = 'function'): string => `{${key}=${JSON.stringify(name)}}`;

const depthOf = (t: Token) => t.kind !== 'paren' ? 0 : /[([{<]/.test(t.text) ? 1 : -1;

/** A call that is the whole text, with its arguments; null if the text is not a call. */
export function callOf(q: string): { fn: string; args: string[] } | null {
	const t = tokenize(q).filter((x) => x.kind !== 'space' && x.kind !== 'comment');
	if (t.length < 3 || t[1].text !== '(' || !/^(function|keyword|metric)$/.test(t[0].kind)) return null;
	const args: string[] = [];
	let depth = 0, from = t[1].end;
	for (let i = 1; i < t.length; i++) {
		depth += depthOf(t[i]);
		const closes = depth === 0;
		if (closes || (depth === 1 && t[i].kind === 'comma')) { args.push(q.slice(from, t[i].start).trim()); from = t[i].end; }
		if (closes) return i === t.length - 1 ? { fn: t[0].text, args } : null;
	}
	return null;
}

function split(q: string): { core: string; filters: Filter[] } {
	const filters: Filter[] = [];
	for (let core = q.trim(); ;) {
		const c = callOf(core), fn = FILTERS.find((f) => f === c?.fn);
		if (!c || !fn || c.args.length < 2) return { core, filters };
		filters.unshift({ fn, args: c.args.slice(1).join(', ') });
		core = c.args[0];
	}
}

export const filtersOf = (q: string): Filter[] => split(q).filters;
/** The query that the filters are around. */
export const unfiltered = (q: string): string => split(q).core;
/** The filters around another query. */
export const refilter = (core: string, filters: Filter[]): string => filters.reduce((q, f) => `${f.fn}(${q}, ${f.args})`, core);

const same = (a: Filter, b: Filter) => a.fn === b.fn && a.args === b.args;

/** One filter more, unless it is there. A bare range is no profile: what is filtered is its merge. */
export function withFilter(q: string, fn: FilterName, args: string): string {
	const { core, filters } = split(q), s = selectors(core);
	if (filters.some((f) => same(f, { fn, args }))) return q;
	const bare = s.length === 1 && s[0].range !== null && s[0].start === 0 && s[0].end === core.length;
	return refilter(bare ? `merge(${core})` : core, [...filters, { fn, args }]);
}

export function withoutFilter(q: string, f: Filter): string {
	const { core, filters } = split(q);
	return refilter(core, filters.filter((x) => !same(x, f)));
}

export const hasFilter = (q: string, fn: FilterName, args: string): boolean => filtersOf(q).some((f) => same(f, { fn, args }));

/** Libraries that one often does not want to see, as frames to hide. */
export const PRESETS: { name: string; title: string; args: string }[] = [
	{ name: 'Runtime', title: 'Frames of the runtimes of Go, Python, Java and Node.js, and of the standard libraries of C++ and Rust',
		args: '{function=~"((runtime|runtime/.+|internal/runtime/.+|java|javax|jdk|sun)\\\\.|_?Py[A-Z_]|(JavaCalls|JavaThread|v8|node|<?(std|core|alloc|__gnu_cxx)|__rust)(::|_)|Builtins_|uv_|.*node:internal/).+|Interpreter|call_stub"}' },
	{ name: 'libc', title: 'Frames of the C library and the loader', args: '{binary=~"(libc|libm|libpthread|libdl|librt|ld|ld-linux.*|ld-musl.*|linux-vdso)([-.].*)?"}' },
	{ name: 'Kernel', title: 'Frames of the kernel', args: '{binary=~"\\\\[?(kernel|vmlinux|guest)([._-].*|\\\\])?"}' },
];

const VERBS: Record<FilterName, string> = {
	focus: 'only with', ignore: 'without', hide: 'hidden:', show: 'only frames', show_from: 'from', prune_from: 'down to', where: 'where',
};

/** A filter's effect, in words, for a chip. */
export function describeFilter(f: Filter): { verb: string; what: string } {
	const preset = f.fn === 'hide' && PRESETS.find((p) => p.args === f.args);
	const one = /^\{\s*\w+\s*=\s*("(?:[^"\\]|\\.)*")\s*\}$/.exec(f.args);
	let what = preset ? preset.name : f.args;
	if (one) try { what = JSON.parse(one[1]); } catch { /* an escape of another kind: as it is typed */ }
	return { verb: VERBS[f.fn], what };
}
