// SPDX-License-Identifier: Apache-2.0
// Which columns of the table are shown.
import { useState } from 'preact/hooks';
import { Sliders } from '../base/icons';
import { Popover } from '../base/ui';
import { COLUMNS, type Column } from './columns';

const GROUPS: [Column['of'], string][] = [['self', 'Self'], ['total', 'With callees'], ['', '']];

export function ColumnMenu({ diff, shown, onToggle }: { diff: boolean; shown: Column[]; onToggle: (c: Column) => void }) {
	const [open, setOpen] = useState(false);
	const all = COLUMNS.filter((c) => c.id !== 'name' && (c.diff ?? diff) === diff);
	return (
		<Popover open={open} setOpen={setOpen} align="right" has="dialog" buttonClass="ghost tiny" title="Which columns are shown" button={<><Sliders />Columns</>}>
			<div class="columns" role="group" aria-label="Columns">
				{GROUPS.map(([of, title]) => <div key={of}>{diff && title && <b>{title}</b>}{all.filter((c) => c.of === of).map((c) => (
					<label key={c.id} title={c.help}><input type="checkbox" checked={shown.includes(c)} onChange={() => onToggle(c)} />{c.title}{diff && c.of && <span class="unseen"> {title}</span>}</label>
				))}</div>)}
			</div>
		</Popover>
	);
}
