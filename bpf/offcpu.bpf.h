/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* How long threads are off the CPU, and where they left it: one program at each switch of threads. Part of sample.bpf.c.
 *
 *	leaves:  off_threads[tid] = now; its stack, which can be read only now, goes to a slot of its own
 *	returns: a wait that reached the threshold is sent with that stack; a shorter one is only counted
 *
 * Most waits are short, so most stacks are discarded. Each CPU has a budget (control.off_share). The less of it is left, the longer a
 * thread's last wait must have been for a new stack, so that spending settles at the budget. Voluntary waits of a thread and
 * preemptions are counted apart: on a busy host the latter are the long ones. A wait is timed all the same.
 *
 * At the end of a wait, a thread may be runnable while no CPU is free. When a thread is woken, the kernel notes the time by its own
 * clock (sched_info). That clock is compared with ours when a thread leaves the CPU, because both times of its last arrival are known.
 * So no program at each wake-up is needed, which would cost as much as the one at switches.
 *
 * Stacks are kept in two tables of slots that drop the least recently used: one for common sizes, and one for deep stacks and for
 * those that the agent has to finish (they carry a copy of the stack). Kernel threads are not watched: that
 * they wait for work is nobody's delay. The switch happens with interrupts off, so the sampling program and this one
 * never use the CPU's scratch room at the same time. */
#ifndef PYRRHA_BPF_OFFCPU_BPF_H
#define PYRRHA_BPF_OFFCPU_BPF_H

enum off_slot { OFF_NONE, OFF_SMALL, OFF_BIG };

struct off_thread {
	__u64 since_ns;      /* 0 = it runs, or is not watched */
	__u32 last_us[2];    /* how long it waited last: of its own will, and while it could have gone on */
	__u32 slot;          /* enum off_slot; OFF_NONE: no stack was taken */
	__u32 preempted;     /* this time it could have gone on */
	__u64 delay_ns;      /* its sched_info.run_delay as it left */
	__u64 untold_ns, untold; /* waits without a stack that no record has reported: their total time and number */
	__u64 untold_runnable_ns; /* of that, ready to run */
	__u64 told_ns;       /* when one did */
};

/* As in struct scratch: the record's head and the bytes behind it. */
#define OFF_SMALL_BODY (OFF_SMALL_WORDS * 8)
#define OFF_BIG_BODY (FRAMES_BYTES + OFF_COPY_PAGES * STACK_PAGE)

struct off_small {
	struct sample_head head;
	__u8 body[OFF_SMALL_BODY];
};

struct off_big {
	struct sample_head head;
	__u8 body[OFF_BIG_BODY];
};

struct off_budget {
	__u64 at_ns;         /* the last switch */
	__u64 before_ns;     /* the one before it, when the thread came that leaves now */
	__s64 left_ns;
	__u64 queue_clock;   /* that of its queue less ours; it wraps around */
	__u64 compared_ns;   /* when that was found; 0 = not yet */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, OFF_THREADS_MAX);
	__type(key, __u32);
	__type(value, struct off_thread);
} off_threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, OFF_SMALL_MAX);
	__type(key, __u32);
	__type(value, struct off_small);
} off_small SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, OFF_BIG_MAX);
	__type(key, __u32);
	__type(value, struct off_big);
} off_big SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct off_budget);
} off_budgets SEC(".maps");

/* The remaining budget of this CPU, topped up for the elapsed time. */
static __always_inline struct off_budget *off_budget(__u64 now)
{
	__u32 zero = 0;
	struct off_budget *b = bpf_map_lookup_elem(&off_budgets, &zero);
	__u64 since;

	if (!b)
		return 0;
	since = now - b->at_ns;
	if (since > 10000000000ull)
		since = 10000000000ull;
	b->left_ns += since * control.off_share >> 20;
	if (b->left_ns > (__s64)OFF_BURST_NS)
		b->left_ns = OFF_BURST_NS;
	if (b->left_ns < -(__s64)OFF_BURST_NS)
		b->left_ns = -(__s64)OFF_BURST_NS;
	b->before_ns = b->at_ns;
	b->at_ns = now;
	return b;
}

/* Whether the task could go on, if it were let. */
static __always_inline bool off_preempted(const struct bpf_raw_tracepoint_args *ctx, struct task_struct *t)
{
	if (ctx->args[0])
		return true;
	if (bpf_core_field_exists(t->__state))
		return !BPF_CORE_READ(t, __state);
	return !BPF_CORE_READ((struct task_struct___old *)t, state);
}

/* Finds how far the clock of the CPU's queue is ahead of ours, by the current thread. Ours may be adjusted: now and then. */
static __always_inline void off_compare_clocks(struct off_budget *b, struct task_struct *task)
{
	__u64 came;

	if (b->compared_ns && b->at_ns - b->compared_ns < OFF_COMPARE_NS)
		return;
	if (!bpf_core_field_exists(task->sched_info.last_queued) || b->before_ns < control.off_from_ns)
		return;
	came = CORE_GET(true, task, sched_info.last_arrival);
	if (!came)
		return;
	b->queue_clock = came - b->before_ns;
	b->compared_ns = b->at_ns;
}

/* How long of its wait that ends now the thread was ready to run. */
static __always_inline __u64 off_runnable(const struct off_budget *b, struct task_struct *task, const struct off_thread *t, __u64 off)
{
	__u64 delay, queued;
	__s64 last;

	if (t->preempted)
		return off;
	if (!bpf_core_field_exists(task->sched_info.last_queued) || !b->compared_ns)
		return 0;
	delay = BPF_CORE_READ(task, sched_info.run_delay) - t->delay_ns;
	queued = BPF_CORE_READ(task, sched_info.last_queued);
	last = queued ? b->at_ns + b->queue_clock - queued : 0;
	if (last > 0)
		delay += last;
	return delay < off ? delay : off;
}

/* Whether the rest is enough for a stack of the thread's. */
static __always_inline bool off_affordable(const struct off_budget *b, const struct off_thread *t)
{
	__u64 level;

	if (b->left_ns <= 0)
		return false;
	level = (__u64)b->left_ns * 2 * OFF_LEVELS / OFF_BURST_NS;
	return level >= OFF_LEVELS || t->last_us[t->preempted & 1] >= (__u64)OFF_LEAST_US << (OFF_LEVELS - 1 - level);
}

/* On the way back to user mode the kernel preempts a running thread, even if kernel code is never preempted. */
static __always_inline bool off_from_user(const struct bpf_raw_tracepoint_args *ctx, const struct scratch *s, const struct off_thread *t)
{
	return t->preempted && !ctx->args[0] && !s->u.is_ra;
}

/* Completes the record in the scratch room, with a piece of the stack if the agent has to finish it. */
static __always_inline __u64 off_complete(struct scratch *s, void *ctx)
{
	__u64 bytes = complete(s, ctx);

	if (!(s->head.flags & SAMPLE_DEFERRED))
		return bytes;
	begin_copy(s, bytes);
	for (int i = 0; i < OFF_COPY_PAGES; i++)
		if (copy_page(i))
			break;
	return bytes + (__u64)s->pages * STACK_PAGE;
}

/* Puts the record that was made in the CPU's scratch room into a slot of the thread's. */
static __always_inline __u32 off_keep(struct scratch *s, __u32 tid, __u64 bytes)
{
	void *slot;

	if (bytes <= OFF_SMALL_BODY) {
		slot = bpf_map_lookup_elem(&off_small, &tid);
		if (!slot)
			return bpf_map_update_elem(&off_small, &tid, &s->head, BPF_ANY) ? OFF_NONE : OFF_SMALL;
		bytes += sizeof s->head;
		UW_OPAQUE(bytes);
		if (bytes > sizeof(struct off_small) || bpf_probe_read_kernel(slot, bytes, &s->head))
			return OFF_NONE;
		return OFF_SMALL;
	}
	slot = bpf_map_lookup_elem(&off_big, &tid);
	if (!slot)
		return bpf_map_update_elem(&off_big, &tid, &s->head, BPF_ANY) ? OFF_NONE : OFF_BIG;
	bytes += sizeof s->head;
	UW_OPAQUE(bytes);
	if (bytes > sizeof(struct off_big) || bpf_probe_read_kernel(slot, bytes, &s->head))
		return OFF_NONE;
	return OFF_BIG;
}

/* A record without a stack, about a task that is not the current one. */
static __always_inline void off_bare(struct scratch *s, struct task_struct *task, __u32 tid, __u32 end)
{
	struct cgroup_of who;

	cgroup_of_task(task, false, 0, &who);
	__builtin_memset(&s->head, 0, sizeof s->head);
	s->head.tid = tid;
	s->head.pid = knobs.pid_ns ? process_inside(task) : BPF_CORE_READ(task, tgid);
	s->head.exec_id = BPF_CORE_READ(task, self_exec_id);
	s->head.cpu = bpf_get_smp_processor_id();
	s->head.cgroup_id = who.id;
	s->head.end = end;
	BPF_CORE_READ_STR_INTO(&s->head.comm, task, comm);
}

static __always_inline void off_send(struct scratch *s, __u64 bytes, __u64 off)
{
	if (send(s, bytes))
		return;
	count(STAT_OFF_RING_FULL, 1);
	count(STAT_OFF_RING_NS, off);
}

/* Reports a thread's waits that had no stack. To find out who the thread is, by calls, costs as much as half a stack. */
static __noinline void off_tell(struct task_struct *task, __u32 tid, struct off_thread *t, __u64 now)
{
	__u32 zero = 0;
	struct scratch *s = bpf_map_lookup_elem(&scratch, &zero);

	if (!s)
		return;
	off_bare(s, task, tid, END_COSTLY);
	s->head.time_ns = now;
	s->head.off_ns = t->untold_ns;
	s->head.runnable_ns = t->untold_runnable_ns;
	s->head.ip = t->untold;
	off_send(s, 0, t->untold_ns);
	t->untold_ns = t->untold = t->untold_runnable_ns = 0;
	t->told_ns = now;
}

/* The current thread is about to leave the CPU. True: more was done than to note the time. */
static __always_inline bool off_leave(struct bpf_raw_tracepoint_args *ctx, __u64 now, __u64 id,
				      const struct off_budget *b)
{
	struct task_struct *task = current_task();
	__u32 tid = id, flags = CORE_GET(true, task, flags), zero = 0;
	struct off_thread *t, fresh = { .last_us = { 4 * OFF_LEAST_US, 4 * OFF_LEAST_US } };
	struct cgroup_of who;
	struct scratch *s;

	if (flags & PF_KTHREAD)
		return false;
	if (knobs.pid_ns) { /* threads are kept by the host's numbers, which all have */
		__u64 inside = id_inside() >> 32;
		if (inside == PID_OUTSIDE)
			return false;
		id = inside << 32 | tid;
	}
	t = bpf_map_lookup_elem(&off_threads, &tid);
	if (flags & PF_EXITING) {
		if (t && t->untold)
			off_tell(task, tid, t, now);
		bpf_map_delete_elem(&off_threads, &tid);
		return false;
	}
	if (control.filters) {
		cgroup_of_current(task, 0, &who);
		if (filtered(&who, id >> 32)) {
			if (t)
				t->since_ns = 0;
			count(STAT_OFF_FILTERED, 1);
			return false;
		}
	}
	if (!t) {
		bpf_map_update_elem(&off_threads, &tid, &fresh, BPF_NOEXIST);
		t = bpf_map_lookup_elem(&off_threads, &tid);
		if (!t) {
			count(STAT_OFF_NO_THREAD, 1);
			return false;
		}
	}
	t->since_ns = now;
	t->slot = OFF_NONE;
	t->preempted = off_preempted(ctx, task);
	if (bpf_core_field_exists(task->sched_info.last_queued))
		t->delay_ns = CORE_GET(true, task, sched_info.run_delay);
	s = bpf_map_lookup_elem(&scratch, &zero);
	if (!s || !off_affordable(b, t))
		return false;
	cgroup_of_current(task, &s->seen, &who);
	begin(s, task, now, id, who.id);
	if (start_in_kernel(s)) {
		if (off_from_user(ctx, s, t))
			s->head.flags |= SAMPLE_PREEMPTED;
		unwind_user(s);
	}
	t->slot = off_keep(s, tid, off_complete(s, ctx));
	count(STAT_OFF_STACKS, 1);
	return true;
}

/* Fetches the stack that was kept when the thread left, into the scratch room. False: it is not there any more. The data read, and the
 * slot's owner afterwards, show whether the slot was reassigned meanwhile. */
static __always_inline bool off_fetch(struct scratch *s, __u32 tid, const struct off_thread *t)
{
	void *slot;

	if (t->slot == OFF_SMALL) {
		slot = bpf_map_lookup_elem(&off_small, &tid);
		if (!slot || bpf_probe_read_kernel(&s->head, sizeof(struct off_small), slot) ||
		    slot != bpf_map_lookup_elem(&off_small, &tid))
			return false;
	} else {
		slot = bpf_map_lookup_elem(&off_big, &tid);
		if (!slot || bpf_probe_read_kernel(&s->head, sizeof(struct off_big), slot) ||
		    slot != bpf_map_lookup_elem(&off_big, &tid))
			return false;
	}
	return s->head.tid == tid && s->head.time_ns == t->since_ns;
}

/* The thread is about to get the CPU. True: its wait is reported. */
static __always_inline bool off_return(struct task_struct *task, __u32 tid, __u64 now,
				       const struct off_budget *b)
{
	struct off_thread *t = bpf_map_lookup_elem(&off_threads, &tid);
	struct scratch *s;
	__u32 zero = 0;
	__u64 off, bytes, runnable;

	if (!t || !t->since_ns)
		return false;
	if (t->since_ns < control.off_from_ns) {
		t->since_ns = 0;
		return false;
	}
	off = now - t->since_ns;
	t->last_us[t->preempted & 1] = off >> 42 ? ~0u : off >> 10;
	if (off < control.off_threshold_ns) {
		t->since_ns = 0;
		count(STAT_OFF_SHORT, 1);
		count(STAT_OFF_SHORT_NS, off);
		return false;
	}
	count(STAT_OFF_EVENTS, 1);
	runnable = off_runnable(b, task, t, off);
	if (t->slot == OFF_NONE) {
		t->since_ns = 0;
		t->untold_ns += off;
		t->untold_runnable_ns += runnable;
		t->untold++;
		if (now - t->told_ns >= OFF_TELL_NS)
			off_tell(task, tid, t, now);
		return true;
	}
	s = bpf_map_lookup_elem(&scratch, &zero);
	if (!s)
		return false;
	if (!off_fetch(s, tid, t))
		off_bare(s, task, tid, END_EVICTED);
	t->since_ns = 0;
	s->head.time_ns = now;
	s->head.off_ns = off;
	s->head.runnable_ns = runnable;
	bytes = ((__u64)s->head.user_words + s->head.n_kernel) * 8;
	for (int i = 0; i < OFF_COPY_PAGES; i++)
		if (s->head.stack_pages >> i & 1)
			bytes += STACK_PAGE;
	off_send(s, bytes, off);
	return true;
}

SEC("raw_tp/sched_switch")
int off_cpu(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 now = bpf_ktime_get_ns(), id = bpf_get_current_pid_tgid(), cost;
	struct task_struct *next = (struct task_struct *)ctx->args[2];
	struct off_budget *b;
	bool work = false;
	__u32 tid;

	b = off_budget(now);
	if (!b)
		return 0;
	if (id) {
		off_compare_clocks(b, current_task());
		work = off_leave(ctx, now, id, b);
	}
	tid = BPF_CORE_READ(next, pid);
	if (tid)
		work |= off_return(next, tid, now, b);
	cost = bpf_ktime_get_ns() - now;
	b->left_ns -= cost;
	count(STAT_OFF_SWITCHES, 1);
	count(STAT_OFF_COST_NS, cost);
	if (work)
		count(STAT_OFF_WORK_NS, cost);
	return 0;
}

#endif
