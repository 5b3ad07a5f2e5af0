/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/lock.h"
#include "model/replicas.h"

/* Of 10 s in 60, weighted so. */
static struct source_profile profile_at(int64_t t_ms, int64_t total)
{
	return (struct source_profile){ .t_ms = t_ms, .duration_ns = INT64_C(10000000000), .cover_ms = 60000, .interval_ms = 60000, .weight = 6, .total = total };
}

static struct source_profile marker_at(int64_t t_ms)
{
	return (struct source_profile){ .t_ms = t_ms, .weight = 1, .stale = true };
}

struct joined {
	struct source_profile *v;
	uint32_t *replica;
	size_t n;
};

static struct joined join(const struct source_profile *a, size_t n_a, const struct source_profile *b, size_t n_b)
{
	struct joined j;
	replicas_join_profiles((struct replica_profiles[]){ { a, n_a }, { b, n_b } }, 2, &j.v, &j.replica, &j.n);
	return j;
}

static void joined_free(struct joined *j)
{
	free(j->v);
	free(j->replica);
}

static void test_profiles_alternate(void **unused)
{
	(void)unused;
	const struct source_profile a[] = { profile_at(60000, 1), profile_at(120000, 3) }, b[] = { profile_at(80000, 2), profile_at(140000, 4) };
	struct joined j = join(a, 2, b, 2);
	assert_int_equal(j.n, 4);
	for (size_t i = 0; i < j.n; i++) {
		assert_int_equal(j.v[i].total, i + 1);
		assert_int_equal(j.replica[i], i % 2);
	}
	assert_int_equal(j.v[0].cover_ms, 60000);
	assert_int_equal(j.v[1].cover_ms, 20000);
	assert_true(j.v[1].weight == 2);
	assert_int_equal(j.v[2].cover_ms, 40000);
	assert_true(j.v[2].weight == 4);
	joined_free(&j);
}

/* One that measured at the same time is left out, and of one stamp the first replica's stays. */
static void test_profiles_overlap(void **unused)
{
	(void)unused;
	const struct source_profile a[] = { profile_at(60000, 1), profile_at(120000, 2) }, b[] = { profile_at(60000, 7), profile_at(115000, 8), profile_at(129000, 9) };
	struct joined j = join(a, 2, b, 3);
	assert_int_equal(j.n, 3);
	assert_true(j.v[0].total == 1 && j.v[1].total == 8 && j.v[2].total == 9);
	assert_true(j.replica[0] == 0 && j.replica[1] == 1 && j.replica[2] == 1);
	joined_free(&j);
}

/* The series ends when its last replica does. */
static void test_profiles_end(void **unused)
{
	(void)unused;
	const struct source_profile a[] = { profile_at(60000, 1), marker_at(70000) }, b[] = { profile_at(80000, 2), marker_at(150000), marker_at(160000) };
	struct joined j = join(a, 2, b, 3);
	assert_int_equal(j.n, 4); /* nobody else was there at 70000 yet */
	assert_true(j.v[1].stale && j.v[1].t_ms == 70000 && j.v[3].stale && j.v[3].t_ms == 150000);
	joined_free(&j);
	const struct source_profile c[] = { profile_at(65000, 1), profile_at(185000, 5) };
	j = join(a, 2, c, 2);
	assert_int_equal(j.n, 2); /* its replica goes on */
	assert_true(!j.v[0].stale && !j.v[1].stale);
	joined_free(&j);
	j = join(NULL, 0, NULL, 0);
	assert_int_equal(j.n, 0);
	joined_free(&j);
}

static void test_points(void **unused)
{
	(void)unused;
	const double stale = value_from_bits(VALUE_STALE_BITS);
	const struct point a[] = { { 1000, 1 }, { 2000, 2 }, { 3000, stale }, { 6000, stale } };
	const struct point b[] = { { 500, stale }, { 2000, 20 }, { 2500, 25 }, { 3000, 30 }, { 4000, stale }, { 6000, 60 } };
	const struct point want[] = { { 500, stale }, { 1000, 1 }, { 2000, 2 }, { 2500, 25 }, { 3000, 30 }, { 4000, stale }, { 6000, 60 } };
	struct point *v;
	size_t n;
	replicas_join_points((struct replica_points[]){ { a, 4 }, { b, 6 } }, 2, &v, &n);
	assert_int_equal(n, 7);
	for (size_t i = 0; i < n; i++)
		assert_true(v[i].t_ms == want[i].t_ms && value_bits(v[i].v) == value_bits(want[i].v));
	free(v);
	/* Its target has moved: the marker is left out while the new holder goes on. */
	const struct point moved[] = { { 1000, 1 }, { 2500, stale } }, since[] = { { 2000, 2 }, { 3000, 3 } };
	replicas_join_points((struct replica_points[]){ { moved, 2 }, { since, 2 } }, 2, &v, &n);
	assert_int_equal(n, 3);
	assert_true(v[0].v == 1 && v[1].v == 2 && v[2].v == 3);
	free(v);
	replicas_join_points((struct replica_points[]){ { b, 6 } }, 1, &v, &n);
	assert_int_equal(n, 6);
	assert_memory_equal(v, b, sizeof b);
	free(v);
}

/* ---- series by series ---- */

struct reading {
	struct mutex *lock;
	size_t order[64], n, fails;
};

static int note_series(void *arg, size_t series, struct err *e)
{
	struct reading *r = arg;
	mutex_lock(r->lock);
	size_t at = r->n++;
	r->order[at] = series;
	mutex_unlock(r->lock);
	return r->fails == series ? err_set(e, ERR_IO, "series %zu", series) : 0;
}

static void test_each(void **unused)
{
	(void)unused;
	const uint64_t refs[] = { 9, 3, 7, 3, 1 };
	struct mutex lock;
	struct err e = { 0 };
	struct reading r = { .lock = &lock, .fails = SIZE_MAX };
	mutex_init(&lock, LOCK_LEAF, "test");
	assert_int_equal(source_each(refs, 5, NULL, note_series, &r, &e), 0);
	assert_int_equal(r.n, 5);
	const size_t want[] = { 4, 1, 3, 2, 0 };
	assert_memory_equal(r.order, want, sizeof want);
	r = (struct reading){ .lock = &lock, .fails = 3 };
	assert_int_equal(source_each(refs, 5, NULL, note_series, &r, &e), -ERR_IO);
	assert_string_equal(e.msg, "series 3");
	assert_int_equal(r.n, 3); /* it stopped there */
	assert_int_equal(source_each(NULL, 0, NULL, note_series, &r, &e), 0);
	uint64_t many[64];
	size_t seen = 0;
	struct pool *pool = pool_new(3, "test");
	struct source_limits lim = { .pool = pool };
	for (size_t i = 0; i < 64; i++)
		many[i] = i;
	r = (struct reading){ .lock = &lock, .fails = SIZE_MAX };
	assert_int_equal(source_each(many, 64, &lim, note_series, &r, &e), 0);
	for (size_t i = 0; i < 64; i++)
		seen += r.order[i];
	assert_true(r.n == 64 && seen == 63 * 32);
	r = (struct reading){ .lock = &lock, .fails = 5 };
	assert_int_equal(source_each(many, 64, &lim, note_series, &r, &e), -ERR_IO);
	assert_string_equal(e.msg, "series 5");
	pool_free(pool);
	mutex_destroy(&lock);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_profiles_alternate), cmocka_unit_test(test_profiles_overlap), cmocka_unit_test(test_profiles_end),
		cmocka_unit_test(test_points),		   cmocka_unit_test(test_each),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
