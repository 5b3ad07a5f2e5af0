/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs that read of a process what may not answer, one after another, in a thread that may be left behind (reader.h). Who asks waits for a
 * moment, and looks again later or does without. */
#ifndef PYRRHA_AGENT_READ_JOBS_H
#define PYRRHA_AGENT_READ_JOBS_H

#include "agent/runtime/reader.h"

enum read_state {
	READ_WAITS,
	READ_DONE,
	READ_STUCK                   /* the thread was left behind with it */
};

/* The first member of a job's own struct. What that holds as an answer is there once the state is READ_DONE. */
struct read_job {
	atomic_int refs;
	_Atomic uint32_t state;      /* enum read_state */
	uint32_t pid;                /* of which process it reads */
	void (*run)(struct read_job *j); /* the thread's; unless nobody asks any more */
	void (*release)(struct read_job *j); /* the last reference went: frees j. Any thread */
};

struct read_jobs;

/* limits: borrowed, for ever: a thread that was left behind may need them. */
struct read_jobs *read_jobs_new(const struct reader_limits *limits);
/* Waits for the job that runs, no longer than for one that is stuck. May be NULL. */
void read_jobs_free(struct read_jobs *x);

/* One reference, the caller's. */
void read_job_init(struct read_job *j, uint32_t pid, void (*run)(struct read_job *), void (*release)(struct read_job *));
/* Nobody asks any more if it was the last but the thread's. May be NULL. */
void read_job_unref(struct read_job *j);
enum read_state read_job_state(const struct read_job *j);

/* Hands a job to the thread, which takes a reference of its own. False: too many threads are left behind, in all or with this process or its
 * user's, or none can be started. */
bool read_jobs_ask(struct read_jobs *x, struct read_job *j) MUST_USE;
/* Waits until the job is done, at most so long; not at all while others come before it. */
void read_jobs_wait(struct read_jobs *x, const struct read_job *j, int64_t ms);
/* Asks, and waits so long for it and whatever comes before it, or ten times as long for a thread that runs; then the thread is left behind.
 * False: it is not done. */
bool read_jobs_do(struct read_jobs *x, struct read_job *j, int64_t ms) MUST_USE;
/* Every now and then: leaves a thread behind that is stuck. */
void read_jobs_tick(struct read_jobs *x);
/* Times that a thread was left behind. */
uint64_t read_jobs_stuck(struct read_jobs *x);

#endif
