/* SPDX-License-Identifier: Apache-2.0 */
/* Sums and shares of several peers. Peers answer integers; they are scaled here once, in the order in which storage does (sums_put.c): requests,
 * which are consecutive parts that differ only in their series, one after the other, each scaled as a whole; weighed ones together as long as scale
 * and divisor are equal; and what has no scale at the end. */
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "fleet/union_internal.h"

/* The scaled requests of a call: each a class of parts. */
struct sums_request {
	const struct source_part *part; /* the first */
	size_t first;                /* of its n_steps sums */
};

struct union_sums {
	const struct source_part *parts;
	size_t n_groups;
	VEC(struct sums_request) requests;
	int128 *slots;               /* of requests */
	size_t n_slots;
	int128 *whole;               /* by group: what has no scale */
	double *ret;
	bool *scaled;                /* by group: it has a scale somewhere */
};

static bool sums_same_request(const struct source_part *a, const struct source_part *b)
{
	return a->after_ms == b->after_ms && a->until_ms == b->until_ms && a->scale == b->scale && a->group == b->group && a->n_steps == b->n_steps &&
	       a->step_ms == b->step_ms && source_weigh_eq(&a->weigh, &b->weigh);
}

/* Parts come in order: the request of the last one, or a new one. */
static uint32_t sums_class_of(void *arg, size_t part)
{
	struct union_sums *s = arg;
	const struct source_part *p = &s->parts[part], *last = s->requests.n ? s->requests.v[s->requests.n - 1].part : NULL;
	if (!last || !sums_same_request(&s->parts[part - 1], p)) {
		vec_push(&s->requests, (struct sums_request){ p, s->n_slots });
		s->n_slots += MAX(p->n_steps, 1);
	}
	return (uint32_t)s->requests.n - 1;
}

static int sums_too_large(struct err *e)
{
	return err_set(e, ERR_EXECUTION, "a sum of values does not fit in 64 bits: ask for a shorter range or fewer series");
}

static int sums_reserve(struct union_sums *s, const struct source_limits *lim, struct err *e)
{
	uint64_t bytes = (uint64_t)s->n_slots * sizeof *s->slots;
	if (lim && lim->max_bytes && bytes > lim->max_bytes)
		return err_set(e, ERR_LIMIT, "the sums of the query's steps need %llu bytes, more than %llu (--query.max-bytes): use fewer steps or series, or "
			       "raise it", (unsigned long long)bytes, (unsigned long long)lim->max_bytes);
	s->slots = xcalloc(s->n_slots + 1, sizeof *s->slots);
	s->whole = xcalloc(s->n_groups + 1, sizeof *s->whole);
	s->scaled = xcalloc(s->n_groups + 1, sizeof *s->scaled);
	return 0;
}

/* One output of a peer. */
static int sums_gather_one(struct union_sums *s, const struct fleet_result *r, uint32_t class, uint32_t group, uint32_t output, struct err *e)
{
	if (class == UNION_AS_IT_IS) {
		s->ret[group] += r->sums[output];
		s->scaled[group] = true;
		return 0;
	}
	if (class == UNION_WHOLE) {
		s->whole[group] += r->exact[output];
		return 0;
	}
	const struct sums_request *q = &s->requests.v[class - UNION_CLASSES];
	int128 *to = &s->slots[q->first + (group - q->part->group)];
	bool fits = false;
	if (!q->part->weigh.over_ms || !q->part->weigh.by_cover)
		fits = !__builtin_add_overflow(*to, (int128)r->exact[output], to);
	else if (fabs(r->sums[output]) < 1e30) /* values times weights */
		fits = !__builtin_add_overflow(*to, (int128)r->sums[output], to);
	return fits ? 0 : sums_too_large(e);
}

static int sums_gather(struct union_sums *s, const struct union_parts *p, const struct fleet_result *r, struct err *e)
{
	int rc = 0;
	for (size_t i = 0; i < p->ranges.n && r->n && !rc; i++)
		for (uint32_t k = 0; k < p->ranges.v[i].n && !rc; k++)
			rc = sums_gather_one(s, r, p->ranges.v[i].class, p->ranges.v[i].group + k, p->ranges.v[i].first + k, e);
	return rc;
}

/* The sum of a group's weighed requests that follow each other and have one scale and divisor. */
struct sums_weighed {
	double scale;
	int64_t over_ms;
	int128 sum;
};

static void sums_end_weighed(struct union_sums *s, struct sums_weighed *w, size_t group)
{
	if (w->sum)
		s->ret[group] += source_weighed(w->sum, w->over_ms) * w->scale;
	w->sum = 0;
}

/* Adds a sum to a group's weighed ones; false: it does not fit. */
static bool sums_add_weighed(struct sums_weighed *w, const struct source_part *p, int128 sum)
{
	w->scale = p->scale;
	w->over_ms = p->weigh.over_ms;
	return (p->weigh.by_cover || !__builtin_mul_overflow(sum, (int128)p->weigh.base_ms, &sum)) && !__builtin_add_overflow(w->sum, sum, &w->sum);
}

static bool sums_scale(struct union_sums *s)
{
	bool fits = true;
	struct sums_weighed *weighed = xcalloc(s->n_groups + 1, sizeof *weighed);
	for (size_t i = 0; i < s->requests.n; i++) {
		const struct source_part *p = s->requests.v[i].part;
		for (uint32_t step = 0; step < MAX(p->n_steps, 1); step++) {
			int128 sum = s->slots[s->requests.v[i].first + step];
			uint32_t group = p->group + step;
			struct sums_weighed *w = &weighed[group];
			s->scaled[group] = true;
			if (!p->weigh.over_ms) {
				s->ret[group] += (double)sum * p->scale;
				continue;
			}
			if (w->scale != p->scale || w->over_ms != p->weigh.over_ms)
				sums_end_weighed(s, w, group);
			fits &= sums_add_weighed(w, p, sum);
		}
	}
	for (size_t g = 0; g < s->n_groups && s->requests.n; g++)
		sums_end_weighed(s, &weighed[g], g);
	free(weighed);
	return fits;
}

static int sums_end(struct union_sums *s, int64_t *exact, struct err *e)
{
	if (!sums_scale(s))
		return sums_too_large(e);
	for (size_t g = 0; g < s->n_groups; g++) {
		if (!s->scaled[g] && (s->whole[g] > INT64_MAX || s->whole[g] < INT64_MIN))
			return sums_too_large(e);
		if (s->whole[g])
			s->ret[g] += (double)s->whole[g];
		if (exact)
			exact[g] = (int64_t)s->whole[g];
	}
	return 0;
}

int union_sums(struct source_view *sv, const struct source_part *parts, size_t n, size_t n_groups, const struct source_frame_filter *f,
	       const struct source_limits *lim, double *ret, int64_t *exact, struct err *e)
{
	struct union_view *v = (struct union_view *)sv;
	struct union_sums s = { .parts = parts, .n_groups = n_groups, .ret = ret };
	struct union_parts *by_peer;
	struct union_ask *asks = NULL;
	memset(ret, 0, n_groups * sizeof *ret);
	int rc = union_parts_make(v, parts, n, n_groups, sums_class_of, &s, lim, &by_peer, e);
	if (!rc)
		rc = sums_reserve(&s, lim, e);
	if (!rc)
		rc = union_parts_ask(v, by_peer, &(struct fleet_call){ .op = FLEET_SUMS, .filter = f, .exact = true }, lim, &asks, e);
	for (size_t i = 0; i < v->n_peers && !rc; i++)
		rc = sums_gather(&s, &by_peer[i], &asks[i].result, e);
	if (!rc)
		rc = sums_end(&s, exact, e);
	free(s.slots);
	free(s.whole);
	free(s.scaled);
	vec_free(&s.requests);
	union_asks_free(v, asks);
	union_parts_free(v, by_peer);
	return rc;
}

/* ---- shares ---- */

static bool shares_gather(const struct union_parts *p, const struct fleet_result *r, const struct source_shares *ret)
{
	bool fits = true;
	for (size_t i = 0; i < p->ranges.n && r->n; i++)
		for (uint32_t k = 0; k < p->ranges.v[i].n; k++) {
			uint32_t group = p->ranges.v[i].group + k, output = p->ranges.v[i].first + k;
			fits &= !__builtin_add_overflow(ret->match[group], r->shares.match[output], &ret->match[group]);
			fits &= !__builtin_add_overflow(ret->total[group], r->shares.total[output], &ret->total[group]);
			fits &= !__builtin_add_overflow(ret->there[group], r->shares.there[output], &ret->there[group]);
		}
	return fits;
}

int union_shares(struct source_view *sv, const struct source_part *parts, size_t n, size_t n_groups, const struct source_frame_filter *f,
		 const struct source_limits *lim, const struct source_shares *ret, struct err *e)
{
	struct union_view *v = (struct union_view *)sv;
	struct union_parts *by_peer;
	struct union_ask *asks = NULL;
	bool fits = true;
	memset(ret->match, 0, n_groups * sizeof *ret->match);
	memset(ret->total, 0, n_groups * sizeof *ret->total);
	memset(ret->there, 0, n_groups * sizeof *ret->there);
	int rc = union_parts_make(v, parts, n, n_groups, NULL, NULL, lim, &by_peer, e); /* their scale is 1 */
	if (!rc)
		rc = union_parts_ask(v, by_peer, &(struct fleet_call){ .op = FLEET_SHARES, .filter = f }, lim, &asks, e);
	for (size_t i = 0; i < v->n_peers && !rc; i++)
		fits &= shares_gather(&by_peer[i], &asks[i].result, ret);
	union_asks_free(v, asks);
	union_parts_free(v, by_peer);
	return rc || fits ? rc : sums_too_large(e);
}
