/* SPDX-License-Identifier: Apache-2.0 */
/* What profile.proto allows and writers rarely do, and what hostile ones do: messages made by hand, field by field. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "pprof/oracle.h"
#include "pprof/pprof.h"

/* ---- a writer of messages: fields in the order of the calls ---- */

static void num(struct buf *b, unsigned field, int64_t v)
{
	buf_varint(b, field << 3);
	buf_varint(b, (uint64_t)v);
}

static void bytes(struct buf *b, unsigned field, const void *p, size_t n)
{
	buf_varint(b, field << 3 | 2);
	buf_varint(b, n);
	buf_put(b, p, n);
}

static void str(struct buf *b, const char *s)
{
	bytes(b, 6, s, strlen(s));
}

/* A message of (field, number) pairs, ended by field 0. */
static void message(struct buf *b, unsigned field, ...)
{
	struct buf m = { 0 };
	va_list ap;
	va_start(ap, field);
	for (unsigned f; (f = va_arg(ap, unsigned)) != 0;)
		num(&m, f, va_arg(ap, int64_t));
	va_end(ap);
	bytes(b, field, m.ptr, m.len);
	buf_free(&m);
}
#define MESSAGE(b, field, ...) message(b, field, __VA_ARGS__, 0u)
#define N(field, v) (unsigned)(field), (int64_t)(v)

/* "", "cpu", "nanoseconds", "main", "main.go", "key", "value", "bytes" under 0 ... 7. */
static void strings(struct buf *b)
{
	static const char *const all[] = { "", "cpu", "nanoseconds", "main", "main.go", "key", "value", "bytes" };
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		str(b, all[i]);
}

static void location(struct buf *b, uint64_t id, uint64_t mapping, uint64_t function)
{
	struct buf m = { 0 };
	num(&m, 1, (int64_t)id);
	if (mapping)
		num(&m, 2, (int64_t)mapping);
	num(&m, 3, 0x1000 + (int64_t)id);
	if (function)
		MESSAGE(&m, 4, N(1, function), N(2, 42));
	bytes(b, 4, m.ptr, m.len);
	buf_free(&m);
}

struct fixture {
	struct buf b;
	struct profile p;
	struct err e;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);
	profile_init(&f->p, 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	profile_release(&f->p);
	buf_free(&f->b);
	free(f);
	return 0;
}

/* Decodes, wants success, and compares with protobuf-c. */
static void accept(struct fixture *f)
{
	struct profile slow;
	profile_init(&slow, 0);
	if (pprof_decode(f->b.ptr, f->b.len, NULL, &f->p, &f->e))
		fail_msg("%s", f->e.msg);
	if (oracle_decode(f->b.ptr, f->b.len, &slow, &f->e))
		fail_msg("%s", f->e.msg);
	const char *difference = oracle_difference(&f->p, &slow);
	if (difference)
		fail_msg("%s", difference);
	profile_release(&slow);
}

static void refuse_with(struct fixture *f, const struct pprof_limits *lim, enum err_code code, const char *words)
{
	f->e.msg[0] = 0;
	assert_int_equal(pprof_decode(f->b.ptr, f->b.len, lim, &f->p, &f->e), -(int)code);
	assert_int_equal(f->e.code, code);
	if (!strstr(f->e.msg, words))
		fail_msg("\"%s\" does not say \"%s\"", f->e.msg, words);
	assert_int_equal(f->p.n_samples, 0);
	assert_int_equal(f->p.n_strings, 0);
}

static void refuse(struct fixture *f, const char *words)
{
	refuse_with(f, NULL, ERR_BAD_DATA, words);
}

/* One type, one mapping, function, location. */
static void small(struct buf *b)
{
	MESSAGE(b, 1, N(1, 1), N(2, 2));
	MESSAGE(b, 3, N(1, 1), N(2, 0x1000), N(3, 0x2000), N(5, 4));
	location(b, 1, 1, 1);
	MESSAGE(b, 5, N(1, 1), N(2, 3), N(3, 3), N(4, 4), N(5, 40));
	strings(b);
}

/* ---- what must be understood ---- */

/* A line that ends before its number, with bytes behind it that would be one: the location's mapping. */
static void what_follows_a_message(void **state)
{
	struct fixture *f = *state;
	struct buf m = { 0 };
	MESSAGE(&f->b, 1, N(1, 1), N(2, 2));
	MESSAGE(&f->b, 2, N(1, 1), N(2, 5));
	MESSAGE(&f->b, 3, N(1, 1));
	MESSAGE(&f->b, 3, N(1, 2));
	MESSAGE(&m, 4, N(1, 1));
	num(&m, 2, 2);
	num(&m, 1, 1);
	bytes(&f->b, 4, m.ptr, m.len);
	MESSAGE(&f->b, 5, N(1, 1), N(2, 3));
	strings(&f->b);
	str(&f->b, "a string that keeps the end of the buffer far enough from the messages before it");
	accept(f);
	assert_int_equal(f->p.lines[0].line, 0);
	assert_int_equal(f->p.locations[0].mapping, 2);
	buf_free(&m);
}

static void any_order(void **state)
{
	struct fixture *f = *state;
	/* samples before everything they need, strings before types, the type last */
	MESSAGE(&f->b, 2, N(1, 1), N(2, -7));
	str(&f->b, "");
	MESSAGE(&f->b, 5, N(4, 4), N(2, 3), N(1, 1));
	str(&f->b, "a");
	location(&f->b, 1, 9, 1);
	str(&f->b, "b");
	num(&f->b, 9, 77);
	str(&f->b, "c");
	str(&f->b, "d");
	MESSAGE(&f->b, 3, N(3, 2), N(1, 9));
	MESSAGE(&f->b, 1, N(2, 2), N(1, 1));
	accept(f);
	assert_int_equal(f->p.n_samples, 1);
	assert_int_equal(f->p.values[0], -7);
	assert_int_equal(f->p.locations[0].mapping, 1);
	assert_int_equal(f->p.time_ns, 77);
	assert_true(view_eqs(profile_str(&f->p, f->p.functions[0].filename_str), "d"));
}

static void sparse_ids(void **state)
{
	struct fixture *f = *state;
	static const uint64_t ids[] = { 70000, 3, UINT64_MAX, (uint64_t)1 << 32 | 3, 12 };
	MESSAGE(&f->b, 1, N(1, 1), N(2, 2));
	for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
		MESSAGE(&f->b, 2, N(1, ids[i]), N(1, ids[(i + 1) % 5]), N(2, i));
		MESSAGE(&f->b, 3, N(1, ids[i]), N(2, i));
		location(&f->b, ids[i], ids[4 - i], ids[(i + 2) % 5]);
		MESSAGE(&f->b, 5, N(1, ids[i]), N(5, i));
	}
	strings(&f->b);
	accept(f);
	for (uint32_t i = 0; i < 5; i++) {
		assert_int_equal(f->p.stack[2 * i], i);
		assert_int_equal(f->p.stack[2 * i + 1], (i + 1) % 5);
		assert_int_equal(f->p.locations[i].mapping, 4 - i + 1);
		assert_int_equal(f->p.lines[i].function, (i + 2) % 5 + 1);
	}
}

/* Ids that are dense enough for a table, but not 1, 2, 3. */
static void shuffled_ids(void **state)
{
	struct fixture *f = *state;
	MESSAGE(&f->b, 1, N(1, 1), N(2, 2));
	for (int i = 0; i < 300; i++)
		location(&f->b, (uint64_t)((i * 7) % 300 + 5), 0, 0);
	MESSAGE(&f->b, 2, N(1, 5), N(1, 12), N(1, 304), N(2, 1));
	strings(&f->b);
	accept(f);
	assert_int_equal(f->p.stack[0], 0);
	assert_int_equal(f->p.stack[1], 1);
}

static void packed_and_not(void **state)
{
	struct fixture *f = *state;
	struct buf m = { 0 }, packed = { 0 };
	MESSAGE(&f->b, 1, N(1, 1), N(2, 2));
	MESSAGE(&f->b, 1, N(1, 3), N(2, 2));
	for (uint64_t i = 1; i <= 20000; i += 1)
		location(&f->b, i, 0, 0);
	/* one by one, a row of all widths, one by one again; values mixed the same way */
	static const uint64_t row[] = { 1, 127, 128, 300, 16383, 16384, 20000, 5, 6, 7, 8, 9, 200, 10, 11, 129, 1 };
	num(&m, 1, 20000);
	num(&m, 2, INT64_MIN);
	for (size_t i = 0; i < ARRAY_LEN(row); i++)
		buf_varint(&packed, row[i]);
	bytes(&m, 1, packed.ptr, packed.len);
	buf_reset(&packed);
	buf_varint(&packed, (uint64_t)INT64_MAX);
	bytes(&m, 2, packed.ptr, packed.len);
	num(&m, 1, 2);
	bytes(&f->b, 2, m.ptr, m.len);
	strings(&f->b);
	buf_reset(&packed);
	buf_varint(&packed, 3);
	buf_varint(&packed, 4);
	bytes(&f->b, 13, packed.ptr, packed.len);
	num(&f->b, 13, 5);
	struct profile *p = &f->p;
	if (pprof_decode(f->b.ptr, f->b.len, NULL, p, &f->e)) /* the oracle is quadratic in locations */
		fail_msg("%s", f->e.msg);
	assert_int_equal(p->n_stack, ARRAY_LEN(row) + 2);
	assert_int_equal(p->stack[0], 19999);
	for (size_t i = 0; i < ARRAY_LEN(row); i++)
		assert_int_equal(p->stack[1 + i], row[i] - 1);
	assert_int_equal(p->stack[p->n_stack - 1], 1);
	assert_true(p->values[0] == INT64_MIN && p->values[1] == INT64_MAX);
	assert_int_equal(p->n_comments, 3);
	assert_int_equal(p->comments[2], 5);
	buf_free(&m);
	buf_free(&packed);
}

static void inlined_lines_columns_and_folding(void **state)
{
	struct fixture *f = *state;
	struct buf m = { 0 };
	MESSAGE(&f->b, 1, N(1, 1), N(2, 2));
	num(&m, 1, 1);
	MESSAGE(&m, 4, N(1, 1), N(2, 10), N(3, 3));
	num(&m, 5, 1);
	MESSAGE(&m, 4, N(1, 2), N(2, -1));
	bytes(&m, 4, "", 0);
	bytes(&f->b, 4, m.ptr, m.len);
	buf_free(&m);
	MESSAGE(&f->b, 5, N(1, 1), N(2, 3));
	MESSAGE(&f->b, 5, N(1, 2), N(2, 4));
	strings(&f->b);
	accept(f);
	const struct profile_location *l = &f->p.locations[0];
	assert_true(l->is_folded);
	assert_int_equal(l->n_lines, 3);
	assert_int_equal(f->p.lines[0].column, 3);
	assert_int_equal(f->p.lines[1].function, 2);
	assert_int_equal(f->p.lines[1].line, -1);
	assert_int_equal(f->p.lines[2].function, 0);
}

static void labels(void **state)
{
	struct fixture *f = *state;
	struct buf m = { 0 };
	small(&f->b);
	num(&m, 1, 1);
	num(&m, 2, 5);
	MESSAGE(&m, 3, N(1, 5), N(2, 6));              /* key=value */
	MESSAGE(&m, 3, N(1, 5), N(3, -512), N(4, 7));  /* -512 bytes */
	MESSAGE(&m, 3, N(1, 7), N(3, 512));            /* no unit */
	MESSAGE(&m, 3, N(1, 5));                       /* the number 0 without a unit */
	MESSAGE(&m, 3, N(4, 7), N(3, 9), N(2, 6), N(1, 5)); /* both: the string counts */
	bytes(&f->b, 2, m.ptr, m.len);
	buf_free(&m);
	accept(f);
	const struct profile_label *l = f->p.labels;
	assert_int_equal(f->p.samples[0].n_labels, 5);
	assert_true(!l[0].is_num && l[0].str == 6);
	assert_true(l[1].is_num && l[1].num == -512 && l[1].unit_str == 7);
	assert_true(l[2].is_num && l[2].num == 512 && l[2].unit_str == 0);
	assert_true(l[3].is_num && l[3].num == 0 && l[3].key_str == 5);
	assert_true(!l[4].is_num && l[4].str == 6 && l[4].num == 0 && l[4].unit_str == 0);
	assert_true(view_eqs(profile_label_unit(&f->p, &l[1]), "bytes"));
	assert_true(view_eqs(profile_label_unit(&f->p, &l[3]), "key")); /* the key is the unit */
	assert_int_equal(profile_label_unit(&f->p, &l[0]).len, 0);
	/* and all of them come back, the number 0 without a unit too */
	struct buf again = { 0 };
	struct profile q;
	profile_init(&q, 0);
	assert_int_equal(pprof_encode(&f->p, &again, &f->e), 0);
	assert_int_equal(pprof_decode(again.ptr, again.len, NULL, &q, &f->e), 0);
	assert_null(oracle_difference(&f->p, &q));
	profile_release(&q);
	buf_free(&again);
}

static void unknown_fields(void **state)
{
	struct fixture *f = *state;
	small(&f->b);
	num(&f->b, 100, 5);
	bytes(&f->b, 101, "new", 3);
	buf_varint(&f->b, 102 << 3 | 1);
	buf_put(&f->b, "12345678", 8);
	buf_varint(&f->b, 103 << 3 | 5);
	buf_put(&f->b, "1234", 4);
	MESSAGE(&f->b, 2, N(1, 1), N(2, 1), N(200, 3));
	accept(f);
	assert_int_equal(f->p.n_samples, 1);
}

static void header_of_all_kinds(void **state)
{
	struct fixture *f = *state;
	small(&f->b);
	MESSAGE(&f->b, 1, N(1, 3), N(2, 7));
	num(&f->b, 7, 3);
	num(&f->b, 8, 4);
	num(&f->b, 9, 0); /* a zero is not said: another one may follow */
	num(&f->b, 9, 1644509272337470000);
	num(&f->b, 10, 3000000000);
	MESSAGE(&f->b, 11, N(1, 1), N(2, 2));
	num(&f->b, 12, 10000000);
	num(&f->b, 14, 1);
	num(&f->b, 15, 6);
	accept(f);
	assert_int_equal(profile_default_type(&f->p), 0);
	assert_int_equal(f->p.period, 10000000);
	assert_int_equal(f->p.doc_url_str, 6);
	f->p.default_sample_type_str = 0;
	assert_int_equal(profile_default_type(&f->p), 1); /* the last */
}

static void strings_with_any_byte(void **state)
{
	struct fixture *f = *state;
	struct buf again = { 0 };
	bytes(&f->b, 6, "", 0);
	bytes(&f->b, 6, "a\0b\xff", 4);
	accept(f);
	assert_int_equal(f->p.strings[1].len, 4);
	assert_int_equal(pprof_encode(&f->p, &again, &f->e), 0);
	assert_true(view_eq(buf_view(&f->b), buf_view(&again)));
	buf_free(&again);
}

/* ---- what must be refused ---- */

static void not_a_profile(void **state)
{
	struct fixture *f = *state;
	refuse(f, "empty");
	buf_puts(&f->b, "<html><body>404 page not found</body></html>");
	refuse(f, "<html><body>404 page");
	buf_reset(&f->b);
	buf_puts(&f->b, "Unknown profile: goroutin\n");
	refuse(f, "Unknown profile: goroutin");
	buf_reset(&f->b);
	num(&f->b, 9, 1);
	refuse(f, "no string table");
	buf_reset(&f->b);
	str(&f->b, "x");
	refuse(f, "first string");
	buf_reset(&f->b);
	buf_put(&f->b, "\x0b", 1); /* a group */
	refuse(f, "wire type 3");
	buf_reset(&f->b);
	buf_put(&f->b, "\x32\x7f", 2);
	refuse(f, "byte 0: field 6 is longer");
	buf_reset(&f->b);
	strings(&f->b);
	num(&f->b, 2, 1); /* a sample that is a number */
	refuse(f, "field 2 of a profile has wire type 0");
}

static void concatenated(void **state)
{
	struct fixture *f = *state;
	small(&f->b);
	num(&f->b, 9, 5);
	num(&f->b, 9, 6);
	refuse(f, "second time");
	buf_reset(&f->b);
	small(&f->b); /* twice, without a time */
	small(&f->b);
	refuse(f, "sample types 0 and 1 are the same");
	buf_reset(&f->b);
	small(&f->b);
	location(&f->b, 1, 0, 0);
	refuse(f, "two locations have the id 1");
}

static void bad_references(void **state)
{
	struct fixture *f = *state;
	static const struct { unsigned field; int64_t a, b; const char *words; } rows[] = {
		{ 2, 2, 1, "sample 0: location 0" }, /* location 2, value 1 */
		{ 2, 0, 1, "sample 0: location 0" },
		{ 2, (int64_t)1 << 40, 1, "no location with the id 1099511627776" },
		{ 5, 2, 8, "string 8 is not in the table of 8" }, /* function 2 named string 8 */
		{ 5, 2, -1, "string -1 is not in the table" },
		{ 5, 1, 1, "two functions have the id 1" },
		{ 5, 0, 1, "a function has no id" },
		{ 4, 2, 2, "no mapping with the id 2" },
		{ 4, 0, 0, "a location has no id" },
		{ 3, 1, 0, "two mappings have the id 1" },
		{ 1, 1, 9, "string 9" },
		{ 11, 9, 1, "string 9" },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		buf_reset(&f->b);
		small(&f->b);
		MESSAGE(&f->b, rows[i].field, N(1, rows[i].a), N(2, rows[i].b));
		refuse(f, rows[i].words);
	}
	buf_reset(&f->b);
	small(&f->b);
	location(&f->b, 2, 1, 7);
	refuse(f, "no function with the id 7");
	buf_reset(&f->b);
	small(&f->b);
	num(&f->b, 14, 8);
	refuse(f, "string 8");
}

static void values_per_sample(void **state)
{
	struct fixture *f = *state;
	small(&f->b);
	MESSAGE(&f->b, 2, N(1, 1));
	refuse(f, "sample 0 has 0 values, there are 1");
	buf_reset(&f->b);
	small(&f->b);
	MESSAGE(&f->b, 2, N(1, 1), N(2, 1), N(2, 2));
	refuse(f, "more values");
	buf_reset(&f->b);
	strings(&f->b);
	MESSAGE(&f->b, 2, N(1, 1));
	refuse(f, "no sample types");
}

static void limits(void **state)
{
	struct fixture *f = *state;
	struct buf m = { 0 };
	small(&f->b);
	for (int i = 0; i < 9; i++)
		num(&m, 1, 1);
	num(&m, 2, 1);
	for (int i = 0; i < 9; i++)
		MESSAGE(&m, 3, N(1, 5), N(2, 6));
	bytes(&f->b, 2, m.ptr, m.len);
	bytes(&f->b, 2, m.ptr, m.len);
	buf_free(&m);
	accept(f);
	const struct { struct pprof_limits lim; const char *words; } rows[] = {
		{ { .max_samples = 1 }, "2 samples, the limit is 1" },
		{ { .max_depth = 8 }, "sample 0 is 9 locations deep, the limit is 8" },
		{ { .max_labels = 8 }, "sample 0 has 9 labels, the limit is 8" },
		{ { .max_strings = 7 }, "8 strings, the limit is 7" },
		{ { .max_bytes = 40 }, "the limit is 40" },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		refuse_with(f, &rows[i].lim, ERR_LIMIT, rows[i].words);
	profile_release(&f->p);
	profile_init(&f->p, 300);
	refuse_with(f, NULL, ERR_LIMIT, "more than its 300 bytes");
}

/* Many tiny messages must not cost more than the arena's cap, whatever they say. */
static void amplification(void **state)
{
	struct fixture *f = *state;
	struct buf m = { 0 };
	small(&f->b);
	num(&m, 1, 2);
	for (int i = 0; i < 200000; i++)
		bytes(&m, 4, "", 0);
	bytes(&f->b, 4, m.ptr, m.len);
	buf_free(&m);
	struct pprof_limits lim = { .max_locations = 10000 };
	refuse_with(f, &lim, ERR_LIMIT, "more than 80000 lines");
	profile_release(&f->p);
	profile_init(&f->p, (size_t)1 << 20);
	refuse_with(f, NULL, ERR_LIMIT, "1048576 bytes of memory");
}

/* ---- gzip ---- */

static void gzip_members(void **state)
{
	struct fixture *f = *state;
	struct buf gz = { 0 };
	small(&f->b);
	for (size_t at = 0; at < f->b.len; at += 10) /* a member every ten bytes */
		assert_int_equal(pprof_gzip(view_make(f->b.ptr + at, MIN((size_t)10, f->b.len - at)), 1 + (int)at % 12, &gz, &f->e), 0);
	assert_int_equal(pprof_decode(gz.ptr, gz.len, NULL, &f->p, &f->e), 0);
	assert_int_equal(f->p.n_locations, 1);
	struct pprof_limits lim = { .max_compressed = gz.len - 1 };
	assert_int_equal(pprof_decode(gz.ptr, gz.len, &lim, &f->p, &f->e), -ERR_LIMIT);
	assert_int_equal(pprof_decode(gz.ptr, gz.len - 3, NULL, &f->p, &f->e), -ERR_BAD_DATA);
	gz.ptr[gz.len - 6] ^= 1; /* the last member's checksum */
	assert_int_equal(pprof_decode(gz.ptr, gz.len, NULL, &f->p, &f->e), -ERR_BAD_DATA);
	gz.ptr[gz.len - 6] ^= 1;
	buf_puts(&gz, "rest");
	assert_int_equal(pprof_decode(gz.ptr, gz.len, NULL, &f->p, &f->e), -ERR_BAD_DATA);
	assert_non_null(strstr(f->e.msg, "not gzip"));
	buf_free(&gz);
}

/* 64 MiB of nothing in 64 KiB; one member that says so, and many whose last says that it is small. */
static void gzip_bomb(void **state)
{
	struct fixture *f = *state;
	struct buf gz = { 0 };
	size_t n = (size_t)64 << 20;
	char *zeros = calloc(1, n);
	assert_int_equal(pprof_gzip(view_make(zeros, n), 9, &gz, &f->e), 0);
	struct pprof_limits lim = { .max_bytes = (size_t)1 << 20 };
	for (int i = 0; i < 2; i++) {
		assert_int_equal(pprof_decode(gz.ptr, gz.len, &lim, &f->p, &f->e), -ERR_LIMIT);
		assert_non_null(strstr(f->e.msg, "1048576 bytes after decompression"));
		assert_int_equal(f->p.arena.used, 0);
		assert_int_equal(pprof_gzip(view_make(zeros, 1), 9, &gz, &f->e), 0);
	}
	profile_release(&f->p);
	profile_init(&f->p, (size_t)8 << 20);
	assert_int_equal(pprof_decode(gz.ptr, gz.len, NULL, &f->p, &f->e), -ERR_LIMIT);
	free(zeros);
	buf_free(&gz);
}

/* The profile owns what it holds: the bytes may go. */
static void owns_its_bytes(void **state)
{
	struct fixture *f = *state;
	small(&f->b);
	assert_int_equal(pprof_decode(f->b.ptr, f->b.len, NULL, &f->p, &f->e), 0);
	memset(f->b.ptr, 'x', f->b.len);
	buf_free(&f->b);
	assert_true(view_eqs(profile_str(&f->p, 4), "main.go"));
}

/* What the wire cannot say as it is: an empty string label, a line without a function (google/pprof refuses that). */
static void encode_mends(void **state)
{
	struct fixture *f = *state;
	struct buf out = { 0 };
	struct profile q;
	struct profile_label label = { .key_str = 5 };
	small(&f->b);
	MESSAGE(&f->b, 2, N(1, 1), N(2, 3));
	accept(f);
	f->p.labels = &label;
	f->p.n_labels = f->p.samples[0].n_labels = 1;
	f->p.lines[0].function = 0;
	profile_init(&q, 0);
	assert_int_equal(pprof_encode(&f->p, &out, &f->e), 0);
	assert_int_equal(pprof_decode(out.ptr, out.len, NULL, &q, &f->e), 0);
	assert_false(q.labels[0].is_num);
	assert_int_equal(profile_str(&q, q.labels[0].str).len, 0);
	assert_int_equal(q.n_lines, 0);
	profile_release(&q);
	buf_free(&out);
}

static void encode_refuses(void **state)
{
	struct fixture *f = *state;
	struct buf out = { 0 };
	small(&f->b);
	MESSAGE(&f->b, 2, N(1, 1), N(2, 3));
	accept(f);
	f->p.stack[0] = 1;
	assert_int_equal(pprof_encode(&f->p, &out, &f->e), -ERR_BAD_DATA);
	f->p.stack[0] = 0;
	f->p.functions[0].name_str = 99;
	assert_int_equal(pprof_encode(&f->p, &out, &f->e), -ERR_BAD_DATA);
	f->p.functions[0].name_str = 3;
	out.max = 20;
	assert_int_equal(pprof_encode(&f->p, &out, &f->e), -ERR_LIMIT);
	out.max = 0;
	out.overflow = false;
	assert_int_equal(pprof_encode(&f->p, &out, &f->e), 0);
	buf_free(&out);
}

/* ---- headers of merges ---- */

static void merged_headers(void **state)
{
	struct fixture *f = *state;
	struct buf other = { 0 };
	struct profile q CLEANUP(profile_release), out CLEANUP(profile_release);
	profile_init(&q, 0);
	profile_init(&out, 0);
	small(&f->b);
	num(&f->b, 12, 100);
	num(&f->b, 10, 3);
	num(&f->b, 13, 6);
	num(&f->b, 13, 7);
	num(&f->b, 7, 3);
	accept(f);
	small(&other);
	num(&other, 12, 50);
	num(&other, 10, 4);
	num(&other, 9, 1000);
	num(&other, 13, 7);
	num(&other, 13, 1);
	num(&other, 14, 1);
	num(&other, 15, 6);
	num(&other, 7, 4);
	assert_int_equal(pprof_decode(other.ptr, other.len, NULL, &q, &f->e), 0);
	assert_int_equal(pprof_merge_header((const struct profile *const[]){ &f->p, &q }, 2, &out, &f->e), 0);
	assert_int_equal(out.period, 100);
	assert_int_equal(out.duration_ns, 7);
	assert_int_equal(out.time_ns, 1000); /* google/pprof says 0 here */
	assert_int_equal(out.n_comments, 3);
	assert_true(view_eqs(profile_str(&out, out.comments[2]), "cpu"));
	assert_true(view_eqs(profile_str(&out, out.default_sample_type_str), "cpu"));
	assert_true(view_eqs(profile_str(&out, out.drop_frames_str), "main"));
	assert_true(view_eqs(profile_str(&out, out.doc_url_str), "value"));
	assert_int_equal(profile_check(&out, &f->e), 0);
	q.sample_types[0].unit_str = 7;
	assert_int_equal(pprof_merge_header((const struct profile *const[]){ &f->p, &q }, 2, &out, &f->e), -ERR_BAD_DATA);
	buf_free(&other);
}

/* What drop_frames does is compared with google/pprof's in tests/oracle; here is what it refuses. */
static void refused_drop_frames(void **state)
{
	struct fixture *f = *state;
	static char longer[65538];
	memset(longer, 'a', sizeof longer - 1);
	struct { const char *drop, *keep; enum err_code code; const char *text; } cases[] = {
		{ "", "(", ERR_NONE, "" }, /* keep_frames alone say nothing */
		{ "main(", "", ERR_BAD_DATA, "drop_frames \"main(\"" },
		{ "main", "a)", ERR_BAD_DATA, "keep_frames \"a)\"" },
		{ longer, "", ERR_LIMIT, "drop_frames has 65537 bytes" },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		small(&f->b);
		accept(f);
		struct view *s = arena_alloc(&f->p.arena, (f->p.n_strings + 2) * sizeof *s);
		memcpy(s, f->p.strings, f->p.n_strings * sizeof *s);
		f->p.strings = s;
		f->p.drop_frames_str = f->p.n_strings++;
		f->p.keep_frames_str = f->p.n_strings++;
		s[f->p.drop_frames_str] = view_of(cases[i].drop);
		s[f->p.keep_frames_str] = view_of(cases[i].keep);
		assert_int_equal(pprof_drop_frames(&f->p, &f->e), -(int)cases[i].code);
		if (cases[i].code && !strstr(f->e.msg, cases[i].text))
			fail_msg("%s, not %s", f->e.msg, cases[i].text);
		buf_reset(&f->b);
	}
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(any_order), TEST(what_follows_a_message), TEST(sparse_ids), TEST(shuffled_ids), TEST(packed_and_not),
		TEST(inlined_lines_columns_and_folding), TEST(labels), TEST(unknown_fields), TEST(header_of_all_kinds),
		TEST(strings_with_any_byte), TEST(not_a_profile), TEST(concatenated), TEST(bad_references),
		TEST(values_per_sample), TEST(limits), TEST(amplification), TEST(gzip_members), TEST(gzip_bomb),
		TEST(owns_its_bytes), TEST(merged_headers), TEST(encode_mends), TEST(encode_refuses), TEST(refused_drop_frames),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
