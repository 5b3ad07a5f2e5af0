// SPDX-License-Identifier: Apache-2.0
// Whether times are shown as UTC or as the browser's own: chosen once, kept in the browser, and in the address, so that a link reads as
// it did for its sender.
import { effect } from '@preact/signals';
import { kept } from '../base/kept';
import { inUrl, writeUrl } from '../base/state';
import { offset, zone, type Zone } from '../base/time';

const chosen = kept<Zone>('zone', 'local', (v) => v === 'local' || v === 'utc');
/* Only UTC is written: links with local times are shown in the reader's own zone. */
const utc = inUrl<boolean>('all', 'tz', false, { parse: (s) => s === 'utc', print: (v) => v ? 'utc' : '' });
effect(() => {
	if (!utc.value && chosen.value === 'utc') utc.value = true;
	zone.value = utc.value ? 'utc' : 'local';
});

export function setZone(to: Zone): void {
	chosen.value = to;
	utc.value = to === 'utc';
	writeUrl('replace');
}

export function ZoneButton({ now }: { now: number }) {
	const isUtc = zone.value === 'utc', text = isUtc ? 'UTC' : 'Local';
	return <button type="button" class="zone ghost" aria-pressed={isUtc} aria-label={`Times are ${isUtc ? 'UTC' : `local (${offset(now)})`}`} title={isUtc ? 'Times are UTC: show local time' : `Times are local (${offset(now)}): show UTC`}
		onClick={() => setZone(isUtc ? 'local' : 'utc')}>{text}</button>;
}
