/* SPDX-License-Identifier: Apache-2.0 */
/* Flame graphs of real profiles against the plain way of counting: per stack, which functions are on it, and which
 * one is its leaf. Needs the corpus of real profiles; skipped without. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/map.h"
#include "base/vec.h"
#include "model/flame.h"
#include "model/frame.h"
#include "pprof/pprof.h"

struct count {
	char *name;
	int64_t self, total;
	bool seen;
};

struct counts {
	VEC(struct count) v;
	struct map index;
};

static struct count *count_of(struct counts *c, struct view name)
{
	uint64_t h = hash_view(name);
	uint32_t i;
	if (MAP_FIND_OR_ADD(&c->index, h, i, c->v.n, view_eqs(name, c->v.v[i].name)))
		return &c->v.v[i];
	struct count *n = vec_add(&c->v);
	n->name = xstrndup(name.ptr, name.len);
	return n;
}

static void counts_free(struct counts *c)
{
	for (size_t i = 0; i < c->v.n; i++)
		free(c->v.v[i].name);
	vec_free(&c->v);
	map_free(&c->index);
}

/* The names on one stack, leaf first, then each counted once. */
static void count_stack(struct counts *c, const struct symbols *s, uint32_t stack, int64_t value)
{
	uint32_t locations[4096];
	size_t n = symbols_stack_locations(s, stack, locations, ARRAY_LEN(locations));
	assert_true(n <= ARRAY_LEN(locations));
	VEC(size_t) seen = { 0 };
	bool leaf = true;
	for (size_t i = 0; i < n; i++) {
		const struct sym_location *l = symbols_get_location(s, locations[i]);
		for (uint32_t k = 0; k < MAX(l->n_lines, 1); k++) {
			struct buf tmp = { 0 };
			struct count *x = count_of(c, frame_name(s, l, k, &tmp));
			buf_free(&tmp);
			size_t id = (size_t)(x - c->v.v);
			bool again = false;
			for (size_t q = 0; q < seen.n; q++)
				again |= seen.v[q] == id;
			x->self += leaf ? value : 0;
			x->total += again ? 0 : value;
			vec_push(&seen, id);
			leaf = false;
		}
	}
	vec_free(&seen);
}

static void count_flame(struct counts *c, const struct flame *f)
{
	VEC(uint32_t) path = { 0 };
	for (size_t i = 1; i < f->n_nodes; i++) {
		const struct flame_node row = flame_node(f, i), *n = &row;
		path.n = n->depth - 1;
		bool again = false;
		for (size_t k = 0; k < path.n; k++)
			again |= path.v[k] == n->frame;
		vec_push(&path, n->frame);
		struct count *x = count_of(c, f->frames[n->frame].name);
		x->self += n->self.i;
		x->total += again ? 0 : n->total.i;
	}
	vec_free(&path);
}

/* Rows of functions are exact, however much of the tree is folded into "(other)". */
static void check_functions(struct counts *plain, const struct stackvec *v)
{
	struct flame f;
	struct err e = { 0 };
	assert_int_equal(flame_fold(&f, v, NULL, &(struct flame_ask){ .min_share = 0.2, .functions = 1 << 20 }, &e), 0);
	assert_true(f.n_functions == f.all_functions && f.n_functions <= plain->v.n);
	for (size_t i = 0; i < f.n_functions; i++) {
		const struct flame_function *x = &f.functions[i];
		const struct count *want = count_of(plain, f.frames[x->frame].name);
		if (x->self.i != want->self || x->total.i != want->total)
			print_message("%s\n", want->name);
		assert_int_equal(x->self.i, want->self);
		assert_int_equal(x->total.i, want->total);
		assert_true(!i || llabs(x->self.i) <= llabs(x[-1].self.i));
	}
	for (size_t i = 0; i < plain->v.n; i++) /* what has no row is nothing */
		plain->v.v[i].seen = plain->v.v[i].self == 0 && plain->v.v[i].total == 0;
	for (size_t i = 0; i < f.n_functions; i++)
		count_of(plain, f.frames[f.functions[i].frame].name)->seen = true;
	for (size_t i = 0; i < plain->v.n; i++)
		assert_true(plain->v.v[i].seen);
	flame_release(&f);
}

/* A subtree is what the whole tree has there. */
static void check_root(const struct flame *whole, const struct stackvec *v)
{
	VEC(struct view) path = { 0 };
	struct flame f;
	struct err e = { 0 };
	size_t at = whole->n_nodes / 2, end = at + 1;
	while (end < whole->n_nodes && whole->nodes.depth[end] > whole->nodes.depth[at])
		end++;
	uint32_t depth = whole->nodes.depth[at];
	for (uint32_t d = 1; d <= depth; d++) {
		size_t i = at;
		while (whole->nodes.depth[i] != d)
			i--;
		vec_push(&path, whole->frames[whole->nodes.frame[i]].name);
	}
	assert_int_equal(flame_fold(&f, v, NULL, &(struct flame_ask){ .root = path.v, .n_root = path.n }, &e), 0);
	assert_int_equal(f.root, depth);
	assert_int_equal(f.n_nodes, depth + (end - at));
	for (size_t i = at; i < end; i++) {
		const struct flame_node is = flame_node(&f, depth + i - at), should = flame_node(whole, i), *want = &should, *got = &is;
		assert_true(got->depth == want->depth && got->total.i == want->total.i && got->self.i == want->self.i);
		assert_true(view_eq(f.frames[got->frame].name, whole->frames[want->frame].name));
	}
	flame_release(&f);
	vec_free(&path);
}

static void check_vector(const struct stackvec *v)
{
	struct counts plain = { 0 }, folded = { 0 };
	struct flame f;
	struct err e = { 0 };
	int64_t total;
	assert_int_equal(flame_fold(&f, v, NULL, NULL, &e), 0);
	assert_int_equal(stackvec_total_int(v, &total, &e), 0);
	assert_int_equal(f.nodes.total[0].i, total);
	for (size_t i = 0; i < v->n; i++)
		if (v->ints[i])
			count_stack(&plain, v->symbols, symbols_get_column(v->symbols, v->columns[i])->stack, v->ints[i]);
	count_flame(&folded, &f);
	assert_int_equal(plain.v.n, folded.v.n);
	for (size_t i = 0; i < plain.v.n; i++) {
		const struct count *want = &plain.v.v[i], *got = count_of(&folded, view_of(want->name));
		if (got->self != want->self || got->total != want->total)
			print_message("%s\n", want->name);
		assert_int_equal(got->self, want->self);
		assert_int_equal(got->total, want->total);
	}
	check_functions(&plain, v);
	check_root(&f, v);
	counts_free(&plain);
	counts_free(&folded);
	flame_release(&f);
}

static bool read_file(const char *name, struct buf *out)
{
	const char *dir = getenv("PYRRHA_CORPUS"), *top = getenv("top_srcdir");
	char path[4096];
	if (dir)
		snprintf(path, sizeof path, "%s/%s", dir, name);
	else
		snprintf(path, sizeof path, "%s/../shared/corpus/%s", top ? top : ".", name);
	return buf_read_file(out, path, NULL) == 0;
}

static void test_real_profiles(void **state)
{
	static const char *const names[] = { "alloc_objects.pb.gz", "fgprof.pb.gz", "profile1.pb.gz",
					     "profile-with-labels.pb.gz", "node-unsymbolised.pb.gz" };
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct buf bytes = { 0 };
		struct err e = { 0 };
		if (!read_file(names[i], &bytes)) {
			print_message("no corpus of real profiles (PYRRHA_CORPUS): skipped\n");
			skip();
		}
		struct profile p;
		struct stackvec *v[16];
		profile_init(&p, 0);
		assert_int_equal(pprof_decode(bytes.ptr, bytes.len, NULL, &p, &e), 0);
		struct symbols *s = symbols_new();
		assert_int_equal(stackvec_from_profile(s, &p, v, &e), 0);
		for (uint32_t t = 0; t < p.n_sample_types; t++) {
			check_vector(v[t]);
			stackvec_unref(v[t]);
		}
		symbols_unref(s);
		profile_release(&p);
		buf_free(&bytes);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_real_profiles) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
