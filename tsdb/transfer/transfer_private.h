/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of this folder. The bucket thread (transfer.c) runs a round each second: it puts what changed (upload.c, generations.c,
 * deletes.c), fetches a day (retrieve.c) and damaged parts (mend.c), and removes what is not named any more (collect.c). */
#ifndef PYRRHA_TSDB_TRANSFER_PRIVATE_H
#define PYRRHA_TSDB_TRANSFER_PRIVATE_H

#include "tsdb/bucket/bucket_server.h"
#include "tsdb/bucket/catalogue.h"
#include "tsdb/bucket/day_image.h"
#include "tsdb/cached/cached_server.h"
#include "tsdb/transfer/transfer.h"

/* The object of a part that was put, and that no generation names yet: a row of the journal bucket/uploads. */
struct transfer_upload {
	uint32_t day;
	struct catalogue_part part;
};

/* An object that the newest generation of its day does not name any more. It is removed ten minutes later, so that readers of the generation
 * before can finish. */
struct transfer_removal {
	char name[OBJECT_NAME_MAX];
	int64_t due_mono_ms;
};

/* Days whose database the bucket has and this disk has lost. */
struct lost_days {
	VEC(uint32_t) v;
};

/* A part that is damaged or missing on this disk, and that the newest generation of its day names: it is fetched again. */
struct transfer_mend {
	uint32_t day;
	struct catalogue_part part;
	int64_t failed_mono_ms;   /* when the last try failed because of the part itself, or of this disk; 0 = it did not */
};

/* What the rounds remember of a day, to tell when it is due. Moments are of the monotonic clock, 0 = never. */
struct transfer_seen {
	uint32_t day;
	uint64_t parts_hash;      /* hash of the day's parts, deletes and late names at the last look */
	uint64_t put_hash;        /* the same hash when the last generation was put */
	int64_t changed_boot_ms;  /* of tsdb_boot_ms, as since_boot_ms and failed_boot_ms: when parts_hash changed last */
	int64_t failed_boot_ms;   /* when the last upload failed because of the day itself */
	int64_t fetch_failed_mono_ms; /* when the last fetch failed because of the day itself */
	int64_t since_boot_ms;    /* since when the day differs from its generation */
};

/* A delete, made here or read from the bucket. */
struct transfer_delete {
	struct object_stamp stamp;    /* of its object; 0, 0 = it is not in the bucket yet */
	int64_t made_ms;              /* when it was made */
	int64_t after_ms, until_ms;   /* of the rows that existed then, those with stamps in (after, until] */
	bool here;                    /* its facts are in the head log */
	char *selector;               /* owned */
};

/* An absent day that was checked for rows that deletes or rules of retention have passed: up to which delete object, and with which rules
 * (retention_rules_whole). It is checked again when there are others. */
struct transfer_checked {
	uint32_t day;
	struct object_stamp deletes;
	uint64_t rules;
};

struct transfer {
	struct tsdb *db;
	struct objects *objects;      /* borrowed */
	struct bucket_server server;
	struct bucket_catalogue catalogue;
	struct cached_server own;     /* this server, as one whose days are read from the bucket */
	struct others *others;        /* the other servers of the bucket; NULL = their days are not read here */
	pthread_t thread;
	bool have_thread;
	struct mutex run_lock;        /* held during a round: the bucket thread's, or that of tsdb_upload. Guards the fields down to deletes_lock */
	VEC(struct transfer_upload) uploads;
	VEC(struct transfer_removal) removals;
	VEC(struct transfer_seen) seen;
	VEC(struct transfer_mend) mends;
	VEC(struct transfer_mend) mended; /* parts that were missing at the start, or the last ones of days that were: deletes are applied to them again */
	VEC(uint32_t) facts_due;      /* days that were fetched and whose deletes and late names are not in the head log yet: they take no rows and do not go up */
	struct buf pending;           /* a generation whose put had no answer, so it may be in the bucket: the same bytes are put again until an answer comes */
	struct object_stamp pending_stamp;
	char pending_identity[CATALOGUE_IDENTITY_MAX]; /* what the catalogue gets with the pending generation */
	bool pending_away;            /* the same */
	bool is_opening;              /* the storage is not open yet, and somebody waits for it */
	bool is_open;                 /* the replay is over: rows may come at any moment */
	bool has_begun;               /* an epoch was taken, and the catalogue knows all generations of the bucket */
	VEC(int64_t) left_out;        /* hours of the current day that could not be fetched, as their part is damaged in the bucket: their starts, ms */
	bool catalogue_is_damaged;    /* a generation could not be read: what it names is not known, so no orphans are removed */
	bool deletes_are_damaged;     /* a delete could not be read: what it deleted is not known */
	int64_t next_upkeep_boot_ms;  /* of tsdb_boot_ms: when objects of a day whose rows are all in the bucket are put next (upload.c) */
	int64_t next_check_mono_ms;   /* when the bucket is asked for a newer epoch next */
	int64_t next_collect_mono_ms; /* when orphans are looked for next */
	VEC(uint32_t) visits;         /* days that are fetched to be rewritten without deleted rows, whatever local retention says */
	VEC(struct transfer_checked) checked; /* one for each absent day that was checked */
	pthread_t deletes_thread;     /* puts the objects of deletes at once, also while the bucket thread waits for the bucket */
	bool have_deletes_thread;
	struct mutex deletes_lock;    /* guards the fields down to status_lock; held while the storage deletes, not while the bucket is asked */
	pthread_cond_t deletes_made, deletes_put; /* deletes_made: a delete waits to be put; deletes_put: an attempt to put has ended */
	bool deletes_wanted, deletes_are_put;     /* a delete waits to be put; a thread is putting it */
	char deletes_id[SERVER_ID_MAX + 1]; /* whose stamp that is */
	struct object_stamp applied;  /* of the newest delete object whose facts are in the head log, or in parts; 0, 0 = none */
	VEC(struct transfer_delete) pending_deletes; /* not in the bucket yet, in the order in which they were made */
	atomic_size_t n_pending_deletes;
	VEC(struct transfer_delete) deletes;         /* in the bucket, by stamp */
	struct mutex status_lock;     /* of what the page shows; a leaf */
	struct admin_bucket status;
	VEC(char *) damaged;          /* names of objects that could not be read */
	char damaged_first[400];      /* the first of them, and what to do about it */
};

/* ---- opening.c ---- */

/* Of a start that others wait for: what it waits for now. */
__attribute__((format(printf, 2, 3))) void transfer_note_opening(struct transfer *t, const char *format, ...);

/* ---- parallel.c ---- */

/* Calls run with each number below n, in at most so many threads, of which the caller is one. Those that have not begun when one fails are left
 * out; returns the first error. */
int parallel_each(size_t threads, size_t n, int (*run)(void *arg, size_t i, struct err *e), void *arg, struct err *e) MUST_USE;

/* Whether an error is about the bucket as a whole, not about the object: further requests would wait as long. */
static inline bool transfer_is_away(int rc)
{
	return rc == -ERR_UNAVAILABLE || rc == -ERR_TIMEOUT || rc == -ERR_BUSY || rc == -ERR_CANCELED;
}

/* ---- tries.c ---- */

/* What is known of the tries of a day; valid until the next call. */
struct transfer_seen *transfer_seen(struct transfer *t, uint32_t day);

/* ---- damaged.c ---- */

/* An object of the bucket cannot be read and is passed over. todo: what that means, and what to do. */
void damaged_note(struct transfer *t, const char *name, const char *todo, const struct err *why);
void damaged_release(struct transfer *t);
/* ---- space.c ---- */

/* Whether the disk has room for what is missing of a day in the directory for its fetched files. ERR_IO: it has not. */
int space_check(struct transfer *t, const struct generation *g, const char *dir, struct err *e) MUST_USE;
/* Whether an error says that the disk is full. */
bool space_is_out(const struct err *e);

/* ---- generations.c ---- */

/* Puts a generation under the next number: 0, and then the catalogue has it. ERR_CONFLICT: this server is fenced. */
int generations_put(struct transfer *t, struct generation *g, const char *identity, bool away, struct err *e) MUST_USE;
/* The one whose put had no answer, if there is one. */
int generations_put_pending(struct transfer *t, struct err *e) MUST_USE;
/* A day's newest generation and its bytes, from the local file, or from the bucket where that is damaged. *ret is to be released in any case. */
int generations_read(struct transfer *t, uint32_t day, struct buf *b, struct generation *ret, struct err *e) MUST_USE;

/* A generation as it came, or why it did not. */
struct fetched_generation {
	struct buf b;
	struct generation g;      /* without its series */
	int rc;                   /* as of object_io_get_generation */
	struct err why;
};
/* Fetches generations of a server, some at a time, and has each taken in, in their order. One that cannot be taken in keeps none of the others from it;
 * returns the first error. */
int generations_fetch(struct transfer *t, const char *id, const struct object_stamp *stamps, size_t n,
		      int (*take)(void *arg, struct object_stamp stamp, struct fetched_generation *x, struct err *e), void *arg, struct err *e) MUST_USE;

/* ---- upload.c ---- */

/* Puts the day, if it changed since it was put last. now: without waiting for more changes. */
int upload_days(struct transfer *t, bool now, struct err *e) MUST_USE;
/* Which objects were put and are in no generation yet: from bucket/uploads. */
int upload_read_journal(struct transfer *t, struct err *e) MUST_USE;
/* Forgets objects that no generation will name, as their days have no parts here. */
void upload_tidy_journal(struct transfer *t);

/* ---- survey.c ---- */

/* Brings the catalogue up to what the bucket has. */
int survey_bucket(struct transfer *t, struct err *e) MUST_USE;
/* Looks whether the bucket still has the generations that the catalogue knows. Days that it has lost are forgotten, and go up again from this disk. */
int survey_check(struct transfer *t, struct err *e) MUST_USE;
/* A day goes up again, as the bucket has lost something of it, if it is on this disk. */
void survey_forget_day(struct transfer *t, uint32_t day);

/* ---- retrieve.c ---- */

/* Removes what was fetched of days that are not to be fetched any more. Before the partitions are opened, or in a round. */
void retrieve_tidy(struct transfer *t);
/* Fetches a day into partitions/, which has nothing of it. It is not open yet. lenient: parts whose objects are damaged or missing are left out. */
int retrieve_files(struct transfer *t, uint32_t day, bool lenient, struct err *e) MUST_USE;
/* Fetches the newest day that is wanted here and is not, and opens it. 1: it did; 0: there is none. now: also days that failed a while ago. */
int retrieve_next(struct transfer *t, bool now, struct err *e) MUST_USE;
/* Days that are lost here: which; fetches and opens one before the replay, unless a delete that is newer than its generation touches it. Its other
 * deletes are in the head log. */
void retrieve_list_lost(struct transfer *t, struct lost_days *ret);
int retrieve_lost(struct transfer *t, uint32_t day, struct err *e) MUST_USE;
/* Whether the facts of a fetched day are still to be applied. */
bool retrieve_is_pending(const struct transfer *t, uint32_t day);
/* Of a server that came back to an empty disk: restores the notes of the newest generation, and notes as holes the times whose data the bucket did not
 * have. */
int retrieve_finish(struct transfer *t, struct err *e) MUST_USE;
/* Days that were fetched, and whose facts may not be in the head log: whether there are some; their facts, and newer deletes. */
bool retrieve_has_facts(const struct transfer *t);
int retrieve_apply_facts(struct transfer *t, struct err *e) MUST_USE;
/* Puts the deletes and late names of a day's newest generation into the head log once more. */
int retrieve_commit_facts(struct transfer *t, uint32_t day, struct err *e) MUST_USE;
/* Finds days that are not here and have rows of newer deletes, or of a rule of retention that has passed all of the day: they are fetched, to
 * be rewritten. */
int retrieve_visits(struct transfer *t, struct err *e) MUST_USE;
/* At the start: clears `away` of days that are on this disk. The process before may have set it and ended before it dropped the day. */
int retrieve_keep_here(struct transfer *t, struct err *e) MUST_USE;
/* Notes which days of the bucket are not on this disk. */
void retrieve_note_absent(struct transfer *t);

/* ---- mend.c ---- */

/* struct part_keeper.keeps, with a transfer: whether the newest generation of the day names the part. */
bool mend_keeps(void *t, const struct part *p);
/* After the partitions were opened, before the replay: lists the damaged and missing parts that the bucket has, and puts stand-ins in their place. */
void mend_find(struct transfer *t);
/* Fetches parts that are listed; while the storage runs, also those of which a value could not be read meanwhile. now: also those whose last try
 * failed a while ago. */
int mend_parts(struct transfer *t, bool now, struct err *e) MUST_USE;
/* Before the replay: ERR_UNAVAILABLE if a part still waits and what it brings to the day's dictionary cannot be read anywhere here. */
int mend_check_names(struct transfer *t, struct err *e) MUST_USE;
/* To be called after the replay. Applies deletes again to parts that came back from the bucket. It comes before uploads: a generation says that its parts have these deletes. */
int mend_apply_deletes(struct transfer *t, struct err *e) MUST_USE;

/* ---- deletes.c ---- */

/* Reads a delete's object. ERR_CORRUPT: it is no delete, or none that can be applied. ret->selector is owned. */
int deletes_parse(struct view bytes, struct transfer_delete *ret, struct err *e) MUST_USE;
/* bucket/deletes. */
int deletes_read(struct transfer *t, struct err *e) MUST_USE;
void deletes_release(struct transfer *t);
/* At the start: those that may not have been applied before the end. */
int deletes_apply_pending(struct transfer *t, struct err *e) MUST_USE;
/* Puts what is not in the bucket yet, unless another thread is at it. */
int deletes_put_pending(struct transfer *t, struct err *e) MUST_USE;
/* The thread that puts them while a caller waits; it ends with the storage. */
int deletes_start(struct transfer *t, struct err *e) MUST_USE;
void deletes_stop(struct transfer *t);
/* Reads the bucket's; at the start. */
int deletes_fetch(struct transfer *t, struct err *e) MUST_USE;
/* Applies the deletes whose stamp is above `from`, that of the generation that the day was fetched by, and those that wait for the bucket, to the
 * day: to its parts with lower numbers, and its windows. */
int deletes_apply_day(struct transfer *t, uint32_t day, struct object_stamp from, uint32_t below_part, struct err *e) MUST_USE;
/* Whether one that is newer than `from` has anything of the newest generation of a day. */
int deletes_touch_day(struct transfer *t, uint32_t day, struct object_stamp from, bool *ret, struct err *e) MUST_USE;
/* Removes those that are about days before all that the bucket has. The newest stays: an empty disk learns from it up to where deletes go. */
int deletes_collect(struct transfer *t, struct err *e) MUST_USE;
/* Up to which object deletes are applied here. */
struct object_stamp deletes_applied(struct transfer *t);

/* ---- others.c ---- */

/* Of a storage with read_others: begins with what the last process knew of the other servers. */
int others_open(struct transfer *t, struct err *e) MUST_USE;
int others_start(struct transfer *t, struct err *e) MUST_USE;
/* Looks at the bucket now: which servers it has, their days and deletes. */
int others_look(struct transfer *t, struct err *e) MUST_USE;
/* Ends the thread. The memory stays until others_free: days of a view point to it. */
void others_stop(struct transfer *t);
void others_free(struct transfer *t);
void others_status(struct transfer *t, struct admin_bucket *ret);

/* ---- copy.c: for tsdb_bucket_get ---- */

/* Instead of taking an epoch: fetches the wanted days, before the partitions are opened. */
int copy_files(struct transfer *t, struct err *e) MUST_USE;

/* ---- collect.c ---- */

/* Whether a day was on this disk, was not dropped, and is not there any more: its directory is damaged or lost. The bucket has it. */
bool collect_is_lost(struct transfer *t, const struct catalogue_day *d);
/* Removes objects that are due; now: all that no generation names. */
int collect_removals(struct transfer *t, bool now, struct err *e) MUST_USE;
/* Whether this storage dropped or deleted as a whole what the newest generation of a day has. */
bool collect_was_dropped(struct transfer *t, uint32_t day);
/* An object is not named any more. */
void collect_add(struct transfer *t, const char *name);
/* Lists all objects and removes what nothing names and nobody can be about to name. */
int collect_orphans(struct transfer *t, struct err *e) MUST_USE;
/* Puts `gone` for the days that this storage dropped, and for those that retention has passed. */
int collect_gone(struct transfer *t, struct err *e) MUST_USE;

#endif
