/* SPDX-License-Identifier: Apache-2.0 */
/* A series that several peers have, because its target moved from one to the other or because both scrape it: which of their profiles count. Where
 * one peer follows the other all do; in hours in which several measured at the same time the rule of replicas says which (model/replicas.h).
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

/* Lists that are being joined, hour by hour. */
struct join {
	const struct fleet_profiles *lists;
	size_t n;
	size_t *from;                /* by list: where the hours begin that go through the rule; where this hour begins; where it ends */
	size_t *at, *end;
	bool *met;                   /* by list: it has a profile in this hour */
	bool context;                /* the oldest profile of the hours that go through the rule is in `out` already */
	struct union_joined *out;    /* has room for all */
};

static int64_t join_hour(int64_t t_ms)
{
	return (t_ms - 1) / JOIN_HOUR_MS - ((t_ms - 1) % JOIN_HOUR_MS < 0);
}

/* The list whose next profile is the oldest; of equal stamps the first. n: none has any. */
static size_t join_next(const struct join *j, const size_t *next, const size_t *end)
{
	size_t oldest = j->n;
	for (size_t i = 0; i < j->n; i++)
		if (next[i] < end[i] && (oldest == j->n || j->lists[i].v[next[i]].t_ms < j->lists[oldest].v[next[oldest]].t_ms))
			oldest = i;
	return oldest;
}

/* The next hour in which any list has a profile: [at, end). */
static bool join_next_hour(struct join *j, const size_t *all)
{
	size_t first = join_next(j, j->end, all);
	if (first == j->n)
		return false;
	int64_t hour = join_hour(j->lists[first].v[j->end[first]].t_ms);
	for (size_t i = 0; i < j->n; i++) {
		j->at[i] = j->end[i];
		while (j->end[i] < all[i] && join_hour(j->lists[i].v[j->end[i]].t_ms) == hour)
			j->end[i]++;
	}
	return true;
}

/* The newest profile before this hour. */
static const struct source_profile *join_before(const struct join *j, size_t *ret_list)
{
	const struct source_profile *newest = NULL;
	for (size_t i = 0; i < j->n; i++) {
		size_t k = j->at[i];
		while (k && j->lists[i].v[k - 1].stale)
			k--;
		if (k && (!newest || j->lists[i].v[k - 1].t_ms > newest->t_ms)) {
			newest = &j->lists[i].v[k - 1];
			*ret_list = i;
		}
	}
	return newest;
}

/* Whether several holders measured at the same time in this hour. Where one follows the other all profiles of both count. next: room for n. */
static bool join_overlaps(struct join *j, size_t *next)
{
	size_t last_list = j->n;
	const struct source_profile *last = join_before(j, &last_list);
	bool overlaps = false;
	memcpy(next, j->at, j->n * sizeof *next);
	memset(j->met, 0, j->n * sizeof *j->met);
	for (size_t i; !overlaps && (i = join_next(j, next, j->end)) < j->n; next[i]++) {
		const struct source_profile *p = &j->lists[i].v[next[i]];
		if (p->stale)
			continue;
		if (last && last_list != i)
			overlaps = j->met[i] || p->t_ms - p->duration_ns / 1000000 < last->t_ms || p->t_ms == last->t_ms;
		j->met[i] = true;
		last = p;
		last_list = i;
	}
	return overlaps;
}

static void join_put(struct join *j, const struct source_profile *p, size_t holder)
{
	j->out->v[j->out->n] = *p;
	j->out->holder[j->out->n++] = (uint32_t)holder;
}

/* Where holders follow each other. A marker counts if it is of the holder that came last. */
static void join_follow(struct join *j, size_t *next)
{
	memcpy(next, j->at, j->n * sizeof *next);
	for (size_t i; (i = join_next(j, next, j->end)) < j->n; next[i]++) {
		const struct source_profile *p = &j->lists[i].v[next[i]];
		if (!p->stale || !j->out->n || j->out->holder[j->out->n - 1] == i)
			join_put(j, p, i);
	}
}

/* The hours [from, until) through the rule. */
static void join_by_rule(struct join *j, const size_t *until)
{
	struct replica_profiles *r = xcalloc(j->n + 1, sizeof *r);
	struct source_profile *v;
	uint32_t *replica;
	size_t n;
	for (size_t i = 0; i < j->n; i++)
		r[i] = (struct replica_profiles){ j->lists[i].v + j->from[i], until[i] - j->from[i] };
	replicas_join_profiles(r, j->n, &v, &replica, &n);
	for (size_t i = j->context; i < n; i++)
		join_put(j, &v[i], replica[i]);
	free(v);
	free(replica);
	free(r);
}

/* The hours that go through the rule begin with this one. The profile before it comes with them: the first of another holder may overlap it. */
static void join_begin_rule(struct join *j)
{
	const struct source_profile *last = j->out->n ? &j->out->v[j->out->n - 1] : NULL;
	size_t holder = last ? j->out->holder[j->out->n - 1] : 0;
	memcpy(j->from, j->at, j->n * sizeof *j->from);
	j->context = last && !last->stale && j->lists[holder].v[j->at[holder] - 1].t_ms == last->t_ms;
	j->from[holder] -= j->context;
}

/* Hours in which holders follow each other are added up as they are. Those in which several measured at once go through the rule, adjacent ones
 * together. */
static void join_choose(struct join *j)
{
	AUTOFREE size_t *all = xcalloc(j->n + 1, sizeof *all), *next = xcalloc(j->n + 1, sizeof *next);
	bool before = false;
	for (size_t i = 0; i < j->n; i++)
		all[i] = j->lists[i].n;
	while (join_next_hour(j, all)) {
		bool overlaps = join_overlaps(j, next);
		if (before && !overlaps)
			join_by_rule(j, j->at);
		if (!overlaps)
			join_follow(j, next);
		else if (!before)
			join_begin_rule(j);
		before = overlaps;
	}
	if (before)
		join_by_rule(j, j->end);
}

struct union_joined *union_joined_new(const struct fleet_profiles *lists, size_t n, int64_t after_ms, int64_t until_ms)
{
	struct union_joined *out = NEW(struct union_joined);
	size_t all = 0;
	for (size_t i = 0; i < n; i++)
		all += lists[i].n;
	*out = (struct union_joined){ .after_ms = after_ms, .until_ms = until_ms, .v = xcalloc(all + 1, sizeof *out->v),
				      .holder = xcalloc(all + 1, sizeof *out->holder), .left = xcalloc(all + 1, sizeof *out->left) };
	AUTOFREE size_t *places = xcalloc(3 * n + 1, sizeof *places);
	AUTOFREE bool *met = xcalloc(n + 1, sizeof *met);
	struct join j = { lists, n, places, places + n, places + 2 * n, met, false, out };
	join_choose(&j);
	for (size_t i = 0; i < n; i++)
		out->n_left += joined_leave(out, &lists[i], (uint32_t)i, out->left + out->n_left);
	qsort(out->left, out->n_left, sizeof *out->left, left_cmp);
	return out;
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

/* The series of several holders that are to be asked about. */
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
