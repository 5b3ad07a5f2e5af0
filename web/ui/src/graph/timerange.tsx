// SPDX-License-Identifier: Apache-2.0
// Which stretch of time, and how often to ask again.
import { useState } from 'preact/hooks';
import { Chevron, Refresh } from '../base/icons';
import type { Range } from '../base/state';
import { clock, day, fromInput, offset, toInput } from '../base/time';
import { formatDuration } from '../base/units';
import { MenuButton, MenuItem } from '../base/menu';
import { Popover, Segments } from '../base/ui';

const PRESETS: [number, string, string][] = [
	[300, '5m', 'Last 5 minutes'], [900, '15m', 'Last 15 minutes'], [3600, '1h', 'Last hour'], [21600, '6h', 'Last 6 hours'], [86400, '24h', 'Last 24 hours'],
];

export function TimeRange({ value, now, onChange }: { value: Range; now: number; onChange: (r: Range) => void }) {
	const [open, setOpen] = useState(false);
	const last = 'last' in value ? value.last : null;
	const custom = 'last' in value ? (PRESETS.some(([s]) => s === value.last) ? 'Custom' : `Last ${formatDuration(value.last)}`)
		: `${day(value.from) === day(now) ? '' : `${day(value.from)} `}${clock(value.from)} – ${clock(value.to)}`;
	return (
		<div class="timerange">
			<Segments label="Time range" value={last} options={PRESETS} onChange={(s) => onChange({ last: s })} />
			<Popover open={open} setOpen={setOpen} align="right" class={last === null ? 'on' : ''} title="An exact range" button={<>{custom}<Chevron /></>}>
				<Absolute value={value} now={now} onApply={(r) => { setOpen(false); onChange(r); }} />
			</Popover>
		</div>
	);
}

function Absolute({ value, now, onApply }: { value: Range; now: number; onApply: (r: Range) => void }) {
	const [from, setFrom] = useState(toInput('last' in value ? now - value.last : value.from));
	const [to, setTo] = useState(toInput('last' in value ? now : value.to));
	const a = fromInput(from), b = fromInput(to), ok = b > a;
	return (
		<form class="absolute" onSubmit={(e) => { e.preventDefault(); if (ok) onApply({ from: a, to: b }); }}>
			<label>From <small>{offset(now)}</small><input type="datetime-local" step="1" value={from} onInput={(e) => setFrom(e.currentTarget.value)} /></label>
			<label>To <small>{offset(now)}</small><input type="datetime-local" step="1" value={to} onInput={(e) => setTo(e.currentTarget.value)} /></label>
			{!ok && <p class="hint">The end must lie after the beginning.</p>}
			<button class="primary" disabled={!ok}>Apply</button>
		</form>
	);
}

const EVERY: [number, string][] = [[0, 'Off'], [5, '5s'], [10, '10s'], [30, '30s'], [60, '1m']];

export function RefreshControl({ every, busy, onNow, onEvery }: { every: number; busy: boolean; onNow: () => void; onEvery: (s: number) => void }) {
	return (
		<div class="refresh">
			<button type="button" class={`square ${busy ? 'busy' : ''}`} title="Ask again now" aria-label="Refresh now" onClick={onNow}><Refresh /></button>
			<MenuButton label="Refresh every…" title="Refresh every…" align="right" button={<>{every ? EVERY.find(([s]) => s === every)?.[1] ?? `${every}s` : 'Off'}<Chevron /></>}>
				{(close) => EVERY.map(([s, name]) => (
					<MenuItem key={s} checked={s === every} onPick={() => { close(); onEvery(s); }}>{s ? `Every ${name}` : 'No refresh'}</MenuItem>
				))}
			</MenuButton>
		</div>
	);
}
