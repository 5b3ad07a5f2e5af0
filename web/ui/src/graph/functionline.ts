// SPDX-License-Identifier: Apache-2.0
// Functions over time: which of them have their share drawn in the graph.
import { asList, inUrl, writeUrl } from '../base/state';

const MOST = 4;

/** The functions whose share is drawn. */
export const functionLines = inUrl<string[]>(['explore'], 'fn', [], asList);

/** Draws the share of that function of the query's profiles over time, beside the series. */
export function functionOverTime(name: string): void {
	functionLines.value = [...functionLines.value.filter((f) => f !== name), name].slice(-MOST);
	writeUrl('push');
	document.querySelector('.graph-panel')?.scrollIntoView({ block: 'nearest' });
}

export function closeFunction(name: string): void {
	functionLines.value = functionLines.value.filter((f) => f !== name);
	writeUrl('push');
}
