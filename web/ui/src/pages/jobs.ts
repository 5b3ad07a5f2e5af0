// SPDX-License-Identifier: Apache-2.0
// What the server tells of jobs and targets, made ready for people. Pure.
import type { Dropped, Job, Labels, RelabelStep, Source, Target } from '../base/api';

export const sum = (jobs: Job[]) => jobs.reduce((s, j) => ({
	total: s.total + j.targets, up: s.up + j.up, down: s.down + j.down, dropped: s.dropped + j.dropped,
}), { total: 0, up: 0, down: 0, dropped: 0 });

/** Rows of one target, which the server sends one after another: one for each of its profile types. */
export interface Found { pool: string; before: Labels; after: Labels | null; profiles: string[]; reason: string; failed: boolean; health: Target['health'] }

const without = (l: Labels): string => JSON.stringify(Object.entries(l).filter(([k]) => k !== '__name__' && k !== '__profile_path__').sort());

export function groupActive(rows: Target[]): Found[] {
	const out: Found[] = [];
	let was = '';
	for (const t of rows) {
		const id = t.scrapePool + JSON.stringify(t.labels) + without(t.discoveredLabels ?? {}), last = out[out.length - 1];
		if (id === was) {
			last.profiles.push(t.profile ?? '');
			last.health = worse(last.health, t.health);
		} else {
			out.push({ pool: t.scrapePool, before: t.discoveredLabels ?? {}, after: t.labels, profiles: [t.profile ?? ''], reason: '', failed: false, health: t.health });
		}
		was = id;
	}
	return out;
}

/** A type that a target does not serve is neither: the others decide. */
const worse = (a: Target['health'], b: Target['health']): Target['health'] => a === 'down' || b === 'down' ? 'down' : a === 'up' || b === 'up' ? 'up' : 'unknown';

export function groupDropped(rows: Dropped[]): Found[] {
	const out: Found[] = [];
	let was = '';
	for (const d of rows) {
		const id = d.scrapePool + d.reason + without(d.discoveredLabels), profile = d.profile ?? '';
		if (id === was) out[out.length - 1].profiles.push(profile);
		else out.push({ pool: d.scrapePool, before: d.discoveredLabels, after: null, profiles: profile ? [profile] : [], reason: d.reason, failed: d.failed, health: 'unknown' });
		was = id;
	}
	return out;
}

/** How a target is called in a list. */
export const nameOf = (f: Found): string => f.after?.instance || f.before.__address__ || 'no address';

/** The changes by a rule: names that it set, and those it removed. */
export function changes(before: Labels, after: Labels): { set: [string, string][]; gone: string[] } {
	return {
		set: Object.entries(after).filter(([k, v]) => !Object.hasOwn(before, k) || before[k] !== v),
		gone: Object.keys(before).filter((k) => !Object.hasOwn(after, k)),
	};
}

/** A rule as one line, its defaults left out. */
export function ruleText(r: RelabelStep['rule']): string {
	const parts = [r.action];
	if (r.source_labels?.length) parts.push(`[${r.source_labels.join(r.separator && r.separator !== ';' ? ` ${r.separator} ` : ', ')}]`);
	if (r.regex && r.regex !== '(.*)') parts.push(`=~ ${r.regex}`);
	if (r.modulus) parts.push(`mod ${r.modulus}`);
	if (r.target_label) parts.push(`→ ${r.target_label}${r.action === 'replace' ? ` = ${r.replacement || '""'}` : ''}`);
	else if (r.action === 'labelmap') parts.push(`→ ${r.replacement ?? '$1'}`);
	return parts.join(' ');
}

export type SourceState = 'failing' | 'waiting' | 'ready';
export const stateOf = (s: Source): SourceState => s.error ? 'failing' : s.ready ? 'ready' : 'waiting';
export const troubled = (j: Job): boolean => j.failedProfiles > 0 || j.sources.some((s) => s.error);

const ADVICE: [RegExp, string][] = [
	[/\b(401|403)\b|forbidden|unauthorized/i, 'It refuses who asks. Check the credentials; in Kubernetes, whether the service account may list and watch these objects.'],
	[/\b404\b|could not find the requested resource|not installed/i, 'It was not found there. Check the path, or whether the API is installed.'],
	[/\b429\b|\b5\d\d\b/, 'The other side has trouble of its own; it is asked again.'],
	[/no such file|cannot open|not a file/i, 'Check that the file exists where the server runs, and that it may read it.'],
	[/permission denied/i, 'The server may not read it. Check who owns it.'],
	[/certificate|tls|ssl/i, 'Check tls_config: ca_file, server_name.'],
	[/resolve|refused|timed? ?out|unreachable|could not connect/i, 'It cannot be reached from the server. Check the address, and the network between.'],
	[/json|yaml|expected|unknown field|invalid/i, 'The answer cannot be read. The message says where.'],
];

/** Remedies for a source that fails. */
export const advice = (error: string): string => ADVICE.find(([re]) => re.test(error))?.[1] ?? '';
