// SPDX-License-Identifier: Apache-2.0
// Where a name is cut that has no room: names of one kind differ at their end, so the end stays, from the begin of a word on.

/** The end is at most so long: a longer one would leave no room for the beginning. */
const LONGEST = 24;
/** An end of fewer letters tells little, as `func1` or `get`: if another one is there, it is not chosen. */
const LONG_ENOUGH = 8, SHORTEST = 4;
/** Letters that stay before the end, if there is room for them; those that stay where a name has no words. */
const LEAST_HEAD = 4, BLIND = /^(.{8,})(.{10})$/su;

/** A part of a path, package or class begins at i. */
const partBegins = (s: string, i: number): boolean => /[./:]/.test(s[i - 1]) && !/[./:]/.test(s[i]) || s[i - 1] === ')' && /\w/.test(s[i]);
/** A word of a_name or aName begins at i. */
const wordBegins = (s: string, i: number): boolean => s[i - 1] === '_' && s[i] !== '_' || /\p{Ll}/u.test(s[i - 1]) && /\p{Lu}/u.test(s[i]);

/** The beginning and the end of a name; undefined: it is too short to be cut. */
export function cutName(name: string): [head: string, end: string] | undefined {
	const blind = BLIND.exec(name), n = name.length;
	if (!blind) return undefined;
	/** The shortest end of such a length that begins so. */
	const ending = (begins: (s: string, i: number) => boolean, least: number, most: number): number | undefined => {
		for (let i = n - least; i >= Math.max(LEAST_HEAD, n - most); i--)
			if (begins(name, i) && /\p{L}/u.test(name.slice(i))) return i;
		return undefined;
	};
	const at = ending(partBegins, LONG_ENOUGH, LONGEST) ?? ending(wordBegins, LONG_ENOUGH, LONGEST) ?? ending(partBegins, SHORTEST, LONG_ENOUGH) ?? ending(wordBegins, SHORTEST, LONG_ENOUGH);
	return at === undefined ? [blind[1], blind[2]] : [name.slice(0, at), name.slice(at)];
}
