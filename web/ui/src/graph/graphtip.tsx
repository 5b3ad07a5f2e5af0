// SPDX-License-Identifier: Apache-2.0
// What a moment of the graph holds: value, total of its profile, labels.
import { useLayoutEffect, useRef } from 'preact/hooks';
import type { Labels } from '../base/api';
import { dark } from '../base/theme';
import { clock, moment } from '../base/time';
import { formatAxis, formatDuration, formatShare, formatValue, type AxisUnit } from '../base/units';
import type { FunctionLine } from './functionline';
import type { Line } from './lines';
import { functionColor, LineSwatch, Swatch } from './palette';
import { Cut } from '../base/ui';
import type { Span } from './paint';
import type { Hover } from './plot';
import { pointAt } from './shareline';

/** The values of the profiles at each moment: for each line by its key, and all together. unit: their native one. */
export interface Totals { unit: string; of: Map<string, (number | null)[]>; all: (number | null)[] }

export const totalText = (t: Totals, key: string | null, i: number): string => {
	const v = key === null ? t.all[i] : t.of.get(key)?.[i];
	return v === null || v === undefined ? '–' : formatValue(v, t.unit);
};

const ROWS = 8, LABELS = 6;

export function GraphTip({ tip, times, lines, near, unit, totals, functions, common, range, room }: {
	tip: Hover; times: number[]; lines: Line[]; near: Line | null; unit: AxisUnit; totals: Totals | null; functions: FunctionLine[]; common: Labels; range: Span | null; room: () => number;
}) {
	const el = useRef<HTMLDivElement>(null), i = tip.idx;
	useLayoutEffect(() => {
		const t = el.current!, width = room();
		t.style.maxWidth = `${Math.min(460, width)}px`;
		const w = t.offsetWidth;
		t.style.transform = `translate(${tip.left + 14 + w > width ? Math.max(0, tip.left - 14 - w) : tip.left + 14}px, 6px)`;
	});
	const rows = lines.filter((l) => typeof l.values[i] === 'number').sort((a, b) => b.values[i]! - a.values[i]!);
	const top = rows.slice(0, ROWS), labels = near?.labels ? Object.entries(near.labels).filter(([k]) => k !== '__name__' && !Object.hasOwn(common, k)) : [];
	if (near && rows.includes(near) && !top.includes(near)) top[ROWS - 1] = near;
	const shares = functions.map((f, k) => ({ f, k, at: pointAt(f.line!, i) })).filter((x) => typeof x.f.line!.share[x.at] === 'number');
	return (
		<div class="graph-tip" ref={el}>
			<div class="tip-head"><b>{range ? `${clock(range.from)} – ${clock(range.to)} (${formatDuration(range.to - range.from)})` : moment(times[i])}</b>{totals && <span>profile</span>}</div>
			{top.map((l) => (
				<div key={l.key} class={l === near ? 'near' : ''}><LineSwatch index={l.color} /><Cut text={l.name} /><em>{formatAxis(l.values[i]!, unit)}</em>{totals && <em class="total">{l.labels ? totalText(totals, l.key, i) : ''}</em>}</div>
			))}
			{rows.length > top.length && <small>and {rows.length - top.length} more</small>}
			{totals && rows.length > 1 && <div class="sum-row"><span>all profiles then</span><em /><em class="total">{totalText(totals, null, i)}</em></div>}
			{!rows.length && <small>nothing at this moment</small>}
			{shares.map(({ f, k, at }) => (
				<div key={f.name}><Swatch color={functionColor(k, dark.value)} /><span>{f.name}</span><em>{formatShare(f.line!.share[at]!)}{typeof f.line!.low[at] === 'number' && ` (${formatShare(f.line!.low[at]!)} – ${formatShare(f.line!.high[at]!)})`}</em></div>
			))}
			{labels.length > 0 && <p class="tip-labels">{labels.slice(0, LABELS).map(([k, v]) => <span key={k}>{k}=<b>{v}</b></span>)}{labels.length > LABELS && <span>and {labels.length - LABELS} more</span>}</p>}
		</div>
	);
}
