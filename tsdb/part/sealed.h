/* SPDX-License-Identifier: Apache-2.0 */
/* Codec of a sealed window: what one series has in one part, turned from rows into columns and back. Payloads (docs/
 * format/partition.md draws them byte by byte):
 *
 *	TOTALS    the profiles without stacks: stamps, totals, durations, covers
 *	ROLLUP    the distinct columns, ascending, and the sum of each: the merged profile
 *	DETAIL 0  how many profiles hold each column       DETAIL 1  which: a byte per sample, the gap to the last
 *	DETAIL 2  the values, of the columns where the sum does not say them
 *	FLOATS    stamps and values of a float series
 *
 * A series that is a multiple of another (cpu = samples x period) stores only that. Pure: bytes in, bytes out. */
#ifndef PYRRHA_TSDB_SEALED_H
#define PYRRHA_TSDB_SEALED_H

#include "tsdb/head/chunk.h"
#include "tsdb/head/window.h"

struct sealed_row {
	int64_t t_ms, total;
	struct sample_meta meta;
	uint32_t cover_ms;
	bool stale;
};

/* "All of it is series `series` times `factor`"; factor 0: it has its own values. */
struct sealed_times {
	uint32_t series;
	int64_t factor;
};

/* The mode of a payload of TOTALS or ROLLUP, SEALED_TIMES or another; *ret is filled. */
#define SEALED_TIMES 1
static inline int sealed_get_mode(struct cursor *c, struct sealed_times *ret)
{
	int mode = cursor_u8(c);
	*ret = (struct sealed_times){ 0 };
	if (mode == SEALED_TIMES) {
		ret->series = cursor_u32(c);
		ret->factor = cursor_zigzag(c);
	}
	return mode;
}

/* Columns of TOTALS before the stamps: interval, asked, duration, period, cover. */
#define SEALED_FIELDS 5

/* Stamps and totals alone (0 of a stale marker). */
struct sealed_points {
	struct sealed_times times;
	size_t n;
	int64_t first_ms, every_ms;   /* above 0: stamp i is first + i * every, and t_ms is not filled */
	bool small;                   /* what any of them add up to is far from the end of 64 bits */
	VEC(int64_t) t_ms, totals;    /* n of each; their own n is not used */
};
void sealed_points_release(struct sealed_points *p);

/* Points, and what of each profile says for how long it is. */
struct sealed_columns {
	struct sealed_points points;
	uint32_t cover_ms, interval_ms;
	int64_t period;
	double weight;                /* source_weight of interval and asked */
	bool same_cover, same_interval, same_period, same_weight; /* false: the field above is the first row's only, and the vector below has one entry a row */
	VEC(uint32_t) covers, intervals; /* n of each; their own n is not used */
	VEC(int64_t) periods;
	VEC(double) weights;
	VEC(uint32_t) stale;          /* rows, ascending */
};
void sealed_columns_release(struct sealed_columns *c);

static inline int64_t sealed_stamp(const struct sealed_points *p, size_t i)
{
	return p->every_ms ? p->first_ms + (int64_t)i * p->every_ms : p->t_ms.v[i];
}

struct sealed_totals {
	struct sealed_times times;
	VEC(struct sealed_row) rows; /* by stamp */
	struct sealed_points points; /* scratch */
};

struct sealed_rollup {
	struct sealed_times times;
	VEC(uint32_t) columns; /* ascending */
	VEC(int64_t) sums;
	struct cursor late;    /* sums that are not decoded yet; zeroed: there are none */
	bool late_signed;
};

/* ---- writing ---- */

struct sealed_buffers {
	struct buf totals, rollup, detail[3];
	struct sealed_times times;
	int64_t min_t, max_t;
	uint64_t samples;
};
void sealed_buffers_release(struct sealed_buffers *b);
/* Scratch for one chunk after the other; zero-initialised is empty. */
struct sealed_scratch {
	uint32_t *count;  /* by column id; zero between uses, as is the next */
	uint8_t *marks;   /* by 64 columns: some of them occur */
	uint32_t room;
	VEC(uint32_t) row_columns, columns, start, rows, order;
	VEC(int64_t) row_values, values, divisors, sums;
};
void sealed_scratch_release(struct sealed_scratch *s);
/* The payloads of a chunk. ERR_EXECUTION if a sum does not fit. */
int sealed_encode(const struct chunk *c, struct sealed_scratch *s, struct sealed_buffers *ret, struct err *e) MUST_USE;
void sealed_put_rollup(struct buf *b, const uint32_t *columns, const int64_t *sums, size_t n);
void sealed_put_times(struct buf *b, struct sealed_times t);
void sealed_put_floats(struct buf *b, const struct fpoint *p, size_t n);

/* ---- reading: ERR_CORRUPT when a payload is malformed ---- */

int sealed_get_points(struct view v, struct sealed_points *ret, struct err *e) MUST_USE;
int sealed_get_columns(struct view v, struct sealed_columns *ret, struct err *e) MUST_USE;
int sealed_get_totals(struct view v, struct sealed_totals *ret, struct err *e) MUST_USE;
int sealed_get_rollup(struct view v, struct sealed_rollup *ret, struct err *e) MUST_USE;
/* The same without sums, if these take time to decode. Then the sums, of columns whose `counts` is 0 (NULL: all), else 0. The payload stays until then. */
int sealed_get_rollup_columns(struct view v, struct sealed_rollup *ret, struct err *e) MUST_USE;
int sealed_get_rollup_sums(struct sealed_rollup *r, const uint8_t *counts, struct err *e) MUST_USE;
/* Adds the sums of a rollup x factor to d, which has room for n_columns: all that there are. If it is a multiple of another
 * nothing is added, and w->times says of which; w is scratch. ERR_EXECUTION if a sum does not fit. */
int sealed_add_rollup(struct view v, struct sealed_rollup *w, struct dense *d, uint32_t n_columns, int64_t factor,
		      uint64_t *ret_read, struct err *e) MUST_USE;
void sealed_totals_release(struct sealed_totals *t);
void sealed_rollup_release(struct sealed_rollup *r);

/* The detail of one series; the views stay with their owner. Rows are numbered as in TOTALS. */
struct sealed_detail {
	struct view counts, gaps, values;
	const struct sealed_rollup *rollup;
	bool full; /* every row has every column, so the gaps between rows are 0 and `gaps` is empty. Only sealed_weigh_rows reads such a one */
};
/* Adds the values of rows [lo, hi) (hi UINT32_MAX: all from lo) up per column of the rollup, into sums (zeroed, rollup->columns.n of them). */
int sealed_sum_rows(const struct sealed_detail *d, uint32_t lo, uint32_t hi, int64_t *sums, uint64_t *ret_read,
		    struct err *e) MUST_USE;
/* The same of all rows, each value times the weight of its row (n_rows of them). *ret_fits is false where a sum does not fit, which is no error. */
int sealed_weigh_rows(const struct sealed_detail *d, const int64_t *weights, uint32_t n_rows, int64_t *sums, bool *ret_fits, uint64_t *ret_read,
		      struct err *e) MUST_USE;
/* A byte of each column: 0 if sealed_weigh_rows needs the column's sum in the rollup. NULL: it needs the sums of all columns. */
const uint8_t *sealed_weighed_counts(const struct sealed_detail *d);
/* Whether it may be read as a full one: counts and values say so. */
bool sealed_is_full(const struct sealed_detail *d, uint32_t n_rows);
/* Whether values are stored as differences of a column from one row to the next. */
bool sealed_has_differences(const struct sealed_detail *d);
/* Adds, per row, the values of the columns that are set in hit (a byte per column of the rollup). */
int sealed_sum_columns(const struct sealed_detail *d, const uint8_t *hit, int64_t *rows, uint32_t n_rows,
		       uint64_t *ret_read, struct err *e) MUST_USE;

/* Every sample of rows below n_rows that are wanted (a byte each; NULL: all), column by column, appended to out. */
int sealed_cells(const struct sealed_detail *d, uint32_t n_rows, const uint8_t *wanted, struct cells *out, struct err *e) MUST_USE;

struct sealed_floats {
	VEC(struct fpoint) points;
};
int sealed_get_floats(struct view v, struct sealed_floats *ret, struct err *e) MUST_USE;

#endif
