/* SPDX-License-Identifier: Apache-2.0 */
/* Dictionaries over their budget leave memory, and nobody sees it: answers, open views, late profiles, deletions, and the
 * ids of what was lost stay what they were. The sealer is off: eviction is the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/metrics.h"
#include "tsdb/testkit.h"
#include "tsdb/version/evict.h"

#define MINUTE INT64_C(60000)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)
#define DAYS 4
#define PODS 3
#define STACKS 40

struct days {
	struct kit k;
	uint64_t want[DAYS]; /* checksum of each day's samples */
	uint64_t seed;
	uint32_t stacks;     /* of a profile */
};

static void put(struct days *d, unsigned pod, unsigned day, int64_t after_ms)
{
	struct sink_result r;
	uint64_t seed = ++d->seed;
	assert_int_equal(kit_append(&d->k, pod, KIT_T0 + day * DAY + after_ms, seed, d->stacks, &r), 0);
	assert_int_equal(r.profiles, 1);
	d->want[day] += kit_profile_sum(seed, d->stacks, false);
}

static void seal(struct days *d)
{
	struct err e;
	if (tsdb_seal(d->k.db, true, &e))
		fail_msg("%s", e.msg);
}

static size_t loaded(struct days *d)
{
	struct tsdb_stats s;
	tsdb_stats(d->k.db, &s);
	return s.loaded;
}

static void evict_all(struct days *d)
{
	tsdb_flush(d->k.db); /* requests in flight hold theirs */
	evict_due(d->k.db, 0);
	assert_int_equal(loaded(d), 0);
}

static void start_with(struct days *d, uint32_t stacks)
{
	*d = (struct days){ .stacks = stacks };
	kit_init(&d->k);
	d->k.now_ms = KIT_T0 + DAYS * DAY;
	d->k.o.no_sealing = true;
	d->k.o.dictionary_bytes = 1;
	kit_open(&d->k);
	for (unsigned day = 0; day < DAYS; day++)
		for (unsigned pod = 0; pod < PODS; pod++)
			for (int64_t t = 1; t <= 3; t++)
				put(d, pod, day, t * 7 * HOUR + pod);
	seal(d);
}

static void start(struct days *d)
{
	start_with(d, STACKS);
}

static uint64_t merge(struct days *d, unsigned first, unsigned last)
{
	return kit_merge(&d->k, KIT_SAMPLES, KIT_T0 + first * DAY, KIT_T0 + (last + 1) * DAY, NULL);
}

static void check(struct days *d)
{
	uint64_t all = 0;
	for (unsigned day = 0; day < DAYS; day++) {
		assert_true(merge(d, day, day) == d->want[day]);
		all += d->want[day];
	}
	assert_true(merge(d, 0, DAYS - 1) == all);
	assert_true(merge(d, 1, 2) == d->want[1] + d->want[2]);
}

static void test_answers_stay(void **state)
{
	struct days d;
	struct tsdb_stats s;
	(void)state;
	start(&d);
	for (int i = 0; i < 2; i++) {
		check(&d);
		assert_int_equal(loaded(&d), DAYS);
		evict_all(&d);
		tsdb_stats(d.k.db, &s); /* what is told of the time does not depend on dictionaries */
		assert_true(s.min_t_ms == KIT_T0 + 7 * HOUR);
		assert_true(s.max_t_ms == KIT_T0 + (DAYS - 1) * DAY + 21 * HOUR + PODS - 1);
		if (!i)
			kit_reopen(&d.k);
	}
	check(&d);
	assert_true(merge(&d, 2, 2) == d.want[2]);
	evict_all(&d);
	assert_true(merge(&d, 2, 2) == d.want[2]);
	assert_int_equal(loaded(&d), 1); /* who asks for a day pays for that day */
	kit_free(&d.k);
}

static void test_the_budget_and_the_oldest_use(void **state)
{
	struct days d;
	(void)state;
	start(&d);
	evict_all(&d);
	for (unsigned day = 0; day < DAYS; day++)
		merge(&d, day, day);
	evict_due(d.k.db, HOUR); /* all were used a moment ago */
	assert_int_equal(loaded(&d), DAYS);
	struct tsdb_stats s;
	tsdb_stats(d.k.db, &s);
	d.k.db->o.dictionary_bytes = s.dictionary_bytes; /* the joins' are in it: within the budget */
	evict_due(d.k.db, 0);
	assert_int_equal(loaded(&d), DAYS);
	struct partition *first = tsdb_partition(d.k.db, (uint32_t)(KIT_T0 / DAY));
	atomic_store(&first->used_mono_ms, 0);
	d.k.db->o.dictionary_bytes = 3 * evict_bytes(first) + evict_bytes(first) / 2;
	evict_due(d.k.db, 0); /* this reference is as an append's in flight: it stays, the next goes */
	assert_true(atomic_load(&first->loaded));
	assert_int_equal(loaded(&d), DAYS - 1);
	partition_unref(first);
	check(&d);
	kit_free(&d.k);
}

static void test_an_open_view(void **state)
{
	struct days d;
	struct source_view *v;
	struct source_series *s;
	struct matcher m;
	struct stackvec *sum;
	struct err e;
	size_t n;
	(void)state;
	start(&d);
	evict_all(&d);
	assert_int_equal(tsdb_source(d.k.db)->open(tsdb_source(d.k.db), &v, &e), 0);
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW(LABEL_NAME), VIEW(KIT_SAMPLES), &e), 0);
	assert_int_equal(v->ops->select(v, &m, 1, 0, INT64_MAX, NULL, &s, &n, &e), 0);
	assert_int_equal(n, PODS);
	evict_all(&d);
	check(&d); /* others load them again meanwhile */
	uint64_t want = 0;
	for (unsigned day = 0; day < DAYS; day++)
		want += d.want[day];
	struct source_part parts[PODS];
	for (size_t i = 0; i < n; i++) {
		assert_true(labels_get(s[i].labels, VIEW("job")).len == 3);
		parts[i] = (struct source_part){ .ref = s[i].ref, .until_ms = INT64_MAX, .scale = 1 };
	}
	assert_int_equal(v->ops->merge(v, parts, n, 1, SYMBOLS_WHOLE, NULL, &sum, &e), 0);
	assert_true(kit_vec_sum(sum) == want);
	evict_all(&d);
	assert_true(kit_vec_sum(sum) == want);
	stackvec_unref(sum);
	free(s);
	matcher_release(&m);
	v->ops->release(v);
	kit_free(&d.k);
}

static void test_late_profiles(void **state)
{
	struct days d;
	struct sink_result r;
	(void)state;
	start(&d);
	evict_all(&d);
	put(&d, 0, 1, 5 * HOUR);
	put(&d, 7, 1, 5 * HOUR); /* a series of its own */
	tsdb_flush(d.k.db);
	evict_due(d.k.db, 0);
	assert_int_equal(loaded(&d), 1); /* its rows are only in memory and in the log */
	check(&d);
	kit_reopen(&d.k);
	check(&d);
	seal(&d);
	evict_all(&d);
	check(&d);
	evict_all(&d);
	assert_int_equal(kit_append(&d.k, 0, KIT_T0 + DAY + 5 * HOUR, 1, STACKS, &r), 0);
	assert_int_equal(r.duplicates, 2); /* one of each type */
	kit_reopen(&d.k);
	check(&d);
	kit_free(&d.k);
}

static void test_deleted_series_stay_hidden(void **state)
{
	struct days d;
	struct matcher m[2];
	struct err e;
	uint64_t n_series;
	size_t n;
	struct source_view *v;
	struct source_series *s;
	(void)state;
	start(&d);
	evict_all(&d);
	assert_int_equal(matcher_init(&m[0], MATCH_EQ, VIEW("pod"), VIEW("pod-1"), &e), 0);
	assert_int_equal(tsdb_delete(d.k.db, m, 1, KIT_T0, KIT_T0 + DAY, &n_series, &e), 0);
	assert_int_equal(n_series, 2);
	evict_all(&d); /* the fact is in the log, hidden rows in parts */
	assert_int_equal(tsdb_source(d.k.db)->open(tsdb_source(d.k.db), &v, &e), 0);
	assert_int_equal(v->ops->select(v, m, 1, KIT_T0, KIT_T0 + DAY, NULL, &s, &n, &e), 0);
	assert_int_equal(n, 0);
	free(s);
	v->ops->release(v);
	assert_int_equal(kit_count(&d.k, KIT_SAMPLES, KIT_T0, KIT_T0 + DAY, NULL), (PODS - 1) * 3);
	matcher_release(&m[0]);
	kit_free(&d.k);
}

/* A rule that has got all of a day need not look at it again, and does not bring its dictionary back each minute. */
static void test_rules_do_not_bring_them_back(void **state)
{
	struct days d;
	struct matcher m;
	struct err e;
	(void)state;
	start(&d);
	evict_all(&d);
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW("pod"), VIEW("pod-1"), &e), 0);
	struct tsdb_retention rule = { &m, 1, 2 * DAY + HOUR };
	assert_int_equal(tsdb_set_retention(d.k.db, &rule, 1, &e), 0);
	assert_int_equal(kit_count(&d.k, KIT_SAMPLES, KIT_T0, KIT_T0 + DAY, NULL), (PODS - 1) * 3);
	assert_int_equal(kit_count(&d.k, KIT_SAMPLES, KIT_T0 + 3 * DAY, KIT_T0 + 4 * DAY, NULL), PODS * 3);
	double before;
	assert_int_equal(tsdb_clean(d.k.db, &e), 0); /* the space of what was hidden: new parts */
	assert_int_equal(tsdb_retain(d.k.db, &e), 0);
	evict_all(&d);
	metrics_register(tsdb_metrics, TM_COUNT);
	before = metric_get(&tsdb_metrics[TM_EVICTED]);
	assert_int_equal(tsdb_retain(d.k.db, &e), 0);
	assert_true(metric_get(&tsdb_metrics[TM_EVICTED]) - before <= 1); /* the day that the rule has reached a part of */
	put(&d, 1, 0, 5 * HOUR); /* what comes later is hidden too */
	tsdb_flush(d.k.db);
	assert_int_equal(tsdb_retain(d.k.db, &e), 0);
	assert_int_equal(kit_count(&d.k, KIT_SAMPLES, KIT_T0, KIT_T0 + DAY, NULL), (PODS - 1) * 3);
	matcher_release(&m);
	kit_free(&d.k);
	metrics_free();
}

#define SOME 300 /* stacks of a profile, so that a dictionary is more than its empty tables */

/* A merge of more days than the budget has room for takes one dictionary at a time, beside what it answers with. */
static void test_many_days(void **state)
{
	struct days d;
	struct source_limits lim = { .max_bytes = 0 };
	struct source_part parts[PODS];
	struct source_series *s;
	struct source_view *v;
	struct stackvec *sum;
	struct tsdb_stats t;
	struct matcher m;
	struct err e;
	size_t n, one = 0, most = 0;
	uint64_t want = 0;
	(void)state;
	start_with(&d, SOME);
	for (unsigned day = 0; day < DAYS; day++) {
		evict_all(&d);
		assert_true(merge(&d, day, day) == d.want[day]);
		want += d.want[day];
		struct partition *p = tsdb_partition(d.k.db, (uint32_t)(KIT_T0 / DAY) + day);
		one = evict_bytes(p);
		most = MAX(most, one);
		partition_unref(p);
	}
	evict_all(&d);
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW(LABEL_NAME), VIEW(KIT_SAMPLES), &e), 0);
	assert_int_equal(tsdb_source(d.k.db)->open(tsdb_source(d.k.db), &v, &e), 0);
	assert_int_equal(v->ops->select(v, &m, 1, 0, INT64_MAX, NULL, &s, &n, &e), 0);
	assert_int_equal(n, PODS);
	assert_int_equal(loaded(&d), 0); /* it has the series */
	assert_int_equal(atomic_load(&d.k.db->query_dict_bytes), 0);
	for (size_t i = 0; i < n; i++)
		parts[i] = (struct source_part){ .ref = s[i].ref, .until_ms = INT64_MAX, .scale = 1 };
	tsdb_stats(d.k.db, &t);
	size_t series = t.dictionary_bytes;
	assert_in_range(series, 1, most);
	assert_int_equal(v->ops->merge(v, parts, n, 1, SYMBOLS_WHOLE, &lim, &sum, &e), 0);
	assert_true(kit_vec_sum(sum) == want);
	assert_int_equal(loaded(&d), 1);
	assert_true(atomic_load(&d.k.db->query_dict_bytes) == 0);
	assert_in_range(atomic_load(&d.k.db->query_dict_most), most + 1, most + symbols_bytes(sum->symbols));
	tsdb_stats(d.k.db, &t);
	assert_true(t.dictionary_bytes < 2 * most + series);
	stackvec_unref(sum);
	lim.max_bytes = most / 2;
	assert_int_equal(v->ops->merge(v, parts, n, 1, SYMBOLS_WHOLE, &lim, &sum, &e), -ERR_LIMIT);
	assert_non_null(strstr(e.msg, "--query.max-bytes"));
	assert_true(atomic_load(&d.k.db->query_dict_bytes) == 0);
	free(s);
	matcher_release(&m);
	v->ops->release(v);
	assert_true(atomic_load(&d.k.db->query_dict_bytes) == 0);
	/* Frames are looked for in one dictionary after the other, too. */
	evict_all(&d);
	kit_check_graph(&d.k, KIT_SAMPLES, PODS, KIT_T0, 6 * HOUR, 6 * HOUR, 4 * DAYS, NULL);
	assert_true(atomic_load(&d.k.db->query_dict_bytes) == 0);
	kit_free(&d.k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers_stay), cmocka_unit_test(test_the_budget_and_the_oldest_use),
		cmocka_unit_test(test_an_open_view), cmocka_unit_test(test_many_days), cmocka_unit_test(test_late_profiles),
		cmocka_unit_test(test_deleted_series_stay_hidden), cmocka_unit_test(test_rules_do_not_bring_them_back),
	};
	return cmocka_run_group_tests_name("evict", tests, NULL, NULL);
}
