// SPDX-License-Identifier: Apache-2.0
// How many samples each side of a difference has, as the language's samples(…) says.
import { useEffect, useState } from 'preact/hooks';
import { api, type QueryData } from '../base/api';
import { perBase, parseDuration } from '../base/units';
import { selectors } from '../query/query';
import { diffOf } from './diffexpr';
import { UNCOUNTED, type PerSample } from './noise';

/** Counts of each side, and what one of them counts in the tree's unit; or why that is not known. */
export type Samples = { known: true; now: number; base: number; per: PerSample } | { known: false; why: string };

/** What the colours of a diff need to tell noise. Null: noise cannot be told, and every change is coloured. */
export const perSample = (s: Samples | null): PerSample | null => !s ? UNCOUNTED : s.known ? s.per : null;

function numberOf(d: QueryData): number {
	const text = d.resultType === 'vector' ? d.result[0]?.value[1] : d.resultType === 'scalar' ? d.result[1] : undefined;
	return text === undefined ? NaN : Number(text);
}

/** Samples and value (in base units) of one side. Those of a rate are per second; here are those of its range. */
async function countSide(expr: string, time: number, signal: AbortSignal): Promise<{ n: number; value: number }> {
	const [n, value] = await Promise.all(['samples', 'value'].map((f) => api.query(`${f}(${expr})`, time, signal).then((a) => numberOf(a.data))));
	const range = /\brate\s*\(/.test(expr) ? parseDuration(selectors(expr)[0]?.range ?? '') : 1;
	return { n: n * (range > 0 ? range : 1), value: value * (range > 0 ? range : 1) };
}

async function count(expr: string, time: number, unit: string, signal: AbortSignal): Promise<Samples> {
	const d = diffOf(expr);
	if (!d) return { known: false, why: 'The query is no diff(…) whose two sides could be counted.' };
	const [now, base] = await Promise.all([countSide(d.now, time, signal), countSide(d.base, time, signal)]);
	if (!(now.n > 0 && base.n > 0)) return { known: false, why: 'A side has no samples.' };
	/* as the tree shows it: a comparison of shares has scaled now to the value of the base */
	const native = perBase(unit), shown = d.shares ? base.value : now.value;
	return { known: true, now: now.n, base: base.n, per: { now: shown * native / now.n, base: base.value * d.scale * native / base.n } };
}

const A_STATE: Samples = { known: false, why: 'A state is no sample: its changes are real.' };

/** Null until samples are counted. While a newer time is counted, the last count stays. */
export function useSamples(expr: string, time: number, unit: string, diff: boolean, flow: boolean): Samples | null {
	const of = `${unit} ${expr}`;
	const [got, setGot] = useState<{ of: string; samples: Samples } | null>(null);
	useEffect(() => {
		if (!diff || !flow) return;
		const abort = new AbortController();
		count(expr, time, unit, abort.signal).then((samples) => setGot({ of, samples }),
			() => { if (!abort.signal.aborted) setGot({ of, samples: { known: false, why: 'The number of samples behind values of this type is not known.' } }); });
		return () => abort.abort();
	}, [of, time, diff, flow]);
	if (!flow) return A_STATE;
	return got?.of === of ? got.samples : null;
}
