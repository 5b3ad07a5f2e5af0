// SPDX-License-Identifier: Apache-2.0
// Colours of lines.
import { dark } from '../base/theme';
import { styled } from '../base/ui';

const LIGHT = ['#d9480f', '#1971c2', '#2f9e44', '#ae3ec9', '#e0a100', '#0c8599', '#e03177', '#6741d9', '#66851a', '#a0522d'];
const DARK = ['#ff8a4c', '#5aaef5', '#63cf7c', '#d48bec', '#f2c744', '#4cc4d8', '#ff7fb3', '#a394f5', '#b3d15c', '#d9a57c'];
const FUNCTIONS_LIGHT = ['#2a231d', '#0b5d68', '#7a1fa2', '#4d6b00'], FUNCTIONS_DARK = ['#f3ede7', '#7be0ee', '#e6b3f7', '#c9ee86'];

/** i: negative for all others as one. */
export const seriesColor = (i: number, isDark: boolean): string => i < 0 ? isDark ? '#8d837a' : '#8d8278' : (isDark ? DARK : LIGHT)[i % LIGHT.length];
export const functionColor = (i: number, isDark: boolean): string => (isDark ? FUNCTIONS_DARK : FUNCTIONS_LIGHT)[i % FUNCTIONS_LIGHT.length];
/** Beyond the palette lines are dashed, so that two of one colour differ. */
export const dashOf = (i: number): number[] | undefined => i < LIGHT.length ? i < 0 ? [2, 3] : undefined : [[6, 3], [2, 2], [9, 3, 2, 3]][Math.floor(i / LIGHT.length - 1) % 3];

export const Swatch = ({ color }: { color: string }) => <i class="swatch" ref={styled({ background: color })} />;
export const LineSwatch = ({ index }: { index: number }) => <Swatch color={seriesColor(index, dark.value)} />;
