/* SPDX-License-Identifier: Apache-2.0 */
/* Scratch of the threads of a query, kept from one query to the next: the first touch of memory costs more than a small query. A few
 * are kept, and none for long. Threads: any. */
#ifndef PYRRHA_TSDB_SCRATCH_H
#define PYRRHA_TSDB_SCRATCH_H

#include "tsdb/part/part_read.h"

struct read_scratch {
	struct part_scratch part;
	struct dense dense, work; /* empty; work: of head_sums_add */
	int64_t *slots;     /* of sums; all zero */
	size_t n_slots;
	int64_t given_mono_ms;
};

struct scratch_pool;
struct scratch_pool *scratch_pool_new(void);
void scratch_pool_free(struct scratch_pool *s);
/* Returns owned; it goes back by scratch_give, which lets go of the parts that it was used on. */
struct read_scratch *scratch_take(struct scratch_pool *s);
/* NULL is nothing. */
void scratch_give(struct scratch_pool *s, struct read_scratch *x);
/* Frees what was not used for a while; all: everything that is not in use. */
void scratch_pool_tidy(struct scratch_pool *s, bool all);

/* This many slots. */
void scratch_slots(struct read_scratch *x, size_t n);

#endif
