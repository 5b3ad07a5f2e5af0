// SPDX-License-Identifier: Apache-2.0
// Series as rows of a graph: on one time axis, and named by the labels in which they differ.
import type { Labels, MatrixSeries } from '../base/api';

/** last: its latest value. ended: the index of that value, if the series is over. */
export interface GraphSeries { labels: Labels; name: string; values: (number | null)[]; mean: number; last: number | null; ended?: number }

const rank = (k: string) => k === 'job' ? 0 : k === 'instance' ? 1 : 2;

/** The difference between series, in words: only the labels in which they differ. A series without any is called by the expression of which it is all,
 * or as Prometheus calls it. */
export function nameSeries(all: Labels[], expr = ''): { names: string[]; common: Labels } {
	const keys = [...new Set(all.flatMap((l) => Object.keys(l)))].filter((k) => k !== '__name__').sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
	const common: [string, string][] = [], differ: string[] = [], of = (l: Labels, k: string) => Object.hasOwn(l, k) ? l[k] : undefined; /* a label may be called "constructor" */
	for (const k of keys) {
		const first = of(all[0], k);
		if (first !== undefined && all.every((l) => of(l, k) === first)) common.push([k, first]);
		else differ.push(k);
	}
	const names = all.map((l) => differ.map((k) => of(l, k)).filter((v) => v !== undefined).join(' · ')
		|| (all.length === 1 ? common.map(([k, v]) => `${k}=${v}`).join(' ') : '') || l.__name__ || all.length === 1 && expr.trim().replace(/\s+/g, ' ') || '{}');
	return { names, common: Object.fromEntries(common) };
}

/** Seconds without a value after which a series may be over: LATE, because the newest values are stored a bit later; SELDOM for a series of one or two
 * values, whose interval is not known. */
const LATE = 60, SELDOM = 300;

/** The index of the last value of a series that is over: nothing came up to `end`, although it was due, and late. One
 * missing value is not enough, however long the step is: the newest point of a graph is often not there yet. */
function endOf(values: (number | null)[], end: number, step: number): number | undefined {
	let last = -1, pause = 1, n = 0;
	values.forEach((v, i) => {
		if (v === null) return;
		if (n++) pause = Math.max(pause, i - last);
		last = i;
	});
	const missing = end - last - pause + 1;
	return n && missing > 1 && missing * step > (n < 3 ? SELDOM : LATE) ? last : undefined;
}

/** Rows on one time axis, largest first; a missing point is a gap. expr: the query that they answer. */
export function alignSeries(result: MatrixSeries[], from: number, to: number, step: number, expr = ''): { times: number[]; series: GraphSeries[] } {
	const n = Math.floor((to - from) / step + 1e-6) + 1;
	const times = Array.from({ length: n }, (_, i) => from + i * step);
	const end = Math.min(n - 1, Math.floor((Date.now() / 1000 - from) / step));
	const { names } = nameSeries(result.map((r) => r.metric), expr);
	const series = result.map((r, k) => {
		const values: (number | null)[] = new Array(n).fill(null);
		let sum = 0, count = 0, last: number | null = null;
		for (const [t, v] of r.values) {
			const i = Math.round((t - from) / step);
			if (i < 0 || i >= n || !Number.isFinite(v)) continue;
			values[i] = last = v;
			sum += v;
			count++;
		}
		return { labels: r.metric, name: names[k], values, mean: count ? sum / count : 0, last, ended: endOf(values, end, step) };
	});
	series.sort((a, b) => b.mean - a.mean || a.name.localeCompare(b.name));
	return { times, series };
}
