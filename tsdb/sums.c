/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of the values of stacks that satisfy a frame filter, or of all values. The filter is evaluated once per location
 * of a partition and becomes a bit per column; then each series' window is read once, however many steps of a graph ask
 * for it: the matching value of each profile is found, and each step gets the sum of those in its range. Where all
 * series of a service are asked for by whole minutes, their aggregate is read instead.
 *
 * Sums are integers of 128 bits until the end, so that the answer does not depend on the order of threads, nor on what
 * it was read from. */
#include "tsdb/masks.h"
#include "tsdb/names.h"
#include "tsdb/plan.h"
#include "tsdb/space.h"

typedef __int128 wide;

/* Work space of one worker. */
struct totals {
	wide *slots;       /* by step of an ask; zero, and its memory not touched, but in: */
	struct touched {
		uint32_t first, end;
	} *touched;        /* by ask: steps */
	VEC(wide) before;  /* of the rows of one series: sum of those before */
	struct space *space;
};

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
	uint64_t **match;  /* by partition, a bit per column */
	uint32_t *n_match;
	struct totals *workers;
	pthread_mutex_t lock;
	struct err *e;
	atomic_int failed;
};

/* ---- the filter ---- */

static bool location_hits(const struct source_frame_filter *f, const struct symbols *s, const struct sym_location *l)
{
	if (f->leaf_only || !l->n_lines)
		return f->frame(f->arg, s, l, 0);
	for (uint32_t i = 0; i < l->n_lines; i++)
		if (f->frame(f->arg, s, l, i))
			return true;
	return false;
}

/* Per node: whether its location hits, or (not leaf_only) any on the way to the root does. Parents come first. */
static uint8_t *node_hits(const struct source_frame_filter *f, const struct symbols *s, const struct names *names)
{
	uint32_t n_locations = symbols_count(s, SYMBOLS_LOCATIONS), n = symbols_count(s, SYMBOLS_NODES);
	uint8_t *location = xmalloc(n_locations + 1), *node = xcalloc(n, 1), below = !f->leaf_only;
	for (uint32_t i = 0; i < n_locations; i++)
		location[i] = location_hits(f, s, symbols_get_location(s, i));
	for (size_t i = 0; names && i < names->v.n; i++)
		if (names->v.v[i].location < n_locations)
			location[names->v.v[i].location] = location[names->v.v[i].as];
	const struct sym_node *run = NULL;
	for (uint32_t i = 1, first = 0, end = 0; i < n; i++) {
		if (i >= end)
			run = symbols_node_run(s, i, &first, &end);
		const struct sym_node *x = &run[i - first];
		node[i] = location[x->location] | (node[x->parent] & below);
	}
	free(location);
	return node;
}

static void make_match(struct sums *m, const struct source_frame_filter *f, size_t i)
{
	struct partition *p = m->v->v->p[i]->p;
	partition_load(p);
	pthread_rwlock_rdlock(&p->dict_lock);
	uint8_t *node = node_hits(f, p->symbols, m->v->v->p[i]->names);
	uint32_t n = symbols_count(p->symbols, SYMBOLS_COLUMNS);
	m->match[i] = xcalloc(n / 64 + 1, sizeof(uint64_t));
	m->n_match[i] = n;
	const struct sym_column *run = NULL;
	for (uint32_t c = 0, first = 0, end = 0; c < n; c++) {
		if (c >= end)
			run = symbols_column_run(p->symbols, c, &first, &end);
		m->match[i][c / 64] |= (uint64_t)node[run[c - first].node] << c % 64;
	}
	pthread_rwlock_unlock(&p->dict_lock);
	free(node);
}

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

static bool any_ask(const struct sums *m, size_t set, int64_t start_ms, int64_t end_ms)
{
	const struct set_asks *s = &m->of_set[set];
	size_t i = first_reaching(s, start_ms);
	return i < s->asks.n && m->asks.v.v[s->asks.v[i]].after_ms < end_ms;
}

static bool any_series(const struct part *p, const struct ask_series *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (part_find(p, s->ids[i]))
			return true;
	return false;
}

/* Parts one after the other, so that what lies together is read together. */
static void cut_tasks(struct sums *m)
{
	for (uint32_t p = 0; p < m->v->v->n; p++) {
		const struct pstate *s = m->v->v->p[p];
		int64_t start = (int64_t)s->p->day * DAY_MS;
		VEC(uint32_t) sets = { 0 };
		for (uint32_t set = 0; set < m->asks.sets.n; set++)
			if (any_ask(m, set, start, start + DAY_MS) && asks_series(&m->asks, m->v, set, p)->n)
				vec_push(&sets, set);
		for (size_t i = 0; i < s->n_parts && s->parts[i]->level == LEVEL_HOUR; i++)
			for (size_t k = 0; k < sets.n; k++)
				if (any_ask(m, sets.v[k], part_start_ms(s->parts[i]), part_end_ms(s->parts[i])) &&
				    any_series(s->parts[i], asks_series(&m->asks, m->v, sets.v[k], p)))
					vec_push(&m->tasks, (struct task){ sets.v[k], p, s->parts[i], NULL });
		for (size_t i = 0; i < s->n_windows; i++)
			for (size_t k = 0; k < sets.n; k++)
				if (any_ask(m, sets.v[k], s->windows[i]->hour * HOUR_MS, (s->windows[i]->hour + 1) * HOUR_MS))
					vec_push(&m->tasks, (struct task){ sets.v[k], p, NULL, s->windows[i] });
		vec_free(&sets);
	}
	if (!m->filter)
		return;
	m->match = xcalloc(m->v->v->n + 1, sizeof(*m->match));
	m->n_match = xcalloc(m->v->v->n + 1, sizeof *m->n_match);
	for (size_t i = 0; i < m->tasks.n; i++)
		if (!m->match[m->tasks.v[i].partition])
			make_match(m, m->filter, m->tasks.v[i].partition);
}

/* ---- giving rows to steps ---- */

/* Rows of one series by stamp, and the window or part that they lie in. */
struct rows {
	const int64_t *t_ms;
	size_t stride;           /* bytes from one stamp to the next */
	size_t n;
	int64_t start_ms, end_ms;
};

static int64_t stamp(const struct rows *r, size_t i)
{
	return *(const int64_t *)((const char *)r->t_ms + i * r->stride);
}

/* The first row after t; at: where the last one was found. */
static size_t seek(const struct rows *r, size_t at, int64_t t_ms)
{
	if (at && stamp(r, at - 1) > t_ms)
		at = 0;
	for (size_t tries = 16; tries; tries--, at++)
		if (at == r->n || stamp(r, at) > t_ms)
			return at;
	size_t hi = r->n;
	while (at < hi) {
		size_t mid = (at + hi) / 2;
		if (stamp(r, mid) <= t_ms)
			at = mid + 1;
		else
			hi = mid;
	}
	return at;
}

/* The steps that can meet (start, end]. */
static void steps_of(const struct ask *a, const struct rows *r, uint32_t *first, uint32_t *end)
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

static void give(const struct sums *m, struct totals *t, uint32_t set, const struct rows *r)
{
	const struct set_asks *s = &m->of_set[set];
	const wide *before = t->before.v;
	size_t lo = 0, hi = 0;
	for (size_t i = first_reaching(s, r->start_ms); i < s->asks.n; i++) {
		const struct ask *a = &m->asks.v.v[s->asks.v[i]];
		uint32_t step, end;
		if (a->after_ms >= r->end_ms)
			break;
		for (steps_of(a, r, &step, &end); step < end; step++) {
			lo = seek(r, lo, a->after_ms + step * a->step_ms);
			hi = seek(r, MAX(hi, lo), a->until_ms + step * a->step_ms);
			if (lo == hi)
				continue;
			struct touched *x = &t->touched[s->asks.v[i]];
			x->first = x->end ? MIN(x->first, step) : step;
			x->end = MAX(x->end, step + 1);
			t->slots[a->slot + step] += before[hi] - before[lo];
		}
	}
}

/* ---- reading ---- */

static void begin_rows(struct totals *t, size_t n)
{
	vec_reserve(&t->before, n + 1);
	t->before.v[0] = 0;
}

/* The filtered value of each row; stamps and number of rows in *ret. */
static int read_values(struct sums *m, struct totals *t, const struct task *x, uint32_t series, struct rows *ret, uint64_t *read,
		       const int64_t **values, struct err *e)
{
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
	*read = ret->n = rc ? 0 : t->space->part.points.t_ms.n;
	ret->t_ms = t->space->part.points.t_ms.v;
	ret->stride = sizeof *t->space->part.points.t_ms.v;
	*values = t->space->part.points.totals.v;
	return rc;
}

static int read_series(struct sums *m, struct totals *t, const struct task *x, uint32_t series, struct err *e)
{
	const struct pstate *ps = m->v->v->p[x->partition];
	const int64_t *values;
	struct rows r;
	uint64_t read = 0;
	int rc = read_values(m, t, x, series, &r, &read, &values, e);
	if (rc)
		return rc;
	bool masked = masks_touch(ps, series, r.start_ms, r.end_ms);
	begin_rows(t, r.n);
	for (size_t i = 0; i < r.n; i++) {
		bool hidden = masked && masks_hide(ps, x->part, series, stamp(&r, i));
		t->before.v[i + 1] = t->before.v[i] + (hidden ? 0 : values[i]);
	}
	if (r.n)
		give(m, t, x->set, &r);
	return limits_check(m->lim, read, e);
}

/* Whether every step that meets the part takes whole minutes of it. */
static bool by_minutes(const struct sums *m, const struct task *x)
{
	const struct set_asks *s = &m->of_set[x->set];
	for (size_t i = first_reaching(s, part_start_ms(x->part)); i < s->asks.n; i++) {
		const struct ask *a = &m->asks.v.v[s->asks.v[i]];
		if (a->after_ms >= part_end_ms(x->part))
			break;
		if (a->n_steps > 1 ? a->after_ms % PART_AGGREGATE_MS || a->until_ms % PART_AGGREGATE_MS || a->step_ms % PART_AGGREGATE_MS
				   : !bound_is_whole(x->part, a->after_ms) || !bound_is_whole(x->part, a->until_ms))
			return false;
	}
	return true;
}

static int read_part(struct sums *m, struct totals *t, const struct task *x, struct err *e)
{
	const struct ask_series *s = asks_series(&m->asks, m->v, x->set, x->partition);
	bool *complete = x->part->aggregates.n && by_minutes(m, x) ? aggregates_complete(m->v->v->p[x->partition], x->part, s) : NULL;
	int rc = 0;
	for (size_t i = 0; i < s->n && !rc; i++) {
		const struct part_series *p = part_find(x->part, s->ids[i]);
		if (p && !p->is_float && !(complete && p->aggregate && complete[p->aggregate - 1]))
			rc = read_series(m, t, x, p->series, e);
	}
	for (uint32_t a = 0; complete && a < x->part->aggregates.n && !rc; a++)
		if (complete[a])
			rc = read_series(m, t, x, PART_AGGREGATE | a, e);
	free(complete);
	return rc;
}

static int by_time(const void *a, const void *b)
{
	int64_t x = (*(const struct row *const *)a)->t_ms, y = (*(const struct row *const *)b)->t_ms;
	return (x > y) - (x < y);
}

/* Rows of the head lie as they came; the few that came late are put in their place here. */
static void give_unsorted(struct sums *m, struct totals *t, const struct task *x, const struct chunk *c, size_t visible,
			  const int64_t *values)
{
	const struct row **order = xcalloc(visible + 1, sizeof(*order));
	int64_t *stamps = xcalloc(visible + 1, sizeof *stamps);
	for (size_t i = 0; i < visible; i++)
		order[i] = &c->rows.v[i];
	qsort(order, visible, sizeof(*order), by_time);
	for (size_t i = 0; i < visible; i++) {
		stamps[i] = order[i]->t_ms;
		t->before.v[i + 1] = t->before.v[i] + values[order[i] - c->rows.v];
	}
	give(m, t, x->set, &(struct rows){ stamps, sizeof *stamps, visible, x->window->hour * HOUR_MS,
					   (x->window->hour + 1) * HOUR_MS });
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
	begin_rows(t, visible);
	if (!rc && c->unsorted) {
		give_unsorted(m, t, x, c, visible, values);
	} else if (!rc && visible) {
		for (size_t i = 0; i < visible; i++)
			t->before.v[i + 1] = t->before.v[i] + values[i];
		give(m, t, x->set, &(struct rows){ &c->rows.v[0].t_ms, sizeof *c->rows.v, visible, x->window->hour * HOUR_MS,
						   (x->window->hour + 1) * HOUR_MS });
	}
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

static void run_task(void *arg, size_t i, unsigned worker)
{
	struct sums *m = arg;
	struct totals *t = &m->workers[worker];
	struct err e;
	if (atomic_load(&m->failed))
		return;
	if (!t->slots) {
		t->space = space_take(m->v->db->spaces);
		t->slots = xcalloc(m->asks.n_slots + 1, sizeof *t->slots);
		t->touched = xcalloc(m->asks.v.n + 1, sizeof *t->touched);
	}
	if (m->tasks.v[i].part ? read_part(m, t, &m->tasks.v[i], &e) : read_window(m, t, &m->tasks.v[i], &e))
		fail(m, &e);
}

/* ---- the call ---- */

/* What all workers have of one ask: into whole, or scaled into ret. */
static void add_ask(const struct sums *m, size_t n_workers, size_t i, wide *whole, double *ret)
{
	const struct ask *a = &m->asks.v.v[i];
	uint32_t first = a->n_steps, end = 0;
	for (size_t w = 0; w < n_workers; w++) {
		const struct touched *x = m->workers[w].touched ? &m->workers[w].touched[i] : NULL;
		if (!x || !x->end)
			continue;
		first = MIN(first, x->first);
		end = MAX(end, x->end);
	}
	for (uint32_t step = first; step < end; step++) {
		wide sum = 0;
		for (size_t w = 0; w < n_workers; w++)
			sum += m->workers[w].slots ? m->workers[w].slots[a->slot + step] : 0;
		if (a->scale == 1)
			whole[a->group + step] += sum;
		else
			ret[a->group + step] += (double)sum * a->scale;
	}
}

/* Groups that have a scale somewhere are doubles, and none of theirs is too large. NULL: there is none. */
static uint8_t *scaled_groups(const struct sums *m, size_t n_groups)
{
	uint8_t *scaled = NULL;
	for (size_t i = 0; i < m->asks.v.n; i++) {
		const struct ask *a = &m->asks.v.v[i];
		if (a->scale == 1)
			continue;
		if (!scaled)
			scaled = xcalloc(n_groups + 1, 1);
		memset(scaled + a->group, 1, a->n_steps);
	}
	return scaled;
}

static int add_up(struct sums *m, size_t n_workers, size_t n_groups, double *ret, int64_t *exact, struct err *e)
{
	wide *whole = xcalloc(n_groups + 1, sizeof *whole);
	uint8_t *scaled = scaled_groups(m, n_groups);
	int rc = 0;
	memset(ret, 0, n_groups * sizeof *ret);
	if (exact)
		memset(exact, 0, n_groups * sizeof *exact);
	for (size_t i = 0; i < m->asks.v.n; i++)
		add_ask(m, n_workers, i, whole, ret);
	for (size_t g = 0; g < n_groups && !rc; g++) {
		if (!whole[g])
			continue;
		if (!(scaled && scaled[g]) && (whole[g] > INT64_MAX || whole[g] < INT64_MIN))
			rc = err_set(e, ERR_EXECUTION, "a sum of values does not fit in 64 bits: ask for a shorter range or fewer "
				     "series");
		ret[g] += (double)whole[g];
		if (exact)
			exact[g] = (int64_t)whole[g];
	}
	free(whole);
	free(scaled);
	return rc;
}

static void sums_release(struct sums *m, size_t n_workers)
{
	for (size_t i = 0; i < n_workers; i++) {
		space_give(m->v->db->spaces, m->workers[i].space);
		free(m->workers[i].slots);
		free(m->workers[i].touched);
		vec_free(&m->workers[i].before);
	}
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
	struct pool *pool = lim ? lim->pool : NULL;
	size_t n_workers = (pool ? pool_size(pool) : 0) + 1;
	pthread_mutex_init(&m.lock, NULL);
	m.workers = xcalloc(n_workers, sizeof(*m.workers));
	int rc = asks_make(m.v, parts, n, n_groups, lim, &m.asks, e);
	if (!rc) {
		list_asks(&m);
		cut_tasks(&m);
		pool_run(pool, m.tasks.n, run_task, &m);
		rc = atomic_load(&m.failed);
	}
	if (!rc)
		rc = add_up(&m, n_workers, n_groups, ret, exact, e);
	sums_release(&m, n_workers);
	return rc;
}
