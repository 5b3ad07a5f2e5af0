/* SPDX-License-Identifier: Apache-2.0 */
/* Notes of batches: there with what they were appended with and never without it, over restarts, trims of the log, snapshots,
 * commits that fail and a log that is made anew. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/view.h"
#include "tsdb/db.h"
#include "tsdb/testkit.h"

#define HOUR INT64_C(3600000)
#define DAY (24 * HOUR)
#define KEY(text) view_make(text, sizeof(text) - 1)

static int append_notes(struct kit *k, const struct sink_note *v, size_t n, struct sink_result *ret, struct err *e)
{
	struct sink *s = tsdb_sink(k->db);
	struct sink_batch b = { .notes = v, .n_notes = n };
	return s->append(s, &b, ret, e);
}

static void note(struct kit *k, struct view key, const char *value)
{
	struct err e;
	assert_int_equal(append_notes(k, &(struct sink_note){ key, view_of(value), k->now_ms }, 1, NULL, &e), 0);
	tsdb_flush(k->db);
}

static void say(void *arg, const struct sink_note *n)
{
	struct buf *b = arg;
	for (size_t i = 0; i < n->key.len; i++)
		buf_putc(b, n->key.ptr[i] ? n->key.ptr[i] : '|');
	buf_printf(b, "=%.*s ", VIEW_ARG(n->value));
}

/* "key=value key=value " of all with that prefix. */
static void check_notes(struct kit *k, struct view prefix, const char *want)
{
	CLEANUP(buf_free) struct buf b = { 0 };
	struct sink *s = tsdb_sink(k->db);
	struct err e;
	assert_int_equal(s->notes(s, prefix, say, &b, &e), 0);
	assert_string_equal(b.ptr ? b.ptr : "", want);
}

/* The newest value of each key, forgotten ones not, by prefix, now and after a restart; a batch of notes alone is fine. */
static void test_newest(void **state)
{
	struct kit k;
	struct err e;
	(void)state;
	kit_init(&k);
	kit_open(&k);
	check_notes(&k, VIEW(""), "");
	note(&k, KEY("cursor\0b"), "1");
	note(&k, KEY("cursor\0a"), "1");
	note(&k, KEY("alert\0x"), "1"); /* with the prefix of an older form it would have a number's length */
	note(&k, KEY("cursor\0b"), "22");
	note(&k, KEY("alert\0y"), "1");
	note(&k, KEY("alert\0y"), "");
	note(&k, KEY("alert\0z"), "");
	const struct sink_note several[] = { { KEY("cursor\0c"), VIEW("1"), k.now_ms }, { KEY("cursor\0d"), VIEW("1"), k.now_ms },
					     { KEY("cursor\0c"), VIEW(""), k.now_ms }, { KEY("cursor\0d"), VIEW("2"), k.now_ms } };
	assert_int_equal(append_notes(&k, several, 4, NULL, &e), 0);
	tsdb_flush(k.db);
	for (int i = 0; i < 3; i++) {
		check_notes(&k, VIEW(""), "alert|x=1 cursor|a=1 cursor|b=22 cursor|d=2 ");
		check_notes(&k, KEY("cursor\0"), "cursor|a=1 cursor|b=22 cursor|d=2 ");
		check_notes(&k, KEY("cursor\0b"), "cursor|b=22 ");
		check_notes(&k, KEY("nothing"), "");
		kit_reopen(&k);
	}
	struct tsdb_stats s;
	tsdb_stats(k.db, &s);
	assert_int_equal(s.notes, 4);
	assert_int_equal(s.notes_bytes, 7 + 3 * 8 + 5);
	assert_int_equal(s.lost_records, 0);
	kit_free(&k);
}

/* Bytes of any kind come back as they were. */
static void test_bytes(void **state)
{
	static char value[SINK_NOTE_VALUE_MAX], key[SINK_NOTE_KEY_MAX];
	struct kit k;
	struct err e;
	(void)state;
	kit_init(&k);
	kit_open(&k);
	for (size_t i = 0; i < sizeof value; i++)
		value[i] = (char)(i * 7);
	for (size_t i = 0; i < sizeof key; i++)
		key[i] = (char)(i * 3);
	const struct sink_note n = { view_make(key, sizeof key), view_make(value, sizeof value), k.now_ms };
	assert_int_equal(append_notes(&k, &n, 1, NULL, &e), 0);
	CLEANUP(buf_free) struct buf want = { 0 };
	say(&want, &n);
	tsdb_flush(k.db);
	check_notes(&k, view_make(key, 5), want.ptr);
	kit_reopen(&k);
	check_notes(&k, view_make(key, 5), want.ptr);
	kit_free(&k);
}

/* What its records and partitions go, a note stays, until it was not written for 31 days. */
static void test_outlives(void **state)
{
	struct kit k;
	struct err e;
	struct tsdb_stats s;
	(void)state;
	kit_init(&k);
	k.o.no_sealing = true;
	k.o.retention_ms = 2 * DAY;
	k.o.boot_ms = kit_boot;
	k.now_ms = k.boot_ms = KIT_T0 + HOUR;
	kit_open(&k);
	note(&k, KEY("cursor\0a"), "1");
	for (int hour = 2; hour < 30; hour++) {
		k.now_ms = k.boot_ms = KIT_T0 + hour * HOUR;
		assert_int_equal(kit_append(&k, 1, k.now_ms, 1, 20, NULL), 0);
		tsdb_flush(k.db);
		k.boot_ms = k.now_ms += HOUR;
		assert_int_equal(tsdb_seal(k.db, true, &e), 0);
	}
	tsdb_stats(k.db, &s);
	assert_true(s.first_record > 20); /* its number was trimmed long ago */
	check_notes(&k, VIEW(""), "cursor|a=1 ");
	kit_reopen(&k);
	check_notes(&k, VIEW(""), "cursor|a=1 ");
	tsdb_stats(k.db, &s);
	assert_int_equal(s.lost_records, 0);
	AUTOFREE char *dir = xasprintf("%s/snapshots/one", k.dir);
	note(&k, KEY("cursor\0b"), "1");
	assert_int_equal(tsdb_snapshot(k.db, dir, &e), 0);
	note(&k, KEY("cursor\0b"), "2");
	struct kit copy = k;
	copy.o.path = dir;
	copy.o.now_arg = &copy;
	kit_open(&copy);
	check_notes(&copy, VIEW(""), "cursor|a=1 cursor|b=1 ");
	kit_close(&copy);
	for (int day = 3; day < 40; day++) {
		k.now_ms = k.boot_ms = KIT_T0 + day * DAY;
		assert_int_equal(kit_append(&k, 1, k.now_ms, 1, 20, NULL), 0);
		tsdb_flush(k.db);
		assert_int_equal(tsdb_retain(k.db, &e), 0);
		check_notes(&k, KEY("cursor\0a"), day < 32 ? "cursor|a=1 " : "");
	}
	kit_reopen(&k); /* now they are taken out of the log too, and not only passed over */
	note(&k, KEY("cursor\0c"), "1");
	tsdb_stats(k.db, &s);
	assert_int_equal(s.notes, 1);
	kit_free(&k);
}

/* Too many and too large ones are refused, which does not cost the profile; those that are there may change and go. */
static void test_bounds(void **state)
{
	struct kit k;
	struct err e;
	struct sink_result r;
	static char large[SINK_NOTE_VALUE_MAX + 1];
	char key[16];
	(void)state;
	memset(large, 'x', sizeof large);
	kit_init(&k);
	kit_open(&k);
	const struct sink_note bad[] = { { VIEW(""), VIEW("1"), 1 }, { VIEW("k"), { large, sizeof large }, 1 },
					 { { large, SINK_NOTE_KEY_MAX + 1 }, VIEW("1"), 1 } };
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(append_notes(&k, &bad[i], 1, NULL, &e), -ERR_LIMIT);
	k.notes = bad;
	k.n_notes = 2;
	assert_int_equal(kit_append(&k, 1, k.now_ms, 1, 20, &r), 0);
	assert_int_equal(r.profiles, 1);
	assert_int_equal(r.over_notes, 2);
	/* By bytes: 1023 of 64 KiB fit, and no more. */
	int i = 0, rc = 0;
	for (; !rc && i < 2000; i++) {
		snprintf(key, sizeof key, "k%05d", i);
		rc = append_notes(&k, &(struct sink_note){ view_of(key), { large, SINK_NOTE_VALUE_MAX }, k.now_ms }, 1, NULL, &e);
	}
	assert_int_equal(rc, -ERR_LIMIT);
	assert_non_null(strstr(e.msg, "bytes"));
	assert_int_equal(i, 1024);
	note(&k, VIEW("k00001"), "small");
	note(&k, VIEW("k00002"), "");
	assert_int_equal(append_notes(&k, &(struct sink_note){ view_of(key), { large, SINK_NOTE_VALUE_MAX }, k.now_ms }, 1, NULL, &e), 0);
	for (i = 0; i < 1024; i++) {
		snprintf(key, sizeof key, "k%05d", i);
		note(&k, view_of(key), "");
	}
	/* By number. */
	struct sink_note *many = xcalloc(SINK_NOTES_MAX + 1, sizeof *many);
	for (i = 0; i < SINK_NOTES_MAX + 1; i++)
		many[i] = (struct sink_note){ view_of(xasprintf("n%07d", i)), VIEW("1"), k.now_ms };
	assert_int_equal(append_notes(&k, many, SINK_NOTES_MAX + 1, NULL, &e), -ERR_LIMIT);
	assert_int_equal(append_notes(&k, many, SINK_NOTES_MAX, NULL, &e), 0);
	assert_int_equal(append_notes(&k, many + SINK_NOTES_MAX, 1, NULL, &e), -ERR_LIMIT); /* those on their way count */
	tsdb_flush(k.db);
	assert_int_equal(append_notes(&k, many, 2, NULL, &e), 0);
	assert_int_equal(append_notes(&k, many + SINK_NOTES_MAX, 1, NULL, &e), -ERR_LIMIT);
	note(&k, many[0].key, "");
	assert_int_equal(append_notes(&k, many + SINK_NOTES_MAX, 1, NULL, &e), 0);
	for (i = 0; i < SINK_NOTES_MAX + 1; i++)
		free((char *)(uintptr_t)many[i].key.ptr);
	free(many);
	kit_free(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_newest), cmocka_unit_test(test_bytes), cmocka_unit_test(test_outlives), cmocka_unit_test(test_bounds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
