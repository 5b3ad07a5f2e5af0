/* SPDX-License-Identifier: Apache-2.0 */
/* The stacks of stored columns for a reader of single values over many days. A day whose rollup has names of its stacks needs no dictionary: its columns
 * become columns of the joint names of all such days (dict_union.h). Of other days, and for a reader that needs more than names, the columns stay and are
 * those of the day's dictionary, which is kept until column_names_release.
 *
 *	column_names_init(&c, v, detail)
 *	for each day:    column_names_has(&c, day)       a day of the bucket: what is lacking is wanted now
 *	for each day:    column_names_begin(&c, day)
 *	any thread:      column_names_of(&c, day, columns, n, ...)
 *	column_names_release(&c) */
#ifndef PYRRHA_TSDB_COLUMN_NAMES_H
#define PYRRHA_TSDB_COLUMN_NAMES_H

#include "tsdb/read/view.h"

struct column_names {
	struct tsdb_view *v;
	struct dict_unions *unions;    /* the joint names, the database's, taken; NULL: dictionaries are wanted */
	struct symbols *joint;         /* of them, a reference; NULL: no day needs them yet */
	struct column_places **places; /* by partition: references; NULL: by its dictionary */
	struct mutex lock;             /* of stacks, and of loading them */
	struct partition **stacks;     /* by partition: its dictionary, by query_dict_stacks; NULL: not needed yet */
	size_t before;                 /* bytes of joint names that others have met */
};

/* Borrows the view. */
void column_names_init(struct column_names *c, struct tsdb_view *v, enum symbols_detail detail);
void column_names_release(struct column_names *c);
/* Whether the names or the dictionary of partition p of the version, whichever is used, are on this disk. If not, they are noted to be fetched. */
bool column_names_has(struct column_names *c, size_t p);
/* Joins the names of a partition, or loads its dictionary. False: they did not come from the bucket; the answer says so. By one thread, before
 * column_names_of. */
bool column_names_begin(struct column_names *c, size_t p);
/* What n columns of a partition are of. They may be replaced by others. ERR_CORRUPT: the dictionary lacks a column. */
struct columns_of {
	struct symbols *symbols; /* borrowed until column_names_release; NULL: the dictionary did not come from the bucket */
	const uint32_t *as;      /* as those of struct source_cells, likewise borrowed */
	uint32_t n_as;
};
int column_names_of(struct column_names *c, size_t p, uint32_t *columns, size_t n, struct columns_of *ret, struct err *e) MUST_USE;
/* Bytes of names and dictionaries that only this reader has needed. */
size_t column_names_bytes(struct column_names *c);

#endif
