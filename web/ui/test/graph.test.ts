// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MatrixSeries } from '../src/base/api';
import { addUp, isShown, keyOf, pickLines, REST, toggleHidden, toggleOnly } from '../src/graph/lines';
import { alertMarks, clustered, groupLabels, versionLabels, versionMarks } from '../src/graph/marks';
import type { GraphSeries } from '../src/graph/seriesnames';
import { pointAt, profileOver, shareLine, shareStep, wilson } from '../src/graph/shareline';

const one = (pod: string, ...values: (number | null)[]): GraphSeries => ({ labels: { pod }, name: pod, values, mean: 1, last: values[values.length - 1] });
const over = (metric: Record<string, string>, ...times: number[]): MatrixSeries => ({ metric, values: times.map((t) => [t, 1]) });

test('the largest, and the rest exactly', () => {
	const series = ['a', 'b', 'c', 'd', 'e'].map((p, i) => one(p, 10 - i, p === 'e' ? null : 0.5 * i, null));
	const lines = pickLines(series, 2, new Map());
	assert.deepEqual(lines.map((l) => [l.name, l.of]), [['a', 1], ['b', 1], ['3 others, added up', 3]]);
	assert.deepEqual([lines[2].key, lines[2].values, lines[2].last], [REST, [8 + 7 + 6, 1 + 1.5, null], 2.5]);
	assert.equal(lines[2].ended, undefined);
	assert.equal(pickLines(series.map((s) => ({ ...s, ended: 1 })), 2, new Map())[2].ended, 1, 'all of them are over');
	assert.equal(pickLines(series, 4, new Map()).length, 5, 'one alone is itself');
	assert.deepEqual(addUp([[null, 1], [null, null], [2, 3]]), [2, 4]);
});

test('a line keeps its colour', () => {
	const colors = new Map<string, number>();
	pickLines([one('a', 3), one('b', 2), one('c', 1)], 2, colors);
	const was = new Map(pickLines([one('a', 3), one('b', 2), one('c', 1)], 10, colors).map((l) => [l.name, l.color]));
	const now = new Map(pickLines([one('x', 9), one('c', 3), one('a', 1)], 10, colors).map((l) => [l.name, l.color]));
	assert.equal(now.get('a'), was.get('a'));
	assert.equal(now.get('c'), was.get('c'));
	assert.equal(now.get('x'), was.get('b'), 'the colour that is free');
});

test('what is hidden is text', () => {
	assert.equal(keyOf({ a: '1', b: '2' }), keyOf({ b: '2', a: '1' }));
	assert.notEqual(keyOf({ a: '1', b: '2' }), keyOf({ a: '12', b: '' }));
	assert.deepEqual(toggleHidden(['x'], 'y'), ['x', 'y']);
	assert.deepEqual(toggleHidden(['x', 'y'], 'x'), ['y']);
	const only = toggleOnly(['x'], 'y');
	assert.deepEqual([isShown(only, 'y'), isShown(only, 'x'), isShown(only, 'z')], [true, false, false]);
	assert.deepEqual(toggleOnly(only, 'y'), []);
	assert.deepEqual(toggleHidden(only, 'x'), ['+y', '+x'], 'beside it, another');
});

test('the sum of the others is drawn for who asks for it, and flattens nothing before', () => {
	assert.equal(isShown([], REST), false);
	assert.equal(isShown(['x'], REST), false);
	const asked = toggleHidden(['x'], REST);
	assert.deepEqual([isShown(asked, REST), isShown(asked, 'x'), isShown(asked, 'y')], [true, false, true]);
	assert.deepEqual(toggleHidden(asked, REST), ['x']);
	assert.deepEqual([isShown(toggleOnly([], REST), REST), isShown(toggleOnly([], REST), 'y')], [true, false]);
});

test('where a version changed', () => {
	assert.deepEqual(versionLabels(['version', 'app_kubernetes_io_version', 'image', 'container_image_tag', 'git_commit', 'build_id', 'pod', 'kernel_version', 'conversion', 'stage', '__build__']),
		['version', 'app_kubernetes_io_version', 'image', 'container_image_tag', 'git_commit', 'build_id']);
	const groups = groupLabels(['pod', 'job', 'version', 'container']);
	assert.deepEqual(groups, ['job', 'container']);
	const marks = versionMarks([
		over({ job: 'a', pod: 'p1', version: '1', image: 'x:1' }, 0, 10, 20), over({ job: 'a', pod: 'p2', version: '2', image: 'x:2' }, 20, 30),
		over({ job: 'a', pod: 'p3', version: '1', image: 'x:1' }, 50), over({ job: 'b', version: '2' }, 30, 40)], ['version', 'image'], groups, 0, 10, 6);
	assert.deepEqual(marks.map((m) => [m.from, m.title, m.labels.job]), [[20, 'version 1 → 2, image x:1 → x:2', 'a'], [50, 'version 2 → 1, image x:2 → x:1', 'a']], 'a roll-back is one, a new job is none');
	assert.deepEqual(versionMarks([over({ pod: 'p1', version: '1' }, 0, 10), over({ pod: 'p2', version: '1' }, 20)], ['version'], [], 0, 10, 3), [], 'other pods of the same');
});

test('alerts that are about what is drawn', () => {
	const a = (l: Record<string, string>, ...t: number[]) => over({ __name__: 'ALERTS', alertstate: 'firing', alertname: 'A', severity: 'page', ...l }, ...t);
	const marks = alertMarks([a({ pod: 'x' }, 10, 20, 50), a({ pod: 'z' }, 10), a({}, 30), a({ job: 'other' }, 40)], [{ pod: 'x' }, { pod: 'y' }], { job: 'j' }, 10);
	assert.deepEqual(marks.map((m) => [m.from, m.to, m.labels.pod]), [[10, 20, 'x'], [30, 30, undefined], [50, 50, 'x']]);
	assert.deepEqual(clustered(marks, 25).map((g) => g.map((m) => m.from)), [[10, 30], [50]]);
});

test('a share over time', () => {
	assert.deepEqual(shareStep(3600, 15), { step: 60, window: 60 });
	assert.deepEqual(shareStep(86400, 360), { step: 1440, window: 1440 });
	assert.deepEqual(shareStep(300, 2), { step: 6, window: 60 });
	for (const [q, expr] of [
		['merge(cpu{job="a"}[5m])', 'merge(cpu{job="a"}[1m])'], ['sum by (pod)(rate(cpu[1m]))', 'merge(cpu[1m])'], ['cpu', 'merge(cpu[1m])'],
		['focus(merge(cpu[5m]), "x")', 'focus(merge(cpu[1m]), "x")'], ['topk(3, self(merge(cpu{a="b"}[5m])))', 'merge(cpu{a="b"}[1m])'], ['diff(merge(cpu[5m]), merge(cpu[5m] offset 1d))', 'merge(cpu[1m])']])
		assert.equal(profileOver(q, 60), expr, q);
	assert.equal(profileOver('merge(cpu[5m])', 60, { pod: 'x' }), 'merge(cpu{pod="x"}[1m])');
	assert.equal(profileOver('1 + 1', 60), null);
	const line = shareLine('f', '', new Map([[20, { p: 0.25, n: 100 }], [40, { p: 1, n: null }]]), [10, 20, 30, 40, 50, 60], 20);
	assert.deepEqual(line.share, [undefined, 0.25, undefined, 1, undefined, null]);
	assert.deepEqual(line.low.map((v) => v && v.toFixed(4)), [undefined, '0.1742', undefined, null, undefined, null]);
	assert.deepEqual([pointAt(line, 0), pointAt(line, 1), pointAt(line, 2)], [1, 1, 3]);
});

test('bounds are Wilson\'s', () => {
	assert.deepEqual(wilson(0.25, 100, 2).map((v) => v.toFixed(4)), ['0.1742', '0.3451']);
	assert.deepEqual(wilson(0, 0, 2), [0, 1]);
	assert.deepEqual(wilson(0.3, 10, 0), [0.3, 0.3]);
});
