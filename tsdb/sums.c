/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of the values of stacks that satisfy a frame filter. The filter is evaluated once per location of a partition
 * and becomes a bit per column; then each series' window is read once, however many steps of a graph ask for it: the
 * matching value of each profile is found and added to the steps it falls into. */
#include "tsdb/plan.h"
#include "tsdb/readpart.h"

struct totals {
	double *floats;
	int64_t *ints;
	uint8_t *over;
	struct part_scratch part;
};

/* The units of one series in one window. */
struct task {
	size_t first, n;
};

struct sums {
	struct tsdb_view *v;
	const struct source_limits *lim;
	struct plan plan;
	VEC(struct task) tasks;
	uint64_t **match;  /* by partition, a bit per column */
	uint32_t *n_match;
	struct totals *workers;
	size_t n_groups;
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
static uint8_t *node_hits(const struct source_frame_filter *f, const struct symbols *s)
{
	uint32_t n_locations = symbols_count(s, SYMBOLS_LOCATIONS), n = symbols_count(s, SYMBOLS_NODES);
	uint8_t *location = xmalloc(n_locations + 1), *node = xcalloc(n, 1);
	for (uint32_t i = 0; i < n_locations; i++)
		location[i] = location_hits(f, s, symbols_get_location(s, i));
	for (uint32_t i = 1; i < n; i++) {
		const struct sym_node *x = symbols_get_node(s, i);
		node[i] = location[x->location] || (!f->leaf_only && node[x->parent]);
	}
	free(location);
	return node;
}

static void make_match(struct sums *m, const struct source_frame_filter *f, size_t i)
{
	struct partition *p = m->v->v->p[i]->p;
	pthread_rwlock_rdlock(&p->dict_lock);
	uint8_t *node = node_hits(f, p->symbols);
	uint32_t n = symbols_count(p->symbols, SYMBOLS_COLUMNS);
	m->match[i] = xcalloc(n / 64 + 1, sizeof(uint64_t));
	m->n_match[i] = n;
	for (uint32_t c = 0; c < n; c++)
		if (node[symbols_stack_node(p->symbols, symbols_get_column(p->symbols, c)->stack)])
			m->match[i][c / 64] |= UINT64_C(1) << c % 64;
	pthread_rwlock_unlock(&p->dict_lock);
	free(node);
}

static void make_matches(struct sums *m, const struct source_frame_filter *f)
{
	m->match = xcalloc(m->v->v->n + 1, sizeof(*m->match));
	m->n_match = xcalloc(m->v->v->n + 1, sizeof *m->n_match);
	for (size_t i = 0; i < m->plan.units.n; i++)
		if (!m->match[m->plan.units.v[i].partition])
			make_match(m, f, m->plan.units.v[i].partition);
}

/* ---- reading ---- */

static void add_row(struct totals *t, const struct unit *u, int64_t value)
{
	t->floats[u->group] += (double)value * u->scale;
	if (u->scale != 1 || __builtin_add_overflow(t->ints[u->group], value, &t->ints[u->group]))
		t->over[u->group] |= u->scale != 1 ? 1 : 2;
}

static void add_to_units(struct totals *t, const struct unit *units, size_t n, int64_t t_ms, int64_t value)
{
	for (size_t k = 0; k < n && units[k].after_ms < t_ms; k++)
		if (t_ms <= units[k].until_ms)
			add_row(t, &units[k], value);
}

static int read_part(struct sums *m, struct totals *t, const struct unit *units, size_t n, struct err *e)
{
	size_t rows;
	uint64_t read = 0;
	int rc = part_row_sums(units->part, units->series, m->match[units->partition], m->n_match[units->partition], &t->part,
			       &rows, &read, e);
	for (size_t i = 0; !rc && i < rows; i++)
		if (t->part.sums.v[i])
			add_to_units(t, units, n, t->part.totals.rows.v[i].t_ms, t->part.sums.v[i]);
	return rc ? rc : limits_check(m->lim, read, e);
}

static int read_window(struct sums *m, struct totals *t, const struct unit *units, size_t n, struct err *e)
{
	int rc = 0;
	uint64_t read = 0;
	struct window *w = units->window;
	pthread_rwlock_rdlock(&w->lock);
	const struct chunk *c = window_chunk(w, units->series);
	size_t visible = c ? chunk_visible(c, m->v->seq) : 0;
	int64_t *rows = xcalloc(visible + 1, sizeof *rows);
	if (visible)
		rc = chunk_row_sums(c, visible, m->match[units->partition], m->n_match[units->partition], rows, e);
	for (size_t i = 0; i < visible && !rc; i++) {
		const struct row *r = &c->rows.v[i];
		read += r->n;
		if (r->stale || !rows[i])
			continue;
		add_to_units(t, units, n, r->t_ms, rows[i]);
	}
	pthread_rwlock_unlock(&w->lock);
	free(rows);
	return rc ? rc : limits_check(m->lim, read, e);
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
	if (!t->floats) {
		t->floats = xcalloc(m->n_groups + 1, sizeof *t->floats);
		t->ints = xcalloc(m->n_groups + 1, sizeof *t->ints);
		t->over = xcalloc(m->n_groups + 1, 1);
	}
	const struct unit *u = m->plan.units.v + m->tasks.v[i].first;
	if (u->part ? read_part(m, t, u, m->tasks.v[i].n, &e) : read_window(m, t, u, m->tasks.v[i].n, &e))
		fail(m, &e);
}

static void cut_tasks(struct sums *m)
{
	const struct unit *u = m->plan.units.v;
	for (size_t i = 0; i < m->plan.units.n;) {
		size_t first = i;
		while (i < m->plan.units.n && u[i].partition == u[first].partition && u[i].window == u[first].window &&
		       u[i].part == u[first].part && u[i].series == u[first].series)
			i++;
		vec_push(&m->tasks, (struct task){ first, i - first });
	}
}

/* ---- the call ---- */

static int add_up(struct sums *m, size_t n_workers, double *ret, int64_t *exact, struct err *e)
{
	for (size_t g = 0; g < m->n_groups; g++) {
		int64_t sum = 0;
		uint8_t over = 0;
		ret[g] = 0;
		for (size_t w = 0; w < n_workers; w++) {
			if (!m->workers[w].floats)
				continue;
			ret[g] += m->workers[w].floats[g];
			over |= m->workers[w].over[g];
			if (__builtin_add_overflow(sum, m->workers[w].ints[g], &sum))
				over |= 2;
		}
		if (over == 2)
			return err_set(e, ERR_EXECUTION, "a sum of values does not fit in 64 bits: ask for a shorter range or "
				       "fewer series");
		if (!over)
			ret[g] = (double)sum;
		if (exact)
			exact[g] = sum;
	}
	return 0;
}

static void sums_release(struct sums *m, size_t n_workers)
{
	for (size_t i = 0; i < n_workers; i++) {
		part_scratch_release(&m->workers[i].part);
		free(m->workers[i].floats);
		free(m->workers[i].ints);
		free(m->workers[i].over);
	}
	for (size_t i = 0; m->match && i < m->v->v->n; i++)
		free(m->match[i]);
	free(m->match);
	free(m->n_match);
	free(m->workers);
	vec_free(&m->tasks);
	plan_release(&m->plan);
	pthread_mutex_destroy(&m->lock);
}

int view_sums(struct source_view *sv, const struct source_part *parts, size_t n, size_t n_groups,
	      const struct source_frame_filter *f, const struct source_limits *lim, double *ret, int64_t *exact, struct err *e)
{
	struct sums m = { .v = (struct tsdb_view *)sv, .lim = lim, .n_groups = n_groups, .e = e };
	struct pool *pool = lim ? lim->pool : NULL;
	size_t n_workers = (pool ? pool_size(pool) : 0) + 1;
	pthread_mutex_init(&m.lock, NULL);
	m.workers = xcalloc(n_workers, sizeof(*m.workers));
	int rc = plan_make(m.v, parts, n, n_groups, true, lim, &m.plan, e);
	if (!rc) {
		make_matches(&m, f);
		cut_tasks(&m);
		pool_run(pool, m.tasks.n, run_task, &m);
		rc = atomic_load(&m.failed);
	}
	if (!rc)
		rc = add_up(&m, n_workers, ret, exact, e);
	sums_release(&m, n_workers);
	return rc;
}
