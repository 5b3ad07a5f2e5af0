/* SPDX-License-Identifier: Apache-2.0 */
/* Merging: sums of whole profiles, per group. The work is cut into tasks, each a run of units of one group in one
 * partition; a worker adds a task up in a dense array over the partition's columns and leaves a sparse result; the
 * results of a group are then added up, over the partition's symbols if there is one, over fresh symbols if there are
 * several. Integers stay integers (an overflow is an error) unless a scale makes the group float. */
#include "tsdb/plan.h"
#include "tsdb/readpart.h"

#define TASK_UNITS 32

struct sparse {
	uint32_t *columns;
	int64_t *ints;
	double *floats;
	size_t n;
};

struct task {
	size_t first, n; /* units */
	struct sparse out;
};

/* Work space of one worker. */
struct worker {
	struct chunk_scratch scratch;
	struct part_scratch part;
	int64_t *ints;
	double *floats;
	uint64_t *touched; /* a bit per column */
	uint32_t room;     /* columns */
};

struct merge {
	struct tsdb_view *v;
	const struct source_limits *lim;
	struct asks asks;
	struct plan plan;
	VEC(struct task) tasks;
	uint8_t *is_float; /* by group */
	uint32_t *columns; /* by partition: how many there are */
	struct worker *workers;
	size_t n_workers;
	pthread_mutex_t lock;
	struct err *e;
	atomic_int failed; /* negative code */
};

/* The first error stays. */
static void fail(struct merge *m, const struct err *e)
{
	pthread_mutex_lock(&m->lock);
	if (!atomic_load(&m->failed)) {
		if (m->e)
			*m->e = *e;
		atomic_store(&m->failed, -(int)e->code);
	}
	pthread_mutex_unlock(&m->lock);
}

static void make_room(struct worker *w, uint32_t columns)
{
	uint32_t room = (columns + 63) & ~63u;
	if (room <= w->room)
		return;
	free(w->ints);
	free(w->floats);
	free(w->touched);
	w->ints = xcalloc(room, sizeof *w->ints);
	w->floats = xcalloc(room, sizeof *w->floats);
	w->touched = xcalloc(room / 64, sizeof *w->touched);
	w->room = room;
}

static bool add_ints(struct worker *w, const struct chunk_sums *s)
{
	bool over = false;
	for (size_t i = 0; i < s->n; i++) {
		int64_t value = s->sums[i];
		if (!value)
			continue;
		uint32_t c = s->columns[i];
		over |= __builtin_mul_overflow(value, s->factor, &value);
		over |= __builtin_add_overflow(w->ints[c], value, &w->ints[c]);
		w->touched[c / 64] |= UINT64_C(1) << c % 64;
	}
	return !over;
}

static void add_floats(struct worker *w, const struct chunk_sums *s, double scale)
{
	scale *= (double)s->factor;
	for (size_t i = 0; i < s->n; i++) {
		uint32_t c = s->columns[i];
		if (!s->sums[i])
			continue;
		w->floats[c] += (double)s->sums[i] * scale;
		w->touched[c / 64] |= UINT64_C(1) << c % 64;
	}
}

static int add_sums(struct merge *m, struct worker *w, const struct unit *u, const struct chunk_sums *s, size_t n,
		    struct err *e)
{
	for (size_t i = 0; i < n; i++) {
		if (m->is_float[u->group])
			add_floats(w, &s[i], u->scale);
		else if (!add_ints(w, &s[i]))
			return err_set(e, ERR_EXECUTION, "a sum of values does not fit in 64 bits: ask for a shorter range or "
				       "fewer series");
	}
	return 0;
}

static int add_sealed(struct merge *m, struct worker *w, const struct unit *u, struct err *e)
{
	struct chunk_sums s;
	size_t n;
	uint64_t read = 0;
	int rc = part_sum(u->part, u->series, u->after_ms, u->until_ms, &w->part, &s, &n, &read, e);
	if (!rc && n && s.n && s.columns[s.n - 1] >= w->room)
		rc = err_set(e, ERR_CORRUPT, "a sealed window names a column that its dictionary lacks");
	if (!rc)
		rc = add_sums(m, w, u, &s, n, e);
	return rc ? rc : limits_check(m->lim, read + (n ? s.n : 0), e);
}

static int add_unit(struct merge *m, struct worker *w, const struct unit *u, struct err *e)
{
	if (u->part)
		return add_sealed(m, w, u, e);
	struct chunk_sums s[2];
	size_t n = 0;
	uint64_t read = 0;
	int rc = 0;
	pthread_rwlock_rdlock(&u->window->lock);
	const struct chunk *c = window_chunk(u->window, u->series);
	if (c)
		rc = chunk_sum(c, chunk_visible(c, m->v->seq), u->after_ms, u->until_ms, &w->scratch, s, &n, &read, e);
	if (!rc)
		rc = add_sums(m, w, u, s, n, e);
	for (size_t i = 0; i < n; i++)
		read += s[i].n;
	pthread_rwlock_unlock(&u->window->lock);
	return rc ? rc : limits_check(m->lim, read, e);
}

/* The touched columns, ascending; the worker's arrays are zero again afterwards. */
static void take_sparse(struct worker *w, bool is_float, struct sparse *out)
{
	size_t n = 0, words = w->room / 64;
	for (size_t i = 0; i < words; i++)
		n += (size_t)__builtin_popcountll(w->touched[i]);
	out->columns = xreallocarray(NULL, n + 1, sizeof *out->columns);
	if (is_float)
		out->floats = xreallocarray(NULL, n + 1, sizeof *out->floats);
	else
		out->ints = xreallocarray(NULL, n + 1, sizeof *out->ints);
	for (size_t i = 0; i < words; i++) {
		for (uint64_t bits = w->touched[i]; bits; bits &= bits - 1) {
			uint32_t c = (uint32_t)(i * 64 + (size_t)__builtin_ctzll(bits));
			out->columns[out->n] = c;
			if (is_float) {
				out->floats[out->n++] = w->floats[c];
				w->floats[c] = 0;
			} else {
				out->ints[out->n++] = w->ints[c];
				w->ints[c] = 0;
			}
		}
		w->touched[i] = 0;
	}
}

static void run_task(void *arg, size_t i, unsigned worker)
{
	struct merge *m = arg;
	struct task *t = &m->tasks.v[i];
	struct worker *w = &m->workers[worker];
	const struct unit *units = m->plan.units.v + t->first;
	struct err e;
	int rc = atomic_load(&m->failed);
	make_room(w, m->columns[units->partition]);
	for (size_t k = 0; k < t->n && !rc; k++)
		rc = add_unit(m, w, &units[k], &e);
	if (rc && !atomic_load(&m->failed))
		fail(m, &e);
	take_sparse(w, m->is_float[units->group], &t->out);
}

static void cut_tasks(struct merge *m)
{
	const struct unit *u = m->plan.units.v;
	for (size_t i = 0; i < m->plan.units.n;) {
		struct task t = { .first = i };
		while (i < m->plan.units.n && t.n < TASK_UNITS && u[i].group == u[t.first].group &&
		       u[i].partition == u[t.first].partition) {
			i++;
			t.n++;
		}
		vec_push(&m->tasks, t);
	}
}

/* ---- putting a group's results together ---- */

static struct stackvec *one_result(struct merge *m, struct task *t)
{
	struct symbols *s = m->v->v->p[m->plan.units.v[t->first].partition]->p->symbols;
	struct stackvec *v = t->out.floats ? stackvec_new_floats(s, t->out.columns, t->out.floats, t->out.n)
					   : stackvec_new_ints(s, t->out.columns, t->out.ints, t->out.n);
	t->out = (struct sparse){ 0 };
	return v;
}

/* Several results of one partition, in the arrays of a worker. */
static struct stackvec *add_results(struct merge *m, struct task *t, size_t n, struct err *e)
{
	struct worker *w = &m->workers[0];
	uint32_t p = m->plan.units.v[t->first].partition;
	bool is_float = t->out.floats != NULL, ok = true;
	make_room(w, m->columns[p]);
	for (size_t i = 0; i < n; i++) {
		const struct sparse *s = &t[i].out;
		if (is_float)
			for (size_t k = 0; k < s->n; k++) {
				w->floats[s->columns[k]] += s->floats[k];
				w->touched[s->columns[k] / 64] |= UINT64_C(1) << s->columns[k] % 64;
			}
		else
			ok &= add_ints(w, &(struct chunk_sums){ s->columns, s->ints, 1, s->n });
	}
	struct task sum = { .first = t->first };
	take_sparse(w, is_float, &sum.out);
	struct stackvec *v = one_result(m, &sum);
	if (ok)
		return v;
	stackvec_unref(v);
	err_set(e, ERR_EXECUTION, "a sum of values does not fit in 64 bits: ask for a shorter range or fewer series");
	return NULL;
}

/* Dictionaries of several partitions meet in one that is this call's own. */
struct joined {
	struct symbols *to;
	struct symbols_map **maps; /* by partition */
};

static struct stackvec *join(struct merge *m, struct joined *j, struct stackvec **v, const uint32_t *partitions, size_t n,
			     struct err *e)
{
	if (!j->to) {
		j->to = symbols_new();
		j->maps = xcalloc(m->v->v->n, sizeof(*j->maps));
	}
	struct stackacc *acc = stackacc_new(j->to);
	for (size_t i = 0; i < n; i++) {
		struct partition *p = m->v->v->p[partitions[i]]->p;
		pthread_rwlock_rdlock(&p->dict_lock);
		if (!j->maps[partitions[i]])
			j->maps[partitions[i]] = symbols_map_new(p->symbols, j->to);
		for (size_t k = 0; k < v[i]->n; k++) {
			uint32_t c = symbols_map_column(j->maps[partitions[i]], v[i]->columns[k]);
			if (v[i]->is_float)
				stackacc_add_scaled(acc, c, v[i]->floats[k]);
			else
				stackacc_add(acc, c, v[i]->ints[k]);
		}
		pthread_rwlock_unlock(&p->dict_lock);
	}
	struct stackvec *sum = stackacc_finish(acc, e);
	stackacc_free(acc);
	return sum;
}

static struct stackvec *group_result(struct merge *m, struct joined *j, struct task *t, size_t n, struct err *e)
{
	VEC(struct stackvec *) v = { 0 };
	VEC(uint32_t) partitions = { 0 };
	struct stackvec *sum = NULL;
	bool ok = true;
	for (size_t i = 0, k; i < n && ok; i = k) {
		uint32_t p = m->plan.units.v[t[i].first].partition;
		for (k = i + 1; k < n && m->plan.units.v[t[k].first].partition == p; k++)
			;
		struct stackvec *x = k - i == 1 ? one_result(m, &t[i]) : add_results(m, &t[i], k - i, e);
		ok = x != NULL;
		if (ok && x->n) {
			vec_push(&v, x);
			vec_push(&partitions, p);
		} else if (ok) {
			/* An empty result is only kept if it is all there is: it would cost a translation. */
			if (sum)
				stackvec_unref(x);
			else
				sum = x;
		}
	}
	if (ok && v.n) {
		stackvec_unref(sum);
		sum = v.n == 1 ? stackvec_ref(v.v[0]) : join(m, j, v.v, partitions.v, v.n, e);
	} else if (!ok) {
		stackvec_unref(sum);
		sum = NULL;
	}
	for (size_t i = 0; i < v.n; i++)
		stackvec_unref(v.v[i]);
	vec_free(&v);
	vec_free(&partitions);
	return sum;
}

static struct symbols *any_symbols(struct merge *m, struct joined *j)
{
	if (m->v->v->n)
		return m->v->v->p[m->v->v->n - 1]->p->symbols;
	if (!j->to)
		j->to = symbols_new();
	return j->to;
}

static int gather_groups(struct merge *m, struct stackvec **ret, size_t n_groups, struct err *e)
{
	struct joined j = { 0 };
	size_t t = 0, done = 0;
	bool ok = true;
	for (; done < n_groups && ok; done++) {
		size_t first = t;
		while (t < m->tasks.n && m->plan.units.v[m->tasks.v[t].first].group == done)
			t++;
		ret[done] = t > first ? group_result(m, &j, &m->tasks.v[first], t - first, e) : stackvec_empty(any_symbols(m, &j));
		ok = ret[done] != NULL;
	}
	for (size_t i = 0; !ok && i < done; i++) {
		stackvec_unref(ret[i]);
		ret[i] = NULL;
	}
	for (size_t i = 0; j.maps && i < m->v->v->n; i++)
		symbols_map_free(j.maps[i]);
	free(j.maps);
	symbols_unref(j.to);
	return ok ? 0 : -ERR_EXECUTION;
}

/* ---- the call ---- */

static void count_columns(struct merge *m)
{
	m->columns = xcalloc(m->v->v->n + 1, sizeof *m->columns);
	for (size_t i = 0; i < m->v->v->n; i++) {
		struct partition *p = m->v->v->p[i]->p;
		pthread_rwlock_rdlock(&p->dict_lock);
		m->columns[i] = symbols_count(p->symbols, SYMBOLS_COLUMNS);
		pthread_rwlock_unlock(&p->dict_lock);
	}
}

static void merge_release(struct merge *m)
{
	for (size_t i = 0; i < m->tasks.n; i++) {
		free(m->tasks.v[i].out.columns);
		free(m->tasks.v[i].out.ints);
		free(m->tasks.v[i].out.floats);
	}
	for (size_t i = 0; i < m->n_workers; i++) {
		chunk_scratch_release(&m->workers[i].scratch);
		part_scratch_release(&m->workers[i].part);
		free(m->workers[i].ints);
		free(m->workers[i].floats);
		free(m->workers[i].touched);
	}
	vec_free(&m->tasks);
	plan_release(&m->plan);
	asks_release(&m->asks);
	free(m->workers);
	free(m->is_float);
	free(m->columns);
	pthread_mutex_destroy(&m->lock);
}

int view_merge(struct source_view *sv, const struct source_part *parts, size_t n, size_t n_groups,
	       const struct source_limits *lim, struct stackvec **ret, struct err *e)
{
	struct merge m = { .v = (struct tsdb_view *)sv, .lim = lim, .e = e };
	struct pool *pool = lim ? lim->pool : NULL;
	pthread_mutex_init(&m.lock, NULL);
	m.is_float = xcalloc(n_groups + 1, 1);
	for (size_t i = 0; i < n; i++)
		for (uint32_t k = 0; parts[i].scale != 1 && k < MAX(parts[i].n_steps, 1) && parts[i].group + k < n_groups; k++)
			m.is_float[parts[i].group + k] = 1;
	m.n_workers = (pool ? pool_size(pool) : 0) + 1;
	m.workers = xcalloc(m.n_workers, sizeof(*m.workers));
	count_columns(&m);
	int rc = asks_make(m.v, parts, n, n_groups, lim, &m.asks, e);
	if (!rc)
		rc = plan_make(m.v, &m.asks, lim, &m.plan, e);
	if (!rc) {
		cut_tasks(&m);
		pool_run(pool, m.tasks.n, run_task, &m);
		rc = atomic_load(&m.failed);
	}
	if (!rc)
		rc = gather_groups(&m, ret, n_groups, e);
	merge_release(&m);
	return rc;
}
