/* SPDX-License-Identifier: Apache-2.0 */
/* Heap profiles: memory that the program and its libraries hold, and all their allocations since sampling began, by allocation site.
 * One byte of every 512 KB allocated is sampled (heap_hooks.c); values are scaled up to the total.
 *
 * malloc is interposed. The alternative, jemalloc with its profiler, is another allocator than the one all budgets of this program
 * were measured with. It unwinds inside malloc under the loader's lock, and can only write files. docs/benchmarks.md has the cost of
 * both. */
#ifndef PYRRHA_SELFPROF_HEAP_H
#define PYRRHA_SELFPROF_HEAP_H

#include <stdatomic.h>

#include "base/err.h"

struct profile;

/* heap_hooks.c provides it: allocations of the calling thread are not sampled from now on. */
typedef void heap_hooks_spare_me(void);
/* NULL in a build with sanitizers, and where another allocator was preloaded in place of the C library's. Only programs that have heap_hooks.c linked may call it. */
heap_hooks_spare_me *heap_hooks(void);

/* Begins to sample; starts the thread that unwinds. hooks: heap_hooks(); NULL: nothing happens. Once, by main, after it has
 * blocked signals. */
int selfprof_heap_start(heap_hooks_spare_me *hooks, struct err *e) MUST_USE;

enum heap_default { HEAP_INUSE, HEAP_ALLOCS }; /* the type that is shown */
/* As Go's: alloc_objects/count, alloc_space/bytes, inuse_objects/count, inuse_space/bytes. duration_ns above 0: only changes within
 * that time (or until *stop, NULL = never: ERR_CANCELED), which may be negative. out is initialised and empty. ERR_NOT_FOUND: the heap
 * is not sampled. */
int selfprof_heap(enum heap_default which, int64_t duration_ns, const atomic_bool *stop, struct profile *out, struct err *e) MUST_USE;

#endif
