// SPDX-License-Identifier: Apache-2.0
// The pages around the profiles, used as a person would: node page_around.mjs URL URL_OF_AN_EMPTY_SERVER OUTDIR JOBS AGENT. JOBS are those of
// test_page_around.py whose targets fail, each in its own way; AGENT is the address of a real agent, or nothing.
import assert from 'node:assert/strict';
import { accessible, complaints, fits, open as openAt, picture, take, until } from './browser.mjs';

const [url, empty, out, jobs, agent = ''] = process.argv.slice(2);
const open = (path, options, at = url) => openAt(path && at + path, options, 60000);
const shot = (p, name) => picture(p, out, `around-${name}`);
const param = (p, name) => new URL(p.url()).searchParams.get(name);
const panel = (name) => page.locator(`.pool:has(h2:text-is("${name}"))`);
const goTo = (name) => page.click(`.top nav a:has-text("${name}")`);

/* What the next step has to name, by job. */
const REMEDIES = {
	refused: /Nothing listens at 127\.0\.0\.1:\d+/, timeout: /longer than scrape_timeout \(500ms\)|get lost/, login: /basic_auth, authorization or oauth2/, forbidden: /refuses/,
	missing: /nothing at \/debug\/pprof\/.*net\/http\/pprof/, trouble: /target itself has trouble/, tls: /ca_file/, 'no-tls': /scheme: http into/, page: /no profile/,
	large: /raise its body_size_limit/, many: /raise sample_limit/, name: /does not know the name no-such-name\.invalid/, empty: /no profile/, metrics: /metrics_path/,
};

const steps = {
	async 'targets: health, last scrape, duration, size'() {
		page = await open('/targets');
		await page.waitForSelector('.pool');
		const row = panel('echoserver').locator('tr.first');
		await until(async () => assert.match(await row.textContent(), /127\.0\.0\.1:\d+.*up.*team=core.*zone=a.*( s ago|just now).*(ms|s|µs).*B/));
		await page.waitForFunction(() => /All \d+Up \d+Down 13Waiting 1Not scraped 1/.test(document.querySelector('[aria-label=Health]').textContent));
	},
	async 'targets: an error, and what to do about it'() {
		for (const job of jobs.split(',')) {
			await panel(job).locator('.error-row, .note-row').first().waitFor();
			const said = await panel(job).locator('.error-row, .note-row').first().textContent();
			assert.match(said, REMEDIES[job], `${job}: ${said}`);
		}
		await shot(page, 'targets');
	},
	async 'targets: labels before and after relabelling'() {
		const button = panel('echoserver').locator('th button');
		await button.focus();
		await page.keyboard.press('Enter');
		const tables = panel('echoserver').locator('.before-after table');
		await tables.first().waitFor();
		assert.match(await tables.nth(0).textContent(), /__address__127\.0\.0\.1:\d+.*zone.*a/);
		assert.match(await tables.nth(1).textContent(), /teamcore.*zonea/);
		await panel('echoserver').locator('button:has-text("what each rule did")').click();
		await panel('echoserver').locator('.steps li:has-text("team=core")').waitFor();
		await accessible(page, 'targets, opened');
		await button.click();
	},
	async 'targets: dropped ones, and the address says what is shown'() {
		await page.click('[aria-label=Health] button:has-text("Not scraped 1")');
		await page.waitForSelector('.found-list .reason');
		assert.equal(param(page, 'state'), 'dropped');
		await page.reload();
		await page.waitForSelector('.found-list .reason');
		assert.match(await page.textContent('.found-list'), /127\.0\.0\.1:9.*rule 1.*drop.*tier=test/);
		await page.click('[aria-label=Health] button:has-text("Down")');
		await page.waitForSelector('.pool');
		assert.equal(await page.locator('.pool .pill.up').count(), 0);
		await page.fill('.field input', '503');
		await page.waitForFunction(() => document.querySelectorAll('.pool').length === 1);
		assert.equal(param(page, 'find'), '503');
	},
	async 'discovery: a job as it is configured, a source that fails and what to do'() {
		await page.fill('.field input', '');
		await goTo('Discovery');
		const job = page.locator('.job-list li:has(button:text-is("no-file"))');
		await job.waitFor();
		await job.locator('summary').click();
		await job.locator('pre').waitFor();
		assert.match(await job.locator('pre').textContent(), /file_sd_configs:[^]*no-such-file\.json/);
		assert.match(await job.textContent(), /file/);
		await shot(page, 'discovery');
	},
	async 'status: the server, storage by series and type, limits, configuration, flags'() {
		await goTo('Status');
		await page.waitForFunction(() => /Memory of queries/.test(document.querySelector('#limits').textContent) && /On disk/.test(document.querySelector('#storage').textContent) && document.querySelector('.config'));
		const text = async (id) => page.textContent(`#${id}`);
		assert.match(await text('server'), /Version\d+\.\d+.*Host.*CPUs.*Started.*Kept15d.*Memory.*MiB.*Process\d+, \d+ threads/);
		await page.waitForFunction(() => /Process CPU/.test(document.querySelector('#storage').textContent));
		assert.match(await text('storage'), /Series today\d+.*Series by profile type.*Process CPU.*cpu.*delta.*nanoseconds\d+.*Series by metric.*up\d+.*Values by label.*Sealed, by day/);
		assert.match(await text('limits'), /Series of today\d+1\.00.M.*--storage\.max-series/);
		assert.match(await text('bucket'), /Bucketdirectory .*bucket.*Statewriting.*Servershop-1.*Holds\d+ days.*Waits/);
		assert.equal(await page.locator('.jump button', { hasText: 'Bucket' }).count(), 1);
		assert.match(await text('configuration'), /job_name: echoserver/);
		assert.match(await text('flags'), /--storage\.path.*given/);
		await page.fill('#flags input[type=search]', 'whole days (UTC)');
		await page.waitForFunction(() => document.querySelectorAll('.flags tr').length === 1);
		assert.match(await text('flags'), /15d.*How long profiles are kept/);
		await page.reload();
		await page.waitForSelector('.flags tr');
		assert.equal(await page.locator('.flags tr').count(), 1);
		await page.fill('#flags input[type=search]', '');
		await page.check('#flags input[type=checkbox]');
		await page.waitForFunction(() => [...document.querySelectorAll('.flags tr')].every((r) => /given/.test(r.textContent)));
		await shot(page, 'status');
		await page.goto(`${url}/flags`);
		await page.waitForFunction(() => { const b = document.querySelector('#flags')?.getBoundingClientRect(); return b && b.top < innerHeight && b.height > 300; });
	},
	async 'agents: version, host, frequency, lost and truncated shares'() {
		await goTo('Agents');
		if (!agent) { await page.waitForSelector('.empty'); return; }
		const row = page.locator('.agents tbody tr').filter({ hasText: /Hz/ });
		await row.waitFor();
		assert.match(await row.textContent(), /▸.+up\d+\.\d+\.\d+.*\d+ Hz\d+[\d.]+ %[\d.<> ]+ %[\d.<> ]+ %.*(ago|now)/);
		await row.locator('button').click();
		await page.waitForSelector('.opened-body');
		assert.match(await page.textContent('.opened-body'), new RegExp(`Address${agent}.*Jobagent.*Kernel\\d+\\..*Processes\\d+.*Lost, last 1h.*Truncated stacks, last 1h`));
		await accessible(page, 'agents, opened');
		await shot(page, 'agents');
	},
	async 'agents: one whose metrics are not scraped, and the lines that would'() {
		if (!agent) return;
		await page.click('[aria-label=State] button:has-text("Without metrics 1")');
		await page.waitForFunction(() => document.querySelectorAll('.agents tbody tr').length === 1);
		assert.match(await page.textContent('.agents tbody'), /blind\.example.*no metrics/);
		assert.equal(param(page, 'state'), 'blind');
		assert.match(await page.textContent('.advice pre'), /job_name: blind\n +metrics_path: \/metrics/);
		await page.fill('.field input', 'no such host');
		await page.waitForSelector('.hint:has-text("No agent matches")');
		await page.reload();
		await page.waitForSelector('.hint:has-text("No agent matches")');
		await page.goto(`${url}/agents`);
		await page.locator('.agents tbody tr').filter({ hasText: /Hz/ }).locator('button').click();
		await page.click('.queries .query-link:has-text("on_cpu")');
		await page.waitForSelector('.legend li');
		await page.goBack();
	},
	async 'language: found by a word, run with a click'() {
		await goTo('Language');
		await page.waitForFunction(() => document.querySelectorAll('.language li').length > 130);
		assert.deepEqual(await page.locator('.language h2').allTextContents(), ['Selectors', 'Operators', 'Aggregations', 'Functions of profiles', 'Functions of numbers']);
		await shot(page, 'language');
		await page.fill('.field input', 'self_share');
		await page.waitForFunction(() => document.querySelectorAll('.language li').length < 10);
		assert.equal(param(page, 'find'), 'self_share');
		assert.match(await page.textContent('.language:has-text("Functions of profiles") li'), /self_share\(profiles.*values.*self as a share/);
		await page.reload();
		await page.click('.language:has-text("Functions of profiles") li .query-link');
		await page.waitForFunction(() => /main\.fibonacci/.test(document.querySelector('.values, .functable, .legend')?.textContent ?? ''));
		assert.match(param(page, 'q'), /self_share/);
		await page.goBack();
		await page.fill('.field input', 'no such word');
		await page.waitForSelector('.hint:has-text("Nothing of the language")');
		await page.fill('.field input', '');
	},
	async 'language: every example runs'() {
		await page.waitForFunction(() => document.querySelectorAll('.language .query-link').length > 130);
		const wrong = await page.evaluate(async () => {
			const bad = [], now = Date.now() / 1000;
			for (const a of document.querySelectorAll('.language .query-link')) {
				const query = new URL(a.href).searchParams.get('q');
				for (const path of [`query?${new URLSearchParams({ query })}`, `query_range?${new URLSearchParams({ query, start: now - 60, end: now, step: 15 })}`]) {
					const answer = await (await fetch(`api/v1/${path}`)).json();
					if (answer.status !== 'success') bad.push(`${query}: ${answer.error}`);
				}
			}
			return bad;
		});
		assert.deepEqual(wrong, []);
	},
	async 'says what to do where there is nothing'() {
		const p = await open('/targets', {}, empty);
		for (const [name, words] of [['Targets', /Nothing is scraped.*net\/http\/pprof.*scrape_configs/s], ['Discovery', /no job.*scrape_configs/s], ['Agents', /no agent.*pyrrha-agent.*metrics_path/s], ['Rules', /rule_files/], ['Alerts', /rule_files/], ['Status', /There are none yet/]]) {
			await p.click(`.top nav a:has-text("${name}")`);
			await p.waitForFunction((w) => new RegExp(w, 's').test(document.querySelector('main').textContent), words.source);
			if (!/Rules|Alerts/.test(name)) await accessible(p, `${name}, empty`); /* those: page_rules.mjs */
		}
		assert.deepEqual([await p.locator('#storage').count(), await p.locator('#bucket').count(), await p.locator('.jump button', { hasText: 'Bucket' }).count()], [1, 0, 0]);
		await p.context().close();
	},
	async 'in the dark, on a phone, without eyes'() {
		/* what is special here: page_people.mjs looks at each page */
		for (const [name, pages, options] of [['dark', ['targets'], { colorScheme: 'dark' }], ['phone', ['targets', 'agents', 'status'], { viewport: { width: 390, height: 844 }, hasTouch: true }]]) {
			const p = await open('', options);
			for (const path of pages) {
				await p.goto(`${url}/${path}`);
				await p.waitForSelector({ targets: '.pool', agents: agent ? '.agents' : '.empty', status: '.flags tr' }[path]);
				await fits(p, `${path}, ${name}`);
				await shot(p, `${path}-${name}`);
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
