// SPDX-License-Identifier: Apache-2.0
// The same profile as a table of functions: what each costs itself and with what it calls. The equal of the flame graph
// for whom a picture does not serve.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { frameColor, type ColorBy } from '../flame/colors';
import { matchRow } from '../flame/fold';
import type { FlameTree, FunctionRow } from '../flame/tree';
import { dark } from '../base/theme';
import { Bar } from '../base/ui';
import { formatShare, formatValue } from '../base/units';

type Column = 'name' | 'self' | 'total' | 'change';
const PAGE = 200;

interface Props {
	tree: FlameTree; filter: RegExp | null; colorBy: ColorBy;
	/** Of `all` functions the largest; exact unless the answer that has them is still on its way. */
	rows: FunctionRow[]; all: number; exact: boolean;
	onMore: () => void;
	onHover: (name: string | null) => void; onPick: (name: string) => void; picked: string;
}

export function FunctionTable({ tree, rows: given, all, exact, onMore, filter, colorBy, onHover, onPick, picked }: Props) {
	const [by, setBy] = useState<Column>(tree.base ? 'change' : 'self');
	const [up, setUp] = useState(false);
	const [limit, setLimit] = useState(PAGE);
	const rows = useMemo(() => {
		const list = filter ? given.filter((r) => matchRow(r, filter)) : [...given];
		const change = (r: FunctionRow) => r.self - r.baseSelf;
		const order: Record<Column, (a: FunctionRow, b: FunctionRow) => number> = {
			name: (a, b) => b.name.localeCompare(a.name),
			self: (a, b) => a.self - b.self || a.total - b.total,
			total: (a, b) => a.total - b.total || a.self - b.self,
			change: (a, b) => Math.abs(change(a)) - Math.abs(change(b)),
		};
		list.sort((a, b) => (up ? 1 : -1) * order[by](a, b) || a.name.localeCompare(b.name));
		return list;
	}, [given, filter, by, up]);
	useEffect(() => setLimit(PAGE), [tree, filter, by]);

	const head = (col: Column, title: string) => (
		<th scope="col" aria-sort={by === col ? (up ? 'ascending' : 'descending') : 'none'} class={col === 'name' ? '' : 'num'}>
			<button type="button" onClick={() => { if (by === col) setUp(!up); else { setBy(col); setUp(false); } }}>
				{title}<span class="sort">{by === col ? (up ? '▴' : '▾') : ''}</span>
			</button>
		</th>
	);
	const { whole } = tree;
	return (
		<div class={`functable ${tree.base ? 'diff' : ''} ${exact ? '' : 'pending'}`} aria-busy={!exact} onMouseLeave={() => onHover(null)}>
			<table>
				<thead><tr>{head('name', 'Function')}{head('self', 'Self')}{head('total', 'Total')}{tree.base && head('change', 'Change')}</tr></thead>
				<tbody>
					{rows.slice(0, limit).map((r) => (
						<tr key={r.name} class={r.name === picked ? 'on' : ''} onMouseEnter={() => onHover(r.name)}>
							<th scope="row"><button type="button" title={[r.name, r.file, r.binary, 'Click to search for it'].filter(Boolean).join('\n')} onClick={() => onPick(r.name)}>
								{!tree.base && <Chip row={r} colorBy={colorBy} />}<span>{r.name.slice(0, dirLength(r.name)) && <i class="dir">{r.name.slice(0, dirLength(r.name))}</i>}{r.name.slice(dirLength(r.name))}</span></button></th>
							<Cell v={r.self} whole={whole} unit={tree.unit} /><Cell v={r.total} whole={whole} unit={tree.unit} />
							{tree.base && <td class={`num ${r.self > r.baseSelf ? 'more' : r.self < r.baseSelf ? 'less' : ''}`}>{r.self > r.baseSelf ? '+' : r.self < r.baseSelf ? '−' : ''}{formatValue(Math.abs(r.self - r.baseSelf), tree.unit)}</td>}
						</tr>
					))}
				</tbody>
			</table>
			{rows.length === 0 && <p class="hint">No function matches.</p>}
			{rows.length > limit ? <button type="button" class="more-rows" onClick={() => setLimit(limit + 5 * PAGE)}>{rows.length - limit + (filter ? 0 : all - given.length)} more functions</button>
				: all > given.length && <button type="button" class="more-rows" onClick={onMore}>{all - given.length} smaller functions</button>}
		</div>
	);
}

/** Length of the import path's directories: "github.com/a/b." keeps only "b." where room is short. */
function dirLength(name: string): number {
	return name.lastIndexOf('/', name.search(/[[(<\s]|$/)) + 1;
}

function Cell({ v, whole, unit }: { v: number; whole: number; unit: string }) {
	const share = whole ? v / whole : 0;
	return <td class="num"><span>{formatValue(v, unit)}</span><small>{formatShare(share)}</small><Bar share={share} /></td>;
}

function Chip({ row, colorBy }: { row: FunctionRow; colorBy: ColorBy }) {
	const el = useRef<HTMLElement>(null);
	const fill = frameColor(row.name, row.binary, colorBy, dark.value).fill;
	useEffect(() => { el.current!.style.background = fill; }, [fill]);
	return <i class="chip" ref={el} aria-hidden="true" />;
}
