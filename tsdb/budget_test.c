/* SPDX-License-Identifier: Apache-2.0 */
/* Budgets of memory and of the disk. Many series in little memory: windows are sealed before their hour is over, who appends waits when the sealer does not
 * keep up, and nothing is lost by either. The clock stands still, so that no window is due for its age. On
 * disk whole days go, the oldest first, and never the newest. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>

#include "base/clock.h"
#include "tsdb/testkit.h"
#include "tsdb/version/db.h"

#define HOUR INT64_C(3600000)
#define SERIES 500
#define STACKS 30
#define ROUNDS 12
#define BUDGET (UINT64_C(128) << 10)
/* What one append may add to the head after it was let in: everything that waits in the queue, and its own. */
#define SLACK (UINT64_C(2) << 20)

static void start(struct kit *k)
{
	kit_init(k);
	k->now_ms = KIT_T0 + HOUR - 60000;
	k->o.head_bytes = BUDGET;
	k->o.queue_bytes = 64 << 10;
	k->o.commit_interval_ms = -1; /* one append after the other, each waited for */
}

static uint64_t append_round(struct kit *k, int round, uint64_t *largest)
{
	uint64_t want = 0;
	for (unsigned i = 0; i < SERIES; i++) {
		uint64_t seed = (uint64_t)round * SERIES + i;
		assert_int_equal(kit_append(k, i, KIT_T0 + 1000 + round * 10000, seed, STACKS, NULL), 0);
		want += kit_profile_sum(seed, STACKS, false);
		*largest = MAX(*largest, atomic_load(&k->db->head_bytes));
	}
	return want;
}

static void test_parts_are_sealed_early(void **state)
{
	struct kit k;
	struct tsdb_stats s;
	uint64_t want = 0, largest = 0;
	(void)state;
	start(&k);
	kit_open(&k);
	for (int round = 0; round < ROUNDS; round++)
		want += append_round(&k, round, &largest);
	tsdb_flush(k.db);
	mutex_lock(&k.db->seal_lock); /* no part is being written */
	tsdb_stats(k.db, &s);
	mutex_unlock(&k.db->seal_lock);
	assert_int_equal(s.appended_profiles, SERIES * ROUNDS);
	assert_true(largest <= BUDGET + SLACK);
	assert_true(s.head_bytes <= BUDGET + SLACK);
	assert_int_equal(s.sealing_bytes, 0);
	assert_true(s.parts >= 2); /* of one hour, which is not over */
	assert_true(kit_merge(&k, KIT_SAMPLES, 0, INT64_MAX, NULL) == want);
	kit_reopen(&k);
	assert_true(kit_merge(&k, KIT_SAMPLES, 0, INT64_MAX, NULL) == want);
	kit_free(&k);
}

struct waiter {
	struct kit *k;
	atomic_int appended;
};

static void *append_more(void *arg)
{
	struct waiter *w = arg;
	for (unsigned i = 0; i < SERIES; i++) {
		if (kit_append(w->k, i, KIT_T0 + 500000, i, STACKS, NULL))
			return (void *)1;
		atomic_fetch_add(&w->appended, 1);
	}
	return NULL;
}

/* While nothing can be sealed appends wait, they are not refused, and memory does not grow. */
static void test_appends_wait(void **state)
{
	struct kit k;
	struct waiter w = { .k = &k };
	struct tsdb_stats s;
	pthread_t thread;
	void *failed;
	uint64_t largest = 0;
	(void)state;
	start(&k);
	kit_open(&k);
	metrics_register(tsdb_metrics, TM_COUNT);
	mutex_lock(&k.db->seal_lock); /* no seal */
	/* Until the head is just over its limit: then nothing more is let in. */
	int64_t t = KIT_T0 + 1000;
	for (unsigned i = 0; atomic_load(&k.db->head_bytes) <= BUDGET; i++) {
		assert_int_equal(kit_append(&k, i % SERIES, t + i / SERIES * 1000, i, STACKS, NULL), 0);
		tsdb_flush(k.db);
	}
	largest = atomic_load(&k.db->head_bytes);
	double waits = metric_get(&tsdb_metrics[TM_WAITING]);
	assert_int_equal(pthread_create(&thread, NULL, append_more, &w), 0);
	while (metric_get(&tsdb_metrics[TM_WAITING]) == waits)
		clock_sleep_ms(1);
	assert_int_equal(atomic_load(&w.appended), 0);
	tsdb_stats(k.db, &s);
	assert_int_equal(s.head_bytes, largest);
	mutex_unlock(&k.db->seal_lock);
	pthread_join(thread, &failed);
	assert_null(failed);
	tsdb_flush(k.db);
	assert_int_equal(kit_count(&k, KIT_SAMPLES, KIT_T0 + 499999, KIT_T0 + 500000, NULL), SERIES);
	kit_free(&k);
	metrics_free();
}

/* ---- the disk ---- */

#define DAY (24 * HOUR)
#define DAYS 4

static uint64_t disk(struct kit *k)
{
	struct tsdb_stats s;
	tsdb_stats(k->db, &s);
	return s.disk_bytes;
}

static uint64_t retain(struct kit *k, uint64_t bytes)
{
	struct err e;
	k->db->o.retention_bytes = bytes;
	if (tsdb_retain(k->db, &e))
		fail_msg("%s", e.msg);
	return disk(k);
}

static void test_disk(void **state)
{
	struct kit k;
	struct err e;
	struct sink_result r;
	(void)state;
	kit_init(&k);
	k.o.no_sealing = true;
	kit_open(&k);
	for (unsigned day = 0; day < DAYS; day++) {
		k.now_ms = KIT_T0 + (day + 1) * DAY;
		for (unsigned i = 0; i < 60; i++)
			assert_int_equal(kit_append(&k, i % 6, KIT_T0 + day * DAY + HOUR + i * 1000, day * 100 + i, 200, NULL), 0);
		assert_int_equal(tsdb_seal(k.db, true, &e), 0);
	}
	uint64_t all = disk(&k), left;
	assert_true(retain(&k, all) == all); /* as large as it may be: nothing goes */
	left = retain(&k, all - 1);
	assert_true(left < all && left > all / 2);
	assert_int_equal(kit_count(&k, KIT_SAMPLES, 0, KIT_T0 + DAY, NULL), 0);
	assert_int_equal(kit_count(&k, KIT_SAMPLES, KIT_T0 + DAY, INT64_MAX, NULL), 60 * (DAYS - 1));
	/* The day may come again: what was dropped of it does not, and it is dropped again. */
	assert_int_equal(kit_append(&k, 0, KIT_T0 + HOUR, 1, 20, &r), 0);
	assert_int_equal(r.too_old, 0);
	for (int i = 0; i < 3; i++) {
		kit_reopen(&k);
		assert_int_equal(kit_count(&k, KIT_SAMPLES, 0, KIT_T0 + DAY, NULL), 1);
		if (i == 1)
			assert_int_equal(tsdb_seal(k.db, true, &e), 0);
	}
	assert_true(retain(&k, 1) > 1); /* the newest day stays, however large */
	kit_reopen(&k);
	assert_int_equal(kit_count(&k, KIT_SAMPLES, 0, INT64_MAX, NULL), 60);
	kit_free(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_disk), cmocka_unit_test(test_parts_are_sealed_early), cmocka_unit_test(test_appends_wait),
	};
	return cmocka_run_group_tests_name("budget", tests, NULL, NULL);
}
