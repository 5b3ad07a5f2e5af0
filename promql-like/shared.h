/* SPDX-License-Identifier: Apache-2.0 */
/* What instant queries for one time have in common (promql.h, "what several queries share"): the state of the source that they
 * see, and subexpressions. */
#ifndef PYRRHA_PROMQL_SHARED_H
#define PYRRHA_PROMQL_SHARED_H

#include "eval.h"

/* The view that queries see now; given back with shared_close. */
int shared_open(struct promql_shared *s, struct source_view **ret, struct err *e) MUST_USE;
void shared_close(struct promql_shared *s, struct source_view *v);

/* engine.c */
struct source *engine_source(struct promql_engine *g);
struct budget *engine_rule_budget(struct promql_engine *g);

#endif
