/* SPDX-License-Identifier: Apache-2.0 */
/* The entries of a symbols between two marks as bytes, and back: for what is stored (tsdb/dict/dict.h adds the series of a day) and for what servers
 * send each other. Sections follow one another, each
 *
 *	table u8 | first id varint | count varint | entries
 *
 * in an order in which an entry only refers to entries before it. Reading skips existing ids, so the same rows may be read twice. docs/format/head.md
 * draws the entries. Pure: no I/O, no clock.
 *
 * The bytes may be anyone's: each id is compared with the tables, and each length with the bytes that are left. A limit bounds the memory that
 * they take. */
#ifndef PYRRHA_MODEL_SYMBOLS_ROWS_H
#define PYRRHA_MODEL_SYMBOLS_ROWS_H

#include "base/buf.h"
#include "base/cursor.h"
#include "base/lock.h"
#include "base/vec.h"
#include "model/symbols.h"

/* Tables by the numbers that sections have. ROWS_TABLES and above are the caller's own. */
enum {
	ROWS_STRINGS = 1, ROWS_MAPPINGS, ROWS_FUNCTIONS, ROWS_LOCATIONS, ROWS_NODES, ROWS_STACKS, ROWS_LABEL_SETS, ROWS_COLUMNS,
	ROWS_TABLES
};

/* How far a dictionary has been written: the next id of each table. */
struct symbols_marks {
	uint32_t next[ROWS_TABLES];
};

/* The marks of an empty dictionary, whose built-in entries (string 0 and so on) are never written. */
void symbols_marks_start(struct symbols_marks *m);
/* The marks of all that is there now. Under the lock of s. */
void symbols_marks_now(struct symbols_marks *m, const struct symbols *s);
bool symbols_marks_eq(const struct symbols_marks *a, const struct symbols_marks *b);
/* Whether no mark of a is above that of b. */
bool symbols_marks_within(const struct symbols_marks *a, const struct symbols_marks *b);

/* Appends everything in [from, to). Under the lock of s, held for reading, which is released every thousand entries: existing entries never change, and
 * `to` says where to end. lock NULL: the caller sees to it that nobody writes. It ends at an overflow of b. */
void symbols_rows_encode(struct buf *b, const struct symbols *s, const struct symbols_marks *from, const struct symbols_marks *to,
			 struct rwlock *lock);

/* What rows may add. Each becomes less by what was added. */
struct symbols_rows_limit {
	size_t entries;
	size_t bytes;  /* of memory (symbols_bytes). Looked at every few hundred entries, so that these may be beyond it */
	size_t frames; /* of all stacks: a walk over each of them takes that many steps, which nested nodes make far more than there are bytes */
};

/* Adds rows of this table's sections alone, whose entries follow those that are there, to s, whose writer the caller is. ERR_CORRUPT if they are malformed,
 * refer to what is not there, or begin beyond what is there; ERR_LIMIT if they would add more than *left. After an error the entries before the
 * fault have been added. */
int symbols_rows_apply(struct view rows, struct symbols *s, struct symbols_rows_limit *left, struct err *e) MUST_USE;

/* ---- section by section, for callers that have further tables, or lost some of the rows ---- */

enum symbols_rows_lost {
	ROWS_WHOLE, /* no row was lost */
	ROWS_GAPS,  /* ids missing before a section get entries "(lost)", so that later entries keep their ids and values keep adding up */
	ROWS_LOSSY  /* so do ids that entries refer to */
};

/* Zero-initialised, with c, symbols and maybe the next four, is ready; symbols_reader_release at the end. */
struct symbols_reader {
	struct cursor c;        /* the rows. c.bad: they are malformed, or one of the next two */
	struct symbols *symbols; /* borrowed */
	struct symbols_rows_limit *left; /* borrowed; NULL = no limit. Only with ROWS_WHOLE: what is made up is not counted */
	enum symbols_rows_lost how;
	bool stepping;          /* entries are stepped over: what they refer to need not be there */
	uint64_t lost;          /* entries made up */
	bool has_gap, is_full;  /* rows before a section are missing; the limit is reached */
	size_t paid;            /* symbols_bytes as of the last time that something was taken out of the limit */
	VEC(struct sym_line) lines;
	VEC(struct sym_label) labels;
};

struct symbols_section {
	uint8_t table; /* ROWS_*, or the caller's own */
	uint32_t first, n; /* first + n is below 2^32, n at most the number of the bytes that follow */
};

void symbols_rows_put_head(struct buf *b, const struct symbols_section *x);
/* The head of a section. False if it is malformed: then c->bad. */
bool symbols_rows_head(struct cursor *c, struct symbols_section *ret);
/* Its entries, and before them those that are missing. Sets c.bad. Its table is below ROWS_TABLES. */
void symbols_rows_section(struct symbols_reader *r, const struct symbols_section *x);
/* Makes up entries of a table, so that there are `first`; or sets c.bad. */
void symbols_rows_fill(struct symbols_reader *r, unsigned table, uint32_t first);
/* The string whose id is next; "" if it is bad, or stepped over. Borrowed from the symbols. */
struct view symbols_rows_string(struct symbols_reader *r);
/* The number of entries of a table below ROWS_TABLES. */
uint32_t symbols_rows_count(const struct symbols *s, unsigned table);
void symbols_reader_release(struct symbols_reader *r);

#endif
