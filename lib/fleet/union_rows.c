/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a graph over stacks. Each peer makes those of its series; the reader adds up what several have of a row. */
#include <stdlib.h>

#include "base/alloc.h"
#include "fleet/union_internal.h"
#include "fleet/wire.h"

/* What a peer is asked. The arrays of `graph` are these. */
struct rows_share {
	struct source_graph graph;
	VEC(uint64_t) refs;
	VEC(uint32_t) first;
	VEC(struct source_graph_term) terms;
};

static void rows_add_series(struct rows_share *to, const struct source_graph *g, size_t series, uint64_t ref)
{
	if (!to->first.n)
		vec_push(&to->first, 0);
	vec_push(&to->refs, ref);
	for (uint32_t i = g->first[series]; i < g->first[series + 1]; i++)
		vec_push(&to->terms, g->terms[i]);
	vec_push(&to->first, (uint32_t)to->terms.n);
}

static void rows_range(const struct source_graph *g, int64_t *ret_after_ms, int64_t *ret_until_ms)
{
	*ret_after_ms = INT64_MAX;
	*ret_until_ms = INT64_MIN;
	for (uint32_t i = 0; i < g->first[g->n_refs]; i++) {
		*ret_after_ms = MIN(*ret_after_ms, g->terms[i].after_ms);
		*ret_until_ms = MAX(*ret_until_ms, g->terms[i].until_ms);
	}
}

static void rows_spread(const struct source_graph *g, const struct union_spread *s, struct rows_share *shares)
{
	for (size_t i = 0; i < g->n_refs; i++)
		rows_add_series(&shares[s->pieces[s->first[i]].holder.peer], g, i, s->pieces[s->first[i]].holder.ref);
	for (size_t p = 0; p < s->n_peers; p++) {
		struct rows_share *x = &shares[p];
		x->graph = *g;
		x->graph.refs = x->refs.v;
		x->graph.first = x->first.v;
		x->graph.n_refs = x->refs.n;
		x->graph.terms = x->terms.v;
	}
}

/* Whether each series has one holder: which profiles count of one that has several is known by profile only, so its stacks are merged instead. */
static bool rows_are_apart(const struct union_spread *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (union_spread_count(s, i) != 1)
			return false;
	return true;
}

static bool rows_can_be_asked(const struct source_graph *g)
{
	return g->n_steps <= FLEET_STEPS_MAX && g->n_lanes <= FLEET_LANES_MAX && g->n_refs <= FLEET_REFS_MAX && g->first[g->n_refs] <= FLEET_TERMS_MAX;
}

static int rows_ask(struct union_view *v, const struct source_graph *g, const struct rows_share *shares, const struct source_limits *lim, bool *ret_fits,
		    source_rows_fn fn, void *arg, struct err *e)
{
	struct union_ask *asks = union_asks_new(v);
	int64_t after, until;
	rows_range(g, &after, &until);
	for (size_t i = 0; i < v->n_peers; i++) {
		asks[i].wanted = shares[i].graph.n_refs;
		asks[i].call = (struct fleet_call){ .op = FLEET_ROWS, .graph = &shares[i].graph };
	}
	int rc = union_ask_all(v, asks, after, until, lim, e);
	for (size_t i = 0; i < v->n_peers && !rc; i++)
		if (asks[i].result.op == FLEET_ROWS)
			*ret_fits &= asks[i].result.fits;
	for (size_t i = 0; i < v->n_peers && !rc && *ret_fits; i++)
		rc = fleet_rows_each(&asks[i].result, g->n_steps, lim, fn, arg, e);
	union_asks_free(v, asks);
	return rc;
}

int union_rows(struct source_view *sv, const struct source_graph *g, const struct source_limits *lim, bool *ret_fits, source_rows_fn fn, void *arg, struct err *e)
{
	struct union_view *v = (struct union_view *)sv;
	struct rows_share *shares = xcalloc(v->n_peers + 1, sizeof *shares);
	struct union_spread s;
	int rc = union_spread_make(v, g->refs, g->n_refs, true, &s, e);
	*ret_fits = !rc && rows_are_apart(&s) && rows_can_be_asked(g);
	if (*ret_fits) {
		rows_spread(g, &s, shares);
		rc = rows_ask(v, g, shares, lim, ret_fits, fn, arg, e);
	}
	for (size_t i = 0; i < v->n_peers; i++) {
		vec_free(&shares[i].refs);
		vec_free(&shares[i].first);
		vec_free(&shares[i].terms);
	}
	free(shares);
	union_spread_release(&s);
	return rc;
}
