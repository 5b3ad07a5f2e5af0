/* SPDX-License-Identifier: Apache-2.0 */
/* Who made a day's dictionary as large as it is. Names, places and stacks are the targets' to invent, and a dictionary that
 * is written to cannot leave memory; so a target (labels job and instance) may add only so many of each to a day, and so
 * many bytes. What is known already costs nobody anything: of many copies of a program the first one pays.
 *
 * While the day's dictionary takes less than half of the budget (--storage.dictionary-memory) a target may add up to a
 * quarter of it. From then on each may have its equal share of the other half, so that however many bad ones were first
 * those that are well have room, and all of it together stays about the budget. Accounts begin anew with each start. */
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
};

/* One per partition, under its dict_lock. */
struct accounts {
	VEC(struct account) v;    /* never more than ACCOUNTS_MAX: those beyond share the last */
	struct map index;
};

void accounts_release(struct accounts *a);
/* The target that a series with these labels is of. */
uint64_t accounts_target(struct labels series);
/* Its account; valid until the next one is made. */
struct account *accounts_get(struct accounts *a, uint64_t target);
/* What it may add now. */
struct symbols_room accounts_room(const struct accounts *a, const struct account *x, const struct symbols *s,
				  const struct tsdb_options *o);
/* It added what s has now and did not have before. */
void account_add(struct account *x, const struct symbols_room *before, const struct symbols *s);

#endif
