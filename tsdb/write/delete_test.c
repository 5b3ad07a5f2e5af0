/* SPDX-License-Identifier: Apache-2.0 */
/* Deleting: hidden at once in windows, parts and rollups, after restarts and crashes, and gone once parts are written
 * anew. Everything is compared with a list of the profiles that are left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/num.h"
#include "base/vec.h"
#include "model/sourcekit.h"
#include "tsdb/part/part.h"
#include "tsdb/testkit.h"
#include "tsdb/upkeep/partition_drop.h"
#include "tsdb/version/db.h"

#define MINUTE INT64_C(60000)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)
#define STACKS 20

/* What was appended and is not deleted. */
struct left {
	unsigned pod;
	int64_t t_ms;
	uint64_t seed;
	bool samples, cpu;
};

struct model {
	struct kit k;
	VEC(struct left) v;
	uint64_t seed;
};

static void start(struct model *m, bool no_sealing)
{
	*m = (struct model){ .seed = 1 };
	kit_init(&m->k);
	m->k.now_ms = KIT_T0 + 30 * HOUR;
	m->k.o.no_sealing = no_sealing;
	kit_open(&m->k);
}

static void end(struct model *m)
{
	vec_free(&m->v);
	kit_free(&m->k);
}

static void put(struct model *m, unsigned pod, int64_t t_ms)
{
	struct sink_result r;
	uint64_t seed = m->seed++;
	assert_int_equal(kit_append(&m->k, pod, t_ms, seed, STACKS, &r), 0);
	assert_int_equal(r.duplicates, 0);
	vec_push(&m->v, (struct left){ pod, t_ms, seed, true, true });
}

static void fill(struct model *m, unsigned pods, int64_t from, int64_t until, int64_t step)
{
	for (int64_t t = from + step; t <= until; t += step)
		for (unsigned pod = 0; pod < pods; pod++)
			put(m, pod, t - pod);
	tsdb_flush(m->k.db);
}

/* pod NULL: all of the name; name NULL: both. */
static uint64_t delete(struct model *m, const char *name, const char *pod, int64_t after, int64_t until)
{
	struct matcher x[2];
	struct err e;
	size_t n = 0;
	uint64_t series;
	if (name)
		assert_int_equal(matcher_init(&x[n++], MATCH_EQ, VIEW(LABEL_NAME), view_of(name), &e), 0);
	if (pod)
		assert_int_equal(matcher_init(&x[n++], MATCH_EQ, VIEW("pod"), view_of(pod), &e), 0);
	assert_int_equal(tsdb_delete(m->k.db, x, n, after, until, &series, &e), 0);
	while (n)
		matcher_release(&x[--n]);
	for (size_t i = 0; i < m->v.n; i++) {
		struct left *l = &m->v.v[i];
		char own[16];
		snprintf(own, sizeof own, "pod-%u", l->pod);
		if (l->t_ms <= after || l->t_ms > until || (pod && strcmp(pod, own)))
			continue;
		l->samples &= name && strcmp(name, KIT_SAMPLES);
		l->cpu &= name && strcmp(name, KIT_CPU);
	}
	return series;
}

/* The sum of main.main's values, which is all of them. */
static int64_t sum_of_main(struct kit *k, const char *name, int64_t after, int64_t until)
{
	struct err e;
	struct source_view *v;
	struct source_series *s;
	struct matcher m;
	size_t n;
	assert_int_equal(tsdb_source(k->db)->open(tsdb_source(k->db), &v, &e), 0);
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW(LABEL_NAME), view_of(name), &e), 0);
	assert_int_equal(v->ops->select(v, &m, 1, after, until, NULL, &s, &n, &e), 0);
	matcher_release(&m);
	struct source_part *parts = xcalloc(n + 1, sizeof *parts);
	for (size_t i = 0; i < n; i++)
		parts[i] = (struct source_part){ s[i].ref, after, until, 1, 0 };
	double d;
	int64_t exact = 0;
	const struct matcher function = { MATCH_EQ, VIEW("function"), VIEW("main.main"), NULL };
	const struct source_frame_filter f = { .m = &function, .n = 1 };
	assert_int_equal(v->ops->sums(v, parts, n, 1, &f, NULL, &d, &exact, &e), 0);
	free(parts);
	free(s);
	v->ops->release(v);
	return exact;
}

static void check_range(struct model *m, int64_t after, int64_t until)
{
	uint64_t samples = 0, cpu = 0;
	size_t n_samples = 0, n_cpu = 0;
	for (size_t i = 0; i < m->v.n; i++) {
		const struct left *l = &m->v.v[i];
		if (l->t_ms <= after || l->t_ms > until)
			continue;
		samples += l->samples ? kit_profile_sum(l->seed, STACKS, false) : 0;
		cpu += l->cpu ? kit_profile_sum(l->seed, STACKS, true) : 0;
		n_samples += l->samples;
		n_cpu += l->cpu;
	}
	int64_t total;
	assert_true(kit_merge(&m->k, KIT_SAMPLES, after, until, NULL) == samples);
	assert_true(kit_merge(&m->k, KIT_CPU, after, until, NULL) == cpu);
	assert_int_equal(kit_count(&m->k, KIT_SAMPLES, after, until, &total), n_samples);
	assert_true(sum_of_main(&m->k, KIT_SAMPLES, after, until) == total);
	assert_int_equal(kit_count(&m->k, KIT_CPU, after, until, &total), n_cpu);
	assert_true(sum_of_main(&m->k, KIT_CPU, after, until) == total);
}

/* Whole hours, so that sums of parts and rollups are read, and not. */
static void check(struct model *m)
{
	check_range(m, 0, INT64_MAX);
	check_range(m, KIT_T0, KIT_T0 + DAY);
	check_range(m, KIT_T0, KIT_T0 + 6 * HOUR);
	check_range(m, KIT_T0 + HOUR, KIT_T0 + 2 * HOUR);
	check_range(m, KIT_T0 + HOUR + 17 * MINUTE, KIT_T0 + 2 * HOUR + 41 * MINUTE);
	check_range(m, KIT_T0 + 25 * HOUR, KIT_T0 + 30 * HOUR);
}

static void seal(struct model *m, bool all)
{
	struct err e;
	assert_int_equal(tsdb_seal(m->k.db, all, &e), 0);
}

/* Every kind of place: rolled up, sealed, in memory; a whole series, its end, a hole in it, one type of two. */
static void delete_here_and_there(struct model *m)
{
	assert_int_equal(delete(m, NULL, "pod-1", KIT_T0 + HOUR, KIT_T0 + 2 * HOUR), 2); /* one hour, exactly */
	check(m);
	assert_int_equal(delete(m, NULL, "pod-2", KIT_T0 + HOUR + 20 * MINUTE, KIT_T0 + 3 * HOUR + 15 * MINUTE), 2);
	check(m);
	assert_int_equal(delete(m, KIT_SAMPLES, "pod-3", KIT_T0 + 3 * HOUR + 30 * MINUTE, KIT_T0 + 3 * HOUR + 40 * MINUTE), 1);
	assert_int_equal(delete(m, KIT_CPU, "pod-0", 0, KIT_T0 + HOUR + 15 * MINUTE), 1);
	assert_int_equal(delete(m, KIT_CPU, "nobody", 0, INT64_MAX), 0);
	check(m);
	assert_int_equal(delete(m, NULL, "pod-1", KIT_T0 + 25 * HOUR + 10 * MINUTE, KIT_T0 + 29 * HOUR + 35 * MINUTE), 2);
	assert_int_equal(delete(m, KIT_SAMPLES, "pod-2", KIT_T0 + 29 * HOUR + 10 * MINUTE, INT64_MAX), 1);
	check(m);
}

static void test_everywhere(void **state)
{
	(void)state;
	struct model m;
	struct err e;
	start(&m, true);
	fill(&m, 4, KIT_T0, KIT_T0 + 4 * HOUR, 5 * MINUTE);
	fill(&m, 4, KIT_T0 + 25 * HOUR, KIT_T0 + 26 * HOUR, 5 * MINUTE);
	seal(&m, true); /* with rollups of the first day */
	fill(&m, 4, KIT_T0 + 29 * HOUR, KIT_T0 + 30 * HOUR, 5 * MINUTE);
	check(&m);
	delete_here_and_there(&m);
	kit_reopen(&m.k);
	check(&m);
	seal(&m, false);
	check(&m);
	/* What is appended later with stamps that were deleted stays. */
	put(&m, 1, KIT_T0 + HOUR + 5 * MINUTE - 1);
	put(&m, 1, KIT_T0 + 29 * HOUR + 5 * MINUTE - 1);
	tsdb_flush(m.k.db);
	check(&m);
	kit_reopen(&m.k);
	check(&m);
	seal(&m, true);
	check(&m);
	struct tsdb_stats before, after;
	delete(&m, NULL, "pod-2", 0, INT64_MAX);
	delete(&m, NULL, "pod-3", 0, INT64_MAX);
	tsdb_stats(m.k.db, &before);
	assert_int_equal(tsdb_clean(m.k.db, &e), 0);
	tsdb_stats(m.k.db, &after);
	assert_true(after.disk_bytes < before.disk_bytes);
	check(&m);
	assert_true(before.tombstones > 0);
	assert_int_equal(after.tombstones, 0);
	kit_reopen(&m.k);
	check(&m);
	tsdb_stats(m.k.db, &after);
	assert_int_equal(after.lost_records, 0);
	end(&m);
}

/* A partition of which nothing is left goes at once; late data of that day is taken in again. */
static void test_whole_partition(void **state)
{
	(void)state;
	struct model m;
	struct err e;
	struct tsdb_stats st;
	start(&m, true);
	fill(&m, 2, KIT_T0 - DAY, KIT_T0 - DAY + 2 * HOUR, 10 * MINUTE);
	seal(&m, true);
	fill(&m, 2, KIT_T0 + 28 * HOUR, KIT_T0 + 30 * HOUR, 10 * MINUTE);
	seal(&m, true);
	assert_int_equal(delete(&m, NULL, NULL, 0, KIT_T0), 4);
	check(&m);
	assert_int_equal(tsdb_clean(m.k.db, &e), 0);
	tsdb_stats(m.k.db, &st);
	assert_int_equal(st.tombstones, 0);
	check(&m);
	kit_reopen(&m.k);
	check(&m);
	tsdb_stats(m.k.db, &st);
	assert_int_equal(st.partitions, 1);
	fill(&m, 2, KIT_T0 - DAY, KIT_T0 - DAY + HOUR, 10 * MINUTE);
	check(&m);
	kit_reopen(&m.k);
	check(&m);
	seal(&m, true);
	check(&m);
	tsdb_stats(m.k.db, &st);
	assert_int_equal(st.lost_records, 0);
	end(&m);
}

struct told {
	struct partition *p;
	atomic_int users; /* of it when that was told; -1: not yet */
};

static void note_users(void *arg, const struct err *e)
{
	struct told *t = arg;
	assert_int_equal(e->code, 0);
	atomic_store(&t->users, atomic_load(&t->p->users));
}

/* What is told of uses its partition no more: who deletes and then cleans must find one of which nothing is left unused. */
static void test_leaves_its_partition(void **state)
{
	(void)state;
	struct model m;
	struct sink_result r;
	struct told told = { .users = -1 };
	start(&m, true);
	fill(&m, 1, KIT_T0, KIT_T0 + HOUR, 10 * MINUTE);
	struct version *v = tsdb_version(m.k.db, NULL);
	told.p = v->p[0]->p;
	assert_int_equal(kit_append_done(&m.k, 1, KIT_T0 + 2 * HOUR, 1, STACKS, &r, note_users, &told), 0);
	tsdb_flush(m.k.db);
	assert_int_equal(atomic_load(&told.users), 0);
	version_unref(v);
	end(&m);
}

/* A day comes again after all of it was deleted, while the log still has all that the old one was: its rows stay away, its
 * symbols, tombstones and numbers of parts do not meet those of the new one. */
static void test_day_again(void **state)
{
	(void)state;
	struct model m;
	struct err e;
	struct tsdb_stats st;
	start(&m, true);
	fill(&m, 1, KIT_T0 + 29 * HOUR, KIT_T0 + 30 * HOUR, 10 * MINUTE); /* in memory: the log keeps all that comes after it */
	for (int again = 0; again < 3; again++) {
		int64_t from = KIT_T0 - DAY + again * MINUTE;
		fill(&m, 3, from, from + HOUR, 10 * MINUTE);
		seal(&m, false);
		fill(&m, 2, from + HOUR, from + 2 * HOUR, 10 * MINUTE);
		seal(&m, false);
		check(&m);
		kit_reopen(&m.k);
		check(&m);
		tsdb_stats(m.k.db, &st);
		assert_int_equal(st.partitions, 2);
		assert_int_equal(st.lost_records, 0);
		assert_int_equal(delete(&m, NULL, NULL, 0, KIT_T0), 6);
		assert_int_equal(tsdb_clean(m.k.db, &e), 0);
		tsdb_stats(m.k.db, &st);
		assert_int_equal(st.partitions, 1);
		assert_int_equal(st.first_record, 1);
		check(&m);
		if (again == 1)
			kit_reopen(&m.k);
		check(&m);
	}
	kit_reopen(&m.k);
	check(&m);
	end(&m);
}

static size_t aggregates(struct model *m)
{
	struct version *v = tsdb_version(m->k.db, NULL);
	size_t n = 0;
	for (size_t i = 0; i < v->n; i++)
		for (size_t k = 0; k < v->p[i]->n_parts; k++)
			n += v->p[i]->parts[k]->aggregates.n;
	version_unref(v);
	return n;
}

struct last_query {
	struct tsdb *db;
	struct source_view *view;
};

/* Ends once somebody waits for it. */
static void *end_query(void *arg)
{
	struct last_query *q = arg;
	while (!atomic_load(&q->db->readers_waiters))
		clock_sleep_ms(1);
	q->view->ops->release(q->view);
	return NULL;
}

/* Who drops a partition goes on with the end of the last query: after its patience alone it would have given up. More than one try,
 * because a thread may come too late. */
static void test_query_ends(void **state)
{
	(void)state;
	struct model m;
	struct err e;
	start(&m, true);
	fill(&m, 2, KIT_T0 - DAY, KIT_T0 - DAY + 2 * HOUR, 10 * MINUTE);
	seal(&m, true);
	assert_int_equal(delete(&m, NULL, NULL, 0, KIT_T0), 4);
	int rc = 0;
	for (int tries = 0; tries < 20 && !rc; tries++) {
		struct last_query q = { .db = m.k.db };
		pthread_t thread;
		assert_int_equal(tsdb_source(m.k.db)->open(tsdb_source(m.k.db), &q.view, &e), 0);
		assert_int_equal(pthread_create(&thread, NULL, end_query, &q), 0);
		mutex_lock(&m.k.db->seal_lock);
		rc = tsdb_drop_deleted(m.k.db, &e);
		mutex_unlock(&m.k.db->seal_lock);
		pthread_join(thread, NULL);
	}
	assert_int_equal(rc, 1);
	end(&m);
}

/* A part that is written anew sums up its services again. One of two types is deleted of a pod, all of another. */
static void test_aggregates(void **state)
{
	(void)state;
	struct model m = { .seed = 1 };
	struct err e;
	kit_init(&m.k);
	m.k.now_ms = KIT_T0 + 30 * HOUR;
	m.k.o.no_sealing = m.k.o.keep_aggregates = true;
	kit_open(&m.k);
	fill(&m, 4, KIT_T0 + 28 * HOUR, KIT_T0 + 29 * HOUR, 5 * MINUTE);
	seal(&m, false);
	size_t n = aggregates(&m);
	assert_true(n);
	delete(&m, KIT_SAMPLES, "pod-1", KIT_T0 + 28 * HOUR, KIT_T0 + 28 * HOUR + 30 * MINUTE);
	delete(&m, NULL, "pod-2", 0, INT64_MAX);
	check(&m);
	assert_int_equal(tsdb_clean(m.k.db, &e), 0);
	assert_int_equal(aggregates(&m), n);
	check(&m);
	kit_reopen(&m.k);
	check(&m);
	end(&m);
}

/* A part gets no number that a delete has as one of those before it: a restart does not know of numbers that are gone. */
static void test_numbers(void **state)
{
	(void)state;
	struct model m;
	start(&m, true);
	fill(&m, 2, KIT_T0 + 28 * HOUR, KIT_T0 + 29 * HOUR, 10 * MINUTE);
	seal(&m, true);
	struct partition *p = tsdb_partition(m.k.db, (uint32_t)(KIT_T0 / DAY) + 1);
	p->next_part += 5; /* of parts that went, or that could not be written */
	partition_unref(p);
	delete(&m, NULL, "pod-1", KIT_T0 + 28 * HOUR, KIT_T0 + 29 * HOUR);
	kit_reopen(&m.k);
	check(&m);
	fill(&m, 2, KIT_T0 + 28 * HOUR + MINUTE, KIT_T0 + 29 * HOUR, 10 * MINUTE);
	seal(&m, true);
	check(&m);
	kit_reopen(&m.k);
	check(&m);
	end(&m);
}

/* Series and label values of which nothing is left are no longer listed. */
static void test_names(void **state)
{
	(void)state;
	struct model m;
	start(&m, true);
	fill(&m, 3, KIT_T0 + 28 * HOUR, KIT_T0 + 29 * HOUR, 10 * MINUTE);
	for (int i = 0; i < 10; i++)
		assert_int_equal(kit_append_float(&m.k, "up", KIT_T0 + 28 * HOUR + i * MINUTE + 1, i, NULL), 0);
	seal(&m, true);
	fill(&m, 3, KIT_T0 + 29 * HOUR, KIT_T0 + 30 * HOUR, 10 * MINUTE);
	delete(&m, NULL, "pod-1", 0, INT64_MAX);
	delete(&m, "up", NULL, KIT_T0 + 28 * HOUR + 3 * MINUTE, INT64_MAX);
	for (int again = 0; again < 3; again++) {
		struct source_view *v;
		struct source_series *s;
		struct view *pods;
		struct point *p;
		struct err e;
		size_t n;
		assert_int_equal(tsdb_source(m.k.db)->open(tsdb_source(m.k.db), &v, &e), 0);
		assert_int_equal(v->ops->label_values(v, VIEW("pod"), NULL, 0, 0, INT64_MAX, NULL, &pods, &n, &e), 0);
		assert_int_equal(n, 2);
		assert_true(view_eqs(pods[0], "pod-0") && view_eqs(pods[1], "pod-2"));
		free(pods);
		assert_int_equal(v->ops->select(v, NULL, 0, 0, INT64_MAX, NULL, &s, &n, &e), 0);
		assert_int_equal(n, 5);
		assert_int_equal(one_series_floats(v, s[4].ref, 0, INT64_MAX, NULL, &p, &n, &e), 0);
		assert_int_equal(n, 3);
		assert_true(p[2].v == 2);
		free(p);
		free(s);
		v->ops->release(v);
		check(&m);
		if (again)
			assert_int_equal(tsdb_clean(m.k.db, &e), 0);
		kit_reopen(&m.k);
	}
	end(&m);
}

/* What a delete said is done is done after a crash, wherever the rows lie and whatever came of them since. */
static void test_crash(void **state)
{
	(void)state;
#ifdef __SANITIZE_THREAD__
	skip(); /* it cannot follow threads that a child of a program with threads starts */
#endif
	struct model m;
	start(&m, true);
	fill(&m, 2, KIT_T0 + 27 * HOUR, KIT_T0 + 28 * HOUR, 10 * MINUTE);
	seal(&m, true);
	fill(&m, 2, KIT_T0 + 29 * HOUR, KIT_T0 + 30 * HOUR, 10 * MINUTE);
	kit_close(&m.k);
	for (int step = 0; step < 3; step++) {
		int64_t from = KIT_T0 + (step % 2 ? 27 : 29) * HOUR + step * 10 * MINUTE;
		pid_t pid = fork();
		if (!pid) {
			struct err e;
			kit_open(&m.k);
			delete(&m, NULL, "pod-0", from, from + 15 * MINUTE);
			if (step == 2 && (tsdb_seal(m.k.db, true, &e) || tsdb_clean(m.k.db, &e)))
				_exit(1);
			_exit(0);
		}
		int status;
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
		for (size_t i = 0; i < m.v.n; i++)
			if (m.v.v[i].pod == 0 && m.v.v[i].t_ms > from && m.v.v[i].t_ms <= from + 15 * MINUTE)
				m.v.v[i].samples = m.v.v[i].cpu = false;
		kit_open(&m.k);
		check(&m);
		kit_close(&m.k);
	}
	end(&m);
}

/* Random deletes, appends, seals, rewrites and restarts. */
static void test_random(void **state)
{
	(void)state;
	struct model m;
	struct err e;
	uint64_t r = 11;
	start(&m, true);
	for (int step = 0; step < 100; step++) {
		uint64_t x = kit_random(&r);
		int64_t from = KIT_T0 + (int64_t)(x % 28) * HOUR + (int64_t)(x / 100 % 60) * MINUTE;
		int64_t until = from + (int64_t)(1 + x / 10000 % 300) * MINUTE;
		switch (x / 1000000 % 8) {
		case 0: case 1: case 2:
			for (int i = 0; i < 6; i++)
				put(&m, (unsigned)(x / 7 % 4), from + i * 7 * MINUTE + 1 + step); /* stamps never repeat */
			tsdb_flush(m.k.db);
			break;
		case 3: case 4: {
			char pod[16];
			snprintf(pod, sizeof pod, "pod-%u", (unsigned)(x / 11 % 4));
			static const char *const names[] = { NULL, KIT_CPU, KIT_SAMPLES };
			delete(&m, names[x / 13 % 3], pod, from, until);
			break;
		}
		case 5: seal(&m, x & 1 << 20); break;
		case 6: assert_int_equal(tsdb_clean(m.k.db, &e), 0); break;
		default: kit_reopen(&m.k);
		}
		check_range(&m, from, until);
		check_range(&m, 0, INT64_MAX);
	}
	end(&m);
}

/* ---- others at work ---- */

struct beside {
	struct model *m;
	_Atomic bool stop;
	_Atomic uint64_t asked;
};

static void *asker(void *arg)
{
	struct beside *b = arg;
	do {
		kit_merge(&b->m->k, KIT_CPU, KIT_T0 + HOUR, KIT_T0 + 29 * HOUR + 30 * MINUTE, NULL);
		kit_count(&b->m->k, KIT_SAMPLES, 0, INT64_MAX, NULL);
		sum_of_main(&b->m->k, KIT_CPU, KIT_T0, INT64_MAX);
		b->asked++;
	} while (!b->stop);
	return NULL;
}

#define BUSY_DAYS 3

/* Days of an hour's parts; all of the first is deleted, and a pod of the others. */
static void fill_days(struct model *m)
{
	start(m, true);
	m->k.now_ms = KIT_T0 + BUSY_DAYS * DAY + 2 * HOUR;
	fill(m, 4, KIT_T0, KIT_T0 + BUSY_DAYS * DAY, 20 * MINUTE);
	seal(m, true);
	delete(m, NULL, "pod-1", 0, INT64_MAX);
	for (unsigned pod = 0; pod < 4; pod++) {
		char name[16];
		snprintf(name, sizeof name, "pod-%u", pod);
		delete(m, NULL, name, 0, KIT_T0 + DAY);
	}
}

static void *cleaner(void *arg)
{
	struct model *m = arg;
	struct err e;
	return (void *)(intptr_t)-tsdb_clean(m->k.db, &e);
}

/* Queries that never pause: cleaning ends, with all of its work done, and does not wait for each of them over and over. */
static void test_clean_beside_queries(void **state)
{
	struct model m;
	struct beside b = { .m = &m };
	struct err e;
	pthread_t t[3];
	(void)state;
	fill_days(&m);
	for (size_t i = 0; i < ARRAY_LEN(t); i++)
		pthread_create(&t[i], NULL, asker, &b);
	assert_int_equal(tsdb_clean(m.k.db, &e), 0);
	struct tsdb_stats st;
	tsdb_stats(m.k.db, &st);
	b.stop = true;
	for (size_t i = 0; i < ARRAY_LEN(t); i++)
		pthread_join(t[i], NULL);
	assert_int_equal(st.tombstones, 0);
	check(&m);
	end(&m);
}

/* A query that holds the deleted day: it is asked about once, not with every part, and what else there is is done. */
static void test_clean_beside_a_long_query(void **state)
{
	struct model m;
	struct source_view *v;
	struct err e;
	struct tsdb_stats st;
	(void)state;
	fill_days(&m);
	assert_int_equal(tsdb_source(m.k.db)->open(tsdb_source(m.k.db), &v, &e), 0);
	int64_t from = clock_mono_ms();
	assert_int_equal(tsdb_clean(m.k.db, &e), 0);
	print_message("cleaned in %lld ms\n", (long long)(clock_mono_ms() - from));
	tsdb_stats(m.k.db, &st);
	assert_int_equal(st.tombstones, 0);
	v->ops->release(v);
	check(&m);
	end(&m);
}

/* It is cut short by its time, and by the end of the storage, between two parts; the rest is done later. */
static void test_clean_is_cut_short(void **state)
{
	struct model m;
	struct err e;
	struct tsdb_stats st;
	pthread_t t;
	void *rc;
	(void)state;
	fill_days(&m);
	kit_close(&m.k);
	m.k.o.clean_ms = 1;
	kit_open(&m.k);
	assert_int_equal(tsdb_clean(m.k.db, &e), -ERR_TIMEOUT);
	check(&m);
	kit_close(&m.k);
	m.k.o.clean_ms = 0;
	kit_open(&m.k);
	pthread_create(&t, NULL, cleaner, &m);
	clock_sleep_ms(20);
	tsdb_wind_down(m.k.db);
	pthread_join(t, &rc);
	assert_int_equal((intptr_t)rc, ERR_UNAVAILABLE);
	tsdb_stats(m.k.db, &st);
	assert_true(st.tombstones > 0);
	kit_reopen(&m.k);
	check(&m);
	assert_int_equal(tsdb_clean(m.k.db, &e), 0);
	tsdb_stats(m.k.db, &st);
	assert_int_equal(st.tombstones, 0);
	check(&m);
	end(&m);
}

/* Queries go on while rows are appended and deleted, windows sealed and parts written anew; afterwards all is right. */
static void test_beside_queries(void **state)
{
	(void)state;
	struct model m;
	struct beside b = { .m = &m };
	struct err e;
	pthread_t t[2];
	start(&m, false);
	fill(&m, 3, KIT_T0, KIT_T0 + 3 * HOUR, 10 * MINUTE);
	seal(&m, true);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&t[i], NULL, asker, &b), 0);
	for (int i = 0; i < 12; i++) {
		int64_t from = KIT_T0 + 29 * HOUR + (i % 6) * 5 * MINUTE;
		fill(&m, 3, from + i, from + 5 * MINUTE + i, 50000);
		delete(&m, i % 3 ? NULL : KIT_CPU, i % 2 ? "pod-1" : "pod-2", KIT_T0 + i * 14 * MINUTE, KIT_T0 + (i + 1) * 15 * MINUTE);
		delete(&m, NULL, "pod-0", from + MINUTE, from + 2 * MINUTE);
		if (i % 4 == 3)
			seal(&m, true);
		if (i % 3 == 2)
			assert_int_equal(tsdb_clean(m.k.db, &e), 0);
	}
	b.stop = true;
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	assert_true(b.asked > 0);
	check(&m);
	kit_reopen(&m.k);
	check(&m);
	end(&m);
}

/* ---- kills ---- */

/* A run is a sequence of steps that each happen as a whole or not at all; step i is always the same. */
static void step(struct model *m, uint64_t i, bool do_it)
{
	uint64_t state = i * 77 + 5, x = kit_random(&state);
	int64_t from = KIT_T0 + (int64_t)(x >> 8) % (20 * HOUR), until = from + (int64_t)(1 + (x >> 40) % 300) * MINUTE;
	unsigned pod = (unsigned)(x >> 4) % 3;
	char name[16];
	struct err e;
	snprintf(name, sizeof name, "pod-%u", pod);
	switch (x % 10) {
	case 0: case 1:
		if (do_it) {
			struct matcher w;
			if (matcher_init(&w, MATCH_EQ, VIEW("pod"), view_of(name), &e) || tsdb_delete(m->k.db, &w, 1, from, until, NULL, &e))
				_exit(1);
			matcher_release(&w);
		}
		for (size_t k = 0; k < m->v.n; k++)
			if (m->v.v[k].pod == pod && m->v.v[k].t_ms > from && m->v.v[k].t_ms <= until)
				m->v.v[k].samples = m->v.v[k].cpu = false;
		break;
	case 2:
		if (do_it && tsdb_seal(m->k.db, x & 1 << 20, &e))
			_exit(1);
		break;
	case 3:
		if (do_it && tsdb_clean(m->k.db, &e))
			_exit(1);
		break;
	default:
		from += (int64_t)i; /* no stamp twice */
		if (do_it && kit_append(&m->k, pod, from, i, STACKS, NULL))
			_exit(1);
		if (do_it)
			tsdb_flush(m->k.db);
		vec_push(&m->v, (struct left){ pod, from, i, true, true });
	}
}

static void replay_steps(struct model *m, uint64_t n)
{
	m->v.n = 0;
	for (uint64_t i = 0; i < n; i++)
		step(m, i, false);
}

static bool matches(struct model *m)
{
	uint64_t samples = 0, cpu = 0;
	size_t n = 0;
	for (size_t i = 0; i < m->v.n; i++) {
		samples += m->v.v[i].samples ? kit_profile_sum(m->v.v[i].seed, STACKS, false) : 0;
		cpu += m->v.v[i].cpu ? kit_profile_sum(m->v.v[i].seed, STACKS, true) : 0;
		n += m->v.v[i].samples;
	}
	return kit_count(&m->k, KIT_SAMPLES, 0, INT64_MAX, NULL) == n && kit_merge(&m->k, KIT_SAMPLES, 0, INT64_MAX, NULL) == samples &&
	       kit_merge(&m->k, KIT_CPU, 0, INT64_MAX, NULL) == cpu;
}

static void test_kill(void **state)
{
	(void)state;
	struct model m;
	const char *rounds_env = getenv("PYRRHA_CRASH_ROUNDS");
	int64_t rounds = 6;
	uint64_t r = 3;
	if (rounds_env)
		assert_true(num_parse_i64(view_of(rounds_env), &rounds));
	_Atomic uint64_t *done = mmap(NULL, sizeof *done, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	start(&m, true);
	kit_close(&m.k);
	for (int64_t round = 0; round < rounds; round++) {
		pid_t pid = fork();
		if (!pid) {
			kit_open(&m.k);
			for (;; (*done)++)
				step(&m, *done, true);
		}
		usleep((useconds_t)(100000 + kit_random(&r) % 300000));
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		kit_open(&m.k);
		replay_steps(&m, *done);
		if (!matches(&m)) {
			(*done)++; /* what was under way may be done */
			replay_steps(&m, *done);
			assert_true(matches(&m));
		}
		struct tsdb_stats st;
		tsdb_stats(m.k.db, &st);
		assert_int_equal(st.lost_records, 0);
		kit_close(&m.k);
	}
	print_message("killed %lld times, %llu steps\n", (long long)rounds, (unsigned long long)*done);
	munmap((void *)done, sizeof *done);
	end(&m);
}

static void keep(struct model *m, const char *pod, int64_t keep_ms)
{
	struct matcher x;
	struct err e;
	assert_int_equal(matcher_init(&x, MATCH_EQ, VIEW("pod"), view_of(pod), &e), 0);
	struct tsdb_retention rules[] = { { &x, 1, keep_ms }, { &x, 1, 20 * DAY } };
	assert_int_equal(tsdb_set_retention(m->k.db, rules, 2, &e), 0);
	matcher_release(&x);
}

/* What a rule leaves of one pod at this moment. */
static void forget(struct model *m, unsigned pod, int64_t keep_ms)
{
	for (size_t i = 0; i < m->v.n; i++)
		if (m->v.v[i].pod == pod && m->v.v[i].t_ms <= m->k.now_ms - keep_ms)
			m->v.v[i].samples = m->v.v[i].cpu = false;
}

/* One pod is kept for two hours: hidden as time goes by, in memory too, space back hour by hour, without a trace of it
 * in rollups and sums of a service. */
static void test_retention(void **state)
{
	(void)state;
	struct model m;
	struct err e;
	struct tsdb_stats st, cleaned;
	start(&m, true);
	m.k.now_ms = KIT_T0 + 12 * HOUR;
	fill(&m, 4, KIT_T0 + 4 * HOUR, KIT_T0 + 11 * HOUR, 10 * MINUTE);
	seal(&m, true);
	fill(&m, 4, KIT_T0 + 11 * HOUR, KIT_T0 + 12 * HOUR, 10 * MINUTE);
	put(&m, 1, KIT_T0 + 3 * HOUR); /* late, in memory */
	tsdb_flush(m.k.db);
	check(&m);
	keep(&m, "pod-1", 2 * HOUR);
	forget(&m, 1, 2 * HOUR);
	check(&m);
	tsdb_stats(m.k.db, &st);
	assert_true(st.tombstones > 0);
	assert_int_equal(tsdb_clean(m.k.db, &e), 0);
	check(&m);
	tsdb_stats(m.k.db, &cleaned);
	assert_true(cleaned.tombstones < st.tombstones || cleaned.tombstones == 0);
	for (int hour = 0; hour < 3; hour++) {
		m.k.now_ms += 25 * MINUTE;
		fill(&m, 4, m.k.now_ms - 25 * MINUTE, m.k.now_ms, 5 * MINUTE);
		assert_int_equal(tsdb_retain(m.k.db, &e), 0);
		forget(&m, 1, 2 * HOUR);
		check(&m);
		seal(&m, hour == 1);
		assert_int_equal(tsdb_clean(m.k.db, &e), 0);
		check(&m);
		kit_reopen(&m.k);
		keep(&m, "pod-1", 2 * HOUR);
		check(&m);
	}
	/* A delete goes well with it. */
	delete(&m, NULL, "pod-2", KIT_T0 + 10 * HOUR, INT64_MAX);
	check(&m);
	assert_int_equal(tsdb_clean(m.k.db, &e), 0);
	check(&m);
	/* All of a day: it goes as a whole. */
	m.k.now_ms = KIT_T0 + 60 * HOUR;
	put(&m, 2, m.k.now_ms - HOUR);
	tsdb_flush(m.k.db);
	seal(&m, true);
	struct tsdb_retention all = { .keep_ms = 30 * HOUR };
	assert_int_equal(tsdb_set_retention(m.k.db, &all, 1, &e), 0);
	for (unsigned pod = 0; pod < 4; pod++)
		forget(&m, pod, 30 * HOUR);
	check(&m);
	assert_int_equal(tsdb_clean(m.k.db, &e), 0);
	check(&m);
	tsdb_stats(m.k.db, &st);
	assert_int_equal(st.partitions, 1);
	/* Without the rules nothing comes back that is gone. */
	assert_int_equal(tsdb_set_retention(m.k.db, NULL, 0, &e), 0);
	check(&m);
	end(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_everywhere), cmocka_unit_test(test_whole_partition), cmocka_unit_test(test_query_ends),
		cmocka_unit_test(test_leaves_its_partition),
		cmocka_unit_test(test_day_again), cmocka_unit_test(test_numbers), cmocka_unit_test(test_aggregates),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_crash), cmocka_unit_test(test_beside_queries), cmocka_unit_test(test_clean_beside_queries),
		cmocka_unit_test(test_clean_beside_a_long_query), cmocka_unit_test(test_clean_is_cut_short), cmocka_unit_test(test_kill), cmocka_unit_test(test_retention), cmocka_unit_test(test_random),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
