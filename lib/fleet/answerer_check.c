/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/answerer_check.h"

#include <math.h>

#include "base/units.h"

#define TIME_MOST (INT64_MAX / 4)        /* of stamps that are added to each other */
#define WEIGHT_MOST (INT64_C(1) << 40)   /* of a profile, ms: sums of values times weights stay below 2^127 */
#define PLACES_MOST (UINT64_C(4) << 30)  /* bytes of the places of a result, where there is no limit */

static bool check_time(int64_t ms)
{
	return ms >= -TIME_MOST && ms <= TIME_MOST;
}

/* from + n widths, all of them times. */
static bool check_times(int64_t from_ms, int64_t width_ms, uint64_t n)
{
	int64_t all, end;
	return n <= INT64_MAX && check_time(from_ms) && width_ms >= 0 && !__builtin_mul_overflow(width_ms, (int64_t)n, &all) &&
	       !__builtin_add_overflow(from_ms, all, &end) && check_time(end);
}

static int check_parts(const struct fleet_call *c, struct err *e)
{
	for (size_t i = 0; i < c->n_parts; i++) {
		const struct source_part *p = &c->parts[i];
		uint64_t steps = MAX(p->n_steps, 1u);
		if (!check_time(p->after_ms) || !check_time(p->until_ms))
			return err_set(e, ERR_BAD_DATA, "part %zu of the question has a time that is none", i);
		if (p->group >= c->n_groups || steps > c->n_groups - p->group)
			return err_set(e, ERR_BAD_DATA, "part %zu of the question is of group %u and %llu after it, and there are %zu", i, p->group,
				       (unsigned long long)steps - 1, c->n_groups);
		if (!isfinite(p->scale))
			return err_set(e, ERR_BAD_DATA, "part %zu of the question has a scale that is none", i);
		if (steps > 1 && (p->step_ms <= 0 || !check_times(MAX(p->after_ms, p->until_ms), p->step_ms, steps)))
			return err_set(e, ERR_BAD_DATA, "part %zu of the question has a step that is none", i);
		if (p->weigh.over_ms < 0 || p->weigh.over_ms > WEIGHT_MOST || p->weigh.base_ms < 0 || p->weigh.base_ms > WEIGHT_MOST)
			return err_set(e, ERR_BAD_DATA, "part %zu of the question has a weight that is none", i);
		if (p->weigh.over_ms && (p->until_ms - p->after_ms > WEIGHT_MOST))
			return err_set(e, ERR_BAD_DATA, "part %zu of the question weighs profiles over more than 35 years", i);
	}
	return 0;
}

static int check_windows(const struct fleet_call *c, struct err *e)
{
	const struct source_windows *w = c->windows;
	if (w && (w->range_ms < 0 || !check_time(w->range_ms) || (w->n > 1 && w->step_ms <= 0) || !check_times(w->until_ms, w->step_ms, w->n)))
		return err_set(e, ERR_BAD_DATA, "the windows of the question are none");
	return 0;
}

static int check_tiles(const struct fleet_call *c, struct err *e)
{
	const struct source_tiles *t = c->tiles;
	if (!t || !t->n || t->width_ms <= 0 || !check_times(t->after_ms, t->width_ms, t->n))
		return err_set(e, ERR_BAD_DATA, "the windows of the question are none");
	return 0;
}

static int check_refs(const struct fleet_call *c, struct answerer_view *x, struct err *e)
{
	if (!answerer_view_has(x, c->refs, c->n_refs, c->op == FLEET_FLOATS))
		return err_set(e, ERR_BAD_DATA, "the question is about series that its view has not handed out as %s", c->op == FLEET_FLOATS ? "floats" : "profiles");
	for (size_t i = 0; i < c->n_parts; i++)
		if (!answerer_view_has(x, &c->parts[i].ref, 1, false))
			return err_set(e, ERR_BAD_DATA, "part %zu of the question is about a series that its view has not handed out as profiles", i);
	return 0;
}

/* The places of the result, before anything is read. */
static int check_room(const struct fleet_call *c, uint64_t max_bytes, struct err *e)
{
	size_t one = sizeof(struct source_points); /* the largest of the results by series */
	uint64_t bytes = 0, covers = 0;
	bool tiled = c->op == FLEET_COVERS;
	char max[24];
	if (tiled && __builtin_mul_overflow((uint64_t)c->tiles->n, sizeof(struct source_cover), &covers))
		covers = UINT64_MAX / 2;
	if (__builtin_mul_overflow((uint64_t)c->n_refs, covers + one, &bytes) || __builtin_add_overflow(bytes, c->n_groups, &bytes) ||
	    c->n_groups > (UINT64_MAX - bytes) / 32)
		bytes = UINT64_MAX;
	else
		bytes += c->n_groups * 32; /* three integers, or a sum and an integer, or a vector */
	max_bytes = max_bytes ? max_bytes : PLACES_MOST;
	if (bytes > max_bytes)
		return err_set(e, ERR_LIMIT, "the results of the question take more than %s (--query.max-bytes of the server that is asked): ask for a shorter range, "
			       "a larger step or fewer series", units_format_size(max_bytes, max));
	return 0;
}

void answerer_clamp(struct fleet_call *c)
{
	c->after_ms = MIN(MAX(c->after_ms, -TIME_MOST), TIME_MOST);
	c->until_ms = MIN(MAX(c->until_ms, -TIME_MOST), TIME_MOST);
}

int answerer_check(const struct fleet_call *c, struct answerer_view *x, uint64_t max_bytes, struct err *e)
{
	int rc = 0;
	switch (c->op) {
	case FLEET_COVERS:
		rc = check_tiles(c, e);
		break;
	case FLEET_POINTS:
		rc = check_windows(c, e);
		break;
	case FLEET_SHARES:
	case FLEET_MATCHES:
		if (!c->filter)
			rc = err_set(e, ERR_BAD_DATA, "the question has no filter");
		break;
	default:
		break;
	}
	if (!rc)
		rc = check_parts(c, e);
	if (!rc)
		rc = check_room(c, max_bytes, e);
	return rc ? rc : check_refs(c, x, e);
}
