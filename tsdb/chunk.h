/* SPDX-License-Identifier: Apache-2.0 */
/* The profiles of one series in one window of the head, as columns:
 *
 *	columns [local] -> column id of the partition      sums [local] -> what all rows add up to
 *	rows    one per profile, in order of arrival        bytes -> of each row: local indices, then values,
 *	                                                    both as fixed-width little arrays
 *
 * so that the whole window's merge is `sums` and a part of it is one pass of additions into a small array. A series
 * that is a multiple of another of the same profiles (cpu nanoseconds = samples x period) stores no samples: its rows
 * point at the other's. Written by the committer under the window's lock, read under its read side. */
#ifndef PYRRHA_TSDB_CHUNK_H
#define PYRRHA_TSDB_CHUNK_H

#include "base/map.h"
#include "base/vec.h"
#include "tsdb/record.h"

struct row {
	int64_t t_ms;
	int64_t total;
	uint64_t seq;      /* of the commit it came with */
	uint64_t at;       /* offset in bytes; of a multiple: the row of base */
	uint32_t n;        /* samples */
	uint32_t cover_ms;
	uint32_t meta;
	uint8_t index_width;  /* 2 or 4; 0: a multiple */
	uint8_t value_width;  /* 1, 2, 4 (unsigned), 8 (signed) */
	bool stale;
};

struct chunk {
	uint32_t series;
	struct chunk *base;  /* of multiples; NULL = none yet */
	int64_t factor;
	VEC(uint32_t) columns;
	VEC(int64_t) sums;
	struct map index;    /* column -> local */
	VEC(struct row) rows;
	VEC(struct sample_meta) metas;
	VEC(uint8_t) bytes;
	uint64_t magnitude;  /* sum of |value|, stops at INT64_MAX + 1: while smaller, no partial sum can overflow */
	size_t n_times;      /* rows that are multiples */
	bool unsorted;       /* rows are not in order of time */
};

void chunk_release(struct chunk *c);
size_t chunk_bytes(const struct chunk *c);
/* Takes series i of the profile in. base: the chunk of series times_of[i], which has taken it already; NULL = none. */
void chunk_add(struct chunk *c, const struct record_profile *p, uint32_t i, struct chunk *base, uint64_t seq);
/* Rows that a view at seq may see: the first so many. */
size_t chunk_visible(const struct chunk *c, uint64_t seq);

/* What rows add up to: pairs (columns[i], sums[i]), columns unique, not sorted, zeros included. */
struct chunk_sums {
	const uint32_t *columns;
	const int64_t *sums;
	int64_t factor; /* of the sums; 1 nearly always */
	size_t n;
};

/* Samples one by one: values.v[i] is that of columns.v[i] (partition ids) in row rows.v[i], which is stamped
 * t_ms.v[rows.v[i]]. */
struct cells {
	VEC(int64_t) t_ms;
	VEC(uint32_t) rows, columns;
	VEC(int64_t) values;
};
void cells_release(struct cells *c);

/* Work space of one thread. */
struct chunk_scratch {
	VEC(int64_t) own, base;
	VEC(uint8_t) selected;
};
void chunk_scratch_release(struct chunk_scratch *s);

/* Sums of the first `visible` rows that are stamped in (after, until], in at most two pieces (own, and base's times a
 * factor). Valid until the scratch is used again or the window's lock is let go. *ret_read counts samples read.
 * ERR_EXECUTION if a sum does not fit. */
int chunk_sum(const struct chunk *c, size_t visible, int64_t after_ms, int64_t until_ms, struct chunk_scratch *w,
	      struct chunk_sums ret[2], size_t *ret_n, uint64_t *ret_read, struct err *e);
/* Per row: the sum of the values whose column is in `match` (a bit per column id; beyond n_match: no). out has room
 * for `visible`. */
int chunk_row_sums(const struct chunk *c, size_t visible, const uint64_t *match, uint32_t n_match, int64_t *out,
		   struct err *e);
/* The samples of one row: column ids and values, in no order. Arrays with room for row->n. */
void chunk_row_samples(const struct chunk *c, const struct row *r, uint32_t *columns, int64_t *values);
/* Every sample of the first `visible` rows; out is overwritten. */
int chunk_cells(const struct chunk *c, size_t visible, struct cells *out, struct err *e);
/* The samples of one row, in no order: local indices of c, or of its base if the row is a multiple, and values (NULL =
 * not wanted). Arrays with room for row->n. */
void chunk_row_locals(const struct chunk *c, const struct row *r, uint32_t *locals, int64_t *values);

#endif
