/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* What a CPU has to itself: room for the unwinding and the record under construction, and counters. Part of
 * sample.bpf.c. */
#ifndef PYRRHA_BPF_SCRATCH_BPF_H
#define PYRRHA_BPF_SCRATCH_BPF_H

/* A value the compiler knows nothing about: its bounds checks and masks stay where they are written. */
#define UW_OPAQUE(v) __asm__ volatile("" : "+r"(v))

#define FRAMES_BYTES ((MAX_USER_FRAMES + MAX_KERNEL_FRAMES) * 8)
#define BODY_BYTES (FRAMES_BYTES + STACK_PIECE_PAGES * STACK_PAGE)

/* How much of the stack is fetched at once, and how far below the word that was asked for it begins: saved registers lie
 * below the return address. */
#define WIN_BYTES 512
#define WIN_BELOW 64

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

struct all_stats { __u64 v[STATS_MAX]; };

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
	__type(value, struct all_stats);
} stats SEC(".maps");

static __always_inline void count(__u32 what, __u64 n)
{
	__u32 zero = 0;
	struct all_stats *s = bpf_map_lookup_elem(&stats, &zero);

	if (s && what < STATS_MAX)
		s->v[what] += n;
}

#endif
