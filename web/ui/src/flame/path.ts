// SPDX-License-Identifier: Apache-2.0
// A path of frames, from the outermost call on, as text of an address: their names, a line each, or where these are too long, or a name is
// no line by itself, short hashes of them.
import { hash } from './colors';

const LONGEST = 2500;
const hashed = (name: string) => `~${hash(name).toString(36)}`;

export function printPath(names: string[]): string {
	const text = names.map((n) => n === '' || n.includes('\n') ? hashed(n) : n).join('\n');
	return encodeURIComponent(text).length <= LONGEST ? text : names.map((n) => n.startsWith('~') ? n : hashed(n)).join('\n');
}

/** Whether the name in such a path is that one. */
export const isName = (token: string, name: string): boolean => token === name || (token.startsWith('~') && token === hashed(name));
