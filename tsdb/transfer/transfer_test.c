/* SPDX-License-Identifier: Apache-2.0 */
/* A storage and its bucket: what was sealed comes back to an empty disk, as it was, and never twice; what was deleted does not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/files.h"
#include "tsdb/bucketkit.h"
#include "tsdb/testkit.h"
#include "tsdb/version/db.h"

#define MINUTE INT64_C(60000)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)
#define STACKS 20

struct world {
	struct bucketkit b;
	struct kit k;
	uint64_t seed;
};

static int64_t world_now(void *arg)
{
	return ((struct kit *)arg)->now_ms;
}

static void world_options(struct world *w)
{
	w->k.o.objects = &w->b.objects;
	w->k.o.server_id = "one";
	w->k.o.no_transfer = true;
	w->k.o.retention_ms = -1;
	w->b.now_ms = world_now;
	w->b.now_arg = &w->k;
}

static void world_start(struct world *w)
{
	*w = (struct world){ .seed = 1 };
	bucketkit_init(&w->b);
	kit_init(&w->k);
	world_options(w);
	w->k.now_ms = KIT_T0 + HOUR;
	kit_open(&w->k);
}

static void world_end(struct world *w)
{
	kit_free(&w->k);
	bucketkit_free(&w->b);
}

/* The disk is lost; another one, empty, takes its place. */
static void world_lose_disk(struct world *w)
{
	int64_t now = w->k.now_ms;
	kit_free(&w->k);
	kit_init(&w->k);
	world_options(w);
	w->k.now_ms = now;
}

static void world_fill(struct world *w, unsigned pods, int64_t from, int64_t until, int64_t step)
{
	struct sink_result r;
	for (int64_t t = from + step; t <= until; t += step) {
		if (t > w->k.now_ms)
			w->k.now_ms = t;
		for (unsigned pod = 0; pod < pods; pod++)
			assert_int_equal(kit_append(&w->k, pod, t - pod, w->seed++, STACKS, &r), 0);
	}
	tsdb_flush(w->k.db);
}

static void world_seal(struct world *w)
{
	struct err e;
	assert_int_equal(tsdb_seal(w->k.db, true, &e), 0);
}

static void world_upload(struct world *w)
{
	struct err e;
	if (tsdb_upload(w->k.db, &e))
		fail_msg("%s", e.msg);
}

static uint64_t world_sum(struct world *w, int64_t after, int64_t until)
{
	return kit_merge(&w->k, KIT_CPU, after, until, NULL) ^ kit_merge(&w->k, KIT_SAMPLES, after, until, NULL);
}

/* Fetches all that is missing. */
static void world_fetch(struct world *w)
{
	struct admin_bucket s;
	struct storage_admin *a = tsdb_admin(w->k.db);
	for (int i = 0; i < 100; i++) {
		a->bucket(a, &s);
		if (!s.absent_days)
			return;
		world_upload(w);
	}
	fail_msg("%llu days do not come back", (unsigned long long)s.absent_days);
}

/* ---- tests ---- */

static void test_comes_back(void **state)
{
	(void)state;
	struct world w;
	int64_t total_before, total;
	world_start(&w);
	for (int day = 0; day < 3; day++) {
		world_fill(&w, 5, KIT_T0 + day * DAY, KIT_T0 + day * DAY + 8 * HOUR, 10 * MINUTE);
		world_seal(&w);
		world_upload(&w);
	}
	uint64_t before = world_sum(&w, KIT_T0, KIT_T0 + 3 * DAY), one = world_sum(&w, KIT_T0 + 2 * HOUR, KIT_T0 + 5 * HOUR);
	size_t n = kit_count(&w.k, KIT_CPU, KIT_T0, KIT_T0 + 3 * DAY, &total_before);
	assert_int_equal(bucketkit_count(&w.b, "one/g/"), 3);
	world_lose_disk(&w);
	kit_open(&w.k);
	/* The current day is whole from the beginning. */
	assert_int_equal(kit_count(&w.k, KIT_CPU, KIT_T0 + 2 * DAY, KIT_T0 + 3 * DAY, NULL), n / 3);
	world_fetch(&w);
	assert_int_equal(kit_count(&w.k, KIT_CPU, KIT_T0, KIT_T0 + 3 * DAY, &total), n);
	assert_int_equal(total, total_before);
	assert_true(world_sum(&w, KIT_T0, KIT_T0 + 3 * DAY) == before);
	assert_true(world_sum(&w, KIT_T0 + 2 * HOUR, KIT_T0 + 5 * HOUR) == one);
	/* It goes on, and survives its own restart and a second loss. */
	world_fill(&w, 5, KIT_T0 + 2 * DAY + 8 * HOUR, KIT_T0 + 2 * DAY + 10 * HOUR, 10 * MINUTE);
	before = world_sum(&w, KIT_T0, KIT_T0 + 3 * DAY);
	kit_reopen(&w.k);
	assert_true(world_sum(&w, KIT_T0, KIT_T0 + 3 * DAY) == before);
	world_seal(&w);
	world_upload(&w);
	world_lose_disk(&w);
	kit_open(&w.k);
	world_fetch(&w);
	assert_true(world_sum(&w, KIT_T0, KIT_T0 + 3 * DAY) == before);
	world_end(&w);
}

/* Uploads put nothing twice: a restart finds what is there. */
static void test_nothing_new(void **state)
{
	(void)state;
	struct world w;
	world_start(&w);
	world_fill(&w, 3, KIT_T0, KIT_T0 + 4 * HOUR, 10 * MINUTE);
	world_seal(&w);
	world_upload(&w);
	size_t objects = bucketkit_count(&w.b, "one/d/");
	uint64_t puts = w.b.requests[BUCKETKIT_PUT];
	world_upload(&w);
	assert_true(w.b.requests[BUCKETKIT_PUT] == puts);
	kit_reopen(&w.k);
	assert_true(w.b.requests[BUCKETKIT_PUT] == puts + 2); /* an epoch and a fence */
	world_upload(&w);
	assert_true(w.b.requests[BUCKETKIT_PUT] == puts + 2);
	assert_int_equal(bucketkit_count(&w.b, "one/d/"), objects);
	world_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_comes_back), cmocka_unit_test(test_nothing_new) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
