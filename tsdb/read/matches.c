/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles of series, each with the values that a frame filter selects. This is for graphs in which a profile counts by the part of its
 * time within a window, so that sums cannot be used. A task is a series: its parts are read one after the other into arrays that a worker
 * uses again. Runs on query threads. */
#include "tsdb/part/damage.h"
#include "tsdb/read/column_filter.h"
#include "tsdb/read/scratch.h"
#include "tsdb/read/view.h"
#include "tsdb/read/view_cached.h"
#include "tsdb/version/tombstones.h"

struct worker {
	struct read_scratch *scratch;
	VEC(struct source_profile) p; /* of the series at work */
	VEC(int64_t) match;           /* of each; its own n is not used */
	uint64_t read;
};

struct reading {
	struct tsdb_view *v;
	const uint64_t *refs;
	int64_t after_ms, until_ms;
	struct column_filters filters;
	const struct source_limits *lim;
	source_matches_fn fn;
	void *arg;
	uint64_t **match;  /* by partition, a bit per column; NULL: it has none of the series */
	uint32_t *n_match;
	struct worker *workers;
	struct mutex lock;
	struct err *e;
	atomic_int failed; /* negative code */
};

static struct source_profile *push(struct worker *w, int64_t match)
{
	vec_reserve(&w->match, w->p.n + 1);
	w->match.v[w->p.n] = match;
	return vec_add(&w->p);
}

/* Profiles whose stacks are lost still count as present. */
static int read_part(struct reading *r, struct worker *w, size_t p, struct part *part, uint32_t series, struct err *e)
{
	const struct pstate *s = r->v->v->p[p];
	struct part_scratch *x = &w->scratch->part;
	int rc = part_totals(part, series, x, e);
	if (rc)
		return damage_pass(r->lim, part, series, e);
	size_t n = x->totals.rows.n;
	rc = part_match(part, series, r->match[p], r->n_match[p], n, x, &w->read, e);
	if (rc && damage_is_lack(part, e))
		return 0;
	if (rc) {
		rc = damage_pass(r->lim, part, series, e);
		if (!rc)
			rc = part_match(part, series, NULL, 0, n, x, &w->read, e);
		if (rc)
			return rc;
	}
	bool masked = tombstones_touch(s, series, part_start_ms(part), part_end_ms(part));
	vec_reserve(&w->p, w->p.n + n);
	for (size_t i = 0; i < n; i++) {
		const struct sealed_row *row = &x->totals.rows.v[i];
		if (row->t_ms > r->after_ms && row->t_ms <= r->until_ms && !(masked && tombstones_hide(s, part, series, row->t_ms)))
			view_profile(row, push(w, x->sums.v[i]));
	}
	return 0;
}

static int read_chunk(struct reading *r, struct worker *w, size_t p, const struct chunk *c, struct err *e)
{
	size_t n = chunk_visible(c, r->v->seq);
	int64_t *match = xcalloc(n + 1, sizeof *match);
	read_tally_add(chunk_sample_bytes(c));
	int rc = chunk_row_sums(c, n, r->match[p], r->n_match[p], match, e);
	for (size_t i = 0; i < n && !rc; i++) {
		const struct chunk_row *row = &c->rows.v[i];
		w->read += row->n;
		if (row->t_ms > r->after_ms && row->t_ms <= r->until_ms)
			*push(w, row->stale ? 0 : match[i]) = view_head_profile(c, row);
	}
	free(match);
	return rc;
}

static int read_window(struct reading *r, struct worker *w, size_t p, struct window *window, uint32_t series, struct err *e)
{
	int rc = 0;
	rwlock_read(&window->lock);
	const struct chunk *c = window_chunk(window, series);
	if (c)
		rc = read_chunk(r, w, p, c, e);
	rwlock_unlock(&window->lock);
	return rc;
}

struct placed {
	int64_t t_ms;
	size_t at;
};

static int by_time(const void *a, const void *b)
{
	const struct placed *x = a, *y = b;
	return (x->t_ms > y->t_ms) - (x->t_ms < y->t_ms);
}

/* Late ones and parts that overlap are rare. */
static void sort(struct worker *w)
{
	size_t n = w->p.n;
	bool sorted = true;
	for (size_t i = 1; i < n; i++)
		sorted &= w->p.v[i - 1].t_ms <= w->p.v[i].t_ms;
	if (sorted)
		return;
	struct placed *order = xcalloc(n, sizeof *order);
	struct source_profile *p = xcalloc(n, sizeof *p);
	int64_t *match = xcalloc(n, sizeof *match);
	for (size_t i = 0; i < n; i++)
		order[i] = (struct placed){ w->p.v[i].t_ms, i };
	qsort(order, n, sizeof *order, by_time);
	for (size_t i = 0; i < n; i++) {
		p[i] = w->p.v[order[i].at];
		match[i] = w->match.v[order[i].at];
	}
	memcpy(w->p.v, p, n * sizeof *p);
	memcpy(w->match.v, match, n * sizeof *match);
	free(order);
	free(p);
	free(match);
}

static int read_series(struct reading *r, struct worker *w, size_t i, unsigned worker, struct err *e)
{
	int rc = 0;
	w->p.n = 0;
	w->read = 0;
	for (size_t p = 0; p < r->v->v->n && !rc; p++) {
		const struct pstate *s = r->v->v->p[p];
		uint32_t id = r->match[p] ? view_series(r->v, r->refs[i], p) : NOT_THERE;
		size_t k = 0;
		if (id == NOT_THERE)
			continue;
		for (struct part *part; !rc && (part = view_next_part(s, id, r->after_ms, r->until_ms, &k));)
			rc = read_part(r, w, p, part, id, e);
		for (size_t j = 0; j < s->n_windows && !rc; j++)
			if (hour_meets(s->windows[j]->hour, r->after_ms, r->until_ms))
				rc = read_window(r, w, p, s->windows[j], id, e);
	}
	if (!rc)
		rc = limits_check(r->lim, w->read, e);
	if (rc)
		return rc;
	sort(w);
	return r->fn(r->arg, i, w->p.v, w->match.v, w->p.n, worker, e);
}

static void run_series(void *arg, size_t i, unsigned worker)
{
	struct reading *r = arg;
	struct worker *w = &r->workers[worker];
	struct err e;
	if (atomic_load(&r->failed))
		return;
	if (!w->scratch)
		w->scratch = scratch_take(r->v->db->scratch_pool);
	int rc = read_series(r, w, i, worker, &e);
	if (!rc)
		return;
	mutex_lock(&r->lock);
	if (!atomic_load(&r->failed)) {
		if (r->e)
			*r->e = e;
		atomic_store(&r->failed, rc);
	}
	mutex_unlock(&r->lock);
}

static bool has_any(struct reading *r, size_t p, size_t n)
{
	bool any = false;
	for (size_t i = 0; i < n && !any && partition_meets(r->v->v->p[p]->p, r->after_ms, r->until_ms); i++)
		any = view_series(r->v, r->refs[i], p) != NOT_THERE;
	return any;
}

/* Notes all that is to be fetched of days of the bucket. False: the stacks of one are not on this disk yet. */
static bool matches_want(struct reading *r, size_t n)
{
	bool here = true;
	for (size_t p = 0; p < r->v->v->n && r->v->cached; p++) {
		const struct pstate *s = r->v->v->p[p];
		if (!r->v->cached[p] || !has_any(r, p, n))
			continue;
		here &= column_filters_has(&r->filters, p);
		for (size_t i = 0; i < s->n_parts && s->parts[i]->level == LEVEL_HOUR; i++)
			if (hour_meets(s->parts[i]->window, r->after_ms, r->until_ms))
				view_want(s->parts[i], 0, true);
	}
	return here;
}

/* What it hands out cannot be taken back: so all of days of the bucket is fetched before. Only once the names of a day are here they tell whether its
 * dictionary is needed, too. */
static int matches_fetch(struct reading *r, struct view_try *try, size_t n, struct err *e)
{
	int rc = 0;
	bool here = false;
	for (unsigned i = 0; i < VIEW_FETCHES && !rc && !here && !try->last; i++) {
		here = matches_want(r, n);
		rc = view_try_fetch(try, e);
	}
	return rc;
}

/* One day after the other. */
static int match_all(struct reading *r, size_t n, struct err *e)
{
	int rc = limits_check(r->lim, 0, e);
	for (size_t i = 0; i < n && !rc; i++)
		if (!view_has_ref(r->v, r->refs[i]))
			rc = view_bad_ref(r->refs[i], e);
	for (size_t p = 0; p < r->v->v->n && !rc; p++) {
		if (!has_any(r, p, n))
			continue;
		if (column_filters_has(&r->filters, p)) /* else they did not come from the bucket: the day is left out, and the answer says so */
			rc = column_filters_bits(&r->filters, p, &r->match[p], &r->n_match[p], e);
	}
	return rc;
}

int view_matches(struct source_view *sv, const uint64_t *refs, size_t n, int64_t after_ms, int64_t until_ms, const struct source_frame_filter *f,
		 const struct source_limits *lim, source_matches_fn fn, void *arg, struct err *e)
{
	struct tsdb_view *v = (struct tsdb_view *)sv;
	struct reading r = { .v = v, .refs = refs, .after_ms = after_ms, .until_ms = until_ms, .lim = lim, .fn = fn, .arg = arg, .e = e };
	struct pool *pool = lim ? lim->pool : NULL;
	size_t n_workers = (pool ? pool_size(pool) : 0) + 1;
	r.match = xcalloc(v->v->n + 1, sizeof *r.match);
	r.n_match = xcalloc(v->v->n + 1, sizeof *r.n_match);
	r.workers = xcalloc(n_workers, sizeof *r.workers);
	mutex_init(&r.lock, LOCK_LEAF, "matches");
	column_filters_init(&r.filters, v, f, lim);
	struct view_try try;
	view_try_begin(&try, v, after_ms, until_ms, lim);
	r.lim = try.lim;
	int rc = matches_fetch(&r, &try, n, e);
	if (!rc)
		rc = match_all(&r, n, e);
	if (!rc) {
		pool_run(pool, n, run_series, &r);
		rc = atomic_load(&r.failed);
	}
	rc = view_try_end(&try, rc, e);
	for (size_t i = 0; i < n_workers; i++) {
		scratch_give(v->db->scratch_pool, r.workers[i].scratch);
		vec_free(&r.workers[i].p);
		vec_free(&r.workers[i].match);
	}
	for (size_t p = 0; p < v->v->n; p++)
		free(r.match[p]);
	column_filters_release(&r.filters);
	free(r.match);
	free(r.n_match);
	free(r.workers);
	mutex_destroy(&r.lock);
	return rc;
}
