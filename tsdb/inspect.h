/* SPDX-License-Identifier: Apache-2.0 */
/* The content of a storage directory, for pyrtool: its parts and dictionaries, the size of each series, and whether everything can be
 * read. Works on a storage opened read_only, or on one at work. */
#ifndef PYRRHA_TSDB_INSPECT_H
#define PYRRHA_TSDB_INSPECT_H

#include "tsdb/tsdb.h"

struct tsdb_part_info {
	uint32_t partition; /* days since 1970, UTC */
	uint32_t number;
	int hours;          /* 1, 6 or 24: the latter two are sums of hours */
	int64_t start_ms, end_ms;
	uint64_t bytes;     /* of its file */
	uint64_t samples;   /* values of profiles; 0 for sums */
	size_t series, aggregates;
};
void tsdb_each_part(struct tsdb *db, void (*fn)(void *arg, const struct tsdb_part_info *p), void *arg);

struct tsdb_dictionary_info {
	uint32_t partition;
	uint64_t strings, mappings, functions, locations, nameless, nodes, stacks, label_sets, columns, series;
	uint64_t memory_bytes;
	uint64_t lost;      /* entries that had to be made up */
};
void tsdb_each_dictionary(struct tsdb *db, void (*fn)(void *arg, const struct tsdb_dictionary_info *d), void *arg);

/* The payload of one series in one part: header, symbols and index have none. Kinds: "totals", "rollup", "detail",
 * "floats". Views are valid during the call. */
struct tsdb_payload {
	const struct tsdb_part_info *part;
	const char *kind;
	const struct labels *labels; /* NULL: an aggregate, or what belongs to no series ("header", "symbols", "index") */
	uint64_t bytes;              /* before compression */
};
void tsdb_each_payload(struct tsdb *db, void (*fn)(void *arg, const struct tsdb_payload *p), void *arg);

/* A range of time, (after, until], in which data is lost: records of the head log from first to last, or (0) what belonged to a day. */
struct tsdb_hole {
	uint64_t first, last;
	int64_t after_ms, until_ms, found_ms;
};
void tsdb_each_hole(struct tsdb *db, void (*fn)(void *arg, const struct tsdb_hole *x), void *arg);

/* Reads everything: checksums, that every reference resolves, that the parts of a series say the same. fn gets what is
 * wrong: where, what, and what to do. */
struct tsdb_verified {
	uint64_t partitions, parts, series, samples, bytes, log_records, problems;
};
void tsdb_verify(struct tsdb *db, void (*fn)(void *arg, const char *where, const char *what, const char *todo), void *arg,
		 struct tsdb_verified *ret);

#endif
