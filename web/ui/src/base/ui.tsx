// SPDX-License-Identifier: Apache-2.0
// Small parts that several places use.
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Check, Copy } from './icons';

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

/** A choice of few, all visible. */
export function Segments<T extends string | number>({ label, value, options, onChange }: { label: string; value: T | null; options: [T, string, string?][]; onChange: (v: T) => void }) {
	return (
		<div class="segments" role="radiogroup" aria-label={label}>
			{options.map(([v, name, title]) => (
				<button key={v} type="button" role="radio" aria-checked={v === value} class={v === value ? 'on' : ''} title={title} onClick={() => onChange(v)}>{name}</button>
			))}
		</div>
	);
}

/** A button with something that opens below it; closes on Escape and on a click elsewhere. */
export function Popover({ button, class: cls = '', align = 'left', title, open, setOpen, children }: {
	button: ComponentChildren; class?: string; align?: 'left' | 'right'; title?: string; open: boolean; setOpen: (o: boolean) => void; children: ComponentChildren;
}) {
	const root = useRef<HTMLDivElement>(null);
	useEffect(() => {
		if (!open) return;
		const away = (e: MouseEvent) => { if (!root.current!.contains(e.target as Node)) setOpen(false); };
		const esc = (e: KeyboardEvent) => {
			if (e.key !== 'Escape') return;
			setOpen(false);
			root.current!.querySelector('button')!.focus();
		};
		document.addEventListener('mousedown', away);
		document.addEventListener('keydown', esc);
		return () => { document.removeEventListener('mousedown', away); document.removeEventListener('keydown', esc); };
	}, [open]);
	return (
		<div class={`popover ${cls}`} ref={root}>
			<button type="button" aria-expanded={open} title={title} onClick={() => setOpen(!open)}>{button}</button>
			{open && <div class={`popover-body ${align}`}>{children}</div>}
		</div>
	);
}

/** Sets a style property without an inline style attribute, which the page's content policy forbids. */
export function Bar({ share, class: cls = '' }: { share: number; class?: string }) {
	const el = useRef<HTMLElement>(null);
	useEffect(() => { el.current!.style.width = `${Math.max(0, Math.min(100, share * 100))}%`; }, [share]);
	return <i class={`bar ${cls}`} ref={el} aria-hidden="true" />;
}
