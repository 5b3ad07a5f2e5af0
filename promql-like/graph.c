/* SPDX-License-Identifier: Apache-2.0 */
/* Rows over many steps. The columns of all steps (graph_lines.h) are folded over the tree of stacks to the rows of functions, and
 * at last summed along the steps. The folding is shared out by steps. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph_lines.h"

struct result {
	uint32_t lane, row;
	int64_t *ints;
	double *floats;
	double size;
};

/* The stacks of one lane and dictionary as a tree, each node before its children: what is added up over a subtree is added
 * to the functions that no caller above has already, so that a recursive one counts once. Of self there are no trees: its lines are rows. */
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
	VEC(struct { const struct graph_line *line; uint32_t node; }) lines;
	bool floats;
};

struct graph {
	struct readout *r;
	const struct span *sp;
	struct graph_lines lines;
	VEC(struct result) results;
	struct map by_row;
	VEC(uint32_t) targets;      /* results of the trees' nodes, back to back */
	VEC(struct tree) trees;
	size_t n_nodes;             /* of the largest tree */
};

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

static struct tree *need_tree(struct graph *g, const struct graph_line *l)
{
	for (size_t i = g->trees.n; i-- > 0;)
		if (g->trees.v[i].lane == l->lane && g->trees.v[i].s == l->s)
			return &g->trees.v[i];
	vec_push(&g->trees, (struct tree){ .lane = l->lane, .s = l->s,
					   .index = xcalloc(symbols_count(l->s, SYMBOLS_NODES) + 1, sizeof(uint32_t)) });
	return &g->trees.v[g->trees.n - 1];
}

static void plant(struct graph *g, const struct graph_line *l)
{
	struct tree *t = need_tree(g, l);
	uint32_t node = symbols_stack_node(l->s, symbols_get_column(l->s, l->column)->stack);
	if (!node)
		return;
	__auto_type x = vec_add(&t->lines);
	x->line = l;
	x->node = node;
	t->floats |= l->floats != NULL;
	for (; node && !t->index[node]; node = symbols_get_node(l->s, node)->parent) {
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
	uint32_t lines = frame_count(symbols_get_location(t->s, location));
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
		n->parent = t->index[symbols_get_node(t->s, n->id)->parent];
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
		const struct graph_line *l = t->lines.v[i].line;
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

/* Of self a line is a row's already. */
static int add_row(struct graph *g, const struct graph_line *l, struct err *e)
{
	uint32_t id;
	int rc = need_result(g, l->lane, l->row, &id, e);
	if (rc)
		return rc;
	struct result *r = &g->results.v[id];
	r->size += l->size;
	add_ints(r->ints, l->ints, g->sp->n);
	if (l->floats)
		add_floats(r->floats, l->floats, g->sp->n);
	return 0;
}

static int fold(struct graph *g, bool *ret_fits, struct err *e)
{
	int rc = 0;
	bool self = graph_of_self(g->r);
	*ret_fits = true;
	for (size_t w = 0; w < g->lines.n_tables && !rc; w++)
		for (size_t i = 0; i < g->lines.tables[w].lines.n && !rc; i++) {
			const struct graph_line *l = &g->lines.tables[w].lines.v[i];
			if (self)
				rc = add_row(g, l, e);
			else
				plant(g, l);
		}
	for (size_t i = 0; i < g->trees.n && !rc; i++)
		rc = grow(g, &g->trees.v[i], e);
	for (size_t i = 0; i < g->results.n; i++)
		*ret_fits &= g->results.v[i].size < 0x1p62;
	if (rc || !*ret_fits)
		return rc;
	if (!self)
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
	struct reading *readings; /* by sample of s */
	double *least;          /* by sample of s, what is kept; NULL: all */
	double sign;            /* -1: the least are kept, so all is turned around */
};

/* In the native unit. False: the row has nothing in that step. */
static inline bool native_at(const struct put *p, size_t i, const struct sample *s, double *ret)
{
	const struct result *x = &p->x[i];
	uint32_t step = graph_step(p->g->sp, s->t_ms);
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
	return is_share(p) && prof_whole(s->p, s->v) < 0 ? -p->sign * native : p->sign * native;
}

/* The k-th best of each sample's rows; what is worse cannot be among the k best of any group. */
static void find_least(struct put *p, const struct row_choice *c)
{
	double *heap = NULL;
	p->least = xcalloc(p->s->n + 1, sizeof *p->least);
	p->sign = c->greatest ? 1 : -1;
	for (size_t k = 0; k < p->s->n; k++) {
		const struct sample *s = &p->s->s[k];
		double want = value_scalar(c->best_k, graph_step(p->g->r->sp, s->t_ms)), v;
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
			if (!native_at(p, i, s, &v) || (p->least && rank_of(p, s, v) < p->least[k]) || !reading_number(&p->readings[k], v, &v) ||
			    !choice_wants(p->g->r->choice, v))
				continue;
			if (!out)
				out = readout_out(p->g->r, p->in, p->x[i].row);
			rc = series_push(p->g->r->q, out, s->t_ms, v, NULL, e);
		}
	}
	return rc;
}

static int put_all(struct graph *g, const struct value *v, struct err *e)
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
		p.readings = xcalloc(p.s->n + 1, sizeof *p.readings);
		for (size_t k = 0; k < p.s->n; k++)
			p.readings[k] = readout_reading(g->r, &p.s->s[k]);
		if (g->r->choice && g->r->choice->best_k)
			find_least(&p, g->r->choice);
		rc = put_series(&p, e);
		free(p.readings);
		free(p.least);
	}
	return rc;
}

/* ---- the call ---- */

static void graph_free(struct graph *g)
{
	for (size_t i = 0; i < g->results.n; i++) {
		free(g->results.v[i].ints);
		free(g->results.v[i].floats);
	}
	graph_lines_free(&g->lines);
	vec_free(&g->results);
	vec_free(&g->targets);
	for (size_t i = 0; i < g->trees.n; i++) {
		free(g->trees.v[i].index);
		vec_free(&g->trees.v[i].nodes);
		vec_free(&g->trees.v[i].lines);
	}
	vec_free(&g->trees);
	map_free(&g->by_row);
}

int graph_read(struct readout *r, struct value *v, const struct span *sp, bool *ret_done,
	       size_t *ret_columns, struct err *e)
{
	struct graph g = { .r = r, .sp = sp };
	*ret_done = graph_lines_fit(v);
	if (!*ret_done)
		return 0;
	int rc = graph_lines_read(&g.lines, r, v, sp, e);
	*ret_columns = g.lines.n;
	if (!rc)
		rc = fold(&g, ret_done, e);
	if (!rc && *ret_done)
		rc = put_all(&g, v, e);
	graph_free(&g);
	return rc;
}
