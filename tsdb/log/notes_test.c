/* SPDX-License-Identifier: Apache-2.0 */
/* Notes of batches: a note is there if and only if its batch is. That holds after restarts, trims of the log, snapshots, failed
 * commits and a rewritten log. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/view.h"
#include "tsdb/disk/wal.h"
#include "tsdb/testkit.h"
#include "tsdb/version/db.h"

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
		const struct sink_note n = { view_of(key), { large, SINK_NOTE_VALUE_MAX }, k.now_ms };
		rc = append_notes(&k, &n, 1, NULL, &e);
		if (rc) {
			tsdb_flush(k.db); /* what is being committed may count twice for a moment */
			rc = append_notes(&k, &n, 1, NULL, &e);
		}
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

static char *head_file(const struct kit *k, const char *end)
{
	AUTOFREE char *dir = xasprintf("%s/head", k->dir);
	char *found = NULL;
	DIR *d = opendir(dir);
	for (struct dirent *x; (x = readdir(d));)
		if (!found && (view_ends(view_of(x->d_name), view_of(end)) || view_starts(view_of(x->d_name), view_of(end))))
			found = xasprintf("%s/%s", dir, x->d_name);
	closedir(d);
	assert_non_null(found);
	return found;
}

/* The last of a batch's changes. */
struct change {
	char key[64], value[200];
	size_t key_len, value_len;
};

static int see_change(void *arg, struct view key, struct view value, struct err *e)
{
	struct change *c = arg;
	(void)e;
	assert_true(key.len <= sizeof c->key && value.len <= sizeof c->value);
	memcpy(c->key, key.ptr, c->key_len = key.len);
	memcpy(c->value, value.ptr, c->value_len = value.len);
	return 0;
}

static struct change change_of(rocksdb_writebatch_t *batch)
{
	struct change c = { .key_len = 0 };
	struct err e;
	size_t len;
	int rc;
	const char *bytes = rocksdb_writebatch_data(batch, &len);
	assert_true(wal_batch(view_make(bytes, len), see_change, &c, &rc, &e));
	rocksdb_writebatch_clear(batch);
	return c;
}

static enum log_repair_verdict judge(struct notes *t, const struct change *c)
{
	return notes_judge(t, view_make(c->key, c->key_len), view_make(c->value, c->value_len));
}

/* Whatever file an older value is found in, after a newer one it does not count; nor does that of a commit that failed, after what
 * was put in its place; nor one with a flipped bit. */
static void test_judge(void **state)
{
	struct notes *t = notes_new();
	struct notes_room room;
	struct note **n;
	struct change c[3];
	struct err e;
	uint64_t last = 0;
	rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
	(void)state;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(notes_take(t, &(struct sink_note){ KEY("cursor\0a"), VIEW("12"), 5 }, 1, &n, &room, &e), 0);
		notes_put(t, n[0]);
		free(n);
		notes_write(t, batch, 10 + (uint64_t)i);
		c[i] = change_of(batch);
		notes_failed(t);
		if (i == 1) { /* there was none before */
			notes_undo(t, batch, 14);
			notes_undone(t);
			struct change undone = change_of(batch);
			assert_int_equal(judge(t, &undone), LOG_REPAIR_TAKE);
			assert_int_equal(judge(t, &c[0]), LOG_REPAIR_PASS);
			assert_int_equal(judge(t, &c[1]), LOG_REPAIR_PASS);
			notes_clear(t);
			assert_true(notes_load(t, view_make(undone.key, undone.key_len), view_make(undone.value, undone.value_len), &last));
			assert_int_equal(last, 14);
			size_t bytes;
			notes_count(t, &last, &bytes);
			assert_int_equal(last, 0);
		}
	}
	assert_int_equal(judge(t, &c[1]), LOG_REPAIR_TAKE);
	assert_int_equal(judge(t, &c[0]), LOG_REPAIR_PASS);
	assert_int_equal(judge(t, &c[1]), LOG_REPAIR_TAKE); /* found once more */
	assert_int_equal(judge(t, &c[2]), LOG_REPAIR_TAKE);
	assert_int_equal(judge(t, &c[1]), LOG_REPAIR_PASS);
	for (size_t i = 0; i < c[2].value_len; i++) {
		c[2].value[i] ^= 16;
		assert_int_equal(judge(t, &c[2]), LOG_REPAIR_PASS);
		c[2].value[i] ^= 16;
	}
	c[2].key[c[2].key_len - 1] ^= 1; /* another note's */
	assert_int_equal(judge(t, &c[2]), LOG_REPAIR_PASS);
	rocksdb_writebatch_destroy(batch);
	notes_free(t);
}

/* Several tables have several values of a note: of a log that is made anew of them the newest counts. */
static void test_made_anew(void **state)
{
	struct kit k;
	char value[8];
	(void)state;
	kit_init(&k);
	k.o.no_sealing = true;
	kit_open(&k);
	note(&k, KEY("cursor\0b"), "1");
	for (int i = 0; i < 6; i++) {
		snprintf(value, sizeof value, "%d", i * 7 % 10); /* 0 7 4 1 8 5 */
		note(&k, KEY("cursor\0a"), value);
		kit_reopen(&k);
	}
	for (int how = 0; how < 2; how++) {
		kit_close(&k);
		AUTOFREE char *list = head_file(&k, "MANIFEST");
		assert_int_equal(unlink(list), 0);
		kit_open(&k);
		check_notes(&k, VIEW(""), how ? "cursor|a=9 cursor|b=2 " : "cursor|a=5 cursor|b=1 ");
		note(&k, KEY("cursor\0a"), "9");
		note(&k, KEY("cursor\0b"), "2");
	}
	kit_free(&k);
}

struct outcome {
	bool done;
	enum err_code code;
};

static void see_outcome(void *arg, const struct err *e)
{
	*(struct outcome *)arg = (struct outcome){ true, e->code };
}

/* Files that may not grow stand for a full disk. The note of a failed commit is not there, then or after a restart, even
 * if the log is made anew from all of its files. The note before it is. */
static void test_failed_commit(void **state)
{
	struct kit k;
	struct rlimit before, small = { 200000, RLIM_INFINITY };
	struct outcome o = { 0 };
	char value[16] = "", good[64], want[100];
	int i = 0;
	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	small.rlim_max = before.rlim_max;
	kit_init(&k);
	k.o.no_sealing = true;
	kit_open(&k);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	for (; !o.code && i < 2000; i++) {
		snprintf(good, sizeof good, "cursor|a=%d ", i - 1);
		snprintf(value, sizeof value, "%d", i);
		const struct sink_note n[] = { { KEY("cursor\0a"), view_of(value), k.now_ms }, { KEY("cursor\0new"), VIEW("x"), k.now_ms } };
		k.notes = n;
		k.n_notes = i > 60 ? 2 : 1; /* the disk is full long before or after that */
		o.done = false;
		assert_int_equal(kit_append_done(&k, 1, KIT_T0 + 1000 + i, (uint64_t)i, 200, NULL, see_outcome, &o), 0);
		tsdb_flush(k.db);
		assert_true(o.done);
	}
	assert_true(o.code && i > 3);
	snprintf(want, sizeof want, "%s%s", good, i > 62 ? "cursor|new=x " : "");
	check_notes(&k, VIEW(""), want);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	k.n_notes = 0;
	for (int tries = 0; tries < 50 && o.code; tries++) {
		usleep(100000);
		assert_int_equal(kit_append_done(&k, 1, KIT_T0 + 900000, 1, 20, NULL, see_outcome, &o), 0);
		tsdb_flush(k.db);
	}
	assert_int_equal(o.code, 0);
	for (int how = 0; how < 3; how++) {
		check_notes(&k, VIEW(""), want);
		kit_close(&k);
		AUTOFREE char *list = head_file(&k, "MANIFEST");
		if (how == 1)
			assert_int_equal(unlink(list), 0);
		kit_open(&k);
	}
	kit_free(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_newest), cmocka_unit_test(test_bytes), cmocka_unit_test(test_outlives), cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_judge), cmocka_unit_test(test_made_anew), cmocka_unit_test(test_failed_commit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
