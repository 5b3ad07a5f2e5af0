/* SPDX-License-Identifier: Apache-2.0 */
/* The series of a view by number, and which peers have them. */
#include <stdlib.h>

#include "base/alloc.h"
#include "fleet/union_internal.h"

bool union_is_plain(struct union_view *v)
{
	if (v->n_peers != 1)
		return false;
	mutex_lock(&v->lock);
	bool plain = v->peers->contacted && !v->peers->labels.n;
	mutex_unlock(&v->lock);
	return plain;
}

static bool series_is(const struct union_series *s, struct labels labels, const struct ptype *type)
{
	return (s->type == type || (s->type && type && s->type->kind == type->kind && ptype_eq(s->type, type))) && labels_eq(s->labels, labels);
}

static void series_add_holder(struct union_series *s, struct union_holder h)
{
	for (size_t i = 0; i < s->holders.n; i++)
		if (s->holders.v[i].peer == h.peer && s->holders.v[i].ref == h.ref)
			return;
	vec_push(&s->holders, h);
	for (size_t i = 0; i < s->joined.n; i++) /* they lack the new holder's profiles */
		s->joined.v[i]->until_ms = s->joined.v[i]->after_ms;
}

uint64_t union_series_add(struct union_view *v, struct labels labels, bool lasting, const struct ptype *type, struct union_holder h,
			  uint64_t n_select,
			  bool *ret_first)
{
	uint32_t id;
	if (!MAP_FIND_OR_ADD(&v->by_labels, labels_hash(labels), id, v->series.n, series_is(&v->series.v[id], labels, type))) {
		struct union_series *s = vec_add(&v->series);
		if (!lasting && labels.n) {
			struct label *copy = arena_alloc(&v->arena, labels.n * sizeof *copy); /* the arena has no cap */
			memcpy(copy, labels.v, labels.n * sizeof *copy);
			labels.v = copy;
		}
		s->labels = labels;
		s->type = type;
	}
	struct union_series *s = &v->series.v[id];
	series_add_holder(s, h);
	*ret_first = s->found != n_select;
	s->found = n_select;
	return id;
}

/* ---- series by peer ---- */

static void spread_add(struct union_spread *s, struct union_holder h, bool share, size_t *n_pieces)
{
	struct union_share *to = &s->shares[h.peer];
	s->pieces[*n_pieces] = (struct union_piece){ h, to->n };
	++*n_pieces;
	if (share)
		to->refs[to->n++] = h.ref;
}

static void spread_room(struct union_spread *s, const size_t *counts, size_t n_pieces)
{
	s->pieces = xcalloc(n_pieces + 1, sizeof *s->pieces);
	for (size_t p = 0; p < s->n_peers; p++)
		s->shares[p].refs = xreallocarray(NULL, counts[p] + 1, sizeof(uint64_t));
}

static int spread_unknown(uint64_t ref, struct err *e)
{
	return err_set(e, ERR_INTERNAL, "there is no series %llu in this view of the servers", (unsigned long long)ref);
}

static void spread_plain(struct union_spread *s, const uint64_t *refs)
{
	size_t at = 0;
	spread_room(s, &s->n, s->n);
	for (size_t i = 0; i < s->n; i++) {
		s->first[i] = i;
		spread_add(s, (struct union_holder){ 0, refs[i] }, true, &at);
	}
	s->first[s->n] = s->n;
}

static int spread_series(struct union_view *v, const uint64_t *refs, bool alone, struct union_spread *s, size_t *counts, struct err *e)
	REQUIRES(v->lock)
{
	size_t at = 0;
	for (size_t i = 0; i < s->n; i++) {
		if (refs[i] >= v->series.n)
			return spread_unknown(refs[i], e);
		const struct union_series *x = &v->series.v[refs[i]];
		at += x->holders.n;
		for (size_t k = 0; k < x->holders.n; k++)
			counts[x->holders.v[k].peer]++;
	}
	spread_room(s, counts, at);
	at = 0;
	for (size_t i = 0; i < s->n; i++) {
		const struct union_series *x = &v->series.v[refs[i]];
		s->first[i] = at;
		for (size_t k = 0; k < x->holders.n; k++)
			spread_add(s, x->holders.v[k], !alone || x->holders.n == 1, &at);
	}
	s->first[s->n] = at;
	return 0;
}

int union_spread_make(struct union_view *v, const uint64_t *refs, size_t n, bool alone, struct union_spread *ret, struct err *e)
{
	*ret = (struct union_spread){ .n = n, .n_peers = v->n_peers };
	ret->first = xcalloc(n + 1, sizeof *ret->first);
	ret->shares = xcalloc(v->n_peers + 1, sizeof *ret->shares);
	if (union_is_plain(v)) {
		spread_plain(ret, refs);
		return 0;
	}
	AUTOFREE size_t *counts = xcalloc(v->n_peers + 1, sizeof *counts);
	mutex_lock(&v->lock);
	int rc = spread_series(v, refs, alone, ret, counts, e);
	mutex_unlock(&v->lock);
	return rc;
}

void union_spread_release(struct union_spread *s)
{
	for (size_t p = 0; p < s->n_peers && s->shares; p++)
		free(s->shares[p].refs);
	free(s->shares);
	free(s->first);
	free(s->pieces);
	*s = (struct union_spread){ 0 };
}
