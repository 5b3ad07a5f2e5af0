// SPDX-License-Identifier: Apache-2.0
// What is compared with what. Both sides have absolute times, so that a link shows what its sender saw; nothing of a comparison moves on
// by itself.
import { batch, computed } from '@preact/signals';
import { bounds, inUrl, oneOf, query, range, selection, writeUrl, type Codec } from '../base/state';
import { before, parseSide, printSide, sideOf, type Comparison, type Side } from './sides';

export type { Comparison, Side } from './sides';

const asSide: Codec<Side | null> = { parse: parseSide, print: (s) => s ? printSide(s) : '' };
const base = inUrl<Side | null>(['explore'], 'base', null, asSide);
const now = inUrl<Side | null>(['explore'], 'now', null, asSide);

/** The two sides while something is compared. Callers that set them must call compare(). */
export const comparing = computed<Comparison | null>(() => base.value && now.value ? { base: base.value, now: now.value } : null);

/** Whether shares of each side's whole are compared, or values per time. */
export const measure = inUrl(['explore'], 'measure', 'share', oneOf<'share' | 'absolute'>('share', 'absolute'));
/** Colours of a difference: orange and blue, which colour-blind readers can distinguish, or red and green. */
export const changeColors = inUrl(['explore'], 'change', 'orange', oneOf<'orange' | 'red'>('orange', 'red'));

export function compare(c: Comparison | null, mode: 'push' | 'replace' = 'push'): void {
	batch(() => { base.value = c?.base ?? null; now.value = c?.now ?? null; });
	writeUrl(mode);
}

/** The query that the page is about: of a comparison that of now. */
export const queried = computed(() => now.value && base.value ? now.value.query : query.value);
/** Changes the query, of a comparison those of both sides. */
export function eachQuery(change: (q: string) => string): void {
	const c = comparing.value;
	if (c) return compare({ base: { ...c.base, query: change(c.base.query) }, now: { ...c.now, query: change(c.now.query) } });
	query.value = change(query.value);
	writeUrl('push');
}

const nowSeconds = () => Math.floor(Date.now() / 1000);

/** The current content of the page. */
export const shownSide = (): Side => comparing.value?.now ?? sideOf(query.value, selection.value, Math.floor(bounds(range.value, nowSeconds()).to));

/** Compares two sides. Without `now` it is what the page shows; without `base` it is the time before, of the same length. */
export function startCompare(sides: { base?: Side; now?: Side } = {}): void {
	const to = sides.now ?? shownSide();
	compare({ base: sides.base ?? before(to), now: to });
}

/** That stretch of time of the query becomes what is compared against. */
export function setBaseline(from: number, to: number): void {
	const side = shownSide();
	compare({ base: { query: comparing.value?.base.query ?? side.query, from: Math.round(from), to: Math.round(to) }, now: side });
}

/** The time before that moment beside the time after it: as long as the query's range, or as what there is since. */
export function compareAround(t: number): void {
	const shown = shownSide(), end = nowSeconds(), at = Math.round(t);
	const wanted = 'at' in shown ? 300 : shown.to - shown.from;
	const length = Math.max(30, Math.min(Math.round(wanted), end - at));
	compare({ base: { query: shown.query, from: at - length, to: at }, now: { query: shown.query, from: at, to: at + length } });
}
