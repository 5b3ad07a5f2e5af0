/* SPDX-License-Identifier: Apache-2.0 */
/* Types, and names and values of labels: what all peers have. */
#include <stdlib.h>

#include "base/alloc.h"
#include "fleet/union_internal.h"

/* ---- types ---- */

typedef VEC(struct source_type) types_list;

static void types_add(types_list *out, struct map *by_name, const struct source_type *x)
{
	uint32_t id;
	if (MAP_FIND_OR_ADD(by_name, hash_view(x->name), id, out->n,
			    view_eq(out->v[id].name, x->name) && out->v[id].type->kind == x->type->kind && ptype_eq(out->v[id].type, x->type)))
		out->v[id].n_series += x->n_series;
	else
		vec_push(out, *x);
}

int union_types(struct source_view *sv, int64_t after_ms, int64_t until_ms, const struct source_limits *lim, struct source_type **ret, size_t *ret_n,
		struct err *e)
{
	struct union_view *v = (struct union_view *)sv;
	struct union_ask *asks = union_asks_new(v);
	for (size_t i = 0; i < v->n_peers; i++)
		asks[i] = (struct union_ask){ .wanted = true, .call = { .op = FLEET_TYPES, .after_ms = after_ms, .until_ms = until_ms } };
	int rc = union_ask_all(v, asks, after_ms, until_ms, lim, e);
	types_list out = { 0 };
	struct map by_name = { 0 };
	for (size_t i = 0; i < v->n_peers && !rc; i++)
		for (size_t k = 0; k < asks[i].result.n; k++)
			types_add(&out, &by_name, &asks[i].result.types[k]);
	map_free(&by_name);
	union_asks_free(v, asks);
	if (rc)
		return rc;
	*ret = out.v;
	*ret_n = out.n;
	return 0;
}

/* ---- names and values ---- */

typedef VEC(struct view) texts_list;

static int texts_cmp(const void *a, const void *b)
{
	return view_cmp(*(const struct view *)a, *(const struct view *)b);
}

static void texts_sort_unique(texts_list *l)
{
	size_t n = 0;
	if (l->n)
		qsort(l->v, l->n, sizeof *l->v, texts_cmp);
	for (size_t i = 0; i < l->n; i++)
		if (!n || !view_eq(l->v[i], l->v[n - 1]))
			l->v[n++] = l->v[i];
	l->n = n;
}

/* Of a peer that selected its series. Texts of the labels live as long as the view. */
static int texts_of_series(const struct union_matching *q, struct labels external, const struct fleet_result *r, struct union_labels *room,
			   texts_list *out,
			   struct err *e)
{
	struct view last = { 0 };
	for (size_t i = 0; i < r->n; i++) {
		struct labels all = union_labels_with(room, r->series[i].labels, external);
		int rc = union_labels_match(q, external, all, e);
		if (rc < 0)
			return rc;
		for (size_t k = 0; k < all.n && rc && q->op == FLEET_LABEL_NAMES; k++)
			vec_push(out, all.v[k].name);
		struct view value = rc && q->op == FLEET_LABEL_VALUES ? labels_get(all, q->label) : (struct view){ 0 };
		if (value.len && !(last.len && view_eq(last, value))) { /* one value often follows itself */
			vec_push(out, value);
			last = value;
		}
		if (out->n > 1 << 20 && out->n == out->cap) /* series repeat their names */
			texts_sort_unique(out);
	}
	return 0;
}

/* Of a peer that was asked for them. It has series that match if it has names, for each has one. */
static void texts_of_names(const struct union_matching *q, struct labels external, const struct fleet_result *r, texts_list *out)
{
	for (size_t i = 0; i < r->n; i++)
		vec_push(out, r->names[i]);
	for (size_t i = 0; i < external.n && r->n && q->op == FLEET_LABEL_NAMES; i++)
		vec_push(out, external.v[i].name);
}

static int texts_ask(struct union_view *v, const struct union_matching *q, struct view **ret, size_t *ret_n, struct err *e)
{
	struct union_ask *asks;
	struct union_labels room = { 0 };
	texts_list out = { 0 };
	int rc = union_ask_matching(v, q, &asks, e);
	for (size_t i = 0; i < v->n_peers && !rc; i++) {
		struct labels external = union_peer_labels(v, i);
		if (asks[i].call.op == FLEET_SELECT)
			rc = texts_of_series(q, external, &asks[i].result, &room, &out, e);
		else
			texts_of_names(q, external, &asks[i].result, &out);
	}
	union_asks_free(v, asks);
	vec_free(&room.v);
	if (rc) {
		vec_free(&out);
		return rc;
	}
	texts_sort_unique(&out);
	*ret = out.v;
	*ret_n = out.n;
	return 0;
}

int union_label_names(struct source_view *sv, const struct matcher *m, size_t n, int64_t after_ms, int64_t until_ms, const struct source_limits *lim,
		      struct view **ret, size_t *ret_n, struct err *e)
{
	struct union_matching q = { FLEET_LABEL_NAMES, m, n, { 0 }, after_ms, until_ms, lim };
	return texts_ask((struct union_view *)sv, &q, ret, ret_n, e);
}

int union_label_values(struct source_view *sv, struct view name, const struct matcher *m, size_t n, int64_t after_ms, int64_t until_ms,
		       const struct source_limits *lim, struct view **ret, size_t *ret_n, struct err *e)
{
	struct union_matching q = { FLEET_LABEL_VALUES, m, n, name, after_ms, until_ms, lim };
	return texts_ask((struct union_view *)sv, &q, ret, ret_n, e);
}
