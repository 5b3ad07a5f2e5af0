/* SPDX-License-Identifier: Apache-2.0 */
/* What can go wrong between a storage and its bucket, one thing after the other: requests that fail at the worst moment, old copies of a
 * directory, lost and damaged files. Nothing that is in a generation is lost, and nothing comes twice. lives_test.c has them at random. */
#include <setjmp.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/files.h"
#include "tsdb/bucket/object_io.h"
#include "tsdb/bucketkit.h"
#include "tsdb/disk/text.h"
#include "tsdb/testkit.h"

#define MINUTE INT64_C(60000)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)
#define STACKS 20
#define DAY0 ((unsigned)(KIT_T0 / DAY))

/* One fault: at the nth request of a kind whose key has this in it. */
struct fault {
	enum bucketkit_op op;
	const char *key;
	int at, count;
	enum bucketkit_fault fault;
};

struct world {
	struct bucketkit b;
	struct kit k;
	struct fault f;
	uint64_t seed;
};

static int64_t store_now(void *arg)
{
	return ((struct world *)arg)->k.now_ms;
}

static enum bucketkit_fault world_fault(void *arg, enum bucketkit_op op, const char *key)
{
	struct fault *f = &((struct world *)arg)->f;
	if (!f->key || f->op != op || !strstr(key, f->key) || --f->at > 0)
		return BUCKETKIT_NONE;
	if (--f->count <= 0)
		f->key = NULL;
	return f->fault;
}

static void world_kit(struct world *w)
{
	kit_init(&w->k);
	w->k.o.objects = &w->b.objects;
	w->k.o.server_id = "one";
	w->k.o.no_transfer = w->k.o.no_sealing = true;
	w->k.o.retention_ms = -1;
}

static void world_start(struct world *w)
{
	*w = (struct world){ .seed = 1 };
	bucketkit_init(&w->b);
	w->b.fault = world_fault;
	w->b.fault_arg = w;
	w->b.now_ms = store_now;
	w->b.now_arg = w;
	world_kit(w);
	kit_open(&w->k);
}

static void world_end(struct world *w)
{
	kit_free(&w->k);
	bucketkit_free(&w->b);
}

/* An empty disk takes the place of this one, and is not opened. */
static void world_lose_disk(struct world *w)
{
	int64_t now = w->k.now_ms;
	kit_free(&w->k);
	world_kit(w);
	w->k.now_ms = now;
}

static void world_fill(struct world *w, int64_t from, int64_t until)
{
	struct sink_result r;
	for (int64_t t = from + 10 * MINUTE; t <= until; t += 10 * MINUTE) {
		w->k.now_ms = MAX(w->k.now_ms, t);
		for (unsigned pod = 0; pod < 3; pod++)
			assert_int_equal(kit_append(&w->k, pod, t - pod, w->seed++, STACKS, &r), 0);
	}
	tsdb_flush(w->k.db);
}

static void world_seal(struct world *w)
{
	struct err e;
	assert_int_equal(tsdb_seal(w->k.db, true, &e), 0);
}

static int world_try(struct world *w)
{
	struct err e;
	return tsdb_upload(w->k.db, &e);
}

static void world_upload(struct world *w)
{
	struct err e;
	if (tsdb_upload(w->k.db, &e))
		fail_msg("%s", e.msg);
}

static struct admin_bucket world_status(struct world *w)
{
	struct admin_bucket s;
	struct storage_admin *a = tsdb_admin(w->k.db);
	a->bucket(a, &s);
	return s;
}

static void world_fetch(struct world *w)
{
	for (int i = 0; i < 20 && world_status(w).absent_days; i++)
		world_upload(w);
	assert_int_equal(world_status(w).absent_days, 0);
}

static size_t world_rows(struct world *w)
{
	return kit_count(&w->k, KIT_CPU, 0, INT64_MAX / 2, NULL);
}

static void world_delete_all(struct world *w)
{
	struct matcher m;
	struct err e;
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW("job"), VIEW("kit"), &e), 0);
	assert_int_equal(tsdb_delete(w->k.db, &m, 1, KIT_T0 - DAY, KIT_T0 + 90 * DAY, NULL, &e), 0);
	matcher_release(&m);
	assert_int_equal(tsdb_clean(w->k.db, &e), 0);
}

__attribute__((format(printf, 1, 2))) static void run_shell(const char *f, ...)
{
	char command[2048];
	va_list args;
	int status = 0;
	va_start(args, f);
	vsnprintf(command, sizeof command, f, args);
	va_end(args);
	pid_t pid = fork();
	if (!pid) {
		execlp("sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
}

/* Three hours, sealed and uploaded. */
static void world_begin(struct world *w)
{
	world_start(w);
	world_fill(w, KIT_T0, KIT_T0 + 3 * HOUR);
	world_seal(w);
	world_upload(w);
	assert_int_equal(bucketkit_count(&w->b, "one/d/"), 3);
}

/* All that was uploaded is on an empty disk as well. */
static void world_check_return(struct world *w, size_t rows)
{
	world_lose_disk(w);
	kit_open(&w->k);
	world_fetch(w);
	assert_string_equal(world_status(w).id, "one");
	assert_int_equal(world_rows(w), rows);
}

/* ---- who writes ---- */

/* A copy of the directory, as of a disk that was restored from a backup: since then the original has put a generation in the same epoch. */
static void test_old_copy(void **state)
{
	(void)state;
	struct world w;
	char copy[300];
	world_begin(&w);
	kit_close(&w.k);
	kit_open(&w.k);
	world_upload(&w); /* epoch 2 */
	kit_close(&w.k);
	snprintf(copy, sizeof copy, "%s.copy", w.k.dir);
	run_shell("cp -a %s %s", w.k.dir, copy);
	kit_open(&w.k);
	world_fill(&w, KIT_T0 + 3 * HOUR, KIT_T0 + 5 * HOUR);
	world_seal(&w);
	world_upload(&w);
	size_t rows = world_rows(&w);
	kit_close(&w.k);
	run_shell("rm -rf %s && mv %s %s", w.k.dir, copy, w.k.dir);
	kit_open(&w.k);
	world_upload(&w);
	assert_int_equal(strncmp(world_status(&w).id, "one-", 4), 0);
	assert_int_equal(world_rows(&w), 3 * 18);
	world_check_return(&w, rows);
	world_end(&w);
}

/* The same where the original did not start anew in between: its epoch is that of the copy. */
static void test_old_copy_of_epoch(void **state)
{
	(void)state;
	struct world w;
	char copy[300];
	world_begin(&w);
	snprintf(copy, sizeof copy, "%s.copy", w.k.dir);
	run_shell("cp -a %s %s; true", w.k.dir, copy); /* it runs: files go meanwhile */
	world_fill(&w, KIT_T0 + 3 * HOUR, KIT_T0 + 5 * HOUR);
	world_seal(&w);
	world_upload(&w);
	size_t rows = world_rows(&w);
	kit_close(&w.k);
	run_shell("rm -rf %s && mv %s %s", w.k.dir, copy, w.k.dir);
	kit_open(&w.k);
	world_upload(&w);
	assert_int_equal(strncmp(world_status(&w).id, "one-", 4), 0);
	world_check_return(&w, rows);
	world_end(&w);
}

/* The same where the bucket's list does not show that generation yet: the fence meets it. */
static void test_old_copy_and_stale_list(void **state)
{
	(void)state;
	struct world w;
	struct err e;
	char copy[300];
	world_begin(&w);
	snprintf(copy, sizeof copy, "%s.copy", w.k.dir);
	run_shell("cp -a %s %s; true", w.k.dir, copy); /* it runs: files go meanwhile */
	world_fill(&w, KIT_T0 + 3 * HOUR, KIT_T0 + 5 * HOUR);
	world_seal(&w);
	world_upload(&w);
	size_t rows = world_rows(&w);
	kit_close(&w.k);
	run_shell("rm -rf %s && mv %s %s", w.k.dir, copy, w.k.dir);
	w.f = (struct fault){ BUCKETKIT_LIST, "one/g/", 1, 1, BUCKETKIT_STALE };
	kit_open(&w.k);
	assert_int_equal(tsdb_upload(w.k.db, &e), -ERR_UNAVAILABLE);
	assert_non_null(strstr(e.msg, "that it has not listed"));
	world_upload(&w);
	assert_int_equal(strncmp(world_status(&w).id, "one-", 4), 0);
	world_check_return(&w, rows);
	world_end(&w);
}

/* An epoch whose put had no answer arrives while the next start is at work: it is this directory's own. */
static void deliver_at_epoch(void *arg, enum bucketkit_op op, const char *key)
{
	struct world *w = arg;
	if (op == BUCKETKIT_PUT && strstr(key, "/e/"))
		bucketkit_deliver(&w->b);
}

static void test_late_epoch(void **state)
{
	(void)state;
	struct world w;
	struct err e;
	world_begin(&w);
	kit_reopen(&w.k);
	w.f = (struct fault){ BUCKETKIT_PUT, "one/e/", 1, 1, BUCKETKIT_LATE };
	w.b.n_late = 1; /* not at once */
	assert_int_equal(tsdb_upload(w.k.db, &e), -ERR_TIMEOUT);
	w.b.before = deliver_at_epoch;
	w.b.before_arg = &w;
	world_upload(&w);
	assert_string_equal(world_status(&w).id, "one");
	world_end(&w);
}

/* Starts that put no generation leave one fence an epoch, not one for each start since. */
static void test_fences(void **state)
{
	(void)state;
	struct world w;
	world_begin(&w);
	for (int i = 0; i < 6; i++) {
		kit_reopen(&w.k);
		world_upload(&w);
	}
	assert_int_equal(bucketkit_count(&w.b, "one/e/"), 7);
	assert_int_equal(bucketkit_count(&w.b, "one/g/"), 1 + 6);
	world_end(&w);
}

/* The file that has the id is damaged: the storage starts, under another id. */
static void test_damaged_server(void **state)
{
	(void)state;
	struct world w;
	world_begin(&w);
	kit_close(&w.k);
	run_shell("printf X | dd of=%s/bucket/server bs=1 seek=20 conv=notrunc 2>/dev/null", w.k.dir);
	kit_open(&w.k);
	world_upload(&w);
	assert_int_equal(world_rows(&w), 3 * 18);
	assert_int_equal(strncmp(world_status(&w).id, "one-", 4), 0);
	assert_int_equal(world_status(&w).days, 1);
	world_end(&w);
}

/* An empty directory of a known server begins while the bucket is away: its rows are numbered from the start, and go up under another id. */
static void test_begins_alone(void **state)
{
	(void)state;
	struct world w;
	world_begin(&w);
	size_t rows = world_rows(&w);
	world_lose_disk(&w);
	w.f = (struct fault){ BUCKETKIT_PUT, "one/e/", 1, 1, BUCKETKIT_REFUSE }; /* after the id is noted */
	kit_open(&w.k);
	world_fill(&w, KIT_T0 + 3 * HOUR, KIT_T0 + 4 * HOUR);
	kit_reopen(&w.k);
	world_seal(&w);
	world_upload(&w);
	assert_int_equal(world_rows(&w), 18);
	assert_int_equal(strncmp(world_status(&w).id, "one-", 4), 0);
	world_check_return(&w, rows);
	world_end(&w);
}

/* What is on the disk when its epoch is put. */
static void copy_at_epoch(void *arg, enum bucketkit_op op, const char *key)
{
	struct world *w = arg;
	if (op == BUCKETKIT_PUT && strstr(key, "/e/"))
		run_shell("cp -a %s %s.copy", w->k.dir, w->k.dir);
}

/* An empty disk that dies between its epoch and its catalogue comes back at the next start: the generations before are those of the lost disk. */
static void test_returns_twice(void **state)
{
	(void)state;
	struct world w;
	struct err e;
	world_begin(&w);
	size_t rows = world_rows(&w);
	world_lose_disk(&w);
	w.b.before = copy_at_epoch;
	w.b.before_arg = &w;
	kit_open(&w.k);
	w.b.before = NULL;
	assert_int_equal(world_rows(&w), rows);
	kit_close(&w.k);
	run_shell("rm -r %s && mv %s.copy %s", w.k.dir, w.k.dir, w.k.dir);
	kit_open(&w.k);
	assert_string_equal(world_status(&w).id, "one");
	world_fetch(&w);
	assert_int_equal(world_rows(&w), rows);
	world_lose_disk(&w);
	w.f = (struct fault){ BUCKETKIT_LIST, "one/g/", 4, 1, BUCKETKIT_REFUSE }; /* of the catalogue */
	assert_int_not_equal(tsdb_open(&w.k.db, &w.k.o, &e), 0);
	kit_open(&w.k);
	world_fetch(&w);
	assert_string_equal(world_status(&w).id, "one");
	assert_int_equal(world_rows(&w), rows);
	world_end(&w);
}

/* Gets of objects of data that were under way when so many were. */
static atomic_int fetches, fetches_together;
static atomic_int hurried;
static char opening_last[128];

static void look_at_opening(void *arg, enum bucketkit_op op, const char *key)
{
	struct world *w = arg;
	bool hurries = atomic_load(&w->b.objects.patience_ms) > 0;
	assert_int_equal(hurries, !strstr(key, "/d/"));
	atomic_fetch_add(&hurried, hurries);
	if (op != BUCKETKIT_GET || hurries)
		return;
	atomic_fetch_add(&fetches, 1);
	for (int i = 0; i < 2000 && atomic_load(&fetches) < 3; i++)
		usleep(1000);
	atomic_fetch_add(&fetches_together, atomic_load(&fetches) == 3);
}

static void note_opening(void *arg, const char *what)
{
	static struct mutex lock = MUTEX_INIT(LOCK_LEAF, "note opening");
	(void)arg;
	mutex_lock(&lock);
	if (what[0] && (!strstr(opening_last, " 3 of ")))
		snprintf(opening_last, sizeof opening_last, "%s", what);
	mutex_unlock(&lock);
}

/* A start on an empty disk is not patient with the bucket, fetches the objects of the current day together, and says what it waits for. */
static void test_opening(void **state)
{
	(void)state;
	struct world w;
	world_begin(&w);
	size_t rows = world_rows(&w);
	world_lose_disk(&w);
	w.b.before = look_at_opening;
	w.b.before_arg = &w;
	w.k.o.objects_at_once = 8;
	w.k.o.opening = note_opening;
	kit_open(&w.k);
	w.b.before = NULL;
	assert_true(atomic_load(&hurried) > 0);
	assert_true(atomic_load(&w.b.objects.patience_ms) == 0);
	assert_int_equal(atomic_load(&fetches_together), 3);
	assert_string_equal(opening_last, "the current day comes from the bucket: 3 of 3 parts are here");
	assert_int_equal(world_rows(&w), rows);
	world_end(&w);
}

/* ---- the catalogue ---- */

/* The bucket's list does not show the last generation yet. A server on an empty disk does not begin with an older one. */
static void test_stale_catalogue(void **state)
{
	(void)state;
	struct world w;
	struct err e;
	world_begin(&w);
	size_t rows = world_rows(&w);
	world_lose_disk(&w);
	w.f = (struct fault){ BUCKETKIT_LIST, "one/g/", 2, 1, BUCKETKIT_STALE };
	assert_int_not_equal(tsdb_open(&w.k.db, &w.k.o, &e), 0);
	assert_non_null(strstr(e.msg, "list of generations lacks"));
	kit_open(&w.k);
	world_fetch(&w);
	assert_int_equal(world_rows(&w), rows);
	world_end(&w);
}

/* The epoch is taken, and then the bucket does not say what it has. */
static void test_catalogue_fails(void **state)
{
	(void)state;
	struct world w;
	struct err e;
	world_begin(&w);
	world_lose_disk(&w);
	w.f = (struct fault){ BUCKETKIT_GET, "one/g/000001-0000000001", 2, 1, BUCKETKIT_REFUSE }; /* the first one is for the fence */
	assert_int_not_equal(tsdb_open(&w.k.db, &w.k.o, &e), 0);
	assert_non_null(strstr(e.msg, "comes back to an empty directory"));
	kit_open(&w.k);
	assert_int_equal(world_rows(&w), 3 * 18);
	/* A directory that has data opens without asking the bucket: its catalogue is read by the first round. */
	kit_close(&w.k);
	run_shell("rm %s/bucket/days/*", w.k.dir);
	kit_open(&w.k);
	world_fill(&w, KIT_T0 + 3 * HOUR, KIT_T0 + 4 * HOUR);
	world_seal(&w);
	w.f = (struct fault){ BUCKETKIT_GET, "one/g/000001-0000000001", 1, 1, BUCKETKIT_REFUSE };
	assert_int_not_equal(world_try(&w), 0);
	world_upload(&w);
	assert_int_equal(world_status(&w).days, 1);
	assert_int_equal(bucketkit_count(&w.b, "one/d/"), 4); /* the parts of the earlier hours are recognised by their hashes, and not put again */
	world_check_return(&w, 4 * 18);
	world_end(&w);
}

/* A bit flips on the way: the generation is asked for again. */
static void test_flip(void **state)
{
	(void)state;
	struct world w;
	world_begin(&w);
	world_lose_disk(&w);
	w.f = (struct fault){ BUCKETKIT_GET, "one/g/000001-0000000001", 1, 2, BUCKETKIT_FLIP };
	kit_open(&w.k);
	assert_int_equal(world_rows(&w), 3 * 18);
	world_end(&w);
}

/* The file of a day in bucket/days is damaged while the storage runs. */
static void test_damaged_day(void **state)
{
	(void)state;
	struct world w;
	world_begin(&w);
	run_shell("truncate -s 200 %s/bucket/days/*", w.k.dir);
	world_fill(&w, KIT_T0 + 3 * HOUR, KIT_T0 + 4 * HOUR);
	world_seal(&w);
	world_upload(&w);
	assert_int_equal(bucketkit_count(&w.b, "one/d/"), 4);
	world_check_return(&w, 4 * 18);
	world_end(&w);
}

/* The answer to a put is lost: the generation is known once it was put again, and nothing else is. */
static void test_lost_answer(void **state)
{
	(void)state;
	struct world w;
	world_begin(&w);
	world_fill(&w, KIT_T0 + 3 * HOUR, KIT_T0 + 4 * HOUR);
	world_seal(&w);
	w.f = (struct fault){ BUCKETKIT_PUT, "one/g/", 1, 1, BUCKETKIT_LOSE_ANSWER };
	assert_int_not_equal(world_try(&w), 0);
	world_upload(&w);
	assert_int_equal(bucketkit_count(&w.b, "one/g/000001-0000000002"), 1);
	assert_int_equal(bucketkit_count(&w.b, "one/g/000001-0000000003"), 0);
	assert_int_equal(bucketkit_count(&w.b, "one/g/"), 1);
	world_check_return(&w, 4 * 18);
	world_end(&w);
}

/* ---- days ---- */

/* The directory of a day is lost or set aside: the bucket has it, and keeps it. */
static void test_lost_directory(void **state)
{
	(void)state;
	struct world w;
	world_begin(&w);
	world_fill(&w, KIT_T0 + DAY, KIT_T0 + DAY + HOUR);
	world_seal(&w);
	world_upload(&w);
	kit_close(&w.k);
	run_shell("rm -r %s/partitions/%u", w.k.dir, DAY0);
	w.b.away = true;
	kit_open(&w.k);
	assert_int_equal(world_rows(&w), 18);
	w.b.away = false;
	world_upload(&w);
	world_fetch(&w);
	assert_int_equal(world_rows(&w), 4 * 18);
	assert_int_equal(world_status(&w).days, 2);
	world_end(&w);
}

/* The same of a day whose last rows are in the head log alone: it is fetched before these are brought back. A day that was let go, or dropped, is
 * not. */
static void test_lost_before_replay(void **state)
{
	(void)state;
	struct world w;
	world_begin(&w);
	world_fill(&w, KIT_T0 + 3 * HOUR, KIT_T0 + 4 * HOUR);
	kit_close(&w.k);
	run_shell("for f in %s/partitions/%u/*; do printf X > $f; done", w.k.dir, DAY0);
	kit_open(&w.k);
	assert_int_equal(world_rows(&w), 4 * 18);
	world_seal(&w);
	world_upload(&w);
	assert_int_equal(bucketkit_count(&w.b, "one/d/"), 4);
	world_delete_all(&w);
	kit_reopen(&w.k);
	assert_int_equal(world_rows(&w), 0);
	world_upload(&w);
	assert_int_equal(world_status(&w).days, 0);
	world_end(&w);
}

/* The same of a day that is older than local retention, and has not left the disk yet. */
static void test_lost_before_leaving(void **state)
{
	(void)state;
	struct world w;
	world_begin(&w);
	world_fill(&w, KIT_T0 + 3 * HOUR, KIT_T0 + 4 * HOUR);
	kit_close(&w.k);
	run_shell("rm -r %s/partitions/%u", w.k.dir, DAY0);
	w.k.now_ms = KIT_T0 + 3 * DAY;
	w.k.o.local_retention_ms = DAY;
	kit_open(&w.k);
	assert_int_equal(world_rows(&w), 4 * 18);
	world_seal(&w);
	world_upload(&w);
	assert_int_equal(world_status(&w).waiting_parts, 0);
	world_end(&w);
}

/* The same if the bucket has newer deletes, of other days or of other series. */
static void test_lost_and_deleted(void **state)
{
	(void)state;
	struct world w;
	struct matcher m;
	struct err e;
	world_begin(&w);
	world_fill(&w, KIT_T0 + 3 * HOUR, KIT_T0 + 4 * HOUR);
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW("pod"), VIEW("pod-1"), &e), 0);
	assert_int_equal(tsdb_delete(w.k.db, &m, 1, KIT_T0 + 2 * DAY, KIT_T0 + 3 * DAY, NULL, &e), 0);
	matcher_release(&m);
	assert_int_equal(bucketkit_count(&w.b, "one/x/"), 1);
	kit_close(&w.k);
	run_shell("rm -r %s/partitions/%u", w.k.dir, DAY0);
	kit_open(&w.k);
	assert_int_equal(world_rows(&w), 4 * 18);
	world_end(&w);
}

/* The directory of a day is lost while the bucket is away, and the log has rows of that day: what is left here does not replace what the bucket has. */
static void test_lost_while_away(void **state)
{
	(void)state;
	struct world w;
	struct err e;
	world_begin(&w);
	world_fill(&w, KIT_T0 + 3 * HOUR, KIT_T0 + 4 * HOUR);
	kit_close(&w.k);
	run_shell("rm -r %s/partitions/%u", w.k.dir, DAY0);
	w.b.away = true;
	kit_open(&w.k);
	world_fill(&w, KIT_T0 + 4 * HOUR, KIT_T0 + 5 * HOUR);
	world_seal(&w);
	w.b.away = false;
	assert_int_equal(tsdb_upload(w.k.db, &e), -ERR_BAD_DATA);
	assert_non_null(strstr(e.msg, "has nothing of what the bucket has"));
	world_lose_disk(&w);
	kit_open(&w.k);
	world_fetch(&w);
	assert_int_equal(world_rows(&w), 3 * 18);
	world_end(&w);
}

/* All of a day was deleted: the bucket says so at once, and an older generation that cannot be removed does not bring it back. */
static void test_emptied(void **state)
{
	(void)state;
	struct world w;
	world_begin(&w);
	world_delete_all(&w);
	w.f = (struct fault){ BUCKETKIT_REMOVE, "one/g/000001-0000000001", 1, 1000, BUCKETKIT_REFUSE };
	assert_int_not_equal(world_try(&w), 0);
	assert_int_equal(world_status(&w).days, 0);
	w.k.now_ms += 20 * DAY; /* a clock that is wrong */
	assert_int_not_equal(world_try(&w), 0);
	kit_reopen(&w.k);
	assert_int_not_equal(world_try(&w), 0);
	assert_int_equal(bucketkit_count(&w.b, "one/g/000001-0000000001"), 1);
	assert_int_equal(bucketkit_count(&w.b, "one/g/000001-0000000002"), 1); /* it says `gone` */
	world_lose_disk(&w);
	kit_open(&w.k);
	assert_int_equal(world_status(&w).days, 0);
	w.f.key = NULL;
	for (int i = 0; i < 3; i++)
		world_upload(&w);
	assert_int_equal(bucketkit_count(&w.b, "one/d/"), 0);
	assert_int_equal(bucketkit_count(&w.b, "one/g/000001"), 1); /* a fence */
	world_end(&w);
}

/* A delete that waits for the bucket is done here once: rows that came since with such stamps stay. */
static void test_delete_waits(void **state)
{
	(void)state;
	struct world w;
	world_begin(&w);
	w.b.away = true;
	world_delete_all(&w);
	assert_int_equal(world_rows(&w), 0);
	assert_int_equal(world_status(&w).waiting_deletes, 1);
	world_fill(&w, KIT_T0 + HOUR, KIT_T0 + 2 * HOUR);
	kit_reopen(&w.k);
	assert_int_equal(world_rows(&w), 18);
	w.b.away = false;
	world_seal(&w);
	world_upload(&w);
	assert_int_equal(world_status(&w).waiting_deletes, 0);
	world_check_return(&w, 18);
	world_end(&w);
}

static atomic_bool store_hangs;

static enum bucketkit_fault hanging_fault(void *arg, enum bucketkit_op op, const char *key)
{
	(void)arg;
	for (int i = 0; i < 20000 && op == BUCKETKIT_PUT && strstr(key, "/x/") && atomic_load(&store_hangs); i++)
		usleep(1000);
	return BUCKETKIT_NONE;
}

/* A bucket that takes a delete and does not answer holds up neither its caller nor other deletes. */
static void test_delete_hangs(void **state)
{
	(void)state;
	struct world w;
	world_begin(&w);
	w.b.fault = hanging_fault;
	w.k.o.no_transfer = false;
	kit_reopen(&w.k);
	for (int i = 0; i < 1000 && strcmp(world_status(&w).state, "writing"); i++)
		usleep(10000);
	assert_string_equal(world_status(&w).state, "writing");
	atomic_store(&store_hangs, true);
	world_delete_all(&w);
	world_delete_all(&w);
	assert_int_equal(world_rows(&w), 0);
	assert_int_equal(world_status(&w).waiting_deletes, 2);
	atomic_store(&store_hangs, false);
	for (int i = 0; i < 1000 && world_status(&w).waiting_deletes; i++)
		usleep(10000);
	assert_int_equal(world_status(&w).waiting_deletes, 0);
	world_delete_all(&w);
	assert_int_equal(world_status(&w).waiting_deletes, 0); /* the bucket answers, so the object of the delete was put before the call returned */
	world_end(&w);
}

/* Files of an earlier fetch are not of the day that is fetched now. */
static void test_other_files(void **state)
{
	(void)state;
	struct world w;
	world_begin(&w);
	world_fill(&w, KIT_T0 + DAY, KIT_T0 + DAY + HOUR);
	world_seal(&w);
	world_upload(&w);
	char other[300];
	snprintf(other, sizeof other, "%s.other", w.k.dir);
	run_shell("mkdir %s && cp %s/partitions/%u/*.sst %s", other, w.k.dir, DAY0 + 1, other);
	world_lose_disk(&w);
	kit_open(&w.k);
	run_shell("mkdir %s/partitions/%u.fetch && for f in %s/*; do cp $f %s/partitions/%u.fetch/777777.sst; done; rm -r %s", w.k.dir, DAY0, other, w.k.dir,
		  DAY0, other);
	world_fetch(&w);
	assert_int_equal(world_rows(&w), 4 * 18);
	/* Those of days that are not to be fetched go. */
	run_shell("mkdir %s/partitions/%u.fetch", w.k.dir, DAY0 + 7);
	world_upload(&w);
	AUTOFREE char *left = xasprintf("%s/partitions/%u.fetch", w.k.dir, DAY0 + 7);
	assert_int_not_equal(access(left, F_OK), 0);
	world_end(&w);
}

/* A day whose object is damaged in the bucket does not keep others from coming back, nor the current one from beginning. */
static void test_damaged_object(void **state)
{
	(void)state;
	struct world w;
	world_start(&w);
	for (int day = 0; day < 3; day++)
		world_fill(&w, KIT_T0 + day * DAY, KIT_T0 + day * DAY + 2 * HOUR);
	world_seal(&w);
	world_upload(&w);
	for (size_t i = 0; i < w.b.v.n; i++) {
		char *key = w.b.v.v[i].key, day1[32], day2[64];
		snprintf(day1, sizeof day1, "one/d/%08u/", DAY0 + 1);
		snprintf(day2, sizeof day2, "one/d/%08u/", DAY0 + 2);
		if (!strncmp(key, day1, strlen(day1)) || (!strncmp(key, day2, strlen(day2)) && !strncmp(w.b.v.v[i + 1].key, day2, strlen(day2))))
			w.b.v.v[i].bytes[w.b.v.v[i].n / 2] ^= 1;
	}
	world_lose_disk(&w);
	struct source_damage damage = { .damaged = { 0 } };
	w.k.lim = &(struct source_limits){ .damage = &damage };
	kit_open(&w.k);
	assert_int_equal(world_rows(&w), 18 + 36); /* an hour of the current day, and the oldest, which is read in the bucket */
	for (int i = 0; i < 4; i++)
		IGNORE(world_try(&w)); /* of one day it says that it is damaged */
	assert_int_equal(world_rows(&w), 18 + 36);
	assert_int_equal(world_status(&w).absent_days, 1);
	world_end(&w);
}

static void world_put(struct world *w, const char *key, struct view bytes)
{
	struct err e;
	if (object_io_put(&w->b.objects, key, bytes, &e))
		fail_msg("%s", e.msg);
}

static void world_delete_pod(struct world *w, const char *pod)
{
	struct matcher m;
	struct err e;
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW("pod"), view_of(pod), &e), 0);
	assert_int_equal(tsdb_delete(w->k.db, &m, 1, KIT_T0 - DAY, KIT_T0 + 90 * DAY, NULL, &e), 0);
	matcher_release(&m);
}

/* Deletes that cannot be read, or not be applied, do not keep an empty disk from coming back: it says which they are. The others hold. */
static void test_damaged_delete(void **state)
{
	(void)state;
	struct world w;
	CLEANUP(buf_free) struct buf text = { 0 };
	world_begin(&w);
	world_delete_pod(&w, "pod-1");
	world_delete_pod(&w, "pod-2");
	assert_int_equal(world_rows(&w), 18);
	assert_int_equal(bucketkit_count(&w.b, "one/x/"), 2);
	struct bucketkit_object *o = w.b.v.v;
	while (strncmp(o->key, "one/x/", 6))
		o++;
	AUTOFREE char *damaged = xstrdup(o->key);
	o->bytes[o->n / 2] ^= 1;
	buf_puts(&text, "pyrrha-delete 1\nid one\nmade 1 after 0 until 2\nselect {{{\n");
	text_put_checksum(&text, 0);
	world_put(&w, "one/x/000001-0000000999", buf_view(&text));
	world_lose_disk(&w);
	kit_open(&w.k);
	assert_string_equal(world_status(&w).state, "writing");
	assert_int_equal(world_status(&w).damaged_objects, 2);
	assert_non_null(strstr(world_status(&w).why, damaged));
	assert_non_null(strstr(world_status(&w).why, "delete it once more"));
	assert_int_equal(world_rows(&w), 36);
	world_delete_pod(&w, "pod-1");
	world_upload(&w);
	assert_string_equal(world_status(&w).last_error, "");
	world_check_return(&w, 18);
	world_end(&w);
}

/* A generation that would take more memory than any server's is passed over by an empty disk: the others count. */
static void test_crafted_generation(void **state)
{
	(void)state;
	struct world w;
	CLEANUP(buf_free) struct buf b = { 0 };
	uint8_t hash[SHA256_LEN];
	world_begin(&w);
	buf_puts(&b, "pyrrhagn\1");
	buf_putc(&b, 0);
	buf_be64(&b, UINT64_MAX);
	sha256_of(buf_view(&b), hash);
	buf_put(&b, hash, SHA256_LEN);
	world_put(&w, "one/g/000001-0000000777", buf_view(&b));
	world_check_return(&w, 3 * 18);
	assert_int_equal(world_status(&w).damaged_objects, 1);
	world_end(&w);
}

/* An epoch that no server has taken neither stops one, nor takes an empty disk its name. */
static void test_foreign_epoch(void **state)
{
	(void)state;
	struct world w;
	world_begin(&w);
	world_put(&w, "one/e/7fffff", VIEW("crafted"));
	world_fill(&w, KIT_T0 + 3 * HOUR, KIT_T0 + 4 * HOUR);
	world_seal(&w);
	world_upload(&w);
	kit_reopen(&w.k);
	world_upload(&w);
	assert_string_equal(world_status(&w).id, "one");
	world_check_return(&w, 4 * 18);
	assert_int_equal(world_status(&w).damaged_objects, 1);
	assert_non_null(strstr(world_status(&w).why, "one/e/7fffff: no server is started so often"));
	world_end(&w);
}

/* Puts facts and notes that no server makes into the newest generation. */
static void world_spoil(struct world *w)
{
	struct bucketkit_object *o = NULL;
	struct generation g;
	struct err e;
	CLEANUP(buf_free) struct buf b = { .max = GENERATION_MAX }, large = { .max = GENERATION_MAX };
	for (size_t i = 0; i < w->b.v.n; i++)
		if (!strncmp(w->b.v.v[i].key, "one/g/", 6))
			o = &w->b.v.v[i];
	assert_int_equal(generation_decode(&g, view_make(o->bytes, o->n), NULL, &e), 0);
	assert_int_equal(generation_decode_series(&g, &e), 0);
	for (size_t i = 0; i < 100000; i++)
		buf_putc(&large, 'x');
	vec_push(&g.notes, (struct generation_note){ VIEW("test\0large"), buf_view(&large), KIT_T0 });
	vec_push(&g.notes, (struct generation_note){ view_make("", 0), VIEW("x"), KIT_T0 });
	vec_push(&g.notes, (struct generation_note){ VIEW("test\0good"), VIEW("x"), KIT_T0 });
	vec_push(&g.facts, (struct generation_fact){ 5, VIEW("\1\377\377\377\377\377\377\377\377\377\377\377\377\377") });
	vec_push(&g.facts, (struct generation_fact){ 6, VIEW("\2\5\1") });
	vec_push(&g.facts, (struct generation_fact){ 7, VIEW("\3") });
	assert_int_equal(generation_encode(&g, &b, &e), 0);
	generation_release(&g);
	free(o->bytes);
	o->n = b.len;
	o->bytes = buf_take(&b, NULL);
}

static void note_count(void *arg, const struct sink_note *n)
{
	(void)n;
	++*(size_t *)arg;
}

static size_t world_notes(struct world *w)
{
	struct sink *s = tsdb_sink(w->k.db);
	struct err e;
	size_t n = 0;
	assert_int_equal(s->notes(s, VIEW("test"), note_count, &n, &e), 0);
	return n;
}

/* Facts and notes that this server does not take do not keep it from coming back, and do not damage its log. */
static void test_spoiled_generation(void **state)
{
	(void)state;
	struct world w;
	struct tsdb_stats stats;
	world_begin(&w);
	world_spoil(&w);
	world_check_return(&w, 54);
	assert_int_equal(world_notes(&w), 1);
	kit_reopen(&w.k);
	assert_int_equal(world_rows(&w), 54);
	assert_int_equal(world_notes(&w), 1);
	tsdb_stats(w.k.db, &stats);
	assert_int_equal(stats.lost_records, 0);
	world_end(&w);
}

/* Somebody emptied the bucket: the next start puts again what the disk has. */
static void test_emptied_bucket(void **state)
{
	(void)state;
	struct world w;
	world_begin(&w);
	for (size_t i = 0; i < w.b.v.n; i++) {
		free(w.b.v.v[i].key);
		free(w.b.v.v[i].bytes);
	}
	w.b.v.n = 0;
	kit_reopen(&w.k);
	world_upload(&w);
	assert_int_equal(bucketkit_count(&w.b, "one/d/"), 3);
	world_check_return(&w, 54);
	world_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_old_copy), cmocka_unit_test(test_old_copy_of_epoch), cmocka_unit_test(test_fences),
		cmocka_unit_test(test_old_copy_and_stale_list), cmocka_unit_test(test_late_epoch), cmocka_unit_test(test_stale_catalogue),
		cmocka_unit_test(test_damaged_server), cmocka_unit_test(test_begins_alone), cmocka_unit_test(test_returns_twice), cmocka_unit_test(test_opening),
		cmocka_unit_test(test_catalogue_fails),
		cmocka_unit_test(test_flip), cmocka_unit_test(test_damaged_day), cmocka_unit_test(test_lost_answer),
		cmocka_unit_test(test_lost_directory), cmocka_unit_test(test_lost_before_replay), cmocka_unit_test(test_lost_before_leaving), cmocka_unit_test(test_lost_and_deleted), cmocka_unit_test(test_lost_while_away), cmocka_unit_test(test_emptied), cmocka_unit_test(test_delete_waits),
		cmocka_unit_test(test_delete_hangs), cmocka_unit_test(test_other_files), cmocka_unit_test(test_damaged_object),
		cmocka_unit_test(test_damaged_delete), cmocka_unit_test(test_foreign_epoch), cmocka_unit_test(test_crafted_generation), cmocka_unit_test(test_spoiled_generation), cmocka_unit_test(test_emptied_bucket),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
