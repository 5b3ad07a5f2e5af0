// SPDX-License-Identifier: Apache-2.0
// A function's share over time: what is asked for, how sure it is, and how its points fall on the graph's axis. Pure.
import type { Labels } from '../base/api';
import { filtersOf, refilter, unfiltered } from '../query/filters';
import { plainSelector, selectors, withMatchers } from '../query/query';
import { formatDuration } from '../base/units';

/** How many standard errors the band is wide to either side: a true share lies outside of it one time in twenty. */
export const Z = 2;
/** A graph requests about this many points of each function: every point merges the profiles of its step. */
const POINTS = 60;
/** Profiles come every minute at the longest, as a rule: a shorter window would often be empty. */
const SHORTEST = 60;

/** step: of the line, a multiple of the graph's, so that its points are points of the graph. window: what each of them adds up. */
export function shareStep(seconds: number, step: number): { step: number; window: number } {
	const wide = Math.max(1, Math.ceil(seconds / POINTS / step)) * step;
	return { step: wide, window: Math.max(wide, SHORTEST) };
}

/** The profile that a query shows, of the window before each point: its selector, merged, with the filters around it. null if the query selects nothing. */
export function profileOver(q: string, window: number, of?: Labels): string | null {
	const core = unfiltered(q), p = plainSelector(core), s = p?.s ?? selectors(core)[0];
	if (!s) return null;
	const text = core.slice(s.start, s.rangeStart >= 0 ? s.rangeStart : s.end).trim();
	return refilter(`merge(${withMatchers(text, of ?? {})}[${formatDuration(window)}])`, filtersOf(q));
}

export const shareOf = (profile: string, name: string): string => `share(${profile}, {function=${JSON.stringify(name)}})`;
export const samplesOf = (profile: string): string => `samples(${profile})`;

/** Wilson's bounds, as share_low and share_high have them. */
export function wilson(p: number, n: number, z: number): [number, number] {
	if (!(n > 0)) return [0, 1];
	const mid = p + z * z / (2 * n), half = z * Math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)), all = 1 + z * z / n;
	return [Math.max(0, (mid - half) / all), Math.min(1, (mid + half) / all)];
}

/** At a moment the share, and its number of observations; n null: the type does not give it. */
export interface SharePoint { p: number; n: number | null }
type Values = (number | null | undefined)[];
/** On the graph's axis: undefined between two points (the line goes on), null where there was no profile. */
export interface ShareLine { name: string; expr: string; step: number; share: Values; low: Values; high: Values; samples: Values }

export function shareLine(name: string, expr: string, points: Map<number, SharePoint>, times: number[], step: number): ShareLine {
	const line: ShareLine = { name, expr, step, share: [], low: [], high: [], samples: [] };
	for (const t of times) {
		const at = Math.abs(t / step - Math.round(t / step)) < 1e-6 ? points.get(Math.round(t)) ?? null : undefined;
		const bounds = at && (at.n !== null && at.p >= 0 && at.p <= 1 ? wilson(at.p, at.n, Z) : null);
		line.share.push(at && at.p);
		line.low.push(at && (bounds ? bounds[0] : null));
		line.high.push(at && (bounds ? bounds[1] : null));
		line.samples.push(at && at.n);
	}
	return line;
}

/** The point whose window contains a moment: the next one of the line. */
export function pointAt(line: ShareLine, idx: number): number {
	let i = idx;
	while (i < line.share.length && line.share[i] === undefined) i++;
	return i < line.share.length ? i : idx;
}
