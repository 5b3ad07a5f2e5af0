// SPDX-License-Identifier: Apache-2.0
// The same profile as a table: what each function, line, file, package or binary costs itself and with what it calls, and of a difference both
// sides. The equal of the flame graph for whom a picture does not serve. Rows that cannot be seen are not drawn, so that ten
// thousand of them cost what sixty cost. Order, columns and what rows are of are in the address.
import type { VNode } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { keyTable } from '../base/keys';
import { asText as text, inUrl, layout, oneOf, writeUrl } from '../base/state';
import { dark } from '../base/theme';
import { Bar, CopyButton, Cut, styled, useWindow } from '../base/ui';
import type { Samples } from '../compare/samples';
import { frameColor, type ColorBy } from '../flame/colors';
import { type Finder, matchRow } from '../flame/fold';
import type { FlameTree, FunctionRow } from '../flame/tree';
import { asText, columnOf, errorOf, noisy, orderedUpTo, textOf, toggled, valueOf, visible, type Column, type Measure, type Table, type TableRow } from './columns';
import { openFrameMenu } from './framemenu';
import { GRAINS, useReadout, type Grain } from './readouts';
import { SIGMAS } from '../compare/noise';
import { ColumnMenu } from './columnmenu';
import { useLater } from './later';
import { formatChange, formatValue } from '../base/units';

const ROW = 25, FIRST = 20;
/** A column, and behind a dot that it is turned around. */
const order = inUrl(['explore'], 'order', '', text);
const chosen = inUrl<string[]>(['explore'], 'columns', [], { parse: (s) => s.split(',').filter((x) => columnOf(x.slice(1))), print: (v) => v.join(',') });
const grain = inUrl<Grain>(['explore'], 'per', 'function', oneOf<Grain>(...GRAINS.map(([g]) => g)));

const keys = keyTable('Table', {
	next: ['ArrowDown', 'the next row'], before: ['ArrowUp', 'the row before'],
	pageDown: ['PageDown', 'a page down'], pageUp: ['PageUp', 'a page up'],
	first: ['Home', 'the first row'], last: ['End', 'the last row'],
	pick: ['Enter', 'mark the function everywhere'],
	menu: [['ContextMenu', 'Shift+F10'], 'what can be done with the row'],
});

interface Props {
	tree: FlameTree; filter: Finder | null; colorBy: ColorBy;
	/** The source and time of the rows: data outside the tree is requested. */
	expr: string; time: number;
	/** Whether the rows are those of a box that was zoomed into. */
	zoomed: boolean;
	/** The largest of `all` functions; exact unless their answer is still on its way. */
	rows: FunctionRow[]; all: number; exact: boolean;
	onMore: () => void;
	onHover: (name: string | null) => void; onPick: (name: string) => void; picked: string;
	/** Of a difference; null: not known yet. */
	samples: Samples | null;
	/** For a profile that the server does not have: nothing is requested about it. */
	apart?: boolean;
}

export function FunctionTable({ tree, expr, time, zoomed, rows: given, all, exact, onMore, filter, colorBy, onHover, onPick, picked, samples, apart }: Props) {
	const diff = tree.base !== undefined, room = innerWidth < 500 ? 'narrow' : layout.value === 'table' ? 'wide' : 'half';
	const shares = tree.shares === true;
	const per: Grain = apart ? 'function' : grain.value;
	const readout = useReadout(expr, time, per, tree.unit);
	const noun = GRAINS.find(([g]) => g === per)![1].toLowerCase();
	const of: TableRow[] = useMemo(() => per === 'function' ? given : readout?.rows ?? [], [given, readout, per]);
	/* shares are of what there was before filters took something away */
	const whole = per === 'function' || !readout || tree.whole !== tree.total[0] ? { now: tree.whole, base: tree.baseWhole } : readout.whole;
	const table: Table = { unit: tree.unit, whole, diff, shares, per: samples?.known ? samples.per : null };
	const columns = visible(diff, room, chosen.value);
	const [id, turned] = order.value.split('.'), by = columns.find((c) => c.id === id) ?? columnOf(diff ? 'selfChange' : 'self')!;
	const [count, upTo] = useMemo(() => {
		const matching = filter ? of.filter((r) => matchRow(r, filter)) : of;
		return [matching.length, orderedUpTo(matching, by, by.id === id && turned === 'up', table)] as const;
	}, [of, filter, by, order.value, shares, diff, whole.now, whole.base]);
	const missing = per === 'function' ? all - given.length : 0;

	const { ref, from, to, before, after } = useWindow<HTMLDivElement>(count, ROW);
	/* this many at once take less than a frame: rows below them follow in the next one */
	const lower = useLater(upTo, () => 0), drawn = useRef<VNode[]>([]);
	const grid = useRef<HTMLTableElement>(null), heads = diff ? 2 : 1;
	const [at, setAt] = useState(-1);
	useEffect(() => { setAt(-1); }, [filter, by, per]);
	useEffect(() => { if (missing > 0 && to >= count && to > 60) onMore(); }, [to, count, missing]);

	const goTo = (i: number) => {
		const e = ref.current!, row = Math.max(0, Math.min(count - 1, i)), head = e.querySelector('thead')!.offsetHeight;
		if (!count) return;
		setAt(row);
		onHover(per === 'function' || per === 'line' ? upTo(row + 1)[row].name : null);
		e.scrollTop = Math.min(row * ROW, Math.max(e.scrollTop, (row + 1) * ROW + head - e.clientHeight));
		e.scrollIntoView({ block: 'nearest' });
	};
	const marked = (): TableRow | undefined => upTo(at + 1)[at];
	const page = () => Math.max(1, Math.floor(ref.current!.clientHeight / ROW) - 2);
	const open = (r: TableRow, x: number, y: number) => openFrameMenu({ name: r.name, file: r.file, binary: r.binary, line: r.line ?? 0 }, x, y, { mark: () => onPick(r.name), apart });
	const isFrame = per === 'function' || per === 'line';
	const onKey = (e: KeyboardEvent) => void (e.target === grid.current && keys.handle(e, {
		next: () => goTo(at + 1), before: () => goTo(at < 0 ? 0 : at - 1), pageDown: () => goTo(at + page()), pageUp: () => goTo(at - page()),
		first: () => goTo(0), last: () => goTo(count - 1),
		pick: () => marked() ? onPick(marked()!.name) : false,
		menu: () => {
			const box = ref.current!.querySelector('tr.at')?.getBoundingClientRect();
			return box && isFrame ? open(marked()!, box.left + 24, box.bottom) : false;
		},
	}));
	const sortBy = (c: Column) => {
		order.value = c.id === by.id && !(turned === 'up' && by.id === id) ? `${c.id}.up` : c.id;
		writeUrl('replace');
	};

	const head = (c: Column) => {
		const on = c.id === by.id, up = on && (turned === 'up' && by.id === id) !== (c.kind === 'text');
		return (
			<th key={c.id} scope="col" aria-sort={on ? (up ? 'ascending' : 'descending') : 'none'} class={`${c.kind === 'text' ? '' : 'num'} col-${c.kind}`}>
				<button type="button" title={c.help} onClick={() => sortBy(c)}>{c.id === 'name' ? GRAINS.find(([g]) => g === per)![1].replace(/ies$/, 'y').replace(/s$/, '') : c.title}<span class="sort">{on ? (up ? '▴' : '▾') : ''}</span></button>
			</th>
		);
	};
	const name = (r: TableRow) => (
		<th scope="row"><button type="button" tabIndex={-1} title={[r.name, r.line ? `${r.file}:${r.line}` : r.file, r.binary, 'Click to search for it'].filter(Boolean).join('\n')} onClick={() => onPick(r.name)}>
			{!diff && <Swatch row={r} colorBy={colorBy} />}<span>{r.name.slice(0, dirLength(r.name)) && <i class="dir">{r.name.slice(0, dirLength(r.name))}</i>}<Cut text={r.name.slice(dirLength(r.name))} />{per === 'line' && <small class="line">{base(r.file)}:{r.line}</small>}</span></button></th>
	);
	return (
		<div class={`functable ${diff ? 'diff' : ''} ${exact && (per === 'function' || readout) ? '' : 'pending'}`} onMouseLeave={() => onHover(null)}>
			<div class="table-bar">
				{!apart && <label class="grain"><span class="unseen">Rows</span><select value={per} onChange={(e) => { grain.value = e.currentTarget.value as Grain; writeUrl('replace'); }}>{GRAINS.map(([g, title]) => <option key={g} value={g}>{title}</option>)}</select></label>}
				<span class="table-count">{count.toLocaleString('en-US')}{filter || missing ? ` of ${(of.length + missing).toLocaleString('en-US')}` : ''}{zoomed && per !== 'function' ? ' of the whole profile' : ''}</span>
				<div class="grow" />
				<ColumnMenu diff={diff} shown={columns} onToggle={(c) => { chosen.value = toggled(chosen.value, c, columns.includes(c), room); writeUrl('replace'); }} />
				<CopyButton title={`Copy ${count.toLocaleString('en-US')} rows as text`} text={() => asText(upTo(count), columns, table, GRAINS.find(([g]) => g === per)![1])} />
			</div>
			<div class="table-scroll" ref={ref}>
				<table ref={grid} tabIndex={0} role="grid" aria-label={`Table of ${noun}`} aria-rowcount={count + heads} aria-busy={!exact} aria-activedescendant={at >= from && at < to ? `table-row-${at}` : undefined} onKeyDown={onKey}
					onFocus={(e) => { if (e.target === grid.current && at < 0 && grid.current!.matches(':focus-visible')) goTo(0); }} onContextMenu={(e) => { if (e.button !== 2) e.preventDefault(); }}>
					<Widths columns={columns} />
					<thead>
						{diff && <tr class="groups" aria-rowindex={1}><Groups columns={columns} /></tr>}
						<tr aria-rowindex={heads}>{columns.map(head)}</tr>
					</thead>
					<tbody>
						<Gap height={before} />
						{drawn.current = upTo(to).slice(from, to).map((r, i) => i >= FIRST && lower !== upTo && drawn.current.find((d) => d.key === from + i) || (
							<tr key={from + i} id={`table-row-${from + i}`} aria-rowindex={from + i + heads + 1} aria-selected={from + i === at} class={`${r.name === picked ? 'on' : ''} ${from + i === at ? 'at' : ''}`} onMouseEnter={() => onHover(isFrame ? r.name : null)}
								onContextMenu={(e) => { if (isFrame && e.button === 2) { e.preventDefault(); open(r, e.clientX, e.clientY); } }}>
								{name(r)}<Cells row={r} columns={columns} table={table} />
							</tr>
						))}
						<Gap height={after} />
					</tbody>
				</table>
				{count === 0 && <p class="hint">{readout?.failed ?? (filter ? `None of the ${noun} matches.` : per !== 'function' && !readout ? 'Reading…' : 'Nothing.')}</p>}
			</div>
			{diff && <NoiseNote samples={samples} />}
			{missing > 0 && <button type="button" class="more-rows" onClick={onMore}>{missing} smaller functions</button>}
		</div>
	);
}

const base = (path: string) => path.slice(path.lastIndexOf('/') + 1);

function Cells({ row: r, columns, table: t }: { row: TableRow; columns: Column[]; table: Table }) {
	const noise: Record<Measure, boolean> = { self: noisy('self', r, t), total: noisy('total', r, t) };
	return <>{columns.slice(1).map((c) => {
		const s = textOf(c, r, t);
		if (c.kind === 'text') return <td key={c.id} class="text" title={s}><bdi>{s}</bdi></td>;
		const v = valueOf(c, r, t), dim = t.diff && c.of && noise[c.of];
		const sign = (c.kind === 'change' || c.kind === 'relative') && !dim && v !== 0 ? v > 0 ? 'more' : 'less' : '';
		return (
			<td key={c.id} class={`num ${sign} ${dim ? 'noise' : ''}`} title={c.kind === 'change' ? explain(c.of as Measure, r, t) : undefined}>
				{dim && c.kind === 'change' ? `≈ ${s}` : s}{c.kind === 'share' && <Bar share={v} />}
			</td>
		);
	})}</>;
}

/** Why a change counts or does not. */
function explain(m: Measure, r: TableRow, t: Table): string | undefined {
	const e = errorOf(m, r, t);
	if (e === null || !Number.isFinite(e)) return undefined;
	const within = t.shares ? formatChange(SIGMAS * e).slice(1) : formatValue(SIGMAS * e, t.unit);
	return `${noisy(m, r, t) ? 'Noise: within' : 'More than'} three standard errors (± ${within})`;
}

/** The meaning of grey rows, or why none is. */
function NoiseNote({ samples }: { samples: Samples | null }) {
	return (
		<p class="hint noise-note">{!samples ? '…' : samples.known
			? <><span class="noise">≈ grey</span> is within three standard errors: chance, as far as {whole(samples.base)} samples of the base and {whole(samples.now)} of now can tell</>
			: `No change is greyed as chance. ${samples.why}`}</p>
	);
}
const whole = (n: number) => Math.round(n).toLocaleString('en-US');

/** Length of the import path's directories: "github.com/a/b." keeps only "b." where room is short. */
function dirLength(name: string): number {
	return name.lastIndexOf('/', name.search(/[[(<\s]|$/)) + 1;
}

function Swatch({ row, colorBy }: { row: TableRow; colorBy: ColorBy }) {
	return <i class="chip" ref={styled({ background: frameColor(row.name, row.binary, colorBy, dark.value, row.file).fill })} aria-hidden="true" />;
}

/** Names of groups of columns: which are of the function itself, and which with what it calls. */
function Groups({ columns }: { columns: Column[] }) {
	const groups: { of: string; span: number }[] = [];
	for (const c of columns) {
		const last = groups[groups.length - 1];
		if (last && last.of === c.of) last.span++;
		else groups.push({ of: c.of, span: 1 });
	}
	return <>{groups.map((g, i) => <td key={i} colSpan={g.span} class={g.of ? 'group' : ''}>{g.of === 'self' ? 'Self' : g.of === 'total' ? 'With callees' : ''}</td>)}</>;
}

/** Widths of the columns; the name has the rest, and never less than a name needs. */
function Widths({ columns }: { columns: Column[] }) {
	const el = useRef<HTMLTableColElement>(null);
	const key = columns.map((c) => c.id).join();
	useLayoutEffect(() => {
		const cols = el.current!.children as HTMLCollectionOf<HTMLElement>;
		columns.forEach((c, i) => { cols[i].style.width = c.width ? `${c.width}px` : ''; });
		el.current!.parentElement!.style.minWidth = `${columns.reduce((sum, c) => sum + (c.width || 120), 0)}px`;
	}, [key]);
	return <colgroup ref={el}>{columns.map((c) => <col key={c.id} />)}</colgroup>;
}

/** Room of the rows that are not drawn. */
function Gap({ height }: { height: number }) {
	return <tr ref={styled({ height: `${height}px` })} class="gap" role="presentation" hidden={height === 0} />;
}
