// SPDX-License-Identifier: Apache-2.0
// Paints lines over time on a canvas: what was picked behind them, the grid, the lines. Lengths are pixels of the style sheet.
import { cssVar, SANS } from '../base/theme';
import { formatAxis, formatShare, trimPick, type AxisUnit } from '../base/units';
import type { Selection } from '../query/query';
import { timeTicks, valueTicks } from './axes';
import type { Mark } from './marks';

export const HEIGHT = 190;
/** The strip above the lines in which marks stand. */
const STRIP = 18;
/** Room for words: of values, of times, of shares; without shares a bit, for the last time. */
const LEFT = 64, BELOW = 24, SHARES = 56, RIGHT = 18;
/** The distance between the texts of two times, at least. */
const APART = 54;

export interface Span { from: number; to: number }
/** The background behind the lines. */
export interface Behind { selection: Selection; span: Span | null; baseline: Span | null; marks: Mark[] }
/** null: nothing then, the line has a gap. undefined: nothing was asked for, the line goes on. */
export type Values = (number | null | undefined)[];
/** band: the bounds around it. share: of the scale of shares, at the right. */
export interface Curve { values: Values; color: string; width: number; dash?: number[]; fill?: string; band?: { low: Values; high: Values; color: string }; share?: boolean; shown: boolean }
export interface Picture { times: number[]; curves: Curve[]; unit: AxisUnit; behind: Behind }

interface Shape { line: Path2D; area: Path2D | null; dots: Path2D }

/** The layout of a picture in a window of that width. */
export class Scene {
	readonly left = LEFT;
	readonly top = STRIP;
	readonly width: number;
	readonly height = HEIGHT - STRIP - BELOW;
	readonly from: number;
	readonly to: number;
	private ends: [number, number][];
	private shapes: (Shape | null)[];
	private shares: boolean;

	constructor(readonly p: Picture, readonly whole: number) {
		const last = p.times[p.times.length - 1];
		this.from = p.times[0] ?? 0;
		this.to = last > this.from ? last : this.from + 86400;
		this.shares = p.curves.some((c) => c.share);
		this.width = Math.max(1, whole - LEFT - (this.shares ? SHARES : RIGHT));
		const [a, z] = ends(p.curves.filter((c) => !c.share && c.shown).map((c) => c.values)), [low, high] = ends(p.curves.flatMap((c) => c.share ? [c.values, c.band!.low, c.band!.high] : []));
		this.ends = [[a, z > 0 ? z * 1.08 : z === a ? 1 : 0], [low, Math.max(0.001, high * 1.08)]];
		this.shapes = p.curves.map((c) => c.shown ? this.shape(c) : null);

		/** From 0, or from what is below it. */
		function ends(all: Values[]): [number, number] {
			let min = 0, max = -Infinity;
			for (const values of all) for (const v of values) if (Number.isFinite(v)) { min = Math.min(min, v!); max = Math.max(max, v!); }
			return [min, Math.max(max, min)];
		}
	}

	x(t: number): number { return this.left + (t - this.from) / (this.to - this.from) * this.width; }
	y(v: number, share?: boolean): number {
		const [min, max] = this.ends[share ? 1 : 0];
		return this.top + (1 - (v - min) / (max - min)) * this.height;
	}

	private shape(c: Curve): Shape {
		const { times } = this.p, line = new Path2D(), dots = new Path2D();
		const at = (values: Values, i: number): [number, number] => [this.x(times[i]), this.y(values[i]!, c.share)];
		const few = c.values.filter((v) => Number.isFinite(v)).length < 3;
		for (const run of runs(c.values)) {
			run.forEach((i, k) => {
				const [x, y] = at(c.values, i);
				if (k) line.lineTo(x, y); else line.moveTo(run.length > 1 ? x : x - 1, y);
				if (run.length === 1) line.lineTo(x + 1, y);
				if (few) { dots.moveTo(x, y); dots.arc(x, y, 3, 0, 7); }
			});
		}
		if (!c.fill && !c.band) return { line, area: null, dots };
		const area = new Path2D(), { low, high } = c.band ?? { low: c.values.map(() => 0), high: c.values };
		for (const run of runs(high)) {
			run.forEach((i, k) => { if (k) area.lineTo(...at(high, i)); else area.moveTo(...at(high, i)); });
			run.reverse().forEach((i) => area.lineTo(...at(low, i)));
			area.closePath();
		}
		return { line, area, dots };
	}

	/** focus: of a curve, the others are faint then; -1: none. */
	paint(canvas: HTMLCanvasElement, focus: number): void {
		const k = devicePixelRatio, ctx = canvas.getContext('2d')!;
		canvas.width = Math.round(this.whole * k);
		canvas.height = Math.round(HEIGHT * k);
		ctx.scale(k, k);
		this.behind(ctx);
		this.axes(ctx);
		ctx.lineJoin = 'round';
		this.p.curves.forEach((c, i) => {
			const s = this.shapes[i];
			if (!s) return;
			ctx.globalAlpha = focus < 0 || focus === i ? 1 : 0.25;
			ctx.fillStyle = c.band?.color ?? c.fill ?? '';
			if (s.area) ctx.fill(s.area);
			ctx.fillStyle = ctx.strokeStyle = c.color;
			ctx.lineWidth = c.width;
			ctx.setLineDash(c.dash ?? []);
			ctx.stroke(s.line);
			ctx.fill(s.dots);
		});
	}

	private axes(ctx: CanvasRenderingContext2D): void {
		const { left, top, width, height } = this, bottom = top + height, grid = cssVar('--grid'), dim = cssVar('--dim');
		const rule = (x: number, y: number, w: number, h: number) => { ctx.fillStyle = grid; ctx.fillRect(Math.round(x), Math.round(y), w, h); };
		const word = (s: string, x: number, y: number, align: CanvasTextAlign, base: CanvasTextBaseline) => {
			ctx.fillStyle = dim;
			ctx.textAlign = align;
			ctx.textBaseline = base;
			ctx.fillText(s, x, y);
		};
		ctx.font = `11px ${SANS}`;
		for (const { t, text } of timeTicks(this.from, this.to, width / APART)) {
			rule(this.x(t), top, 1, height);
			word(text, Math.min(this.x(t), this.whole - ctx.measureText(text).width / 2), bottom + 5, 'center', 'top');
		}
		for (const v of valueTicks(...this.ends[0], this.p.unit)) {
			rule(left, this.y(v), width, 1);
			word(trimPick(formatAxis(v, this.p.unit)), left - 6, this.y(v), 'right', 'middle');
		}
		if (this.shares) for (const v of valueTicks(...this.ends[1], '')) word(trimPick(formatShare(v)), left + width + 6, this.y(v, true), 'left', 'middle');
	}

	/** The picked range, as a band or a line; without a pick, faintly, the range of the flame graph. Then the baseline, and the
	 * marks. */
	private behind(ctx: CanvasRenderingContext2D): void {
		const { left, top, width, height, p: { behind: { selection: sel, span, baseline, marks } } } = this;
		const px = (t: number) => Math.max(left, Math.min(left + width, this.x(t)));
		const fill = (color: string, x: number, w: number) => { ctx.fillStyle = cssVar(color); ctx.fillRect(x, top, w, height); };
		const band = (r: Span, color: string, edge?: string) => {
			fill(color, px(r.from), px(r.to) - px(r.from));
			if (edge) for (const x of [px(r.from), px(r.to) - 1]) fill(edge, x, 1);
		};
		if (baseline) band(baseline, '--pick-base', '--less');
		if (sel && 'at' in sel) fill('--accent', px(sel.at) - 0.75, 1.5);
		else if (sel) band(sel, '--pick', '--accent');
		else if (span) band(span, '--pick-faint');
		ctx.setLineDash([2, 3]);
		for (const m of marks) {
			const x = Math.round(px(m.from));
			ctx.fillStyle = ctx.strokeStyle = cssVar(m.kind === 'alert' ? '--down' : '--faint');
			if (m.kind === 'alert') ctx.fillRect(x, top - 2, Math.max(2, px(m.to) - x), 2);
			ctx.beginPath();
			ctx.moveTo(x + 0.5, top);
			ctx.lineTo(x + 0.5, top + height);
			ctx.stroke();
		}
	}
}

/** The points of each part of a line without a gap, by index. */
function runs(values: Values): number[][] {
	const out: number[][] = [];
	let run: number[] | null = null;
	values.forEach((v, i) => {
		if (v === undefined) return;
		if (!Number.isFinite(v)) run = null;
		else if (run) run.push(i);
		else out.push(run = [i]);
	});
	return out;
}
