/* SPDX-License-Identifier: Apache-2.0 */
/* Deletes by selector in the days that are on this disk. Private. */
#ifndef PYRRHA_TSDB_DELETE_H
#define PYRRHA_TSDB_DELETE_H

#include "tsdb/version/db.h"

/* As tsdb_delete, of what is on this disk. */
int tsdb_delete_here(struct tsdb *db, const struct matcher *m, size_t n, int64_t after_ms, int64_t until_ms, uint64_t *ret_series,
		     struct err *e) MUST_USE EXCLUDES(db->seal_lock);
/* The same of parts whose numbers are lower, and of the windows. */
int tsdb_delete_below(struct tsdb *db, uint32_t below_part, const struct matcher *m, size_t n, int64_t after_ms, int64_t until_ms, uint64_t *ret_series,
		      struct err *e) MUST_USE EXCLUDES(db->seal_lock);

#endif
