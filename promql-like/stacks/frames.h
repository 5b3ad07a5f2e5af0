/* SPDX-License-Identifier: Apache-2.0 */
/* F, a frame matcher: {function=~"x", binary="y"}, which one frame must satisfy as a whole, or frames("regexp") and a
 * plain string in filters, which mean pprof's unanchored expression on function, file or binary. model/frame_filter.h evaluates it. */
#ifndef PYRRHA_PROMQL_FRAMES_H
#define PYRRHA_PROMQL_FRAMES_H

#include "model/frame.h"
#include "model/frame_filter.h"
#include "model/symbols.h"
#include "promql-like/syntax/ast.h"

struct eval;
struct frames_trouble;

struct frames {
	struct source_frame_filter filter; /* not leaf_only; borrowed from the query */
	struct regex *any;       /* the filter's expression, or NULL; owned */
	struct frames_trouble *trouble; /* what went wrong in a match, of any thread; owned */
};

/* From an argument of a function of q, which it borrows. A string is an expression. */
int frames_init(struct frames *f, struct eval *q, const struct node *arg, struct err *e) MUST_USE;
void frames_release(struct frames *f);
/* 0, or the first error of a match: an expression hit its limit, the query is too late or canceled. From then on everything below
 * answers false at once, which is no answer: whoever asked looks here before using what it made of the answers. */
int frames_failed(const struct frames *f, struct err *e) MUST_USE;
/* A source evaluated the filter and returned rc: puts the filter's place in the query before ERR_LIMIT, which is that of an expression. Returns rc. */
int frames_source_failed(const struct frames *f, int rc, struct err *e) MUST_USE;
/* One of the matchers on a value that is no frame's. */
bool frames_value(const struct frames *f, const struct matcher *m, struct view v);

/* Answers by frame, kept: 0 not asked, 1 no, 2 yes. */
struct frames_memo {
	const struct frames *f;
	const struct symbols *s;
	struct frame_filter_run run;
	uint8_t *lines, *bare;   /* by line id; by location id */
	uint32_t n_lines, n_locations;
};
void frames_memo_init(struct frames_memo *m, const struct frames *f, const struct symbols *s);
void frames_memo_free(struct frames_memo *m);
/* Whether frame i of the location matches; i = 0 of a location without lines is the bare location. */
bool frames_memo_match(struct frames_memo *m, uint32_t location, uint32_t i);
/* For pprof's prune_from: the function's simplified name only. For {...} as frames_memo_match. */
bool frames_memo_match_name(struct frames_memo *m, uint32_t location, uint32_t i);
/* Whether any frame of a column's stack matches; leaf_only: its innermost one. */
bool frames_memo_stack(struct frames_memo *m, uint32_t column, bool leaf_only);

#endif
