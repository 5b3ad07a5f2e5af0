/* SPDX-License-Identifier: Apache-2.0 */
/* Retention by selector: what matches a rule is kept for less time than the rest. Each minute (and at once when the rules change) the
 * sealer finds data that has become too old. It is removed from the windows, and hidden in the parts (tombstones.h) by facts that are
 * in no log. A part is rewritten without it once it is too old as a whole. Private. */
#ifndef PYRRHA_TSDB_RETENTION_RULES_H
#define PYRRHA_TSDB_RETENTION_RULES_H

#include "tsdb/bucket/generation.h"
#include "tsdb/cached/cached_day.h"
#include "tsdb/version/tombstones.h"

struct retention_rules;

/* NULL is none. */
void retention_rules_unref(struct retention_rules *r);
/* Brings the tombstones of all partitions up to date. */
int retention_rules_due(struct tsdb *db, struct err *e) REQUIRES(db->seal_lock);
/* Of a day that is not here: a number that changes when another rule has passed all of it; 0 = none has. */
uint64_t retention_rules_whole(struct tsdb *db, uint32_t day) EXCLUDES(db->seal_lock);
/* Whether one that has passed all of the day of a generation, whose series are decoded, has rows there. */
int retention_rules_touch(struct tsdb *db, const struct generation *g, bool *ret, struct err *e) MUST_USE EXCLUDES(db->seal_lock);
/* What the rules hide of a day that is read from the bucket; its series are decoded. Fills in ret->rules and next_ms. Takes no lock that a seal holds. */
int retention_rules_hide(struct tsdb *db, const struct generation *g, struct hidden_facts *ret, struct err *e) MUST_USE;

#endif
