// SPDX-License-Identifier: Apache-2.0
// The frame around every page: where one is, whether the targets are well, what runs.
import { useEffect } from 'preact/hooks';
import { useSignal } from '@preact/signals';
import { AlertsPage } from './pages/alerts';
import { api, type Job } from './base/api';
import { DiscoveryPage } from './pages/discovery';
import { Explore } from './explore/explore';
import { Flame } from './base/icons';
import { sum } from './pages/jobs';
import { RulesPage } from './pages/rules';
import { FrameMenuHost } from './profile/framemenu';
import { go, page, pageHref, query, type Page } from './base/state';
import { StatusPage } from './pages/statuspage';
import { TargetsPage } from './pages/targets';

const PAGES: [Page, string][] = [['explore', 'Explore'], ['targets', 'Targets'], ['discovery', 'Discovery'], ['rules', 'Rules'], ['alerts', 'Alerts'], ['status', 'Status']];

export function App() {
	const at = page.value, asked = query.value;
	useEffect(() => { document.title = at === 'explore' ? (asked ? `${asked} · Pyrrha` : 'Pyrrha') : `${PAGES.find(([p]) => p === at)![1]} · Pyrrha`; }, [at, asked]);
	/* On a phone the pages are a strip that is wider than its window, which is narrower when the health beside it is known. */
	useEffect(() => {
		const nav = document.querySelector('.top nav')!;
		const observer = new ResizeObserver(() => nav.querySelector('.here')?.scrollIntoView({ block: 'nearest', inline: 'nearest' }));
		observer.observe(nav);
		return () => observer.disconnect();
	}, [at]);
	return (
		<>
			<header class="top">
				<NavLink to="explore" class="brand" label="Pyrrha"><Flame /><span>Pyrrha</span></NavLink>
				<nav aria-label="Pages">
					{PAGES.map(([p, name]) => <NavLink key={p} to={p} class={p === at ? 'here' : ''}>{name}</NavLink>)}
				</nav>
				<div class="grow" />
				<TargetHealth />
			</header>
			<main class={`page-${at}`}>
				{at === 'explore' && <Explore />}
				{at === 'targets' && <TargetsPage />}
				{at === 'discovery' && <DiscoveryPage />}
				{at === 'rules' && <RulesPage />}
				{at === 'alerts' && <AlertsPage />}
				{at === 'status' && <StatusPage />}
			</main>
			<FrameMenuHost />
		</>
	);
}

function NavLink({ to, class: cls, label, children }: { to: Page; class: string; label?: string; children: preact.ComponentChildren }) {
	return (
		<a href={pageHref(to)} class={cls} aria-label={label} aria-current={to === page.value ? 'page' : undefined} onClick={(e) => {
			if (e.metaKey || e.ctrlKey || e.shiftKey || e.button) return;
			e.preventDefault();
			go(to);
		}}>{children}</a>
	);
}

/** "6/6 targets up" in the corner: the first thing to look at when a graph looks wrong. */
function TargetHealth() {
	const state = useSignal<Job[] | null | 'lost'>(null);
	useEffect(() => {
		const ask = () => { if (!document.hidden) api.jobs().then((a) => { state.value = a.data.jobs; }, (e) => { state.value = e.kind === 'network' ? 'lost' : null; }); };
		ask();
		const timer = setInterval(ask, 10000);
		return () => clearInterval(timer);
	}, []);
	if (state.value === 'lost') return <span class="pill down"><i class="dot" />server not reachable</span>;
	if (!state.value) return null;
	const s = sum(state.value);
	const cls = s.total === 0 ? 'unknown' : s.down ? 'down' : s.up === s.total ? 'up' : 'unknown';
	return <NavLink to="targets" class={`pill ${cls}`}><i class="dot" />{s.total === 0 ? 'no targets' : <b>{s.up}/{s.total}<span> targets up</span></b>}</NavLink>;
}
