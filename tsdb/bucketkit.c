/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/bucketkit.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/attrs.h"
#include "base/sha256.h"

#define STALE_CHANGES 6 /* that a stale list does not show */

struct bucketkit_list {
	struct bucketkit_object *v; /* without their bytes */
	size_t n, cap;
};

static size_t kit_place(const struct bucketkit *b, const char *key)
{
	size_t i = 0;
	while (i < b->v.n && strcmp(b->v.v[i].key, key) < 0)
		i++;
	return i;
}

static struct bucketkit_object *kit_find(struct bucketkit *b, const char *key)
{
	size_t i = kit_place(b, key);
	return i < b->v.n && !strcmp(b->v.v[i].key, key) ? &b->v.v[i] : NULL;
}

/* ---- changes ---- */

static void kit_note_change(struct bucketkit *b, const char *key, const struct bucketkit_object *was)
{
	struct bucketkit_change c = { .key = xstrdup(key), .was_there = was != NULL };
	if (was) {
		c.n = was->n;
		c.modified_ms = was->modified_ms;
	}
	if (b->changes.n == STALE_CHANGES) {
		free(b->changes.v[0].key);
		memmove(b->changes.v, b->changes.v + 1, (b->changes.n - 1) * sizeof *b->changes.v);
		b->changes.n--;
	}
	vec_push(&b->changes, c);
}

/* Takes the bytes. false: another content has this key. */
static bool kit_change_put(struct bucketkit *b, const char *key, char *bytes, size_t n)
{
	struct bucketkit_object *x = kit_find(b, key);
	if (x) {
		bool same = x->n == n && !memcmp(x->bytes, bytes, n);
		free(bytes);
		return same;
	}
	size_t i = kit_place(b, key);
	struct bucketkit_object new = { xstrdup(key), bytes, n, b->now_ms ? b->now_ms(b->now_arg) : 0 };
	kit_note_change(b, key, NULL);
	vec_push(&b->v, new);
	memmove(b->v.v + i + 1, b->v.v + i, (b->v.n - 1 - i) * sizeof *b->v.v);
	b->v.v[i] = new;
	return true;
}

static void kit_change_remove(struct bucketkit *b, const char *key)
{
	struct bucketkit_object *x = kit_find(b, key);
	if (!x)
		return;
	size_t i = (size_t)(x - b->v.v);
	kit_note_change(b, key, x);
	free(x->key);
	free(x->bytes);
	memmove(x, x + 1, (b->v.n - 1 - i) * sizeof *x);
	b->v.n--;
}

static void kit_change_later(struct bucketkit *b, const char *key, char *bytes, size_t n)
{
	vec_push(&b->late, (struct bucketkit_late){ xstrdup(key), bytes, n, 1 + (unsigned)(b->n_late++ * 7 % 23) });
}

/* Those that have waited for their number of requests. */
static void kit_deliver(struct bucketkit *b, bool all)
{
	size_t n = 0;
	for (size_t i = 0; i < b->late.n; i++) {
		struct bucketkit_late l = b->late.v[i];
		if (!all && --l.requests) {
			b->late.v[n++] = l;
			continue;
		}
		if (l.bytes)
			IGNORE(kit_change_put(b, l.key, l.bytes, l.n)); /* who sent it has gone */
		else
			kit_change_remove(b, l.key);
		free(l.key);
	}
	b->late.n = n;
}

void bucketkit_deliver(struct bucketkit *b)
{
	mutex_lock(&b->lock);
	kit_deliver(b, true);
	mutex_unlock(&b->lock);
}

/* ---- requests ---- */

static enum bucketkit_fault kit_begin(struct bucketkit *b, enum bucketkit_op op, const char *key) LOCKS_UNCHECKED
{
	if (b->before)
		b->before(b->before_arg, op, key);
	mutex_lock(&b->lock);
	b->requests[op]++;
	enum bucketkit_fault f = b->away ? BUCKETKIT_REFUSE : b->fault ? b->fault(b->fault_arg, op, key) : BUCKETKIT_NONE;
	kit_deliver(b, false);
	return f;
}

/* Whether nothing happens, now. */
static bool kit_is_refused(enum bucketkit_fault f)
{
	return f == BUCKETKIT_REFUSE || f == BUCKETKIT_DENY || f == BUCKETKIT_FULL || f == BUCKETKIT_LATE;
}

static int kit_end(struct bucketkit *b, enum bucketkit_fault f, int rc, struct err *e) LOCKS_UNCHECKED
{
	mutex_unlock(&b->lock);
	switch (f) {
	case BUCKETKIT_REFUSE:
		return err_set(e, ERR_UNAVAILABLE, "the test's bucket refuses");
	case BUCKETKIT_DENY:
		return err_set(e, ERR_DENIED, "the test's bucket is read-only");
	case BUCKETKIT_FULL:
		return err_set(e, ERR_LIMIT, "the test's bucket is full");
	case BUCKETKIT_LATE:
	case BUCKETKIT_LOSE_ANSWER:
		return err_set(e, ERR_TIMEOUT, "the test's bucket loses an answer");
	default:
		return rc;
	}
}

static int kit_put(struct objects *o, const char *key, const struct objects_body *body, struct err *e)
{
	struct bucketkit *b = (struct bucketkit *)o;
	char *bytes = xmalloc(body->size + 1);
	uint8_t hash[SHA256_LEN];
	int rc = body->read(body->arg, 0, bytes, body->size, e);
	sha256_of(view_make(bytes, body->size), hash);
	if (!rc && memcmp(hash, body->sha256, SHA256_LEN))
		rc = err_set(e, ERR_CORRUPT, "the body of %s is not what its hash says", key);
	if (rc) {
		free(bytes);
		return rc;
	}
	enum bucketkit_fault f = kit_begin(b, BUCKETKIT_PUT, key);
	if (f == BUCKETKIT_LATE)
		kit_change_later(b, key, bytes, (size_t)body->size);
	else if (kit_is_refused(f))
		free(bytes);
	else if (!kit_change_put(b, key, bytes, (size_t)body->size))
		rc = err_set(e, ERR_CONFLICT, "%s exists", key);
	return kit_end(b, f, rc, e);
}

static int kit_get(struct objects *o, const char *key, uint64_t offset, uint64_t length, int (*data)(void *arg, const char *p, size_t n, struct err *e),
		   void *arg, uint64_t *ret_size, struct err *e)
{
	struct bucketkit *b = (struct bucketkit *)o;
	enum bucketkit_fault f = kit_begin(b, BUCKETKIT_GET, key);
	struct bucketkit_object *x = kit_find(b, key);
	char *copy = NULL;
	size_t n = 0;
	int rc = 0;
	if (!x)
		rc = err_set(e, ERR_NOT_FOUND, "%s is not there", key);
	else {
		offset = MIN(offset, (uint64_t)x->n);
		n = (size_t)MIN(length, x->n - offset);
		copy = xmalloc(n + 1);
		memcpy(copy, x->bytes + offset, n);
		if (ret_size)
			*ret_size = x->n;
	}
	if (f == BUCKETKIT_FLIP && n)
		copy[n / 2] ^= 4;
	rc = kit_end(b, f == BUCKETKIT_LOSE_ANSWER ? BUCKETKIT_REFUSE : f, rc, e);
	for (size_t at = 0, piece; at < n && !rc; at += piece) {
		piece = MIN(n - at, (size_t)65536);
		if (f == BUCKETKIT_CUT && at + piece > n / 2)
			rc = err_set(e, ERR_UNAVAILABLE, "the test's bucket ends half way");
		else
			rc = data(arg, copy + at, piece, e);
	}
	free(copy);
	return rc;
}

/* Before so many of the newest changes. */
static void kit_list_stale(struct bucketkit *b, struct bucketkit_list *l)
{
	for (size_t i = b->changes.n; i--;) {
		const struct bucketkit_change *c = &b->changes.v[i];
		size_t at = 0;
		while (at < l->n && strcmp(l->v[at].key, c->key) < 0)
			at++;
		if (c->was_there) {
			vec_push(l, (struct bucketkit_object){ 0 });
			memmove(l->v + at + 1, l->v + at, (l->n - 1 - at) * sizeof *l->v);
			l->v[at] = (struct bucketkit_object){ xstrdup(c->key), NULL, c->n, c->modified_ms };
		} else if (at < l->n && !strcmp(l->v[at].key, c->key)) {
			free(l->v[at].key);
			memmove(l->v + at, l->v + at + 1, (l->n - 1 - at) * sizeof *l->v);
			l->n--;
		}
	}
}

static int kit_list(struct objects *o, const char *prefix, const char *after, int (*found)(void *arg, const struct objects_found *x, struct err *e),
		    void *arg, struct err *e)
{
	struct bucketkit *b = (struct bucketkit *)o;
	struct bucketkit_list copy = { 0 };
	enum bucketkit_fault f = kit_begin(b, BUCKETKIT_LIST, prefix);
	for (size_t i = 0; i < b->v.n; i++)
		if (!b->list_lacks || strncmp(b->v.v[i].key, b->list_lacks, strlen(b->list_lacks)))
			vec_push(&copy, (struct bucketkit_object){ xstrdup(b->v.v[i].key), NULL, b->v.v[i].n, b->v.v[i].modified_ms });
	if (f == BUCKETKIT_STALE)
		kit_list_stale(b, &copy);
	int rc = kit_end(b, f, 0, e);
	for (size_t i = 0; i < copy.n && !rc; i++)
		if (!strncmp(copy.v[i].key, prefix, strlen(prefix)) && strcmp(copy.v[i].key, after) > 0)
			rc = found(arg, &(struct objects_found){ copy.v[i].key, copy.v[i].n, copy.v[i].modified_ms }, e);
	for (size_t i = 0; i < copy.n; i++)
		free(copy.v[i].key);
	vec_free(&copy);
	return MIN(rc, 0);
}

static int kit_remove(struct objects *o, const char *key, struct err *e)
{
	struct bucketkit *b = (struct bucketkit *)o;
	enum bucketkit_fault f = kit_begin(b, BUCKETKIT_REMOVE, key);
	if (f == BUCKETKIT_LATE)
		kit_change_later(b, key, NULL, 0);
	else if (!kit_is_refused(f))
		kit_change_remove(b, key);
	return kit_end(b, f, 0, e);
}

void bucketkit_init(struct bucketkit *b)
{
	*b = (struct bucketkit){ .objects = { kit_put, kit_get, kit_list, kit_remove } };
	mutex_init(&b->lock, LOCK_LEAF, "test bucket");
}

void bucketkit_free(struct bucketkit *b)
{
	for (size_t i = 0; i < b->v.n; i++) {
		free(b->v.v[i].key);
		free(b->v.v[i].bytes);
	}
	vec_free(&b->v);
	for (size_t i = 0; i < b->late.n; i++) {
		free(b->late.v[i].key);
		free(b->late.v[i].bytes);
	}
	vec_free(&b->late);
	for (size_t i = 0; i < b->changes.n; i++)
		free(b->changes.v[i].key);
	vec_free(&b->changes);
	mutex_destroy(&b->lock);
}

size_t bucketkit_count(struct bucketkit *b, const char *prefix)
{
	size_t n = 0;
	mutex_lock(&b->lock);
	for (size_t i = 0; i < b->v.n; i++)
		n += !strncmp(b->v.v[i].key, prefix, strlen(prefix));
	mutex_unlock(&b->lock);
	return n;
}
