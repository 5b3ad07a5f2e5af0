/* SPDX-License-Identifier: Apache-2.0 */
/* The budget of dictionaries. Private. */
#ifndef PYRRHA_TSDB_EVICT_H
#define PYRRHA_TSDB_EVICT_H

#include "tsdb/version/db.h"

#define EVICT_IDLE_MS 10000

/* What a partition's dictionary and series index take in memory; 0: they are not loaded. Takes dict_lock. */
size_t evict_bytes(struct partition *p);
/* Takes one day's out of memory, if that is possible now. */
bool evict_day(struct tsdb *db, uint32_t day) REQUIRES(db->seal_lock);
/* While dictionaries are over their budget, those that were used longest ago leave memory, if that is idle_ms ago. What is
 * not all sealed stays. */
void evict_due(struct tsdb *db, int64_t idle_ms) EXCLUDES(db->seal_lock, db->apply_lock);

#endif
