// SPDX-License-Identifier: Apache-2.0
// The ways to share a profile, and to take it elsewhere: a link, files, a picture, commands, a pin.
import { useEffect, useState } from 'preact/hooks';
import { exportUrl } from '../base/api';
import { Chevron, Copy, Download, Link, Pin, Upload } from '../base/icons';
import { colorBy, permalink } from '../base/state';
import { dark } from '../base/theme';
import { copyText, Popover } from '../base/ui';
import type { PerSample } from '../compare/noise';
import { changeColors } from '../compare/state';
import type { ProfileState } from '../explore/explore';
import type { FlameTree } from '../flame/tree';
import { show } from '../share/opened';
import { fileName, pictureOf, pprofCommand, pprofUrl, save, toolCommand } from '../share/elsewhere';
import { chooseFile } from '../share/drop';
import { PinDialog, usePins } from '../share/pins';
import { rootBelow, viewExpr } from './view';

interface Props {
	state: ProfileState;
	/** The visible part, for a picture. */
	tree?: FlameTree; zoom?: number; match?: Uint8Array | null; per?: PerSample | null;
}

const FILES: [Parameters<typeof exportUrl>[2], string, string, string][] = [
	['pprof', 'pprof', 'profile.proto, gzipped', '.pb.gz'], ['folded', 'Folded stacks', 'one line per stack', '.folded.txt'], ['speedscope', 'speedscope', 'a file for speedscope.app', '.speedscope.json'],
	['svg', 'SVG', 'a picture that stands alone', '.svg'], ['json', 'JSON', 'for scripts', '.json'], ['dot', 'Call graph', 'for graphviz', '.dot'],
];

export function ExportMenu({ state, tree = state.tree, zoom = 0, match = null, per = null }: Props) {
	const [open, setOpen] = useState(false), [pinning, setPinning] = useState(false);
	return (
		<>
			<Popover open={open} setOpen={setOpen} align="right" title="A link, files, a picture, commands" button={<><Link />Share<Chevron /></>}>
				{open && <Ways {...{ state, tree, zoom, match, per }} onPin={() => { setOpen(false); setPinning(true); }} onDone={() => setOpen(false)} />}
			</Popover>
			{pinning && <PinDialog expr={state.expr} time={state.time} onClose={() => setPinning(false)} />}
		</>
	);
}

function Ways({ state, tree, zoom, match, per, onPin, onDone }: Required<Props> & { onPin: () => void; onDone: () => void }) {
	const [copied, setCopied] = useState(''), { pins } = usePins();
	useEffect(() => {
		if (!copied) return;
		const timer = setTimeout(() => setCopied(''), 1400);
		return () => clearTimeout(timer);
	}, [copied]);
	/* Files hold the profile of the query; pictures also how one looks at it. */
	const { expr } = state, shown = state.shown ?? viewExpr(expr), name = fileName(state.tree, state.time);
	const copy = (what: string, text: string, icon = <Copy />, code?: string) => (
		<button type="button" class="row" onClick={() => void copyText(text).then(() => setCopied(what))}>{icon}<span>{copied === what ? 'Copied' : what}{code ? <code>{code}</code> : <small>to exactly this, with its time</small>}</span></button>
	);
	const picture = () => void pictureOf(tree, zoom, expr, { colorBy: colorBy.value, dark: dark.value, redGreen: changeColors.value === 'red', match, per, flip: rootBelow.value }).then((b) => save(`${name}.png`, b));
	const pprof = pprofCommand(pprofUrl(expr, state.time)), tool = toolCommand(new URL('.', document.baseURI).href, expr, state.time);
	return (
		<div class="export">
			{copy('Copy the link', permalink(state.time), <Link />)}
			{pins && <button type="button" class="row" onClick={onPin}><Pin /><span>Pin this profile…<small>the server keeps it, whatever the retention</small></span></button>}
			<div class="export-files">
				{FILES.map(([format, title, hint, end]) => <a key={format} class="row" href={exportUrl(format === 'svg' ? shown : expr, state.time, format)} download={name + end} onClick={onDone}><Download /><span>{title}<small>{hint}</small></span></a>)}
				<button type="button" class="row" onClick={() => { picture(); onDone(); }}><Download /><span>PNG<small>what is on the screen</small></span></button>
			</div>
			{copy('Copy the go tool pprof command', pprof, undefined, pprof)}
			{copy('Copy the pyrtool command', tool, undefined, tool)}
			{pins && <button type="button" class="row" onClick={() => { onDone(); show('pins'); }}><Pin /><span>Pinned profiles<small>{pins.pins.length} of at most {pins.max}</small></span></button>}
			<button type="button" class="row" onClick={() => { onDone(); chooseFile(); }}><Upload /><span>Open a pprof file…<small>it is read here, and sent nowhere</small></span></button>
		</div>
	);
}
