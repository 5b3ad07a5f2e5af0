/* SPDX-License-Identifier: Apache-2.0 */
/* Which columns of a partition a frame filter lets through. It is evaluated once per location, late names included. */
#ifndef PYRRHA_TSDB_COLUMN_FILTER_H
#define PYRRHA_TSDB_COLUMN_FILTER_H

#include "model/source.h"
#include "tsdb/version/db.h"

/* A bit per column of p, which is loaded, of *ret_n columns; malloc'd, NULL after an error of the filter. names: that came late, or
 * NULL. */
uint64_t *column_filter_bits(const struct source_frame_filter *f, struct partition *p, const struct late_names *names, uint32_t *ret_n,
			     struct err *e);

#endif
