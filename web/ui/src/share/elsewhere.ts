// SPDX-License-Identifier: Apache-2.0
// A profile taken elsewhere: as a picture, as text, and the commands that ask the server for it.
import { exportUrl } from '../base/api';
import { SANS } from '../base/theme';
import { formatValue } from '../base/units';
import type { PerSample } from '../compare/noise';
import type { ColorBy } from '../flame/colors';
import { draw, Palette, ROW } from '../flame/draw';
import { visibleDepth, type FlameTree } from '../flame/tree';

/** A text as one word of a shell of POSIX. */
export const shellWord = (s: string): string => `'${s.replace(/'/g, `'\\''`)}'`;

export const pprofCommand = (url: string): string => `go tool pprof ${shellWord(url)}`;
/** The largest functions of it, without a browser. */
export const toolCommand = (server: string, expr: string, time: number): string =>
	`pyrtool query instant --time=${time.toFixed(3)} ${shellWord(server)} ${shellWord(`topk(20, self(${expr}))`)}`;

export const pprofUrl = (expr: string, time: number): string => exportUrl(expr, time, 'pprof');

export function fileName(tree: FlameTree, time: number): string {
	return `${tree.typeName.replace(/\W+/g, '_') || 'profile'}-${Math.round(time)}`;
}

export function save(name: string, what: Blob): void {
	const a = document.createElement('a');
	a.href = URL.createObjectURL(what);
	a.download = name;
	a.click();
	setTimeout(() => URL.revokeObjectURL(a.href), 10000);
}

const WIDTH = 1600, MOST = 6000, MARGIN = 16, TITLE = 44;
export interface Look { colorBy: ColorBy; dark: boolean; redGreen: boolean; match: Uint8Array | null; per?: PerSample | null; flip?: boolean }

/** A flame graph as PNG, of one size on every screen; below that node, with its callers. */
export async function pictureOf(tree: FlameTree, zoom: number, title: string, look: Look): Promise<Blob> {
	const width = WIDTH - 2 * MARGIN, span = Math.max(tree.weight[zoom], Number.MIN_VALUE);
	const rows = visibleDepth(tree, zoom, 0.5 * span / width) + 1, height = Math.min(rows * ROW, MOST);
	const page = document.createElement('canvas'), graph = document.createElement('canvas');
	graph.width = width; graph.height = height;
	page.width = WIDTH; page.height = height + TITLE + MARGIN;
	draw(graph.getContext('2d')!, { tree, from: tree.x[zoom], to: tree.x[zoom] + span, zoom, width, height, top: look.flip ? rows * ROW - height : 0, rows, font: `12px ${SANS}`, ...look }, new Palette());
	const ctx = page.getContext('2d')!;
	ctx.fillStyle = look.dark ? '#1c1a18' : '#fff';
	ctx.fillRect(0, 0, page.width, page.height);
	ctx.fillStyle = look.dark ? '#ece6e0' : '#2a231d';
	ctx.font = `13px ${SANS}`;
	ctx.textBaseline = 'middle';
	ctx.fillText(`${title}  ·  ${formatValue(tree.total[zoom], tree.unit)}`, MARGIN, TITLE / 2, width);
	ctx.drawImage(graph, MARGIN, TITLE);
	return new Promise((done, failed) => { page.toBlob((b) => b ? done(b) : failed(new Error('this browser could not make a picture')), 'image/png'); });
}

/** "main;work 123", a line per stack. */
export function foldedOf(t: FlameTree): string {
	const path: string[] = [], out: string[] = [];
	for (let i = 1; i < t.n; i++) {
		path.length = t.depth[i] - 1;
		path.push(t.names[t.frame[i]].replace(/[;\n\r]/g, ' '));
		if (t.self[i]) out.push(`${path.join(';')} ${Math.round(t.self[i])}\n`);
	}
	return out.join('');
}
