/* SPDX-License-Identifier: Apache-2.0 */
/* Damage: flipped bits, holes and cut tails of the log, files of a partition that are gone or bad. The server starts,
 * what is whole is there, what is lost is counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/view.h"
#include "tsdb/disk/manifest.h"
#include "tsdb/disk/rocks.h"
#include "tsdb/log/record.h"
#include "tsdb/seal/seal.h"
#include "tsdb/testkit.h"
#include "tsdb/version/db.h"
#include "tsdb/version/tombstones.h"

#define HOUR INT64_C(3600000)

static void append_n(struct kit *k, unsigned from, unsigned n, int64_t step_ms)
{
	for (unsigned i = from; i < from + n; i++) {
		k->now_ms = KIT_T0 + (int64_t)(i + 1) * step_ms;
		assert_int_equal(kit_append(k, 1, k->now_ms, i, 30, NULL), 0);
		tsdb_flush(k->db); /* a record each */
	}
}

static uint64_t sum_of(unsigned from, unsigned n)
{
	uint64_t sum = 0;
	for (unsigned i = from; i < from + n; i++)
		sum += kit_profile_sum(i, 30, false);
	return sum;
}

static uint64_t lost(struct kit *k)
{
	struct tsdb_stats s;
	tsdb_stats(k->db, &s);
	return s.lost_records;
}

/* The rocksdb of the closed head: changes one record. */
static void with_record(const struct kit *k, uint64_t number, bool remove)
{
	AUTOFREE char *path = xasprintf("%s/head", k->dir);
	char *error = NULL, key[8];
	size_t len;
	rocksdb_options_t *o = rocks_options(NULL);
	rocksdb_t *db = rocksdb_open(o, path, &error);
	assert_null(error);
	for (int i = 0; i < 8; i++)
		key[i] = (char)(number >> (56 - 8 * i));
	rocksdb_readoptions_t *r = rocksdb_readoptions_create();
	rocksdb_writeoptions_t *w = rocksdb_writeoptions_create();
	char *v = rocksdb_get(db, r, key, 8, &len, &error);
	assert_non_null(v);
	v[len / 2] ^= 4;
	if (remove)
		rocksdb_delete(db, w, key, 8, &error);
	else
		rocksdb_put(db, w, key, 8, v, len, &error);
	assert_null(error);
	rocksdb_free(v);
	rocksdb_readoptions_destroy(r);
	rocksdb_writeoptions_destroy(w);
	rocksdb_close(db);
	rocksdb_options_destroy(o);
}

static void test_damaged_records(void **state)
{
	struct kit k;
	kit_init(&k);
	k.o.no_sealing = true;
	kit_open(&k);
	append_n(&k, 0, 40, 10000);
	struct tsdb_stats s;
	tsdb_stats(k.db, &s);
	kit_close(&k);
	/* Of the last records each holds one profile and nothing else is new. */
	with_record(&k, s.last_record - 3, false);
	with_record(&k, s.last_record - 6, true);
	kit_open(&k);
	assert_int_equal(lost(&k), 2);
	assert_int_equal(kit_count(&k, KIT_SAMPLES, 0, INT64_MAX, NULL), 38);
	append_n(&k, 40, 5, 10000);
	kit_reopen(&k);
	assert_int_equal(kit_count(&k, KIT_SAMPLES, 0, INT64_MAX, NULL), 43);
	kit_free(&k);
}

/* Without a symbols record the profile that needed it has no names, and every id after it stays what it was. */
static void test_lost_symbols(void **state)
{
	struct kit k;
	kit_init(&k);
	k.o.no_sealing = true;
	kit_open(&k);
	append_n(&k, 0, 40, 10000);
	kit_close(&k);
	with_record(&k, 3, false); /* the second profile's symbols */
	kit_open(&k);
	struct tsdb_stats s;
	tsdb_stats(k.db, &s);
	assert_int_equal(s.lost_records, 1);
	assert_true(s.lost_symbols > 10);
	assert_int_equal(kit_count(&k, KIT_SAMPLES, 0, INT64_MAX, NULL), 40);
	kit_merge(&k, KIT_SAMPLES, 0, INT64_MAX, NULL); /* stacks without a name, but no harm */
	/* A profile whose stacks were all known before record 3 is what it was. */
	assert_true(kit_merge(&k, KIT_SAMPLES, 0, KIT_T0 + 10000, NULL) == sum_of(0, 1));
	append_n(&k, 40, 5, 10000);
	kit_reopen(&k);
	assert_int_equal(kit_count(&k, KIT_SAMPLES, 0, INT64_MAX, NULL), 45);
	assert_true(kit_merge(&k, KIT_SAMPLES, KIT_T0 + 400000, INT64_MAX, NULL) == sum_of(40, 5));
	kit_free(&k);
}

/* What the log still has of a series whose names were lost is not taken for that of a later one, which has a part already. */
static void test_lost_series(void **state)
{
	struct kit k;
	struct err e;
	struct tsdb_stats s;
	(void)state;
	kit_init(&k);
	k.o.no_sealing = true;
	kit_open(&k);
	for (int i = 0; i < 4; i++) { /* without stacks: only the first of a pod has symbols */
		k.now_ms = KIT_T0 + 60000 + i;
		assert_int_equal(kit_append(&k, i ? 2 : 1, k.now_ms, 1, 0, NULL), 0);
		tsdb_flush(k.db);
	}
	kit_close(&k);
	with_record(&k, 3, true); /* the second pod's symbols */
	kit_open(&k);
	assert_int_equal(kit_count(&k, KIT_SAMPLES, 0, INT64_MAX, NULL), 1);
	for (unsigned i = 0; i < 40; i++) {
		k.now_ms = KIT_T0 + 2 * HOUR + (i + 1) * 1000;
		assert_int_equal(kit_append(&k, 7, k.now_ms, i, 200, NULL), 0);
	}
	tsdb_flush(k.db);
	tsdb_stats(k.db, &s);
	k.db->o.head_bytes = s.head_bytes;
	assert_int_equal(seal_due(k.db, SEAL_LARGEST, &e), 0);
	tsdb_stats(k.db, &s);
	assert_true(s.head_windows == 1 && s.parts == 1);
	kit_reopen(&k);
	assert_int_equal(kit_count(&k, KIT_SAMPLES, 0, INT64_MAX, NULL), 41);
	kit_free(&k);
}

/* Calls fn on every file of dir with that ending; returns how many. */
static int each_file(const char *dir, const char *suffix, void (*fn)(const char *path))
{
	DIR *d = opendir(dir);
	int n = 0;
	assert_non_null(d);
	for (struct dirent *x; (x = readdir(d));) {
		if (!view_ends(view_of(x->d_name), view_of(suffix)))
			continue;
		AUTOFREE char *path = xasprintf("%s/%s", dir, x->d_name);
		fn(path);
		n++;
	}
	closedir(d);
	return n;
}

static void cut_tail(const char *path)
{
	struct stat st;
	assert_int_equal(stat(path, &st), 0);
	if (st.st_size > 4000)
		assert_int_equal(truncate(path, st.st_size - 2000), 0);
}

static void test_cut_log(void **state)
{
	struct kit k;
	kit_init(&k);
	k.o.no_sealing = true;
	kit_open(&k);
	append_n(&k, 0, 200, 10000);
	kit_close(&k);
	AUTOFREE char *head = xasprintf("%s/head", k.dir);
	assert_true(each_file(head, ".log", cut_tail) > 0);
	kit_open(&k);
	uint64_t gone = lost(&k);
	size_t there = kit_count(&k, KIT_SAMPLES, 0, INT64_MAX, NULL);
	assert_true(gone > 0);
	assert_true(there < 200);
	assert_true(there > 150);
	assert_true(there + gone >= 200);
	assert_true(kit_merge(&k, KIT_SAMPLES, 0, INT64_MAX, NULL) == sum_of(0, (unsigned)there));
	append_n(&k, 200, 3, 10000);
	kit_reopen(&k);
	assert_int_equal(kit_count(&k, KIT_SAMPLES, 0, INT64_MAX, NULL), there + 3);
	kit_free(&k);
}

/* Files that may not grow stand for a full disk: appends are refused and say so; once there is room they go on. */
static void test_full_disk(void **state)
{
	struct kit k;
	struct rlimit before, small = { 300000, RLIM_INFINITY };
	struct tsdb_stats s;
	unsigned i = 0;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	small.rlim_max = before.rlim_max;
	kit_init(&k);
	k.o.no_sealing = true;
	kit_open(&k);
	append_n(&k, 0, 10, 10000);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	for (uint64_t want = 10; i < 20000; i++) {
		assert_int_equal(kit_append(&k, 1, KIT_T0 + 200000 + i, i, 200, NULL), 0);
		tsdb_flush(k.db);
		tsdb_stats(k.db, &s);
		if (s.appended_profiles != ++want)
			break;
	}
	assert_true(i < 20000);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	uint64_t there = s.appended_profiles;
	for (int tries = 0; tries < 50 && s.appended_profiles == there; tries++) {
		usleep(100000);
		assert_int_equal(kit_append(&k, 1, KIT_T0 + 200000 + i, i, 200, NULL), 0); /* the one that was refused */
		tsdb_flush(k.db);
		tsdb_stats(k.db, &s);
	}
	assert_int_equal(s.appended_profiles, there + 1);
	assert_int_equal(kit_count(&k, KIT_SAMPLES, 0, INT64_MAX, NULL), there + 1);
	kit_reopen(&k);
	assert_int_equal(lost(&k), 0);
	assert_int_equal(kit_count(&k, KIT_SAMPLES, 0, INT64_MAX, NULL), there + 1);
	kit_free(&k);
}

/* ---- partitions ---- */

static int file_number;
static void remove_second(const char *path)
{
	if (file_number++ == 1)
		assert_int_equal(unlink(path), 0);
}

static void flip_second(const char *path)
{
	char byte;
	if (file_number++ != 1)
		return;
	int fd = open(path, O_RDWR);
	assert_int_equal(pread(fd, &byte, 1, 300), 1);
	byte ^= 0x55;
	assert_int_equal(pwrite(fd, &byte, 1, 300), 1);
	close(fd);
}

static void seal_hours(struct kit *k, unsigned hours)
{
	struct err e;
	append_n(k, 0, hours * 6, 10 * 60000);
	k->now_ms += HOUR;
	assert_int_equal(tsdb_seal(k->db, true, &e), 0);
}

static void damage_partition(void (*how)(const char *path))
{
	struct kit k;
	struct err e;
	kit_init(&k);
	k.o.no_sealing = true;
	kit_open(&k);
	seal_hours(&k, 4);
	assert_int_equal(kit_count(&k, KIT_SAMPLES, 0, INT64_MAX, NULL), 24);
	kit_close(&k);
	AUTOFREE char *dir = xasprintf("%s/partitions/%lld", k.dir, (long long)(KIT_T0 / 86400000));
	file_number = 0;
	assert_int_equal(each_file(dir, ".sst", how), 4);
	kit_open(&k);
	size_t there = kit_count(&k, KIT_SAMPLES, 0, INT64_MAX, NULL);
	assert_true(lost(&k) >= 1);
	assert_int_equal(there, 18);
	/* New data, sealed beside the damage. */
	append_n(&k, 30, 6, 10 * 60000);
	assert_int_equal(tsdb_seal(k.db, true, &e), 0);
	assert_int_equal(kit_count(&k, KIT_SAMPLES, 0, INT64_MAX, NULL), 24);
	kit_reopen(&k);
	assert_int_equal(lost(&k), 0); /* that was said */
	assert_int_equal(kit_count(&k, KIT_SAMPLES, 0, INT64_MAX, NULL), 24);
	assert_true(kit_merge(&k, KIT_SAMPLES, KIT_T0 + 5 * HOUR, INT64_MAX, NULL) == sum_of(30, 6));
	kit_free(&k);
}

static void test_missing_file(void **state)
{
	damage_partition(remove_second);
}

static void test_bad_file(void **state)
{
	damage_partition(flip_second);
}

static void garbage(const char *path)
{
	FILE *f = fopen(path, "w");
	fputs("this is no manifest\n", f);
	fclose(f);
}

static char *partition_file(const struct kit *k, const char *name)
{
	return xasprintf("%s/partitions/%lld%s%s", k->dir, (long long)(KIT_T0 / 86400000), name[0] ? "/" : "", name);
}

/* The list of a database's files as it is now. */
static char *list_of(const char *dir)
{
	AUTOFREE char *current = xasprintf("%s/CURRENT", dir);
	char name[64] = "";
	FILE *f = fopen(current, "r");
	assert_true(f && fscanf(f, "%63s", name) == 1);
	fclose(f);
	return xasprintf("%s/%s", dir, name);
}

static long list_size(const char *dir)
{
	AUTOFREE char *list = list_of(dir);
	struct stat st;
	assert_int_equal(stat(list, &st), 0);
	return (long)st.st_size;
}

/* How the list may end: its last entry torn; the entry at some place cut, or of a wrong length, which to RocksDB is the same. */
enum end { TORN, CUT, WRONG_LENGTH, ENDS };

static void damage_end(const char *list, enum end how, long at)
{
	static const char zeros[20];
	struct stat st;
	char byte;
	int fd = open(list, O_RDWR);
	assert_true(fd >= 0 && fstat(fd, &st) == 0 && at + 20 < st.st_size && st.st_size < 16384);
	if (how == TORN)
		assert_int_equal(pwrite(fd, zeros, sizeof zeros, st.st_size - (off_t)sizeof zeros), sizeof zeros);
	else if (how == CUT)
		assert_int_equal(ftruncate(fd, at + 20), 0);
	else {
		assert_int_equal(pread(fd, &byte, 1, at + 5), 1);
		byte ^= 0x40;
		assert_int_equal(pwrite(fd, &byte, 1, at + 5), 1);
	}
	close(fd);
}

/* Each bit of a list's end counts. */
static void check_every_bit(const char *dir, const char *path)
{
	struct stat st;
	uint8_t byte;
	int fd = open(path, O_RDWR);
	assert_true(fd >= 0 && fstat(fd, &st) == 0);
	assert_false(manifest_is_damaged(dir));
	for (off_t at = MAX(st.st_size - 150, 0); at < st.st_size; at++) {
		assert_int_equal(pread(fd, &byte, 1, at), 1);
		for (int bit = 0; bit < 8; bit++) {
			uint8_t flipped = byte ^ (uint8_t)(1u << bit);
			assert_int_equal(pwrite(fd, &flipped, 1, at), 1);
			assert_true(manifest_is_damaged(dir));
		}
		assert_int_equal(pwrite(fd, &byte, 1, at), 1);
	}
	close(fd);
}

/* RocksDB's list of a partition's files is damaged, or gone: it is made anew, nothing is lost. */
static void test_repair(void **state)
{
	struct kit k;
	struct err e;
	(void)state;
	kit_init(&k);
	k.o.no_sealing = true;
	kit_open(&k);
	seal_hours(&k, 30);
	size_t n = kit_count(&k, KIT_SAMPLES, 0, INT64_MAX, NULL);
	uint64_t sum = kit_merge(&k, KIT_SAMPLES, 0, INT64_MAX, NULL);
	AUTOFREE char *current = partition_file(&k, "CURRENT"), *dir = partition_file(&k, "");
	long entries = 0; /* of the list when it was opened: behind it is what was sealed since */
	for (int how = 0; how < 3 + ENDS; how++) {
		kit_close(&k);
		AUTOFREE char *list = list_of(dir);
		if (how == 0)
			garbage(current);
		else if (how == 1)
			assert_int_equal(unlink(current), 0);
		else {
			if (how == 3)
				check_every_bit(dir, list);
			if (how == 2)
				assert_int_equal(unlink(list), 0);
			else
				damage_end(list, (enum end)(how - 3), entries);
		}
		kit_open(&k);
		entries = list_size(dir);
		assert_int_equal(lost(&k), 0);
		assert_int_equal(kit_count(&k, KIT_SAMPLES, 0, INT64_MAX, NULL), n);
		assert_true(kit_merge(&k, KIT_SAMPLES, 0, INT64_MAX, NULL) == sum);
		assert_int_equal(kit_append(&k, 5, KIT_T0 + 2 * 3600000 + how + 1, 1, 0, NULL), 0); /* late: a further part */
		assert_int_equal(tsdb_seal(k.db, true, &e), 0);
		n++;
		sum = kit_merge(&k, KIT_SAMPLES, 0, INT64_MAX, NULL);
	}
	kit_free(&k);
}

/* ---- the log's list of files ---- */

static char saved_name[300], saved_link[300];

static void save_log(const char *path)
{
	snprintf(saved_name, sizeof saved_name, "%s", path);
	snprintf(saved_link, sizeof saved_link, "%s.saved", path);
	assert_int_equal(link(saved_name, saved_link), 0);
}

static void nothing(const char *path)
{
}

/* What a seal no longer needs of the log is flushed in its own time: until one write-ahead file is left. */
static void wait_for_one_log(const struct kit *k)
{
	AUTOFREE char *head = xasprintf("%s/head", k->dir);
	int64_t until = clock_mono_ms() + 60000;
	while (each_file(head, ".log", nothing) != 1) {
		assert_true(clock_mono_ms() < until);
		clock_sleep_ms(2);
	}
}

/* Makes a table of the write-ahead file. As when the power fails while the list gets the entry of that table both are there
 * afterwards. Returns where in the list the entry is. */
static long flush_halfway(struct kit *k)
{
	AUTOFREE char *head = xasprintf("%s/head", k->dir);
	char *error = NULL;
	rocksdb_options_t *base = rocks_options(NULL), *o = rocksdb_options_create();
	rocksdb_flushoptions_t *wait = rocksdb_flushoptions_create();
	rocksdb_get_options_from_string(base, "avoid_flush_during_recovery=true", o, &error);
	assert_null(error);
	assert_int_equal(each_file(head, ".log", save_log), 1);
	rocksdb_t *db = rocksdb_open(o, head, &error);
	assert_null(error);
	long entry = list_size(head);
	rocksdb_flush(db, wait, &error);
	assert_null(error);
	rocksdb_close(db);
	rocksdb_flushoptions_destroy(wait);
	rocksdb_options_destroy(o);
	rocksdb_options_destroy(base);
	assert_int_not_equal(access(saved_name, F_OK), 0);
	assert_int_equal(rename(saved_link, saved_name), 0);
	return entry;
}

static void flip_middle(const char *path)
{
	struct stat st;
	char byte;
	int fd = open(path, O_RDWR);
	assert_true(fd >= 0 && fstat(fd, &st) == 0 && pread(fd, &byte, 1, st.st_size / 2) == 1);
	byte ^= 1;
	assert_int_equal(pwrite(fd, &byte, 1, st.st_size / 2), 1);
	close(fd);
}

enum damage { NO_CURRENT, BAD_CURRENT, NO_MANIFEST, TORN_MANIFEST, CUT_MANIFEST, WRONG_LENGTH_MANIFEST, FLIPPED_MANIFEST, CUT_SHORT,
	      CUT_SHORTER, DAMAGES };

static void damage_list(const struct kit *k, enum damage how, long entry)
{
	AUTOFREE char *head = xasprintf("%s/head", k->dir), *whole = xasprintf("%s/head.whole", k->dir),
		      *fresh = xasprintf("%s/head.new", k->dir), *current = xasprintf("%s/CURRENT", head);
	AUTOFREE char *list = list_of(head);
	if (how == NO_CURRENT)
		assert_int_equal(unlink(current), 0);
	else if (how == BAD_CURRENT)
		garbage(current);
	else if (how == NO_MANIFEST)
		assert_int_equal(unlink(list), 0);
	else if (how >= TORN_MANIFEST && how <= WRONG_LENGTH_MANIFEST)
		damage_end(list, (enum end)(how - TORN_MANIFEST), entry);
	else if (how == FLIPPED_MANIFEST)
		flip_middle(list);
	else
		assert_int_equal(rename(head, whole), 0);
	if (how == CUT_SHORT)
		assert_int_equal(mkdir(head, 0750), 0);
	if (how >= CUT_SHORT)
		assert_int_equal(mkdir(fresh, 0750), 0);
}

static void delete_pod(struct kit *k, const char *pod, int64_t after, int64_t until)
{
	struct err e;
	struct matcher m;
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW("pod"), view_of(pod), &e), 0);
	assert_int_equal(tsdb_delete(k->db, &m, 1, after, until, NULL, &e), 0);
	matcher_release(&m);
}

/* The log's list of files is damaged or gone, as after a power loss, or what made it anew was cut short: nothing is lost, and
 * nothing that was deleted or trimmed comes back. */
static void repair_log(enum damage how)
{
	struct kit k;
	struct tsdb_stats s;
	kit_init(&k);
	k.o.no_sealing = true;
	kit_open(&k);
	seal_hours(&k, 4);
	append_n(&k, 30, 6, 10 * 60000);
	delete_pod(&k, "pod-1", KIT_T0 + HOUR, KIT_T0 + 2 * HOUR);     /* in a part: hidden by a fact in the log */
	delete_pod(&k, "pod-1", KIT_T0 + 5 * HOUR, KIT_T0 + 5 * HOUR + HOUR / 2); /* in the head */
	append_n(&k, 37, 6, 10 * 60000);
	size_t n = kit_count(&k, KIT_SAMPLES, 0, INT64_MAX, NULL);
	uint64_t sum = kit_merge(&k, KIT_SAMPLES, 0, INT64_MAX, NULL);
	assert_int_equal(n, 24 + 6 - 6 - 3 + 6);
	wait_for_one_log(&k);
	kit_close(&k);
	long entry = flush_halfway(&k);
	if (how == WRONG_LENGTH_MANIFEST)
		assert_int_equal(unlink(saved_name), 0); /* the flush was over, and its entry is damaged later */
	damage_list(&k, how, entry);
	for (int i = 0; i < 2; i++) {
		kit_open(&k);
		tsdb_stats(k.db, &s);
		assert_int_equal(s.lost_records, 0);
		assert_int_equal(s.tombstones, 2); /* both sample types */
		assert_int_equal(kit_count(&k, KIT_SAMPLES, 0, INT64_MAX, NULL), n);
		assert_true(kit_merge(&k, KIT_SAMPLES, 0, INT64_MAX, NULL) == sum);
		kit_close(&k);
	}
	kit_open(&k);
	append_n(&k, 50, 1, 10 * 60000);
	kit_reopen(&k);
	assert_int_equal(kit_count(&k, KIT_SAMPLES, 0, INT64_MAX, NULL), n + 1);
	kit_free(&k);
}

static void test_repair_log(void **state)
{
	(void)state;
	for (enum damage how = 0; how < DAMAGES; how++)
		repair_log(how);
}

/* A file of the log that cannot be read is said, and the others' records are there. */
static void test_repair_log_bad_file(void **state)
{
	struct kit k;
	(void)state;
	kit_init(&k);
	k.o.no_sealing = true;
	kit_open(&k);
	append_n(&k, 0, 6, 60000);
	wait_for_one_log(&k);
	kit_close(&k);
	flush_halfway(&k);
	assert_int_equal(unlink(saved_name), 0);
	kit_open(&k);
	append_n(&k, 6, 5, 60000);
	kit_close(&k);
	AUTOFREE char *head = xasprintf("%s/head", k.dir);
	file_number = 1;
	assert_true(each_file(head, ".sst", flip_second) >= 1);
	damage_list(&k, NO_MANIFEST, 0);
	kit_open(&k);
	assert_true(lost(&k) >= 6);
	size_t there = kit_count(&k, KIT_SAMPLES, 0, INT64_MAX, NULL);
	append_n(&k, 20, 2, 60000);
	kit_reopen(&k);
	assert_int_equal(kit_count(&k, KIT_SAMPLES, 0, INT64_MAX, NULL), there + 2);
	kit_free(&k);
}

static void note_code(void *arg, const struct err *e)
{
	*(int *)arg = (int)e->code;
}

/* 0 once it is durable. */
static int one_append(struct kit *k, int64_t t_ms)
{
	int code = -1;
	k->now_ms = MAX(k->now_ms, t_ms);
	assert_int_equal(kit_append_done(k, 3, t_ms, 5, 30, NULL, note_code, &code), 0);
	tsdb_flush(k->db);
	return code;
}

/* The log is damaged and the disk is full: what can be read answers, nothing is trimmed, and once there is room all goes on. */
static void test_damaged_and_full(void **state)
{
	struct kit k;
	struct rlimit before, small = { 300, RLIM_INFINITY };
	struct err e;
	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	small.rlim_max = before.rlim_max;
	kit_init(&k);
	k.o.no_sealing = true;
	kit_open(&k);
	append_n(&k, 0, 90, 10000);
	kit_reopen(&k);
	append_n(&k, 90, 10, 10000);
	kit_close(&k);
	AUTOFREE char *head = xasprintf("%s/head", k.dir);
	assert_int_equal(each_file(head, ".sst", flip_middle), 1);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	kit_open(&k);
	size_t there = kit_count(&k, KIT_SAMPLES, 0, INT64_MAX, NULL);
	uint64_t gone = lost(&k);
	assert_true(there > 30 && there < 100 && gone >= 100 - there);
	assert_int_not_equal(one_append(&k, KIT_T0 + 2000000), 0);
	assert_int_not_equal(tsdb_seal(k.db, true, &e), 0);
	assert_int_equal(kit_count(&k, KIT_SAMPLES, 0, INT64_MAX, NULL), there);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	clock_sleep_ms(1100);
	assert_int_equal(one_append(&k, KIT_T0 + 2000000), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(kit_count(&k, KIT_SAMPLES, 0, INT64_MAX, NULL), there + 1);
		assert_int_equal(lost(&k), gone);
		kit_reopen(&k);
	}
	assert_int_equal(tsdb_seal(k.db, true, &e), 0);
	assert_int_equal(kit_count(&k, KIT_SAMPLES, 0, INT64_MAX, NULL), there + 1);
	kit_free(&k);
}

/* The list of a partition's files is damaged, and one of the files has no footer that RocksDB takes: it is read without. */
static void flip_footer(const char *path)
{
	struct stat st;
	char byte;
	if (file_number++ != 1)
		return;
	int fd = open(path, O_RDWR);
	assert_true(fd >= 0 && fstat(fd, &st) == 0 && pread(fd, &byte, 1, st.st_size - 4) == 1);
	byte ^= 0x10;
	assert_int_equal(pwrite(fd, &byte, 1, st.st_size - 4), 1);
	close(fd);
}

static void test_repair_with_a_bad_file(void **state)
{
	struct kit k;
	(void)state;
	kit_init(&k);
	k.o.no_sealing = true;
	kit_open(&k);
	seal_hours(&k, 4);
	uint64_t sum = kit_merge(&k, KIT_SAMPLES, 0, INT64_MAX, NULL);
	kit_close(&k);
	AUTOFREE char *current = partition_file(&k, "CURRENT"), *dir = partition_file(&k, "");
	file_number = 0;
	assert_int_equal(each_file(dir, ".sst", flip_footer), 4);
	garbage(current);
	for (int i = 0; i < 2; i++) {
		kit_open(&k);
		assert_int_equal(lost(&k), 0);
		assert_int_equal(kit_count(&k, KIT_SAMPLES, 0, INT64_MAX, NULL), 24);
		assert_true(kit_merge(&k, KIT_SAMPLES, 0, INT64_MAX, NULL) == sum);
		kit_close(&k);
	}
	kit_free(&k);
}

static void put_fact(rocksdb_t *db, uint64_t number, bool is_void)
{
	struct buf b = { 0 };
	struct tombstone_fact f = { .below_part = 1000, .after_ms = 0, .until_ms = INT64_MAX / 4 };
	char key[8], *error = NULL;
	for (uint32_t i = 0; i < 2; i++)
		vec_push(&f.series, i);
	record_begin(&b, RECORD_FACT, is_void ? 0 : (uint32_t)(KIT_T0 / 86400000));
	if (is_void)
		buf_putc(&b, FACT_VOID);
	else
		tombstone_fact_put(&b, &f);
	record_end(&b, number);
	for (int i = 0; i < 8; i++)
		key[i] = (char)(number >> (56 - 8 * i));
	rocksdb_writeoptions_t *w = rocksdb_writeoptions_create();
	rocksdb_put(db, w, key, 8, b.ptr, b.len, &error);
	assert_null(error);
	rocksdb_writeoptions_destroy(w);
	buf_free(&b);
	vec_free(&f.series);
}

/* A delete that was refused lies in one file of the log, and in another one that it is void: in whichever order they come. */
static void refused_delete(bool void_first, bool damaged)
{
	struct kit k;
	struct tsdb_stats s;
	char *error = NULL;
	kit_init(&k);
	k.o.no_sealing = true;
	kit_open(&k);
	append_n(&k, 0, 6, 60000);
	tsdb_stats(k.db, &s);
	kit_close(&k);
	AUTOFREE char *head = xasprintf("%s/head", k.dir);
	rocksdb_options_t *o = rocks_options(NULL);
	rocksdb_flushoptions_t *wait = rocksdb_flushoptions_create();
	rocksdb_t *db = rocksdb_open(o, head, &error);
	assert_null(error);
	put_fact(db, s.last_record + 1, void_first);
	rocksdb_flush(db, wait, &error);
	assert_null(error);
	put_fact(db, s.last_record + 1, !void_first);
	rocksdb_close(db);
	rocksdb_flushoptions_destroy(wait);
	rocksdb_options_destroy(o);
	if (damaged)
		damage_list(&k, NO_MANIFEST, 0);
	for (int i = 0; i < 2; i++) {
		kit_open(&k);
		assert_int_equal(lost(&k), 0);
		assert_int_equal(kit_count(&k, KIT_SAMPLES, 0, INT64_MAX, NULL), 6);
		append_n(&k, 10 + (unsigned)i, 1, 60000);
		assert_int_equal(kit_count(&k, KIT_SAMPLES, 0, INT64_MAX, NULL), 7);
		assert_int_equal(tsdb_delete(k.db, NULL, 0, k.now_ms - 1, k.now_ms, NULL, NULL), 0);
		kit_close(&k);
	}
	kit_free(&k);
}

static void test_refused(void **state)
{
	(void)state;
	refused_delete(false, false);
	refused_delete(false, true);
	refused_delete(true, true);
}

/* Log and marks are gone: what is appended then has numbers of its own, and is not taken for what the parts have. */
static void test_no_log(void **state)
{
	struct kit k;
	(void)state;
	kit_init(&k);
	k.o.no_sealing = true;
	kit_open(&k);
	seal_hours(&k, 1);
	kit_close(&k);
	AUTOFREE char *head = xasprintf("%s/head", k.dir), *away = xasprintf("%s.away", head), *marks = xasprintf("%s.marks", head);
	assert_int_equal(rename(head, away), 0);
	assert_int_equal(unlink(marks), 0);
	kit_open(&k);
	assert_int_equal(kit_append(&k, 7, KIT_T0 + 60000, 99, 3, NULL), 0);
	tsdb_flush(k.db);
	assert_int_equal(kit_count(&k, KIT_SAMPLES, 0, INT64_MAX, NULL), 7);
	kit_reopen(&k);
	assert_int_equal(lost(&k), 0);
	assert_int_equal(kit_count(&k, KIT_SAMPLES, 0, INT64_MAX, NULL), 7);
	kit_free(&k);
}

/* A partition that cannot be opened at all is set aside, the others serve. */
static void test_set_aside(void **state)
{
	struct kit k;
	(void)state;
	kit_init(&k);
	k.o.no_sealing = true;
	kit_open(&k);
	seal_hours(&k, 30);
	kit_close(&k);
	AUTOFREE char *dir = partition_file(&k, ""), *away = xasprintf("%s.away", dir);
	assert_int_equal(rename(dir, away), 0);
	garbage(dir);
	kit_open(&k);
	assert_int_equal(lost(&k), 1);
	assert_int_equal(kit_count(&k, KIT_SAMPLES, 0, INT64_MAX, NULL), 36);
	assert_true(kit_merge(&k, KIT_SAMPLES, 0, INT64_MAX, NULL) == sum_of(144, 36));
	kit_free(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_damaged_records), cmocka_unit_test(test_lost_symbols), cmocka_unit_test(test_lost_series), cmocka_unit_test(test_cut_log),
		cmocka_unit_test(test_full_disk),
		cmocka_unit_test(test_missing_file), cmocka_unit_test(test_bad_file), cmocka_unit_test(test_set_aside),
		cmocka_unit_test(test_repair), cmocka_unit_test(test_repair_log),
		cmocka_unit_test(test_repair_log_bad_file), cmocka_unit_test(test_no_log),
		cmocka_unit_test(test_refused), cmocka_unit_test(test_damaged_and_full), cmocka_unit_test(test_repair_with_a_bad_file),
	};
	return cmocka_run_group_tests_name("tsdb faults", tests, NULL, NULL);
}
