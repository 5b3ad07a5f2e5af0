/* SPDX-License-Identifier: Apache-2.0 */
/* The writer of JSON: commas are where they are due, wherever a piece begins. Numbers are values_test.c's of web/. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

#include "base/json.h"

static void is(struct buf *b, const char *want)
{
	assert_string_equal(b->ptr, want);
	buf_free(b);
}

static void test_commas(void **state)
{
	(void)state;
	struct buf b = { 0 };
	json_object_begin(&b);
	json_field(&b, "name", VIEW("a\"b"));
	json_object_begin_at(&b, "empty");
	json_object_end(&b);
	json_array_begin_at(&b, "list");
	for (int i = 0; i < 3; i++)
		json_int(&b, i - 1);
	json_text(&b, VIEW("[")); /* a text that ends like an array begins */
	json_text(&b, VIEW(","));
	json_float(&b, 0.5);
	json_float(&b, (double)NAN);
	json_bool(&b, true);
	json_null_value(&b);
	json_decimals(&b, 1.0005, 2);
	json_count(&b, UINT64_MAX);
	json_array_begin(&b);
	json_array_end(&b);
	json_object_begin(&b);
	json_key_view(&b, VIEW("<"));
	json_raw(&b, VIEW("{\"x\":1}"));
	json_object_end(&b);
	json_point(&b, 1500, 2);
	json_exponent(&b, 2);
	json_time(&b, 1500);
	json_array_end(&b);
	json_field_raw(&b, "raw", VIEW("[1]"));
	json_raw(&b, VIEW("\"p\":1,\"q\":2"));
	json_field_text(&b, "text", "t");
	json_field_int(&b, "int", INT64_MIN);
	json_field_count(&b, "count", 7);
	json_field_bool(&b, "no", false);
	json_field_float(&b, "float", 1e-7);
	json_object_end(&b);
	is(&b, "{\"name\":\"a\\\"b\",\"empty\":{},\"list\":[-1,0,1,\"[\",\",\",0.5,\"NaN\",true,null,1.00,18446744073709551615,[],"
	       "{\"\\u003c\":{\"x\":1}},[1.500,\"2\"],\"2e+00\",1.500],\"raw\":[1],\"p\":1,\"q\":2,\"text\":\"t\",\"int\":-9223372036854775808,"
	       "\"count\":7,\"no\":false,\"float\":1e-07}");
}

/* What was written may be taken back. */
static void test_taken_back(void **state)
{
	(void)state;
	struct buf b = { 0 };
	json_array_begin(&b);
	for (int i = 0; i < 4; i++) {
		size_t before = b.len;
		json_object_begin(&b);
		json_field_int(&b, "i", i);
		json_object_end(&b);
		if (i % 2 == 0)
			b.len = before;
	}
	json_array_end(&b);
	is(&b, "[{\"i\":1},{\"i\":3}]");
}

static void test_lines(void **state)
{
	(void)state;
	struct buf b = { 0 };
	json_object_begin(&b);
	json_line(&b, 2);
	json_field_int(&b, "a", 1);
	json_line(&b, 2);
	json_key(&b, "b");
	buf_putc(&b, ' ');
	json_array_begin(&b);
	json_array_end(&b);
	buf_putc(&b, '\n');
	json_object_end(&b);
	buf_putc(&b, '\n');
	json_object_begin(&b); /* the next line of a file of lines */
	json_object_end(&b);
	is(&b, "{\n  \"a\":1,\n  \"b\": []\n}\n{}");
}

/* A buffer that is full drops pieces whole and says so. */
static void test_full(void **state)
{
	(void)state;
	struct buf b = { .max = 8 };
	json_object_begin(&b);
	json_field_text(&b, "key", "value");
	json_object_end(&b);
	assert_true(b.overflow);
	assert_true(b.len <= 8);
	buf_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_commas), cmocka_unit_test(test_taken_back), cmocka_unit_test(test_lines), cmocka_unit_test(test_full) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
