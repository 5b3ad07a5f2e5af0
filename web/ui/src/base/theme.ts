// SPDX-License-Identifier: Apache-2.0
// Light or dark: as the system says, or as was chosen here, which this browser keeps. Canvases read it here; everything else follows
// the attribute that it sets, for which base.css has two sets of colours.
import { effect, signal } from '@preact/signals';
import { kept } from './kept';

export type Theme = 'system' | 'light' | 'dark';
const media = matchMedia('(prefers-color-scheme: dark)');
const system = signal(media.matches);
media.addEventListener('change', () => { system.value = media.matches; });

export const theme = kept<Theme>('theme', 'system', (v) => v === 'system' || v === 'light' || v === 'dark');
export const dark = signal(false);
effect(() => {
	dark.value = theme.value === 'system' ? system.value : theme.value === 'dark';
	document.documentElement.dataset.scheme = dark.value ? 'dark' : 'light';
});

export const calm = matchMedia('(prefers-reduced-motion: reduce)').matches;
/** A custom property of the style sheet, for what is painted rather than styled. */
export const cssVar = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
export const SANS = cssVar('--sans') || 'sans-serif';

/** Canvases are repainted when the window's size changes, and also on a screen with another pixel ratio. */
function ofPixels(): void {
	matchMedia(`(resolution: ${devicePixelRatio}dppx)`).addEventListener('change', () => { dispatchEvent(new Event('resize')); ofPixels(); }, { once: true });
}
ofPixels();
