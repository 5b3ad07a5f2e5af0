/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of symbols: what was written comes back, new entries alone are written between marks, and what is malformed, has a gap, or passes a limit
 * is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "model/symbols_rows.h"

#define ENOUGH { .entries = 1 << 20, .bytes = 1 << 24, .frames = 1 << 20 }

/* A location with two lines in a mapping, a stack on top of the one before, labels of both kinds, and a column. */
static void grow(struct symbols *s, uint64_t seed)
{
	char text[32];
	snprintf(text, sizeof text, "f%llu", (unsigned long long)seed);
	uint32_t name = symbols_string(s, view_of(text));
	struct sym_mapping m = { .start = seed << 20, .size = 4096 + (seed << 12), .offset = seed, .file = name, .has = SYM_HAS_FUNCTIONS };
	struct sym_function f = { name, 0, symbols_string(s, VIEW("a.c")), -(int64_t)seed };
	struct sym_line lines[2] = { { symbols_function(s, &f) + 1, 7, 3 }, { 0, -9, 0 } };
	struct sym_location l = { .address = ~seed, .mapping = symbols_mapping(s, &m) + 1, .n_lines = 2, .is_folded = seed & 1 };
	uint32_t at = symbols_location(s, &l, lines);
	uint32_t node = symbols_node(s, (uint32_t)(seed / 2) % symbols_count(s, SYMBOLS_NODES), at);
	struct sym_label labels[] = { { .key = name, .is_num = true, .num = -(int64_t)seed, .unit = name }, { .key = symbols_string(s, VIEW("pod")), .str = name } };
	symbols_mark_main(s, &m);
	symbols_column(s, symbols_stack_at(s, node), symbols_label_set(s, labels, seed % 3));
}

static struct symbols *grown(uint64_t n)
{
	struct symbols *s = symbols_new();
	for (uint64_t i = 1; i <= n; i++)
		grow(s, i);
	return s;
}

/* The rows of all that is there. */
static struct buf rows_of(const struct symbols *s)
{
	struct symbols_marks from, to;
	struct buf b = { 0 };
	symbols_marks_start(&from);
	symbols_marks_now(&to, s);
	symbols_rows_encode(&b, s, &from, &to, NULL);
	return b;
}

/* Whether both have the same entries: their rows are the same. */
static void same(const struct symbols *a, const struct symbols *b)
{
	struct buf x = rows_of(a), y = rows_of(b);
	assert_true(view_eq(buf_view(&x), buf_view(&y)));
	buf_free(&x);
	buf_free(&y);
}

static void comes_back(void **state)
{
	struct symbols *a = symbols_new(), *b = symbols_new();
	struct symbols_rows_limit left = ENOUGH;
	struct symbols_marks from, to;
	struct err e;
	symbols_marks_start(&from);
	symbols_marks_now(&to, a);
	assert_true(symbols_marks_eq(&from, &to));
	for (uint64_t i = 1; i < 20; i++) {
		struct buf rows = { 0 }, again = { 0 };
		grow(a, i);
		symbols_marks_now(&to, a);
		assert_true(symbols_marks_within(&from, &to) && !symbols_marks_within(&to, &from));
		symbols_rows_encode(&rows, a, &from, &to, NULL);
		symbols_rows_encode(&again, a, &to, &to, NULL);
		assert_int_equal(again.len, 0);
		assert_true(rows.len < 120); /* the new entries alone */
		size_t before = left.entries;
		assert_int_equal(symbols_rows_apply(buf_view(&rows), b, &left, &e), 0);
		assert_true(left.entries < before);
		before = left.entries;
		assert_int_equal(symbols_rows_apply(buf_view(&rows), b, &left, &e), 0);
		assert_int_equal(left.entries, before); /* they are there */
		same(a, b);
		from = to;
		buf_free(&rows);
		buf_free(&again);
	}
	symbols_unref(a);
	symbols_unref(b);
}

static void gaps_are_refused(void **state)
{
	struct symbols *a = grown(3), *b = symbols_new();
	struct symbols_rows_limit left = ENOUGH;
	struct symbols_marks from, to;
	struct buf rows = { 0 };
	struct err e;
	symbols_marks_now(&from, a);
	grow(a, 4);
	symbols_marks_now(&to, a);
	symbols_rows_encode(&rows, a, &from, &to, NULL);
	assert_int_equal(symbols_rows_apply(buf_view(&rows), b, &left, &e), -ERR_CORRUPT);
	assert_non_null(strstr(e.msg, "begin at entry"));
	assert_int_equal(symbols_count(b, SYMBOLS_STRINGS), 1);
	/* unless the reader makes up what is missing */
	struct symbols_reader r = { .c = cursor_of(buf_view(&rows)), .symbols = b, .how = ROWS_GAPS };
	struct symbols_section x;
	while (r.c.p < r.c.end && symbols_rows_head(&r.c, &x))
		symbols_rows_section(&r, &x);
	assert_false(r.c.bad);
	assert_true(r.lost > 5);
	symbols_reader_release(&r);
	struct symbols_marks have;
	symbols_marks_now(&have, b);
	assert_true(symbols_marks_eq(&have, &to));
	buf_free(&rows);
	symbols_unref(a);
	symbols_unref(b);
}

static void limits(void **state)
{
	struct symbols *a = grown(600), *b;
	struct buf rows = rows_of(a);
	struct symbols_rows_limit enough = ENOUGH, left = enough;
	struct err e;
	b = symbols_new();
	assert_int_equal(symbols_rows_apply(buf_view(&rows), b, &left, &e), 0);
	symbols_unref(b);
	struct symbols_rows_limit needs = { enough.entries - left.entries, enough.bytes - left.bytes, enough.frames - left.frames };
	for (int i = 0; i < 3; i++) {
		left = needs;
		*(i == 0 ? &left.entries : i == 1 ? &left.bytes : &left.frames) -= 1;
		b = symbols_new();
		assert_int_equal(symbols_rows_apply(buf_view(&rows), b, &left, &e), -ERR_LIMIT);
		symbols_unref(b);
	}
	buf_free(&rows);
	symbols_unref(a);
}

static void put_head(struct buf *b, uint8_t table, uint32_t first, uint32_t n)
{
	symbols_rows_put_head(b, &(struct symbols_section){ table, first, n });
}

/* One node on the other, and a stack at each: half a million bytes, whose stacks have 30,000,000,000 frames. */
static void deep_stacks_are_bounded(void **state)
{
	enum { DEPTH = 250000 };
	struct symbols *s = symbols_new();
	struct symbols_rows_limit left = { .entries = SIZE_MAX, .bytes = SIZE_MAX, .frames = 1 << 24 };
	struct buf rows = { 0 };
	struct err e;
	put_head(&rows, ROWS_LOCATIONS, 0, 1);
	buf_put(&rows, "\0\0\0", 3);
	put_head(&rows, ROWS_NODES, 1, DEPTH);
	for (int i = 0; i < DEPTH; i++)
		buf_put(&rows, "\0\0", 2);
	put_head(&rows, ROWS_STACKS, 1, DEPTH);
	for (uint32_t i = DEPTH; i; i--)
		buf_varint(&rows, i);
	assert_int_equal(symbols_rows_apply(buf_view(&rows), s, &left, &e), -ERR_LIMIT);
	assert_true(symbols_count(s, SYMBOLS_STACKS) < 100);
	buf_free(&rows);
	symbols_unref(s);
}

static void check_ids(const struct symbols *s)
{
	uint32_t n[SYMBOLS_TABLES];
	for (enum symbols_table t = 0; t < SYMBOLS_TABLES; t++)
		n[t] = symbols_count(s, t);
	for (uint32_t i = 0; i < n[SYMBOLS_MAPPINGS]; i++)
		assert_true(symbols_get_mapping(s, i)->file < n[SYMBOLS_STRINGS] && symbols_get_mapping(s, i)->build_id < n[SYMBOLS_STRINGS]);
	for (uint32_t i = 0; i < n[SYMBOLS_FUNCTIONS]; i++) {
		const struct sym_function *f = symbols_get_function(s, i);
		assert_true(f->name < n[SYMBOLS_STRINGS] && f->system_name < n[SYMBOLS_STRINGS] && f->filename < n[SYMBOLS_STRINGS]);
	}
	for (uint32_t i = 0; i < n[SYMBOLS_LOCATIONS]; i++) {
		const struct sym_location *l = symbols_get_location(s, i);
		assert_true(l->mapping <= n[SYMBOLS_MAPPINGS] && l->first_line + l->n_lines <= n[SYMBOLS_LINES]);
		for (uint32_t k = 0; k < l->n_lines; k++)
			assert_true(symbols_get_line(s, l, k)->function <= n[SYMBOLS_FUNCTIONS]);
	}
	for (uint32_t i = 1; i < n[SYMBOLS_NODES]; i++)
		assert_true(symbols_get_node(s, i)->parent < i && symbols_get_node(s, i)->location < n[SYMBOLS_LOCATIONS]);
	for (uint32_t i = 0; i < n[SYMBOLS_STACKS]; i++)
		assert_true(symbols_stack_node(s, i) < n[SYMBOLS_NODES]);
	for (uint32_t i = 0; i < n[SYMBOLS_LABEL_SETS]; i++) {
		size_t len;
		const struct sym_label *l = symbols_get_label_set(s, i, &len);
		for (; len; len--, l++)
			assert_true(l->key < n[SYMBOLS_STRINGS] && l->str < n[SYMBOLS_STRINGS] && l->unit < n[SYMBOLS_STRINGS]);
	}
	for (uint32_t i = 0; i < n[SYMBOLS_COLUMNS]; i++)
		assert_true(symbols_get_column(s, i)->stack < n[SYMBOLS_STACKS] && symbols_get_column(s, i)->label_set < n[SYMBOLS_LABEL_SETS]);
}

/* Each length, and each byte with each of its bits changed: an error, or entries that refer to what is there. */
static void hostile_bytes(void **state)
{
	struct symbols *a = grown(6);
	struct buf rows = rows_of(a);
	struct err e;
	for (size_t i = 0; i < rows.len * 9; i++) {
		struct symbols *s = symbols_new();
		struct symbols_rows_limit left = ENOUGH;
		size_t at = i / 9, bit = i % 9;
		/* its very size, so that a sanitizer sees a read past its end */
		char *copy = malloc(bit ? rows.len : at + 1);
		memcpy(copy, rows.ptr, bit ? rows.len : at);
		if (bit)
			copy[at] ^= (char)(1 << (bit - 1));
		int rc = symbols_rows_apply(view_make(copy, bit ? rows.len : at), s, &left, &e);
		assert_true(rc == 0 || rc == -ERR_CORRUPT);
		check_ids(s);
		free(copy);
		symbols_unref(s);
	}
	buf_free(&rows);
	symbols_unref(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(comes_back), cmocka_unit_test(gaps_are_refused), cmocka_unit_test(limits),
		cmocka_unit_test(deep_stacks_are_bounded), cmocka_unit_test(hostile_bytes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
