/* SPDX-License-Identifier: Apache-2.0 */
/* consul_sd_configs: the instances of Consul's services. One thread runs one loop of requests. Each watched list is requested again
 * and again; Consul holds the request back until the list has changed (a blocking query):
 *
 *	agent (what is this datacenter called?) ──► catalog (which services are there?) ──► a watch per service ──► a group
 *	                                     └ or the services that are configured, without tags or filter ┘
 *
 * Two things limit the requests. Each watch makes at most one per refresh_interval, less often after failures; all together make
 * STARTS_PER_S. Above BLOCKING_MAX services none is asked with blocking, since an agent lets a client hold 200 connections: each then
 * is asked every refresh_interval. A failure changes only the reported problem. */
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/num.h"
#include "base/thread.h"
#include "discovery/sd_consul.h"
#include "fetch/fetch.h"

#define BLOCKING_MAX 100
#define RUNNING_MAX (BLOCKING_MAX + 1)
#define STARTS_PER_S 200
#define SERVICES_MAX 50000
#define WAIT_MS 120000
#define TIMEOUT_MS (WAIT_MS + 15000) /* Consul adds up to a sixteenth to the wait */
#define RETRY_MS 1000
#define RETRY_MAX_MS 15000
#define IDLE_MS 1000

enum watch_kind { WATCH_AGENT, WATCH_CATALOG, WATCH_SERVICE };

struct watch {
	struct consul_sd *sd;
	enum watch_kind kind;
	char *service;        /* NULL, or its name */
	uint64_t index;       /* of the last answer; 0 = none: the next one comes at once */
	int64_t due_ms;
	struct fetch *fetch;  /* NULL = none runs */
	unsigned failures;    /* since it last succeeded */
	struct err problem;   /* of the last one */
	bool read, over;      /* answered once; not to be asked for any more */
};

struct consul_sd {
	struct discovery_provider provider;
	const struct consul_config *config;
	struct discovery_emit emit;
	struct fetch_client *client;
	struct fetch_loop *loop;
	pthread_t thread;
	atomic_bool cancel;

	/* The thread's own. */
	char *datacenter;             /* NULL = not known yet */
	struct watch first;           /* agent, then catalog */
	VEC(struct watch *) services;
	struct map by_name;           /* hash of the name -> place in services */
	size_t next;                  /* whose turn it is to be looked at */
	int64_t second;               /* in which `started` were */
	unsigned started;
};

/* ---- asking ---- */

static void put_param(struct buf *url, const char *name, const char *value)
{
	if (!*value)
		return;
	buf_printf(url, "%s%s=", memchr(url->ptr, '?', url->len) ? "&" : "?", name);
	fetch_url_escape(view_of(value), url);
}

static void put_meta(struct buf *url, const struct config_map *m)
{
	struct buf text = { 0 };
	for (size_t i = 0; i < m->n; i++) {
		buf_reset(&text);
		buf_printf(&text, "%s:%s", m->v[i].key, m->v[i].value);
		put_param(url, "node-meta", text.ptr);
	}
	buf_free(&text);
}

static bool blocking(const struct watch *w)
{
	return w->index && (w->kind == WATCH_CATALOG || w->sd->services.n <= BLOCKING_MAX);
}

static void put_url(const struct watch *w, struct buf *url)
{
	static const char *const paths[] = { "/v1/agent/self", "/v1/catalog/services", "/v1/health/service/" };
	const struct consul_config *c = w->sd->config;
	buf_printf(url, "%s%s", c->base, paths[w->kind]);
	if (w->service)
		fetch_url_escape(view_of(w->service), url);
	put_param(url, "dc", c->datacenter);
	put_param(url, "ns", c->namespace);
	put_param(url, "partition", c->partition);
	if (w->kind == WATCH_AGENT)
		return;
	for (size_t i = 0; w->service && i < c->tags.n; i++)
		put_param(url, "tag", c->tags.v[i]);
	put_meta(url, &c->node_meta);
	put_param(url, "filter", w->service ? c->health_filter : c->filter);
	if (c->allow_stale)
		put_param(url, "stale", "true");
	if (blocking(w)) {
		char index[24];
		snprintf(index, sizeof index, "%" PRIu64, w->index);
		put_param(url, "index", index);
		put_param(url, "wait", "120s");
	}
}

static void on_answer(void *arg, struct fetch_response *a, const struct err *e);
static void fail(struct watch *w, const struct err *e);

static void ask(struct watch *w)
{
	const struct consul_config *c = w->sd->config;
	struct err e = { 0 };
	struct buf url = { 0 }, token = { 0 };
	put_url(w, &url);
	if (c->token && *c->token)
		buf_printf(&token, "X-Consul-Token: %s", c->token);
	const char *headers[] = { token.ptr };
	const struct fetch_request q = { .url = url.ptr, .unix_socket = c->unix_socket, .headers = headers, .n_headers = token.len > 0,
					 .timeout_ms = TIMEOUT_MS, .max_bytes = ANSWER_BYTES, .compressed = true,
					 .keepalive = true, .want_headers = { "X-Consul-Index" } };
	w->due_ms = clock_mono_ms() + c->refresh_ms;
	if (fetch_start(w->sd->loop, w->sd->client, &q, on_answer, w, &w->fetch, &e))
		fail(w, &e);
	buf_free(&token);
	buf_free(&url);
}

/* ---- what is wrong, and whether all was read ---- */

static void tell_state(struct consul_sd *sd)
{
	const struct watch *wrong = sd->first.failures ? &sd->first : NULL;
	bool all = sd->first.over || sd->first.read;
	for (size_t i = 0; i < sd->services.n; i++) {
		if (!wrong && sd->services.v[i]->failures)
			wrong = sd->services.v[i];
		all = all && sd->services.v[i]->read;
	}
	sd->emit.problem(sd->emit.arg, wrong ? &wrong->problem : NULL);
	if (all && sd->first.kind != WATCH_AGENT)
		sd->emit.ready(sd->emit.arg);
}

static void fail(struct watch *w, const struct err *e)
{
	int64_t pause = MIN((int64_t)RETRY_MS << MIN(w->failures, 10U), RETRY_MAX_MS);
	w->problem = *e;
	err_wrap(&w->problem, "%s%s%s", w->sd->config->server, w->service ? ": service " : "", w->service ? w->service : "");
	w->failures++;
	w->index = 0;
	w->due_ms = clock_mono_ms() + pause;
	tell_state(w->sd);
}

/* ---- services come and go ---- */

static struct watch *find_service(const struct consul_sd *sd, const char *name)
{
	uint32_t at;
	uint64_t hash = hash_view(view_of(name));
	for (size_t i = map_start(&sd->by_name, hash); map_probe(&sd->by_name, hash, &i, &at);)
		if (strcmp(sd->services.v[at]->service, name) == 0)
			return sd->services.v[at];
	return NULL;
}

static struct watch *watch_new(struct consul_sd *sd, const char *name)
{
	struct watch *w = NEW(struct watch);
	*w = (struct watch){ .sd = sd, .kind = WATCH_SERVICE, .service = xstrdup(name), .due_ms = clock_mono_ms() };
	return w;
}

static void watch_free(struct watch *w)
{
	if (w->fetch)
		fetch_cancel(w->fetch);
	free(w->service);
	free(w);
}

/* Sets the list of services: existing ones continue, removed ones get an empty group. */
static void set_services(struct consul_sd *sd, const char *const *names, size_t n)
{
	VEC(struct watch *) now = { 0 };
	struct map index = { 0 };
	for (size_t i = 0; i < sd->services.n; i++)
		sd->services.v[i]->over = true;
	for (size_t i = 0; i < n; i++) {
		struct watch *w = find_service(sd, names[i]);
		if (w && !w->over)
			continue; /* named twice */
		if (!w)
			w = watch_new(sd, names[i]);
		w->over = false;
		map_insert(&index, hash_view(view_of(names[i])), (uint32_t)now.n);
		vec_push(&now, w);
	}
	for (size_t i = 0; i < sd->services.n; i++) {
		struct watch *w = sd->services.v[i];
		if (!w->over)
			continue;
		sd->emit.group(sd->emit.arg, &(struct discovery_group){ .source = w->service });
		watch_free(w);
	}
	vec_free(&sd->services);
	map_free(&sd->by_name);
	sd->services.v = now.v;
	sd->services.n = now.n;
	sd->services.cap = now.cap;
	sd->by_name = index;
}

/* ---- answers; each returns 0 or what is wrong with it ---- */

static void begin_services(struct consul_sd *sd)
{
	const struct consul_config *c = sd->config;
	sd->first = (struct watch){ .sd = sd, .kind = WATCH_CATALOG, .due_ms = clock_mono_ms() };
	if (!c->services.n || c->tags.n || *c->filter)
		return;
	sd->first.over = true;
	set_services(sd, c->services.v, c->services.n);
}

static int take_agent(struct consul_sd *sd, json_t *answer, struct err *e)
{
	struct answer_reader r = { .e = e, .what = "agent" };
	const char *name = answer_text(&r, answer_object(&r, answer, "Config"), "Datacenter");
	if (r.rc)
		return r.rc;
	if (!*name)
		return err_set(e, ERR_BAD_DATA, "bad answer: agent: it does not name its datacenter");
	sd->datacenter = xstrdup(name);
	begin_services(sd);
	return 0;
}

static bool named(const struct config_strings *s, const char *name)
{
	for (size_t i = 0; i < s->n; i++)
		if (strcmp(s->v[i], name) == 0)
			return true;
	return false;
}

static bool has_tag(struct answer_reader *r, json_t *tags, const char *name)
{
	json_t *tag;
	size_t i;
	json_array_foreach(tags, i, tag)
		if (strcmp(answer_as_text(r, tag, "a tag"), name) == 0)
			return true;
	return false;
}

/* Whether a service is wanted: it is one of `services`, and has all of `tags`. */
static bool wanted(const struct consul_config *c, struct answer_reader *r, const char *name, json_t *tags)
{
	if (c->services.n && !named(&c->services, name))
		return false;
	for (size_t i = 0; i < c->tags.n; i++)
		if (!has_tag(r, tags, c->tags.v[i]))
			return false;
	return *name != 0;
}

static int take_catalog(struct consul_sd *sd, json_t *answer, struct err *e)
{
	struct answer_reader r = { .e = e, .what = "catalog" };
	VEC(const char *) names = { 0 };
	const char *name;
	json_t *tags;
	json_object_foreach(answer, name, tags) {
		if (!json_is_array(tags) && !json_is_null(tags) && !r.rc)
			r.rc = err_set(e, ERR_BAD_DATA, "bad answer: catalog: the tags of a service are not a list");
		if (wanted(sd->config, &r, name, tags))
			vec_push(&names, name);
	}
	if (!r.rc && names.n > SERVICES_MAX)
		r.rc = err_set(e, ERR_LIMIT, "there are %zu services; at most %d are watched", names.n, SERVICES_MAX);
	if (!r.rc)
		set_services(sd, names.v, names.n);
	vec_free(&names);
	return r.rc;
}

static int take_service(struct watch *w, json_t *answer, struct err *e)
{
	struct consul_sd *sd = w->sd;
	const struct label common[] = { { VIEW("__meta_consul_dc"), view_of(sd->datacenter) },
					{ VIEW("__meta_consul_service"), view_of(w->service) } };
	struct target_list t;
	target_list_init(&t);
	int rc = consul_targets(&t, sd->config->tag_separator, answer, e);
	if (!rc)
		rc = target_list_emit(&t, w->service, (struct labels){ common, ARRAY_LEN(common) }, &sd->emit, e);
	target_list_free(&t);
	return rc;
}

static int take(struct watch *w, struct fetch_response *a, struct err *e)
{
	uint64_t index = 0;
	json_t *answer = NULL;
	if (a->status != 200)
		return err_set(e, ERR_UNAVAILABLE, "HTTP %d: %.*s", a->status, (int)MIN(a->body.len, 200), buf_view(&a->body).ptr);
	if (w->kind != WATCH_AGENT && (!num_parse_u64(view_of(a->headers[0]), &index)))
		index = 0; /* none, or none that means something: the next answer comes at once */
	if (index && index == w->index)
		return 0; /* nothing has changed in all that time */
	int rc = answer_parse(&answer, buf_view(&a->body), e);
	if (!rc && !(w->kind == WATCH_SERVICE ? json_is_array(answer) : json_is_object(answer)))
		rc = err_set(e, ERR_BAD_DATA, "bad answer: not %s", w->kind == WATCH_SERVICE ? "a list" : "an object");
	if (!rc) {
		w->index = index; /* also if it is below the last one: the server's index has restarted */
		rc = w->kind == WATCH_AGENT ? take_agent(w->sd, answer, e) :
		     w->kind == WATCH_CATALOG ? take_catalog(w->sd, answer, e) : take_service(w, answer, e);
	}
	json_decref(answer);
	return rc;
}

/* An agent that was away may have been restarted with a new index. A request with an index from before would wait for ever. That holds
 * for all that is watched, also what was not being asked for in that moment. */
static void forget_indexes(struct consul_sd *sd)
{
	sd->first.index = 0;
	for (size_t i = 0; i < sd->services.n; i++)
		sd->services.v[i]->index = 0;
}

static void on_answer(void *arg, struct fetch_response *a, const struct err *wrong)
{
	struct watch *w = arg;
	struct err e = *wrong;
	w->fetch = NULL;
	enum watch_kind kind = w->kind;
	if (e.code)
		forget_indexes(w->sd);
	if (e.code || take(w, a, &e)) {
		fail(w, &e);
		return;
	}
	if (w->kind == kind) { /* not where the agent's turn became the catalog's */
		w->failures = 0;
		w->read = true;
	}
	tell_state(w->sd);
}

/* ---- the thread ---- */

/* Starts w if it is due. Returns the time in ms until the next check. */
static int64_t look_at(struct watch *w, int64_t now)
{
	struct consul_sd *sd = w->sd;
	if (w->fetch || w->over)
		return IDLE_MS;
	if (w->due_ms > now)
		return w->due_ms - now;
	if (sd->started >= STARTS_PER_S || fetch_loop_running(sd->loop) >= RUNNING_MAX)
		return IDLE_MS / 10;
	sd->started++;
	ask(w);
	return IDLE_MS;
}

/* Starts what is due, in turn. Returns how many ms to wait for answers. */
static int64_t start_due(struct consul_sd *sd)
{
	int64_t now = clock_mono_ms(), wait = IDLE_MS;
	size_t n = sd->services.n, from = n ? sd->next % n : 0;
	if (sd->second != now / 1000) {
		sd->second = now / 1000;
		sd->started = 0;
	}
	wait = MIN(wait, look_at(&sd->first, now));
	for (size_t i = 0; i < n; i++) {
		struct watch *w = sd->services.v[(from + i) % n];
		unsigned before = sd->started;
		wait = MIN(wait, look_at(w, now));
		if (sd->started != before)
			sd->next = (from + i + 1) % n;
	}
	return MAX(wait, 1);
}

static void *consul_main(void *arg)
{
	struct consul_sd *sd = arg;
	struct err e = { 0 };
	while (!atomic_load(&sd->cancel)) {
		int64_t wait = start_due(sd);
		if (!fetch_loop_turn(sd->loop, (int)wait, &e))
			continue;
		sd->emit.problem(sd->emit.arg, &e);
		clock_sleep_ms(IDLE_MS / 2);
	}
	return NULL;
}

static void consul_free(struct consul_sd *sd)
{
	for (size_t i = 0; i < sd->services.n; i++)
		watch_free(sd->services.v[i]);
	vec_free(&sd->services);
	map_free(&sd->by_name);
	fetch_loop_free(sd->loop);
	fetch_client_unref(sd->client);
	free(sd->datacenter);
	free(sd);
}

extern const struct discovery_ops sd_consul;

static int start(struct discovery_provider **ret, const void *config, const struct discovery_emit *emit, struct err *e)
{
	const struct consul_config *c = config;
	struct consul_sd *sd = NEW(struct consul_sd);
	*sd = (struct consul_sd){ .provider = { &sd_consul }, .config = c, .emit = *emit };
	sd->first = (struct watch){ .sd = sd, .kind = WATCH_AGENT };
	if (*c->datacenter) {
		sd->datacenter = xstrdup(c->datacenter);
		begin_services(sd);
	}
	sd->client = fetch_client_new(&c->http, NULL);
	sd->loop = fetch_loop_new(e);
	int rc = sd->loop ? 0 : -(int)e->code;
	if (!rc)
		rc = thread_start(&sd->thread, "sd-consul", consul_main, sd, e);
	if (rc)
		consul_free(sd);
	else
		*ret = &sd->provider;
	return rc;
}

static void cancel(struct discovery_provider *p)
{
	struct consul_sd *sd = (struct consul_sd *)p;
	atomic_store(&sd->cancel, true);
	fetch_loop_wake(sd->loop);
}

static void stop(struct discovery_provider *p)
{
	struct consul_sd *sd = (struct consul_sd *)p;
	cancel(p);
	pthread_join(sd->thread, NULL);
	consul_free(sd);
}

static int decode(struct config_ctx *c, const struct config_node *n, void **ret, struct err *e)
{
	*ret = arena_calloc(c->arena, 1, sizeof(struct consul_config));
	return config_decode(c, &consul_config_table, n, *ret, e);
}

static bool same(const void *a, const void *b)
{
	return config_same(&consul_config_table, a, b);
}

static void name(const void *config, struct buf *out)
{
	const struct consul_config *c = config;
	buf_puts(out, c->unix_socket ? c->unix_socket : c->base);
	for (size_t i = 0; i < c->services.n; i++)
		buf_printf(out, "%s%s", i ? ", " : " ", c->services.v[i]);
}

const struct discovery_ops sd_consul = { .key = "consul_sd_configs", .decode = decode, .same = same, .start = start, .stop = stop,
					 .cancel = cancel, .name = name };
