/* SPDX-License-Identifier: Apache-2.0 */
/* A series that several peers have, because its target moved from one to the other or because both scrape it: which of their profiles count. Where one
 * peer follows the other all do; in hours in which several measured at the same time the rule of replicas says which (model/replicas.h).
 *
 *	peer a   ●  ●  ●  ●  ○           chosen ●, left out ○
 *	peer b               ●  ●  ●
 *
 * Lists are kept with the series, so that a merge reads the profiles that a list before it has shown. */
#include <stdlib.h>

#include "base/alloc.h"
#include "fleet/union_internal.h"
#include "model/replicas.h"

void union_joined_free(struct union_joined *j)
{
	if (!j)
		return;
	free(j->v);
	free(j->holder);
	free(j->left);
	free(j);
}

static int left_cmp(const void *a, const void *b)
{
	const struct union_left *x = a, *y = b;
	return x->t_ms != y->t_ms ? (x->t_ms > y->t_ms) - (x->t_ms < y->t_ms) : (x->holder > y->holder) - (x->holder < y->holder);
}

/* Profiles of one holder that are not among the chosen. */
static size_t joined_leave(const struct union_joined *j, const struct fleet_profiles *list, uint32_t holder, struct union_left *out)
{
	size_t n = 0;
	for (size_t i = 0, k = 0; i < list->n; i++) {
		while (k < j->n && (j->holder[k] != holder || j->v[k].t_ms < list->v[i].t_ms))
			k++;
		if (!list->v[i].stale && !(k < j->n && j->v[k].t_ms == list->v[i].t_ms))
			out[n++] = (struct union_left){ list->v[i].t_ms, holder };
	}
	return n;
}

/* ---- which count ---- */

#define JOIN_HOUR_MS INT64_C(3600000)

static int64_t join_hour(int64_t t_ms)
{
	return t_ms / JOIN_HOUR_MS - (t_ms % JOIN_HOUR_MS < 0);
}

static int entry_cmp(const void *a, const void *b)
{
	const struct replica_profile *x = a, *y = b;
	return x->p.t_ms != y->p.t_ms ? (x->p.t_ms > y->p.t_ms) - (x->p.t_ms < y->p.t_ms) : (x->replica > y->replica) - (x->replica < y->replica);
}

/* Whether several holders measured at the same time. One that follows the other does not: all profiles of both count. met: room for whether a holder has
 * been met, all false. */
static bool join_overlaps(const struct replica_profile *v, size_t n, bool *met, size_t n_holders)
{
	const struct replica_profile *last = NULL;
	bool overlaps = false;
	for (size_t i = 0; i < n && !overlaps; i++) {
		if (v[i].p.stale)
			continue;
		if (last && last->replica != v[i].replica)
			overlaps = met[v[i].replica] || v[i].p.t_ms - v[i].p.duration_ns / 1000000 < last->p.t_ms || v[i].p.t_ms == last->p.t_ms;
		met[v[i].replica] = true;
		last = &v[i];
	}
	memset(met, 0, n_holders * sizeof *met);
	return overlaps;
}

/* Where holders follow each other. A marker counts if it is of the holder whose profile came last. */
static size_t join_follow(const struct replica_profile *v, size_t n, struct replica_profile *out, size_t at)
{
	for (size_t i = 0; i < n; i++)
		if (!v[i].p.stale || !at || (!out[at - 1].p.stale && out[at - 1].replica == v[i].replica))
			out[at++] = v[i];
	return at;
}

/* Hours in which holders follow each other are added up as they are; those that follow each other and in which several measured at once go through the
 * rule together. v becomes the chosen; returns how many. */
static size_t join_choose(struct replica_profile *v, size_t n, size_t n_holders)
{
	AUTOFREE bool *met = xcalloc(n_holders + 1, sizeof *met);
	size_t out = 0, from = 0; /* of the hours that go through the rule; those before i */
	for (size_t i = 0, k; i < n; i = k) {
		for (k = i + 1; k < n && join_hour(v[k].p.t_ms - 1) == join_hour(v[i].p.t_ms - 1); k++)
			;
		bool overlaps = join_overlaps(&v[i], k - i, met, n_holders);
		if (overlaps && k < n)
			continue;
		size_t end = overlaps ? k : i, chosen = end > from ? replicas_choose(&v[from], end - from, n_holders) : 0;
		memmove(&v[out], &v[from], chosen * sizeof *v);
		out += chosen;
		if (!overlaps)
			out = join_follow(&v[i], k - i, v, out);
		from = k;
	}
	return out;
}

struct union_joined *union_joined_new(const struct fleet_profiles *lists, size_t n, int64_t after_ms, int64_t until_ms)
{
	struct union_joined *j = NEW(struct union_joined);
	size_t all = 0, n_v = 0;
	for (size_t i = 0; i < n; i++)
		all += lists[i].n;
	struct replica_profile *v = xcalloc(all + 1, sizeof *v);
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < lists[i].n; k++)
			v[n_v++] = (struct replica_profile){ lists[i].v[k], (uint32_t)i };
	qsort(v, n_v, sizeof *v, entry_cmp);
	j->after_ms = after_ms;
	j->until_ms = until_ms;
	j->left = xreallocarray(NULL, all + 1, sizeof *j->left);
	j->n = join_choose(v, n_v, n);
	j->v = xreallocarray(NULL, j->n + 1, sizeof *j->v);
	j->holder = xreallocarray(NULL, j->n + 1, sizeof *j->holder);
	for (size_t i = 0; i < j->n; i++) {
		j->v[i] = v[i].p;
		j->holder[i] = v[i].replica;
	}
	free(v);
	for (size_t i = 0; i < n; i++)
		j->n_left += joined_leave(j, &lists[i], (uint32_t)i, j->left + j->n_left);
	qsort(j->left, j->n_left, sizeof *j->left, left_cmp);
	return j;
}

size_t union_joined_after(const struct union_joined *j, int64_t t_ms)
{
	size_t a = 0, b = j->n;
	while (a < b) {
		size_t m = (a + b) / 2;
		if (j->v[m].t_ms <= t_ms)
			a = m + 1;
		else
			b = m;
	}
	return a;
}

/* ---- samples ---- */

/* The list whose next sample is the oldest; of equal stamps the first. n: there is none. */
static size_t floats_next(const struct fleet_floats *lists, const size_t *at, size_t n)
{
	size_t next = n;
	for (size_t i = 0; i < n; i++)
		if (at[i] < lists[i].n && (next == n || lists[i].v[at[i]].t_ms < lists[next].v[at[next]].t_ms))
			next = i;
	return next;
}

struct point *union_joined_floats(const struct fleet_floats *lists, size_t n, size_t *ret_n)
{
	AUTOFREE size_t *at = xcalloc(n + 1, sizeof *at);
	AUTOFREE bool *live = xcalloc(n + 1, sizeof *live);
	size_t all = 0, out = 0, n_live = 0;
	for (size_t i = 0; i < n; i++)
		all += lists[i].n;
	struct point *v = xreallocarray(NULL, all + 1, sizeof *v);
	for (size_t i; (i = floats_next(lists, at, n)) < n; at[i]++) {
		struct point p = lists[i].v[at[i]];
		bool stale = value_is_stale(p.v), was = live[i];
		n_live = n_live + !stale - was;
		live[i] = !stale;
		if (stale ? !was || n_live : out && v[out - 1].t_ms == p.t_ms && !value_is_stale(v[out - 1].v))
			continue; /* another holder goes on, or has this stamp */
		if (out && v[out - 1].t_ms == p.t_ms)
			out--; /* a marker there: this holder goes on */
		v[out++] = p;
	}
	*ret_n = out;
	return v;
}

/* ---- lists that are kept ---- */

static const struct union_joined *joined_find(const struct union_series *s, int64_t after_ms, int64_t until_ms)
{
	for (size_t i = 0; i < s->joined.n; i++)
		if (s->joined.v[i]->after_ms <= after_ms && s->joined.v[i]->until_ms >= until_ms)
			return s->joined.v[i];
	return NULL;
}

const struct union_joined *union_joined_keep(struct union_view *v, uint64_t ref, struct union_joined *j)
{
	mutex_lock(&v->lock);
	struct union_series *s = &v->series.v[ref];
	const struct union_joined *there = joined_find(s, j->after_ms, j->until_ms);
	if (!there)
		vec_push(&s->joined, j);
	mutex_unlock(&v->lock);
	if (!there)
		return j;
	union_joined_free(j);
	return there;
}

/* The series of several holders that are to be asked about; each once. */
static size_t joined_want(struct union_view *v, const uint64_t *refs, size_t n, int64_t after_ms, int64_t until_ms, const struct union_joined **ret,
			  uint64_t *wanted, size_t *of)
{
	size_t n_wanted = 0;
	mutex_lock(&v->lock);
	for (size_t i = 0; i < n; i++) {
		const struct union_series *s = &v->series.v[refs[i]];
		ret[i] = s->holders.n > 1 ? joined_find(s, after_ms, until_ms) : NULL;
		if (ret[i] || s->holders.n < 2)
			continue;
		wanted[n_wanted] = refs[i];
		of[n_wanted++] = i;
	}
	mutex_unlock(&v->lock);
	return n_wanted;
}

/* The joined list of a series of a spread out of the answers. */
static struct union_joined *joined_of(const struct union_spread *s, const struct union_ask *asks, size_t series, int64_t after_ms, int64_t until_ms)
{
	size_t n = union_spread_count(s, series);
	AUTOFREE struct fleet_profiles *lists = xcalloc(n + 1, sizeof *lists);
	for (size_t k = 0; k < n; k++) {
		const struct union_piece *x = &s->pieces[s->first[series] + k];
		const struct fleet_result *r = &asks[x->holder.peer].result;
		lists[k] = r->n ? r->profiles[x->at] : (struct fleet_profiles){ 0 };
	}
	return union_joined_new(lists, n, after_ms, until_ms);
}

int union_joined_load(struct union_view *v, const uint64_t *refs, size_t n, int64_t after_ms, int64_t until_ms, const struct source_limits *lim,
		      const struct union_joined **ret, struct err *e)
{
	struct union_spread s = { 0 };
	AUTOFREE uint64_t *wanted = xcalloc(n + 1, sizeof *wanted);
	AUTOFREE size_t *of = xcalloc(n + 1, sizeof *of);
	memset(ret, 0, n * sizeof *ret);
	size_t n_wanted = union_is_plain(v) ? 0 : joined_want(v, refs, n, after_ms, until_ms, ret, wanted, of);
	if (!n_wanted)
		return 0;
	struct union_ask *asks = union_asks_new(v);
	int rc = union_spread_make(v, wanted, n_wanted, false, &s, e);
	for (size_t p = 0; p < v->n_peers && !rc; p++) {
		asks[p].wanted = s.shares[p].n;
		asks[p].call = (struct fleet_call){ .op = FLEET_PROFILES, .after_ms = after_ms, .until_ms = until_ms, .refs = s.shares[p].refs,
						    .n_refs = s.shares[p].n };
	}
	if (!rc)
		rc = union_ask_all(v, asks, after_ms, until_ms, lim, e);
	for (size_t i = 0; i < n_wanted && !rc; i++)
		ret[of[i]] = union_joined_keep(v, wanted[i], joined_of(&s, asks, i, after_ms, until_ms));
	union_asks_free(v, asks);
	union_spread_release(&s);
	return rc;
}
