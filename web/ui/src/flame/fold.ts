// SPDX-License-Identifier: Apache-2.0
// Readings of a tree: the table of functions, and what a search matched. A function that calls itself counts once per
// stack: its outermost box holds the others, so inner ones are skipped while it is open.
import { hiddenBelow, type FlameTree, type FunctionRow } from './tree';

/** Functions below `root` (all of the profile by default) with what they cost themselves and with their callees; exact
 * only where nothing is hidden: else the server's rows are. */
export function foldFunctions(t: FlameTree, root = 0): FunctionRow[] {
	const rows = new Map<string, FunctionRow & { until: number }>();
	const byFrame: (FunctionRow & { until: number })[] = [];
	for (let i = root; i < t.end[root]; i++) {
		if (i === 0) continue; /* "total" is no function */
		const f = t.frame[i];
		let row = byFrame[f];
		if (!row) {
			const name = t.names[f];
			row = rows.get(name) ?? { name, file: t.files[f], binary: t.binaries[f], self: 0, total: 0, baseSelf: 0, baseTotal: 0, until: 0 };
			rows.set(name, row);
			byFrame[f] = row;
		}
		row.self += t.self[i];
		if (t.base) row.baseSelf += t.base.self[i];
		if (i >= row.until) {
			row.until = t.end[i];
			row.total += t.total[i];
			if (t.base) row.baseTotal += t.base.total[i];
		}
	}
	return [...rows.values()];
}

export interface Matches {
	/** Per frame: does its function, file or binary match. */
	frames: Uint8Array;
	/** The value of all stacks below `root` that hold a matching frame, each counted once; where boxes are hidden, of those
	 * that are not. */
	value: number;
}

const LITTLE = 1e4, MOST = 2e9, MOST_MS = 500;

/** An expression that gives up before it holds the page. `(a+)+$` tries all ways to divide a run of letters, twice as many for each letter
 * more, and a link can bring it here: a name that may take too many steps is not looked at, and none after half a second of it. */
export class Search extends RegExp {
	/** Something was not looked at. */
	gaveUp = false;
	private spent = 0;
	private readonly little: number;
	private readonly most: number;
	constructor(source: string, flags: string) {
		super(source, flags);
		const k = degreeOf(source) + 1, length = (steps: number) => k === Infinity ? Math.log2(steps) : (steps * k) ** (1 / k);
		this.little = length(LITTLE);
		this.most = length(MOST);
	}
	override test(s: string): boolean {
		if (s.length <= this.little) return super.test(s);
		this.gaveUp ||= s.length > this.most || this.spent > MOST_MS;
		if (this.gaveUp) return false;
		const begin = performance.now(), found = super.test(s);
		this.spent += performance.now() - begin;
		return found;
	}
}

/** Steps that an expression takes at most grow with the length of a text as that power of it does; Infinity: exponentially, where a
 * repetition is in another one. */
export function degreeOf(source: string): number {
	const atom = /\\(?:k<|[1-9])|\\.|\[(?:[^\]\\]|\\.)*\]|\(\?(?:[:=!]|<[=!]|<\w+>)|[^]/gy, times = /([*+?]|\{(\d+)(,(\d*))?\})?\??/y;
	const open = [{ most: 0, now: 0, ways: false }];
	for (let m = atom.exec(source); m; m = atom.exec(source)) {
		const text = m[0], top = open[open.length - 1];
		if (/^\\[k1-9]/.test(text)) return Infinity;
		if (text[0] === '(') { open.push({ most: 0, now: 0, ways: false }); continue; }
		if (text === '|') { top.most = Math.max(top.most, top.now); top.now = 0; top.ways = true; continue; }
		const group = text === ')' && open.length > 1 ? open.pop()! : { most: 0, now: 0, ways: false };
		const inside = Math.max(group.most, group.now), into = open[open.length - 1];
		times.lastIndex = atom.lastIndex;
		const [all, sign, least, more, end] = times.exec(source)!;
		atom.lastIndex += all.length;
		const endless = sign === '*' || sign === '+' || more !== undefined && !end, count = Number(end || least || 1);
		if (endless && (inside > 0 || group.ways)) return Infinity;
		/* a choice doubles the ways: seven of them are as many as the letters of a long name */
		const choice = (group.ways ? 1 / 7 : 0) + (sign === '?' ? 1 / 7 : 0);
		into.now += endless ? 1 : (inside + choice) * count + (count - Number(least ?? count) > 5 ? 1 : 0);
	}
	return Math.max(...open.map((o) => Math.max(o.most, o.now)));
}

/** A search box's text as a regular expression; what is no expression is taken literally. */
export function searchRegex(text: string): Search | null {
	const q = text.trim();
	if (!q) return null;
	const flags = /[A-Z]/.test(q) ? '' : 'i'; /* smart case, as editors do it */
	try {
		return new Search(q, flags);
	} catch {
		return new Search(q.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'), flags);
	}
}

export function matchFrames(t: FlameTree, re: RegExp): Uint8Array {
	const out = new Uint8Array(t.names.length);
	for (let f = 0; f < out.length; f++)
		if (re.test(t.names[f]) || (t.files[f] && re.test(t.files[f]))) out[f] = 1;
	return out;
}

export function search(t: FlameTree, re: RegExp, root = 0): Matches {
	const frames = matchFrames(t, re);
	let value = 0;
	for (let i = root; i < t.end[root];) {
		if (i > 0 && frames[t.frame[i]]) {
			value += t.total[i];
			i = t.end[i];
		} else i++;
	}
	return { frames, value };
}

export const matchRow = (r: FunctionRow, re: RegExp): boolean => re.test(r.name) || re.test(r.file);

/** The rows of the functions below a node, and whether they are exact and whole. */
export function rowsOf(t: FlameTree, zoom: number): { rows: FunctionRow[]; exact: boolean; all: number } {
	if (t.functions.length && t.depth[zoom] === t.root.length)
		return { rows: t.functions, exact: true, all: t.allFunctions };
	const rows = foldFunctions(t, zoom);
	return { rows, exact: !hiddenBelow(t, zoom), all: rows.length };
}
