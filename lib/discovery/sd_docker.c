/* SPDX-License-Identifier: Apache-2.0 */
/* docker_sd_configs: the containers that a Docker engine (or another that speaks its API) runs, one target per network
 * and TCP port. A thread asks again every refresh_interval; all containers are one group. sd_docker_targets.c makes targets of an
 * answer. */
#include "discovery/sd_docker.h"

#include <stdlib.h>
#include <sys/un.h>

#include "config/config_http.h"
#include "discovery/refresh.h"
#include "fetch/fetch.h"

struct docker_filter {
	const char *name;
	struct config_strings values;
};

struct docker_config {
	const char *host;
	struct docker_options options;
	struct config_list filters; /* of struct docker_filter */
	int64_t refresh_ms;
	struct http_config http;
	/* Made of host: */
	const char *base;        /* the beginning of URLs, "http://10.0.0.1:2375" */
	const char *unix_socket; /* NULL = none */
};

/* ---- configuration ---- */

/* host becomes base and unix_socket. */
static int check_host(struct config_ctx *c, const struct config_node *n, struct docker_config *d, struct err *e)
{
	struct view host = view_of(d->host), unix_ = VIEW("unix://"), tcp = VIEW("tcp://");
	if (view_starts(host, unix_)) {
		d->unix_socket = d->host + unix_.len;
		d->base = "http://docker";
		if (d->unix_socket[0] != '/')
			return config_error(c, n, e, "host: the path of the socket has to be absolute (unix:///var/run/docker.sock)");
		if (strlen(d->unix_socket) >= sizeof((struct sockaddr_un *)0)->sun_path)
			return config_error(c, n, e, "host: the path of the socket is too long");
		return 0;
	}
	while (view_ends(host, VIEW("/")))
		host.len--;
	if (view_starts(host, tcp))
		d->base = arena_printf(c->arena, "http://%.*s", (int)(host.len - tcp.len), host.ptr + tcp.len);
	else
		d->base = arena_strndup(c->arena, host.ptr, host.len);
	const char *rest = strstr(d->base, "://");
	if (!rest || !rest[3] || strpbrk(rest + 3, " ?#@") ||
	    (!view_starts(view_of(d->base), VIEW("http://")) && !view_starts(view_of(d->base), VIEW("https://"))))
		return config_error(c, n, e, "host has to be unix:///path, tcp://host:port, http://host:port or https://host:port");
	return 0;
}

static int check_config(struct config_ctx *c, const struct config_node *n, void *at, struct err *e)
{
	struct docker_config *d = at;
	if (d->options.port > UINT16_MAX)
		return config_error(c, n, e, "port is above 65535");
	if (d->refresh_ms <= 0)
		return config_error(c, n, e, "refresh_interval has to be above 0");
	return check_host(c, n, d, e);
}

static const struct config_field filter_rows[] = {
	{ "name", CONFIG_STRING, offsetof(struct docker_filter, name), NULL, CONFIG_REQUIRED },
	{ "values", CONFIG_STRINGS, offsetof(struct docker_filter, values), NULL, CONFIG_REQUIRED },
};
static const struct config_table filter_table = CONFIG_TABLE(struct docker_filter, filter_rows, NULL);

static const struct config_field rows[] = {
	{ "host", CONFIG_STRING, offsetof(struct docker_config, host), NULL, CONFIG_REQUIRED },
	{ "port", CONFIG_COUNT, offsetof(struct docker_config, options.port), "80" },
	{ "filters", CONFIG_STRUCTS, offsetof(struct docker_config, filters), .table = &filter_table },
	{ "host_networking_host", CONFIG_STRING, offsetof(struct docker_config, options.host_networking_host), "localhost" },
	{ "match_first_network", CONFIG_BOOL, offsetof(struct docker_config, options.match_first_network), "true" },
	{ "refresh_interval", CONFIG_DURATION, offsetof(struct docker_config, refresh_ms), "60s" },
	{ NULL, CONFIG_INLINE, offsetof(struct docker_config, http), .table = &config_http_table },
};
static const struct config_table table = CONFIG_TABLE(struct docker_config, rows, check_config);

static int decode(struct config_ctx *c, const struct config_node *n, void **ret, struct err *e)
{
	*ret = arena_calloc(c->arena, 1, sizeof(struct docker_config));
	return config_decode(c, &table, n, *ret, e);
}

static bool same(const void *a, const void *b)
{
	return config_same(&table, a, b);
}

static void name(const void *config, struct buf *out)
{
	config_redact_url(view_of(((const struct docker_config *)config)->host), out);
}

/* ---- asking ---- */

struct docker_sd {
	const struct docker_config *config;
	struct fetch_client *client;
};

/* One answer, parsed. An answer of another type is an error. */
static int get(struct docker_sd *d, const char *path, json_type want, const atomic_bool *cancel, json_t **ret, struct err *e)
{
	struct buf url = { 0 };
	buf_printf(&url, "%s%s", d->config->base, path);
	const struct fetch_request q = { .url = url.ptr, .unix_socket = d->config->unix_socket, .timeout_ms = d->config->refresh_ms,
					 .max_bytes = ANSWER_BYTES, .compressed = true, .cancel = cancel };
	struct fetch_response a;
	int rc = fetch_do(d->client, &q, &a, e);
	if (!rc && a.status != 200)
		rc = err_set(e, ERR_UNAVAILABLE, "HTTP %d: %.*s", a.status, (int)MIN(a.body.len, 200), buf_view(&a.body).ptr);
	if (!rc)
		rc = answer_parse(ret, buf_view(&a.body), e);
	if (!rc && json_typeof(*ret) != want) {
		json_decref(*ret);
		rc = err_set(e, ERR_BAD_DATA, "the answer is not %s", want == JSON_ARRAY ? "a list" : "an object");
	}
	if (rc) {
		*ret = NULL;
		err_wrap(e, "%s%.40s", d->config->host, path);
	}
	fetch_response_release(&a);
	buf_free(&url);
	return rc;
}

/* "/v1.47": the version that the engine itself names. Paths without one are deprecated; where the engine, or what stands
 * before it, does not tell, they are used. */
static void put_version(struct docker_sd *d, const atomic_bool *cancel, struct buf *out)
{
	json_t *j;
	struct err e;
	if (get(d, "/version", JSON_OBJECT, cancel, &j, &e))
		return;
	const char *v = json_string_value(json_object_get(j, "ApiVersion"));
	if (v && *v && strlen(v) < 16 && strspn(v, "0123456789.") == strlen(v))
		buf_printf(out, "/v%s", v);
	json_decref(j);
}

/* {"label":{"a=b":true}}, as Docker's own clients ask. */
static void put_filters(const struct docker_config *c, struct buf *out)
{
	const struct docker_filter *f = c->filters.v;
	json_t *all = json_object();
	for (size_t i = 0; i < c->filters.n; i++) {
		json_t *values = json_object_get(all, f[i].name);
		if (!values && f[i].values.n)
			json_object_set_new(all, f[i].name, values = json_object());
		for (size_t k = 0; k < f[i].values.n; k++)
			json_object_set_new(values, f[i].values.v[k], json_true());
	}
	char *text = json_object_size(all) ? json_dumps(all, JSON_COMPACT) : NULL;
	if (text) {
		buf_puts(out, "?filters=");
		fetch_url_escape(view_of(text), out);
	}
	free(text);
	json_decref(all);
}

static int emit_containers(const struct docker_sd *d, json_t *containers, json_t *networks, const struct discovery_emit *emit,
			   struct err *e)
{
	struct target_list t;
	target_list_init(&t);
	int rc = docker_targets(&t, &d->config->options, containers, networks, e);
	if (!rc)
		rc = target_list_emit(&t, "Docker", (struct labels){ 0 }, emit, e);
	target_list_free(&t);
	return rc ? err_wrap(e, "%s", d->config->host) : 0;
}

static int refresh(void *state, const struct discovery_emit *emit, const atomic_bool *cancel, struct err *e)
{
	struct docker_sd *d = state;
	struct buf version = { 0 }, path = { 0 };
	json_t *containers = NULL, *networks = NULL;
	put_version(d, cancel, &version);
	buf_printf(&path, "%s/containers/json", buf_view(&version).ptr);
	put_filters(d->config, &path);
	int rc = get(d, path.ptr, JSON_ARRAY, cancel, &containers, e);
	if (!rc) {
		buf_reset(&path);
		buf_printf(&path, "%s/networks", buf_view(&version).ptr);
		rc = get(d, path.ptr, JSON_ARRAY, cancel, &networks, e);
	}
	if (!rc)
		rc = emit_containers(d, containers, networks, emit, e);
	json_decref(networks);
	json_decref(containers);
	buf_free(&path);
	buf_free(&version);
	return rc;
}

static void release(void *state)
{
	struct docker_sd *d = state;
	fetch_client_unref(d->client);
	free(d);
}

extern const struct discovery_ops sd_docker;

static int start(struct discovery_provider **ret, const void *config, const struct discovery_emit *emit, struct err *e)
{
	const struct docker_config *c = config;
	const struct refresh_config r = { .kind = "docker", .interval_ms = c->refresh_ms, .refresh = refresh, .release = release };
	struct docker_sd *d = NEW(struct docker_sd);
	d->config = c;
	d->client = fetch_client_new(&c->http, NULL);
	return refresh_start(ret, &sd_docker, &r, d, emit, e);
}

const struct discovery_ops sd_docker = { .key = "docker_sd_configs", .decode = decode, .same = same, .start = start,
					 .stop = refresh_stop, .cancel = refresh_cancel, .name = name };
