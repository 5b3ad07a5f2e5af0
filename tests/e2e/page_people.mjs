// SPDX-License-Identifier: Apache-2.0
// The page for all who use it: node page_people.mjs URL EMPTY_URL WAITING_URL OUTDIR. Goes through every view, light and dark, wide and on a
// phone. It looks for what axe reports, for what is wider than its window, and for requests that go elsewhere. It also looks for lines
// that jump when the page refreshes itself, and for state that a reload loses. Of each view it keeps pictures in OUTDIR/views.
// URL has the demo program, a job of ninety targets, rules, a target that is down and one that is dropped; EMPTY_URL has no target,
// WAITING_URL one that was never up.
import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { accessible, complaints, drawn, LOOKS, open as openAt, picture, take, until } from './browser.mjs';

const [url, empty, waiting, out] = process.argv.slice(2);
const LONG = Boolean(process.env.PYRRHA_LONG);
const ONLY = process.env.PYRRHA_VIEWS && new RegExp(process.env.PYRRHA_VIEWS);
const views = join(out, 'views');
mkdirSync(views, { recursive: true });

/* ---- what goes over the wire, in all windows ---- */

const requests = [], policies = new Map();
const open = (path, options, at = url, before = undefined) => openAt(path && at + path, options, 60000, async (p) => {
	await before?.(p);
	p.on('request', (r) => requests.push(r.url()));
	p.on('response', (r) => { if (r.request().isNavigationRequest()) policies.set(new URL(r.url()).pathname, r.headers()['content-security-policy']); });
	await p.addInitScript(() => {
		window.violations = [];
		document.addEventListener('securitypolicyviolation', (e) => window.violations.push(`${e.violatedDirective}: ${e.blockedURI}`));
		window.shifts = [];
		new PerformanceObserver((list) => {
			for (const e of list.getEntries())
				if (!e.hadRecentInput) {
					/* A number that ends to the right begins elsewhere when it has more digits: it stays where it was. */
					const same = (a, b) => a.y === b.y && a.height === b.height && Math.abs(a.x + a.width - b.x - b.width) < 1 || ['x', 'y', 'width', 'height'].every((k) => a[k] === b[k]);
					const at = (r) => `${r.x},${r.y} ${r.width}x${r.height}`;
					/* The end of a name whose middle is cut follows the width that the numbers beside it leave: its line stays. */
					const along = (n, a, b) => n?.closest('.cut') && a.y === b.y && a.height === b.height;
					const element = (s) => s.node?.nodeType === 1 ? s.node : s.node?.parentElement;
					for (const s of e.sources.filter((x) => !same(x.previousRect, x.currentRect) && !along(element(x), x.previousRect, x.currentRect))) {
						const n = element(s);
						window.shifts.push(`${n ? `${n.tagName}.${n.className} in .${n.parentElement?.className}` : 'gone'} "${s.node?.textContent?.slice(0, 30)}" from ${at(s.previousRect)} to ${at(s.currentRect)}`);
					}
				}
		}).observe({ type: 'layout-shift', buffered: true });
	});
});
/** Does it with each of the list, two at a time, each with a window of its own if there are some. */
const together = (list, f, windows = [undefined, undefined]) => { const rest = [...list]; return Promise.all(windows.map(async (w) => { while (rest.length) await f(rest.shift(), w); })); };
const settled = async (p) => { await p.waitForSelector('.progress:not(.on)'); await drawn(p); };
const q = (query, more = {}) => `/?${new URLSearchParams({ q: query, ...more })}`;
const seconds = () => Math.round(Date.now() / 1000);
const CPU = 'merge(cpu[5m])';

/* ---- views ---- */

const profile = (p) => p.waitForSelector('.flame canvas, .functable tbody tr:not(.gap)').then(() => settled(p));
/** Of each view where it is, and what has to be done to see it. */
const VIEWS = {
	overview: { path: q('{}'), go: (p) => p.waitForSelector('.overview .share-group li .small-graph path[d^=M]').then(() => settled(p)) },
	explore: { anew: true, path: q(CPU), go: profile },
	table: { path: q(CPU, { view: 'table' }), go: profile },
	both: { anew: true, path: q(CPU, { view: 'both' }), go: profile },
	search: { path: q(CPU, { search: 'main', view: 'both' }), go: profile },
	inverted: { path: q(CPU, { invert: 1 }), go: profile },
	sandwich: { path: q(CPU, { sandwich: 'main.fibonacci' }), go: profile },
	function: { path: q(CPU, { fn: 'main.fibonacci' }), go: profile },
	compare: { anew: true, path: q(CPU), go: async (p) => { await profile(p); await p.click('button:text-is("Compare")'); await p.waitForSelector('.side-flame canvas'); await profile(p); } },
	moment: { path: () => q(CPU, { at: seconds() - 5 }), go: profile },
	range: { path: () => q(CPU, { a: seconds() - 30, b: seconds() - 2 }), go: profile },
	series: { path: q('rate(cpu[30s])'), go: profile },
	ninety: { anew: true, path: q('stacks:requests:count:requests:count', { last: 300 }), go: (p) => p.waitForSelector('.legend li').then(() => settled(p)) },
	types: { path: q(CPU), go: async (p) => { await profile(p); await p.click('.types > button'); } },
	times: { path: q(CPU), go: async (p) => { await profile(p); await p.click('.timerange .popover button'); } },
	export: { path: q(CPU), go: async (p) => { await profile(p); await p.click('button:has-text("Share")'); } },
	menu: { path: q(CPU), go: async (p) => { await profile(p); await p.click('.flame canvas', { button: 'right', position: { x: 90, y: 10 } }); await p.waitForSelector('[role=menuitem]'); } },
	keys: { path: q(CPU), go: async (p) => { await profile(p); await p.keyboard.press('?'); await p.waitForSelector('dialog[open]'); } },
	preferences: { path: q(CPU), go: async (p) => { await profile(p); await p.click('.preferences > button'); } },
	'error-query': { path: q('merge(cpu[5m]'), go: (p) => p.waitForSelector('.error') },
	'error-series': { path: q('merge(cpu{job="nobody"}[5m])'), go: (p) => p.waitForSelector('.none').then(() => settled(p)) },
	'error-samples': { path: () => q('cpu', { at: seconds() - 80000 }), go: settled },
	'error-network': { path: q(CPU), go: async (p) => { await profile(p); await p.route('**/api/**', (r) => r.abort()); await p.click('[aria-label="Refresh now"]'); await p.waitForSelector('.error'); } },
	targets: { path: '/targets', go: (p) => p.waitForSelector('tbody tr') },
	discovery: { path: '/service-discovery', go: async (p) => { await p.waitForSelector('.found-head'); await p.click('.found-head'); } },
	rules: { path: '/rules', go: (p) => p.waitForSelector('.rule') },
	alerts: { path: '/alerts', go: (p) => p.waitForSelector('.alert-rule') },
	agents: { path: '/agents', go: (p) => p.waitForSelector('.agents tbody tr, .empty') },
	language: { path: '/language', go: (p) => p.waitForSelector('main li') },
	status: { path: '/status', go: (p) => p.waitForSelector('.facts tr') },
	runbooks: { path: '/runbooks#functionshareup', go: (p) => p.waitForSelector('h2:target') },
	empty: { path: '/', at: empty, go: (p) => p.waitForSelector('.empty h1') },
	waiting: { path: '/', at: waiting, go: (p) => p.waitForSelector('.empty tbody tr') },
};
const SIZES = { wide: { width: 1440, height: 900 }, phone: { width: 390, height: 844 } };

const FACES = [['wide', 'light'], ['phone', 'light'], ['wide', 'dark'], ['phone', 'dark']];

/** All of a view's faults, and its pictures: of one of its four faces, which another view has another of; with PYRRHA_LONG=1 of all. */
async function look(p, name) {
	const view = VIEWS[name], faults = [], faces = LONG ? FACES : [FACES[Object.keys(VIEWS).indexOf(name) % 4]];
	const note = (f) => f.catch((e) => faults.push(e.message));
	let there = false;
	for (const [size, colorScheme] of faces) {
		const where = `${name}-${size}${colorScheme === 'dark' ? '-dark' : ''}`;
		await p.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
		await p.setViewportSize(SIZES[size]);
		if (!there || view.anew) {
			await p.goto((view.at ?? url) + (typeof view.path === 'function' ? view.path() : view.path));
			await view.go(p);
			there = true;
		}
		await p.waitForSelector(`[data-scheme=${colorScheme}]`);
		await drawn(p);
		await note(accessible(p, where));
		const headings = await p.locator('h1').count();
		if (headings !== 1) faults.push(`${where}: ${headings} h1`);
		await picture(p, views, where);
	}
	for (const [size, viewport] of Object.entries(SIZES)) {
		await p.setViewportSize(viewport);
		await drawn(p);
		const width = await p.evaluate(() => document.documentElement.scrollWidth);
		if (width > viewport.width) faults.push(`${name}, ${size}: ${width} px wide`);
	}
	const v = await p.evaluate(() => window.violations);
	if (v.length) faults.push(`${name}: the content policy is violated: ${v}`);
	await p.unroute('**/api/**');
	return faults;
}

/* ---- what a page is set to ---- */

/** All that people can set on it, and the names of what is chosen. */
const settings = (p) => p.evaluate(() => [...document.querySelectorAll('main :is(input, textarea, select, [aria-pressed], [role=radio], [role=tab], [aria-sort], .crumbs [aria-current], .picked, .sum)')]
	.filter((e) => e.checkVisibility())
	.map((e) => {
		const name = e.getAttribute('aria-label') ?? e.closest('[aria-label]')?.getAttribute('aria-label') ?? '';
		const own = e.matches('select, input, textarea') ? '' : ` ${e.textContent}`;
		const set = e.matches('input[type=checkbox]') ? e.checked : e.value || ['pressed', 'checked', 'selected', 'sort', 'current'].map((a) => e.getAttribute(`aria-${a}`)).find((v) => v !== null);
		return `${name}${own}: ${set}`;
	}));

/** Sets every control of the page to something else than it has. What was set. */
async function setAll(p, not = 'none') {
	const done = [];
	for (const group of await p.locator('main [role=radiogroup]').all()) {
		const name = await group.getAttribute('aria-label');
		if (new RegExp(not).test(name)) continue;
		await group.locator('[role=radio][aria-checked=false]').last().click();
		done.push(name);
	}
	for (const select of await p.locator('main select').all()) {
		await select.selectOption({ index: await select.evaluate((e) => e.selectedIndex === 1 ? 0 : 1) });
		done.push(await select.getAttribute('aria-label'));
	}
	for (const box of await p.locator('main input[type=checkbox]').all()) { await box.click(); done.push('checkbox'); }
	return done;
}
const same = async (p, what) => {
	const before = await settings(p), address = p.url();
	await p.reload();
	await p.waitForFunction((n) => document.querySelectorAll('main :is(input, textarea, select, [role=radio])').length >= n, 1);
	await what(p);
	await until(async () => assert.deepEqual(await settings(p), before, `after a reload of ${address}`));
	assert.equal(p.url(), address);
};
const quiet = profile;

const steps = {
	async 'pages refresh themselves, and no line jumps'() {
		const list = [[q(CPU, { view: 'both', refresh: 1 }), '.flame canvas'], [q('stacks:requests:count:requests:count', { refresh: 1, last: 300 }), '.legend li'],
			['/targets', 'tbody tr'], ['/service-discovery', '.found-head'], ['/rules', '.rule'], ['/alerts', '.alert-rule'], ['/status', '.facts tr']];
		await together(list, async ([path, ready]) => {
			const p = await open(null, {}, url, (w) => w.addInitScript(LOOKS));
			let answers = 0;
			p.on('response', (r) => { if (/\/api\/v1\//.test(r.url())) answers++; });
			await p.goto(url + path);
			await p.waitForSelector(ready);
			const looks = async (n) => { const from = await p.evaluate(() => window.looks); await p.waitForFunction((to) => window.looks >= to, from + n); };
			/* what it shows at first has come, and has moved when it did */
			for (let still = false; !still;) {
				await p.evaluate(() => { window.shifts.length = 0; });
				await looks(2);
				still = await p.evaluate(() => window.shifts.length === 0 && !document.querySelector('.progress.on, [aria-busy=true]'));
			}
			const before = answers;
			await looks(4);
			assert.ok(answers >= before + 2, `${path} did not refresh itself`);
			/* A function that overtakes another while there is little data changes rows of the table. A page that jumps does so at every refresh. */
			let shifts = await p.evaluate(() => window.shifts);
			for (let tries = 0; shifts.length && tries < 6; tries++) {
				await p.evaluate(() => { window.shifts.length = 0; });
				await looks(4);
				shifts = await p.evaluate(() => window.shifts);
			}
			assert.deepEqual(shifts, [], path);
			await p.context().close();
		});
	},
	async 'the graph has its place before it is there, and while there is none'() {
		const p = await open();
		let go, none = true;
		const profile_is_there = new Promise((r) => { go = r; });
		await p.route('**/api/v1/query_range?*', async (r) => {
			await profile_is_there;
			await (none ? r.fulfill({ contentType: 'application/vnd.pyrrha.matrix', body: `${JSON.stringify({ status: 'success', data: { resultType: 'matrix', columns: { startMs: 0, stepMs: 1000 }, result: [] } })}\n` }) : r.continue());
		});
		await p.goto(url + q(CPU, { view: 'both', refresh: 1, last: 300 }));
		const top = () => p.locator('.panel.profile').boundingBox().then((b) => b.y);
		await p.waitForSelector('.flame canvas');
		const first = await top();
		go();
		await p.waitForSelector('.graph-panel .none');
		assert.equal(await top(), first, 'it moved when there were no series');
		none = false;
		await p.waitForSelector('.graph-panel .legend li');
		assert.equal(await top(), first, 'it moved when the series came');
		await p.context().close();
	},
	async 'axe finds nothing on any view, light and dark, wide and 390 px'() {
		const names = Object.keys(VIEWS).filter((n) => !ONLY || ONLY.test(n)), faults = [];
		const windows = await Promise.all([open(), open()]);
		await together(names, async (n, p) => { faults.push(...await look(p, n).catch((e) => [`${n}: ${e.message}`])); }, windows);
		for (const p of windows) await p.context().close();
		assert.ok(!faults.length, `\n${faults.join('\n')}`);
	},
	async 'light or dark: as the system says, or as was chosen'() {
		await page.emulateMedia({ colorScheme: 'dark' });
		const scheme = () => page.evaluate(() => [document.documentElement.dataset.scheme, getComputedStyle(document.body).backgroundColor, getComputedStyle(document.documentElement).colorScheme]);
		await page.waitForSelector('.facts tr');
		const dark = await scheme();
		assert.equal(dark[0], 'dark');
		await page.click('.preferences > button');
		await page.click('[aria-label=Colours] :text-is("Light")');
		const light = await scheme();
		assert.equal(light[0], 'light');
		assert.notEqual(light[1], dark[1]);
		await page.reload();
		assert.deepEqual(await scheme(), light, 'the choice is forgotten');
		await page.click('.preferences > button');
		await page.click('[aria-label=Colours] :text-is("System")');
		assert.deepEqual(await scheme(), dark);
		await page.emulateMedia({ colorScheme: 'light' });
		await page.waitForSelector('[data-scheme=light]');
		assert.deepEqual(await scheme(), light, 'it does not follow the system');
		await page.keyboard.press('Escape');
	},
	async 'every key is in the list, which a key opens'() {
		await page.goto(url + '/status');
		await page.waitForSelector('.facts tr');
		await page.keyboard.press('?');
		await page.waitForSelector('dialog[open]');
		assert.ok(await page.evaluate(() => document.querySelector('dialog').contains(document.activeElement)), 'the focus is not in the dialog');
		const rows = await page.locator('dialog dl div').evaluateAll((all) => all.map((e) => [[...e.querySelectorAll('dt kbd')].map((k) => k.textContent), e.querySelector('dd').textContent]));
		const names = await page.locator('.top nav a').allTextContents();
		const pages = rows.filter(([, what]) => names.includes(what));
		assert.deepEqual(pages.map(([, what]) => what).sort(), [...names].sort(), 'a page has no key');
		for (let i = 0; i < 12; i++) await page.keyboard.press('Tab');
		assert.ok(await page.evaluate(() => !document.activeElement || document.activeElement === document.body || document.querySelector('dialog').contains(document.activeElement)), 'Tab left the dialog');
		await page.keyboard.press('Escape');
		await page.waitForSelector('dialog', { state: 'detached' });
		for (const [keys, name] of pages) {
			for (const k of keys) await page.keyboard.press(k);
			await page.waitForSelector(`.top nav .here:text-is("${name}")`);
		}
		await page.keyboard.press('g');
		await page.keyboard.press('e');
		await page.focus('.editor textarea');
		await page.keyboard.type('?gt');
		assert.match(await page.inputValue('.editor textarea'), /\?gt$/, 'keys are taken from one who types');
		assert.equal(await page.locator('dialog').count(), 0);
	},
	async 'keyboard throughout: what opens takes the focus, and gives it back'() {
		await page.goto(url + q(CPU));
		await quiet(page);
		await page.keyboard.press('Tab');
		assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Skip to the content');
		await page.keyboard.press('Enter');
		assert.equal(await page.evaluate(() => document.activeElement.tagName), 'MAIN');
		const focused = () => page.evaluate(() => document.activeElement.textContent.trim());
		await page.focus('.refresh .menu-button button');
		await page.keyboard.press('Enter');
		assert.equal(await focused(), 'Every 10s', 'the chosen one has the focus');
		await page.keyboard.press('ArrowDown');
		assert.equal(await focused(), 'Every 30s');
		await page.keyboard.press('End');
		await page.keyboard.press('Escape');
		assert.equal(await page.locator('[role=menu]').count(), 0);
		assert.equal(await focused(), '10s');
		await page.keyboard.press('Enter');
		await page.keyboard.press('n');
		await page.keyboard.press('Enter');
		await page.waitForFunction(() => new URL(location.href).searchParams.get('refresh') === '0'); /* letters find entries */
		await page.focus('[aria-label=Layout] [aria-checked=true]');
		await page.keyboard.press('ArrowRight');
		assert.equal(await focused(), await page.textContent('[aria-label=Layout] [aria-checked=true]'));
		/* Nothing that one can press is out of the keyboard's reach, and everything in reach has a name. */
		const lost = await page.evaluate(() => [...document.querySelectorAll('main :is([onclick], button, a[href], select, input, textarea, [role=option])')].filter((e) => e.checkVisibility() && e.tabIndex < 0 && !e.closest('[role=radiogroup], [role=tablist], [role=menu], [role=listbox], [role=tree], [role=grid], [aria-hidden=true]')).map((e) => e.outerHTML.slice(0, 120)));
		assert.deepEqual(lost, []);
	},
	async 'a screen reader has the stacks as a tree, and the functions as a table'() {
		await page.goto(url + q(CPU, { view: 'both' }));
		await quiet(page);
		await page.focus('.flame canvas');
		await page.keyboard.press('ArrowDown');
		const active = await page.evaluate(() => { const c = document.activeElement, item = document.getElementById(c.getAttribute('aria-activedescendant')); return [c.getAttribute('role'), item?.getAttribute('role'), item?.getAttribute('aria-level'), item?.textContent]; });
		assert.deepEqual(active.slice(0, 3), ['tree', 'treeitem', '2']);
		assert.match(active[3], /, .* % of total, self /);
		const table = await page.locator('.functable').ariaSnapshot();
		assert.match(table, /(table|grid) "Table of functions"/);
		assert.match(table, /columnheader "Self/);
		assert.match(table, /rowheader/);
	},
	async 'who wants no motion gets none'() {
		const p = await open('/', { reducedMotion: 'reduce' }, waiting);
		await p.waitForSelector('.empty h1');
		await drawn(p);
		assert.deepEqual(await p.evaluate(() => document.getAnimations().filter((a) => a.playState === 'running').length), 0);
		await p.context().close();
	},
	async 'every control survives a reload'() {
		await page.goto(url + q(CPU, { view: 'both', refresh: 0, from: seconds() - 300, to: seconds() - 2 })); /* what moves is not the same a second later */
		await quiet(page);
		await page.fill('.search input', 'main');
		await quiet(page);
		await page.focus('.flame canvas');
		await page.keyboard.press('ArrowDown');
		await page.keyboard.press('ArrowDown');
		await page.keyboard.press('Enter');
		await page.waitForSelector('.crumbs .here');
		await page.click('.functable thead th:nth-child(3) button');
		await page.click('.functable thead th:nth-child(3) button');
		console.log(`  ${await setAll(page, 'Layout|Time range')}`);
		await quiet(page);
		console.log(`  ${decodeURIComponent(page.url())}`);
		await picture(page, out, 'people-state');
		await same(page, quiet);
		await picture(page, out, 'people-state-after');
	},
	async 'hidden series survive a reload'() {
		await page.goto(url + q('stacks:requests:count:requests:count', { from: seconds() - 300, to: seconds() - 2, refresh: 0 }));
		await page.waitForSelector('.legend li');
		await page.locator('.legend li [aria-pressed]').nth(1).dispatchEvent('click');
		await settled(page);
		await same(page, (p) => p.waitForSelector('.legend li').then(() => settled(p)));
	},
	async 'back and forward go where one was'() {
		await page.goto(url + q(CPU, { refresh: 0, from: seconds() - 200, to: seconds() - 2 }));
		await quiet(page);
		const seen = [];
		const mark = async () => { await settled(page); seen.push([page.url(), await settings(page)]); };
		await mark();
		await page.mouse.click(...await page.locator('.plot-over').boundingBox().then((b) => [b.x + b.width / 2, b.y + b.height / 2]));
		await page.waitForFunction(() => /[?&]at=/.test(location.search));
		await mark();
		await page.fill('.editor textarea', 'merge(heap_inuse_space[5m])');
		await page.keyboard.press('Escape');
		await page.click('.run');
		await page.waitForFunction(() => /heap/.test(location.search));
		await mark();
		await page.keyboard.press('Escape');
		await page.focus('.run');
		await page.keyboard.press('g');
		await page.keyboard.press('t');
		await page.waitForSelector('main.page-targets tbody tr');
		const there = async ([address, set]) => {
			await page.waitForFunction((u) => location.href === u, address);
			await until(async () => assert.deepEqual(await settings(page), set, address));
		};
		for (const was of [...seen].reverse()) { await page.goBack(); await there(was); }
		for (const was of seen.slice(1)) { await page.goForward(); await there(was); }
	},
	async 'a link with nonsense shows a page, and asks no more than one should'() {
		let asked = 0;
		page.on('request', (r) => { if (r.url().includes('/api/v1/query?')) asked++; });
		for (const every of ['-5', '0.001', '3e6']) {
			asked = 0;
			await page.goto(`${url}/?${new URLSearchParams({ q: 'merge(cpu[1m])', refresh: every })}`);
			await page.waitForSelector('.profile .flame canvas');
			await page.waitForTimeout(700);
			assert.ok(asked < 30, `refresh=${every}: ${asked} questions`);
		}
		for (const name of ['constructor', '__proto__']) {
			await page.goto(`${url}/?${new URLSearchParams({ q: 'merge(cpu[1m])', open: name })}`);
			await page.waitForSelector('.opened .error');
		}
	},
	async 'a link has absolute times'() {
		await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
		await page.goto(url + q(CPU, { last: 600, search: 'main' }));
		await quiet(page);
		await page.click('[aria-label^="Copy a link"]');
		const link = new URL(await page.evaluate(() => navigator.clipboard.readText())), of = (n) => link.searchParams.get(n);
		assert.equal(of('last'), null);
		assert.equal(Number(of('to')) - Number(of('from')), 600);
		assert.ok(Math.abs(Number(of('to')) - seconds()) < 60);
		assert.deepEqual([of('q'), of('search')], [CPU, 'main']);
		await page.goto(link.href);
		await quiet(page);
		const sum = await page.textContent('.sum');
		await page.waitForTimeout(1100); /* the next samples have come */
		await page.reload();
		await quiet(page);
		assert.equal(await page.textContent('.sum'), sum, 'the link shows something else a moment later');
	},
	async 'no request went beyond the server'() {
		const hosts = new Set(requests.map((r) => new URL(r).origin));
		assert.deepEqual([...hosts].sort(), [url, empty, waiting].map((u) => new URL(u).origin).sort());
		console.log(`  ${requests.length} requests`);
	},
	async 'the content policy allows nothing unsafe'() {
		assert.ok(policies.size > 4);
		for (const [path, policy] of policies) {
			assert.match(policy ?? '', /default-src 'none'/, path);
			assert.doesNotMatch(policy, /unsafe|\*|https?:/, path);
		}
	},
	async 'the page is at most 121.5 kB, compressed before anybody asks'() {
		let total = 0;
		for (const f of ['', 'app.js', 'app.css', 'favicon.svg']) {
			const begin = performance.now();
			const r = await fetch(`${url}/${f}`, { headers: { 'Accept-Encoding': 'gzip' } });
			const size = Number(r.headers.get('content-length'));
			assert.ok(size > 0 && (r.headers.get('content-encoding') === 'gzip' || size < 1000), `${f}: ${size} bytes, ${r.headers.get('content-encoding')}`);
			await r.arrayBuffer();
			total += size;
			console.log(`  /${f} ${size} bytes, ${(performance.now() - begin).toFixed(1)} ms`);
		}
		assert.ok(total <= 121500, `${total} bytes`);
	},
	async 'nothing complained'() {
		assert.deepEqual(complaints.filter((c) => !/net::ERR_FAILED/.test(c)), []);
	},
};

const page = await open('/status');
await take(steps, () => picture(page, out, 'people-failed'));
