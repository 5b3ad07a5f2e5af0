// SPDX-License-Identifier: Apache-2.0
process.env.TZ = 'Europe/Berlin';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { zone } from '../src/base/time';
import { timeTicks, valueTicks } from '../src/graph/axes';

const at = (s: string) => Date.parse(s) / 1000;
const words = (from: string, to: string, most: number) => timeTicks(at(from), at(to), most).map((x) => x.text);

test('moments stand at round times of the zone, a new day with its date', () => {
	zone.value = 'local';
	assert.deepEqual(words('2026-06-01T20:50:00Z', '2026-06-01T22:35:00Z', 8), ['23:00', '23:15', '23:30', '23:45', '06-02', '00:15', '00:30']);
	assert.deepEqual(words('2026-06-01T10:00:02Z', '2026-06-01T10:00:31Z', 8), ['12:00:05', '12:00:10', '12:00:15', '12:00:20', '12:00:25', '12:00:30']);
	assert.deepEqual(words('2026-06-01T00:00:00Z', '2026-06-05T00:00:00Z', 5), ['06-02', '06-03', '06-04', '06-05']);
	zone.value = 'utc';
	assert.deepEqual(words('2026-06-01T20:50:00Z', '2026-06-01T22:35:00Z', 8), ['21:00', '21:15', '21:30', '21:45', '22:00', '22:15', '22:30']);
	zone.value = 'local';
});

test('where the clock is put forward or back they stay round, and none stands twice', () => {
	assert.deepEqual(words('2026-03-28T22:30:00Z', '2026-03-29T06:30:00Z', 10), ['03-29', '01:00', '03:00', '04:00', '05:00', '06:00', '07:00', '08:00']);
	for (const [from, to] of [['2026-03-28T20:00:00Z', '2026-03-29T20:00:00Z'], ['2026-10-24T20:00:00Z', '2026-10-25T20:00:00Z']]) {
		for (const most of [4, 9, 30, 100]) {
			const ticks = timeTicks(at(from), at(to), most);
			assert.ok(ticks.length > 2 && ticks.length <= most + 2, `${ticks.length}`);
			ticks.forEach((x, i) => { assert.ok(i === 0 || x.t > ticks[i - 1].t); assert.match(x.text, /^(\d\d:[0-5][05]|\d\d-\d\d)$/); });
		}
	}
});

test('every width has some, of a second as of ten years', () => {
	for (const seconds of [1, 60, 3600, 86400, 86400 * 30, 86400 * 3650]) for (const most of [3, 8, 20]) {
		const n = timeTicks(1.8e9, 1.8e9 + seconds, most).length;
		assert.ok(n > 0 && n <= most + 2, `${seconds} ${most}: ${n}`);
	}
});

test('values are round, those of bytes in powers of two', () => {
	assert.deepEqual(valueTicks(0, 1, ''), [0, 0.2, 0.4, 0.6000000000000001, 0.8, 1]);
	assert.deepEqual(valueTicks(-3, 4, ''), [-2, 0, 2, 4]);
	assert.deepEqual(valueTicks(0, 5 * 2 ** 20, 'bytes'), [0, 1, 2, 3, 4, 5].map((n) => n * 2 ** 20));
	for (const [a, b] of [[0, 0], [1, 1], [0, Infinity], [0, NaN]]) assert.deepEqual(valueTicks(a, b, ''), [a]);
});
