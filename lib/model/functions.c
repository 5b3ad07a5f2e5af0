/* SPDX-License-Identifier: Apache-2.0 */
/* Each stack is walked from its leaf to the root. A mark per function says in which walk it was last seen, so
 * that recursion counts once. */
#include "model/functions.h"

#include <stdlib.h>

#include "model/frame.h"

static int number_of(struct functions *f, const struct symbols *s, const struct sym_location *l, uint32_t line, uint32_t *ret,
		     struct err *e)
{
	struct view name = frame_name(s, l, line, &f->tmp);
	uint64_t h = hash_view(name);
	for (size_t at = map_start(&f->index, h); map_probe(&f->index, h, &at, ret);)
		if (view_eq(f->names.v[*ret], name))
			return 0;
	name = arena_view(&f->arena, name);
	if (!name.ptr)
		return err_set(e, ERR_LIMIT, "out of memory for function names");
	*ret = (uint32_t)f->names.n;
	map_insert(&f->index, h, *ret);
	vec_push(&f->names, name);
	vec_push(&f->walked_in, 0);
	return 0;
}

int functions_walk(struct functions *f, const struct symbols *s, uint32_t stack, functions_visit visit, void *arg, struct err *e)
{
	f->walk++;
	for (uint32_t node = symbols_stack_node(s, stack); node; node = symbols_get_node(s, node)->parent) {
		const struct sym_location *l = symbols_get_location(s, symbols_get_node(s, node)->location);
		for (uint32_t i = 0; i < frame_count(l); i++) {
			uint32_t number = 0;
			int rc = number_of(f, s, l, i, &number, e);
			if (rc)
				return rc;
			bool first = f->walked_in.v[number] != f->walk;
			f->walked_in.v[number] = f->walk;
			visit(arg, number, first);
		}
	}
	return 0;
}

void functions_release(struct functions *f)
{
	vec_free(&f->names);
	vec_free(&f->walked_in);
	map_free(&f->index);
	buf_free(&f->tmp);
	arena_free(&f->arena);
	*f = (struct functions){ 0 };
}

/* ---- the table ---- */

struct making {
	VEC(struct function_row) rows;
	int64_t value;
	bool leaf, overflow;
};

static void count(void *arg, uint32_t number, bool first)
{
	struct making *m = arg;
	if (number == m->rows.n)
		vec_push(&m->rows, (struct function_row){ 0 });
	struct function_row *row = &m->rows.v[number];
	if (m->leaf)
		m->overflow |= __builtin_add_overflow(row->self, m->value, &row->self);
	m->leaf = false;
	if (first)
		m->overflow |= __builtin_add_overflow(row->total, m->value, &row->total);
}

int function_table_make(struct function_table *ret, const struct stackvec *v, struct err *e)
{
	struct making m = { .value = 0 };
	*ret = (struct function_table){ .value = 0 };
	int rc = v->is_float ? err_set(e, ERR_INTERNAL, "a table of functions is made of integers") : 0;
	for (size_t i = 0; i < v->n && !rc; i++) {
		m.value = v->ints[i];
		m.leaf = true;
		rc = functions_walk(&ret->functions, v->symbols, symbols_get_column(v->symbols, v->columns[i])->stack, count, &m, e);
		m.overflow |= __builtin_add_overflow(ret->value, m.value, &ret->value);
		if (!rc && m.overflow)
			rc = err_set(e, ERR_EXECUTION, "a function's total does not fit in 64 bits");
	}
	for (size_t i = 0; i < m.rows.n; i++)
		m.rows.v[i].name = ret->functions.names.v[i];
	ret->rows = m.rows.v;
	ret->n = m.rows.n;
	if (rc)
		function_table_release(ret);
	return rc;
}

void function_table_release(struct function_table *t)
{
	free(t->rows);
	functions_release(&t->functions);
	*t = (struct function_table){ 0 };
}
