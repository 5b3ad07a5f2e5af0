/* SPDX-License-Identifier: Apache-2.0 */
/* Rows over many steps. A graph's windows overlap: at a step of a minute, rate(cpu[5m]) reads each profile five times if
 * it is done step by step. Here each stored value is read once. The terms of all steps tell in which steps a profile
 * counts whole, which is a run of them, and in which as a part:
 *
 *	                 step 0   1   2   3   4   5   6
 *	profile            .   +v   .   .   .   .  -v        whole in steps 1 to 5: two additions to a table of differences
 *	                  +.3v              (floats)         and a part of it at step 0
 *
 * first by column (stack), then over the tree of stacks to the rows of functions, and summed along the steps at last.
 * Tables are filled by the source's threads, each its own; the sums along are shared out by steps.
 *
 * What is exact stays so: whole profiles are added as integers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "readout.h"

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

/* A lane is one side (what is added, what is subtracted) of one input series: 2 * series, 2 * series + 1. */
struct line {
	uint32_t lane, column;
	struct symbols *s;
	int64_t *ints;         /* differences, n_steps + 1 */
	double *floats;        /* NULL until needed; n_steps */
	double size;           /* sum of |value| */
};

/* Which line a column of a dictionary has in a lane. */
struct lane_index {
	struct symbols *s;
	uint32_t lane, n;
	uint32_t *line;        /* by column: line + 1, or NOT_CHOSEN */
};

#define NOT_CHOSEN UINT32_MAX

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

struct table {
	VEC(struct line) lines;
	VEC(struct lane_index) lanes;
	VEC(struct sieve) sieves;
	VEC(struct run) runs;       /* of the rows of the block at work */
	VEC(uint32_t) first_run;
};

struct result {
	uint32_t lane, row;
	int64_t *ints;
	double *floats;
	double size;
};

/* The stacks of one lane and dictionary as a tree, each node before its children: what is added up over a subtree is added
 * to the functions that no caller above has already, so that a recursive one counts once. Of self, only the leaves'. */
struct tree_node {
	uint32_t id, parent;        /* of the dictionary; index + 1, 0 = none */
	size_t first_target, end_target;
	double size;
};

struct tree {
	uint32_t lane;
	struct symbols *s;
	uint32_t *index;            /* by node of the dictionary: place + 1 */
	VEC(struct tree_node) nodes;
	VEC(struct { const struct line *line; uint32_t node; }) lines;
	bool floats;
};

struct graph {
	struct readout *r;
	const struct span *sp;
	VEC(struct ref_entries) refs;
	struct map by_ref;
	struct table *tables;       /* by worker */
	size_t n_tables;
	VEC(struct result) results;
	struct map by_row;
	VEC(uint32_t) targets;      /* results of the trees' nodes, back to back */
	VEC(struct tree) trees;
	size_t n_nodes;             /* of the largest tree */
};

/* ---- entries ---- */

static struct ref_entries *need_ref(struct graph *g, uint64_t ref)
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

static void add_side(struct graph *g, const struct side *s, uint32_t step, uint32_t lane)
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

static bool fits(const struct value *v)
{
	for (size_t i = 0; i < v->n; i++)
		for (size_t k = 0; k < v->s[i].n; k++) {
			const struct prof *p = v->s[i].s[k].p;
			if (!p || !side_fits(&p->a) || (p->diff && !side_fits(&p->b)))
				return false;
		}
	return true;
}

static uint32_t step_of(const struct span *sp, int64_t t_ms)
{
	return (uint32_t)((t_ms - sp->start) / sp->step);
}

static void list_entries(struct graph *g, const struct value *v)
{
	for (size_t i = 0; i < v->n; i++)
		for (size_t k = 0; k < v->s[i].n; k++) {
			const struct sample *s = &v->s[i].s[k];
			add_side(g, &s->p->a, step_of(g->sp, s->t_ms), (uint32_t)(2 * i));
			if (s->p->diff)
				add_side(g, &s->p->b, step_of(g->sp, s->t_ms), (uint32_t)(2 * i + 1));
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

/* The runs of a profile stamped t_ms. */
static void find_runs(struct table *t, const struct ref_entries *r, int64_t t_ms)
{
	size_t lo = 0, hi = r->e.n, begin = t->runs.n;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		if (r->latest[mid] < t_ms)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (; lo < r->e.n && r->earliest[lo] < t_ms; lo++) {
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

static struct lane_index *need_lane(struct table *t, struct symbols *s, uint32_t lane)
{
	for (size_t i = t->lanes.n; i-- > 0;)
		if (t->lanes.v[i].lane == lane && t->lanes.v[i].s == s)
			return &t->lanes.v[i];
	vec_push(&t->lanes, (struct lane_index){ .s = s, .lane = lane });
	return &t->lanes.v[t->lanes.n - 1];
}

static struct sieve *need_sieve(const struct graph *g, struct table *t, struct symbols *s)
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

static bool chosen(const struct graph *g, struct table *t, struct symbols *s, uint32_t column)
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

/* *ret is NULL if no chooser wants the column. */
static int need_line(struct graph *g, struct table *t, struct lane_index *l, uint32_t column, struct line **ret, struct err *e)
{
	if (column >= l->n) {
		uint32_t n = MAX(column + 1, symbols_count(l->s, SYMBOLS_COLUMNS));
		l->line = xreallocarray(l->line, n, sizeof *l->line);
		memset(l->line + l->n, 0, (n - l->n) * sizeof *l->line);
		l->n = n;
	}
	if (!l->line[column] && !chosen(g, t, l->s, column))
		l->line[column] = NOT_CHOSEN;
	if (!l->line[column]) {
		int rc = eval_hold_bytes(g->r->q, (g->sp->n + 1) * sizeof(int64_t), e);
		if (rc)
			return rc;
		vec_push(&t->lines, (struct line){ .lane = l->lane, .column = column, .s = l->s,
						   .ints = xcalloc(g->sp->n + 1, sizeof(int64_t)) });
		l->line[column] = (uint32_t)t->lines.n;
	}
	*ret = l->line[column] == NOT_CHOSEN ? NULL : &t->lines.v[l->line[column] - 1];
	return 0;
}

static int add_run(struct graph *g, struct line *l, const struct run *r, int64_t value, struct err *e)
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
	struct graph *g = arg;
	struct table *t = &g->tables[worker];
	const struct ref_entries *r = &g->refs.v[c->series];
	t->runs.n = t->first_run.n = 0;
	for (size_t i = 0; i < c->n_rows; i++) {
		vec_push(&t->first_run, (uint32_t)t->runs.n);
		find_runs(t, r, c->t_ms[i]);
	}
	vec_push(&t->first_run, (uint32_t)t->runs.n);
	struct lane_index *lane = NULL;
	struct line *line = NULL; /* of the value before: sealed values come column by column */
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

static int fill(struct graph *g, struct err *e)
{
	uint64_t *refs = xcalloc(g->refs.n + 1, sizeof *refs);
	int64_t after = INT64_MAX, until = INT64_MIN;
	for (size_t i = 0; i < g->refs.n; i++) {
		refs[i] = g->refs.v[i].ref;
		after = MIN(after, g->refs.v[i].earliest[0]);
		until = MAX(until, g->refs.v[i].latest[g->refs.v[i].e.n - 1]);
	}
	struct source_view *v = g->r->q->view;
	int rc = g->refs.n ? v->ops->cells(v, refs, g->refs.n, after, until, eval_stream_limits(g->r->q), fill_block, g, e) : 0;
	free(refs);
	return rc;
}

/* ---- folding columns into rows ---- */

static int need_result(struct graph *g, uint32_t lane, uint32_t row, uint32_t *ret, struct err *e)
{
	uint64_t h = hash_u64((uint64_t)lane << 32 | row);
	for (size_t at = map_start(&g->by_row, h); map_probe(&g->by_row, h, &at, ret);)
		if (g->results.v[*ret].lane == lane && g->results.v[*ret].row == row)
			return 0;
	int rc = eval_hold_bytes(g->r->q, (g->sp->n + 1) * 16, e);
	if (rc)
		return rc;
	*ret = (uint32_t)g->results.n;
	map_insert(&g->by_row, h, *ret);
	vec_push(&g->results, (struct result){ lane, row, xcalloc(g->sp->n + 1, sizeof(int64_t)), xcalloc(g->sp->n + 1, sizeof(double)), 0 });
	return 0;
}

static struct tree *need_tree(struct graph *g, const struct line *l)
{
	for (size_t i = g->trees.n; i-- > 0;)
		if (g->trees.v[i].lane == l->lane && g->trees.v[i].s == l->s)
			return &g->trees.v[i];
	vec_push(&g->trees, (struct tree){ .lane = l->lane, .s = l->s,
					   .index = xcalloc(symbols_count(l->s, SYMBOLS_NODES) + 1, sizeof(uint32_t)) });
	return &g->trees.v[g->trees.n - 1];
}

static bool leaf_only(const struct graph *g)
{
	return g->r->measure == SELF || g->r->measure == SELF_SHARE;
}

static void plant(struct graph *g, const struct line *l)
{
	struct tree *t = need_tree(g, l);
	uint32_t node = symbols_stack_node(l->s, symbols_get_column(l->s, l->column)->stack);
	if (!node)
		return;
	__auto_type x = vec_add(&t->lines);
	x->line = l;
	x->node = node;
	t->floats |= l->floats != NULL;
	for (; node && !t->index[node]; node = leaf_only(g) ? 0 : symbols_get_node(l->s, node)->parent) {
		t->index[node] = 1;
		vec_push(&t->nodes, (struct tree_node){ .id = node });
	}
}

static int by_id(const void *a, const void *b)
{
	uint32_t x = ((const struct tree_node *)a)->id, y = ((const struct tree_node *)b)->id;
	return (x > y) - (x < y);
}

static bool counted_above(const struct graph *g, const struct tree *t, const struct tree_node *n, uint32_t result)
{
	for (; n; n = n->parent ? &t->nodes.v[n->parent - 1] : NULL)
		for (size_t i = n->first_target; i < n->end_target; i++)
			if (g->targets.v[i] == result)
				return true;
	return false;
}

static int find_targets(struct graph *g, struct tree *t, struct row_memo *m, struct tree_node *n, struct err *e)
{
	uint32_t location = symbols_get_node(t->s, n->id)->location, id;
	uint32_t lines = leaf_only(g) ? 1 : frames_of(symbols_get_location(t->s, location));
	n->first_target = n->end_target = g->targets.n;
	for (uint32_t k = lines; k-- > 0;) { /* the caller of inlined calls first */
		int rc = need_result(g, t->lane, readout_row(g->r, m, location, k), &id, e);
		if (rc)
			return rc;
		if (counted_above(g, t, n, id))
			continue;
		vec_push(&g->targets, id);
		n->end_target = g->targets.n;
	}
	return 0;
}

/* Nodes in order, what each adds to, and how large it can get. */
static int grow(struct graph *g, struct tree *t, struct err *e)
{
	int rc = 0;
	if (t->nodes.n)
		qsort(t->nodes.v, t->nodes.n, sizeof *t->nodes.v, by_id);
	for (size_t i = 0; i < t->nodes.n; i++)
		t->index[t->nodes.v[i].id] = (uint32_t)i + 1;
	struct row_memo m = *readout_memo(g->r, t->s);
	for (size_t i = 0; i < t->nodes.n && !rc; i++) {
		struct tree_node *n = &t->nodes.v[i];
		n->parent = leaf_only(g) ? 0 : t->index[symbols_get_node(t->s, n->id)->parent];
		rc = find_targets(g, t, &m, n, e);
	}
	for (size_t i = 0; i < t->lines.n; i++) {
		t->lines.v[i].node = t->index[t->lines.v[i].node] - 1;
		t->nodes.v[t->lines.v[i].node].size += t->lines.v[i].line->size;
	}
	for (size_t i = t->nodes.n; i-- > 0 && !rc;) {
		const struct tree_node *n = &t->nodes.v[i];
		if (n->parent)
			t->nodes.v[n->parent - 1].size += n->size;
		for (size_t k = n->first_target; k < n->end_target; k++)
			g->results.v[g->targets.v[k]].size += n->size;
	}
	g->n_nodes = MAX(g->n_nodes, t->nodes.n);
	return rc;
}

#define STEPS_PER_TASK 32

struct slice {
	int64_t i[STEPS_PER_TASK];
	double f[STEPS_PER_TASK];
};

static void add_ints(int64_t *to, const int64_t *from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = (int64_t)((uint64_t)to[i] + (uint64_t)from[i]);
}

static void add_floats(double *to, const double *from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] += from[i];
}

static void fold_tree(struct graph *g, const struct tree *t, struct slice *at, size_t from, size_t n)
{
	memset(at, 0, t->nodes.n * sizeof *at);
	for (size_t i = 0; i < t->lines.n; i++) {
		const struct line *l = t->lines.v[i].line;
		add_ints(at[t->lines.v[i].node].i, l->ints + from, n);
		if (l->floats)
			add_floats(at[t->lines.v[i].node].f, l->floats + from, n);
	}
	for (size_t i = t->nodes.n; i-- > 0;) {
		const struct tree_node *x = &t->nodes.v[i];
		for (size_t k = x->first_target; k < x->end_target; k++) {
			const struct result *r = &g->results.v[g->targets.v[k]];
			add_ints(r->ints + from, at[i].i, n);
			if (t->floats)
				add_floats(r->floats + from, at[i].f, n);
		}
		if (!x->parent)
			continue;
		add_ints(at[x->parent - 1].i, at[i].i, n);
		if (t->floats)
			add_floats(at[x->parent - 1].f, at[i].f, n);
	}
}

/* Some steps of all trees: no two tasks touch the same number. */
static void fold_steps(void *arg, size_t task, unsigned worker)
{
	(void)worker;
	struct graph *g = arg;
	size_t from = task * STEPS_PER_TASK;
	struct slice *at = xmalloc((g->n_nodes + 1) * sizeof *at);
	for (size_t i = 0; i < g->trees.n; i++)
		fold_tree(g, &g->trees.v[i], at, from, MIN(STEPS_PER_TASK, g->sp->n - from));
	free(at);
}

static int fold(struct graph *g, bool *ret_fits, struct err *e)
{
	int rc = 0;
	*ret_fits = true;
	for (size_t w = 0; w < g->n_tables; w++)
		for (size_t i = 0; i < g->tables[w].lines.n; i++)
			plant(g, &g->tables[w].lines.v[i]);
	for (size_t i = 0; i < g->trees.n && !rc; i++)
		rc = grow(g, &g->trees.v[i], e);
	for (size_t i = 0; i < g->results.n; i++)
		*ret_fits &= g->results.v[i].size < 0x1p62;
	if (rc || !*ret_fits)
		return rc;
	pool_run(g->r->q->pool, (g->sp->n + STEPS_PER_TASK - 1) / STEPS_PER_TASK, fold_steps, g);
	for (size_t i = 0; i < g->results.n; i++)
		for (size_t s = 1; s < g->sp->n; s++)
			g->results.v[i].ints[s] = (int64_t)((uint64_t)g->results.v[i].ints[s] + (uint64_t)g->results.v[i].ints[s - 1]);
	return eval_check(g->r->q, e);
}

/* ---- output ---- */

static int by_name(const void *a, const void *b, void *arg)
{
	const struct graph *g = arg;
	const struct result *x = a, *y = b;
	if (x->lane / 2 != y->lane / 2)
		return x->lane / 2 < y->lane / 2 ? -1 : 1;
	int c = readout_cmp_rows(g->r, x->row, y->row);
	return c ? c : (x->lane > y->lane) - (x->lane < y->lane);
}

/* The results of one input series: plus and minus of each row side by side. */
struct put {
	struct graph *g;
	const struct series *s;
	size_t in;
	const struct result *x;
	size_t n;
	double *least;          /* by sample of s, what is kept; NULL: all */
	double sign;            /* -1: the least are kept, so all is turned around */
};

/* In the native unit. False: the row has nothing in that step. */
static inline bool native_at(const struct put *p, size_t i, const struct sample *s, double *ret)
{
	const struct result *x = &p->x[i];
	uint32_t step = step_of(p->g->sp, s->t_ms);
	bool two = i + 1 < p->n && x[1].row == x->row;
	int64_t whole = 0;
	double part = 0;
	bool any = false;
	for (size_t k = 0; k < 1 + (size_t)two; k++) {
		any |= x[k].ints[step] != 0 || x[k].floats[step] != 0;
		whole += x[k].lane % 2 ? -x[k].ints[step] : x[k].ints[step];
		part += x[k].lane % 2 ? -x[k].floats[step] : x[k].floats[step];
	}
	*ret = (double)whole + part;
	return any;
}

static bool is_share(const struct put *p)
{
	return p->g->r->measure == SHARE || p->g->r->measure == SELF_SHARE;
}

static size_t next_row(const struct put *p, size_t i)
{
	return i + 1 < p->n && p->x[i + 1].row == p->x[i].row ? i + 2 : i + 1;
}

/* The k greatest so far; the least of them is h[0]. */
static void heap_replace(double *h, size_t n, double v)
{
	size_t i = 0;
	for (size_t child; (child = 2 * i + 1) < n; i = child) {
		if (child + 1 < n && h[child + 1] < h[child])
			child++;
		if (h[child] >= v)
			break;
		h[i] = h[child];
	}
	h[i] = v;
}

/* A share of a negative whole is the greater the less it is. */
static double rank_of(const struct put *p, const struct sample *s, double native)
{
	return is_share(p) && s->v < 0 ? -p->sign * native : p->sign * native;
}

/* The k-th best of each sample's rows; what is worse cannot be among the k best of any group. */
static void find_least(struct put *p, const struct keep *keep)
{
	double *heap = NULL;
	p->least = xcalloc(p->s->n + 1, sizeof *p->least);
	p->sign = keep->greatest ? 1 : -1;
	for (size_t k = 0; k < p->s->n; k++) {
		const struct sample *s = &p->s->s[k];
		double want = value_scalar(keep->k, step_of(p->g->sp, s->t_ms)), v;
		p->least[k] = -INFINITY;
		if (!(want >= 1) || want >= (double)p->n)
			continue;
		size_t n = (size_t)want, have = 0;
		heap = xreallocarray(heap, n, sizeof *heap);
		for (size_t i = 0; i < n; i++)
			heap[i] = -INFINITY;
		for (size_t i = 0; i < p->n; i = next_row(p, i))
			if (native_at(p, i, s, &v) && ++have && rank_of(p, s, v) > heap[0])
				heap_replace(heap, n, rank_of(p, s, v));
		p->least[k] = have < n ? -INFINITY : heap[0];
	}
	free(heap);
}

static int put_series(struct put *p, struct err *e)
{
	int rc = 0;
	for (size_t i = 0; i < p->n && !rc; i = next_row(p, i)) {
		struct series *out = NULL;
		for (size_t k = 0; k < p->s->n && !rc; k++) {
			const struct sample *s = &p->s->s[k];
			double v;
			if (!native_at(p, i, s, &v) || (p->least && rank_of(p, s, v) < p->least[k]) || (is_share(p) && s->v == 0))
				continue;
			if (!out)
				out = readout_out(p->g->r, p->in, p->x[i].row);
			v = readout_value(s->p, v);
			rc = series_push(p->g->r->q, out, s->t_ms, is_share(p) ? v / s->v : v, NULL, e);
		}
	}
	return rc;
}

static int put_all(struct graph *g, const struct value *v, const struct keep *keep, struct err *e)
{
	int rc = 0;
	size_t at = 0;
	if (g->results.n)
		qsort_r(g->results.v, g->results.n, sizeof *g->results.v, by_name, g);
	for (size_t i = 0; i < v->n && !rc; i++) {
		struct put p = { .g = g, .s = &v->s[i], .in = readout_in(g->r, v->s[i].labels), .x = g->results.v + at };
		while (at + p.n < g->results.n && p.x[p.n].lane / 2 == i)
			p.n++;
		at += p.n;
		if (keep)
			find_least(&p, keep);
		rc = put_series(&p, e);
		free(p.least);
	}
	return rc;
}

/* ---- the call ---- */

static void graph_free(struct graph *g)
{
	for (size_t i = 0; i < g->refs.n; i++) {
		vec_free(&g->refs.v[i].e);
		free(g->refs.v[i].latest);
		free(g->refs.v[i].earliest);
	}
	for (size_t w = 0; w < g->n_tables; w++) {
		struct table *t = &g->tables[w];
		for (size_t i = 0; i < t->lines.n; i++) {
			free(t->lines.v[i].ints);
			free(t->lines.v[i].floats);
		}
		for (size_t i = 0; i < t->lanes.n; i++)
			free(t->lanes.v[i].line);
		for (size_t i = 0; i < t->sieves.n; i++) {
			for (size_t k = 0; k < g->r->choosers.n; k++)
				frames_memo_free(&t->sieves.v[i].memos[k]);
			free(t->sieves.v[i].memos);
		}
		vec_free(&t->sieves);
		vec_free(&t->lines);
		vec_free(&t->lanes);
		vec_free(&t->runs);
		vec_free(&t->first_run);
	}
	for (size_t i = 0; i < g->results.n; i++) {
		free(g->results.v[i].ints);
		free(g->results.v[i].floats);
	}
	free(g->tables);
	vec_free(&g->refs);
	vec_free(&g->results);
	vec_free(&g->targets);
	for (size_t i = 0; i < g->trees.n; i++) {
		free(g->trees.v[i].index);
		vec_free(&g->trees.v[i].nodes);
		vec_free(&g->trees.v[i].lines);
	}
	vec_free(&g->trees);
	map_free(&g->by_ref);
	map_free(&g->by_row);
}

int graph_read(struct readout *r, struct value *v, const struct span *sp, const struct keep *keep, bool *ret_done,
	       size_t *ret_columns, struct err *e)
{
	struct graph g = { .r = r, .sp = sp };
	*ret_done = fits(v);
	if (!*ret_done)
		return 0;
	struct pool *pool = r->q->lim.pool;
	g.n_tables = (pool ? pool_size(pool) : 0) + 1;
	g.tables = xcalloc(g.n_tables, sizeof *g.tables);
	list_entries(&g, v);
	int rc = fill(&g, e);
	*ret_columns = 0;
	for (size_t w = 0; w < g.n_tables; w++)
		*ret_columns += g.tables[w].lines.n;
	if (!rc)
		rc = fold(&g, ret_done, e);
	if (!rc && *ret_done)
		rc = put_all(&g, v, keep, e);
	graph_free(&g);
	return rc;
}
