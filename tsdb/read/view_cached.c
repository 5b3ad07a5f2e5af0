/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/read/view_cached.h"

#include "base/alloc.h"
#include "tsdb/bucket/catalogue.h"

#define TRIES_MOST 12 /* sums, then stamps, then details, and the same of the series of a sum that is damaged */

struct cached_join {
	struct tsdb_view *v;
	struct joined {
		uint32_t day;
		struct object_stamp stamp;
	} *days;
	size_t n, cap;
};

static void join_day(void *arg, const struct catalogue_day *d)
{
	struct cached_join *j = arg;
	if (d->doomed || !catalogue_day_is_absent(d) || version_find(j->v->v, d->day))
		return;
	if (j->n == j->cap) {
		j->cap = j->cap ? 2 * j->cap : 16;
		j->days = xreallocarray(j->days, j->cap, sizeof *j->days);
	}
	j->days[j->n++] = (struct joined){ d->day, d->stamp };
}

void view_cached_join(struct tsdb_view *v)
{
	struct cached_join j = { .v = v };
	if (!v->db->cached)
		return;
	catalogue_each(v->db->catalogue, INT64_MIN / 4, INT64_MAX / 4, join_day, &j);
	if (!j.n)
		return;
	struct cached_day **days = xcalloc(j.n, sizeof(*days));
	struct partition **p = xcalloc(j.n, sizeof(*p));
	for (size_t i = 0; i < j.n; i++) {
		days[i] = cached_days_get(v->db, j.days[i].day, j.days[i].stamp);
		p[i] = days[i]->p;
	}
	struct version *all = version_join(v->v, p, j.n);
	version_unref(v->v);
	v->v = all;
	v->cached = xcalloc(all->n + 1, sizeof(*v->cached));
	v->n_cached = all->n;
	for (size_t i = 0, k = 0; i < all->n && k < j.n; i++)
		if (all->p[i]->p == p[k])
			v->cached[i] = days[k++];
	free(days);
	free(p);
	free(j.days);
}

void view_cached_release(struct tsdb_view *v)
{
	for (size_t i = 0; i < v->n_cached; i++)
		cached_day_unref(v->cached[i]);
	free(v->cached);
}

/* The days that a range meets, as the threads of a query open them. */
struct cached_opening {
	struct tsdb_view *v;
	VEC(size_t) at; /* partitions of the version */
	VEC(struct err) errors; /* of each; code 0: it is open */
};

static void opening_run(void *arg, size_t i, unsigned worker)
{
	struct cached_opening *o = arg;
	(void)worker;
	if (cached_day_open(o->v->cached[o->at.v[i]], &o->errors.v[i]) == 0)
		o->errors.v[i].code = 0;
}

static int opening_take(struct cached_opening *o, size_t i, int64_t after_ms, int64_t until_ms, const struct source_limits *lim, struct err *e)
{
	struct tsdb_view *v = o->v;
	struct cached_day *d = v->cached[o->at.v[i]];
	struct pstate *s = v->v->p[o->at.v[i]];
	if (!o->errors.v[i].code) {
		mutex_lock(&v->lock);
		if (!s->n_parts && d->origin.s->n_parts)
			pstate_fill(s, d->origin.s);
		mutex_unlock(&v->lock);
		return 0;
	}
	if (!lim || !lim->damage)
		return err_set(e, o->errors.v[i].code, "%s", o->errors.v[i].msg);
	source_absent_add(lim->damage, MAX(after_ms, (int64_t)d->day * DAY_MS), MIN(until_ms, ((int64_t)d->day + 1) * DAY_MS));
	return 0;
}

int view_cached_open(struct tsdb_view *v, int64_t after_ms, int64_t until_ms, const struct source_limits *lim, struct err *e)
{
	struct cached_opening o = { .v = v };
	int rc = 0;
	for (size_t i = 0; v->cached && i < v->v->n; i++)
		if (v->cached[i] && partition_meets(v->cached[i]->p, after_ms, until_ms)) {
			vec_push(&o.at, i);
			vec_push(&o.errors, (struct err){ 0 });
		}
	if (o.at.n)
		pool_run(lim ? lim->pool : NULL, o.at.n, opening_run, &o);
	for (size_t i = 0; i < o.at.n && !rc; i++)
		rc = opening_take(&o, i, after_ms, until_ms, lim, e);
	vec_free(&o.at);
	vec_free(&o.errors);
	return rc;
}

bool view_is_open(const struct tsdb_view *v, size_t p)
{
	return !v->cached || !v->cached[p] || atomic_load_explicit(&v->cached[p]->open, memory_order_acquire);
}

/* ---- reading again ---- */

static bool cached_is_open(const struct tsdb_view *v, size_t i)
{
	return v->cached && v->cached[i] && view_is_open(v, i);
}

static uint64_t cached_skips(const struct tsdb_view *v)
{
	uint64_t n = 0;
	for (size_t i = 0; v->cached && i < v->v->n; i++)
		if (cached_is_open(v, i))
			n += atomic_load(&v->cached[i]->store->skips);
	return n;
}

struct view_try view_try_begin(struct tsdb_view *v, const struct source_limits *lim)
{
	struct view_try t = { .v = v, .lim = lim };
	if (v->cached) {
		t.skips = cached_skips(v);
		t.samples = lim && lim->samples_read ? atomic_load(lim->samples_read) : 0;
	}
	return t;
}

/* Errors that end the query, whatever else could be read. */
static bool cached_ends(int rc)
{
	return rc == -ERR_TIMEOUT || rc == -ERR_CANCELED || rc == -ERR_BUSY;
}

static void cached_note(struct tsdb_view *v, int64_t after_ms, int64_t until_ms, struct source_damage *damage)
{
	for (size_t i = 0; i < v->v->n; i++)
		if (cached_is_open(v, i) && partition_meets(v->cached[i]->p, after_ms, until_ms))
			cached_day_note_lacks(v->cached[i], after_ms, until_ms, damage);
}

bool view_try_again(struct view_try *t, int64_t after_ms, int64_t until_ms, int *rc, struct err *e)
{
	struct tsdb_view *v = t->v;
	struct err why;
	if (!v->cached || (*rc && *rc != -ERR_UNAVAILABLE))
		return false;
	uint64_t skips = cached_skips(v);
	if (skips == t->skips)
		return false;
	bool may_lack = t->lim && t->lim->damage;
	if (t->last) {
		if (may_lack)
			cached_note(v, after_ms, until_ms, t->lim->damage);
		return false;
	}
	int got = cached_days_fetch(v->db, v->cached, v->v->n, t->lim, &why);
	if (got && (cached_ends(got) || !may_lack)) {
		if (!*rc || *rc == -ERR_UNAVAILABLE)
			*rc = err_set(e, why.code, "%s", why.msg);
		return false;
	}
	t->last = got || ++t->tries == TRIES_MOST;
	t->skips = cached_skips(v);
	if (t->lim && t->lim->samples_read) /* what was read counts once */
		atomic_fetch_sub(t->lim->samples_read, atomic_load(t->lim->samples_read) - t->samples);
	return true;
}

bool view_try_again_parts(struct view_try *t, const struct source_part *parts, size_t n, int *rc, struct err *e)
{
	int64_t after_ms = INT64_MAX, until_ms = INT64_MIN;
	if (!t->v->cached)
		return false;
	for (size_t i = 0; i < n; i++) {
		after_ms = MIN(after_ms, parts[i].after_ms);
		until_ms = MAX(until_ms, parts[i].until_ms + (MAX(parts[i].n_steps, 1) - 1) * parts[i].step_ms);
	}
	return view_try_again(t, after_ms, until_ms, rc, e);
}

int view_cached_fetch(struct tsdb_view *v, int64_t after_ms, int64_t until_ms, const struct source_limits *lim, struct err *e)
{
	if (!v->cached)
		return 0;
	struct err why;
	int rc = cached_days_fetch(v->db, v->cached, v->v->n, lim, &why);
	if (!rc)
		return 0;
	if (cached_ends(rc) || !lim || !lim->damage)
		return err_set(e, why.code, "%s", why.msg);
	cached_note(v, after_ms, until_ms, lim->damage);
	return 0;
}

/* ---- what is wanted ---- */

bool view_has_stacks(struct tsdb_view *v, size_t p)
{
	return !v->cached || !v->cached[p] || !cached_is_open(v, p) || cached_day_need_stacks(v->cached[p]);
}

void view_want(const struct part *p, uint32_t series, bool rows)
{
	struct err e;
	if (!p->lack)
		return;
	IGNORE(part_need(p, PART_ROLLUP, series, 0, &e));
	if (!rows || p->level != LEVEL_HOUR)
		return;
	IGNORE(part_need(p, PART_TOTALS, series, 0, &e));
	for (uint8_t stream = 0; stream < 3; stream++)
		IGNORE(part_need(p, PART_DETAIL, series, stream, &e));
}
