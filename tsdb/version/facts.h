/* SPDX-License-Identifier: Apache-2.0 */
/* Facts of the head log (docs/format/head.md), deletes and late names: their effect on memory, and which of them the log still has to
 * keep. Private. */
#ifndef PYRRHA_TSDB_FACTS_H
#define PYRRHA_TSDB_FACTS_H

#include "tsdb/log/log_extents.h"
#include "tsdb/log/record.h"
#include "tsdb/version/db.h"

/* The effect of a fact in the log on memory, for commit and replay. *v is replaced. False if it is malformed. */
bool facts_apply(struct version **v, struct partition *p, struct cursor *c, uint64_t number) REQUIRES_SHARED(p->dict_lock);
/* The facts that are still needed, by their numbers: the trim of the log leaves them. malloc'd. */
struct log_keep *facts_needed(struct tsdb *db, size_t *ret_n);

#endif
