/* SPDX-License-Identifier: Apache-2.0 */
/* The seam to an object store. It has only what every S3 has: put if there is none of that name, get of a range, list from a key on, and
 * delete. There is no compare-and-swap and no lock. lib/bucket implements it; tsdb knows this header alone.
 *
 * Keys are relative to the configured prefix and consist of [a-z0-9/.-]. No key is the folder of another one (a and a/b): some stores keep
 * objects as files. All calls block, come from any thread, retry by themselves what may pass (5xx, 429, resets, time-outs), and end soon
 * after the store was told to stop. No message has a credential in it. */
#ifndef PYRRHA_MODEL_OBJECTS_H
#define PYRRHA_MODEL_OBJECTS_H

#include <stdatomic.h>

#include "base/err.h"

#define OBJECTS_KEY_MAX 512
#define OBJECTS_HASH 32

/* The content of an object that is put. */
struct objects_body {
	uint64_t size;                 /* bytes */
	uint8_t sha256[OBJECTS_HASH];  /* of these bytes; the store refuses others */
	/* Copies n bytes from `offset` on to p. A retry begins at 0 again. Called by the thread that puts. */
	int (*read)(void *arg, uint64_t offset, char *p, size_t n, struct err *e);
	void *arg;
};

struct objects_found {
	const char *key;
	uint64_t size;                 /* bytes */
	int64_t modified_ms;           /* by the store's clock, since 1970 */
};

struct objects {
	/* Stores an object unless one of that key exists. 0: it is there durably, with exactly this content: it was made now, by an attempt
	 * whose answer was lost, or by somebody with the same content. ERR_CONFLICT: another content has this key. ERR_UNAVAILABLE,
	 * ERR_TIMEOUT: the store did not answer, and the object may be there or not. ERR_DENIED, ERR_LIMIT (full): as said. ERR_IO, ERR_CORRUPT:
	 * the body could not be read, or is not what its size and hash say. */
	int (*put)(struct objects *o, const char *key, const struct objects_body *b, struct err *e);
	/* Calls data with the bytes [offset, offset + length) in order; length UINT64_MAX: to the end. A range that passes the end is cut off
	 * there. *ret_size (may be NULL): of the whole object. An error of data ends it and is returned. After an interruption it goes on
	 * where it stopped, so data gets each byte once. ERR_NOT_FOUND: there is no such object. The bytes are what the store sent: the caller
	 * holds them against a hash. */
	int (*get)(struct objects *o, const char *key, uint64_t offset, uint64_t length, int (*data)(void *arg, const char *p, size_t n, struct err *e),
		   void *arg, uint64_t *ret_size, struct err *e);
	/* Calls found for each key that begins with prefix and is greater than after ("" = all), ascending by bytes. An error of found ends the
	 * list and is returned; a positive result of found ends it, and list returns 0. The list may be as things were a moment ago. */
	int (*list)(struct objects *o, const char *prefix, const char *after, int (*found)(void *arg, const struct objects_found *x, struct err *e),
		    void *arg, struct err *e);
	/* Deletes an object. One that is not there is no error. */
	int (*remove)(struct objects *o, const char *key, struct err *e);
	/* Set by the caller of these, for a start that others wait for: a store that is silent for so long has not answered, and is tried again once
	 * at most. 0 = as the store is configured. */
	_Atomic int64_t patience_ms;
};

#endif
