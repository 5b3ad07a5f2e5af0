/* SPDX-License-Identifier: Apache-2.0 */
/* A thousand records of two CPUs that nobody could finish yet: each is kept, those that came late without their pieces of stack. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "agent/kernel/kept_records.h"
#include "agent/kernel/sampler.h"
#include "base/alloc.h"

#define FRAMES 30

/* A record of FRAMES frames and so many pages of stack. */
static struct sample_head *record(uint64_t time_ns, uint16_t flags, unsigned pages)
{
	struct sample_head h = { .time_ns = time_ns, .flags = flags, .user_words = FRAMES, .n_user = FRAMES, .stack_pages = (1u << pages) - 1 };
	size_t n = kept_records_bytes_of(&h);
	struct sample_head *ret = xcalloc(1, n);

	*ret = h;
	memset((uint8_t *)ret + sizeof h, (int)(time_ns & 0xff), n - sizeof h);
	return ret;
}

static void test_all_are_kept(void **state)
{
	struct kept_records b = { 0 };
	size_t whole = 0, more = 0;

	for (unsigned i = 0; i < 1000; i++) {
		struct sample_head *h = record(i, SAMPLE_DEFERRED, 5), *rest = record(i, SAMPLE_MORE, 5);
		assert_true(kept_records_have_room(b.bytes));
		const struct sample_head *kept = kept_records_add(&b, h, b.bytes);
		assert_non_null(kept);
		assert_int_equal(kept->time_ns, i);
		assert_int_equal(kept->n_user, FRAMES);
		assert_memory_equal(sample_user(kept), sample_user(h), FRAMES * 8);
		assert_int_equal(kept->stack_pages == 0, (kept->flags & SAMPLE_NO_COPY) != 0);
		if (kept->stack_pages)
			assert_memory_equal(kept, h, kept_records_bytes_of(h));
		whole += kept->stack_pages != 0;
		more += kept_records_add(&b, rest, b.bytes) != NULL;
		free(h);
		free(rest);
	}
	assert_in_range(whole, 50, 500);
	assert_in_range(more, whole - 1, whole + 1);
	assert_int_equal(b.v.n, 1000 + more);
	kept_records_release(&b);
	assert_int_equal(b.bytes, 0);
}

static void test_room_ends(void **state)
{
	struct kept_records b = { 0 };
	struct sample_head *h = record(1, 0, 0);
	size_t n = 0;

	while (kept_records_have_room(b.bytes)) {
		assert_non_null(kept_records_add(&b, h, b.bytes));
		n++;
	}
	assert_in_range(n, 10000, KEPT_BYTES_MAX / kept_records_bytes_of(h));
	assert_in_range(b.bytes, KEPT_BYTES_MAX / 2, KEPT_BYTES_MAX);
	kept_records_clear(&b);
	assert_true(kept_records_have_room(b.bytes));
	kept_records_release(&b);
	free(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_all_are_kept), cmocka_unit_test(test_room_ends) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
