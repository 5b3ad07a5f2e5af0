/* SPDX-License-Identifier: Apache-2.0 */
/* Symbols in columns become the rows that they were; damaged ones are refused or become other rows, and nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "base/alloc.h"
#include "tsdb/dict/dict.h"
#include "tsdb/dict/dict_pack.h"
#include "tsdb/testkit.h"

static void put_section(struct buf *b, unsigned t, uint64_t first, uint64_t n)
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
	put_section(&b, ROWS_STRINGS, 77, ARRAY_LEN(texts));
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
	put_section(&b, ROWS_MAPPINGS, 0, all);
	for (size_t i = 0; i < all; i++) {
		PUT(&b, n[i], n[(i + 1) % all], n[(i + 2) % all], n[(i + 3) % all], n[(i + 4) % all]);
		buf_putc(&b, (char)(i * 29));
	}
	put_section(&b, ROWS_FUNCTIONS, 3, all);
	for (size_t i = 0; i < all; i++)
		PUT(&b, n[i], n[(i + 3) % all], n[(i + 5) % all], n[(i + 7) % all]);
	put_section(&b, ROWS_LOCATIONS, 0, all);
	for (size_t i = 0; i < all; i++) {
		PUT(&b, n[i], n[(i + 1) % all], i % 4 << 1 | i % 2);
		for (size_t k = 0; k < i % 4; k++)
			PUT(&b, n[(i + k) % all], n[(i + k + 1) % all], n[(i + k + 2) % all]);
	}
	put_section(&b, ROWS_NODES, 1 << 20, 0);
	put_section(&b, ROWS_NODES, 1, all);
	for (size_t i = 0; i < all; i++)
		PUT(&b, n[i], n[all - 1 - i]);
	put_section(&b, ROWS_STACKS, 1, all);
	for (size_t i = 0; i < all; i++)
		PUT(&b, n[i]);
	put_section(&b, ROWS_COLUMNS, 1, all);
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
	put_section(&b, ROWS_LABEL_SETS, 1, 8);
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
	put_section(&b, ROWS_LABEL_SETS, 9, 1); /* nothing changes in it */
	PUT(&b, 1, 0 << 1, 0);
	goes_round(&b);
	buf_free(&b);
}

/* What short-lived processes bring takes next to nothing. */
static void test_short_lived(void **state)
{
	struct buf b = { 0 };
	const uint64_t n = 1000;
	put_section(&b, ROWS_STRINGS, 500, n);
	for (uint64_t i = 0; i < n; i++) {
		char pid[16];
		buf_varint(&b, (uint64_t)snprintf(pid, sizeof pid, "%u", (unsigned)(30000 + 3 * i)));
		buf_puts(&b, pid);
	}
	put_section(&b, ROWS_LABEL_SETS, 40, n);
	for (uint64_t i = 0; i < n; i++)
		PUT(&b, 3, 10 << 1, 20 + i % 2, 11 << 1, 500 + i, 12 << 1, 30 + i % 2);
	put_section(&b, ROWS_COLUMNS, 7000, n);
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
		IGNORE(dict_pack(&part, view_make(rows.ptr, k), &e)); /* or not */
		buf_free(&part);
	}
	index_release(&x);
	symbols_unref(s);
	buf_free(&rows);
	buf_free(&packed);
	buf_free(&out);
}

/* ---- from columns into a dictionary ---- */

/* A dictionary that grew in three steps, and the columns of each step, as parts have them. */
struct grown {
	struct symbols *s;
	struct index x;
	struct buf rows[3], packed[3]; /* [1] repeats [0], [2] repeats what is new in [1] */
};

static void grow(struct grown *g)
{
	struct dict_marks at[4];
	struct err e;
	*g = (struct grown){ .s = symbols_new() };
	index_init(&g->x, g->s);
	dict_marks_start(&at[0]);
	for (int k = 0; k < 3; k++) {
		for (uint64_t i = 0; i < 3; i++)
			fill(g->s, (uint64_t)k * 3 + i);
		struct label l[] = { { VIEW("pod"), view_make("abc", (size_t)k + 1) } };
		index_add(&g->x, (struct labels){ l, 1 }, (uint64_t)k, NULL);
		dict_marks_now(&at[k + 1], g->s, &g->x);
		dict_encode(&g->rows[k], g->s, &g->x, &at[MAX(k - 1, 0)], &at[k + 1], NULL);
		assert_int_equal(dict_pack(&g->packed[k], buf_view(&g->rows[k]), &e), 0);
	}
}

static void grown_release(struct grown *g)
{
	index_release(&g->x);
	symbols_unref(g->s);
	for (int k = 0; k < 3; k++) {
		buf_free(&g->rows[k]);
		buf_free(&g->packed[k]);
	}
}

struct fresh {
	struct symbols *s;
	struct index x;
	uint64_t lost;
};

static struct fresh *fresh_new(void)
{
	struct fresh *f = NEW(struct fresh);
	f->s = symbols_new();
	index_init(&f->x, f->s);
	return f;
}

static void fresh_free(struct fresh *f)
{
	index_release(&f->x);
	symbols_unref(f->s);
	free(f);
}

/* All of a dictionary in rows: equal ones are equal dictionaries. */
static void assert_same(struct symbols *a, const struct index *xa, struct symbols *b, const struct index *xb)
{
	struct dict_marks from, to_a, to_b;
	struct buf ra = { 0 }, rb = { 0 };
	dict_marks_start(&from);
	dict_marks_now(&to_a, a, xa);
	dict_marks_now(&to_b, b, xb);
	assert_true(dict_marks_eq(&to_a, &to_b));
	dict_encode(&ra, a, xa, &from, &to_a, NULL);
	dict_encode(&rb, b, xb, &from, &to_b, NULL);
	assert_true(view_eq(buf_view(&ra), buf_view(&rb)));
	buf_free(&ra);
	buf_free(&rb);
}

static struct dict_marks marks_of(const struct fresh *f)
{
	struct dict_marks m;
	dict_marks_now(&m, f->s, &f->x);
	return m;
}

/* Every way in gives the same dictionary; twice does no harm; and of what the next part repeats nothing is needed. */
static void test_applied(void **state)
{
	static const struct { enum dict_how how; bool skip; } ways[] = { { DICT_WHOLE, false }, { DICT_LOSSY, false }, { DICT_WHOLE, true } };
	struct grown g;
	struct err e;
	grow(&g);
	for (size_t w = 0; w < ARRAY_LEN(ways); w++) {
		struct fresh *f = fresh_new();
		for (int k = 0; k < 3; k++) {
			struct dict_marks have = marks_of(f);
			bool repeated = k < 2 && dict_is_repeated(buf_view(&g.packed[k]), buf_view(&g.packed[k + 1]), &have);
			assert_int_equal(repeated, k == 0 || (k == 1 && !ways[w].skip));
			if (ways[w].skip && repeated)
				continue;
			for (int twice = 0; twice < 2; twice++)
				assert_int_equal(dict_apply_packed(buf_view(&g.packed[k]), ways[w].how, f->s, &f->x, &f->lost, &e), 0);
		}
		assert_int_equal(f->lost, 0);
		assert_same(f->s, &f->x, g.s, &g.x);
		fresh_free(f);
	}
	grown_release(&g);
}

/* What is missing is made up, as of rows. */
static void test_gaps(void **state)
{
	struct grown g;
	struct err e;
	grow(&g);
	struct fresh *a = fresh_new(), *b = fresh_new();
	struct dict_marks have = marks_of(a);
	assert_false(dict_is_repeated(buf_view(&g.packed[2]), buf_view(&g.packed[2]), &have)); /* what comes before it is not there */
	assert_false(dict_is_repeated(buf_view(&g.packed[1]), buf_view(&g.packed[0]), &have)); /* ends before it */
	assert_int_equal(dict_apply_packed(buf_view(&g.packed[2]), DICT_LOSSY, a->s, &a->x, &a->lost, &e), 0);
	assert_int_equal(dict_apply_lossy(buf_view(&g.rows[2]), b->s, &b->x, &b->lost, &e), 0);
	assert_true(a->lost > 0 && a->lost == b->lost);
	assert_same(a->s, &a->x, b->s, &b->x);
	fresh_free(a);
	fresh_free(b);
	a = fresh_new();
	b = fresh_new();
	assert_int_equal(dict_apply_packed(buf_view(&g.packed[1]), DICT_SERIES_ONLY, a->s, &a->x, &a->lost, &e), 0);
	assert_int_equal(dict_apply_series(buf_view(&g.rows[1]), b->s, &b->x, &b->lost, &e), 0);
	assert_true(a->x.series.n == 2 && symbols_count(a->s, SYMBOLS_NODES) == 1);
	assert_same(a->s, &a->x, b->s, &b->x);
	fresh_free(a);
	fresh_free(b);
	grown_release(&g);
}

/* Whatever was cut or changed: an error, or entries that refer to what is there. */
static void test_applied_damaged(void **state)
{
	struct grown g;
	struct err e;
	uint64_t random = 7;
	grow(&g);
	struct buf *b = &g.packed[1];
	for (int i = 0; i < 600; i++) {
		size_t at = kit_random(&random) % b->len, len = i % 3 ? b->len : at;
		char was = b->ptr[at];
		struct fresh *f = fresh_new();
		struct dict_marks have = marks_of(f);
		b->ptr[at] ^= (char)(1 + kit_random(&random) % 255);
		int rc = dict_apply_packed(view_make(b->ptr, len), DICT_WHOLE, f->s, &f->x, &f->lost, &e);
		assert_true(rc == 0 || rc == -ERR_CORRUPT);
		dict_is_repeated(view_make(b->ptr, len), buf_view(&g.packed[2]), &have);
		for (uint32_t k = 1; k < symbols_count(f->s, SYMBOLS_NODES); k++)
			assert_true(symbols_get_node(f->s, k)->parent < k);
		for (uint32_t k = 0; k < symbols_count(f->s, SYMBOLS_COLUMNS); k++)
			assert_true(symbols_get_column(f->s, k)->stack < symbols_count(f->s, SYMBOLS_STACKS) &&
				    symbols_get_column(f->s, k)->label_set < symbols_count(f->s, SYMBOLS_LABEL_SETS));
		for (uint32_t k = 0; k < symbols_count(f->s, SYMBOLS_STACKS); k++)
			assert_true(symbols_stack_node(f->s, k) < symbols_count(f->s, SYMBOLS_NODES));
		b->ptr[at] = was;
		fresh_free(f);
	}
	grown_release(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_strings), cmocka_unit_test(test_numbers), cmocka_unit_test(test_label_sets),
					    cmocka_unit_test(test_short_lived), cmocka_unit_test(test_damaged),
					    cmocka_unit_test(test_applied), cmocka_unit_test(test_gaps),
					    cmocka_unit_test(test_applied_damaged) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
