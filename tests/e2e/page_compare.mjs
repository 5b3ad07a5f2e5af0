// SPDX-License-Identifier: Apache-2.0
// Compares profiles and reads the table as a person would: node page_compare.mjs URL DEPLOY OUTDIR. What is there, and when: test_page_compare.py. Numbers
// are held against the language's answers.
import assert from 'node:assert/strict';
import { complaints, drawn, fits, open as openAt, picture, take, until, walk } from './browser.mjs';

const [url, at, out] = process.argv.slice(2), deploy = Number(at);
const open = (path, options = {}) => openAt(url + path, { permissions: ['clipboard-read', 'clipboard-write'], ...options }, 60000);
const shot = (p, name, more) => picture(p, out, `compare-${name}`, more);
const param = (p, name) => new URL(p.url()).searchParams.get(name);
const SHOP = 'merge(cpu{job="shop",pod="a"}[5m])';
const path = (o) => `/?${new URLSearchParams(o)}`;
const settled = async (p) => { await p.waitForSelector('.progress:not(.on)'); await p.waitForSelector('.functable:not(.pending) tbody tr:not(.gap)'); await drawn(p); };

/** The language's answer: by function, or a number. */
async function ask(query, time = deploy + 3600) {
	const u = new URL('api/v1/query', `${url}/`);
	u.search = new URLSearchParams({ query, time });
	const a = await (await fetch(u)).json();
	assert.equal(a.status, 'success', `${query}: ${a.error}`);
	return a.data.result;
}
const byName = async (query) => Object.fromEntries((await ask(query)).map((r) => [r.metric.function, Number(r.value[1])]));
const number = async (query) => Number((await ask(query))[0].value[1]);

/** The table as its own "copy as text" has it: a map from name to cells by title. */
async function rows(p) {
	await p.evaluate(() => navigator.clipboard.writeText(''));
	await p.click('.table-bar [aria-label^="Copy "]');
	await p.waitForFunction(async () => await navigator.clipboard.readText() !== '');
	const [head, ...lines] = (await p.evaluate(() => navigator.clipboard.readText())).trimEnd().split('\n').map((l) => l.split('\t'));
	return { head, lines, list: lines.map((l) => l[0]), of: (name) => Object.fromEntries(head.map((h, i) => [h, lines.find((l) => l[0] === name)?.[i]])) };
}
const near = (a, b, what) => assert.ok(Math.abs(Number(a) - b) <= 1e-6 * Math.max(1, Math.abs(b)), `${what}: ${a} is not ${b}`);
const row = (p, name) => p.locator('.functable tbody tr', { has: p.locator(`th span:text-is("${name}")`) });
const NOW = `merge(cpu{job="shop",pod="a"}[5m] @ ${deploy + 300})`, BASE = `merge(cpu{job="shop",pod="a"}[5m] @ ${deploy})`;

const steps = {
	async '"vs before" compares with the time before of the same length'() {
		page = await open(path({ q: SHOP, from: deploy - 900, to: deploy + 900, a: deploy, b: deploy + 300, view: 'both' }));
		await settled(page);
		await page.click('.picked >> text=vs before');
		await page.waitForSelector('.compare');
		await settled(page);
		assert.equal(param(page, 'base'), `${deploy - 300}-${deploy} ${SHOP}`);
		assert.equal(param(page, 'now'), `${deploy}-${deploy + 300} ${SHOP}`);
	},
	async 'each side has its query, time and graph; both flame graphs and the difference'() {
		for (const side of ['Base', 'Now']) {
			const s = page.locator(`section.side[aria-label="${side}"]`);
			assert.equal(await s.locator('textarea').inputValue(), SHOP);
			await s.locator('.plot-over').waitFor();
			assert.match(await s.locator('.popover').first().textContent(), /\d\d:\d\d:\d\d – \d\d:\d\d:\d\d/);
		}
		await page.waitForSelector('.side-flame canvas');
		assert.equal(await page.locator('.side-flame .flame canvas').count(), 2);
		assert.equal(await page.locator('.profile .flame canvas').count(), 1);
		await page.waitForSelector('.noise-note .noise');
		await shot(page, 'shares');
	},
	async 'shares: base, now, change and relative change are the language\'s'() {
		const [now, base, change] = await Promise.all([byName(`self_share(${NOW})`), byName(`self_share(${BASE})`), byName(`self_share(diff(${NOW}, ${BASE}, "share"))`)]);
		const t = await rows(page);
		assert.deepEqual(t.head, ['Functions', 'Self base (%)', 'Self now (%)', 'Self change (%)', 'Self relative (%)']);
		assert.deepEqual([...t.list].sort(), Object.keys(await byName(`total(diff(${NOW}, ${BASE}))`)).sort());
		for (const name of ['hot', 'parse', 'old', 'fresh']) {
			const r = t.of(name);
			near(r['Self base (%)'], 100 * (base[name] ?? 0), `base of ${name}`);
			near(r['Self now (%)'], 100 * (now[name] ?? 0), `now of ${name}`);
			near(r['Self change (%)'], 100 * change[name], `change of ${name}`);
		}
		assert.equal(t.of('fresh')['Self relative (%)'], 'new');
		assert.equal(await row(page, 'old').locator('td').last().textContent(), 'gone');
	},
	async 'absolute: amounts, with signs, and totals'() {
		await page.click('[aria-label="Compare"] :text-is("Absolute")');
		await page.waitForFunction(() => /→/.test(document.querySelector('.profile .sum')?.textContent));
		await settled(page);
		assert.equal(param(page, 'measure'), 'absolute');
		const [now, base] = await Promise.all([byName(`self(${NOW})`), byName(`self(${BASE})`)]), t = await rows(page);
		for (const name of ['hot', 'parse', 'old', 'fresh']) {
			near(t.of(name)['Self base (nanoseconds)'], 1e9 * (base[name] ?? 0), `base of ${name}`);
			near(t.of(name)['Self now (nanoseconds)'], 1e9 * (now[name] ?? 0), `now of ${name}`);
		}
		assert.equal(await page.locator('.fairness').count(), 0);
		assert.match(await page.textContent('.profile .sum'), /28\.8 s → 40\.6 s\+41\.0 %/);
		for (const text of await page.locator('.functable td.num:nth-of-type(3)').allTextContents()) assert.match(text, /^(≈ )?[+−±]/);
	},
	async 'greys what is within three standard errors'() {
		await page.waitForSelector('.noise-note .noise');
		const classes = async (name) => (await row(page, name).locator('td').nth(2).getAttribute('class')).split(' ');
		assert.ok((await classes('parse')).includes('noise'), 'parse moved by 10 of 900 samples');
		assert.ok((await classes('hot')).includes('more') && (await classes('old')).includes('less') && (await classes('fresh')).includes('more'));
		assert.match(await row(page, 'parse').locator('td').nth(2).textContent(), /^≈ \+100 ms/);
		/* SE² = v1 u0 + v0 u1: 9.1 s and 9 s, a sample is 10 ms */
		assert.match(await row(page, 'parse').locator('td').nth(2).getAttribute('title'), /within three standard errors \(± 1\.28 s\)/);
		const counts = await Promise.all([number(`samples(${BASE})`), number(`samples(${NOW})`)]);
		assert.ok((await page.textContent('.noise-note')).includes(`${counts[0].toLocaleString('en-US')} samples of the base and ${counts[1].toLocaleString('en-US')} of now`));
	},
	async 'the flame graph has the same grey'() {
		const box = async (name) => {
			await walk(page, ['main', 'work', name]);
			const f = await page.locator('.profile .flame-frame').boundingBox(), c = await page.locator('.profile .flame canvas').boundingBox();
			/* in its lower right corner there is no text */
			const rgb = await page.evaluate(([x, y]) => { const e = document.querySelector('.profile .flame canvas'), k = devicePixelRatio; return [...e.getContext('2d').getImageData(Math.round(x * k), Math.round(y * k), 1, 1).data].slice(0, 3); }, [f.x - c.x + f.width - 4, f.y - c.y + f.height - 3]);
			return { rgb, colour: Math.max(...rgb) - Math.min(...rgb), x: f.x + 20, y: f.y + 8 };
		};
		const hot = await box('hot'), parse = await box('parse');
		assert.ok(hot.colour > 40, `hot is ${hot.rgb}`);
		assert.ok(parse.colour < 12, `parse is ${parse.rgb}`);
		await page.mouse.move(parse.x, parse.y);
		await page.waitForSelector('.tip:has-text("parse") td:has-text("≈ +100 ms")');
		await page.mouse.move(5, 5);
		await shot(page, 'noise', { fullPage: true });
	},
	async 'red and green is an option'() {
		const pixels = () => page.evaluate(() => { const c = document.querySelector('.profile .flame canvas'); return [...c.getContext('2d').getImageData(40, Math.round(31 * devicePixelRatio), 1, 1).data].join(); });
		const before = await pixels();
		await page.click('.diff-scale');
		assert.equal(param(page, 'change'), 'red');
		await until(async () => assert.notEqual(await pixels(), before));
		await page.click('.diff-scale');
		assert.equal(param(page, 'change'), null);
	},
	async 'a reload shows the same, and a link has absolute times'() {
		await page.click('.functable thead button:has-text("Relative")');
		const before = await rows(page), address = page.url();
		assert.equal(param(page, 'order'), 'selfRelative');
		assert.equal(param(page, 'last'), null);
		await page.goto(address);
		await page.waitForSelector('.compare');
		await settled(page);
		await page.waitForSelector('.noise-note .noise');
		assert.equal(page.url(), address);
		assert.deepEqual((await rows(page)).list, before.list);
		assert.equal(before.list[0], 'fresh');
	},
	async 'unequal times are compared per second, and it says so'() {
		await page.goto(url + path({ q: SHOP, measure: 'absolute', view: 'both', base: `${deploy - 300}-${deploy} ${SHOP}`, now: `${deploy + 600}-${deploy + 900} ${SHOP}` }));
		await page.waitForSelector('.fairness');
		await settled(page);
		assert.match(await page.textContent('.fairness'), /base was observed for 5m, now for 2m30s.*per second/);
		const later = `merge(cpu{job="shop",pod="a"}[5m] @ ${deploy + 900})`, t = await rows(page);
		near(t.of('hot')['Self now (nanoseconds)'], 1e9 * (await byName(`self(${later})`)).hot, 'now');
		near(t.of('hot')['Self base (nanoseconds)'], 1e9 * (await byName(`self(${BASE} * 0.5)`)).hot, 'base');
		assert.equal(t.of('parse')['Self change (nanoseconds)'], '0'); /* as much per second */
		assert.equal(await row(page, 'parse').locator('td').nth(2).textContent(), '≈ ±0');
		await shot(page, 'per-second');
	},
	async 'presets: a day ago, another value of a label, swap'() {
		await page.click('.base-is :text-is("a day ago")');
		await page.waitForFunction((t) => new URL(location.href).searchParams.get('base').startsWith(t), `${deploy + 600 - 86400}-`);
		await page.waitForSelector('.side[aria-label=Base] >> text=No samples');
		await page.click('text=values of a label');
		await page.selectOption('.label-sides label:has-text("Label") select', 'pod');
		await page.waitForFunction(() => [...document.querySelectorAll('.label-sides label')].find((l) => /^Base/.test(l.textContent)).querySelector('select').value === 'b');
		await page.click('.label-sides .primary');
		await settled(page);
		assert.equal(param(page, 'base'), `${deploy + 600}-${deploy + 900} ${SHOP.replace('pod="a"', 'pod="b"')}`);
		await page.click('text=Swap sides');
		await settled(page);
		assert.equal(param(page, 'now'), `${deploy + 600}-${deploy + 900} ${SHOP.replace('pod="a"', 'pod="b"')}`);
		assert.equal(param(page, 'base'), `${deploy + 600}-${deploy + 900} ${SHOP}`);
	},
	async 'both flame graphs zoom together, filters go to both sides'() {
		await page.focus('.side-flame[aria-label$="base"] canvas');
		await page.keyboard.press('ArrowDown');
		await page.keyboard.press('ArrowDown');
		await page.keyboard.press('Enter');
		await page.waitForSelector('.crumbs .here');
		assert.equal(param(page, 'zoom'), 'main\nwork');
		assert.match(await page.textContent('.crumbs .here'), /^work/);
		await page.goto(url + path({ measure: 'share', view: 'both', base: `${deploy - 300}-${deploy} focus(${SHOP}, "work")`, now: `${deploy}-${deploy + 300} focus(${SHOP}, "work")` }));
		await settled(page);
		assert.match(await page.textContent('.tags'), /only with "?work/);
		near((await rows(page)).of('hot')['Self now (%)'], 100 * (await byName(`self_share(${NOW})`)).hot, 'a share of the whole');
		await page.click('.tags .tag-x');
		await page.waitForFunction((q) => ['base', 'now'].every((k) => new URL(location.href).searchParams.get(k).endsWith(` ${q}`)), SHOP);
	},
	async 'a click on a side\'s graph changes its time; the cross leads back'() {
		const over = page.locator('.side[aria-label=Base] .plot-over'), box = await over.boundingBox();
		await page.mouse.move(box.x + 20, box.y + 40);
		await page.mouse.down();
		await page.mouse.move(box.x + 90, box.y + 40, { steps: 4 });
		await page.mouse.up();
		await page.waitForFunction((t) => !new URL(location.href).searchParams.get('base').startsWith(t), `${deploy - 300}-${deploy} `);
		await page.click('[aria-label="End the comparison"]');
		await page.waitForSelector('.compare', { state: 'detached' });
		assert.equal(param(page, 'base'), null);
		assert.equal(param(page, 'q'), SHOP);
		assert.equal(param(page, 'a'), String(deploy));
		await page.click('.when :text-is("Compare")');
		await page.waitForSelector('.compare');
	},
	async 'table: flat and cumulative are the language\'s, whole'() {
		await page.goto(url + path({ q: `merge(cpu{job="big"}[5m])`, from: deploy - 300, to: deploy, view: 'table' }));
		await settled(page);
		const q = `merge(cpu{job="big"}[5m] @ ${deploy})`, [self, total] = await Promise.all([byName(`self(${q})`), byName(`total(${q})`)]);
		const t = await rows(page);
		assert.equal(t.list.length, 10000 + 350 + 1);
		assert.ok(await page.locator('.functable tbody tr').count() < 200);
		const wrong = t.lines.filter(([n, own, , all]) => Math.abs(Number(all) - 1e9 * total[n]) > 0.5 || Math.abs(Number(own) - 1e9 * (self[n] ?? 0)) > 0.5);
		assert.deepEqual(wrong, []);
		await shot(page, 'table');
	},
	async 'table: keyboard'() {
		await page.focus('.functable table');
		const name = () => page.evaluate(() => document.getElementById(document.querySelector('.functable table').getAttribute('aria-activedescendant'))?.querySelector('th button').title.split('\n')[0]);
		const first = await page.evaluate(() => document.querySelector('.functable tbody tr:not(.gap) th button').title.split('\n')[0]);
		await page.keyboard.press('Home');
		assert.equal(await name(), first);
		await page.keyboard.press('End');
		await until(async () => assert.match(await name(), /caller|main/)); /* they cost nothing themselves */
		await page.keyboard.press('ArrowUp');
		await page.keyboard.press('PageUp');
		await until(async () => assert.ok(await name()));
		await page.keyboard.press('Home');
		await page.keyboard.press('ArrowDown');
		await page.keyboard.press('Shift+F10');
		await page.waitForSelector('[role=menu]');
		await page.keyboard.press('Escape');
		await page.focus('.functable table');
		await page.keyboard.press('Enter');
		await page.waitForFunction(() => /^\^pkg/.test(new URL(location.href).searchParams.get('search')));
		await page.fill('.search input', 'pkg7\\.caller');
		await page.waitForFunction(() => document.querySelectorAll('.functable tbody tr:not(.gap)').length === 7);
		await page.fill('.search input', '');
	},
	async 'table: columns and order, in the address'() {
		await page.click('.functable thead button:has-text("Function")');
		assert.equal(param(page, 'order'), 'name');
		assert.equal(await page.getAttribute('.functable thead th:first-child', 'aria-sort'), 'ascending');
		await page.click('.table-bar >> text=Columns');
		await page.click('.columns label:has-text("Self %")');
		await page.click('.columns label:has-text("File")');
		assert.equal(param(page, 'columns'), '-selfShare,+file');
		await page.keyboard.press('Escape');
		await page.goto(page.url());
		await settled(page);
		assert.deepEqual((await page.locator('.functable thead button').allTextContents()).map((s) => s.replace(/[▴▾]/, '')), ['Function', 'Self', 'Total', 'Total %', 'File']);
		assert.equal((await rows(page)).list[0], 'main');
	},
	async 'table: line by line'() {
		await page.goto(url + path({ q: `merge(cpu{job="fib"}[5m])`, from: deploy - 300, to: deploy, view: 'table', per: 'line', columns: '+file' }));
		await settled(page);
		const wanted = await ask(`self(merge(cpu{job="fib"}[5m] @ ${deploy}), "line")`);
		const t = await rows(page), of = (h) => t.head.indexOf(h);
		for (const r of wanted) {
			const place = r.metric.line && r.metric.line !== '0' ? `${r.metric.file}:${r.metric.line}` : r.metric.file ?? '';
			const found = t.lines.filter((l) => l[0] === r.metric.function && l[of('File')] === place).map((l) => Number(l[of('Self (nanoseconds)')]));
			assert.ok(found.some((v) => Math.abs(v - 1e9 * Number(r.value[1])) < 0.5), `${r.metric.function} ${place}: ${found} is not ${r.value[1]}`);
		}
		await shot(page, 'lines');
		for (const grain of ['package', 'file', 'binary']) {
			await page.selectOption('.grain select', grain);
			await settled(page);
			assert.equal(param(page, 'per'), grain);
		}
	},
	async 'usable without eyes, on a phone, in the dark'() {
		const sides = { base: `${deploy - 300}-${deploy} ${SHOP}`, now: `${deploy}-${deploy + 300} ${SHOP}`, view: 'both' };
		for (const [name, options] of [['dark', { colorScheme: 'dark' }], ['phone', { viewport: { width: 390, height: 844 }, hasTouch: true }]]) {
			const p = await open(path(sides), options);
			await p.waitForSelector('.side-flame canvas');
			await settled(p);
			await p.waitForSelector('.noise-note .noise');
			await fits(p, `comparison, ${name}`);
			await shot(p, name, { fullPage: true });
			/* A graph below the window is drawn when it comes into it. */
			await p.locator('.flame canvas').first().evaluate((c) => scrollTo(0, c.getBoundingClientRect().top + scrollY - 200));
			await until(async () => assert.ok(await p.locator('.flame canvas').first().evaluate((c) => c.height > 60 * devicePixelRatio), 'it is not drawn whole'));
			await shot(p, `${name}-graph`);
			await p.context().close();
		}
	},
	async 'nothing complained'() {
		assert.deepEqual(complaints, []);
	},
};

let page;
await take(steps, () => shot(page, 'failed'));
