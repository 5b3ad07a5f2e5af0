// SPDX-License-Identifier: Apache-2.0
// The page of keys: what keys.ts knows, all of it.
import { signal } from '@preact/signals';
import { keyCaps, keyGroups, type KeyGroup } from './keys';
import { Dialog } from './ui';

export const keyListOpen = signal(false);

export function KeyList() {
	if (!keyListOpen.value) return null;
	return (
		<Dialog title="Keyboard" class="keylist" onClose={() => { keyListOpen.value = false; }}>
			<div class="key-groups">{keyGroups.map((g) => <Group key={g.where} g={g} />)}</div>
			<p class="hint">Everything else is reached with <kbd>Tab</kbd> and chosen with <kbd>Enter</kbd> or <kbd>Space</kbd>.</p>
		</Dialog>
	);
}

const Group = ({ g }: { g: KeyGroup }) => (
	<section>
		<h3>{g.where}</h3>
		<dl>{g.keys.map((k) => (
			<div key={k.what}>
				<dt>{k.keys.map((one, i) => <span key={one}>{i > 0 && ' or '}{keyCaps(one).map((cap) => <kbd key={cap}>{cap}</kbd>)}</span>)}</dt>
				<dd>{k.what}</dd>
			</div>
		))}</dl>
	</section>
);
