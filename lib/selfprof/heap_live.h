/* SPDX-License-Identifier: Apache-2.0 */
/* Sampled blocks of memory that were not freed yet, and the allocated and held memory of each site. It connects malloc (heap_hooks.c),
 * which must neither wait nor allocate, and a thread that unwinds.
 *
 *	malloc --heap_live_add--> table of live blocks, a piece of stack --thread--> site of the block
 *	free   --heap_live_drop-> its site holds that much less
 *
 * One lock holds table and sites. Under it, no memory is allocated or freed, and no other lock is taken. */
#ifndef PYRRHA_SELFPROF_HEAP_LIVE_H
#define PYRRHA_SELFPROF_HEAP_LIVE_H

#include "base/err.h"
#include "selfprof/pieces.h"

#define HEAP_PERIOD 524288           /* average distance of sampled bytes; as in Go */
#define HEAP_SITES_MAX 65536u        /* distinct stacks; what is of more goes to site 0 */

/* The values of a site: its sampled blocks, each times the number that it represents. */
struct heap_site {
	double alloc_objects, alloc_bytes, free_objects, free_bytes;
};

/* Once, before anything is sampled. */
int heap_live_init(struct err *e) MUST_USE;
bool heap_live_on(void);

/* A block that represents `objects` blocks. fp, sp: of the caller, which is at ip; `above`: frames below this return address belong to
 * the allocator. */
void heap_live_add(void *block, size_t bytes, double objects, uint64_t ip, uint64_t sp, uint64_t fp, uint64_t above);
/* A block is about to be freed; most were not sampled. */
void heap_live_drop(void *block);
/* For realloc: removes a block's sample from the table, because another thread may get the block meanwhile; returns its number, 0: it
 * has none. And puts
 * it back, at another address and with another size (both usable sizes); points: sampling points in the growth. to NULL: it is no longer a sample. */
uint32_t heap_live_lift(void *block);
void heap_live_lay(uint32_t lifted, void *to, size_t old_bytes, size_t bytes, double points);

/* For the thread: waits until there are pieces. */
void heap_live_wait(void);
struct heap_piece {
	uint32_t entry;              /* which block */
	uint64_t above;
	struct own_stack stack;
};
typedef void heap_piece_fn(void *arg, const struct heap_piece *p);
/* Calls fn with the pieces that came; it says heap_live_place of each. One thread at a time. */
void heap_live_take(heap_piece_fn *fn, void *arg);
void heap_live_place(uint32_t entry, uint32_t site);
/* Copies the first n sites. */
void heap_live_sites(struct heap_site *out, size_t n);

#endif
