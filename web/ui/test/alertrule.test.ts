// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { alertExpr, alertProfile, firedBetween, ruleYaml, usualThreshold, yamlText } from '../src/share/alertrule';

test('the profile of a rule is that of the query, over a range if it is a flow', () => {
	const of = (q: string) => alertProfile(q, (n) => n === 'cpu' ? 'delta' : n === 'heap' ? 'gauge' : undefined);
	assert.equal(of('cpu'), 'merge(cpu[5m])');
	assert.equal(of('merge(cpu{a="b"}[1h])'), 'merge(cpu{a="b"}[1h])');
	assert.equal(of('merge by (pod) (cpu{a="b"})'), 'merge by (pod) (cpu{a="b"}[5m])');
	assert.equal(of('heap{a="b"}'), 'merge(heap{a="b"})');
	assert.equal(of('focus(merge(cpu[1m]), {function="x"})'), 'focus(merge(cpu[1m]), {function="x"})');
	assert.equal(of('focus(cpu, {function="x"})'), 'focus(merge(cpu[5m]), {function="x"})');
	assert.equal(of('diff(merge(cpu[5m]), merge(cpu[5m] offset 5m))'), null);
	assert.equal(of('1'), null);
});

test('a rule is YAML whatever the function is called', () => {
	const rule = { profile: 'merge(cpu[5m])', name: 'a"b\'c::{{closure}}', above: 0.25, seconds: 300, sure: true };
	assert.equal(alertExpr(rule), 'share_low(merge(cpu[5m]), {function="a\\"b\'c::{{closure}}"}, 3) > 0.25');
	assert.equal(ruleYaml(rule), `groups:
- name: 'function a"b''c::{{closure}}'
  interval: 1m
  rules:
  - alert: ABCClosureHigh
    expr: 'share_low(merge(cpu[5m]), {function="a\\"b''c::{{closure}}"}, 3) > 0.25'
    for: 5m
    labels: {severity: ticket}
    annotations:
      summary: 'a"b''c::{{ "{{" }}closure}} takes {{ $value | humanizePercentage }} at least'
`);
	assert.match(ruleYaml({ ...rule, seconds: 0 }, '15s'), /interval: 15s\n[^]*for: 0s\n/);
	assert.equal(yamlText('a\nb\u007f"\\'), '"a\\u000ab\\u007f\\"\\\\"');
	assert.equal(yamlText('é😀'), "'é😀'");
});

test('a threshold is above what was usual, and below a spike', () => {
	const day = Array.from({ length: 288 }, (_, i) => i > 260 && i < 275 ? 0.6 : 0.1 + 0.01 * (i % 3));
	const t = usualThreshold([day])!;
	assert.ok(t > 0.12 && t < 0.4, String(t));
	assert.equal(usualThreshold([[0, 0, 0]]), 0.005);
	assert.equal(usualThreshold([[0.9, 0.9, 0.95]]), 0.99);
	assert.equal(usualThreshold([[], [NaN]]), null);
});

test('it fires after it was above for as long as is asked', () => {
	const points = [0, 9, 9, 9, 9, 0, 9, 9, 0].map((v, i): [number, number] => [i * 60, v]);
	assert.deepEqual(firedBetween(points, 5, 120, 60), [{ from: 180, to: 240 }]);
	assert.deepEqual(firedBetween(points, 5, 0, 60), [{ from: 60, to: 240 }, { from: 360, to: 420 }]);
	assert.deepEqual(firedBetween([[0, 9], [60, 9], [600, 9]], 5, 60, 60), [{ from: 60, to: 60 }]);
	assert.deepEqual(firedBetween(points, 10, 0, 60), []);
});
