/* SPDX-License-Identifier: Apache-2.0 */
/* A series that goes on, or ends, from one day's partition into the next: head and sealed, and over restarts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "model/sourcekit.h"
#include "tsdb/testkit.h"
#include "tsdb/version/db.h"

#define SECOND INT64_C(1000)
#define MINUTE (60 * SECOND)
#define LOOKBACK (5 * MINUTE)
#define MIDNIGHT KIT_T0 /* stamps up to it belong to the day before */

static double stale_value(void)
{
	return value_from_bits(VALUE_STALE_BITS);
}

static struct source_view *select_all(struct kit *k, const char *name, int64_t after, int64_t until, struct source_series **ret, size_t *n)
{
	struct source_view *v;
	struct matcher m;
	struct err e;
	assert_int_equal(tsdb_source(k->db)->open(tsdb_source(k->db), &v, &e), 0);
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW(LABEL_NAME), view_of(name), &e), 0);
	assert_int_equal(v->ops->select(v, &m, 1, after, until, NULL, ret, n, &e), 0);
	matcher_release(&m);
	return v;
}

/* How many rows all series of that name have; *ret_live: series whose newest is no marker. */
static size_t rows(struct kit *k, const char *name, int64_t after, int64_t until, size_t *ret_live)
{
	struct source_series *s;
	size_t n, n_rows, all = 0;
	struct err e;
	struct source_view *v = select_all(k, name, after, until, &s, &n);
	*ret_live = 0;
	for (size_t i = 0; i < n; i++) {
		struct point *f = NULL;
		struct source_profile *p = NULL;
		if (s[i].type)
			assert_int_equal(one_series_profiles(v, s[i].ref, after, until, NULL, &p, &n_rows, &e), 0);
		else
			assert_int_equal(one_series_floats(v, s[i].ref, after, until, NULL, &f, &n_rows, &e), 0);
		if (n_rows)
			*ret_live += p ? !p[n_rows - 1].stale : !value_is_stale(f[n_rows - 1].v);
		all += n_rows;
		free(f);
		free(p);
	}
	free(s);
	v->ops->release(v);
	return all;
}

/* What an instant query shows at t. */
static size_t live(struct kit *k, const char *name, int64_t t)
{
	size_t n;
	rows(k, name, t - LOOKBACK, t, &n);
	return n;
}

static size_t stored(struct kit *k, const char *name)
{
	size_t n;
	return rows(k, name, 0, INT64_MAX, &n);
}

/* Ends the series of both types of a pod, or appends a profile of it. Returns the code of the append. */
static int append_pod(struct kit *k, const char *pod, int64_t t, struct profile *p, uint32_t value_index)
{
	struct label job = { VIEW("job"), VIEW("kit") }, own = { VIEW("pod"), view_of(pod) };
	struct label l[2][3] = { { { VIEW(LABEL_NAME), VIEW(KIT_SAMPLES) }, job, own }, { { VIEW(LABEL_NAME), VIEW(KIT_CPU) }, job, own } };
	struct sink_column c[2] = { { .labels = { l[0], 3 } }, { .labels = { l[1], 3 }, .value_index = value_index } };
	struct err e;
	assert_true(ptype_parse(VIEW(KIT_SAMPLES), &c[0].type) && ptype_parse(VIEW(KIT_CPU), &c[1].type));
	struct sink_profile sp = { .profile = p, .columns = c, .n_columns = 2, .t_ms = t, .interval_ms = 10000, .asked_ms = 10000 };
	struct sink_batch b = { .profiles = &sp, .n_profiles = 1 };
	return tsdb_sink(k->db)->append(tsdb_sink(k->db), &b, NULL, &e);
}

static void end_pod(struct kit *k, const char *pod, int64_t t)
{
	assert_int_equal(append_pod(k, pod, t, NULL, 0), 0);
}

/* A float's end with the labels of a profile series of pod-1. */
static void end_as_float(struct kit *k, int64_t t)
{
	struct label l[] = { { VIEW(LABEL_NAME), VIEW(KIT_CPU) }, { VIEW("job"), VIEW("kit") }, { VIEW("pod"), VIEW("pod-1") } };
	struct sink_float f = { .labels = { l, 3 }, .t_ms = t, .v = stale_value() };
	struct sink_batch b = { .floats = &f, .n_floats = 1 };
	struct err e;
	assert_int_equal(tsdb_sink(k->db)->append(tsdb_sink(k->db), &b, NULL, &e), 0);
}

static void begin(struct kit *k)
{
	kit_init(k);
	k->now_ms = MIDNIGHT + 3 * MINUTE;
	kit_open(k);
}

/* A float and the two series of a pod, that have their last sample 5 s before midnight. */
static void put_last(struct kit *k)
{
	assert_int_equal(kit_append_float(k, "up", MIDNIGHT - 5 * SECOND, 1, NULL), 0);
	assert_int_equal(kit_append(k, 1, MIDNIGHT - 5 * SECOND, 1, 20, NULL), 0);
	tsdb_flush(k->db);
}

static void put_ends(struct kit *k, int64_t t)
{
	assert_int_equal(kit_append_float(k, "up", t, stale_value(), NULL), 0);
	end_pod(k, "pod-1", t);
	tsdb_flush(k->db);
}

static void expect_live(struct kit *k, int64_t t, size_t n)
{
	assert_int_equal(live(k, "up", t), n);
	assert_int_equal(live(k, KIT_SAMPLES, t), n);
	assert_int_equal(live(k, KIT_CPU, t), n);
}

static void test_end_after_midnight(void **state)
{
	static const int64_t ends[] = { MIDNIGHT - 1, MIDNIGHT, MIDNIGHT + 1, MIDNIGHT + 5 * SECOND };
	for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
		struct kit k;
		struct err e;
		begin(&k);
		put_last(&k);
		put_ends(&k, ends[i]);
		for (int round = 0; round < 4; round++) {
			expect_live(&k, ends[i] - 1, 1);
			expect_live(&k, ends[i], 0);
			expect_live(&k, MIDNIGHT + 2 * MINUTE, 0);
			assert_int_equal(stored(&k, "up"), 2);
			assert_int_equal(stored(&k, KIT_SAMPLES), 2);
			if (round == 1)
				assert_int_equal(tsdb_seal(k.db, true, &e), 0);
			else
				kit_reopen(&k);
		}
		/* and it may go on */
		assert_int_equal(kit_append_float(&k, "up", MIDNIGHT + MINUTE, 1, NULL), 0);
		assert_int_equal(kit_append(&k, 1, MIDNIGHT + MINUTE, 1, 20, NULL), 0);
		tsdb_flush(k.db);
		expect_live(&k, MIDNIGHT + 2 * MINUTE, 1);
		kit_free(&k);
	}
}

/* The day before is sealed, and not in memory, when the ends come; or only its log is there. */
static void test_end_after_restart(void **state)
{
	for (int sealed = 0; sealed < 2; sealed++) {
		struct kit k;
		struct err e;
		begin(&k);
		put_last(&k);
		if (sealed)
			assert_int_equal(tsdb_seal(k.db, true, &e), 0);
		kit_reopen(&k);
		put_ends(&k, MIDNIGHT + 5 * SECOND);
		expect_live(&k, MIDNIGHT + 5 * SECOND, 0);
		kit_free(&k);
	}
}

/* The marker comes first: its batch, or its place in it. What is late is of the day before. */
static void test_end_out_of_order(void **state)
{
	struct kit k;
	begin(&k);
	put_last(&k);
	put_ends(&k, MIDNIGHT + 30 * SECOND);
	assert_int_equal(kit_append_float(&k, "up", MIDNIGHT - 2 * SECOND, 1, NULL), 0);
	assert_int_equal(kit_append_float(&k, "up", MIDNIGHT + 10 * SECOND, 1, NULL), 0);
	assert_int_equal(kit_append(&k, 1, MIDNIGHT + 10 * SECOND, 1, 20, NULL), 0);
	tsdb_flush(k.db);
	expect_live(&k, MIDNIGHT + 20 * SECOND, 1);
	expect_live(&k, MIDNIGHT + 30 * SECOND, 0);
	assert_int_equal(stored(&k, "up"), 4);
	kit_free(&k);
}

/* Ends of what never was, was another type, or was not there on the day before. */
static void test_ends_of_nothing(void **state)
{
	struct kit k;
	struct err e;
	begin(&k);
	put_last(&k);
	assert_int_equal(kit_append_float(&k, "old", MIDNIGHT - DAY_MS - MINUTE, 1, NULL), 0);
	tsdb_flush(k.db);
	size_t live_ones, before = rows(&k, "up", 0, INT64_MAX, &live_ones);
	assert_int_equal(kit_append_float(&k, "never", MIDNIGHT + 1, stale_value(), NULL), 0);
	assert_int_equal(kit_append_float(&k, "old", MIDNIGHT + 1, stale_value(), NULL), 0);
	end_as_float(&k, MIDNIGHT + 1);
	end_pod(&k, "pod-2", MIDNIGHT + 1);
	tsdb_flush(k.db);
	struct partition *p = tsdb_partition(k.db, day_of(MIDNIGHT + 1));
	assert_int_equal(p ? p->index.series.n : 0, 0);
	partition_unref(p);
	assert_int_equal(stored(&k, "never"), 0);
	assert_int_equal(stored(&k, "old"), 1);
	assert_int_equal(stored(&k, "up"), before);
	assert_int_equal(tsdb_seal(k.db, true, &e), 0);
	kit_free(&k);
}

/* A day that is full takes no end that adds a series, and does not call that a rejected sample. */
static void test_end_on_full_day(void **state)
{
	struct kit k;
	struct sink_result r;
	kit_init(&k);
	k.o.max_series = 3;
	k.now_ms = MIDNIGHT + MINUTE;
	kit_open(&k);
	put_last(&k);
	for (int i = 0; i < 3; i++) {
		const char *names[] = { "a", "b", "c" };
		assert_int_equal(kit_append_float(&k, names[i], MIDNIGHT + 1, 1, &r), 0);
	}
	assert_int_equal(kit_append_float(&k, "up", MIDNIGHT + 5 * SECOND, stale_value(), &r), 0);
	assert_int_equal(r.over_series_limit, 0);
	assert_int_equal(r.floats, 0);
	kit_free(&k);
}

/* The first of a day covers the time since the last of the day before, also if its first try was refused. */
static void test_cover_over_midnight(void **state)
{
	struct kit k;
	struct err e;
	begin(&k);
	for (int refused = 0; refused < 2; refused++) {
		unsigned pod = 3 + (unsigned)refused;
		AUTOFREE char *name = xasprintf("pod-%u", pod);
		assert_int_equal(kit_append(&k, pod, MIDNIGHT - 5 * SECOND, 1, 20, NULL), 0);
		tsdb_flush(k.db);
		if (refused) {
			struct profile p;
			kit_profile(&p, 1, 20);
			p.values[0] = p.values[2] = INT64_MAX;
			assert_int_equal(append_pod(&k, name, MIDNIGHT + 8 * SECOND, &p, 0), -ERR_BAD_DATA);
			profile_release(&p);
		}
		assert_int_equal(kit_append(&k, pod, MIDNIGHT + 8 * SECOND, 1, 20, NULL), 0);
		tsdb_flush(k.db);
	}
	struct source_series *s;
	size_t n, n_p;
	struct source_view *v = select_all(&k, KIT_CPU, MIDNIGHT, MIDNIGHT + MINUTE, &s, &n);
	assert_int_equal(n, 2);
	for (size_t i = 0; i < n; i++) {
		struct source_profile *p;
		assert_int_equal(one_series_profiles(v, s[i].ref, MIDNIGHT, MIDNIGHT + MINUTE, NULL, &p, &n_p, &e), 0);
		assert_int_equal(n_p, 1);
		assert_int_equal(p[0].cover_ms, 13 * SECOND);
		free(p);
	}
	free(s);
	v->ops->release(v);
	kit_free(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_end_after_midnight), cmocka_unit_test(test_end_after_restart), cmocka_unit_test(test_end_out_of_order),
		cmocka_unit_test(test_ends_of_nothing), cmocka_unit_test(test_end_on_full_day), cmocka_unit_test(test_cover_over_midnight),
	};
	return cmocka_run_group_tests_name("midnight", tests, NULL, NULL);
}
