// SPDX-License-Identifier: Apache-2.0
// A pprof file that is dropped on any page, or chosen by a button, is read and shown by this page alone: no byte of it goes to the server.
import { useEffect, useRef } from 'preact/hooks';
import { signal } from '@preact/signals';
import { openFiles, openId } from './opened';

const over = signal(false);
let chooser: HTMLInputElement | null = null, compareWith = '';

/** Asks for a file, or two. With `id`, what is chosen is compared with that. */
export function chooseFile(id = ''): void {
	compareWith = id;
	chooser?.click();
}

const hasFiles = (e: DragEvent) => [...(e.dataTransfer?.types ?? [])].includes('Files');

export function FileDrop() {
	const input = useRef<HTMLInputElement>(null);
	useEffect(() => {
		chooser = input.current;
		let left = 0;
		const drag = (e: DragEvent) => {
			if (!hasFiles(e)) return;
			e.preventDefault();
			clearTimeout(left);
			over.value = true;
			left = window.setTimeout(() => { over.value = false; }, 300); /* no event follows a drag that left the window */
		};
		const drop = (e: DragEvent) => {
			if (!hasFiles(e)) return;
			e.preventDefault();
			over.value = false;
			void openFiles(e.dataTransfer!.files, openId.value === 'pins' ? '' : openId.value);
		};
		addEventListener('dragenter', drag);
		addEventListener('dragover', drag);
		addEventListener('drop', drop);
		return () => { removeEventListener('dragenter', drag); removeEventListener('dragover', drag); removeEventListener('drop', drop); };
	}, []);
	return (
		<>
			<input ref={input} type="file" class="offscreen" tabIndex={-1} aria-hidden="true" accept=".pb,.gz,.pprof,.prof,.profile,*/*" multiple onChange={(e) => {
				const files = [...(e.currentTarget.files ?? [])];
				e.currentTarget.value = '';
				if (files.length) void openFiles(files, compareWith);
			}} />
			{over.value && <div class="drop-here"><b>Drop a pprof file to look at it</b><span>{openId.value && openId.value !== 'pins' ? 'it is compared with what is shown' : 'two are compared'}; nothing is sent to the server</span></div>}
		</>
	);
}
