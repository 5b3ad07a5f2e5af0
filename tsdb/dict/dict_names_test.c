/* SPDX-License-Identifier: Apache-2.0 */
/* Names of several days, made of random dictionaries with lines, files, labels and frames without names, are joined: each column of each day has the
 * stack that it had. What is malformed is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "model/frame.h"
#include "tsdb/dict/dict_names.h"
#include "tsdb/testkit.h"

#define COLUMNS 400

static uint32_t text(struct symbols *s, const char *what, uint64_t n)
{
	char b[64];
	snprintf(b, sizeof b, "%s%llu", what, (unsigned long long)n);
	return symbols_string(s, view_of(b));
}

/* A location of a build: its address depends on the build, its names do not, or hardly. */
static uint32_t location(struct symbols *s, uint64_t n, uint64_t build)
{
	struct sym_line lines[3];
	struct sym_mapping m = { .start = 0x1000 * build, .size = 0x1000, .offset = 0x100 * build, .file = n % 11 ? text(s, "/bin/b", n % 3) : 0 };
	m.build_id = text(s, "build", build);
	struct sym_location l = { .address = n * 16 + build, .n_lines = n % 4 };
	if (n % 7)
		l.mapping = symbols_mapping(s, &m) + 1;
	for (uint32_t i = 0; i < l.n_lines; i++) {
		struct sym_function f = { .name = n % 13 ? text(s, "f", n / 2 + i) : 0, .filename = text(s, "file", n % 5), .start_line = (int64_t)n };
		lines[i] = (struct sym_line){ .function = n % 17 ? symbols_function(s, &f) + 1 : 0, .line = (int64_t)(n + (n % 3 ? 0 : build)), .column = (int64_t)build };
	}
	return symbols_location(s, &l, lines);
}

static struct symbols *dictionary(uint64_t seed, uint64_t build)
{
	struct symbols *s = symbols_new();
	while (symbols_count(s, SYMBOLS_COLUMNS) < COLUMNS) {
		uint32_t stack[20], n = (uint32_t)(kit_random(&seed) % 20), labels = 0;
		for (uint32_t i = 0; i < n; i++)
			stack[i] = location(s, kit_random(&seed) % (i + 2 > 19 ? 3 : 60), build);
		if (kit_random(&seed) % 5 == 0) {
			struct sym_label l = { .key = text(s, "key", 1), .str = text(s, "value", kit_random(&seed) % 4) };
			labels = symbols_label_set(s, &l, 1);
		}
		symbols_column(s, symbols_stack(s, stack, n), labels);
	}
	return s;
}

static void put_text(struct buf *b, const struct symbols *s, uint32_t column)
{
	const struct sym_column *c = symbols_get_column(s, column);
	uint32_t locations[32];
	size_t n = symbols_stack_locations(s, c->stack, locations, 32), labels;
	struct buf tmp = { 0 };
	for (size_t i = 0; i < n; i++) {
		const struct sym_location *l = symbols_get_location(s, locations[i]);
		for (uint32_t k = 0; k < frame_count(l); k++) {
			const struct sym_function *f = frame_function(s, l, k);
			buf_putv(b, frame_name(s, l, k, &tmp));
			buf_printf(b, "|%lld|%lld|", (long long)frame_line(s, l, k), f ? (long long)f->start_line : -1);
			buf_putv(b, frame_file(s, l, k));
			buf_putc(b, '|');
			buf_putv(b, frame_binary(s, l));
			buf_putc(b, l->mapping ? ';' : ',');
		}
	}
	const struct sym_label *of = symbols_get_label_set(s, c->label_set, &labels);
	for (size_t i = 0; i < labels; i++)
		buf_putv(b, symbols_get_string(s, of[i].str));
	buf_putc(b, 0);
	buf_free(&tmp);
}

static void pack(struct buf *b, const struct symbols *s, uint64_t late)
{
	struct symbols *names = symbols_new();
	struct symbols_map *map = symbols_map_new(s, names, SYMBOLS_NAMES);
	uint32_t *place;
	for (uint32_t i = 0; i < symbols_count(s, SYMBOLS_COLUMNS); i++)
		if (i % 9)
			symbols_map_column(map, i);
	uint32_t n = symbols_map_columns(map, &place);
	dict_names_put(b, names, place, n, late);
	free(place);
	symbols_map_free(map);
	symbols_unref(names);
}

static void join(const struct buf *b, const struct symbols *s, struct symbols *to)
{
	uint32_t *place, n;
	struct err e;
	assert_int_equal(dict_names_join(buf_view(b), to, 77, &place, &n, &e), 0);
	assert_int_equal(n, symbols_count(s, SYMBOLS_COLUMNS));
	for (uint32_t i = 0; i < n; i++) {
		struct buf x = { 0 }, y = { 0 };
		assert_int_equal(place[i] != 0, i % 9 != 0);
		if (!place[i])
			continue;
		put_text(&x, s, i);
		put_text(&y, to, place[i] - 1);
		assert_string_equal(x.ptr, y.ptr);
		buf_free(&x);
		buf_free(&y);
	}
	free(place);
}

static void test_days(void **state)
{
	struct symbols *to = symbols_new();
	uint32_t one = 0;
	(void)state;
	for (uint64_t day = 0; day < 6; day++) {
		struct symbols *s = dictionary(day < 3 ? 5 : day, day);
		struct buf b = { 0 }, again = { 0 };
		pack(&b, s, 77);
		pack(&again, s, 77);
		assert_int_equal(b.len, again.len);
		assert_memory_equal(b.ptr, again.ptr, b.len);
		join(&b, s, to);
		if (!day)
			one = symbols_count(to, SYMBOLS_COLUMNS);
		join(&b, s, to);
		if (day < 3) /* the same stacks of other builds: some lines differ */
			assert_true(symbols_count(to, SYMBOLS_COLUMNS) < one * 3);
		buf_free(&b);
		buf_free(&again);
		symbols_unref(s);
	}
	symbols_unref(to);
}

static int read_names(struct view v, uint64_t late)
{
	struct symbols *to = symbols_new();
	uint32_t *place, n;
	struct err e;
	int rc = dict_names_join(v, to, late, &place, &n, &e);
	if (!rc)
		free(place);
	symbols_unref(to);
	return rc;
}

static void test_what_is_refused(void **state)
{
	struct symbols *s = dictionary(3, 1), *none = symbols_new();
	struct buf b = { 0 };
	uint64_t seed = 9;
	(void)state;
	pack(&b, none, 0);
	assert_int_equal(read_names(buf_view(&b), 0), 0);
	buf_reset(&b);
	pack(&b, s, 77);
	assert_int_equal(read_names(buf_view(&b), 77), 0);
	assert_int_equal(read_names(buf_view(&b), 0), -ERR_NOT_FOUND);
	for (size_t i = 0; i < b.len; i += 1 + kit_random(&seed) % 40)
		assert_int_not_equal(read_names(view_make(b.ptr, i), 77), 0);
	buf_putc(&b, 0);
	assert_int_equal(read_names(buf_view(&b), 77), -ERR_CORRUPT);
	b.len--;
	for (size_t i = 0; i < 3000; i++) {
		size_t at = kit_random(&seed) % b.len;
		char was = b.ptr[at];
		b.ptr[at] ^= (char)(1 << kit_random(&seed) % 8);
		IGNORE(read_names(buf_view(&b), 77)); /* or other names: values have a checksum */
		b.ptr[at] = was;
	}
	buf_free(&b);
	symbols_unref(s);
	symbols_unref(none);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_days), cmocka_unit_test(test_what_is_refused) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
