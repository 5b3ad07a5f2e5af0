// SPDX-License-Identifier: Apache-2.0
// Two profiles side by side, and what became of one on the way to the other: each side with its query, time and graph, then the difference,
// then both flame graphs, which zoom together.
import { useEffect } from 'preact/hooks';
import { api } from '../base/api';
import { ErrorBox, Warnings } from '../base/errors';
import { Close, Link } from '../base/icons';
import { permalink, query, selection, types, writeUrl } from '../base/state';
import { CopyButton, Segments } from '../base/ui';
import { formatDuration } from '../base/units';
import { ProfilePanel } from '../profile/profilepanel';
import { loadFunctions } from '../query/complete';
import { unequal } from './diffexpr';
import { useCompared, type Compared } from './load';
import { Presets } from './presets';
import { SideFlame, SidePanel } from './sidepanel';
import { compare, comparing, measure, startCompare } from './state';
import type { Comparison } from './sides';

export function CompareButton() {
	return <button type="button" title="This profile beside another: of another time, container or host" onClick={() => startCompare()}>Compare</button>;
}

/** Back to the profile of now, at its time. */
function leave(c: Comparison): void {
	query.value = c.now.query;
	selection.value = 'at' in c.now ? { at: c.now.at } : { from: c.now.from, to: c.now.to };
	compare(null);
}

export function Compare() {
	const c = comparing.value!, state = useCompared(c).value;
	useEffect(() => {
		void loadFunctions();
		if (types.value === null) api.profileTypes().then((a) => { types.value = a.data; }, () => undefined);
	}, []);
	const { diff } = state;
	return (
		<div class="explore compare">
			<h1 class="unseen">Compare profiles</h1>
			<section class="panel compare-bar" aria-label="What is compared">
				<Presets c={c} />
				<div class="grow" />
				<Segments label="Compare" value={measure.value} onChange={(v) => { measure.value = v; writeUrl('push'); }}
					options={[['share', 'Shares', 'What part of its whole each function takes: the same work at another load is no change'], ['absolute', 'Absolute', 'What was used, in the same time']]} />
				<CopyButton class="square" icon={<Link />} title="Copy a link to exactly this" text={() => permalink(Date.now() / 1000)} />
				<button type="button" class="square" title="End the comparison" aria-label="End the comparison" onClick={() => leave(c)}><Close /></button>
				<div class={`progress ${state.busy ? 'on' : ''}`} />
			</section>
			<div class="sides">
				<SidePanel which="base" c={c} loaded={state.base} />
				<SidePanel which="now" c={c} loaded={state.now} />
			</div>
			<Fairness state={state} />
			{diff && 'error' in diff && <ErrorBox error={diff.error} />}
			{diff && 'profile' in diff && <ProfilePanel state={diff.profile} stale={state.busy} selection={null} />}
			{!diff && state.busy && <div class="panel loading" aria-busy="true"><div class="skeleton tall" /></div>}
			{diff && <div class="sides">
				<SideFlame which="base" loaded={state.base} />
				<SideFlame which="now" loaded={state.now} />
			</div>}
			<Warnings of={state.warnings} />
		</div>
	);
}

/** How sides of unequal lengths are made comparable. */
function Fairness({ state: { observed: o } }: { state: Compared }) {
	if (!unequal(o)) return null;
	const [base, now] = [o.base, o.now].map((s) => formatDuration(s < 100 ? Math.round(s * 10) / 10 : Math.round(s)));
	return (
		<p class="hint fairness" role="note">{measure.value === 'share'
			? <>The base was observed for {base}, now for {now}: shares do not depend on that.</>
			: <>The base was observed for {base}, now for {now}. Values are per second: those of the base are shown as they would be in {now}.</>}</p>
	);
}
