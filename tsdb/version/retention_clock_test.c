/* SPDX-License-Identifier: Apache-2.0 */
/* A wall clock that is wrong, for minutes or days, beside one that nobody sets. Retention drops only what is old by both. A day that
 * was dropped takes new data. A clock that was ahead does not hold data back for as long as it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "tsdb/testkit.h"
#include "tsdb/version/db.h"

#define MINUTE INT64_C(60000)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)
#define DAYS 10
#define ALL (DAYS * 4 - 2)

static void pass(struct kit *k, int64_t ms)
{
	k->now_ms += ms;
	k->boot_ms += ms;
}

/* A profile and a float of what happens now. */
static void put(struct kit *k, bool accepted)
{
	struct sink_result r;
	int64_t now_ms = k->now_ms;
	assert_int_equal(kit_append(k, 0, now_ms, (uint64_t)now_ms, 20, &r), 0);
	assert_int_equal(r.profiles, accepted);
	assert_int_equal(kit_append_float(k, "up", now_ms, 1, &r), 0);
	assert_int_equal(r.floats, accepted);
}

static size_t count(struct kit *k, int64_t after_ms, int64_t until_ms)
{
	tsdb_flush(k->db);
	return kit_count(k, KIT_SAMPLES, after_ms, until_ms, NULL);
}

static void retain(struct kit *k)
{
	struct err e;
	tsdb_flush(k->db);
	if (tsdb_retain(k->db, &e))
		fail_msg("retain: %s", e.msg);
}

/* Ten days of four profiles each, most of it sealed; it is noon of the last. */
static void start(struct kit *k)
{
	struct err e;
	kit_init(k);
	k->boot_ms = 5 * MINUTE;
	k->o.boot_ms = kit_boot;
	k->o.no_sealing = true;
	k->now_ms = KIT_T0 + HOUR;
	kit_open(k);
	for (int i = 0; i < ALL; i++) {
		put(k, true);
		if (i % 15 == 14)
			assert_int_equal(tsdb_seal(k->db, true, &e), 0);
		pass(k, 6 * HOUR);
	}
	retain(k);
}

/* A minute of scrapes. */
static void live(struct kit *k)
{
	for (int i = 0; i < 6; i++) {
		pass(k, 10000);
		put(k, true);
		if (i % 3 == 0)
			retain(k);
	}
}

static struct admin_clock clock_of(struct kit *k)
{
	struct admin_clock c;
	tsdb_clock(k->db, &c);
	return c;
}

static void test_ahead(void **state)
{
	struct kit k;
	(void)state;
	start(&k);
	int64_t right = k.now_ms;
	assert_int_equal(clock_of(&k).steps, 0);
	k.now_ms += 20 * DAY;
	live(&k);
	assert_int_equal(clock_of(&k).steps, 1);
	assert_true(clock_of(&k).last_step_ms == 20 * DAY && clock_of(&k).retention_waits_ms > 58 * MINUTE);
	live(&k);
	assert_int_equal(count(&k, 0, right), ALL);
	/* However long it stands: the days were appended to a few days ago. */
	for (int i = 0; i < 30; i++) {
		pass(&k, HOUR);
		put(&k, true);
		retain(&k);
	}
	assert_int_equal(clock_of(&k).retention_waits_ms, 0);
	assert_int_equal(count(&k, 0, right), ALL);
	k.now_ms -= 20 * DAY;
	live(&k);
	assert_int_equal(count(&k, right, k.now_ms), 6);
	assert_true(clock_of(&k).steps == 2 && clock_of(&k).last_step_ms == -20 * DAY);
	assert_int_equal(count(&k, 0, right), ALL);
	kit_reopen(&k);
	live(&k);
	assert_int_equal(count(&k, 0, k.now_ms), ALL + 12);
	/* Days go when it is time, and when they are old by the other clock too. */
	for (int i = 0; i < 20 * 24; i++) {
		pass(&k, HOUR);
		put(&k, true);
		if (i % 6 == 0)
			retain(&k);
	}
	assert_true(count(&k, 0, right) == 0 && count(&k, right, k.now_ms) >= 14 * 24);
	kit_free(&k);
}

/* The machine started anew, and its other clock with it. */
static void reboot(struct kit *k)
{
	if (k->db)
		kit_close(k);
	char *name = xasprintf("%s/clock", k->dir);
	unlink(name);
	free(name);
	k->boot_ms = 5 * MINUTE;
	kit_open(k);
}

/* The server started anew while the clock is wrong: as if it had gone on. */
static void test_restart_ahead(void **state)
{
	struct kit k;
	(void)state;
	start(&k);
	int64_t right = k.now_ms;
	for (int i = 0; i < 5; i++) {
		kit_close(&k);
		k.now_ms += i ? 0 : 20 * DAY;
		kit_open(&k);
		assert_int_equal(clock_of(&k).steps, i == 0);
		assert_true(clock_of(&k).retention_waits_ms > 0 || i);
		live(&k);
		pass(&k, 4 * HOUR);
		retain(&k);
	}
	assert_int_equal(count(&k, 0, right), ALL);
	k.now_ms -= 20 * DAY;
	live(&k);
	kit_reopen(&k);
	pass(&k, 2 * HOUR);
	live(&k);
	assert_int_equal(count(&k, 0, right), ALL);
	kit_free(&k);
}

/* A clock that stood still for a day is right, at the next start. */
static void test_trusted(void **state)
{
	struct kit k;
	(void)state;
	start(&k);
	int64_t right = k.now_ms;
	k.now_ms += 20 * DAY;
	live(&k);
	pass(&k, 25 * HOUR);
	live(&k);
	assert_int_equal(count(&k, 0, right), ALL);
	kit_reopen(&k);
	live(&k);
	assert_int_equal(count(&k, 0, right), 0);
	kit_free(&k);
}

/* Machine and server started anew while it is wrong: nothing says that they were not off for these days. An hour is time to
 * see to it. */
static void test_start_ahead(void **state)
{
	struct kit k;
	(void)state;
	start(&k);
	int64_t right = k.now_ms;
	k.now_ms += 20 * DAY;
	live(&k);
	reboot(&k);
	retain(&k);
	live(&k);
	pass(&k, 50 * MINUTE);
	live(&k);
	assert_int_equal(count(&k, 0, right), ALL);
	k.now_ms -= 20 * DAY;
	reboot(&k);
	retain(&k);
	live(&k);
	assert_int_equal(count(&k, 0, right), ALL);
	pass(&k, 3 * HOUR);
	live(&k);
	assert_int_equal(count(&k, 0, right), ALL);
	assert_int_equal(count(&k, right, k.now_ms), 12);
	kit_free(&k);
}

/* Off for twenty days: after an hour what is old goes; at once where the machine was not off. */
static void test_was_off(void **state)
{
	struct kit k;
	(void)state;
	start(&k);
	kit_close(&k);
	pass(&k, 20 * DAY);
	reboot(&k);
	retain(&k);
	live(&k);
	assert_int_equal(count(&k, 0, KIT_T0 + DAYS * DAY), ALL);
	pass(&k, HOUR);
	live(&k);
	assert_int_equal(count(&k, 0, KIT_T0 + DAYS * DAY), 0);
	assert_int_equal(clock_of(&k).steps, 0);
	assert_int_equal(count(&k, 0, INT64_MAX), 12);
	kit_close(&k);
	pass(&k, 20 * DAY);
	kit_open(&k);
	live(&k);
	assert_int_equal(count(&k, 0, INT64_MAX), 6);
	kit_free(&k);
}

/* A machine without a clock of its own: it starts with one years behind, and then is told what time it is. */
static void test_behind(void **state)
{
	struct kit k;
	(void)state;
	start(&k);
	int64_t right = k.now_ms, off = 5000 * DAY;
	k.now_ms -= off;
	reboot(&k);
	live(&k);
	k.now_ms += off;
	live(&k);
	assert_int_equal(count(&k, 0, right), ALL + 6);
	for (int i = 0; i < 8 * 24; i++) {
		pass(&k, HOUR);
		put(&k, true);
		if (i % 6 == 0)
			retain(&k);
	}
	assert_true(count(&k, 0, KIT_T0 + 2 * DAY) <= 6); /* days go as ever; that of then when it was kept as long */
	assert_true(count(&k, KIT_T0 + 4 * DAY, right) > 5 * 4);
	kit_free(&k);
}

/* A day that was dropped takes data again, which is there after every start, and nothing of before. */
static void test_again(void **state)
{
	struct kit k;
	struct err e;
	(void)state;
	start(&k);
	for (int round = 0; round < 3; round++) {
		int64_t right = k.now_ms;
		pass(&k, 17 * DAY);
		put(&k, true);
		retain(&k);
		assert_int_equal(count(&k, 0, right - (int64_t)DAY), 0);
		k.now_ms = right - (int64_t)DAY;
		for (int i = 0; i < 4; i++) {
			live(&k);
			assert_int_equal(count(&k, 0, right), 6 * (i + 1));
			if (i == 2)
				assert_int_equal(tsdb_seal(k.db, true, &e), 0);
			kit_reopen(&k);
			assert_int_equal(count(&k, 0, right), 6 * (i + 1));
		}
		k.now_ms = right + 34 * DAY;
		k.boot_ms += 34 * DAY;
		put(&k, true);
		retain(&k);
		pass(&k, 2 * HOUR);
		retain(&k);
		assert_int_equal(count(&k, 0, right), 0);
		kit_reopen(&k);
		assert_int_equal(count(&k, 0, right), 0);
	}
	kit_free(&k);
}

/* The file of before days could come again: what the log has of them is void, what comes now is not. */
static void test_old_file(void **state)
{
	struct kit k;
	(void)state;
	start(&k);
	put(&k, true);
	kit_close(&k);
	char *name = xasprintf("%s/dropped", k.dir);
	FILE *f = fopen(name, "w");
	assert_non_null(f);
	fprintf(f, "pyrrha-dropped 1\nuntil %lld\n", (long long)(KIT_T0 + DAYS * DAY));
	fclose(f);
	free(name);
	kit_open(&k);
	assert_int_equal(count(&k, 0, INT64_MAX), 0);
	live(&k);
	for (int i = 0; i < 2; i++) {
		kit_reopen(&k);
		assert_int_equal(count(&k, 0, INT64_MAX), 6);
	}
	kit_free(&k);
}

/* The oldest go, never the day of now, whatever comes after it. */
static void test_size(void **state)
{
	struct kit k;
	struct err e;
	(void)state;
	start(&k);
	int64_t right = k.now_ms, today = right / DAY * DAY;
	live(&k);
	k.now_ms += 20 * DAY;
	live(&k);
	k.now_ms -= 20 * DAY;
	live(&k);
	assert_int_equal(tsdb_seal(k.db, true, &e), 0);
	size_t there = count(&k, 0, k.now_ms);
	k.db->o.retention_bytes = 1;
	retain(&k); /* far over it: it does not wait */
	assert_true(count(&k, 0, k.now_ms) < there);
	assert_int_equal(count(&k, 0, today), 0);
	assert_int_equal(count(&k, today, k.now_ms), 14);
	struct tsdb_stats s;
	tsdb_stats(k.db, &s);
	assert_int_equal(s.partitions, 2);
	kit_free(&k);
}

static void test_size_waits(void **state)
{
	struct kit k;
	struct tsdb_stats s;
	(void)state;
	start(&k);
	tsdb_stats(k.db, &s);
	k.now_ms += 5 * MINUTE;
	k.db->o.retention_bytes = s.disk_bytes - 1;
	retain(&k);
	assert_int_equal(count(&k, 0, INT64_MAX), ALL);
	pass(&k, HOUR);
	retain(&k);
	assert_true(count(&k, 0, INT64_MAX) < ALL);
	kit_free(&k);
}

/* Rules hide nothing that is not as old as they say. */
static void test_rules(void **state)
{
	struct kit k;
	struct err e;
	(void)state;
	start(&k);
	int64_t right = k.now_ms;
	struct tsdb_retention rule = { .keep_ms = 3 * DAY };
	assert_int_equal(tsdb_set_retention(k.db, &rule, 1, &e), 0);
	assert_int_equal(count(&k, 0, right), 12);
	k.now_ms += 20 * DAY;
	live(&k);
	pass(&k, 2 * HOUR);
	live(&k);
	assert_true(count(&k, 0, right) >= 12 - 1);
	k.now_ms -= 20 * DAY;
	assert_true(count(&k, 0, right) >= 12 - 1);
	kit_free(&k);
}

/* What was stored ahead of the clock does not hold the log back until then. */
static void test_log_is_trimmed(void **state)
{
	struct kit k;
	struct err e;
	struct tsdb_stats s;
	(void)state;
	start(&k);
	k.now_ms += 20 * DAY;
	live(&k);
	k.now_ms -= 20 * DAY;
	pass(&k, 3 * HOUR);
	put(&k, true);
	pass(&k, 3 * HOUR);
	assert_int_equal(tsdb_seal(k.db, false, &e), 0);
	tsdb_stats(k.db, &s);
	assert_int_equal(s.head_windows, 0);
	kit_free(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ahead), cmocka_unit_test(test_restart_ahead),
		cmocka_unit_test(test_trusted), cmocka_unit_test(test_start_ahead), cmocka_unit_test(test_was_off),
		cmocka_unit_test(test_behind), cmocka_unit_test(test_again), cmocka_unit_test(test_old_file),
		cmocka_unit_test(test_size), cmocka_unit_test(test_size_waits), cmocka_unit_test(test_rules),
		cmocka_unit_test(test_log_is_trimmed),
	};
	return cmocka_run_group_tests_name("retention_clock", tests, NULL, NULL);
}
