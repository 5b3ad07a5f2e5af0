// SPDX-License-Identifier: Apache-2.0
// Columns of the table of functions: what each says of a row, how rows are ordered by it, and the rows as text.
import { amountError, isNoise, shareError, type PerSample } from '../compare/noise';
import type { FunctionRow } from '../flame/tree';
import { formatChange, formatShare, formatValue } from '../base/units';

/** The data that distinguishes rows with equal names, and its line. */
export interface TableRow extends FunctionRow { key?: string; line?: number }
/** Value of the whole profile, and of a difference that of the base. */
export interface Whole { now: number; base: number }

export interface Table {
	unit: string; whole: Whole;
	diff: boolean;
	/** A difference of shares, not of amounts. */
	shares: boolean;
	/** The value of one sample on each side; null: not known, and then nothing counts as noise. */
	per: PerSample | null;
}

export type Measure = 'self' | 'total';
export interface Column {
	id: string; title: string; help: string;
	/** Its side; '' for neither. */
	of: Measure | '';
	kind: 'text' | 'amount' | 'share' | 'base' | 'now' | 'change' | 'relative';
	diff?: boolean;
	width: number;
}

const NAMES = { self: 'Self', total: 'Total' }, WHAT = { self: 'in the function itself', total: 'with all that it calls' };

const single = (m: Measure): Column[] => [
	{ id: m, title: NAMES[m], help: `Used ${WHAT[m]}`, of: m, kind: 'amount', width: 82, diff: false },
	{ id: `${m}Share`, title: `${NAMES[m]} %`, help: `Share of the whole that is used ${WHAT[m]}`, of: m, kind: 'share', width: 72, diff: false },
];
const double = (m: Measure): Column[] => [
	{ id: `${m}Base`, title: 'Base', help: `Of the base, ${WHAT[m]}`, of: m, kind: 'base', width: 76, diff: true },
	{ id: `${m}Now`, title: 'Now', help: `Of what is compared with it, ${WHAT[m]}`, of: m, kind: 'now', width: 76, diff: true },
	{ id: `${m}Change`, title: 'Change', help: `Now less base, ${WHAT[m]}`, of: m, kind: 'change', width: 90, diff: true },
	{ id: `${m}Relative`, title: 'Relative', help: `The change as a part of the base, ${WHAT[m]}`, of: m, kind: 'relative', width: 84, diff: true },
];

export const COLUMNS: Column[] = [
	{ id: 'name', title: 'Function', help: '', of: '', kind: 'text', width: 0 },
	...single('self'), ...single('total'), ...double('self'), ...double('total'),
	{ id: 'file', title: 'File', help: 'Where it is defined', of: '', kind: 'text', width: 220 },
	{ id: 'binary', title: 'Binary', help: 'The program or library that it is in', of: '', kind: 'text', width: 160 },
];
export const columnOf = (id: string): Column | undefined => COLUMNS.find((c) => c.id === id);

/** The window's width, beside the flame graph, on a phone. */
export type Room = 'wide' | 'half' | 'narrow';
/** Shown unless somebody says otherwise: what there is room for. */
const shownAtFirst = (c: Column, room: Room) => c.kind !== 'text' && (!c.diff || c.of === 'self' || room === 'wide') && !(room === 'narrow' && (c.id === 'total' || c.kind === 'base'));

/** chosen: "+id" shows and "-id" hides a column. */
export const visible = (diff: boolean, room: Room, chosen: string[]): Column[] => COLUMNS.filter((c) => c.id === 'name'
	|| (c.diff ?? diff) === diff && (chosen.includes(`+${c.id}`) || (shownAtFirst(c, room) && !chosen.includes(`-${c.id}`))));

/** The same choice with a column exchanged; what is as at first is not written. */
export function toggled(chosen: string[], c: Column, shown: boolean, room: Room): string[] {
	const rest = chosen.filter((x) => x.slice(1) !== c.id);
	return shown === shownAtFirst(c, room) ? [...rest, `${shown ? '-' : '+'}${c.id}`] : rest;
}

export const nowOf = (r: TableRow, m: Measure): number => m === 'self' ? r.self : r.total;
export const baseOf = (r: TableRow, m: Measure): number => m === 'self' ? r.baseSelf : r.baseTotal;
/** Apart by what scaling left of nothing. */
const still = (a: number, b: number) => Math.abs(a - b) <= 1e-9 * Math.max(Math.abs(a), Math.abs(b));
const ratio = (v: number, whole: number) => whole ? v / whole : 0;

/** The value of a column in a row, as a number: in the profile's unit, shares and relative changes as fractions. */
export function valueOf(c: Column, r: TableRow, t: Table): number {
	if (!c.of) return 0;
	const now = t.diff && t.shares ? ratio(nowOf(r, c.of), t.whole.now) : nowOf(r, c.of), base = t.shares ? ratio(baseOf(r, c.of), t.whole.base) : baseOf(r, c.of);
	switch (c.kind) {
	case 'amount': case 'now': return now;
	case 'share': return ratio(nowOf(r, c.of), t.whole.now);
	case 'base': return base;
	case 'change': return still(now, base) ? 0 : now - base;
	case 'relative': return still(now, base) ? 0 : base === 0 ? (now > 0 ? Infinity : -Infinity) : (now - base) / Math.abs(base);
	default: return 0;
	}
}

const signed = (v: number, unit: string) => v === 0 ? '±0' : `${v > 0 ? '+' : '−'}${formatValue(Math.abs(v), unit)}`;

export function textOf(c: Column, r: TableRow, t: Table): string {
	if (c.id === 'name') return r.name;
	if (c.kind === 'text') return c.id === 'file' ? (r.file && r.line ? `${r.file}:${r.line}` : r.file) : r.binary;
	const v = valueOf(c, r, t);
	switch (c.kind) {
	case 'share': return formatShare(v);
	case 'change': return t.shares ? formatChange(v) : signed(v, t.unit);
	case 'relative': return v === Infinity ? 'new' : v === -1 ? 'gone' : Number.isFinite(v) ? formatChange(v) : '–';
	default: return t.shares && t.diff ? formatShare(v) : formatValue(v, t.unit);
	}
}

/** Standard error of a row's change, in the terms of that change; null if it is not known. */
export function errorOf(m: Measure, r: TableRow, t: Table): number | null {
	if (!t.diff || !t.per) return null;
	const v = { now: nowOf(r, m), base: baseOf(r, m) };
	return t.shares ? shareError(v, t.whole, t.per) : amountError(v, t.per);
}

export function noisy(m: Measure, r: TableRow, t: Table): boolean {
	const e = errorOf(m, r, t);
	return e !== null && isNoise(valueOf(columnOf(`${m}Change`)!, r, t), e);
}

/** Rows by a column: largest (of changes: furthest from zero) first, texts from A to Z; `turned` the other way. */
export function ordered(rows: TableRow[], c: Column, turned: boolean, t: Table): TableRow[] {
	const way = turned ? -1 : 1;
	const byName = (a: TableRow, b: TableRow) => a.name < b.name ? -1 : a.name > b.name ? 1 : (a.key ?? '') < (b.key ?? '') ? -1 : a.key === b.key ? 0 : 1;
	if (c.kind === 'text') {
		const keyed = rows.map((r) => ({ r, k: textOf(c, r, t) }));
		return keyed.sort((a, b) => way * (a.k < b.k ? -1 : a.k > b.k ? 1 : 0) || byName(a.r, b.r)).map((x) => x.r);
	}
	const [first, second] = numbersOf(rows, c, way, t);
	const keyed = rows.map((r, i) => ({ r, k: first[i], l: second[i] }));
	return keyed.sort((a, b) => a.k < b.k ? 1 : a.k > b.k ? -1 : a.l < b.l ? 1 : a.l > b.l ? -1 : byName(a.r, b.r)).map((x) => x.r);
}

/** The order of rows, the largest first: by the column, if equal by the second one. */
function numbersOf(rows: TableRow[], c: Column, way: number, t: Table): [Float64Array, Float64Array] {
	const second = c.kind === 'amount' || c.kind === 'share' ? columnOf(c.of === 'self' ? 'total' : 'self')! : c;
	const of = (x: Column) => {
		const out = new Float64Array(rows.length);
		for (let i = 0; i < out.length; i++) out[i] = way * (c.kind === 'change' ? Math.abs(valueOf(x, rows[i], t)) : valueOf(x, rows[i], t));
		return out;
	};
	const k = of(c);
	return [k, second === c ? k : of(second)];
}

const HEAD = 300;

/** The same for readers of the first rows: sorted at least up to the n-th, and completely only once more than HEAD are needed. To sort ten
 * thousand rows by value and name takes longer than a frame. */
export function orderedUpTo(rows: TableRow[], c: Column, turned: boolean, t: Table): (n: number) => TableRow[] {
	let head: TableRow[] | null = null, all: TableRow[] | null = null;
	return (n) => all || n > HEAD || c.kind === 'text' || rows.length <= 2 * HEAD ? all ??= ordered(rows, c, turned, t) : head ??= ordered(firstOf(rows, ...numbersOf(rows, c, turned ? -1 : 1, t)), c, turned, t);
}

/** The n-th largest number. */
const nth = (numbers: Float64Array, n: number): number => numbers.slice().sort()[numbers.length - n];

/** The HEAD largest, and those that differ from the last of these only by name. */
function firstOf(rows: TableRow[], k: Float64Array, l: Float64Array): TableRow[] {
	const least = nth(k, HEAD), above = rows.filter((_, i) => k[i] > least), same = l.filter((_, i) => k[i] === least);
	const second = nth(same, HEAD - above.length);
	return above.concat(rows.filter((_, i) => k[i] === least && l[i] >= second));
}

const cell = (s: string) => s.replace(/[\t\r\n]+/g, ' ');

/** The rows as lines of cells with tabs between, values as plain numbers: a spreadsheet takes them. */
export function asText(rows: TableRow[], columns: Column[], t: Table, noun: string): string {
	const head = (c: Column) => c.id === 'name' ? noun : c.kind === 'text' ? c.title
		: `${c.diff ? `${NAMES[c.of as Measure]} ${c.title.toLowerCase()}` : c.title.replace(' %', ' share')} (${c.kind === 'share' || c.kind === 'relative' || t.shares ? '%' : t.unit || 'count'})`;
	const number = (c: Column, r: TableRow) => {
		const v = valueOf(c, r, t);
		return !Number.isFinite(v) ? textOf(c, r, t) : String(c.kind === 'share' || c.kind === 'relative' || t.shares ? Number((v * 100).toPrecision(8)) : v);
	};
	const lines = rows.map((r) => columns.map((c) => cell(c.kind === 'text' ? textOf(c, r, t) : number(c, r))).join('\t'));
	return [columns.map(head).join('\t'), ...lines].join('\n') + '\n';
}
