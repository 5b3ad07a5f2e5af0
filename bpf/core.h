/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The few kernel structures the programs look into: only the members that are used. The loader moves the offsets to
 * those of the running kernel (CO-RE), so that one object serves all versions. */
#ifndef PYRRHA_BPF_CORE_H
#define PYRRHA_BPF_CORE_H

#include <linux/types.h>

struct cgroup;

struct kernfs_node {
	__u64 id;
} __attribute__((preserve_access_index));

struct cgroup_root {
	int hierarchy_id;
} __attribute__((preserve_access_index));

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
	__u64 serial_nr;             /* no other has or had it */
} __attribute__((preserve_access_index));

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
	struct cgroup_root *root;
} __attribute__((preserve_access_index));

struct css_set {
	struct cgroup_subsys_state *subsys[1];
	struct cgroup *dfl_cgrp;
} __attribute__((preserve_access_index));

enum cgroup_subsys_id { memory_cgrp_id = 4 };

struct mm_struct {
	unsigned long start_stack;   /* where the first thread's stack began, below its arguments */
} __attribute__((preserve_access_index));

/* By the clock of its CPU's queue, in ns. */
struct sched_info {
	unsigned long long run_delay; /* waiting for a CPU, in all, up to the last time it began to wait or got one */
	unsigned long long last_arrival; /* when it got one */
	unsigned long long last_queued; /* since when it waits for one; 0 = it does not */
} __attribute__((preserve_access_index));

struct thread_struct {
	unsigned long fsbase;        /* where the thread's local storage begins */
} __attribute__((preserve_access_index));

struct ns_common {
	unsigned int inum;
} __attribute__((preserve_access_index));

struct pid_namespace {
	struct ns_common ns;
} __attribute__((preserve_access_index));

struct upid {
	int nr;
	struct pid_namespace *ns;
} __attribute__((preserve_access_index));

/* The number of a task in each namespace that has it: the host's first, then one for each that it is nested in. */
struct pid {
	unsigned int level;
	struct upid numbers[1];
} __attribute__((preserve_access_index));

struct task_struct {
	void *stack;
	unsigned int __state, flags;
	int pid, tgid;
	struct sched_info sched_info;
	struct mm_struct *mm;
	__u64 self_exec_id;          /* counts the programs it ran */
	struct task_struct *group_leader;
	struct pid *thread_pid;
	char comm[16];
	struct css_set *cgroups;
	struct thread_struct thread;
} __attribute__((preserve_access_index));

/* Its name before 5.14. */
struct task_struct___old {
	long state;
} __attribute__((preserve_access_index));

/* Whether programs may follow pointers from the current task (5.15, with bpf_get_current_task_btf). The verifier knows their types, so
 * reading a member is one instruction; elsewhere, and from other tasks, it is a call. */
#define CORE_DIRECT bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs)
#define CORE_GET(direct, p, member) ((direct) && CORE_DIRECT ? (p)->member : BPF_CORE_READ(p, member))

static __always_inline struct task_struct *current_task(void)
{
	return CORE_DIRECT ? (struct task_struct *)bpf_get_current_task_btf() : (struct task_struct *)bpf_get_current_task();
}

#define PID_LEVELS 8                 /* how deep pid namespaces may be nested in the host's */

/* The number in the agent's pid namespace of which struct pid that is; PID_OUTSIDE: it has none. (bpf_get_ns_current_pid_tgid does not know those
 * of namespaces that are nested in it.) */
static __always_inline __u32 pid_inside(struct pid *p)
{
	__u32 levels = BPF_CORE_READ(p, level), ret = PID_OUTSIDE;
	const char *at = (const char *)__builtin_preserve_access_index(&p->numbers);

	for (__u32 i = 1; i <= PID_LEVELS && i <= levels; i++) {
		struct upid *u = (struct upid *)(at + i * bpf_core_type_size(struct upid));
		if (BPF_CORE_READ(u, ns, ns.inum) == knobs.pid_ns)
			ret = (__u32)BPF_CORE_READ(u, nr);
	}
	return ret;
}

/* The process of a task: the number of its first thread in the agent's pid namespace, or PID_OUTSIDE. */
static __always_inline __u32 process_inside(struct task_struct *t)
{
	return pid_inside(BPF_CORE_READ(t, group_leader, thread_pid));
}

/* The current task's pid << 32 | tid in the agent's pid namespace, for an agent that is not in the host's. Not called for the idle task. */
static __noinline __u64 id_inside(void)
{
	struct task_struct *t = (struct task_struct *)bpf_get_current_task();
	__u32 pid = process_inside(t);

	return (__u64)pid << 32 | (pid == PID_OUTSIDE ? PID_OUTSIDE : pid_inside(BPF_CORE_READ(t, thread_pid)));
}

/* Of t, the current task: tgid << 32 | tid, as bpf_get_current_pid_tgid() has it in the host's pid namespace; 0: the CPU is idle. */
static __always_inline __u64 current_id(const struct task_struct *t)
{
	if (UW_RARELY(knobs.pid_ns))
		return bpf_get_current_pid_tgid() ? id_inside() : 0;
	return CORE_DIRECT ? (__u64)(__u32)t->tgid << 32 | (__u32)t->pid : bpf_get_current_pid_tgid();
}

/* The name of t, the current task. */
static __always_inline void current_comm(const struct task_struct *t, char to[16])
{
	__u64 at = (__u64)__builtin_preserve_access_index(&t->comm);

	if (CORE_DIRECT) {
		((__u64 *)to)[0] = ((const __u64 *)at)[0];
		((__u64 *)to)[1] = ((const __u64 *)at)[1];
	} else {
		bpf_get_current_comm(to, 16);
	}
}

#define PF_EXITING 0x00000004
#define PF_KTHREAD 0x00200000

#endif
