/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/many_days/whole_source.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/num.h"
#include "model/frame.h"
#include "model/frame_filter.h"
#include "model/stackvec.h"

static struct whole_source *whole_of(const struct source_view *v)
{
	return (struct whole_source *)((uintptr_t)v->ops - offsetof(struct whole_source, ops));
}

static int whole_merge(struct source_view *v, const struct source_part *parts, size_t n, size_t n_groups, enum symbols_detail detail,
		       const struct source_limits *lim, struct stackvec **ret, struct err *e)
{
	struct whole_source *w = whole_of(v);
	w->merges += detail != SYMBOLS_WHOLE;
	return w->real->merge(v, parts, n, n_groups, SYMBOLS_WHOLE, lim, ret, e);
}

/* Whether a frame of the column's stack satisfies the filter: 1 or 0; negative: an error. */
static int whole_matches(const struct source_frame_filter *f, struct regex_meter *meter, const struct symbols *s, uint32_t column, struct err *e)
{
	uint32_t node = symbols_get_column(s, column)->node;
	for (; node; node = f->leaf_only ? 0 : symbols_get_node(s, node)->parent) {
		const struct sym_location *l = symbols_get_location(s, symbols_get_node(s, node)->location);
		for (uint32_t k = 0; k < (f->leaf_only ? 1 : frame_count(l)); k++) {
			int rc = frame_filter_match(f, s, l, k, meter, e);
			if (rc)
				return rc;
		}
	}
	return 0;
}

static int whole_add(const struct source_frame_filter *f, const struct source_limits *lim, const struct stackvec *v, int64_t *ints, double *floats, struct err *e)
{
	struct num_sum sum = { 0 };
	int rc = 0;
	*ints = 0;
	for (size_t i = 0; i < v->n && rc >= 0; i++) {
		rc = whole_matches(f, lim ? lim->regex : NULL, v->symbols, v->columns[i], e);
		if (rc > 0 && v->is_float)
			num_sum_add(&sum, v->floats[i]);
		else if (rc > 0)
			*ints += v->ints[i];
	}
	*floats = v->is_float ? num_sum_value(sum) : (double)*ints;
	return rc < 0 ? rc : 0;
}

static int whole_sums(struct source_view *v, const struct source_part *parts, size_t n, size_t n_groups, const struct source_frame_filter *f,
		      const struct source_limits *lim, double *ret, int64_t *exact, struct err *e)
{
	struct stackvec **sums = xcalloc(n_groups + 1, sizeof(*sums));
	const struct source_ops *real = whole_of(v)->real;
	int rc = f ? real->merge(v, parts, n, n_groups, SYMBOLS_WHOLE, lim, sums, e) : real->sums(v, parts, n, n_groups, f, lim, ret, exact, e);
	for (size_t i = 0; i < n_groups; i++) {
		int64_t whole = 0;
		if (f && sums[i] && !rc)
			rc = whole_add(f, lim, sums[i], &whole, &ret[i], e);
		if (f && exact)
			exact[i] = whole;
		stackvec_unref(sums[i]);
	}
	free(sums);
	return rc;
}

static int whole_shares(struct source_view *v, const struct source_part *parts, size_t n, size_t n_groups, const struct source_frame_filter *f,
			const struct source_limits *lim, const struct source_shares *ret, struct err *e)
{
	struct stackvec **sums = xcalloc(n_groups + 1, sizeof(*sums));
	const struct source_ops *real = whole_of(v)->real;
	int rc = real->shares(v, parts, n, n_groups, f, lim, ret, e);
	if (!rc)
		rc = real->merge(v, parts, n, n_groups, SYMBOLS_WHOLE, lim, sums, e);
	for (size_t i = 0; i < n_groups; i++) {
		double unused;
		if (sums[i] && !rc)
			rc = whole_add(f, lim, sums[i], &ret->match[i], &unused, e);
		stackvec_unref(sums[i]);
	}
	free(sums);
	return rc;
}

/* The values of profile i of the caller's series. */
static int whole_hand_out(const struct stackvec *v, size_t series, int64_t t_ms, const struct source_cells_reader *to, struct err *e)
{
	uint32_t *rows = xcalloc(v->n + 1, sizeof *rows);
	const struct source_cells c = { .series = series, .after_ms = t_ms - 1, .until_ms = t_ms, .symbols = v->symbols, .t_ms = &t_ms, .n_rows = 1, .n = v->n,
					.rows = rows, .columns = v->columns, .values = v->ints };
	int rc = v->n ? to->take(to->arg, &c, 0, e) : 0;
	free(rows);
	return rc;
}

/* A reading of single values. */
struct whole_cells_of {
	struct source_view *v;
	const uint64_t *refs;
	const struct source_limits *lim;
	const struct source_cells_reader *to;
};

/* Each profile is a merge of its own, so that the storage's reader of single values has no part in it. */
static int whole_profiles(void *arg, size_t series, struct source_profile *p, size_t n, struct err *e)
{
	const struct whole_cells_of *x = arg;
	struct source_part *parts = xcalloc(n + 1, sizeof *parts);
	struct stackvec **sums = xcalloc(n + 1, sizeof(*sums));
	size_t n_parts = 0;
	for (size_t k = 0; k < n; k++)
		if (!p[k].stale) {
			parts[n_parts] = (struct source_part){ .ref = x->refs[series], .after_ms = p[k].t_ms - 1, .until_ms = p[k].t_ms, .scale = 1, .group = (uint32_t)n_parts };
			n_parts++;
		}
	int rc = whole_of(x->v)->real->merge(x->v, parts, n_parts, n_parts, SYMBOLS_WHOLE, x->lim, sums, e);
	for (size_t k = 0; k < n_parts; k++) {
		if (!rc)
			rc = whole_hand_out(sums[k], series, parts[k].until_ms, x->to, e);
		stackvec_unref(sums[k]);
	}
	free(sums);
	free(parts);
	free(p);
	return rc;
}

static int whole_cells(struct source_view *v, const uint64_t *refs, size_t n, int64_t after_ms, int64_t until_ms, const struct source_limits *lim,
		       const struct source_cells_reader *to, struct err *e)
{
	struct source_limits one_thread = lim ? *lim : (struct source_limits){ 0 }; /* cells are handed out as by one worker */
	one_thread.pool = NULL;
	struct whole_cells_of x = { v, refs, &one_thread, to };
	return whole_of(v)->real->profiles(v, refs, n, after_ms, until_ms, &one_thread, whole_profiles, &x, e);
}

static int whole_open(struct source *s, struct source_view **ret, struct err *e)
{
	struct whole_source *w = (struct whole_source *)s;
	int rc = w->of->open(w->of, ret, e);
	if (rc)
		return rc;
	w->real = (*ret)->ops;
	w->ops = *w->real;
	w->ops.merge = whole_merge;
	w->ops.sums = whole_sums;
	w->ops.shares = whole_shares;
	w->ops.cells = whole_cells;
	w->ops.matches = NULL; /* so that the engine asks for sums where it needs a rate of one function */
	(*ret)->ops = &w->ops;
	return 0;
}

void whole_source_init(struct whole_source *w, struct source *of)
{
	*w = (struct whole_source){ .base = { whole_open }, .of = of };
}
