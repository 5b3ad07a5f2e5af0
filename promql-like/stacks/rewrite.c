/* SPDX-License-Identifier: Apache-2.0 */
#include "promql-like/stacks/rewrite.h"

#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "promql-like/values/query.h"

/* The query's symbols_lock is held for all of it. The old one may be the same: then there is no map. */
struct rewrite {
	const struct symbols *from;
	struct symbols *to;
	struct symbols_map *map;
	VEC(uint32_t) stack;   /* new locations, leaf first */
	VEC(struct sym_line) lines;
};

static void take_line(struct rewrite *rw, const struct sym_location *l, uint32_t i)
{
	struct sym_line line = *symbols_get_line(rw->from, l, i);
	if (line.function && rw->map)
		line.function = symbols_map_function(rw->map, line.function - 1) + 1;
	vec_push(&rw->lines, line);
}

/* The location with the lines that were taken. */
static uint32_t put_location(struct rewrite *rw, const struct sym_location *old)
{
	struct sym_location l = *old;
	if (l.mapping && rw->map)
		l.mapping = symbols_map_mapping(rw->map, l.mapping - 1) + 1;
	l.n_lines = (uint32_t)rw->lines.n;
	return symbols_location(rw->to, &l, rw->lines.v);
}

static void add_whole(struct rewrite *rw, uint32_t location)
{
	vec_push(&rw->stack, rw->map ? symbols_map_location(rw->map, location) : location);
}

static NOINLINE void rewrite_range(struct rewrite *rw, struct sym_location l, uint32_t first, uint32_t end)
{
	rw->lines.n = 0;
	for (uint32_t i = first; i < MIN(end, l.n_lines); i++)
		take_line(rw, &l, i);
	if (rw->lines.n)
		vec_push(&rw->stack, put_location(rw, &l));
}

static NOINLINE void rewrite_masked(struct rewrite *rw, struct sym_location l, uint64_t mask)
{
	rw->lines.n = 0;
	for (uint32_t i = 0; i < l.n_lines; i++)
		if (i >= 64 || mask >> i & 1)
			take_line(rw, &l, i);
	if (rw->lines.n)
		vec_push(&rw->stack, put_location(rw, &l));
}

void rewrite_add(struct rewrite *rw, uint32_t location, uint32_t first, uint32_t end)
{
	const struct sym_location *l = symbols_get_location(rw->from, location);
	if (!l->n_lines || (first == 0 && end >= l->n_lines))
		add_whole(rw, location);
	else
		rewrite_range(rw, *l, first, end);
}

void rewrite_add_mask(struct rewrite *rw, uint32_t location, uint64_t mask)
{
	const struct sym_location *l = symbols_get_location(rw->from, location);
	uint64_t all = l->n_lines >= 64 ? UINT64_MAX : (UINT64_C(1) << l->n_lines) - 1;
	if (!l->n_lines || (mask & all) == all)
		add_whole(rw, location);
	else
		rewrite_masked(rw, *l, mask);
}

void rewrite_add_reversed(struct rewrite *rw, uint32_t location)
{
	struct sym_location l = *symbols_get_location(rw->from, location);
	if (l.n_lines < 2) {
		add_whole(rw, location);
		return;
	}
	rw->lines.n = 0;
	for (uint32_t i = l.n_lines; i-- > 0;)
		take_line(rw, &l, i);
	vec_push(&rw->stack, put_location(rw, &l));
}

void rewrite_add_name(struct rewrite *rw, struct view name, struct view file)
{
	uint32_t text = symbols_string(rw->to, name);
	struct sym_function f = { .name = text, .system_name = text, .filename = symbols_string(rw->to, file) };
	struct sym_line line = { .function = symbols_function(rw->to, &f) + 1 };
	struct sym_location l = { .n_lines = 1 };
	vec_push(&rw->stack, symbols_location(rw->to, &l, &line));
}

static void rewrite_init(struct rewrite *rw, const struct symbols *from, struct symbols *to)
{
	*rw = (struct rewrite){ .from = from, .to = to };
	if (from != to)
		rw->map = symbols_map_new(from, to, SYMBOLS_WHOLE);
}

static void rewrite_free(struct rewrite *rw)
{
	symbols_map_free(rw->map);
	vec_free(&rw->stack);
	vec_free(&rw->lines);
}

#define GONE UINT32_MAX

/* The results for stacks: the new one + 1, GONE if its samples are removed, 0 if not computed yet. Most have one variant, whose number
 * is 0. */
struct outcomes {
	uint32_t *plain;       /* of variant 0, by old stack */
	struct map index;      /* of others */
	VEC(struct { uint32_t stack; uint32_t variant; uint32_t made; }) others;
};

static uint32_t *outcome(struct outcomes *o, uint32_t stack, uint32_t variant)
{
	if (!variant)
		return &o->plain[stack];
	uint64_t h = hash_u64((uint64_t)variant << 32 | stack);
	uint32_t i;
	if (MAP_FIND_OR_ADD(&o->index, h, i, o->others.n, o->others.v[i].stack == stack && o->others.v[i].variant == variant))
		return &o->others.v[i].made;
	__auto_type added = vec_add(&o->others);
	added->stack = stack;
	added->variant = variant;
	added->made = 0;
	return &added->made;
}

struct stackvec *rewrite_samples(struct eval *q, const struct stackvec *v, rewrite_fn fn, rewrite_variant_fn variant, void *arg, struct err *e)
{
	struct rewrite rw;
	struct outcomes o = { .plain = xcalloc(symbols_count(v->symbols, SYMBOLS_STACKS) + 1, sizeof *o.plain) };
	VEC(uint32_t) old = { 0 };
	mutex_lock(&q->symbols_lock);
	if (!q->symbols)
		q->symbols = symbols_new();
	rewrite_init(&rw, v->symbols, q->symbols);
	struct stackacc *acc = stackacc_new(q->symbols);
	for (size_t i = 0; i < v->n; i++) {
		struct sym_column c = *symbols_get_column(v->symbols, v->columns[i]);
		uint32_t *made = outcome(&o, c.stack, variant ? variant(arg, c.label_set) : 0);
		if (!*made) {
			size_t n = symbols_stack_locations(v->symbols, c.stack, old.v, old.cap);
			if (n > old.cap) {
				vec_reserve(&old, n);
				symbols_stack_locations(v->symbols, c.stack, old.v, old.cap);
			}
			rw.stack.n = 0;
			*made = fn(arg, &rw, old.v, n) ? symbols_stack(rw.to, rw.stack.v, rw.stack.n) + 1 : GONE;
		}
		if (*made == GONE)
			continue;
		uint32_t labels = rw.map ? symbols_map_label_set(rw.map, c.label_set) : c.label_set;
		uint32_t column = symbols_column(rw.to, *made - 1, labels);
		if (v->is_float)
			stackacc_add_scaled(acc, column, v->floats[i]);
		else
			stackacc_add(acc, column, v->ints[i]);
	}
	struct stackvec *out = stackacc_finish(acc, e);
	stackacc_free(acc);
	rewrite_free(&rw);
	vec_free(&old);
	mutex_unlock(&q->symbols_lock);
	free(o.plain);
	map_free(&o.index);
	vec_free(&o.others);
	return out;
}

struct stackvec *rewrite_stacks(struct eval *q, const struct stackvec *v, rewrite_fn fn, void *arg, struct err *e)
{
	return rewrite_samples(q, v, fn, NULL, arg, e);
}
