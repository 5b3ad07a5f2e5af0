// SPDX-License-Identifier: Apache-2.0
// The binaries of a profile with their shares and colours. What is switched off here is hidden by the query: its frames are taken out of the
// stacks, and what they cost is their callers'.
import { useEffect, useRef, useState } from 'preact/hooks';
import { api } from '../base/api';
import { Chevron } from '../base/icons';
import { queried } from '../compare/state';
import { dark } from '../base/theme';
import { Bar, Popover } from '../base/ui';
import { formatShare } from '../base/units';
import { basename, frameColor } from '../flame/colors';
import { callOf, filtersOf, frameIs, hasFilter, PRESETS, refilter, unfiltered, type Filter } from '../query/filters';
import type { ProfileState } from './load';
import { dropFilter, filterBy } from './view';

const isLibrary = (f: Filter) => f.fn === 'hide' && (PRESETS.some((p) => p.args === f.args) || /^\{binary="/.test(f.args));

interface Library { binary: string; share: number }

/** The self of each binary's functions, before any was hidden; in a comparison, now. */
async function ask(expr: string, time: number, signal: AbortSignal): Promise<Library[]> {
	const core = unfiltered(expr), c = callOf(core), of = refilter(c?.fn === 'diff' ? c.args[0] : core, filtersOf(expr).filter((f) => !isLibrary(f)));
	const a = await api.query(`self(${of}, "binary")`, time, signal);
	const rows = a.data.resultType === 'vector' ? a.data.result.map((r) => ({ binary: r.metric.binary ?? '', share: Math.abs(Number(r.value[1])) })) : [];
	const sum = rows.reduce((n, r) => n + r.share, 0), by = new Map<string, number>();
	for (const r of rows) by.set(r.binary, (by.get(r.binary) ?? 0) + r.share / (sum || 1));
	return [...by].map(([binary, share]) => ({ binary, share })).sort((x, y) => y.share - x.share || x.binary.localeCompare(y.binary));
}

const toggle = (args: string) => { if (hasFilter(queried.value, 'hide', args)) dropFilter({ fn: 'hide', args }); else filterBy('hide', args); };

export function Libraries({ state }: { state: ProfileState }) {
	const [open, setOpen] = useState(false), [list, setList] = useState<Library[] | null>(null), [failed, setFailed] = useState('');
	const hidden = filtersOf(queried.value).filter(isLibrary).length;
	useEffect(() => {
		if (!open) return;
		const abort = new AbortController();
		ask(state.expr, state.time, abort.signal).then((l) => { setList(l); setFailed(''); }, (e: Error) => { if (!abort.signal.aborted) setFailed(e.message); });
		return () => abort.abort();
	}, [open, state.expr, state.time]);
	return (
		<Popover has="dialog" class={`libraries ${hidden ? 'on' : ''}`} open={open} setOpen={setOpen} title="Binaries, their shares and colours; hide what is not yours" button={<>Libraries{hidden > 0 && ` · ${hidden} hidden`}<Chevron /></>}>
			<div class="library-list" role="group" aria-label="Libraries">
				<div class="presets">
					<span>Hide</span>
					{PRESETS.map((p) => {
						const on = hasFilter(queried.value, 'hide', p.args);
						return <button key={p.name} type="button" class={`toggle ${on ? 'on' : ''}`} aria-pressed={on} title={p.title} onClick={() => toggle(p.args)}>{p.name}</button>;
					})}
				</div>
				{failed ? <p class="hint">{failed}</p> : !list ? <p class="hint">…</p> : list.length === 0 ? <p class="hint">No binaries are known.</p> : list.map((l) => <Row key={l.binary} {...l} />)}
				{list && list.length > 0 && <p class="hint">Shares are of what functions of a binary cost themselves.</p>}
			</div>
		</Popover>
	);
}

function Row({ binary, share }: Library) {
	const chip = useRef<HTMLElement>(null), args = frameIs(binary, 'binary'), hidden = hasFilter(queried.value, 'hide', args);
	const fill = frameColor('', binary, 'binary', dark.value).fill;
	useEffect(() => { chip.current!.style.background = fill; }, [fill]);
	return (
		<label class={`library ${hidden ? 'off' : ''}`} title={binary || 'Frames of which no binary is known'}>
			<input type="checkbox" checked={!hidden} onChange={() => toggle(args)} />
			<i class="chip" ref={chip} aria-hidden="true" />
			<span>{basename(binary) || '(unknown)'}</span><b>{formatShare(share)}</b><Bar share={share} />
		</label>
	);
}
