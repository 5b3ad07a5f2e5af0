/* SPDX-License-Identifier: Apache-2.0 */
/* The seam within lib/bucket: one attempt of each operation, as a kind of store does it. bucket.c is above it: it checks keys, adds the prefix,
 * bounds how many attempts run at once and their bytes a second, and repeats an attempt whose error may pass.
 *
 * The code of an attempt's error says what follows:
 *	ERR_UNAVAILABLE, ERR_TIMEOUT, ERR_BUSY   may pass (5xx, 429, a reset, a time-out, no connection): tried again
 *	ERR_CONFLICT                             put: the key exists (412). bucket.c then compares the object's content
 *	ERR_NOT_FOUND                            get: there is no object of that key (not: no bucket of that name, which is ERR_DENIED)
 *	ERR_DENIED                               credentials or rights; the bucket does not exist
 *	ERR_LIMIT                                full, a quota, too large
 *	ERR_CANCELED                             *stop
 *	others                                   final
 * No message has a credential, a signature or a token in it; the key may be named. */
#ifndef PYRRHA_BUCKET_BACKEND_H
#define PYRRHA_BUCKET_BACKEND_H

#include "base/arena.h"
#include "base/vec.h"
#include "bucket/bucket.h"

#define BACKEND_PIECE ((size_t)256 << 10) /* bytes that read is asked for, or data gets, at most at a time */
#define BACKEND_PAGE 1000                 /* objects of a page at most */
#define BACKEND_KEY_MAX 1024              /* bytes of a full key: prefix, slash and key */

/* Beside an attempt. */
struct backend_attempt {
	const atomic_bool *stop; /* in: the attempt ends within a second of it turning true. NULL = never */
	int64_t silence_ms;      /* in: how long no byte may come or go; 0 = as configured */
	int64_t retry_after_ms;  /* out, of one that may pass: how long the store wants to be left alone; 0 = it does not say */
};

/* A page of a list. The caller zeroes it with backend_page_init. */
struct backend_page {
	struct arena arena;          /* holds the keys */
	VEC(struct objects_found) v; /* ascending; full keys as the store has them, also those that are not ours */
	bool more;                   /* objects follow after the last of v. Then v is not empty */
};
void backend_page_init(struct backend_page *p);
void backend_page_free(struct backend_page *p);
/* Adds a copy of x. ERR_CORRUPT: the page is full, or the key too long. */
int backend_page_add(struct backend_page *p, const struct objects_found *x, struct err *e) MUST_USE;

struct backend;

/* Keys are full keys of [A-Za-z0-9/._-], without empty segments and without "." and ".." as one; at most BACKEND_KEY_MAX bytes.
 * Any number of threads calls. read and data are called by the thread that called the operation, with at most BACKEND_PIECE bytes, and may
 * take seconds: they wait for the bytes a second that are allowed. That time counts for no time-out. An error of theirs ends the attempt and is
 * returned as it is. */
struct backend_ops {
	const char *kind; /* "s3", "filesystem": for messages */
	/* Stores the object durably, unless one of that key exists: ERR_CONFLICT. ERR_CORRUPT: the body does not have its size or hash. */
	int (*put_once)(struct backend *b, const char *key, const struct objects_body *body, struct backend_attempt *a, struct err *e);
	/* length is above 0; UINT64_MAX: to the end. *ret_size is set before data is called, to the size of the whole object. offset at or behind
	 * the end: 0 bytes and no error. An interruption after some bytes is ERR_UNAVAILABLE; the caller goes on from there. Never calls data with more
	 * than length bytes all together. */
	int (*get_once)(struct backend *b, const char *key, uint64_t offset, uint64_t length,
			int (*data)(void *arg, const char *p, size_t n, struct err *e), void *arg, uint64_t *ret_size, struct backend_attempt *a,
			struct err *e);
	/* The first objects whose key begins with prefix and is greater than after ("" = all). page was just initialised. */
	int (*list_page)(struct backend *b, const char *prefix, const char *after, struct backend_page *page, struct backend_attempt *a,
			 struct err *e);
	/* One that is not there is no error. */
	int (*remove_once)(struct backend *b, const char *key, struct backend_attempt *a, struct err *e);
	void (*free)(struct backend *b);
};

/* First member of a backend's own struct. */
struct backend {
	const struct backend_ops *ops;
};

/* The backends. c outlives them. stop is for what a backend does beside attempts (s3: fetching credentials). Return owned. */
int bucket_fs_new(struct backend **ret, const char *directory, struct err *e) MUST_USE;

/* How a bucket works over its backend; bucket_open takes it from the section, tests choose. */
struct bucket_settings {
	const char *prefix;
	int64_t requests;                      /* attempts at once */
	uint64_t upload_limit, download_limit; /* bytes a second; 0 = none */
	int attempts;                          /* of a call at most */
	int64_t first_wait_ms, longest_wait_ms; /* upper bounds of the waits between two: the first, and the longest that doubling leads to */
	int64_t patience_ms;                   /* no attempt begins later than this after a call's first failure */
	const atomic_bool *stop;               /* NULL = never */
};
extern const struct bucket_settings bucket_settings_default;
/* Takes the backend. Strings of s are copied. */
struct bucket *bucket_new(struct backend *b, const struct bucket_settings *s);

#endif
