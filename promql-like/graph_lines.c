/* SPDX-License-Identifier: Apache-2.0 */
#include "graph_lines.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What one term says of one series: its profiles in (after, until] count at that step. */
struct entry {
	int64_t after, until;
	double scale;
	uint32_t step, lane;
};

/* All entries of one stored series in order of steps, and what bounds a search in them. */
struct ref_entries {
	uint64_t ref;
	VEC(struct entry) e;
	int64_t *latest, *earliest; /* of until up to here; of after from here on */
};

/* Which line a column of a dictionary has in a lane. */
struct lane_index {
	struct symbols *s;
	uint32_t lane, n;
	uint32_t *line;        /* by column: line + 1, or NO_LINE */
};

#define NO_LINE UINT32_MAX

/* What the readout's choosers know of a dictionary. */
struct sieve {
	struct symbols *s;
	struct frames_memo *memos; /* by chooser */
};

/* One run of steps in which a profile counts the same. */
struct run {
	uint32_t first, end, lane;
	bool whole;
	double scale;
};

struct worker {
	struct graph_table *to;
	VEC(struct lane_index) lanes;
	struct map by_row;          /* of self: the line of a lane and row */
	VEC(struct sieve) sieves;
	VEC(struct run) runs;       /* of the rows of the block at work */
	VEC(uint32_t) first_run;
};

struct filling {
	struct readout *r;
	const struct span *sp;
	VEC(struct ref_entries) refs;
	struct map by_ref;
	struct worker *workers;
	pthread_mutex_t rows_lock;  /* around the readout's rows, which all workers number */
};

/* ---- entries ---- */

static struct ref_entries *need_ref(struct filling *g, uint64_t ref)
{
	uint64_t h = hash_u64(ref);
	uint32_t id;
	for (size_t at = map_start(&g->by_ref, h); map_probe(&g->by_ref, h, &at, &id);)
		if (g->refs.v[id].ref == ref)
			return &g->refs.v[id];
	map_insert(&g->by_ref, h, (uint32_t)g->refs.n);
	vec_push(&g->refs, (struct ref_entries){ .ref = ref });
	return &g->refs.v[g->refs.n - 1];
}

static void add_side(struct filling *g, const struct side *s, uint32_t step, uint32_t lane)
{
	struct ref_entries *to = NULL;
	for (size_t i = 0; i < s->n; i++) {
		const struct term *t = &s->t[i];
		if (!to || to->ref != t->ref)
			to = need_ref(g, t->ref);
		vec_push(&to->e, (struct entry){ t->after_ms, t->until_ms, t->scale, step, lane });
	}
}

/* Stacks that exist already, or ranges for which storage keeps sums by the hour, are not for a table. */
static bool side_fits(const struct side *s)
{
	if (__atomic_load_n(&s->vec, __ATOMIC_ACQUIRE))
		return false;
	for (size_t i = 0; i < s->n; i++)
		if (s->t[i].vec || s->t[i].until_ms - s->t[i].after_ms > 3 * 3600000)
			return false;
	return true;
}

bool graph_lines_fit(const struct value *v)
{
	for (size_t i = 0; i < v->n; i++)
		for (size_t k = 0; k < v->s[i].n; k++) {
			const struct prof *p = v->s[i].s[k].p;
			if (!p || !side_fits(&p->a) || (p->diff && !side_fits(&p->b)))
				return false;
		}
	return true;
}

static void list_entries(struct filling *g, const struct value *v)
{
	for (size_t i = 0; i < v->n; i++)
		for (size_t k = 0; k < v->s[i].n; k++) {
			const struct sample *s = &v->s[i].s[k];
			add_side(g, &s->p->a, graph_step(g->sp, s->t_ms), (uint32_t)(2 * i));
			if (s->p->diff)
				add_side(g, &s->p->b, graph_step(g->sp, s->t_ms), (uint32_t)(2 * i + 1));
		}
	for (size_t i = 0; i < g->refs.n; i++) {
		struct ref_entries *r = &g->refs.v[i];
		r->latest = xcalloc(r->e.n + 1, sizeof *r->latest);
		r->earliest = xcalloc(r->e.n + 1, sizeof *r->earliest);
		for (size_t k = 0; k < r->e.n; k++)
			r->latest[k] = k ? MAX(r->latest[k - 1], r->e.v[k].until) : r->e.v[k].until;
		for (size_t k = r->e.n; k-- > 0;)
			r->earliest[k] = k + 1 < r->e.n ? MIN(r->earliest[k + 1], r->e.v[k].after) : r->e.v[k].after;
	}
}

/* Where the first that reach beyond a time may be. */
static size_t first_beyond(const struct ref_entries *r, int64_t t_ms)
{
	size_t lo = 0, hi = r->e.n;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		if (r->latest[mid] <= t_ms)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* The runs of a profile stamped t_ms. */
static void find_runs(struct worker *t, const struct ref_entries *r, int64_t t_ms)
{
	size_t begin = t->runs.n;
	for (size_t lo = first_beyond(r, t_ms - 1); lo < r->e.n && r->earliest[lo] < t_ms; lo++) {
		const struct entry *x = &r->e.v[lo];
		if (t_ms <= x->after || t_ms > x->until)
			continue;
		struct run *last = NULL; /* the run that this step goes on, of those in the same lane */
		for (size_t i = t->runs.n; i > begin && !last; i--)
			if (t->runs.v[i - 1].lane == x->lane && t->runs.v[i - 1].scale == x->scale && t->runs.v[i - 1].end == x->step)
				last = &t->runs.v[i - 1];
		if (last)
			last->end = x->step + 1;
		else
			vec_push(&t->runs, (struct run){ x->step, x->step + 1, x->lane, x->scale == 1 || x->scale == -1, x->scale });
	}
}

/* ---- filling ---- */

static struct lane_index *need_lane(struct worker *t, struct symbols *s, uint32_t lane)
{
	for (size_t i = t->lanes.n; i-- > 0;)
		if (t->lanes.v[i].lane == lane && t->lanes.v[i].s == s)
			return &t->lanes.v[i];
	vec_push(&t->lanes, (struct lane_index){ .s = s, .lane = lane });
	return &t->lanes.v[t->lanes.n - 1];
}

static struct sieve *need_sieve(const struct filling *g, struct worker *t, struct symbols *s)
{
	for (size_t i = t->sieves.n; i-- > 0;)
		if (t->sieves.v[i].s == s)
			return &t->sieves.v[i];
	const struct readout *r = g->r;
	vec_push(&t->sieves, (struct sieve){ s, xcalloc(r->choosers.n, sizeof(struct frames_memo)) });
	struct sieve *new = &t->sieves.v[t->sieves.n - 1];
	for (size_t i = 0; i < r->choosers.n; i++)
		frames_memo_init(&new->memos[i], &r->choosers.v[i].frames, s);
	return new;
}

/* 0, or the error of a match. */
static int choosers_failed(const struct readout *r, struct err *e)
{
	int rc = 0;
	for (size_t i = 0; i < r->choosers.n && !rc; i++)
		rc = frames_failed(&r->choosers.v[i].frames, e);
	return rc;
}

static bool chosen(const struct filling *g, struct worker *t, struct symbols *s, uint32_t column)
{
	const struct readout *r = g->r;
	if (!r->choosers.n)
		return true;
	struct sieve *x = need_sieve(g, t, s);
	for (size_t i = 0; i < r->choosers.n; i++)
		if (!r->choosers.v[i].keeps(&r->choosers.v[i], &x->memos[i], column))
			return false;
	return true;
}

static int new_line(struct filling *g, struct worker *t, struct graph_line line, uint32_t *ret, struct err *e)
{
	int rc = eval_hold_bytes(g->r->q, (g->sp->n + 1) * sizeof(int64_t), e);
	if (rc)
		return rc;
	line.ints = xcalloc(g->sp->n + 1, sizeof(int64_t));
	vec_push(&t->to->lines, line);
	*ret = (uint32_t)t->to->lines.n;
	return 0;
}

/* The row of the innermost frame; false: the stack has none. */
static bool row_of(struct filling *g, struct symbols *s, uint32_t column, uint32_t *ret)
{
	uint32_t node = symbols_stack_node(s, symbols_get_column(s, column)->stack);
	if (!node)
		return false;
	pthread_mutex_lock(&g->rows_lock);
	*ret = readout_row(g->r, readout_memo(g->r, s), symbols_get_node(s, node)->location, 0);
	pthread_mutex_unlock(&g->rows_lock);
	return true;
}

static int row_line(struct filling *g, struct worker *t, const struct lane_index *l, uint32_t column, uint32_t *ret, struct err *e)
{
	uint32_t row, id;
	if (!row_of(g, l->s, column, &row)) {
		*ret = NO_LINE;
		return 0;
	}
	uint64_t h = hash_u64((uint64_t)l->lane << 32 | row);
	for (size_t at = map_start(&t->by_row, h); map_probe(&t->by_row, h, &at, &id);)
		if (t->to->lines.v[id].lane == l->lane && t->to->lines.v[id].row == row) {
			*ret = id + 1;
			return 0;
		}
	int rc = new_line(g, t, (struct graph_line){ .lane = l->lane, .row = row }, ret, e);
	if (!rc)
		map_insert(&t->by_row, h, *ret - 1);
	return rc;
}

static int find_line(struct filling *g, struct worker *t, struct lane_index *l, uint32_t column, struct err *e)
{
	bool wanted = chosen(g, t, l->s, column);
	int rc = choosers_failed(g->r, e);
	if (rc)
		return rc;
	if (!wanted) {
		l->line[column] = NO_LINE;
		return 0;
	}
	if (graph_of_self(g->r))
		return row_line(g, t, l, column, &l->line[column], e);
	return new_line(g, t, (struct graph_line){ .lane = l->lane, .column = column, .s = l->s }, &l->line[column], e);
}

/* *ret is NULL if no chooser wants the column. */
static int need_line(struct filling *g, struct worker *t, struct lane_index *l, uint32_t column, struct graph_line **ret, struct err *e)
{
	if (column >= l->n) {
		uint32_t n = MAX(column + 1, symbols_count(l->s, SYMBOLS_COLUMNS));
		l->line = xreallocarray(l->line, n, sizeof *l->line);
		memset(l->line + l->n, 0, (n - l->n) * sizeof *l->line);
		l->n = n;
	}
	if (!l->line[column]) {
		int rc = find_line(g, t, l, column, e);
		if (rc)
			return rc;
	}
	*ret = l->line[column] == NO_LINE ? NULL : &t->to->lines.v[l->line[column] - 1];
	return 0;
}

static int add_run(struct filling *g, struct graph_line *l, const struct run *r, int64_t value, struct err *e)
{
	if (r->whole) {
		uint64_t v = r->scale < 0 ? -(uint64_t)value : (uint64_t)value; /* wraps; sizes are looked at at the end */
		l->ints[r->first] = (int64_t)((uint64_t)l->ints[r->first] + v);
		l->ints[r->end] = (int64_t)((uint64_t)l->ints[r->end] - v);
		return 0;
	}
	if (!l->floats) {
		int rc = eval_hold_bytes(g->r->q, g->sp->n * sizeof(double), e);
		if (rc)
			return rc;
		l->floats = xcalloc(g->sp->n, sizeof(double));
	}
	for (uint32_t i = r->first; i < r->end; i++)
		l->floats[i] += (double)value * r->scale;
	return 0;
}

static int fill_block(void *arg, const struct source_cells *c, unsigned worker, struct err *e)
{
	struct filling *g = arg;
	struct worker *t = &g->workers[worker];
	const struct ref_entries *r = &g->refs.v[c->series];
	t->runs.n = t->first_run.n = 0;
	for (size_t i = 0; i < c->n_rows; i++) {
		vec_push(&t->first_run, (uint32_t)t->runs.n);
		find_runs(t, r, c->t_ms[i]);
	}
	vec_push(&t->first_run, (uint32_t)t->runs.n);
	struct lane_index *lane = NULL;
	struct graph_line *line = NULL; /* of the value before: sealed values come column by column */
	uint32_t line_column = UINT32_MAX;
	int rc = 0;
	for (size_t i = 0; i < c->n && !rc; i++) {
		uint32_t k = t->first_run.v[c->rows[i]], end = t->first_run.v[c->rows[i] + 1];
		for (; k < end && !rc; k++) {
			const struct run *run = &t->runs.v[k];
			if (!lane || lane->lane != run->lane || line_column != c->columns[i]) {
				if (!lane || lane->lane != run->lane)
					lane = need_lane(t, c->symbols, run->lane);
				line_column = c->columns[i];
				rc = need_line(g, t, lane, line_column, &line, e);
			}
			if (rc || !line)
				continue;
			rc = add_run(g, line, run, c->values[i], e);
			line->size += fabs((double)c->values[i] * run->scale);
		}
	}
	return rc;
}

/* The next entry from *at on that meets the range; NULL: none. */
static const struct entry *next_meeting(const struct ref_entries *r, size_t *at, int64_t after, int64_t until)
{
	while (*at < r->e.n && r->earliest[*at] < until) {
		const struct entry *x = &r->e.v[(*at)++];
		if (x->after < until && x->until > after)
			return x;
	}
	return NULL;
}

static bool same_entry(const struct entry *x, const struct entry *y)
{
	return x->after == y->after && x->until == y->until && x->scale == y->scale && x->step == y->step && x->lane == y->lane;
}

#define MINUTE_MS 60000

static bool bound_is_whole(int64_t t_ms, int64_t after, int64_t until)
{
	return t_ms <= after || t_ms >= until || t_ms % MINUTE_MS == 0;
}

/* A source_alike_fn. */
static bool entries_alike(void *arg, size_t a, size_t b, int64_t after, int64_t until)
{
	const struct filling *g = arg;
	const struct ref_entries *r = &g->refs.v[a], *s = &g->refs.v[b];
	size_t i = first_beyond(r, after), k = first_beyond(s, after);
	for (;;) {
		const struct entry *x = next_meeting(r, &i, after, until), *y = next_meeting(s, &k, after, until);
		if (!x || !y)
			return !x && !y;
		if (!same_entry(x, y) || !bound_is_whole(x->after, after, until) || !bound_is_whole(x->until, after, until))
			return false;
	}
}

static int fill(struct filling *g, struct err *e)
{
	uint64_t *refs = xcalloc(g->refs.n + 1, sizeof *refs);
	int64_t after = INT64_MAX, until = INT64_MIN;
	for (size_t i = 0; i < g->refs.n; i++) {
		refs[i] = g->refs.v[i].ref;
		after = MIN(after, g->refs.v[i].earliest[0]);
		until = MAX(until, g->refs.v[i].latest[g->refs.v[i].e.n - 1]);
	}
	struct source_view *v = g->r->q->view;
	int rc = g->refs.n ? v->ops->cells(v, refs, g->refs.n, after, until, eval_stream_limits(g->r->q), fill_block, entries_alike, g, e) : 0;
	free(refs);
	return rc;
}

static void worker_free(struct worker *t, size_t n_choosers)
{
	for (size_t i = 0; i < t->lanes.n; i++)
		free(t->lanes.v[i].line);
	for (size_t i = 0; i < t->sieves.n; i++) {
		for (size_t k = 0; k < n_choosers; k++)
			frames_memo_free(&t->sieves.v[i].memos[k]);
		free(t->sieves.v[i].memos);
	}
	map_free(&t->by_row);
	vec_free(&t->sieves);
	vec_free(&t->lanes);
	vec_free(&t->runs);
	vec_free(&t->first_run);
}

int graph_lines_read(struct graph_lines *to, struct readout *r, const struct value *v, const struct span *sp, struct err *e)
{
	struct filling g = { .r = r, .sp = sp, .rows_lock = PTHREAD_MUTEX_INITIALIZER };
	struct pool *pool = r->q->lim.pool;
	*to = (struct graph_lines){ .n_tables = (pool ? pool_size(pool) : 0) + 1 };
	to->tables = xcalloc(to->n_tables, sizeof *to->tables);
	g.workers = xcalloc(to->n_tables, sizeof *g.workers);
	for (size_t w = 0; w < to->n_tables; w++)
		g.workers[w].to = &to->tables[w];
	list_entries(&g, v);
	int rc = fill(&g, e);
	for (size_t w = 0; w < to->n_tables; w++) {
		to->n += to->tables[w].lines.n;
		worker_free(&g.workers[w], r->choosers.n);
	}
	for (size_t i = 0; i < g.refs.n; i++) {
		vec_free(&g.refs.v[i].e);
		free(g.refs.v[i].latest);
		free(g.refs.v[i].earliest);
	}
	vec_free(&g.refs);
	map_free(&g.by_ref);
	free(g.workers);
	return rc;
}

void graph_lines_free(struct graph_lines *g)
{
	for (size_t w = 0; w < g->n_tables; w++) {
		struct graph_table *t = &g->tables[w];
		for (size_t i = 0; i < t->lines.n; i++) {
			free(t->lines.v[i].ints);
			free(t->lines.v[i].floats);
		}
		vec_free(&t->lines);
	}
	free(g->tables);
}
