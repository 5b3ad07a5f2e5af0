/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "model/frame.h"
#include "model/labels.h"
#include "model/matcher.h"
#include "model/ptype.h"
#include "model/selector.h"
#include "model/selector_probes.h"

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
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(selector_probes); i++) {
		const struct selector_probe *p = &selector_probes[i];
		struct selector s;
		struct err e = { 0 };
		struct buf got = { 0 }, byte = { 0 };
		int rc = selector_parse(&s, view_of(p->text), &e);
		buf_printf(&byte, ": byte %u: ", p->byte);
		selector_shape(s.m.v, s.m.n, &got);
		if (!rc != !!p->shape || (rc && (!strstr(e.msg, p->error) || !strstr(e.msg, byte.ptr))))
			fail_msg("%s: %s", p->text, rc ? e.msg : "is read");
		if (p->shape)
			assert_string_equal(buf_view(&got).ptr, p->shape);
		buf_free(&got);
		buf_free(&byte);
		selector_release(&s);
	}
}

/* What labels_format writes is a selector: the agent tells its targets by such. */
static void test_packages(void **state)
{
	(void)state;
	static const struct { const char *name, *binary, *file, *want; } T[] = {
		{ "encoding/json.(*Decoder).Decode", "x", "", "encoding/json" },
		{ "std::vector<int>::push_back", "x", "", "std::vector<int>" },
		{ "memcpy", "libc.so.6", "string.c", "libc.so.6" },
		{ "primes.<locals>.<listcomp>", "[python]", "/app/shop/cart.py", "cart" },
		{ "<module>", "[python]", "/app/shop/__init__.py", "shop" },
		{ "<module>", "[python]", "/__init__.py", "__init__" },
		{ "dot", "[python]", "/usr/lib/python3/dist-packages/numpy/core/x.py", "numpy" },
		{ "loads", "[python]", "/usr/lib/python3.11/json/__init__.py", "json" },
		{ "parse", "[python]", "/v/lib/python3.9/site-packages/six.py", "six" },
		{ "_find", "[python]", "<frozen importlib._bootstrap>", "importlib" },
		{ "_walk", "[python]", "<frozen os>", "os" },
		{ "f", "[python]", "/opt/python3.x/y.py", "y" },
		{ "[python: changed]", "[python]", "", "[python]" },
		{ "next", "[v8]", "/a/node_modules/b/node_modules/@x/y/lib/z.js", "@x/y" },
		{ "next", "[v8]", "/a/node_modules/express/router.js", "express" },
		{ "step", "[v8]", "node:internal/timers", "node" },
		{ "f", "[v8]", "file:///app/shop.min.mjs", "shop" },
		{ "java.util.HashMap.get", "[hotspot]", "HashMap.java", "java.util" },
		{ "Shop.main", "[hotspot]", "Shop.java", "Shop" },
		{ "Interpreter", "[hotspot]", "", "[hotspot]" },
	};
	for (size_t i = 0; i < ARRAY_LEN(T); i++) {
		struct view got = frame_package(view_of(T[i].name), view_of(T[i].binary), view_of(T[i].file));
		if (!view_eq(got, view_of(T[i].want)))
			fail_msg("%s of %s: %.*s, not %s", T[i].name, T[i].file, (int)got.len, got.ptr, T[i].want);
	}
}

static void test_formatted_labels(void **state)
{
	(void)state;
	struct label l[] = { { VIEW("container"), VIEW("a\"b\\c\n\t\r\x01\x7f") }, { VIEW("x.y"), VIEW("gr\xc3\xbc\xc3\x9f") } };
	struct buf text = { 0 };
	struct selector s;
	struct err e = { 0 };
	labels_format((struct labels){ l, ARRAY_LEN(l) }, &text);
	if (selector_parse(&s, buf_view(&text), &e))
		fail_msg("%s", e.msg);
	assert_int_equal(s.m.n, ARRAY_LEN(l));
	for (size_t i = 0; i < ARRAY_LEN(l); i++) {
		assert_true(view_eq(s.m.v[i].name, l[i].name));
		assert_true(view_eq(s.m.v[i].value, l[i].value));
	}
	selector_release(&s);
	buf_free(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_labels), cmocka_unit_test(test_matchers), cmocka_unit_test(test_types),
		cmocka_unit_test(test_selectors), cmocka_unit_test(test_packages), cmocka_unit_test(test_formatted_labels),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
