/* SPDX-License-Identifier: Apache-2.0 */
/* The profiles of one series in one window of the head: one row each, in order of arrival. Samples are in blocks of memory that the
 * window's chunks share and that never move:
 *
 *	row ──► n gaps (u16 or u32): column less the one before (the first: less row.first)   n values (u8, u16, u32 or i64)
 *
 * so that taking one in is a copy, and adding rows up is one pass over the bytes into an array over the partition's
 * columns. A series that is a multiple of another of the same profiles (cpu nanoseconds = samples x period) stores no
 * samples: its rows point at the other's. Written by the committer under the window's lock, read under its read side. */
#ifndef PYRRHA_TSDB_CHUNK_H
#define PYRRHA_TSDB_CHUNK_H

#include "base/vec.h"
#include "tsdb/log/record.h"

/* Memory of the rows of a window. Zero-initialised is empty. */
struct row_memory {
	VEC(void *) blocks;
	uint8_t *at;
	size_t left, bytes; /* bytes: of all blocks */
};
void row_memory_release(struct row_memory *m);

struct chunk_row {
	int64_t t_ms;
	int64_t total;
	uint64_t seq;      /* of the commit it came with */
	const uint8_t *data;
	uint32_t at;       /* of a multiple: the row of base */
	uint32_t n;        /* samples */
	uint32_t first;    /* column */
	uint32_t cover_ms;
	uint32_t meta;
	uint8_t index_width;  /* 2 or 4; 0: a multiple */
	uint8_t value_width;  /* 1, 2, 4 (unsigned), 8 (signed) */
	bool stale;
};

struct chunk {
	uint32_t series;
	uint32_t n_columns;  /* all are below it */
	struct chunk *base;  /* of multiples; NULL = none yet */
	int64_t factor;
	VEC(struct chunk_row) rows;
	VEC(struct sample_meta) metas;
	uint64_t magnitude;  /* sum of |value|, stops at INT64_MAX + 1: while smaller, no partial sum can overflow */
	size_t n_times;      /* rows that are multiples */
	bool unsorted;       /* rows are not in order of time */
	bool asked;          /* head_sums.c was; its own, as the next */
	struct chunk_sums *sums; /* NULL = none yet */
};

void chunk_release(struct chunk *c);
/* Without its rows' samples, which the row_memory counts. */
size_t chunk_bytes(const struct chunk *c);
/* The samples of its rows, including those of the base of which it is a multiple. */
size_t chunk_sample_bytes(const struct chunk *c);
/* Takes series i of the profile in. base: the chunk of series times_of[i], which has taken it already; NULL = none. */
void chunk_add(struct chunk *c, struct row_memory *m, const struct record_profile *p, uint32_t i, struct chunk *base,
	       uint64_t seq);
/* Sum of |v|, stops at INT64_MAX + 1. */
uint64_t values_magnitude(const int64_t *v, size_t n);
/* The number of first rows that a view at seq may see. */
size_t chunk_visible(const struct chunk *c, uint64_t seq);

/* Sums over the columns of a partition, being made. Scratch of one thread. */
struct dense {
	int64_t *sums;       /* by column */
	uint8_t *marks;      /* by 64 columns: something was added there */
	uint32_t room;       /* columns, a multiple of 64 */
	uint64_t magnitude;  /* what the sums cannot exceed in sum, as in struct chunk */
};
/* Room for this many columns, and DENSE_SLACK beyond them; only while it is empty. */
#define DENSE_SLACK 2048
void dense_reserve(struct dense *d, uint32_t n_columns);
void dense_release(struct dense *d);
bool dense_is_empty(const struct dense *d);
size_t dense_bytes(const struct dense *d);
/* Adds values[i] x factor to columns[i]. False if a sum does not fit (then the sums are undefined). */
bool dense_add(struct dense *d, const uint32_t *columns, const int64_t *values, size_t n, int64_t factor);
/* Whether values that are together at most `all`, times factor, can be added without a look at each sum; then they count as
 * added. */
bool dense_expect(struct dense *d, uint64_t all, int64_t factor);
/* The same without counting them. */
bool dense_fits(const struct dense *d, uint64_t all, int64_t factor);
/* Adds what `from` has; `to` has room for it. from is empty again. False as above. */
bool dense_move(struct dense *to, struct dense *from);
/* How many columns are not 0, at most. */
size_t dense_count(const struct dense *d);
/* The columns that are not 0, ascending, with their sums, into arrays with room for dense_count; returns how many. d is
 * empty again. */
size_t dense_take(struct dense *d, uint32_t *columns, int64_t *sums);

/* Samples one by one: values.v[i] is that of columns.v[i] (partition ids) in row rows.v[i], which is stamped
 * t_ms.v[rows.v[i]]. */
struct cells {
	VEC(int64_t) t_ms;
	VEC(uint8_t) summed;         /* by row: what its minute adds up to is read, too; empty: none is */
	VEC(uint32_t) rows, columns;
	VEC(int64_t) values;
};
void cells_release(struct cells *c);

/* Adds the first `visible` rows that are stamped in (after, until]. d has room for c->n_columns. *ret_read counts
 * samples read. ERR_EXECUTION if a sum does not fit. */
int chunk_sum(const struct chunk *c, size_t visible, int64_t after_ms, int64_t until_ms, struct dense *d, uint64_t *ret_read,
	      struct err *e) MUST_USE;
/* Those rows, of the first `visible`; of a chunk that is unsorted some of them are not. */
void chunk_bounds(const struct chunk *c, size_t visible, int64_t after_ms, int64_t until_ms, size_t *lo, size_t *hi);
/* Adds rows [from, to) times `by`, if it is known that all sums fit (dense_expect). */
void chunk_add_rows(const struct chunk *c, size_t from, size_t to, int64_t by, struct dense *d, uint64_t *ret_read);
/* Adds one row. As chunk_sum. */
int chunk_add_row(const struct chunk *c, const struct chunk_row *r, struct dense *d, uint64_t *ret_read, struct err *e) MUST_USE;
/* Per row: the sum of the values whose column is in `match` (a bit per column id; beyond n_match: no). out has room
 * for `visible`. */
int chunk_row_sums(const struct chunk *c, size_t visible, const uint64_t *match, uint32_t n_match, int64_t *out,
		   struct err *e) MUST_USE;
/* The samples of one row: column ids, ascending, and values (NULL = not wanted). Arrays with room for row->n. */
void chunk_row_samples(const struct chunk *c, const struct chunk_row *r, uint32_t *columns, int64_t *values);
/* Every sample of the first `visible` rows; out is overwritten. */
int chunk_cells(const struct chunk *c, size_t visible, struct cells *out, struct err *e) MUST_USE;

#endif
