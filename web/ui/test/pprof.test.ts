// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { gzipSync } from 'node:zlib';
import { test } from 'node:test';
import { parsePprof, readPprof, treeOf, treeOfPprof, type Pprof } from '../src/share/pprof';

/* ---- a writer of profile.proto ---- */

const varint = (v: number | bigint): number[] => {
	const out: number[] = [];
	for (let x = BigInt.asUintN(64, BigInt(v)); ; x >>= 7n) {
		if (x < 128n) { out.push(Number(x)); return out; }
		out.push(Number(x & 127n) | 128);
	}
};
const num = (field: number, v: number | bigint) => [...varint(field << 3), ...varint(v)];
const part = (field: number, bytes: number[]) => [...varint(field << 3 | 2), ...varint(bytes.length), ...bytes];
const packed = (field: number, list: (number | bigint)[]) => part(field, list.flatMap((v) => varint(v)));
const text = (s: string) => part(6, [...new TextEncoder().encode(s)]);

const TEXTS = ['', 'samples', 'count', 'cpu', 'nanoseconds', 'main', 'work', 'inlined', 'm.go', '/bin/demo', 'pprof::base', 'true', 'query: x'];
const location = (id: number, fns: [number, number][], extra: number[] = []) => part(4, [...num(1, id), ...num(2, 1), ...extra, ...fns.flatMap(([f, l]) => part(4, [...num(1, f), ...num(2, l)]))]);
const HEADER = [
	part(1, [...num(1, 1), ...num(2, 2)]), part(1, [...num(1, 3), ...num(2, 4)]),
	part(3, [...num(1, 1), ...num(2, 0x1000), ...num(3, 0x9000), ...num(4, 0x400), ...num(5, 9)]),
	...TEXTS.map(text), num(9, 1700000000000000000n), num(10, 5000000000n), part(11, [...num(1, 3), ...num(2, 4)]), packed(13, [12]),
	part(5, [...num(1, 1), ...num(2, 5), ...num(4, 8), ...num(5, 3)]), part(5, [...num(1, 2), ...num(2, 6), ...num(4, 8)]), part(5, [...num(1, 3), ...num(2, 7)]),
].flat();
const LOCATIONS = [location(1, [[1, 10]]), location(2, [[3, 7], [2, 20]]), location(3, [], num(3, 0x1010)), location(4, [[2, 21]])].flat();
const sample = (ids: number[], values: (number | bigint)[], label: number[] = []) => part(2, [...packed(1, ids), ...packed(2, values), ...label]);
const SAMPLES = [sample([2, 1], [1, 10]), sample([1], [2, 20]), sample([3, 1], [3, 30]), sample([4, 1], [4, 40])].flat();
const FILE = new Uint8Array([...HEADER, ...SAMPLES, ...LOCATIONS]);

/** name depth total self, a row per box. */
const shape = (p: Pprof, type: number, base?: Pprof, shares = false): string[] => {
	const t = treeOf({ profile: p, type }, base ? { profile: base, type } : null, shares);
	return Array.from({ length: t.n }, (_, i) => `${'.'.repeat(t.depth[i])}${i ? t.names[t.frame[i]] : 'total'} ${t.total[i]} ${t.self[i]}${t.base ? ` ${t.base.total[i]} ${t.base.self[i]}` : ''}`);
};

test('a profile becomes the tree that the server makes of it', () => {
	const p = parsePprof(FILE);
	assert.deepEqual(p.types, [{ type: 'samples', unit: 'count' }, { type: 'cpu', unit: 'nanoseconds' }]);
	assert.deepEqual([p.first, p.time, p.seconds, p.comments], [1, 1.7e9, 5, ['query: x']]);
	assert.deepEqual(shape(p, 1), ['total 100 0', '.main 100 20', '..demo+0x410 30 30', '..work 50 40', '...inlined 10 10']);
	assert.deepEqual(shape(p, 0), ['total 10 0', '.main 10 2', '..demo+0x410 3 3', '..work 5 4', '...inlined 1 1']);
	const t = treeOf({ profile: p, type: 1 });
	const at = t.names.indexOf('main');
	assert.deepEqual([t.files[at], t.binaries[at], t.startLines[at], t.line[1], t.unit, t.seconds], ['m.go', '/bin/demo', 3, 10, 'nanoseconds', 5]);
	assert.equal(t.line[3], 0, 'work is there with two lines');
	const mixed = { ...p, comments: ['query: x', 'frames are approximate: of the merged profiles, some ...'] };
	assert.deepEqual([t, treeOf({ profile: mixed, type: 1 }), treeOf({ profile: p, type: 1 }, { profile: mixed, type: 1 })].map((x) => x.mixed), [false, true, true]);
});

test('two profiles are compared, as they are and as shares', () => {
	const now = parsePprof(FILE), base = parsePprof(new Uint8Array([...HEADER, ...sample([1], [0, 50]), ...LOCATIONS]));
	assert.deepEqual(shape(now, 1, base), ['total 100 0 50 0', '.main 100 20 50 50', '..demo+0x410 30 30 0 0', '..work 50 40 0 0', '...inlined 10 10 0 0']);
	assert.deepEqual(shape(now, 1, base, true).slice(0, 2), ['total 100 0 100 0', '.main 100 20 100 100']);
});

test('a difference in one file has its base labelled', () => {
	const p = parsePprof(new Uint8Array([...HEADER, ...SAMPLES, ...sample([1], [0, -70n], part(3, [...num(1, 10), ...num(2, 11)])), ...LOCATIONS]));
	assert.deepEqual(shape(p, 1).slice(0, 2), ['total 100 0 70 0', '.main 100 20 70 70']);
});

test('files may be gzipped; ids may be as large as they like', async () => {
	assert.equal((await treeOfPprof(gzipSync(FILE))).n, 5);
	assert.equal((await treeOfPprof(FILE, 0)).total[0], 10);
	const big = [18446744073709551615n, 18446744073709551614n];
	const p = parsePprof(new Uint8Array([...HEADER, ...part(2, [...packed(1, [big[0]]), ...packed(2, [1, 1])]), ...part(2, [...packed(1, [big[1]]), ...packed(2, [1, 2])]),
		...big.flatMap((id, i) => part(4, [...num(1, id), ...part(4, num(1, 1 + i))]))]));
	assert.deepEqual(shape(p, 1), ['total 3 0', '.main 1 1', '.work 2 2']);
});

test('what is no profile is told', async () => {
	const wrong = async (bytes: Uint8Array, text: RegExp) => { await assert.rejects(readPprof(new Blob([bytes as BlobPart])), text); };
	await wrong(new Uint8Array(), /empty/);
	await wrong(new TextEncoder().encode('<!doctype html><p>not found</p>'), /byte \d+|no profile|wire type/);
	await wrong(new TextEncoder().encode('{"status":"error"}'), /byte \d+|no profile|wire type/);
	await wrong(gzipSync(FILE).subarray(0, 60), /compression is damaged|cut off/);
	await wrong(new Uint8Array([0x1f, 0x8b, 1, 2, 3]), /compression is damaged/);
	await wrong(FILE.subarray(0, FILE.length - 3), /beyond the end|within/);
	await wrong(new Uint8Array([...HEADER, ...sample([1], [1, 2])]), /no location 1/);
	await wrong(new Uint8Array([...HEADER, ...sample([1], [1]), ...LOCATIONS]), /sample 0 has 1 values for 2 types/);
	await wrong(new Uint8Array([...HEADER, ...sample([9], [1, 1]), ...location(9, [[77, 1]])]), /no function 77/);
	await wrong(new Uint8Array([...HEADER, ...sample(Array(10001).fill(1), [1, 1]), ...LOCATIONS]), /10001 locations/);
	await wrong(new Uint8Array([...part(1, num(1, 500)), ...text('')]), /no text 500/);
	await wrong(new Uint8Array(12).fill(0xff), /more than ten bytes/);
});

test('files of millions of tiny entries are refused before they take the memory', () => {
	const most = { parts: 1000, numbers: 1000 }, many = (of: number[], times: number) => Array.from({ length: times }, () => of).flat();
	const refused = (bytes: number[], why: RegExp, what: string) => assert.throws(() => parsePprof(new Uint8Array([...HEADER, ...bytes]), most), why, what);
	parsePprof(FILE, most);
	for (const field of [2, 3, 4, 5, 6]) refused(many(part(field, []), 1001), /too many entries/, `entries ${field}`);
	refused(part(2, many(part(3, []), 1001)), /too many entries/, 'labels');
	refused(part(4, many(part(4, []), 1001)), /too many entries/, 'lines');
	for (const field of [1, 2]) {
		refused(part(2, packed(field, many([1], 1001))), /stacks are too long/, `packed numbers ${field}`);
		refused(part(2, many(num(field, 1), 1001)), /stacks are too long/, `numbers ${field}`);
	}
	refused(packed(13, many([1], 1001)), /too long/, 'packed comments');
	refused(many(num(13, 1), 1001), /too long/, 'comments');
	refused(many(part(1, [...num(1, 1), ...num(2, 2)]), 101), /too many sample types/, 'types');
	refused(part(6, many([97], 1100000)), /a text is too long/, 'a text');
});

test('damaged files end with an error or with a tree, soon', () => {
	let seed = 7;
	const random = (n: number) => { seed = Math.imul(seed, 1103515245) + 12345 >>> 0; return (seed >>> 8) % n; };
	for (let round = 0; round < 3000; round++) {
		const copy = FILE.slice(0, random(8) ? FILE.length : random(FILE.length));
		for (let k = random(4); k >= 0 && copy.length; k--) copy[random(copy.length)] = random(256);
		try {
			const p = parsePprof(copy);
			for (let type = 0; type < p.types.length; type++) treeOf({ profile: p, type });
		} catch (e) {
			assert.equal((e as Error).constructor, Error, `round ${round}: ${(e as Error).stack}`);
		}
	}
});

test('upside down, and callers and callees of a function: each stack once, from the innermost and the outermost of its calls', () => {
	const p = parsePprof(new Uint8Array([...HEADER, ...SAMPLES, ...sample([4, 1, 4, 1], [5, 50]), ...LOCATIONS])), now = { profile: p, type: 1 };
	const rows = (look: Parameters<typeof treeOf>[3]) => {
		const t = treeOf(now, null, false, look);
		return Array.from({ length: t.n }, (_, i) => `${'.'.repeat(t.depth[i])}${i ? t.names[t.frame[i]] : 'total'} ${t.total[i]}`);
	};
	assert.deepEqual(rows({ up: true }), ['total 150', '.demo+0x410 30', '..main 30', '.inlined 10', '..work 10', '...main 10', '.main 20', '.work 90', '..main 90', '...work 50', '....main 50']);
	assert.deepEqual(rows({ of: 'work' }), ['total 100', '.work 100', '..inlined 10', '..main 50', '...work 50']);
	assert.deepEqual(rows({ of: 'work', up: true }), ['total 100', '.work 100', '..main 100', '...work 50', '....main 50']);
	assert.deepEqual(rows({ of: 'nobody' }), ['total 0']);
	assert.deepEqual(rows({ of: 'nobody', up: true }), ['total 0']);
});
