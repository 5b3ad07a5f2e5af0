/* SPDX-License-Identifier: Apache-2.0 */
/* The storage: a sink for profiles and floats, a source for queries, in one directory.
 *
 * Data that a batch's done() reported with code 0, or that pyrrha_appended_profiles_total has counted, is synced and survives a crash;
 * nothing can be queried before that. One process at a time: the directory is locked. */
#ifndef PYRRHA_TSDB_TSDB_H
#define PYRRHA_TSDB_TSDB_H

#include <stdatomic.h>

#include "base/buf.h"
#include "base/err.h"
#include "model/admin.h"
#include "model/objects.h"
#include "model/sink.h"
#include "model/source.h"
#include "model/tap.h"

struct tsdb;
struct tsdb_bucket_copy;

#define TSDB_SERVICE_LABELS "job,namespace,service,app,container"

/* Zero means the default of each. */
struct tsdb_options {
	const char *path;            /* the directory; made if it is missing */
	int64_t retention_ms;        /* 15 d; whole partitions (UTC days) are dropped; negative = never */
	uint64_t retention_bytes;    /* none; the oldest partitions go until the rest is smaller */
	/* Memory of the open windows, and of sealing one or rewriting parts, 256 MiB. Above half of it the largest are sealed early,
	 * above all of it append waits. */
	uint64_t head_bytes;
	uint64_t cache_bytes;        /* RocksDB's block cache, 256 MiB */
	/* Dictionaries in memory, 256 MiB: above it those of days that no query uses leave memory. As much again is for those that queries
	 * over several days load; beyond that, a query reads further days' dictionaries one after the other, for itself. */
	uint64_t dictionary_bytes;
	uint64_t queue_bytes;        /* appends that wait for the committer, 64 MiB; append waits above it */
	uint64_t log_bytes;          /* buffers of the head log together, 192 MiB: records that RocksDB has not written to a table yet */
	/* A commit gathers what is appended within this long of its first append, 20 ms; negative = only what came while the
	 * last one was synced. Delay until appends are durable, acknowledged and visible to queries. A waiting caller (tsdb_flush,
	 * tsdb_delete, back-pressure) ends it early. For patient batches alone it is ten times as long, at most 1 s. */
	int64_t commit_interval_ms;
	uint32_t max_series;         /* per partition, 1,000,000 */
	uint32_t max_label_sets;     /* sample label sets per series and partition, 10,000; more are counted and marked */
	/* Limits of what a target (labels job and instance) may add to a partition's dictionary, 200,000, 500,000 and 1,000,000;
	 * further stacks become one, "(other)", and are counted. See also accounts.h. */
	uint32_t max_target_functions, max_target_locations, max_target_stacks;
	/* Labels that make a service, separated by commas: its series also get one sum a minute (aggregate.h). NULL =
	 * TSDB_SERVICE_LABELS, "" = none. Sealed data stays unchanged. */
	const char *service_labels;
	/* A bucket that sealed days go to; borrowed, NULL = none. With read_only it is not used. */
	struct objects *objects;
	atomic_bool *objects_stop;   /* raised (flag_raise) when the storage shuts down, so that calls of objects end; may be NULL */
	size_t objects_at_once;      /* how many calls of objects may run at once; 0 = one */
	void (*opening)(void *arg, const char *what); /* called while tsdb_open waits for the bucket, by any thread: what for; NULL = nobody wants to know */
	void *opening_arg;
	const char *server_id;       /* whose days they are there; NULL = one is made up at the first start */
	bool read_others;            /* queries also read the days that other servers have in the bucket */
	/* Labels that other servers add to the series of this one when they read its days; called when a day goes up. Returns owned (labels_dup);
	 * NULL = none. */
	struct labels *(*external_labels)(void *arg);
	void *external_labels_arg;
	int64_t local_retention_ms;  /* days that are in the bucket leave the disk after this; 0 = never before retention_ms */
	uint64_t bucket_cache_bytes; /* of the disk, for what queries read of days that are in the bucket alone; 10 GiB */
	int64_t seal_interval_ms;    /* windows are sealed at least this often, so that less is lost with the disk; 0 = after their hour */
	int64_t grace_ms;            /* objects that nothing names are removed when they are as old; 0 = a day */
	bool no_transfer;            /* tests and tools: nothing goes up or comes back by itself */
	const struct tsdb_bucket_copy *copy; /* set by tsdb_bucket_get alone */
	struct tap *tap;             /* borrowed: receives every float once it is durable; NULL = none */
	bool keep_aggregates;        /* tests: however little they save */
	bool read_only;              /* nothing is written, nothing can be appended; several may look at a time */
	bool no_sealing;             /* tests: windows stay in the head */
	int64_t clean_ms;            /* tests: how long tsdb_clean may take; 30 s */
	int64_t (*now_ms)(void *arg); /* tests: the wall clock; NULL = clock_now_ms */
	int64_t (*boot_ms)(void *arg); /* tests: a monotonic clock; NULL = clock_boot_ms, or now_ms if that is set */
	void *now_arg;
};

/* Opens or makes the directory and replays its log. ERR_CONFLICT: another process holds it; ERR_CORRUPT: a newer
 * format, half of a snapshot, or one that was copied over another storage; ERR_NOT_FOUND: read_only, and there is none. A damaged record never refuses the open: it is reported (log, pyrrha_tsdb_lost_records_total). */
int tsdb_open(struct tsdb **ret, const struct tsdb_options *o, struct err *e) MUST_USE;
/* The end is near: no work in the background is begun any more, and appends do not wait for memory. tsdb_close follows. */
void tsdb_wind_down(struct tsdb *db);
/* Makes everything appended durable, stops the threads, frees. Views must have been released. *db is gone even if
 * an error is returned. NULL is allowed. */
int tsdb_close(struct tsdb *db, struct err *e) MUST_USE;

/* All are valid as long as the storage. */
struct sink *tsdb_sink(struct tsdb *db);
struct source *tsdb_source(struct tsdb *db);
struct storage_admin *tsdb_admin(struct tsdb *db);

/* Waits until everything appended so far is durable (or failed) and can be queried. */
void tsdb_flush(struct tsdb *db);
/* Seals every window that has ended (all: the open ones too) and waits for it. Tests and shutdown scripts. */
int tsdb_seal(struct tsdb *db, bool all, struct err *e) MUST_USE;
/* Drops what retention no longer covers; the sealer does it each minute by itself. */
int tsdb_retain(struct tsdb *db, struct err *e) MUST_USE;

/* Deletes what the series that satisfy all matchers have stamped in (after, until], of what was appended before the call.
 * When it returns it is durable and invisible to queries (except in views that were open). The space is freed as the sealer rewrites
 * the parts; whole partitions are removed at once. Data appended later with those stamps stays. ret_series (may be NULL) counts the
 * series found, once per partition. */
int tsdb_delete(struct tsdb *db, const struct matcher *m, size_t n, int64_t after_ms, int64_t until_ms, uint64_t *ret_series,
		struct err *e) MUST_USE;
/* Does at once, and waits for, the sealer's background work: frees the space of deleted rows, combines the parts of an hour, makes
 * rollups. ERR_TIMEOUT: not all of it within 30 s; ERR_UNAVAILABLE: the storage shuts down. The rest is done in the background. */
int tsdb_clean(struct tsdb *db, struct err *e) MUST_USE;

/* Series that satisfy all matchers are kept for keep_ms, if that is less than the general retention; of several rules the shortest
 * counts. Replaces the earlier rules (none after an open). Data that is too old by them is hidden when this returns. Its space is
 * freed within an hour after its window is too old as a whole. Copied. */
struct tsdb_retention {
	const struct matcher *m;
	size_t n;
	int64_t keep_ms;
};
int tsdb_set_retention(struct tsdb *db, const struct tsdb_retention *rules, size_t n, struct err *e) MUST_USE;

/* Late names: locations stored without lines get those that the same place of the same binary (build id, address in the file) has
 * elsewhere, in any partition in memory. The sealer looks every few seconds; this does it now. */
int tsdb_resolve_names(struct tsdb *db, struct err *e) MUST_USE;
/* Gives the locations of a place that have no lines these, innermost inlined call first; durable when it returns. Texts are
 * copied. None such: nothing happens. */
struct tsdb_line {
	struct view function, system_name, file; /* the last two may be empty */
	int64_t start_line, line, column;
};
int tsdb_name_location(struct tsdb *db, struct view build_id, uint64_t file_address, const struct tsdb_line *lines, size_t n,
		       struct err *e) MUST_USE;

/* A copy of everything that is durable now in dir, which must not exist (ERR_CONFLICT): files are linked where they can be. It
 * opens as a storage directory of its own. It is made as DIR.tmp and renamed when it is complete; after an error nothing is left. */
int tsdb_snapshot(struct tsdb *db, const char *dir, struct err *e) MUST_USE;

/* Uploads now what would go to the bucket by itself, fetches the newest day that is missing here, and removes objects that nothing names.
 * ERR_UNAVAILABLE: there is no bucket, or it does not answer; ERR_CONFLICT: another process writes as this server. */
int tsdb_upload(struct tsdb *db, struct err *e) MUST_USE;

/* Fetches days that a server has in its bucket into a storage directory of their own, which is not that server: the bucket is only read. It is
 * made as DIR.tmp and renamed when it is complete; after an error nothing is left. ERR_CONFLICT: dir is not empty; ERR_NOT_FOUND: the bucket
 * has no day of that server. */
struct tsdb_bucket_copy {
	struct objects *objects;     /* borrowed */
	size_t objects_at_once;      /* as in tsdb_options */
	const char *id;              /* the server's */
	const char *dir;             /* empty, or not there */
	const uint32_t *days;        /* since 1970, UTC */
	size_t n;                    /* of days; 0 = all that it has */
	bool lenient;                /* parts of a day whose objects are damaged or missing are left out, not the day */
	/* Called once for each day, on the calling thread: e is NULL, or says why the day is left out. */
	void (*done)(void *arg, uint32_t day, const struct err *e);
	void *arg;
	bool *ret_damaged;           /* some generations or deletes of the bucket could not be read, so the copy may lack days, newer parts of them, or deletes */
};
int tsdb_bucket_get(const struct tsdb_bucket_copy *c, struct err *e) MUST_USE;

/* Registers the metrics table; gauges are of this database. */
void tsdb_register_metrics(struct tsdb *db);

struct tsdb_stats {
	uint64_t partitions, series, head_series, head_windows, head_bytes, dictionary_bytes, parts;
	uint64_t head_log_bytes, disk_bytes; /* disk_bytes: of the partitions */
	uint64_t appended_profiles, appended_samples, appended_floats;
	uint64_t lost_records, lost_symbols;
	uint64_t holes;                      /* ranges of time in which data is lost (tsdb/log/holes.h) */
	uint64_t first_record, last_record;
	uint64_t cache_bytes;                /* block cache in use */
	uint64_t loaded;                     /* partitions whose dictionary is in memory; series counts those alone */
	uint64_t sealing_bytes;              /* memory of the part that is being written */
	uint64_t head_log_memory;            /* memory of what of the log is not in a file yet */
	uint64_t table_bytes;                /* memory of the indexes of the partitions' files */
	uint64_t part_index_bytes;           /* memory of the lists of series of all parts */
	size_t notes, notes_bytes;           /* keys and values */
	uint64_t tombstones;                 /* deleted ranges of series that still take space */
	int64_t min_t_ms, max_t_ms;          /* 0, 0 if there is nothing */
};
void tsdb_stats(struct tsdb *db, struct tsdb_stats *ret);
void tsdb_clock(struct tsdb *db, struct admin_clock *ret);

#endif
