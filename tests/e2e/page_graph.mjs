// SPDX-License-Identifier: Apache-2.0
// The graph of the page, used as a person would: node page_graph.mjs URL OUTDIR {"base": SECONDS}. The data is that of test_page_graph.py.
import assert from 'node:assert/strict';
import { complaints, drawn, fits, LOOKS, open as openAt, picture, take, until } from './browser.mjs';

const [url, out, facts] = process.argv.slice(2);
const { base } = JSON.parse(facts);
const ECHO = 'merge(cpu{job="echo"}[30m])', SHOP = 'merge(cpu{job="shop"}[10m])';
const HALF = { from: base, to: base + 1800 };
const address = (q, more = HALF) => `${url}/?${new URLSearchParams({ q, ...more })}`;
const open = async (q, more, options = {}) => {
	const p = await openAt(address(q, more), { timezoneId: 'Asia/Kathmandu', ...options }, 60000);
	await settled(p);
	return p;
};
const settled = async (p) => {
	await p.waitForSelector('.legend li, .none');
	await p.waitForSelector('.progress:not(.on)');
};
const goTo = async (q, more) => { await page.goto(address(q, more)); await settled(page); };
const shot = (p, name) => picture(p, out, `graph-${name}`);
const param = (p, name) => new URL(p.url()).searchParams.get(name);
const has = (name, value) => page.waitForFunction(([n, v]) => { const x = new URL(location.href).searchParams.get(n); return v === null ? x !== null : x === v; }, [name, value ?? null]);
const api = async (path, params) => (await (await fetch(`${url}/api/v1/${path}?${new URLSearchParams(params)}`)).json()).data.result;
const value = async (query, time) => Number((await api('query', { query, time }))[0]?.value[1]);
const text = (selector, p = page) => p.locator(selector).first().textContent();

/** Where a moment and a value are in the window, by the scales of the plot, which go from its first moment to its last and from 0. */
async function point(p, t, v, { from = base, to = base + 1800, top } = {}) {
	const b = await p.locator('.plot-over').boundingBox();
	return { x: b.x + (t - from) / (to - from) * b.width, y: top === undefined ? b.y + b.height / 2 : b.y + b.height * (1 - v / top) };
}
/** The largest value is a bit below the top. */
const TOP = 2 / 3 * 1.08;

const steps = {
	async 'hover: value, total of that profile, labels'() {
		page = await open(ECHO);
		const at = await point(page, base + 1500, 2 / 3, { top: TOP });
		await page.mouse.move(at.x - 3, at.y + 3);
		await page.mouse.move(at.x, at.y);
		await page.waitForSelector('.graph-tip .sum-row .total');
		const tip = await page.locator('.graph-tip > *').allTextContents();
		assert.match(tip.join('|'), /echo-2a · 2\.0\s*0\.67\s*10\.0 s\|echo-2b · 2\.0\s*0\.53\s*8\.00 s/);
		assert.equal(await value('sum(cpu{job="echo"})', base + 1500), 18);
		assert.match(tip.join('|'), /all profiles then\s*18\.0 s/);
		assert.equal(await text('.graph-tip .near span'), 'echo-2a · 2.0');
		assert.match(tip.join('|'), /pod=echo-2aversion=2\.0/);
		await shot(page, 'hover');
	},
	async 'the cursor\'s line is under the pointer, and nowhere else'() {
		const p = await open(ECHO), line = p.locator('.plot-cursor'), at = await point(p, base + 1500, 0);
		assert.ok(!await line.isVisible(), 'it stands in a graph that nobody has pointed at');
		const seen = async () => { await p.waitForSelector('.graph-tip'); assert.ok(await line.isVisible()); };
		const gone = async (when) => { await p.waitForSelector('.graph-tip', { state: 'detached' }); assert.ok(!await line.isVisible(), when); };
		await p.mouse.move(at.x, at.y);
		await seen();
		await p.mouse.move(5, 5);
		await gone('the pointer has left');
		/* a drag that ends beside the graph */
		await p.mouse.move(at.x, at.y);
		await p.mouse.down();
		await p.mouse.move(at.x - 80, at.y + 300, { steps: 4 });
		await p.mouse.up();
		await p.waitForFunction(() => new URL(location.href).searchParams.has('a'));
		await gone('the drag is over');
		await p.focus('.graph-host');
		await p.keyboard.press('End');
		await seen();
		await p.keyboard.press('Escape');
		await gone('the keyboard\'s cursor is put away');
		await p.context().close();
	},
	async 'a series that is over has no value any more'() {
		await goTo(ECHO);
		const last = (pod) => page.locator(`.legend li:has-text("${pod}") > em`);
		assert.equal(await last('echo-2a').textContent(), '0.67');
		assert.equal(await last('echo-1a').textContent(), 'ended');
		assert.match(await last('echo-1a').getAttribute('title'), /^0\.\d+ at .*\d\d:\d\d:\d\d, and nothing since$/);
		await goTo(ECHO, { from: base, to: base + 600 });
		assert.match(await last('echo-1a').textContent(), /^0\.\d+$/, 'it is not over yet');
	},
	async 'a series without labels is called by its query, whose middle is left out where there is no room'() {
		const q = 'sum(rate(cpu{job="echo",container="echoserver"}[1m])) + 0 * max(rate(cpu{job="echo",zone="north"}[1m]))';
		await goTo(q);
		const name = page.locator('.legend .line-main .cut'), head = name.locator('i').first();
		assert.equal(await name.textContent(), q);
		assert.ok((await page.getAttribute('.legend .line-main', 'title')).startsWith(`${q}\n`));
		assert.ok(await head.evaluate((e) => e.scrollWidth > e.clientWidth), 'it is not cut');
		assert.equal(await name.getAttribute('data-end'), q.slice(-10), 'no word begins near its end');
		assert.ok(await name.evaluate((e) => getComputedStyle(e, '::after').content !== 'none' && e.getBoundingClientRect().right <= e.closest('.legend').getBoundingClientRect().right), 'its end is cut');
		assert.equal(await name.evaluate((e) => { getSelection().selectAllChildren(e); const s = String(getSelection()); getSelection().removeAllRanges(); return s; }), q, 'a copy of it is whole, in one line');
		const area = page.locator('.editor textarea'), whole = () => area.evaluate((e) => e.scrollHeight <= e.clientHeight);
		await until(async () => assert.ok(await whole(), 'the query has more lines than are seen'));
		await page.setViewportSize({ width: 700, height: 900 });
		await until(async () => assert.ok(await whole(), 'its box is as high as its lines in a narrow window, too'));
		await page.setViewportSize({ width: 1440, height: 900 });
		const at = await point(page, base + 1500, 0);
		await page.mouse.move(at.x, at.y);
		await page.waitForSelector('.graph-tip .cut');
		await page.mouse.move(5, 5);
		await shot(page, 'name');
		await goTo(ECHO);
	},
	async 'a click opens that profile'() {
		const at = await point(page, base + 1500, 2 / 3, { top: TOP });
		await page.mouse.click(at.x, at.y);
		await has('at', String(base + 1500));
		assert.equal(param(page, 'of'), 'pod=echo-2a\nversion=2.0');
		await page.waitForFunction(() => document.querySelector('.sum').textContent.startsWith('10.0 s'));
		await page.reload();
		await settled(page);
		await page.waitForFunction(() => document.querySelector('.sum').textContent.startsWith('10.0 s'));
	},
	async 'beside the lines: the profiles of all'() {
		const at = await point(page, base + 1500, 0.3, { top: TOP });
		await page.mouse.move(at.x, at.y + 2);
		await page.mouse.click(at.x, at.y);
		await page.waitForFunction(() => document.querySelector('.sum').textContent.startsWith('18.0 s'));
		assert.equal(param(page, 'of'), null);
		await page.waitForSelector('.legend-when:has-text("all profiles then 18.0 s")');
	},
	async 'each label is a click away from the query'() {
		await page.click('.legend li:has-text("echo-1b") [aria-label^="Labels of"]', { force: true });
		await page.click('.legend .tag-text:has-text("version=1.0")');
		await has('q', 'merge(cpu{job="echo",version="1.0"}[30m])');
		await page.goBack();
		await has('q', ECHO);
		await settled(page);
		await page.locator('.legend li:has-text("echo-1b")').hover();
		await page.click('.legend [aria-label^="Narrow the query to echo-1b"]');
		await page.waitForFunction(() => /pod="echo-1b",version="1.0"|version="1.0",pod="echo-1b"/.test(new URL(location.href).searchParams.get('q')));
	},
	async 'what all have stands once above the legend'() {
		await goTo(ECHO);
		assert.deepEqual(await page.locator('.shared .tag-text').allTextContents(), ['job=echo', 'container=echoserver', 'zone=north']);
		assert.ok(!/north/.test(await text('.legend > ul')));
		await page.click('.shared .tag-text:has-text("zone=north")');
		await has('q', 'merge(cpu{job="echo",zone="north"}[30m])');
	},
	async 'a drag picks a range, with Shift the baseline'() {
		await goTo(ECHO);
		const drag = async (a, b) => {
			const from = await point(page, base + a), to = await point(page, base + b);
			await page.mouse.move(from.x, from.y);
			await page.mouse.down();
			await page.mouse.move(to.x, to.y, { steps: 4 });
			await page.mouse.up();
		};
		await drag(1200, 1500);
		await has('a');
		assert.ok(Math.abs(Number(param(page, 'a')) - base - 1200) < 5 && Math.abs(Number(param(page, 'b')) - base - 1500) < 5);
		await page.keyboard.down('Shift');
		await drag(300, 600);
		await page.keyboard.up('Shift');
		await has('base');
		const [from, to] = param(page, 'base').split(' ')[0].split('-').map(Number);
		assert.ok(Math.abs(from - base - 300) < 5 && Math.abs(to - base - 600) < 5, param(page, 'base'));
		await shot(page, 'baseline');
	},
	async 'says where a version changed, and compares around it'() {
		await goTo(ECHO);
		const mark = page.locator('.mark button').first();
		await mark.waitFor();
		assert.match(await mark.getAttribute('aria-label'), /^version 1\.0 → 2\.0 at \d\d:\d\d:\d\d$/);
		await mark.click();
		assert.match(await text('.mark-body'), /version 1\.0 → 2\.0.*job=echo.*container=echoserver/);
		await shot(page, 'mark');
		await page.click('.mark-body :text-is("Compare around")');
		await has('base');
		const [, b] = param(page, 'base').split(' ')[0].split('-').map(Number), [a] = param(page, 'now').split(' ')[0].split('-').map(Number);
		assert.ok(a === b && Math.abs(a - base - 900) <= 30, `${a}`);
	},
	async 'also where pods are added up'() {
		await goTo('sum by (job)(rate(cpu{job="echo"}[1m]))');
		await page.waitForSelector('.mark button[aria-label*="version 1.0 → 2.0"]');
	},
	async 'says where alerts fired, those that are about this'() {
		await goTo(ECHO);
		const fired = page.locator('.mark.fired button').first();
		await fired.waitFor();
		assert.match(await fired.getAttribute('aria-label'), /^TooHot fired from/);
		assert.equal(await page.locator('.mark').count(), 2);
		await fired.focus();
		await page.keyboard.press('Enter');
		assert.match(await text('.mark-body'), /TooHot.*\(5m10s\).*container=echoserver/);
		await page.click('.mark-body :text-is("Its profile")');
		await has('a', String(base + 1200));
		assert.equal(param(page, 'b'), String(base + 1510));
	},
	async 'ninety series: the ten largest, and the rest exactly'() {
		await goTo(SHOP, { from: base, to: base + 600 });
		const names = () => page.locator('.legend .line-main span').allTextContents();
		assert.deepEqual(await names(), [...Array.from({ length: 10 }, (_, i) => `shop-${89 - i}`), '80 others, added up']);
		assert.match(await text('.legend li:last-child > em'), /^\d/);
		assert.match(await text('.legend-when'), /^the 10 largest of 90\s*others are not drawn$/);
		await shot(page, 'ninety-largest');
		await page.click('.legend :text-is("Draw their sum, too")');
		assert.equal(param(page, 'hide'), '=others');
		assert.match(await text('.legend-when'), /^the 10 largest of 90$/);
		await page.focus('.graph-host');
		await page.keyboard.press('End');
		for (let i = 0; i < 3; i++) await page.keyboard.press('PageDown');
		await page.keyboard.press('ArrowUp');
		const said = await page.getAttribute('.graph-host', 'aria-valuetext');
		const t = base + Math.round(600 / 5) * 5, m = /: 80 others, added up ([\d.]+)/.exec(said);
		assert.ok(m, said);
		const now = Number(await page.getAttribute('.graph-host', 'aria-valuenow')), step = Math.round(600 / Number(await page.getAttribute('.graph-host', 'aria-valuemax')));
		const when = base + now * step;
		assert.ok(when < t);
		const expected = await value('sum(bottomk(80, rate(cpu{job="shop"}[30s])))', when);
		assert.ok(Math.abs(Number(m[1]) - expected) < 0.006, `${m[1]} is not ${expected}`);
		await shot(page, 'ninety');
		await page.click('.legend :text-is("Show 10 more of them")');
		assert.equal((await names())[20], '70 others, added up');
		assert.equal(param(page, 'lines'), '20');
		await page.reload();
		await settled(page);
		assert.equal((await names()).length, 21);
	},
	async 'what is hidden is in the address'() {
		await goTo(SHOP, { from: base, to: base + 600, lines: 20, hide: '=others' });
		await page.locator('.legend li:has-text("70 others")').hover();
		await page.click('.legend [aria-label^="Hide 70 others"]');
		assert.equal(param(page, 'hide'), null);
		await page.locator('.legend li:nth-child(2)').hover();
		await page.click('.legend li:nth-child(2) [aria-label^="Hide"]');
		await has('hide');
		await page.click('.legend li:nth-child(3) .line-main');
		await has('hide');
		const link = page.url();
		await page.goto(link);
		await settled(page);
		assert.equal(await page.locator('.legend li.off').count(), 19);
		assert.equal(await page.locator('.legend [aria-pressed=true].line-main').count(), 1);
		await page.click('.legend li:nth-child(3) .line-main');
		await page.waitForFunction(() => !new URL(location.href).searchParams.has('hide'));
	},
	async 'a function over time, with its error band'() {
		await goTo(ECHO, { ...HALF, fn: 'main.fib' });
		await page.waitForSelector('.function-line em:has-text("%")');
		await page.focus('.graph-host');
		await page.keyboard.press('Home');
		for (let i = 0; i < 5; i++) await page.keyboard.press('PageUp');
		const row = await page.locator('.graph-tip div:has-text("main.fib") em').textContent();
		const q = 'merge(cpu{job="echo"}[1m])', when = base + 50 * await step() + (60 - 50 * await step() % 60) % 60;
		const [p, low, high] = await Promise.all([`share(${q}, {function="main.fib"})`, `share_low(${q}, {function="main.fib"}, 2)`, `share_high(${q}, {function="main.fib"}, 2)`].map((e) => value(e, when)));
		const percent = (v) => `${(v * 100).toFixed(v >= 0.1 ? 1 : 2)} %`;
		assert.equal(row, `${percent(p)} (${percent(low)} – ${percent(high)})`);
		assert.match(await page.getAttribute('.graph-host', 'aria-valuetext'), /main\.fib \d/);
		const asked = await page.evaluate(() => performance.getEntriesByType('resource').map((e) => new URL(e.name)).filter((u) => /^(share|samples)\(/.test(u.searchParams.get('query'))).map((u) => (u.searchParams.get('end') - u.searchParams.get('start')) / u.searchParams.get('step')));
		assert.ok(asked.length === 2 && asked.every((n) => n <= 60), `asked for ${asked} merges`);
		await page.keyboard.press('Escape');
		await shot(page, 'function');
		await page.click('.legend [aria-label="Close the graph of main.fib"]');
		await page.waitForFunction(() => !new URL(location.href).searchParams.has('fn'));
		assert.equal(await page.locator('.function-line').count(), 0);
	},
	async 'from any frame or row of the profile'() {
		await goTo(ECHO, { ...HALF, view: 'both' });
		await page.locator('.flame canvas').first().click({ button: 'right', position: { x: 200, y: 28 } });
		await page.click('[role=menuitem]:has-text("Its share over time")');
		await has('fn', 'main.serve');
		await page.waitForSelector('.function-line em:has-text("100 %")');
		await page.locator('.functable tbody tr:has-text("main.write")').first().click({ button: 'right' });
		await page.click('[role=menuitem]:has-text("Its share over time")');
		await has('fn', 'main.serve\nmain.write');
		await page.waitForFunction(() => document.querySelectorAll('.function-line').length === 2);
	},
	async 'by keyboard: moments, lines, ranges'() {
		await goTo(ECHO);
		await page.focus('.graph-host');
		const said = () => page.getAttribute('.graph-host', 'aria-valuetext');
		assert.match(await said(), /^.* to .*\. 4 lines, 2 marks\./);
		await page.keyboard.press('End');
		await page.keyboard.press('ArrowLeft');
		const before = await said();
		await page.keyboard.press('ArrowLeft');
		assert.notEqual(await said(), before);
		await page.waitForFunction(() => /profile \d/.test(document.querySelector('.graph-host').getAttribute('aria-valuetext')));
		await page.keyboard.press('ArrowDown');
		assert.match(await said(), /: echo-2a · 2\.0 0\.67, profile 10\.0 s$/);
		await page.keyboard.press('Enter');
		await has('of');
		const t = Number(param(page, 'at'));
		await page.keyboard.press('Escape');
		for (let i = 0; i < 4; i++) await page.keyboard.press('Shift+ArrowLeft');
		const s = await step();
		assert.match(await said(), / to .*: /);
		await page.keyboard.press('Enter');
		await has('b', String(t));
		assert.equal(Number(param(page, 'a')), t - 3 * s);
		await page.keyboard.press('Home');
		for (let i = 0; i < 4; i++) await page.keyboard.press('Shift+ArrowRight');
		await page.keyboard.press('b');
		await has('base');
		assert.ok(param(page, 'base').startsWith(`${base}-${base + 4 * s} `), param(page, 'base'));
	},
	async 'UTC or local, in the browser and in the address'() {
		await goTo(ECHO, { ...HALF, at: base + 1500 });
		const clock = (t, minutes) => new Date((t + minutes * 60) * 1000).toISOString().slice(11, 19);
		assert.ok((await text('.picked.on')).includes(clock(base + 1500, 345)), 'local');
		await page.click('.zone');
		assert.equal(param(page, 'tz'), 'utc');
		await page.waitForFunction((c) => document.querySelector('.picked.on').textContent.includes(c), clock(base + 1500, 0));
		assert.ok((await text('.timerange')).includes(clock(base, 0)));
		assert.ok((await text('.legend-when')).includes(clock(base + 1500, 0)));
		await page.click('.top nav a:has-text("Targets")');
		assert.equal(param(page, 'tz'), 'utc');
		await goTo(ECHO, { ...HALF, at: base + 1500 });
		assert.ok((await text('.picked.on')).includes(clock(base + 1500, 0)), 'the browser remembers');
		const other = await open(ECHO, { ...HALF, at: base + 1500, tz: 'utc' });
		assert.ok((await text('.picked.on', other)).includes(clock(base + 1500, 0)), 'a link says');
		await other.context().close();
		await page.click('.zone');
		assert.equal(param(page, 'tz'), null);
	},
	async 'says why there is nothing, and what would help'() {
		const WHY = [
			['merge(cpux[5m])', /no profile type and no metric called cpux.*Did you mean cpu/s, 'merge(cpu[5m])'],
			['merge(cpu{job="echo",pod="nobody"}[5m])', /match pod="nobody".*pod has .*echo-1a.*Leave that matcher out/s, 'merge(cpu{job="echo",pod="echo-1a"}[5m])'],
			['merge(cpu{job="broken"}[5m])', /A target is down: broken\/127\.0\.0\.1:9\. .*Targets/s],
			['sum(rate(cpu{job="echo"}[1m])) > 7', /values are between .* and 1\.2.*none is > 7/s, 'sum(rate(cpu{job="echo"}[1m]))'],
			['sum(rate(up{job="live"}[1ms]))', /not enough samples within \[1ms\].*Use \[2m\]/s, 'sum(rate(up{job="live"}[2m]))', { last: 300 }],
			['max(up{job="none"})', /match job="none"/, undefined, { last: 300 }],
		];
		for (const [q, why, then, more] of WHY) {
			await goTo(q, more);
			await page.waitForFunction((re) => new RegExp(re, 's').test(document.querySelector('.none')?.textContent ?? ''), why.source).catch(async () => assert.match(await text('.none'), why, q));
			if (!then) continue;
			await page.locator('.none .link').first().click();
			await has('q', then);
		}
	},
	async 'says that the range is before or after the data, and goes there'() {
		await goTo(ECHO, { from: base - 7200, to: base - 5400 });
		await page.waitForSelector('.none:has-text("ends before the first data")');
		await shot(page, 'before');
		await page.click('.none .link:has-text("Show the first data")');
		await page.waitForSelector('.legend li');
		await goTo(SHOP, { from: base + 3600, to: base + 4200 });
		await page.waitForSelector('.none:has-text("none came since")');
		await page.click('.none .link:has-text("Show the last data")');
		await page.waitForSelector('.legend li');
		await goTo('sum(rate(cpu{job="idle"}[1m]))', { from: base, to: base + 600 });
		await page.waitForSelector('.graph-note:has-text("All values are 0")');
	},
	async 'a refresh moves nothing that is read'() {
		await page.addInitScript(() => { window.shifts = []; new PerformanceObserver((l) => l.getEntries().forEach((e) => { if (!e.hadRecentInput) window.shifts.push(e.value); })).observe({ type: 'layout-shift', buffered: true }); });
		await page.addInitScript(LOOKS);
		await goTo('merge(cpu{job="live"}[5m])', { last: 300, refresh: 1 });
		const axis = () => page.evaluate(() => document.querySelector('.graph-host').getAttribute('aria-valuetext'));
		await page.mouse.move(5, 5);
		const first = await axis();
		await page.waitForFunction((was) => document.querySelector('.graph-host').getAttribute('aria-valuetext') !== was, first);
		const box = await page.locator('.plot-over').boundingBox(), x = box.x + box.width - 40, y = box.y + 40;
		/* What moves at a click, however late, is no fault of a refresh: only what moves while nobody does anything, over two looks (each takes a second). */
		const looks = (n) => page.waitForFunction((to) => window.looks >= to, n);
		const still = async (what) => {
			await looks(await page.evaluate(() => window.looks) + 1);
			const was = await axis();
			const from = await page.evaluate(() => { window.shifts.length = 0; return window.looks; });
			await looks(from + 2);
			await drawn(page);
			const shifts = await page.evaluate(() => window.shifts.reduce((a, b) => a + b, 0));
			assert.ok(shifts < 0.002, `${what}: the page shifted by ${shifts}`);
			return await axis() === was;
		};
		await page.mouse.move(x, y);
		await page.waitForSelector('.graph-tip');
		const tip = await text('.graph-tip b');
		assert.ok(await still('under the pointer'), 'it moved under the pointer');
		assert.equal(await text('.graph-tip b'), tip);
		await page.mouse.click(x, y);
		await has('at');
		await page.mouse.move(5, 5);
		assert.ok(await still('picked'), 'it moved while a moment was picked');
		const was = await axis();
		await page.click('[aria-label="Clear the picked time"]');
		await page.waitForFunction((old) => document.querySelector('.graph-host').getAttribute('aria-valuetext') !== old, was);
		await still('nothing picked');
	},
	async 'a click on a moment moves no line, though the answer that it asks for is newer'() {
		await goTo('merge(cpu{job="live"}[5m])', { last: 300, refresh: 0 });
		const spoken = () => page.getAttribute('.graph-host', 'aria-valuetext'), was = await spoken(), b = await page.locator('.plot-over').boundingBox();
		await page.waitForTimeout(2500); /* a step of the graph is two seconds */
		const asked = page.waitForResponse((r) => r.url().includes('query_range') && new URL(r.url()).searchParams.get('query').includes('rate('));
		await page.mouse.click(b.x + b.width - 60, b.y + 40);
		await has('at');
		await (await asked).finished();
		await settled(page);
		await drawn(page);
		await page.mouse.move(5, 5);
		assert.equal(await spoken(), was, 'the lines moved');
		await page.click('[aria-label="Clear the picked time"]');
		await page.click('[aria-label="Refresh now"]');
		await page.waitForFunction((old) => document.querySelector('.graph-host').getAttribute('aria-valuetext') !== old, was);
	},
	async 'a graph that fails says so, also beside a profile; a warning moves nothing'() {
		const p = await open(ECHO, HALF);
		await p.waitForSelector('.flame canvas');
		const place = () => p.evaluate(() => ['.graph-panel', '.profile'].map((s) => document.querySelector(s).getBoundingClientRect().top));
		const was = await place();
		await p.route('**/api/v1/query_range?*', async (r) => { const a = await r.fetch(), body = await a.body(), end = body.indexOf('\n'), head = { ...JSON.parse(body.subarray(0, end).toString()), warnings: ['one of two partitions was not read'] }; return r.fulfill({ response: a, body: Buffer.concat([Buffer.from(JSON.stringify(head)), body.subarray(end)]) }); });
		await p.click('[aria-label="Refresh now"]');
		await p.waitForSelector('.warnings li');
		assert.deepEqual(await place(), was, 'a warning moved what is below');
		const w = await p.locator('.warnings').boundingBox();
		assert.ok(w.y + w.height <= p.viewportSize().height, 'a warning is in the window');
		await fits(p, 'a warning');
		await shot(p, 'warning');
		await p.unroute('**/api/v1/query_range?*');
		await p.route('**/api/v1/query_range?*', (r) => r.fulfill({ status: 503, json: { status: 'error', errorType: 'timeout', error: 'the graph took too long' } }));
		await p.click('[aria-label="Refresh now"]');
		await p.waitForSelector('.error:has-text("the graph took too long")');
		await p.waitForSelector('.graph-panel.stale');
		assert.equal(await p.locator('.profile.stale').count(), 0, 'the profile is as it should be');
		await p.unroute('**/api/v1/query_range?*');
		await p.click('[aria-label="Refresh now"]');
		await p.waitForSelector('.error', { state: 'detached' });
		await p.waitForSelector('.graph-panel:not(.stale)');
		await p.context().close();
	},
	async 'an answer that was overtaken is not shown, also when it comes after the newer one'() {
		const p = await openAt(undefined, {}, 60000, (x) => x.addInitScript(() => { /* a browser that cannot take back what it asked */
			const real = window.fetch;
			window.fetch = (a, o) => real(a, { ...o, signal: undefined });
		}));
		let late = null;
		const slow = (path) => p.route(path, (r) => { if (r.request().url().includes('shop')) late = Promise.all([late, new Promise((done) => setTimeout(() => r.continue().then(done), 1500))]); else return r.continue(); });
		await p.goto(address(ECHO, HALF));
		await settled(p);
		await slow('**/api/v1/query?*');
		await slow('**/api/v1/query_range?*');
		const run = (q) => p.fill('.editor textarea', q).then(() => p.click('button:has-text("Run")'));
		await run(SHOP);
		await until(async () => assert.ok(late));
		await run(ECHO.replace('30m', '20m'));
		await p.waitForSelector('.graph-panel .expr:has-text("echo")');
		await late;
		await p.waitForLoadState('networkidle');
		await drawn(p);
		assert.match(await text('.graph-panel .expr', p), /echo/);
		await p.waitForSelector('.functable tbody:has-text("main.fib")');
		assert.equal(await p.locator('.functable tbody:has-text("main.sell")').count(), 0);
		await p.context().close();
	},
	async 'a server that goes away and comes back'() {
		const p = await open('merge(cpu{job="live"}[5m])', { last: 300, refresh: 1 }, {});
		await p.waitForSelector('.flame canvas');
		const axis = () => p.getAttribute('.graph-host', 'aria-valuetext');
		await p.route('**/api/v1/**', (r) => r.abort('connectionrefused'));
		await p.waitForSelector('.error:has-text("The server does not answer")');
		assert.equal(await p.locator('.graph-panel.stale, .profile.stale').count(), 2, 'what is old looks so');
		assert.equal(await p.locator('.error').count(), 1, 'said once');
		const was = await axis();
		await p.unroute('**/api/v1/**');
		/* an answer that ends in the middle is no fault of the server's */
		await p.route('**/api/v1/query_range?*', (r) => r.fulfill({ status: 200, headers: { 'Content-Length': '1000', 'Content-Type': 'application/json' }, body: '{"status":' }));
		await p.waitForSelector('.profile:not(.stale)');
		await p.waitForSelector('.graph-panel.stale');
		await p.unroute('**/api/v1/query_range?*');
		await p.waitForSelector('.error', { state: 'detached' });
		await p.waitForFunction((old) => document.querySelector('.graph-host').getAttribute('aria-valuetext') !== old, was);
		assert.equal(await p.locator('.stale').count(), 0);
		await p.context().close();
	},
	async '2,000 series: the largest as lines, all others as one, never more rows than one can read'() {
		const p = await openAt(undefined, {}, 60000), n = 2000;
		await p.route('**/api/v1/query_range?*', (r) => {
			const of = new URL(r.request().url()).searchParams, [start, end, stepOf] = ['start', 'end', 'step'].map((k) => Number(of.get(k))), steps = Math.floor((end - start) / stepOf + 1e-6) + 1;
			const result = Array.from({ length: n }, (_, i) => ({ metric: { pod: `pod-${i}` }, runs: [0, steps] }));
			const head = { status: 'success', data: { resultType: 'matrix', columns: { startMs: Math.round(start * 1000), stepMs: Math.round(stepOf * 1000) }, result } };
			const values = Float64Array.from({ length: n * steps }, (_, k) => 1 + Math.floor(k / steps) / 1000); /* pod-1999 is the largest */
			return r.fulfill({ contentType: 'application/vnd.pyrrha.matrix', body: Buffer.concat([Buffer.from(`${JSON.stringify(head)}\n`), Buffer.from(values.buffer)]) });
		});
		await p.goto(`${address('sum by (pod) (rate(cpu[1m]))', { last: 1800, refresh: 0 })}&lines=5000`);
		await settled(p);
		await p.waitForSelector('.legend li:has-text("pod-1999")');
		const rows = () => p.locator('.legend li:has(.line-main)').count();
		assert.equal(await rows(), 161, 'of 5,000 wanted ones 160 and the rest');
		const rest = await text('.legend li:has-text("1,840 others"), .legend li:has-text("1840 others")', p);
		assert.ok(rest, 'the rest is one line');
		await p.click('.legend-less button');
		assert.equal(await rows(), 11);
		await p.mouse.move(5, 5);
		await shot(p, '2000');
		/* the largest one is where it is on a scale of its own, not flat under the sum of the others */
		const high = await point(p, base, 2.999, { top: 2.999 * 1.08 }), b = await p.locator('.plot-over').boundingBox();
		await p.mouse.move(b.x + b.width / 2, high.y);
		await p.waitForSelector('.graph-tip .near:has-text("pod-1999")');
		assert.match(await text('.legend-when', p), /^the 10 largest of 2,000\s*others are not drawn$/);
		await p.click('.legend :text-is("Draw their sum, too")');
		await p.mouse.move(b.x + b.width / 2, high.y);
		await p.waitForSelector('.graph-tip .near:has-text("1,990 others, added up")');
		await fits(p, '2,000 series');
		await p.click('.legend [aria-label^="Hide 1,990"]', { force: true });
		await p.emulateMedia({ colorScheme: 'dark', reducedMotion: 'reduce' });
		await p.setViewportSize({ width: 390, height: 844 });
		await p.mouse.move(5, 5);
		await fits(p, '2,000 series on a phone');
		await shot(p, '2000-phone-dark');
		await p.context().close();
	},
	async 'a screen of other pixels: all is painted anew, though the window keeps its size'() {
		const p = await openAt(undefined, {}, 60000, (x) => x.addInitScript(() => {
			const real = window.matchMedia.bind(window);
			window.pixels = new EventTarget();
			window.matchMedia = (q) => /resolution/.test(q) ? window.pixels : real(q);
		}));
		await p.goto(address(ECHO, HALF));
		await settled(p);
		await p.waitForSelector('.flame canvas');
		const pixels = () => p.evaluate(() => [...document.querySelectorAll('.plot canvas, .flame canvas')].map((c) => Math.round(c.width / c.clientWidth)));
		for (const n of [1, 2, 3]) {
			await p.evaluate((k) => { Object.defineProperty(window, 'devicePixelRatio', { value: k, configurable: true }); window.pixels.dispatchEvent(new Event('change')); }, n);
			await until(async () => assert.deepEqual(await pixels(), [n, n]), 5000);
		}
		await p.context().close();
	},
	async 'without eyes, in the dark'() {
		const p = await open(ECHO, { ...HALF, fn: 'main.fib', at: base + 300, view: 'flame' }, { colorScheme: 'dark' });
		await p.waitForSelector('.function-line em:has-text("%")');
		await p.waitForSelector('.mark.fired');
		await fits(p, 'the graph in the dark');
		await shot(p, 'dark');
		await p.context().close();
	},
	async 'nothing complained'() {
		assert.deepEqual(complaints, []);
	},
};

/** Between two moments of the graph, in seconds. */
async function step() {
	return Math.round(1800 / Number(await page.getAttribute('.graph-host', 'aria-valuemax')));
}

let page;
await take(steps, () => shot(page, 'failed'));
