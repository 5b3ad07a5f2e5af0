/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Walks the frames of language runtimes in the kernel (walk.h says how). Part of sample.bpf.c.
 *
 * Each runtime's walk is global functions, and so is the choice of it: inlined into the unwinding, one walk triples what the verifier has to
 * follow. Their room is a map of its own, because the scratch room is as large as a per-CPU value may be. */
#ifndef PYRRHA_BPF_WALK_BPF_H
#define PYRRHA_BPF_WALK_BPF_H

#define rt_read_stack rt_read_stack
#include "walk.h"

/* Preallocated, as programs of perf events had to have it before 6.1. The agent writes it. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RUNTIME_PROCS_MAX);
	__type(key, struct runtime_key);
	__type(value, struct runtime_proc);
} runtime_procs SEC(".maps");

/* By enum runtime_kind. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, RUNTIME_KINDS);
	__type(key, __u32);
	__type(value, struct runtime_walk);
} walks SEC(".maps");

static __always_inline long rt_read(struct unwind *u, void *to, __u32 n, __u64 at)
{
	return bpf_probe_read_user(to, n, (const void *)at);
}

/* n is a constant, a multiple of 8 and at most 128. */
static __always_inline long rt_read_stack(struct unwind *u, __u64 *to, __u32 n, __u64 at)
{
	struct scratch *s = (struct scratch *)u;
	__u64 i = at - s->win_at;
	const __u64 *from;

	if (UW_RARELY(at & 7))
		return bpf_probe_read_user(to, n, (const void *)at);
	if (i >= s->win_bytes || s->win_bytes - i < n) {
		/* What is on two pages is not in one piece. */
		if (STACK_PAGE - (at & (STACK_PAGE - 1)) < n || uw_fetch(s, at))
			return bpf_probe_read_user(to, n, (const void *)at);
		i = at - s->win_at;
	}
	_Static_assert(sizeof s->win + 128 <= sizeof *s - __builtin_offsetof(struct scratch, win), "words behind a masked one are in the room");
	i >>= 3;
	UW_OPAQUE(i);
	from = UW_WORD_OF(s, win, i & (WIN_BYTES / 8 - 1));
	for (__u32 k = 0; k < n / 8; k++)
		to[k] = from[k];
	return 0;
}

static __always_inline bool rt_push(struct unwind *u, __u64 word, __u64 object, __u64 check)
{
	__u64 *to, i = u->words;

	if (u->n >= MAX_USER_FRAMES)
		return false;
	UW_OPAQUE(i);
	to = UW_WORD_OF(u, body, i & USER_WORDS_MASK);
	to[0] = word;
	to[1] = object;
	to[2] = check;
	u->n++;
	u->words += RUNTIME_WORDS;
	return true;
}

static __always_inline __u64 rt_fsbase(struct unwind *u)
{
	return CORE_GET(true, current_task(), thread.fsbase);
}

/* The walk of a runtime; NULL is not to be expected. */
static __always_inline struct runtime_walk *walk_of(__u32 kind)
{
	return bpf_map_lookup_elem(&walks, &kind);
}

/* Global functions, as unwind_some. */
int call_python_some(int i);
int call_python_old(int i);
int call_python_rest(int i);
#define PYTHON_CALL(f, u, w, i) call_##f(i)

#include "python.h"

#define CALLED(f) \
	__attribute__((noinline)) int call_##f(int i) \
	{ \
		__u32 zero = 0; \
		struct scratch *s = bpf_map_lookup_elem(&scratch, &zero); \
		struct runtime_walk *w = walk_of(RUNTIME_PYTHON); \
\
		UW_OPAQUE(i);        /* or the compiler calls without it, which the verifier refuses */ \
		return s && w ? f(&s->u, w, i) : WALK_BAD; \
	}

CALLED(python_some)
CALLED(python_old)
CALLED(python_walk)
CALLED(python_rest)

/* What the agent has said of the process's runtime of that kind; NULL: nothing. */
static __always_inline const struct runtime_proc *runtime_proc(const struct scratch *s, __u32 kind)
{
	struct runtime_key key = { s->head.pid, kind };
	const struct runtime_proc *p = bpf_map_lookup_elem(&runtime_procs, &key);

	return p && (p->exec_id == s->head.exec_id || p->exec_id == EXEC_ANY) ? p : 0;
}

/* Copies what the agent has said of the process's runtime, unless it is there. False: nothing is known of it. */
static __always_inline bool walk_facts(struct scratch *s, struct runtime_walk *w, __u32 kind)
{
	const struct runtime_proc *p;
	__u32 edition = control.runtimes;

	if (UW_LIKELY(w->pid == s->head.pid && w->exec_id == s->head.exec_id && w->edition == edition))
		return true;
	w->pid = 0;
	p = runtime_proc(s, kind);
	if (!p)
		return false;
	if (kind == RUNTIME_PYTHON)
		w->python.p = p->python;
	else if (kind == RUNTIME_HOTSPOT)
		w->hotspot.p = p->hotspot;
	else if (kind == RUNTIME_V8)
		w->v8.p = p->v8;
	else
		return false;
	w->flags = p->flags;
	w->exec_id = s->head.exec_id;
	w->edition = edition;
	w->pid = s->head.pid;
	return true;
}

/* The process's runtime, for this stack. False: it has no frames in this thread, or nothing is known of them. */
static __always_inline bool walk_begin(struct scratch *s, struct runtime_walk *w, __u32 kind)
{
	w->time_ns = s->head.time_ns;
	w->on = 0;
	w->rest = 0;
	w->left = WALK_STEPS;
	if (!walk_facts(s, w, kind))
		return false;
	if (w->flags & RUNTIME_YOUNG)
		s->wake = 1;
	if (kind == RUNTIME_PYTHON) {
		w->on = python_begin(&s->u, w);
	} else if (kind == RUNTIME_HOTSPOT) {
		w->hotspot.room.of.begin = w->hotspot.room.of.end = 0;
		w->on = 1;
	} else {
		w->v8.room.map = w->v8.room.function = w->v8.room.measured = w->v8.room.pc = 0;
		w->on = 1;
	}
	return w->on;
}

/* The frames that a native one of the interpreter runs, whose stack is [w->sp, w->cfa): the choice of the walk. */
__attribute__((noinline)) int walk(__u32 kind)
{
	__u32 zero = 0;
	struct scratch *s = bpf_map_lookup_elem(&scratch, &zero);
	struct runtime_walk *w = walk_of(kind);

	if (!s || !w || (w->time_ns == s->head.time_ns ? !w->on : !walk_begin(s, w, kind)))
		return 0;
	w->n = s->u.n;
	w->words = s->u.words;
	if (kind == RUNTIME_PYTHON)
		call_python_walk(0);
	return 0;
}

/* The frames of a stack that the agent finishes: by then the process has run on. A global function, as unwind_some. */
__attribute__((noinline)) int walk_rest(int unused)
{
	__u32 zero = 0;
	struct scratch *s = bpf_map_lookup_elem(&scratch, &zero);
	struct runtime_walk *w = walk_of(RUNTIME_PYTHON);
	int r = WALK_ON;

	UW_OPAQUE(unused);
	if (!s || !w || (w->time_ns == s->head.time_ns ? !w->on : !walk_begin(s, w, RUNTIME_PYTHON)))
		return 0;
	w->rest = RUNTIME_REST;
#pragma clang loop unroll(disable)
	for (int i = 0; i < PYTHON_REST_NATIVE && r == WALK_ON; i++)
		r = call_python_rest(i);
	if (r == WALK_ENDED)
		python_entry(&s->u, RUNTIME_ALL);
	return 0;
}

/* The programs walk them, and not unwind_some: all three together need more stack than 5.10 and 6.1 have. The native frame is at sp,
 * its caller's stack pointer is u->sp. */
static __always_inline int uw_walk(struct unwind *u, __u32 kind, __u64 sp, __u64 vaddr, __u64 frame)
{
	struct runtime_walk *w = walk_of(kind);

	if (!w)
		return uw_push(u, frame) ? UW_STEP_ON : END_DEPTH;
	w->sp = sp;
	w->cfa = u->sp;
	w->at = vaddr;
	u->ahead = kind;
	u->native = frame;
	return UW_AHEAD;
}

static __always_inline int uw_step_code(struct unwind *u, __u32 kind, __u64 frame)
{
	u->ahead = kind;
	u->native = frame;
	return UW_IN_CODE;
}

#endif
