// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { callOf, describeFilter, filtersOf, frameIs, hasFilter, PRESETS, refilter, unfiltered, withFilter, withoutFilter } from '../src/query/filters';
import { flameQuery, graphQuery, withBefore } from '../src/query/query';
import { isName, printPath } from '../src/flame/path';
import { calleesExpr, callersExpr, keepingLabel, wrapView } from '../src/profile/viewtext';

const MAIN = frameIs('main.f');

test('a filter is a call around the query, and can be taken away', () => {
	const q = withFilter('merge(cpu{job="a"}[5m])', 'focus', MAIN);
	assert.equal(q, 'focus(merge(cpu{job="a"}[5m]), {function="main.f"})');
	const two = withFilter(q, 'hide', PRESETS[0].args);
	assert.deepEqual(filtersOf(two), [{ fn: 'focus', args: MAIN }, { fn: 'hide', args: PRESETS[0].args }]);
	assert.equal(unfiltered(two), 'merge(cpu{job="a"}[5m])');
	assert.equal(withoutFilter(two, filtersOf(two)[0]), `hide(merge(cpu{job="a"}[5m]), ${PRESETS[0].args})`);
	assert.equal(withoutFilter(withoutFilter(two, filtersOf(two)[1]), filtersOf(two)[0]), 'merge(cpu{job="a"}[5m])');
	assert.equal(withFilter(two, 'focus', MAIN), two, 'the same twice is once');
	assert.ok(hasFilter(two, 'focus', MAIN) && !hasFilter(two, 'ignore', MAIN));
});

test('filters that were typed are understood, and what is none is left alone', () => {
	assert.deepEqual(filtersOf(' ignore( focus(cpu<a="b">, "x,(y") , {file="a)b"} ) '), [{ fn: 'focus', args: '"x,(y"' }, { fn: 'ignore', args: '{file="a)b"}' }]);
	assert.deepEqual(filtersOf('where(cpu, "bytes", "1mb:4mb")'), [{ fn: 'where', args: '"bytes", "1mb:4mb"' }]);
	for (const q of ['cpu', 'topk(3, self(focus(cpu, "x")))', 'focus(cpu, "x") - focus(cpu, "y")', 'focus{a="b"}', 'focus(cpu)', 'merge(cpu[5m]', ''])
		assert.deepEqual(filtersOf(q), [], q);
	assert.equal(withFilter('cpu{a="b"}[5m]', 'ignore', '"x"'), 'ignore(merge(cpu{a="b"}[5m]), "x")');
	assert.equal(withFilter('diff(merge(cpu[5m]), merge(cpu[5m] offset 5m))', 'focus', '"x"'), 'focus(diff(merge(cpu[5m]), merge(cpu[5m] offset 5m)), "x")');
	assert.deepEqual(callOf('f(a, g(b, c), "d,e")'), { fn: 'f', args: ['a', 'g(b, c)', '"d,e"'] });
});

test('chips say what a filter does', () => {
	assert.deepEqual(describeFilter({ fn: 'focus', args: frameIs('a "b"') }), { verb: 'only with', what: 'a "b"' });
	assert.deepEqual(describeFilter({ fn: 'hide', args: PRESETS[2].args }), { verb: 'hidden:', what: 'Kernel' });
	assert.deepEqual(describeFilter({ fn: 'ignore', args: '"x|y"' }), { verb: 'without', what: '"x|y"' });
});

test('a time that is picked keeps the filters', () => {
	const q = 'hide(focus(merge(cpu{job="a"}[5m]), "x"), "y")';
	assert.deepEqual(flameQuery(q, { from: 100, to: 160 }, 0), { expr: 'hide(focus(merge(cpu{job="a"}[1m]), "x"), "y")', time: 160 });
	assert.deepEqual(flameQuery(q, { at: 7 }, 0), { expr: 'hide(focus(merge(cpu{job="a"}), "x"), "y")', time: 7 });
	assert.deepEqual(flameQuery(q, null, 9), { expr: q, time: 9 });
	assert.equal(withBefore(q, null), 'hide(focus(diff(merge(cpu{job="a"}[5m]), merge(cpu{job="a"}[5m] offset 5m)), "x"), "y")');
	assert.equal(graphQuery(q, () => 'delta', 30).expr, 'hide(focus(rate(cpu{job="a"}[30s]), "x"), "y")');
	assert.equal(graphQuery('focus(merge by (pod)(cpu[5m]), "x")', () => 'delta', 30).expr, 'sum by (pod) (focus(rate(cpu[30s]), "x"))');
});

test('views wrap the expression', () => {
	const v = { collapsed: false, inverted: false, rowsBy: '' };
	assert.equal(wrapView('merge(cpu[5m])', v), 'merge(cpu[5m])');
	assert.equal(wrapView('merge(cpu[5m])', { ...v, collapsed: true, inverted: true }), 'invert(collapse(merge(cpu[5m]), "recursion"))');
	assert.equal(wrapView('focus(merge(cpu[5m]), "x")', { ...v, inverted: true, rowsBy: 'pod' }), 'tagroot(invert(focus(merge by (pod)(cpu[5m]), "x")), "pod")');
	assert.equal(wrapView('focus(diff(merge(cpu[5m]), merge(cpu[5m] offset 5m), "share"), "x")', { ...v, rowsBy: 'pod' }),
		'focus(diff(merge(tagroot(merge by (pod)(cpu[5m]), "pod")), merge(tagroot(merge by (pod)(cpu[5m] offset 5m), "pod")), "share"), "x")');
	assert.equal(callersExpr('merge(cpu[5m])', 'main.f'), 'show_from(invert(merge(cpu[5m])), {function="main.f"})');
	assert.equal(calleesExpr('merge(cpu[5m])', 'main.f'), 'show_from(merge(cpu[5m]), {function="main.f"})');
});

test('a label is kept by what would drop it', () => {
	for (const [q, out] of [
		['merge(cpu[5m])', 'merge by (pod)(cpu[5m])'], ['merge by (job) (cpu[5m])', 'merge by (job, pod)(cpu[5m])'], ['sum (rate(cpu[5m])) by (job)', 'sum by (job, pod)(rate(cpu[5m]))'],
		['merge without (pod, job)(cpu[5m])', 'merge without (job)(cpu[5m])'], ['merge by (pod)(cpu[5m])', 'merge by (pod)(cpu[5m])'],
		['rate(cpu[5m])', 'rate(cpu[5m])'], ['merge(cpu[5m]) + merge(on_cpu[5m])', 'merge(cpu[5m]) + merge(on_cpu[5m])'], ['merge{a="b"}', 'merge{a="b"}'],
	]) assert.equal(keepingLabel(q, 'pod'), out);
});

test('a path fits into an address', () => {
	const names = ['main.main', 'a.(*T).b'], many = Array.from({ length: 300 }, (_, i) => `std::vector<int, std::allocator<int>>::f${i}(void)`);
	assert.equal(printPath(names), 'main.main\na.(*T).b');
	assert.ok(encodeURIComponent(printPath(many)).length < 4000);
	printPath(many).split('\n').forEach((token, i) => assert.ok(isName(token, many[i])));
	assert.ok(!isName('~0', 'main.main'));
	for (const odd of [['main', 'a\nb'], ['', 'x'], ['x', '']]) {
		const tokens = printPath(odd).split('\n');
		assert.ok(tokens.length === odd.length && tokens.every((t, i) => t !== '' && isName(t, odd[i])), JSON.stringify(odd));
	}
	assert.equal(refilter('q', []), 'q');
});

test('the preset of runtimes knows those of several languages by their names, and leaves what people wrote', () => {
	const re = new RegExp(`^(?:${JSON.parse(/=~(".*")\}$/.exec(PRESETS[0].args)![1])})$`);
	for (const name of ['runtime.mallocgc', 'runtime/internal/atomic.Load', 'internal/runtime/maps.(*Map).Get', '_PyEval_EvalFrameDefault', 'PyObject_Call', 'Py_RunMain', 'java.util.HashMap.get', 'jdk.internal.misc.Unsafe.park',
		'Interpreter', 'call_stub', 'JavaCalls::call_helper(JavaValue*, methodHandle const&)', 'JavaThread::run()', 'v8::Function::Call', 'v8::internal::Execution::Call', 'node::MakeCallback', 'Builtins_InterpreterEntryTrampoline', 'uv_run',
		'processTicksAndRejections node:internal/process/task_queues', 'std::vector<int>::push_back(int const&)', 'core::ops::function::FnOnce::call_once', 'alloc::vec::Vec<T>::push', '<alloc::boxed::Box<F> as core::ops::FnOnce>::call_once',
		'std::rt::lang_start', '__rust_begin_short_backtrace', '__gnu_cxx::new_allocator<int>::allocate'])
		assert.ok(re.test(name), name);
	for (const name of ['main.main', 'runtimeconfig.load', 'example.com/runtime.Fail2/x.run', 'Pyramid', 'Python', 'pyrrha::run', 'javascript.parse', 'com.acme.java.Main.run', 'node', 'nodes::walk', 'standard::run', 'score::of', 'uv', 'app::std::x', 'Interpreter2', 'handle /srv/app/server.js'])
		assert.ok(!re.test(name), name);
});
