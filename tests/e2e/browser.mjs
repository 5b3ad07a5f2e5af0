// SPDX-License-Identifier: Apache-2.0
// A headless Chromium and what the scripts beside this one do with it. They are run in a copy beside the packages of the page, where
// node finds playwright-core and axe-core (harness.py, in_the_browser).
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import axe from 'axe-core';
import { chromium } from 'playwright-core';

const browser = await chromium.launch({
	executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
	args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
});

/** What the browser complained of, in all windows. */
export const complaints = [];

/** For who works on the page: the bundle of that folder is shown, and the program need not be built again. */
const DIST = process.env.PYRRHA_PAGE_DIST;
const DIST_TYPES = { 'app.js': 'text/javascript', 'app.css': 'text/css' };

/** A browser so many times as slow as this machine: steps have to hold there, too. */
const SLOWER = Number(process.env.PYRRHA_SLOWER ?? 1);

/** A new window at that address; what it waits for may take so many ms. before: what is to be done with it before it goes there. */
export async function open(address, options = {}, wait = 40000, before = undefined) {
	const p = await (await browser.newContext({ viewport: { width: 1440, height: 900 }, colorScheme: 'light', reducedMotion: 'reduce', ...options })).newPage();
	p.setDefaultTimeout(wait);
	if (SLOWER > 1) await (await p.context().newCDPSession(p)).send('Emulation.setCPUThrottlingRate', { rate: SLOWER });
	for (const f of DIST ? Object.keys(DIST_TYPES) : [])
		await p.route(`**/${f}`, (r) => r.fulfill({ body: readFileSync(join(DIST, f)), contentType: DIST_TYPES[f] }));
	/* Without `polling`, playwright evaluates the condition in each frame, and Chromium draws sixty frames a second until the condition holds. */
	const real = p.waitForFunction.bind(p);
	p.waitForFunction = (f, arg, o) => real(f, arg, { polling: 100, ...o });
	await before?.(p);
	p.on('pageerror', (e) => complaints.push(`exception: ${e.message}`));
	/* A failed request is for the step that caused it to judge; a violated content policy never is. */
	p.on('console', (m) => { if (m.type() === 'error' && !/Failed to load resource/.test(m.text())) complaints.push(m.text()); });
	if (address) await p.goto(address);
	return p;
}

/** Keeps a picture of it in that directory. */
export const picture = (p, directory, name, more) => p.screenshot({ path: join(directory, `${name}.png`), ...more });

/** Faults that people with a screen reader, a keyboard or weak eyes would meet. rules: only these of axe's. */
export async function accessible(p, where, rules = undefined) {
	if (!await p.evaluate(() => 'axe' in window)) await p.evaluate(axe.source);
	const found = await p.evaluate((only) => window.axe.run(document, { resultTypes: ['violations'], ...only && { runOnly: { type: 'rule', values: only } } }), rules);
	const text = found.violations.map((v) => `${v.id} (${v.impact}): ${v.nodes.slice(0, 4).map((n) => `${n.target} ${n.failureSummary?.split('\n')[1] ?? ''}`).join(' | ')}`);
	assert.deepEqual(text, [], where);
}

/** That nothing of it is cut off, or wider than its window; and accessible(). */
export async function fits(p, where, rules = undefined) {
	await drawn(p);
	const [width, room] = await p.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
	assert.ok(width <= room, `${where}: ${width} px wide`);
	await accessible(p, where, rules);
}

/** Until what was asked of it is on the screen: the next two frames. */
export const drawn = (p) => p.evaluate(() => new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r))));

/** Until it holds; what it said at last, if it never does. */
export async function until(holds, wait = 20000) {
	for (const end = Date.now() + wait; ;)
		try { return await holds(); } catch (e) {
			if (Date.now() > end) throw e;
			await new Promise((r) => setTimeout(r, 100));
		}
}

/** In a window: what is done every few seconds is done each second, and counted in window.looks: nobody has to wait for it, or for a time. */
export const LOOKS = () => {
	const real = window.setInterval;
	window.looks = 0;
	window.setInterval = (f, ms, ...a) => ms < 1000 ? real(f, ms, ...a) : real(() => { window.looks++; f(...a); }, Math.min(ms, 1000));
};

/** Walks to a box of a flame graph by keyboard, from the root on, a level deeper with `key`; says what the box is. */
export async function walk(p, names, nth = 0, key = 'ArrowDown') {
	await p.locator('.flame canvas').nth(nth).focus();
	const [at, trace] = await p.evaluate(async ([i, deeper, path]) => {
		const canvas = () => document.querySelectorAll('.flame canvas')[i];
		const at = () => canvas().querySelector('[aria-selected=true]')?.textContent ?? '';
		const press = async (k) => { const was = at(); canvas().dispatchEvent(new KeyboardEvent('keydown', { key: k, bubbles: true, cancelable: true })); await new Promise((r) => setTimeout(r)); return at() !== was; };
		const trace = [];
		await press('Home');
		for (const name of path) {
			await press(deeper);
			while (await press('ArrowLeft'));
			do trace.push(at()); while (!at().startsWith(`${name},`) && await press('ArrowRight'));
			if (!at().startsWith(`${name},`)) return [null, trace];
		}
		return [at(), trace];
	}, [nth, key, names]);
	assert.ok(at !== null, `no box of ${names}: ${trace.join('; ')}`);
	return at;
}

/** Seconds of CPU that this program and its browser have used: they say how dear a step is on a machine that does other things, too. */
function used() {
	const all = new Map(readdirSync('/proc').filter((n) => /^\d+$/.test(n)).map((n) => {
		try {
			const f = readFileSync(`/proc/${n}/stat`, 'utf8').replace(/^.*\) /s, '').split(' ').map(Number); /* from the state, the third field, on */
			return [Number(n), { parent: f[1], ticks: f[11] + f[12] + f[13] + f[14] }];
		} catch { return [0, null]; }
	}));
	let sum = 0;
	for (const [n, p] of all) {
		let at = n;
		while (all.get(at) && at !== process.pid) at = all.get(at).parent;
		if (at === process.pid && p) sum += p.ticks;
	}
	return sum / 100;
}

/** Ends the browser and this program. */
export async function leave(failed = false) {
	await browser.close();
	process.exit(failed ? 1 : 0);
}

/** Takes the steps in their order, up to the first that fails; then shows where it was. Ends the program. PYRRHA_STEPS: only those whose names it matches. */
export async function take(steps, show) {
	let failed = false;
	for (const [name, step] of Object.entries(steps)) {
		if (process.env.PYRRHA_STEPS && !new RegExp(process.env.PYRRHA_STEPS).test(name)) continue;
		const begin = performance.now(), before = used();
		try {
			await step();
			console.log(`ok   ${name} (${((performance.now() - begin) / 1000).toFixed(1)} s, ${(used() - before).toFixed(1)} s of CPU)`);
		} catch (e) {
			failed = true;
			console.log(`FAIL ${name}: ${e.message}`);
			if (complaints.length) console.log(`  the browser said: ${complaints.join('; ')}`);
			await show().catch(() => undefined);
			break;
		}
	}
	console.log(`${used().toFixed(1)} s of CPU`);
	await leave(failed);
}
