// SPDX-License-Identifier: Apache-2.0
// A flame graph as preorder columns. The server sends nodes in preorder with their depth; from that follow each node's
// parent and the end of its subtree, so that drawing, searching and folding are single passes that can skip a whole
// subtree by jumping to its end:
//
//     node    0      1      2      3      4        depth 0 ┌──────────0──────────┐
//     depth   0      1      2      2      1        depth 1 ├──────1──────┬───4───┤
//     end     5      4      3      4      5        depth 2 ├──2──┬──3────┘
//
// x is where a node's box begins, in the same unit as its weight, counted from the root's left edge.
import type { FlameData } from '../base/api';
import { isName } from './path';

export interface FunctionRow {
	name: string; file: string; binary: string; self: number; total: number; baseSelf: number; baseTotal: number;
}

export interface FlameTree {
	n: number;
	depth: Uint16Array | Uint32Array; frame: Uint32Array; parent: Int32Array; end: Uint32Array; line: Uint32Array;
	total: Float64Array; self: Float64Array;
	base?: { total: Float64Array; self: Float64Array };
	/** The value that decides a box's width: the value, or in a diff both sides together so that neither can vanish. */
	weight: Float64Array;
	x: Float64Array;
	maxDepth: number;
	names: string[]; files: string[]; binaries: string[]; startLines: number[];
	unit: string; hidden: number; typeName: string;
	/** Functions below the node that the server was asked for, exact; more of them may be there than were sent. */
	functions: FunctionRow[]; allFunctions: number;
	/** That node's path of names. */
	root: string[];
	/** Seconds that the values were gathered in; 0 if they are a state, not a flow. */
	seconds: number;
	/** The merged profiles measured unequal parts of their time: shares of functions are approximate. */
	mixed?: boolean;
	/** The base of shares: the value of the profile before filters; in a diff, also of its base. */
	whole: number; baseWhole: number;
	/** The same boxes at the time before, for colours of change. */
	before?: { total: Float64Array; self: Float64Array };
	/** For a node "(other)" the number of nodes that it stands for; 0: it is a call. */
	cut?: Uint32Array;
	/** A difference of shares: values of now are scaled to the base's whole, and have no meaning by themselves. */
	shares?: boolean;
}

const floats = (a: ArrayLike<number>): Float64Array => a instanceof Float64Array ? a : Float64Array.from(a);
const indices = (a: ArrayLike<number>): Uint32Array => a instanceof Uint32Array ? a : Uint32Array.from(a);

/** The texts of frames, by place in the list of frames. */
function textsOf(d: FlameData): { names: string[]; files: string[]; binaries: string[]; startLines: number[] } {
	const f = d.frames, text = (i: number): string => d.strings?.[i] ?? '';
	return 'names' in f ? f : { names: f.name.map(text), files: f.file.map(text), binaries: f.binary.map(text), startLines: f.startLine };
}

export function buildTree(d: FlameData, root: string[] = []): FlameTree {
	const n = d.nodes.depth.length, { names, files, binaries, startLines } = textsOf(d);
	const t: FlameTree = {
		n,
		depth: indices(d.nodes.depth), frame: indices(d.nodes.frame),
		parent: new Int32Array(n), end: new Uint32Array(n), line: indices(d.nodes.line),
		total: floats(d.nodes.total), self: floats(d.nodes.self),
		weight: new Float64Array(n), x: new Float64Array(n), maxDepth: 0,
		names, files, binaries, startLines,
		unit: d.unit, hidden: d.hidden ?? 0, typeName: d.name,
		functions: [], allFunctions: d.functions?.all ?? 0, root: root.slice(0, d.root ?? root.length), seconds: d.perSeconds || (d.kind === 'gauge' ? 0 : (d.coveredSeconds || 0) / (d.weight || 1)),
		mixed: d.mixedWeights,
		whole: d.nodes.total[0] ?? 0, baseWhole: d.nodes.base?.total[0] ?? 0,
	};
	if (d.nodes.base)
		t.base = { total: floats(d.nodes.base.total), self: floats(d.nodes.base.self) };
	const cut = d.nodes.cut;
	if (cut) {
		t.cut = new Uint32Array(n);
		cut.node.forEach((i, k) => { t.cut![i] = cut.count[k]; });
	}
	const rows = d.functions;
	t.functions = (rows?.frame ?? []).map((frame, i) => ({ name: t.names[frame], file: t.files[frame], binary: t.binaries[frame],
		self: rows!.self[i], total: rows!.total[i], baseSelf: rows!.base?.self[i] ?? 0, baseTotal: rows!.base?.total[i] ?? 0 }));
	link(t);
	place(t);
	return t;
}

/** Why numbers of a mixed tree are approximate. */
export const UNEVEN = 'Approximate: the merged profiles measured unequal parts of their time; rate(…) weighs them';

/** The value per second of wall time, in the native unit. */
export const perSecond = (t: FlameTree): number => t.total[0] / t.seconds;

/** How many nodes below this one were left out. */
export function hiddenBelow(t: FlameTree, node: number): number {
	if (!t.hidden || node === 0 || !t.cut) return t.hidden;
	let n = 0;
	for (let i = node; i < t.end[node]; i++) n += t.cut[i];
	return n;
}

/** The width to request: boxes are drawn from half a pixel on, and the request covers those of a quarter. */
export const visibleWidth = (): number => Math.ceil(innerWidth / 128) * 64;

/** Parents and subtree ends, from depths alone. */
function link(t: FlameTree): void {
	const open: number[] = [];
	for (let i = 0; i < t.n; i++) {
		const depth = t.depth[i];
		while (open.length > depth) t.end[open.pop()!] = i;
		t.parent[i] = open.length ? open[open.length - 1] : -1;
		open.push(i);
		if (depth > t.maxDepth) t.maxDepth = depth;
	}
	while (open.length) t.end[open.pop()!] = t.n;
}

/** Widths of boxes that hold those above them. A negative value takes as much room as a positive one. If there is one, a box is as wide as
 * its self and its children together, while its value may be their sum, which can be zero. */
function weigh(t: FlameTree, total: Float64Array): void {
	if (total.every((v) => v >= 0)) {
		for (let i = 0; i < t.n; i++) t.weight[i] += total[i];
		return;
	}
	const own = total.slice(), room = new Float64Array(t.n);
	for (let i = t.n - 1; i > 0; i--) own[t.parent[i]] -= total[i];
	for (let i = t.n - 1; i >= 0; i--) {
		room[i] += Math.abs(own[i]);
		if (i > 0) room[t.parent[i]] += room[i];
		t.weight[i] += room[i];
	}
}

/** Weights and left edges: each sibling begins where the one before it ended. */
function place(t: FlameTree): void {
	const next = new Float64Array(t.n); /* where the next child of a node begins */
	weigh(t, t.total);
	if (t.base) weigh(t, t.base.total);
	for (let i = 0; i < t.n; i++) {
		const p = t.parent[i];
		t.x[i] = p < 0 ? 0 : next[p];
		next[i] = t.x[i];
		if (p >= 0) next[p] += t.weight[i];
	}
}

/** From the root down to the node itself. */
export function pathOf(t: FlameTree, node: number): number[] {
	const path: number[] = [];
	for (let i = node; i >= 0; i = t.parent[i]) path.push(i);
	return path.reverse();
}

/** The node that a path of function names leads to, as far as it exists: keeps the zoom over a reload. */
export function findPath(t: FlameTree, names: string[]): number {
	let at = 0;
	for (const name of names) {
		let child = at + 1, found = -1;
		for (; child < t.end[at]; child = t.end[child])
			if (isName(name, t.names[t.frame[child]])) { found = child; break; }
		if (found < 0) return at;
		at = found;
	}
	return at;
}

export const pathNames = (t: FlameTree, node: number): string[] => pathOf(t, node).slice(1).map((i) => t.names[t.frame[i]]);

/** The deepest visible node under a point: `value` along x, `depth` down. -1 if there is none. */
export function nodeAt(t: FlameTree, value: number, depth: number): number {
	let i = 0;
	while (i < t.n) {
		if (value < t.x[i] || value >= t.x[i] + t.weight[i]) { i = t.end[i]; continue; }
		if (t.depth[i] === depth) return i;
		if (t.end[i] === i + 1) return -1;
		i++;
	}
	return -1;
}

/** How many rows the boxes of at least `min` weight below `node` reach. */
export function visibleDepth(t: FlameTree, node: number, min: number): number {
	let deepest = t.depth[node];
	for (let i = node; i < t.end[node];) {
		if (t.weight[i] < min) { i = t.end[i]; continue; }
		if (t.depth[i] > deepest) deepest = t.depth[i];
		i++;
	}
	return deepest;
}

/** For a diff against the time before: the boxes and widths of now; the earlier values only give their colours. */
export function beforeAside(t: FlameTree): FlameTree {
	const now = { ...t, before: t.base, base: undefined, weight: new Float64Array(t.n), x: new Float64Array(t.n) };
	place(now);
	return now;
}

/** The deepest direct recursion of a function: the longest run of boxes of one name, each inside the one before. */
export function longestRun(t: FlameTree): { times: number; name: string } {
	const run = new Uint16Array(t.n);
	let best = 0;
	for (let i = 0; i < t.n; i++) {
		const p = t.parent[i];
		run[i] = p > 0 && t.frame[p] === t.frame[i] ? run[p] + 1 : 1;
		if (i > 0 && run[i] > run[best]) best = i;
	}
	return { times: best ? run[best] : 0, name: best ? t.names[t.frame[best]] : '' };
}
