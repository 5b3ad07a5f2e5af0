// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Target } from '../src/base/api';
import { advice, changes, groupActive, groupDropped, nameOf, ruleText, stateOf, sum } from '../src/pages/jobs';

const row = (instance: string, profile: string, health: Target['health'] = 'up'): Target => ({
	scrapePool: 'a', scrapeUrl: 'http://x/', labels: { instance }, health, lastError: '', lastScrape: '', lastScrapeDuration: 0, profile,
	discoveredLabels: { __address__: instance, __name__: profile, __profile_path__: `/${profile}` },
});

test('rows of one target are one', () => {
	const g = groupActive([row('h:1', 'cpu'), row('h:1', 'heap', 'down'), row('h:2', 'cpu', 'unknown'), row('h:2', 'heap')]);
	assert.deepEqual(g.map((f) => [nameOf(f), f.profiles.join(), f.health]), [['h:1', 'cpu,heap', 'down'], ['h:2', 'cpu,heap', 'up']]);
	const d = (profile: string, reason: string) => ({ scrapePool: 'a', discoveredLabels: { __address__: 'h:1', __name__: profile }, profile, reason, failed: false });
	assert.deepEqual(groupDropped([d('cpu', 'x'), d('heap', 'x'), d('mutex', 'y')]).map((f) => f.profiles), [['cpu', 'heap'], ['mutex']]);
});

test('what a rule changed', () => {
	assert.deepEqual(changes({ a: '1', b: '2' }, { b: '3', c: '4' }), { set: [['b', '3'], ['c', '4']], gone: ['a'] });
	assert.equal(ruleText({ action: 'replace', source_labels: ['a', 'b'], separator: ';', regex: '(.*)', target_label: 'c', replacement: '$1' }), 'replace [a, b] → c = $1');
	assert.equal(ruleText({ action: 'drop', source_labels: ['a'], separator: ';', regex: 'x.*', replacement: '$1' }), 'drop [a] =~ x.*');
	assert.equal(ruleText({ action: 'hashmod', source_labels: ['a'], separator: ';', regex: '(.*)', modulus: 4, target_label: 'm', replacement: '$1' }), 'hashmod [a] mod 4 → m');
});

test('sources and sums', () => {
	const s = { kind: 'http_sd_configs', name: '', groups: 0, targets: 0, ready: true, error: '', lastChange: '' };
	assert.equal(stateOf(s), 'ready');
	assert.equal(stateOf({ ...s, ready: false }), 'waiting');
	assert.equal(stateOf({ ...s, error: 'x' }), 'failing');
	const j = { scrapePool: 'a', targets: 3, up: 2, down: 1, profiles: 9, dropped: 4, droppedProfiles: 12, failedProfiles: 1, sources: [] };
	assert.deepEqual(sum([j, j]), { total: 6, up: 4, down: 2, dropped: 8 });
});

test('advice', () => {
	assert.match(advice('server returned HTTP status 403 Forbidden'), /credentials/);
	assert.match(advice('connect to 127.0.0.1 port 9 failed: Connection refused'), /reached/);
	assert.match(advice('open targets.json: No such file or directory'), /exists/);
	assert.equal(advice('something else'), '');
});
