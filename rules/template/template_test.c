/* SPDX-License-Identifier: Apache-2.0 */
/* What templates are held to besides Prometheus's own (tests/oracle/template_test.c): places of errors, bounds, and our functions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/clock.h"
#include "promql-like/promql.h"
#include "rules/template/template.h"

static const struct label some_labels[] = { { VIEW("job"), VIEW("shop") } };

/* The functions of a profile for topk(...), else as many samples as the expression has bytes. */
static int query(void *arg, struct view expr, int64_t t_ms, struct template_vector *out, struct err *e)
{
	static const struct {
		const char *name;
		double share;
	} functions[] = { { "main.b", 0.25 }, { "main.fibonacci", 0.4126 }, { "main.a", 0.25 } };
	int rc = 0;
	assert_int_equal(t_ms, 1700000000123);
	if (arg)
		buf_putv(arg, expr);
	if (view_eqs(expr, "fails"))
		return err_set(e, ERR_EXECUTION, "there is no such metric");
	for (size_t i = 0; view_starts(expr, VIEW("topk")) && i < ARRAY_LEN(functions) && !rc; i++) {
		const struct label l = { VIEW("function"), view_of(functions[i].name) };
		rc = template_vector_add(out, (struct labels){ &l, 1 }, functions[i].share, e);
	}
	for (size_t i = 0; !view_starts(expr, VIEW("topk")) && i < expr.len && !rc; i++)
		rc = template_vector_add(out, (struct labels){ some_labels, 1 }, (double)i, e);
	return rc;
}

static struct template_env env(void)
{
	return (struct template_env){ .labels = { some_labels, 1 }, .value = 0.5, .external_url = VIEW("http://host:7070/prof"),
				      .t_ms = 1700000000123, .query = query };
}

static int expand_in(const struct template_env *in, struct view text, struct buf *out, struct err *e)
{
	struct template *t;
	err_clear(e);
	assert_int_equal(template_parse(&t, VIEW("__alert_T"), text, e), 0);
	int rc = template_expand(t, in, out, e);
	template_free(t);
	return rc;
}

static void assert_expands(const char *text, const char *want)
{
	struct template_env in = env();
	struct buf out = { 0 };
	struct err e;
	if (expand_in(&in, view_of(text), &out, &e))
		fail_msg("%s: %s", text, e.msg);
	assert_string_equal(out.ptr ? out.ptr : "", want);
	buf_free(&out);
}

static void assert_fails(const struct template_env *in, const char *text, enum err_code code, const char *words)
{
	struct buf out = { 0 };
	struct err e;
	buf_puts(&out, "before");
	assert_int_equal(expand_in(in, view_of(text), &out, &e), -(int)code);
	if (!strstr(e.msg, words))
		fail_msg("%s: %s", text, e.msg);
	assert_string_equal(out.ptr, "before");
	buf_free(&out);
}

static void assert_place(const char *text, unsigned line, unsigned column, const char *words)
{
	struct template *t;
	struct template_place at = { 0 };
	struct err e;
	assert_int_equal(template_parse_at(&t, VIEW("summary"), view_of(text), &at, &e), -ERR_BAD_DATA);
	if (!strstr(e.msg, words) || at.line != line || at.column != column)
		fail_msg("%s: %u:%u %s", text, at.line, at.column, e.msg);
}

static void places(void **state)
{
	(void)state;
	assert_place("{{ nope }}", 1, 4, "template: summary:1:3: function \"nope\" not defined");
	assert_place("a\nbc {{ $x }}", 2, 7, "template: summary:2:6: undefined variable \"$x\"");
	assert_place("a\n{{ if .Value }}\nb", 3, 2, "unexpected EOF");
	assert_place("x {{ .Value", 1, 12, "unclosed action");
	struct template_env in = env();
	assert_fails(&in, "a\n  {{ toUpper 5 }}", ERR_EXECUTION,
		     "template: __alert_T:2:13: executing \"__alert_T\" at <5>: expected string; found 5");
}

static void error_is_text(void **state)
{
	struct template *t;
	struct template_env in = env();
	struct buf out = { 0 };
	struct err e;
	(void)state;
	assert_int_equal(template_parse(&t, VIEW("__alert_T"), VIEW("x {{ query \"fails\" }}"), &e), 0);
	assert_int_equal(template_expand_text(t, &in, &out, &e), -ERR_EXECUTION);
	assert_string_equal(out.ptr, "<error expanding template: error executing template __alert_T: template: __alert_T:1:5: executing "
				     "\"__alert_T\" at <query \"fails\">: error calling query: there is no such metric>");
	template_free(t);
	buf_free(&out);
}

static void bounds(void **state)
{
	struct template_env in = env();
	(void)state;
	assert_fails(&in, "{{ range 1000000000 }}{{ end }}", ERR_LIMIT, "takes more than 2000000 steps");
	assert_fails(&in, "{{ define \"a\" }}{{ template \"a\" }}{{ end }}{{ template \"a\" }}", ERR_EXECUTION, "exceeded maximum template depth");
	assert_fails(&in, "{{ define \"a\" }}{{ tmpl \"a\" 1 }}{{ end }}{{ template \"a\" }}", ERR_EXECUTION, "error calling tmpl");
	assert_fails(&in, "{{ range 30 }}{{ query \"a\" | len }}{{ end }}", ERR_LIMIT, "more than 20 queries");
	assert_fails(&in, "{{ $s := \"aaaaaaaaaaaaaaaa\" }}{{ range 100 }}{{ $s = print $s $s }}{{ end }}", ERR_LIMIT, "bytes of memory");
	assert_fails(&in, "{{ range 2000 }}{{ printf \"%1000d\" 1 }}{{ end }}", ERR_LIMIT, "the output is larger than 1048576 bytes");
	assert_fails(&in, "{{ printf \"%1000000d%1000000d\" 1 2 }}", ERR_LIMIT, "the output is larger than");
	assert_fails(&in, "{{ range 100000 }}{{ $s := printf \"%1000000d\" 1 }}{{ end }}", ERR_LIMIT, "takes more than");
	in.max_output = 5;
	assert_fails(&in, "123456", ERR_LIMIT, "the output is larger than 5 bytes");
	in = env();
	in.max_memory = 1 << 16;
	assert_fails(&in, "{{ range 10000 }}{{ $s := print $value $value $value }}{{ end }}", ERR_LIMIT, "65536 bytes of memory");
	assert_fails(&in, "{{ query \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\" | len }}{{ range 500 }}{{ $s := args 1 2 3 }}{{ end }}", ERR_LIMIT,
		     "65536 bytes of memory");
	in = env();
	in.deadline_mono_ns = clock_mono_ns() - 1;
	assert_fails(&in, "{{ range 100000 }}{{ end }}", ERR_TIMEOUT, "expanding takes too long");
	in = env();
	in.query = NULL;
	assert_fails(&in, "{{ query \"a\" }}", ERR_EXECUTION, "queries cannot be answered here");
}

static void bounds_of_texts(void **state)
{
	struct template *t;
	struct err e;
	struct buf b = { 0 };
	(void)state;
	for (int i = 0; i < 300; i++)
		buf_puts(&b, "{{ if true }}");
	assert_int_equal(template_parse(&t, VIEW("n"), buf_view(&b), &e), -ERR_BAD_DATA);
	assert_non_null(strstr(e.msg, "nested deeper than"));
	buf_reset(&b);
	buf_puts(&b, "{{ ");
	for (int i = 0; i < 300; i++)
		buf_putc(&b, '(');
	assert_int_equal(template_parse(&t, VIEW("n"), buf_view(&b), &e), -ERR_BAD_DATA);
	assert_non_null(strstr(e.msg, "nested deeper than"));
	buf_reset(&b);
	for (size_t i = 0; i <= TEMPLATE_MAX_TEXT; i++)
		buf_putc(&b, 'x');
	assert_int_equal(template_parse(&t, VIEW("n"), buf_view(&b), &e), -ERR_LIMIT);
	buf_free(&b);
}

static void plain(void **state)
{
	struct template *t;
	struct err e;
	(void)state;
	assert_int_equal(template_parse(&t, VIEW("a"), VIEW("text }}"), &e), 0);
	assert_true(template_is_plain(t));
	template_free(t);
	assert_int_equal(template_parse(&t, VIEW("a"), VIEW("{{/* x */}}"), &e), 0);
	assert_false(template_is_plain(t));
	template_free(t);
	assert_expands("text }}", "text }}");
}

static void top_functions(void **state)
{
	struct template_env in = env();
	struct buf asked = { 0 }, out = { 0 };
	struct promql_expr *x;
	struct err e;
	(void)state;
	in.query_arg = &asked;
	assert_int_equal(expand_in(&in, VIEW("{{ topFunctions \"rate(cpu[5m])\" 2 }}"), &out, &e), 0);
	assert_string_equal(asked.ptr, "topk(2, self_share(merge(rate(cpu[5m])\n)))");
	assert_int_equal(promql_parse(&x, buf_view(&asked), &e), 0);
	promql_expr_free(x);
	assert_string_equal(out.ptr, "41.3% main.fibonacci\n25.0% main.a");
	buf_free(&asked);
	buf_free(&out);
	in = env();
	assert_fails(&in, "{{ topFunctions \"cpu\" 0 }}", ERR_EXECUTION, "the number of functions is 0, not 1 to 100");
	assert_fails(&in, "{{ topFunctions \"cpu\" \"x\" }}", ERR_EXECUTION, "expected integer; found \"x\"");
}

static void links(void **state)
{
	struct buf b = { 0 };
	(void)state;
	assert_expands("{{ flameLink \"cpu{a=\\\"b\\\"}[5m]\" }}",
		       "http://host:7070/prof/?q=cpu%7Ba%3D%22b%22%7D%5B5m%5D&from=1699996400&to=1700000000.123&view=flame");
	assert_expands("{{ diffLink \"cpu[5m]\" \"cpu[5m] offset 1d\" }}",
		       "http://host:7070/prof/?q=diff%28merge%28cpu%5B5m%5D%29%2C+merge%28cpu%5B5m%5D+offset+1d%29%29"
		       "&from=1699996400&to=1700000000.123&view=flame");
	assert_expands("{{ externalURL }}{{ graphLink \"up\" }}", "http://host:7070/prof/graph?g0.expr=up&g0.tab=0&from=1699996400&to=1700000000.123");
	template_generator_url(VIEW("http://h"), VIEW("a b"), 1700000000000, &b);
	assert_string_equal(b.ptr, "http://h/graph?g0.expr=a+b&g0.tab=1&from=1699996400&to=1700000000");
	buf_free(&b);
}

/* Prometheus has it in its consoles, not in rules. */
static void tmpl(void **state)
{
	(void)state;
	assert_expands("{{ define \"a\" }}<{{ . }}>{{ end }}{{ tmpl \"a\" 5 | len }}{{ tmpl \"a\" 6 }}", "3<6>");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(places), cmocka_unit_test(error_is_text), cmocka_unit_test(bounds), cmocka_unit_test(bounds_of_texts),
		cmocka_unit_test(plain), cmocka_unit_test(top_functions), cmocka_unit_test(links), cmocka_unit_test(tmpl),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
