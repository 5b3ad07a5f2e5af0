/* SPDX-License-Identifier: Apache-2.0 */
/* http_sd_configs: a server that returns the whole list of target groups. It is asked every refresh_interval, which is also the
 * timeout. Any answer other than a 200 with a JSON list changes nothing. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/num.h"
#include "discovery/refresh.h"
#include "discovery/target_groups.h"
#include "fetch/fetch.h"

struct http_sd_config {
	const char *url;
	int64_t refresh_ms;
	struct http_config http;
	const char *shown; /* the URL without secrets */
};

static bool url_is_good(const char *url)
{
	const char *host = strncasecmp(url, "http://", 7) == 0 ? url + 7 : strncasecmp(url, "https://", 8) == 0 ? url + 8 : NULL;
	if (!host || !host[0] || strchr("/?#:", host[0]))
		return false;
	for (const char *p = url; *p; p++)
		if ((unsigned char)*p <= ' ' || *p == 0x7f)
			return false;
	return true;
}

static int check(struct config_ctx *c, const struct config_node *n, void *at, struct err *e)
{
	struct http_sd_config *h = at;
	struct buf shown = { 0 };
	if (!url_is_good(h->url))
		return config_error(c, config_get(n, "url"), e, "not the URL of a server: http://host or https://host is wanted");
	if (h->refresh_ms < 100)
		return config_error(c, n, e, "refresh_interval is under 100ms");
	config_redact_url(view_of(h->url), &shown);
	h->shown = arena_strndup(c->arena, shown.ptr, shown.len);
	buf_free(&shown);
	return 0;
}

static const struct config_field rows[] = {
	{ "url", CONFIG_STRING, offsetof(struct http_sd_config, url), NULL, CONFIG_REQUIRED },
	{ "refresh_interval", CONFIG_DURATION, offsetof(struct http_sd_config, refresh_ms), "1m" },
	{ NULL, CONFIG_INLINE, offsetof(struct http_sd_config, http), .table = &config_http_table },
};
static const struct config_table table = CONFIG_TABLE(struct http_sd_config, rows, check);

static int decode(struct config_ctx *c, const struct config_node *n, void **ret, struct err *e)
{
	*ret = arena_calloc(c->arena, 1, sizeof(struct http_sd_config));
	return config_decode(c, &table, n, *ret, e);
}

static bool same(const void *a, const void *b)
{
	return config_same(&table, a, b);
}

struct http_sd {
	const struct http_sd_config *config;
	struct fetch_client *client;
	char interval[96]; /* the header */
};

/* "application/json", perhaps with "; charset=utf-8". */
static bool is_json(const char *type)
{
	struct view v = view_of(type);
	while (v.len && v.ptr[v.len - 1] == ' ')
		v.len--;
	const size_t n = strlen("application/json");
	if (v.len < n || strncasecmp(v.ptr, "application/json", n) != 0)
		return false;
	v = view_make(v.ptr + n, v.len - n);
	if (!v.len)
		return true;
	if (v.ptr[0] != ';')
		return false;
	do
		v = view_make(v.ptr + 1, v.len - 1);
	while (v.len && (v.ptr[0] == ' ' || v.ptr[0] == '\t'));
	return view_eq_nocase(v, VIEW("charset=utf-8")) ||
	       view_eq_nocase(v, VIEW("charset=\"utf-8\""));
}

static int take(const struct http_sd *h, const struct fetch_response *r, const struct discovery_emit *emit, struct err *e)
{
	const char *url = h->config->shown;
	const struct target_origin origin = { url, "__meta_url", url };
	struct target_groups list = { 0 };
	if (r->status != 200)
		return err_set(e, ERR_UNAVAILABLE, "%s: the answer is HTTP %d", url, r->status);
	if (!is_json(r->content_type))
		return err_set(e, ERR_BAD_DATA, "%s: the answer is of Content-Type \"%s\", application/json is wanted", url,
			       r->content_type);
	int rc = target_groups_json(buf_view(&r->body), &origin, &list, e);
	if (!rc)
		discovery_emit_groups(emit, list.v.v, list.v.n);
	target_groups_release(&list);
	return rc;
}

static int refresh(void *state, const struct discovery_emit *emit, const atomic_bool *cancel, struct err *e)
{
	const struct http_sd *h = state;
	const char *const headers[] = { "Accept: application/json", h->interval };
	const struct fetch_request q = { .url = h->config->url, .headers = headers, .n_headers = ARRAY_LEN(headers),
					 .timeout_ms = h->config->refresh_ms, .max_bytes = TARGET_GROUPS_MAX_BYTES,
					 .compressed = true, .cancel = cancel };
	struct fetch_response r = { 0 };
	int rc = fetch_do(h->client, &q, &r, e);
	rc = rc ? err_wrap(e, "%s", h->config->shown) : take(h, &r, emit, e);
	fetch_response_release(&r);
	return rc;
}

static void release(void *state)
{
	struct http_sd *h = state;
	fetch_client_unref(h->client);
	free(h);
}

extern const struct discovery_ops sd_http;

static int start(struct discovery_provider **ret, const void *config, const struct discovery_emit *emit, struct err *e)
{
	struct http_sd *h = NEW(struct http_sd);
	char seconds[NUM_LEN];
	h->config = config;
	snprintf(h->interval, sizeof h->interval, "X-Prometheus-Refresh-Interval-Seconds: %s",
		 num_format((double)h->config->refresh_ms / 1000, seconds));
	h->client = fetch_client_new(&h->config->http, "pyrrha");
	const struct refresh_config r = { "http", h->config->refresh_ms, refresh, release };
	return refresh_start(ret, &sd_http, &r, h, emit, e);
}

static void name(const void *config, struct buf *out)
{
	buf_puts(out, ((const struct http_sd_config *)config)->shown);
}

const struct discovery_ops sd_http = { "http_sd_configs", decode, same, start, refresh_stop, .name = name,
				       .cancel = refresh_cancel };
