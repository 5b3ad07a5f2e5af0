/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/read/set_requests.h"

static int64_t last_until(const struct plan_request *a)
{
	return a->until_ms + (a->n_steps - 1) * a->step_ms;
}

/* For qsort, which has no argument. */
struct timed {
	int64_t after_ms;
	uint32_t request;
};

static int by_after(const void *a, const void *b)
{
	const struct timed *x = a, *y = b;
	if (x->after_ms != y->after_ms)
		return x->after_ms < y->after_ms ? -1 : 1;
	return (x->request > y->request) - (x->request < y->request);
}

static void sort_requests(const struct plan_requests *requests, struct set_requests *s)
{
	struct timed *t = xcalloc(s->requests.n + 1, sizeof *t);
	bool sorted = true;
	for (size_t i = 0; i < s->requests.n; i++) {
		t[i] = (struct timed){ requests->v.v[s->requests.v[i]].after_ms, s->requests.v[i] };
		sorted &= !i || t[i - 1].after_ms <= t[i].after_ms;
	}
	if (!sorted)
		qsort(t, s->requests.n, sizeof *t, by_after);
	for (size_t i = 0; i < s->requests.n; i++) {
		s->requests.v[i] = t[i].request;
		int64_t until = last_until(&requests->v.v[t[i].request]);
		vec_push(&s->until, i ? MAX(until, s->until.v[i - 1]) : until);
	}
	free(t);
}

struct set_requests *set_requests_list(const struct plan_requests *requests)
{
	struct set_requests *of_set = xcalloc(requests->sets.n + 1, sizeof *of_set);
	for (size_t i = 0; i < requests->v.n; i++)
		vec_push(&of_set[requests->v.v[i].set].requests, (uint32_t)i);
	for (size_t i = 0; i < requests->sets.n; i++)
		sort_requests(requests, &of_set[i]);
	return of_set;
}

void set_requests_free(const struct plan_requests *requests, struct set_requests *of_set)
{
	for (size_t i = 0; of_set && i < requests->sets.n; i++) {
		vec_free(&of_set[i].requests);
		vec_free(&of_set[i].until);
	}
	free(of_set);
}

size_t set_requests_first(const struct set_requests *s, int64_t t_ms)
{
	size_t lo = 0, hi = s->requests.n;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		if (s->until.v[mid] <= t_ms)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* Whether a step of a request meets (start, end], which it reaches beyond: between two there may be nothing. */
static bool step_meets(const struct plan_request *a, int64_t start_ms, int64_t end_ms)
{
	int64_t k = a->n_steps > 1 && a->until_ms <= start_ms ? (start_ms - a->until_ms) / a->step_ms + 1 : 0;
	return k < a->n_steps && a->after_ms + k * a->step_ms < end_ms && a->until_ms + k * a->step_ms > start_ms;
}

bool set_requests_any(const struct plan_requests *requests, const struct set_requests *s, int64_t start_ms, int64_t end_ms)
{
	for (size_t i = set_requests_first(s, start_ms); i < s->requests.n; i++) {
		const struct plan_request *a = &requests->v.v[s->requests.v[i]];
		if (a->after_ms >= end_ms)
			break;
		if (step_meets(a, start_ms, end_ms))
			return true;
	}
	return false;
}
