/* SPDX-License-Identifier: Apache-2.0 */
/* Starting and awaiting a process that reads what may be hostile or slow. */
#ifndef PYRRHA_SYMBOLS_CHILD_H
#define PYRRHA_SYMBOLS_CHILD_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/err.h"

/* Forks. Returns 0 in the child, its process number in the caller, or a negative error code. what: who it is, for errors ("the helper").
 * The kernel kills the child when the calling *thread* ends: that thread must live until child_wait has returned. The child has arranged
 * that before the caller goes on, so whoever stops the child cannot leave it stopped for good. */
pid_t child_start(const char *what, struct err *e) MUST_USE;

/* The CPU time limit of all children together: `share` of one CPU, with a burst of up to a minute of that. A child that takes more is
 * stopped for a while, which does not count towards its deadline. */
struct child_pace {
	double share;                /* 0 = as much as they like */
	double credit_ns;
	int64_t at_ns;               /* when that was known */
	atomic_ullong spent_ns;      /* so far; any thread may read it */
};
void child_pace_init(struct child_pace *p, double share);

/* Waits until the child ends; *ret_status is as waitpid gives it. A child that takes more than deadline_ms milliseconds, or
 * runs while *stop becomes true (NULL = never), is killed: ERR_TIMEOUT, ERR_CANCELED. It is gone afterwards in any case.
 * pid: from child_start, if there is a pace. pace: NULL = none. what: as for child_start. */
int child_wait(pid_t pid, int64_t deadline_ms, const atomic_bool *stop, struct child_pace *pace, const char *what, int *ret_status,
	       struct err *e) MUST_USE;

/* In the child: limits RLIMIT_DATA or RLIMIT_AS to this many bytes more than after the fork. The stacks of its parent's threads, 8 MB
 * each, count although it never touches them. */
void child_limit_memory(int resource, rlim_t bytes);

#endif
