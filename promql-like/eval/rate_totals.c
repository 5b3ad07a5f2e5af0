/* SPDX-License-Identifier: Apache-2.0 */
/* Rates and sums over time of which only values are looked at, of series as most are: all profiles have weight 1. Each window has the result of pwindow.c to the
 * last bit, in a loop that does nothing else: profiles that count whole are added up as integers, parts of others in order of time, and then both. So it is also
 * the same whether storage gives each profile or runs of them. */
#include "promql-like/eval/funcs.h"

struct rate_window {
	const struct source_point *p;
	size_t lo, hi;       /* stamped in (from, to] */
};

/* Of a list of profiles; NULL: not all of them are plain. */
static struct source_point *points_of(const struct source_profile *p, size_t n)
{
	struct source_point *v = xreallocarray(NULL, n + 1, sizeof *v);
	uint64_t size = 0;
	bool plain = true;
	for (size_t i = 0; i < n; i++, p++) {
		plain &= !p->stale && p->weight == 1 && p->cover_ms > 0 && p->cover_ms <= UINT32_MAX && p->interval_ms >= 0 && p->interval_ms <= SOURCE_POINT_AHEAD_MAX;
		plain &= !__builtin_add_overflow(size, p->total < 0 ? 0 - (uint64_t)p->total : (uint64_t)p->total, &size);
		v[i] = (struct source_point){ p->t_ms, p->total, (uint32_t)p->cover_ms, 0, (uint32_t)p->interval_ms & SOURCE_POINT_AHEAD_MAX };
	}
	if (plain && size < SOURCE_POINTS_MOST)
		return v;
	free(v);
	return NULL;
}

static inline void slide(struct rate_window *w, size_t n, int64_t from, int64_t to)
{
	while (w->hi < n && w->p[w->hi].t_ms <= to)
		w->hi++;
	while (w->lo < w->hi && w->p[w->lo].t_ms <= from)
		w->lo++;
}

/* The part of one within the window; returns its duration. x->f: of parts alone. */
static inline int64_t add_part(const struct source_point *p, int64_t ahead_ms, int64_t from, int64_t to, struct total *x)
{
	int64_t ms = MIN(p->t_ms + ahead_ms, to) - MAX(p->t_ms - p->cover_ms, from);
	if (ms <= 0)
		return 0;
	if (ms == p->cover_ms) {
		x->i = (int64_t)((uint64_t)x->i + (uint64_t)p->total); /* it fits, or the series is not usual */
	} else {
		x->is_float = true;
		x->f += (double)p->total * ((double)ms / (double)p->cover_ms);
	}
	return ms;
}

static struct total window_total(const struct rate_window *w, int64_t from, int64_t to)
{
	struct total x = { 0 };
	int64_t ms = 0;
	if (!w->hi)
		return x;
	size_t i = MIN(w->lo, w->hi - 1), newest = w->hi - 1;
	for (; i < newest && w->p[i].t_ms - w->p[i].cover_ms < from; i++)
		ms += add_part(&w->p[i], 0, from, to, &x);
	for (; i < newest && w->p[i].t_ms - w->p[i].cover_ms >= from; i++) { /* most */
		x.i = (int64_t)((uint64_t)x.i + (uint64_t)w->p[i].total);
		ms += w->p[i].cover_ms;
	}
	for (; i < newest; i++)
		ms += add_part(&w->p[i], 0, from, to, &x);
	ms += add_part(&w->p[newest], w->p[newest].ahead, from, to, &x);
	x.f += (double)x.i;
	x.there = ms > 0;
	return x;
}

int rate_totals(struct eval *q, const struct range_vector *r, const struct rseries *s, const struct span *sp, bool per_second, struct total *out,
		double *ret_per_s, bool *ret_done, struct err *e)
{
	struct source_point *own AUTOFREE = s->points.plain ? NULL : points_of(s->vp, s->n_vp);
	struct rate_window w = { .p = s->points.plain ? s->points.v : own };
	struct taken taken = { 0 };
	int rc = 0;
	*ret_per_s = per_second ? (double)r->range_ms / 1000 : 0;
	*ret_done = w.p != NULL;
	for (size_t i = 0; i < sp->n && !rc && w.p; i++) {
		int64_t to = mods_time(r->mods, span_at(sp, i)), from = to - r->range_ms;
		slide(&w, s->points.plain ? s->points.n : s->n_vp, from, to);
		taken_window(&taken, source_points_before(&s->points, w.lo), source_points_before(&s->points, w.hi));
		out[i] = window_total(&w, from, to);
		rc = i % 256 ? 0 : eval_check(q, e);
	}
	if (*ret_done && !rc)
		taken_count(q, &taken, false);
	return rc;
}

/* Windows may overlap by much: each is a difference of two sums from the first point on. */
int sum_totals(struct eval *q, const struct range_vector *r, const struct rseries *s, const struct span *sp, struct total *out, struct err *e)
{
	const struct source_points *p = &s->points;
	struct rate_window w = { .p = p->v };
	struct taken taken = { 0 };
	int64_t *before AUTOFREE = xcalloc(p->n + 1, sizeof *before); /* what the points before each come to: SOURCE_POINTS_MOST bounds it */
	int rc = 0;
	for (size_t i = 0; i < p->n; i++)
		before[i + 1] = before[i] + p->v[i].total;
	for (size_t i = 0; i < sp->n && !rc; i++) {
		int64_t to = mods_time(r->mods, span_at(sp, i));
		slide(&w, p->n, to - r->range_ms, to);
		taken_window(&taken, source_points_before(p, w.lo), source_points_before(p, w.hi));
		out[i] = (struct total){ .i = before[w.hi] - before[w.lo], .there = w.lo < w.hi };
		rc = i % 256 ? 0 : eval_check(q, e);
	}
	if (!rc)
		taken_count(q, &taken, false);
	return rc;
}
