/* SPDX-License-Identifier: Apache-2.0 */
/* Rules that are tried over the past: what their alerts would have done, and that nothing of it is written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

#include "rules/testkit.h"

/* Seconds since the start, as long as the time of a slot is less than a minute after what a test says. */
static long long since(int64_t t_ms)
{
	return t_ms ? (long long)(t_ms / 60000 * 60) : 0;
}

static int ask(struct kit *k, const char *text, int64_t start_s, int64_t end_s, struct past_answer *ret, struct err *e)
{
	static const atomic_bool never;
	struct rules_past *p = rules_past(k->rules);
	const struct past_question q = { view_of(text), VIEW("try.yml"), start_s * 1000, end_s * 1000, 60000, .canceled = &never };
	return p->evaluate(p, &q, ret, e);
}

static void expect_tried(struct kit *k, const char *text, int64_t start_s, int64_t end_s, const char *want)
{
	struct past_answer a;
	struct err e = { 0 };
	struct buf b = { 0 };
	if (ask(k, text, start_s, end_s, &a, &e))
		fail_msg("%s", e.msg);
	for (size_t i = 0; i < a.n_alerts; i++) {
		labels_format(a.alerts[i].labels, &b);
		buf_printf(&b, " %lld %lld %lld value %g\n", since(a.alerts[i].active_at_ms), since(a.alerts[i].fired_at_ms),
			   since(a.alerts[i].ended_at_ms), a.alerts[i].value);
	}
	for (size_t i = 0; i < a.n_warnings; i++)
		buf_printf(&b, "%.*s\n", VIEW_ARG(a.warnings[i]));
	kit_expect(&b, want, __FILE__, __LINE__);
	buf_free(&b);
	arena_free(&a.arena);
}

static void begin(struct kit *k)
{
	kit_init(k);
	kit_rules(k, "groups: []");
	for (int m = 0; m < 60; m++) {
		kit_set(k, "load", "pod=a", m * 60, m >= 10 && m < 20 ? 5 : 1);
		kit_set(k, "load", "pod=b", m * 60, m == 30 ? 7 : 1);
	}
}

/* Pending, firing, resolved; pending once and gone; still firing at the end. */
static void tells_when_alerts_would_have_fired(void **state)
{
	struct kit k;
	(void)state;
	begin(&k);
	expect_tried(&k, "groups: [{name: a, interval: 1m, rules: [{alert: A, expr: 'load > 3', for: 3m, labels: {s: p}}]}]", 0, 3540,
		     "{alertname=\"A\", pod=\"a\", s=\"p\"} 600 780 1200 value 5\n{alertname=\"A\", pod=\"b\", s=\"p\"} 1800 0 1860 value 7\n");
	expect_tried(&k, "groups: [{name: a, interval: 1m, rules: [{alert: A, expr: 'load > 3'}]}]", 0, 900,
		     "{alertname=\"A\", pod=\"a\"} 600 600 0 value 5\n");
	expect_written(&k, "");
	expect_told(&k, "");
	kit_free(&k);
}

/* What the file's rules write is seen by those after them; what is stored under that name is not. */
static void later_rules_see_what_is_not_written(void **state)
{
	struct kit k;
	(void)state;
	begin(&k);
	for (int m = 0; m < 60; m++)
		kit_set(&k, "pod:load", "pod=z", m * 60, 100);
	expect_tried(&k, "groups: [{name: a, interval: 1m, rules: [{record: 'pod:load', expr: 'load'}, {record: twice, expr: '2 * pod:load'},"
		     "{alert: B, expr: 'max_over_time(twice[2m]) > 6', for: 2m}, {alert: C, expr: 'count(ALERTS{alertname=\"B\", alertstate=\"firing\"})'}]}]",
		     0, 3540, "{alertname=\"B\", pod=\"a\"} 600 720 1260 value 10\n{alertname=\"C\"} 720 720 1260 value 1\n"
		     "{alertname=\"B\", pod=\"b\"} 1800 0 1920 value 14\n");
	expect_written(&k, "");
	kit_free(&k);
}

/* Labels and annotations are what somebody else writes: they have a bound, whoever holds them. */
static void what_is_tried_has_a_bound(void **state)
{
	static const char of_alerts[] = "labels and annotations of all alerts", written[] = "what the rules write takes more";
	static const struct { const char *text, *error; } rules[] = {
		{ "{alert: A, expr: '%s', annotations: {a: '%s'}}", of_alerts }, { "{alert: A, expr: '%s', labels: {a: '%s'}}", of_alerts },
		{ "{record: r, expr: '%s', labels: {a: '%s'}}, {record: s, expr: 'count(r)'}", written },
		{ "{record: r, expr: 'label_replace(%s, \"a\", \"%s\", \"\", \"\")'}, {record: s, expr: r}", written },
	};
	char *wide = malloc(2001);
	struct kit k;
	(void)state;
	begin(&k);
	memset(wide, 'x', 2000);
	wide[2000] = 0;
	k.rules->o.memory_bytes = 128 << 10;
	for (size_t i = 0; i < ARRAY_LEN(rules); i++)
		for (int many = 0; many < 2; many++) {
			struct buf text = { 0 };
			struct past_answer a;
			struct err e = { 0 };
			buf_puts(&text, "groups: [{name: a, interval: 1m, rules: [");
			buf_printf(&text, rules[i].text, many ? "count_values(\"t\", vector(time())) or last_over_time(load[1h])" : "vector(1)", wide);
			buf_puts(&text, many ? "]}, {name: b, interval: 1s, rules: [" : "]}]");
			if (many) {
				buf_printf(&text, rules[i].text, "count_values(\"t\", vector(time()))", wide);
				buf_puts(&text, "]}]");
			}
			int rc = ask(&k, text.ptr, 0, many ? 3540 : 60, &a, &e);
			bool told = rc ? strstr(e.msg, rules[i].error) != NULL : a.n_warnings && memmem(a.warnings[0].ptr, a.warnings[0].len, rules[i].error, strlen(rules[i].error));
			if (told != many)
				fail_msg("%zu, %d: %d %s %.*s", i, many, rc, e.msg, rc || !a.n_warnings ? 0 : (int)a.warnings[0].len, rc ? "" : a.warnings[0].ptr);
			if (!rc)
				arena_free(&a.arena);
			buf_free(&text);
		}
	kit_free(&k);
	free(wide);
}

/* A file of the same name and a group of the same name: wherever the file lies, the slots are the server's. */
static void slots_are_those_of_the_group(void **state)
{
	static const char text[] = "groups: [{name: a, interval: 1m, rules: [{alert: A, expr: 'vector(1)'}]}]";
	static const atomic_bool never;
	struct past_answer a;
	struct kit k;
	struct err e = { 0 };
	(void)state;
	kit_init(&k);
	kit_rules(&k, text);
	struct rules_past *p = rules_past(k.rules);
	const struct past_question q = { view_of(text), VIEW("/some/where/r.yml"), 600000, 1200000, 60000, .canceled = &never };
	assert_int_equal(p->evaluate(p, &q, &a, &e), 0);
	assert_int_equal(a.n_alerts, 1);
	assert_int_equal(a.alerts[0].active_at_ms, group_slot(k.rules->groups.v[0], 599999) + 60000);
	arena_free(&a.arena);
	kit_free(&k);
}

/* An hour of profiles; f eats more than half from 20 to 30 minutes on. */
static void put_hour(struct kit *k)
{
	unsigned r = 1;
	for (int64_t s = 10; s <= 3600; s += 10)
		for (int p = 0; p < 2; p++) {
			r = r * 1103515245 + 12345;
			kit_put_profile(k, KIT_CPU, p ? "y" : "x", s - p, !p && s > 1200 && s <= 1800 ? "f" : r >> 16 & 1 ? "g" : "h", (r >> 8 & 1023) + 1);
		}
}

#define RECORD "{record: rec, profiles: true, expr: 'merge by (pod) (cpu[1m])'}"

/* Rules that read recorded profiles see those that the file records, as late as the server would have recorded them; also beside what is stored, and what is stored under
 * that name they do not see. */
static void recorded_profiles_are_tried(void **state)
{
	struct kit k;
	(void)state;
	kit_init(&k);
	kit_rules(&k, "groups: []");
	put_hour(&k);
	kit_put_profile(&k, KIT_CPU, "x", 605, "f", 1000000);
	kit_set(&k, "rec", "pod=z", 600, 1000000);
	expect_tried(&k, "groups: [{name: a, interval: 1m, rules: [" RECORD ", {alert: A, expr: 'share(rec, {function=\"f\"}) > 0.9', for: 2m}]}]",
		     0, 3540, "{alertname=\"A\", pod=\"x\"} 660 0 720 value 0.997644\n{alertname=\"A\", pod=\"x\"} 1320 1440 1860 value 1\n");
	expect_tried(&k, "groups: [{name: a, interval: 1m, rules: [" RECORD ", {alert: B, expr: 'round(1e9 * value(merge({__name__=~\"rec|process_cpu:.*\"}[50m]))) == "
		     "round(1e9 * (value(merge(rec[50m])) + value(merge(cpu[50m]))))'}, {alert: C, expr: 'abs(round(1e9 * (total(merge({__name__=~\"rec|process_cpu:.*\"}[50m]), "
		     "{function=\"g\"}) - total(merge(cpu[50m]), {function=\"g\"}) - total(merge(rec[50m]), {function=\"g\"}))))'}]}]",
		     3300, 3540, "{alertname=\"B\"} 3300 3300 0 value 1.34309e+06\n{alertname=\"C\"} 3300 3300 0 value 0\n");
	expect_written(&k, "");
	kit_free(&k);
}

static uint64_t record_past(struct kit *k, const char *name, int64_t start_s, int64_t end_s, uint64_t *ret_there)
{
	static const atomic_bool never;
	struct past_answer a;
	struct err e = { 0 };
	struct rules_past *p = rules_past(k->rules);
	const struct past_question q = { VIEW("groups: [{name: a, interval: 1m, rules: [" RECORD ", {record: n, expr: 'value(rec)'}]}]"), view_of(name),
					 start_s * 1000, end_s * 1000, 60000, .record = true, .canceled = &never };
	if (p->evaluate(p, &q, &a, &e))
		fail_msg("%s", e.msg);
	uint64_t written = a.written;
	*ret_there = a.there;
	assert_int_equal(a.n_warnings, 0);
	arena_free(&a.arena);
	return written;
}

/* What is recorded of the past adds up to the source. What is there stays, also what has other stamps: nothing counts twice. */
static void recorded_profiles_of_the_past(void **state)
{
	struct kit k;
	uint64_t there;
	(void)state;
	kit_init(&k);
	kit_rules(&k, "groups: []");
	put_hour(&k);
	record_past(&k, "r.yml", 1800, 2400, &there);
	assert_int_equal(there, 0);
	uint64_t written = record_past(&k, "r.yml", 60, 3590, &there);
	assert_in_range(there, 20, 22);
	assert_in_range(written, 150, 250);
	int64_t newest = 0; /* less than a second after the slot; profiles are of whole seconds */
	for (int64_t s = 3500; s < 3600; s++) {
		struct buf b = { 0 };
		kit_ask(&k, "count(count_over_time(rec[1s]))", s, &b);
		newest = b.len ? s : newest;
		buf_free(&b);
	}
	kit_expect_same(&k, "sort_by_label(total(merge by (pod) (cpu[55m] offset 1s)), \"pod\", \"function\")",
			"sort_by_label(total(merge by (pod) (rec[55m])), \"pod\", \"function\")", newest);
	buf_reset(&k.written);
	written = record_past(&k, "r.yml", 60, 3590, &there);
	assert_in_range(there, 110, 125);
	record_past(&k, "other.yml", 60, 3590, &there);
	assert_in_range(there, 110, 125);
	assert_null(strstr(k.written.ptr, "profile"));
	kit_free(&k);
}

static void says_what_is_wrong(void **state)
{
	struct kit k;
	struct past_answer a;
	struct err e = { 0 };
	(void)state;
	begin(&k);
	expect_tried(&k, "groups: [{name: a, interval: 1m, rules: [{record: x, expr: 'label_replace(load, \"pod\", \"\", \"\", \"\")'}]}]", 0, 120,
		     "x of group a failed 2 of 2 times, at last: 1:1: vector cannot contain metrics with the same labelset\n");
	assert_int_equal(ask(&k, "groups: [{name: a, rules: [{alert: A, expr: '1 +'}]}]", 0, 60, &a, &e), -ERR_BAD_DATA);
	assert_non_null(strstr(e.msg, "try.yml:1:"));
	assert_int_equal(ask(&k, "groups: [{name: a, interval: 1s, rules: [{alert: A, expr: '1'}]}]", 0, 3000000, &a, &e), -ERR_LIMIT);
	assert_int_equal(ask(&k, "groups: []", 60, 0, &a, &e), -ERR_BAD_DATA);
	kit_free(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tells_when_alerts_would_have_fired),
		cmocka_unit_test(later_rules_see_what_is_not_written),
		cmocka_unit_test(recorded_profiles_are_tried),
		cmocka_unit_test(recorded_profiles_of_the_past),
		cmocka_unit_test(slots_are_those_of_the_group),
		cmocka_unit_test(says_what_is_wrong),
		cmocka_unit_test(what_is_tried_has_a_bound),
	};
	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_LOGFMT);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
