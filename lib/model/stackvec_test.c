/* SPDX-License-Identifier: Apache-2.0 */
/* The algebra: sums that stay exact, scaling, several dictionaries, and the ways in from and out to flat profiles. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/vec.h"
#include "model/stackvec.h"

static uint64_t seed;

static uint32_t pick(uint32_t below)
{
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(seed >> 33) % below;
}

/* A dictionary with n columns: column i is the stack of one location i - 1 (column 0 the empty stack). */
static struct symbols *with_columns(uint32_t n)
{
	struct symbols *s = symbols_new();
	for (uint32_t i = 1; i < n; i++) {
		uint32_t l = symbols_location(s, &(struct sym_location){ .address = i }, NULL);
		assert_int_equal(symbols_column(s, symbols_stack(s, &l, 1), 0), i);
	}
	return s;
}

static struct stackvec *vec(struct symbols *s, size_t n, const uint32_t *columns, const int64_t *values)
{
	uint32_t *c = xcalloc(n, sizeof *c);
	int64_t *v = xcalloc(n, sizeof *v);
	memcpy(c, columns, n * sizeof *c);
	memcpy(v, values, n * sizeof *v);
	return stackvec_new_ints(s, c, v, n);
}

static double value_of(const struct stackvec *v, uint32_t column)
{
	for (size_t i = 0; i < v->n; i++)
		if (v->columns[i] == column)
			return v->is_float ? v->floats[i] : (double)v->ints[i];
	return 0;
}

static void assert_ascending(const struct stackvec *v)
{
	for (size_t i = 1; i < v->n; i++)
		assert_true(v->columns[i - 1] < v->columns[i]);
}

/* Against an array; few columns and many, few additions and so many that the accumulator turns dense, which also has to
 * grow with the dictionary. */
static void accumulates_like_an_array(void **state)
{
	static const struct { uint32_t columns, adds; bool floats; } rows[] = {
		{ 5, 3, false }, { 50, 5000, false }, { 3000, 20000, false }, { 40000, 9000, false }, { 100, 9000, true },
		{ 3000, 100, true },
	};
	for (size_t r = 0; r < ARRAY_LEN(rows); r++) {
		struct symbols *s = with_columns(rows[r].columns);
		int64_t *ints = xcalloc(rows[r].columns + 100, sizeof *ints);
		double *floats = xcalloc(rows[r].columns + 100, sizeof *floats);
		struct stackacc *a = stackacc_new(s);
		struct err e;
		uint32_t limit = rows[r].columns;
		for (uint32_t i = 0; i < rows[r].adds; i++) {
			uint32_t c = pick(limit);
			int64_t v = (int64_t)pick(1000) - 500;
			if (rows[r].floats && pick(2)) {
				stackacc_add_scaled(a, c, (double)v / 4);
				floats[c] += (double)v / 4;
			} else {
				stackacc_add(a, c, v);
				ints[c] += v;
			}
			if (i == rows[r].adds / 2) /* the dictionary goes on growing */
				for (; limit < rows[r].columns + 100; limit++) {
					uint32_t l = symbols_location(s, &(struct sym_location){ .address = limit }, NULL);
					symbols_column(s, symbols_stack(s, &l, 1), 0);
				}
		}
		for (int round = 0; round < 2; round++) { /* the second time it is empty */
			struct stackvec *v = stackacc_finish(a, &e);
			assert_ascending(v);
			assert_true(v->is_float == (rows[r].floats && !round));
			uint32_t found = 0;
			for (uint32_t c = 0; c < limit; c++) {
				double want = round ? 0 : (double)ints[c] + floats[c];
				assert_true(value_of(v, c) == want);
				found += want != 0;
			}
			assert_true(v->n >= found);
			stackvec_unref(v);
		}
		stackacc_free(a);
		free(ints);
		free(floats);
		symbols_unref(s);
	}
}

static void sums_are_exact(void **state)
{
	struct symbols *s = with_columns(4);
	struct err e = { 0 };
	int64_t big = ((int64_t)1 << 53) + 1, total;
	struct stackvec *a = vec(s, 2, (uint32_t[]){ 1, 2 }, (int64_t[]){ big, -3 });
	struct stackvec *b = vec(s, 2, (uint32_t[]){ 1, 3 }, (int64_t[]){ 1, INT64_MIN });
	struct stackvec *sum = stackvec_sum(s, (struct stackvec *[]){ a, b }, NULL, 2, &e);
	assert_false(sum->is_float);
	assert_true(sum->n == 3 && sum->ints[0] == big + 1 && sum->ints[1] == -3 && sum->ints[2] == INT64_MIN);
	struct stackvec *diff = stackvec_sum(s, (struct stackvec *[]){ a, a }, (double[]){ 1, -1 }, 2, &e);
	assert_false(diff->is_float);
	assert_true(stackvec_total_int(diff, &total, &e) == 0 && total == 0);
	assert_int_equal(stackvec_total_int(a, &total, &e), 0);
	assert_true(total == big - 3);
	stackvec_unref(a);
	stackvec_unref(b);
	stackvec_unref(sum);
	stackvec_unref(diff);
	symbols_unref(s);
}

static void overflow_is_an_error(void **state)
{
	struct symbols *s = with_columns(3);
	struct err e = { 0 };
	int64_t total;
	struct stackvec *most = vec(s, 2, (uint32_t[]){ 1, 2 }, (int64_t[]){ INT64_MAX, 1 });
	struct stackvec *least = vec(s, 1, (uint32_t[]){ 1 }, (int64_t[]){ INT64_MIN });
	assert_null(stackvec_sum(s, (struct stackvec *[]){ most, most }, NULL, 2, &e));
	assert_int_equal(e.code, ERR_EXECUTION);
	err_clear(&e);
	assert_null(stackvec_sum(s, (struct stackvec *[]){ least }, (double[]){ -1 }, 1, &e));
	assert_int_equal(e.code, ERR_EXECUTION);
	assert_int_equal(stackvec_total_int(most, &total, &e), -ERR_EXECUTION);
	assert_true(stackvec_total(most) == 0x1p63);
	struct stackacc *a = stackacc_new(s); /* an accumulator that overflowed can be used again, dense too */
	for (int i = 0; i < 5000; i++)
		stackacc_add(a, 1, INT64_MAX / 2);
	assert_null(stackacc_finish(a, &e));
	stackacc_add(a, 1, 5);
	struct stackvec *v = stackacc_finish(a, &e);
	assert_true(v && v->n == 1 && v->ints[0] == 5);
	stackvec_unref(v);
	stackacc_free(a);
	stackvec_unref(most);
	stackvec_unref(least);
	symbols_unref(s);
}

static struct stackvec *scaled(struct stackvec *v, double by)
{
	struct err e;
	return stackvec_sum(v->symbols, &v, &by, 1, &e);
}

static void scaling(void **state)
{
	struct symbols *s = with_columns(3);
	struct err e;
	struct stackvec *v = vec(s, 2, (uint32_t[]){ 1, 2 }, (int64_t[]){ 3, -8 });
	struct stackvec *same = scaled(v, 1), *half = scaled(v, 0.5);
	assert_true(!same->is_float && same->n == 2 && same->ints[1] == -8);
	assert_true(half->is_float && half->floats[0] == 1.5 && half->floats[1] == -4);
	assert_true(stackvec_total(half) == -2.5);
	struct stackvec *mixed = stackvec_sum(s, (struct stackvec *[]){ v, half }, (double[]){ 1, -2 }, 2, &e);
	assert_true(mixed->is_float && value_of(mixed, 1) == 0 && value_of(mixed, 2) == 0);
	struct stackvec *empty = stackvec_empty(s), *nothing = scaled(empty, 2);
	assert_int_equal(nothing->n, 0);
	assert_true(stackvec_total(nothing) == 0);
	stackvec_unref(v);
	stackvec_unref(same);
	stackvec_unref(half);
	stackvec_unref(mixed);
	stackvec_unref(empty);
	stackvec_unref(nothing);
	symbols_unref(s);
}

static void several_dictionaries(void **state)
{
	struct symbols *a = with_columns(100), *b = symbols_new();
	struct err e;
	uint32_t columns[50];
	int64_t values[50];
	for (uint32_t i = 50; i-- > 0;) { /* the same stacks, numbered backwards */
		uint32_t l = symbols_location(b, &(struct sym_location){ .address = i + 1 }, NULL);
		symbols_column(b, symbols_stack(b, &l, 1), 0);
	}
	for (uint32_t i = 0; i < 50; i++) {
		columns[i] = i + 1;
		values[i] = i + 1;
	}
	struct stackvec *x = vec(a, 50, columns, values), *y = vec(b, 50, columns, values);
	struct stackvec *sum = stackvec_sum(a, (struct stackvec *[]){ x, y }, NULL, 2, &e);
	assert_ascending(sum);
	for (uint32_t i = 1; i <= 50; i++)
		assert_true(value_of(sum, i) == i + (51 - i));
	struct stackvec *same = stackvec_rebase(x, a, &e), *moved = stackvec_rebase(y, a, &e);
	assert_ptr_equal(same, x);
	assert_ptr_equal(moved->symbols, a);
	assert_true(value_of(moved, 1) == 50);
	stackvec_unref(x);
	stackvec_unref(y);
	stackvec_unref(sum);
	stackvec_unref(same);
	stackvec_unref(moved);
	symbols_unref(a);
	symbols_unref(b);
}

/* ---- flat profiles ---- */

/* main (in /bin/app) called from libc's start; mapping 0 is the binary. Samples: the same stack twice, once with a
 * label, one all zero, one whose types cancel out. */
static void make_profile(struct profile *p)
{
	static struct view strings[] = { { "", 0 }, { "libc.so.6", 9 }, { "/bin/app", 8 }, { "main", 4 }, { "start", 5 },
					 { "cpu", 3 }, { "ns", 2 }, { "k", 1 }, { "v", 1 } };
	static struct profile_value_type types[] = { { 7, 8 }, { 5, 6 } };
	static struct profile_mapping mappings[] = { { .start = 0x400000, .limit = 0x500000, .file_str = 2, .has_functions = true },
						     { .start = 0x10000, .limit = 0x20000, .file_str = 1 } };
	static struct profile_function functions[] = { { 3, 3, 2, 10 }, { 4, 4, 1, 0 } };
	static struct profile_line lines[] = { { 1, 11, 2 }, { 2, 0, 0 } };
	static struct profile_location locations[] = { { 0x10010, 2, 1, 1, false }, { 0x400010, 1, 0, 1, true } };
	static uint32_t stack[] = { 1, 0, 1, 0, 0, 0 };
	static struct profile_label labels[] = { { .key_str = 7, .str = 8 }, { .key_str = 7, .is_num = true, .num = 0 } };
	static struct profile_sample samples[] = { { 0, 2, 0, 0 }, { 2, 2, 0, 0 }, { 0, 2, 0, 2 }, { 4, 1, 0, 0 }, { 5, 1, 0, 0 } };
	static int64_t values[] = { 1, 10, 2, -20, 4, 40, 0, 0, 0, 0 };
	profile_init(p, 0);
	p->strings = strings, p->n_strings = ARRAY_LEN(strings);
	p->sample_types = types, p->n_sample_types = ARRAY_LEN(types);
	p->mappings = mappings, p->n_mappings = ARRAY_LEN(mappings);
	p->functions = functions, p->n_functions = ARRAY_LEN(functions);
	p->lines = lines, p->n_lines = ARRAY_LEN(lines);
	p->locations = locations, p->n_locations = ARRAY_LEN(locations);
	p->stack = stack, p->n_stack = ARRAY_LEN(stack);
	p->labels = labels, p->n_labels = ARRAY_LEN(labels);
	p->samples = samples, p->n_samples = ARRAY_LEN(samples);
	p->values = values;
}

static const struct stackvec_type two_types[] = { { { "k", 1 }, { "v", 1 } }, { { "cpu", 3 }, { "ns", 2 } } };

static void in_and_out(void **state)
{
	struct profile p, out;
	struct symbols *s = symbols_new();
	struct stackvec *v[2];
	struct err e;
	make_profile(&p);
	profile_init(&out, 0);
	assert_int_equal(profile_check(&p, &e), 0);
	assert_int_equal(stackvec_from_profile(s, &p, v, &e), 0);
	assert_true(stackvec_total(v[0]) == 7 && stackvec_total(v[1]) == 30);
	assert_int_equal(stackvec_to_profile(v, two_types, 2, &out, &e), 0);
	assert_int_equal(profile_check(&out, &e), 0);
	assert_int_equal(out.n_samples, 2); /* the zeros are gone */
	assert_int_equal(out.values[0], 3);
	assert_int_equal(out.values[1], -10);
	assert_int_equal(out.samples[1].n_labels, 2);
	assert_int_equal(out.n_locations, 2);
	assert_int_equal(out.n_functions, 2);
	assert_true(view_eqs(profile_str(&out, out.sample_types[1].unit_str), "ns"));
	/* the binary first, the library after it, and locations still in theirs */
	assert_true(view_eqs(profile_str(&out, out.mappings[0].file_str), "/bin/app"));
	assert_true(out.mappings[0].has_functions && !out.mappings[1].has_functions);
	const struct profile_location *leaf = &out.locations[out.stack[0]], *root = &out.locations[out.stack[1]];
	assert_true(leaf->address == 0x400010 && leaf->mapping == 1 && leaf->is_folded);
	assert_true(root->address == 0x10010 && root->mapping == 2 && !root->is_folded);
	assert_int_equal(out.lines[leaf->first_line].column, 2);
	stackvec_unref(v[0]);
	stackvec_unref(v[1]);
	symbols_unref(s);
	profile_release(&out);
	profile_release(&p);
}

/* One sample of the given value whose leaf is in mapping `leaf` and whose root in mapping `root` (1 = the first). */
static void two_mappings(struct profile *p, struct view first, struct view second, uint32_t leaf, uint32_t root, int64_t value)
{
	profile_init(p, 0);
	struct view *strings = arena_alloc(&p->arena, 3 * sizeof *strings);
	p->mappings = arena_calloc(&p->arena, 2, sizeof *p->mappings);
	p->locations = arena_calloc(&p->arena, 2, sizeof *p->locations);
	p->samples = arena_calloc(&p->arena, 1, sizeof *p->samples);
	p->sample_types = arena_calloc(&p->arena, 1, sizeof *p->sample_types);
	p->stack = arena_calloc(&p->arena, 2, sizeof *p->stack);
	p->values = arena_calloc(&p->arena, 1, sizeof *p->values);
	strings[0] = VIEW("");
	strings[1] = first;
	strings[2] = second;
	p->strings = strings, p->n_strings = 3;
	for (uint32_t i = 0; i < 2; i++) {
		p->mappings[i] = (struct profile_mapping){ .start = 0x1000 << 4 * i, .limit = 0x2000 << 4 * i, .file_str = i + 1 };
		p->locations[i] = (struct profile_location){ .address = 0x1800 << 4 * i, .mapping = i + 1 };
	}
	p->n_mappings = p->n_locations = p->n_stack = 2;
	p->stack[0] = leaf - 1;
	p->stack[1] = root - 1;
	p->samples[0].n_locations = 2;
	p->n_samples = p->n_sample_types = 1;
	p->values[0] = value;
}

/* Merges p[0..n) by way of a second dictionary, and tells what the main binary of that is. */
static void assert_main(const char *want, struct profile *p, size_t n)
{
	struct symbols *s = symbols_new(), *to = symbols_new();
	struct stackacc *a = stackacc_new(to);
	struct profile out;
	struct err e = { 0 };
	for (size_t i = 0; i < n; i++) {
		struct stackvec *v;
		assert_int_equal(stackvec_from_profile(s, &p[i], &v, &e), 0);
		assert_int_equal(stackacc_add_vec(a, v, 1, &e), 0);
		stackvec_unref(v);
		profile_release(&p[i]);
	}
	struct stackvec *sum = stackacc_finish(a, &e);
	profile_init(&out, 0);
	assert_int_equal(stackvec_to_profile(&sum, two_types, 1, &out, &e), 0);
	assert_int_equal(profile_check(&out, &e), 0);
	assert_int_equal(out.n_mappings, n == 1 ? 2 : out.n_mappings); /* marks are nobody's mapping */
	struct view file = profile_str(&out, out.mappings[0].file_str);
	if (!view_eqs(file, want))
		fail_msg("the main binary is %.*s, not %s", VIEW_ARG(file), want);
	assert_true(profile_without_main(&out));
	assert_int_equal(profile_check(&out, &e), 0);
	assert_int_equal(profile_str(&out, out.mappings[0].file_str).len, 0);
	for (uint32_t i = 0; i < out.n_locations; i++)
		assert_true(out.locations[i].mapping > 1);
	profile_release(&out);
	stackacc_free(a);
	stackvec_unref(sum);
	symbols_unref(s);
	symbols_unref(to);
}

/* A profile's first mapping is its main binary, whatever it is called and wherever it is in a stack. */
static void the_main_binary_is_kept(void **state)
{
	struct profile p[2];
	two_mappings(&p[0], VIEW("/lib/plugin.so"), VIEW("/bin/helper"), 2, 1, 5);
	assert_main("/lib/plugin.so", p, 1);
	two_mappings(&p[0], VIEW("/bin/small"), VIEW("/lib/libc.so.6"), 2, 1, 5);
	two_mappings(&p[1], VIEW("/bin/large"), VIEW("/lib/libc.so.6"), 2, 1, -50);
	assert_main("/bin/large", p, 2);
	/* Nothing says it: a nameless first mapping. */
	two_mappings(&p[0], VIEW(""), VIEW("/bin/app"), 1, 2, 5);
	assert_main("/bin/app", p, 1);
}

static void floats_out(void **state)
{
	struct symbols *s = with_columns(6);
	struct profile out;
	struct err e = { 0 };
	uint32_t *c = xcalloc(5, sizeof *c);
	double *x = xcalloc(5, sizeof *x);
	for (uint32_t i = 0; i < 5; i++) {
		c[i] = i + 1;
		x[i] = ((double[]){ 0.5, -0.5, 0.4, -2.5, 1e18 })[i];
	}
	struct stackvec *v = stackvec_new_floats(s, c, x, 5), *w;
	profile_init(&out, 0);
	assert_int_equal(stackvec_to_profile(&v, two_types, 1, &out, &e), 0);
	assert_int_equal(out.n_samples, 4); /* 0.4 is nothing */
	assert_true(out.values[0] == 1 && out.values[1] == -1 && out.values[2] == -3 && out.values[3] == 1000000000000000000);
	static const double bad[] = { 1e3, INFINITY, NAN };
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		w = scaled(v, bad[i]);
		assert_int_equal(stackvec_to_profile(&w, two_types, 1, &out, &e), -ERR_EXECUTION);
		assert_int_equal(out.n_samples, 0);
		stackvec_unref(w);
	}
	out.arena.max = 100;
	assert_int_equal(stackvec_to_profile(&v, two_types, 1, &out, &e), -ERR_LIMIT);
	assert_int_equal(stackvec_to_profile(&v, two_types, 0, &out, &e), -ERR_INTERNAL);
	stackvec_unref(v);
	profile_release(&out);
	symbols_unref(s);
}

/* A sum of fractions is the same in whatever order they come, few or many. */
static void floats_in_any_order(void **state)
{
	for (uint32_t n = 3; n < 20000; n *= 20) {
		struct symbols *s = with_columns(4);
		struct stackacc *a[2] = { stackacc_new(s), stackacc_new(s) };
		struct err e = { 0 };
		double *v = xcalloc(n, sizeof *v);
		for (uint32_t i = 0; i < n; i++) {
			v[i] = (1 + pick(1u << 30)) / 7.;
			stackacc_add_scaled(a[0], 1, v[i]);
		}
		for (uint32_t i = n; i-- > 0;)
			stackacc_add_scaled(a[1], 1, v[i]);
		struct stackvec *x = stackacc_finish(a[0], &e), *y = stackacc_finish(a[1], &e);
		assert_true(value_of(x, 1) == value_of(y, 1));
		stackvec_unref(x);
		stackvec_unref(y);
		stackacc_free(a[0]);
		stackacc_free(a[1]);
		symbols_unref(s);
		free(v);
	}
}

/* A few fractions in a large dictionary are not added up in an array over all of it, and are the same bit by bit. */
static void few_floats(void **state)
{
	struct symbols *s[2] = { with_columns(300), with_columns(40000) };
	for (uint32_t round = 0; round < 50; round++) {
		struct stackacc *a[2] = { stackacc_new(s[0]), stackacc_new(s[1]) };
		struct stackvec *v[2];
		struct err e = { 0 };
		for (uint32_t i = 0, n = 20 + pick(1000); i < n; i++) {
			uint32_t column = pick(300);
			bool whole = pick(3) == 0;
			int64_t value = (int64_t)pick(1000) - 300;
			for (int k = 0; k < 2; k++) {
				if (whole)
					stackacc_add(a[k], column, value);
				else
					stackacc_add_scaled(a[k], column, (double)value / 7);
			}
		}
		for (int k = 0; k < 2; k++) {
			stackacc_add_scaled(a[k], 299, 0.5);
			v[k] = stackacc_finish(a[k], &e);
			stackacc_free(a[k]);
			assert_ascending(v[k]);
		}
		assert_int_equal(v[0]->n, v[1]->n);
		assert_memory_equal(v[0]->columns, v[1]->columns, v[0]->n * sizeof *v[0]->columns);
		assert_memory_equal(v[0]->floats, v[1]->floats, v[0]->n * sizeof *v[0]->floats);
		stackvec_unref(v[0]);
		stackvec_unref(v[1]);
	}
	symbols_unref(s[0]);
	symbols_unref(s[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(accumulates_like_an_array), cmocka_unit_test(sums_are_exact),
		cmocka_unit_test(overflow_is_an_error), cmocka_unit_test(scaling), cmocka_unit_test(several_dictionaries),
		cmocka_unit_test(in_and_out), cmocka_unit_test(the_main_binary_is_kept),
		cmocka_unit_test(floats_out), cmocka_unit_test(floats_in_any_order), cmocka_unit_test(few_floats),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
