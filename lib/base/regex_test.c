/* SPDX-License-Identifier: Apache-2.0 */
/* RE2's syntax and meaning: what it accepts, what it refuses, what matches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
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
		if (anchored_cases[i].yes && regex_match(re, view_of(anchored_cases[i].yes), NULL, &e) != 1)
			fail_msg("%s should match %s", p, anchored_cases[i].yes);
		if (anchored_cases[i].no && regex_match(re, view_of(anchored_cases[i].no), NULL, &e) != 0)
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
	assert_int_equal(regex_match(re, VIEW("..aax"), NULL, &e), 1);
	assert_int_equal(regex_expand(re, VIEW("..aax"), VIEW("$first_1-${2}-$0-$nope"), &out, NULL, &e), 1);
	assert_string_equal(out.ptr, "aa--aax-");
	regex_unref(re);
	re = compiled("a.c", false); /* a search: . does not match a newline */
	assert_int_equal(regex_match(re, VIEW("a\nc"), NULL, &e), 0);
	regex_unref(re);
	re = compiled("(?m)^b$", false);
	assert_int_equal(regex_match(re, VIEW("a\nb\nc"), NULL, &e), 1);
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
	assert_int_equal(regex_match(re, VIEW("b.c"), NULL, &e), 1);
	assert_int_equal(regex_match(re, VIEW("bxc"), NULL, &e), 0);
	regex_unref(re);
	re = compiled("a.*", true);
	assert_int_equal(regex_literals(re), 0);
	regex_unref(re);
	re = compiled("a|b", false);
	assert_int_equal(regex_literals(re), 0);
	regex_unref(re);
}

/* "a" n times, then x. */
static struct view many(char *room, size_t n, const char *x)
{
	memset(room, 'a', n);
	memcpy(room + n, x, strlen(x));
	return view_make(room, n + strlen(x));
}

static char room[1 << 20];

/* The limit is an error, anchored or not, and says of what; it is never "no match". */
static void test_limit(void **state)
{
	(void)state;
	static const size_t lengths[] = { 40, 500, 65536, 1000000 };
	for (size_t i = 0; i < 2 * ARRAY_LEN(lengths); i++) {
		struct err e = { 0 };
		struct regex *re = compiled("(?:a?){30}a{30}[bq]", i % 2);
		int rc = regex_match(re, many(room, lengths[i / 2], i % 2 ? "" : "cb"), NULL, &e);
		assert_int_equal(rc, -ERR_LIMIT);
		assert_non_null(strstr(e.msg, "\"(?:a?){30}a{30}[bq]\" took too many steps on \"aaaaaaaaaa"));
		assert_true(strlen(e.msg) < 400);
		regex_unref(re);
	}
}

/* What a search may take is for all places where it may begin together: each of these has just less than the limit. */
static void test_search_is_bounded(void **state)
{
	(void)state;
	struct err e = { 0 };
	struct regex *re = compiled("(?:a?){17}a{17}[bq]", false);
	struct view s = many(room, 1000000, "c");
	int64_t from = clock_mono_ns();
	int rc = regex_match(re, s, NULL, &e);
	assert_true(rc == 0 || rc == -ERR_LIMIT);
	assert_true(clock_mono_ns() - from < 20000000000LL); /* it was hours */
	regex_unref(re);
}

/* Expressions that are no attack, on long values: the steps are for the value, and the interpreter helps where the
 * compiled code's stack is too small. */
static void test_long_values(void **state)
{
	(void)state;
	static const struct {
		const char *pattern;
		bool anchored;
		int want;
	} cases[] = {
		{ "aac.*", false, 1 }, { "c.*d", false, 0 }, { "aa.*c", false, 1 }, { "(a|b)*c", true, 1 }, { "(\\w+\\s?)+$", false, 1 },
		{ ".*aac", true, 1 }, { "(?:a|aa)+c$", false, 1 }, { "b", false, 0 },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err e = { 0 };
		struct regex *re = compiled(cases[i].pattern, cases[i].anchored);
		int rc = regex_match(re, many(room, 65536, "c"), NULL, &e);
		if (rc != cases[i].want)
			fail_msg("%s: %d %s", cases[i].pattern, rc, e.msg);
		regex_unref(re);
	}
	struct err e = { 0 };
	struct buf out = { 0 };
	struct regex *re = compiled("(a+)(c)$", false); /* each place is tried, and what is found is what a search finds */
	assert_int_equal(regex_expand(re, many(room, 3000, "bac"), VIEW("$0-$1-$2"), &out, NULL, &e), 1);
	assert_string_equal(out.ptr, "ac-a-c");
	buf_free(&out);
	regex_unref(re);
}

static int64_t waits_ns; /* added to the monotonic clock at each read, as if the thread had waited so long for a processor */

int64_t __real_clock_mono_ns(void);
int64_t __wrap_clock_mono_ns(void);

int64_t __wrap_clock_mono_ns(void)
{
	static int64_t waited_ns;
	return __real_clock_mono_ns() + (waited_ns += waits_ns);
}

static int matches(const struct regex *re, struct regex_meter *m, int n, struct err *e)
{
	int rc = 0;
	for (int i = 0; i < n && rc >= 0; i++)
		rc = regex_match(re, VIEW("net/http.(*conn).serve"), m, e);
	return rc;
}

static void test_meter(void **state)
{
	(void)state;
	struct err e = { 0 };
	atomic_bool canceled = true;
	struct regex *re = compiled("ser[vw]e.*x", false);
	assert_int_equal(matches(re, &(struct regex_meter){ .canceled = &canceled }, 64, &e), -ERR_CANCELED);
	assert_int_equal(matches(re, &(struct regex_meter){ .deadline_mono_ns = 1 }, 64, &e), -ERR_TIMEOUT);
	struct regex_meter m = { .max_ns = 1000000, .max_name = "1 ms of a test" };
	assert_int_equal(matches(re, &m, 10000000, &e), -ERR_LIMIT);
	assert_non_null(strstr(e.msg, "regular expressions took more than 1 ms of a test"));
	assert_true(m.spent_ns > m.max_ns);
	assert_int_equal(matches(re, &(struct regex_meter){ .max_ns = 60000000000 }, 1000, &e), 0);
	waits_ns = INT64_C(1000000000);
	assert_int_equal(matches(re, &(struct regex_meter){ .max_ns = 500000000 }, 1000, &e), 0);
	waits_ns = 0;
	regex_unref(re);
	/* one that takes long is looked at right after it */
	re = compiled("(?:a?){15}a{15}[bq]", false);
	assert_true(regex_match(re, many(room, 2000, "cb"), &(struct regex_meter){ .deadline_mono_ns = 1 }, &e) < 0);
	regex_unref(re);
}

static void assert_replaced(const char *pattern, const char *subject, const char *with, const char *want)
{
	struct regex *re;
	struct buf out = { 0 };
	struct err e;
	assert_int_equal(regex_new(&re, view_of(pattern), false, &e), 0);
	assert_int_equal(regex_replace_all(re, view_of(subject), view_of(with), &out, NULL, &e), 0);
	assert_string_equal(out.ptr ? out.ptr : "", want);
	regex_unref(re);
	buf_free(&out);
}

/* As Go's ReplaceAllString: what is empty right behind a match is none. */
static void replaces_all(void **state)
{
	(void)state;
	assert_replaced("a", "banana", "<$0>", "b<a>n<a>n<a>");
	assert_replaced("", "aé", "-", "-a-é-");
	assert_replaced("b*", "abbc", "X", "XaXcX");
	assert_replaced("(\\w)(\\w*)", "foo bar", "$2${1}ay", "oofay arbay");
	assert_replaced("^a", "aaa", "b", "baa");
	assert_replaced("x", "abc", "y", "abc");
	assert_replaced("$", "", "z", "z");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(replaces_all),
		cmocka_unit_test(test_meaning), cmocka_unit_test(test_refused), cmocka_unit_test(test_search_and_groups),
		cmocka_unit_test(test_literals), cmocka_unit_test(test_limit),
		cmocka_unit_test(test_search_is_bounded), cmocka_unit_test(test_long_values), cmocka_unit_test(test_meter),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
