/* SPDX-License-Identifier: Apache-2.0 */
/* Giving the rows of a series to the steps of a graph: which rows each step takes, and what they add up to. Pure; private to
 * sums.c. */
#ifndef PYRRHA_TSDB_STEPS_H
#define PYRRHA_TSDB_STEPS_H

#include "tsdb/read/plan.h"

/* Rows of one series by stamp, and the window or part that contains them. */
struct rows {
	const int64_t *t_ms;         /* NULL: row i is stamped first + i * every */
	size_t stride;               /* bytes from one stamp to the next */
	size_t n;
	int64_t first_ms, every_ms;
	int64_t start_ms, end_ms;
};

static inline int64_t rows_stamp(const struct rows *r, size_t i)
{
	return r->t_ms ? *(const int64_t *)((const char *)r->t_ms + i * r->stride) : r->first_ms + (int64_t)i * r->every_ms;
}

/* The rows from `from` on. */
static inline void rows_skip(struct rows *r, size_t from)
{
	if (r->t_ms)
		r->t_ms = (const int64_t *)((const char *)r->t_ms + from * r->stride);
	r->first_ms += (int64_t)from * r->every_ms;
}

/* A worker's result for one request: sums by step, modulo 2^64. */
struct step_sums {
	int64_t *sums;
	uint32_t first, end;  /* all non-zero ones are in [first, end); end 0: none */
};

/* Adds before[hi] - before[lo] to every step that takes the rows [lo, hi). before[i] is the sum of the i preceding rows. wrapped is
 * called for a step that passed the end of 64 bits, by 1 or -1. */
void steps_add(const struct plan_request *a, const struct rows *r, const int64_t *before, struct step_sums *to,
	       void (*wrapped)(void *arg, uint32_t step, int by), void *arg);

#endif
