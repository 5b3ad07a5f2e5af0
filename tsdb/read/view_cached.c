/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/read/view_cached.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "tsdb/bucket/catalogue.h"

#define TRIES_MOST 12 /* sums, then stamps, then details, and the same of the series of a sum that is damaged */

struct joined_day {
	struct cached_server *server;
	uint32_t day;
	struct object_stamp stamp;
};

struct cached_join {
	struct tsdb_view *v;
	struct cached_server *server; /* whose days are listed now */
	VEC(struct joined_day) days;
};

static void join_day(void *arg, const struct catalogue_day *d)
{
	struct cached_join *j = arg;
	if (!j->server->number && (d->doomed || !catalogue_day_is_absent(d) || version_find(j->v->v, d->day)))
		return;
	vec_push(&j->days, (struct joined_day){ j->server, d->day, d->stamp });
}

static int join_by_day(const void *a, const void *b)
{
	const struct joined_day *x = a, *y = b;
	if (x->day != y->day)
		return x->day < y->day ? -1 : 1;
	return (x->server->number > y->server->number) - (x->server->number < y->server->number);
}

static void join_list(struct cached_join *j)
{
	for (size_t i = 0; (j->server = cached_days_server(j->v->db, i)); i++)
		if (!atomic_load(&j->server->is_own))
			catalogue_each(j->server->catalogue, INT64_MIN / 4, INT64_MAX / 4, join_day, j);
	if (j->days.n)
		qsort(j->days.v, j->days.n, sizeof *j->days.v, join_by_day);
}

void view_cached_join(struct tsdb_view *v)
{
	struct cached_join j = { .v = v };
	if (!v->db->cached)
		return;
	join_list(&j);
	size_t n = j.days.n;
	if (!n)
		return;
	struct cached_day **days = xcalloc(n, sizeof(*days));
	struct partition **p = xcalloc(n, sizeof(*p));
	for (size_t i = 0; i < n; i++) {
		days[i] = cached_days_get(j.days.v[i].server, j.days.v[i].day, j.days.v[i].stamp);
		p[i] = days[i]->p;
	}
	struct version *all = version_join(v->v, p, n);
	version_unref(v->v);
	v->v = all;
	v->cached = xcalloc(all->n + 1, sizeof(*v->cached));
	v->n_cached = all->n;
	for (size_t i = 0, k = 0; i < all->n && k < n; i++)
		if (all->p[i]->p == p[k])
			v->cached[i] = days[k++];
	free(days);
	free(p);
	vec_free(&j.days);
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

bool view_is_of_other(const struct tsdb_view *v, size_t p)
{
	return v->cached && v->cached[p] && v->cached[p]->server->number;
}

bool view_has_day(const struct tsdb_view *v, uint32_t day)
{
	size_t a = 0, b = v->v->n;
	while (a < b) {
		size_t m = (a + b) / 2;
		if (v->v->p[m]->p->day < day)
			a = m + 1;
		else
			b = m;
	}
	return a < v->v->n && v->v->p[a]->p->day == day && !view_is_of_other(v, a); /* a day of this server comes before the same day of other servers */
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

/* Whether a day of the bucket is read by this try. */
static bool try_reads(const struct view_try *t, size_t i)
{
	return cached_is_open(t->v, i) && partition_meets(t->v->cached[i]->p, t->after_ms, t->until_ms);
}

static void try_note_skips(struct view_try *t)
{
	for (size_t i = 0; i < t->v->n_cached; i++)
		t->skips[i] = try_reads(t, i) ? atomic_load(&t->v->cached[i]->store->dir->skips) : 0;
}

void view_try_begin(struct view_try *t, struct tsdb_view *v, int64_t after_ms, int64_t until_ms, const struct source_limits *lim)
{
	*t = (struct view_try){ .v = v, .lim = lim, .caller = lim, .after_ms = after_ms, .until_ms = until_ms };
	if (v->cached) {
		t->skips = xcalloc(v->n_cached + 1, sizeof *t->skips);
		try_note_skips(t);
	}
	if (!lim || !lim->samples_read)
		return;
	t->begun_samples = atomic_load(lim->samples_read);
	atomic_init(&t->samples, t->begun_samples);
	t->own = *lim;
	t->own.samples_read = &t->samples;
	t->lim = &t->own;
}

void view_try_begin_parts(struct view_try *t, struct tsdb_view *v, const struct source_part *parts, size_t n, const struct source_limits *lim)
{
	int64_t after_ms = INT64_MAX, until_ms = INT64_MIN;
	for (size_t i = 0; v->cached && i < n; i++) {
		after_ms = MIN(after_ms, parts[i].after_ms);
		until_ms = MAX(until_ms, parts[i].until_ms + (MAX(parts[i].n_steps, 1) - 1) * parts[i].step_ms);
	}
	view_try_begin(t, v, after_ms, until_ms, lim);
}

/* What the last reading has read counts for the query. */
static int try_finish(struct view_try *t, int rc, struct err *e)
{
	free(TAKE_PTR(t->skips));
	cached_order_release(&t->order);
	if (t->lim != &t->own)
		return rc;
	uint64_t read = atomic_load(&t->samples) - t->begun_samples, before = atomic_fetch_add(t->caller->samples_read, read);
	uint64_t max = t->caller->max_samples;
	if (!rc && max && (before > max || read > max - before))
		rc = err_set(e, ERR_LIMIT, "the query reads more than %llu samples (--query.max-samples): ask for less or raise it", (unsigned long long)max);
	return rc;
}

/* The days that the reading lacked something of. */
struct try_lacks {
	VEC(struct cached_day *) v;
};

static void try_list_lacks(const struct view_try *t, struct try_lacks *ret)
{
	for (size_t i = 0; i < t->v->n_cached; i++)
		if (try_reads(t, i) && atomic_load(&t->v->cached[i]->store->dir->skips) != t->skips[i])
			vec_push(&ret->v, t->v->cached[i]);
}

/* A fetch that goes on may have brought it by now: then all of the day's time in the range is noted. */
static void try_note_lacks(const struct view_try *t, const struct try_lacks *l)
{
	struct source_damage *damage = t->caller->damage;
	for (size_t i = 0; i < l->v.n; i++) {
		uint64_t before = source_damage_met(damage);
		int64_t start = (int64_t)l->v.v[i]->day * DAY_MS;
		cached_day_note_lacks(l->v.v[i], t->after_ms, t->until_ms, damage);
		if (source_damage_met(damage) == before)
			source_absent_add(damage, MAX(t->after_ms, start), MIN(t->until_ms, start + DAY_MS));
	}
}

/* Errors that end the query, even if some of it could be answered. */
static bool cached_ends(int rc)
{
	return rc == -ERR_TIMEOUT || rc == -ERR_CANCELED || rc == -ERR_BUSY;
}

static bool try_may_lack(const struct view_try *t)
{
	return t->caller && t->caller->damage;
}

/* The reading that lacked something was the last. */
static int try_give_up(const struct view_try *t, const struct try_lacks *l, int rc, struct err *e)
{
	if (rc)
		return rc;
	if (!try_may_lack(t))
		return err_set(e, ERR_UNAVAILABLE, "day %u is in the bucket, and could not be read there", l->v.v[0]->day);
	try_note_lacks(t, l);
	return 0;
}

static void try_order(struct view_try *t, const struct try_lacks *l)
{
	cached_order_release(&t->order);
	cached_days_order(t->v->db, l->v.v, l->v.n, t->caller, &t->order);
}

/* Waits for what was ordered of a day, or of all (NULL). An error ends the query. */
static int try_wait(struct view_try *t, const struct cached_day *day, struct err *e)
{
	struct err why;
	int got = cached_order_wait(t->v->db, &t->order, day, t->caller, &why);
	t->last |= got != 0;
	return got && (cached_ends(got) || !try_may_lack(t)) ? err_set(e, why.code, "%s", why.msg) : 0;
}

/* False: *rc is the result. */
static bool try_fetch_lacks(struct view_try *t, const struct try_lacks *l, int *rc, struct err *e)
{
	try_order(t, l);
	int failed = try_wait(t, NULL, e);
	if (failed) {
		*rc = failed;
		return false;
	}
	t->last |= ++t->tries == TRIES_MOST;
	try_note_skips(t);
	view_try_recount(t);
	return true;
}

void view_try_recount(struct view_try *t)
{
	if (t->lim == &t->own)
		atomic_store(&t->samples, t->begun_samples);
}

void view_try_order(struct view_try *t)
{
	struct try_lacks l = { 0 };
	if (!t->skips || t->last)
		return;
	try_list_lacks(t, &l);
	if (l.v.n) {
		try_order(t, &l);
		try_note_skips(t);
	}
	vec_free(&l.v);
}

int view_try_wait(struct view_try *t, size_t p, struct err *e)
{
	return t->order.days.n && t->v->cached[p] ? try_wait(t, t->v->cached[p], e) : 0;
}

bool view_try_again(struct view_try *t, int *rc, struct err *e)
{
	struct try_lacks l = { 0 };
	bool again = false;
	if (t->skips && (!*rc || *rc == -ERR_UNAVAILABLE))
		try_list_lacks(t, &l);
	if (l.v.n && t->last)
		*rc = try_give_up(t, &l, *rc, e);
	else if (l.v.n)
		again = try_fetch_lacks(t, &l, rc, e);
	vec_free(&l.v);
	if (!again)
		*rc = try_finish(t, *rc, e);
	return again;
}

int view_try_fetch(struct view_try *t, struct err *e)
{
	struct try_lacks l = { 0 };
	if (!t->skips)
		return 0;
	try_list_lacks(t, &l);
	int rc = 0;
	if (l.v.n) {
		try_order(t, &l);
		rc = try_wait(t, NULL, e);
	}
	if (!rc && t->last)
		try_note_lacks(t, &l);
	try_note_skips(t);
	vec_free(&l.v);
	return rc;
}

int view_try_end(struct view_try *t, int rc, struct err *e)
{
	struct try_lacks l = { 0 };
	if (t->skips && !rc)
		try_list_lacks(t, &l);
	if (l.v.n)
		rc = try_give_up(t, &l, rc, e);
	vec_free(&l.v);
	return try_finish(t, rc, e);
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
