/* SPDX-License-Identifier: Apache-2.0 */
/* Objects as bytes in memory, and as files. Blocking; from any thread. */
#ifndef PYRRHA_TSDB_OBJECT_IO_H
#define PYRRHA_TSDB_OBJECT_IO_H

#include "base/buf.h"
#include "base/sha256.h"
#include "model/objects.h"
#include "tsdb/bucket/generation.h"

/* Puts these bytes. As objects.put. */
int object_io_put(struct objects *o, const char *name, struct view bytes, struct err *e) MUST_USE;
/* Appends all of an object. ERR_LIMIT: it has more than the buffer may hold. */
int object_io_get(struct objects *o, const char *name, struct buf *b, struct err *e) MUST_USE;
/* Appends a generation's object to b and decodes it, but for its series. What comes damaged is asked for again: bits flip on the way, too.
 * ERR_CORRUPT: it is damaged in the bucket. *ret is to be released in any case. */
int object_io_get_generation(struct objects *o, const char *name, struct buf *b, struct generation *ret, struct err *e) MUST_USE;
/* Puts a file of that size and hash. As objects.put. */
int object_io_put_file(struct objects *o, const char *name, const char *file, uint64_t size, const uint8_t sha256[SHA256_LEN], struct err *e) MUST_USE;
/* Fetches an object into a file, which is synced and then has exactly that size and hash; ERR_CORRUPT: the object has not. A file that was
 * begun goes on from its end (ret: what is there is held against the hash as well). After an error of the store what came stays. */
int object_io_get_file(struct objects *o, const char *name, const char *file, uint64_t size, const uint8_t sha256[SHA256_LEN], struct err *e) MUST_USE;

#endif
