// SPDX-License-Identifier: Apache-2.0
// Pins: making one, and the list of those that the server keeps.
import { useEffect, useState } from 'preact/hooks';
import { api, type ApiError, type Pin, type Pins } from '../base/api';
import { moment } from '../base/time';
import { CopyButton, Dialog, ScrollX } from '../base/ui';
import { Link } from '../base/icons';
import { formatValue } from '../base/units';
import { openQuery, pinLink, pinUrl, show } from './opened';
import { pprofCommand } from './elsewhere';

/** The pins; null: not known yet. off: pinning is not possible, and why. */
export function usePins(key?: unknown): { pins: Pins | null; off: string; ask: () => void } {
	const [pins, setPins] = useState<Pins | null>(null), [off, setOff] = useState(''), [n, setN] = useState(0);
	useEffect(() => {
		const abort = new AbortController();
		api.pins(abort.signal).then((a) => { setPins(a.data); setOff(''); }, (e: ApiError) => { if (!abort.signal.aborted) setOff(e.message); });
		return () => abort.abort();
	}, [n, key]);
	return { pins, off, ask: () => setN(n + 1) };
}

/** Asks for a name, keeps the profile, and then has its link. */
export function PinDialog({ expr, time, onClose }: { expr: string; time: number; onClose: () => void }) {
	const [name, setName] = useState(''), [made, setMade] = useState<Pin | null>(null), [error, setError] = useState(''), [busy, setBusy] = useState(false);
	const pin = () => {
		setBusy(true);
		api.pin(expr, time, name.trim().slice(0, 200)).then((a) => { setMade(a.data); setError(''); }, (e: ApiError) => setError(e.message)).finally(() => setBusy(false));
	};
	return (
		<Dialog title="Pin this profile" class="pin-dialog" onClose={onClose}>
			<p><code>{expr}</code> at {moment(time)}</p>
			<p class="hint">The server keeps it as a file, also when what it was made of is gone. Everybody who may read sees it in the list.</p>
			{made ? (
				<>
					<p role="status">It is pinned, with {formatValue(made.bytes, 'bytes')}.</p>
					<div class="pin-link"><input readOnly aria-label="Its link" value={pinLink(made.id)} onFocus={(e) => e.currentTarget.select()} /><CopyButton class="primary" icon={<Link />} label="Copy link" title="Copy the link" text={pinLink(made.id)} /></div>
				</>
			) : (
				<form class="pin-link" onSubmit={(e) => { e.preventDefault(); pin(); }}>
					<input aria-label="Name" placeholder="What it shows (not needed)" maxLength={200} value={name} onInput={(e) => setName(e.currentTarget.value)} />
					<button type="submit" class="primary" disabled={busy}>Pin</button>
				</form>
			)}
			{error && <p class="error-text" role="alert">{error}</p>}
		</Dialog>
	);
}

/** All pins; each opens, leads to its query, and can be removed. */
export function PinList() {
	const { pins, off, ask } = usePins(), [error, setError] = useState(''), [sure, setSure] = useState('');
	const remove = (p: Pin) => {
		if (sure !== p.id) { setSure(p.id); return; }
		api.unpin(p.id).then(() => setError(''), (e: ApiError) => setError(e.message)).finally(() => { setSure(''); ask(); });
	};
	if (off) return <p class="hint pad">The server keeps no pinned profiles: {off}.</p>;
	if (!pins) return <div class="loading" aria-busy="true"><div class="skeleton" /></div>;
	return (
		<>
			{error && <p class="error-text pad" role="alert">{error}</p>}
			{pins.pins.length === 0 ? <p class="hint pad">Nothing is pinned. “Pin this profile” is in the menu “Share” of every profile.</p> : (
				<ScrollX label="Pinned profiles"><table class="data pins">
					<thead><tr><th scope="col">Name</th><th scope="col">Query</th><th scope="col">Of</th><th scope="col">Pinned</th><th scope="col" class="num">Size</th><th><span class="unseen">What to do</span></th></tr></thead>
					<tbody>{pins.pins.map((p) => (
						<tr key={p.id}>
							<th scope="row"><button type="button" class="link" onClick={() => show(p.id)}>{p.name || 'profile'}</button></th>
							<td><button type="button" class="link" title="Ask for it again" onClick={() => openQuery(p)}><code>{p.query}</code></button></td>
							<td class="nowrap">{p.timeMs ? moment(p.timeMs / 1000) : ''}</td><td class="nowrap">{p.createdMs ? moment(p.createdMs / 1000) : ''}</td>
							<td class="num nowrap">{formatValue(p.bytes, 'bytes')}</td>
							<td class="nowrap"><CopyButton icon={<Link />} title="Copy its link" text={pinLink(p.id)} /><CopyButton title="Copy the go tool pprof command" text={pprofCommand(pinUrl(p.id))} />
								<button type="button" class={sure === p.id ? '' : 'ghost'} onBlur={() => setSure('')} onClick={() => remove(p)}>{sure === p.id ? 'Really remove' : 'Remove'}</button></td>
						</tr>
					))}</tbody>
				</table></ScrollX>
			)}
			<p class="hint pad">{pins.pins.length} of at most {pins.max}, {formatValue(pins.bytes, 'bytes')} of {formatValue(pins.maxBytes, 'bytes')}.</p>
		</>
	);
}
