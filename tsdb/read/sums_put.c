/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/read/sums_put.h"

typedef __int128 wide;

/* The steps of a request that any worker has something of: sums is not filled in. */
static struct step_sums touched_steps(const struct sums_put *m, size_t i)
{
	struct step_sums all = { NULL, UINT32_MAX, 0 };
	for (size_t w = 0; w < m->n_workers; w++) {
		const struct step_sums *x = m->workers[w].requests ? &m->workers[w].requests[i] : NULL;
		if (!x || !x->end)
			continue;
		all.first = MIN(all.first, x->first);
		all.end = MAX(all.end, x->end);
	}
	return all;
}

static wide slot_value(const struct sums_totals *t, size_t slot)
{
	return (wide)t->slots[slot] + (t->wraps ? (wide)t->wraps[slot] * ((wide)1 << 64) : 0);
}

static wide step_sum(const struct sums_put *m, size_t slot)
{
	wide sum = 0;
	for (size_t w = 0; w < m->n_workers; w++)
		sum += m->workers[w].slots ? slot_value(&m->workers[w], slot) : 0;
	return sum;
}

/* The sum of a group's weighed requests that follow each other and have one scale and divisor. */
struct weighed_sum {
	double scale;
	int64_t over_ms;
	wide sum;
};

static void end_weighed(const struct sums_put *m, struct weighed_sum *w, size_t group)
{
	if (w->sum)
		m->ret[group] += source_weighed(w->sum, w->over_ms) * w->scale;
	w->sum = 0;
}

static void add_weighed(const struct sums_put *m, const struct plan_request *a, uint32_t step, struct weighed_sum *w)
{
	wide sum = step_sum(m, a->slot + step) * a->weigh.base_ms;
	for (size_t k = 0; k < m->n_workers; k++)
		sum += m->workers[k].rest ? m->workers[k].rest[a->slot + step] : 0;
	if (w->scale != a->scale || w->over_ms != a->weigh.over_ms)
		end_weighed(m, w, a->group + step);
	*w = (struct weighed_sum){ a->scale, a->weigh.over_ms, w->sum + sum };
}

/* The results of all workers for one request: into whole, or scaled into ret. */
static void add_request(const struct sums_put *m, size_t i, wide *whole, struct weighed_sum *weighed)
{
	const struct plan_request *a = &m->requests->v.v[i];
	struct step_sums x = touched_steps(m, i);
	for (uint32_t step = 0; a->weigh.over_ms && step < a->n_steps; step++)
		add_weighed(m, a, step, &weighed[a->group + step]);
	for (uint32_t step = x.first; !a->weigh.over_ms && step < x.end; step++) {
		wide sum = step_sum(m, a->slot + step);
		if (a->scale == 1)
			whole[a->group + step] += sum;
		else
			m->ret[a->group + step] += (double)sum * a->scale;
	}
}

static int too_large(struct err *e)
{
	return err_set(e, ERR_EXECUTION, "a sum of values does not fit in 64 bits: ask for a shorter range or fewer series");
}

static bool is_scaled(const struct plan_request *a)
{
	return a->scale != 1 || a->weigh.over_ms;
}

/* Whether each group is one request's alone, and a whole number. */
static bool requests_are_apart(const struct plan_requests *requests)
{
	size_t end = 0;
	for (size_t i = 0; i < requests->v.n; i++) {
		if (is_scaled(&requests->v.v[i]) || requests->v.v[i].group < end)
			return false;
		end = (size_t)requests->v.v[i].group + requests->v.v[i].n_steps;
	}
	return true;
}

/* The steps [first, end) of a request, into ret and exact (may be NULL). False: one does not fit. */
static bool put_wide(const struct sums_put *m, size_t slot, uint32_t first, uint32_t end, double *ret, int64_t *exact)
{
	for (uint32_t step = first; step < end; step++) {
		wide sum = step_sum(m, slot + step);
		if (sum > INT64_MAX || sum < INT64_MIN)
			return false;
		ret[step] = (double)sum;
		if (exact)
			exact[step] = (int64_t)sum;
	}
	return true;
}

/* The same where no sum of a worker went over the end of 64 bits. sums: zero, scratch. */
static bool put_narrow(const struct sums_put *m, size_t i, uint32_t first, uint32_t end, double *ret, int64_t *exact)
{
	const int64_t *of[2] = { NULL, NULL };
	size_t n = 0;
	for (size_t w = 0; w < m->n_workers; w++) {
		const struct step_sums *x = m->workers[w].requests ? &m->workers[w].requests[i] : NULL;
		if (!x || !x->end)
			continue;
		if (m->workers[w].wraps || n == 2)
			return put_wide(m, m->requests->v.v[i].slot, first, end, ret, exact);
		of[n++] = x->sums;
	}
	bool over = false;
	for (uint32_t step = first; step < end; step++) {
		int64_t sum = of[0][step];
		if (n == 2)
			over |= __builtin_add_overflow(sum, of[1][step], &sum);
		ret[step] = (double)sum;
		if (exact)
			exact[step] = sum;
	}
	return !over;
}

static void put_zeros(double *ret, int64_t *exact, size_t from, size_t to)
{
	memset(ret + from, 0, (to - from) * sizeof *ret);
	if (exact)
		memset(exact + from, 0, (to - from) * sizeof *exact);
}

#define PUT_AT_ONCE 16

struct putting {
	const struct sums_put *m;
	atomic_bool too_large;
};

/* Number of requests, and the groups between them and the previous one. */
static void put_requests(void *arg, size_t part, unsigned worker)
{
	struct putting *p = arg;
	const struct plan_requests *requests = p->m->requests;
	double *ret = p->m->ret;
	int64_t *exact = p->m->exact;
	size_t i = part * PUT_AT_ONCE, end = MIN(i + PUT_AT_ONCE, requests->v.n);
	size_t done = i ? (size_t)requests->v.v[i - 1].group + requests->v.v[i - 1].n_steps : 0;
	(void)worker;
	for (; i < end; i++) {
		const struct plan_request *a = &requests->v.v[i];
		struct step_sums x = touched_steps(p->m, i);
		if (!x.end)
			continue;
		put_zeros(ret, exact, done, a->group + x.first);
		if (!put_narrow(p->m, i, x.first, x.end, ret + a->group, exact ? exact + a->group : NULL))
			atomic_store(&p->too_large, true);
		done = (size_t)a->group + x.end;
	}
	const struct plan_request *last = &requests->v.v[end - 1];
	put_zeros(ret, exact, done, end == requests->v.n ? p->m->n_groups : (size_t)last->group + last->n_steps);
}

static int put_apart(const struct sums_put *m, struct err *e)
{
	struct putting p = { m, false };
	pool_run(m->pool, (m->requests->v.n + PUT_AT_ONCE - 1) / PUT_AT_ONCE, put_requests, &p);
	return atomic_load(&p.too_large) ? too_large(e) : 0;
}

/* Groups that have a scale somewhere are doubles, and none of theirs is too large. NULL: there is none. */
static uint8_t *scaled_groups(const struct sums_put *m)
{
	uint8_t *scaled = NULL;
	for (size_t i = 0; i < m->requests->v.n; i++) {
		const struct plan_request *a = &m->requests->v.v[i];
		if (!is_scaled(a))
			continue;
		if (!scaled)
			scaled = xcalloc(m->n_groups + 1, 1);
		memset(scaled + a->group, 1, a->n_steps);
	}
	return scaled;
}

int sums_put(const struct sums_put *m, struct err *e)
{
	int rc = 0;
	if (m->requests->v.n && requests_are_apart(m->requests))
		return put_apart(m, e);
	put_zeros(m->ret, m->exact, 0, m->n_groups);
	wide *whole = xcalloc(m->n_groups + 1, sizeof *whole);
	uint8_t *scaled = scaled_groups(m);
	struct weighed_sum *weighed = scaled ? xcalloc(m->n_groups + 1, sizeof *weighed) : NULL;
	for (size_t i = 0; i < m->requests->v.n; i++)
		add_request(m, i, whole, weighed);
	for (size_t g = 0; g < m->n_groups && !rc; g++) {
		if (weighed)
			end_weighed(m, &weighed[g], g);
		if (!whole[g])
			continue;
		if (!(scaled && scaled[g]) && (whole[g] > INT64_MAX || whole[g] < INT64_MIN))
			rc = too_large(e);
		m->ret[g] += (double)whole[g];
		if (m->exact)
			m->exact[g] = (int64_t)whole[g];
	}
	free(weighed);
	free(whole);
	free(scaled);
	return rc;
}
