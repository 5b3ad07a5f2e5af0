/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/metrics.h"
#include "base/thread.h"
#include "fleet/fleet_internal.h"

/* ---- what queries read ---- */

static int fleet_open(struct source *source, struct source_view **ret, struct err *e)
{
	struct fleet *f = (struct fleet *)(void *)source;
	struct source *from = atomic_load_explicit(&f->asks, memory_order_relaxed) ? fleet_union_source(f->all) : f->o.own;
	return from->open(from, ret, e);
}

static struct fleet_peer **fleet_peers(void *arg, size_t *ret_n)
{
	struct fleet *f = arg;
	size_t n, all = 0;
	bool searching;
	struct fleet_target **targets = fleet_targets(f, &n, &searching);
	struct fleet_peer **peers = xcalloc(n + 2, sizeof(struct fleet_peer *));
	peers[all++] = f->local->ref(f->local);
	for (size_t i = 0; i < n; i++) {
		struct fleet_peer *p = fleet_server_peer(targets[i]->server);
		peers[all++] = p->ref(p);
	}
	if (searching)
		peers[all++] = fleet_unknown_peer();
	fleet_targets_release(targets, n);
	*ret_n = all;
	return peers;
}

struct source *fleet_source(struct fleet *f)
{
	return &f->source;
}

/* ---- what others see ---- */

static enum server_health fleet_health(const struct fleet_server_status *s)
{
	return s->up ? SERVER_UP : s->asked ? SERVER_DOWN : SERVER_UNKNOWN;
}

static void fleet_each(struct status_servers *status, void (*one)(void *arg, const struct status_server *x), void *arg)
{
	struct fleet *f = (struct fleet *)(void *)((char *)status - offsetof(struct fleet, status));
	size_t n;
	struct fleet_target **targets = fleet_targets(f, &n, NULL);
	for (size_t i = 0; i < n; i++) {
		struct fleet_server_status s;
		fleet_server_status(targets[i]->server, &s);
		const struct status_server x = { .url = s.url, .health = fleet_health(&s), .last_error = s.error, .last_answer_ms = s.last_ok_ms,
						 .last_duration_ms = s.last_ms, .external_labels = s.labels, .calls = s.calls, .failures = s.failures,
						 .bytes = s.bytes_received, .dictionary_bytes = s.dictionary_bytes };
		one(arg, &x);
		free(s.labels);
	}
	fleet_targets_release(targets, n);
}

struct status_servers *fleet_status(struct fleet *f)
{
	return &f->status;
}

static struct metric fleet_metrics[] = {
	{ "pyrrha_fleet_servers", "Other servers that queries ask (query.servers), by whether they answered the last question.", METRIC_GAUGE, "state" },
};

static void fleet_count(void *arg, const struct status_server *x)
{
	size_t *by_health = arg;
	by_health[x->health]++;
}

static void fleet_collect(void *arg)
{
	struct fleet *f = arg;
	size_t by_health[SERVER_HEALTHS] = { 0 };
	fleet_each(&f->status, fleet_count, by_health);
	for (unsigned h = 0; h < SERVER_HEALTHS; h++)
		metric_set(&fleet_metrics[0], (double)by_health[h], server_health_text(h));
}

void fleet_register_metrics(struct fleet *f)
{
	metrics_register(fleet_metrics, ARRAY_LEN(fleet_metrics));
	metrics_on_collect(fleet_collect, f);
}

/* ---- what the configuration says ---- */

static const struct endpoint_kind fleet_endpoints = { "a server of query.servers", "server", "__path_prefix__", "" };

static void fleet_changed(void *set)
{
	struct fleet *f = ((struct fleet_set *)set)->f;
	mutex_lock(&f->lock);
	f->stale = true;
	pthread_cond_broadcast(&f->news);
	mutex_unlock(&f->lock);
}

static void fleet_ref_config(void *owner)
{
	fleet_config_ref(owner);
}

static void fleet_unref_config(void *owner)
{
	fleet_config_unref(owner);
}

static int fleet_set_new(struct fleet_set **ret, struct fleet *f, struct fleet_config *c, const struct fleet_server_config *config, struct err *e)
{
	struct fleet_set *s = NEW(struct fleet_set);
	s->f = f;
	s->config = config;
	s->owner = fleet_config_ref(c);
	const struct discovery_user user = { .job = "query servers", .changed = fleet_changed, .arg = s, .owner = c, .ref = fleet_ref_config,
					     .unref = fleet_unref_config };
	int rc = endpoint_set_new(&s->endpoints, &fleet_endpoints, &config->endpoints, f->user_agent, &user, e);
	if (rc)
		fleet_set_free(s);
	else
		*ret = s;
	return rc;
}

/* The set at work of an equal item that is not in `next` yet. */
static struct fleet_set *fleet_find_set(struct fleet *f, const struct fleet_server_config *c, bool *taken) REQUIRES(f->apply)
{
	for (size_t i = 0; i < f->sets.n; i++)
		if (!taken[i] && view_eq(f->sets.v[i]->config->endpoints.fingerprint, c->endpoints.fingerprint)) {
			taken[i] = true;
			return f->sets.v[i];
		}
	return NULL;
}

/* All of the configuration's sets into next; none, if one cannot start. taken: which of those at work are among them. */
static int fleet_make_sets(struct fleet *f, struct fleet_config *c, struct fleet_set **next, bool *taken, struct err *e) REQUIRES(f->apply)
{
	bool *fresh = xcalloc(c->servers.n + 1, sizeof *fresh);
	int rc = 0;
	for (size_t i = 0; i < c->servers.n && !rc; i++) {
		next[i] = fleet_find_set(f, &c->servers.v[i], taken);
		fresh[i] = !next[i];
		if (fresh[i])
			rc = fleet_set_new(&next[i], f, c, &c->servers.v[i], e);
	}
	for (size_t i = 0; i < c->servers.n && rc; i++)
		if (fresh[i])
			fleet_set_free(next[i]);
	free(fresh);
	return rc;
}

static void fleet_change(struct fleet *f, struct fleet_config *c, struct fleet_set *const *next, const bool *taken) REQUIRES(f->apply)
{
	VEC(struct fleet_set *) gone = { 0 };
	struct fleet_config *old = f->config;
	for (size_t i = 0; i < f->sets.n; i++)
		if (!taken[i])
			vec_push(&gone, f->sets.v[i]);
	f->sets.n = 0;
	for (size_t i = 0; i < c->servers.n; i++)
		vec_push(&f->sets, next[i]);
	f->config = fleet_config_ref(c);
	fleet_sync(f);
	atomic_store(&f->asks, c->servers.n > 0);
	for (size_t i = 0; i < gone.n; i++)
		fleet_set_free(gone.v[i]);
	vec_free(&gone);
	fleet_config_unref(old);
}

/* The first servers need threads. */
static int fleet_begin(struct fleet *f, struct err *e) REQUIRES(f->apply)
{
	int rc = f->loop ? 0 : fleet_loop_new(&f->loop, e);
	if (!rc && !f->thread_runs) {
		rc = thread_start(&f->thread, "fleet", fleet_main, f, e);
		f->thread_runs = !rc;
	}
	return rc;
}

int fleet_apply(struct fleet *f, struct fleet_config *c, struct err *e)
{
	mutex_lock(&f->apply);
	struct fleet_set **next = xcalloc(c->servers.n + 1, sizeof(struct fleet_set *));
	bool *taken = xcalloc(f->sets.n + 1, sizeof *taken);
	int rc = c->servers.n ? fleet_begin(f, e) : 0;
	if (!rc)
		rc = fleet_make_sets(f, c, next, taken, e);
	if (!rc)
		fleet_change(f, c, next, taken);
	free(next);
	free(taken);
	mutex_unlock(&f->apply);
	return rc;
}

/* ---- begin and end ---- */

struct fleet *fleet_new(const struct fleet_options *o)
{
	struct fleet *f = NEW(struct fleet);
	f->source.open = fleet_open;
	f->status.each = fleet_each;
	f->o = *o;
	f->user_agent = xstrdup(o->user_agent ? o->user_agent : "pyrrha");
	f->local = fleet_local_peer_new(o->own, o->labels, o->arg, o->rows, o->arg);
	f->all = fleet_union_new(fleet_peers, f);
	mutex_init(&f->apply, RANK_FLEET_APPLY, "fleet change");
	mutex_init(&f->lock, LOCK_LEAF, "fleet");
	pthread_cond_init(&f->news, NULL);
	return f;
}

void fleet_free(struct fleet *f)
{
	if (!f)
		return;
	mutex_lock(&f->lock);
	f->closing = true;
	pthread_cond_broadcast(&f->news);
	mutex_unlock(&f->lock);
	if (f->thread_runs)
		pthread_join(f->thread, NULL);
	for (size_t i = 0; i < f->sets.n; i++)
		fleet_set_free(f->sets.v[i]);
	for (size_t i = 0; i < f->targets.n; i++)
		fleet_target_unref(f->targets.v[i]);
	vec_free(&f->sets);
	vec_free(&f->targets);
	fleet_config_unref(f->config);
	fleet_union_free(f->all);
	f->local->unref(f->local);
	if (f->loop)
		fleet_loop_free(f->loop);
	mutex_destroy(&f->apply);
	mutex_destroy(&f->lock);
	pthread_cond_destroy(&f->news);
	free(f->user_agent);
	free(f);
}
