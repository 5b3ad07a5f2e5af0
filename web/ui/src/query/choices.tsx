// SPDX-License-Identifier: Apache-2.0
// A list to choose from with a box to search it: arrows move, Enter takes, letters narrow.
import type { ComponentChildren } from 'preact';
import { keyTable } from '../base/keys';
import { listKeys } from '../base/listkeys';
import { useEffect, useId, useLayoutEffect, useRef, useState } from 'preact/hooks';

const keys = keyTable('In a list with a search box', { take: ['Enter', 'take the marked one'] }, 2);

export interface Choice {
	id: string; text: ComponentChildren;
	/** Shown small beside it, and as a hint. */
	code?: string; small?: string; title?: string;
	group?: string; on?: boolean;
}

interface Props {
	label: string; placeholder: string; items: Choice[];
	text: string; setText: (t: string) => void;
	onPick: (id: string) => void;
	/** Several can be on: a click on the mark switches one and leaves the list open. */
	onMark?: (id: string) => void;
	/** Below the list: why it is empty, or that there is more. */
	note?: string;
	/** Before the list. */
	children?: ComponentChildren;
}

export function Choices({ label, placeholder, items, text, setText, onPick, onMark, note, children }: Props) {
	const id = useId(), input = useRef<HTMLInputElement>(null), list = useRef<HTMLDivElement>(null);
	const [at, setAt] = useState(-1);
	/* The first is meant once something is typed; before that, what is chosen already. */
	const active = items.length === 0 ? -1 : at >= 0 ? Math.min(at, items.length - 1) : text ? 0 : Math.max(0, items.findIndex((c) => c.on));
	useEffect(() => {
		const before = document.activeElement as HTMLElement | null, el = input.current!;
		el.focus();
		return () => { if (document.activeElement === el || document.activeElement === document.body) before?.focus({ preventScroll: true }); };
	}, []);
	useLayoutEffect(() => { list.current?.querySelector('.at')?.scrollIntoView({ block: 'nearest' }); }, [active, items]);
	const onKey = (e: KeyboardEvent) => {
		const step = (by: number) => items.length > 0 && setAt((active + by + items.length) % items.length);
		const not = () => false as const;
		listKeys.handle(e, { next: () => step(1), before: () => step(-1), left: not, right: not, first: not, last: not })
			|| keys.handle(e, { take: () => active >= 0 && (onPick(items[active].id), true) });
	};
	return (
		<div class="choices">
			<input ref={input} type="text" role="combobox" aria-label={label} placeholder={placeholder} value={text} autocomplete="off" spellcheck={false} autocapitalize="off"
				aria-expanded={true} aria-controls={id} aria-autocomplete="list" aria-activedescendant={active >= 0 ? `${id}-${active}` : undefined}
				onInput={(e) => { setAt(-1); setText(e.currentTarget.value); }} onKeyDown={onKey} />
			{children}
			<div class="types-list" id={id} role="listbox" aria-label={label} aria-multiselectable={onMark ? true : undefined} ref={list}>
				{groups(items).map(([group, members]) => (
					<div class="types-group" role={group ? 'group' : 'presentation'} aria-label={group || undefined} key={group}>
						{group && <div class="types-head" aria-hidden="true">{group}</div>}
						{members.map(([c, i]) => (
							<div key={c.id} id={`${id}-${i}`} role="option" aria-selected={c.on ?? false} class={`choice ${c.on ? 'on' : ''} ${i === active ? 'at' : ''}`} title={c.title}
								onMouseMove={() => { if (i !== active) setAt(i); }} onMouseDown={(e) => e.preventDefault()} onClick={() => onPick(c.id)}>
								{onMark && <i class="mark" title="Together with others" onClick={(e) => { e.stopPropagation(); onMark(c.id); }} />}
								<span>{c.text}</span>{c.code && <code>{c.code}</code>}{c.small && <small>{c.small}</small>}
							</div>
						))}
					</div>
				))}
			</div>
			{note && <p class="hint">{note}</p>}
		</div>
	);
}

/** Items with their places in the list, by group, in the order of first appearance. */
function groups(items: Choice[]): [string, [Choice, number][]][] {
	const out = new Map<string, [Choice, number][]>();
	items.forEach((c, i) => out.set(c.group ?? '', [...out.get(c.group ?? '') ?? [], [c, i]]));
	return [...out];
}
