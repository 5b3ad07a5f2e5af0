// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { asText, columnOf, COLUMNS, noisy, ordered, orderedUpTo, textOf, toggled, valueOf, visible, type Table, type TableRow } from '../src/profile/columns';

const row = (name: string, self: number, total: number, baseSelf = 0, baseTotal = 0): TableRow => ({ key: name, name, file: `${name}.go`, binary: 'bin', line: 0, self, total, baseSelf, baseTotal });
const one: Table = { unit: 'count', whole: { now: 200, base: 0 }, diff: false, shares: false, per: null };
const two: Table = { unit: 'count', whole: { now: 200, base: 100 }, diff: true, shares: false, per: { now: 1, base: 1 } };
const ids = (diff: boolean, wide: boolean, chosen: string[]) => visible(diff, wide ? 'wide' : 'half', chosen).map((c) => c.id);
const names = (rows: TableRow[]) => rows.map((r) => r.name).join('');

test('columns: what is shown at first, and what one chose', () => {
	assert.deepEqual(ids(false, false, []), ['name', 'self', 'selfShare', 'total', 'totalShare']);
	assert.deepEqual(ids(true, false, []), ['name', 'selfBase', 'selfNow', 'selfChange', 'selfRelative']);
	assert.equal(ids(true, true, []).length, 9);
	assert.deepEqual(ids(false, false, ['-selfShare', '+file', '-totalChange']), ['name', 'self', 'total', 'totalShare', 'file']);
	assert.deepEqual(visible(true, 'narrow', []).map((c) => c.id), ['name', 'selfNow', 'selfChange', 'selfRelative']);
	const file = columnOf('file')!;
	assert.deepEqual(toggled([], file, false, 'half'), ['+file']);
	assert.deepEqual(toggled(['+file', '-self'], file, true, 'half'), ['-self']);
	assert.equal(new Set(COLUMNS.map((c) => c.id)).size, COLUMNS.length);
});

test('columns: order, ties by name', () => {
	const rows = [row('b', 5, 9), row('a', 5, 9), row('c', 7, 7), row('d', 5, 10)];
	assert.equal(names(ordered(rows, columnOf('self')!, false, one)), 'cdab');
	assert.equal(names(ordered(rows, columnOf('self')!, true, one)), 'abdc');
	assert.equal(names(ordered(rows, columnOf('name')!, false, one)), 'abcd');
	assert.equal(names(ordered(rows, columnOf('file')!, true, one)), 'dcba');
	const changed = [row('a', 5, 5, 4, 4), row('b', 1, 1, 9, 9), row('c', 3, 3, 0, 0), row('d', 2, 2, 2, 2)];
	assert.equal(names(ordered(changed, columnOf('selfChange')!, false, two)), 'bcad');
	assert.equal(names(ordered(changed, columnOf('selfRelative')!, false, two)), 'cadb');
});

test('columns: the first of many rows are those of all in order, ties by both numbers included', () => {
	let seed = 7;
	const dice = (n: number) => { seed = (seed * 1103515245 + 12345) % 2147483648; return seed % n; };
	for (const [values, totals] of [[1000000, 5], [40, 30], [3, 2], [1, 1]]) {
		const rows = Array.from({ length: 2000 }, (_, i) => row(`f${(i * 7919) % 2000}`, dice(values) - 1, dice(totals), dice(values), 0));
		for (const [id, t] of [['self', one], ['totalShare', one], ['selfChange', two], ['selfRelative', two], ['file', one]] as const)
			for (const turned of [false, true]) {
				const all = ordered(rows, columnOf(id)!, turned, t), upTo = orderedUpTo(rows, columnOf(id)!, turned, t);
				assert.deepEqual(names(upTo(60).slice(0, 300)), names(all.slice(0, 300)), `${id} ${turned} ${values}`);
				assert.equal(names(upTo(301)), names(all));
			}
	}
});

test('columns: of a difference, with signs', () => {
	const text = (id: string, r: TableRow, t: Table) => textOf(columnOf(id)!, r, t);
	const r = row('a', 30, 30, 20, 20), shares = { ...two, shares: true };
	assert.deepEqual(['selfBase', 'selfNow', 'selfChange', 'selfRelative'].map((c) => text(c, r, two)), ['20', '30', '+10', '+50.0 %']);
	assert.deepEqual(['selfBase', 'selfNow', 'selfChange', 'selfRelative'].map((c) => text(c, r, shares)), ['20.0 %', '15.0 %', '−5.00 %', '−25.0 %']);
	assert.equal(text('selfRelative', row('a', 3, 3), two), 'new');
	assert.equal(text('selfRelative', row('a', 0, 0, 3, 3), two), 'gone');
	assert.equal(text('selfChange', row('a', 3, 3, 3, 3), two), '±0');
	assert.equal(valueOf(columnOf('selfChange')!, r, shares), 0.15 - 0.2);
	assert.equal(noisy('self', r, two), true); /* 10 of √50·3 */
	assert.equal(noisy('self', row('a', 60, 60, 20, 20), two), false);
	assert.equal(noisy('self', r, { ...two, per: null }), false);
});

test('columns: as text, with tabs and plain numbers', () => {
	const rows = [row('a\tb', 50, 100, 20, 20)];
	assert.equal(asText(rows, visible(false, 'half', ['+file']), one, 'Functions'), 'Functions\tSelf (count)\tSelf share (%)\tTotal (count)\tTotal share (%)\tFile\na b\t50\t25\t100\t50\ta b.go\n');
	assert.equal(asText(rows, visible(true, 'half', []), two, 'Functions'), 'Functions\tSelf base (count)\tSelf now (count)\tSelf change (count)\tSelf relative (%)\na b\t20\t50\t30\t150\n');
	assert.equal(asText([row('n', 5, 5)], visible(true, 'half', []), two, 'Functions').split('\n')[1], 'n\t0\t5\t5\tnew');
});
