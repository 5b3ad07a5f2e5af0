/* SPDX-License-Identifier: Apache-2.0 */
/* Selectors: the newest sample in the look-back at each step, and ranges. All samples of a series that any step can see are read once (fetch.h). */
#include <limits.h>

#include "promql-like/eval/fetch.h"
#include "promql-like/eval/pwindow.h"

/* The result of an instant selector: values, or the samples' times. */
struct instant {
	const struct time_mods *m;
	const struct span *sp;
	bool times;
};

static int64_t floor_div(int64_t a, int64_t b)
{
	return a / b - (a % b < 0);
}

/* The times a selector needs over a span. */
static void bounds(const struct time_mods *m, const struct span *sp, int64_t *first, int64_t *last)
{
	*first = mods_time(m, sp->start);
	*last = mods_time(m, span_at(sp, sp->n - 1));
}

/* ---- instant ---- */

static int newest_floats(struct eval *q, const struct instant *in, const struct fetched *f, struct value_series *out,
			 struct err *e)
{
	const struct time_mods *m = in->m;
	const struct span *sp = in->sp;
	size_t k = 0;
	for (size_t i = 0; i < sp->n; i++) {
		int64_t t = mods_time(m, span_at(sp, i));
		while (k < f->n_pts && f->pts[k].t_ms <= t)
			k++;
		const struct point *p = k ? &f->pts[k - 1] : NULL;
		int rc = eval_check_at(q, i + 1, e);
		if (rc)
			return rc;
		if (!p || p->t_ms <= t - q->lookback_ms || value_is_stale(p->v))
			continue;
		rc = series_push(q, out, span_at(sp, i), in->times ? (double)p->t_ms / 1000 : p->v, NULL, e);
		if (rc)
			return rc;
	}
	return 0;
}

/* Smoothed: on the line between the samples around each moment; after the last one its value. */
static int smooth_floats(struct eval *q, const struct instant *in, const struct fetched *f, struct value_series *out, struct err *e)
{
	size_t lo = 0, hi = 0;
	int rc = 0;
	for (size_t i = 0; i < in->sp->n && !rc; i++) {
		int64_t t = mods_time(in->m, span_at(in->sp, i));
		window_slide(f->pts, f->n_pts, &lo, &hi, t - q->lookback_ms, t + q->lookback_ms);
		rc = eval_check_at(q, i + 1, e);
		const struct point *before = NULL, *after = NULL;
		for (size_t k = lo; k < hi && !after; k++) {
			if (value_is_stale(f->pts[k].v))
				continue;
			if (f->pts[k].t_ms >= t)
				after = &f->pts[k];
			else
				before = &f->pts[k];
		}
		double v = before ? before->v : 0;
		if (rc)
			return rc;
		if (after && after->t_ms == t)
			v = after->v;
		else if (!before)
			continue;
		else if (after)
			v += (after->v - v) * (double)(t - before->t_ms) / (double)(after->t_ms - before->t_ms);
		rc = series_push(q, out, span_at(in->sp, i), v, NULL, e);
	}
	return rc;
}

/* Dropped with a warning; an error if there is nothing else. */
static int smooth_profiles(struct eval *q, const struct node *n, const struct ptype *type, size_t *dropped, size_t all, struct err *e)
{
	struct buf name = { 0 };
	char place[32];
	int rc = 0;
	ptype_format(type, &name);
	if (++*dropped == all)
		rc = err_set(e, ERR_EXECUTION, "there is no line between profiles such as %s: leave out smoothed", name.ptr);
	else
		eval_note(q, false, "PromQL warning: dropped: there is no line between profiles such as %s: leave out smoothed (%s)", name.ptr,
			  eval_place(q, n->start, place));
	buf_free(&name);
	return rc;
}

static int profile_of_one(const struct ptype *type, const struct source_profile *v, uint64_t ref, struct lazy_profile **ret, struct err *e)
{
	struct lazy_profile *p = lazy_profile_new(type, v->period);
	p->covered_s = (double)v->duration_ns / 1e9;
	p->moment = type->kind != PROFILE_GAUGE;
	int rc = lazy_side_add_stored(&p->a, ref, v->t_ms - 1, v->t_ms, v->total, 1, e);
	if (rc) {
		lazy_profile_unref(p);
		return rc;
	}
	*ret = p;
	return 0;
}

static int newest_profiles(struct eval *q, const struct instant *in, const struct chosen *c, const struct fetched *f,
			   struct value_series *out, struct err *e)
{
	const struct time_mods *m = in->m;
	const struct span *sp = in->sp;
	size_t k = 0;
	const struct source_profile *made = NULL;
	for (size_t i = 0; i < sp->n; i++) {
		int64_t t = mods_time(m, span_at(sp, i));
		while (k < f->n_vp && f->vp[k].t_ms <= t)
			k++;
		const struct source_profile *v = k ? &f->vp[k - 1] : NULL;
		int rc = eval_check_at(q, i + 1, e);
		if (rc)
			return rc;
		if (!v || v->t_ms <= t - q->lookback_ms || v->stale)
			continue;
		struct lazy_profile *p = NULL;
		if (in->times) {
			rc = series_push(q, out, span_at(sp, i), (double)v->t_ms / 1000, NULL, e);
			if (rc)
				return rc;
			continue;
		}
		if (made == v) /* the same as at the step before */
			p = lazy_profile_ref(out->s[out->n - 1].p);
		else
			rc = profile_of_one(c->type, v, f->refs ? f->refs[k - 1] : f->ref, &p, e);
		if (rc)
			return rc;
		made = v;
		rc = series_push(q, out, span_at(sp, i), lazy_profile_value(p), p, e);
		if (rc)
			return rc;
	}
	return 0;
}

static int eval_instant(struct eval *q, struct node *n, const struct span *sp, bool times, struct value *ret,
			struct err *e)
{
	const struct time_mods *m = &n->sel.mods;
	struct instant in = { m, sp, times };
	int64_t first, last;
	struct fetch_choice c;
	struct fetched *f = NULL;
	bounds(m, sp, &first, &last);
	bool smooth = m->edges == EDGES_SMOOTHED && !times;
	size_t profiles = 0;
	if (smooth)
		last += q->lookback_ms;
	int rc = choice_select(q, &n->sel, first - q->lookback_ms, last, &c, e);
	if (!rc)
		rc = fetch_all(q, &c, &(struct fetch_wanted){ .after = first - q->lookback_ms, .until = last }, &f, e);
	struct value v;
	value_start(q, &v, PROMQL_VECTOR);
	for (size_t i = 0; !rc && i < c.n; i++) {
		struct value_series *out = value_add(&v, c.c[i].labels, false);
		rc = eval_check_at(q, i, e);
		if (rc)
			break;
		if (smooth && c.c[i].type) {
			rc = smooth_profiles(q, n, c.c[i].type, &profiles, c.n, e);
			continue;
		}
		rc = c.c[i].type ? newest_profiles(q, &in, &c.c[i], &f[i], out, e)
		   : smooth ? smooth_floats(q, &in, &f[i], out, e) : newest_floats(q, &in, &f[i], out, e);
	}
	uint64_t n_samples = 0;
	for (size_t i = 0; i < v.n; i++)
		n_samples += v.s[i].n;
	taken_count(q, &(struct taken){ n_samples, n_samples, 0 }, false);
	if (f)
		fetched_free(f, c.n);
	choice_free(&c);
	return value_finish(&v, rc, ret);
}

int eval_selector(struct eval *q, struct node *n, const struct span *sp, struct value *ret, struct err *e)
{
	return eval_instant(q, n, sp, false, ret, e);
}

int eval_selector_times(struct eval *q, struct node *n, const struct span *sp, struct value *ret, struct err *e)
{
	return eval_instant(q, n, sp, true, ret, e);
}

/* ---- ranges ---- */

static void keep_fetched(struct rseries *s, struct fetched *f)
{
	s->held = f->held;
	f->held.bytes = 0;
	if (!s->type) {
		size_t n = 0;
		for (size_t i = 0; i < f->n_pts; i++)
			if (!value_is_stale(f->pts[i].v))
				f->pts[n++] = f->pts[i];
		s->pts = TAKE_PTR(f->pts);
		s->n = n;
		return;
	}
	s->n_vp = f->n_vp;
	s->ref = f->ref;
	s->near = f->near;
	s->cover = TAKE_PTR(f->cover);
	s->n_cover = f->n_cover;
	s->points = f->points;
	f->points = (struct source_points){ 0 };
	s->vp = TAKE_PTR(f->vp);
	s->refs = TAKE_PTR(f->refs);
}

void rseries_points(struct rseries *s)
{
	if (!s->vp || s->pts)
		return;
	struct lazy_profile like = { .type = s->type };
	double factor = lazy_profile_factor(&like);
	s->pts = xreallocarray(NULL, s->n_vp + 1, sizeof *s->pts);
	for (size_t i = 0; i < s->n_vp; i++)
		if (!s->vp[i].stale)
			s->pts[s->n++] = (struct point){ s->vp[i].t_ms, lazy_profile_in_base((double)s->vp[i].total, factor, 0) };
}

void rseries_release(struct rseries *s)
{
	held_lists_give(&s->held);
	free(s->pts);
	source_points_release(&s->points);
	free(s->vp);
	free(s->refs);
	source_covers_free(s->cover, s->n_cover);
}

static bool of_one_type(const struct fetch_choice *c)
{
	for (size_t i = 0; i < c->n; i++)
		if (!c->c[i].type || !ptype_eq(c->c[i].type, c->c[0].type))
			return false;
	return true;
}

/* Whether the sums of a series are sufficient. */
static bool can_cover(const struct eval *q, const struct fetch_choice *c)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->c[i].n > 1)
			return false;
	return q->view->ops->covers && of_one_type(c) && c->n && c->c[0].type->kind != PROFILE_GAUGE;
}

/* The windows of the steps, if they are one after the other and it is enough to know what each comes to; else none. */
static struct source_tiles tiles_of(const struct eval *q, const struct fetch_choice *c, const struct range_vector *r, const struct span *sp, int64_t after)
{
	bool rows = sp->n > 1 && r->range_ms == sp->step && r->mods->at == AT_NONE;
	if (!can_cover(q, c) || r->range_ms <= 0 || r->mods->edges == EDGES_SMOOTHED || !(sp->n == 1 || rows))
		return (struct source_tiles){ 0 };
	return (struct source_tiles){ after, r->range_ms, sp->n };
}

static int load_plain(struct eval *q, struct node *n, const struct span *sp, bool covers, struct range_vector *r, struct err *e)
{
	struct node_selector *sel = &n->range.sel->sel;
	int64_t first, last;
	struct fetch_choice c;
	struct fetched *f = NULL;
	r->range_ms = n->range.ms;
	r->mods = &sel->mods;
	bounds(r->mods, sp, &first, &last);
	/* A profile before the range may cover into it: look back for it too. */
	int64_t after = first - r->range_ms, further = after - q->lookback_ms;
	if (sel->mods.edges == EDGES_SMOOTHED)
		last += q->lookback_ms;
	int rc = choice_select(q, sel, further, last, &c, e);
	struct fetch_wanted want = { .after = further, .until = last };
	if (!rc && covers)
		want.tiles = tiles_of(q, &c, r, sp, after);
	if (!rc)
		rc = fetch_all(q, &c, &want, &f, e);
	if (!rc) {
		r->s = xcalloc(c.n + 1, sizeof *r->s);
		for (size_t i = 0; i < c.n; i++) {
			struct rseries *s = &r->s[r->n++];
			*s = (struct rseries){ .labels = c.c[i].labels, .type = c.c[i].type };
			keep_fetched(s, &f[i]);
		}
		fetched_free(f, c.n);
	}
	choice_free(&c);
	return rc;
}

struct each_job {
	const struct range_vector *r;
	int (*fn)(void *arg, const struct range_vector *r, size_t i, struct rseries *s, struct err *e);
	void *arg;
};

static int each_one(void *arg, size_t i, struct fetched *f, struct err *e)
{
	const struct each_job *j = arg;
	struct rseries s = j->r->s[i];
	keep_fetched(&s, f);
	int rc = j->fn(j->arg, j->r, i, &s, e);
	rseries_release(&s);
	return rc;
}

int range_each(struct eval *q, struct node *n, const struct span *sp, enum range_need need, void (*prepare)(void *arg, const struct range_vector *r),
	       int (*fn)(void *arg, const struct range_vector *r, size_t i, struct rseries *s, struct err *e), void *arg, bool *ret_done,
	       struct err *e)
{
	struct node_selector *sel = &n->range.sel->sel;
	struct range_vector r = { .range_ms = n->range.ms, .mods = &sel->mods };
	int64_t first, last;
	struct fetch_choice c;
	bounds(r.mods, sp, &first, &last);
	int64_t after = first - r.range_ms - q->lookback_ms;
	int rc = choice_select(q, sel, after, last, &c, e);
	*ret_done = !rc && of_one_type(&c);
	if (*ret_done) {
		r.n = c.n;
		r.s = xcalloc(c.n + 1, sizeof *r.s);
		for (size_t i = 0; i < c.n; i++)
			r.s[i] = (struct rseries){ .labels = c.c[i].labels, .type = c.c[i].type };
		prepare(arg, &r);
		struct source_windows w = { first, r.range_ms, sp->step, r.mods->at == AT_NONE ? sp->n : 1 };
		struct fetch_wanted want = { .after = after, .until = last, .windows = need != RANGE_PROFILES ? &w : NULL, .within = need == RANGE_SUMS };
		rc = fetch_each(q, &c, &want, each_one, &(struct each_job){ &r, fn, arg }, e);
		free(r.s);
	}
	choice_free(&c);
	return rc;
}

int range_select(struct eval *q, struct node *n, const struct span *sp, struct range_vector *ret, bool *ret_done, struct err *e)
{
	struct node_selector *sel = &n->range.sel->sel;
	int64_t first, last;
	struct fetch_choice c;
	*ret = (struct range_vector){ .range_ms = n->range.ms, .mods = &sel->mods };
	bounds(ret->mods, sp, &first, &last);
	int rc = choice_select(q, sel, first - ret->range_ms - q->lookback_ms, last, &c, e);
	*ret_done = !rc && of_one_type(&c);
	for (size_t i = 0; i < c.n && *ret_done; i++)
		*ret_done = c.c[i].n == 1;
	if (*ret_done) {
		ret->s = xcalloc(c.n + 1, sizeof *ret->s);
		for (; ret->n < c.n; ret->n++) {
			const struct chosen *x = &c.c[ret->n];
			ret->s[ret->n] = (struct rseries){ .labels = x->labels, .type = x->type, .ref = x->parts[0]->ref };
		}
	}
	choice_free(&c);
	return rc;
}

static int load_subquery(struct eval *q, struct node *n, const struct span *sp, struct range_vector *r, struct err *e)
{
	int64_t step = n->sub.step_ms ? n->sub.step_ms : q->subquery_step_ms, first, last;
	r->subquery = true;
	r->range_ms = n->sub.range_ms;
	r->mods = &n->sub.mods;
	bounds(r->mods, sp, &first, &last);
	int64_t from = floor_div(first - r->range_ms, step) * step;
	if (from <= first - r->range_ms) /* the range is open on the left */
		from += step;
	if (from > last)
		return 0;
	struct span inner = { from, last, step, (size_t)((last - from) / step) + 1 };
	if (q->max_samples && inner.n > q->max_samples)
		return err_set(e, ERR_LIMIT, "a subquery of %zu steps would load too many samples: the limit is %llu (--query.max-samples)",
			       inner.n, (unsigned long long)q->max_samples);
	inner.end = span_at(&inner, inner.n - 1);
	uint64_t counted = atomic_load(&q->counted);
	int rc = eval_node(q, n->sub.expr, &inner, &r->inner, e);
	if (rc)
		return rc;
	atomic_store(&q->counted, counted); /* windows count them when they take them */
	r->s = xcalloc(r->inner.n + 1, sizeof *r->s);
	for (size_t i = 0; i < r->inner.n; i++) {
		struct value_series *s = &r->inner.s[i];
		struct rseries *out = &r->s[r->n++];
		*out = (struct rseries){ .labels = s->labels, .drop_name = s->drop_name, .smp = s->s, .n = s->n };
		out->pts = xreallocarray(NULL, s->n + 1, sizeof *out->pts);
		for (size_t k = 0; k < s->n; k++) {
			out->pts[k] = (struct point){ s->s[k].t_ms, s->s[k].v };
			if (s->s[k].p)
				out->type = s->s[k].p->type;
		}
	}
	return 0;
}

static int load(struct eval *q, struct node *n, const struct span *sp, bool covers, struct range_vector *ret, struct err *e)
{
	*ret = (struct range_vector){ 0 };
	n = node_unwrap(n);
	int rc = n->kind == NODE_SUBQUERY ? load_subquery(q, n, sp, ret, e) : load_plain(q, n, sp, covers, ret, e);
	if (rc)
		range_free(ret);
	return rc;
}

int range_load(struct eval *q, struct node *n, const struct span *sp, struct range_vector *ret, struct err *e)
{
	return load(q, n, sp, false, ret, e);
}

int range_load_covers(struct eval *q, struct node *n, const struct span *sp, struct range_vector *ret, struct err *e)
{
	return load(q, n, sp, true, ret, e);
}

void range_free(struct range_vector *r)
{
	for (size_t i = 0; i < r->n; i++)
		rseries_release(&r->s[i]);
	free(r->s);
	value_free(&r->inner);
	*r = (struct range_vector){ 0 };
}

void window_slide(const struct point *pts, size_t n, size_t *lo, size_t *hi, int64_t from, int64_t to)
{
	while (*hi < n && pts[*hi].t_ms <= to)
		(*hi)++;
	while (*lo < *hi && pts[*lo].t_ms <= from)
		(*lo)++;
}

/* The points between the ends, and a value at each end: the newest before the range and the last in it, or, smoothed, on the
 * lines there. */
static int push_between_edges(struct eval *q, const struct rseries *s, uint8_t edges, int64_t from, int64_t to, struct value_series *out,
			      struct err *e)
{
	size_t lo = 0, hi = 0;
	bool smooth = edges == EDGES_SMOOTHED;
	window_slide(s->pts, s->n, &lo, &hi, from - q->lookback_ms, to + (smooth ? q->lookback_ms : 0));
	if (lo == hi)
		return 0;
	size_t first = lo, last = hi - 1;
	while (first + 1 < hi && s->pts[first + 1].t_ms <= from)
		first++;
	while (smooth && last > lo && s->pts[last - 1].t_ms >= to)
		last--;
	if (s->pts[last].t_ms <= from)
		return 0;
	const struct point *a = &s->pts[first], *b = &s->pts[last];
	double left = a->v, right = b->v;
	if (smooth && a->t_ms < from)
		left += (a[1].v - a->v) * (double)(from - a->t_ms) / (double)(a[1].t_ms - a->t_ms);
	if (smooth && b->t_ms > to && last > lo)
		right = b[-1].v + (b->v - b[-1].v) * (double)(to - b[-1].t_ms) / (double)(b->t_ms - b[-1].t_ms);
	int rc = series_push(q, out, from, left, NULL, e);
	for (; a <= b && !rc; a++)
		if (a->t_ms > from && a->t_ms < to)
			rc = series_push(q, out, a->t_ms, a->v, NULL, e);
	return rc ? rc : series_push(q, out, to, right, NULL, e);
}

/* A range vector as an answer: its points as they are stored. */
int eval_matrix(struct eval *q, struct node *n, int64_t t, struct value *ret, struct err *e)
{
	struct span one = { t, t, 1, 1 };
	struct range_vector r;
	int rc = range_load(q, n, &one, &r, e);
	if (rc)
		return rc;
	struct value v;
	value_start(q, &v, PROMQL_MATRIX);
	int64_t to = mods_time(r.mods, t), from = to - r.range_ms;
	for (size_t i = 0; i < r.n && !rc; i++) {
		struct rseries *s = &r.s[i];
		struct value_series *out = value_add(&v, s->labels, s->drop_name);
		if (r.mods->edges && !s->type) {
			rc = push_between_edges(q, s, r.mods->edges, from, to, out, e);
			continue;
		}
		for (size_t k = 0; k < s->n && !rc; k++)
			if (!s->vp && s->pts[k].t_ms > from && s->pts[k].t_ms <= to)
				rc = series_push(q, out, s->pts[k].t_ms, s->pts[k].v, s->smp ? lazy_profile_ref(s->smp[k].p) : NULL, e);
		for (size_t k = 0; k < s->n_vp && !rc; k++) {
			struct lazy_profile *p;
			if (s->vp[k].stale || s->vp[k].t_ms <= from || s->vp[k].t_ms > to)
				continue;
			rc = profile_of_one(s->type, &s->vp[k], s->refs ? s->refs[k] : s->ref, &p, e);
			if (!rc)
				rc = series_push(q, out, s->vp[k].t_ms, lazy_profile_value(p), p, e);
		}
	}
	struct taken taken = { 0 };
	for (size_t i = 0; i < v.n; i++)
		taken_window(&taken, 0, v.s[i].n), taken.seen = 0;
	taken_count(q, &taken, r.subquery);
	range_free(&r);
	return value_finish(&v, rc, ret);
}
