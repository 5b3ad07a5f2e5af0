/* SPDX-License-Identifier: Apache-2.0 */
/* Every stored value of some series, for graphs over stacks: a task is one series, or the sum of a service's by the minute, in one sealed hour or
 * one window of the head, decoded once into flat arrays and handed to the caller's function. Runs on query threads. */
#include "tsdb/damage.h"
#include "tsdb/masks.h"
#include "tsdb/space.h"
#include "tsdb/view.h"

struct task {
	size_t series;       /* of the caller */
	uint32_t partition;
	uint32_t id;         /* or PART_AGGREGATE | number: series is one of those that it sums up */
	struct part *part;   /* or: */
	struct window *window;
};

struct worker {
	struct space *space;
	struct cells cells;
};

struct reading {
	struct tsdb_view *v;
	const struct source_limits *lim;
	source_cells_fn fn;
	source_alike_fn alike;
	void *arg;
	VEC(struct task) tasks;
	struct worker *workers;
	pthread_mutex_t lock;
	struct err *e;
	atomic_int failed; /* negative code */
};

/* Without the samples of rows that were deleted and still lie in the part. */
static void drop_hidden(const struct pstate *s, const struct task *t, struct cells *c)
{
	uint8_t *hidden = s->masks ? xcalloc(c->t_ms.n + 1, 1) : NULL;
	size_t n = 0;
	for (size_t i = 0; hidden && i < c->t_ms.n; i++)
		n += hidden[i] = masks_hide(s, t->part, t->id, c->t_ms.v[i]);
	size_t kept = 0;
	for (size_t i = 0; n && i < c->values.n; i++) {
		if (hidden[c->rows.v[i]])
			continue;
		c->rows.v[kept] = c->rows.v[i];
		c->columns.v[kept] = c->columns.v[i];
		c->values.v[kept++] = c->values.v[i];
	}
	if (n)
		c->rows.n = c->columns.n = c->values.n = kept;
	free(hidden);
}

static int read_window(struct reading *r, const struct task *t, struct worker *w, struct err *e)
{
	int rc = 0;
	w->cells.t_ms.n = w->cells.values.n = 0;
	pthread_rwlock_rdlock(&t->window->lock);
	const struct chunk *c = window_chunk(t->window, t->id);
	if (c)
		read_tally_add(chunk_sample_bytes(c));
	if (c)
		rc = chunk_cells(c, chunk_visible(c, r->v->seq), &w->cells, e);
	pthread_rwlock_unlock(&t->window->lock);
	return rc;
}

static int read_one(struct reading *r, const struct task *t, struct worker *w, unsigned worker, struct err *e)
{
	struct cells *c = &w->cells;
	int rc = t->part ? part_cells(t->part, t->id, &w->space->part, c, e) : read_window(r, t, w, e);
	if (!rc && t->part)
		drop_hidden(r->v->v->p[t->partition], t, c);
	if (!rc)
		rc = limits_check(r->lim, c->values.n, e);
	int64_t start = t->part ? part_start_ms(t->part) : t->window->hour * HOUR_MS;
	int64_t end = t->part ? part_end_ms(t->part) : start + HOUR_MS;
	struct source_cells out = { t->series, start, end, r->v->v->p[t->partition]->p->symbols, c->t_ms.v, c->t_ms.n, c->values.n, c->rows.v,
				    c->columns.v, c->values.v };
	return !rc && out.n ? r->fn(r->arg, &out, worker, e) : rc;
}

static int read_or_pass(struct reading *r, const struct task *t, struct worker *w, unsigned worker, struct err *e)
{
	int rc = read_one(r, t, w, worker, e);
	return rc && t->part ? damage_pass(r->lim, t->part, t->id, e) : rc;
}

/* A sum that is damaged is not needed: its series are there. Nothing of it was handed out. */
static int read_sum(struct reading *r, const struct task *t, struct worker *w, unsigned worker, struct err *e)
{
	int rc = read_one(r, t, w, worker, e);
	if (!rc || !damage_is(e))
		return rc;
	damage_count(t->part, t->id, e);
	atomic_store(&t->part->no_sums, true);
	rc = 0;
	for (size_t i = 0; i < t->part->series.n && !rc; i++) {
		struct task one = *t;
		one.id = t->part->series.v[i].series;
		if (t->part->series.v[i].aggregate == (t->id & ~PART_AGGREGATE) + 1)
			rc = read_or_pass(r, &one, w, worker, e);
	}
	return rc;
}

static void run_task(void *arg, size_t i, unsigned worker)
{
	struct reading *r = arg;
	struct worker *w = &r->workers[worker];
	const struct task *t = &r->tasks.v[i];
	struct err e;
	if (atomic_load(&r->failed))
		return;
	if (!w->space)
		w->space = space_take(r->v->db->spaces);
	int rc = t->part && t->id & PART_AGGREGATE ? read_sum(r, t, w, worker, &e) : read_or_pass(r, t, w, worker, &e);
	if (!rc)
		return;
	pthread_mutex_lock(&r->lock);
	if (!atomic_load(&r->failed)) {
		if (r->e)
			*r->e = e;
		atomic_store(&r->failed, rc);
	}
	pthread_mutex_unlock(&r->lock);
}

static void add_part(struct reading *r, struct part *p, struct task t, int64_t after_ms, int64_t until_ms)
{
	const struct part_series *x = part_find(p, t.id);
	if (!x || x->is_float || part_start_ms(p) + x->max_ms <= after_ms || part_start_ms(p) + x->min_ms > until_ms)
		return;
	t.part = p;
	vec_push(&r->tasks, t);
}

/* What is asked of a sum of a part. */
struct sum {
	uint32_t n;          /* of its series are asked for */
	size_t first;        /* one of them, of the caller */
	bool differ;         /* not all count the same, or not by the minute */
};

/* Which sums of the part are the answer for all of their series: NULL, or malloc'd, by number. */
static struct sum *find_sums(struct reading *r, const struct pstate *s, const struct part *p, const uint32_t *ids, size_t n)
{
	if (!r->alike || !p->aggregates.n || atomic_load(&p->no_sums) || masks_touch_part(s, p))
		return NULL;
	struct sum *sums = xcalloc(p->aggregates.n, sizeof *sums);
	for (size_t i = 0; i < n; i++) {
		const struct part_series *x = ids[i] == NOT_THERE ? NULL : part_find(p, ids[i]);
		if (!x || !x->aggregate)
			continue;
		struct sum *sum = &sums[x->aggregate - 1];
		if (!sum->n++)
			sum->first = i;
		sum->differ = sum->differ || !r->alike(r->arg, sum->first, i, part_start_ms(p), part_end_ms(p));
	}
	for (uint32_t a = 0; a < p->aggregates.n; a++)
		sums[a].differ |= !sums[a].n || sums[a].n != p->aggregates.v[a];
	return sums;
}

static void add_hour(struct reading *r, struct part *part, uint32_t p, const uint32_t *ids, size_t n, int64_t after_ms, int64_t until_ms)
{
	struct sum *sums = find_sums(r, r->v->v->p[p], part, ids, n);
	for (uint32_t a = 0; sums && a < part->aggregates.n; a++)
		if (!sums[a].differ)
			vec_push(&r->tasks, (struct task){ .series = sums[a].first, .partition = p, .id = PART_AGGREGATE | a, .part = part });
	for (size_t i = 0; i < n; i++) {
		const struct part_series *x = ids[i] == NOT_THERE ? NULL : part_find(part, ids[i]);
		if (x && !(sums && x->aggregate && !sums[x->aggregate - 1].differ))
			add_part(r, part, (struct task){ .series = i, .partition = p, .id = ids[i] }, after_ms, until_ms);
	}
	free(sums);
}

/* All series of an hour before those of the next: who adds them up has the same steps at hand. */
static void add_tasks(struct reading *r, uint32_t p, const uint32_t *ids, size_t n, int64_t after_ms, int64_t until_ms)
{
	const struct pstate *s = r->v->v->p[p];
	for (size_t k = 0; k < s->n_parts && s->parts[k]->level == LEVEL_HOUR; k++)
		if (hour_meets(s->parts[k]->window, after_ms, until_ms))
			add_hour(r, s->parts[k], p, ids, n, after_ms, until_ms);
	for (size_t k = 0; k < s->n_windows; k++)
		for (size_t i = 0; i < n && hour_meets(s->windows[k]->hour, after_ms, until_ms); i++)
			if (ids[i] != NOT_THERE)
				vec_push(&r->tasks, (struct task){ .series = i, .partition = p, .id = ids[i], .window = s->windows[k] });
}

static int plan_tasks(struct reading *r, const uint64_t *refs, size_t n, int64_t after_ms, int64_t until_ms, struct err *e)
{
	uint32_t *ids = xcalloc(n + 1, sizeof *ids);
	int rc = limits_check(r->lim, 0, e);
	for (size_t i = 0; i < n && !rc; i++)
		if (!view_has_ref(r->v, refs[i]))
			rc = view_bad_ref(refs[i], e);
	for (size_t p = 0; p < r->v->v->n && !rc; p++) {
		if (!partition_meets(r->v->v->p[p]->p, after_ms, until_ms))
			continue;
		for (size_t i = 0; i < n; i++)
			ids[i] = view_series(r->v, refs[i], p);
		partition_load(r->v->v->p[p]->p); /* the caller keeps pointing at its symbols */
		add_tasks(r, (uint32_t)p, ids, n, after_ms, until_ms);
	}
	free(ids);
	return rc;
}

int view_cells(struct source_view *sv, const uint64_t *refs, size_t n, int64_t after_ms, int64_t until_ms,
	       const struct source_limits *lim, source_cells_fn fn, source_alike_fn alike, void *arg, struct err *e)
{
	struct reading r = { .v = (struct tsdb_view *)sv, .lim = lim, .fn = fn, .alike = alike, .arg = arg, .e = e };
	struct pool *pool = lim ? lim->pool : NULL;
	size_t n_workers = (pool ? pool_size(pool) : 0) + 1;
	int rc = plan_tasks(&r, refs, n, after_ms, until_ms, e);
	pthread_mutex_init(&r.lock, NULL);
	r.workers = xcalloc(n_workers, sizeof *r.workers);
	if (!rc) {
		pool_run(pool, r.tasks.n, run_task, &r);
		rc = atomic_load(&r.failed);
	}
	for (size_t i = 0; i < n_workers; i++) {
		space_give(r.v->db->spaces, r.workers[i].space);
		cells_release(&r.workers[i].cells);
	}
	free(r.workers);
	vec_free(&r.tasks);
	pthread_mutex_destroy(&r.lock);
	return rc;
}
