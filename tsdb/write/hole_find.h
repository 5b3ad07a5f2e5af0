/* SPDX-License-Identifier: Apache-2.0 */
/* At the end of a replay: what the records that it missed were about. Becomes holes (tsdb/log/holes.h). Private. */
#ifndef PYRRHA_TSDB_HOLE_FIND_H
#define PYRRHA_TSDB_HOLE_FIND_H

#include "tsdb/version/db.h"

/* Adds what is not known yet to db->holes: what the gaps held, and facts that the log had. v: as of the end of the replay. */
void hole_find(struct tsdb *db, const struct version *v, const struct hlog_loss *loss) REQUIRES(db->apply_lock);
/* Adds a hole for records that were cut off the end of the log: a sealed part covers records up to `last`, and the log ends before it. */
void hole_find_end(struct tsdb *db, const struct version *v, uint64_t last) REQUIRES(db->apply_lock);

#endif
