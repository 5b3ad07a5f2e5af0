// SPDX-License-Identifier: Apache-2.0
// Asks for a profile as one looks at it: its tree, what shares are of, and the rows of its functions.
import { api, type FlameData } from '../base/api';
import { diffOf } from '../compare/diffexpr';
import { beforeAside, buildTree, longestRun, type FlameTree } from '../flame/tree';
import type { Near } from './detail';
import { filtersOf, unfiltered } from '../query/filters';
import { beforeExpr, collapse, collapsed, inverted, recursive, REPEATS, rowsBy, viewExpr, viewKey } from './view';
import { wrapView } from './viewtext';

/** width: in pixels; boxes below a quarter of one are left out of the tree. */
export interface ProfileState {
	expr: string; time: number; width: number; tree: FlameTree;
	/** The tree's source: the viewed expression (expr, if it is missing). */
	shown?: string;
	/** The view that it was asked for. */
	viewed?: string;
	/** A tree with the rows of functions, where those of `tree` would not be the profile's: upside down each has another cost of its own. */
	rows?: FlameTree;
	/** The user's request: unchanged while only time passes. */
	asked?: string;
	/** The known part below the zoomed box. */
	near?: Near;
	/** The difference that the tree shows, also of colours of change; without the view. */
	diff?: string;
	/** Upside down: a box has no value of its own. */
	inverted?: boolean;
}

/** Rows of functions that are asked for at first, and when somebody wants all of them. */
export const SOME_FUNCTIONS = 50000;
export const ALL_FUNCTIONS = 1e7;

/** The tree below a path, its shares of the same whole as those of another. */
export function treeLike(of: FlameTree, data: FlameData, root: string[]): FlameTree {
	const t = buildTree(data, root), now = of.before ? beforeAside(t) : t;
	now.whole = of.whole;
	now.baseWhole = of.baseWhole;
	now.shares = of.shares;
	return now;
}

export async function loadProfile(expr: string, time: number, width: number, signal: AbortSignal): Promise<{ profile: ProfileState; warnings: string[] }> {
	const viewed = viewKey.value, before = beforeExpr(expr), asked = before ?? expr, upside = inverted.value, apart = upside || rowsBy.value !== '';
	const tree = async (shown: string) => {
		const a = await api.flame(shown, time, width, [], SOME_FUNCTIONS, signal), t = buildTree(a.data);
		return { shown, tree: before ? beforeAside(t) : t, warnings: a.warnings };
	};
	const [first, whole, rows] = await Promise.all([
		tree(viewExpr(asked)),
		filtersOf(expr).length ? api.flame(unfiltered(asked), time, 1, [], 0, signal) : null,
		apart ? api.flame(wrapView(expr, { collapsed: false, inverted: false, rowsBy: '' }), time, 1, [], SOME_FUNCTIONS, signal) : null,
	]);
	let got = first;
	if (collapse.value === 'auto' && !collapsed(asked) && longestRun(first.tree).times > REPEATS) {
		recursive.value = new Set([...recursive.value, unfiltered(expr), unfiltered(asked)]);
		got = await tree(viewExpr(asked));
	}
	const t = got.tree;
	t.shares = t.base && diffOf(expr)?.shares;
	if (whole) {
		t.whole = whole.data.nodes.total[0] ?? 0;
		t.baseWhole = whole.data.nodes.base?.total[0] ?? 0;
	}
	return { profile: { expr, time, width, tree: t, diff: t.base || t.before ? asked : undefined, shown: got.shown, viewed, rows: rows ? treeLike(t, rows.data, []) : undefined, inverted: upside }, warnings: got.warnings };
}
