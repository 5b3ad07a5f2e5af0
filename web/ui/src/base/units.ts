// SPDX-License-Identifier: Apache-2.0
// Numbers for people. Flame graphs carry native units (nanoseconds, bytes, counts); graphs carry base units.

const scaled = (v: number): string => {
	const a = Math.abs(v);
	return a >= 1000 ? v.toFixed(0) : a >= 100 ? v.toFixed(0) : a >= 10 ? v.toFixed(1) : v.toFixed(2);
};

type Step = [number, string];
const TIME: Step[] = [[86400e9, 'd'], [3600e9, 'h'], [60e9, 'min'], [1e9, 's'], [1e6, 'ms'], [1e3, 'µs'], [1, 'ns']];
const BYTES: Step[] = [[2 ** 50, 'PiB'], [2 ** 40, 'TiB'], [2 ** 30, 'GiB'], [2 ** 20, 'MiB'], [2 ** 10, 'KiB'], [1, 'B']];
const COUNT: Step[] = [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k'], [1, '']];

function pick(v: number, steps: Step[]): string {
	const a = Math.abs(v);
	const step = steps.find(([size]) => a >= size * 0.9995) ?? steps[steps.length - 1];
	const n = v / step[0];
	const text = step[0] === 1 && Number.isInteger(v) ? String(v) : scaled(n);
	return step[1] ? `${text} ${step[1]}` : text;
}

/** A value of a profile in its native unit: 1234567890 nanoseconds is "1.23 s". */
export function formatValue(v: number, unit: string): string {
	if (!Number.isFinite(v)) return String(v);
	if (v === 0) return '0';
	switch (unit) {
	case 'nanoseconds': return pick(v, TIME);
	case 'microseconds': return pick(v * 1e3, TIME);
	case 'milliseconds': return pick(v * 1e6, TIME);
	case 'seconds': return pick(v * 1e9, TIME);
	case 'bytes': return pick(v, BYTES);
	case 'count': case 'objects': case '': return Math.abs(v) < 1e4 && Number.isInteger(v) ? v.toLocaleString('en-US') : pick(v, COUNT).replace(' ', '\u2009');
	default: return `${pick(v, COUNT).replace(' ', '\u2009')} ${unit}`;
	}
}

/** Numbers of the language are in seconds, bytes and counts: how many native units one of these is. */
export const perBase = (unit: string): number => unit === 'nanoseconds' ? 1e9 : unit === 'microseconds' ? 1e6 : unit === 'milliseconds' ? 1e3 : 1;

/** The name of a unit on the graph's y axis, and the text of a value of it. */
export type AxisUnit = 'cores' | 'seconds/s' | 'bytes' | 'bytes/s' | 'count' | '1/s' | 'seconds' | 'share' | '';

export function formatAxis(v: number, unit: AxisUnit): string {
	if (!Number.isFinite(v)) return String(v);
	if (v === 0) return '0';
	switch (unit) {
	case 'cores':
	case 'seconds/s': return Math.abs(v) >= 0.1 ? trimZeros(v.toFixed(2)) : trimZeros(Number(v.toPrecision(2)).toFixed(6));
	case 'bytes': return pick(v, BYTES);
	case 'bytes/s': return `${pick(v, BYTES)}/s`;
	case '1/s': return `${pick(v, COUNT)}/s`;
	case 'seconds': return pick(v * 1e9, TIME);
	case 'share': return formatShare(v);
	default: return Math.abs(v) < 1 ? trimZeros(v.toPrecision(3)) : trimPick(pick(v, COUNT));
	}
}

/** "1.50 k" is "1.5 k", "100" stays. */
export const trimPick = (s: string) => s.replace(/(\.\d*?)0+(?=\s|$)/, '$1').replace(/\.(?=\s|$)/, '');

const trimZeros = (s: string) => s.includes('.') && !s.includes('e') ? s.replace(/\.?0+$/, '') : s;

/** 0.1234 is "12.3 %"; what is not zero never reads as zero. */
export function formatShare(f: number): string {
	if (!Number.isFinite(f)) return '–';
	const p = f * 100, a = Math.abs(p);
	if (a === 0) return '0 %';
	if (a < 0.01) return p < 0 ? '> −0.01 %' : '< 0.01 %';
	return `${a >= 99.95 ? p.toFixed(0) : a >= 10 ? p.toFixed(1) : p.toFixed(2)} %`;
}

/** A share that grew or shrank, always with its sign: "+12.3 %", "−0.40 %", "±0 %". */
export const formatChange = (f: number): string => f === 0 ? '±0 %' : `${f > 0 ? '+' : '−'}${formatShare(Math.abs(f)).replace('< ', '<')}`;

/** A length of time as ProfQL writes it: 90 is "1m30s", 0.25 is "250ms". */
export function formatDuration(seconds: number): string {
	let ms = Math.max(1, Math.round(seconds * 1000));
	let out = '';
	for (const [size, name] of [[86400000, 'd'], [3600000, 'h'], [60000, 'm'], [1000, 's'], [1, 'ms']] as [number, string][]) {
		const n = Math.floor(ms / size);
		if (n > 0) { out += `${n}${name}`; ms -= n * size; }
	}
	return out;
}

/** The reverse, in seconds; NaN if it is malformed. */
export function parseDuration(text: string): number {
	const m = /^(?:(\d+)y)?(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+)s)?(?:(\d+)ms)?$/.exec(text.trim());
	if (!m || !text.trim()) return NaN;
	const size = [31536000, 604800, 86400, 3600, 60, 1, 0.001];
	return size.reduce((sum, s, i) => sum + s * Number(m[i + 1] ?? 0), 0);
}
