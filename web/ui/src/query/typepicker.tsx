// SPDX-License-Identifier: Apache-2.0
// What can be asked about: profile types under their plain titles, grouped by what they cost.
import { useEffect, useRef, useState } from 'preact/hooks';
import type { ProfileType } from '../base/api';
import { Chevron } from '../base/icons';
import { Popover } from '../base/ui';

const GROUPS: [string, RegExp][] = [
	['CPU', /^(process_cpu|cpu|on_cpu)(:|$)/],
	['Waiting', /^(off_cpu|mutex|block|contention)(:|$)/],
	['Wall clock', /^(fgprof|wall)(:|$)/],
	['Memory', /^(memory|heap|allocs)(:|$)/],
	['Goroutines and threads', /^(goroutine|threadcreate)(:|$)/],
	['Other', /./],
];

export function grouped(types: ProfileType[]): [string, ProfileType[]][] {
	const out = new Map<string, ProfileType[]>(GROUPS.map(([g]) => [g, []]));
	for (const t of types) out.get(GROUPS.find(([, re]) => re.test(t.name))![0])!.push(t);
	for (const list of out.values()) list.sort((a, b) => a.title.localeCompare(b.title));
	return [...out].filter(([, list]) => list.length);
}

/** How a query names a type: by its alias where it has one. */
export const spelling = (t: ProfileType): string => t.alias || t.name;

export const findType = (types: ProfileType[] | null, name: string): ProfileType | undefined =>
	name ? types?.find((t) => t.alias === name || t.name === name) : undefined;

/** What to show before anyone asked: a CPU profile if there is one, else what has most series. */
export function busiest(types: ProfileType[]): ProfileType | undefined {
	const live = types.filter((t) => t.series > 0);
	return live.find((t) => t.alias === 'cpu') ?? live.find((t) => t.alias === 'on_cpu')
		?? live.find((t) => t.unit === 'nanoseconds') ?? [...live].sort((a, b) => b.series - a.series)[0];
}

export function TypePicker({ types, current, onPick }: { types: ProfileType[]; current: ProfileType | undefined; onPick: (t: ProfileType) => void }) {
	const [open, setOpen] = useState(false);
	const list = useRef<HTMLDivElement>(null);
	useEffect(() => {
		if (open) (list.current!.querySelector<HTMLElement>('[aria-selected=true]') ?? list.current!.querySelector<HTMLElement>('[role=option]'))?.focus();
	}, [open]);
	const onKey = (e: KeyboardEvent) => {
		const step = { ArrowDown: 1, ArrowUp: -1, Home: -1e6, End: 1e6 }[e.key];
		if (!step) return;
		e.preventDefault();
		const all = [...list.current!.querySelectorAll<HTMLElement>('[role=option]')];
		const at = all.indexOf(document.activeElement as HTMLElement);
		all[Math.max(0, Math.min(all.length - 1, at + step))].focus();
	};
	return (
		<Popover class="types" open={open} setOpen={setOpen} title="Profile type"
			button={<><span class="types-now">{current?.title ?? 'Profile type'}</span><Chevron /></>}>
			<div class="types-list" role="listbox" aria-label="Profile type" ref={list} onKeyDown={onKey}>
				{grouped(types).map(([group, members]) => (
					<div class="types-group" role="group" aria-label={group} key={group}>
						<div class="types-head">{group}</div>
						{members.map((t) => (
							<button key={t.name} type="button" role="option" aria-selected={t === current} class={t === current ? 'on' : ''}
								title={t.help ? `${t.help}\n${t.name}` : t.name} onClick={() => { setOpen(false); onPick(t); }}>
								<span>{t.title}</span>
								<code>{spelling(t)}</code>
								<small>{t.series} series</small>
							</button>
						))}
					</div>
				))}
			</div>
		</Popover>
	);
}
