/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics of each node of a query: time, calls, what it read and its output. Kept only if the query has to be explained
 * (eval.explain is set); reading is then charged to the current node instead of to the query. */
#ifndef PYRRHA_PROMQL_EXPLAIN_H
#define PYRRHA_PROMQL_EXPLAIN_H

#include "promql-like/values/query.h"

struct explain {
	int64_t ns;
	uint64_t calls, series, samples, profiles;
	struct source_stats read;
};

/* A running node: its start, and the node that was charged for reading before. */
struct explaining {
	struct source_stats *before;
	int64_t from_ns;
};

/* Reading from now on is charged to the node, until the end, which notes its output (v may be NULL). Nothing, if the query is not
 * explained. */
struct explaining explain_begin(struct eval *q, const struct node *n);
void explain_end(struct eval *q, const struct node *n, const struct value *v, struct explaining x);

/* What the query read in all. */
void explain_all_read(const struct eval *q, struct source_stats *ret);
/* The query as a tree in JSON, each node with what it did. */
void explain_json(const struct eval *q, struct buf *out);

#endif
