/* SPDX-License-Identifier: Apache-2.0 */
/* The sums of a series' profiles in a range: number, total, weights, covered time. A query about a day of a fleet concerns millions of profiles. So
 * parts that are completely in the range are read once, their columns and not their rows, and the result is kept with the part, which
 * never changes (part_cover.h). Of a day in the bucket its generation has it:
 *
 *	part      part      part      part          a part whose profiles cover one stretch: 40 bytes, one look
 *	──(─══════╪═════════╪══ ═══ ══╪═══)────     one with holes, a border, tombstones, markers of both kinds: its columns again
 *
 * Runs on query threads. */
#include "tsdb/part/damage.h"
#include "tsdb/part/part_cover.h"
#include "tsdb/read/scratch.h"
#include "tsdb/read/view_cached.h"
#include "tsdb/version/tombstones.h"

/* ---- columns ---- */

/* The first stamped after t. */
static size_t first_after(const struct sealed_points *p, int64_t t_ms)
{
	size_t a = 0, b = p->n;
	while (a < b) {
		size_t m = (a + b) / 2;
		if (sealed_stamp(p, m) <= t_ms)
			a = m + 1;
		else
			b = m;
	}
	return a;
}

/* What is deleted of a series of a part. */
struct cover_hiding {
	const struct pstate *s;
	const struct part *part;
	uint32_t series;
};

static bool cover_hides(void *arg, int64_t t_ms)
{
	const struct cover_hiding *h = arg;
	return tombstones_hide(h->s, h->part, h->series, t_ms);
}

static void add_columns(const struct pstate *s, const struct part *part, uint32_t series, const struct sealed_columns *c, size_t lo,
			size_t hi, struct source_cover *ret)
{
	struct cover_hiding h = { s, part, series };
	bool masked = tombstones_touch(s, series, part_start_ms(part), part_end_ms(part));
	part_cover_add_rows(c, lo, hi, masked ? cover_hides : NULL, &h, ret);
}

/* ---- a series ---- */

static int add_part(const struct pstate *s, struct part *p, uint32_t series, int64_t after_ms, int64_t until_ms, struct read_scratch **w,
		    struct source_cover *ret, struct err *e)
{
	const struct part_series *x = part_find(p, series);
	bool whole = part_start_ms(p) + x->min_ms > after_ms && part_start_ms(p) + x->max_ms <= until_ms && !x->is_float &&
		     !tombstones_touch(s, series, part_start_ms(p), part_end_ms(p));
	if (whole && part_cover_known(p, x, ret))
		return 0;
	if (!*w)
		*w = scratch_take(s->p->db->scratch_pool);
	if (whole)
		return part_cover_read(p, x, &(*w)->part, ret, e);
	int rc = part_columns(p, series, &(*w)->part, e);
	if (rc)
		return rc;
	const struct sealed_columns *c = &(*w)->part.columns;
	add_columns(s, p, series, c, first_after(&c->points, after_ms), first_after(&c->points, until_ms), ret);
	return 0;
}

static int add_parts(const struct pstate *s, uint32_t series, int64_t after_ms, int64_t until_ms, const struct source_limits *lim,
		     struct source_cover *ret, struct err *e)
{
	struct read_scratch *w = NULL;
	int rc = 0;
	size_t i = 0;
	for (struct part *p; !rc && (p = view_next_part(s, series, after_ms, until_ms, &i));) {
		rc = add_part(s, p, series, after_ms, until_ms, &w, ret, e);
		if (rc)
			rc = damage_pass(lim, p, series, e);
	}
	scratch_give(s->p->db->scratch_pool, w);
	return rc;
}

/* A row of the head. */
static void cover_add_row(const struct chunk *c, const struct chunk_row *r, struct source_cover *ret)
{
	struct sample_meta m = r->stale ? (struct sample_meta){ 0 } : c->metas.v[r->meta];
	source_cover_add(ret, r->t_ms, r->cover_ms, r->total, source_weight(m.interval_ms, m.asked_ms), m.period, r->stale);
}

static void add_window(const struct tsdb_view *v, struct window *w, uint32_t series, int64_t after_ms, int64_t until_ms,
		       struct source_cover *ret)
{
	rwlock_read(&w->lock);
	const struct chunk *c = window_chunk(w, series);
	size_t visible = c ? chunk_visible(c, v->seq) : 0;
	read_tally_add(visible * sizeof(struct chunk_row));
	for (size_t i = 0; i < visible; i++) {
		const struct chunk_row *r = &c->rows.v[i];
		if (r->t_ms > after_ms && r->t_ms <= until_ms)
			cover_add_row(c, r, ret);
	}
	rwlock_unlock(&w->lock);
}

static int cover_read(struct tsdb_view *v, uint64_t ref, int64_t after_ms, int64_t until_ms, const struct source_limits *lim,
		      struct source_cover *ret, struct err *e)
{
	int rc = 0;
	for (size_t p = 0; p < v->v->n && !rc; p++) {
		const struct pstate *s = v->v->p[p];
		uint32_t id = partition_meets(s->p, after_ms, until_ms) ? view_series(v, ref, p) : NOT_THERE;
		if (id == NOT_THERE)
			continue;
		rc = add_parts(s, id, after_ms, until_ms, lim, ret, e);
		for (size_t i = 0; i < s->n_windows && !rc; i++)
			if (hour_meets(s->windows[i]->hour, after_ms, until_ms))
				add_window(v, s->windows[i], id, after_ms, until_ms, ret);
	}
	return rc ? rc : limits_check(lim, ret->n, e);
}

/* ---- windows that follow each other ---- */

struct tiling {
	struct tsdb_view *v;
	const struct source_tiles *t;
	int64_t until_ms;
	struct read_scratch *scratch;
	struct source_cover one; /* at work; its spans are not wanted */
	struct source_cover *ret;
	uint64_t n;              /* stamps met */
};

static size_t tile_at(const struct tiling *g, int64_t t_ms)
{
	int64_t t = MIN(MAX(t_ms, g->t->after_ms + 1), g->until_ms);
	return (size_t)((t - g->t->after_ms - 1) / g->t->width_ms);
}

static int64_t tile_start(const struct tiling *g, size_t k)
{
	return g->t->after_ms + (int64_t)k * g->t->width_ms;
}

static void put_tile(struct tiling *g, size_t k)
{
	source_cover_add_other(&g->ret[k], &g->one);
	g->n += g->one.n;
	g->one.n = g->one.n_stale = g->one.magnitude = 0;
	g->one.total = g->one.period = 0;
	g->one.weights = (struct source_weights){ 0 };
	g->one.spans.n = 0;
}

static int tile_part(struct tiling *g, const struct pstate *s, struct part *p, uint32_t series, struct err *e)
{
	const struct part_series *x = part_find(p, series);
	size_t first = tile_at(g, part_start_ms(p) + x->min_ms), last = tile_at(g, part_start_ms(p) + x->max_ms);
	if (first == last) {
		int rc = add_part(s, p, series, tile_start(g, first), tile_start(g, first + 1), &g->scratch, &g->one, e);
		put_tile(g, first);
		return rc;
	}
	if (!g->scratch)
		g->scratch = scratch_take(s->p->db->scratch_pool);
	int rc = part_columns(p, series, &g->scratch->part, e);
	const struct sealed_columns *c = &g->scratch->part.columns;
	for (size_t k = first, lo = rc ? 0 : first_after(&c->points, tile_start(g, first)); k <= last && !rc; k++) {
		size_t hi = first_after(&c->points, tile_start(g, k + 1));
		add_columns(s, p, series, c, lo, hi, &g->one);
		put_tile(g, k);
		lo = hi;
	}
	return rc;
}

static void tile_window(struct tiling *g, struct window *w, uint32_t series)
{
	rwlock_read(&w->lock);
	const struct chunk *c = window_chunk(w, series);
	size_t visible = c ? chunk_visible(c, g->v->seq) : 0;
	read_tally_add(visible * sizeof(struct chunk_row));
	for (size_t i = 0; i < visible; i++) {
		const struct chunk_row *r = &c->rows.v[i];
		if (r->t_ms <= g->t->after_ms || r->t_ms > g->until_ms)
			continue;
		cover_add_row(c, r, &g->one);
		put_tile(g, tile_at(g, r->t_ms));
	}
	rwlock_unlock(&w->lock);
}

static int tile_partition(struct tiling *g, const struct pstate *s, uint32_t series, const struct source_limits *lim, struct err *e)
{
	int rc = 0;
	size_t i = 0;
	for (struct part *p; !rc && (p = view_next_part(s, series, g->t->after_ms, g->until_ms, &i));) {
		rc = tile_part(g, s, p, series, e);
		if (rc)
			rc = damage_pass(lim, p, series, e);
	}
	scratch_give(s->p->db->scratch_pool, TAKE_PTR(g->scratch));
	for (size_t k = 0; k < s->n_windows && !rc; k++)
		if (hour_meets(s->windows[k]->hour, g->t->after_ms, g->until_ms))
			tile_window(g, s->windows[k], series);
	return rc;
}

static int tiles_read(struct tsdb_view *v, uint64_t ref, const struct source_tiles *t, const struct source_limits *lim, struct source_cover *ret,
		      struct err *e)
{
	struct tiling g = { .v = v, .t = t, .until_ms = t->after_ms + (int64_t)t->n * t->width_ms, .ret = ret };
	int rc = 0;
	for (size_t p = 0; p < v->v->n && !rc; p++) {
		const struct pstate *s = v->v->p[p];
		uint32_t id = partition_meets(s->p, t->after_ms, g.until_ms) ? view_series(v, ref, p) : NOT_THERE;
		if (id != NOT_THERE)
			rc = tile_partition(&g, s, id, lim, e);
	}
	source_cover_release(&g.one);
	return rc ? rc : limits_check(lim, g.n, e);
}

/* ---- the call ---- */

struct covers_reading {
	struct tsdb_view *v;
	const uint64_t *refs;
	const struct source_tiles *t;
	const struct source_limits *lim;
	source_covers_fn fn;
	void *arg;
};

static int covers_read(const struct covers_reading *r, uint64_t ref, const struct source_limits *lim, struct source_cover *ret, struct err *e)
{
	if (!view_has_ref(r->v, ref))
		return view_bad_ref(ref, e);
	return r->t->n == 1 ? cover_read(r->v, ref, r->t->after_ms, r->t->after_ms + r->t->width_ms, lim, ret, e) : tiles_read(r->v, ref, r->t, lim, ret, e);
}

static int covers_read_series(void *arg, size_t series, struct err *e)
{
	const struct covers_reading *r = arg;
	struct source_cover *ret = NULL;
	struct view_try try;
	int rc;
	view_try_begin(&try, r->v, r->t->after_ms, r->t->after_ms + (int64_t)r->t->n * r->t->width_ms, r->lim);
	do {
		source_covers_free(ret, r->t->n);
		ret = xcalloc(r->t->n + 1, sizeof *ret);
		rc = covers_read(r, r->refs[series], try.lim, ret, e);
	} while (view_try_again(&try, &rc, e));
	if (!rc)
		return r->fn(r->arg, series, ret, e);
	source_covers_free(ret, r->t->n);
	return rc;
}

int view_covers(struct source_view *sv, const uint64_t *refs, size_t n, const struct source_tiles *t, const struct source_limits *lim,
		source_covers_fn fn, void *arg, struct err *e)
{
	struct covers_reading r = { (struct tsdb_view *)sv, refs, t, lim, fn, arg };
	return source_each(refs, n, lim, covers_read_series, &r, e);
}
