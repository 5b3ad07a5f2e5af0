/* SPDX-License-Identifier: Apache-2.0 */
/* Sample types that have the same stacks and values of their own: where the samples are is stored once, and every answer is what
 * it was in memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "base/alloc.h"
#include "base/map.h"
#include "tsdb/inspect.h"
#include "tsdb/testkit.h"

#define MINUTE INT64_C(60000)
#define HOUR (60 * MINUTE)

/* As kit_append, but nanoseconds that are no multiple of the samples; few: two different ones a profile, and one stack has none of
 * them. */
static void append(struct kit *k, unsigned pod, int64_t t_ms, uint64_t seed, bool few)
{
	struct profile p;
	struct err e;
	char name[16];
	kit_profile(&p, seed % 5, 12);
	for (uint32_t i = 0; i < p.n_samples; i++) {
		p.values[2 * i] += 1;
		p.values[2 * i + 1] = few && !i ? 0 : 50000000 + (int64_t)(hash_u64(seed * 100 + (few ? i % 2 : i)) % 9000000);
	}
	snprintf(name, sizeof name, "pod-%u", pod);
	struct label labels[2][2] = { { { VIEW(LABEL_NAME), VIEW(KIT_SAMPLES) }, { VIEW("pod"), view_of(name) } },
				      { { VIEW(LABEL_NAME), VIEW(KIT_CPU) }, { VIEW("pod"), view_of(name) } } };
	struct sink_column c[2] = { { .labels = { labels[0], 2 }, .value_index = 0 }, { .labels = { labels[1], 2 }, .value_index = 1 } };
	assert_true(ptype_parse(VIEW(KIT_SAMPLES), &c[0].type));
	assert_true(ptype_parse(VIEW(KIT_CPU), &c[1].type));
	struct sink_profile sp = { .profile = &p, .columns = c, .n_columns = 2, .t_ms = t_ms, .duration_ns = 10000000000, .interval_ms = 10000,
				   .asked_ms = 10000, .period = KIT_PERIOD };
	struct sink_batch b = { .profiles = &sp, .n_profiles = 1 };
	k->now_ms = t_ms;
	assert_int_equal(tsdb_sink(k->db)->append(tsdb_sink(k->db), &b, NULL, &e), 0);
	profile_release(&p);
}

struct seen {
	uint64_t first, second; /* bytes of details of pod-0, by type */
};

static void see(void *arg, const struct tsdb_payload *p)
{
	struct seen *s = arg;
	if (!p->labels || strcmp(p->kind, "detail") != 0)
		return;
	if (view_eqs(labels_get(*p->labels, VIEW("pod")), "pod-0"))
		*(view_eqs(labels_get(*p->labels, VIEW(LABEL_NAME)), KIT_CPU) ? &s->second : &s->first) += p->bytes;
}

static void complain(void *arg, const char *where, const char *what, const char *todo)
{
	(void)arg;
	print_message("%s: %s (%s)\n", where, what, todo);
}

#define ASKED 5
static void ask(struct kit *k, uint64_t ret[ASKED])
{
	ret[0] = kit_merge(k, KIT_CPU, KIT_T0, KIT_T0 + 2 * HOUR, NULL);
	ret[1] = kit_merge(k, KIT_CPU, KIT_T0 + 17 * MINUTE, KIT_T0 + 83 * MINUTE, NULL);
	ret[2] = kit_merge(k, KIT_SAMPLES, KIT_T0 + 17 * MINUTE, KIT_T0 + 83 * MINUTE, NULL);
	ret[3] = kit_merge(k, KIT_CPU, KIT_T0 + 50 * MINUTE, KIT_T0 + 51 * MINUTE, NULL);
	ret[4] = kit_merge(k, KIT_SAMPLES, KIT_T0, KIT_T0 + HOUR, NULL);
}

static void same_answers(struct kit *k, const uint64_t truth[ASKED])
{
	uint64_t now[ASKED];
	struct tsdb_verified v = { 0 };
	ask(k, now);
	for (int i = 0; i < ASKED; i++)
		assert_true(now[i] == truth[i]);
	tsdb_verify(k->db, complain, NULL, &v);
	assert_int_equal(v.problems, 0);
}

static void test_places(void **state)
{
	uint64_t truth[ASKED];
	struct seen seen = { 0 };
	struct kit k;
	struct err e;
	kit_init(&k);
	k.o.no_sealing = true;
	kit_open(&k);
	for (int64_t t = KIT_T0 + MINUTE; t <= KIT_T0 + 2 * HOUR; t += MINUTE)
		for (unsigned pod = 0; pod < 2; pod++)
			append(&k, pod, t + pod, (uint64_t)(t / MINUTE) * 2 + pod, pod == 1);
	tsdb_flush(k.db);
	ask(&k, truth);
	assert_int_equal(tsdb_seal(k.db, true, &e), 0);
	same_answers(&k, truth);
	kit_reopen(&k);
	same_answers(&k, truth);
	tsdb_each_payload(k.db, see, &seen);
	assert_in_range(seen.first, 1500, 2000); /* places */
	assert_in_range(seen.second, 5000, 6000); /* values, four bytes each */
	/* A late one: the hour has two parts, then one again. */
	append(&k, 0, KIT_T0 + 30 * MINUTE + 7, 4711, false);
	k.now_ms = KIT_T0 + 9 * HOUR;
	tsdb_flush(k.db);
	ask(&k, truth);
	assert_int_equal(tsdb_seal(k.db, true, &e), 0);
	same_answers(&k, truth);
	assert_int_equal(tsdb_clean(k.db, &e), 0);
	same_answers(&k, truth);
	kit_free(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_places) };
	return cmocka_run_group_tests_name("tsdb places", tests, NULL, NULL);
}
