/* SPDX-License-Identifier: Apache-2.0 */
/* Recorded profiles: each slot once, whatever was missed in between. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

#include "rules/testkit.h"

#define HEAP "memory:inuse_space:bytes:space:bytes"

#define DELTA "groups: [{name: a, interval: 60s, rules: [{record: rec, profiles: true, expr: 'merge by (pod) (cpu[1m])'}]}]"

/* An hour with slow targets, missed slots and restarts adds up to what the source has. */
static void deltas_add_up(void **state)
{
	struct kit k;
	(void)state;
	kit_init(&k);
	k.o.late_ms = 20000;
	kit_rules(&k, DELTA);
	unsigned r = 1;
	for (int64_t s = 10; s <= 3600 + 120; s += 10) {
		const char *fn[] = { "a", "b", "c" };
		for (int p = 0; p < 2; p++) {
			r = r * 1103515245 + 12345;
			int64_t at = p ? s - 15 : s; /* one is slow: its profiles come 15 s late */
			if (at > 0)
				kit_put_profile(&k, KIT_CPU, p ? "y" : "x", at, fn[r >> 16 & 1], (r >> 8 & 1023) + 1);
		}
		if (s % 60)
			continue;
		if (s / 60 % 7 == 3 || s / 60 % 7 == 4)
			continue; /* missed */
		if (s / 60 % 11 == 5) {
			kit_kill(&k);
			kit_rules(&k, DELTA);
		}
		kit_at(&k, s);
	}
	kit_expect_same(&k, "sort_by_label(total(merge by (pod) (cpu[57m])), \"pod\", \"function\")",
		    "sort_by_label(total(merge by (pod) (rec[57m])), \"pod\", \"function\")", 3600);
	kit_expect_same(&k, "merge(cpu[57m])", "merge(rec[57m])", 3600);
	kit_free(&k);
}

static void a_slot_is_recorded_late(void **state)
{
	struct kit k;
	(void)state;
	kit_init(&k);
	k.o.late_ms = 20000;
	kit_rules(&k, DELTA);
	kit_put_profile(&k, KIT_CPU, "x", 120, "f", 7);
	kit_at(&k, 120);
	expect_written(&k, "");
	kit_put_profile(&k, KIT_CPU, "x", 115, "f", 1); /* came after */
	kit_at(&k, 180);
	expect_written(&k, "rec{pod=\"x\"} profile @120\n");
	kit_expect_answer(&k, "rec", 120, "rec{pod=\"x\"} 8e-09\n");
	kit_at(&k, 240);
	expect_written(&k, "rec{pod=\"x\"} stale @180\n");
	kit_free(&k);
}

static double late(struct kit *k)
{
	return metric_get(&rules_metrics[M_LATE], k->rules->groups.v[0]->metric_name);
}

/* What comes later still is counted. */
static void later_still(void **state)
{
	struct kit k;
	(void)state;
	kit_init(&k);
	rules_register_metrics();
	k.o.late_ms = 20000;
	kit_rules(&k, DELTA);
	kit_put_profile(&k, KIT_CPU, "x", 110, "f", 7);
	kit_put_profile(&k, KIT_CPU, "x", 170, "f", 7);
	kit_at(&k, 180); /* which records the slot of 120, and looks again a minute later */
	kit_put_profile(&k, KIT_CPU, "x", 115, "f", 1);
	for (int64_t s = 240; s < 600; s += 60)
		kit_at(&k, s);
	assert_true(late(&k) == 1);
	kit_free(&k);
	metrics_free();
}

/* A commit that failed is made up for. */
static void lost_commit(void **state)
{
	struct kit k;
	(void)state;
	kit_init(&k);
	k.o.late_ms = -1;
	kit_rules(&k, DELTA);
	kit_put_profile(&k, KIT_CPU, "x", 55, "f", 5);
	k.fail = true;
	kit_at(&k, 60);
	k.fail = false;
	kit_at(&k, 120);
	expect_written(&k, "rec{pod=\"x\"} profile @60\nrec{pod=\"x\"} stale @120\n");
	kit_free(&k);
}

/* As series of numbers: two intervals after the rule is gone. */
static void series_of_a_gone_rule_end(void **state)
{
	struct kit k;
	(void)state;
	kit_init(&k);
	k.o.late_ms = -1;
	kit_rules(&k, DELTA);
	rules_step(k.rules, 30000);
	kit_put_profile(&k, KIT_CPU, "x", 55, "f", 5);
	kit_put_profile(&k, KIT_CPU, "y", 55, "f", 5);
	kit_at(&k, 60);
	rules_step(k.rules, 61000);
	buf_reset(&k.written);
	kit_rules(&k, "groups: [{name: b, interval: 60s, rules: [{record: rec, profiles: true, expr: 'merge by (pod) (cpu{pod=\"y\"}[1m])'}]}]");
	kit_at(&k, 60);
	buf_reset(&k.written);
	for (int64_t s = 61; s < 250 && !(k.written.len && strstr(k.written.ptr, "\"x\"} stale")); s++)
		rules_step(k.rules, s * 1000);
	assert_non_null(k.written.ptr);
	assert_non_null(strstr(k.written.ptr, "rec{pod=\"x\"} stale @61\n"));
	kit_free(&k);
}

/* A target is profiled for 4 of each 10 seconds: what is recorded gives its rate, too. */
static void weights_are_recorded(void **state)
{
	struct kit k;
	(void)state;
	kit_init(&k);
	k.o.late_ms = -1;
	k.weight = 2.5;
	kit_rules(&k, DELTA);
	for (int64_t s = 10; s <= 60; s += 10)
		kit_put_profile(&k, KIT_CPU, "x", s, "f", 2000000000);
	kit_at(&k, 60);
	kit_expect_answer(&k, "rate(cpu[1m])", 60, "{pod=\"x\"} 0.5\n");
	kit_expect_answer(&k, "rate(rec[1m])", 60, "{pod=\"x\"} 0.5\n");
	kit_free(&k);
}

static void gauges(void **state)
{
	struct kit k;
	(void)state;
	kit_init(&k);
	kit_rules(&k, "groups: [{name: a, rules: [{record: rec, profiles: true, expr: heap_inuse_space}]}]");
	kit_put_profile(&k, HEAP, "x", 55, "f", 2048);
	kit_at(&k, 60); /* at once */
	expect_written(&k, "rec{pod=\"x\"} profile @60\n");
	kit_expect_answer(&k, "merge(rec[1m])", 60, "{} 2048\n");
	kit_free(&k);
}

static void refused(void **state)
{
	static const struct {
		const char *expr, *error;
	} cases[] = {
		{ "{pod=\"x\"}", "the newest profile as it stands would be recorded once per evaluation: write merge_over_time(...) of a range as long "
				 "as the group's interval" },
		{ "merge(cpu[1m]) - merge(cpu[1m]) * 2", "the result has a profile with negative values, which cannot be recorded" },
		{ "self(merge(cpu[1m]))", "profiles: true, and the result has numbers" },
		{ "label_replace(merge by (pod) (cpu[1m]), \"pod\", \"\", \"\", \"\")", "" },
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct kit k;
		struct buf b = { 0 };
		kit_init(&k);
		k.o.late_ms = -1;
		buf_printf(&b, "groups: [{name: a, rules: [{record: rec, profiles: true, expr: '%s'}]}]", cases[i].expr);
		kit_rules(&k, b.ptr);
		kit_put_profile(&k, KIT_CPU, "x", 55, "f", 5);
		kit_at(&k, 60);
		buf_reset(&b);
		buf_printf(&b, *cases[i].error ? "rec err: %s\n" : "rec ok%s\n", cases[i].error);
		expect_state(&k, b.ptr);
		expect_written(&k, *cases[i].error ? "" : "rec profile @60\n");
		buf_free(&b);
		kit_free(&k);
	}
}

/* Without profiles: true a profile is its value. */
static void values_of_profiles(void **state)
{
	struct kit k;
	(void)state;
	kit_init(&k);
	kit_rules(&k, "groups: [{name: a, rules: [{record: cores, expr: 'sum by (pod) (rate(cpu[1m]))'}]}]");
	kit_put_profile(&k, KIT_CPU, "x", 60, "f", 6000000000);
	kit_at(&k, 60);
	expect_written(&k, "cores{pod=\"x\"} 0.1 @60\n");
	kit_free(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(deltas_add_up), cmocka_unit_test(a_slot_is_recorded_late), cmocka_unit_test(later_still),
		cmocka_unit_test(lost_commit), cmocka_unit_test(series_of_a_gone_rule_end), cmocka_unit_test(weights_are_recorded), cmocka_unit_test(gauges), cmocka_unit_test(refused), cmocka_unit_test(values_of_profiles),
	};
	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_LOGFMT);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
