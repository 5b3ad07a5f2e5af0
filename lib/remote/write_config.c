/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/write_config.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/map.h"
#include "config/config_top.h"

#define MAX_SAMPLES 100000 /* of a request */
#define MAX_NAME 200

static const char *const protocol_lines[] = {
	"Content-Type: application/x-protobuf", "Content-Encoding: snappy", "X-Prometheus-Remote-Write-Version: 0.1.0",
};

/* ---- queue_config ---- */

#define Q(key, type, member, def) { key, type, offsetof(struct queue_config, member), def }

static const struct config_field queue_rows[] = {
	Q("capacity", CONFIG_COUNT, capacity, "10000"), /* of what is in memory there; here it is on disk */
	Q("min_shards", CONFIG_COUNT, min_shards, "1"),
	Q("max_shards", CONFIG_COUNT, max_shards, "50"),
	Q("max_samples_per_send", CONFIG_COUNT, max_samples, "2000"),
	Q("batch_send_deadline", CONFIG_DURATION, deadline_ms, "5s"),
	Q("min_backoff", CONFIG_DURATION, min_backoff_ms, "30ms"),
	Q("max_backoff", CONFIG_DURATION, max_backoff_ms, "5s"),
	Q("retry_on_http_429", CONFIG_BOOL, retry_429, "true"),
	Q("sample_age_limit", CONFIG_DURATION, age_limit_ms, "0s"),
};

static int check_queue(struct config_ctx *c, const struct config_node *n, void *at, struct err *e)
{
	const struct queue_config *q = at;
	if (!q->capacity || !q->min_shards || !q->max_shards || !q->max_samples)
		return config_error(c, n, e, "capacity, min_shards, max_shards and max_samples_per_send must be above zero");
	if (q->max_samples > MAX_SAMPLES)
		return config_error(c, config_get(n, "max_samples_per_send"), e, "max_samples_per_send must be at most %d", MAX_SAMPLES);
	if (q->min_shards > q->max_shards)
		return config_error(c, config_get(n, "min_shards"), e, "min_shards is above max_shards");
	if (q->deadline_ms <= 0 || q->min_backoff_ms <= 0 || q->max_backoff_ms <= 0)
		return config_error(c, n, e, "batch_send_deadline, min_backoff and max_backoff must be longer than nothing");
	if (q->min_backoff_ms > q->max_backoff_ms)
		return config_error(c, n, e, "max_backoff is below min_backoff");
	return 0;
}

static const struct config_table queue_table = CONFIG_TABLE(struct queue_config, queue_rows, check_queue);

/* ---- an item ---- */

static int decode_message(struct config_ctx *c, const struct config_node *n, void *at, struct err *e)
{
	(void)at;
	if (n->type == CONFIG_NODE_SCALAR && view_eqs(n->text, "prometheus.WriteRequest"))
		return 0;
	if (n->type == CONFIG_NODE_SCALAR && view_eqs(n->text, "io.prometheus.write.v2.Request"))
		return config_error(c, n, e, "remote-write 2.0 is not built in; leave this out, or say prometheus.WriteRequest (1.0)");
	return config_error(c, n, e, "no message that is known; prometheus.WriteRequest is");
}

#define R(key, type, member, def) { key, type, offsetof(struct receiver_config, member), def }

static const struct config_field receiver_rows[] = {
	{ "url", CONFIG_STRING, offsetof(struct receiver_config, url), NULL, CONFIG_REQUIRED },
	R("name", CONFIG_STRING, name, ""),
	R("remote_timeout", CONFIG_DURATION, timeout_ms, "30s"),
	R("headers", CONFIG_MAP, headers, NULL),
	{ "write_relabel_configs", CONFIG_CUSTOM, offsetof(struct receiver_config, relabel), .custom = config_relabel_decode },
	{ "queue_config", CONFIG_STRUCT, offsetof(struct receiver_config, queue), .table = &queue_table },
	{ "protobuf_message", CONFIG_CUSTOM, .custom = decode_message },
	{ "send_exemplars", CONFIG_IGNORED, .words = "ignored; there are no exemplars here" },
	{ "send_native_histograms", CONFIG_IGNORED, .words = "ignored; there are no native histograms here" },
	{ "metadata_config", CONFIG_IGNORED, .words = "ignored; samples are sent without metadata" },
	{ "round_robin_dns", CONFIG_IGNORED, .words = "ignored; a name is looked up for each connection" },
	{ NULL, CONFIG_INLINE, offsetof(struct receiver_config, http), .table = &config_http_table },
	{ "sigv4", CONFIG_REFUSED, .words = "requests are not signed for AWS here" },
	{ "azuread", CONFIG_REFUSED, .words = "there is no login at Azure here; use oauth2" },
	{ "google_iam", CONFIG_REFUSED, .words = "there is no login at Google here; use oauth2" },
};
static const struct config_table receiver_table = CONFIG_TABLE(struct receiver_config, receiver_rows, NULL);

static bool is_own_header(const char *name)
{
	static const char *const names[] = { "Authorization", "Host", "Content-Encoding", "Content-Length", "Content-Type",
					     "X-Prometheus-Remote-Write-Version", "User-Agent", "Connection", "Keep-Alive",
					     "Proxy-Authenticate", "Proxy-Authorization", "Www-Authenticate", "Transfer-Encoding" };
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (!strcasecmp(name, names[i]))
			return true;
	return false;
}

static int make_headers(struct config_ctx *c, const struct config_node *n, struct receiver_config *r, struct err *e)
{
	size_t own = ARRAY_LEN(protocol_lines);
	r->n_header_lines = own + r->headers.n;
	r->header_lines = arena_calloc(c->arena, r->n_header_lines, sizeof *r->header_lines);
	memcpy(r->header_lines, protocol_lines, sizeof protocol_lines);
	for (size_t i = 0; i < r->headers.n; i++) {
		const char *name = r->headers.v[i].key, *value = r->headers.v[i].value;
		if (is_own_header(name))
			return config_error(c, config_get(n, "headers"), e, "the header %s is set by the client itself; a login is basic_auth, "
					    "authorization or oauth2", name);
		if (!name[0] || strpbrk(name, " :\r\n\t") || strpbrk(value, "\r\n"))
			return config_error(c, config_get(n, "headers"), e, "not a header");
		r->header_lines[own + i] = arena_printf(c->arena, "%s: %s", name, value);
	}
	return 0;
}

/* Others take anything that parses as a URL, also "host:port". */
static int complete_url(struct config_ctx *c, const struct config_node *n, struct receiver_config *r, struct err *e)
{
	struct buf shown = { 0 };
	if (!r->url[0] || strpbrk(r->url, " \t\r\n"))
		return config_error(c, config_get(n, "url"), e, "a URL is wanted");
	if (strncasecmp(r->url, "http://", 7) != 0 && strncasecmp(r->url, "https://", 8) != 0) {
		if (strstr(r->url, "://"))
			return config_error(c, config_get(n, "url"), e, "the URL has to begin with http:// or https://");
		config_warn(c, config_get(n, "url"), "without a scheme; taken for http://");
		r->url = arena_printf(c->arena, "http://%s", r->url);
	}
	config_redact_url(view_of(r->url), &shown);
	r->shown = arena_strndup(c->arena, shown.ptr, shown.len);
	buf_free(&shown);
	return 0;
}

static int decode_receiver(struct config_ctx *c, const struct config_node *n, struct receiver_config *ret, struct err *e)
{
	int rc = n->type == CONFIG_NODE_MAP ? config_decode(c, &receiver_table, n, ret, e) : config_error(c, n, e, "a map is wanted");
	if (!rc && ret->timeout_ms <= 0)
		rc = config_error(c, config_get(n, "remote_timeout"), e, "remote_timeout must be longer than nothing");
	if (!rc && strlen(ret->name) > MAX_NAME)
		rc = config_error(c, config_get(n, "name"), e, "a name has at most %d bytes", MAX_NAME);
	if (!rc)
		rc = make_headers(c, n, ret, e);
	return rc ? rc : complete_url(c, n, ret, e);
}

/* One without a name goes on with its queue as long as its URL stays, whatever else changes. */
static void make_name(struct config_ctx *c, struct receiver_configs *s, size_t i)
{
	size_t same = 0;
	for (size_t k = 0; k < i; k++)
		same += !strcmp(s->v[k].url, s->v[i].url);
	s->v[i].name = arena_printf(c->arena, "%06" PRIx64, (hash_stable_view(view_of(s->v[i].url)) + same) & 0xffffff);
}

static int check_names(struct config_ctx *c, const struct config_node *n, struct receiver_configs *s, struct err *e)
{
	for (size_t i = 0; i < s->n; i++) {
		if (!s->v[i].name[0])
			make_name(c, s, i);
		for (size_t k = 0; k < i; k++)
			if (!strcmp(s->v[k].name, s->v[i].name))
				return config_error(c, n->items[i], e, "the name %s is there twice", s->v[i].name);
	}
	return 0;
}

static int decode_receivers(struct config_ctx *c, const struct config_node *n, struct receiver_configs *s, struct err *e)
{
	int rc = n->type == CONFIG_NODE_LIST ? 0 : config_error(c, n, e, "a list of receivers is wanted");
	if (rc)
		return rc;
	s->v = arena_calloc(c->arena, n->n + 1, sizeof *s->v);
	for (size_t i = 0; i < n->n && !rc; i++) {
		size_t mark = config_enter_index(c, i);
		s->n = i + 1;
		rc = decode_receiver(c, n->items[i], &s->v[i], e);
		config_leave(c, mark);
	}
	return rc ? rc : check_names(c, n, s, e);
}

/* ---- the section ---- */

int remote_write_config_parse(struct remote_write_config **ret, const struct config_tree *t, void (*warn)(void *arg, const char *text),
			      void *warn_arg, struct err *e)
{
	struct remote_write_config *s = NEW(struct remote_write_config);
	const struct config_node *n = config_get(config_root(t), "remote_write");
	struct config_global g;
	s->refs = 1;
	arena_init(&s->arena, 0);
	struct config_ctx c = { .arena = &s->arena }; /* others warn of what `global` has */
	c.dir = config_dirname(&s->arena, config_root(t)->file);
	int rc = config_global_decode(t, &c, &g, e);
	if (!rc) {
		c.warn = warn;
		c.warn_arg = warn_arg;
		c.check_files = config_how(t)->check_files;
		s->external_labels = config_external_labels(&g, &s->arena);
		size_t mark = config_enter(&c, "remote_write");
		if (n && n->type != CONFIG_NODE_NULL)
			rc = decode_receivers(&c, n, &s->receivers, e);
		config_leave(&c, mark);
	}
	config_ctx_release(&c);
	if (rc) {
		remote_write_config_unref(s);
		return rc;
	}
	*ret = s;
	return 0;
}

struct remote_write_config *remote_write_config_ref(struct remote_write_config *c)
{
	__atomic_add_fetch(&c->refs, 1, __ATOMIC_RELAXED);
	return c;
}

void remote_write_config_unref(struct remote_write_config *c)
{
	if (!c || __atomic_sub_fetch(&c->refs, 1, __ATOMIC_ACQ_REL))
		return;
	for (size_t i = 0; i < c->receivers.n; i++)
		config_relabel_release(&c->receivers.v[i].relabel);
	arena_free(&c->arena);
	free(c);
}

void remote_write_config_check(const struct remote_write_config *c, struct buf *out)
{
	for (size_t i = 0; i < c->receivers.n; i++)
		buf_printf(out, "remote write: %s, to %s\n", c->receivers.v[i].name, c->receivers.v[i].shown);
}
