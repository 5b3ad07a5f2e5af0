// SPDX-License-Identifier: Apache-2.0
// Closer looks at a tree of the server. It leaves out what is too small to see, relative to the root that it was asked for: where something is
// left out below the zoomed box, it is asked again with that box as the root, and what has few nodes then comes whole; a search has the server count.
import { useEffect, useState } from 'preact/hooks';
import { api } from '../base/api';
import { isName } from '../flame/path';
import { findPath, hiddenBelow, pathNames, type FlameTree } from '../flame/tree';
import { ALL_FUNCTIONS, SOME_FUNCTIONS, treeLike } from './load';

/** A tree and what it is of. near: what is known below a path of it. */
export interface Source { expr: string; time: number; width: number; tree: FlameTree; near?: Near }
export interface Near { tree: FlameTree; all: boolean }

const startsWith = (path: string[], root: string[]) => root.every((name, i) => i < path.length && isName(path[i], name));

/** The names of a path as far as the tree knows them: an address may have hashes. */
const namesOf = (t: FlameTree, path: string[]) => path.some((n) => n.startsWith('~')) ? pathNames(t, findPath(t, path)) : path;

export const askNear = (s: Source, root: string[], all: boolean, signal: AbortSignal): Promise<Near> =>
	api.flame(s.expr, s.time, s.width, root, all ? ALL_FUNCTIONS : SOME_FUNCTIONS, signal).then((a) => ({ tree: treeLike(s.tree, a.data, root), all }));

/** The tree to show for a zoom. all: with the rows of all functions. */
export function useTree(s: Source, path: string[], all: boolean): FlameTree {
	const [got, setGot] = useState<{ of: FlameTree; near: Near } | null>(null);
	const whole = s.tree, near = (got && got.of === whole ? got.near : s.near) ?? null;
	const fits = near !== null && startsWith(path, near.tree.root) && (near.tree.root.length > 0 || !path.length || !whole.hidden);
	const tree = fits ? near.tree : whole, asked = namesOf(tree, path);
	const same = near && near.tree.root.length === asked.length && startsWith(asked, near.tree.root);
	const wanted = same ? all && !near.all && near.tree.allFunctions > near.tree.functions.length
		: asked.length ? hiddenBelow(tree, findPath(tree, asked)) > 0 : all && whole.allFunctions > whole.functions.length;
	const key = asked.join('\0');
	useEffect(() => {
		if (!wanted) return;
		const abort = new AbortController();
		/* not while it glides there: on two cores the server would take the frames' */
		const timer = setTimeout(() => void askNear(s, asked, all, abort.signal).then((n) => setGot({ of: whole, near: n }), () => undefined), asked.length && 200);
		return () => { clearTimeout(timer); abort.abort(); };
	}, [whole, key, wanted, all]);
	return tree;
}

/** The server's search result if boxes are hidden; null: not known (yet). */
export function useFound(s: Source, path: string[], text: string, needed: boolean): { total: number; functions: number } | null {
	const q = text.trim(), root = namesOf(s.tree, path), key = [...root, q].join('\0');
	const [found, setFound] = useState<{ of: FlameTree; key: string; total: number; functions: number } | null>(null);
	useEffect(() => {
		if (!needed || !q) return;
		const abort = new AbortController();
		const timer = setTimeout(() => {
			api.found(s.expr, s.time, root, /[A-Z]/.test(q) ? q : `(?i)${q}`, abort.signal)
				.then((f) => setFound({ of: s.tree, key, ...f }), () => undefined);
		}, 150);
		return () => { clearTimeout(timer); abort.abort(); };
	}, [s.tree, key, needed]);
	return found && found.of === s.tree && found.key === key ? found : null;
}
