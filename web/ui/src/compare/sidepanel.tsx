// SPDX-License-Identifier: Apache-2.0
// One side of a comparison: query, time, graph; and its flame graph.
import { useMemo } from 'preact/hooks';
import { ErrorBox } from '../base/errors';
import { colorBy, searchText, writeUrl } from '../base/state';
import { moment } from '../base/time';
import { formatDuration, formatValue } from '../base/units';
import { FlameGraph } from '../flame/flamegraph';
import { search, searchRegex } from '../flame/fold';
import { findPath, pathNames, UNEVEN } from '../flame/tree';
import { SeriesGraph } from '../graph/seriesgraph';
import { TimeRange } from '../graph/timerange';
import { frameOf, openFrameMenu } from '../profile/framemenu';
import type { ProfileState } from '../profile/load';
import { flow, observed } from '../profile/profilepanel';
import { rootBelow, zoomPath } from '../profile/view';
import { errorOffset } from '../query/query';
import { QueryBar } from '../query/querybar';
import { useSideGraph, type Loaded } from './load';
import { earlier, endOf, lengthOf, startOf, type Comparison, type Side } from './sides';
import { compare } from './state';

export const TITLES = { base: 'Base', now: 'Now' };
type Which = keyof typeof TITLES;

export function SidePanel({ which, c, loaded }: { which: Which; c: Comparison; loaded: Loaded | null }) {
	const side = c[which], graph = useSideGraph(side, c).value, end = Math.floor(Date.now() / 1000);
	const set = (s: Side) => compare({ ...c, [which]: s });
	const error = loaded && 'error' in loaded ? loaded.error : null;
	const span = 'at' in side ? null : { from: side.from, to: side.to };
	return (
		<section class={`panel side side-${which}`} aria-label={TITLES[which]}>
			<header class="side-head">
				<h2>{TITLES[which]}</h2>
				{'at' in side && <span class="hint">profiles at <b>{moment(side.at)}</b></span>}
				<div class="grow" />
				<button type="button" class="square" title={`${formatDuration(lengthOf(side))} earlier`} aria-label={`${TITLES[which]}: ${formatDuration(lengthOf(side))} earlier`} onClick={() => set(earlier(side, lengthOf(side)))}>‹</button>
				<button type="button" class="square" title={`${formatDuration(lengthOf(side))} later`} aria-label={`${TITLES[which]}: ${formatDuration(lengthOf(side))} later`} onClick={() => set(earlier(side, -lengthOf(side)))}>›</button>
				<TimeRange value={{ from: 'at' in side ? side.at - lengthOf(side) : startOf(side), to: endOf(side) }} now={end}
					onChange={(r) => set({ query: side.query, ...('last' in r ? { from: end - r.last, to: end } : { from: r.from, to: r.to }) })} />
			</header>
			<QueryBar value={side.query} onRun={(q) => { if (q) set({ ...side, query: q }); }} errorAt={error?.status ? errorOffset(error.message, side.query) : null} ran={side.query} />
			{graph && graph.series.length > 0
				? <SeriesGraph times={graph.times} series={graph.series} unit={graph.unit} selection={'at' in side ? { at: side.at } : span} span={null}
					onSelect={(s) => { if (s) set({ query: side.query, ...('at' in s ? { at: s.at } : s) }); }} onFilter={() => undefined} />
				: <div class="graph-gap hint">{graph ? 'No series match around this time.' : ''}</div>}
			{error ? <ErrorBox error={error} /> : <p class="side-foot">{loaded && 'profile' in loaded ? <Total state={loaded.profile} /> : ' '}</p>}
		</section>
	);
}

function Total({ state: { tree } }: { state: ProfileState }) {
	if (tree.n <= 1 && !tree.total[0]) return <span class="hint">No samples at this time: there is nothing to compare.</span>;
	return <><b class="sum">{formatValue(tree.total[0], tree.unit)}</b>{tree.seconds > 0 && <span class="hint" title={tree.mixed ? UNEVEN : undefined}>{flow(tree)} in {observed(tree)}{tree.mixed && '; frames approximate'}</span>}</>;
}

/** The flame graph of a side: what is zoomed into and searched is what is in the difference. */
export function SideFlame({ which, loaded }: { which: Which; loaded: Loaded | null }) {
	const state = loaded && 'profile' in loaded ? loaded.profile : null, tree = state?.tree;
	const zoom = useMemo(() => tree ? findPath(tree, zoomPath.value) : 0, [tree, zoomPath.value]);
	const re = useMemo(() => searchRegex(searchText.value), [searchText.value]);
	const match = useMemo(() => tree && re ? search(tree, re, zoom).frames : null, [tree, re, zoom]);
	if (!state || !tree || !tree.weight[0]) return <section class="panel side-flame" aria-label={`Flame graph of ${TITLES[which].toLowerCase()}`}><header class="side-head"><h2>{TITLES[which]}</h2></header><p class="hint foot">No samples.</p></section>;
	const zoomTo = (n: number) => { zoomPath.value = pathNames(tree, n); writeUrl('push'); };
	return (
		<section class={`panel side-flame side-${which}`} aria-label={`Flame graph of ${TITLES[which].toLowerCase()}`}>
			<header class="side-head"><h2>{TITLES[which]}</h2><Total state={state} /></header>
			<FlameGraph tree={tree} zoom={zoom} match={match} colorBy={colorBy.value === 'change' ? 'package' : colorBy.value} highlight={null} rootBelow={rootBelow.value} noSelf={state.inverted} onZoom={zoomTo} label={TITLES[which]}
				onMenu={(n, x, y) => openFrameMenu(frameOf(tree, n), x, y, { zoom: () => zoomTo(n) })} />
		</section>
	);
}
