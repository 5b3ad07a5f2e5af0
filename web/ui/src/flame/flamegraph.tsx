// SPDX-License-Identifier: Apache-2.0
// The flame graph as something to use: pointer, keyboard, zoom, and a tree that screen readers can walk. The canvas is
// moved along with what is visible of the graph, so its height has no limit.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { PerSample } from '../compare/noise';
import { changeColors } from '../compare/state';
import { calm, dark, SANS } from '../base/theme';
import { formatShare, formatValue } from '../base/units';
import { keyTable } from '../base/keys';
import { styled } from '../base/ui';
import type { ColorBy } from './colors';
import { boxRect, depthOf, draw, Palette, ROW, rowOf, type Scene } from './draw';
import { Minimap, MINIMAP } from './minimap';
import { findPath, nodeAt, pathNames, pathOf, visibleDepth, type FlameTree } from './tree';
import { Tooltip } from './tooltip';

export interface FlameGraphProps {
	tree: FlameTree;
	zoom: number;
	onZoom: (node: number) => void;
	onMenu: (node: number, x: number, y: number) => void;
	match: Uint8Array | null;
	colorBy: ColorBy;
	/** As of a scene. */
	per?: PerSample | null;
	/** A function to point at, hovered in the table. */
	highlight: string | null;
	/** The root is at the bottom. */
	rootBelow?: boolean;
	/** This many rows at the root's end are not shown: for a tree of one function the total. */
	skip?: number;
	/** The identity of the query: while it is unchanged, new data moves nothing on the screen. */
	asked?: string;
	/** Upside down a box has no value of its own. */
	noSelf?: boolean;
	label?: string;
}

const keys = keyTable('Flame graph', {
	up: ['ArrowUp', 'the box above'], down: ['ArrowDown', 'the box below: of several the largest'], left: ['ArrowLeft', 'the box to the left'], right: ['ArrowRight', 'the box to the right'],
	first: ['Home', 'the whole'], zoom: [['Enter', 'Space'], 'zoom in'], out: ['Escape', 'zoom out'], menu: [['ContextMenu', 'Shift+F10'], 'what one can do with the box'],
});

const OVERDRAW = 300, MARGIN = 100, SLICE = 256;

/** How a scene looks. */
interface Picture { of: Scene; copy: HTMLCanvasElement; boxes: number }
const same = (a: Scene, b: Scene): boolean => (Object.keys(a) as (keyof Scene)[]).every((k) => a[k] === b[k]);

/** This many boxes take longer than a frame. */
const MANY = 1000;
const GLIDE_MS = 160, FRAME_MS = 1000 / 60;
const FONT = `12px ${SANS}`;

export function FlameGraph({ tree, zoom, onZoom, onMenu, match, colorBy, per, highlight, rootBelow: flip = false, skip = 0, asked = '', noSelf = false, label }: FlameGraphProps) {
	const wrap = useRef<HTMLDivElement>(null);
	const canvas = useRef<HTMLCanvasElement>(null);
	const frameBox = useRef<HTMLDivElement>(null);
	const scene = useRef<Scene | null>(null);
	const palette = useRef(new Palette());
	const view = useRef<{ from: number; to: number; tree: FlameTree } | null>(null);
	const paint = useRef<() => void>(() => undefined);
	const small = useRef<() => void>(() => undefined);
	const glide = useRef(0), boxes = useRef(0), pictures = useRef<(Picture | undefined)[]>([]);
	const [room, setRoom] = useState(0);
	const [hover, setHover] = useState<{ tree: FlameTree; node: number; x: number; y: number } | null>(null);
	const [cursor, setCursor] = useState(zoom);
	const walked = useRef<{ names: string[]; zoom: string }>({ names: [], zoom: '' });
	const held = useRef({ key: '', asked: '', room: 0, rows: 0, flip });
	const byKey = useRef(-500); /* when a key asked for the menu */
	const isDark = dark.value, redGreen = changeColors.value === 'red';

	const span = Math.max(tree.weight[zoom], Number.MIN_VALUE);
	const here = useMemo(() => pathNames(tree, zoom).join('\n'), [tree, zoom]);
	const needed = useMemo(() => room ? Math.max(1, visibleDepth(tree, zoom, 0.5 * span / room) + 1 - skip) : 1, [tree, zoom, room, skip]);
	/* of what is asked again and again it never gets lower, which would move what is below or end the scrolling */
	const key = `${asked}\n${here}\n${room}`, rows = held.current.key === key && asked ? Math.max(needed, held.current.rows) : needed;
	const tall = rows * ROW > innerHeight && room > 300;
	const width = tall ? room - MINIMAP : room;
	const shape = { flip, rows, skip }, least = 0.5 * span / Math.max(1, width);

	useLayoutEffect(() => {
		const observer = new ResizeObserver(() => setRoom(wrap.current!.clientWidth));
		observer.observe(wrap.current!);
		setRoom(wrap.current!.clientWidth);
		return () => observer.disconnect();
	}, []);

	/* The part that is painted: what is visible of the wrapper, plus a margin for scrolling. */
	const sceneOf = (from: number, to: number): Scene => {
		const y = Math.floor(-wrap.current!.getBoundingClientRect().top), top = Math.max(0, y - OVERDRAW);
		const height = Math.max(ROW, Math.min(rows * ROW - top, Math.ceil((y + innerHeight + OVERDRAW - top) / SLICE) * SLICE));
		return { tree, from, to, zoom, width, height, top, colorBy, dark: isDark, redGreen, per, match, font: FONT, dpr: devicePixelRatio, ...shape };
	};
	/* A canvas that is large enough is kept, because another size needs new memory. */
	const size = (c: HTMLCanvasElement, s: Scene) => {
		const dpr = devicePixelRatio, w = Math.round(s.width * dpr), h = Math.round(s.height * dpr), ctx = c.getContext('2d')!;
		if (c.width !== w || c.height < h || c.height > h + innerHeight) Object.assign(c, { width: w, height: h });
		ctx.resetTransform();
		ctx.clearRect(0, 0, w, c.height);
		ctx.scale(dpr, dpr);
		return ctx;
	};
	const put = (s: Scene) => {
		const c = canvas.current!, ctx = size(c, s);
		styled({ width: `${s.width}px`, height: `${c.height * s.width / c.width}px`, transform: `translateY(${s.top}px)` })(c);
		scene.current = s;
		return ctx;
	};
	paint.current = () => {
		if (!canvas.current || !wrap.current || !width || !view.current) return;
		const s = sceneOf(view.current.from, view.current.to), p = pictures.current[+(zoom > skip)];
		if (p && same(p.of, s)) stretch(p);
		else boxes.current = draw(put(s), s, palette.current);
	};
	/* A picture of it beside the canvas: of the whole, and of the last zoom. */
	const pictureOf = (of: Scene): Picture => {
		const i = +(of.zoom > skip), was = pictures.current[i], c = canvas.current!;
		if (was && same(was.of, of)) return was;
		const copy = was?.copy ?? document.createElement('canvas'), ctx = size(copy, of);
		if (of !== scene.current) boxes.current = draw(ctx, of, palette.current);
		else {
			ctx.resetTransform();
			ctx.drawImage(c, 0, 0);
		}
		return pictures.current[i] = { of: { ...of }, copy, boxes: boxes.current };
	};
	/* To draw many boxes takes longer than a frame, to stretch their picture does not. */
	const stretch = ({ of, copy, boxes: n }: Picture) => {
		const s = sceneOf(view.current!.from, view.current!.to), ctx = put(s), k = copy.width / (of.to - of.from), height = of.height * copy.width / width;
		ctx.imageSmoothingEnabled = false;
		ctx.drawImage(copy, (s.from - of.from) * k, 0, (s.to - s.from) * k, height, 0, of.top - s.top + (flip ? (rows - of.rows!) * ROW : 0), width, of.height);
		boxes.current = n;
	};

	/* A zoom glides there, so that one sees where one goes; new data just appears. Its first frame paints: what is done before that is done twice. */
	useLayoutEffect(() => {
		const to = { from: tree.x[zoom], to: tree.x[zoom] + span, tree };
		const start = view.current;
		if (!start || start.tree !== tree || calm || !width) {
			view.current = to;
			return;
		}
		let t0 = 0, still: Picture | null = null;
		const from = Math.min(start.from, to.from), end = Math.max(start.to, to.to), out = from < start.from || end > start.to;
		const step = (now: number) => {
			if (!t0) {
				t0 = now - FRAME_MS;
				/* this frame has enough to do */
				if ((out ? tree.n : boxes.current) > MANY) still = pictureOf(out ? sceneOf(from, end) : scene.current!), glide.current = requestAnimationFrame(step);
				if (still) return;
			}
			const k = Math.min(1, (now - t0) / GLIDE_MS), ease = 1 - (1 - k) ** 3;
			view.current = k < 1 ? { tree, from: start.from + (to.from - start.from) * ease, to: start.to + (to.to - start.to) * ease } : to;
			if (still && k < 1) stretch(still);
			else paint.current();
			glide.current = k < 1 ? requestAnimationFrame(step) : 0;
			if (k === 1) setTimeout(() => small.current());
		};
		glide.current = requestAnimationFrame(step);
		return () => { cancelAnimationFrame(glide.current); glide.current = 0; };
	}, [tree, zoom]);
	useLayoutEffect(() => {
		const was = held.current;
		held.current = { key, asked, room, rows, flip };
		if (flip && was.room === room && was.asked === asked && was.flip === flip && was.rows !== rows) scrollBy(0, (rows - was.rows) * ROW); /* the root stays where it is */
		else if (was.room === room && was.flip !== flip) { /* and is shown when it has gone to the other end */
			const box = wrap.current!.getBoundingClientRect();
			if (flip && box.bottom > innerHeight) scrollBy(0, box.bottom - innerHeight + 12);
			else if (!flip && box.top < 0) scrollBy(0, box.top - 170);
		}
		if (glide.current) return;
		paint.current();
		small.current();
	}, [tree, zoom, width, rows, match, colorBy, isDark, redGreen, per, flip, skip]);
	useEffect(() => {
		const repaint = () => paint.current(), onScroll = () => {
			const s = scene.current, w = wrap.current, y = w ? -w.getBoundingClientRect().top : 0, end = s && s.top + s.height;
			if (!s || s.top && y - MARGIN < s.top || end! < s.rows! * ROW && y + innerHeight + MARGIN > end!) repaint();
		};
		addEventListener('scroll', onScroll, { passive: true });
		addEventListener('resize', repaint);
		return () => { removeEventListener('scroll', onScroll); removeEventListener('resize', repaint); };
	}, []);
	/* New data: the same box, if it is there; another zoom: what is zoomed into. */
	useLayoutEffect(() => {
		const w = walked.current, at = w.zoom === here && w.names.length ? findPath(tree, w.names) : zoom;
		setCursor(at);
		setHover((h) => h && h.tree === tree ? h : null);
	}, [zoom, tree]);
	const walk = (to: number) => {
		setCursor(to);
		walked.current = { names: pathNames(tree, to), zoom: here };
		const y = wrap.current!.getBoundingClientRect().top + rowOf(shape, tree.depth[to]) * ROW;
		if (y < 180) scrollBy(0, y - 180);
		else if (y + ROW > innerHeight) scrollBy(0, y + ROW + 12 - innerHeight);
	};

	/* The outline around the hovered box (or the keyboard's) is an element of its own: moving it repaints nothing. */
	const marked = hover && hover.tree === tree ? hover.node : cursor !== zoom && cursor < tree.n ? cursor : -1;
	useLayoutEffect(() => {
		const f = frameBox.current!, s = scene.current;
		if (marked < 0 || !s || marked >= tree.n) { f.hidden = true; return; }
		const r = boxRect(s, marked);
		f.hidden = r.w <= 0;
		f.style.transform = `translate(${r.x}px, ${r.y}px)`;
		f.style.width = `${Math.max(2, r.w - 1)}px`;
	}, [marked, zoom, width, tree, hover, rows, flip]);

	const hit = (e: MouseEvent): number => {
		const box = wrap.current!.getBoundingClientRect();
		const v = view.current;
		if (!v || !width) return -1;
		const x = e.clientX - box.left, y = e.clientY - box.top;
		const depth = depthOf(shape, Math.floor(y / ROW));
		const node = x > width || depth < skip ? -1 : nodeAt(tree, v.from + x / width * (v.to - v.from), depth);
		return node >= 0 && tree.weight[node] / (v.to - v.from) * width >= 0.5 ? node : -1;
	};

	const onMove = (e: MouseEvent) => {
		const node = hit(e);
		setHover(node < 0 ? null : { tree, node, x: e.clientX, y: e.clientY });
	};

	const menu = (node: number, x: number, y: number) => { setHover(null); onMenu(node, x, y); };
	const onKey = (e: KeyboardEvent) => keys.handle(e, {
		up: () => walk(flip ? largestChild(tree, cursor) : callerOf(tree, cursor, skip)), down: () => walk(flip ? callerOf(tree, cursor, skip) : largestChild(tree, cursor)),
		left: () => walk(neighbour(tree, cursor, false, least)), right: () => walk(neighbour(tree, cursor, true, least)), first: () => walk(Math.min(skip, tree.n - 1)),
		zoom: () => onZoom(cursor), out: () => zoom > skip ? onZoom(0) : false,
		menu: () => {
			const r = scene.current && boxRect(scene.current, cursor), box = wrap.current!.getBoundingClientRect();
			byKey.current = performance.now(); /* the browser also sends a click for it */
			menu(cursor, box.left + (r ? r.x + Math.min(r.w / 2, 40) : 0), box.top + (r ? r.y + ROW : 0));
		},
	});

	/* Pointing at a function in the table greys everything else. */
	useLayoutEffect(() => {
		if (highlight === null) return;
		const own = new Uint8Array(tree.names.length);
		tree.names.forEach((n, i) => { if (n === highlight) own[i] = 1; });
		const s = scene.current, c = canvas.current;
		if (!s || !c) return;
		draw(c.getContext('2d')!, { ...s, match: own }, palette.current);
		return () => paint.current();
	}, [highlight, tree]);

	const path = useMemo(() => pathOf(tree, Math.min(cursor, tree.n - 1)), [tree, cursor]);
	/* the same elements while one only points */
	const stack = useMemo(() => path.map((i) => (
		<span key={i} role="treeitem" id={`flame-node-${i}`} aria-level={tree.depth[i] + 1} aria-selected={i === cursor} aria-expanded={tree.end[i] > i + 1}>{describe(tree, i)}</span>
	)), [path]);
	return (
		<div class="flame-box">
			<div class="flame" ref={wrap} onMouseMove={onMove} onMouseLeave={() => setHover(null)}
				onClick={(e) => { const n = hit(e); if (n >= 0) { onZoom(n); setHover(null); } }}
				onContextMenu={(e) => {
					if (performance.now() - byKey.current < 500) { e.preventDefault(); return; }
					const n = hit(e);
					if (n >= 0) { e.preventDefault(); menu(n, e.clientX, e.clientY); }
				}}>
				<div ref={styled({ height: `${rows * ROW}px` })} class="flame-spacer" />
				<canvas ref={canvas} class={hover ? 'over' : ''} tabIndex={0} role="tree" onKeyDown={onKey}
					aria-label={`${label ?? 'Flame graph'} of ${tree.typeName}. Arrow keys walk the stacks, Enter zooms, Escape zooms out.`}
					aria-activedescendant={`flame-node-${path[path.length - 1]}`}>
					{stack}
				</canvas>
				<div class="flame-frame" ref={frameBox} hidden />
				{hover && hover.tree === tree && <Tooltip tree={tree} node={hover.node} zoom={zoom} x={hover.x} y={hover.y} noSelf={noSelf} per={per} />}
			</div>
			{tall && <div class="minimap-rail"><Minimap scene={() => scene.current} rows={rows} graph={wrap} redraw={small} /></div>}
		</div>
	);
}

function describe(t: FlameTree, i: number): string {
	const share = t.whole ? formatShare(t.total[i] / t.whole) : '';
	return `${t.names[t.frame[i]]}, ${formatValue(t.total[i], t.unit)}, ${share} of total, self ${formatValue(t.self[i], t.unit)}`;
}

/* ---- where arrow keys lead ---- */

const callerOf = (t: FlameTree, at: number, skip: number): number => t.depth[at] > skip ? t.parent[at] : at;

function largestChild(t: FlameTree, at: number): number {
	let best = at;
	for (let c = at + 1; c < t.end[at]; c = t.end[c])
		if (best === at || t.weight[c] > t.weight[best]) best = c;
	return best;
}

/** The next box of the same caller that is wide enough to be seen. */
function neighbour(t: FlameTree, at: number, right: boolean, least: number): number {
	const parent = t.parent[at];
	if (parent < 0) return at;
	let before = at;
	for (let c = right ? t.end[at] : parent + 1; c < (right ? t.end[parent] : at); c = t.end[c])
		if (t.weight[c] >= least) {
			if (right) return c;
			before = c;
		}
	return before;
}
