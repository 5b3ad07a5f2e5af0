// SPDX-License-Identifier: Apache-2.0
// A pprof file, read in the browser: profile.proto, gzipped or not, into the columns that the server would send of it. Files come from
// anywhere: sizes are bounded, every index is checked, and an error says what is wrong and at which byte.
import type { FlameData } from '../base/api';
import { buildTree, type FlameTree } from '../flame/tree';

const MAX_FILE = 64 << 20, MAX_BYTES = 512 << 20, MAX_DEPTH = 10000, MAX_NODES = 4e6, MAX_WALK = 1e8, MAX_TYPES = 100, MAX_TEXT = 1 << 20;

export interface PprofType { type: string; unit: string }
/** The data of a profile, without its stacks. */
export interface Pprof {
	types: PprofType[];
	/** The type to begin with. */
	first: number;
	/** Seconds since 1970, and how many; 0: it does not say. */
	time: number; seconds: number;
	periodType: string; comments: string[];
	/** Texts of frames, one per name. */
	names: string[]; files: string[]; binaries: string[]; startLines: number[];
	/** For each location its frames, from the caller to the inlined ones, each with its line. */
	places: { frames: number[]; lines: number[] }[];
	/** Of sample i the places from the leaf on are stacks[starts[i]] to stacks[starts[i + 1]]. */
	starts: number[]; stacks: number[];
	/** types.length numbers per sample. */
	values: number[];
	/** Samples that are subtracted: a difference, as format=pprof writes it. */
	base: boolean[];
}

const fail = (text: string): never => { throw new Error(text); };
const wrong = (text: string, at: number): never => fail(`${text}, at byte ${at}`);

/** Limits of entries (samples, locations, texts, labels) and of stack numbers in a file: an entry of two bytes becomes an object of a
 * hundred, and a number of one byte one of eight. */
const MOST = { parts: 1e7, numbers: 6e7 };

/** The bytes of a message, of any wire type. Ids are numbers while they are exact, texts beyond. left: what all readers of a file together may
 * still read. */
class Reader {
	lo = 0;
	hi = 0;
	constructor(readonly b: Uint8Array, public at = 0, readonly end = b.length, private readonly left = { ...MOST }) {}
	varint(): void {
		let lo = 0, hi = 0;
		for (let i = 0; i < 10; i++) {
			if (this.at >= this.end) wrong('it ends within a number', this.at);
			const x = this.b[this.at++], v = x & 0x7f, shift = 7 * i;
			if (shift < 28) lo |= v << shift;
			else if (shift === 28) { lo |= v << 28; hi = v >> 4; } else if (shift < 63) hi |= v << (shift - 32);
			else hi |= (v & 1) << 31;
			if (x < 0x80) { this.lo = lo >>> 0; this.hi = hi >>> 0; return; }
		}
		wrong('a number of more than ten bytes', this.at);
	}
	unsigned(): number { this.varint(); return this.hi * 4294967296 + this.lo; }
	signed(): number { this.varint(); return (this.hi | 0) * 4294967296 + this.lo; }
	id(): number | string { this.varint(); return this.hi < 0x200000 ? this.hi * 4294967296 + this.lo : `${this.hi}:${this.lo}`; }
	big(): bigint { this.varint(); return BigInt(this.hi) << 32n | BigInt(this.lo); }
	/** What follows by its length. */
	part(): Reader {
		const n = this.unsigned(), from = this.at;
		if (n > this.end - from) wrong('a part goes beyond the end', from);
		this.at += n;
		if (--this.left.parts < 0) fail('it has too many entries');
		return new Reader(this.b, from, this.at, this.left);
	}
	text(): string { const p = this.part(); if (p.end - p.at > MAX_TEXT) wrong('a text is too long', p.at); return new TextDecoder().decode(this.b.subarray(p.at, p.end)); }
	/** Calls `field` for each; a value that it does not take is passed over. */
	each(field: (n: number, wire: number) => void): void {
		while (this.at < this.end) {
			const tag = this.unsigned(), wire = tag & 7, n = Math.floor(tag / 8), at = this.at;
			if (n < 1 || n > 0x1fffffff) wrong('no field of a profile', at);
			field(n, wire);
			if (this.at === at) this.skip(wire);
		}
	}
	private skip(wire: number): void {
		if (wire === 0) this.varint();
		else if (wire === 2) this.part();
		else if (wire === 1 || wire === 5) this.at += wire === 1 ? 8 : 4;
		else wrong(`wire type ${wire}`, this.at);
		if (this.at > this.end) wrong('it ends within a field', this.end);
	}
	/** Numbers that are packed, or one. */
	list(wire: number, add: (r: Reader) => void): void {
		if (wire !== 0 && wire !== 2) wrong(`wire type ${wire}`, this.at);
		const p = wire === 0 ? this : this.part();
		do {
			if (p.at >= p.end) return;
			if (--this.left.numbers < 0) fail('its stacks are too long');
			add(p);
		} while (p !== this);
	}
}

/** The numbers of a small message by their field. */
function numbers(r: Reader): number[] {
	const out: number[] = [];
	r.each((n, wire) => { if (wire === 0 && n < 20) out[n] = r.signed(); });
	return out;
}

interface Mapping { start: bigint; offset: bigint; file: number }
interface Location { mapping: number | string; address: bigint; lines: { fn: number | string; line: number }[] }
type Id = number | string;

const basename = (path: string) => path.slice(path.lastIndexOf('/') + 1);

/** Of bytes that are not compressed. */
export function parsePprof(bytes: Uint8Array, most = MOST): Pprof {
	const strings: string[] = [], typeIds: [number, number][] = [], mappings = new Map<Id, Mapping>(), locations = new Map<Id, Location>();
	const functions = new Map<Id, { name: number; file: number; line: number }>();
	const starts = [0], ids: Id[] = [], values: number[] = [], labels: [number, number][][] = [], counts: number[] = [], comments: number[] = [];
	let time = 0, duration = 0, period: number[] = [], first = 0;
	const r = new Reader(bytes, 0, bytes.length, { ...most });
	r.each((n, wire) => {
		if (wire === 0) {
			if (n === 9) time = r.signed();
			else if (n === 10) duration = r.signed();
			else if (n === 14) first = r.signed();
			else if (n === 13) r.list(wire, (p) => comments.push(p.signed()));
		} else if (wire === 2) readPart(n, wire);
	});

	function readPart(n: number, wire: number): void {
		switch (n) {
		case 1: { const v = numbers(r.part()); typeIds.push([v[1] ?? 0, v[2] ?? 0]); break; }
		case 2: readSample(r.part()); break;
		case 3: {
			const p = r.part(), m: Mapping = { start: 0n, offset: 0n, file: 0 };
			let id: Id = 0;
			p.each((f, w) => {
				if (w !== 0) return;
				if (f === 1) id = p.id(); else if (f === 2) m.start = p.big(); else if (f === 4) m.offset = p.big(); else if (f === 5) m.file = p.signed();
			});
			mappings.set(id, m);
			break;
		}
		case 4: readLocation(r.part()); break;
		case 5: {
			const p = r.part(), f = { name: 0, file: 0, line: 0 };
			let id: Id = 0;
			p.each((k, w) => {
				if (w !== 0) return;
				if (k === 1) id = p.id(); else if (k === 2) f.name = p.signed(); else if (k === 4) f.file = p.signed(); else if (k === 5) f.line = p.signed();
			});
			functions.set(id, f);
			break;
		}
		case 6: strings.push(r.text()); break;
		case 11: period = numbers(r.part()); break;
		case 13: r.list(wire, (p) => comments.push(p.signed())); break;
		}
	}

	function readSample(p: Reader): void {
		let own: [number, number][] | undefined, depth = 0, count = 0;
		p.each((n, wire) => {
			if (n === 1) p.list(wire, (x) => { ids.push(x.id()); depth++; });
			else if (n === 2) p.list(wire, (x) => { values.push(x.signed()); count++; });
			else if (n === 3 && wire === 2) { const v = numbers(p.part()); (own ??= []).push([v[1] ?? 0, v[2] ?? 0]); }
		});
		if (depth > MAX_DEPTH) fail(`a stack of ${depth} locations; at most ${MAX_DEPTH}`);
		starts.push(ids.length);
		counts.push(count);
		if (own) labels[starts.length - 2] = own;
	}
	function readLocation(p: Reader): void {
		const l: Location = { mapping: 0, address: 0n, lines: [] };
		let id: Id = 0;
		p.each((n, wire) => {
			if (n === 4 && wire === 2) {
				const q = p.part(), line = { fn: 0 as Id, line: 0 };
				q.each((f, w) => { if (w !== 0) return; if (f === 1) line.fn = q.id(); else if (f === 2) line.line = Math.max(0, q.signed()); });
				l.lines.push(line);
			} else if (wire !== 0) return;
			else if (n === 1) id = p.id();
			else if (n === 2) l.mapping = p.id();
			else if (n === 3) l.address = p.big();
		});
		locations.set(id, l);
	}

	const text = (i: number): string => i >= 0 && i < strings.length ? strings[i] : fail(`there is no text ${i}`);
	if (!typeIds.length) fail('it is no profile');
	if (typeIds.length > MAX_TYPES) fail('it has too many sample types');
	if (strings.length && strings[0] !== '') fail('it is no profile');
	const out: Pprof = {
		types: typeIds.map(([t, u]) => ({ type: text(t), unit: text(u) })), first: 0, time: time / 1e9, seconds: Math.max(0, duration / 1e9), periodType: period[1] ? text(period[1]) : '',
		comments: comments.map(text), names: [], files: [], binaries: [], startLines: [], places: [], starts, stacks: [], values, base: [],
	};
	const bad = counts.findIndex((c) => c !== typeIds.length);
	if (bad >= 0) fail(`sample ${bad} has ${counts[bad]} values for ${typeIds.length} types`);
	out.first = Math.max(0, out.types.findIndex((t) => first > 0 && t.type === text(first)));
	if (first <= 0) out.first = out.types.length - 1; /* as pprof: the last */
	const frames = new Map<string, number>();
	const frameOf = (name: string, file: string, binary: string, line: number): number => {
		let f = frames.get(name);
		if (f === undefined) {
			frames.set(name, f = out.names.length);
			out.names.push(name); out.files.push(file); out.binaries.push(binary); out.startLines.push(line);
		}
		return f;
	};
	const placeOf = (l: Location): { frames: number[]; lines: number[] } => {
		const m = mappings.get(l.mapping), binary = m ? text(m.file) : '';
		const at = m ? BigInt.asUintN(64, l.address - m.start + m.offset) : l.address, unnamed = `${binary ? `${basename(binary)}+` : ''}0x${at.toString(16)}`;
		if (!l.lines.length) return { frames: [frameOf(unnamed, '', binary, 0)], lines: [0] };
		const calls = l.lines.map(({ fn, line }) => {
			const f = functions.get(fn) ?? fail(`there is no function ${fn}`);
			return { name: text(f.name) || unnamed, file: text(f.file), start: Math.max(0, f.line), line };
		}).reverse();
		return { frames: calls.map((x) => frameOf(x.name, x.file, binary, x.start)), lines: calls.map((x) => x.line) };
	};
	const index = new Map<Id, number>();
	out.stacks = ids.map((id) => {
		let i = index.get(id);
		if (i === undefined) {
			index.set(id, i = out.places.length);
			out.places.push(placeOf(locations.get(id) ?? fail(`there is no location ${id}`)));
		}
		return i;
	});
	labels.forEach((own, i) => { if (own.some(([k, v]) => text(k) === 'pprof::base' && text(v) === 'true')) out.base[i] = true; });
	return out;
}

/** The same of a file, which may be gzipped. */
export async function readPprof(file: Blob): Promise<Pprof> {
	if (file.size > MAX_FILE) fail(`more than ${MAX_FILE} bytes`);
	const head = new Uint8Array(await file.slice(0, 2).arrayBuffer());
	if (!head.length) fail('it is empty');
	return parsePprof(head[0] === 0x1f && head[1] === 0x8b ? await unzip(file) : new Uint8Array(await file.arrayBuffer()));
}

async function unzip(file: Blob): Promise<Uint8Array> {
	const reader = file.stream().pipeThrough(new DecompressionStream('gzip')).getReader(), parts: Uint8Array[] = [];
	let n = 0;
	try {
		for (;;) {
			const { done, value } = await reader.read();
			if (done) break;
			n += value.length;
			if (n > MAX_BYTES) break;
			parts.push(value);
		}
	} catch { fail('its compression is damaged, or the file was cut off'); }
	if (n > MAX_BYTES) { void reader.cancel().catch(() => undefined); fail(`more than ${MAX_BYTES} bytes, decompressed`); }
	const out = new Uint8Array(n);
	let at = 0;
	for (const p of parts) { out.set(p, at); at += p.length; }
	return out;
}

/* ---- into a tree ---- */

/** One sample type of a profile. */
export interface PprofSide { profile: Pprof; type: number }

/** Nodes while they are made: columns, with children after their parents. */
class Nodes {
	parent = [-1]; frame = [0]; line = [0]; self = [0]; baseSelf = [0];
	walked = 0;
	private readonly byKey = new Map<number, number>();
	constructor(private readonly frames: number) {}
	child(parent: number, frame: number, line: number): number {
		const key = parent * this.frames + frame, known = this.byKey.get(key);
		if (known !== undefined) { if (this.line[known] !== line) this.line[known] = 0; return known; }
		const i = this.parent.length;
		if (i > MAX_NODES) fail('its stacks make too many boxes');
		this.byKey.set(key, i);
		this.parent.push(parent); this.frame.push(frame); this.line.push(line); this.self.push(0); this.baseSelf.push(0);
		return i;
	}
}

interface Texts { names: string[]; files: string[]; binaries: string[]; startLines: number[]; byName: Map<string, number> }

/** up: from leaves to their callers. of: only the callers or callees of that function, from it on: callers from the innermost of its calls in a
 * stack, callees from the outermost. */
export interface Look { up?: boolean; of?: string }

/** Adds the samples of one side. scale: the factor of its values. */
function addSide(n: Nodes, texts: Texts, { profile: p, type }: PprofSide, asBase: boolean, scale: number, { up, of }: Look): void {
	const frames = p.names.map((name) => texts.byName.get(name)!), width = p.types.length, wanted = texts.byName.get(of!), calls: number[] = [], lines: number[] = [];
	for (let i = 0; i + 1 < p.starts.length; i++) {
		const v = p.values[i * width + type] * scale;
		if (!v) continue;
		let at = 0, from = calls.length = 0;
		for (let k = p.starts[i + 1] - 1; k >= p.starts[i]; k--) {
			const place = p.places[p.stacks[k]];
			place.frames.forEach((f, j) => { lines[calls.length] = place.lines[j]; calls.push(frames[f]); });
			if (calls.length > 60000 || (n.walked += place.frames.length) > MAX_WALK) fail('its stacks are too long');
		}
		let to = calls.length;
		if (of !== undefined) {
			if (up) to = calls.lastIndexOf(wanted!) + 1; else from = calls.indexOf(wanted!);
			if (from < 0 || !to) continue;
		}
		for (let j = from; j < to; j++) { const k = up ? to - 1 - j : j; at = n.child(at, calls[k], lines[k]); }
		if (asBase) n.baseSelf[at] += v;
		else if (p.base[i]) n.baseSelf[at] -= v;
		else n.self[at] += v;
	}
}

function textsOf(sides: PprofSide[]): Texts {
	const t: Texts = { names: ['total'], files: [''], binaries: [''], startLines: [0], byName: new Map() };
	for (const { profile: p } of sides)
		p.names.forEach((name, i) => {
			if (t.byName.has(name)) return;
			t.byName.set(name, t.names.length);
			t.names.push(name); t.files.push(p.files[i]); t.binaries.push(p.binaries[i]); t.startLines.push(p.startLines[i]);
		});
	return t;
}

/** For a missing type: 0. */
export const totalOf = ({ profile: p, type }: PprofSide): number => {
	let sum = 0;
	if (type < 0) return 0;
	for (let i = type, k = 0; i < p.values.length; i += p.types.length, k++) if (!p.base[k]) sum += p.values[i];
	return sum;
};

/** Columns in preorder, siblings by name, as the server sends them. */
function inOrder(n: Nodes, texts: Texts, diff: boolean): Pick<FlameData, 'nodes'> {
	const count = n.parent.length, total = n.self.slice(), baseTotal = n.baseSelf.slice();
	for (let i = count - 1; i > 0; i--) { total[n.parent[i]] += total[i]; baseTotal[n.parent[i]] += baseTotal[i]; }
	const children: number[][] = [];
	for (let i = 1; i < count; i++) (children[n.parent[i]] ??= []).push(i);
	const rank = new Uint32Array(texts.names.length);
	texts.names.map((name, i) => [name, i] as const).sort((a, b) => a[0] < b[0] ? -1 : 1).forEach(([, i], at) => { rank[i] = at; });
	const nodes = { depth: [] as number[], frame: [] as number[], total: [] as number[], self: [] as number[], line: [] as number[] }, base = { total: [] as number[], self: [] as number[] };
	const open: [number, number][] = [[0, 0]];
	for (let top = open.pop(); top; top = open.pop()) {
		const [i, depth] = top;
		nodes.depth.push(depth); nodes.frame.push(n.frame[i]); nodes.total.push(total[i]); nodes.self.push(n.self[i]); nodes.line.push(n.line[i]);
		base.total.push(baseTotal[i]); base.self.push(n.baseSelf[i]);
		for (const c of (children[i] ?? []).sort((a, b) => rank[n.frame[b]] - rank[n.frame[a]])) open.push([c, depth + 1]);
	}
	return { nodes: diff ? { ...nodes, base } : nodes };
}

const STATES = new Set(['inuse_space', 'inuse_objects', 'goroutine', 'threadcreate']);

/** One profile, or with `base` the difference of two; of shares: the base is taken as if it were as large. */
export function treeOf(now: PprofSide, base?: PprofSide | null, shares = false, look: Look = {}): FlameTree {
	const t = now.profile.types[now.type], texts = textsOf(base ? [now, base] : [now]), n = new Nodes(texts.names.length);
	const baseTotal = base && shares ? totalOf(base) : 0;
	addSide(n, texts, now, false, 1, look);
	if (base) addSide(n, texts, base, true, baseTotal ? totalOf(now) / baseTotal : 1, look);
	const ids = (list: string[], at: number) => list.map((_, i) => at + i), count = texts.names.length;
	return buildTree({
		unit: t.unit, sampleType: t.type, name: `${now.profile.periodType || t.type}:${t.type}`, total: 0, kind: STATES.has(t.type) ? 'gauge' : 'delta', coveredSeconds: base ? 0 : now.profile.seconds,
		mixedWeights: [now, base].some((s) => s?.profile.comments.some((c) => c.startsWith('frames are approximate'))),
		strings: [...texts.names, ...texts.files, ...texts.binaries],
		frames: { name: ids(texts.names, 0), file: ids(texts.names, count), binary: ids(texts.names, 2 * count), startLine: texts.startLines },
		...inOrder(n, texts, !!base || now.profile.base.length > 0),
	});
}

/** The tree of a file's bytes; type: which of its sample types, its own choice by default. */
export async function treeOfPprof(bytes: Uint8Array, type?: number): Promise<FlameTree> {
	const profile = await readPprof(new Blob([bytes as BlobPart]));
	return treeOf({ profile, type: type ?? profile.first });
}
