/* SPDX-License-Identifier: Apache-2.0 */
/* A file of the cache: the object of a part, or the symbols of a day, of which this disk has some runs. It has its full length and holes.
 *
 *	NNNNNN.data   until this process has held its tail against its hash: RocksDB must not open it before, as damage of a tail may end the process
 *	NNNNNN.sst    from then on
 *	NNNNNN.runs   which runs are there
 *	symbols       all of a dictionary; it is one run
 *
 * Nothing is synced: what a power loss takes fails its checksum when it is read, and is fetched again. */
#ifndef PYRRHA_TSDB_CACHED_FILE_H
#define PYRRHA_TSDB_CACHED_FILE_H

#include <stdatomic.h>

#include "base/lock.h"
#include "model/objects.h"
#include "tsdb/bucket/generation.h"
#include "tsdb/part/part.h"

#define CACHED_RUNS_MAX 32

/* What is counted of all reading from the bucket. */
struct cached_counts {
	atomic_ullong requests, bytes, failures;
};

/* What a fetch of a file came to. */
struct cached_cost {
	uint64_t requests, bytes;
};

struct cached_file {
	struct part_lack lack;             /* the first field: the part points to it */
	atomic_int refs;
	char *dir;                         /* of the day */
	char name[24];                     /* of the file, without its suffix */
	char key[OBJECT_NAME_MAX];         /* of the object */
	uint64_t size;                     /* bytes */
	bool whole;                        /* symbols: one run, held against the object's hash */
	uint8_t sha256[SHA256_LEN];
	VEC(struct part_run) runs;         /* the tail is the last */
	uint32_t bit_of[2][256];           /* [aggregates][kind] -> the run's bit; 0 = there is no such value */
	atomic_uint have, wanted;          /* bits of runs */
	struct mutex lock;                 /* of `noted` */
	unsigned noted;                    /* bits of runs that an earlier process has left, before the tail was held against its hash */
	struct partition_db *db;           /* of the day: opened with the first run that is here; NULL of symbols. Borrowed */
	struct buf known;                  /* totals of aggregates, */
	VEC(uint32_t) known_ends;          /* by number: where each ends */
	atomic_ullong *skips;              /* a counter of the day: reads that needed bytes which are not on this disk */
	/* Of the fetcher (cached_fetch.h), under its lock. */
	bool queued;
	struct err error;                  /* why the last fetch failed; code 0: it did not */
	struct cached_cost cost;           /* of the last fetch */
};

/* Of a part. ERR_CORRUPT: its runs are malformed. Reads which of them are here. */
int cached_file_of_part(struct cached_file **ret, const char *dir, const struct generation *g, const struct generation_part *p,
			struct partition_db *db, atomic_ullong *skips, struct err *e) MUST_USE;
/* Of a day's symbols. */
struct cached_file *cached_file_of_symbols(const char *dir, const struct generation *g, atomic_ullong *skips);
struct cached_file *cached_file_ref(struct cached_file *f);
void cached_file_unref(struct cached_file *f);
/* The runs that are wanted and not here, as bits. */
static inline unsigned cached_file_lacks(struct cached_file *f)
{
	return atomic_load(&f->wanted) & ~atomic_load(&f->have);
}
/* Fetches these. Blocking; one thread at a time. *ret is filled in also after an error. ERR_CORRUPT: what the bucket has is not what the generation
 * says. */
int cached_file_fetch(struct cached_file *f, struct objects *o, struct cached_cost *ret, struct err *e) MUST_USE;
/* Of symbols: whether they are here; if not they are wanted. */
bool cached_file_need_symbols(struct cached_file *f);
/* Of symbols: appends them. ERR_UNAVAILABLE: they are not here, or spoiled; they are wanted. */
int cached_file_read_symbols(struct cached_file *f, struct buf *b, struct err *e) MUST_USE;

#endif
