/* SPDX-License-Identifier: Apache-2.0 */
/* A part of an hour whose file cannot be read as it should: what can be read of it becomes a part that stands in its place. */
#ifndef PYRRHA_TSDB_SALVAGE_H
#define PYRRHA_TSDB_SALVAGE_H

#include "tsdb/part/part.h"

/* file: the part's, which need not be there; it is kept in the partition's DAY.bad-STAMP first. bad: its level, window and number.
 * *ret has a new number, the values that could be read, and in `lost` how many could not; its bounds and list of series are made up
 * from those values where they are lost. Before threads. */
int salvage_part(struct partition_db *d, const char *file, const struct part *bad, struct part **ret, struct err *e) MUST_USE;
/* Which part the file has: level, window and number of *ret. False: nothing of it can be read. */
bool salvage_identify(const char *file, struct part *ret);
/* A link to the file in DAY.bad-STAMP. One that is not there is none. */
int salvage_keep(struct partition_db *d, const char *file, struct err *e) MUST_USE;

#endif
