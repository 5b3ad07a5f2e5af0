/* SPDX-License-Identifier: Apache-2.0 */
/* Remains of snapshots that were not finished. Private; tsdb.h has tsdb_snapshot. */
#ifndef PYRRHA_TSDB_SNAPSHOT_H
#define PYRRHA_TSDB_SNAPSHOT_H

struct tsdb;

#define SNAPSHOT_UNFINISHED ".tmp" /* behind the name of a snapshot's directory while it is made */

/* Removes what an earlier process left in PATH/snapshots. With the directory locked, before threads. */
void snapshot_tidy(const struct tsdb *db);

#endif
