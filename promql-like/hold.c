/* SPDX-License-Identifier: Apache-2.0 */
#include "promql-like/hold.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/metrics.h"

struct promql_hold {
	struct memory_guard *guard;
	struct budget *budget;
	struct metric *metric;
	uint64_t held, making; /* bytes */
	bool makes;
	const atomic_bool *canceled;
	int64_t deadline_ns;
};

struct promql_hold *hold_new(struct memory_guard *guard, struct eval *q)
{
	struct promql_hold *h = NEW(struct promql_hold);
	*h = (struct promql_hold){ .guard = guard, .budget = q->budget, .metric = q->held_metric, .held = atomic_exchange(&q->budgeted, 0),
				   .canceled = q->canceled, .deadline_ns = q->deadline_ns };
	memory_guard_hold(guard);
	return h;
}

int hold_make(struct promql_hold *h, uint64_t bytes, struct err *e)
{
	if (h->makes)
		return 0;
	int rc = memory_guard_make(h->guard, bytes, h->deadline_ns, h->canceled, e);
	h->makes = !rc;
	h->making = bytes;
	return rc;
}

void hold_free(struct promql_hold *h)
{
	if (!h)
		return;
	if (h->makes)
		memory_guard_made(h->guard, h->making);
	memory_guard_drop(h->guard);
	budget_give(h->budget, h->held);
	if (h->metric)
		metric_add(h->metric, -(double)h->held);
	free(h);
}
