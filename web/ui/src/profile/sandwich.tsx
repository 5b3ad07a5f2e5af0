// SPDX-License-Identifier: Apache-2.0
// A function in the middle: its callers above it, what it calls below, of all its occurrences. Both halves are trees of the server, whose
// roots are the function's total, exact.
import { useEffect, useMemo, useState } from 'preact/hooks';
import type { Signal } from '@preact/signals';
import { api } from '../base/api';
import { writeUrl } from '../base/state';
import type { PerSample } from '../compare/noise';
import { formatShare, formatValue } from '../base/units';
import type { ColorBy } from '../flame/colors';
import { FlameGraph } from '../flame/flamegraph';
import { type Finder, matchFrames } from '../flame/fold';
import { findPath, pathNames, type FlameTree } from '../flame/tree';
import { useTree, type Source } from './detail';
import { treeLike, type ProfileState } from './load';
import { beforeExpr, callersPath, collapsed, sandwichOf, zoomPath } from './view';
import { calleesExpr, callersExpr, wrapView } from './viewtext';

interface Props {
	state: ProfileState; name: string; re: Finder | null; colorBy: ColorBy; per?: PerSample | null; highlight: string | null;
	onMenu: (t: FlameTree, node: number, x: number, y: number, zoom: () => void) => void;
}

interface Halves { key: string; callers: Source; callees: Source }

export function Sandwich({ state, name, ...shared }: Props) {
	const [halves, setHalves] = useState<Halves | null>(null), [failed, setFailed] = useState('');
	const of = wrapView(beforeExpr(state.expr) ?? state.expr, { collapsed: collapsed(state.expr), inverted: false, rowsBy: '' });
	useEffect(() => {
		const abort = new AbortController();
		const half = (expr: string): Promise<Source> => api.flame(expr, state.time, state.width, [], 0, abort.signal)
			.then((a) => ({ expr, time: state.time, width: state.width, tree: treeLike(state.tree, a.data, []) }));
		Promise.all([half(callersExpr(of, name)), half(calleesExpr(of, name))])
			.then(([callers, callees]) => { setHalves({ key: `${name}\n${of}`, callers, callees }); setFailed(''); }, (e: Error) => { if (!abort.signal.aborted) setFailed(e.message); });
		return () => abort.abort();
	}, [state.tree, of, name]);
	if (failed) return <div class="none"><p>{failed}</p></div>;
	if (!halves || halves.key !== `${name}\n${of}`) return <div class="sandwich" aria-busy="true" />;
	return <Both {...halves} name={name} {...shared} />;
}

/** Both halves, when they are there. */
export function Both({ callers, callees, name, ...shared }: Omit<Props, 'state'> & Pick<Halves, 'callers' | 'callees'>) {
	const t = callees.tree;
	if (t.n <= 1 && callers.tree.n <= 1)
		return <div class="none"><p><code>{name}</code> is not in this profile.</p><p class="hint"><button type="button" class="link" onClick={() => sandwichOf('')}>Back to the whole</button></p></div>;
	return (
		<div class="sandwich">
			<p class="half-title"><b>{name}</b> <span>{formatValue(t.total[0], t.unit)}{t.whole ? ` · ${formatShare(t.total[0] / t.whole)} of total` : ''}</span><span class="hint">its callers above, what it calls below</span></p>
			<Half source={callers} name={name} path={callersPath} label="Callers" up {...shared} />
			<Half source={callees} name={name} path={zoomPath} label="Callees" {...shared} />
		</div>
	);
}

/** One half: its first row is the function, the total above that is left out. The path begins below the function. */
function Half({ source, name, path, label, up, re, colorBy, per, highlight, onMenu }: Omit<Props, 'state'> & { source: Source; path: Signal<string[]>; label: string; up?: boolean }) {
	const names = path.value.length ? [name, ...path.value] : [];
	const tree = useTree(source, names, false), zoom = findPath(tree, [name, ...path.value]);
	const match = useMemo(() => re && matchFrames(tree, re), [tree, re]);
	const onZoom = (n: number) => { path.value = pathNames(tree, n).slice(1); writeUrl('push'); };
	return (
		<FlameGraph tree={tree} zoom={zoom} onZoom={onZoom} onMenu={(n, x, y) => onMenu(tree, n, x, y, () => onZoom(n))} match={match} colorBy={colorBy} per={per} highlight={highlight}
			rootBelow={up} skip={1} asked={source.expr} noSelf={up} label={label} />
	);
}
