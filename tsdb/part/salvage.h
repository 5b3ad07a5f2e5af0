/* SPDX-License-Identifier: Apache-2.0 */
/* Rewrites a damaged part of an hour: a new part with its readable values replaces it. */
#ifndef PYRRHA_TSDB_SALVAGE_H
#define PYRRHA_TSDB_SALVAGE_H

#include "tsdb/part/part.h"

/* file: the part's, which need not be there; it is kept in the partition's DAY.bad-STAMP first. bad: its level, window and number.
 * *ret has a new number, the readable values, and in `lost` the number of unreadable ones; if its bounds and list of series are lost,
 * they are derived from the values. Before threads. */
int salvage_part(struct partition_db *d, const char *file, const struct part *bad, struct part **ret, struct err *e) MUST_USE;
/* Which part the file has: level, window and number of *ret. False: nothing of it can be read. */
bool salvage_identify(const char *file, struct part *ret);

#endif
