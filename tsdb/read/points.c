/* SPDX-License-Identifier: Apache-2.0 */
/* What rates read of a series: its points (source.h). Of hours in the bucket that no window cuts the generation knows enough (part_ends.h); of
 * others the stamps are read, in columns. Runs on query threads. */
#include "base/alloc.h"
#include "tsdb/part/damage.h"
#include "tsdb/part/part_ends.h"
#include "tsdb/read/point_list.h"
#include "tsdb/read/scratch.h"
#include "tsdb/read/view_cached.h"
#include "tsdb/version/tombstones.h"

struct points_reading {
	struct tsdb_view *v;
	int64_t after_ms, until_ms;
	const struct source_limits *lim;
	struct point_list list;
	uint64_t n;             /* profiles */
	bool lacks;             /* something was not on this disk */
};

static struct source_point point_of(int64_t t_ms, int64_t total, uint32_t cover_ms, uint32_t interval_ms)
{
	return (struct source_point){ t_ms, total, cover_ms, 0, interval_ms & SOURCE_POINT_AHEAD_MAX };
}

static inline void points_add(struct points_reading *r, bool stale, double weight, struct source_point p, uint32_t interval_ms)
{
	if (stale) {
		point_list_add_marker(&r->list, p.t_ms);
		return;
	}
	r->list.plain &= weight == 1 && p.cover_ms > 0 && interval_ms <= SOURCE_POINT_AHEAD_MAX;
	point_list_add(&r->list, p);
	r->n++;
}

/* ---- of the head ---- */

static void points_add_window(struct points_reading *r, struct window *w, uint32_t series)
{
	rwlock_read(&w->lock);
	const struct chunk *c = r->list.plain ? window_chunk(w, series) : NULL;
	size_t visible = c ? chunk_visible(c, r->v->seq) : 0;
	read_tally_add(visible * sizeof(struct chunk_row));
	vec_reserve(&r->list.v, r->list.v.n + visible);
	for (size_t i = 0; i < visible; i++) {
		const struct chunk_row *x = &c->rows.v[i];
		if (x->t_ms <= r->after_ms || x->t_ms > r->until_ms)
			continue;
		struct sample_meta m = x->stale ? (struct sample_meta){ 0 } : c->metas.v[x->meta];
		points_add(r, x->stale, source_weight(m.interval_ms, m.asked_ms), point_of(x->t_ms, x->total, x->cover_ms, m.interval_ms), m.interval_ms);
	}
	rwlock_unlock(&w->lock);
}

/* ---- of parts ---- */

static void points_add_columns(struct points_reading *r, const struct pstate *s, const struct part *p, uint32_t series, const struct sealed_columns *c)
{
	bool masked = tombstones_touch(s, series, part_start_ms(p), part_end_ms(p));
	size_t k = 0;
	for (size_t i = 0; i < c->points.n; i++) {
		int64_t t = sealed_stamp(&c->points, i);
		while (k < c->stale.n && c->stale.v[k] < i)
			k++;
		if (t <= r->after_ms || t > r->until_ms || (masked && tombstones_hide(s, p, series, t)))
			continue;
		uint32_t interval = c->same_interval ? c->interval_ms : c->intervals.v[i];
		points_add(r, k < c->stale.n && c->stale.v[k] == i, c->same_weight ? c->weight : c->weights.v[i],
			   point_of(t, c->points.totals.v[i], c->same_cover ? c->cover_ms : c->covers.v[i], interval), interval);
	}
}

/* Adds an hour without its stamps. False: they are needed. */
static bool points_join_hour(struct points_reading *r, const struct pstate *s, struct part *p, uint32_t series)
{
	const struct part_series *x = part_find(p, series);
	int64_t start = part_start_ms(p);
	if (!p->lack || !r->list.windows || x->is_float || start + x->min_ms <= r->after_ms || start + x->max_ms > r->until_ms ||
	    tombstones_touch(s, series, start, part_end_ms(p)))
		return false;
	/* With an edge among its profiles it cannot be joined, so that the part's ends need not be decoded for it. */
	if (!atomic_load(&p->ends) && x->max_ms > x->min_ms && source_windows_edge(r->list.windows, start + x->min_ms, start + x->max_ms))
		return false;
	const struct part_covers *covers = part_covers_of(p);
	const struct part_cover *cover = &covers->v[x - p->series.v];
	const struct part_end *end = part_ends_known(p, covers, x);
	if (!end)
		return false;
	struct point_hour h = { .first = point_of(start + x->min_ms, end->first_total, end->first_cover_ms, 0),
				.last = point_of(start + end->last_ms, end->last_total, end->last_cover_ms, end->interval_ms),
				.n = cover->n - cover->n_stale, .others_after_ms = start + end->others_after_ms, .has_marker = cover->n_stale, .marker_ms = start + x->max_ms };
	h.total = h.n > 1 ? cover->total - end->first_total - end->last_total : 0;
	if (!point_list_can_join(&r->list, &h))
		return false;
	point_list_join(&r->list, &h);
	r->n += h.n;
	return true;
}

static int points_add_parts(struct points_reading *r, const struct pstate *s, uint32_t series, struct err *e)
{
	struct read_scratch *w = NULL;
	int rc = 0;
	size_t i = 0;
	for (struct part *p; !rc && r->list.plain && (p = view_next_part(s, series, r->after_ms, r->until_ms, &i));) {
		if (points_join_hour(r, s, p, series))
			continue;
		if (!w)
			w = scratch_take(s->p->db->scratch_pool);
		point_list_flush(&r->list);
		rc = part_columns(p, series, &w->part, e);
		if (rc) {
			r->lacks |= damage_is_lack(p, e);
			rc = damage_pass(r->lim, p, series, e);
			continue;
		}
		size_t rows = w->part.columns.points.n, n = r->list.v.n;
		if (r->list.v.cap < n + rows) /* hours are mostly alike, and growing would copy what is there */
			vec_reserve(&r->list.v, n + rows * (p->lack ? 1 : 1 + view_parts_left(s, series, r->after_ms, r->until_ms, i)));
		points_add_columns(r, s, p, series, &w->part.columns);
	}
	point_list_flush(&r->list);
	scratch_give(s->p->db->scratch_pool, w);
	return rc;
}

/* ---- what other series will need ---- */

/* Whether a part's stamps are needed, as a window begins or ends within its hour. */
static bool part_is_cut(const struct points_reading *r, const struct part *p)
{
	return p->lack && p->level == LEVEL_HOUR && hour_meets(p->window, r->after_ms, r->until_ms) &&
	       source_windows_edge(r->list.windows, part_start_ms(p) + 1, part_end_ms(p));
}

struct series_ids {
	VEC(uint32_t) v;
};

/* The series of a partition that this query has selected. */
static void ids_selected(struct tsdb_view *v, size_t partition, struct series_ids *ret)
{
	ret->v.n = 0;
	mutex_lock(&v->lock);
	for (size_t i = 0; i < v->refs.n; i++) {
		uint32_t id = v->refs.v[i]->id[partition];
		if (id != NOT_LOOKED_UP && id != NOT_THERE)
			vec_push(&ret->v, id);
	}
	mutex_unlock(&v->lock);
}

static void want_cut_parts(const struct points_reading *r, size_t partition, struct series_ids *ids)
{
	const struct pstate *s = r->v->v->p[partition];
	bool selected = false;
	struct err e;
	for (size_t i = 0; i < s->n_parts; i++) {
		const struct part *p = s->parts[i];
		if (!part_is_cut(r, p))
			continue;
		if (!selected)
			ids_selected(r->v, partition, ids);
		selected = true;
		for (size_t k = 0; k < ids->v.n; k++)
			if (part_find(p, ids->v.v[k])) {
				IGNORE(part_need(p, PART_TOTALS, ids->v.v[k], 0, &e)); /* now it is wanted, if it is not here */
				break;
			}
	}
}

/* Series are read one by one, but many of them need the same hours, and others other hours: when one lacks something, all are fetched together. */
static void points_want_all(const struct points_reading *r)
{
	struct tsdb_view *v = r->v;
	struct series_ids ids = { .v = { 0 } };
	mutex_lock(&v->lock);
	bool done = !memcmp(&v->points_wanted, r->list.windows, sizeof v->points_wanted);
	v->points_wanted = *r->list.windows;
	mutex_unlock(&v->lock);
	for (size_t p = 0; p < v->v->n && !done; p++)
		if (v->cached[p] && view_is_open(v, p) && partition_meets(v->v->p[p]->p, r->after_ms, r->until_ms))
			want_cut_parts(r, p, &ids);
	vec_free(&ids.v);
}

/* ---- the call ---- */

static int points_read(struct points_reading *r, uint64_t ref, struct err *e)
{
	const struct version *all = r->v->v;
	int rc = 0;
	point_list_reset(&r->list);
	r->n = 0;
	if (!view_has_ref(r->v, ref))
		return view_bad_ref(ref, e);
	for (size_t p = 0; p < all->n && !rc; p++) {
		const struct pstate *s = all->p[p];
		uint32_t id = partition_meets(s->p, r->after_ms, r->until_ms) ? view_series(r->v, ref, p) : NOT_THERE;
		if (id == NOT_THERE)
			continue;
		rc = points_add_parts(r, s, id, e);
		for (size_t i = 0; i < s->n_windows && !rc; i++)
			if (hour_meets(s->windows[i]->hour, r->after_ms, r->until_ms))
				points_add_window(r, s->windows[i], id);
	}
	return rc ? rc : limits_check(r->lim, r->n, e);
}

struct points_call {
	struct tsdb_view *v;
	const uint64_t *refs;
	int64_t after_ms, until_ms;
	const struct source_windows *windows;
	const struct source_limits *lim;
	source_points_fn fn;
	void *arg;
};

static int points_read_series(void *arg, size_t series, struct err *e)
{
	const struct points_call *c = arg;
	struct points_reading r = { .v = c->v, .after_ms = c->after_ms, .until_ms = c->until_ms, .list.windows = c->windows };
	struct source_points ret;
	struct view_try try;
	int rc;
	view_try_begin(&try, r.v, c->after_ms, c->until_ms, c->lim);
	r.lim = try.lim;
	do {
		r.lacks = false;
		rc = points_read(&r, c->refs[series], e);
		if (!rc && r.lacks && c->windows)
			points_want_all(&r);
	} while (view_try_again(&try, &rc, e));
	if (rc) {
		point_list_release(&r.list);
		return rc;
	}
	point_list_finish(&r.list, &ret);
	if (!ret.plain && c->lim && c->lim->samples_read)
		atomic_fetch_sub(c->lim->samples_read, r.n); /* the caller reads them once more, as profiles */
	return c->fn(c->arg, series, &ret, e);
}

int view_points(struct source_view *sv, const uint64_t *refs, size_t n, int64_t after_ms, int64_t until_ms, const struct source_windows *windows,
		const struct source_limits *lim, source_points_fn fn, void *arg, struct err *e)
{
	struct points_call c = { (struct tsdb_view *)sv, refs, after_ms, until_ms, windows, lim, fn, arg };
	return source_each(refs, n, lim, points_read_series, &c, e);
}
