// SPDX-License-Identifier: Apache-2.0
// Rows of the table that are not functions: lines, files, packages, binaries, as the language reads them out of the profile.
import { useEffect, useState } from 'preact/hooks';
import { api, type QueryData } from '../base/api';
import { perBase } from '../base/units';
import { diffOf } from '../compare/diffexpr';
import type { TableRow, Whole } from './columns';

export type Grain = 'function' | 'line' | 'file' | 'package' | 'binary';
export const GRAINS: [Grain, string][] = [['function', 'Functions'], ['line', 'Lines'], ['file', 'Files'], ['package', 'Packages'], ['binary', 'Binaries']];

type Measure = 'self' | 'total' | 'baseSelf' | 'baseTotal';
const ask = (measure: 'self' | 'total', expr: string, grain: Grain, time: number, signal: AbortSignal) => api.query(`${measure}(${expr}, "${grain}")`, time, signal);

/** Puts one answer's values into their rows. Labels of the profile itself are no part of a row: what a line costs in all of them adds up. */
function fill(rows: Map<string, TableRow>, d: QueryData, grain: Grain, into: Measure, factor: number): void {
	for (const s of d.resultType === 'vector' ? d.result : []) {
		const { function: fn = '', file = '', line = '', binary = '' } = s.metric;
		const name = grain === 'line' ? fn : s.metric[grain] ?? '', key = grain === 'line' ? `${fn}\0${file}\0${line}` : name;
		let row = rows.get(key);
		if (!row) {
			row = { key, name: name || '(unknown)', file: grain === 'line' ? file : '', binary: grain === 'line' ? binary : '', line: Number(line) || 0, self: 0, total: 0, baseSelf: 0, baseTotal: 0 };
			rows.set(key, row);
		}
		row[into] += Number(s.value[1]) * factor;
	}
}

export interface Readout { rows: TableRow[]; whole: Whole; failed?: string }

/** All rows of an expression. Those of a difference are of each side by itself, scaled as the difference scales them. */
async function read(expr: string, time: number, grain: Grain, unit: string, signal: AbortSignal): Promise<Readout> {
	const d = diffOf(expr), native = perBase(unit), rows = new Map<string, TableRow>();
	const sides = d ? [{ expr: d.before + d.now + d.after, factor: native, measures: ['self', 'total'] }, { expr: d.before + d.base + d.after, factor: native * d.scale, measures: ['baseSelf', 'baseTotal'] }]
		: [{ expr, factor: native, measures: ['self', 'total'] }];
	const whole = await Promise.all(sides.map(async (s) => {
		const [self, total, value] = await Promise.all([ask('self', s.expr, grain, time, signal), ask('total', s.expr, grain, time, signal), api.query(`value(${s.expr})`, time, signal)]);
		fill(rows, self.data, grain, s.measures[0] as Measure, s.factor);
		fill(rows, total.data, grain, s.measures[1] as Measure, s.factor);
		return value.data.resultType === 'vector' ? value.data.result.reduce((sum, v) => sum + Number(v.value[1]), 0) * s.factor : 0;
	}));
	return { rows: [...rows.values()], whole: { now: whole[0], base: whole[1] ?? 0 } };
}

/** null until they are there; nothing is asked for functions, which come with the tree. */
export function useReadout(expr: string, time: number, grain: Grain, unit: string): Readout | null {
	const key = `${grain} ${unit} ${time} ${expr}`;
	const [got, setGot] = useState<{ grain: Grain; key: string; readout: Readout } | null>(null);
	useEffect(() => {
		if (grain === 'function') return;
		const abort = new AbortController();
		read(expr, time, grain, unit, abort.signal).then((readout) => setGot({ grain, key, readout }),
			(e: Error) => { if (!abort.signal.aborted) setGot({ grain, key, readout: { rows: [], whole: { now: 0, base: 0 }, failed: e.message } }); });
		return () => abort.abort();
	}, [key]);
	return got && got.grain === grain ? got.readout : null; /* while the next comes, the last stays */
}
