// SPDX-License-Identifier: Apache-2.0
// All of a flame graph that is taller than the window, small, beside it: where one is, and a way to go elsewhere. For eyes and pointers only;
// the keyboard walks the graph itself.
import { useLayoutEffect, useRef } from 'preact/hooks';
import { drawSmall, Palette, ROW, type Scene } from './draw';

export const MINIMAP = 68;
const TOP = 150; /* what sticks above it */

/** scene: the graph's, drawn in another size here. rows: all of it. graph: the element that it scrolls through. redraw: set to the
 * function that redraws it, which the graph calls after painting. */
export function Minimap({ scene, rows, graph, redraw }: { scene: () => Scene | null; rows: number; graph: { current: HTMLElement | null }; redraw: { current: () => void } }) {
	const canvas = useRef<HTMLCanvasElement>(null), view = useRef<HTMLDivElement>(null), box = useRef<HTMLDivElement>(null);
	const palette = useRef(new Palette());
	const height = Math.max(120, Math.min(innerHeight - TOP - 30, rows * 4)), row = height / rows;

	redraw.current = () => {
		const s = scene(), c = canvas.current, dpr = devicePixelRatio || 1, width = MINIMAP - 8;
		if (!c) return;
		c.width = width * dpr;
		c.height = height * dpr;
		c.style.width = `${width}px`;
		c.style.height = `${height}px`;
		const ctx = c.getContext('2d')!;
		ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
		if (s) drawSmall(ctx, { ...s, width, height, top: 0, rows }, palette.current, row);
	};
	useLayoutEffect(() => { box.current!.style.height = `${height}px`; redraw.current(); }, [height]);
	useLayoutEffect(() => {
		const place = () => {
			const v = view.current, g = graph.current;
			if (!v || !g) return;
			const top = Math.max(0, TOP - g.getBoundingClientRect().top), shown = Math.min(innerHeight - TOP, rows * ROW - top);
			v.style.transform = `translateY(${top / ROW * row}px)`;
			v.style.height = `${Math.max(4, shown / ROW * row)}px`;
		};
		place();
		addEventListener('scroll', place, { passive: true });
		const again = () => { place(); redraw.current(); };
		addEventListener('resize', again);
		return () => { removeEventListener('scroll', place); removeEventListener('resize', again); };
	}, [rows, height]);

	const go = (e: PointerEvent) => {
		const y = (e.clientY - box.current!.getBoundingClientRect().top) / row * ROW;
		scrollTo(0, scrollY + graph.current!.getBoundingClientRect().top + y - (innerHeight + TOP) / 2);
	};
	return (
		<div class="minimap" ref={box} aria-hidden="true" title="All of it: click or drag to go there"
			onPointerDown={(e) => { e.preventDefault(); e.currentTarget.setPointerCapture(e.pointerId); go(e); }}
			onPointerMove={(e) => { if (e.buttons & 1) go(e); }} onClick={(e) => e.stopPropagation()}>
			<canvas ref={canvas} /><div class="minimap-view" ref={view} />
		</div>
	);
}
