/* SPDX-License-Identifier: Apache-2.0 */
/* Questions and answers as bytes: docs/format/source.md. Both ends check everything that they read: either may be a stranger. Pure: no I/O, no
 * clock.
 *
 *	wire_question.c, wire_answer.c   the messages and their heads
 *	wire_series.c, wire_lists.c      results: series and names; lists by series and numbers by group
 *	wire_values.h                    numbers, texts, stamps, doubles
 *	dictionary.h                     vectors over stacks
 *
 * What is encoded comes back bit by bit, NaNs included. A message of n bytes takes at most about 64 n bytes of memory when it is decoded (a
 * cover 96), but for compiled expressions, the dictionary, and what the call itself says: 8 bytes per group. */
#ifndef PYRRHA_FLEET_WIRE_H
#define PYRRHA_FLEET_WIRE_H

#include "base/cursor.h"
#include "fleet/call.h"
#include "fleet/dictionary.h"

#define FLEET_WIRE_VERSION 1
#define FLEET_WIRE_TYPE "application/x-pyrrha-source" /* Content-Type of both */
#define FLEET_QUESTION_MAX ((size_t)64 << 20) /* bytes of a question */
/* A question with more is refused, so that an asker splits it. */
#define FLEET_MATCHERS_MAX 1000u
#define FLEET_TEXT_MAX ((size_t)64 << 10)  /* bytes of a matcher's name or value, or of an expression */
#define FLEET_TEXTS_MAX ((size_t)1 << 20)  /* of all of a question */
#define FLEET_REFS_MAX ((size_t)1 << 22)
#define FLEET_TILES_MAX ((size_t)1 << 22)  /* of covers: (series + 1) x tiles */
#define FLEET_PARTS_MAX ((size_t)1 << 22)
#define FLEET_GROUPS_MAX ((size_t)1 << 22)
#define FLEET_PART_STEPS_MAX ((uint64_t)1 << 28) /* of all parts together: 24,000 series at each of 11,000 steps */
/* Of a graph over stacks. A union does not ask for the rows of a larger one. */
#define FLEET_STEPS_MAX ((size_t)1 << 20)
#define FLEET_LANES_MAX ((size_t)1 << 20)
#define FLEET_TERMS_MAX ((size_t)1 << 23)

/* What goes with each question. */
struct fleet_question {
	struct fleet_call call;
	uint64_t view;               /* the token of the view; 0: a view is opened */
	uint64_t session;            /* id of the dictionary that the asker has, and how far; 0: none */
	struct symbols_marks has;
	int64_t left_ms;             /* how long the asker waits; 0: as long as the server lets it */
	uint64_t max_samples, max_bytes; /* of source_limits: what is left of them; 0: unlimited */
	uint64_t max_answer;         /* bytes of the answer; longer ones are ERR_LIMIT */
	bool strict;                 /* damage is an error (source_limits.damage is NULL) */
	struct arena arena;          /* of a decoded one: what the call refers to */
	struct matcher *matchers;    /* of a decoded one: call.m and the filter's, released with it */
	size_t n_matchers;
	struct regex *any;           /* of a decoded filter */
	struct source_frame_filter filter;
	struct source_windows windows;
	struct source_tiles tiles;
	struct source_graph graph;
};

void fleet_question_encode(struct buf *out, const struct fleet_question *q);
/* budget: its memory is taken of it, as long as it is there; NULL: none. ERR_BAD_DATA: malformed (says what and at which byte), another version, an expression that does
 * not compile, too much; ERR_LIMIT: it takes too much memory; ERR_BUSY: the budget refused, and all before `marks` is set but the flags. Release ret also after an error.
 * ret may not be moved: its call refers to it. It does not refer to body. */
int fleet_question_decode(struct fleet_question *ret, struct view body, struct budget *budget, struct err *e) MUST_USE;
void fleet_question_release(struct fleet_question *q);

/* What an answer says beside its result. */
struct fleet_answer {
	uint64_t view;               /* the token; 0: the view is gone (FLEET_CLOSE, errors before one was opened) */
	bool view_lost;              /* with an error: the view that was asked for is not there (any more). The asker opens another */
	bool opened;                 /* a view was opened by this answer; then labels are there */
	struct labels labels;        /* the server's external labels; in the arena given to decode */
	struct err err;              /* code 0: there is a result */
	uint64_t session;            /* of a merge: the dictionary */
	/* what the call has cost there: */
	uint64_t chunks, samples, bytes, bucket_requests, bucket_bytes;
	/* what it lacks (source_damage): of each kind how often, and the range */
	struct fleet_lacks { uint64_t met; int64_t until_ms, from_ms; } damaged, absent, doubled;
	int64_t cpu_ns;              /* of the server's thread and pool, about; 0: unknown */
};

/* Appends. result: NULL if a->err is set. dictionary: of a merge without an error, else NULL is allowed. q: what was asked; rows of the
 * dictionary begin at q->has if a->session is q->session, else at its beginning. The message ends with the XXH3-64 of all bytes before it, so
 * that half an answer is seen. ERR_LIMIT: more than out->max bytes; errors of fleet_dictionary_put. After an error out is to be thrown away. */
int fleet_answer_encode(struct buf *out, const struct fleet_answer *a, const struct fleet_result *result, struct fleet_dictionary_out *dictionary,
			const struct fleet_question *q, struct err *e) MUST_USE;
/* What reading an answer may take. ERR_LIMIT beyond max_bytes, which are counted outside of the arena; ERR_CORRUPT beyond max_samples; or what
 * source_limits_check says. */
struct fleet_within {
	uint64_t max_bytes, max_samples; /* bytes: 0 = 256 MiB, and twice as many are taken; samples: 0 = any number */
	const struct source_limits *lim; /* of the question; may be NULL */
};
/* call: what was asked: the answer has to fit it (as many series, groups, tiles; stamps in its range and in order; labels in order; refs below
 * 2^32). dictionary: of a merge. arena: the strings of the result, with a cap; it is kept as long as the view. ERR_CORRUPT: not an answer, of
 * another version, cut short, or one that does not fit: says what and where. ERR_LIMIT: the arena or the dictionary is full. ret and result are
 * set only on success; an answer that is an error is a success with ret->err set and an empty result. */
int fleet_answer_decode_within(struct fleet_answer *ret, struct fleet_result *result, struct view body, const struct fleet_call *call,
			       struct fleet_dictionary_in *dictionary, struct arena *arena, const struct fleet_within *within, struct err *e) MUST_USE;
MUST_USE static inline int fleet_answer_decode(struct fleet_answer *ret, struct fleet_result *result, struct view body, const struct fleet_call *call,
					       struct fleet_dictionary_in *dictionary, struct arena *arena, struct err *e)
{
	return fleet_answer_decode_within(ret, result, body, call, dictionary, arena, NULL, e);
}

#endif
