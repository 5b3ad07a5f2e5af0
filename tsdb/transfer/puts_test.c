/* SPDX-License-Identifier: Apache-2.0 */
/* How many objects a server puts: four days, step by step, with what the sealer does by itself. In no hour are there more than eight, though
 * retention by selector rewrites a part each hour and names come late; and what was rewritten is in the bucket within two days. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "tsdb/bucket/generation.h"
#include "tsdb/bucketkit.h"
#include "tsdb/log/record.h"
#include "tsdb/testkit.h"
#include "tsdb/transfer/transfer.h"

#define MINUTE INT64_C(60000)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)
#define DAYS 4
#define STACKS 8
#define DAY0 ((unsigned)(KIT_T0 / DAY))
#define PUTS_AN_HOUR 8

struct world {
	struct bucketkit b;
	struct kit k;
	unsigned puts[DAYS * 24 + 1];          /* of each hour */
	unsigned parts[DAYS], generations;     /* objects of each day; generations of all */
	uint64_t seed;
};

static void world_count(void *arg, enum bucketkit_op op, const char *key)
{
	struct world *w = arg;
	struct object_name name;
	if (op != BUCKETKIT_PUT)
		return;
	w->puts[MIN((w->k.now_ms - KIT_T0) / HOUR, (int64_t)DAYS * 24)]++;
	assert_true(object_name_parse(key, &name));
	w->generations += name.kind == 'g';
	if (name.kind == 'd')
		w->parts[name.day - DAY0]++;
}

static void world_start(struct world *w)
{
	*w = (struct world){ .seed = 1 };
	bucketkit_init(&w->b);
	kit_init(&w->k);
	w->k.o.objects = &w->b.objects;
	w->k.o.server_id = "one";
	w->k.o.no_transfer = w->k.o.no_sealing = true;
	w->k.o.retention_ms = -1;
	w->k.now_ms = KIT_T0 + 1;
	kit_open(&w->k);
	w->b.before = world_count;
	w->b.before_arg = w;
}

static void world_rule(struct world *w, int64_t keep_ms)
{
	struct matcher m;
	struct err e;
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW("pod"), VIEW("pod-1"), &e), 0);
	assert_int_equal(tsdb_set_retention(w->k.db, &(struct tsdb_retention){ &m, 1, keep_ms }, 1, &e), 0);
	matcher_release(&m);
}

/* A profile of a binary of its own, with names or without. */
static void world_append_binary(struct world *w, int64_t t_ms, int binary, bool named)
{
	struct profile p;
	struct err e;
	struct sink_result r;
	char id[32];
	kit_profile(&p, (uint64_t)binary, STACKS);
	snprintf(id, sizeof id, "binary-%d", binary);
	p.strings[5] = view_of(id);
	p.mappings[0].build_id_str = 5;
	for (uint32_t i = 0; i < p.n_locations && !named; i++)
		p.locations[i].n_lines = 0;
	struct label l[] = { { VIEW(LABEL_NAME), VIEW(KIT_SAMPLES) }, { VIEW("job"), VIEW("kit") }, { VIEW("pod"), named ? VIEW("named") : VIEW("nameless") } };
	struct sink_column c = { .labels = { l, 3 } };
	assert_true(ptype_parse(VIEW(KIT_SAMPLES), &c.type));
	struct sink_profile sp = { .profile = &p, .columns = &c, .n_columns = 1, .t_ms = t_ms, .interval_ms = 10000 };
	struct sink_batch b = { .profiles = &sp, .n_profiles = 1 };
	assert_int_equal(tsdb_sink(w->k.db)->append(tsdb_sink(w->k.db), &b, &r, &e), 0);
	assert_int_equal(r.profiles, 1);
	profile_release(&p);
}

/* Rows of an hour that is over: two pods, a binary that is not named yet, and (names) the names of one of 20 hours ago. */
static void world_fill(struct world *w, int hour, bool names)
{
	struct sink_result r;
	int64_t start = KIT_T0 + hour * HOUR;
	for (int64_t t = start + 20 * MINUTE; t <= start + HOUR; t += 20 * MINUTE)
		for (unsigned pod = 0; pod < 2; pod++)
			assert_int_equal(kit_append(&w->k, pod, t - pod, w->seed++, STACKS, &r), 0);
	world_append_binary(w, start + 30 * MINUTE, hour, false);
	if (names && hour >= 20 && hour % 3 == 0)
		world_append_binary(w, start + 31 * MINUTE, hour - 20, true);
	tsdb_flush(w->k.db);
}

/* What the sealer and the bucket thread do by themselves. all: hours are over for long enough. */
static void world_turn(struct world *w, bool all)
{
	struct err e;
	assert_int_equal(tsdb_retain(w->k.db, &e), 0);
	assert_int_equal(tsdb_seal(w->k.db, all, &e), 0);
	assert_int_equal(tsdb_clean(w->k.db, &e), 0);
	assert_int_equal(tsdb_resolve_names(w->k.db, &e), 0);
	if (transfer_run(w->k.db, false, &e))
		fail_msg("%s", e.msg);
}

static void world_run(struct world *w, bool names)
{
	static const int minutes[] = { 1, 2, 12, 15, 16, 17, 21, 25, 30, 45, 59 };
	for (int hour = 0; hour < DAYS * 24; hour++) {
		w->k.now_ms = KIT_T0 + (hour + 1) * HOUR;
		world_fill(w, hour, names);
		for (size_t i = 0; i < ARRAY_LEN(minutes) && hour + 1 < DAYS * 24; i++) {
			w->k.now_ms = KIT_T0 + (hour + 1) * HOUR + minutes[i] * MINUTE;
			world_turn(w, minutes[i] == 15);
		}
	}
}

static void world_check_hours(struct world *w)
{
	for (int hour = 2; hour < DAYS * 24; hour++) /* before, it takes an epoch */
		if (w->puts[hour] > PUTS_AN_HOUR)
			fail_msg("%u puts in hour %d of day %d", w->puts[hour], hour % 24, hour / 24);
}

/* A disk that comes back has all rows. */
static void world_check_return(struct world *w, int64_t keep_ms)
{
	struct err e;
	assert_int_equal(tsdb_retain(w->k.db, &e), 0);
	assert_int_equal(tsdb_seal(w->k.db, true, &e), 0);
	size_t rows = kit_count(&w->k, KIT_CPU, 0, INT64_MAX / 2, NULL);
	int64_t now = w->k.now_ms;
	if (transfer_run(w->k.db, true, &e))
		fail_msg("%s", e.msg);
	w->b.before = NULL;
	kit_free(&w->k);
	kit_init(&w->k);
	w->k.o.objects = &w->b.objects;
	w->k.o.server_id = "one";
	w->k.o.no_transfer = w->k.o.no_sealing = true;
	w->k.o.retention_ms = -1;
	w->k.now_ms = now;
	kit_open(&w->k);
	for (int i = 0; i < DAYS; i++)
		if (transfer_run(w->k.db, true, &e))
			fail_msg("%s", e.msg);
	world_rule(w, keep_ms);
	assert_int_equal(kit_count(&w->k, KIT_CPU, 0, INT64_MAX / 2, NULL), rows);
}

static void world_check(int64_t keep_ms, bool names, struct world *w)
{
	world_start(w);
	world_rule(w, keep_ms);
	world_run(w, names);
	world_check_hours(w);
	world_check_return(w, keep_ms);
	kit_free(&w->k);
	bucketkit_free(&w->b);
}

/* A rule passes a day hour by hour. */
static void test_rule(void **state)
{
	(void)state;
	struct world w;
	world_check(26 * HOUR, false, &w);
	for (int day = 0; day < 2; day++) /* as they were, then without what the rule passed: each hour, and rollups */
		if (w.parts[day] < 24 + 24 || w.parts[day] > 24 + 24 + 3 * 5)
			fail_msg("%u objects of day %d were put", w.parts[day], day);
	assert_in_range(w.generations, DAYS * 24 - 2, DAYS * 24 + 2 * DAYS + 2);
	world_check(5 * HOUR, false, &w);
	world_check(48 * HOUR, false, &w);
}

/* Names come for days that are over, too. */
static void test_names(void **state)
{
	(void)state;
	struct world w;
	world_check(26 * HOUR, true, &w);
}

/* What somebody deleted leaves the bucket within minutes, although the bucket has all rows of the day. */
static void test_delete(void **state)
{
	(void)state;
	struct world w;
	struct matcher m;
	struct err e;
	world_start(&w);
	for (int hour = 0; hour < 3; hour++) {
		w.k.now_ms = KIT_T0 + (hour + 1) * HOUR;
		world_fill(&w, hour, false);
	}
	w.k.now_ms += 15 * MINUTE;
	world_turn(&w, true);
	w.k.now_ms += MINUTE;
	world_turn(&w, false);
	assert_int_equal(w.parts[0], 3);
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW("pod"), VIEW("pod-1"), &e), 0);
	assert_int_equal(tsdb_delete(w.k.db, &m, 1, KIT_T0, KIT_T0 + DAY, NULL, &e), 0);
	matcher_release(&m);
	assert_int_equal(tsdb_clean(w.k.db, &e), 0);
	world_turn(&w, false);
	w.k.now_ms += MINUTE;
	world_turn(&w, false);
	assert_int_equal(w.parts[0], 6);
	assert_int_equal(w.generations, 2);
	kit_free(&w.k);
	bucketkit_free(&w.b);
}

/* Of the newest generation. */
static bool world_has_names(struct world *w)
{
	struct generation g = { .min_ms = 1 };
	struct object_name name;
	struct err e;
	bool has = false;
	for (size_t i = 0; i < w->b.v.n; i++) {
		if (!object_name_parse(w->b.v.v[i].key, &name) || name.kind != 'g')
			continue;
		generation_release(&g);
		assert_int_equal(generation_decode(&g, view_make(w->b.v.v[i].bytes, w->b.v.v[i].n), NULL, &e), 0);
	}
	assert_int_equal(g.kind, GENERATION_DAY);
	for (size_t i = 0; i < g.facts.n; i++)
		has |= g.facts.v[i].payload.ptr[0] == FACT_NAMES;
	generation_release(&g);
	return has;
}

/* Names that came with a window go up with its part: a disk that comes back without the window gives the numbers of its locations to others. */
static void test_names_of_window(void **state)
{
	(void)state;
	struct world w;
	struct err e;
	world_start(&w);
	w.k.now_ms = KIT_T0 + HOUR;
	world_append_binary(&w, KIT_T0 + 10 * MINUTE, 1, false);
	tsdb_flush(w.k.db);
	assert_int_equal(tsdb_seal(w.k.db, true, &e), 0);
	world_append_binary(&w, KIT_T0 + 20 * MINUTE, 1, true);
	tsdb_flush(w.k.db);
	assert_int_equal(tsdb_resolve_names(w.k.db, &e), 0);
	assert_int_equal(transfer_run(w.k.db, true, &e), 0);
	assert_false(world_has_names(&w));
	assert_int_equal(tsdb_seal(w.k.db, true, &e), 0);
	assert_int_equal(transfer_run(w.k.db, true, &e), 0);
	assert_true(world_has_names(&w));
	kit_free(&w.k);
	bucketkit_free(&w.b);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_rule), cmocka_unit_test(test_names), cmocka_unit_test(test_names_of_window), cmocka_unit_test(test_delete) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
