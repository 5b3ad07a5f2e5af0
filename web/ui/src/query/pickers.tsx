// SPDX-License-Identifier: Apache-2.0
// The query without typing: its matchers, each a button that changes it, one more, and the labels it is summed by.
import { useEffect, useState } from 'preact/hooks';
import { Close, Plus } from '../base/icons';
import { Popover, Segments } from '../base/ui';
import { Choices, type Choice } from './choices';
import { findLabels, searched, sortLabels } from './labelnames';
import { findValues, labelNames, labelValues, literal, VALUES } from './labelvalues';
import { selectorWithout, withSumBy, type Parts } from './parts';
import { matcherText, replaceMatcher, withMatcher, withoutMatcher, type Matcher, type Op } from './query';

/** The picker that the keyboard opened; '' = none. */
export type Opened = '' | 'type' | 'label' | 'by' | 'history';

interface Props { query: string; parts: Parts; opened: Opened; setOpened: (o: Opened) => void; onRun: (q: string) => void }

export function Pickers({ query, parts, opened, setOpened, onRun }: Props) {
	return (
		<div class="pickers" role="group" aria-label="Labels">
			{parts.matchers.map((m) => <MatcherChip key={m.text} query={query} matcher={m} onRun={onRun} />)}
			<AddMatcher query={query} open={opened === 'label'} setOpen={(o) => setOpened(o ? 'label' : '')} onRun={onRun} />
			<SumBy query={query} parts={parts} open={opened === 'by'} setOpen={(o) => setOpened(o ? 'by' : '')} onRun={onRun} />
			{parts.note && <span class="hint note">{parts.note}</span>}
		</div>
	);
}

function MatcherChip({ query, matcher: m, onRun }: { query: string; matcher: Matcher; onRun: (q: string) => void }) {
	const [open, setOpen] = useState(false);
	return (
		<span class="matcher">
			<Popover open={open} setOpen={setOpen} title="Another value" button={<><b>{m.label}</b><em>{m.op}</em><span>{m.value === '' ? '""' : m.value}</span></>}>
				<Values query={query} label={m.label} op={m.op} value={m.value} onPick={(op, value) => { setOpen(false); onRun(replaceMatcher(query, m.text, matcherText(m.label, op, value))); }} />
			</Popover>
			<button type="button" class="ghost tiny" title="Leave this out" aria-label={`Leave out ${m.text}`} onClick={() => onRun(withoutMatcher(query, m.text))}><Close /></button>
		</span>
	);
}

/** Asks for what is typed once it rests, and keeps what was there until the answer comes. */
function useAnswer<T>(ask: () => Promise<T>, key: string, rest = 120): T | null {
	const [got, setGot] = useState<T | null>(null);
	useEffect(() => {
		let over = false;
		const timer = setTimeout(() => void ask().then((a) => { if (!over) setGot(a); }), got === null ? 0 : rest);
		return () => { over = true; clearTimeout(timer); };
	}, [key]);
	return got;
}

const OPS: [Op, string, string][] = [['=', '=', 'is'], ['!=', '≠', 'is not'], ['=~', '=~', 'matches a regular expression'], ['!~', '!~', 'matches no such regular expression']];

function Values({ query, label, op: was, value, onPick }: { query: string; label: string; op: Op; value: string; onPick: (op: Op, value: string) => void }) {
	const [op, setOp] = useState<Op>(was);
	const [text, setText] = useState(was.endsWith('~') ? value : '');
	const regexp = op.endsWith('~');
	const values = useAnswer(() => findValues(label, selectorWithout(query, label), regexp ? '' : text.trim()), `${label} ${regexp} ${text} ${query}`);
	const typed: Choice[] = text && (regexp || !values?.includes(text)) ? [{ id: text, text: <>{regexp ? 'as typed: ' : 'exactly '}<b>{text}</b></> }] : [];
	const items: Choice[] = (values ?? []).map((v) => ({ id: v, text: v === '' ? '""' : v, on: !regexp && v === value }));
	return (
		<Choices label={`Value of ${label}`} placeholder={regexp ? 'regular expression' : `search values of ${label}`} text={text} setText={setText}
			items={regexp ? [...typed, ...items] : [...items, ...typed]} onPick={(v) => onPick(op, regexp && v !== text ? literal(v) : v)}
			note={values?.length === 0 ? 'No series has such a value.' : values?.length === VALUES ? `The first ${VALUES}.` : undefined}>
			<Segments label="How it is compared" value={op} options={OPS} onChange={setOp} />
		</Choices>
	);
}

const FEW = 6;

/** Labels by name, and values of the usual ones: a user who knows "echoserver" need not know that it is a container. */
async function lookUp(query: string, text: string): Promise<Choice[]> {
	const match = selectorWithout(query), names = sortLabels(await labelNames(match)), t = text.trim();
	const labels = findLabels(t, names).map(({ label, as }): Choice => ({ id: label, text: label, small: as && `${as} elsewhere`, group: t ? 'Labels' : '' }));
	if (t.length < 2) return labels;
	const values = await Promise.all(searched(names).map(async (label) =>
		(await labelValues(label, match, t, FEW)).slice(0, FEW).map((v): Choice => ({ id: `${label}\u0000${v}`, text: v, code: label, group: 'Values' }))));
	return [...labels, ...values.flat()];
}

function AddMatcher({ query, open, setOpen, onRun }: { query: string; open: boolean; setOpen: (o: boolean) => void; onRun: (q: string) => void }) {
	const [label, setLabel] = useState('');
	useEffect(() => setLabel(''), [open]);
	const add = (l: string, op: Op, v: string) => { setOpen(false); onRun(withMatcher(query, l, op, v)); };
	return (
		<Popover class="add" open={open} setOpen={setOpen} title="Only profiles with a label (f)" button={<><Plus /><span>Label</span></>}>
			{label ? <Values key={label} query={query} label={label} op="=" value="" onPick={(op, v) => add(label, op, v)} />
				: <Labels query={query} onPick={(id) => { const [l, v] = id.split('\u0000'); if (v === undefined) setLabel(l); else add(l, '=', v); }} />}
		</Popover>
	);
}

function Labels({ query, onPick }: { query: string; onPick: (id: string) => void }) {
	const [text, setText] = useState('');
	const items = useAnswer(() => lookUp(query, text), `${query} ${text}`);
	return <Choices label="Label" placeholder="search labels and values" text={text} setText={setText} items={items ?? []} onPick={onPick}
		note={items?.length === 0 ? 'No label has that name, or such a value.' : undefined} />;
}

function SumBy({ query, parts, open, setOpen, onRun }: { query: string; parts: Parts; open: boolean; setOpen: (o: boolean) => void; onRun: (q: string) => void }) {
	const change = (labels: string[]) => { const q = withSumBy(query, labels); if (q !== null) onRun(q); };
	return (
		<span class={`sumby ${parts.by.length ? 'matcher' : ''}`}>
			<Popover open={open} setOpen={setOpen} title="Add up the series that have the same value of these labels (b)" button={<><span>Sum by</span>{parts.by.length > 0 && <b>{parts.by.join(', ')}</b>}</>} disabled={!parts.canGroup}>
				<Grouping query={query} by={parts.by} change={change} close={() => setOpen(false)} />
			</Popover>
			{parts.by.length > 0 && <button type="button" class="ghost tiny" title="Each series by itself" aria-label="Do not sum" onClick={() => change([])}><Close /></button>}
		</span>
	);
}

function Grouping({ query, by, change, close }: { query: string; by: string[]; change: (labels: string[]) => void; close: () => void }) {
	const [text, setText] = useState('');
	const names = useAnswer(() => labelNames(selectorWithout(query)), selectorWithout(query));
	const all = sortLabels([...new Set([...by, ...names ?? []])]);
	const toggled = (l: string) => by.includes(l) ? by.filter((x) => x !== l) : [...by, l];
	return <Choices label="Sum by" placeholder="search labels" text={text} setText={setText}
		items={findLabels(text, all).map(({ label, as }) => ({ id: label, text: label, small: as && `${as} elsewhere`, on: by.includes(label) }))}
		onPick={(l) => { close(); change(by.includes(l) ? toggled(l) : [l]); }} onMark={(l) => change(toggled(l))}
		note={names?.length === 0 ? 'The series have no labels.' : undefined} />;
}
