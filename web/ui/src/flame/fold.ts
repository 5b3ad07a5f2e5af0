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

/** The matcher of names: an expression, or one that gives up. */
export type Finder = Pick<RegExp, 'test'>;

export interface Matches {
	/** Per frame: does its function, file or binary match. */
	frames: Uint8Array;
	/** The value of all stacks below `root` that contain a matching frame, each counted once; hidden boxes are not included. */
	value: number;
}

const LITTLE = 1e4, MOST = 2e9, MOST_MS = 500;

/** An expression that gives up before it holds the page. `(a+)+$` tries all ways to divide a run of letters, twice as many for each
 * additional letter, and a link may contain it. So a name that may take too many steps is skipped, and so are all names after half a
 * second. */
export class Search {
	/** Something was not looked at. */
	gaveUp = false;
	private spent = 0;
	private readonly re: RegExp;
	private readonly little: number;
	private readonly most: number;
	constructor(source: string, flags: string) {
		this.re = new RegExp(source, flags);
		const k = degreeOf(source) + 1, [little, most] = [LITTLE, MOST].map((steps) => k === Infinity ? Math.log2(steps) : (steps * k) ** (1 / k));
		this.little = little;
		this.most = most;
	}
	test(s: string): boolean {
		if (s.length <= this.little) return this.re.test(s);
		this.gaveUp ||= s.length > this.most || this.spent > MOST_MS;
		if (this.gaveUp) return false;
		const begin = performance.now(), found = this.re.test(s);
		this.spent += performance.now() - begin;
		return found;
	}
}

const TOKEN = /(\\.|\[(?:\\.|[^\]])*\]|\(\?<?[:=!]|[^])([*+?]|\{(\d+)(,(\d*))?\})?\??/gs;

/** The steps of an expression grow at most with that power of the text's length; Infinity: exponentially, if a repetition contains
 * another one. */
export function degreeOf(source: string): number {
	/* for each open group: the largest of its alternatives, the current one, and whether there are several */
	const open = [[0, 0, 0]];
	for (const [, atom, sign, least, more, end] of source.matchAll(TOKEN)) {
		if (/^\\[k1-9]/.test(atom)) return Infinity;
		if (atom[0] === '(') { open.unshift([0, 0, 0]); continue; }
		if (atom === '|') { open[0] = [Math.max(open[0][0], open[0][1]), 0, 1]; continue; }
		const [most, last, ways] = atom === ')' && open[1] ? open.shift()! : [0, 0, 0], inside = Math.max(most, last), endless = sign === '*' || sign === '+' || more && !end;
		if (endless && (inside || ways)) return Infinity;
		/* a choice doubles the ways: seven of them are as many as the letters of a long name */
		open[0][1] += endless ? 1 : (inside + (ways + +(sign === '?')) / 7) * +(end || least || 1) + +(+end - +least > 5);
	}
	return Math.max(...open.flat());
}

/** The expression of exactly that text. */
export const literal = (s: string): string => s.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

/** A search box's text as a regular expression; what is no expression is taken literally. */
export function searchRegex(text: string): Search | null {
	const q = text.trim();
	if (!q) return null;
	const flags = /[A-Z]/.test(q) ? '' : 'i'; /* smart case, as editors do it */
	try {
		return new Search(q, flags);
	} catch {
		return new Search(literal(q), flags);
	}
}

export function matchFrames(t: FlameTree, re: Finder): Uint8Array {
	const out = new Uint8Array(t.names.length);
	for (let f = 0; f < out.length; f++)
		if (re.test(t.names[f]) || (t.files[f] && re.test(t.files[f]))) out[f] = 1;
	return out;
}

export function search(t: FlameTree, re: Finder, root = 0): Matches {
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

export const matchRow = (r: FunctionRow, re: Finder): boolean => re.test(r.name) || re.test(r.file);

/** The rows of the functions below a node, and whether they are exact and whole. */
export function rowsOf(t: FlameTree, zoom: number): { rows: FunctionRow[]; exact: boolean; all: number } {
	if (t.functions.length && t.depth[zoom] === t.root.length)
		return { rows: t.functions, exact: true, all: t.allFunctions };
	const rows = foldFunctions(t, zoom);
	return { rows, exact: !hiddenBelow(t, zoom), all: rows.length };
}
