/* SPDX-License-Identifier: Apache-2.0 */
/* The part that all kinds of stores share: keys are checked and prefixed, an attempt whose error may pass is repeated, attempts at once and bytes a
 * second are bounded, and a put that meets an object of its name compares the contents.
 *
 *	put, get, list, remove ─► bucket_call: [place ─► attempt of the backend] ─► error that may pass ─► wait ─► again
 *
 * The wait before attempt n is random between nothing and first_wait_ms doubled n times (full jitter: callers that failed together do not
 * come back together), or as long as the store asked for. A get that brought bytes has begun anew: its failures are forgotten, so that a large
 * object arrives over a bad line. Runs on the caller's thread. */
#include "bucket/bucket.h"

#include <stdio.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "base/sha256.h"
#include "bucket/backend.h"
#include "bucket/s3.h"
#include "bucket/throttle.h"

#define PROGRESS ((uint64_t)64 << 10) /* bytes of an attempt that let a get begin anew */

const struct bucket_settings bucket_settings_default = {
	.prefix = "", .requests = 16, .attempts = 5, .first_wait_ms = 200, .longest_wait_ms = 10000, .patience_ms = 60000,
};

struct bucket {
	struct objects objects; /* first: its functions get this address */
	struct backend *backend;
	struct bucket_settings settings;
	char *prefix;           /* "" or "a/b/" */
	struct throttle up, down;
	struct throttle_places places;
};

enum { M_REQUESTS, M_RETRIES, M_BYTES, M_SECONDS };

static struct metric bucket_metrics[] = {
	[M_REQUESTS] = { "pyrrha_object_storage_requests_total", "Requests to the object store, by operation and result.", METRIC_COUNTER,
			 "operation,result" },
	[M_RETRIES] = { "pyrrha_object_storage_retries_total", "Requests that were repeated after a failure that may pass.", METRIC_COUNTER, "operation" },
	[M_BYTES] = { "pyrrha_object_storage_bytes_total", "Bytes of objects, also of requests that failed.", METRIC_COUNTER, "direction" },
	[M_SECONDS] = { "pyrrha_object_storage_request_duration_seconds", "How long requests took, with the waits of the limits of bytes.",
			METRIC_HISTOGRAM, "operation" },
};

void bucket_register_metrics(void)
{
	metrics_register(bucket_metrics, ARRAY_LEN(bucket_metrics));
}

/* ---- keys ---- */

static bool bucket_key_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '/' || c == '.' || c == '-';
}

static bool bucket_key_chars(struct view key)
{
	for (size_t i = 0; i < key.len; i++)
		if (!bucket_key_char(key.ptr[i]))
			return false;
	return key.len <= OBJECTS_KEY_MAX;
}

/* Whether stores of all kinds can have an object of this name. */
static bool bucket_key_valid(struct view key)
{
	for (size_t at = 0; at <= key.len;) {
		const char *slash = memchr(key.ptr + at, '/', key.len - at);
		struct view part = view_make(key.ptr + at, slash ? (size_t)(slash - key.ptr) - at : key.len - at);
		if (!part.len || view_eqs(part, ".") || view_eqs(part, ".."))
			return false;
		at += part.len + 1;
	}
	return bucket_key_chars(key);
}

/* Whether keys can begin so: its parts, but for the last one, are parts of a key. */
static bool bucket_prefix_valid(struct view prefix)
{
	size_t n = prefix.len;
	while (n && prefix.ptr[n - 1] != '/')
		n--;
	return bucket_key_chars(prefix) && (!n || bucket_key_valid(view_make(prefix.ptr, n - 1)));
}

static int bucket_bad_key(const char *key, struct err *e)
{
	return err_set(e, ERR_BAD_DATA, "\"%.*s\" is no key of an object: one has parts of [a-z0-9.-] between slashes, at most %d bytes",
		       (int)MIN(strlen(key), (size_t)80), key, OBJECTS_KEY_MAX);
}

/* ---- calls ---- */

enum bucket_operation { BUCKET_PUT, BUCKET_GET, BUCKET_LIST, BUCKET_REMOVE };
static const char *const operation_names[] = { "put", "get", "list", "remove" };

/* A call of the seam while it runs, or a page of a list. */
struct bucket_call {
	struct bucket *b;
	enum bucket_operation operation;
	char key[BACKEND_KEY_MAX + 1];   /* of the object, behind the configured prefix; of a list, what its keys begin with */
	int failures;                    /* attempts in a row that may have passed */
	int64_t failed_ms;               /* of clock_mono_ms(): the first of these */
	struct err own;                  /* code above 0: the error of the caller's callback, which ends the call */
	/* put */
	const struct objects_body *body;
	/* get */
	uint64_t offset, length;         /* what was asked for */
	uint64_t got;                    /* bytes of it that data has */
	uint64_t size;                   /* of the object */
	bool sized;                      /* size was said by an earlier attempt */
	int (*data)(void *arg, const char *p, size_t n, struct err *e);
	void *arg;
	/* list */
	char after[BACKEND_KEY_MAX + 1]; /* full */
	struct backend_page *page;
};

static void bucket_call_init(struct bucket_call *c, struct bucket *b, enum bucket_operation operation, const char *key)
{
	c->b = b;
	c->operation = operation;
	snprintf(c->key, sizeof c->key, "%s%s", b->prefix, key);
}

static const char *bucket_result(int rc)
{
	switch (-rc) {
	case 0:
		return "ok";
	case ERR_CONFLICT:
		return "exists";
	case ERR_NOT_FOUND:
		return "not_found";
	case ERR_DENIED:
		return "denied";
	case ERR_LIMIT:
		return "full";
	case ERR_TIMEOUT:
		return "timeout";
	case ERR_UNAVAILABLE:
	case ERR_BUSY:
		return "unavailable";
	case ERR_CANCELED:
		return "canceled";
	default:
		return "failed";
	}
}

static bool bucket_may_pass(int rc)
{
	return rc == -ERR_UNAVAILABLE || rc == -ERR_TIMEOUT || rc == -ERR_BUSY;
}

static int64_t bucket_jitter_ms(const struct bucket_settings *s, int failures)
{
	int64_t most = s->first_wait_ms;
	uint64_t random = 0;
	for (int i = 1; i < failures && most < s->longest_wait_ms; i++)
		most *= 2;
	most = MIN(most, s->longest_wait_ms);
	if (getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random)
		random = (uint64_t)clock_mono_ns(); /* early at boot */
	return (int64_t)(random % ((uint64_t)most + 1));
}

/* After an attempt that failed with rc: waits and returns 0 if another one is to follow, else the error that the call ends with. */
static int bucket_call_wait(struct bucket_call *c, int rc, const struct backend_attempt *a, struct err *e)
{
	const struct bucket_settings *s = &c->b->settings;
	int64_t patience = atomic_load(&c->b->objects.patience_ms);
	patience = patience ? MIN(patience, s->patience_ms) : s->patience_ms;
	if (!bucket_may_pass(rc))
		return rc;
	int64_t now = clock_mono_ms();
	if (!c->failures++)
		c->failed_ms = now;
	int64_t wait = MAX(bucket_jitter_ms(s, c->failures), a->retry_after_ms);
	if (c->failures >= s->attempts || wait > patience - (now - c->failed_ms))
		return rc;
	metric_add(&bucket_metrics[M_RETRIES], 1, operation_names[c->operation]);
	return throttle_sleep_ms(s->stop, wait, e);
}

/* One attempt, in a place of its own. */
static int bucket_call_attempt(struct bucket_call *c, int (*once)(struct bucket_call *c, struct backend_attempt *a, struct err *e),
			       struct backend_attempt *a, struct err *e)
{
	const char *name = operation_names[c->operation];
	int rc = throttle_places_enter(&c->b->places, c->b->settings.stop, e);
	if (rc)
		return rc;
	int64_t begin = clock_mono_ns();
	rc = once(c, a, e);
	throttle_places_leave(&c->b->places);
	metric_observe(&bucket_metrics[M_SECONDS], (double)(clock_mono_ns() - begin) / 1e9, name);
	metric_add(&bucket_metrics[M_REQUESTS], 1, name, bucket_result(rc));
	return rc;
}

/* The attempts of a call: until one succeeds, or fails in a way that does not pass. e is not NULL. */
static int bucket_call(struct bucket_call *c, int (*once)(struct bucket_call *c, struct backend_attempt *a, struct err *e), struct err *e)
{
	for (;;) {
		struct backend_attempt a = { .stop = c->b->settings.stop, .silence_ms = atomic_load(&c->b->objects.patience_ms) };
		err_clear(e);
		int rc = bucket_call_attempt(c, once, &a, e);
		if (c->own.code) {
			*e = c->own;
			return -(int)c->own.code;
		}
		if (!rc)
			return 0;
		rc = bucket_call_wait(c, rc, &a, e);
		if (rc)
			return rc;
	}
}

/* Notes an error that comes from this side of the backend: the call ends with it, whatever the backend makes of it. */
static int bucket_own(struct bucket_call *c, int rc, const struct err *e)
{
	if (rc && !c->own.code) {
		c->own = *e;
		c->own.code = rc < 0 ? (enum err_code)-rc : ERR_INTERNAL;
	}
	return rc;
}

/* ---- get ---- */

static int bucket_get_data(void *arg, const char *p, size_t n, struct err *e)
{
	struct bucket_call *c = arg;
	int rc = throttle_pass(&c->b->down, n, c->b->settings.stop, e);
	if (!rc && n > c->length - c->got)
		rc = err_set(e, ERR_CORRUPT, "%s: the store sent more bytes than it was asked for", c->key);
	if (!rc)
		rc = c->data(c->arg, p, n, e);
	c->got += n;
	metric_add(&bucket_metrics[M_BYTES], (double)n, "received");
	return bucket_own(c, rc, e);
}

/* How many bytes of an object of that size were asked for. */
static uint64_t bucket_get_wanted(const struct bucket_call *c, uint64_t size)
{
	return c->offset < size ? MIN(c->length, size - c->offset) : 0;
}

static int bucket_get_once(struct bucket_call *c, struct backend_attempt *a, struct err *e)
{
	const struct backend_ops *ops = c->b->backend->ops;
	uint64_t size = c->size, before = c->got;
	uint64_t left = c->length == UINT64_MAX ? UINT64_MAX : c->length - c->got;
	int rc = ops->get_once(c->b->backend, c->key, c->offset + c->got, left, bucket_get_data, c, &size, a, e);
	if (c->got - before >= PROGRESS)
		c->failures = 0;
	if (rc && !(bucket_may_pass(rc) && c->got > before))
		return rc;
	if (c->sized && size != c->size)
		return err_set(e, ERR_CORRUPT, "%s: the object has another size than a moment ago", c->key);
	c->size = size;
	c->sized = true;
	if (c->got == bucket_get_wanted(c, size))
		return 0; /* also if the connection broke behind the last byte */
	return rc ? rc : err_set(e, ERR_UNAVAILABLE, "%s: the object was sent in part", c->key);
}

static int bucket_get_nothing(void *arg, const char *p, size_t n, struct err *e)
{
	(void)arg, (void)p, (void)n, (void)e;
	return 0;
}

/* key is a valid one. e is not NULL. */
static int bucket_get_range(struct bucket *b, const char *key, uint64_t offset, uint64_t length,
			    int (*data)(void *arg, const char *p, size_t n, struct err *e), void *arg, uint64_t *ret_size, struct err *e)
{
	struct bucket_call c = { .offset = offset, .length = length, .data = data, .arg = arg };
	bucket_call_init(&c, b, BUCKET_GET, key);
	if (!length) { /* no store has a range of nothing: whether the object is there, and its size */
		c.length = 1;
		c.data = bucket_get_nothing;
	}
	int rc = bucket_call(&c, bucket_get_once, e);
	if (!rc && ret_size)
		*ret_size = c.size;
	return rc;
}

static int bucket_objects_get(struct objects *o, const char *key, uint64_t offset, uint64_t length,
			      int (*data)(void *arg, const char *p, size_t n, struct err *e), void *arg, uint64_t *ret_size, struct err *e)
{
	struct err own = { 0 };
	e = e ? e : &own;
	if (!bucket_key_valid(view_of(key)))
		return bucket_bad_key(key, e);
	return bucket_get_range((struct bucket *)o, key, offset, length, data, arg, ret_size, e);
}

/* ---- put ---- */

static int bucket_put_read(void *arg, uint64_t offset, char *p, size_t n, struct err *e)
{
	struct bucket_call *c = arg;
	int rc = throttle_pass(&c->b->up, n, c->b->settings.stop, e);
	if (!rc)
		rc = c->body->read(c->body->arg, offset, p, n, e);
	if (!rc)
		metric_add(&bucket_metrics[M_BYTES], (double)n, "sent");
	return bucket_own(c, rc, e);
}

/* What an object is compared with. */
struct bucket_compare {
	const struct objects_body *body;
	uint64_t n; /* bytes so far */
	struct sha256 hash;
};

/* Ends the get of an object that is longer, whose rest need not be read. */
static int bucket_compare_data(void *arg, const char *p, size_t n, struct err *e)
{
	struct bucket_compare *x = arg;
	x->n += n;
	if (x->n > x->body->size)
		return err_set(e, ERR_CONFLICT, "longer");
	sha256_add(&x->hash, p, n);
	return 0;
}

/* The key exists: 0 if with the same content. -ERR_NOT_FOUND: it does not exist any more. */
static int bucket_compare(struct bucket *b, const char *key, const struct objects_body *body, struct err *e)
{
	struct bucket_compare x = { .body = body };
	uint8_t hash[SHA256_LEN];
	sha256_begin(&x.hash);
	int rc = bucket_get_range(b, key, 0, UINT64_MAX, bucket_compare_data, &x, NULL, e);
	sha256_end(&x.hash, hash);
	if (rc == -ERR_CONFLICT || (!rc && (x.n != body->size || memcmp(hash, body->sha256, sizeof hash) != 0)))
		return err_set(e, ERR_CONFLICT, "%s%s: an object with another content has this key", b->prefix, key);
	return rc && rc != -ERR_NOT_FOUND ? err_wrap(e, "%s%s exists, and is to be compared", b->prefix, key) : rc;
}

static int bucket_put_once(struct bucket_call *c, struct backend_attempt *a, struct err *e)
{
	struct objects_body body = { .size = c->body->size, .read = bucket_put_read, .arg = c };
	memcpy(body.sha256, c->body->sha256, sizeof body.sha256);
	return c->b->backend->ops->put_once(c->b->backend, c->key, &body, a, e);
}

static int bucket_objects_put(struct objects *o, const char *key, const struct objects_body *body, struct err *e)
{
	struct bucket *b = (struct bucket *)o;
	struct err own = { 0 };
	e = e ? e : &own;
	if (!bucket_key_valid(view_of(key)))
		return bucket_bad_key(key, e);
	struct bucket_call c = { .body = body };
	bucket_call_init(&c, b, BUCKET_PUT, key);
	for (;;) {
		int rc = bucket_call(&c, bucket_put_once, e);
		if (rc != -ERR_CONFLICT || c.own.code)
			return rc;
		rc = bucket_compare(b, key, body, e);
		if (rc != -ERR_NOT_FOUND)
			return rc;
		/* Somebody removed it in between: the name is free for another attempt. */
		rc = err_set(e, ERR_UNAVAILABLE, "%s: the store says that the object exists, and that it does not", c.key);
		rc = bucket_call_wait(&c, rc, &(struct backend_attempt){ 0 }, e);
		if (rc)
			return rc;
	}
}

/* ---- list ---- */

static int bucket_list_once(struct bucket_call *c, struct backend_attempt *a, struct err *e)
{
	backend_page_free(c->page); /* of an attempt that failed */
	backend_page_init(c->page);
	return c->b->backend->ops->list_page(c->b->backend, c->key, c->after, c->page, a, e);
}

/* Hands the objects of a page on, and notes where the next page begins. Keys that this program does not make are passed over. A positive
 * result: no more are wanted. */
static int bucket_list_page(struct bucket_call *c, int (*found)(void *arg, const struct objects_found *x, struct err *e), void *arg, struct err *e)
{
	struct view prefix = view_of(c->key);
	size_t skip = strlen(c->b->prefix);
	int rc = 0;
	for (size_t i = 0; i < c->page->v.n && !rc; i++) {
		struct objects_found x = c->page->v.v[i];
		if (!view_starts(view_of(x.key), prefix) || strcmp(x.key, c->after) <= 0)
			return err_set(e, ERR_CORRUPT, "the store's list is not in order, or has keys that were not asked for; buckets that list without "
				       "an order (S3 Express) cannot be used");
		snprintf(c->after, sizeof c->after, "%s", x.key);
		x.key += skip;
		if (bucket_key_valid(view_of(x.key)))
			rc = found(arg, &x, e);
	}
	if (!rc && c->page->more && !c->page->v.n)
		return err_set(e, ERR_CORRUPT, "the store's list has an empty page before its end");
	return rc;
}

static int bucket_objects_list(struct objects *o, const char *prefix, const char *after,
			       int (*found)(void *arg, const struct objects_found *x, struct err *e), void *arg, struct err *e)
{
	struct bucket *b = (struct bucket *)o;
	struct backend_page page;
	struct err own = { 0 };
	e = e ? e : &own;
	if (!bucket_prefix_valid(view_of(prefix)) || !bucket_key_chars(view_of(after)))
		return bucket_bad_key(bucket_prefix_valid(view_of(prefix)) ? after : prefix, e);
	struct bucket_call c = { .page = &page };
	bucket_call_init(&c, b, BUCKET_LIST, prefix);
	if (*after)
		snprintf(c.after, sizeof c.after, "%s%s", b->prefix, after);
	backend_page_init(&page);
	int rc;
	do {
		c.failures = 0;
		rc = bucket_call(&c, bucket_list_once, e);
		if (!rc)
			rc = bucket_list_page(&c, found, arg, e);
	} while (!rc && page.more);
	backend_page_free(&page);
	return rc > 0 ? 0 : rc;
}

/* ---- remove ---- */

static int bucket_remove_once(struct bucket_call *c, struct backend_attempt *a, struct err *e)
{
	return c->b->backend->ops->remove_once(c->b->backend, c->key, a, e);
}

static int bucket_objects_remove(struct objects *o, const char *key, struct err *e)
{
	struct err own = { 0 };
	struct bucket_call c = { 0 };
	e = e ? e : &own;
	if (!bucket_key_valid(view_of(key)))
		return bucket_bad_key(key, e);
	bucket_call_init(&c, (struct bucket *)o, BUCKET_REMOVE, key);
	return bucket_call(&c, bucket_remove_once, e);
}

/* ---- the bucket ---- */

struct bucket *bucket_new(struct backend *backend, const struct bucket_settings *s)
{
	struct bucket *b = NEW(struct bucket);
	b->objects = (struct objects){ .put = bucket_objects_put, .get = bucket_objects_get, .list = bucket_objects_list,
				       .remove = bucket_objects_remove };
	b->backend = backend;
	b->settings = *s;
	b->settings.prefix = b->prefix = s->prefix[0] ? xasprintf("%s/", s->prefix) : xstrdup("");
	throttle_init(&b->up, s->upload_limit);
	throttle_init(&b->down, s->download_limit);
	throttle_places_init(&b->places, s->requests);
	return b;
}

int bucket_open(struct bucket **ret, const struct bucket_config *c, const atomic_bool *stop, struct err *e)
{
	struct bucket_settings s = bucket_settings_default;
	struct backend *backend = NULL;
	int rc = c->type == BUCKET_S3	       ? s3_new(&backend, &c->s3, stop, e)
		 : c->type == BUCKET_FILESYSTEM ? bucket_fs_new(&backend, c->directory, e)
						: err_set(e, ERR_BAD_DATA, "no object storage is configured");
	if (rc)
		return rc;
	s.prefix = c->prefix;
	s.requests = c->requests;
	s.upload_limit = c->upload_limit;
	s.download_limit = c->download_limit;
	s.stop = stop;
	*ret = bucket_new(backend, &s);
	return 0;
}

struct objects *bucket_objects(struct bucket *b)
{
	return &b->objects;
}

void bucket_free(struct bucket *b)
{
	if (!b)
		return;
	b->backend->ops->free(b->backend);
	throttle_destroy(&b->up);
	throttle_destroy(&b->down);
	throttle_places_destroy(&b->places);
	free(b->prefix);
	free(b);
}
