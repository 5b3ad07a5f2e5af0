// SPDX-License-Identifier: Apache-2.0
// Queries that were asked, and those one wants to find again: in this browser alone, bounded, and gone with the window where it keeps nothing.
import { useState } from 'preact/hooks';
import { Clock } from '../base/icons';
import { kept } from '../base/kept';
import { ago } from '../base/time';
import { Popover } from '../base/ui';
import { Choices, type Choice } from './choices';

interface Asked { q: string; at: number }
interface Saved { q: string; name: string }
const RECENT = 50, SAVED = 100, LONGEST = 4000, LONGEST_NAME = 80;

const list = (v: unknown, max: number, ok: (e: Record<string, unknown>) => boolean): boolean =>
	Array.isArray(v) && v.length <= max && v.every((e) => typeof e === 'object' && e !== null && typeof (e as Asked).q === 'string' && (e as Asked).q.length <= LONGEST && ok(e as Record<string, unknown>));
const recent = kept<Asked[]>('queries.recent', [], (v) => list(v, RECENT, (e) => Number.isFinite(e.at)));
const saved = kept<Saved[]>('queries.saved', [], (v) => list(v, SAVED, (e) => typeof e.name === 'string'));

/** A query that was answered: the newest first, each once. */
export function remember(q: string): void {
	if (!q || q.length > LONGEST || recent.value[0]?.q === q) return;
	recent.value = [{ q, at: Math.round(Date.now() / 1000) }, ...recent.value.filter((r) => r.q !== q)].slice(0, RECENT);
}

function save(q: string, name: string): void {
	if (!q || q.length > LONGEST) return;
	saved.value = [{ q, name: name.slice(0, LONGEST_NAME) }, ...saved.value.filter((s) => s.q !== q)].slice(0, SAVED);
}

const isSaved = (q: string) => saved.value.some((s) => s.q === q);
const toggle = (q: string) => { if (isSaved(q)) saved.value = saved.value.filter((s) => s.q !== q); else save(q, ''); };

export function History({ query, open, setOpen, onRun }: { query: string; open: boolean; setOpen: (o: boolean) => void; onRun: (q: string) => void }) {
	return (
		<Popover class="history" align="right" open={open} setOpen={setOpen} title="Earlier and saved queries (h)" label="Earlier and saved queries" button={<Clock />}>
			<Earlier query={query} onRun={(q) => { setOpen(false); onRun(q); }} />
		</Popover>
	);
}

function Earlier({ query, onRun }: { query: string; onRun: (q: string) => void }) {
	const [text, setText] = useState(''), [name, setName] = useState('');
	const t = text.toLowerCase(), has = (s: string) => s.toLowerCase().includes(t);
	const items: Choice[] = [
		...saved.value.filter((s) => has(s.q) || has(s.name)).map((s): Choice => ({ id: s.q, text: s.name || <code>{s.q}</code>, code: s.name ? s.q : undefined, title: s.q, group: 'Saved', on: true })),
		...recent.value.filter((r) => has(r.q) && !isSaved(r.q)).map((r): Choice => ({ id: r.q, text: <code>{r.q}</code>, small: ago(r.at), title: r.q, group: 'Earlier' })),
	];
	return (
		<>
			<Choices label="Earlier and saved queries" placeholder="search queries" text={text} setText={setText} items={items} onPick={onRun} onMark={toggle}
				note={items.length === 0 ? 'There are none. What you ask is kept in this browser.' : undefined} />
			<form class="save" onSubmit={(e) => { e.preventDefault(); save(query, name.trim()); setName(''); }}>
				<input aria-label="Name of the query" placeholder="name, if you like" maxLength={LONGEST_NAME} value={name} onInput={(e) => setName(e.currentTarget.value)} />
				<button disabled={!query}>{isSaved(query) ? 'Rename' : 'Save this query'}</button>
				{recent.value.length > 0 && <button type="button" class="link" onClick={() => { recent.value = []; }}>Forget earlier ones</button>}
			</form>
		</>
	);
}
