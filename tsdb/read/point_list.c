/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/read/point_list.h"

#include <stdlib.h>

#include "base/alloc.h"

/* ---- runs ---- */

static int64_t point_begin(const struct source_point *p)
{
	return p->t_ms - p->cover_ms;
}

static void run_put(struct point_list *l)
{
	if (!l->run.ahead)
		return;
	vec_push(&l->v, l->run);
	l->has_runs = true;
	l->run.ahead = 0; /* its size was counted when it grew */
}

/* Adds profiles to the run. */
static void run_add(struct point_list *l, int64_t begin_ms, int64_t t_ms, int64_t total, uint32_t n)
{
	struct source_point *r = &l->run;
	point_list_count(l, total);
	if (n > (uint32_t)SOURCE_POINT_AHEAD_MAX - r->ahead)
		run_put(l);
	if (r->ahead) {
		begin_ms = MIN(begin_ms, point_begin(r));
		total = (int64_t)((uint64_t)total + (uint64_t)r->total); /* it fits, or they are not plain */
		n += r->ahead;
	}
	*r = (struct source_point){ t_ms, total, (uint32_t)MIN(t_ms - begin_ms, (int64_t)UINT32_MAX), 1, n & SOURCE_POINT_AHEAD_MAX };
}

/* The profile behind the run joins it, unless a window cuts it or has it as its newest, as the next one is behind an edge. */
static void run_settle_last(struct point_list *l, int64_t next_ms)
{
	struct source_point p = l->last;
	if (!p.cover_ms)
		return;
	l->last.cover_ms = 0;
	if (next_ms > p.t_ms && !source_windows_edge(l->windows, point_begin(&p) + 1, next_ms)) {
		run_add(l, point_begin(&p), p.t_ms, p.total, 1);
		return;
	}
	run_put(l);
	point_list_add(l, p);
}

bool point_list_can_join(const struct point_list *l, const struct point_hour *h)
{
	return l->windows && h->n <= SOURCE_POINT_AHEAD_MAX &&
	       (h->n == 1 || !source_windows_edge(l->windows, MIN(h->others_after_ms + 1, h->first.t_ms), h->last.t_ms));
}

void point_list_join(struct point_list *l, const struct point_hour *h)
{
	if (l->last.cover_ms && l->last.t_ms >= h->first.t_ms) /* not behind what was added before */
		point_list_flush(l);
	run_settle_last(l, h->first.t_ms);
	if (h->n > 1) {
		l->last = h->first;
		run_settle_last(l, h->last.t_ms);
	}
	if (h->n > 2)
		run_add(l, h->others_after_ms, h->last.t_ms - 1, h->total, h->n - 2);
	l->last = h->last;
	if (h->has_marker)
		point_list_add_marker(l, h->marker_ms);
}

void point_list_flush(struct point_list *l)
{
	struct source_point p = l->last;
	run_put(l);
	if (p.cover_ms)
		point_list_add(l, p);
	l->last.cover_ms = 0;
}

/* ---- the list ---- */

void point_list_reset(struct point_list *l)
{
	l->v.n = 0;
	l->size = 0;
	l->plain = true;
	l->has_runs = l->has_markers = false;
	l->run.ahead = 0;
	l->last.cover_ms = 0;
}

void point_list_release(struct point_list *l)
{
	vec_free(&l->v);
}

static int point_by_time(const void *a, const void *b)
{
	const struct source_point *x = a, *y = b;
	if (x->t_ms != y->t_ms)
		return x->t_ms < y->t_ms ? -1 : 1;
	return (int)y->is_run - (int)x->is_run; /* the newest is no run */
}

static void points_sort(struct point_list *l)
{
	for (size_t i = 1; i < l->v.n; i++)
		if (l->v.v[i - 1].t_ms > l->v.v[i].t_ms) {
			qsort(l->v.v, l->v.n, sizeof *l->v.v, point_by_time);
			return;
		}
}

/* A profile reaches ahead to the marker that follows it. */
static void points_drop_markers(struct point_list *l)
{
	size_t n = 0;
	for (size_t i = 0; i < l->v.n; i++) {
		struct source_point p = l->v.v[i], *before = n ? &l->v.v[n - 1] : NULL;
		if (p.cover_ms)
			l->v.v[n++] = p;
		else if (before && !before->is_run)
			before->ahead = (uint32_t)MIN((int64_t)before->ahead, p.t_ms - before->t_ms) & SOURCE_POINT_AHEAD_MAX;
	}
	l->v.n = n;
}

static uint32_t *points_count(const struct source_point *v, size_t n)
{
	uint32_t *before = xreallocarray(NULL, n + 1, sizeof *before);
	before[0] = 0;
	for (size_t i = 0; i < n; i++)
		before[i + 1] = before[i] + (v[i].is_run ? v[i].ahead : 1);
	return before;
}

void point_list_finish(struct point_list *l, struct source_points *ret)
{
	*ret = (struct source_points){ .plain = l->plain && l->size < SOURCE_POINTS_MOST };
	if (ret->plain) {
		points_sort(l);
		if (l->has_markers)
			points_drop_markers(l);
		if (l->has_runs)
			ret->before = points_count(l->v.v, l->v.n);
		vec_reserve(&l->v, l->v.n + 1);
		ret->v = l->v.v;
		ret->n = l->v.n;
		memset(&l->v, 0, sizeof l->v);
	}
	vec_free(&l->v);
}
