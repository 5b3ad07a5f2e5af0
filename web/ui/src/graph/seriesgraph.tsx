// SPDX-License-Identifier: Apache-2.0
// The graph of series over time. A click picks a moment (of the line that it is on), a drag picks a range, with Shift the baseline of a
// comparison. By keyboard it is a slider: left and right move through time, up and down through the lines.
import { useSignal, type Signal } from '@preact/signals';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { Labels } from '../base/api';
import { keyTable } from '../base/keys';
import { dark } from '../base/theme';
import { clock, moment, zone } from '../base/time';
import { formatAxis, formatDuration, formatShare, type AxisUnit } from '../base/units';
import type { Selection } from '../query/query';
import type { FunctionLine } from './functionline';
import { GraphTip, totalText, type Totals } from './graphtip';
import { Legend } from './legend';
import { isShown, LARGEST, pickLines, type Line } from './lines';
import { MarkButtons } from './markbuttons';
import type { Mark } from './marks';
import type { Curve, Picture, Span } from './paint';
import { Plot, type Hover } from './plot';
import { dashOf, functionColor, seriesColor } from './palette';
import type { GraphSeries } from './seriesnames';
import { pointAt, type ShareLine } from './shareline';
import { ZoneButton } from './zone';

interface Props {
	times: number[]; series: GraphSeries[]; unit: AxisUnit;
	selection: Selection;
	/** The range of the flame graph if nothing is picked; null if it is not known. */
	span: Span | null;
	onSelect: (s: Selection) => void;
	/** Narrows the query to these labels. */
	onFilter: (labels: Labels) => void;
	/** The labels that all series share: the others distinguish them. */
	common?: Labels;
	/** The user's lasting choices: how many are drawn, and which are hidden. */
	most?: Signal<number>; hidden?: Signal<string[]>; onChoose?: () => void;
	functions?: FunctionLine[]; onCloseFunction?: (name: string) => void;
	marks?: Mark[]; onAround?: (t: number) => void;
	/** The total of the profiles at each moment; null: not known. onRead: the user looks at moments, so it may be requested. */
	totals?: Totals | null; onRead?: () => void;
	baseline?: Span | null; onBaseline?: (from: number, to: number) => void;
	/** Set while somebody reads here: what is shown then has to stay. */
	reading?: Signal<boolean>;
	/** The subject of the graph. */
	label?: string;
}

const keys = keyTable('Graph', {
	left: ['ArrowLeft', 'a moment back'],
	right: ['ArrowRight', 'a moment on'],
	farLeft: ['PageDown', 'ten moments back'],
	farRight: ['PageUp', 'ten moments on'],
	wideLeft: ['Shift+ArrowLeft', 'a range, begun where the cursor is'],
	wideRight: ['Shift+ArrowRight', 'the same to the right'],
	first: ['Home', 'the first moment'],
	last: ['End', 'the last one'],
	up: ['ArrowUp', 'the line before'],
	down: ['ArrowDown', 'the next line'],
	pick: [['Enter', 'Space'], 'the profile of that moment or range'],
	base: ['b', 'compare with that range'],
	leave: ['Escape', 'no cursor'],
}, 3);

/** The keyboard's position: a moment, the other end of a range, a line. */
interface Cursor { idx: number; from: number | null; line: string | null }
const NO_FUNCTIONS: FunctionLine[] = [], NO_MARKS: Mark[] = [];

export function SeriesGraph(props: Props) {
	const { times, series, unit, selection, span, onSelect, onFilter, common = {}, functions = NO_FUNCTIONS, marks = NO_MARKS, totals = null, baseline = null } = props;
	const host = useRef<HTMLDivElement>(null), plot = useRef<Plot | null>(null), colors = useRef(new Map<string, number>());
	const ownMost = useSignal(LARGEST), ownHidden = useSignal<string[]>([]);
	const most = props.most ?? ownMost, chosen = props.hidden ?? ownHidden;
	const [hover, setHover] = useState<Hover | null>(null);
	const [cursor, setCursor] = useState<Cursor | null>(null);
	const [box, setBox] = useState({ left: 0, width: 0 });
	const isDark = dark.value, many = most.value;
	const lines = useMemo(() => pickLines(series, many, colors.current), [series, many]);
	/* Only existing ones of the hidden or isolated lines: the address may be of another query. */
	const hidden = chosen.value.filter((k) => lines.some((l) => l.key === k.replace(/^[+=]/, '')));
	const setHidden = (to: string[]) => { chosen.value = to; props.onChoose?.(); };
	const setMost = (to: number) => { most.value = to; props.onChoose?.(); };
	const drawn = functions.filter((f) => f.line);
	const picture = useMemo((): Picture => ({
		times, unit, behind: { selection, span, baseline, marks },
		curves: [...lines.map((l) => curveOf(l, isDark, lines.length === 1 && !drawn.length, isShown(hidden, l.key))), ...drawn.map((f, i) => functionCurve(f.line!, i, isDark))],
	}), [times, lines, unit, functions, hidden.join('\n'), isDark, zone.value, selection, span, baseline?.from, baseline?.to, marks]);
	const click = (idx: number, near: number) => {
		const line = lines[near];
		const of = line?.labels && series.length > 1 ? differing(line.labels, common) : {};
		onSelect({ at: times[idx], ...Object.keys(of).length ? { of } : {} });
	};
	const latest = useRef({ click, props });
	latest.current = { click, props };

	useLayoutEffect(() => {
		plot.current = new Plot(host.current!, {
			onHover: (h) => { setHover(h); if (h) latest.current.props.onRead?.(); },
			onClick: (idx, near) => latest.current.click(idx, near),
			onDrag: (from, to, shift) => shift && latest.current.props.onBaseline ? latest.current.props.onBaseline(from, to) : latest.current.props.onSelect({ from, to }),
			onBox: (left, width) => setBox((b) => b.left === left && b.width === width ? b : { left, width }),
		});
		return () => plot.current!.destroy();
	}, []);
	useLayoutEffect(() => plot.current!.set(picture), [picture]);

	/* The cursor of the keyboard acts like the pointer, with the same tooltip. */
	const at = cursor && Math.min(cursor.idx, times.length - 1);
	useEffect(() => {
		if (!cursor || at === null) return;
		plot.current!.cursor(at, cursor.from ?? at);
		plot.current!.focus(lines.findIndex((l) => l.key === cursor.line));
		latest.current.props.onRead?.();
	}, [cursor, picture]);
	const [inLegend, setInLegend] = useState(false), read = hover !== null || cursor !== null || inLegend;
	useEffect(() => { if (props.reading) props.reading.value = read; }, [read]);
	useEffect(() => () => { if (props.reading) props.reading.value = false; }, []);

	const leave = () => {
		plot.current!.leave();
		plot.current!.focus(-1);
		setCursor(null);
	};
	const shown = lines.filter((l) => isShown(hidden, l.key));
	const move = (by: number, wide = false) => {
		const c = cursor ?? { idx: startAt(), from: null, line: null };
		const idx = Math.max(0, Math.min(times.length - 1, c.idx + (cursor ? by : 0)));
		setCursor({ ...c, idx, from: wide ? c.from ?? c.idx : null });
	};
	const startAt = () => selection && 'at' in selection ? nearest(times, selection.at) : times.length - 1;
	const line = (by: number) => {
		const c = cursor ?? { idx: startAt(), from: null, line: null }, now = shown.findIndex((l) => l.key === c.line);
		const to = (now + by + 1 + shown.length + 1) % (shown.length + 1) - 1;
		setCursor({ ...c, line: shown[to]?.key ?? null });
	};
	const rangeOf = (c: Cursor | null): Span | null => c && c.from !== null && c.from !== c.idx ? { from: times[Math.min(c.from, c.idx)], to: times[Math.max(c.from, c.idx)] } : null;
	const onKey = (e: KeyboardEvent) => keys.handle(e, {
		left: () => move(-1), right: () => move(1), farLeft: () => move(-10), farRight: () => move(10), wideLeft: () => move(-1, true), wideRight: () => move(1, true),
		first: () => setCursor({ idx: 0, from: null, line: cursor?.line ?? null }), last: () => setCursor({ idx: times.length - 1, from: null, line: cursor?.line ?? null }),
		up: () => line(-1), down: () => line(1),
		pick: () => {
			const r = rangeOf(cursor);
			if (r) { onSelect(r); leave(); } else click(at ?? startAt(), lines.findIndex((l) => l.key === cursor?.line));
		},
		base: () => { const r = rangeOf(cursor); if (!r || !props.onBaseline) return false; props.onBaseline(r.from, r.to); leave(); return true; },
		leave: () => { if (!cursor) return false; leave(); return true; },
	});

	const tip = cursor && at !== null && plot.current ? { idx: at, left: plot.current.left(at), near: lines.findIndex((l) => l.key === cursor.line) } : hover;
	const near = lines[tip?.near ?? -1] ?? null;
	const spoken = cursor && at !== null ? speak() : `${times.length ? `${moment(times[0])} to ${moment(times[times.length - 1])}` : ''}. ${shown.length} ${shown.length === 1 ? 'line' : 'lines'}${marks.length ? `, ${marks.length} marks` : ''}. Arrow keys move through time.`;
	function speak(): string {
		const r = rangeOf(cursor), i = at!, one = lines.find((l) => l.key === cursor!.line);
		const say = (l: typeof lines[number]) => `${l.name} ${l.values[i] === null || l.values[i] === undefined ? 'nothing' : formatAxis(l.values[i]!, unit)}${totals && l.labels ? `, profile ${totalText(totals, l.key, i)}` : ''}`;
		const list = one ? [one] : [...shown].filter((l) => typeof l.values[i] === 'number').sort((a, b) => b.values[i]! - a.values[i]!).slice(0, 3);
		const fs = drawn.map((f) => ({ f, k: pointAt(f.line!, i) })).filter((x) => typeof x.f.line!.share[x.k] === 'number').map((x) => `${x.f.name} ${formatShare(x.f.line!.share[x.k]!)}`);
		return `${r ? `${clock(r.from)} to ${clock(r.to)}, ${formatDuration(r.to - r.from)}` : moment(times[i])}: ${[...list.map(say), ...fs].join('; ') || 'nothing'}`;
	}
	const pickedIdx = selection && 'at' in selection && selection.at >= times[0] && selection.at <= times[times.length - 1] ? nearest(times, selection.at) : null;
	const of = selection && 'at' in selection ? selection.of ?? null : null;

	return (
		<div class="graph">
			<div class="graph-plot">
				<div ref={host} class="graph-host" role="slider" tabIndex={0} aria-label={props.label ?? 'Series over time'} aria-orientation="horizontal" aria-roledescription="graph"
					aria-valuemin={0} aria-valuemax={Math.max(0, times.length - 1)} aria-valuenow={at ?? times.length - 1} aria-valuetext={spoken}
					onKeyDown={onKey} onBlur={() => { if (cursor) leave(); }} onMouseDown={() => { if (cursor) setCursor(null); }} />
				<ZoneButton now={times[times.length - 1] ?? 0} />
				<MarkButtons marks={marks} times={times} box={box} onAround={props.onAround} onSelect={onSelect} />
				{tip && <GraphTip tip={tip} times={times} lines={shown} near={near} unit={unit} totals={totals} functions={drawn} common={common} range={rangeOf(cursor)} room={() => host.current!.clientWidth} />}
			</div>
			<Legend lines={lines} all={series} unit={unit} common={common} most={many} onMost={setMost} hidden={hidden} onHidden={setHidden} onFilter={onFilter} functions={functions} onCloseFunction={props.onCloseFunction}
				at={pickedIdx} times={times} of={of} totals={totals} onFocus={(i) => plot.current!.focus(i)} onRead={setInLegend} />
		</div>
	);
}

const curveOf = (l: Line, isDark: boolean, alone: boolean, shown: boolean): Curve => {
	const color = seriesColor(l.color, isDark);
	return { values: l.values, color, width: 1.6, dash: dashOf(l.color), fill: alone ? `${color}22` : undefined, shown };
};
const functionCurve = ({ share, low, high }: ShareLine, i: number, isDark: boolean): Curve => {
	const color = functionColor(i, isDark);
	return { values: share, color, width: 2, band: { low, high, color: `${color}${isDark ? '38' : '26'}` }, share: true, shown: true };
};

/** The labels that distinguish a series from the others; a missing one is shown as empty. */
export function differing(labels: Labels, common: Labels): Labels {
	return Object.fromEntries(Object.entries(labels).filter(([k]) => k !== '__name__' && !Object.hasOwn(common, k)));
}

function nearest(times: number[], t: number): number {
	let best = 0;
	times.forEach((x, i) => { if (Math.abs(x - t) < Math.abs(times[best] - t)) best = i; });
	return best;
}
