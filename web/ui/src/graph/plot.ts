// SPDX-License-Identifier: Apache-2.0
// A plot in the page: the canvas, and the pointer over it. It hovers, clicks, and drags ranges; a cursor can be put by the keyboard, too.
import { HEIGHT, Scene, type Picture } from './paint';

/** left: in pixels from the plot's left end. near: which curve is so near that it is meant; -1: none. */
export interface Hover { idx: number; left: number; near: number }
export interface Handlers {
	onHover: (h: Hover | null) => void;
	onClick: (idx: number, near: number) => void;
	onDrag: (from: number, to: number, shift: boolean) => void;
	onBox: (left: number, width: number) => void;
}

/** Distance of a hit; distance of a drag. */
const NEAR = 24, DRAG = 6;
const NONE: Picture = { times: [], curves: [], unit: '', behind: { selection: null, span: null, baseline: null, marks: [] } };

export class Plot {
	private root = document.createElement('div');
	private canvas = this.add('canvas', this.root);
	private over = this.add('plot-over', this.root);
	private line = this.add('plot-cursor', this.over);
	private dot = this.add('plot-dot', this.over);
	private range = this.add('plot-range', this.over);
	private scene = new Scene(NONE, 1);
	private focused = -1;
	private hover: Hover | null = null;
	/** The pointer's distance from the left end of the lines; the start of a drag; whether the coming click is the end of one. */
	private pointer: { x: number; y: number } | null = null;
	private drag: { x: number; shift: boolean } | null = null;
	private dragged = false;
	private observer: ResizeObserver;

	constructor(private host: HTMLElement, private to: Handlers) {
		const on = (type: 'pointerdown' | 'pointermove' | 'pointerup' | 'pointercancel', f: (e: PointerEvent) => void) => this.over.addEventListener(type, f);
		const gone = () => { if (!this.drag) { this.pointer = null; this.point(); } };
		this.root.className = 'plot';
		host.append(this.root);
		on('pointerdown', (e) => this.begin(e));
		on('pointermove', (e) => this.move(e));
		on('pointerup', () => this.end(true));
		on('pointercancel', () => { this.end(false); gone(); });
		this.over.addEventListener('mouseleave', gone); /* not pointerleave: what a finger tapped on stays */
		this.over.addEventListener('click', () => { if (!this.dragged && this.hover) this.to.onClick(this.hover.idx, this.hover.near); });
		this.observer = new ResizeObserver(() => { if (host.clientWidth !== this.scene.whole) this.again(); });
		addEventListener('resize', this.again);
		this.observer.observe(host);
		this.leave();
	}

	set(p: Picture): void {
		const s = this.scene = new Scene(p, Math.max(100, this.host.clientWidth));
		if (this.focused >= p.curves.length) this.focused = -1;
		this.canvas.style.width = `${s.whole}px`;
		this.canvas.style.height = `${HEIGHT}px`;
		Object.assign(this.over.style, { left: `${s.left}px`, top: `${s.top}px`, width: `${s.width}px`, height: `${s.height}px` });
		s.paint(this.canvas as HTMLCanvasElement, this.focused);
		this.point();
		this.to.onBox(s.left, s.width);
	}

	private again = (): void => { if (this.host.clientWidth > 0) this.set(this.scene.p); };

	destroy(): void {
		this.observer.disconnect();
		removeEventListener('resize', this.again);
		this.root.remove();
	}

	/** The others are faint; -1: none is. */
	focus(curve: number): void {
		if (curve === this.focused) return;
		this.focused = curve;
		this.scene.paint(this.canvas as HTMLCanvasElement, curve);
	}

	/** The cursor of the keyboard, and the range from there to another moment. No callback is called. */
	cursor(idx: number, from: number): void {
		const x = this.left(idx) - this.scene.left;
		this.showLine(x);
		this.showRange(this.left(from) - this.scene.left, x);
	}
	leave(): void {
		this.showLine(null);
		this.showRange(0, 0);
	}
	left(idx: number): number { return this.scene.x(this.scene.p.times[idx]); }

	private add(what: string, to: HTMLElement): HTMLElement {
		const e = document.createElement(what === 'canvas' ? what : 'i');
		e.className = what;
		to.append(e);
		return e;
	}

	private begin(e: PointerEvent): void {
		if (e.button !== 0) return;
		this.move(e);
		this.dragged = false;
		this.drag = { x: this.pointer!.x, shift: e.shiftKey };
		this.root.classList.toggle('for-baseline', e.shiftKey);
		this.over.setPointerCapture(e.pointerId);
	}

	private move(e: PointerEvent): void {
		const box = this.over.getBoundingClientRect(), x = Math.max(0, Math.min(box.width, e.clientX - box.left));
		this.pointer = { x, y: e.clientY - box.top };
		if (this.drag) this.showRange(this.drag.x, Math.abs(x - this.drag.x) < DRAG ? this.drag.x : x);
		this.point();
	}

	private end(kept: boolean): void {
		const d = this.drag, x = this.pointer?.x ?? 0, t = (px: number) => Math.round(this.scene.from + px / this.scene.width * (this.scene.to - this.scene.from));
		this.drag = null;
		if (!d || Math.abs(x - d.x) < DRAG) return;
		this.dragged = true;
		this.showRange(0, 0);
		if (kept) this.to.onDrag(t(Math.min(x, d.x)), t(Math.max(x, d.x)), d.shift);
	}

	/** The moment nearest to the pointer, and the curve. */
	private point(): void {
		const { pointer, scene: s } = this, { times, curves } = s.p;
		let idx = 0, near = -1, best = NEAR;
		if (!pointer || !times.length) return this.tell(null);
		const x = s.left + pointer.x, y = s.top + pointer.y;
		times.forEach((t, i) => { if (Math.abs(s.x(t) - x) < Math.abs(s.x(times[idx]) - x)) idx = i; });
		curves.forEach((c, i) => {
			const away = Math.abs(s.y(valueAt(c.values, idx), c.share) - y);
			if (c.shown && away <= best) { best = away; near = i; }
		});
		this.showLine(pointer.x);
		this.dot.hidden = near < 0;
		if (near >= 0) {
			const c = curves[near];
			this.dot.style.background = c.color;
			this.dot.style.transform = `translate(${s.x(times[idx]) - s.left}px, ${s.y(valueAt(c.values, idx), c.share) - s.top}px)`;
		}
		this.tell({ idx, left: x, near });
	}

	private tell(h: Hover | null): void {
		const was = this.hover;
		if (!h && !was) return;
		if (!h) this.showLine(null);
		if (h?.near !== was?.near) this.focus(h ? h.near : -1);
		this.hover = h;
		if (h?.idx !== was?.idx || h?.left !== was?.left || h?.near !== was?.near) this.to.onHover(h);
	}

	private showLine(x: number | null): void {
		this.line.hidden = x === null;
		this.dot.hidden = true;
		this.line.style.transform = `translateX(${x ?? 0}px)`;
	}
	private showRange(a: number, b: number): void {
		this.range.style.transform = `translateX(${Math.min(a, b)}px)`;
		this.range.style.width = `${Math.abs(a - b)}px`;
	}
}

/** That of the moment; where none was asked for, of the point before or behind that is nearest. */
function valueAt(values: (number | null | undefined)[], idx: number): number {
	for (let by = 0; by < values.length; by++) for (const i of [idx + by, idx - by]) if (values[i] !== undefined) return values[i] ?? NaN;
	return NaN;
}
