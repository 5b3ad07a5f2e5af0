// SPDX-License-Identifier: Apache-2.0
// Light or dark, as the system says. Canvases read it here; everything else follows the same media query in CSS.
import { signal } from '@preact/signals';

const media = matchMedia('(prefers-color-scheme: dark)');
export const dark = signal(media.matches);
media.addEventListener('change', () => { dark.value = media.matches; });

export const calm = matchMedia('(prefers-reduced-motion: reduce)').matches;
export const MONO = 'ui-monospace, "SF Mono", "Cascadia Code", "JetBrains Mono", Menlo, Consolas, "DejaVu Sans Mono", "Liberation Mono", monospace';
export const SANS = 'system-ui, -apple-system, "Segoe UI", Roboto, Cantarell, "Noto Sans", "DejaVu Sans", "Liberation Sans", Arial, sans-serif';

/** A custom property of the style sheet, for what is painted rather than styled. */
export const cssVar = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
