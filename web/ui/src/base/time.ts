// SPDX-License-Identifier: Apache-2.0
// Moments and spans for people, in the browser's time zone.

const two = (n: number) => String(n).padStart(2, '0');

export function clock(t: number): string {
	const d = new Date(t * 1000);
	return `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}

export function day(t: number): string {
	const d = new Date(t * 1000);
	return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`;
}

/** The time of day, with the date in front unless it is today. */
export function moment(t: number, now = Date.now() / 1000): string {
	return day(t) === day(now) ? clock(t) : `${day(t)} ${clock(t)}`;
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

/** For an <input type="datetime-local">. */
export const toInput = (t: number): string => `${day(t)}T${clock(t)}`;
export const fromInput = (s: string): number => new Date(s).getTime() / 1000;
