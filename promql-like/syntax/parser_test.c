/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing and printing: what is read comes out in canonical form, and parses to the same again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/selector_probes.h"
#include "promql-like/promql.h"

static const struct {
	const char *in, *out; /* NULL = unchanged */
} cases[] = {
	{ "1", NULL }, { "-1", NULL }, { "0x1F", "31" }, { "1_000", "1000" }, { "5m", NULL }, { "-5m", NULL }, { "1h30m", NULL },
	{ "Inf", "+Inf" }, { "1e999 ^ 2", "Inf ^ 2" },
	{ "up offset ++3^2", "up offset (3 ^ 2)" }, { "up offset --3^2", "up offset --(3 ^ 2)" }, { "up offset --(3 ^ 2)", NULL }, { "nan", "NaN" }, { "\"a\\nb\"", NULL }, { "'a\"b'", "\"a\\\"b\"" }, { "`a\\b`", "\"a\\\\b\"" },
	{ "up", NULL }, { "up{}", "up" }, { "{job=\"x\"}", NULL }, { "up{b=\"2\",a=\"1\"}", "up{a=\"1\",b=\"2\"}" },
	{ "up<job=\"x\">", "up{job=\"x\"}" }, { "<job=\"x\",>", "{job=\"x\"}" }, { "{\"up\",a=\"b\"}", "up{a=\"b\"}" },
	{ "{\"a.b\",c=\"d\"}", "{\"a.b\",c=\"d\"}" }, { "{\"x y\"=~\"z\"}", NULL },
	{ "<\"on\">", "{\"on\"}" }, { "{\"Inf\",a=\"b\"}", NULL }, { "{\"by\"}", "by" }, { "up{a!=\"b\",c!~\"d\"}", NULL },
	{ "up[5m]", NULL }, { "up [ 300 ]", "up[5m]" }, { "up offset 5m", NULL }, { "up offset -5m", NULL },
	{ "up @ 1.5", "up @ 1.500" }, { "up @ start()", NULL }, { "up offset 5m @ end()", "up @ end() offset 5m" },
	{ "up[5m] offset 1w @ 3", "up[5m] @ 3.000 offset 1w" }, { "up[5m:1m]", NULL }, { "up[5m:]", NULL },
	{ "sum(up)[1h:5m] @ end() offset 1d", NULL }, { "up[5m * 2]", NULL }, { "up[step() + 1m]", NULL },
	{ "up[min_of(step(), 5m)]", NULL }, { "up offset (1m + 2m)", NULL }, { "up offset -(step())", "up offset -(step())" },
	{ "a+b", "a + b" }, { "a + b * c ^ d", NULL }, { "(a + b) * c", NULL }, { "-a ^ 2", NULL }, { "a == bool b", NULL },
	{ "a and on(x)b", "a and on (x) b" }, { "a or b unless c", NULL }, { "a atan2 b", NULL },
	{ "a * on(x, y) group_left(z) b", "a * on (x, y) group_left (z) b" },
	{ "a / ignoring() group_right b", "a / ignoring () group_right () b" },
	{ "sum(a)", NULL }, { "SUM by(x)(a)", "sum by (x) (a)" }, { "sum(a) by (x, \"y z\")", "sum by (x, \"y z\") (a)" },
	{ "sum without()(a)", "sum without () (a)" }, { "topk(5,a)", "topk(5, a)" }, { "count_values(\"v\", a)", NULL },
	{ "quantile by (x) (0.9, a)", NULL }, { "merge(cpu[5m])", NULL }, { "merge by (pod)(cpu[5m])", "merge by (pod) (cpu[5m])" },
	{ "split by (thread)(cpu)", "split by (thread) (cpu)" }, { "merge", NULL }, { "split{a=\"b\"}", NULL },
	{ "total(rate(cpu[5m]), {function=\"f\"})", NULL }, { "total(cpu,<binary=~\"x\",function!=\"y\">)",
	  "total(cpu, {binary=~\"x\",function!=\"y\"})" }, { "focus(cpu, frames(\"x\"))", NULL }, { "focus(cpu, \"x\")", NULL },
	{ "diff(cpu, cpu offset 1d, \"share\")", NULL }, { "self(merge(cpu[5m]), \"line\")", NULL },
	{ "a < b", NULL }, { "a<b", "a < b" }, { "a<1", "a < 1" }, { "a <b=\"c\">", "a{b=\"c\"}" }, { "a # c\n+ b", "a + b" },
	{ "time()", NULL }, { "round(a, 5)", NULL }, { "sum", NULL }, { "start() + end()", NULL },
	{ "process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta{a=\"b\"}", NULL },
};

static char *printed(const char *text)
{
	struct promql_expr *x;
	struct err e = { 0 };
	struct buf b = { 0 };
	if (promql_parse(&x, view_of(text), &e))
		fail_msg("%s: %s", text, e.msg);
	promql_expr_print(x, &b);
	promql_expr_free(x);
	return buf_take(&b, &(size_t){ 0 });
}

static void test_print(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char *once = printed(cases[i].in), *twice = printed(once);
		assert_string_equal(once, cases[i].out ? cases[i].out : cases[i].in);
		assert_string_equal(twice, once);
		free(once);
		free(twice);
	}
}

static void test_format(void **state)
{
	(void)state;
	struct promql_expr *x;
	struct err e = { 0 };
	struct buf b = { 0 };
	assert_int_equal(promql_parse(&x, VIEW("sum by (job, instance) (rate(http_requests_total{job=\"a long name\", path=\"/another/long/one\"}[5m])) "
					       "/ on (job) group_left () count by (job) (up{job=\"a long name\"})"), &e), 0);
	assert_int_equal(promql_format(x, NULL, &b, &e), 0);
	assert_string_equal(b.ptr,
			    "  sum by (job, instance) (rate(http_requests_total{job=\"a long name\",path=\"/another/long/one\"}[5m]))\n"
			    "/ on (job) group_left ()\n"
			    "  count by (job) (up{job=\"a long name\"})");
	promql_expr_free(x);
	buf_free(&b);
}

static void test_json(void **state)
{
	(void)state;
	struct promql_expr *x;
	struct err e = { 0 };
	struct buf b = { 0 };
	assert_int_equal(promql_parse(&x, VIEW("rate(up{a=\"b\"}[5m] offset 1m)"), &e), 0);
	assert_int_equal(promql_expr_json(x, NULL, &b, &e), 0);
	assert_string_equal(b.ptr,
			    "{\"type\":\"call\",\"func\":{\"name\":\"rate\",\"argTypes\":[\"matrix\"],\"variadic\":0,\"returnType\":\"vector\"},"
			    "\"args\":[{\"type\":\"matrixSelector\",\"range\":300000,\"rangeExpr\":null,\"name\":\"up\",\"matchers\":["
			    "{\"name\":\"a\",\"type\":\"=\",\"value\":\"b\"},{\"name\":\"__name__\",\"type\":\"=\",\"value\":\"up\"}],"
			    "\"offset\":60000,\"offsetExpr\":null,\"timestamp\":null,\"startOrEnd\":null,\"anchored\":false,\"smoothed\":false}]}");
	promql_expr_free(x);
	buf_reset(&b);
	assert_int_equal(promql_parse(&x, VIEW("m + on () up offset -min_of(1, (2m))"), &e), 0);
	assert_int_equal(promql_expr_json(x, NULL, &b, &e), 0);
	assert_string_equal(b.ptr,
			    "{\"type\":\"binaryExpr\",\"op\":\"+\",\"bool\":false,\"lhs\":{\"type\":\"vectorSelector\",\"name\":\"m\",\"matchers\":["
			    "{\"name\":\"__name__\",\"type\":\"=\",\"value\":\"m\"}],\"offset\":0,\"offsetExpr\":null,\"timestamp\":null,"
			    "\"startOrEnd\":null,\"anchored\":false,\"smoothed\":false},\"rhs\":{\"type\":\"vectorSelector\",\"name\":\"up\","
			    "\"matchers\":[{\"name\":\"__name__\",\"type\":\"=\",\"value\":\"up\"}],\"offset\":0,\"offsetExpr\":{\"type\":\"durationExpr\","
			    "\"op\":\"-\",\"lhs\":null,\"rhs\":{\"type\":\"durationExpr\",\"op\":\"min_of\",\"lhs\":{\"type\":\"numberLiteral\","
			    "\"val\":\"1\",\"duration\":false},\"rhs\":{\"type\":\"numberLiteral\",\"val\":\"120\",\"duration\":true},"
			    "\"wrapped\":false},\"wrapped\":false},\"timestamp\":null,\"startOrEnd\":null,\"anchored\":false,\"smoothed\":false},"
			    "\"matching\":{\"card\":\"one-to-one\",\"on\":true,\"labels\":[],\"include\":[],\"fillValues\":{\"lhs\":null,\"rhs\":null}}}");
	promql_expr_free(x);
	buf_free(&b);
}

/* Its example parses, and has it. */
static void check_example(const struct promql_function_info *f)
{
	struct promql_expr *x;
	struct err e = { 0 };
	const char *at = strstr(f->example, f->name);
	if (!at || promql_parse(&x, view_of(f->example), &e))
		fail_msg("%s: its example is \"%s\": %s", f->name, f->example, e.msg);
	promql_expr_free(x);
	assert_true(f->returns[0]);
}

/* Each once, and info only where it is turned on. */
static void test_functions(void **state)
{
	(void)state;
	for (unsigned on = 0; on < 2; on++) {
		VEC(const char *) names = { 0 };
		const struct promql_function_info *f;
		bool info = false;
		promql_enable(on ? PROMQL_EXPERIMENTAL : 0);
		for (size_t i = 0; (f = promql_function_at(i)); i++) {
			for (size_t k = 0; k < names.n; k++)
				assert_string_not_equal(names.v[k], f->name);
			vec_push(&names, f->name);
			check_example(f);
			info |= strcmp(f->name, "info") == 0;
		}
		assert_true(names.n > 100);
		assert_int_equal(info, on);
		vec_free(&names);
	}
	promql_enable(0);
}

/* What is experimental in Prometheus is off unless it is turned on. */
static void test_features(void **state)
{
	(void)state;
	struct promql_expr *x;
	struct err e = { 0 };
	struct buf b = { 0 };
	assert_int_equal(promql_parse(&x, VIEW("a + fill(1) b"), &e), -ERR_BAD_DATA);
	assert_string_equal(e.msg, "1:5: parse error: binop fill modifiers of numbers are experimental and not enabled: start with "
			    "--enable-feature=promql-binop-fill-modifiers; those of readouts such as share(...) need no switch");
	assert_int_equal(promql_parse(&x, VIEW("sum by (function)(share(a)) - fill_right(0) b"), &e), 0);
	promql_expr_free(x);
	assert_int_equal(promql_feature(VIEW("promql-binop-fill-modifiers")), PROMQL_FILL);
	assert_int_equal(promql_feature(VIEW("promql-binop")), 0);
	promql_enable(PROMQL_FILL);
	assert_int_equal(promql_parse(&x, VIEW("a+on(l)fill_right(-Inf)fill_left(5m)b*fill(0.5)c"), &e), 0);
	promql_expr_print(x, &b);
	assert_string_equal(b.ptr, "a + on (l) fill_left (300) fill_right (-Inf) b * fill (0.5) c");
	buf_reset(&b);
	assert_int_equal(promql_expr_json(x, NULL, &b, &e), 0);
	assert_non_null(strstr(b.ptr, "\"fillValues\":{\"lhs\":300,\"rhs\":\"-Inf\"}"));
	assert_non_null(strstr(b.ptr, "\"fillValues\":{\"lhs\":0.5,\"rhs\":0.5}"));
	promql_expr_free(x);
	assert_int_equal(promql_parse(&x, VIEW("rate(m[5m] smoothed)"), &e), -ERR_BAD_DATA);
	assert_string_equal(e.msg, "1:6: parse error: smoothed modifier is experimental and not enabled: start with "
			    "--enable-feature=promql-extended-range-selectors");
	promql_enable(PROMQL_EXTENDED_RANGES);
	assert_int_equal(promql_parse(&x, VIEW("rate(m[5m] offset 1m anchored @ 2)+n smoothed"), &e), 0);
	buf_reset(&b);
	promql_expr_print(x, &b);
	assert_string_equal(b.ptr, "rate(m[5m] anchored @ 2.000 offset 1m) + n smoothed");
	buf_reset(&b);
	assert_int_equal(promql_expr_json(x, NULL, &b, &e), 0);
	assert_non_null(strstr(b.ptr, "\"anchored\":true,\"smoothed\":false"));
	assert_non_null(strstr(b.ptr, "\"anchored\":false,\"smoothed\":true"));
	promql_expr_free(x);
	promql_enable(0);
	buf_free(&b);
}

static void test_selector(void **state)
{
	(void)state;
	struct promql_expr *x;
	struct err e = { 0 };
	const struct matcher *m;
	size_t n;
	assert_int_equal(promql_parse_selector(&x, VIEW("cpu{a=~\"b|c\"}"), &m, &n, &e), 0);
	assert_int_equal(n, 2);
	assert_int_equal(regex_literals(m[0].re), 2);
	assert_int_equal(matcher_matches(&m[1], VIEW("process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta"), NULL, &e), 1);
	assert_int_equal(matcher_matches(&m[1], VIEW("cpu"), NULL, &e), 1);
	promql_expr_free(x);
	assert_true(promql_parse_selector(&x, VIEW("up + 1"), &m, &n, &e) < 0);
	assert_true(promql_parse_selector(&x, VIEW("{}"), &m, &n, &e) < 0);
}

/* The same selectors as the agent is tested with. */
static void test_probes(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(selector_probes); i++) {
		const struct selector_probe *p = &selector_probes[i];
		struct promql_expr *x;
		struct err e = { 0 };
		struct buf got = { 0 }, column = { 0 };
		const struct matcher *m = NULL;
		size_t n = 0;
		int rc = promql_parse_selector(&x, view_of(p->text), &m, &n, &e);
		buf_printf(&column, ":%u: parse error: ", p->byte);
		selector_shape(m, n, &got);
		if (!rc != (p->shape && !p->selects_all))
			fail_msg("%s: %s", p->text, rc ? e.msg : "is read");
		if (rc && p->selects_all)
			assert_non_null(strstr(e.msg, "at least one non-empty matcher"));
		else if (rc && (!strstr(e.msg, p->error) || !strstr(e.msg, column.ptr)))
			fail_msg("%s: %s", p->text, e.msg);
		else if (!rc)
			assert_string_equal(buf_view(&got).ptr, p->shape);
		buf_free(&got);
		buf_free(&column);
		if (!rc)
			promql_expr_free(x);
	}
}

static void test_errors(void **state)
{
	(void)state;
	static const struct {
		const char *in, *error;
	} bad[] = {
		{ "", "1:1: parse error: no expression found in input" },
		{ "# only a comment", "1:1: parse error: no expression found in input" },
		{ "a +\n  )", "2:3: parse error: unexpected \")\"" },
		{ "sum by x (a)", "1:8: parse error: unexpected identifier \"x\" in grouping opts, expected \"(\"" },
		{ "a{b=\"c\" d=\"e\"}", "1:9: parse error: unexpected identifier \"d\" in label matching, expected \",\" or \"}\"" },
		{ "a{b}", "1:4: parse error: unexpected \"}\" in label matching, expected label matching operator" },
		{ "a[5m", "1:5: parse error: unexpected end of input in subquery or range, expected \":\" or \"]\"" },
		{ "a[x]", "1:3: parse error: unexpected identifier \"x\" in subquery or range selector, expected number, duration, step(), or range()" },
		{ "a offset x", "1:10: parse error: unexpected identifier \"x\" in offset, expected number, duration, step(), or range()" },
		{ "a @ x", "1:5: parse error: unexpected identifier \"x\" in @, expected timestamp" },
		{ "\"\\q\"", "1:1: parse error: unknown escape sequence" },
		{ "a anchored", "1:1: parse error: anchored modifier is experimental and not enabled: start with --enable-feature=promql-extended-range-selectors" },
		{ "info(a)", "1:1: parse error: function \"info\" is experimental and not enabled: start with --enable-feature=promql-experimental-functions" },
		{ "a[5m:1m:2]", "1:8: parse error: unexpected \":\" in subquery selector, expected \"]\"" },
	};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct promql_expr *x;
		struct err e = { 0 };
		assert_int_equal(promql_parse(&x, view_of(bad[i].in), &e), -ERR_BAD_DATA);
		assert_string_equal(e.msg, bad[i].error);
	}
}

static void test_depth(void **state)
{
	(void)state;
	struct promql_expr *x;
	struct err e = { 0 };
	struct buf b = { 0 };
	for (int i = 0; i < 100000; i++)
		buf_puts(&b, i % 2 ? "(" : "-");
	assert_true(promql_parse(&x, buf_view(&b), &e) < 0);
	assert_non_null(strstr(e.msg, "deeper"));
	buf_free(&b);
}

/* `first`, then n - 1 times `op` and `rest`, then `last`. */
static char *chain(const char *first, const char *op, const char *rest, const char *last, int n)
{
	struct buf b = { 0 };
	buf_puts(&b, first);
	for (int i = 1; i < n; i++) {
		buf_puts(&b, op);
		buf_puts(&b, rest);
	}
	buf_puts(&b, last);
	return buf_take(&b, &(size_t){ 0 });
}

/* What a loop of the parser reads makes a tree as high as it is long. */
static void test_chains(void **state)
{
	(void)state;
	static const struct {
		const char *first, *op, *rest, *last;
		int spare; /* nodes above and below the chain */
	} chains[] = {
		{ "1", "+", "1", "", 0 }, { "up", " or ", "up", "", 0 }, { "up", " and ", "up", "", 0 }, { "up", " unless ", "up", "", 0 },
		{ "1", "*", "1", "", 0 }, { "up", "==", "up", "", 0 }, { "1", "-", "1", "", 0 }, { "1", "/", "1", "", 0 },
		{ "1", "%", "1", "", 0 }, { "1", " atan2 ", "1", "", 0 }, { "up", "+ on (a) ", "up", "", 0 },
		{ "up[step()", "+", "1", "]", 1 }, { "up[step()", "*", "1", ":1m]", 1 }, { "up[1m:step()", "-", "1", "]", 1 },
		{ "up offset (step()", "+", "1", ")", 1 }, { "up[1m] offset (step()", "+", "1", ")", 2 },
		{ "abs(up offset (step()", "+", "1", "))", 2 }, { "sum(1", "+", "1 + up", ")", 2 },
	};
	for (size_t i = 0; i < ARRAY_LEN(chains); i++)
		for (int n = 1000; n <= 100000; n = n == 1000 ? 2000 : n * 10 + 1 - n % 2) {
			struct promql_expr *x = NULL;
			struct err e = { 0 };
			char *text = chain(chains[i].first, chains[i].op, chains[i].rest, chains[i].last, n == 2000 ? n - chains[i].spare : n);
			int rc = promql_parse(&x, view_of(text), &e);
			bool two = strstr(chains[i].rest, "+") && n > 1000; /* two operators a piece */
			if (n <= 2000 && !two ? rc != 0 : rc == 0 || !strstr(e.msg, "more than 2000 operations"))
				fail_msg("%d of \"%s\": %d %s", n, chains[i].op, rc, e.msg);
			if (!rc) {
				struct buf b = { 0 };
				promql_expr_print(x, &b);
				assert_int_equal(promql_format(x, NULL, &b, &e), 0);
				assert_int_equal(promql_expr_json(x, NULL, &b, &e), 0);
				buf_free(&b);
				promql_expr_free(x);
			}
			free(text);
		}
	struct promql_expr *x;
	struct err e = { 0 };
	char *text = chain("up", "[1m:1s]", "", "", 10000); /* wrong at any length */
	assert_true(promql_parse(&x, view_of(text), &e) < 0);
	free(text);
}

static void test_print_limits(void **state)
{
	(void)state;
	struct promql_expr *x;
	struct err e = { 0 };
	struct buf b = { 0 };
	atomic_bool canceled = true;
	char *text = chain("1", "+", "1", "", 1000);
	assert_int_equal(promql_parse(&x, view_of(text), &e), 0);
	assert_int_equal(promql_format(x, &(struct source_limits){ .canceled = &canceled }, &b, &e), -ERR_CANCELED);
	assert_int_equal(promql_expr_json(x, &(struct source_limits){ .canceled = &canceled }, &b, &e), -ERR_CANCELED);
	assert_int_equal(promql_format(x, &(struct source_limits){ .deadline_mono_ns = 1 }, &b, &e), -ERR_TIMEOUT);
	assert_int_equal(b.len, 0);
	assert_int_equal(promql_format(x, NULL, &b, &e), 0);
	/* a level of a chain is two blanks and a line */
	assert_true(b.len > 1000 * 1000 && b.len < 3 * 1000 * 1000);
	promql_expr_free(x);
	free(text);
	buf_free(&b);
	/* 250 chains of 1,000, each a line deep in blanks */
	char *one = chain("1", "+", "1", "", 1000), *part = chain("+(", one, ")", "", 2);
	struct buf all = { .max = 1 << 20 };
	buf_puts(&all, "1");
	while (all.len + strlen(part) < 500000)
		buf_puts(&all, part);
	if (promql_parse(&x, buf_view(&all), &e))
		fail_msg("%s", e.msg);
	assert_int_equal(promql_format(x, NULL, &b, &e), -ERR_LIMIT);
	assert_non_null(strstr(e.msg, "longer than"));
	assert_int_equal(b.len, 0);
	promql_expr_free(x);
	buf_free(&all);
	buf_free(&b);
	free(one);
	free(part);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_print), cmocka_unit_test(test_format), cmocka_unit_test(test_json), cmocka_unit_test(test_features), cmocka_unit_test(test_functions),
		cmocka_unit_test(test_selector), cmocka_unit_test(test_probes), cmocka_unit_test(test_errors), cmocka_unit_test(test_depth),
		cmocka_unit_test(test_chains), cmocka_unit_test(test_print_limits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
