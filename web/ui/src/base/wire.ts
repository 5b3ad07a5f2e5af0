// SPDX-License-Identifier: Apache-2.0
// The columns of a flame graph and of a graph as the server sends them (docs/format/flame.md, matrix.md), into arrays. What the bytes claim
// is held against what is there before anything is made of it: a broken answer is an error, never a large allocation or a wrong picture.
import type { Envelope, FlameData, Labels, MatrixSeries } from './api';

export const FLAME_TYPE = 'application/vnd.pyrrha.flame', MATRIX_TYPE = 'application/vnd.pyrrha.matrix';

/** Frames of earlier answers, by the place that the server knows them by. It never changes: a new answer makes a new one. */
export interface FrameList { token: string; names: string[]; files: string[]; binaries: string[]; startLines: number[] }

export class WireError extends Error {}

const HAS_SELF = 1, HAS_LINE = 2, HAS_BASE = 4, IS_CUT = 8, UP = 4;
const SAFE = Number.MAX_SAFE_INTEGER;

function done(at: number, end: number): void { if (at !== end) throw new WireError('there is more than there should be'); }

/** Varints of one column. */
class Column {
	constructor(private readonly bytes: Uint8Array, public at: number, readonly end: number) {}
	get size(): number { return this.end - this.at; }
	/** Rounded beyond 2^53. */
	number(): number {
		const b = this.bytes, end = this.end;
		if (this.at < end && b[this.at] < 128) return b[this.at++];
		let v = 0, scale = 1;
		for (let i = 0; i < 10; i++) {
			if (this.at >= end) throw new WireError('the answer ends too early');
			const c = b[this.at++];
			v += (c & 127) * scale;
			if (c < 128) return v;
			scale *= 128;
		}
		throw new WireError('a number is too long');
	}
	/** At most 2^32 - 1. */
	index(): number {
		const v = this.number();
		if (v > 0xffffffff) throw new WireError('a number is too large');
		return v;
	}
	signed(): number {
		const v = this.number();
		return v % 2 ? -(v + 1) / 2 : v / 2;
	}
	big(): bigint {
		let v = 0n, shift = 0n;
		for (;;) {
			if (this.at >= this.end || shift > 63n) throw new WireError('a number is too long');
			const c = this.bytes[this.at++];
			v |= BigInt(c & 127) << shift;
			if (c < 128) break;
			shift += 7n;
		}
		return BigInt.asIntN(64, (v >> 1n) ^ -(v & 1n));
	}
	done(): void { done(this.at, this.end); }
	again(): Column { return new Column(this.bytes, this.at, this.end); }
}

class Columns {
	private at: number;
	constructor(private readonly bytes: Uint8Array, start: number) { this.at = start; }
	next(): Column {
		const length = new Column(this.bytes, this.at, this.bytes.length), n = length.index();
		if (n > length.size) throw new WireError('the answer ends too early');
		this.at = length.at + n;
		return new Column(this.bytes, length.at, this.at);
	}
	/** A column of n numbers, which are at least a byte each. */
	of(n: number): Column {
		const c = this.next();
		if (n > c.size) throw new WireError('the answer ends too early');
		return c;
	}
	/** The same, and no more. */
	exactly(n: number): Column {
		const c = this.of(n), all = c.again();
		for (let i = 0; i < n; i++) all.number();
		all.done();
		return c;
	}
	texts(n: number): string[] {
		const lengths = this.of(n), c = this.next(), all = this.bytes.subarray(c.at, c.end);
		const utf8 = new TextDecoder(), text = utf8.decode(all), plain = text.length === all.length, out: string[] = new Array(n);
		for (let i = 0, at = 0; i < n; i++) {
			const end = at + lengths.number();
			if (end > all.length) throw new WireError('a text ends too late');
			out[i] = plain ? text.slice(at, end) : utf8.decode(all.subarray(at, end));
			at = end;
		}
		lengths.done();
		return out;
	}
	done(): void { done(this.at, this.bytes.length); }
}

/** The head's "columns". */
interface Head {
	version: number; nodes: number; rows: number; all: number; diff: boolean; integers: boolean; scale: number; known: number; new: number; texts: number;
	of?: string; list?: string; found?: number;
}

function counts(h: Head | undefined): Head {
	if (h?.version !== 1) throw new WireError('the answer is of another version');
	for (const n of [h.nodes, h.rows, h.all, h.known, h.new, h.texts])
		if (!Number.isInteger(n) || n < 0 || n > 0xffffffff) throw new WireError('a count is malformed');
	if (h.nodes < 1 || !(h.scale > 0) || !Number.isFinite(h.scale) || (h.integers && !Number.isInteger(h.scale))) throw new WireError('a count is malformed');
	return h;
}

/** Whether doubles hold them exactly: the sum of all, or each. Values that are not integers are scaled so that they fit. */
function fits(columns: Column[], h: Head, together: boolean): boolean {
	let s = 0;
	for (const c of columns)
		for (const all = c.again(); all.size;) {
			const v = Math.abs(all.signed());
			s = together ? s + v : Math.max(s, 2 * v);
		}
	if (s > SAFE && !h.integers) throw new WireError('a value is too large');
	return s <= SAFE;
}

/** The values of a tree: self where the heads have one, total with everything below. rests: for nodes on the path to the root, the value of
 * their other children, which are left out. */
function treeValues(c: Column, rests: Column, h: Head, depth: Uint32Array, heads: Uint8Array, flag: number): { total: Float64Array; self: Float64Array } {
	const n = depth.length, self = new Float64Array(n), total = new Float64Array(n);
	if (fits([c, rests], h, true)) {
		const rest: number[] = [];
		for (let i = 0; i < n; i++) if (heads[i] & flag) self[i] = c.signed();
		while (rests.size) rest.push(rests.signed());
		addUp(self, total, depth, rest);
		if (h.scale !== 1) for (let i = 0; i < n; i++) { self[i] *= h.scale; total[i] *= h.scale; }
	} else {
		const exact = new BigInt64Array(n), below = new Map<number, bigint>(), k = BigInt(h.scale), rest: bigint[] = [];
		while (rests.size) rest.push(rests.big());
		for (let i = 0; i < n; i++) if (heads[i] & flag) exact[i] = c.big();
		for (let i = n - 1; i >= 0; i--) {
			const d = depth[i], t = exact[i] + (below.get(d + 1) ?? 0n) + (rest[i] ?? 0n);
			below.set(d + 1, 0n);
			below.set(d, (below.get(d) ?? 0n) + t);
			self[i] = Number(exact[i] * k);
			total[i] = Number(t * k);
		}
	}
	c.done();
	return { total, self };
}

/** Preorder from its end: what was added up one level below belongs to the node. */
function addUp(self: Float64Array, total: Float64Array, depth: Uint32Array, rest: number[]): void {
	const below: number[] = [];
	for (let i = self.length - 1; i >= 0; i--) {
		const d = depth[i], t = self[i] + (below[d + 1] ?? 0) + (i < rest.length ? rest[i] : 0);
		below[d + 1] = 0;
		below[d] = (below[d] ?? 0) + t;
		total[i] = t;
	}
}

/** For rows: self, and total less self. */
function rowValues(selfs: Column, rests: Column, n: number, h: Head): { total: number[]; self: number[] } {
	const total: number[] = new Array(n), self: number[] = new Array(n);
	if (fits([selfs, rests], h, false))
		for (let i = 0; i < n; i++) {
			const s = selfs.signed();
			self[i] = s * h.scale;
			total[i] = (s + rests.signed()) * h.scale;
		}
	else
		for (let i = 0, k = BigInt(h.scale); i < n; i++) {
			const s = selfs.big();
			self[i] = Number(s * k);
			total[i] = Number(BigInt.asIntN(64, s + rests.big()) * k);
		}
	selfs.done();
	rests.done();
	return { total, self };
}

function readFrames(c: Columns, h: Head, known: FrameList | null): { used: FrameList; list: FrameList | null } {
	const of = h.of ? known : null;
	if (h.of && of?.token !== h.of) throw new WireError('the answer builds on another one');
	const gaps = c.of(h.known), places: number[] = new Array(h.known);
	for (let i = 0, next = 0; i < h.known; i++) {
		places[i] = next + gaps.index();
		if (places[i] >= (of?.names.length ?? 0)) throw new WireError('a frame is not there');
		next = places[i] + 1;
	}
	gaps.done();
	const names = c.texts(h.new);
	const { texts, file, binary, line } = readPlaces(c, h);
	const text = (i: number): string => i === 0 ? '' : texts[i - 1];
	const files = file.map(text), binaries = binary.map(text);
	const same = h.new === 0 && h.known === of?.names.length;
	const take = <T>(all: T[] | undefined, more: T[]): T[] => same ? all! : places.map((p) => all![p]).concat(more);
	const token = h.list ?? '';
	return {
		used: { token, names: take(of?.names, names), files: take(of?.files, files), binaries: take(of?.binaries, binaries), startLines: take(of?.startLines, line) },
		list: !h.list ? null : of && !h.new ? of : {
			token, names: (of?.names ?? []).concat(names), files: (of?.files ?? []).concat(files), binaries: (of?.binaries ?? []).concat(binaries), startLines: (of?.startLines ?? []).concat(line),
		},
	};
}

function readPlaces(c: Columns, h: Head): { texts: string[]; file: number[]; binary: number[]; line: number[] } {
	const n = h.new, texts = c.texts(h.texts);
	const indices = (): number[] => {
		const col = c.of(n), out: number[] = new Array(n);
		for (let i = 0, at = 0; i < n; i++) {
			at += col.signed();
			if (at < 0 || at > texts.length) throw new WireError('a text is not there');
			out[i] = at;
		}
		col.done();
		return out;
	};
	const file = indices(), binary = indices(), lines = c.of(n), line: number[] = new Array(n);
	for (let i = 0; i < n; i++) line[i] = lines.index();
	lines.done();
	return { texts, file, binary, line };
}

function readNodes(c: Columns, h: Head, frames: number, root: number): FlameData['nodes'] {
	const n = h.nodes, head = c.of(n), frame = c.of(n), line = c.next();
	const out = { depth: new Uint32Array(n), frame: new Uint32Array(n), line: new Uint32Array(n) };
	const heads = new Uint8Array(n), last = new Float64Array(frames);
	for (let i = 0, depth = -1; i < n; i++) {
		const v = head.index(), up = v >>> UP, f = frame.index();
		depth += 1 - up;
		if (i ? depth < 1 : depth !== 0) throw new WireError('a node has no parent');
		if (f >= frames) throw new WireError('a frame is not there');
		out.depth[i] = depth;
		out.frame[i] = f;
		heads[i] = v & 15;
		if (v & HAS_LINE) last[f] += line.signed();
		out.line[i] = last[f];
	}
	head.done();
	frame.done();
	line.done();
	if (!Number.isInteger(root) || root < 0 || root >= n || out.depth[root] !== root) throw new WireError('the way to the root is not there');
	const selfs = c.next(), bases = c.next(), cut = c.next(), node: number[] = [], count: number[] = [];
	const values = treeValues(selfs, c.exactly(root), h, out.depth, heads, HAS_SELF);
	const base = treeValues(bases, c.exactly(h.diff ? root : 0), h, out.depth, heads, HAS_BASE);
	for (let i = 0; i < n; i++)
		if (heads[i] & IS_CUT) { node.push(i); count.push(cut.index()); }
	cut.done();
	return { ...out, ...values, base: h.diff ? base : undefined, cut: { node, count } };
}

function readRows(c: Columns, h: Head, frames: number): NonNullable<FlameData['functions']> {
	const n = h.rows, gaps = c.of(n), frame: number[] = new Array(n);
	for (let i = 0, next = 0; i < n; i++) {
		frame[i] = next + gaps.index();
		if (frame[i] >= frames) throw new WireError('a frame is not there');
		next = frame[i] + 1;
	}
	gaps.done();
	const now = rowValues(c.of(n), c.of(n), n, h), base = rowValues(c.of(h.diff ? n : 0), c.of(h.diff ? n : 0), h.diff ? n : 0, h);
	return { frame, ...now, base: h.diff ? base : undefined, all: h.all };
}

function readHead<T>(body: ArrayBuffer): { answer: Envelope<T>; bytes: Uint8Array; at: number } {
	const bytes = new Uint8Array(body), end = bytes.indexOf(10);
	if (end < 0) throw new WireError('the answer ends too early');
	return { answer: JSON.parse(new TextDecoder().decode(bytes.subarray(0, end))) as Envelope<T>, bytes, at: end + 1 };
}

/** Labels are looked up by names that others chose: what every object has ("constructor") is no label. */
export const bare = (l: Labels): Labels => Object.setPrototypeOf(l, null);

/** A graph: doubles, and which steps they are of. */
export function readMatrix(body: ArrayBuffer): Envelope<MatrixSeries[]> {
	const { answer, at } = readHead<{ columns: { startMs: number; stepMs: number }; result: { metric: Labels; runs: number[] }[] }>(body);
	const { columns: c, result } = answer.data!, all = new Float64Array(body.slice(at));
	let next = 0;
	const data = result.map(({ metric, runs }) => {
		const values: MatrixSeries['values'] = [];
		let k = 0;
		runs.forEach((n, i) => {
			if (i % 2) while (n--) {
				if (next === all.length) throw new WireError('the answer ends too early');
				values.push([(c.startMs + k++ * c.stepMs) / 1000, all[next++]]);
			} else k += n;
		});
		return { metric: bare(metric), values };
	});
	done(next, all.length);
	return { ...answer, data };
}

/** Parses a body: the answer's own text, and after a success the columns behind it. known: the list named in the request; the answer's
 * own is in `list`, for the next request. */
export function readFlame(body: ArrayBuffer, known: FrameList | null): { answer: Envelope<FlameData>; list: FrameList | null } {
	const { answer, bytes, at } = readHead<FlameData & { columns?: Head }>(body);
	const h = counts(answer.data?.columns), c = new Columns(bytes, at);
	const { used, list } = readFrames(c, h, known);
	const nodes = readNodes(c, h, used.names.length, answer.data!.root ?? 0), functions = readRows(c, h, used.names.length);
	const found = rowValues(c.of(2), new Column(new Uint8Array(2), 0, 2), 2, h).self;
	c.done();
	const { columns: _, ...said } = answer.data!;
	const data: FlameData = { ...said, frames: used, nodes, functions, found: h.found === undefined ? undefined : { total: found[0], base: h.diff ? found[1] : undefined, functions: h.found } };
	return { answer: { ...answer, data }, list };
}
