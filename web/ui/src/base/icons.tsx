// SPDX-License-Identifier: Apache-2.0
// The few drawings the page needs, 16 by 16, in the colour of the text around them.
import type { ComponentChildren } from 'preact';

const Icon = ({ children }: { children: ComponentChildren }) => (
	<svg class="icon" viewBox="0 0 16 16" aria-hidden="true" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round">{children}</svg>
);

export const Chevron = () => <Icon><path d="M4 6.5 8 10.5 12 6.5" /></Icon>;
export const Play = () => <Icon><path d="M5 3.5v9l7-4.5z" fill="currentColor" /></Icon>;
export const Search = () => <Icon><circle cx="7" cy="7" r="4.2" /><path d="m10.2 10.2 3.3 3.3" /></Icon>;
export const Close = () => <Icon><path d="m4.5 4.5 7 7m0-7-7 7" /></Icon>;
export const Link = () => <Icon><path d="M6.8 9.2a2.6 2.6 0 0 0 3.7 0l2-2a2.6 2.6 0 0 0-3.7-3.7l-.9.9M9.2 6.8a2.6 2.6 0 0 0-3.7 0l-2 2a2.6 2.6 0 0 0 3.7 3.7l.9-.9" /></Icon>;
export const Download = () => <Icon><path d="M8 2.5v7.5m-3-3 3 3 3-3M3 13h10" /></Icon>;
export const Upload = () => <Icon><path d="M8 10V2.5m-3 3 3-3 3 3M3 13h10" /></Icon>;
export const Pin = () => <Icon><path d="M6 2.5h4l-.5 4.5 2.5 2.5H4L6.5 7zM8 9.5v4" /></Icon>;
export const Copy = () => <Icon><rect x="5.5" y="5.5" width="7.5" height="7.5" rx="1.5" /><path d="M10.5 5.5v-1A1.5 1.5 0 0 0 9 3H4.5A1.5 1.5 0 0 0 3 4.5V9a1.5 1.5 0 0 0 1.5 1.5h1" /></Icon>;
export const Check = () => <Icon><path d="m3.5 8.5 3 3 6-7" /></Icon>;
export const Refresh = () => <Icon><path d="M13 8a5 5 0 1 1-1.5-3.6M13 2.5v2.7h-2.7" /></Icon>;
export const Up = () => <Icon><path d="M8 12.5v-9m-3.5 3.5L8 3.5 11.5 7" /></Icon>;
export const Filter = () => <Icon><path d="M2.5 3.5h11L9.5 8.5v4l-3-1.5v-2.5z" /></Icon>;
export const Sliders = () => <Icon><path d="M2.5 5h6M12.5 5h1M2.5 11h1M7.5 11h6" /><circle cx="10.5" cy="5" r="1.8" /><circle cx="5.5" cy="11" r="1.8" /></Icon>;
export const Plus = () => <Icon><path d="M8 3.5v9M3.5 8h9" /></Icon>;
export const Clock = () => <Icon><circle cx="8" cy="8" r="5.5" /><path d="M8 5v3.2l2.2 1.4" /></Icon>;
export const Grid = () => <Icon><path d="M2.5 4h6M2.5 8h9M2.5 12h4" stroke-width="2.5" /></Icon>;
export const Eye = ({ off }: { off?: boolean }) => <Icon><path d="M1.5 8C3.5 4.7 5.6 3.5 8 3.5S12.5 4.7 14.5 8C12.5 11.3 10.4 12.5 8 12.5S3.5 11.3 1.5 8z" /><circle cx="8" cy="8" r="1.8" />{off && <path d="M2.5 13.5l11-11" />}</Icon>;
export const Tag = () => <Icon><path d="M2.5 2.5h5.5l5.5 5.5-5.5 5.5L2.5 8zM5.3 5.3v.1" /></Icon>;
export const Warn = () => <Icon><path d="M8 2.5 14 13H2zM8 6.5v3M8 11.3v.1" /></Icon>;
