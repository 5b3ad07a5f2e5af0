/* SPDX-License-Identifier: Apache-2.0 */
/* Most of the order is one of numbers. The call tree of a dictionary (calltree.h) has its calls in the order of their names, so the place of a
 * sample's call stands for the names of its stack. Samples are sorted by that place and by their values, without reading a text. Only
 * samples that agree in both are compared by what else they are: two lines of a function, two addresses, two sets of labels.
 *
 * Identity in a dictionary (symbols.h) is made of texts and numbers that are the same in every dictionary, so that comparison is total. What does not
 * belong to the identity of a mapping (start, file name of a build id) is that of the first process that a dictionary met. Equal ids are equal texts;
 * then nothing is read. */
#include "model/sample_order.h"

#include <math.h>
#include <stdlib.h>

#include "base/radix.h"
#include "model/call_order.h"
#include "model/calltree.h"

_Static_assert(sizeof(struct order_key) == RADIX_RECORD, "keys of samples are what radix_sort takes");

/* ---- by text ---- */

static int order_numbers(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static int order_signed(int64_t a, int64_t b)
{
	return (a > b) - (a < b);
}

static int order_texts(const struct symbols *s, uint32_t a, uint32_t b)
{
	return a == b ? 0 : view_cmp(symbols_get_string(s, a), symbols_get_string(s, b));
}

/* By their ids + 1; none comes first. */
static int order_mappings(const struct symbols *s, uint32_t a, uint32_t b)
{
	if (a == b || !a || !b)
		return order_numbers(a, b);
	const struct sym_mapping *x = symbols_get_mapping(s, a - 1), *y = symbols_get_mapping(s, b - 1);
	int c = order_texts(s, x->file, y->file);
	c = c ? c : order_texts(s, x->build_id, y->build_id);
	c = c ? c : order_numbers(x->offset, y->offset);
	return c ? c : order_numbers(x->size, y->size);
}

static int order_functions(const struct symbols *s, uint32_t a, uint32_t b)
{
	if (a == b || !a || !b)
		return order_numbers(a, b);
	const struct sym_function *x = symbols_get_function(s, a - 1), *y = symbols_get_function(s, b - 1);
	int c = order_texts(s, x->name, y->name);
	c = c ? c : order_texts(s, x->filename, y->filename);
	c = c ? c : order_signed(x->start_line, y->start_line);
	return c ? c : order_texts(s, x->system_name, y->system_name);
}

static int order_lines(const struct symbols *s, const struct sym_line *x, const struct sym_line *y)
{
	int c = order_functions(s, x->function, y->function);
	c = c ? c : order_signed(x->line, y->line);
	return c ? c : order_signed(x->column, y->column);
}

/* Lines from the caller on. */
static int order_locations(const struct symbols *s, uint32_t a, uint32_t b)
{
	const struct sym_location *x = symbols_get_location(s, a), *y = symbols_get_location(s, b);
	int c = 0;
	for (uint32_t i = x->n_lines, k = y->n_lines; i && k && !c;)
		c = order_lines(s, symbols_get_line(s, x, --i), symbols_get_line(s, y, --k));
	c = c ? c : order_numbers(x->n_lines, y->n_lines);
	c = c ? c : order_mappings(s, x->mapping, y->mapping);
	c = c ? c : order_numbers(x->address, y->address);
	return c ? c : order_numbers(x->is_folded, y->is_folded);
}

/* The first location from the root on that differs decides; of two stacks that begin alike the shorter one is first. A node's id is above its
 * parent's, so the node of the larger id is left for its parent until both stacks meet, not farther to the root. *steps grows by the nodes read. */
static int order_stacks(const struct symbols *s, uint32_t a, uint32_t b, size_t *steps)
{
	uint32_t below_a = 0, below_b = 0; /* the last node that was left on each side: a child of the node where they meet */
	for (; a != b; ++*steps)
		if (a > b) {
			below_a = a;
			a = symbols_get_node(s, a)->parent;
		} else {
			below_b = b;
			b = symbols_get_node(s, b)->parent;
		}
	int c = below_a && below_b ? order_locations(s, symbols_get_node(s, below_a)->location, symbols_get_node(s, below_b)->location) : 0;
	return c ? c : order_numbers(below_a, below_b); /* 0 where one begins as the other; entries that storage has lost look alike */
}

/* ---- labels ---- */

static int order_label(const struct symbols *s, const struct sym_label *x, const struct sym_label *y)
{
	int c = order_texts(s, x->key, y->key);
	c = c ? c : order_numbers(x->is_num, y->is_num);
	c = c ? c : order_texts(s, x->str, y->str);
	c = c ? c : order_signed(x->num, y->num);
	return c ? c : order_texts(s, x->unit, y->unit);
}

static int by_label_text(const void *a, const void *b, void *symbols)
{
	return order_label(symbols, a, b);
}

const struct sym_label *sample_labels_sorted(struct sample_labels *l, const struct symbols *s, uint32_t set, size_t *ret_n)
{
	const struct sym_label *v = symbols_get_label_set(s, set, ret_n);
	size_t n = *ret_n, sorted = 1;
	while (sorted < n && order_label(s, &v[sorted - 1], &v[sorted]) <= 0)
		sorted++;
	if (sorted >= n)
		return v;
	vec_reserve(&l->copy, n);
	memcpy(l->copy.v, v, n * sizeof *v);
	qsort_r(l->copy.v, n, sizeof *v, by_label_text, (void *)(uintptr_t)s);
	return l->copy.v;
}

void sample_labels_release(struct sample_labels *l)
{
	vec_free(&l->copy);
}

/* By ids, as sets are in the dictionary. */
static int order_label_ids(const struct sym_label *x, const struct sym_label *y)
{
	int c = order_numbers(x->key, y->key);
	c = c ? c : order_numbers(x->is_num, y->is_num);
	c = c ? c : order_numbers(x->str, y->str);
	c = c ? c : order_signed(x->num, y->num);
	return c ? c : order_numbers(x->unit, y->unit);
}

/* Compares two sets as if each were sorted by texts, of two that begin alike the smaller one first, without sorting them. The sorted sets differ
 * first at the least label that only one of them has. The other set has a greater label there, or ends. */
static int order_label_sets(const struct symbols *s, uint32_t a, uint32_t b, size_t *steps)
{
	size_t n, m, i = 0, k = 0;
	const struct sym_label *x = symbols_get_label_set(s, a, &n), *y = symbols_get_label_set(s, b, &m), *least = NULL;
	bool of_x = false, only_x = false, only_y = false;
	*steps += n + m;
	while (i < n || k < m) {
		int c = i == n ? 1 : k == m ? -1 : order_label_ids(&x[i], &y[k]);
		const struct sym_label *one = c < 0 ? &x[i] : &y[k];
		i += c <= 0;
		k += c >= 0;
		if (!c)
			continue;
		only_x |= c < 0;
		only_y |= c > 0;
		int order = least ? order_label(s, one, least) : -1;
		if (order < 0 || (!order && order_label_ids(one, least) < 0)) {
			least = one;
			of_x = c < 0;
		}
	}
	if (!least)
		return 0;
	bool goes_on = only_x && only_y; /* the set without it has a greater label */
	const struct sym_label *other = of_x ? y : x;
	for (size_t l = of_x ? m : n; l-- && !goes_on;)
		goes_on = order_label(s, &other[l], least) > 0;
	return of_x == goes_on ? -1 : 1;
}

/* ---- the order ---- */

struct order_arg {
	struct sample_order *o;
	const struct symbols *s;
	const struct permit *permit;
	struct err *e;
	size_t steps;        /* nodes and labels read since the permit was last asked */
	int rc;
};

/* Samples of the same functions and value. Once the permit has ended the work all are equal: qsort_r cannot be stopped. */
static int by_sample_text(const void *a, const void *b, void *arg)
{
	struct order_arg *x = arg;
	if (!x->rc && ++x->steps >= PERMIT_STEPS) {
		x->steps = 0;
		x->rc = permit_go_on(x->permit, x->e);
	}
	if (x->rc)
		return 0;
	const struct order_key *k = a, *l = b;
	const struct sym_column *c = symbols_get_column(x->s, x->o->columns[k->place]), *d = symbols_get_column(x->s, x->o->columns[l->place]);
	int order = c->node == d->node ? 0 : order_stacks(x->s, c->node, d->node, &x->steps);
	order = order || c->label_set == d->label_set ? order : order_label_sets(x->s, c->label_set, d->label_set, &x->steps);
	return order ? order : order_numbers(k->place, l->place); /* entries that storage has lost look alike */
}

/* Ascending where values descend by size; of a value and its negative the positive one is first. */
static uint64_t order_value_key(const struct stackvec *v, size_t i)
{
	uint64_t size;
	bool positive;
	if (v->is_float) {
		double d = fabs(v->floats[i]); /* bits of positive doubles ascend as these do */
		memcpy(&size, &d, sizeof size);
		positive = v->floats[i] > 0;
	} else {
		int64_t n = v->ints[i];
		size = MIN(n < 0 ? 0 - (uint64_t)n : (uint64_t)n, (uint64_t)INT64_MAX);
		positive = n > 0;
	}
	return ~(size << 1 | positive);
}

static uint64_t order_key_of(const struct sample_order *o, const struct stackvec *v, bool value, size_t place)
{
	return value ? order_value_key(v, o->samples[place]) : o->calls[place];
}

/* Sorts by value (or, if false, by call). Samples with equal keys keep the order that they have from the sort before. */
static void order_by_key(struct sample_order *o, const struct stackvec *v, bool value)
{
	for (size_t i = 0; i < o->n; i++)
		o->keys[i].key = order_key_of(o, v, value, o->keys[i].place);
	radix_sort(o->keys, o->n);
}

/* Sorts samples that agree in call and value by their texts. The keys hold one of the two, of the last sort; `value` says that the other one is the
 * value. */
static int order_ties(struct sample_order *o, const struct stackvec *v, bool value, const struct permit *permit, struct err *e)
{
	struct order_arg arg = { .o = o, .s = v->symbols, .permit = permit, .e = e };
	for (size_t i = 0, end; i < o->n && !arg.rc; i = end) {
		uint64_t other = order_key_of(o, v, value, o->keys[i].place);
		for (end = i + 1; end < o->n && o->keys[end].key == o->keys[i].key && order_key_of(o, v, value, o->keys[end].place) == other;)
			end++;
		if (end > i + 1)
			qsort_r(o->keys + i, end - i, sizeof *o->keys, by_sample_text, &arg);
		if (!arg.rc)
			arg.rc = end - i < PERMIT_STEPS ? permit_step(permit, i, e) : permit_go_on(permit, e);
	}
	return arg.rc;
}

static void order_clear(struct sample_order *o)
{
	free(o->samples);
	free(o->columns);
	free(o->calls);
	free(o->keys);
}

#define ORDER_BYTES (3 * sizeof(uint32_t) + 2 * sizeof(struct order_key)) /* for each sample; radix_sort copies the keys */

static int order_room(struct sample_order *o, size_t n, const struct permit *permit, struct err *e)
{
	if (n < o->room)
		return 0;
	size_t room = n + 1;
	int rc = permit_need(permit, (room - o->room) * ORDER_BYTES, e);
	if (rc)
		return rc;
	order_clear(o);
	o->samples = xreallocarray(NULL, room, sizeof *o->samples);
	o->columns = xreallocarray(NULL, room, sizeof *o->columns);
	o->calls = xreallocarray(NULL, room, sizeof *o->calls);
	o->keys = xreallocarray(NULL, room, sizeof *o->keys);
	o->room = room;
	return 0;
}

/* Reads the place of each sample's stack in the call tree. The permit may wait for memory, so it is not asked while the tree is locked. */
static int order_calls_of(struct sample_order *o, const struct stackvec *v, const struct permit *permit, struct err *e)
{
	struct calltree *tree = symbols_calls(v->symbols);
	int rc = permit ? permit_need(permit, calltree_missing(tree, v->symbols, o->columns, o->n), e) : 0;
	if (!rc)
		rc = permit_go_on(permit, e);
	if (rc)
		return rc;
	struct calltree_view t = calltree_begin(tree, v->symbols, o->columns, o->n);
	for (size_t i = 0; i < o->n; i++)
		o->calls[i] = t.place[t.columns[o->columns[i]] - 1];
	calltree_end(tree);
	return permit_go_on(permit, e);
}

int sample_order_make(struct sample_order *o, const struct stackvec *v, enum sample_order_by by, const struct permit *permit, struct err *e)
{
	bool last_is_value = by == SAMPLES_BY_VALUE;
	o->n = 0;
	int rc = order_room(o, v->n, permit, e);
	for (size_t i = 0; i < v->n && !rc; i++) {
		if (v->is_float ? v->floats[i] == 0 : v->ints[i] == 0)
			continue;
		o->samples[o->n] = (uint32_t)i;
		o->columns[o->n] = v->columns[i];
		o->keys[o->n].place = o->n;
		o->n++;
	}
	if (!rc)
		rc = order_calls_of(o, v, permit, e);
	if (rc)
		return rc;
	order_by_key(o, v, !last_is_value);
	order_by_key(o, v, last_is_value);
	rc = order_ties(o, v, !last_is_value, permit, e);
	for (size_t i = 0; i < o->n; i++)
		o->columns[i] = o->samples[o->keys[i].place];
	uint32_t *sorted = o->columns; /* the array of columns is free: it becomes the result */
	o->columns = o->samples;
	o->samples = sorted;
	return rc;
}

void sample_order_release(struct sample_order *o)
{
	order_clear(o);
	*o = (struct sample_order){ 0 };
}
