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

/* A small file: CURRENT, MANIFEST-n, OPTIONS-n. */
struct cached_list_file {
	char name[64];
	struct buf bytes;
};

/* The directory of one generation of a day, and its database. What is fetched for it may outlast the day. */
struct cached_dir {
	atomic_int refs;
	char *path;
	struct partition_db *db;           /* opened with the first run that is here; reference held */
	struct mutex lock;                 /* of `list` and is_open; held while it is opened */
	VEC(struct cached_list_file) list; /* RocksDB's list of files, until it is open */
	bool is_open;
	atomic_ullong skips;               /* reads that needed bytes which are not on this disk */
	atomic_bool lost;                  /* files that were there are gone: the day begins a new one */
};

/* Copies RocksDB's list of files from the generation. Makes nothing on the disk yet. */
struct cached_dir *cached_dir_new(const char *path, const struct generation *g, rocksdb_cache_t *cache);
void cached_dir_unref(struct cached_dir *d);
/* Removes what is here of the hours of a day, the samples, and leaves sums and symbols. Nothing has the directory open. */
void cached_dir_shed_hours(const char *path);

#define CACHED_KINDS 16 /* above every enum part_kind of keys */

struct cached_file {
	struct part_lack lack;             /* the first field: the part points to it */
	atomic_int refs;
	struct cached_dir *dir;            /* reference held */
	char name[24];                     /* of the file, without its suffix */
	char key[OBJECT_NAME_MAX];         /* of the object */
	uint64_t size;                     /* bytes */
	unsigned level;                    /* enum part_level; LEVELS: symbols */
	bool whole;                        /* symbols: one run, held against the object's hash */
	uint8_t sha256[SHA256_LEN];
	VEC(struct part_run) runs;         /* the tail is the last */
	uint32_t bit_of[2][CACHED_KINDS];  /* [aggregates][kind] -> the run's bit; 0 = there is no such value */
	atomic_uint have, wanted;          /* bits of runs */
	struct mutex lock;                 /* of `noted` */
	unsigned noted;                    /* bits of runs that an earlier process has left, before the tail was held against its hash */
	struct buf known;                  /* totals of aggregates, */
	VEC(uint32_t) known_ends;          /* by number: where each ends */
	struct buf covers;                 /* what its series' profiles come to (part_cover.h); empty = not known */
	struct buf ends;                   /* the first and last of these profiles (part_ends.h); empty = not known */
	/* Of the fetcher (cached_fetch.h), under its lock. */
	bool queued;
	struct err error;                  /* why the last fetch failed; code 0: it did not */
	struct cached_cost cost;           /* of the last fetch */
};

/* Of a part. ERR_CORRUPT: its runs are malformed. Reads which of them are here. */
int cached_file_of_part(struct cached_file **ret, struct cached_dir *dir, const struct generation *g, const struct generation_part *p,
			struct err *e) MUST_USE;
/* Of a day's symbols. */
struct cached_file *cached_file_of_symbols(struct cached_dir *dir, const struct generation *g);
struct cached_file *cached_file_ref(struct cached_file *f);
void cached_file_unref(struct cached_file *f);
/* The runs that are wanted and not here, as bits. */
static inline unsigned cached_file_lacks(struct cached_file *f)
{
	return atomic_load(&f->wanted) & ~atomic_load(&f->have);
}
/* Fetches these. Blocking; one thread at a time. *ret is filled in also after an error. ERR_CORRUPT: what the bucket has is not what the generation
 * says; ERR_UNAVAILABLE: the disk has no room, or the directory is gone. */
int cached_file_fetch(struct cached_file *f, struct objects *o, struct cached_cost *ret, struct err *e) MUST_USE;
/* Of symbols: whether they are here; if not they are wanted. */
bool cached_file_need_symbols(struct cached_file *f);
/* Of symbols: appends them. ERR_UNAVAILABLE: they are not here, or spoiled; they are wanted. */
int cached_file_read_symbols(struct cached_file *f, struct buf *b, struct err *e) MUST_USE;

#endif
