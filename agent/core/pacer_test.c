/* SPDX-License-Identifier: Apache-2.0 */
/* The controller against a host that is calculated: two CPUs, what things cost there, and what goes on. */
#include "agent/core/pacer.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/attrs.h"

#define SECOND 1000000000ull
#define CPUS 2
#define MAX_SHARE 0.01
#define HZ 19

struct host {
	struct pacer b;
	struct pacer_readings r;
	double fixed, on;            /* shares of all CPUs; on: at HZ */
	double switches;             /* a second */
	double waits;                /* share of all CPUs, without any limit on it */
	unsigned changes;
	double least_hz;
	unsigned most_step;
};

static struct host host(double fixed, double on, bool off_cpu)
{
	struct host h = { .fixed = fixed, .on = on, .switches = 1000, .least_hz = HZ };

	pacer_init(&h.b, MAX_SHARE, HZ, off_cpu);
	h.r.now_ns = (int64_t)SECOND;
	pacer_check(&h.b, &h.r, CPUS);
	return h;
}

/* Ten seconds. A switch takes 130 ns to time; of waits half is the kernel's part. */
static void interval(struct host *h)
{
	const double ns = 10 * CPUS * (double)SECOND;
	bool watches = h->b.off_cpu && h->b.step < OFF_STEPS;
	uint64_t waits = watches ? (uint64_t)(ldexp(h->waits, -(int)h->b.step) * ns) : 0;
	uint64_t on = (uint64_t)(h->on * h->b.hz / HZ * ns), switches = (uint64_t)(10 * h->switches);

	h->r.now_ns += 10 * (int64_t)SECOND;
	h->r.own_ns += (uint64_t)(h->fixed * ns) + on / 2 + waits / 2;
	h->r.on_ns += on / 2;
	h->r.off_ns += waits / 2;
	h->r.sampling_ns += on - on / 2;
	h->r.stack_ns += waits - waits / 2;
	h->r.switches += switches;
	if (watches) {
		h->r.switch_ns += waits - waits / 2 + 130 * switches;
		h->r.watched += switches;
	}
	h->changes += pacer_check(&h->b, &h->r, CPUS) != 0;
	h->least_hz = fmin(h->least_hz, h->b.hz);
	h->most_step = MAX(h->most_step, h->b.step);
}

static void run(struct host *h, unsigned intervals)
{
	h->changes = 0;
	h->least_hz = h->b.hz;
	h->most_step = 0;
	while (intervals--)
		interval(h);
}

static bool is(double a, double b)
{
	return a >= b && a <= b;
}

/* A minute of very many switches, which cost more to time than there is: off-CPU pauses, nothing else changes, and
 * two minutes later all is as it was. What is fixed is above a quarter of the limit all the while. */
static void test_settles_after_load(void **state)
{
	struct host h = host(0.004, 0.001, true);

	h.waits = 0.002;
	run(&h, 12);
	assert_int_equal(h.changes, 0);
	h.switches = 400000;
	h.waits = 0.02;
	run(&h, 6);
	assert_int_equal(h.b.step, OFF_STEPS);
	assert_true(is(h.least_hz, HZ));
	run(&h, 60);
	assert_int_equal(h.changes, 0);      /* no probing: the host's switches are counted */
	h.switches = 1000;
	h.waits = 0.002;
	run(&h, 12);
	assert_int_equal(h.b.step, 0);
	assert_true(is(h.least_hz, HZ));
	run(&h, 60);
	assert_int_equal(h.changes, 0);
}

/* Waits that are dear to report cost threshold, by as many steps as it takes, and are not taken back and given again. */
static void test_steps_that_fit(void **state)
{
	struct host h = host(0.003, 0.001, true);

	h.waits = 0.03;
	run(&h, 12);
	assert_in_range(h.b.step, 2, 5);
	assert_true(is(h.least_hz, HZ));
	assert_true(h.fixed + h.on + ldexp(h.waits, -(int)h.b.step) <= MAX_SHARE);
	run(&h, 60);
	assert_int_equal(h.changes, 0);
	h.waits = 0.001;
	run(&h, 12);
	assert_int_equal(h.b.step, 0);
}

/* Whatever waits and switches cost: the frequency is what it would be without. */
static void test_waits_never_cost_frequency(void **state)
{
	srand(1);
	for (int i = 0; i < 200; i++) {
		struct host h = host(0.005 * rand() / RAND_MAX, 0.003 * rand() / RAND_MAX, true);
		for (int k = 0; k < 20; k++) {
			h.switches = pow(10, 6.0 * rand() / RAND_MAX);
			h.waits = fmin(0.5, h.switches * 5e-6 * rand() / RAND_MAX); /* up to 10 us each */
			run(&h, 6);
			assert_true(is(h.least_hz, HZ));
		}
		h.switches = 1000;
		h.waits = 0.0001;
		run(&h, 12);
		assert_int_equal(h.b.step, 0);
	}
}

/* A burst is forgiven, what goes on costs frequency, and that comes back as soon as it fits twice as high. */
static void test_frequency(void **state)
{
	struct host h = host(0.004, 0.001, false);

	run(&h, 12);
	h.fixed = 0.03;
	interval(&h);
	h.fixed = 0.004;
	run(&h, 12);
	assert_int_equal(h.changes, 0);
	h.on = 0.016;
	run(&h, 12);
	assert_true(is(h.b.hz, HZ / 4.0));
	run(&h, 60);
	assert_int_equal(h.changes, 0);
	h.on = 0.004;
	run(&h, 12);
	assert_true(is(h.b.hz, HZ));
	h.on = 5;                            /* it never stops to sample */
	run(&h, 60);
	assert_true(is(h.b.hz, 1));
	assert_int_equal(h.b.step, 0);       /* without --off-cpu there is nothing to step */
}

/* Where the agent itself is above the limit, samples and waits keep a quarter of it each: to take fewer would save nothing. */
static void test_own_quarter(void **state)
{
	struct host h = host(0.02, 0.001, true);

	h.waits = 0.002;
	run(&h, 60);
	assert_true(is(h.least_hz, HZ));
	assert_int_equal(h.most_step, 0);
	h.on = h.waits = 0.004;
	run(&h, 12);
	assert_true(is(h.b.hz, HZ / 2.0));
	assert_int_equal(h.b.step, 1);
	h.on = 0.0004;
	h.switches = 100000;                 /* 0.65 % of two CPUs, which are not there */
	run(&h, 12);
	assert_int_equal(h.b.step, OFF_STEPS);
	assert_true(is(h.b.hz, HZ));
}

static void test_notes(void **state)
{
	struct pacer c;
	char text[PACER_NOTE];

	pacer_init(&c, MAX_SHARE, HZ, true);
	pacer_note(&c, false, 1000000, text);
	assert_string_equal(text, "");
	pacer_note(&c, true, 1000000, text);
	assert_string_equal(text, "");
	c.hz = 9.5;
	c.step = 3;
	pacer_note(&c, false, 1000000, text);
	assert_string_equal(text, "9.5 samples a second, not 19: more would cost more than --max-cost");
	pacer_note(&c, true, 1500000, text);
	assert_string_equal(text, "only waits of 12 ms and longer, not of 1.5 ms: more would cost more than --max-cost");
	c.step = OFF_STEPS;
	pacer_note(&c, true, 1000000, text);
	assert_string_equal(text, "waits are not watched: threads switch so often that it would cost more than --max-cost");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_settles_after_load), cmocka_unit_test(test_steps_that_fit),
		cmocka_unit_test(test_waits_never_cost_frequency), cmocka_unit_test(test_frequency),
		cmocka_unit_test(test_own_quarter), cmocka_unit_test(test_notes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
