/* SPDX-License-Identifier: Apache-2.0 */
/* Calls by series: each peer is asked once, for all series that it has. Results are handed out by the threads of the pool, as a storage does. */
#include <stdlib.h>

#include "base/alloc.h"
#include "fleet/union_internal.h"
#include "model/replicas.h"

/* A call by series at work. */
struct union_lists {
	struct union_view *v;
	const uint64_t *refs;
	size_t n;
	const struct source_limits *lim;
	struct union_spread s;
	struct union_ask *asks;
	const struct union_joined **joined; /* by series; of covers */
	const struct source_tiles *tiles;
	int64_t after_ms, until_ms;
	int (*one)(struct union_lists *l, size_t series, unsigned worker, struct err *e);
	union {
		source_floats_fn floats;
		source_profiles_fn profiles;
		source_points_fn points;
		source_covers_fn covers;
		source_matches_fn matches;
	} fn;
	void *arg;
	atomic_bool failed;
	struct mutex lock;
	struct err e;                /* the first; under lock */
};

static void lists_hand_out(void *arg, size_t series, unsigned worker)
{
	struct union_lists *l = arg;
	struct err e = { 0 };
	if (atomic_load(&l->failed) || !l->one(l, series, worker, &e))
		return;
	mutex_lock(&l->lock);
	if (!atomic_exchange(&l->failed, true))
		l->e = e;
	mutex_unlock(&l->lock);
}

/* call: the fields that are equal for all peers. alone: series of several holders are not asked for. */
static int lists_run(struct union_lists *l, const struct fleet_call *call, bool alone, struct err *e)
{
	int rc = union_spread_make(l->v, l->refs, l->n, alone, &l->s, e);
	if (!rc && l->joined) /* after the spread: each series that has several holders there has a list */
		rc = union_joined_load(l->v, l->refs, l->n, l->after_ms, l->until_ms, l->lim, l->joined, e);
	l->asks = union_asks_new(l->v);
	for (size_t p = 0; p < l->v->n_peers && !rc; p++) {
		l->asks[p].wanted = l->s.shares[p].n;
		l->asks[p].call = *call;
		l->asks[p].call.refs = l->s.shares[p].refs;
		l->asks[p].call.n_refs = l->s.shares[p].n;
	}
	if (!rc)
		rc = union_ask_all(l->v, l->asks, l->after_ms, l->until_ms, l->lim, e);
	if (!rc) {
		mutex_init(&l->lock, LOCK_LEAF, "series of servers");
		pool_run(l->lim ? l->lim->pool : NULL, l->n, lists_hand_out, l);
		mutex_destroy(&l->lock);
		if (atomic_load(&l->failed))
			rc = err_set(e, l->e.code, "%s", l->e.msg);
	}
	union_asks_free(l->v, l->asks);
	union_spread_release(&l->s);
	return rc;
}

/* Piece k of a series: the peer's result and the place in it; NULL: the peer did not answer. */
static struct fleet_result *lists_piece(const struct union_lists *l, size_t series, size_t k, size_t *ret_at)
{
	const struct union_piece *x = &l->s.pieces[l->s.first[series] + k];
	*ret_at = x->at;
	return x->at < l->asks[x->holder.peer].result.n ? &l->asks[x->holder.peer].result : NULL;
}

static bool lists_is_alone(const struct union_lists *l, size_t series)
{
	return union_spread_count(&l->s, series) == 1;
}

/* ---- floats ---- */

static struct fleet_floats lists_floats_take(const struct union_lists *l, size_t series, size_t k)
{
	size_t at;
	struct fleet_result *r = lists_piece(l, series, k, &at);
	if (!r)
		return (struct fleet_floats){ 0 };
	struct fleet_floats f = r->floats[at];
	r->floats[at] = (struct fleet_floats){ 0 };
	return f;
}

static int lists_one_floats(struct union_lists *l, size_t series, unsigned worker, struct err *e)
{
	(void)worker;
	size_t n = union_spread_count(&l->s, series);
	if (n == 1) {
		struct fleet_floats f = lists_floats_take(l, series, 0);
		return l->fn.floats(l->arg, series, f.v, f.n, e);
	}
	AUTOFREE struct fleet_floats *lists = xcalloc(n + 1, sizeof *lists);
	for (size_t k = 0; k < n; k++)
		lists[k] = lists_floats_take(l, series, k);
	AUTOFREE struct replica_points *points = xcalloc(n + 1, sizeof *points);
	for (size_t k = 0; k < n; k++)
		points[k] = (struct replica_points){ lists[k].v, lists[k].n };
	struct point *v;
	size_t n_points;
	replicas_join_points(points, n, &v, &n_points);
	for (size_t k = 0; k < n; k++)
		free(lists[k].v);
	return l->fn.floats(l->arg, series, v, n_points, e);
}

int union_floats(struct source_view *sv, const uint64_t *refs, size_t n, int64_t after_ms, int64_t until_ms, const struct source_limits *lim,
		 source_floats_fn fn, void *arg, struct err *e)
{
	struct union_lists l = { .v = (struct union_view *)sv, .refs = refs, .n = n, .lim = lim, .after_ms = after_ms, .until_ms = until_ms,
				 .one = lists_one_floats, .fn.floats = fn, .arg = arg };
	return lists_run(&l, &(struct fleet_call){ .op = FLEET_FLOATS, .after_ms = after_ms, .until_ms = until_ms }, false, e);
}

/* ---- profiles ---- */

static struct fleet_profiles lists_profiles_take(const struct union_lists *l, size_t series, size_t k)
{
	size_t at;
	struct fleet_result *r = lists_piece(l, series, k, &at);
	if (!r)
		return (struct fleet_profiles){ 0 };
	struct fleet_profiles p = r->profiles[at];
	r->profiles[at] = (struct fleet_profiles){ 0 };
	return p;
}

/* The pieces of a series of several holders, taken. */
static struct fleet_profiles *lists_profiles_all(const struct union_lists *l, size_t series, size_t n)
{
	struct fleet_profiles *lists = xcalloc(n + 1, sizeof *lists);
	for (size_t k = 0; k < n; k++)
		lists[k] = lists_profiles_take(l, series, k);
	return lists;
}

static void lists_profiles_free(struct fleet_profiles *lists, size_t n)
{
	for (size_t k = 0; k < n; k++) {
		free(lists[k].v);
		free(lists[k].match);
	}
	free(lists);
}

static int lists_one_profiles(struct union_lists *l, size_t series, unsigned worker, struct err *e)
{
	(void)worker;
	size_t n = union_spread_count(&l->s, series);
	if (n == 1) {
		struct fleet_profiles p = lists_profiles_take(l, series, 0);
		return l->fn.profiles(l->arg, series, p.v, p.n, e);
	}
	struct fleet_profiles *lists = lists_profiles_all(l, series, n);
	const struct union_joined *j = union_joined_keep(l->v, l->refs[series], union_joined_new(lists, n, l->after_ms, l->until_ms));
	lists_profiles_free(lists, n);
	size_t first = union_joined_after(j, l->after_ms), end = union_joined_after(j, l->until_ms);
	struct source_profile *v = xreallocarray(NULL, end - first + 1, sizeof *v);
	memcpy(v, j->v + first, (end - first) * sizeof *v);
	return l->fn.profiles(l->arg, series, v, end - first, e);
}

int union_profiles(struct source_view *sv, const uint64_t *refs, size_t n, int64_t after_ms, int64_t until_ms, const struct source_limits *lim,
		   source_profiles_fn fn, void *arg, struct err *e)
{
	struct union_lists l = { .v = (struct union_view *)sv, .refs = refs, .n = n, .lim = lim, .after_ms = after_ms, .until_ms = until_ms,
				 .one = lists_one_profiles, .fn.profiles = fn, .arg = arg };
	return lists_run(&l, &(struct fleet_call){ .op = FLEET_PROFILES, .after_ms = after_ms, .until_ms = until_ms }, false, e);
}

/* ---- points ---- */

/* Several holders: not plain, so that the list is asked for. */
static int lists_one_points(struct union_lists *l, size_t series, unsigned worker, struct err *e)
{
	(void)worker;
	struct source_points p = { 0 };
	size_t at;
	struct fleet_result *r = lists_is_alone(l, series) ? lists_piece(l, series, 0, &at) : NULL;
	if (r) {
		p = r->points[at];
		r->points[at] = (struct source_points){ 0 };
	} else {
		p.plain = lists_is_alone(l, series); /* of a server that does not answer there is none */
	}
	return l->fn.points(l->arg, series, &p, e);
}

int union_points(struct source_view *sv, const uint64_t *refs, size_t n, int64_t after_ms, int64_t until_ms, const struct source_windows *windows,
		 const struct source_limits *lim, source_points_fn fn, void *arg, struct err *e)
{
	struct union_lists l = { .v = (struct union_view *)sv, .refs = refs, .n = n, .lim = lim, .after_ms = after_ms, .until_ms = until_ms,
				 .one = lists_one_points, .fn.points = fn, .arg = arg };
	return lists_run(&l, &(struct fleet_call){ .op = FLEET_POINTS, .after_ms = after_ms, .until_ms = until_ms, .windows = windows }, true, e);
}

/* ---- covers ---- */

/* Tiles out of the list of profiles. */
static struct source_cover *lists_tiles(const struct union_joined *j, const struct source_tiles *t)
{
	struct source_cover *out = xcalloc(t->n + 1, sizeof *out);
	size_t i = union_joined_after(j, t->after_ms);
	for (size_t k = 0; k < t->n; k++) {
		int64_t until = t->after_ms + (int64_t)(k + 1) * t->width_ms;
		for (; i < j->n && j->v[i].t_ms <= until; i++)
			source_cover_add(&out[k], j->v[i].t_ms, j->v[i].cover_ms, j->v[i].total, j->v[i].weight, j->v[i].period, j->v[i].stale);
		if (t->n > 1)
			vec_free(&out[k].spans);
	}
	return out;
}

static int lists_one_covers(struct union_lists *l, size_t series, unsigned worker, struct err *e)
{
	(void)worker;
	struct source_cover *c = NULL;
	if (l->joined[series]) {
		c = lists_tiles(l->joined[series], l->tiles);
	} else {
		size_t at;
		struct fleet_result *r = lists_piece(l, series, 0, &at);
		c = r ? TAKE_PTR(r->covers[at]) : NULL;
	}
	if (!c)
		c = xcalloc(l->tiles->n + 1, sizeof *c);
	return l->fn.covers(l->arg, series, c, e);
}

int union_covers(struct source_view *sv, const uint64_t *refs, size_t n, const struct source_tiles *t, const struct source_limits *lim,
		 source_covers_fn fn, void *arg, struct err *e)
{
	int64_t until = t->after_ms + (int64_t)t->n * t->width_ms;
	AUTOFREE const struct union_joined **joined = xcalloc(n + 1, sizeof(*joined));
	struct union_lists l = { .v = (struct union_view *)sv, .refs = refs, .n = n, .lim = lim, .joined = joined, .tiles = t, .after_ms = t->after_ms,
				 .until_ms = until, .one = lists_one_covers, .fn.covers = fn, .arg = arg };
	return lists_run(&l, &(struct fleet_call){ .op = FLEET_COVERS, .tiles = t }, true, e);
}

/* ---- matches ---- */

/* The values of the chosen profiles. */
static int64_t *lists_matches(const struct union_joined *j, const struct fleet_profiles *lists, size_t n)
{
	int64_t *match = xcalloc(j->n + 1, sizeof *match);
	size_t *at = xcalloc(n + 1, sizeof *at);
	for (size_t i = 0; i < j->n; i++) {
		const struct fleet_profiles *x = &lists[j->holder[i]];
		size_t *k = &at[j->holder[i]];
		while (*k < x->n && x->v[*k].t_ms < j->v[i].t_ms)
			++*k;
		match[i] = *k < x->n && x->match ? x->match[*k] : 0;
	}
	free(at);
	return match;
}

static int lists_one_matches(struct union_lists *l, size_t series, unsigned worker, struct err *e)
{
	size_t n = union_spread_count(&l->s, series);
	struct fleet_profiles *lists = lists_profiles_all(l, series, n);
	int rc;
	if (n == 1) {
		rc = l->fn.matches(l->arg, series, lists->v, lists->match, lists->n, worker, e);
	} else {
		struct union_joined *j = union_joined_new(lists, n, l->after_ms, l->until_ms);
		int64_t *match = lists_matches(j, lists, n);
		rc = l->fn.matches(l->arg, series, j->v, match, j->n, worker, e);
		free(match);
		union_joined_free(j);
	}
	lists_profiles_free(lists, n);
	return rc;
}

int union_matches(struct source_view *sv, const uint64_t *refs, size_t n, int64_t after_ms, int64_t until_ms, const struct source_frame_filter *f,
		  const struct source_limits *lim, source_matches_fn fn, void *arg, struct err *e)
{
	struct union_lists l = { .v = (struct union_view *)sv, .refs = refs, .n = n, .lim = lim, .after_ms = after_ms, .until_ms = until_ms,
				 .one = lists_one_matches, .fn.matches = fn, .arg = arg };
	return lists_run(&l, &(struct fleet_call){ .op = FLEET_MATCHES, .after_ms = after_ms, .until_ms = until_ms, .filter = f }, false, e);
}
