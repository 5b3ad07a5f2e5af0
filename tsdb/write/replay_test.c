/* SPDX-License-Identifier: Apache-2.0 */
/* Starts that fail half-way: because of the tap (remote write, which is given every float), of partitions that cannot be listed, of files or a log that cannot be read for a moment. What
 * was merely not read is not lost: head.marks stays as it was, no hole is noted, and the next start has all data. The errors of reading
 * come from wrappers around RocksDB's functions and buf_read_file (local.mk). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/files.h"
#include "base/log.h"
#include "base/view.h"
#include "tsdb/disk/rocks.h"
#include "tsdb/testkit.h"
#include "tsdb/version/db.h"

#define HOUR INT64_C(3600000)
#define IN_LOG 40 /* profiles that are not sealed */

/* ---- iterators that fail ---- */

static long steps_left = -1; /* an iterator fails when it has gone so many steps; -1: none does */
static bool failing;

void __real_rocksdb_iter_next(rocksdb_iterator_t *it);
unsigned char __real_rocksdb_iter_valid(const rocksdb_iterator_t *it);
void __real_rocksdb_iter_get_error(const rocksdb_iterator_t *it, char **error);
void __wrap_rocksdb_iter_next(rocksdb_iterator_t *it);
unsigned char __wrap_rocksdb_iter_valid(const rocksdb_iterator_t *it);
void __wrap_rocksdb_iter_get_error(const rocksdb_iterator_t *it, char **error);

void __wrap_rocksdb_iter_next(rocksdb_iterator_t *it)
{
	failing = steps_left == 0;
	if (steps_left > 0)
		steps_left--;
	if (!failing)
		__real_rocksdb_iter_next(it);
}

unsigned char __wrap_rocksdb_iter_valid(const rocksdb_iterator_t *it)
{
	return failing ? 0 : __real_rocksdb_iter_valid(it);
}

void __wrap_rocksdb_iter_get_error(const rocksdb_iterator_t *it, char **error)
{
	if (failing)
		*error = strdup("IO error: While pread: Cannot allocate memory");
	else
		__real_rocksdb_iter_get_error(it, error);
	failing = false;
}

/* ---- files that cannot be opened ---- */

static const char *closed_path = "/nowhere/"; /* nothing whose path contains this can be opened */

rocksdb_t *__real_rocksdb_open(const rocksdb_options_t *o, const char *path, char **error);
rocksdb_t *__real_rocksdb_open_for_read_only(const rocksdb_options_t *o, const char *path, unsigned char if_log, char **error);
int __real_buf_read_file(struct buf *b, const char *path, struct err *e);
rocksdb_t *__wrap_rocksdb_open(const rocksdb_options_t *o, const char *path, char **error);
rocksdb_t *__wrap_rocksdb_open_for_read_only(const rocksdb_options_t *o, const char *path, unsigned char if_log, char **error);
int __wrap_buf_read_file(struct buf *b, const char *path, struct err *e);

static bool is_closed(const char *path, char **error)
{
	if (strstr(path, closed_path))
		*error = strdup("IO error: While opening a file: Too many open files");
	return strstr(path, closed_path) != NULL;
}

rocksdb_t *__wrap_rocksdb_open(const rocksdb_options_t *o, const char *path, char **error)
{
	return is_closed(path, error) ? NULL : __real_rocksdb_open(o, path, error);
}

rocksdb_t *__wrap_rocksdb_open_for_read_only(const rocksdb_options_t *o, const char *path, unsigned char if_log, char **error)
{
	return is_closed(path, error) ? NULL : __real_rocksdb_open_for_read_only(o, path, if_log, error);
}

int __wrap_buf_read_file(struct buf *b, const char *path, struct err *e)
{
	return strstr(path, closed_path) ? err_set(e, ERR_IO, "cannot read %s: Too many open files", path) : __real_buf_read_file(b, path, e);
}

/* ---- the storage ---- */

struct replay_kit {
	struct tap tap;     /* first: its functions are called with it */
	struct kit k;
	bool tap_fails;
	struct buf marks;   /* as the last good stop left them */
	size_t profiles;
	uint64_t sum;
	uint64_t first_record, last_record;
};

static int tap_open(struct tap *t, uint64_t *ret_has, uint64_t *ret_last, struct err *e)
{
	const struct replay_kit *r = (const struct replay_kit *)(const void *)t;
	*ret_has = UINT64_MAX;
	*ret_last = 0;
	return r->tap_fails ? err_set(e, ERR_IO, "the tap has no room") : 0;
}

static void tap_ready(struct tap *t, uint64_t number)
{
	(void)t, (void)number;
}

static void tap_take(struct tap *t, uint64_t number, const struct sink_float *f, size_t n)
{
	(void)t, (void)number, (void)f, (void)n;
}

static uint64_t tap_durable(struct tap *t)
{
	(void)t;
	return UINT64_MAX - 1;
}

static void add(struct kit *k, int64_t t_ms)
{
	k->now_ms = MAX(k->now_ms, t_ms);
	assert_int_equal(kit_append(k, 1, t_ms, (uint64_t)t_ms, 40, NULL), 0);
	tsdb_flush(k->db);
}

static void delete_until(struct kit *k, int64_t until)
{
	struct matcher m;
	struct err e;
	uint64_t n;
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW("pod"), VIEW("pod-1"), &e), 0);
	assert_int_equal(tsdb_delete(k->db, &m, 1, KIT_T0, until, &n, &e), 0);
	assert_true(n > 0);
	matcher_release(&m);
}

static void read_marks(const struct replay_kit *r, struct buf *ret)
{
	AUTOFREE char *path = xasprintf("%s/head.marks", r->k.dir);
	struct err e;
	buf_reset(ret);
	assert_int_equal(buf_read_file(ret, path, &e), 0);
}

static void look(struct replay_kit *r, size_t *ret_n, uint64_t *ret_sum)
{
	*ret_n = kit_count(&r->k, KIT_SAMPLES, 0, INT64_MAX, NULL);
	*ret_sum = kit_merge(&r->k, KIT_SAMPLES, 0, INT64_MAX, NULL);
}

/* Makes a storage of an early hour that is only in the log, a later hour that is sealed into a part, and further records in the log. So the part
 * covers higher record numbers than some that only the log has. A series of the part is deleted: the log keeps a record of that (a fact). */
static void make(struct replay_kit *r)
{
	struct tsdb_stats s;
	struct err e;
	*r = (struct replay_kit){ .tap = { .open = tap_open, .ready = tap_ready, .take = tap_take, .durable = tap_durable } };
	kit_init(&r->k);
	r->k.o.no_sealing = true;
	r->k.o.tap = &r->tap;
	kit_open(&r->k);
	for (int i = 0; i < 6; i++)
		add(&r->k, KIT_T0 + (i + 1) * 60000);
	r->k.now_ms += 2 * HOUR;
	assert_int_equal(tsdb_seal(r->k.db, true, &e), 0);
	delete_until(&r->k, KIT_T0 + 2 * 60000);
	for (int i = 0; i < IN_LOG; i++)
		add(&r->k, KIT_T0 + 3 * HOUR + (i + 1) * 30000);
	look(r, &r->profiles, &r->sum);
	assert_int_equal(r->profiles, IN_LOG + 4);
	tsdb_stats(r->k.db, &s);
	r->first_record = s.first_record;
	r->last_record = s.last_record;
	kit_close(&r->k);
	read_marks(r, &r->marks);
	assert_non_null(memmem(r->marks.ptr, r->marks.len, "facts day", 9));
}

static void expect_failure(struct replay_kit *r, const char *with)
{
	CLEANUP(buf_free) struct buf marks = { 0 };
	AUTOFREE char *holes = xasprintf("%s/head.holes", r->k.dir);
	struct tsdb *db;
	struct err e = { 0 };
	assert_int_not_equal(tsdb_open(&db, &r->k.o, &e), 0);
	closed_path = "/nowhere/";
	assert_non_null(strstr(e.msg, with));
	read_marks(r, &marks);
	assert_true(view_eq(buf_view(&marks), buf_view(&r->marks)));
	assert_int_not_equal(access(holes, F_OK), 0);
}

/* All is there, and nothing is said to be lost; also after a restart. */
static void expect_whole(struct replay_kit *r)
{
	struct tsdb_stats s;
	size_t n, n_holes;
	uint64_t sum;
	for (int i = 0; i < 2; i++) {
		kit_open(&r->k);
		look(r, &n, &sum);
		assert_int_equal(n, r->profiles);
		assert_true(sum == r->sum);
		tsdb_stats(r->k.db, &s);
		assert_int_equal(s.lost_records, 0);
		assert_int_equal(s.first_record, r->first_record);
		assert_int_equal(s.last_record, r->last_record);
		free(holes_list(&r->k.db->holes, &n_holes));
		assert_int_equal(n_holes, 0);
		kit_close(&r->k);
	}
}

static void end(struct replay_kit *r)
{
	buf_free(&r->marks);
	kit_free(&r->k);
}

static void test_tap_fails(void **state)
{
	struct replay_kit r;
	(void)state;
	make(&r);
	r.tap_fails = true;
	expect_failure(&r, "the tap has no room");
	r.tap_fails = false;
	expect_whole(&r);
	end(&r);
}

/* The log is not rebuilt: no file of it is damaged. */
static void test_log_unreadable(void **state)
{
	static const long after[] = { 0, 1, IN_LOG / 2, IN_LOG };
	struct replay_kit r;
	struct stat before, now;
	(void)state;
	make(&r);
	AUTOFREE char *head = xasprintf("%s/head", r.k.dir);
	assert_int_equal(stat(head, &before), 0);
	for (size_t i = 0; i < ARRAY_LEN(after); i++) {
		steps_left = after[i];
		expect_failure(&r, "Cannot allocate memory");
		steps_left = -1;
		assert_int_equal(stat(head, &now), 0);
		assert_int_equal(now.st_ino, before.st_ino);
	}
	expect_whole(&r);
	end(&r);
}

static void test_partitions_unlistable(void **state)
{
	struct replay_kit r;
	struct err e;
	(void)state;
	make(&r);
	AUTOFREE char *dir = xasprintf("%s/partitions", r.k.dir), *away = xasprintf("%s/away", r.k.dir);
	assert_int_equal(rename(dir, away), 0);
	assert_int_equal(files_put(r.k.dir, "partitions", VIEW("no directory"), &e), 0);
	expect_failure(&r, "partitions");
	assert_int_equal(unlink(dir), 0);
	assert_int_equal(rename(away, dir), 0);
	expect_whole(&r);
	end(&r);
}

/* Too many open files are no damage: nothing is set aside, and no time range is noted as lost. */
static void test_files_closed(void **state)
{
	static const char *const paths[] = { "/partitions/", "/head.marks", "/head.holes" };
	struct replay_kit r;
	(void)state;
	make(&r);
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		closed_path = paths[i];
		expect_failure(&r, "Too many open files");
		expect_whole(&r);
		read_marks(&r, &r.marks);
	}
	end(&r);
}

/* A damaged partition is set aside by a start that then fails: the next start knows of it all the same. */
static void test_set_aside_and_fail(void **state)
{
	struct replay_kit r;
	struct tsdb *db;
	struct err e = { 0 };
	(void)state;
	make(&r);
	AUTOFREE char *all = xasprintf("%s/partitions", r.k.dir), *day = xasprintf("%lld", (long long)(KIT_T0 / (24 * HOUR))),
		      *dir = xasprintf("%s/%s", all, day);
	files_remove_tree(dir);
	assert_int_equal(files_put(all, day, VIEW("no directory"), &e), 0);
	r.tap_fails = true;
	assert_int_not_equal(tsdb_open(&db, &r.k.o, &e), 0);
	assert_int_not_equal(access(dir, F_OK), 0);
	r.tap_fails = false;
	kit_open(&r.k);
	assert_true(holes_has_time(&r.k.db->holes, KIT_T0, KIT_T0 + 24 * HOUR));
	end(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tap_fails),
		cmocka_unit_test(test_log_unreadable),
		cmocka_unit_test(test_partitions_unlistable),
		cmocka_unit_test(test_files_closed),
		cmocka_unit_test(test_set_aside_and_fail),
	};
	log_setup(getenv("REPLAY_TRACE") ? LOG_LEVEL_WARN : LOG_LEVEL_ERROR + 1, LOG_FORMAT_LOGFMT);
	return cmocka_run_group_tests_name("replay", tests, NULL, NULL);
}
