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

/** A search box's text as a regular expression; what is no expression is taken literally. */
export function searchRegex(text: string): RegExp | null {
	const q = text.trim();
	if (!q) return null;
	const flags = /[A-Z]/.test(q) ? '' : 'i'; /* smart case, as editors do it */
	try {
		return new RegExp(q, flags);
	} catch {
		return new RegExp(q.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'), flags);
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
