// SPDX-License-Identifier: Apache-2.0
// The numbers that the page shows, by the page's own code, against what the language answers: every row of the table, every tooltip and a
// number of searches of each profile. test_page_numbers.py bundles this beside the page's sources: page_numbers.mjs URL QUERIES.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import type { FlameData } from '../src/base/api';
import { readFlame, type FrameList } from '../src/base/wire';
import { rowsOf, search, searchRegex } from '../src/flame/fold';
import { buildTree, pathNames, perSecond, type FlameTree } from '../src/flame/tree';

const [url, file] = process.argv.slice(2);
/* rate: the query whose value the header shows as its rate; the test then checks nothing else. mixed: the header says that frames are approximate. */
const queries = JSON.parse(await readFile(file, 'utf8')) as { query: string; time: number; rate?: string; mixed?: boolean }[];
let known: FrameList | null = null, rows = 0, tips = 0, searches = 0, rates = 0, largest = 0;

const params = (p: Record<string, string | number | string[]>): URLSearchParams => {
	const out = new URLSearchParams();
	for (const [k, v] of Object.entries(p)) for (const one of Array.isArray(v) ? v : [v]) out.append(k, String(one));
	return out;
};

/* As base/api.ts asks, so that each answer builds on the one before. */
async function flame(p: Record<string, string | number | string[]>): Promise<FlameData> {
	const r = await fetch(`${url}/api/v1/query`, { method: 'POST', headers: { Accept: 'application/vnd.pyrrha.flame' }, body: params({ ...p, format: 'flamegraph', ...(known && { list: known.token }) }) });
	assert.equal(r.headers.get('content-type'), 'application/vnd.pyrrha.flame', `${r.status} ${p.query}`);
	const { answer, list } = readFlame(await r.arrayBuffer(), known);
	known = list;
	return answer.data!;
}

async function language(query: string, time: number): Promise<Record<string, number>> {
	const r = await fetch(`${url}/api/v1/query`, { method: 'POST', body: params({ query, time }) }), a = await r.json();
	assert.equal(a.status, 'success', `${query}: ${JSON.stringify(a)}`);
	return Object.fromEntries(a.data.result.map((x: { metric: Record<string, string>; value: [number, string] }) => [x.metric.function ?? '', Number(x.value[1])]));
}

interface Call { total: number; self: number; calls: number; below: Map<string, Call> }
const call = (): Call => ({ total: 0, self: 0, calls: 1, below: new Map() });

/** What the query's stacks are, added up without the page. */
async function stacks(query: string, time: number): Promise<Call> {
	const r = await fetch(`${url}/api/v1/query?${params({ query, time, format: 'folded' })}`), root = call();
	for (const line of (await r.text()).split('\n')) {
		const space = line.lastIndexOf(' '), v = Number(line.slice(space + 1));
		if (space < 0) continue;
		let at = root;
		at.total += v;
		if (line.slice(0, space) !== '(empty stack)')
			for (const name of line.slice(0, space).split(';')) {
				let next = at.below.get(name);
				if (!next) at.below.set(name, next = call());
				next.total += v;
				at = next;
			}
		at.self += v;
	}
	const count = (c: Call): number => c.calls = 1 + [...c.below.values()].reduce((n, b) => n + count(b), 0);
	count(root);
	return root;
}

/* What cannot be in a folded line. */
const folded = (name: string): string => name.replace(/;/g, ':').replace(/[\0-\x1f]/g, ' ');
const same = (a: number, b: number, what: string): void => assert.ok(Math.abs(a - b) <= 1e-9 * Math.max(Math.abs(a), Math.abs(b)), `${what}: the page shows ${a}, it is ${b}`);

/** Each tooltip of the tree, those of what was cut too. */
function checkTips(t: FlameTree, root: Call, what: string): void {
	const at: Call[] = [root];
	for (let i = 0; i < t.n; i++) {
		const d = t.depth[i], name = folded(t.names[t.frame[i]]), where = `${what}, ${name}`;
		tips++;
		if (t.cut?.[i]) {
			const shown = new Set<string>();
			for (let c = t.parent[i] + 1; c < t.end[t.parent[i]]; c = t.end[c]) if (!t.cut[c]) shown.add(folded(t.names[t.frame[c]]));
			const rest = [...at[d - 1].below].filter(([n]) => !shown.has(n)).map(([, c]) => c);
			same(t.total[i], rest.reduce((a, c) => a + c.total, 0), where);
			assert.ok(t.cut[i] >= rest.reduce((a, c) => a + c.calls, 0), where); /* folded lines have no stacks that cancelled out */
			continue;
		}
		const c: Call = (d ? at[d - 1].below.get(name) : root) ?? call();
		at[d] = c;
		same(t.total[i], c.total, where);
		if (d >= t.root.length) same(t.self[i], c.self, `${where}, self`);
	}
}

async function checkRows(t: FlameTree, query: string, time: number, scale: number): Promise<void> {
	const got = rowsOf(t, 0);
	assert.ok(got.exact && got.rows.length === got.all, query);
	for (const key of ['self', 'total'] as const) {
		const want = await language(`${key}(${query})`, time);
		for (const r of got.rows) {
			same(r[key] / scale, want[r.name] ?? 0, `${key} of ${r.name} in ${query}`);
			delete want[r.name];
			rows++;
		}
		assert.deepEqual(Object.entries(want).filter(([, v]) => v !== 0), [], `${query}: rows that the page does not show`);
	}
}

/** Functions, beginnings of them and files; what is left out of the tree the server counts. */
async function checkSearches(t: FlameTree, query: string, time: number, scale: number, n: number): Promise<void> {
	const escape = (s: string) => s.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'), names = t.functions.map((f) => f.name), texts = new Map<string, string>();
	for (let i = 0; i < n && names.length; i++) {
		const r = t.functions[(i * 7919) % names.length];
		if (i % 3 === 2 && r.file) texts.set(`${escape(r.file)}$`, 'file');
		else texts.set(i % 3 ? `^${escape(r.name.slice(0, 9))}` : escape(r.name), 'function');
	}
	for (const [text, key] of texts) {
		const re = text.replace(/\\/g, '\\\\').replace(/"/g, '\\"'), page = /[A-Z]/.test(text) ? re : `(?i)${re}`;
		const want = Object.values(await language(`total(${query}, {${key}=~".*(${page}).*"})`, time))[0] ?? 0;
		const found = t.hidden ? (await flame({ query, time, width: 1, search: /[A-Z]/.test(text) ? text : `(?i)${text}` })).found!.total : search(t, searchRegex(text)!).value;
		same(found / scale, want, `search ${text} in ${query}`);
		searches++;
	}
}

/** A merge takes whole profiles, so its range may begin and end an interval off: the test's ranges are long enough. */
async function checkRate(query: string, time: number, rate: string, mixed: boolean): Promise<void> {
	const t = buildTree(await flame({ query, time, width: 960 })), shown = perSecond(t) / 1e9, want = (await language(rate, time))[''];
	assert.ok(Math.abs(shown - want) <= 0.12 * want, `${query}: the page shows ${shown} cores, ${rate} is ${want}`);
	assert.equal(t.mixed, mixed, `${query}: frames are approximate`);
	rates++;
}

for (const { query, time, rate, mixed } of queries) {
	if (rate) {
		await checkRate(query, time, rate, !!mixed);
		continue;
	}
	const whole = await stacks(query, time), scale = (u: string) => u === 'nanoseconds' ? 1e9 : 1;
	largest = Math.max(largest, whole.calls);
	for (const width of [960, 20]) {
		const t = buildTree(await flame({ query, time, width, functions: 1e6 }));
		checkTips(t, whole, query);
		await checkRows(t, query, time, scale(t.unit));
		await checkSearches(t, query, time, scale(t.unit), width === 960 ? 6 : 3);
		/* a zoom into a box somewhere, whole and trimmed */
		const path = pathNames(t, [...t.total.keys()].filter((i) => !t.cut?.[i])[Math.floor(t.n / 3)] ?? 0);
		for (const more of [{}, { width: 40 }]) checkTips(buildTree(await flame({ query, time, root: path, ...more }), path), whole, `${query} below ${path.join(';')}`);
	}
}
console.log(`${queries.length} profiles, the largest of ${largest} nodes: ${rows} rows, ${tips} tooltips, ${searches} searches, ${rates} rates`);
