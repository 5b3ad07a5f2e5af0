/* SPDX-License-Identifier: Apache-2.0 */
/* Series by matchers. A peer does not know its external labels as labels of its series, so that matchers about them are evaluated here:
 *
 *	{service="x", region=~"eu|us"}   peer with region="eu": asked for {service="x"}, and region is evaluated on labels of its series with "eu"
 *	                                 peer with region="asia": asked for both: only a series with a region of its own can satisfy them
 *	                                 peer without: asked for both
 *
 * The labels of a peer come with its first answer. The first question is therefore asked as if there were none; only if a matcher turns out to be
 * about one of them, the peer is asked again. */
#include <stdlib.h>

#include "base/alloc.h"
#include "fleet/union_internal.h"

/* ---- what a peer is asked ---- */

static bool select_is_external(struct labels external, struct view name)
{
	return external.n && labels_get(external, name).len;
}

/* Whether a peer with these labels may apply the matcher: 1 or 0. */
static int select_sends(const struct union_matching *q, const struct matcher *m, struct labels external, struct err *e)
{
	if (!select_is_external(external, m->name))
		return 1;
	int rc = matcher_matches(m, labels_get(external, m->name), q->lim ? q->lim->regex : NULL, e);
	return rc < 0 ? rc : !rc;
}

/* The call of one peer with these labels. *room: the array of its matchers, if it is not the question's. */
static int select_call(const struct union_matching *q, struct labels external, struct matcher **room, struct fleet_call *ret, struct err *e)
{
	*ret = (struct fleet_call){ .op = q->op, .after_ms = q->after_ms, .until_ms = q->until_ms, .m = q->m, .n_m = q->n_m, .label = q->label };
	bool external_only = q->op == FLEET_LABEL_VALUES && select_is_external(external, q->label);
	for (size_t i = 0; i < q->n_m; i++)
		external_only |= select_is_external(external, q->m[i].name);
	if (!external_only)
		return 0;
	ret->op = FLEET_SELECT;
	struct matcher *sent = xcalloc(q->n_m + 1, sizeof *sent);
	ret->n_m = 0;
	ret->m = *room = sent;
	for (size_t i = 0; i < q->n_m; i++) {
		int rc = select_sends(q, &q->m[i], external, e);
		if (rc < 0)
			return rc;
		if (rc)
			sent[ret->n_m++] = q->m[i]; /* its expression is borrowed */
	}
	return 0;
}

/* Another call than the one that was answered: its answer is not what is wanted. */
static bool select_differs(const struct fleet_call *a, const struct fleet_call *b)
{
	return a->op != b->op || a->n_m != b->n_m;
}

int union_ask_matching(struct union_view *v, const struct union_matching *q, struct union_ask **ret, struct err *e)
{
	struct matcher **rooms = xcalloc(2 * v->n_peers + 1, sizeof(*rooms));
	struct union_ask *asks = *ret = union_asks_new(v);
	int rc = 0;
	for (size_t i = 0; i < v->n_peers && !rc; i++) {
		asks[i].wanted = true;
		rc = select_call(q, union_peer_labels(v, i), &rooms[i], &asks[i].call, e);
	}
	if (!rc)
		rc = union_ask_all(v, asks, q->after_ms, q->until_ms, q->lim, e);
	bool again = false;
	for (size_t i = 0; i < v->n_peers && !rc; i++) {
		struct fleet_call call;
		rc = select_call(q, union_peer_labels(v, i), &rooms[v->n_peers + i], &call, e);
		asks[i].wanted &= !rc && select_differs(&asks[i].call, &call);
		if (!asks[i].wanted)
			continue;
		fleet_result_release(&asks[i].result);
		asks[i].call = call;
		again = true;
	}
	if (!rc && again)
		rc = union_ask_all(v, asks, q->after_ms, q->until_ms, q->lim, e);
	for (size_t i = 0; i < 2 * v->n_peers; i++)
		free(rooms[i]);
	free(rooms);
	return rc;
}

/* ---- labels ---- */

struct labels union_labels_with(struct union_labels *room, struct labels own, struct labels external)
{
	if (!external.n)
		return own;
	room->v.n = 0;
	for (size_t i = 0, k = 0; i < own.n || k < external.n;) {
		int c = i == own.n ? 1 : k == external.n ? -1 : view_cmp(own.v[i].name, external.v[k].name);
		vec_push(&room->v, c <= 0 ? own.v[i] : external.v[k]);
		i += c <= 0;
		k += c >= 0;
	}
	return (struct labels){ room->v.v, room->v.n };
}

int union_labels_match(const struct union_matching *q, struct labels external, struct labels all, struct err *e)
{
	int rc = 1;
	for (size_t i = 0; i < q->n_m && rc > 0 && external.n; i++)
		if (select_is_external(external, q->m[i].name))
			rc = matcher_matches(&q->m[i], labels_get(all, q->m[i].name), q->lim ? q->lim->regex : NULL, e);
	return rc;
}

/* ---- select ---- */

/* The series of a peer's answer, into the table and the list. */
static int select_add(struct union_view *v, const struct union_matching *q, size_t peer, const struct fleet_result *r, uint64_t n_select,
		      struct union_labels *room, struct source_series *out, size_t *n, struct err *e) REQUIRES(v->lock)
{
	struct labels external = v->peers[peer].labels;
	for (size_t i = 0; i < r->n; i++) {
		const struct source_series *s = &r->series[i];
		struct labels all = union_labels_with(room, s->labels, external);
		int rc = union_labels_match(q, external, all, e);
		if (rc < 0)
			return rc;
		if (!rc)
			continue;
		bool first;
		uint64_t ref = union_series_add(v, all, !external.n, s->type, (struct union_holder){ (uint32_t)peer, s->ref }, n_select, &first);
		if (first)
			out[(*n)++] = (struct source_series){ v->series.v[ref].labels, s->type, ref };
	}
	return 0;
}

static int select_cmp(const struct source_series *a, const struct source_series *b)
{
	int c = labels_cmp(a->labels, b->labels);
	return c ? c : (a->ref > b->ref) - (a->ref < b->ref);
}

/* Merges [a, mid) and [mid, end) of from into to. */
static void select_merge(const struct source_series *from, size_t a, size_t mid, size_t end, struct source_series *to)
{
	for (size_t i = a, k = mid, out = a; out < end; out++)
		to[out] = k == end || (i < mid && select_cmp(&from[i], &from[k]) <= 0) ? from[i++] : from[k++];
}

/* Sorts by labels. The lists of peers are sorted, most of them stay so with external labels: sorted runs are merged, two by two. */
static struct source_series *select_sort(struct source_series *v, size_t n)
{
	VEC(size_t) ends = { 0 };
	struct source_series *other = NULL;
	for (size_t i = 1; i <= n; i++)
		if (i == n || select_cmp(&v[i - 1], &v[i]) > 0)
			vec_push(&ends, i);
	if (ends.n > 1)
		other = xcalloc(n, sizeof *other);
	while (ends.n > 1) {
		size_t out = 0, start = 0;
		for (size_t i = 0; i < ends.n; i += 2) {
			size_t mid = ends.v[i], end = i + 1 < ends.n ? ends.v[i + 1] : mid;
			select_merge(v, start, mid, end, other);
			ends.v[out++] = start = end;
		}
		ends.n = out;
		struct source_series *was = v;
		v = other;
		other = was;
	}
	vec_free(&ends);
	free(other);
	return v;
}

static int select_join(struct union_view *v, const struct union_matching *q, struct union_ask *asks, struct source_series **ret, size_t *ret_n,
		       struct err *e)
{
	struct union_labels room = { 0 };
	size_t most = 0, n = 0;
	int rc = 0;
	for (size_t i = 0; i < v->n_peers; i++)
		most += asks[i].result.n;
	struct source_series *out = xcalloc(most + 1, sizeof *out);
	mutex_lock(&v->lock);
	uint64_t n_select = ++v->n_selects;
	for (size_t i = 0; i < v->n_peers && !rc; i++)
		rc = select_add(v, q, i, &asks[i].result, n_select, &room, out, &n, e);
	mutex_unlock(&v->lock);
	vec_free(&room.v);
	if (rc) {
		free(out);
		return rc;
	}
	*ret = select_sort(out, n);
	*ret_n = n;
	return 0;
}

int union_select(struct source_view *sv, const struct matcher *m, size_t n, int64_t after_ms, int64_t until_ms, const struct source_limits *lim,
		 struct source_series **ret, size_t *ret_n, struct err *e)
{
	struct union_view *v = (struct union_view *)sv;
	struct union_matching q = { .op = FLEET_SELECT, .m = m, .n_m = n, .after_ms = after_ms, .until_ms = until_ms, .lim = lim };
	struct union_ask *asks;
	int rc = union_ask_matching(v, &q, &asks, e);
	if (!rc && union_is_plain(v)) {
		*ret_n = asks->result.n;
		*ret = TAKE_PTR(asks->result.series);
	} else if (!rc) {
		rc = select_join(v, &q, asks, ret, ret_n, e);
	}
	union_asks_free(v, asks);
	return rc;
}
