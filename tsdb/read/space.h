/* SPDX-License-Identifier: Apache-2.0 */
/* Work space of the threads of a query, kept from one query to the next: touching memory for the first time costs more
 * than what a small query does with it. A few are kept, and none for long. Threads: any. */
#ifndef PYRRHA_TSDB_SPACE_H
#define PYRRHA_TSDB_SPACE_H

#include "tsdb/part/readpart.h"

struct space {
	struct part_scratch part;
	struct dense dense, work; /* empty; work: of head_sums_add */
	int64_t *slots;     /* of sums; all zero */
	size_t n_slots;
	int64_t given_mono_ms;
};

struct spaces;
struct spaces *spaces_new(void);
void spaces_free(struct spaces *s);
/* Returns owned; it goes back by space_give, which lets go of the parts that it was used on. */
struct space *space_take(struct spaces *s);
/* NULL is nothing. */
void space_give(struct spaces *s, struct space *x);
/* Frees what was not used for a while; all: everything that is not in use. */
void spaces_tidy(struct spaces *s, bool all);

/* So many slots. */
void space_slots(struct space *x, size_t n);

#endif
