/* SPDX-License-Identifier: Apache-2.0 */
/* Rule files: what they say, and all that is wrong with one, with its place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

#include "config/config_top.h"
#include "rules/place.h"
#include "rules/rules.h"

static void note(void *arg, const char *text)
{
	buf_printf(arg, "%s\n", text);
}

static const struct config_global global = { .evaluation_interval_ms = 60000, .rule_query_offset_ms = 1000 };

static struct rules_config *good(const char *text)
{
	struct rules_config *c = NULL;
	struct err e = { 0 };
	if (rules_config_read(&c, view_of(text), "r.yml", &global, NULL, &e))
		fail_msg("%s", e.msg);
	return c;
}

/* All problems, one a line. */
static void bad(const char *text, const char *want)
{
	struct rules_config *c = NULL;
	struct err e = { 0 };
	struct buf all = { 0 };
	const struct rules_how how = { .problem = note, .arg = &all };
	assert_int_not_equal(rules_config_read(&c, view_of(text), "r.yml", &global, &how, &e), 0);
	assert_string_equal(all.ptr, want);
	assert_memory_equal(e.msg, want, strcspn(want, "\n"));
	buf_free(&all);
}

static void what_it_says(void **state)
{
	(void)state;
	struct rules_config *c = good(
		"groups:\n"
		"- name: a\n"
		"  interval: 15s\n"
		"  query_offset: 2s\n"
		"  limit: 7\n"
		"  labels: {team: x, side: left}\n"
		"  rules:\n"
		"  - record: job:up:sum\n"
		"    expr: sum by(job) (up)\n"
		"    labels: {side: right}\n"
		"  - alert: Down\n"
		"    expr: up == 0\n"
		"    for: 5m\n"
		"    keep_firing_for: 1m\n"
		"    annotations: {summary: gone}\n"
		"- name: b\n"
		"  rules: []\n");
	assert_int_equal(c->n_groups, 2);
	const struct rule_group *g = &c->groups[0];
	assert_int_equal(g->interval_ms, 15000);
	assert_int_equal(g->query_offset_ms, 2000);
	assert_int_equal(g->limit, 7);
	assert_int_equal(g->n_rules, 2);
	assert_true(view_eqs(labels_get(g->rules[0].labels, VIEW("side")), "right"));
	assert_true(view_eqs(labels_get(g->rules[0].labels, VIEW("team")), "x"));
	assert_true(view_eqs(g->rules[0].canonical, "sum by (job) (up)"));
	assert_true(g->rules[1].alerting);
	assert_int_equal(g->rules[1].for_ms, 300000);
	assert_int_equal(g->rules[1].keep_firing_for_ms, 60000);
	assert_true(view_eqs(labels_get(g->rules[1].annotations, VIEW("summary")), "gone"));
	assert_int_equal(g->rules[1].line, 11);
	assert_int_equal(c->groups[1].interval_ms, 60000);
	assert_int_equal(c->groups[1].query_offset_ms, 1000);
	rules_config_unref(c);
}

static void all_errors_at_once(void **state)
{
	(void)state;
	bad("groups:\n"
	    "- name: a\n"
	    "  intervall: 1m\n"
	    "  rules:\n"
	    "  - record: x\n"
	    "    expr: sum(\n"
	    "    for: 1m\n"
	    "  - alert: y\n"
	    "    expr: up\n"
	    "    for: soon\n"
	    "    labels: {__name__: z}\n"
	    "  - record: a\n"
	    "    alert: b\n"
	    "  - expr: up\n"
	    "- name: a\n"
	    "- rules: []\n",
	    "r.yml:3:3: field groups[0]: field intervall is not known in a group\n"
	    "r.yml:7:10: field groups[0].rules[0]: invalid field 'for' in recording rule\n"
	    "r.yml:6:15: field groups[0].rules[0].expr: could not parse expression: parse error: unexpected end of input\n"
	    "r.yml:10:10: field groups[0].rules[1].for: \"soon\" is not a duration; write for example 15s, 1m or 1h30m\n"
	    "r.yml:11:14: field groups[0].rules[1].labels.__name__: invalid label name: __name__\n"
	    "r.yml:12:5: field groups[0].rules[2]: only one of 'record' and 'alert' must be set\n"
	    "r.yml:12:5: field groups[0].rules[2].expr: field 'expr' must be set in rule\n"
	    "r.yml:14:5: field groups[0].rules[3]: one of 'record' or 'alert' must be set\n"
	    "r.yml:15:3: field groups[1]: groupname: \"a\" is repeated in the same file\n"
	    "r.yml:16:3: field groups[2]: Groupname must not be empty\n");
}

static void names_of_profiles(void **state)
{
	(void)state;
	bad("groups: [{name: a, rules: [\n"
	    "{record: cpu, expr: '1'},\n"
	    "{record: 'a{b}', expr: '1'},\n"
	    "{record: 'process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta', expr: '1'},\n"
	    "{record: 'mine:waits:count:waits:count', expr: '1'}]}]\n",
	    "r.yml:2:10: field groups[0].rules[0].record: cpu is an alias for process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta: "
	    "record under another name\n"
	    "r.yml:3:10: field groups[0].rules[1].record: braces present in the recording rule name; should it be in expr?: a{b}\n"
	    "r.yml:4:10: field groups[0].rules[2].record: process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta is the name of a profile type: "
	    "record under another name\n"
	    "r.yml:5:10: field groups[0].rules[3].record: mine:waits:count:waits:count is the name of a profile type: record under another "
	    "name\n");
	/* the Kubernetes mixin's */
	rules_config_unref(good("groups: [{name: a, rules: [{record: 'cluster:namespace:pod_memory:active:kube_pod_requests', expr: '1'}]}]"));
}

static void recorded_profiles(void **state)
{
	(void)state;
	static const struct {
		const char *expr, *error; /* NULL: a gauge, "": a delta */
	} cases[] = {
		{ "merge by (pod) (cpu[1m])", "" },
		{ "merge_over_time(cpu[1m])", "" },
		{ "sum by (pod) (increase(cpu{a=\"b\"}[1m] offset 5m))", "" },
		{ "focus(merge(cpu[1m]), \"x\") * 2 + merge(cpu[1m])", "" },
		{ "merge(heap_inuse_space[5m])", NULL },
		{ "heap_inuse_space", NULL },
		{ "rate(cpu[5m])", NULL },
		{ "merge(cpu[5m])", "the range of what is recorded as profiles is 5m, and the group's interval 1m: they have to be equal, so that each "
				    "profile counts once" },
		{ "merge(cpu[1m] @ 5)", "@ in what profiles are recorded of: they would count once per evaluation" },
		{ "sum by (pod) (cpu)", "the newest profile as it stands would be recorded once per evaluation: write merge_over_time(...) of a range as "
					"long as the group's interval" },
		{ "merge(cpu[1m]) - heap_inuse_space", "what is recorded as profiles puts together what was observed in an interval and something else" },
		{ "1", "only an instant vector can be recorded as profiles, this is a scalar" },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct buf text = { 0 };
		struct rules_config *c = NULL;
		struct err e = { 0 };
		buf_printf(&text, "groups: [{name: a, rules: [{record: r, profiles: true, expr: '%s'}]}]", cases[i].expr);
		int rc = rules_config_read(&c, buf_view(&text), "r.yml", &global, NULL, &e);
		if (cases[i].error && *cases[i].error) {
			assert_int_not_equal(rc, 0);
			if (!strstr(e.msg, cases[i].error))
				fail_msg("%s: %s", cases[i].expr, e.msg);
		} else {
			if (rc)
				fail_msg("%s: %s", cases[i].expr, e.msg);
			assert_int_equal(c->groups[0].rules[0].delta, cases[i].error != NULL);
			rules_config_unref(c);
		}
		buf_free(&text);
	}
}

/* Where an error within an expression is, however YAML wrote it. */
static void places_in_expressions(void **state)
{
	(void)state;
	static const struct {
		const char *expr, *place;
	} cases[] = {
		{ "expr: sum(up) + )", "r.yml:4:21: " },
		{ "expr: 'a + )'", "r.yml:4:16: " },
		{ "expr: \"{a=\\\"b\\\"} + )\"", "r.yml:4:24: " },
		{ "expr: |\n      sum(up)\n        + )", "r.yml:6:11: " },
		{ "expr: >-\n      sum(up)\n\n      + )", "r.yml:7:9: " },
		{ "expr: up\n      + )", "r.yml:5:9: " },
		{ "expr: '{a=\"\xc3\xa4\xc3\xb6\"} + )'", "r.yml:4:23: " },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct buf text = { 0 };
		struct rules_config *c = NULL;
		struct err e = { 0 };
		buf_printf(&text, "groups:\n- name: a\n  rules:\n  - %s\n    record: x\n", cases[i].expr);
		assert_int_not_equal(rules_config_read(&c, buf_view(&text), "r.yml", &global, NULL, &e), 0);
		if (strncmp(e.msg, cases[i].place, strlen(cases[i].place)) != 0)
			fail_msg("%s: %s", cases[i].expr, e.msg);
		buf_free(&text);
	}
}

/* What is wrong with a template is told with its place, too. */
static void templates(void **state)
{
	(void)state;
	bad("groups:\n- name: a\n  rules:\n  - alert: A\n    expr: up\n    labels: {sev: '{{ if }}x'}\n    annotations:\n"
	    "      ok: '{{ $labels.x }}'\n      text: >-\n        one two\n        three {{ $nothing }}\n  - record: b\n    expr: up\n"
	    "    labels: {x: '{{ no template'}\n",
	    "r.yml:6:26: field groups[0].rules[0].labels: label \"sev\": template: __alert_A:1:6: missing value for if\n"
	    "r.yml:11:18: field groups[0].rules[0].annotations: annotation \"text\": template: __alert_A:1:17: undefined variable "
	    "\"$nothing\"\n");
}

static void unknown_fields_may_pass(void **state)
{
	(void)state;
	struct rules_config *c = NULL;
	struct err e = { 0 };
	const struct rules_how how = { .ignore_unknown_fields = true };
	assert_int_equal(rules_config_read(&c, VIEW("namespace: n\ngroups: [{name: a, source_tenants: [x], rules: [{record: b, expr: '1', x: y}]}]"),
					   "r.yml", &global, &how, &e), 0);
	rules_config_unref(c);
	bad("namespace: n\n", "r.yml:1:1: field namespace is not known in a rule file\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_it_says), cmocka_unit_test(all_errors_at_once), cmocka_unit_test(names_of_profiles),
		cmocka_unit_test(recorded_profiles), cmocka_unit_test(places_in_expressions), cmocka_unit_test(unknown_fields_may_pass), cmocka_unit_test(templates),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
