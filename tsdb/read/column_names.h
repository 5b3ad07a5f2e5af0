/* SPDX-License-Identifier: Apache-2.0 */
/* The stacks of stored columns, for a reader of single values over many days:
 *
 *	the day's rollup has names of its stacks     its columns become columns of the joint names of all such days (dict_union.h); no dictionary is read
 *	it has not, and the day has late names       its dictionary is read, and its columns become joint ones, too
 *	(late_names.h), or its dictionary is not
 *	in memory for all queries
 *	otherwise, or names are not enough           columns stay those of the day's dictionary
 *
 * A dictionary is given back when all values of its day have been read.
 *
 *	column_names_init(&c, v, detail, after, until)
 *	for each day:    column_names_has(&c, day)          a day of the bucket: what is lacking is wanted now
 *	for each day:    column_names_begin(&c, day)
 *	                 column_names_expect(&c, day, n)    n blocks of values will be read
 *	any thread:      column_names_of(&c, day, columns, n, ...)
 *	                 column_names_done(&c, day)         n times
 *	column_names_release(&c) */
#ifndef PYRRHA_TSDB_COLUMN_NAMES_H
#define PYRRHA_TSDB_COLUMN_NAMES_H

#include "tsdb/read/view.h"

struct column_names {
	struct tsdb_view *v;
	bool many;                     /* more than two days are read */
	struct dict_unions *unions;    /* the database's joint names, this reader's reference (dict_unions_take_names); NULL: the reader needs more than names */
	struct symbols *joint;         /* the symbols of the joint names, a reference; NULL: no day needs them yet */
	struct column_places **places; /* by partition: the joint column of each of its columns, a reference. NULL: its dictionary is used. Not changed any more when the reading of values begins */
	struct mutex lock;             /* guards days; held while a dictionary is loaded */
	struct column_day *days;       /* by partition */
	size_t before;                 /* bytes of joint names when this reader began: other queries have added them */
	atomic_bool grew;              /* column_names_bytes has grown since column_names_check */
};

/* Borrows the view. Values of (after, until] are read. */
void column_names_init(struct column_names *c, struct tsdb_view *v, enum symbols_detail detail, int64_t after_ms, int64_t until_ms);
void column_names_release(struct column_names *c);
/* Whether the names or the dictionary of partition p of the version, whichever is used, are on this disk. If not, they are noted to be fetched. */
bool column_names_has(struct column_names *c, size_t p);
/* Joins the names of a partition, if its rollup has them; else its dictionary will be used. False: the day is in the bucket, and neither could be fetched;
 * what lacks is noted for the answer's warning. By one thread,
 * before column_names_of. */
bool column_names_begin(struct column_names *c, size_t p);
void column_names_expect(struct column_names *c, size_t p, size_t blocks);
/* The symbols that n columns of a partition are columns of. If these are others than the day's, either *ret says which column is which, or `columns` is
 * overwritten. ERR_CORRUPT: the dictionary lacks a column. */
struct columns_of {
	struct symbols *symbols; /* borrowed until column_names_done; NULL: the day is in the bucket, and its dictionary could not be fetched */
	const uint32_t *as;      /* the fields of this name of struct source_cells; the array is valid until column_names_release */
	uint32_t n_as;
};
int column_names_of(struct column_names *c, size_t p, uint32_t *columns, size_t n, struct columns_of *ret, struct err *e) MUST_USE;
void column_names_done(struct column_names *c, size_t p);
/* ERR_LIMIT: names and dictionaries that only this reader has needed take more than the query may. Any thread. */
int column_names_check(struct column_names *c, const struct source_limits *lim, struct err *e) MUST_USE;

#endif
