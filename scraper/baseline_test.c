/* SPDX-License-Identifier: Apache-2.0 */
/* Increases of cumulative types claim what was observed and no more: over reloads that change a target's labels, after batches
 * that were not stored, after failed scrapes. The target counts how often it was asked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/testwait.h"
#include "scraper/config/scrape_config.h"
#include "scraper/scraper.h"
#include "scraper/testkit.h"

#define MOST 1000
#define EACH 500 /* bytes that are allocated between two requests */

struct bench {
	struct fake_sink sink;
	struct stub *stub;
	struct scraper *scraper;
	struct mutex lock;
	int64_t asked_ms[MOST]; /* when it was asked, the wall clock */
	int n;
	atomic_int status;      /* other than 0: it fails so */
};

static void give(int fd, const char *request, void *arg)
{
	struct bench *b = arg;
	struct buf body = { 0 };
	(void)request;
	if (b->status) {
		stub_answer(fd, b->status, "", "", 0);
		return;
	}
	mutex_lock(&b->lock);
	assert_true(b->n < MOST);
	b->asked_ms[b->n++] = clock_now_ms();
	int64_t v[] = { (int64_t)b->n * EACH, 77 };
	mutex_unlock(&b->lock);
	make_profile(&body, "alloc_space/bytes inuse_space/bytes", "space/bytes", v, 1, 0, 0);
	stub_answer(fd, 200, "", body.ptr, body.len);
	buf_free(&body);
}

static void print_warning(void *arg, const char *text)
{
	(void)arg;
	fprintf(stderr, "%s\n", text);
}

/* One job with these further lines, which asks every so many ms. */
static void apply(struct bench *b, int interval_ms, const char *more)
{
	struct err e = { 0 };
	struct config_tree *t = NULL;
	struct scraper_config *c = NULL;
	AUTOFREE char *yaml = xasprintf("scrape_configs:\n- job_name: go\n  scrape_interval: %dms\n  scrape_timeout: 100ms\n"
		"  profiling_config: {pprof_config: {memory: {enabled: false}, block: {enabled: false}, goroutine: {enabled: false}, "
		"mutex: {enabled: false}, process_cpu: {enabled: false}, heap: {path: /heap}}}\n%s"
		"  static_configs: [{targets: ['127.0.0.1:%d']}]\n", interval_ms, more, stub_port(b->stub));
	if (config_parse(&t, view_of(yaml), "test.yml", &e) || scraper_config_parse(&c, t, print_warning, NULL, &e) ||
	    scraper_apply(b->scraper, c, &e))
		fail_msg("%s", e.msg);
	scraper_config_unref(c);
	config_free(t);
}

static int setup(void **state)
{
	struct bench *b = NEW(struct bench);
	struct err e = { 0 };
	struct scraper_options o = { .decoders = 2, .reload_interval_ms = 1 };
	mutex_init(&b->lock, LOCK_ANY, "test");
	fake_sink_init(&b->sink);
	b->stub = stub_new(give, b);
	if (scraper_new(&b->scraper, &b->sink.sink, &o, &e))
		fail_msg("%s", e.msg);
	*state = b;
	return 0;
}

static int teardown(void **state)
{
	struct bench *b = *state;
	scraper_free(b->scraper);
	stub_free(b->stub);
	fake_sink_free(&b->sink);
	mutex_destroy(&b->lock);
	free(b);
	return 0;
}

static int asked_in(const struct bench *b, int64_t after_ms, int64_t until_ms)
{
	int n = 0;
	for (int i = 0; i < b->n; i++)
		n += b->asked_ms[i] > after_ms && b->asked_ms[i] <= until_ms;
	return n;
}

/* Each increase is what was allocated in the time that it covers, and no two cover the same. Returns how many times there is a hole
 * between one and the next. */
static int holes(struct bench *b)
{
	int n = 0;
	int64_t until = 0;
	mutex_lock(&b->sink.lock);
	mutex_lock(&b->lock);
	for (size_t i = 0; i < b->sink.v.n; i++) {
		const struct kept *k = &b->sink.v.v[i];
		if (k->stale || !strstr(k->series, "alloc_space"))
			continue;
		int64_t after = k->t_ms - k->cover_ms;
		int asked = asked_in(b, after, k->t_ms);
		if (k->total != (int64_t)asked * EACH)
			fail_msg("%s at %lld: %lld bytes in %lld ms, in which it was asked %d times", k->series, (long long)k->t_ms,
				 (long long)k->total, (long long)k->cover_ms, asked);
		assert_true(k->duration_ns == k->cover_ms * 1000000);
		assert_true(after >= until);
		n += until && after > until;
		until = k->t_ms;
	}
	mutex_unlock(&b->lock);
	mutex_unlock(&b->sink.lock);
	return n;
}

static size_t increases(struct bench *b, const char *label)
{
	size_t n = 0;
	mutex_lock(&b->sink.lock);
	for (size_t k = 0; k < b->sink.v.n; k++)
		n += !b->sink.v.v[k].stale && strstr(b->sink.v.v[k].series, "alloc_space") && strstr(b->sink.v.v[k].series, label);
	mutex_unlock(&b->sink.lock);
	return n;
}

/* Waits for two increases of the series with that label. */
static void wait_increases(struct bench *b, const char *label)
{
	assert_true(TEST_WAIT(increases(b, label) >= 2));
}

/* Labels, relabelling and interval are of the series and of the schedule; the process that is asked is the same. */
static void survives_a_reload(void **state)
{
	struct bench *b = *state;
	apply(b, 200, "");
	assert_true(fake_sink_wait(&b->sink, "heap:alloc_space", 2));
	apply(b, 150, "  relabel_configs: [{target_label: team, replacement: one}]\n");
	wait_increases(b, "team=\"one\"");
	assert_int_equal(holes(b), 0);
	/* Two at once: whether the one in the middle is scraped is all the same. */
	apply(b, 150, "  relabel_configs: [{target_label: team, replacement: two}]\n");
	apply(b, 200, "  relabel_configs: [{target_label: team, replacement: three}]\n");
	wait_increases(b, "team=\"three\"");
	assert_int_equal(holes(b), 0);
	apply(b, 150, "  metric_relabel_configs: [{target_label: team, replacement: four}]\n");
	wait_increases(b, "team=\"four\"");
	assert_int_equal(holes(b), 0);
	/* Behind other parameters is something else. */
	apply(b, 200, "  params: {gc: ['1']}\n  relabel_configs: [{target_label: team, replacement: five}]\n");
	wait_increases(b, "team=\"five\"");
	assert_int_equal(holes(b), 1);
}

/* What was not stored is a hole: the next increase is since the scrape that was not stored, and does not claim more. */
static void not_stored(void **state)
{
	struct bench *b = *state;
	apply(b, 200, "");
	for (int i = 0; i < 2; i++) {
		atomic_int *how = i ? &b->sink.lose : &b->sink.fail;
		size_t n = fake_sink_find(&b->sink, "heap:alloc_space", NULL);
		assert_true(fake_sink_wait(&b->sink, "heap:alloc_space", n + 2));
		*how = ERR_IO;
		clock_sleep_ms(700);
		*how = 0;
		n = fake_sink_find(&b->sink, "heap:alloc_space", NULL);
		assert_true(fake_sink_wait(&b->sink, "heap:alloc_space", n + 3));
		assert_int_equal(holes(b), i + 1);
	}
}

/* A scrape that failed is none: the next one has all since the last. */
static void failed_scrape(void **state)
{
	struct bench *b = *state;
	apply(b, 200, "");
	assert_true(fake_sink_wait(&b->sink, "heap:alloc_space", 2));
	b->status = 503;
	clock_sleep_ms(700);
	b->status = 0;
	size_t n = fake_sink_find(&b->sink, "heap:alloc_space", NULL);
	assert_true(fake_sink_wait(&b->sink, "heap:alloc_space", n + 3));
	assert_int_equal(holes(b), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = { TEST(survives_a_reload), TEST(not_stored), TEST(failed_scrape) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
