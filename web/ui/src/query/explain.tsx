// SPDX-License-Identifier: Apache-2.0
// How the graph's query was answered: its parts as a tree, with what each took and what it read. Asked for when opened.
import { useState } from 'preact/hooks';
import { api, type PlanNode } from '../base/api';
import { ScrollX } from '../base/ui';

const FEW = 40;

interface Row { node: PlanNode; depth: number; own: number }

/** Parts in the order of the query; own is the time that is not its children's. */
function rowsOf(node: PlanNode, depth = 0): Row[] {
	const below = node.children.reduce((sum, c) => sum + c.seconds, 0);
	return [{ node, depth, own: Math.max(0, node.seconds - below) }, ...node.children.flatMap((c) => rowsOf(c, depth + 1))];
}

const number = (n: number) => n ? n.toLocaleString('en-US') : '';
const milliseconds = (s: number) => `${(s * 1000).toFixed(s < 0.01 ? 2 : 0)} ms`;
const bytes = (n: number) => n >= 1048576 ? `${(n / 1048576).toFixed(1)} MB` : n >= 1024 ? `${(n / 1024).toFixed(1)} kB` : n ? `${n} B` : '';

export function ExplainPanel({ expr, times }: { expr: string; times: number[] }) {
	const [rows, setRows] = useState<Row[] | null>(null);
	const [failed, setFailed] = useState('');
	const load = (open: boolean) => {
		setRows(null);
		setFailed('');
		if (open && times.length)
			api.explain(expr, times[0], times[times.length - 1], times.length > 1 ? times[1] - times[0] : 1)
				.then((a) => setRows(rowsOf(a.data.explain.plan).slice(0, FEW)), (e: Error) => setFailed(e.message));
	};
	return (
		<details class="panel explain" onToggle={(e) => load(e.currentTarget.open)}>
			<summary>How the graph was made</summary>
			{failed && <p class="hint">{failed}</p>}
			{rows && (
				<ScrollX label="Parts of the query">
					<table class="data">
						<thead><tr><th scope="col">Part</th><th scope="col" class="num">Own time</th><th scope="col" class="num">Series</th><th scope="col" class="num">Points</th>
							<th scope="col" class="num">Chunks read</th><th scope="col" class="num">Values read</th><th scope="col" class="num">Bytes read</th></tr></thead>
						<tbody>{rows.map((r, i) => (
							<tr key={i}><td class="mono" style={{ paddingLeft: `${12 + 16 * r.depth}px` }}>{r.node.expr}</td><td class="num">{milliseconds(r.own)}</td>
								<td class="num">{number(r.node.series)}</td><td class="num">{number(r.node.samples)}</td><td class="num">{number(r.node.read.chunks)}</td>
								<td class="num">{number(r.node.read.samples)}</td><td class="num">{bytes(r.node.read.bytes)}</td></tr>
						))}</tbody>
					</table>
				</ScrollX>
			)}
		</details>
	);
}
