// SPDX-License-Identifier: Apache-2.0
// Small parts that several places use.
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { cutName } from './cutname';
import { Check, Close, Copy } from './icons';
import { closeKeys, listKeys } from './listkeys';

export async function copyText(text: string): Promise<void> {
	try {
		await navigator.clipboard.writeText(text);
	} catch { /* plain http beyond localhost has no clipboard API */
		const t = document.createElement('textarea');
		t.value = text;
		t.className = 'offscreen';
		document.body.append(t);
		t.select();
		document.execCommand('copy');
		t.remove();
	}
}

export function CopyButton({ text, label, title, icon = <Copy />, class: cls = 'ghost' }: { text: string | (() => string); label?: string; title: string; icon?: ComponentChildren; class?: string }) {
	const [done, setDone] = useState(false);
	useEffect(() => {
		if (!done) return;
		const timer = setTimeout(() => setDone(false), 1400);
		return () => clearTimeout(timer);
	}, [done]);
	return (
		<button type="button" class={`${cls} ${done ? 'done' : ''}`} title={title} aria-label={label ? undefined : title}
			onClick={() => void copyText(typeof text === 'string' ? text : text()).then(() => setDone(true))}>
			{done ? <Check /> : icon}{label && <span>{done ? 'Copied' : label}</span>}
		</button>
	);
}

/** For elements of that role in a row: one can be reached by tab, and arrow keys choose among them. Returns the current one, and the
 * attributes of the elements. */
function useRow<T>(role: string, value: T | null, options: [T, ...unknown[]][], onChange: (v: T) => void) {
	const ref = useRef<HTMLDivElement>(null), at = Math.max(0, options.findIndex(([v]) => v === value)), upright = role === 'radio';
	const go = (to: number) => {
		const i = (to + options.length) % options.length;
		onChange(options[i][0]);
		ref.current!.querySelectorAll<HTMLElement>(`[role=${role}]`)[i].focus();
	};
	const right = () => go(at + 1), left = () => go(at - 1);
	const onKeyDown = (e: KeyboardEvent) => listKeys.handle(e, { next: () => upright && right(), before: () => upright && left(), right, left, first: () => go(0), last: () => go(options.length - 1) });
	return { at, row: { ref, onKeyDown } };
}

/** A choice of few, all visible. */
export function Segments<T extends string | number>({ label, value, options, onChange }: { label: string; value: T | null; options: [T, string, string?][]; onChange: (v: T) => void }) {
	const { at, row } = useRow('radio', value, options, onChange);
	return (
		<div class="segments" role="radiogroup" aria-label={label} {...row}>
			{options.map(([v, name, title], i) => (
				<button key={v} type="button" role="radio" aria-checked={v === value} tabIndex={i === at ? 0 : -1} class={v === value ? 'on' : ''} title={title} onClick={() => onChange(v)}>{name}</button>
			))}
		</div>
	);
}

/** Tabs over a panel that the caller draws below: give that `role="tabpanel"` and `id={`${id}-panel`}`. */
export function Tabs<T extends string>({ id, label, value, options, onChange }: { id: string; label: string; value: T; options: [T, ComponentChildren][]; onChange: (v: T) => void }) {
	const { at, row } = useRow('tab', value, options, onChange);
	return (
		<div class="tabs" role="tablist" aria-label={label} {...row}>
			{options.map(([v, name], i) => (
				<button key={v} type="button" role="tab" aria-selected={v === value} aria-controls={v === value ? `${id}-panel` : undefined} tabIndex={i === at ? 0 : -1} onClick={() => onChange(v)}>{name}</button>
			))}
		</div>
	);
}

/** A label, a filter, a choice that was made; with onRemove one that can be taken away. */
export function Chip({ name, value, title, onPick, onRemove, class: cls = '' }: { name: string; value?: string; title?: string; onPick?: () => void; onRemove?: () => void; class?: string }) {
	const text = <>{name}{value !== undefined && <>=<b>{value}</b></>}</>;
	return (
		<span class={`tag ${cls}`} title={title}>
			{onPick ? <button type="button" class="tag-text" onClick={onPick}>{text}</button> : <span class="tag-text">{text}</span>}
			{onRemove && <button type="button" class="tag-x" title="Remove" aria-label={`Remove ${name}${value !== undefined ? ` ${value}` : ''}`} onClick={onRemove}><Close /></button>}
		</span>
	);
}

/** Moves a popup of a button, or at a point, into the window. */
export function intoWindow(e: HTMLElement): void {
	e.style.translate = '';
	const r = e.getBoundingClientRect(), left = r.left + scrollX, right = r.right + scrollX, room = document.documentElement.clientWidth - 8;
	const dx = right > room ? Math.max(8 - left, room - right) : left < 8 ? 8 - left : 0;
	if (dx) e.style.translate = `${dx}px 0`;
	if (scrollX) scrollTo(0, scrollY); /* the focus went into it where it was, and took the page along */
}

/** A button with something that opens below it; closes on Escape, on a click elsewhere, and when the focus leaves it. label: its name if it
 * shows no text. */
export function Popover({ button, class: cls = '', buttonClass, align = 'left', title, label, has, disabled, open, setOpen, children }: {
	button: ComponentChildren; class?: string; buttonClass?: string; align?: 'left' | 'right'; title?: string; label?: string; has?: 'menu' | 'listbox' | 'dialog'; disabled?: boolean;
	open: boolean; setOpen: (o: boolean) => void; children: ComponentChildren;
}) {
	const root = useRef<HTMLDivElement>(null), body = useRef<HTMLDivElement>(null);
	useLayoutEffect(() => {
		if (!open) return;
		const observer = new ResizeObserver(() => { if (body.current) intoWindow(body.current); });
		intoWindow(body.current!);
		observer.observe(body.current!);
		observer.observe(document.documentElement);
		return () => observer.disconnect();
	}, [open]);
	useEffect(() => {
		if (!open) return;
		/* a click on text in it gives the focus to what is around all of it, which is no way out */
		const away = (e: Event) => { const t = e.target as Node, r = root.current; if (r?.contains(t) === false && !(e.type === 'focusin' && t.contains(r))) setOpen(false); };
		document.addEventListener('mousedown', away);
		document.addEventListener('focusin', away);
		return () => { document.removeEventListener('mousedown', away); document.removeEventListener('focusin', away); };
	}, [open]);
	const close = () => { setOpen(false); root.current!.querySelector('button')!.focus(); };
	closeKeys.use({ close }, open);
	return (
		<div class={`popover ${cls}`} ref={root} onKeyDown={(e) => { if (open) closeKeys.handle(e, { close }); }}>
			<button type="button" class={buttonClass} aria-expanded={open} aria-haspopup={has} title={title} aria-label={label} disabled={disabled} onClick={() => setOpen(!open)}>{button}</button>
			{open && <div class={`popover-body ${align}`} ref={body}>{children}</div>}
		</div>
	);
}

/** A window over the page, which holds the focus until it is closed: by Escape, its cross, or a click beside it. */
export function Dialog({ title, class: cls = '', onClose, children }: { title: string; class?: string; onClose: () => void; children: ComponentChildren }) {
	const el = useRef<HTMLDialogElement>(null), [body, more] = useScrolls<HTMLDivElement>();
	useEffect(() => {
		const was = document.activeElement as HTMLElement | null;
		el.current!.showModal();
		return () => { if (was?.isConnected) was.focus(); };
	}, []);
	return (
		<dialog class={`dialog ${cls}`} ref={el} aria-label={title} onClose={onClose} onMouseDown={(e) => { if (e.target === el.current) el.current!.close(); }}>
			<header class="dialog-head"><h2>{title}</h2><button type="button" class="ghost" title="Close (Escape)" aria-label="Close" onClick={() => el.current!.close()}><Close /></button></header>
			<div class="dialog-body" ref={body} role="group" aria-label={title} tabIndex={more ? 0 : undefined}>{children}</div>
		</dialog>
	);
}

/** A ref that sets style properties, without an inline style attribute, which the page's content policy forbids. At once: after a frame they would
 * cost another one. */
export const styled = (to: Partial<CSSStyleDeclaration>) => (e: HTMLElement | null): void => { if (e) Object.assign(e.style, to); };

/** A name. Where it has no room, its middle is left out (cutName says what stays). The stylesheet draws the end after the beginning. The end in the text has no size: it is there for copying, for searching the page and for screen readers. */
export function Cut({ text }: { text: string }) {
	const [head, tail] = cutName(text) ?? [];
	return head ? <span class="cut" data-end={tail}><i>{head}<i>{tail}</i></i></span> : <span>{text}</span>;
}

export function Bar({ share, class: cls = '' }: { share: number; class?: string }) {
	return <i class={`bar ${cls}`} ref={styled({ width: `${Math.max(0, Math.min(100, share * 100))}%` })} aria-hidden="true" />;
}

/** Selects the visible ones of many rows of one height, in an element that scrolls: put `ref` on that, draw rows `from` to `to`, and elements
 * `before` and `after` px high around them. */
export function useWindow<E extends HTMLElement>(rows: number, height: number): { ref: { current: E | null }; from: number; to: number; before: number; after: number } {
	const ref = useRef<E>(null);
	const [seen, setSeen] = useState<[number, number]>([0, 60]);
	useLayoutEffect(() => {
		const e = ref.current!;
		const look = () => {
			const from = Math.max(0, Math.floor(e.scrollTop / height) - 5), to = Math.ceil((e.scrollTop + e.clientHeight) / height) + 5;
			setSeen((was) => was[0] === from && was[1] === to ? was : [from, to]);
		};
		look();
		const observer = new ResizeObserver(look);
		observer.observe(e);
		e.addEventListener('scroll', look, { passive: true });
		return () => { observer.disconnect(); e.removeEventListener('scroll', look); };
	}, [height]);
	const to = Math.min(rows, seen[1]), from = Math.min(seen[0], to);
	return { ref, from, to, before: from * height, after: (rows - to) * height };
}

/** Whether an element holds more than it shows, and so scrolls: then it has to be in reach of the keyboard. */
function useScrolls<E extends HTMLElement>(): [ref: { current: E | null }, scrolls: boolean] {
	const el = useRef<E>(null);
	const [more, setMore] = useState(false);
	useLayoutEffect(() => {
		const e = el.current!, look = () => setMore(e.scrollWidth > e.clientWidth || e.scrollHeight > e.clientHeight);
		look();
		const observer = new ResizeObserver(look);
		observer.observe(e);
		for (const child of e.children) observer.observe(child);
		return () => observer.disconnect();
	}, []);
	return [el, more];
}

/** Content that may be wider than the window, and then scrolls by itself: also by arrow keys, for which it takes the focus, but only
 * then. */
export function ScrollX({ label, class: cls = '', children }: { label: string; class?: string; children: ComponentChildren }) {
	const [el, more] = useScrolls<HTMLDivElement>();
	return <div class={`scroll-x ${cls}`} ref={el} role="group" aria-label={label} tabIndex={more ? 0 : undefined}>{children}</div>;
}
