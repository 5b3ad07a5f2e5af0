/* SPDX-License-Identifier: Apache-2.0 */
/* What a heavy target's series show after what was kept of it was evicted, and those of an ordinary one beside it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/num.h"
#include "base/testwait.h"
#include "scraper/internal.h"
#include "scraper/scraper.h"
#include "scraper/state/table.h"
#include "scraper/testkit.h"

#define ALL ((size_t)24 << 20)
#define HEAVY ((size_t)14 << 20) /* bytes of a baseline; beside it there is no fair share for an ordinary target */
#define GROWTH 500               /* bytes that each target allocates from scrape to scrape */
#define BEFORE 1000000           /* that it had allocated before the first one */
#define METRIC_LINES "c_total 7\n"

struct evict_world {
	atomic_int heavy, light, metrics; /* requests */
};

static void give(int fd, const char *request, void *arg)
{
	struct evict_world *x = arg;
	struct buf b = { 0 };
	if (strstr(request, "/metrics")) {
		x->metrics++;
		stub_answer(fd, 200, "Content-Type: text/plain\r\n", METRIC_LINES, sizeof METRIC_LINES - 1);
		return;
	}
	int64_t n = strstr(request, "/heavy") ? ++x->heavy : ++x->light;
	int64_t v[] = { BEFORE + GROWTH * n, BEFORE };
	make_profile(&b, "alloc_space/bytes", "space/bytes", v, 2, clock_now_ns(), 0);
	stub_answer(fd, 200, "", b.ptr, b.len);
	buf_free(&b);
}

struct evict_stage {
	struct evict_world world;
	struct scraper_bench bench;
};

static int setup(void **state)
{
	struct evict_stage *g = NEW(struct evict_stage);
	scraper_bench_init(&g->bench, give, &g->world, &(struct scraper_options){ .decoders = 2, .memory_bytes = ALL });
	*state = g;
	return 0;
}

static int teardown(void **state)
{
	struct evict_stage *g = *state;
	scraper_bench_release(&g->bench);
	free(g);
	return 0;
}

static struct endpoint *endpoint_of(struct scraper *s, const char *path)
{
	mutex_assert_held(&s->lock);
	for (size_t i = 0; i < s->holders.n; i++)
		if (strstr(s->holders.v[i]->url, path))
			return s->holders.v[i];
	return NULL;
}

/* What is kept of the endpoint is as much as of a heavy one, and others hold the rest. It is not scraped until end_heavy. False: a scrape of
 * it is under way. */
static bool make_heavy(struct scraper *s, const char *path, size_t *ret_rest)
{
	mutex_lock(&s->lock);
	struct endpoint *ep = endpoint_of(s, path);
	bool idle = ep && ep->turn == TURN_NONE && !ep->flight;
	if (idle) {
		struct budget *kept = ep->is_metrics ? &ep->memory : &ep->base->memory;
		*(ep->is_metrics ? &ep->metrics.held : &ep->base->delta.held) += HEAVY;
		for (struct budget *b = kept; b; b = b->parent)
			budget_adopt(b, HEAVY);
		*ret_rest = ALL / 16 * 15 - MIN(budget_used(&s->memory), ALL / 16 * 15);
		budget_adopt(&s->memory, *ret_rest);
		heap_put(&s->due, &ep->due, clock_mono_ms() + 3600000);
	}
	mutex_unlock(&s->lock);
	return idle;
}

/* Whether it has been evicted, and has nothing left to do for that. */
static bool end_heavy(struct scraper *s, const char *path, size_t rest)
{
	mutex_lock(&s->lock);
	struct endpoint *ep = endpoint_of(s, path);
	bool done = budget_used(&ep->memory) < HEAVY && ep->turn == TURN_NONE;
	if (done) {
		budget_give(&s->memory, rest);
		heap_put(&s->due, &ep->due, clock_mono_ms());
	}
	mutex_unlock(&s->lock);
	return done;
}

/* Samples of that name and value of the target of a job. */
static size_t count_of(struct evict_stage *g, const char *name, const char *job, double v)
{
	struct fake_sink *s = &g->bench.sink;
	size_t n = 0;
	mutex_lock(&s->lock);
	for (size_t i = 0; i < s->v.n; i++)
		n += s->v.v[i].is_float && !s->v.v[i].stale && s->v.v[i].v == v && strncmp(s->v.v[i].series, name, strlen(name)) == 0 &&
		     strstr(s->v.v[i].series, job);
	mutex_unlock(&s->lock);
	return n;
}

static void evict(struct evict_stage *g, const char *path, const char *up)
{
	struct scraper *s = g->bench.scraper;
	size_t rest;
	double evicted = metric_get(&scraper_table[M_EVICTED]);
	assert_int_equal(count_of(g, up, "job=\"heavy\"", 0), 0);
	assert_true(TEST_WAIT(make_heavy(s, path, &rest)));
	assert_true(TEST_WAIT(end_heavy(s, path, rest)));
	assert_true(metric_get(&scraper_table[M_EVICTED]) == evicted + 1);
	assert_int_equal(count_of(g, up, "job=\"heavy\"", 0), 1);
}

/* The increases of a series, each over the time that it says, none of them twice. Returns the number of gaps between them. */
static size_t check_increases(struct evict_stage *g, const char *series, int64_t *ret_sum)
{
	struct fake_sink *s = &g->bench.sink;
	size_t gaps = 0, n = 0;
	int64_t last = 0, sum = 0;
	mutex_lock(&s->lock);
	for (size_t i = 0; i < s->v.n; i++) {
		const struct kept *k = &s->v.v[i];
		if (k->is_float || k->stale || !strstr(k->series, series))
			continue;
		int64_t begin = k->t_ms - k->cover_ms;
		assert_true(k->total > 0 && k->total % GROWTH == 0);
		assert_true(k->cover_ms > 0 && begin >= last);
		gaps += n && begin > last;
		last = k->t_ms;
		sum += k->total;
		n++;
	}
	mutex_unlock(&s->lock);
	*ret_sum = sum;
	return gaps;
}

#define ONE "memory: {enabled: false}, block: {enabled: false}, goroutine: {enabled: false}, mutex: {enabled: false}, process_cpu: {enabled: false}, "

static void no_increase_is_wrong_after_an_eviction(void **state)
{
	struct evict_stage *g = *state;
	struct fake_sink *k = &g->bench.sink;
	int64_t sum;
	scraper_bench_apply(&g->bench, "scrape_configs:\n"
		 "- job_name: heavy\n  scrape_interval: 1s\n"
		 "  profiling_config: {pprof_config: {" ONE "heap: {path: /heavy}}}\n"
		 "  static_configs: [{targets: ['127.0.0.1:PORT']}]\n"
		 "- job_name: light\n  scrape_interval: 200ms\n"
		 "  profiling_config: {pprof_config: {" ONE "heap: {path: /light}}}\n"
		 "  static_configs: [{targets: ['127.0.0.1:PORT']}]\n");
	struct kept last;
	assert_true(TEST_WAIT(fake_sink_find(k, "heap:alloc_space:bytes:space:bytes{instance", &last) && count_of(g, "profile_up{", "job=\"light\"", 1) > 8));
	assert_true(TEST_WAIT(check_increases(g, "job=\"heavy\"", &sum) == 0 && sum > 0));
	evict(g, "/heavy", "profile_up{");
	/* Two scrapes after its eviction, the series has increases again: the first one is the new baseline. */
	int asked = g->world.heavy;
	assert_true(TEST_WAIT(g->world.heavy >= asked + 4));
	size_t gaps = check_increases(g, "job=\"heavy\"", &sum);
	print_message("%d scrapes of the heavy one, increases of %lld bytes, %zu gap\n", g->world.heavy, (long long)sum, gaps);
	assert_int_equal(gaps, 1);
	assert_in_range(sum, GROWTH, GROWTH * (g->world.heavy - 2)); /* two baselines */
	assert_int_equal(check_increases(g, "job=\"light\"", &sum), 0);
	assert_in_range(sum, GROWTH, GROWTH * (g->world.light - 1));
	mutex_lock(&k->lock);
	for (size_t i = 0; i < k->v.n; i++)
		if (strstr(k->v.v[i].series, "profile_up{") && strstr(k->v.v[i].series, "job=\"light\""))
			assert_true(k->v.v[i].v == 1);
	mutex_unlock(&k->lock);
}

/* An eviction ends the series of a target's metrics with stale markers; its next scrape begins them again. */
static void metrics_end_and_begin_again(void **state)
{
	struct evict_stage *g = *state;
	struct fake_sink *k = &g->bench.sink;
	scraper_bench_apply(&g->bench, "scrape_configs:\n"
		 "- job_name: heavy\n  scrape_interval: 1s\n  metrics_path: /metrics\n"
		 "  static_configs: [{targets: ['127.0.0.1:PORT']}]\n"
		 "- job_name: light\n  scrape_interval: 200ms\n"
		 "  profiling_config: {pprof_config: {" ONE "heap: {path: /light}}}\n"
		 "  static_configs: [{targets: ['127.0.0.1:PORT']}]\n");
	assert_true(TEST_WAIT(count_of(g, "c_total{", "job=\"heavy\"", 7) >= 1 && count_of(g, "profile_up{", "job=\"light\"", 1) >= 2));
	evict(g, "/metrics", "up{");
	size_t n = count_of(g, "c_total{", "job=\"heavy\"", 7);
	assert_true(TEST_WAIT(count_of(g, "c_total{", "job=\"heavy\"", 7) >= n + 2));
	bool ended = false;
	int64_t t = 0;
	size_t ends = 0;
	mutex_lock(&k->lock);
	for (size_t i = 0; i < k->v.n; i++) {
		const struct kept *x = &k->v.v[i];
		if (strstr(x->series, "c_total{")) {
			assert_true(x->t_ms > t);
			t = x->t_ms;
			ended = x->stale;
			ends += ended;
		}
	}
	mutex_unlock(&k->lock);
	assert_int_equal(ends, 1);
	assert_false(ended);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(no_increase_is_wrong_after_an_eviction, setup, teardown),
		cmocka_unit_test_setup_teardown(metrics_end_and_begin_again, setup, teardown),
	};
	return cmocka_run_group_tests(tests, scraper_tests_begin, scraper_tests_end);
}
