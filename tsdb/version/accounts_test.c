/* SPDX-License-Identifier: Apache-2.0 */
/* What a target may add to a day's dictionary. Within its limits a profile is taken in as ever; what is beyond becomes
 * "(other)", no value is lost, and other targets have their names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "tsdb/testkit.h"
#include "tsdb/version/db.h"

#define HOUR INT64_C(3600000)
#define N 300

static struct symbols_room room_of(size_t n)
{
	return (struct symbols_room){ n, n, n, n };
}

/* A third of the samples has a label. */
static void some_labels(struct profile *p)
{
	p->n_labels = p->n_samples;
	p->labels = arena_calloc(&p->arena, p->n_labels, sizeof *p->labels);
	for (uint32_t i = 0; i < p->n_samples; i++) {
		p->labels[i] = (struct profile_label){ .key_str = 3, .is_num = i % 2, .num = i, .str = 4 };
		p->samples[i].first_label = i;
		p->samples[i].n_labels = i % 3 == 0;
	}
}

/* With room for all of it, it is what the ordinary way makes of it: either finds all that the other one added. */
static void test_same(void **state)
{
	struct err e;
	uint32_t a[N], b[N], other;
	(void)state;
	for (int fit_first = 0; fit_first < 2; fit_first++) {
		struct symbols *s = symbols_new();
		for (uint64_t seed = 0; seed < 20; seed++) {
			struct profile p;
			struct symbols_room room = room_of(1 << 20), before;
			kit_profile(&p, seed, N);
			some_labels(&p);
			if (fit_first)
				assert_int_equal(symbols_fit_profile(s, &p, &room, a, &other, NULL, &e), 0);
			else
				assert_int_equal(symbols_add_profile(s, &p, a, NULL, &e), 0);
			before = symbols_used(s);
			if (fit_first)
				assert_int_equal(symbols_add_profile(s, &p, b, NULL, &e), 0);
			else
				assert_int_equal(symbols_fit_profile(s, &p, &room, b, &other, NULL, &e), 0);
			assert_memory_equal(a, b, sizeof a);
			struct symbols_room after = symbols_used(s);
			assert_true(after.functions == before.functions && after.locations == before.locations &&
				    after.stacks == before.stacks);
			assert_int_equal(other, 0);
			profile_release(&p);
		}
		symbols_unref(s);
	}
}

/* However little room there is, never more is added, and what is known stays itself. */
static void test_little_room(void **state)
{
	struct err e;
	uint32_t a[N], b[N], other;
	(void)state;
	for (unsigned which = 0; which < 4; which++)
		for (size_t n = 0; n < 4000; n += 97) {
			struct symbols *s = symbols_new();
			struct profile p, q;
			kit_profile(&p, 1, N);
			kit_profile(&q, 2, N);
			some_labels(&q);
			assert_int_equal(symbols_add_profile(s, &p, a, NULL, &e), 0);
			struct symbols_room before = symbols_used(s), room = room_of(1 << 20);
			*(size_t *[]){ &room.functions, &room.locations, &room.stacks, &room.bytes }[which] = n;
			struct symbols_room had = room;
			assert_int_equal(symbols_fit_profile(s, &q, &room, b, &other, NULL, &e), 0);
			struct symbols_room after = symbols_used(s);
			assert_true(after.functions - before.functions <= had.functions + 1 &&
				    after.locations - before.locations <= had.locations + 2 &&
				    after.stacks - before.stacks <= had.stacks + 1 && after.bytes - before.bytes <= had.bytes + 16384); /* known stacks keep their row now */
			room = room_of(0);
			assert_int_equal(symbols_fit_profile(s, &p, &room, b, &other, NULL, &e), 0);
			assert_int_equal(other, 0);
			assert_memory_equal(a, b, sizeof a);
			profile_release(&p);
			profile_release(&q);
			symbols_unref(s);
		}
}

static void put(struct kit *k, const char *job, int64_t t_ms, uint64_t seed, struct sink_result *ret)
{
	k->job = job;
	assert_int_equal(kit_append(k, 0, t_ms, seed, N, ret), 0);
}

static void limits(const struct tsdb_options *o, uint32_t most)
{
	struct kit k;
	struct sink_result r = { 0 };
	int64_t want = 0, got = 0;
	size_t others = 0;
	kit_init(&k);
	kit_open(&k);
	put(&k, "first", KIT_T0 + 1000, 0, &r);
	struct tsdb_options defaults = k.db->o;
	k.db->o.max_target_functions = o->max_target_functions;
	k.db->o.max_target_locations = o->max_target_locations;
	k.db->o.max_target_stacks = o->max_target_stacks;
	for (uint64_t seed = 1; seed < 30; seed++) {
		put(&k, "bad", KIT_T0 + (int64_t)seed * 1000, seed, &r);
		others += r.over_names;
		want += kit_profile_total(seed, N);
	}
	assert_true(others > 0);
	tsdb_flush(k.db);
	assert_int_equal(kit_count(&k, KIT_SAMPLES, KIT_T0 + 1000, INT64_MAX, &got), 28);
	assert_int_equal(kit_count(&k, KIT_SAMPLES, 0, INT64_MAX, &got), 30);
	assert_true(got == want + kit_profile_total(0, N));
	struct partition *p = tsdb_partition(k.db, day_of(KIT_T0 + 1000));
	assert_true(symbols_count(p->symbols, SYMBOLS_COLUMNS) <= N + most + 2);
	uint32_t id;
	assert_true(symbols_find_string(p->symbols, VIEW("(other)"), &id));
	partition_unref(p);
	/* Another target has its names. */
	k.db->o.max_target_stacks = defaults.max_target_stacks;
	put(&k, "good", KIT_T0 + HOUR / 2, 77, &r);
	assert_int_equal(r.over_names, 0);
	tsdb_flush(k.db);
	assert_true(kit_merge(&k, KIT_SAMPLES, KIT_T0 + HOUR / 2 - 1, KIT_T0 + HOUR / 2, NULL) == kit_profile_sum(77, N, false));
	kit_reopen(&k);
	assert_int_equal(kit_count(&k, KIT_SAMPLES, 0, KIT_T0 + HOUR / 4, &got), 30);
	assert_true(got == want + kit_profile_total(0, N));
	kit_free(&k);
}

static void test_limits(void **state)
{
	(void)state;
	limits(&(struct tsdb_options){ .max_target_functions = 1000, .max_target_locations = 1000, .max_target_stacks = 100 }, 100);
	limits(&(struct tsdb_options){ .max_target_functions = 1000, .max_target_locations = 1000, .max_target_stacks = 1 }, 1);
}

/* Above half of the budget who added little still adds, also above all of it; the others do not. */
static void test_budget(void **state)
{
	struct accounts a = { .v = { 0 } };
	struct label l[3][1];
	struct tsdb_options o = { .dictionary_bytes = 32 << 20, .max_target_functions = 100, .max_target_locations = 100,
				  .max_target_stacks = 100 };
	struct symbols *s = symbols_new();
	(void)state;
	for (int i = 0; i < 3; i++) {
		l[i][0] = (struct label){ VIEW("instance"), view_of(i == 0 ? "a" : i == 1 ? "b" : "c") };
		accounts_get(&a, accounts_target((struct labels){ l[i], 1 }));
	}
	assert_int_equal(a.v.n, 3);
	struct account *x = accounts_get(&a, accounts_target((struct labels){ l[0], 1 })), *y = accounts_get(&a, accounts_target((struct labels){ l[1], 1 }));
	assert_true(x != y && a.v.n == 3);
	assert_true(accounts_room(&a, x, s, &o).bytes == 8 << 20 && accounts_room(&a, x, s, &o).functions == 100);
	x->used.bytes = 6 << 20;
	x->used.functions = 101;
	assert_true(accounts_room(&a, x, s, &o).bytes == 2 << 20 && accounts_room(&a, x, s, &o).functions == 0);
	char text[65536] = "";
	for (int i = 0; symbols_bytes(s) < 16 << 20; i++) {
		memcpy(text, &i, sizeof i);
		symbols_string(s, view_make(text, sizeof text));
	}
	assert_true(accounts_room(&a, x, s, &o).bytes == 0 && accounts_room(&a, y, s, &o).bytes == (32u << 20) / 2 / 3);
	for (int i = 0; symbols_bytes(s) < 32 << 20; i++) {
		memcpy(text + 8, &i, sizeof i);
		symbols_string(s, view_make(text, sizeof text));
	}
	assert_true(accounts_room(&a, x, s, &o).bytes == 0 && accounts_room(&a, y, s, &o).bytes == (32u << 20) / 2 / 3);
	accounts_release(&a);
	symbols_unref(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same), cmocka_unit_test(test_little_room), cmocka_unit_test(test_limits),
		cmocka_unit_test(test_budget),
	};
	return cmocka_run_group_tests_name("accounts", tests, NULL, NULL);
}
