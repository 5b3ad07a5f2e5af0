/* SPDX-License-Identifier: Apache-2.0 */
/* The text format: what is read from each line, and what is not of it. Each row of `lines` is what Prometheus says of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/map.h"
#include "base/num.h"
#include "model/value.h"
#include "scraper/text/text_metrics.h"

/* The entries as lines: `name{labels} value @time`, `TYPE name text`, `HELP name text`; or the error. Returns owned. */
static char *read_all(struct view body)
{
	struct text_metrics t;
	struct arena a;
	struct buf out = { 0 };
	struct err e = { 0 };
	char value[NUM_LEN];
	int kind;
	arena_init(&a, 0);
	text_metrics_init(&t, body);
	while ((kind = text_metrics_next(&t, &e)) > 0) {
		struct labels l;
		if (kind != TEXT_SAMPLE) {
			buf_printf(&out, "%s %.*s %.*s\n", kind == TEXT_TYPE ? "TYPE" : "HELP", VIEW_ARG(t.name), VIEW_ARG(t.text));
			continue;
		}
		if ((kind = text_metrics_labels(&t, &a, &l, &e)))
			break;
		labels_format(l, &out);
		buf_printf(&out, " %s", num_format(t.value, value));
		if (t.has_t)
			buf_printf(&out, " @%lld", (long long)t.t_ms);
		buf_putc(&out, '\n');
	}
	if (kind < 0)
		buf_printf(&out, "error: %s", e.msg);
	text_metrics_release(&t);
	arena_free(&a);
	return buf_take(&out, NULL);
}

static const struct { const char *body, *want; } lines[] = {
	{ "", "" },
	{ "\n \n\t\n", "" },
	{ "a 1", "a 1\n" },
	{ "a 1\nb 2\n", "a 1\nb 2\n" },
	{ "a{} 1\n", "a 1\n" },
	{ "a:b_9{c=\"d\",e=\"f\",} -1.5e3 1700000000123\n", "a:b_9{c=\"d\", e=\"f\"} -1500 @1700000000123\n" },
	{ "a \t{ c = \"d\" , e = \"f\" } \t 1 \t 5 \t\n", "a{c=\"d\", e=\"f\"} 1 @5\n" },
	{ "a{c=\"d\"e=\"f\"}1\n", "a{c=\"d\", e=\"f\"} 1\n" },
	{ "a{z=\"1\",b=\"\"} 1\n", "a{b=\"\", z=\"1\"} 1\n" },
	{ "a{b=\"\\\\ \\\" \\n \\x\"} 1\n", "a{b=\"\\\\ \\\" \\n \\\\x\"} 1\n" },
	{ "a{b=\"x\ny\"} 1\n", "a{b=\"x\\ny\"} 1\n" },
	{ "a{b=\"x\\\ny\"} 1\n", "error: line 1 of the metrics: expected the value of a label, in quotes: a{b=\"x\\" },
	{ "a{b=\"}{,=# \"} 1\n", "a{b=\"}{,=# \"} 1\n" },
	{ "{\"a.b\"} 1\n", "{\"a.b\"} 1\n" },
	{ "{\"a.b\",c=\"d\",\"e f\"=\"g\"} 1\n", "{\"a.b\", c=\"d\", \"e f\"=\"g\"} 1\n" },
	{ "{c=\"d\",\"a\\\"b\"} 1\n", "{\"a\\\"b\", c=\"d\"} 1\n" },
	{ "a 0x1p3\n", "error: line 1 of the metrics: its value is not a number: a 0x1p3" },
	{ "a 1_0\n", "error: line 1 of the metrics: its value is not a number: a 1_0" },
	{ "a +Inf\nb -iNF\nc NaN\nd infinity\ne .5\nf 5.\ng +3\n", "a +Inf\nb -Inf\nc NaN\nd +Inf\ne 0.5\nf 5\ng 3\n" },
	{ "a +NaN\n", "error: line 1 of the metrics: its value is not a number: a +NaN" },
	{ "a 1e999\n", "error: line 1 of the metrics: its value is not a number: a 1e999" },
	{ "a 1e-999\n", "a 0\n" },
	{ "a 0.1\nb 12345678901234567890\nc 1.7976931348623157e308\nd 4.35\ne 123456.789e3\n",
	  "a 0.1\nb 1.2345678901234567e+19\nc 1.7976931348623157e+308\nd 4.35\ne 123456789\n" },
	{ "a .\n", "error: line 1 of the metrics: its value is not a number: a ." },
	{ "a\n", "error: line 1 of the metrics: expected a value: a" },
	{ "a{b=\"c\"}\n", "error: line 1 of the metrics: expected a value: a{b=\"c\"}" },
	{ "x 1\na 1 2 3\n", "x 1\nerror: line 2 of the metrics: expected a timestamp or the end of the line: a 1 2 3" },
	{ "a 1 -5\n", "error: line 1 of the metrics: expected a timestamp or the end of the line: a 1 -5" },
	{ "a 1 99999999999999999999\n", "error: line 1 of the metrics: its timestamp is too large: a 1 99999999999999999999" },
	{ "a 1\r\n", "error: line 1 of the metrics: its value is not a number: a 1?" },
	{ " a 1\n", "error: line 1 of the metrics: expected the name of a metric:  a 1" },
	{ "9a 1\n", "error: line 1 of the metrics: expected the name of a metric: 9a 1" },
	{ "a{b=c} 1\n", "error: line 1 of the metrics: expected the value of a label, in quotes: a{b=c} 1" },
	{ "a{b} 1\n", "error: line 1 of the metrics: expected = after the name of a label: a{b} 1" },
	{ "a{,} 1\n", "error: line 1 of the metrics: expected the name of a label: a{,} 1" },
	{ "a{b=\"c\",,} 1\n", "error: line 1 of the metrics: expected the name of a label: a{b=\"c\",,} 1" },
	{ "a{b=\"c\n", "error: line 1 of the metrics: expected the value of a label, in quotes: a{b=\"c" },
	{ "a{b=\"c\" 1\n", "error: line 1 of the metrics: expected the name of a label: a{b=\"c\" 1" },
	{ "a{b=\"c\",\n", "error: line 1 of the metrics: expected the name of a label: a{b=\"c\"," },
	{ "a{\"b\"} 1\n", "error: line 1 of the metrics: the name of the metric is there twice: a{\"b\"} 1" },
	{ "{\"a\",\"b\"} 1\n", "error: line 1 of the metrics: the name of the metric is there twice: {\"a\",\"b\"} 1" },
	{ "{b=\"c\"} 1\n", "error: line 1 of the metrics: it has no name of a metric: {b=\"c\"} 1" },
	{ "{\"\"} 1\n", "error: a series has an empty name" },
	{ "a{b=\"1\",b=\"2\"} 1\n", "error: a series has the label b twice" },
	{ "a{b=\"1\",b=\"\"} 1\n", "a{b=\"\"} 1\n" },
	{ "a{__name__=\"b\"} 1\n", "error: a series has the label __name__ twice" },
	{ "a{b=\"\xff\"} 1\n", "error: a label of a has no name or is not UTF-8" },
	{ "a{b=\"\xc3\xa9\"} 1\n", "a{b=\"\xc3\xa9\"} 1\n" },
	{ "# HELP a some  text \\n \\\\\n# TYPE a counter\na 1\n", "HELP a some  text \\n \\\\\nTYPE a counter\na 1\n" },
	{ "#HELP a b\n#TYPE a b\n# a comment\n#\n# HELPa b\n# EOF\na 1\n", "a 1\n" },
	{ "# TYPE a  counter\n", "error: line 1 of the metrics: not a type of metrics: # TYPE a  counter" },
	{ "# TYPE a unknown\n", "error: line 1 of the metrics: not a type of metrics: # TYPE a unknown" },
	{ "# TYPE 9 counter\n", "error: line 1 of the metrics: expected the name of a metric: # TYPE 9 counter" },
	{ "# HELP a\n# HELP \"b c\" d\n", "HELP a \nHELP b c d\n" },
	{ "# HELP a \xff\n", "error: line 1 of the metrics: the help is not UTF-8: # HELP a ?" },
	{ "a 1 # comment\n", "error: line 1 of the metrics: expected a timestamp or the end of the line: a 1 # comment" },
};

static void each_line(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
		char *got = read_all(view_of(lines[i].body));
		if (strcmp(got ? got : "", lines[i].want) != 0)
			fail_msg("%s\n  is: %s\nwant: %s", lines[i].body, got ? got : "", lines[i].want);
		free(got);
	}
}

/* A NUL may be in the value of a label, not in a name; at the beginning of a line it ends the text. */
static void nuls(void **state)
{
	static const struct { struct view body; const char *want; } rows[] = {
		{ { "a 1\n\0b 2\n", 9 }, "a 1\n" },
		{ { "{\"a\0b\"} 2\n", 10 }, "error: line 1 of the metrics: expected the name of a label: {\"a?b\"} 2" },
	};
	struct text_metrics t;
	struct err e = { 0 };
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *got = read_all(rows[i].body);
		assert_string_equal(got, rows[i].want);
		free(got);
	}
	text_metrics_init(&t, VIEW("a{b=\"c\0d\"} 1"));
	assert_int_equal(text_metrics_next(&t, &e), TEXT_SAMPLE);
	assert_int_equal(t.labels.v[0].value.len, 3);
	text_metrics_release(&t);
}

/* A line of many labels, or long ones, would hold up a decoder for hours, or storage's memory for a day. */
static void too_much_of_a_series(void **state)
{
	static const struct { int labels, value; const char *want; } rows[] = {
		{ 1024, 1, NULL },
		{ 1025, 1, "line 2 of the metrics: it has more than 1024 labels: a{l0=\"v\",l1=\"v\",l2=\"v\",l3=\"v\",l4=\"v\",l5=" },
		{ 1, 65500, NULL },
		{ 1, 65600, "line 2 of the metrics: its name and labels have more than 65536 bytes: a{l0=\"vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv" },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct text_metrics t;
		struct err e = { 0 };
		struct buf b = { 0 };
		buf_printf(&b, "b 1\na{");
		for (int l = 0; l < rows[i].labels; l++) {
			buf_printf(&b, "%sl%d=\"", l ? "," : "", l);
			for (int k = 0; k < rows[i].value; k++)
				buf_put(&b, "v", 1);
			buf_printf(&b, "\"");
		}
		buf_printf(&b, "} 1\n");
		text_metrics_init(&t, buf_view(&b));
		assert_int_equal(text_metrics_next(&t, &e), TEXT_SAMPLE);
		assert_int_equal(text_metrics_next(&t, &e), rows[i].want ? -ERR_BAD_DATA : TEXT_SAMPLE);
		if (rows[i].want)
			assert_string_equal(e.msg, rows[i].want);
		text_metrics_release(&t);
		buf_free(&b);
	}
}

/* The short way of reading numbers finds what strtod does. */
static void numbers(void **state)
{
	uint64_t r = 1;
	for (int i = 0; i < 100000; i++) {
		struct text_metrics t;
		struct err e = { 0 };
		char text[64];
		r = hash_u64(r);
		uint64_t digits = r >> (r & 63);
		int exponent = (int)(r >> 32 & 63) - 32, cut = (int)(r >> 40 & 15);
		if (i & 1)
			snprintf(text, sizeof text, "a %llue%d", (unsigned long long)digits, exponent);
		else
			snprintf(text, sizeof text, "a %llu.%0*llu", (unsigned long long)(digits >> 20), cut, (unsigned long long)(digits & 1023));
		text_metrics_init(&t, view_of(text));
		assert_int_equal(text_metrics_next(&t, &e), TEXT_SAMPLE);
		if (value_bits(t.value) != value_bits(strtod(text + 2, NULL)))
			fail_msg("%s", text);
		text_metrics_release(&t);
	}
}

/* What a series is known by are its bytes up to the value; a NaN has the bits of Prometheus's. */
static void samples(void **state)
{
	struct text_metrics t;
	struct err e = { 0 };
	text_metrics_init(&t, VIEW("# TYPE a gauge\na { b=\"c\"}  -nan\na{b=\"c\"} nan 7\nb\t3"));
	assert_int_equal(text_metrics_next(&t, &e), TEXT_TYPE);
	assert_int_equal(text_metrics_next(&t, &e), -ERR_BAD_DATA);
	text_metrics_release(&t);
	text_metrics_init(&t, VIEW("a { b=\"c\"}  nan\nb\t3"));
	assert_int_equal(text_metrics_next(&t, &e), TEXT_SAMPLE);
	assert_true(view_eqs(t.series, "a { b=\"c\"}") && !t.has_t);
	assert_true(value_bits(t.value) == VALUE_NORMAL_NAN_BITS);
	assert_int_equal(text_metrics_next(&t, &e), TEXT_SAMPLE);
	assert_true(view_eqs(t.series, "b") && !t.labels.n);
	assert_int_equal(text_metrics_next(&t, &e), TEXT_END);
	text_metrics_release(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_line),
		cmocka_unit_test(nuls),
		cmocka_unit_test(too_much_of_a_series),
		cmocka_unit_test(samples),
		cmocka_unit_test(numbers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
