// SPDX-License-Identifier: Apache-2.0
// Which keys do what. A room declares its keys once, as a table, and gives each of them its deed where they are used: a key that is in
// no table does nothing, and one without a deed does not compile. So the list that `?` shows is the whole truth.
import { useEffect, useRef } from 'preact/hooks';

/** How a key is written: as KeyboardEvent.key, 'Space' for ' ', with 'Ctrl+' (or the Mac's command key) and 'Shift+' in front, or two in a row: 'g t'. Letters and
 * signs are what is typed, whatever it takes to type them ('?', 'G'); 'Shift+' is for keys that type nothing. */
export interface Key { keys: string[]; what: string }
/** The areas where they work, in the order of the list. */
export interface KeyGroup { where: string; keys: Key[]; rank: number }

/** False: not now, let others see the key. */
export type Deed = (e: KeyboardEvent) => void | boolean;
export type Deeds<N extends string> = Record<N, Deed>;

export interface KeyTable<N extends string> {
	group: KeyGroup;
	/** For onKeyDown of an element: runs the key's action. Whether that was something. */
	handle: (e: KeyboardEvent, deeds: Deeds<N>) => boolean;
	/** The same for keys that work everywhere on the page, except while one types. If two tables have one key, the later one
	 * counts. */
	use: (deeds: Deeds<N>, on?: boolean) => void;
}

/** All tables, for the list. */
export const keyGroups: KeyGroup[] = [];

/** where: the title in the list, "Flame graph". For each key its name in the code, how it is pressed, and what it does. rank: groups are listed by
 * it. */
export function keyTable<N extends string>(where: string, table: Record<N, [keys: string | string[], what: string]>, rank = 1): KeyTable<N> {
	const names = Object.keys(table) as N[], byKey = new Map<string, N>();
	const group: KeyGroup = { where, keys: names.map((n) => ({ keys: [table[n][0]].flat(), what: table[n][1] })), rank };
	names.forEach((n, i) => group.keys[i].keys.forEach((k) => {
		if (byKey.has(k)) throw new Error(`${where}: ${k} twice`);
		byKey.set(k, n);
	}));
	keyGroups.push(group);
	keyGroups.sort((a, b) => a.rank - b.rank);
	const handle = (e: KeyboardEvent, deeds: Deeds<N>, first = ''): boolean => {
		const name = byKey.get(first + pressed(e));
		if (name === undefined || deeds[name](e) === false) return false;
		e.preventDefault();
		e.stopPropagation();
		return true;
	};
	return {
		group,
		handle,
		use(deeds, on = true) {
			const latest = useRef(deeds);
			latest.current = deeds;
			useEffect(() => {
				if (!on) return;
				const entry = { try: (e: KeyboardEvent, first: string) => handle(e, latest.current, first), starts: (key: string) => group.keys.some((k) => k.keys.some((t) => t.startsWith(`${key} `))) };
				pageWide.push(entry);
				return () => { pageWide.splice(pageWide.indexOf(entry), 1); };
			}, [on]);
		},
	};
}

/** A key as tables write it. */
export function pressed(e: Pick<KeyboardEvent, 'key' | 'ctrlKey' | 'metaKey' | 'altKey' | 'shiftKey'>): string {
	const key = e.key === ' ' ? 'Space' : e.key;
	return `${e.ctrlKey || e.metaKey ? 'Ctrl+' : ''}${e.altKey ? 'Alt+' : ''}${e.shiftKey && key.length > 1 ? 'Shift+' : ''}${key}`;
}

/* ---- keys that work everywhere ---- */

const pageWide: { try: (e: KeyboardEvent, first: string) => boolean; starts: (key: string) => boolean }[] = [];
/** The first of two in a row waits so long for the second. */
const PAIR_MS = 1500;
let waiting: { key: string; until: number } | null = null;

const types = (e: KeyboardEvent) => e.target instanceof HTMLElement && e.target.matches('input:not([type=checkbox], [type=radio], [type=button]), textarea, select, [contenteditable]');

function everywhere(e: KeyboardEvent): void {
	if (e.defaultPrevented || e.isComposing || types(e) || document.querySelector('dialog[open]')) return;
	const pair = waiting && performance.now() < waiting.until ? `${waiting.key} ` : '';
	waiting = null;
	for (const first of pair ? [pair, ''] : [''])
		for (let i = pageWide.length - 1; i >= 0; i--)
			if (pageWide[i].try(e, first)) return;
	const key = pressed(e);
	if (pageWide.some((t) => t.starts(key))) waiting = { key, until: performance.now() + PAIR_MS };
}
if (typeof document !== 'undefined') document.addEventListener('keydown', everywhere);

const SIGNS: Record<string, string> = { ArrowUp: '↑', ArrowDown: '↓', ArrowLeft: '←', ArrowRight: '→', Escape: 'Esc', PageUp: 'Page ↑', PageDown: 'Page ↓', ContextMenu: 'Menu', Delete: 'Del' };
/** A key as shown on a keyboard: its parts, each of which gets a frame. */
export const keyCaps = (key: string): string[] => key === '+' ? ['+'] : key.split(/[ ]|(?<=.)\+/).map((p) => SIGNS[p] ?? p);
