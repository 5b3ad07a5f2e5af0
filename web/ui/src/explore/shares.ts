// SPDX-License-Identifier: Apache-2.0
// Who uses the CPU: containers, units and processes, the largest of each, with what they used over time. The server chooses the largest and
// finds those that are searched for, so that an answer is small however many there are.
import { api, type ProfileType, type QueryData } from '../base/api';
import { findLabels } from '../query/labelnames';
import { containing, labelNames, literal } from '../query/labelvalues';
import { matcherText, type Matcher } from '../query/query';
import { spelling } from '../query/typepicker';
import { formatDuration } from '../base/units';

export interface Row { name: string; cores: number; /** Cores at each of a few times; null where nothing was seen. */ line: (number | null)[] }
export interface Group { label: string; title: string; rows: Row[]; /** There are smaller ones. */ more: boolean }
/** total: all cores, whatever the matchers. first: since when there is data in the range. Cores are means since then. */
export interface Shares { groups: Group[]; total: number; first: number | null }
export interface Ask { type: ProfileType; matchers: Matcher[]; search: string; from: number; to: number; rows: number }

const TITLES = new Map(Object.entries({ container: 'Containers', unit: 'Units', comm: 'Processes', job: 'Jobs', instance: 'Instances', pod: 'Pods', namespace: 'Namespaces', node: 'Nodes' }));
const POINTS = 30;

/** The profile for CPU shares: the agent's for everything that the agent sees, else that of the programs' own profilers. */
export function observer(types: ProfileType[], asked: ProfileType | undefined): ProfileType | undefined {
	const find = (alias: string) => types.find((t) => t.alias === alias && t.series > 0);
	const own = asked !== undefined && !/^(on_cpu|off_cpu)(:|$)/.test(asked.name);
	return own ? find('cpu') ?? find('on_cpu') : find('on_cpu') ?? find('cpu');
}

/** Programs that are scraped one by one have no containers by themselves: then jobs and instances say who they are. */
function defaultLabels(names: string[]): string[] {
	const seen = ['container', 'unit', 'comm'].filter((l) => names.includes(l));
	return seen.includes('comm') ? seen : [...seen, ...['job', 'instance'].filter((l) => names.includes(l))];
}

const selector = (type: ProfileType, matchers: string[]) => `${spelling(type)}${matchers.length ? `{${matchers.join(',')}}` : ''}`;

export async function askShares(a: Ask, signal: AbortSignal): Promise<Shares> {
	const names = await labelNames(spelling(a.type)), search = a.search.trim();
	/* A text is part of a name, or it is a label's, perhaps as another tool calls it. */
	const byLabel = search.length > 2 ? findLabels(search, names).slice(0, 2).map((f) => f.label) : [];
	const known = a.matchers.filter((m) => names.includes(m.label));
	const groups = [...byLabel.map((l) => [l, ''] as const), ...defaultLabels(names).filter((l) => !byLabel.includes(l)).map((l) => [l, search] as const)];
	const window = `[${formatDuration(a.to - a.from)}]`;
	const [total, answers] = await Promise.all([
		api.query(`sum(rate(${spelling(a.type)}${window}))`, a.to, signal).then((x) => vector(x.data)[0]?.v ?? 0),
		Promise.all(groups.map(([label, text]) => group(a, label, text, known.filter((m) => m.label !== label).map((m) => m.text), window, signal))),
	]);
	const firsts = answers.map((g) => g.first).filter((t): t is number => t !== null);
	const first = firsts.length ? Math.min(...firsts) : null, shown = answers.map((g) => g.group).filter((g) => g.rows.length > 0);
	/* Unobserved time counts as zero: for a young server that is most of the range. */
	const watched = first === null ? 1 : Math.min(1, Math.max(a.to - first, 1) / (a.to - a.from)), scale = watched < 0.9 ? 1 / watched : 1;
	return { groups: shown.map((g) => ({ ...g, rows: g.rows.map((r) => ({ ...r, cores: r.cores * scale })) })), total: total * scale, first };
}

async function group(a: Ask, label: string, search: string, matchers: string[], window: string, signal: AbortSignal): Promise<{ group: Group; first: number | null }> {
	const all = [...matchers, matcherText(label, '!=', ''), ...search ? [matcherText(label, '=~', containing(search))] : []];
	const top = vector((await api.query(`topk(${a.rows + 1}, sum by (${label})(rate(${selector(a.type, all)}${window})))`, a.to, signal)).data)
		.filter((s) => s.v > 0 || search).sort((x, y) => y.v - x.v || x.name.localeCompare(y.name));
	const shown = top.slice(0, a.rows), rows: Row[] = shown.map((s) => ({ name: s.name, cores: s.v, line: [] }));
	const out = { group: { label, title: TITLES.get(label) ?? label, rows, more: top.length > a.rows }, first: null as number | null };
	if (!rows.length) return out;
	const step = Math.max(1, Math.round((a.to - a.from) / POINTS)), from = a.to - step * Math.floor((a.to - a.from) / step - 0.5);
	const these = [...matchers, matcherText(label, '=~', shown.map((s) => literal(s.name)).join('|'))];
	const lines = await api.range(`sum by (${label})(rate(${selector(a.type, these)}[${formatDuration(Math.max(step, 30))}]))`, from, a.to, step, signal);
	const n = Math.round((a.to - from) / step) + 1;
	for (const s of lines.data) {
		const row = rows.find((r) => r.name === s.metric[label]);
		if (!row) continue;
		row.line = new Array<number | null>(n).fill(null);
		for (const [t, v] of s.values) row.line[Math.round((t - from) / step)] = v;
		const begin = s.values.length ? s.values[0][0] - step / 2 : undefined;
		if (begin !== undefined) out.first = Math.min(out.first ?? begin, begin);
	}
	return out;
}

function vector(d: QueryData): { name: string; v: number }[] {
	return d.resultType !== 'vector' ? [] : d.result.map((s) => ({ name: Object.values(s.metric)[0] ?? '', v: Number(s.value[1]) })).filter((s) => Number.isFinite(s.v));
}
