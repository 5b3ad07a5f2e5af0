/* SPDX-License-Identifier: Apache-2.0 */
/* Partitions that are on disk are opened. Private. */
#ifndef PYRRHA_TSDB_PARTITION_OPEN_H
#define PYRRHA_TSDB_PARTITION_OPEN_H

#include "tsdb/head/tombstone_fact.h"
#include "tsdb/version/db.h"

/* At the start: all of them. */
int tsdb_open_partitions(struct tsdb *db, struct err *e) MUST_USE;
/* Before the replay: removes a partition that was opened without any part, so that its day can be fetched. */
int tsdb_remove_empty(struct tsdb *db, uint32_t day, struct err *e) MUST_USE;
/* One whose directory was put in place before the replay. */
int tsdb_open_partition(struct tsdb *db, uint32_t day, struct err *e) MUST_USE;
/* One whose directory was put in place while the storage runs. facts: deletes whose rows are hidden from the first moment on; the caller then
 * commits them. next_part: the day had parts numbered up to here. It takes the place of a partition that has neither rows nor a database.
 * ERR_BUSY: the day is open already, or the head log has symbols of it that the parts lack. */
int partition_open_fetched(struct tsdb *db, uint32_t day, uint32_t next_part, const struct tombstone_fact *facts, size_t n_facts, struct err *e) MUST_USE;

#endif
