/* SPDX-License-Identifier: Apache-2.0 */
/* Merging: sums of whole profiles, per group. A worker adds units up in a dense array over the partition's columns while group,
 * partition and scale stay the same, and leaves a sparse result. The results of a group are then added up, over the partition's
 * symbols if there is one, over fresh symbols if there are several. Integers stay integers (an overflow is an error) unless a scale
 * makes the group float. Then values of one scale are added up before they are scaled, so that the answer does not depend on the order
 * of threads. Weighed values (plan.h) are added up in 128 bits, which is where a scale is met that they are divided by. */
#include "base/units.h"
#include "tsdb/head/head_sums.h"
#include "tsdb/part/damage.h"
#include "tsdb/read/merge_result.h"
#include "tsdb/read/plan.h"
#include "tsdb/read/scratch.h"
#include "tsdb/read/view_cached.h"
#include "tsdb/version/dict_union.h"
#include "tsdb/version/evict.h"

#define TASK_RUNS 32

/* Scratch of one worker. */
struct worker {
	struct read_scratch *scratch; /* NULL: it had nothing to do yet */
	bool open;         /* there is something in the scratch's sums, of: */
	struct unit of;
	VEC(struct merge_result) results;
};

struct merge {
	struct tsdb_view *v;
	struct view_try *try;
	const struct source_limits *lim;
	struct plan_requests requests;
	struct read_plan plan;
	bool singly;       /* plan_make's */
	VEC(size_t) runs;  /* places in plan.units: a run of units that are read together begins at each */
	size_t task_runs;
	uint8_t *is_float; /* by group */
	struct dict_unions *names; /* of by_day: those of the database, taken */
	bool by_day;       /* of several days only names are needed: no dictionary is loaded of those of which the places are known */
	struct partition **stacks; /* by partition: whose symbols columns use; NULL: not now */
	struct symbols *nowhere;   /* empty: of sums of a day of which only the places of its columns are known (dict_union.h) */
	uint32_t *columns; /* by partition: how many there are */
	struct worker *workers;
	size_t n_workers;
	atomic_uint_fast64_t held; /* bytes of results */
	uint64_t summed;   /* bytes of what is summed up of days before */
	struct mutex lock;
	struct err *e;
	atomic_int failed; /* negative code */
	atomic_bool without_sums; /* it failed because a sum of series or hours is damaged: these can be read instead */
	atomic_bool halved;       /* of a weighed request something could not be read: its other half may have been added */
};

/* The first error stays. */
static void fail(struct merge *m, const struct err *e)
{
	mutex_lock(&m->lock);
	if (!atomic_load(&m->failed)) {
		if (m->e)
			*m->e = *e;
		atomic_store(&m->failed, -(int)e->code);
	}
	mutex_unlock(&m->lock);
}

static int too_large(struct err *e)
{
	return err_set(e, ERR_EXECUTION, "a sum of values does not fit in 64 bits: ask for a shorter range or fewer series");
}

/* What many groups take is looked at while they are made. held: bytes of results, or of the groups' sums. */
static int check_held(const struct merge *m, uint64_t held, struct err *e)
{
	char max[24];
	if (!m->lim || !m->lim->max_bytes || held <= m->lim->max_bytes)
		return 0;
	return err_set(e, ERR_LIMIT, "the query needs more than %s of sums of stacks (--query.max-bytes): ask for a shorter range, fewer series or fewer groups, "
		       "or raise it (--memory raises all)", units_format_size(m->lim->max_bytes, max));
}

/* Leaves what the worker has so far as a result. */
static void flush(struct merge *m, struct worker *w)
{
	if (!w->open)
		return;
	w->open = false;
	struct merge_result *r = vec_add(&w->results);
	r->group = w->of.group;
	r->partition = w->of.partition;
	r->scale = w->of.scale;
	r->over_ms = w->of.weigh.over_ms;
	r->factor = unit_factor(&w->of);
	r->weighed = NULL;
	r->columns = NULL;
	r->sums = NULL;
	merge_result_take(&w->scratch->dense, r);
	atomic_fetch_add_explicit(&m->held, merge_result_bytes(r->n), memory_order_relaxed);
}

static bool same_place(const struct unit *a, const struct unit *b)
{
	return a->group == b->group && a->partition == b->partition && a->scale == b->scale && a->weigh.over_ms == b->weigh.over_ms &&
	       unit_factor(a) == unit_factor(b);
}

static void begin(struct merge *m, struct worker *w, const struct unit *u)
{
	if (w->open && same_place(&w->of, u))
		return;
	flush(m, w);
	if (!w->scratch)
		w->scratch = scratch_take(m->v->db->scratch_pool);
	dense_reserve(&w->scratch->dense, m->columns[u->partition]);
	w->of = *u;
	w->open = true;
}

/* An aggregate or a rollup that is damaged is not needed: the next plan does without. */
static int sealed_failed(struct merge *m, const struct unit *u, int rc, struct err *e)
{
	/* Before the last try data that lacks may still come, and all is read again anyway. */
	if (u->weigh.over_ms && !m->singly && (damage_is(e) || ((!m->try->skips || m->try->last) && damage_is_lack(u->part, e))))
		atomic_store(&m->halved, true);
	if (u->part->level == LEVEL_HOUR && !(u->series & PART_AGGREGATE))
		return damage_pass(m->lim, u->part, u->series, e);
	if (damage_is_lack(u->part, e))
		return 0;
	if (!damage_is(e))
		return rc;
	damage_count(u->part, u->series, e);
	atomic_store(&u->part->no_sums, true);
	atomic_store(&m->without_sums, true);
	return rc;
}

/* ---- the rest of weighed units ---- */

/* Whether values that are together at most `all`, times factor, fit into the worker's sums, if need be after a result of what is there. */
static bool make_room(struct merge *m, struct worker *w, const struct unit *u, uint64_t all, int64_t factor)
{
	if (dense_fits(&w->scratch->dense, all, factor))
		return true;
	flush(m, w);
	begin(m, w, u);
	return dense_fits(&w->scratch->dense, all, factor);
}

/* Opens a result for one profile of a unit of the rest, as its values times their weight do not fit in 64 bits. */
static struct unit begin_single(struct merge *m, struct worker *w, const struct unit *u, int64_t t_ms, int64_t weight)
{
	struct unit one = *u;
	one.after_ms = t_ms - 1;
	one.until_ms = t_ms;
	one.weigh.base_ms = weight;
	one.rest = false;
	flush(m, w);
	begin(m, w, &one);
	return one;
}

/* What the values of a profile count times in all of n units of the rest. */
static int64_t weight_of_all(const struct unit *units, size_t n, int64_t t_ms, int64_t cover_ms)
{
	int64_t weight = 0;
	for (size_t i = 0; i < n; i++)
		if (t_ms > units[i].after_ms && t_ms <= units[i].until_ms)
			weight += unit_weight(&units[i], t_ms, cover_ms);
	return weight;
}

/* Reads the weights of the profiles of n units, which are of one series in one part, into the scratch; *ret_any: one is not 0. */
static int read_weights(const struct unit *units, size_t n, struct part_scratch *s, bool *ret_any, struct err *e)
{
	*ret_any = false;
	int rc = part_columns(units->part, units->series, s, e);
	if (rc)
		return rc;
	const struct sealed_columns *c = &s->columns;
	vec_reserve(&s->weights, c->points.n + 1);
	for (size_t i = 0; i < c->points.n; i++)
		s->weights.v[i] = weight_of_all(units, n, sealed_stamp(&c->points, i), c->same_cover ? c->cover_ms : c->covers.v[i]);
	for (size_t i = 0; i < c->stale.n; i++)
		s->weights.v[c->stale.v[i]] = 0;
	for (size_t i = 0; i < c->points.n; i++)
		*ret_any |= s->weights.v[i] != 0;
	return 0;
}

static int add_sealed_singly(struct merge *m, struct worker *w, const struct unit *u, uint64_t *read, struct err *e)
{
	struct part_scratch *s = &w->scratch->part;
	int rc = 0;
	for (size_t i = 0; i < s->columns.points.n && !rc; i++) {
		if (!s->weights.v[i])
			continue;
		struct unit one = begin_single(m, w, u, sealed_stamp(&s->columns.points, i), s->weights.v[i]);
		rc = part_add(u->part, u->series, one.after_ms, one.until_ms, s, &w->scratch->dense, m->columns[u->partition], read, e);
	}
	return rc;
}

static int add_sealed_rest(struct merge *m, struct worker *w, const struct unit *u, size_t n_units, uint64_t *read, struct err *e)
{
	struct part_sums s;
	size_t n;
	bool any, fits;
	int rc = read_weights(u, n_units, &w->scratch->part, &any, e);
	if (rc || !any)
		return rc;
	rc = part_weigh(u->part, u->series, &w->scratch->part, &s, &n, &fits, read, e);
	if (!rc && !(fits && (!n || make_room(m, w, u, values_magnitude(s.sums, s.n), s.factor))))
		return add_sealed_singly(m, w, u, read, e);
	if (rc || !n)
		return rc;
	if (s.columns[s.n - 1] >= m->columns[u->partition])
		return err_set(e, ERR_CORRUPT, "a sealed window names a column that its dictionary lacks");
	return dense_add(&w->scratch->dense, s.columns, s.sums, s.n, s.factor) ? 0 : too_large(e);
}

static int64_t head_weight(const struct unit *units, size_t n, const struct chunk_row *r)
{
	return r->stale ? 0 : weight_of_all(units, n, r->t_ms, r->cover_ms);
}

/* Rows of the chunk that the units may be about: [*lo, *hi). */
static void head_bounds(const struct unit *units, size_t n, const struct chunk *c, size_t visible, size_t *lo, size_t *hi)
{
	int64_t after = INT64_MAX, until = INT64_MIN;
	for (size_t i = 0; i < n; i++) {
		after = MIN(after, units[i].after_ms);
		until = MAX(until, units[i].until_ms);
	}
	chunk_bounds(c, visible, after, until, lo, hi);
}

static int add_head_rest(struct merge *m, struct worker *w, const struct unit *u, size_t n_units, const struct chunk *c, uint64_t *read, struct err *e)
{
	size_t lo, hi;
	int64_t most = 0;
	int rc = 0;
	head_bounds(u, n_units, c, chunk_visible(c, m->v->seq), &lo, &hi);
	for (size_t i = lo; i < hi; i++) {
		int64_t weight = head_weight(u, n_units, &c->rows.v[i]);
		most = MAX(most, weight < 0 ? -weight : weight);
	}
	bool fits = most && make_room(m, w, u, c->magnitude, most) && dense_expect(&w->scratch->dense, c->magnitude, most);
	for (size_t i = lo; i < hi && most && !rc; i++) {
		const struct chunk_row *r = &c->rows.v[i];
		int64_t weight = head_weight(u, n_units, r);
		if (weight && fits) {
			chunk_add_rows(c, i, i + 1, weight, &w->scratch->dense, read);
		} else if (weight) {
			begin_single(m, w, u, r->t_ms, weight);
			rc = chunk_add_row(c, r, &w->scratch->dense, read, e);
		}
	}
	return rc;
}

/* ---- units ---- */

static int add_sealed(struct merge *m, struct worker *w, const struct unit *u, size_t n, struct err *e)
{
	uint64_t read = 0;
	if (u->rest) {
		int failed = add_sealed_rest(m, w, u, n, &read, e);
		return failed ? sealed_failed(m, u, failed, e) : limits_check(m->lim, read, e);
	}
	int rc = part_add(u->part, u->series, u->after_ms, u->until_ms, &w->scratch->part, &w->scratch->dense, m->columns[u->partition], &read,
			  e);
	return rc ? sealed_failed(m, u, rc, e) : limits_check(m->lim, read, e);
}

/* A unit, or a run of n of the rest. */
static int add_run(struct merge *m, struct worker *w, const struct unit *u, size_t n, struct err *e)
{
	begin(m, w, u);
	if (u->part)
		return add_sealed(m, w, u, n, e);
	uint64_t read = 0;
	int rc = 0;
	rwlock_read(&u->window->lock);
	struct chunk *c = window_chunk(u->window, u->series);
	if (c) {
		read_tally_add(u->rest ? c->rows.n * sizeof *c->rows.v : chunk_sample_bytes(c));
		rc = u->rest ? add_head_rest(m, w, u, n, c, &read, e)
			     : head_sums_add(u->window, c, chunk_visible(c, m->v->seq), u->after_ms, u->until_ms, &w->scratch->dense, &w->scratch->work,
					     &read, e);
	}
	rwlock_unlock(&u->window->lock);
	return rc ? rc : limits_check(m->lim, read, e);
}

static void run_task(void *arg, size_t i, unsigned worker)
{
	struct merge *m = arg;
	size_t end = MIN((i + 1) * m->task_runs, m->runs.n);
	struct err e;
	int rc = atomic_load(&m->failed);
	for (size_t k = i * m->task_runs; k < end && !rc; k++) {
		size_t next = k + 1 < m->runs.n ? m->runs.v[k + 1] : m->plan.units.n;
		rc = add_run(m, &m->workers[worker], &m->plan.units.v[m->runs.v[k]], next - m->runs.v[k], &e);
		if (!rc)
			rc = check_held(m, atomic_load_explicit(&m->held, memory_order_relaxed), &e);
	}
	if (rc && !atomic_load(&m->failed))
		fail(m, &e);
}

/* ---- putting a group's results together ---- */

struct results {
	VEC(struct merge_result) v;
};

/* If several workers have results for one place, the only one of a merge into one vector, they are added up directly. False: it does
 * not fit. */
static bool join_workers(struct merge *m)
{
	struct worker *to = NULL;
	bool ok = true;
	for (size_t i = 0; i < m->n_workers; i++) {
		struct worker *w = &m->workers[i];
		if (to && w->open && same_place(&to->of, &w->of) &&
		    !(w->of.weigh.over_ms && !dense_fits(&to->scratch->dense, w->scratch->dense.magnitude, 1))) {
			ok &= dense_move(&to->scratch->dense, &w->scratch->dense);
			w->open = false;
		} else if (!to && w->open) {
			to = w;
		}
	}
	return ok;
}

/* All results, by group, partition and scale; their arrays are the list's now. */
static void gather(struct merge *m, struct results *all)
{
	for (size_t i = 0; i < m->n_workers; i++) {
		struct worker *w = &m->workers[i];
		flush(m, w);
		for (size_t k = 0; k < w->results.n; k++)
			vec_push(&all->v, w->results.v[k]);
		w->results.n = 0;
	}
	if (all->v.n)
		qsort(all->v.v, all->v.n, sizeof *all->v.v, merge_result_cmp);
}

static void results_release(struct results *all)
{
	for (size_t i = 0; i < all->v.n; i++) {
		merge_result_release(&all->v.v[i]);
	}
	vec_free(&all->v);
}

/* Results of one group, partition and scale are added into the first of them. */
static bool add_equal(struct merge *m, struct merge_result *r, size_t n)
{
	bool ok = true;
	if (n == 1)
		return true;
	struct worker *w = &m->workers[0];
	if (!w->scratch)
		w->scratch = scratch_take(m->v->db->scratch_pool);
	struct dense *d = &w->scratch->dense;
	dense_reserve(d, m->columns[r->partition]);
	for (size_t i = 0; i < n; i++)
		ok &= dense_add(d, r[i].columns, r[i].sums, r[i].n, 1);
	merge_result_take(d, r);
	return ok;
}

/* One group in one partition. */
static struct stackvec *partition_result(struct merge *m, struct merge_result *r, size_t n, struct err *e)
{
	struct partition *p = m->stacks[r->partition];
	struct symbols *symbols = p ? p->symbols : m->nowhere;
	VEC(const struct merge_result *) scales = { 0 };
	bool ok = true;
	for (size_t i = 0, k; i < n && ok; i = k) {
		for (k = i + 1; k < n && r[k].scale == r[i].scale && r[k].over_ms == r[i].over_ms; k++)
			;
		if (r[i].over_ms)
			merge_results_weigh(&r[i], k - i);
		else
			ok = add_equal(m, &r[i], k - i);
		vec_push(&scales, &r[i]);
	}
	struct stackvec *v = NULL;
	if (!ok) {
		too_large(e);
	} else if (m->is_float[r->group] && p) {
		rwlock_read(&p->dict_lock);
		v = merge_results_scaled(symbols, scales.v, scales.n, e);
		rwlock_unlock(&p->dict_lock);
	} else if (m->is_float[r->group]) {
		v = merge_results_scaled(symbols, scales.v, scales.n, e);
	} else {
		v = merge_result_ints(symbols, r);
	}
	vec_free(&scales);
	return v;
}

static struct stackvec *group_result(struct merge *m, struct merge_result *r, size_t n, struct err *e)
{
	VEC(struct stackvec *) v = { 0 };
	VEC(const struct pstate *) of = { 0 };
	struct stackvec *sum = NULL;
	bool ok = true;
	for (size_t i = 0, k; i < n && ok; i = k) {
		for (k = i + 1; k < n && r[k].partition == r[i].partition; k++)
			;
		struct stackvec *x = partition_result(m, &r[i], k - i, e);
		ok = x != NULL;
		if (ok && x->n) {
			vec_push(&v, x);
			vec_push(&of, m->v->v->p[r[i].partition]);
		} else if (ok) {
			/* An empty result is only kept if there is no other: it would cost a translation. */
			if (sum)
				stackvec_unref(x);
			else
				sum = x;
		}
	}
	if (ok && v.n) {
		stackvec_unref(sum);
		bool late = of.v[0]->names != NULL; /* names that a translation gives */
		sum = v.n == 1 && !late ? stackvec_ref(v.v[0]) : dict_unions_sum(m->v->db->dict_unions, of.v, v.v, v.n, e);
	} else if (!ok) {
		stackvec_unref(sum);
		sum = NULL;
	}
	for (size_t i = 0; i < v.n; i++)
		stackvec_unref(v.v[i]);
	vec_free(&v);
	vec_free(&of);
	return sum;
}

/* Something over the symbols of the newest partition, or over none. */
static struct stackvec *nothing(struct merge *m)
{
	if (m->v->v->n && !m->v->v->p[m->v->v->n - 1]->p->origin) /* symbols of a day of the bucket may be read anew meanwhile */
		return stackvec_empty(m->v->v->p[m->v->v->n - 1]->p->symbols);
	struct symbols *none = symbols_new();
	struct stackvec *v = stackvec_empty(none);
	symbols_unref(none);
	return v;
}

static int gather_groups(struct merge *m, struct results *all, struct stackvec **ret, size_t n_groups, struct err *e)
{
	size_t t = 0, done = 0;
	bool ok = true;
	for (; done < n_groups && ok; done++) {
		size_t first = t;
		while (t < all->v.n && all->v.v[t].group == done)
			t++;
		ret[done] = t > first ? group_result(m, &all->v.v[first], t - first, e) : nothing(m);
		ok = ret[done] != NULL;
	}
	for (size_t i = 0; !ok && i < done; i++) {
		stackvec_unref(ret[i]);
		ret[i] = NULL;
	}
	return ok ? 0 : -ERR_EXECUTION;
}

/* ---- the call ---- */

static void use_stacks(struct merge *m, size_t i, struct partition *p)
{
	m->stacks[i] = p;
	rwlock_read(&p->dict_lock);
	m->columns[i] = symbols_count(p->symbols, SYMBOLS_COLUMNS);
	rwlock_unlock(&p->dict_lock);
}

static void merge_release(struct merge *m)
{
	for (size_t i = 0; i < m->n_workers; i++) {
		struct worker *w = &m->workers[i];
		for (size_t k = 0; k < w->results.n; k++)
			merge_result_release(&w->results.v[k]);
		vec_free(&w->results);
		scratch_give(m->v->db->scratch_pool, w->scratch);
	}
	plan_release(&m->plan);
	plan_requests_release(&m->requests);
	vec_free(&m->runs);
	free(m->workers);
	free(m->is_float);
	free(m->columns);
	free(m->stacks);
	if (m->names)
		dict_unions_give_names(m->v->db, m->names);
	mutex_destroy(&m->lock);
}

/* Units of the rest that are about the same profiles, of which each says what it adds to their weights: they are read once. */
static bool same_rest(const struct unit *a, const struct unit *b)
{
	return a->rest && b->rest && same_place(a, b) && a->part == b->part && a->window == b->window && a->series == b->series;
}

static void find_runs(struct merge *m)
{
	m->runs.n = 0;
	for (size_t i = 0; i < m->plan.units.n; i++)
		if (!i || !same_rest(&m->plan.units.v[i - 1], &m->plan.units.v[i]))
			vec_push(&m->runs, i);
}

/* The sums of all units of the plan, by group, partition and scale. */
static int add_units(struct merge *m, struct results *all, struct err *e)
{
	struct pool *pool = m->lim ? m->lim->pool : NULL;
	find_runs(m);
	/* Small enough that all threads end together, large enough that they do not all begin every group. */
	m->task_runs = MAX(MIN(m->runs.n / (m->n_workers * 4), TASK_RUNS), 1);
	pool_run(pool, (m->runs.n + m->task_runs - 1) / m->task_runs, run_task, m);
	int rc = atomic_load(&m->failed);
	if (rc)
		return rc;
	if (!join_workers(m))
		return too_large(e);
	gather(m, all);
	return check_held(m, atomic_load(&m->held), e);
}

static int run(struct merge *m, struct stackvec **ret, size_t n_groups, struct err *e)
{
	struct results all = { 0 };
	for (size_t i = 0; i < m->v->v->n; i++)
		use_stacks(m, i, m->v->v->p[i]->p);
	int rc = add_units(m, &all, e);
	if (!rc)
		rc = gather_groups(m, &all, ret, n_groups, e);
	results_release(&all);
	return rc;
}

/* ---- one partition after the other ---- */

/* A merge of several days, one after the other: because only names are needed, or because the days' dictionaries do not fit into memory together. A day's
 * dictionary is loaded, its units are added up, the sums are translated to the joint symbols of all days (dict_union.h), and the dictionary is given back. The
 * joint symbols of names belong to the database and outlive the query: they know the places of columns of days that were merged before, and no dictionary is
 * loaded for such a day. */
struct days {
	struct dict_unions *unions;
	bool own;               /* they are this query's, and in the account */
	struct stackvec **sums; /* by group; NULL: nothing yet */
	size_t counted;         /* bytes of own unions in the account */
	size_t before;          /* bytes of unions that are not this query's */
};

static bool is_too_much(const struct merge *m)
{
	for (size_t i = 0, last = SIZE_MAX; i < m->plan.units.n; i++) {
		if (m->plan.units.v[i].partition != last && query_dict_has(m->v->own, m->plan.units.v[i].partition))
			return true;
		last = m->plan.units.v[i].partition;
	}
	return false;
}

static bool is_of_several_days(const struct merge *m)
{
	for (size_t i = 1; i < m->plan.units.n; i++)
		if (m->plan.units.v[i].partition != m->plan.units.v[0].partition)
			return true;
	return false;
}

/* Loads the dictionaries of the plan's days, as far as they are within the budget. */
static void bring_days(struct merge *m)
{
	for (size_t i = 0, last = SIZE_MAX; i < m->plan.units.n; i++) {
		if (m->plan.units.v[i].partition != last)
			query_dict_bring(m->v->own, m->plan.units.v[i].partition);
		last = m->plan.units.v[i].partition;
	}
}

/* p: a partition whose dictionary is in memory for this query alone, or NULL. */
static int check_bytes(struct merge *m, struct days *d, struct partition *p, struct err *e)
{
	size_t now = dict_unions_bytes(d->unions);
	now -= MIN(now, d->before);
	if (d->own)
		query_dict_count(m->v->db, now, d->counted);
	d->counted = now;
	return view_check_bytes(now + (p ? evict_bytes(p) : 0), m->lim, e);
}

/* A day while its units are merged. */
struct day_merge {
	struct days *days;
	uint32_t p;
	const struct pstate *s;
	struct partition *stacks; /* the day's dictionary, by query_dict_stacks; NULL: the places of its columns are known, and it is not loaded */
	bool unread;              /* they could not be loaded */
};

static void day_load(struct merge *m, struct day_merge *day)
{
	bool once = m->by_day;
	day->stacks = once ? query_dict_stacks_once(m->v->own, day->p) : query_dict_stacks(m->v->own, day->p);
	use_stacks(m, day->p, day->stacks);
}

static uint64_t vector_bytes(const struct stackvec *sum)
{
	return sum ? merge_result_bytes(sum->n) : 0;
}

/* Adds a group's sum of the day, x. */
static int day_add(struct merge *m, struct day_merge *day, const struct stackvec *x, struct stackvec **sum, struct err *e)
{
	bool known = false;
	int rc = day->stacks ? 0 : dict_unions_add_known(day->days->unions, day->s, x, sum, &known, e);
	if (rc || known)
		return rc;
	if (!day->stacks) /* sums have columns that no query has met yet */
		day_load(m, day);
	if (day->stacks->unread) { /* the view has noted that it is wanted, and reads again */
		day->unread = true;
		return 0;
	}
	if (x->n && x->columns[x->n - 1] >= m->columns[day->p])
		return err_set(e, ERR_CORRUPT, "sums of day %u name a column that its dictionary lacks", day->s->p->day);
	return dict_unions_add(day->days->unions, day->s, day->stacks, x, sum, e);
}

/* Adds what the day's units came to. */
static int day_add_results(struct merge *m, struct day_merge *day, struct results *all, struct err *e)
{
	int rc = 0;
	for (size_t i = 0, k; i < all->v.n && !rc && !day->unread; i = k) {
		for (k = i + 1; k < all->v.n && all->v.v[k].group == all->v.v[i].group; k++)
			;
		struct stackvec *x = partition_result(m, &all->v.v[i], k - i, e);
		if (!x)
			return -ERR_EXECUTION;
		struct stackvec **sum = &day->days->sums[all->v.v[i].group];
		m->summed -= vector_bytes(*sum);
		rc = day_add(m, day, x, sum, e);
		m->summed += vector_bytes(*sum);
		stackvec_unref(x);
		if (!rc)
			rc = check_held(m, m->summed, e);
	}
	return rc;
}

static void day_begin(struct merge *m, struct day_merge *day)
{
	struct err e;
	bool names = m->by_day;
	if (names) /* else its dictionary is loaded */
		IGNORE(dict_unions_join_names(day->days->unions, day->s, &names, &e));
	uint32_t known = names ? dict_unions_known(day->days->unions, day->s) : 0;
	m->columns[day->p] = known;
	if (!known)
		day_load(m, day);
	if (day->stacks && day->stacks->unread)
		m->plan.units.n = 0; /* they were here a moment ago: the view has noted that they are wanted again */
}

static void day_end(struct merge *m, struct day_merge *day)
{
	m->stacks[day->p] = NULL;
	if (!day->stacks)
		return;
	if (m->by_day && !day->s->n_windows)
		dict_unions_keep_places(day->days->unions, day->s, day->stacks);
	else if (day->days->own)
		dict_unions_forget(day->days->unions, day->stacks->symbols);
	query_dict_give(m->v->own, day->stacks);
}

/* The dictionary that only this query has. */
static struct partition *day_own_stacks(const struct day_merge *day)
{
	return day->stacks != day->s->p ? day->stacks : NULL;
}

static int run_day(struct merge *m, struct days *d, uint32_t p, const struct read_plan *plan, struct err *e)
{
	struct results all = { 0 };
	struct day_merge day = { d, p, m->v->v->p[p], NULL, false };
	m->plan.units.n = 0;
	for (size_t i = 0; i < plan->units.n; i++)
		if (plan->units.v[i].partition == p)
			vec_push(&m->plan.units, plan->units.v[i]);
	if (!m->plan.units.n)
		return 0;
	day_begin(m, &day);
	int rc = check_bytes(m, d, day_own_stacks(&day), e);
	m->held = 0;
	if (!rc)
		rc = add_units(m, &all, e);
	if (!rc)
		rc = day_add_results(m, &day, &all, e);
	if (!rc)
		rc = check_bytes(m, d, day_own_stacks(&day), e);
	results_release(&all);
	day_end(m, &day);
	return rc;
}

static int run_days(struct merge *m, struct stackvec **ret, size_t n_groups, struct err *e)
{
	bool own = !m->by_day;
	struct days d = { own ? dict_unions_new(SYMBOLS_WHOLE, SIZE_MAX) : m->names, own, xcalloc(n_groups + 1, sizeof(*d.sums)), 0, 0 };
	d.before = own ? 0 : dict_unions_bytes(d.unions);
	struct read_plan plan = m->plan;
	int rc = 0;
	m->plan = (struct read_plan){ 0 };
	m->nowhere = symbols_new();
	for (uint32_t p = 0; p < m->v->v->n && !rc; p++)
		rc = run_day(m, &d, p, &plan, e);
	for (size_t g = 0; g < n_groups; g++) {
		if (rc)
			stackvec_unref(d.sums[g]);
		else
			ret[g] = d.sums[g] ? d.sums[g] : nothing(m);
	}
	if (own) {
		query_dict_count(m->v->db, 0, d.counted);
		dict_unions_free(d.unions);
	}
	symbols_unref(m->nowhere);
	free(d.sums);
	plan_release(&plan);
	return rc;
}

/* Notes what a unit of the rest needs, if the stamps that tell it are here. */
static void want_rest(struct merge *m, const struct unit *u)
{
	struct worker *w = &m->workers[0];
	struct err unasked;
	bool any;
	if (!u->part->lack)
		return;
	if (!w->scratch)
		w->scratch = scratch_take(m->v->db->scratch_pool);
	if (part_need(u->part, PART_TOTALS, u->series, 0, &unasked) == 0 && read_weights(u, 1, &w->scratch->part, &any, &unasked) == 0 && any)
		view_want(u->part, u->series, true);
}

#define LOOK_EVERY 256 /* units between two looks at the query's limits */

/* Whether the names or the dictionary of a day of the bucket, whichever the merge uses, are on this disk. If not, they are noted to be fetched. */
static bool merge_has_stacks(struct merge *m, uint32_t p)
{
	const struct pstate *s = m->v->v->p[p];
	struct err e;
	bool known = false;
	if (!m->v->cached[p])
		return true;
	if (m->by_day && dict_unions_join_names(m->names, s, &known, &e)) {
		if (!m->try->last)
			return false;
		atomic_store(&s->all_day->no_names, true); /* they do not come: the next question asks for the dictionary */
	}
	return known || view_has_stacks(m->v, p);
}

/* Notes everything to be fetched that the plan's units read of days of the bucket. */
static int want_units(struct merge *m, struct err *e)
{
	bool *asked = xcalloc(m->v->v->n + 1, sizeof *asked);
	int rc = 0;
	for (size_t i = 0; i < m->plan.units.n && !rc; i++) {
		const struct unit *u = &m->plan.units.v[i];
		if (i % LOOK_EVERY == 0)
			rc = limits_check(m->lim, 0, e);
		if (!asked[u->partition])
			(void)merge_has_stacks(m, u->partition);
		asked[u->partition] = true;
		if (u->part && u->rest)
			want_rest(m, u);
		else if (u->part)
			view_want(u->part, u->series, u->after_ms > part_start_ms(u->part) || u->until_ms < part_end_ms(u->part));
	}
	free(asked);
	return rc;
}

/* Waits for a day of the bucket, and loads its dictionary. */
static int bring_day(struct merge *m, uint32_t p, bool *ret_has, struct err *e)
{
	int rc = view_try_wait(m->try, p, e);
	if (!rc)
		rc = limits_check(m->lim, 0, e);
	*ret_has = !rc && merge_has_stacks(m, p);
	if (*ret_has && !m->by_day)
		query_dict_bring(m->v->own, p);
	return rc;
}

/* Has all that units need fetched, and leaves out days of the bucket whose stacks do not come. */
static int keep_readable(struct merge *m, struct err *e)
{
	size_t n = 0;
	bool *asked = xcalloc(m->v->v->n + 1, sizeof *asked), *has = xcalloc(m->v->v->n + 1, sizeof *has);
	int rc = want_units(m, e);
	if (!rc)
		view_try_order(m->try);
	for (size_t i = 0; i < m->plan.units.n && !rc; i++) {
		const struct unit *u = &m->plan.units.v[i];
		if (!asked[u->partition])
			rc = bring_day(m, u->partition, &has[u->partition], e);
		asked[u->partition] = true;
		if (u->part && u->rest)
			want_rest(m, u); /* once its stamps are here */
		if (has[u->partition])
			m->plan.units.v[n++] = *u;
	}
	m->plan.units.n = n;
	free(asked);
	free(has);
	return rc;
}

/* What an attempt is to do otherwise than the first. */
struct merge_attempt {
	bool singly; /* plan_make's */
	bool again;
};

static int merge(struct view_try *try, const struct source_part *parts, size_t n, size_t n_groups, enum symbols_detail detail, struct stackvec **ret,
		 struct merge_attempt *attempt, struct err *e)
{
	const struct source_limits *lim = try->lim;
	struct merge m = { .v = try->v, .try = try, .lim = lim, .singly = attempt->singly, .e = e };
	struct pool *pool = lim ? lim->pool : NULL;
	bool weighed = false;
	mutex_init(&m.lock, LOCK_LEAF, "merge");
	m.is_float = xcalloc(n_groups + 1, 1);
	for (size_t i = 0; i < n; i++) {
		weighed |= parts[i].weigh.over_ms != 0;
		bool scaled = parts[i].scale != 1 || parts[i].weigh.over_ms;
		for (uint32_t k = 0; scaled && k < MAX(parts[i].n_steps, 1) && parts[i].group + k < n_groups; k++)
			m.is_float[parts[i].group + k] = 1;
	}
	m.n_workers = (pool ? pool_size(pool) : 0) + 1;
	m.workers = xcalloc(m.n_workers, sizeof(*m.workers));
	m.columns = xcalloc(m.v->v->n + 1, sizeof *m.columns);
	m.stacks = xcalloc(m.v->v->n + 1, sizeof(*m.stacks));
	int rc = plan_requests_make(m.v, parts, n, n_groups, lim, &m.requests, e);
	if (!rc)
		rc = plan_make(m.v, &m.requests, m.singly, lim, &m.plan, e);
	m.by_day = detail == SYMBOLS_NAMES && is_of_several_days(&m);
	if (m.by_day)
		m.names = dict_unions_take_names(m.v->db);
	if (!rc && m.v->cached)
		rc = keep_readable(&m, e);
	if (!rc && !m.by_day)
		bring_days(&m);
	if (!rc)
		rc = m.by_day || is_too_much(&m) ? run_days(&m, ret, n_groups, e) : run(&m, ret, n_groups, e);
	bool large = rc == -ERR_EXECUTION && weighed && !m.singly; /* the sums without weights may overflow where the mean does not: each profile is then read by itself */
	/* Of some weighed profiles it has one half only, which is neither with them nor without them. Read one by one, they are in it or not. */
	bool halved = !rc && atomic_load(&m.halved);
	for (size_t i = 0; i < n_groups && halved; i++)
		stackvec_unref(ret[i]);
	attempt->again = halved || (rc && (atomic_load(&m.without_sums) || large));
	attempt->singly |= large || halved;
	merge_release(&m);
	return rc;
}

int view_merge(struct source_view *sv, const struct source_part *parts, size_t n, size_t n_groups, enum symbols_detail detail,
	       const struct source_limits *lim, struct stackvec **ret, struct err *e)
{
	struct view_try try;
	struct merge_attempt attempt = { 0 };
	int rc;
	view_try_begin_parts(&try, (struct tsdb_view *)sv, parts, n, lim);
	for (;;) {
		do { /* each time with the sums of one part less, or singly */
			if (attempt.again)
				view_try_recount(&try);
			rc = merge(&try, parts, n, n_groups, detail, ret, &attempt, e);
		} while (attempt.again);
		bool read = !rc;
		if (!view_try_again(&try, &rc, e)) {
			for (size_t i = 0; read && rc && i < n_groups; i++)
				stackvec_unref(ret[i]);
			return rc;
		}
		for (size_t i = 0; read && i < n_groups; i++)
			stackvec_unref(ret[i]);
	}
}
