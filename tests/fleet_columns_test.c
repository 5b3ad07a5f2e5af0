/* SPDX-License-Identifier: Apache-2.0 */
/* Real profiles (of PYRRHA_CORPUS) and large made-up ones from one server to another (lib/fleet/dictionary.h): what arrives is what was sent, and says what a
 * column takes, in bytes and time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/map.h"
#include "fleet/dictionary.h"
#include "pprof/pprof.h"

#define MAX_BYTES ((size_t)64 << 20)

/* The same stacks with the same values. */
static void same(struct stackvec *a, struct stackvec *b)
{
	struct symbols *s = symbols_new();
	struct err e;
	struct stackvec *x = stackvec_rebase(a, s, &e), *y = stackvec_rebase(b, s, &e);
	assert_int_equal(x->is_float, y->is_float);
	assert_int_equal(x->n, y->n);
	if (x->n) {
		assert_memory_equal(x->columns, y->columns, x->n * sizeof *x->columns);
		assert_memory_equal(x->ints, y->ints, x->n * sizeof *x->ints); /* or floats, bit by bit */
	}
	stackvec_unref(x);
	stackvec_unref(y);
	symbols_unref(s);
}

/* n columns in the order of a dictionary of their own: chains of up to 40 frames, of so many locations. unit 0: doubles. */
static struct stackvec *made_vector(size_t n, uint32_t of, int64_t unit)
{
	struct symbols *s = symbols_new();
	struct stackacc *a = stackacc_new(s);
	struct err e;
	uint64_t random = 5;
	for (size_t i = 0; i < n; i++) {
		uint32_t locations[40];
		random = hash_u64(random);
		size_t depth = 1 + random % ARRAY_LEN(locations);
		for (size_t k = 0; k < depth; k++) {
			char name[40];
			snprintf(name, sizeof name, "main.(*Server).function%u", (unsigned)((random / 64 + k * 7) % of));
			uint32_t str = symbols_string(s, view_of(name));
			struct sym_line line = { symbols_function(s, &(struct sym_function){ .name = str }) + 1, 7, 0 };
			locations[k] = symbols_location(s, &(struct sym_location){ .n_lines = 1 }, &line);
		}
		uint32_t column = symbols_column(s, symbols_stack(s, locations, depth), 0);
		if (unit)
			stackacc_add(a, column, (int64_t)(1 + random / 128 % 900) * unit);
		else
			stackacc_add_scaled(a, column, (double)(random / 128 % 900) / 7);
	}
	struct stackvec *v = stackacc_finish(a, &e);
	stackacc_free(a);
	symbols_unref(s);
	return v;
}

static void put(struct fleet_dictionary_out *d, struct buf *out, struct stackvec *v, const struct symbols_marks *has)
{
	struct err e = { 0 };
	const struct stackvec *const one[] = { v };
	if (fleet_dictionary_put(d, out, one, 1, SYMBOLS_WHOLE, has, &e))
		print_message("%s\n", e.msg);
	assert_int_equal(e.code, 0);
}

static struct stackvec *take(struct fleet_dictionary_in *d, struct buf *answer)
{
	struct cursor c = cursor_of(buf_view(answer));
	struct stackvec *v;
	struct err e = { 0 };
	if (fleet_dictionary_take(d, 1, &c, &v, 1, &e))
		print_message("%s\n", e.msg);
	assert_int_equal(e.code, 0);
	return v;
}

static bool read_profile(const char *name, struct profile *p)
{
	const char *dir = getenv("PYRRHA_CORPUS"), *top = getenv("top_srcdir");
	struct buf bytes = { 0 };
	struct err e = { 0 };
	char path[4096];
	if (dir)
		snprintf(path, sizeof path, "%s/%s", dir, name);
	else
		snprintf(path, sizeof path, "%s/../shared/corpus/%s", top ? top : ".", name);
	bool there = !buf_read_file(&bytes, path, NULL);
	profile_init(p, 0);
	if (there)
		assert_int_equal(pprof_decode(bytes.ptr, bytes.len, NULL, p, &e), 0);
	buf_free(&bytes);
	return there;
}

/* The same vector over a dictionary that has its columns the other way round. */
static struct stackvec *reversed(struct stackvec *v)
{
	struct symbols *s = symbols_new();
	struct symbols_map *map = symbols_map_new(v->symbols, s, SYMBOLS_WHOLE);
	struct err e;
	for (size_t i = v->n; i--;)
		symbols_map_column(map, v->columns[i]);
	struct stackvec *r = stackvec_rebase(v, s, &e);
	symbols_map_free(map);
	symbols_unref(s);
	return r;
}

/* Says what columns cost: bytes, and time of all that is done with them. met: what the dictionary has met before; may be NULL. */
static void measure(const char *name, struct stackvec *v, struct stackvec *met)
{
	struct fleet_dictionary_out *out = fleet_dictionary_out_new();
	struct fleet_dictionary_in *in = fleet_dictionary_in_new(MAX_BYTES);
	struct symbols_marks has;
	uint64_t id;
	struct buf b = { 0 };
	fleet_dictionary_in_marks(in, &id, &has);
	if (met)
		put(out, &b, met, &has);
	size_t first = 0, warm = 0;
	int64_t put_ns = INT64_MAX, take_ns = INT64_MAX;
	for (int i = 0; i < 10; i++) {
		buf_reset(&b);
		int64_t t = clock_mono_ns();
		put(out, &b, v, &has);
		put_ns = MIN(put_ns, clock_mono_ns() - t);
		t = clock_mono_ns();
		struct stackvec *got = take(in, &b);
		take_ns = MIN(take_ns, clock_mono_ns() - t);
		if (i < 2)
			same(v, got);
		stackvec_unref(got);
		*(i ? &warm : &first) = b.len;
		fleet_dictionary_in_marks(in, &id, &has);
	}
	double n = v->n ? (double)v->n : 1;
	print_message("%-26s %6zu columns: %5.2f bytes (the first time %6.2f), put %5.1f ns, take %5.1f ns a column\n", name, v->n, (double)warm / n,
		      (double)first / n, (double)put_ns / n, (double)take_ns / n);
	buf_free(&b);
	fleet_dictionary_in_free(in);
	fleet_dictionary_out_free(out);
}

static void real_profiles(void **state)
{
	static const char *const names[] = { "alloc_objects.pb.gz", "alloc_space_delta.pb.gz", "fgprof.pb.gz", "profile1.pb.gz", "profile-with-labels.pb.gz",
					     "node-unsymbolised.pb.gz" };
	struct symbols *s = symbols_new();
	size_t there = 0;
	struct err e;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct profile p;
		struct stackvec *v[16];
		if (read_profile(names[i], &p)) {
			there++;
			assert_int_equal(stackvec_from_profile(s, &p, v, &e), 0);
			for (uint32_t t = 0; t < p.n_sample_types; t++) {
				measure(names[i], v[t], NULL);
				stackvec_unref(v[t]);
			}
		}
		profile_release(&p);
	}
	symbols_unref(s);
	if (!there) {
		print_message("no corpus of real profiles (PYRRHA_CORPUS): skipped\n");
		skip();
	}
}

static void made_up_profiles(void **state)
{
	static const struct { const char *name; int64_t unit; } rows[] = { { "CPU time", 10000000 }, { "counts", 1 }, { "doubles", 0 } };
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct stackvec *v = made_vector(100000, 5000, rows[i].unit), *met = reversed(v);
		measure(rows[i].name, v, NULL);
		measure("  met in another order", v, met);
		stackvec_unref(met);
		stackvec_unref(v);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(real_profiles), cmocka_unit_test(made_up_profiles) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
