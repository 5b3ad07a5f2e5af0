// SPDX-License-Identifier: Apache-2.0
// Paints a tree on a canvas. The canvas is as large as what is seen of the graph, never as the graph: `top` says which
// part. One preorder pass that jumps over every subtree outside of the window or under half a pixel wide, so the cost
// depends on what is visible, not on the size of the profile.
import { noisyChange, type PerSample } from '../compare/noise';
import { changeOf, diffColor, frameColor, shorterNames, type ColorBy, type Fill } from './colors';
import type { FlameTree } from './tree';
import { formatChange, formatShare, formatValue } from '../base/units';

type Ctx = CanvasRenderingContext2D | OffscreenCanvasRenderingContext2D;

export const ROW = 21;
const MIN_PX = 0.5;
const LABEL_PX = 26;
const PAD = 5;

export interface Scene {
	tree: FlameTree;
	/** The window along x, in weight. */
	from: number; to: number;
	/** The final view: boxes above it are context and painted paler. */
	zoom: number;
	width: number; height: number; top: number;
	colorBy: ColorBy; dark: boolean;
	/** For a difference: red and green instead of orange and blue. */
	redGreen: boolean;
	/** Of a difference: what a sample counts on each side, so that noise is grey. null: not known, no change is noise. */
	per?: PerSample | null;
	/** Per frame: matched by the search; null without one. */
	match: Uint8Array | null;
	font: string;
	/** Pixels of the screen in one of the page's. */
	dpr?: number;
	/** The root is the lowest of that many rows, instead of the uppermost. */
	flip?: boolean; rows?: number;
	/** This many rows at the root's end are not shown. */
	skip?: number;
}

/** Which row of the picture boxes of a depth are in, from the top, and the reverse: both are the same sum. */
export const rowOf = (s: Pick<Scene, 'flip' | 'rows' | 'skip'>, depth: number): number =>
	s.flip ? (s.rows ?? 1) - 1 - depth + (s.skip ?? 0) : depth - (s.skip ?? 0);
export const depthOf = (s: Pick<Scene, 'flip' | 'rows' | 'skip'>, row: number): number =>
	s.flip ? (s.rows ?? 1) - 1 - row + (s.skip ?? 0) : row + (s.skip ?? 0);

const MOST_COLORS = 50000;

/** Fills are computed once per frame, not per box and repaint, and those of a refresh are known. */
export class Palette {
	private fills: (Fill | undefined)[] = [];
	private known = new Map<string, { binary: string; file: string; fill: Fill }>();
	private key = '';
	private tree: FlameTree | null = null;
	of(s: Scene, frame: number): Fill {
		const key = `${s.colorBy}${s.dark}`;
		if (key !== this.key || this.known.size > MOST_COLORS) this.known.clear();
		if (key !== this.key || s.tree !== this.tree) { this.fills = []; this.key = key; this.tree = s.tree; }
		return this.fills[frame] ??= this.lookUp(s, s.tree.names[frame], s.tree.binaries[frame], s.tree.files[frame]);
	}
	private lookUp(s: Scene, name: string, binary: string, file: string): Fill {
		const known = this.known.get(name);
		if (known && known.binary === binary && known.file === file) return known.fill;
		const fill = frameColor(name, binary, s.colorBy, s.dark, file);
		this.known.set(name, { binary, file, fill });
		return fill;
	}
}

/* Light and dark: made once, since every box of every frame asks. */
const FADED: Fill[] = [{ fill: '#ebe7e2', text: '#97908a' }, { fill: '#2a2726', text: '#8b8580' }];
const TOTAL: Fill[] = [{ fill: '#d9d2c9', text: '#2b241d' }, { fill: '#4a4440', text: '#f4efe9' }];

/** Whether the change of a box is noise: of its total, or of its self. */
export const noisyBox = (t: FlameTree, i: number, now: Float64Array, base: Float64Array, u: PerSample): boolean =>
	noisyChange({ now: now[i], base: base[i] }, { now: t.whole, base: t.baseWhole }, t.shares === true, u);

function fillOf(s: Scene, p: Palette, i: number): Fill {
	const t = s.tree, f = t.frame[i];
	if (i === 0) return TOTAL[+s.dark];
	if (s.match && !s.match[f] || t.names[f] === '(other)') return FADED[+s.dark];
	const base = t.base ?? t.before;
	if (base) return diffColor(s.per && noisyBox(t, i, t.total, base.total, s.per) ? 0 : changeOf(t.total[i], base.total[i], t.whole, t.baseWhole), s.dark, s.redGreen);
	return p.of(s, f);
}

export function boxRect(s: Scene, i: number): { x: number; y: number; w: number } {
	const k = s.width / (s.to - s.from);
	const x0 = Math.max(0, (s.tree.x[i] - s.from) * k), x1 = Math.min(s.width, (s.tree.x[i] + s.tree.weight[i] - s.from) * k);
	return { x: x0, y: rowOf(s, s.tree.depth[i]) * ROW, w: Math.max(0, x1 - x0) };
}

export function draw(ctx: Ctx, s: Scene, palette: Palette): number {
	const t = s.tree, k = s.width / (s.to - s.from);
	const minWeight = MIN_PX / k;
	const ends = [depthOf(s, Math.floor(s.top / ROW)), depthOf(s, Math.ceil((s.top + s.height) / ROW))];
	const first = Math.max(s.skip ?? 0, Math.min(...ends)), last = Math.max(...ends);
	let boxes = 0, alpha = 1, style = '';
	ctx.clearRect(0, 0, s.width, s.height);
	ctx.font = s.font;
	ctx.globalAlpha = 1;
	ctx.textBaseline = 'middle';
	const labels: number[] = [];
	for (let i = 0; i < t.n;) {
		const x = t.x[i], w = t.weight[i], depth = t.depth[i];
		if (w < minWeight || x >= s.to || x + w <= s.from || depth > last) { i = t.end[i]; continue; }
		if (depth >= first) {
			const x0 = Math.max(0, (x - s.from) * k), x1 = Math.min(s.width, (x + w - s.from) * k);
			const px = x1 - x0;
			const { fill } = fillOf(s, palette, i), seen = depth < t.depth[s.zoom] ? 0.62 : 1;
			if (seen !== alpha) ctx.globalAlpha = alpha = seen;
			if (fill !== style) ctx.fillStyle = style = fill;
			/* a gap to the right keeps neighbours apart, unless that would eat the box */
			ctx.fillRect(x0, rowOf(s, depth) * ROW - s.top, px > 3 ? px - 1 : Math.max(px, 0.6), ROW - 1);
			if (px >= LABEL_PX) labels.push(i, x0, px);
			boxes++;
		}
		i++;
	}
	for (let j = 0; j < labels.length; j += 3) drawLabel(ctx, s, palette, labels[j], labels[j + 1], labels[j + 2]);
	ctx.globalAlpha = 1;
	return boxes;
}

/** The same picture, all rows of it, small: boxes without labels, so high. */
export function drawSmall(ctx: Ctx, s: Scene, palette: Palette, row: number): void {
	const t = s.tree, k = s.width / (s.to - s.from);
	ctx.clearRect(0, 0, s.width, s.height);
	for (let i = 0; i < t.n;) {
		const x = t.x[i], w = t.weight[i];
		if (w * k < MIN_PX || x >= s.to || x + w <= s.from) { i = t.end[i]; continue; }
		if (t.depth[i] >= (s.skip ?? 0)) {
			const x0 = Math.max(0, (x - s.from) * k);
			ctx.fillStyle = fillOf(s, palette, i).fill;
			ctx.fillRect(x0, rowOf(s, t.depth[i]) * row, Math.min(s.width, (x + w - s.from) * k) - x0, row > 2 ? row - 0.5 : row);
		}
		i++;
	}
}

const widths = new Map<string, number>();
function measure(ctx: Ctx, text: string): number {
	let w = widths.get(text);
	if (w === undefined) {
		if (widths.size > 20000) widths.clear();
		w = ctx.measureText(text).width;
		widths.set(text, w);
	}
	return w;
}

/** The name, and then its share of the whole (in a difference, its change), if there is room for both. */
function drawLabel(ctx: Ctx, s: Scene, p: Palette, i: number, x: number, px: number): void {
	const t = s.tree, room = px - 2 * PAD;
	const y = rowOf(s, t.depth[i]) * ROW - s.top + (ROW - 1) / 2 + 0.5;
	const share = t.base ? formatChange(changeOf(t.total[i], t.base.total[i], t.whole, t.baseWhole)) : t.whole ? formatShare(t.total[i] / t.whole) : '';
	const name = i === 0 ? t.shares ? 'total' : `total  ${formatValue(t.total[0], t.unit)}` : t.names[t.frame[i]];
	ctx.globalAlpha = t.depth[i] < t.depth[s.zoom] ? 0.75 : 1;
	ctx.fillStyle = fillOf(s, p, i).text;
	const full = measure(ctx, name);
	if (full <= room) {
		ctx.fillText(name, x + PAD, y);
		if (i > 0 && share && full + measure(ctx, share) + 10 <= room) {
			ctx.globalAlpha *= 0.6;
			ctx.fillText(share, x + PAD + full + 8, y);
		}
		return;
	}
	const short = shorten(ctx, name, room);
	if (short) ctx.fillText(short, x + PAD, y);
}

/** The longest form of a name that fits: all of it, without the import path, without the package, or the last of these cut off. The
 * end of a name tells more than its beginning. */
function shorten(ctx: Ctx, name: string, room: number): string {
	for (const part of shorterNames(name)) {
		if (measure(ctx, part) <= room) return part;
		name = part;
	}
	/* letter by letter, since there is another room in every frame of a zoom: what kerning takes is less than the padding */
	let n = 0, left = room - measure(ctx, '…');
	while (n < name.length && (left -= measure(ctx, name[n])) >= 0) n++;
	return n > 3 ? `${name.slice(0, n)}…` : '';
}
