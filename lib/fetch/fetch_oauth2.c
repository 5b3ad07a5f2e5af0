/* SPDX-License-Identifier: Apache-2.0 */
/* OAuth 2.0 client credentials (RFC 6749, 4.4): asks the token URL with id and secret as HTTP basic credentials and
 * keeps the token fresh. A thread of its own asks, from when the client is made, and again before the token ends (after
 * a failure every RETRY_MS), so that no loop waits for a token URL that is slow. The answer is a small flat JSON object
 * of which two members matter; it is read here, so that this folder needs no JSON library. */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/num.h"
#include "base/thread.h"
#include "fetch/fetch_internal.h"

#define TOKEN_MS 10000
#define RETRY_MS 5000
#define EARLY_MS 10000
#define ANSWER_MAX ((uint64_t)1 << 20)

struct fetch_oauth2 {
	const struct http_oauth2 *config;
	struct http_config http;       /* how the token URL is asked */
	struct http_basic_auth basic;
	pthread_t thread;
	bool thread_runs;
	atomic_bool stop;
	pthread_mutex_t lock;
	pthread_cond_t changed;        /* monotonic */
	char *token;                   /* under lock, as all below */
	int64_t good_until_ms;         /* monotonic */
	struct err last;               /* of the last failure; code 0: none since */
};

static void *keep_fresh(void *arg);

struct fetch_oauth2 *fetch_oauth2_new(const struct http_oauth2 *c)
{
	struct fetch_oauth2 *o = NEW(struct fetch_oauth2);
	pthread_condattr_t monotonic;
	o->config = c;
	o->basic = (struct http_basic_auth){ .username = c->client_id, .password = c->client_secret,
					     .password_file = c->client_secret_file };
	o->http = (struct http_config){ .basic_auth = &o->basic, .tls = c->tls, .proxy_url = c->proxy_url,
					.no_proxy = c->no_proxy, .proxy_from_environment = c->proxy_from_environment,
					.enable_http2 = true };
	pthread_mutex_init(&o->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&o->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	o->thread_runs = thread_start(&o->thread, "oauth2", keep_fresh, o, &o->last) == 0;
	return o;
}

void fetch_oauth2_free(struct fetch_oauth2 *o)
{
	if (!o)
		return;
	pthread_mutex_lock(&o->lock);
	atomic_store(&o->stop, true);
	pthread_cond_broadcast(&o->changed);
	pthread_mutex_unlock(&o->lock);
	if (o->thread_runs)
		pthread_join(o->thread, NULL);
	pthread_cond_destroy(&o->changed);
	pthread_mutex_destroy(&o->lock);
	free(o->token);
	free(o);
}

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

static int ask(struct fetch_oauth2 *o, struct fetch_response *r, struct err *e)
{
	static const char *const headers[] = { "Content-Type: application/x-www-form-urlencoded", "Accept: application/json" };
	struct fetch_client *client = NULL;
	struct buf body = { 0 };
	int rc = fetch_client_new(&client, &o->http, NULL, e);
	if (rc)
		return rc;
	put_form(o->config, &body);
	struct fetch_request q = { .method = "POST", .url = o->config->token_url, .headers = headers,
				   .n_headers = ARRAY_LEN(headers), .body = buf_view(&body), .timeout_ms = TOKEN_MS,
				   .max_bytes = ANSWER_MAX, .cancel = &o->stop };
	rc = fetch_do(client, &q, r, e);
	buf_free(&body);
	fetch_client_unref(client);
	if (!rc && r->status != 200)
		rc = err_set(e, ERR_DENIED, "the token URL answered %d", r->status);
	return rc ? err_wrap(e, "asking for a token") : 0;
}

/* One new token; returns how long to wait before the next, in ms. */
static int64_t renew(struct fetch_oauth2 *o)
{
	struct fetch_response r = { 0 };
	struct buf token = { 0 };
	struct err e = { 0 };
	int64_t expires_s = 3600, wait_ms = RETRY_MS, now = clock_mono_ms();
	int rc = ask(o, &r, &e);
	if (!rc) {
		read_answer(buf_view(&r.body), &token, &expires_s);
		if (!token.len)
			rc = err_set(&e, ERR_BAD_DATA, "the token URL's answer has no access_token");
	}
	pthread_mutex_lock(&o->lock);
	o->last = e;
	if (!rc) {
		free(o->token);
		o->token = buf_take(&token, NULL);
		o->good_until_ms = now + expires_s * 1000;
		wait_ms = MAX(expires_s * 1000 - MIN(EARLY_MS, expires_s * 500), 1000);
	}
	pthread_cond_broadcast(&o->changed);
	pthread_mutex_unlock(&o->lock);
	fetch_response_release(&r);
	buf_free(&token);
	return wait_ms;
}

/* Under the lock, until something changes or ms have passed. */
static void wait_change(struct fetch_oauth2 *o, int64_t until_ms)
{
	struct timespec t = { .tv_sec = until_ms / 1000, .tv_nsec = until_ms % 1000 * 1000000 };
	pthread_cond_timedwait(&o->changed, &o->lock, &t);
}

static void *keep_fresh(void *arg)
{
	struct fetch_oauth2 *o = arg;
	while (!atomic_load(&o->stop)) {
		int64_t until = clock_mono_ms() + renew(o);
		pthread_mutex_lock(&o->lock);
		while (!atomic_load(&o->stop) && clock_mono_ms() < until)
			wait_change(o, until);
		pthread_mutex_unlock(&o->lock);
	}
	return NULL;
}

static bool has_token(const struct fetch_oauth2 *o)
{
	return o->token && clock_mono_ms() < o->good_until_ms;
}

int fetch_oauth2_token(struct fetch_oauth2 *o, bool wait, struct buf *out, struct err *e)
{
	int rc = 0;
	int64_t until = clock_mono_ms() + TOKEN_MS;
	pthread_mutex_lock(&o->lock);
	while (wait && !has_token(o) && !o->last.code && clock_mono_ms() < until)
		wait_change(o, until);
	if (has_token(o))
		buf_puts(out, o->token);
	else if (o->last.code)
		rc = err_set(e, o->last.code, "%s", o->last.msg);
	else
		rc = err_set(e, ERR_UNAVAILABLE, "the token URL has not answered yet");
	pthread_mutex_unlock(&o->lock);
	return rc;
}
