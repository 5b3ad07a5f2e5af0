/* SPDX-License-Identifier: Apache-2.0 */
/* Allocation of small fixed sizes: it aborts when memory is out. Allocations whose size depends on input
 * first pass a limit of their own (arena cap, buf cap, a configured maximum), and fail with an error
 * instead. */
#ifndef PYRRHA_BASE_ALLOC_H
#define PYRRHA_BASE_ALLOC_H

#include "base/attrs.h"

void *xmalloc(size_t n) MUST_USE;
void *xcalloc(size_t n, size_t size) MUST_USE;
void *xrealloc(void *p, size_t n) MUST_USE;
/* n * size with an overflow check. */
void *xreallocarray(void *p, size_t n, size_t size) MUST_USE;
/* Logs that this many bytes could not be allocated, and aborts. */
NORETURN void alloc_failed(size_t n);
char *xstrdup(const char *s) MUST_USE;
char *xstrndup(const char *s, size_t n) MUST_USE;
char *xasprintf(const char *fmt, ...) PRINTF_LIKE(1, 2) MUST_USE;

/* Servers call this once, before their first thread. Freed memory then stays with the process, up to 16 MiB in each of
 * malloc's arenas, and only blocks of 4 MiB and more are mapped separately. An answer's buffers are as large as the last
 * one's. Getting them from the system each time, with a fault per page, took a third of a flame graph's time. */
void alloc_keep_freed(void);

#define NEW(type) ((type *)xcalloc(1, sizeof(type)))

/* For CLEANUP(free_ptr) on a pointer of any type. */
static inline void free_ptr(void *pp)
{
	extern void free(void *);
	free(*(void **)pp);
}
#define AUTOFREE CLEANUP(free_ptr)

#endif
