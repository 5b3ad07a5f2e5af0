// SPDX-License-Identifier: Apache-2.0
// The way of the tutorial, by mouse alone and by keyboard alone, and a query without typing: node page_explore.mjs URL URL_WITHOUT_PROFILES OUTDIR.
// What is profiled is in test_page_explore.py: an echoserver, and 2,700 containers that do nearly nothing. $PYRRHA_AGENT: an agent sees it, too.
import assert from 'node:assert/strict';
import { cpus, loadavg } from 'node:os';
import { accessible, complaints, drawn, open as openAt, picture, take, until } from './browser.mjs';

const [url, waiting, out] = process.argv.slice(2);
const agent = process.env.PYRRHA_AGENT === '1', patience = Number(process.env.PYRRHA_PATIENCE ?? 1);
const FN = 'main.fibonacciHandler';
let page, last;
const opened = async (address, options) => (last = await openAt(address, options, 60000 * patience));
const open = (q, options) => opened(url + (q ? `/?${new URLSearchParams({ q })}` : '/'), options);
const shot = (p, name) => picture(p, out, `explore-${name}`);
const query = (p) => p.inputValue('.editor textarea');
const asked = (p, q) => p.waitForFunction((want) => document.querySelector('.editor textarea')?.value === want, q);
const settled = async (p) => { await p.waitForSelector('.flame canvas'); await p.waitForSelector('.progress:not(.on)'); };
/** That the profile on the screen has the function: its search says how much it is. */
async function sees(p, fn) {
	await settled(p);
	await p.fill('.search input', fn);
	await p.waitForFunction(() => /^\d[^]*%/.test(document.querySelector('.search output')?.textContent ?? ''));
	const share = await p.textContent('.search output');
	assert.ok(!/^0 ?%/.test(share), `${fn} is ${share}`);
	await p.fill('.search input', '');
}
const option = (p, text) => p.locator('.choices [role=option] > span').filter({ hasText: new RegExp(`^${text.replace(/[\\.+*?()|[\]{}^$]/g, '\\$&')}$`) });
const chips = (p) => p.locator('.matcher:not(.sumby)').allInnerTexts().then((all) => all.map((t) => t.replace(/\s/g, '')));
const type = async (p, title) => { await p.click('.types > button'); await option(p, title).click(); };

/** The highest point of the graph, where a person would click. */
async function spike(p) {
	await p.waitForSelector('.plot-over');
	const box = await p.locator('.plot-over').boundingBox();
	let best = { x: box.x + box.width - 12, y: box.y + box.height / 2, v: -1 };
	for (let i = 24; i > 0; i--) { // of 240 steps: the server has begun just now
		const x = box.x + box.width * (1 - i / 240), y = box.y + box.height / 2;
		await p.mouse.move(x, y);
		await drawn(p);
		const v = await p.evaluate(() => Math.max(-1, ...[...document.querySelectorAll('.graph-tip em')].map((e) => parseFloat(e.textContent) || 0)));
		if (v > best.v) best = { x, y, v };
	}
	return best;
}

/** Ten seconds, on a machine that has nothing else to do. */
const within = (begin, what) => {
	const s = (performance.now() - begin) / 1000, others = Math.max(1, loadavg()[0] / cpus().length);
	console.log(`  ${what}: ${s.toFixed(1)} s at a load of ${others.toFixed(1)} per CPU`);
	assert.ok(s < 10 * patience * others, `${what} took ${s.toFixed(1)} s`);
};

const steps = {
	async 'before the first profile: what was looked for, found and answered'() {
		const p = await opened(waiting);
		await p.waitForSelector('.checks .bad tbody tr');
		const text = await p.textContent('.checks');
		assert.match(text, /2 jobs: away, nobody.*down.*away.*127\.0\.0\.1:9/s);
		await shot(p, 'waiting');
		await p.context().close();
	},
	async 'from an empty page to the function, by mouse alone'() {
		page = await opened(null);
		const begin = performance.now();
		let actions = 0;
		const click = async (what) => { actions++; await what.click(); };
		await page.goto(url);
		const name = agent ? 'On-CPU' : 'Process CPU Nanoseconds';
		await click(page.locator('.types > button'));
		await click(option(page, name));
		await click(page.locator('.rail .share-group:has(h3:has-text("Containers")) li button:has-text("echoserver")'));
		await click(page.locator('.sumby button').first());
		await click(option(page, 'pod'));
		await page.waitForFunction(() => /by \(pod\)/.test(document.querySelector('.editor textarea').value));
		await settled(page);
		const at = await spike(page);
		actions++;
		await page.mouse.click(at.x, at.y);
		await page.waitForSelector('.picked.on');
		await settled(page);
		within(begin, `by mouse, ${actions} actions`);
		await sees(page, FN);
		assert.ok(actions <= 6, `${actions} actions`);
		assert.equal(await query(page), `merge by (pod)(${agent ? 'on_cpu' : 'cpu'}{container="echoserver"}[5m])`);
		assert.match(page.url(), /[?&]at=\d+/);
		await shot(page, 'mouse');
	},
	async 'from an empty page to the function, by keyboard alone'() {
		const p = await opened(null);
		const begin = performance.now();
		let actions = 0;
		const press = async (key, then) => { actions++; await p.keyboard.press(key); await p.waitForSelector(then); };
		const choose = async (text, what) => { actions++; await p.keyboard.type(text); await p.waitForFunction((w) => document.querySelector('.choice.at > span')?.textContent === w, what); await p.keyboard.press('Enter'); };
		await p.goto(url);
		await p.waitForSelector('.types > button');
		await press('t', '.types .choices');
		await choose(agent ? 'on-cpu' : 'process cpu n', agent ? 'On-CPU' : 'Process CPU Nanoseconds');
		await press('l', '.add .choices');
		await choose('echoserver', 'echoserver');
		await p.waitForFunction(() => /echoserver/.test(document.querySelector('.editor textarea').value));
		await press('b', '.sumby .choices');
		await choose('pod', 'pod');
		await p.waitForFunction(() => /by \(pod\)/.test(document.querySelector('.editor textarea').value));
		await settled(p);
		within(begin, `by keyboard, ${actions} actions`);
		await sees(p, FN);
		assert.ok(actions <= 6, `${actions} actions`);
		assert.equal(await query(p), `merge by (pod)(${agent ? 'on_cpu' : 'cpu'}{container="echoserver"}[5m])`);
		await p.context().close();
	},
	async 'the titles of the tutorial'() {
		await page.click('.types > button');
		const titles = await page.locator('.types-list [role=option] > span').allTextContents();
		for (const t of ['On-CPU', 'Process CPU Nanoseconds', 'Process CPU Samples', 'Memory In-Use Bytes', 'Memory Allocated Objects Total', 'Goroutine Created Total'])
			assert.ok(titles.includes(t), `${t} is not among ${titles}`);
		assert.ok(!titles.includes('On-CPU Nanoseconds'));
		await page.keyboard.type('in-use bytes');
		await page.waitForFunction(() => document.querySelectorAll('.types-list [role=option]').length === 1);
		await shot(page, 'types');
		await page.keyboard.press('Escape');
		await page.waitForSelector('.types-list', { state: 'detached' });
	},
	async 'Process CPU Samples, Memory In-Use Bytes: the same question of another type'() {
		await page.click('.picked.on [aria-label="Clear the picked time"]');
		await type(page, 'Process CPU Samples');
		await asked(page, 'merge by (pod)(cpu_samples{container="echoserver"}[5m])');
		await sees(page, FN);
		await type(page, 'Memory In-Use Bytes');
		await asked(page, 'merge by (pod)(heap_inuse_space{container="echoserver"}[5m])');
		await page.waitForFunction(() => /[KM]iB|\bB/.test(document.querySelector('.sum')?.textContent ?? ''));
		await page.waitForSelector('.graph-panel .unit:text-is("bytes")');
	},
	async 'the spike: hover says cores and total'() {
		await type(page, agent ? 'On-CPU' : 'Process CPU Nanoseconds');
		await settled(page);
		await sees(page, FN);
		const at = await spike(page);
		await page.mouse.move(at.x, at.y);
		await page.waitForSelector('.graph-tip');
		assert.match(await page.textContent('.graph-tip'), /echoserver-7d9.*\d/);
		assert.ok(at.v > 0, `${at.v} cores`);
		await shot(page, 'hover');
		await page.mouse.move(5, 5);
	},
	async 'compare: with the time before'() {
		const before = page.url();
		await page.click('[title^="Compare with the time before"]');
		await page.waitForFunction((was) => location.href !== was, before);
		assert.equal(await page.locator('.error').count(), 0);
		await page.goto(before);
		await settled(page);
	},
	async 'merge: what is typed shows in the pickers'() {
		await page.fill('.editor textarea', 'merge by (pod, container)(cpu{container="echoserver", pod=~"echo.*"}[1m])');
		await page.click('.run');
		await page.waitForFunction(() => document.querySelectorAll('.matcher:not(.sumby)').length === 2);
		assert.deepEqual(await chips(page), ['container=echoserver', 'pod=~echo.*']);
		assert.equal(await page.textContent('.sumby b'), 'pod, container');
		assert.equal(await page.locator('.pickers .note').count(), 0);
		await sees(page, FN);
	},
	async 'a value is picked, and a label taken away'() {
		await page.click('.matcher:has-text("pod") .popover > button');
		await page.click('.choices [role=radio]:has-text("≠")');
		await page.fill('.choices input', 'nobody');
		await option(page, 'exactly nobody').click();
		await asked(page, 'merge by (pod, container)(cpu{container="echoserver",pod!="nobody"}[1m])');
		await page.click('[aria-label="Leave out pod!=\\"nobody\\""]');
		await page.click('[aria-label="Do not sum"]');
		await asked(page, 'merge(cpu{container="echoserver"}[1m])');
	},
	async 'where they cannot show all of it they say so, quietly'() {
		await page.fill('.editor textarea', 'topk(3, self(merge(cpu{container="echoserver"}[1m])))');
		await page.click('.run');
		await page.waitForSelector('.pickers .note:has-text("more than the pickers show")');
		assert.deepEqual(await chips(page), ['container=echoserver']);
		await page.click('.sumby button');
		await option(page, 'pod').click();
		await asked(page, 'topk(3, self(merge by (pod)(cpu{container="echoserver"}[1m])))');
		await page.waitForSelector('.values tbody tr');
	},
	async 'process_name finds comm, a value finds its label'() {
		await page.fill('.editor textarea', '');
		await type(page, 'On-CPU');
		await page.click('.add > button');
		await page.keyboard.type('process_name');
		await page.waitForFunction(() => [...document.querySelectorAll('.add [role=option]')].some((o) => /^comm.*process_name/.test(o.textContent)));
		await page.fill('.add input', 'many-2-0777');
		await page.waitForFunction(() => /^many-2-0777/.test(document.querySelector('.add .choice.at')?.textContent ?? ''));
		await page.keyboard.press('Enter');
		await page.waitForFunction(() => /container="many-2-0777"/.test(document.querySelector('.editor textarea').value));
	},
	async 'the last hour; of a young server as much as there is, which is not in the address'() {
		const p = await open();
		await settled(p);
		assert.ok(await p.evaluate(() => !new URL(location.href).searchParams.has('last')));
		await p.waitForSelector('.timerange [aria-checked=true]:text-is("5m")');
		await p.click('.timerange :text-is("1h")');
		await p.waitForFunction(() => new URL(location.href).searchParams.get('last') === '3600');
		await p.context().close();
	},
	async '{} is an overview: who uses the CPU, the answer and the page small'() {
		const p = await opened(null);
		const bytes = [], hows = [];
		p.on('response', async (r) => { if (/api\/v1\/(query|label)/.test(r.url())) { hows.push(r.url()); bytes.push((await r.body().catch(() => '')).length); } });
		await p.goto(`${url}/?q=%7B%7D`);
		await p.waitForSelector('.overview .share-group li .small-graph path[d^=M]');
		assert.equal(await p.locator('.error').count(), 0);
		const containers = p.locator('.overview .share-group:has(h3:has-text("Containers"))');
		assert.equal(await containers.locator('li').count(), 20);
		assert.match(await containers.textContent(), /20 largest/);
		if (agent) assert.match(await containers.locator('li').first().textContent(), /^echoserver/);
		assert.ok(await p.locator('.overview .share-group:has(h3:has-text("Processes")) li').count() >= 1);
		const sum = bytes.reduce((a, b) => a + b, 0);
		console.log(`  ${hows.length} answers, ${sum} bytes`);
		assert.ok(sum > 0 && sum < 150000, `${sum} bytes for ${hows.length} answers`);
		await shot(p, 'overview');
		await p.fill('.overview .share-search input', 'many-1-0333');
		await p.waitForFunction(() => document.querySelectorAll('.overview .share-group li').length === 1);
		await p.click('.overview .share-group li button');
		await asked(p, 'merge(on_cpu{container="many-1-0333"}[5m])');
		await p.context().close();
	},
	async 'left of every query: a click adds the matcher, another takes it away'() {
		const p = await open('merge(on_cpu[5m])');
		await p.waitForSelector('.rail .share-group li');
		assert.ok(await p.locator('.rail li').count() <= 40);
		await p.fill('.rail .share-search input', 'process_name');
		await p.waitForFunction(() => document.querySelector('.rail h3')?.textContent.includes('comm'));
		await p.click('.rail li button:has-text("idle")');
		await asked(p, 'merge(on_cpu{comm="idle"}[5m])');
		await p.waitForSelector('.rail li button[aria-pressed=true]:has-text("idle")');
		await accessible(p, 'rail');
		await p.click('.rail li button:has-text("idle")');
		await asked(p, 'merge(on_cpu[5m])');
		await p.click('[aria-label="Hide the overview"]');
		await p.waitForSelector('.rail', { state: 'detached' });
		await p.reload();
		await settled(p);
		assert.equal(await p.locator('.rail').count(), 0, 'it came back');
		await p.keyboard.press('o');
		await p.waitForSelector('.rail .share-group li');
		await p.context().close();
	},
	async 'the expensive parts are asked once, not at each refresh'() {
		const p = await opened(null);
		let tops = 0, graphs = 0;
		p.on('request', (r) => { if (/topk/.test(decodeURIComponent(r.url()))) tops++; else if (/query_range/.test(r.url())) graphs++; });
		await p.clock.install();
		await p.goto(`${url}/?${new URLSearchParams({ q: 'merge(cpu{container="echoserver"}[5m])', last: '3600' })}`);
		await p.waitForSelector('.rail .share-group li');
		await p.waitForSelector('.progress:not(.on)');
		await p.mouse.move(5, 5);
		const before = tops, drawn = graphs;
		assert.ok(before > 0);
		for (let i = 1; i <= 3; i++) { await p.clock.fastForward(10100); await until(() => assert.ok(graphs >= drawn + i, `${graphs - drawn} refreshes`)); }
		assert.equal(tops, before, 'each refresh asked for the largest again');
		await p.context().close();
	},
	async 'earlier queries, and those one saves'() {
		const p = await open('merge(cpu[1m])');
		await settled(p);
		await type(p, 'Process CPU Samples');
		await asked(p, 'merge(cpu_samples[1m])');
		await settled(p);
		await p.waitForFunction(() => /cpu_samples/.test(localStorage.getItem('pyrrha.queries.recent') ?? ''));
		await p.keyboard.press('h');
		await p.fill('.save input', 'samples of all');
		await p.click('.save button:has-text("Save")');
		await option(p, 'samples of all').waitFor();
		await accessible(p, 'history');
		await shot(p, 'history');
		await p.goto(url);
		await settled(p);
		await p.keyboard.press('h');
		await option(p, 'merge(cpu[1m])').click();
		await asked(p, 'merge(cpu[1m])');
		await p.keyboard.press('h');
		await option(p, 'samples of all').click();
		await asked(p, 'merge(cpu_samples[1m])');
		/* What stands there need not be ours. */
		await p.evaluate(() => { localStorage.setItem('pyrrha.queries.recent', '[{"q":7}]'); localStorage.setItem('pyrrha.queries.saved', '{'); localStorage.setItem('pyrrha.rail', '"x"'); });
		await p.reload();
		await settled(p);
		await p.context().close();
	},
	async 'a browser that keeps nothing is no obstacle'() {
		const p = await opened(null);
		await p.addInitScript(() => { Object.defineProperty(window, 'localStorage', { get() { throw new DOMException('no', 'SecurityError'); } }); });
		await p.goto(`${url}/?q=merge(cpu%5B1m%5D)`);
		await settled(p);
		await p.keyboard.press('h');
		await option(p, 'merge(cpu[1m])').waitFor();
		await p.context().close();
	},
	async 'fits a phone'() {
		const p = await open('merge by (pod)(cpu{container="echoserver"}[5m])', { viewport: { width: 390, height: 844 }, hasTouch: true });
		await settled(p);
		await shot(p, 'phone');
		await p.click('.picks .square');
		await p.waitForSelector('.rail .share-group li');
		await shot(p, 'phone-rail');
		await p.click('[aria-label="Hide the overview"]');
		await p.click('.add > button');
		await p.waitForSelector('.add [role=option]');
		assert.ok(await p.evaluate(() => document.documentElement.scrollWidth <= 390));
		await p.goto(`${url}/?q=%7B%7D`);
		await p.waitForSelector('.overview .share-group li');
		assert.ok(await p.evaluate(() => document.documentElement.scrollWidth <= 390));
		await shot(p, 'phone-overview');
		await p.context().close();
	},
	async 'targets: where it comes from'() {
		await page.click('.top nav a:has-text("Targets")');
		await page.waitForSelector('.pool h2:text-is("echoserver")');
	},
	async 'nothing complained'() {
		assert.deepEqual(complaints, []);
	},
};

await take(steps, () => shot(last, 'failed'));
