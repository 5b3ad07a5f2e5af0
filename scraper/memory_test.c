/* SPDX-License-Identifier: Apache-2.0 */
/* The budget of all scrapes: what begins, what is passed over, and who. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "scraper/internal.h"

#define KIB ((size_t)1 << 10)
#define MANY 600

struct stage {
	struct scraper s;
	struct endpoint ep[MANY];
	struct work at[MANY];  /* the scrape under way; endpoint NULL: none is */
	int passed[MANY], begun[MANY];
};

static struct stage *stage_new(size_t max)
{
	struct stage *g = NEW(struct stage);
	mutex_init(&g->s.lock, RANK_SCRAPER, "scraper");
	g->s.memory.max = max;
	for (size_t i = 0; i < MANY; i++)
		g->ep[i] = (struct endpoint){ .scraper = &g->s, .interval_ms = MANY * 10 };
	return g;
}

static bool begin(struct stage *g, size_t i, int64_t now_ms)
{
	g->at[i] = (struct work){ .endpoint = &g->ep[i] };
	mutex_lock(&g->s.lock);
	bool ok = memory_begin(&g->at[i], now_ms) == 0;
	mutex_unlock(&g->s.lock);
	g->begun[i] += ok;
	g->passed[i] += !ok;
	if (!ok) {
		assert_non_null(strstr(g->at[i].err.msg, "--scrape.memory"));
		g->at[i].endpoint = NULL;
	}
	return ok;
}

static void end(struct stage *g, size_t i)
{
	if (g->at[i].endpoint)
		memory_drop_body(&g->at[i]);
	g->at[i].endpoint = NULL;
}

static int spread(const int *v)
{
	int least = v[0], most = v[0];
	for (size_t i = 1; i < MANY; i++) {
		least = MIN(least, v[i]);
		most = MAX(most, v[i]);
	}
	return most - least;
}

/* Each is due once a round, at its own time, and hangs for nearly all of the interval. There is room for `part` of them. */
static void nobody_is_passed_over_twice(double part, int rounds)
{
	struct stage *g = stage_new((size_t)(MANY * part * 16 * KIB * 16 / 14));
	int most_in_a_row[MANY] = { 0 }, in_a_row[MANY] = { 0 }, worst = 0;
	for (int r = 0; r < rounds; r++) {
		for (size_t i = 0; i < MANY; i++) {
			size_t ends = (i + MANY - MANY * 9 / 10) % MANY;
			end(g, ends);
			end(g, i);
			if (begin(g, i, (r * MANY + (int64_t)i) * 10))
				in_a_row[i] = 0;
			else if (++in_a_row[i] > most_in_a_row[i])
				most_in_a_row[i] = in_a_row[i];
			assert_true(budget_used(&g->s.memory) <= g->s.memory.max / 16 * 14);
		}
		worst = MAX(worst, spread(g->passed));
	}
	size_t begun = 0;
	int longest = 0;
	for (size_t i = 0; i < MANY; i++) {
		begun += (size_t)g->begun[i];
		longest = MAX(longest, most_in_a_row[i]);
	}
	print_message("room for %.0f %%: %.0f %% began; %d slots in a row passed over, at most %d more than another\n", 100 * part,
		      100.0 * (double)begun / (MANY * rounds), longest, worst);
	assert_true((double)begun >= 0.85 * part * MANY * rounds);
	assert_in_range(longest, 1, (int)(1 / part) + 1);
	assert_in_range(worst, 0, 3);
	heap_free(&g->s.claims);
	free(g);
}

static void turns_go_round(void **state)
{
	nobody_is_passed_over_twice(0.5, 40);
	nobody_is_passed_over_twice(0.8, 40);
	nobody_is_passed_over_twice(0.3, 40);
	nobody_is_passed_over_twice(0.1, 60);
}

/* Large bodies leave room for those that are small and for scrapes that begin. */
static void the_large_leave_room(void **state)
{
	struct stage *g = stage_new(64 << 20);
	static char chunk[64 << 10];
	size_t got = 0;
	assert_true(begin(g, 0, 0));
	while (memory_receive(&g->at[0], chunk, sizeof chunk))
		got += sizeof chunk;
	assert_non_null(strstr(g->at[0].err.msg, "the body was cut off: the memory of all scrapes is used up (--scrape.memory, 64MiB)"));
	assert_int_equal(budget_used(&g->s.memory), 0); /* nothing of it is kept */
	assert_in_range(got, 16 << 20, 48 << 20);
	/* Ten large ones together. */
	for (size_t i = 0; i < 10; i++)
		assert_true(begin(g, i, 0));
	for (int k = 0; k < 200; k++)
		for (size_t i = 0; i < 10; i++)
			if (!g->at[i].err.code && !memory_receive(&g->at[i], chunk, sizeof chunk))
				assert_int_equal(g->at[i].err.code, ERR_UNAVAILABLE);
	assert_in_range(budget_used(&g->s.memory), 0, (64 << 20) / 16 * 12);
	/* Whatever they hold, a hundred small ones begin and end. */
	for (size_t i = 10; i < 110; i++) {
		assert_true(begin(g, i, 0));
		assert_true(memory_receive(&g->at[i], chunk, 50000));
	}
	for (size_t i = 0; i < 110; i++)
		end(g, i);
	assert_int_equal(budget_used(&g->s.memory), 0);
	heap_free(&g->s.claims);
	free(g);
}

static void what_is_not_used_goes_back(void **state)
{
	struct stage *g = stage_new(1 << 20);
	assert_true(begin(g, 0, 0));
	assert_true(budget_used(&g->s.memory) >= 4 * KIB);
	assert_true(memory_receive(&g->at[0], "abc", 3));
	memory_received(&g->at[0]);
	assert_int_equal(budget_used(&g->s.memory), g->at[0].body.cap);
	end(g, 0);
	assert_int_equal(budget_used(&g->s.memory), 0);
	heap_free(&g->s.claims);
	free(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(turns_go_round),
		cmocka_unit_test(the_large_leave_room),
		cmocka_unit_test(what_is_not_used_goes_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
