// SPDX-License-Identifier: Apache-2.0
// Where queries are typed. A plain textarea, so that everything a browser and a screen reader can do with text works; its
// letters are transparent and the coloured ones lie below it in the same font, as does the mark under an error.
import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { complete, type Completion, type Suggestion } from './complete';
import { Play } from '../base/icons';
import { keyTable } from '../base/keys';
import { tokenize } from './query';

const keys = keyTable('Query', {
	run: ['Enter', 'take the completion, or run the query'], take: ['Tab', 'take the completion'], offer: ['Ctrl+Space', 'what could stand here'],
	next: ['ArrowDown', 'the next completion'], before: ['ArrowUp', 'the one before'], close: ['Escape', 'no completions'],
});

interface Props {
	value: string;
	onRun: (q: string) => void;
	/** The place where the last run failed, as an offset; null if it succeeded or gave no place. */
	errorAt: number | null;
	/** The text that errorAt belongs to. */
	ran: string;
	/** Beside the text. */
	children?: ComponentChildren;
}

export function QueryBar({ value, onRun, errorAt, ran, children }: Props) {
	const [text, setText] = useState(value);
	const [menu, setMenu] = useState<Completion | null>(null);
	const [pick, setPick] = useState(0);
	const area = useRef<HTMLTextAreaElement>(null);
	const asked = useRef(0);
	useLayoutEffect(() => { setText(value); setMenu(null); }, [value]);
	const fit = () => { /* as high as its text */
		const a = area.current!;
		a.style.height = '0';
		a.style.height = `${a.scrollHeight}px`;
	};
	useLayoutEffect(fit, [text]);
	useLayoutEffect(() => { /* its lines wrap elsewhere when the window, or what stands beside it, gets another width */
		let width = 0;
		const observer = new ResizeObserver(() => {
			const now = area.current!.clientWidth;
			if (now !== width) fit();
			width = now;
		});
		observer.observe(area.current!);
		return () => observer.disconnect();
	}, []);

	const suggest = async (q: string, caret: number, asking: boolean) => {
		const mine = ++asked.current;
		if (!/\w/.test(q[caret - 1] ?? '')) setMenu(null); /* another word: what was offered for the last one is over */
		const c = await complete(q, caret, asking);
		if (mine !== asked.current) return;
		setMenu(c && c.items.length && !(c.items.length === 1 && c.items[0].insert === q.slice(c.from, caret)) ? c : null);
		setPick(0);
	};
	const accept = (s: Suggestion) => {
		const a = area.current!, m = menu!, to = a.selectionStart;
		const next = text.slice(0, m.from) + s.insert + text.slice(Math.max(to, m.from));
		const caret = m.from + s.insert.length - (s.back ?? 0);
		setText(next);
		setMenu(null);
		requestAnimationFrame(() => {
			a.focus();
			a.setSelectionRange(caret, caret);
			if (s.then) void suggest(next, caret, true);
		});
	};
	const run = () => { asked.current++; setMenu(null); onRun(text.trim()); };
	const close = () => { asked.current++; setMenu(null); };
	const step = (by: number) => menu ? setPick((pick + by + menu.items.length) % menu.items.length) : false;
	const onKey = (e: KeyboardEvent) => keys.handle(e, {
		run: () => { if (menu?.typed) accept(menu.items[pick]); else run(); },
		take: () => menu ? accept(menu.items[pick]) : false,
		offer: () => void suggest(text, area.current!.selectionStart, true),
		next: () => step(1) as void | boolean, before: () => step(-1) as void | boolean,
		close: () => menu ? close() : false,
	});
	const mark = errorAt !== null && text.trim() === ran ? errorAt + text.indexOf(ran) : null;
	return (
		<div class="querybar">
			<div class="editor">
				<Coloured text={text} mark={mark} />
				<textarea ref={area} value={text} rows={1} spellcheck={false} autocomplete="off" autocapitalize="off"
					aria-label="Query in ProfQL" placeholder='merge(cpu{job="…"}[5m])'
					aria-controls={menu ? 'completions' : undefined} aria-activedescendant={menu ? `completion-${pick}` : undefined} aria-autocomplete="list" aria-invalid={mark !== null}
					onInput={(e) => { setText(e.currentTarget.value); void suggest(e.currentTarget.value, e.currentTarget.selectionStart, false); }}
					onKeyDown={onKey} onClick={close} onBlur={() => setTimeout(() => setMenu(null), 150)} />
				{menu && <Menu menu={menu} pick={pick} area={area.current!} onPick={accept} />}
			</div>
			{children}
			<button type="button" class="primary run" onClick={run} title="Run the query (Enter)"><Play />Run</button>
		</div>
	);
}

function Coloured({ text, mark }: { text: string; mark: number | null }) {
	const tokens = tokenize(text);
	return (
		<pre class="coloured" aria-hidden="true">
			{tokens.map((t) => <span key={t.start} class={`q-${t.kind} ${mark !== null && mark >= t.start && mark < t.end ? 'wrong' : ''}`}>{t.text}</span>)}
			{mark !== null && mark >= text.length ? <span class="wrong"> </span> : null}{'\n'}
		</pre>
	);
}

function Menu({ menu, pick, area, onPick }: { menu: Completion; pick: number; area: HTMLTextAreaElement; onPick: (s: Suggestion) => void }) {
	const el = useRef<HTMLDivElement>(null);
	useLayoutEffect(() => {
		const { x, y } = caretPoint(area, menu.from);
		el.current!.style.left = `${Math.max(0, Math.min(x, area.clientWidth - 420))}px`;
		el.current!.style.top = `${y + 6}px`;
	}, [menu]);
	useLayoutEffect(() => { el.current!.querySelector('.on')?.scrollIntoView({ block: 'nearest' }); }, [pick]);
	const active = menu.items[pick];
	return (
		<div class="completions" ref={el}>
			<ul id="completions" role="listbox" aria-label="Completions">
				{menu.items.map((s, i) => (
					<li key={s.insert + i} id={`completion-${i}`} role="option" aria-selected={i === pick} class={i === pick ? 'on' : ''}
						onMouseDown={(e) => { e.preventDefault(); onPick(s); }}>
						<i class={`kind kind-${s.kind}`}>{{ type: 'T', function: 'ƒ', keyword: 'k', label: 'L', value: '=', duration: 't' }[s.kind]}</i>
						<span>{s.label}</span>{s.detail && <small>{s.detail}</small>}
					</li>
				))}
			</ul>
			{active?.help && <p>{active.help}</p>}
		</div>
	);
}

/** The position of a character, found by laying out the same text again. */
function caretPoint(area: HTMLTextAreaElement, offset: number): { x: number; y: number } {
	const copy = area.parentElement!.querySelector('.coloured')!.cloneNode(false) as HTMLElement;
	copy.textContent = area.value.slice(0, offset);
	const end = document.createElement('span');
	end.textContent = '\u200b';
	copy.append(end);
	area.parentElement!.append(copy);
	const at = { x: end.offsetLeft, y: end.offsetTop + end.offsetHeight };
	copy.remove();
	return at;
}
