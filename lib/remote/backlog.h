/* SPDX-License-Identifier: Apache-2.0 */
/* The queue on disk for one receiver: a directory of segments, and the position up to which they were sent.
 *
 *	0000000007.segment │ 0000000008.segment │ 0000000009.segment        position
 *	             ▲ position              ▲ end of a round                     ▲ append
 *
 * Appended bytes are synced before the call returns, and not read before. It belongs to records of the storage's log: it contains the
 * highest record number up to which it is complete, so that a crash repeats nothing. Above max_bytes, once what came is on disk, the
 * oldest segment goes. A round is sent as one unit. Its begin and end are on disk before it is sent. So after a crash the same round
 * is sent again, in the same requests, and never mixed with newer samples. One thread uses it. */
#ifndef PYRRHA_REMOTE_BACKLOG_H
#define PYRRHA_REMOTE_BACKLOG_H

#include "base/vec.h"
#include "model/sink.h"

struct backlog;

/* Zero means the default in brackets. */
struct backlog_options {
	uint64_t max_bytes;     /* of all segments (1 GiB) */
	uint64_t segment_bytes; /* of one; a commit's floats stay together (8 MiB, at most an eighth of max_bytes) */
};

/* Makes the directory if it is missing. Damage costs what it held, and is logged. */
int backlog_open(struct backlog **ret, const char *dir, const struct backlog_options *o, struct err *e) MUST_USE;
/* NULL is fine. */
void backlog_close(struct backlog *b);

/* Whether there was nothing in the directory: then comes backlog_begin, which says up to which number nothing is wanted. */
bool backlog_is_new(const struct backlog *b);
int backlog_begin(struct backlog *b, uint64_t number, struct err *e) MUST_USE;
/* It has everything of the records up to here. */
uint64_t backlog_number(const struct backlog *b);

/* A series as the caller of append keeps it: zeroed except the labels. */
struct backlog_series {
	struct labels labels;
	uint64_t sequence; /* the segment that defines it; 0 = none yet */
	uint32_t id;       /* there */
};
struct backlog_sample {
	struct backlog_series *series;
	int64_t t_ms;
	double v;
};
/* Writes and syncs them all, or none of them (then it may be tried again). n may be 0: only the number moves. *ret_dropped:
 * samples that went because there was no room; none after an error. */
int backlog_append(struct backlog *b, uint64_t number, const struct backlog_sample *v, size_t n, uint64_t *ret_dropped, struct err *e) MUST_USE;

/* The next round: up to `most` samples, and about max_bytes of labels, appended to *to. Labels are valid until the next call.
 * *ret_lost: samples that were damaged. After a restart the round is the unfinished one, whatever `most` says, and *parts is its old
 * value. *parts is the number of parallel requests. to->n 0: nothing waits. */
struct backlog_floats {
	struct sink_float *v;
	size_t n, cap;
};
int backlog_next(struct backlog *b, size_t most, size_t max_bytes, unsigned *parts, struct backlog_floats *to, uint64_t *ret_lost,
		 struct err *e) MUST_USE;
/* Puts on disk that the round is about to be sent. If that fails it may be sent all the same: a crash may repeat it otherwise. */
int backlog_intend(struct backlog *b, unsigned parts, struct err *e) MUST_USE;
/* It was sent, or will not be. Segments that were read completely are removed. */
void backlog_done(struct backlog *b);
/* Puts on disk how far it is, if that is not there yet. */
int backlog_save(struct backlog *b, struct err *e) MUST_USE;

uint64_t backlog_pending(const struct backlog *b); /* samples, with those of the round */
uint64_t backlog_bytes(const struct backlog *b);   /* of its segments */

#endif
