// SPDX-License-Identifier: Apache-2.0
// The pages of rules and alerts, used as a person would: node page_rules.mjs URL URL_WITHOUT_RULES OUTDIR. The rules are those of
// test_rules_view.py, whose names and texts mean harm.
import assert from 'node:assert/strict';
import { accessible, complaints, drawn, fits, open as openAt, picture, take } from './browser.mjs';

const [url, empty, out] = process.argv.slice(2);
const open = (path, options, at = url) => openAt(path && at + path, options, 60000);
const shot = (p, name) => picture(p, out, `rules-${name}`);
const param = (p, name) => new URL(p.url()).searchParams.get(name);
const names = (p) => p.locator('.rule-name > b').allTextContents();
const titles = (p) => p.locator('.alert-rule h2').allTextContents();
const HARM = '<img src=x onerror="hacked=1">';

async function harmless(p, where) {
	await accessible(p, where);
	assert.equal(await p.evaluate(() => window.hacked), undefined, `${where}: a text of a rule was run`);
}

const steps = {
	async 'lists groups and their rules'() {
		page = await open('/');
		await page.click('.top nav a:has-text("Rules")');
		await page.waitForSelector('.rule');
		assert.deepEqual(await page.locator('.rules h2').allTextContents(), ['<b>g</b>', 'fails', 'other']);
		assert.deepEqual(await names(page), ['one', HARM, 'Waits', 'Quiet', 'Fails', 'a:b']);
		assert.deepEqual(await page.locator('.rule > .pill').allTextContents(), ['ok', 'firing', 'pending', 'inactive', 'failed', 'ok']);
		assert.match(await page.textContent('.rules .facts-line'), /every 1s.*evaluated .*took .*limit 10/);
		assert.match(await page.textContent('.rule:has(.rule-name > b:text-is("Fails"))'), /same labelset/);
		await shot(page, 'list');
	},
	async 'the address says which are shown'() {
		await page.click('[aria-label=State] button:has-text("Failed 1")');
		await page.waitForFunction(() => document.querySelectorAll('.rule').length === 1);
		assert.equal(param(page, 'state'), 'failed');
		await page.goto(page.url());
		await page.waitForSelector('.rule');
		assert.deepEqual(await names(page), ['Fails']);
		await page.click('[aria-label=State] button:has-text("All 6")');
		await page.fill('.field input', 'SUM BY');
		await page.waitForFunction(() => document.querySelectorAll('.rule').length === 1);
		assert.equal(param(page, 'find'), 'SUM BY');
		assert.deepEqual(await names(page), ['a:b']);
		await page.fill('.field input', 'no such text');
		await page.waitForSelector('.hint:has-text("No rule matches")');
		await page.fill('.field input', '');
	},
	async 'a click opens the query'() {
		await page.click('.rule:has(.rule-name > b:text-is("a:b")) .query-link');
		await page.waitForSelector('.legend li');
		assert.equal(param(page, 'q'), 'sum by (x) (one) / 4');
		await page.goBack();
		await page.waitForSelector('.rule');
	},
	async 'leads to its alerts'() {
		await page.click(`.rule:has-text("onerror") .see`);
		await page.waitForSelector('.alert-list li');
		assert.equal(param(page, 'find'), HARM);
		assert.deepEqual(await titles(page), [HARM]);
		await page.click('.top nav a:has-text("Status")');
		await page.waitForSelector('.facts tr');
		await page.goBack();
		await page.waitForSelector('.alert-list li');
		assert.equal(await page.inputValue('.field input'), HARM);
		await page.fill('.field input', '');
	},
	async 'alerts that fire come first, with all that is known of them'() {
		await page.waitForFunction(() => document.querySelectorAll('.alert-rule').length === 4);
		assert.deepEqual(await titles(page), [HARM, 'Waits', 'Fails', 'Quiet']);
		assert.equal(await page.locator('.alert-list').first().locator('> li').count(), 2);
		const ticket = page.locator('.alert-list > li:has-text("ticket")');
		assert.match(await ticket.textContent(), /firing.*pod=<\/script><script>hacked=1<\/script>.*value 0\.35.*active since.*has 35%.*All of its 65,536 characters/);
		await ticket.locator('button.link').click();
		assert.equal((await ticket.locator('dd').nth(2).textContent()).length, 65536 + ' Less'.length);
		await ticket.locator('button.link').click();
		assert.deepEqual(await ticket.locator('dd a').evaluateAll((a) => a.map((x) => x.getAttribute('href'))), ['http://example.org/runbook?of=0.35']);
		await shot(page, 'alerts');
	},
	async 'draws what an alert looks at, beside its threshold'() {
		const ticket = page.locator('.alert-list > li:has-text("ticket")');
		await ticket.locator('button:has-text("Graph")').click();
		await ticket.locator('.legend li').first().waitFor();
		assert.deepEqual((await ticket.locator('.legend li span').allTextContents()).length, 2, 'the series and the threshold');
		assert.match(await ticket.locator('.legend').textContent(), /> 0\.3/);
		await drawn(page);
		await ticket.scrollIntoViewIfNeeded();
		await shot(page, 'alert-graph');
		await harmless(page, 'alerts with a graph');
	},
	async 'the address says which alerts are shown'() {
		await page.click('[aria-label=State] button:has-text("Pending 1")');
		await page.waitForFunction(() => document.querySelectorAll('.alert-rule').length === 1);
		await page.goto(page.url());
		await page.waitForSelector('.alert-rule');
		assert.deepEqual(await titles(page), ['Waits']);
		assert.match(await page.textContent('.alert-rule'), /for 1h, kept firing for 1m30s/);
	},
	async 'says what to do where there are none'() {
		for (const what of ['rules', 'alerts']) {
			const p = await open(`/${what}`, {}, empty);
			await p.waitForSelector('.empty pre');
			assert.match(await p.textContent('.empty'), /rule_files.*reload/s);
			await harmless(p, `${what}, none`);
			await shot(p, `none-${what}`);
			await p.context().close();
		}
	},
	async 'in the dark, on a phone, without eyes'() {
		for (const [name, pages, options] of [['dark', ['rules'], { colorScheme: 'dark' }], ['phone', ['rules', 'alerts'], { viewport: { width: 390, height: 844 }, hasTouch: true }]]) {
			const p = await open('', options);
			for (const what of pages) {
				await p.goto(`${url}/${what}`);
				await p.waitForSelector('.rule, .alert-rule');
				await fits(p, `${what}, ${name}`);
				assert.equal(await p.evaluate(() => window.hacked), undefined, `${what}: a text of a rule was run`);
				await shot(p, `${what}-${name}`);
				const here = await p.locator('.top nav .here').boundingBox(), nav = await p.locator('.top nav').boundingBox();
				assert.ok(here.x + here.width <= nav.x + nav.width + 1, `${what}, ${name}: its name is out of sight`);
			}
			await p.context().close();
		}
	},
	async 'nothing complained'() {
		assert.deepEqual(complaints, []);
	},
};

let page;
await take(steps, () => shot(page, 'failed'));
