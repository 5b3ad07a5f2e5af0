/* SPDX-License-Identifier: Apache-2.0 */
/* Codec of a segment: a file with floats that wait to be sent. docs/format/remote.md has it byte by byte.
 *
 *	header │ block │ block │ ...          (integers of fixed size are big-endian)
 *
 *	header: magic 8 │ sequence u64 │ number u64 │ samples u64 │ checksum u64
 *	block:  marker u32 │ length u32 │ checksum u64 │ payload
 *
 * A block defines series, which later blocks of the segment refer to by their place in the order of definitions, and has samples. A
 * block that is damaged costs its samples and those of the series it defined; what follows is found by its marker and checksum.
 * Pure: bytes in, bytes out. */
#ifndef PYRRHA_REMOTE_SEGMENT_H
#define PYRRHA_REMOTE_SEGMENT_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/vec.h"
#include "model/sink.h"

#define SEGMENT_HEADER 40
#define SEGMENT_BLOCK_HEADER 16
#define SEGMENT_BLOCK_MAX ((size_t)64 << 20) /* of a payload that is read */

struct segment_header {
	uint64_t sequence; /* of the segment; part of its name */
	uint64_t number;   /* what segments before it have, or never wanted: all floats of records up to here */
	uint64_t samples;  /* in segments before it, since the first */
};

void segment_put_header(struct buf *out, const struct segment_header *h);
/* ERR_CORRUPT: it is malformed. */
int segment_get_header(struct view v, struct segment_header *ret, struct err *e) MUST_USE;

struct segment_sample {
	uint32_t series; /* by order of definition in this segment, from 0 */
	int64_t t_ms;
	uint64_t bits;
};

/* A block to be written. */
struct segment_block {
	uint64_t number;           /* its samples are of records up to here */
	bool complete;             /* with it all floats of these records are there; else blocks with the same number follow */
	uint32_t first_series;     /* how many series were defined before */
	const struct labels *series; /* defined by it */
	size_t n_series;
	const struct segment_sample *samples;
	size_t n_samples;
};
/* Appends it; offset is where in the segment it will lie. */
void segment_put_block(struct buf *out, uint64_t sequence, uint64_t offset, const struct segment_block *b);

/* Finds the next sound block at or behind *offset of a segment's first bytes. True: *ret is its payload, *ret_at where it begins,
 * *offset is behind it. False: there is no further one, *offset is unchanged. */
bool segment_next(struct view segment, uint64_t sequence, size_t *offset, size_t *ret_at, struct view *ret);

/* The result of reading a segment from its begin up to here. Zeroed means at the begin; labels are in the arena. */
struct segment_reader {
	struct arena arena;
	VEC(struct labels) series; /* no labels: its definition is lost */
	size_t max_series;         /* that there can be: half of the segment's bytes */
};
void segment_reader_init(struct segment_reader *r, size_t segment_bytes);
void segment_reader_release(struct segment_reader *r);

struct segment_read {
	uint64_t number;
	bool complete;
	VEC(struct segment_sample) samples; /* .series is below reader.series.n */
};
/* Decodes a payload; ret is used again and again (vec_free in the end). ERR_CORRUPT: it is malformed. */
int segment_get_block(struct segment_reader *r, struct view payload, struct segment_read *ret, struct err *e) MUST_USE;

#endif
