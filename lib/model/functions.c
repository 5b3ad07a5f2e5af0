/* SPDX-License-Identifier: Apache-2.0 */
/* One pass over the columns, each stack walked from its leaf to the root; a mark per function says in which stack it
 * was last counted, so that recursion counts once. */
#include "model/functions.h"

#include <stdlib.h>

#include "base/map.h"
#include "base/vec.h"
#include "model/frame.h"

struct making {
	struct function_table *t;
	const struct symbols *s;
	struct map index;            /* hash of a name -> rows */
	VEC(struct function_row) rows;
	VEC(size_t) counted_in;      /* per row: column + 1 it was last counted in */
	struct buf name;
};

/* The row of line i of a location (i = 0 for one without lines). */
static int row_of(struct making *m, const struct sym_location *l, uint32_t i, uint32_t *ret, struct err *e)
{
	const struct sym_function *f = frame_function(m->s, l, i);
	struct view name;
	if (f) {
		name = symbols_get_string(m->s, f->name);
	} else {
		buf_reset(&m->name);
		frame_address_name(m->s, l, &m->name);
		name = buf_view(&m->name);
	}
	uint64_t h = hash_view(name);
	for (size_t at = map_start(&m->index, h); map_probe(&m->index, h, &at, ret);)
		if (view_eq(m->rows.v[*ret].name, name))
			return 0;
	if (!f)
		name = arena_view(&m->t->arena, name);
	if (!name.ptr)
		return err_set(e, ERR_LIMIT, "out of memory for function names");
	*ret = (uint32_t)m->rows.n;
	map_insert(&m->index, h, *ret);
	vec_push(&m->rows, (struct function_row){ .name = name });
	vec_push(&m->counted_in, 0);
	return 0;
}

static int add_column(struct making *m, size_t column, uint32_t stack, int64_t value, struct err *e)
{
	bool leaf = true, overflow = false;
	for (uint32_t node = symbols_stack_node(m->s, stack); node;) {
		const struct sym_node *x = symbols_get_node(m->s, node);
		const struct sym_location *l = symbols_get_location(m->s, x->location);
		for (uint32_t i = 0; i < MAX(l->n_lines, 1u); i++) {
			uint32_t row = 0;
			int rc = row_of(m, l, i, &row, e);
			if (rc)
				return rc;
			if (leaf)
				overflow |= __builtin_add_overflow(m->rows.v[row].self, value, &m->rows.v[row].self);
			leaf = false;
			if (m->counted_in.v[row] != column + 1)
				overflow |= __builtin_add_overflow(m->rows.v[row].total, value, &m->rows.v[row].total);
			m->counted_in.v[row] = column + 1;
		}
		node = x->parent;
	}
	overflow |= __builtin_add_overflow(m->t->value, value, &m->t->value);
	return overflow ? err_set(e, ERR_EXECUTION, "a function's total does not fit in 64 bits") : 0;
}

int function_table_make(struct function_table *ret, const struct stackvec *v, struct err *e)
{
	*ret = (struct function_table){ .symbols = symbols_ref(v->symbols) };
	arena_init(&ret->arena, 0);
	struct making m = { .t = ret, .s = v->symbols };
	int rc = v->is_float ? err_set(e, ERR_INTERNAL, "a table of functions is made of integers") : 0;
	for (size_t i = 0; i < v->n && !rc; i++)
		rc = add_column(&m, i, symbols_get_column(v->symbols, v->columns[i])->stack, v->ints[i], e);
	ret->rows = m.rows.v;
	ret->n = m.rows.n;
	vec_free(&m.counted_in);
	map_free(&m.index);
	buf_free(&m.name);
	if (rc)
		function_table_release(ret);
	return rc;
}

void function_table_release(struct function_table *t)
{
	free(t->rows);
	arena_free(&t->arena);
	symbols_unref(t->symbols);
	*t = (struct function_table){ 0 };
}
