/* SPDX-License-Identifier: Apache-2.0 */
/* Sampled blocks of memory that were not freed yet, and what each place of the program has asked for and holds: between
 * malloc (heap_hooks.c), which must not wait for anybody nor ask for memory itself, and a thread that unwinds.
 *
 *	malloc --heap_live_add--> table of live blocks, a piece of stack --thread--> site of the block
 *	free   --heap_live_drop-> its site holds that much less
 *
 * One lock holds table and sites. Nothing is allocated or freed under it, and no other lock is taken. */
#ifndef PYRRHA_SELFPROF_HEAP_LIVE_H
#define PYRRHA_SELFPROF_HEAP_LIVE_H

#include "base/err.h"
#include "selfprof/pieces.h"

#define HEAP_PERIOD 524288           /* bytes asked for, of which one is sampled, on average; Go's */
#define HEAP_SITES_MAX 65536u        /* distinct stacks; what is of more goes to site 0 */

/* What a site stands for: the blocks that were sampled, each times the number that it represents. */
struct heap_site {
	double alloc_objects, alloc_bytes, free_objects, free_bytes;
};

/* Once, before anything is sampled. */
int heap_live_init(struct err *e) MUST_USE;
bool heap_live_on(void);
/* Of a process that was forked: nobody is there to unwind. */
void heap_live_off(void);

/* A block that stands for `objects` like it. fp, sp: of the caller, which is at ip; `above`: frames below this return address
 * are the allocator's own. */
void heap_live_add(void *block, size_t bytes, double objects, uint64_t ip, uint64_t sp, uint64_t fp, uint64_t above);
/* A block is about to be freed; most were not sampled. */
void heap_live_drop(void *block);
/* For realloc: takes a block's sample out of the table, for while the block may be anybody's; its number, 0: it is none. And puts
 * it back, at another place and of another size (both as the room it has); points: sampling points in what it grew by. to NULL: it is no sample any more. */
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
