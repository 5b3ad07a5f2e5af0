/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* An exec wakes the agent: what a program of a language runtime runs before the kernel knows of it is lost. The record of the exec
 * itself is perf's, as any. Part of sample.bpf.c. */
#ifndef PYRRHA_BPF_EXEC_BPF_H
#define PYRRHA_BPF_EXEC_BPF_H

#define EXEC_WAKE_NS 50000000ull     /* no sooner than that after the one before: builds execute thousands a second */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);        /* when the agent was woken last */
} exec_woken SEC(".maps");

SEC("raw_tp/sched_process_exec")
int exec_wake(void *ctx)
{
	__u64 now = bpf_ktime_get_ns(), *woken;
	__u32 zero = 0;
	void *nothing;

	woken = bpf_map_lookup_elem(&exec_woken, &zero);
	if (!woken || now - *woken < EXEC_WAKE_NS)
		return 0;
	*woken = now;
	nothing = bpf_ringbuf_reserve(&ring, 8, 0);
	if (nothing)
		bpf_ringbuf_discard(nothing, BPF_RB_FORCE_WAKEUP);
	return 0;
}

#endif
