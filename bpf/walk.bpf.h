/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Frames of language runtimes: what the walks of them need in the kernel. Part of sample.bpf.c. */
#ifndef PYRRHA_BPF_WALK_BPF_H
#define PYRRHA_BPF_WALK_BPF_H

/* Preallocated, as programs of perf events had to have it before 6.1. The agent writes it. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RUNTIME_PROCS_MAX);
	__type(key, struct runtime_key);
	__type(value, struct runtime_proc);
} runtime_procs SEC(".maps");

#endif
