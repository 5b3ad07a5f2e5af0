// SPDX-License-Identifier: Apache-2.0
// The frame around every page: where one is, whether the targets are well, what runs.
import { useEffect } from 'preact/hooks';
import { useSignal } from '@preact/signals';
import { AgentsPage } from './pages/agentspage';
import { AlertsPage } from './pages/alerts';
import { api, type Job } from './base/api';
import { DiscoveryPage } from './pages/discovery';
import { Compare } from './compare/compare';
import { comparing } from './compare/state';
import { Explore } from './explore/explore';
import { KeyList, keyListOpen } from './base/keylist';
import { keyTable } from './base/keys';
import { Preferences } from './base/preferences';
import { sum } from './pages/jobs';
import { LanguagePage } from './pages/languagepage';
import { RulesPage } from './pages/rules';
import { FrameMenuHost } from './profile/framemenu';
import { FileDrop } from './share/drop';
import { go, page, pageHref, query, type Page } from './base/state';
import { StatusPage } from './pages/statuspage';
import { TargetsPage } from './pages/targets';

interface PageOf { page: Page; name: string; Show: () => preact.JSX.Element }
/** The pages, in the order of the strip. `g` and the letter go there. */
const PAGES: PageOf[] = [
	{ page: 'explore', name: 'Explore', Show: () => comparing.value ? <Compare /> : <Explore /> },
	{ page: 'targets', name: 'Targets', Show: TargetsPage },
	{ page: 'discovery', name: 'Discovery', Show: DiscoveryPage },
	{ page: 'rules', name: 'Rules', Show: RulesPage },
	{ page: 'alerts', name: 'Alerts', Show: AlertsPage },
	{ page: 'agents', name: 'Agents', Show: AgentsPage },
	{ page: 'language', name: 'Language', Show: LanguagePage },
	{ page: 'status', name: 'Status', Show: StatusPage },
];

const keys = keyTable('On every page', {
	list: ['?', 'this list'],
	explore: ['g e', 'Explore'], targets: ['g t', 'Targets'], discovery: ['g d', 'Discovery'], rules: ['g r', 'Rules'], alerts: ['g a', 'Alerts'], agents: ['g n', 'Agents'], language: ['g l', 'Language'], status: ['g s', 'Status'],
}, 0);

export function App() {
	const at = page.value, asked = query.value, { name, Show } = PAGES.find((p) => p.page === at)!;
	useEffect(() => { document.title = at !== 'explore' ? `${name} · Pyrrha` : comparing.value ? `Compare ${comparing.value.now.query} · Pyrrha` : asked ? `${asked} · Pyrrha` : 'Pyrrha'; }, [at, asked, comparing.value]);
	keys.use({
		list: () => { keyListOpen.value = true; },
		...Object.fromEntries(PAGES.map((p) => [p.page, () => go(p.page)])) as Record<Page, () => void>,
	});
	/* On a phone the pages are a strip that is wider than its window, which is narrower when the health beside it is known. */
	useEffect(() => {
		const nav = document.querySelector('.top nav')!;
		const observer = new ResizeObserver(() => nav.querySelector('.here')?.scrollIntoView({ block: 'nearest', inline: 'nearest' }));
		observer.observe(nav);
		return () => observer.disconnect();
	}, [at]);
	return (
		<>
			<a class="skip" href="#main" onClick={(e) => { e.preventDefault(); document.querySelector<HTMLElement>('main')!.focus(); }}>Skip to the content</a>
			<header class="top">
				<NavLink to="explore" class="brand" label="Pyrrha"><img class="logo" src="favicon.svg" alt="" /><span>Pyrrha</span></NavLink>
				<nav aria-label="Pages">
					{PAGES.map((p) => <NavLink key={p.page} to={p.page} class={p.page === at ? 'here' : ''}>{p.name}</NavLink>)}
				</nav>
				<div class="grow" />
				<TargetHealth />
				<Preferences />
			</header>
			<main id="main" tabIndex={-1} class={`page-${at}`}><Show key={at} /><FrameMenuHost /><FileDrop /></main>
			<KeyList />
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
