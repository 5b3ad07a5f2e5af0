/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by both kinds of databases (head log, partitions): options that avoid the traps of RocksDB's C API, and its errors as struct
 * err. */
#ifndef PYRRHA_TSDB_ROCKS_H
#define PYRRHA_TSDB_ROCKS_H

#include <rocksdb/c.h>

#include "base/err.h"

/* Options both share: nothing preallocated, no info log (an ENOSPC while it writes its own log aborts the process), no
 * background work of its own accord. */
rocksdb_options_t *rocks_options(rocksdb_cache_t *cache);
/* The same for a file of many small values: larger blocks, and more work for zstd. */
rocksdb_options_t *rocks_options_small(void);
/* Takes an error of the library; frees it and sets it to NULL. Returns 0 if there is none. */
int rocks_err(char **error, struct err *e, const char *what, const char *path);
/* Not the file's fault (no space, no descriptors, nothing may be written): another time it may do. */
bool rocks_of_the_place(const struct err *e);

/* A copy of an open database, its files linked. */
int rocks_checkpoint(rocksdb_t *db, const char *dir, struct err *e) MUST_USE;

#endif
