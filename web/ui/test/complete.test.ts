// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { contextAt, rank } from '../src/base/context';

/** `|` is the caret. */
const at = (text: string) => {
	const caret = text.indexOf('|');
	const c = contextAt(text.replace('|', ''), caret);
	return [c.kind, c.prefix, c.label ?? '', c.selector ?? ''].join(' ').trim();
};

test('what is being typed', () => {
	assert.equal(at('me|'), 'expression me');
	assert.equal(at('merge(cp|)'), 'expression cp');
	assert.equal(at('merge(cpu{|'), 'label   cpu{}');
	assert.equal(at('merge(cpu{jo|}[5m])'), 'label jo  cpu{}');
	assert.equal(at('cpu{job="|"}'), 'value  job cpu{}');
	assert.equal(at('cpu{job="ech|"}'), 'value ech job cpu{}');
	assert.equal(at('cpu{job="a", in|'), 'label in  cpu{job="a"}');
	assert.equal(at('on_cpu<container="e|'), 'value e container on_cpu{}');
	assert.equal(at('cpu[|'), 'duration');
	assert.equal(at('sum by (j|'), 'grouping j');
	assert.equal(at('cpu{job="a"|}'), 'none');
	assert.equal(at('cpu # me|'), 'none');
});

test('where frames are matched', () => {
	const frame = (text: string) => {
		const caret = text.indexOf('|'), c = contextAt(text.replace('|', ''), caret);
		return [c.kind, c.prefix, c.label ?? '', c.regexp ? 're' : '', c.profiles ?? ''].join(' ').trim();
	};
	const p = 'merge(cpu{job="a"}[5m])';
	assert.equal(frame(`focus(${p}, "ma|`), `frame ma function re ${p}`);
	assert.equal(frame(`focus(${p}, "ma|")`), `frame ma function re ${p}`);
	assert.equal(frame(`topk(5, self(${p}, {|`), `frameKey    ${p}`);
	assert.equal(frame(`topk(5, self(${p}, {fun|})`), `frameKey fun   ${p}`);
	assert.equal(frame(`total(${p}, {function="ma|"})`), `frame ma function  ${p}`);
	assert.equal(frame(`total(${p}, {function=~"ma|`), `frame ma function re ${p}`);
	assert.equal(frame(`hide(${p}, {binary="x", file="|`), `frame  file  ${p}`);
	assert.equal(frame(`share(${p}, frames("en|"))`), `frame en function re ${p}`);
	assert.equal(frame(`self(${p}, "fi|")`), 'granularity fi');
	assert.equal(frame(`share(${p}, {function="f"}, "fi|")`), 'granularity fi');
	assert.equal(frame(`diff(${p}, cpu{|`), 'label');
	assert.equal(frame('topk(5, cpu{|'), 'label');
	assert.equal(frame(`label_replace(${p}, "a|`), 'none a');
});

test('prefixes come first', () => {
	assert.deepEqual(rank([{ label: 'on_cpu' }, { label: 'cpu' }, { label: 'x' }], 'cpu').map((s) => s.label), ['cpu', 'on_cpu']);
});
