/* SPDX-License-Identifier: Apache-2.0 */
/* A scraper asks an agent's history: a fake agent with windows of 10 s since the beginning of time, that may lose some, start
 * anew, have none or be too large; a sink that may fail. */
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
#include "base/log.h"
#include "base/num.h"
#include "base/testwait.h"
#include "scraper/scraper.h"
#include "scraper/state/table.h"
#include "scraper/testkit.h"

static struct {
	atomic_int_least64_t from_ms, to_ms; /* windows that begin in [from, to) were lost */
	atomic_int boot;
	atomic_bool old, large, absent;
	atomic_int asked, not_by_cursor;
} agent;

static int64_t param_ms(const char *request, const char *name)
{
	const char *at = strstr(request, name);
	double s = 0;
	if (at)
		num_parse_double(view_make(at + strlen(name), strspn(at + strlen(name), "0123456789.")), &s);
	return (int64_t)(s * 1000 + 0.5);
}

static void give_windows(int fd, int64_t first_ms, int64_t end_ms)
{
	struct buf b = { 0 };
	char headers[256];
	size_t n = agent.large ? 1000 : 1;
	int64_t *v = xcalloc(2 * n, sizeof *v);
	for (size_t i = 0; i < n; i++) {
		v[2 * i] = 1;
		v[2 * i + 1] = end_ms - first_ms;
	}
	make_profile(&b, "samples/count cpu/nanoseconds", "cpu/nanoseconds", v, agent.large ? 40 : 1, first_ms * 1000000, (end_ms - first_ms) * 1000000);
	snprintf(headers, sizeof headers, "X-Pyrrha-Boot: b%d\r\nX-Pyrrha-Covered: %lld-%lld\r\nX-Pyrrha-Windows: %lld-%lld\r\n"
		 "X-Pyrrha-Finished: %lld\r\n", (int)agent.boot, (long long)first_ms, (long long)end_ms, (long long)first_ms / 10000,
		 (long long)end_ms / 10000 - 1, (long long)clock_now_ms() / 10000 * 10000);
	stub_answer(fd, 200, agent.old ? "" : headers, b.ptr, b.len);
	free(v);
	buf_free(&b);
}

static bool is_lost(int64_t ms)
{
	return ms >= agent.from_ms && ms < agent.to_ms;
}

static void give(int fd, const char *request, void *arg)
{
	char headers[256];
	int64_t from = param_ms(request, "from="), to = param_ms(request, "to="), finished = clock_now_ms() / 10000 * 10000;
	(void)arg;
	if (strstr(request, "/offcpu") || agent.absent) {
		stub_answer(fd, 404, "X-Pyrrha-Boot: b0\r\n", "off", 3);
		return;
	}
	agent.asked++;
	agent.not_by_cursor += !from;
	int64_t first = (from + 9999) / 10000 * 10000, end = (to + 9999) / 10000 * 10000;
	while (first < end && is_lost(first))
		first += 10000;
	if (end <= finished && first < end) {
		give_windows(fd, first, end);
		return;
	}
	while (is_lost(first))
		first += 10000;
	snprintf(headers, sizeof headers, "X-Pyrrha-Boot: b%d\r\nX-Pyrrha-Finished: %lld\r\nX-Pyrrha-Next: %lld\r\n", (int)agent.boot,
		 (long long)finished, (long long)(first < finished ? first : 0));
	stub_answer(fd, 404, headers, "no finished window starts in that range", 39);
}

struct bench {
	struct fake_sink sink;
	struct stub *stub;
	struct scraper *scraper;
};

static void start(struct bench *b, const char *more)
{
	struct config_tree *t = NULL;
	struct scraper_config *c = NULL;
	struct err e = { 0 };
	char *yaml = xasprintf("scrape_configs:\n- {job_name: agent, scrape_interval: 1s, scrape_timeout: 1s%s, profiling_config: {preset: agent}, "
			       "static_configs: [{targets: ['127.0.0.1:%d']}]}\n", more, stub_port(b->stub));
	if (scraper_new(&b->scraper, &b->sink.sink, NULL, &e) || config_parse(&t, view_of(yaml), "test.yml", &e) ||
	    scraper_config_parse(&c, t, NULL, NULL, &e) || scraper_apply(b->scraper, c, &e))
		fail_msg("%s", e.msg);
	scraper_config_unref(c);
	config_free(t);
	free(yaml);
}

static void stop(struct bench *b)
{
	scraper_free(b->scraper);
	b->scraper = NULL;
}

static int setup(void **state)
{
	struct bench *b = NEW(struct bench);
	memset(&agent, 0, sizeof agent);
	fake_sink_init(&b->sink);
	b->stub = stub_new(give, NULL);
	*state = b;
	return 0;
}

static int teardown(void **state)
{
	struct bench *b = *state;
	if (b->scraper)
		stop(b);
	stub_free(b->stub);
	fake_sink_free(&b->sink);
	free(b);
	return 0;
}

static const char cpu[] = "on_cpu:cpu:nanoseconds";

/* Where the cursor is; 0: nowhere. */
static int64_t cursor_ms(struct bench *b)
{
	char *v = fake_sink_note(&b->sink, "cursor"), *end = v ? strrchr(v, ' ') : NULL;
	int64_t ms = 0;
	if (v && (!end || !num_parse_i64(view_make(end + 1, strcspn(end + 1, "\n")), &ms)))
		fail_msg("note: %s", v);
	free(v);
	return ms;
}

static bool wait_cursor(struct bench *b, int64_t least_ms)
{
	return TEST_WAIT(cursor_ms(b) >= least_ms);
}

/* As if the server had been away since n windows ago. */
static int64_t set_back(struct bench *b, int n)
{
	struct kept_note *k = NULL;
	for (size_t i = 0; i < b->sink.notes.n; i++)
		if (strcmp(b->sink.notes.v[i].key, "cursor") == 0)
			k = &b->sink.notes.v[i];
	assert_non_null(k);
	int64_t ms = clock_now_ms() / 10000 * 10000 - n * 10000;
	free(k->value);
	k->value = xasprintf("b%d %lld %lld\n", (int)agent.boot, (long long)ms / 10000 - 1, (long long)ms);
	k->value_len = strlen(k->value);
	for (size_t i = 0; i < b->sink.v.n; i++)
		free(b->sink.v.v[i].series);
	b->sink.v.n = 0;
	return ms;
}

/* The profiles follow on one another from a time on; returns where they end, 0 if they do not. */
static int64_t in_a_row(struct bench *b, int64_t from_ms)
{
	mutex_lock(&b->sink.lock);
	for (size_t i = 0; i < b->sink.v.n && from_ms; i++) {
		const struct kept *k = &b->sink.v.v[i];
		if (k->is_float || k->stale || !strstr(k->series, cpu))
			continue;
		bool follows = k->t_ms - k->cover_ms == from_ms && k->duration_ns == k->cover_ms * 1000000 && !k->asked_ms;
		from_ms = follows ? k->t_ms : 0;
	}
	mutex_unlock(&b->sink.lock);
	return from_ms;
}

static double value_of(enum scraper_metric m, const char *label)
{
	return label ? metric_get(&scraper_table[m], label) : metric_get(&scraper_table[m]);
}

static void first_then_where_it_was(void **state)
{
	struct bench *b = *state;
	double replaced = value_of(M_STAMPS_REPLACED, NULL), lost = value_of(M_WINDOWS_LOST, "agent");
	start(b, "");
	assert_true(wait_cursor(b, 1));
	int64_t first = cursor_ms(b);
	assert_true(clock_now_ms() - first < 25000);
	assert_true(fake_sink_wait_value(&b->sink, "up", 1));
	clock_sleep_ms(1500); /* nothing new is finished: up goes on, no series ends */
	struct kept k = { 0 };
	fake_sink_find(&b->sink, "on_cpu", &k);
	assert_false(k.stale);
	assert_true(fake_sink_wait_value(&b->sink, "up", 1));
	stop(b);
	int64_t from = set_back(b, 12);
	int asked = agent.asked;
	start(b, "");
	assert_true(wait_cursor(b, from + 110000));
	assert_true(in_a_row(b, from) >= from + 110000);
	assert_true(agent.asked - asked <= 5 * 5); /* five in a second */
	assert_true(value_of(M_STAMPS_REPLACED, NULL) <= replaced);
	assert_true(value_of(M_WINDOWS_LOST, "agent") <= lost);
	assert_int_equal(agent.not_by_cursor, 0);
}

static void not_stored_not_moved(void **state)
{
	struct bench *b = *state;
	start(b, "");
	assert_true(wait_cursor(b, 1));
	stop(b);
	int64_t from = set_back(b, 8);
	b->sink.lose = ERR_IO;
	start(b, "");
	clock_sleep_ms(1500);
	assert_int_equal(cursor_ms(b), from);
	b->sink.lose = 0;
	b->sink.fail = ERR_LIMIT;
	clock_sleep_ms(3500); /* however often: storage is to blame, not the piece */
	assert_int_equal(cursor_ms(b), from);
	b->sink.fail = 0;
	assert_true(wait_cursor(b, from + 70000));
	assert_true(in_a_row(b, from) >= from + 70000);
}

static void holes_and_new_runs_are_counted(void **state)
{
	struct bench *b = *state;
	start(b, "");
	assert_true(wait_cursor(b, 1));
	stop(b);
	double before = value_of(M_WINDOWS_LOST, "agent");
	int64_t from = set_back(b, 8);
	agent.from_ms = from + 10000;
	agent.to_ms = from + 40000;
	start(b, "");
	assert_true(wait_cursor(b, from + 70000));
	assert_true(TEST_WAIT(value_of(M_WINDOWS_LOST, "agent") - before > 2.5));
	assert_true(value_of(M_WINDOWS_LOST, "agent") - before < 3.5);
	stop(b);
	before = value_of(M_WINDOWS_LOST, "agent");
	from = set_back(b, 3);
	agent.boot = 1;
	start(b, "");
	assert_true(wait_cursor(b, from + 20000));
	assert_true(TEST_WAIT(value_of(M_WINDOWS_LOST, "agent") > before));
}

static void an_old_agent_is_asked_for_seconds(void **state)
{
	struct bench *b = *state;
	agent.old = true;
	start(b, "");
	assert_true(fake_sink_wait(&b->sink, cpu, 2));
	assert_int_equal(cursor_ms(b), 0);
	struct kept k;
	fake_sink_find(&b->sink, cpu, &k);
	assert_true(k.asked_ms == 1000 && clock_now_ms() - k.t_ms < 3000);
}

static void too_large_for_ever(void **state)
{
	struct bench *b = *state;
	start(b, "");
	assert_true(wait_cursor(b, 1));
	stop(b);
	int64_t from = set_back(b, 2);
	double before = value_of(M_WINDOWS_LOST, "agent");
	agent.large = true;
	start(b, ", sample_limit: 20");
	assert_true(fake_sink_wait_value(&b->sink, "profile_up", 0));
	assert_true(wait_cursor(b, from + 10000)); /* after a few tries it goes on */
	assert_true(TEST_WAIT(value_of(M_WINDOWS_LOST, "agent") - before > 0.5)); /* counted after the cursor is stored */
	agent.large = false;
	assert_true(fake_sink_wait_value(&b->sink, "profile_up", 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(first_then_where_it_was, setup, teardown),
		cmocka_unit_test_setup_teardown(not_stored_not_moved, setup, teardown),
		cmocka_unit_test_setup_teardown(holes_and_new_runs_are_counted, setup, teardown),
		cmocka_unit_test_setup_teardown(an_old_agent_is_asked_for_seconds, setup, teardown),
		cmocka_unit_test_setup_teardown(too_large_for_ever, setup, teardown),
	};
	scraper_register_metrics();
	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_LOGFMT);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
