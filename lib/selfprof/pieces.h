/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of stacks on their way from where a thread was stopped, or asked for memory, to whoever unwinds them: slots that are
 * there beforehand. Putting one in takes no lock and allocates nothing, so a signal handler may do it, and malloc itself:
 *
 *	free --claim (one exchange)--> being written --registers, stack--> ready --take--> free
 *
 * The kernel copies the stack (pread of /proc/self/mem), so that no address can fault and no end of the stack has to be known. */
#ifndef PYRRHA_SELFPROF_PIECES_H
#define PYRRHA_SELFPROF_PIECES_H

#include <stdatomic.h>

#include "base/err.h"
#include "unwind/own_unwind.h"

#define PIECE_STACK_MAX ((size_t)64 << 10)

struct stack_piece {
	uint32_t slot;
	uint32_t n;                  /* bytes of stack */
	uint64_t mark[2];            /* whoever claims it may note something here */
	uint64_t ip, sp, fp;
	uint8_t stack[PIECE_STACK_MAX];
};

struct pieces {
	atomic_int *states;          /* of each slot; apart, so that looking for ready ones touches few pages */
	struct stack_piece *v;             /* NULL before pieces_init; never freed: a late handler may come */
	unsigned n;
	int mem_fd;
	atomic_uint next;            /* where to look for a free one */
};

/* n slots; memory is taken as they are used. More than once: nothing. */
int pieces_init(struct pieces *p, unsigned n, struct err *e) MUST_USE;
/* NULL: none is free. It must be put. */
struct stack_piece *pieces_claim(struct pieces *p);
/* Copies the stack and hands the piece on. */
void pieces_put(struct pieces *p, struct stack_piece *x, uint64_t ip, uint64_t sp, uint64_t fp);

typedef void piece_fn(void *arg, const struct stack_piece *x);
/* Calls fn with what is ready; one thread at a time. */
void pieces_take(struct pieces *p, piece_fn *fn, void *arg);
/* Returns the memory of free slots; no slot may be in use. */
void pieces_shrink(struct pieces *p);
/* As own_unwind takes it; borrows the piece. */
struct own_stack piece_stack(const struct stack_piece *x);

#endif
