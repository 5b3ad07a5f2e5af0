/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The sampling program: runs at each tick of a CPU's clock, unwinds the user stack with the tables of abi.h, takes the
 * kernel stack and writes one record to the ring. A stack that meets something not in the tables yet carries its
 * registers and a copy of the stack instead; the agent finishes it. The program for waits is in offcpu.bpf.h.
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
#include "core.h"
#include "knobs.h"

char LICENSE[] SEC("license") = "GPL";

const volatile struct bpf_knobs knobs = { KNOBS_MAGIC, 256 << 10, 1, 16384, 0 };

#include "filter.bpf.h"

/* A value the compiler knows nothing about: its bounds checks and masks stay where they are written. */
#define UW_OPAQUE(v) __asm__ volatile("" : "+r"(v))

#define FRAMES_BYTES ((MAX_USER_FRAMES + MAX_KERNEL_FRAMES) * 8)
#define BODY_BYTES (FRAMES_BYTES + STACK_PIECE_PAGES * STACK_PAGE)

/* How much of the stack is fetched at once, and how far below the word that was asked for it begins: saved registers lie
 * below the return address. */
#define WIN_BYTES 512
#define WIN_BELOW 64

#define RING_ASK_BYTES 2048          /* a CPU's share of the ring is 64 KB */

#define RECENT_MAPS 4

/* The mappings met last on a CPU, which has one process for a while, mostly, and its stacks few files: what is met again
 * is here, in memory that a sample needs anyway, and not in pages of its own (`maps`). */
struct recent_maps {
	__u32 set;                   /* of unwind_proc: no other address space, nor edition of one, has or had it; 0 = none */
	__u32 next;                  /* where the next one goes */
	struct unwind_map m[RECENT_MAPS];
};

#define LAST_WORDS 8

/* Where in `cache` the last stack's rules were. Each leads to the next frame, so that without this the words would be
 * fetched from memory one after the other. */
struct last_words {
	__u32 n, at;                 /* how many so far; the last one */
	__u16 i[LAST_WORDS];         /* the last ones of those that followed another */
};

/* One per CPU: the unwinding and the record under construction. The record is sent from `head` on; `body` has room
 * for one page more than is sent, so that every piece of stack can be proven to fit. */
struct scratch {
	struct unwind u;
	struct recent_maps recent;
	struct last_words last;
	__u64 win_at, win_bytes;     /* the piece of stack in win[]: to read each word by itself costs more than all the rest */
	__u64 win[WIN_BYTES / 8];
	struct cgroup_seen seen;
	__u64 unasked;               /* bytes sent since the CPU looked how full the ring is */
	__u64 out_at, out_end;       /* of the CPU's own ring: where the next record goes, how far there is known to be room */
	__u64 cost_ns;               /* all samples so far */
	/* Of a copy of stack under way: bytes before its pages, pages, unreadable ones in a row; where to end, if known. */
	__u32 before, pages, misses, end;
	struct sample_head head;
	__u8 body[BODY_BYTES + STACK_PAGE];
};

struct all_procs { struct unwind_proc p[PROC_SLOTS]; };
struct all_maps { struct unwind_map m[MAPS_MAX]; };
struct all_pages { __u64 p[PAGES_MAX]; };
struct rule_cache { __u64 v[RULE_CACHE]; };
struct chunk { __u32 row[CHUNK_ROWS]; };
struct stats { __u64 v[STATS_MAX]; };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct all_procs);
} procs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct all_maps);
} maps SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, IMAGES_MAX);
	__type(key, __u32);
	__type(value, struct unwind_image);
} images SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct all_pages);
} pages SEC(".maps");

struct chunk_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, CHUNK_ROWS * 4);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, CHUNKS_MAX);
	__type(key, __u32);
	__array(values, struct chunk_map);
} chunks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, RULES_MAX);
	__type(key, __u32);
	__type(value, struct unwind_rule);
} rules SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rule_cache);
} cache SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct scratch);
} scratch SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct stats);
} stats SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);      /* the loader says how many CPUs there are */
	__type(key, __u32);
	__type(value, struct cpu_ring);
} cpu_rings SEC(".maps");

static __always_inline void count(__u32 what, __u64 n)
{
	__u32 zero = 0;
	struct stats *s = bpf_map_lookup_elem(&stats, &zero);

	if (s && what < STATS_MAX)
		s->v[what] += n;
}

static __always_inline const struct unwind_map *uw_maps(struct unwind *u)
{
	__u32 zero = 0;
	struct all_maps *all = bpf_map_lookup_elem(&maps, &zero);

	return all ? all->m : 0;
}

static __always_inline bool uw_holds(const struct unwind_map *m, __u64 ip);

static __always_inline const struct unwind_map *uw_recent(struct unwind *u)
{
	const struct unwind_map *m = ((struct scratch *)u)->recent.m;

	_Static_assert(RECENT_MAPS == 4, "as many are looked at");
	return uw_holds(m, u->ip) || uw_holds(++m, u->ip) || uw_holds(++m, u->ip) || uw_holds(++m, u->ip) ? m : 0;
}

static __always_inline void uw_met(struct unwind *u, const struct unwind_map *m)
{
	struct recent_maps *r = &((struct scratch *)u)->recent;
	__u64 i = r->next++;

	UW_OPAQUE(i);
	r->m[i & (RECENT_MAPS - 1)] = *m;
}

static __always_inline const struct unwind_image *uw_image(struct unwind *u, __u32 id)
{
	return bpf_map_lookup_elem(&images, &id);
}

static __always_inline const __u64 *uw_pages(struct unwind *u)
{
	__u32 zero = 0;
	struct all_pages *all = bpf_map_lookup_elem(&pages, &zero);

	return all ? all->p : 0;
}

static __always_inline const __u32 *uw_chunk(struct unwind *u, __u32 i)
{
	__u32 zero = 0;
	void *inner = bpf_map_lookup_elem(&chunks, &i);
	struct chunk *c;

	if (!inner)
		return 0;
	c = bpf_map_lookup_elem(inner, &zero);
	return c ? c->row : 0;
}

static __always_inline const struct unwind_rule *uw_rule(struct unwind *u, __u32 i)
{
	return bpf_map_lookup_elem(&rules, &i);
}

#define CACHE_VADDR_BITS 29
_Static_assert(RULES_MAX <= SHORT_IS_RULE && IMAGES_MAX <= 1 << (64 - CACHE_VADDR_BITS - SHORT_BITS),
	       "a word of the rule cache holds image, address and rule");

static __always_inline void last_word(struct unwind *u, __u64 at)
{
	struct last_words *l = &((struct scratch *)u)->last;
	__u64 k;

	if (UW_LIKELY(l->at == at))
		return;
	l->at = at;
	k = l->n++;
	UW_OPAQUE(k);
	l->i[k & (LAST_WORDS - 1)] = at;
}

/* Asks for the words of the last stack. */
static __always_inline void fetch_last_words(const struct last_words *l)
{
	__u32 zero = 0;
	struct rule_cache *c = bpf_map_lookup_elem(&cache, &zero);

	if (!c)
		return;
	for (int k = 0; k < LAST_WORDS; k++) {
		__u64 i = l->i[k];

		UW_OPAQUE(i);
		if (i < RULE_CACHE)
			(void)*(const volatile __u64 *)&c->v[i];
	}
}

/* The word of the cache where an address's rule is, if it is anywhere; key is what it has above the rule then. */
static __always_inline volatile __u64 *cache_word(struct unwind *u, __u64 vaddr, __u64 *key)
{
	__u32 zero = 0;
	struct rule_cache *c;
	__u64 i;

	if (UW_RARELY(!u->cached || vaddr >> CACHE_VADDR_BITS))
		return 0;
	c = bpf_map_lookup_elem(&cache, &zero);
	if (!c)
		return 0;
	*key = (__u64)u->image << CACHE_VADDR_BITS | vaddr;
	i = *key * 0x9e3779b97f4a7c15ull >> 48;
	UW_OPAQUE(i);
	i = (i & 0xffff) * RULE_CACHE >> 16;
	last_word(u, i);
	UW_OPAQUE(i);
	return &c->v[i];
}

static __always_inline bool uw_cache_get(struct unwind *u, __u64 vaddr, __u32 *code)
{
	__u64 key, v;
	volatile __u64 *w = cache_word(u, vaddr, &key);

	if (!w)
		return false;
	v = *w;
	if (v >> SHORT_BITS != key)
		return false;
	*code = v & ((1 << SHORT_BITS) - 1);
	return true;
}

static __always_inline void uw_cache_put(struct unwind *u, __u64 vaddr, __u32 code)
{
	__u64 key;
	volatile __u64 *w = cache_word(u, vaddr, &key);

	if (w)
		*w = key << SHORT_BITS | code;
}

/* Fetches the piece of stack around a word. It never leaves the word's page: what can be read of one can all be read. */
static __noinline long uw_fetch(struct scratch *s, __u64 at)
{
	__u64 from = at & ~63ull, n;

	if (from & (STACK_PAGE - 1))
		from -= WIN_BELOW;
	n = STACK_PAGE - (from & (STACK_PAGE - 1));
	if (n > WIN_BYTES)
		n = WIN_BYTES;
	s->win_at = from;
	s->win_bytes = 0;
	if (bpf_probe_read_user(s->win, n, (const void *)from))
		return -1;
	s->win_bytes = n;
	return 0;
}

static __always_inline long uw_word(struct scratch *s, __u64 *to, __u64 at)
{
	__u64 i = at - s->win_at;

	if (UW_RARELY(at & 7))
		return bpf_probe_read_user(to, 8, (const void *)at);
	if (UW_RARELY(i >= s->win_bytes)) {
		if (uw_fetch(s, at))
			return -1;
		i = at - s->win_at;
	}
	i >>= 3;
	UW_OPAQUE(i);
	i &= WIN_BYTES / 8 - 1;
	*to = s->win[i];
	return 0;
}

/* n is a constant, and a multiple of 8. */
static __always_inline long uw_read(struct unwind *u, __u64 *to, __u32 n, __u64 at)
{
	struct scratch *s = (struct scratch *)u;

	if (n > 16)
		return bpf_probe_read_user(to, n, (const void *)at);
	return uw_word(s, to, at) || (n == 16 && uw_word(s, to + 1, at + 8));
}

static __always_inline long uw_code(struct unwind *u, __u8 to[UW_CODE])
{
	return bpf_probe_read_user(to, UW_CODE, (const void *)(u->ip - 1));
}

static __always_inline bool uw_push(struct unwind *u, __u64 frame)
{
	struct scratch *s = (struct scratch *)u;
	__u64 n = u->n;

	if (n >= MAX_USER_FRAMES)
		return false;
	UW_OPAQUE(n);
	n &= MAX_USER_FRAMES - 1;
	((__u64 *)s->body)[n] = frame;
	u->n++;
	return true;
}

#include "unwind.h"

/* So many steps at a call: a call costs as much as a third of a step. The verifier walks each of them by itself. */
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
		r = uw_step(&s->u);
		if (r != UW_STEP_ON)
			break;
	}
	return r;
}

struct user_regs { __u64 rip, rsp, rbp, cs, orig_rax; };

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
	*out = (struct user_regs){ from->rip, from->rsp, from->rbp, from->cs, from->orig_rax };
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
	s->head.end = ctx->regs.cs == 0x23 ? END_COMPAT : END_BOTTOM;
	return s->head.end == END_BOTTOM;
}

/* What was met last is of another address space than this one, unless its number is the same. */
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
	const volatile struct unwind_proc *p;
	__u32 zero = 0, exec_id, flags;
	const struct all_procs *all = bpf_map_lookup_elem(&procs, &zero);

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
		exec_id = p->exec_id;
		if (s->head.set && p->set == s->head.set && exec_id == s->head.exec_id) {
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
	int end = END_DEPTH;

	if (!find_process(s)) {
		s->head.end = END_NO_PROCESS;
		return;
	}
	for (int i = 0; i <= MAX_USER_FRAMES / STEPS_AT_ONCE; i++) {
		int r = unwind_some(i);

		if (r != UW_STEP_ON) {
			end = r;
			break;
		}
	}
	/* The memory that the stack was in may have been given up for the new program's. */
	s->head.end = end == END_STACK_READ && s->head.flags & SAMPLE_IN_EXEC ? END_BOTTOM : end;
}

/* Puts the record in the CPU's own ring. False: it is no record for that, or there is no room. What is written in this
 * order is seen in this order on x86. */
static __always_inline bool send_short(struct scratch *s, __u64 bytes)
{
	__u64 at = s->out_at, off = at & (CPU_RING_BYTES - 1), skip = 0;
	__u32 cpu = bpf_get_smp_processor_id();
	struct cpu_ring *r;

	if (bytes > CPU_RECORD_MAX)
		return false;
	r = bpf_map_lookup_elem(&cpu_rings, &cpu);
	if (!r)
		return false;
	if (UW_RARELY(off > CPU_RING_BYTES - 8 - CPU_RECORD_MAX))
		skip = CPU_RING_BYTES - off;
	if (UW_RARELY(at + skip + 8 + bytes > s->out_end)) {
		s->out_end = *(const volatile __u64 *)&r->taken + CPU_RING_BYTES;
		if (at + skip + 8 + bytes > s->out_end)
			return false;
	}
	if (UW_RARELY(skip)) {
		UW_OPAQUE(off);
		off &= CPU_RING_BYTES - 8;
		*(volatile __u64 *)(r->b + off) = CPU_RING_SKIP;
		off = 0;
	}
	UW_OPAQUE(off);
	UW_OPAQUE(bytes);
	if (off > CPU_RING_BYTES - 8 - CPU_RECORD_MAX || bytes > CPU_RECORD_MAX)
		return false;
	if (bpf_probe_read_kernel(r->b + off + 8, bytes, &s->head))
		return false;
	*(volatile __u64 *)(r->b + off) = bytes;
	s->out_at = at + skip + 8 + bytes;
	return true;
}

/* False: the ring is full. */
static __always_inline bool send(struct scratch *s, __u64 bytes)
{
	__u64 flags = BPF_RB_NO_WAKEUP;

	bytes += sizeof s->head;
	if (UW_LIKELY(send_short(s, bytes)))
		return true;
	s->unasked += bytes;
	if (UW_RARELY(s->unasked >= RING_ASK_BYTES)) {
		s->unasked = 0;
		if (bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) > knobs.ring_wakeup_bytes)
			flags = BPF_RB_FORCE_WAKEUP;
	}
	UW_OPAQUE(bytes);
	if (bytes > sizeof s->head + BODY_BYTES)
		bytes = sizeof s->head + BODY_BYTES;
	return bpf_ringbuf_output(&ring, &s->head, bytes, flags) == 0;
}

static __always_inline void send_sample(struct scratch *s, __u64 bytes)
{
	if (!send(s, bytes) && !(s->head.flags & SAMPLE_MORE))
		count(STAT_RING_FULL, 1);
}

/* The stack of a deferred sample, page i from the one that sp is in; 1 = that was the last. What has no room in the
 * record goes into others, unless the ring is filling up. A global function, as unwind_some. */
__attribute__((noinline)) int copy_page(int i)
{
	__u32 zero = 0;
	struct scratch *s = bpf_map_lookup_elem(&scratch, &zero);
	__u64 to;

	if (!s)
		return 1;
	if (s->pages == STACK_PIECE_PAGES) {
		send_sample(s, s->before + STACK_PIECE_PAGES * STACK_PAGE);
		s->head.flags = SAMPLE_MORE;
		s->head.n_user = s->head.n_kernel = 0;
		s->head.stack_pages = s->before = s->pages = 0;
		if (bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) > knobs.ring_wakeup_bytes)
			return 1;
	}
	to = s->before + (__u64)s->pages * STACK_PAGE;
	UW_OPAQUE(to);
	if (to > BODY_BYTES)
		return 1;
	if ((__u32)i == s->end)
		return 1;
	if (bpf_probe_read_user(s->body + to, STACK_PAGE, (const void *)((s->u.sp & ~(STACK_PAGE - 1ull)) + (__u64)i * STACK_PAGE)))
		return ++s->misses == STACK_HOLE_PAGES && s->end > STACK_PAGES;
	s->head.stack_pages |= 1u << (i & 31);
	s->misses = 0;
	s->pages++;
	return 0;
}

/* Before the stack's pages are copied, behind `before` bytes of the record: where they are to end. */
static __always_inline void begin_copy(struct scratch *s, __u32 before)
{
	struct task_struct *t = (struct task_struct *)bpf_get_current_task();
	__u64 left = BPF_CORE_READ(t, mm, start_stack) / STACK_PAGE - s->u.sp / STACK_PAGE;

	s->before = before;
	s->pages = s->misses = 0;
	s->end = left < STACK_PAGES ? left + 1 : STACK_PAGES + 1;
}

/* Sends the record, whose frames take up `before` bytes, with the stack page by page: one read of all is refused whole. */
static __always_inline void send_with_stack(struct scratch *s, __u32 before)
{
	begin_copy(s, before);
	for (int i = 0; i < STACK_PAGES; i++)
		if (copy_page(i))
			break;
	if (s->pages || !(s->head.flags & SAMPLE_MORE))
		send_sample(s, s->before + (__u64)s->pages * STACK_PAGE);
}

/* What follows the user frames: the kernel's; whether the stack itself has to follow. Returns the bytes so far. */
static __always_inline __u64 complete(struct scratch *s, void *ctx)
{
	__u64 bytes;
	long n;

	s->head.n_user = s->u.n;
	bytes = (__u64)s->u.n * 8;
	UW_OPAQUE(bytes);
	if (bytes > MAX_USER_FRAMES * 8)
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

/* A record about t, the current task, empty but for who it is. */
static __always_inline void begin(struct scratch *s, const struct task_struct *t, __u64 now, __u64 id, __u64 cgroup)
{
	__builtin_memset(&s->u, 0, sizeof s->u);
	__builtin_memset(&s->head, 0, sizeof s->head);
	s->win_bytes = 0;
	s->head.time_ns = now;
	s->head.cost_ns = s->cost_ns;
	s->head.pid = id >> 32;
	s->head.tid = (__u32)id;
	s->head.cpu = bpf_get_smp_processor_id();
	s->head.exec_id = CORE_GET(true, t, self_exec_id);
	s->head.cgroup_id = cgroup;
	current_comm(t, s->head.comm);
}

/* Asks for what the sample is going to need, all at once: at 19 Hz each of these is in memory, in a page of its own, and
 * to wait for one after the other is most of what a sample costs. */
static __always_inline void fetch_ahead(const struct scratch *s, __u64 id)
{
	__u32 zero = 0, cpu = bpf_get_smp_processor_id();
	const struct all_procs *all = bpf_map_lookup_elem(&procs, &zero);
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
	cgroup_of_current(&s->seen, &who);
	kind = filtered(&who, id >> 32);
	if (kind) {
		count(STAT_FILTERED + kind - 1, 1);
		return 0;
	}
	begin(s, t, now, id, who.id);
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

#include "offcpu.bpf.h"
