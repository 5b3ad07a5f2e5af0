// SPDX-License-Identifier: Apache-2.0
// A profile without a query: a file of this computer, or a pin, alone or beside another. All of it is here, so nothing is asked of the server
// but the pins themselves.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { Close, Download, Search, Upload } from '../base/icons';
import { colorBy, layout, searchText, writeUrl, type Layout } from '../base/state';
import { dark } from '../base/theme';
import { moment } from '../base/time';
import { MenuButton, MenuItem } from '../base/menu';
import { Chip, Segments } from '../base/ui';
import { formatChange, formatDuration, formatShare, formatValue } from '../base/units';
import { DiffScale } from '../compare/diffscale';
import { perSample, type Samples } from '../compare/samples';
import { changeColors, measure } from '../compare/state';
import { FlameGraph } from '../flame/flamegraph';
import { literal, matchRow, rowsOf, search, searchRegex } from '../flame/fold';
import { findPath, pathNames, pathOf, type FlameTree } from '../flame/tree';
import { frameOf, openFrameMenu } from '../profile/framemenu';
import { FunctionTable } from '../profile/functable';
import { Both } from '../profile/sandwich';
import { inverted, sandwich, sandwichOf, zoomPath } from '../profile/view';
import { Toggle } from '../profile/viewbar';
import { chooseFile } from './drop';
import { foldedOf, pictureOf, pprofCommand, save } from './elsewhere';
import { againstId, isFile, leave, load, openError, openId, openQuery, opened, pinUrl, sampleType, show, type Opened } from './opened';
import { PinList, usePins } from './pins';
import { totalOf, treeOf, type Look, type Pprof } from './pprof';

function useOpened(id: string): { is: Opened | null; error: string } {
	const [got, setGot] = useState<{ id: string; is: Opened | null; error: string }>({ id: '', is: null, error: '' });
	useEffect(() => {
		let here = true;
		if (id && id !== 'pins') load(id).then((is) => { if (here) setGot({ id, is, error: '' }); }, (e: Error) => { if (here) setGot({ id, is: null, error: e.message }); });
		return () => { here = false; };
	}, [id]);
	return got.id === id ? got : { is: null, error: '' };
}

const typeOf = (p: Pprof, name: string): number => { const i = p.types.findIndex((t) => t.type === name); return i < 0 ? p.first : i; };
const whenOf = (o: Opened): number => o.pin?.timeMs ? o.pin.timeMs / 1000 : o.profile.time;

export function OpenedView() {
	const id = openId.value, against = againstId.value;
	const now = useOpened(id), base = useOpened(against);
	const problem = openError.value || now.error || base.error;
	return (
		<div class="explore opened">
			<h1 class="unseen">{id === 'pins' ? 'Pinned profiles' : 'An opened profile'}</h1>
			{problem && <div class="error" role="alert"><b>{problem}</b></div>}
			{id === 'pins' ? (
				<section class="panel" aria-label="Pinned profiles">
					<header class="panel-head"><h2>Pinned profiles</h2><div class="grow" /><OpenButton /><CloseButton /></header>
					<PinList />
				</section>
			) : now.is ? <Shown key={id} now={now.is} base={base.is} />
				: now.error ? <p><button type="button" onClick={leave}>Back to the query</button></p>
					: <div class="panel loading" aria-busy="true"><div class="skeleton tall" /></div>}
		</div>
	);
}

const CloseButton = () => <button type="button" class="ghost" title="Back to the query" aria-label="Close" onClick={leave}><Close /></button>;
const OpenButton = () => <button type="button" onClick={() => chooseFile()}><Upload />Open a pprof file…</button>;

function Shown({ now, base }: { now: Opened; base: Opened | null }) {
	const p = now.profile, type = typeOf(p, sampleType.value);
	const [hover, setHover] = useState<string | null>(null);
	/* the base's type of that name; if it has none, the same index */
	const side = useMemo(() => base && { profile: base.profile, type: base.profile.types.findIndex((t) => t.type === p.types[type].type && t.unit === p.types[type].unit) }, [now, base, type]);
	const key = [now, base, type, measure.value], made = (look: Look): FlameTree | string => {
		try {
			return side && side.type < 0 ? `${base!.name} has no ${p.types[type].type}/${p.types[type].unit}: it cannot be compared with this` : treeOf({ profile: p, type }, side, measure.value === 'share', look);
		} catch (e) { return (e as Error).message; }
	};
	/* all of it first: shares are of that, and so is the table */
	const whole = useMemo(() => made({}), key), of = sandwich.value, up = inverted.value;
	const shown = useMemo(() => of ? [made({ up: true, of }), made({ of })] : up ? [made({ up })] : [whole], [...key, of, up]);
	const samples = useMemo(() => typeof whole === 'string' ? null : samplesOf(whole, now, base), [whole]);
	const error = [whole, ...shown].find((t) => typeof t === 'string'), tree = whole as FlameTree;
	if (!error) for (const t of shown as FlameTree[]) Object.assign(t, { whole: tree.whole, baseWhole: tree.baseWhole });
	return (
		<section class="panel profile" aria-label="Profile">
			<div class="profile-bar">
				<header class="panel-head profile-head">
					<Facts of={now} />
					{base && <span class="hint">compared with <b>{base.name}</b>{whenOf(base) > 0 && <> of {moment(whenOf(base))}</>}</span>}
					<div class="grow" />
					{p.types.length > 1 && <select aria-label="Sample type" value={p.types[type].type} onChange={(e) => { sampleType.value = e.currentTarget.value; writeUrl('replace'); }}>{p.types.map((t) => <option key={t.type} value={t.type}>{t.type}/{t.unit}</option>)}</select>}
					<CompareWith now={now} />
					{!error && <Take of={now} tree={tree} samples={samples} />}
					<CloseButton />
				</header>
			</div>
			{error ? <p class="error-text pad" role="alert">{error as string}</p> : tree.n <= 1 || tree.weight[0] === 0 ? <p class="hint pad">It has no samples of this type.</p> : <Body whole={tree} shown={shown as FlameTree[]} samples={samples!} hover={hover} setHover={setHover} />}
		</section>
	);
}

/** What it is: of a pin also what was asked, and when. */
function Facts({ of }: { of: Opened }) {
	const when = whenOf(of), seconds = of.profile.seconds;
	return (
		<span class="opened-facts">
			<b title={of.name}>{of.name}</b>
			<span class="hint">{[of.pin ? 'pinned' : 'a file of this computer', when > 0 && moment(when), seconds > 0 && `over ${formatDuration(Number(seconds.toPrecision(3)))}`, formatValue(of.size, 'bytes')].filter(Boolean).join(' · ')}</span>
			{of.pin?.query && <button type="button" class="link" title="Ask for it again" onClick={() => openQuery(of.pin!)}><code>{of.pin.query}</code></button>}
		</span>
	);
}

function CompareWith({ now }: { now: Opened }) {
	const { pins } = usePins(now), others = Object.values(opened.value).filter((o) => o.id !== now.id && isFile(o.id)), current = againstId.value;
	const pick = (id: string, close: () => void) => () => { close(); againstId.value = id; writeUrl('push'); };
	return (
		<>
			{current && <Segments<'share' | 'absolute'> label="What is compared" value={measure.value} onChange={(v) => { measure.value = v; writeUrl('replace'); }} options={[['share', 'Shares'], ['absolute', 'Absolute']]} />}
			<MenuButton button="Compare with" label="Compare with" align="right">{(close) => (
				<>
					<MenuItem checked={!current} onPick={pick('', close)}>nothing</MenuItem>
					{others.map((o) => <MenuItem key={o.id} checked={current === o.id} hint="file" onPick={pick(o.id, close)}>{o.name}</MenuItem>)}
					{pins?.pins.filter((p) => p.id !== now.id).slice(0, 20).map((p) => <MenuItem key={p.id} checked={current === p.id} hint={p.timeMs ? moment(p.timeMs / 1000) : 'pin'} onPick={pick(p.id, close)}>{(p.name || p.query || p.id).slice(0, 60)}</MenuItem>)}
					<MenuItem onPick={() => { close(); chooseFile(now.id); }}>a pprof file…</MenuItem>
				</>
			)}</MenuButton>
		</>
	);
}

/** Downloads, of what is here. */
function Take({ of, tree, samples }: { of: Opened; tree: FlameTree; samples: Samples | null }) {
	const name = of.name.replace(/\.(pb|gz|pprof|prof)$/g, '').replace(/[^\w.-]+/g, '_').slice(0, 60) || 'profile';
	const picture = () => void pictureOf(tree, findPath(tree, zoomPath.value), of.name, { colorBy: colorBy.value, dark: dark.value, redGreen: changeColors.value === 'red', per: perSample(samples), match: null }).then((b) => save(`${name}.png`, b));
	return (
		<MenuButton button={<><Download />Download</>} label="Download" align="right">{(close) => (
			<>
				<MenuItem hint="as it is" onPick={() => { close(); save(of.pin ? `${name}.pb.gz` : of.name, of.blob); }}>pprof</MenuItem>
				<MenuItem hint="one line per stack" onPick={() => { close(); save(`${name}.folded.txt`, new Blob([foldedOf(tree)], { type: 'text/plain' })); }}>Folded stacks</MenuItem>
				<MenuItem hint="what is on the screen" onPick={() => { close(); picture(); }}>PNG</MenuItem>
				{of.pin && <MenuItem onPick={() => { close(); void navigator.clipboard?.writeText(pprofCommand(pinUrl(of.id))); }}>Copy the go tool pprof command</MenuItem>}
				<MenuItem onPick={() => { close(); show('pins'); }}>Pinned profiles</MenuItem>
			</>
		)}</MenuButton>
	);
}

/** The value of one sample on each side, if the file counts its samples, too. */
function samplesOf(tree: FlameTree, now: Opened, base: Opened | null): Samples {
	const count = (o: Opened | null) => o ? totalOf({ profile: o.profile, type: o.profile.types.findIndex((t) => t.unit === 'count' && /^samples?$/.test(t.type)) }) : NaN;
	const n = count(now), b = count(base);
	return n > 0 && b > 0 ? { known: true, now: n, base: b, per: { now: tree.total[0] / n, base: tree.base!.total[0] / b } } : { known: false, why: 'These profiles do not say how many samples they have.' };
}

/** shown: the tree that is drawn, or callers and callees of a function. */
function Body({ whole, shown, samples, hover, setHover }: { whole: FlameTree; shown: FlameTree[]; samples: Samples; hover: string | null; setHover: (n: string | null) => void }) {
	const between = shown.length > 1, tree = between ? whole : shown[0], plain = tree === whole;
	const zoom = useMemo(() => between ? 0 : findPath(tree, zoomPath.value), [tree, between, zoomPath.value]);
	const re = useMemo(() => searchRegex(searchText.value), [searchText.value]);
	const found = useMemo(() => re ? search(tree, re, zoom) : null, [tree, re, zoom]);
	const table = useMemo(() => rowsOf(whole, plain ? zoom : 0), [whole, plain && zoom]);
	const setZoom = (n: number) => { zoomPath.value = pathNames(tree, n); writeUrl('push'); };
	const setSearch = (text: string) => { searchText.value = text; writeUrl('replace'); };
	const mark = (name: string) => { const exact = `^${literal(name)}$`; setSearch(searchText.value === exact ? '' : exact); };
	const total = tree.total[0], base = tree.base?.total[0], look = { colorBy: colorBy.value, per: perSample(samples), highlight: layout.value === 'both' ? hover : null };
	const menu = (t: FlameTree, node: number, x: number, y: number, zoomIn: () => void) => { const f = frameOf(t, node); openFrameMenu(f, x, y, { zoom: zoomIn, mark: () => mark(f.name), apart: true }); };
	const source = (t: FlameTree) => ({ expr: '', time: 0, width: 0, tree: t });
	return (
		<>
			<div class="opened-bar">
				<Segments<Layout> label="Layout" value={layout.value} onChange={(v) => { layout.value = v; writeUrl('replace'); }} options={[['flame', 'Flame graph'], ['both', 'Both'], ['table', 'Table']]} />
				<span class="sum">{base !== undefined && <>{formatValue(base, tree.unit)} → </>}{formatValue(total, tree.unit)}{base ? <em class={total > base ? 'more' : 'less'}>{formatChange((total - base) / Math.abs(base))}</em> : null}</span>
				{zoom > 0 && <button type="button" class="ghost" onClick={() => setZoom(0)}><Close />Reset zoom: {tree.names[tree.frame[zoom]]}, {formatShare(tree.total[zoom] / total)}</button>}
				<div class="toggles"><Toggle on={inverted.value} name="Inverted" title="What costs comes first, its callers behind it (an iceberg)" onChange={(on) => { inverted.value = on; writeUrl('replace'); }} /></div>
				{between && <Chip class="filter" name={`callers and callees of ${sandwich.value}`} onRemove={() => sandwichOf('')} />}
				<div class="grow" />
				{tree.base && <DiffScale />}
				<label class="field search"><Search /><input type="search" placeholder="Search functions (regexp)" aria-label="Search functions" value={searchText.value} onInput={(e) => setSearch(e.currentTarget.value)} />
					{found && <output>{re!.gaveUp ? 'too costly' : found.value ? `${formatShare(found.value / tree.total[zoom])} · ${formatValue(found.value, tree.unit)}` : re && table.rows.some((r) => matchRow(r, re)) ? '0 %' : 'no match'}</output>}</label>
			</div>
			<div class={`profile-body show-${layout.value}`}>
				{layout.value !== 'flame' && <FunctionTable key={tree.base ? 'diff' : 'one'} tree={whole} expr="" time={0} zoomed={plain && zoom > 0} apart samples={samples} {...table} onMore={() => undefined} filter={re} colorBy={colorBy.value} onHover={setHover} onPick={mark} picked="" />}
				{layout.value !== 'table' && (between ? <Both name={sandwich.value} callers={source(shown[0])} callees={source(shown[1])} re={re} {...look} onMenu={menu} />
					: <FlameGraph tree={tree} zoom={zoom} match={found?.frames ?? null} {...look} noSelf={!plain} onZoom={setZoom} onMenu={(node, x, y) => menu(tree, node, x, y, () => setZoom(node))} />)}
			</div>
			<p class="hint foot">{pathOf(tree, zoom).length > 1 ? 'Escape zooms out. ' : ''}All of it is in this page.</p>
		</>
	);
}
