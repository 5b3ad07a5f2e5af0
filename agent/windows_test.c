/* SPDX-License-Identifier: Apache-2.0 */
/* Windows and costs under clocks that the test moves: drift, steps, sleep of the machine; frequency and off-CPU steps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agent/cost.h"
#include "agent/tally.h"

#define SECOND 1000000000ll
#define DRAIN (SECOND / 20)

/* The host's clocks, and the windows cut by them as the agent's thread does it. */
struct host {
	int64_t mono_ns, unix_ns;
	struct tally *current;
	VEC(struct tally *) past;
};

static void host_init(struct host *h, int64_t mono_ns, int64_t unix_ns)
{
	*h = (struct host){ .mono_ns = mono_ns, .unix_ns = unix_ns };
	h->current = tally_open(mono_ns, unix_ns - mono_ns, false);
}

static void host_free(struct host *h)
{
	tally_free(h->current);
	for (size_t i = 0; i < h->past.n; i++)
		tally_free(h->past.v[i]);
	vec_free(&h->past);
}

/* Time passes; the wall clock is ppm millionths faster than the monotonic one. */
static void pass(struct host *h, int64_t ns, int64_t ppm)
{
	for (int64_t end = h->mono_ns + ns; h->mono_ns < end;) {
		int64_t cut;
		h->mono_ns += DRAIN;
		h->unix_ns += DRAIN + DRAIN * ppm / 1000000;
		while (tally_over(h->current, h->mono_ns, h->unix_ns - h->mono_ns, &cut)) {
			bool follows = cut == h->current->end_ns;
			h->current->end_ns = cut;
			tally_finish(h->current);
			vec_push(&h->past, h->current);
			h->current = tally_open(cut, h->unix_ns - h->mono_ns, follows);
		}
	}
}

/* No time is in two windows or in none. */
static void assert_tiles(const struct host *h)
{
	for (size_t i = 0; i < h->past.n; i++) {
		const struct tally *next = i + 1 < h->past.n ? h->past.v[i + 1] : h->current;
		assert_true(h->past.v[i]->end_ns == next->start_ns);
		assert_true(h->past.v[i]->end_ns > h->past.v[i]->start_ns);
	}
}

/* Whole windows from [first, n) on: multiples of ten seconds, one after the other. */
static void assert_regular(const struct host *h, size_t first, size_t n)
{
	assert_true(h->past.n >= n);
	for (size_t i = first; i < n; i++) {
		assert_int_equal(tally_start_unix_ms(h->past.v[i]) % 10000, 0);
		if (i > first)
			assert_int_equal(tally_start_unix_ms(h->past.v[i]) - tally_start_unix_ms(h->past.v[i - 1]), 10000);
	}
}

static void test_drift(void **state)
{
	static const int64_t drifts[] = { 0, 500, -500 }; /* the most that adjtime slews */
	for (size_t d = 0; d < 3; d++) {
		struct host h;
		host_init(&h, 77 * SECOND, 1700000003 * SECOND);
		pass(&h, 1000 * SECOND, drifts[d]);
		assert_tiles(&h);
		assert_in_range(h.past.n, 99, 101);
		assert_int_equal(tally_start_unix_ms(h.past.v[0]), 1700000003000);
		assert_regular(&h, 1, h.past.n);
		host_free(&h);
	}
}

/* The wall clock is set an hour ahead, back, or by what a leap second is; the machine sleeps (which only the wall clock
 * notices): the window that was open ends there, the next one ends at a multiple again. */
static void test_steps(void **state)
{
	static const int64_t steps[] = { 3600 * SECOND, -3600 * SECOND, -SECOND, 8 * 3600 * SECOND + SECOND / 3 };
	for (size_t i = 0; i < 4; i++) {
		struct host h;
		host_init(&h, 5 * SECOND, 1700000000 * SECOND);
		pass(&h, 24 * SECOND, 0);
		assert_int_equal(h.past.n, 2);
		h.unix_ns += steps[i];
		pass(&h, SECOND, 0);
		assert_int_equal(h.past.n, 3);
		assert_true(h.past.v[2]->end_ns - h.past.v[2]->start_ns < 5 * SECOND);
		assert_true(tally_start_unix_ms(h.current) - (1700000024000 + steps[i] / 1000000) < 100);
		pass(&h, 60 * SECOND, 0);
		assert_tiles(&h);
		assert_regular(&h, 4, h.past.n);
		assert_true(tally_start_unix_ms(h.past.v[4]) - (1700000024000 + steps[i] / 1000000) <= 10100);
		host_free(&h);
	}
}

/* The thread did not run for a while: the windows are cut where they should have been. */
static void test_late_thread(void **state)
{
	struct host h;
	int64_t cut;
	host_init(&h, 0, 1700000000 * SECOND);
	int64_t offset = h.unix_ns - h.mono_ns;
	for (h.mono_ns = 35 * SECOND; tally_over(h.current, h.mono_ns, offset, &cut); h.current = tally_open(cut, offset, true)) {
		h.current->end_ns = cut;
		vec_push(&h.past, h.current);
	}
	assert_int_equal(h.past.n, 3);
	assert_tiles(&h);
	assert_regular(&h, 0, 3);
	host_free(&h);
}

/* --- cost --- */

struct meter {
	struct cost cost;
	struct cost_readings r;
};

/* Ten seconds on two CPUs, of which the agent takes these shares. */
static int spend(struct meter *m, double own, double ticks, double switches)
{
	m->r.now_ns += 10 * SECOND;
	m->r.own_ns += (int64_t)(own * 20e9);
	m->r.sampling_ns += (uint64_t)(ticks * 20e9);
	m->r.off_ns += (uint64_t)(switches * 20e9);
	return cost_check(&m->cost, &m->r, 2, 0.01);
}

static void test_frequency_follows_cost(void **state)
{
	struct meter m = { .r = { .now_ns = SECOND } };
	double hz = 97, least;

	assert_int_equal(spend(&m, 0, 0, 0), 0); /* the first reading */
	for (int i = 0; i < 12; i++)
		assert_int_not_equal(spend(&m, 0.004, 0.002, 0), -1);
	/* A burst is forgiven, steady cost is not. */
	assert_int_not_equal(spend(&m, 0.02, 0.01, 0), -1);
	for (int i = 0; i < 30; i++)
		hz = cost_hz(hz, 97, spend(&m, 0.02 * hz / 97, 0.02 * hz / 97, 0));
	assert_true(hz < 97);
	assert_true(m.cost.share <= 0.01);
	least = hz;
	for (int i = 0; i < 60; i++)
		hz = cost_hz(hz, 97, spend(&m, 0.0001, 0.0001, 0));
	assert_true(hz > least);
	assert_true(hz <= 97 && hz >= 97);
	/* It never stops to sample. */
	for (int i = 0; i < 60; i++)
		hz = cost_hz(hz, 97, spend(&m, 0.5, 0.1, 0));
	assert_true(hz >= 1 && hz <= 1);
}

/* What waits cost counts, and is told apart. */
static void test_waits_count(void **state)
{
	struct meter m = { .r = { .now_ns = SECOND } };
	int advice = 0;

	spend(&m, 0, 0, 0);
	for (int i = 0; i < 12; i++)
		advice = spend(&m, 0.001, 0.001, 0.02);
	assert_int_equal(advice, -1);
	assert_true(m.cost.mostly_off);
	for (int i = 0; i < 12; i++)
		advice = spend(&m, 0.001, 0.02, 0.001);
	assert_int_equal(advice, -1);
	assert_false(m.cost.mostly_off);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_drift), cmocka_unit_test(test_steps), cmocka_unit_test(test_late_thread),
		cmocka_unit_test(test_frequency_follows_cost), cmocka_unit_test(test_waits_count),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
