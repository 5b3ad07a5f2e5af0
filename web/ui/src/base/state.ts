// SPDX-License-Identifier: Apache-2.0
// What the page is looking at, as signals, and its address: everything that matters is in the URL, so that a link shows
// what its sender saw and the browser's back button goes where one was.
import { signal, type Signal } from '@preact/signals';
import type { ColorBy } from '../flame/colors';
import type { FunctionInfo, Labels, ProfileType } from './api';
import type { Selection } from '../query/query';

/** auto: the user did not choose it. It is then as long as there is data for, up to an hour, and not in the address. */
export type Range = { last: number; auto?: true } | { from: number; to: number };
export type Layout = 'flame' | 'both' | 'table';
/** The pages, and the prefixes of their paths; links use the first one. web/pages.c serves these. */
const PATHS = { explore: [''], targets: ['targets'], discovery: ['service-discovery', 'discovery'], rules: ['rules'], alerts: ['alerts'], agents: ['agents'], language: ['language', 'help'], status: ['status', 'flags', 'config'] };
export type Page = keyof typeof PATHS;

export const page = signal<Page>('explore');

/* ---- what is in the address ---- */

/** How a value is written in the address. parse: null if the text is malformed. */
export interface Codec<T> { parse: (text: string) => T | null; print: (value: T) => string }
export const asText: Codec<string> = { parse: (s) => s, print: (v) => v };
export const asNumber: Codec<number> = { parse: (s) => s !== '' && Number.isFinite(Number(s)) ? Number(s) : null, print: String };
export const asFlag: Codec<boolean> = { parse: (s) => s === '1', print: (v) => v ? '1' : '0' };
/* Texts of a list have a line each: a line end within one, and a backslash, are written with a backslash. */
const asLine = (s: string) => s.replace(/[\\\n]/g, (c) => c === '\n' ? '\\n' : '\\\\');
const ofLine = (s: string) => s.replace(/\\([\\n])/g, (_, c) => c === 'n' ? '\n' : '\\');
const lines = (s: string) => s.split('\n').map(ofLine);
export const asList: Codec<string[]> = { parse: (s) => s === '' ? [] : lines(s), print: (v) => v.map(asLine).join('\n') };
export const oneOf = <T extends string>(...values: T[]): Codec<T> => ({ parse: (s) => values.find((v) => v === s) ?? null, print: (v) => v });

/** Labels of a series: name=value, a line each. */
export const asLabels: Codec<Labels> = {
	parse: (s) => s === '' ? null : Object.fromEntries(lines(s).filter((l) => l.indexOf('=') > 0).map((l) => [l.slice(0, l.indexOf('=')), l.slice(l.indexOf('=') + 1)])),
	print: (v) => Object.entries(v).map(([k, x]) => asLine(`${k}=${x}`)).join('\n'),
};

interface Field { pages: Page[] | 'all'; read: (p: URLSearchParams) => void; write: (p: URLSearchParams) => void }
const fields: Field[] = [];
const here = (f: Field): boolean => f.pages === 'all' || f.pages.includes(page.value);

/** A signal that is in the address of those pages under that name, unless it has its initial value there. Each area declares its own, once,
 * when it is loaded; two of one name must not be on the same page. Callers that set it must call writeUrl. */
export function inUrl<T>(pages: Page[] | 'all', name: string, initial: T | (() => T), codec: Codec<T>): Signal<T> {
	const start = typeof initial === 'function' ? initial as () => T : () => initial;
	const s = signal<T>(start());
	fields.push({
		pages,
		read: (p) => {
			const text = p.get(name), value = text === null ? start() : codec.parse(text) ?? start();
			if (codec.print(value) !== codec.print(s.value)) s.value = value;
		},
		write: (p) => { if (codec.print(s.value) !== codec.print(start())) p.set(name, codec.print(s.value)); },
	});
	return s;
}

const asNumbers = (p: URLSearchParams, ...names: string[]) => names.map((n) => asNumber.parse(p.get(n) ?? ''));

export const query = signal('');
/** The defaults when the address has no value. */
export const initialRange: Range = { last: 3600, auto: true };
export const range = signal<Range>(initialRange);
export const selection = signal<Selection>(null);
fields.push({
	pages: ['explore'],
	read: (p) => {
		query.value = p.get('q') ?? p.get('g0.expr') ?? ''; /* links made for Prometheus's page work, too */
		const [from, to, last, at, a, b] = asNumbers(p, 'from', 'to', 'last', 'at', 'a', 'b');
		range.value = from !== null && to !== null && to > from ? { from, to } : last && last > 0 ? { last } : 'auto' in range.value ? range.value : initialRange;
		const of = asLabels.parse(p.get('of') ?? '');
		selection.value = at !== null ? of ? { at, of } : { at } : a !== null && b !== null && b > a ? { from: a, to: b } : null;
	},
	write: (p) => {
		const r = range.value, s = selection.value;
		if (query.value) p.set('q', query.value);
		if (!('last' in r)) { p.set('from', String(r.from)); p.set('to', String(r.to)); } else if (!r.auto) p.set('last', String(r.last));
		if (s && 'at' in s) { p.set('at', String(s.at)); if (s.of) p.set('of', asLabels.print(s.of)); }
		else if (s) { p.set('a', String(s.from)); p.set('b', String(s.to)); }
	},
});
/** Seconds between two looks, 0 for none. A timer that gets less, or more than a day, would ask without a pause. */
export const asPause: Codec<number> = { parse: (s) => { const n = asNumber.parse(s); return n === 0 || n !== null && n >= 1 && n <= 86400 ? n : null; }, print: String };
export const refresh = inUrl(['explore'], 'refresh', 10, asPause);
export const searchText = inUrl(['explore'], 'search', '', asText);
export const layout = inUrl<Layout>(['explore'], 'view', () => innerWidth >= 1100 ? 'both' : 'flame', oneOf('flame', 'both', 'table'));
export const colorBy = inUrl<ColorBy>(['explore'], 'color', 'package', oneOf('package', 'binary', 'file', 'function', 'change'));
/** For the pages of targets: the searched text and job, and whether among those that are not scraped. */
export const find = inUrl(['targets', 'discovery'], 'find', '', asText);
export const job = inUrl(['targets', 'discovery'], 'job', '', asText);
export const unscraped = inUrl(['discovery'], 'state', false, { parse: (s) => s === 'dropped', print: (v) => v ? 'dropped' : '' });
/** For the pages of rules and alerts: the searched text, and the selected states ('' = all). */
export const ruleFind = inUrl(['rules', 'alerts'], 'find', '', asText);
export const ruleState = inUrl(['rules', 'alerts'], 'state', '', asText);

export const types = signal<ProfileType[] | null>(null);
/** The server's language features; the page offers nothing that would only be refused. */
export const functions = signal<FunctionInfo[]>([]);
export const has = (name: string): boolean => functions.value.some((f) => f.name === name);
/** Counts up to ask everything again. */
export const tick = signal(0);

const BASE = new URL(document.baseURI).pathname;

export function pageHref(p: Page): string {
	return BASE + PATHS[p][0];
}

export function readUrl(): void {
	const path = location.pathname.startsWith(BASE) ? location.pathname.slice(BASE.length) : '';
	page.value = (Object.keys(PATHS) as Page[]).find((k) => PATHS[k].some((begin) => begin && path.startsWith(begin))) ?? 'explore';
	const p = new URLSearchParams(location.search);
	for (const f of fields)
		if (here(f)) f.read(p);
}

function search(): string {
	const p = new URLSearchParams();
	for (const f of fields)
		if (here(f)) f.write(p);
	const text = p.toString();
	return text ? `?${text}` : '';
}

/** Puts the state into the address: as a step one can go back from, or in place. */
export function writeUrl(mode: 'push' | 'replace'): void {
	const to = pageHref(page.value) + search();
	if (to === location.pathname + location.search) return;
	history[mode === 'push' ? 'pushState' : 'replaceState'](null, '', to);
}

export function go(p: Page): void {
	if (p !== page.value) ruleState.value = ''; /* the states of another page are not those of this one */
	page.value = p;
	writeUrl('push');
	scrollTo(0, 0);
}

/** A link to a query, which explains itself: of the last hour. */
export const queryHref = (q: string): string => `${pageHref('explore')}?${new URLSearchParams({ q, last: '3600' })}`;

/** A link to exactly this, with a moving range pinned to what it shows now. */
export function permalink(now: number): string {
	const r = range.value, p = new URLSearchParams(search());
	if ('last' in r) {
		p.delete('last');
		p.set('from', String(Math.round(now - r.last)));
		p.set('to', String(Math.round(now)));
	}
	p.set('q', query.value);
	return `${location.origin}${pageHref(page.value)}?${p}`;
}

addEventListener('popstate', readUrl);

export const bounds = (r: Range, now: number): { from: number; to: number } =>
	'last' in r ? { from: now - r.last, to: now } : r;

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400];

/** A round step that makes about `points` points. */
export function stepFor(seconds: number, points = 240): number {
	return STEPS.find((s) => seconds / s <= points) ?? Math.ceil(seconds / points);
}
