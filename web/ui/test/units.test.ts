// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Labels } from '../src/base/api';
import { cutName } from '../src/base/cutname';
import { alignSeries, nameSeries } from '../src/graph/seriesnames';
import { findLabels } from '../src/query/labelnames';
import { formatAxis, formatDuration, formatShare, formatValue, parseDuration } from '../src/base/units';

test('values in their unit', () => {
	assert.equal(formatValue(1234567890, 'nanoseconds'), '1.23 s');
	assert.equal(formatValue(450, 'nanoseconds'), '450 ns');
	assert.equal(formatValue(999.9e6, 'nanoseconds'), '1.00 s');
	assert.equal(formatValue(-90e9, 'nanoseconds'), '-1.50 min');
	assert.equal(formatValue(1536, 'bytes'), '1.50 KiB');
	assert.equal(formatValue(97394002, 'bytes'), '92.9 MiB');
	assert.equal(formatValue(29280, 'count'), '29.3\u2009k');
	assert.equal(formatValue(1234, 'count'), '1,234');
	assert.equal(formatValue(0, 'bytes'), '0');
});

test('shares never round to nothing', () => {
	assert.equal(formatShare(0.1234), '12.3 %');
	assert.equal(formatShare(0.00001), '< 0.01 %');
	assert.equal(formatShare(1), '100 %');
	assert.equal(formatShare(0), '0 %');
	assert.equal(formatShare(NaN), '–');
});

test('axis', () => {
	assert.equal(formatAxis(1.5, 'cores'), '1.5');
	assert.equal(formatAxis(0.0876, 'cores'), '0.088');
	assert.equal(formatAxis(2048, 'bytes/s'), '2.00 KiB/s');
	assert.equal(formatAxis(0, 'bytes'), '0');
});

test('durations there and back', () => {
	for (const [s, text] of [[90, '1m30s'], [300, '5m'], [0.25, '250ms'], [86400, '1d'], [3661, '1h1m1s']] as [number, string][]) {
		assert.equal(formatDuration(s), text);
		assert.equal(parseDuration(text), s);
	}
	assert.ok(Number.isNaN(parseDuration('5x')));
	assert.ok(Number.isNaN(parseDuration('')));
});

test('series are named by what differs', () => {
	const n = nameSeries([{ __name__: 'x', job: 'a', instance: '1' }, { __name__: 'x', job: 'a', instance: '2' }]);
	assert.deepEqual(n.names, ['1', '2']);
	assert.deepEqual(n.common, { job: 'a' });
	assert.deepEqual(nameSeries([{ job: 'a' }]).names, ['job=a']);
	assert.deepEqual(nameSeries([{}]).names, ['{}']);
	assert.deepEqual(nameSeries([{}], ' sum(rate(cpu[1m]))\n  / 2 ').names, ['sum(rate(cpu[1m])) / 2'], 'of the whole query there is one');
	assert.deepEqual(nameSeries([{ pod: 'a' }, {}], 'sum by (pod) (x)').names, ['a', '{}']);
	assert.deepEqual(nameSeries([{ __name__: 'up' }], 'up').names, ['up']);
	const odd = nameSeries([{ job: 'a', constructor: 'c' } as unknown as Labels, { job: 'b' }]);
	assert.deepEqual(odd, { names: ['a · c', 'b'], common: {} });
	assert.deepEqual(findLabels('po', ['constructor', 'toString', 'pod']).map((l) => l.label), ['pod']);
});

test('a series is over when what is due does not come', () => {
	const from = 1000, step = 15, n = 41;
	const of = (times: number[], to = from + (n - 1) * step) => alignSeries([{ metric: {}, values: times.map((t) => [t, 1]) }], from, to, step).series[0].ended;
	const every = (k: number, upTo: number) => Array.from({ length: n }, (_, i) => i).filter((i) => i % k === 0 && i <= upTo).map((i) => from + i * step);
	assert.equal(of(every(1, 40)), undefined);
	assert.equal(of(every(1, 36)), undefined, 'a minute is late, not over');
	assert.equal(of(every(1, 35)), 35);
	assert.equal(of(every(8, 32)), undefined, 'the next one is due now');
	assert.equal(of(every(8, 24)), 24);
	assert.equal(of([from + 30 * step]), undefined, 'of one alone nobody knows when the next one is due');
	assert.equal(of([from]), 0, 'but some time it is over');
	const slow = (step: number, ...at: number[]) => alignSeries([{ metric: {}, values: at.map((i) => [from + i * step, 1]) }], from, from + 10 * step, step).series[0].ended;
	assert.equal(slow(120, 5, 6, 7, 8, 9), undefined, 'one missing value of a long step is not enough');
	assert.equal(slow(120, 5, 6, 7, 8), 8);
	assert.equal(slow(900, 9), undefined, 'nor after one alone');
	assert.equal(slow(900, 8), 8);
	const now = Math.floor(Date.now() / 1000 / step) * step, ahead = alignSeries([{ metric: {}, values: [[now - 2 * step, 1], [now - step, 1], [now, 1]] }], now - 2 * step, now + 100 * step, step);
	assert.equal(ahead.series[0].ended, undefined, 'the rest of the graph is not over yet');
});

test('points fall on the time axis, gaps stay gaps', () => {
	const a = alignSeries([{ metric: { i: '1' }, values: [[100, 1], [120, NaN], [130, 3]] }, { metric: { i: '2' }, values: [[110, 9]] }], 100, 130, 10);
	assert.deepEqual(a.times, [100, 110, 120, 130]);
	assert.deepEqual(a.series.map((s) => s.name), ['2', '1']);
	assert.deepEqual(a.series[1].values, [1, null, null, 3]);
});

test('a name without room keeps its end, from the begin of a word on', () => {
	for (const [name, end] of [
		['runtime.asyncPreempt', 'asyncPreempt'], ['runtime.entersyscall', 'entersyscall'], ['runtime.(*mcache).refill', '(*mcache).refill'],
		['main.(*Server).handleRequest.func1', 'handleRequest.func1'], ['encoding/json.Marshal.a', 'Marshal.a'], ['ns::Some::push_back_all', 'push_back_all'],
		['__x64_sys_clock_nanosleep', 'nanosleep'], ['entry_SYSCALL_64_after_hwframe', 'after_hwframe'], ['aVeryLongNameOfAFunctionInOneWord', 'InOneWord'],
		['com.shop.AbstractSingletonProxyFactoryBean', 'FactoryBean'], ['an::averyveryverylongnameofone_x', 'ameofone_x'],
		['averylongnamewithoutanyword.next', 'next'], ['shop-7f9c-abcdef:6060', 'bcdef:6060'], ['10.10.20.30:6060', undefined],
		['ein-name-mit-🦊🦊🦊🦊🦊🦊🦊🦊🦊🦊🦊', '🦊'.repeat(10)], ['short.name', undefined], ['', undefined], ['aaaaaaaaaaaaaaaaa', undefined], ['........................', '..........'],
	] as [string, string | undefined][]) {
		const cut = cutName(name);
		assert.equal(cut?.[1], end, name);
		assert.equal(cut?.join(''), end && name);
	}
});
