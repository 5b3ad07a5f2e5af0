// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { errorOffset, flameQuery, graphQuery, matchersOf, plainSelector, selectors, tokenize, withBefore, withMatchers, withoutMatcher, withType, type Kind } from '../src/query/query';

const kindOf = (n: string): Kind | undefined => ({ cpu: 'delta', heap_alloc_space: 'cumulative', goroutines: 'gauge' } as Record<string, Kind>)[n];
const kinds = (q: string) => tokenize(q).filter((t) => t.kind !== 'space').map((t) => `${t.kind}:${t.text}`).join(' ');

test('tokens add up to the text, whatever it is', () => {
	for (const q of ['', 'merge(cpu{job="x"}[5m])', 'a <<>> "unclosed', "x{y=~'a\\'b'} # end", '\u{1f525} cpu', '1e3 + .5 - 0x1f'])
		assert.equal(tokenize(q).map((t) => t.text).join(''), q);
});

test('names are what their place makes them', () => {
	assert.equal(kinds('sum by (job)(rate(cpu{job="x"}[5m]))'),
		'function:sum keyword:by paren:( label:job paren:) paren:( function:rate paren:( metric:cpu paren:{ label:job op:= string:"x" paren:} paren:[ duration:5m paren:] paren:) paren:)');
	assert.equal(kinds('on_cpu<container="e">'), 'metric:on_cpu paren:< label:container op:= string:"e" paren:>');
	assert.equal(kinds('a < b'), 'metric:a op:< metric:b');
});

test('selectors are found, frame matchers are not', () => {
	const found = (q: string) => selectors(q).map((s) => [s.name, s.matchers, s.range]);
	assert.deepEqual(found('merge(cpu{job="x"}[5m])'), [['cpu', 'job="x"', '5m']]);
	assert.deepEqual(found('total(rate(cpu<job="x">[1m]), {function="main.f"})'), [['cpu', 'job="x"', '1m']]);
	assert.deepEqual(found('diff(merge(cpu[5m]), merge(cpu[5m] offset 1d))'), [['cpu', null, '5m'], ['cpu', null, '5m']]);
	assert.deepEqual(found('deriv(self(merge(cpu))[2h:1m])'), [['cpu', null, null]]);
	assert.deepEqual(found('{"cpu", job="x"}'), [['cpu', '"cpu", job="x"', null]]);
});

test('a plain merge is told from a query that does more', () => {
	for (const q of ['cpu', 'cpu{a="b"}', 'merge(cpu[5m])', 'merge by (pod)(cpu[5m])', 'sum by (pod) (rate(cpu[5m]))', 'rate(cpu[1m])', ' merge( cpu [5m] ) '])
		assert.ok(plainSelector(q), q);
	for (const q of ['focus(merge(cpu[5m]), "x")', 'cpu + cpu', 'cpu * 2', 'topk(3, self(cpu))', 'cpu offset 1h', '-cpu'])
		assert.equal(plainSelector(q), null, q);
	assert.equal(plainSelector('merge by (pod)(cpu[5m])')!.by, 'by (pod)');
});

test('the graph of a query', () => {
	assert.equal(graphQuery('merge(cpu{a="b"}[5m])', kindOf, 30).expr, 'rate(cpu{a="b"}[30s])');
	assert.equal(graphQuery('merge by (pod)(cpu[5m])', kindOf, 60).expr, 'sum by (pod) (rate(cpu[1m]))');
	assert.equal(graphQuery('merge(goroutines[5m])', kindOf, 30).expr, 'goroutines');
	assert.equal(graphQuery('heap_alloc_space', kindOf, 90).expr, 'rate(heap_alloc_space[1m30s])');
	assert.deepEqual(graphQuery('topk(3, self(cpu))', kindOf, 30), { expr: 'topk(3, self(cpu))', plain: false, derived: false });
});

test('numbers are drawn as they are typed', () => {
	for (const q of ['sum by (container)(rate(cpu[1m]))', 'sum(rate(cpu{a="b"}[1m])) by (pod)', 'rate(cpu[7m])', 'sum without (pod) (cpu)', 'increase(cpu[5m])', 'sum(goroutines)'])
		assert.deepEqual([graphQuery(q, kindOf, 30).expr, graphQuery(q, kindOf, 30).derived], [q, false]);
	assert.deepEqual(graphQuery('sum by (container)(rate(cpu[1m]))', kindOf, 30), { expr: 'sum by (container)(rate(cpu[1m]))', plain: true, derived: false });
	for (const q of ['merge(cpu[5m])', 'cpu', 'merge_over_time(cpu[5m])', '(cpu)', 'diff(merge(cpu[5m]), merge(cpu[5m] offset 5m))'])
		assert.ok(graphQuery(q, kindOf, 30).derived, q);
	assert.equal(graphQuery('goroutines', kindOf, 30).derived, false);
	assert.equal(plainSelector('sum by (container) (rate(cpu[1m]))')!.by, 'by (container)');
	assert.equal(plainSelector('sum(rate(cpu[1m])) without (pod)')!.by, 'without (pod)');
	assert.equal(plainSelector('sum by (a) (merge by (a, b) (cpu[1m]))')!.by, 'by (a)');
});

test('matchers, and a query without one', () => {
	const of = (q: string) => matchersOf(selectors(q)[0]);
	assert.deepEqual(of('cpu{a="x,y", b=~"z"}'), ['a="x,y"', 'b=~"z"']);
	assert.deepEqual(of('cpu'), []);
	assert.equal(withoutMatcher('merge(cpu{a="x",b="y"}[5m])', 'a="x"'), 'merge(cpu{b="y"}[5m])');
	assert.equal(withoutMatcher('merge(cpu{a="x"}[5m])', 'a="x"'), 'merge(cpu[5m])');
	assert.equal(withoutMatcher('merge(cpu{a="x",b="y"}[5m])'), 'merge(cpu[5m])');
});

test('a comparison with the time before', () => {
	assert.equal(withBefore('merge(cpu{a="b"}[5m])', null), 'diff(merge(cpu{a="b"}[5m]), merge(cpu{a="b"}[5m] offset 5m))');
	assert.equal(withBefore('cpu', { from: 10, to: 70 }), 'diff(merge(cpu[1m]), merge(cpu[1m] offset 1m))');
	assert.equal(withBefore('cpu', null), null);
	assert.equal(graphQuery(withBefore('merge(cpu{a="b"}[5m])', null)!, kindOf, 30).expr, 'rate(cpu{a="b"}[30s])');
});

test('a picked moment or range rewrites what the flame graph asks', () => {
	assert.deepEqual(flameQuery('merge(cpu[5m])', null, 99), { expr: 'merge(cpu[5m])', time: 99 });
	assert.deepEqual(flameQuery('cpu[5m]', null, 99), { expr: 'merge(cpu[5m])', time: 99 });
	assert.deepEqual(flameQuery('merge(cpu{a="b"}[5m])', { at: 50 }, 99), { expr: 'merge(cpu{a="b"})', time: 50 });
	assert.deepEqual(flameQuery('merge(cpu[5m])', { from: 10, to: 100 }, 99), { expr: 'merge(cpu[1m30s])', time: 100 });
	assert.deepEqual(flameQuery('focus(merge(cpu[5m]), "x")', { from: 10, to: 70 }, 99), { expr: 'focus(merge(cpu[1m]), "x")', time: 70 });
	assert.deepEqual(flameQuery('focus(merge(cpu[5m]), "x")', { at: 50 }, 99), { expr: 'focus(merge(cpu), "x")', time: 50 });
});

test('another type, more matchers', () => {
	assert.equal(withType('merge(cpu{job="x"}[5m])', 'goroutines'), 'merge(goroutines{job="x"}[5m])');
	assert.equal(withType('', 'cpu'), 'merge(cpu[5m])');
	assert.equal(withType('sum by (pod)(rate(cpu[1m]))', 'goroutines', 'gauge'), 'sum by (pod)(avg_over_time(goroutines[1m]))');
	assert.equal(withType('sum by (pod)(avg_over_time(goroutines[1m]))', 'cpu', 'delta'), 'sum by (pod)(rate(cpu[1m]))');
	assert.equal(withType('diff(merge(cpu[5m]), merge(cpu[5m] offset 1d))', 'on_cpu', 'delta'), 'diff(merge(on_cpu[5m]), merge(on_cpu[5m] offset 1d))');
	assert.equal(withType('{job="x"}', 'cpu'), 'cpu{job="x"}');
	assert.equal(withMatchers('merge(cpu[5m])', { job: 'x' }), 'merge(cpu{job="x"}[5m])');
	assert.equal(withMatchers('cpu{job="y",a="b"}', { job: 'x' }), 'cpu{job="x",a="b"}');
	assert.equal(withMatchers('cpu{}', { job: 'a"b' }), 'cpu{job="a\\"b"}');
});

test('an error points into the query', () => {
	assert.equal(errorOffset('1:7: parse error: x', 'merge(bad'), 6);
	assert.equal(errorOffset('invalid parameter "query": 2:3: x', 'ab\ncdef'), 5);
	assert.equal(errorOffset('something else', 'cpu'), null);
	assert.equal(errorOffset('9:9: x', 'cpu'), null);
});

test('a moment of one series', () => {
	assert.deepEqual(flameQuery('sum by (pod)(rate(cpu{job="a"}[1m]))', { at: 5, of: { pod: 'x', zone: '' } }, 9), { expr: 'merge(cpu{job="a",pod="x",zone=""})', time: 5 });
	assert.equal(flameQuery('focus(merge(cpu[1m]), "f")', { at: 5, of: { pod: 'x' } }, 9).expr, 'focus(merge(cpu{pod="x"}), "f")');
});
