/* SPDX-License-Identifier: Apache-2.0 */
/* One flipped bit, at random places of every kind of file that a storage consists of: it opens, what it has is what was appended,
 * what is not there is at most what the damaged block held, and is said; what was written after it stays. PYRRHA_LONG=1: many more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/view.h"
#include "tsdb/files.h"
#include "tsdb/record.h"
#include "tsdb/table.h"
#include "tsdb/testkit.h"
#include "tsdb/wal.h"

#define HOUR INT64_C(3600000)
#define PODS 5
#define HOURS 3   /* that are sealed */
#define PER_HOUR 6
#define IN_LOG 240 /* profiles of the open hour */
#define WAL_BLOCK 32768
#define TABLE_BLOCK 4096

static uint64_t random_state = 20260701;

static void run(const char *a, const char *b, const char *c, const char *d)
{
	int status;
	pid_t pid = fork();
	if (!pid) {
		execlp(a, a, b, c, d, (char *)NULL);
		_exit(1);
	}
	assert_true(waitpid(pid, &status, 0) == pid && status == 0);
}

/* ---- the storage as it was ---- */

struct appended {
	unsigned pod;
	int64_t t_ms, total;
};

struct original {
	struct kit k;
	VEC(struct appended) v;
};

static void add(struct original *o, unsigned pod, int64_t t_ms, uint32_t n)
{
	uint64_t seed = kit_random(&random_state);
	o->k.now_ms = t_ms;
	assert_int_equal(kit_append(&o->k, pod, t_ms, seed, n, NULL), 0);
	tsdb_flush(o->k.db); /* a record each, and one for its symbols */
	vec_push(&o->v, (struct appended){ pod, t_ms, kit_profile_total(seed, n) });
}

/* In memory, where it can be: what outlasts a power loss is not the question here. */
static void make_dir(struct kit *k)
{
	char dir[] = "/dev/shm/pyrrha-flip-XXXXXX";
	if (access("/dev/shm", W_OK) == 0 && mkdtemp(dir))
		kit_set(k, dir);
	else
		kit_init(k);
}

/* Hours in parts, the last of them still in the log beside what is only there, in several tables and a write-ahead file. */
static void make(struct original *o)
{
	struct err e;
	make_dir(&o->k);
	o->k.o.no_sealing = true;
	kit_open(&o->k);
	for (int h = 0; h < HOURS; h++)
		for (int i = 0; i < PER_HOUR; i++)
			for (unsigned pod = 0; pod < PODS; pod++)
				add(o, pod, KIT_T0 + h * HOUR + (i + 1) * HOUR / (PER_HOUR + 1) + pod, 40);
	o->k.now_ms += HOUR;
	assert_int_equal(tsdb_seal(o->k.db, true, &e), 0);
	for (int i = 0; i < IN_LOG; i++) {
		if (i == IN_LOG / 3 || i == IN_LOG * 2 / 3)
			kit_reopen(&o->k); /* makes a table of the write-ahead file */
		add(o, (unsigned)i % PODS, KIT_T0 + (HOURS + 1) * HOUR + (i + 1) * 10000, 40);
	}
	kit_close(&o->k);
}

/* ---- what is there ---- */

struct found {
	bool *there;    /* by profile of the original */
	size_t n, lost; /* lost: of the original */
	uint64_t lost_records, lost_symbols;
};

static void see_profile(const struct original *o, struct found *f, struct view pod, const struct source_profile *p)
{
	for (size_t i = 0; i < o->v.n; i++)
		if (o->v.v[i].t_ms == p->t_ms && pod.len == 5 && (unsigned)(pod.ptr[4] - '0') == o->v.v[i].pod) {
			assert_true(o->v.v[i].total == p->total);
			assert_false(f->there[i]);
			f->there[i] = true;
			f->n++;
			return;
		}
	fail_msg("a profile at %lld that nobody appended", (long long)p->t_ms);
}

static void look(struct kit *k, const struct original *o, struct found *f)
{
	struct source_view *v;
	struct source_series *s;
	struct source_profile *p;
	struct matcher m;
	struct err e = { 0 };
	size_t n, n_p;
	struct tsdb_stats stats;
	*f = (struct found){ .there = xcalloc(o->v.n + 1, sizeof *f->there) };
	assert_int_equal(tsdb_source(k->db)->open(tsdb_source(k->db), &v, &e), 0);
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW(LABEL_NAME), view_of(KIT_SAMPLES), &e), 0);
	assert_int_equal(v->ops->select(v, &m, 1, 0, INT64_MAX, NULL, &s, &n, &e), 0);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(v->ops->profiles(v, s[i].ref, 0, INT64_MAX, NULL, &p, &n_p, &e), 0);
		for (size_t j = 0; j < n_p; j++)
			see_profile(o, f, labels_get(s[i].labels, VIEW("pod")), &p[j]);
		free(p);
	}
	free(s);
	matcher_release(&m);
	v->ops->release(v);
	tsdb_stats(k->db, &stats);
	f->lost = o->v.n - f->n;
	f->lost_records = stats.lost_records;
	f->lost_symbols = stats.lost_symbols;
}

/* ---- one bit ---- */

static void flip(const char *path, long at, int bit)
{
	uint8_t byte;
	int fd = open(path, O_RDWR);
	assert_true(fd >= 0 && pread(fd, &byte, 1, at) == 1);
	byte ^= (uint8_t)(1u << bit);
	assert_int_equal(pwrite(fd, &byte, 1, at), 1);
	close(fd);
}

static long size_of(const char *path)
{
	struct stat st;
	assert_int_equal(stat(path, &st), 0);
	return (long)st.st_size;
}

/* The names of the files of dir that begin and end so. */
struct names {
	const char *begin, *end;
	VEC(char *) v;
};

static int add_name(void *arg, const char *name, struct err *e)
{
	struct names *n = arg;
	(void)e;
	if (view_starts(view_of(name), view_of(n->begin)) && view_ends(view_of(name), view_of(n->end)))
		vec_push(&n->v, xstrdup(name));
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static struct names names_of(const char *dir, const char *begin, const char *end)
{
	struct names n = { .begin = begin, .end = end };
	files_each(dir, add_name, &n, NULL);
	assert_true(n.v.n > 0);
	qsort(n.v.v, n.v.n, sizeof *n.v.v, by_name);
	return n;
}

/* Where in a file of the log the records lie. */
struct place {
	long at, end;
};

struct places {
	struct view bytes;
	VEC(struct place) v;
};

static int add_place(void *arg, struct view key, struct view value, struct err *e)
{
	struct places *p = arg;
	uint64_t number = 0;
	(void)e;
	for (size_t i = 0; key.len == 8 && i < 8; i++)
		number = number << 8 | (uint8_t)key.ptr[i];
	const char *at = memmem(p->bytes.ptr, p->bytes.len, value.ptr + value.len - 8, 8); /* its checksum is its own */
	long end = at ? (long)(at - p->bytes.ptr) + 8 : 0;
	if (number && at)
		vec_push(&p->v, (struct place){ end - (long)value.len, end });
	return 0;
}

static int add_places(void *arg, struct view entry, struct err *e)
{
	int rc;
	wal_batch(entry, add_place, arg, &rc, e);
	return rc;
}

/* How many records of the file a flipped bit may cost. */
static size_t may_lose(const char *path, long at)
{
	CLEANUP(buf_free) struct buf b = { 0 };
	struct places p = { 0 };
	struct table_loss tl;
	struct wal_loss wl;
	struct err e;
	size_t n = 0;
	bool is_log = view_ends(view_of(path), VIEW(".log"));
	if (!is_log && !view_ends(view_of(path), VIEW(".sst")))
		return 0;
	assert_int_equal(buf_read_file(&b, path, &e), 0);
	p.bytes = buf_view(&b);
	if (is_log)
		wal_each(p.bytes, add_places, &p, &wl, &e);
	else
		table_each(path, add_place, &p, &tl, &e);
	long block = is_log ? WAL_BLOCK : TABLE_BLOCK, lo = is_log ? at / block * block : at - 2 * block, hi = is_log ? lo + block : at + 2 * block;
	for (size_t i = 0; i < p.v.n; i++)
		n += p.v.v[i].end > lo && p.v.v[i].at < hi;
	if (!is_log && p.v.n && at > p.v.v[p.v.n - 1].end + 200)
		n = 0; /* index, properties, footer: no record lies there */
	vec_free(&p.v);
	return n;
}

struct tally {
	size_t trials, harmed, lost, may;
};

/* Flips a bit of dir/name in a copy and opens that twice. */
static void trial(const struct original *o, const char *sub, const char *name, bool of_log, struct tally *t)
{
	struct kit k;
	struct found f;
	AUTOFREE char *copy = xasprintf("%s.copy", o->k.dir), *path = xasprintf("%s/%s%s", copy, sub, name);
	files_remove_tree(copy);
	run("cp", "-r", o->k.dir, copy);
	long at = (long)(kit_random(&random_state) % (uint64_t)size_of(path));
	int bit = (int)(kit_random(&random_state) % 8);
	size_t may = of_log ? may_lose(path, at) : 0;
	if (getenv("FLIP_TRACE"))
		fprintf(stderr, "flip %s%s at %ld bit %d: may lose %zu\n", sub, name, at, bit, may);
	flip(path, at, bit);
	kit_set(&k, copy);
	k.o.no_sealing = true;
	k.now_ms = o->k.now_ms;
	kit_open(&k);
	look(&k, o, &f);
	if (f.lost > may || (f.lost && !f.lost_records))
		fail_msg("bit %d of byte %ld of %s%s: %zu profiles are gone, the block had %zu records, %llu are said to be lost", bit, at, sub,
			 name, f.lost, may, (unsigned long long)f.lost_records);
	assert_int_equal(kit_append(&k, 1, o->k.now_ms + 1000, 5, 40, NULL), 0);
	assert_int_equal(kit_count(&k, KIT_SAMPLES, 0, INT64_MAX, NULL), f.n);
	tsdb_flush(k.db);
	kit_reopen(&k);
	assert_int_equal(kit_count(&k, KIT_SAMPLES, 0, INT64_MAX, NULL), f.n + 1);
	kit_close(&k);
	t->trials++;
	t->harmed += f.lost > 0;
	t->lost += f.lost;
	t->may += may;
	free(f.there);
	files_remove_tree(copy);
}

static unsigned scaled(unsigned n)
{
	return getenv("PYRRHA_LONG") ? n * 60 : n;
}

static void trials(const struct original *o, const char *sub, const char *begin, const char *end, bool of_log, unsigned n)
{
	AUTOFREE char *dir = xasprintf("%s/%s", o->k.dir, sub);
	struct names names = names_of(dir, begin, end);
	struct tally t = { 0 };
	for (unsigned i = 0; i < scaled(n); i++)
		trial(o, sub, names.v.v[i % names.v.n], of_log, &t);
	print_message("%-14s%s%s: %zu bits, %zu of them cost something: %zu profiles of %zu records in their blocks\n", sub, begin, end, t.trials,
		      t.harmed, t.lost, t.may);
	for (size_t i = 0; i < names.v.n; i++)
		free(names.v.v[i]);
	vec_free(&names.v);
}

static void test_log(void **state)
{
	struct original o = { 0 };
	(void)state;
	make(&o);
	trials(&o, "head/", "", ".sst", true, 14);
	trials(&o, "head/", "", ".log", true, 8);
	trials(&o, "head/", "MANIFEST", "", true, 3);
	trials(&o, "head/", "CURRENT", "", true, 3);
	trials(&o, "head/", "OPTIONS", "", true, 1);
	trials(&o, "head/", "IDENTITY", "", true, 1);
	trials(&o, "", "head.marks", "", true, 3);
	vec_free(&o.v);
	kit_free(&o.k);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_log) };
	log_setup(LOG_LEVEL_ERROR + 1, LOG_FORMAT_LOGFMT);
	return cmocka_run_group_tests_name("flipped bits", tests, NULL, NULL);
}
