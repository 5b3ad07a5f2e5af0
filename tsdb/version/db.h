/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of this folder: the database, its partitions and its versions. Private to tsdb/.
 *
 *	tsdb ── current version ──► [ pstate per partition, by day ] ──► windows (head), parts (sealed)
 *
 * A version and its pstates never change once published; a change builds the next one. A query holds a version and a commit number
 * (seq): rows with a larger one do not exist for it.
 *
 * Locks, and the order in which they are taken: base/lock_ranks.h. */
#ifndef PYRRHA_TSDB_DB_H
#define PYRRHA_TSDB_DB_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/queue.h"
#include "base/thread.h"
#include "tsdb/dict/dict.h"
#include "tsdb/disk/metrics.h"
#include "tsdb/disk/rocks.h"
#include "tsdb/head/window.h"
#include "tsdb/log/hlog.h"
#include "tsdb/log/holes.h"
#include "tsdb/log/notes.h"
#include "tsdb/part/part.h"
#include "tsdb/tsdb.h"
#include "tsdb/version/accounts.h"
#include "tsdb/version/dropped.h"
#include "tsdb/version/retention_clock.h"

struct finder;
struct tombstones;
struct late_names;
struct pstate;
struct dict_unions;
struct scratch_pool;
struct retention_rules;
struct bucket_catalogue;
struct transfer;
struct cached_days;
struct generation;
struct hidden_facts;

/* Of a partition whose day is read from a bucket (tsdb/cached): what no version lists. */
struct partition_origin {
	struct pstate *s;           /* its parts, what is deleted of them, late names */
	struct partition *series;   /* one with its series alone, under the labels by which queries know them */
	/* Appends all of the day's dictionary, packed. ERR_NOT_FOUND: there is none, and the parts have it. */
	int (*symbols)(struct partition_origin *o, struct buf *ret, struct err *e);
};

struct partition {
	atomic_int refs;
	atomic_int users;           /* appends and requests that have ids of it */
	bool closing;               /* it is about to go: appends wait. Under state_lock */
	struct tsdb *db;
	uint64_t serial;            /* of all that were made since start */
	uint64_t dictionary;        /* names its dictionary: the serial of the partition that had it first; those that replace it have the same ids */
	uint32_t day;               /* holds the stamps in (day, day + 1] days */
	struct mutex append_turn; /* a lock for which the next writer waits already lets no reader in: they wait here instead */
	atomic_uint appenders;      /* who wait for it */
	struct rwlock dict_lock;
	struct symbols *symbols;
	struct index index;
	struct accounts accounts;   /* who added to symbols */
	struct dict_marks logged;   /* in the head log, synced */
	struct dict_marks sealed;   /* in sealed parts */
	struct dict_marks sealed_before; /* in parts before the last: each part repeats the one before it */
	uint64_t first_symbols;     /* lowest record with symbols that no part holds; UINT64_MAX = none */
	struct partition *series_only; /* with its series alone, of the parts that series_parts names; NULL: no query has needed it. A reference, under state_lock */
	uint64_t series_parts;         /* pstate_parts */
	bool unread;                /* its dictionary could not be loaded, as not all of it is on this disk (origin); it is empty. Under dict_lock */
	uint64_t lost;              /* entries that had to be made up */
	uint64_t lost_counted;      /* this many of them are in the database's count; with lost under dict_lock */
	atomic_llong live_t_ms;     /* the last stamp that was taken in as it happened, 0 = none since the start, */
	atomic_llong live_boot_ms;  /* and what CLOCK_BOOTTIME said then; retention_clock.h */
	atomic_bool loaded;         /* the dictionary and index of its parts are in memory */
	struct partition_db *db_parts;       /* where its parts lie; NULL = it has none yet */
	struct partition_origin *origin;     /* NULL: it is of this disk; borrowed, filled in before it is used */
	uint32_t next_part;         /* number of the next part; under apply_lock, as the next two */
	uint64_t kept_symbols;      /* lowest record with symbols that only the last part holds; UINT64_MAX = none */
	int64_t kept_mono_ms;       /* since when */
	uint64_t next_symbols;      /* as first_symbols, of what was logged since the seal at work began */
	bool sealing;
	atomic_llong used_mono_ms;  /* when somebody last needed its dictionary */
	uint64_t rules_done;        /* retention_rules.c: what rules hid of it last, 0 = they will hide more, and */
	uint32_t rules_next_part;   /* its next_part then; both under seal_lock */
	unsigned rules_cut;         /* its rollups whose hours a rule is passing: bits 0 to 3 those of six hours, bit 4 that of the day; under seal_lock, too */
	int64_t symbols_since_mono_ms; /* the sealer's: since when it has symbols in the log and no window; 0 = not */
};

/* Whether it may have stamps in (after, until]. */
static inline bool partition_meets(const struct partition *p, int64_t after_ms, int64_t until_ms)
{
	return (int64_t)p->day * DAY_MS < until_ms && ((int64_t)p->day + 1) * DAY_MS > after_ms;
}

struct partition *partition_new(struct tsdb *db, uint32_t day);
struct partition *partition_ref(struct partition *p);
void partition_unref(struct partition *p);
/* Brings the dictionary and index of the sealed parts into memory, if they are not, and notes that they are in use (evict.h).
 * Damage costs what it held and is logged. */
void partition_load(struct partition *p);
/* Another one over the same parts, whose dictionary is not loaded. Returns owned. */
struct partition *partition_empty_copy(struct partition *p);
/* A private one with the dictionary of the parts of s, for a partition that is not loaded itself; series_only: with the series, and no
 * symbols except their strings. No other thread sees it. */
struct partition *partition_read(const struct pstate *s, bool series_only);
/* Widens the bounds of its series to what the parts of s have, less what is deleted. */
void partition_widen(struct partition *p, const struct pstate *s) REQUIRES(p->dict_lock);
/* Adds what was made up of its dictionary to the database's count. */
void tsdb_count_lost_symbols(struct partition *p) REQUIRES(p->dict_lock);
/* A reference for logging its ids: while there are any, the partition is not dropped. */
struct partition *partition_enter(struct partition *p);
void partition_leave(struct partition *p);
/* Opens its database; the parts found become its pstate's. Before threads. */
int partition_open_parts(struct partition *p, struct part ***parts, size_t *n, struct err *e) MUST_USE;
/* Makes one for a partition that has none. Under apply_lock and seal_lock. */
int partition_make_parts(struct partition *p, struct err *e) MUST_USE;
/* Reopens one that takes no writes. Under seal_lock. */
int partition_reopen_parts(struct partition *p, struct err *e) MUST_USE;

struct pstate {
	atomic_int refs;
	struct partition *p;
	struct window **windows; /* by hour; several of one hour are possible while one is being sealed */
	struct part **parts;     /* by hour and number */
	size_t n_windows, n_parts;
	/* Sealed data: of each hour the parts from hour_first[h] on; rollups that sum exactly the existing parts. */
	uint32_t hour_first[25];
	struct part *six[4], *all_day;
	struct late_names *names; /* that came late; NULL = none. See late_names.h */
	struct tombstones *tombstones; /* what was deleted of the parts; NULL = nothing. See tombstones.h */
};

struct version {
	atomic_int refs;
	struct pstate **p; /* by day */
	size_t n;
};

void pstate_unref(struct pstate *s);
/* Names the parts with symbols: another number whenever the day has got, or lost, one. */
uint64_t pstate_parts(const struct pstate *s);
void version_unref(struct version *v);
const struct pstate *version_find(const struct version *v, uint32_t day);
/* v with one partition's lists replaced (or added, or with drop: taken away). Takes references of everything listed.
 * Returns owned. */
struct version *version_with(const struct version *v, struct partition *p, struct window *const *windows,
			     size_t n_windows, struct part *const *parts, size_t n_parts);
void version_set_late_names(struct version *v, uint32_t day, struct late_names *n);
/* Gives the pstate of a version that is not published yet other tombstones; takes m. */
void version_set_tombstones(struct version *v, uint32_t day, struct tombstones *m);
struct version *version_without(const struct version *v, uint32_t day);
/* v and n further partitions, which it does not have, in order of days: with nothing in them, until pstate_fill. They may be of days that v has as
 * well, as other servers have them, and come behind those. Returns owned. */
struct version *version_join(const struct version *v, struct partition *const *p, size_t n);
/* Fills an empty pstate with what another one has. Until it returns, no other thread may read the empty one. */
void pstate_fill(struct pstate *empty, const struct pstate *from);
/* A pstate of sealed parts alone; takes the tombstones and names. Returns owned. */
struct pstate *pstate_of_parts(struct partition *p, struct part *const *parts, size_t n, struct tombstones *m, struct late_names *names);
/* Parts of the version that overlap the range and lost values when they were rewritten: reported to *lim. */
void version_note_lost(const struct version *v, int64_t after_ms, int64_t until_ms, const struct source_limits *lim);

struct tsdb {
	struct sink sink;
	struct source source;
	struct storage_admin admin;
	struct tsdb_options o;
	char *path, *service_labels;
	int lock_fd;
	struct hlog *log;
	struct holes holes;               /* what the log has lost */
	rocksdb_cache_t *cache;
	struct dict_unions *dict_unions;  /* of whole symbols */
	struct dict_unions *name_unions;  /* of names; the pointer under state_lock */
	struct scratch_pool *scratch_pool; /* of queries' threads */
	atomic_ullong query_dict_bytes, query_dict_most; /* of dictionaries that are one query's own (query_dict.h): now, and at most since start */
	struct mutex apply_lock;

	struct mutex state_lock;
	pthread_cond_t state_cond;        /* a partition that was closing is gone, or stays */
	struct version *current;
	uint64_t seq;                     /* of the last commit that can be queried */
	VEC(struct partition *) partitions; /* known, with data or not */

	struct queue *queue;
	pthread_t committer, sealer, early_sealer;
	bool have_committer, have_sealer, have_early_sealer;
	struct mutex flush_lock;
	pthread_cond_t flush_cond, hurry_cond; /* finished moved; the committer need gather no longer */
	uint32_t waiters;                 /* waiters for a commit; with queued and pressing under flush_lock */
	uint64_t pressing;                /* requests that are queued and not patient */
	uint64_t queued;                  /* bytes of the requests that the committer did not take yet */
	struct mutex seal_lock;           /* one seal or retention at a time */
	uint64_t submitted, finished;     /* requests */
	atomic_bool stopping;
	VEC(struct sink_float) tapped;    /* floats of the commit, or record, that is applied: for o.tap; labels borrowed of partitions */
	uint64_t applied;                 /* number of the last record in memory; under apply_lock */
	atomic_ullong head_bytes;         /* of the windows, as of the last commit or seal */
	atomic_ullong sealing_bytes;      /* what the part that is being written takes beside that */
	struct mutex head_lock;           /* signals changes of the two, or stopping */
	pthread_cond_t head_cond, stop_cond;
	atomic_uint head_waiters;         /* appends */
	struct mutex readers_lock;        /* signals that the queries of a partition are over */
	pthread_cond_t readers_cond;
	atomic_uint readers_waiters;
	struct finder *finder;            /* late names; under seal_lock */
	struct retention_rules *rules;         /* retention by selector; written under both seal_lock and rules_lock, read under either */
	struct mutex rules_lock;
	uint64_t rules_number;            /* of the rules there are; under seal_lock */
	struct retention_clock retention_clock;
	struct dropped dropped;           /* under seal_lock */
	VEC(struct dropped_day) emptied;  /* days of which everything was deleted since the start, and the log's last record then; under seal_lock */
	VEC(struct pstate *) leaving;     /* dropped, to be freed, references held; under seal_lock */
	pthread_t dropper;
	bool have_dropper;
	uint64_t first_record;            /* records are numbered above it; 0 = from 1 */
	struct transfer *transfer;        /* days go to a bucket and come back; NULL = there is no bucket */
	struct bucket_catalogue *catalogue;      /* its: which days the bucket has; NULL as well */
	struct cached_days *cached;       /* days that are read from the bucket; NULL as well */
	atomic_ullong hidden_number;      /* rises when deletes or retention hide more of days that are in the bucket alone (cached_server) */
	struct part_keeper keeper;        /* which parts the bucket has; set before the partitions are opened */

	atomic_llong newest_t;            /* of all samples, ms; INT64_MIN = none */
	atomic_ullong appended_profiles, appended_samples, appended_floats;
	atomic_ullong lost_records, lost_symbols; /* lost_symbols: entries of dictionaries that were made up in their place */
	atomic_bool write_failed;         /* the last commit did not succeed */
	atomic_llong compact_after_ms;    /* the next look, monotonic; the sealer and calls that clean */
	int64_t recovered_mono_ms;        /* the committer's: when it last reopened the log */
	struct err write_error;           /* the committer's: why the last write failed */
};

/* Appends are refused until something was sealed. */
static inline bool tsdb_head_is_full(struct tsdb *db)
{
	return atomic_load(&db->head_bytes) + atomic_load(&db->sealing_bytes) > db->o.head_bytes;
}

/* head_bytes or sealing_bytes is another: appends that wait for room and the early sealer look again. */
void tsdb_head_changed(struct tsdb *db);
/* Waits until enough memory is in use for the early sealer, at least until this moment; false: the storage shuts down. */
bool tsdb_wait_head(struct tsdb *db, int64_t from_mono_ms);
/* Waits until something fits into the head, or the storage shuts down. */
void tsdb_wait_room(struct tsdb *db);
/* Waits for so long; false: the storage shuts down. */
bool tsdb_pause(struct tsdb *db, int64_t ms);
/* The storage shuts down: all these waits end. */
void tsdb_stop(struct tsdb *db);

static inline int64_t tsdb_now_ms(const struct tsdb *db)
{
	return db->o.now_ms ? db->o.now_ms(db->o.now_arg) : clock_now_ms();
}

/* A monotonic clock. */
static inline int64_t tsdb_boot_ms(const struct tsdb *db)
{
	if (db->o.boot_ms)
		return db->o.boot_ms(db->o.now_arg);
	return db->o.now_ms ? db->o.now_ms(db->o.now_arg) : clock_boot_ms();
}

/* The current version; returns owned. *ret_seq may be NULL. */
struct version *tsdb_version(struct tsdb *db, uint64_t *ret_seq);
/* Publishes v (takes it) together with seq (0 = unchanged). */
void tsdb_publish(struct tsdb *db, struct version *v, uint64_t seq) REQUIRES(db->apply_lock);
/* Adds up the memory of the windows of v, so that appends can wait when it is too much. */
void tsdb_count_head(struct tsdb *db, const struct version *v) REQUIRES(db->apply_lock);
/* Writes down what the log has lost, if that is not done yet; until then neither its marks change nor is it trimmed. */
int tsdb_sync_holes(struct tsdb *db, struct err *e) MUST_USE;
/* The partition of a day; NULL if there is none. Returns a reference. */
struct partition *tsdb_partition(struct tsdb *db, uint32_t day);
/* The same, created if missing, entered; waits for one that is being dropped. */
struct partition *tsdb_enter_partition(struct tsdb *db, uint32_t day);
/* The current time for retention (retention_clock.h): never later than the wall clock. */
int64_t tsdb_retention_now_ms(struct tsdb *db);
/* Stamps up to here are not accepted, ms. */
int64_t tsdb_floor_ms(struct tsdb *db);

/* Whether a series has a row or point with this stamp already. */
bool tsdb_has_stamp(const struct version *v, const struct partition *p, uint32_t series, int64_t t_ms) REQUIRES_SHARED(p->dict_lock);
/* Whether the data of record `number` for this hour is in a sealed part. */
bool tsdb_is_sealed(const struct version *v, const struct partition *p, int64_t hour, uint64_t number);

#endif
