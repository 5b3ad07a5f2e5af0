/* SPDX-License-Identifier: Apache-2.0 */
/* Rows over many steps: each stored value of the range is read once, however many steps use it (graph_terms.h), and added to the rows of
 * functions by the hour (graph_rows.h). Here they are put out. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "promql-like/stacks/graph_rows.h"
#include "promql-like/syntax/ast.h"

struct graph {
	struct readout *r;
	const struct span *sp;
	struct graph_terms terms;
	struct graph_rows rows;
	struct worker *workers;
	size_t n_workers;
};

/* ---- reading ---- */

struct worker {
	struct graph_table *table;
	struct graph_classes classes;
};

static int fill_block(void *arg, const struct source_cells *c, unsigned worker, struct err *e)
{
	struct graph *g = arg;
	struct worker *w = &g->workers[worker];
	int rc = graph_terms_classes(&g->terms, g->r->q, c->series, c->t_ms, c->summed, c->n_rows, &w->classes, e);
	return rc ? rc : graph_table_add(w->table, &w->classes, c, e);
}

static enum source_alike alike(void *arg, size_t a, size_t b, int64_t after, int64_t until)
{
	const struct graph *g = arg;
	return graph_terms_alike(&g->terms, a, b, after, until);
}

static bool odd(void *arg, size_t series, int64_t t_ms)
{
	const struct graph *g = arg;
	return graph_terms_odd(&g->terms, series, t_ms);
}

static int graph_fill(struct graph *g, struct err *e)
{
	struct pool *pool = g->r->q->lim.pool;
	struct source_view *v = g->r->q->view;
	int64_t after, until;
	uint64_t *refs = graph_terms_refs(&g->terms, &after, &until);
	g->n_workers = (pool ? pool_size(pool) : 0) + 1;
	g->workers = xcalloc(g->n_workers, sizeof *g->workers);
	for (size_t i = 0; i < g->n_workers; i++)
		g->workers[i].table = graph_table_new(&g->rows);
	const struct source_cells_reader reader = { fill_block, alike, odd, SYMBOLS_NAMES, g };
	int rc = 0;
	eval_read_begin(g->r->q);
	if (g->terms.refs.n)
		rc = v->ops->cells(v, refs, g->terms.refs.n, after, until, eval_stream_limits(g->r->q), &reader, e);
	eval_read_end(g->r->q);
	for (size_t i = 0; i < g->n_workers && !rc; i++)
		rc = graph_table_flush(g->workers[i].table, e);
	free(refs);
	return rc;
}

/* ---- asking the source for rows ---- */

/* What is read of the graph's argument: filters around an x. */
static void graph_put_argument(const struct readout *r, const struct node *n, struct buf *out)
{
	if (n == r->in) {
		buf_puts(out, "x");
		return;
	}
	n = node_unwrap((struct node *)(uintptr_t)n);
	buf_puts(out, n->call.fn->name);
	buf_puts(out, "(");
	graph_put_argument(r, n->call.args[0], out);
	for (size_t i = 1; i < n->call.n; i++) {
		buf_puts(out, ", ");
		print_node(n->call.args[i], out);
	}
	buf_puts(out, ")");
}

static int graph_add_row(void *arg, const struct source_graph_row *row, struct err *e)
{
	return graph_rows_add(arg, row, e);
}

static int graph_ask(struct graph *g, bool *ret_fits, struct err *e)
{
	struct readout *r = g->r;
	struct source_graph a;
	struct buf text = { 0 };
	buf_puts(&text, graph_of_self(r) ? "self(" : "total(");
	graph_put_argument(r, r->n->call.args[0], &text);
	buf_printf(&text, ", \"%s\")", granularity_names[r->by]);
	graph_terms_ask(&g->terms, &a);
	a.readout = buf_view(&text);
	*ret_fits = true;
	eval_read_begin(r->q);
	int rc = a.n_refs ? r->q->view->ops->rows(r->q->view, &a, eval_stream_limits(r->q), ret_fits, graph_add_row, &g->rows, e) : 0;
	eval_read_end(r->q);
	graph_terms_asked_free(&a);
	buf_free(&text);
	return rc;
}

/* ---- output ---- */

/* Both sides of a row of an input series side by side; by name they are put at the end (readout_out.c). */
static int by_lane(const void *a, const void *b)
{
	const struct graph_row *x = a, *y = b;
	if (x->lane / 2 != y->lane / 2)
		return x->lane / 2 < y->lane / 2 ? -1 : 1;
	if (x->row != y->row)
		return x->row < y->row ? -1 : 1;
	return (x->lane > y->lane) - (x->lane < y->lane);
}

/* The results of one input series: plus and minus of each row side by side. */
struct put {
	struct graph *g;
	const struct value_series *s;
	size_t in;
	const struct graph_row *x;
	size_t n;
	struct readout_reading *readings; /* by sample of s */
	double *least;          /* by sample of s, what is kept; NULL: all */
	double sign;            /* -1: the least are kept, so all is turned around */
};

/* In the native unit. False: the row has nothing in that step. */
static inline bool native_at(const struct put *p, size_t i, const struct value_sample *s, double *ret)
{
	const struct graph_row *x = &p->x[i];
	uint32_t step = graph_step(p->g->sp, s->t_ms);
	bool two = i + 1 < p->n && x[1].row == x->row;
	int64_t whole = 0;
	double part = 0;
	bool any = false;
	for (size_t k = 0; k < 1 + (size_t)two; k++) {
		any |= x[k].ints[step] != 0 || (x[k].floats && x[k].floats[step] != 0);
		whole += x[k].lane % 2 ? -x[k].ints[step] : x[k].ints[step];
		if (x[k].floats)
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
static double rank_of(const struct put *p, const struct value_sample *s, double native)
{
	return is_share(p) && lazy_profile_whole(s->p, s->v) < 0 ? -p->sign * native : p->sign * native;
}

/* The k-th best of each sample's rows; what is worse cannot be among the k best of any group. */
static void find_least(struct put *p, const struct row_choice *c)
{
	double *heap = NULL;
	p->least = xcalloc(p->s->n + 1, sizeof *p->least);
	p->sign = c->greatest ? 1 : -1;
	for (size_t k = 0; k < p->s->n; k++) {
		const struct value_sample *s = &p->s->s[k];
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
		struct value_series *out = NULL;
		for (size_t k = 0; k < p->s->n && !rc; k++) {
			const struct value_sample *s = &p->s->s[k];
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
	if (g->rows.v.n)
		qsort(g->rows.v.v, g->rows.v.n, sizeof *g->rows.v.v, by_lane);
	for (size_t i = 0; i < v->n && !rc; i++) {
		struct put p = { .g = g, .s = &v->s[i], .in = readout_in(g->r, v->s[i].labels), .x = g->rows.v.v + at };
		while (at + p.n < g->rows.v.n && p.x[p.n].lane / 2 == i)
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
	for (size_t i = 0; i < g->n_workers; i++) {
		graph_table_free(g->workers[i].table);
		graph_classes_free(&g->workers[i].classes);
	}
	free(g->workers);
	graph_terms_free(&g->terms);
	graph_rows_free(&g->rows);
}

int graph_read(struct readout *r, struct value *v, const struct span *sp, bool *ret_done, size_t *ret_rows, struct err *e)
{
	const struct source_ops *ops = r->q->view->ops;
	struct graph g = { .r = r, .sp = sp };
	*ret_done = (ops->cells || ops->rows) && graph_terms_fit(v);
	if (!*ret_done)
		return 0;
	*ret_done = graph_terms_list(&g.terms, v, sp);
	graph_rows_init(&g.rows, r, &g.terms);
	int rc = !*ret_done ? 0 : ops->cells ? graph_fill(&g, e) : graph_ask(&g, ret_done, e);
	*ret_rows = g.rows.v.n;
	if (!rc && *ret_done) {
		*ret_done = graph_rows_finish(&g.rows);
		rc = eval_check(r->q, e);
	}
	if (!rc && *ret_done) {
		graph_rows_numbers(&g.rows);
		rc = put_all(&g, v, e);
	}
	graph_free(&g);
	return rc;
}

/* ---- answering another's graph ---- */

int graph_answer(struct readout *r, const struct source_graph *a, const struct span *sp, bool *ret_fits, source_rows_fn fn, void *arg, struct err *e)
{
	struct graph g = { .r = r, .sp = sp };
	int rc = graph_terms_of(&g.terms, r->q, a, sp, e);
	graph_rows_init(&g.rows, r, &g.terms);
	if (!rc)
		rc = graph_fill(&g, e);
	*ret_fits = !rc && graph_rows_finish(&g.rows);
	for (size_t i = 0; i < g.rows.v.n && !rc && *ret_fits; i++) {
		const struct graph_row *x = &g.rows.v.v[i];
		const struct readout_row *row = &r->rows.v[x->row];
		rc = fn(arg, &(struct source_graph_row){ x->lane, row->function, row->file, row->line, x->ints, x->parts }, e);
	}
	graph_free(&g);
	return rc;
}
