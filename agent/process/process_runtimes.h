/* SPDX-License-Identifier: Apache-2.0 */
/* Which language runtimes a process runs, and what the kernel has to know of them (the map runtime_procs): written before the
 * process's mappings are, taken out with them. A runtime that has not begun yet is tried again for a while. Drain thread only. */
#ifndef PYRRHA_AGENT_PROCESS_RUNTIMES_H
#define PYRRHA_AGENT_PROCESS_RUNTIMES_H

#include "agent/managed/frame_table.h"
#include "agent/process/attacher.h"
#include "base/vec.h"

struct process;

/* Names are read at once in a process that may end soon: its samples wake the agent for so long after its start, and so many in a
 * second, of all processes. */
#define YOUNG_NS 5000000000ll
#define YOUNG_PER_S 100

enum runtime_failure {
	RUNTIME_FAIL_BUILD,          /* runtime_file.why_not: none of its kind is named */
	RUNTIME_FAIL_DENIED,         /* its memory cannot be read */
	RUNTIME_FAIL_GONE,           /* it ended before */
	RUNTIME_FAIL_NOT_READY,      /* it did not get as far within the time */
	RUNTIME_FAIL_STRANGE,        /* its memory is not what such a runtime has */
	RUNTIME_FAIL_NO_ROOM,        /* the kernel's map is full */
	RUNTIME_FAIL_STUCK,          /* its memory did not answer, or that of so many others that nobody is left to ask */
	RUNTIME_FAILURES
};
extern const char *const runtime_failure_names[RUNTIME_FAILURES]; /* of metrics */

struct process_runtimes {
	int fd;                      /* of the map, borrowed; -1 = none */
	VEC(struct process *) young, waiting; /* in no order; process_runtimes_leave takes them out */
	struct attacher *attacher;
	int64_t second_ns;           /* when the second began that `wakes` counts in */
	uint32_t wakes;              /* samples of young processes in it */
	uint32_t edition;            /* of the map: one more with each change of what it has already */
	uint64_t failed[RUNTIME_KINDS][RUNTIME_FAILURES]; /* processes */
	uint32_t known[RUNTIME_KINDS]; /* processes that are in the map */
};

#define ATTEMPTS_MAX 8u

/* A file with a runtime that a process maps, and what came of attaching to it. Of files of one kind the first counts that can be. */
struct runtime_attempt {
	struct image *image;         /* a reference */
	uint64_t bias;
	struct attach_job *job;      /* what is asked just now; a reference; NULL = nothing */
	unsigned tries;
	int64_t again_ns;
	bool mapped;                 /* still */
	bool given_up;               /* is not to be tried again */
	enum runtime_failure why;    /* then */
};

/* A part of struct process. */
struct runtime_state {
	char label[24];              /* of the first file with a runtime that it maps; "" = none */
	uint8_t in_kernel, failed;   /* 1 << kind: is in the map; was counted as not attached */
	bool young, waiting;         /* is in that list */
	uint32_t exec_id;            /* as the map has it */
	VEC(struct runtime_attempt) attempts;
};

void process_runtimes_init(struct process_runtimes *x, int fd);
void process_runtimes_release(struct process_runtimes *x);
/* Tells the kernel of the runtimes that the process maps; its address space is prepared. True: its label has changed. */
bool process_runtimes_push(struct process_runtimes *x, struct process *p, int64_t now_ns);
/* Whether it maps a file with such a runtime, attached to or not; as of the last push. */
bool process_runtimes_maps(const struct process *p, enum runtime_kind kind);
/* Takes it out of the map and out of all lists. What it is stays known. */
void process_runtimes_leave(struct process_runtimes *x, struct process *p);
/* It has ended, or runs another program from here on: nothing can be read of it any more. */
void process_runtimes_end(struct process *p);
/* A sample of it came: what wakes the agent has a budget. */
void process_runtimes_sampled(struct process_runtimes *x, struct process *p, int64_t now_ns);
/* What the kernel knows of a runtime in the process; false: nothing. */
bool process_runtimes_get(const struct process_runtimes *x, const struct process *p, enum runtime_kind kind, struct runtime_proc *ret);
/* After each drain: who is not young any more, who can be tried again. */
void process_runtimes_tick(struct process_runtimes *x, int64_t now_ns);
/* When the next one can be tried again, by the same clock; the past: an answer is awaited; INT64_MAX: nobody waits. */
int64_t process_runtimes_due_ns(const struct process_runtimes *x);

#endif
