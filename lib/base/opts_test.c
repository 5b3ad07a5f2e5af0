/* SPDX-License-Identifier: Apache-2.0 */
/* Flags from a table: what is taken, what is told of the rest, the text of --help; and words with typing errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "base/opts.h"
#include "base/typo.h"

static void test_opts(void **state)
{
	const char *path = "data";
	int64_t keep_ms = 1000;
	bool on = false;
	struct opt table[] = {
		{ "storage.path", OPT_STRING, &path, "<dir>", "Where.", "storage-path" },
		{ "keep", OPT_DURATION, &keep_ms, "<time>", "How long." },
		{ "on", OPT_BOOL, &on, NULL, "Switch." },
		{ "old", OPT_REFUSED, NULL, NULL, "use --keep" },
	};
	struct err e;
	int rest;
	char *argv[] = { "x", "--storage-path=/d", "word", "--keep", "2h", "--on", NULL };
	assert_int_equal(opts_parse(table, 4, 6, argv, &rest, &e), 0);
	assert_string_equal(path, "/d");
	assert_int_equal(keep_ms, 7200000);
	assert_true(on);
	assert_int_equal(rest, 1);
	assert_string_equal(argv[1], "word");
	char *bad[] = { "x", "--old", NULL };
	assert_true(opts_parse(table, 4, 2, bad, &rest, &e) < 0);
	assert_string_equal(e.msg, "--old: use --keep");
}

/* The word itself is nearest, then one with one error of each kind, then one with more; too many are none. */
static void test_typo(void **state)
{
	static const struct { const char *word, *candidates[3], *meant; } rows[] = {
		{ "storage", { "storages", "storage", "torage" }, "storage" }, { "sotrage", { "storage" }, "storage" }, { "storag", { "storage" }, "storage" },
		{ "storrage", { "storage" }, "storage" }, { "stirage", { "storage" }, "storage" }, { "stirag", { "garage", "storage" }, "storage" },
		{ "abcdefghi", { "abcdefxyz" }, "abcdefxyz" }, { "abcdefgh", { "abcdexyz" }, "" },
		{ "abcdef", { "abcdxyz", "abcdxy" }, "abcdxy" }, { "host", { "port" }, "" }, { "foo", { "ca" }, "" }, { "xy", { "xyz" }, "" }, { "abcdef", { "wxyzef" }, "" }, { "tpo", { "top" }, "top" }, { "top", { "tap", "tip" }, "tap" },
		{ "tip", { "pit" }, "" }, { "x", { "y", "" }, "" }, { "", { "a" }, "" }, { "ab", { "abab" }, "" },
		{ "a-word-with-more-than-sixty-four-letters-is-near-to-no-other-word-at-all", { "a-word-with-more-than-sixty-four-letters-is-near-to-no-other-word-at-al" }, "" },
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct view word = view_of(rows[i].word);
		struct typo t = typo_of(word, typo_most(word));
		for (size_t k = 0; k < 3 && rows[i].candidates[k]; k++)
			typo_compare(&t, view_of(rows[i].candidates[k]));
		if (!view_eqs(t.meant, rows[i].meant))
			fail_msg("%s: %.*s", rows[i].word, VIEW_ARG(t.meant));
	}
}

/* An unknown flag is told with the known one that was probably meant. */
static void test_opts_unknown(void **state)
{
	const char *path = "data", *other = "";
	bool on = true;
	struct opt table[] = {
		{ "Storage of it", OPT_GROUP },
		{ "storage.path", OPT_STRING, &path, "<dir>", "Where.", "storage-folder,kept-in" },
		{ "web.listen-address", OPT_STRING, &path, "<address>", "On which." },
		{ "web.level", OPT_STRING, &other, "<level>", "Level." }, { "log.level", OPT_STRING, &other, "<level>", "Level." },
		{ "self.heap", OPT_BOOL, &on, NULL, "Switch." }, { "help", OPT_BOOL, &on, NULL, "Help." }, { "old", OPT_STRING, &other, NULL, "Old.", "home,port" },
		{ "old-flag", OPT_REFUSED, NULL, NULL, "use --keep" }, { "their-flag", OPT_EXPLAINED, NULL, NULL, "never mind" },
	};
	static const struct { char *given; const char *hint; } rows[] = {
		{ "--storage-path=/secret", "did you mean --storage.path? " }, { "--storage.paht", "did you mean --storage.path? " },
		{ "--storage-foldr", "did you mean --storage.path? " }, { "--keptin", "did you mean --storage.path? " },
		{ "--listen-address", "did you mean --web.listen-address? " }, { "--level", "" }, /* two have it */
		{ "--heap", "did you mean --self.heap? " }, { "--hepl", "did you mean --help? " }, { "--hose", "did you mean --old? " }, { "--host", "" },
		{ "--no-self.hep", "did you mean --no-self.heap? " }, { "--no-storage.path", "did you mean --storage.path? " },
		{ "--old-flak", "" }, { "--their-flak", "" }, { "--Storage of it", "" }, { "--nonsense", "" }, { "--=x", "" },
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err e;
		int rest;
		char want[200], *argv[] = { "x", rows[i].given, NULL };
		snprintf(want, sizeof want, "unknown flag %.*s; %s--help lists the flags", (int)strcspn(rows[i].given + 2, "=") + 2, rows[i].given, rows[i].hint);
		assert_true(opts_parse(table, ARRAY_LEN(table), 2, argv, &rest, &e) < 0);
		assert_string_equal(e.msg, want);
	}
}

/* Rows stand under their headings; a table without any has one. */
static void test_opts_groups(void **state)
{
	const char *path = "data";
	bool on = false;
	struct opt table[] = {
		{ "Storage", OPT_GROUP }, { "storage.path", OPT_STRING, &path, "<dir>", "Where." },
		{ "The rest", OPT_GROUP }, { "old", OPT_REFUSED, NULL, NULL, "use --keep" }, { "on", OPT_BOOL, &on, NULL, "Switch." },
	};
	struct buf b = { 0 };
	(void)state;
	opts_help(table, ARRAY_LEN(table), "usage: x", &b);
	assert_string_equal(b.ptr, "usage: x\n\nStorage:\n  --storage.path=<dir>  (default data)\n      Where.\n\nThe rest:\n  --on\n      Switch.\n");
	buf_reset(&b);
	opts_help(table + 4, 1, "usage: x", &b);
	assert_string_equal(b.ptr, "usage: x\n\nFlags:\n  --on\n      Switch.\n");
	buf_free(&b);
	assert_true(opts_is_own(&table[4]) && !opts_is_own(&table[3]) && !opts_is_own(&table[0]));
}

static struct buf explained;
static void note_explained(const char *name, const char *advice)
{
	buf_printf(&explained, "%s: %s\n", name, advice);
}

/* Flags that mean nothing here are taken as their system writes them, and told without their values. */
static void test_opts_explained(void **state)
{
	bool on = false;
	struct opt table[] = {
		{ "on", OPT_BOOL, &on, NULL, "Switch." },
		{ "token", OPT_EXPLAINED, NULL, "<token>", "leave it out" },
		{ "strip", OPT_EXPLAINED, NULL, NULL, "never mind" },
		{ "other", OPT_EXPLAINED, NULL, NULL, "not given" },
	};
	static char *lines[][5] = {
		{ "x", "--token=secret", "--strip", "--on" },
		{ "x", "--token", "secret", "--no-strip", "--on" },
		{ "x", "--strip=false", "--token", "--strip", "--on" }, /* a value may look like a flag */
	};
	struct err e;
	int rest;
	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
		on = table[1].given = table[2].given = false;
		assert_int_equal(opts_parse(table, 4, lines[i][4] ? 5 : 4, lines[i], &rest, &e), 0);
		assert_int_equal(rest, 0);
		assert_true(on);
		explained.len = 0;
		opts_explain(table, 4, note_explained);
		assert_string_equal(explained.ptr, "token: leave it out\nstrip: never mind\n");
	}
	char *bad[] = { "x", "--token" };
	assert_true(opts_parse(table, 4, 2, bad, &rest, &e) < 0);
	assert_string_equal(e.msg, "--token needs a value");
	explained.len = 0;
	opts_help(table, 4, "usage", &explained);
	assert_null(strstr(explained.ptr, "token"));
	buf_free(&explained);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_opts), cmocka_unit_test(test_opts_explained), cmocka_unit_test(test_opts_unknown),
		cmocka_unit_test(test_opts_groups), cmocka_unit_test(test_typo),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
