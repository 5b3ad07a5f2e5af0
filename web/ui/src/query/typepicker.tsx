// SPDX-License-Identifier: Apache-2.0
// What can be asked about: profile types under their plain titles, grouped by what they cost.
import { useState } from 'preact/hooks';
import type { ProfileType } from '../base/api';
import { Chevron } from '../base/icons';
import { Popover } from '../base/ui';
import { Choices, type Choice } from './choices';

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

/** The default type: a CPU profile if there is one, of the agent rather than of single programs, else the type with most series. */
export function busiest(types: ProfileType[]): ProfileType | undefined {
	const live = types.filter((t) => t.series > 0);
	return live.find((t) => t.alias === 'on_cpu') ?? live.find((t) => t.alias === 'cpu')
		?? live.find((t) => t.unit === 'nanoseconds') ?? [...live].sort((a, b) => b.series - a.series)[0];
}

export function TypePicker({ types, current, open, setOpen, onPick }: { types: ProfileType[]; current: ProfileType | undefined; open: boolean; setOpen: (o: boolean) => void; onPick: (t: ProfileType) => void }) {
	return (
		<Popover class="types" open={open} setOpen={setOpen} title="Profile type (t)" button={<><span class="types-now">{current?.title ?? 'Profile type'}</span><Chevron /></>}>
			<Types types={types} current={current} onPick={(t) => { setOpen(false); onPick(t); }} />
		</Popover>
	);
}

function Types({ types, current, onPick }: { types: ProfileType[]; current: ProfileType | undefined; onPick: (t: ProfileType) => void }) {
	const [text, setText] = useState('');
	const wanted = text.toLowerCase().split(/[\s_-]+/).filter(Boolean);
	const items = grouped(types).flatMap(([group, members]) => members.filter((t) => wanted.every((w) => `${t.title} ${text.includes(':') ? t.name : spelling(t)}`.toLowerCase().includes(w)))
		.map((t): Choice => ({ id: t.name, text: t.title, code: spelling(t), small: `${t.series} series`, title: t.help ? `${t.help}\n${t.name}` : t.name, group, on: t === current })));
	return <Choices label="Profile type" placeholder="search types" text={text} setText={setText} items={items} onPick={(name) => onPick(types.find((t) => t.name === name)!)}
		note={items.length === 0 ? 'No type is called that.' : undefined} />;
}
