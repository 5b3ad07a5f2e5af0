/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of the values of stacks that satisfy a frame filter, or of all values, or both, as a share over time needs. The filter is evaluated once per
 * location of a partition and becomes a bit per column. Then each series' window is read once, however many steps of a graph need it: the matching
 * value of each profile is computed, and each step gets the sum of those in its range. Where all series of a service are asked for by whole
 * minutes, their aggregate is read instead.
 *
 * Sums are integers until the end (sums_put.h), so that the answer does not depend on the order of threads, nor on what it was
 * read from. */
#include "tsdb/part/damage.h"
#include "tsdb/read/column_filter.h"
#include "tsdb/read/plan.h"
#include "tsdb/read/scratch.h"
#include "tsdb/read/set_requests.h"
#include "tsdb/read/sums_put.h"
#include "tsdb/read/view_cached.h"
#include "tsdb/version/tombstones.h"

#define MAX_AT_ONCE 32

/* The series of a set in one part or window. */
struct task {
	uint32_t set, partition;
	struct part *part;     /* of the version */
	struct window *window; /* or: not sealed */
	struct part *rollup;   /* of a part of an hour: the day's, whose series another task reads; NULL: none does */
};

/* The values that are added up: of sums only the first. */
enum { MATCH, TOTAL, THERE, MEASURES };

struct sums {
	struct tsdb_view *v;
	const struct source_limits *lim;
	const struct source_frame_filter *filter;
	struct column_filters filters; /* of filter, if there is one */
	struct plan_requests requests;
	struct set_requests *of_set;
	VEC(struct task) tasks;
	size_t at_once;    /* tasks that a worker takes */
	uint64_t **match;  /* by partition, a bit per column */
	uint32_t *n_match;
	bool by_cover;     /* a request has weights by cover */
	unsigned n_measures;
	struct sums_totals *workers; /* of measure k of worker w: workers[k * n_workers + w] */
	size_t n_workers;
	struct pool *pool; /* or NULL */
	struct mutex lock;
	struct err *e;
	atomic_int failed;
};

/* ---- whole parts ---- */

/* Whether one of the n times t, t + step and so on lies in [first, last). */
static bool any_bound(int64_t t_ms, int64_t step_ms, uint32_t n, int64_t first_ms, int64_t last_ms)
{
	if (t_ms >= first_ms || n == 1 || step_ms <= 0)
		return t_ms >= first_ms && t_ms < last_ms;
	int64_t k = (first_ms - t_ms + step_ms - 1) / step_ms;
	return k < n && t_ms + k * step_ms < last_ms;
}

/* Some profiles of one part have stamps from first to last. Whether no step of a request of the set begins or ends between two of them: then each step takes all
 * of them or none, and their sum is enough. */
static bool takes_whole(const struct sums *m, uint32_t set, int64_t first_ms, int64_t last_ms)
{
	const struct set_requests *s = &m->of_set[set];
	for (size_t i = set_requests_first(s, first_ms - 1); i < s->requests.n; i++) {
		const struct plan_request *a = &m->requests.v.v[s->requests.v[i]];
		if (a->after_ms >= last_ms)
			break;
		if (a->weigh.by_cover || any_bound(a->after_ms, a->step_ms, a->n_steps, first_ms, last_ms) ||
		    any_bound(a->until_ms, a->step_ms, a->n_steps, first_ms, last_ms))
			return false;
	}
	return true;
}

static bool takes_whole_part(const struct sums *m, uint32_t set, const struct part *p)
{
	return takes_whole(m, set, part_start_ms(p) + 1, part_end_ms(p));
}

/* The day's rollup, if its sums are all that the requests of a set need of the day's parts; else NULL. */
static struct part *day_rollup(const struct sums *m, uint32_t set, const struct pstate *s)
{
	struct part *p = s->all_day;
	return m->filter && p && !s->tombstones && !atomic_load(&p->no_sums) && takes_whole_part(m, set, p) ? p : NULL;
}

/* ---- tasks ---- */

/* Whether the part has any of the series. *at: where the first of those asked about before would be; none comes before it. */
static bool any_series(const struct part *p, const struct plan_series *s, size_t *at)
{
	while (*at < p->series.n && p->series.v[*at].series < s->ids[0])
		++*at;
	if (*at < p->series.n && p->series.v[*at].series == s->ids[0])
		return true;
	for (size_t i = 1; i < s->n; i++)
		if (part_find(p, s->ids[i]))
			return true;
	return false;
}

struct located {
	uint32_t series, set;
	const struct plan_series *all;
};

static int by_series(const void *a, const void *b)
{
	const struct located *x = a, *y = b;
	if (x->series != y->series)
		return x->series < y->series ? -1 : 1;
	return (x->set > y->set) - (x->set < y->set);
}

struct located_sets {
	VEC(struct located) v;
};

/* The sets with requests for partition p, in the order of their first series in parts. */
static struct located_sets sets_of(struct sums *m, uint32_t p)
{
	int64_t start = (int64_t)m->v->v->p[p]->p->day * DAY_MS;
	struct located_sets sets = { 0 };
	for (uint32_t set = 0; set < m->requests.sets.n; set++) {
		const struct plan_series *s = set_requests_any(&m->requests, &m->of_set[set], start, start + DAY_MS)
						      ? plan_requests_series(&m->requests, m->v, set, p)
						      : NULL;
		if (s && s->n)
			vec_push(&sets.v, (struct located){ s->ids[0], set, s });
	}
	if (sets.v.n)
		qsort(sets.v.v, sets.v.n, sizeof *sets.v.v, by_series);
	return sets;
}

/* What a day of which the stacks are not here will be read for, once they are: it is fetched together with them. */
static void sums_want(const struct sums *m, uint32_t p, const struct located_sets *sets)
{
	const struct pstate *s = m->v->v->p[p];
	for (size_t k = 0; k < sets->v.n; k++) {
		const struct part *rollup = day_rollup(m, sets->v.v[k].set, s);
		if (rollup)
			view_want(rollup, sets->v.v[k].all->ids[0], false);
	}
	for (size_t i = 0; sets->v.n && i < s->n_parts && s->parts[i]->level == LEVEL_HOUR; i++)
		for (size_t k = 0, at = 0; k < sets->v.n; k++)
			if (!day_rollup(m, sets->v.v[k].set, s) && any_series(s->parts[i], sets->v.v[k].all, &at) &&
			    set_requests_any(&m->requests, &m->of_set[sets->v.v[k].set], part_start_ms(s->parts[i]), part_end_ms(s->parts[i])))
				view_want(s->parts[i], sets->v.v[k].all->ids[0], !takes_whole_part(m, sets->v.v[k].set, s->parts[i]));
}

/* Whether a rollup lacks one of the series. */
static bool lacks_any(const struct part *rollup, const struct plan_series *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (!part_find(rollup, s->ids[i]))
			return true;
	return false;
}

/* The tasks of a day's parts. */
static void cut_parts(struct sums *m, uint32_t p, const struct located_sets *sets)
{
	const struct pstate *s = m->v->v->p[p];
	struct part **rollups = xcalloc(sets->v.n + 1, sizeof(*rollups)); /* by set */
	bool *hours = xcalloc(sets->v.n + 1, sizeof *hours);              /* by set: whether parts of hours are read */
	for (size_t k = 0; k < sets->v.n; k++) {
		const struct located *x = &sets->v.v[k];
		rollups[k] = day_rollup(m, x->set, s);
		hours[k] = !rollups[k] || lacks_any(rollups[k], x->all);
		if (rollups[k])
			vec_push(&m->tasks, (struct task){ x->set, p, rollups[k], NULL, NULL });
	}
	for (size_t i = 0; i < s->n_parts && s->parts[i]->level == LEVEL_HOUR; i++)
		for (size_t k = 0, at = 0; k < sets->v.n; k++)
			if (hours[k] && any_series(s->parts[i], sets->v.v[k].all, &at) &&
			    set_requests_any(&m->requests, &m->of_set[sets->v.v[k].set], part_start_ms(s->parts[i]), part_end_ms(s->parts[i])))
				vec_push(&m->tasks, (struct task){ sets->v.v[k].set, p, s->parts[i], NULL, rollups[k] });
	free(rollups);
	free(hours);
}

/* Parts one after the other, and in each the series, so that what lies together is read together. */
static void cut_tasks(struct sums *m)
{
	for (uint32_t p = 0; p < m->v->v->n; p++) {
		const struct pstate *s = m->v->v->p[p];
		struct located_sets sets = sets_of(m, p);
		if (!sets.v.n || (m->filter && !column_filters_has(&m->filters, p))) {
			sums_want(m, p, &sets);
			vec_free(&sets.v);
			continue;
		}
		cut_parts(m, p, &sets);
		for (size_t i = 0; i < s->n_windows; i++)
			for (size_t k = 0; k < sets.v.n; k++)
				if (set_requests_any(&m->requests, &m->of_set[sets.v.v[k].set], s->windows[i]->hour * HOUR_MS,
						     (s->windows[i]->hour + 1) * HOUR_MS))
					vec_push(&m->tasks, (struct task){ sets.v.v[k].set, p, NULL, s->windows[i], NULL });
		vec_free(&sets.v);
	}
}

/* One day after the other. */
static int match_all(struct sums *m, struct err *e)
{
	m->match = xcalloc(m->v->v->n + 1, sizeof(*m->match));
	m->n_match = xcalloc(m->v->v->n + 1, sizeof *m->n_match);
	for (size_t i = 0; i < m->tasks.n; i++) {
		uint32_t p = m->tasks.v[i].partition;
		if (m->match[p])
			continue;
		int rc = column_filters_bits(&m->filters, p, &m->match[p], &m->n_match[p], e);
		if (rc)
			return rc;
		if (!m->match[p]) {
			m->match[p] = xcalloc(1, sizeof *m->match[p]);
			m->n_match[p] = 0;
		}
	}
	return 0;
}

/* ---- giving rows to steps ---- */

struct wrapped {
	const struct sums *m;
	struct sums_totals *t;
	size_t slot;
};

static void count_wrap(void *arg, uint32_t step, int by)
{
	struct wrapped *w = arg;
	if (!w->t->wraps)
		w->t->wraps = xcalloc(w->m->requests.n_slots + 1, sizeof *w->t->wraps);
	w->t->wraps[w->slot + step] += by;
}

static void give(const struct sums *m, struct sums_totals *t, uint32_t set, const struct rows *r)
{
	const struct set_requests *s = &m->of_set[set];
	for (size_t i = set_requests_first(s, r->start_ms); i < s->requests.n; i++) {
		const struct plan_request *a = &m->requests.v.v[s->requests.v[i]];
		if (a->after_ms >= r->end_ms)
			break;
		steps_add(a, r, t->before.v, &t->requests[s->requests.v[i]], count_wrap, &(struct wrapped){ m, t, a->slot });
	}
}

/* Gives the value of each row; small: they cannot add up to more than 64 bits. */
static void give_small(const struct sums *m, struct sums_totals *t, uint32_t set, const struct rows *r, const int64_t *values)
{
	int64_t sum = 0;
	vec_reserve(&t->before, r->n + 1);
	for (size_t i = 0; i < r->n; i++) {
		t->before.v[i] = sum;
		sum += values[i];
	}
	t->before.v[r->n] = sum;
	if (r->n)
		give(m, t, set, r);
}

/* The same; where they add up to more they are given in pieces. */
static void give_values(const struct sums *m, struct sums_totals *t, uint32_t set, struct rows r, const int64_t *values)
{
	size_t n = 0, all = r.n;
	vec_reserve(&t->before, all + 1);
	t->before.v[0] = 0;
	for (size_t i = 0; i < all; i++, n++) {
		int64_t sum;
		/* Half the range: the difference of two of them fits as well. */
		if (UNLIKELY(__builtin_add_overflow(t->before.v[n], values[i], &sum) || sum > INT64_MAX / 2 || sum < -(INT64_MAX / 2)) && n) {
			r.n = n;
			give(m, t, set, &r);
			rows_skip(&r, n);
			n = 0;
			sum = values[i];
		}
		t->before.v[n + 1] = sum;
	}
	r.n = n;
	if (n)
		give(m, t, set, &r);
}

/* ---- weights by cover ---- */

/* The covers of rows. */
struct covers {
	const uint32_t *v;  /* NULL: all have `same` */
	size_t stride;      /* bytes from one to the next */
	uint32_t same;
};

static void give_rest_of_step(struct sums_totals *t, const struct plan_request *a, uint32_t step, const struct rows *r, const int64_t *values,
			      const struct covers *covers)
{
	int64_t after = a->after_ms + step * a->step_ms, until = a->until_ms + step * a->step_ms;
	int128 rest = 0;
	if (after >= r->end_ms || until <= r->start_ms)
		return;
	for (size_t i = 0; i < r->n; i++) {
		int64_t at = rows_stamp(r, i);
		uint32_t cover = covers->v ? *(const uint32_t *)((const char *)covers->v + i * covers->stride) : covers->same;
		if (at > after && at <= until)
			rest += (int128)values[i] * (source_weigh_of(&a->weigh, after, at, cover) - a->weigh.base_ms);
	}
	t->rest[a->slot + step] += rest;
}

/* What the values of rows, in any order, add to the rest of each request that weighs by cover. */
static void give_rest(const struct sums *m, struct sums_totals *t, uint32_t set, const struct rows *r, const int64_t *values, const struct covers *covers)
{
	const struct set_requests *s = &m->of_set[set];
	for (size_t i = set_requests_first(s, r->start_ms); m->by_cover && i < s->requests.n; i++) {
		const struct plan_request *a = &m->requests.v.v[s->requests.v[i]];
		if (a->after_ms >= r->end_ms)
			break;
		if (a->weigh.by_cover && !t->rest)
			t->rest = xcalloc(m->requests.n_slots + 1, sizeof *t->rest);
		for (uint32_t step = 0; a->weigh.by_cover && step < a->n_steps; step++)
			give_rest_of_step(t, a, step, r, values, covers);
	}
}

/* ---- reading ---- */

static void rows_of_points(const struct sealed_points *p, struct rows *ret)
{
	ret->n = p->n;
	ret->t_ms = p->every_ms ? NULL : p->t_ms.v;
	ret->stride = sizeof *p->t_ms.v;
	ret->first_ms = p->first_ms;
	ret->every_ms = p->every_ms;
}

/* All that is measured. totals_only: what matches could not be read. */
static int read_measures(struct sums *m, struct sums_totals *t, const struct task *x, uint32_t series, bool totals_only, struct rows *ret,
			 uint64_t *read, int64_t **values, struct err *e)
{
	struct part_scratch *w = &t->scratch->part;
	int rc = part_columns(x->part, series, w, e);
	if (!rc)
		rc = part_match(x->part, series, totals_only ? NULL : m->match[x->partition], m->n_match[x->partition], w->columns.points.n, w, read, e);
	if (rc)
		return rc;
	struct sums_totals *there = &t[THERE * m->n_workers];
	rows_of_points(&w->columns.points, ret);
	vec_reserve(&there->rows, ret->n + 1);
	for (size_t i = 0; i < ret->n; i++)
		there->rows.v[i] = 1;
	for (size_t i = 0; i < w->columns.stale.n; i++)
		there->rows.v[w->columns.stale.v[i]] = 0;
	values[MATCH] = w->sums.v;
	values[TOTAL] = w->columns.points.totals.v;
	values[THERE] = there->rows.v;
	return 0;
}

/* The filtered value of each row; stamps and number of rows in *ret. */
static int read_values(struct sums *m, struct sums_totals *t, const struct task *x, uint32_t series, bool totals_only, struct rows *ret,
		       struct covers *covers, uint64_t *read, int64_t **values, struct err *e)
{
	struct part_scratch *w = &t->scratch->part;
	const struct sealed_points *points = m->by_cover ? &w->columns.points : &w->points;
	int rc;
	*covers = (struct covers){ 0 };
	*ret = (struct rows){ .start_ms = part_start_ms(x->part), .end_ms = part_end_ms(x->part) };
	if (m->n_measures > 1)
		return read_measures(m, t, x, series, totals_only, ret, read, values, e);
	if (m->filter) {
		rc = part_row_sums(x->part, series, m->match[x->partition], m->n_match[x->partition], w, &ret->n, read, e);
		ret->t_ms = ret->n ? &w->totals.rows.v[0].t_ms : NULL;
		ret->stride = sizeof *w->totals.rows.v;
		covers->v = ret->n ? &w->totals.rows.v[0].cover_ms : NULL;
		covers->stride = ret->stride;
		*values = w->sums.v;
		return rc;
	}
	rc = m->by_cover ? part_columns(x->part, series, w, e) : part_points(x->part, series, w, e);
	if (rc)
		return rc;
	if (m->by_cover)
		*covers = (struct covers){ w->columns.same_cover ? NULL : w->columns.covers.v, sizeof *w->columns.covers.v, w->columns.cover_ms };
	*read = points->n;
	rows_of_points(points, ret);
	*values = points->totals.v;
	return 0;
}

static int read_series(struct sums *m, struct sums_totals *t, const struct task *x, uint32_t series, bool totals_only, struct err *e)
{
	const struct pstate *ps = m->v->v->p[x->partition];
	int64_t *values[MEASURES];
	struct covers covers;
	struct rows r;
	uint64_t read = 0;
	int rc = read_values(m, t, x, series, totals_only, &r, &covers, &read, values, e);
	if (rc)
		return rc;
	if (tombstones_touch(ps, series, r.start_ms, r.end_ms))
		for (size_t i = 0; i < r.n; i++)
			for (unsigned k = 0; k < m->n_measures && tombstones_hide(ps, x->part, series, rows_stamp(&r, i)); k++)
				values[k][i] = 0;
	give_rest(m, t, x->set, &r, values[MATCH], &covers);
	for (unsigned k = 0; k < m->n_measures; k++)
		if (!m->filter && (m->by_cover ? &t->scratch->part.columns.points : &t->scratch->part.points)->small)
			give_small(m, t, x->set, &r, values[k]);
		else
			give_values(m, t + k * m->n_workers, x->set, r, values[k]);
	return limits_check(m->lim, read, e);
}

/* The sum of a part's profiles of a series as one row that is stamped t_ms. *ret_done: false, and nothing was added, if there is no sum of them, or it does
 * not fit. */
static int read_whole(struct sums *m, struct sums_totals *t, const struct task *x, uint32_t series, int64_t t_ms, bool *ret_done, struct err *e)
{
	struct part_sums s;
	size_t n;
	uint64_t read = 0;
	int64_t values[MEASURES] = { [THERE] = 1 };
	const uint64_t *match = m->match[x->partition];
	*ret_done = false;
	int rc = part_sum(x->part, series, INT64_MIN, INT64_MAX, &t->scratch->part, &s, &n, &read, e);
	if (rc)
		return rc;
	if (!n) { /* without values: whether there are profiles only the profiles say */
		*ret_done = m->n_measures == 1;
		return 0;
	}
	bool fits = true;
	for (size_t i = 0; i < s.n && fits; i++) {
		int64_t v;
		uint32_t c = s.columns[i];
		bool hit = c < m->n_match[x->partition] && (match[c / 64] >> c % 64 & 1);
		fits = !__builtin_mul_overflow(s.sums[i], s.factor, &v) &&
		       !(m->n_measures > 1 && __builtin_add_overflow(values[TOTAL], v, &values[TOTAL])) && !(hit && __builtin_add_overflow(values[MATCH], v, &values[MATCH]));
	}
	if (!fits)
		return 0;
	const struct rows r = { .t_ms = &t_ms, .stride = sizeof t_ms, .n = 1, .start_ms = part_start_ms(x->part), .end_ms = part_end_ms(x->part) };
	for (unsigned k = 0; k < m->n_measures; k++)
		give_values(m, t + k * m->n_workers, x->set, r, &values[k]);
	*ret_done = true;
	return limits_check(m->lim, read + s.n, e);
}

/* Whether those of the times t, t + step and so on, n of them, that lie within the part are whole minutes. */
static bool bounds_are_whole(const struct part *p, int64_t t_ms, int64_t step_ms, uint32_t n)
{
	if (n == 1)
		return bound_is_whole(p, t_ms);
	if (t_ms % PART_AGGREGATE_MS == 0 && step_ms % PART_AGGREGATE_MS == 0)
		return true;
	int64_t k = t_ms > part_start_ms(p) ? 0 : (part_start_ms(p) - t_ms) / step_ms + 1;
	for (; k < n && t_ms + k * step_ms < part_end_ms(p); k++)
		if ((t_ms + k * step_ms) % PART_AGGREGATE_MS)
			return false;
	return true;
}

/* Whether every step that meets the part takes whole minutes of it, and does not need each profile. */
static bool by_minutes(const struct sums *m, const struct task *x)
{
	const struct set_requests *s = &m->of_set[x->set];
	for (size_t i = set_requests_first(s, part_start_ms(x->part)); i < s->requests.n; i++) {
		const struct plan_request *a = &m->requests.v.v[s->requests.v[i]];
		if (a->after_ms >= part_end_ms(x->part))
			break;
		if (a->weigh.by_cover || !bounds_are_whole(x->part, a->after_ms, a->step_ms, a->n_steps) || !bounds_are_whole(x->part, a->until_ms, a->step_ms, a->n_steps))
			return false;
	}
	return true;
}

/* The series by its sums, if these are all that is needed of it. */
static int read_one_whole(struct sums *m, struct sums_totals *t, const struct task *x, uint32_t series, bool *ret_done, struct err *e)
{
	const struct part_series *p = part_find(x->part, series);
	int64_t start = part_start_ms(x->part);
	*ret_done = false;
	if (!m->filter || !p || tombstones_touch(m->v->v->p[x->partition], series, start, part_end_ms(x->part)) ||
	    !takes_whole(m, x->set, start + p->min_ms, start + p->max_ms))
		return 0;
	return read_whole(m, t, x, series, start + p->max_ms, ret_done, e);
}

static int read_one(struct sums *m, struct sums_totals *t, const struct task *x, uint32_t series, struct err *e)
{
	bool done;
	int rc = read_one_whole(m, t, x, series, &done, e);
	if (done)
		return rc;
	if (rc && damage_is_lack(x->part, e)) /* the sums are noted to be fetched, and are enough */
		return damage_pass(m->lim, x->part, series, e);
	rc = read_series(m, t, x, series, false, e);
	if (!rc)
		return 0;
	bool lost = m->n_measures > 1 && damage_is(e);
	rc = damage_pass(m->lim, x->part, series, e);
	if (rc || !lost)
		return rc;
	rc = read_series(m, t, x, series, true, e); /* its profiles were there all the same */
	return rc ? damage_pass(m->lim, x->part, series, e) : 0;
}

/* One that is damaged is not needed: its series are there. */
static int read_aggregate(struct sums *m, struct sums_totals *t, const struct task *x, const struct plan_series *s, uint32_t a, struct err *e)
{
	bool done = false;
	int rc = m->filter && takes_whole_part(m, x->set, x->part) ? read_whole(m, t, x, PART_AGGREGATE | a, part_end_ms(x->part), &done, e) : 0;
	if (!rc && !done)
		rc = read_series(m, t, x, PART_AGGREGATE | a, false, e);
	if (rc && damage_is_lack(x->part, e))
		return 0;
	if (!rc || !damage_is(e))
		return rc;
	damage_count(x->part, PART_AGGREGATE | a, e);
	atomic_store(&x->part->no_sums, true);
	rc = 0;
	for (size_t i = 0; i < s->n && !rc; i++) {
		const struct part_series *p = part_find(x->part, s->ids[i]);
		if (p && p->aggregate == a + 1)
			rc = read_one(m, t, x, p->series, e);
	}
	return rc;
}

/* A series from the parts of the day's hours: its sums are empty, do not fit, or are damaged. */
static int read_hours(struct sums *m, struct sums_totals *t, const struct task *x, uint32_t series, struct err *e)
{
	const struct pstate *s = m->v->v->p[x->partition];
	int rc = 0;
	for (size_t i = 0; i < s->n_parts && s->parts[i]->level == LEVEL_HOUR && !rc; i++) {
		const struct task hour = { x->set, x->partition, s->parts[i], NULL, NULL };
		const struct part_series *p = part_find(hour.part, series);
		if (p && !p->is_float && set_requests_any(&m->requests, &m->of_set[x->set], part_start_ms(hour.part), part_end_ms(hour.part)))
			rc = read_one(m, t, &hour, series, e);
	}
	return rc;
}

/* A series or an aggregate from the rollup of a day, which has sums and no profiles. */
static int read_rollup(struct sums *m, struct sums_totals *t, const struct task *x, const struct plan_series *s, uint32_t series, struct err *e)
{
	bool done;
	int rc = read_whole(m, t, x, series, part_end_ms(x->part), &done, e);
	if (done || (rc && !damage_is_lack(x->part, e) && !damage_is(e)))
		return rc;
	if (rc && damage_is_lack(x->part, e))
		return 0;
	if (rc) {
		damage_count(x->part, series, e);
		atomic_store(&x->part->no_sums, true);
		rc = 0;
	}
	if (!(series & PART_AGGREGATE))
		return read_hours(m, t, x, series, e);
	for (size_t i = 0; i < s->n && !rc; i++) {
		const struct part_series *p = part_find(x->part, s->ids[i]);
		if (p && p->aggregate == (series & ~PART_AGGREGATE) + 1)
			rc = read_hours(m, t, x, s->ids[i], e);
	}
	return rc;
}

static int read_part(struct sums *m, struct sums_totals *t, const struct task *x, struct err *e)
{
	const struct plan_series *s = plan_requests_series(&m->requests, m->v, x->set, x->partition);
	bool day = x->part->level == LEVEL_DAY, aggregates = x->part->aggregates.n && !x->rollup && (day || by_minutes(m, x));
	bool *complete = aggregates ? aggregates_complete(m->v->v->p[x->partition], x->part, s) : NULL;
	int rc = 0;
	for (size_t i = 0; i < s->n && !rc; i++) {
		const struct part_series *p = part_find(x->part, s->ids[i]);
		if (p && !p->is_float && !(x->rollup && part_find(x->rollup, p->series)) && !(complete && p->aggregate && complete[p->aggregate - 1]))
			rc = day ? read_rollup(m, t, x, s, p->series, e) : read_one(m, t, x, p->series, e);
	}
	for (uint32_t a = 0; complete && a < x->part->aggregates.n && !rc; a++)
		if (complete[a])
			rc = day ? read_rollup(m, t, x, s, PART_AGGREGATE | a, e) : read_aggregate(m, t, x, s, a, e);
	free(complete);
	return rc;
}

static int by_time(const void *a, const void *b)
{
	int64_t x = (*(const struct chunk_row *const *)a)->t_ms, y = (*(const struct chunk_row *const *)b)->t_ms;
	return (x > y) - (x < y);
}

/* Rows of the head are in order of arrival; the few late ones are sorted here, so that r and values are of rows by stamp. stamps has
 * room for them, and one of values. */
static void sort_rows(const struct sums *m, const struct chunk *c, struct rows *r, int64_t **values, int64_t *stamps)
{
	const struct chunk_row **order = xcalloc(r->n + 1, sizeof(*order));
	int64_t *moved = xcalloc(r->n + 1, sizeof *moved);
	for (size_t i = 0; i < r->n; i++)
		order[i] = &c->rows.v[i];
	qsort(order, r->n, sizeof(*order), by_time);
	for (unsigned k = 0; k < m->n_measures; k++) {
		memcpy(moved, values[k], r->n * sizeof *moved);
		for (size_t i = 0; i < r->n; i++)
			values[k][i] = moved[order[i] - c->rows.v];
	}
	for (size_t i = 0; i < r->n; i++)
		stamps[i] = order[i]->t_ms;
	r->t_ms = stamps;
	r->stride = sizeof *stamps;
	free(order);
	free(moved);
}

/* Computes the values for the rows of the head. */
static uint64_t measure_rows(const struct sums *m, const struct chunk *c, size_t n, int64_t **values)
{
	uint64_t read = 0;
	for (size_t i = 0; i < n; i++) {
		const struct chunk_row *r = &c->rows.v[i];
		read += m->filter ? r->n : 1;
		if (!m->filter)
			values[MATCH][i] = r->total;
		if (m->n_measures > 1) {
			values[TOTAL][i] = r->total;
			values[THERE][i] = 1;
		}
		for (unsigned k = 0; k < m->n_measures && r->stale; k++)
			values[k][i] = 0;
	}
	return read;
}

static int read_chunk(struct sums *m, struct sums_totals *t, const struct task *x, const struct chunk *c, uint64_t *read, struct err *e)
{
	size_t n = chunk_visible(c, m->v->seq);
	int64_t *room = xcalloc((MEASURES + 1) * n + 1, sizeof *room), *values[MEASURES];
	for (unsigned k = 0; k < MEASURES; k++)
		values[k] = room + k * n;
	int rc = m->filter ? chunk_row_sums(c, n, m->match[x->partition], m->n_match[x->partition], values[MATCH], e) : 0;
	*read += measure_rows(m, c, n, values);
	struct rows r = { .t_ms = n ? &c->rows.v[0].t_ms : NULL, .stride = sizeof *c->rows.v, .n = n,
			  .start_ms = x->window->hour * HOUR_MS, .end_ms = (x->window->hour + 1) * HOUR_MS };
	if (!rc && n)
		give_rest(m, t, x->set, &r, values[MATCH], &(struct covers){ &c->rows.v[0].cover_ms, sizeof *c->rows.v, 0 });
	if (!rc && c->unsorted)
		sort_rows(m, c, &r, values, room + MEASURES * n);
	for (unsigned k = 0; k < m->n_measures && n && !rc; k++)
		give_values(m, t + k * m->n_workers, x->set, r, values[k]);
	free(room);
	return rc;
}

static int read_window(struct sums *m, struct sums_totals *t, const struct task *x, struct err *e)
{
	const struct plan_series *s = plan_requests_series(&m->requests, m->v, x->set, x->partition);
	int rc = 0;
	for (size_t i = 0; i < s->n && !rc; i++) {
		uint64_t read = 0;
		rwlock_read(&x->window->lock);
		const struct chunk *c = window_chunk(x->window, s->ids[i]);
		if (c) {
			read_tally_add(m->filter ? chunk_sample_bytes(c) : c->rows.n * sizeof *c->rows.v);
			rc = read_chunk(m, t, x, c, &read, e);
		}
		rwlock_unlock(&x->window->lock);
		if (!rc)
			rc = limits_check(m->lim, read, e);
	}
	return rc;
}

static void fail(struct sums *m, const struct err *e)
{
	mutex_lock(&m->lock);
	if (!atomic_load(&m->failed)) {
		if (m->e)
			*m->e = *e;
		atomic_store(&m->failed, -(int)e->code);
	}
	mutex_unlock(&m->lock);
}

/* A worker's, of all measures. */
static void open_totals(struct sums *m, struct sums_totals *first)
{
	first->scratch = scratch_take(m->v->db->scratch_pool);
	scratch_slots(first->scratch, m->n_measures * m->requests.n_slots + 1);
	for (unsigned i = 0; i < m->n_measures; i++) {
		struct sums_totals *t = first + i * m->n_workers;
		t->slots = first->scratch->slots + i * m->requests.n_slots;
		t->requests = xcalloc(m->requests.v.n + 1, sizeof *t->requests);
		for (size_t k = 0; k < m->requests.v.n; k++)
			t->requests[k].sums = t->slots + m->requests.v.v[k].slot;
	}
}

static void run_tasks(void *arg, size_t i, unsigned worker)
{
	struct sums *m = arg;
	struct sums_totals *t = &m->workers[worker];
	size_t end = MIN((i + 1) * m->at_once, m->tasks.n);
	struct err e;
	if (!t->slots)
		open_totals(m, t);
	for (size_t k = i * m->at_once; k < end && !atomic_load(&m->failed); k++)
		if (m->tasks.v[k].part ? read_part(m, t, &m->tasks.v[k], &e) : read_window(m, t, &m->tasks.v[k], &e))
			fail(m, &e);
}

/* ---- the call ---- */

/* Its slots are zero again. */
static void totals_release(struct sums *m, struct sums_totals *t)
{
	for (size_t i = 0; t->requests && i < m->requests.v.n; i++)
		if (t->requests[i].end)
			memset(t->requests[i].sums + t->requests[i].first, 0, (t->requests[i].end - t->requests[i].first) * sizeof *t->slots);
	scratch_give(m->v->db->scratch_pool, t->scratch);
	free(t->wraps);
	free(t->rest);
	free(t->requests);
	vec_free(&t->before);
	vec_free(&t->rows);
}

static void sums_release(struct sums *m)
{
	for (size_t i = m->n_measures * m->n_workers; i-- > 0;) /* those of the first measure have the scratch */
		totals_release(m, &m->workers[i]);
	for (size_t i = 0; m->match && i < m->v->v->n; i++)
		free(m->match[i]);
	set_requests_free(&m->requests, m->of_set);
	column_filters_release(&m->filters);
	free(m->match);
	free(m->n_match);
	free(m->workers);
	vec_free(&m->tasks);
	plan_requests_release(&m->requests);
	mutex_destroy(&m->lock);
}

/* Each worker has slots of its own: so many workers as there is memory for. */
static int choose_workers(struct sums *m, struct err *e)
{
	uint64_t each = (uint64_t)m->requests.n_slots * (m->n_measures * sizeof(int64_t) + (m->by_cover ? sizeof(int128) : 0));
	uint64_t max = m->lim ? m->lim->max_bytes : 0;
	size_t n = pool_size(m->lim ? m->lim->pool : NULL) + 1;
	if (max && each > max)
		return err_set(e, ERR_LIMIT, "the sums of the query's steps need %llu bytes, more than %llu (--query.max-bytes): use fewer steps or series, or "
			       "raise it", (unsigned long long)each, (unsigned long long)max);
	if (max && each * n > max)
		n = 1; /* slower, but it is answered */
	m->pool = n > 1 ? m->lim->pool : NULL;
	m->n_workers = n;
	m->workers = xcalloc(m->n_measures * n, sizeof(*m->workers));
	return 0;
}

/* Everything added up; sums_release it in any case. */
static int add_up(struct sums *m, const struct source_part *parts, size_t n, size_t n_groups, struct err *e)
{
	mutex_init(&m->lock, LOCK_LEAF, "sums");
	column_filters_init(&m->filters, m->v, m->filter, m->lim);
	int rc = plan_requests_make(m->v, parts, n, n_groups, m->lim, &m->requests, e);
	for (size_t i = 0; i < m->requests.v.n; i++)
		m->by_cover |= m->requests.v.v[i].weigh.by_cover;
	if (!rc)
		rc = choose_workers(m, e);
	if (rc)
		return rc;
	m->of_set = set_requests_list(&m->requests);
	cut_tasks(m);
	if (m->filter)
		rc = match_all(m, e);
	if (rc)
		return rc;
	m->at_once = MAX(MIN(m->tasks.n / (m->n_workers * 8), MAX_AT_ONCE), 1);
	pool_run(m->pool, (m->tasks.n + m->at_once - 1) / m->at_once, run_tasks, m);
	return atomic_load(&m->failed);
}

static int put_measure(const struct sums *m, unsigned k, size_t n_groups, double *ret, int64_t *exact, struct err *e)
{
	return sums_put(&(struct sums_put){ &m->requests, m->workers + k * m->n_workers, m->n_workers, m->pool, n_groups, ret, exact }, e);
}

static int sums_read(struct tsdb_view *v, const struct source_part *parts, size_t n, size_t n_groups, const struct source_frame_filter *f,
		     const struct source_limits *lim, double *ret, int64_t *exact, struct err *e)
{
	struct sums m = { .v = v, .lim = lim, .filter = f, .e = e, .n_measures = 1 };
	int rc = add_up(&m, parts, n, n_groups, e);
	if (!rc)
		rc = put_measure(&m, MATCH, n_groups, ret, exact, e);
	sums_release(&m);
	return rc;
}

int view_sums(struct source_view *sv, const struct source_part *parts, size_t n, size_t n_groups,
	      const struct source_frame_filter *f, const struct source_limits *lim, double *ret, int64_t *exact, struct err *e)
{
	struct view_try try;
	int rc;
	view_try_begin_parts(&try, (struct tsdb_view *)sv, parts, n, lim);
	do
		rc = sums_read(try.v, parts, n, n_groups, f, try.lim, ret, exact, e);
	while (view_try_again(&try, &rc, e));
	return rc;
}

static int shares_read(struct tsdb_view *v, const struct source_part *parts, size_t n, size_t n_groups, const struct source_frame_filter *f,
		       const struct source_limits *lim, const struct source_shares *ret, struct err *e)
{
	int64_t *const to[MEASURES] = { ret->match, ret->total, ret->there };
	AUTOFREE double *unused = xcalloc(n_groups + 1, sizeof *unused);
	struct sums m = { .v = v, .lim = lim, .filter = f, .e = e, .n_measures = MEASURES };
	int rc = add_up(&m, parts, n, n_groups, e);
	for (unsigned k = 0; k < MEASURES && !rc; k++)
		rc = put_measure(&m, k, n_groups, unused, to[k], e);
	sums_release(&m);
	return rc;
}

int view_shares(struct source_view *sv, const struct source_part *parts, size_t n, size_t n_groups, const struct source_frame_filter *f,
		const struct source_limits *lim, const struct source_shares *ret, struct err *e)
{
	struct view_try try;
	int rc;
	view_try_begin_parts(&try, (struct tsdb_view *)sv, parts, n, lim);
	do
		rc = shares_read(try.v, parts, n, n_groups, f, try.lim, ret, e);
	while (view_try_again(&try, &rc, e));
	return rc;
}
