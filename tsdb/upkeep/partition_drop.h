/* SPDX-License-Identifier: Apache-2.0 */
/* Drops whole partitions. Private. */
#ifndef PYRRHA_TSDB_PARTITION_DROP_H
#define PYRRHA_TSDB_PARTITION_DROP_H

#include "tsdb/version/db.h"

/* Drops a whole partition because of its age or size; s is NULL if it never got a row. The day may come again. 1: it went, 0: appends
 * are on their way to it. If that cannot be made durable it stays, which is the error. tsdb_free_dropped is to follow. */
int tsdb_drop_partition(struct tsdb *db, struct partition *p, struct pstate *s, struct err *e) REQUIRES(db->seal_lock);
/* Frees what those leave, on a thread: their space comes back at once, or with the last query. */
void tsdb_free_dropped(struct tsdb *db) REQUIRES(db->seal_lock);
/* Waits until it has. Under seal_lock or at the end. */
void tsdb_wait_dropped(struct tsdb *db);
/* Drops the partitions of which everything was deleted: 1 = one was dropped, 0 = there is none, or it is in use. */
int tsdb_drop_deleted(struct tsdb *db, struct err *e) REQUIRES(db->seal_lock);

#endif
