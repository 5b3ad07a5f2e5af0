// SPDX-License-Identifier: Apache-2.0
// Moments and spans for people: in the browser's time zone, or in UTC. A part that shows one while it is drawn is drawn again when the
// zone changes, as it has read its signal.
import { signal } from '@preact/signals';

export type Zone = 'local' | 'utc';
/** Set by graph/zone.tsx alone: it knows what was chosen. */
export const zone = signal<Zone>('local');

const two = (n: number) => String(n).padStart(2, '0');

/** year, month, day, hours, minutes, seconds */
function parts(t: number): number[] {
	const d = new Date(t * 1000);
	return zone.value === 'utc' ? [d.getUTCFullYear(), d.getUTCMonth() + 1, d.getUTCDate(), d.getUTCHours(), d.getUTCMinutes(), d.getUTCSeconds()]
		: [d.getFullYear(), d.getMonth() + 1, d.getDate(), d.getHours(), d.getMinutes(), d.getSeconds()];
}

export const clock = (t: number): string => parts(t).slice(3).map(two).join(':');

export const day = (t: number): string => parts(t).slice(0, 3).map(two).join('-');

/** The time of day, with the date in front unless it is today. */
export function moment(t: number, now = Date.now() / 1000): string {
	return day(t) === day(now) ? clock(t) : `${day(t)} ${clock(t)}`;
}

/** The zone's offset from UTC at that moment, in seconds. */
export const shift = (t: number): number => zone.value === 'utc' ? 0 : -60 * new Date(t * 1000).getTimezoneOffset();

/** The same in words: "UTC", "UTC+02:00". */
export function offset(t: number): string {
	const minutes = shift(t) / 60, a = Math.abs(minutes);
	return minutes === 0 ? 'UTC' : `UTC${minutes < 0 ? '−' : '+'}${two(Math.floor(a / 60))}:${two(a % 60)}`;
}

export function ago(t: number, now = Date.now() / 1000): string {
	const s = now - t;
	if (s < 0) return 'now';
	if (s < 1) return 'just now';
	if (s < 90) return `${Math.round(s)} s ago`;
	if (s < 5400) return `${Math.round(s / 60)} min ago`;
	if (s < 172800) return `${Math.round(s / 3600)} h ago`;
	return `${Math.round(s / 86400)} d ago`;
}

/** For an <input type="datetime-local">, which has no zone. */
export const toInput = (t: number): string => `${day(t)}T${clock(t)}`;
export const fromInput = (s: string): number => new Date(zone.value === 'utc' ? `${s}Z` : s).getTime() / 1000;
