/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of readouts: a node of the tree, its arguments, steps a few at a time (readout_calls.c); and graphs of one number per step, without
 * making profiles (readout_merged.c, readout_rated.c). Private. */
#ifndef PYRRHA_PROMQL_READOUT_CALLS_H
#define PYRRHA_PROMQL_READOUT_CALLS_H

#include "promql-like/eval/eval.h"
#include "promql-like/stacks/readout.h"

/* A readout with the rows that c wants (NULL: all). */
int readout_run(struct eval *q, struct node *n, const struct span *sp, enum measure m, enum bound bound, struct row_choice *c,
		struct value *ret, struct err *e) MUST_USE;
/* Whether one number per step is asked for, and nothing that only profiles can tell. */
bool readout_is_graph(const struct readout *r, const struct span *sp);
/* Not so of a gauge, which has a mean in which each profile counts by its time. */
bool readout_adds_up(const struct range_vector *r);
/* The groups of series by an aggregation's clause. */
void readout_groups(struct readout *r, const struct range_vector *range, const struct node *aggr, struct series_groups *ret);
/* One number per profile of a graph of what merge gives, where storage adds it all up and no profile need be made. *ret_done is
 * false, and nothing was put out, of others. */
int readout_merged(struct readout *r, const struct span *sp, bool *ret_done, struct err *e) MUST_USE;
/* The same of what rate or increase gives, or the sum of it: each profile is read, and none made. */
int readout_rated(struct readout *r, const struct span *sp, bool *ret_done, struct err *e) MUST_USE;

#endif
