// SPDX-License-Identifier: Apache-2.0
// Which server this is, how it was started, and where to look further.
import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';
import { useSignal } from '@preact/signals';
import { api, ApiError, url } from '../base/api';
import { ErrorBox } from '../base/errors';

type Facts = Record<string, string | number | boolean>;

const LINKS: [string, string][] = [
	['metrics', 'The server’s own metrics, for Prometheus'],
	['api/v1/targets', 'Targets as JSON'],
	['-/healthy', 'Is it alive'],
	['-/ready', 'Does it answer queries'],
];

export function StatusPage() {
	const build = useSignal<Facts>({}), runtime = useSignal<Facts>({}), flags = useSignal<Facts>({});
	const config = useSignal('');
	const error = useSignal<ApiError | null>(null);
	useEffect(() => {
		const fail = (e: ApiError) => { error.value = e; };
		api.status('buildinfo').then((a) => { build.value = a.data; }, fail);
		api.status('runtimeinfo').then((a) => { runtime.value = a.data; }, fail);
		api.status('flags').then((a) => { flags.value = a.data; }, fail);
		api.status('config').then((a) => { config.value = String(a.data.yaml ?? ''); }, fail);
	}, []);
	return (
		<div class="wide">
			<div class="page-head"><h1>Status</h1></div>
			{error.value && <ErrorBox error={error.value} />}
			<Section title="Server"><FactTable facts={{ ...build.value, ...runtime.value }} /></Section>
			{config.value && <Section title="Configuration"><pre class="config">{config.value}</pre></Section>}
			<Section title="Flags"><FactTable facts={flags.value} /></Section>
			<Section title="Elsewhere">
				<table class="data facts"><tbody>
					{LINKS.map(([path, what]) => <tr key={path}><th scope="row"><a href={url(path)}>/{path}</a></th><td>{what}</td></tr>)}
				</tbody></table>
			</Section>
		</div>
	);
}

const Section = ({ title, children }: { title: string; children: ComponentChildren }) => (
	<section class="panel"><header class="panel-head"><h2>{title}</h2></header>{children}</section>
);

/** Names as the API has them; what says nothing is left out. */
const FactTable = ({ facts }: { facts: Facts }) => (
	<table class="data facts"><tbody>
		{Object.entries(facts).filter(([, v]) => v !== '').map(([k, v]) => <tr key={k}><th scope="row">{k}</th><td>{String(v)}</td></tr>)}
	</tbody></table>
);
