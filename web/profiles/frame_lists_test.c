/* SPDX-License-Identifier: Apache-2.0 */
/* The lists of frames that clients have: a frame is found again, and only itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "web/profiles/flame_columns.h"

static struct flame_frame frames[] = {
	{ VIEW("total"), VIEW(""), VIEW(""), 0 }, { VIEW("main"), VIEW("m.c"), VIEW("/bin/x"), 3 }, { VIEW("total"), VIEW(""), VIEW(""), 0 },
};

/* A profile without files or binaries may have a function of the name that the whole has. */
static void test_function_called_total(void **state)
{
	(void)state;
	struct frame_lists *l = frame_lists_new(1000);
	const struct flame f = { .frames = frames, .n_frames = ARRAY_LEN(frames) };
	struct frame_numbers m;
	frame_lists_number(l, 0, &f, &m);
	assert_int_equal(m.n_new, 3);
	uint64_t list = m.list;
	frame_numbers_release(&m);
	frame_lists_number(l, list, &f, &m);
	assert_int_equal(m.of, list);
	assert_int_equal(m.list, list);
	assert_int_equal(m.n_known, 3);
	assert_int_equal(m.n_new, 0);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(m.known[i], i);
		assert_int_equal(m.of_frame[i], i);
	}
	frame_numbers_release(&m);
	frame_lists_free(l);
}

static void test_forgotten_list(void **state)
{
	(void)state;
	struct frame_lists *l = frame_lists_new(2);
	struct flame f = { .frames = frames, .n_frames = 2 };
	struct frame_numbers m;
	frame_lists_number(l, 0, &f, &m);
	uint64_t list = m.list;
	frame_numbers_release(&m);
	f.frames++;
	frame_lists_number(l, 0, &f, &m); /* takes the place of the first */
	frame_numbers_release(&m);
	f.frames--;
	frame_lists_number(l, list, &f, &m);
	assert_int_equal(m.of, 0);
	assert_int_equal(m.n_new, 2);
	frame_numbers_release(&m);
	frame_lists_free(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_function_called_total), cmocka_unit_test(test_forgotten_list) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
