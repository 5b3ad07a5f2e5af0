/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The sampling program. It runs at each tick of a CPU's clock, unwinds the user stack with the tables of abi.h, takes the kernel stack
 * and writes one record to the ring. A stack that meets something not in the tables yet carries its registers and a copy of the stack
 * instead; the agent finishes it. The program for waits is in offcpu.bpf.h.
 *
 * unwind_some is a global function that takes a scalar: the verifier checks such a function once, not once per
 * call, which is what lets one program follow 256 frames without tail calls on 5.10. */
#include <linux/bpf.h>
#include <linux/bpf_perf_event.h>
#include <linux/types.h>
#include <stdbool.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#include "abi.h"
#include "knobs.h"

char LICENSE[] SEC("license") = "GPL";

const volatile struct bpf_knobs knobs = { KNOBS_MAGIC, 256 << 10, 1, 16384, 0, 0 };

#include "core.h"
#include "filter.bpf.h"
#include "scratch.bpf.h"
#include "tables.bpf.h"
#include "walk.bpf.h"
#include "unwind.h"
#include "code.bpf.h"

/* Steps per call: a call costs as much as a third of a step. The verifier walks each of them by itself. */
#define STEPS_AT_ONCE 4

__attribute__((noinline)) int unwind_some(int unused)
{
	__u32 zero = 0;
	struct scratch *s = bpf_map_lookup_elem(&scratch, &zero);
	int r = END_UNSUPPORTED;

	UW_OPAQUE(unused);           /* or the compiler calls without it, which the verifier refuses */
	if (!s)
		return r;
#pragma clang loop unroll(disable)
	for (int i = 0; i < STEPS_AT_ONCE; i++) {
		UW_OPAQUE(s);        /* or addresses are computed ahead of the loop, those that no step needs, too */
		r = uw_step(&s->u);
		if (r != UW_STEP_ON)
			break;
	}
	return r;
}

struct user_regs { __u64 rip, rsp, rbp, cs, orig_rax, rdi, rdx, r13; };

/* The registers with which the current task left user mode, as far as they are wanted. All of them have room where pieces
 * of the stack come later, and not on the program's own stack, of which 5.10 counts every call's. */
static __always_inline bool user_regs(struct scratch *s, struct user_regs *out)
{
	const struct pt_regs *from;
	struct task_struct *t;

	if (CORE_DIRECT) {
		from = (const struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());
	} else {
		_Static_assert(sizeof *from <= WIN_BYTES, "there is room for the registers");
		t = (struct task_struct *)bpf_get_current_task();
		from = (const struct pt_regs *)((const char *)BPF_CORE_READ(t, stack) + knobs.thread_size) - 1;
		if (bpf_probe_read_kernel(s->win, sizeof *from, from))
			return false;
		from = (const struct pt_regs *)s->win;
	}
	*out = (struct user_regs){ from->rip, from->rsp, from->rbp, from->cs, from->orig_rax, from->rdi, from->rdx, from->r13 };
	return true;
}

#define SYS_EXECVE 59
#define SYS_EXECVEAT 322

/* Sets where unwinding starts, for a task that is in the kernel. False: there is no user stack. */
static __always_inline bool start_in_kernel(struct scratch *s)
{
	struct unwind *u = &s->u;
	struct task_struct *t = current_task();
	struct user_regs regs;

	s->head.flags |= SAMPLE_IN_KERNEL;
	if (CORE_GET(true, t, flags) & PF_KTHREAD) {
		s->head.flags |= SAMPLE_KERNEL_THREAD;
		return false;
	}
	if (!CORE_GET(true, t, mm)) /* it is ending, its memory is gone already */
		return false;
	if (!user_regs(s, &regs) || !regs.rip || regs.rip >> 47)
		return false;
	u->ip = regs.rip;
	u->sp = regs.rsp;
	u->fp = regs.rbp;
	u->rdi = regs.rdi;
	u->rdx = regs.rdx;
	u->r13 = regs.r13;
	/* In a system call rip is past the instruction, as a return address is. */
	if ((long)regs.orig_rax >= 0) {
		u->ip--;
		u->is_ra = 1;
	}
	if (regs.orig_rax == SYS_EXECVE || regs.orig_rax == SYS_EXECVEAT)
		s->head.flags |= SAMPLE_IN_EXEC;
	s->head.end = regs.cs == 0x23 ? END_COMPAT : END_BOTTOM;
	return s->head.end == END_BOTTOM;
}

static __always_inline bool start_at(struct scratch *s, struct bpf_perf_event_data *ctx)
{
	struct unwind *u = &s->u;

	if (UW_RARELY(!(ctx->regs.cs & 3)))
		return start_in_kernel(s);
	u->ip = ctx->regs.rip;
	u->sp = ctx->regs.rsp;
	u->fp = ctx->regs.rbp;
	u->r13 = ctx->regs.r13;
	s->head.end = ctx->regs.cs == 0x23 ? END_COMPAT : END_BOTTOM;
	return s->head.end == END_BOTTOM;
}

/* The cached mappings are of another address space, unless its number is the same. */
static __always_inline void recall(struct scratch *s, __u32 set)
{
	if (s->recent.set != set) {
		s->recent.set = set;
		for (int i = 0; i < RECENT_MAPS; i++)
			s->recent.m[i].n_pages = 0;
	}
	s->last.n = s->last.at = 0;
}

/* The entry of the sample's process, and what it says. False: there is none, or it is being changed. */
static __always_inline bool find_process(struct scratch *s)
{
	const struct all_procs *all = all_procs();
	const volatile struct unwind_proc *p;
	__u32 exec_id, flags;

	if (!all)
		return false;
	for (__u32 k = 0; k < PROC_PROBES; k++) {
		__u64 i = s->head.pid + k;

		UW_OPAQUE(i);
		i &= PROC_SLOTS - 1;
		p = &all->p[i];
		if (p->tgid != s->head.pid)
			continue;
		s->head.set = p->set;
		s->u.first_map = p->first;
		s->u.n_maps = p->n;
		flags = p->flags;
		s->u.quiet = flags & UNWIND_PROC_QUIET;
		s->u.cached = flags & UNWIND_PROC_CACHED;
		s->u.hotspot = flags & UNWIND_PROC_HOTSPOT;
		exec_id = p->exec_id;
		if (s->head.set && p->set == s->head.set && (exec_id == s->head.exec_id || UW_RARELY(exec_id == EXEC_ANY))) {
			recall(s, s->head.set);
			return true;
		}
		s->head.set = 0;
		return false;
	}
	return false;
}

/* Follows the user stack; sets head.end. */
static __always_inline void unwind_user(struct scratch *s)
{
	int end = END_DEPTH, r = UW_STEP_ON;

	if (!find_process(s)) {
		s->head.end = END_NO_PROCESS;
		return;
	}
	for (int i = 0; i <= MAX_USER_FRAMES; i++) {
		if (UW_LIKELY(r != UW_IN_CODE))
			r = unwind_some(i);
		if (UW_RARELY(r <= UW_AHEAD))
			r = walk_ahead(s, r);
		if (r >= 0) {
			end = r;
			break;
		}
	}
	/* The memory that the stack was in may have been given up for the new program's. */
	s->head.end = end == END_STACK_READ && s->head.flags & SAMPLE_IN_EXEC ? END_BOTTOM : end;
}

#include "send.bpf.h"

/* The kernel frames, after the user frames; whether the stack itself has to follow. Returns the bytes so far. */
static __always_inline __u64 complete(struct scratch *s, void *ctx)
{
	__u64 bytes;
	long n;

	if (UW_RARELY(s->head.end >= END_NO_PROCESS && s->head.end <= END_NO_TABLE))
		walk_rest(0);
	s->head.n_user = s->u.n;
	s->head.user_words = s->u.words;
	bytes = (__u64)s->u.words * 8;
	UW_OPAQUE(bytes);
	if (bytes > MAX_USER_WORDS * 8)
		return 0;
	if (UW_RARELY((s->head.flags & (SAMPLE_IN_KERNEL | SAMPLE_PREEMPTED)) == SAMPLE_IN_KERNEL) && knobs.kernel_stacks) {
		n = bpf_get_stack(ctx, s->body + bytes, MAX_KERNEL_FRAMES * 8, 0);
		if (n > 0 && n <= MAX_KERNEL_FRAMES * 8) {
			s->head.n_kernel = n >> 3;
			bytes += n;
		}
	}
	s->head.ip = s->u.ip;
	s->head.sp = s->u.sp;
	s->head.fp = s->u.fp;
	if (UW_RARELY(s->head.end >= END_NO_PROCESS && s->head.end <= END_NO_TABLE)) {
		s->head.flags |= SAMPLE_DEFERRED;
		if (s->u.is_ra)
			s->head.flags |= SAMPLE_RA;
		else if (!uw_code(&s->u, s->head.code))
			s->head.flags |= SAMPLE_CODE;
		count(STAT_DEFERRED, 1);
	}
	return bytes;
}

/* A record about t, the current task, with only its identity. */
static __always_inline void begin(struct scratch *s, const struct task_struct *t, __u64 now, __u64 id, __u64 cgroup)
{
	__builtin_memset(&s->u, 0, sizeof s->u);
	__builtin_memset(&s->head, 0, sizeof s->head);
	s->win_bytes = 0;
	s->wake = 0;
	s->head.time_ns = now;
	s->head.cost_ns = s->cost_ns;
	s->head.pid = id >> 32;
	s->head.tid = (__u32)id;
	s->head.cpu = bpf_get_smp_processor_id();
	s->head.exec_id = CORE_GET(true, t, self_exec_id);
	s->head.cgroup_id = cgroup;
	current_comm(t, s->head.comm);
}

/* Prefetches everything that the sample will need, at once: at 19 Hz each of these is in memory, in a page of its own. Waiting for one
 * after the other is most of a sample's cost. */
static __always_inline void fetch_ahead(const struct scratch *s, __u64 id)
{
	const struct all_procs *all = all_procs();
	__u32 cpu = bpf_get_smp_processor_id();
	const struct cpu_ring *r = bpf_map_lookup_elem(&cpu_rings, &cpu);
	__u64 i = id >> 32;

	if (all) {
		UW_OPAQUE(i);
		(void)*(const volatile __u32 *)&all->p[i & (PROC_SLOTS - 1)].tgid;
	}
	if (r) {
		i = s->out_at;
		UW_OPAQUE(i);
		(void)*(const volatile __u64 *)(r->b + (i & (CPU_RING_BYTES - 8)));
	}
	fetch_last_words(&s->last);
}

SEC("perf_event")
int sample(struct bpf_perf_event_data *ctx)
{
	__u64 now = bpf_ktime_get_ns();
	const struct task_struct *t = current_task();
	__u64 id = current_id(t);
	struct cgroup_of who;
	struct scratch *s;
	__u32 zero = 0, kind;
	__u64 bytes;

	if (!id)
		return 0;
	s = bpf_map_lookup_elem(&scratch, &zero);
	if (!s)
		return 0;
	fetch_ahead(s, id);
	cgroup_of_current(t, &s->seen, &who);
	kind = filtered(&who, id >> 32);
	if (kind) {
		count(STAT_FILTERED + kind - 1, 1);
		return 0;
	}
	begin(s, t, now, id, who.id);
	if (UW_RARELY(s->head.pid == PID_OUTSIDE)) { /* The agent cannot look the process up: the sample has no stack. */
		s->head.end = END_OUTSIDE;
		send_sample(s, 0);
		return 0;
	}
	if (start_at(s, ctx))
		unwind_user(s);
	bytes = complete(s, ctx);
	if (UW_RARELY(s->head.flags & SAMPLE_DEFERRED))
		send_with_stack(s, bytes);
	else
		send_sample(s, bytes);
	s->cost_ns += bpf_ktime_get_ns() - now;
	return 0;
}

#include "exec.bpf.h"
#include "offcpu.bpf.h"
