/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "model/labels.h"
#include "model/matcher.h"
#include "model/ptype.h"
#include "model/selector.h"

static void test_labels(void **state)
{
	struct labels_builder b;
	labels_builder_init(&b, (struct labels){ 0 });
	labels_builder_set(&b, VIEW("pod"), VIEW("a\"b"));
	labels_builder_set(&b, VIEW("__name__"), VIEW("cpu"));
	labels_builder_set(&b, VIEW("x.y"), VIEW("1"));
	labels_builder_set(&b, VIEW("gone"), VIEW("1"));
	labels_builder_set(&b, VIEW("gone"), VIEW(""));
	struct labels *l = labels_dup(labels_builder_finish(&b));
	struct buf out = { 0 };
	labels_format(*l, &out);
	assert_string_equal(out.ptr, "cpu{pod=\"a\\\"b\", \"x.y\"=\"1\"}");
	assert_true(labels_eq(*l, labels_builder_finish(&b)));
	assert_int_equal(labels_hash(*l), labels_hash(labels_builder_finish(&b)));
	buf_free(&out);
	free(l);
	labels_builder_free(&b);
}

static void test_matchers(void **state)
{
	struct matcher m;
	struct err e;
	assert_int_equal(matcher_init(&m, MATCH_NRE, VIEW("pod"), VIEW("a|b\"c"), &e), 0);
	assert_int_equal(matcher_matches(&m, VIEW("a"), NULL, &e), 0);
	assert_int_equal(matcher_matches(&m, VIEW("ab"), NULL, &e), 1);
	matcher_release(&m);
}

static void test_types(void **state)
{
	size_t n;
	const struct ptype_row *rows = ptype_table(&n);
	for (size_t i = 0; i < n; i++) {
		struct ptype t;
		assert_true(ptype_parse(view_of(rows[i].name), &t));
		struct buf out = { 0 };
		ptype_format(&t, &out);
		assert_string_equal(out.ptr, rows[i].name);
		buf_reset(&out);
		ptype_title(&t, &out);
		assert_string_equal(out.ptr, rows[i].title);
		buf_free(&out);
	}
	static const char *const tutorial[][2] = { /* as its readers look for them */
		{ "on_cpu", "On-CPU" }, { "cpu", "Process CPU Nanoseconds" }, { "cpu_samples", "Process CPU Samples" }, { "heap_inuse_space", "Memory In-Use Bytes" },
	};
	struct ptype t;
	for (size_t i = 0; i < ARRAY_LEN(tutorial); i++) {
		struct buf out = { 0 };
		assert_true(ptype_parse(ptype_alias(view_of(tutorial[i][0])), &t));
		ptype_title(&t, &out);
		assert_string_equal(out.ptr, tutorial[i][1]);
		buf_free(&out);
	}
	assert_false(ptype_parse(VIEW("up"), &t));
	assert_false(ptype_parse(VIEW("a:b:c:d:e:f"), &t));
	assert_true(view_eqs(ptype_alias(VIEW("cpu")), "process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta"));
	assert_int_equal(ptype_default_kind(VIEW("memory"), VIEW("alloc_space"), VIEW("bytes"), true), PROFILE_CUMULATIVE);
	assert_int_equal(ptype_default_kind(VIEW("wall"), VIEW("wall"), VIEW("ns"), true), PROFILE_DELTA);
}

static void test_selectors(void **state)
{
	static const struct { const char *text; size_t n; } good[] = {
		{ "{container=\"echoserver\"}", 1 }, { "<container=\"echo\\\"server\", pod!~\"a.*\">", 2 }, { "on_cpu", 1 },
		{ "on_cpu{ a != \"b\" , }", 2 }, { "{\"on_cpu\", \"x.y\"='1'}", 2 }, { "{}", 0 },
	};
	static const struct { const char *text, *error; } bad[] = {
		{ "", "byte 1: a selector is expected" }, { "{a=\"b\"", "byte 7: a comma or the end of the selector" }, { "{a}", "byte 3: one of = != =~ !~" },
		{ "{a=b}", "byte 4: a quoted string" }, { "{a=\"b\"} x", "byte 9: nothing may follow" }, { "{a=\"\\q\"}", "unknown escape" },
		{ "{a=~\"(\"}", "error parsing regexp" },
	};
	struct selector s;
	struct err e;
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		assert_int_equal(selector_parse(&s, view_of(good[i].text), &e), 0);
		assert_int_equal(s.m.n, good[i].n);
		selector_release(&s);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_true(selector_parse(&s, view_of(bad[i].text), &e) < 0);
		if (!strstr(e.msg, bad[i].error))
			fail_msg("%s: %s", bad[i].text, e.msg);
		selector_release(&s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_labels), cmocka_unit_test(test_matchers), cmocka_unit_test(test_types),
		cmocka_unit_test(test_selectors),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
