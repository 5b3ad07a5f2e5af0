/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by partition_db.c (the database of a partition), part.c (keys, values and headers), part_write.c and part_list.c (the list of
 * parts). */
#ifndef PYRRHA_TSDB_PART_PRIVATE_H
#define PYRRHA_TSDB_PART_PRIVATE_H

#include "base/lock.h"
#include "tsdb/part/part.h"

/* The newest versions of values. */
#define VALUE_VERSION 1
#define HEADER_VERSION 2 /* 1 had one kind of keys for all streams of detail */
#define INDEX_VERSION 2 /* 1 had no aggregates */
#define ROLLUP_VERSION 2 /* 1 had no bytes */
#define SYMBOLS_VERSION 2 /* 1 had rows */
#define PLACES_VERSION 2 /* of detail: of stream 0 that says where the places are; all else has 1 */
#define KEY_LEN 15
#define PARTITION_DB_WAS "was" /* the file that has partition_db.was */
#define OPEN_TRIES 3
#define OPEN_WAIT_MS 100

struct partition_db {
	atomic_int refs;
	char *dir;
	rocksdb_t *db;
	rocksdb_options_t *options, *small; /* small: to write files of small values */
	rocksdb_readoptions_t *read;
	rocksdb_envoptions_t *env;
	atomic_bool dropped;  /* its directory goes */
	atomic_bool moved;    /* and is renamed already */
	struct mutex parts_lock;
	VEC(struct part *) parts; /* that there are, retired ones too */
	atomic_uint next_file;
	atomic_ullong *count_lost; /* NULL: not counted */
	char *aside;          /* where damaged files are kept: DAY.bad-STAMP; NULL: there was none */
	bool repaired;        /* some of aside could not be ingested when the list of files was rebuilt */
	uint32_t next_number; /* above all parts found, readable or not */
	char identity[64];    /* what RocksDB calls it; "" = it could not be read */
	char *was;            /* identities of the databases that it was rebuilt from, a line each; NULL = it was not */
	const struct part_keeper *keeper; /* while it is opened; NULL = none */
	bool look_only;       /* nothing may be written */
	atomic_bool bare_is_open; /* partition_db_open_bare has opened it */
	atomic_bool bare_is_closed; /* it was, until partition_bare.c closed it: whoever reads it opens it again */
	size_t bare_files;    /* descriptors that it may hold while it is open */
	atomic_bool read_only; /* it could not be opened for writing (its disk is full, say), or a write failed */
	struct rwlock open_lock; /* read: db does not change; written by partition_db_reopen, after which it may be NULL */
};

void part_make_key(char k[KEY_LEN], enum part_level level, uint32_t window, uint32_t part, enum part_kind kind,
		   uint32_t series, uint8_t stream);
/* The kind in a value's key. one_kind: the part is older than streams of detail with separate kinds. */
enum part_kind part_key_kind(bool one_kind, enum part_kind kind, uint8_t stream);
/* A big-endian number of a key. */
uint32_t part_key_word(const char *p);
/* The newest version of a kind. */
uint8_t part_version_of(enum part_kind kind);

/* The database does not change until partition_db_leave. ERR_IO: it is closed after an error. */
int partition_db_enter(struct partition_db *d, struct err *e) MUST_USE;
void partition_db_leave(struct partition_db *d);
/* Opens it. NULL: it cannot be opened, not even for reading. open_first is for the first time of a process. */
rocksdb_t *partition_db_open_rocks(struct partition_db *d, struct err *e);
rocksdb_t *partition_db_open_first(struct partition_db *d, struct err *e);
/* A database of a cached day is open, and may hold so many files open; others may be closed for it. With its open_lock. */
void partition_bare_add(struct partition_db *d, size_t files);
/* It is about to be freed. */
void partition_bare_remove(struct partition_db *d);
/* With the last reference, or where it could not be opened. */
void partition_db_free(struct partition_db *d);

/* The database knows the part until it is freed. */
void part_know(struct part *p);
/* The part's file goes, also where it was set aside. With the database held open. */
void part_remove_file(const struct part *p);
/* RocksDB's list is without the part's file, which it removes. With the database held open. */
void part_forget_file(const struct part *p);
/* Where its file is once it was set aside. Returns owned. */
char *part_aside(const struct part *p);
/* The file becomes that of the part with this key. If the file of another part prevents it because it is damaged, that one is set aside. Under
 * seal_lock, or before threads. With the database held open. */
int part_ingest(struct partition_db *d, enum part_level level, uint32_t window, uint32_t number, const char *file, struct err *e) MUST_USE;
/* The payload of a value; ERR_CORRUPT: it fails its checksum, or is of a newer program. */
int part_open_value(const char *key, const char *v, size_t len, struct view *ret, struct err *e) MUST_USE;
/* Decodes a header or an index into p. */
int part_parse_header(struct part *p, struct view v, struct err *e) MUST_USE;
int part_parse_index(struct part *p, struct view v, uint8_t version, struct err *e) MUST_USE;
/* As part_put, of a version that the caller knows. */
int part_put_version(struct part_writer *w, enum part_kind kind, uint32_t series, uint8_t stream, uint8_t version, struct view payload,
		     struct err *e) MUST_USE;
/* The path of the part's file, also if it was set aside; NULL: there is none. With the database held open. Returns owned. */
char *part_file(const struct part *p);
/* Header and index. */
int part_read_head(struct part *p, struct err *e) MUST_USE;

#endif
