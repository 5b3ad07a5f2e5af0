/* SPDX-License-Identifier: Apache-2.0 */
/* The file `snapshot` of a snapshot's directory: whether it is finished. It goes when the snapshot is opened for the first time. So a
 * half-made snapshot is not taken for a storage, and one that was copied over a directory in use is found. Private. */
#ifndef PYRRHA_TSDB_SNAPSHOT_MARK_H
#define PYRRHA_TSDB_SNAPSHOT_MARK_H

#include "base/err.h"

struct tsdb;

/* Marks dir as being made, or as finished. */
int snapshot_mark_put(const struct tsdb *db, const char *dir, bool finished, struct err *e) MUST_USE;
/* Before the directory is locked. ERR_CORRUPT: it is half of a snapshot, or one was copied over it. */
int snapshot_mark_check(const struct tsdb *db, struct err *e) MUST_USE;
/* From here on it is a storage like any other. False: the mark cannot be removed. Before the lock file says who has it. */
bool snapshot_mark_remove(const struct tsdb *db);

#endif
