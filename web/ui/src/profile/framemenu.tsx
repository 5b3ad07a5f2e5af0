// SPDX-License-Identifier: Apache-2.0
// What one can do with a frame: the menu of a box and of a row. Whoever shows frames opens it by openFrameMenu; there is one of it, in the
// frame of the page (FrameMenuHost).
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import { signal } from '@preact/signals';
import { has, query, writeUrl } from '../base/state';
import { copyText } from '../base/ui';
import { flameQuery, plainSelector } from '../query/query';

export interface MenuFrame { name: string; file: string; binary: string; line: number; node?: number }
/** What only those who show the frame can do with it. What is left out is not offered. */
export interface MenuActs {
	zoom?: () => void;
	/** Marks the function wherever it is. */
	mark?: () => void;
	/** Of a profile that is not the server's answer to the query: nothing can be asked about it. */
	apart?: boolean;
}

const shown = signal<{ frame: MenuFrame; x: number; y: number; acts: MenuActs; back: Element | null } | null>(null);

export function openFrameMenu(frame: MenuFrame, x: number, y: number, acts: MenuActs = {}): void {
	shown.value = { frame, x, y, acts, back: document.activeElement };
}

export function FrameMenuHost() {
	const el = useRef<HTMLDivElement>(null), m = shown.value;
	const close = (back = true) => {
		if (back && m?.back instanceof HTMLElement) m.back.focus({ preventScroll: true });
		shown.value = null;
	};
	useLayoutEffect(() => {
		const e = el.current;
		if (!e || !m) return;
		e.style.left = `${Math.max(8, Math.min(m.x, innerWidth - e.offsetWidth - 8))}px`;
		e.style.top = `${Math.max(8, Math.min(m.y, innerHeight - e.offsetHeight - 8))}px`;
		e.querySelector<HTMLElement>('[role=menuitem]')?.focus();
	}, [m]);
	useEffect(() => {
		if (!m) return;
		const away = (e: Event) => { if (!el.current?.contains(e.target as Node)) close(false); };
		const gone = () => close(false);
		document.addEventListener('mousedown', away);
		addEventListener('popstate', gone);
		return () => { document.removeEventListener('mousedown', away); removeEventListener('popstate', gone); };
	}, [m]);
	if (!m) return null;
	const { frame, acts } = m, { name } = frame;
	const onKey = (e: KeyboardEvent) => {
		const all = [...el.current!.querySelectorAll<HTMLElement>('[role=menuitem]')], at = all.indexOf(document.activeElement as HTMLElement);
		const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 }[e.key];
		if (to !== undefined) all.at(to % all.length)?.focus();
		else if (e.key === 'Escape' || e.key === 'Tab') close();
		else return;
		e.preventDefault();
		e.stopPropagation();
	};
	const item = (text: string, act: () => void) => <button type="button" role="menuitem" tabIndex={-1} onClick={() => { close(); act(); }}>{text}</button>;
	const wrap = (fn: string) => { query.value = `${fn}(${flameQuery(query.value, null, 0).expr}, {function=${JSON.stringify(name)}})`; writeUrl('push'); };
	const real = frame.node !== 0 && name !== '(other)';
	return (
		<div class="menu context" role="menu" ref={el} aria-label={name} onKeyDown={onKey}>
			<div class="menu-title">{name}</div>
			{acts.zoom && item('Zoom in', acts.zoom)}
			{acts.mark && item('Mark everywhere', acts.mark)}
			{real && !acts.apart && has('focus') && plainSelector(query.value) && <>
				{item('Query only stacks with it', () => wrap('focus'))}
				{item('Query without it', () => wrap('ignore'))}
			</>}
			{item('Copy the name', () => void copyText(name))}
		</div>
	);
}
