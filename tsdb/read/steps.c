/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/read/steps.h"

/* The first row after t; at: where the last one was found. */
static size_t seek(const struct rows *r, size_t at, int64_t t_ms)
{
	if (at && rows_stamp(r, at - 1) > t_ms)
		at = 0;
	for (size_t tries = 16; tries; tries--, at++)
		if (at == r->n || rows_stamp(r, at) > t_ms)
			return at;
	size_t hi = r->n;
	while (at < hi) {
		size_t mid = (at + hi) / 2;
		if (rows_stamp(r, mid) <= t_ms)
			at = mid + 1;
		else
			hi = mid;
	}
	return at;
}

/* The steps that can meet (start, end]. */
static void steps_of(const struct plan_request *a, const struct rows *r, uint32_t *first, uint32_t *end)
{
	*first = 0;
	*end = a->n_steps;
	if (a->n_steps == 1 || a->step_ms <= 0)
		return;
	if (r->start_ms > a->until_ms)
		*first = (uint32_t)MIN((r->start_ms - a->until_ms) / a->step_ms, (int64_t)a->n_steps);
	if (r->end_ms - a->after_ms < a->n_steps * a->step_ms)
		*end = (uint32_t)MAX((r->end_ms - a->after_ms + a->step_ms - 1) / a->step_ms, 0);
}

struct giving {
	const int64_t *before;
	struct step_sums *to;
	void (*wrapped)(void *arg, uint32_t step, int by);
	void *arg;
	uint32_t first, end; /* steps that got something */
};

static inline void give(struct giving *g, uint32_t step, size_t lo, size_t hi)
{
	if (lo == hi)
		return;
	g->first = MIN(g->first, step);
	g->end = step + 1;
	int64_t *sum = &g->to->sums[step];
	if (UNLIKELY(__builtin_add_overflow(*sum, g->before[hi] - g->before[lo], sum)))
		g->wrapped(g->arg, step, g->before[hi] > g->before[lo] ? 1 : -1);
}

/* How many rows of a regular series are stamped up to t, if it went on before its first and after its last. */
static int64_t regular_up_to(const struct rows *r, int64_t t_ms)
{
	int64_t d = t_ms - r->first_ms, k = d / r->every_ms;
	return k + (d >= k * r->every_ms);
}

static inline size_t within(int64_t k, size_t n)
{
	return (size_t)MAX(MIN(k, (int64_t)n), 0);
}

/* The next step is the same number of rows further. */
static void give_regular(struct giving *g, const struct plan_request *a, const struct rows *r, uint32_t step, uint32_t end)
{
	int64_t by = a->step_ms / r->every_ms;
	int64_t lo = regular_up_to(r, a->after_ms + step * a->step_ms), hi = regular_up_to(r, a->until_ms + step * a->step_ms);
	for (; step < end; step++, lo += by, hi += by)
		give(g, step, within(lo, r->n), within(hi, r->n));
}

static void give_any(struct giving *g, const struct plan_request *a, const struct rows *r, uint32_t step, uint32_t end)
{
	size_t lo = 0, hi = 0;
	int64_t reached = INT64_MIN; /* rows below hi are stamped up to it */
	for (; step < end; step++) {
		int64_t after = a->after_ms + step * a->step_ms;
		lo = after == reached ? hi : seek(r, lo, after);
		reached = a->until_ms + step * a->step_ms;
		hi = seek(r, MAX(hi, lo), reached);
		give(g, step, lo, hi);
	}
}

/* Whether all of it is far from the ends of 64 bits, and steps are rows. */
static bool is_regular(const struct plan_request *a, const struct rows *r)
{
	const int64_t far = INT64_C(1) << 61;
	return !r->t_ms && r->n && a->after_ms > -far && a->until_ms < far && a->step_ms >= 0 &&
	       (a->n_steps == 1 || a->step_ms % r->every_ms == 0);
}

void steps_add(const struct plan_request *a, const struct rows *r, const int64_t *before, struct step_sums *to,
	       void (*wrapped)(void *arg, uint32_t step, int by), void *arg)
{
	struct giving g = { before, to, wrapped, arg, UINT32_MAX, 0 };
	uint32_t step, end;
	steps_of(a, r, &step, &end);
	if (step >= end)
		return;
	if (is_regular(a, r))
		give_regular(&g, a, r, step, end);
	else
		give_any(&g, a, r, step, end);
	if (!g.end)
		return;
	to->first = to->end ? MIN(to->first, g.first) : g.first;
	to->end = MAX(to->end, g.end);
}
