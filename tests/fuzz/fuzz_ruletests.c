/* SPDX-License-Identifier: Apache-2.0 */
/* Any unit tests of any rules: the rules, a line "---", then promtool's file. Whatever they are: what is wrong is said, and as
 * often as it is counted; the same again gives the same. */
#include <string.h>

#include "base/log.h"
#include "cmd/rule_tests.h"
#include "tests/fuzz/fuzz.h"

const char fuzz_target[] = "ruletests";

struct told {
	size_t n, tests;
	uint64_t bytes;
};

static void problem(void *arg, const char *text)
{
	struct told *t = arg;
	REQUIRE(text[0], "a problem without words");
	t->n++;
	t->bytes += strlen(text);
}

static void test(void *arg, const char *name)
{
	struct told *t = arg;
	REQUIRE(name[0], "a test without a name");
	t->tests++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct told first = { 0 }, again = { 0 };
	struct view in = view_make((const char *)data, n);
	const char *cut = n ? memmem(data, n, "\n---\n", 5) : NULL;
	if (n > 1 << 13 || !cut)
		return 0;
	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_LOGFMT);
	struct rule_tests_how how = { .rules = view_make(in.ptr, (size_t)(cut - in.ptr)), .max_evaluations = 20, .max_values = 100000, .problem = problem,
				      .test = test, .arg = &first };
	struct view tests = view_make(cut + 5, n - how.rules.len - 5);
	REQUIRE(rule_tests_run_text(tests, "tests.yml", &how) == first.n, "%zu problems were told", first.n);
	how.arg = &again;
	rule_tests_run_text(tests, "tests.yml", &how);
	REQUIRE(first.n == again.n && first.tests == again.tests && first.bytes == again.bytes, "differs");
	return 0;
}
