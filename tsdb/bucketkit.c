/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/bucketkit.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/sha256.h"

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

static enum bucketkit_fault kit_begin(struct bucketkit *b, enum bucketkit_op op, const char *key) LOCKS_UNCHECKED
{
	if (b->before)
		b->before(b->before_arg, op, key);
	mutex_lock(&b->lock);
	b->requests[op]++;
	enum bucketkit_fault f = b->away ? BUCKETKIT_REFUSE : b->fault ? b->fault(b->fault_arg, op, key) : BUCKETKIT_NONE;
	return f;
}

static int kit_end(struct bucketkit *b, enum bucketkit_fault f, int rc, struct err *e) LOCKS_UNCHECKED
{
	mutex_unlock(&b->lock);
	if (f == BUCKETKIT_REFUSE)
		return err_set(e, ERR_UNAVAILABLE, "the test's bucket refuses");
	return f == BUCKETKIT_LOSE_ANSWER ? err_set(e, ERR_TIMEOUT, "the test's bucket loses an answer") : rc;
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
	struct bucketkit_object *x = kit_find(b, key);
	if (f == BUCKETKIT_REFUSE)
		free(bytes);
	else if (x) {
		if (x->n != body->size || memcmp(x->bytes, bytes, x->n))
			rc = err_set(e, ERR_CONFLICT, "%s exists", key);
		free(bytes);
	} else {
		size_t i = kit_place(b, key);
		struct bucketkit_object new = { xstrdup(key), bytes, body->size, b->now_ms ? b->now_ms(b->now_arg) : 0 };
		vec_push(&b->v, new);
		memmove(b->v.v + i + 1, b->v.v + i, (b->v.n - 1 - i) * sizeof *b->v.v);
		b->v.v[i] = new;
	}
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

static int kit_list(struct objects *o, const char *prefix, const char *after, int (*found)(void *arg, const struct objects_found *x, struct err *e),
		    void *arg, struct err *e)
{
	struct bucketkit *b = (struct bucketkit *)o;
	VEC(struct bucketkit_object) copy = { 0 };
	enum bucketkit_fault f = kit_begin(b, BUCKETKIT_LIST, prefix);
	for (size_t i = 0; i < b->v.n; i++)
		if (!strncmp(b->v.v[i].key, prefix, strlen(prefix)) && strcmp(b->v.v[i].key, after) > 0 &&
		    (!b->list_lacks || strncmp(b->v.v[i].key, b->list_lacks, strlen(b->list_lacks))))
			vec_push(&copy, (struct bucketkit_object){ xstrdup(b->v.v[i].key), NULL, b->v.v[i].n, b->v.v[i].modified_ms });
	int rc = kit_end(b, f, 0, e);
	for (size_t i = 0; i < copy.n && !rc; i++)
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
	struct bucketkit_object *x = kit_find(b, key);
	if (x && f != BUCKETKIT_REFUSE) {
		size_t i = (size_t)(x - b->v.v);
		free(x->key);
		free(x->bytes);
		memmove(x, x + 1, (b->v.n - 1 - i) * sizeof *x);
		b->v.n--;
	}
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
