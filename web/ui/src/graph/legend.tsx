// SPDX-License-Identifier: Apache-2.0
// The names of a graph's lines with their values, latest or at the picked moment, and the labels that they stand for, each a click away
// from the query.
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Labels } from '../base/api';
import { Close, Eye, Filter, Tag } from '../base/icons';
import { dark } from '../base/theme';
import { clock, moment } from '../base/time';
import { Chip, Cut } from '../base/ui';
import { formatAxis, formatShare, type AxisUnit } from '../base/units';
import type { FunctionLine } from './functionline';
import { totalText, type Totals } from './graphtip';
import { isShown, LARGEST, MOST, REST, toggleHidden, toggleOnly, type Line } from './lines';
import { functionColor, LineSwatch, Swatch } from './palette';
import type { GraphSeries } from './seriesnames';
import { pointAt, Z } from './shareline';

const SHARED = 3;

interface Props {
	lines: Line[]; all: GraphSeries[]; unit: AxisUnit; common: Labels;
	most: number; onMost: (n: number) => void; hidden: string[]; onHidden: (keys: string[]) => void; onFilter: (labels: Labels) => void;
	functions: FunctionLine[]; onCloseFunction?: (name: string) => void;
	/** The picked moment, and of which series; null: none. */
	at: number | null; times: number[]; of: Labels | null; totals: Totals | null;
	/** Makes all but that line of the plot faint; null: none. */
	/** Index among the lines, and after them the functions; -1: none. */
	onFocus: (line: number) => void;
	/** Whether somebody reads here. */
	onRead: (on: boolean) => void;
}

export function Legend({ lines, all, unit, common, most, onMost, hidden, onHidden, onFilter, functions, onCloseFunction, at, times, of, totals, onFocus, onRead: read }: Props) {
	const [open, setOpen] = useState<string | null>(null);
	const body = useRef<HTMLUListElement>(null);
	const picked = of && (lines.find((l) => l.labels && Object.entries(of).every(([k, v]) => (l.labels![k] ?? '') === v))?.key ?? null);
	/* A series that was picked on the graph shows its labels: from there they are one click away from the query. */
	useEffect(() => {
		if (!picked) return;
		setOpen(picked);
		requestAnimationFrame(() => {
			const list = body.current, row = list?.querySelector<HTMLElement>('.picked-line');
			if (list && row) list.scrollTop = Math.max(0, row.offsetTop - list.offsetTop - 4);
		});
	}, [picked, at]);
	const labels = (l: Labels) => Object.entries(l).filter(([k]) => k !== '__name__' && !Object.hasOwn(common, k));
	const value = (l: Line) => at === null ? l.last : l.values[at] ?? null;
	const rest = lines.find((l) => l.key === REST), over = (l: Line) => at === null && l.ended !== undefined;
	const share = (f: FunctionLine): string => {
		const v = f.line!, k = at === null ? lastOf(v.share) : pointAt(v, at), p = v.share[k], low = v.low[k], high = v.high[k];
		return typeof p !== 'number' ? '–' : formatShare(p) + (typeof low === 'number' && typeof high === 'number' ? ` ±${((high - low) * 50).toPrecision(2)}` : '');
	};
	return (
		<div class="legend" onMouseEnter={() => read(true)} onMouseLeave={() => { read(false); onFocus(-1); }} onFocusIn={() => read(true)} onFocusOut={() => read(false)}>
			<Shared common={common} onFilter={onFilter} />
			{at !== null && <p class="legend-when">at {clock(times[at])}{totals && <em>all profiles then {totalText(totals, null, at)}</em>}</p>}
			{rest && <p class="legend-when">the {lines.length - 1} largest of {all.length.toLocaleString('en-US')}{!isShown(hidden, REST) && <em>others are not drawn</em>}</p>}
			<ul aria-label="Series" ref={body}>
				{functions.map((f, i) => (
					<li key={`ƒ ${f.name}`} class="function-line" onMouseEnter={() => onFocus(lines.length + i)}>
						<span class="line-main" title={f.line ? `${f.name}\n${f.line.expr}\nEvery ${f.line.step} s. The band is ${Z} standard errors wide to either side.` : f.error}>
							<Swatch color={functionColor(i, dark.value)} /><Cut text={f.name} /><em>{f.line ? share(f) : f.error ? 'failed' : '…'}</em>
						</span>
						{onCloseFunction && <button type="button" class="ghost tiny always" title="Close" aria-label={`Close the graph of ${f.name}`} onClick={() => onCloseFunction(f.name)}><Close /></button>}
						{f.error && !f.line && <p class="error-text">{f.error}</p>}
					</li>
				))}
				{lines.map((l, i) => {
					const v = value(l), off = !isShown(hidden, l.key), own = l.labels ? labels(l.labels) : [];
					return (
						<li key={i} class={`${off && l !== rest ? 'off' : ''} ${l.key === picked ? 'picked-line' : ''}`} onMouseEnter={() => onFocus(off ? -1 : i)}>
							<button type="button" class="line-main" aria-pressed={hidden.includes(`+${l.key}`)} title={[l.name, ...own.map(([k, x]) => `${k}=${x}`), 'Click to show only this line'].join('\n')} onClick={() => onHidden(toggleOnly(hidden, l.key))}>
								<LineSwatch index={l.color} /><Cut text={l.name} />
							</button>
							{lines.length > 1 && <button type="button" class="ghost tiny" aria-pressed={off} title={off ? 'Show this line' : 'Hide this line'} aria-label={`Hide ${l.name}`} onClick={() => onHidden(toggleHidden(hidden, l.key))}><Eye off={off} /></button>}
							{own.length > 0 && all.length > 1 && <button type="button" class="ghost tiny" title="Narrow the query to this series" aria-label={`Narrow the query to ${l.name}`} onClick={() => onFilter(Object.fromEntries(own))}><Filter /></button>}
							{own.length > 0 && <button type="button" class="ghost tiny" aria-expanded={open === l.key} title="Its labels" aria-label={`Labels of ${l.name}`} onClick={() => setOpen(open === l.key ? null : l.key)}><Tag /></button>}
							<em title={over(l) ? `${formatAxis(l.last!, unit)} at ${moment(times[l.ended!])}, and nothing since` : undefined}>{over(l) ? 'ended' : v === null ? '–' : formatAxis(v, unit)}</em>{at !== null && totals && l.labels && <em class="total">{totalText(totals, l.key, at)}</em>}
							{open === l.key && own.length > 0 && <p class="tags">{own.map(([k, x]) => <Chip key={k} name={k} value={x} title="Add it to the query" onPick={() => onFilter({ [k]: x })} />)}</p>}
							{l === rest && off && <button type="button" class="link" title="Beside it the lines are flatter" onClick={() => onHidden(toggleHidden(hidden, REST))}>Draw their sum, too</button>}
							{l === rest && most < MOST && <button type="button" class="link" onClick={() => onMost(Math.min(MOST, most * 2))}>Show {Math.min(most, MOST - most, l.of)} more of them</button>}
						</li>
					);
				})}
				{most > LARGEST && all.length > LARGEST + 1 && <li class="legend-less"><button type="button" class="link" onClick={() => onMost(LARGEST)}>Only the {LARGEST} largest</button></li>}
			</ul>
		</div>
	);
}

const lastOf = (values: (number | null | undefined)[]): number => { let i = values.length - 1; while (i > 0 && typeof values[i] !== 'number') i--; return i; };

/** The labels that all series share, once. */
function Shared({ common, onFilter }: { common: Labels; onFilter: (labels: Labels) => void }) {
	const [all, setAll] = useState(false), list = Object.entries(common);
	if (!list.length) return null;
	return (
		<div class="shared" role="group" aria-label="Labels that all of them have">
			<span class={`tags ${all ? '' : 'few'}`}>
				{(all ? list : list.slice(0, SHARED)).map(([k, v]) => <Chip key={k} name={k} value={v} title={`${k}=${v}\nAll series have it. Click to add it to the query`} onPick={() => onFilter({ [k]: v })} />)}
				{list.length > SHARED && <button type="button" class="link" aria-expanded={all} onClick={() => setAll(!all)}>{all ? 'fewer' : `${list.length - SHARED} more`}</button>}
			</span>
		</div>
	);
}
