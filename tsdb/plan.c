/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/plan.h"

#include "tsdb/masks.h"

static void add_windows(struct plan *plan, const struct pstate *s, struct unit u)
{
	for (size_t i = 0; i < s->n_windows; i++) {
		if (!hour_meets(s->windows[i]->hour, u.after_ms, u.until_ms))
			continue;
		u.window = s->windows[i];
		vec_push(&plan->units, u);
	}
}

static bool whole(const struct part *p, const struct part_series *s, const struct unit *u)
{
	return part_start_ms(p) + s->min_ms > u->after_ms && part_start_ms(p) + s->max_ms <= u->until_ms;
}

/* True if the rollup stands for all of the series' parts in its range. */
static bool add_rollup(struct plan *plan, const struct pstate *ps, struct part *p, struct unit u)
{
	const struct part_series *s = p ? part_find(p, u.series) : NULL;
	if (!s || !whole(p, s, &u) || masks_touch(ps, u.series, part_start_ms(p), part_end_ms(p)))
		return false;
	u.part = p;
	vec_push(&plan->units, u);
	return true;
}

/* A unit per stretch of its range that was not deleted. */
static void add_unmasked(struct plan *plan, const struct pstate *s, struct unit u)
{
	int64_t until = u.until_ms;
	while (masks_next(s, u.part, u.series, &u.after_ms, until, &u.until_ms)) {
		vec_push(&plan->units, u);
		u.after_ms = u.until_ms;
	}
}

static void add_hours(struct plan *plan, const struct pstate *s, struct unit u, uint32_t first, uint32_t n)
{
	for (uint32_t i = s->hour_first[first]; i < s->hour_first[first + n]; i++) {
		struct part *p = s->parts[i];
		const struct part_series *x = hour_meets(p->window, u.after_ms, u.until_ms) ? part_find(p, u.series) : NULL;
		if (!x || part_start_ms(p) + x->min_ms > u.until_ms || part_start_ms(p) + x->max_ms <= u.after_ms)
			continue;
		u.part = p;
		add_unmasked(plan, s, u);
	}
}

/* The coarsest that fit. Graphs need the profiles one by one, so they get the hours. */
static void add_parts(struct plan *plan, const struct pstate *s, struct unit u, bool hours_only)
{
	if (!hours_only && add_rollup(plan, s, s->all_day, u))
		return;
	for (uint32_t i = 0; i < 4; i++)
		if (hours_only || !add_rollup(plan, s, s->six[i], u))
			add_hours(plan, s, u, i * 6, 6);
}

static int by_group(const void *a, const void *b)
{
	const struct unit *x = a, *y = b;
	if (x->group != y->group)
		return x->group < y->group ? -1 : 1;
	if (x->partition != y->partition)
		return x->partition < y->partition ? -1 : 1;
	return 0;
}

static int by_place(const void *a, const void *b)
{
	const struct unit *x = a, *y = b;
	if (x->partition != y->partition)
		return x->partition < y->partition ? -1 : 1;
	if (x->window != y->window)
		return x->window < y->window ? -1 : 1;
	if (x->part != y->part)
		return x->part < y->part ? -1 : 1;
	if (x->series != y->series)
		return x->series < y->series ? -1 : 1;
	return (x->after_ms > y->after_ms) - (x->after_ms < y->after_ms);
}

static bool in_order(const struct plan *p, int (*cmp)(const void *, const void *))
{
	for (size_t i = 1; i < p->units.n; i++)
		if (cmp(&p->units.v[i - 1], &p->units.v[i]) > 0)
			return false;
	return true;
}

int plan_make(struct tsdb_view *v, const struct source_part *parts, size_t n, size_t n_groups, bool place,
	      const struct source_limits *lim, struct plan *ret, struct err *e)
{
	for (size_t i = 0; i < n; i++) {
		if (!view_has_ref(v, parts[i].ref))
			return view_bad_ref(parts[i].ref, e);
		if (parts[i].group >= n_groups)
			return err_set(e, ERR_INTERNAL, "a part names group %u of %zu", parts[i].group, n_groups);
		int rc = i % 1024 ? 0 : limits_check(lim, 0, e);
		if (rc)
			return rc;
		for (size_t p = 0; p < v->v->n; p++) {
			const struct pstate *s = v->v->p[p];
			struct unit u = { .group = parts[i].group, .partition = (uint32_t)p, .scale = parts[i].scale,
					  .after_ms = parts[i].after_ms, .until_ms = parts[i].until_ms };
			if (!partition_meets(s->p, u.after_ms, u.until_ms))
				continue;
			u.series = view_series(v, parts[i].ref, p);
			if (u.series == NOT_THERE)
				continue;
			add_windows(ret, s, u);
			add_parts(ret, s, u, place);
		}
	}
	int (*cmp)(const void *, const void *) = place ? by_place : by_group;
	if (!in_order(ret, cmp))
		qsort(ret->units.v, ret->units.n, sizeof *ret->units.v, cmp);
	return 0;
}

void plan_release(struct plan *p)
{
	vec_free(&p->units);
}
