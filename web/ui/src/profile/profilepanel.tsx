// SPDX-License-Identifier: Apache-2.0
// The profile itself: flame graph, table, what is searched and zoomed, and the ways to take it elsewhere.
import type { ComponentChildren } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { api } from '../base/api';
import { DiffScale } from '../compare/diffscale';
import type { ProfileState } from '../explore/explore';
import type { ColorBy } from '../flame/colors';
import { FlameGraph } from '../flame/flamegraph';
import { matchRow, rowsOf, search, searchRegex } from '../flame/fold';
import { buildTree, findPath, pathNames, pathOf, type FlameTree } from '../flame/tree';
import { ExportMenu } from './exportmenu';
import { openFrameMenu } from './framemenu';
import { FunctionTable } from './functable';
import { Close, Search, Up } from '../base/icons';
import { colorBy, layout, searchText, writeUrl, type Layout } from '../base/state';
import { Segments } from '../base/ui';
import { formatAxis, formatDuration, formatShare, formatValue } from '../base/units';

const escape = (s: string) => s.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

interface Props {
	state: ProfileState; selection: ComponentChildren;
	/** The query has failed since: what is shown answers an older one. */
	stale: boolean;
}

/** Rows of functions that are asked for at first, and when somebody wants all of them. */
export const SOME_FUNCTIONS = 2000;
const ALL_FUNCTIONS = 1e7;

const startsWith = (path: string[], root: string[]) => root.every((name, i) => path[i] === name);

/** The tree to show for a zoom. The server leaves out what is too small to see, relative to the root that it was asked for:
 * where something is left out, a zoom asks again with the zoomed box as that root, and gets its functions exactly, too. */
function useTree(state: ProfileState, path: string[], all: boolean): FlameTree {
	const [detail, setDetail] = useState<{ of: FlameTree; tree: FlameTree; all: boolean } | null>(null);
	const mine = detail && detail.of === state.tree ? detail : null;
	const whole = state.tree;
	const same = mine && mine.tree.root.length === path.length && startsWith(path, mine.tree.root);
	const wanted = same ? all && !mine.all && mine.tree.allFunctions > mine.tree.functions.length
		: path.length ? whole.hidden > 0 : all && whole.allFunctions > whole.functions.length;
	const key = path.join('\0');
	useEffect(() => {
		if (!wanted) return;
		const abort = new AbortController();
		api.flame(state.expr, state.time, state.width, path, all ? ALL_FUNCTIONS : SOME_FUNCTIONS, abort.signal)
			.then((a) => setDetail({ of: whole, tree: buildTree(a.data, path), all }), () => undefined);
		return () => abort.abort();
	}, [whole, key, wanted, all]);
	return mine && startsWith(path, mine.tree.root) && (mine.tree.root.length || !path.length || !whole.hidden) ? mine.tree : whole;
}

/** What a search finds, by the server, where boxes are hidden; null: not known (yet). */
function useFound(state: ProfileState, path: string[], text: string, needed: boolean): { total: number; functions: number } | null {
	const q = text.trim(), key = [...path, q].join('\0');
	const [found, setFound] = useState<{ of: FlameTree; key: string; total: number; functions: number } | null>(null);
	useEffect(() => {
		if (!needed || !q) return;
		const abort = new AbortController();
		const timer = setTimeout(() => {
			api.found(state.expr, state.time, path, /[A-Z]/.test(q) ? q : `(?i)${q}`, abort.signal)
				.then((f) => setFound({ of: state.tree, key, ...f }), () => undefined);
		}, 150);
		return () => { clearTimeout(timer); abort.abort(); };
	}, [state.tree, key, needed]);
	return found && found.of === state.tree && found.key === key ? found : null;
}

export function ProfilePanel({ state, selection, stale }: Props) {
	const [path, setPath] = useState<string[]>([]);
	const [all, setAll] = useState(false);
	const tree = useTree(state, path, all || searchText.value.trim() !== '');
	const [hoverName, setHoverName] = useState<string | null>(null);
	const box = useRef<HTMLInputElement>(null);
	const zoom = useMemo(() => findPath(tree, path), [tree, path]);
	const re = useMemo(() => searchRegex(searchText.value), [searchText.value]);
	const found = useMemo(() => re ? search(tree, re, zoom) : null, [tree, re, zoom]);

	const table = useMemo(() => rowsOf(tree, zoom), [tree, zoom]);
	/* Where boxes are hidden, what the tree says is the least it can be. */
	const whole = useFound(state, path, searchText.value, found !== null && tree.hidden > 0);
	const matching = useMemo(() => re ? table.rows.filter((r) => matchRow(r, re)).length : 0, [table, re]);
	const value = whole ? whole.total : found?.value ?? 0;
	const atLeast = tree.hidden > 0 && !whole ? '≥ ' : '';
	useEffect(() => setAll(false), [state.expr]);
	useEffect(() => {
		const onKey = (e: KeyboardEvent) => {
			const typing = (e.target as HTMLElement).matches?.('input, textarea, select');
			if (e.key === '/' && !typing) { e.preventDefault(); box.current?.focus(); }
			if (e.key === 'Escape' && !typing) setPath([]);
		};
		document.addEventListener('keydown', onKey);
		return () => document.removeEventListener('keydown', onKey);
	}, []);

	const setSearch = (text: string) => { searchText.value = text; writeUrl('replace'); };
	const toggleSearch = (name: string) => { const exact = `^${escape(name)}$`; setSearch(searchText.value === exact ? '' : exact); };
	const menuOf = (node: number, x: number, y: number) => {
		const f = tree.frame[node];
		openFrameMenu({ name: tree.names[f], file: tree.files[f], binary: tree.binaries[f], line: tree.line[node] || tree.startLines[f], node }, x, y,
			{ zoom: () => setPath(pathNames(tree, node)), mark: () => toggleSearch(tree.names[f]) });
	};
	const empty = tree.n <= 1 || tree.total[0] === 0 && !tree.base;
	return (
		<section class={`panel profile ${stale ? 'stale' : ''}`} aria-label="Profile">
			<div class="profile-bar">
				<header class="panel-head profile-head">
					<Segments<Layout> label="Layout" value={layout.value} onChange={(v) => { layout.value = v; writeUrl('replace'); }}
						options={[['flame', 'Flame graph'], ['both', 'Both'], ['table', 'Table']]} />
					<Sum tree={tree} />
					{selection}
					<div class="grow" />
					<label class={`field search ${found && !(whole?.functions ?? matching) ? 'nothing' : ''}`}>
						<Search />
						<input ref={box} type="search" placeholder="Search functions (regexp)" aria-label="Search functions" value={searchText.value}
							onInput={(e) => setSearch(e.currentTarget.value)} onKeyDown={(e) => { if (e.key === 'Escape') { setSearch(''); e.currentTarget.blur(); } }} />
						{found && <output title={atLeast ? 'Boxes too small to see are not counted' : undefined}>{(whole?.functions ?? matching) ? `${atLeast}${formatShare(value / (tree.total[zoom] || 1))}${zoom ? ' of view' : ''} · ${formatValue(value, tree.unit)}` : 'no match'}</output>}
						{!found && <kbd>/</kbd>}
					</label>
					{tree.base ? <DiffScale /> : <select aria-label="Colour by" title="Colour by" value={colorBy.value} onChange={(e) => { colorBy.value = e.currentTarget.value as ColorBy; }}>
						<option value="package">by package</option><option value="binary">by binary</option><option value="function">fire</option>
					</select>}
					<ExportMenu state={state} />
				</header>
				<Crumbs tree={tree} zoom={zoom} onZoom={(n) => setPath(pathNames(tree, n))} />
			</div>
			<div class={`profile-body show-${layout.value}`}>
				{empty ? <NoSamples state={state} /> : (
					<>
						{layout.value !== 'flame' && <FunctionTable key={tree.base ? 'diff' : 'one'} tree={tree} expr={state.expr} time={state.time} zoomed={zoom > 0} {...table} onMore={() => setAll(true)} filter={re} colorBy={colorBy.value} onHover={setHoverName} onPick={toggleSearch} picked={searchText.value.startsWith('^') ? searchText.value.slice(1, -1).replace(/\\(.)/g, '$1') : ''} />}
						{layout.value !== 'table' && <FlameGraph tree={tree} zoom={zoom} match={found?.frames ?? null} colorBy={colorBy.value} highlight={layout.value === 'both' ? hoverName : null}
							onZoom={(n) => setPath(pathNames(tree, n))} onMenu={menuOf} />}
					</>
				)}
			</div>
			{tree.hidden > 0 && !empty && <p class="hint foot">{tree.hidden.toLocaleString('en-US')} boxes too small to see are folded into “(other)”; zooming in brings them back. The table counts them.</p>}
		</section>
	);
}

/** The value of the whole; of a diff both, and by how much they differ. */
function Sum({ tree }: { tree: FlameTree }) {
	const now = tree.total[0] ?? 0;
	if (!tree.base) return <span class="sum">{formatValue(now, tree.unit)}{tree.seconds > 0 && now > 0 && <em class="flow" title={`over ${formatDuration(tree.seconds)} that were observed`}>{flow(tree)}</em>}</span>;
	const base = tree.base.total[0], d = now - base;
	return (
		<span class="sum" title="base → compared">{formatValue(base, tree.unit)} → {formatValue(now, tree.unit)}
			{base !== 0 && <em class={d > 0 ? 'more' : 'less'}>{d >= 0 ? '+' : '−'}{formatShare(Math.abs(d / base))}</em>}</span>
	);
}

/** The same per second of wall time: of CPU time that is cores. */
function flow(t: FlameTree): string {
	const v = t.total[0] / t.seconds;
	switch (t.unit) {
	case 'nanoseconds': return /^(process_cpu|on_cpu|cpu):/.test(t.typeName) ? `${formatAxis(v / 1e9, 'cores')} cores` : `${formatAxis(v / 1e9, 'seconds/s')} s/s`;
	case 'bytes': return formatAxis(v, 'bytes/s');
	default: return formatAxis(v, '1/s');
	}
}

function Crumbs({ tree, zoom, onZoom }: { tree: FlameTree; zoom: number; onZoom: (n: number) => void }) {
	if (!zoom) return null;
	const path = pathOf(tree, zoom), shown = path.length > 6 ? [path[0], -1, ...path.slice(-4)] : path;
	return (
		<nav class="crumbs" aria-label="Zoom">
			<button type="button" class="ghost" onClick={() => onZoom(tree.parent[zoom])} title="One frame up"><Up /></button>
			{shown.map((n, i) => n < 0 ? <span key="gap">… {path.length - 5} …</span> : (
				<button key={n} type="button" class={n === zoom ? 'here' : ''} onClick={() => onZoom(n)} aria-current={n === zoom ? 'true' : undefined}>
					{n === 0 ? 'total' : tree.names[tree.frame[n]]}{i === shown.length - 1 && <em>{formatShare(tree.total[n] / (tree.total[0] || 1))}</em>}
				</button>
			))}
			<button type="button" class="ghost reset" onClick={() => onZoom(0)} title="Zoom out (Escape)"><Close />Reset zoom</button>
		</nav>
	);
}

function NoSamples({ state }: { state: ProfileState }) {
	return (
		<div class="none">
			<p>No samples at this time.</p>
			<p class="hint"><code>{state.expr}</code> matched no profile that has any. Pick a moment on the graph where there is something, or widen the range in the brackets.</p>
		</div>
	);
}
