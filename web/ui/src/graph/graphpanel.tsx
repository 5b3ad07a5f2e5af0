// SPDX-License-Identifier: Apache-2.0
// The graph of the first page: what it asks the server for, and its panel.
import { signal } from '@preact/signals';
import { useRef, useState } from 'preact/hooks';
import { api, type Labels, type MatrixSeries } from '../base/api';
import { asList, asNumber, bounds, inUrl, query, range, refresh, stepFor, tick, types, writeUrl } from '../base/state';
import type { AxisUnit } from '../base/units';
import { compareAround, comparing, setBaseline } from '../compare/state';
import { graphQuery, selectors, withMatchers, type Selection } from '../query/query';
import { findType } from '../query/typepicker';
import { useMarks, useTotals } from './extras';
import { closeFunction, useFunctionLines } from './functionline';
import { LARGEST, MOST } from './lines';
import { AllZero, NoSeries } from './nothing';
import { SeriesGraph } from './seriesgraph';
import { alignSeries, nameSeries, type GraphSeries } from './seriesnames';

/** plain: the values are of the type that the query names. derived: the graph is not of the query itself, but of the series that it adds up. result:
 * unchanged. */
export interface GraphState {
	expr: string; times: number[]; series: GraphSeries[]; result: MatrixSeries[]; unit: AxisUnit; common: Labels; plain: boolean; derived: boolean; from: number; to: number; step: number;
}

/** The number of drawn lines, and the keys of hidden ones (lines.ts). */
const most = inUrl(['explore'], 'lines', LARGEST, { parse: (s) => { const n = asNumber.parse(s); return n !== null && n >= 1 ? Math.min(MOST, Math.round(n)) : null; }, print: String });
const hidden = inUrl<string[]>(['explore'], 'hide', [], asList);
/** Somebody looks at a moment or at the legend: nothing there may move now. */
export const graphIsRead = signal(false);

export function axisUnit(name: string): AxisUnit {
	const t = findType(types.value, name);
	if (!t) return '';
	const gauge = t.kind === 'gauge';
	if (t.unit === 'nanoseconds') return gauge ? 'seconds' : /^(process_cpu|on_cpu|cpu)[:_]|^cpu/.test(t.name) ? 'cores' : 'seconds/s';
	if (t.unit === 'bytes') return gauge ? 'bytes' : 'bytes/s';
	return gauge ? 'count' : '1/s';
}

const AXIS_NAMES: Record<AxisUnit, string> = {
	cores: 'cores', 'seconds/s': 'seconds per second', bytes: 'bytes', 'bytes/s': 'bytes per second', count: 'count', '1/s': 'per second', seconds: 'seconds', share: 'share', '': '',
};

export async function runGraph(q: string, now: number, signal: AbortSignal): Promise<{ state: GraphState; warnings: string[] }> {
	const b = bounds(range.value, now), step = stepFor(b.to - b.from);
	const to = Math.floor(b.to / step) * step, from = Math.ceil(b.from / step) * step;
	const g = graphQuery(q, (n) => findType(types.value, n)?.kind, Math.max(step, 30));
	const a = await api.range(g.expr, from, to, step, signal);
	const result = a.data;
	const { times, series } = alignSeries(result, from, to, step, g.expr);
	const name = selectors(q)[0]?.name ?? '';
	return {
		state: { expr: g.expr, times, series, result, unit: g.plain ? axisUnit(name) : '', common: nameSeries(result.map((r) => r.metric)).common, plain: g.plain, derived: g.derived, from, to, step },
		warnings: a.warnings,
	};
}

interface Props {
	state: GraphState; title: string;
	/** The query has failed since: what is shown answers an older one. */
	stale: boolean;
	selection: Selection;
	span: { from: number; to: number } | null;
	onSelect: (s: Selection) => void; onRun: (q: string) => void;
}

const sameQuestion = (a: GraphState, b: GraphState) => a.expr === b.expr && a.step === b.step && a.to - a.from === b.to - b.from;

/** The newest answer. While the user reads the graph, or has picked a time, a newer one of the same query waits. */
function useHeld(state: GraphState, selection: Selection): GraphState {
	const shown = useRef({ state, tick: tick.value });
	const waits = 'last' in range.value && sameQuestion(state, shown.current.state) && (graphIsRead.value || (selection !== null && tick.value === shown.current.tick));
	if (!waits) shown.current = { state, tick: tick.value };
	return shown.current.state;
}

export function GraphPanel({ state, title, stale, selection, span, onSelect, onRun }: Props) {
	const g = useHeld(state, selection), q = query.value;
	const [read, setRead] = useState(false);
	const type = findType(types.value, selectors(q)[0]?.name ?? '');
	const totals = useTotals(g, q, g.plain && type && type.kind !== 'gauge' ? type.unit : '', read || (selection !== null && 'at' in selection));
	const marks = useMarks(g, q), functions = useFunctionLines(q, g.times, g.step, selection && 'at' in selection ? selection.of : undefined);
	const side = comparing.value?.base, baseline = side ? 'at' in side ? { from: side.at, to: side.at } : { from: side.from, to: side.to } : null;
	const waits = selection !== null && refresh.value > 0 && 'last' in range.value;
	return (
		<section class={`panel graph-panel ${stale ? 'stale' : ''}`} aria-label="Series over time">
			<header class="panel-head">
				<h2>{title}</h2>
				{AXIS_NAMES[g.unit] && <span class="unit">{AXIS_NAMES[g.unit]}</span>}
				<code class="expr" title={g.expr}>{g.expr}</code>
				{g.derived && <span class="hint" title="The query adds profiles up: its graph is of the series that it adds up">derived from the query</span>}
				<span class="hint">{waits ? 'the time stands still while one is picked' : 'click for a moment, drag for a range, with Shift for the baseline'}</span>
				{selection && 'from' in selection && <button type="button" class="ghost tiny" title="Show only this range in the graph" onClick={() => { range.value = { from: selection.from, to: selection.to }; onSelect(null); }}>Zoom in</button>}
			</header>
			{g.series.length ? (
				<>
					<SeriesGraph times={g.times} series={g.series} unit={g.unit} common={g.common} label={`${title}${AXIS_NAMES[g.unit] ? `, ${AXIS_NAMES[g.unit]}` : ''}`} selection={selection} span={span} onSelect={onSelect}
						onFilter={(labels) => onRun(withMatchers(query.value, labels))} most={most} hidden={hidden} onChoose={() => writeUrl('replace')} functions={functions} onCloseFunction={closeFunction}
						marks={marks} onAround={compareAround} totals={totals} onRead={() => setRead(true)} baseline={baseline} onBaseline={setBaseline} reading={graphIsRead} />
					<AllZero g={g} />
				</>
			) : <NoSeries q={q} g={g} onRun={onRun} />}
		</section>
	);
}
