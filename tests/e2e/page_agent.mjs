// SPDX-License-Identifier: Apache-2.0
// The page on what an agent saw: node page_agent.mjs URL OUTDIR CONTAINER COMM FUNCTION. It finds the container's CPU by
// process and container in the graph's legend, a rate of the agent's counters, and the function in its flame graph's table.
import { leave, open, picture } from './browser.mjs';

const [url, out, container, comm, fn] = process.argv.slice(2);
const page = await open(null, {}, 60000);

async function see(query, name, words) {
	await page.goto(`${url}/?q=${encodeURIComponent(query)}`);
	try {
		await page.waitForFunction((w) => w.every((x) => document.querySelector('main, body').innerText.includes(x)), words);
	} finally {
		await picture(page, out, name);
	}
	console.log(`${query}: ${words.join(', ')}`);
}

await see(`sum by (comm, container)(rate(on_cpu<container="${container}">[1m]))`, 'agent-legend', [container, comm]);
await page.waitForSelector('.legend li');
const legend = await page.locator('.legend li').allInnerTexts();
if (!legend.some((t) => t.includes(container) && t.includes(comm)))
	throw new Error(`the legend has no ${comm} in ${container}: ${legend}`);
/* A counter of the agent's own, scraped beside its profiles. */
await see('rate(pyrrha_agent_samples_total[30s])', 'agent-counter', ["the agent's"]);
await page.waitForSelector('.legend li');
await see(`merge(on_cpu<container="${container}">[5m])`, 'agent-flame', [fn]);
await page.waitForSelector('.flame canvas');
/* The agent does not watch waits: that does not make it look down. */
await page.waitForFunction(() => document.querySelector('.pill')?.innerText.includes('1/1 targets up'));
await leave();
