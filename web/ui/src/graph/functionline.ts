// SPDX-License-Identifier: Apache-2.0
// Functions over time: which of them have their share drawn in the graph, and the points of it. What is past does not change, so a refresh
// asks only for what is new.
import { useEffect, useRef, useState } from 'preact/hooks';
import { api, type Labels } from '../base/api';
import { asList, inUrl, writeUrl } from '../base/state';
import { profileOver, samplesOf, shareLine, shareOf, shareStep, type ShareLine, type SharePoint } from './shareline';

const MOST = 4;

/** The functions whose share is drawn. */
export const functionLines = inUrl<string[]>(['explore'], 'fn', [], asList);

/** Draws the share of that function of the query's profiles over time, beside the series. */
export function functionOverTime(name: string): void {
	functionLines.value = [...functionLines.value.filter((f) => f !== name), name].slice(-MOST);
	writeUrl('push');
	document.querySelector('.graph-panel')?.scrollIntoView({ block: 'nearest' });
}

export function closeFunction(name: string): void {
	functionLines.value = functionLines.value.filter((f) => f !== name);
	writeUrl('push');
}

/** begin, end: which moments were asked about; NaN before the first answer. */
interface Asked { key: string; points: Map<number, SharePoint>; begin: number; end: number; error: string }
export interface FunctionLine { name: string; line: ShareLine | null; error: string }

/** One number per moment. */
async function numbers(expr: string, from: number, to: number, step: number, signal: AbortSignal): Promise<Map<number, number>> {
	const a = await api.range(expr, from, to, step, signal);
	return new Map(a.data.flatMap((r) => r.values.map(([t, v]) => [Math.round(t), v] as [number, number])));
}

/** The missing points in from..to; the last one is requested again, because its window may not have been over. */
async function fill(asked: Asked, profile: string, name: string, from: number, to: number, step: number, signal: AbortSignal): Promise<void> {
	const begin = asked.begin <= from && asked.end >= from ? asked.end : from;
	if (begin > to) return;
	const [share, samples] = await Promise.all([
		numbers(shareOf(profile, name), begin, to, step, signal),
		numbers(samplesOf(profile), begin, to, step, signal).catch((e) => { if (signal.aborted) throw e; return null; }),
	]);
	for (const [t, p] of share) asked.points.set(t, { p, n: samples?.get(t) ?? null });
	for (const t of asked.points.keys()) if (t < from) asked.points.delete(t);
	asked.begin = from;
	asked.end = to;
}

/** The lines of the functions that are wanted, over those moments. Until one has come it is null. */
export function useFunctionLines(q: string, times: number[], step: number, of?: Labels): FunctionLine[] {
	const asked = useRef(new Map<string, Asked>());
	const [, redraw] = useState(0);
	const names = functionLines.value, wanted = names.join('\n');
	const s = shareStep(times[times.length - 1] - times[0] || step, step), profile = profileOver(q, s.window, of);
	const from = Math.ceil(times[0] / s.step) * s.step, to = Math.floor(times[times.length - 1] / s.step) * s.step;
	const keyed = (name: string) => `${name}\n${profile}\n${s.step}`;
	useEffect(() => {
		for (const name of asked.current.keys()) if (!names.includes(name)) asked.current.delete(name);
		if (!profile || !names.length) return;
		const abort = new AbortController();
		for (const name of names) {
			let a = asked.current.get(name);
			if (a?.key !== keyed(name)) asked.current.set(name, a = { key: keyed(name), points: new Map(), begin: NaN, end: NaN, error: '' });
			const mine = a;
			fill(mine, profile, name, from, to, s.step, abort.signal).then(() => { mine.error = ''; }, (e: Error) => { mine.error = e.message; })
				.then(() => { if (!abort.signal.aborted) redraw((n) => n + 1); });
		}
		return () => abort.abort();
	}, [wanted, profile, from, to, s.step]);
	return names.map((name) => {
		const a = asked.current.get(name), mine = a?.key === keyed(name) && a.points.size > 0;
		return { name, line: mine ? shareLine(name, shareOf(profile!, name), a.points, times, s.step) : null, error: a?.error ?? '' };
	});
}
