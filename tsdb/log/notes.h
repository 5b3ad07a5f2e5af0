/* SPDX-License-Identifier: Apache-2.0 */
/* Notes (model/sink.h) are in the head log beside its records, a key each. The commit that has the records of their batch writes them,
 * so both exist or neither. All are in memory too, in their durable state. Only the log's owner, hlog.c, changes them, on the
 * committer's thread; reads come from any.
 *
 * The key in RocksDB is overwritten by each commit that has it, so that the log keeps one value of each and there is nothing to
 * trim. A failed commit may still have left its own: notes_undo restores the durable state. */
#ifndef PYRRHA_TSDB_NOTES_H
#define PYRRHA_TSDB_NOTES_H

#include "model/sink.h"
#include "tsdb/log/log_repair.h"

/* The prefix of notes' keys, followed by the note's own key. */
#define NOTES_PREFIX "\xfenotes\0"
#define NOTES_PREFIX_LEN 8

struct note {
	uint64_t number; /* of the last record of its commit; 0 = it is not written yet */
	int64_t t_ms;
	uint32_t key_len, value_len;
	char bytes[];
};

static inline struct view note_key(const struct note *n)
{
	return view_make(n->bytes, n->key_len);
}

static inline struct view note_value(const struct note *n)
{
	return view_make(n->bytes + n->key_len, n->value_len);
}

struct notes;

struct notes *notes_new(void);
void notes_free(struct notes *t);

/* ---- who appends ---- */

/* Room that notes on their way to the committer may take. */
struct notes_room {
	size_t n, bytes;
};

/* Copies of these, if they fit: ERR_LIMIT otherwise, and nothing is taken. notes_leave frees the room when they are durable or
 * refused. Returns owned. */
int notes_take(struct notes *t, const struct sink_note *v, size_t n, struct note ***ret, struct notes_room *room, struct err *e) MUST_USE;
void notes_leave(struct notes *t, const struct notes_room *room);
void notes_count(struct notes *t, size_t *ret_n, size_t *ret_bytes);
/* Those whose key has this prefix and that were written after after_ms, by key. */
void notes_each(struct notes *t, struct view prefix, int64_t after_ms, void (*fn)(void *arg, const struct sink_note *n), void *arg);

/* ---- the log ---- */

/* Takes in what the database has; false: it is damaged. *last becomes its number, if that is higher. */
bool notes_load(struct notes *t, struct view key, struct view value, uint64_t *last);
void notes_clear(struct notes *t);
/* Of several values of a key in damaged files, the newest is used. t is a table for this only. */
enum log_repair_verdict notes_judge(struct notes *t, struct view key, struct view value);

/* The commit at work: takes n. */
void notes_put(struct notes *t, struct note *n);
bool notes_has_put(const struct notes *t);
/* Puts them into the batch, under the number of its last record. Then the batch is synced, or fails, or is not tried. */
void notes_write(struct notes *t, rocksdb_writebatch_t *batch, uint64_t number);
void notes_committed(struct notes *t);
void notes_failed(struct notes *t);
void notes_abort(struct notes *t);
/* Whether commits that failed had some; puts what was durable in their place, under a number above theirs; says that it is synced. */
bool notes_has_failed(const struct notes *t);
void notes_undo(struct notes *t, rocksdb_writebatch_t *batch, uint64_t number);
void notes_undone(struct notes *t);
/* Takes out those written last before before_ms and puts that into the batch. Returns how many. */
size_t notes_expire(struct notes *t, int64_t before_ms, rocksdb_writebatch_t *batch);

#endif
