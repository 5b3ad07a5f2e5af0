/* SPDX-License-Identifier: Apache-2.0 */
/* Lists and lines in pieces of every size; what is left out, what is an error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>

#include "kube/kube.h"
#include "kube/kube_scan.h"

static int take(void *arg, const json_t *object, struct err *e)
{
	buf_printf(arg, "%s ", kube_text(object, "n"));
	return strcmp(kube_text(object, "n"), "refused") == 0 ? err_set(e, ERR_LIMIT, "refused") : 0;
}

/* What a list gives when it comes in pieces of that size: names, then version and token, or the error. */
static void scan(struct view text, size_t piece, struct buf *out)
{
	struct kube_scan s = { .item = take, .arg = out };
	struct err e = { 0 };
	int rc = 0;
	for (size_t at = 0; at < text.len && !rc; at += piece)
		rc = kube_scan_put(&s, text.ptr + at, MIN(piece, text.len - at), &e);
	if (!rc)
		rc = kube_scan_end(&s, &e);
	if (rc)
		buf_printf(out, "!%s", e.msg);
	else
		buf_printf(out, "@%s %s -%zu", s.version, buf_view(&s.more).ptr, s.left_out);
	kube_scan_release(&s);
}

static void test_lists(void **state)
{
	static const struct { const char *text, *gives; } t[] = {
		{ "{\"metadata\":{\"resourceVersion\":\"7\",\"continue\":\"c\"},\"items\":[{\"n\":\"a\"},{\"n\":\"b\"}]}", "a b @7 c -0" },
		{ " { \"items\" : [ { \"n\" : \"a\" } ] , \"metadata\" : { \"resourceVersion\":\"7\" } } \n", "a @7  -0" },
		{ "{\"items\":null,\"metadata\":{\"resourceVersion\":\"7\"}}", "@7  -0" },
		{ "{\"items\":[]}", "@  -0" },
		{ "{\"a\":[{\"items\":[1,2]},\"]}\\\"\"],\"b\":1,\"c\":null,\"d\":\"x\\\\\",\"e\":{},\"items\":[{\"n\":\"}]\\\"\"}]}", "}]\" @  -0" },
		{ "{\"it\\u0065ms\":[3],\"items\":[{\"n\":\"a\"}],\"a very long key, longer than room\":-1.5e3}", "a @  -0" },
		/* what one may write into an object must not hide the others */
		{ "{\"items\":[{\"n\":\"a\"},{\"x\":123456789012345678901},{\"\\u0000\":1},{\"n\":\"b\"}]}", "a b @  -2" },
		{ "{\"items\":[{\"n\":\"a\",\"x\":\"\\u0000\"}]}", "a @  -0" },
		{ "", "!no JSON: it ends in the middle" },
		{ "{\"items\":[{\"n\":\"a\"}", "a !no JSON: it ends in the middle" },
		{ "{\"items\":[{\"n\":\"a\"}]", "a !no JSON: it ends in the middle" },
		{ "{\"kind\":\"Status\"}", "!the answer is no list" },
		{ "{\"items\":{}}", "!the answer is no list" },
		{ "{\"items\":[1]}", "!no JSON object in item 0" },
		{ "{\"items\":[{\"n\":\"a\"},[]]}", "a !no JSON object in item 1" },
		{ "{\"items\":[{\"n\":[}]}]}", "!no JSON in item 0: unexpected token near '}'" },
		{ "{\"items\":[{\"n\":\"a\"} {}]}", "a !no JSON of a list: something between two items" },
		{ "{\"items\":[{\"n\":\"a\"},]}", "a !no JSON object in item 1" },
		{ "{\"items\":[],\"items\":[]}", "!no JSON of a list: items twice" },
		{ "{\"items\":[]}x", "!no JSON of a list: something behind it" },
		{ "{\"items\" []}", "!no JSON of a list: a key without a value" },
		{ "{\"a\":}", "!no JSON of a list: a member without a value" },
		{ "{,}", "!no JSON of a list: a key is missing" },
		{ "{\"a\":1,}", "!no JSON of a list: a key is missing" },
		{ "{\"a\":1 \"b\":2}", "!no JSON of a list: something between two members" },
		{ "[]", "!no JSON of a list: it does not begin as an object" },
		{ "{\"metadata\":3}", "!no JSON of a list: its metadata" },
		{ "{\"items\":[{\"n\":\"a\"},{\"n\":\"refused\"},{\"n\":\"b\"}]}", "a refused !refused" },
	};
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		for (size_t piece = 1; piece <= strlen(t[i].text) + 1; piece++) {
			struct buf out = { 0 };
			scan(view_of(t[i].text), piece, &out);
			if (strcmp(out.ptr, t[i].gives) != 0)
				fail_msg("%s in pieces of %zu gives %s", t[i].text, piece, out.ptr);
			buf_free(&out);
		}
	}
}

/* An object that is too large is passed over without being kept. */
static void test_too_large(void **state)
{
	static const char first[] = "{\"items\":[{\"n\":\"a\"},{\"n\":\"", last[] = "\"},{\"n\":\"b\"}]}";
	char *x = calloc(1, 1 << 20);
	struct buf out = { 0 };
	struct kube_scan s = { .item = take, .arg = &out };
	struct err e = { 0 };
	memset(x, 'x', 1 << 20);
	assert_int_equal(kube_scan_put(&s, first, strlen(first), &e), 0);
	for (size_t n = 0; n < 3 * KUBE_OBJECT_MAX; n += 1 << 20)
		assert_int_equal(kube_scan_put(&s, x, 1 << 20, &e), 0);
	assert_true(s.value.cap <= 2 * KUBE_OBJECT_MAX);
	assert_int_equal(kube_scan_put(&s, last, strlen(last), &e), 0);
	assert_int_equal(kube_scan_end(&s, &e), 0);
	assert_int_equal(s.left_out, 1);
	assert_string_equal(out.ptr, "a b ");
	kube_scan_release(&s);
	buf_free(&out);
	free(x);
}

static bool take_line(void *arg, struct view line)
{
	buf_printf(arg, "<%.*s>", VIEW_ARG(line));
	return !view_eqs(line, "end");
}

static void test_lines(void **state)
{
	static const char text[] = "a\n\nbc\nend\nd\n";
	for (size_t piece = 1; piece <= sizeof text; piece++) {
		struct buf out = { 0 };
		struct kube_lines l = { .line = take_line, .arg = &out };
		bool more = true;
		for (size_t at = 0; at < strlen(text) && more; at += piece)
			more = kube_lines_put(&l, text + at, MIN(piece, strlen(text) - at));
		assert_false(more);
		assert_string_equal(out.ptr, "<a><bc><end>");
		kube_lines_release(&l);
		buf_free(&out);
	}
}

static void take_long(void *arg)
{
	buf_puts(arg, "<too long>");
}

/* A line that is too long is passed over without being kept. */
static void test_long_line(void **state)
{
	char *x = calloc(1, 1 << 20);
	struct buf out = { 0 };
	struct kube_lines l = { .line = take_line, .too_long = take_long, .arg = &out };
	memset(x, 'x', 1 << 20);
	assert_true(kube_lines_put(&l, "a\n", 2));
	for (size_t n = 0; n < 3 * KUBE_OBJECT_MAX; n += 1 << 20)
		assert_true(kube_lines_put(&l, x, 1 << 20));
	assert_true(l.part.cap <= 2 * KUBE_OBJECT_MAX);
	assert_true(kube_lines_put(&l, "x\nb\n", 4));
	assert_string_equal(out.ptr, "<a><too long><b>");
	kube_lines_release(&l);
	buf_free(&out);
	free(x);
}

static void test_events(void **state)
{
	struct kube_event ev;
	struct err e;
	assert_int_equal(kube_event_read(&ev, VIEW("{\"type\":\"MODIFIED\",\"object\":{\"metadata\":{\"resourceVersion\":\"9\"}}}"), &e), 0);
	assert_int_equal(ev.type, KUBE_PUT);
	assert_string_equal(ev.version, "9");
	kube_event_release(&ev);
	assert_int_equal(kube_event_read(&ev, VIEW("{\"type\":\"ERROR\"}"), &e), 0);
	kube_event_release(&ev);
	static const char *const bad[] = { "[]", "{}", "{\"type\":\"ADDED\"}", "{\"type\":\"DELETED\",\"object\":3}", "x" };
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(kube_event_read(&ev, view_of(bad[i]), &e), -ERR_BAD_DATA);
	struct buf deep = { 0 };
	buf_puts(&deep, "{\"type\":\"ADDED\",\"object\":{\"a\":");
	for (int i = 0; i < 3000; i++)
		buf_puts(&deep, "[");
	const char *const left_out[] = { "{\"type\":\"ADDED\",\"object\":{\"a\\u0000\":1}}", "{\"type\":\"ADDED\",\"object\":{\"a\":1e999}}", deep.ptr };
	for (size_t i = 0; i < ARRAY_LEN(left_out); i++)
		assert_int_equal(kube_event_read(&ev, view_of(left_out[i]), &e), -ERR_LIMIT);
	buf_free(&deep);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_lists), cmocka_unit_test(test_too_large), cmocka_unit_test(test_lines),
					    cmocka_unit_test(test_long_line), cmocka_unit_test(test_events) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
