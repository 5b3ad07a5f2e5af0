// SPDX-License-Identifier: Apache-2.0
// The flame graph, used as a person would: node page_flame.mjs URL OUTDIR. The profiles are those of test_page_flame.py. What is shown is held
// against what the language answers for the same expression at the same time.
import assert from 'node:assert/strict';
import { complaints, drawn, fits, LOOKS, open as openAt, picture, take, until, walk as walkTo } from './browser.mjs';

const [url, out] = process.argv.slice(2);
const Q = 'merge(cpu{job="shop"}[30s])';
const shot = (p, name) => picture(p, out, `flame-${name}`);
const address = (p, name) => new URL(p.url()).searchParams.get(name);
const open = (params, options) => openAt(`${url}/?${new URLSearchParams({ q: Q, refresh: '0', view: 'flame', ...params })}`, options, 60000);
const settled = async (p) => { await p.waitForSelector('.progress:not(.on)'); await p.waitForSelector('.flame canvas'); await drawn(p); };
const go = async (params) => {
	await page.goto(`${url}/?${new URLSearchParams({ q: Q, refresh: '0', view: 'flame', ...params })}`);
	await settled(page);
};
/** A moment of which every profile has come: asked again it says the same. */
async function past() {
	const then = () => Math.floor(Date.now() / 1000) - 5;
	await until(async () => assert.ok('' in await values(Q, then(), '')));
	return then();
}
const toggle = (name) => page.locator('.view-bar .toggle', { hasText: name });
const pressed = async (name) => await toggle(name).getAttribute('aria-pressed') === 'true';
/** The tree that the page asked for as the last one whose expression matches. */
async function asked(re = /./) {
	await page.waitForFunction((s) => performance.getEntriesByType('resource').some((e) => /format=flamegraph/.test(e.name) && new RegExp(s).test(new URL(e.name).searchParams.get('query'))), re.source);
	const all = await page.evaluate(() => performance.getEntriesByType('resource').map((e) => e.name).filter((n) => /format=flamegraph/.test(n)));
	const u = all.map((n) => new URL(n)).filter((n) => re.test(n.searchParams.get('query')) && n.searchParams.get('width') !== '1').at(-1);
	const d = (await (await fetch(u, { headers: { Accept: 'application/json' } })).json()).data, n = d.nodes;
	const nodes = n.depth.map((depth, i) => ({ depth, name: d.strings[d.frames.name[n.frame[i]]], total: n.total[i], self: n.self[i] }));
	return { query: u.searchParams.get('query'), time: u.searchParams.get('time'), nodes, hidden: d.hidden };
}
/** What the language says, in nanoseconds, by that label. */
async function values(query, time, label) {
	const a = await (await fetch(`${url}/api/v1/query?${new URLSearchParams({ query, time })}`)).json();
	assert.equal(a.status, 'success', `${query}: ${a.error}`);
	return Object.fromEntries(a.data.result.map((r) => [r.metric[label] ?? '', Math.round(Number(r.value[1]) * 1e9)]));
}
const level = (t, depth) => Object.fromEntries(t.nodes.filter((n) => n.depth === depth && n.name !== '(other)').map((n) => [n.name, n.total]));
/** The same in both, of all that the tree has. */
function equal(tree, language, what) {
	assert.ok(Object.keys(tree).length > 0, `${what}: nothing`);
	for (const [k, v] of Object.entries(tree)) assert.equal(v, language[k], `${what}: ${k}`);
}
const current = (p = page, nth = 0) => p.evaluate((i) => document.querySelectorAll('.flame canvas')[i].querySelector('[aria-selected=true]')?.textContent ?? '', nth);
/** Walks there by keyboard, from the root on; says what the box is. */
async function walk(names, nth = 0) {
	const callers = nth === 0 && await page.locator('.sandwich').count() > 0;
	const child = callers || await pressed('Root below') ? 'ArrowUp' : 'ArrowDown';
	return walkTo(page, names, nth, child);
}
/** Points at the box that the keyboard is at. */
async function point(nth = 0) {
	const b = await page.locator('.flame-frame').nth(nth).boundingBox();
	await page.mouse.move(b.x + Math.min(8, b.width / 2), b.y + 8, { steps: 2 });
	await page.waitForSelector('.tip');
	return (await page.locator('.tip tr').allTextContents()).join(' | ');
}
const share = (f) => { const p = 100 * f; return `${p >= 99.95 ? p.toFixed(0) : p >= 10 ? p.toFixed(1) : p.toFixed(2)} %`; };

const steps = {
	async 'recursion is joined by itself where a stack repeats a function more than four times, by a visible switch, numbers unchanged'() {
		page = await open({});
		await settled(page);
		assert.equal(await pressed('Join recursion'), true);
		const joined = await asked(/^collapse\(/), language = await values(`total(${Q})`, joined.time, 'function');
		const fibs = joined.nodes.filter((n) => n.name === 'main.fib');
		assert.equal(fibs.length, 1);
		assert.equal(fibs[0].total, language['main.fib']);
		assert.equal(joined.nodes[0].total, (await values(Q, joined.time, ''))['']);
		await walk(['main.main', 'main.serve', 'main.fib', 'main.add']);
		await shot(page, 'joined');
		await toggle('Join recursion').click();
		await page.waitForFunction(() => document.querySelector('.view-bar [aria-pressed=false]')?.parentElement.lastChild.getAttribute('aria-pressed') === 'false');
		await settled(page);
		assert.equal(address(page, 'recursion'), 'off');
		const apart = await asked(/^merge/);
		assert.equal(apart.nodes.filter((n) => n.name === 'main.fib').length, 12);
		assert.equal(Math.max(...apart.nodes.filter((n) => n.name === 'main.fib').map((n) => n.total)), language['main.fib']);
		await walk(['main.main', 'main.serve', 'main.fib', 'main.fib']);
		await toggle('Join recursion').click();
		await settled(page);
	},
	async 'the root is on top or below'() {
		const at = async (where) => { const b = await page.locator('.flame').boundingBox(); return page.evaluate(([x, y]) => [x, y], [b.x + 200, where === 'top' ? b.y + 10 : b.y + b.height - 10]); };
		await go({ q: `focus(${Q}, {function="main.work"})` });
		await page.mouse.move(...await at('top'));
		assert.equal(await page.textContent('.tip-name'), 'total');
		await toggle('Root below').click();
		await page.mouse.move(...await at('bottom'));
		assert.equal(await page.textContent('.tip-name'), 'total');
		assert.equal(address(page, 'root'), 'below');
		await walk(['main.main', 'main.serve']);
		await shot(page, 'below');
		await toggle('Root below').click();
	},
	async 'inverted: what costs first, then its callers'() {
		await go({ view: 'both', at: await past() });
		const shares = () => page.locator('.functable tbody tr').evaluateAll((r) => r.slice(0, 4).map((x) => x.textContent));
		const rows = await shares();
		await toggle('Inverted').click();
		await page.waitForFunction(() => /invert\(/.test(performance.getEntriesByType('resource').map((e) => decodeURIComponent(e.name)).filter((n) => /format=flamegraph/.test(n)).join()));
		await settled(page);
		const t = await asked(/^invert\(collapse/);
		const [, of] = t.query.match(/^invert\(collapse\((.*), "recursion"\)\)$/); // at a moment the page asks for what was newest then
		equal(level(t, 1), await values(`self(${of})`, t.time, 'function'), 'first level');
		assert.match(await walk(['main.add', 'main.fib', 'main.serve', 'main.main']), /^main\.main,/);
		assert.ok(!(await point()).includes('self'), 'a box of an inverted graph has no value of its own');
		assert.deepEqual(await shares(), rows, 'the table stays the profile\'s');
		await shot(page, 'inverted');
		await page.mouse.move(5, 5);
	},
	async 'callers above, callees below, of all occurrences of a frame'() {
		for (const name of ['main.work', 'main.fib']) {
			await go({ sandwich: name });
			assert.equal(await page.locator('.sandwich .flame canvas').count(), 2);
			const up = await asked(/^show_from\(invert/), down = await asked(/^show_from\((?!invert)/);
			const total = (await values(`total(${Q}, {function="${name}"})`, up.time, ''))[''];
			assert.equal(up.nodes[0].total, total);
			assert.equal(down.nodes[0].total, total);
			equal(level(up, 1), { [name]: total }, 'the function');
			equal(level(up, 2), await values(`callers(${up.query.slice(0, -1).replace(/^show_from\(invert\(/, '').replace(/\), \{.*$/, '')}, {function="${name}"})`, up.time, 'function'), `callers of ${name}`);
			if (name === 'main.fib') equal(level(down, 2), await values(`callees(collapse(${Q}, "recursion"), {function="${name}"})`, up.time, 'function'), `callees of ${name}`);
		}
		assert.match(await walk(['main.serve', 'main.main'], 0), /^main\.main,/);
		assert.match(await walk(['main.add'], 1), /^main\.add,/);
		const [a, b] = [await page.locator('.flame').nth(0).boundingBox(), await page.locator('.flame').nth(1).boundingBox()];
		assert.ok(a.y + a.height <= b.y, 'callers are above');
		await shot(page, 'sandwich');
		await page.click('.tag [aria-label^="Remove callers and callees"]');
		await page.waitForSelector('.sandwich', { state: 'detached' });
		assert.equal(address(page, 'sandwich'), null);
		await page.goto(`${url}/?${new URLSearchParams({ q: Q, refresh: '0', view: 'flame', sandwich: 'main.nowhere' })}`);
		await page.waitForSelector('.none:has-text("is not in this profile")');
	},
	async 'rows by label: pods first'() {
		await go({});
		await page.click('.rows-by button');
		await page.click('.rows-by [role^=menuitem]:has-text("pod")');
		await page.waitForFunction(() => new URL(location.href).searchParams.get('rows') === 'pod');
		const t = await asked(/^tagroot\(/);
		await settled(page);
		equal(level(t, 1), await values('merge by (pod)(cpu{job="shop"}[30s])', t.time, 'pod'), 'pods');
		assert.match(await walk(['web-1', 'main.main', 'main.other', 'main.work']), /^main\.work,/);
		await shot(page, 'pods');
	},
	async 'libraries are hidden by a legend with shares and colours, and by presets; filters are the query, and chips'() {
		await go({});
		const { time } = await asked();
		await page.click('.libraries > button');
		await page.waitForSelector('.library');
		const self = await values(`self(${Q}, "binary")`, time, 'binary'), sum = Object.values(self).reduce((a, b) => a + b);
		const shown = await page.locator('.library').evaluateAll((l) => l.map((x) => [x.querySelector('span').textContent, x.querySelector('b').textContent, getComputedStyle(x.querySelector('.chip')).backgroundColor]));
		assert.deepEqual(Object.fromEntries(shown.map(([n, s]) => [n, s])), Object.fromEntries(Object.entries(self).map(([n, v]) => [n, share(v / sum)])));
		assert.ok(new Set(shown.map((s) => s[2])).size > 1, 'colours');
		await shot(page, 'libraries');
		await page.click('.library:has-text("libc.so.6")');
		await page.waitForFunction(() => /^hide\(.*\{binary="libc\.so\.6"\}\)$/.test(new URL(location.href).searchParams.get('q')));
		await page.click('.presets button:has-text("Kernel")');
		await page.waitForFunction(() => document.querySelectorAll('.tag.filter').length === 2);
		await page.click('.library-list .presets span');
		await page.keyboard.press('Escape');
		await settled(page);
		const t = await asked(/hide\(hide\(/), names = new Set(t.nodes.map((n) => n.name));
		for (const gone of ['memset', 'write', 'sys_write', 'copy_from_user', 'kthread']) assert.ok(!names.has(gone), gone);
		assert.equal(t.nodes[0].total, (await values(t.query, t.time, ''))['']);
		await page.click('.tag.filter [aria-label*="Kernel"]');
		await page.waitForFunction(() => /^hide\(merge/.test(new URL(location.href).searchParams.get('q')));
		await page.click('.tag.filter [aria-label*="libc"]');
		await page.waitForFunction((q) => new URL(location.href).searchParams.get('q') === q, Q);
	},
	async 'a focus keeps shares of the whole; both are shown'() {
		const before = Q.replace(')', ' offset 5s)'); /* all of it has come: asked again it says the same */
		await go({ q: `focus(${before}, {function="main.serve"})` });
		const { time } = await asked(/focus/), whole = (await values(before, time, ''))[''], part = (await values(`focus(${before}, "main.serve")`, time, ''))[''];
		const fib = (await values(`total(${before}, {function="main.fib"})`, time, ''))[''];
		assert.match(await page.textContent('.sum'), new RegExp(`${share(part / whole)} of `.replace('.', '\\.')));
		assert.ok((await walk(['main.main', 'main.serve', 'main.fib'])).includes(`${share(fib / whole)} of total`));
		const tip = await point();
		assert.ok(/of total.*of shown/.test(tip) && tip.includes(share(fib / whole)) && tip.includes(share(fib / part)), tip);
		await page.fill('.search input', 'main.fib');
		await page.waitForFunction((s) => document.querySelector('.search output')?.textContent.startsWith(s), share(fib / whole));
		await shot(page, 'focus');
		await page.mouse.move(5, 5);
	},
	async 'colours tell package, binary, file and change'() {
		await go({ q: 'merge(cpu{job="shop"}[5s])' });
		const colour = async (path) => {
			await walk(path);
			const b = await page.locator('.flame-frame').boundingBox(), c = await page.locator('.flame canvas').boundingBox();
			await page.keyboard.press('Home');
			return page.evaluate(([x, y]) => { const e = document.querySelector('.flame canvas'), k = e.width / e.clientWidth; return [...e.getContext('2d').getImageData(x * k, y * k, 1, 1).data].join(); }, [b.x - c.x + b.width - 6, b.y - c.y + 3]);
		};
		const boxes = [['main.main'], ['main.main', 'main.serve'], ['main.main', 'main.serve', 'write']];
		const seen = {};
		for (const by of ['package', 'binary', 'file', 'change']) {
			await page.selectOption('[aria-label="Colour by"]', by);
			await page.waitForFunction((v) => (new URL(location.href).searchParams.get('color') ?? 'package') === v, by);
			if (by === 'change') { await asked(/diff\(.*offset 5s\)/); await page.waitForSelector('.view-bar .diff-scale'); }
			await settled(page);
			seen[by] = [];
			for (const b of boxes) seen[by].push(await colour(b));
		}
		assert.equal(seen.package[0], seen.package[1]);
		assert.equal(seen.binary[0], seen.binary[1]);
		assert.notEqual(seen.binary[1], seen.binary[2]);
		assert.notEqual(seen.file[0], seen.file[1], 'files differ');
		assert.notEqual(seen.change[2], seen.package[2]);
		await walk(['main.main', 'main.serve']);
		assert.match(await point(), /before/);
		await shot(page, 'change');
		await page.mouse.move(5, 5);
	},
	async 'a small picture beside a graph that is taller than the window'() {
		await go({});
		const map = await page.locator('.minimap').boundingBox();
		await page.mouse.click(map.x + 20, map.y + map.height - 4);
		await page.waitForFunction(() => scrollY > 400);
		await shot(page, 'minimap');
		await page.evaluate(() => scrollTo(0, 0));
		await go({ q: `focus(${Q}, {function="main.work"})` });
		assert.equal(await page.locator('.minimap').count(), 0);
	},
	async 'a zoom of many boxes glides, and ends as it would be painted anew'() {
		const p = await open({ q: `focus(${Q}, {function="main.wide"})`, recursion: 'off' }, { reducedMotion: 'no-preference' });
		await settled(p);
		const looks = async () => { await p.mouse.move(5, 5); await drawn(p); return p.evaluate(() => document.querySelector('.flame canvas').toDataURL()); };
		/* how often what was there is stretched */
		await p.evaluate(() => {
			window.stretched = 0;
			const frame = window.requestAnimationFrame;
			let now = 0; /* a busy machine has as many frames */
			window.requestAnimationFrame = (f) => frame(() => f(now += 16));
			const draw = CanvasRenderingContext2D.prototype.drawImage;
			CanvasRenderingContext2D.prototype.drawImage = function (...a) { if (this.canvas.isConnected && a.length > 5) window.stretched++; return draw.apply(this, a); };
		});
		const colour = (by) => p.selectOption('[aria-label="Colour by"]', by);
		const zoomed = (key, is) => p.keyboard.press(key).then(() => p.waitForFunction((n) => document.querySelectorAll('.crumbs').length === n, is));
		const still = async (as) => until(async () => assert.ok(await looks() === as, 'it looks otherwise'), 5000);
		for (const below of [false, true]) {
			if (below) await p.locator('.view-bar .toggle', { hasText: 'Root below' }).click();
			await colour('binary');
			const binary = await looks();
			await colour('package');
			const whole = await looks();
			assert.notEqual(binary, whole);
			await walkTo(p, ['main.main', 'main.wide', 'main.leaf0'], 0, below ? 'ArrowUp' : 'ArrowDown');
			await p.evaluate(() => { window.stretched = 0; });
			await zoomed('Enter', 1);
			await until(async () => assert.ok(await p.evaluate(() => window.stretched) > 2, 'no glide'));
			assert.notEqual(await looks(), whole);
			await zoomed('Escape', 0);
			await still(whole);
			await walkTo(p, ['main.main', 'main.wide', 'main.leaf0'], 0, below ? 'ArrowUp' : 'ArrowDown');
			await zoomed('Enter', 1);
			await colour('binary');
			await p.locator('.flame canvas').focus();
			await zoomed('Escape', 0);
			await still(binary);
		}
		await p.context().close();
	},
	async 'zoom and view are in the address: a reload shows the same'() {
		await go({ invert: '1', root: 'below', rows: 'pod', color: 'file', search: 'serve' });
		await walk(['web-1', 'main.work', 'main.serve']);
		await page.keyboard.press('Enter');
		await page.waitForSelector('.crumbs .here');
		assert.equal(address(page, 'zoom'), 'web-1\nmain.work\nmain.serve');
		await settled(page);
		const state = () => page.evaluate(() => [document.querySelector('.crumbs').textContent.replace(/[\d.]+ %/, ''), document.querySelector('[aria-label="Colour by"]').value, document.querySelector('.search input').value,
			...[...document.querySelectorAll('.view-bar [aria-pressed]')].map((e) => e.getAttribute('aria-pressed')), document.querySelector('.rows-by button').textContent]);
		const before = await state();
		await page.goto(page.url());
		await page.waitForSelector('.crumbs .here');
		await settled(page);
		assert.deepEqual(await state(), before);
		await page.goBack();
		await page.keyboard.press('Escape');
	},
	async 'the menu key opens what one can do with a box'() {
		await go({});
		await walk(['main.main', 'main.serve']);
		await page.keyboard.press('Shift+F10');
		await page.waitForSelector('.context[aria-label="main.serve"], .context:has-text("main.serve")');
		await page.keyboard.press('Escape');
		await page.waitForSelector('.context', { state: 'detached' });
		assert.match(await current(), /^main\.serve,/);
	},
	async 'live refresh never moves what one reads'() {
		await page.mouse.move(5, 5);
		await page.addInitScript(LOOKS);
		await go({ view: 'both', refresh: '1' });
		const sum = () => page.textContent('.sum');
		const first = await sum();
		await page.waitForFunction((s) => document.querySelector('.sum').textContent !== s, first); /* it is alive */
		await walk(['main.main', 'main.deep0', 'main.deep1', 'main.deep2']);
		await page.keyboard.press('Enter');
		await page.waitForSelector('.crumbs .here');
		await page.evaluate(() => scrollTo(0, 400));
		await page.locator('.functable tbody tr').nth(3).hover();
		const look = () => page.evaluate(() => [scrollY, document.querySelector('.sum').textContent, document.querySelector('.crumbs').textContent, document.querySelector('.functable tbody').textContent, document.querySelector('.flame').clientHeight]);
		let before;
		await until(async () => { before = await look(); await page.waitForTimeout(300); assert.deepEqual(await look(), before, 'the zoom does not end'); });
		await page.waitForSelector('.waits:not(.unseen)');
		await page.evaluate(() => { window.looks = 0; });
		await page.waitForFunction(() => window.looks >= 2);
		assert.deepEqual(await look(), before, 'while one points at a row');
		await page.mouse.move(5, 5);
		await page.waitForFunction((s) => document.querySelector('.sum').textContent !== s, before[1]);
		const after = await look();
		assert.deepEqual([after[0], after[4]], [before[0], before[4]], 'the window does not scroll');
		assert.match(after[2], /main\.deep2/, 'the zoom stays');
		await page.evaluate(() => scrollTo(0, 0));
		await page.keyboard.press('Escape');
		const at = await walk(['main.main', 'main.serve', 'main.work']);
		const then = await sum();
		await page.waitForFunction((s) => document.querySelector('.sum').textContent !== s, then);
		await drawn(page);
		assert.equal((await current()).split(',')[0], at.split(',')[0], 'the keyboard stays at its box');
	},
	async 'in the dark, on a phone, without eyes'() {
		for (const [name, options] of [['dark', { colorScheme: 'dark' }], ['phone', { viewport: { width: 390, height: 844 }, hasTouch: true }]]) {
			const p = await open({ q: `focus(${Q}, {function="main.serve"})`, sandwich: name === 'dark' ? 'main.serve' : '' }, options);
			await settled(p);
			await shot(p, name);
			await p.click('.libraries > button');
			await p.waitForSelector('.library');
			await fits(p, name);
			await p.context().close();
		}
	},
	async 'nothing complained'() {
		assert.deepEqual(complaints, []);
	},
};

let page;
await take(steps, () => shot(page, 'failed'));
