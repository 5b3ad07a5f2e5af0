/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by backlog.c (writing) and backlog_read.c (reading). */
#ifndef PYRRHA_REMOTE_BACKLOG_INTERNAL_H
#define PYRRHA_REMOTE_BACKLOG_INTERNAL_H

#include "base/buf.h"
#include "remote/backlog.h"
#include "remote/segment.h"

#define SEGMENT_FILE_MAX ((size_t)1 << 30)

struct backlog_segment {
	struct segment_header h;
	uint64_t bytes; /* synced */
};

/* A place between two samples. */
struct position {
	uint64_t sequence;
	uint64_t offset;  /* of the block in the segment */
	uint64_t index;   /* of the sample in the block */
	uint64_t samples; /* that came before, since the first segment */
};

/* The segment that is read. */
struct backlog_reading {
	struct position at;           /* the next sample; of the block when it is decoded */
	uint64_t sequence;            /* of what is in bytes; 0 = nothing is */
	struct buf bytes;
	size_t offset;                /* behind the block that is decoded */
	struct segment_reader reader;
	struct segment_read block;
	bool in_block;
};

struct backlog_writing {
	VEC(struct labels) series;
	VEC(struct segment_sample) samples;
	uint32_t first_series;
};

struct backlog {
	char *dir;
	struct backlog_options o;
	VEC(struct backlog_segment) segments; /* by sequence; the last one may be written to */
	int fd;                       /* of the last one; -1: the next append begins another */
	uint64_t sequence;            /* the highest that was used */
	uint32_t n_series;            /* defined in the last one */
	uint64_t number, samples, bytes;
	struct backlog_writing writing;
	struct position at, until;    /* sent; the end of the round */
	bool round;                   /* there is one */
	bool again;                   /* the next round must be the unfinished one from before the restart */
	bool unsaved;                 /* position on disk is older */
	unsigned parts;
	struct backlog_reading reading;
};

static inline struct position position_of(const struct backlog_segment *s)
{
	return (struct position){ s->h.sequence, SEGMENT_HEADER, 0, s->h.samples };
}

static inline int position_cmp(const struct position *a, const struct position *b)
{
	if (a->sequence != b->sequence)
		return a->sequence < b->sequence ? -1 : 1;
	if (a->offset != b->offset)
		return a->offset < b->offset ? -1 : 1;
	return (a->index > b->index) - (a->index < b->index);
}

/* The next append begins another one. */
void backlog_end_segment(struct backlog *b);
char *backlog_path(const struct backlog *b, uint64_t sequence);
void backlog_reading_release(struct backlog_reading *r);

#endif
