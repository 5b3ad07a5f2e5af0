// SPDX-License-Identifier: Apache-2.0
// Menus: at a button, or where one has pointed. The focus goes in when one opens and back when it closes; arrow keys walk, letters jump.
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import { useSignal } from '@preact/signals';
import { closeKeys, listKeys, stepTo } from './listkeys';
import { Popover } from './ui';

/** The entries are elements of role menuitem, menuitemradio or menuitemcheckbox: MenuItem is one. */
export function Menu({ label, children }: { label: string; children: ComponentChildren }) {
	const el = useRef<HTMLDivElement>(null);
	const all = () => [...el.current!.querySelectorAll<HTMLElement>('[role^=menuitem]:not(:disabled)')];
	/* at once: who opened it by a key goes on typing */
	useLayoutEffect(() => { (el.current!.querySelector<HTMLElement>('[aria-checked=true]') ?? all()[0])?.focus({ preventScroll: true }); }, []);
	const onKey = (e: KeyboardEvent) => {
		const done = listKeys.handle(e, {
			next: () => stepTo(all(), 1), before: () => stepTo(all(), -1), right: () => false, left: () => false,
			first: () => all()[0]?.focus(), last: () => all().at(-1)?.focus(),
		});
		if (done || e.key.length !== 1 || e.key === ' ' || e.ctrlKey || e.metaKey || e.altKey) return;
		const list = all(), at = list.indexOf(document.activeElement as HTMLElement);
		const to = [...list.slice(at + 1), ...list.slice(0, at + 1)].find((i) => i.textContent!.trim().toLowerCase().startsWith(e.key.toLowerCase()));
		if (!to) return;
		to.focus();
		e.stopPropagation();
	};
	return <div class="menu" role="menu" aria-label={label} ref={el} onKeyDown={onKey}>{children}</div>;
}

/** checked: one of several, of which that is the one. href: a link, with `download` to a file. hint: small, behind or below the text. */
export function MenuItem({ children, onPick, checked, disabled, href, download, hint, icon, title }: {
	children: ComponentChildren; onPick?: () => void; checked?: boolean; disabled?: boolean; href?: string; download?: string | boolean; hint?: ComponentChildren; icon?: ComponentChildren; title?: string;
}) {
	const inside = <>{icon}<span>{children}</span>{hint !== undefined && <small>{hint}</small>}</>;
	if (href !== undefined) return <a role="menuitem" class="menu-item" href={href} download={download} title={title} onClick={onPick}>{inside}</a>;
	return (
		<button type="button" class="menu-item" role={checked === undefined ? 'menuitem' : 'menuitemradio'} aria-checked={checked} disabled={disabled} title={title} onClick={onPick}>{inside}</button>
	);
}

/** A button that opens a menu. label: the menu's name; buttonLabel: the button's name, if it shows no text. children: the entries, given a function
 * that closes it. */
export function MenuButton({ button, label, buttonLabel, title, align, class: cls, buttonClass, children }: {
	button: ComponentChildren; label: string; buttonLabel?: string; title?: string; align?: 'left' | 'right'; class?: string; buttonClass?: string; children: (close: () => void) => ComponentChildren;
}) {
	const open = useSignal(false), root = useRef<HTMLSpanElement>(null);
	const close = () => { open.value = false; root.current?.querySelector('button')?.focus(); };
	return (
		<span class="menu-button" ref={root} onKeyDown={(e) => { if (!open.value && e.key === 'ArrowDown') { e.preventDefault(); open.value = true; } }}>
			<Popover has="menu" open={open.value} setOpen={(o) => { open.value = o; }} button={button} title={title} label={buttonLabel} align={align} class={cls} buttonClass={buttonClass}>
				<Menu label={label}>{children(close)}</Menu>
			</Popover>
		</span>
	);
}

/** A menu at a point of the window; onClose also when one clicks elsewhere or presses Escape. The focus goes back to where it was. */
export function ContextMenu({ label, title, x, y, onClose, children }: { label: string; title?: ComponentChildren; x: number; y: number; onClose: () => void; children: ComponentChildren }) {
	const el = useRef<HTMLDivElement>(null);
	useLayoutEffect(() => {
		const e = el.current!;
		e.style.left = `${Math.max(8, Math.min(x, innerWidth - e.offsetWidth - 8))}px`;
		e.style.top = `${Math.max(8, Math.min(y, innerHeight - e.offsetHeight - 8))}px`;
	});
	const latest = useRef(onClose);
	latest.current = onClose;
	closeKeys.use({ close: onClose });
	useEffect(() => {
		const was = document.activeElement as HTMLElement | null;
		const away = (e: Event) => { if (el.current?.contains(e.target as Node) === false) latest.current(); };
		document.addEventListener('mousedown', away);
		document.addEventListener('scroll', away, true);
		return () => {
			document.removeEventListener('mousedown', away);
			document.removeEventListener('scroll', away, true);
			if (was?.isConnected && (document.activeElement === document.body || document.activeElement === null)) was.focus({ preventScroll: true });
		};
	}, []);
	return (
		<div class="context" ref={el} onKeyDown={(e) => closeKeys.handle(e, { close: onClose })} onContextMenu={(e) => e.preventDefault()}>
			{title !== undefined && <div class="menu-title">{title}</div>}
			<Menu label={label}>{children}</Menu>
		</div>
	);
}
