// SPDX-License-Identifier: Apache-2.0
// The answer to a query that yields numbers, largest first: one column per label that tells the rows apart.
import { Bar, ScrollX } from '../base/ui';
import type { VectorSample } from '../base/api';
import { formatAxis } from '../base/units';

const SHOWN = 500;

export function ValueTable({ expr, samples }: { expr: string; samples: VectorSample[] }) {
	const rows = samples.map((s) => ({ labels: s.metric, v: Number(s.value[1]), text: s.value[1] })).sort((a, b) => b.v - a.v);
	const keys = [...new Set(rows.flatMap((r) => Object.keys(r.labels)))].sort((a, b) => order(a) - order(b) || a.localeCompare(b));
	const top = rows.reduce((most, r) => Number.isFinite(r.v) ? Math.max(most, Math.abs(r.v)) : most, 0);
	return (
		<section class="panel" aria-label="Values">
			<header class="panel-head"><h2>Values</h2><span class="unit">{rows.length === 1 ? '1 element' : `${rows.length} elements`}</span><code class="expr" title={expr}>{expr}</code></header>
			{rows.length === 0 ? <div class="none"><p>The query matched nothing at this time.</p></div> : (
				<ScrollX label="Values">
					<table class="data values">
						<thead><tr>{keys.map((k) => <th key={k} scope="col">{k}</th>)}<th scope="col" class="num">Value</th></tr></thead>
						<tbody>{rows.slice(0, SHOWN).map((r) => (
							<tr key={JSON.stringify(r.labels)}>{keys.map((k) => <td key={k} class={k === 'function' ? 'mono' : ''}>{r.labels[k] ?? ''}</td>)}
								<td class="num" title={r.text}><span>{formatAxis(r.v, '')}</span><Bar share={top ? Math.abs(r.v) / top : 0} /></td></tr>
						))}</tbody>
					</table>
					{rows.length > SHOWN && <p class="hint">{rows.length - SHOWN} smaller ones are not listed; topk(…) says which you want.</p>}
				</ScrollX>
			)}
		</section>
	);
}

/** The usual questions come first. */
const order = (k: string) => k === '__name__' ? 0 : k === 'function' ? 1 : 2;
