// SPDX-License-Identifier: Apache-2.0
// The ways to take a profile elsewhere.
import { useEffect, useState } from 'preact/hooks';
import { exportUrl } from '../base/api';
import { Chevron, Copy, Download } from '../base/icons';
import { copyText, Popover } from '../base/ui';
import type { ProfileState } from '../explore/explore';

export function ExportMenu({ state }: { state: ProfileState }) {
	const [open, setOpen] = useState(false);
	const [copied, setCopied] = useState(false);
	const pprof = exportUrl(state.expr, state.time, 'pprof');
	const command = `go tool pprof '${pprof.replace(/'/g, '%27')}'`;
	useEffect(() => { if (!open) setCopied(false); }, [open]);
	return (
		<Popover open={open} setOpen={setOpen} align="right" title="Take it elsewhere" button={<><Download />Export<Chevron /></>}>
			<div class="export">
				<a class="row" href={pprof} download={`${fileName(state)}.pb.gz`}><Download /><span>pprof<small>profile.proto, gzipped</small></span></a>
				<a class="row" href={exportUrl(state.expr, state.time, 'folded')} download={`${fileName(state)}.folded.txt`}><Download /><span>Folded stacks<small>one line per stack</small></span></a>
				<a class="row" href={exportUrl(state.expr, state.time, 'json')} download={`${fileName(state)}.json`}><Download /><span>JSON<small>for scripts</small></span></a>
				<a class="row" href={exportUrl(state.expr, state.time, 'speedscope')} download={`${fileName(state)}.speedscope.json`}><Download /><span>speedscope<small>a file for speedscope.app</small></span></a>
				<a class="row" href={exportUrl(state.expr, state.time, 'svg')} download={`${fileName(state)}.svg`}><Download /><span>SVG<small>a picture of the flame graph</small></span></a>
				<a class="row" href={exportUrl(state.expr, state.time, 'dot')} download={`${fileName(state)}.dot`}><Download /><span>Call graph<small>for graphviz</small></span></a>
				<button type="button" class="row" onClick={() => void copyText(command).then(() => setCopied(true))}><Copy /><span>{copied ? 'Copied' : 'Copy the go tool pprof command'}<code>{command}</code></span></button>
			</div>
		</Popover>
	);
}

const fileName = (s: ProfileState) => `${s.tree.typeName.replace(/\W+/g, '_') || 'profile'}-${Math.round(s.time)}`;
