/* SPDX-License-Identifier: Apache-2.0 */
/* The budget of all scrapes: what begins, what is passed over, and who. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/testwait.h"
#include "fetch/fetch.h"
#include "scraper/memory.h"

#define KIB ((size_t)1 << 10)
#define MANY 600

struct stage {
	struct scraper s;
	struct endpoint ep[MANY];
	struct work at[MANY];  /* the scrape under way; endpoint NULL: none is */
	int passed[MANY], begun[MANY];
	struct scraper_config config;
	struct flight flight[MANY]; /* work NULL: no request is under way */
};

static const struct eviction eviction = { turn_evict, flight_evict, kept_evict };

static struct stage *stage_new(size_t max)
{
	struct stage *g = NEW(struct stage);
	mutex_init(&g->s.lock, RANK_SCRAPER, "scraper");
	g->s.memory.max = max;
	g->s.evict = &eviction;
	g->config.refs = 1;
	g->s.loop = fetch_loop_new(NULL);
	assert_non_null(g->s.loop);
	pthread_cond_init(&g->s.work_came, NULL);
	pthread_cond_init(&g->s.light_came, NULL);
	pthread_cond_init(&g->s.memory_came, NULL);
	mutex_lock(&g->s.lock);
	for (size_t i = 0; i < MANY; i++) {
		g->ep[i] = (struct endpoint){ .refs = 1000, .scraper = &g->s, .config = &g->config, .interval_ms = MANY * 10 };
		memory_join(&g->ep[i]);
		g->ep[i].base = baseline_new(&g->ep[i].memory);
	}
	mutex_unlock(&g->s.lock);
	return g;
}

static void stage_free(struct stage *g)
{
	assert_int_equal(budget_used(&g->s.memory), 0);
	for (size_t i = 0; i < MANY; i++)
		assert_int_equal(budget_used(&g->ep[i].memory), 0);
	mutex_lock(&g->s.lock);
	for (size_t i = 0; i < MANY; i++) {
		memory_came(&g->ep[i], true);
		baseline_leave(&g->ep[i]);
	}
	assert_int_equal(g->s.coming, 0);
	mutex_unlock(&g->s.lock);
	fetch_loop_free(g->s.loop);
	heap_free(&g->s.claims);
	heap_free(&g->s.light);
	heap_free(&g->s.heavy);
	vec_free(&g->s.holders);
	mutex_destroy(&g->s.lock);
	free(g);
}

static bool begin(struct stage *g, size_t i, int64_t now_ms)
{
	g->at[i] = (struct work){ .endpoint = &g->ep[i] };
	mutex_lock(&g->s.lock);
	bool ok = memory_begin(&g->at[i], now_ms, false) == 0;
	mutex_unlock(&g->s.lock);
	g->begun[i] += ok;
	g->passed[i] += !ok;
	if (!ok) {
		assert_non_null(strstr(g->at[i].err.msg, "--scrape.memory"));
		g->at[i].endpoint = NULL;
	}
	return ok;
}

/* As the loop asks the first time. */
static int begin_or_wait(struct stage *g, size_t i)
{
	g->at[i] = (struct work){ .endpoint = &g->ep[i] };
	mutex_lock(&g->s.lock);
	int r = memory_begin(&g->at[i], 0, true);
	mutex_unlock(&g->s.lock);
	return r;
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
	for (size_t i = 0; i < MANY; i++)
		end(g, i);
	stage_free(g);
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
	while (memory_receive(&g->at[0], chunk, sizeof chunk) == FETCH_TAKEN)
		got += sizeof chunk;
	assert_non_null(strstr(g->at[0].err.msg, "the body was cut off: the memory of all scrapes is used up (--scrape.memory, 64MiB)"));
	assert_int_equal(budget_used(&g->s.memory), 0); /* nothing of it is kept */
	assert_in_range(got, 16 << 20, 48 << 20);
	/* Ten large ones together. */
	for (size_t i = 0; i < 10; i++)
		assert_true(begin(g, i, 0));
	for (int k = 0; k < 200; k++)
		for (size_t i = 0; i < 10; i++)
			if (!g->at[i].err.code && memory_receive(&g->at[i], chunk, sizeof chunk) != FETCH_TAKEN)
				assert_int_equal(g->at[i].err.code, ERR_UNAVAILABLE);
	assert_in_range(budget_used(&g->s.memory), 0, (64 << 20) / 16 * 12);
	/* Whatever they hold, a hundred small ones begin and end. */
	for (size_t i = 10; i < 110; i++) {
		assert_true(begin(g, i, 0));
		assert_int_equal(memory_receive(&g->at[i], chunk, 50000), FETCH_TAKEN);
	}
	for (size_t i = 0; i < 110; i++)
		end(g, i);
	stage_free(g);
}

static void what_is_not_used_goes_back(void **state)
{
	struct stage *g = stage_new(1 << 20);
	assert_true(begin(g, 0, 0));
	assert_true(budget_used(&g->s.memory) >= 4 * KIB);
	assert_int_equal(memory_receive(&g->at[0], "abc", 3), FETCH_TAKEN);
	memory_received(&g->at[0]);
	assert_int_equal(budget_used(&g->s.memory), g->at[0].body.cap);
	end(g, 0);
	stage_free(g);
}

/* ---- heavy ones beside ordinary ones, in sizes of a server of 512 MB ---- */

#define ALL ((size_t)24 << 20)
#define HEAVY ((size_t)2400 << 10)
#define ORDINARY ((size_t)134 << 10)
#define N_HEAVY 10
#define N_ORDINARY 20

/* A body of that size arrives. False: it was cut off, or did not begin. */
static bool receive(struct stage *g, size_t i, size_t bytes)
{
	static char chunk[16 << 10];
	bool ok = begin(g, i, 0);
	for (size_t at = 0; ok && at < bytes; at += sizeof chunk)
		ok = memory_receive(&g->at[i], chunk, sizeof chunk) == FETCH_TAKEN;
	if (ok)
		memory_received(&g->at[i]);
	return ok;
}

/* It waits for a decoder. */
static void wait_for_decoder(struct stage *g, size_t i)
{
	struct work *w = NEW(struct work);
	*w = g->at[i];
	g->at[i].endpoint = NULL;
	mutex_lock(&g->s.lock);
	g->ep[i].refs++;
	work_dispatch(w);
	mutex_unlock(&g->s.lock);
}

/* Of the heavy ones, bodies that wait. */
static size_t heavy_that_wait(struct stage *g)
{
	size_t n = 0;
	for (size_t i = 0; i < N_HEAVY; i++)
		n += g->ep[i].first && work_has_body(g->ep[i].first);
	return n;
}

static void fill_with_heavy(struct stage *g)
{
	for (size_t i = 0; i < N_HEAVY; i++)
		if (receive(g, i, HEAVY))
			wait_for_decoder(g, i);
		else
			end(g, i);
	assert_in_range(heavy_that_wait(g), 6, 8);
}

static void drop_waiting(struct stage *g)
{
	mutex_lock(&g->s.lock);
	g->s.stopped = true;
	for (size_t i = 0; i < MANY; i++)
		for (struct work *w; (w = g->ep[i].first);) {
			heap_remove(g->ep[i].light ? &g->s.light : &g->s.heavy, &g->ep[i].turn_node);
			g->ep[i].first = w->next;
			work_free(w);
		}
	mutex_unlock(&g->s.lock);
}

static void ordinary_ones_find_room(void **state)
{
	struct stage *g = stage_new(ALL);
	fill_with_heavy(g);
	size_t before = heavy_that_wait(g), evicted = 0;
	for (size_t i = N_HEAVY; i < N_HEAVY + N_ORDINARY; i++)
		assert_true(receive(g, i, ORDINARY));
	/* A decoder's arenas, and a baseline. */
	struct scrape_worker wk = { .scraper = &g->s };
	memory_join_decoder(&wk);
	struct arena a;
	arena_init(&a, 0);
	a.budget = &wk.memory;
	mutex_lock(&g->s.lock);
	memory_decode(&wk, &g->ep[N_HEAVY]);
	mutex_unlock(&g->s.lock);
	for (int i = 0; i < 150; i++)
		assert_non_null(arena_alloc(&a, 10000));
	for (size_t i = N_HEAVY; i < N_HEAVY + N_ORDINARY; i++)
		assert_true(budget_take(&g->ep[i].memory, 280 << 10, BUDGET_KEPT));
	for (size_t i = 0; i < N_HEAVY; i++) {
		struct work *w = g->ep[i].first;
		if (w && w->evicted) {
			assert_non_null(strstr(w->err.msg, "more than its share"));
			assert_false(work_has_body(w));
			assert_int_equal(g->ep[i].n_bodies, 0);
			evicted++;
		}
	}
	print_message("of %zu heavy bodies %zu were evicted\n", before, evicted);
	assert_in_range(evicted, 1, before);
	assert_int_equal(heavy_that_wait(g), before - evicted);
	arena_free(&a);
	mutex_lock(&g->s.lock);
	memory_decoded(&g->ep[N_HEAVY]);
	mutex_unlock(&g->s.lock);
	for (size_t i = N_HEAVY; i < N_HEAVY + N_ORDINARY; i++) {
		end(g, i);
		budget_give(&g->ep[i].memory, 280 << 10);
	}
	drop_waiting(g);
	stage_free(g);
}

/* One that was evicted, or cut off, does not evict others of its size when it comes again. */
static void heavy_ones_do_not_evict_each_other(void **state)
{
	struct stage *g = stage_new(ALL);
	fill_with_heavy(g);
	for (size_t i = N_HEAVY; i < N_HEAVY + N_ORDINARY; i++)
		assert_true(receive(g, i, ORDINARY));
	/* Decoders have the rest. */
	size_t rest = ALL - budget_used(&g->s.memory) - (100 << 10);
	assert_true(budget_take(&g->s.memory, rest, BUDGET_ALL));
	assert_in_range(heavy_that_wait(g), 5, 8);
	for (int round = 0; round < 5; round++) {
		size_t before = heavy_that_wait(g);
		for (size_t i = 0; i < N_HEAVY; i++) {
			if (g->ep[i].first && work_has_body(g->ep[i].first))
				continue;
			receive(g, i, HEAVY);
			end(g, i);
		}
		assert_int_equal(heavy_that_wait(g), before);
	}
	for (size_t i = N_HEAVY; i < N_HEAVY + N_ORDINARY; i++)
		end(g, i);
	budget_give(&g->s.memory, rest);
	drop_waiting(g);
	stage_free(g);
}

struct decode {
	struct stage *g;
	struct scrape_worker *wk;
	pthread_t thread;
};

/* A decoder that holds much, and ends when it is told to. */
static void *decode_much(void *arg)
{
	struct decode *d = arg;
	while (!atomic_load(&d->wk->stop))
		clock_sleep_ms(1);
	budget_give(&d->wk->memory, ALL / 16 * 11);
	mutex_lock(&d->g->s.lock);
	memory_decoded(d->wk->endpoint);
	memory_freed(&d->g->s);
	mutex_unlock(&d->g->s.lock);
	return NULL;
}

static void a_heavy_decode_stops(void **state)
{
	struct stage *g = stage_new(ALL);
	struct scrape_worker wk[2] = { { .scraper = &g->s }, { .scraper = &g->s } };
	struct decode d = { .g = g, .wk = &wk[0] };
	struct arena a;
	arena_init(&a, 0);
	a.budget = &wk[1].memory;
	g->s.workers = wk;
	g->s.n_workers = 2;
	mutex_lock(&g->s.lock);
	for (size_t i = 0; i < 2; i++) {
		memory_join_decoder(&wk[i]);
		memory_decode(&wk[i], &g->ep[i]);
	}
	mutex_unlock(&g->s.lock);
	assert_true(budget_take(&wk[0].memory, ALL / 16 * 11, BUDGET_ALL));
	/* Alone it would be refused more, and is not stopped for that. */
	assert_false(budget_take(&wk[0].memory, ALL / 16 * 11, BUDGET_ALL));
	assert_false(atomic_load(&wk[0].stop));
	pthread_create(&d.thread, NULL, decode_much, &d);
	for (int i = 0; i < 300; i++)
		assert_non_null(arena_alloc(&a, 10000));
	mutex_lock(&g->s.lock);
	memory_decoded(&g->ep[1]);
	mutex_unlock(&g->s.lock);
	pthread_join(d.thread, NULL);
	arena_free(&a);
	g->s.n_workers = 0;
	stage_free(g);
}

/* The only decoder of the stage begins to work on endpoint i. */
static void stage_decode(struct stage *g, struct scrape_worker *wk, size_t i)
{
	g->s.workers = wk;
	g->s.n_workers = 1;
	mutex_lock(&g->s.lock);
	memory_join_decoder(wk);
	memory_decode(wk, &g->ep[i]);
	mutex_unlock(&g->s.lock);
}

/* A decoder works on endpoint 0, which holds `kept` bytes; the decoder's arenas hold `arenas` bytes. For endpoint 1, whose last decode took `decode`
 * bytes (0 = not known), a body arrives. When `body` bytes of it have arrived, the test takes the rest of the memory, so that there is no room for
 * the next ones. Returns whether the decoder was stopped for them. */
static bool is_stopped_by(size_t kept, size_t arenas, size_t body, size_t decode)
{
	struct stage *g = stage_new(ALL);
	struct scrape_worker wk = { .scraper = &g->s };
	stage_decode(g, &wk, 0);
	assert_true(budget_take(&g->ep[0].memory, kept, BUDGET_KEPT));
	assert_true(budget_take(&wk.memory, arenas, BUDGET_KEPT));
	g->ep[1].usual_decode = decode;
	assert_true(begin(g, 1, 0));
	static char chunk[64 << 10];
	size_t got = 0, rest = 0;
	bool ok = true;
	for (; ok && got < body + 4 * sizeof chunk; got += sizeof chunk) {
		if (got == body) {
			rest = ALL - budget_used(&g->s.memory);
			assert_true(budget_take(&g->s.memory, rest, BUDGET_ALL));
		}
		enum fetch_data took = memory_receive(&g->at[1], chunk, sizeof chunk);
		for (int i = 0; i < 50 && took == FETCH_LATER && !atomic_load(&wk.stop); i++) {
			clock_sleep_ms(10);
			took = memory_receive(&g->at[1], chunk, sizeof chunk);
		}
		ok = took == FETCH_TAKEN;
	}
	assert_false(ok);
	bool stopped = atomic_load(&wk.stop);
	end(g, 1);
	budget_give(&wk.memory, arenas);
	budget_give(&g->ep[0].memory, kept);
	budget_give(&g->s.memory, rest);
	mutex_lock(&g->s.lock);
	memory_decoded(&g->ep[0]);
	mutex_unlock(&g->s.lock);
	g->s.n_workers = 0;
	stage_free(g);
	return stopped;
}

/* While a decoder is at work, an ordinary body waits for memory, and so does an ordinary scrape that begins. A heavy one does not, and none waits if
 * nobody is at work. */
static void ordinary_ones_wait(void **state)
{
	struct stage *g = stage_new(ALL);
	struct scrape_worker wk = { .scraper = &g->s };
	static char chunk[64 << 10];
	memset(chunk, 'x', sizeof chunk);
	stage_decode(g, &wk, 0);
	assert_true(begin(g, 1, 0));
	assert_true(begin(g, 2, 0));
	g->ep[2].usual = HEAVY;
	assert_int_equal(memory_receive(&g->at[1], "begin", 5), FETCH_TAKEN);
	size_t rest = ALL - budget_used(&g->s.memory), held = g->at[1].held;
	assert_true(budget_take(&g->s.memory, rest, BUDGET_ALL));
	for (int i = 0; i < 3; i++) {
		assert_int_equal(memory_receive(&g->at[1], chunk, sizeof chunk), FETCH_LATER);
		assert_int_equal(g->at[1].err.code, 0);
		assert_int_equal(g->at[1].body.len, 5);
		assert_int_equal(g->at[1].held, held);
	}
	assert_int_equal(memory_receive(&g->at[2], chunk, sizeof chunk), FETCH_END);
	assert_non_null(strstr(g->at[2].err.msg, "the body was cut off"));
	rest += held; /* what the one that was cut off had */
	assert_true(budget_take(&g->s.memory, held, BUDGET_ALL));
	assert_int_equal(begin_or_wait(g, 3), MEMORY_COMES);
	assert_int_equal(begin_or_wait(g, 3), MEMORY_COMES);
	assert_false(atomic_load(&wk.stop));
	/* The time of one that waits is over. */
	mutex_lock(&g->s.lock);
	memory_say_short(&g->at[1]);
	mutex_unlock(&g->s.lock);
	assert_non_null(strstr(g->at[1].err.msg, "the body was cut off, after it had waited"));
	g->at[1].err = (struct err){ 0 };
	budget_give(&g->s.memory, rest);
	assert_int_equal(memory_receive(&g->at[1], chunk, sizeof chunk), FETCH_TAKEN);
	assert_int_equal(g->at[1].body.len, 5 + sizeof chunk);
	assert_memory_equal(g->at[1].body.ptr, "beginxxx", 8);
	mutex_lock(&g->s.lock);
	memory_say_short(&g->at[1]);
	mutex_unlock(&g->s.lock);
	assert_int_equal(g->at[1].err.code, 0);
	assert_int_equal(begin_or_wait(g, 3), 0);
	end(g, 3);
	/* Nobody is at work. */
	mutex_lock(&g->s.lock);
	memory_decoded(&g->ep[0]);
	mutex_unlock(&g->s.lock);
	rest = ALL - budget_used(&g->s.memory);
	assert_true(budget_take(&g->s.memory, rest, BUDGET_ALL));
	assert_int_equal(begin_or_wait(g, 3), -ERR_UNAVAILABLE);
	assert_int_equal(memory_receive(&g->at[1], chunk, sizeof chunk), FETCH_END);
	budget_give(&g->s.memory, rest);
	for (size_t i = 1; i < 4; i++)
		end(g, i);
	g->s.n_workers = 0;
	stage_free(g);
}

/* The buffer of a body that is as large as the one before is not much larger than that. */
static void a_buffer_fits_the_body(void **state)
{
	struct stage *g = stage_new(ALL);
	static char chunk[4000];
	assert_true(begin(g, 0, 0));
	g->ep[0].last_body = ORDINARY;
	for (size_t got = 0; got < ORDINARY; got += sizeof chunk)
		assert_int_equal(memory_receive(&g->at[0], chunk, MIN(sizeof chunk, ORDINARY - got)), FETCH_TAKEN);
	assert_int_equal(g->at[0].body.len, ORDINARY);
	assert_in_range(g->at[0].body.cap, ORDINARY + 1, ORDINARY + ORDINARY / 8);
	assert_int_equal(g->at[0].held, g->at[0].body.cap);
	end(g, 0);
	stage_free(g);
}

/* A heavy body that arrives while an ordinary one is decoded does not stop that decode. */
static void an_ordinary_decode_goes_on(void **state)
{
	size_t quarter = ALL / 4;
	assert_false(is_stopped_by(ORDINARY * 2, quarter - KIB, 1024 * KIB, 0));
	assert_false(is_stopped_by(ORDINARY * 2, quarter - KIB, 64 * KIB, 0));     /* a small body does not stop a small decode either */
	assert_false(is_stopped_by(ORDINARY * 2, quarter * 5 / 4, 2048 * KIB, 0)); /* a decode that is not small, and a body that needs nearly as much */
	assert_true(is_stopped_by(ORDINARY * 2, quarter * 5 / 4, 64 * KIB, 0));
	assert_true(is_stopped_by(HEAVY, quarter - KIB, 64 * KIB, 0));
}

/* A small scrape stops a decode that is not small, also if it needs more than half as much. */
static void an_ordinary_one_need_not_be_half_as_heavy(void **state)
{
	size_t quarter = ALL / 4;
	assert_true(is_stopped_by(HEAVY, quarter, 64 * KIB, quarter - 64 * KIB));
	assert_false(is_stopped_by(HEAVY, quarter, 64 * KIB, quarter + KIB)); /* the scrape of the body is not small either */
	assert_false(is_stopped_by(HEAVY, quarter, 2048 * KIB, quarter - 64 * KIB));
	assert_false(is_stopped_by(ORDINARY, quarter - 64 * KIB, 64 * KIB, quarter - 64 * KIB));
}

/* ---- no more endpoints are evicted than are needed ---- */

/* What a heavy endpoint holds. */
enum holding { BODY_WAITS, BODY_ARRIVES, BASELINE, CACHE };

static void hold(struct stage *g, size_t i, enum holding what, size_t bytes)
{
	struct endpoint *ep = &g->ep[i];
	if (what == BASELINE) {
		assert_true(budget_take(&ep->base->memory, bytes, BUDGET_KEPT));
		ep->base->delta.held += bytes;
	} else if (what == CACHE) {
		assert_true(budget_take(&ep->memory, bytes, BUDGET_KEPT));
	} else {
		assert_true(begin(g, i, 0)); /* not by receive(): it rounds up to a power of two */
		assert_true(budget_take(&ep->memory, bytes - g->at[i].held, BUDGET_LARGE));
		g->at[i].held = bytes;
	}
	if (what == BODY_WAITS)
		wait_for_decoder(g, i);
	if (what != BODY_ARRIVES)
		return;
	struct flight *f = &g->flight[i];
	*f = (struct flight){ .work = &g->at[i], .next = g->s.flights, .at = &g->s.flights };
	if (f->next)
		f->next->at = &f->next;
	g->s.flights = ep->flight = f;
}

static bool was_evicted(struct stage *g, size_t i)
{
	struct endpoint *ep = &g->ep[i];
	return (ep->first && ep->first->evicted) || (ep->flight && ep->flight->work->evicted);
}

static size_t evicted_of(struct stage *g, size_t n)
{
	size_t evicted = 0;
	for (size_t i = 0; i < n; i++)
		evicted += was_evicted(g, i);
	return evicted;
}

/* A decoder works on the failed scrape of each evicted endpoint, and so frees what was kept of it. */
static void decode_evicted(struct stage *g, struct scrape_worker *wk)
{
	struct work *w = turn_begin(wk);
	assert_true(w->evicted);
	assert_non_null(strstr(w->err.msg, "more than its share"));
	budget_give(&w->endpoint->memory, budget_used(&w->endpoint->memory));
	turn_end(w, 0, false);
}

/* The loop ends the requests that were evicted. */
static void end_evicted_flights(struct stage *g)
{
	mutex_lock(&g->s.lock);
	for (struct flight *f; (f = g->s.evicted);) {
		g->s.evicted = f->next;
		f->work->endpoint->flight = NULL;
		memory_drop_body(f->work);
		memory_came(f->work->endpoint, false);
	}
	mutex_unlock(&g->s.lock);
}

static void let_all_go(struct stage *g, size_t n)
{
	end_evicted_flights(g);
	for (size_t i = 0; i < n; i++) {
		end(g, i);
		g->ep[i].flight = NULL;
		mutex_lock(&g->s.lock);
		baseline_forget(&g->ep[i]);
		mutex_unlock(&g->s.lock);
	}
	drop_waiting(g);
	for (size_t i = 0; i < n; i++)
		budget_give(&g->ep[i].memory, budget_used(&g->ep[i].memory));
}

/* n heavy endpoints hold three quarters of the memory; decoders have the rest but `room`. */
static size_t fill_with(struct stage *g, size_t n, enum holding what, size_t room)
{
	for (size_t i = 0; i < n; i++)
		hold(g, i, what, ALL / BUDGET_ALL * BUDGET_LARGE / n);
	size_t rest = ALL - budget_used(&g->s.memory) - room;
	assert_true(budget_take(&g->s.memory, rest, BUDGET_ALL));
	return rest;
}

static void as_many_fail_as_are_needed(void **state)
{
	for (enum holding what = BODY_WAITS; what <= CACHE; what++)
		for (size_t n = 10; n <= 20; n += 5) {
			struct stage *g = stage_new(ALL);
			struct scrape_worker wk = { .scraper = &g->s };
			g->s.workers = &wk;
			g->s.n_workers = 1;
			size_t rest = fill_with(g, n, what, ALL / 8), heavy = budget_used(&g->ep[0].memory), light = N_HEAVY * 2;
			/* Memory that a decoder has yet to free does not help this scrape. But it is enough for all that follow. */
			if (what == CACHE) {
				assert_int_equal(begin_or_wait(g, light), MEMORY_COMES);
				assert_int_equal(g->ep[light].passed, 0);
			}
			for (size_t i = light; what == CACHE && i < light + 5; i++) {
				assert_false(begin(g, i, 0));
				assert_int_equal(evicted_of(g, n), 1);
				assert_int_equal(g->s.coming, heavy);
			}
			if (what == CACHE) {
				decode_evicted(g, &wk);
				assert_int_equal(g->s.coming, 0);
				assert_int_equal(begin_or_wait(g, light), 0);
				end(g, light);
			}
			size_t got = 0, before = evicted_of(g, n), n_light = what == CACHE ? 5 : 10;
			for (size_t i = light; i < light + n_light; i++) {
				assert_true(receive(g, i, ORDINARY));
				got += budget_used(&g->ep[i].memory);
			}
			size_t failed = evicted_of(g, n) - before + (what == CACHE);
			print_message("%zu heavy ones hold %zu each (%d): %zu failed for %zu bytes\n", n, heavy, what, failed, got);
			assert_int_equal(failed, (got + heavy - 1) / heavy);
			for (size_t i = light; i < light + 10; i++)
				end(g, i);
			budget_give(&g->s.memory, rest);
			let_all_go(g, n);
			g->s.n_workers = 0;
			stage_free(g);
		}
}

/* A decoder that asks for memory, in a thread of its own. */
struct asking {
	struct stage *g;
	struct scrape_worker wk;
	size_t bytes;
	pthread_t thread;
	bool got;
};

static void *ask_for_memory(void *arg)
{
	struct asking *a = arg;
	a->got = budget_take(&a->wk.memory, a->bytes, BUDGET_ALL);
	return NULL;
}

/* The decoder of ep[i] asks for memory in a thread of its own. Returns when an eviction for it has left a request for the loop to end. */
static void begin_to_ask(struct asking *a, struct stage *g, size_t i, size_t bytes)
{
	*a = (struct asking){ .g = g, .wk = { .scraper = &g->s }, .bytes = bytes };
	memory_join_decoder(&a->wk);
	mutex_lock(&g->s.lock);
	memory_decode(&a->wk, &g->ep[i]);
	mutex_unlock(&g->s.lock);
	pthread_create(&a->thread, NULL, ask_for_memory, a);
	assert_true(TEST_WAIT(({
		mutex_lock(&g->s.lock);
		bool waits = g->s.evicted && g->s.n_memory_waits;
		mutex_unlock(&g->s.lock);
		waits;
	})));
}

static void end_to_ask(struct asking *a)
{
	end_evicted_flights(a->g);
	pthread_join(a->thread, NULL);
	assert_true(a->got);
	budget_give(&a->wk.memory, a->bytes);
	mutex_lock(&a->g->s.lock);
	memory_decoded(a->wk.endpoint);
	mutex_unlock(&a->g->s.lock);
}

/* The body is the loop's to free: that it takes a moment is no reason to end the next one's request. */
static void a_decoder_waits_for_one_request(void **state)
{
	for (size_t n = 10; n <= 20; n += 5) {
		struct stage *g = stage_new(ALL);
		struct asking a;
		size_t rest = fill_with(g, n, BODY_ARRIVES, 0);
		/* Up to the line BUDGET_KEPT there is room for 32 KiB: a decoder that asks for more has to wait for an eviction. */
		budget_give(&g->s.memory, ALL / 16 * 3 + 32 * KIB);
		begin_to_ask(&a, g, n, 64 * KIB);
		assert_int_equal(evicted_of(g, n), 1);
		assert_int_equal(g->s.coming, budget_used(&g->ep[0].memory));
		end_to_ask(&a);
		budget_give(&g->s.memory, rest - ALL / 16 * 3 - 32 * KIB);
		let_all_go(g, n);
		stage_free(g);
	}
}

/* A heavy decode takes bodies that arrive. Those of endpoints that hold much else are too small to be of use. */
static void the_body_counts_that_frees_most(void **state)
{
	struct stage *g = stage_new(ALL);
	struct asking a;
	size_t n = 9;
	for (size_t i = 0; i < n; i++) {
		hold(g, i, BASELINE, i == 7 ? 64 * KIB : 1800 * KIB);
		hold(g, i, BODY_ARRIVES, i == 7 ? 1600 * KIB : 16 * KIB);
	}
	size_t rest = ALL / 16 * 12 - budget_used(&g->s.memory) - 16 * KIB;
	assert_true(budget_take(&g->s.memory, rest, BUDGET_ALL));
	g->ep[n].usual = ALL / 2; /* it does not take anybody's share */
	begin_to_ask(&a, g, n, 512 * KIB);
	assert_true(was_evicted(g, 7));
	assert_int_equal(evicted_of(g, n), 1);
	end_to_ask(&a);
	assert_in_range(budget_used(&g->ep[7].memory), 1, 64 * KIB); /* its baseline is kept */
	budget_give(&g->s.memory, rest);
	let_all_go(g, n);
	stage_free(g);
}

/* An endpoint left while its request was under way: its body is dropped first, and goes on being its own account. */
static void one_that_left_gives_way(void **state)
{
	struct stage *g = stage_new(ALL);
	size_t n = 10, rest = fill_with(g, n, BODY_ARRIVES, ALL / 8);
	mutex_lock(&g->s.lock);
	for (size_t i = 0; i < n; i++) {
		g->ep[i].gone = true;
		flight_left(&g->ep[i]);
	}
	mutex_unlock(&g->s.lock);
	assert_true(receive(g, n, ORDINARY));
	assert_int_equal(evicted_of(g, n), 1);
	end(g, n);
	budget_give(&g->s.memory, rest);
	let_all_go(g, n);
	stage_free(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(turns_go_round),
		cmocka_unit_test(the_large_leave_room),
		cmocka_unit_test(what_is_not_used_goes_back),
		cmocka_unit_test(ordinary_ones_find_room),
		cmocka_unit_test(heavy_ones_do_not_evict_each_other),
		cmocka_unit_test(a_heavy_decode_stops),
		cmocka_unit_test(ordinary_ones_wait), cmocka_unit_test(a_buffer_fits_the_body), cmocka_unit_test(an_ordinary_decode_goes_on),
		cmocka_unit_test(an_ordinary_one_need_not_be_half_as_heavy),
		cmocka_unit_test(as_many_fail_as_are_needed),
		cmocka_unit_test(a_decoder_waits_for_one_request),
		cmocka_unit_test(the_body_counts_that_frees_most),
		cmocka_unit_test(one_that_left_gives_way),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
