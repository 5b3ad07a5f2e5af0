/* SPDX-License-Identifier: Apache-2.0 */
/* Which endpoint comes next, what waits, and what is dropped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/lock.h"
#include "scraper/memory.h"

#define MS INT64_C(1000000)

struct stage {
	struct scraper s;
	struct endpoint ep[4];
	struct scrape_worker normal, spare;
};

static int setup(void **state)
{
	struct stage *g = NEW(struct stage);
	mutex_init(&g->s.lock, RANK_SCRAPER, "scraper");
	pthread_cond_init(&g->s.work_came, NULL);
	pthread_cond_init(&g->s.light_came, NULL);
	for (size_t i = 0; i < ARRAY_LEN(g->ep); i++)
		g->ep[i] = (struct endpoint){ .refs = 1000, .scraper = &g->s };
	mutex_lock(&g->s.lock);
	for (size_t i = 0; i < ARRAY_LEN(g->ep); i++)
		memory_join(&g->ep[i]);
	mutex_unlock(&g->s.lock);
	g->normal = (struct scrape_worker){ .scraper = &g->s };
	g->spare = (struct scrape_worker){ .scraper = &g->s, .spare = true };
	*state = g;
	return 0;
}

static int teardown(void **state)
{
	struct stage *g = *state;
	assert_int_equal(g->s.n_waiting, 0);
	assert_int_equal(g->s.waiting_bytes, 0);
	assert_int_equal(budget_used(&g->s.memory), 0);
	for (size_t i = 0; i < ARRAY_LEN(g->ep); i++) {
		assert_int_equal(g->ep[i].refs, 1000);
		assert_int_equal(g->ep[i].n_bodies, 0);
		free(g->ep[i].last_error);
	}
	heap_free(&g->s.light);
	heap_free(&g->s.heavy);
	vec_free(&g->s.holders);
	pthread_cond_destroy(&g->s.work_came);
	pthread_cond_destroy(&g->s.light_came);
	mutex_destroy(&g->s.lock);
	free(g);
	return 0;
}

static void dispatch(struct endpoint *ep, enum work_kind kind, const char *body)
{
	struct work *w = NEW(struct work);
	w->kind = kind;
	w->endpoint = ep;
	ep->refs++;
	if (body)
		assert_int_equal(memory_receive(w, body, strlen(body)), FETCH_TAKEN);
	else
		w->err.code = ERR_UNAVAILABLE;
	mutex_lock(&ep->scraper->lock);
	w->end_ms = (int64_t)ep->n_works;
	work_dispatch(w);
	mutex_unlock(&ep->scraper->lock);
}

/* What a decoder gets, worked on for so long; -1: nothing is there for it. */
static int64_t work_on(struct stage *g, struct scrape_worker *wk, int64_t cpu_ms)
{
	g->s.stopped = true; /* so that it does not wait */
	struct work *w = turn_begin(wk);
	g->s.stopped = false;
	if (!w)
		return -1;
	int64_t i = w->endpoint - g->ep;
	turn_end(w, cpu_ms * MS, false);
	return i;
}

static void least_cpu_first(void **state)
{
	struct stage *g = *state;
	const int64_t cpu_ms[] = { 15, 5, 10 };
	for (size_t i = 0; i < 3; i++) {
		dispatch(&g->ep[i], WORK_SCRAPE, "x");
		assert_int_equal(work_on(g, &g->normal, cpu_ms[i]), i);
	}
	for (size_t i = 0; i < 4; i++)
		dispatch(&g->ep[i], WORK_SCRAPE, "x");
	assert_int_equal(work_on(g, &g->normal, 1), 3); /* never had any */
	assert_int_equal(work_on(g, &g->normal, 1), 1);
	assert_int_equal(work_on(g, &g->normal, 1), 2);
	assert_int_equal(work_on(g, &g->normal, 1), 0);
	/* What was used fades: a minute later 1 ms now is more than 15 ms then. */
	for (size_t i = 0; i < 4; i++)
		g->ep[i].cpu_at_ms -= 60000;
	dispatch(&g->ep[1], WORK_SCRAPE, "x");
	assert_int_equal(work_on(g, &g->normal, 1), 1);
	dispatch(&g->ep[1], WORK_SCRAPE, "x");
	dispatch(&g->ep[0], WORK_SCRAPE, "x");
	assert_int_equal(work_on(g, &g->normal, 1), 0);
	assert_int_equal(work_on(g, &g->normal, 1), 1);
}

static void one_decoder_is_for_light_ones(void **state)
{
	struct stage *g = *state;
	dispatch(&g->ep[0], WORK_SCRAPE, "x");
	assert_int_equal(work_on(g, &g->spare, 900), 0); /* not known yet */
	dispatch(&g->ep[0], WORK_SCRAPE, "x");
	assert_int_equal(work_on(g, &g->spare, 1), -1);
	dispatch(&g->ep[1], WORK_SCRAPE, "x");
	assert_int_equal(work_on(g, &g->spare, 1), 1);
	assert_int_equal(work_on(g, &g->normal, 1), 0);
	/* It is heavy for a while after it was light again, not for ever. */
	for (int i = 0; i < 4; i++) {
		dispatch(&g->ep[0], WORK_SCRAPE, "x");
		assert_int_equal(work_on(g, &g->spare, 1), -1);
		assert_int_equal(work_on(g, &g->normal, 1), 0);
	}
	for (int i = 0; i < 4; i++) {
		dispatch(&g->ep[0], WORK_SCRAPE, "x");
		assert_int_equal(work_on(g, &g->normal, 1), 0);
	}
	dispatch(&g->ep[0], WORK_SCRAPE, "x");
	assert_int_equal(work_on(g, &g->spare, 1), 0);
	/* What needs no decoding is light, and first. */
	g->ep[2].decode_ns = 900 * MS;
	dispatch(&g->ep[1], WORK_SCRAPE, "x");
	dispatch(&g->ep[2], WORK_SCRAPE, NULL);
	assert_int_equal(work_on(g, &g->spare, 0), 2);
	assert_int_equal(work_on(g, &g->spare, 1), 1);
}

static void what_overran_is_put_back(void **state)
{
	struct stage *g = *state;
	dispatch(&g->ep[0], WORK_SCRAPE, "first");
	dispatch(&g->ep[0], WORK_SCRAPE, "second");
	struct work *w = turn_begin(&g->spare);
	assert_string_equal(w->body.ptr, "first");
	turn_end(w, 5 * MS, true); /* however little that was: it is heavy now */
	assert_int_equal(work_on(g, &g->spare, 1), -1);
	w = turn_begin(&g->normal);
	assert_string_equal(w->body.ptr, "first");
	assert_false(g->normal.light);
	turn_end(w, 5 * MS, false);
	assert_int_equal(work_on(g, &g->normal, 1), 0);
	assert_int_equal(work_on(g, &g->normal, 1), -1);
}

static void one_body_waits_and_failures_are_told(void **state)
{
	struct stage *g = *state;
	struct endpoint *ep = &g->ep[0];
	dispatch(ep, WORK_SCRAPE, "one");
	struct work *w = turn_begin(&g->normal);
	dispatch(ep, WORK_SCRAPE, "two");
	dispatch(ep, WORK_SCRAPE, "three");
	assert_int_equal(ep->n_works, 2);
	assert_non_null(strstr(ep->last_error, "dropped here"));
	turn_end(w, 1, false);
	w = turn_begin(&g->normal);
	assert_string_equal(w->body.ptr, "two");
	turn_end(w, 1, false);
	w = turn_begin(&g->normal); /* the third is there without its body, and says why */
	assert_int_equal(w->kind, WORK_SCRAPE);
	assert_int_equal(w->body.len, 0);
	assert_int_equal(w->err.code, ERR_UNAVAILABLE);
	/* Of many failures the last ones are one; the end is never left out. */
	for (int i = 0; i < 3000; i++)
		dispatch(ep, WORK_SCRAPE, NULL);
	dispatch(ep, WORK_GONE, NULL);
	assert_int_equal(ep->n_works, 5);
	assert_int_equal(ep->last->kind, WORK_GONE);
	turn_end(w, 1, false);
	for (int i = 0; i < 5; i++)
		assert_int_equal(work_on(g, &g->normal, 0), 0);
	assert_int_equal(work_on(g, &g->normal, 0), -1);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(least_cpu_first),
		TEST(one_decoder_is_for_light_ones),
		TEST(what_overran_is_put_back),
		TEST(one_body_waits_and_failures_are_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
