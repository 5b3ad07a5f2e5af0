// SPDX-License-Identifier: Apache-2.0
// The flame graph as something to use: pointer, keyboard, zoom, and a tree that screen readers can walk. The canvas is
// moved along with what is visible of the graph, so its height has no limit.
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { changeColors } from '../compare/state';
import { calm, dark, SANS } from '../base/theme';
import { formatShare, formatValue } from '../base/units';
import type { ColorBy } from './colors';
import { boxRect, draw, Palette, ROW, type Scene } from './draw';
import { nodeAt, pathOf, visibleDepth, type FlameTree } from './tree';
import { Tooltip } from './tooltip';

export interface FlameGraphProps {
	tree: FlameTree;
	zoom: number;
	onZoom: (node: number) => void;
	onMenu: (node: number, x: number, y: number) => void;
	match: Uint8Array | null;
	colorBy: ColorBy;
	/** A function to point at, hovered in the table. */
	highlight: string | null;
}

const OVERDRAW = 300;
const FONT = `12px ${SANS}`;

export function FlameGraph({ tree, zoom, onZoom, onMenu, match, colorBy, highlight }: FlameGraphProps) {
	const wrap = useRef<HTMLDivElement>(null);
	const canvas = useRef<HTMLCanvasElement>(null);
	const frameBox = useRef<HTMLDivElement>(null);
	const scene = useRef<Scene | null>(null);
	const palette = useRef(new Palette());
	const view = useRef<{ from: number; to: number; tree: FlameTree } | null>(null);
	const paint = useRef<() => void>(() => undefined);
	const [width, setWidth] = useState(0);
	const [hover, setHover] = useState<{ node: number; x: number; y: number } | null>(null);
	const [cursor, setCursor] = useState(0);
	const isDark = dark.value, redGreen = changeColors.value === 'red';

	const span = Math.max(tree.weight[zoom], Number.MIN_VALUE);
	const rows = width ? visibleDepth(tree, zoom, 0.5 * span / width) + 1 : 1;

	useLayoutEffect(() => {
		const observer = new ResizeObserver(() => setWidth(wrap.current!.clientWidth));
		observer.observe(wrap.current!);
		setWidth(wrap.current!.clientWidth);
		return () => observer.disconnect();
	}, []);

	/* Paints what is visible of the wrapper, plus a margin for scrolling. */
	paint.current = () => {
		const c = canvas.current, w = wrap.current;
		if (!c || !w || !width || !view.current) return;
		const box = w.getBoundingClientRect();
		const top = Math.max(0, Math.floor(-box.top) - OVERDRAW);
		const height = Math.max(ROW, Math.min(rows * ROW - top, window.innerHeight + 2 * OVERDRAW));
		const dpr = window.devicePixelRatio || 1;
		if (c.width !== Math.round(width * dpr) || c.height !== Math.round(height * dpr)) {
			c.width = Math.round(width * dpr);
			c.height = Math.round(height * dpr);
			c.style.width = `${width}px`;
			c.style.height = `${height}px`;
		}
		c.style.transform = `translateY(${top}px)`;
		const ctx = c.getContext('2d')!;
		ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
		scene.current = {
			tree, from: view.current.from, to: view.current.to, zoom, width, height, top, colorBy, dark: isDark, redGreen, match, font: FONT,
		};
		draw(ctx, scene.current, palette.current);
	};

	/* A zoom glides there, so that one sees where one goes; new data just appears. */
	useLayoutEffect(() => {
		const to = { from: tree.x[zoom], to: tree.x[zoom] + span, tree };
		const start = view.current;
		if (!start || start.tree !== tree || calm || !width) {
			view.current = to;
			paint.current();
			return;
		}
		let raf = 0;
		const t0 = performance.now();
		const step = (now: number) => {
			const k = Math.min(1, Math.max(0, (now - t0) / 160)), ease = 1 - (1 - k) ** 3;
			view.current = { tree, from: start.from + (to.from - start.from) * ease, to: start.to + (to.to - start.to) * ease };
			paint.current();
			if (k < 1) raf = requestAnimationFrame(step);
		};
		raf = requestAnimationFrame(step);
		return () => cancelAnimationFrame(raf);
	}, [tree, zoom]);
	useLayoutEffect(() => paint.current(), [width, rows, match, colorBy, isDark, redGreen]);
	useEffect(() => {
		const onScroll = () => paint.current();
		window.addEventListener('scroll', onScroll, { passive: true });
		window.addEventListener('resize', onScroll);
		return () => { window.removeEventListener('scroll', onScroll); window.removeEventListener('resize', onScroll); };
	}, []);
	useEffect(() => setCursor(zoom), [zoom, tree]);
	useEffect(() => setHover(null), [tree]);

	/* The outline around the hovered box (or the keyboard's) is an element of its own: moving it repaints nothing. */
	const marked = hover ? hover.node : cursor !== zoom ? cursor : -1;
	useLayoutEffect(() => {
		const f = frameBox.current!, s = scene.current;
		if (marked < 0 || !s || marked >= tree.n) { f.hidden = true; return; }
		const r = boxRect(s, marked);
		f.hidden = r.w <= 0;
		f.style.transform = `translate(${r.x}px, ${r.y}px)`;
		f.style.width = `${Math.max(2, r.w - 1)}px`;
	}, [marked, zoom, width, tree, hover]);

	const hit = (e: MouseEvent): number => {
		const box = wrap.current!.getBoundingClientRect();
		const v = view.current;
		if (!v || !width) return -1;
		const x = e.clientX - box.left, y = e.clientY - box.top;
		const node = nodeAt(tree, v.from + x / width * (v.to - v.from), Math.floor(y / ROW));
		return node >= 0 && tree.weight[node] / (v.to - v.from) * width >= 0.5 ? node : -1;
	};

	const onMove = (e: MouseEvent) => {
		const node = hit(e);
		setHover(node < 0 ? null : { node, x: e.clientX, y: e.clientY });
	};

	const onKey = (e: KeyboardEvent) => {
		const next = keyTarget(tree, cursor, e.key);
		if (next !== undefined) {
			e.preventDefault();
			setCursor(next);
		} else if (e.key === 'Enter' || e.key === ' ') {
			e.preventDefault();
			onZoom(cursor);
		} else if (e.key === 'Escape') {
			e.preventDefault();
			onZoom(0);
		}
	};

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

	const path = pathOf(tree, Math.min(cursor, tree.n - 1));
	return (
		<div class="flame" ref={wrap} onMouseMove={onMove} onMouseLeave={() => setHover(null)}
			onClick={(e) => { const n = hit(e); if (n >= 0) { onZoom(n); setHover(null); } }}
			onContextMenu={(e) => { const n = hit(e); if (n >= 0) { e.preventDefault(); setHover(null); onMenu(n, e.clientX, e.clientY); } }}>
			<Spacer height={rows * ROW} />
			<canvas ref={canvas} class={hover ? 'over' : ''} tabIndex={0} role="tree" onKeyDown={onKey}
				aria-label={`Flame graph of ${tree.typeName}. Arrow keys walk the stacks, Enter zooms, Escape zooms out.`}
				aria-activedescendant={`flame-node-${path[path.length - 1]}`}>
				{path.map((i) => (
					<span key={i} role="treeitem" id={`flame-node-${i}`} aria-level={tree.depth[i] + 1} aria-selected={i === cursor}
						aria-expanded={tree.end[i] > i + 1}>
						{describe(tree, i)}
					</span>
				))}
			</canvas>
			<div class="flame-frame" ref={frameBox} hidden />
			{hover && hover.node < tree.n && <Tooltip tree={tree} node={hover.node} zoom={zoom} x={hover.x} y={hover.y} />}
		</div>
	);
}

/** Gives the wrapper its height without an inline style attribute, which the page's content policy forbids. */
function Spacer({ height }: { height: number }) {
	const el = useRef<HTMLDivElement>(null);
	useLayoutEffect(() => { el.current!.style.height = `${height}px`; }, [height]);
	return <div ref={el} class="flame-spacer" />;
}

function describe(t: FlameTree, i: number): string {
	const share = t.total[0] ? formatShare(t.total[i] / t.total[0]) : '';
	return `${t.names[t.frame[i]]}, ${formatValue(t.total[i], t.unit)}, ${share} of total, self ${formatValue(t.self[i], t.unit)}`;
}

/** Where an arrow key leads; undefined if the key is none of ours. */
function keyTarget(t: FlameTree, at: number, key: string): number | undefined {
	const parent = t.parent[at];
	switch (key) {
	case 'ArrowUp': return Math.max(parent, 0);
	case 'ArrowDown': {
		let best = at;
		for (let c = at + 1; c < t.end[at]; c = t.end[c])
			if (best === at || t.weight[c] > t.weight[best]) best = c;
		return best;
	}
	case 'ArrowRight': return parent >= 0 && t.end[at] < t.end[parent] ? t.end[at] : at;
	case 'ArrowLeft': {
		if (parent < 0) return at;
		let before = at;
		for (let c = parent + 1; c < at; c = t.end[c]) before = c;
		return before;
	}
	case 'Home': return 0;
	default: return undefined;
	}
}
