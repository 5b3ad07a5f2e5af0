/* SPDX-License-Identifier: Apache-2.0 */
/* Parts that are damaged or lost on the disk come back from the bucket; a bucket that is lost gets them again; a full disk. */
#include <setjmp.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/files.h"
#include "model/sourcekit.h"
#include "tsdb/bucket/generation.h"
#include "tsdb/bucketkit.h"
#include "tsdb/testkit.h"
#include "tsdb/version/db.h"

#define MINUTE INT64_C(60000)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)
#define STACKS 20
#define DAY0 ((unsigned)(KIT_T0 / DAY))

/* One fault, at the nth request of a kind whose key contains this text. */
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
	uint32_t stacks; /* of a profile; 0 = STACKS */
	unsigned pods;   /* 0 = 3 */
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
		for (unsigned pod = 0; pod < (w->pods ? w->pods : 3); pod++)
			assert_int_equal(kit_append(&w->k, pod, t - pod, w->seed++, w->stacks ? w->stacks : STACKS, &r), 0);
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

static void world_delete(struct world *w, const char *pod, int64_t after, int64_t until)
{
	struct matcher m[2];
	struct err e;
	assert_int_equal(matcher_init(&m[0], MATCH_EQ, VIEW("job"), VIEW("kit"), &e), 0);
	assert_int_equal(matcher_init(&m[1], MATCH_EQ, VIEW("pod"), view_of(pod), &e), 0);
	assert_int_equal(tsdb_delete(w->k.db, m, 2, after, until, NULL, &e), 0);
	matcher_release(&m[0]);
	matcher_release(&m[1]);
}

static void world_clean(struct world *w)
{
	struct err e;
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

/* Reads all profiles as a query does that goes on without what is damaged; returns how many there are, and whether something was (may be NULL). */
static size_t world_read(struct world *w, bool *ret_damaged)
{
	size_t rows = 0;
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
	assert_int_equal(v->ops->select(v, &m, 1, 0, INT64_MAX / 2, &lim, &found, &n, &e), 0);
	for (size_t i = 0; i < n; i++) {
		struct source_profile *p;
		size_t n_p;
		assert_int_equal(one_series_profiles(v, found[i].ref, 0, INT64_MAX / 2, &lim, &p, &n_p, &e), 0);
		free(p);
		rows += n_p;
		for (int64_t t = KIT_T0; t < KIT_T0 + 5 * HOUR; t += HOUR / 2) { /* half hours are not answered by sums */
			struct source_part part = { found[i].ref, t, t + HOUR / 2, 1, 0 };
			struct stackvec *sum;
			assert_int_equal(v->ops->merge(v, &part, 1, 1, SYMBOLS_WHOLE, &lim, &sum, &e), 0);
			stackvec_unref(sum);
		}
	}
	free(found);
	matcher_release(&m);
	v->ops->release(v);
	if (ret_damaged)
		*ret_damaged = source_damage_met(&damage);
	return rows / 2; /* of two types */
}

static uint64_t world_sum(struct world *w)
{
	return kit_merge(&w->k, KIT_CPU, 0, INT64_MAX / 2, NULL) ^ kit_merge(&w->k, KIT_SAMPLES, 0, INT64_MAX / 2, NULL);
}

/* Three hours, sealed and uploaded; 18 rows each. */
static void world_begin_with(struct world *w, uint32_t stacks, unsigned pods)
{
	world_start(w);
	w->stacks = stacks;
	w->pods = pods;
	world_fill(w, KIT_T0, KIT_T0 + 3 * HOUR);
	world_seal(w);
	world_upload(w);
	assert_int_equal(bucketkit_count(&w->b, "one/d/"), 3);
}

static void world_begin(struct world *w)
{
	world_begin_with(w, 0, 0);
}

/* An empty disk gets all that was uploaded. */
static void world_check_return(struct world *w, size_t rows)
{
	world_lose_disk(w);
	kit_open(&w->k);
	world_fetch(w);
	assert_string_equal(world_status(w).id, "one");
	assert_int_equal(world_rows(w), rows);
}

/* ---- damage ---- */

/* The n-th file of the day, by number, while the storage is closed. */
static char *world_file(struct world *w, int n)
{
	AUTOFREE char *command = xasprintf("ls %s/partitions/%u/*.sst | sed -n %dp", w->k.dir, DAY0, n);
	char path[512] = "";
	FILE *f = popen(command, "r");
	assert_non_null(f);
	assert_non_null(fgets(path, sizeof path, f));
	pclose(f);
	path[strcspn(path, "\n")] = 0;
	return xstrdup(path);
}

/* Some bytes in the middle of a file, or its beginning, which is the header's block, are others. */
static void world_damage(struct world *w, int n, bool head)
{
	AUTOFREE char *file = world_file(w, n);
	if (head)
		run_shell("printf XXXXXXXX | dd of=%s bs=1 seek=20 conv=notrunc 2>/dev/null", file);
	else
		run_shell("s=$(stat -c %%s %s); printf XXXXXXXX | dd of=%s bs=1 seek=$((s * 6 / 10)) conv=notrunc 2>/dev/null", file, file);
}

static void world_remove(struct world *w, int n)
{
	AUTOFREE char *file = world_file(w, n);
	assert_int_equal(unlink(file), 0);
}

/* Nothing was set aside. */
static void world_check_whole(struct world *w)
{
	run_shell("! ls -d %s/partitions/*.bad-* 2>/dev/null", w->k.dir);
}

/* ---- parts that come back ---- */

/* A part whose header cannot be read is fetched at the start, and nothing goes up for it. */
static void test_head(void **state)
{
	(void)state;
	struct world w;
	world_begin(&w);
	uint64_t sum = world_sum(&w);
	kit_close(&w.k);
	world_damage(&w, 2, true);
	kit_open(&w.k);
	assert_int_equal(world_rows(&w), 3 * 18);
	assert_true(world_sum(&w) == sum);
	world_check_whole(&w);
	uint64_t puts = w.b.requests[BUCKETKIT_PUT];
	world_upload(&w);
	assert_int_equal(w.b.requests[BUCKETKIT_PUT], puts);
	kit_reopen(&w.k);
	assert_true(world_sum(&w) == sum);
	world_check_return(&w, 3 * 18);
	world_end(&w);
}

/* The same of all parts at once, the last one being that whose symbols no other part has. */
static void test_heads(void **state)
{
	(void)state;
	struct world w;
	world_begin(&w);
	uint64_t sum = world_sum(&w);
	kit_close(&w.k);
	for (int i = 1; i <= 3; i++)
		world_damage(&w, i, true);
	kit_open(&w.k);
	assert_true(world_sum(&w) == sum);
	world_end(&w);
}

/* The bucket is away at the start: a stand-in keeps the number, a new generation goes on naming the object, and rows of the log are not taken for others. */
static void test_head_later(void **state)
{
	(void)state;
	struct world w;
	world_begin(&w);
	uint64_t sum = kit_merge(&w.k, KIT_CPU, 0, KIT_T0 + 3 * HOUR, NULL);
	kit_close(&w.k);
	world_damage(&w, 2, true);
	w.b.away = true;
	kit_open(&w.k);
	assert_int_equal(world_read(&w, NULL), 2 * 18);
	w.b.away = false;
	world_fill(&w, KIT_T0 + 3 * HOUR, KIT_T0 + 4 * HOUR);
	world_seal(&w);
	w.f = (struct fault){ BUCKETKIT_GET, "one/d/", 1, 1000, BUCKETKIT_REFUSE };
	assert_int_not_equal(world_try(&w), 0);
	assert_int_not_equal(world_try(&w), 0);
	assert_int_equal(bucketkit_count(&w.b, "one/d/"), 4);
	w.f.key = NULL;
	assert_int_equal(world_read(&w, NULL), 3 * 18);
	world_upload(&w);
	assert_int_equal(world_rows(&w), 4 * 18);
	assert_int_equal(bucketkit_count(&w.b, "one/d/"), 4);
	kit_reopen(&w.k);
	assert_int_equal(world_rows(&w), 4 * 18);
	world_check_whole(&w);
	world_check_return(&w, 4 * 18);
	assert_true(kit_merge(&w.k, KIT_CPU, 0, KIT_T0 + 3 * HOUR, NULL) == sum);
	world_end(&w);
}

/* What another disk gets while the part waits is whole. */
static void test_head_waits_and_disk_is_lost(void **state)
{
	(void)state;
	struct world w;
	world_begin(&w);
	kit_close(&w.k);
	world_damage(&w, 1, true);
	w.f = (struct fault){ BUCKETKIT_GET, "one/d/", 1, 1000, BUCKETKIT_REFUSE };
	kit_open(&w.k);
	world_fill(&w, KIT_T0 + 3 * HOUR, KIT_T0 + 4 * HOUR);
	world_seal(&w);
	assert_int_not_equal(world_try(&w), 0);
	w.f.key = NULL;
	world_check_return(&w, 4 * 18);
	world_end(&w);
}

static void world_cut(struct world *w, int n)
{
	AUTOFREE char *file = world_file(w, n);
	run_shell("truncate -s 100 %s", file);
}

/* Late rows of the first hour, five of each pod: their part comes before that of the second. */
static void world_fill_late(struct world *w)
{
	world_fill(w, KIT_T0 + 5 * MINUTE, KIT_T0 + 55 * MINUTE);
}

/* The bucket is away, and RocksDB reads the damaged file when a part is written before it: late rows are sealed all the same, and the damaged part
 * comes back. */
static void test_late_before_damage(void **state)
{
	(void)state;
	struct world w;
	for (int cut = 0; cut < 2; cut++) {
		world_begin(&w);
		uint64_t sum = kit_merge(&w.k, KIT_CPU, KIT_T0 + HOUR, KIT_T0 + 3 * HOUR, NULL);
		kit_close(&w.k);
		if (cut)
			world_cut(&w, 2);
		else
			world_damage(&w, 2, true);
		w.b.away = true;
		kit_open(&w.k);
		world_fill_late(&w);
		world_seal(&w);
		for (int i = 0; i < 2; i++) {
			assert_int_equal(world_read(&w, NULL), 2 * 18 + 15);
			kit_reopen(&w.k);
		}
		w.b.away = false;
		world_upload(&w);
		assert_int_equal(world_rows(&w), 3 * 18 + 15);
		run_shell("! ls %s/partitions/%u/*.aside 2>/dev/null", w.k.dir, DAY0);
		world_check_whole(&w);
		kit_reopen(&w.k);
		assert_true(kit_merge(&w.k, KIT_CPU, KIT_T0 + HOUR, KIT_T0 + 3 * HOUR, NULL) == sum);
		world_check_return(&w, 3 * 18 + 15);
		world_end(&w);
	}
}

/* The same while the storage runs, of a part that no bucket has: the next start rewrites its readable values. */
static void test_late_before_damage_alone(void **state)
{
	(void)state;
	struct world w;
	struct err e;
	bool damaged;
	for (int rebuilt = 0; rebuilt < 2; rebuilt++) {
		world_begin_with(&w, 1, 300); /* not all stamps are in the first block */
		size_t before = 2 * 300 * 6, late = 300 * 5;
		kit_close(&w.k);
		w.k.o.objects = NULL;
		w.k.o.cache_bytes = 1; /* else the block is read from there */
		kit_open(&w.k);
		world_damage(&w, 2, true);
		world_fill_late(&w);
		world_seal(&w);
		assert_int_equal(world_read(&w, &damaged), before + late);
		assert_true(damaged);
		AUTOFREE char *snapshot = xasprintf("%s/snapshots/one", w.k.dir);
		assert_int_equal(tsdb_snapshot(w.k.db, snapshot, &e), 0);
		run_shell("ls %s/partitions/%u/*.aside", snapshot, DAY0);
		kit_close(&w.k);
		if (rebuilt)
			run_shell("rm %s/partitions/%u/CURRENT", w.k.dir, DAY0);
		kit_open(&w.k);
		size_t rows = world_rows(&w);
		assert_true(rows > before + late);
		run_shell("! ls %s/partitions/%u/*.aside 2>/dev/null && ls %s/partitions/%u.bad-*/*", w.k.dir, DAY0, w.k.dir, DAY0);
		kit_reopen(&w.k);
		assert_int_equal(world_rows(&w), rows);
		world_end(&w);
	}
}

/* The same of a file that is missing: after the next start it is still known that there was more. */
static void test_late_before_missing_alone(void **state)
{
	(void)state;
	struct world w;
	struct tsdb_stats s;
	world_begin(&w);
	kit_close(&w.k);
	w.k.o.objects = NULL;
	w.k.o.cache_bytes = 1;
	kit_open(&w.k);
	world_damage(&w, 2, true); /* RocksDB has it open */
	world_remove(&w, 2);
	world_fill_late(&w);
	world_seal(&w);
	run_shell("ls %s/partitions/%u/*.aside", w.k.dir, DAY0);
	kit_reopen(&w.k);
	bool damaged;
	assert_int_equal(world_read(&w, &damaged), 2 * 18 + 15);
	tsdb_stats(w.k.db, &s);
	assert_true(s.lost_records > 0);
	kit_reopen(&w.k);
	assert_int_equal(world_read(&w, &damaged), 2 * 18 + 15);
	assert_true(damaged);
	world_end(&w);
}

/* The same of a part that was not up yet: all else of its day goes up. */
static void test_late_before_damage_uploads(void **state)
{
	(void)state;
	struct world w;
	world_begin(&w);
	kit_close(&w.k);
	w.k.o.cache_bytes = 1;
	kit_open(&w.k);
	w.b.away = true;
	world_fill(&w, KIT_T0 + 3 * HOUR, KIT_T0 + 4 * HOUR);
	world_seal(&w);
	world_damage(&w, 4, true);
	world_fill(&w, KIT_T0 + 2 * HOUR + 5 * MINUTE, KIT_T0 + 2 * HOUR + 55 * MINUTE);
	world_seal(&w);
	run_shell("ls %s/partitions/%u/*.aside", w.k.dir, DAY0);
	w.b.away = false;
	world_upload(&w);
	assert_int_equal(bucketkit_count(&w.b, "one/d/"), 4);
	world_check_return(&w, 3 * 18 + 15);
	world_end(&w);
}

/* The same of a part whose object is damaged too: once that is known, the day goes up with its late rows. */
static void test_late_before_damage_of_both(void **state)
{
	(void)state;
	struct world w;
	world_begin(&w);
	kit_close(&w.k);
	w.k.o.cache_bytes = 1;
	kit_open(&w.k);
	world_damage(&w, 2, true);
	for (size_t i = 0; i < w.b.v.n; i++)
		if (!strncmp(w.b.v.v[i].key, "one/d/", 6))
			w.b.v.v[i].bytes[w.b.v.v[i].n / 2] ^= 1;
	world_fill_late(&w);
	world_seal(&w);
	run_shell("ls %s/partitions/%u/*.aside", w.k.dir, DAY0);
	for (int i = 0; i < 2; i++)
		IGNORE(world_try(&w)); /* it is fetched without success */
	world_upload(&w);
	assert_int_equal(bucketkit_count(&w.b, "one/d/"), 4);
	kit_reopen(&w.k);
	world_upload(&w);
	assert_true(world_read(&w, NULL) >= 2 * 18 + 15);
	world_end(&w);
}

/* ---- a disk that fails ---- */

/* A file that RocksDB has open, whose reads fail as those of a bad disk. */
struct failing_file {
	int fd, kept;
};

static struct failing_file world_fail_file(struct world *w, int n)
{
	AUTOFREE char *file = world_file(w, n);
	struct failing_file f = { -1, -1 };
	int fails = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	assert_true(fails >= 0);
	for (int fd = 3; fd < 1024 && f.fd < 0; fd++) {
		char name[64], path[512];
		snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
		ssize_t len = readlink(name, path, sizeof path - 1);
		if (len > 0 && (size_t)len == strlen(file) && !memcmp(path, file, (size_t)len))
			f = (struct failing_file){ fd, dup(fd) };
	}
	assert_true(f.fd >= 0 && f.kept >= 0);
	assert_int_equal(dup2(fails, f.fd), f.fd);
	close(fails);
	return f;
}

static void world_mend_file(const struct failing_file *f)
{
	assert_int_equal(dup2(f->kept, f->fd), f->fd);
	close(f->kept);
}

static void *mend_soon(void *arg)
{
	usleep(300000);
	world_mend_file(arg);
	return NULL;
}

static void world_begin_disk(struct world *w)
{
	world_begin(w);
	kit_close(&w->k);
	w->k.o.objects = NULL;
	w->k.o.cache_bytes = 1; /* else the blocks are read from there */
	kit_open(&w->k);
	world_fill_late(w);
}

/* A disk that fails for a moment costs nothing. */
static void test_disk_fails_shortly(void **state)
{
	(void)state;
	struct world w;
	pthread_t thread;
	world_begin_disk(&w);
	struct failing_file f = world_fail_file(&w, 2);
	assert_int_equal(pthread_create(&thread, NULL, mend_soon, &f), 0);
	world_seal(&w);
	pthread_join(thread, NULL);
	run_shell("! ls %s/partitions/%u/*.aside 2>/dev/null", w.k.dir, DAY0);
	assert_int_equal(world_rows(&w), 3 * 18 + 15);
	world_end(&w);
}

/* For longer: one file a round is set aside, and the next start has its values again. */
static void test_disk_fails(void **state)
{
	(void)state;
	struct world w;
	struct err e;
	world_begin_disk(&w);
	struct failing_file f[] = { world_fail_file(&w, 2), world_fail_file(&w, 3) };
	assert_int_not_equal(tsdb_seal(w.k.db, true, &e), 0);
	run_shell("test $(ls %s/partitions/%u/*.aside | wc -l) = 1", w.k.dir, DAY0);
	for (size_t i = 0; i < 2; i++)
		world_mend_file(&f[i]);
	world_seal(&w);
	run_shell("test $(ls %s/partitions/%u/*.aside | wc -l) = 1", w.k.dir, DAY0);
	kit_reopen(&w.k);
	assert_int_equal(world_rows(&w), 3 * 18 + 15);
	world_end(&w);
}

static size_t world_windows(struct world *w, unsigned day)
{
	struct version *v = tsdb_version(w->k.db, NULL);
	size_t n = version_find(v, day)->n_windows;
	version_unref(v);
	return n;
}

/* Nothing can be written into one day: the others are sealed. */
static void test_other_days_are_sealed(void **state)
{
	(void)state;
	struct world w;
	struct err e;
	world_begin(&w);
	world_fill(&w, KIT_T0 + DAY, KIT_T0 + DAY + HOUR);
	world_seal(&w);
	world_fill_late(&w);
	world_fill(&w, KIT_T0 + DAY + HOUR, KIT_T0 + DAY + 2 * HOUR);
	run_shell("cd %s/partitions; mv %u moved", w.k.dir, DAY0);
	assert_int_not_equal(tsdb_seal(w.k.db, true, &e), 0);
	assert_int_equal(world_windows(&w, DAY0), 1);
	assert_int_equal(world_windows(&w, DAY0 + 1), 0);
	run_shell("cd %s/partitions; mv moved %u", w.k.dir, DAY0);
	world_seal(&w);
	assert_int_equal(world_windows(&w, DAY0), 0);
	assert_int_equal(world_rows(&w), 5 * 18 + 15);
	world_end(&w);
}

/* A file that is not there any more. */
static void test_missing(void **state)
{
	(void)state;
	struct world w;
	world_begin(&w);
	uint64_t sum = world_sum(&w);
	kit_close(&w.k);
	world_remove(&w, 2);
	kit_open(&w.k);
	assert_true(world_sum(&w) == sum);
	world_fill(&w, KIT_T0 + 3 * HOUR, KIT_T0 + 4 * HOUR);
	world_seal(&w);
	world_upload(&w);
	assert_int_equal(bucketkit_count(&w.b, "one/d/"), 4);
	kit_reopen(&w.k);
	assert_int_equal(world_rows(&w), 4 * 18);
	world_check_return(&w, 4 * 18);
	world_end(&w);
}

static void test_missing_later(void **state)
{
	(void)state;
	struct world w;
	world_begin(&w);
	kit_close(&w.k);
	world_remove(&w, 2);
	w.f = (struct fault){ BUCKETKIT_GET, "one/d/", 1, 1000, BUCKETKIT_REFUSE };
	kit_open(&w.k);
	world_fill(&w, KIT_T0 + 3 * HOUR, KIT_T0 + 4 * HOUR);
	world_seal(&w);
	assert_int_not_equal(world_try(&w), 0);
	assert_int_equal(bucketkit_count(&w.b, "one/d/"), 3); /* the day waits for it */
	kit_reopen(&w.k); /* a second start finds it as well */
	assert_int_equal(world_read(&w, NULL), 3 * 18);
	assert_int_not_equal(world_try(&w), 0);
	w.f.key = NULL;
	world_upload(&w);
	assert_int_equal(world_rows(&w), 4 * 18);
	world_check_return(&w, 4 * 18);
	world_end(&w);
}

/* A day with a missing part is uploaded only once the part is back, so that whoever reads the bucket finds all files that the generation names. */
static void test_missing_then_read(void **state)
{
	(void)state;
	struct world w;
	world_begin(&w);
	kit_close(&w.k);
	world_remove(&w, 2);
	w.b.away = true;
	kit_open(&w.k);
	world_fill(&w, KIT_T0 + 3 * HOUR, KIT_T0 + 4 * HOUR);
	world_seal(&w);
	w.b.away = false;
	world_upload(&w);
	world_lose_disk(&w);
	w.k.now_ms = KIT_T0 + 3 * DAY;
	w.k.o.local_retention_ms = DAY;
	kit_open(&w.k);
	assert_int_equal(world_status(&w).absent_days, 1);
	assert_int_equal(world_rows(&w), 4 * 18);
	world_end(&w);
}

/* Only this part has some symbols. The start fetches it before it takes rows in: else new symbols would get the ids of those. */
static void test_symbols_later(void **state)
{
	(void)state;
	struct world w;
	struct err e;
	world_begin(&w);
	uint64_t sum = world_sum(&w);
	kit_close(&w.k);
	world_damage(&w, 3, true);
	w.b.away = true;
	assert_int_equal(tsdb_open(&w.k.db, &w.k.o, &e), -ERR_UNAVAILABLE);
	assert_non_null(strstr(e.msg, "no other part has its symbols"));
	w.b.away = false;
	kit_open(&w.k);
	assert_true(world_sum(&w) == sum);
	/* Without the bucket it goes on with what is readable. */
	kit_close(&w.k);
	world_damage(&w, 3, true);
	w.k.o.objects = NULL;
	kit_open(&w.k);
	assert_int_equal(world_rows(&w), 2 * 18);
	world_end(&w);
}

/* The list of files is damaged together with one of them: the database is made anew, under another identity. */
static void test_rebuilt(void **state)
{
	(void)state;
	struct world w;
	world_begin(&w);
	uint64_t sum = world_sum(&w);
	kit_close(&w.k);
	AUTOFREE char *file = world_file(&w, 2);
	run_shell("truncate -s 100 %s; rm %s/partitions/%u/CURRENT", file, w.k.dir, DAY0);
	kit_open(&w.k);
	assert_true(world_sum(&w) == sum);
	uint64_t puts = w.b.requests[BUCKETKIT_PUT];
	world_upload(&w);
	assert_int_equal(w.b.requests[BUCKETKIT_PUT], puts);
	kit_reopen(&w.k);
	assert_true(world_sum(&w) == sum);
	world_end(&w);
}

/* A value that cannot be read is noticed by a query, and a round fetches the part. */
static void test_value(void **state)
{
	(void)state;
	struct world w;
	bool damaged;
	world_begin_with(&w, 1000, 12); /* so that the part has many blocks */
	uint64_t sum = world_sum(&w);
	kit_close(&w.k);
	world_damage(&w, 2, false);
	kit_open(&w.k);
	world_read(&w, &damaged);
	assert_true(damaged);
	world_upload(&w);
	world_read(&w, &damaged);
	assert_false(damaged);
	assert_true(world_sum(&w) == sum);
	kit_reopen(&w.k);
	assert_true(world_sum(&w) == sum);
	world_end(&w);
}

/* Damage that is noticed when a part is rewritten without deleted rows: that waits for the good part, and what was deleted does not come back. */
static void test_value_of_deleted(void **state)
{
	(void)state;
	struct world w;
	bool damaged;
	world_begin_with(&w, 1000, 12); /* so that the part has many blocks */
	uint64_t sum = 0;
	world_delete(&w, "pod-1", KIT_T0, KIT_T0 + DAY);
	sum = world_sum(&w);
	kit_close(&w.k);
	world_damage(&w, 2, false);
	kit_open(&w.k);
	world_clean(&w);
	assert_int_equal(bucketkit_count(&w.b, "one/d/"), 3);
	world_upload(&w);
	world_clean(&w);
	assert_int_equal(world_read(&w, &damaged), 11 * 18);
	assert_false(damaged);
	assert_true(world_sum(&w) == sum);
	world_upload(&w);
	world_check_return(&w, 11 * 18);
	assert_true(world_sum(&w) == sum);
	world_end(&w);
}

/* A part was rewritten without deleted rows and is lost before it was put. The part before it comes back from the bucket, and the delete is applied to it
 * again. */
static void test_missing_of_deleted(void **state)
{
	(void)state;
	struct world w;
	for (int later = 0; later < 2; later++) {
		world_begin(&w);
		w.b.away = true;
		world_delete(&w, "pod-1", KIT_T0, KIT_T0 + DAY);
		world_clean(&w);
		world_fill(&w, KIT_T0 + 3 * HOUR, KIT_T0 + 4 * HOUR); /* they are not the delete's */
		world_seal(&w);
		world_fill(&w, KIT_T0 + 4 * HOUR, KIT_T0 + 5 * HOUR);
		assert_int_equal(world_rows(&w), 4 * 18);
		kit_close(&w.k);
		w.b.away = later;
		world_remove(&w, 2);
		kit_open(&w.k);
		assert_int_equal(world_read(&w, NULL), 4 * 18 - later * 12);
		w.b.away = false;
		world_upload(&w);
		assert_int_equal(world_rows(&w), 4 * 18);
		world_clean(&w);
		world_upload(&w);
		kit_reopen(&w.k);
		assert_int_equal(world_rows(&w), 4 * 18);
		world_check_return(&w, 4 * 18);
		world_end(&w);
	}
}

/* The same where the generation has the delete, and the part was rewritten after it went up; and of the whole day. */
static void test_missing_of_deleted_before(void **state)
{
	(void)state;
	struct world w;
	for (int all = 0; all < 2; all++) {
		world_begin(&w);
		world_delete(&w, "pod-1", KIT_T0, KIT_T0 + DAY);
		world_upload(&w);
		world_clean(&w);
		world_fill(&w, KIT_T0 + 3 * HOUR, KIT_T0 + 4 * HOUR);
		world_seal(&w); /* the delete leaves the log */
		world_fill(&w, KIT_T0 + 4 * HOUR, KIT_T0 + 5 * HOUR);
		kit_close(&w.k);
		if (all)
			run_shell("rm -r %s/partitions/%u", w.k.dir, DAY0);
		else
			world_remove(&w, 2);
		kit_open(&w.k);
		assert_int_equal(world_rows(&w), 3 * 12 + 18 + !all * 18); /* the fourth hour was not up yet */
		world_upload(&w);
		kit_reopen(&w.k);
		assert_int_equal(world_rows(&w), 3 * 12 + 18 + !all * 18);
		world_end(&w);
	}
}

/* A part that was rewritten twice since the generation is not missing. */
static void test_rewritten(void **state)
{
	(void)state;
	struct world w;
	world_begin(&w);
	world_delete(&w, "pod-1", KIT_T0, KIT_T0 + DAY);
	world_clean(&w);
	world_upload(&w);
	w.b.away = true;
	world_delete(&w, "pod-2", KIT_T0, KIT_T0 + DAY);
	world_clean(&w);
	assert_int_equal(world_rows(&w), 18);
	w.b.away = false;
	kit_reopen(&w.k);
	assert_int_equal(world_rows(&w), 18);
	assert_int_equal(w.b.requests[BUCKETKIT_GET], 0);
	world_end(&w);
}

/* Parts that were made one are not missing. */
static void test_replaced(void **state)
{
	(void)state;
	struct world w;
	world_begin(&w);
	w.b.away = true;
	world_fill(&w, KIT_T0 + 2 * HOUR + 5 * MINUTE, KIT_T0 + 3 * HOUR - 5 * MINUTE);
	world_seal(&w);
	w.k.now_ms += 5 * HOUR;
	world_clean(&w);
	size_t rows = world_rows(&w);
	world_delete(&w, "pod-1", KIT_T0, KIT_T0 + HOUR);
	world_clean(&w);
	w.b.away = false;
	kit_reopen(&w.k);
	assert_int_equal(world_rows(&w), rows - 6);
	kit_reopen(&w.k);
	world_upload(&w);
	assert_int_equal(world_rows(&w), rows - 6);
	world_end(&w);
}

/* The bucket does not have it either: its readable values are kept, and the generation goes on without it. */
static void test_both(void **state)
{
	(void)state;
	struct world w;
	world_begin(&w);
	kit_close(&w.k);
	world_damage(&w, 1, true);
	world_damage(&w, 2, false);
	for (size_t i = 0; i < w.b.v.n; i++)
		if (!strncmp(w.b.v.v[i].key, "one/d/", 6))
			w.b.v.v[i].bytes[w.b.v.v[i].n / 2] ^= 1;
	kit_open(&w.k);
	size_t rows = world_read(&w, NULL);
	assert_true(rows < 3 * 18);
	for (int i = 0; i < 3; i++)
		world_upload(&w);
	assert_int_equal(world_read(&w, NULL), rows);
	kit_reopen(&w.k);
	world_upload(&w);
	assert_int_equal(world_read(&w, NULL), rows);
	world_end(&w);
}

/* ---- days ---- */

/* The directory of a day is lost after a delete that no generation has, and the head log has rows that came later: the day is fetched before these are
 * brought back, and the delete is of what the day had. */
static void test_lost_day_of_deleted(void **state)
{
	(void)state;
	struct world w;
	for (int waits = 0; waits < 2; waits++) {
		world_begin(&w);
		w.b.away = waits;
		world_delete(&w, "pod-1", KIT_T0, KIT_T0 + DAY);
		world_clean(&w);
		world_fill(&w, KIT_T0 + 3 * HOUR, KIT_T0 + 4 * HOUR);
		assert_int_equal(world_rows(&w), 3 * 12 + 18);
		kit_close(&w.k);
		run_shell("rm -r %s/partitions/%u", w.k.dir, DAY0);
		w.b.away = false;
		kit_open(&w.k);
		assert_int_equal(world_rows(&w), 3 * 12 + 18);
		world_seal(&w);
		world_upload(&w);
		kit_reopen(&w.k);
		assert_int_equal(world_rows(&w), 3 * 12 + 18);
		world_check_return(&w, 3 * 12 + 18);
		world_end(&w);
	}
}

/* The head log has a delete of a day whose directory is lost, and no rows: the bucket is away at the start, and then the day is fetched all the
 * same. */
static void test_day_without_rows(void **state)
{
	(void)state;
	struct world w;
	world_begin(&w);
	world_delete(&w, "pod-1", KIT_T0, KIT_T0 + DAY);
	uint64_t sum = world_sum(&w);
	kit_close(&w.k);
	run_shell("rm -r %s/partitions/%u", w.k.dir, DAY0);
	w.b.away = true;
	kit_open(&w.k);
	struct partition *p = tsdb_partition(w.k.db, DAY0);
	assert_non_null(p); /* else this tests nothing */
	partition_unref(p);
	assert_int_equal(world_rows(&w), 0);
	w.b.away = false;
	world_upload(&w);
	assert_int_equal(world_status(&w).absent_days, 0);
	assert_true(world_sum(&w) == sum);
	for (int i = 0; i < 2; i++) {
		world_fill(&w, KIT_T0 + (3 + i) * HOUR, KIT_T0 + (4 + i) * HOUR);
		sum = world_sum(&w);
		kit_reopen(&w.k);
		assert_true(world_sum(&w) == sum);
	}
	world_seal(&w);
	world_upload(&w);
	world_check_return(&w, 3 * 12 + 2 * 18);
	assert_true(world_sum(&w) == sum);
	world_end(&w);
}

/* ---- a bucket that lost something ---- */

/* Removes what begins so. */
static void world_empty(struct world *w, const char *prefix, size_t most)
{
	size_t n = 0;
	for (size_t i = 0; i < w->b.v.n; i++) {
		struct bucketkit_object *o = &w->b.v.v[i];
		if (strncmp(o->key, prefix, strlen(prefix)) || !most) {
			w->b.v.v[n++] = *o;
			continue;
		}
		most--;
		free(o->key);
		free(o->bytes);
	}
	w->b.v.n = n;
}

/* Somebody empties the bucket while the server runs: a round notices it, and puts again what the disk has. */
static void test_emptied_bucket(void **state)
{
	(void)state;
	struct world w;
	world_begin(&w);
	world_fill(&w, KIT_T0 + DAY, KIT_T0 + DAY + HOUR);
	world_seal(&w);
	world_upload(&w);
	size_t objects = bucketkit_count(&w.b, "one/d/");
	world_empty(&w, "", SIZE_MAX);
	world_upload(&w);
	assert_int_equal(bucketkit_count(&w.b, "one/e/"), 1);
	assert_int_equal(bucketkit_count(&w.b, "one/d/"), objects);
	assert_int_equal(world_status(&w).days, 2);
	kit_reopen(&w.k);
	world_upload(&w);
	assert_string_equal(world_status(&w).id, "one");
	world_check_return(&w, 4 * 18);
	world_end(&w);
}

/* The same of generations, and of a part, alone: the walk over all objects notices it. */
static void test_lost_objects(void **state)
{
	(void)state;
	struct world w;
	const char *lost[] = { "one/g/", "one/d/" };
	for (size_t i = 0; i < 2; i++) {
		world_begin(&w);
		world_empty(&w, lost[i], 1);
		world_upload(&w);
		world_upload(&w);
		assert_int_equal(bucketkit_count(&w.b, "one/g/"), 1);
		world_check_return(&w, 3 * 18);
		world_end(&w);
	}
}

/* An object that a list lacks and that is there is not put again. */
static void test_late_list(void **state)
{
	(void)state;
	struct world w;
	world_begin(&w);
	uint64_t puts = w.b.requests[BUCKETKIT_PUT];
	w.b.list_lacks = "one/";
	world_upload(&w);
	world_upload(&w);
	assert_int_equal(w.b.requests[BUCKETKIT_PUT], puts);
	w.b.list_lacks = NULL;
	world_check_return(&w, 3 * 18);
	world_end(&w);
}

/* ---- a full disk ---- */

static atomic_bool disk_full; /* writes of fetched files fail */
static atomic_ullong disk_free; /* free bytes that statvfs reports; 0 = what it reports itself */

ssize_t __real_pwrite(int fd, const void *p, size_t n, off_t at);
ssize_t __wrap_pwrite(int fd, const void *p, size_t n, off_t at);
ssize_t __real_pwrite64(int fd, const void *p, size_t n, off_t at);
ssize_t __wrap_pwrite64(int fd, const void *p, size_t n, off_t at);
int __real_statvfs(const char *path, struct statvfs *ret);
int __wrap_statvfs(const char *path, struct statvfs *ret);
int __real_statvfs64(const char *path, struct statvfs *ret);
int __wrap_statvfs64(const char *path, struct statvfs *ret);

static bool disk_refuses(int fd, off_t at)
{
	char link[64], path[512];
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t n = atomic_load(&disk_full) ? readlink(link, path, sizeof path - 1) : -1;
	if (n < 0)
		return false;
	path[n] = 0;
	return at && strstr(path, ".fetch/"); /* the first bytes still fit */
}

ssize_t __wrap_pwrite(int fd, const void *p, size_t n, off_t at)
{
	if (!disk_refuses(fd, at + (off_t)n))
		return __real_pwrite(fd, p, n, at);
	errno = ENOSPC;
	return -1;
}

ssize_t __wrap_pwrite64(int fd, const void *p, size_t n, off_t at)
{
	if (!disk_refuses(fd, at + (off_t)n))
		return __real_pwrite64(fd, p, n, at);
	errno = ENOSPC;
	return -1;
}

static int disk_says(int rc, struct statvfs *ret)
{
	if (!rc && atomic_load(&disk_free))
		ret->f_bavail = (fsblkcnt_t)(atomic_load(&disk_free) / ret->f_frsize);
	return rc;
}

int __wrap_statvfs(const char *path, struct statvfs *ret)
{
	return disk_says(__real_statvfs(path, ret), ret);
}

int __wrap_statvfs64(const char *path, struct statvfs *ret)
{
	return disk_says(__real_statvfs64(path, ret), ret);
}

/* Two days are up, and the disk is lost; the newer day is back. */
static void world_begin_return(struct world *w)
{
	world_begin(w);
	world_fill(w, KIT_T0 + DAY, KIT_T0 + DAY + HOUR);
	world_seal(w);
	world_upload(w);
	world_lose_disk(w);
	kit_open(&w->k);
	assert_int_equal(world_rows(w), 4 * 18); /* the older day is read in the bucket */
	assert_int_equal(world_status(w).absent_days, 1);
}

/* The day is not here, nothing of it takes room, and all else works. */
static void world_check_absent(struct world *w, const char *why)
{
	struct err e;
	for (int i = 0; i < 2; i++) {
		assert_int_not_equal(tsdb_upload(w->k.db, &e), 0);
		assert_non_null(strstr(e.msg, why));
	}
	assert_int_equal(world_status(w).absent_days, 1);
	run_shell("! ls -d %s/partitions/%u* 2>/dev/null", w->k.dir, DAY0);
	size_t objects = bucketkit_count(&w->b, "one/d/");
	world_fill(w, KIT_T0 + DAY + HOUR, KIT_T0 + DAY + 2 * HOUR);
	world_seal(w);
	assert_int_not_equal(world_try(w), 0);
	assert_int_equal(bucketkit_count(&w->b, "one/d/"), objects + 1);
	assert_int_equal(world_rows(w), 5 * 18);
}

/* The disk fills up while a day is fetched. */
static void test_disk_full(void **state)
{
	(void)state;
	struct world w;
	world_begin_return(&w);
	atomic_store(&disk_full, true);
	world_check_absent(&w, "No space left");
	kit_reopen(&w.k);
	assert_int_equal(world_rows(&w), 5 * 18);
	atomic_store(&disk_full, false);
	world_fetch(&w);
	assert_int_equal(world_rows(&w), 5 * 18);
	world_end(&w);
}

/* A day that would not fit is not begun. */
static void test_no_room(void **state)
{
	(void)state;
	struct world w;
	world_begin_return(&w);
	atomic_store(&disk_free, 1 << 20);
	w.f = (struct fault){ BUCKETKIT_GET, "one/d/", 1, 1000, BUCKETKIT_REFUSE }; /* it would be another error */
	world_check_absent(&w, "no room for day");
	w.f.key = NULL;
	atomic_store(&disk_free, 0);
	world_fetch(&w);
	assert_int_equal(world_rows(&w), 5 * 18);
	world_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_head), cmocka_unit_test(test_heads), cmocka_unit_test(test_head_later), cmocka_unit_test(test_head_waits_and_disk_is_lost),
		cmocka_unit_test(test_late_before_damage), cmocka_unit_test(test_late_before_damage_alone), cmocka_unit_test(test_late_before_damage_uploads), cmocka_unit_test(test_disk_fails_shortly), cmocka_unit_test(test_disk_fails), cmocka_unit_test(test_late_before_missing_alone), cmocka_unit_test(test_late_before_damage_of_both), cmocka_unit_test(test_other_days_are_sealed),
		cmocka_unit_test(test_missing), cmocka_unit_test(test_missing_later), cmocka_unit_test(test_symbols_later), cmocka_unit_test(test_rebuilt), cmocka_unit_test(test_value),
		cmocka_unit_test(test_value_of_deleted), cmocka_unit_test(test_missing_of_deleted), cmocka_unit_test(test_missing_then_read), cmocka_unit_test(test_missing_of_deleted_before), cmocka_unit_test(test_rewritten), cmocka_unit_test(test_replaced), cmocka_unit_test(test_both), cmocka_unit_test(test_lost_day_of_deleted), cmocka_unit_test(test_day_without_rows),
		cmocka_unit_test(test_emptied_bucket), cmocka_unit_test(test_lost_objects), cmocka_unit_test(test_late_list),
		cmocka_unit_test(test_disk_full), cmocka_unit_test(test_no_room),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
