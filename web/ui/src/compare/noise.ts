// SPDX-License-Identifier: Apache-2.0
// What of a difference could be chance. A profile is a sample: two profiles of the same program at the same work differ, and the fewer
// samples a row has, the more. A change within three standard errors is noise; about one row in 370 is further off by chance alone.
//
// k1 and k0 are the samples of a row now and in the base, n1 and n0 those of each whole.
//
// Shares. Each of n samples hits the row or does not: k is binomial, p = k/n. The standard error of p1 - p0 is estimated twice:
//     as observed          E² = p1(1-p1)/n1 + p0(1-p0)/n0
//     if nothing changed   E² = p(1-p)(1/n1 + 1/n0)              p = (k1+k0)/(n1+n0)
// Amounts per time. Samples arrive independently of each other: k is Poisson. With u, what one sample counts as it is shown (already
// scaled to the same time on both sides), a row shows v = k·u, and of v1 - v0
//     as observed          E² = k1·u1² + k0·u0² = v1·u1 + v0·u0
//     if nothing changed   E² = (k1+k0)·u1·u0   = v1·u0 + v0·u1   (then k1+k0 samples say that both expect (k1+k0)/(1/u1 + 1/u0))
//
// The larger of the two counts. Each alone errs where the other does not, when one side has far fewer samples: the first takes
// a row that the small side could not have shown for gone (k0 = 0 has no error of its own), the second takes a single sample of the small
// side for a surge, because the large side has none. With the larger, what is new needs ten samples wherever they are.
//
// Not covered: samples that come in bursts (threads that wait for each other) err more than independent ones; that the work itself
// changed is no error, but what one looks for.

export const SIGMAS = 3;

/** The value of one sample on each side, in the displayed unit and scale. */
export interface PerSample { now: number; base: number }
export interface Pair { now: number; base: number }

/** Standard error of the difference of two shares, as a share. */
export function shareError(v: Pair, whole: Pair, u: PerSample): number {
	const n1 = Math.abs(whole.now) / u.now, n0 = Math.abs(whole.base) / u.base;
	if (!(n1 > 0 && n0 > 0)) return Infinity;
	const part = (k: number, n: number) => Math.min(1, Math.max(0, k / n));
	const k1 = Math.abs(v.now) / u.now, k0 = Math.abs(v.base) / u.base, p1 = part(k1, n1), p0 = part(k0, n0), p = part(k1 + k0, n1 + n0);
	return Math.sqrt(Math.max(p1 * (1 - p1) / n1 + p0 * (1 - p0) / n0, p * (1 - p) * (1 / n1 + 1 / n0)));
}

/** Standard error of the difference of two amounts, in their unit. */
export function amountError(v: Pair, u: PerSample): number {
	const v1 = Math.abs(v.now), v0 = Math.abs(v.base);
	return Math.sqrt(Math.max(v1 * u.now + v0 * u.base, v1 * u.base + v0 * u.now));
}

export const isNoise = (change: number, error: number): boolean => Math.abs(change) <= SIGMAS * error;

/** What a sample counts as long as nobody knows: then every change may be noise. */
export const UNCOUNTED: PerSample = { now: 1e200, base: 1e200 };

/** Whether a change is noise: of shares of each whole, or of amounts. */
export const noisyChange = (v: Pair, whole: Pair, shares: boolean, u: PerSample): boolean =>
	shares ? isNoise(v.now / whole.now - v.base / whole.base, shareError(v, whole, u)) : isNoise(v.now - v.base, amountError(v, u));
