/* SPDX-License-Identifier: Apache-2.0 */
/* How a job follows its discovery: when, what stays itself, and that nobody waits for it. Discovery is the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/testwait.h"
#include "scraper/internal.h"
#include "scraper/testkit.h"

#define INTERVAL_MS 1000 /* between two syncs */

/* One source at a time, that tells what the test says. */
static struct {
	struct discovery_emit emit;
	atomic_bool runs;
	atomic_bool stop_held;       /* while this is set, fake_stop() waits, for a minute at most */
} fake;

static bool fake_same(const void *a, const void *b)
{
	return false;
}

static int fake_start(struct discovery_provider **ret, const void *config, const struct discovery_emit *emit, struct err *e)
{
	static struct discovery_provider p;
	fake.emit = *emit;
	atomic_store(&fake.runs, true);
	*ret = &p;
	return 0;
}

static void fake_stop(struct discovery_provider *p)
{
	for (int ms = 0; ms < 60000 && atomic_load(&fake.stop_held); ms++)
		clock_sleep_ms(1);
	atomic_store(&fake.runs, false);
}

static const struct discovery_ops fake_ops = { .key = "fake_sd_configs", .same = fake_same, .start = fake_start, .stop = fake_stop };

struct bench {
	struct fake_sink sink;
	struct scraper *scraper;
	struct stub *stub;
};

static void give_nothing(int fd, const char *request, void *arg)
{
	stub_answer(fd, 500, "", "", 0);
}

static int setup(void **state)
{
	struct bench *b = NEW(struct bench);
	struct err e = { 0 };
	fake_sink_init(&b->sink);
	b->stub = stub_new(give_nothing, NULL);
	assert_int_equal(scraper_new(&b->scraper, &b->sink.sink, &(struct scraper_options){ .reload_interval_ms = INTERVAL_MS }, &e), 0);
	*state = b;
	return 0;
}

static int teardown(void **state)
{
	struct bench *b = *state;
	atomic_store(&fake.stop_held, false);
	scraper_free(b->scraper);
	stub_free(b->stub);
	fake_sink_free(&b->sink);
	free(b);
	return 0;
}

#define JOB "- job_name: told\n  scrape_interval: 1h\n  profiling_config: {pprof_config: {process_cpu: {enabled: false}, " \
	    "goroutine: {enabled: false}, block: {enabled: false}, mutex: {enabled: false}}}\n"

static const struct confinement *confined; /* that the first job gets */

/* The first job gets the test's discovery. */
static void apply(struct bench *b, const char *yaml, bool with_fake)
{
	struct config_tree *t = NULL;
	struct scraper_config *c = NULL;
	struct err e = { 0 };
	static struct discovery_config fake_configs[8]; /* each another one */
	static unsigned n;
	struct discovery_config *fake_config = &fake_configs[n++ % ARRAY_LEN(fake_configs)];
	*fake_config = (struct discovery_config){ &fake_ops, fake_config };
	if (config_parse(&t, view_of(yaml), "test.yml", &e) || scraper_config_parse(&c, t, NULL, NULL, &e))
		fail_msg("%s", e.msg);
	if (with_fake) {
		c->own[0].confined = confined;
		c->own[0].sd = (struct discovery_configs){ fake_config, 1 };
	}
	assert_int_equal(scraper_apply(b->scraper, c, &e), 0);
	config_free(t);
	scraper_config_unref(c);
}

/* A group of n targets HOST0 .. HOSTn-1; n 0 deletes it. */
static void tell(const char *source, const char *host, size_t n, const char *zone)
{
	struct label *address = xcalloc(n, sizeof *address), more = { VIEW("zone"), view_of(zone) };
	struct labels *targets = xcalloc(n, sizeof *targets);
	char (*text)[32] = xcalloc(n, 32);
	for (size_t i = 0; i < n; i++) {
		snprintf(text[i], 32, "%s%zu:1", host, i);
		address[i] = (struct label){ VIEW("__address__"), view_of(text[i]) };
		targets[i] = (struct labels){ &address[i], 1 };
	}
	fake.emit.group(fake.emit.arg, &(struct discovery_group){ source, { &more, zone[0] != 0 }, targets, n });
	free(text);
	free(targets);
	free(address);
}

static size_t count_endpoints(struct bench *b)
{
	mutex_lock(&b->scraper->lock);
	size_t n = b->scraper->pools.n ? b->scraper->pools.v[0]->endpoints.n : 0;
	mutex_unlock(&b->scraper->lock);
	return n;
}

/* Why the first job scrapes nothing, NULL: it does. */
static const char *refused(struct bench *b)
{
	mutex_lock(&b->scraper->lock);
	const char *why = b->scraper->pools.v[0]->refused;
	mutex_unlock(&b->scraper->lock);
	return why;
}

static void wait_endpoints(struct bench *b, size_t n)
{
	if (!TEST_WAIT(count_endpoints(b) == n))
		assert_int_equal(count_endpoints(b), n);
}

/* Counts what begins as well: the round at work. */
static uint64_t rounds(struct bench *b)
{
	mutex_lock(&b->scraper->lock);
	uint64_t n = b->scraper->pools.v[0]->round;
	mutex_unlock(&b->scraper->lock);
	return n;
}

static void at_once_and_then_seldom(void **state)
{
	struct bench *b = *state;
	apply(b, "scrape_configs:\n" JOB, true);
	while (!rounds(b))
		clock_sleep_ms(1);
	clock_sleep_ms(20); /* looked at while there was nothing: that was not the first time */
	int64_t begin = clock_mono_ms();
	tell("a", "a", 1, "");
	wait_endpoints(b, 1);
	tell("b", "b", 1, "");
	fake.emit.ready(fake.emit.arg); /* all was read: at once again */
	wait_endpoints(b, 2);
	int64_t first_ms = clock_mono_ms() - begin;
	uint64_t before = rounds(b);
	begin = clock_mono_ms();
	for (size_t i = 0; clock_mono_ms() - begin < 2500; i++) {
		char source[24];
		snprintf(source, sizeof source, "s%zu-", i);
		tell(source, source, 1, "");
		clock_sleep_ms(5);
	}
	assert_in_range(rounds(b) - before, 1, (uint64_t)(clock_mono_ms() - begin) / INTERVAL_MS + 1);
	assert_true(first_ms < INTERVAL_MS - 50);
	/* A configuration that changed does not wait. */
	before = rounds(b);
	begin = clock_mono_ms();
	apply(b, "scrape_configs:\n" JOB "  static_configs: [{targets: ['z:1']}]\n", false);
	wait_endpoints(b, 1);
	assert_true(rounds(b) > before);
}

static struct endpoint *endpoint_of(struct bench *b, const char *what, const struct pool_group **group)
{
	struct endpoint *found = NULL;
	mutex_lock(&b->scraper->lock);
	struct scrape_pool *p = b->scraper->pools.v[0];
	for (size_t i = 0; i < p->groups.n; i++)
		for (size_t k = 0; k < p->groups.v[i]->endpoints.n; k++)
			if (strstr(p->groups.v[i]->endpoints.v[k]->url, what)) {
				found = p->groups.v[i]->endpoints.v[k];
				*group = p->groups.v[i];
			}
	mutex_unlock(&b->scraper->lock);
	return found;
}

/* What a changed source has as well stays, also before it was read. */
static void a_changed_source_is_read_first(void **state)
{
	struct bench *b = *state;
	const struct pool_group *g = NULL;
	apply(b, "scrape_configs:\n" JOB, true);
	tell("a", "a", 2, "");
	fake.emit.ready(fake.emit.arg);
	wait_endpoints(b, 2);
	const struct endpoint *a1 = endpoint_of(b, "a1:1", &g);
	apply(b, "scrape_configs:\n" JOB "  relabel_configs: [{action: labeldrop, regex: zone}]\n", true);
	clock_sleep_ms(INTERVAL_MS + 200);
	assert_int_equal(count_endpoints(b), 2);
	int64_t begin = clock_mono_ms();
	tell("b", "a", 2, "");
	tell("c", "c", 1, "");
	assert_int_equal(count_endpoints(b), 2); /* not all of it yet */
	fake.emit.ready(fake.emit.arg);
	wait_endpoints(b, 3);
	assert_true(clock_mono_ms() - begin < 10000);
	assert_ptr_equal(endpoint_of(b, "a1:1", &g), a1);
}

/* What is as it was is not looked at again; what is found again stays itself, whichever group it is in. */
static void what_stays_and_what_goes(void **state)
{
	struct bench *b = *state;
	const struct pool_group *ga = NULL, *gb = NULL, *again = NULL;
	apply(b, "scrape_configs:\n" JOB "  relabel_configs: [{action: labeldrop, regex: zone}, {source_labels: [__address__], regex: 'drop.*', action: drop}]\n", true);
	tell("a", "a", 3, "");
	tell("b", "b", 2, "");
	tell("d", "drop", 4, "");
	fake.emit.ready(fake.emit.arg);
	wait_endpoints(b, 5);
	const struct endpoint *a1 = endpoint_of(b, "a1:1", &ga), *b1 = endpoint_of(b, "b1:1", &gb);
	tell("b", "b", 2, "other"); /* a change that relabelling hides */
	tell("c", "a", 2, "");      /* targets that another group has as well */
	tell("e", "e", 1, "");
	wait_endpoints(b, 6);
	assert_ptr_equal(endpoint_of(b, "b1:1", &again), b1);
	assert_ptr_not_equal(again, gb);
	tell("a", "a", 0, "");
	wait_endpoints(b, 5); /* a2 goes, a0 and a1 are c's as well */
	assert_ptr_equal(endpoint_of(b, "a1:1", &again), a1);
	assert_ptr_not_equal(again, ga);
	tell("c", "a", 0, "");
	tell("b", "b", 0, "");
	tell("e", "e", 0, "");
	wait_endpoints(b, 0);
	mutex_lock(&b->scraper->lock);
	const struct scrape_pool *p = b->scraper->pools.v[0];
	assert_int_equal(p->groups.n, 1);
	assert_int_equal(p->groups.v[0]->dropped.n, 4);
	assert_int_equal(p->n_targets, 0);
	assert_int_equal(p->group_index.n, 1);
	assert_int_equal(p->endpoint_index.n, 0);
	assert_int_equal(b->scraper->due.v.n, 0);
	mutex_unlock(&b->scraper->lock);
}

/* A source that takes its time to end holds up neither the reload nor another job; nor do 20,000 targets that come. */
static void nobody_waits(void **state)
{
	struct bench *b = *state;
	struct kept k;
	char yaml[1024];
	snprintf(yaml, sizeof yaml, "scrape_configs:\n" JOB "  relabel_configs: [{source_labels: [__address__], regex: '(.*)0:1', target_label: x}]\n"
		 "- job_name: beside\n  scrape_interval: 100ms\n  profiling_config: {pprof_config: {process_cpu: {enabled: false}, "
		 "goroutine: {enabled: false}, block: {enabled: false}, mutex: {enabled: false}}}\n"
		 "  static_configs: [{targets: ['127.0.0.1:%d']}]\n", stub_port(b->stub));
	apply(b, yaml, true);
	assert_true(fake_sink_wait(&b->sink, "job=\"beside\"", 3));
	fake.emit.ready(fake.emit.arg);
	tell("many", "host", 20000, "");
	while (count_endpoints(b) < 2000)
		clock_sleep_ms(1);
	size_t stored = fake_sink_find(&b->sink, "job=\"beside\"", &k);
	wait_endpoints(b, 20000);
	print_message("%zu of the job beside meanwhile\n", fake_sink_find(&b->sink, "job=\"beside\"", &k) - stored);
	atomic_store(&fake.stop_held, true);
	apply(b, "scrape_configs:\n" JOB "  static_configs: [{targets: ['z:1']}]\n", false);
	wait_endpoints(b, 1);
	assert_true(atomic_load(&fake.runs)); /* the old source has not ended yet */
}

static void limit_of_targets(void **state)
{
	struct bench *b = *state;
	apply(b, "scrape_configs:\n" JOB "  target_limit: 3\n", true);
	tell("a", "a", 3, "");
	fake.emit.ready(fake.emit.arg);
	wait_endpoints(b, 3);
	assert_null(b->scraper->pools.v[0]->refused);
	tell("b", "b", 1, "");
	wait_endpoints(b, 4);
	assert_true(TEST_WAIT(refused(b)));
	assert_string_equal(refused(b), "the job has 4 targets, target_limit is 3: none is scraped");
	tell("b", "b", 0, "");
	wait_endpoints(b, 3);
	assert_true(TEST_WAIT(!refused(b)));
}

#define SLOW "  relabel_configs: [{target_label: x, replacement: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa}," \
	     "{source_labels: [x], regex: '(a|aa)+[^a]', action: drop}]\n"

static char *problem_now(struct bench *b)
{
	char *problem = NULL;
	mutex_lock(&b->scraper->lock);
	const struct scrape_pool *p = b->scraper->pools.v[0];
	if (p->groups.n && p->groups.v[0]->dropped.n == 10) {
		assert_int_equal(p->groups.v[0]->failed, 10);
		problem = xstrdup(p->groups.v[0]->dropped.v[9].problem);
	}
	mutex_unlock(&b->scraper->lock);
	return problem;
}

/* The problem of the last of ten targets of the first job, once all were looked at; owned. */
static char *last_problem(struct bench *b)
{
	char *problem = NULL;
	assert_true(TEST_WAIT(problem = problem_now(b)));
	return problem;
}

/* Who may write an object takes no more of the sync thread than its share; a person's own rules take what they take. */
static void slow_rules_of_an_object_end(void **state)
{
	static const struct confinement f = { .namespace = "shop", .timeout_max_ms = 3600000,
					      .relabel = { 20000000, "20 ms of relabelling", 65536 } };
	struct bench *b = *state;
	for (int i = 0; i < 2; i++) {
		confined = i ? &f : NULL;
		apply(b, i ? "scrape_configs:\n" JOB SLOW "  body_size_limit: 1MB\n" : "scrape_configs:\n" JOB SLOW, true);
		confined = NULL;
		tell("a", "a", 10, "");
		fake.emit.ready(fake.emit.arg);
		if (i)
			clock_sleep_ms(2 * INTERVAL_MS);
		char *problem AUTOFREE = last_problem(b);
		assert_true((strcmp(problem, "relabelling this job takes too long") == 0) == (i == 1));
	}
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(at_once_and_then_seldom),
		TEST(what_stays_and_what_goes),
		TEST(a_changed_source_is_read_first),
		TEST(nobody_waits),
		TEST(limit_of_targets),
		TEST(slow_rules_of_an_object_end),
	};
	return cmocka_run_group_tests(tests, scraper_tests_begin, scraper_tests_end);
}
