/* SPDX-License-Identifier: Apache-2.0 */
/* What the profiles of a series come to, against the list of them (kit_count holds the one against the other): of parts as a whole, at
 * borders that fit nothing, with holes, markers, late parts, deletes, a head; of columns that are all the same and that are not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "base/alloc.h"
#include "tsdb/testkit.h"

#define MINUTE INT64_C(60000)
#define HOUR (60 * MINUTE)
#define PODS 8

/* pod 0 has equal profiles. In pod 1 their covers differ, in pod 2 their periods; pod 3 has gaps, pod 4 stale markers; pod 5 has all of these, and weights that differ. Pod 6 has one weight, pod 7 has two. */
static void put(struct kit *k, unsigned pod, int64_t t_ms, uint64_t *random)
{
	struct profile p;
	struct err e;
	char name[32];
	bool all = pod == 5, stale = (pod == 4 || all) && kit_random(random) % 20 == 0;
	if ((pod == 3 || all) && kit_random(random) % 8 == 0)
		return;
	kit_profile(&p, kit_random(random), 5);
	snprintf(name, sizeof name, "pod-%u", pod);
	struct label labels[] = { { VIEW(LABEL_NAME), VIEW(KIT_SAMPLES) }, { VIEW("job"), VIEW("kit") }, { VIEW("pod"), view_of(name) } };
	struct sink_column column = { .labels = { labels, 3 }, .value_index = 0 };
	assert_true(ptype_parse(VIEW(KIT_SAMPLES), &column.type));
	struct sink_profile sp = { .profile = stale ? NULL : &p, .columns = &column, .n_columns = 1, .t_ms = t_ms, .duration_ns = 10000000000,
				   .interval_ms = 10000, .asked_ms = 10000, .period = KIT_PERIOD, .cover_ms = 10000 };
	if (pod == 1 || all)
		sp.cover_ms = 9990 + (int64_t)(kit_random(random) % 20);
	if (pod == 6 || (pod == 7 && t_ms % HOUR < 20 * MINUTE))
		sp.asked_ms = 3000;
	if (all)
		sp.asked_ms = 1000 * (int64_t)(1 + kit_random(random) % 10);
	if (pod == 2 || all)
		sp.period = 1 + (int64_t)(kit_random(random) % 1000);
	struct sink_batch b = { .profiles = &sp, .n_profiles = 1 };
	struct sink *s = tsdb_sink(k->db);
	assert_int_equal(s->append(s, &b, NULL, &e), 0);
	profile_release(&p);
}

static void fill(struct kit *k, int64_t from, int64_t until, int64_t step, uint64_t *random)
{
	for (int64_t t = from + step; t <= until; t += step) {
		k->now_ms = MAX(k->now_ms, t);
		for (unsigned pod = 0; pod < PODS; pod++)
			put(k, pod, t, random);
	}
	tsdb_flush(k->db);
}

static void delete(struct kit *k, const char *pod, int64_t after, int64_t until)
{
	struct matcher m;
	struct err e;
	uint64_t series;
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW("pod"), view_of(pod), &e), 0);
	assert_int_equal(tsdb_delete(k->db, &m, 1, after, until, &series, &e), 0);
	matcher_release(&m);
	assert_int_equal(series, 1);
}

static void check(struct kit *k, int64_t hours, uint64_t *random)
{
	kit_count(k, KIT_SAMPLES, 0, INT64_MAX / 2, NULL);
	for (int round = 0; round < 60; round++) {
		int64_t after = KIT_T0 + (int64_t)(kit_random(random) % (uint64_t)(hours * HOUR)), range = (int64_t)(kit_random(random) % (3 * (uint64_t)HOUR));
		if (round % 3 == 0)
			after = after / HOUR * HOUR;
		if (round % 3 == 1) /* on a stamp */
			after = after / 10000 * 10000;
		if (round % 2)
			range = range / MINUTE * MINUTE;
		kit_count(k, KIT_SAMPLES, after, after + range, NULL);
	}
}

static void test_all_kinds(void **state)
{
	struct kit k;
	uint64_t random = 11;
	struct err e;
	kit_init(&k);
	k.o.no_sealing = true; /* what is remembered of parts is looked at */
	kit_open(&k);
	fill(&k, KIT_T0, KIT_T0 + 4 * HOUR, 10000, &random);
	assert_true(kit_count(&k, KIT_SAMPLES, 0, KIT_T0 + 4 * HOUR, NULL) > 6000);
	check(&k, 4, &random);
	k.now_ms += 3 * HOUR;
	assert_int_equal(tsdb_seal(k.db, true, &e), 0);
	struct tsdb_stats before, after;
	tsdb_stats(k.db, &before);
	check(&k, 4, &random);
	tsdb_stats(k.db, &after);
	assert_true(after.part_index_bytes >= before.part_index_bytes + 4 * PODS * 40); /* what is remembered counts */
	fill(&k, KIT_T0 + 90 * MINUTE + 7, KIT_T0 + 100 * MINUTE + 7, 11000, &random); /* late: between those that are there */
	check(&k, 4, &random);
	assert_int_equal(tsdb_seal(k.db, true, &e), 0);
	check(&k, 4, &random);
	delete(&k, "pod-0", KIT_T0 + 70 * MINUTE + 3, KIT_T0 + 80 * MINUTE);
	delete(&k, "pod-5", KIT_T0 + 2 * HOUR, KIT_T0 + 3 * HOUR);
	check(&k, 4, &random);
	fill(&k, KIT_T0 + 7 * HOUR, KIT_T0 + 7 * HOUR + 20 * MINUTE, 10000, &random); /* a head */
	check(&k, 8, &random);
	kit_reopen(&k);
	check(&k, 8, &random);
	kit_free(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_all_kinds) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
