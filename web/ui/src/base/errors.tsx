// SPDX-License-Identifier: Apache-2.0
// Errors as sentences: what failed, in the server's words, and what to do about it.
import type { ApiError } from './api';
import { Warn } from './icons';

const TITLES: Record<string, string> = {
	bad_data: 'The query is not valid', execution: 'The query failed', timeout: 'The query took too long', canceled: 'The query was cancelled',
	network: 'No connection', not_found: 'Not found', unavailable: 'The server is not ready', internal: 'The server failed',
};

/** Points at the place the message names, if it names one. */
export function ErrorBox({ error, query, at }: { error: ApiError; query?: string; at?: number | null }) {
	const lines = query?.split('\n') ?? [];
	let line = 0, col = at ?? 0;
	while (at !== undefined && at !== null && line < lines.length - 1 && col > lines[line].length) col -= lines[line++].length + 1;
	return (
		<div class="error" role="alert">
			<Warn />
			<div>
				<strong>{TITLES[error.kind] ?? 'Something went wrong'}</strong>
				<p>{error.message.replace(/^invalid parameter "query": /, '')}</p>
				{query && at !== null && at !== undefined && <pre>{lines[line]}{'\n'}{' '.repeat(col)}<b>^</b></pre>}
			</div>
		</div>
	);
}

/** At the end, where they move nothing, but always in the window. */
export const Warnings = ({ of }: { of: string[] }) => <ul class="warnings" hidden={!of.length}>{of.map((w) => <li key={w}>{w}</li>)}</ul>;
