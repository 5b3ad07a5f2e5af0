/* SPDX-License-Identifier: Apache-2.0 */
/* A generation: everything that names what a day of a server consists of in its bucket, as an object of its own (docs/format/bucket.md).
 * The newest of a day counts, by epoch and number; nothing else names objects. This is the codec: bytes in, bytes out.
 *
 * A reader needs no other object to know which series a day has, when, and in which bytes of which object a value lies. */
#ifndef PYRRHA_TSDB_GENERATION_H
#define PYRRHA_TSDB_GENERATION_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/sha256.h"
#include "base/vec.h"
#include "model/labels.h"
#include "model/ptype.h"
#include "tsdb/bucket/object_names.h"
#include "tsdb/part/part_runs.h"

#define GENERATION_MAX ((size_t)256 << 20) /* bytes, before zstd */
#define GENERATION_SERIES_MAX ((size_t)1 << 30) /* bytes of decoded series */
#define GENERATION_LISTS_MAX ((size_t)64 << 20) /* bytes of other decoded lists, without what they point to */
#define GENERATION_FILES_MAX 16
#define GENERATION_IDENTITY_MAX 64
#define GENERATION_EXTERNAL_MAX 64 /* external labels, and of all their names and values: */
#define GENERATION_EXTERNAL_BYTES 8192
/* So that a small object cannot take much memory, its body, its lists and its series may each have so many bytes for each of the object's, and these. */
#define GENERATION_RATIO 512
#define GENERATION_LEAST ((size_t)1 << 20)

enum generation_kind {
	GENERATION_DAY = 0,   /* a day and what it consists of */
	GENERATION_GONE = 1,  /* nothing is left of the day: retention dropped it, or all of it was deleted */
	GENERATION_FENCE = 2  /* of no day: it takes the next number of an older epoch, whose writer may still run, so that it cannot put another generation */
};

/* An object that a generation names. */
struct generation_object {
	struct object_stamp stamp;   /* its name, with the day; epoch 0 = there is none */
	uint64_t size;               /* bytes */
	uint8_t sha256[SHA256_LEN];
};

/* A part: a file of the day's database. */
struct generation_part {
	uint8_t level;               /* enum part_level */
	uint32_t window, number;     /* as in its keys */
	struct generation_object object;
	uint64_t file;               /* number of RocksDB's file, as in the day's MANIFEST */
	struct view header, index;   /* payloads of PART_HEADER and PART_INDEX, of the newest version */
	VEC(struct part_run) runs;
	VEC(struct view) totals;     /* payload of PART_TOTALS of each aggregate, by number; of a rollup none */
	struct view covers;          /* of an hour: what the profiles of each series come to (part_cover.h); empty = not known */
	struct view ends;            /* the first and last of these (part_ends.h); empty = not known, as without covers */
};

/* A small file of the day's database: CURRENT, MANIFEST-n, OPTIONS-n of one checkpoint. */
struct generation_file {
	struct view name, bytes;
};

/* A series of the day. Its id is its place in the list. */
struct generation_series {
	bool is_float;
	struct ptype type;           /* not of floats */
	struct labels labels;
	int64_t min_ms, max_ms;      /* its first and last stamp; min > max: it has none in parts */
};

/* A delete, late names, or (number 0) what retention by selector hides: a record's payload as in docs/format/head.md, facts. */
struct generation_fact {
	uint64_t number;
	struct view payload;
};

struct generation_note {
	struct view key, value;
	int64_t t_ms;
};

struct generation {
	enum generation_kind kind;
	char id[SERVER_ID_MAX + 1];
	uint32_t day;
	struct object_stamp stamp;     /* of itself */
	uint64_t by_epoch;             /* of a fence: the epoch that put it */
	int64_t written_ms;            /* the writer's wall clock */
	bool finished;                 /* the day is over and all that came of it is in parts */
	struct object_stamp deletes;   /* of the newest delete object that facts or parts have in them; 0, 0 = none */
	int64_t min_ms, max_ms;        /* stamps; min > max: none */
	uint32_t next_part;            /* above the numbers of all parts that the day has had */
	char identity[GENERATION_IDENTITY_MAX]; /* RocksDB's identity of the database that it was made of; "" = not said */
	uint64_t last_record;          /* the highest number of a record that it has something of */
	VEC(struct generation_part) parts;     /* by level, window, number */
	struct generation_object symbols;      /* of a finished day: all of its dictionary, packed as a part's symbols are */
	VEC(struct generation_file) files;
	VEC(struct generation_series) series;  /* decoded by generation_decode_series alone */
	VEC(struct generation_fact) facts;     /* by number */
	VEC(struct generation_note) notes;     /* of the newest day alone */
	struct labels external;                /* global.external_labels of the server: other servers add them to its series. Within the limits above */
	/* What the decoder made: views point into it. */
	struct buf body;
	struct view texts, rows;               /* the sections of series; ptr NULL = there is none */
	struct arena arena;                    /* labels; its limit is that of all series */
	size_t lists, lists_max;               /* bytes of the decoded lists, and how many there may be */
};

/* Appends the object's bytes. Views are borrowed. ERR_LIMIT: over GENERATION_MAX. */
int generation_encode(const struct generation *g, struct buf *out, struct err *e) MUST_USE;
/* Reads an object, but for its series. name: its key, which it must agree with; NULL = any. Copies what it needs. ERR_CORRUPT: it is
 * malformed, damaged, or of another name; ERR_BAD_DATA: a newer version; ERR_LIMIT: over GENERATION_MAX or GENERATION_LISTS_MAX, or over what its length
 * allows. *ret is to be released in any case. */
int generation_decode(struct generation *ret, struct view bytes, const char *name, struct err *e) MUST_USE;
/* Adds the series of one that generation_decode made; none in case of an error. ERR_CORRUPT; ERR_LIMIT: over GENERATION_SERIES_MAX, or over what
 * the object's length allows. */
int generation_decode_series(struct generation *g, struct err *e) MUST_USE;
void generation_release(struct generation *g);
/* The bytes of all objects that it names. */
uint64_t generation_bytes(const struct generation *g);

#endif
