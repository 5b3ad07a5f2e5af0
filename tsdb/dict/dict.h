/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the new entries of a partition's dictionary and series index between two marks, and reads them back: the payload of the
 * head's symbols records and of a sealed part's symbols. It is the rows of model/symbols_rows.h, and behind them one section more, of the series.
 * Reading skips existing ids, so the same payload may be read twice. Missing ids (their record was lost) get entries called "(lost)", so that
 * later entries keep their ids and values keep adding up. */
#ifndef PYRRHA_TSDB_DICT_H
#define PYRRHA_TSDB_DICT_H

#include "model/symbols_rows.h"
#include "tsdb/dict/index.h"

/* The table of series; the others are ROWS_STRINGS to ROWS_COLUMNS. */
enum {
	DICT_SERIES = ROWS_TABLES, DICT_TABLES
};

/* How far a dictionary has been written: the next id of each table. */
struct dict_marks {
	struct symbols_marks symbols;
	uint32_t series;
};

/* The marks of an empty dictionary, whose built-in entries (string 0 and so on) are never written. */
void dict_marks_start(struct dict_marks *m);
/* The marks of all that is there now. Under the partition's lock. */
void dict_marks_now(struct dict_marks *m, const struct symbols *s, const struct index *x);
bool dict_marks_eq(const struct dict_marks *a, const struct dict_marks *b);
/* Whether no mark of a is above that of b. */
bool dict_marks_within(const struct dict_marks *a, const struct dict_marks *b);
/* Everything in [from, to). Under the partition's lock, which is released every thousand entries: existing entries never change, and
 * `to` says where to end. lock NULL: no other thread has the dictionary. */
void dict_encode(struct buf *b, const struct symbols *s, const struct index *x, const struct dict_marks *from,
		 const struct dict_marks *to, struct rwlock *lock);
/* Adds it. *ret_lost (may be NULL) counts the entries that had to be made up. ERR_CORRUPT if the payload is malformed; entries before
 * the malformed one have been added. */
int dict_apply(struct view payload, struct symbols *s, struct index *x, uint64_t *ret_lost, struct err *e) MUST_USE;
/* The same where records are known to be lost: what entries refer to and is not there is made up. */
int dict_apply_lossy(struct view payload, struct symbols *s, struct index *x, uint64_t *ret_lost, struct err *e) MUST_USE;
/* The same of columns (dict_pack.h). Only series: other sections are skipped without decoding. */
enum dict_how { DICT_WHOLE, DICT_LOSSY, DICT_SERIES_ONLY };
int dict_apply_packed(struct view packed, enum dict_how how, struct symbols *s, struct index *x, uint64_t *ret_lost, struct err *e) MUST_USE;
/* Whether all that these columns would add to a dictionary with those marks is in the next part's as well, which can be added without
 * them. Looks at what sections say of themselves alone. */
bool dict_is_repeated(struct view packed, struct view next, const struct dict_marks *have);
/* Makes up what is missing below the marks. */
void dict_fill_up(const struct dict_marks *to, struct symbols *s, struct index *x, bool series_only, uint64_t *ret_lost);
/* As dict_apply_lossy, of strings and series alone. */
int dict_apply_series(struct view payload, struct symbols *s, struct index *x, uint64_t *ret_lost, struct err *e) MUST_USE;
/* The lowest id of each table in a payload whose entries all exist already; for a table it does not have, the table's first id. Under
 * the partition's lock. */
int dict_first(struct view payload, struct symbols *s, struct index *x, struct dict_marks *ret, struct err *e) MUST_USE;

#endif
