/* SPDX-License-Identifier: Apache-2.0 */
/* What the records of the head log hold, noted outside of the log, in head.marks: so that what lost records held is known (holes.h).
 * An extent is a run of record numbers with one day and a range of stamps. Facts (deletes, late names) are counted by day: the log
 * keeps some of them below its first record, where missing numbers are normal. Owned by hlog.c, which locks. */
#ifndef PYRRHA_TSDB_LOG_EXTENTS_H
#define PYRRHA_TSDB_LOG_EXTENTS_H

#include "base/buf.h"
#include "base/vec.h"

/* Rows of one day: profiles and floats. Records of other days, symbols and facts may lie between the first and the last. */
struct log_extent {
	uint32_t day;
	uint64_t first, last;      /* numbers of records */
	int64_t from_ms, until_ms; /* the lowest and the highest stamp */
};

/* The facts of a day that the log has. */
struct log_facts {
	uint32_t day;
	uint64_t count, last;      /* last: the highest number */
	VEC(uint64_t) numbers;     /* ascending; not in head.marks */
};

struct log_extents {
	VEC(struct log_extent) rows;   /* by their first number */
	VEC(struct log_facts) facts;
	uint64_t seen;             /* highest record number that the rows and facts cover; 0 = they cover none */
	int64_t span_ms;           /* longest time range of an extent, ms; 0 = EXTENTS_SPAN_MS */
};

/* A fact (a delete, a late name, a cursor) that stays in the log although all samples of its number range are sealed. */
struct log_keep {
	uint64_t number;
	uint32_t day;
};

/* A record of rows; a fact. In ascending order of numbers. */
void log_extents_add_rows(struct log_extents *x, uint32_t day, uint64_t number, int64_t from_ms, int64_t until_ms);
void log_extents_add_fact(struct log_extents *x, uint32_t day, uint64_t number);
/* The partition of that day is gone, and its facts mean nothing. */
void log_extents_forget_day(struct log_extents *x, uint32_t day);
/* Records below `below` are gone but those in keep (ascending). */
void log_extents_trim(struct log_extents *x, uint64_t below, const struct log_keep *keep, size_t n_keep);
void log_extents_release(struct log_extents *x);

/* The text of head.marks behind the marks. */
void log_extents_put(const struct log_extents *x, struct buf *b);
/* The same without the extents and facts whose last record is `above` or below. */
void log_extents_put_above(const struct log_extents *x, uint64_t above, struct buf *b);
/* Reads it out of the file's text; false: it is not there or damaged, and x is empty. */
bool log_extents_parse(struct log_extents *x, struct view text);
/* Adds to x what log_extents_put_above wrote later. Where an extent has grown since, x then has both the short and the long one. Empties newer. */
void log_extents_add(struct log_extents *x, struct log_extents *newer);

#endif
