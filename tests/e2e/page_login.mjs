// SPDX-License-Identifier: Apache-2.0
// The page of a server that wants a login: node page_login.mjs URL OUTDIR USER PASSWORD. Without one the browser is told to ask for
// it; with one the page works, its fetches and a module that is loaded later too, and what its user may not do it cannot.
import assert from 'node:assert/strict';
import { complaints, leave, open, picture } from './browser.mjs';

const [url, out, username, password] = process.argv.slice(2);

const stranger = await open();
/* Chromium shows its prompt, which nobody answers here, or the page of the 401. */
await stranger.goto(`${url}/`).then((r) => assert.equal(r.status(), 401), (e) => assert.match(e.message, /ERR_INVALID_AUTH_CREDENTIALS/));

const page = await open(null, { httpCredentials: { username, password } });
const failed = [];
let challenged = 0;
page.on('response', (r) => { if (r.status() === 401) challenged++; else if (r.status() >= 400) failed.push(`${r.status()} ${r.url()}`); });
for (const [path, words] of [['/', 'targets up'], ['/targets', 'echoserver'], ['/flags', 'web.config.file'], ['/config', 'scrape_configs']]) {
	await page.goto(url + path);
	await page.waitForFunction((w) => document.body.innerText.includes(w), words);
	await picture(page, out, `login${path.replaceAll('/', '-')}`);
}
/* A long query goes as a POST. */
const status = await page.evaluate(async () => (await fetch('/api/v1/query', { method: 'POST', body: new URLSearchParams({ query: '1+1' }) })).status);
assert.equal(status, 200);
const denied = await page.evaluate(async () => (await fetch('/-/reload', { method: 'POST' })).status);
assert.equal(denied, 403, 'this user may only read');
/* With no credentials of the browser's the page is told 401 again: nothing else lets it in. */
assert.equal(await page.evaluate(async () => (await fetch('/api/v1/query?query=1', { credentials: 'omit' })).status), 401);
assert.deepEqual(failed.filter((f) => !f.includes('/-/reload')), []);
assert.deepEqual(complaints, []);
console.log(`challenged ${challenged} times`);
await leave();
