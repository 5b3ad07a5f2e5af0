// SPDX-License-Identifier: Apache-2.0
// The profile itself: flame graph, table, what is searched and zoomed, and the ways to take it elsewhere.
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { FlameGraph } from '../flame/flamegraph';
import { literal, matchRow, rowsOf, search, searchRegex } from '../flame/fold';
import { findPath, hiddenBelow, pathNames, pathOf, perSecond, UNEVEN, type FlameTree } from '../flame/tree';
import { filtersOf } from '../query/filters';
import { useFound, useTree } from './detail';
import { useLater } from './later';
import { ExportMenu } from './exportmenu';
import { frameOf, openFrameMenu } from './framemenu';
import { FunctionTable } from './functable';
import type { ProfileState } from './load';
import { Sandwich } from './sandwich';
import { useSteady } from './steady';
import { callersPath, dropFilter, rootBelow, sandwich, sandwichOf, zoomPath } from './view';
import { ViewBar } from './viewbar';
import { Close, Search, Up } from '../base/icons';
import { keyTable } from '../base/keys';
import { colorBy, layout, searchText, writeUrl, type Layout } from '../base/state';
import { perSample, useSamples } from '../compare/samples';
import { queried } from '../compare/state';
import { Segments } from '../base/ui';
import { formatAxis, formatDuration, formatShare, formatValue } from '../base/units';

interface Props {
	state: ProfileState; selection: ComponentChildren;
	/** The query has failed since: what is shown answers an older one. */
	stale: boolean;
}

export { SOME_FUNCTIONS } from './load';

const keys = keyTable('Profile', { search: ['/', 'search functions'], out: ['Escape', 'zoom out; leave callers and callees'] });

function setPath(names: string[]): void {
	if (names.join('\n') === zoomPath.value.join('\n')) return;
	zoomPath.value = names;
	writeUrl('push');
}

/** Out of a zoom, then out of callers and callees. */
function outwards(): boolean {
	if (zoomPath.value.length || callersPath.value.length) { zoomPath.value = callersPath.value = []; writeUrl('push'); } else if (sandwich.value) sandwichOf('');
	else return false;
	return true;
}

/** How high what sticks at the top is, for what sticks below it. */
function useBarHeight(bar: { current: HTMLElement | null }): void {
	useLayoutEffect(() => {
		const e = bar.current!, observer = new ResizeObserver(() => e.parentElement?.style.setProperty('--bar', `${e.offsetHeight}px`));
		observer.observe(e);
		return () => observer.disconnect();
	}, []);
}

/** A zoom's glide, and a bit; and until there is an answer with the rows of what is zoomed into, which is asked for then. */
const GLIDE_MS = 200, NEAR_MS = 600;

const pointed = matchMedia('(hover: hover)');

export function ProfilePanel({ state: latest, selection, stale }: Props) {
	const body = useRef<HTMLDivElement>(null), bar = useRef<HTMLDivElement>(null), box = useRef<HTMLInputElement>(null);
	const path = zoomPath.value, between = sandwich.value;
	const reading = () => pointed.matches && body.current!.matches(':hover') || document.querySelector('.context, .profile .popover-body, dialog[open]') !== null;
	const { shown: state, waits, show, failed } = useSteady(latest, between ? [] : path, reading);
	const source = { ...state, expr: state.shown ?? state.expr };
	const when = useRef(selection); /* belongs to what is shown */
	if (!waits) when.current = selection;
	const [all, setAll] = useState(false);
	const tree = useTree(source, between ? [] : path, all || searchText.value.trim() !== '');
	const samples = useSamples(state.diff ?? '', state.time, state.tree.unit, state.diff !== undefined, state.tree.seconds > 0), per = perSample(samples);
	const [hoverName, setHoverName] = useState<string | null>(null);
	const zoom = useMemo(() => between ? 0 : findPath(tree, path), [tree, path, between]);
	const re = useMemo(() => searchRegex(searchText.value), [searchText.value]);
	const found = useMemo(() => re ? search(tree, re, zoom) : null, [tree, re, zoom]);

	/* The table follows when the flame graph is drawn, and after it has glided to where it zooms. */
	const looked = useMemo(() => ({ tree, zoom, state, re, text: searchText.value }), [tree, zoom, state, re]);
	const late = useLater(looked, (was, is) => was.tree !== is.tree || was.zoom === is.zoom ? 0 : is.zoom && hiddenBelow(is.tree, is.zoom) ? NEAR_MS : GLIDE_MS);
	const table = useMemo(() => late.state.rows ? rowsOf(late.state.rows, 0) : rowsOf(late.tree, late.zoom), [late.tree, late.zoom, late.state.rows]);
	/* If boxes are hidden, the tree gives only a lower bound. */
	const whole = useFound(source, between ? [] : path, searchText.value, found !== null && tree.hidden > 0);
	const matching = useMemo(() => late.re !== null && table.rows.some((r) => matchRow(r, late.re!)), [table, late.re]);
	const value = whole ? whole.total : found?.value ?? 0;
	const atLeast = tree.hidden > 0 && !whole ? '≥ ' : '';
	useEffect(() => setAll(false), [state.expr]);
	useBarHeight(bar);
	keys.use({ search: () => box.current?.focus(), out: outwards });

	const setSearch = (text: string) => { searchText.value = text; writeUrl('replace'); };
	const toggleSearch = (name: string) => { const exact = `^${literal(name)}$`; setSearch(searchText.value === exact ? '' : exact); };
	const menuOf = (t: FlameTree, node: number, x: number, y: number, zoomIn: () => void) => {
		const f = frameOf(t, node);
		openFrameMenu(f, x, y, { zoom: zoomIn, mark: () => toggleSearch(f.name) });
	};
	const empty = tree.n <= 1 || tree.weight[0] === 0, matched = whole ? whole.functions : matching || value;
	const ofWhat = zoom ? tree.total[zoom] : tree.whole;
	/* the same element as long as nothing in it changed: what goes on around it costs nothing */
	const rows = useMemo(() => <FunctionTable key={late.tree.base ? 'diff' : 'one'} tree={late.tree} expr={late.state.expr} time={late.state.time} zoomed={!late.state.rows && late.zoom > 0} {...table} onMore={() => setAll(true)} filter={late.re} colorBy={colorBy.value} onHover={setHoverName} onPick={toggleSearch} samples={samples} picked={late.text.startsWith('^') ? late.text.slice(1, -1).replace(/\\(.)/g, '$1') : ''} />,
		[late, table, samples, colorBy.value]);
	return (
		<section class={`panel profile ${stale ? 'stale' : ''}`} aria-label="Profile">
			<div class="profile-bar" ref={bar}>
				<header class="panel-head profile-head">
					<Segments<Layout> label="Layout" value={layout.value} onChange={(v) => { layout.value = v; writeUrl('replace'); }}
						options={[['flame', 'Flame graph'], ['both', 'Both'], ['table', 'Table']]} />
					<Sum tree={state.tree} />
					{when.current}
					<div class="grow" />
					<label class={`field search ${found && !matched ? 'nothing' : ''}`}>
						<Search />
						<input ref={box} type="search" placeholder="Search functions (regexp)" aria-label="Search functions" value={searchText.value}
							onInput={(e) => setSearch(e.currentTarget.value)} onKeyDown={(e) => searchKeys.handle(e, { clear: () => { setSearch(''); box.current!.blur(); } })} />
						{found && <output title={atLeast ? 'Boxes too small to see are not counted' : undefined}>{re!.gaveUp ? 'too costly' : matched ? `${atLeast}${formatShare(value / ofWhat)}${zoom ? ' of view' : ''} · ${formatValue(value, tree.unit)}` : 'no match'}</output>}
						{!found && <kbd>/</kbd>}
					</label>
					<ExportMenu state={state} tree={tree} zoom={zoom} match={found?.frames ?? null} per={per} />
				</header>
				<ViewBar state={state} waits={waits} onShow={show} failed={failed} />
				<Crumbs tree={tree} zoom={zoom} onZoom={(n) => setPath(pathNames(tree, n))} />
			</div>
			<div class={`profile-body show-${layout.value}`} ref={body}>
				{empty ? <NoSamples state={state} /> : (
					<>
						{layout.value !== 'flame' && rows}
						{layout.value !== 'table' && (between
							? <Sandwich state={state} name={between} re={re} colorBy={colorBy.value} per={per} highlight={layout.value === 'both' ? hoverName : null} onMenu={menuOf} />
							: <FlameGraph tree={tree} zoom={zoom} match={found?.frames ?? null} colorBy={colorBy.value} per={per} highlight={layout.value === 'both' ? hoverName : null}
								onZoom={(n) => setPath(pathNames(tree, n))} onMenu={(n, x, y) => menuOf(tree, n, x, y, () => setPath(pathNames(tree, n)))}
								rootBelow={rootBelow.value} noSelf={state.inverted} asked={`${source.expr}\n${state.asked}`} />)}
					</>
				)}
			</div>
			{tree.hidden > 0 && !empty && <p class="hint foot">{tree.hidden.toLocaleString('en-US')} boxes too small to see are folded into “(other)”; zooming in brings them back. The table counts them.</p>}
		</section>
	);
}

const searchKeys = keyTable('In the search field', { clear: ['Escape', 'search for nothing'] });

/** The value of the whole; in a diff both, and their difference. */
function Sum({ tree }: { tree: FlameTree }) {
	const now = tree.total[0] ?? 0;
	if (!tree.base) return <span class="sum">{formatValue(now, tree.unit)}{tree.seconds > 0 && now > 0 && <em class="flow" title={`over ${observed(tree)}`}>{flow(tree)}</em>}
		{tree.whole !== now && tree.whole !== 0 && <em class="of-whole" title="What filters left of the whole">{formatShare(now / tree.whole)} of {formatValue(tree.whole, tree.unit)}</em>}<Uneven tree={tree} /></span>;
	if (tree.shares) return <span class="sum">Shares of each side<Uneven tree={tree} /></span>;
	const base = tree.base.total[0], d = now - base;
	return (
		<span class="sum" title="base → compared">{formatValue(base, tree.unit)} → {formatValue(now, tree.unit)}
			{base !== 0 && <em class={d > 0 ? 'more' : 'less'}>{d >= 0 ? '+' : '−'}{formatShare(Math.abs(d / base))}</em>}<Uneven tree={tree} /></span>
	);
}

const Uneven = ({ tree }: { tree: FlameTree }) => tree.mixed ? <em class="of-whole" title={UNEVEN}>frames approximate</em> : null;

export const observed = (t: FlameTree): string => `${formatDuration(Math.max(1, Math.round(t.seconds)))} that were observed`;

/** The same per second of wall time: of CPU time that is cores. */
export function flow(t: FlameTree): string {
	const v = perSecond(t);
	switch (t.unit) {
	case 'nanoseconds': return /^(process_cpu|on_cpu|cpu):/.test(t.typeName) ? `${formatAxis(v / 1e9, 'cores')} cores` : `${formatAxis(v / 1e9, 'seconds/s')} s/s`;
	case 'bytes': return formatAxis(v, 'bytes/s');
	default: return formatAxis(v, '1/s');
	}
}

/** The way to what is zoomed. Its line is always there: if it came with the zoom, all below would move. */
function Crumbs({ tree, zoom, onZoom }: { tree: FlameTree; zoom: number; onZoom: (n: number) => void }) {
	if (!zoom) return <p class="crumb-hint">Click a box to zoom in; right-click it for more</p>;
	const path = pathOf(tree, zoom), shown = path.length > 6 ? [path[0], -1, ...path.slice(-4)] : path;
	return (
		<nav class="crumbs" aria-label="Zoom">
			<button type="button" class="ghost" onClick={() => onZoom(tree.parent[zoom])} title="One frame up"><Up /></button>
			{shown.map((n, i) => n < 0 ? <span key="gap">… {path.length - 5} …</span> : (
				<button key={n} type="button" class={n === zoom ? 'here' : ''} onClick={() => onZoom(n)} aria-current={n === zoom ? 'true' : undefined}>
					{n === 0 ? 'total' : tree.names[tree.frame[n]]}{i === shown.length - 1 && <em>{formatShare(tree.total[n] / tree.total[0])}</em>}
				</button>
			))}
			<button type="button" class="ghost reset" onClick={() => onZoom(0)} title="Zoom out (Escape)"><Close />Reset zoom</button>
		</nav>
	);
}

function NoSamples({ state }: { state: ProfileState }) {
	const filters = filtersOf(queried.value);
	if (filters.length && state.tree.whole)
		return (
			<div class="none">
				<p>No stack passes the filters.</p>
				<p class="hint"><button type="button" class="link" onClick={() => dropFilter(filters[filters.length - 1])}>Take the last one away</button>, or any of the chips above.</p>
			</div>
		);
	return (
		<div class="none">
			<p>No samples at this time.</p>
			<p class="hint"><code>{state.expr}</code> matched no profile that has any. Pick a moment on the graph where there is something, or widen the range in the brackets.</p>
		</div>
	);
}
