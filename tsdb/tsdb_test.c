/* SPDX-License-Identifier: Apache-2.0 */
/* The head through its seams: append, query, reopen, crash. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/num.h"
#include "model/sourcekit.h"
#include "tsdb/testkit.h"
#include "tsdb/version/db.h"

#define MINUTE INT64_C(60000)
#define HOUR (60 * MINUTE)

static uint64_t fill(struct kit *k, unsigned pods, unsigned n, int64_t from_ms, uint64_t seed0, bool cpu)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < n; i++)
		for (unsigned pod = 0; pod < pods; pod++) {
			uint64_t seed = seed0 + i * 100 + pod;
			assert_int_equal(kit_append(k, pod, from_ms + (i + 1) * 10000, seed, 50, NULL), 0);
			sum += kit_profile_sum(seed, 50, cpu);
		}
	tsdb_flush(k->db);
	return sum;
}

static void test_append_query_reopen(void **state)
{
	struct kit k;
	kit_init(&k);
	kit_open(&k);
	assert_true(kit_merge(&k, KIT_CPU, 0, INT64_MAX, NULL) == 0);
	uint64_t sum = fill(&k, 3, 20, KIT_T0, 1, true);
	struct pool *pool = pool_new(2, "test");
	for (int again = 0; again < 2; again++) {
		assert_true(kit_merge(&k, KIT_CPU, 0, KIT_T0 + HOUR, NULL) == sum);
		assert_true(kit_merge(&k, KIT_CPU, 0, KIT_T0 + HOUR, pool) == sum);
		assert_int_equal(kit_count(&k, KIT_CPU, 0, KIT_T0 + HOUR, NULL), 60);
		uint64_t part = 0;
		for (unsigned i = 4; i < 9; i++)
			for (unsigned pod = 0; pod < 3; pod++)
				part += kit_profile_sum(1 + i * 100 + pod, 50, true);
		assert_true(kit_merge(&k, KIT_CPU, KIT_T0 + 40000, KIT_T0 + 90000, pool) == part);
		/* more than half: the other way round */
		assert_true(kit_merge(&k, KIT_CPU, KIT_T0 + 0, KIT_T0 + 40000, pool) +
				    kit_merge(&k, KIT_CPU, KIT_T0 + 40000, KIT_T0 + 200000, pool) == sum);
		kit_reopen(&k);
	}
	pool_free(pool);
	kit_free(&k);
}

static void test_duplicates_and_clock(void **state)
{
	struct kit k;
	struct sink_result r;
	kit_init(&k);
	kit_open(&k);
	int64_t t = KIT_T0 + HOUR;
	assert_int_equal(kit_append(&k, 1, t, 1, 20, &r), 0);
	assert_int_equal(r.profiles, 1);
	assert_int_equal(kit_append(&k, 1, t, 2, 20, &r), 0);
	assert_int_equal(r.profiles, 0);
	assert_int_equal(r.duplicates, 2);
	assert_int_equal(kit_append(&k, 1, t - 5000, 3, 20, &r), 0);
	assert_int_equal(r.profiles, 1);
	tsdb_flush(k.db);
	assert_int_equal(kit_append(&k, 1, t - 5000, 3, 20, &r), 0);
	assert_int_equal(r.duplicates, 2);
	assert_int_equal(kit_append(&k, 1, t + 11 * MINUTE, 4, 20, &r), 0);
	assert_int_equal(r.too_new, 1);
	assert_int_equal(kit_append(&k, 1, t - 16 * 24 * HOUR, 4, 20, &r), 0);
	assert_int_equal(r.too_old, 1);
	assert_int_equal(kit_append(&k, 1, t - 14 * 24 * HOUR, 5, 20, &r), 0);
	assert_int_equal(r.profiles, 1);
	tsdb_flush(k.db);
	uint64_t sum = kit_profile_sum(1, 20, false) + kit_profile_sum(3, 20, false) + kit_profile_sum(5, 20, false);
	assert_true(kit_merge(&k, KIT_SAMPLES, 0, INT64_MAX, NULL) == sum);
	kit_reopen(&k);
	assert_true(kit_merge(&k, KIT_SAMPLES, 0, INT64_MAX, NULL) == sum);
	assert_int_equal(kit_append(&k, 1, t, 2, 20, &r), 0);
	assert_int_equal(r.duplicates, 2);
	kit_free(&k);
}

static void test_floats_and_labels(void **state)
{
	struct kit k;
	struct err e;
	kit_init(&k);
	kit_open(&k);
	for (int i = 0; i < 100; i++)
		assert_int_equal(kit_append_float(&k, "up", KIT_T0 + 1000 + i * 10000, i / 3.0, NULL), 0);
	assert_int_equal(kit_append_float(&k, "up", KIT_T0 + 1000 + 100 * 10000, value_from_bits(VALUE_STALE_BITS), NULL), 0);
	fill(&k, 12, 1, KIT_T0, 1, true);
	for (int again = 0; again < 2; again++) {
		struct source_view *v;
		struct matcher m;
		struct source_series *s;
		struct view *texts;
		size_t n;
		assert_int_equal(tsdb_source(k.db)->open(tsdb_source(k.db), &v, &e), 0);
		assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW("pod"), VIEW(""), &e), 0);
		assert_int_equal(v->ops->select(v, &m, 1, 0, INT64_MAX, NULL, &s, &n, &e), 0);
		assert_int_equal(n, 1);
		assert_null(s[0].type);
		kit_check_types(v, 0, INT64_MAX);
		kit_check_types(v, KIT_T0 - HOUR, KIT_T0 - MINUTE);
		struct point *p;
		size_t n_p;
		assert_int_equal(one_series_floats(v, s[0].ref, KIT_T0, KIT_T0 + HOUR, NULL, &p, &n_p, &e), 0);
		assert_int_equal(n_p, 101);
		assert_true(p[99].v == 33);
		assert_true(value_is_stale(p[100].v));
		free(p);
		/* up to the limit and past it, at once and in two readings */
		atomic_uint_fast64_t read = 0;
		struct source_limits lim = { .max_samples = 202, .samples_read = &read };
		for (int i = 0; i < 3; i++) {
			int rc = one_series_floats(v, s[0].ref, KIT_T0, KIT_T0 + HOUR, &lim, &p, &n_p, &e);
			assert_int_equal(rc, i < 2 ? 0 : -ERR_LIMIT);
			if (!rc)
				free(p);
		}
		read = 0;
		lim.max_samples = 100;
		assert_int_equal(one_series_floats(v, s[0].ref, KIT_T0, KIT_T0 + HOUR, &lim, &p, &n_p, &e), -ERR_LIMIT);
		free(s);
		matcher_release(&m);
		assert_int_equal(v->ops->label_names(v, NULL, 0, 0, INT64_MAX, NULL, &texts, &n, &e), 0);
		assert_int_equal(n, 3);
		assert_true(view_eqs(texts[0], "__name__") && view_eqs(texts[1], "job") && view_eqs(texts[2], "pod"));
		free(texts);
		assert_int_equal(matcher_init(&m, MATCH_RE, VIEW("pod"), VIEW("pod-1.*"), &e), 0);
		assert_int_equal(v->ops->label_values(v, VIEW("pod"), &m, 1, 0, INT64_MAX, NULL, &texts, &n, &e), 0);
		assert_int_equal(n, 3);
		assert_true(view_eqs(texts[2], "pod-11"));
		free(texts);
		matcher_release(&m);
		v->ops->release(v);
		kit_reopen(&k);
	}
	kit_free(&k);
}

/* Appends write under a lock of the day: a filter that takes its time must not hold it. */
struct lock_asker {
	struct rwlock *lock;
	struct regex_meter meter;
	atomic_bool canceled, over;
};

/* Cancels the filter when it has the lock in the midst of it. */
static void *ask_for_the_lock(void *arg)
{
	struct lock_asker *x = arg;
	while (!atomic_load(&x->over)) {
		if (atomic_load(&x->meter.spent_ns) && rwlock_try_write(x->lock)) {
			atomic_store(&x->canceled, true);
			rwlock_unlock(x->lock);
			break;
		}
		clock_sleep_ms(1);
	}
	return NULL;
}

/* Each expression takes about half a millisecond on a function: the filter, more than a second. */
static void check_slow_filter(struct source_view *v, const struct source_part *parts, size_t n, size_t n_groups, struct rwlock *lock)
{
	enum { SLOW = 30 };
	struct lock_asker x = { .lock = lock };
	struct source_limits lim = { .regex = &x.meter };
	struct matcher m[SLOW];
	const struct source_frame_filter f = { .m = m, .n = SLOW };
	double *sums = xcalloc(n_groups, sizeof *sums);
	pthread_t thread;
	struct err e;
	x.meter.canceled = &x.canceled;
	for (size_t i = 0; i < SLOW; i++)
		assert_int_equal(matcher_init(&m[i], MATCH_RE, VIEW("function"), VIEW("(?:.?){16}.{6}!|.*"), &e), 0);
	assert_int_equal(pthread_create(&thread, NULL, ask_for_the_lock, &x), 0);
	int rc = v->ops->sums(v, parts, n, n_groups, &f, &lim, sums, NULL, &e);
	atomic_store(&x.over, true);
	pthread_join(thread, NULL);
	assert_int_equal(rc, -ERR_CANCELED);
	for (size_t i = 0; i < SLOW; i++)
		matcher_release(&m[i]);
	free(sums);
}

struct seen_cells {
	enum source_alike alike;
	int64_t sum;
	size_t n;
	bool wrong;
};

static int see_cells(void *arg, const struct source_cells *c, unsigned worker, struct err *e)
{
	struct seen_cells *x = arg;
	(void)e;
	for (size_t i = 0; i < c->n; i++) {
		x->sum += c->values[i];
		x->wrong |= c->rows[i] >= c->n_rows || source_cells_column(c, i) >= symbols_count(c->symbols, SYMBOLS_COLUMNS) || c->series >= 4;
	}
	x->n += c->n;
	x->wrong |= worker != 0;
	return 0;
}

static enum source_alike all_alike(void *arg, size_t a, size_t b, int64_t after_ms, int64_t until_ms)
{
	const struct seen_cells *x = arg;
	return a < 4 && b < 4 && after_ms < until_ms ? x->alike : SOURCE_UNLIKE;
}

/* Each stored value once, from the head and from sealed hours. */
static void check_cells(struct source_view *v, const struct source_series *s, int64_t total)
{
	uint64_t refs[4];
	struct seen_cells x = { 0 };
	struct err e;
	for (int i = 0; i < 4; i++)
		refs[i] = s[i].ref;
	struct source_stats stats = { 0 };
	struct source_limits lim = { .stats = &stats };
	assert_int_equal(v->ops->cells(v, refs, 4, 0, INT64_MAX, &lim, &(struct source_cells_reader){ .take = see_cells, .arg = &x }, &e), 0);
	assert_true(x.sum == total && x.n > 0 && !x.wrong);
	assert_true(stats.samples == x.n && stats.chunks >= 4 && stats.bytes > 0);
	/* the same of sums by the minute or the hour, where all series count alike and there are such sums: no more values, and no less in all */
	for (enum source_alike how = SOURCE_UNLIKE; how <= SOURCE_ALIKE; how++) {
		struct seen_cells alike = { .alike = how };
		assert_int_equal(v->ops->cells(v, refs, 4, 0, INT64_MAX, NULL, &(struct source_cells_reader){ .take = see_cells, .alike = all_alike, .arg = &alike }, &e), 0);
		assert_true(alike.sum == total && alike.n > 0 && alike.n <= x.n && !alike.wrong);
	}
}

static void test_sums(void **state)
{
	struct kit k;
	struct err e;
	struct source_view *v;
	struct source_series *s;
	size_t n;
	int64_t total;
	kit_init(&k);
	kit_open(&k);
	fill(&k, 4, 30, KIT_T0, 1, false);
	assert_int_equal(kit_count(&k, KIT_SAMPLES, 0, INT64_MAX, &total), 120);
	assert_int_equal(tsdb_source(k.db)->open(tsdb_source(k.db), &v, &e), 0);
	struct matcher m;
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW(LABEL_NAME), VIEW(KIT_CPU), &e), 0);
	assert_int_equal(v->ops->select(v, &m, 1, 0, INT64_MAX, NULL, &s, &n, &e), 0);
	assert_int_equal(n, 4);
	struct source_part parts[20];
	for (size_t i = 0; i < 20; i++)
		parts[i] = (struct source_part){ s[i % 4].ref, KIT_T0 + (int64_t)(i / 4) * MINUTE, KIT_T0 + (int64_t)(i / 4 + 1) * MINUTE, 1, (uint32_t)(i / 4) };
	const struct matcher function = { MATCH_EQ, VIEW("function"), VIEW("main.main"), NULL };
	const struct source_frame_filter all = { .m = &function, .n = 1 }, leaf = { .m = &function, .n = 1, .leaf_only = true };
	double sums[5];
	int64_t exact[5], sum = 0;
	assert_int_equal(v->ops->sums(v, parts, 20, 5, &all, NULL, sums, exact, &e), 0);
	for (int i = 0; i < 5; i++)
		sum += exact[i];
	assert_true(sum == total * KIT_PERIOD);
	assert_int_equal(v->ops->sums(v, parts, 20, 5, &leaf, NULL, sums, exact, &e), 0);
	assert_true(sums[0] == 0);
	struct partition *day = tsdb_partition(k.db, (uint32_t)(KIT_T0 / DAY_MS));
	check_slow_filter(v, parts, 20, 5, &day->dict_lock);
	partition_unref(day);
	check_cells(v, s, total * KIT_PERIOD);
	free(s);
	v->ops->release(v);
	assert_int_equal(tsdb_seal(k.db, true, &e), 0);
	assert_int_equal(tsdb_source(k.db)->open(tsdb_source(k.db), &v, &e), 0);
	assert_int_equal(v->ops->select(v, &m, 1, 0, INT64_MAX, NULL, &s, &n, &e), 0);
	check_cells(v, s, total * KIT_PERIOD);
	matcher_release(&m);
	free(s);
	v->ops->release(v);
	kit_free(&k);
}

/* What a query sees does not change while it holds its view. */
static void test_view_is_stable(void **state)
{
	struct kit k;
	struct err e;
	struct source_view *v;
	struct source_series *s;
	size_t n, before, after;
	struct source_profile *p;
	kit_init(&k);
	kit_open(&k);
	fill(&k, 1, 5, KIT_T0, 1, false);
	assert_int_equal(tsdb_source(k.db)->open(tsdb_source(k.db), &v, &e), 0);
	fill(&k, 1, 5, KIT_T0 + MINUTE, 1000, false);
	struct matcher m;
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW(LABEL_NAME), VIEW(KIT_SAMPLES), &e), 0);
	assert_int_equal(v->ops->select(v, &m, 1, 0, INT64_MAX, NULL, &s, &n, &e), 0);
	assert_int_equal(one_series_profiles(v, s[0].ref, 0, INT64_MAX, NULL, &p, &before, &e), 0);
	assert_int_equal(before, 5);
	assert_int_equal(p[4].cover_ms, 10000);
	assert_true(p[4].weight == 1);
	free(p);
	struct source_part part = { s[0].ref, 0, INT64_MAX, 1, 0 };
	struct stackvec *sum;
	assert_int_equal(v->ops->merge(v, &part, 1, 1, SYMBOLS_WHOLE, NULL, &sum, &e), 0);
	uint64_t want = 0;
	for (unsigned i = 0; i < 5; i++)
		want += kit_profile_sum(1 + i * 100, 50, false);
	assert_true(kit_vec_sum(sum) == want);
	stackvec_unref(sum);
	matcher_release(&m);
	free(s);
	v->ops->release(v);
	assert_int_equal(kit_count(&k, KIT_SAMPLES, 0, INT64_MAX, NULL), 10);
	(void)after;
	kit_free(&k);
}

/* ---- crashes ---- */

/* Hours pass in no time, so that windows are sealed, rolled up and trimmed all the while. */
#define STEP 20000

static uint64_t commits(struct kit *k)
{
	uint64_t seq;
	version_unref(tsdb_version(k->db, &seq));
	return seq;
}

static void note_done(void *arg, const struct err *e)
{
	assert_int_equal(e->code, 0);
	atomic_store((_Atomic int64_t *)arg, clock_mono_ms());
}

static int64_t wait_for_time(_Atomic int64_t *at)
{
	for (int i = 0; i < 3000 && !atomic_load(at); i++)
		clock_sleep_ms(10);
	return atomic_load(at);
}

/* What nobody waits for is gathered ten times as long, unless something comes for which somebody does. */
static void test_patience(void **state)
{
	struct kit k;
	_Atomic int64_t patient = 0, pressing = 0;
	kit_init(&k);
	k.o.commit_interval_ms = 90;
	kit_open(&k);
	k.patient = true;
	int64_t begin = clock_mono_ms();
	assert_int_equal(kit_append_done(&k, 0, KIT_T0 + 1, 0, 20, NULL, note_done, (void *)&patient), 0);
	assert_true(wait_for_time(&patient) - begin >= 890);
	atomic_store(&patient, 0);
	begin = clock_mono_ms();
	assert_int_equal(kit_append_done(&k, 0, KIT_T0 + 1 + STEP, 0, 20, NULL, note_done, (void *)&patient), 0);
	k.patient = false;
	clock_sleep_ms(100); /* the commit has begun to gather */
	assert_int_equal(kit_append_done(&k, 1, KIT_T0 + 1 + STEP, 0, 20, NULL, note_done, (void *)&pressing), 0);
	int64_t one = wait_for_time(&pressing), other = wait_for_time(&patient);
	assert_true(one && other);
	assert_true(one - begin < 800 && other - begin < 800);
	kit_free(&k);
}

/* As kit_append, of a profile all of whose values are v. */
static int append_values(struct kit *k, unsigned pod, int64_t t_ms, int64_t v, struct err *e)
{
	struct profile p;
	struct label labels[] = { { VIEW(LABEL_NAME), VIEW(KIT_SAMPLES) }, { VIEW("job"), VIEW("kit") }, { VIEW("pod"), pod ? VIEW("pod-1") : VIEW("pod-0") } };
	struct sink_column column = { .labels = { labels, 3 } };
	kit_profile(&p, 1, 4);
	for (uint32_t i = 0; i < p.n_samples * p.n_sample_types; i++)
		p.values[i] = i % 2 ? 0 : v;
	assert_true(ptype_parse(VIEW(KIT_SAMPLES), &column.type));
	struct sink_profile sp = { .profile = &p, .columns = &column, .n_columns = 1, .t_ms = t_ms, .duration_ns = 10000000000, .interval_ms = 10000 };
	struct sink_batch b = { .profiles = &sp, .n_profiles = 1 };
	int rc = tsdb_sink(k->db)->append(tsdb_sink(k->db), &b, NULL, e);
	profile_release(&p);
	if (!rc)
		tsdb_flush(k->db);
	return rc;
}

static struct series *series_of(struct kit *k, int64_t t_ms, uint32_t id)
{
	struct partition *p = tsdb_partition(k->db, day_of(t_ms));
	partition_unref(p);
	return p->index.series.v[id];
}

/* What would make a series' hour too large to be sealed is refused, also after a restart; the others seal, and it as well. */
static void test_sums_over_64_bits(void **state)
{
	struct kit k;
	struct err e = { 0 };
	struct tsdb_stats st;
	int64_t huge = INT64_MAX / 16; /* 4 samples: 3 such profiles fit */
	kit_init(&k);
	kit_open(&k);
	for (int i = 0; i < 3; i++)
		assert_int_equal(append_values(&k, 0, KIT_T0 + 1 + i * STEP, i ? huge : -huge, &e), 0);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 3; i++) {
			int64_t t = KIT_T0 + 1 + (5 + i) * STEP + round;
			assert_int_equal(append_values(&k, 0, t, i % 2 ? -2 * huge : 2 * huge, &e), -ERR_BAD_DATA);
			assert_non_null(strstr(e.msg, "64 bits"));
			assert_int_equal(append_values(&k, 0, t, 7, &e), 0); /* that stamp is not taken */
			assert_int_equal(append_values(&k, 1, t, 7, &e), 0);
		}
		kit_reopen(&k);
	}
	assert_int_equal(tsdb_seal(k.db, true, &e), 0);
	tsdb_stats(k.db, &st);
	assert_int_equal(st.head_windows, 0);
	assert_int_equal(st.lost_records, 0);
	assert_int_equal(kit_count(&k, KIT_SAMPLES, 0, INT64_MAX, NULL), 3 + 6 + 6);
	kit_free(&k);
}

/* A log with more than that, of an older version: what is over is left out, and said to be; what is left is sealed. */
static void test_log_over_64_bits(void **state)
{
	struct kit k;
	struct err e = { 0 };
	struct tsdb_stats st;
	kit_init(&k);
	kit_open(&k);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(append_values(&k, 0, KIT_T0 + 1 + i * STEP, INT64_MAX / 6, &e), 0);
		series_of(&k, KIT_T0 + 1, 0)->magnitude = 0;
	}
	kit_reopen(&k);
	tsdb_stats(k.db, &st);
	assert_int_equal(st.lost_records, 2);
	assert_int_equal(tsdb_seal(k.db, true, &e), 0);
	tsdb_stats(k.db, &st);
	assert_int_equal(st.head_windows, 0);
	assert_int_equal(kit_count(&k, KIT_SAMPLES, 0, INT64_MAX, NULL), 1);
	kit_free(&k);
}

/* A commit gathers for as long as it may, and no longer than somebody waits for it. */
static void test_commit_interval(void **state)
{
	struct kit k;
	kit_init(&k);
	k.o.commit_interval_ms = 24 * 3600000; /* what is not cut short, hangs */
	kit_open(&k);
	for (int round = 0; round < 2; round++) {
		uint64_t before = commits(&k);
		for (unsigned i = 0; i < 10; i++)
			assert_int_equal(kit_append(&k, i, KIT_T0 + 1 + round * STEP, i, 20, NULL), 0);
		tsdb_flush(k.db);
		assert_int_equal(commits(&k) - before, 1);
	}
	assert_int_equal(kit_append(&k, 0, KIT_T0 + 1 + 2 * STEP, 0, 20, NULL), 0);
	kit_reopen(&k);
	struct tsdb_stats st;
	tsdb_stats(k.db, &st);
	assert_int_equal(st.max_t_ms, KIT_T0 + 1 + 2 * STEP);
	kit_free(&k);
}

struct shared {
	_Atomic uint64_t acknowledged; /* profiles, in order of their number */
};

static void acknowledge(void *arg, const struct err *e)
{
	if (!e->code)
		((struct shared *)arg)->acknowledged++;
}

static void writer(struct kit *k, struct shared *s, uint64_t from)
{
	kit_open(k);
	for (uint64_t i = from;; i++) {
		struct profile p;
		struct err e;
		kit_profile(&p, i, 30);
		struct label l[] = { { VIEW(LABEL_NAME), VIEW(KIT_SAMPLES) } };
		struct sink_column c = { .labels = { l, 1 } };
		ptype_parse(VIEW(KIT_SAMPLES), &c.type);
		struct sink_profile sp = { .profile = &p, .columns = &c, .n_columns = 1, .t_ms = KIT_T0 + 1 + (int64_t)i * STEP,
					   .interval_ms = STEP };
		struct sink_batch b = { .profiles = &sp, .n_profiles = 1, .done = acknowledge, .done_arg = s };
		k->now_ms = MAX(k->now_ms, sp.t_ms);
		if (tsdb_sink(k->db)->append(tsdb_sink(k->db), &b, NULL, &e))
			_exit(1);
		profile_release(&p);
		if (i % 64 == 63)
			tsdb_flush(k->db);
	}
}

static void test_kill(void **state)
{
	struct kit k;
	struct shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	const char *rounds_env = getenv("PYRRHA_CRASH_ROUNDS");
	int64_t rounds = 8;
	if (rounds_env)
		assert_true(num_parse_i64(view_of(rounds_env), &rounds));
	uint64_t random = 42, there = 0;
	kit_init(&k);
	k.o.retention_ms = -1;
	for (int64_t round = 0; round < rounds; round++) {
		s->acknowledged = there;
		pid_t pid = fork();
		if (!pid)
			writer(&k, s, there);
		usleep((useconds_t)(20000 + kit_random(&random) % 120000));
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		uint64_t acknowledged = s->acknowledged;
		kit_open(&k);
		there = kit_count(&k, KIT_SAMPLES, 0, INT64_MAX, NULL);
		assert_true(there >= acknowledged);
		struct tsdb_stats st;
		tsdb_stats(k.db, &st);
		assert_int_equal(st.lost_records, 0);
		uint64_t want = 0;
		for (uint64_t i = 0; i < there; i++)
			want += kit_profile_sum(i, 30, false);
		assert_true(kit_merge(&k, KIT_SAMPLES, 0, INT64_MAX, NULL) == want);
		kit_close(&k);
		k.now_ms = MAX(k.now_ms, KIT_T0 + (int64_t)there * STEP);
	}
	print_message("killed %lld times, %llu profiles, none acknowledged lost\n", (long long)rounds, (unsigned long long)there);
	munmap(s, sizeof *s);
	kit_free(&k);
}

/* Each KiB of labels after a series' first is a series for the limit, over a restart too: they lie in memory all day. */
static void test_long_labels(void **state)
{
	struct kit k;
	struct err e;
	char text[4096];
	(void)state;
	kit_init(&k);
	k.o.max_series = 12;
	kit_open(&k);
	memset(text, 'x', sizeof text);
	for (int i = 0; i < 6; i++) {
		struct label l[] = { { VIEW(LABEL_NAME), VIEW("m") }, { VIEW("a"), view_make(text, sizeof text - (size_t)i) } };
		struct sink_float f = { { l, 2 }, KIT_T0 + 1000 + i, 1 };
		struct sink_batch b = { .floats = &f, .n_floats = 1 };
		int rc = tsdb_sink(k.db)->append(tsdb_sink(k.db), &b, NULL, &e);
		assert_int_equal(rc, i < 3 ? 0 : -ERR_LIMIT);
		if (rc)
			assert_non_null(strstr(e.msg, "labels above 1 KiB count as several"));
		if (i == 4) {
			kit_close(&k);
			kit_open(&k);
		}
	}
	kit_free(&k);
}

/* A target whose series never end, and an ordinary one that comes after it: half of the series are for whoever comes, the others are shared. */
static void test_targets_share_series(void **state)
{
	struct kit k;
	struct err e;
	char value[16];
	size_t taken[2] = { 0 };
	(void)state;
	kit_init(&k);
	k.o.max_series = 100;
	kit_open(&k);
	for (int i = 0; i < 240; i++) {
		bool ordinary = i == 0 || i >= 200;
		snprintf(value, sizeof value, "%d", i);
		struct label l[] = { { VIEW(LABEL_NAME), VIEW("m") }, { VIEW("a"), view_of(value) }, { VIEW("job"), view_of(ordinary ? "ordinary" : "flood") } };
		struct sink_float f = { { l, 3 }, KIT_T0 + 1000, 1 };
		struct sink_batch b = { .floats = &f, .n_floats = 1 };
		struct sink_result r = { 0 };
		taken[ordinary] += tsdb_sink(k.db)->append(tsdb_sink(k.db), &b, &r, &e) == 0;
	}
	assert_int_equal(taken[0], 49);
	assert_int_equal(taken[1], 25); /* its share, after the half that the other one took */
	kit_free(&k);
}

/* Ten label sets, of which three may be: the rest are one, and no value is lost. */
static void test_label_sets(void **state)
{
	struct kit k;
	struct err e;
	struct profile p;
	kit_init(&k);
	k.o.max_label_sets = 3;
	kit_open(&k);
	kit_profile(&p, 1, 10);
	p.n_labels = 10;
	p.labels = arena_calloc(&p.arena, 10, sizeof *p.labels);
	int64_t want = 0;
	for (uint32_t i = 0; i < 10; i++) {
		p.labels[i] = (struct profile_label){ .key_str = 3, .is_num = true, .num = i };
		p.samples[i].first_label = i;
		p.samples[i].n_labels = 1;
		want += p.values[i * 2] = i + 1;
	}
	struct label l[] = { { VIEW(LABEL_NAME), VIEW(KIT_SAMPLES) } };
	struct sink_column c = { .labels = { l, 1 } };
	assert_true(ptype_parse(VIEW(KIT_SAMPLES), &c.type));
	struct sink_profile sp = { .profile = &p, .columns = &c, .n_columns = 1, .t_ms = KIT_T0 + 1000, .interval_ms = 10000 };
	struct sink_batch b = { .profiles = &sp, .n_profiles = 1 };
	assert_int_equal(tsdb_sink(k.db)->append(tsdb_sink(k.db), &b, NULL, &e), 0);
	profile_release(&p);
	tsdb_flush(k.db);
	struct source_view *v;
	struct source_series *s;
	struct stackvec *sum;
	size_t n;
	uint32_t seen = 0;
	assert_int_equal(tsdb_source(k.db)->open(tsdb_source(k.db), &v, &e), 0);
	assert_int_equal(v->ops->select(v, NULL, 0, 0, INT64_MAX, NULL, &s, &n, &e), 0);
	assert_int_equal(n, 1);
	struct source_part part = { s[0].ref, 0, INT64_MAX, 1, 0 };
	assert_int_equal(v->ops->merge(v, &part, 1, 1, SYMBOLS_WHOLE, NULL, &sum, &e), 0);
	for (size_t i = 0; i < sum->n; i++)
		seen |= 1u << symbols_get_column(sum->symbols, sum->columns[i])->label_set;
	/* The other seven sets were interned too, but no column of the series has them. */
	assert_int_equal(__builtin_popcount(seen), 4);
	int64_t total;
	assert_int_equal(stackvec_total_int(sum, &total, &e), 0);
	assert_true(total == want);
	stackvec_unref(sum);
	free(s);
	v->ops->release(v);
	kit_free(&k);
}

/* Of pairs with as many series the first by text are listed, whichever came first. */
static void test_status_by_text(void **state)
{
	struct kit k;
	struct buf got = { 0 };
	(void)state;
	kit_init(&k);
	kit_open(&k);
	for (unsigned pod = 40; pod-- > 10;)
		assert_int_equal(kit_append(&k, pod, KIT_T0 + 10000, pod, 5, NULL), 0);
	tsdb_flush(k.db);
	struct admin_status *s = tsdb_admin(k.db)->status(tsdb_admin(k.db), 6);
	for (size_t i = 0; i < s->series_by_pair.n; i++)
		buf_printf(&got, "%.*s %u\n", VIEW_ARG(s->series_by_pair.v[i].name), (unsigned)s->series_by_pair.v[i].value);
	assert_string_equal(got.ptr, "job=kit 60\n__name__=" KIT_CPU " 30\n__name__=" KIT_SAMPLES " 30\n"
				     "pod=pod-10 2\npod=pod-11 2\npod=pod-12 2\n");
	buf_free(&got);
	free(s);
	kit_free(&k);
}

static int count_log(void *arg, const char *name, struct err *e)
{
	(void)e;
	*(int *)arg += view_ends(view_of(name), VIEW(".log"));
	return 0;
}

/* Each start opens the database of each day, and RocksDB begins a log then. Logs without a record do not pile up. */
static void test_starts_leave_no_files(void **state)
{
	struct kit k;
	struct err e;
	(void)state;
	kit_init(&k);
	k.now_ms = KIT_T0 + 3 * HOUR_MS;
	kit_open(&k);
	assert_int_equal(kit_append(&k, 1, KIT_T0 + 1, 1, 5, NULL), 0);
	tsdb_flush(k.db);
	assert_int_equal(tsdb_seal(k.db, true, &e), 0);
	AUTOFREE char *dir = xasprintf("%s/partitions/%lld", k.dir, (long long)(KIT_T0 / DAY_MS));
	for (int i = 0; i < 4; i++) {
		int n = 0;
		kit_reopen(&k);
		assert_int_equal(files_each(dir, count_log, &n, &e), 0);
		assert_true(n <= 1);
	}
	assert_int_equal(kit_count(&k, KIT_SAMPLES, 0, INT64_MAX, NULL), 1);
	kit_free(&k);
}

static void test_snapshot(void **state)
{
	struct kit k;
	struct err e;
	kit_init(&k);
	k.now_ms = KIT_T0 + 5 * HOUR;
	k.o.no_sealing = true;
	kit_open(&k);
	uint64_t sum = fill(&k, 2, 20, KIT_T0, 1, false);
	assert_int_equal(tsdb_seal(k.db, true, &e), 0);
	sum += fill(&k, 2, 20, KIT_T0 + 2 * HOUR, 9000, false);
	AUTOFREE char *dir = xasprintf("%s/snapshots/one", k.dir);
	if (tsdb_snapshot(k.db, dir, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(tsdb_snapshot(k.db, dir, &e), -ERR_CONFLICT);
	fill(&k, 2, 20, KIT_T0 + 3 * HOUR, 5000, false);
	struct kit copy = k;
	copy.o.path = dir;
	copy.o.now_arg = &copy;
	kit_open(&copy);
	assert_true(kit_merge(&copy, KIT_SAMPLES, 0, INT64_MAX, NULL) == sum);
	assert_int_equal(kit_append(&copy, 9, KIT_T0 + 4 * HOUR, 1, 20, NULL), 0);
	kit_close(&copy);
	assert_int_equal(kit_count(&k, KIT_SAMPLES, 0, INT64_MAX, NULL), 120);
	kit_free(&k);
}

/* ---- all at once ---- */

struct busy {
	struct kit k;
	atomic_bool stop;
	atomic_uint appended, queries;
};

static void *appender(void *arg)
{
	struct busy *b = arg;
	static atomic_uint number;
	unsigned pod = atomic_fetch_add(&number, 1);
	for (int64_t i = 1; !atomic_load(&b->stop); i++) {
		if (kit_append(&b->k, pod, KIT_T0 + i * 7000, (uint64_t)i, 20, NULL) == 0)
			atomic_fetch_add(&b->appended, 1);
		if (i > 3000)
			clock_sleep_ms(5);
	}
	return NULL;
}

/* Two answers of one view are equal, whatever goes on. */
static void *asker(void *arg)
{
	struct busy *b = arg;
	struct pool *pool = pool_new(2, "busy");
	while (!atomic_load(&b->stop)) {
		size_t before = kit_count(&b->k, KIT_CPU, 0, INT64_MAX, NULL);
		kit_merge(&b->k, KIT_CPU, KIT_T0, KIT_T0 + HOUR, pool);
		assert_true(kit_count(&b->k, KIT_CPU, 0, INT64_MAX, NULL) >= before);
		atomic_fetch_add(&b->queries, 1);
	}
	pool_free(pool);
	return NULL;
}

static void test_concurrent(void **state)
{
	static struct busy b;
	pthread_t threads[4];
	struct err e;
	kit_init(&b.k);
	b.k.now_ms = KIT_T0 + 20 * HOUR;
	kit_open(&b.k);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, i < 2 ? appender : asker, &b), 0);
	for (int i = 0; i < 8; i++) {
		clock_sleep_ms(150);
		assert_int_equal(tsdb_seal(b.k.db, true, &e), 0);
	}
	atomic_store(&b.stop, true);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	tsdb_flush(b.k.db);
	assert_int_equal(kit_count(&b.k, KIT_CPU, 0, INT64_MAX, NULL), atomic_load(&b.appended));
	kit_reopen(&b.k);
	assert_int_equal(kit_count(&b.k, KIT_CPU, 0, INT64_MAX, NULL), atomic_load(&b.appended));
	print_message("%u appended, %u queries\n", atomic_load(&b.appended), atomic_load(&b.queries));
	kit_free(&b.k);
}

/* A budget as of a decoder that waits for memory. Asked for bytes, it has another thread append a profile of the same day, and agrees when that is done. */
struct waiting_budget {
	struct budget all, part;
	struct kit others;           /* appends to the storage under test; its profiles have no budget */
	unsigned asked, in_time;
	atomic_bool done;
};

static void *append_beside(void *arg)
{
	struct waiting_budget *w = arg;
	assert_int_equal(kit_append(&w->others, 2, KIT_T0 + 10000 * w->asked, w->asked, 50, NULL), 0);
	atomic_store(&w->done, true);
	return NULL;
}

static bool wait_for_others(struct budget *part, size_t n, enum budget_line line)
{
	struct waiting_budget *w = (struct waiting_budget *)((char *)part - offsetof(struct waiting_budget, part));
	pthread_t thread;
	w->asked++;
	atomic_store(&w->done, false);
	assert_int_equal(pthread_create(&thread, NULL, append_beside, w), 0);
	for (int i = 0; i < 3000 && !atomic_load(&w->done); i++)
		clock_sleep_ms(1);
	w->in_time += atomic_load(&w->done);
	pthread_detach(thread);
	budget_adopt(&w->all, n);
	return true;
}

/* An append that has to wait for memory does not hold the lock of the day's dictionary meanwhile: other appends go on. */
static void test_waits_for_memory_alone(void **state)
{
	static struct waiting_budget w = { .all = { .max = 16 }, .part = { .parent = &w.all, .more = wait_for_others } };
	struct kit k;
	kit_init(&k);
	kit_open(&k);
	w.others = k;
	k.budget = &w.part;
	enum { PROFILES = 16 };      /* of different sizes: the blocks of some have room left */
	for (int i = 1; i <= PROFILES; i++)
		assert_int_equal(kit_append(&k, 1, KIT_T0 + 10000 * i, (uint64_t)i, 500 * (uint32_t)i, NULL), 0);
	assert_true(w.asked > 0);
	assert_int_equal(w.in_time, w.asked);
	assert_int_equal(budget_used(&w.part), 0);
	tsdb_flush(k.db);
	assert_int_equal(kit_count(&k, KIT_CPU, 0, INT64_MAX, NULL), PROFILES + w.asked);
	kit_free(&k);
}

static void test_lock_and_format(void **state)
{
	struct kit k;
	struct err e;
	struct tsdb *second = NULL;
	kit_init(&k);
	kit_open(&k);
	assert_int_equal(tsdb_open(&second, &k.o, &e), -ERR_CONFLICT);
	assert_non_null(strstr(e.msg, "another process"));
	kit_close(&k);
	char *name = xasprintf("%s/version", k.dir);
	for (int bit = 0; bit < 8; bit++) { /* of the number: no newer program wrote that */
		FILE *x = fopen(name, "r+");
		assert_true(x && fseek(x, 12, SEEK_SET) == 0);
		int digit = fgetc(x);
		assert_int_equal(digit, '5');
		assert_int_equal(fseek(x, 12, SEEK_SET), 0);
		fputc(digit ^ 1 << bit, x);
		fclose(x);
		kit_open(&k);
		kit_close(&k);
	}
	FILE *f = fopen(name, "w");
	fputs("pyrrha-tsdb 99\n", f);
	fclose(f);
	free(name);
	assert_int_equal(tsdb_open(&second, &k.o, &e), -ERR_CORRUPT);
	assert_non_null(strstr(e.msg, "newer"));
	kit_free(&k);
}

/* One series whose hour does not add up within 64 bits holds up no other hour. */
static void test_sealed_beside(void **state)
{
	(void)state;
	struct kit k;
	struct err e;
	struct tsdb_stats stats;
	kit_init(&k);
	kit_open(&k);
	for (int64_t i = 1; i <= 3 * 6; i++) {
		k.now_ms = KIT_T0 + i * 600000 - 1000;
		assert_int_equal(kit_append(&k, 1, k.now_ms, (uint64_t)i, 5, NULL), 0);
	}
	for (int64_t i = 0; i < 3; i++) {
		struct profile p;
		kit_profile(&p, 1, 1);
		struct label labels[] = { { VIEW(LABEL_NAME), VIEW(KIT_CPU) }, { VIEW("pod"), VIEW("huge") } };
		struct sink_column column = { .labels = { labels, 2 }, .value_index = 1 };
		assert_true(ptype_parse(VIEW(KIT_CPU), &column.type));
		int64_t values[] = { 1, INT64_MAX / 2 };
		struct sink_profile sp = { .profile = &p, .columns = &column, .n_columns = 1, .values = values, .t_ms = KIT_T0 + 60000 + i * 10000,
					   .interval_ms = 10000, .asked_ms = 10000 };
		struct sink_batch b = { .profiles = &sp, .n_profiles = 1 };
		assert_int_equal(tsdb_sink(k.db)->append(tsdb_sink(k.db), &b, NULL, &e), 0);
		profile_release(&p);
		series_of(&k, KIT_T0 + 1, 2)->magnitude = 0; /* or it would be refused */
	}
	k.now_ms += 3 * 3600000;
	assert_int_equal(tsdb_seal(k.db, false, &e), -ERR_EXECUTION);
	tsdb_stats(k.db, &stats);
	assert_int_equal(stats.head_windows, 1);
	assert_int_equal(stats.parts, 2);
	kit_reopen(&k);
	assert_true(kit_count(&k, KIT_SAMPLES, 0, KIT_T0 + 4 * 3600000, NULL) == 18);
	assert_true(kit_count(&k, KIT_CPU, 0, KIT_T0 + 4 * 3600000, NULL) == 20); /* of the three two fit */
	assert_int_equal(tsdb_seal(k.db, false, &e), 0);
	kit_free(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sealed_beside), cmocka_unit_test(test_append_query_reopen), cmocka_unit_test(test_duplicates_and_clock),
		cmocka_unit_test(test_floats_and_labels), cmocka_unit_test(test_sums),
		cmocka_unit_test(test_view_is_stable), cmocka_unit_test(test_kill), cmocka_unit_test(test_lock_and_format), cmocka_unit_test(test_snapshot),
		cmocka_unit_test(test_status_by_text),
		cmocka_unit_test(test_label_sets), cmocka_unit_test(test_starts_leave_no_files), cmocka_unit_test(test_long_labels), cmocka_unit_test(test_targets_share_series),
		cmocka_unit_test(test_concurrent), cmocka_unit_test(test_waits_for_memory_alone), cmocka_unit_test(test_commit_interval), cmocka_unit_test(test_patience), cmocka_unit_test(test_sums_over_64_bits),
		cmocka_unit_test(test_log_over_64_bits),
	};
	return cmocka_run_group_tests_name("tsdb", tests, NULL, NULL);
}
