// SPDX-License-Identifier: Apache-2.0
// What the graph asks the server for besides its series: what the profiles of each moment hold, where versions changed, where alerts fired.
// None of it is there when the series are; what fails is not shown.
import { useEffect, useRef, useState } from 'preact/hooks';
import { api, type Labels } from '../base/api';
import { matchersOf, plainSelector, selectors } from '../query/query';
import type { GraphState } from './graphpanel';
import type { Totals } from './graphtip';
import { addUp, keyOf } from './lines';
import { alertMarks, groupLabels, versionLabels, versionMarks, type Mark } from './marks';

/** For more series, only the sum of all is requested. */
const MOST_TOTALS = 200;
const SECONDS = /^(nano|micro|milli)?seconds$/;

/** The value of the profile that a click opens, for each series and in all; null if the values themselves have it, or none were
 * requested. */
export function totalsExpr(q: string): string | null {
	const p = plainSelector(q);
	if (!p) return null;
	return p.by || p.functions.includes('sum') ? `sum ${p.by} (value(${p.selector}))` : `value(${p.selector})`;
}

/** wanted: the user looks at moments. unit: of the profile type, '' if the values of the graph are all there is. */
export function useTotals(g: GraphState, q: string, unit: string, wanted: boolean): Totals | null {
	const [totals, setTotals] = useState<{ of: GraphState; t: Totals } | null>(null);
	useEffect(() => {
		const one = unit && wanted ? totalsExpr(q) : null, expr = one && g.series.length > MOST_TOTALS ? `sum(${one})` : one;
		if (!expr || !g.times.length) return;
		const abort = new AbortController(), scale = SECONDS.test(unit) ? 1e9 : 1;
		api.range(expr, g.from, g.to, g.step, abort.signal).then((a) => {
			const of = new Map(a.data.map((r) => {
				const values: (number | null)[] = new Array(g.times.length).fill(null);
				for (const [t, v] of r.values) values[Math.round((t - g.from) / g.step)] = v * scale;
				return [keyOf(unnamed(r.metric)), values];
			}));
			setTotals({ of: g, t: { unit: scale > 1 ? 'nanoseconds' : unit, of, all: addUp([new Array<null>(g.times.length).fill(null), ...of.values()]) } });
		}, () => undefined);
		return () => abort.abort();
	}, [g, q, unit, wanted]);
	return totals?.of === g ? totals.t : null;
}

const unnamed = (l: Labels): Labels => Object.fromEntries(Object.entries(l).filter(([k]) => k !== '__name__'));

/** Marks change seldom: they are asked for again so often, in ms. */
const AGAIN = 30000;
const MOST_ALERTS = 100;

/** The labels that a query's matchers fix. */
function equalities(q: string): Labels {
	const s = selectors(q)[0], out: Labels = {};
	for (const m of s ? matchersOf(s) : []) {
		const x = /^(\w+)\s*=\s*"((?:[^"\\]|\\.)*)"$/.exec(m);
		if (x) try { out[x[1]] = JSON.parse(`"${x[2]}"`); } catch { /* an escape of another kind */ }
	}
	return out;
}

async function versions(g: GraphState, q: string, signal: AbortSignal): Promise<Mark[]> {
	const s = selectors(q)[0];
	if (!s) return [];
	const selector = q.slice(s.start, s.rangeStart >= 0 ? s.rangeStart : s.end).trim();
	const names = (await api.labels(selector, signal)).data, labels = versionLabels(names), groups = groupLabels(names);
	if (!labels.length) return [];
	/* where the graph is of single series, these say it */
	const own = g.plain && g.series.length > 0 && !/\bby\b|\bsum\b/.test(g.expr);
	const found = own ? g.result : (await api.range(`count by (${[...groups, ...labels].join(', ')}) (value(${selector}))`, g.from, g.to, g.step, signal)).data;
	return versionMarks(found, labels, groups, g.from, g.step, g.times.length);
}

async function alerts(g: GraphState, q: string, signal: AbortSignal): Promise<Mark[]> {
	const a = await api.range(`limitk(${MOST_ALERTS}, ALERTS{alertstate="firing"})`, g.from, g.to, g.step, signal);
	return alertMarks(a.data, g.series.map((s) => s.labels), equalities(q), g.step);
}

/** For the shown graph; while the next ones are loading, the known ones. */
export function useMarks(g: GraphState, q: string): Mark[] {
	const [marks, setMarks] = useState<Mark[]>([]), asked = useRef({ key: '', at: 0 });
	const key = `${q}\n${g.expr}\n${g.to - g.from}\n${g.step}`;
	useEffect(() => {
		const now = Date.now(), moved = asked.current.key !== key;
		if (!moved && now - asked.current.at < AGAIN) return;
		if (moved) setMarks([]);
		asked.current = { key, at: now };
		const abort = new AbortController();
		const none = (): Mark[] => [];
		void Promise.all([versions(g, q, abort.signal).catch(none), alerts(g, q, abort.signal).catch(none)]).then(([v, a]) => {
			if (!abort.signal.aborted && asked.current.key === key) setMarks([...v, ...a]);
		});
		return () => { abort.abort(); asked.current.at = 0; };
	}, [key, g.to]);
	return marks.filter((m) => m.to >= g.times[0] && m.from <= g.times[g.times.length - 1]);
}
