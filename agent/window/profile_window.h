/* SPDX-License-Identifier: Apache-2.0 */
/* A finished window of samples, self-contained: it holds references to its images, processes and code, and is never changed.
 *
 *	samples[i]  -> stack (a run of stacks[]) -> frames[] (distinct)
 *	            -> process (who) and thread name
 *
 * A stack's first frame is the leaf; kernel frames come before user frames. A stack that could not be finished ends
 * with a FRAME_MARK frame that says why; losses are samples of process 0 with a single mark "[lost: reason]". */
#ifndef PYRRHA_AGENT_PROFILE_WINDOW_H
#define PYRRHA_AGENT_PROFILE_WINDOW_H

#include "agent/managed/frame_table.h"
#include "agent/process/process_info.h"
#include "base/vec.h"

enum window_kind {
	WINDOW_ON_CPU,       /* value: CPU time; count: ticks */
	WINDOW_OFF_CPU       /* value: time off the CPU; count: waits */
};

/* The thing that a thread off the CPU waits for. */
enum wait_state {
	WAIT_UNKNOWN,        /* no wait, or an unknown one */
	WAIT_BLOCKED,        /* something else to happen */
	WAIT_RUNNABLE        /* a CPU */
};

enum frame_kind {
	FRAME_USER,          /* addr is the image's ELF virtual address */
	FRAME_KERNEL,        /* addr is the kernel's */
	FRAME_JIT,           /* addr is process's own; code without a file */
	FRAME_RUNTIME,       /* of a language runtime; addr is where in its code */
	FRAME_MARK           /* mark says it all */
};

struct window_frame {
	enum frame_kind kind;
	uint64_t addr;               /* return addresses are already reduced by one, so that they are within the call */
	struct image *image;         /* FRAME_USER */
	struct process_info *process; /* FRAME_JIT: whose address space */
	struct runtime_code *code;   /* FRAME_RUNTIME; a reference */
	const char *mark;            /* FRAME_MARK: "[truncated: too deep]"; lives as long as the agent */
};

struct window_sample {
	uint32_t stack, n_frames;    /* stacks[stack ... + n_frames) */
	uint32_t process;            /* index of processes[] */
	char thread[16];
	enum wait_state state;
	int64_t value_ns;
	uint32_t count;              /* samples it sums */
};

struct profile_window {
	enum window_kind kind;
	int64_t start_unix_ns, duration_ns; /* what was covered */
	int64_t end_unix_ns;         /* by the clock of the last window: after a step that is not the start plus the duration */
	int64_t start_mono_ns;
	uint64_t first_number, last_number; /* of the history's windows that it sums, counted from 1; 0 = of none */
	int64_t period_ns;           /* nominal; off-CPU: 1 */
	char note[160];              /* what is less in it than was wanted, in words; empty = nothing */
	VEC(struct window_frame) frames;
	VEC(uint32_t) stacks;        /* indices of frames[] */
	VEC(struct process_info *) processes; /* [0] is NULL: the host (losses) */
	VEC(struct window_sample) samples;
};

void profile_window_free(struct profile_window *w);

#endif
