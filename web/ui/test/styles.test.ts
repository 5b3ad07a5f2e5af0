// SPDX-License-Identifier: Apache-2.0
// Style sheets of the rooms all end in one file: a class that two of them style is two things of one name, and one looks like the other.
// What several rooms use is styled in base/.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

/** The classes that begin a selector of that sheet. */
function classesOf(path: string): string[] {
	const css = readFileSync(path, 'utf8').replace(/\/\*[^]*?\*\//g, '');
	return [...css.matchAll(/([^{}]+)\{/g)].flatMap(([, selectors]) => selectors.split(',')).map((s) => /^\s*\.([\w-]+)/.exec(s)?.[1]).filter((c): c is string => c !== undefined);
}

test('a class is styled by one room', () => {
	const rooms = new Map<string, Set<string>>();
	for (const room of readdirSync('src', { withFileTypes: true }).filter((d) => d.isDirectory()))
		for (const file of readdirSync(join('src', room.name)).filter((f) => f.endsWith('.css')))
			for (const c of classesOf(join('src', room.name, file))) rooms.set(c, (rooms.get(c) ?? new Set()).add(room.name));
	assert.ok(rooms.size > 100, 'the sheets are not where they are looked for');
	assert.deepEqual([...rooms].filter(([, r]) => r.size > 1 && !r.has('base')).map(([c, r]) => `.${c}: ${[...r].join(', ')}`), []);
});
