/* SPDX-License-Identifier: Apache-2.0 */
/* The committer: one thread that writes requests into the head log, a group and a sync at a time, and brings them into memory. Private. */
#ifndef PYRRHA_TSDB_COMMITTER_H
#define PYRRHA_TSDB_COMMITTER_H

#include "tsdb/log/record.h"
#include "tsdb/write/request.h"

void *tsdb_committer(void *db);
/* Hands a request over (taken), or refuses it when the storage shuts down (not taken). */
int tsdb_submit(struct tsdb *db, struct request *r, struct err *e) MUST_USE;
/* Commits a request and waits; takes it. One with facts: under seal_lock. */
int tsdb_commit(struct tsdb *db, struct request *r, struct err *e) MUST_USE;
/* While at least one waits, commits are not held back to gather more. */
void tsdb_hurry(struct tsdb *db, bool begin);
#define REPLAY_SEQ 1 /* of what a replay applies */
/* Brings one record's rows into the windows of *v (which it replaces when windows are new). Returns false if the
 * payload is malformed. Shared by commit and replay. */
bool tsdb_apply(struct tsdb *db, struct version **v, struct partition *p, enum record_kind kind, struct view payload,
		uint64_t number, uint64_t seq) REQUIRES(db->apply_lock);
/* Hands the floats of what was just applied, all records up to `number`, to the tap. Their partitions are entered. */
void tsdb_tap(struct tsdb *db, uint64_t number);

#endif
