/* SPDX-License-Identifier: Apache-2.0 */
/* The requests of each set by time: which of them may need data of a part. Private to sums.c. */
#ifndef PYRRHA_TSDB_SET_REQUESTS_H
#define PYRRHA_TSDB_SET_REQUESTS_H

#include "tsdb/read/plan.h"

/* Requests of a set, by the time that they begin after. */
struct set_requests {
	VEC(uint32_t) requests;
	VEC(int64_t) until;  /* the latest that any request up to here reaches */
};

/* For each set; returns owned. */
struct set_requests *set_requests_list(const struct plan_requests *requests);
/* NULL is nothing. */
void set_requests_free(const struct plan_requests *requests, struct set_requests *of_set);
/* The place of the first request that reaches beyond t. */
size_t set_requests_first(const struct set_requests *s, int64_t t_ms);
/* Whether any wants something of (start, end]. */
bool set_requests_any(const struct plan_requests *requests, const struct set_requests *s, int64_t start_ms, int64_t end_ms);

#endif
