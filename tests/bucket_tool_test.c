/* SPDX-License-Identifier: Apache-2.0 */
/* pyrtool bucket over a directory that a storage has filled: whole, with orphans, damaged, and with objects that no server makes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/map.h"
#include "bucket/bucket.h"
#include "tsdb/bucket/generation.h"
#include "tsdb/testkit.h"

#define HOUR (60 * INT64_C(60000))
#define DAY (24 * HOUR)
#define DAYS 3
#define MANY_PARTS 50000
#define FIRST_DAY 19676 /* 2023-11-15, that of KIT_T0 */

struct bucket_world {
	struct kit k;
	struct bucket_config config;
	struct bucket *bucket;
	char dir[300];   /* the bucket */
	uint64_t sum[DAYS];
};

static uint64_t world_sum_day(struct kit *k, int day)
{
	return kit_merge(k, KIT_CPU, KIT_T0 + day * DAY, KIT_T0 + (day + 1) * DAY, NULL);
}

static void world_fill_day(struct bucket_world *w, int day)
{
	struct sink_result r;
	struct err e;
	for (int64_t t = KIT_T0 + day * DAY + HOUR; t <= KIT_T0 + day * DAY + 6 * HOUR; t += HOUR / 2) {
		w->k.now_ms = t;
		for (unsigned pod = 0; pod < 3; pod++)
			assert_int_equal(kit_append(&w->k, pod, t - pod, (uint64_t)t + pod, 20, &r), 0);
	}
	tsdb_flush(w->k.db);
	assert_int_equal(tsdb_seal(w->k.db, true, &e), 0);
	if (tsdb_upload(w->k.db, &e))
		fail_msg("%s", e.msg);
	w->sum[day] = world_sum_day(&w->k, day);
}

static void world_begin(struct bucket_world *w)
{
	struct err e;
	*w = (struct bucket_world){ .sum = { 0 } };
	kit_init(&w->k);
	snprintf(w->dir, sizeof w->dir, "%s.bucket", w->k.dir);
	w->config = (struct bucket_config){ .type = BUCKET_FILESYSTEM, .prefix = "", .directory = w->dir, .server_id = "", .requests = 4, .shown = "" };
	assert_int_equal(bucket_open(&w->bucket, &w->config, NULL, &e), 0);
	w->k.o.objects = bucket_objects(w->bucket);
	w->k.o.server_id = "one";
	w->k.o.no_transfer = true;
	w->k.o.retention_ms = -1;
	w->k.now_ms = KIT_T0 + HOUR;
	kit_open(&w->k);
	for (int day = 0; day < DAYS; day++)
		world_fill_day(w, day);
}

static void world_end(struct bucket_world *w)
{
	kit_free(&w->k);
	bucket_free(w->bucket);
	files_remove_tree(w->dir);
}

/* ---- calls ---- */

/* Runs pyrtool bucket WHAT on the bucket; what it prints is in text. Returns the exit status. */
static int bucket_call(struct bucket_world *w, char text[65536], const char *what)
{
	const char *top = getenv("top_builddir");
	AUTOFREE char *command = xasprintf("%s/pyrtool bucket %s --objstore.config='{type: FILESYSTEM, config: {directory: %s}}' 2>&1", top ? top : ".", what, w->dir);
	FILE *f = popen(command, "r");
	assert_non_null(f);
	size_t n = fread(text, 1, 65535, f);
	text[n] = 0;
	int status = pclose(f);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void expect(struct bucket_world *w, const char *what, int status, const char *words)
{
	static char text[65536];
	int got = bucket_call(w, text, what);
	if (got != status || !strstr(text, words))
		fail_msg("pyrtool bucket %s: status %d, not %d, or without \"%s\": %s", what, got, status, words, text);
}

/* The first file below a folder of the bucket, by name. */
struct first_file {
	char name[256];
};

static int first_found(void *arg, const char *name, struct err *e)
{
	struct first_file *f = arg;
	(void)e;
	if (!f->name[0] || strcmp(name, f->name) < 0)
		snprintf(f->name, sizeof f->name, "%.255s", name);
	return 0;
}

static char *world_first(struct bucket_world *w, const char *folder)
{
	struct first_file f = { .name = "" };
	struct err e;
	AUTOFREE char *dir = xasprintf("%s/%s", w->dir, folder);
	assert_int_equal(files_each(dir, first_found, &f, &e), 0);
	assert_true(f.name[0] != 0);
	return xasprintf("%s/%s", dir, f.name);
}

static void world_put(struct bucket_world *w, const char *key, const char *bytes, size_t n)
{
	struct err e;
	AUTOFREE char *path = xasprintf("%s/%s", w->dir, key);
	AUTOFREE char *dir = xstrdup(path);
	*strrchr(dir, '/') = 0;
	assert_int_equal(files_make_dirs(dir, &e), 0);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, n), n);
	close(fd);
}

static void file_flip(const char *path)
{
	char c;
	assert_int_equal(chmod(path, 0640), 0);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &c, 1, 200), 1);
	c ^= 4;
	assert_int_equal(pwrite(fd, &c, 1, 200), 1);
	close(fd);
}

/* Makes a file two days old. */
static void file_age(const char *path)
{
	struct timespec t[2] = { { .tv_sec = (time_t)(clock_now_ms() / 1000 - 2 * 86400) }, { .tv_sec = (time_t)(clock_now_ms() / 1000 - 2 * 86400) } };
	assert_int_equal(utimensat(AT_FDCWD, path, t, 0), 0);
}

/* ---- tests ---- */

static void test_lists(void **state)
{
	(void)state;
	struct bucket_world w;
	world_begin(&w);
	expect(&w, "ls", 0, "one  epoch 1, taken 20");
	expect(&w, "ls", 0, "2023-11-15  19676  000001-00000000");
	expect(&w, "ls", 0, "2023-11-17  19678  000001-");
	expect(&w, "ls --output=json", 0, "\"date\":\"2023-11-16\",\"day\":19677,\"generation\":\"000001-00000000");
	expect(&w, "ls --id=two", 1, "two has no objects");
	expect(&w, "ls --output=xml", 2, "--output is text or json");
	expect(&w, "stats", 0, "one: 3 days, 1 epochs");
	expect(&w, "stats --output=json", 0, "\"orphans\":{\"objects\":0,\"bytes\":0}");
	expect(&w, "stats --id=one", 0, "  2023-11-16 ");
	expect(&w, "verify", 0, "one: 3 days");
	expect(&w, "verify --deep", 0, ": 0 problem(s)");
	expect(&w, "verify --deep --output=json", 0, "\"problems\":[]");
	expect(&w, "verify --id=ONE", 1, "an id is 1 to 40 characters");
	expect(&w, "verify more", 2, "only flags");
	/* A second server: then an id is wanted. */
	world_put(&w, "one-2/e/000001", "x", 1);
	expect(&w, "ls", 0, "one-2  epoch 1");
	expect(&w, "verify", 1, "2 servers have objects");
	expect(&w, "verify --id=one", 0, ": 0 problem(s)");
	world_end(&w);
}

static void test_other_configurations(void **state)
{
	(void)state;
	static char text[65536];
	struct bucket_world w;
	world_begin(&w);
	AUTOFREE char *yml = xasprintf("object_storage: {server_id: one, bucket: {type: FILESYSTEM, config: {directory: %s}}}\nscrape_configs: []\n", w.dir);
	AUTOFREE char *stock = xasprintf("object_storage: {bucket: {type: FILESYSTEM, config: {directory: %s}}}\n", w.dir);
	world_put(&w, "a.yml", yml, strlen(yml));
	world_put(&w, "b.yml", stock, strlen(stock));
	AUTOFREE char *a = xasprintf("%s/pyrtool bucket stats --config.file=%s/a.yml", getenv("top_builddir"), w.dir);
	AUTOFREE char *b = xasprintf("%s/pyrtool bucket stats --config.file=%s/b.yml 2>/dev/null", getenv("top_builddir"), w.dir);
	AUTOFREE char *c = xasprintf("%s/pyrtool bucket stats --objstore.config='{type: S3, config: {bucket: b, endpoint: 127.0.0.1:1, insecure: true, "
				     "access_key: k, secret_key: never-shown, more: 1}}' 2>&1", getenv("top_builddir"));
	assert_int_equal(WEXITSTATUS(system(a)), 0);
	assert_int_equal(WEXITSTATUS(system(b)), 1);
	FILE *f = popen(c, "r");
	text[fread(text, 1, sizeof text - 1, f)] = 0;
	assert_int_equal(WEXITSTATUS(pclose(f)), 1);
	assert_non_null(strstr(text, "more"));
	assert_null(strstr(text, "never-shown"));
	expect(&w, "ls --config.file=x", 1, "which bucket?");
	world_end(&w);
}

static void test_orphans(void **state)
{
	(void)state;
	struct bucket_world w;
	world_begin(&w);
	world_put(&w, "one/d/00019676/000001-00000000ff", "half", 4);
	world_put(&w, "one/d/00019999/000001-00000000fe", "half", 4);
	expect(&w, "stats --output=json", 0, "\"orphans\":{\"objects\":2,\"bytes\":8}");
	expect(&w, "verify", 0, ": 0 problem(s)");
	expect(&w, "gc --remove", 0, "0 objects, 0 bytes that no newest generation names were removed; 2 more are younger");
	AUTOFREE char *orphan = xasprintf("%s/one/d/00019676/000001-00000000ff", w.dir);
	AUTOFREE char *part = world_first(&w, "one/d/00019676"), *epoch = world_first(&w, "one/e"), *generation = world_first(&w, "one/g");
	file_age(orphan);
	file_age(part);
	file_age(epoch);
	file_age(generation);
	expect(&w, "gc", 0, "one/d/00019676/000001-00000000ff  4 bytes");
	assert_int_equal(access(orphan, F_OK), 0);
	expect(&w, "gc --remove", 0, "1 objects, 4 bytes that no newest generation names were removed; 1 more");
	assert_int_not_equal(access(orphan, F_OK), 0);
	expect(&w, "verify --deep", 0, ": 0 problem(s)");
	world_end(&w);
}

/* A row of an hour that has a part: it must be numbered above what the part has, else the replay takes it for sealed. */
static void expect_takes_rows(struct kit *k, int day)
{
	struct sink_result r;
	int64_t t = KIT_T0 + day * DAY + 5 * HOUR + HOUR / 4;
	size_t n = kit_count(k, KIT_CPU, KIT_T0, KIT_T0 + DAYS * DAY, NULL);
	assert_int_equal(kit_append(k, 99, t, 1, 20, &r), 0);
	tsdb_flush(k->db);
	kit_reopen(k);
	assert_int_equal(kit_count(k, KIT_CPU, KIT_T0, KIT_T0 + DAYS * DAY, NULL), n + 1);
}

/* Opens what was fetched, as any server would. */
static void expect_days(const char *dir, struct bucket_world *w, unsigned mask)
{
	struct kit k;
	kit_set(&k, dir);
	k.o.read_only = true;
	k.now_ms = KIT_T0 + DAYS * DAY;
	k.o.retention_ms = -1;
	for (int again = 0; again < 2; again++) { /* and once for writing */
		kit_open(&k);
		for (int day = 0; day < DAYS; day++)
			if (mask >> day & 1)
				assert_true(world_sum_day(&k, day) == w->sum[day]);
			else
				assert_int_equal(kit_count(&k, KIT_CPU, KIT_T0 + day * DAY, KIT_T0 + (day + 1) * DAY, NULL), 0);
		struct tsdb_stats s;
		tsdb_stats(k.db, &s);
		assert_int_equal(s.holes, 0);
		if (again)
			expect_takes_rows(&k, mask & 4 ? 2 : 0);
		kit_close(&k);
		k.o.read_only = false;
	}
	AUTOFREE char *bucket = xasprintf("%s/bucket", dir);
	assert_int_not_equal(access(bucket, F_OK), 0);
}

static void test_get(void **state)
{
	(void)state;
	struct bucket_world w;
	struct err e;
	world_begin(&w);
	/* The copy has the deletes as well: one that the day's generation has, and a later one that is only in an object of its own. */
	assert_int_equal(tsdb_delete(w.k.db, NULL, 0, KIT_T0, KIT_T0 + 2 * HOUR, NULL, &e), 0);
	if (tsdb_upload(w.k.db, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(tsdb_delete(w.k.db, NULL, 0, KIT_T0 + 4 * HOUR, KIT_T0 + 5 * HOUR, NULL, &e), 0);
	uint64_t whole = w.sum[0];
	w.sum[0] = world_sum_day(&w.k, 0);
	assert_true(whole != w.sum[0]);
	AUTOFREE char *dir = xasprintf("%s.got", w.k.dir), *all = xasprintf("get all %s", dir), *two = xasprintf("get 2023-11-15 19678 %s", dir);
	AUTOFREE char *one = xasprintf("get 2023-11-17 %s", dir);
	AUTOFREE char *none = xasprintf("get 2023-11-15 2024-01-01 %s", dir), *bad = xasprintf("get yesterday %s", dir), *tmp = xasprintf("%s.tmp", dir);
	AUTOFREE char *epoch2 = xasprintf("%s/one/e/000002", w.dir);
	expect(&w, all, 0, "3 days are in ");
	expect_days(dir, &w, 7);
	expect(&w, all, 1, "is not empty");
	files_remove_tree(dir);
	expect(&w, two, 0, "2023-11-17");
	expect_days(dir, &w, 5);
	files_remove_tree(dir);
	expect(&w, one, 0, "1 days are in ");
	expect_days(dir, &w, 4); /* a day without facts */
	files_remove_tree(dir);
	expect(&w, none, 1, "2024-01-01 is left out: one has nothing of that day");
	expect_days(dir, &w, 1);
	files_remove_tree(dir);
	expect(&w, bad, 2, "is no day");
	expect(&w, "get /tmp", 2, "days (or all) and a directory");
	/* The bucket is as it was: nobody has taken an epoch. */
	assert_int_not_equal(access(epoch2, F_OK), 0);
	expect(&w, "verify --deep", 0, ": 0 problem(s)");
	/* A damaged day is left out, the others come. */
	AUTOFREE char *part = world_first(&w, "one/d/00019677");
	file_flip(part);
	expect(&w, all, 1, "2023-11-16 is left out: object one/d/00019677/");
	expect_days(dir, &w, 5);
	files_remove_tree(dir);
	/* Or the rest of it, if that is asked for. */
	AUTOFREE char *rest = xasprintf("get --lenient 2023-11-16 %s", dir);
	struct kit k;
	expect(&w, rest, 0, "the day is fetched without it");
	kit_set(&k, dir);
	k.o.retention_ms = -1;
	k.o.read_only = true;
	kit_open(&k);
	size_t n = kit_count(&k, KIT_CPU, KIT_T0 + DAY, KIT_T0 + 2 * DAY, NULL);
	assert_true(n > 0 && n < 33);
	kit_close(&k);
	files_remove_tree(dir);
	assert_int_not_equal(access(tmp, F_OK), 0);
	world_end(&w);
}

static void test_damage(void **state)
{
	(void)state;
	struct bucket_world w;
	world_begin(&w);
	AUTOFREE char *a = world_first(&w, "one/d/00019676"), *b = world_first(&w, "one/d/00019677"), *c = world_first(&w, "one/d/00019678");
	file_flip(a);
	expect(&w, "verify", 0, ": 0 problem(s)");
	expect(&w, "verify --deep", 1, "does not have the bytes that its generation says");
	expect(&w, "verify --deep", 1, ": 1 problem(s)");
	assert_int_equal(chmod(b, 0640), 0);
	assert_int_equal(truncate(b, 100), 0);
	expect(&w, "verify", 1, "it has 100 bytes, not ");
	assert_int_equal(unlink(c), 0);
	expect(&w, "verify", 1, "it is missing (");
	expect(&w, "verify --output=json", 1, "\"todo\":\"if its server has the day on its disk: stop it");
	expect(&w, "verify --deep", 1, ": 3 problem(s)");
	AUTOFREE char *g = world_first(&w, "one/g");
	file_flip(g);
	expect(&w, "verify", 1, "fails its checksum");
	expect(&w, "ls", 0, "1 generations cannot be read");
	expect(&w, "gc --remove", 1, "nothing is removed");
	AUTOFREE char *dir = xasprintf("%s.got", w.k.dir), *all = xasprintf("get all %s", dir);
	expect(&w, all, 1, "generations or deletes in the bucket cannot be read");
	files_remove_tree(dir);
	world_end(&w);
}

/* What verify says to do about a damaged or missing object, and about a damaged generation, helps. */
static void test_repair(void **state)
{
	(void)state;
	struct bucket_world w;
	struct err e;
	world_begin(&w);
	AUTOFREE char *a = world_first(&w, "one/d/00019676"), *g = world_first(&w, "one/g");
	AUTOFREE char *day = xasprintf("%s/bucket/days/00019676", w.k.dir), *days = xasprintf("%s/bucket/days", w.k.dir);
	assert_int_equal(unlink(a), 0);
	expect(&w, "verify", 1, "stop it, remove bucket/days/DAY");
	kit_close(&w.k);
	assert_int_equal(unlink(day), 0);
	assert_int_equal(unlink(g), 0);
	kit_open(&w.k);
	if (tsdb_upload(w.k.db, &e))
		fail_msg("%s", e.msg);
	expect(&w, "verify --deep", 0, "one: 3 days");
	/* And a generation. */
	AUTOFREE char *g2 = world_first(&w, "one/g");
	file_flip(g2);
	expect(&w, "verify", 1, "remove this object and the folder bucket/days");
	kit_close(&w.k);
	assert_int_equal(unlink(g2), 0);
	files_remove_tree(days);
	kit_open(&w.k);
	if (tsdb_upload(w.k.db, &e))
		fail_msg("%s", e.msg);
	expect(&w, "verify --deep", 0, "one: 3 days");
	world_end(&w);
}

/* bucket verify is quick for a generation with 300,000 parts, also if the bucket has none of them. */
static void test_many_parts(void **state)
{
	(void)state;
	struct bucket_world w;
	struct err e;
	CLEANUP(buf_free) struct buf bytes = { .max = GENERATION_MAX };
	struct generation g = { .kind = GENERATION_DAY, .id = "one", .day = 20000, .stamp = { 1, 0x998 }, .next_part = MANY_PARTS + 1, .min_ms = 1 };
	world_begin(&w);
	for (uint32_t i = 0; i < MANY_PARTS; i++) {
		struct generation_part *p = vec_add(&g.parts);
		*p = (struct generation_part){ .level = 0, .number = i + 1, .window = 20000 * 24, .file = i + 7, .object = { { 1, 0x777000 + i }, 100, { 0 } },
					       .header = view_of("h"), .index = view_of("i") };
		for (size_t k = 0; k < SHA256_LEN; k++)
			p->object.sha256[k] = (uint8_t)(hash_u64(i) >> k);
	}
	assert_int_equal(generation_encode(&g, &bytes, &e), 0);
	generation_release(&g);
	world_put(&w, "one/g/000001-0000000998", buf_view(&bytes).ptr, buf_view(&bytes).len);
	int64_t begin = clock_mono_ms();
	expect(&w, "verify", 1, "and 49900 more");
	assert_true(clock_mono_ms() - begin < 20000);
	world_end(&w);
}

/* Names that no server makes, bytes that are no generation, and a generation that lies. */
static void test_hostile(void **state)
{
	(void)state;
	struct bucket_world w;
	struct err e;
	world_begin(&w);
	static const char *const odd[] = { "one/g/x", "one/g/ffffff-fffffffffff", "one/d/99999999/000001-0000000001", "one/d/1/1", "one/e/zzzzzz", "UPPER/e/000001",
					   "one/g/line\nbreak", "one/q/000001", "e/e/e/e", "-x/e/000001", "one/x/ffffff-ffffffffff", "caf\xc3\xa9/e/000001",
					   "0123456789012345678901234567890123456789x/e/000001" };
	for (size_t i = 0; i < ARRAY_LEN(odd); i++)
		world_put(&w, odd[i], "?", 1);
	expect(&w, "ls", 0, "2023-11-17  19678");
	expect(&w, "verify", 1, "one/x/ffffff-ffffffffff: it is no delete");
	AUTOFREE char *delete = xasprintf("%s/one/x/ffffff-ffffffffff", w.dir);
	assert_int_equal(unlink(delete), 0);
	world_put(&w, "one/e/7fffff", "?", 1);
	expect(&w, "verify", 1, "one/e/7fffff: no server is started so often");
	expect(&w, "ls", 0, "one  epoch 1,");
	AUTOFREE char *epoch = xasprintf("%s/one/e/7fffff", w.dir);
	assert_int_equal(unlink(epoch), 0);
	expect(&w, "verify", 0, ": 0 problem(s)");
	expect(&w, "stats", 0, "objects have names that are not the server's");
	AUTOFREE char *first = world_first(&w, "one/g");
	AUTOFREE char *copy = xasprintf("%s/one/g/000001-0000000999", w.dir);
	assert_int_equal(link(first, copy), 0);
	expect(&w, "verify", 1, "one/g/000001-0000000999");
	assert_int_equal(unlink(copy), 0);
	world_put(&w, "one/g/000001-0000000998", "pyrrhagn", 8);
	expect(&w, "verify", 1, "is not a generation");
	world_put(&w, "one/g/000001-0000000998", "", 0);
	expect(&w, "verify", 1, "is not a generation");
	/* Two parts with one file, of sizes that no disk has, in a day that no calendar has. */
	CLEANUP(buf_free) struct buf bytes = { 0 };
	struct generation g = { .kind = GENERATION_DAY, .id = "one", .day = 9999999, .stamp = { 1, 0x998 }, .next_part = 3, .min_ms = INT64_MIN / 4, .max_ms = INT64_MAX / 4 };
	for (uint32_t i = 0; i < 2; i++) {
		struct generation_part *p = vec_add(&g.parts);
		*p = (struct generation_part){ .level = 0, .number = i + 1, .window = 9999999 * 24 + 1, .file = 7,
					       .object = { { 1, 0x777 + i }, UINT64_MAX / 4, { 0 } }, .header = view_of("h"), .index = view_of("i") };
	}
	assert_int_equal(generation_encode(&g, &bytes, &e), 0);
	generation_release(&g);
	world_put(&w, "one/g/000001-0000000998", buf_view(&bytes).ptr, buf_view(&bytes).len);
	static char text[65536];
	int status = bucket_call(&w, text, "verify --deep");
	if (status != 1 || !strstr(text, "problem(s)"))
		fail_msg("%d: %s", status, text);
	AUTOFREE char *dir = xasprintf("%s.got", w.k.dir), *all = xasprintf("get all %s", dir);
	status = bucket_call(&w, text, all);
	if (status != 1 || !strstr(text, "9999999 is left out: "))
		fail_msg("%d: %s", status, text);
	files_remove_tree(dir);
	bucket_call(&w, text, "ls");
	bucket_call(&w, text, "stats");
	world_end(&w);
}

static void test_adopt(void **state)
{
	(void)state;
	struct bucket_world w;
	struct err e;
	struct admin_bucket s;
	struct sink_result r;
	world_begin(&w);
	AUTOFREE char *dir = xasprintf("%s.new", w.k.dir), *adopt = xasprintf("adopt %s", dir), *yes = xasprintf("adopt --yes %s", dir);
	expect(&w, adopt, 1, "add --yes");
	expect(&w, yes, 0, "is the directory of one now");
	expect(&w, "ls", 0, "one  epoch 2");
	expect(&w, yes, 1, "is not empty");
	/* The one before is fenced. */
	assert_int_equal(kit_append(&w.k, 1, w.k.now_ms, 1, 20, &r), 0);
	assert_int_equal(tsdb_seal(w.k.db, true, &e), 0);
	assert_int_equal(tsdb_upload(w.k.db, &e), -ERR_CONFLICT);
	struct kit k;
	kit_set(&k, dir);
	k.o.objects = w.k.o.objects;
	k.o.server_id = "one";
	k.o.no_transfer = true;
	k.o.retention_ms = -1;
	k.now_ms = KIT_T0 + DAYS * DAY;
	kit_open(&k);
	if (tsdb_upload(k.db, &e))
		fail_msg("%s", e.msg);
	struct storage_admin *a = tsdb_admin(k.db);
	a->bucket(a, &s);
	assert_string_equal(s.id, "one");
	assert_string_equal(s.state, "writing");
	assert_int_equal(s.absent_days, 0);
	for (int day = 0; day < DAYS; day++)
		assert_true(world_sum_day(&k, day) == w.sum[day]);
	kit_close(&k);
	expect(&w, "verify --deep", 0, ": 0 problem(s)");
	files_remove_tree(dir);
	world_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_lists), cmocka_unit_test(test_other_configurations), cmocka_unit_test(test_orphans),
					    cmocka_unit_test(test_get), cmocka_unit_test(test_damage), cmocka_unit_test(test_repair), cmocka_unit_test(test_many_parts), cmocka_unit_test(test_hostile),
					    cmocka_unit_test(test_adopt) };
	if (!getenv("top_builddir"))
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
