/* SPDX-License-Identifier: Apache-2.0 */
/* A bucket in memory, for tests: it fails where a test says so, and counts requests. Several storages may use one at a time. */
#ifndef PYRRHA_TSDB_BUCKETKIT_H
#define PYRRHA_TSDB_BUCKETKIT_H

#include "base/lock.h"
#include "base/vec.h"
#include "model/objects.h"

enum bucketkit_fault {
	BUCKETKIT_NONE,
	BUCKETKIT_REFUSE,      /* nothing happens: ERR_UNAVAILABLE */
	BUCKETKIT_LOSE_ANSWER, /* it happens, and ERR_TIMEOUT is the answer */
	BUCKETKIT_DENY,        /* nothing happens: ERR_DENIED */
	BUCKETKIT_FULL,        /* the same: ERR_LIMIT */
	BUCKETKIT_LATE,        /* a put or a remove: ERR_TIMEOUT is the answer, and it happens some requests later */
	BUCKETKIT_STALE,       /* a list does not show the newest changes */
	BUCKETKIT_FLIP,        /* a get has one bit flipped */
	BUCKETKIT_CUT          /* a get ends half way: ERR_UNAVAILABLE */
};

enum bucketkit_op { BUCKETKIT_PUT, BUCKETKIT_GET, BUCKETKIT_LIST, BUCKETKIT_REMOVE, BUCKETKIT_OPS };

struct bucketkit_object {
	char *key;
	char *bytes;
	size_t n;
	int64_t modified_ms;
};

/* A put or a remove whose request is still on its way. */
struct bucketkit_late {
	char *key, *bytes;               /* bytes NULL: a remove */
	size_t n;
	unsigned requests;               /* it arrives before so many more */
};

/* A change that was made: what a stale list shows instead. */
struct bucketkit_change {
	char *key;
	bool was_there;
	size_t n;
	int64_t modified_ms;
};

struct bucketkit {
	struct objects objects;
	struct mutex lock;
	VEC(struct bucketkit_object) v;  /* by key */
	VEC(struct bucketkit_late) late;
	unsigned n_late;                 /* so many there were */
	VEC(struct bucketkit_change) changes; /* the newest ones, in their order */
	uint64_t requests[BUCKETKIT_OPS];
	bool away;                       /* each request is refused */
	const char *list_lacks;          /* lists leave out keys that begin so; NULL = none */
	/* The bucket calls it before each request, with the lock held, and injects the fault that it returns. NULL = no faults. */
	enum bucketkit_fault (*fault)(void *arg, enum bucketkit_op op, const char *key);
	void *fault_arg;
	/* Called before each request, without the lock; NULL = nothing. */
	void (*before)(void *arg, enum bucketkit_op op, const char *key);
	void *before_arg;
	int64_t (*now_ms)(void *arg);    /* of modified_ms; NULL = 0 */
	void *now_arg;
};

void bucketkit_init(struct bucketkit *b);
void bucketkit_free(struct bucketkit *b);
/* What is on its way arrives. */
void bucketkit_deliver(struct bucketkit *b);
/* How many keys begin so. */
size_t bucketkit_count(struct bucketkit *b, const char *prefix);

#endif
