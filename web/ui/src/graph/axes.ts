// SPDX-License-Identifier: Apache-2.0
// Where the lines of a grid stand, and what is written at them. Pure.
import { clock, day, shift } from '../base/time';
import type { AxisUnit } from '../base/units';

const DAY = 86400;
const STEPS = [1, 5, 10, 15, 30, 60, 300, 600, 900, 1800, 3600, 7200, 10800, 14400, 21600, 28800, 43200, ...[1, 2, 3, 5, 7, 10, 14, 30, 60, 90, 180, 365].map((d) => d * DAY)];

/** Round moments of the displayed zone, at most `most` of them, each with its text: the time of day, or the day where a new one begins. */
export function timeTicks(from: number, to: number, most: number): { t: number; text: string }[] {
	const step = STEPS.find((s) => (to - from) / s <= most) ?? to - from, out: { t: number; text: string }[] = [];
	let before = '';
	/* The clock on the wall counts: from 0:00, also where it is put forward or back on the way. */
	for (let wall = Math.ceil((from + shift(from)) / step) * step, t; (t = wall - shift(wall - shift(from))) <= to; wall += step) {
		if (t < from || out.length && t <= out[out.length - 1].t) continue;
		const d = day(t), time = clock(t);
		out.push({ t, text: step >= DAY || (before ? before !== d : time === '00:00:00') ? d.slice(5) : step < 60 ? time : time.slice(0, 5) });
		before = d;
	}
	return out;
}

/** Round values: for bytes, round in powers of two. */
export function valueTicks(min: number, max: number, unit: AxisUnit): number[] {
	const span = max - min;
	if (!(span > 0 && span < Infinity)) return [min];
	const binary = unit === 'bytes' || unit === 'bytes/s';
	const base = binary ? 2 : 10, raw = span / 6;
	let step = base ** Math.floor(Math.log(raw) / Math.log(base) + 1e-9);
	if (binary) { while (span / step > 6) step *= 2; } else step *= raw / step > 5 ? 10 : raw / step > 2 ? 5 : raw / step > 1 ? 2 : 1;
	const out: number[] = [];
	for (let v = Math.ceil(min / step) * step; v <= max + step * 1e-6; v += step) out.push(Math.abs(v) < step * 1e-6 ? 0 : v);
	return out;
}
