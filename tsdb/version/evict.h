/* SPDX-License-Identifier: Apache-2.0 */
/* The budget of dictionaries. Private. */
#ifndef PYRRHA_TSDB_EVICT_H
#define PYRRHA_TSDB_EVICT_H

#include "tsdb/version/db.h"

#define EVICT_IDLE_MS 10000

/* The memory of a partition's dictionary and series index; 0: they are not loaded. Takes dict_lock. */
size_t evict_bytes(struct partition *p);
/* The memory of the series index that a partition keeps without its dictionary (query_dict.h); 0: it has none. */
size_t evict_series_bytes(struct partition *p);
/* Forgets the series alone that a partition keeps, and the places of its columns (dict_union.h): a part of the day was replaced by another one with the same
 * number, so that they do not notice. */
void evict_known(struct partition *p);
/* Takes one day's out of memory, if that is possible now. */
bool evict_day(struct tsdb *db, uint32_t day) REQUIRES(db->seal_lock);
/* While dictionaries are over their budget, removes the least recently used ones that were unused for idle_ms. Days that are not
 * completely sealed stay. */
void evict_due(struct tsdb *db, int64_t idle_ms) EXCLUDES(db->seal_lock, db->apply_lock);

#endif
