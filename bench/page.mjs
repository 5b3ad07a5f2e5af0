// SPDX-License-Identifier: Apache-2.0
// What the page costs in a browser, for bench/page: it prints one line of JSON. Each measurement has wall times, which count only
// on an idle machine, and CPU times of the page's main thread from the browser's own trace, which count anywhere.
import { open, leave, complaints } from './browser.mjs';

const [url, query, rounds] = [process.argv[2], process.argv[3], Number(process.argv[4])];

/* In the page: when something was asked, answered and drawn. */
function watch() {
	const seen = { click: 0, asked: 0, answered: 0, bytes: 0, drawn: 0, draws: [], painted: 0 };
	window.seen = seen;
	addEventListener('click', () => { seen.click = performance.now(); }, true);
	addEventListener('input', () => { seen.click = performance.now(); }, true);
	const fetch = window.fetch;
	window.fetch = async (...args) => {
		const flame = /format=flamegraph/.test(String(args[0]));
		if (flame) seen.asked = performance.now();
		const r = await fetch(...args);
		if (!flame) return r;
		const body = r.arrayBuffer.bind(r);
		r.arrayBuffer = async () => {
			const b = await body();
			seen.answered = performance.now();
			seen.bytes = Number(r.headers.get('content-length'));
			return b;
		};
		return r;
	};
	const clear = CanvasRenderingContext2D.prototype.clearRect;
	CanvasRenderingContext2D.prototype.clearRect = function (...args) {
		if (this.canvas.closest?.('.flame')) {
			seen.drawn = performance.now();
			seen.draws.push(seen.drawn);
			requestAnimationFrame(() => { const c = new MessageChannel(); c.port1.onmessage = () => { seen.painted = performance.now(); }; c.port2.postMessage(0); });
		}
		return clear.apply(this, args);
	};
	window.frames_ = { last: 0, gaps: [] };
	window.countFrames = (on) => {
		const f = window.frames_;
		f.on = on;
		if (!on) return f.gaps;
		f.gaps = [];
		f.last = 0;
		const step = (now) => { if (f.last) f.gaps.push(now - f.last); f.last = now; if (f.on) requestAnimationFrame(step); };
		requestAnimationFrame(step);
		return [];
	};
}

const p = await open(undefined, { viewport: { width: 1920, height: 1080 }, reducedMotion: 'no-preference' }, 120000);
await p.addInitScript(watch);
const cdp = await p.context().newCDPSession(p);

/** Runs it, and says what tasks of the main thread cost meanwhile: CPU ms in all, of the longest, and the longest's wall ms. */
async function traced(work) {
	const events = [];
	const take = (e) => events.push(...e.value);
	cdp.on('Tracing.dataCollected', take);
	await cdp.send('Tracing.start', { transferMode: 'ReportEvents', traceConfig: { includedCategories: ['toplevel', '__metadata'], excludedCategories: ['*'] } });
	const result = await work();
	const done = new Promise((resolve) => cdp.once('Tracing.tracingComplete', resolve));
	await cdp.send('Tracing.end');
	await done;
	cdp.off('Tracing.dataCollected', take);
	const main = new Set(events.filter((e) => e.name === 'thread_name' && e.args?.name === 'CrRendererMain').map((e) => `${e.pid}/${e.tid}`));
	const tasks = events.filter((e) => e.ph === 'X' && /RunTask$/.test(e.name) && main.has(`${e.pid}/${e.tid}`));
	const cpu = tasks.map((t) => (t.tdur ?? t.dur) / 1000), wall = tasks.map((t) => t.dur / 1000);
	return { result, cpu: cpu.reduce((a, b) => a + b, 0), longest: Math.max(0, ...cpu), longestWall: Math.max(0, ...wall) };
}

const sorted = (a) => [...a].sort((x, y) => x - y);
const quantile = (a, q) => sorted(a)[Math.min(a.length - 1, Math.ceil(q * a.length) - 1)];
const median = (a) => quantile(a, 0.5);
const settled = async () => {
	await p.waitForFunction(() => document.querySelector('.flame canvas') && !document.querySelector('.progress.on, [aria-busy=true]'));
	await p.waitForFunction(() => window.seen.painted >= window.seen.drawn && performance.now() - window.seen.drawn > 400);
};

/* ---- a click, until the profile is on the screen ---- */

await p.goto(`${url}/?${new URLSearchParams({ q: query, refresh: '0' })}`);
await settled();
const clicks = [];
for (let i = 0; i < rounds; i++) {
	await p.evaluate(() => { Object.assign(window.seen, { answered: 0, drawn: 0, painted: 0 }); });
	const t = await traced(async () => {
		await p.click('button:has-text("Run")');
		await p.waitForFunction(() => window.seen.answered && window.seen.drawn > window.seen.answered && window.seen.painted > window.seen.drawn);
		return p.evaluate(() => window.seen);
	});
	const s = t.result;
	clicks.push({ wall: s.painted - s.click, waiting: s.answered - s.asked, browser: s.painted - s.click - (s.answered - s.asked), cpu: t.cpu, bytes: s.bytes });
	await settled();
}

/* ---- zooms into boxes of all sizes, and out ---- */

const zooms = [], zoomCpu = [];
const box = await p.locator('.flame').first().boundingBox();
for (let i = 0; i < rounds * 4; i++) {
	const x = box.x + box.width * ((i * 0.37 + 0.1) % 0.9), y = box.y + 21 * (2 + i % 6) + 10;
	const t = await traced(async () => {
		await p.evaluate(() => { Object.assign(window.seen, { click: 0, drawn: 0 }); window.seen.draws.length = 0; window.countFrames(true); });
		await p.mouse.click(x, y);
		await p.waitForTimeout(400);
		return { gaps: await p.evaluate(() => window.countFrames(false)), drawn: await p.evaluate(() => window.seen.draws.length) };
	});
	if (t.result.drawn) { zooms.push(...t.result.gaps.map((g) => g)); zoomCpu.push(t.longest); }
	if (i % 2) await p.keyboard.press('Escape');
}
await p.keyboard.press('Escape');
await settled();

/* ---- a search ---- */

const searches = [], searchCpu = [];
for (const text of ['Cache', 'Batch|Queue', 'github.com/acme', 'zzz', 'Read'].slice(0, Math.max(2, rounds))) {
	const t = await traced(async () => {
		await p.evaluate(() => { Object.assign(window.seen, { click: 0, drawn: 0, painted: 0 }); });
		await p.fill('input[aria-label="Search functions"]', text);
		await p.waitForFunction(() => window.seen.drawn > window.seen.click && window.seen.painted > window.seen.drawn);
		return p.evaluate(() => window.seen.painted - window.seen.click);
	});
	searches.push(t.result);
	searchCpu.push(t.longest);
	await p.waitForTimeout(500);
}
await p.fill('input[aria-label="Search functions"]', '');
await settled();

/* ---- a refresh of all rows ---- */

const refreshes = [];
for (let i = 0; i < rounds; i++) {
	await p.evaluate(() => { Object.assign(window.seen, { answered: 0, drawn: 0, painted: 0 }); });
	const t = await traced(async () => {
		await p.evaluate(() => window.countFrames(true));
		await p.click('[aria-label="Refresh now"]');
		await p.waitForFunction(() => window.seen.answered && window.seen.drawn > window.seen.answered && window.seen.painted > window.seen.drawn);
		await p.waitForTimeout(300);
		return { gaps: await p.evaluate(() => window.countFrames(false)), bytes: await p.evaluate(() => window.seen.bytes) };
	});
	refreshes.push({ dropped: t.result.gaps.reduce((n, g) => n + Math.max(0, Math.round(g / (1000 / 60)) - 1), 0), worst: Math.max(...t.result.gaps), longest: t.longest, cpu: t.cpu, bytes: t.result.bytes });
	await settled();
}

const of = (list, key) => list.map((x) => x[key]);
console.log(JSON.stringify({
	rows: await p.evaluate(() => document.querySelector('.functable table')?.getAttribute('aria-rowcount') ?? ''),
	click: { wall: median(of(clicks, 'wall')), waiting: median(of(clicks, 'waiting')), browser: median(of(clicks, 'browser')), cpu: median(of(clicks, 'cpu')), bytes: median(of(clicks, 'bytes')) },
	zoom: { p95: quantile(zooms, 0.95), cpu: quantile(zoomCpu, 0.95), n: zooms.length },
	search: { wall: median(searches), worst: Math.max(...searches), cpu: Math.max(...searchCpu) },
	refresh: { dropped: median(of(refreshes, 'dropped')), worst: median(of(refreshes, 'worst')), longest: median(of(refreshes, 'longest')), cpu: median(of(refreshes, 'cpu')), bytes: Math.max(...of(refreshes, 'bytes')) },
	complaints,
}));
await leave();
