/* SPDX-License-Identifier: Apache-2.0 */
/* Selectors that all who read them are tested with: selector_parse (the agent's match[]), and the language (queries, match[] of the
 * server, `selector` of the configuration). */
#ifndef PYRRHA_MODEL_SELECTOR_PROBES_H
#define PYRRHA_MODEL_SELECTOR_PROBES_H

#include "base/buf.h"
#include "model/matcher.h"

struct selector_probe {
	const char *text;
	const char *shape; /* the matchers as selector_shape writes them; NULL: it is malformed */
	unsigned byte;     /* of what is wrong, from 1 */
	const char *error;
	bool selects_all;  /* well-formed; the language refuses it, because it selects all series */
};

static const struct selector_probe selector_probes[] = {
	/* both spellings */
	{ "up", "__name__=[up]" },
	{ "a:b_1{}", "__name__=[a:b_1]" },
	{ "inf{}", "__name__=[inf]" },
	{ "{container=\"echoserver\"}", "container=[echoserver]" },
	{ "<container=\"echoserver\">", "container=[echoserver]" },
	{ "busy{ a != \"b\" , c=~\"d|e\", f !~ \"g.*\", h=\"\" , }", "a!=[b] c=~[d|e] f!~[g.*] h=[] __name__=[busy]" },
	{ "busy< a != \"b\" , c=~\"d|e\", f !~ \"g.*\", h=\"\" , >", "a!=[b] c=~[d|e] f!~[g.*] h=[] __name__=[busy]" },
	{ " \t\r\n{a=\"b\"}\n", "a=[b]" },
	{ "{a=\"b\"} # why", "a=[b]" },
	{ "sum{by=\"x\"}", "by=[x] __name__=[sum]" },
	{ "{a=\"1\",a!=\"2\"}", "a=[1] a!=[2]" },
	/* names in quotes */
	{ "{\"busy\"}", "__name__=[busy]" },
	{ "<\"busy\">", "__name__=[busy]" },
	{ "{\"busy\", \"x.y\"='1'}", "__name__=[busy] x.y=[1]" },
	{ "{\"x y\"=\"1\"}", "x y=[1]" },
	{ "<\"x y\"=\"1\">", "x y=[1]" },
	{ "{__name__=~\"a.*\"}", "__name__=~[a.*]" },
	/* quotes and escapes */
	{ "{a='b\"c'}", "a=[b\"c]" },
	{ "{a=`b\\c\"'`}", "a=[b\\c\"']" },
	{ "{a=`b\nc`}", "a=[b\nc]" },
	{ "{a=\"b\\\"c\\\\d\\n\\t\\r\"}", "a=[b\"c\\d\n\t\r]" },
	{ "<a='\\''>", "a=[']" },
	{ "{a=\"\\a\\b\\f\\v\"}", "a=[\a\b\f\v]" },
	{ "{a=\"\\x41\\101\\u00e4\\U0001F525\"}", "a=[AA\xc3\xa4\xf0\x9f\x94\xa5]" },
	{ "{a=\"}, b=\"}", "a=[}, b=]" },
	{ "<a=\">\">", "a=[>]" },
	/* UTF-8 */
	{ "{a=\"gr\xc3\xbc\xc3\x9f\"}", "a=[gr\xc3\xbc\xc3\x9f]" },
	{ "{\"\xc3\xa4\"=\"\xe4\xba\xac\"}", "\xc3\xa4=[\xe4\xba\xac]" },
	{ "{a=\"\xc3\x28\"}", NULL, 4, "invalid UTF-8 rune" },
	{ "{\xc3\xa4=\"b\"}", NULL, 2, "unexpected character inside braces: '\xc3\xa4'" },
	/* all */
	{ "{}", "", .selects_all = true },
	{ "{a=~\".*\"}", "a=~[.*]", .selects_all = true },
	{ "{a=\"\"}", "a=[]", .selects_all = true },
	/* malformed */
	{ "", NULL, 1, "" },
	{ "inf", NULL, 1, "" },
	{ "NaN", NULL, 1, "" },
	{ "<>", NULL, 1, "unexpected \"<\"" },
	{ "<a=b>", NULL, 1, "unexpected \"<\"" },
	{ "on{a=\"b\"}", NULL, 1, "unexpected identifier \"on\"" },
	{ "{a=\"b\"", NULL, 7, "unexpected end of input in label matching, expected \",\" or \"}\"" },
	{ "<a=\"b\"", NULL, 7, "unexpected end of input in label matching, expected \",\" or \">\"" },
	{ "{a=\"b\"> ", NULL, 7, "unexpected \">\" in label matching, expected \",\" or \"}\"" },
	{ "{a=\"b\",", NULL, 8, "unexpected end of input inside braces" },
	{ "{a}", NULL, 3, "unexpected \"}\" in label matching, expected label matching operator" },
	{ "{a=b}", NULL, 4, "unexpected identifier \"b\" in label matching, expected string" },
	{ "{a==\"b\"}", NULL, 4, "unexpected \"=\" in label matching, expected string" },
	{ "{a=\"b\" c=\"d\"}", NULL, 8, "unexpected identifier \"c\" in label matching, expected \",\" or \"}\"" },
	{ "{1=\"b\"}", NULL, 2, "unexpected number \"1\" in label matching, expected identifier or \"}\"" },
	{ "{,}", NULL, 2, "unexpected \",\" in label matching, expected identifier or \"}\"" },
	{ "{a=\"b\"} x", NULL, 9, "unexpected identifier \"x\"" },
	{ "{a=\"\\q\"}", NULL, 4, "unknown escape sequence" },
	{ "{a=\"\\'\"}", NULL, 4, "unknown escape sequence" },
	{ "{a=\"\\ud800\"}", NULL, 4, "escape sequence is an invalid Unicode code point" },
	{ "{a=\"b}", NULL, 4, "unterminated quoted string" },
	{ "{a=\"b\nc\"}", NULL, 4, "unterminated quoted string" },
	{ "{a=`b}", NULL, 4, "unterminated raw string" },
	{ "{a=~\"(\"}", NULL, 5, "error parsing regexp" },
	{ "up{\"down\"}", NULL, 1, "metric name must not be set twice: \"up\" or \"down\"" },
	{ "{\"up\",\"down\"}", NULL, 1, "metric name must not be set twice: \"up\" or \"down\"" },
	{ "up{__name__=\"down\"}", NULL, 1, "metric name must not be set twice: \"up\" or \"down\"" },
};

static inline void selector_shape(const struct matcher *m, size_t n, struct buf *out)
{
	for (size_t i = 0; i < n; i++)
		buf_printf(out, "%s%.*s%s[%.*s]", i ? " " : "", VIEW_ARG(m[i].name), matcher_op_text(m[i].op), VIEW_ARG(m[i].value));
	buf_puts(out, "");
}

#endif
