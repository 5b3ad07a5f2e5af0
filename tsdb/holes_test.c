/* SPDX-License-Identifier: Apache-2.0 */
/* Harm to the files of a head log. Each kind either costs nothing (all answers equal those of the undamaged storage), or each answer that
 * it changes carries a warning: at once, after sealing, after two restarts, from a snapshot, and a day later. Once retention has passed
 * the damage, no answer carries one. PYRRHA_LONG=1: all kinds; otherwise every third. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/files.h"
#include "base/log.h"
#include "base/map.h"
#include "base/view.h"
#include "model/sourcekit.h"
#include "tsdb/disk/rocks.h"
#include "tsdb/inspect.h"
#include "tsdb/testkit.h"
#include "tsdb/version/db.h"

#define HOUR INT64_C(3600000)
#define DAY (24 * HOUR)
#define PODS 3u
#define IN_LOG 150         /* rounds of the hours that are not sealed */
#define OLD (KIT_T0 - 2 * DAY + 10 * HOUR) /* what is imported meanwhile */
#define PAGE 4096

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

static void make_dir(struct kit *k)
{
	char dir[] = "/dev/shm/pyrrha-holes-XXXXXX";
	if (access("/dev/shm", W_OK) == 0 && mkdtemp(dir))
		kit_set(k, dir);
	else
		kit_init(k);
	k->o.no_sealing = true;
}

static void add(struct kit *k, unsigned pod, int64_t t_ms)
{
	k->now_ms = MAX(k->now_ms, t_ms);
	assert_int_equal(kit_append(k, pod, t_ms, (uint64_t)t_ms * 7 + pod, 40, NULL), 0);
	tsdb_flush(k->db);
}

static void delete_of(struct kit *k, const char *pod, int64_t after, int64_t until)
{
	struct matcher m;
	struct err e;
	uint64_t n;
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW("pod"), view_of(pod), &e), 0);
	assert_int_equal(tsdb_delete(k->db, &m, 1, after, until, &n, &e), 0);
	assert_true(n > 0);
	matcher_release(&m);
}

/* Two hours in parts, of one of which a pod was deleted. Then one and a half hours in the log, of which the middle came together with an
 * import of an older day; in several tables and a write-ahead file. */
static void make(struct kit *k)
{
	struct err e;
	make_dir(k);
	kit_open(k);
	for (int i = 0; i < 12; i++)
		for (unsigned pod = 0; pod < PODS; pod++)
			add(k, pod, KIT_T0 + (i + 1) * 10 * 60000 - 1000 + pod);
	k->now_ms += HOUR;
	assert_int_equal(tsdb_seal(k->db, true, &e), 0);
	delete_of(k, "pod-1", KIT_T0, KIT_T0 + HOUR);
	for (int i = 0; i < IN_LOG; i++) {
		int64_t t = KIT_T0 + 3 * HOUR + (i + 1) * 40000;
		if (i % 50 == 10)
			kit_reopen(k); /* makes a table of the write-ahead file */
		add(k, (unsigned)i % PODS, t);
		assert_int_equal(kit_append_float(k, "load", t, i, NULL), 0);
		if (i >= 60 && i < 80)
			add(k, (unsigned)i % PODS, OLD + i * 60000);
	}
	tsdb_flush(k->db);
	kit_close(k);
}

/* ---- answers ---- */

static const int64_t starts[] = { OLD - 2 * HOUR, OLD, OLD + HOUR, OLD + 2 * HOUR, KIT_T0 - HOUR, KIT_T0, KIT_T0 + HOUR, KIT_T0 + 2 * HOUR,
				  KIT_T0 + 3 * HOUR, KIT_T0 + 4 * HOUR, KIT_T0 + 5 * HOUR };
#define QUESTIONS ARRAY_LEN(starts)

/* Of an hour. */
struct answer {
	size_t n, n_floats;
	int64_t total;
	uint64_t merged;
	bool said;
};

static struct source_series *series_of(struct source_view *v, const char *name, int64_t after, const struct source_limits *lim, size_t *n)
{
	struct matcher m;
	struct source_series *s;
	struct err e;
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW(LABEL_NAME), view_of(name), &e), 0);
	assert_int_equal(v->ops->select(v, &m, 1, after, after + HOUR, lim, &s, n, &e), 0);
	matcher_release(&m);
	return s;
}

static struct answer ask(struct kit *k, int64_t after)
{
	struct source_damage damage = { 0 };
	struct source_limits lim = { .damage = &damage };
	struct answer a = { 0 };
	struct source_view *v;
	struct err e;
	size_t n, n_p;
	assert_int_equal(tsdb_source(k->db)->open(tsdb_source(k->db), &v, &e), 0);
	struct source_series *s = series_of(v, KIT_SAMPLES, after, &lim, &n);
	for (size_t i = 0; i < n; i++) {
		struct source_part part = { s[i].ref, after, after + HOUR, 1, 0, 0, 0 };
		struct source_profile *p;
		struct stackvec *sum;
		assert_int_equal(one_series_profiles(v, s[i].ref, after, after + HOUR, &lim, &p, &n_p, &e), 0);
		for (size_t j = 0; j < n_p; j++)
			a.total += p[j].total;
		a.n += n_p;
		free(p);
		assert_int_equal(v->ops->merge(v, &part, 1, 1, SYMBOLS_WHOLE, &lim, &sum, &e), 0);
		a.merged += kit_vec_sum(sum);
		stackvec_unref(sum);
	}
	free(s);
	s = series_of(v, "load", after, &lim, &n);
	for (size_t i = 0; i < n; i++) {
		struct point *p;
		assert_int_equal(one_series_floats(v, s[i].ref, after, after + HOUR, &lim, &p, &n_p, &e), 0);
		a.n_floats += n_p;
		free(p);
	}
	free(s);
	v->ops->release(v);
	a.said = source_damage_met(&damage) > 0;
	return a;
}

/* An open makes a table of the write-ahead file. */
static void ask_copy(const struct kit *original, struct answer a[QUESTIONS])
{
	struct kit k;
	AUTOFREE char *copy = xasprintf("%s.copy", original->dir);
	run("cp", "-r", original->dir, copy);
	kit_set(&k, copy);
	k.o.no_sealing = true;
	k.now_ms = original->now_ms;
	kit_open(&k);
	for (size_t i = 0; i < QUESTIONS; i++)
		a[i] = ask(&k, starts[i]);
	kit_free(&k);
}

static bool same(const struct answer *a, const struct answer *b)
{
	return a->n == b->n && a->n_floats == b->n_floats && a->total == b->total && a->merged == b->merged;
}

/* What the answers say of what was done to the storage. */
struct tally {
	size_t harmed, said;
};

static struct tally hold(struct kit *k, const struct answer want[QUESTIONS], const char *harm, const char *when)
{
	struct tally t = { 0 };
	for (size_t i = 0; i < QUESTIONS; i++) {
		struct answer got = ask(k, starts[i]);
		bool whole = same(&got, &want[i]);
		if (!whole && !got.said)
			fail_msg("%s, %s: the hour from %lld has %zu profiles and %zu floats of %zu and %zu, and nothing is said", harm, when,
				 (long long)starts[i], got.n, got.n_floats, want[i].n, want[i].n_floats);
		t.harmed += !whole;
		t.said += got.said;
	}
	return t;
}

/* ---- kinds of harm ---- */

struct harm {
	const char *name, *file;  /* of those with that ending in head/, or a file of the directory */
	int which;                /* of several: from the front, -1 = all of them */
	void (*fn)(const char *path, double at);
	double at;                /* where in the file, of 1 */
	bool costs;               /* it cannot be without harm */
};

static long size_of(const char *path)
{
	struct stat st;
	assert_int_equal(stat(path, &st), 0);
	return (long)st.st_size;
}

static void cut(const char *path, double at)
{
	assert_int_equal(truncate(path, (long)((double)size_of(path) * at)), 0);
}

static void overwrite(const char *path, double at, size_t n, char with)
{
	long from = (long)((double)size_of(path) * at) / PAGE * PAGE;
	n = MIN(n, (size_t)(size_of(path) - from));
	AUTOFREE char *bytes = xcalloc(n + 1, 1);
	memset(bytes, with, n);
	int fd = open(path, O_WRONLY);
	assert_true(fd >= 0 && pwrite(fd, bytes, n, from) == (ssize_t)n);
	close(fd);
}

static void zero_page(const char *path, double at)
{
	overwrite(path, at, PAGE, 0);
}

static void zero_pages(const char *path, double at)
{
	overwrite(path, at, 8 * PAGE, 0);
}

static void garbage(const char *path, double at)
{
	overwrite(path, at, 512, 0x5a);
}

static void flip(const char *path, double at)
{
	char byte;
	long from = (long)((double)size_of(path) * at);
	int fd = open(path, O_RDWR);
	assert_true(fd >= 0 && pread(fd, &byte, 1, from) == 1);
	byte ^= 8;
	assert_int_equal(pwrite(fd, &byte, 1, from), 1);
	close(fd);
}

static void take_away(const char *path, double at)
{
	(void)at;
	run("rm", "-rf", "--", path);
}

static void double_end(const char *path, double at)
{
	CLEANUP(buf_free) struct buf b = { 0 };
	struct err e;
	(void)at;
	assert_int_equal(buf_read_file(&b, path, &e), 0);
	int fd = open(path, O_WRONLY | O_APPEND);
	assert_true(fd >= 0 && write(fd, b.ptr, b.len / 3) == (ssize_t)(b.len / 3));
	close(fd);
}

/* The log's own database without one record. */
static void without_record(const char *path, double at)
{
	char *error = NULL, key[8];
	uint64_t number = 0;
	rocksdb_options_t *o = rocks_options(NULL);
	rocksdb_t *db = rocksdb_open(o, path, &error);
	assert_null(error);
	rocksdb_readoptions_t *r = rocksdb_readoptions_create();
	rocksdb_writeoptions_t *w = rocksdb_writeoptions_create();
	rocksdb_iterator_t *it = rocksdb_create_iterator(db, r);
	size_t n = 0, len;
	for (rocksdb_iter_seek_to_first(it); rocksdb_iter_valid(it) && *rocksdb_iter_key(it, &len) == 0; rocksdb_iter_next(it))
		n++;
	size_t i = 0, want = (size_t)((double)(n - 1) * at);
	for (rocksdb_iter_seek_to_first(it); i < want; rocksdb_iter_next(it))
		i++;
	memcpy(key, rocksdb_iter_key(it, &len), sizeof key);
	for (i = 0; i < 8; i++)
		number = number << 8 | (uint8_t)key[i];
	assert_true(number > 0);
	rocksdb_iter_destroy(it);
	rocksdb_delete(db, w, key, 8, &error);
	assert_null(error);
	rocksdb_readoptions_destroy(r);
	rocksdb_writeoptions_destroy(w);
	rocksdb_close(db);
	rocksdb_options_destroy(o);
}

static const struct harm harms[] = {
	{ "a table that ends in its middle", ".sst", 1, cut, 0.5, false },
	{ "a table without its last tenth", ".sst", 2, cut, 0.9, false },
	{ "an empty table", ".sst", 1, cut, 0, false },
	{ "a zeroed page of a table", ".sst", 1, zero_page, 0.5, false },
	{ "a zeroed first page of a table", ".sst", 1, zero_page, 0, false },
	{ "a zeroed last page of a table", ".sst", 2, zero_page, 0.999, false },
	{ "eight zeroed pages of a table", ".sst", 1, zero_pages, 0.3, false },
	{ "a flipped bit of the first table", ".sst", 0, flip, 0.3, false },
	{ "a flipped bit of a table", ".sst", 1, flip, 0.4, false },
	{ "a flipped bit of a table's footer", ".sst", 1, flip, 0.9999, false },
	{ "a sector of garbage in a table", ".sst", 2, garbage, 0.2, false },
	{ "the first table is gone", ".sst", 0, take_away, 0, false },
	{ "a table is gone", ".sst", 1, take_away, 0, false },
	{ "the last table is gone", ".sst", 2, take_away, 0, false },
	{ "all tables are gone", ".sst", -1, take_away, 0, true },
	{ "a write-ahead file that ends in its middle", ".log", -1, cut, 0.5, true },
	{ "a write-ahead file without its end", ".log", -1, cut, 0.97, true },
	{ "an empty write-ahead file", ".log", -1, cut, 0, true },
	{ "no write-ahead file", ".log", -1, take_away, 0, true },
	{ "a flipped bit of the write-ahead file", ".log", -1, flip, 0.5, true },
	{ "a flipped bit at the end of the write-ahead file", ".log", -1, flip, 0.995, true },
	{ "a zeroed page of the write-ahead file", ".log", -1, zero_page, 0.4, true },
	{ "a zeroed beginning of the write-ahead file", ".log", -1, zero_pages, 0, true },
	{ "a write-ahead file that begins anew at its end", ".log", -1, double_end, 0, false },
	{ "a list of files that ends too early", "MANIFEST", 0, cut, 0.6, false },
	{ "no list of files", "MANIFEST", 0, take_away, 0, false },
	{ "no name of the list of files", "CURRENT", 0, take_away, 0, false },
	{ "no marks", "/head.marks", 0, take_away, 0, false },
	{ "a flipped bit of the marks", "/head.marks", 0, flip, 0.02, false },
	{ "a flipped bit of the marks' extents", "/head.marks", 0, flip, 0.5, false },
	{ "marks that end too early", "/head.marks", 0, cut, 0.4, false },
	{ "no log", "/head", 0, take_away, 0, true },
	{ "neither log nor marks", "/head*", 0, take_away, 0, true },
	{ "a fact is gone that the log kept", "/head", 0, without_record, 0, false },
	{ "symbols are gone", "/head", 0, without_record, 0.0101, false },
	{ "a record is gone", "/head", 0, without_record, 0.5, true },
	{ "an early record is gone", "/head", 0, without_record, 0.2, false },
	{ "the last record is gone", "/head", 0, without_record, 1, true },
};

struct names {
	const char *with;
	VEC(char *) v;
};

static int add_name(void *arg, const char *name, struct err *e)
{
	struct names *n = arg;
	(void)e;
	if (view_ends(view_of(name), view_of(n->with)) || view_starts(view_of(name), view_of(n->with)))
		vec_push(&n->v, xstrdup(name));
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void do_harm(const struct harm *h, const char *dir)
{
	AUTOFREE char *head = xasprintf("%s/head", dir), *path = xasprintf("%s%s", dir, h->file);
	struct names n = { .with = h->file };
	if (!strcmp(h->file, "/head*")) {
		AUTOFREE char *marks = xasprintf("%s/head.marks", dir);
		h->fn(head, h->at);
		h->fn(marks, h->at);
		return;
	}
	if (h->file[0] == '/') {
		h->fn(path, h->at);
		return;
	}
	assert_int_equal(files_each(head, add_name, &n, NULL), 0);
	assert_true((int)n.v.n > h->which);
	qsort(n.v.v, n.v.n, sizeof *n.v.v, by_name);
	for (size_t i = 0; i < n.v.n; i++) {
		AUTOFREE char *file = xasprintf("%s/%s", head, n.v.v[i]);
		if (h->which == -1 || (int)i == h->which)
			h->fn(file, h->at);
		free(n.v.v[i]);
	}
	vec_free(&n.v);
}

/* ---- a life with harm ---- */

static void append_late(struct kit *k, int64_t t_ms)
{
	k->now_ms = t_ms;
	for (int tries = 0; tries < 2; tries++) { /* the first commit after damage may fail: the log is reopened, and the second one succeeds */
		assert_int_equal(kit_append(k, 7, t_ms + tries, 1, 0, NULL), 0);
		tsdb_flush(k->db);
		if (tries || kit_count(k, KIT_SAMPLES, t_ms - 1, t_ms, NULL) == 1)
			return;
		usleep(1100000);
	}
}

static size_t holes_of(struct kit *k)
{
	size_t n;
	free(holes_list(&k->db->holes, &n));
	return n;
}

/* Makes a snapshot, opens it as a storage of its own, and compares its answers with `want`. */
static struct tally hold_snapshot(struct kit *k, const struct answer want[QUESTIONS], const char *harm)
{
	struct kit other;
	struct err e;
	AUTOFREE char *dir = xasprintf("%s.snapshot", k->dir);
	files_remove_tree(dir);
	assert_int_equal(tsdb_snapshot(k->db, dir, &e), 0);
	kit_set(&other, dir);
	other.o.no_sealing = true;
	other.now_ms = k->now_ms;
	kit_open(&other);
	struct tally t = hold(&other, want, harm, "in a snapshot");
	kit_free(&other);
	return t;
}

/* Returns whether it cost something. */
static bool live_with(const struct kit *original, const struct answer want[QUESTIONS], const struct harm *h)
{
	struct kit k;
	struct err e;
	AUTOFREE char *copy = xasprintf("%s.copy", original->dir);
	files_remove_tree(copy);
	run("cp", "-r", original->dir, copy);
	do_harm(h, copy);
	kit_set(&k, copy);
	k.o.no_sealing = k.o.read_only = true;
	k.now_ms = original->now_ms;
	kit_open(&k);
	hold(&k, want, h->name, "read only");
	kit_close(&k);
	k.o.read_only = false;
	kit_open(&k);
	struct tally first = hold(&k, want, h->name, "at the first start");
	assert_true(first.harmed > 0 || !h->costs);
	assert_true(holes_of(&k) > 0 || !first.said);
	append_late(&k, original->now_ms + 2 * HOUR);
	assert_int_equal(tsdb_seal(k.db, true, &e), 0);
	hold(&k, want, h->name, "after sealing");
	kit_reopen(&k);
	hold(&k, want, h->name, "after a restart");
	kit_reopen(&k);
	struct tally t = hold(&k, want, h->name, "after the second restart");
	assert_true(t.harmed == first.harmed && t.said >= first.harmed);
	t = hold_snapshot(&k, want, h->name);
	assert_int_equal(t.harmed, first.harmed);
	append_late(&k, original->now_ms + DAY);
	assert_int_equal(tsdb_seal(k.db, true, &e), 0);
	assert_int_equal(tsdb_retain(k.db, &e), 0);
	kit_reopen(&k);
	t = hold(&k, want, h->name, "a day later");
	assert_int_equal(t.harmed, first.harmed);
	print_message("%-55s %zu of %zu hours harmed, %zu said\n", h->name, t.harmed, QUESTIONS, t.said);
	append_late(&k, original->now_ms + 16 * DAY);
	assert_int_equal(tsdb_retain(k.db, &e), 0);
	for (size_t i = 0; i < QUESTIONS; i++)
		assert_false(ask(&k, starts[i]).said);
	assert_int_equal(holes_of(&k), 0);
	kit_reopen(&k);
	assert_int_equal(holes_of(&k), 0);
	kit_free(&k);
	return first.harmed > 0;
}

static void test_harms(void **state)
{
	struct kit original;
	struct answer want[QUESTIONS];
	const char *all = getenv("PYRRHA_LONG"), *one = getenv("HOLES_HARM");
	(void)state;
	make(&original);
	ask_copy(&original, want);
	for (size_t i = 0; i < QUESTIONS; i++)
		assert_false(want[i].said);
	assert_true(want[1].n > 0 && want[5].n == 2 * 6 && want[6].n == PODS * 6 && want[9].n > 0);
	size_t tried = 0, costly = 0;
	for (size_t i = 0; i < ARRAY_LEN(harms); i++)
		if (one ? strstr(harms[i].name, one) != NULL : (all && *all) || i % 3 == 0) {
			costly += live_with(&original, want, &harms[i]);
			tried++;
		}
	assert_true(one || costly > tried / 3);
	kit_free(&original);
}

/* A copy of the directory that is made while the storage is open is what a killed process leaves. All acknowledged records are in its log, and head.end
 * describes those that head.marks does not. Harm is done to that copy. */
static void test_harms_after_a_kill(void **state)
{
	static const struct harm of_the_end[] = {
		{ "a flipped bit of the end", "/head.end", 0, flip, 0.9, false },
		{ "no end", "/head.end", 0, take_away, 0, false },
		{ "an end that was cut", "/head.end", 0, cut, 0.5, false },
		{ "a write-ahead file that ends in its middle", ".log", -1, cut, 0.5, true },
		{ "a write-ahead file without its end", ".log", -1, cut, 0.97, true },
		{ "an empty write-ahead file", ".log", -1, cut, 0, true },
		{ "no write-ahead file", ".log", -1, take_away, 0, true },
		{ "a zeroed end of the write-ahead file", ".log", -1, zero_pages, 0.9, true },
	};
	struct kit k, killed;
	struct answer want[QUESTIONS];
	(void)state;
	make(&k);
	kit_open(&k);
	for (int i = 0; i < 30; i++)
		add(&k, (unsigned)i % PODS, KIT_T0 + 5 * HOUR + (i + 1) * 60000);
	tsdb_flush(k.db);
	AUTOFREE char *dir = xasprintf("%s.killed", k.dir);
	run("cp", "-r", k.dir, dir);
	kit_set(&killed, dir);
	killed.now_ms = k.now_ms;
	kit_close(&k);
	AUTOFREE char *end = xasprintf("%s/head.end", k.dir);
	assert_true(unlink(end) == 0 && mkfifo(end, 0600) == 0); /* it cannot be written, and nothing waits for it */
	kit_open(&k);
	add(&k, 1, KIT_T0 + 6 * HOUR);
	kit_free(&k);
	ask_copy(&killed, want);
	assert_true(want[10].n == 30);
	for (size_t i = 0; i < ARRAY_LEN(of_the_end); i++)
		assert_true(live_with(&killed, want, &of_the_end[i]) == of_the_end[i].costs);
	files_remove_tree(dir);
}

/* ---- what is known of a loss ---- */

/* The same profile at each of these times, a record each. */
static void make_plain(struct kit *k, const int64_t *from, size_t n)
{
	make_dir(k);
	kit_open(k);
	for (size_t i = 0; i < n; i++) {
		k->now_ms = MAX(k->now_ms, from[i]);
		assert_int_equal(kit_append(k, 1, from[i], 1, 40, NULL), 0); /* only the first of a day has symbols */
		tsdb_flush(k->db);
	}
	kit_close(k);
}

/* Opens a copy of `original` with harm to its marks, twice: all answers are those of before, and none says that something is lost. */
static void live_without_marks(const struct kit *original, const struct answer want[QUESTIONS], const struct harm *h, const char *when)
{
	struct kit k;
	struct tsdb_stats s;
	AUTOFREE char *copy = xasprintf("%s.copy", original->dir);
	files_remove_tree(copy);
	run("cp", "-r", original->dir, copy);
	do_harm(h, copy);
	kit_set(&k, copy);
	k.o.no_sealing = true;
	k.now_ms = original->now_ms;
	for (int i = 0; i < 3; i++) {
		kit_open(&k);
		struct tally t = hold(&k, want, h->name, when);
		tsdb_stats(k.db, &s);
		if (t.harmed || t.said || s.lost_records || holes_of(&k))
			fail_msg("%s, %s, start %d: %zu hours harmed, %zu said, %llu records lost, %zu holes", h->name, when, i, t.harmed, t.said,
				 (unsigned long long)s.lost_records, holes_of(&k));
		if (i)
			append_late(&k, original->now_ms + 2 * HOUR + i * 60000); /* its number is above all that parts cover: it stays */
		kit_close(&k);
	}
	kit_open(&k);
	assert_int_equal(kit_count(&k, KIT_SAMPLES, original->now_ms + 2 * HOUR, original->now_ms + 3 * HOUR, NULL), 2);
	kit_free(&k);
}

/* A log that was trimmed, and whose marks are gone, has lost nothing: neither below the records that are left, of which facts may be far
 * apart, nor when all but facts is trimmed. */
static void test_harmed_marks(void **state)
{
	static const struct harm of_marks[] = {
		{ "no marks", "/head.marks", 0, take_away, 0, false },
		{ "empty marks", "/head.marks", 0, cut, 0, false },
		{ "marks cut in their first line", "/head.marks", 0, cut, 0.02, false },
		{ "marks cut in their extents", "/head.marks", 0, cut, 0.6, false },
		{ "marks without their last byte", "/head.marks", 0, cut, 0.999, false },
		{ "a flipped bit in the first line", "/head.marks", 0, flip, 0.001, false },
		{ "a flipped bit in the numbers", "/head.marks", 0, flip, 0.08, false },
		{ "a flipped bit in the extents", "/head.marks", 0, flip, 0.7, false },
		{ "a page of garbage in the marks", "/head.marks", 0, garbage, 0, false },
	};
	struct kit original;
	struct answer want[QUESTIONS];
	struct err e;
	(void)state;
	make(&original);
	ask_copy(&original, want);
	for (size_t i = 0; i < ARRAY_LEN(of_marks); i++)
		live_without_marks(&original, want, &of_marks[i], "with records in the log");
	kit_open(&original);
	assert_int_equal(tsdb_seal(original.db, true, &e), 0);
	kit_close(&original);
	ask_copy(&original, want);
	for (size_t i = 0; i < ARRAY_LEN(of_marks); i++)
		live_without_marks(&original, want, &of_marks[i], "with facts alone in the log");
	kit_free(&original);
}

/* As older versions wrote them. */
static void without_extents(const struct kit *k)
{
	AUTOFREE char *marks = xasprintf("%s/head.marks", k->dir);
	CLEANUP(buf_free) struct buf b = { 0 };
	struct err e;
	assert_int_equal(buf_read_file(&b, marks, &e), 0);
	const char *at = memmem(b.ptr, b.len, "pyrrha-head-extents", 19);
	assert_non_null(at);
	assert_int_equal(truncate(marks, at - b.ptr), 0);
}

static bool said(struct kit *k, int64_t after, int64_t until)
{
	struct source_damage d = { 0 };
	struct source_limits lim = { .damage = &d };
	struct source_series *s;
	struct source_view *v;
	struct matcher m;
	struct err e;
	size_t n;
	assert_int_equal(tsdb_source(k->db)->open(tsdb_source(k->db), &v, &e), 0);
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW(LABEL_NAME), VIEW(KIT_SAMPLES), &e), 0);
	assert_int_equal(v->ops->select(v, &m, 1, after, until, &lim, &s, &n, &e), 0);
	matcher_release(&m);
	free(s);
	v->ops->release(v);
	return source_damage_met(&d) > 0;
}

/* Of one day: what lies between the neighbours, and a minute more. */
static void test_neighbours(void **state)
{
	struct kit k;
	int64_t t[40];
	(void)state;
	for (int i = 0; i < 40; i++)
		t[i] = KIT_T0 + HOUR + i * 60000;
	make_plain(&k, t, 40);
	AUTOFREE char *head = xasprintf("%s/head", k.dir);
	without_record(head, 0.5); /* t[19] */
	without_extents(&k);
	kit_open(&k);
	assert_int_equal(kit_count(&k, KIT_SAMPLES, t[18], t[19], NULL), 0);
	assert_int_equal(holes_of(&k), 1);
	assert_true(said(&k, t[18], t[19]));
	assert_false(said(&k, KIT_T0 - DAY, t[16]));
	assert_false(said(&k, t[24], t[39]));
	kit_free(&k);
}

/* Of two days: both. */
static void test_neighbours_of_two_days(void **state)
{
	struct kit k;
	int64_t t[20];
	(void)state;
	for (int i = 0; i < 20; i++)
		t[i] = (i < 10 ? KIT_T0 - 3 * DAY : KIT_T0) + 5 * HOUR + i * 60000;
	make_plain(&k, t, 20);
	AUTOFREE char *head = xasprintf("%s/head", k.dir);
	without_record(head, 0.5); /* the last of the first day */
	without_extents(&k);
	kit_open(&k);
	assert_int_equal(kit_count(&k, KIT_SAMPLES, t[8], t[9], NULL), 0);
	assert_true(said(&k, KIT_T0 - 3 * DAY, KIT_T0 - 3 * DAY + HOUR) && said(&k, KIT_T0 + 20 * HOUR, KIT_T0 + 21 * HOUR));
	assert_false(said(&k, KIT_T0 - 4 * DAY, KIT_T0 - 3 * DAY) || said(&k, KIT_T0 - 2 * DAY, KIT_T0 - DAY));
	kit_free(&k);
}

/* An older copy of the log has as many deletes of the day as there were at the end, but not the same ones. */
static void test_another_fact(void **state)
{
	struct kit k;
	struct err e;
	(void)state;
	make_dir(&k);
	kit_open(&k);
	for (int i = 0; i < 12; i++)
		for (unsigned pod = 0; pod < PODS; pod++)
			add(&k, pod, KIT_T0 + (i + 1) * 10 * 60000 - 1000 + pod);
	k.now_ms += HOUR;
	assert_int_equal(tsdb_seal(k.db, true, &e), 0);
	delete_of(&k, "pod-1", KIT_T0, KIT_T0 + HOUR);
	kit_close(&k);
	AUTOFREE char *head = xasprintf("%s/head", k.dir), *older = xasprintf("%s/older", k.dir), *marks = xasprintf("%s/head.marks", k.dir);
	run("cp", "-r", head, older);
	kit_open(&k);
	assert_int_equal(tsdb_clean(k.db, &e), 0); /* the log drops the first delete: a part has taken it over */
	assert_int_equal(tsdb_seal(k.db, true, &e), 0);
	delete_of(&k, "pod-2", KIT_T0, KIT_T0 + HOUR);
	kit_close(&k);
	CLEANUP(buf_free) struct buf b = { 0 };
	assert_int_equal(buf_read_file(&b, marks, &e), 0);
	assert_non_null(memmem(b.ptr, b.len, " count 1 ", 9));
	run("rm", "-r", head, NULL);
	run("mv", older, head, NULL);
	kit_open(&k);
	assert_true(said(&k, KIT_T0, KIT_T0 + HOUR));
	kit_free(&k);
}

/* A damaged file of holes is replaced by its copy, and the other way round; with both gone bad, all until now is damaged. */
static void test_files_of_holes(void **state)
{
	static const char *const names[] = { "head.holes", "head.holes.copy" };
	struct kit k;
	struct err e;
	int64_t t[30];
	(void)state;
	for (int i = 0; i < 30; i++)
		t[i] = KIT_T0 + HOUR + i * 60000;
	make_plain(&k, t, 30);
	AUTOFREE char *head = xasprintf("%s/head", k.dir);
	without_record(head, 0.5);
	kit_open(&k);
	k.now_ms += 2 * HOUR;
	append_late(&k, k.now_ms);
	assert_int_equal(tsdb_seal(k.db, true, &e), 0); /* the log is trimmed: they alone know */
	for (int i = 0; i < 4; i++) {
		kit_close(&k);
		AUTOFREE char *path = xasprintf("%s/%s", k.dir, names[i % 2]);
		if (i < 2)
			flip(path, 0.5);
		else
			take_away(path, 0);
		kit_open(&k);
		assert_int_equal(holes_of(&k), 1);
		assert_true(said(&k, t[13], t[14]));
		assert_false(said(&k, t[20], t[29]) || said(&k, t[0], t[9]));
	}
	kit_close(&k);
	for (int i = 0; i < 2; i++) {
		AUTOFREE char *path = xasprintf("%s/%s", k.dir, names[i]);
		flip(path, 0.5);
	}
	kit_open(&k);
	assert_true(said(&k, t[20], t[29]) && said(&k, KIT_T0 - 9 * DAY, KIT_T0 - 8 * DAY));
	assert_false(said(&k, k.now_ms, k.now_ms + HOUR));
	kit_free(&k);
}

struct printed {
	size_t n;
	bool records;
};

static void print_problem(void *arg, const char *where, const char *what, const char *todo)
{
	struct printed *p = arg;
	(void)todo;
	p->n++;
	p->records |= strstr(where, "head, records") && strstr(what, "is lost");
}

/* pyrtool tsdb verify. */
static void test_verify(void **state)
{
	struct kit k;
	struct tsdb_verified v;
	struct printed p = { 0 };
	int64_t t[30];
	(void)state;
	for (int i = 0; i < 30; i++)
		t[i] = KIT_T0 + HOUR + i * 60000;
	make_plain(&k, t, 30);
	AUTOFREE char *head = xasprintf("%s/head", k.dir);
	without_record(head, 0.5);
	k.o.read_only = true;
	kit_open(&k);
	tsdb_verify(k.db, print_problem, &p, &v);
	assert_true(p.records && v.problems == p.n);
	kit_free(&k);
}

/* A day that cannot be opened is set aside, and its answers say so, later too. */
static void test_set_aside(void **state)
{
	struct kit k;
	struct err e;
	(void)state;
	make_dir(&k);
	kit_open(&k);
	add(&k, 1, KIT_T0 + HOUR);
	assert_int_equal(tsdb_seal(k.db, true, &e), 0);
	kit_close(&k);
	AUTOFREE char *all = xasprintf("%s/partitions", k.dir), *day = xasprintf("%lld", (long long)(KIT_T0 / DAY)), *partition = xasprintf("%s/%s", all, day);
	take_away(partition, 0);
	assert_int_equal(files_put(all, day, VIEW("no directory"), &e), 0);
	for (int i = 0; i < 2; i++) {
		kit_open(&k);
		assert_true(said(&k, KIT_T0 + 2 * HOUR, KIT_T0 + 3 * HOUR) && !said(&k, KIT_T0 - DAY, KIT_T0));
		kit_close(&k);
	}
	kit_free(&k);
}

/* ---- snapshots ---- */

static bool refused(struct kit *k, const char *with)
{
	struct tsdb *db;
	struct err e = { 0 };
	if (tsdb_open(&db, &k->o, &e)) {
		assert_non_null(strstr(e.msg, with));
		return true;
	}
	assert_int_equal(tsdb_close(db, &e), 0);
	return false;
}

/* A process that ended while it made a snapshot leaves DIR.tmp. As a storage it is refused, and the next start removes it. */
static void test_half_a_snapshot(void **state)
{
	struct kit k, half;
	struct err e;
	CLEANUP(buf_free) struct buf b = { 0 };
	AUTOFREE char *copy = NULL, *tmp = NULL, *version = NULL, *mark = NULL;
	(void)state;
	make_dir(&k);
	kit_open(&k);
	add(&k, 1, KIT_T0 + HOUR);
	AUTOFREE char *all = xasprintf("%s/snapshots", k.dir), *dir = xasprintf("%s/s", all);
	tmp = xasprintf("%s.tmp", dir);
	assert_int_equal(mkdir(all, 0700), 0);
	assert_int_equal(mkdir(tmp, 0700), 0); /* a leftover is not in the way */
	assert_int_equal(tsdb_snapshot(k.db, dir, &e), 0);
	assert_true(access(dir, F_OK) == 0 && access(tmp, F_OK) != 0);
	copy = xasprintf("%s.half", k.dir);
	run("cp", "-r", dir, copy);
	run("mv", "--", dir, tmp);
	kit_reopen(&k);
	assert_true(access(tmp, F_OK) != 0);
	kit_set(&half, copy);
	mark = xasprintf("%s/snapshot", copy);
	version = xasprintf("%s/version", copy);
	assert_int_equal(access(mark, F_OK), 0);
	buf_reset(&b);
	buf_puts(&b, "pyrrha-snapshot 1\nstate unfinished\nmade 1\nrecord 1\n");
	buf_printf(&b, "checksum %016llx\n", (unsigned long long)hash_stable_view(buf_view(&b)));
	assert_int_equal(files_put(copy, "snapshot", buf_view(&b), &e), 0);
	assert_true(refused(&half, "half of a snapshot"));
	assert_int_equal(unlink(mark), 0);
	assert_int_equal(unlink(version), 0); /* as older versions leave it */
	assert_true(refused(&half, "half of a snapshot"));
	assert_int_equal(files_put(copy, "version", VIEW("pyrrha-tsdb 5\n"), &e), 0);
	assert_false(refused(&half, ""));
	kit_free(&half);
	kit_free(&k);
}

/* A new copy of a snapshot opens. A snapshot that was copied over a used storage is refused until its file `snapshot` is removed; then
 * answers say that what was stored after the snapshot is lost. */
static void test_snapshot_over_a_storage(void **state)
{
	struct kit k, other;
	struct err e;
	(void)state;
	make_dir(&k);
	kit_open(&k);
	for (int i = 0; i < 10; i++)
		add(&k, 1, KIT_T0 + HOUR + i * 60000);
	AUTOFREE char *old = xasprintf("%s.old", k.dir), *lay_over = xasprintf("rm -r %s/head; cp -r --remove-destination %s/. %s", k.dir, old, k.dir), *mark = xasprintf("%s/snapshot", k.dir);
	assert_int_equal(tsdb_snapshot(k.db, old, &e), 0);
	for (int i = 0; i < 10; i++)
		add(&k, 1, KIT_T0 + 3 * HOUR + i * 60000);
	k.now_ms += 2 * HOUR;
	assert_int_equal(tsdb_seal(k.db, true, &e), 0);
	for (int i = 0; i < 10; i++)
		add(&k, 1, k.now_ms + 60000);
	int64_t last = k.now_ms;
	kit_close(&k);
	run("sh", "-c", lay_over, NULL);
	assert_true(refused(&k, "was copied over"));
	assert_true(refused(&k, "was copied over"));
	assert_int_equal(unlink(mark), 0);
	kit_open(&k);
	assert_true(said(&k, last - 60000, last));
	assert_true(kit_count(&k, KIT_SAMPLES, last - 60000, last, NULL) == 0);
	assert_int_equal(kit_count(&k, KIT_SAMPLES, KIT_T0 + 3 * HOUR - 1, KIT_T0 + 4 * HOUR, NULL), 10); /* a part has it */
	assert_false(said(&k, KIT_T0, KIT_T0 + HOUR - 120000));
	kit_set(&other, old);
	other.o.no_sealing = true;
	for (int i = 0; i < 2; i++) {
		kit_open(&other);
		assert_int_equal(kit_count(&other, KIT_SAMPLES, 0, INT64_MAX, NULL), 10);
		kit_close(&other);
	}
	kit_free(&other);
	kit_free(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_harmed_marks), cmocka_unit_test(test_harms), cmocka_unit_test(test_harms_after_a_kill), cmocka_unit_test(test_neighbours), cmocka_unit_test(test_neighbours_of_two_days),
		cmocka_unit_test(test_another_fact), cmocka_unit_test(test_files_of_holes), cmocka_unit_test(test_verify), cmocka_unit_test(test_set_aside),
		cmocka_unit_test(test_half_a_snapshot), cmocka_unit_test(test_snapshot_over_a_storage),
	};
	log_setup(getenv("HOLES_TRACE") ? LOG_LEVEL_WARN : LOG_LEVEL_ERROR + 1, LOG_FORMAT_LOGFMT);
	return cmocka_run_group_tests_name("holes", tests, NULL, NULL);
}
