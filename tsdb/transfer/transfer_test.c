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
#include "base/clock.h"
#include "base/files.h"
#include "model/sourcekit.h"
#include "tsdb/bucketkit.h"
#include "tsdb/testkit.h"
#include "tsdb/transfer/transfer_private.h"
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

static struct admin_bucket world_status(struct world *w);

/* So many days leave the disk. One that a thread of the storage is at work on leaves it the next time. */
static void world_let_go(struct world *w, uint64_t want)
{
	struct err e;
	for (int i = 0; i < 500; i++) {
		assert_int_equal(tsdb_retain(w->k.db, &e), 0);
		if (world_status(w).absent_days == want)
			return;
		clock_sleep_ms(20);
	}
	fail_msg("%llu days left the disk, not %llu", (unsigned long long)world_status(w).absent_days, (unsigned long long)want);
}

/* Until only so many days are in the bucket alone. A day comes back once nobody reads the one that left. */
static void world_bring_back(struct world *w, uint64_t want)
{
	world_upload(w);
	for (int i = 0; i < 500 && world_status(w).absent_days != want; i++) {
		clock_sleep_ms(20);
		world_upload(w);
	}
	assert_int_equal(world_status(w).absent_days, want);
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
	/* When tsdb_open returns, the current day has all of its rows. */
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
	world_upload(&w);
	assert_true(w.b.requests[BUCKETKIT_PUT] == puts + 2); /* an epoch and a fence */
	assert_int_equal(bucketkit_count(&w.b, "one/d/"), objects);
	world_end(&w);
}

/* Deletes all of a pod, or (NULL) of all. */
static void world_delete(struct world *w, const char *pod, int64_t after, int64_t until)
{
	struct matcher m[2];
	struct err e;
	assert_int_equal(matcher_init(&m[0], MATCH_EQ, VIEW("job"), VIEW("kit"), &e), 0);
	assert_int_equal(matcher_init(&m[1], pod ? MATCH_EQ : MATCH_NE, VIEW("pod"), view_of(pod ? pod : "none"), &e), 0);
	assert_int_equal(tsdb_delete(w->k.db, m, 2, after, until, NULL, &e), 0);
	matcher_release(&m[0]);
	matcher_release(&m[1]);
}

static void world_clean(struct world *w)
{
	struct err e;
	assert_int_equal(tsdb_clean(w->k.db, &e), 0);
}

static struct admin_bucket world_status(struct world *w)
{
	struct admin_bucket s;
	struct storage_admin *a = tsdb_admin(w->k.db);
	a->bucket(a, &s);
	return s;
}

/* The texts of the warnings that a look at a range carries: how many, the last one in ret. */
static size_t world_warnings(struct world *w, int64_t after, int64_t until, char ret[SOURCE_WARNING_LEN])
{
	struct kit_warnings warnings;
	struct source_damage damage = { 0 };
	struct source_limits lim = { .damage = &damage };
	struct source *source = tsdb_source(w->k.db);
	struct source_series *found;
	struct source_view *v;
	struct matcher m;
	struct err e;
	size_t n;
	assert_int_equal(source->open(source, &v, &e), 0);
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW("job"), VIEW("kit"), &e), 0);
	assert_int_equal(v->ops->select(v, &m, 1, after, until, &lim, &found, &n, &e), 0);
	free(found);
	matcher_release(&m);
	v->ops->release(v);
	kit_warnings(&damage, &warnings);
	if (warnings.n)
		memcpy(ret, warnings.texts[warnings.n - 1], SOURCE_WARNING_LEN);
	return warnings.n;
}

static size_t world_rows(struct world *w, int64_t after, int64_t until)
{
	return kit_count(&w->k, KIT_CPU, after, until, NULL);
}

/* What was deleted stays so on another disk: before its parts were rewritten, after, and where the bucket was away. */
static void test_deletes(void **state)
{
	(void)state;
	struct world w;
	world_start(&w);
	for (int day = 0; day < 2; day++)
		world_fill(&w, 4, KIT_T0 + day * DAY, KIT_T0 + day * DAY + 4 * HOUR, 10 * MINUTE);
	world_seal(&w);
	world_upload(&w);
	size_t all = world_rows(&w, KIT_T0, KIT_T0 + 2 * DAY);
	world_delete(&w, "pod-1", KIT_T0 - DAY, KIT_T0 + 9 * DAY);
	assert_int_equal(world_rows(&w, KIT_T0, KIT_T0 + 2 * DAY), all / 4 * 3);
	assert_int_equal(bucketkit_count(&w.b, "one/x/"), 1);
	/* The disk goes before any generation has the delete. */
	world_lose_disk(&w);
	kit_open(&w.k);
	world_fetch(&w);
	assert_int_equal(world_rows(&w, KIT_T0, KIT_T0 + 2 * DAY), all / 4 * 3);
	kit_reopen(&w.k);
	assert_int_equal(world_rows(&w, KIT_T0, KIT_T0 + 2 * DAY), all / 4 * 3);
	/* The bucket is away: the delete follows. */
	w.b.away = true;
	world_delete(&w, "pod-2", KIT_T0 - DAY, KIT_T0 + 9 * DAY);
	assert_int_equal(world_status(&w).waiting_deletes, 1);
	kit_reopen(&w.k);
	assert_int_equal(world_status(&w).waiting_deletes, 1);
	assert_int_equal(world_rows(&w, KIT_T0, KIT_T0 + 2 * DAY), all / 2);
	w.b.away = false;
	world_clean(&w);
	world_upload(&w);
	assert_int_equal(world_status(&w).waiting_deletes, 0);
	world_lose_disk(&w);
	kit_open(&w.k);
	world_fetch(&w);
	assert_int_equal(world_rows(&w, KIT_T0, KIT_T0 + 2 * DAY), all / 2);
	/* Rows that came after a delete are not its. */
	world_fill(&w, 4, KIT_T0 + DAY + 4 * HOUR, KIT_T0 + DAY + 6 * HOUR, 10 * MINUTE);
	world_seal(&w);
	world_upload(&w);
	size_t now = world_rows(&w, KIT_T0, KIT_T0 + 2 * DAY);
	assert_int_equal(now, all / 2 + 4 * 12);
	world_lose_disk(&w);
	kit_open(&w.k);
	world_fetch(&w);
	assert_int_equal(world_rows(&w, KIT_T0, KIT_T0 + 2 * DAY), now);
	world_end(&w);
}

/* Deletes leave the bucket with the days that they are about; the newest stays. */
static void test_deletes_end(void **state)
{
	(void)state;
	struct world w;
	world_start(&w);
	for (int day = 0; day < 3; day++)
		world_fill(&w, 2, KIT_T0 + day * DAY, KIT_T0 + day * DAY + 2 * HOUR, 10 * MINUTE);
	world_seal(&w);
	world_upload(&w);
	for (int day = 0; day < 3; day++)
		world_delete(&w, "pod-1", KIT_T0 + day * DAY, KIT_T0 + day * DAY + HOUR);
	assert_int_equal(bucketkit_count(&w.b, "one/x/"), 3);
	world_delete(&w, NULL, KIT_T0, KIT_T0 + 2 * DAY);
	world_clean(&w);
	world_upload(&w);
	world_upload(&w);
	assert_int_equal(world_status(&w).days, 1);
	assert_int_equal(bucketkit_count(&w.b, "one/x/"), 2); /* of the day that is left, and the newest */
	world_end(&w);
}

/* A day of which everything was deleted is gone from the bucket, and what comes after it is not mixed up with it. */
static void test_begins_again(void **state)
{
	(void)state;
	struct world w;
	world_start(&w);
	world_fill(&w, 3, KIT_T0, KIT_T0 + 3 * HOUR, 10 * MINUTE);
	world_seal(&w);
	world_upload(&w);
	world_delete(&w, NULL, KIT_T0 - DAY, KIT_T0 + 9 * DAY);
	world_clean(&w);
	world_upload(&w);
	assert_int_equal(world_status(&w).days, 0);
	assert_int_equal(bucketkit_count(&w.b, "one/d/"), 0);
	world_fill(&w, 2, KIT_T0 + 3 * HOUR, KIT_T0 + 5 * HOUR, 10 * MINUTE);
	world_seal(&w);
	world_upload(&w);
	size_t n = world_rows(&w, KIT_T0, KIT_T0 + DAY);
	assert_int_equal(n, 2 * 12);
	world_lose_disk(&w);
	kit_open(&w.k);
	world_fetch(&w);
	assert_int_equal(world_rows(&w, KIT_T0, KIT_T0 + DAY), n);
	world_end(&w);
}

/* Days leave the disk once the bucket has them; answers say so, and nothing is taken in for them. */
static void test_local_retention(void **state)
{
	(void)state;
	struct world w;
	struct err e;
	struct sink_result r;
	char text[SOURCE_WARNING_LEN];
	world_start(&w);
	for (int day = 0; day < 4; day++) {
		world_fill(&w, 2, KIT_T0 + day * DAY, KIT_T0 + day * DAY + 3 * HOUR, 10 * MINUTE);
		world_seal(&w);
	}
	size_t all = world_rows(&w, KIT_T0, KIT_T0 + 4 * DAY);
	w.k.o.local_retention_ms = DAY;
	kit_reopen(&w.k);
	assert_int_equal(tsdb_retain(w.k.db, &e), 0);
	assert_int_equal(world_rows(&w, KIT_T0, KIT_T0 + 4 * DAY), all); /* the bucket has none of them */
	world_upload(&w);
	world_let_go(&w, 2);
	assert_int_equal(world_rows(&w, KIT_T0, KIT_T0 + 4 * DAY), all); /* they are read in the bucket */
	assert_int_equal(world_warnings(&w, KIT_T0, KIT_T0 + 4 * DAY, text), 0);
	assert_int_equal(kit_append(&w.k, 0, KIT_T0 + 5 * HOUR, 1, STACKS, &r), 0);
	assert_int_equal(r.profiles, 0);
	assert_true(r.too_old > 0);
	world_upload(&w);
	kit_reopen(&w.k);
	world_upload(&w);
	assert_int_equal(world_status(&w).absent_days, 2);
	assert_int_equal(world_status(&w).days, 4);
	/* A delete reaches them: they are fetched, rewritten, put again, and let go again. */
	world_delete(&w, "pod-1", KIT_T0, KIT_T0 + DAY);
	world_upload(&w);
	assert_int_equal(world_status(&w).absent_days, 1);
	world_clean(&w);
	world_upload(&w);
	world_let_go(&w, 2);
	world_upload(&w);
	assert_int_equal(world_status(&w).absent_days, 2); /* it is not fetched for that again */
	/* With more room all of them come back. */
	w.k.o.local_retention_ms = 0;
	kit_reopen(&w.k);
	world_fetch(&w);
	assert_int_equal(world_rows(&w, KIT_T0, KIT_T0 + 4 * DAY), all - all / 8);
	world_end(&w);
}

/* The next process knows what was deleted of days that are in the bucket alone before the bucket has answered. What it has in its cache can be
 * read then. */
static void test_deleted_before_begin(void **state)
{
	(void)state;
	struct world w;
	struct err e;
	world_start(&w);
	for (int day = 0; day < 4; day++) {
		world_fill(&w, 2, KIT_T0 + day * DAY, KIT_T0 + day * DAY + 3 * HOUR, 10 * MINUTE);
		world_seal(&w);
	}
	world_upload(&w);
	w.k.o.local_retention_ms = DAY;
	kit_reopen(&w.k);
	world_upload(&w);
	assert_int_equal(tsdb_retain(w.k.db, &e), 0);
	size_t all = world_rows(&w, KIT_T0, KIT_T0 + DAY);
	world_delete(&w, "pod-1", KIT_T0, KIT_T0 + DAY);
	assert_int_equal(world_status(&w).waiting_deletes, 0);
	assert_int_equal(world_rows(&w, KIT_T0, KIT_T0 + DAY), all / 2);
	w.b.away = true;
	kit_reopen(&w.k);
	assert_int_equal(world_rows(&w, KIT_T0, KIT_T0 + DAY), all / 2);
	/* A list that lags behind does not bring it back. */
	w.b.away = false;
	w.b.list_lacks = "one/x/";
	w.k.now_ms += MINUTE;
	kit_reopen(&w.k);
	world_upload(&w);
	assert_int_equal(world_rows(&w, KIT_T0, KIT_T0 + DAY), all / 2);
	world_end(&w);
}

/* A directory that goes on under a new id does not apply the deletes of the old id to the days that it uploads now. */
static void test_deleted_under_old_id(void **state)
{
	(void)state;
	struct world w;
	struct err e;
	world_start(&w);
	world_fill(&w, 2, KIT_T0, KIT_T0 + 3 * HOUR, 10 * MINUTE);
	world_seal(&w);
	world_upload(&w);
	world_delete(&w, "pod-1", KIT_T0, KIT_T0 + DAY);
	world_clean(&w);
	for (int day = 0; day < 4; day++) { /* the first of them after the delete */
		world_fill(&w, 2, KIT_T0 + day * DAY + 3 * HOUR, KIT_T0 + day * DAY + 6 * HOUR, 10 * MINUTE);
		world_seal(&w);
	}
	size_t rows = world_rows(&w, KIT_T0, KIT_T0 + DAY);
	kit_close(&w.k);
	AUTOFREE char *file = xasprintf("%s/bucket/server", w.k.dir);
	unlink(file);
	w.k.o.local_retention_ms = DAY;
	kit_open(&w.k);
	world_upload(&w);
	assert_string_not_equal(world_status(&w).id, "one");
	assert_int_equal(tsdb_retain(w.k.db, &e), 0);
	assert_true(world_status(&w).absent_days > 0);
	assert_int_equal(world_rows(&w, KIT_T0, KIT_T0 + DAY), rows);
	world_end(&w);
}

/* A day left the disk while a query reads it, and a delete wants it back: it comes once the query is over. */
static void test_left_and_read(void **state)
{
	(void)state;
	struct world w;
	struct err e;
	struct source_view *v;
	world_start(&w);
	for (int day = 0; day < 3; day++) {
		world_fill(&w, 2, KIT_T0 + day * DAY, KIT_T0 + day * DAY + 3 * HOUR, 10 * MINUTE);
		world_seal(&w);
	}
	world_upload(&w);
	w.k.o.local_retention_ms = DAY;
	w.k.o.no_sealing = true; /* the day would leave before the query begins */
	kit_reopen(&w.k);
	world_upload(&w);
	assert_int_equal(tsdb_source(w.k.db)->open(tsdb_source(w.k.db), &v, &e), 0);
	world_let_go(&w, 1);
	world_delete(&w, "pod-1", KIT_T0, KIT_T0 + DAY);
	world_upload(&w);
	assert_int_equal(world_status(&w).absent_days, 1);
	v->ops->release(v);
	world_bring_back(&w, 0);
	assert_int_equal(world_rows(&w, KIT_T0, KIT_T0 + DAY), 18);
	assert_int_equal(world_rows(&w, KIT_T0, KIT_T0 + 3 * DAY), 5 * 18);
	world_end(&w);
}

/* Retention by selector reaches days that are in the bucket alone, once it has passed all of such a day. */
static void test_rules(void **state)
{
	(void)state;
	struct world w;
	struct err e;
	struct matcher m;
	world_start(&w);
	for (int day = 0; day < 4; day++) {
		world_fill(&w, 2, KIT_T0 + day * DAY, KIT_T0 + day * DAY + 3 * HOUR, 10 * MINUTE);
		world_seal(&w);
	}
	size_t a_day = world_rows(&w, KIT_T0, KIT_T0 + DAY);
	w.k.o.local_retention_ms = DAY;
	world_upload(&w);
	kit_reopen(&w.k);
	world_upload(&w);
	world_let_go(&w, 2);
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW("pod"), VIEW("pod-1"), &e), 0);
	assert_int_equal(tsdb_set_retention(w.k.db, &(struct tsdb_retention){ &m, 1, DAY + DAY / 2 }, 1, &e), 0);
	world_bring_back(&w, 1);
	for (int i = 0; i < 4; i++) {
		world_upload(&w);
		world_clean(&w);
	}
	world_let_go(&w, 2);
	matcher_release(&m);
	/* Where no rule hides it any more it is gone all the same. */
	w.k.o.local_retention_ms = 0;
	world_lose_disk(&w);
	w.k.o.local_retention_ms = 0;
	kit_open(&w.k);
	world_fetch(&w);
	assert_int_equal(world_rows(&w, KIT_T0, KIT_T0 + DAY), a_day / 2);
	assert_int_equal(world_rows(&w, KIT_T0 + 3 * DAY, KIT_T0 + 4 * DAY), a_day);
	world_end(&w);
}

/* The size that retention allows is that of the disk and the bucket together: the oldest day goes, and from the bucket as well. */
static void test_size(void **state)
{
	(void)state;
	struct world w;
	struct err e;
	struct tsdb_stats s;
	world_start(&w);
	for (int day = 0; day < 4; day++) {
		world_fill(&w, 2, KIT_T0 + day * DAY, KIT_T0 + day * DAY + 3 * HOUR, 10 * MINUTE);
		world_seal(&w);
	}
	world_upload(&w);
	w.k.o.local_retention_ms = DAY;
	kit_reopen(&w.k);
	world_upload(&w);
	world_let_go(&w, 2);
	world_upload(&w);
	assert_int_equal(world_status(&w).absent_days, 2);
	tsdb_stats(w.k.db, &s);
	w.k.o.retention_bytes = s.disk_bytes * 2 - 1;
	kit_reopen(&w.k);
	world_upload(&w);
	assert_int_equal(tsdb_retain(w.k.db, &e), 0);
	world_upload(&w);
	assert_int_equal(world_status(&w).absent_days, 1);
	assert_int_equal(world_status(&w).days, 3);
	assert_int_equal(world_rows(&w, KIT_T0 + 2 * DAY, KIT_T0 + 4 * DAY), 2 * 2 * 18);
	world_end(&w);
}

/* Of two with one id the newer writes; the older stops, and its directory goes on under another id. */
static void test_fence(void **state)
{
	(void)state;
	struct world w, other;
	struct err e;
	world_start(&w);
	world_fill(&w, 2, KIT_T0, KIT_T0 + 2 * HOUR, 10 * MINUTE);
	world_seal(&w);
	world_upload(&w);
	other = (struct world){ .seed = 1000, .b = { .objects = w.b.objects } };
	kit_init(&other.k);
	world_options(&other);
	other.k.o.objects = &w.b.objects;
	other.k.now_ms = w.k.now_ms;
	kit_open(&other.k); /* as a second process with the same id and an empty disk */
	assert_int_equal(world_rows(&other, KIT_T0, KIT_T0 + DAY), world_rows(&w, KIT_T0, KIT_T0 + DAY));
	world_fill(&w, 2, KIT_T0 + 2 * HOUR, KIT_T0 + 3 * HOUR, 10 * MINUTE);
	world_seal(&w);
	assert_int_equal(tsdb_upload(w.k.db, &e), -ERR_CONFLICT);
	assert_string_equal(world_status(&w).state, "stopped");
	world_fill(&other, 2, KIT_T0 + 3 * HOUR, KIT_T0 + 4 * HOUR, 10 * MINUTE);
	world_seal(&other);
	assert_int_equal(tsdb_upload(other.k.db, &e), 0);
	size_t n = world_rows(&w, KIT_T0, KIT_T0 + DAY);
	kit_reopen(&w.k);
	assert_int_equal(world_rows(&w, KIT_T0, KIT_T0 + DAY), n);
	world_upload(&w);
	assert_int_equal(strncmp(world_status(&w).id, "one-", 4), 0);
	assert_int_equal(bucketkit_count(&w.b, world_status(&w).id), 3 + 1 + 1); /* parts, a generation, an epoch */
	kit_free(&other.k);
	world_end(&w);
}

/* The part of an hour that is not over waits for the bucket since now, not since the end of its hour, which is in the future. */
static void test_waits_since(void **state)
{
	(void)state;
	struct world w;
	struct admin_bucket s;
	world_start(&w);
	world_fill(&w, 2, KIT_T0, KIT_T0 + 90 * MINUTE, 10 * MINUTE);
	world_seal(&w);
	struct storage_admin *a = tsdb_admin(w.k.db);
	a->bucket(a, &s);
	assert_int_equal(s.waiting_parts, 2);
	assert_int_equal(s.waiting_since_ms, KIT_T0 + HOUR);
	world_upload(&w);
	world_fill(&w, 2, KIT_T0 + 90 * MINUTE, KIT_T0 + 100 * MINUTE, 10 * MINUTE);
	world_seal(&w);
	a->bucket(a, &s);
	assert_int_equal(s.waiting_since_ms, KIT_T0 + 100 * MINUTE);
	world_upload(&w);
	a->bucket(a, &s);
	assert_int_equal(s.waiting_since_ms, 0);
	world_end(&w);
}

/* A disk that came back has never had its oldest days. One of the days between is visited, rewritten, and leaves again: the older ones stay in the bucket. */
static void test_older_than_a_visit(void **state)
{
	(void)state;
	struct world w;
	struct err e;
	world_start(&w);
	for (int day = 0; day < 5; day++) {
		world_fill(&w, 2, KIT_T0 + day * DAY, KIT_T0 + day * DAY + 3 * HOUR, 10 * MINUTE);
		world_seal(&w);
	}
	world_upload(&w);
	size_t all = world_rows(&w, KIT_T0, KIT_T0 + 5 * DAY);
	w.k.o.local_retention_ms = DAY;
	world_lose_disk(&w);
	w.k.o.local_retention_ms = DAY;
	kit_open(&w.k);
	world_upload(&w);
	assert_int_equal(world_status(&w).absent_days, 3);
	world_delete(&w, "pod-1", KIT_T0 + 2 * DAY, KIT_T0 + 3 * DAY);
	for (int i = 0; i < 3; i++) {
		world_upload(&w);
		world_clean(&w);
		assert_int_equal(tsdb_retain(w.k.db, &e), 0);
	}
	assert_int_equal(world_status(&w).absent_days, 3);
	assert_int_equal(world_status(&w).days, 5);
	assert_int_equal(world_rows(&w, KIT_T0, KIT_T0 + 5 * DAY), all - 18);
	kit_reopen(&w.k);
	world_upload(&w);
	assert_int_equal(world_status(&w).days, 5);
	assert_int_equal(world_rows(&w, KIT_T0, KIT_T0 + 5 * DAY), all - 18);
	world_end(&w);
}

/* A delete while the clock is set back is about rows that came before, too: a disk that comes back does not have them either. */
static void test_delete_with_a_clock_set_back(void **state)
{
	(void)state;
	struct world w;
	world_start(&w);
	world_fill(&w, 2, KIT_T0, KIT_T0 + 3 * HOUR, 10 * MINUTE);
	world_seal(&w);
	world_upload(&w);
	int64_t now = w.k.now_ms;
	w.k.now_ms = now - 2 * HOUR;
	world_delete(&w, "pod-1", KIT_T0, KIT_T0 + DAY);
	size_t left = world_rows(&w, KIT_T0, KIT_T0 + DAY);
	w.k.now_ms = now;
	world_lose_disk(&w);
	kit_open(&w.k);
	world_fetch(&w);
	assert_int_equal(world_rows(&w, KIT_T0, KIT_T0 + DAY), left);
	world_end(&w);
}

/* How much is known of parts after rates of such windows over the day in the bucket. */
static int64_t world_known_after(struct world *w, struct source_view *v, const struct source_series *found, size_t n, const struct source_windows *of)
{
	struct tsdb_stats s;
	struct err e;
	for (size_t i = 0; i < n; i++) {
		struct source_points p;
		assert_int_equal(one_series_points(v, found[i].ref, KIT_T0, KIT_T0 + DAY, of, NULL, &p, &e), 0);
		assert_true(p.plain && p.n);
		source_points_release(&p);
	}
	tsdb_stats(w->k.db, &s);
	return (int64_t)s.part_index_bytes;
}

/* First and last profiles of hours in the bucket are decoded only where an hour may be within one window. */
static void test_short_windows(void **state)
{
	static const struct source_windows minutes = { KIT_T0 + MINUTE, 5 * MINUTE, MINUTE, 24 * 60 }, hours = { KIT_T0 + HOUR, HOUR, HOUR, 24 };
	struct world w;
	struct source_view *v;
	struct source_series *found;
	struct tsdb_stats s;
	struct matcher m;
	struct err e;
	size_t n;
	(void)state;
	world_start(&w);
	world_fill(&w, 4, KIT_T0, KIT_T0 + 4 * HOUR, 5 * MINUTE);
	world_fill(&w, 4, KIT_T0 + DAY, KIT_T0 + DAY + HOUR, 5 * MINUTE);
	world_seal(&w);
	world_upload(&w);
	world_lose_disk(&w);
	kit_open(&w.k);
	assert_int_equal(world_status(&w).absent_days, 1);
	assert_int_equal(tsdb_source(w.k.db)->open(tsdb_source(w.k.db), &v, &e), 0);
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW(LABEL_NAME), VIEW(KIT_CPU), &e), 0);
	assert_int_equal(v->ops->select(v, &m, 1, KIT_T0, KIT_T0 + DAY, NULL, &found, &n, &e), 0);
	assert_int_equal(n, 4);
	tsdb_stats(w.k.db, &s);
	assert_int_equal(world_known_after(&w, v, found, n, &minutes), (int64_t)s.part_index_bytes);
	assert_true(world_known_after(&w, v, found, n, &hours) > (int64_t)s.part_index_bytes);
	free(found);
	matcher_release(&m);
	v->ops->release(v);
	world_end(&w);
}

/* A generation that is too large goes without ends, and without covers only if it has to. */
static void test_large_generation(void **state)
{
	enum { LARGE = GENERATION_MAX };
	(void)state;
	struct world w;
	struct err e;
	AUTOFREE char *large = xcalloc(1, LARGE);
	world_start(&w);
	world_fill(&w, 2, KIT_T0, KIT_T0 + HOUR, 5 * MINUTE);
	world_seal(&w);
	world_upload(&w);
	for (int round = 0; round < 2; round++) {
		CLEANUP(buf_free) struct buf b = { 0 }, again = { 0 };
		struct generation g, got;
		struct transfer *t = w.k.db->transfer;
		assert_int_equal(generations_read(t, (uint32_t)(KIT_T0 / DAY), &b, &g, &e), 0);
		assert_int_equal(generation_decode_series(&g, &e), 0);
		assert_true(g.parts.n == 1 && g.parts.v[0].covers.len);
		g.parts.v[0].ends = view_make(large, LARGE);
		if (round)
			g.parts.v[0].covers = view_make(large, LARGE);
		assert_int_equal(generations_put(t, &g, "", false, &e), 0);
		assert_int_equal(generations_read(t, (uint32_t)(KIT_T0 / DAY), &again, &got, &e), 0);
		assert_int_equal(got.parts.v[0].covers.len > 0, !round);
		assert_int_equal(got.parts.v[0].ends.len, 0);
		generation_release(&got);
		generation_release(&g);
	}
	world_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_comes_back), cmocka_unit_test(test_short_windows), cmocka_unit_test(test_large_generation), cmocka_unit_test(test_older_than_a_visit), cmocka_unit_test(test_nothing_new), cmocka_unit_test(test_deletes), cmocka_unit_test(test_deletes_end), cmocka_unit_test(test_begins_again),
		cmocka_unit_test(test_delete_with_a_clock_set_back), cmocka_unit_test(test_local_retention), cmocka_unit_test(test_deleted_before_begin), cmocka_unit_test(test_deleted_under_old_id), cmocka_unit_test(test_left_and_read), cmocka_unit_test(test_rules), cmocka_unit_test(test_size), cmocka_unit_test(test_fence), cmocka_unit_test(test_waits_since),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
