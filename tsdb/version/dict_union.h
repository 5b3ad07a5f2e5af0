/* SPDX-License-Identifier: Apache-2.0 */
/* Dictionaries of several partitions, brought together in one: what a profile over midnight is made of. Bringing a stack
 * over costs much more than adding it up, so that what was met stays for the next query, for a while. Thread-safe.
 *
 *	day 1   column 0 1 2 3        place 7 9 0 4      common symbols   column 4 7 8 9
 *	day 2   column 0 1 2          place 7 8 4
 *
 * Of names (SYMBOLS_NAMES) nearly all stacks of two days are the same, so the common symbols stay small. Once a day was added, the places of its
 * columns are all that is kept of it, and the next sum of the day needs its dictionary no more. */
#ifndef PYRRHA_TSDB_DICT_UNION_H
#define PYRRHA_TSDB_DICT_UNION_H

#include "model/stackvec.h"
#include "tsdb/version/db.h"

/* By column of a day, 1 + the joint one; 0: no query has met it yet. Shared, and not changed any more. */
struct column_places {
	atomic_int refs;
	uint32_t *place;
	uint32_t n;
	bool all;        /* none is 0 */
};
void column_places_unref(struct column_places *x);

/* max_bytes: above it everything that was met is forgotten after the query. */
struct dict_unions *dict_unions_new(enum symbols_detail detail, size_t max_bytes);
void dict_unions_free(struct dict_unions *j);
/* The names of the database, for a query: they stay as they are but for what is added, until it gives them back. Where they have become too large by
 * then, later queries begin with new ones. */
struct dict_unions *dict_unions_take_names(struct tsdb *db);
void dict_unions_give_names(struct tsdb *db, struct dict_unions *j);
/* Begins with new names if those there are have not been used for ten minutes; all: in any case. */
void dict_unions_tidy_names(struct tsdb *db, bool all);
size_t dict_unions_names_bytes(struct tsdb *db);
/* The sum of v[i], which are over the symbols of of[i]'s partition, over common symbols, with names that came late.
 * Returns owned; NULL and *e on overflow. Takes the partitions' dict_lock. */
struct stackvec *dict_unions_sum(struct dict_unions *j, const struct pstate *const *of, struct stackvec *const *v, size_t n, struct err *e);
/* Adds v, whose columns are those of the day of s, to *sum (NULL: nothing yet), which is over common symbols and becomes another. p has the day's
 * symbols: the partition of s, or a private one. Negative and *e on overflow; *sum stays then. */
int dict_unions_add(struct dict_unions *j, const struct pstate *s, struct partition *p, const struct stackvec *v, struct stackvec **sum,
		    struct err *e) MUST_USE;
/* The same without the day's symbols, by places. *ret_known: whether those of all columns of v are known; if not, nothing was added. */
int dict_unions_add_known(struct dict_unions *j, const struct pstate *s, const struct stackvec *v, struct stackvec **sum, bool *ret_known,
			  struct err *e) MUST_USE;
/* Keeps the places of the day's columns instead of its symbols, which it forgets. */
void dict_unions_keep_places(struct dict_unions *j, const struct pstate *s, struct partition *p);
/* Gets the places from the names that the day's rollup has of its stacks, if it has any and they are not known yet. *ret_known: whether they are now.
 * ERR_UNAVAILABLE: they are in the bucket, and wanted now. */
int dict_unions_join_names(struct dict_unions *j, const struct pstate *s, bool *ret_known, struct err *e) MUST_USE;
/* The places of a day's columns, a reference. NULL: none are known; or only some are, and the day is in the bucket, so that its dictionary may not be on this
 * disk. A column that came after the rollup was made may be n or above: the caller compares. */
struct column_places *dict_unions_places(struct dict_unions *j, const struct pstate *s);
/* Puts joint columns in the place of columns of the day. p has the day's symbols; what is known of them stays until dict_unions_keep_places or
 * dict_unions_forget. Takes its dict_lock. */
void dict_unions_translate(struct dict_unions *j, const struct pstate *s, struct partition *p, uint32_t *columns, size_t n);
/* How many columns the dictionary of a day has of which the places are kept; 0: they are not, or it has changed since. */
uint32_t dict_unions_known(struct dict_unions *j, const struct pstate *s);
/* Numbers of entries of symbols. */
struct dict_unions_size {
	uint32_t locations, nodes, columns;
};
struct dict_unions_size dict_unions_size_of(const struct symbols *s);
/* The common symbols, a reference, and how large they are now; NULL: there are none. */
struct symbols *dict_unions_symbols(struct dict_unions *j, struct dict_unions_size *ret);
/* A bit per column of the day, that of its place among the first n common ones, whose bits are given. malloc'd. NULL: `of` are not the common symbols
 * any more, or there are more, or the day is not known. */
uint64_t *dict_unions_day_bits(struct dict_unions *j, const struct pstate *s, const struct symbols *of, const uint64_t *bits, uint32_t n, uint32_t *ret_n);
/* Frees one of the added dictionaries. */
void dict_unions_forget(struct dict_unions *j, const struct symbols *from);
/* The same of all unions of the database. */
void dict_unions_forget_everywhere(struct tsdb *db, const struct symbols *from);
/* And what is kept of the places of a partition's day: it goes, or its dictionary is no longer what it was. */
void dict_unions_forget_day(struct tsdb *db, const struct partition *p);
/* Forgets what has not been used for ten minutes; all: whatever it is. */
void dict_unions_tidy(struct dict_unions *j, bool all);
/* Bytes of memory of the common symbols and of places. */
size_t dict_unions_bytes(struct dict_unions *j);

#endif
