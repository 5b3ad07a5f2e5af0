/* SPDX-License-Identifier: Apache-2.0 */
/* A view: a version of the database and the last visible commit. Series are named by refs, indices of a table that grows as selects
 * find them; a ref knows the series' id in each partition of the version. Private. */
#ifndef PYRRHA_TSDB_VIEW_H
#define PYRRHA_TSDB_VIEW_H

#include "tsdb/cached/cached_days.h"
#include "tsdb/part/sealed.h"
#include "tsdb/version/db.h"
#include "tsdb/version/query_dict.h"

#define NOT_LOOKED_UP UINT32_MAX
#define NOT_THERE (UINT32_MAX - 1)

struct view_ref {
	struct labels labels; /* of the first partition where it was met */
	const struct ptype *type; /* NULL: floats */
	uint64_t hash;
	uint32_t id[];        /* per partition of the version */
};

struct tsdb_view {
	struct source_view base;
	struct tsdb *db;
	struct version *v;
	uint64_t seq;
	struct cached_day **cached;  /* by partition of the version: the day of the bucket that it is, or NULL; references. NULL: there is none */
	size_t n_cached;             /* of the version's partitions */
	struct query_dict *own;      /* dictionaries that are this view's alone */
	struct mutex lock; /* of refs and points_wanted */
	VEC(struct view_ref *) refs;
	struct map by_labels;
	struct source_windows points_wanted; /* of which all hours of the bucket are wanted whose stamps they need (points.c); n is 0: none */
};

/* The series' id in partition p of the version; NOT_THERE if it has none. */
uint32_t view_series(struct tsdb_view *v, uint64_t ref, size_t p);
/* A profile of a part, without its stacks. Written field by field to its destination: copying a finished structure would wait for the stores of
 * its fields, which took a third of a graph of rates. */
static inline void view_profile(const struct sealed_row *r, struct source_profile *ret)
{
	if (r->stale) {
		*ret = (struct source_profile){ .t_ms = r->t_ms, .stale = true, .weight = 1 };
		return;
	}
	*ret = (struct source_profile){ r->t_ms, r->meta.duration_ns, r->cover_ms, r->meta.interval_ms, 1, r->meta.period, r->total, false };
	if (r->meta.asked_ms != r->meta.interval_ms)
		ret->weight = source_weight(r->meta.interval_ms, r->meta.asked_ms);
}
/* And one of the head. */
struct source_profile view_head_profile(const struct chunk *c, const struct chunk_row *r);
/* The parts that have something of the series in (after, until], one after the other; *i starts at 0. */
struct part *view_next_part(const struct pstate *s, uint32_t series, int64_t after_ms, int64_t until_ms, size_t *i);
/* How many there are from i on. */
size_t view_parts_left(const struct pstate *s, uint32_t series, int64_t after_ms, int64_t until_ms, size_t i);
int view_bad_ref(uint64_t ref, struct err *e) MUST_USE;
bool view_has_ref(struct tsdb_view *v, uint64_t ref);
/* Deadline, cancellation, and `read` more samples against the limit; what the thread has tallied goes to the statistics. */
int limits_check(const struct source_limits *lim, uint64_t read, struct err *e) MUST_USE;

/* 0 if a query may hold so many bytes of names and dictionaries; ERR_LIMIT if not. Also what limits_check returns. */
int view_check_bytes(uint64_t bytes, const struct source_limits *lim, struct err *e) MUST_USE;

static inline bool hour_meets(int64_t hour, int64_t after_ms, int64_t until_ms)
{
	return hour * HOUR_MS < until_ms && (hour + 1) * HOUR_MS > after_ms;
}

int tsdb_view_open(struct source *s, struct source_view **ret, struct err *e) MUST_USE;

/* The operations of source.h, one file each. */
int view_select(struct source_view *v, const struct matcher *m, size_t n, int64_t after_ms, int64_t until_ms,
		const struct source_limits *lim, struct source_series **ret, size_t *ret_n, struct err *e) MUST_USE;
int view_label_names(struct source_view *v, const struct matcher *m, size_t n, int64_t after_ms, int64_t until_ms,
		     const struct source_limits *lim, struct view **ret, size_t *ret_n, struct err *e) MUST_USE;
int view_label_values(struct source_view *v, struct view name, const struct matcher *m, size_t n, int64_t after_ms,
		      int64_t until_ms, const struct source_limits *lim, struct view **ret, size_t *ret_n, struct err *e) MUST_USE;
int view_types(struct source_view *v, int64_t after_ms, int64_t until_ms, const struct source_limits *lim, struct source_type **ret, size_t *ret_n,
	       struct err *e) MUST_USE;
int view_floats(struct source_view *v, const uint64_t *refs, size_t n, int64_t after_ms, int64_t until_ms, const struct source_limits *lim,
		source_floats_fn fn, void *arg, struct err *e) MUST_USE;
int view_profiles(struct source_view *v, const uint64_t *refs, size_t n, int64_t after_ms, int64_t until_ms, const struct source_limits *lim,
		  source_profiles_fn fn, void *arg, struct err *e) MUST_USE;
int view_points(struct source_view *v, const uint64_t *refs, size_t n, int64_t after_ms, int64_t until_ms, const struct source_windows *windows,
		const struct source_limits *lim, source_points_fn fn, void *arg, struct err *e) MUST_USE;
int view_covers(struct source_view *v, const uint64_t *refs, size_t n, const struct source_tiles *t, const struct source_limits *lim,
		source_covers_fn fn, void *arg, struct err *e) MUST_USE;
int view_merge(struct source_view *v, const struct source_part *parts, size_t n, size_t n_groups, enum symbols_detail detail,
	       const struct source_limits *lim, struct stackvec **ret, struct err *e) MUST_USE;
int view_sums(struct source_view *v, const struct source_part *parts, size_t n, size_t n_groups,
	      const struct source_frame_filter *f, const struct source_limits *lim, double *ret, int64_t *exact,
	      struct err *e) MUST_USE;
int view_shares(struct source_view *v, const struct source_part *parts, size_t n, size_t n_groups, const struct source_frame_filter *f,
		const struct source_limits *lim, const struct source_shares *ret, struct err *e) MUST_USE;
int view_matches(struct source_view *v, const uint64_t *refs, size_t n, int64_t after_ms, int64_t until_ms, const struct source_frame_filter *f,
		 const struct source_limits *lim, source_matches_fn fn, void *arg, struct err *e) MUST_USE;
int view_cells(struct source_view *v, const uint64_t *refs, size_t n, int64_t after_ms, int64_t until_ms,
	       const struct source_limits *lim, const struct source_cells_reader *to, struct err *e) MUST_USE;

#endif
