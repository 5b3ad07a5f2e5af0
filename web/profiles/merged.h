/* SPDX-License-Identifier: Apache-2.0 */
/* The profiles of an answer, merged, and what is made of them: a file each of the formats, and what the page draws. */
#ifndef PYRRHA_WEB_MERGED_H
#define PYRRHA_WEB_MERGED_H

#include "base/permit.h"
#include "model/flame.h"
#include "promql-like/promql.h"

/* Bytes that a column of 16 frames takes in a new dictionary with its indexes, as estimated from the resident memory of a server that translated
 * 1.4 million columns. Deeper stacks take more. */
#define MERGED_COLUMN_BYTES 460

/* The elements of an answer, merged into one. */
struct merged_profile {
	const struct ptype *type;  /* NULL: the answer is empty */
	struct stackvec *vec;      /* owned; NULL if the answer is empty */
	struct stackvec *base;     /* owned; of a diff, over the same symbols; else NULL */
	double covered_s, per_s;   /* the longest of the elements */
	double weight;             /* their mean by value, see promql_profile: value x weight / covered_s is the rate */
	bool mixed;                /* the weights differ: the rates of single functions are approximate */
	int64_t period, t_ms;
};

/* What all below have in common: the permit may be NULL; it is asked for memory, and often whether to go on. What it returned is an error. */

/* ERR_EXECUTION if the elements of an answer are not profiles of one type. */
int merged_check(const struct promql_result *r, struct err *e) MUST_USE;
/* The dictionary of all elements, borrowed; NULL: they have several, or there are none. */
struct symbols *merged_symbols(const struct promql_result *r);
/* All but the vectors. */
void merged_head_of(struct merged_profile *ret, const struct promql_result *r);
/* Seconds that the values were measured in: value / seconds is the rate. */
double merged_seconds(const struct merged_profile *m);
/* Merges the elements of a vector. ERR_EXECUTION as merged_check. Release with merged_release. */
int merged_make(struct merged_profile *ret, const struct promql_result *r, const struct permit *permit, struct err *e) MUST_USE;
void merged_release(struct merged_profile *m);

/* flamegraph.c: the flame of an answer, which may be empty; see flame_fold. ask may be NULL: everything. Release with flame_release. */
int merged_flame(struct flame *f, const struct merged_profile *m, const struct flame_ask *ask, const struct permit *permit, struct err *e) MUST_USE;
/* Appends what the data object of format=flamegraph begins with: {"unit":...,"total":... */
void merged_head(struct buf *b, const struct merged_profile *m, const struct flame *f);
/* Appends the data object of format=flamegraph to the answer; flame_columns.h has it as columns. */
int flamegraph_json(const struct merged_profile *m, const struct flame_ask *ask, const struct permit *permit, struct buf *out, struct err *e) MUST_USE;
/* Appends "main;work 123" lines. */
int folded_text(const struct merged_profile *m, const struct permit *permit, struct buf *out, struct err *e) MUST_USE;
/* speedscope.c, flame_svg.c, dot.c: append a file of their kind; the query is its title. dot: ERR_NOT_FOUND if there is
 * no profile. */
int speedscope_json(const struct merged_profile *m, struct view query, const struct permit *permit, struct buf *out, struct err *e) MUST_USE;
int flame_svg(const struct merged_profile *m, struct view query, const struct permit *permit, struct buf *out, struct err *e) MUST_USE;
int call_graph_dot(const struct merged_profile *m, struct view query, const struct permit *permit, struct buf *out, struct err *e) MUST_USE;
/* pprof_out.c: appends a profile.proto, not compressed: each element's samples, with its labels. ERR_NOT_FOUND if there is no profile. */
int pprof_write(const struct promql_result *r, struct view query, const struct permit *permit, struct buf *out, struct err *e) MUST_USE;
/* Appends the data object of format=json: every element with its samples. */
int profiles_json(const struct promql_result *r, const struct permit *permit, struct buf *out, struct err *e) MUST_USE;

#endif
