/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "rules/template.h"

static void plain(void **state)
{
	struct template *t;
	struct err e;
	(void)state;
	assert_int_equal(template_parse(&t, VIEW("a"), VIEW("text"), &e), 0);
	assert_true(template_is_plain(t));
	template_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(plain) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
