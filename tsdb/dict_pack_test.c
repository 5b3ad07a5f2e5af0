/* SPDX-License-Identifier: Apache-2.0 */
/* Symbols in columns become the rows that they were; damaged ones are refused or become other rows, and nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "base/alloc.h"
#include "tsdb/dict.h"
#include "tsdb/dict_pack.h"
#include "tsdb/testkit.h"

static void put_section(struct buf *b, enum dict_table t, uint64_t first, uint64_t n)
{
	buf_putc(b, (char)t);
	buf_varint(b, first);
	buf_varint(b, n);
}

static void put_many(struct buf *b, const uint64_t *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		buf_varint(b, v[i]);
}
#define PUT(b, ...) put_many(b, (const uint64_t[]){ __VA_ARGS__ }, sizeof (const uint64_t[]){ __VA_ARGS__ } / sizeof(uint64_t))

/* Returns how many bytes it takes in columns. */
static size_t goes_round(const struct buf *rows)
{
	struct buf packed = { 0 }, again = { 0 };
	struct err e;
	assert_int_equal(dict_pack(&packed, buf_view(rows), &e), 0);
	assert_int_equal(dict_unpack(&again, buf_view(&packed), &e), 0);
	assert_int_equal(again.len, rows->len);
	assert_memory_equal(again.ptr, rows->ptr, rows->len);
	size_t n = packed.len;
	buf_free(&packed);
	buf_free(&again);
	return n;
}

/* Texts that look like numbers, and such that only nearly do. */
static void test_strings(void **state)
{
	static const char *const texts[] = { "4711", "4712", "4710", "0", "00", "007", "", "-1", "1a", "999999999999999999",
					     "1000000000000000000", "18446744073709551616", "99999999999999999999999", "12 ", "main.main" };
	struct buf b = { 0 };
	put_section(&b, DICT_STRINGS, 77, ARRAY_LEN(texts));
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		buf_varint(&b, strlen(texts[i]));
		buf_puts(&b, texts[i]);
	}
	goes_round(&b);
	buf_free(&b);
}

/* Extreme numbers in every field, in rows that go up and down. */
static void test_numbers(void **state)
{
	static const uint64_t n[] = { 0, 1, UINT64_MAX, 5, UINT64_MAX - 1, INT64_MAX, (uint64_t)INT64_MAX + 1, 0, 127, 128 };
	const size_t all = ARRAY_LEN(n);
	struct buf b = { 0 };
	put_section(&b, DICT_MAPPINGS, 0, all);
	for (size_t i = 0; i < all; i++) {
		PUT(&b, n[i], n[(i + 1) % all], n[(i + 2) % all], n[(i + 3) % all], n[(i + 4) % all]);
		buf_putc(&b, (char)(i * 29));
	}
	put_section(&b, DICT_FUNCTIONS, 3, all);
	for (size_t i = 0; i < all; i++)
		PUT(&b, n[i], n[(i + 3) % all], n[(i + 5) % all], n[(i + 7) % all]);
	put_section(&b, DICT_LOCATIONS, 0, all);
	for (size_t i = 0; i < all; i++) {
		PUT(&b, n[i], n[(i + 1) % all], i % 4 << 1 | i % 2);
		for (size_t k = 0; k < i % 4; k++)
			PUT(&b, n[(i + k) % all], n[(i + k + 1) % all], n[(i + k + 2) % all]);
	}
	put_section(&b, DICT_NODES, 1 << 20, 0);
	put_section(&b, DICT_NODES, 1, all);
	for (size_t i = 0; i < all; i++)
		PUT(&b, n[i], n[all - 1 - i]);
	put_section(&b, DICT_STACKS, 1, all);
	for (size_t i = 0; i < all; i++)
		PUT(&b, n[i]);
	put_section(&b, DICT_COLUMNS, 1, all);
	for (size_t i = 0; i < all; i++)
		PUT(&b, n[i], i == 4 ? UINT32_MAX : i * 1000 % 7777);
	put_section(&b, DICT_SERIES, 0, 2);
	buf_putc(&b, 0);
	PUT(&b, 1, 300, 400);
	buf_putc(&b, (char)0x81);
	PUT(&b, 1, 2, 3, 4, 500, 2, 10, 11, 12, 1300);
	goes_round(&b);
	buf_free(&b);
}

/* Sets with and without the key that changes, with it twice, of numbers with units, equal ones, empty ones. */
static void test_label_sets(void **state)
{
	struct buf b = { 0 };
	put_section(&b, DICT_LABEL_SETS, 1, 8);
	PUT(&b, 3, 10 << 1, 20, 11 << 1, 1000, 12 << 1, 30);
	PUT(&b, 3, 10 << 1, 20, 11 << 1, 1001, 12 << 1, 30);
	PUT(&b, 0);
	PUT(&b, 2, 11 << 1, 1002, 11 << 1, 1003);
	PUT(&b, 1, 0 << 1 | 1, 77, 5);
	PUT(&b, 3, 10 << 1, 20, 11 << 1 | 1, 1001, 9, 12 << 1, 30);
	PUT(&b, 3, 10 << 1, 20, 11 << 1, 1001, 12 << 1, 30);
	PUT(&b, 1, 10 << 1, 20);
	goes_round(&b);
	buf_reset(&b);
	put_section(&b, DICT_LABEL_SETS, 9, 1); /* nothing changes in it */
	PUT(&b, 1, 0 << 1, 0);
	goes_round(&b);
	buf_free(&b);
}

/* What short-lived processes bring takes next to nothing. */
static void test_short_lived(void **state)
{
	struct buf b = { 0 };
	const uint64_t n = 1000;
	put_section(&b, DICT_STRINGS, 500, n);
	for (uint64_t i = 0; i < n; i++) {
		char pid[16];
		buf_varint(&b, (uint64_t)snprintf(pid, sizeof pid, "%u", (unsigned)(30000 + 3 * i)));
		buf_puts(&b, pid);
	}
	put_section(&b, DICT_LABEL_SETS, 40, n);
	for (uint64_t i = 0; i < n; i++)
		PUT(&b, 3, 10 << 1, 20 + i % 2, 11 << 1, 500 + i, 12 << 1, 30 + i % 2);
	put_section(&b, DICT_COLUMNS, 7000, n);
	for (uint64_t i = 0; i < n; i++)
		PUT(&b, 20000 + 2 * i, 40 + i);
	size_t packed = goes_round(&b);
	assert_true(b.len > 2 * packed);
	assert_true(packed < 7 * n); /* before zstd */
	buf_free(&b);
}

static void fill(struct symbols *s, uint64_t seed)
{
	struct profile p;
	struct err e;
	kit_profile(&p, seed, 60);
	uint32_t *columns = arena_alloc(&p.arena, p.n_samples * sizeof *columns);
	assert_int_equal(symbols_add_profile(s, &p, columns, NULL, &e), 0);
	struct sym_label l[] = { { .key = symbols_string(s, VIEW("bytes")), .is_num = true, .num = -512,
				   .unit = symbols_string(s, VIEW("bytes")) },
				 { .key = symbols_string(s, VIEW("tenant")), .str = symbols_string(s, VIEW("a")) } };
	symbols_column(s, symbols_get_column(s, columns[0])->stack, symbols_label_set(s, l, 1 + seed % 2));
	profile_release(&p);
}

/* Whole dictionaries; and bytes that were cut or changed: whatever comes of them fits in memory, and is rows or an error. */
static void test_damaged(void **state)
{
	struct symbols *s = symbols_new();
	struct index x;
	struct dict_marks from, to;
	struct buf rows = { 0 }, packed = { 0 }, out = { 0 };
	struct err e;
	uint64_t random = 5;
	index_init(&x, s);
	dict_marks_start(&from);
	for (uint64_t i = 0; i < 4; i++)
		fill(s, i);
	dict_marks_now(&to, s, &x);
	dict_encode(&rows, s, &x, &from, &to, NULL);
	goes_round(&rows);
	assert_int_equal(dict_pack(&packed, buf_view(&rows), &e), 0);
	for (size_t k = 1; k < packed.len; k += 11) {
		buf_reset(&out);
		int rc = dict_unpack(&out, view_make(packed.ptr, k), &e);
		assert_true(rc == 0 || rc == -ERR_CORRUPT);
	}
	for (int i = 0; i < 2000; i++) {
		size_t at = kit_random(&random) % packed.len;
		char was = packed.ptr[at];
		packed.ptr[at] ^= (char)(1 + kit_random(&random) % 255);
		buf_reset(&out);
		out.max = 1 << 24;
		int rc = dict_unpack(&out, buf_view(&packed), &e);
		assert_true(rc == 0 || rc == -ERR_CORRUPT || rc == -ERR_LIMIT);
		packed.ptr[at] = was;
	}
	for (size_t k = 1; k < rows.len; k += 13) {
		struct buf part = { 0 };
		dict_pack(&part, view_make(rows.ptr, k), &e);
		buf_free(&part);
	}
	index_release(&x);
	symbols_unref(s);
	buf_free(&rows);
	buf_free(&packed);
	buf_free(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_strings), cmocka_unit_test(test_numbers), cmocka_unit_test(test_label_sets),
					    cmocka_unit_test(test_short_lived), cmocka_unit_test(test_damaged) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
