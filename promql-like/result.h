/* SPDX-License-Identifier: Apache-2.0 */
/* The answer of a query: what its root came to, copied out as plain data that does not need the query any more. */
#ifndef PYRRHA_PROMQL_RESULT_H
#define PYRRHA_PROMQL_RESULT_H

#include "promql-like/values/query.h"

/* Type, values, notes and explanation into r, whose arena is ready; profiles: with their stacks, which are made now. v's names
 * are settled on the way. The contents of r are released with it on an error. */
int result_fill(struct promql_result *r, struct eval *q, struct value *v, bool profiles, struct err *e) MUST_USE;

#endif
