/* SPDX-License-Identifier: Apache-2.0 */
/* Deleted rows that are still in sealed parts. A delete removes its rows from the windows at once. In parts, which never change, it
 * leaves tombstones until the sealer has rewritten the parts without them:
 *
 *	fact     one delete in one partition (tombstone_fact.h)
 *	tombstones    the facts of a partition that some part still needs; immutable, owned by its pstates
 *
 * Every read of a part asks here. */
#ifndef PYRRHA_TSDB_TOMBSTONES_H
#define PYRRHA_TSDB_TOMBSTONES_H

#include "tsdb/head/tombstone_fact.h"
#include "tsdb/part/part.h"
#include "tsdb/version/db.h"

struct tombstone {
	uint32_t series, below_part;
	int64_t after_ms, until_ms;
};

struct tombstones {
	atomic_int refs;
	VEC(struct tombstone) v;            /* by series */
	VEC(struct tombstone_fact *) facts; /* by number */
};

/* NULL is no tombstones. */
struct tombstones *tombstones_ref(struct tombstones *m);
void tombstones_unref(struct tombstones *m);
/* Those of m and one more, or (fact NULL) those of m, that some part of the list still needs; NULL if there are none. Returns owned;
 * the fact is copied. */
struct tombstones *tombstones_with(const struct tombstones *m, const struct tombstone_fact *fact, struct part *const *parts, size_t n_parts);

/* The same with the facts of retention replaced by these n. */
struct tombstones *tombstones_with_rules(const struct tombstones *m, const struct tombstone_fact *facts, size_t n, struct part *const *parts,
					 size_t n_parts);
/* Whether the part must be rewritten: because of a delete, or because retention has passed it as a whole. */
bool tombstones_due(const struct tombstones *m, const struct part *p);

/* Whether something of a series is hidden in (after, until]. */
bool tombstones_touch(const struct pstate *s, uint32_t series, int64_t after_ms, int64_t until_ms);
/* Whether something of any series of the part is. */
bool tombstones_touch_part(const struct pstate *s, const struct part *p);
/* Whether this stamp of a series in this part is. */
bool tombstones_hide(const struct pstate *s, const struct part *p, uint32_t series, int64_t t_ms);
/* Cuts (*after, until] down to its first stretch that is not hidden, (*after, *ret_until]; false if nothing is left.
 * Go on with *after = *ret_until. */
bool tombstones_next(const struct pstate *s, const struct part *p, uint32_t series, int64_t *after_ms, int64_t until_ms,
		     int64_t *ret_until);

#endif
