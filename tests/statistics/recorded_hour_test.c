/* SPDX-License-Identifier: Apache-2.0 */
/* Recorded profiles of an hour, in the real storage, whose clock is the test's: targets that are slow, one that is away, slots that are
 * missed, a midnight, restarts of rules and storage. What was recorded is what its source has, stack by stack. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/log.h"
#include "config/config_top.h"
#include "promql-like/promql.h"
#include "rules/rules.h"
#include "tsdb/testkit.h"

#define BEGIN (KIT_T0 + 23 * INT64_C(3600000) + 1800000) /* half an hour before midnight */
#define S INT64_C(1000)
#define HOUR (3600 * S)
#define TARGETS 4
#define STACKS 50

static const char rules_text[] = "groups: [{name: a, interval: 60s, rules: [{record: rec, profiles: true, expr: 'merge by (pod) (cpu[1m])'}]}]";

struct server {
	struct kit k;
	struct promql_engine *engine;
	struct rules *rules;
};

static void start(struct server *s)
{
	const struct config_global global = { .evaluation_interval_ms = 60000 };
	const struct promql_options o = { .max_concurrency = 2 };
	struct rules_config *c;
	struct err e = { 0 };
	s->engine = promql_engine_new(tsdb_source(s->k.db), &o);
	const struct rules_options how = { .engine = s->engine, .source = tsdb_source(s->k.db), .sink = tsdb_sink(s->k.db), .late_ms = 20 * S, .manual = true };
	assert_int_equal(rules_new(&s->rules, &how, &e), 0);
	if (rules_config_read(&c, view_of(rules_text), "r.yml", &global, NULL, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(rules_apply(s->rules, c, &e), 0);
	rules_config_unref(c);
}

static void stop(struct server *s)
{
	rules_free(s->rules);
	promql_engine_free(s->engine);
}

/* Each target has a profile each 10 s, and hands it over so much later. One is away for a while. */
static void scrape(struct server *s, int64_t now)
{
	static const int64_t late[TARGETS] = { 0, 3 * S, 17 * S, 0 };
	for (unsigned p = 0; p < TARGETS; p++) {
		int64_t t = now - late[p];
		if (t % (10 * S) || (p == 3 && t > BEGIN + 900 * S && t < BEGIN + 1500 * S))
			continue;
		assert_int_equal(kit_append(&s->k, p, t, (uint64_t)t / 1000 * 8 + p, STACKS, NULL), 0);
	}
}

/* Minutes in which nobody evaluates: two slots are missed, later seven in a row. */
static bool misses(int64_t minute)
{
	return minute == 5 || minute == 6 || (minute > 32 && minute < 40);
}

static void run_until(struct server *s, int64_t from, int64_t until)
{
	for (int64_t now = from; now <= until; now += S) {
		bool down = now > BEGIN + 2700 * S && now <= BEGIN + 2820 * S; /* the server is away */
		s->k.now_ms = now;
		if (!down)
			scrape(s, now);
		if (now == BEGIN + 725 * S || now == BEGIN + 2820 * S) {
			stop(s);
			kit_reopen(&s->k);
			start(s);
		}
		if (down || (now - BEGIN) % (60 * S) || misses((now - BEGIN) / (60 * S)))
			continue;
		tsdb_flush(s->k.db);
		rules_evaluate(s->rules, now);
	}
	tsdb_flush(s->k.db);
}

static void an_hour_adds_up(void **state)
{
	struct server s;
	int64_t source, recorded;
	(void)state;
	kit_init(&s.k);
	s.k.now_ms = BEGIN;
	s.k.o.commit_interval_ms = -1;
	kit_open(&s.k);
	start(&s);
	run_until(&s, BEGIN, BEGIN + HOUR + 120 * S);
	int64_t first = BEGIN, last = BEGIN + HOUR;
	assert_in_range(kit_count(&s.k, "rec", first, last, &recorded), 59 * TARGETS - 25, 60 * TARGETS);
	assert_true(kit_count(&s.k, KIT_CPU, first, last, &source) > 1200);
	assert_true(source == recorded);
	assert_true(kit_merge(&s.k, KIT_CPU, first, last, NULL) == kit_merge(&s.k, "rec", first, last, NULL));
	for (int64_t t = first; t < last; t += 60 * S) /* and each slot by itself */
		if (kit_merge(&s.k, KIT_CPU, t, t + 60 * S, NULL) != kit_merge(&s.k, "rec", t, t + 60 * S, NULL))
			fail_msg("minute %lld", (long long)(t - first) / 60000);
	stop(&s);
	kit_free(&s.k);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(an_hour_adds_up) };
	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_LOGFMT);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
