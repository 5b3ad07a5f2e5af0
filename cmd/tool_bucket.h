/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the commands "bucket ...": the bucket that the flags name, and what a server has in it (docs/format/bucket.md). */
#ifndef PYRRHA_CMD_TOOL_BUCKET_H
#define PYRRHA_CMD_TOOL_BUCKET_H

#include "bucket/bucket.h"
#include "cmd/tool.h"
#include "tsdb/bucket/generation.h"

/* ---- tool_bucket_open.c ---- */

struct bucket_flags {
	const char *config_file, *objstore_file, *objstore, *id; /* NULL: not given */
	bool expand_env;
};
#define BUCKET_FLAGS(f) \
	{ "config.file", OPT_STRING, &(f).config_file, "<file>", "The server's configuration; its section object_storage names the bucket." }, \
	{ "config.expand-env", OPT_BOOL, &(f).expand_env, NULL, "As the server does with this flag: ${NAME} in values is the environment variable." }, \
	{ "objstore.config-file", OPT_STRING, &(f).objstore_file, "<file>", \
	  "Instead of a configuration: a file with the map bucket alone (type, prefix, config), as Thanos's tools read it." }, \
	{ "objstore.config", OPT_STRING, &(f).objstore, "<yaml>", "Instead of a file: that map itself. Other users of this machine can read it." }, \
	{ "id", OPT_STRING, &(f).id, "<id>", "The server's id in the bucket. If not given: server_id of the configuration, or the only id in the bucket." }

struct tool_bucket {
	struct arena arena;        /* of config */
	struct bucket_config config;
	struct bucket *bucket;
	struct objects *objects;
};

/* Reads the flags' configuration. Logs and warnings go to standard error. To be closed in any case. */
int tool_bucket_open(struct tool_bucket *b, const struct bucket_flags *f, struct err *e) MUST_USE;
void tool_bucket_close(struct tool_bucket *b);

struct bucket_ids {
	VEC(char *) v; /* ascending */
};
/* All ids in the bucket, by a list request for each. */
int bucket_ids_read(struct bucket_ids *ids, struct tool_bucket *b, struct err *e) MUST_USE;
void bucket_ids_release(struct bucket_ids *ids);
/* The id that the command is about. ERR_NOT_FOUND: the bucket has none, or several. */
int bucket_choose_id(struct tool_bucket *b, const struct bucket_flags *f, char ret[SERVER_ID_MAX + 1], struct err *e) MUST_USE;

/* For commands that take no words; false: the error was printed. */
bool bucket_no_words(const char *name, int words);

/* ---- tool_bucket_contents.c ---- */

/* An object of the list. */
struct bucket_object {
	struct object_stamp stamp;
	uint32_t day;              /* of data */
	uint64_t size;
	int64_t modified_ms;
	bool named;                /* data: a newest generation names it; generation: it is the newest of its day, or a fence */
};

struct bucket_part {
	uint8_t level;
	uint32_t window, number;
	struct generation_object object;
	VEC(struct part_run) runs;
};

/* A day by its newest generation. */
struct bucket_day {
	uint32_t day;
	enum generation_kind kind;
	struct object_stamp stamp;
	uint64_t generation_bytes; /* size of the generation's object */
	bool finished, one_file_twice;
	int64_t min_ms, max_ms, written_ms;
	uint64_t bytes;            /* of the objects that it names */
	uint64_t series;           /* with contents_read's `series` */
	uint64_t facts;
	struct generation_object symbols;
	VEC(struct bucket_part) parts;
};

/* What is wrong with an object. */
struct bucket_fault {
	char name[OBJECT_NAME_MAX];
	char *what;
	const char *todo;          /* a constant */
};

struct bucket_contents {
	char id[SERVER_ID_MAX + 1];
	uint64_t epoch, epochs;         /* the newest, and how many there are */
	uint64_t foreign_epoch;         /* one that no server can have reached; 0 = none */
	int64_t epoch_ms;               /* when the newest was taken, by the store's clock */
	int64_t changed_ms;             /* when the newest epoch or generation was put */
	VEC(struct bucket_object) generations, data, deletes; /* by name */
	uint64_t others;                /* objects under the id whose names are none of these */
	VEC(struct bucket_day) days;    /* by day */
	VEC(struct bucket_fault) faults; /* of generations */
};

/* Lists the objects of an id and reads all of its generations. series: counts those of each day, too. Generations that cannot be read become
 * faults. To be released in any case. */
int contents_read(struct bucket_contents *c, struct objects *o, const char *id, bool series, struct err *e) MUST_USE;
void contents_release(struct bucket_contents *c);
/* The listed object of a day's data; NULL: there is none. */
struct bucket_object *contents_find(const struct bucket_contents *c, uint32_t day, struct object_stamp stamp);
/* Drops those from number n on. */
void contents_drop_faults(struct bucket_contents *c, size_t n);
void contents_add_fault(struct bucket_contents *c, const char *name, const char *what, const char *todo);

/* Ends the answer in JSON that a command prints: its last array, and the object. */
void bucket_json_end(struct buf *b);

#define DAY_NAME_LEN 16
/* "2026-11-30"; a day that no calendar has is its number. */
const char *bucket_day_name(uint32_t day, char ret[DAY_NAME_LEN]);
/* The inverse, of a date or a number. */
bool bucket_day_parse(const char *text, uint32_t *ret);

#endif
