// SPDX-License-Identifier: Apache-2.0
// The menu of a frame, sharing, pins, files: node page_share.mjs URL OUTDIR. OUTDIR has before.pb.gz, after.pb.gz and heap.pb.gz of the demo program,
// and gets the files and texts that the page gives away, which test_page_share.py then uses.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { accessible, complaints, fits, open as openAt, picture, take } from './browser.mjs';

const [url, out] = process.argv.slice(2);
const WAIT = 60000, FN = 'main.fibonacci', CPU = 'merge(cpu[5m])';
const open = (path, options) => openAt(url + path, options, WAIT);
const shot = (p, name) => picture(p, out, `share-${name}`);
const at = (q, more = {}) => `/?${new URLSearchParams({ q, last: '300', refresh: '0', view: 'both', ...more })}`;
const param = (name) => new URL(page.url()).searchParams.get(name);
const file = (name) => join(out, name);
const row = (name = FN) => page.locator('.functable tbody tr', { hasText: name }).first();
const copied = () => page.evaluate(() => navigator.clipboard.readText());
const item = (text) => page.locator('[role=menu] [role=menuitem]', { hasText: text }).first();

async function menu(p = page) {
	await p.locator('.functable tbody tr', { hasText: FN }).first().click({ button: 'right' });
	await p.waitForSelector('.context [role=menu]');
}
/** A point on some box of the flame graph that can be seen. */
async function inFlame() {
	const box = await page.locator('.flame canvas').boundingBox();
	return [box.x + box.width * 0.4, Math.max(box.y, 100) + 31];
}
/** Back to the query, with nothing chosen. */
async function fresh(more) {
	await page.goto(url + at(CPU, more));
	await row().waitFor();
}
const DROP = (files) => {
	const data = new DataTransfer();
	for (const { name, bytes } of files) data.items.add(new File([Uint8Array.from(atob(bytes), (c) => c.charCodeAt(0))], name));
	for (const type of ['dragenter', 'dragover', 'drop']) document.body.dispatchEvent(new DragEvent(type, { dataTransfer: data, bubbles: true, cancelable: true }));
};
const drop = (...names) => page.evaluate(DROP, names.map((name) => ({ name, bytes: readFileSync(file(name)).toString('base64') })));
const sum = async () => (await page.locator('.opened .sum').textContent());

let page, pin;
const steps = {
	async 'a right click, or the menu key, opens the menu of a frame'() {
		page = await open(at(CPU), { permissions: ['clipboard-read', 'clipboard-write'] });
		await row().waitFor();
		await menu();
		const items = await page.locator('.context [role=menuitem]').allTextContents();
		for (const want of ['Only stacks with it', 'Without stacks with it', 'Its callers and callees', 'Its share over time', 'Alert when…', 'Copy the name', 'Copy file and line', 'Open in repository'])
			assert.ok(items.includes(want), `${want} is not among ${items}`);
		assert.equal(await page.evaluate(() => document.activeElement.textContent), items[0], 'the focus is not in the menu');
		await shot(page, 'menu');
		await page.keyboard.press('Escape');
		await page.waitForSelector('.context', { state: 'detached' });
		/* the same by keyboard alone */
		await page.focus('.functable [role=grid]');
		await page.keyboard.press('ArrowDown');
		await page.keyboard.press('ContextMenu');
		await page.waitForSelector('.context [role=menu]');
		await page.keyboard.press('End');
		await page.keyboard.press('Escape');
		await page.mouse.click(...await inFlame(), { button: 'right' });
		await item('Zoom in').click();
		await page.waitForFunction(() => /zoom/i.test(document.querySelector('.crumbs')?.textContent ?? ''));
	},
	async 'only with it, without it: the query says so'() {
		await fresh();
		await menu();
		await item('Only stacks with it').click();
		await page.waitForFunction((q) => new URL(location.href).searchParams.get('q') === q, `focus(${CPU}, {function="${FN}"})`);
		await fresh();
		await menu();
		await item('Without stacks').click();
		await page.waitForFunction((q) => new URL(location.href).searchParams.get('q') === q, `ignore(${CPU}, {function="${FN}"})`);
	},
	async 'callers and callees, and its graph'() {
		await fresh();
		await menu();
		await item('callers and callees').click();
		await page.waitForFunction((f) => new URL(location.href).searchParams.get('sandwich') === f, FN);
		await fresh();
		await menu();
		await item('share over time').click();
		await page.waitForFunction((f) => new URL(location.href).searchParams.get('fn') === f, FN);
	},
	async 'copies the name, and opens the source in the repository'() {
		await fresh();
		await menu();
		const link = item('Open in repository');
		await link.waitFor();
		assert.match(await link.getAttribute('href'), /^https:\/\/git\.example\.org\/.*main\.go#L\d+$/);
		assert.equal(await link.getAttribute('rel'), 'noopener noreferrer');
		await item('Copy the name').click();
		assert.equal(await copied(), FN);
	},
	async 'alert when: a rule with a threshold, drawn over its last day, and when it would have fired'() {
		await menu();
		await item('Alert when').click();
		await page.waitForSelector('.alert-chart');
		assert.match(await page.textContent('.alert-yaml pre'), /alert: MainFibonacciHigh\n\s+expr: 'share_low\(merge\(cpu\[5m\]\), \{function="main\.fibonacci"\}, 3\) > 0\.\d+'\n\s+for: 5m/);
		await page.fill('[aria-label="Threshold in percent"]', '0.5');
		await page.selectOption('[aria-label="For how long"]', '0');
		await page.waitForFunction(() => /fired once.*The server evaluated/.test(document.querySelector('.alert-fired').textContent));
		assert.equal(await page.locator('.alert-chart .fired').count(), 1);
		await page.click('.alert-yaml button');
		assert.equal(await copied(), await page.textContent('.alert-yaml pre'));
		writeFileSync(file('alert.yml'), await copied());
		await accessible(page, 'alert');
		await shot(page, 'alert');
		await page.fill('[aria-label="Threshold in percent"]', '99.5');
		await page.waitForFunction(() => /would not have fired.*The server evaluated/.test(document.querySelector('.alert-fired').textContent));
		await page.keyboard.press('Escape');
		await page.waitForSelector('dialog', { state: 'detached' });
	},
	async 'a link has absolute times'() {
		await page.click('button:has-text("Share")');
		await page.click('.export button:has-text("Copy the link")');
		const p = new URL(await copied()).searchParams;
		assert.equal(p.get('q'), CPU);
		assert.equal(Number(p.get('to')) - Number(p.get('from')), 300);
		assert.equal(p.get('last'), null);
		await page.waitForSelector('.export button:has-text("Copied")');
		await shot(page, 'menu-share');
	},
	async 'files: pprof, folded, speedscope, SVG, PNG'() {
		for (const [title, name] of [['pprof', 'got.pb.gz'], ['Folded', 'got.folded'], ['speedscope', 'got.speedscope.json'], ['SVG', 'got.svg'], ['PNG', 'got.png']]) {
			if (!await page.locator('.export').isVisible()) await page.click('button:has-text("Share")');
			const download = page.waitForEvent('download');
			await page.locator('.export-files .row', { hasText: title }).first().click();
			await (await download).saveAs(file(name));
		}
		assert.match(readFileSync(file('got.folded'), 'utf8'), /main\.fibonacciHandler.* \d+\n/);
		assert.ok(JSON.parse(readFileSync(file('got.speedscope.json'), 'utf8')).shared.frames.some((f) => f.name === FN));
		assert.match(readFileSync(file('got.svg'), 'utf8'), /^<(\?xml|svg)/);
		const png = readFileSync(file('got.png'));
		assert.deepEqual([png.subarray(1, 4).toString(), png.readUInt32BE(16)], ['PNG', 1600]);
	},
	async 'commands of go tool pprof and of pyrtool, which a shell takes as they are'() {
		/* text: what it prints if it works */
		const tries = async (tool, text) => {
			if (!await page.locator('.export').isVisible()) await page.click('button:has-text("Share")');
			await page.click(`.export button:has-text("Copy the ${tool} command")`);
			const command = await copied();
			assert.ok(command.startsWith(`${tool} `), command);
			if (tool !== 'pyrtool' && !process.env.PYRRHA_GO) return;
			const env = { ...process.env, PATH: `${process.env.PYRRHA_TOOLS}:${process.env.PATH}`, PPROF_TMPDIR: out };
			assert.match(execFileSync('sh', ['-c', command.replace('tool pprof', 'tool pprof -top')], { env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }), text, command);
		};
		await tries('go tool pprof', /Type: cpu[\s\S]*main\.fibonacciHandler/);
		await tries('pyrtool', /function="main\.\w+".*=> /);
		/* a query that a shell would take apart */
		await page.goto(url + at(`focus(merge(cpu{job=~"echo.*",job!="it's $HOME \`x\`"}[5m]), {function=~"main.fib.*"})`));
		await row().waitFor();
		await tries('go tool pprof', /Type: cpu[\s\S]*main\.fibonacciHandler/);
		await tries('pyrtool', /function="main\.fib\w+".*=> /);
	},
	async 'pins a profile, and its link outlives the data'() {
		await fresh();
		await page.click('button:has-text("Share")');
		await page.click('.export button:has-text("Pin this profile")');
		await page.fill('.pin-dialog input', 'the spike');
		await accessible(page, 'pin');
		await page.keyboard.press('Enter');
		await page.waitForSelector('.pin-dialog button:has-text("Copy link")');
		await shot(page, 'pin');
		await page.click('.pin-dialog button:has-text("Copy link")');
		pin = await copied();
		assert.match(pin, /\?open=[0-9a-f]{16}$/);
		await page.keyboard.press('Escape');
		assert.equal(await page.evaluate(() => fetch('api/v1/admin/tsdb/delete_series?match[]=cpu', { method: 'POST' }).then((r) => r.status)), 204);
		await page.goto(pin);
		await row().waitFor();
		assert.match(await page.textContent('.opened-facts'), /the spike.*pinned.*merge\(cpu\[5m\]\)/);
		await page.waitForSelector('.flame canvas');
		await accessible(page, 'a pinned profile');
		await shot(page, 'pinned');
		/* as the server counts it */
		const total = await page.evaluate(async (id) => {
			const rows = await (await fetch(`api/v1/pins`)).json();
			return rows.data.pins.find((p) => id.endsWith(p.id)).bytes;
		}, pin);
		assert.ok(total > 500, String(total));
		await page.click('button:has-text("Download")');
		const download = page.waitForEvent('download');
		await item('pprof').click();
		await (await download).saveAs(file('pinned.pb.gz'));
		await page.locator('.functable tbody tr', { hasText: FN }).first().click({ button: 'right' });
		const items = await page.locator('.context [role=menuitem]').allTextContents();
		assert.ok(!items.some((i) => /stacks|Alert|over time/.test(i)), `offered of a pin: ${items}`);
		await page.keyboard.press('Escape');
	},
	async 'pins are listed, lead to their query, are compared and removed'() {
		await page.setInputFiles('input[type=file]', file('after.pb.gz'));
		await page.waitForFunction(() => /after\.pb\.gz/.test(document.querySelector('.opened-facts')?.textContent));
		await page.click('button:has-text("Compare with")');
		await page.locator('[role=menuitemradio]', { hasText: 'the spike' }).click();
		await page.waitForFunction(() => /compared with the spike/.test(document.querySelector('.opened .profile-head').textContent) && document.querySelector('.functable.diff'));
		await shot(page, 'compared');
		await accessible(page, 'compared');
		await page.goto(url + '/?open=pins');
		const one = page.locator('.pins tbody tr', { hasText: 'the spike' });
		await one.waitFor();
		await shot(page, 'pins');
		await accessible(page, 'pins');
		await one.locator('button:has-text("merge(cpu[5m])")').click();
		await page.waitForFunction(() => new URL(location.href).searchParams.get('q') === 'merge(cpu[5m])' && new URL(location.href).searchParams.get('at'));
		await page.goBack();
		await one.waitFor();
		await one.locator('button:has-text("Remove")').click();
		await one.locator('button:has-text("Really remove")').click();
		await page.waitForSelector('p:has-text("Nothing is pinned")');
		await page.goto(pin);
		await page.waitForSelector('[role=alert]:has-text("This pin no longer exists")');
		await page.click('button:has-text("Back to the query")');
	},
	async 'a pprof file that is dropped is shown and compared in the browser, without a word to the server'() {
		await page.goto(url + '/targets');
		await page.waitForSelector('.top');
		const said = [];
		let closed = false; /* then the query is asked again */
		const listen = (r) => { if (r.method() !== 'GET' || (!closed && /\/api\/v1\/query|pb\.gz/.test(r.url()))) said.push(`${r.method()} ${r.url()}`); };
		page.on('request', listen);
		await drop('before.pb.gz');
		await row().waitFor();
		assert.match(await page.textContent('.opened-facts'), /before\.pb\.gz.*a file of this computer/);
		assert.equal(await page.locator('[aria-label="Sample type"] option').count(), 2);
		const cpu = await sum();
		await page.selectOption('[aria-label="Sample type"]', 'samples');
		await page.waitForFunction((was) => document.querySelector('.opened .sum').textContent !== was, cpu);
		await page.selectOption('[aria-label="Sample type"]', 'cpu');
		await page.mouse.click(...await inFlame());
		await page.waitForSelector('button:has-text("Reset zoom")');
		await page.click('button:has-text("Reset zoom")');
		await shot(page, 'file');
		await drop('after.pb.gz');
		await page.waitForSelector('.functable.diff');
		assert.match(await page.textContent('.opened .profile-head'), /after\.pb\.gz.*compared with before\.pb\.gz/);
		await page.click('.opened [role=radio]:has-text("Absolute")');
		await page.waitForFunction(() => new URL(location.href).searchParams.get('measure') === 'absolute');
		await page.click('.opened [role=radio]:has-text("Shares")');
		assert.match(await page.textContent('.noise-note'), /samples of the base/);
		await shot(page, 'files-compared');
		await page.click('button:has-text("Download")');
		const download = page.waitForEvent('download');
		await item('Folded').click();
		await (await download).saveAs(file('local.folded'));
		closed = true;
		await page.click('[aria-label="Close"]');
		await drop('before.pb.gz', 'after.pb.gz');
		await page.waitForFunction(() => /compared with before\.pb\.gz/.test(document.querySelector('.opened .profile-head')?.textContent));
		page.off('request', listen);
		assert.deepEqual(said, []);
	},
	async 'a file upside down, and callers and callees of a function of it'() {
		await fresh();
		await drop('before.pb.gz');
		await page.waitForSelector('.opened-facts');
		await row().waitFor();
		const first = () => page.locator('.flame canvas').first().evaluate((c) => c.querySelector('[role=treeitem]')?.textContent), total = (await first()).split(',')[1];
		const rows = await page.textContent('.functable tbody');
		await page.click('.toggle:has-text("Inverted")');
		await page.waitForFunction(() => new URL(location.href).searchParams.get('invert') === '1');
		await page.locator('.flame canvas').focus();
		await page.keyboard.press('Home');
		assert.equal((await first()).split(',')[1], total, 'upside down it is as much');
		assert.equal(await page.textContent('.functable tbody'), rows, 'the table has what functions cost, whatever is drawn');
		await page.click('.toggle:has-text("Inverted")');
		await row().click({ button: 'right' });
		await item('Its callers and callees').click();
		await page.waitForFunction(() => document.querySelectorAll('.sandwich .flame canvas').length === 2);
		const name = await page.textContent('.half-title b');
		const value = (await page.textContent('.half-title span')).split(' · ')[0];
		const halves = await page.locator('.sandwich .flame canvas').evaluateAll((all) => all.map((c) => c.querySelector('[role=treeitem]:nth-child(2)')?.textContent ?? c.textContent));
		for (const h of halves) assert.ok(h.includes(value), `${name}: ${h} has not ${value}`);
		await accessible(page, 'callers and callees of a file');
		await shot(page, 'file-sandwich');
		await page.click('[aria-label^="Remove callers and callees"]');
		await page.waitForSelector('.sandwich', { state: 'detached' });
	},
	async 'what is no profile, or another one, is told'() {
		writeFileSync(file('page.html'), '<!doctype html><p>no profile');
		writeFileSync(file('half.pb.gz'), readFileSync(file('before.pb.gz')).subarray(0, 300));
		await drop('page.html');
		await page.waitForSelector('[role=alert]:has-text("page.html cannot be shown")');
		await drop('half.pb.gz');
		await page.waitForSelector('[role=alert]:has-text("compression is damaged")');
		await drop('heap.pb.gz');
		await page.waitForSelector('[role=alert]:has-text("cannot be compared with this")');
		await shot(page, 'other-type');
		await page.reload();
		await page.waitForSelector('[role=alert]:has-text("drop it on the page again")');
		await page.click('button:has-text("Back to the query")');
		await page.waitForSelector('.editor');
	},
	async 'in the dark, on a phone'() {
		for (const [name, options] of [['dark', { colorScheme: 'dark' }], ['phone', { viewport: { width: 390, height: 844 }, hasTouch: true }]]) {
			page = await open('/targets', options);
			await page.waitForSelector('.top');
			await drop('before.pb.gz', 'after.pb.gz');
			await page.waitForSelector('.opened .sum');
			await fits(page, `files, ${name}`, name === 'dark' ? ['color-contrast'] : undefined);
			await shot(page, `files-${name}`);
			await page.context().close();
		}
	},
	async 'nothing complained'() {
		assert.deepEqual(complaints, []);
	},
};

await take(steps, () => shot(page, 'failed'));
