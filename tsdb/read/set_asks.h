/* SPDX-License-Identifier: Apache-2.0 */
/* The asks of each set by time: which of them may want what lies in a part. Private to sums.c. */
#ifndef PYRRHA_TSDB_SET_ASKS_H
#define PYRRHA_TSDB_SET_ASKS_H

#include "tsdb/read/plan.h"

/* Asks of a set, by the time that they begin after. */
struct set_asks {
	VEC(uint32_t) asks;
	VEC(int64_t) until;  /* the latest that any ask up to here reaches */
};

/* Of each set; returns owned. */
struct set_asks *set_asks_list(const struct asks *asks);
/* NULL is nothing. */
void set_asks_free(const struct asks *asks, struct set_asks *of_set);
/* The place of the first ask that reaches beyond t. */
size_t set_asks_first(const struct set_asks *s, int64_t t_ms);
/* Whether any wants something of (start, end]. */
bool set_asks_any(const struct asks *asks, const struct set_asks *s, int64_t start_ms, int64_t end_ms);

#endif
