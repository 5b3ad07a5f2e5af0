// SPDX-License-Identifier: Apache-2.0
// The graph of the first page: what it asks the server for, and its panel.
import { api, type Labels } from '../base/api';
import { bounds, range, stepFor, types } from '../base/state';
import type { AxisUnit } from '../base/units';
import { graphQuery, selectors, withMatchers, type Selection } from '../query/query';
import { query } from '../base/state';
import { findType } from '../query/typepicker';
import { NoSeries } from './nothing';
import { SeriesGraph } from './seriesgraph';
import { alignSeries, nameSeries, type GraphSeries } from './seriesnames';

export interface GraphState { expr: string; times: number[]; series: GraphSeries[]; unit: AxisUnit; common: Labels; plain: boolean; derived: boolean; from: number; to: number }

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

function differing(labels: Labels, common: Labels): Labels {
	return Object.fromEntries(Object.entries(labels).filter(([k]) => k !== '__name__' && !(k in common)));
}

export async function runGraph(q: string, now: number, signal: AbortSignal): Promise<{ state: GraphState; warnings: string[] }> {
	const b = bounds(range.value, now), step = stepFor(b.to - b.from);
	const to = Math.floor(b.to / step) * step, from = Math.ceil(b.from / step) * step;
	const g = graphQuery(q, (n) => findType(types.value, n)?.kind, Math.max(step, 30));
	const a = await api.range(g.expr, from, to, step, signal);
	const result = a.data.resultType === 'matrix' ? a.data.result : [];
	const { times, series } = alignSeries(result, from, to, step);
	const name = selectors(q)[0]?.name ?? '';
	return {
		state: { expr: g.expr, times, series, unit: g.plain ? axisUnit(name) : '', common: nameSeries(result.map((r) => r.metric)).common, plain: g.plain, derived: g.derived, from, to },
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

export function GraphPanel({ state: g, title, stale, selection, span, onSelect, onRun }: Props) {
	return (
		<section class={`panel graph-panel ${stale ? 'stale' : ''}`} aria-label="Series over time">
			<header class="panel-head">
				<h2>{title}</h2>
				{AXIS_NAMES[g.unit] && <span class="unit">{AXIS_NAMES[g.unit]}</span>}
				<code class="expr" title={g.expr}>{g.expr}</code>
				{g.derived && <span class="hint" title="The query adds profiles up: its graph is of the series that it adds up">derived from the query</span>}
				<span class="hint">click for a moment, drag for a range</span>
			</header>
			{g.series.length ? (
				<SeriesGraph times={g.times} series={g.series} unit={g.unit} selection={selection} span={span} onSelect={onSelect}
					onFilter={(labels) => onRun(withMatchers(query.value, differing(labels, g.common)))} />
			) : <NoSeries q={query.value} from={g.from} to={g.to} onRun={onRun} />}
		</section>
	);
}
