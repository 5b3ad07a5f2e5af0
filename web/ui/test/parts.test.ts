// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isOverview, partsOf, selectorWithout, withSumBy } from '../src/query/parts';
import { parseMatcher, replaceMatcher, withMatcher, withoutMatcher } from '../src/query/query';

test('matchers are read as they are meant', () => {
	assert.deepEqual(parseMatcher('pod=~"a\\"b.*"'), { label: 'pod', op: '=~', value: 'a"b.*', text: 'pod=~"a\\"b.*"' });
	assert.equal(parseMatcher(`x != 'it\\'s "so"'`)?.value, 'it\'s "so"');
	assert.equal(parseMatcher('"k8s.pod"="x"')?.label, 'k8s.pod');
	assert.equal(parseMatcher('x=`a\\b`')?.value, 'a\\b');
	for (const none of ['pod', 'pod=', '"cpu"', '__name__="cpu"', 'pod="a" or']) assert.equal(parseMatcher(none), null, none);
});

test('the parts of a query', () => {
	const p = (q: string) => { const x = partsOf(q); return [x.name, x.matchers.map((m) => m.text).join(' '), x.by.join(' '), x.note]; };
	assert.deepEqual(p('merge(on_cpu<container="echoserver", pod!="b">[5m])'), ['on_cpu', 'container="echoserver" pod!="b"', '', '']);
	assert.deepEqual(p('merge by (pod, node)(cpu[5m])'), ['cpu', '', 'pod node', '']);
	assert.deepEqual(p('sum(rate(cpu{a="b"}[1m])) by (pod)'), ['cpu', 'a="b"', 'pod', '']);
	assert.deepEqual(p('{"cpu", job="x"}'), ['cpu', 'job="x"', '', '']);
	assert.deepEqual(p(''), ['', '', '', '']);
	assert.equal(p('1 + 1')[3], 'The query names no profiles.');
	assert.equal(p('focus(merge by (pod)(cpu[5m]), "x")')[2], 'pod');
	assert.match(p('focus(merge by (pod)(cpu[5m]), "x")')[3], /more than/);
	assert.match(p('sum without (pod)(rate(cpu[5m]))')[3], /without pod/);
	assert.match(p('cpu{job=')[3], /not complete/);
	const diff = 'diff(merge(cpu{a="b",c="d"}[5m]), merge(cpu{a="b"}[5m] offset 1d))';
	assert.equal(p(diff)[1], 'a="b"');
	assert.match(p(diff)[3], /what they share/);
	assert.match(p('diff(merge(cpu{a="b"}[5m]), merge(cpu{a="b"}[5m] offset 1d))')[3], /all 2/);
});

test('sum by, wherever there is something to sum', () => {
	for (const [q, by, want] of [
		['merge(cpu[5m])', ['pod'], 'merge by (pod)(cpu[5m])'],
		['merge by (pod)(cpu[5m])', ['pod', 'node'], 'merge by (pod, node)(cpu[5m])'],
		['merge by (pod) (cpu[5m])', [], 'merge(cpu[5m])'],
		['sum(rate(cpu[1m])) by (pod)', ['node'], 'sum(rate(cpu[1m])) by (node)'],
		['sum(rate(cpu[1m])) by (pod)', [], 'sum(rate(cpu[1m]))'],
		['rate(cpu[1m])', ['pod'], 'sum by (pod)(rate(cpu[1m]))'],
		['cpu', ['pod'], 'sum by (pod)(cpu)'],
		['cpu[5m]', ['pod'], 'merge by (pod)(cpu[5m])'],
		['topk(5, self(merge(cpu[5m])))', ['pod'], 'topk(5, self(merge by (pod)(cpu[5m])))'],
		['diff(merge(cpu[5m]), merge(cpu[5m] offset 1d))', ['k8s.pod'], 'diff(merge by ("k8s.pod")(cpu[5m]), merge by ("k8s.pod")(cpu[5m] offset 1d))'],
		['sum(rate(a[1m])) / on (pod) sum by (pod)(rate(cpu[1m]))', ['pod'], 'sum by (pod)(rate(a[1m])) / on (pod) sum by (pod)(rate(cpu[1m]))'],
		['merge(on_cpu<container="e">[5m])', ['pod'], 'merge by (pod)(on_cpu<container="e">[5m])'],
	] as [string, string[], string][]) assert.equal(withSumBy(q, by), want, q);
	assert.equal(withSumBy('self(cpu)', ['pod']), null);
	assert.equal(withSumBy('1', ['pod']), null);
});

test('matchers are added, changed and taken away in every selector', () => {
	assert.equal(withMatcher('merge(cpu[5m])', 'container', '=', 'echoserver'), 'merge(cpu{container="echoserver"}[5m])');
	assert.equal(withMatcher('merge(cpu{container=~"a.*",x="y"}[5m])', 'container', '=', 'b'), 'merge(cpu{container="b",x="y"}[5m])');
	assert.equal(withMatcher('cpu{a!="b"}', 'a', '!=', 'c'), 'cpu{a!="b",a!="c"}');
	assert.equal(withMatcher('cpu{a="b"}', 'a', '=', 'b'), 'cpu{a="b"}');
	assert.equal(withMatcher('{}', 'a', '=', 'b'), '{a="b"}');
	assert.equal(withMatcher('{"cpu"}', 'a', '=', 'b'), '{"cpu",a="b"}');
	assert.equal(withMatcher('diff(merge(cpu<x="y">[5m]), merge(cpu[5m]))', 'a', '=', 'q"'), 'diff(merge(cpu<x="y",a="q\\"">[5m]), merge(cpu{a="q\\""}[5m]))');
	assert.equal(withMatcher('total(merge(cpu[5m]), {function="main.f"})', 'a', '=', 'b'), 'total(merge(cpu{a="b"}[5m]), {function="main.f"})');
	assert.equal(replaceMatcher('merge(cpu{a="b",c="d"}[5m])', 'a="b"', 'a!="b"'), 'merge(cpu{a!="b",c="d"}[5m])');
	assert.equal(withoutMatcher('merge(cpu{a="b"}[5m])', 'a="b"'), 'merge(cpu[5m])');
	assert.equal(withoutMatcher('{a="b"}', 'a="b"'), '{}');
	assert.equal(selectorWithout('merge(cpu{a="b",c="d"}[5m])', 'a'), 'cpu{c="d"}');
	assert.equal(selectorWithout('merge(cpu{a="b"}[5m])', 'a'), 'cpu');
	assert.equal(selectorWithout('{"cpu",a="b"}', 'a'), '{"cpu"}');
});

test('the overview is the query of everything', () => {
	for (const q of ['{}', ' { } ', '<>']) assert.ok(isOverview(q));
	for (const q of ['', '{a="b"}', 'cpu{}']) assert.ok(!isOverview(q));
});
