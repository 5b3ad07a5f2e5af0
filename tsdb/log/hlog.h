/* SPDX-License-Identifier: Apache-2.0 */
/* The head log: one RocksDB with one column family, whose keys are record numbers (u64, big-endian). Besides it lies
 * `head.marks`, which says outside the log how far it was synced and from where on it was kept, and `head.end`, which says the same of the
 * newest records: so that a cut tail shows. The committer is the only writer; reads may come from any thread. */
#ifndef PYRRHA_TSDB_HLOG_H
#define PYRRHA_TSDB_HLOG_H

#include "base/buf.h"
#include "base/err.h"
#include "base/vec.h"

struct hlog;
struct log_extents;
struct log_keep;
struct note;
struct notes;

#define HLOG_BUFFERS 3

/* dir is the database's directory; the log is dir/head. memory: bytes of its HLOG_BUFFERS buffers together. One that can be read but not written (its disk is full, say) is opened, and
 * *ret_writable is false: before the first commit it needs hlog_reopen. ret_writable NULL: it is only replayed, nothing is written. */
int hlog_open(struct hlog **ret, const char *dir, uint64_t memory, bool *ret_writable, struct err *e) MUST_USE;
/* Writes the marks and closes. NULL is allowed. */
int hlog_close(struct hlog *l, struct err *e) MUST_USE;

/* Records that are lost, one after the other. */
struct hlog_gap {
	uint64_t first, last;
};

/* Gaps found by replay: in the numbers, records that fail their checksum, and an end before the one in the marks. */
struct hlog_loss {
	uint64_t holes;      /* numbers that are not there */
	uint64_t bad;        /* records that are, but were refused by fn */
	uint64_t cut;        /* of the holes: at the end, known from the marks */
	uint64_t first, last; /* lowest and highest number lost */
	VEC(struct hlog_gap) gaps; /* all gaps, by number; the caller frees the list */
};
/* Calls fn for every record in order; fn returns false for a malformed one. After an error the log can only be closed, and *ret says
 * nothing but its gaps, which are to be freed. */
int hlog_replay(struct hlog *l, bool (*fn)(void *arg, uint64_t number, struct view record), void *arg,
		struct hlog_loss *ret, struct err *e) MUST_USE;

/* Says what a record that was replayed, or committed, holds: rows of a day with stamps from .. until, or a fact of it. In order of their
 * numbers, by replay and the committer. saw_all: that was said of all records up to this number. */
void hlog_saw_rows(struct hlog *l, uint32_t day, uint64_t number, int64_t from_ms, int64_t until_ms);
void hlog_saw_fact(struct hlog *l, uint32_t day, uint64_t number);
void hlog_saw_all(struct hlog *l, uint64_t number);
/* Writes head.end, unless the marks are held. The committer calls it after hlog_saw_all and before it acknowledges the appends. A failure is logged; a
 * failure that follows another one is not. */
void hlog_note_end(struct hlog *l);
/* While `hold`, head.marks stays as it is: what it says of lost records is not written down elsewhere yet. So it is from the opening on, until
 * a replay has succeeded and its findings are on disk: a start that fails leaves the marks that it found. */
void hlog_hold_marks(struct hlog *l, bool hold);
/* All of a day is gone: its facts mean nothing. */
void hlog_forget_facts(struct hlog *l, uint32_t day);
/* What the records of the log hold: as head.marks and head.end had it when the log was opened; as the replay has seen it. Only before threads
 * start. */
const struct log_extents *hlog_extents_marked(const struct hlog *l);
const struct log_extents *hlog_extents_replayed(const struct hlog *l);

/* After the replay: whether head.marks is missing or damaged, and the log's files are whole. Then numbers that it lacks at its end, up to the last
 * one that a part covers, count as trimmed. */
bool hlog_may_be_trimmed(const struct hlog *l);
/* After the replay: what comes is numbered above `number`, which some part has. Only a log that lost its end, or its marks, ends before it. */
void hlog_number_above(struct hlog *l, uint64_t number);

/* After the replay, of a log without any record: what comes is numbered above `number`. Else nothing happens. */
void hlog_begin_above(struct hlog *l, uint64_t number);

/* The committer's side: put records (each is sealed with the next number, which is returned), then commit. A commit
 * that fails leaves nothing: hlog_reopen makes its numbers void. */
uint64_t hlog_put(struct hlog *l, struct buf *record);
int hlog_commit(struct hlog *l, struct err *e) MUST_USE;
void hlog_abort(struct hlog *l);
/* Puts a note into the batch, and takes it. A batch of notes alone has a void record, so that it has a number. */
void hlog_put_note(struct hlog *l, struct note *n);
/* Forgets notes that were written last before before_ms. The committer's. */
int hlog_expire_notes(struct hlog *l, int64_t before_ms, struct err *e) MUST_USE;
/* All that are durable. */
struct notes *hlog_notes(struct hlog *l);
/* Puts into the batch that a partition was deleted as a whole by the record of that number: it and all earlier records of that day are
 * void. */
void hlog_put_gone(struct hlog *l, uint32_t day, uint64_t number);
/* That number, as of the opening; 0 = it never was. */
uint64_t hlog_gone(const struct hlog *l, uint32_t day);
/* Forgets it of the days below `day`, which nothing is taken in of any more. */
int hlog_forget_gone(struct hlog *l, uint32_t day, struct err *e) MUST_USE;
/* Whether a write failed, a commit or a trim: nothing is written any more until hlog_reopen. */
bool hlog_is_broken(struct hlog *l);
/* After a failed write: the database is closed and opened again, and void records replace the remains of the failed commit. The
 * committer's; others wait meanwhile. */
int hlog_reopen(struct hlog *l, struct err *e) MUST_USE;
/* The number of the last record that is synced; 0 = none (numbers start at 1). */
uint64_t hlog_last(const struct hlog *l);
uint64_t hlog_first(const struct hlog *l);
/* Forgets all records below `below` but those in keep (ascending). Space comes back with RocksDB's next flush.
 * While the marks are held it does nothing. */
int hlog_trim(struct hlog *l, uint64_t below, const struct log_keep *keep, size_t n_keep, struct err *e) MUST_USE;
/* Starts to return the space of what was trimmed. */
void hlog_give_back(struct hlog *l);
/* Puts the marks on disk, if they changed. */
int hlog_mark(struct hlog *l, struct err *e) MUST_USE;
/* A copy of the log and its marks as dir/head and dir/head.marks. */
int hlog_snapshot(struct hlog *l, const char *dir, struct err *e) MUST_USE;
uint64_t hlog_bytes(struct hlog *l);
/* Of it in memory: records that RocksDB has not written to a table yet. */
uint64_t hlog_memory(struct hlog *l);

#endif
