// SPDX-License-Identifier: Apache-2.0
// Uses the page as a person would, in a headless Chromium: node page.mjs [URL [OUTDIR]]. Opens it, runs a query, clicks
// a frame, picks times on the graph, looks at the targets; says what it saw and leaves screenshots in OUTDIR. It fails
// at the first thing that is not there, with a screenshot of what was. How it is run: see browser.mjs.
// $PYRRHA_FUNCTION and $PYRRHA_JOB name what the profiled program is known to run.
import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { complaints, drawn, fits, open as openAt, picture, take, walk } from './browser.mjs';

const url = (process.argv[2] ?? process.env.PYRRHA_URL ?? 'http://127.0.0.1:7070').replace(/\/$/, '');
const out = process.argv[3] ?? process.env.PYRRHA_OUT ?? '.';
const job = process.env.PYRRHA_JOB ?? 'echoserver';
const fn = process.env.PYRRHA_FUNCTION ?? 'main.fibonacciHandler';
const WAIT = 60000;
mkdirSync(out, { recursive: true });

const open = (options, path = '/') => openAt(url + path, { colorScheme: undefined, reducedMotion: 'no-preference', ...options }, WAIT);
const shot = (p, name) => picture(p, out, name);
const settled = async (p) => { await p.waitForSelector('.progress:not(.on)'); await drawn(p); };

async function run(p, query) {
	await p.fill('.editor textarea', query);
	await p.keyboard.press('Escape'); /* completions */
	await p.focus('.editor textarea');
	await p.keyboard.press('Enter');
	await p.waitForFunction((q) => new URL(location.href).searchParams.get('q') === q, query);
	await settled(p);
}

/** Walks to the function's first box by keyboard, and points at it: where that is. */
async function findFrame(p, name) {
	const asked = await p.evaluate(() => performance.getEntriesByType('resource').map((e) => e.name).filter((n) => /format=flamegraph/.test(n) && !/[?&](root=|width=1(&|$))/.test(n)).at(-1));
	const { strings, frames, nodes } = (await (await fetch(asked)).json()).data, names = nodes.frame.map((f) => strings[frames.name[f]]), path = [];
	let i = names.indexOf(name);
	assert.ok(i > 0, `the tree has no ${name}`);
	for (let depth = nodes.depth[i]; i > 0; i--) if (nodes.depth[i] === depth) { path.unshift(names[i]); depth--; }
	await walk(p, path);
	const frame = p.locator('.flame-frame');
	await frame.scrollIntoViewIfNeeded();
	const box = await frame.boundingBox(), at = { x: box.x + Math.min(8, box.width / 2), y: box.y + 8 };
	await p.mouse.move(at.x, at.y, { steps: 2 });
	await p.waitForFunction((n) => document.querySelector('.tip-name')?.textContent === n, name);
	return at;
}

const steps = {
	async 'shows a profile at once'() {
		page = await open({ colorScheme: 'light' });
		await page.waitForSelector('.flame canvas');
		await page.waitForSelector('.legend li');
		await settled(page);
		assert.match(await page.inputValue('.editor textarea'), /^merge\(/);
		await shot(page, 'page-first');
	},
	async 'lists the types under plain names'() {
		await page.click('.types > button');
		const titles = await page.locator('.types-list [role=option] > span').allTextContents();
		console.log(`  ${titles.length} types: ${titles.join(', ')}`);
		assert.ok(titles.includes('Process CPU Nanoseconds'), 'Process CPU Nanoseconds is not listed');
		await shot(page, 'page-types');
		await page.keyboard.press('Escape');
	},
	async 'completes what is typed'() {
		await page.fill('.editor textarea', '');
		await page.focus('.editor textarea');
		await page.keyboard.type('merge(cpu{job="');
		await page.waitForSelector('.completions .kind-value');
		const values = await page.locator('.completions li span').allTextContents();
		assert.ok(values.includes(job), `${job} is not among ${values}`);
		await shot(page, 'page-completion');
		await page.keyboard.press('Escape');
	},
	async 'completes functions of the selected profiles'() {
		await page.fill('.editor textarea', '');
		await page.focus('.editor textarea');
		const part = fn.slice(fn.indexOf('.') + 1).toLowerCase();
		/* What is offered changes with every letter: waits for a list that is all of it, and has what is looked for. */
		const offered = async (all, one) => {
			await page.waitForFunction(([pattern, name]) => {
				const names = [...document.querySelectorAll('.completions li span')].map((e) => e.textContent);
				return names.includes(name) && names.every((n) => new RegExp(pattern, 'i').test(n));
			}, [all, one]);
		};
		await page.keyboard.type(`total(merge(cpu{job="${job}"}[5m]), {`);
		await offered('^(function|file|binary|line)$', 'function');
		await page.keyboard.press('Escape');
		await page.keyboard.type(`function="${part}`);
		await offered(part, fn);
		await shot(page, 'page-completion-function');
		await page.keyboard.press('Escape');
		await page.fill('.editor textarea', '');
		await page.keyboard.type(`focus(merge(cpu{job="${job}"}[5m]), "${part}`);
		await offered(part, fn);
		await page.dispatchEvent(`.completions li:has(span:text-is("${fn}"))`, 'mousedown');
		await page.waitForSelector('.completions', { state: 'detached' });
		assert.equal(await page.inputValue('.editor textarea'), `focus(merge(cpu{job="${job}"}[5m]), "${fn.replace('.', '\\\\.')}"`);
	},
	async 'runs a query'() {
		await run(page, `merge(cpu{job="${job}"}[5m])`);
		await page.waitForSelector('.flame canvas');
		assert.equal(await page.locator('.error').count(), 0, await page.locator('.error').allTextContents().then(String));
		assert.match(await page.textContent('.sum'), /\d/);
	},
	async 'explains what the graph cost'() {
		await page.click('.explain summary');
		await page.waitForSelector('.explain tbody tr');
		const parts = await page.locator('.explain tbody tr').evaluateAll((rows) => rows.map((r) => [...r.children].map((c) => c.textContent)));
		assert.ok(parts.some((r) => Number(r[4].replace(/,/g, '')) > 0 && /B$/.test(r[6])), `nothing was read: ${JSON.stringify(parts)}`);
		await shot(page, 'page-explain');
		await page.click('.explain summary');
	},
	async 'lists the function, and search says how much it is'() {
		await page.fill('.search input', fn);
		await page.waitForSelector('.search output');
		const text = await page.textContent('.search output');
		console.log(`  ${fn}: ${text}`);
		assert.match(text, /^\d.*%/);
		const rows = await page.locator('.functable tbody th button').evaluateAll((b) => b.map((x) => x.title.split('\n')[0]));
		assert.ok(rows.includes(fn), `the table has ${rows}`);
		await shot(page, 'page-search');
		await page.fill('.search input', '');
	},
	async 'zooms on a click, and out again'() {
		const at = await findFrame(page, fn);
		await shot(page, 'page-hover');
		await page.mouse.click(at.x, at.y);
		await page.waitForSelector('.crumbs .here');
		assert.ok((await page.textContent('.crumbs .here')).startsWith(fn));
		await page.mouse.move(5, 5);
		await drawn(page);
		await shot(page, 'page-zoom');
		await page.keyboard.press('Escape');
		await page.waitForSelector('.crumbs', { state: 'detached' });
	},
	async 'walks by keyboard'() {
		await page.focus('.flame canvas');
		const name = () => page.evaluate(() => document.querySelector('.flame canvas [aria-selected=true]')?.textContent ?? '');
		const root = await name();
		await page.keyboard.press('ArrowDown');
		const child = await name();
		assert.notEqual(child, root);
		await page.keyboard.press('Enter');
		await page.waitForSelector('.crumbs .here');
		await page.keyboard.press('Escape');
		await page.waitForSelector('.crumbs', { state: 'detached' });
	},
	async 'a click on the graph picks a moment, a drag a range'() {
		await page.evaluate(() => scrollTo(0, 0));
		const box = await page.locator('.plot-over').boundingBox();
		const x = box.x + box.width - 12, y = box.y + box.height / 2;
		await page.mouse.click(x, y);
		await page.waitForSelector('.picked.on');
		assert.match(page.url(), /[?&]at=\d+/);
		await settled(page);
		await page.mouse.move(box.x + box.width * 0.6, y);
		await page.mouse.down();
		await page.mouse.move(box.x + box.width * 0.8, y, { steps: 5 });
		await page.mouse.move(x, y, { steps: 5 });
		await page.mouse.up();
		await page.waitForFunction(() => /[?&]a=\d+&b=\d+/.test(location.href));
		await settled(page);
		assert.equal(await page.locator('.error').count(), 0);
		await shot(page, 'page-range');
		const link = page.url();
		await page.goto(link);
		await page.waitForSelector('.picked.on');
		await page.click('.picked.on [aria-label="Clear the picked time"]');
		await page.waitForSelector('.picked:not(.on)');
	},
	async 'zooms into the smallest box, and stays a flame graph'() {
		await run(page, `merge(cpu{job="${job}"}[5m])`);
		await page.focus('.flame canvas');
		const widths = [];
		for (let i = 0; i < 30; i++) { /* the last child of the last child: seldom a large one */
			await page.keyboard.press('ArrowDown');
			for (let k = 0; k < 4; k++) await page.keyboard.press('ArrowRight');
			widths.push(await page.evaluate(() => document.querySelector('.flame canvas [aria-selected=true]')?.textContent ?? ''));
		}
		await page.keyboard.press('Enter');
		await page.waitForSelector('.crumbs .here');
		await page.waitForSelector('.functable:not(.pending) tbody tr:not(.gap)'); /* the rows of the zoomed box came */
		console.log(`  ${await page.textContent('.crumbs .here')}`);
		assert.equal(await page.locator('.values').count(), 0);
		assert.equal(await page.locator('.flame canvas').count(), 1);
		await shot(page, 'page-zoom-small');
		await page.keyboard.press('Escape');
	},
	async 'a row of the table is what the language says'() {
		/* In a narrow window nearly everything is too small to see; the rows are not. */
		const p = await open({ viewport: { width: 700, height: 700 } }, `/?${new URLSearchParams({ q: `merge(cpu{job="${job}"}[5m])` })}`);
		await p.waitForSelector('.flame canvas');
		await settled(p);
		await p.click('[aria-label="Layout"] :text-is("Table")');
		/* What is asked for is what the page asked for: the same moment, of which nothing later is part. */
		const last = () => p.evaluate(() => performance.getEntriesByType('resource').map((e) => e.name).filter((n) => /format=flamegraph/.test(n)).at(-1));
		let asked, shown;
		do { /* the page may ask anew meanwhile */
			asked = new URL(await last());
			await settled(p);
			shown = await p.locator('.functable tbody th button').evaluateAll((b) => b.map((x) => x.title.split('\n')[0]));
		} while (await last() !== asked.href);
		const [q, time] = ['query', 'time'].map((k) => asked.searchParams.get(k));
		const values = async (f) => {
			const u = new URL('api/v1/query', `${url}/`);
			u.search = new URLSearchParams({ query: `${f}(${q})`, time });
			const a = await (await fetch(u)).json();
			return Object.fromEntries(a.data.result.map((r) => [r.metric.function, Number(r.value[1])]));
		};
		const self = await values('self'), total = await values('total');
		const data = (await (await fetch(asked)).json()).data;
		const name = (i) => data.strings[data.frames.name[data.functions.frame[i]]];
		assert.ok(data.functions.all > 20 && data.functions.frame.length === data.functions.all);
		for (let i = 0; i < data.functions.all; i++) {
			assert.ok(Math.abs(data.functions.self[i] / 1e9 - (self[name(i)] ?? 0)) < 1e-9, `self of ${name(i)}`);
			assert.ok(Math.abs(data.functions.total[i] / 1e9 - total[name(i)]) < 1e-9, `total of ${name(i)}`);
		}
		/* By their values: of two that are the same either may come first. */
		assert.deepEqual(shown.slice(0, 5).map((n) => self[n]), [0, 1, 2, 3, 4].map((i) => self[name(i)]));
		await p.context().close();
	},
	async 'draws what is typed, and says where it does not'() {
		const drawn = `sum by (job)(rate(cpu{job="${job}"}[1m]))`;
		await run(page, drawn);
		assert.equal(await page.textContent('.graph-panel .expr'), drawn);
		assert.equal(await page.locator('.graph-panel :text-is("derived from the query")').count(), 0);
		await run(page, `merge(cpu{job="${job}"}[5m])`);
		assert.match(await page.textContent('.graph-panel .expr'), /^rate\(/);
		assert.equal(await page.locator('.graph-panel :text-is("derived from the query")').count(), 1);
	},
	async 'names the matcher that leaves nothing'() {
		await run(page, `merge(goroutines{job="${job}",instance="nowhere"}[5m])`);
		await page.waitForSelector('.graph-panel .none code:text-is("instance=\\"nowhere\\"")');
		await shot(page, 'page-no-series');
		await page.click('.none .link:has-text("Leave that matcher out")');
		await page.waitForFunction((q) => new URL(location.href).searchParams.get('q') === q, `merge(goroutines{job="${job}"}[5m])`);
		await page.waitForSelector('.none', { state: 'detached' });
	},
	async 'says what is wrong with a query'() {
		await run(page, 'merge(cpu[5m]');
		await page.waitForSelector('.error');
		console.log(`  ${(await page.textContent('.error p')).slice(0, 160)}`);
		await shot(page, 'page-error');
	},
	async 'shows numbers as a table'() {
		await run(page, 'value(merge by (job)(cpu[5m]))');
		await page.waitForSelector('.values tbody tr, .error');
		assert.equal(await page.locator('.error').count(), 0, await page.locator('.error').allTextContents().then(String));
		assert.ok((await page.locator('.values tbody td').allTextContents()).includes(job));
		await shot(page, 'page-values');
	},
	async 'lists the targets'() {
		await page.click('.top nav a:has-text("Targets")');
		await page.waitForSelector('.pool tbody tr');
		const pools = await page.locator('.pool h2').allTextContents(), rows = await page.locator('.pool tbody tr:not(.error-row)').count();
		console.log(`  ${pools.join(', ')}: ${rows} rows, ${await page.locator('.pool td .pill.up').count()} up`);
		assert.ok(pools.includes(job), `${job} is not among ${pools}`);
		assert.ok(await page.locator('.pool td .pill.up').count() > 0, 'no target is up');
		await shot(page, 'page-targets');
		await page.fill('.field input', 'no such text');
		await page.waitForSelector('.hint:has-text("No target matches")');
		await page.fill('.field input', '');
		await page.waitForSelector('.pool tbody tr');
	},
	async 'says where targets come from, and what rules made of them'() {
		await page.click('.top nav a:has-text("Discovery")');
		await page.waitForSelector('.job-list li');
		assert.match(await page.textContent(`.job-list li:has(button:text-is("${job}"))`), /1 target.*1 up.*ready/);
		/* By keyboard: to the first target, open it, ask what each rule did. */
		await page.focus('.found-head');
		await page.keyboard.press('Enter');
		await page.waitForSelector('.before-after');
		const discovered = await page.locator('.before-after table').first().locator('th').allTextContents();
		assert.ok(discovered.includes('__address__'), `${discovered}`);
		await page.keyboard.press('Tab');
		await page.keyboard.press('Enter');
		await page.waitForSelector('.steps li, .found-body .hint:has-text("no relabelling rules")');
		await shot(page, 'page-discovery');
		/* What is dropped says why. The address says what is looked at, and the filter is the server's. */
		await page.click('[aria-label="Which targets"] button:has-text("Not scraped")');
		await page.waitForFunction(() => new URL(location.href).searchParams.get('state') === 'dropped');
		await page.waitForSelector('.found-list .reason, .found .nothing');
		await page.fill('.field input', 'rule 1');
		await page.waitForFunction(() => new URL(location.href).searchParams.get('find') === 'rule 1');
		await page.waitForFunction((count) => document.querySelectorAll('.found-list .reason').length === count, Number(process.env.PYRRHA_DROPPED ?? 0));
		await page.goto(page.url());
		await page.waitForSelector('.job-list li');
		assert.equal(await page.inputValue('.field input'), 'rule 1');
		await shot(page, 'page-discovery-dropped');
		await page.fill('.field input', '');
		await page.click('.top nav a:has-text("Status")');
		await page.waitForSelector('.facts tr');
		await shot(page, 'page-status');
	},
	async 'is at home in a window that is neither wide nor a phone'() {
		const p = await open({ colorScheme: 'dark', viewport: { width: 900, height: 900 } });
		await p.waitForSelector('.flame canvas');
		await settled(p);
		assert.ok(await p.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'the page is wider than the window');
		await shot(p, 'page-narrow-dark');
		await p.context().close();
	},
	async 'two lines of query have a button as high'() {
		await page.click('.top nav a:has-text("Explore")');
		await page.waitForSelector('.editor textarea');
		await page.fill('.editor textarea', 'merge(\n  cpu[5m])');
		const [button, editor] = await Promise.all(['.run', '.editor'].map((s) => page.locator(s).boundingBox()));
		assert.ok(button.height > 0.9 * editor.height, `the button is ${button.height}, the text ${editor.height} px high`);
		await page.keyboard.press('Escape');
	},
	async 'an address that is none of the page\'s shows a way home'() {
		for (const [name, options] of [['light', {}], ['dark', { colorScheme: 'dark' }], ['phone', { colorScheme: 'dark', viewport: { width: 390, height: 844 } }]]) {
			const p = await openAt(undefined, options, WAIT);
			assert.equal((await p.goto(`${url}/no/such/page`)).status(), 404);
			await fits(p, `no such page, ${name}`);
			await shot(p, `page-none-${name}`);
			await p.click('a');
			await p.waitForSelector('.editor textarea');
			assert.equal(new URL(p.url()).pathname, '/');
			await p.context().close();
		}
		const p = await open({}, '/discovery');
		await p.waitForSelector('.top nav a.here:text-is("Discovery")');
		await p.waitForSelector('h1:text-is("Service discovery")');
		await p.context().close();
	},
	async 'nothing complained'() {
		assert.deepEqual(complaints, []);
	},
};

let page;
await take(steps, () => shot(page, 'page-failed'));
