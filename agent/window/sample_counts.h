/* SPDX-License-Identifier: Apache-2.0 */
/* A window being filled: samples summed by who, thread name and stack. Guarded by the agent's lock. */
#ifndef PYRRHA_AGENT_SAMPLE_COUNTS_H
#define PYRRHA_AGENT_SAMPLE_COUNTS_H

#include "agent/unwind/unwind_tables.h"
#include "agent/window/profile_window.h"
#include "agent/window/stack_tree.h"

struct sample_count {
	struct process_info *who;    /* a reference; NULL = the host */
	int64_t value_ns;
	char thread[16];
	uint32_t stack;              /* node of the stack tree */
	uint32_t off_cpu : 1;        /* enum window_kind */
	uint32_t state : 2;          /* enum wait_state */
	uint32_t count : 29;
};

struct sample_counts {
	int64_t start_ns, end_ns;    /* monotonic, [start, end) */
	int64_t unix_offset_ns;      /* Unix time - monotonic */
	uint64_t number;             /* of the history's: one more than the one before; 0 = a caller's */
	unsigned kinds;              /* 1 << enum window_kind: what it takes */
	bool finished;
	bool unnamed;                /* a process in it waits for its container's name (process_info.h) */
	int64_t named_ns;            /* monotonic; when the last of them had its name; 0 = none has waited */
	VEC(struct sample_count) v;
	struct map index;
};

/* The history's windows begin at multiples of ten Unix seconds, except the first one and those after the wall clock was set. follows:
 * on one that ended at such a multiple. The clocks tick apart a little, so that this one seems to start up to CLOCK_JITTER_NS before
 * or after; it counts as beginning there. */
#define WINDOW_NS 10000000000ll
#define CLOCK_JITTER_NS 100000000ll  /* the wall clock against the monotonic one, within a window */
#define CLOCK_STEP_NS 300000000ll    /* more: it was set, or the machine slept */
struct sample_counts *sample_counts_open(int64_t start_ns, int64_t unix_offset_ns, bool follows);
/* Whether such a window is over when all before now_ns was counted and the clocks differ by unix_offset_ns; *ret_cut_ns:
 * where the next one begins. */
bool sample_counts_over(const struct sample_counts *t, int64_t now_ns, int64_t unix_offset_ns, int64_t *ret_cut_ns);
/* Unix time - monotonic by these clocks, ns, however long the thread is held up between looking at the one and at the other. */
int64_t sample_counts_unix_offset(int64_t (*mono_ns)(void), int64_t (*unix_ns)(void));
int64_t sample_counts_start_unix_ms(const struct sample_counts *t);
struct sample_counts *sample_counts_new(int64_t start_ns, int64_t end_ns, int64_t unix_offset_ns);
void sample_counts_free(struct sample_counts *t);
/* count: number of samples or waits in the value; 0 = a further part of one that was counted. */
void sample_counts_add(struct sample_counts *t, enum window_kind kind, enum wait_state state, struct process_info *who,
		       const char thread[16], uint32_t stack, int64_t value_ns, uint32_t count);
/* Replaces processes that do not wait any more by what they are named now, and leaves out what is dropped; ret_dropped: samples or waits
 * that were, by enum window_kind, added. */
void sample_counts_name(struct sample_counts *t, uint64_t ret_dropped[2]);
/* After the stacks' numbers changed. */
void sample_counts_reindex(struct sample_counts *t);
/* No more will come: gives back what only adding needs. */
void sample_counts_finish(struct sample_counts *t);
size_t sample_counts_bytes(const struct sample_counts *t);
/* The contents of several windows of a kind, as one self-contained window. */
struct profile_window *sample_counts_export(struct sample_counts *const *t, size_t n, enum window_kind kind,
					    const struct stack_tree *tree, const struct frame_table *frames,
					    const struct unwind_tables *tables);

#endif
