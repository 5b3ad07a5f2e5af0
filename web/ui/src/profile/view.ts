// SPDX-License-Identifier: Apache-2.0
// How one looks at the profile, all of it in the address. The filters are not here: they are part of the query (query/filters.ts).
import { computed, signal } from '@preact/signals';
import { asFlag, asText, colorBy, inUrl, layout, oneOf, writeUrl } from '../base/state';
import { eachQuery } from '../compare/state';
import { unfiltered, withFilter, withoutFilter, type Filter, type FilterName } from '../query/filters';
import { printPath } from '../flame/path';
import { withBefore } from '../query/query';
import { wrapView, type View } from './viewtext';

/** Callers below the functions that cost: leaves become roots. */
export const inverted = inUrl(['explore'], 'invert', false, asFlag);
export const rootBelow = inUrl(['explore'], 'root', false, { parse: (s) => s === 'below', print: (v) => v ? 'below' : 'above' });
/** auto: joined where a stack repeats a function more than REPEATS times. */
export type Collapse = 'auto' | 'on' | 'off';
export const collapse = inUrl<Collapse>(['explore'], 'recursion', 'auto', oneOf('auto', 'on', 'off'));
export const REPEATS = 4;
/** A label whose values are the first level of the tree; '' for none. */
export const rowsBy = inUrl(['explore'], 'rows', '', asText);
/** The function whose callers and callees are shown; '' for none. */
export const sandwich = inUrl(['explore'], 'sandwich', '', asText);
const asPath = { parse: (s: string) => s === '' ? [] : s.split('\n'), print: printPath };
/** Names of calls from the outermost on, down to what is zoomed into; of a sandwich, of its callees. */
export const zoomPath = inUrl<string[]>(['explore'], 'zoom', [], asPath);
/** Of a sandwich: the same of its callers. */
export const callersPath = inUrl<string[]>(['explore'], 'zoomup', [], asPath);

/** Queries of which a profile was seen that repeats a function so often. */
export const recursive = signal<ReadonlySet<string>>(new Set());
export const collapsed = (expr: string): boolean => collapse.value === 'on' || (collapse.value === 'auto' && recursive.value.has(unfiltered(expr)));

export const viewOf = (expr: string): View => ({ collapsed: collapsed(expr), inverted: inverted.value, rowsBy: rowsBy.value });
/** The query that is sent to show the profile of an expression in the current view. */
export const viewExpr = (expr: string): string => wrapView(expr, viewOf(expr));
/** The expression beside the same of the time before, for colours of change; null if there is none, or it is switched off. */
export const beforeExpr = (expr: string): string | null => colorBy.value === 'change' ? withBefore(expr, null) : null;
/** Changes whenever another tree has to be asked for. */
export const viewKey = computed(() => [inverted.value, collapse.value, rowsBy.value, colorBy.value === 'change'].join('\n'));

export function sandwichOf(name: string): void {
	sandwich.value = name;
	zoomPath.value = callersPath.value = [];
	if (name && layout.value === 'table') layout.value = 'both';
	writeUrl('push');
}

export function filterBy(fn: FilterName, args: string): void {
	eachQuery((q) => withFilter(q, fn, args));
}

export function dropFilter(f: Filter): void {
	eachQuery((q) => withoutFilter(q, f));
}
