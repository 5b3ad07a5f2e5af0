/* SPDX-License-Identifier: Apache-2.0 */
/* The endpoints of an item: its discovery at work, and what it has found by now. */
#include <stdlib.h>

#include "base/alloc.h"
#include "discovery/endpoint.h"

#define RELABEL_BYTES ((size_t)16 << 20)

struct endpoint_set {
	const struct endpoint_kind *kind;
	const struct endpoint_config *config; /* of owner */
	void *owner;                          /* a reference */
	void (*unref)(void *owner);
	struct fetch_client *client;
	struct discovery *discovery;
};

int endpoint_set_new(struct endpoint_set **ret, const struct endpoint_kind *k, const struct endpoint_config *c, const char *user_agent,
		     const struct discovery_user *user, struct err *e)
{
	struct endpoint_set *s = NEW(struct endpoint_set);
	s->kind = k;
	s->config = c;
	s->owner = user->owner;
	s->unref = user->unref;
	user->ref(user->owner);
	s->client = fetch_client_new(&c->http, user_agent);
	user->ref(user->owner);
	fetch_client_owner(s->client, user->unref, user->owner);
	int rc = discovery_start(&s->discovery, &c->sd, user, e);
	if (rc)
		endpoint_set_free(s);
	else
		*ret = s;
	return rc;
}

void endpoint_set_free(struct endpoint_set *s)
{
	if (!s)
		return;
	discovery_stop(s->discovery);
	fetch_client_unref(s->client);
	s->unref(s->owner);
	free(s);
}

struct fetch_client *endpoint_set_client(const struct endpoint_set *s)
{
	return s->client;
}

bool endpoint_set_ready(const struct endpoint_set *s)
{
	return discovery_ready(s->discovery);
}

/* ---- what there is ---- */

struct endpoint_search {
	const struct endpoint_set *set;
	struct arena arena;
	struct endpoints_found *found;
};

static void endpoint_find_group(void *arg, const struct discovery_group *g)
{
	struct endpoint_search *x = arg;
	struct endpoints_found *f = x->found;
	for (size_t i = 0; i < g->n_targets; i++) {
		struct endpoint_place p;
		struct err e = { 0 };
		int rc = endpoint_place_make(x->set->kind, x->set->config, g->labels, g->targets[i], &x->arena, &p, &e);
		arena_reset(&x->arena);
		if (rc && !f->problem.code)
			f->problem = e;
		if (rc)
			continue;
		if (p.dropped)
			vec_push(&f->dropped, p.url);
		else
			vec_push(&f->urls, p.url);
	}
}

void endpoint_set_find(struct endpoint_set *s, struct endpoints_found *ret)
{
	struct endpoint_search x = { .set = s, .found = ret };
	*ret = (struct endpoints_found){ 0 };
	arena_init(&x.arena, RELABEL_BYTES);
	discovery_each(s->discovery, endpoint_find_group, &x);
	arena_free(&x.arena);
}

void endpoints_found_release(struct endpoints_found *f)
{
	for (size_t i = 0; i < f->urls.n; i++)
		free(f->urls.v[i]);
	for (size_t i = 0; i < f->dropped.n; i++)
		free(f->dropped.v[i]);
	vec_free(&f->urls);
	vec_free(&f->dropped);
}
