/* SPDX-License-Identifier: Apache-2.0 */
/* What --runtimes understands. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agent/managed/rows.h"

#define PYTHON (1u << RUNTIME_PYTHON)

static void parses_lists(void **state)
{
	static const struct { const char *list; bool ok; unsigned set; } rows[] = {
		{ "all", true, RUNTIMES_ALL }, { "none", true, 0 }, { "python", true, PYTHON }, { "-python", true, RUNTIMES_ALL & ~PYTHON },
		{ "python,python", true, PYTHON }, { "", false, 0 }, { "cobol", false, 0 }, { "python,", true, PYTHON }, { ",python", false, 0 },
		{ "-", false, 0 }, { "--python", false, 0 }, { "Python", false, 0 }, { "python,-python", false, 0 }, { "all,-python", false, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		unsigned set = 0;
		struct err e = { 0 };
		bool ok = runtimes_parse(rows[i].list, &set, &e) == 0;
		if (ok != rows[i].ok || set != rows[i].set)
			fail_msg("\"%s\": %d, 0x%x (%s)", rows[i].list, ok, set, e.msg);
		assert_true(ok || e.code == ERR_BAD_DATA);
	}
}

static void knows_names_of_files(void **state)
{
	(void)state;
	assert_true(runtime_may_be("/usr/lib/libpython3.9.so.1.0", RUNTIMES_ALL));
	assert_true(runtime_may_be("python3", PYTHON));
	assert_false(runtime_may_be("/usr/lib/libpython3.9.so.1.0", 0));
	assert_false(runtime_may_be("/opt/python/lib/libc.so.6", RUNTIMES_ALL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parses_lists),
		cmocka_unit_test(knows_names_of_files),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
