// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Alert, AlertingRule, Rule, RuleGroup } from '../src/base/api';
import { count, isSeriesOf, linkOf, ordered, patience, pillOf, stateOf, threshold, wanted, when } from '../src/pages/alerting';

const alert: Alert = { labels: { alertname: 'A', pod: 'a', team: 'core' }, annotations: { summary: 'Too Much' }, state: 'firing', activeAt: '2026-01-01T00:00:00Z', value: '1e+00' };
const rule: AlertingRule = { type: 'alerting', name: 'A', query: 'x > 0', labels: { team: 'core' }, annotations: {}, alerts: [alert], state: 'firing', duration: 300, keepFiringFor: 0, health: 'ok',
	evaluationTime: 0, lastEvaluation: '0001-01-01T00:00:00Z' };
const recording: Rule = { type: 'recording', name: 'b', query: 'sum(y)', labels: {}, health: 'err', lastError: 'many-to-many', evaluationTime: 0, lastEvaluation: '' };
const group = (name: string, rules: Rule[]): RuleGroup => ({ name, file: `/etc/${name}.yml`, rules, interval: 15, limit: 0, evaluationTime: 0, lastEvaluation: '' });

test('what is compared with a number', () => {
	assert.deepEqual(threshold('share(merge(cpu{job="a>1"}[5m]), "f") > 0.3'), { expr: 'share(merge(cpu{job="a>1"}[5m]), "f")', op: '>', bound: 0.3 });
	assert.deepEqual(threshold('(a > 1) <= -1_000'), { expr: '(a > 1)', op: '<=', bound: -1000 });
	assert.deepEqual(threshold('sum by (x) (a<b="c">) == 2 # two'), { expr: 'sum by (x) (a<b="c">)', op: '==', bound: 2 });
	for (const q of ['up', '1', '> 1', 'a > b', 'a > 1 and b > 2', 'a and b > 2', 'a > bool 1', 'a > 1 + 1', '0.3 < a', 'a > 1 offset 5m', 'a > Inf', ''])
		assert.equal(threshold(q), null, q);
});

test('the series of an alert', () => {
	assert.ok(isSeriesOf({ __name__: 'x', pod: 'a', team: 'other' }, alert, rule), 'the rule replaced the label');
	assert.ok(!isSeriesOf({ pod: 'b' }, alert, rule));
	assert.ok(!isSeriesOf({ team: 'core' }, alert, rule), 'it has fewer labels');
	assert.ok(!isSeriesOf({ pod: 'a', node: 'n' }, alert, rule));
});

test('states and filters', () => {
	const groups = [group('one', [rule, { ...rule, name: 'Quiet', alerts: [], state: 'inactive' }]), group('two', [recording])];
	assert.deepEqual(groups.flatMap((g) => g.rules).map(stateOf), ['firing', 'inactive', 'failed']);
	assert.equal(stateOf({ ...rule, health: 'err' }), 'firing', 'what it told before goes on');
	assert.equal(stateOf({ ...rule, state: 'unknown', health: 'unknown' }), 'waiting');
	assert.deepEqual(['firing', 'pending', 'failed', 'ok', 'inactive'].map(pillOf), ['down', 'unknown', 'down', 'up', 'up']);
	assert.deepEqual(count(groups, stateOf), { firing: 1, inactive: 1, failed: 1 });
	const names = (text: string, state = '') => wanted(groups, (r) => !state || stateOf(r) === state, text).flatMap((g) => g.rules.map((r) => r.name)).join();
	assert.equal(names(''), 'A,Quiet,b');
	assert.equal(names('', 'firing'), 'A');
	assert.equal(names('POD=a'), 'A');
	assert.equal(names('too much'), 'A');
	assert.equal(names('many-to'), 'b');
	assert.equal(names('/etc/two'), 'b');
	assert.equal(names('sum('), 'b');
	assert.equal(names('nothing'), '');
});

test('words', () => {
	assert.equal(patience({ ...rule, keepFiringFor: 3600 }), 'for 5m, kept firing for 1h');
	assert.equal(patience({ ...rule, duration: 0 }), '');
	assert.deepEqual(ordered({ a: '1', description: '2', summary: '3' }).map(([k]) => k), ['summary', 'description', 'a']);
	assert.equal(when('0001-01-01T00:00:00Z'), 0);
	assert.equal(when('1970-01-01T00:00:01.500Z'), 1.5);
	assert.equal(linkOf('http://h:7070/graph?g0.expr=x'), 'http://h:7070/graph?g0.expr=x');
	for (const t of ['javascript:alert(1)', 'see http://h/', 'http://a b/', 'data:text/html,x', 'http://', '']) assert.equal(linkOf(t), null, t);
});
