/* SPDX-License-Identifier: Apache-2.0 */
/* Who the other servers are: what discovery finds, each address once, and not this server itself. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "fleet/fleet_internal.h"
#include "fleet/fleet_self.h"

/* ---- targets ---- */

void fleet_target_unref(struct fleet_target *m)
{
	if (__atomic_sub_fetch(&m->refs, 1, __ATOMIC_ACQ_REL))
		return;
	struct fleet_peer *p = fleet_server_peer(m->server);
	p->unref(p);
	fleet_config_unref(m->owner);
	free(m->url);
	free(m);
}

struct fleet_target **fleet_targets(struct fleet *f, size_t *ret_n, bool *ret_searching)
{
	mutex_lock(&f->lock);
	size_t n = f->targets.n;
	struct fleet_target **v = xcalloc(n + 1, sizeof(struct fleet_target *));
	for (size_t i = 0; i < n; i++) {
		v[i] = f->targets.v[i];
		__atomic_add_fetch(&v[i]->refs, 1, __ATOMIC_RELAXED);
	}
	if (ret_searching)
		*ret_searching = f->searching;
	mutex_unlock(&f->lock);
	*ret_n = n;
	return v;
}

void fleet_targets_release(struct fleet_target **v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		fleet_target_unref(v[i]);
	free(v);
}

static struct fleet_target *fleet_target_new(struct fleet *f, struct fleet_set *s, const char *url) REQUIRES(f->apply)
{
	struct fleet_target *m = NEW(struct fleet_target);
	m->refs = 1;
	m->url = xstrdup(url);
	m->owner = fleet_config_ref(s->owner);
	m->http = &s->config->endpoints.http;
	m->timeout_ms = f->config->timeout_ms;
	const struct fleet_server_options o = { .loop = f->loop, .client = endpoint_set_client(s->endpoints), .url = m->url, .timeout_ms = m->timeout_ms,
					       .max_answer_bytes = f->o.max_answer_bytes, .max_dictionary_bytes = f->o.max_dictionary_bytes };
	m->server = fleet_server_new(&o);
	return m;
}

/* ---- what was found ---- */

/* "host:port/prefix" of a URL. */
static struct view fleet_target_place(const char *url)
{
	const char *p = strstr(url, "://");
	return view_of(p ? p + 3 : url);
}

/* Whether the URL is that of an address that this server listens on. */
static bool fleet_target_is_self(const struct fleet *f, const char *url)
{
	struct view place = fleet_target_place(url), host = view_cut(&place, '/');
	const char *own;
	for (size_t i = 0; f->o.address && (own = f->o.address(f->o.arg, i)); i++)
		if (fleet_is_self(host, view_of(own)))
			return true;
	return false;
}

/* The targets of the next list. */
struct fleet_listing {
	VEC(struct fleet_target *) v;
};

static bool fleet_target_is_listed(const struct fleet_listing *l, const char *url)
{
	for (size_t i = 0; i < l->v.n; i++)
		if (view_eq(fleet_target_place(l->v.v[i]->url), fleet_target_place(url)))
			return true;
	return false;
}

/* The target of now that asks in the same way. */
static struct fleet_target *fleet_target_find_same(const struct fleet *f, const struct fleet_set *s, const char *url) REQUIRES(f->apply)
{
	for (size_t i = 0; i < f->targets.n; i++) {
		struct fleet_target *m = f->targets.v[i];
		if (strcmp(m->url, url) == 0 && m->timeout_ms == f->config->timeout_ms && config_same(&config_http_table, m->http, &s->config->endpoints.http))
			return m;
	}
	return NULL;
}

static void fleet_target_note_problem(struct fleet *f, struct fleet_set *s, const char *text) REQUIRES(f->apply)
{
	(void)f; /* its lock */
	if (text && (!s->problem || strcmp(s->problem, text) != 0))
		LOG_WARN("msg", "a target of query.servers is not asked", "err", text);
	char *copy = text ? xstrdup(text) : NULL;
	free(s->problem);
	s->problem = copy;
}

static void fleet_list_set(struct fleet *f, struct fleet_set *s, struct fleet_listing *to) REQUIRES(f->apply)
{
	struct endpoints_found found;
	char *self = NULL;
	endpoint_set_find(s->endpoints, &found);
	for (size_t i = 0; i < found.urls.n; i++) {
		char *url = found.urls.v[i];
		size_t len = strlen(url);
		while (len && url[len - 1] == '/')
			url[--len] = 0;
		if (fleet_target_is_listed(to, url))
			continue;
		if (fleet_target_is_self(f, url)) {
			if (!self)
				self = xasprintf("%s is this server itself", url);
			continue;
		}
		struct fleet_target *m = fleet_target_find_same(f, s, url);
		if (m)
			__atomic_add_fetch(&m->refs, 1, __ATOMIC_RELAXED);
		else
			m = fleet_target_new(f, s, url);
		vec_push(&to->v, m);
	}
	fleet_target_note_problem(f, s, found.problem.code ? found.problem.msg : self);
	free(self);
	endpoints_found_release(&found);
}

void fleet_sync(struct fleet *f)
{
	struct fleet_listing next = { 0 }, old = { 0 };
	bool searching = false;
	for (size_t i = 0; i < f->sets.n; i++) {
		searching |= !endpoint_set_ready(f->sets.v[i]->endpoints);
		fleet_list_set(f, f->sets.v[i], &next);
	}
	mutex_lock(&f->lock);
	f->searching = searching;
	for (size_t i = 0; i < f->targets.n; i++)
		vec_push(&old.v, f->targets.v[i]);
	f->targets.n = 0;
	for (size_t i = 0; i < next.v.n; i++)
		vec_push(&f->targets, next.v.v[i]);
	mutex_unlock(&f->lock);
	for (size_t i = 0; i < old.v.n; i++)
		fleet_target_unref(old.v.v[i]);
	vec_free(&old.v);
	vec_free(&next.v);
}

void fleet_set_free(struct fleet_set *s)
{
	if (!s)
		return;
	endpoint_set_free(s->endpoints);
	fleet_config_unref(s->owner);
	free(s->problem);
	free(s);
}
