// SPDX-License-Identifier: Apache-2.0
// The graph of series over time. A click picks a moment, a drag picks a range; both say what the flame graph shows.
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import type { Labels } from '../base/api';
import { Filter } from '../base/icons';
import type { Selection } from '../query/query';
import type { GraphSeries } from './seriesnames';
import { cssVar, dark, SANS } from '../base/theme';
import { clock, day, moment, zone } from '../base/time';
import { formatAxis, trimPick, type AxisUnit } from '../base/units';

const SHOWN = 60;
const HEIGHT = 172;
const LIGHT = ['#d9480f', '#1971c2', '#2f9e44', '#ae3ec9', '#e0a100', '#0c8599', '#e03177', '#6741d9', '#66851a', '#a0522d'];
const DARK = ['#ff8a4c', '#5aaef5', '#63cf7c', '#d48bec', '#f2c744', '#4cc4d8', '#ff7fb3', '#a394f5', '#b3d15c', '#d9a57c'];
export const seriesColor = (i: number, isDark: boolean): string => (isDark ? DARK : LIGHT)[i % LIGHT.length];

interface Props {
	times: number[]; series: GraphSeries[]; unit: AxisUnit;
	selection: Selection;
	/** What the flame graph covers when nothing is picked; null if it is not known. */
	span: { from: number; to: number } | null;
	onSelect: (s: Selection) => void;
	onFilter: (labels: Labels) => void;
}

export function SeriesGraph({ times, series, unit, selection, span, onSelect, onFilter }: Props) {
	const host = useRef<HTMLDivElement>(null);
	const tip = useRef<HTMLDivElement>(null);
	const plot = useRef<uPlot | null>(null);
	const latest = useRef({ selection, span, onSelect });
	latest.current = { selection, span, onSelect };
	const [only, setOnly] = useState<string | null>(null);
	const [hover, setHover] = useState<{ idx: number; left: number; top: number; near: number } | null>(null);
	const isDark = dark.value;
	const shown = series.slice(0, SHOWN);
	const key = `${isDark} ${zone.value} ${unit} ${shown.map((s) => s.name).join('\u0001')}`;

	useLayoutEffect(() => {
		const el = host.current!;
		const u = new uPlot(options(el.clientWidth, shown, unit, isDark, latest, setHover), [times, ...shown.map((s) => s.values)] as uPlot.AlignedData, el);
		plot.current = u;
		const observer = new ResizeObserver(() => { if (el.clientWidth !== u.width && el.clientWidth > 0) u.setSize({ width: el.clientWidth, height: HEIGHT }); });
		observer.observe(el);
		return () => { observer.disconnect(); u.destroy(); plot.current = null; };
	}, [key]);
	useEffect(() => { plot.current?.setData([times, ...shown.map((s) => s.values)] as uPlot.AlignedData); }, [times, series]);
	useEffect(() => { plot.current?.redraw(false); }, [selection, span]);
	useEffect(() => {
		const u = plot.current;
		if (!u) return;
		u.batch(() => shown.forEach((s, i) => u.setSeries(i + 1, { show: only === null || s.name === only })));
	}, [only, key]);
	useEffect(() => { if (only !== null && !shown.some((s) => s.name === only)) setOnly(null); }, [key]);
	useLayoutEffect(() => {
		const t = tip.current;
		if (!t || !hover) return;
		const room = host.current!.clientWidth;
		t.style.maxWidth = `${Math.min(420, room)}px`;
		const w = t.offsetWidth;
		t.style.transform = `translate(${hover.left + 14 + w > room ? Math.max(0, hover.left - 14 - w) : hover.left + 14}px, 6px)`;
	});

	const rows = hover ? shown.map((s, i) => ({ s, i, v: s.values[hover.idx] })).filter((r) => r.v !== null && r.v !== undefined && (only === null || r.s.name === only)) : [];
	return (
		<div class="graph">
			<div class="graph-plot">
				<div ref={host} class="graph-host" />
				{hover && rows.length > 0 && (
					<div class="graph-tip" ref={tip}>
						<b>{moment(times[hover.idx])}</b>
						{rows.sort((a, b) => b.v! - a.v!).slice(0, 8).map((r) => (
							<div key={r.i} class={r.i + 1 === hover.near ? 'near' : ''}><Swatch index={r.i} isDark={isDark} /><span>{r.s.name}</span><em>{formatAxis(r.v!, unit)}</em></div>
						))}
						{rows.length > 8 && <small>and {rows.length - 8} more</small>}
					</div>
				)}
			</div>
			<ul class="legend" aria-label="Series">
				{shown.map((s, i) => (
					<li key={s.name} class={only !== null && only !== s.name ? 'off' : ''}
						onMouseEnter={() => plot.current?.setSeries(i + 1, { focus: true })} onMouseLeave={() => plot.current?.setSeries(null as unknown as number, { focus: true })}>
						<button type="button" title={`${Object.entries(s.labels).filter(([k]) => k !== '__name__').map(([k, v]) => `${k}=${v}`).join('\n')}\nClick to show only this series`} aria-pressed={only === s.name} onClick={() => setOnly(only === s.name ? null : s.name)}>
							<Swatch index={i} isDark={isDark} /><span>{s.name}</span><em>{s.last === null ? '–' : formatAxis(s.last, unit)}</em>
						</button>
						{shown.length > 1 && <button type="button" class="ghost tiny" title="Narrow the query to this series" aria-label={`Narrow the query to ${s.name}`} onClick={() => onFilter(s.labels)}><Filter /></button>}
					</li>
				))}
				{series.length > SHOWN && <li class="hint">{series.length - SHOWN} smaller series are not drawn; narrow the selector to see them.</li>}
			</ul>
		</div>
	);
}

function Swatch({ index, isDark }: { index: number; isDark: boolean }) {
	const el = useRef<HTMLElement>(null);
	useLayoutEffect(() => { el.current!.style.background = seriesColor(index, isDark); }, [index, isDark]);
	return <i class="swatch" ref={el} />;
}

function options(width: number, series: GraphSeries[], unit: AxisUnit, isDark: boolean,
	latest: { current: Pick<Props, 'selection' | 'span' | 'onSelect'> }, setHover: (h: { idx: number; left: number; top: number; near: number } | null) => void): uPlot.Options {
	const grid = { stroke: cssVar('--grid'), width: 1 };
	const axis = { stroke: cssVar('--dim'), font: `11px ${SANS}`, grid, ticks: { show: false } };
	let dragged = false;
	return {
		width: Math.max(width, 100), height: HEIGHT, padding: [8, 18, 0, 0],
		legend: { show: false },
		tzDate: (t) => zone.value === 'utc' ? uPlot.tzDate(new Date(t * 1000), 'Etc/UTC') : new Date(t * 1000),
		focus: { alpha: 0.25 },
		scales: { y: { range: (_u, min, max) => [Math.min(0, min ?? 0), (max ?? 0) > 0 ? max * 1.08 : max === min ? 1 : 0] } },
		axes: [
			{ ...axis, size: 24, gap: 4, values: (_u, v, _i, _s, incr) => v.map((t, i) => tickLabel(t, i > 0 ? v[i - 1] : null, incr)) },
			{ ...axis, size: 64, gap: 6, splits: (_u, _i, min, max) => niceSplits(min, max, unit), values: (_u, v) => v.map((x) => trimPick(formatAxis(x, unit))) },
		],
		cursor: {
			points: { one: true, size: 7 }, focus: { prox: 24 },
			drag: { x: true, y: false, setScale: false, dist: 6 },
		},
		series: [{}, ...series.map((s, i): uPlot.Series => ({
			label: s.name, stroke: seriesColor(i, isDark), width: 1.6, points: { show: s.values.filter((v) => v !== null).length < 3, size: 6 },
			fill: series.length === 1 ? `${seriesColor(i, isDark)}22` : undefined, spanGaps: false,
		}))],
		hooks: {
			setCursor: [(u) => {
				const { idx, left, top } = u.cursor;
				setHover(idx === null || idx === undefined || left === undefined || left < 0 ? null
					: { idx, left: left + u.bbox.left / devicePixelRatio, top: top ?? 0, near: u.series.findIndex((s, i) => i > 0 && (s as { _focus?: boolean })._focus === true) });
			}],
			setSelect: [(u) => {
				if (u.select.width < 6) return;
				dragged = true;
				const from = u.posToVal(u.select.left, 'x'), to = u.posToVal(u.select.left + u.select.width, 'x');
				u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
				latest.current.onSelect({ from: Math.round(from), to: Math.round(to) });
			}],
			ready: [(u) => u.over.addEventListener('click', (e) => {
				if (dragged) { dragged = false; return; }
				const t = u.posToVal(e.clientX - u.over.getBoundingClientRect().left, 'x');
				latest.current.onSelect({ at: Math.round(t) });
			}), (u) => u.over.addEventListener('mousedown', () => { dragged = false; })],
			drawClear: [(u) => drawSelection(u, latest.current.selection, latest.current.span)],
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

/** What was picked, as a band or a line behind the series; without a pick, faintly, what the flame graph covers. */
function drawSelection(u: uPlot, sel: Selection, span: { from: number; to: number } | null): void {
	const ctx = u.ctx, { left, top, width, height } = u.bbox;
	const px = (t: number) => Math.max(left, Math.min(left + width, u.valToPos(t, 'x', true)));
	ctx.save();
	if (sel && 'at' in sel) {
		ctx.fillStyle = cssVar('--accent');
		ctx.fillRect(px(sel.at) - devicePixelRatio * 0.75, top, devicePixelRatio * 1.5, height);
	} else if (sel || span) {
		const r = sel ?? span!;
		if ('from' in r) {
			ctx.fillStyle = cssVar(sel ? '--pick' : '--pick-faint');
			ctx.fillRect(px(r.from), top, px(r.to) - px(r.from), height);
			if (sel) {
				ctx.fillStyle = cssVar('--accent');
				ctx.fillRect(px(r.from), top, devicePixelRatio, height);
				ctx.fillRect(px(r.to) - devicePixelRatio, top, devicePixelRatio, height);
			}
		}
	}
	ctx.restore();
}
