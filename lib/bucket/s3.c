/* SPDX-License-Identifier: Apache-2.0 */
#include "bucket/s3.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "base/num.h"
#include "base/sha256.h"
#include "bucket/s3_exchange.h"
#include "bucket/s3_list.h"
#include "bucket/s3_xml.h"

#define S3_KEPT 16        /* connections */
#define S3_IDLE_MS 60000  /* unless http_config says otherwise; AWS closes them after some 20 s, which curl notices */
#define S3_EMPTY_SHA256 "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

static struct s3 *s3_of(struct backend *b)
{
	return (struct s3 *)b;
}

/* ---- put ---- */

/* State of a put while its body is sent. */
struct s3_body {
	const struct objects_body *body;
	struct sha256 hash;
	bool hashing, complete;      /* complete: the last byte was read, and the hash is right */
	struct err error;            /* of reading it; code 0 = none */
};

static int s3_body_check(struct s3_body *b, struct err *e)
{
	uint8_t hash[SHA256_LEN];
	sha256_end(&b->hash, hash);
	b->hashing = false;
	b->complete = memcmp(hash, b->body->sha256, sizeof hash) == 0;
	return b->complete ? 0 : err_set(e, ERR_CORRUPT, "the content changed while it was read: it does not have the hash that it had");
}

/* The last piece is held back if the whole is not what was to be put: so the store cannot have it. */
static int s3_body_read(void *arg, uint64_t offset, char *p, size_t n, struct err *e)
{
	struct s3_body *b = arg;
	if (!offset) {
		uint8_t unused[SHA256_LEN];
		if (b->hashing)
			sha256_end(&b->hash, unused);
		sha256_begin(&b->hash);
		b->hashing = true;
		b->complete = false;
	}
	int rc = 0;
	for (size_t done = 0, piece; done < n && !rc; done += piece) {
		piece = MIN(n - done, BACKEND_PIECE);
		rc = b->body->read(b->body->arg, offset + done, p + done, piece, &b->error);
	}
	if (!rc)
		sha256_add(&b->hash, p, n);
	if (!rc && offset + n == b->body->size)
		rc = s3_body_check(b, &b->error);
	return rc ? err_set(e, b->error.code, "%s", b->error.msg) : 0;
}

/* One request, without the probe. */
static int s3_put(struct s3 *s, const char *key, const struct objects_body *body, struct backend_attempt *a, struct err *e)
{
	char hex[SHA256_HEX];
	uint8_t unused[SHA256_LEN];
	struct s3_body b = { .body = body };
	struct fetch_upload upload = { body->size, s3_body_read, &b };
	struct s3_exchange x = { .operation = S3_PUT, .method = "PUT", .key = key, .about = key, .query = "", .content_sha256 = hex, .if_absent = true,
				 .upload = &upload, .max_bytes = S3_XML_MAX };
	sha256_hex(body->sha256, hex);
	if (!body->size && strcmp(hex, S3_EMPTY_SHA256) != 0)
		return err_set(e, ERR_CORRUPT, "the content is empty, and does not have the hash that it should have");
	int rc = s3_exchange_run(s, &x, a, e);
	if (b.error.code)
		rc = err_set(e, b.error.code, "%s", b.error.msg);
	else if (!rc && x.status != 200)
		rc = s3_exchange_refused(s, &x, a, e);
	else if (!rc && (!x.headers[S3_ETAG][0] || (body->size && !b.complete)))
		rc = err_set(e, ERR_BAD_DATA, "%s answered a put of %s without what S3 answers (an ETag, after all of the body): is it S3?", s->config->endpoint, key);
	if (b.hashing)
		sha256_end(&b.hash, unused);
	s3_exchange_release(&x);
	return rc;
}

static int s3_remove_once(struct backend *backend, const char *key, struct backend_attempt *a, struct err *e)
{
	struct s3 *s = s3_of(backend);
	struct s3_exchange x = { .operation = S3_REMOVE, .method = "DELETE", .key = key, .about = key, .query = "", .content_sha256 = S3_EMPTY_SHA256,
				 .max_bytes = S3_XML_MAX };
	int rc = s3_exchange_run(s, &x, a, e);
	if (!rc && x.status != 204 && x.status != 200) {
		rc = s3_exchange_refused(s, &x, a, e);
		if (rc == -ERR_NOT_FOUND) {
			err_clear(e);
			rc = 0;
		}
	}
	s3_exchange_release(&x);
	return rc;
}

static int s3_text_read(void *arg, uint64_t offset, char *p, size_t n, struct err *e)
{
	memcpy(p, (const char *)arg + offset, n);
	return 0;
}

static int s3_put_text(struct s3 *s, const char *key, const char *text, struct backend_attempt *a, struct err *e)
{
	struct objects_body b = { .size = strlen(text), .read = s3_text_read, .arg = (void *)(uintptr_t)text };
	sha256_of(view_of(text), b.sha256);
	return s3_put(s, key, &b, a, e);
}

/* Whether the store keeps what is there. It is asked at the first put, and again if the answer did not come. */
static int s3_probe(struct s3 *s, const char *beside, struct backend_attempt *a, struct err *e)
{
	uint64_t number;
	const char *slash = strrchr(beside, '/');
	struct err ignored = { 0 };
	if (getrandom(&number, sizeof number, 0) != sizeof number)
		return err_set(e, ERR_INTERNAL, "the kernel gives no random bytes");
	char *key = xasprintf("%.*s" S3_PROBE "%016llx", slash ? (int)(slash + 1 - beside) : 0, beside, (unsigned long long)number);
	int rc = s3_put_text(s, key, "Pyrrha looks whether this store overwrites objects.", a, e);
	if (!rc) {
		rc = s3_put_text(s, key, "It does.", a, e);
		if (rc == -ERR_CONFLICT) {
			err_clear(e);
			rc = 0;
		} else if (!rc) {
			rc = err_set(e, ERR_EXECUTION, "S3 at %s overwrites an object though the put says If-None-Match: * (only if absent). Servers that share it could "
				     "overwrite each other's data, so it cannot be used", s->config->endpoint);
		}
		IGNORE(s3_remove_once(&s->base, key, a, &ignored)); /* what stays behind is an orphan */
	}
	free(key);
	if (!rc)
		atomic_store(&s->proven, true);
	return rc;
}

static int s3_put_once(struct backend *backend, const char *key, const struct objects_body *body, struct backend_attempt *a, struct err *e)
{
	struct s3 *s = s3_of(backend);
	if (!atomic_load(&s->proven)) {
		int rc = s3_probe(s, key, a, e);
		if (rc)
			return rc == -ERR_CONFLICT ? err_set(e, ERR_UNAVAILABLE, "another probe of this store had the same number") : rc;
	}
	return s3_put(s, key, body, a, e);
}

/* ---- get ---- */

/* The range that is being read. */
struct s3_range {
	struct s3_exchange *x;
	uint64_t offset, length;     /* wanted */
	uint64_t size, left;         /* of the object; of what is to come */
	int (*data)(void *arg, const char *p, size_t n, struct err *e);
	void *arg;
	uint64_t *ret_size;
	bool headed;
};

/* "bytes 0-9/100"; an answer to a range behind the end has "*" instead of "0-9". */
static bool s3_content_range(const char *text, uint64_t *first, uint64_t *last, uint64_t *size)
{
	struct view v = view_of(text);
	if (!view_starts(v, VIEW("bytes ")))
		return false;
	v = view_make(v.ptr + 6, v.len - 6);
	struct view range = view_cut(&v, '/');
	if (!num_parse_u64(v, size))
		return false;
	if (view_eqs(range, "*"))
		return *first = *last = 0, true;
	struct view begin = view_cut(&range, '-');
	return num_parse_u64(begin, first) && num_parse_u64(range, last) && *first <= *last && *last < *size;
}

/* Takes the size from the head of a good answer, and checks that the range is the one that was asked for. */
static int s3_range_head(struct s3_range *g, struct err *e)
{
	uint64_t first = 0, last = 0;
	const struct s3_exchange *x = g->x;
	if (x->status == 206) {
		if (!s3_content_range(x->headers[S3_CONTENT_RANGE], &first, &last, &g->size) || first != g->offset ||
		    last != MIN(g->length - 1, g->size - 1 - g->offset) + g->offset)
			return err_set(e, ERR_BAD_DATA, "S3 answered a get of %s with another range than the one that was asked for", x->key);
		g->left = last - first + 1;
	} else {
		if (x->status != 200 || !num_parse_u64(view_of(x->headers[S3_CONTENT_LENGTH]), &g->size))
			return err_set(e, ERR_BAD_DATA, "S3 answered a get of %s with %d, or without a length", x->key, x->status);
		if (g->offset)
			return err_set(e, ERR_BAD_DATA, "S3 answered a get of a range of %s with the whole object: this store, or a proxy, does not know ranges", x->key);
		g->left = MIN(g->size, g->length);
	}
	g->headed = true;
	*g->ret_size = g->size;
	return 0;
}

static int s3_range_data(void *arg, const char *p, size_t n, struct err *e)
{
	struct s3_range *g = arg;
	if (!p)
		return s3_range_head(g, e);
	n = MIN(n, g->left);
	for (size_t piece; n; n -= piece, p += piece) {
		piece = MIN(n, BACKEND_PIECE);
		int rc = g->data(g->arg, p, piece, e);
		if (rc)
			return rc;
		g->left -= piece;
	}
	g->x->ended = !g->left && g->x->status == 200 && g->size > g->length;
	return 0;
}

/* The range begins behind the end: there is the object's size to say. */
static int s3_get_behind(struct s3 *s, struct s3_range *g, struct backend_attempt *a, struct err *e)
{
	uint64_t first, last;
	int rc = 0;
	bool known = s3_content_range(g->x->headers[S3_CONTENT_RANGE], &first, &last, &g->size) || s3_error_size(buf_view(&g->x->body), &g->size);
	if (!known) {
		struct s3_exchange x = { .operation = S3_GET, .method = "HEAD", .key = g->x->key, .about = g->x->key, .query = "",
					 .content_sha256 = S3_EMPTY_SHA256, .max_bytes = S3_XML_MAX };
		rc = s3_exchange_run(s, &x, a, e);
		if (!rc && x.status == 404)
			rc = err_set(e, ERR_NOT_FOUND, "there is no object %s", x.key);
		else if (!rc && x.status != 200)
			rc = s3_exchange_refused(s, &x, a, e);
		else if (!rc && !num_parse_u64(view_of(x.headers[S3_CONTENT_LENGTH]), &g->size))
			rc = err_set(e, ERR_BAD_DATA, "S3 does not say the length of %s", x.key);
		s3_exchange_release(&x);
	}
	if (!rc && g->size > g->offset)
		rc = err_set(e, ERR_BAD_DATA, "S3 says that a range of %s begins behind its end, and that it does not", g->x->key);
	if (!rc)
		*g->ret_size = g->size;
	return rc;
}

static int s3_get_once(struct backend *backend, const char *key, uint64_t offset, uint64_t length,
		       int (*data)(void *arg, const char *p, size_t n, struct err *e), void *arg, uint64_t *ret_size, struct backend_attempt *a, struct err *e)
{
	struct s3 *s = s3_of(backend);
	char range[64];
	uint64_t last = length >= UINT64_MAX - offset ? UINT64_MAX : offset + length - 1;
	struct s3_exchange x = { .operation = S3_GET, .method = "GET", .key = key, .about = key, .query = "", .content_sha256 = S3_EMPTY_SHA256,
				 .max_bytes = UINT64_MAX / 2 };
	struct s3_range g = { .x = &x, .offset = offset, .length = length, .data = data, .arg = arg, .ret_size = ret_size };
	x.data = s3_range_data;
	x.arg = &g;
	if (last == UINT64_MAX)
		snprintf(range, sizeof range, "bytes=%llu-", (unsigned long long)offset);
	else
		snprintf(range, sizeof range, "bytes=%llu-%llu", (unsigned long long)offset, (unsigned long long)last);
	x.range = offset || last != UINT64_MAX ? range : NULL;
	int rc = s3_exchange_run(s, &x, a, e);
	if (!rc && x.status == 416)
		rc = s3_get_behind(s, &g, a, e);
	else if (!rc && !g.headed)
		rc = s3_exchange_refused(s, &x, a, e);
	else if (!rc && g.left)
		rc = err_set(e, ERR_UNAVAILABLE, "S3 cut its answer to a get of %s short, %llu bytes before the end", key, (unsigned long long)g.left);
	s3_exchange_release(&x);
	return rc;
}

/* ---- list ---- */

static int s3_list_page(struct backend *backend, const char *prefix, const char *after, struct backend_page *page, struct backend_attempt *a, struct err *e)
{
	struct s3 *s = s3_of(backend);
	struct buf query = { 0 };
	struct s3_exchange x = { .operation = S3_LIST, .method = "GET", .key = "", .about = *prefix ? prefix : "the bucket", .content_sha256 = S3_EMPTY_SHA256,
				 .max_bytes = S3_XML_MAX };
	s3_list_query(prefix, after, &query);
	x.query = query.ptr;
	int rc = s3_exchange_run(s, &x, a, e);
	if (!rc && x.status != 200)
		rc = s3_exchange_refused(s, &x, a, e);
	else if (!rc && s3_list_read(buf_view(&x.body), prefix, after, page, e))
		rc = err_wrap(e, "S3 at %s answered a list of %s", s->config->endpoint, x.about);
	s3_exchange_release(&x);
	buf_free(&query);
	return rc;
}

/* ---- making ---- */

static void s3_free(struct backend *backend)
{
	struct s3 *s = s3_of(backend);
	fetch_client_unref(s->client);
	credentials_free(s->credentials);
	s3_place_release(&s->place);
	free(s);
}

static const struct backend_ops s3_ops = {
	.kind = "s3", .put_once = s3_put_once, .get_once = s3_get_once, .list_page = s3_list_page, .remove_once = s3_remove_once, .free = s3_free,
};

int s3_new(struct backend **ret, const struct s3_config *c, const atomic_bool *stop, struct err *e)
{
	struct s3 *s = NEW(struct s3);
	s->base.ops = &s3_ops;
	s->config = c;
	int rc = s3_place_init(&s->place, c, e);
	if (rc) {
		s3_place_release(&s->place);
		free(s);
		return rc;
	}
	s->http = c->http;
	s->http.follow_redirects = false;
	s->http.enable_http2 = false; /* with HTTP/1.1 the end of a refused upload is the end of its connection; few requests run at once */
	s->client = fetch_client_new(&s->http, NULL);
	fetch_client_keep(s->client, S3_KEPT, c->idle_timeout_ms > 0 ? c->idle_timeout_ms : S3_IDLE_MS);
	s->credentials = credentials_new(c, stop);
	*ret = &s->base;
	return 0;
}
