// SPDX-License-Identifier: Apache-2.0
// What the colours of a difference mean; a click exchanges them.
import { changeColors } from './state';
import { writeUrl } from '../base/state';

export function DiffScale() {
	const red = changeColors.value === 'red';
	return (
		<button type="button" class={`diff-scale ghost ${red ? 'red-green' : ''}`} aria-pressed={red} onClick={() => { changeColors.value = red ? 'orange' : 'red'; writeUrl('replace'); }}
			title={`Less than in the base, no more than chance (grey), more. Click for ${red ? 'orange and blue, suitable for colour-blind readers' : 'red and green'}`}>
			− less<i />more +
		</button>
	);
}
