// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { FlameData } from '../src/base/api';
import { frameColor, packageOf, shorterNames } from '../src/flame/colors';
import { degreeOf, foldFunctions, matchRow, rowsOf, search, searchRegex } from '../src/flame/fold';
import { printPath } from '../src/flame/path';
import { beforeAside, buildTree, findPath, longestRun, nodeAt, pathNames, perSecond, visibleDepth } from '../src/flame/tree';
import { depthOf, rowOf } from '../src/flame/draw';

/* total(100) ├ a(60, self 10) ├ b(30) ┬ a(20)
 *            │               └ c(20)
 *            └ c(40) */
const data: FlameData = {
	unit: 'nanoseconds', sampleType: 'cpu', name: 'x', total: 100,
	strings: ['', 'total', 'a', 'b', 'c', '/src/c.go', '/bin/x'],
	frames: { name: [1, 2, 3, 4], file: [0, 0, 0, 5], binary: [0, 6, 6, 6], startLine: [0, 1, 2, 3] },
	nodes: { depth: [0, 1, 2, 3, 2, 1], frame: [0, 1, 2, 1, 3, 3], total: [100, 60, 30, 20, 20, 40], self: [0, 10, 10, 20, 20, 40], line: [0, 1, 2, 1, 3, 3] },
};

test('links follow from depths', () => {
	const t = buildTree(data);
	assert.deepEqual([...t.parent], [-1, 0, 1, 2, 1, 0]);
	assert.deepEqual([...t.end], [6, 5, 4, 4, 5, 6]);
	assert.deepEqual([...t.x], [0, 0, 0, 0, 30, 60]);
	assert.equal(t.maxDepth, 3);
});

test('a point finds its box', () => {
	const t = buildTree(data);
	assert.equal(nodeAt(t, 5, 0), 0);
	assert.equal(nodeAt(t, 5, 3), 3);
	assert.equal(nodeAt(t, 35, 2), 4);
	assert.equal(nodeAt(t, 55, 2), -1);
	assert.equal(nodeAt(t, 99, 1), 5);
	assert.equal(nodeAt(t, 100, 0), -1);
	assert.equal(visibleDepth(t, 0, 0), 3);
	assert.equal(visibleDepth(t, 0, 25), 2);
});

test('a value is per second of what was measured', () => {
	const per = (more: Partial<FlameData>) => { const t = buildTree({ ...data, kind: 'delta', ...more }); return [t.seconds, perSecond(t), !!t.mixed]; };
	assert.deepEqual(per({ coveredSeconds: 50 }), [50, 2, false]);
	assert.deepEqual(per({ coveredSeconds: 50, weight: 2.5, mixedWeights: false }), [20, 5, false]);
	assert.deepEqual(per({ coveredSeconds: 50, weight: 2, mixedWeights: true }), [25, 4, true]);
	assert.deepEqual(per({ coveredSeconds: 40, perSeconds: 50, weight: 1 }), [50, 2, false]);
	assert.equal(per({ coveredSeconds: 50, kind: 'gauge' })[0], 0);
});

test('a zoom survives new data as far as it can', () => {
	const t = buildTree(data);
	assert.deepEqual(pathNames(t, 3), ['a', 'b', 'a']);
	assert.equal(findPath(t, ['a', 'b', 'a']), 3);
	assert.equal(findPath(t, ['a', 'c', 'gone']), 4);
	assert.equal(findPath(t, ['gone']), 0);
});

test('recursion counts once', () => {
	const rows = Object.fromEntries(foldFunctions(buildTree(data)).map((r) => [r.name, [r.self, r.total]]));
	assert.deepEqual(rows, { a: [30, 60], b: [10, 30], c: [60, 60] });
	assert.deepEqual(foldFunctions(buildTree(data), 2).map((r) => [r.name, r.total]), [['b', 30], ['a', 20]]);
});

test('rows are the server\'s where boxes are hidden', () => {
	const rows = { frame: [3, 1], total: [70, 65], self: [65, 35], all: 4 };
	const hidden = buildTree({ ...data, hidden: 7, functions: rows, root: 0 });
	const got = rowsOf(hidden, 0);
	assert.ok(got.exact && got.all === 4);
	assert.deepEqual(got.rows.map((r) => [r.name, r.self, r.total]), [['c', 65, 70], ['a', 35, 65]]);
	assert.equal(rowsOf(hidden, 2).exact, false);
	assert.ok(rowsOf(buildTree({ ...data, hidden: 7, functions: rows, root: 2 }, ['a', 'b']), 2).exact);
	assert.equal(rowsOf(buildTree({ ...data, functions: rows }), 0).all, 4);
	assert.equal(rowsOf(buildTree(data), 0).all, 3);
	assert.ok(matchRow(got.rows[0], /c\.go/) && !matchRow(got.rows[0], /bin/) && !matchRow(got.rows[1], /c\.go/));
});

test('search sums stacks once, by name and file', () => {
	const t = buildTree(data);
	assert.equal(search(t, searchRegex('^a$')!).value, 60);
	assert.equal(search(t, searchRegex('a|b')!).value, 60);
	assert.equal(search(t, searchRegex('C\\.go')!).value, 0);
	assert.equal(search(t, searchRegex('c.go')!).value, 60);
	assert.equal(search(t, searchRegex('c')!, 1).value, 20);
	assert.equal(searchRegex(' '), null);
	assert.ok(searchRegex('main.(*x')!.test('main.(*x).y'));
});

test('a diff is as wide as both sides', () => {
	const t = buildTree({ ...data, nodes: { ...data.nodes, base: { total: [50, 50, 0, 0, 50, 0], self: [0, 0, 0, 0, 50, 0] } } });
	assert.equal(t.weight[0], 150);
	assert.equal(t.x[5], 110);
});

test('no search holds the page: what could take forever is given up', () => {
	for (const [source, k] of [['abc', 0], ['a.*b', 1], ['^net/http\\.\\(\\*conn\\)', 0], ['a|b*c|d', 1], ['(a|b)c', 0], ['[+*]x{2}', 0], ['a+b*c{3,}', 3], ['(a+){3}', 3], ['a{1,1000}', 1], ['(?:foo|bar)?x', 0],
		['(a+)+$', Infinity], ['(a|ab)*c', Infinity], ['((x*)y)+', Infinity], ['(.)\\1', Infinity], ['(?<n>a*){2,}', Infinity]] as const)
		assert.equal(Math.floor(degreeOf(source)), k, source);
	const long = 'a'.repeat(200);
	for (const source of ['(a+)+$', '(a|a)*$', '(.*)*!', 'a?'.repeat(60) + 'a{60}!', '.*.*.*.*.*.*!', '(a*a*a*)(a*a*a*)!', '(a{1,9}){1,9}!', '^(?=(a+)+!)']) {
		const re = searchRegex(source)!, begin = performance.now();
		for (let i = 0; i < 3000; i++) re.test(`${long}b${i}`);
		assert.ok(re.gaveUp, source);
		assert.ok(performance.now() - begin < 20000, source);
	}
	for (const source of ['.*foo.*bar.*', '(http|grpc).*serve', 'a.*b', '\\.func\\d+$', '(\\w+\\.)?b12', 'x'.repeat(500)]) {
		const re = searchRegex(source)!;
		for (let i = 0; i < 300; i++) assert.equal(re.test(`${long.slice(100)}b${i}`), new RegExp(source, 'i').test(`${long.slice(100)}b${i}`));
		assert.ok(!re.gaveUp, source);
	}
	assert.equal(searchRegex('(a+)+$')!.test('main.aa'), true, 'short names are looked at');
});

test('values below zero have room of their own, also where all add up to nothing', () => {
	const nodes = { depth: [0, 1, 2, 2, 1], frame: [0, 1, 2, 3, 3], total: [0, 2, 5, -3, -2], self: [0, 0, 5, -3, -2], line: [0, 0, 0, 0, 0] };
	const t = buildTree({ ...data, nodes });
	assert.deepEqual([...t.weight], [10, 8, 5, 3, 2]);
	assert.deepEqual([...t.x], [0, 0, 0, 5, 8]);
	assert.equal(nodeAt(t, 6, 2), 3);
	const diff = buildTree({ ...data, nodes: { ...nodes, base: { total: [4, 4, 4, 0, 0], self: [0, 0, 4, 0, 0] } } });
	assert.deepEqual([...diff.weight], [14, 12, 9, 3, 2]);
	assert.deepEqual([...beforeAside(diff).weight], [10, 8, 5, 3, 2]);
	/* what is below another root that was asked for is not there, and has its room */
	assert.deepEqual([...buildTree({ ...data, nodes: { ...nodes, total: [0, 2, 5, -3, -7] } }).weight], [20, 8, 5, 3, 7]);
});

test('names lose their front first', () => {
	assert.deepEqual(shorterNames('net/http.(*conn).serve'), ['http.(*conn).serve', '(*conn).serve', 'serve']);
	assert.deepEqual(shorterNames('github.com/a/b.F[go.shape.x/y]'), ['b.F[go.shape.x/y]', 'F[go.shape.x/y]']);
	assert.deepEqual(shorterNames('std::vector<int>::push_back'), ['vector<int>::push_back']);
	assert.deepEqual(shorterNames('libc.so.6+0x1234'), []);
	assert.deepEqual(shorterNames('memcpy'), []);
});

test('what a function belongs to', () => {
	assert.equal(packageOf('net/http.(*conn).serve', ''), 'net/http');
	assert.equal(packageOf('main.fibonacciHandler', ''), 'main');
	assert.equal(packageOf('slices.SortFunc[go.shape.[]foo/bar.T]', ''), 'slices');
	assert.equal(packageOf('std::vector<int>::push_back', 'x'), 'std');
	assert.equal(packageOf('<alloc::vec::Vec<T> as core::ops::Drop>::drop', 'x'), 'alloc');
	assert.equal(packageOf('memcpy', '/lib/libc.so.6'), 'libc.so.6');
	for (const [name, binary, file, want] of [
		['primes.<locals>.<listcomp>', '[python]', '/app/shop/cart.py', 'cart'], ['<module>', '[python]', '/app/shop/__init__.py', 'shop'],
		['dot', '[python]', '/usr/lib/python3/dist-packages/numpy/core/x.py', 'numpy'], ['loads', '[python]', '/usr/lib/python3.11/json/__init__.py', 'json'],
		['parse', '[python]', '/v/lib/python3.9/site-packages/six.py', 'six'], ['_find', '[python]', '<frozen importlib._bootstrap>', 'importlib'],
		['[python: changed]', '[python]', '', '[python]'], ['next', '[v8]', '/a/node_modules/b/node_modules/@x/y/lib/z.js', '@x/y'],
		['next', '[v8]', '/a/node_modules/express/router.js', 'express'], ['step', '[v8]', 'node:internal/timers', 'node'], ['f', '[v8]', 'file:///app/shop.min.mjs', 'shop'],
		['java.util.HashMap.get', '[hotspot]', 'HashMap.java', 'java.util'], ['Shop.main', '[hotspot]', 'Shop.java', 'Shop'], ['Interpreter', '[hotspot]', '', '[hotspot]'],
	]) assert.equal(packageOf(name, binary, file), want, `${name} ${file}`);
	assert.notEqual(frameColor('runtime/pprof.x', '', 'package', false).fill, frameColor('runtime.mcall', '', 'package', false).fill);
});

test('how often a function calls itself', () => {
	const chain = (names: number[]): FlameData => ({ ...data, nodes: { depth: names.map((_, i) => i), frame: names, total: names.map(() => 9), self: names.map(() => 0), line: names.map(() => 0) } });
	assert.deepEqual(longestRun(buildTree(chain([0, 1, 2, 2, 2, 2, 2, 3, 2]))), { times: 5, name: 'b' });
	assert.equal(longestRun(buildTree(chain([0, 1, 2, 1, 2, 1, 2]))).times <= 1, true, 'one after the other is no call of itself');
	assert.ok(longestRun(buildTree(data)).times <= 1);
});

test('against the time before, boxes are as wide as they are now', () => {
	const base = { total: [50, 50, 0, 0, 0, 0], self: [0, 50, 0, 0, 0, 0] };
	const t = beforeAside(buildTree({ ...data, nodes: { ...data.nodes, base } }));
	assert.equal(t.base, undefined);
	assert.deepEqual([...t.weight], data.nodes.total);
	assert.deepEqual([...t.x], [0, 0, 0, 0, 30, 60]);
	assert.deepEqual([...t.before!.total], base.total);
	assert.deepEqual([t.whole, t.baseWhole], [100, 50]);
});

test('a path of hashes is found as that of names', () => {
	const t = buildTree(data), long = Array.from({ length: 400 }, () => 'x'.repeat(20));
	const hashes = printPath([...pathNames(t, 3), ...long]).split('\n').slice(0, 3);
	assert.ok(hashes.every((h) => h.startsWith('~')));
	assert.equal(findPath(t, hashes), 3);
});

test('rows from the root up, or down', () => {
	const up = { flip: true, rows: 10, skip: 1 }, down = { skip: 1 };
	assert.deepEqual([rowOf(up, 1), rowOf(up, 10), rowOf(down, 1)], [9, 0, 0]);
	for (const d of [1, 4, 7]) assert.deepEqual([depthOf(up, rowOf(up, d)), depthOf(down, rowOf(down, d))], [d, d]);
});
