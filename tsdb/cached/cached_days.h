/* SPDX-License-Identifier: Apache-2.0 */
/* Which days queries read in the bucket, and the directory bucket/cache, which keeps what they fetched. */
#ifndef PYRRHA_TSDB_CACHED_DAYS_H
#define PYRRHA_TSDB_CACHED_DAYS_H

#include "model/admin.h"
#include "tsdb/cached/cached_day.h"

struct cached_days;

/* Before any view is opened; the storage has a bucket. own: this server itself; borrowed. */
void cached_days_start(struct tsdb *db, struct cached_server *own);
/* One more server whose days are read; borrowed until cached_days_stop. Its number is set here. Any thread. */
void cached_days_add_server(struct tsdb *db, struct cached_server *s);
/* The servers, by number; NULL: there are no more. */
struct cached_server *cached_days_server(struct tsdb *db, size_t i);
/* Once there is no view any more, and calls of the bucket end. */
void cached_days_stop(struct tsdb *db);
/* A day that is in the bucket and not on this disk, as it is now: what deletes and retention hide, the newest generation. Not open yet, as a
 * rule. Returns owned. Any thread; cheap. */
struct cached_day *cached_days_get(struct cached_server *s, uint32_t day, struct object_stamp newest);
/* Files of a day that a query has ordered from the bucket. */
struct cached_order_day {
	const struct cached_day *day;
	size_t first, n;                /* of the order's files; n = 0: they have been waited for */
};

/* All that a query has ordered. The files are borrowed from its days. */
struct cached_order {
	struct cached_files files;      /* in the order of days */
	VEC(struct cached_order_day) days;
	int64_t until_mono_ms;          /* the query waits until then */
};

/* Begins to fetch what is wanted of these days, in their order. *ret is to be released, also where nothing was wanted. */
void cached_days_order(struct tsdb *db, struct cached_day *const *days, size_t n, const struct source_limits *lim, struct cached_order *ret);
/* Waits for what was ordered of a day, or of all (NULL): as cached_fetcher_wait. 0 at once where nothing was, or it was waited for before. */
int cached_order_wait(struct tsdb *db, struct cached_order *o, const struct cached_day *day, const struct source_limits *lim, struct err *e) MUST_USE;
/* Fetches go on. */
void cached_order_release(struct cached_order *o);
/* Forgets days that no query has used for long, takes dictionaries out of memory, and removes files: of generations that are not the newest, of days that
 * are on this disk again, and, while they are over their budget, the least recently used: first what has samples, sums and symbols last. Every few seconds, by the sealer; it measures the directory every ten
 * seconds, or if `measure`. */
void cached_days_tidy(struct tsdb *db, bool measure);
/* Bytes on this disk. */
uint64_t cached_days_bytes(struct tsdb *db);
/* Counts of requests, bytes and failures of queries' fetches since the start. NULL: the storage has no bucket. */
const struct cached_counts *cached_days_counts(struct tsdb *db);
/* Fills in the cache_ and read fields of the status. */
void cached_days_status(struct tsdb *db, struct admin_bucket *ret);
/* Memory of dictionaries and indexes of these days. */
size_t cached_days_memory(struct tsdb *db);
/* Memory of the indexes of their parts, and of what is known of these without their files. */
size_t cached_days_index_bytes(struct tsdb *db);

#endif
