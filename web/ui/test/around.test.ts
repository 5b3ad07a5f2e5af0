// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { BucketStatus } from '../src/base/api';
import { agentsOf, figuresOf, gaugesOf, stateOf } from '../src/pages/agents';
import { matching, withStored } from '../src/pages/language';
import { bucketRows, daysOf, flagNumber, limitsOf, parseMetrics, problemsOf, serverRows } from '../src/pages/status';

const sample = (metric: Record<string, string>, value: number) => ({ metric, value: [0, String(value)] as [number, string] });

test('agents: metrics and profiles of one address are one, also from two jobs with other labels', () => {
	const now = [
		sample({ __name__: 'pyrrha_agent_build_info', job: 'agent', instance: 'a:1', version: '1.2' }, 1),
		sample({ __name__: 'pyrrha_agent_host_info', job: 'agent', instance: 'a:1', node: 'alpha', kernel: '6.1', machine: 'x86_64' }, 1),
		sample({ __name__: 'profile_up', job: 'profiles', instance: 'a:1', zone: 'z', profile: 'on_cpu' }, 1),
		sample({ __name__: 'profile_up', job: 'profiles', instance: 'b:1', zone: 'z', profile: 'on_cpu' }, 1),
		sample({ __name__: 'profile_up', job: 'agent', instance: 'c:1', profile: 'on_cpu' }, 0),
	];
	const all = agentsOf(now, [sample({ __name__: 'pyrrha_agent_build_info', job: 'agent', instance: 'c:1', version: '1.1' }, 1)]);
	assert.deepEqual(all.map((a) => [a.node || a.instance, a.version, stateOf(a), a.jobs]), [['alpha', '1.2', 'up', ['agent', 'profiles']], ['b:1', '', 'no metrics', ['profiles']], ['c:1', '1.1', 'down', ['agent']]]);
	assert.match(gaugesOf([all[0]]), /instance=~"a:1"/);
	const f = figuresOf([sample({ __name__: 'pyrrha_agent_frequency_hertz', job: 'agent', instance: 'a:1' }, 20), sample({ __name__: 'pyrrha_agent_reduced', job: 'agent', instance: 'a:1', profile: 'on_cpu' }, 1)], [
		sample({ __of__: 'samples', job: 'agent', instance: 'a:1' }, 90), sample({ __of__: 'lost_samples', job: 'agent', instance: 'a:1', reason: 'ring_full' }, 8), sample({ __of__: 'unseen_seconds', job: 'agent', instance: 'a:1' }, 0.1),
		sample({ __of__: 'stacks', job: 'agent', instance: 'a:1', end: 'bottom' }, 75), sample({ __of__: 'stacks', job: 'agent', instance: 'a:1', end: 'too_deep' }, 25)]).get(all[0].key)!;
	assert.equal(f.lost, 0.1);
	assert.equal(f.truncated, 0.25);
	assert.deepEqual(f.lostBy.map(([k]) => k), ['ring_full', 'ticks']);
	assert.deepEqual(f.reduced, ['on_cpu']);
});

test('the language: searched by name first, examples over what is stored', () => {
	const f = (name: string, doc: string) => ({ signature: `${name}(x)`, doc, returns: 'values', example: `${name}(cpu[5m])` });
	const found = matching([{ title: 'a', entries: [f('rate', 'per second, itself'), f('self', '')] }, { title: 'b', entries: [f('sum', '')] }], 'self');
	assert.deepEqual(found.map((s) => s.entries.map((e) => e.signature)), [['self(x)', 'rate(x)']]);
	const types = [{ name: 'on_cpu:cpu:nanoseconds:cpu:nanoseconds:delta', alias: 'on_cpu', title: '', unit: 'nanoseconds', kind: 'delta' as const, series: 1 }];
	assert.equal(withStored('self(merge(cpu[5m]), {function="cpu"})', types), 'self(merge(on_cpu[5m]), {function="cpu"})');
	assert.equal(withStored('rate(cpu[5m])', []), 'rate(cpu[5m])');
});

test('status: metrics, limits, problems, days', () => {
	const m = parseMetrics('# HELP x y\nx{a="b c"} 2\nx{a="d"} 3\npyrrha_http_memory_bytes{of="answers"} 7\npyrrha_tsdb_write_failed 1\nbad\n');
	assert.equal(m.get('x'), 5);
	assert.equal(m.get('x{a="d"}'), 3);
	assert.deepEqual([flagNumber('256MiB'), flagNumber('0B'), flagNumber('512'), flagNumber('15d'), flagNumber(undefined)], [268435456, 0, 512, NaN, NaN]);
	const answers = limitsOf(m, [{ name: 'web.answer-memory', value: '1KiB', given: false, help: '' }], null).find((l) => l.flag === 'web.answer-memory')!;
	assert.deepEqual([answers.used, answers.most], [7, 1024]);
	const all = limitsOf(parseMetrics('process_resident_memory_bytes 5\n'), [{ name: 'memory', value: '2GiB', given: false, help: '' }], null)[0];
	assert.deepEqual([all.flag, all.used, all.most], ['memory', 5, 2147483648]);
	assert.equal(problemsOf(m).length, 1);
	const block = (minTime: number, level: number, numSamples: number) => ({ minTime, maxTime: minTime + 1, stats: { numSamples, numSeries: 1, numBytes: 10 }, compaction: { level } });
	assert.deepEqual(daysOf([block(0, 1, 5), block(3600000, 1, 6), block(0, 2, 11), block(86400000, 1, 1)]).map((d) => [d.day, d.samples, d.bytes]), [['1970-01-02', 1, 10], ['1970-01-01', 11, 30]]);
});

test('status: the bucket', () => {
	const empty = { parts: 0, bytes: 0, since: '' }, here = { days: 0, from: '', until: '' };
	const well: BucketStatus = { configured: true, store: 'S3 bucket b at h', state: 'writing', id: 'shop-1', why: '', days: 1, bytes: 2048, waiting: empty, lastSuccess: '', lastError: '', lastErrorTime: '', absent: here, cache: { bytes: 1024 } };
	const now = Date.parse('2026-11-30T12:00:00Z') / 1000, text = (b: BucketStatus) => bucketRows(b, now).filter((r) => r[1]).map(([name, t, bad]) => `${bad ? '!' : ''}${name}: ${t}`);
	assert.deepEqual(text(well), ['Bucket: S3 bucket b at h', 'State: writing', 'Server: shop-1', 'Holds: 1 days, 2.00 KiB', 'Waits: nothing']);
	const waits = (since: string) => text({ ...well, days: 2, waiting: { parts: 3, bytes: 1024, since } }).find((t) => t.includes('Waits'))!;
	assert.match(waits('2026-11-30T11:00:00Z'), /^Waits: 3 parts, 1.00 KiB, since .*, 60 min ago$/);
	assert.match(waits('2026-11-30T09:00:00Z'), /^!Waits: /);
	const ill = text({ ...well, state: 'stopped', why: 'two servers', lastSuccess: '2026-11-30T11:59:50Z', lastError: 'refused', lastErrorTime: '2026-11-30T11:59:55Z', absent: { days: 2, from: '2026-11-01T00:00:00Z', until: '2026-11-02T23:59:00Z' } });
	assert.deepEqual(ill.filter((t) => t.startsWith('!')).map((t) => t.replace(/(error: ).*/, '$1')), ['!State: stopped: two servers', '!Last error: ']);
	assert.match(ill.at(-1)!, /^Not on this disk: 2 days, .* to .*, 1.00 KiB cached$/);
	assert.match(ill.find((t) => t.startsWith('Last success'))!, /10 s ago$/);
	assert.ok(text({ ...well, why: 'another id' }).includes('!State: writing: another id'));
});

test('status: other servers', () => {
	const one = { url: 'https://eu-1:7070', health: 'up' as const, lastError: '', lastAnswer: '2026-11-30T11:59:50Z', lastDuration: 0.01, externalLabels: { region: 'eu' }, calls: 5, failures: 0, receivedBytes: 9, dictionaryBytes: 9 };
	const now = Date.parse('2026-11-30T12:00:00Z') / 1000;
	assert.deepEqual(serverRows([one], now), [['https://eu-1:7070', 'up, region=eu, answered 10 s ago', false]]);
	assert.deepEqual(serverRows([{ ...one, health: 'down', lastError: 'refused', lastAnswer: '', externalLabels: {} }], now), [['https://eu-1:7070', 'down, refused', true]]);
});
