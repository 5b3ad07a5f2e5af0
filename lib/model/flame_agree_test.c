/* SPDX-License-Identifier: Apache-2.0 */
/* Flame graphs of random stacks against a plain walk over each of them. Functions of one name have several files, binaries and start
 * lines, and calls have several lines, rarely in some dictionaries and often in others. So some calls can be drawn without a look at
 * their nodes and some cannot. A profile has a part of the stacks. So a dictionary in which two profiles differ draws each of them
 * alone, and calls that one profile adds find their places among earlier ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/vec.h"
#include "model/flame.h"
#include "model/frame.h"

enum { COLUMNS = 60, DEPTH = 7 };

struct dictionary {
	struct symbols *s;
	uint32_t columns[COLUMNS];
	uint64_t random;
	unsigned rare;  /* one in so many differs from the others */
};

static uint32_t below(struct dictionary *d, uint32_t n)
{
	d->random += 0x9e3779b97f4a7c15u;
	return (uint32_t)(hash_u64(d->random) % n);
}

static bool differs(struct dictionary *d)
{
	return below(d, d->rare) == 0;
}

static uint32_t mapping(struct dictionary *d)
{
	static const char *const files[] = { "/bin/app", "/opt/app", "/bin/other", "" };
	struct sym_mapping m = { .size = 0x1000, .file = symbols_string(d->s, view_of(files[differs(d) ? 2 + below(d, 2) : below(d, 2)])) };
	m.build_id = symbols_string(d->s, below(d, 2) ? VIEW("a") : VIEW("b"));
	return symbols_mapping(d->s, &m) + 1;
}

static uint32_t function(struct dictionary *d)
{
	char name[8];
	snprintf(name, sizeof name, "f%u", below(d, 6));
	struct sym_function f = { .name = symbols_string(d->s, view_of(differs(d) && below(d, 3) == 0 ? "" : name)),
				  .filename = symbols_string(d->s, differs(d) ? VIEW("other.c") : VIEW("a.c")), .start_line = 1 + differs(d) };
	return symbols_function(d->s, &f) + 1;
}

static int64_t line(struct dictionary *d)
{
	static const int64_t lines[] = { 8, 9, 0, -3, INT32_MIN, INT32_MAX, INT64_C(1) << 40, (INT64_C(1) << 40) + 1, INT64_MIN };
	return differs(d) ? lines[below(d, ARRAY_LEN(lines))] : 7;
}

static uint32_t location(struct dictionary *d)
{
	struct sym_line lines[3];
	struct sym_location l = { .address = below(d, 4), .n_lines = differs(d) ? below(d, 4) : 1 };
	if (!differs(d) || below(d, 2))
		l.mapping = mapping(d);
	for (uint32_t i = 0; i < l.n_lines; i++)
		lines[i] = (struct sym_line){ below(d, 20) ? function(d) : 0, line(d), 0 };
	return symbols_location(d->s, &l, lines);
}

static void fill(struct dictionary *d)
{
	uint32_t pool[24], stack[DEPTH];
	d->s = symbols_new();
	for (size_t i = 0; i < ARRAY_LEN(pool); i++)
		pool[i] = location(d);
	for (size_t i = 0; i < COLUMNS; i++) {
		size_t n = below(d, DEPTH);
		for (size_t k = 0; k < n; k++)
			stack[k] = pool[below(d, ARRAY_LEN(pool))];
		d->columns[i] = symbols_column(d->s, symbols_stack(d->s, stack, n), 0);
	}
}

/* ---- the plain way ---- */

struct plain_call {
	struct view path;
	int64_t line, total[2], self[2];
};

struct plain_name {
	struct view name, file, binary;
	int64_t start_line;
};

struct plain {
	struct arena arena;
	VEC(struct plain_call) calls;
	VEC(struct plain_name) names;
};

static struct plain_call *call_of(struct plain *p, struct view path)
{
	for (size_t i = 0; i < p->calls.n; i++)
		if (view_eq(p->calls.v[i].path, path))
			return &p->calls.v[i];
	struct plain_call *c = vec_add(&p->calls);
	c->path = arena_view(&p->arena, path);
	c->line = INT64_MAX; /* not met */
	return c;
}

static struct plain_name *name_of(struct plain *p, struct view name, bool *ret_new)
{
	*ret_new = false;
	for (size_t i = 0; i < p->names.n; i++)
		if (view_eq(p->names.v[i].name, name))
			return &p->names.v[i];
	struct plain_name *x = vec_add(&p->names);
	x->name = arena_view(&p->arena, name);
	*ret_new = true;
	return x;
}

/* Of several functions of a name the first by text is shown, but one without a file only if all are. */
static bool before(const struct plain_name *a, const struct plain_name *b)
{
	if (!a->file.len != !b->file.len)
		return a->file.len;
	int c = view_cmp(a->file, b->file);
	c = c ? c : view_cmp(a->binary, b->binary);
	return c ? c < 0 : a->start_line < b->start_line;
}

static void add_line(struct plain *p, const struct symbols *s, uint32_t node, uint32_t i, struct buf *path)
{
	const struct sym_location *l = symbols_get_location(s, symbols_get_node(s, node)->location);
	const struct sym_function *f = frame_function(s, l, i);
	struct buf tmp = { 0 };
	bool is_new;
	struct view name = frame_name(s, l, i, &tmp);
	buf_puts(path, ";");
	buf_putv(path, name);
	struct plain_name *x = name_of(p, name, &is_new);
	bool known = f && symbols_get_string(s, f->name).len;
	struct plain_name own = { x->name, known ? symbols_get_string(s, f->filename) : VIEW(""), frame_binary(s, l), known ? f->start_line : 0 };
	if (is_new || before(&own, x))
		*x = own;
	struct plain_call *c = call_of(p, buf_view(path));
	int64_t at = frame_line(s, l, i);
	c->line = c->line == INT64_MAX || c->line == at ? at : 0;
	buf_free(&tmp);
}

static void add_stack(struct plain *p, const struct symbols *s, uint32_t leaf, int64_t value, int side)
{
	uint32_t nodes[DEPTH];
	size_t n = 0;
	struct buf path = { 0 };
	buf_puts(&path, "total");
	call_of(p, buf_view(&path))->total[side] += value;
	for (uint32_t node = leaf; node; node = symbols_get_node(s, node)->parent)
		nodes[n++] = node;
	while (n--) {
		const struct sym_location *l = symbols_get_location(s, symbols_get_node(s, nodes[n])->location);
		for (uint32_t i = frame_count(l); i--;) {
			add_line(p, s, nodes[n], i, &path);
			call_of(p, buf_view(&path))->total[side] += value;
		}
	}
	call_of(p, buf_view(&path))->self[side] += value;
	buf_free(&path);
}

static void add_vector(struct plain *p, const struct stackvec *v, int side)
{
	for (size_t i = 0; v && i < v->n; i++)
		if (v->ints[i])
			add_stack(p, v->symbols, symbols_get_column(v->symbols, v->columns[i])->node, v->ints[i], side);
}

/* Siblings are in the order of their names. */
static void check_order(const struct flame *f)
{
	VEC(size_t) last = { 0 }; /* by depth: the node that is open */
	for (size_t i = 0; i < f->n_nodes; i++) {
		const struct flame_node row = flame_node(f, i), *n = &row;
		assert_in_range(n->depth, i != 0, last.n);
		if (n->depth < last.n)
			assert_true(view_cmp(f->frames[f->nodes.frame[last.v[n->depth]]].name, f->frames[n->frame].name) < 0);
		last.n = n->depth;
		vec_push(&last, i);
	}
	vec_free(&last);
}

static void compare(const struct flame *f, struct plain *p)
{
	VEC(size_t) ends = { 0 };
	check_order(f);
	struct buf path = { 0 };
	for (size_t i = 0; i < f->n_nodes; i++) {
		const struct flame_node row = flame_node(f, i), *n = &row;
		const struct flame_frame *x = &f->frames[n->frame];
		ends.n = n->depth;
		path.len = n->depth ? ends.v[n->depth - 1] : 0;
		if (i)
			buf_puts(&path, ";");
		buf_putv(&path, x->name);
		vec_push(&ends, path.len);
		struct plain_call *c = call_of(p, buf_view(&path));
		assert_true(c->total[0] == n->total.i && c->self[0] == n->self.i);
		assert_true(c->total[1] == n->base_total.i && c->self[1] == n->base_self.i);
		if (!i)
			continue;
		assert_true(c->line == n->line);
		bool is_new;
		struct plain_name *name = name_of(p, x->name, &is_new);
		assert_false(is_new);
		assert_true(view_eq(name->file, x->file) && view_eq(name->binary, x->binary) && name->start_line == x->start_line);
	}
	assert_int_equal(p->calls.n, MAX(f->n_nodes, 1));
	buf_free(&path);
	vec_free(&ends);
}

/* ---- */

static struct stackvec *some(struct dictionary *d)
{
	struct stackacc *a = stackacc_new(d->s);
	struct err e;
	uint32_t one_in = 1 + below(d, 12);
	for (size_t i = 0; i < COLUMNS; i++)
		if (below(d, one_in) == 0)
			stackacc_add(a, d->columns[i], below(d, 4));
	struct stackvec *v = stackacc_finish(a, &e);
	assert_non_null(v);
	stackacc_free(a);
	return v;
}

static void test_random(void **state)
{
	struct dictionary d = { .random = 3 };
	for (int round = 0; round < 400; round++) {
		d.rare = (unsigned[]){ 2, 8, 40, 100000 }[round % 4];
		fill(&d);
		for (int k = 0; k < 6; k++) {
			struct stackvec *v = some(&d), *base = k % 3 ? NULL : some(&d);
			struct flame f;
			struct err e;
			struct plain p = { 0 };
			call_of(&p, VIEW("total"));
			add_vector(&p, v, 0);
			add_vector(&p, base, 1);
			assert_int_equal(flame_fold(&f, v, base, NULL, &e), 0);
			compare(&f, &p);
			flame_release(&f);
			stackvec_unref(v);
			stackvec_unref(base);
			vec_free(&p.calls);
			vec_free(&p.names);
			arena_free(&p.arena);
		}
		symbols_unref(d.s);
	}
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_random) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
