/* SPDX-License-Identifier: Apache-2.0 */
/* A day whose data is in the bucket alone, as queries read it. The directory bucket/cache/DAY-EPOCH-NUMBER (of another server
 * bucket/cache/DAY-EPOCH-NUMBER-ID) has RocksDB's list of the day's files, and
 * of each file the runs that queries have fetched (cached_file.h). Its series, parts and deletes come from the generation. No rows are added to
 * it. */
#ifndef PYRRHA_TSDB_CACHED_DAY_H
#define PYRRHA_TSDB_CACHED_DAY_H

#include "model/source.h"
#include "tsdb/cached/cached_fetch.h"
#include "tsdb/cached/cached_server.h"

/* What is read of one generation of a day. Immutable; days that differ in what is hidden of them share it. */
struct cached_store {
	atomic_int refs;                 /* changed under the lock of its list, as the next */
	struct cached_stores *list;
	const struct cached_server *server;
	uint32_t day;
	struct object_stamp stamp;
	struct cached_dir *dir;
	VEC(struct cached_file *) files; /* of parts, as the generation has them */
	struct cached_file *symbols;     /* NULL: the parts have them */
};

/* All that there are: a directory has one store, unless it is lost. */
struct cached_stores {
	struct mutex lock;
	VEC(struct cached_store *) v;
};

struct cached_day {
	struct partition_origin origin;  /* the first field; filled in once it is open */
	atomic_int refs;
	struct tsdb *tsdb;
	struct cached_server *server;    /* whose day it is; borrowed */
	uint32_t day;
	struct partition *p;             /* all views of this day have the same */
	struct mutex lock;               /* held while it is opened */
	atomic_bool open;
	bool told;                       /* the log has why it could not be opened; under lock */
	struct cached_stores *stores;
	struct cached_store *store;      /* as the next, once it is open */
	int64_t next_hidden_ms;          /* retention by selector hides more at this time; INT64_MAX = never */
	unsigned long long hidden_number; /* the server's hidden_number when it was opened */
	atomic_llong used_mono_ms;
};

struct cached_day *cached_day_new(struct cached_server *s, uint32_t day, struct cached_stores *stores);
struct cached_day *cached_day_ref(struct cached_day *d);
void cached_day_unref(struct cached_day *d);
/* Reads the newest generation of the day and fills in origin. ERR_NOT_FOUND: the bucket has nothing of the day any more; ERR_CORRUPT: the
 * generation is damaged. */
int cached_day_open(struct cached_day *d, struct err *e) MUST_USE;
/* Whether its stacks can be loaded; if not what they need is wanted. Of an open one. */
bool cached_day_need_stacks(struct cached_day *d);
/* Notes what it lacks in (after, until]. */
void cached_day_note_lacks(struct cached_day *d, int64_t after_ms, int64_t until_ms, struct source_damage *damage);
/* Its files of which something is wanted and not here; appended. */
struct cached_files {
	VEC(struct cached_file *) v;
};
void cached_day_list_lacks(struct cached_day *d, struct cached_files *ret);
/* How many references there are to stores of a generation. */
int cached_stores_refs(struct cached_stores *l, const struct cached_server *s, uint32_t day, struct object_stamp stamp) REQUIRES(l->lock);

#endif
