// SPDX-License-Identifier: Apache-2.0
// What a person may choose for this browser, in the corner of every page.
import { useSignal } from '@preact/signals';
import { Sliders } from './icons';
import { keyListOpen } from './keylist';
import { theme, type Theme } from './theme';
import { Popover, Segments } from './ui';

export function Preferences() {
	const open = useSignal(false);
	return (
		<Popover class="preferences" buttonClass="square ghost" align="right" has="dialog" title="Colours and keys" label="Preferences" open={open.value} setOpen={(o) => { open.value = o; }} button={<Sliders />}>
			<div class="preferences-body" role="dialog" aria-label="Preferences">
				<span class="preferences-name">Colours</span>
				<Segments<Theme> label="Colours" value={theme.value} onChange={(t) => { theme.value = t; }}
					options={[['system', 'System', 'As the system says'], ['light', 'Light'], ['dark', 'Dark']]} />
				<span class="preferences-name">Keyboard</span>
				<button type="button" onClick={() => { open.value = false; keyListOpen.value = true; }}>All keys<kbd>?</kbd></button>
			</div>
		</Popover>
	);
}
