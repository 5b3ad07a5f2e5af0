// SPDX-License-Identifier: Apache-2.0
// What one can do with a frame: the menu of a box and of a row. Whoever shows frames opens it by openFrameMenu; there is one of it, in the
// frame of the page (FrameMenuHost).
import { useEffect, useState } from 'preact/hooks';
import { signal } from '@preact/signals';
import { api } from '../base/api';
import { ContextMenu, MenuItem } from '../base/menu';
import { has, page, query, types } from '../base/state';
import { copyText } from '../base/ui';
import type { FlameTree } from '../flame/tree';
import { functionOverTime } from '../graph/functionline';
import { frameIs, type FilterName } from '../query/filters';
import { findType } from '../query/typepicker';
import { AlertDialog, type AlertOf } from '../share/alertdialog';
import { alertProfile } from '../share/alertrule';
import { filterBy, sandwichOf } from './view';

export interface MenuFrame { name: string; file: string; binary: string; line: number; node?: number }
/** Actions that only the caller can run. Actions that are left out are not offered. */
export interface MenuActs {
	zoom?: () => void;
	/** Marks the function wherever it is. */
	mark?: () => void;
	/** Instead of the page's query, what a filter becomes part of. */
	filter?: (fn: FilterName, args: string) => void;
	/** For a profile that is not the server's answer to the query: nothing can be requested about it. */
	apart?: boolean;
}

const shown = signal<{ frame: MenuFrame; x: number; y: number; acts: MenuActs } | null>(null);
const alert = signal<AlertOf | null>(null);

/** The frame of a box. */
export function frameOf(t: FlameTree, node: number): MenuFrame {
	const f = t.frame[node];
	return { name: t.names[f], file: t.files[f], binary: t.binaries[f], line: t.line[node] || t.startLines[f], node };
}

export function openFrameMenu(frame: MenuFrame, x: number, y: number, acts: MenuActs = {}): void {
	shown.value = { frame, x, y, acts };
}

/** Links of the configuration to that place in the source. */
function useLinks(f: MenuFrame): { name: string; url: string }[] {
	const [links, setLinks] = useState<{ name: string; url: string }[]>([]);
	useEffect(() => {
		if (!f.file) return;
		const abort = new AbortController();
		api.sourceLinks(f.file, f.line, f.name, f.binary, abort.signal).then((a) => setLinks(a.data), () => undefined);
		return () => abort.abort();
	}, [f]);
	return links;
}

export function FrameMenuHost() {
	const m = shown.value, at = page.value;
	useEffect(() => { shown.value = null; alert.value = null; }, [at]);
	return (
		<>
			{m && <FrameMenu key={`${m.x} ${m.y} ${m.frame.name}`} {...m} />}
			{alert.value && <AlertDialog of={alert.value} onClose={() => { alert.value = null; }} />}
		</>
	);
}

function FrameMenu({ frame, x, y, acts }: { frame: MenuFrame; x: number; y: number; acts: MenuActs }) {
	const { name } = frame, links = useLinks(frame), close = () => { shown.value = null; };
	const one = (text: string, pick: () => void, title?: string) => <MenuItem title={title} onPick={() => { close(); pick(); }}>{text}</MenuItem>;
	const real = frame.node !== 0 && name !== '(other)', asked = real && !acts.apart && has('focus');
	const filter = acts.filter ?? filterBy, place = frame.file + (frame.line ? `:${frame.line}` : '');
	const profile = asked && has('share') ? alertProfile(query.value, (n) => findType(types.value, n)?.kind) : null;
	return (
		<ContextMenu label={name} title={name} x={x} y={y} onClose={close}>
			{acts.zoom && one('Zoom in', acts.zoom)}
			{acts.mark && one('Mark everywhere', acts.mark)}
			{asked && <>
				{(acts.zoom || acts.mark) && <hr />}
				{one('Only stacks with it', () => filter('focus', frameIs(name)), 'The query then counts nothing else')}
				{one('Without stacks with it', () => filter('ignore', frameIs(name)))}
			</>}
			{real && !acts.filter && (asked || acts.apart) && one('Its callers and callees', () => sandwichOf(name), 'All calls of it together')}
			{asked && !acts.filter && one('Its share over time', () => functionOverTime(name))}
			{profile && one('Alert when…', () => { alert.value = { profile, name }; }, 'A rule that tells when it takes more than it did')}
			{(acts.zoom || acts.mark || asked) && <hr />}
			{one('Copy the name', () => void copyText(name))}
			{frame.file && one('Copy file and line', () => void copyText(place), place)}
			{links.map((l) => <a key={l.url} role="menuitem" class="menu-item" href={l.url} target="_blank" rel="noopener noreferrer" title={l.url} onClick={close}><span>Open in {l.name}</span></a>)}
		</ContextMenu>
	);
}
