/* SPDX-License-Identifier: Apache-2.0 */
/* A partition's database on disk and the sealed parts in it. It is written only by ingesting finished files; its keys, big-endian, are
 *
 *	level u8 | window u32 | part u32 | kind u8 | series u32 | stream u8
 *
 * so that a part is one contiguous range, one file, one atomic ingest. A value is version u8 | payload | checksum u64
 * (XXH3 of what precedes it, seeded with the hash of its key). Reads come from any thread. */
#ifndef PYRRHA_TSDB_PART_H
#define PYRRHA_TSDB_PART_H

#include <stdatomic.h>

#include "base/err.h"
#include "base/map.h"
#include "tsdb/disk/rocks.h"
#include "tsdb/part/sealed.h"

enum part_level { LEVEL_HOUR = 0, LEVEL_6H = 1, LEVEL_DAY = 2, LEVELS };
enum part_kind { PART_HEADER = 0, PART_SYMBOLS = 1, PART_INDEX = 2, PART_TOTALS = 3, PART_ROLLUP = 4, PART_DETAIL = 5,
		 PART_FLOATS = 6,
		 /* Only in keys, for PART_DETAIL's streams 1 and 2: similar data is adjacent, also if values are small. */
		 PART_DETAIL_1 = 7, PART_DETAIL_2 = 8,
		 PART_NAMES = 9, /* of a rollup of a day: names of its stacks (dict_names.h) */
		 PART_KINDS };

/* Windows of a level in hours. */
static inline int64_t level_hours(enum part_level l)
{
	return l == LEVEL_HOUR ? 1 : l == LEVEL_6H ? 6 : 24;
}

struct partition_db;

/* Directories in partitions/ with this suffix were dropped and are being removed. */
#define PARTITION_DB_GONE ".gone"
/* Directories with this suffix are being rebuilt (partition_repair.c). */
#define PARTITION_DB_NEW ".new"
/* Directories with this suffix are being made of fetched files; a crash leaves nothing of use in them. */
#define PARTITION_DB_MAKING ".making"
/* Behind it is a time: the directory beside it that keeps files of it that are damaged. */
#define PARTITION_DB_BAD ".bad-"
/* In a partition: damaged files of parts that RocksDB's list does not have any more (part_ingest.c). */
#define PARTITION_DB_ASIDE ".aside"
/* A part's file before it is ingested. */
#define PARTITION_DB_UNFINISHED ".part"

/* A part's data about one series: its bounds, relative to the window's start. */
struct part_series {
	uint32_t series;
	uint32_t min_ms, max_ms;
	uint32_t aggregate;   /* 0, or one more than the number of the part's aggregate that sums it up */
	bool is_float;
};

/* An aggregate is stored like a series, under this bit and its number in the part: at LEVEL_HOUR one profile a minute,
 * stamped at the minute's end; in a rollup only sums. */
#define PART_AGGREGATE UINT32_C(0x80000000)
#define PART_AGGREGATE_MS INT64_C(60000)

/* Of a part whose file is not whole on this disk (tsdb/cached): it knows which values can be read. Any thread. */
struct part_lack {
	/* Whether the values of a kind, as keys have it, of series or of aggregates, can be read. ERR_UNAVAILABLE: they are not here; now they are
	 * wanted. */
	int (*need)(struct part_lack *l, enum part_kind kind, bool aggregates, struct err *e);
	/* To be called after a value was read and found damaged. Compares the bytes on this disk with the hashes of the bucket. ERR_UNAVAILABLE: this disk has spoiled them, and they are noted as wanted; 0: the bucket has the same bytes. */
	int (*recheck)(struct part_lack *l, enum part_kind kind, bool aggregates, struct err *e);
	/* The payload of PART_TOTALS of an aggregate, if it is known without the file. Valid as long as the part. */
	bool (*totals)(struct part_lack *l, uint32_t aggregate, struct view *ret);
	/* The payload of its covers (part_cover.h), if it is known without the file; it has been checked. Valid as long as the part. */
	bool (*covers)(struct part_lack *l, struct view *ret);
	/* The same of the first and last profiles of its series (part_ends.h). */
	bool (*ends)(struct part_lack *l, struct view *ret);
	void (*release)(struct part_lack *l);
};

/* Immutable; valid as long as a pstate lists it. */
struct part {
	atomic_int refs;
	struct partition_db *db;       /* reference held */
	struct part_lack *lack;        /* NULL: its file is whole */
	enum part_level level;
	uint32_t window;      /* number of its level's window: stamps in (window, window + 1] * level_hours */
	uint32_t number;
	/* The number of the part that it was rewritten from; its own if none. Of several with one origin the newest counts. Symbols are read
	 * in the order of origins. */
	uint32_t origin;
	uint32_t returns;     /* how often its file was replaced by a copy since the start */
	atomic_bool retired;  /* its file goes with the last reference */
	bool damaged;         /* could not be rewritten; for the sealer only */
	/* Its file is damaged or missing here, and a bucket has it whole: nothing replaces the part before that was fetched. Changed under seal_lock, as
	 * the next. */
	atomic_bool awaits;
	atomic_llong kept_day_mono_ms; /* since when its day does not go up because its file is missing; 0 = it does */
	atomic_bool given_up; /* the bucket does not have it either */
	atomic_bool set_aside; /* its file was damaged and is out of RocksDB's list (part_ingest.c): the bucket's copy or the next start mends it */
	atomic_bool no_sums;  /* its aggregates, or all of a rollup, do not count: one of them is damaged, and its series or hours answer */
	atomic_bool no_names; /* it has no names of stacks that are of use, as a reader has seen */
	struct map bad;       /* series of which a value could not be read (damage.h); under the database's parts_lock, as the next */
	uint32_t n_bad;
	bool one_kind;        /* its detail has one kind of keys, as in older ones */
	uint64_t first_record, last_record; /* of the log, that it covers */
	uint64_t bytes;       /* of its file */
	uint64_t samples;
	uint64_t lost;        /* values that it, or what it was made of, had and that could not be read any more when it was written */
	VEC(uint32_t) sums;   /* by number: the parts that a rollup sums up, that an hour's part replaces */
	VEC(struct part_series) series; /* by id */
	VEC(uint32_t) aggregates;       /* of each: how many of the series it sums up; 0 = it was left out */
	_Atomic(struct part_covers *) covers; /* what is known of its series' profiles (part_cover.h); NULL = nobody has asked */
	_Atomic(struct part_ends *) ends;     /* the first and last of them (part_ends.h); NULL = nobody has asked */
};

struct part *part_ref(struct part *p);
void part_unref(struct part *p);
/* Its file goes with the last reference. */
void part_retire(struct part *p);
/* Bounds of a series, NULL if the part does not have it. */
const struct part_series *part_find(const struct part *p, uint32_t series);
static inline int64_t part_start_ms(const struct part *p)
{
	return (int64_t)p->window * level_hours(p->level) * HOUR_MS;
}
static inline int64_t part_end_ms(const struct part *p)
{
	return ((int64_t)p->window + 1) * level_hours(p->level) * HOUR_MS;
}

/* Who knows of copies of parts elsewhere. */
struct part_keeper {
	/* Whether there is a copy of a part of an hour that cannot be read here: then it is not rewritten from its readable values, but listed without
	 * series, and awaits the copy. */
	bool (*keeps)(void *arg, const struct part *p);
	void *arg;
};

/* Opens or makes dir. keeper may be NULL, and is borrowed for the call. The parts found are listed by level, window and number, each with a reference; what cannot be
 * read is left out and counted in *ret_lost. A readable but not writable one is opened read-only; with look_only nothing is written
 * anyway. */
int partition_db_open(struct partition_db **ret, const char *dir, rocksdb_cache_t *cache, bool look_only, const struct part_keeper *keeper,
		      struct part ***parts, size_t *n, uint64_t *ret_lost, struct err *e) MUST_USE;
/* A database over a directory that has RocksDB's list of files, and of these files some or none. It serves to read values of parts that part_make
 * made. partition_db_open_bare opens it, and must have succeeded before a value is read; it may be called again. */
struct partition_db *partition_db_new_bare(const char *dir, rocksdb_cache_t *cache);
int partition_db_open_bare(struct partition_db *d, struct err *e) MUST_USE;
/* For tests: how many files all such databases together may hold open; 0 = a quarter of the process's descriptors. */
void partition_db_limit_bare(size_t files);
/* A part of a database, of the payloads of its header and its index. one_kind: see struct part. lack is taken, also after an error.
 * ERR_CORRUPT: they are malformed. */
int part_make(struct part **ret, struct partition_db *d, enum part_level level, uint32_t window, uint32_t number, struct view header,
	      struct view index, bool one_kind, struct part_lack *lack, struct err *e) MUST_USE;
/* Whether part_get could read a value now. ERR_UNAVAILABLE: it is not on this disk; the call has noted that it is wanted. */
int part_need(const struct part *p, enum part_kind kind, uint32_t series, uint8_t stream, struct err *e) MUST_USE;
/* Damage found later is added to *count, which lives as long as the database. */
void partition_db_count_lost(struct partition_db *d, atomic_ullong *count);
/* Rebuilds a partition from its files. Files that could not be ingested are kept in *ret_aside, a directory (owned; untouched if all
 * could). */
int partition_repair(const char *dir, char **ret_aside, struct err *e) MUST_USE;
/* For one that was found beside it at start. */
void partition_repair_finish(const char *new_dir);
/* Makes a database of the files (NUMBER.sst) of another directory, which stay there: links are ingested. dir must not exist; after a crash it
 * is there as a whole or not at all. ERR_CORRUPT: one of them cannot be taken in. */
int partition_db_make_of(const char *from, const char *dir, struct err *e) MUST_USE;
struct partition_db *partition_db_ref(struct partition_db *d);
void partition_db_unref(struct partition_db *d);
/* Removes a partition's directory as a whole: after a crash in between it is not opened again. */
int partition_db_remove(const char *dir, struct err *e) MUST_USE;
/* Its directory goes with the last reference. */
void partition_db_drop(struct partition_db *d);
/* Renames its directory at once, and syncs that: it is not opened again. Reading it may fail from here on. */
int partition_db_move_away(struct partition_db *d, struct err *e) MUST_USE;
/* Marks a directory for removal as soon as the head log records its partition as deleted, by a record numbered `from` or later;
 * without that it has no effect. partition_drop.c explains why. */
int partition_db_put_mark(struct partition_db *d, uint64_t from, struct err *e) MUST_USE;
void partition_db_remove_mark(const char *dir);
/* Removes a directory that has one, if it is there; the next one of its name is left alone. */
int partition_db_remove_marked(const char *dir, struct err *e) MUST_USE;
/* Whether there is one; ret_from may be NULL. */
bool partition_db_has_mark(const char *dir, uint64_t *ret_from);
const char *partition_db_dir(const struct partition_db *d);
/* Whether only this many parts and their partition hold it. */
bool partition_db_is_alone(const struct partition_db *d, size_t n_parts);
uint64_t partition_db_bytes(struct partition_db *d);
/* Memory of the indexes of its open files, which are not in the block cache. */
uint64_t partition_db_table_memory(struct partition_db *d);
int partition_db_snapshot(struct partition_db *d, const char *dir, struct err *e) MUST_USE;
/* A file of the database, which is a part. */
struct partition_file {
	enum part_level level;
	uint32_t window, number; /* of the part */
	uint64_t file;           /* RocksDB's number: its name is that in six digits or more, and .sst */
	uint64_t bytes;
};
/* Calls fn for each. */
int partition_db_each_file(struct partition_db *d, int (*fn)(void *arg, const struct partition_file *f, struct err *e), void *arg,
			   struct err *e) MUST_USE;
/* RocksDB's identity of the database: another one after it was made anew. */
int partition_db_identity(struct partition_db *d, char *ret, size_t len, struct err *e) MUST_USE;
/* Whether its part numbers are those of the database with that identity: it is the same one, or was rebuilt from it. */
bool partition_db_is_of(const struct partition_db *d, const char *identity);
/* Whether nothing can be sealed into it: it could be opened for reading only, or a write failed, after which RocksDB takes
 * no more. */
bool partition_db_read_only(const struct partition_db *d);
/* Closes such a one and opens it again, once no reader is left (without success if that takes long). Files of unknown parts are
 * remains of a failed write, and are removed. */
int partition_db_reopen(struct partition_db *d, struct err *e) MUST_USE;
/* A number above those of all parts found at open. */
uint32_t partition_db_next_number(const struct partition_db *d);

/* ---- a part whose file is damaged or missing, and of which there is a copy elsewhere ---- */

/* Stands for the part until its file is there: it awaits it, and has the header and the index of the copy (payloads of the newest versions; if they
 * are malformed it has no series). Returns owned. */
struct part *part_stand_in(struct partition_db *d, uint32_t window, uint32_t number, struct view header, struct view index);
/* Puts the file in the place of the one that the part has, if it has one; takes the file, unless there is an error. The part is read anew. Under
 * seal_lock, or before threads. After an error the part has either file or none. */
int part_put_back(const struct part *old, const char *file, struct part **ret, struct err *e) MUST_USE;
/* There is no copy after all: rewrites the part from its readable values. *ret takes its place. Before threads. */
int part_salvage(const struct part *p, struct part **ret, struct err *e) MUST_USE;
/* Whether one of these parts replaces it. */
bool part_is_superseded(const struct part *p, struct part *const *all, size_t n);
/* Whether values of it could not be read. */
bool part_has_damage(struct part *p);

/* One value: pinned until released. A missing one is ERR_NOT_FOUND. */
struct part_value {
	rocksdb_pinnableslice_t *pin;
	struct partition_db *db; /* kept open while it is pinned */
	struct view payload;
	uint8_t version;
};
int part_get(const struct part *p, enum part_kind kind, uint32_t series, uint8_t stream, struct part_value *ret,
	     struct err *e) MUST_USE;
void part_value_release(struct part_value *v);
/* PART_SYMBOLS as they lie: *ret_packed says whether in columns, as dict_apply_packed takes them, or in rows. */
int part_open_symbols(const struct part *p, struct part_value *ret, bool *ret_packed, struct err *e) MUST_USE;
/* The same in rows, as dict_apply takes them, appended to rows. */
int part_get_symbols(const struct part *p, struct buf *rows, struct err *e) MUST_USE;

/* The bytes this thread has read since a query last took the sum (limits_check). */
struct read_tally {
	uint64_t chunks, bytes;
};
extern _Thread_local struct read_tally read_tally;

static inline void read_tally_add(size_t bytes)
{
	read_tally.chunks++;
	read_tally.bytes += bytes;
}

/* For one thread that reads many values of one kind, ascending: keeps its position, so that the next one is near. Its result is valid
 * until its next use. Free it before the parts it was used on. */
struct part_reader {
	struct partition_db *db; /* borrowed; kept open */
	rocksdb_iterator_t *it;
	uint8_t version; /* of the value it gave last */
	struct part_value value; /* that one, where the iterator did not get to it */
};
int part_reader_get(struct part_reader *r, const struct part *p, enum part_kind kind, uint32_t series, uint8_t stream,
		    struct view *ret, struct err *e) MUST_USE;
void part_reader_release(struct part_reader *r);
#define PART_VALUE CLEANUP(part_value_release) struct part_value

/* ---- writing a part: values in order of their keys, then finish ingests them as one ---- */

struct part_writer;
/* n_bytes: of all values together, about; n_values: how many. If they are small, as those of many small series, more of them share a
 * block, and zstd works harder. */
int part_writer_new(struct part_writer **ret, struct partition_db *d, enum part_level level, uint32_t window, uint32_t number,
		    uint64_t n_bytes, uint64_t n_values, struct err *e) MUST_USE;
int part_put(struct part_writer *w, enum part_kind kind, uint32_t series, uint8_t stream, struct view payload, struct err *e) MUST_USE;
/* PART_DETAIL's stream 0 of a series whose samples have the same places as those of another: it names that one, and there is no stream
 * 1. */
int part_put_places(struct part_writer *w, uint32_t series, uint32_t of, struct err *e) MUST_USE;
/* The series whose streams 0 and 1 apply, from stream 0: itself or that other one. False: it is malformed. */
bool part_places_of(uint8_t version, struct view stream, uint32_t *series);
/* PART_SYMBOLS, from what dict_encode gives. */
int part_put_symbols(struct part_writer *w, struct view rows, struct err *e) MUST_USE;
/* Fills in bytes; p->db gets a reference. Frees the writer. */
int part_writer_finish(struct part_writer *w, struct part *p, struct err *e) MUST_USE;
void part_writer_abort(struct part_writer *w);
/* Payloads of PART_HEADER and PART_INDEX. */
void part_put_header(struct buf *b, const struct part *p);
void part_put_index(struct buf *b, const struct part *p);

#endif
