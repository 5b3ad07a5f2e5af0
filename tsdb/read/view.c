/* SPDX-License-Identifier: Apache-2.0 */
/* A view's table of series, and the reading of one series: its floats, its profiles without stacks. Runs on query threads. */
#include "tsdb/read/view_cached.h"

#include "base/clock.h"
#include "tsdb/part/damage.h"
#include "tsdb/read/scratch.h"
#include "tsdb/version/tombstones.h"

int limits_check(const struct source_limits *lim, uint64_t read, struct err *e)
{
	struct read_tally t = read_tally;
	read_tally = (struct read_tally){ 0 };
	if (!lim)
		return 0;
	if (lim->stats) {
		atomic_fetch_add_explicit(&lim->stats->chunks, t.chunks, memory_order_relaxed);
		atomic_fetch_add_explicit(&lim->stats->bytes, t.bytes, memory_order_relaxed);
		atomic_fetch_add_explicit(&lim->stats->samples, read, memory_order_relaxed);
	}
	int rc = source_limits_check(lim, e);
	if (rc)
		return rc;
	/* Not `all = read; if (…) all += atomic_fetch_add(…, read)`: gcc 12.2 on x86-64 adds what it got to itself, not to read. */
	uint64_t before = lim->samples_read ? atomic_fetch_add(lim->samples_read, read) : 0;
	if (lim->max_samples && (before > lim->max_samples || read > lim->max_samples - before))
		return err_set(e, ERR_LIMIT, "the query reads more than %llu samples (--query.max-samples): ask for less or raise it",
			       (unsigned long long)lim->max_samples);
	return 0;
}

int view_check_bytes(uint64_t bytes, const struct source_limits *lim, struct err *e)
{
	if (lim && lim->max_bytes && bytes > lim->max_bytes)
		return err_set(e, ERR_LIMIT, "the stacks of the days that the query is about need more than %llu bytes (--query.max-bytes): ask "
			       "for fewer days or raise it", (unsigned long long)lim->max_bytes);
	return limits_check(lim, 0, e);
}

bool view_has_ref(struct tsdb_view *v, uint64_t ref)
{
	mutex_lock(&v->lock);
	bool ok = ref < v->refs.n;
	mutex_unlock(&v->lock);
	return ok;
}

int view_bad_ref(uint64_t ref, struct err *e)
{
	return err_set(e, ERR_INTERNAL, "the view has no series %llu", (unsigned long long)ref);
}

static bool same_type(const struct view_ref *r, const struct series *s)
{
	return r->type ? !s->is_float && ptype_eq(r->type, &s->type) : s->is_float;
}

uint32_t view_series(struct tsdb_view *v, uint64_t ref, size_t p)
{
	mutex_lock(&v->lock);
	struct view_ref *r = v->refs.v[ref];
	uint32_t id = r->id[p];
	mutex_unlock(&v->lock);
	if (id != NOT_LOOKED_UP)
		return id;
	if (!view_is_open(v, p))
		return NOT_THERE; /* it may be opened later */
	/* Not under the view's lock: select takes it inside dict_lock. */
	struct partition *part = query_dict_series(v->own, p);
	rwlock_read(&part->dict_lock);
	bool there = index_find(&part->index, r->labels, r->hash, &id) && same_type(r, part->index.series.v[id]);
	rwlock_unlock(&part->dict_lock);
	id = there ? id : NOT_THERE;
	mutex_lock(&v->lock);
	r->id[p] = id;
	mutex_unlock(&v->lock);
	return id;
}

/* ---- one series ---- */

static void collect_floats(const struct tsdb_view *v, struct window *w, uint32_t series, int64_t after_ms, int64_t until_ms,
			   void *list, size_t *n)
{
	struct point **out = list;
	rwlock_read(&w->lock);
	const struct fchunk *c = window_fchunk(w, series);
	if (c) {
		read_tally_add(c->points.n * sizeof *c->points.v);
		*out = xreallocarray(*out, *n + c->points.n + 1, sizeof **out);
		for (size_t i = 0; i < c->points.n; i++) {
			const struct fpoint *f = &c->points.v[i];
			if (f->seq <= v->seq && f->t_ms > after_ms && f->t_ms <= until_ms)
				(*out)[(*n)++] = (struct point){ f->t_ms, value_from_bits(f->bits) };
		}
	}
	rwlock_unlock(&w->lock);
}

struct part *view_next_part(const struct pstate *s, uint32_t series, int64_t after_ms, int64_t until_ms, size_t *i)
{
	while (*i < s->n_parts && s->parts[*i]->level == LEVEL_HOUR) {
		struct part *p = s->parts[(*i)++];
		const struct part_series *x = hour_meets(p->window, after_ms, until_ms) ? part_find(p, series) : NULL;
		if (x && part_start_ms(p) + x->max_ms > after_ms && part_start_ms(p) + x->min_ms <= until_ms)
			return p;
	}
	return NULL;
}

static int collect_sealed_floats(const struct pstate *s, uint32_t series, int64_t after_ms, int64_t until_ms, void *list,
				 size_t *n, const struct source_limits *lim, struct err *e)
{
	struct point **out = list;
	struct sealed_floats f = { 0 };
	int rc = 0;
	size_t i = 0;
	for (struct part *p; !rc && (p = view_next_part(s, series, after_ms, until_ms, &i));) {
		PART_VALUE v = { 0 };
		rc = part_get(p, PART_FLOATS, series, 0, &v, e);
		f.points.n = 0;
		if (!rc)
			rc = sealed_get_floats(v.payload, &f, e);
		if (rc) {
			rc = damage_pass(lim, p, series, e);
			continue;
		}
		*out = xreallocarray(*out, *n + f.points.n + 1, sizeof **out);
		for (size_t k = 0; k < f.points.n && !rc; k++)
			if (f.points.v[k].t_ms > after_ms && f.points.v[k].t_ms <= until_ms &&
			    !tombstones_hide(s, p, series, f.points.v[k].t_ms))
				(*out)[(*n)++] = (struct point){ f.points.v[k].t_ms, value_from_bits(f.points.v[k].bits) };
	}
	vec_free(&f.points);
	return rc;
}

struct source_profile view_head_profile(const struct chunk *c, const struct chunk_row *r)
{
	struct source_profile p = { .t_ms = r->t_ms, .stale = r->stale, .weight = 1 };
	if (r->stale)
		return p;
	const struct sample_meta *m = &c->metas.v[r->meta];
	p.duration_ns = m->duration_ns;
	p.cover_ms = r->cover_ms;
	p.interval_ms = m->interval_ms;
	p.weight = source_weight(m->interval_ms, m->asked_ms);
	p.period = m->period;
	p.total = r->total;
	return p;
}

static void collect_profiles(const struct tsdb_view *v, struct window *w, uint32_t series, int64_t after_ms,
			     int64_t until_ms, void *list, size_t *n)
{
	struct source_profile **out = list;
	rwlock_read(&w->lock);
	const struct chunk *c = window_chunk(w, series);
	if (c) {
		size_t visible = chunk_visible(c, v->seq);
		read_tally_add(c->rows.n * sizeof *c->rows.v);
		*out = xreallocarray(*out, *n + visible + 1, sizeof **out);
		for (size_t i = 0; i < visible; i++)
			if (c->rows.v[i].t_ms > after_ms && c->rows.v[i].t_ms <= until_ms)
				(*out)[(*n)++] = view_head_profile(c, &c->rows.v[i]);
	}
	rwlock_unlock(&w->lock);
}

size_t view_parts_left(const struct pstate *s, uint32_t series, int64_t after_ms, int64_t until_ms, size_t i)
{
	size_t n = 0;
	while (view_next_part(s, series, after_ms, until_ms, &i))
		n++;
	return n;
}

static int collect_sealed_profiles(const struct pstate *s, uint32_t series, int64_t after_ms, int64_t until_ms, void *list,
				   size_t *n, const struct source_limits *lim, struct err *e)
{
	struct source_profile **out = list;
	struct read_scratch *w = scratch_take(s->p->db->scratch_pool);
	int rc = 0;
	size_t i = 0, room = 0;
	for (struct part *p; !rc && (p = view_next_part(s, series, after_ms, until_ms, &i));) {
		rc = part_totals(p, series, &w->part, e);
		if (rc) {
			rc = damage_pass(lim, p, series, e);
			continue;
		}
		size_t rows = w->part.totals.rows.n;
		bool masked = tombstones_touch(s, series, part_start_ms(p), part_end_ms(p));
		if (!*out || room < *n + rows) {
			/* Hours are mostly alike, and growing would copy what is there. */
			room = *n + MAX(rows * (1 + view_parts_left(s, series, after_ms, until_ms, i)), *n);
			*out = xreallocarray(*out, room + 1, sizeof **out);
		}
		for (size_t k = 0; k < rows; k++) {
			const struct sealed_row *r = &w->part.totals.rows.v[k];
			if (r->t_ms <= after_ms || r->t_ms > until_ms || (masked && tombstones_hide(s, p, series, r->t_ms)))
				continue;
			view_profile(r, &(*out)[(*n)++]);
		}
	}
	scratch_give(s->p->db->scratch_pool, w);
	return rc;
}

/* ---- the calls ---- */

/* How floats and profiles are collected from a window and from parts: appended to *(T **)list. */
struct collector {
	void (*head)(const struct tsdb_view *v, struct window *w, uint32_t series, int64_t after_ms, int64_t until_ms, void *list,
		     size_t *n);
	int (*sealed)(const struct pstate *s, uint32_t series, int64_t after_ms, int64_t until_ms, void *list, size_t *n,
		      const struct source_limits *lim, struct err *e);
};

static int by_time(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

static void sort_by_time(void *list, size_t n, size_t size)
{
	for (size_t i = 1; i < n; i++)
		if (by_time((char *)list + (i - 1) * size, (char *)list + i * size) > 0) {
			qsort(list, n, size, by_time);
			return;
		}
}

static int collect(struct tsdb_view *v, const struct collector *c, uint64_t ref, int64_t after_ms, int64_t until_ms,
		   const struct source_limits *lim, void *list, size_t *n, struct err *e)
{
	int rc = 0;
	*n = 0;
	if (!view_has_ref(v, ref))
		return view_bad_ref(ref, e);
	for (size_t p = 0; p < v->v->n && !rc; p++) {
		const struct pstate *s = v->v->p[p];
		uint32_t id = partition_meets(s->p, after_ms, until_ms) ? view_series(v, ref, p) : NOT_THERE;
		if (id == NOT_THERE)
			continue;
		rc = c->sealed(s, id, after_ms, until_ms, list, n, lim, e);
		for (size_t i = 0; i < s->n_windows && !rc; i++)
			if (hour_meets(s->windows[i]->hour, after_ms, until_ms))
				c->head(v, s->windows[i], id, after_ms, until_ms, list, n);
	}
	return rc ? rc : limits_check(lim, *n, e);
}

/* A call about several series: each is read by itself. */
struct view_reading {
	struct tsdb_view *v;
	const uint64_t *refs;
	int64_t after_ms, until_ms;
	const struct source_limits *lim;
	source_floats_fn floats;
	source_profiles_fn profiles;
	void *arg;
};

/* The samples of one series, appended to *(T **)list; size: of a T. */
static int view_collect(const struct view_reading *r, size_t series, const struct collector *c, void *list, size_t *n, size_t size, struct err *e)
{
	void **out = list;
	struct view_try try;
	int rc;
	view_try_begin(&try, r->v, r->after_ms, r->until_ms, r->lim);
	do
		rc = collect(try.v, c, r->refs[series], r->after_ms, r->until_ms, try.lim, list, n, e);
	while (view_try_again(&try, &rc, e));
	if (rc)
		free(*out);
	else
		sort_by_time(*out, *n, size);
	return rc;
}

static int view_floats_of(void *arg, size_t series, struct err *e)
{
	static const struct collector floats = { collect_floats, collect_sealed_floats };
	const struct view_reading *r = arg;
	struct point *v = NULL;
	size_t n;
	int rc = view_collect(r, series, &floats, &v, &n, sizeof *v, e);
	return rc ? rc : r->floats(r->arg, series, v, n, e);
}

int view_floats(struct source_view *sv, const uint64_t *refs, size_t n, int64_t after_ms, int64_t until_ms, const struct source_limits *lim,
		source_floats_fn fn, void *arg, struct err *e)
{
	struct view_reading r = { .v = (struct tsdb_view *)sv, .refs = refs, .after_ms = after_ms, .until_ms = until_ms, .lim = lim, .floats = fn, .arg = arg };
	return source_each(refs, n, lim, view_floats_of, &r, e);
}

static int view_profiles_of(void *arg, size_t series, struct err *e)
{
	static const struct collector profiles = { collect_profiles, collect_sealed_profiles };
	const struct view_reading *r = arg;
	struct source_profile *v = NULL;
	size_t n;
	int rc = view_collect(r, series, &profiles, &v, &n, sizeof *v, e);
	return rc ? rc : r->profiles(r->arg, series, v, n, e);
}

int view_profiles(struct source_view *sv, const uint64_t *refs, size_t n, int64_t after_ms, int64_t until_ms, const struct source_limits *lim,
		  source_profiles_fn fn, void *arg, struct err *e)
{
	struct view_reading r = { .v = (struct tsdb_view *)sv, .refs = refs, .after_ms = after_ms, .until_ms = until_ms, .lim = lim, .profiles = fn, .arg = arg };
	return source_each(refs, n, lim, view_profiles_of, &r, e);
}
