/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of images: none is used again before what the kernel remembers of it is wiped. And the slots of processes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "agent/extents.h"
#include "agent/image_ids.h"
#include "agent/kernel_procs.h"
#include "base/alloc.h"

static void test_given_back(void **state)
{
	struct unwind_image *images = xcalloc(IMAGES_MAX, sizeof *images);
	struct image_ids ids;
	int64_t now = 1000;

	image_ids_init(&ids, images, -1);
	for (uint32_t i = 0; i < IDS_WIPE; i++)
		assert_int_equal(image_ids_take(&ids, now), IMAGE_FIRST + i);
	for (uint32_t i = 0; i < IDS_WIPE - 1; i++)
		image_ids_give(&ids, (uint16_t)(IMAGE_FIRST + i), now);
	now += 10 * REUSE_NS;
	assert_int_equal(image_ids_take(&ids, now), IMAGE_FIRST + IDS_WIPE); /* a fresh one, however long they rest */
	image_ids_give(&ids, IMAGE_FIRST + IDS_WIPE - 1, now);               /* now there are enough to wipe */
	assert_int_equal(image_ids_take(&ids, now + REUSE_NS - 1), IMAGE_FIRST + IDS_WIPE + 1);
	assert_true(image_ids_take(&ids, now + REUSE_NS) < IMAGE_FIRST + IDS_WIPE);
	image_ids_release(&ids);
	free(images);
}

static void test_all_taken(void **state)
{
	struct unwind_image *images = xcalloc(IMAGES_MAX, sizeof *images);
	struct image_ids ids;

	image_ids_init(&ids, images, -1);
	for (uint32_t i = IMAGE_FIRST; i < IMAGES_MAX; i++)
		assert_int_equal(image_ids_take(&ids, 1), i);
	assert_int_equal(image_ids_take(&ids, 1), 0);
	image_ids_release(&ids);
	free(images);
}

static unsigned entries(const struct unwind_proc *slots, uint32_t tgid)
{
	unsigned n = 0;
	for (uint32_t i = 0; i < PROC_SLOTS; i++)
		n += slots[i].tgid == tgid && slots[i].set;
	return n;
}

static void test_procs(void **state)
{
	struct unwind_proc *slots = xcalloc(PROC_SLOTS, sizeof *slots);

	/* As many as fit from one slot on, around the end. */
	for (uint32_t i = 0; i < PROC_PROBES; i++) {
		struct unwind_proc v = { .tgid = PROC_SLOTS - 2 + i * PROC_SLOTS, .set = i + 1, .first = 10 * i };
		assert_true(kernel_procs_set(slots, &v));
	}
	struct unwind_proc more = { .tgid = PROC_SLOTS - 2 + 100 * PROC_SLOTS, .set = 100 };
	assert_false(kernel_procs_set(slots, &more));
	/* An entry changes where it is. */
	struct unwind_proc v = { .tgid = PROC_SLOTS - 2 + 3 * PROC_SLOTS, .set = 50, .first = 7 };
	assert_true(kernel_procs_set(slots, &v));
	assert_int_equal(entries(slots, v.tgid), 1);
	assert_int_equal(slots[1].first, 7);
	assert_int_equal(slots[1].set, 50);
	/* A hole is filled, and does not hide those behind it. */
	kernel_procs_remove(slots, PROC_SLOTS - 2);
	assert_int_equal(entries(slots, PROC_SLOTS - 2), 0);
	v.set = 51;
	assert_true(kernel_procs_set(slots, &v));
	assert_int_equal(entries(slots, v.tgid), 1);
	assert_true(kernel_procs_set(slots, &more));
	assert_int_equal(entries(slots, more.tgid), 1);
	free(slots);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_given_back),
		cmocka_unit_test(test_all_taken),
		cmocka_unit_test(test_procs),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
