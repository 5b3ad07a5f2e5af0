/* SPDX-License-Identifier: Apache-2.0 */
/* Names that come late: profiles are stored without lines, their windows sealed and rolled up, and then their functions
 * become known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "tsdb/testkit.h"

#define MINUTE INT64_C(60000)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)
#define STACKS 30

/* The program is known by a build id; with_lines says how many of its functions have names. The mapping may lie elsewhere. */
static void append(struct kit *k, const char *pod, int64_t t_ms, uint64_t seed, uint32_t with_lines, uint64_t moved)
{
	struct profile p;
	struct err e;
	struct sink_result r;
	kit_profile(&p, seed, STACKS);
	p.mappings[0].build_id_str = 5;
	p.mappings[0].start += moved;
	p.mappings[0].limit += moved;
	for (uint32_t i = 0; i < p.n_locations; i++) {
		p.locations[i].address += moved;
		if (i >= with_lines)
			p.locations[i].n_lines = 0;
	}
	struct label l[] = { { VIEW(LABEL_NAME), VIEW(KIT_SAMPLES) }, { VIEW("pod"), view_of(pod) } };
	struct sink_column c = { .labels = { l, 2 } };
	assert_true(ptype_parse(VIEW(KIT_SAMPLES), &c.type));
	struct sink_profile sp = { .profile = &p, .columns = &c, .n_columns = 1, .t_ms = t_ms, .interval_ms = 10000 };
	struct sink_batch b = { .profiles = &sp, .n_profiles = 1 };
	assert_int_equal(tsdb_sink(k->db)->append(tsdb_sink(k->db), &b, &r, &e), 0);
	assert_int_equal(r.profiles, 1);
	profile_release(&p);
	tsdb_flush(k->db);
}

struct answer {
	int64_t f;       /* what main.f7 takes */
	uint64_t merged; /* checksum by names */
};

static struct answer ask(struct kit *k, const char *pod, int64_t after, int64_t until)
{
	struct err e;
	struct answer a = { 0 };
	struct source_view *v;
	struct source_series *s;
	struct matcher m;
	struct stackvec *sum;
	size_t n;
	double d;
	assert_int_equal(tsdb_source(k->db)->open(tsdb_source(k->db), &v, &e), 0);
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW("pod"), view_of(pod), &e), 0);
	assert_int_equal(v->ops->select(v, &m, 1, after, until, NULL, &s, &n, &e), 0);
	matcher_release(&m);
	assert_int_equal(n, 1);
	struct source_part part = { .ref = s[0].ref, .after_ms = after, .until_ms = until, .scale = 1 };
	const struct matcher function = { MATCH_EQ, VIEW("function"), VIEW("main.f7"), NULL };
	const struct source_frame_filter f = { .m = &function, .n = 1 };
	assert_int_equal(v->ops->sums(v, &part, 1, 1, &f, NULL, &d, &a.f, &e), 0);
	assert_int_equal(v->ops->merge(v, &part, 1, 1, SYMBOLS_WHOLE, NULL, &sum, &e), 0);
	a.merged = kit_vec_sum(sum);
	stackvec_unref(sum);
	free(s);
	v->ops->release(v);
	return a;
}

/* The same profiles with names, in a place of their own. */
static struct answer want(int64_t from, uint64_t seed, int n)
{
	struct kit k;
	kit_init(&k);
	k.now_ms = from + DAY;
	k.o.no_sealing = true;
	kit_open(&k);
	for (int i = 0; i < n; i++)
		append(&k, "a", from + (i + 1) * MINUTE, seed + (uint64_t)i, UINT32_MAX, 0);
	struct answer a = ask(&k, "a", 0, INT64_MAX);
	kit_free(&k);
	return a;
}

static void assert_answer(struct kit *k, const char *pod, struct answer w)
{
	const int64_t until[] = { INT64_MAX, KIT_T0 + DAY, KIT_T0 + 6 * HOUR };
	for (size_t i = 0; i < ARRAY_LEN(until); i++) {
		struct answer a = ask(k, pod, 0, until[i]);
		assert_int_equal(a.f, w.f);
		assert_true(a.merged == w.merged);
	}
}

static void seal(struct kit *k)
{
	struct err e;
	assert_int_equal(tsdb_seal(k->db, true, &e), 0);
}

static void resolve(struct kit *k)
{
	struct err e;
	assert_int_equal(tsdb_resolve_names(k->db, &e), 0);
}

static void start(struct kit *k)
{
	kit_init(k);
	k->now_ms = KIT_T0 + 30 * HOUR;
	k->o.no_sealing = true;
	kit_open(k);
	/* Two hours, so that there is a rollup. */
	append(k, "a", KIT_T0 + MINUTE, 1, 0, 0);
	append(k, "a", KIT_T0 + HOUR + 2 * MINUTE, 2, 0, 0);
	seal(k);
	assert_int_equal(ask(k, "a", 0, INT64_MAX).f, 0);
}

static void test_from_a_later_profile(void **state)
{
	(void)state;
	struct kit k;
	struct answer w = want(KIT_T0, 1, 2);
	struct tsdb_stats st;
	assert_true(w.f > 0);
	start(&k);
	/* Of another pod, the next day, loaded somewhere else, and of some functions only. */
	append(&k, "b", KIT_T0 + 29 * HOUR, 3, 50, 0x10000);
	resolve(&k);
	int64_t some = ask(&k, "a", 0, INT64_MAX).f;
	append(&k, "b", KIT_T0 + 29 * HOUR + MINUTE, 4, UINT32_MAX, 0x20000);
	resolve(&k);
	assert_true(some == 0 || some == w.f);
	assert_answer(&k, "a", w);
	kit_reopen(&k);
	assert_answer(&k, "a", w);
	/* What comes without lines afterwards has them at once, and the log can be trimmed. */
	append(&k, "a", KIT_T0 + 3 * HOUR, 3, 0, 0);
	struct answer three = want(KIT_T0, 1, 3);
	assert_answer(&k, "a", three);
	seal(&k);
	assert_answer(&k, "a", three);
	append(&k, "b", KIT_T0 + 29 * HOUR + 2 * MINUTE, 5, UINT32_MAX, 0);
	seal(&k);
	kit_reopen(&k);
	assert_answer(&k, "a", three);
	tsdb_stats(k.db, &st);
	assert_int_equal(st.lost_records, 0);
	resolve(&k);
	assert_answer(&k, "a", three);
	kit_free(&k);
}

/* The other way round: names are there first. */
static void test_from_an_earlier_profile(void **state)
{
	(void)state;
	struct kit k;
	kit_init(&k);
	k.now_ms = KIT_T0 + 30 * HOUR;
	k.o.no_sealing = true;
	kit_open(&k);
	append(&k, "b", KIT_T0 + HOUR, 3, UINT32_MAX, 0);
	append(&k, "b", KIT_T0 + HOUR + MINUTE, 4, UINT32_MAX, 0);
	resolve(&k);
	append(&k, "a", KIT_T0 + MINUTE, 1, 0, 0);
	append(&k, "a", KIT_T0 + HOUR + 2 * MINUTE, 2, 0, 0);
	resolve(&k);
	append(&k, "b", KIT_T0 + HOUR + 3 * MINUTE, 1, UINT32_MAX, 0);
	append(&k, "b", KIT_T0 + HOUR + 4 * MINUTE, 2, UINT32_MAX, 0);
	resolve(&k);
	assert_answer(&k, "a", want(KIT_T0, 1, 2));
	kit_free(&k);
}

/* Somebody else knows: every place that is asked for by its address. */
static void test_told(void **state)
{
	(void)state;
	struct kit k;
	struct err e;
	struct answer w = want(KIT_T0, 1, 2);
	start(&k);
	for (uint32_t i = 0; i < 97; i++) {
		char name[32];
		snprintf(name, sizeof name, i ? "main.f%u" : "main.main", i);
		struct tsdb_line line = { .function = view_of(name), .line = 1 };
		assert_int_equal(tsdb_name_location(k.db, VIEW("/bin/app"), i * 16, &line, 1, &e), 0);
		assert_int_equal(tsdb_name_location(k.db, VIEW("other"), i * 16, &line, 1, &e), 0);
	}
	assert_answer(&k, "a", w);
	kit_reopen(&k);
	assert_answer(&k, "a", w);
	seal(&k);
	kit_reopen(&k);
	assert_answer(&k, "a", w);
	kit_free(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_from_a_later_profile), cmocka_unit_test(test_from_an_earlier_profile), cmocka_unit_test(test_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
