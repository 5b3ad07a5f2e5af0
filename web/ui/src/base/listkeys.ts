// SPDX-License-Identifier: Apache-2.0
// The keys of menus, lists and choices, which are the same wherever there is one.
import { keyTable } from './keys';

export const listKeys = keyTable('In a menu, a list or a choice', {
	next: ['ArrowDown', 'the next'],
	before: ['ArrowUp', 'the one before'],
	right: ['ArrowRight', 'to the right'],
	left: ['ArrowLeft', 'to the left'],
	first: ['Home', 'the first'],
	last: ['End', 'the last'],
}, 2);
export const closeKeys = keyTable('In what has opened', { close: ['Escape', 'close it'] }, 2);

/** Moves the focus by this many of those elements; from outside of them to the first or the last. */
export function stepTo(all: HTMLElement[], step: number): void {
	if (!all.length) return;
	const at = all.indexOf(document.activeElement as HTMLElement);
	all[at < 0 ? step > 0 ? 0 : all.length - 1 : (at + step + all.length) % all.length].focus();
}
