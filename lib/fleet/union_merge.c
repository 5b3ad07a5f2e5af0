/* SPDX-License-Identifier: Apache-2.0 */
/* Merges of several peers. A vector that has a group for itself passes as it is; others are added up over common symbols, in the order in which
 * storage adds up (merge_results_scaled): by divisor and scale, integers first. */
#include <stdlib.h>

#include "base/alloc.h"
#include "fleet/union_internal.h"

/* The scale and weights of a class. */
struct merge_class {
	double scale;
	struct source_weigh weigh;
};

struct merge_classes {
	const struct source_part *parts;
	VEC(struct merge_class) v;
	struct map by_content;
};

static uint32_t merge_class_of(void *arg, size_t part)
{
	struct merge_classes *c = arg;
	const struct source_part *p = &c->parts[part];
	uint64_t key[4] = { (uint64_t)p->weigh.over_ms, (uint64_t)p->weigh.base_ms, p->weigh.by_cover, 0 };
	uint32_t id;
	memcpy(&key[3], &p->scale, sizeof p->scale);
	if (!MAP_FIND_OR_ADD(&c->by_content, hash_bytes(key, sizeof key), id, c->v.n,
			     c->v.v[id].scale == p->scale && source_weigh_eq(&c->v.v[id].weigh, &p->weigh)))
		vec_push(&c->v, (struct merge_class){ p->scale, p->weigh });
	return id;
}

/* A vector of a peer. */
struct merge_item {
	uint32_t group;
	struct union_term term;
};
typedef VEC(struct merge_item) merge_items;

static struct union_term merge_term(const struct merge_classes *c, uint32_t class, struct stackvec *v)
{
	if (class < UNION_CLASSES)
		return (struct union_term){ v, 1, 0, 1 };
	const struct merge_class *x = &c->v.v[class - UNION_CLASSES];
	return (struct union_term){ v, x->scale, x->weigh.over_ms, x->weigh.over_ms && !x->weigh.by_cover ? x->weigh.base_ms : 1 };
}

static void merge_gather(const struct merge_classes *c, const struct union_parts *p, const struct fleet_result *r, merge_items *out)
{
	for (size_t i = 0; i < p->ranges.n && r->n; i++) {
		const struct union_range *x = &p->ranges.v[i];
		for (uint32_t k = 0; k < x->n; k++)
			if (r->vecs[x->first + k] && r->vecs[x->first + k]->n)
				vec_push(out, (struct merge_item){ x->group + k, merge_term(c, x->class, r->vecs[x->first + k]) });
	}
}

/* By group, divisor and scale. */
static int merge_item_cmp(const void *a, const void *b)
{
	const struct merge_item *x = a, *y = b;
	if (x->group != y->group)
		return x->group < y->group ? -1 : 1;
	if (x->term.over_ms != y->term.over_ms)
		return x->term.over_ms < y->term.over_ms ? -1 : 1;
	return (x->term.scale > y->term.scale) - (x->term.scale < y->term.scale);
}

/* ret[group] of the groups that have something. */
static int merge_groups(struct union_view *v, const merge_items *items, const struct source_limits *lim, struct stackvec **ret, struct err *e)
{
	VEC(struct union_term) terms = { 0 };
	int rc = 0;
	for (size_t i = 0, k; i < items->n && !rc; i = k) {
		terms.n = 0;
		for (k = i; k < items->n && items->v[k].group == items->v[i].group; k++)
			vec_push(&terms, items->v[k].term);
		if (terms.n == 1 && terms.v->scale == 1 && !terms.v->over_ms) {
			ret[items->v[i].group] = stackvec_ref(terms.v->v);
			continue;
		}
		struct err why = { 0 };
		ret[items->v[i].group] = union_dictionary_sum(v->dictionary, terms.v, terms.n, &why);
		if (!ret[items->v[i].group])
			rc = err_set(e, why.code, "%s", why.msg);
		else if (lim)
			rc = source_limits_check(lim, e);
	}
	vec_free(&terms);
	return rc;
}

int union_merge(struct source_view *sv, const struct source_part *parts, size_t n, size_t n_groups, enum symbols_detail detail,
		const struct source_limits *lim, struct stackvec **ret, struct err *e)
{
	struct union_view *v = (struct union_view *)sv;
	struct merge_classes classes = { .parts = parts };
	struct union_parts *by_peer;
	struct union_ask *asks = NULL;
	merge_items items = { 0 };
	int rc = union_parts_make(v, parts, n, n_groups, merge_class_of, &classes, lim, &by_peer, e);
	if (!rc)
		rc = union_parts_ask(v, by_peer, &(struct fleet_call){ .op = FLEET_MERGE, .detail = detail }, lim, &asks, e);
	for (size_t i = 0; i < v->n_peers && !rc; i++)
		merge_gather(&classes, &by_peer[i], &asks[i].result, &items);
	if (items.n)
		qsort(items.v, items.n, sizeof *items.v, merge_item_cmp);
	memset(ret, 0, n_groups * sizeof *ret);
	if (!rc)
		rc = merge_groups(v, &items, lim, ret, e);
	struct stackvec *nothing = union_dictionary_empty(v->dictionary);
	for (size_t g = 0; g < n_groups; g++) {
		if (rc) {
			stackvec_unref(ret[g]);
			ret[g] = NULL;
		} else if (!ret[g]) {
			ret[g] = stackvec_ref(nothing);
		}
	}
	stackvec_unref(nothing);
	vec_free(&items);
	vec_free(&classes.v);
	map_free(&classes.by_content);
	union_asks_free(v, asks);
	union_parts_free(v, by_peer);
	return rc;
}
