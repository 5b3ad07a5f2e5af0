// SPDX-License-Identifier: Apache-2.0
// What one can do with a frame: the menu of a box.
import { useEffect, useRef } from 'preact/hooks';
import { has, query, writeUrl } from '../base/state';
import { copyText } from '../base/ui';
import type { FlameTree } from '../flame/tree';
import { flameQuery, plainSelector } from '../query/query';

export function FrameMenu({ tree, at, onClose, onZoom, onSearch }: { tree: FlameTree; at: { node: number; x: number; y: number }; onClose: () => void; onZoom: (n: number) => void; onSearch: (name: string) => void }) {
	const el = useRef<HTMLDivElement>(null);
	const name = tree.names[tree.frame[at.node]];
	useEffect(() => {
		const e = el.current!;
		e.style.left = `${Math.min(at.x, innerWidth - e.offsetWidth - 8)}px`;
		e.style.top = `${Math.min(at.y, innerHeight - e.offsetHeight - 8)}px`;
		e.querySelector('button')?.focus();
		const away = (ev: MouseEvent) => { if (!e.contains(ev.target as Node)) onClose(); };
		document.addEventListener('mousedown', away);
		return () => document.removeEventListener('mousedown', away);
	}, [at]);
	const act = (f: () => void) => () => { f(); onClose(); };
	const wrap = (fn: string) => { query.value = `${fn}(${flameQuery(query.value, null, 0).expr}, {function=${JSON.stringify(name)}})`; writeUrl('push'); };
	return (
		<div class="menu context" role="menu" ref={el} aria-label={name}>
			<div class="menu-title">{name}</div>
			<button type="button" role="menuitem" onClick={act(() => onZoom(at.node))}>Zoom in</button>
			<button type="button" role="menuitem" onClick={act(() => onSearch(name))}>Mark everywhere</button>
			{at.node > 0 && name !== '(other)' && has('focus') && plainSelector(query.value) && <>
				<button type="button" role="menuitem" onClick={act(() => wrap('focus'))}>Query only stacks with it</button>
				<button type="button" role="menuitem" onClick={act(() => wrap('ignore'))}>Query without it</button>
			</>}
			<button type="button" role="menuitem" onClick={act(() => void copyText(name))}>Copy the name</button>
		</div>
	);
}
