/* SPDX-License-Identifier: Apache-2.0 */
/* A request is built from its exchange: path, headers, signature by the credentials of the moment. Redirects are not followed: a signature is for one host, and
 * credentials are for no other. */
#include "bucket/s3_exchange.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bucket/sigv4.h"

#define S3_STALL_MS 120000 /* unless http_config says otherwise */

struct s3_headers {
	VEC(struct sigv4_header) v; /* signed, sorted by name */
	VEC(const char *) lines;    /* as they are sent */
	struct arena arena;
};

static void s3_header(struct s3_headers *h, const char *name, struct view value)
{
	vec_push(&h->v, (struct sigv4_header){ name, value });
}

static int s3_header_order(const void *a, const void *b)
{
	return strcmp(((const struct sigv4_header *)a)->name, ((const struct sigv4_header *)b)->name);
}

/* As it is signed: without blanks around it, and with one where there are several. */
static struct view s3_header_value(struct arena *a, const char *text)
{
	char *out = arena_strndup(a, text, strlen(text)), *to = out;
	for (const char *p = text; *p; p++)
		if (*p != ' ' || (to > out && to[-1] != ' '))
			*to++ = *p;
	if (to > out && to[-1] == ' ')
		to--;
	return view_make(out, (size_t)(to - out));
}

/* Names of headers that Google's XML API has, too, under names of its own; a request may not have both kinds. */
static const char *s3_name(const struct s3 *s, struct s3_headers *h, const char *rest)
{
	return arena_printf(&h->arena, "%s%s", s->place.google ? "x-goog-" : "x-amz-", rest);
}

static void s3_put_headers(const struct s3 *s, struct s3_headers *h)
{
	const struct s3_config *c = s->config;
	for (size_t i = 0; i < c->user_metadata.n; i++) {
		char *name = arena_printf(&h->arena, "%s%s", s3_name(s, h, "meta-"), c->user_metadata.v[i].key);
		for (char *p = name; *p; p++)
			*p = *p >= 'A' && *p <= 'Z' ? (char)(*p - 'A' + 'a') : *p;
		s3_header(h, name, s3_header_value(&h->arena, c->user_metadata.v[i].value));
	}
	if (c->storage_class && *c->storage_class)
		s3_header(h, s3_name(s, h, "storage-class"), s3_header_value(&h->arena, c->storage_class));
	if (c->sse_s3 && !s->place.google) /* which encrypts all it has */
		s3_header(h, "x-amz-server-side-encryption", VIEW("AES256"));
	vec_push(&h->lines, "Content-Type: application/octet-stream");
}

static void s3_collect_headers(const struct s3 *s, const struct s3_exchange *x, int64_t now_ms, struct s3_headers *h)
{
	char date[SIGV4_DATE];
	sigv4_date(now_ms, date);
	s3_header(h, "host", view_of(s->place.host));
	s3_header(h, s3_name(s, h, "content-sha256"), view_of(x->content_sha256));
	s3_header(h, s3_name(s, h, "date"), s3_header_value(&h->arena, date));
	if (*x->signer.session_token)
		s3_header(h, "x-amz-security-token", view_of(x->signer.session_token));
	if (x->if_absent)
		s3_header(h, s->place.google ? "x-goog-if-generation-match" : "if-none-match", s->place.google ? VIEW("0") : VIEW("*"));
	if (x->range)
		s3_header(h, "range", view_of(x->range));
	if (x->operation == S3_PUT)
		s3_put_headers(s, h);
	qsort(h->v.v, h->v.n, sizeof *h->v.v, s3_header_order);
}

/* The signature goes over all headers but those of curl and Content-Type. */
static void s3_sign(const struct s3 *s, const struct s3_exchange *x, struct view path, struct s3_headers *h)
{
	int64_t now = clock_now_ms();
	struct buf authorization = { 0 };
	s3_collect_headers(s, x, now, h);
	struct sigv4_request q = { .method = x->method, .path = path, .query = view_of(x->query), .headers = h->v.v, .n_headers = h->v.n,
				   .content_sha256 = x->content_sha256, .region = s->place.region, .service = s->place.google ? "storage" : "s3",
				   .google = s->place.google, .access_key = view_of(x->signer.access_key), .secret_key = view_of(x->signer.secret_key), .now_ms = now };
	sigv4_sign(&q, &authorization);
	for (size_t i = 0; i < h->v.n; i++)
		vec_push(&h->lines, arena_printf(&h->arena, "%s: %.*s", h->v.v[i].name, VIEW_ARG(h->v.v[i].value)));
	vec_push(&h->lines, arena_printf(&h->arena, "Authorization: %s", authorization.ptr));
	buf_free(&authorization);
}

static bool s3_good(int status)
{
	return status == 200 || status == 204 || status == 206;
}

static void on_head(void *arg, const struct fetch_response *r)
{
	struct s3_exchange *x = arg;
	x->status = r->status;
	x->headed = true;
	memcpy(x->headers, r->headers, sizeof x->headers);
	if (x->data && s3_good(x->status))
		x->data(x->arg, NULL, 0, &x->data_error);
}

static enum fetch_data on_data(void *arg, const char *p, size_t n)
{
	struct s3_exchange *x = arg;
	if (x->data && s3_good(x->status)) {
		if (!x->data_error.code && !x->ended)
			x->data(x->arg, p, n, &x->data_error);
		return x->data_error.code || x->ended ? FETCH_END : FETCH_TAKEN;
	}
	/* No more of an error's body is read than is kept. */
	size_t room = s3_good(x->status) ? n : S3_ERROR_MAX - MIN(x->body.len, S3_ERROR_MAX);
	buf_put(&x->body, p, MIN(n, room));
	x->ended = n > room;
	return x->ended ? FETCH_END : FETCH_TAKEN;
}

/* What the exchange itself ended with, in the words of backend.h. */
static int s3_conclude(struct s3 *s, struct s3_exchange *x, int rc, struct err *e)
{
	if (x->data_error.code)
		return err_set(e, x->data_error.code, "%s", x->data_error.msg);
	if (!rc || (x->ended && rc == -ERR_CANCELED)) {
		err_clear(e);
		return 0;
	}
	if (rc == -ERR_BAD_DATA)
		e->code = ERR_UNAVAILABLE; /* cut short, or no HTTP */
	else if (rc == -ERR_LIMIT)
		e->code = ERR_BAD_DATA;
	return err_wrap(e, "S3 at %s", s->config->endpoint);
}

static int s3_exchange_send(struct s3 *s, struct s3_exchange *x, const char *url, const struct s3_headers *h, struct backend_attempt *a, struct err *e)
{
	struct fetch_response r = { 0 };
	int64_t stall_ms = s->config->response_timeout_ms > 0 ? s->config->response_timeout_ms : S3_STALL_MS;
	struct fetch_request q = { .method = x->method, .url = url, .headers = h->lines.v, .n_headers = h->lines.n, .upload = x->upload,
				   .stall_ms = a->silence_ms ? MIN(a->silence_ms, stall_ms) : stall_ms,
				   .max_bytes = x->max_bytes, .cancel = a->stop, .keepalive = true, .on_head = on_head, .on_data = on_data, .on_data_arg = x,
				   .want_headers = { [S3_ETAG] = "ETag", [S3_REGION_HEADER] = "x-amz-bucket-region", [S3_DATE] = "Date",
						     [S3_CONTENT_RANGE] = "Content-Range", [S3_CONTENT_LENGTH] = "Content-Length" } };
	int rc = fetch_do(s->client, &q, &r, e);
	x->status = r.status;
	x->retry_after_s = r.retry_after_s;
	if (!rc && r.body.len) /* an answer that came beside the reset of an upload */
		buf_put(&x->body, r.body.ptr, MIN(r.body.len, S3_ERROR_MAX));
	fetch_response_release(&r);
	if (!rc && !x->headed)
		rc = err_set(e, ERR_UNAVAILABLE, "the answer was cut short in its head");
	return rc;
}

int s3_exchange_run(struct s3 *s, struct s3_exchange *x, struct backend_attempt *a, struct err *e)
{
	struct s3_headers h = { 0 };
	int rc = credentials_get(s->credentials, &x->signer, e);
	if (rc)
		return rc;
	arena_init(&h.arena, 0);
	char *path = arena_printf(&h.arena, "%s/%s", s->place.path, x->key);
	char *url = arena_printf(&h.arena, "%s%s%s%s", s->place.scheme_host, path, *x->query ? "?" : "", x->query);
	s3_sign(s, x, view_of(path), &h);
	rc = s3_exchange_send(s, x, url, &h, a, e);
	rc = s3_conclude(s, x, rc, e);
	vec_free(&h.v);
	vec_free(&h.lines);
	arena_free(&h.arena);
	return rc;
}

int s3_exchange_refused(struct s3 *s, const struct s3_exchange *x, struct backend_attempt *a, struct err *e)
{
	bool expired = false;
	struct s3_answer answer = { .status = x->status, .body = buf_view(&x->body), .region = x->headers[S3_REGION_HEADER], .date = x->headers[S3_DATE],
				    .retry_after_s = x->retry_after_s };
	struct s3_context c = { .operation = x->operation, .key = x->about, .bucket = s->config->bucket, .endpoint = s->config->endpoint,
				.region = s->place.region, .renewable = credentials_renewable(s->credentials),
				.secrets = { view_of(x->signer.access_key), view_of(x->signer.secret_key), view_of(x->signer.session_token) } };
	int rc = s3_error_set(&answer, &c, a, &expired, e);
	if (expired)
		credentials_reject(s->credentials, x->signer.access_key);
	return rc;
}

void s3_exchange_release(struct s3_exchange *x)
{
	credentials_key_release(&x->signer);
	buf_free(&x->body);
}
