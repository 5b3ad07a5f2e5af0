/* SPDX-License-Identifier: Apache-2.0 */
/* Asks runtimes what the kernel must know of a process (runtime->attach), in a thread of its own: the memory of the process may not
 * answer (runtime/read_jobs.h). Who asks waits for some milliseconds, and looks again later. Drain thread only. */
#ifndef PYRRHA_AGENT_ATTACHER_H
#define PYRRHA_AGENT_ATTACHER_H

#include "agent/image/image.h"
#include "agent/runtime/read_jobs.h"
#include "agent/runtime/runtime.h"

/* What one answer is waited for, and all answers of one drain (the last one up to the former longer). */
#define ATTACH_WAIT_MS 5
#define ATTACH_WAITS_MS 25
/* A process that takes longer has none; so many threads may be left behind with such, and of one user's processes. */
#define ATTACH_STUCK_MS 1000
#define ATTACH_STUCK_MAX 16u
#define ATTACH_STUCK_USER_MAX 4u

/* A question and its answer; shared with the thread. */
struct attach_job {
	struct read_job job;
	struct image *image;         /* a reference; ->runtime is not NULL */
	uint64_t bias;
	int error;                   /* of runtime->attach; there once it is READ_DONE, as the next one */
	struct runtime_proc found;
	void *facts;                 /* process_memory.facts; owned */
};

struct attacher;

struct attacher *attacher_new(void);
void attacher_free(struct attacher *a);
/* Asks, and waits for a moment. Returns a reference; NULL: too many threads are left behind, or none can be started. */
struct attach_job *attacher_ask(struct attacher *a, uint32_t pid, struct image *im, uint64_t bias);
/* After each drain: leaves a thread behind that is stuck. */
void attacher_tick(struct attacher *a);

/* The same at once, of a runtime whose attach reads no memory of the process. *ret_facts: process_memory.facts, returns owned. */
int attach_now(const struct runtime_file *f, uint32_t pid, uint64_t bias, struct runtime_proc *ret, void **ret_facts) MUST_USE;

#endif
