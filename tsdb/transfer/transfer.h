/* SPDX-License-Identifier: Apache-2.0 */
/* The storage and its bucket: days go up as they are sealed, and come back to a disk that does not have them. One thread, `bucket`, at a low
 * priority; it holds no lock of the storage while it waits for the bucket. docs/format/bucket.md has the objects. */
#ifndef PYRRHA_TSDB_TRANSFER_H
#define PYRRHA_TSDB_TRANSFER_H

#include "tsdb/version/db.h"

struct transfer;

/* Whether the directory of a storage has no data yet. To be asked before tsdb_open makes files in it. */
bool transfer_is_empty(const char *path);
/* Takes an epoch, reads which days the bucket has, and fetches the current day of a server that returns to an empty disk. Before the
 * partitions are opened. A bucket that does not answer is no error: uploads wait. Does nothing if there is no bucket. */
int transfer_open(struct tsdb *db, bool was_empty, struct err *e) MUST_USE;
/* After the partitions were opened, before the replay: days whose directory is damaged or lost, and which the bucket has, are fetched at once, so
 * that rows of the head log go on behind what they had; the same of damaged and missing parts. If the bucket is away, later: of whole days unless
 * the head log has rows of them. ERR_UNAVAILABLE: a part is needed before any row is taken. */
int transfer_restore(struct tsdb *db, struct err *e) MUST_USE;
/* After the replay, with the committer running: facts and notes of what was fetched. Then starts the thread. */
int transfer_start(struct tsdb *db, struct err *e) MUST_USE;
/* Ends the thread and frees. After tsdb_stop. */
void transfer_close(struct tsdb *db);
/* A delete, here and in the bucket: as tsdb_delete. What the bucket does not take now follows (admin_bucket.waiting_deletes). */
int transfer_delete(struct tsdb *db, const struct matcher *m, size_t n, int64_t after_ms, int64_t until_ms, uint64_t *ret_series, struct err *e) MUST_USE;
void transfer_status(struct tsdb *db, struct admin_bucket *ret);
/* Records are numbered above this. */
uint64_t transfer_first_record(const struct tsdb *db);
/* A round: uploads what is due, fetches a day, removes what is not named any more. now: also what would wait. Tests and shutdown scripts. */
int transfer_run(struct tsdb *db, bool now, struct err *e) MUST_USE;

#endif
