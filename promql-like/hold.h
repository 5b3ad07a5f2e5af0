/* SPDX-License-Identifier: Apache-2.0 */
/* What is counted for a result after its query has left: its bytes in the budget of queries, the result itself and the answer that is made
 * of it with the guard of memory. Ends with the result. */
#ifndef PYRRHA_PROMQL_HOLD_H
#define PYRRHA_PROMQL_HOLD_H

#include "promql-like/values/memory_guard.h"
#include "promql-like/values/query.h"

struct promql_hold;

/* Takes over what q holds in its budget. Borrows the guard, which may be NULL. */
struct promql_hold *hold_new(struct memory_guard *guard, struct eval *q) MUST_USE;
/* Waits for room for an answer of so many bytes; once. */
int hold_make(struct promql_hold *h, uint64_t bytes, struct err *e) MUST_USE;
/* NULL is nothing. */
void hold_free(struct promql_hold *h);

#endif
