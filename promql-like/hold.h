/* SPDX-License-Identifier: Apache-2.0 */
/* Memory accounting of a result after its query has ended: its bytes in the budget of queries, and the result and its answer with the
 * guard of memory. Ends with the result. */
#ifndef PYRRHA_PROMQL_HOLD_H
#define PYRRHA_PROMQL_HOLD_H

#include "promql-like/values/memory_guard.h"
#include "promql-like/values/query.h"

struct promql_hold;

/* Takes over what q holds in its budget. Borrows the guard, which may be NULL. */
struct promql_hold *hold_new(struct memory_guard *guard, struct eval *q) MUST_USE;
/* Before this many bytes more are allocated for the answer; see memory_guard_make. */
int hold_make(struct promql_hold *h, uint64_t bytes, struct err *e) MUST_USE;
/* Whether the answer is still wanted: ERR_TIMEOUT, ERR_CANCELED. */
int hold_check(const struct promql_hold *h, struct err *e) MUST_USE;
/* NULL is nothing. */
void hold_free(struct promql_hold *h);

#endif
