/* SPDX-License-Identifier: Apache-2.0 */
/* Which columns of each day a frame filter lets through. It is evaluated once per location, of which each string once, late names included. A day whose dictionary is not in memory
 * and whose rollup has names of its stacks needs no dictionary: the filter is evaluated once for the names of all such days (dict_union.h).
 *
 *	column_filters_init(&c, v, f, lim)
 *	for each day:  column_filters_has(&c, day)         a day of the bucket: what is lacking is wanted now
 *	for each day:  column_filters_bits(&c, day, ...)
 *	column_filters_release(&c)
 *
 * One thread. */
#ifndef PYRRHA_TSDB_COLUMN_FILTER_H
#define PYRRHA_TSDB_COLUMN_FILTER_H

#include "tsdb/read/view.h"

struct column_filters {
	struct tsdb_view *v;
	const struct source_frame_filter *f;
	struct regex_meter *regex; /* of its expressions; may be NULL */
	struct dict_unions *unions; /* the database's, taken; NULL: there is no filter */
	struct symbols *names;  /* the common names of several days, a reference; NULL: not needed yet */
	uint64_t *match;        /* by column of names, a bit */
	uint32_t n_match;
};

/* Borrows v, f, and of lim (may be NULL) the meter of expressions. f may be NULL: then the other calls are not made. */
void column_filters_init(struct column_filters *c, struct tsdb_view *v, const struct source_frame_filter *f, const struct source_limits *lim);
void column_filters_release(struct column_filters *c);
/* Whether the names or the dictionary of partition p of the version, which the filter is evaluated for, are on this disk. If not, they are noted to be
 * fetched from the bucket. */
bool column_filters_has(struct column_filters *c, size_t p);
/* *ret: a bit per column of the partition, of *ret_n columns; malloc'd. NULL: its dictionary did not come from the bucket. Negative with *e filled is
 * an error of the filter. */
int column_filters_bits(struct column_filters *c, size_t p, uint64_t **ret, uint32_t *ret_n, struct err *e) MUST_USE;

#endif
