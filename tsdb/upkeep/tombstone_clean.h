/* SPDX-License-Identifier: Apache-2.0 */
/* Parts with deleted rows, rewritten without them. Private. */
#ifndef PYRRHA_TSDB_TOMBSTONE_CLEAN_H
#define PYRRHA_TSDB_TOMBSTONE_CLEAN_H

#include "tsdb/version/db.h"

/* Rewrites parts with deleted rows without them, at most `parts` of them (0 = all). */
int tombstone_clean_due(struct tsdb *db, size_t parts, int64_t until_mono_ms, struct err *e) MUST_USE;

#endif
