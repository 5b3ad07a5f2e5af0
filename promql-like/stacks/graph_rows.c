/* SPDX-License-Identifier: Apache-2.0 */
#include "promql-like/stacks/graph_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "model/frame.h"

/* Number 0 is the root's. */
struct tree_node {
	uint32_t parent;       /* smaller than its own number; 0: the row has no caller, or the graph is of self */
	uint32_t row;
};

/* A worker's data about a dictionary, which may grow between blocks: the tree of the rows of its stacks, whichever lane has them. */
struct dict {
	struct symbols *s;         /* a reference */
	uint32_t n_locations, n_lines; /* there is room for */
	uint32_t *lines, *bare;    /* row + 1, as in row_memo */
	struct frames_memo *memos; /* by stack filter */
	uint32_t n_columns, n_nodes; /* there is room for */
	uint32_t *of_column, *of_node; /* 0: not known; or NO_NODE */
	const uint32_t *as;        /* of the block at work, as in source_cells */
	const uint32_t *day;       /* `as` of the day that of_day is about */
	uint32_t *of_day, n_day;   /* of_column, by the day's column instead of the dictionary's: a block's columns of the day mostly ascend, so this table stays in the cache */
	uint32_t most_day;         /* the largest n_day so far */
	VEC(struct tree_node) nodes;
	struct map by_row;         /* by parent and row; of self by row */
};

/* What a lane has of the tree of a dictionary, and the table of the hour at work. */
struct tree {
	uint32_t lane;
	size_t dict;
	uint32_t *of, n_of;        /* by node of the dictionary's tree: the node here; 0: it has none. Of a graph of one lane nodes have the same numbers, and this
	                            * table is not used */
	VEC(struct tree_node) nodes;
	VEC(uint8_t) touched;      /* by node: it is not zero */
	int64_t *ints;             /* differences, by node and step of the table */
	wide *parts;               /* by node and step; NULL until needed */
	size_t room, part_room;    /* numbers in them; all zero between hours */
	bool any, any_parts;
	double size;               /* the most that a row can be in any step */
	size_t sized;              /* the block that it was last added to for */
};
#define NO_NODE UINT32_MAX

/* The rows of the tree that is being added up. */
struct row_sums {
	VEC(int64_t) ints;
	VEC(wide) parts;
	VEC(uint8_t) touched;      /* by row */
	VEC(uint32_t) rows;        /* those */
};

/* For a profile that counts in one step, or in none: then both are 0. */
struct row_at {
	uint32_t step;              /* of the table */
	int32_t whole;              /* 0, 1 or -1 times its values */
	int64_t part;               /* and this part of them */
};

struct graph_table {
	struct graph_rows *to;
	VEC(struct dict) dicts;
	VEC(struct tree) trees;
	struct map tree_of;         /* by lane and dictionary */
	bool one_lane;              /* the graph has one input series, and no diff */
	VEC(uint32_t) path;
	struct row_sums sums;
	int64_t after_ms, until_ms; /* the hour at work */
	uint32_t first, end;        /* its steps; end 0: nothing is in the table */
	uint32_t width;             /* numbers of a node: one a step, and unless `plain` one more, as a difference may end behind the last step */
	bool plain;                 /* its numbers are those of steps, not differences: no profile counts completely in two of them */
	size_t n_blocks;
	VEC(struct row_at) rows;    /* of the block at work */
	size_t unheld;              /* bytes of tables by column and node that are not in the query's account yet */
};

__extension__ typedef unsigned __int128 unsigned_wide;

/* Wraps: whether sums fit is known at the end. */
static inline wide wide_sum(wide a, wide b)
{
	return (wide)((unsigned_wide)a + (unsigned_wide)b);
}

/* ---- the rows of all steps ---- */

void graph_rows_init(struct graph_rows *g, struct readout *r, const struct graph_terms *terms)
{
	*g = (struct graph_rows){ .r = r, .sp = terms->sp, .terms = terms, .lock = MUTEX_INIT(RANK_GRAPH_ROWS, "rows of a graph") };
}

void graph_rows_free(struct graph_rows *g)
{
	for (size_t i = 0; i < g->v.n; i++) {
		free(g->v.v[i].ints);
		free(g->v.v[i].parts);
		free(g->v.v[i].floats);
	}
	for (size_t i = 0; i < g->sizes.n; i++)
		free(g->sizes.v[i]);
	vec_free(&g->v);
	vec_free(&g->sizes);
	map_free(&g->by_row);
	mutex_destroy(&g->lock);
}

static int need_row(struct graph_rows *g, uint32_t lane, uint32_t row, bool parts, struct graph_row **ret, struct err *e)
{
	uint64_t h = hash_u64((uint64_t)lane << 32 | row);
	uint32_t id;
	*ret = NULL;
	for (size_t at = map_start(&g->by_row, h); map_probe(&g->by_row, h, &at, &id);)
		if (g->v.v[id].lane == lane && g->v.v[id].row == row)
			*ret = &g->v.v[id];
	if (!*ret) {
		int rc = eval_hold_bytes(g->r->q, (g->sp->n + 1) * sizeof(int64_t), e);
		if (rc)
			return rc;
		map_insert(&g->by_row, h, (uint32_t)g->v.n);
		*ret = vec_add(&g->v);
		**ret = (struct graph_row){ lane, row, xcalloc(g->sp->n + 1, sizeof(int64_t)), NULL, NULL };
	}
	if (!parts || (*ret)->parts)
		return 0;
	(*ret)->parts = xcalloc(g->sp->n + 1, sizeof(wide));
	return eval_hold_bytes(g->r->q, (g->sp->n + 1) * sizeof(wide), e);
}

static int add_size(struct graph_rows *g, uint32_t lane, uint32_t first, uint32_t end, double size, struct err *e)
{
	while (g->sizes.n <= lane)
		vec_push(&g->sizes, NULL);
	if (!g->sizes.v[lane]) {
		int rc = eval_hold_bytes(g->r->q, (g->sp->n + 1) * sizeof(double), e);
		if (rc)
			return rc;
		g->sizes.v[lane] = xcalloc(g->sp->n + 1, sizeof(double));
	}
	for (uint32_t i = first; i < end; i++)
		g->sizes.v[lane][i] += size;
	return 0;
}

static void finish_parts(const struct graph_rows *g, struct graph_row *x)
{
	if (!x->parts)
		return;
	x->floats = xcalloc(g->sp->n + 1, sizeof *x->floats); /* in place of what was held for them */
	double unit = ldexp(1, -g->terms->lanes.v[x->lane].bits);
	for (size_t s = 0; s < g->sp->n; s++)
		x->floats[s] = (double)x->parts[s] * unit;
	free(x->parts);
	x->parts = NULL;
}

/* Whether what a row can be fits in 64 bits, and in PART_BITS more as a fraction. */
static bool sizes_fit(const struct graph_rows *g)
{
	bool fits = true;
	for (size_t i = 0; i < g->sizes.n; i++) {
		double most = ldexp(1, MIN(62, 124 - g->terms->lanes.v[i].bits));
		for (size_t s = 0; g->sizes.v[i] && s < g->sp->n; s++)
			fits &= g->sizes.v[i][s] < most;
	}
	return fits;
}

bool graph_rows_finish(struct graph_rows *g)
{
	if (g->given)
		return !g->overflow;
	bool fits = sizes_fit(g);
	for (size_t i = 0; i < g->v.n && fits; i++)
		for (size_t s = 1; s < g->sp->n; s++)
			g->v.v[i].ints[s] = (int64_t)((uint64_t)g->v.v[i].ints[s] + (uint64_t)g->v.v[i].ints[s - 1]);
	return fits;
}

void graph_rows_numbers(struct graph_rows *g)
{
	for (size_t i = 0; i < g->v.n; i++)
		finish_parts(g, &g->v.v[i]);
}

#define ROW_MOST (INT64_C(1) << 62) /* a sum below it can be subtracted from another one */

int graph_rows_add(struct graph_rows *g, const struct source_graph_row *x, struct err *e)
{
	struct graph_row *to;
	g->given = true;
	if (x->lane >= g->terms->lanes.n)
		return err_set(e, ERR_CORRUPT, "a row of a graph is of a lane that was not asked for");
	uint32_t row = readout_row_of(g->r, x->function, x->file, x->line);
	int rc = need_row(g, x->lane, row, x->parts != NULL, &to, e);
	for (size_t s = 0; s < g->sp->n && !rc; s++) {
		g->overflow |= __builtin_add_overflow(to->ints[s], x->ints[s], &to->ints[s]) || to->ints[s] >= ROW_MOST || to->ints[s] <= -ROW_MOST;
		if (x->parts)
			g->overflow |= __builtin_add_overflow(to->parts[s], x->parts[s], &to->parts[s]);
	}
	return rc;
}

/* ---- dictionaries ---- */

/* Makes a table of ids, by id of a dictionary, n entries long. One that grows gets a quarter more, as the dictionary will grow again. New entries are 0. */
static void grow_ids(struct graph_table *t, uint32_t **ids, uint32_t *room, uint32_t n)
{
	uint32_t before = *room;
	if (!*ids) {
		*room = n;
		*ids = xcalloc((size_t)n + 1, sizeof **ids);
	} else if (n > *room) {
		uint32_t want = n + n / 4;
		*ids = xreallocarray(*ids, (size_t)want + 1, sizeof **ids);
		memset(*ids + *room, 0, ((size_t)want + 1 - *room) * sizeof **ids);
		*room = want;
	}
	t->unheld += (*room - before) * sizeof **ids;
}

/* Makes the tables by column and node as long as the dictionary is now. */
static void dict_grow(struct graph_table *t, struct dict *d)
{
	grow_ids(t, &d->of_column, &d->n_columns, symbols_count(d->s, SYMBOLS_COLUMNS));
	if (!graph_of_self(t->to->r))
		grow_ids(t, &d->of_node, &d->n_nodes, symbols_count(d->s, SYMBOLS_NODES));
}

static size_t need_dict(struct graph_table *t, struct symbols *s)
{
	for (size_t i = t->dicts.n; i-- > 0;)
		if (t->dicts.v[i].s == s)
			return i;
	const struct readout *r = t->to->r;
	struct dict *d = vec_add(&t->dicts);
	*d = (struct dict){ .s = symbols_ref(s) };
	grow_ids(t, &d->lines, &d->n_lines, symbols_count(s, SYMBOLS_LINES));
	grow_ids(t, &d->bare, &d->n_locations, symbols_count(s, SYMBOLS_LOCATIONS));
	dict_grow(t, d);
	vec_push(&d->nodes, (struct tree_node){ 0, UINT32_MAX });
	d->memos = xcalloc(r->stack_filters.n + 1, sizeof *d->memos);
	for (size_t i = 0; i < r->stack_filters.n; i++)
		frames_memo_init(&d->memos[i], &r->stack_filters.v[i].frames, s);
	return t->dicts.n - 1;
}

static uint32_t row_at(struct graph_table *t, struct dict *d, uint32_t location, uint32_t i)
{
	const struct sym_location *l = symbols_get_location(d->s, location);
	if (l->n_lines)
		grow_ids(t, &d->lines, &d->n_lines, l->first_line + l->n_lines);
	else
		grow_ids(t, &d->bare, &d->n_locations, location + 1);
	uint32_t *at = l->n_lines ? &d->lines[l->first_line + i] : &d->bare[location];
	if (*at)
		return *at - 1;
	mutex_lock(&t->to->lock);
	*at = readout_row(t->to->r, readout_memo(t->to->r, d->s), location, i) + 1;
	mutex_unlock(&t->to->lock);
	return *at - 1;
}

/* 0, or the error of a match. */
static int stack_filters_failed(const struct readout *r, struct err *e)
{
	int rc = 0;
	for (size_t i = 0; i < r->stack_filters.n && !rc; i++)
		rc = frames_failed(&r->stack_filters.v[i].frames, e);
	return rc;
}

static bool chosen(const struct readout *r, struct dict *d, uint32_t column)
{
	for (size_t i = 0; i < r->stack_filters.n; i++)
		if (!r->stack_filters.v[i].keeps(&r->stack_filters.v[i], &d->memos[i], column))
			return false;
	return true;
}

/* ---- trees ---- */

#define TREE_BYTES 128 /* of the arrays of a tree of few nodes, and its place in a map */

static size_t need_tree(struct graph_table *t, struct symbols *s, uint32_t lane)
{
	size_t dict = need_dict(t, s);
	uint32_t id;
	if (MAP_FIND_OR_ADD(&t->tree_of, hash_u64((uint64_t)dict << 32 | lane), id, t->trees.n, t->trees.v[id].lane == lane && t->trees.v[id].dict == dict))
		return id;
	struct tree *x = vec_add(&t->trees);
	t->unheld += 2 * sizeof *x + TREE_BYTES;
	x->lane = lane;
	x->dict = dict;
	vec_push(&x->nodes, (struct tree_node){ 0, UINT32_MAX });
	return t->trees.n - 1;
}

/* 0: it is not there. */
static uint32_t find_child(const struct dict *d, uint32_t parent, uint32_t row, uint64_t h)
{
	uint32_t id;
	for (size_t at = map_start(&d->by_row, h); map_probe(&d->by_row, h, &at, &id);)
		if (d->nodes.v[id].parent == parent && d->nodes.v[id].row == row)
			return id;
	return 0;
}

static bool is_above(const struct dict *d, uint32_t node, uint32_t row)
{
	for (; node; node = d->nodes.v[node].parent)
		if (d->nodes.v[node].row == row)
			return true;
	return false;
}

/* The node of a row that is called by a node: the same one if the row is there or above already. */
static uint32_t child_of(struct dict *d, uint32_t parent, uint32_t row)
{
	uint64_t h = hash_u64((uint64_t)parent << 32 | row);
	uint32_t id = find_child(d, parent, row, h);
	if (id || is_above(d, parent, row))
		return id ? id : parent;
	id = (uint32_t)d->nodes.n;
	map_insert(&d->by_row, h, id);
	vec_push(&d->nodes, (struct tree_node){ parent, row });
	return id;
}

/* For total: for a node of the dictionary. */
static uint32_t grow(struct graph_table *t, struct dict *d, uint32_t node)
{
	t->path.n = 0;
	for (; node && !d->of_node[node]; node = symbols_get_node(d->s, node)->parent)
		vec_push(&t->path, node);
	uint32_t at = node ? d->of_node[node] : 0;
	for (size_t i = t->path.n; i-- > 0;) {
		uint32_t location = symbols_get_node(d->s, t->path.v[i])->location;
		for (uint32_t k = frame_count(symbols_get_location(d->s, location)); k-- > 0;) /* the caller of inlined calls first */
			at = child_of(d, at, row_at(t, d, location, k));
		d->of_node[t->path.v[i]] = at;
	}
	return at;
}

/* Finds the node of a column for of_column: NO_NODE: it has no frames, or no stack filter wants it. */
static int find_node(struct graph_table *t, struct dict *d, uint32_t column, struct err *e)
{
	if (column >= d->n_columns)
		dict_grow(t, d);
	if (column >= d->n_columns)
		return err_set(e, ERR_EXECUTION, "a stored profile names a column that its dictionary lacks");
	bool wanted = chosen(t->to->r, d, column);
	int rc = stack_filters_failed(t->to->r, e);
	if (rc)
		return rc;
	uint32_t node = wanted ? symbols_stack_node(d->s, symbols_get_column(d->s, column)->stack) : 0;
	if (d->of_node && node >= d->n_nodes)
		dict_grow(t, d);
	if (!node)
		d->of_column[column] = NO_NODE;
	else if (d->of_node)
		d->of_column[column] = grow(t, d, node);
	else
		d->of_column[column] = child_of(d, 0, row_at(t, d, symbols_get_node(d->s, node)->location, 0));
	return 0;
}

/* A block's columns are about to be added. */
static void dict_enter(struct graph_table *t, struct dict *d, const struct source_cells *c)
{
	d->as = c->as;
	if (!c->as || (c->as == d->day && c->n_as == d->n_day))
		return;
	if (c->n_as > d->most_day) {
		t->unheld += (c->n_as - d->most_day) * sizeof *d->of_day;
		d->most_day = c->n_as;
	}
	free(d->of_day);
	d->day = c->as;
	d->n_day = c->n_as;
	d->of_day = xcalloc((size_t)d->n_day + 1, sizeof *d->of_day);
}

/* The node of a block's column in the dictionary's tree, if it is known already; 0: it is not. */
static inline uint32_t dict_known(const struct dict *d, uint32_t column)
{
	return d->as ? d->of_day[column] : column < d->n_columns ? d->of_column[column] : 0;
}

static int dict_find(struct graph_table *t, struct dict *d, uint32_t column, uint32_t *ret, struct err *e)
{
	uint32_t own = d->as ? d->as[column] - 1 : column;
	int rc = own < d->n_columns && d->of_column[own] ? 0 : find_node(t, d, own, e);
	if (!rc)
		*ret = d->of_column[own];
	if (!rc && d->as)
		d->of_day[column] = *ret;
	return rc;
}

/* Adds the node of the dictionary's tree, and those above it, to a lane's. */
static uint32_t tree_add(struct graph_table *t, struct tree *x, uint32_t node)
{
	const struct dict *d = &t->dicts.v[x->dict];
	for (size_t i = x->nodes.n; t->one_lane && i < d->nodes.n; i++)
		vec_push(&x->nodes, d->nodes.v[i]);
	if (t->one_lane)
		return node;
	grow_ids(t, &x->of, &x->n_of, (uint32_t)d->nodes.n);
	t->path.n = 0;
	for (; node && !x->of[node]; node = d->nodes.v[node].parent)
		vec_push(&t->path, node);
	uint32_t at = node ? x->of[node] : 0;
	for (size_t i = t->path.n; i-- > 0;) {
		vec_push(&x->nodes, (struct tree_node){ at, d->nodes.v[t->path.v[i]].row });
		at = x->of[t->path.v[i]] = (uint32_t)x->nodes.n - 1;
	}
	return at;
}

/* The node of a block's column in a lane's tree, if it is there already; 0: it is not known. */
static inline uint32_t tree_known(const struct graph_table *t, const struct dict *d, const struct tree *x, uint32_t column)
{
	uint32_t node = dict_known(d, column);
	if (t->one_lane)
		return node < x->nodes.n || node == NO_NODE ? node : 0;
	return node == NO_NODE ? NO_NODE : node < x->n_of ? x->of[node] : 0;
}

static int tree_find(struct graph_table *t, struct tree *x, uint32_t column, uint32_t *ret, struct err *e)
{
	struct dict *d = &t->dicts.v[x->dict];
	uint32_t node = dict_known(d, column);
	int rc = node ? 0 : dict_find(t, d, column, &node, e);
	if (!rc)
		*ret = node == NO_NODE ? NO_NODE : tree_add(t, x, node);
	return rc;
}

/* ---- adding ---- */

static int grow_numbers(struct graph_table *t, void **numbers, size_t *room, size_t want, size_t size, struct err *e)
{
	size_t n = MAX(want, *room * 2 + 1024);
	int rc = eval_hold_bytes(t->to->r->q, (n - *room) * size, e);
	if (rc)
		return rc;
	*numbers = xreallocarray(*numbers, n, size);
	memset((char *)*numbers + *room * size, 0, (n - *room) * size);
	*room = n;
	return 0;
}

/* Room for every node that there is. */
static int need_numbers(struct graph_table *t, struct tree *x, bool parts, struct err *e)
{
	size_t want = x->nodes.n * t->width;
	int rc = 0;
	if (want > x->room) {
		void *numbers = x->ints;
		rc = grow_numbers(t, &numbers, &x->room, want, sizeof *x->ints, e);
		x->ints = numbers;
	}
	while (x->touched.n < x->nodes.n)
		vec_push(&x->touched, false);
	if (!rc && parts && want > x->part_room) {
		void *numbers = x->parts;
		rc = grow_numbers(t, &numbers, &x->part_room, want, sizeof *x->parts, e);
		x->parts = numbers;
	}
	return rc;
}

static inline void add_whole(const struct graph_table *t, struct tree *x, uint32_t node, const struct graph_run *r, int64_t value)
{
	int64_t *at = x->ints + (size_t)node * t->width;
	uint64_t v = r->scale < 0 ? -(uint64_t)value : (uint64_t)value; /* wraps; sizes are looked at at the end */
	for (uint32_t i = r->first; i < r->end && t->plain; i++)
		at[i - t->first] = (int64_t)((uint64_t)at[i - t->first] + v);
	if (t->plain)
		return;
	at[r->first - t->first] = (int64_t)((uint64_t)at[r->first - t->first] + v);
	at[r->end - t->first] = (int64_t)((uint64_t)at[r->end - t->first] - v);
}

static inline void add_part(const struct graph_table *t, struct tree *x, uint32_t node, const struct graph_run *r, int64_t value)
{
	wide *at = x->parts + (size_t)node * t->width;
	for (uint32_t i = r->first; i < r->end; i++)
		at[i - t->first] = wide_sum(at[i - t->first], (wide)value * r->part);
}

/* The node of a block's column in the tree of a lane, with room for it; NO_NODE: it does not count. */
static int node_of(struct graph_table *t, struct tree *x, uint32_t column, bool parts, uint32_t *ret, struct err *e)
{
	uint32_t node = tree_known(t, &t->dicts.v[x->dict], x, column);
	int rc = node ? 0 : tree_find(t, x, column, &node, e);
	*ret = node;
	if (rc || node == NO_NODE)
		return rc;
	if (UNLIKELY(x->nodes.n > x->touched.n || x->nodes.n * t->width > (parts ? MIN(x->room, x->part_room) : x->room))) {
		rc = need_numbers(t, x, parts, e);
		if (rc)
			return rc;
	}
	x->any = true;
	x->any_parts |= parts;
	x->touched.v[node] = true;
	return 0;
}

/* The value of a column in a class. */
static int add_sum(struct graph_table *t, const struct graph_run *r, const struct source_cells *c, size_t *tree, uint32_t column, int64_t sum,
		   struct err *e)
{
	uint32_t node;
	if (*tree == SIZE_MAX || t->trees.v[*tree].lane != r->lane)
		*tree = need_tree(t, c->symbols, r->lane);
	struct tree *x = &t->trees.v[*tree];
	int rc = node_of(t, x, column, !r->whole, &node, e);
	if (rc || node == NO_NODE)
		return rc;
	if (r->whole)
		add_whole(t, x, node, r, sum);
	else
		add_part(t, x, node, r, sum);
	return 0;
}

static int add_values(struct graph_table *t, const struct graph_classes *k, const struct source_cells *c, struct err *e)
{
	size_t tree = SIZE_MAX;
	int rc = 0;
	for (size_t i = 0; i < c->n && !rc;) {
		uint32_t column = c->columns[i], class = k->of.v[c->rows[i]];
		uint64_t sum = 0;
		do
			sum += (uint64_t)c->values[i++];
		while (i < c->n && c->columns[i] == column && k->of.v[c->rows[i]] == class);
		for (uint32_t run = k->first_run.v[class]; run < k->first_run.v[class + 1] && !rc; run++)
			rc = add_sum(t, &k->runs.v[run], c, &tree, column, (int64_t)sum, e);
	}
	return rc;
}

/* ---- profiles that count in one step each ---- */

/* Whether no profile counts in two steps, or lanes; its value in its step is multiplied, divided, or both. */
static bool is_plain(const struct graph_classes *k)
{
	for (size_t i = 0; i < k->runs.n; i++)
		if (k->runs.v[i].end != k->runs.v[i].first + 1 || k->runs.v[i].lane != k->runs.v[0].lane)
			return false;
	for (size_t i = 0; i + 1 < k->first_run.n; i++) {
		const struct graph_run *r = k->runs.v + k->first_run.v[i];
		uint32_t n = k->first_run.v[i + 1] - k->first_run.v[i];
		if (n > 2 || (n == 2 && (r[0].first != r[1].first || r[0].whole == r[1].whole)))
			return false;
	}
	return true;
}

/* Returns whether any counts in part. */
static bool place_rows(struct graph_table *t, const struct graph_classes *k)
{
	bool parts = false;
	vec_reserve(&t->rows, k->of.n);
	for (size_t i = 0; i < k->of.n; i++) {
		uint32_t class = k->of.v[i];
		struct row_at *to = &t->rows.v[i];
		*to = (struct row_at){ 0 };
		for (uint32_t run = k->first_run.v[class]; run < k->first_run.v[class + 1]; run++) {
			const struct graph_run *r = &k->runs.v[run];
			to->step = r->first - t->first;
			to->whole += r->whole ? (int32_t)r->scale : 0;
			to->part += r->part;
			parts |= !r->whole;
		}
	}
	return parts;
}

/* The values of one column. */
static size_t add_column(const struct row_at *rows, const struct source_cells *c, size_t i, int64_t *ints)
{
	for (uint32_t column = c->columns[i]; i < c->n && c->columns[i] == column; i++) {
		const struct row_at *at = &rows[c->rows[i]];
		ints[at->step] = (int64_t)((uint64_t)ints[at->step] + (uint64_t)c->values[i] * (uint64_t)(int64_t)at->whole);
	}
	return i;
}

/* The same where few count in part. */
static size_t add_column_parts(const struct row_at *rows, const struct source_cells *c, size_t i, int64_t *ints, wide *parts)
{
	for (uint32_t column = c->columns[i]; i < c->n && c->columns[i] == column; i++) {
		const struct row_at *at = &rows[c->rows[i]];
		ints[at->step] = (int64_t)((uint64_t)ints[at->step] + (uint64_t)c->values[i] * (uint64_t)(int64_t)at->whole);
		if (UNLIKELY(at->part != 0))
			parts[at->step] = wide_sum(parts[at->step], (wide)c->values[i] * at->part);
	}
	return i;
}

static size_t pass_column(const struct source_cells *c, size_t i)
{
	for (uint32_t column = c->columns[i]; i < c->n && c->columns[i] == column; i++)
		;
	return i;
}

static int add_plain(struct graph_table *t, const struct graph_classes *k, const struct source_cells *c, struct err *e)
{
	bool parts = place_rows(t, k);
	size_t tree = need_tree(t, c->symbols, k->runs.v[0].lane);
	struct tree *x = &t->trees.v[tree];
	const struct dict *d = &t->dicts.v[x->dict];
	int rc = need_numbers(t, x, parts, e); /* node_of has room for nodes that are new */
	for (size_t i = 0; i < c->n && !rc;) {
		uint32_t node = tree_known(t, d, x, c->columns[i]);
		if (UNLIKELY(!node || !x->any || x->any_parts != parts))
			rc = node_of(t, x, c->columns[i], parts, &node, e);
		else if (node != NO_NODE)
			x->touched.v[node] = true;
		if (rc)
			return rc;
		size_t at = (size_t)node * t->width;
		if (node == NO_NODE)
			i = pass_column(c, i);
		else
			i = parts ? add_column_parts(t->rows.v, c, i, x->ints + at, x->parts + at) : add_column(t->rows.v, c, i, x->ints + at);
	}
	return rc;
}

/* ---- a block ---- */

static double sum_of_sizes(const int64_t *values, size_t n)
{
	uint64_t sum = 0, bits = 0;
	for (size_t i = 0; i < n; i++) {
		uint64_t v = (uint64_t)(values[i] ^ values[i] >> 63); /* one less of what is below 0 */
		bits |= v;
		sum += v + 1;
	}
	if (bits < (uint64_t)1 << 31 && n < (uint64_t)1 << 31)
		return (double)sum;
	double size = 0;
	for (size_t i = 0; i < n; i++)
		size += fabs((double)values[i]);
	return size;
}

/* The most that a profile of these runs counts in any step: of a gauge each step may have a run of its own. Runs that may meet are taken together;
 * they mostly ascend, and where they do not all before them are. */
static double most_of_runs(const struct graph_run *r, size_t n)
{
	double most = 0, all = 0, met = 0;
	uint32_t first = 0, end = 0;
	for (size_t i = 0; i < n; i++) {
		double scale = fabs(r[i].scale);
		if (r[i].first < first)
			met = all;
		else if (r[i].first >= end)
			met = 0;
		first = met > 0 ? MIN(first, r[i].first) : r[i].first;
		end = MAX(end, r[i].end);
		all += scale;
		met += scale;
		most = fmax(most, met);
	}
	return most;
}

/* The most that the values can add up to in a row and step, for each lane that they count in. */
static void add_sizes(struct graph_table *t, const struct graph_classes *k, const struct source_cells *c)
{
	double size = sum_of_sizes(c->values, c->n), most = 0;
	for (size_t i = 0; i + 1 < k->first_run.n; i++)
		most = fmax(most, most_of_runs(k->runs.v + k->first_run.v[i], k->first_run.v[i + 1] - k->first_run.v[i]));
	t->n_blocks++;
	struct tree *x = NULL; /* consecutive runs mostly have one lane */
	for (size_t i = 0; i < k->runs.n; i++) {
		if (!x || x->lane != k->runs.v[i].lane) {
			size_t tree = need_tree(t, c->symbols, k->runs.v[i].lane);
			x = &t->trees.v[tree];
		}
		if (x->sized == t->n_blocks)
			continue;
		x->sized = t->n_blocks;
		x->size += size * most;
	}
}

/* The table has the steps of the classes, and nothing of another hour. */
static int open_hour(struct graph_table *t, const struct graph_classes *k, const struct source_cells *c, struct err *e)
{
	bool same = t->end && t->after_ms == c->after_ms && t->until_ms == c->until_ms;
	if (same && k->first >= t->first && k->end <= t->end)
		return 0;
	uint32_t first = same ? MIN(t->first, k->first) : k->first, end = same ? MAX(t->end, k->end) : k->end;
	int rc = graph_table_flush(t, e);
	t->after_ms = c->after_ms;
	t->until_ms = c->until_ms;
	t->first = first;
	t->end = end;
	t->plain = is_plain(k);
	t->width = end - first + !t->plain;
	return rc;
}

static int hold_unheld(struct graph_table *t, struct err *e)
{
	size_t unheld = t->unheld;
	t->unheld = 0;
	return unheld ? eval_hold_bytes(t->to->r->q, unheld, e) : 0;
}

int graph_table_add(struct graph_table *t, const struct graph_classes *k, const struct source_cells *c, struct err *e)
{
	if (!k->end || !c->n)
		return 0;
	int rc = open_hour(t, k, c, e);
	if (rc)
		return rc;
	add_sizes(t, k, c);
	dict_enter(t, &t->dicts.v[need_dict(t, c->symbols)], c);
	rc = hold_unheld(t, e);
	if (!rc)
		rc = t->plain && is_plain(k) ? add_plain(t, k, c, e) : add_values(t, k, c, e);
	return rc ? rc : hold_unheld(t, e);
}

/* ---- the end of an hour ---- */

static int need_sums(struct graph_table *t, uint32_t row, bool parts, struct err *e)
{
	struct row_sums *s = &t->sums;
	while (s->touched.n <= row)
		vec_push(&s->touched, false);
	size_t n = s->touched.n * t->width, more = n > s->ints.n ? n - s->ints.n : 0, more_parts = parts && n > s->parts.n ? n - s->parts.n : 0;
	int rc = eval_hold_bytes(t->to->r->q, more * sizeof *s->ints.v + more_parts * sizeof *s->parts.v, e);
	if (rc)
		return rc;
	vec_reserve(&s->ints, n);
	memset(s->ints.v + s->ints.n, 0, more * sizeof *s->ints.v);
	s->ints.n += more;
	if (!parts)
		return 0;
	vec_reserve(&s->parts, n);
	memset(s->parts.v + s->parts.n, 0, more_parts * sizeof *s->parts.v);
	s->parts.n += more_parts;
	return 0;
}

static inline void give_ints(int64_t *from, int64_t *row, int64_t *parent, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		row[i] = (int64_t)((uint64_t)row[i] + (uint64_t)from[i]);
		if (parent)
			parent[i] = (int64_t)((uint64_t)parent[i] + (uint64_t)from[i]);
		from[i] = 0;
	}
}

static inline void give_parts(wide *from, wide *row, wide *parent, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		row[i] = wide_sum(row[i], from[i]);
		if (parent)
			parent[i] = wide_sum(parent[i], from[i]);
		from[i] = 0;
	}
}

/* The same of one number a node. */
static int fold_single(struct graph_table *t, struct tree *x, struct err *e)
{
	struct row_sums *s = &t->sums;
	int64_t *ints = x->ints;
	uint8_t *touched = x->touched.v;
	for (size_t i = x->nodes.n; --i > 0;) {
		if (!touched[i])
			continue;
		const struct tree_node n = x->nodes.v[i];
		uint64_t v = (uint64_t)ints[i];
		if (UNLIKELY(n.row >= s->touched.n || n.row >= s->ints.n))
			if (need_sums(t, n.row, false, e))
				return -(int)e->code;
		if (!s->touched.v[n.row])
			vec_push(&s->rows, n.row);
		s->touched.v[n.row] = true;
		s->ints.v[n.row] = (int64_t)((uint64_t)s->ints.v[n.row] + v);
		ints[n.parent] = (int64_t)((uint64_t)ints[n.parent] + v);
		touched[n.parent] = true;
		ints[i] = 0;
		touched[i] = false;
	}
	ints[0] = 0;
	touched[0] = false;
	return 0;
}

/* From the leaves to the root, each node to its row. Leaves zeros. */
static int fold(struct graph_table *t, struct tree *x, struct err *e)
{
	struct row_sums *s = &t->sums;
	size_t w = t->width;
	if (w == 1 && !x->any_parts)
		return fold_single(t, x, e);
	for (size_t i = x->nodes.n; --i > 0;) {
		if (!x->touched.v[i])
			continue;
		const struct tree_node *n = &x->nodes.v[i];
		x->touched.v[i] = false;
		if ((n->row >= s->touched.n || (n->row + 1) * w > s->ints.n || (x->any_parts && (n->row + 1) * w > s->parts.n)) &&
		    need_sums(t, n->row, x->any_parts, e))
			return -(int)e->code;
		if (!s->touched.v[n->row])
			vec_push(&s->rows, n->row);
		s->touched.v[n->row] = true;
		give_ints(x->ints + i * w, s->ints.v + n->row * w, n->parent ? x->ints + n->parent * w : NULL, t->width);
		if (x->any_parts)
			give_parts(x->parts + i * w, s->parts.v + n->row * w, n->parent ? x->parts + n->parent * w : NULL, t->width);
		x->touched.v[n->parent] = true;
	}
	x->touched.v[0] = false;
	return 0;
}

/* Adds a row of n steps to `to`, which has what each step differs by from the one before, n + 1 of them. The row becomes 0. */
static void give_differences(int64_t *row, int64_t *to, uint32_t n)
{
	uint64_t before = 0;
	for (uint32_t i = 0; i < n; i++) {
		to[i] = (int64_t)((uint64_t)to[i] + (uint64_t)row[i] - before);
		before = (uint64_t)row[i];
		row[i] = 0;
	}
	to[n] = (int64_t)((uint64_t)to[n] - before);
}

/* The sums of rows go to those of all steps. Leaves zeros. */
static int put(struct graph_table *t, struct tree *x, struct err *e)
{
	struct row_sums *s = &t->sums;
	mutex_lock(&t->to->lock);
	int rc = add_size(t->to, x->lane, t->first, t->end, x->size, e);
	for (size_t i = 0; i < s->rows.n; i++) {
		uint32_t row = s->rows.v[i];
		struct graph_row *to = NULL;
		s->touched.v[row] = false;
		if (!rc)
			rc = need_row(t->to, x->lane, row, x->any_parts, &to, e);
		if (!rc && t->plain)
			give_differences(s->ints.v + (size_t)row * t->width, to->ints + t->first, t->width);
		else if (!rc)
			give_ints(s->ints.v + (size_t)row * t->width, to->ints + t->first, NULL, t->width);
		if (!rc && x->any_parts)
			give_parts(s->parts.v + (size_t)row * t->width, to->parts + t->first, NULL, t->width);
	}
	mutex_unlock(&t->to->lock);
	s->rows.n = 0;
	return rc;
}

int graph_table_flush(struct graph_table *t, struct err *e)
{
	int rc = 0;
	for (size_t i = 0; i < t->trees.n && !rc; i++) {
		struct tree *x = &t->trees.v[i];
		if (x->any) {
			rc = need_numbers(t, x, x->any_parts, e);
			if (!rc)
				rc = fold(t, x, e);
			if (!rc)
				rc = put(t, x, e);
		}
		x->any = x->any_parts = false;
		x->size = 0;
	}
	t->end = 0;
	return rc;
}

struct graph_table *graph_table_new(struct graph_rows *to)
{
	struct graph_table *t = xcalloc(1, sizeof *t);
	t->to = to;
	t->one_lane = to->terms->lanes.n == 1;
	return t;
}

static void dict_release(const struct readout *r, struct dict *d)
{
	for (size_t k = 0; k < r->stack_filters.n; k++)
		frames_memo_free(&d->memos[k]);
	symbols_unref(d->s);
	free(d->memos);
	free(d->lines);
	free(d->bare);
	free(d->of_column);
	free(d->of_node);
	free(d->of_day);
	vec_free(&d->nodes);
	map_free(&d->by_row);
}

static void tree_release(struct tree *x)
{
	free(x->of);
	vec_free(&x->nodes);
	vec_free(&x->touched);
	free(x->ints);
	free(x->parts);
}

void graph_table_free(struct graph_table *t)
{
	for (size_t i = 0; i < t->dicts.n; i++)
		dict_release(t->to->r, &t->dicts.v[i]);
	for (size_t i = 0; i < t->trees.n; i++)
		tree_release(&t->trees.v[i]);
	vec_free(&t->dicts);
	vec_free(&t->trees);
	map_free(&t->tree_of);
	vec_free(&t->path);
	vec_free(&t->rows);
	vec_free(&t->sums.ints);
	vec_free(&t->sums.parts);
	vec_free(&t->sums.touched);
	vec_free(&t->sums.rows);
	free(t);
}
