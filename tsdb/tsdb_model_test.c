/* SPDX-License-Identifier: Apache-2.0 */
/* Random operations against a model: a plain list of what was acknowledged. They are appends (also late, duplicate and of wrong
 * clocks), seals, deletions, restarts, retention and queries of every kind. Some runs continue with a copy of the directory, as
 * after a crash. PYRRHA_TEST_SECONDS says for how long (default 30; with PYRRHA_LONG an hour), PYRRHA_TEST_SEED repeats a run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/num.h"
#include "base/vec.h"
#include "model/sourcekit.h"
#include "tsdb/testkit.h"
#include "tsdb/version/evict.h"

#define HOUR INT64_C(3600000)
#define DAY (24 * HOUR)
#define PODS 5

struct entry {
	int64_t t_ms;
	uint64_t seed;
	uint64_t sums[2]; /* samples, cpu */
	unsigned pod;
};

struct fentry {
	int64_t t_ms;
	double v;
};

struct model {
	struct kit k;
	struct pool *pool;
	uint64_t random;
	VEC(struct entry) entries;
	VEC(struct fentry) floats;
	uint64_t n_checks, n_appends, n_seals, n_opens, n_deletes, n_crashes;
};

static uint64_t below(struct model *m, uint64_t n)
{
	return kit_random(&m->random) % n;
}

static int64_t env_number(const char *name, int64_t otherwise)
{
	const char *v = getenv(name);
	int64_t n = otherwise;
	if (v)
		assert_true(num_parse_i64(view_of(v), &n));
	return n;
}

static bool has_stamp(const struct model *m, unsigned pod, int64_t t_ms)
{
	for (size_t i = 0; i < m->entries.n; i++)
		if (m->entries.v[i].pod == pod && m->entries.v[i].t_ms == t_ms)
			return true;
	return false;
}

static void append_one(struct model *m, unsigned pod, int64_t t_ms)
{
	struct sink_result r = { 0 };
	uint64_t seed = kit_random(&m->random);
	uint32_t n = below(m, 10) ? 20 + (uint32_t)below(m, 30) : 0;
	bool duplicate = has_stamp(m, pod, t_ms);
	assert_int_equal(kit_append(&m->k, pod, t_ms, seed, n, &r), 0);
	if (duplicate || r.too_old) {
		/* A duplicate may only be found when it is applied. */
		return;
	}
	assert_int_equal(r.profiles, 1);
	vec_push(&m->entries, (struct entry){ t_ms, seed, { kit_profile_sum(seed, n, false), kit_profile_sum(seed, n, true) }, pod });
	m->n_appends++;
}

static void append_many(struct model *m)
{
	int64_t step = 10000 + (int64_t)below(m, 3) * 50000;
	for (uint64_t n = 1 + below(m, 40); n; n--) {
		m->k.now_ms += step;
		for (unsigned pod = 0; pod < PODS; pod++)
			if (below(m, 8))
				append_one(m, pod, m->k.now_ms - (int64_t)below(m, 3000));
		double v = (double)below(m, 100) / 8;
		if (below(m, 2) && (!m->floats.n || m->floats.v[m->floats.n - 1].t_ms < m->k.now_ms)) {
			assert_int_equal(kit_append_float(&m->k, "up", m->k.now_ms, v, NULL), 0);
			vec_push(&m->floats, (struct fentry){ m->k.now_ms, v });
		}
	}
}

static void append_late(struct model *m)
{
	int64_t back = (int64_t)below(m, (uint64_t)(below(m, 2) ? 2 * HOUR : 30 * HOUR));
	for (uint64_t n = 1 + below(m, 10); n; n--)
		append_one(m, (unsigned)below(m, PODS), m->k.now_ms - back - (int64_t)(n * 7001));
	if (m->entries.n) {
		struct entry again = m->entries.v[below(m, m->entries.n)];
		append_one(m, again.pod, again.t_ms);
	}
}

/* A clock that is wrong: before the epoch, at it, too old, or far ahead. Nothing of it is taken, each is counted. */
static void append_skewed(struct model *m)
{
	static const int64_t ahead[] = { 11 * 60000, DAY, 40000 * DAY };
	const int64_t wrong[] = { 0, -5, 1, m->k.now_ms - 40 * DAY, m->k.now_ms + ahead[below(m, 3)] };
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct sink_result r = { 0 };
		assert_int_equal(kit_append(&m->k, 0, wrong[i], 1, 20, &r), 0);
		assert_int_equal(r.profiles, 0);
		assert_int_equal(r.too_new, i == 4);
		assert_int_equal(r.too_old, i != 4);
	}
}

static void delete_some(struct model *m)
{
	struct matcher x;
	struct err e;
	char pod[16];
	size_t n = 0;
	unsigned which = (unsigned)below(m, PODS);
	int64_t until = m->k.now_ms - (int64_t)below(m, (uint64_t)(20 * HOUR)), after = until - 1 - (int64_t)below(m, (uint64_t)(3 * HOUR));
	snprintf(pod, sizeof pod, "pod-%u", which);
	if (below(m, 3) == 0) {
		after = after / HOUR * HOUR;
		until = MAX(after + HOUR, until / HOUR * HOUR);
	}
	assert_int_equal(matcher_init(&x, MATCH_EQ, VIEW("pod"), view_of(pod), &e), 0);
	tsdb_flush(m->k.db);
	if (tsdb_delete(m->k.db, &x, 1, after, until, NULL, &e))
		fail_msg("delete: %s", e.msg);
	matcher_release(&x);
	for (size_t i = 0; i < m->entries.n; i++) {
		const struct entry *p = &m->entries.v[i];
		if (p->pod != which || p->t_ms <= after || p->t_ms > until)
			m->entries.v[n++] = *p;
	}
	m->entries.n = n;
	m->n_deletes++;
	if (below(m, 3) == 0 && tsdb_clean(m->k.db, &e))
		fail_msg("clean: %s", e.msg);
}

/* What a crash would leave: a copy taken between two steps, opened in place of the original. */
static void crash(struct model *m)
{
	struct err e;
	struct kit old = m->k;
	char dir[64];
	snprintf(dir, sizeof dir, "/tmp/tsdb-model-%d-%llu", (int)getpid(), (unsigned long long)m->n_crashes++);
	if (tsdb_snapshot(m->k.db, dir, &e))
		fail_msg("snapshot: %s", e.msg);
	struct tsdb_options o = old.o;
	int64_t now = old.now_ms;
	kit_free(&old);
	void *arg = &m->k;
	kit_set(&m->k, dir);
	m->k.o = o;
	m->k.o.path = m->k.dir;
	m->k.o.now_arg = arg;
	m->k.now_ms = now;
	kit_open(&m->k);
}

/* The model keeps what retention may still hold: whole days. */
static void forget_old(struct model *m)
{
	int64_t newest = 0;
	for (size_t i = 0; i < m->entries.n; i++)
		newest = MAX(newest, m->entries.v[i].t_ms);
	for (size_t i = 0; i < m->floats.n; i++)
		newest = MAX(newest, m->floats.v[i].t_ms);
	int64_t floor = MIN(m->k.now_ms, newest + HOUR) - m->k.o.retention_ms;
	size_t n = 0;
	for (size_t i = 0; i < m->entries.n; i++)
		if (((m->entries.v[i].t_ms - 1) / DAY + 1) * DAY > floor)
			m->entries.v[n++] = m->entries.v[i];
	m->entries.n = n;
	n = 0;
	for (size_t i = 0; i < m->floats.n; i++)
		if (((m->floats.v[i].t_ms - 1) / DAY + 1) * DAY > floor)
			m->floats.v[n++] = m->floats.v[i];
	m->floats.n = n;
}

static void check_floats(struct model *m, int64_t after, int64_t until)
{
	struct source_view *v;
	struct matcher x;
	struct source_series *s;
	struct point *p;
	struct err e;
	size_t n, n_p = 0, want = 0;
	assert_int_equal(tsdb_source(m->k.db)->open(tsdb_source(m->k.db), &v, &e), 0);
	assert_int_equal(matcher_init(&x, MATCH_EQ, VIEW(LABEL_NAME), VIEW("up"), &e), 0);
	assert_int_equal(v->ops->select(v, &x, 1, after, until, NULL, &s, &n, &e), 0);
	if (n)
		assert_int_equal(one_series_floats(v, s[0].ref, after, until, NULL, &p, &n_p, &e), 0);
	for (size_t i = 0; i < m->floats.n; i++) {
		if (m->floats.v[i].t_ms <= after || m->floats.v[i].t_ms > until)
			continue;
		assert_true(want < n_p);
		assert_true(p[want].t_ms == m->floats.v[i].t_ms && p[want].v == m->floats.v[i].v);
		want++;
	}
	assert_int_equal(want, n_p);
	if (n)
		free(p);
	free(s);
	matcher_release(&x);
	v->ops->release(v);
}

static void check(struct model *m, int64_t after, int64_t until)
{
	uint64_t sums[2] = { 0 };
	size_t count = 0;
	for (size_t i = 0; i < m->entries.n; i++) {
		const struct entry *x = &m->entries.v[i];
		if (x->t_ms <= after || x->t_ms > until)
			continue;
		sums[0] += x->sums[0];
		sums[1] += x->sums[1];
		count++;
	}
	struct pool *pool = below(m, 2) ? m->pool : NULL;
	assert_int_equal(kit_count(&m->k, KIT_CPU, after, until, NULL), count);
	assert_true(kit_merge(&m->k, KIT_SAMPLES, after, until, pool) == sums[0]);
	assert_true(kit_merge(&m->k, KIT_CPU, after, until, pool) == sums[1]);
	check_floats(m, after, until);
	m->n_checks++;
}

/* Graphs on whole minutes, which aggregates may answer, and others, of all series or some. */
static void check_graph(struct model *m)
{
	int64_t minute = 60000, step = (int64_t)(1 + below(m, 90)) * (below(m, 3) ? minute : 31000);
	uint32_t n = 1 + (uint32_t)below(m, 12);
	int64_t after = m->k.now_ms - (int64_t)below(m, (uint64_t)(30 * HOUR)) - n * step;
	if (below(m, 4))
		after = after / minute * minute;
	kit_check_graph(&m->k, below(m, 2) ? KIT_SAMPLES : KIT_CPU, below(m, 2) ? SIZE_MAX : 3, after,
			below(m, 2) ? step : 3 * minute, step, n, below(m, 2) ? m->pool : NULL);
}

static void check_some(struct model *m)
{
	int64_t now = m->k.now_ms;
	tsdb_flush(m->k.db);
	if (!below(m, 3))
		evict_due(m->k.db, 0);
	check(m, 0, INT64_MAX);
	for (int i = 0; i < 4; i++) {
		int64_t until = now - (int64_t)below(m, 40) * HOUR / 2;
		if (below(m, 2))
			until = until / HOUR * HOUR;
		if (!below(m, 3))
			until = until / 60000 * 60000;
		check(m, until - (int64_t)(1 + below(m, 60)) * HOUR / 2, until);
	}
	check_graph(m);
}

static void step(struct model *m)
{
	struct err e;
	uint64_t what = below(m, 100);
	if (what < 40) {
		append_many(m);
	} else if (what < 53) {
		append_late(m);
	} else if (what < 67) {
		int rc = tsdb_seal(m->k.db, below(m, 4) == 0, &e);
		if (rc)
			fail_msg("seal: %s", e.msg);
		if (!below(m, 4))
			assert_int_equal(tsdb_clean(m->k.db, &e), 0);
		m->n_seals++;
	} else if (what < 72) {
		m->k.now_ms += (int64_t)below(m, (uint64_t)(5 * HOUR));
	} else if (what < 78) {
		m->k.o.keep_aggregates = below(m, 2); /* rollups of every series, or of those that they save reading for */
		kit_reopen(&m->k);
		m->n_opens++;
	} else if (what < 84) {
		delete_some(m);
	} else if (what < 85) {
		append_skewed(m);
	} else if (what < 87) {
		crash(m);
	} else if (what < 89) {
		tsdb_flush(m->k.db);
		assert_int_equal(tsdb_retain(m->k.db, &e), 0);
		forget_old(m);
	} else {
		check_some(m);
	}
}

static void test_model(void **state)
{
	struct model m = { 0 };
	uint64_t seed = (uint64_t)env_number("PYRRHA_TEST_SEED", clock_now_ns());
	int64_t end = clock_mono_ms() + 1000 * env_number("PYRRHA_TEST_SECONDS", getenv("PYRRHA_LONG") && *getenv("PYRRHA_LONG") ? 3600 : 30);
	print_message("PYRRHA_TEST_SEED=%llu\n", (unsigned long long)seed);
	m.random = seed;
	m.pool = pool_new(2, "test");
	kit_init(&m.k);
	m.k.o.retention_ms = 3 * DAY;
	m.k.o.keep_aggregates = true;
	m.k.o.dictionary_bytes = 1;
	m.k.o.no_sealing = true; /* seals are the test's own, so that a seed repeats */
	kit_open(&m.k);
	while (clock_mono_ms() < end)
		step(&m);
	check_some(&m);
	print_message("%llu appends, %llu seals, %llu deletes, %llu restarts, %llu crashes, %llu checks\n",
		      (unsigned long long)m.n_appends, (unsigned long long)m.n_seals, (unsigned long long)m.n_deletes,
		      (unsigned long long)m.n_opens, (unsigned long long)m.n_crashes, (unsigned long long)m.n_checks);
	kit_free(&m.k);
	pool_free(m.pool);
	vec_free(&m.entries);
	vec_free(&m.floats);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_model) };
	return cmocka_run_group_tests_name("tsdb model", tests, NULL, NULL);
}
