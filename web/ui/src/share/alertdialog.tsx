// SPDX-License-Identifier: Apache-2.0
// "Alert when…": a rule about a function as YAML, with a threshold of its last day, drawn over its share of that day with the moments at
// which it would have fired. The server says when that is; until it has, or where it cannot, the points of the graph do.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { api, type ApiError, type MatrixSeries, type PastAlert } from '../base/api';
import { clock, moment } from '../base/time';
import { CopyButton, Dialog } from '../base/ui';
import { formatDuration, formatShare } from '../base/units';
import { firedBetween, lowExpr, ruleYaml, shareExpr, usualThreshold, type AlertRule, type Span } from './alertrule';

export interface AlertOf { profile: string; name: string }

const DAY = 86400, STEP = 300, SERIES = 10, LISTED = 5;
const WAITS = [0, 60, 300, 900, 3600];

interface Day { from: number; to: number; step: number; share: MatrixSeries[]; low: MatrixSeries[] | null }

const matrix = async (expr: string, from: number, to: number, step: number, signal: AbortSignal): Promise<MatrixSeries[]> =>
	(await api.range(expr, from, to, step, signal)).data;

function useDay(of: AlertOf): { day: Day | null; error: string } {
	const [state, setState] = useState<{ day: Day | null; error: string }>({ day: null, error: '' });
	useEffect(() => {
		const abort = new AbortController(), to = Math.floor(Date.now() / 1000);
		const ask = async (from: number, step: number): Promise<Day> => {
			const low = matrix(lowExpr(of.profile, of.name), from, to, step, abort.signal).catch(() => null); /* of types whose values are no counts it is not known */
			return { from, to, step, share: await matrix(shareExpr(of.profile, of.name), from, to, step, abort.signal), low: await low };
		};
		/* of a server that is young: as long as it has been there */
		ask(to - DAY, STEP).then((day) => {
			const age = to - Math.min(...day.share.map((s) => s.values[0][0])) + STEP;
			return day.share.length && age < DAY / 6 ? ask(to - age, Math.max(5, Math.ceil(age / 240))) : day;
		}).then((day) => setState({ day, error: '' }), (e: ApiError) => { if (!abort.signal.aborted) setState({ day: null, error: e.message }); });
		return () => abort.abort();
	}, [of]);
	return state;
}

/** The server's report of what the rule would have done; null: not yet, or not possible. */
function usePast(rule: AlertRule, day: Day | null): Span[] | null {
	const yaml = ruleYaml(rule, day && day.step < 60 ? `${day.step}s` : undefined);
	const [past, setPast] = useState<{ yaml: string; spans: Span[] } | null>(null);
	useEffect(() => {
		if (!day) return;
		const abort = new AbortController(), seconds = (t: string) => Date.parse(t) / 1000;
		const timer = setTimeout(() => {
			const spans = (list: PastAlert[]) => list.filter((a) => a.firedAt).map((a) => ({ from: seconds(a.firedAt!), to: a.endedAt ? seconds(a.endedAt) : day.to }));
			api.tryRules(yaml, day.from, day.to, abort.signal).then((a) => setPast({ yaml, spans: spans(a.data.alerts).sort((a, b) => a.from - b.from) }), () => undefined);
		}, 500);
		return () => { clearTimeout(timer); abort.abort(); };
	}, [yaml, day]);
	return past?.yaml === yaml ? past.spans : null;
}

export function AlertDialog({ of, onClose }: { of: AlertOf; onClose: () => void }) {
	const { day, error } = useDay(of);
	const [typed, setTyped] = useState<string | null>(null), [seconds, setSeconds] = useState(300), [wish, setSure] = useState(true);
	const usual = useMemo(() => day ? usualThreshold(day.share.map((s) => s.values.map((p) => p[1]))) : null, [day]);
	const percent = Number(typed), own = typed !== null && typed.trim() !== '' && percent >= 0 && percent < 100;
	const above = own ? Number((percent / 100).toPrecision(6)) : usual ?? 0.1, sure = wish && (!day || day.low !== null);
	const rule: AlertRule = { ...of, above, seconds, sure };
	const yaml = ruleYaml(rule);
	const drawn = useMemo(() => day ? (sure ? day.low! : day.share) : [], [day, sure]);
	const guessed = useMemo(() => drawn.flatMap((s) => firedBetween(s.values, above, seconds, day!.step)).sort((a, b) => a.from - b.from), [drawn, above, seconds]);
	const past = usePast(rule, day), fired = past ?? guessed;
	return (
		<Dialog title="Alert when…" class="alert-rule-dialog" onClose={onClose}>
			<div class="alert-when">
				<code title={of.name}>{of.name}</code>
				<span>takes more than <label class="field percent"><input type="number" min="0" max="99.9" step="any" aria-label="Threshold in percent" value={typed ?? Number((above * 100).toPrecision(4))} onInput={(e) => setTyped(e.currentTarget.value)} />%</label></span>
				<span>for <select aria-label="For how long" value={seconds} onChange={(e) => setSeconds(Number(e.currentTarget.value))}>{WAITS.map((s) => <option key={s} value={s}>{s ? formatDuration(s) : 'a moment'}</option>)}</select></span>
				<label class="check"><input type="checkbox" checked={sure} disabled={day?.low === null} onChange={(e) => setSure(e.currentTarget.checked)} />only what is sure (three standard errors)</label>
			</div>
			<p class="hint">of <code>{of.profile}</code>{usual !== null && !own && <>. {formatShare(usual)} is clearly above what it took most of the last day</>}</p>
			{error ? <p class="error-text" role="alert">Its last day could not be read: {error}</p>
				: !day ? <div class="loading" aria-busy="true"><div class="skeleton" /></div>
					: day.share.length === 0 ? <p class="hint">There is nothing of it in the last day; the threshold is a guess.</p>
						: <Chart day={day} above={above} fired={fired} sure={sure} />}
			{day && <p class="alert-fired" role="status">{fired.length ? <>In this day it would have fired <b>{fired.length === 1 ? 'once' : `${fired.length} times`}</b>: {fired.slice(0, LISTED).map((s) => `${moment(s.from)} – ${clock(s.to)}`).join(', ')}{fired.length > LISTED && ', …'}</> : 'In this day it would not have fired.'}
				<small>{past ? ' The server evaluated the rule.' : ' By the points of the graph.'}</small></p>}
			<div class="alert-yaml"><pre tabIndex={0} aria-label="The rule">{yaml}</pre><CopyButton text={yaml} label="Copy" title="Copy the rule" /></div>
			<p class="hint">For a file that <code>rule_files</code> of the configuration names. <code>pyrtool check rules FILE</code> reads it, <code>pyrtool rules try FILE</code> tries it.</p>
		</Dialog>
	);
}

const W = 640, H = 150, LEFT = 46, BOTTOM = 18;

/** The shares, the threshold, and when it would have fired. */
function Chart({ day, above, fired, sure }: { day: Day; above: number; fired: Span[]; sure: boolean }) {
	const top = Math.min(1, 1.1 * Math.max(above, ...day.share.flatMap((s) => s.values.map(([, v]) => v).filter(Number.isFinite))));
	const x = (t: number) => LEFT + (t - day.from) / (day.to - day.from) * (W - LEFT), y = (v: number) => (H - BOTTOM) * (1 - v / top);
	const path = (s: MatrixSeries) => {
		let last = -Infinity, d = '';
		for (const [t, v] of s.values) { d += `${t - last > 1.5 * day.step ? 'M' : 'L'}${x(t).toFixed(1)} ${y(v).toFixed(1)}`; last = t; }
		return d.replace(/M([^ML]+)(?=M|$)/g, 'M$1h1');
	};
	const text = `Its share over the last day, up to ${formatShare(top / 1.1)}, and the threshold ${formatShare(above)}. ${fired.length ? `It would have fired ${fired.length} times.` : 'It would not have fired.'}`;
	return (
		<svg class="alert-chart" viewBox={`0 0 ${W} ${H}`} role="img" aria-label={text}>
			{fired.map((s) => <rect key={`${s.from} ${s.to}`} class="fired" x={x(s.from)} y="0" width={Math.max(2, x(s.to) - x(s.from))} height={H - BOTTOM} />)}
			{[0, top / 2, top].map((v) => <g key={v}><path class="grid" d={`M${LEFT} ${y(v)}H${W}`} /><text x={LEFT - 6} y={Math.max(9, y(v) + 4)} text-anchor="end">{formatShare(v)}</text></g>)}
			{sure && day.low && day.low.slice(0, SERIES).map((s, i) => <path key={i} class="low" d={path(s)} />)}
			{day.share.slice(0, SERIES).map((s, i) => <path key={i} class="share" d={path(s)} />)}
			<path class="above" d={`M${LEFT} ${y(above)}H${W}`} />
			{[0, 0.25, 0.5, 0.75].map((f) => <text key={f} x={LEFT + f * (W - LEFT)} y={H - 4}>{clock(day.from + f * (day.to - day.from)).slice(0, 5)}</text>)}
		</svg>
	);
}
