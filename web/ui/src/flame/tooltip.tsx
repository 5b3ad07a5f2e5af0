// SPDX-License-Identifier: Apache-2.0
// What a box says when pointed at.
import { useLayoutEffect, useRef } from 'preact/hooks';
import { formatChange, formatShare, formatValue } from '../base/units';
import type { PerSample } from '../compare/noise';
import { noisyBox } from './draw';
import { UNEVEN, type FlameTree } from './tree';

/** noSelf: upside down a box has no value of its own. per: of a difference, what a sample counts on each side (see Scene in draw.ts). */
export function Tooltip({ tree: t, node: i, zoom, x, y, noSelf, per }: { tree: FlameTree; node: number; zoom: number; x: number; y: number; noSelf?: boolean; per?: PerSample | null }) {
	const el = useRef<HTMLDivElement>(null);
	useLayoutEffect(() => {
		const e = el.current!, w = e.offsetWidth, h = e.offsetHeight;
		const left = x + 16 + w > innerWidth - 8 ? Math.max(8, x - 12 - w) : x + 16;
		const top = y + 18 + h > innerHeight - 8 ? Math.max(8, y - 12 - h) : y + 18;
		e.style.transform = `translate(${left}px, ${top}px)`;
	});
	const f = t.frame[i];
	const line = t.line[i] || t.startLines[f];
	/* Shares are of the whole, and, if filters or a function leave less, of that as well. */
	const wholes: [string, number][] = [['of total', t.whole]];
	if (t.whole !== t.total[0]) wholes.push(['of shown', t.total[0]]);
	if (t.depth[zoom] > 0 && t.total[zoom] !== t.total[0]) wholes.push(['of view', t.total[zoom]]);
	const row = (name: string, v: number) => <tr><th>{name}</th><td>{formatValue(v, t.unit)}</td>{wholes.map(([of, whole]) => <td key={of}>{whole ? formatShare(v / whole) : '–'}</td>)}</tr>;
	return (
		<div class="tip" ref={el} role="tooltip">
			<div class="tip-name">{t.names[f]}</div>
			{t.files[f] && <div class="tip-where">{t.files[f]}{line ? `:${line}` : ''}</div>}
			{t.binaries[f] && <div class="tip-where">{t.binaries[f]}</div>}
			{t.mixed && <div class="tip-where">{UNEVEN}</div>}
			{t.base ? <DiffRows t={t} i={i} per={per} /> : (
				<table>
					<thead><tr><th /><th>value</th>{wholes.map(([of]) => <th key={of}>{of}</th>)}</tr></thead>
					<tbody>
						{row('total', t.total[i])}{!noSelf && row('self', t.self[i])}
						{t.before && <tr><th>before</th><td>{formatValue(t.before.total[i], t.unit)}</td><td>{t.baseWhole ? formatShare(t.before.total[i] / t.baseWhole) : '–'}</td></tr>}
					</tbody>
				</table>
			)}
		</div>
	);
}

function DiffRows({ t, i, per }: { t: FlameTree; i: number; per?: PerSample | null }) {
	const b = t.base!;
	const row = (name: string, a: Float64Array, base: Float64Array) => {
		/* for shares, each side's of its whole: values of now are scaled */
		const now = t.shares ? a[i] / (t.whole || 1) : a[i], was = t.shares ? base[i] / (t.baseWhole || 1) : base[i];
		const noise = per && noisyBox(t, i, a, base, per), d = now - was, sign = d > 0 ? '+' : d < 0 ? '−' : '±', text = (v: number) => t.shares ? formatShare(v) : formatValue(v, t.unit);
		return (
			<tr><th>{name}</th><td>{text(was)}</td><td>{text(now)}</td>
				<td class={noise ? '' : d > 0 ? 'more' : d < 0 ? 'less' : ''}>{noise && '≈ '}{sign}{text(Math.abs(d))}</td>
				<td>{was ? formatChange(d / Math.abs(was)) : now ? 'new' : ''}</td></tr>
		);
	};
	return (
		<table>
			<thead><tr><th /><th>base</th><th>now</th><th>change</th><th>relative</th></tr></thead>
			<tbody>{row('total', t.total, b.total)}{row('self', t.self, b.self)}</tbody>
		</table>
	);
}
