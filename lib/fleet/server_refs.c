/* SPDX-License-Identifier: Apache-2.0 */
/* Series of a view by the numbers that its callers know. A server numbers series within its view. When it has lost the view and another one was opened,
 * the same series have other numbers, while callers still use the first ones. So from then on each number is looked up, and series that callers have
 * not seen before get numbers of their own. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "fleet/server_internal.h"

void server_refs_release(struct server_refs *r)
{
	vec_free(&r->v);
	map_free(&r->by_labels);
	map_free(&r->by_ref);
}

static bool refs_same(const struct server_series *a, struct labels l, const struct ptype *t)
{
	return labels_eq(a->labels, l) && !a->type == !t && (!t || ptype_eq(a->type, t));
}

static void refs_insert(struct server_refs *r, const struct source_series *s, uint64_t ref, uint64_t now)
{
	vec_push(&r->v, ((struct server_series){ .labels = s->labels, .type = s->type, .ref = ref, .now = now }));
	r->next = MAX(r->next, ref + 1);
	if (r->mapped)
		map_insert(&r->by_labels, labels_hash(s->labels), (uint32_t)(r->v.n - 1));
	if (r->numbered)
		map_insert(&r->by_ref, hash_u64(ref), (uint32_t)(r->v.n - 1));
}

/* The series that callers know by this number; NULL: none. */
static struct server_series *refs_by_number(const struct server_refs *r, uint64_t ref)
{
	uint32_t id;
	uint64_t hash = hash_u64(ref);
	for (size_t at = map_start(&r->by_ref, hash); map_probe(&r->by_ref, hash, &at, &id);)
		if (r->v.v[id].ref == ref)
			return &r->v.v[id];
	return NULL;
}

/* Makes the map by number. */
static void refs_number(struct server_refs *r)
{
	r->numbered = true;
	for (size_t i = 0; i < r->v.n; i++)
		map_insert(&r->by_ref, hash_u64(r->v.v[i].ref), (uint32_t)i);
}

/* The series with these labels; NULL: none. */
static struct server_series *refs_find(struct server_refs *r, const struct source_series *s)
{
	uint32_t id;
	uint64_t hash = labels_hash(s->labels);
	for (size_t at = map_start(&r->by_labels, hash); map_probe(&r->by_labels, hash, &at, &id);)
		if (refs_same(&r->v.v[id], s->labels, s->type))
			return &r->v.v[id];
	return NULL;
}

int server_refs_add(struct server_refs *r, struct source_series *s, size_t n, struct err *e)
{
	if (r->v.n && n && !r->numbered)
		refs_number(r);
	for (size_t i = 0; i < n; i++) {
		struct server_series *known = r->mapped ? refs_find(r, &s[i]) : r->numbered ? refs_by_number(r, s[i].ref) : NULL;
		uint64_t now = s[i].ref;
		if (known) {
			known->now = now;
			known->gone = false;
			s[i].ref = known->ref;
			continue;
		}
		if (r->v.n >= UINT32_MAX - 1 || (r->mapped && r->next > UINT32_MAX))
			return err_set(e, ERR_UNAVAILABLE, "lost its state, and no number is left for its new series; ask again");
		if (r->mapped)
			s[i].ref = r->next;
		refs_insert(r, &s[i], s[i].ref, now);
	}
	return 0;
}

/* Makes the maps. */
static void refs_map(struct server_refs *r)
{
	if (!r->numbered)
		refs_number(r);
	r->mapped = true;
	for (size_t i = 0; i < r->v.n; i++)
		map_insert(&r->by_labels, labels_hash(r->v.v[i].labels), (uint32_t)i);
}

void server_refs_lost(struct server_refs *r)
{
	if (!r->mapped)
		refs_map(r);
	for (size_t i = 0; i < r->v.n; i++)
		r->v.v[i].gone = true;
}

void server_refs_found(struct server_refs *r, const struct source_series *s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct server_series *known = refs_find(r, &s[i]);
		if (known) {
			known->now = s[i].ref;
			known->gone = false;
		}
	}
}

/* The number at the server; false: it does not have the series. */
static bool refs_now(const struct server_refs *r, uint64_t ref, uint64_t *ret)
{
	*ret = ref;
	if (!r->mapped)
		return true;
	const struct server_series *known = refs_by_number(r, ref);
	if (!known)
		return false;
	*ret = known->now;
	return !known->gone;
}

/* ---- calls ---- */

static void call_map_refs(struct server_call *c, const struct fleet_call *from, const struct server_refs *r)
{
	size_t n = 0;
	c->refs = xcalloc(from->n_refs, sizeof *c->refs);
	c->at = xcalloc(from->n_refs, sizeof *c->at);
	for (size_t i = 0; i < from->n_refs; i++)
		if (refs_now(r, from->refs[i], &c->refs[n]))
			c->at[n++] = i;
	c->call.refs = c->refs;
	c->call.n_refs = n;
}

static void call_map_parts(struct server_call *c, const struct fleet_call *from, const struct server_refs *r)
{
	size_t n = 0;
	c->parts = xcalloc(from->n_parts, sizeof *c->parts);
	for (size_t i = 0; i < from->n_parts; i++) {
		uint64_t now;
		if (!refs_now(r, from->parts[i].ref, &now))
			continue;
		c->parts[n] = from->parts[i];
		c->parts[n++].ref = now;
	}
	c->call.parts = c->parts;
	c->call.n_parts = n;
}

/* The graph of the series that are still there, with their terms. */
static void call_map_graph(struct server_call *c, const struct source_graph *from, const struct server_refs *r)
{
	size_t n = 0;
	c->refs = xcalloc(from->n_refs + 1, sizeof *c->refs);
	c->first = xcalloc(from->n_refs + 1, sizeof *c->first);
	c->terms = xcalloc(from->first[from->n_refs] + 1, sizeof *c->terms);
	for (size_t i = 0; i < from->n_refs; i++) {
		uint32_t n_terms = from->first[i + 1] - from->first[i];
		if (!refs_now(r, from->refs[i], &c->refs[n]))
			continue;
		memcpy(c->terms + c->first[n], from->terms + from->first[i], n_terms * sizeof *c->terms);
		c->first[n + 1] = c->first[n] + n_terms;
		n++;
	}
	c->graph = *from;
	c->graph.refs = c->refs;
	c->graph.first = c->first;
	c->graph.terms = c->terms;
	c->graph.n_refs = n;
	c->call.graph = &c->graph;
}

void server_call_init(struct server_call *c, const struct fleet_call *from, const struct server_refs *r)
{
	*c = (struct server_call){ .call = *from };
	if (!r->mapped)
		return;
	if (from->n_refs)
		call_map_refs(c, from, r);
	if (from->n_parts)
		call_map_parts(c, from, r);
	if (from->graph)
		call_map_graph(c, from->graph, r);
}

/* Moves n elements of an array to their places in a zeroed one of `all`. */
static void *call_spread(void *from, size_t size, size_t n, const size_t *at, size_t all)
{
	char *to = xcalloc(all + 1, size);
	for (size_t i = 0; i < n; i++)
		memcpy(to + at[i] * size, (char *)from + i * size, size);
	free(from);
	return to;
}

static void call_spread_points(const struct server_call *c, size_t n, size_t all, struct fleet_result *r)
{
	r->points = call_spread(r->points, sizeof *r->points, n, c->at, all);
	for (size_t i = 0, k = 0; i < all; i++)
		if (k < n && c->at[k] == i)
			k++;
		else
			r->points[i].plain = true;
}

static void call_spread_covers(const struct server_call *c, size_t n, size_t all, struct fleet_result *r)
{
	r->covers = call_spread(r->covers, sizeof *r->covers, n, c->at, all);
	r->n_tiles = c->call.tiles->n;
	for (size_t i = 0; i < all; i++)
		if (!r->covers[i])
			r->covers[i] = xcalloc(r->n_tiles + 1, sizeof **r->covers);
}

void server_call_widen(const struct server_call *c, struct fleet_result *r, size_t all)
{
	size_t n = c->call.n_refs;
	if (!c->at || n == all)
		return;
	switch (c->call.op) {
	case FLEET_FLOATS:
		r->floats = call_spread(r->floats, sizeof *r->floats, n, c->at, all);
		break;
	case FLEET_PROFILES:
	case FLEET_MATCHES:
		r->profiles = call_spread(r->profiles, sizeof *r->profiles, n, c->at, all);
		break;
	case FLEET_POINTS:
		call_spread_points(c, n, all, r);
		break;
	case FLEET_COVERS:
		call_spread_covers(c, n, all, r);
		break;
	default:
		return;
	}
	r->n = all;
}

void server_call_release(struct server_call *c)
{
	free(c->refs);
	free(c->parts);
	free(c->at);
	free(c->first);
	free(c->terms);
	*c = (struct server_call){ 0 };
}
