/* SPDX-License-Identifier: Apache-2.0 */
/* Names of objects: what is made of numbers gives these numbers again and sorts as they do, and other names are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/attrs.h"
#include "tsdb/bucket/object_names.h"

#define LONGEST "a-name-of-forty-characters-0123456789abc"

static void make_name(char ret[OBJECT_NAME_MAX], const struct object_name *n)
{
	switch (n->kind) {
	case 'e': object_name_epoch(ret, n->id, n->stamp.epoch); break;
	case 'g': object_name_generation(ret, n->id, n->stamp); break;
	case 'd': object_name_data(ret, n->id, n->day, n->stamp); break;
	default: object_name_delete(ret, n->id, n->stamp);
	}
}

static void test_round_trip(void **state)
{
	/* Ascending. */
	static const struct object_name names[] = {
		{ "0", 'd', 0, { 0, 0 } }, { "0", 'd', 19676, { 9, 1 } }, { "0", 'd', 19676, { 0x10, 0 } }, { "0", 'd', 100000, { 1, 1 } },
		{ "0", 'd', 99999999, { 1, 1 } }, { "0", 'e', 0, { 9, 0 } }, { "0", 'e', 0, { 0x10, 0 } }, { "0", 'e', 0, { OBJECT_EPOCH_MAX - 1, 0 } },
		{ "0", 'g', 0, { 9, 0xf } }, { "0", 'g', 0, { 9, 0x10 } }, { "0", 'g', 0, { 9, OBJECT_SERIAL_MAX - 1 } }, { "0", 'g', 0, { 10, 0 } },
		{ "0", 'x', 0, { 1, 1 } }, { LONGEST, 'd', 99999999, { OBJECT_EPOCH_MAX - 1, OBJECT_SERIAL_MAX - 1 } },
	};
	char before[OBJECT_NAME_MAX] = "", name[OBJECT_NAME_MAX], prefix[OBJECT_NAME_MAX];
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct object_name got;
		make_name(name, &names[i]);
		assert_true(object_name_parse(name, &got));
		assert_string_equal(got.id, names[i].id);
		assert_true(got.kind == names[i].kind && got.day == names[i].day && !object_stamp_cmp(got.stamp, names[i].stamp));
		assert_true(strcmp(before, name) < 0);
		memcpy(before, name, sizeof before);
		object_name_prefix(prefix, got.id, got.kind);
		assert_true(view_starts(view_of(name), view_of(prefix)));
		/* Cut, or with another byte, it is no name or another one. */
		for (size_t k = strlen(name); k--;) {
			char was = name[k];
			for (int c = 1; c < 256; c++) {
				name[k] = (char)c;
				if (c != (uint8_t)was && object_name_parse(name, &got)) {
					char again[OBJECT_NAME_MAX];
					make_name(again, &got);
					assert_string_equal(again, name);
				}
			}
			name[k] = 0;
			assert_false(object_name_parse(name, &got));
			name[k] = was;
		}
	}
}

static void test_ids(void **state)
{
	static const struct view good[] = { VIEW("a"), VIEW("0"), VIEW("a-"), VIEW("z9--x"), VIEW(LONGEST) };
	static const struct view bad[] = { VIEW(""), VIEW("-a"), VIEW("A"), VIEW("a.b"), VIEW("a/b"), VIEW(".."), VIEW("a b"), VIEW("a\0"), VIEW("\xc3\xa4"),
					   VIEW("a_b"), VIEW(LONGEST "d") };
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		assert_true(server_id_is_valid(good[i]));
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_false(server_id_is_valid(bad[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_round_trip), cmocka_unit_test(test_ids) };
	return cmocka_run_group_tests_name("names of objects", tests, NULL, NULL);
}
