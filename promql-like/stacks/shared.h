/* SPDX-License-Identifier: Apache-2.0 */
/* Shared data of instant queries for one time (promql.h, "what several queries share"): the state of the source that they see, and
 * subexpressions. */
#ifndef PYRRHA_PROMQL_SHARED_H
#define PYRRHA_PROMQL_SHARED_H

#include "promql-like/values/query.h"

/* The view that queries see now, or as_first saw; given back with shared_close. */
int shared_open(struct promql_shared *s, bool as_first, struct source_view **ret, struct err *e) MUST_USE;
void shared_close(struct promql_shared *s, struct source_view *v);

/* Marks the nodes of q to be computed once. With `given`, those that other queries may share; else those that occur more than once in
 * this query, for which q gets its own store. */
void shared_mark(struct eval *q, struct promql_shared *given);
/* The canonical text of a node, once marked. */
struct view shared_text(const struct eval *q, const struct node *n);
/* A store for queries of a source; what it keeps counts in b. Borrows both. max_bytes 0: a quarter of the budget. */
struct promql_shared *shared_of_source(struct source *from, struct budget *b, uint64_t max_bytes);
int shared_find(struct promql_shared *s, struct eval *q, struct view text, const struct span *sp, bool values_only, struct value *ret,
		bool *ret_found, struct err *e) MUST_USE;
/* Keeps a copy, if there is room. counted: how many samples making it counted. */
void shared_keep(struct promql_shared *s, struct eval *q, struct view text, const struct span *sp, bool values_only, const struct value *v,
		 uint64_t counted);
/* Counts n bytes that hang on what is kept; false if there is no room for them. */
bool shared_charge(struct promql_shared *s, size_t n);

#endif
