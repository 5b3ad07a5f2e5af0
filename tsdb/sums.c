/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of the values of stacks that satisfy a frame filter, or of all values. The filter is evaluated once per location
 * of a partition and becomes a bit per column; then each series' window is read once, however many steps of a graph ask
 * for it: the matching value of each profile is found, and each step gets the sum of those in its range. Where all
 * series of a service are asked for by whole minutes, their aggregate is read instead.
 *
 * Sums are integers until the end (sums_put.h), so that the answer does not depend on the order of threads, nor on what it was
 * read from. */
#include "tsdb/damage.h"
#include "tsdb/masks.h"
#include "tsdb/match.h"
#include "tsdb/plan.h"
#include "tsdb/space.h"
#include "tsdb/sums_put.h"

#define MAX_AT_ONCE 32

/* The series of a set in one part or window. */
struct task {
	uint32_t set, partition;
	struct part *part;     /* of the version */
	struct window *window; /* or: not sealed */
};

/* Asks of a set, by time. */
struct set_asks {
	VEC(uint32_t) asks;
	VEC(int64_t) until;  /* the latest that any ask up to here reaches */
};

struct sums {
	struct tsdb_view *v;
	const struct source_limits *lim;
	const struct source_frame_filter *filter;
	struct asks asks;
	struct set_asks *of_set;
	VEC(struct task) tasks;
	size_t at_once;    /* tasks that a worker takes */
	uint64_t **match;  /* by partition, a bit per column */
	uint32_t *n_match;
	struct totals *workers;
	size_t n_workers;
	struct pool *pool; /* or NULL */
	pthread_mutex_t lock;
	struct err *e;
	atomic_int failed;
};

/* ---- tasks ---- */

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

static void list_asks(struct sums *m)
{
	m->of_set = xcalloc(m->asks.sets.n + 1, sizeof *m->of_set);
	for (size_t i = 0; i < m->asks.v.n; i++)
		vec_push(&m->of_set[m->asks.v.v[i].set].asks, (uint32_t)i);
	for (size_t i = 0; i < m->asks.sets.n; i++)
		sort_asks(&m->asks, &m->of_set[i]);
}

/* The first ask of the set that reaches beyond t. */
static size_t first_reaching(const struct set_asks *s, int64_t t_ms)
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

static bool any_ask(const struct sums *m, size_t set, int64_t start_ms, int64_t end_ms)
{
	const struct set_asks *s = &m->of_set[set];
	for (size_t i = first_reaching(s, start_ms); i < s->asks.n; i++) {
		const struct ask *a = &m->asks.v.v[s->asks.v[i]];
		if (a->after_ms >= end_ms)
			break;
		if (step_meets(a, start_ms, end_ms))
			return true;
	}
	return false;
}

/* Whether the part has any of the series. *at: where the first of those asked about before would be; none comes before it. */
static bool any_series(const struct part *p, const struct ask_series *s, size_t *at)
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
	const struct ask_series *all;
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

/* The sets that ask for something of partition p, as their first series lie in parts. */
static struct located_sets sets_of(struct sums *m, uint32_t p)
{
	int64_t start = (int64_t)m->v->v->p[p]->p->day * DAY_MS;
	struct located_sets sets = { 0 };
	for (uint32_t set = 0; set < m->asks.sets.n; set++) {
		const struct ask_series *s = any_ask(m, set, start, start + DAY_MS) ? asks_series(&m->asks, m->v, set, p) : NULL;
		if (s && s->n)
			vec_push(&sets.v, (struct located){ s->ids[0], set, s });
	}
	if (sets.v.n)
		qsort(sets.v.v, sets.v.n, sizeof *sets.v.v, by_series);
	return sets;
}

/* Parts one after the other, and in each the series, so that what lies together is read together. */
static void cut_tasks(struct sums *m)
{
	for (uint32_t p = 0; p < m->v->v->n; p++) {
		const struct pstate *s = m->v->v->p[p];
		struct located_sets sets = sets_of(m, p);
		for (size_t i = 0; i < s->n_parts && s->parts[i]->level == LEVEL_HOUR; i++)
			for (size_t k = 0, at = 0; k < sets.v.n; k++)
				if (any_series(s->parts[i], sets.v.v[k].all, &at) &&
				    any_ask(m, sets.v.v[k].set, part_start_ms(s->parts[i]), part_end_ms(s->parts[i])))
					vec_push(&m->tasks, (struct task){ sets.v.v[k].set, p, s->parts[i], NULL });
		for (size_t i = 0; i < s->n_windows; i++)
			for (size_t k = 0; k < sets.v.n; k++)
				if (any_ask(m, sets.v.v[k].set, s->windows[i]->hour * HOUR_MS, (s->windows[i]->hour + 1) * HOUR_MS))
					vec_push(&m->tasks, (struct task){ sets.v.v[k].set, p, NULL, s->windows[i] });
		vec_free(&sets.v);
	}
}

/* One dictionary after the other. */
static int match_all(struct sums *m, struct err *e)
{
	m->match = xcalloc(m->v->v->n + 1, sizeof(*m->match));
	m->n_match = xcalloc(m->v->v->n + 1, sizeof *m->n_match);
	for (size_t i = 0; i < m->tasks.n; i++) {
		uint32_t p = m->tasks.v[i].partition;
		if (m->match[p])
			continue;
		struct partition *stacks = own_stacks(m->v->own, p);
		m->match[p] = match_columns(m->filter, stacks, m->v->v->p[p]->names, &m->n_match[p], e);
		own_give(m->v->own, stacks);
		if (!m->match[p])
			return -(int)e->code;
	}
	return 0;
}

/* ---- giving rows to steps ---- */

struct wrapped {
	const struct sums *m;
	struct totals *t;
	size_t slot;
};

static void count_wrap(void *arg, uint32_t step, int by)
{
	struct wrapped *w = arg;
	if (!w->t->wraps)
		w->t->wraps = xcalloc(w->m->asks.n_slots + 1, sizeof *w->t->wraps);
	w->t->wraps[w->slot + step] += by;
}

static void give(const struct sums *m, struct totals *t, uint32_t set, const struct rows *r)
{
	const struct set_asks *s = &m->of_set[set];
	for (size_t i = first_reaching(s, r->start_ms); i < s->asks.n; i++) {
		const struct ask *a = &m->asks.v.v[s->asks.v[i]];
		if (a->after_ms >= r->end_ms)
			break;
		steps_add(a, r, t->before.v, &t->asks[s->asks.v[i]], count_wrap, &(struct wrapped){ m, t, a->slot });
	}
}

/* Gives the value of each row; small: they cannot add up to more than 64 bits. */
static void give_small(const struct sums *m, struct totals *t, uint32_t set, const struct rows *r, const int64_t *values)
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
static void give_values(const struct sums *m, struct totals *t, uint32_t set, struct rows r, const int64_t *values)
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

/* ---- reading ---- */

/* The filtered value of each row; stamps and number of rows in *ret. */
static int read_values(struct sums *m, struct totals *t, const struct task *x, uint32_t series, struct rows *ret, uint64_t *read,
		       int64_t **values, struct err *e)
{
	const struct sealed_points *points = &t->space->part.points;
	int rc;
	*ret = (struct rows){ .start_ms = part_start_ms(x->part), .end_ms = part_end_ms(x->part) };
	if (m->filter) {
		rc = part_row_sums(x->part, series, m->match[x->partition], m->n_match[x->partition], &t->space->part, &ret->n, read, e);
		ret->t_ms = ret->n ? &t->space->part.totals.rows.v[0].t_ms : NULL;
		ret->stride = sizeof *t->space->part.totals.rows.v;
		*values = t->space->part.sums.v;
		return rc;
	}
	rc = part_points(x->part, series, &t->space->part, e);
	*read = ret->n = rc ? 0 : points->n;
	ret->t_ms = points->every_ms ? NULL : points->t_ms.v;
	ret->stride = sizeof *points->t_ms.v;
	ret->first_ms = points->first_ms;
	ret->every_ms = points->every_ms;
	*values = points->totals.v;
	return rc;
}

static int read_series(struct sums *m, struct totals *t, const struct task *x, uint32_t series, struct err *e)
{
	const struct pstate *ps = m->v->v->p[x->partition];
	int64_t *values;
	struct rows r;
	uint64_t read = 0;
	int rc = read_values(m, t, x, series, &r, &read, &values, e);
	if (rc)
		return rc;
	if (masks_touch(ps, series, r.start_ms, r.end_ms))
		for (size_t i = 0; i < r.n; i++)
			if (masks_hide(ps, x->part, series, rows_stamp(&r, i)))
				values[i] = 0;
	if (!m->filter && t->space->part.points.small)
		give_small(m, t, x->set, &r, values);
	else
		give_values(m, t, x->set, r, values);
	return limits_check(m->lim, read, e);
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

/* Whether every step that meets the part takes whole minutes of it. */
static bool by_minutes(const struct sums *m, const struct task *x)
{
	const struct set_asks *s = &m->of_set[x->set];
	for (size_t i = first_reaching(s, part_start_ms(x->part)); i < s->asks.n; i++) {
		const struct ask *a = &m->asks.v.v[s->asks.v[i]];
		if (a->after_ms >= part_end_ms(x->part))
			break;
		if (!bounds_are_whole(x->part, a->after_ms, a->step_ms, a->n_steps) || !bounds_are_whole(x->part, a->until_ms, a->step_ms, a->n_steps))
			return false;
	}
	return true;
}

static int read_one(struct sums *m, struct totals *t, const struct task *x, uint32_t series, struct err *e)
{
	int rc = read_series(m, t, x, series, e);
	return rc ? damage_pass(m->lim, x->part, series, e) : 0;
}

/* One that is damaged is not needed: its series are there. */
static int read_aggregate(struct sums *m, struct totals *t, const struct task *x, const struct ask_series *s, uint32_t a, struct err *e)
{
	int rc = read_series(m, t, x, PART_AGGREGATE | a, e);
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

static int read_part(struct sums *m, struct totals *t, const struct task *x, struct err *e)
{
	const struct ask_series *s = asks_series(&m->asks, m->v, x->set, x->partition);
	bool *complete = x->part->aggregates.n && by_minutes(m, x) ? aggregates_complete(m->v->v->p[x->partition], x->part, s) : NULL;
	int rc = 0;
	for (size_t i = 0; i < s->n && !rc; i++) {
		const struct part_series *p = part_find(x->part, s->ids[i]);
		if (p && !p->is_float && !(complete && p->aggregate && complete[p->aggregate - 1]))
			rc = read_one(m, t, x, p->series, e);
	}
	for (uint32_t a = 0; complete && a < x->part->aggregates.n && !rc; a++)
		if (complete[a])
			rc = read_aggregate(m, t, x, s, a, e);
	free(complete);
	return rc;
}

static int by_time(const void *a, const void *b)
{
	int64_t x = (*(const struct row *const *)a)->t_ms, y = (*(const struct row *const *)b)->t_ms;
	return (x > y) - (x < y);
}

/* Rows of the head lie as they came; the few that came late are put in their place here. */
static void give_unsorted(struct sums *m, struct totals *t, const struct task *x, const struct chunk *c, struct rows r,
			  const int64_t *values)
{
	const struct row **order = xcalloc(r.n + 1, sizeof(*order));
	int64_t *stamps = xcalloc(2 * r.n + 1, sizeof *stamps), *sorted = stamps + r.n;
	for (size_t i = 0; i < r.n; i++)
		order[i] = &c->rows.v[i];
	qsort(order, r.n, sizeof(*order), by_time);
	for (size_t i = 0; i < r.n; i++) {
		stamps[i] = order[i]->t_ms;
		sorted[i] = values[order[i] - c->rows.v];
	}
	r.t_ms = stamps;
	r.stride = sizeof *stamps;
	give_values(m, t, x->set, r, sorted);
	free(order);
	free(stamps);
}

static int read_chunk(struct sums *m, struct totals *t, const struct task *x, const struct chunk *c, uint64_t *read, struct err *e)
{
	size_t visible = chunk_visible(c, m->v->seq);
	int64_t *values = xcalloc(visible + 1, sizeof *values);
	int rc = m->filter ? chunk_row_sums(c, visible, m->match[x->partition], m->n_match[x->partition], values, e) : 0;
	for (size_t i = 0; i < visible; i++) {
		const struct row *r = &c->rows.v[i];
		*read += m->filter ? r->n : 1;
		if (!m->filter)
			values[i] = r->total;
		if (r->stale)
			values[i] = 0;
	}
	struct rows r = { .t_ms = visible ? &c->rows.v[0].t_ms : NULL, .stride = sizeof *c->rows.v, .n = visible,
			  .start_ms = x->window->hour * HOUR_MS, .end_ms = (x->window->hour + 1) * HOUR_MS };
	if (!rc && c->unsorted)
		give_unsorted(m, t, x, c, r, values);
	else if (!rc && visible)
		give_values(m, t, x->set, r, values);
	free(values);
	return rc;
}

static int read_window(struct sums *m, struct totals *t, const struct task *x, struct err *e)
{
	const struct ask_series *s = asks_series(&m->asks, m->v, x->set, x->partition);
	int rc = 0;
	for (size_t i = 0; i < s->n && !rc; i++) {
		uint64_t read = 0;
		pthread_rwlock_rdlock(&x->window->lock);
		const struct chunk *c = window_chunk(x->window, s->ids[i]);
		if (c) {
			read_tally_add(m->filter ? chunk_sample_bytes(c) : c->rows.n * sizeof *c->rows.v);
			rc = read_chunk(m, t, x, c, &read, e);
		}
		pthread_rwlock_unlock(&x->window->lock);
		if (!rc)
			rc = limits_check(m->lim, read, e);
	}
	return rc;
}

static void fail(struct sums *m, const struct err *e)
{
	pthread_mutex_lock(&m->lock);
	if (!atomic_load(&m->failed)) {
		if (m->e)
			*m->e = *e;
		atomic_store(&m->failed, -(int)e->code);
	}
	pthread_mutex_unlock(&m->lock);
}

static void run_tasks(void *arg, size_t i, unsigned worker)
{
	struct sums *m = arg;
	struct totals *t = &m->workers[worker];
	size_t end = MIN((i + 1) * m->at_once, m->tasks.n);
	struct err e;
	if (!t->slots) {
		t->space = space_take(m->v->db->spaces);
		space_slots(t->space, m->asks.n_slots + 1);
		t->slots = t->space->slots;
		t->asks = xcalloc(m->asks.v.n + 1, sizeof *t->asks);
		for (size_t k = 0; k < m->asks.v.n; k++)
			t->asks[k].sums = t->slots + m->asks.v.v[k].slot;
	}
	for (size_t k = i * m->at_once; k < end && !atomic_load(&m->failed); k++)
		if (m->tasks.v[k].part ? read_part(m, t, &m->tasks.v[k], &e) : read_window(m, t, &m->tasks.v[k], &e))
			fail(m, &e);
}

/* ---- the call ---- */

/* Its slots are zero again. */
static void totals_release(struct sums *m, struct totals *t)
{
	for (size_t i = 0; t->asks && i < m->asks.v.n; i++)
		if (t->asks[i].end)
			memset(t->asks[i].sums + t->asks[i].first, 0, (t->asks[i].end - t->asks[i].first) * sizeof *t->slots);
	space_give(m->v->db->spaces, t->space);
	free(t->wraps);
	free(t->asks);
	vec_free(&t->before);
}

static void sums_release(struct sums *m)
{
	for (size_t i = 0; i < m->n_workers; i++)
		totals_release(m, &m->workers[i]);
	for (size_t i = 0; m->match && i < m->v->v->n; i++)
		free(m->match[i]);
	for (size_t i = 0; m->of_set && i < m->asks.sets.n; i++) {
		vec_free(&m->of_set[i].asks);
		vec_free(&m->of_set[i].until);
	}
	free(m->of_set);
	free(m->match);
	free(m->n_match);
	free(m->workers);
	vec_free(&m->tasks);
	asks_release(&m->asks);
	pthread_mutex_destroy(&m->lock);
}

int view_sums(struct source_view *sv, const struct source_part *parts, size_t n, size_t n_groups,
	      const struct source_frame_filter *f, const struct source_limits *lim, double *ret, int64_t *exact, struct err *e)
{
	struct sums m = { .v = (struct tsdb_view *)sv, .lim = lim, .filter = f, .e = e };
	m.pool = lim ? lim->pool : NULL;
	m.n_workers = (m.pool ? pool_size(m.pool) : 0) + 1;
	pthread_mutex_init(&m.lock, NULL);
	m.workers = xcalloc(m.n_workers, sizeof(*m.workers));
	int rc = asks_make(m.v, parts, n, n_groups, lim, &m.asks, e);
	if (!rc) {
		list_asks(&m);
		cut_tasks(&m);
		if (f)
			rc = match_all(&m, e);
	}
	if (!rc) {
		m.at_once = MAX(MIN(m.tasks.n / (m.n_workers * 8), MAX_AT_ONCE), 1);
		pool_run(m.pool, (m.tasks.n + m.at_once - 1) / m.at_once, run_tasks, &m);
		rc = atomic_load(&m.failed);
	}
	if (!rc)
		rc = sums_put(&(struct sums_put){ &m.asks, m.workers, m.n_workers, m.pool, n_groups, ret, exact }, e);
	sums_release(&m);
	return rc;
}
