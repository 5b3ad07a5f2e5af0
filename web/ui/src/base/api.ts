// SPDX-License-Identifier: Apache-2.0
// The server's HTTP API as typed calls. Every address is relative to <base href>, so a route prefix costs nothing.

import { bare, FLAME_TYPE, MATRIX_TYPE, readFlame, readMatrix, type FrameList } from './wire';

export interface ProfileType {
	name: string; alias?: string; title: string; help?: string; unit: string; kind: 'delta' | 'cumulative' | 'gauge';
	series: number;
}

export interface FlameData {
	unit: string; sampleType: string; name: string; total: number; kind?: string;
	/** Wall time that profiles cover, and if the profile is a rate, over how long: it is here as its increase. */
	coveredSeconds?: number; perSeconds?: number;
	/** A part of the covered time was measured; value × weight is an estimate for all of it. Whether weights differ between the merged profiles. */
	weight?: number; mixedWeights?: boolean;
	/** As JSON has them, places in `strings`; as columns have them, texts. */
	strings?: string[];
	frames: { name: number[]; file: number[]; binary: number[]; startLine: number[] } | Omit<FrameList, 'token'>;
	nodes: {
		depth: ArrayLike<number>; frame: ArrayLike<number>; total: ArrayLike<number>; self: ArrayLike<number>; line: ArrayLike<number>;
		base?: { total: ArrayLike<number>; self: ArrayLike<number> };
		/** Nodes that stand for others, and the number of those. */
		cut?: { node: number[]; count: number[] };
	};
	hidden?: number;
	/** Rows of functions, exact whatever is hidden; `all` is how many there are, of which the largest are here. */
	functions?: { frame: number[]; total: number[]; self: number[]; base?: { total: number[]; self: number[] }; all: number };
	/** The result of a search: the value of all stacks with a matching frame, however small their boxes are. */
	found?: { total: number; base?: number; functions: number };
	/** How many names of the path that was asked for were there. */
	root?: number;
}

export interface FunctionInfo { name: string; signature: string; doc: string; aggregation: boolean; profiles: boolean }

/** A function, an operator …: what it gives, and an example that runs. */
export interface LanguagePart { signature: string; doc: string; returns: string; example: string }
export interface LanguageSection { title: string; entries: LanguagePart[] }

export type Labels = Record<string, string>;
/** Over time, in seconds. */
export interface MatrixSeries { metric: Labels; values: [number, number][] }
export interface VectorSample { metric: Labels; value: [number, string] }
export type QueryData =
	| { resultType: 'vector'; result: VectorSample[] }
	| { resultType: 'scalar' | 'string'; result: [number, string] };

/** A part of a query with what it cost; samples are what came out of it. */
export interface PlanNode {
	expr: string; seconds: number; series: number; samples: number; children: PlanNode[];
	read: { chunks: number; samples: number; bytes: number };
}
export interface Target {
	scrapePool: string; scrapeUrl: string; globalUrl?: string; labels: Labels; discoveredLabels?: Labels;
	health: 'up' | 'down' | 'unknown'; lastError: string; remedy?: string; note?: string; lastScrape: string; lastScrapeDuration: number;
	scrapeInterval?: string; scrapeTimeout?: string;
	/* ours: one entry per target and profile */
	profile?: string; lastBytes?: number; lastSamples?: number;
}
/** Discovered targets that are not scraped; failed: unintended. */
export interface Dropped { scrapePool: string; discoveredLabels: Labels; profile?: string; reason: string; failed: boolean }
/** A page of each list; the counts are of all that match. */
export interface Targets { activeTargets: Target[]; droppedTargets: Dropped[]; activeTargetCount: number; droppedTargetCount: number }
export interface TargetQuery { state?: 'active' | 'dropped'; scrapePool?: string; search?: string; health?: string; limit: number; offset?: number }

/** The sources of a job's targets; `since` is set together with an error. */
export interface Source {
	kind: string; role?: string; name: string; groups: number; targets: number; ready: boolean; error: string; since?: string;
	lastChange: string;
}
export interface Job {
	scrapePool: string; targets: number; up: number; down: number; profiles: number; dropped: number; droppedProfiles: number; failedProfiles: number; sources: Source[];
}
export interface RelabelStep {
	rule: { action: string; source_labels?: string[]; separator?: string; regex?: string; modulus?: number; target_label?: string; replacement?: string };
	output: Labels; keep: boolean;
}

/** An alert that is pending or fires. */
export interface Alert { labels: Labels; annotations: Labels; state: 'pending' | 'firing'; activeAt: string; keepFiringSince?: string; value: string }
interface AnyRule { name: string; query: string; labels: Labels; health: 'ok' | 'err' | 'unknown'; lastError?: string; evaluationTime: number; lastEvaluation: string }
export interface AlertingRule extends AnyRule {
	type: 'alerting'; state: 'unknown' | 'inactive' | 'pending' | 'firing'; duration: number; keepFiringFor: number; annotations: Labels; alerts: Alert[] | null;
}
export interface RecordingRule extends AnyRule { type: 'recording' }
export type Rule = AlertingRule | RecordingRule;
export interface RuleGroup<R extends Rule = Rule> { name: string; file: string; rules: R[]; interval: number; limit: number; evaluationTime: number; lastEvaluation: string }

/** A flag of the server; given: on its command line. */
export interface FlagInfo { name: string; value: string; given: boolean; help: string }
interface Counted { name: string; value: number }
/** Series and labels are of the newest day; times in ms. */
export interface StorageStatus {
	headStats: { numSeries: number; numLabelPairs: number; chunkCount: number; minTime: number; maxTime: number };
	seriesCountByMetricName: Counted[]; labelValueCountByLabelName: Counted[]; memoryInBytesByLabelName: Counted[]; seriesCountByLabelValuePair: Counted[];
	storage: { partitions: number; parts: number; windows: number; masks: number; diskBytes: number; headLogBytes: number; memory: { head: number; dictionary: number; blockCache: number; queue: number } };
}
/** A sealed part; level 1 holds samples, those above sums of them. */
export interface Block { minTime: number; maxTime: number; stats: { numSamples: number; numSeries: number; numBytes: number }; compaction: { level: number } }
/** The bucket of object_storage; moments are RFC 3339, '' is none. */
export interface BucketStatus {
	configured: boolean; store: string; state: 'writing' | 'unreachable' | 'stopped'; id: string; why: string; days: number; bytes: number;
	waiting: { parts: number; bytes: number; since: string }; lastSuccess: string; lastError: string; lastErrorTime: string; absent: { days: number; from: string; until: string }; cache: { bytes: number };
	others?: { servers: number; days: number; lastError: string };
}
/** Another server that queries ask. */
export interface ServerStatus {
	url: string; health: 'up' | 'down' | 'unknown'; lastError: string; lastAnswer: string; lastDuration: number; externalLabels: Labels;
	calls: number; failures: number; receivedBytes: number; dictionaryBytes: number;
}
/** When an alert would have been pending and firing. */
export interface PastAlert { labels: Labels; activeAt: string; firedAt?: string; endedAt?: string; state: string }

/** A profile that the server keeps, independently of its source data. */
export interface Pin { id: string; bytes: number; name?: string; query?: string; type?: string; timeMs?: number; seconds?: number; createdMs?: number }
export interface Pins { max: number; maxBytes: number; bytes: number; pins: Pin[] }

/** The error in the server's words; `kind` is its errorType, or 'network' if the server could not be reached. */
export class ApiError extends Error {
	constructor(readonly kind: string, message: string, readonly status = 0) { super(message); }
}

export interface Answer<T> { data: T; warnings: string[] }

/** A list is a parameter that is given several times. */
type Params = Record<string, string | number | string[] | undefined>;

export function url(path: string, params?: Params): string {
	const u = new URL(path, document.baseURI);
	for (const [k, v] of Object.entries(params ?? {}))
		for (const one of Array.isArray(v) ? v : [v])
			if (one !== undefined) u.searchParams.append(k, String(one));
	return u.href;
}

const away = () => new ApiError('network', 'The server does not answer. Is it still running?');

interface Read { r: Response; body: ArrayBuffer }

/** An answer, read to its end. A request that a newer one replaced is not an error, also when it was already sent. */
async function ask(path: string, params: Params | undefined, accept: string, signal?: AbortSignal, method?: 'POST' | 'DELETE'): Promise<Read> {
	const address = new URL(url(path, params)), headers = { Accept: accept };
	try {
		/* a path of many frames is longer than addresses may be */
		const r = await (address.href.length < 6000 && !method ? fetch(address.href, { signal, headers })
			: fetch(url(path), { signal, headers, method: method ?? 'POST', body: method === 'DELETE' ? undefined : address.searchParams })), body = await r.arrayBuffer();
		if (signal?.aborted) throw signal.reason;
		return { r, body };
	} catch (e) {
		if (signal?.aborted) throw e;
		throw away();
	}
}

export interface Envelope<T> { status?: string; data?: T; error?: string; errorType?: string; warnings?: string[]; infos?: string[] }

function opened<T>(body: Envelope<T>, r: Response): Answer<T> {
	if (body.status !== 'success')
		throw new ApiError(body.errorType ?? 'error', body.error ?? `HTTP ${r.status}`, r.status);
	return { data: body.data as T, warnings: [...(body.warnings ?? []), ...(body.infos ?? [])] };
}

function parsed<T>({ r, body: bytes }: Read): Answer<T> {
	const text = new TextDecoder().decode(bytes);
	let body: Envelope<T>;
	try {
		body = r.status === 204 ? { status: 'success' } : JSON.parse(text);
	} catch {
		throw new ApiError('bad_response', `HTTP ${r.status}: ${text.slice(0, 300) || 'no body'}`, r.status);
	}
	return opened(body, r);
}

const get = async <T>(path: string, params?: Params, signal?: AbortSignal, method?: 'POST' | 'DELETE'): Promise<Answer<T>> =>
	parsed(await ask(`api/v1/${path}`, params, 'application/json', signal, method));

/** The frames of the newest answer: the server does not send them again. */
let frames: FrameList | null = null;

/** A flame graph as columns; errors, and answers of a server that has none, are JSON. */
async function getFlame(params: Params & { root: string[] }, signal?: AbortSignal): Promise<Answer<FlameData>> {
	const known = frames, { root } = params;
	if (root.length > 900) params = { ...params, root: [], path: root.join('\n') }; /* a request has at most 1,024 parameters */
	const read = await ask('api/v1/query', { ...params, format: 'flamegraph', list: known?.token || undefined }, accept(FLAME_TYPE), signal);
	return columns(read, FLAME_TYPE, (body) => {
		frames = null;
		const { answer, list } = readFlame(body, known);
		frames = list;
		return answer;
	});
}

const accept = (type: string): string => `${type}, application/json;q=0.5`;

/** Content of that type; errors are JSON. */
function columns<T>(got: Read, type: string, read: (body: ArrayBuffer) => Envelope<T>): Answer<T> {
	const { r, body } = got;
	if (r.headers.get('Content-Type') !== type) return parsed(got);
	try {
		return opened(read(body), r);
	} catch (e) {
		throw new ApiError('bad_response', `The server's answer cannot be read: ${(e as Error).message}.`, r.status);
	}
}

const at = (t: number) => t.toFixed(3);
/** Trees of at most this many nodes come whole: a zoom needs no further request. */
const WHOLE = 16384;

export const api = {
	profileTypes: (signal?: AbortSignal) => get<ProfileType[]>('profile_types', {}, signal),
	labels: (match?: string, signal?: AbortSignal) => get<string[]>('labels', { 'match[]': match }, signal),
	labelValues: (name: string, match?: string, limit?: number, signal?: AbortSignal) =>
		get<string[]>(`label/${encodeURIComponent(name)}/values`, { 'match[]': match, limit }, signal),
	/** Whether any series matches. */
	some: (match: string, start: number, end: number, signal?: AbortSignal) =>
		get<Labels[]>('series', { 'match[]': match, start: at(start), end: at(end), limit: 1 }, signal).then((a) => a.data.length > 0),
	/** Values that match frames of the selected profiles, the most used first. */
	frameValues: (key: string, match: string[], start: number, end: number, limit: number, search?: string) =>
		get<string[]>(`frame/${key}/values`, { 'match[]': match, start: at(start), end: at(end), limit, search }),
	targets: (q: TargetQuery, signal?: AbortSignal) => get<Targets>('targets', { ...q, search: q.search || undefined, scrapePool: q.scrapePool || undefined }, signal),
	jobs: () => get<{ jobs: Job[] }>('discovery'),
	relabelSteps: (scrapePool: string, labels: Labels) =>
		get<{ steps: RelabelStep[] }>('targets/relabel_steps', { scrapePool, labels: JSON.stringify(labels) }),
	jobConfig: (scrapePool: string) => get<{ yaml: string }>('scrape_pools/config', { scrapePool }),
	/** All rules, without their alerts. */
	rules: () => get<{ groups: RuleGroup[] }>('rules', { exclude_alerts: 'true' }),
	alertingRules: () => get<{ groups: RuleGroup<AlertingRule>[] }>('rules', { type: 'alert' }),
	/** What the alerts of a rule file would have done. */
	tryRules: (rules: string, start: number, end: number, signal?: AbortSignal) =>
		get<{ alerts: PastAlert[] }>('rules/try', { rules, name: 'alert', start: at(start), end: at(end), timeout: 20 }, signal, 'POST'),
	pins: (signal?: AbortSignal) => get<Pins>('pins', {}, signal),
	pin: (query: string, time: number, name: string) => get<Pin>('pins', { query, time: at(time), name }, undefined, 'POST'),
	unpin: (id: string) => get<undefined>(`pins/${id}`, {}, undefined, 'DELETE'),
	/** The configured source link of a frame. */
	sourceLinks: (file: string, line: number, fn: string, binary: string, signal?: AbortSignal) =>
		get<{ name: string; url: string }[]>('source_links', { file, line, function: fn, binary }, signal),
	functions: () => get<FunctionInfo[]>('functions'),
	language: (signal?: AbortSignal) => get<{ types: LanguagePart[]; sections: LanguageSection[] }>('language', {}, signal),
	status: <T = Record<string, string | number | boolean>>(what: 'buildinfo' | 'runtimeinfo' | 'flags' | 'config' | 'bucket' | 'servers', signal?: AbortSignal) =>
		get<T>(`status/${what}`, {}, signal),
	flagDetails: () => get<FlagInfo[]>('status/flags/details'),
	/** Lists of at most `limit` each. */
	storage: (limit: number) => get<StorageStatus>('status/tsdb', { limit }),
	blocks: () => get<{ blocks: Block[] }>('status/tsdb/blocks'),
	/** The server's own, as text. */
	metrics: async (): Promise<string> => {
		const { r, body } = await ask('metrics', undefined, 'text/plain');
		if (!r.ok) throw new ApiError('bad_response', `metrics: HTTP ${r.status}`, r.status);
		return new TextDecoder().decode(body);
	},
	query: (query: string, time: number, signal?: AbortSignal) =>
		get<QueryData>('query', { query, time: at(time) }, signal).then((a) => { if (a.data.resultType === 'vector') for (const s of a.data.result) bare(s.metric); return a; }),
	range: async (query: string, start: number, end: number, step: number, signal?: AbortSignal) =>
		columns(await ask('api/v1/query_range', { query, start: at(start), end: at(end), step }, accept(MATRIX_TYPE), signal), MATRIX_TYPE, readMatrix),
	explain: (query: string, start: number, end: number, step: number) =>
		get<{ explain: { plan: PlanNode } }>('query_range', { query, start: at(start), end: at(end), step, explain: 1 }),
	/** root: names from the outermost call on: what is below the last of them. functions: about how many of the largest. Boxes below a
	 * quarter of a pixel of that width are left out, unless there are few nodes. */
	flame: (query: string, time: number, width: number, root: string[], functions: number, signal?: AbortSignal) =>
		getFlame({ query, time: at(time), width: Math.round(width), whole: width > 1 ? WHOLE : undefined, root, functions }, signal),
	/** The same of a search alone; it rejects an expression that the server does not know. */
	found: (query: string, time: number, root: string[], search: string, signal?: AbortSignal) =>
		getFlame({ query, time: at(time), width: 1, root, search }, signal).then((a) => a.data.found!),
};

/** The address of the same answer in another format, for downloads and `go tool pprof`. */
export const exportUrl = (query: string, time: number, format: 'pprof' | 'folded' | 'json' | 'speedscope' | 'svg' | 'dot') =>
	url('api/v1/query', { query, time: at(time), format });
