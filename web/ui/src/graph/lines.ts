// SPDX-License-Identifier: Apache-2.0
// Which lines a graph draws: the largest series, and, for who asks for it, all others as one, their sum. The sum of many is so much larger than any of
// them that beside it the lines would be flat. Pure.
import type { Labels } from '../base/api';
import type { GraphSeries } from './seriesnames';

/** key: names the line in the address and over refreshes. color: index in the palette; it is kept while the line is drawn. of: the number of series
 * in it. */
export interface Line { key: string; labels: Labels | null; name: string; values: (number | null)[]; last: number | null; ended?: number; color: number; of: number }

/** The key of the line that all others are. */
export const REST = 'others';
/** How many series are drawn at first, and how many more a click shows. */
export const LARGEST = 10;
/** More lines than this cannot be distinguished, and the page has no room for them. */
export const MOST = 160;

/** Short, the same for the same labels in every browser: 32 bits of FNV-1a. */
export function keyOf(labels: Labels): string {
	let h = 0x811c9dc5;
	for (const c of Object.keys(labels).sort().map((k) => `${k}\0${labels[k]}\0`).join('')) h = Math.imul(h ^ c.codePointAt(0)!, 0x01000193);
	return (h >>> 0).toString(36);
}

/** series: the largest first. colors: what was drawn has which color; changed to what is drawn now. One that is drawn alone in its color keeps it. */
export function pickLines(series: GraphSeries[], most: number, colors: Map<string, number>): Line[] {
	const n = series.length > most + 1 ? most : series.length, rest = series.slice(n);
	const keys = series.slice(0, n).map((s) => keyOf(s.labels));
	for (const k of [...colors.keys()]) if (!keys.includes(k)) colors.delete(k);
	const taken = new Set(colors.values());
	let free = 0;
	for (const k of keys) {
		if (colors.has(k)) continue;
		while (taken.has(free)) free++;
		colors.set(k, free);
		taken.add(free);
	}
	const lines = series.slice(0, n).map((s, i): Line => ({ key: keys[i], labels: s.labels, name: s.name, values: s.values, last: s.last, ended: s.ended, color: colors.get(keys[i])!, of: 1 }));
	if (rest.length) lines.push(sumOf(rest));
	return lines;
}

/** If none of them has a value, the sum has none either. */
export function addUp(all: (number | null)[][]): (number | null)[] {
	const out: (number | null)[] = new Array(all[0]?.length ?? 0).fill(null);
	for (const values of all) values.forEach((v, i) => { if (v !== null && v !== undefined) out[i] = (out[i] ?? 0) + v; });
	return out;
}

function sumOf(rest: GraphSeries[]): Line {
	const values = addUp(rest.map((s) => s.values)), last = values.reduce<number>((i, v, k) => v === null ? i : k, -1);
	return {
		key: REST, labels: null, name: `${rest.length.toLocaleString('en-US')} others, added up`, values, last: values[last] ?? null, color: -1, of: rest.length,
		ended: rest.every((s) => s.ended !== undefined) ? last : undefined,
	};
}

/* ---- what is hidden: keys of lines; or only some are shown: keys with a plus. The sum of the others is shown if its key is there behind =. ---- */

const WITH_REST = `=${REST}`;

export function isShown(hidden: string[], key: string): boolean {
	const only = hidden.some((k) => k.startsWith('+'));
	return only ? hidden.includes(`+${key}`) : key === REST ? hidden.includes(WITH_REST) : !hidden.includes(key);
}

/** Shows only that line or, if it is alone already, all. */
export const toggleOnly = (hidden: string[], key: string): string[] => hidden.length === 1 && hidden[0] === `+${key}` ? [] : [`+${key}`];

/** One more hidden, or one less. */
export function toggleHidden(hidden: string[], key: string): string[] {
	const only = hidden.some((k) => k.startsWith('+')), mine = only ? `+${key}` : key === REST ? WITH_REST : key;
	return hidden.includes(mine) ? hidden.filter((k) => k !== mine) : [...hidden, mine];
}
