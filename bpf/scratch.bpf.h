/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Per-CPU data: room for the unwinding and the record under construction, and counters. Part of sample.bpf.c. */
#ifndef PYRRHA_BPF_SCRATCH_BPF_H
#define PYRRHA_BPF_SCRATCH_BPF_H

/* Hides a value from the compiler, so that bounds checks and masks stay where they are written. */
#define UW_OPAQUE(v) __asm__ volatile("" : "+r"(v))

/* The address of a word of a member of *s. Otherwise the compiler computes the member's address ahead of loops, in code that each call runs through. */
#define UW_WORD_OF(s, member, i) \
	({ \
		__u64 *uw_at = (__u64 *)(s) + (i); \
		UW_OPAQUE(uw_at); \
		uw_at + __builtin_offsetof(struct scratch, member) / 8; \
	})

#define FRAMES_BYTES ((MAX_USER_WORDS + MAX_KERNEL_FRAMES) * 8)
#define BODY_BYTES (FRAMES_BYTES + STACK_PIECE_PAGES * STACK_PAGE)

/* The size of one fetch of the stack, and how far below the requested word it begins: saved registers are below the return address. */
#define WIN_BYTES 512
#define WIN_BELOW 64

#define RECENT_MAPS 4

/* The last mappings used on a CPU. A CPU mostly runs one process for a while, and its stacks use few files. So repeated ones are here,
 * in memory that a sample needs anyway, and not in separate pages (`maps`). */
struct recent_maps {
	__u32 set;                   /* of unwind_proc: unique for each address space and edition; 0 = none */
	__u32 next;                  /* where the next one goes */
	struct unwind_map m[RECENT_MAPS];
};

#define LAST_WORDS 8

/* The places in `cache` of the last stack's rules. Each leads to the next frame, so that without this the words would be fetched from
 * memory one after the other. */
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
	__u64 wake;                  /* the agent is to look at this record at once */
	/* For a copy of stack in progress: bytes before its pages, pages, unreadable ones in a row; the end, if known. */
	__u32 before, pages, misses, end;
	struct sample_head head;
	__u8 body[BODY_BYTES + STACK_PAGE];
};

_Static_assert(__builtin_offsetof(struct scratch, win) % 8 == 0 && __builtin_offsetof(struct scratch, body) % 8 == 0,
	       "UW_WORD_OF counts in words");

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
