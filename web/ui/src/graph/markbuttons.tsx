// SPDX-License-Identifier: Apache-2.0
// The marks above the lines of a graph: each a button that says what happened, and offers what one wants to know then.
import { useState } from 'preact/hooks';
import { pageHref } from '../base/state';
import { clock, moment } from '../base/time';
import { formatDuration } from '../base/units';
import { Chip, Popover, styled } from '../base/ui';
import type { Selection } from '../query/query';
import { clustered, type Mark } from './marks';

/** The distance between buttons, in pixels. */
const APART = 16;
const MOST = 12;

const sentence = (m: Mark): string => m.kind === 'alert' ? `${m.title} fired from ${clock(m.from)}${m.to > m.from ? ` to ${clock(m.to)}` : ''}` : `${m.title} at ${clock(m.from)}`;

export function MarkButtons({ marks, times, box, onAround, onSelect }: { marks: Mark[]; times: number[]; box: { left: number; width: number }; onAround?: (t: number) => void; onSelect: (s: Selection) => void }) {
	const first = times[0], seconds = times[times.length - 1] - first;
	if (!marks.length || !(seconds > 0) || !box.width) return null;
	return (
		<div class="marks">
			{clustered(marks, seconds / box.width * APART).map((group) => (
				<MarkButton key={`${group[0].kind} ${group[0].from} ${group[0].title}`} group={group} left={box.left + (group[0].from - first) / seconds * box.width} onAround={onAround} onSelect={onSelect} />
			))}
		</div>
	);
}

function MarkButton({ group, left, onAround, onSelect }: { group: Mark[]; left: number; onAround?: (t: number) => void; onSelect: (s: Selection) => void }) {
	const [open, setOpen] = useState(false);
	const fired = group.some((m) => m.kind === 'alert'), words = group.map(sentence).join('; ');
	const act = (f: () => void) => () => { setOpen(false); f(); };
	return (
		<div class={`mark ${fired ? 'fired' : ''}`} ref={styled({ transform: `translateX(${left}px)` /* not left: it moves with time, and that is no layout */ })}>
			<Popover open={open} setOpen={setOpen} has="dialog" label={words.length > 200 ? `${words.slice(0, 200)}…` : words} title={words} button={<i aria-hidden="true">{fired ? '▲' : '◆'}</i>}>
				<div class="mark-body" role="dialog" aria-label={fired ? 'Alerts' : 'Changes'}>
					{group.slice(0, MOST).map((m) => (
						<div key={`${m.title} ${m.from} ${JSON.stringify(m.labels)}`}>
							<strong>{m.title}</strong>
							<p class="hint">{m.kind === 'alert' ? <>fired {moment(m.from)}{m.to > m.from && <> – {clock(m.to)} ({formatDuration(m.to - m.from)})</>}</> : moment(m.from)}</p>
							{Object.keys(m.labels).length > 0 && <p class="tags">{Object.entries(m.labels).slice(0, 8).map(([k, v]) => <Chip key={k} name={k} value={v} />)}</p>}
							<p class="mark-acts">
								{onAround && <button type="button" onClick={act(() => onAround(m.from))}>Compare around</button>}
								<button type="button" onClick={act(() => onSelect(m.to > m.from ? { from: m.from, to: m.to } : { at: m.from }))}>{m.to > m.from ? 'Its profile' : 'Profile then'}</button>
								{m.kind === 'alert' && <a class="button" href={`${pageHref('alerts')}?${new URLSearchParams({ find: m.title })}`}>The alert</a>}
							</p>
						</div>
					))}
					{group.length > MOST && <p class="hint">and {group.length - MOST} more</p>}
				</div>
			</Popover>
		</div>
	);
}
