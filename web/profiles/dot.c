/* SPDX-License-Identifier: Apache-2.0 */
/* format=dot: the graph of calls for graphviz, as google/pprof draws it. Boxes are functions with self and total, sized by self;
 * arrows have the value of the call. It has the eighty most important functions, boxes of at least half a percent and arrows of at
 * least a thousandth, both by value, equal ones by name. For a diff, the difference. */
#include <math.h>
#include <stdlib.h>

#include "base/map.h"
#include "base/num.h"
#include "base/utf8.h"
#include "base/vec.h"
#include "model/functions.h"
#include "web/profiles/merged.h"

#define MOST_NODES 80
#define NODE_FRACTION 0.005
#define EDGE_FRACTION 0.001

struct dot_node {
	struct view name;
	struct num_sum self_sum, total_sum;
	double self, total;  /* once all stacks are added up */
	uint32_t number;     /* in the drawing; 0 = left out */
};

struct dot_edge {
	uint32_t from, to;
	struct num_sum sum;
	double value;        /* as those of nodes */
	size_t counted_in;
};

struct dot {
	struct functions functions;
	VEC(struct dot_node) nodes; /* by the number of their function */
	VEC(struct dot_edge) edges;
	struct map by_pair;
	struct num_sum sum_of_values, sum_of_sizes;
	double sum, whole;   /* as those of nodes */
	uint64_t announced;  /* bytes */
	/* of the stack at work */
	size_t stack;
	double value;
	uint32_t below;      /* the callee of the visited function; UINT32_MAX: none */
};

static void add_edge(struct dot *d, uint32_t from, uint32_t to, double v)
{
	uint64_t h = hash_u64((uint64_t)from << 32 | to);
	uint32_t id;
	if (!MAP_FIND_OR_ADD(&d->by_pair, h, id, d->edges.n, d->edges.v[id].from == from && d->edges.v[id].to == to)) {
		vec_push(&d->edges, (struct dot_edge){ .from = from, .to = to, .sum = { v, 0 }, .counted_in = d->stack });
		return;
	}
	struct dot_edge *x = &d->edges.v[id];
	if (x->counted_in != d->stack)
		num_sum_add(&x->sum, v);
	x->counted_in = d->stack;
}

/* A function counts once per stack, and so does a caller with its callee. */
static void add_frame(void *arg, uint32_t id, bool first)
{
	struct dot *d = arg;
	if (id == d->nodes.n)
		vec_push(&d->nodes, (struct dot_node){ 0 });
	struct dot_node *x = &d->nodes.v[id];
	if (d->below == UINT32_MAX)
		num_sum_add(&x->self_sum, d->value);
	else if (d->below != id)
		add_edge(d, id, d->below, d->value);
	if (first)
		num_sum_add(&x->total_sum, d->value);
	d->below = id;
}

#define FUNCTION_BYTES 160 /* with its name and its place in the index */
#define EDGE_BYTES 80
#define STACKS_AT_ONCE 256
#define LEAST_BYTES 65536

/* Room for as much again as there is. */
static int need_graph(struct dot *d, const struct permit *permit, struct err *e)
{
	uint64_t want = LEAST_BYTES + 2 * (d->nodes.n * FUNCTION_BYTES + d->edges.n * EDGE_BYTES), more = want > d->announced ? want - d->announced : 0;
	d->announced += more;
	int rc = permit_need(permit, more, e);
	return rc ? rc : permit_go_on(permit, e);
}

static int add_vec(struct dot *d, const struct stackvec *v, double sign, const struct permit *permit, struct err *e)
{
	int rc = 0;
	for (size_t i = 0; v && i < v->n && !rc; i++) {
		double x = v->is_float ? v->floats[i] : (double)v->ints[i];
		if (x == 0)
			continue;
		d->value = sign * x;
		num_sum_add(&d->sum_of_values, d->value);
		num_sum_add(&d->sum_of_sizes, fabs(x));
		d->below = UINT32_MAX;
		d->stack++;
		rc = functions_walk(&d->functions, v->symbols, symbols_get_column(v->symbols, v->columns[i])->stack, add_frame, d, e);
		if (!rc && i % STACKS_AT_ONCE == STACKS_AT_ONCE - 1)
			rc = need_graph(d, permit, e);
	}
	return rc;
}

/* ---- what is drawn ---- */

static int by_weight(const void *a, const void *b, void *arg)
{
	const struct dot *d = arg;
	const struct dot_node *x = &d->nodes.v[*(const uint32_t *)a], *y = &d->nodes.v[*(const uint32_t *)b];
	if (fabs(x->total) != fabs(y->total))
		return fabs(x->total) > fabs(y->total) ? -1 : 1;
	if (fabs(x->self) != fabs(y->self))
		return fabs(x->self) > fabs(y->self) ? -1 : 1;
	return view_cmp(x->name, y->name);
}

static void dot_close_sums(struct dot *d)
{
	for (size_t i = 0; i < d->nodes.n; i++) {
		struct dot_node *x = &d->nodes.v[i];
		x->name = d->functions.names.v[i];
		x->self = num_sum_value(x->self_sum);
		x->total = num_sum_value(x->total_sum);
	}
	for (size_t i = 0; i < d->edges.n; i++)
		d->edges.v[i].value = num_sum_value(d->edges.v[i].sum);
	d->sum = num_sum_value(d->sum_of_values);
	d->whole = num_sum_value(d->sum_of_sizes);
}

static uint32_t *choose(struct dot *d, size_t *ret_n)
{
	uint32_t *order = xcalloc(d->nodes.n + 1, sizeof *order);
	for (size_t i = 0; i < d->nodes.n; i++)
		order[i] = (uint32_t)i;
	qsort_r(order, d->nodes.n, sizeof *order, by_weight, d);
	size_t n = 0;
	while (n < d->nodes.n && n < MOST_NODES && fabs(d->nodes.v[order[n]].total) >= NODE_FRACTION * d->whole)
		n++;
	for (size_t i = 0; i < n; i++)
		d->nodes.v[order[i]].number = (uint32_t)i + 1;
	*ret_n = n;
	return order;
}

static bool dot_is_drawn(const struct dot *d, const struct dot_edge *x)
{
	return d->nodes.v[x->from].number && d->nodes.v[x->to].number && fabs(x->value) >= EDGE_FRACTION * d->whole && x->value != 0;
}

/* Of those with the same value by their boxes, whose numbers do not depend on the order of functions. */
static int by_edge_value(const void *a, const void *b, void *arg)
{
	const struct dot *d = arg;
	const struct dot_edge *x = a, *y = b;
	uint32_t m = d->nodes.v[x->from].number, n = d->nodes.v[y->from].number;
	if (fabs(x->value) != fabs(y->value))
		return fabs(x->value) > fabs(y->value) ? -1 : 1;
	if (m != n)
		return m < n ? -1 : 1;
	m = d->nodes.v[x->to].number;
	n = d->nodes.v[y->to].number;
	return (m > n) - (m < n);
}

/* Only those that are drawn stay. */
static void dot_choose_edges(struct dot *d)
{
	size_t n = 0;
	for (size_t i = 0; i < d->edges.n; i++)
		if (dot_is_drawn(d, &d->edges.v[i]))
			d->edges.v[n++] = d->edges.v[i];
	d->edges.n = n;
	if (n)
		qsort_r(d->edges.v, n, sizeof *d->edges.v, by_edge_value, d);
}

/* graphviz refuses a text that is not valid UTF-8. */
static void put_quoted(struct buf *b, struct view v)
{
	for (size_t i = 0; i < v.len;) {
		char text[4];
		uint32_t c;
		i += utf8_shown(view_make(v.ptr + i, v.len - i), &c);
		if (c == '"' || c == '\\')
			buf_putc(b, '\\');
		buf_putv(b, view_make(text, utf8_encode(c, text)));
	}
}

/* From grey to red with the share of the whole; decreases to green. */
static void put_colour(struct buf *b, double share, bool background)
{
	double a = fmin(1, fabs(share)), w = sqrt(a);
	double base = background ? 0.93 : 0.7 - 0.7 * (1 - w) * 0.3, other = background ? base - 0.1 * w : base * (1 - w);
	int hi = (int)(255 * base), lo = (int)(255 * fmax(0, other));
	buf_printf(b, share >= 0 ? "#%02x%02x%02x" : "#%02x%02x%02x", share >= 0 ? hi : lo, share >= 0 ? lo : hi, lo);
}

static void put_node(struct buf *b, const struct dot *d, const struct merged_profile *m, const struct dot_node *x)
{
	double share = d->whole > 0 ? x->total / d->whole : 0;
	int size = 8 + (int)(16 * sqrt(d->whole > 0 ? fabs(x->self) / d->whole : 0));
	buf_printf(b, "N%u [label=\"", x->number);
	put_quoted(b, x->name);
	buf_puts(b, "\\n");
	if (x->self != 0) {
		unit_put(b, x->self, m->type->sample_unit);
		percent_put(b, x->self, d->whole);
	} else {
		buf_puts(b, "0");
	}
	if (x->total != x->self) {
		buf_puts(b, "\\nof ");
		unit_put(b, x->total, m->type->sample_unit);
		percent_put(b, x->total, d->whole);
	}
	buf_printf(b, "\" id=\"node%u\" fontsize=%d shape=box tooltip=\"", x->number, size);
	put_quoted(b, x->name);
	buf_puts(b, " (");
	unit_put(b, x->total, m->type->sample_unit);
	buf_puts(b, ")\" color=\"");
	put_colour(b, share, false);
	buf_puts(b, "\" fillcolor=\"");
	put_colour(b, share, true);
	buf_puts(b, "\"]\n");
}

static void put_edge(struct buf *b, const struct dot *d, const struct merged_profile *m, const struct dot_edge *x)
{
	const struct dot_node *from = &d->nodes.v[x->from], *to = &d->nodes.v[x->to];
	double share = d->whole > 0 ? x->value / d->whole : 0;
	buf_printf(b, "N%u -> N%u [label=\" ", from->number, to->number);
	unit_put(b, x->value, m->type->sample_unit);
	buf_printf(b, "\" weight=%d penwidth=%.1f color=\"", 1 + (int)(100 * fabs(share)), 1 + 5 * fabs(share));
	put_colour(b, share, false);
	buf_puts(b, "\" tooltip=\"");
	put_quoted(b, from->name);
	buf_puts(b, " -> ");
	put_quoted(b, to->name);
	buf_puts(b, " (");
	unit_put(b, x->value, m->type->sample_unit);
	buf_puts(b, ")\"]\n");
}

static int put_graph(struct buf *b, struct dot *d, const struct merged_profile *m, struct view query, const struct permit *permit, struct err *e)
{
	size_t n;
	int rc = 0;
	uint32_t *order = choose(d, &n);
	dot_choose_edges(d);
	buf_puts(b, "digraph \"");
	put_quoted(b, query);
	buf_puts(b, "\" {\nnode [style=filled fillcolor=\"#f8f8f8\"]\nsubgraph cluster_L { \"L\" [shape=box fontsize=16 label=\"");
	put_quoted(b, query);
	buf_puts(b, "\\lType: ");
	put_quoted(b, m->type->sample_type);
	buf_puts(b, "\\lTotal: ");
	unit_put(b, d->sum, m->type->sample_unit);
	buf_printf(b, "\\lShowing %zu of %zu functions\\l\"] }\n", n, d->nodes.n);
	for (size_t i = 0; i < n && !rc; i++) {
		put_node(b, d, m, &d->nodes.v[order[i]]);
		rc = permit_text_step(permit, i, b->len, e);
	}
	for (size_t i = 0; i < d->edges.n && !rc; i++) {
		put_edge(b, d, m, &d->edges.v[i]);
		rc = permit_text_step(permit, i, b->len, e);
	}
	buf_puts(b, "}\n");
	free(order);
	return rc;
}

int call_graph_dot(const struct merged_profile *m, struct view query, const struct permit *permit, struct buf *out, struct err *e)
{
	if (!m->vec)
		return err_set(e, ERR_NOT_FOUND, "no profile matches the query at that time");
	struct dot d = { .stack = 0 };
	int rc = need_graph(&d, permit, e);
	if (!rc)
		rc = add_vec(&d, m->vec, 1, permit, e);
	if (!rc)
		rc = add_vec(&d, m->base, -1, permit, e);
	dot_close_sums(&d);
	if (!rc && !isfinite(d.whole)) {
		char text[NUM_LEN];
		rc = err_set(e, ERR_EXECUTION, "the profile's values add up to %s, which no graph can show", num_format(d.whole, text));
	}
	if (!rc)
		rc = put_graph(out, &d, m, query, permit, e);
	vec_free(&d.nodes);
	vec_free(&d.edges);
	map_free(&d.by_pair);
	functions_release(&d.functions);
	return rc;
}
