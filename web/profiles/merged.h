/* SPDX-License-Identifier: Apache-2.0 */
/* The profiles of an answer, merged, and what is made of them: a file each of the formats, and what the page draws. */
#ifndef PYRRHA_WEB_MERGED_H
#define PYRRHA_WEB_MERGED_H

#include "model/flame.h"
#include "promql-like/promql.h"

/* The elements of an answer, merged into one. */
struct merged_profile {
	const struct ptype *type;  /* NULL: the answer is empty */
	struct stackvec *vec;      /* owned; NULL if the answer is empty */
	struct stackvec *base;     /* owned; of a diff, over the same symbols; else NULL */
	double covered_s, per_s;   /* the longest of the elements */
	int64_t period, t_ms;
};

/* Merges the elements of a vector; labels: of several elements, as labels of their samples. ERR_EXECUTION if they are
 * not profiles of one type. Release with merged_release. */
int merged_make(struct merged_profile *ret, const struct promql_result *r, bool labels, struct err *e) MUST_USE;
void merged_release(struct merged_profile *m);

/* flamegraph.c: the flame of an answer, which may be empty; see flame_fold. Release with flame_release. */
int merged_flame(struct flame *f, const struct merged_profile *m, const struct flame_ask *ask, struct err *e) MUST_USE;
/* Appends what the data object of format=flamegraph begins with: {"unit":...,"total":... */
void merged_head(struct buf *b, const struct merged_profile *m, const struct flame *f);
/* Appends the data object of format=flamegraph to the answer; flame_columns.h has it as columns. */
int flamegraph_json(const struct merged_profile *m, const struct flame_ask *ask, struct buf *out, struct err *e) MUST_USE;
/* Appends "main;work 123" lines. */
int folded_text(const struct merged_profile *m, struct buf *out, struct err *e) MUST_USE;
/* speedscope.c, flame_svg.c, dot.c: append a file of their kind; the query is its title. dot: ERR_NOT_FOUND if there is
 * no profile. */
int speedscope_json(const struct merged_profile *m, struct view query, struct buf *out, struct err *e) MUST_USE;
int flame_svg(const struct merged_profile *m, struct view query, struct buf *out, struct err *e) MUST_USE;
int call_graph_dot(const struct merged_profile *m, struct view query, struct buf *out, struct err *e) MUST_USE;
/* pprof_out.c: appends a gzipped profile.proto. */
int pprof_bytes(const struct merged_profile *m, struct view query, struct buf *out, struct err *e) MUST_USE;
/* Appends the data object of format=json: every element with its samples. */
int profiles_json(const struct promql_result *r, struct buf *out, struct err *e) MUST_USE;

#endif
