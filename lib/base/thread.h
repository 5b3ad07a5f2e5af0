/* SPDX-License-Identifier: Apache-2.0 */
/* Named threads, and a pool that runs a numbered job over several of them. */
#ifndef PYRRHA_BASE_THREAD_H
#define PYRRHA_BASE_THREAD_H

#include <pthread.h>
#include <sys/types.h>

#include "base/err.h"

/* Bytes of a thread's stack, whatever the limits of who started the process say. Recursion over input, bounded by its parser,
 * stays within half of it. */
#define THREAD_STACK ((size_t)8 << 20)

/* Starts a thread named `name` (15 bytes are shown). Signals are blocked in it, so that main handles them,
 * except SIGPROF (lib/selfprof). Returns 0 or a negative code. */
int thread_start(pthread_t *ret, const char *name, void *(*fn)(void *), void *arg, struct err *e) MUST_USE;

/* The calling thread has a lower priority from now on: each step of nice(2) leaves it a fifth less of a busy CPU. */
void thread_give_way(int steps);
/* The same for another thread of this process. tid: what gettid() returns in it. */
void thread_make_give_way(pid_t tid, int steps);

struct pool;

/* n threads; 0 = one per online CPU. */
struct pool *pool_new(unsigned n, const char *name);
void pool_free(struct pool *p);
unsigned pool_size(const struct pool *p);
/* Calls fn(arg, i, worker) for every i in [0, n), on the pool's threads and the calling one, and returns when all
 * calls are done. worker is in [0, pool_size]; the caller's own is pool_size. Several callers may run at once: the
 * threads serve them in order of arrival. A NULL pool runs all on the caller (worker 0). */
void pool_run(struct pool *p, size_t n, void (*fn)(void *arg, size_t i, unsigned worker), void *arg);

#endif
