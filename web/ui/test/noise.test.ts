// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { diffExpr, diffOf } from '../src/compare/diffexpr';
import type { FlameData } from '../src/base/api';
import { amountError, isNoise, shareError, UNCOUNTED, type PerSample } from '../src/compare/noise';
import { diffColor } from '../src/flame/colors';
import { draw, Palette, type Scene } from '../src/flame/draw';
import { beforeAside, buildTree, type FlameTree } from '../src/flame/tree';

const near = (a: number, b: number) => assert.ok(Math.abs(a - b) <= 1e-12 * Math.max(1, Math.abs(b)), `${a} is not ${b}`);

test('errors of shares, by hand', () => {
	/* 30 of 100 and 20 of 100, a sample is worth 10: pooled p = 1/4 is the larger estimate */
	near(shareError({ now: 300, base: 200 }, { now: 1000, base: 1000 }, { now: 10, base: 10 }), Math.sqrt(0.25 * 0.75 * (2 / 100)));
	/* of very unequal sides the observed one may be: 1 of 4 and 0 of 10,000 */
	near(shareError({ now: 1, base: 0 }, { now: 4, base: 10000 }, { now: 1, base: 1 }), Math.sqrt(0.25 * 0.75 / 4));
	/* the unit in which values are shown says nothing */
	near(shareError({ now: 3, base: 2 }, { now: 10, base: 10 }, { now: 0.1, base: 0.1 }), shareError({ now: 300, base: 200 }, { now: 1000, base: 1000 }, { now: 10, base: 10 }));
	assert.equal(shareError({ now: 5, base: 0 }, { now: 10, base: 0 }, { now: 1, base: 1 }), Infinity);
	assert.equal(shareError({ now: 10, base: 7 }, { now: 10, base: 7 }, { now: 1, base: 1 }), 0);
});

test('errors of amounts, by hand', () => {
	near(amountError({ now: 160, base: 90 }, { now: 10, base: 10 }), Math.sqrt(16 * 100 + 9 * 100));
	/* base seen four times as long, so that a sample of it counts a quarter: 16 samples now, 36 then; if nothing changed 52·10·2.5 */
	near(amountError({ now: 160, base: 90 }, { now: 10, base: 2.5 }), Math.sqrt(Math.max(16 * 100 + 36 * 6.25, 52 * 25)));
	assert.equal(amountError({ now: 0, base: 0 }, { now: 10, base: 10 }), 0);
});

test('what is new needs ten samples, however long the other side was seen', () => {
	for (const base of [1, 0.01]) {
		assert.ok(isNoise(9, amountError({ now: 9, base: 0 }, { now: 1, base })));
		assert.ok(!isNoise(10, amountError({ now: 10, base: 0 }, { now: 1, base })));
	}
	/* 20 of 10,000 are no news against a base of 100 samples, which could not have shown them */
	assert.ok(isNoise(0.002, shareError({ now: 20, base: 0 }, { now: 10000, base: 100 }, { now: 1, base: 1 })));
	assert.ok(!isNoise(0.2, shareError({ now: 2000, base: 0 }, { now: 10000, base: 100 }, { now: 1, base: 1 })));
});

/** Mulberry32: the same numbers each time. */
function random(seed: number): () => number {
	return () => {
		seed = seed + 0x6d2b79f5 | 0;
		let t = Math.imul(seed ^ seed >>> 15, 1 | seed);
		t = t + Math.imul(t ^ t >>> 7, 61 | t) ^ t;
		return ((t ^ t >>> 14) >>> 0) / 4294967296;
	};
}
function poisson(mean: number, r: () => number): number {
	if (mean > 30) return poisson(30, r) + poisson(mean - 30, r);
	let k = 0;
	for (let p = r(); p > Math.exp(-mean); p *= r()) k++;
	return k;
}

test('of what did not change about one in 370 is not noise, of what doubled nearly all', () => {
	const r = random(19), N = 5000;
	for (const [mean, scale] of [[5, 1], [40, 1], [40, 10], [300, 3]]) {
		let alarms = 0, shares = 0, found = 0;
		for (let i = 0; i < N; i++) {
			/* base was seen `scale` times as long */
			const now = poisson(mean, r), base = poisson(mean * scale, r), u = { now: 1, base: 1 / scale };
			if (!isNoise(now - base / scale, amountError({ now, base: base / scale }, u))) alarms++;
			const n1 = 20 * mean, n0 = 20 * mean * scale;
			if (!isNoise(now / n1 - base / n0, shareError({ now, base }, { now: n1, base: n0 }, { now: 1, base: 1 }))) shares++;
			if (mean === 300) { const twice = poisson(mean, r) + poisson(mean, r); if (!isNoise(twice - base / scale, amountError({ now: twice, base: base / scale }, u))) found++; }
		}
		assert.ok(alarms / N < 0.006 && shares / N < 0.006, `mean ${mean}, scale ${scale}: ${alarms} and ${shares} of ${N}`);
		if (mean === 300) assert.ok(found / N > 0.999, `${found} of ${N}`);
	}
});

test('a difference as text, and found again', () => {
	assert.equal(diffExpr('merge(cpu[1m] @ 70)', 'merge(cpu[1m] @ 10)', 'share', { now: 1, base: 2 }), 'diff(merge(cpu[1m] @ 70), merge(cpu[1m] @ 10), "share")');
	assert.equal(diffExpr('a', 'b', 'absolute', { now: 60, base: 60.01 }), 'diff(a, b)');
	assert.equal(diffExpr('a', 'b', 'absolute', null), 'diff(a, b)');
	const scaled = diffExpr('merge(a{x=")"}[1m])', 'merge(b[2m])', 'absolute', { now: 60, base: 119.5 });
	assert.equal(scaled, 'diff(merge(a{x=")"}[1m]), merge(b[2m]) * (60 / 119.5))');
	assert.deepEqual(diffOf(`invert(focus(${scaled}, "x"))`), { now: 'merge(a{x=")"}[1m])', base: 'merge(b[2m])', scale: 60 / 119.5, shares: false, before: 'invert(focus(', after: ', "x"))' });
	const filtered = diffExpr('focus(merge(a[1m]), "x")', 'focus(merge(b[1m]), "x")', 'share', null);
	assert.equal(filtered, 'focus(diff(merge(a[1m]), merge(b[1m]), "share"), "x")');
	assert.equal(diffExpr('focus(merge(a[1m]), "x")', 'merge(b[1m])', 'absolute', null), 'diff(focus(merge(a[1m]), "x"), merge(b[1m]))');
	assert.equal(diffOf('diff(merge(a[1m]), merge(b[1m]), "share")')!.shares, true);
	for (const q of ['merge(cpu[5m])', 'diff(a', 'diff(a)', 'diff', 'x{y="diff(a, b)"}']) assert.equal(diffOf(q), null, q);
});

/** Of a difference of 100 samples each, worth 10: `busy` grew from 30 to 60, `calm` from 40 to 35, `same` is as it was. */
const DIFF: FlameData = {
	unit: 'nanoseconds', sampleType: 'cpu', name: 'x', total: 1000, strings: ['', 'total', 'busy', 'calm', 'same'],
	frames: { name: [1, 2, 3, 4], file: [0, 0, 0, 0], binary: [0, 0, 0, 0], startLine: [0, 0, 0, 0] },
	nodes: { depth: [0, 1, 1, 1], frame: [0, 1, 2, 3], total: [1000, 600, 350, 50], self: [0, 600, 350, 50], line: [0, 0, 0, 0], base: { total: [750, 300, 400, 50], self: [0, 300, 400, 50] } },
};

/** The fills of its boxes. */
function fills(tree: FlameTree, per: PerSample | null): string[] {
	const out: string[] = [];
	const ctx = { clearRect: () => undefined, fillRect(this: { fillStyle: string }) { out.push(this.fillStyle); }, measureText: () => ({ width: 1e9 }), fillText: () => undefined, fillStyle: '' };
	const scene: Scene = { tree, from: 0, to: tree.weight[0], zoom: 0, width: 1000, height: 100, top: 0, colorBy: 'package', dark: false, redGreen: false, per, match: null, font: '' };
	draw(ctx as unknown as CanvasRenderingContext2D, scene, new Palette());
	return out.slice(1);
}

test('a flame graph of a difference has noise grey', () => {
	const grey = diffColor(0, false).fill, [r, g, b] = /\d+ \d+ \d+/.exec(grey)![0].split(' ').map(Number);
	assert.ok(Math.max(r, g, b) - Math.min(r, g, b) < 12, `${grey} is a colour`);
	const is = (t: FlameTree, per: PerSample | null) => fills(t, per).map((f) => f !== grey);
	const t = buildTree(DIFF), shares = Object.assign(buildTree(DIFF), { shares: true });
	const ten = { now: 10, base: 10 };
	assert.deepEqual(is(t, ten), [true, false, false], 'amounts');
	assert.deepEqual(is(beforeAside(buildTree(DIFF)), ten), [true, false, false], 'against the time before');
	assert.deepEqual(is(shares, { now: 10, base: 7.5 }), [false, false, false], '60 % of 100 and 40 % of 100 samples');
	assert.deepEqual(is(shares, { now: 1, base: 0.75 }), [true, true, false], '60 % of 1,000 and 40 % of 1,000');
	assert.deepEqual(is(t, null), [true, true, false], 'what is no sample changes without noise');
	assert.deepEqual(is(t, UNCOUNTED), [false, false, false], 'not known yet');
});
