/* SPDX-License-Identifier: Apache-2.0 */
/* Rebuilds a log with a damaged file, be it data or the list of files (CURRENT, MANIFEST), from everything readable. */
#ifndef PYRRHA_TSDB_LOG_REPAIR_H
#define PYRRHA_TSDB_LOG_REPAIR_H

#include "base/view.h"
#include "tsdb/disk/rocks.h"

/* The decision about a key and its value: it is not needed or not intact; it goes into the new log; or it voids all other values of
 * that key. */
enum log_repair_verdict { LOG_REPAIR_PASS, LOG_REPAIR_TAKE, LOG_REPAIR_VOID };
typedef enum log_repair_verdict log_repair_judge(void *arg, const char *key, size_t len, struct view value);

/* Behind it is a time: the directory beside the log that keeps those of its files that could not be read wholly. */
#define LOG_REPAIR_BAD ".bad-"

/* path: the database's directory, which is not open. synced: the last record that is known to have been durable. Afterwards there is a new
 * database with o, synced; after an error, or a crash at any time, the old one is there unchanged. Files that could not be read wholly stay in
 * path.bad-STAMP. */
int log_repair(rocksdb_options_t *o, const char *path, log_repair_judge *judge, void *arg, uint64_t synced, struct err *e) MUST_USE;
/* The same where nothing can be written: o has an environment in memory, in which *ret is made. */
int log_repair_in_memory(rocksdb_options_t *o, const char *path, log_repair_judge *judge, void *arg, uint64_t synced,
			 rocksdb_t **ret, struct err *e) MUST_USE;
/* Before path is opened: ends or takes back what a crash cut short. */
int log_repair_finish(const char *path, struct err *e) MUST_USE;
/* Whether a write-ahead file is damaged, other than at its end, where a power loss may cut it. Damage at the end counts if the file
 * ends before the record `synced`, which was durable. RocksDB reads what it can of them and removes them. */
bool log_repair_is_needed(const char *path, uint64_t synced);

#endif
