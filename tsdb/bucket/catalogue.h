/* SPDX-License-Identifier: Apache-2.0 */
/* What the bucket has of a server: the newest generation of each day. In memory a summary; the generations themselves lie in
 * bucket/days/ of the storage's directory, or bucket/others/ID/, a file each, so that a start knows them while the bucket is away.
 *
 * The uploader's thread changes it, for other servers the thread that looks for their days, and whoever opens the storage before that; any
 * thread reads it, under the lock. */
#ifndef PYRRHA_TSDB_CATALOGUE_H
#define PYRRHA_TSDB_CATALOGUE_H

#include <stdatomic.h>

#include "base/lock.h"
#include "tsdb/bucket/generation.h"

#define CATALOGUE_DAYS_MAX 100000
#define CATALOGUE_IDENTITY_MAX 64

/* A part that is up. */
struct catalogue_part {
	uint8_t level;
	uint32_t window, number;
	struct generation_object object;
	uint64_t last_record;          /* of the head log, that it covers; 0 = none, as of a rollup */
};

struct catalogue_day {
	uint32_t day;
	char id[SERVER_ID_MAX + 1];    /* of the server whose generation it is */
	enum generation_kind kind;     /* a day, or gone */
	struct object_stamp stamp;     /* of its newest generation; epoch 0: there is none in the bucket */
	struct object_stamp deletes;   /* as in the generation */
	/* The IDENTITY of the local database whose part numbers are those of `parts`; "" = of none, and a part is known by its hash alone. */
	char identity[CATALOGUE_IDENTITY_MAX];
	bool doomed;                   /* retention by size has passed it: it is to go */
	bool away;                     /* local retention let it go: it is in the bucket alone, on purpose */
	bool unwritten;                /* its file could not be written */
	bool finished;
	VEC(struct catalogue_part) parts; /* by level, window, number */
	struct generation_object symbols;
	uint64_t facts_hash;           /* of the facts; equal: the same deletes */
	uint64_t names_hash;           /* of those that are late names */
	uint64_t bytes;                /* of all objects */
	int64_t min_ms, max_ms;        /* stamps; min > max: none */
	int64_t written_ms;
	uint64_t last_record;
	uint32_t next_part;
};

struct bucket_catalogue {
	char *dir;                     /* PATH/bucket/days, or PATH/bucket/others/ID */
	bool of_other;                 /* the days are another server's: they are only read here, so the list `parts` of each stays empty */
	struct rwlock lock;
	VEC(struct catalogue_day) days; /* by day */
	atomic_uint n_absent;          /* days that are in the bucket and not in partitions/ */
	VEC(uint32_t) absent;          /* these, ascending */
};

/* dir: taken. */
void catalogue_init(struct bucket_catalogue *c, char *dir, bool of_other);
void catalogue_release(struct bucket_catalogue *c);
/* Reads the local files. One that is damaged is left out, and told in the log: the bucket has it. */
int catalogue_read(struct bucket_catalogue *c, struct err *e) MUST_USE;
/* The place of a day, or NULL. Under the lock, for reading or writing. */
struct catalogue_day *catalogue_find(struct bucket_catalogue *c, uint32_t day) REQUIRES_SHARED(c->lock);
/* A generation of a day is the newest now: replaces what is known of the day, in memory and in its file. bytes: the object. identity: of the
 * local database that it was made of, "" = none. away: see catalogue_day. After an error the memory has it, and the file has not. */
int catalogue_put(struct bucket_catalogue *c, const struct generation *g, struct view bytes, const char *identity, bool away, struct err *e) MUST_USE;
/* Another identity, or `away`, of a day that it has. */
int catalogue_set(struct bucket_catalogue *c, uint32_t day, const char *identity, bool away, struct err *e) MUST_USE;
/* Forgets the days of other ids: the directory has taken a new one. */
void catalogue_keep_id(struct bucket_catalogue *c, const char *id);
/* Forgets a day: the bucket has nothing of it any more. */
void catalogue_drop(struct bucket_catalogue *c, uint32_t day);
/* The object of a day's newest generation, as in its file, which may be damaged or older than the memory; appended to b. ERR_NOT_FOUND. */
int catalogue_bytes(struct bucket_catalogue *c, uint32_t day, struct buf *b, struct err *e) MUST_USE;

/* Of the absent days that are not doomed: *ret_total is the size of all together, *ret_day the oldest one, *ret_bytes its size. False: there is no
 * such day. */
bool catalogue_oldest_absent(struct bucket_catalogue *c, uint64_t *ret_total, uint32_t *ret_day, uint64_t *ret_bytes);
/* Retention by size has passed an absent day: the next round puts `gone` for it. */
void catalogue_doom(struct bucket_catalogue *c, uint32_t day);

/* Which days of the bucket are not on this disk. */
void catalogue_set_absent(struct bucket_catalogue *c, const uint32_t *days, size_t n);
void catalogue_add_absent(struct bucket_catalogue *c, uint32_t day);
/* Whether that day is one of these: it takes nothing in, and answers about it are not complete. Any thread, cheap where there are none. */
bool catalogue_is_absent(struct bucket_catalogue *c, uint32_t day);
/* Calls fn, under the lock, for each day of the bucket that has stamps in (after, until], whether it is here or not. */
void catalogue_each(struct bucket_catalogue *c, int64_t after_ms, int64_t until_ms, void (*fn)(void *arg, const struct catalogue_day *d), void *arg);
/* Whether a day that is not here is in the bucket: it is to be fetched, or local retention let it go. Else the storage dropped it. */
static inline bool catalogue_day_is_absent(const struct catalogue_day *d)
{
	return d->kind == GENERATION_DAY && (d->away || !d->identity[0]);
}


/* Hashes of facts, for facts_hash and names_hash. */
void catalogue_hash_facts(const struct generation *g, uint64_t *ret_facts, uint64_t *ret_names);

#endif
