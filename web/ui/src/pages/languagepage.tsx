// SPDX-License-Identifier: Apache-2.0
// The language: what there is to write, of which type it is, and an example of each that runs with a click.
import { useEffect } from 'preact/hooks';
import { useSignal } from '@preact/signals';
import { api, ApiError, type LanguagePart, type LanguageSection, type ProfileType } from '../base/api';
import { ErrorBox } from '../base/errors';
import { Search } from '../base/icons';
import { asText, inUrl } from '../base/state';
import { tokenize } from '../query/query';
import { matching, withStored } from './language';
import { QueryLink } from './rules';
import { asked } from './targetlist';

const languageFind = inUrl(['language'], 'find', '', asText);

export function LanguagePage() {
	const all = useSignal<{ types: LanguagePart[]; sections: LanguageSection[] } | null>(null), types = useSignal<ProfileType[]>([]), error = useSignal<ApiError | null>(null);
	useEffect(() => {
		const stop = new AbortController();
		api.language(stop.signal).then((a) => { all.value = a.data; }, (e) => { if (!stop.signal.aborted) error.value = e; });
		api.profileTypes(stop.signal).then((a) => { types.value = a.data; }, () => undefined);
		return () => stop.abort();
	}, []);
	const shown = all.value && matching(all.value.sections, languageFind.value);
	return (
		<div class="wide">
			<div class="page-head">
				<h1>Language</h1>
				<label class="field"><Search /><input type="search" placeholder="Find a function or operator" aria-label="Find a function or operator" value={languageFind.value}
					onInput={(e) => asked(() => { languageFind.value = e.currentTarget.value; })} /></label>
				{shown && !languageFind.value && <nav class="jump" aria-label="On this page">{shown.map((s) => (
					<button key={s.title} type="button" class="link" onClick={() => document.getElementById(idOf(s.title))!.scrollIntoView()}>{s.title}</button>
				))}</nav>}
			</div>
			{all.value && !languageFind.value && (
				<section class="panel" aria-label="Types">
					<p class="lead">ProfQL is PromQL, and two types more: profiles, and ranges of them. Whatever PromQL says of a number holds for the value of a profile. A click on an example runs it.</p>
					<dl class="language-types">{all.value.types.map((t) => <div key={t.signature}><dt><span class={`type ${classOf(t.signature)}`}>{t.signature}</span></dt><dd>{t.doc}</dd></div>)}</dl>
				</section>
			)}
			{error.value && <ErrorBox error={error.value} />}
			{!shown && !error.value && <div class="panel loading" aria-busy="true"><div class="skeleton" /></div>}
			{shown?.length === 0 && <p class="hint">Nothing of the language has that in its name or description.</p>}
			{shown?.map((s) => (
				<section key={s.title} id={idOf(s.title)} class="panel language">
					<header class="panel-head"><h2>{s.title}</h2><span class="hint">{s.entries.length}</span></header>
					<ul>{s.entries.map((e) => <Row key={e.signature} e={e} example={withStored(e.example, types.value)} />)}</ul>
				</section>
			))}
		</div>
	);
}

const idOf = (title: string): string => title.toLowerCase().replace(/ /g, '-');
const classOf = (type: string): string => type.replace(/ .*/, '');

function Row({ e, example }: { e: LanguagePart; example: string }) {
	return (
		<li>
			<div><code class="signature">{tokenize(e.signature).map((t) => <span key={t.start} class={`q-${t.kind}`}>{t.text}</span>)}</code>
				{e.returns && <span class={`type ${classOf(e.returns)}`}><span class="unseen">gives </span>{e.returns}</span>}
				<p>{e.doc}</p></div>
			<QueryLink q={example} />
		</li>
	);
}
