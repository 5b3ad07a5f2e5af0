// SPDX-License-Identifier: Apache-2.0
// The plot of a graph: what uPlot is told, and what is painted behind its lines.
import uPlot from 'uplot';
import type { Selection } from '../query/query';
import { cssVar, SANS } from '../base/theme';
import { clock, day, zone } from '../base/time';
import { formatAxis, formatShare, trimPick, type AxisUnit } from '../base/units';
import type { Line } from './lines';
import type { Mark } from './marks';
import { dashOf, functionColor, seriesColor } from './palette';

export const HEIGHT = 190;
/** The strip above the lines in which marks stand. */
export const STRIP = 18;

export interface Span { from: number; to: number }
/** What may change without a new plot. */
export interface Behind { selection: Selection; span: Span | null; baseline: Span | null; marks: Mark[] }
export interface Hover { idx: number; left: number; near: number }
export interface Handlers {
	behind: () => Behind;
	onHover: (h: Hover | null) => void;
	onClick: (idx: number, near: number) => void;
	onDrag: (from: number, to: number, shift: boolean) => void;
	onBox: (left: number, width: number) => void;
}

/** Of the plot's series which are the lines (from 1 on), and behind them three for each function: its bounds and its share. */
export const functionAt = (lines: number, i: number): number => 1 + lines + 3 * i + 2;

export function plotOptions(width: number, lines: Line[], functions: number, unit: AxisUnit, isDark: boolean, h: Handlers): uPlot.Options {
	const grid = { stroke: cssVar('--grid'), width: 1 };
	const axis = { stroke: cssVar('--dim'), font: `11px ${SANS}`, grid, ticks: { show: false } };
	const few = (u: uPlot, i: number) => Array.from(u.data[i] as ArrayLike<number | null | undefined>).filter((v) => v !== null && v !== undefined).length < 3;
	const drag = { done: false, shift: false };
	const bound = (s: number) => functions > 0 && s > lines.length && (s - lines.length - 1) % 3 !== 2;
	return {
		width: Math.max(width, 100), height: HEIGHT, padding: [STRIP, functions ? 4 : 18, 0, 0],
		legend: { show: false },
		tzDate: (t) => zone.value === 'utc' ? uPlot.tzDate(new Date(t * 1000), 'Etc/UTC') : new Date(t * 1000),
		focus: { alpha: 0.25 },
		scales: {
			y: { range: (_u, min, max) => [Math.min(0, min ?? 0), (max ?? 0) > 0 ? max * 1.08 : max === min ? 1 : 0] },
			share: { range: (_u, min, max) => [Math.min(0, min ?? 0), Math.max(0.001, (max ?? 1) * 1.08)] },
		},
		axes: [
			{ ...axis, size: 24, gap: 4, values: (_u, v, _i, _s, incr) => v.map((t, i) => tickLabel(t, i > 0 ? v[i - 1] : null, incr)) },
			{ ...axis, size: 64, gap: 6, splits: (_u, _i, min, max) => niceSplits(min, max, unit), values: (_u, v) => v.map((x) => trimPick(formatAxis(x, unit))) },
			...functions ? [{ ...axis, scale: 'share', side: 1 as const, size: 52, gap: 6, grid: { show: false }, splits: (_u: uPlot, _i: number, min: number, max: number) => niceSplits(min, max, ''), values: (_u: uPlot, v: number[]) => v.map((x) => trimPick(formatShare(x))) }] : [],
		],
		cursor: {
			points: { one: true, size: 7 },
			focus: { prox: 24, dist: (_u, s, _i, val, cur) => bound(s) ? Infinity : val - cur },
			drag: { x: true, y: false, setScale: false, dist: 6 },
		},
		series: [{},
			...lines.map((l): uPlot.Series => ({
				label: l.name, stroke: seriesColor(l.color, isDark), width: 1.6, dash: dashOf(l.color), points: { show: few, size: 6 },
				fill: lines.length === 1 && !functions ? `${seriesColor(l.color, isDark)}22` : undefined, spanGaps: false,
			})),
			...Array.from({ length: functions }, (_, i): uPlot.Series[] => [
				{ scale: 'share', label: 'low', points: { show: false } }, { scale: 'share', label: 'high', points: { show: false } },
				{ scale: 'share', label: 'share', stroke: functionColor(i, isDark), width: 2, points: { show: few, size: 6 } },
			]).flat()],
		bands: Array.from({ length: functions }, (_, i) => ({ series: [functionAt(lines.length, i) - 1, functionAt(lines.length, i) - 2] as [number, number], fill: `${functionColor(i, isDark)}${isDark ? '38' : '26'}` })),
		hooks: {
			setCursor: [(u) => {
				const { idx, left } = u.cursor;
				h.onHover(idx === null || idx === undefined || left === undefined || left < 0 ? null
					: { idx, left: left + u.bbox.left / devicePixelRatio, near: u.series.findIndex((s, i) => i > 0 && (s as { _focus?: boolean })._focus === true) });
			}],
			setSelect: [(u) => {
				if (u.select.width < 6) return;
				drag.done = true;
				const from = u.posToVal(u.select.left, 'x'), to = u.posToVal(u.select.left + u.select.width, 'x');
				u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
				h.onDrag(Math.round(from), Math.round(to), drag.shift);
			}],
			ready: [(u) => {
				u.over.addEventListener('click', (e) => {
					if (drag.done) { drag.done = false; return; }
					const idx = u.posToIdx(e.clientX - u.over.getBoundingClientRect().left);
					h.onClick(idx, u.series.findIndex((s, i) => i > 0 && (s as { _focus?: boolean })._focus === true));
				});
				u.over.addEventListener('mousedown', (e) => { drag.done = false; drag.shift = e.shiftKey; u.root.classList.toggle('for-baseline', e.shiftKey); });
			}],
			drawClear: [(u) => drawBehind(u, h.behind())],
			draw: [(u) => h.onBox(u.bbox.left / devicePixelRatio, u.bbox.width / devicePixelRatio)],
		},
	};
}

/** The time of day; where a new day begins, that day. */
function tickLabel(t: number, before: number | null, incr: number): string {
	const d = day(t), time = clock(t);
	if (incr >= 86400 || (before !== null && day(before) !== d)) return d.slice(5);
	return incr < 60 ? time : time.slice(0, 5);
}

/** Grid lines at round values: for bytes, round in powers of two. */
function niceSplits(min: number, max: number, unit: AxisUnit): number[] {
	const span = max - min;
	if (!(span > 0)) return [min];
	const binary = unit === 'bytes' || unit === 'bytes/s';
	const base = binary ? 2 : 10, raw = span / 6;
	let step = base ** Math.floor(Math.log(raw) / Math.log(base) + 1e-9);
	if (binary) { while (span / step > 6) step *= 2; } else step *= raw / step > 5 ? 10 : raw / step > 2 ? 5 : raw / step > 1 ? 2 : 1;
	const out: number[] = [];
	for (let v = Math.ceil(min / step) * step; v <= max + step * 1e-6; v += step) out.push(Math.abs(v) < step * 1e-6 ? 0 : v);
	return out;
}

/** What was picked, as a band or a line behind the series; without a pick, faintly, what the flame graph covers. Then the baseline, and the marks. */
function drawBehind(u: uPlot, { selection: sel, span, baseline, marks }: Behind): void {
	const ctx = u.ctx, { left, top, width, height } = u.bbox, dpr = devicePixelRatio;
	const px = (t: number) => Math.max(left, Math.min(left + width, u.valToPos(t, 'x', true)));
	const band = (r: Span, fill: string, edge?: string) => {
		ctx.fillStyle = cssVar(fill);
		ctx.fillRect(px(r.from), top, px(r.to) - px(r.from), height);
		if (!edge) return;
		ctx.fillStyle = cssVar(edge);
		ctx.fillRect(px(r.from), top, dpr, height);
		ctx.fillRect(px(r.to) - dpr, top, dpr, height);
	};
	ctx.save();
	if (baseline) band(baseline, '--pick-base', '--less');
	if (sel && 'at' in sel) {
		ctx.fillStyle = cssVar('--accent');
		ctx.fillRect(px(sel.at) - dpr * 0.75, top, dpr * 1.5, height);
	} else if (sel) band(sel, '--pick', '--accent');
	else if (span) band(span, '--pick-faint');
	for (const m of marks) {
		ctx.fillStyle = ctx.strokeStyle = cssVar(m.kind === 'alert' ? '--down' : '--faint');
		const x = Math.round(px(m.from));
		if (m.kind === 'alert') ctx.fillRect(x, top - 2 * dpr, Math.max(2 * dpr, px(m.to) - x), 2 * dpr);
		ctx.lineWidth = dpr;
		ctx.setLineDash([2 * dpr, 3 * dpr]);
		ctx.beginPath();
		ctx.moveTo(x + 0.5, top);
		ctx.lineTo(x + 0.5, top + height);
		ctx.stroke();
	}
	ctx.restore();
}
