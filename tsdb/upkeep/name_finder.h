/* SPDX-License-Identifier: Apache-2.0 */
/* Finds late names (late_names.h): locations without lines, and those of the same place of the same binary with lines, in all
 * partitions with a loaded dictionary. Runs on the sealer's thread, and of calls. Private. */
#ifndef PYRRHA_TSDB_NAME_FINDER_H
#define PYRRHA_TSDB_NAME_FINDER_H

#include "tsdb/version/db.h"

/* Finds locations without lines whose lines have become known since, in all partitions in memory, and commits their names. */
int name_finder_due(struct tsdb *db, struct err *e) EXCLUDES(db->seal_lock);
void name_finder_free(struct finder *f);

#endif
