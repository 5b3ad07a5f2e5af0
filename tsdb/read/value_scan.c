/* SPDX-License-Identifier: Apache-2.0 */
/* Every stored value of some series, for graphs over stacks. A task is one series, or the sum of a service's by the minute, in one sealed hour or
 * one window of the head. It is decoded once into flat arrays and passed to the caller's function. If all series of a service count alike in a
 * minute, except for a few profiles, their sum and those few are read; in other minutes its series. For rate(x[10m]) by series, the few are the
 * first and the last profile of each window. Runs on query threads. */
#include "tsdb/part/damage.h"
#include "tsdb/read/column_names.h"
#include "tsdb/read/scratch.h"
#include "tsdb/read/view.h"
#include "tsdb/read/view_cached.h"
#include "tsdb/version/tombstones.h"

struct task {
	size_t series;       /* of the caller */
	uint32_t partition;
	uint32_t id;         /* or PART_AGGREGATE | number: series is one of its members */
	struct part *part;   /* or: */
	struct window *window;
	uint64_t minutes;    /* of a part: those that are read, a bit each */
	uint64_t few;        /* those of which a sum is read, so that only what counts otherwise is */
	bool as_mid;         /* it counts as the middle of its minute: a sum, or its replacement */
	int64_t whole_ms;    /* all of the part counts alike: its sum is enough, stamped so; 0: not so */
};

struct worker {
	struct read_scratch *scratch;
	struct cells cells;
};

struct reading {
	struct tsdb_view *v;
	const struct source_limits *lim;
	const struct source_cells_reader *to;
	struct column_names names;
	VEC(struct task) tasks;
	struct worker *workers;
	struct mutex lock;
	struct err *e;
	atomic_int failed; /* negative code */
};

/* Without the samples of deleted rows that are still in the part. */
static void drop_hidden(const struct pstate *s, const struct task *t, struct cells *c)
{
	uint8_t *hidden = s->tombstones ? xcalloc(c->t_ms.n + 1, 1) : NULL;
	size_t n = 0;
	for (size_t i = 0; hidden && i < c->t_ms.n; i++)
		n += hidden[i] = tombstones_hide(s, t->part, t->id, c->t_ms.v[i]);
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
	w->cells.t_ms.n = w->cells.summed.n = w->cells.values.n = 0;
	rwlock_read(&t->window->lock);
	const struct chunk *c = window_chunk(t->window, t->id);
	if (c)
		read_tally_add(chunk_sample_bytes(c));
	if (c)
		rc = chunk_cells(c, chunk_visible(c, r->v->seq), &w->cells, e);
	rwlock_unlock(&t->window->lock);
	return rc;
}

/* Into w->cells. */
static int decode_part(struct reading *r, const struct task *t, struct worker *w, struct err *e)
{
	const struct pstate *s = r->v->v->p[t->partition];
	const struct part_choice some = { t->minutes, t->few, t->series, r->to }, *choice = t->minutes == PART_ALL_MINUTES ? NULL : &some;
	int rc = t->whole_ms ? part_sum_cells(t->part, t->id, t->whole_ms, &w->scratch->part, &w->cells, e)
			     : part_cells(t->part, t->id, choice, &w->scratch->part, &w->cells, e);
	if (!rc && !t->whole_ms)
		drop_hidden(s, t, &w->cells);
	for (size_t i = 0; i < w->cells.t_ms.n && t->as_mid && !t->whole_ms; i++)
		w->cells.t_ms.v[i] = source_mid_minute(w->cells.t_ms.v[i]);
	return rc;
}

/* Into w->cells and *ret. */
static int decode(struct reading *r, const struct task *t, struct worker *w, struct columns_of *ret, struct err *e)
{
	int rc = t->part ? decode_part(r, t, w, e) : read_window(r, t, w, e);
	return rc ? rc : column_names_of(&r->names, t->partition, w->cells.columns.v, w->cells.values.n, ret, e);
}

static int hand_out(struct reading *r, const struct task *t, struct worker *w, const struct columns_of *of, unsigned worker, struct err *e)
{
	const struct cells *c = &w->cells;
	int rc = limits_check(r->lim, c->values.n, e);
	if (!rc)
		rc = column_names_check(&r->names, r->lim, e);
	int64_t start = t->part ? part_start_ms(t->part) : t->window->hour * HOUR_MS;
	int64_t end = t->part ? part_end_ms(t->part) : start + HOUR_MS;
	struct source_cells out = { t->series, start, end, of->symbols, c->t_ms.v, c->t_ms.n, c->values.n, c->rows.v,
				    c->columns.v, c->values.v, of->as, of->n_as, c->summed.n ? c->summed.v : NULL };
	return !rc && out.n && out.symbols ? r->to->take(r->to->arg, &out, worker, e) : rc;
}

static int read_one(struct reading *r, const struct task *t, struct worker *w, unsigned worker, struct err *e)
{
	struct columns_of of;
	int rc = decode(r, t, w, &of, e);
	if (rc)
		return t->part ? damage_pass(r->lim, t->part, t->id, e) : rc;
	return hand_out(r, t, w, &of, worker, e);
}

/* A sum that is damaged is not needed: its series are there. None of it was passed on. */
static int read_sum(struct reading *r, const struct task *t, struct worker *w, unsigned worker, struct err *e)
{
	struct columns_of of;
	int rc = decode(r, t, w, &of, e);
	if (!rc)
		return hand_out(r, t, w, &of, worker, e);
	if (damage_is_lack(t->part, e))
		return 0;
	if (!damage_is(e))
		return rc;
	damage_count(t->part, t->id, e);
	atomic_store(&t->part->no_sums, true);
	rc = 0;
	for (size_t i = 0; i < t->part->series.n && !rc; i++) {
		struct task one = *t;
		one.id = t->part->series.v[i].series;
		if (t->part->series.v[i].aggregate == (t->id & ~PART_AGGREGATE) + 1)
			rc = read_one(r, &one, w, worker, e);
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
	if (!w->scratch)
		w->scratch = scratch_take(r->v->db->scratch_pool);
	int rc = t->part && t->id & PART_AGGREGATE ? read_sum(r, t, w, worker, &e) : read_one(r, t, w, worker, &e);
	column_names_done(&r->names, t->partition);
	if (!rc)
		return;
	mutex_lock(&r->lock);
	if (!atomic_load(&r->failed)) {
		if (r->e)
			*r->e = e;
		atomic_store(&r->failed, rc);
	}
	mutex_unlock(&r->lock);
}

static void add_part(struct reading *r, struct part *p, struct task t, int64_t after_ms, int64_t until_ms)
{
	const struct part_series *x = part_find(p, t.id);
	int64_t first = x ? part_start_ms(p) + x->min_ms : 0, last = x ? part_start_ms(p) + x->max_ms : 0;
	if (!x || x->is_float || last <= after_ms || first > until_ms)
		return;
	t.part = p;
	if (r->to->alike && t.minutes == PART_ALL_MINUTES && r->to->alike(r->to->arg, t.series, t.series, first - 1, last) == SOURCE_ALIKE &&
	    !tombstones_touch(r->v->v->p[t.partition], t.id, part_start_ms(p), part_end_ms(p)))
		t.whole_ms = last;
	vec_push(&r->tasks, t);
}

/* The request for a sum of a part. */
struct sum {
	uint32_t n;          /* of its series are asked for */
	size_t first;        /* one of them, of the caller */
	bool whole;          /* of any two, all of the part counts the same */
	uint64_t minutes;    /* of which what is in them does, */
	uint64_t few;        /* of these but for a few profiles */
};

/* Keeps in sum->minutes those in which its first series and another, which has data from first_ms to last_ms, count alike. */
static void meet_minutes(struct reading *r, const struct part *p, size_t series, int64_t first_ms, int64_t last_ms, struct sum *sum)
{
	uint64_t before = part_minute(p, first_ms) - 1, upto = part_minute(p, last_ms) * 2 - 1;
	for (uint64_t left = sum->minutes & ~before & upto; left; left &= left - 1) {
		int64_t after = part_start_ms(p) + __builtin_ctzll(left) * PART_AGGREGATE_MS;
		enum source_alike how = r->to->alike(r->to->arg, sum->first, series, after, after + PART_AGGREGATE_MS);
		if (how == SOURCE_UNLIKE)
			sum->minutes &= ~(left & -left);
		else if (how == SOURCE_ALIKE_BUT_FEW)
			sum->few |= left & -left;
	}
}

static void meet_sum(struct reading *r, const struct part *p, const struct part_series *x, size_t series, struct sum *sum)
{
	if (!sum->n++)
		*sum = (struct sum){ 1, series, true, PART_ALL_MINUTES, 0 };
	enum source_alike how = r->to->alike(r->to->arg, sum->first, series, part_start_ms(p), part_end_ms(p));
	sum->whole = sum->whole && how == SOURCE_ALIKE;
	if (how == SOURCE_UNLIKE)
		meet_minutes(r, p, series, part_start_ms(p) + x->min_ms, part_start_ms(p) + x->max_ms, sum);
}

/* Where the sums of a part are the answer: NULL, or malloc'd, by number. */
static struct sum *find_sums(struct reading *r, const struct pstate *s, const struct part *p, const uint32_t *ids, size_t n)
{
	if (!r->to->alike || !p->aggregates.n || atomic_load(&p->no_sums) || tombstones_touch_part(s, p))
		return NULL;
	struct sum *sums = xcalloc(p->aggregates.n, sizeof *sums);
	for (size_t i = 0; i < n; i++) {
		const struct part_series *x = ids[i] == NOT_THERE ? NULL : part_find(p, ids[i]);
		struct sum *sum = x && x->aggregate ? &sums[x->aggregate - 1] : NULL;
		if (sum && (!sum->n || sum->minutes))
			meet_sum(r, p, x, i, sum);
	}
	for (uint32_t a = 0; a < p->aggregates.n; a++)
		if (sums[a].n != p->aggregates.v[a])
			sums[a].minutes = 0;
	return sums;
}

static void add_hour(struct reading *r, struct part *part, uint32_t p, const uint32_t *ids, size_t n, int64_t after_ms, int64_t until_ms)
{
	struct sum *sums = find_sums(r, r->v->v->p[p], part, ids, n);
	struct task t = { .partition = p, .part = part };
	for (uint32_t a = 0; sums && a < part->aggregates.n; a++) {
		t.series = sums[a].first;
		t.id = PART_AGGREGATE | a;
		t.as_mid = true;
		t.minutes = sums[a].minutes;
		t.whole_ms = sums[a].whole ? part_end_ms(part) : 0;
		if (t.minutes)
			vec_push(&r->tasks, t);
	}
	t.whole_ms = 0;
	t.as_mid = false;
	for (size_t i = 0; i < n; i++) {
		const struct part_series *x = ids[i] == NOT_THERE ? NULL : part_find(part, ids[i]);
		const struct sum *sum = x && x->aggregate && sums ? &sums[x->aggregate - 1] : NULL;
		t.series = i;
		t.id = ids[i];
		t.minutes = PART_ALL_MINUTES & ~(sum ? sum->minutes : 0);
		t.few = sum ? sum->few & sum->minutes : 0;
		if (x && (t.minutes || t.few))
			add_part(r, part, t, after_ms, until_ms);
	}
	free(sums);
}

/* All series of an hour before those of the next: adding them up then uses the same steps. */
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

/* Notes all that is to be fetched of days of the bucket. False: the stacks of one are not on this disk yet. */
static bool cells_want(struct reading *r, const uint64_t *refs, size_t n, int64_t after_ms, int64_t until_ms)
{
	bool here = true;
	for (size_t p = 0; p < r->v->v->n && r->v->cached; p++) {
		const struct pstate *s = r->v->v->p[p];
		bool any = false;
		for (size_t i = 0; i < n && !any && r->v->cached[p] && partition_meets(s->p, after_ms, until_ms); i++)
			any = view_has_ref(r->v, refs[i]) && view_series(r->v, refs[i], p) != NOT_THERE;
		if (!any)
			continue;
		here &= column_names_has(&r->names, p);
		for (size_t k = 0; k < s->n_parts && s->parts[k]->level == LEVEL_HOUR; k++) {
			if (!hour_meets(s->parts[k]->window, after_ms, until_ms))
				continue;
			view_want(s->parts[k], 0, true);
			if (r->to->alike && s->parts[k]->aggregates.n)
				view_want(s->parts[k], PART_AGGREGATE, true);
		}
	}
	return here;
}

/* What it hands out cannot be taken back: so all of days of the bucket is fetched before. Only once the names of a day are here they tell whether its
 * dictionary is needed, too. */
static int cells_fetch(struct reading *r, struct view_try *try, const uint64_t *refs, size_t n, int64_t after_ms, int64_t until_ms, struct err *e)
{
	int rc = 0;
	bool here = false;
	for (unsigned i = 0; i < VIEW_FETCHES && !rc && !here && !try->last; i++) {
		here = cells_want(r, refs, n, after_ms, until_ms);
		rc = view_try_fetch(try, e);
	}
	return rc;
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
		bool any = false;
		size_t before = r->tasks.n;
		for (size_t i = 0; i < n; i++)
			any |= (ids[i] = view_series(r->v, refs[i], p)) != NOT_THERE;
		if (any && column_names_begin(&r->names, p)) /* else they did not come from the bucket: the answer says so */
			add_tasks(r, (uint32_t)p, ids, n, after_ms, until_ms);
		column_names_expect(&r->names, p, r->tasks.n - before);
		rc = column_names_check(&r->names, r->lim, e);
	}
	free(ids);
	return rc;
}

int view_cells(struct source_view *sv, const uint64_t *refs, size_t n, int64_t after_ms, int64_t until_ms,
	       const struct source_limits *lim, const struct source_cells_reader *to, struct err *e)
{
	struct reading r = { .v = (struct tsdb_view *)sv, .lim = lim, .to = to, .e = e };
	struct pool *pool = lim ? lim->pool : NULL;
	size_t n_workers = (pool ? pool_size(pool) : 0) + 1;
	struct view_try try;
	view_try_begin(&try, r.v, after_ms, until_ms, lim);
	r.lim = try.lim;
	column_names_init(&r.names, r.v, to->detail, after_ms, until_ms);
	int rc = cells_fetch(&r, &try, refs, n, after_ms, until_ms, e);
	if (!rc)
		rc = plan_tasks(&r, refs, n, after_ms, until_ms, e);
	mutex_init(&r.lock, LOCK_LEAF, "values");
	r.workers = xcalloc(n_workers, sizeof *r.workers);
	if (!rc) {
		pool_run(pool, r.tasks.n, run_task, &r);
		rc = atomic_load(&r.failed);
	}
	rc = view_try_end(&try, rc, e);
	for (size_t i = 0; i < n_workers; i++) {
		scratch_give(r.v->db->scratch_pool, r.workers[i].scratch);
		cells_release(&r.workers[i].cells);
	}
	free(r.workers);
	column_names_release(&r.names);
	vec_free(&r.tasks);
	mutex_destroy(&r.lock);
	return rc;
}
