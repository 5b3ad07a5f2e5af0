/* SPDX-License-Identifier: Apache-2.0 */
/* One suite for every kind of store, and beside it what a directory alone can meet. The suite runs over a directory, and over the store of the section
 * object_storage in the file that PYRRHA_BUCKET_CONFIG names: an S3, as tests/e2e starts them. Each test has a folder of its own there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/sha256.h"
#include "base/thread.h"
#include "base/vec.h"
#include "bucket/backend.h"

#define THREADS 12

/* ---- the store ---- */

static struct {
	struct bucket *bucket;
	struct objects *o;
	char dir[4096];         /* "" unless it is a directory */
	struct config_tree *tree;
	struct arena arena;
	struct bucket_config config;
	char place[32];         /* of a test: the first part of its keys, with a slash */
} S;

static int open_directory(void **state)
{
	const char *tmp = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
	struct err e = { 0 };
	(void)state;
	snprintf(S.dir, sizeof S.dir, "%s/pyrrha-bucket-XXXXXX", tmp);
	if (!mkdtemp(S.dir))
		return -1;
	S.config = (struct bucket_config){ .type = BUCKET_FILESYSTEM, .prefix = "In/A_folder", .directory = S.dir, .requests = 16 };
	if (bucket_open(&S.bucket, &S.config, NULL, &e))
		return -1;
	S.o = bucket_objects(S.bucket);
	return 0;
}

static int open_configured(void **state)
{
	struct err e = { 0 };
	struct config_ctx c = { .arena = &S.arena };
	(void)state;
	arena_init(&S.arena, 0);
	S.dir[0] = 0;
	int rc = config_load(&S.tree, getenv("PYRRHA_BUCKET_CONFIG"), &e);
	if (!rc)
		rc = bucket_config_decode(S.tree, false, &c, &S.config, &e);
	if (!rc)
		rc = bucket_open(&S.bucket, &S.config, NULL, &e);
	config_ctx_release(&c);
	if (rc)
		fprintf(stderr, "PYRRHA_BUCKET_CONFIG: %s\n", e.msg);
	else
		S.o = bucket_objects(S.bucket);
	return rc;
}

static int close_store(void **state)
{
	(void)state;
	bucket_free(TAKE_PTR(S.bucket));
	if (S.dir[0])
		files_remove_tree(S.dir);
	else
		arena_free(&S.arena);
	config_free(TAKE_PTR(S.tree));
	return 0;
}

/* ---- short words for calls ---- */

static const char *key(const char *name)
{
	static __thread char keys[8][OBJECTS_KEY_MAX + 64];
	static __thread unsigned turn;
	char *k = keys[turn++ % ARRAY_LEN(keys)];
	snprintf(k, sizeof keys[0], "%s%s", S.place, name);
	return k;
}

struct text {
	const char *p;
	size_t n;
	int64_t fail_at; /* read fails from this offset on; -1 = never */
};

static int read_text(void *arg, uint64_t offset, char *p, size_t n, struct err *e)
{
	const struct text *t = arg;
	if (t->fail_at >= 0 && offset + n > (uint64_t)t->fail_at)
		return err_set(e, ERR_IO, "a disk of tests");
	if (offset + n > t->n)
		return err_set(e, ERR_INTERNAL, "read behind the end");
	memcpy(p, t->p + offset, n);
	return 0;
}

static int put(const char *k, const char *p, size_t n, struct err *e)
{
	struct text t = { p, n, -1 };
	struct objects_body b = { .size = n, .read = read_text, .arg = &t };
	sha256_of(view_make(p, n), b.sha256);
	return S.o->put(S.o, k, &b, e);
}

static int collect(void *arg, const char *p, size_t n, struct err *e)
{
	(void)e;
	buf_put(arg, p, n);
	return 0;
}

static int get(const char *k, uint64_t offset, uint64_t length, struct buf *ret, uint64_t *ret_size, struct err *e)
{
	buf_reset(ret);
	return S.o->get(S.o, k, offset, length, collect, ret, ret_size, e);
}

static void assert_content(const char *k, const char *p, size_t n)
{
	struct buf b = { 0 };
	struct err e = { 0 };
	uint64_t size = 77;
	if (get(k, 0, UINT64_MAX, &b, &size, &e))
		fail_msg("%s: %s", k, e.msg);
	assert_int_equal(size, n);
	assert_int_equal(b.len, n);
	assert_true(!n || !memcmp(b.ptr, p, n));
	buf_free(&b);
}

struct listing {
	struct buf text;  /* "key key " without the place */
	size_t n, stop_at; /* 0 = never */
	int stop_with;
	int64_t least_ms, size;
};

static int add_found(void *arg, const struct objects_found *x, struct err *e)
{
	struct listing *l = arg;
	buf_printf(&l->text, "%s ", x->key + strlen(S.place));
	l->least_ms = MIN(l->n ? l->least_ms : INT64_MAX, x->modified_ms);
	l->size += (int64_t)x->size;
	if (++l->n == l->stop_at)
		return l->stop_with < 0 ? err_set(e, (enum err_code)-l->stop_with, "enough") : l->stop_with;
	return 0;
}

/* The keys of a list as one text. */
static void assert_list(const char *prefix, const char *after, const char *want)
{
	struct listing l = { 0 };
	struct err e = { 0 };
	if (S.o->list(S.o, key(prefix), *after ? key(after) : "", add_found, &l, &e))
		fail_msg("%s", e.msg);
	assert_string_equal(l.text.ptr ? l.text.ptr : "", want);
	buf_free(&l.text);
}

static int remove_found(void *arg, const struct objects_found *x, struct err *e)
{
	(void)arg;
	return S.o->remove(S.o, x->key, e);
}

static int new_place(void **state)
{
	uint64_t random = 0;
	(void)state;
	if (getrandom(&random, sizeof random, 0) != sizeof random)
		return -1;
	snprintf(S.place, sizeof S.place, "t-%016llx/", (unsigned long long)random);
	return 0;
}

static int clear_place(void **state)
{
	struct err e = { 0 };
	(void)state;
	return S.o->list(S.o, S.place, "", remove_found, NULL, &e);
}

static char *random_bytes(size_t n)
{
	char *p = xmalloc(n + 1);
	uint64_t x = 88172645463325252u;
	for (size_t i = 0; i < n; i++) {
		x ^= x << 13, x ^= x >> 7, x ^= x << 17;
		p[i] = (char)x;
	}
	return p;
}

/* ---- the suite ---- */

static void what_is_put_is_got(void **state)
{
	static const size_t sizes[] = { 0, 1, 1000, BACKEND_PIECE - 1, BACKEND_PIECE, BACKEND_PIECE + 1, 3 * BACKEND_PIECE + 17 };
	struct err e = { 0 };
	char name[32];
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		AUTOFREE char *p = random_bytes(sizes[i]);
		snprintf(name, sizeof name, "a/size-%zu", sizes[i]);
		if (put(key(name), p, sizes[i], &e))
			fail_msg("%s: %s", name, e.msg);
		assert_content(key(name), p, sizes[i]);
	}
	struct listing l = { 0 };
	assert_int_equal(S.o->list(S.o, key("a/size-1000"), "", add_found, &l, &e), 0);
	assert_int_equal(l.n, 1);
	assert_int_equal(l.size, 1000);
	assert_true(llabs(clock_now_ms() - l.least_ms) < (int64_t)24 * 3600 * 1000);
	buf_free(&l.text);
	assert_int_equal(S.o->remove(S.o, key("a/size-1000"), &e), 0);
	assert_list("a/size-1000", "", "");
}

static void ranges(void **state)
{
	size_t n = 2 * BACKEND_PIECE + 100;
	AUTOFREE char *p = random_bytes(n);
	struct buf b = { 0 };
	struct err e = { 0 };
	uint64_t size = 0;
	const struct {
		uint64_t offset, length, want;
	} cases[] = { { 0, 1, 1 }, { 0, UINT64_MAX, n }, { 5, BACKEND_PIECE + 3, BACKEND_PIECE + 3 }, { n - 1, 1, 1 }, { n - 1, 100, 1 },
		      { n, 1, 0 }, { n, UINT64_MAX, 0 }, { n + 1000, 10, 0 }, { 10, 0, 0 }, { 10, UINT64_MAX - 5, n - 10 } };
	(void)state;
	assert_int_equal(put(key("object"), p, n, &e), 0);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		size = 0;
		if (get(key("object"), cases[i].offset, cases[i].length, &b, &size, &e))
			fail_msg("case %zu: %s", i, e.msg);
		assert_int_equal(size, n);
		assert_int_equal(b.len, cases[i].want);
		assert_true(!b.len || !memcmp(b.ptr, p + cases[i].offset, b.len));
	}
	/* Of nothing. */
	assert_int_equal(put(key("empty"), "", 0, &e), 0);
	assert_int_equal(get(key("empty"), 0, 0, &b, &size, &e), 0);
	assert_int_equal(size, 0);
	assert_int_equal(get(key("empty"), 3, 9, &b, &size, &e), 0);
	assert_int_equal(b.len, 0);
	buf_free(&b);
}

static void what_is_not_there(void **state)
{
	struct buf b = { 0 };
	struct err e = { 0 };
	uint64_t size = 42;
	(void)state;
	assert_int_equal(get(key("none"), 0, UINT64_MAX, &b, &size, &e), -ERR_NOT_FOUND);
	assert_int_equal(get(key("none"), 0, 0, &b, &size, &e), -ERR_NOT_FOUND);
	assert_int_equal(get(key("no/such/folder"), 10, 20, &b, &size, NULL), -ERR_NOT_FOUND);
	assert_int_equal(size, 42);
	assert_int_equal(S.o->remove(S.o, key("none"), &e), 0);
	assert_int_equal(S.o->remove(S.o, key("no/such/folder"), &e), 0);
	assert_list("", "", "");
	assert_int_equal(put(key("a/b"), "x", 1, &e), 0);
	assert_int_equal(get(key("a"), 0, UINT64_MAX, &b, &size, &e), -ERR_NOT_FOUND); /* the folder of an object is none */
	assert_int_equal(get(key("a/b/c"), 0, UINT64_MAX, &b, &size, &e), -ERR_NOT_FOUND);
	assert_int_equal(S.o->remove(S.o, key("a"), &e), 0);
	assert_content(key("a/b"), "x", 1);
	assert_int_equal(S.o->remove(S.o, key("a/b"), &e), 0);
	assert_int_equal(S.o->remove(S.o, key("a/b"), &e), 0);
	assert_int_equal(get(key("a/b"), 0, UINT64_MAX, &b, &size, &e), -ERR_NOT_FOUND);
	buf_free(&b);
}

static void a_name_is_used_once(void **state)
{
	struct err e = { 0 };
	(void)state;
	assert_int_equal(put(key("k"), "first", 5, &e), 0);
	assert_int_equal(put(key("k"), "first", 5, &e), 0);
	assert_int_equal(put(key("k"), "other", 5, &e), -ERR_CONFLICT);
	assert_non_null(strstr(e.msg, "another content"));
	assert_int_equal(put(key("k"), "longer than that", 16, &e), -ERR_CONFLICT);
	assert_int_equal(put(key("k"), "", 0, NULL), -ERR_CONFLICT);
	assert_content(key("k"), "first", 5);
	assert_int_equal(S.o->remove(S.o, key("k"), &e), 0);
	assert_int_equal(put(key("k"), "second", 6, &e), 0);
	assert_content(key("k"), "second", 6);
}

/* What is not what its hash says, or cannot be read, leaves no object. */
static void a_false_body(void **state)
{
	AUTOFREE char *p = random_bytes(2 * BACKEND_PIECE);
	struct text t = { p, 2 * BACKEND_PIECE, -1 };
	struct objects_body b = { .size = t.n, .sha256 = "wrong", .read = read_text, .arg = &t };
	struct err e = { 0 };
	(void)state;
	assert_int_equal(S.o->put(S.o, key("k"), &b, &e), -ERR_CORRUPT);
	sha256_of(view_make(p, t.n), b.sha256);
	t.fail_at = BACKEND_PIECE + 5;
	assert_int_equal(S.o->put(S.o, key("k"), &b, &e), -ERR_IO);
	assert_non_null(strstr(e.msg, "a disk of tests"));
	assert_list("", "", "");
	t.fail_at = -1;
	assert_int_equal(S.o->put(S.o, key("k"), &b, &e), 0);
	assert_content(key("k"), p, t.n);
}

static void keys_that_are_none(void **state)
{
	static const char *const keys[] = { "", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/../../b", "a/.", "./a", "a/..", "A", "a_b", "a b", "a~b", "a\\b", "\xc3\xa4",
					    "a\n", "a%2fb", "a?b", "a=b", "a+b", "a*" };
	struct err e = { 0 };
	struct buf b = { 0 };
	struct listing l = { 0 };
	char name[OBJECTS_KEY_MAX + 2];
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		assert_int_equal(put(keys[i], "x", 1, &e), -ERR_BAD_DATA);
		assert_int_equal(get(keys[i], 0, UINT64_MAX, &b, NULL, &e), -ERR_BAD_DATA);
		assert_int_equal(S.o->remove(S.o, keys[i], &e), -ERR_BAD_DATA);
	}
	assert_int_equal(S.o->list(S.o, "../", "", add_found, &l, &e), -ERR_BAD_DATA);
	assert_int_equal(S.o->list(S.o, "a/..", "", add_found, &l, &e), 0); /* "..b" may be a part of a key */
	assert_int_equal(S.o->list(S.o, "a/../b", "", add_found, &l, &e), -ERR_BAD_DATA);
	assert_int_equal(S.o->list(S.o, "/", "", add_found, &l, &e), -ERR_BAD_DATA);
	assert_int_equal(S.o->list(S.o, "A", "", add_found, &l, &e), -ERR_BAD_DATA);
	assert_int_equal(S.o->list(S.o, "", "\n", add_found, &l, NULL), -ERR_BAD_DATA);
	assert_int_equal(l.n, 0);
	memset(name, 'k', sizeof name);
	name[OBJECTS_KEY_MAX + 1] = 0;
	assert_int_equal(put(name, "x", 1, &e), -ERR_BAD_DATA);
	/* The longest, and dots that are no folder. */
	for (size_t i = 200; i < OBJECTS_KEY_MAX; i += 200)
		name[i] = '/';
	memcpy(name, S.place, strlen(S.place));
	name[OBJECTS_KEY_MAX] = 0;
	if (put(name, "long", 4, &e))
		fail_msg("%s", e.msg);
	assert_content(name, "long", 4);
	assert_int_equal(put(key(".a/..b/c..d/e."), "dots", 4, &e), 0);
	assert_content(key(".a/..b/c..d/e."), "dots", 4);
	assert_list(".a/..", "", ".a/..b/c..d/e. ");
}

static void keys_in_order(void **state)
{
	static const char *const keys[] = { "a/b/c", "ab", "a-b", "a.b", "a0", "a/b0", "a/b-", "a/b.", "a/0", "b", "a/bb/c", "a/b/c0" };
	struct err e = { 0 };
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		assert_int_equal(put(key(keys[i]), "x", 1, &e), 0);
	/* - . / and digits, in the order of bytes, also where one is a folder */
	assert_list("", "", "a-b a.b a/0 a/b- a/b. a/b/c a/b/c0 a/b0 a/bb/c a0 ab b ");
	assert_list("a/b", "", "a/b- a/b. a/b/c a/b/c0 a/b0 a/bb/c ");
	assert_list("a/b/", "", "a/b/c a/b/c0 ");
	assert_list("a/b/c", "", "a/b/c a/b/c0 ");
	assert_list("a/b/c0", "", "a/b/c0 ");
	assert_list("a/b/c01", "", "");
	assert_list("ab/", "", "");
	assert_list("", "a/b/c", "a/b/c0 a/b0 a/bb/c a0 ab b ");
	assert_list("", "a/b", "a/b- a/b. a/b/c a/b/c0 a/b0 a/bb/c a0 ab b ");
	assert_list("", "a/b/", "a/b/c a/b/c0 a/b0 a/bb/c a0 ab b ");
	assert_list("", "a/b/zzz", "a/b0 a/bb/c a0 ab b ");
	assert_list("a/", "a/b/c0", "a/b0 a/bb/c ");
	assert_list("a/b/", "a", "a/b/c a/b/c0 ");
	assert_list("a/b/", "a/b/c0", "");
	assert_list("a/b/", "b", "");
	assert_list("", "b", "");
}

/* THREADS writers; each has its own content, or all the same. */
struct writer {
	pthread_t thread;
	int i, rc;
	bool same;
	struct err e;
};

static void *write_one(void *arg)
{
	struct writer *w = arg;
	char text[64];
	snprintf(text, sizeof text, "of writer %d", w->same ? 0 : w->i);
	w->rc = put(key("race"), text, strlen(text), &w->e);
	return NULL;
}

static int race(bool same)
{
	struct writer w[THREADS];
	int winner = -1;
	struct err e = { 0 };
	for (int i = 0; i < THREADS; i++) {
		w[i] = (struct writer){ .i = i, .same = same };
		assert_int_equal(thread_start(&w[i].thread, "writer", write_one, &w[i], &e), 0);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(w[i].thread, NULL);
	for (int i = 0; i < THREADS; i++) {
		if (w[i].rc && (same || w[i].rc != -ERR_CONFLICT))
			fail_msg("writer %d: %s", i, w[i].e.msg);
		if (!w[i].rc && !same && winner >= 0)
			fail_msg("both %d and %d have written", winner, i);
		winner = w[i].rc ? winner : i;
	}
	return winner;
}

static void one_writer_wins(void **state)
{
	char text[64];
	(void)state;
	for (int i = 0; i < 10; i++) {
		int winner = race(false);
		assert_true(winner >= 0);
		snprintf(text, sizeof text, "of writer %d", winner);
		assert_content(key("race"), text, strlen(text));
		assert_list("", "", "race ");
		assert_int_equal(S.o->remove(S.o, key("race"), NULL), 0);
		race(true);
		assert_content(key("race"), "of writer 0", 11);
		assert_int_equal(S.o->remove(S.o, key("race"), NULL), 0);
	}
}

#define MANY 3000

static void *put_many(void *arg)
{
	struct writer *w = arg;
	char name[32];
	for (int i = w->i; i < MANY && !w->rc; i += THREADS) {
		snprintf(name, sizeof name, "%s/%04d", i < MANY / 2 ? "m" : "m.d", i);
		w->rc = put(key(name), name, 4, &w->e);
	}
	return NULL;
}

static void many_objects(void **state)
{
	struct writer w[THREADS];
	struct err e = { 0 };
	(void)state;
	for (int i = 0; i < THREADS; i++) {
		w[i] = (struct writer){ .i = i };
		assert_int_equal(thread_start(&w[i].thread, "writer", put_many, &w[i], &e), 0);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(w[i].thread, NULL);
		if (w[i].rc)
			fail_msg("%s", w[i].e.msg);
	}
	struct listing all = { 0 }, some = { .stop_at = 1500, .stop_with = 1 }, failed = { .stop_at = 1700, .stop_with = -ERR_LIMIT }, rest = { 0 };
	struct buf want = { 0 };
	assert_int_equal(S.o->list(S.o, S.place, "", add_found, &all, &e), 0);
	assert_int_equal(all.n, MANY);
	for (int i = 0; i < MANY; i++) { /* '.' is before '/' */
		int k = (i + MANY / 2) % MANY;
		buf_printf(&want, "%s/%04d ", k < MANY / 2 ? "m" : "m.d", k);
	}
	assert_string_equal(all.text.ptr, want.ptr);
	assert_int_equal(S.o->list(S.o, S.place, "", add_found, &some, &e), 0);
	assert_int_equal(some.n, 1500);
	assert_int_equal(S.o->list(S.o, S.place, "", add_found, &failed, &e), -ERR_LIMIT);
	assert_string_equal(e.msg, "enough");
	assert_int_equal(failed.n, 1700);
	assert_int_equal(S.o->list(S.o, key("m/"), key("m/0099"), add_found, &rest, &e), 0);
	assert_int_equal(rest.n, MANY / 2 - 100);
	assert_true(view_starts(buf_view(&rest.text), VIEW("m/0100 ")));
	buf_free(&all.text);
	buf_free(&some.text);
	buf_free(&failed.text);
	buf_free(&rest.text);
	buf_free(&want);
}

/* ---- a directory ---- */

static char *file_at(const char *name)
{
	return xasprintf("%s/%s/%s%s", S.dir, S.config.prefix, S.place, name);
}

static void make_file(const char *name, int64_t age_s)
{
	AUTOFREE char *path = file_at(name);
	int fd = open(path, O_WRONLY | O_CREAT, 0600);
	struct timespec t[2] = { { .tv_sec = time(NULL) - age_s }, { .tv_sec = time(NULL) - age_s } };
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "half", 4), 4);
	assert_int_equal(futimens(fd, t), 0);
	close(fd);
}

static bool is_file(const char *name)
{
	AUTOFREE char *path = file_at(name);
	return access(path, F_OK) == 0;
}

static void an_object_is_a_file(void **state)
{
	AUTOFREE char *path = file_at("a/b-1");
	struct stat st;
	(void)state;
	assert_int_equal(put(key("a/b-1"), "text", 4, NULL), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, 4);
	assert_int_equal(st.st_nlink, 1);
	assert_int_equal(st.st_mode & 07777, 0640);
	/* Folders go with their last object; the root stays. */
	assert_int_equal(S.o->remove(S.o, key("a/b-1"), NULL), 0);
	assert_false(is_file("a"));
	assert_false(is_file(""));
	assert_int_equal(access(S.dir, F_OK), 0);
	/* An object has no objects below it. */
	struct err e = { 0 };
	assert_int_equal(put(key("a"), "text", 4, NULL), 0);
	assert_int_equal(put(key("a/b"), "text", 4, &e), -ERR_BAD_DATA);
	assert_non_null(strstr(e.msg, "is an object"));
	assert_int_equal(put(key("c/d"), "text", 4, NULL), 0);
	assert_int_equal(put(key("c"), "text", 4, &e), -ERR_BAD_DATA);
	assert_non_null(strstr(e.msg, "is a directory"));
}

static void leftovers_of_a_crash(void **state)
{
	(void)state;
	assert_int_equal(put(key("a/b"), "x", 1, NULL), 0);
	make_file("a/~0123-old", 25 * 3600);
	make_file("a/~0123-new", 60);
	make_file("a/Other", 25 * 3600);
	assert_list("", "", "a/b ");
	assert_false(is_file("a/~0123-old"));
	assert_true(is_file("a/~0123-new"));
	assert_true(is_file("a/Other")); /* of others: passed over */
	AUTOFREE char *new = file_at("a/~0123-new"), *other = file_at("a/Other");
	unlink(new);
	unlink(other);
}

static void links_in_a_circle(void **state)
{
	AUTOFREE char *one = file_at("a/one"), *two = file_at("a/two");
	(void)state;
	assert_int_equal(put(key("a/b"), "x", 1, NULL), 0);
	assert_int_equal(symlink(".", one), 0);
	assert_int_equal(symlink("..", two), 0);
	assert_list("", "", "a/b ");
	unlink(one);
	unlink(two);
}

/* A process that dies within a put, after a piece. */
static int die_on_second(void *arg, uint64_t offset, char *p, size_t n, struct err *e)
{
	if (offset)
		_exit(7);
	return read_text(arg, offset, p, n, e);
}

static void a_death_leaves_no_half_object(void **state)
{
	AUTOFREE char *p = random_bytes(2 * BACKEND_PIECE);
	struct text t = { p, 2 * BACKEND_PIECE, -1 };
	struct objects_body b = { .size = t.n, .read = die_on_second, .arg = &t };
	struct buf got = { 0 };
	int status = 0;
	(void)state;
	sha256_of(view_make(p, t.n), b.sha256);
	pid_t child = fork();
	if (!child) {
		IGNORE(S.o->put(S.o, key("a/b"), &b, NULL)); /* it does not return */
		_exit(1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(WEXITSTATUS(status), 7);
	assert_list("", "", "");
	assert_int_equal(get(key("a/b"), 0, UINT64_MAX, &got, NULL, NULL), -ERR_NOT_FOUND);
	b.read = read_text;
	assert_int_equal(S.o->put(S.o, key("a/b"), &b, NULL), 0);
	assert_content(key("a/b"), p, t.n);
	assert_list("", "", "a/b ");
}

static void *put_and_remove(void *arg)
{
	struct writer *w = arg;
	char name[32];
	snprintf(name, sizeof name, "d/e/%d", w->i);
	for (int i = 0; i < 200 && !w->rc; i++) {
		w->rc = put(key(name), name, 4, &w->e);
		if (!w->rc)
			w->rc = S.o->remove(S.o, key(name), &w->e);
	}
	return NULL;
}

/* The folder is made and removed all the time. */
static void folders_that_come_and_go(void **state)
{
	struct writer w[4];
	struct err e = { 0 };
	(void)state;
	for (int i = 0; i < 4; i++) {
		w[i] = (struct writer){ .i = i };
		assert_int_equal(thread_start(&w[i].thread, "writer", put_and_remove, &w[i], &e), 0);
	}
	for (int i = 0; i < 4; i++) {
		pthread_join(w[i].thread, NULL);
		if (w[i].rc)
			fail_msg("%s", w[i].e.msg);
	}
	assert_list("", "", "");
}

static void a_directory_that_is_away(void **state)
{
	AUTOFREE char *dir = xasprintf("%s/none", S.dir);
	struct bucket_settings s = bucket_settings_default;
	struct objects *was = S.o;
	struct backend *backend;
	struct buf b = { 0 };
	struct listing l = { 0 };
	struct err e = { 0 };
	(void)state;
	s.first_wait_ms = 1;
	s.attempts = 2;
	assert_int_equal(bucket_fs_new(&backend, dir, &e), 0);
	assert_int_equal(rmdir(dir), 0); /* it was made */
	struct bucket *bucket = bucket_new(backend, &s);
	S.o = bucket_objects(bucket);
	assert_int_equal(put(key("a"), "x", 1, &e), -ERR_UNAVAILABLE);
	assert_non_null(strstr(e.msg, "is not there"));
	assert_int_equal(get(key("a"), 0, UINT64_MAX, &b, NULL, &e), -ERR_UNAVAILABLE);
	assert_int_equal(S.o->list(S.o, "", "", add_found, &l, &e), -ERR_UNAVAILABLE);
	assert_int_equal(S.o->remove(S.o, key("a"), &e), -ERR_UNAVAILABLE);
	bucket_free(bucket);
	S.o = was;
}

/* In a child with mounts of its own: a file system of 1 MiB over the directory. Exit status 77: that is not allowed here. */
static void within_a_small_disk(int (*body)(void))
{
	int status = 0;
	pid_t child = fork();
	if (!child) {
		if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) || mount("small", S.dir, "tmpfs", 0, "size=1m"))
			_exit(77);
		_exit(body());
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

#define STEP(condition) do { \
	if (!(condition)) { \
		fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, e.msg); \
		return 1; \
	} \
} while (0)

static int fill_disk(void)
{
	size_t n = 600 << 10;
	AUTOFREE char *p = random_bytes(n);
	struct listing l = { 0 };
	struct err e = { 0 };
	STEP(put(key("a"), p, n, &e) == 0);
	STEP(put(key("b"), p, n, &e) == -ERR_LIMIT && strstr(e.msg, "No space left"));
	STEP(S.o->list(S.o, "", "", add_found, &l, &e) == 0 && l.n == 1);
	STEP(S.o->remove(S.o, key("a"), &e) == 0);
	STEP(put(key("b"), p, n, &e) == 0); /* what did not fit was not kept */
	buf_free(&l.text);
	return 0;
}

static void a_full_disk(void **state)
{
	(void)state;
	within_a_small_disk(fill_disk);
}

static int only_read(void)
{
	struct listing l = { 0 };
	struct buf b = { 0 };
	struct err e = { 0 };
	STEP(put(key("a"), "x", 1, &e) == 0);
	STEP(mount("small", S.dir, "tmpfs", MS_REMOUNT | MS_RDONLY, NULL) == 0);
	STEP(put(key("a"), "x", 1, &e) == 0); /* it is there */
	STEP(put(key("b"), "x", 1, &e) == -ERR_DENIED && strstr(e.msg, "Read-only"));
	STEP(put(key("c/d"), "x", 1, &e) == -ERR_DENIED);
	STEP(S.o->remove(S.o, key("a"), &e) == -ERR_DENIED);
	STEP(S.o->remove(S.o, key("b"), &e) == 0);
	STEP(get(key("a"), 0, UINT64_MAX, &b, NULL, &e) == 0);
	STEP(S.o->list(S.o, "", "", add_found, &l, &e) == 0 && l.n == 1);
	buf_free(&b);
	buf_free(&l.text);
	return 0;
}

static void a_directory_that_is_only_read(void **state)
{
	(void)state;
	within_a_small_disk(only_read);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, new_place, clear_place)
#define SUITE TEST(what_is_put_is_got), TEST(ranges), TEST(what_is_not_there), TEST(a_name_is_used_once), TEST(a_false_body), TEST(keys_that_are_none), \
	TEST(keys_in_order), TEST(one_writer_wins), TEST(many_objects)

int main(void)
{
	static const struct CMUnitTest suite[] = { SUITE };
	static const struct CMUnitTest directory[] = { SUITE, TEST(an_object_is_a_file), TEST(leftovers_of_a_crash), TEST(links_in_a_circle), TEST(a_death_leaves_no_half_object),
						       TEST(folders_that_come_and_go), TEST(a_directory_that_is_away), TEST(a_full_disk),
						       TEST(a_directory_that_is_only_read) };
	int failed = cmocka_run_group_tests_name("directory", directory, open_directory, close_store);
	if (getenv("PYRRHA_BUCKET_CONFIG"))
		failed += cmocka_run_group_tests_name("configured store", suite, open_configured, close_store);
	return failed;
}
