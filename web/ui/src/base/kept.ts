// SPDX-License-Identifier: Apache-2.0
// What this browser remembers between visits: habits of a person, never what a link has to say (that is in the address, state.ts).
import { signal, type Signal } from '@preact/signals';

const PREFIX = 'pyrrha.';

/** A signal that this browser keeps under that name; another window that sets it sets it here. ok: whether a value that was found is one. */
export function kept<T>(name: string, initial: T, ok: (value: unknown) => boolean): Signal<T> {
	const read = (text: string | null): T => {
		try {
			const value: unknown = text === null ? initial : JSON.parse(text);
			return ok(value) ? value as T : initial;
		} catch {
			return initial;
		}
	};
	const key = PREFIX + name, s = signal<T>(initial);
	let written: string | null = null;
	try {
		written = localStorage.getItem(key);
	} catch { /* forbidden: it lasts as long as this window */ }
	s.value = read(written);
	s.subscribe((value) => {
		const text = JSON.stringify(value);
		if (text === (written ?? JSON.stringify(initial))) return;
		written = text;
		try {
			localStorage.setItem(key, text);
		} catch { /* full, or forbidden */ }
	});
	addEventListener('storage', (e) => { if (e.key === key) { written = e.newValue; s.value = read(e.newValue); } });
	return s;
}
