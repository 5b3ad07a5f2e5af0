/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Which control group a task is in, and whether it is sampled at all. Part of sample.bpf.c. */
#ifndef PYRRHA_BPF_FILTER_BPF_H
#define PYRRHA_BPF_FILTER_BPF_H

static volatile struct control control SEC(".data.control");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, FILTER_CGROUPS_MAX);
	__type(key, __u64);
	__type(value, __u32);
} filter_cgroups SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, FILTER_PIDS_MAX);
	__type(key, __u32);
	__type(value, __u32);
} filter_pids SEC(".maps");

struct comm { char s[16]; };

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, FILTER_COMMS_MAX);
	__type(key, struct comm);
	__type(value, __u32);
} filter_comms SEC(".maps");

struct cgroup_of {
	__u64 id;
	__u64 tag;                   /* of its hierarchy, or'ed into each id of it */
	struct cgroup_subsys_state *self; /* the group; NULL if not looked at yet */
};

/* The group that a CPU met last: to get from a task's state in a controller to the group's id takes five steps more. */
struct cgroup_seen {
	__u64 serial;                /* of the state; 0 = none */
	__u64 id, tag;
};

/* The task's group in the memory controller's own hierarchy. False: the controller is on the unified one. seen: NULL, or
 * what the CPU met last; what is found there leaves ret->self open. */
static __always_inline bool cgroup_v1(struct css_set *set, bool direct, struct cgroup_seen *seen, struct cgroup_of *ret)
{
	struct cgroup_subsys_state *css = 0;
	struct cgroup_root *root;
	struct kernfs_node *kn;
	struct cgroup *g;
	__u64 at, serial;

	if (!knobs.cgroup_v1 || !bpf_core_enum_value_exists(enum cgroup_subsys_id, memory_cgrp_id))
		return false;
	at = (__u64)__builtin_preserve_access_index(&set->subsys);
	at += bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id) * sizeof css;
	if (direct && CORE_DIRECT)
		css = *(struct cgroup_subsys_state **)at;
	else if (bpf_probe_read_kernel(&css, sizeof css, (const void *)at))
		return false;
	if (!css)
		return false;
	serial = CORE_GET(direct, css, serial_nr);
	if (seen && serial && serial == seen->serial) {
		ret->id = seen->id;
		ret->tag = seen->tag;
		ret->self = 0;
		return true;
	}
	g = CORE_GET(direct, css, cgroup);
	root = CORE_GET(direct, g, root);
	ret->tag = (__u64)CORE_GET(direct, root, hierarchy_id) << CGROUP_HIERARCHY_SHIFT;
	if (!ret->tag)
		return false;
	kn = CORE_GET(direct, g, kn);
	ret->id = CORE_GET(direct, kn, id) | ret->tag;
	ret->self = __builtin_preserve_access_index(&g->self);
	if (seen)
		*seen = (struct cgroup_seen){ serial, ret->id, ret->tag };
	return true;
}

/* direct: t is current_task(). */
static __always_inline void cgroup_of_task(const struct task_struct *t, bool direct, struct cgroup_seen *seen, struct cgroup_of *ret)
{
	struct css_set *set = CORE_GET(direct, t, cgroups);
	struct kernfs_node *kn;
	struct cgroup *g;

	if (cgroup_v1(set, direct, seen, ret))
		return;
	g = CORE_GET(direct, set, dfl_cgrp);
	kn = CORE_GET(direct, g, kn);
	ret->tag = 0;
	ret->id = CORE_GET(direct, kn, id);
	ret->self = __builtin_preserve_access_index(&g->self);
}

/* t: the current task. */
static __always_inline void cgroup_of_current(const struct task_struct *t, struct cgroup_seen *seen, struct cgroup_of *ret)
{
	if (knobs.cgroup_v1) {
		cgroup_of_task(t, true, seen, ret);
		return;
	}
	ret->id = bpf_get_current_cgroup_id();
	ret->tag = 0;
	ret->self = 0;
}

/* The entry of the group or else of its nearest ancestor. */
static __always_inline __u32 cgroup_verdict(const struct cgroup_of *of)
{
	struct cgroup_subsys_state *self;
	struct cgroup_of start;
	__u32 *v = bpf_map_lookup_elem(&filter_cgroups, &of->id);

	if (v)
		return *v == FILTER_DROP_SELF ? FILTER_DROP : *v;
	start = *of;
	if (!start.self)
		cgroup_of_task(current_task(), true, 0, &start);
	self = start.self;
	for (int i = 0; i < CGROUP_DEPTH_MAX; i++) {
		__u64 id;

		self = BPF_CORE_READ(self, parent);
		if (!self)
			break;
		id = BPF_CORE_READ(self, cgroup, kn, id) | start.tag;
		v = bpf_map_lookup_elem(&filter_cgroups, &id);
		if (v && *v != FILTER_DROP_SELF)
			return *v;
	}
	return FILTER_NONE;
}

/* The process's name, that of its first thread; kernel workers are all "kworker". */
static __always_inline __u32 comm_verdict(void)
{
	struct task_struct *t = (struct task_struct *)bpf_get_current_task();
	static const char kworker[8] = "kworker/";
	struct comm c = {};
	__u32 *v;

	BPF_CORE_READ_STR_INTO(&c.s, t, group_leader, comm);
	if (BPF_CORE_READ(t, flags) & PF_KTHREAD && *(__u64 *)c.s == *(const __u64 *)kworker) {
		c = (struct comm){};
		__builtin_memcpy(c.s, "kworker", 7);
	} else {
		/* Bytes behind the name's end are not part of it. */
		bool over = false;
		for (int i = 0; i < 16; i++) {
			over |= !c.s[i];
			if (over)
				c.s[i] = 0;
		}
	}
	v = bpf_map_lookup_elem(&filter_comms, &c);
	return v ? *v : FILTER_NONE;
}

/* Whether the current task is filtered: 0, or 1 + the enum filter_kind that applies. */
static __always_inline __u32 filtered(const struct cgroup_of *of, __u32 pid)
{
	__u32 verdict[FILTER_KINDS] = {}, filters = control.filters, only;

	if (UW_LIKELY(!filters))
		return 0;
	only = control.only;
	if (filters & 1 << FILTER_PID) {
		__u32 *v = bpf_map_lookup_elem(&filter_pids, &pid);
		verdict[FILTER_PID] = v ? *v : FILTER_NONE;
	}
	if (filters & 1 << FILTER_COMM)
		verdict[FILTER_COMM] = comm_verdict();
	if (filters & 1 << FILTER_CGROUP)
		verdict[FILTER_CGROUP] = cgroup_verdict(of);
	for (__u32 k = 0; k < FILTER_KINDS; k++)
		if (filters & 1 << k &&
		    (verdict[k] == FILTER_DROP || (verdict[k] == FILTER_NONE && only & 1 << k)))
			return 1 + k;
	return 0;
}

#endif
