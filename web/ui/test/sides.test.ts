// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { before, earlier, parseSide, pinned, printSide, sideExpr, sideOf } from '../src/compare/sides';

test('a side survives the address', () => {
	for (const s of [{ query: 'merge(cpu[5m])', from: 10, to: 20.5 }, { query: 'a # b\nc 1-2 x', at: 7 }]) assert.deepEqual(parseSide(printSide(s)), s);
	for (const text of ['', '5', '5 ', '5-5 cpu', '9-5 cpu', 'x cpu', '5-x cpu', '-5 cpu', '1e3 cpu']) assert.equal(parseSide(text), null, text);
});

test('a side moves through time', () => {
	assert.deepEqual(before({ query: 'q', from: 100, to: 160 }), { query: 'q', from: 40, to: 100 });
	assert.deepEqual(before({ query: 'q', at: 1000 }), { query: 'q', at: 700 });
	assert.deepEqual(earlier({ query: 'q', at: 4000 }, 3600), { query: 'q', at: 400 });
});

test('what the page shows is a side', () => {
	assert.deepEqual(sideOf('merge(cpu[1m])', null, 100), { query: 'merge(cpu[1m])', from: 40, to: 100 });
	assert.deepEqual(sideOf('rate(cpu[1m])', null, 100), { query: 'rate(cpu[1m])', from: 40, to: 100 });
	assert.deepEqual(sideOf('cpu', null, 100), { query: 'cpu', at: 100 });
	assert.deepEqual(sideOf('focus(merge(cpu[1m]), "x")', null, 100), { query: 'focus(merge(cpu[1m]), "x")', from: 40, to: 100 });
	assert.deepEqual(sideOf('invert(merge(cpu[1m]))', null, 100), { query: 'invert(merge(cpu[1m]))', at: 100 });
	assert.deepEqual(sideOf('merge(cpu[1m])', { at: 50 }, 100), { query: 'merge(cpu[1m])', at: 50 });
});

test('an expression has its time', () => {
	assert.equal(pinned('merge(cpu{a="b"}[5m])', 12.5), 'merge(cpu{a="b"}[5m] @ 12.5)');
	assert.equal(pinned('cpu', 7), 'cpu @ 7');
	assert.equal(pinned('diff(merge(cpu[5m]), merge(cpu[5m] offset 1d))', 7), 'diff(merge(cpu[5m] @ 7), merge(cpu[5m] @ 7 offset 1d))');
	assert.equal(pinned('focus(merge(cpu[5m] @ 3), {function="x"})', 7), 'focus(merge(cpu[5m] @ 3), {function="x"})');
	assert.equal(pinned('merge(cpu[5m] offset 5m @ 3)', 7), 'merge(cpu[5m] offset 5m @ 3)');
	assert.equal(pinned('deriv(self(merge(heap))[2h:1m])', 7), 'deriv(self(merge(heap))[2h:1m] @ 7)');
	assert.equal(pinned('max_over_time(value(cpu)[2h:]) + cpu', 7), 'max_over_time(value(cpu)[2h:] @ 7) + cpu @ 7');
	assert.equal(pinned('(cpu + cpu)[2h:1m]', 7), '(cpu + cpu)[2h:1m] @ 7');
	assert.equal(pinned('cpu[2h:1m]', 7), 'cpu[2h:1m] @ 7');
});

test('a side is one profile', () => {
	assert.equal(sideExpr({ query: 'merge(cpu[5m])', from: 10, to: 70 }).expr, 'merge(cpu[1m] @ 70)');
	assert.equal(sideExpr({ query: 'merge by (pod)(cpu[5m])', from: 10, to: 70 }).expr, 'merge(cpu[1m] @ 70)');
	assert.equal(sideExpr({ query: 'cpu', at: 70 }).expr, 'merge(cpu @ 70)');
	assert.equal(sideExpr({ query: 'focus(merge(cpu[5m]), "x")', from: 10, to: 70 }).expr, 'focus(merge(cpu[1m] @ 70), "x")');
	assert.equal(sideExpr({ query: 'invert(merge(cpu[5m]))', at: 70 }).expr, 'merge(invert(merge(cpu[5m] @ 70)))');
	assert.equal(sideExpr({ query: 'merge by (pod)(cpu[5m]) * 2', at: 70 }).expr, 'merge(merge by (pod)(cpu[5m] @ 70) * 2)');
});
