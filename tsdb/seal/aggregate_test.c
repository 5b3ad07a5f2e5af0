/* SPDX-License-Identifier: Apache-2.0 */
/* Aggregates: that they answer what they may, and nothing else. tsdb_model_test compares them with all that can happen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/lock.h"
#include "tsdb/inspect.h"
#include "tsdb/testkit.h"

/* How many profiles a graph of the first n pods reads, of 60 steps of `step` from `after`. */
static uint64_t graph_reads(struct kit *k, size_t n_pods, int64_t after, int64_t step)
{
	struct source_view *v;
	struct source_series *s;
	struct matcher m;
	struct err e;
	size_t n;
	atomic_uint_fast64_t read = 0;
	struct source_limits lim = { .samples_read = &read };
	double *ret = xcalloc(60, sizeof *ret);
	assert_int_equal(tsdb_source(k->db)->open(tsdb_source(k->db), &v, &e), 0);
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW(LABEL_NAME), VIEW(KIT_SAMPLES), &e), 0);
	assert_int_equal(v->ops->select(v, &m, 1, 0, INT64_MAX, NULL, &s, &n, &e), 0);
	assert_true(n >= n_pods);
	struct source_part *p = xcalloc(n_pods, sizeof *p);
	for (size_t i = 0; i < n_pods; i++)
		p[i] = (struct source_part){ s[i].ref, after, after + step, 1, 0, 60, step };
	assert_int_equal(v->ops->sums(v, p, n_pods, 60, NULL, &lim, ret, NULL, &e), 0);
	free(p);
	free(s);
	free(ret);
	matcher_release(&m);
	v->ops->release(v);
	return atomic_load(&read);
}

struct met {
	struct mutex lock;
	uint64_t cells;
	int64_t sum;
	size_t unlike;      /* this series counts otherwise */
};

static int meet_cells(void *arg, const struct source_cells *c, unsigned worker, struct err *e)
{
	struct met *x = arg;
	(void)worker, (void)e;
	mutex_lock(&x->lock);
	x->cells += c->n;
	for (size_t i = 0; i < c->n; i++)
		x->sum += c->values[i];
	mutex_unlock(&x->lock);
	return 0;
}

static enum source_alike alike(void *arg, size_t a, size_t b, int64_t after_ms, int64_t until_ms)
{
	const struct met *x = arg;
	return after_ms < until_ms && a != x->unlike && b != x->unlike ? SOURCE_ALIKE_BY_MINUTE : SOURCE_UNLIKE;
}

/* The cells of the first n pods, all of which but one count alike. */
static struct met cells_of(struct kit *k, size_t n_pods, size_t unlike)
{
	struct source_view *v;
	struct source_series *s;
	struct matcher m;
	struct err e;
	size_t n;
	uint64_t refs[5];
	struct met x = { MUTEX_INIT(LOCK_ANY, "test"), 0, 0, unlike };
	assert_int_equal(tsdb_source(k->db)->open(tsdb_source(k->db), &v, &e), 0);
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW(LABEL_NAME), VIEW(KIT_SAMPLES), &e), 0);
	assert_int_equal(v->ops->select(v, &m, 1, 0, INT64_MAX, NULL, &s, &n, &e), 0);
	assert_true(n >= n_pods);
	for (size_t i = 0; i < n_pods; i++)
		refs[i] = s[i].ref;
	struct source_damage damage = { 0 };
	struct source_limits lim = { .damage = &damage };
	assert_int_equal(v->ops->cells(v, refs, n_pods, 0, INT64_MAX, &lim, &(struct source_cells_reader){ .take = meet_cells, .alike = alike, .arg = &x }, &e), 0);
	assert_int_equal(source_damage_met(&damage), 0);
	free(s);
	matcher_release(&m);
	v->ops->release(v);
	return x;
}

#define NONE_UNLIKE 9

/* Sums stand for their series where these count alike, are all asked for and nothing of them is damaged or deleted. */
static void check_cells(struct kit *k)
{
	struct met sums = cells_of(k, 5, NONE_UNLIKE), each = cells_of(k, 5, 2), some = cells_of(k, 4, NONE_UNLIKE);
	assert_true(sums.cells && sums.cells * 10 < each.cells);
	assert_int_equal(sums.sum, each.sum);
	assert_true(some.cells * 2 > each.cells && some.cells < each.cells);
}

/* A service is read from its aggregate when all of it is asked for by the minute, and only then. */
static void test_aggregates(void **state)
{
	struct kit k;
	struct err e;
	kit_init(&k);
	kit_open(&k);
	int64_t hour = 3600000;
	for (int64_t t = KIT_T0 + 10000; t <= KIT_T0 + 7 * hour; t += 60000)
		for (unsigned pod = 0; pod < 5; pod++) {
			k.now_ms = t + 50000;
			for (int i = 0; i < 3; i++)
				assert_int_equal(kit_append(&k, pod, t + i * 10000 + pod, (uint64_t)(t / hour), 12, NULL), 0);
		}
	k.now_ms = KIT_T0 + 8 * hour;
	for (int reopened = 0; reopened < 2; reopened++) {
		assert_int_equal(tsdb_seal(k.db, true, &e), 0);
		uint64_t all = graph_reads(&k, 5, KIT_T0, 60000), some = graph_reads(&k, 4, KIT_T0, 60000);
		assert_true(all && all * 10 < some);
		assert_true(graph_reads(&k, 5, KIT_T0 + 1000, 60000) > some);
		assert_true(graph_reads(&k, 5, KIT_T0, 59999) > some);
		check_cells(&k);
		kit_check_graph(&k, KIT_CPU, 5, KIT_T0 - hour, 60000, 60000, 600, NULL);
		kit_check_graph(&k, KIT_SAMPLES, 4, KIT_T0 - hour, 300000, 60000, 600, NULL);
		kit_check_graph(&k, KIT_SAMPLES, 5, KIT_T0 - hour + 7, 60000, 60000, 600, NULL);
		/* A late profile makes the rollups stale and stands beside the aggregate. */
		assert_int_equal(kit_append(&k, 2, KIT_T0 + hour / 2 + 7, 99, 30, NULL), 0);
		tsdb_flush(k.db);
		kit_check_graph(&k, KIT_CPU, 5, KIT_T0 - hour, 60000, 60000, 600, NULL);
		kit_reopen(&k);
	}
	kit_free(&k);
}

struct counted {
	size_t six, day, series; /* rollups, and series in them */
};

static void count_rollup(void *arg, const struct tsdb_part_info *p)
{
	struct counted *c = arg;
	c->six += p->hours == 6;
	c->day += p->hours == 24;
	c->series += p->hours > 1 ? p->series : 0;
}

/* Of the series whose stacks come again each hour there are rollups; of one that has others each time there is none, and the
 * answers are what they were. */
static void test_rollups(void **state)
{
	const int64_t hour = 3600000;
	struct counted n = { 0 };
	struct kit k;
	struct err e;
	kit_init(&k);
	k.o.no_sealing = true;
	kit_open(&k);
	for (int64_t t = KIT_T0 + 600000; t <= KIT_T0 + 24 * hour; t += 600000) {
		k.now_ms = t;
		assert_int_equal(kit_append(&k, 0, t, 7, 12, NULL), 0);
		if (t % (6 * hour) == 600000)
			assert_int_equal(kit_append(&k, 1, t, (uint64_t)t, 12, NULL), 0);
		assert_int_equal(kit_append(&k, 2, t, 7, 12, NULL), 0);
	}
	tsdb_flush(k.db);
	k.now_ms = KIT_T0 + 26 * hour;
	uint64_t before[] = { kit_merge(&k, KIT_SAMPLES, KIT_T0, KIT_T0 + 24 * hour, NULL),
			      kit_merge(&k, KIT_CPU, KIT_T0 + 6 * hour, KIT_T0 + 12 * hour, NULL) };
	for (int reopened = 0; reopened < 2; reopened++) {
		assert_int_equal(tsdb_seal(k.db, true, &e), 0);
		assert_true(kit_merge(&k, KIT_SAMPLES, KIT_T0, KIT_T0 + 24 * hour, NULL) == before[0]);
		assert_true(kit_merge(&k, KIT_CPU, KIT_T0 + 6 * hour, KIT_T0 + 12 * hour, NULL) == before[1]);
		kit_reopen(&k);
	}
	tsdb_each_part(k.db, count_rollup, &n);
	assert_int_equal(n.six, 4);
	assert_int_equal(n.day, 1);
	assert_int_equal(n.series, (4 + 1) * 2 * 2); /* two pods, two types */
	kit_free(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_aggregates), cmocka_unit_test(test_rollups) };
	return cmocka_run_group_tests_name("tsdb aggregates", tests, NULL, NULL);
}
