// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { keyCaps, keyGroups, keyTable, pressed } from '../src/base/keys';

const press = (key: string, more: Partial<KeyboardEvent> = {}) => {
	const seen = { prevented: false, stopped: false };
	return { seen, e: { key, ctrlKey: false, metaKey: false, altKey: false, shiftKey: false, ...more, preventDefault: () => { seen.prevented = true; }, stopPropagation: () => { seen.stopped = true; } } as unknown as KeyboardEvent };
};

test('a key is written as it is pressed', () => {
	assert.equal(pressed(press(' ').e), 'Space');
	assert.equal(pressed(press('?', { shiftKey: true }).e), '?');
	assert.equal(pressed(press('Enter', { shiftKey: true }).e), 'Shift+Enter');
	assert.equal(pressed(press('k', { metaKey: true }).e), 'Ctrl+k');
	assert.deepEqual(['Ctrl+k', 'g t', 'ArrowUp', '+', 'Shift+Enter'].map(keyCaps), [['Ctrl', 'k'], ['g', 't'], ['↑'], ['+'], ['Shift', 'Enter']]);
});

test('a table does what it lists, and nothing else', () => {
	const done: string[] = [];
	const t = keyTable('Somewhere', { up: [['ArrowUp', 'k'], 'up'], no: ['n', 'not now'] });
	assert.deepEqual(keyGroups.find((g) => g.where === 'Somewhere')?.keys, [{ keys: ['ArrowUp', 'k'], what: 'up' }, { keys: ['n'], what: 'not now' }]);
	const deeds = { up: () => { done.push('up'); }, no: () => false };
	for (const key of ['ArrowUp', 'k']) {
		const { e, seen } = press(key);
		assert.equal(t.handle(e, deeds), true);
		assert.deepEqual(seen, { prevented: true, stopped: true });
	}
	for (const key of ['n', 'x', 'ArrowDown']) {
		const { e, seen } = press(key);
		assert.equal(t.handle(e, deeds), false);
		assert.deepEqual(seen, { prevented: false, stopped: false }, key);
	}
	assert.deepEqual(done, ['up', 'up']);
	assert.throws(() => keyTable('Twice', { a: ['x', ''], b: [['y', 'x'], ''] }), /x twice/);
});

test('no key is compared outside of tables, where the list would not know of it', () => {
	const files = (dir: string): string[] => readdirSync(dir, { withFileTypes: true }).flatMap((f) => f.isDirectory() ? files(join(dir, f.name)) : [join(dir, f.name)]);
	const wrong = files('src').filter((f) => !/base.(keys|menu|kept)\.tsx?$/.test(f)).flatMap((f) => readFileSync(f, 'utf8').split('\n').filter((line) => /\b(e|ev|event)\.(key|code|keyCode)\b/.test(line)).map((line) => `${f}: ${line.trim()}`));
	assert.deepEqual(wrong, []);
});
