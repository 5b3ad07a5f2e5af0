/* SPDX-License-Identifier: Apache-2.0 */
/* Who made a day's dictionary as large as it is. Names, places and stacks are the targets' to invent, and a dictionary that
 * is written to cannot leave memory; so a target (labels job and instance) may add only so many of each to a day, and so
 * many bytes. What is known already costs nobody anything: of many copies of a program the first one pays.
 *
 * While the day's dictionary is small against the budget (--storage.dictionary-memory) a target may have up to half of it.
 * Above three quarters only targets that added less than their share of an eighth go on to add, above all of it none does.
 * So one bad target, or many, leave room for those that are well. Accounts begin anew with each start. */
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
/* That of the target which a series with these labels is of. */
struct account *accounts_find(struct accounts *a, struct labels series);
/* What it may add now. */
struct symbols_room accounts_room(const struct accounts *a, const struct account *x, const struct symbols *s,
				  const struct tsdb_options *o);
/* It added what s has now and did not have before. */
void account_add(struct account *x, const struct symbols_room *before, const struct symbols *s);

#endif
