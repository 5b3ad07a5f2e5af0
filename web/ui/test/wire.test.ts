// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readFlame, readMatrix, WireError, type FrameList } from '../src/base/wire';
import { buildTree, hiddenBelow } from '../src/flame/tree';

type Head = Record<string, unknown>;
const HEAD: Head = { version: 1, nodes: 3, rows: 2, all: 2, diff: false, integers: true, scale: 100, known: 0, new: 3, texts: 2, list: 'aa' };

function body(head: Head, columns: Uint8Array | string, root = 0): ArrayBuffer {
	const text = new TextEncoder().encode(JSON.stringify({ status: 'success', data: { unit: 'nanoseconds', sampleType: 'cpu', name: 'x', total: 1100, hidden: 0, root, columns: head } }) + '\n');
	const bytes = typeof columns === 'string' ? Uint8Array.from(columns.match(/../g) ?? [], (h) => parseInt(h, 16)) : columns;
	const out = new Uint8Array(text.length + bytes.length);
	out.set(text);
	out.set(bytes, text.length);
	return out.buffer;
}

/* What web_test.c has the server write. */
const FRAMES = '00030504060f746f74616c6d61696e776f726b3b310206040a64656d6f2e6364656d6f03000200030004000300000003';
const ONE = FRAMES + '00030303000102020e0e020214000000000201000202140214000000020000';
const LARGE = FRAMES + '00070703000102020e0e0a64ffffffffffffffff7f12e5cc99b3e6cc99b306ffffffffffffffff3f0000000201000a64ffffffffffffffff7f0affffffffffffffff7f0012e5cc99b3e6cc99b306ffffffffffffffff3f0affffffffffffffff3f00020000';

test('columns are what the server wrote', () => {
	const { answer, list } = readFlame(body(HEAD, ONE), null), d = answer.data!;
	const t = buildTree(d);
	assert.deepEqual([...t.frame].map((f) => t.names[f]), ['total', 'main', 'work;1']);
	assert.deepEqual([t.files[1], t.binaries[2], t.files[0]], ['demo.c', 'demo', '']);
	assert.deepEqual([[...t.depth], [...t.total], [...t.self], [...t.line]], [[0, 1, 2], [1100, 1100, 1000], [0, 100, 1000], [0, 7, 7]]);
	assert.deepEqual(t.functions.map((r) => [r.name, r.self, r.total]), [['main', 100, 1100], ['work;1', 1000, 1000]]);
	assert.deepEqual(list!.names, ['total', 'main', 'work;1']);
	assert.equal(t.unit, 'nanoseconds');
	assert.equal(t.base, undefined);
});

test('beyond 2^53 sums are made of integers, then rounded once', () => {
	const t = buildTree(readFlame(body({ ...HEAD, diff: true, scale: 2 }, LARGE), null).answer.data!);
	/* 9223372036854775807 less its 100th, in whole numbers, and -2^62 */
	assert.equal(t.self[2], Number(-4611686018427387904n * 2n));
	assert.equal(t.total[0], Number((-50n - 4611686018427387904n + 100n) * 2n));
	assert.equal(t.total[0], t.total[1]);
	/* doubles would have lost the 3 */
	const columns = new Encoder().of([], 1, ['total', 'a', 'b', 'c']);
	const sum = columns.tree([[0, 0, 0n], [1, 1, 1n << 61n], [1, 2, -(1n << 61n)], [1, 3, 3n]]);
	assert.equal(buildTree(readFlame(sum, null).answer.data!).total[0], 3);
});

test('known frames come as places', () => {
	const list: FrameList = { token: 'bb', names: ['x', 'total', 'gone', 'main'], files: ['', '', '', 'm.c'], binaries: ['', '', '', 'bin'], startLines: [0, 0, 0, 5] };
	const e = new Encoder().of([1, 3], 1, ['new']), tree = e.tree([[0, 0, 0n], [1, 1, 4n], [2, 2, 5n]], 'bb');
	const { answer, list: now } = readFlame(tree, list), t = buildTree(answer.data!);
	assert.deepEqual([...t.frame].map((f) => t.names[f]), ['total', 'main', 'new']);
	assert.deepEqual([...t.total], [9, 9, 5]);
	assert.deepEqual([t.files[1], t.startLines[1]], ['m.c', 5]);
	assert.deepEqual(now!.names, ['x', 'total', 'gone', 'main', 'new']);
	assert.deepEqual(list.names.length, 4);
	assert.throws(() => readFlame(tree, null), WireError);
	assert.throws(() => readFlame(tree, { ...list, token: 'cc' }), WireError);
});

test('texts of several bytes, and nodes that stand for others', () => {
	const e = new Encoder().of([], 1, ['total', '(other)', 'größe', 'λ']);
	const t = buildTree(readFlame(e.tree([[0, 0, 0n], [1, 1, 2n, 7], [1, 2, 3n], [2, 1, 1n, 4], [1, 3, 6n]]), null).answer.data!);
	assert.deepEqual(t.names.slice(2), ['größe', 'λ']);
	assert.deepEqual([...t.cut!], [0, 7, 0, 4, 0]);
	t.hidden = 11;
	assert.deepEqual([hiddenBelow(t, 0), hiddenBelow(t, 2), hiddenBelow(t, 4)], [11, 4, 0]);
});

test('calls on the way to a root have what is not there', () => {
	const e = new Encoder().of([], 1, ['total', 'main', 'f', 'g']);
	const t = buildTree(readFlame(e.tree([[0, 0, 0n], [1, 1, 5n], [2, 2, 1n], [3, 3, 2n]], undefined, [7n, 90n]), null).answer.data!, ['main', 'f']);
	assert.deepEqual([...t.total], [105, 98, 3, 2]);
	assert.deepEqual([...t.self], [0, 5, 1, 2]);
});

/** Columns by the words of docs/format/flame.md. */
class Encoder {
	private out: number[] = [];
	private counts: Head = {};
	private varint(v: bigint, to: number[]): void {
		for (; v > 127n; v >>= 7n) to.push(Number(v & 127n) | 128);
		to.push(Number(v));
	}
	private column(values: bigint[]): void {
		const c: number[] = [];
		for (const v of values) this.varint(v, c);
		this.varint(BigInt(c.length), this.out);
		this.out.push(...c);
	}
	private zigzag = (v: bigint): bigint => BigInt.asUintN(64, v << 1n ^ v >> 63n);
	of(known: number[], scale: number, names: string[]): this {
		const texts = names.map((n) => new TextEncoder().encode(n)), none = names.map(() => 0n);
		this.column(known.map((p, i) => BigInt(p - (i ? known[i - 1] + 1 : 0))));
		this.column(texts.map((t) => BigInt(t.length)));
		this.varint(BigInt(texts.reduce((a, t) => a + t.length, 0)), this.out);
		for (const t of texts) this.out.push(...t);
		this.out.push(0, 0);
		for (let i = 0; i < 3; i++) this.column(none);
		this.counts = { known: known.length, new: names.length, texts: 0, scale };
		return this;
	}
	/** Rows of depth, frame, self and how many others it stands for. */
	tree(nodes: [number, number, bigint, number?][], of?: string, rests: bigint[] = []): ArrayBuffer {
		this.column(nodes.map(([depth, , self, cut], i) => BigInt((i ? nodes[i - 1][0] + 1 - depth : 0) << 4 | (self ? 1 : 0) | (cut ? 8 : 0))));
		this.column(nodes.map(([, frame]) => BigInt(frame)));
		this.column([]);
		this.column(nodes.filter((n) => n[2]).map((n) => this.zigzag(n[2])));
		this.column([]);
		this.column(nodes.filter((n) => n[3]).map((n) => BigInt(n[3]!)));
		this.column(rests.map(this.zigzag));
		for (let i = 0; i < 6; i++) this.column([]);
		this.column([0n, 0n]);
		return body({ ...HEAD, ...this.counts, nodes: nodes.length, rows: 0, all: 0, of }, Uint8Array.from(this.out), rests.length);
	}
}

/* Numbers that a seed gives. */
const dice = (seed: number) => () => (seed = Math.imul(seed ^ seed >>> 15, 0x2c1b3c6d) + 0x9e3779b9 | 0) >>> 0;

test('hostile answers are refused, whatever they claim', () => {
	const good = new Uint8Array(body(HEAD, ONE)), start = good.indexOf(10) + 1, next = dice(19);
	const read = (bytes: Uint8Array): void => {
		try {
			const t = buildTree(readFlame(bytes.slice().buffer, null).answer.data!);
			assert.ok(t.n >= 1 && t.n < 100 && [...t.frame].every((f) => typeof t.names[f] === 'string') && [...t.total].every(Number.isFinite));
		} catch (e) {
			assert.ok(e instanceof WireError || e instanceof SyntaxError, String(e));
		}
	};
	for (let i = start; i < good.length; i++) {
		read(good.subarray(0, i));
		for (const v of [0, 1, 127, 128, 255]) {
			const bytes = good.slice();
			bytes[i] = v;
			read(bytes);
		}
	}
	for (let round = 0; round < 20000; round++) {
		const bytes = good.slice();
		for (let k = next() % 4; k >= 0; k--) bytes[start + next() % (good.length - start)] = next();
		read(bytes);
	}
	for (const [key, v] of [['nodes', 2 ** 31], ['nodes', 1e9], ['nodes', -1], ['nodes', 0], ['rows', 4e9], ['new', 1e9], ['texts', 1e9], ['known', 1e9], ['scale', 0], ['scale', 0.5], ['scale', 'x'], ['version', 2], ['nodes', null]])
		assert.throws(() => readFlame(body({ ...HEAD, [key as string]: v }, ONE), null), WireError, `${key}=${v}`);
	assert.throws(() => readFlame(new ArrayBuffer(0), null), WireError);
	assert.throws(() => readFlame(body({ ...HEAD }, ONE + '00'), null), WireError);
});

/* What web_test.c has the server write. */
const graph = (runs: number[][], values: number[]): ArrayBuffer => {
	const head = { status: 'success', data: { resultType: 'matrix', columns: { startMs: 60123, stepMs: 250 }, result: runs.map((r, i) => ({ metric: { pod: `${i}\n` }, runs: r })) }, warnings: ['cut'] };
	const text = new TextEncoder().encode(JSON.stringify(head) + '\n'), out = new Uint8Array(text.length + 8 * values.length);
	out.set(text);
	out.set(new Uint8Array(new Float64Array(values).buffer), text.length);
	return out.buffer;
};

test('a graph is what the server wrote, gaps where nothing was', () => {
	const a = readMatrix(graph([[0, 1, 3, 2], [], [2, 1]], [1.5, NaN, Infinity, 1e-7]));
	assert.deepEqual(a.data!.map((s) => s.values), [[[60.123, 1.5], [61.123, NaN], [61.373, Infinity]], [], [[60.623, 1e-7]]]);
	assert.deepEqual([{ ...a.data![2].metric }, a.warnings], [{ pod: "2\n" }, ["cut"]]);
});

test('a graph that is not whole is an error', () => {
	for (const broken of [graph([[0, 3]], [1, 2]), graph([[0, 1e9]], [1, 2]), graph([[0, 1]], [1, 2]), graph([[0, 1]], [1]).slice(0, -1)])
		assert.throws(() => readMatrix(broken));
});
