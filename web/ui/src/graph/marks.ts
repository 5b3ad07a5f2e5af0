// SPDX-License-Identifier: Apache-2.0
// What else happened in the time of a graph: where a label of a version changed, and where alerts fired. Pure.
import type { Labels, MatrixSeries } from '../base/api';

export interface Mark {
	kind: 'version' | 'alert';
	/** An alert fired from..to; a change is at `from`. */
	from: number; to: number;
	/** Its text: "version 1.2 → 1.3", the alert's name. */
	title: string;
	/** Its subject: the labels of the group that changed, or of the alert. */
	labels: Labels;
}

/** Labels that say which build of a program ran. */
export const VERSION = /(^|[_.-])(version|image|build|revision|commit|sha|tag|release)([_.-]|$)/i;
/** Labels that say what ran, as long as they outlive a new version of it: pods and instances do not. */
const WHAT = ['job', 'namespace', 'k8s_namespace_name', 'service', 'service_name', 'app', 'app_kubernetes_io_name', 'deployment', 'statefulset', 'daemonset', 'workload', 'unit', 'container', 'comm'];
/** Ignores the kernel's and the runtime's builds, and labels that name the series. */
const NOT = /^__|kernel|interval|^go_?version$/;

export const versionLabels = (names: string[]): string[] => names.filter((n) => VERSION.test(n) && !NOT.test(n));
export const groupLabels = (names: string[]): string[] => WHAT.filter((n) => names.includes(n));

/** The moments at which a label in a group gets a new value. series: values mean that it existed then; from, step, n: the moments. */
export function versionMarks(series: MatrixSeries[], versions: string[], groups: string[], from: number, step: number, n: number): Mark[] {
	const out: Mark[] = [], at = (t: number) => Math.round((t - from) / step);
	const byGroup = new Map<string, MatrixSeries[]>();
	for (const s of series) {
		const key = JSON.stringify(groups.map((g) => s.metric[g] ?? ''));
		byGroup.set(key, [...byGroup.get(key) ?? [], s]);
	}
	for (const members of byGroup.values()) {
		const labels = Object.fromEntries(groups.filter((g) => members[0].metric[g]).map((g) => [g, members[0].metric[g]]));
		for (const v of versions) {
			const there: Set<string>[] = Array.from({ length: n }, () => new Set());
			for (const s of members) if (s.metric[v]) for (const [t] of s.values) there[at(t)]?.add(s.metric[v]);
			let before: Set<string> | null = null;
			there.forEach((now, i) => {
				if (!now.size) return;
				const fresh = [...now].filter((x) => before && !before.has(x)), old = [...before ?? []].filter((x) => !now.has(x));
				if (fresh.length) out.push({ kind: 'version', from: from + i * step, to: from + i * step, title: `${v} ${some(old.length ? old : [...before!])} → ${some(fresh)}`, labels });
				before = now;
			});
		}
	}
	return together(out);
}

const some = (list: string[]): string => list.length > 2 ? `${list[0]} and ${list.length - 1} others` : list.join(', ');

/** An image and its tag change at once: that is one mark. */
function together(marks: Mark[]): Mark[] {
	const out = new Map<string, Mark>();
	for (const m of marks) {
		const key = `${m.from} ${JSON.stringify(m.labels)}`, there = out.get(key);
		if (there) there.title += `, ${m.title}`;
		else out.set(key, { ...m });
	}
	return [...out.values()].sort((a, b) => a.from - b.from);
}

const OWN = new Set(['__name__', 'alertname', 'alertstate', 'severity']);

/** Stretches in which alerts fired that are about what is drawn: none of their labels contradicts all series, or a matcher of the query. */
export function alertMarks(alerts: MatrixSeries[], drawn: Labels[], asked: Labels, step: number): Mark[] {
	const agrees = (a: Labels, l: Labels) => Object.entries(a).every(([k, v]) => OWN.has(k) || l[k] === undefined || l[k] === v);
	const out: Mark[] = [];
	for (const a of alerts) {
		if (!agrees(a.metric, asked) || (drawn.length && !drawn.some((l) => agrees(a.metric, l)))) continue;
		const labels = Object.fromEntries(Object.entries(a.metric).filter(([k]) => !OWN.has(k) || k === 'severity'));
		let last: Mark | null = null;
		for (const [t] of a.values) {
			if (last && t - last.to <= 1.5 * step) last.to = t;
			else out.push(last = { kind: 'alert', from: t, to: t, title: a.metric.alertname ?? 'alert', labels });
		}
	}
	return out.sort((a, b) => a.from - b.from);
}

/** Overlapping marks as one button: those within this many seconds of the first of them. */
export function clustered(marks: Mark[], seconds: number): Mark[][] {
	const out: Mark[][] = [];
	for (const m of [...marks].sort((a, b) => a.from - b.from)) {
		const last = out[out.length - 1];
		if (last && m.from - last[0].from < seconds) last.push(m);
		else out.push([m]);
	}
	return out;
}
