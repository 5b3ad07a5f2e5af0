/* SPDX-License-Identifier: Apache-2.0 */
/* Ticks: each thread of this process has a timer of the CPU time it uses (timer_create, CLOCK_THREAD_CPUTIME_ID), whose
 * signal, SIGPROF, stops it where it is. No perf event is needed, so seccomp may forbid those.
 *
 *	thread runs for 10 ms --SIGPROF--> handler: registers, up to 64 KB of stack --> a free slot --ticks_take--> its taker
 *
 * The handler takes no lock, allocates nothing and may interrupt anything, malloc included (pieces.h). If no slot is free, the tick is
 * added to the thread's next one: CPU time stays correct, only the stack is lost. The kernel reports ticks that it could not deliver
 * in time (overrun); they count as well.
 *
 * Threads are found in /proc/self/task, new ones by looking again. Timers are not inherited by fork and end at exec. System calls
 * continue (SA_RESTART), except those that the kernel never restarts (epoll_wait, nanosleep). These end early (EINTR) only if the 10
 * ms are over just as the thread enters them. Threads that block SIGPROF are not seen; lib/base/thread.h leaves it open. One user at a
 * time. */
#ifndef PYRRHA_SELFPROF_TICKS_H
#define PYRRHA_SELFPROF_TICKS_H

#include "base/err.h"
#include "unwind/own_unwind.h"

#define TICK_NS 10000000             /* of CPU time; Go's */

/* weight: number of ticks that it stands for. */
typedef void ticks_fn(void *arg, const struct own_stack *s, uint32_t weight);

struct ticks_stats {
	uint64_t stackless;          /* ticks whose stack had no free slot */
	uint64_t owed;               /* ticks without a stack that no later one of their thread made up for: of `stackless`, and of signals that did
				      * not come until the end */
	unsigned blocked;            /* threads that block SIGPROF */
	unsigned refused;            /* threads that got no timer */
};

/* Starts a timer in each thread. ERR_CONFLICT: somebody else uses SIGPROF. */
int ticks_start(struct err *e) MUST_USE;
/* Looks for threads that have come or gone. Every 20 ms is enough: a timer started late fires for what its thread had used
 * by then. The ticks of a thread that comes and goes between two looks are lost. */
void ticks_look(void);
/* Calls fn with what has come in since. */
void ticks_take(ticks_fn *fn, void *arg);
/* Losses from the start up to now. */
void ticks_stats(struct ticks_stats *ret);
/* Ends all timers, hands out the last ticks. */
void ticks_stop(ticks_fn *fn, void *arg, struct ticks_stats *ret);

/* For tests: the slots, there since the first ticks_start. */
struct pieces *ticks_pieces(void);

#endif
