// SPDX-License-Identifier: Apache-2.0
// What the page is looking at, as signals, and its address: everything that matters is in the URL, so that a link shows
// what its sender saw and the browser's back button goes where one was.
import { signal } from '@preact/signals';
import type { ColorBy } from './flame/colors';
import type { FunctionInfo, ProfileType } from './api';
import type { Selection } from './query';

export type Range = { last: number } | { from: number; to: number };
export type Layout = 'flame' | 'both' | 'table';
export type Page = 'explore' | 'targets' | 'discovery' | 'rules' | 'alerts' | 'status';

export const page = signal<Page>('explore');
export const query = signal('');
/** What is shown unless the address says otherwise. */
export const initialRange: Range = { last: 900 };
export const range = signal<Range>(initialRange);
export const selection = signal<Selection>(null);
export const refresh = signal(10);
export const searchText = signal('');
/** Of the pages of targets: the text and the job that are looked for, and whether among those that are not scraped. */
export const find = signal('');
export const job = signal('');
export const unscraped = signal(false);
/** Of the pages of rules and alerts: the text that is looked for, and the states that are wanted ('' = all). */
export const ruleFind = signal('');
export const ruleState = signal('');
export const layout = signal<Layout>(innerWidth >= 1100 ? 'both' : 'flame');
export const colorBy = signal<ColorBy>('package');
export const types = signal<ProfileType[] | null>(null);
/** What the server's language has; the page offers nothing that would only be refused. */
export const functions = signal<FunctionInfo[]>([]);
export const has = (name: string): boolean => functions.value.some((f) => f.name === name);
/** Counts up to ask everything again. */
export const tick = signal(0);

const BASE = new URL(document.baseURI).pathname;

export function pageHref(p: Page): string {
	return BASE + (p === 'explore' ? '' : p === 'discovery' ? 'service-discovery' : p);
}

function number(s: string | null): number | null {
	const n = s === null || s === '' ? NaN : Number(s);
	return Number.isFinite(n) ? n : null;
}

export function readUrl(): void {
	const path = location.pathname.startsWith(BASE) ? location.pathname.slice(BASE.length) : '';
	page.value = path.startsWith('targets') ? 'targets' : path.startsWith('service-discovery') ? 'discovery' : path.startsWith('rules') ? 'rules'
		: path.startsWith('alerts') ? 'alerts' : /^(status|flags|config)/.test(path) ? 'status' : 'explore';
	const p = new URLSearchParams(location.search);
	query.value = p.get('q') ?? p.get('g0.expr') ?? ''; /* links made for Prometheus's page work, too */
	const from = number(p.get('from')), to = number(p.get('to')), last = number(p.get('last'));
	range.value = from !== null && to !== null && to > from ? { from, to } : last && last > 0 ? { last } : initialRange;
	const at = number(p.get('at')), a = number(p.get('a')), b = number(p.get('b'));
	selection.value = at !== null ? { at } : a !== null && b !== null && b > a ? { from: a, to: b } : null;
	searchText.value = p.get('search') ?? '';
	const ofRules = page.value === 'rules' || page.value === 'alerts';
	find.value = ofRules ? '' : p.get('find') ?? '';
	ruleFind.value = ofRules ? p.get('find') ?? '' : '';
	ruleState.value = ofRules ? p.get('state') ?? '' : '';
	job.value = p.get('job') ?? '';
	unscraped.value = p.get('state') === 'dropped';
	const view = p.get('view');
	if (view === 'flame' || view === 'both' || view === 'table') layout.value = view;
	const every = number(p.get('refresh'));
	if (every !== null) refresh.value = every;
}

function search(): string {
	const p = new URLSearchParams();
	if (page.value === 'targets' || page.value === 'discovery') {
		if (job.value) p.set('job', job.value);
		if (find.value) p.set('find', find.value);
		if (unscraped.value && page.value === 'discovery') p.set('state', 'dropped');
		const asked = p.toString();
		return asked ? `?${asked}` : '';
	}
	if (page.value === 'rules' || page.value === 'alerts') {
		if (ruleState.value) p.set('state', ruleState.value);
		if (ruleFind.value) p.set('find', ruleFind.value);
		const asked = p.toString();
		return asked ? `?${asked}` : '';
	}
	if (page.value !== 'explore') return '';
	if (query.value) p.set('q', query.value);
	const r = range.value, s = selection.value;
	if ('last' in r) { if (r.last !== 900) p.set('last', String(r.last)); } else { p.set('from', String(r.from)); p.set('to', String(r.to)); }
	if (s && 'at' in s) p.set('at', String(s.at));
	else if (s) { p.set('a', String(s.from)); p.set('b', String(s.to)); }
	if (searchText.value) p.set('search', searchText.value);
	if (layout.value !== (innerWidth >= 1100 ? 'both' : 'flame')) p.set('view', layout.value);
	if (refresh.value !== 10) p.set('refresh', String(refresh.value));
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
