/* SPDX-License-Identifier: Apache-2.0 */
/* RE2's syntax and meaning: what it accepts, what it refuses, what matches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/regex.h"

static struct regex *compiled(const char *pattern, bool anchored)
{
	struct regex *re;
	struct err e = { 0 };
	if (regex_new(&re, view_of(pattern), anchored, &e))
		fail_msg("%s: %s", pattern, e.msg);
	return re;
}

static const struct {
	const char *pattern, *yes, *no; /* anchored; NULL = none */
} anchored_cases[] = {
	{ "", "", "a" }, { "a", "a", "aa" }, { "a|b", "b", "ab" }, { "a.c", "a\nc", "ac" },
	{ "\\s", "\t", "\v" }, { "\\S", "\v", " " }, { "[\\s]", "\n", "\v" }, { "[^\\s]", "\v", " " },
	{ "\\v", "\v", "\n" }, { "[\\v]", "\v", "\r" }, { "[[:space:]]", "\v", "x" },
	{ "\\d+", "09", "\xd9\xa3" }, { "\\D", "\xd9\xa3", "3" }, { "\\w", "_", "\xc3\xa9" }, { "\\W", "\xc3\xa9", "a" },
	{ "[\\W]", "-", "_" }, { "[^\\D]", "7", "x" }, { "\\bfoo\\b", "foo", "foox" },
	{ "\\pL+", "\xc3\xa9" "a", "1" }, { "\\p{Greek}", "\xce\xb1", "a" }, { "\\P{Greek}", "a", "\xce\xb1" },
	{ "\\p{^Lu}", "a", "A" }, { "[\\p{Lu}\\d]", "7", "a" }, { "\\pN", "\xd9\xa3", "x" },
	{ "(?P<n>a)b", "ab", "a" }, { "(?i)straSSe", "STRASSE", "x" }, { "(?i:a)b", "Ab", "AB" },
	{ "(?i)a(?-i)b", "Ab", "AB" }, { "a(?i)b|c", "C", "A" }, { "(?-s).", "a", "\n" }, { "(?-s:.)|x", "x", "\n" },
	{ "\\Qa.b\\E+", "a.bb", "axb" }, { "\\Q\\E", "", "x" },
	{ "a{2}", "aa", "a" }, { "a{2,}", "aaa", "a" }, { "a{1,2}", "a", "aaa" }, { "a{,2}", "a{,2}", "a" },
	{ "a{x", "a{x", "a" }, { "{", "{", "" }, { "}", "}", "" }, { "]", "]", "" }, { "a{02}", "a{02}", "aa" },
	{ "a{1000}b?", NULL, "a" }, { "x*?", "xx", "y" }, { "(?U)x+", "xx", "y" }, { "\\x41\\x{42}", "AB", "ab" },
	{ "\\101", "A", "1" }, { "\\07", "\a", "7" }, { "\\.\\-\\/\\_", ".-/_", "x" }, { "[a-c]", "b", "-" },
	{ "[]a]", "]", "b" }, { "[^]a]", "b", "]" }, { "[a-]", "-", "b" }, { "[a\\]b]", "]", "\\" }, { "[[]", "[", "]" },
	{ "[^\\n]", "a", "\n" }, { "^a$", "a", "b" }, { "(?m)a$\n^b", "a\nb", "ab" }, { "a$b", NULL, "ab" },
	{ "(^a)|b", "b", "ba" }, { "\\Aa\\z", "a", "a\n" }, { "a$", "a", "a\n" }, { "^*", "", "^" },
	{ "(?:(?:a){10}){10}", NULL, "a" }, { "#x y", "#x y", "" }, { "a # b", "a # b", "a" }, { "\\a", "\a", "a" },
	{ ".", "\xe2\x82\xac", "" }, { "[\xc3\xa0-\xc3\xbf]", "\xc3\xa9", "e" }, { "()", "", "x" }, { "a||b", "", "c" },
	{ "(?)a", "a", "b" }, { "a(?i)+b", "aaB", "A" }, { "a*(?i)+", "aa", "A" },
	{ "(?i)\\W", "-", "k" }, { "(?i)[[:alpha:]]", "\xc5\xbf", "1" }, { "[[:^alpha:]]", "1", "a" },
};

static void test_meaning(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(anchored_cases); i++) {
		const char *p = anchored_cases[i].pattern;
		struct err e = { 0 };
		struct regex *re = compiled(p, true);
		if (anchored_cases[i].yes && regex_match(re, view_of(anchored_cases[i].yes), &e) != 1)
			fail_msg("%s should match %s", p, anchored_cases[i].yes);
		if (anchored_cases[i].no && regex_match(re, view_of(anchored_cases[i].no), &e) != 0)
			fail_msg("%s should not match %s", p, anchored_cases[i].no);
		regex_unref(re);
	}
}

static void test_refused(void **state)
{
	(void)state;
	static const char *const bad[] = {
		"(", ")", "(a", "a)", "[a", "[z-a]", "*", "+a", "a**", "a*+", "a++", "a{1}{2}", "a{2,1}", "a{1001}", "(a{100}){100}",
		"\\1", "(a)\\1", "(?=a)", "(?!a)", "(?<=a)", "(?<!a)", "(?>a)", "(?|a)", "(?#c)", "(?R)", "(?1)", "(?&n)", "(*UTF)a",
		"\\C", "\\Z", "\\G", "\\K", "\\R", "\\X", "\\h", "\\e", "\\ca", "\\N", "\\y", "\\", "\\8", "\\x1", "\\x{110000}", "\\x{",
		"(?P<n>a)(?P<n>b)", "(?P<>a)", "(?P<a-b>x)", "(?P=n)", "(?P>n)", "(?i-)a", "(?x)a", "(?z)", "[[:nope:]]", "\\p{Nope}",
		"\\p", "\\p{", "[a-\\d]", "\xff", "a(?i", "\\Qx", "\\p{Xan}", "\\p{L&}", "|*", "(|+)",
	};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct regex *re;
		struct err e = { 0 };
		if (regex_new(&re, view_of(bad[i]), true, &e) == 0)
			fail_msg("%s should be refused", bad[i]);
		assert_int_equal(e.code, ERR_BAD_DATA);
	}
}

static void test_search_and_groups(void **state)
{
	(void)state;
	struct err e = { 0 };
	struct buf out = { 0 };
	struct regex *re = compiled("(?P<first_1>a+)(?:x)(b)?", false);
	assert_int_equal(regex_match(re, VIEW("..aax"), &e), 1);
	assert_int_equal(regex_expand(re, VIEW("..aax"), VIEW("$first_1-${2}-$0-$nope"), &out, &e), 1);
	assert_string_equal(out.ptr, "aa--aax-");
	regex_unref(re);
	re = compiled("a.c", false); /* a search: . does not match a newline */
	assert_int_equal(regex_match(re, VIEW("a\nc"), &e), 0);
	regex_unref(re);
	re = compiled("(?m)^b$", false);
	assert_int_equal(regex_match(re, VIEW("a\nb\nc"), &e), 1);
	regex_unref(re);
	buf_free(&out);
}

static void test_literals(void **state)
{
	(void)state;
	struct err e = { 0 };
	struct regex *re = compiled("(?:b\\.c|a|b\\.c|)", true);
	assert_int_equal(regex_literals(re), 3);
	assert_true(view_eqs(regex_literal(re, 0), ""));
	assert_true(view_eqs(regex_literal(re, 2), "b.c"));
	assert_int_equal(regex_match(re, VIEW("b.c"), &e), 1);
	assert_int_equal(regex_match(re, VIEW("bxc"), &e), 0);
	regex_unref(re);
	re = compiled("a.*", true);
	assert_int_equal(regex_literals(re), 0);
	regex_unref(re);
	re = compiled("a|b", false);
	assert_int_equal(regex_literals(re), 0);
	regex_unref(re);
}

static void test_limit(void **state)
{
	(void)state;
	struct err e = { 0 };
	struct regex *re = compiled("(a*)*(b*)*(c*)*(a*)*(b*)*x", true);
	char subject[200];
	memset(subject, 'a', sizeof subject);
	int rc = regex_match(re, view_make(subject, sizeof subject), &e);
	assert_true(rc <= 0); /* an answer or an error, and soon */
	if (rc < 0)
		assert_int_equal(e.code, ERR_LIMIT);
	regex_unref(re);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_meaning), cmocka_unit_test(test_refused), cmocka_unit_test(test_search_and_groups),
		cmocka_unit_test(test_literals), cmocka_unit_test(test_limit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
