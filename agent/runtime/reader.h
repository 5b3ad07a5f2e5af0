/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that reads memory of processes, and may be left behind. Memory that a process maps from a file system of its own (FUSE) may
 * keep the thread waiting for as long as the process likes; then whoever else needs the lock of that memory waits, too. Another thread then
 * goes on with the other processes. One process keeps one thread at most, and all processes of a user so many that others have theirs. */
#ifndef PYRRHA_AGENT_READER_H
#define PYRRHA_AGENT_READER_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/err.h"
#include "base/lock.h"
#include "base/vec.h"

struct readers;

/* A thread that reads. */
struct memory_reader {
	struct readers *of;          /* a reference */
	pthread_t thread;
	_Atomic int64_t since_ms;    /* clock_mono_ms() when it began with what it reads; 0 = nothing */
	_Atomic int tid;             /* 0: it has not begun */
	/* Guarded by the lock: */
	uint32_t pid;                /* of what it reads */
	uint32_t user;               /* whose process that is; once it was left behind */
	bool left;                   /* left behind */
	bool ended;
};

struct reader_limits {
	const char *name;            /* of thread and lock */
	int64_t stuck_ms;            /* a thread that waits so long for one process is left behind */
	unsigned stuck_max;          /* so many may be, until nothing is read any more */
	unsigned user_max;           /* of processes of one user, until nothing is read of that user's any more */
};

/* What a user of such threads is. The functions get its `readers`, the first member of its own struct. */
struct readers_user {
	/* The thread: works until it was left behind or the user stops. Holds no lock. */
	void (*work)(struct memory_reader *r);
	/* The thread was left behind with what it reads. The lock is held. */
	void (*leave)(struct readers *x);
	/* The last reference went: frees all but what is in `readers`, and then x. */
	void (*release)(struct readers *x);
};

struct readers {
	const struct reader_limits *limits;
	const struct readers_user *user;
	atomic_int refs;             /* the user's, and one of each thread */
	struct mutex lock;           /* guards what follows, and what the user has */
	pthread_cond_t asked, answered;
	bool stopping;
	struct memory_reader *now;   /* NULL: none was needed yet, or too many were left behind */
	VEC(struct memory_reader *) left; /* those that were left behind and still wait */
	uint64_t stuck;              /* times a thread was left behind */
};

void readers_init(struct readers *x, const struct reader_limits *limits, const struct readers_user *user);
/* Starts the first thread. Nobody else knows x yet, or the lock is held. */
int readers_start(struct readers *x, struct err *e) MUST_USE;
/* Leaves the thread behind, which reads something. */
void readers_leave(struct readers *x) REQUIRES(x->lock);
/* Leaves a thread behind that is stuck. */
void readers_leave_stuck(struct readers *x) REQUIRES(x->lock);
/* Whether there is a thread, after one that is stuck was left behind and another one started. */
bool readers_ready(struct readers *x) REQUIRES(x->lock);
/* Whether the thread runs, or would if it had a CPU: it is behind, but not stuck. */
bool readers_run(const struct readers *x) REQUIRES(x->lock);
/* Whether the process keeps a thread, or its user as many as one may. */
bool readers_bar(const struct readers *x, uint32_t pid) REQUIRES(x->lock);
/* Stops: waits for the thread, no longer than for one that is stuck. Gives up the user's reference. */
void readers_stop(struct readers *x);

#endif
