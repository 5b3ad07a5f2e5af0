/* SPDX-License-Identifier: Apache-2.0 */
#include "promql-like/hold.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/metrics.h"

struct promql_hold {
	struct memory_guard *guard;
	struct budget *budget;
	struct metric *metric;
	uint64_t held; /* bytes */
	struct answer_maker maker;
	const atomic_bool *canceled;
	int64_t deadline_ns, timeout_ms;
};

struct promql_hold *hold_new(struct memory_guard *guard, struct eval *q)
{
	struct promql_hold *h = NEW(struct promql_hold);
	*h = (struct promql_hold){ .guard = guard, .budget = q->budget, .metric = q->held_metric, .held = atomic_exchange(&q->budgeted, 0),
				   .canceled = q->canceled, .deadline_ns = q->deadline_ns, .timeout_ms = q->timeout_ms };
	memory_guard_hold(guard);
	return h;
}

int hold_make(struct promql_hold *h, uint64_t bytes, struct err *e)
{
	return memory_guard_make(h->guard, &h->maker, bytes, h->deadline_ns, h->canceled, e);
}

int hold_check(const struct promql_hold *h, struct err *e)
{
	if (h->canceled && atomic_load_explicit(h->canceled, memory_order_relaxed))
		return err_set(e, ERR_CANCELED, "query was canceled while its answer was made");
	if (clock_mono_ns() > h->deadline_ns)
		return err_set(e, ERR_TIMEOUT, "query timed out after %lld ms, while its answer was made: ask for less, or raise the request's timeout and "
			       "--query.timeout", (long long)h->timeout_ms);
	return 0;
}

void hold_free(struct promql_hold *h)
{
	if (!h)
		return;
	memory_guard_made(h->guard, &h->maker);
	memory_guard_drop(h->guard);
	budget_give(h->budget, h->held);
	if (h->metric)
		metric_add(h->metric, -(double)h->held);
	free(h);
}
