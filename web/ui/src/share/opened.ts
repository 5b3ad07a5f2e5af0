// SPDX-License-Identifier: Apache-2.0
// Profiles that are looked at without a query: files of this computer, which are read here and sent nowhere, and those that the server keeps
// as pins. Which one is shown, and beside which, is in the address; a file is there until the page is loaded again.
import { batch, signal } from '@preact/signals';
import { api, url, type Pin } from '../base/api';
import { asText, go, inUrl, page, query, selection, writeUrl } from '../base/state';
import { callersPath, sandwich, zoomPath } from '../profile/view';
import { readPprof, treeOf, type Pprof } from './pprof';

/** What is shown instead of a query's profile: '' for nothing, 'pins' for the list of pins, a pin's id, 'file-1'. */
export const openId = inUrl(['explore'], 'open', '', asText);
/** The other side of the comparison: the same. */
export const againstId = inUrl(['explore'], 'against', '', asText);
/** Which of its sample types is shown, by name; its own choice without. */
export const sampleType = inUrl(['explore'], 'sample', '', asText);

export interface Opened { id: string; name: string; profile: Pprof; size: number; blob: Blob; pin?: Pin }
export const opened = signal<Record<string, Opened>>({});
export const openError = signal('');

const keep = (o: Opened): Opened => { opened.value = { ...opened.value, [o.id]: o }; return o; };
export const isFile = (id: string): boolean => id.startsWith('file-');
export const pinUrl = (id: string): string => url(`api/v1/pins/${id}`);
export const pinLink = (id: string): string => `${url('')}?${new URLSearchParams({ open: id })}`;

let files = 0;
async function readFile(file: File): Promise<Opened> {
	const profile = await readPprof(file);
	treeOf({ profile, type: profile.first }); /* what cannot be shown is told now */
	return keep({ id: `file-${++files}`, name: file.name, profile, size: file.size, blob: file });
}

/** Opens files; of two the second is compared with the first, and one that comes while another is shown with that. */
export async function openFiles(list: Iterable<File>, compareWith = ''): Promise<void> {
	openError.value = '';
	const read: Opened[] = [];
	for (const file of [...list].slice(0, 2))
		try {
			read.push(await readFile(file));
		} catch (e) {
			openError.value = `${file.name} cannot be shown: ${(e as Error).message}`;
		}
	if (read.length) show(read[read.length - 1].id, read.length > 1 ? read[0].id : compareWith);
	else if (!openId.value) { openId.value = 'pins'; writeUrl('push'); }
}

export function show(id: string, against = ''): void {
	batch(() => {
		openId.value = id;
		againstId.value = against;
		zoomPath.value = callersPath.value = [];
		sandwich.value = '';
	});
	if (page.value === 'explore') writeUrl('push');
	else go('explore');
}

export const leave = (): void => { openError.value = ''; show(''); };

/** A profile by its id; of a file that is gone, and of what the server does not have, an error. */
export async function load(id: string): Promise<Opened> {
	if (Object.hasOwn(opened.value, id)) return opened.value[id];
	if (isFile(id)) throw new Error('The file that was shown here is not kept: drop it on the page again.');
	const answer = await fetch(pinUrl(id));
	if (!answer.ok) throw new Error(answer.status === 404 ? 'This pin no longer exists: somebody removed it.' : await errorOf(answer));
	const blob = await answer.blob(), pin = (await api.pins()).data.pins.find((p) => p.id === id);
	return keep({ id, name: pin?.name || pin?.query || 'pinned profile', profile: await readPprof(blob), size: blob.size, blob, pin });
}

async function errorOf(r: Response): Promise<string> {
	const text = (await r.text()).slice(0, 500);
	try { return (JSON.parse(text) as { error: string }).error; } catch { return text || `HTTP ${r.status}`; }
}

/** The query of a pin, at its time. */
export function openQuery(pin: Pin): void {
	batch(() => {
		query.value = pin.query ?? '';
		selection.value = pin.timeMs ? { at: Math.round(pin.timeMs / 1000) } : null;
		openId.value = againstId.value = '';
	});
	writeUrl('push');
}
