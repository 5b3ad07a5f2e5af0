/* SPDX-License-Identifier: Apache-2.0 */
/* OAuth 2.0 client credentials (RFC 6749, 4.4): asks the token URL with id and secret as HTTP basic credentials and
 * keeps the token fresh. A separate thread requests a token when the client is made, and again before the token expires (after a
 * failure every RETRY_MS). So no loop waits for a slow token URL. The answer is a small flat JSON object of which two members matter;
 * it is read here, so that this folder needs no JSON library. */
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/num.h"
#include "fetch/fetch_internal.h"

#define RETRY_MS 5000
#define EARLY_MS 10000
#define ANSWER_MAX ((uint64_t)1 << 20)

static void put_param(struct buf *body, const char *key, struct view value)
{
	if (body->len)
		buf_putc(body, '&');
	fetch_url_escape(view_of(key), body);
	buf_putc(body, '=');
	fetch_url_escape(value, body);
}

static void put_form(const struct http_oauth2 *c, struct buf *body)
{
	put_param(body, "grant_type", VIEW("client_credentials"));
	struct buf scopes = { 0 };
	for (size_t i = 0; i < c->scopes.n; i++)
		buf_printf(&scopes, "%s%s", i ? " " : "", c->scopes.v[i]);
	if (scopes.len)
		put_param(body, "scope", buf_view(&scopes));
	buf_free(&scopes);
	for (size_t i = 0; i < c->endpoint_params.n; i++)
		put_param(body, c->endpoint_params.v[i].key, view_of(c->endpoint_params.v[i].value));
}

static const char *skip_blank(const char *p, const char *end)
{
	while (p < end && strchr(" \t\r\n", *p) && *p)
		p++;
	return p;
}

/* A string or bare word at p; NULL if there is none. Escapes other than \" \\ \/ do not occur in tokens and make the
 * member unusable. */
static const char *read_value(const char *p, const char *end, struct buf *out)
{
	buf_reset(out);
	if (p < end && *p == '"') {
		for (p++; p < end && *p != '"'; p++) {
			if (*p == '\\' && (++p >= end || !strchr("\"\\/", *p)))
				return NULL;
			buf_putc(out, *p);
		}
		return p < end ? p + 1 : NULL;
	}
	while (p < end && !strchr(",}] \t\r\n", *p))
		buf_putc(out, *p++);
	return p;
}

/* The members of a flat object; the rest of an answer that is not flat is left unread. */
static void read_answer(struct view v, struct buf *token, int64_t *expires_s)
{
	const char *p = skip_blank(v.ptr, v.ptr + v.len), *end = v.ptr + v.len;
	struct buf key = { 0 }, value = { 0 };
	while (p < end && (*p == '{' || *p == ',')) {
		p = read_value(skip_blank(p + 1, end), end, &key);
		p = p ? skip_blank(p, end) : end;
		if (p >= end || *p != ':')
			break;
		p = read_value(skip_blank(p + 1, end), end, &value);
		if (!p)
			break;
		p = skip_blank(p, end);
		double seconds;
		if (view_eqs(buf_view(&key), "access_token"))
			buf_putv(token, buf_view(&value));
		else if (view_eqs(buf_view(&key), "expires_in") && num_parse_double(buf_view(&value), &seconds) && seconds > 0 &&
			 seconds < 1e9)
			*expires_s = (int64_t)seconds;
	}
	buf_free(&key);
	buf_free(&value);
}

static int ask(struct fetch_token *t, struct fetch_response *r, struct err *e)
{
	static const char *const headers[] = { "Content-Type: application/x-www-form-urlencoded", "Accept: application/json" };
	const struct http_oauth2 *c = t->config;
	struct http_basic_auth basic = { .username = c->client_id, .password = c->client_secret,
					 .password_file = c->client_secret_file };
	struct http_config http = { .basic_auth = &basic, .tls = c->tls, .proxy_url = c->proxy_url, .no_proxy = c->no_proxy,
				    .proxy_from_environment = c->proxy_from_environment, .enable_http2 = true };
	struct fetch_client *client = fetch_client_plain(&http, NULL);
	struct buf body = { 0 };
	put_form(c, &body);
	struct fetch_request q = { .method = "POST", .url = c->token_url, .headers = headers, .n_headers = ARRAY_LEN(headers),
				   .body = buf_view(&body), .timeout_ms = FETCH_TOKEN_MS, .max_bytes = ANSWER_MAX, .cancel = &t->stop };
	int rc = fetch_do(client, &q, r, e);
	buf_free(&body);
	fetch_client_unref(client);
	if (!rc && r->status != 200)
		rc = err_set(e, ERR_DENIED, "the token URL answered %d", r->status);
	return rc ? err_wrap(e, "asking for a token") : 0;
}

/* One new token; returns how long to wait before the next, in ms. */
static int64_t renew(struct fetch_token *t)
{
	struct fetch_response r = { 0 };
	struct buf text = { 0 };
	struct err e = { 0 };
	int64_t expires_s = 3600, wait_ms = RETRY_MS, now = clock_mono_ms();
	int rc = ask(t, &r, &e);
	if (!rc) {
		read_answer(buf_view(&r.body), &text, &expires_s);
		if (!text.len)
			rc = err_set(&e, ERR_BAD_DATA, "the token URL's answer has no access_token");
	}
	if (rc) {
		fetch_token_fail(t, &e);
	} else {
		fetch_token_put(t, buf_take(&text, NULL), now + expires_s * 1000);
		wait_ms = MAX(expires_s * 1000 - MIN(EARLY_MS, expires_s * 500), 1000);
	}
	fetch_response_release(&r);
	buf_free(&text);
	return wait_ms;
}

void *fetch_oauth2_keep_fresh(void *token)
{
	struct fetch_token *t = token;
	while (!atomic_load(&t->stop)) {
		int64_t until = clock_mono_ms() + renew(t);
		fetch_token_rest(t, until);
	}
	return NULL;
}
