/* SPDX-License-Identifier: Apache-2.0 */
/* A graph of values: totals that are read many at a time equal what the plain reader finds. Rows go to the same steps as when each
 * is taken alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "tsdb/part/sealed.h"
#include "tsdb/read/steps.h"
#include "tsdb/testkit.h"

/* A payload of n profiles: `late` of them not when they should be, totals below 2^bits of either sign, some of them stale. */
static void put_payload(struct buf *b, uint64_t *random, size_t n, unsigned late, unsigned bits, size_t stale)
{
	buf_reset(b);
	buf_putc(b, 0);
	buf_varint(b, n);
	for (int f = 0; f < 5; f++) {
		bool same = kit_random(random) % 2;
		buf_putc(b, same);
		if (n)
			buf_zigzag(b, f == 0 ? 10000 : 7);
		for (size_t i = 1; i < n && !same; i++)
			buf_zigzag(b, (int64_t)(kit_random(random) % 5000) - 2500);
	}
	for (size_t i = 0; i < n; i++)
		buf_zigzag(b, !i ? 1700000000000 : late && kit_random(random) % late == 0 ? (int64_t)(kit_random(random) % 9) - 4 : 0);
	for (size_t i = 0; i < n; i++)
		buf_zigzag(b, (int64_t)(kit_random(random) % (UINT64_C(1) << bits)) - (int64_t)(UINT64_C(1) << bits >> 1));
	buf_varint(b, stale);
	for (size_t i = 0; i < stale; i++)
		buf_varint(b, i + 1);
}

static void check_points(struct view v)
{
	struct sealed_totals t = { 0 };
	struct sealed_points p = { 0 };
	struct sealed_columns c = { 0 };
	struct err e;
	int rc = sealed_get_totals(v, &t, &e);
	assert_int_equal(sealed_get_points(v, &p, &e), rc);
	assert_int_equal(sealed_get_columns(v, &c, &e), rc);
	if (!rc) {
		for (size_t i = 0, k = 0; i < p.n; i++) {
			const struct sealed_row *r = &t.rows.v[i];
			assert_true(r->t_ms == sealed_stamp(&c.points, i) && p.totals.v[i] == c.points.totals.v[i]);
			assert_true(r->meta.period == (c.same_period ? c.period : c.periods.v[i]));
			assert_true(r->cover_ms == (c.same_cover ? c.cover_ms : c.covers.v[i]));
			assert_true(source_weight(r->meta.interval_ms, r->meta.asked_ms) == (c.same_weight ? c.weight : c.weights.v[i]));
			assert_int_equal(r->stale, k < c.stale.n && c.stale.v[k] == i);
			k += r->stale;
		}
		assert_int_equal(p.n, t.rows.n);
		uint64_t sum = 0;
		for (size_t i = 0; i < p.n; i++) {
			const struct sealed_row *r = &t.rows.v[i];
			assert_true(r->t_ms == (p.every_ms ? p.first_ms + (int64_t)i * p.every_ms : p.t_ms.v[i]));
			assert_true(p.totals.v[i] == (r->stale ? 0 : r->total));
			sum += (uint64_t)(p.totals.v[i] < 0 ? -p.totals.v[i] : p.totals.v[i]);
			assert_true(!p.small || sum < UINT64_C(1) << 62);
		}
	}
	sealed_totals_release(&t);
	sealed_points_release(&p);
	sealed_columns_release(&c);
}

static void test_points(void **state)
{
	static const unsigned bits[] = { 3, 7, 13, 14, 15, 22, 30, 36, 43, 50, 57, 62 };
	uint64_t random = 4;
	struct buf b = { 0 };
	for (size_t n = 0; n < 70; n += n < 20 ? 1 : 7)
		for (size_t k = 0; k < ARRAY_LEN(bits); k++)
			for (unsigned late = 0; late < 9; late += 4) {
				put_payload(&b, &random, n, late, bits[k], n > 12 ? n % 3 : 0);
				check_points(buf_view(&b));
			}
	for (size_t cut = 0; cut < b.len; cut++) { /* from the heap, so that reading beyond it shows */
		AUTOFREE char *copy = xmalloc(cut + 1);
		memcpy(copy, b.ptr, cut);
		check_points(view_make(copy, cut));
	}
	buf_free(&b);
}

static void test_small(void **state)
{
	struct sealed_points p = { 0 };
	struct buf b = { 0 };
	uint64_t random = 5;
	struct err e;
	put_payload(&b, &random, 360, 0, 14, 0);
	assert_int_equal(sealed_get_points(buf_view(&b), &p, &e), 0);
	assert_true(p.small && p.every_ms == 10000);
	put_payload(&b, &random, 360, 40, 60, 0);
	assert_int_equal(sealed_get_points(buf_view(&b), &p, &e), 0);
	assert_true(!p.small && !p.every_ms);
	sealed_points_release(&p);
	buf_free(&b);
}

static void no_wrap(void *arg, uint32_t step, int by)
{
	fail();
}

#define STEPS 50
#define ROWS 40

/* Each step's sum, from the rows one by one. */
static void check_steps(const struct plan_request *a, const struct rows *r, const int64_t *values)
{
	int64_t before[ROWS + 1] = { 0 }, got[STEPS] = { 0 }, want[STEPS] = { 0 };
	struct step_sums s = { got, 0, 0 };
	for (size_t i = 0; i < r->n; i++)
		before[i + 1] = before[i] + values[i];
	steps_add(a, r, before, &s, no_wrap, NULL);
	for (uint32_t k = 0; k < a->n_steps; k++) {
		for (size_t i = 0; i < r->n; i++) {
			int64_t t = rows_stamp(r, i);
			if (t > a->after_ms + k * a->step_ms && t <= a->until_ms + k * a->step_ms)
				want[k] += values[i];
		}
		assert_true(got[k] == want[k]);
		assert_true(!want[k] || (k >= s.first && k < s.end));
	}
}

static void test_steps(void **state)
{
	uint64_t random = 6;
	int64_t values[ROWS], stamps[ROWS];
	for (int round = 0; round < 20000; round++) {
		int64_t every = 1 + (int64_t)(kit_random(&random) % 4), base = (int64_t)(kit_random(&random) % 3) * 1000 - 1000;
		struct rows r = { .n = 1 + kit_random(&random) % ROWS, .every_ms = every, .first_ms = base + 1 + (int64_t)(kit_random(&random) % 20) };
		r.start_ms = r.first_ms - 1 - (int64_t)(kit_random(&random) % 5);
		r.end_ms = rows_stamp(&r, r.n - 1) + (int64_t)(kit_random(&random) % 5);
		struct plan_request a = { .after_ms = base - 60 + (int64_t)(kit_random(&random) % 90),
					  .n_steps = 1 + (uint32_t)(kit_random(&random) % STEPS),
					  .step_ms = 1 + (int64_t)(kit_random(&random) % 6), .scale = 1 };
		a.until_ms = a.after_ms + (int64_t)(kit_random(&random) % 12);
		if (round % 2)
			a.step_ms = every * (1 + (int64_t)(kit_random(&random) % 3));
		for (size_t i = 0; i < r.n; i++) {
			values[i] = (int64_t)(kit_random(&random) % 200) - 100;
			stamps[i] = rows_stamp(&r, i);
		}
		check_steps(&a, &r, values);
		r.t_ms = stamps;
		r.stride = sizeof *stamps;
		check_steps(&a, &r, values);
	}
}

static void count_wraps(void *arg, uint32_t step, int by)
{
	int *wraps = arg;
	assert_true(by == 1 || by == -1);
	wraps[step] += by;
}

/* Series whose sums go over both ends of 64 bits and back: with the count of wraps each step has the sum of 128 bits. */
static void test_wraps(void **state)
{
	enum { SERIES = 40, N = 4 };
	uint64_t random = 7;
	int over = 0, under = 0;
	for (int round = 0; round < 200; round++) {
		int64_t got[N] = { 0 }, stamps[N] = { 10, 20, 30, 40 };
		int wraps[N] = { 0 };
		__int128 want[N] = { 0 };
		struct step_sums s = { got, 0, 0 };
		for (int series = 0; series < SERIES; series++) {
			int64_t before[N + 1] = { 0 }, large = INT64_MAX / N, values[N];
			struct rows r = { .n = N, .first_ms = 10, .every_ms = 10, .start_ms = 5, .end_ms = 40 };
			struct plan_request a = { .after_ms = 0, .until_ms = 20, .step_ms = 10, .n_steps = N, .scale = 1 };
			if (round % 2) {
				r.t_ms = stamps;
				r.stride = sizeof *stamps;
			}
			bool down = round % 3 == 2 || (round % 3 == 1 && series >= SERIES / 2);
			for (int i = 0; i < N; i++) {
				int64_t v = large - (int64_t)(kit_random(&random) % 1000);
				values[i] = down ? -v : v;
				before[i + 1] = before[i] + values[i];
			}
			steps_add(&a, &r, before, &s, count_wraps, wraps);
			for (int k = 0; k < N; k++)
				want[k] += (__int128)values[k] + (k + 1 < N ? values[k + 1] : 0);
		}
		for (int k = 0; k < N; k++) {
			assert_true((__int128)got[k] + (__int128)wraps[k] * ((__int128)1 << 64) == want[k]);
			over += wraps[k] > 0;
			under += wraps[k] < 0;
			assert_true(round % 3 != 1 || !wraps[k]); /* it came back */
		}
	}
	assert_true(over && under);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_points), cmocka_unit_test(test_small), cmocka_unit_test(test_steps),
					    cmocka_unit_test(test_wraps) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
