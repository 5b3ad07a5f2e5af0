/* SPDX-License-Identifier: Apache-2.0 */
/* The runs of a part's file, by which a copy of the file elsewhere can be read and verified in pieces. A run is a range of whole data
 * blocks that holds all values of one kind, either of the series or of the aggregates, which follow the series in each kind:
 *
 *	file  := data block* rest
 *	          |--- symbols ---|
 *	                       |-- index --|          a block with values of two kinds belongs to both runs
 *	                                ...    tail   the rest: filters, index, properties, footer
 *
 * Whoever has the tail and the run of a kind can read all values of that kind with RocksDB. The ranges come from the file's index, which
 * does not name the kinds within a block: so a run may be a block longer than its values, and a kind without values may have a run of one
 * block. A kind without a run has no values. Any thread. */
#ifndef PYRRHA_TSDB_PART_RUNS_H
#define PYRRHA_TSDB_PART_RUNS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/sha256.h"
#include "base/vec.h"

#define PART_RUN_TAIL 0xff

struct part_run {
	uint8_t kind;            /* of the values in it: enum part_kind, as keys have it. PART_RUN_TAIL: the rest of the file behind the data blocks */
	bool aggregates;         /* values of aggregates, not of series */
	uint64_t offset, length; /* bytes of the file */
	uint64_t hash;           /* hash_stable of these bytes */
};

struct part_runs {
	uint64_t size;              /* of the file, in bytes */
	uint8_t sha256[SHA256_LEN]; /* of the file */
	VEC(struct part_run) v;     /* by kind, those of aggregates behind those of series; the tail is the last */
};

/* Reads the file's index, then the whole file once from its beginning. ERR_CORRUPT: index or footer are damaged, or the file is not that
 * of one part; damage of other blocks is not looked for. ERR_LIMIT: as table_each_block. *ret is untouched on failure. */
int part_runs_read(const char *file, struct part_runs *ret, struct err *e) MUST_USE;
void part_runs_release(struct part_runs *r);

#endif
