/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "base/flag.h"
#include "promql-like/values/memory_guard.h"

static atomic_uint_fast64_t resident_now;

static uint64_t resident(void)
{
	return atomic_load(&resident_now);
}

struct reader {
	struct guarded guarded;
	uint64_t n;
};

static uint64_t read_by(const struct guarded *x)
{
	return ((const struct reader *)(const void *)x)->n;
}

static bool is_stopped(const struct reader *r)
{
	return atomic_load(&r->guarded.stopped);
}

/* The youngest of those that read much is stopped, and nobody besides while it has not left. */
static void test_memory_guard(void **state)
{
	(void)state;
	atomic_store(&resident_now, 100);
	struct memory_guard *g = memory_guard_new(1000, resident);
	struct reader r[4] = { { { .samples = read_by }, 50 }, { { .samples = read_by }, 100 }, { { .samples = read_by }, 60 }, { { .samples = read_by }, 3 } };
	for (size_t i = 0; i < ARRAY_LEN(r); i++)
		memory_guard_enter(g, &r[i].guarded);
	atomic_store(&resident_now, 875);
	clock_sleep_ms(50);
	assert_false(memory_guard_is_short(g));
	atomic_store(&resident_now, 876);
	for (int i = 0; i < 10000 && !is_stopped(&r[2]); i++)
		clock_sleep_ms(1);
	assert_true(memory_guard_is_short(g) && is_stopped(&r[2]));
	bool only = !is_stopped(&r[0]) && !is_stopped(&r[1]) && !is_stopped(&r[3]);
	assert_true(only || memory_guard_stops(g) > 1); /* others only when it does not leave */
	memory_guard_leave(g, &r[2].guarded);
	for (int i = 0; i < 10000 && !is_stopped(&r[1]); i++)
		clock_sleep_ms(1);
	assert_true(is_stopped(&r[1]) && !is_stopped(&r[3]));
	atomic_store(&resident_now, 500);
	for (int i = 0; i < 10000 && memory_guard_is_short(g); i++)
		clock_sleep_ms(1);
	memory_guard_leave(g, &r[1].guarded);
	memory_guard_leave(g, &r[0].guarded);
	memory_guard_leave(g, &r[3].guarded);
	assert_true(memory_guard_stops(g) >= 2 && !memory_guard_is_short(g));
	/* What was there before is not theirs. */
	atomic_store(&resident_now, 990);
	r[0].guarded.stopped = false;
	memory_guard_enter(g, &r[0].guarded);
	clock_sleep_ms(50);
	assert_false(memory_guard_is_short(g) || is_stopped(&r[0]));
	memory_guard_leave(g, &r[0].guarded);
	memory_guard_free(g);
}

struct maker {
	struct memory_guard *g;
	uint64_t mib;
	int64_t deadline_ns;
	struct answer_maker own, *begun; /* begun: one that has something already; NULL: own */
	atomic_int state; /* 1: it makes; 2: done; negative: an error */
	atomic_bool end, canceled;
	pthread_t thread;
};

static void *make_answer(void *arg)
{
	struct maker *m = arg;
	struct err e;
	struct answer_maker *maker = m->begun ? m->begun : &m->own;
	int rc = memory_guard_make(m->g, maker, m->mib << 20, m->deadline_ns, &m->canceled, &e);
	atomic_store(&m->state, rc ? rc : 1);
	while (!rc && !atomic_load(&m->end))
		clock_sleep_ms(1);
	memory_guard_made(m->g, maker);
	return NULL;
}

static int wait_for_state(struct maker *m, int ms)
{
	for (int i = 0; i < ms && !atomic_load(&m->state); i++)
		clock_sleep_ms(1);
	return atomic_load(&m->state);
}

/* Answers share an eighth; one that is larger is made by itself; those that wait leave when nobody wants them or their time is over. */
static void test_answers_take_turns(void **state)
{
	(void)state;
	atomic_store(&resident_now, 100 << 20);
	struct memory_guard *g = memory_guard_new(UINT64_C(1600) << 20, resident);
	int64_t late = clock_mono_ns() + INT64_C(3600000000000);
	static const uint64_t mib[] = { 150, 50, 60, 900, 900, 900 };
	struct maker m[ARRAY_LEN(mib)] = { 0 };
	for (size_t i = 0; i < ARRAY_LEN(m); i++) {
		m[i].g = g;
		m[i].mib = mib[i];
		m[i].deadline_ns = i == 4 ? clock_mono_ns() + 1000000 : late;
	}
	for (size_t i = 0; i < ARRAY_LEN(m); i++) {
		pthread_create(&m[i].thread, NULL, make_answer, &m[i]);
		if (i < 2)
			assert_int_equal(wait_for_state(&m[i], 20000), 1);
		for (int k = 0; k < 20000 && i == 2 && memory_guard_makes(g) < 3; k++) /* it comes before the next */
			clock_sleep_ms(1);
	}
	assert_int_equal(wait_for_state(&m[4], 20000), -ERR_TIMEOUT);
	flag_raise(&m[5].canceled);
	assert_int_equal(wait_for_state(&m[5], 20000), -ERR_CANCELED);
	assert_int_equal(atomic_load(&m[2].state), 0);
	assert_int_equal(atomic_load(&m[3].state), 0);
	assert_true(memory_guard_makes(g));
	atomic_store(&m[0].end, true);
	assert_int_equal(wait_for_state(&m[2], 20000), 1);
	assert_int_equal(atomic_load(&m[3].state), 0);
	atomic_store(&m[1].end, true);
	atomic_store(&m[2].end, true);
	assert_int_equal(wait_for_state(&m[3], 20000), 1);
	atomic_store(&m[3].end, true);
	for (size_t i = 0; i < ARRAY_LEN(m); i++)
		pthread_join(m[i].thread, NULL);
	assert_false(memory_guard_makes(g));
	memory_guard_free(g);
}

/* A large one is not overtaken by those that come after it, though they would fit. */
static void test_large_answers_come_to_their_turn(void **state)
{
	(void)state;
	atomic_store(&resident_now, 100 << 20);
	struct memory_guard *g = memory_guard_new(UINT64_C(1600) << 20, resident);
	int64_t late = clock_mono_ns() + INT64_C(3600000000000);
	struct maker m[3] = { { .g = g, .mib = 150, .deadline_ns = late }, { .g = g, .mib = 900, .deadline_ns = late }, { .g = g, .mib = 10, .deadline_ns = late } };
	for (unsigned i = 0; i < ARRAY_LEN(m); i++) {
		pthread_create(&m[i].thread, NULL, make_answer, &m[i]);
		for (int k = 0; k < 20000 && memory_guard_makes(g) <= i; k++)
			clock_sleep_ms(1);
	}
	flag_wake(NULL); /* those that wait look again */
	clock_sleep_ms(20);
	assert_int_equal(atomic_load(&m[2].state), 0);
	atomic_store(&m[0].end, true);
	assert_int_equal(wait_for_state(&m[1], 20000), 1);
	assert_int_equal(atomic_load(&m[2].state), 0);
	atomic_store(&m[1].end, true);
	assert_int_equal(wait_for_state(&m[2], 20000), 1);
	atomic_store(&m[2].end, true);
	for (size_t i = 0; i < ARRAY_LEN(m); i++)
		pthread_join(m[i].thread, NULL);
	memory_guard_free(g);
}

/* Waits until the answer makes, or an error came of it. */
static int make_now(struct memory_guard *g, struct answer_maker *m, uint64_t bytes, struct err *e)
{
	return memory_guard_make(g, m, bytes, clock_mono_ns() + INT64_C(3600000000000), NULL, e);
}

#define MIB (UINT64_C(1) << 20)

/* An answer that is alone may use what is free up to the line, and no more; a small one passes, whatever the others take. */
static void test_no_answer_is_larger_than_what_is_free(void **state)
{
	(void)state;
	struct err e = { 0 };
	struct answer_maker one = { 0 }, other = { 0 }, small = { 0 };
	atomic_store(&resident_now, 100 * MIB);
	struct memory_guard *g = memory_guard_new(800 * MIB, resident); /* the line is at 700, 100 are for all */
	assert_int_equal(make_now(g, &one, 601 * MIB, &e), -ERR_LIMIT);
	assert_non_null(strstr(e.msg, "601MiB"));
	memory_guard_made(g, &one);
	one = (struct answer_maker){ 0 };
	assert_int_equal(make_now(g, &one, 500 * MIB, &e), 0);
	atomic_store(&resident_now, 600 * MIB); /* it has allocated them */
	assert_int_equal(make_now(g, &one, 101 * MIB, &e), -ERR_LIMIT);
	assert_int_equal(make_now(g, &one, 100 * MIB, &e), 0);
	assert_int_equal(make_now(g, &small, MIB / 2, &e), 0);
	assert_int_equal(make_now(g, &small, MIB / 2, &e), 0);
	assert_int_equal(memory_guard_makes(g), 1);
	memory_guard_made(g, &one);
	atomic_store(&resident_now, 100 * MIB);
	/* what was small and grows is one of the others */
	assert_int_equal(make_now(g, &small, 50 * MIB, &e), 0);
	assert_int_equal(memory_guard_makes(g), 1);
	assert_int_equal(make_now(g, &other, 40 * MIB, &e), 0);
	memory_guard_made(g, &small);
	memory_guard_made(g, &other);
	assert_int_equal(memory_guard_makes(g), 0);
	memory_guard_free(g);
}

/* Two answers that each want what the other one has: the older one may have more than its share, and when that is not enough either, the younger one ends. */
static void test_answers_do_not_wait_for_each_other(void **state)
{
	(void)state;
	struct err e = { 0 };
	struct answer_maker old = { 0 }, young = { 0 };
	atomic_store(&resident_now, 100 * MIB);
	struct memory_guard *g = memory_guard_new(800 * MIB, resident);
	assert_int_equal(make_now(g, &old, 50 * MIB, &e), 0);
	assert_int_equal(make_now(g, &young, 50 * MIB, &e), 0);
	assert_int_equal(make_now(g, &old, 300 * MIB, &e), 0); /* beyond what all share */
	struct maker m = { .g = g, .mib = 250, .deadline_ns = clock_mono_ns() + INT64_C(3600000000000), .begun = &old };
	pthread_create(&m.thread, NULL, make_answer, &m);
	int rc = 0;
	for (int i = 0; i < 20000 && rc != -ERR_BUSY; i++) /* until the older query waits for the younger one to end */
		rc = memory_guard_make(g, &young, 60 * MIB, clock_mono_ns() + 1000000, NULL, &e);
	assert_int_equal(rc, -ERR_BUSY);
	assert_int_equal(atomic_load(&m.state), 0);
	memory_guard_made(g, &young);
	assert_int_equal(wait_for_state(&m, 20000), 1);
	atomic_store(&m.end, true);
	pthread_join(m.thread, NULL);
	memory_guard_free(g);
}

/* A result is counted until it is released: memory that grew while answers are made is looked at, and begins no query. */
static void test_results_are_held(void **state)
{
	(void)state;
	atomic_store(&resident_now, 100);
	struct memory_guard *g = memory_guard_new(1000, resident);
	struct reader r = { { .samples = read_by }, 50 };
	memory_guard_enter(g, &r.guarded);
	memory_guard_hold(g);
	memory_guard_leave(g, &r.guarded);
	atomic_store(&resident_now, 900);
	for (int i = 0; i < 10000 && !memory_guard_is_short(g); i++)
		clock_sleep_ms(1);
	assert_true(memory_guard_is_short(g));
	memory_guard_enter(g, &r.guarded); /* what the answer took is not what was there before */
	for (int i = 0; i < 10000 && !is_stopped(&r); i++)
		clock_sleep_ms(1);
	assert_true(is_stopped(&r));
	memory_guard_leave(g, &r.guarded);
	memory_guard_drop(g);
	assert_false(memory_guard_is_short(g));
	memory_guard_free(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_memory_guard),
		cmocka_unit_test(test_answers_take_turns),
		cmocka_unit_test(test_large_answers_come_to_their_turn),
		cmocka_unit_test(test_no_answer_is_larger_than_what_is_free),
		cmocka_unit_test(test_answers_do_not_wait_for_each_other),
		cmocka_unit_test(test_results_are_held),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
