/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/read/plan.h"

#include "base/units.h"
#include "tsdb/version/tombstones.h"

#define LOOK_EVERY 4096 /* series or steps */

/* ---- requests ---- */

static bool same_refs(const struct plan_requests *a, const struct plan_set *s, size_t first, size_t n)
{
	if (s->n != n)
		return false;
	for (size_t i = 0; i < n; i++)
		if (a->parts[s->first + i].ref != a->parts[first + i].ref)
			return false;
	return true;
}

static uint32_t need_set(struct plan_requests *a, size_t first, size_t n)
{
	uint32_t id;
	if (a->v.n && same_refs(a, &a->sets.v[a->v.v[a->v.n - 1].set], first, n))
		return a->v.v[a->v.n - 1].set;
	uint64_t h = n;
	for (size_t i = 0; i < n; i++)
		h = hash_u64(h ^ a->parts[first + i].ref);
	if (!MAP_FIND_OR_ADD(&a->by_refs, h, id, a->sets.n, same_refs(a, &a->sets.v[id], first, n)))
		vec_push(&a->sets, (struct plan_set){ .first = first, .n = n });
	return id;
}

static bool same_question(const struct source_part *x, const struct source_part *y)
{
	return x->after_ms == y->after_ms && x->until_ms == y->until_ms && x->scale == y->scale && x->group == y->group &&
	       x->n_steps == y->n_steps && x->step_ms == y->step_ms && source_weigh_eq(&x->weigh, &y->weigh);
}

static int check_part(struct tsdb_view *v, const struct source_part *p, size_t n_groups, struct err *e)
{
	if (!view_has_ref(v, p->ref))
		return view_bad_ref(p->ref, e);
	if (p->group >= n_groups || p->n_steps > n_groups - p->group)
		return err_set(e, ERR_INTERNAL, "a part names group %u of %zu", p->group + MAX(p->n_steps, 1) - 1, n_groups);
	return 0;
}

int plan_requests_make(struct tsdb_view *v, const struct source_part *parts, size_t n, size_t n_groups,
		       const struct source_limits *lim, struct plan_requests *ret, struct err *e)
{
	ret->parts = parts;
	ret->n_partitions = v->v->n;
	for (size_t i = 0, first = 0; i < n; i++) {
		int rc = check_part(v, &parts[i], n_groups, e);
		if (!rc && i % 1024 == 0)
			rc = limits_check(lim, 0, e);
		if (rc)
			return rc;
		if (i + 1 < n && same_question(&parts[i], &parts[i + 1]))
			continue;
		uint32_t set = need_set(ret, first, i + 1 - first);
		vec_push(&ret->v, (struct plan_request){ parts[i].after_ms, parts[i].until_ms, parts[i].step_ms, parts[i].scale,
							 MAX(parts[i].n_steps, 1), parts[i].group, set, ret->n_slots, parts[i].weigh });
		ret->n_slots += MAX(parts[i].n_steps, 1);
		first = i + 1;
	}
	return 0;
}

void plan_requests_release(struct plan_requests *a)
{
	for (size_t i = 0; i < a->sets.n; i++) {
		for (size_t p = 0; a->sets.v[i].in && p < a->n_partitions; p++)
			free(a->sets.v[i].in[p].ids);
		free(a->sets.v[i].in);
	}
	vec_free(&a->v);
	vec_free(&a->sets);
	map_free(&a->by_refs);
}

static int by_id(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

const struct plan_series *plan_requests_series(struct plan_requests *a, struct tsdb_view *v, size_t set, size_t p)
{
	struct plan_set *s = &a->sets.v[set];
	if (!s->in)
		s->in = xcalloc(a->n_partitions + 1, sizeof *s->in);
	struct plan_series *x = &s->in[p];
	if (x->known)
		return x;
	bool sorted = true;
	x->known = x->unique = true;
	x->ids = xreallocarray(NULL, s->n + 1, sizeof *x->ids);
	for (size_t i = 0; i < s->n; i++) {
		uint32_t id = view_series(v, a->parts[s->first + i].ref, p);
		if (id == NOT_THERE)
			continue;
		sorted &= !x->n || x->ids[x->n - 1] < id;
		x->ids[x->n++] = id;
	}
	if (!sorted)
		qsort(x->ids, x->n, sizeof *x->ids, by_id);
	for (size_t i = 1; i < x->n; i++)
		x->unique &= x->ids[i - 1] != x->ids[i];
	return x;
}

/* ---- aggregates ---- */

bool bound_is_whole(const struct part *p, int64_t t_ms)
{
	return t_ms <= part_start_ms(p) || t_ms >= part_end_ms(p) || t_ms % PART_AGGREGATE_MS == 0;
}

/* Whether there are series enough for any. */
static bool can_be_complete(const struct part *p, size_t n_series)
{
	for (size_t i = 0; i < p->aggregates.n && !atomic_load_explicit(&p->no_sums, memory_order_relaxed); i++)
		if (p->aggregates.v[i] && p->aggregates.v[i] <= n_series)
			return true;
	return false;
}

bool *aggregates_complete(const struct pstate *ps, const struct part *p, const struct plan_series *s)
{
	if (!can_be_complete(p, s->n) || !s->unique || tombstones_touch_part(ps, p))
		return NULL;
	uint32_t *have = xcalloc(p->aggregates.n, sizeof *have);
	for (size_t i = 0, k = 0; i < s->n && k < p->series.n;) {
		if (s->ids[i] < p->series.v[k].series) {
			i++;
		} else if (s->ids[i] > p->series.v[k].series) {
			k++;
		} else {
			if (p->series.v[k].aggregate)
				have[p->series.v[k].aggregate - 1]++;
			i++;
			k++;
		}
	}
	bool *ret = NULL;
	for (size_t i = 0; i < p->aggregates.n; i++)
		if (have[i] && have[i] == p->aggregates.v[i]) {
			if (!ret)
				ret = xcalloc(p->aggregates.n, sizeof *ret);
			ret[i] = true;
		}
	free(have);
	return ret;
}

/* ---- units of a merge ---- */

#define PLAN_SHARE 4 /* the list goes when the query's stacks come, and has no account of its own: it may be larger than what the query may hold */

/* Before n series are looked at, of which there will be about n units. False: the plan has failed. */
static bool plan_goes_on(struct read_plan *plan, size_t n)
{
	uint64_t max = plan->lim ? MIN(plan->lim->max_bytes, UINT64_MAX / PLAN_SHARE) * PLAN_SHARE : 0, bytes = ((uint64_t)plan->units.n + n) * sizeof(struct unit);
	char text[24];
	plan->work += n + 1;
	if (!plan->rc && max && bytes > max)
		plan->rc = err_set(plan->e, ERR_LIMIT, "the query reads so many series in so many hours and steps that a list of them alone needs more than %s (four times --query.max-bytes): "
				   "ask for a shorter range, fewer steps or fewer series, or raise it", units_format_size(max, text));
	if (!plan->rc && plan->work >= LOOK_EVERY) {
		plan->work = 0;
		plan->rc = limits_check(plan->lim, 0, plan->e);
	}
	return !plan->rc;
}

static void add_windows(struct read_plan *plan, const struct pstate *s, const struct plan_series *series, struct unit u)
{
	for (size_t i = 0; i < s->n_windows; i++) {
		if (!hour_meets(s->windows[i]->hour, u.after_ms, u.until_ms))
			continue;
		if (!plan_goes_on(plan, series->n))
			return;
		u.window = s->windows[i];
		for (size_t k = 0; k < series->n; k++) {
			u.series = series->ids[k];
			vec_push(&plan->units, u);
		}
	}
}

static bool whole(const struct part *p, const struct part_series *s, const struct unit *u)
{
	return part_start_ms(p) + s->min_ms > u->after_ms && part_start_ms(p) + s->max_ms <= u->until_ms;
}

static bool meets(const struct part *p, const struct part_series *s, const struct unit *u)
{
	return part_start_ms(p) + s->min_ms <= u->until_ms && part_start_ms(p) + s->max_ms > u->after_ms;
}

/* A unit per stretch of its range that was not deleted. */
static void add_unmasked(struct read_plan *plan, const struct pstate *s, struct unit u)
{
	int64_t until = u.until_ms;
	while (tombstones_next(s, u.part, u.series, &u.after_ms, until, &u.until_ms)) {
		vec_push(&plan->units, u);
		u.after_ms = u.until_ms;
	}
}

/* Whether the part can answer for the series: an hour always can, a rollup if it is within the range and nothing of it was deleted. */
static bool answers(const struct pstate *s, const struct part *p, const struct part_series *x, const struct unit *u)
{
	if (p->level == LEVEL_HOUR)
		return meets(p, x, u);
	return whole(p, x, u) && !tombstones_touch(s, x->series, part_start_ms(p), part_end_ms(p));
}

/* Units of one part for those series that it can answer, which are taken out of todo. */
static void add_part(struct read_plan *plan, const struct pstate *s, struct part *p, struct plan_series *todo, struct unit u)
{
	if (!plan_goes_on(plan, todo->n))
		return;
	bool *complete = aggregates_complete(s, p, todo), *cut = xcalloc(p->aggregates.n + 1, 1);
	bool minutes = p->level == LEVEL_HOUR && bound_is_whole(p, u.after_ms) && bound_is_whole(p, u.until_ms);
	size_t left = 0;
	for (size_t i = 0; complete && i < todo->n; i++) {
		const struct part_series *x = part_find(p, todo->ids[i]);
		if (x && x->aggregate && !whole(p, x, &u))
			cut[x->aggregate - 1] = true;
	}
	u.part = p;
	for (size_t i = 0; i < todo->n; i++) {
		const struct part_series *x = part_find(p, todo->ids[i]);
		uint32_t a = x && complete && x->aggregate && complete[x->aggregate - 1] ? x->aggregate : 0;
		if (a && (!cut[a - 1] || minutes))
			continue;
		if (x && answers(s, p, x, &u)) {
			u.series = todo->ids[i];
			add_unmasked(plan, s, u);
		} else {
			todo->ids[left++] = todo->ids[i];
		}
	}
	for (uint32_t a = 0; complete && a < p->aggregates.n; a++) {
		if (!complete[a] || (cut[a] && !minutes))
			continue;
		struct unit sum = u;
		sum.series = PART_AGGREGATE | a;
		if (!cut[a]) { /* its profiles are stamped later than what they sum up */
			sum.after_ms = INT64_MIN;
			sum.until_ms = INT64_MAX;
		}
		vec_push(&plan->units, sum);
	}
	todo->n = left;
	free(complete);
	free(cut);
}

static struct plan_series copy_series(const struct plan_series *s)
{
	struct plan_series c = { .n = s->n, .unique = s->unique, .ids = xreallocarray(NULL, s->n + 1, sizeof *c.ids) };
	if (s->n)
		memcpy(c.ids, s->ids, s->n * sizeof *c.ids);
	return c;
}

static void add_hours(struct read_plan *plan, const struct pstate *s, const struct plan_series *series, struct unit u,
		      uint32_t first, uint32_t n)
{
	for (uint32_t i = s->hour_first[first]; i < s->hour_first[first + n] && !plan->rc; i++) {
		if (!hour_meets(s->parts[i]->window, u.after_ms, u.until_ms))
			continue;
		struct plan_series todo = copy_series(series);
		add_part(plan, s, s->parts[i], &todo, u);
		free(todo.ids);
	}
}

/* The coarsest that fit. */
static void add_parts(struct read_plan *plan, const struct pstate *s, const struct plan_series *series, struct unit u)
{
	struct plan_series day = copy_series(series);
	if (s->all_day && !atomic_load(&s->all_day->no_sums))
		add_part(plan, s, s->all_day, &day, u);
	for (uint32_t i = 0; i < 4 && day.n && !plan->rc; i++) {
		struct plan_series six = copy_series(&day);
		if (s->six[i] && !atomic_load(&s->six[i]->no_sums))
			add_part(plan, s, s->six[i], &six, u);
		add_hours(plan, s, &six, u, i * 6, 6);
		free(six.ids);
	}
	free(day.ids);
}

/* Units of the rest of a weighed request. */
static void add_rest(struct read_plan *plan, const struct pstate *s, const struct plan_series *series, struct unit u)
{
	u.rest = true;
	add_windows(plan, s, series, u);
	for (size_t i = 0; i < s->n_parts && s->parts[i]->level == LEVEL_HOUR; i++) {
		u.part = s->parts[i];
		if (!hour_meets(u.part->window, u.after_ms, u.until_ms))
			continue;
		if (!plan_goes_on(plan, series->n))
			return;
		for (size_t k = 0; k < series->n; k++) {
			const struct part_series *x = part_find(u.part, series->ids[k]);
			u.series = series->ids[k];
			if (x && !x->is_float && meets(u.part, x, &u))
				add_unmasked(plan, s, u);
		}
	}
}

static void add_units(struct read_plan *plan, const struct pstate *s, const struct plan_series *series, struct unit u, bool singly)
{
	bool weighed = u.weigh.over_ms != 0, one = weighed && !u.weigh.by_cover && u.until_ms - u.after_ms == 1;
	if (weighed && singly && u.weigh.by_cover)
		u.weigh.base_ms = 0;
	if (!one && !(weighed && (singly || !u.weigh.base_ms))) {
		add_windows(plan, s, series, u);
		add_parts(plan, s, series, u);
	}
	if (one || (weighed && (singly || u.weigh.by_cover)))
		add_rest(plan, s, series, u);
}

static int64_t place_of(const struct unit *u)
{
	return u->part ? u->part->window : u->window->hour;
}

/* Units of the rest: what is about the same profiles is adjacent. */
static int by_profiles(const struct unit *x, const struct unit *y)
{
	if (place_of(x) != place_of(y))
		return place_of(x) < place_of(y) ? -1 : 1;
	if (x->part != y->part)
		return (uintptr_t)x->part < (uintptr_t)y->part ? -1 : 1;
	if (x->window != y->window)
		return (uintptr_t)x->window < (uintptr_t)y->window ? -1 : 1;
	return (x->series > y->series) - (x->series < y->series);
}

static int by_group(const void *a, const void *b)
{
	const struct unit *x = a, *y = b;
	if (x->group != y->group)
		return x->group < y->group ? -1 : 1;
	if (x->partition != y->partition)
		return x->partition < y->partition ? -1 : 1;
	if (x->rest != y->rest)
		return y->rest ? -1 : 1;
	if (x->rest)
		return by_profiles(x, y);
	return (unit_factor(x) > unit_factor(y)) - (unit_factor(x) < unit_factor(y));
}

static bool in_order(const struct read_plan *p)
{
	for (size_t i = 1; i < p->units.n; i++)
		if (by_group(&p->units.v[i - 1], &p->units.v[i]) > 0)
			return false;
	return true;
}

int plan_make(struct tsdb_view *v, struct plan_requests *requests, bool singly, const struct source_limits *lim, struct read_plan *ret,
	      struct err *e)
{
	ret->lim = lim;
	ret->e = e;
	ret->rc = limits_check(lim, 0, e);
	for (size_t i = 0; i < requests->v.n; i++) {
		const struct plan_request *a = &requests->v.v[i];
		for (uint32_t step = 0; step < a->n_steps; step++)
			for (size_t p = 0; p < v->v->n; p++) {
				if (!plan_goes_on(ret, 0))
					return ret->rc;
				const struct pstate *s = v->v->p[p];
				struct unit u = { .group = a->group + step, .partition = (uint32_t)p, .scale = a->scale,
						  .after_ms = a->after_ms + step * a->step_ms,
						  .until_ms = a->until_ms + step * a->step_ms, .weigh = a->weigh };
				u.begin_ms = u.after_ms;
				if (!partition_meets(s->p, u.after_ms, u.until_ms))
					continue;
				const struct plan_series *series = plan_requests_series(requests, v, a->set, p);
				add_units(ret, s, series, u, singly);
			}
	}
	if (ret->rc)
		return ret->rc;
	if (!in_order(ret))
		qsort(ret->units.v, ret->units.n, sizeof *ret->units.v, by_group);
	return 0;
}

void plan_release(struct read_plan *p)
{
	vec_free(&p->units);
}
