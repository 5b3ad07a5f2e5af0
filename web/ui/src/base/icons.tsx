// SPDX-License-Identifier: Apache-2.0
// The few drawings the page needs, 16 by 16, in the colour of the text around them.
import type { ComponentChildren } from 'preact';

const Icon = ({ children }: { children: ComponentChildren }) => (
	<svg class="icon" viewBox="0 0 16 16" aria-hidden="true" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round">{children}</svg>
);

export const Chevron = () => <Icon><path d="M4 6.500 8 10.500 12 6.500" /></Icon>;
export const Play = () => <Icon><path d="M5 3.500v9l7-4.500z" fill="currentColor" /></Icon>;
export const Search = () => <Icon><circle cx="7" cy="7" r="4.200" /><path d="m10.200 10.200 3.300 3.300" /></Icon>;
export const Close = () => <Icon><path d="m4.500 4.500 7 7m0-7-7 7" /></Icon>;
export const Link = () => <Icon><path d="M6.800 9.200a2.600 2.600 0 0 0 3.700 0l2-2a2.600 2.600 0 0 0-3.700-3.700l-.9.9M9.200 6.800a2.600 2.600 0 0 0-3.700 0l-2 2a2.600 2.600 0 0 0 3.700 3.700l.9-.9" /></Icon>;
export const Download = () => <Icon><path d="M8 2.500v7.500m-3-3 3 3 3-3M3 13h10" /></Icon>;
export const Upload = () => <Icon><path d="M8 10V2.500m-3 3 3-3 3 3M3 13h10" /></Icon>;
export const Pin = () => <Icon><path d="M6 2.500h4l-.5 4.500 2.500 2.500H4L6.500 7zM8 9.500v4" /></Icon>;
export const Copy = () => <Icon><rect x="5.500" y="5.500" width="7.500" height="7.500" rx="1.500" /><path d="M10.500 5.500v-1A1.500 1.500 0 0 0 9 3H4.500A1.500 1.500 0 0 0 3 4.500V9a1.500 1.500 0 0 0 1.500 1.500h1" /></Icon>;
export const Check = () => <Icon><path d="m3.500 8.500 3 3 6-7" /></Icon>;
export const Refresh = () => <Icon><path d="M13 8a5 5 0 1 1-1.500-3.600M13 2.500v2.700h-2.700" /></Icon>;
export const Up = () => <Icon><path d="M8 12.500v-9m-3.500 3.500L8 3.500 11.500 7" /></Icon>;
export const Filter = () => <Icon><path d="M2.500 3.500h11L9.500 8.500v4l-3-1.500v-2.500z" /></Icon>;
export const Sliders = () => <Icon><path d="M2.500 5h6M12.500 5h1M2.500 11h1M7.500 11h6" /><circle cx="10.500" cy="5" r="1.800" /><circle cx="5.500" cy="11" r="1.800" /></Icon>;
export const Plus = () => <Icon><path d="M8 3.500v9M3.500 8h9" /></Icon>;
export const Clock = () => <Icon><circle cx="8" cy="8" r="5.500" /><path d="M8 5v3.200l2.200 1.400" /></Icon>;
export const Grid = () => <Icon><path d="M2.500 4h6M2.500 8h9M2.500 12h4" stroke-width="2.500" /></Icon>;
export const Eye = ({ off }: { off?: boolean }) => <Icon><path d="M1.500 8C3.500 4.700 5.600 3.500 8 3.500S12.500 4.700 14.500 8C12.500 11.300 10.400 12.500 8 12.500S3.500 11.300 1.500 8z" /><circle cx="8" cy="8" r="1.800" />{off && <path d="M2.500 13.500l11-11" />}</Icon>;
export const Tag = () => <Icon><path d="M2.500 2.500h5.500l5.500 5.500-5.500 5.500L2.500 8zM5.300 5.300v.1" /></Icon>;
export const Warn = () => <Icon><path d="M8 2.500 14 13H2zM8 6.500v3M8 11.300v.1" /></Icon>;

export const Flame = () => (
	<svg class="logo" viewBox="0 0 32 32" aria-hidden="true">
		<path class="logo-outer" d="M17.200 1.500c.9 4.600-1.200 6.900-3.700 9.600C11 13.700 8 16.600 8 21.300c0 5.300 4 9.200 8.600 9.200 5 0 8.900-3.800 8.900-9 0-3.600-1.500-6.300-3.200-8.700-.2 2.200-1 3.600-2.400 4.400.6-6.100-.3-11.900-2.700-15.700z" />
		<path class="logo-inner" d="M16.600 19.200c.3 2.200-2.900 3.200-2.900 6 0 1.800 1.300 3.100 3 3.100s3.100-1.300 3.100-3.200c0-2.300-1.800-3.600-3.200-5.900z" />
	</svg>
);
