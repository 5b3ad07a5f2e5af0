/* SPDX-License-Identifier: Apache-2.0 */
/* A graph of one function against its series and steps one by one. Timestamps are irregular, series come and go, and windows begin on
 * whole minutes and between them. Data is in the head, sealed, late, deleted or damaged, and series end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/map.h"
#include "model/sourcekit.h"
#include "tsdb/part/part_private.h"
#include "tsdb/read/view.h"
#include "tsdb/testkit.h"

#define PODS 6
#define MINUTE INT64_C(60000)
#define HOUR (60 * MINUTE)

/* Pod 0 is not there in the second quarter of each hour, pod 4 comes at half of it; pod 5 is idle now and then. */
static void fill(struct kit *k, unsigned hours)
{
	for (int64_t t = KIT_T0 + 10000; t < KIT_T0 + hours * HOUR; t += 10000) {
		k->now_ms = t + 20000;
		for (unsigned pod = 0; pod < PODS; pod++) {
			int64_t in = (t - KIT_T0) % HOUR, jitter = (int64_t)(hash_u64((uint64_t)t + pod) % 1700) - 600;
			if ((pod == 0 && in > 15 * MINUTE && in < 30 * MINUTE) || (pod == 4 && in < 30 * MINUTE))
				continue;
			unsigned n = pod == 5 && in / MINUTE % 3 ? 0 : 4 + (unsigned)(t / 10000 % 3);
			assert_int_equal(kit_append(k, pod, t + (pod > 1 ? jitter : 0), (uint64_t)pod % 2, n, NULL), 0);
		}
	}
	tsdb_flush(k->db);
}

/* The end of a series. */
static void append_end(struct kit *k, unsigned pod, int64_t t_ms)
{
	char name[32];
	snprintf(name, sizeof name, "pod-%u", pod);
	struct label l[] = { { VIEW(LABEL_NAME), VIEW(KIT_SAMPLES) }, { VIEW("job"), VIEW("kit") }, { VIEW("pod"), view_of(name) } };
	struct sink_column c = { .labels = { l, 3 } };
	struct err e;
	assert_true(ptype_parse(VIEW(KIT_SAMPLES), &c.type));
	struct sink_profile p = { .columns = &c, .n_columns = 1, .t_ms = t_ms };
	struct sink_batch b = { .profiles = &p, .n_profiles = 1 };
	struct sink *s = tsdb_sink(k->db);
	if (s->append(s, &b, NULL, &e))
		fail_msg("%s", e.msg);
}

struct matched {
	struct source_view *v;
	const uint64_t *refs;
	const struct source_frame_filter *f;
	int64_t after_ms, until_ms;
	size_t met, profiles;
};

/* Points say the same as the list, or that there is more to say. */
static void check_points(const struct matched *m, uint64_t ref, const struct source_profile *want, size_t n_want)
{
	struct source_points got;
	bool want_plain = true;
	size_t n = 0;
	struct err e;
	for (size_t i = 0; i < n_want; i++)
		want_plain &= want[i].stale || (want[i].weight == 1 && want[i].cover_ms > 0);
	assert_int_equal(one_series_points(m->v, ref, m->after_ms, m->until_ms, NULL, NULL, &got, &e), 0);
	assert_int_equal(got.plain, want_plain);
	assert_null(got.before);
	for (size_t i = 0; i < n_want && got.plain; i++) {
		int64_t ahead = want[i].interval_ms;
		if (want[i].stale)
			continue;
		if (i + 1 < n_want && want[i + 1].stale)
			ahead = MIN(ahead, want[i + 1].t_ms - want[i].t_ms);
		const struct source_point *x = &got.v[n++];
		assert_true(n <= got.n && x->t_ms == want[i].t_ms && x->total == want[i].total && x->cover_ms == want[i].cover_ms && x->ahead == ahead && !x->is_run);
	}
	assert_int_equal(got.n, n);
	source_points_release(&got);
}

/* Each is as storage says of it alone. */
static int check_series(void *arg, size_t series, const struct source_profile *p, const int64_t *match, size_t n, unsigned worker, struct err *e)
{
	struct matched *m = arg;
	struct source_profile *want;
	size_t n_want;
	double unused;
	int64_t sum;
	(void)worker;
	assert_int_equal(one_series_profiles(m->v, m->refs[series], m->after_ms, m->until_ms, NULL, &want, &n_want, e), 0);
	assert_int_equal(n, n_want);
	check_points(m, m->refs[series], want, n_want);
	for (size_t i = 0; i < n; i++) {
		struct source_part one = { m->refs[series], p[i].t_ms - 1, p[i].t_ms, 1, 0, 1, 0 };
		assert_memory_equal(&p[i], &want[i], offsetof(struct source_profile, stale));
		assert_int_equal(p[i].stale, want[i].stale);
		assert_int_equal(m->v->ops->sums(m->v, &one, 1, 1, m->f, NULL, &unused, &sum, e), 0);
		assert_int_equal(match[i], sum);
	}
	free(want);
	m->met++;
	m->profiles += n;
	return 0;
}

/* Of all profiles in (after, until]; returns how many there are. */
static size_t check_matches(struct kit *k, int64_t after_ms, int64_t until_ms)
{
	const struct source_frame_filter f = kit_odd_functions(false);
	struct matched x = { .f = &f, .after_ms = after_ms, .until_ms = until_ms };
	struct source_series *s;
	struct matcher m;
	struct err e;
	uint64_t refs[2 * PODS];
	size_t n;
	assert_int_equal(tsdb_source(k->db)->open(tsdb_source(k->db), &x.v, &e), 0);
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW("job"), VIEW("kit"), &e), 0);
	assert_int_equal(x.v->ops->select(x.v, &m, 1, 0, INT64_MAX, NULL, &s, &n, &e), 0);
	assert_int_equal(n, 2 * PODS);
	for (size_t i = 0; i < n; i++)
		refs[i] = s[i].ref;
	x.refs = refs;
	assert_int_equal(x.v->ops->matches(x.v, refs, n, after_ms, until_ms, &f, NULL, check_series, &x, &e), 0);
	assert_int_equal(x.met, n); /* also those that have nothing */
	free(s);
	matcher_release(&m);
	x.v->ops->release(x.v);
	return x.profiles;
}

/* Slots count against the query's memory: with little of it one thread adds up alone, with less there is no answer. */
static void test_memory(void **state)
{
	enum { STEPS = 60 };
	struct kit k;
	const struct source_frame_filter f = kit_odd_functions(false);
	struct pool *pool = pool_new(2, "test");
	struct source_view *v;
	struct source_series *s;
	struct matcher m;
	struct err e;
	size_t n, slots = (size_t)3 * STEPS * sizeof(int64_t);
	int64_t room[2][3][STEPS];
	(void)state;
	kit_init(&k);
	kit_open(&k);
	fill(&k, 2);
	assert_int_equal(tsdb_source(k.db)->open(tsdb_source(k.db), &v, &e), 0);
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW("pod"), VIEW("pod-1"), &e), 0);
	assert_int_equal(v->ops->select(v, &m, 1, 0, INT64_MAX, NULL, &s, &n, &e), 0);
	assert_true(n > 0);
	struct source_part p = { s[0].ref, KIT_T0, KIT_T0 + MINUTE, 1, 0, STEPS, MINUTE };
	for (int i = 0; i < 2; i++) {
		struct source_limits lim = { .pool = pool, .max_bytes = i ? slots * 3 / 2 : 0 };
		struct source_shares to = { room[i][0], room[i][1], room[i][2] };
		assert_int_equal(v->ops->shares(v, &p, 1, STEPS, &f, &lim, &to, &e), 0);
	}
	assert_true(room[0][1][1] > 0);
	assert_memory_equal(room[0], room[1], sizeof room[0]);
	struct source_shares to = { room[0][0], room[0][1], room[0][2] };
	assert_int_equal(v->ops->shares(v, &p, 1, STEPS, &f, &(struct source_limits){ .pool = pool, .max_bytes = slots - 1 }, &to, &e), -ERR_LIMIT);
	assert_non_null(strstr(e.msg, "--query.max-bytes"));
	free(s);
	matcher_release(&m);
	v->ops->release(v);
	pool_free(pool);
	kit_free(&k);
}

static void check(struct kit *k)
{
	assert_true(check_matches(k, KIT_T0 + 8 * MINUTE + 3, KIT_T0 + 17 * MINUTE + 20) > 2 * 5 * PODS);
	assert_true(check_matches(k, KIT_T0 + 58 * MINUTE, KIT_T0 + 64 * MINUTE) > 2 * 5 * PODS);
	assert_int_equal(check_matches(k, KIT_T0 - HOUR, KIT_T0), 0);
	static const struct { int64_t range, step, off; } graphs[] = {
		{ MINUTE, MINUTE, 0 }, { 5 * MINUTE, MINUTE, 0 }, { MINUTE, 5 * MINUTE, 0 }, { 10 * MINUTE, 10 * MINUTE, 7000 }, { 10000, 17000, 3 },
		{ 2 * HOUR, 20 * MINUTE, MINUTE }, { MINUTE, MINUTE, 30000 },
	};
	kit_check_graph(k, KIT_SAMPLES, 1, KIT_T0, MINUTE, MINUTE, 130, NULL);
	for (size_t i = 0; i < ARRAY_LEN(graphs); i++) {
		uint32_t n = (uint32_t)MIN(3 * HOUR / graphs[i].step + 2, 300);
		kit_check_graph(k, KIT_SAMPLES, PODS, KIT_T0 - 2 * MINUTE + graphs[i].off, graphs[i].range, graphs[i].step, n, NULL);
		kit_check_graph(k, i % 2 ? KIT_SAMPLES : KIT_CPU, PODS - 1, KIT_T0 - 2 * MINUTE + graphs[i].off, graphs[i].range, graphs[i].step, n, NULL);
	}
}

static void test_shares(void **state)
{
	struct kit k;
	struct err e;
	struct matcher m;
	uint64_t gone;
	(void)state;
	kit_init(&k);
	k.o.keep_aggregates = k.o.no_sealing = true;
	kit_open(&k);
	fill(&k, 2);
	append_end(&k, 0, KIT_T0 + 16 * MINUTE + 5000);
	tsdb_flush(k.db);
	check(&k);
	k.now_ms = KIT_T0 + 4 * HOUR;
	assert_int_equal(tsdb_seal(k.db, true, &e), 0);
	check(&k);
	for (unsigned i = 0; i < 3; i++) /* late ones, out of order among themselves */
		assert_int_equal(kit_append(&k, i % 2, KIT_T0 + 4 * MINUTE * (3 - i) + 33, 7, 9, NULL), 0);
	tsdb_flush(k.db);
	check(&k);
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW("pod"), VIEW("pod-1"), &e), 0);
	assert_int_equal(tsdb_delete(k.db, &m, 1, KIT_T0 + 11 * MINUTE, KIT_T0 + 13 * MINUTE, &gone, &e), 0);
	matcher_release(&m);
	check(&k);
	kit_free(&k);
}

/* ---- damage ---- */

#define ALL UINT32_MAX

/* Flips a bit of each stored value of that kind, of series and sums, or of one series. */
static void flip(struct kit *k, enum part_kind kind, uint8_t stream, uint32_t only)
{
	struct source_view *sv;
	struct err e;
	assert_int_equal(tsdb_source(k->db)->open(tsdb_source(k->db), &sv, &e), 0);
	const struct version *v = ((struct tsdb_view *)sv)->v;
	rocksdb_writeoptions_t *w = rocksdb_writeoptions_create();
	for (size_t i = 0; i < v->n; i++)
		for (size_t j = 0; j < v->p[i]->n_parts; j++) {
			const struct part *p = v->p[i]->parts[j];
			for (size_t s = 0; s < p->series.n + p->aggregates.n; s++) {
				uint32_t id = s < p->series.n ? p->series.v[s].series : PART_AGGREGATE | (uint32_t)(s - p->series.n);
				char key[KEY_LEN], *error = NULL;
				size_t n;
				if (only != ALL && only != id)
					continue;
				part_make_key(key, p->level, p->window, p->number, part_key_kind(p->one_kind, kind, stream), id, stream);
				char *value = rocksdb_get(p->db->db, p->db->read, key, sizeof key, &n, &error);
				assert_null(error);
				if (!value)
					continue;
				value[n / 2] ^= 4;
				rocksdb_put(p->db->db, w, key, sizeof key, value, n, &error);
				assert_null(error);
				rocksdb_free(value);
			}
		}
	rocksdb_writeoptions_destroy(w);
	sv->ops->release(sv);
}

/* Of profiles whose stacks are lost it is known that they were there, and what they came to. */
static void test_lost_stacks(void **state)
{
	struct kit k;
	struct err e;
	struct source_view *v;
	struct source_series *s;
	struct source_damage damage = { 0 };
	struct source_limits lim = { .damage = &damage };
	const struct source_frame_filter all_frames = { .n = 0 };
	struct matcher m;
	struct source_part parts[PODS];
	int64_t match[60], total[60], there[60], all = 0, want = 0;
	size_t n;
	(void)state;
	kit_init(&k);
	k.o.keep_aggregates = k.o.no_sealing = true;
	kit_open(&k);
	fill(&k, 1);
	k.now_ms = KIT_T0 + 4 * HOUR;
	assert_int_equal(tsdb_seal(k.db, true, &e), 0);
	kit_count(&k, KIT_SAMPLES, KIT_T0, KIT_T0 + HOUR, &want);
	flip(&k, PART_DETAIL, 0, ALL);
	assert_int_equal(tsdb_source(k.db)->open(tsdb_source(k.db), &v, &e), 0);
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW(LABEL_NAME), VIEW(KIT_SAMPLES), &e), 0);
	assert_int_equal(v->ops->select(v, &m, 1, 0, INT64_MAX, NULL, &s, &n, &e), 0);
	assert_int_equal(n, PODS);
	for (size_t i = 0; i < n; i++)
		parts[i] = (struct source_part){ s[i].ref, KIT_T0, KIT_T0 + MINUTE, 1, 0, 60, MINUTE };
	assert_int_equal(v->ops->shares(v, parts, n, 60, &all_frames, &lim, &(struct source_shares){ match, total, there }, &e), 0);
	for (size_t i = 0; i < 60; i++)
		all += total[i];
	assert_true(source_damage_met(&damage) > 0 && want > 0);
	assert_int_equal(all, want);
	free(s);
	matcher_release(&m);
	v->ops->release(v);
	kit_free(&k);
}

/* Of an hour whose sums can be read and whose profiles cannot, nothing is in the answer: its profiles have another weight than the
 * base, and half of a mean is no mean. */
static void test_half(void **state)
{
	struct kit k;
	struct err e;
	struct source_view *v;
	struct source_series *s;
	struct stackvec *got;
	struct source_damage damage = { 0 };
	struct source_limits lim = { .damage = &damage };
	struct source_part parts[PODS];
	struct matcher m;
	size_t n;
	(void)state;
	kit_init(&k);
	k.o.keep_aggregates = k.o.no_sealing = true;
	kit_open(&k);
	fill(&k, 1);
	k.now_ms = KIT_T0 + 4 * HOUR;
	assert_int_equal(tsdb_seal(k.db, true, &e), 0);
	for (unsigned round = 0; round < 2; round++) {
		assert_int_equal(tsdb_source(k.db)->open(tsdb_source(k.db), &v, &e), 0);
		assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW(LABEL_NAME), VIEW(KIT_SAMPLES), &e), 0);
		assert_int_equal(v->ops->select(v, &m, 1, 0, INT64_MAX, NULL, &s, &n, &e), 0);
		assert_int_equal(n, PODS);
		for (size_t i = 0; i < n; i++)
			parts[i] = (struct source_part){ .ref = s[i].ref, .after_ms = KIT_T0, .until_ms = KIT_T0 + HOUR, .scale = 1,
							 .weigh = { HOUR, 1, true } };
		assert_int_equal(v->ops->merge(v, parts, n, 1, SYMBOLS_WHOLE, &lim, &got, &e), 0);
		assert_int_equal(got->n > 0, !round);
		assert_int_equal(source_damage_met(&damage) > 0, round);
		stackvec_unref(got);
		free(s);
		matcher_release(&m);
		v->ops->release(v);
		if (!round)
			flip(&k, PART_DETAIL, 0, ALL);
	}
	kit_free(&k);
}

/* Where one series is damaged all are read once more: that counts once. */
static void test_half_counts_once(void **state)
{
	struct kit k;
	struct err e;
	struct source_view *v;
	struct source_series *s;
	struct stackvec *got;
	struct source_part parts[PODS];
	struct matcher m;
	atomic_uint_fast64_t read = 0, want = 0;
	struct source_damage damage = { 0 };
	struct source_limits each = { .damage = &damage, .samples_read = &want };
	size_t n;
	(void)state;
	kit_init(&k);
	k.o.keep_aggregates = k.o.no_sealing = true;
	kit_open(&k);
	fill(&k, 1);
	k.now_ms = KIT_T0 + 4 * HOUR;
	assert_int_equal(tsdb_seal(k.db, true, &e), 0);
	flip(&k, PART_DETAIL, 0, 0);
	assert_int_equal(tsdb_source(k.db)->open(tsdb_source(k.db), &v, &e), 0);
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW(LABEL_NAME), VIEW(KIT_SAMPLES), &e), 0);
	assert_int_equal(v->ops->select(v, &m, 1, 0, INT64_MAX, NULL, &s, &n, &e), 0);
	assert_int_equal(n, PODS);
	for (size_t i = 0; i < n; i++) {
		parts[i] = (struct source_part){ .ref = s[i].ref, .after_ms = KIT_T0, .until_ms = KIT_T0 + HOUR, .scale = 1, .weigh = { HOUR, 1, true } };
		assert_int_equal(v->ops->merge(v, &parts[i], 1, 1, SYMBOLS_WHOLE, &each, &got, &e), 0);
		stackvec_unref(got);
	}
	assert_true(source_damage_met(&damage) > 0);
	struct source_limits lim = { .damage = &damage, .samples_read = &read, .max_samples = want * 3 / 2 };
	assert_int_equal(v->ops->merge(v, parts, n, 1, SYMBOLS_WHOLE, &lim, &got, &e), 0);
	assert_true(got->n > 0 && source_damage_met(&damage) > 0);
	assert_true(read > want / 2 && read < want * 3 / 2);
	stackvec_unref(got);
	free(s);
	matcher_release(&m);
	v->ops->release(v);
	kit_free(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_shares), cmocka_unit_test(test_lost_stacks), cmocka_unit_test(test_half), cmocka_unit_test(test_half_counts_once), cmocka_unit_test(test_memory) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
