/* SPDX-License-Identifier: Apache-2.0 */
#include "promql-like/values/query.h"

#include "base/clock.h"
#include "base/metrics.h"
#include "base/units.h"

int eval_check(struct eval *q, struct err *e)
{
	if (q->canceled && atomic_load_explicit(q->canceled, memory_order_relaxed))
		return err_set(e, ERR_CANCELED, "query was canceled in expression evaluation");
	if (atomic_load_explicit(&q->guarded.stopped, memory_order_relaxed))
		return err_set(e, ERR_BUSY, "the process is short of memory");
	if (q->deadline_ns && clock_mono_ns() > q->deadline_ns)
		return err_set(e, ERR_TIMEOUT, "query timed out in expression evaluation after %lld ms: ask for less, or raise the "
			       "request's timeout and --query.timeout", (long long)q->timeout_ms);
	return 0;
}

int eval_check_at(struct eval *q, size_t i, struct err *e)
{
	return i % 64 ? 0 : eval_check(q, e);
}

void eval_read_begin(struct eval *q)
{
	if (atomic_fetch_add(&q->readers, 1) == 0)
		atomic_store(&q->read_since_ns, clock_mono_ns());
}

void eval_read_end(struct eval *q)
{
	int64_t since = atomic_load(&q->read_since_ns); /* it changes only while no query runs */
	if (atomic_fetch_sub(&q->readers, 1) == 1)
		atomic_fetch_add(&q->read_ns, clock_mono_ns() - since);
}

const struct source_limits *eval_limits(struct eval *q)
{
	return &q->lim;
}

const struct source_limits *eval_stream_limits(struct eval *q)
{
	return &q->stream_lim;
}

/* ---- what it holds ---- */

int eval_hold_bytes(struct eval *q, uint64_t n, struct err *e)
{
	uint64_t all = atomic_fetch_add(&q->bytes, n) + n;
	char max[24];
	if (q->max_bytes && all > q->max_bytes)
		return err_set(e, ERR_LIMIT, "the query needs more than %s of profiles and stacks (--query.max-bytes): ask for a shorter range, a larger step or "
			       "fewer series, or raise it (--memory raises all)", units_format_size(q->max_bytes, max));
	return eval_budget(q, n, e);
}

static int eval_refuse(const struct eval *q, uint64_t all, enum budget_line line, struct err *e)
{
	char one[24], used[24], max[24];
	uint64_t most = q->budget->max / BUDGET_ALL * line;
	units_format_size(q->budget->max, max);
	if (all > most)
		return err_set(e, ERR_LIMIT, "the query needs more memory than one query may have, %s of %s (%s): ask for a shorter range, a larger step or fewer "
			       "series, or raise it (--memory raises all)", units_format_size(most, one), max, q->budget_flag);
	return err_set(e, ERR_BUSY, "the queries at work hold %s of %s together (%s), and this one wants "
		       "more than is left for it: try again when there are fewer, or ask for less", units_format_size(budget_used(q->budget), used),
		       max, q->budget_flag);
}

int eval_budget(struct eval *q, uint64_t n, struct err *e)
{
	uint64_t all = atomic_fetch_add(&q->wanted, n) + n; /* before it is taken: so bytes of another thread of this query are not mistaken for those of another query */
	enum budget_line line = all > q->share ? BUDGET_LARGE : BUDGET_ALL;
	if (!budget_take(q->budget, n, line)) {
		atomic_fetch_sub(&q->wanted, n);
		return eval_refuse(q, all, line, e);
	}
	atomic_fetch_add(&q->budgeted, n); /* never more than was taken */
	if (q->held_metric)
		metric_add(q->held_metric, (double)n);
	return 0;
}

#define ARENA_STEP (UINT64_C(256) << 10) /* bytes that are not counted yet, at most */

int eval_hold_arena(struct eval *q, struct err *e)
{
	uint64_t all = atomic_load_explicit(&q->arena_bytes, memory_order_relaxed), held = atomic_load_explicit(&q->arena_held, memory_order_relaxed);
	if (all < held + ARENA_STEP || !atomic_compare_exchange_strong(&q->arena_held, &held, all))
		return 0;
	int rc = eval_budget(q, all - held, e);
	if (rc)
		atomic_fetch_sub(&q->arena_held, all - held);
	return rc;
}

void eval_give_arena(struct eval *q)
{
	eval_budget_give(q, atomic_exchange(&q->arena_held, 0));
}

/* Not more than it has: a part that was refused is given back, too. */
void eval_budget_give(struct eval *q, uint64_t n)
{
	uint64_t has = atomic_load(&q->budgeted);
	while (!atomic_compare_exchange_weak(&q->budgeted, &has, has - MIN(n, has)))
		;
	atomic_fetch_sub(&q->wanted, MIN(n, has));
	budget_give(q->budget, MIN(n, has));
	if (q->held_metric)
		metric_add(q->held_metric, -(double)MIN(n, has));
}

void eval_give_bytes(struct eval *q, uint64_t n)
{
	atomic_fetch_sub(&q->bytes, n);
	eval_budget_give(q, n);
}
