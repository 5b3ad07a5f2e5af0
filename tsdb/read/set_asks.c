/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/read/set_asks.h"

static int64_t last_until(const struct ask *a)
{
	return a->until_ms + (a->n_steps - 1) * a->step_ms;
}

/* For qsort, which has no argument. */
struct timed {
	int64_t after_ms;
	uint32_t ask;
};

static int by_after(const void *a, const void *b)
{
	const struct timed *x = a, *y = b;
	if (x->after_ms != y->after_ms)
		return x->after_ms < y->after_ms ? -1 : 1;
	return (x->ask > y->ask) - (x->ask < y->ask);
}

static void sort_asks(const struct asks *asks, struct set_asks *s)
{
	struct timed *t = xcalloc(s->asks.n + 1, sizeof *t);
	bool sorted = true;
	for (size_t i = 0; i < s->asks.n; i++) {
		t[i] = (struct timed){ asks->v.v[s->asks.v[i]].after_ms, s->asks.v[i] };
		sorted &= !i || t[i - 1].after_ms <= t[i].after_ms;
	}
	if (!sorted)
		qsort(t, s->asks.n, sizeof *t, by_after);
	for (size_t i = 0; i < s->asks.n; i++) {
		s->asks.v[i] = t[i].ask;
		int64_t until = last_until(&asks->v.v[t[i].ask]);
		vec_push(&s->until, i ? MAX(until, s->until.v[i - 1]) : until);
	}
	free(t);
}

struct set_asks *set_asks_list(const struct asks *asks)
{
	struct set_asks *of_set = xcalloc(asks->sets.n + 1, sizeof *of_set);
	for (size_t i = 0; i < asks->v.n; i++)
		vec_push(&of_set[asks->v.v[i].set].asks, (uint32_t)i);
	for (size_t i = 0; i < asks->sets.n; i++)
		sort_asks(asks, &of_set[i]);
	return of_set;
}

void set_asks_free(const struct asks *asks, struct set_asks *of_set)
{
	for (size_t i = 0; of_set && i < asks->sets.n; i++) {
		vec_free(&of_set[i].asks);
		vec_free(&of_set[i].until);
	}
	free(of_set);
}

size_t set_asks_first(const struct set_asks *s, int64_t t_ms)
{
	size_t lo = 0, hi = s->asks.n;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		if (s->until.v[mid] <= t_ms)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* Whether a step of an ask meets (start, end], which it reaches beyond: between two there may be nothing. */
static bool step_meets(const struct ask *a, int64_t start_ms, int64_t end_ms)
{
	int64_t k = a->n_steps > 1 && a->until_ms <= start_ms ? (start_ms - a->until_ms) / a->step_ms + 1 : 0;
	return k < a->n_steps && a->after_ms + k * a->step_ms < end_ms && a->until_ms + k * a->step_ms > start_ms;
}

bool set_asks_any(const struct asks *asks, const struct set_asks *s, int64_t start_ms, int64_t end_ms)
{
	for (size_t i = set_asks_first(s, start_ms); i < s->asks.n; i++) {
		const struct ask *a = &asks->v.v[s->asks.v[i]];
		if (a->after_ms >= end_ms)
			break;
		if (step_meets(a, start_ms, end_ms))
			return true;
	}
	return false;
}
