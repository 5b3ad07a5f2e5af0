/* SPDX-License-Identifier: Apache-2.0 */
/* Making one part of the several of an hour. tsdb_model_test and the crash harness do it among everything else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tsdb/testkit.h"

static size_t count_parts(struct kit *k)
{
	struct tsdb_stats s;
	tsdb_stats(k->db, &s);
	return s.parts;
}

/* Late and back-filled data make parts of their own; they become one, and after a restart they are that still. */
static void test_compaction(void **state)
{
	struct kit k;
	struct err e;
	int64_t hour = 3600000, total, again;
	kit_init(&k);
	k.o.no_sealing = true;
	kit_open(&k);
	for (int round = 0; round < 4; round++) {
		for (int i = 0; i < 30; i++)
			for (unsigned pod = 0; pod < 3; pod++) {
				int64_t t = KIT_T0 + (round % 2) * hour + 1000 + i * 100000 + round * 1001 + pod;
				k.now_ms = MAX(k.now_ms, t);
				assert_int_equal(kit_append(&k, pod, t, (uint64_t)(round * 1000 + i), i % 7 ? 40 : 0, NULL), 0);
			}
		assert_int_equal(kit_append_float(&k, "up", KIT_T0 + (round % 2) * hour + 5000 + round, round, NULL), 0);
		assert_int_equal(tsdb_seal(k.db, true, &e), 0);
	}
	uint64_t samples = kit_merge(&k, KIT_SAMPLES, 0, INT64_MAX, NULL), some = kit_merge(&k, KIT_CPU, KIT_T0 + 777777, KIT_T0 + hour + 999999, NULL);
	size_t n = kit_count(&k, KIT_CPU, 0, INT64_MAX, &total);
	assert_int_equal(count_parts(&k), 4);
	assert_int_equal(tsdb_clean(k.db, &e), 0);
	assert_int_equal(count_parts(&k), 4); /* too early */
	k.now_ms = KIT_T0 + 5 * hour;
	assert_int_equal(tsdb_clean(k.db, &e), 0);
	assert_int_equal(count_parts(&k), 2);
	for (int opened = 0; opened < 3; opened++) {
		assert_true(kit_merge(&k, KIT_SAMPLES, 0, INT64_MAX, NULL) == samples);
		assert_true(kit_merge(&k, KIT_CPU, KIT_T0 + 777777, KIT_T0 + hour + 999999, NULL) == some);
		assert_int_equal(kit_count(&k, KIT_CPU, 0, INT64_MAX, &again), n);
		assert_true(again == total);
		kit_check_graph(&k, KIT_CPU, SIZE_MAX, KIT_T0, 60000, 60000, 120, NULL);
		/* The second time there are late data again, and what was merged is merged once more. */
		if (opened == 1) {
			assert_int_equal(kit_append(&k, 9, KIT_T0 + 4321, 4, 0, NULL), 0);
			assert_int_equal(tsdb_seal(k.db, true, &e), 0);
			n++;
			assert_int_equal(tsdb_clean(k.db, &e), 0);
			assert_int_equal(count_parts(&k), 2);
		}
		kit_reopen(&k);
	}
	kit_free(&k);
}

/* A part that was rewritten has a higher number than a later one of the same hour, but comes before it in the chain of
 * symbols. What is made of the two must have the symbols of both. */
static void test_part_written_anew(void **state)
{
	struct kit k;
	struct err e;
	struct matcher pod;
	uint64_t series;
	static const int64_t hours[] = { 1, 0, 2, 0 };
	kit_init(&k);
	k.o.no_sealing = true;
	kit_open(&k);
	for (unsigned round = 0; round < ARRAY_LEN(hours); round++) { /* each with symbols that were not there before */
		int64_t from = KIT_T0 + hours[round] * 3600000 + 1000 + round;
		k.now_ms = MAX(k.now_ms, from + 600000);
		for (unsigned i = 0; i < 6; i++)
			assert_int_equal(kit_append(&k, round + i % 2, from + i * 60000, 100 * round + i, 40, NULL), 0);
		assert_int_equal(tsdb_seal(k.db, true, &e), 0);
	}
	assert_int_equal(matcher_init(&pod, MATCH_EQ, VIEW("pod"), VIEW("pod-1"), &e), 0);
	assert_int_equal(tsdb_delete(k.db, &pod, 1, KIT_T0, KIT_T0 + 100000, &series, &e), 0);
	assert_true(series > 0);
	matcher_release(&pod);
	uint64_t samples = kit_merge(&k, KIT_SAMPLES, 0, INT64_MAX, NULL), cpu = kit_merge(&k, KIT_CPU, 0, INT64_MAX, NULL);
	k.now_ms = KIT_T0 + 5 * 3600000;
	assert_int_equal(tsdb_clean(k.db, &e), 0);
	assert_int_equal(count_parts(&k), 3);
	for (int opened = 0; opened < 2; opened++) {
		kit_reopen(&k);
		assert_true(kit_merge(&k, KIT_SAMPLES, 0, INT64_MAX, NULL) == samples);
		assert_true(kit_merge(&k, KIT_CPU, 0, INT64_MAX, NULL) == cpu);
	}
	kit_free(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_compaction), cmocka_unit_test(test_part_written_anew) };
	return cmocka_run_group_tests_name("tsdb compaction", tests, NULL, NULL);
}
