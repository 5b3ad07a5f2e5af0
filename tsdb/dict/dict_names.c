/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/dict/dict_names.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/cursor.h"
#include "base/vec.h"

#define NAMES_VERSION 1

/* ---- writing ---- */

/* What is written, in its order, and the number that each entry of s has there. */
struct names_out {
	const struct symbols *s;
	struct buf *out;
	uint32_t *string_no;   /* by string of s: its number; 0 = not written yet, or "" */
	VEC(uint32_t) strings; /* by number - 1 */
	uint32_t *function_no; /* by function of s: its number + 1; 0 = not written yet */
	VEC(uint32_t) functions;
	uint32_t *rank;        /* by location of s: its number */
	uint32_t *order;       /* locations by number */
	uint32_t *node_no;     /* by node of s; of the root 0 */
	uint32_t *nodes;       /* by number, from 1 on */
	uint32_t *column_no;   /* by column of s */
};

static int names_compare_strings(const struct symbols *s, uint32_t a, uint32_t b)
{
	return a == b ? 0 : view_cmp(symbols_get_string(s, a), symbols_get_string(s, b));
}

static int names_compare_numbers(int64_t a, int64_t b)
{
	return (a > b) - (a < b);
}

static int names_compare_functions(const struct symbols *s, uint32_t a, uint32_t b)
{
	if (a == b || !a || !b)
		return names_compare_numbers(a, b);
	const struct sym_function *f = symbols_get_function(s, a - 1), *g = symbols_get_function(s, b - 1);
	int c = names_compare_strings(s, f->name, g->name);
	c = c ? c : names_compare_strings(s, f->filename, g->filename);
	return c ? c : names_compare_numbers(f->start_line, g->start_line);
}

static uint32_t names_file(const struct symbols *s, const struct sym_location *l)
{
	return l->mapping ? symbols_get_mapping(s, l->mapping - 1)->file : 0;
}

/* By content, so that all days have one order. */
static int names_by_content(const void *a, const void *b, void *arg)
{
	const struct symbols *s = arg;
	const struct sym_location *x = symbols_get_location(s, *(const uint32_t *)a), *y = symbols_get_location(s, *(const uint32_t *)b);
	int c = names_compare_numbers(x->n_lines, y->n_lines);
	for (uint32_t i = 0; i < x->n_lines && !c; i++) {
		const struct sym_line *f = symbols_get_line(s, x, i), *g = symbols_get_line(s, y, i);
		c = names_compare_functions(s, f->function, g->function);
		c = c ? c : names_compare_numbers(f->line, g->line);
	}
	c = c ? c : names_compare_strings(s, names_file(s, x), names_file(s, y));
	return c ? c : (x->address > y->address) - (x->address < y->address);
}

static uint32_t names_string(struct names_out *o, uint32_t string)
{
	if (!o->string_no[string] && symbols_get_string(o->s, string).len) {
		vec_push(&o->strings, string);
		o->string_no[string] = (uint32_t)o->strings.n;
	}
	return o->string_no[string];
}

static uint32_t names_function(struct names_out *o, uint32_t function)
{
	if (!o->function_no[function]) {
		vec_push(&o->functions, function);
		o->function_no[function] = (uint32_t)o->functions.n;
	}
	return o->function_no[function];
}

static void names_order_locations(struct names_out *o)
{
	uint32_t n = symbols_count(o->s, SYMBOLS_LOCATIONS);
	o->order = xcalloc(n + 1, sizeof *o->order);
	o->rank = xcalloc(n + 1, sizeof *o->rank);
	for (uint32_t i = 0; i < n; i++)
		o->order[i] = i;
	if (n)
		qsort_r(o->order, n, sizeof *o->order, names_by_content, (void *)(uintptr_t)o->s);
	for (uint32_t i = 0; i < n; i++)
		o->rank[o->order[i]] = i;
}

static void names_put_locations(struct names_out *o, struct buf *out)
{
	uint32_t n = symbols_count(o->s, SYMBOLS_LOCATIONS);
	buf_varint(out, n);
	for (uint32_t i = 0; i < n; i++) {
		const struct sym_location *l = symbols_get_location(o->s, o->order[i]);
		buf_varint(out, l->mapping ? names_string(o, names_file(o->s, l)) + 1 : 0);
		buf_varint(out, l->n_lines);
		for (uint32_t k = 0; k < l->n_lines; k++) {
			const struct sym_line *line = symbols_get_line(o->s, l, k);
			buf_varint(out, line->function ? names_function(o, line->function - 1) : 0);
			buf_zigzag(out, line->line);
		}
		buf_varint(out, l->address);
	}
}

/* A node among its siblings. */
struct names_node {
	uint32_t parent, rank, node;
};

static int names_by_sibling(const void *a, const void *b)
{
	const struct names_node *x = a, *y = b;
	if (x->parent != y->parent)
		return x->parent < y->parent ? -1 : 1;
	return (x->rank > y->rank) - (x->rank < y->rank);
}

/* Numbers the nodes depth first. Writes how many levels each is above the child of the one before it, and its location. */
static void names_put_nodes(struct names_out *o, struct buf *out)
{
	uint32_t n = symbols_count(o->s, SYMBOLS_NODES), number = 1;
	struct names_node *v = xcalloc(n + 1, sizeof *v);
	uint32_t *first = xcalloc(n + 2, sizeof *first); /* by parent: its children are v[first[parent]] up to v[first[parent + 1]] */
	VEC(uint32_t) stack = { 0 };                     /* nodes that are still to be written, as places in v */
	VEC(uint32_t) depths = { 0 };
	CLEANUP(buf_free) struct buf up = { .max = out->max }, locations = { .max = out->max };
	for (uint32_t i = 1; i < n; i++) {
		const struct sym_node *x = symbols_get_node(o->s, i);
		v[i - 1] = (struct names_node){ x->parent, o->rank[x->location], i };
		first[x->parent + 1]++;
	}
	if (n > 1)
		qsort(v, n - 1, sizeof *v, names_by_sibling);
	for (uint32_t i = 0; i <= n; i++)
		first[i + 1] += first[i];
	o->node_no = xcalloc(n + 1, sizeof *o->node_no);
	uint32_t depth = 0;
	for (uint32_t k = first[1]; k-- > 0;) {
		vec_push(&stack, k);
		vec_push(&depths, 1);
	}
	while (stack.n) {
		const struct names_node *x = &v[stack.v[--stack.n]];
		uint32_t at = depths.v[--depths.n];
		buf_varint(&up, depth + 1 - at);
		buf_varint(&locations, x->rank);
		depth = at;
		o->node_no[x->node] = number++;
		for (uint32_t k = first[x->node + 1]; k-- > first[x->node];) {
			vec_push(&stack, k);
			vec_push(&depths, at + 1);
		}
	}
	buf_varint(out, number - 1);
	buf_varint(out, up.len);
	buf_putv(out, buf_view(&up));
	buf_putv(out, buf_view(&locations));
	out->overflow |= up.overflow | locations.overflow;
	vec_free(&stack);
	vec_free(&depths);
	free(first);
	free(v);
}

static void names_put_label_sets(struct names_out *o, struct buf *out)
{
	uint32_t n = symbols_count(o->s, SYMBOLS_LABEL_SETS);
	buf_varint(out, n);
	for (uint32_t i = 0; i < n; i++) {
		size_t labels;
		const struct sym_label *l = symbols_get_label_set(o->s, i, &labels);
		buf_varint(out, labels);
		for (size_t k = 0; k < labels; k++) {
			buf_varint(out, names_string(o, l[k].key));
			buf_varint(out, names_string(o, l[k].str));
			buf_varint(out, names_string(o, l[k].unit));
			buf_putc(out, l[k].is_num);
			buf_zigzag(out, l[k].num);
		}
	}
}

struct names_column {
	uint64_t key; /* node, label set */
	uint64_t column;
};

static int names_by_key(const void *a, const void *b)
{
	const struct names_column *x = a, *y = b;
	return (x->key > y->key) - (x->key < y->key);
}

static void names_put_columns(struct names_out *o, struct buf *out)
{
	uint32_t n = symbols_count(o->s, SYMBOLS_COLUMNS), before = 0;
	struct names_column *v = xcalloc(n + 1, sizeof *v);
	o->column_no = xcalloc(n + 1, sizeof *o->column_no);
	for (uint32_t i = 0; i < n; i++) {
		const struct sym_column *c = symbols_get_column(o->s, i);
		v[i] = (struct names_column){ (uint64_t)o->node_no[c->node] << 32 | c->label_set, i };
	}
	if (n)
		qsort(v, n, sizeof *v, names_by_key);
	buf_varint(out, n);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t node = (uint32_t)(v[i].key >> 32);
		o->column_no[v[i].column] = i;
		buf_varint(out, node - before);
		buf_varint(out, v[i].key & UINT32_MAX);
		before = node;
	}
	free(v);
}

static void names_put_places(const struct names_out *o, struct buf *out, const uint32_t *place, uint32_t n)
{
	int64_t before = 0;
	buf_varint(out, n);
	for (uint32_t i = 0; i < n; i++) {
		int64_t to = place[i] ? (int64_t)o->column_no[place[i] - 1] + 1 : 0;
		buf_zigzag(out, to - before);
		before = to;
	}
}

/* Writes the strings and then the functions: their numbers are given by everything else, which is written before them and stands behind them. */
static void names_put_head(const struct names_out *o, struct buf *out, struct buf *functions)
{
	buf_varint(out, o->strings.n);
	for (size_t i = 0; i < o->strings.n; i++) {
		struct view v = symbols_get_string(o->s, o->strings.v[i]);
		buf_varint(out, v.len);
		buf_putv(out, v);
	}
	buf_putv(out, buf_view(functions));
}

void dict_names_put(struct buf *out, const struct symbols *s, const uint32_t *place, uint32_t n, uint64_t late)
{
	struct names_out o = { .s = s };
	CLEANUP(buf_free) struct buf functions = { .max = out->max }, rest = { .max = out->max };
	o.string_no = xcalloc(symbols_count(s, SYMBOLS_STRINGS) + 1, sizeof *o.string_no);
	o.function_no = xcalloc(symbols_count(s, SYMBOLS_FUNCTIONS) + 1, sizeof *o.function_no);
	names_order_locations(&o);
	names_put_locations(&o, &rest);
	names_put_nodes(&o, &rest);
	names_put_label_sets(&o, &rest);
	names_put_columns(&o, &rest);
	names_put_places(&o, &rest, place, n);
	buf_varint(&functions, o.functions.n);
	for (size_t i = 0; i < o.functions.n; i++) {
		const struct sym_function *f = symbols_get_function(s, o.functions.v[i]);
		buf_varint(&functions, names_string(&o, f->name));
		buf_varint(&functions, names_string(&o, f->filename));
		buf_zigzag(&functions, f->start_line);
	}
	buf_putc(out, NAMES_VERSION);
	buf_varint(out, late);
	names_put_head(&o, out, &functions);
	buf_putv(out, buf_view(&rest));
	out->overflow |= functions.overflow | rest.overflow;
	free(o.string_no);
	free(o.function_no);
	free(o.rank);
	free(o.order);
	free(o.node_no);
	free(o.column_no);
	vec_free(&o.strings);
	vec_free(&o.functions);
}

/* ---- reading ---- */

/* What is read: for each string, function, location ... of the names, by its number there, the id that it has in the symbols `to`. */
struct names_in {
	struct symbols *to;
	struct cursor c;
	uint32_t *strings, *functions, *locations, *nodes, *label_sets, *columns;
	size_t n_strings, n_functions, n_locations, n_nodes, n_label_sets, n_columns;
};

static uint32_t *names_room(size_t n)
{
	return xcalloc(n + 1, sizeof(uint32_t));
}

/* A number below n. */
static uint32_t names_below(struct cursor *c, size_t n)
{
	uint64_t v = cursor_varint_quick(c);
	if (v < n)
		return (uint32_t)v;
	c->bad = true;
	return 0;
}

static uint32_t names_get_string(struct names_in *in)
{
	return in->strings[names_below(&in->c, in->n_strings + 1)];
}

static void names_get_strings(struct names_in *in)
{
	in->n_strings = cursor_count(&in->c);
	in->strings = names_room(in->n_strings);
	for (size_t i = 1; i <= in->n_strings && !in->c.bad; i++)
		in->strings[i] = symbols_string(in->to, cursor_bytes(&in->c, cursor_count(&in->c)));
}

static void names_get_functions(struct names_in *in)
{
	in->n_functions = cursor_count(&in->c);
	in->functions = names_room(in->n_functions);
	for (size_t i = 1; i <= in->n_functions && !in->c.bad; i++) {
		struct sym_function f = { .name = names_get_string(in) };
		f.filename = names_get_string(in);
		f.start_line = cursor_zigzag(&in->c);
		in->functions[i] = in->c.bad ? 0 : symbols_function(in->to, &f) + 1;
	}
}

static void names_get_locations(struct names_in *in)
{
	VEC(struct sym_line) lines = { 0 };
	in->n_locations = cursor_count(&in->c);
	in->locations = names_room(in->n_locations);
	for (size_t i = 0; i < in->n_locations && !in->c.bad; i++) {
		struct sym_location l = { 0 };
		uint32_t file = names_below(&in->c, in->n_strings + 2);
		size_t n = cursor_count(&in->c);
		lines.n = 0;
		for (size_t k = 0; k < n && !in->c.bad; k++) {
			struct sym_line line = { .function = in->functions[names_below(&in->c, in->n_functions + 1)] };
			line.line = cursor_zigzag(&in->c);
			vec_push(&lines, line);
		}
		l.address = cursor_varint(&in->c);
		l.n_lines = (uint32_t)lines.n;
		if (in->c.bad)
			break;
		if (file)
			l.mapping = symbols_mapping(in->to, &(struct sym_mapping){ .file = in->strings[file - 1] }) + 1;
		in->locations[i] = symbols_location(in->to, &l, lines.v);
	}
	vec_free(&lines);
}

static void names_get_nodes(struct names_in *in)
{
	size_t depth = 0;
	uint32_t id = 0;
	in->n_nodes = cursor_count(&in->c);
	in->nodes = names_room(in->n_nodes);
	uint32_t *path = names_room(in->n_nodes + 1); /* by depth: the node of `to` */
	struct cursor up = cursor_of(cursor_bytes(&in->c, cursor_count(&in->c)));
	for (size_t i = 1; i <= in->n_nodes && !in->c.bad; i++) {
		uint64_t levels = cursor_varint_quick(&up);
		uint32_t location = names_below(&in->c, in->n_locations);
		in->c.bad |= up.bad || levels > depth;
		if (in->c.bad)
			break;
		depth = depth + 1 - levels;
		id = symbols_node_near(in->to, id + 1, path[depth - 1], in->locations[location]);
		in->nodes[i] = path[depth] = id;
	}
	free(path);
}

static void names_get_label_sets(struct names_in *in)
{
	VEC(struct sym_label) labels = { 0 };
	in->n_label_sets = cursor_count(&in->c);
	in->label_sets = names_room(in->n_label_sets);
	for (size_t i = 0; i < in->n_label_sets && !in->c.bad; i++) {
		size_t n = cursor_count(&in->c);
		labels.n = 0;
		for (size_t k = 0; k < n && !in->c.bad; k++) {
			struct sym_label l = { .key = names_get_string(in) };
			l.str = names_get_string(in);
			l.unit = names_get_string(in);
			l.is_num = cursor_u8(&in->c) != 0;
			l.num = cursor_zigzag(&in->c);
			vec_push(&labels, l);
		}
		if (!in->c.bad)
			in->label_sets[i] = symbols_label_set(in->to, labels.v, labels.n);
	}
	vec_free(&labels);
}

static void names_get_columns(struct names_in *in)
{
	uint32_t stack = 0, column = 0;
	uint64_t node = 0;
	in->n_columns = cursor_count(&in->c);
	in->columns = names_room(in->n_columns);
	for (size_t i = 0; i < in->n_columns && !in->c.bad; i++) {
		uint64_t step = cursor_varint_quick(&in->c);
		uint32_t label_set = names_below(&in->c, in->n_label_sets);
		in->c.bad |= step > in->n_nodes - node;
		if (in->c.bad)
			break;
		node += step;
		if (step)
			stack = symbols_stack_near(in->to, stack + 1, in->nodes[node]);
		column = symbols_column_near(in->to, column + 1, stack, in->label_sets[label_set]);
		in->columns[i] = column;
	}
}

static uint32_t *names_get_places(struct names_in *in, uint32_t *ret_n)
{
	size_t n = cursor_count(&in->c);
	uint32_t *place = names_room(n);
	uint64_t at = 0;
	for (size_t i = 0; i < n && !in->c.bad; i++) {
		at += (uint64_t)zigzag_decode(cursor_varint_quick(&in->c));
		in->c.bad |= at > in->n_columns;
		if (at && !in->c.bad)
			place[i] = in->columns[at - 1] + 1;
	}
	*ret_n = (uint32_t)n;
	return place;
}

int dict_names_join(struct view names, struct symbols *to, uint64_t late, uint32_t **ret_place, uint32_t *ret_n, struct err *e)
{
	struct names_in in = { .to = to, .c = cursor_of(names) };
	uint8_t version = cursor_u8(&in.c);
	if (version != NAMES_VERSION)
		return err_set(e, ERR_CORRUPT, "names of a day have version %u, this program reads %u", version, NAMES_VERSION);
	if (cursor_varint(&in.c) != late)
		return err_set(e, ERR_NOT_FOUND, "names of a day lack some that came late");
	names_get_strings(&in);
	names_get_functions(&in);
	names_get_locations(&in);
	names_get_nodes(&in);
	names_get_label_sets(&in);
	names_get_columns(&in);
	*ret_place = names_get_places(&in, ret_n);
	free(in.strings);
	free(in.functions);
	free(in.locations);
	free(in.nodes);
	free(in.label_sets);
	free(in.columns);
	if (!in.c.bad && in.c.p == in.c.end)
		return 0;
	free(*ret_place);
	return err_set(e, ERR_CORRUPT, "names of a day are malformed");
}
