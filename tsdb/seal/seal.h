/* SPDX-License-Identifier: Apache-2.0 */
/* Turning windows of the head into parts: when, and how. Private. */
#ifndef PYRRHA_TSDB_SEAL_H
#define PYRRHA_TSDB_SEAL_H

#include "tsdb/part/part.h"
#include "tsdb/version/db.h"

/* The error of sealing if the values of one series add up to more than 64 bits; the other windows are not affected. */
#define NOT_SEALABLE (-ERR_EXECUTION)

/* Fills in the part's series, aggregates, samples and bytes, and ingests it; window, number, origin and records are set.
 * No thread writes to the window meanwhile. */
int seal_write(struct partition *p, struct window *w, struct part *part, const struct buf *symbols, struct err *e) MUST_USE;

void *tsdb_early_sealer(void *db);
/* Seals every window, or those that ended a while ago, or, while the head is over half of its budget, the largest. Takes
 * seal_lock: one thread at a time. */
enum seal_what { SEAL_ALL, SEAL_AGED, SEAL_LARGEST };
int seal_due(struct tsdb *db, enum seal_what what, struct err *e) EXCLUDES(db->seal_lock);
/* Whether an error of sealing is of one partition: the others can be sealed and tidied. Else the machine refuses (a full disk). */
bool seal_concerns_one(const struct err *e);
/* Forgets what the log need not keep. */
void tsdb_trim_log(struct tsdb *db) REQUIRES(db->apply_lock);

#endif
