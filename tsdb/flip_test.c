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
#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "base/num.h"
#include "base/view.h"
#include "model/sourcekit.h"
#include "tsdb/disk/table.h"
#include "tsdb/disk/wal.h"
#include "tsdb/log/record.h"
#include "tsdb/testkit.h"

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

/* Each is noted by its pod, as the number of it. */
struct appended {
	unsigned pod;
	int64_t t_ms, total;
	uint64_t sum;
};

struct original {
	struct kit k;
	VEC(struct appended) v;
};

static void add(struct original *o, unsigned pod, int64_t t_ms, uint32_t n)
{
	uint64_t seed = kit_random(&random_state);
	char key[16], value[16];
	snprintf(key, sizeof key, "flip-%u", pod);
	snprintf(value, sizeof value, "%zu", o->v.n);
	const struct sink_note note = { view_of(key), view_of(value), t_ms };
	o->k.notes = &note;
	o->k.n_notes = 1;
	o->k.now_ms = t_ms;
	assert_int_equal(kit_append(&o->k, pod, t_ms, seed, n, NULL), 0);
	o->k.n_notes = 0;
	tsdb_flush(o->k.db); /* a record each, and one for its symbols */
	vec_push(&o->v, (struct appended){ pod, t_ms, kit_profile_total(seed, n), kit_profile_sum(seed, n, false) });
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
	const struct original *o;
	bool *there;    /* by profile of the original */
	size_t notes;   /* that are the last of their pod */
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

static void see_note(void *arg, const struct sink_note *n)
{
	struct found *f = arg;
	int64_t i;
	unsigned pod = n->key.len == 6 ? (unsigned)(n->key.ptr[5] - '0') : PODS;
	assert_true(view_starts(n->key, VIEW("flip-")) && num_parse_i64(n->value, &i) && i >= 0 && (size_t)i < f->o->v.n);
	assert_true(f->o->v.v[i].pod == pod);
	bool last = true;
	for (size_t k = (size_t)i + 1; k < f->o->v.n; k++)
		last &= f->o->v.v[k].pod != pod;
	f->notes += last;
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
	*f = (struct found){ .o = o, .there = xcalloc(o->v.n + 1, sizeof *f->there) };
	assert_int_equal(tsdb_sink(k->db)->notes(tsdb_sink(k->db), VIEW(""), see_note, f, &e), 0);
	assert_int_equal(tsdb_source(k->db)->open(tsdb_source(k->db), &v, &e), 0);
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW(LABEL_NAME), view_of(KIT_SAMPLES), &e), 0);
	assert_int_equal(v->ops->select(v, &m, 1, 0, INT64_MAX, NULL, &s, &n, &e), 0);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(one_series_profiles(v, s[i].ref, 0, INT64_MAX, NULL, &p, &n_p, &e), 0);
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
	assert_int_equal(files_each(dir, add_name, &n, NULL), 0);
	assert_true(n.v.n > 0);
	qsort(n.v.v, n.v.n, sizeof *n.v.v, by_name);
	return n;
}

static void free_names(struct names n)
{
	for (size_t i = 0; i < n.v.n; i++)
		free(n.v.v[i]);
	vec_free(&n.v);
}

/* Where in a file of the log the records lie. */
struct place {
	long at, end;
	bool is_note;
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
	bool is_note = view_starts(key, VIEW("\xfe"));
	const char *at = memmem(p->bytes.ptr, p->bytes.len, value.ptr + value.len - 8, 8); /* its checksum is its own */
	long end = at ? (long)(at - p->bytes.ptr) + 8 : 0;
	if ((number || is_note) && at)
		vec_push(&p->v, (struct place){ end - (long)value.len, end, is_note });
	return 0;
}

static int add_places(void *arg, struct view entry, struct err *e)
{
	int rc;
	wal_batch(entry, add_place, arg, &rc, e);
	return rc;
}

/* How many records of the file a flipped bit may cost, and how many notes. */
static size_t may_lose(const char *path, long at, size_t *ret_notes)
{
	CLEANUP(buf_free) struct buf b = { 0 };
	struct places p = { 0 };
	struct table_loss tl;
	struct wal_loss wl;
	struct err e;
	size_t n = 0;
	bool is_log = view_ends(view_of(path), VIEW(".log"));
	*ret_notes = 0;
	if (!is_log && !view_ends(view_of(path), VIEW(".sst")))
		return 0;
	assert_int_equal(buf_read_file(&b, path, &e), 0);
	p.bytes = buf_view(&b);
	if (is_log)
		assert_int_equal(wal_each(p.bytes, add_places, &p, &wl, &e), 0);
	else
		assert_int_equal(table_each(path, add_place, &p, &tl, &e), 0);
	long block = is_log ? WAL_BLOCK : TABLE_BLOCK, lo = is_log ? at / block * block : at - 2 * block, hi = is_log ? lo + block : at + 2 * block;
	if (!is_log && p.v.n && at > p.v.v[p.v.n - 1].end + 200)
		p.v.n = 0; /* index, properties, footer: no record lies there */
	for (size_t i = 0; i < p.v.n; i++)
		if (p.v.v[i].end > lo && p.v.v[i].at < hi)
			(*(p.v.v[i].is_note ? ret_notes : &n))++;
	vec_free(&p.v);
	return n;
}

static void appended(void *arg, const struct err *e)
{
	*(enum err_code *)arg = e->code;
}

/* One commit may be refused: RocksDB meets the damage when it puts tables together, and takes no writes until the log was made anew. */
static void append_one_of(struct kit *k, unsigned pod, int64_t t_ms)
{
	enum err_code code = ERR_IO;
	for (int tries = 0; tries < 3 && code; tries++) {
		if (tries)
			clock_sleep_ms(1100); /* the log is opened anew at most once a second */
		assert_int_equal(kit_append_done(k, pod, t_ms, 5, 40, NULL, appended, &code), 0);
		tsdb_flush(k->db);
	}
	assert_int_equal(code, 0);
}

struct tally {
	size_t trials, harmed, lost, may, old_notes;
};

/* Flips a bit of dir/name in a copy and opens that twice. */
static void trial(const struct original *o, const char *sub, const char *name, bool of_log, struct tally *t)
{
	struct kit k;
	struct found f, only; /* only: nothing may be written */
	AUTOFREE char *copy = xasprintf("%s.copy", o->k.dir), *path = xasprintf("%s/%s%s", copy, sub, name);
	files_remove_tree(copy);
	run("cp", "-r", o->k.dir, copy);
	long at = (long)(kit_random(&random_state) % (uint64_t)size_of(path));
	int bit = (int)(kit_random(&random_state) % 8);
	size_t may_notes = 0, may = of_log ? may_lose(path, at, &may_notes) : 0;
	if (getenv("FLIP_TRACE"))
		fprintf(stderr, "flip %s%s at %ld bit %d: may lose %zu\n", sub, name, at, bit, may);
	flip(path, at, bit);
	kit_set(&k, copy);
	k.o.no_sealing = k.o.read_only = true;
	k.now_ms = o->k.now_ms;
	kit_open(&k);
	look(&k, o, &only);
	kit_close(&k);
	k.o.read_only = false;
	kit_open(&k);
	look(&k, o, &f);
	assert_true(only.n == f.n && only.lost_records == f.lost_records && only.notes == f.notes);
	if (f.notes + may_notes < PODS)
		fail_msg("bit %d of byte %ld of %s%s: %zu of %d notes are the newest, %zu may not be", bit, at, sub, name, f.notes, PODS,
			 may_notes);
	t->old_notes += PODS - f.notes;
	if (f.lost > may || (f.lost && !f.lost_records))
		fail_msg("bit %d of byte %ld of %s%s: %zu profiles are gone, the block had %zu records, %llu are said to be lost", bit, at, sub,
			 name, f.lost, may, (unsigned long long)f.lost_records);
	if (f.lost)
		free_names(names_of(copy, "head.bad-", "")); /* the damaged file is kept */
	append_one_of(&k, 1, o->k.now_ms + 1000);
	kit_reopen(&k);
	assert_int_equal(kit_count(&k, KIT_SAMPLES, 0, INT64_MAX, NULL), f.n + 1);
	kit_close(&k);
	t->trials++;
	t->harmed += f.lost > 0;
	t->lost += f.lost;
	t->may += may;
	free(f.there);
	free(only.there);
	files_remove_tree(copy);
}

static unsigned scaled(unsigned n)
{
	const char *is_long = getenv("PYRRHA_LONG");
	return is_long && *is_long ? n * 60 : n;
}

static void trials(const struct original *o, const char *sub, const char *begin, const char *end, bool of_log, unsigned n)
{
	AUTOFREE char *dir = xasprintf("%s/%s", o->k.dir, sub);
	struct names names = names_of(dir, begin, end);
	struct tally t = { 0 };
	for (unsigned i = 0; i < scaled(n); i++)
		trial(o, sub, names.v.v[i % names.v.n], of_log, &t);
	print_message("%-14s%s%s: %zu bits, %zu of them cost something: %zu profiles of %zu records in their blocks, %zu notes are older\n", sub,
		      begin, end, t.trials, t.harmed, t.lost, t.may, t.old_notes);
	free_names(names);
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
	trials(&o, "", "head.end", "", true, 2);
	trials(&o, "", "version", "", true, 3);
	vec_free(&o.v);
	kit_free(&o.k);
}

/* ---- parts ---- */

#define PART_PODS 9
#define PART_HOURS 3
#define PART_EACH 60 /* profiles of a pod and hour: values that fill several blocks */

static void make_parts(struct original *o)
{
	struct err e;
	make_dir(&o->k);
	o->k.o.no_sealing = true;
	o->k.o.keep_aggregates = true;
	kit_open(&o->k);
	for (int h = 0; h < PART_HOURS; h++) {
		for (int i = 0; i < PART_EACH; i++)
			for (unsigned pod = 0; pod < PART_PODS - (h + 1 < PART_HOURS); pod++) /* the last is new in the last hour */
				add(o, pod, KIT_T0 + h * HOUR + (i + 1) * HOUR / (PART_EACH + 1) + pod, 150);
		o->k.now_ms += 2 * HOUR;
		assert_int_equal(tsdb_seal(o->k.db, true, &e), 0);
	}
	o->k.now_ms = KIT_T0 + 30 * HOUR;
	assert_int_equal(tsdb_clean(o->k.db, &e), 0); /* rollups */
	kit_close(&o->k);
}

/* What one pod has in one hour, asked for in all ways. */
struct answer {
	size_t n;        /* profiles */
	int64_t total;   /* of them */
	int64_t exact;   /* as one sum */
	uint64_t merged; /* as a checksum of the merge */
	bool said;       /* something is damaged */
};

static struct source_series *pod_series(struct source_view *v, unsigned pod, int64_t after, int64_t until, struct source_limits *lim,
					size_t *n)
{
	char name[16];
	struct matcher m[2];
	struct source_series *s;
	struct err e;
	snprintf(name, sizeof name, "pod-%u", pod);
	assert_int_equal(matcher_init(&m[0], MATCH_EQ, VIEW(LABEL_NAME), view_of(KIT_SAMPLES), &e), 0);
	assert_int_equal(matcher_init(&m[1], MATCH_EQ, VIEW("pod"), view_of(name), &e), 0);
	assert_int_equal(v->ops->select(v, m, 2, after, until, lim, &s, n, &e), 0);
	matcher_release(&m[0]);
	matcher_release(&m[1]);
	return s;
}

static struct answer ask(struct kit *k, unsigned pod, int64_t after, int64_t until)
{
	struct source_view *v;
	struct source_profile *p;
	struct stackvec *sum;
	struct source_damage damage = { 0 };
	struct source_limits lim = { .damage = &damage };
	struct answer a = { 0 };
	struct err e;
	size_t n, n_p;
	double value;
	assert_int_equal(tsdb_source(k->db)->open(tsdb_source(k->db), &v, &e), 0);
	struct source_series *s = pod_series(v, pod, after, until, &lim, &n);
	assert_true(n <= 1);
	for (size_t i = 0; i < n; i++) {
		struct source_part part = { s[i].ref, after, until, 1, 0, 0, 0 };
		assert_int_equal(one_series_profiles(v, s[i].ref, after, until, &lim, &p, &n_p, &e), 0);
		for (size_t j = 0; j < n_p; j++)
			a.total += p[j].total;
		a.n += n_p;
		free(p);
		if (v->ops->merge(v, &part, 1, 1, SYMBOLS_WHOLE, &lim, &sum, &e))
			fail_msg("merge: %s", e.msg);
		a.merged = kit_vec_sum(sum);
		stackvec_unref(sum);
		assert_int_equal(v->ops->sums(v, &part, 1, 1, NULL, &lim, &value, &a.exact, &e), 0);
	}
	free(s);
	v->ops->release(v);
	a.said = source_damage_met(&damage) > 0;
	return a;
}

static struct answer expected(const struct original *o, unsigned pod, int64_t after, int64_t until)
{
	struct answer a = { 0 };
	for (size_t i = 0; i < o->v.n; i++) {
		const struct appended *x = &o->v.v[i];
		if (x->pod != pod || x->t_ms <= after || x->t_ms > until)
			continue;
		a.n++;
		a.total += x->total;
		a.merged += x->sum;
	}
	a.exact = a.total;
	return a;
}

static bool check_one(struct kit *k, const struct original *o, unsigned pod, int64_t after, int64_t until, size_t late, bool names)
{
	struct answer want = expected(o, pod, after, until), got = ask(k, pod, after, until);
	want.n += late;
	bool whole = got.n == want.n && got.total == want.total && got.exact == want.exact && (got.merged == want.merged || !names);
	if (!whole && !got.said)
		fail_msg("pod %u from %lld until %lld: %zu profiles of %zu, total %lld, sum %lld of %lld, and nothing is said", pod,
			 (long long)after, (long long)until, got.n, want.n, (long long)got.total, (long long)got.exact, (long long)want.total);
	assert_true(got.n == want.n ? got.total == want.total : got.n == late); /* a value is there or not */
	assert_true(got.exact == 0 || got.exact == want.exact);
	return whole;
}

/* What is not there, or not whole, is said, and what is, is right; returns how many of pods x hours are not whole. late: so many
 * profiles without samples came later to the first pod's hours. A part of an hour is read from other values than the hour. */
static size_t check_answers(struct kit *k, const struct original *o, size_t late)
{
	struct tsdb_stats s;
	size_t harmed = 0;
	tsdb_stats(k->db, &s);
	for (int h = 0; h < PART_HOURS; h++)
		for (unsigned pod = 0; pod < PART_PODS; pod++) {
			int64_t after = KIT_T0 + h * HOUR;
			bool whole = check_one(k, o, pod, after, after + HOUR, pod ? 0 : late, !s.lost_symbols);
			whole &= check_one(k, o, pod, after, after + HOUR / 3 + 777, pod ? 0 : late, !s.lost_symbols);
			harmed += !whole;
		}
	/* Of the day a rollup answers, or its hours. */
	for (unsigned pod = 0; pod < PART_PODS; pod++) {
		struct answer want = expected(o, pod, KIT_T0, KIT_T0 + 24 * HOUR), got = ask(k, pod, KIT_T0, KIT_T0 + 24 * HOUR);
		assert_true(got.said || (got.exact == want.exact && (got.merged == want.merged || s.lost_symbols)));
		assert_true(!got.said || harmed);
	}
	return harmed;
}

/* How many values of the part the bit makes unreadable. */
static int count_value(void *arg, struct view key, struct view value, struct err *e)
{
	(void)key, (void)value, (void)e;
	++*(size_t *)arg;
	return 0;
}

static size_t values_of(const char *path)
{
	struct table_loss loss;
	struct err e;
	size_t n = 0;
	assert_int_equal(table_each(path, count_value, &n, &loss, &e), 0);
	return n;
}

/* The hours' parts became one and were rolled up: what was lost is lost and still said, the rest is as it was. */
static void check_after(struct kit *k, const struct original *o, size_t harmed)
{
	size_t now = check_answers(k, o, 1);
	if (now != harmed)
		fail_msg("%zu series of an hour were not whole, after compaction it is %zu", harmed, now);
}

/* last: no other part repeats its symbols. */
static void part_trial(const struct original *o, const char *sub, const char *name, bool last, struct tally *t)
{
	struct kit k;
	struct err e;
	struct tsdb_stats s;
	AUTOFREE char *copy = xasprintf("%s.copy", o->k.dir), *path = xasprintf("%s/%s%s", copy, sub, name);
	files_remove_tree(copy);
	run("cp", "-r", o->k.dir, copy);
	bool is_table = view_ends(view_of(name), VIEW(".sst"));
	size_t values = is_table ? values_of(path) : 0;
	long at = (long)(kit_random(&random_state) % (uint64_t)size_of(path));
	int bit = (int)(kit_random(&random_state) % 8);
	flip(path, at, bit);
	size_t may = is_table ? values - values_of(path) : 0;
	if (getenv("FLIP_TRACE"))
		fprintf(stderr, "flip %s%s at %ld bit %d: may lose %zu of %zu values\n", sub, name, at, bit, may, values);
	kit_set(&k, copy);
	k.o.no_sealing = k.o.keep_aggregates = true;
	k.now_ms = o->k.now_ms;
	kit_open(&k);
	size_t harmed = check_answers(&k, o, 0);
	tsdb_stats(k.db, &s);
	if (harmed > may || (harmed && !s.lost_records))
		fail_msg("bit %d of byte %ld of %s%s: %zu series of an hour are not whole, the block has %zu values, %llu are said to be lost",
			 bit, at, sub, name, harmed, may, (unsigned long long)s.lost_records);
	if (s.lost_symbols && !last)
		fail_msg("bit %d of byte %ld of %s%s costs %llu names that another part has", bit, at, sub, name,
			 (unsigned long long)s.lost_symbols);
	/* Late rows of each hour, so that it has two parts, which become one; then rollups of them. */
	for (int h = 0; h < PART_HOURS; h++)
		assert_int_equal(kit_append(&k, 0, KIT_T0 + h * HOUR + 1000, 1, 0, NULL), 0);
	k.now_ms = KIT_T0 + 30 * HOUR;
	assert_int_equal(tsdb_seal(k.db, true, &e), 0);
	if (tsdb_clean(k.db, &e))
		fail_msg("clean: %s", e.msg);
	kit_reopen(&k);
	check_after(&k, o, harmed);
	kit_close(&k);
	t->trials++;
	t->harmed += harmed > 0;
	t->lost += harmed;
	t->may += may;
	files_remove_tree(copy);
}

static void part_trials(const struct original *o, const char *begin, const char *end, unsigned n)
{
	AUTOFREE char *sub = xasprintf("partitions/%lld/", (long long)(KIT_T0 / (24 * HOUR))), *dir = xasprintf("%s/%s", o->k.dir, sub);
	struct names names = names_of(dir, begin, end);
	struct tally t = { 0 };
	for (unsigned i = 0; i < scaled(n); i++)
		part_trial(o, sub, names.v.v[i % names.v.n], i % names.v.n + 1 == PART_HOURS, &t);
	print_message("%s%s%s: %zu bits, %zu of them cost something: %zu series of an hour, of %zu values in their blocks\n", sub, begin, end,
		      t.trials, t.harmed, t.lost, t.may);
	free_names(names);
}

/* The names of a series are lost, its data is not: a series that comes later is not taken for it. */
static void test_lost_names(void **state)
{
	struct original o = { 0 };
	struct tsdb_stats s;
	(void)state;
	make_parts(&o);
	AUTOFREE char *dir = xasprintf("%s/partitions/%lld", o.k.dir, (long long)(KIT_T0 / (24 * HOUR)));
	struct names names = names_of(dir, "", ".sst");
	AUTOFREE char *path = xasprintf("%s/%s", dir, names.v.v[PART_HOURS - 1]);
	flip(path, 100, 2); /* its first block: header and symbols */
	for (int i = 0; i < 2; i++) {
		kit_open(&o.k);
		tsdb_stats(o.k.db, &s);
		assert_true(s.lost_symbols > 0);
		if (!i)
			append_one_of(&o.k, PART_PODS, o.k.now_ms);
		struct answer a = ask(&o.k, PART_PODS, 0, INT64_MAX / 2), b = ask(&o.k, 0, KIT_T0, KIT_T0 + HOUR);
		assert_int_equal(a.n, 1);
		assert_true(b.n == PART_EACH && a.said && !b.said);
		kit_close(&o.k);
	}
	free_names(names);
	vec_free(&o.v);
	kit_free(&o.k);
}

static void test_parts(void **state)
{
	struct original o = { 0 };
	(void)state;
	make_parts(&o);
	part_trials(&o, "", ".sst", 16);
	part_trials(&o, "MANIFEST", "", 2);
	part_trials(&o, "CURRENT", "", 2);
	part_trials(&o, "OPTIONS", "", 1);
	part_trials(&o, "IDENTITY", "", 1);
	vec_free(&o.v);
	kit_free(&o.k);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_log), cmocka_unit_test(test_parts), cmocka_unit_test(test_lost_names) };
	log_setup(LOG_LEVEL_ERROR + 1, LOG_FORMAT_LOGFMT);
	return cmocka_run_group_tests_name("flipped bits", tests, NULL, NULL);
}
