/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of differences against sums in 128 bits, number by number, with and without the wide instructions of the processor. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "tsdb/part/differences.h"
#include "tsdb/testkit.h"

#define COLUMNS 12
#define MOST_ROWS 4000

struct drawn {
	uint32_t n_rows;
	int64_t weights[MOST_ROWS], from[MOST_ROWS + 1];
	int64_t d[COLUMNS][MOST_ROWS];
	struct buf stream;
};

static int64_t draw_signed(uint64_t *random, unsigned bits)
{
	int64_t v = (int64_t)(kit_random(random) & ((UINT64_C(1) << bits) - 1));
	return kit_random(random) % 2 ? v : -v;
}

/* Weights as they occur: of a border and of the newest profile, of jittered stamps, of a range in the middle, and any. */
static void draw_weights(struct drawn *x, uint64_t *random, unsigned kind)
{
	uint32_t n = x->n_rows, lo = (uint32_t)(kit_random(random) % n), hi = lo + (uint32_t)(kit_random(random) % (n - lo));
	int64_t late = 0;
	memset(x->weights, 0, sizeof x->weights);
	for (uint32_t i = 0; i < n; i++) {
		int64_t next = draw_signed(random, 9);
		x->weights[i] = kind == 1 ? next - late : kind == 2 ? i >= lo && i < hi : kind == 3 ? draw_signed(random, 20) : kind == 4 ? draw_signed(random, 13) : 0;
		late = next;
	}
	if (kind < 2) {
		x->weights[lo] += draw_signed(random, 16);
		x->weights[hi] += draw_signed(random, 16);
	}
	for (uint32_t i = hi + 1; kind % 2 && hi > n / 2 && i < n; i++)
		x->weights[i] = 0;
	x->from[n] = 0;
	for (uint32_t i = n; i-- > 0;)
		x->from[i] = x->from[i + 1] + x->weights[i];
}

/* Some columns have larger numbers than others, and some hardly change. */
static void draw_columns(struct drawn *x, uint64_t *random, unsigned most_bits)
{
	buf_reset(&x->stream);
	buf_put(&x->stream, "\2\0\0", 3); /* what is before differences */
	for (uint32_t k = 0; k < COLUMNS; k++) {
		unsigned bits = (unsigned)(kit_random(random) % (most_bits + 1));
		bool still = kit_random(random) % 4 == 0;
		for (uint32_t i = 0; i < x->n_rows; i++) {
			x->d[k][i] = i && still && kit_random(random) % 16 ? 0 : draw_signed(random, i ? bits : 40);
			buf_varint(&x->stream, zigzag_encode(x->d[k][i]));
		}
	}
}

/* A copy that ends where the stream does, so that a read beyond it is seen. */
static uint8_t *copy_of(const struct drawn *x, size_t len)
{
	uint8_t *copy = xmalloc(len);
	memcpy(copy, x->stream.ptr, len);
	return copy;
}

static void check_sums(struct drawn *x, bool wide)
{
	struct weighing w;
	int64_t sums[COLUMNS];
	AUTOFREE uint8_t *copy = copy_of(x, x->stream.len);
	struct cursor c = { copy + 3, copy + x->stream.len, false };
	weighing_open(&w, x->weights, x->n_rows);
	w.wide &= wide;
	differences_weigh(&c, &w, COLUMNS, sums);
	assert_false(c.bad);
	assert_ptr_equal(c.p, c.end);
	bool fits = true;
	for (uint32_t k = 0; k < COLUMNS; k++) {
		int128 sum = 0;
		for (uint32_t i = 0; i < x->n_rows; i++)
			sum += (int128)x->d[k][i] * x->from[i];
		fits &= sum == (int64_t)sum;
		if (w.fits)
			assert_true(sum == sums[k]);
	}
	assert_true(fits || !w.fits);
	weighing_release(&w);
}

static void test_sums(void **state)
{
	struct drawn *x = xcalloc(1, sizeof *x);
	uint64_t random = 11;
	(void)state;
	for (unsigned round = 0; round < 400; round++) {
		x->n_rows = 2 + (uint32_t)(kit_random(&random) % (round % 20 ? 130 : MOST_ROWS - 2));
		draw_weights(x, &random, round % 5);
		draw_columns(x, &random, round % 3 ? 26 : 62); /* with a sign and seven bits a byte 26 are four bytes at most */
		check_sums(x, true);
		check_sums(x, false);
	}
	buf_free(&x->stream);
	free(x);
}

/* The largest differences and weights for the wide instructions, with signs so that all of them add up. */
static void test_largest(void **state)
{
	struct drawn *x = xcalloc(1, sizeof *x);
	(void)state;
	x->n_rows = MOST_ROWS;
	for (uint32_t i = x->n_rows; i-- > 0;) {
		x->from[i] = (i % 2 ? 1 : -1) * INT64_C(8191);
		x->weights[i] = x->from[i] - x->from[i + 1];
	}
	buf_put(&x->stream, "\2\0\0", 3);
	for (uint32_t k = 0; k < COLUMNS; k++)
		for (uint32_t i = 0; i < x->n_rows; i++) {
			x->d[k][i] = ((i + k) % 2 ? 1 : -1) * ((INT64_C(1) << (6 + 7 * (k % 4))) - 1); /* k % 4 + 1 bytes */
			buf_varint(&x->stream, zigzag_encode(x->d[k][i]));
		}
	check_sums(x, true);
	check_sums(x, false);
	buf_free(&x->stream);
	free(x);
}

/* Where the processor can, ordinary weights are for the wide instructions: else nothing above would test these. */
static void test_wide(void **state)
{
	struct drawn *x = xcalloc(1, sizeof *x);
	struct weighing w;
	uint64_t random = 5;
	(void)state;
	for (unsigned kind = 0; kind < 3; kind++) {
		x->n_rows = 60;
		draw_weights(x, &random, kind);
		weighing_open(&w, x->weights, x->n_rows);
#ifdef __x86_64__
		assert_int_equal(w.wide, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2"));
#else
		assert_false(w.wide);
#endif
		weighing_release(&w);
	}
	free(x);
}

/* A stream that was cut is bad, and is not read beyond its end. */
static void test_cut(void **state)
{
	struct drawn *x = xcalloc(1, sizeof *x);
	uint64_t random = 3;
	(void)state;
	x->n_rows = 40;
	draw_weights(x, &random, 1);
	draw_columns(x, &random, 20);
	for (size_t len = 4; len < x->stream.len; len += 7) {
		struct weighing w;
		int64_t sums[COLUMNS];
		AUTOFREE uint8_t *copy = copy_of(x, len);
		struct cursor c = { copy + 3, copy + len, false };
		weighing_open(&w, x->weights, x->n_rows);
		differences_weigh(&c, &w, COLUMNS, sums);
		assert_true(c.bad);
		weighing_release(&w);
	}
	buf_free(&x->stream);
	free(x);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_sums), cmocka_unit_test(test_largest), cmocka_unit_test(test_wide), cmocka_unit_test(test_cut) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
