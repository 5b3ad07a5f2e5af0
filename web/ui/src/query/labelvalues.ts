// SPDX-License-Identifier: Apache-2.0
// Names and values of labels as the server has them, asked once per minute and question, and never more than a list shows.
import { api } from '../base/api';
import { withMatcher } from './query';

const cache = new Map<string, Promise<string[]>>();

/** Asks once per minute and question; an answer that failed is no answer. */
export function cached(key: string, ask: () => Promise<string[]>): Promise<string[]> {
	const k = `${Math.floor(Date.now() / 60000)} ${key}`;
	let p = cache.get(k);
	if (!p) {
		if (cache.size > 200) cache.clear();
		p = ask().catch(() => []);
		cache.set(k, p);
	}
	return p;
}

export const literal = (text: string): string => text.replace(/[\\.+*?()|[\]{}^$]/g, '\\$&');
/** A regular expression for what contains a text, in either case. */
export const containing = (text: string): string => `(?i).*${literal(text)}.*`;

const wanted = (match: string) => match && match !== '{}' ? match : undefined;

/** Of the series that a selector matches; '' = of all. */
export const labelNames = (match: string): Promise<string[]> =>
	cached(`labels ${match}`, () => api.labels(wanted(match)).then((a) => a.data.filter((n) => n !== '__name__')));

export const VALUES = 300;

/** The first VALUES values of a label, or of those with a text in them. */
export function labelValues(label: string, match: string, text = '', limit = VALUES): Promise<string[]> {
	const m = text ? withMatcher(match || '{}', label, '=~', containing(text)) : match;
	return cached(`values ${label} ${m} ${limit}`, () => api.labelValues(label, wanted(m), limit).then((a) => a.data));
}

/** Those with a text in them; the server is asked again only if it had more than it told. */
export async function findValues(label: string, match: string, text: string): Promise<string[]> {
	const all = await labelValues(label, match), t = text.toLowerCase();
	return all.length < VALUES ? all.filter((v) => v.toLowerCase().includes(t)) : text ? labelValues(label, match, text) : all;
}
