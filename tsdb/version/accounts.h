/* SPDX-License-Identifier: Apache-2.0 */
/* Accounts of what each target adds to a day's dictionary. Targets choose names, places and stacks freely, and the dictionary of a day
 * that is still written cannot leave memory. So a target (labels job and instance) may add only a limited number and size per day.
 * Existing entries are free: of many copies of a program the first one pays.
 *
 * While the day's dictionary takes less than half of the budget (--storage.dictionary-memory) a target may add up to a
 * quarter of it. From then on each may use its equal share of the other half. So well-behaved targets have room, however many bad ones
 * came first, and the total stays near the budget. Accounts restart with each start.
 *
 * Series are alike: when half of --storage.max-series are there, each target may add its equal share of the other half. */
#ifndef PYRRHA_TSDB_ACCOUNTS_H
#define PYRRHA_TSDB_ACCOUNTS_H

#include "base/map.h"
#include "base/vec.h"
#include "model/labels.h"
#include "model/symbols.h"

struct tsdb_options;

struct account {
	uint64_t target;          /* hash of its labels */
	struct symbols_room used; /* what it added */
	size_t series;            /* it added, as index_counted counts them */
};

/* One per partition, under its dict_lock. */
struct accounts {
	VEC(struct account) v;    /* never more than ACCOUNTS_MAX: further targets share the last */
	struct map index;
};

void accounts_release(struct accounts *a);
/* The target that a series with these labels is of. */
uint64_t accounts_target(struct labels series);
/* Its account; valid until the next one is made. */
struct account *accounts_get(struct accounts *a, uint64_t target);
/* The remaining allowance. */
struct symbols_room accounts_room(const struct accounts *a, const struct account *x, const struct symbols *s,
				  const struct tsdb_options *o);
/* Whether the target may add a series to a day that has `counted`. Alone it may add all. */
bool accounts_has_series(const struct accounts *a, const struct account *x, size_t counted, const struct tsdb_options *o);
/* It added what s has now and did not have before. */
void account_add(struct account *x, const struct symbols_room *before, const struct symbols *s);

#endif
