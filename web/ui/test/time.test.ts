// SPDX-License-Identifier: Apache-2.0
process.env.TZ = 'Asia/Kathmandu';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { clock, day, fromInput, moment, offset, toInput, zone } from '../src/base/time';

const T = Date.UTC(2026, 0, 31, 20, 30, 5) / 1000;

test('times are local', () => {
	zone.value = 'local';
	assert.deepEqual([day(T), clock(T), moment(T, T), moment(T, T + 86400), offset(T)], ['2026-02-01', '02:15:05', '02:15:05', '2026-02-01 02:15:05', 'UTC+05:45']);
	assert.equal(fromInput(toInput(T)), T);
});

test('or UTC', () => {
	zone.value = 'utc';
	assert.deepEqual([day(T), clock(T), moment(T, T), offset(T), toInput(T)], ['2026-01-31', '20:30:05', '20:30:05', 'UTC', '2026-01-31T20:30:05']);
	assert.equal(fromInput(toInput(T)), T);
	zone.value = 'local';
});
