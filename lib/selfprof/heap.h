/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles of the heap: what the program and its libraries hold, and all they asked for since sampling began, by who asked. Of
 * 512 KB asked for one byte is sampled (heap_hooks.c); values are scaled up to all.
 *
 * malloc is interposed. The other way, jemalloc with its profiler, would mean another allocator than the one all budgets of
 * this program were measured with, unwinds inside malloc under the loader's lock, and tells only a file; what each costs is in
 * docs/benchmarks.md. */
#ifndef PYRRHA_SELFPROF_HEAP_H
#define PYRRHA_SELFPROF_HEAP_H

#include <stdatomic.h>

#include "base/err.h"

struct profile;

/* What heap_hooks.c has for us: of the calling thread nothing is sampled from now on. */
typedef void heap_hooks_spare_me(void);
/* NULL in a build with sanitizers, and where another allocator was preloaded in place of the C library's. Only programs that have heap_hooks.c linked may call it. */
heap_hooks_spare_me *heap_hooks(void);

/* Begins to sample; starts the thread that unwinds. hooks: heap_hooks(); NULL: nothing happens. Once, by main, after it has
 * blocked signals. */
int selfprof_heap_start(heap_hooks_spare_me *hooks, struct err *e) MUST_USE;

enum heap_default { HEAP_INUSE, HEAP_ALLOCS }; /* the type that is shown */
/* As Go's: alloc_objects/count, alloc_space/bytes, inuse_objects/count, inuse_space/bytes. duration_ns above 0: only what changed
 * in that time (or until *stop, NULL = never: ERR_CANCELED), which may be negative. out is initialised and empty.
 * ERR_NOT_FOUND: the heap is not sampled. */
int selfprof_heap(enum heap_default which, int64_t duration_ns, const atomic_bool *stop, struct profile *out, struct err *e) MUST_USE;

#endif
