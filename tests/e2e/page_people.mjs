// SPDX-License-Identifier: Apache-2.0
// The page for all who use it: node page_people.mjs URL EMPTY_URL WAITING_URL OUTDIR. Goes through every view, light and dark, wide and on a
// phone, and looks for what axe knows to be wrong, for what is wider than its window, for requests that go elsewhere, for lines
// that jump when the page refreshes itself, and for state that a reload loses. Of each view it keeps pictures in OUTDIR/views.
// URL has the demo program, a job of ninety targets, rules, a target that is down and one that is dropped; EMPTY_URL has no target,
// WAITING_URL one that was never up.
import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { accessible, complaints, open as openAt, picture, take } from './browser.mjs';

const [url, empty, waiting, out] = process.argv.slice(2);
const ONLY = process.env.PYRRHA_VIEWS && new RegExp(process.env.PYRRHA_VIEWS);
const views = join(out, 'views');
mkdirSync(views, { recursive: true });

/* ---- what goes over the wire, in all windows ---- */

const requests = [], policies = new Map();
const open = (path, options, at = url) => openAt(at + path, options, 20000, async (p) => {
	p.on('request', (r) => requests.push(r.url()));
	p.on('response', (r) => { if (r.request().isNavigationRequest()) policies.set(new URL(r.url()).pathname, r.headers()['content-security-policy']); });
	await p.addInitScript(() => {
		window.violations = [];
		document.addEventListener('securitypolicyviolation', (e) => window.violations.push(`${e.violatedDirective}: ${e.blockedURI}`));
		window.shifts = [];
		new PerformanceObserver((list) => {
			for (const e of list.getEntries())
				if (!e.hadRecentInput) window.shifts.push({ value: e.value, of: e.sources.map((s) => s.node?.nodeType === 1 ? `${s.node.tagName}.${s.node.className}` : String(s.node?.textContent)).join(', ') });
		}).observe({ type: 'layout-shift', buffered: true });
	});
});
const settled = async (p) => { await p.waitForSelector('.progress:not(.on)'); await p.waitForTimeout(150); };
const q = (query, more = {}) => `/?${new URLSearchParams({ q: query, ...more })}`;
const seconds = () => Math.round(Date.now() / 1000);
const CPU = 'merge(cpu[5m])';
const param = (p, name) => new URL(p.url()).searchParams.get(name);

/* ---- views ---- */

const profile = (p) => p.waitForSelector('.flame canvas, .functable tbody tr').then(() => settled(p));
/** Of each view where it is, and what has to be done to see it. */
const VIEWS = {
	explore: { path: q(CPU), go: profile },
	table: { path: q(CPU, { view: 'table' }), go: profile },
	both: { path: q(CPU, { view: 'both' }), go: profile },
	search: { path: q(CPU, { search: 'main', view: 'both' }), go: profile },
	moment: { path: () => q(CPU, { at: seconds() - 5 }), go: profile },
	range: { path: () => q(CPU, { a: seconds() - 30, b: seconds() - 2 }), go: profile },
	series: { path: q('rate(cpu[30s])'), go: profile },
	ninety: { path: q('stacks:requests:count:requests:count', { last: 300 }), go: (p) => p.waitForSelector('.legend li').then(() => settled(p)) },
	types: { path: q(CPU), go: async (p) => { await profile(p); await p.click('.types > button'); } },
	times: { path: q(CPU), go: async (p) => { await profile(p); await p.click('.timerange .popover button'); } },
	export: { path: q(CPU), go: async (p) => { await profile(p); await p.click('button:has-text("Export")'); } },
	menu: { path: q(CPU), go: async (p) => { await profile(p); await p.click('.flame canvas', { button: 'right', position: { x: 90, y: 70 } }); await p.waitForSelector('[role=menuitem]'); } },
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
	status: { path: '/status', go: (p) => p.waitForSelector('.facts tr') },
	empty: { path: '/', at: empty, go: (p) => p.waitForSelector('.empty h1') },
	waiting: { path: '/', at: waiting, go: (p) => p.waitForSelector('.empty tbody tr') },
};
const WIDE = { width: 1440, height: 900 }, PHONE = { width: 390, height: 844 };

/** All of a view's faults, and a picture of each of its faces. */
async function look(name) {
	const view = VIEWS[name], faults = [];
	const path = typeof view.path === 'function' ? view.path() : view.path;
	const note = (f) => f.catch((e) => faults.push(e.message));
	for (const [size, viewport] of [['wide', WIDE], ['phone', PHONE]]) {
		const p = await open(path, { viewport, hasTouch: size === 'phone', reducedMotion: 'reduce' }, view.at);
		await view.go(p);
		const where = `${name}-${size}`;
		await note(accessible(p, where));
		const width = await p.evaluate(() => document.documentElement.scrollWidth);
		if (width > viewport.width) faults.push(`${where}: ${width} px wide`);
		const headings = await p.locator('h1').count();
		if (headings !== 1) faults.push(`${where}: ${headings} h1`);
		await picture(p, views, where);
		await p.emulateMedia({ colorScheme: 'dark' });
		await p.waitForSelector('[data-scheme=dark]');
		await note(accessible(p, `${where}-dark`, ['color-contrast', 'link-in-text-block']));
		await picture(p, views, `${where}-dark`);
		const v = await p.evaluate(() => window.violations);
		if (v.length) faults.push(`${where}: the content policy is violated: ${v}`);
		await p.context().close();
	}
	return faults;
}

const steps = {
	async 'axe finds nothing on any view, light and dark, wide and 390 px'() {
		const names = Object.keys(VIEWS).filter((n) => !ONLY || ONLY.test(n)), faults = [];
		const one = async () => { for (let n; (n = names.shift()) !== undefined;) faults.push(...await look(n).catch((e) => [`${n}: ${e.message}`])); };
		await Promise.all([one(), one()]);
		assert.ok(!faults.length, `\n${faults.join('\n')}`);
	},
};

let page;
await take(steps, async () => page && picture(page, out, 'people-failed'));
