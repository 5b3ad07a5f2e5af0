/* SPDX-License-Identifier: Apache-2.0 */
/* Reading one series in one sealed part, for queries. A series may be an aggregate (PART_AGGREGATE | number). */
#ifndef PYRRHA_TSDB_PART_READ_H
#define PYRRHA_TSDB_PART_READ_H

#include "model/source.h"
#include "tsdb/part/part.h"

/* Scratch of one thread; released before the parts it was used on. */
struct part_scratch {
	struct sealed_rollup rollup;
	struct sealed_totals totals;
	struct sealed_points points;
	struct sealed_columns columns;
	VEC(int64_t) sums, weights, chosen; /* chosen: 1 of each row that is summed up, else 0 */
	VEC(uint8_t) hit;
	VEC(uint32_t) numbers;
	struct part_reader rollups, stamps, details[3]; /* by stream: a reader gives one value at a time */
};
void part_scratch_release(struct part_scratch *s);
/* Lets go of the parts, and keeps the memory. */
void part_scratch_leave(struct part_scratch *s);
size_t part_scratch_bytes(const struct part_scratch *s);

/* Sums of profiles: pairs (columns[i], sums[i]), columns ascending, zeros included. */
struct part_sums {
	const uint32_t *columns;
	const int64_t *sums;
	int64_t factor; /* of the sums; 1 nearly always */
	size_t n;
};

/* The sums of the profiles stamped in (after, until]; columns ascend. *ret_n is 0 or 1. Valid until the scratch is used again. */
int part_sum(const struct part *p, uint32_t series, int64_t after_ms, int64_t until_ms, struct part_scratch *w,
	     struct part_sums *ret, size_t *ret_n, uint64_t *ret_read, struct err *e) MUST_USE;
/* Adds them to d, which has room for n_columns: all that the dictionary has. ERR_EXECUTION if a sum does not fit. */
int part_add(const struct part *p, uint32_t series, int64_t after_ms, int64_t until_ms, struct part_scratch *w, struct dense *d,
	     uint32_t n_columns, uint64_t *ret_read, struct err *e) MUST_USE;
/* Sums of values times the weights of their profiles, which are those of w->columns and have these weights in w->weights: into columns and sums, as
 * part_sum has them. *ret_fits: they fit in 64 bits; else nothing is returned. */
int part_weigh(const struct part *p, uint32_t series, struct part_scratch *w, struct part_sums *ret, size_t *ret_n, bool *ret_fits, uint64_t *ret_read,
	       struct err *e) MUST_USE;
/* Per profile: stamps are in w->totals.rows, sums of the columns in `match` in w->sums; *ret_rows = 0 if nothing
 * matches at all. */
int part_row_sums(const struct part *p, uint32_t series, const uint64_t *match, uint32_t n_match, struct part_scratch *w,
		  size_t *ret_rows, uint64_t *ret_read, struct err *e) MUST_USE;
/* For each of n profiles, which are those of w->columns, the sum of the columns in `match` (NULL: none), into w->sums. */
int part_match(const struct part *p, uint32_t series, const uint64_t *match, uint32_t n_match, size_t n, struct part_scratch *w,
	       uint64_t *ret_read, struct err *e) MUST_USE;
/* Which profiles of an hour's part are wanted. */
struct part_choice {
	uint64_t minutes;    /* all in these, a bit each; */
	uint64_t few;        /* in these, which are others, those that `to` marks as odd, summed */
	size_t series;       /* what it is for `to` */
	const struct source_cells_reader *to;
};
/* Every sample of those of the series (NULL: of all); out is overwritten. */
int part_cells(const struct part *p, uint32_t series, const struct part_choice *choice, struct part_scratch *w, struct cells *out, struct err *e) MUST_USE;
#define PART_ALL_MINUTES ((UINT64_C(1) << 60) - 1)
static inline uint64_t part_minute(const struct part *p, int64_t t_ms)
{
	return UINT64_C(1) << (t_ms - part_start_ms(p) - 1) / PART_AGGREGATE_MS % 60;
}
/* Their sum, as one row that is stamped t_ms. */
int part_sum_cells(const struct part *p, uint32_t series, int64_t t_ms, struct part_scratch *w, struct cells *out, struct err *e) MUST_USE;
/* The detail of the rollup in w->rollup, which is the series' own. Valid until the scratch is used again. */
int part_detail(const struct part *p, uint32_t series, struct part_scratch *w, struct sealed_detail *ret, struct err *e) MUST_USE;
/* The profiles without stacks, into w->totals; totals are multiplied out. */
int part_totals(const struct part *p, uint32_t series, struct part_scratch *w, struct err *e) MUST_USE;
/* Their stamps and totals alone, into w->points. */
int part_points(const struct part *p, uint32_t series, struct part_scratch *w, struct err *e) MUST_USE;
/* Stamps, totals, covers and periods, into w->columns. */
int part_columns(const struct part *p, uint32_t series, struct part_scratch *w, struct err *e) MUST_USE;
/* Whether a series has this stamp; a read error counts as no. */
bool part_has_stamp(const struct part *p, uint32_t series, int64_t t_ms);

#endif
