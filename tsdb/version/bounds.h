/* SPDX-License-Identifier: Apache-2.0 */
/* From when to when a series has something, as its index says, after rows of it were deleted or hidden. Private. */
#ifndef PYRRHA_TSDB_BOUNDS_H
#define PYRRHA_TSDB_BOUNDS_H

#include "tsdb/head/tombstone_fact.h"
#include "tsdb/version/db.h"

/* Makes the bounds of the series of a fact (NULL: of all) what windows, and parts without what is hidden, say. Under apply_lock, too,
 * unless no other thread sees it yet. */
void bounds_renew(struct partition *p, const struct pstate *s, const struct tombstone_fact *f) REQUIRES_SHARED(p->dict_lock);

#endif
