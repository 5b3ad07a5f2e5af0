/* SPDX-License-Identifier: Apache-2.0 */
/* Weighed parts against their profiles one by one, in 128 bits. Stamps jitter, covers are those of scrapes or random, series have holes, and values
 * are so large that sums with weights, or even without them, do not fit in 64 bits. Data is in the head, sealed, rolled up, late and deleted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include <math.h>

#include "base/map.h"
#include "model/sourcekit.h"
#include "tsdb/testkit.h"

#define PODS 8
#define MINUTE INT64_C(60000)
#define HOUR (60 * MINUTE)
#define INTERVAL 30000
/* Bits of the values of pods 6 and 7; a value of the largest stack has 9 more. The values of a day fit in 64 bits, or they would not be stored. */
#define LARGE 44
#define MEDIUM 12
#define MOST_COPIES 16

/* The values of pods 5 to 7 change. Those of pod 7, and of pod 6 in every second hour, do so in three of four profiles: storage keeps their differences. */
static int64_t value_at(unsigned pod, int64_t value, int64_t interval)
{
	int64_t walk = (interval - (interval % 4 == 3)) * 7919 % 4093;
	if (pod == 7)
		return (value << MEDIUM) + walk;
	if (pod == 6)
		return (value << LARGE) + (interval * INTERVAL / HOUR % 2 ? walk : interval / 7 % 5);
	return value + interval % 5;
}

static void append(struct kit *k, unsigned pod, int64_t t_ms, uint64_t seed, uint32_t n, int64_t cover_ms)
{
	struct profile p;
	struct err e;
	char name[32];
	bool large = pod >= 6;
	kit_profile(&p, seed, n);
	for (size_t i = 0; pod >= 5 && i < n; i++)
		p.values[2 * i] = value_at(pod, p.values[2 * i], t_ms / INTERVAL);
	snprintf(name, sizeof name, "pod-%u", pod);
	struct label labels[2][3] = { { { VIEW(LABEL_NAME), VIEW(KIT_SAMPLES) }, { VIEW("job"), VIEW("kit") }, { VIEW("pod"), view_of(name) } },
				      { { VIEW(LABEL_NAME), VIEW(KIT_CPU) }, { VIEW("job"), VIEW("kit") }, { VIEW("pod"), view_of(name) } } };
	struct sink_column c[2] = { { .labels = { labels[0], 3 } }, { .labels = { labels[1], 3 }, .value_index = 1 } };
	assert_true(ptype_parse(VIEW(KIT_SAMPLES), &c[0].type) && ptype_parse(VIEW(KIT_CPU), &c[1].type));
	struct sink_profile sp = { .profile = &p, .columns = c, .n_columns = large ? 1 : 2, .t_ms = t_ms, .interval_ms = INTERVAL,
				   .asked_ms = INTERVAL, .period = KIT_PERIOD, .cover_ms = cover_ms };
	struct sink_batch b = { .profiles = &sp, .n_profiles = 1 };
	struct sink *s = tsdb_sink(k->db);
	if (s->append(s, &b, NULL, &e))
		fail_msg("%s", e.msg);
	profile_release(&p);
}

/* Pods 0 and 1 have a profile each interval, pod 2 lacks some in each hour. The profiles of pods 5 and 7 cover random times, those of 6 have large
 * values, those of 7 some that do not fit in a byte. From pod 4 on all profiles of a pod have the same stacks, whose values stay, change each time, or change now and then. */
static void fill(struct kit *k, int64_t from, int64_t until, uint64_t *random)
{
	for (int64_t t = from + INTERVAL; t <= until; t += INTERVAL) {
		k->now_ms = t + 20000;
		for (unsigned pod = 0; pod < PODS; pod++) {
			int64_t jitter = (int64_t)(kit_random(random) % 1700) - 600, in = t % HOUR;
			if ((pod == 2 && in > 15 * MINUTE && in < 20 * MINUTE) || (pod == 3 && in < 40 * MINUTE))
				continue;
			int64_t cover = pod == 5 || pod == 7 ? (int64_t)(kit_random(random) % (3 * INTERVAL)) : 0;
			uint64_t seed = (uint64_t)pod + (pod < 4 ? (uint64_t)(t / INTERVAL % 3) : 0);
			bool more = pod == 7 && in == 20 * MINUTE && t / HOUR % 2; /* some stacks are in one profile of such an hour */
			append(k, pod, t + (pod > 1 ? jitter : 0), seed, more ? 9 : 6, cover);
		}
	}
	tsdb_flush(k->db);
}

/* ---- the model ---- */

#define ROOM 4096
struct model {
	struct { uint64_t stack; int128 sum; } v[ROOM]; /* by hash of the names; 0: free */
};

static uint64_t stack_of(const struct symbols *s, uint32_t column)
{
	uint32_t locations[64];
	uint64_t h = 1;
	size_t n = symbols_stack_locations(s, symbols_get_column(s, column)->stack, locations, 64);
	for (size_t k = 0; k < n; k++) {
		const struct sym_location *l = symbols_get_location(s, locations[k]);
		for (uint32_t line = 0; line < l->n_lines; line++) {
			uint32_t f = symbols_get_line(s, l, line)->function;
			struct view name = symbols_get_string(s, symbols_get_function(s, f - 1)->name);
			h = hash_stable_seed(name.ptr, name.len, h);
		}
	}
	return h | 1;
}

static int128 *model_at(struct model *m, uint64_t stack)
{
	size_t i = stack / 2 % ROOM;
	while (m->v[i].stack && m->v[i].stack != stack)
		i = (i + 1) % ROOM;
	m->v[i].stack = stack;
	return &m->v[i].sum;
}

struct asked {
	struct source_view *v;
	const struct source_series *s;
	const bool *picked;
	size_t n, copies;      /* each series is asked for so often */
	struct source_part p; /* without its series */
};

/* The weight of a profile as docs/profql.md has it: what it covers of the range, up to its stamp. */
static int64_t weight_by_hand(const struct asked *q, int64_t after, const struct source_profile *p)
{
	int64_t ms = 0;
	if (!q->p.weigh.by_cover)
		return q->p.weigh.base_ms;
	ms = p->t_ms - p->cover_ms < after ? p->t_ms - after : p->cover_ms;
	return ms;
}

/* One step, profile by profile. *ret_some, *ret_all: what some frames come to, and all. */
static void by_hand(const struct asked *q, uint32_t step, struct model *m, int128 *ret_some, int128 *ret_all)
{
	struct err e;
	int64_t after = q->p.after_ms + step * q->p.step_ms, until = q->p.until_ms + step * q->p.step_ms;
	memset(m, 0, sizeof *m);
	const struct source_frame_filter some = kit_odd_functions(true);
	*ret_some = *ret_all = 0;
	for (size_t i = 0; i < q->n; i++) {
		struct source_profile *p;
		size_t n;
		assert_int_equal(one_series_profiles(q->v, q->s[i].ref, after, until, NULL, &p, &n, &e), 0);
		for (size_t k = 0; k < n && q->picked[i]; k++) {
			struct source_part one = { .ref = q->s[i].ref, .after_ms = p[k].t_ms - 1, .until_ms = p[k].t_ms, .scale = 1 };
			const int128 times = (int128)weight_by_hand(q, after, &p[k]) * (int64_t)q->copies;
			int64_t match;
			struct stackvec *v;
			double unused;
			if (p[k].stale)
				continue;
			assert_int_equal(q->v->ops->merge(q->v, &one, 1, 1, SYMBOLS_WHOLE, NULL, &v, &e), 0);
			for (size_t c = 0; c < v->n; c++)
				*model_at(m, stack_of(v->symbols, v->columns[c])) += v->ints[c] * times;
			stackvec_unref(v);
			assert_int_equal(q->v->ops->sums(q->v, &one, 1, 1, &some, NULL, &unused, &match, &e), 0);
			*ret_some += match * times;
			*ret_all += p[k].total * times;
		}
		free(p);
	}
}

static void check_number(double got, int128 want, const struct asked *q, bool exact)
{
	double w = source_weighed(want, q->p.weigh.over_ms) * q->p.scale;
	if (got != w && (exact || fabs(got - w) > 1e-14 * fabs(w)))
		fail_msg("%.17g instead of %.17g: (%lld, %lld], base %lld, by cover %d", got, w, (long long)q->p.after_ms, (long long)q->p.until_ms,
			 (long long)q->p.weigh.base_ms, q->p.weigh.by_cover);
}

static void check_vector(const struct stackvec *v, struct model *m, const struct asked *q, bool one_day)
{
	size_t met = 0, want = 0;
	for (size_t i = 0; i < v->n; i++) {
		double got = v->is_float ? v->floats[i] : (double)v->ints[i];
		int128 *sum = model_at(m, stack_of(v->symbols, v->columns[i]));
		check_number(got, *sum, q, one_day);
		met += *sum != 0;
	}
	for (size_t i = 0; i < ROOM; i++)
		want += m->v[i].sum != 0;
	assert_int_equal(met, want);
}

static size_t list_parts(const struct asked *q, struct source_part *parts)
{
	size_t n = 0;
	for (size_t i = 0; i < q->n * q->copies; i++)
		if (q->picked[i % q->n]) {
			parts[n] = q->p;
			parts[n++].ref = q->s[i % q->n].ref;
		}
	return n;
}

static void check_question(const struct asked *q, struct pool *pool, bool one_day)
{
	enum { STEPS = 4 };
	struct source_limits lim = { .pool = pool };
	struct source_part parts[PODS * MOST_COPIES];
	struct stackvec *v[STEPS];
	double sums[2][STEPS];
	struct err e;
	struct model *m = xcalloc(1, sizeof *m);
	const struct source_frame_filter some = kit_odd_functions(true);
	size_t n = list_parts(q, parts);
	if (q->v->ops->merge(q->v, parts, n, q->p.n_steps, SYMBOLS_WHOLE, &lim, v, &e) || q->v->ops->sums(q->v, parts, n, q->p.n_steps, &some, &lim, sums[0], NULL, &e) ||
	    q->v->ops->sums(q->v, parts, n, q->p.n_steps, NULL, &lim, sums[1], NULL, &e))
		fail_msg("%s", e.msg);
	for (uint32_t step = 0; step < q->p.n_steps; step++) {
		int128 of_some, all;
		by_hand(q, step, m, &of_some, &all);
		check_vector(v[step], m, q, one_day);
		check_number(sums[0][step], of_some, q, true);
		check_number(sums[1][step], all, q, true);
		stackvec_unref(v[step]);
	}
	free(m);
}

static struct source_part draw(uint64_t *random, int64_t from, int64_t until)
{
	struct source_part p = { .scale = kit_random(random) % 4 ? 1 : 0.001, .n_steps = 1 };
	int64_t unit = kit_random(random) % 2 ? 1 : MINUTE, span = (until - from) / unit;
	p.after_ms = from + (int64_t)(kit_random(random) % (uint64_t)span) * unit;
	p.until_ms = p.after_ms + (int64_t)(1 + kit_random(random) % (kit_random(random) % 2 ? 20 * (uint64_t)(MINUTE / unit) : (uint64_t)span)) * unit;
	p.weigh = (struct source_weigh){ 1 + (int64_t)(kit_random(random) % 5000000), kit_random(random) % 5 ? INTERVAL : (int64_t)(kit_random(random) % 20000),
					 kit_random(random) % 3 != 0 };
	if (kit_random(random) % 5 == 0) {
		p.n_steps = 1 + (uint32_t)(kit_random(random) % 4);
		p.step_ms = (1 + (int64_t)(kit_random(random) % 9)) * MINUTE;
		p.until_ms = MIN(p.until_ms, p.after_ms + HOUR);
	}
	return p;
}

/* A stamp of one of the series: a part of one profile is read in another way. */
static void make_single(struct asked *q)
{
	struct source_profile *p;
	struct err e;
	size_t n;
	assert_int_equal(one_series_profiles(q->v, q->s[0].ref, q->p.after_ms, q->p.until_ms, NULL, &p, &n, &e), 0);
	if (n) {
		q->p.until_ms = p[n / 2].t_ms;
		q->p.after_ms = q->p.until_ms - 1;
		q->p.weigh.by_cover = false;
	}
	free(p);
}

static void check(struct kit *k, int64_t from, int64_t until, size_t rounds, uint64_t *random, struct pool *pool)
{
	struct matcher m;
	struct err e;
	for (size_t i = 0; i < rounds; i++) {
		bool picked[PODS];
		struct asked q = { .picked = picked, .copies = i % 6 == 5 ? MOST_COPIES : 1, .p = draw(random, from, until) };
		struct source_series *s;
		assert_int_equal(tsdb_source(k->db)->open(tsdb_source(k->db), &q.v, &e), 0);
		assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW(LABEL_NAME), i % 4 ? VIEW(KIT_SAMPLES) : VIEW(KIT_CPU), &e), 0);
		assert_int_equal(q.v->ops->select(q.v, &m, 1, 0, INT64_MAX, NULL, &s, &q.n, &e), 0);
		uint64_t mask = i % 3 ? UINT64_MAX : kit_random(random) | 1;
		for (size_t x = 0; x < q.n; x++)
			picked[x] = mask >> x & 1;
		q.s = s;
		if (i % 7 == 0)
			make_single(&q);
		check_question(&q, pool, (q.p.after_ms - 1) / (24 * HOUR) == (q.p.until_ms + (q.p.n_steps - 1) * q.p.step_ms) / (24 * HOUR));
		free(s);
		matcher_release(&m);
		q.v->ops->release(q.v);
	}
}

static void delete(struct kit *k, const char *pod, int64_t after, int64_t until)
{
	struct matcher m;
	struct err e;
	uint64_t gone;
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW("pod"), view_of(pod), &e), 0);
	assert_int_equal(tsdb_delete(k->db, &m, 1, after, until, &gone, &e), 0);
	assert_true(gone > 0);
	matcher_release(&m);
}

#define ROUNDS 21 /* each kind of question, and some of them twice; more take a minute under the sanitizers */

static void test_weights(void **state)
{
	struct kit k;
	struct err e;
	struct pool *pool = pool_new(2, "test");
	uint64_t random = 7;
	const int64_t from = KIT_T0 + 17 * HOUR + 30 * MINUTE, until = KIT_T0 + 25 * HOUR; /* over midnight, with six hours that are whole */
	(void)state;
	kit_init(&k);
	k.o.keep_aggregates = k.o.no_sealing = true;
	kit_open(&k);
	fill(&k, from, until, &random);
	check(&k, from, until, ROUNDS, &random, NULL);
	k.now_ms = KIT_T0 + 30 * HOUR;
	assert_int_equal(tsdb_seal(k.db, true, &e), 0);
	check(&k, from, until, ROUNDS, &random, NULL);
	for (unsigned i = 0; i < 12; i++) /* late ones, out of order among themselves: the head has some, the parts the others */
		append(&k, i % PODS, KIT_T0 + 20 * HOUR + 40 * MINUTE * (3 - i % 3) + 33 + i, 7, 9, i % 2 ? 0 : 7777);
	tsdb_flush(k.db);
	check(&k, from, until, ROUNDS, &random, pool);
	delete(&k, "pod-1", KIT_T0 + 20 * HOUR + 11 * MINUTE + 1, KIT_T0 + 20 * HOUR + 13 * MINUTE);
	delete(&k, "pod-6", KIT_T0 + 24 * HOUR - 11 * MINUTE, KIT_T0 + 24 * HOUR + 13 * MINUTE);
	check(&k, from, until, ROUNDS, &random, pool);
	pool_free(pool);
	kit_free(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_weights) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
