// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { runbooksPage } from '../runbooks.mjs';

const page = (text: string): string => runbooksPage(`# Title\n\n${text}\n\n## End\n`);
const main = (text: string): string => /<h1>Title<\/h1>\n?([^]*?)\n?<nav class="contents"/.exec(page(text))![1];

test('what the file uses becomes HTML', () => {
	assert.equal(main('one\ntwo & < three'), '<p>one\ntwo &#38; &#60; three</p>');
	assert.equal(main('* a `x<y`\n* b\n  goes on'), '<ul><li>a <code>x&#60;y</code></li>\n<li>b\ngoes on</li></ul>');
	assert.equal(main('```yaml\na: "1" # `b` [c](d)\n\n* e\n```'), '<pre tabindex="0">a: &#34;1&#34; # `b` [c](d)\n\n* e</pre>');
	assert.equal(main('snake_case, 2 * 3, [5m], a & b; c\\d'), '<p>snake_case, 2 * 3, [5m], a &#38; b; c\\d</p>');
	assert.equal(main('see `/targets`, `/proc`'), '<p>see <a href="targets"><code>/targets</code></a>, <code>/proc</code></p>');
});

test('links lead where the server has something', () => {
	assert.equal(main('[here](#end), [`there`](runbooks.md#end)'), '<p><a href="runbooks#end">here</a>, <a href="runbooks#end"><code>there</code></a></p>');
	assert.equal(main('[web](https://example.org/?a=1&b=2)'), '<p><a href="https://example.org/?a=1&#38;b=2">web</a></p>');
	assert.equal(main('[why](agent.md#why-truncated) so'), '<p>why <small>(docs/agent.md)</small> so</p>');
});

test('a link has no link in it', () => {
	assert.equal(main('[`/targets`](#end) and [a [b](#end)'), '<p><a href="runbooks#end"><code>/targets</code></a> and [a <a href="runbooks#end">b</a></p>');
	assert.match(runbooksPage('# T\n\n## In `/rules`\n'), /<h2 id="in-rules"><a href="runbooks#in-rules">In <code>\/rules<\/code><\/a><\/h2>/);
});

test('each section has an anchor, and a line in the contents', () => {
	const html = runbooksPage('# T\n\n## TargetDown\n\nx\n\n## Two words, `code`\n');
	assert.deepEqual([...html.matchAll(/<h2 id="([^"]+)"><a href="runbooks#([^"]+)">/g)].map((m) => [m[1], m[2]]), [['targetdown', 'targetdown'], ['two-words-code', 'two-words-code']]);
	assert.deepEqual([...html.matchAll(/<li><a href="runbooks#([^"]+)">/g)].map((m) => m[1]), ['targetdown', 'two-words-code']);
});

test('other Markdown is an error with its line', () => {
	for (const text of ['| a | b |', 'x\n--- | ---', '### deeper', '#', '## a ##', '1. one', '- item', '*', '> said', '<b>x</b>', 'a <!-- b', '![picture](x.png)', 'an `open code', '```\nopen', '```x```', '  ```\n  x\n```',
		'**bold**', '*emphasis*', 'an *emph*asis', '*`code`*', '_x_', '__x__', 'an _`x`_', '~~x~~', '~x~', '&amp;', '&#38;', '\\*', 'a\\', 'a\\\nb', 'a  \nb', 'at https://example.org/',
		'[x](javascript:alert(1))', '[x](../page)', '[x](#no-section)', '[x](runbooks.md#no-section)', '[x][ref]', '[`x`][ref]', '[ref]: https://example.org/', '[x](https://a.b "title")', '[*x*](#end)',
		'* [ ] to do', '* [x] done', '* a\n  * nested', '* a\n * nested', '* a\n  - nested', '* * nested', '* 1. nested', '* # heading', '* a\n\n  of the item', '* a\n  ---', '***', '* * *', '___', '   ## heading',
		'setext\n==', 'setext\n=', 'setext\n---', 'setext\n--', 'setext\n-', '    code', '\tcode', '## a [link](#end)', '## a [b](agent.md)'])
		assert.throws(() => page(text), /^Error: runbooks\.md:[345]: /, text);
	assert.throws(() => runbooksPage('# T\n\n## A\n\n## a\n'), /one name/);
	assert.throws(() => runbooksPage('text'), /no title/);
});

test('nothing in the page loads from elsewhere, or is run or styled within it', () => {
	const html = runbooksPage(readFileSync('runbooks.md', 'utf8'));
	assert.doesNotMatch(html, /<style|style=|<script>|\son\w+="|<(?:script|link|img)[^>]*="(?:[a-z]+:)?\/\//);
	assert.match(html, /<base href="\/">/);
	const ids = new Set([...html.matchAll(/ id="([^"]+)"/g)].map((m) => m[1]));
	assert.deepEqual([...html.matchAll(/href="runbooks#([^"]+)"/g)].map((m) => m[1]).filter((to) => !ids.has(to)), [], 'links to anchors that are not there');
});
