/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker of a merge comes to for one group in one partition: sums by column, and how results of one place become one vector. Private to merge.c. */
#ifndef PYRRHA_TSDB_MERGE_RESULT_H
#define PYRRHA_TSDB_MERGE_RESULT_H

#include "model/stackvec.h"
#include "tsdb/head/chunk.h"

/* Sums that count times factor x scale / over (1 if over is 0). */
struct merge_result {
	uint32_t group, partition;
	double scale;
	int64_t over_ms, factor;
	uint32_t *columns;
	int64_t *sums;
	size_t n;
	double *weighed; /* the sums after the division; from then on sums, factor and over_ms are not used */
};

/* Moves the dense sums to the arrays of r, which are NULL or to be replaced, and makes these as small as their contents. */
void merge_result_take(struct dense *d, struct merge_result *r);
void merge_result_release(struct merge_result *r);
/* Bytes of memory of a result, or a vector, of n columns, with what the allocator takes for its arrays. */
uint64_t merge_result_bytes(size_t n);
/* For qsort: by group, partition, divisor and scale. */
int merge_result_cmp(const void *a, const void *b);
/* Weighed results of the same group, partition, scale and divisor are added up in 128 bits and divided; the first of them gets the quotient. */
void merge_results_weigh(struct merge_result *r, size_t n);
/* The sum of n results of one partition and group, each times its scale, over the symbols s. NULL and *e: it does not fit. */
struct stackvec *merge_results_scaled(struct symbols *s, const struct merge_result *const *r, size_t n, struct err *e);
/* The vector that has the arrays of a result, which has none then. */
struct stackvec *merge_result_ints(struct symbols *s, struct merge_result *r);

#endif
