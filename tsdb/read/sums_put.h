/* SPDX-License-Identifier: Apache-2.0 */
/* The end of sums.c: adds up the workers' sums by step of a request and puts them into the answer. Integers have 128 bits, so the
 * result does not depend on which worker read what. Private to sums.c. */
#ifndef PYRRHA_TSDB_SUMS_PUT_H
#define PYRRHA_TSDB_SUMS_PUT_H

#include "tsdb/read/steps.h"

struct read_scratch;

/* Scratch of one worker. */
struct sums_totals {
	int64_t *slots;    /* by step of a request, of the scratch; zero but in: */
	struct step_sums *requests; /* by request: its slots */
	int32_t *wraps;    /* by slot: how often it went over the end of 64 bits; NULL: none did */
	int128 *rest;        /* by slot: the sum of value * (weight - base_ms of the request); NULL: all are 0 */
	VEC(int64_t) before;  /* for the rows of one series: sum of the preceding ones */
	VEC(int64_t) rows;    /* scratch: a number for each row */
	struct read_scratch *scratch; /* NULL: another measure of the worker has it */
};

struct sums_put {
	const struct plan_requests *requests;
	const struct sums_totals *workers;
	size_t n_workers;
	struct pool *pool;     /* or NULL */
	size_t n_groups;
	double *ret;           /* by group, scaled */
	int64_t *exact;        /* by group, of the requests without a scale; or NULL */
};

/* Every group is written. ERR_EXECUTION: one does not fit in 64 bits. */
int sums_put(const struct sums_put *m, struct err *e) MUST_USE;

#endif
