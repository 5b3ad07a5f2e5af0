// SPDX-License-Identifier: Apache-2.0
// Why the graph has nothing to show, and what would help.
import { useEffect, useState } from 'preact/hooks';
import { api } from '../base/api';
import { types } from '../base/state';
import { matchersOf, selectors, withoutMatcher, withType } from '../query/query';
import { findType, spelling } from '../query/typepicker';

/** Which of a query's matchers leaves nothing, if one does by itself; '' if only all of them together do. */
async function matcherInTheWay(q: string, from: number, to: number, signal: AbortSignal): Promise<string | null> {
	const s = selectors(q)[0], matchers = s ? matchersOf(s).filter((m) => !/^(["'`]|__name__\b)/.test(m)) : [];
	const without = (list: string[]) => s!.name && s!.nameStart !== s!.nameEnd ? `${s!.name}{${list.join(',')}}` : `{${[`__name__=${JSON.stringify(s!.name)}`, ...list].join(',')}}`;
	if (!s?.name || !matchers.length || !await api.some(without([]), from, to, signal)) return null;
	for (const m of matchers)
		if (matchers.length > 1 && await api.some(without(matchers.filter((x) => x !== m)), from, to, signal)) return m;
	return matchers.length === 1 ? matchers[0] : '';
}

export function NoSeries({ q, from, to, onRun }: { q: string; from: number; to: number; onRun: (q: string) => void }) {
	const [culprit, setCulprit] = useState<string | null>(null);
	useEffect(() => {
		const abort = new AbortController();
		setCulprit(null);
		matcherInTheWay(q, from, to, abort.signal).then(setCulprit, () => undefined);
		return () => abort.abort();
	}, [q]);
	const s = selectors(q)[0], chosen = findType(types.value, s?.name ?? '');
	const known = (types.value ?? []).filter((t) => t.series > 0 && t !== chosen);
	if (culprit !== null)
		return (
			<div class="none">
				<p>No series of {chosen?.title ?? <code>{s.name}</code>} {culprit ? <>match <code>{culprit}</code></> : <>match all of <code>{`{${s.matchers}}`}</code></>} in this time range.</p>
				<p class="hint"><button type="button" class="link" onClick={() => onRun(withoutMatcher(q, culprit || undefined))}>{culprit ? 'Leave that matcher out' : 'Leave the matchers out'}</button></p>
			</div>
		);
	return (
		<div class="none">
			<p>No series match in this time range.</p>
			{known.length > 0 && <p class="hint">There is data for {known.map((t, i) => <span key={t.name}>{i > 0 && ', '}<button type="button" class="link" onClick={() => onRun(withType('', spelling(t)))}>{t.title}</button></span>)}.</p>}
		</div>
	);
}
