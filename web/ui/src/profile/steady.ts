// SPDX-License-Identifier: Apache-2.0
// What is on the screen while newer answers come. What a person asked for is shown at once. What only came because time went on waits while
// somebody reads (points at a box or a row, has a menu open), and while it does not have what one has zoomed into; it is complete, down to the
// box that is zoomed into, before it takes the place of the old.
import { useEffect, useState } from 'preact/hooks';
import { findPath, type FlameTree } from '../flame/tree';
import { askNear } from './detail';
import { loadProfile, type ProfileState } from './load';
import { viewKey } from './view';

const LOOK_MS = 250;

const depthAt = (t: FlameTree, path: string[]) => t.depth[findPath(t, path)];
const nearest = (s: ProfileState) => s.near?.tree ?? s.tree;

async function complete(state: ProfileState, shown: ProfileState, path: string[], signal: AbortSignal): Promise<ProfileState> {
	const s = state.viewed === undefined || state.viewed === viewKey.value ? state : { ...(await loadProfile(state.expr, state.time, state.width, signal)).profile, asked: state.asked };
	if (s.asked !== shown.asked || !path.length || !s.tree.hidden || path.some((n) => n.startsWith('~'))) return s;
	return { ...s, near: await askNear({ ...s, expr: s.shown ?? s.expr }, path, false, signal) };
}

/** failed: why the view that is wanted cannot be shown; ''. waits: newer data is there; show() does not wait for the end of reading. */
export function useSteady(state: ProfileState, path: string[], reading: () => boolean): { shown: ProfileState; waits: boolean; show: () => void; failed: string } {
	const [shown, setShown] = useState(state);
	const [next, setNext] = useState<ProfileState | null>(null);
	const [failed, setFailed] = useState('');
	const view = viewKey.value;
	useEffect(() => {
		setNext(null);
		if (state === shown && (state.viewed === undefined || state.viewed === view)) return;
		const abort = new AbortController();
		complete(state, shown, path, abort.signal).then((s) => {
			setFailed('');
			if (s.asked !== shown.asked || s.viewed !== shown.viewed || s.asked === undefined) setShown(s);
			else setNext(s);
		}, (e: Error) => { if (!abort.signal.aborted) setFailed(e.message); });
		return () => abort.abort();
	}, [state, view]);
	useEffect(() => {
		if (!next) return;
		const look = () => {
			if (reading() || depthAt(nearest(next), path) < depthAt(nearest(shown), path)) return;
			setShown(next);
			setNext(null);
		};
		look();
		const timer = setInterval(look, LOOK_MS);
		return () => clearInterval(timer);
	}, [next, path.join('\n')]);
	return { shown, waits: next !== null, show: () => { if (next) { setShown(next); setNext(null); } }, failed };
}
