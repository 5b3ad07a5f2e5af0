// SPDX-License-Identifier: Apache-2.0
// Series as rows of a graph: on one time axis, and named by the labels in which they differ.
import type { Labels, MatrixSeries } from '../base/api';

export interface GraphSeries { labels: Labels; name: string; values: (number | null)[]; mean: number; last: number | null }

const rank = (k: string) => k === 'job' ? 0 : k === 'instance' ? 1 : 2;

/** The difference between series, in words: only the labels in which they differ. */
export function nameSeries(all: Labels[]): { names: string[]; common: Labels } {
	const keys = [...new Set(all.flatMap((l) => Object.keys(l)))].filter((k) => k !== '__name__').sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
	const common: [string, string][] = [], differ: string[] = [], of = (l: Labels, k: string) => Object.hasOwn(l, k) ? l[k] : undefined; /* a label may be called "constructor" */
	for (const k of keys) {
		const first = of(all[0], k);
		if (first !== undefined && all.every((l) => of(l, k) === first)) common.push([k, first]);
		else differ.push(k);
	}
	const names = all.map((l) => differ.map((k) => of(l, k)).filter((v) => v !== undefined).join(' · ')
		|| (all.length === 1 ? common.map(([k, v]) => `${k}=${v}`).join(' ') : '') || l.__name__ || 'value');
	return { names, common: Object.fromEntries(common) };
}

/** Rows on one time axis, largest first; a missing point is a gap. */
export function alignSeries(result: MatrixSeries[], from: number, to: number, step: number): { times: number[]; series: GraphSeries[] } {
	const n = Math.floor((to - from) / step + 1e-6) + 1;
	const times = Array.from({ length: n }, (_, i) => from + i * step);
	const { names } = nameSeries(result.map((r) => r.metric));
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
		return { labels: r.metric, name: names[k], values, mean: count ? sum / count : 0, last };
	});
	series.sort((a, b) => b.mean - a.mean || a.name.localeCompare(b.name));
	return { times, series };
}
