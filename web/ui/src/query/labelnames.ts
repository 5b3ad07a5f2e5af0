// SPDX-License-Identifier: Apache-2.0
// Labels by the names that other tools have for them: who looks for process_name finds comm.

const OTHERS = new Map(Object.entries({
	comm: ['process_name', 'process', 'process.executable.name', 'executable_name', 'command', 'thread_comm', 'cmdline', 'program'],
	container: ['container_name', 'container.name', 'k8s.container.name', 'docker_container'],
	pod: ['pod_name', 'k8s.pod.name', 'kubernetes_pod_name'],
	namespace: ['kube_namespace', 'k8s.namespace.name', 'kubernetes_namespace'],
	node: ['host', 'hostname', 'host.name', 'nodename', 'k8s.node.name', 'machine'],
	unit: ['systemd_unit', 'systemd_service', 'service_unit'],
	job: ['service', 'service_name', 'service.name', 'app', 'application'],
	instance: ['target', 'address', 'endpoint'],
}));

/** A label that was found; as: the name it was found by, if that is not its own. */
export interface FoundLabel { label: string; as?: string }

/** The labels that match a text: those whose names begin with it come first. */
export function findLabels(text: string, labels: string[]): FoundLabel[] {
	const t = text.trim().toLowerCase();
	if (!t) return labels.map((label) => ({ label }));
	const at = (l: string) => l.toLowerCase().indexOf(t);
	const own = labels.filter((l) => at(l) >= 0).sort((a, b) => Number(at(a) > 0) - Number(at(b) > 0));
	const others = labels.filter((l) => !own.includes(l)).flatMap((label) => {
		const as = OTHERS.get(label)?.find((o) => o.includes(t));
		return as ? [{ label, as }] : [];
	});
	return [...own.map((label) => ({ label })), ...others];
}

/** The most likely ones come first. */
const ORDER = ['container', 'pod', 'namespace', 'unit', 'comm', 'job', 'instance', 'node'];
export const sortLabels = (labels: string[]): string[] =>
	labels.filter((l) => l !== '__name__').sort((a, b) => (ORDER.indexOf(a) + 1 || 99) - (ORDER.indexOf(b) + 1 || 99) || a.localeCompare(b));
/** Labels whose values are searched for a typed text. */
export const searched = (labels: string[]): string[] => ORDER.filter((l) => labels.includes(l));
