// SPDX-License-Identifier: Apache-2.0
// What the page of the language shows, as the server lists it. Pure.
import type { LanguagePart as Entry, LanguageSection as Section, ProfileType } from '../base/api';
import { tokenize } from '../query/query';

/** Those with the text in their name, types or description; by name first. */
export function matching(all: Section[], text: string): Section[] {
	const t = text.trim().toLowerCase();
	if (!t) return all;
	const rank = (e: Entry) => e.signature.toLowerCase() === t ? 0 : e.signature.toLowerCase().startsWith(t) ? 1 : e.signature.toLowerCase().includes(t) ? 2 : `${e.signature} ${e.doc} ${e.returns}`.toLowerCase().includes(t) ? 3 : 4;
	return all.map((s) => ({ ...s, entries: s.entries.filter((e) => rank(e) < 4).sort((a, b) => rank(a) - rank(b)) })).filter((s) => s.entries.length > 0);
}

/* Replacements for types in the examples that a server does not have: of the same kind, so that every function accepts them. */
const INSTEAD: Record<string, string[]> = { cpu: ['on_cpu', 'off_cpu'], heap_inuse_space: ['heap_inuse_objects', 'goroutines'] };

/** An example over what is stored. */
export function withStored(example: string, types: ProfileType[]): string {
	const there = (name: string) => types.some((t) => t.series > 0 && (t.alias === name || t.name === name));
	return tokenize(example).map((t) => t.kind === 'metric' && INSTEAD[t.text] && !there(t.text) ? INSTEAD[t.text].find(there) ?? t.text : t.text).join('');
}
