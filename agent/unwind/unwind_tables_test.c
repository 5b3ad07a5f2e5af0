/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of slots, and numbers of images: none is used again before what the kernel remembers of it is wiped. The slots of
 * processes. The short form of rules. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "agent/kernel/kernel_procs.h"
#include "agent/unwind/extents.h"
#include "agent/unwind/image_ids.h"
#include "base/alloc.h"

static void test_extents(void **state)
{
	struct extents x;
	uint32_t a, b, c;

	extents_init(&x, 100);
	assert_true(extents_alloc(&x, 40, 1, &a) && extents_alloc(&x, 40, 1, &b) && a == 0 && b == 40);
	assert_false(extents_alloc(&x, 40, 1, &c));
	extents_free(&x, a, 40, 1);
	assert_false(extents_alloc(&x, 40, REUSE_NS, &c)); /* it rests */
	assert_int_equal(extents_room(&x), 60);
	assert_true(extents_alloc(&x, 40, 1 + REUSE_NS, &c) && c == 0);
	extents_free(&x, c, 40, 2);
	extents_free(&x, b, 40, 3);
	assert_false(extents_alloc(&x, 100, 2 + REUSE_NS, &c));
	assert_true(extents_alloc(&x, 100, 3 + REUSE_NS, &c) && c == 0); /* neighbours are joined */
	extents_add(&x, 500, 10);
	assert_true(extents_alloc(&x, 10, 4, &c) && c == 500); /* what is new needs no rest */
	extents_release(&x);
}

static void test_given_back(void **state)
{
	struct unwind_proc *slots = xcalloc(PROC_SLOTS, sizeof *slots);
	struct cache_wiper w;
	struct image_ids ids;
	int64_t now = 1000;

	cache_wiper_init(&w, slots, -1);
	image_ids_init(&ids, &w);
	for (uint32_t i = 0; i < IDS_WIPE; i++)
		assert_int_equal(image_ids_take(&ids, now), IMAGE_FIRST + i);
	for (uint32_t i = 0; i < IDS_WIPE - 1; i++)
		image_ids_give(&ids, (uint16_t)(IMAGE_FIRST + i), now);
	now += 10 * REUSE_NS;
	assert_int_equal(image_ids_take(&ids, now), IMAGE_FIRST + IDS_WIPE); /* a fresh one, however long they rest */
	struct unwind_proc v = { .tgid = 7, .set = 1, .flags = UNWIND_PROC_QUIET | cache_wiper_flags(&w) };
	assert_true(kernel_procs_set(slots, &v));
	assert_int_equal(slots[7].flags, UNWIND_PROC_QUIET | UNWIND_PROC_CACHED);
	image_ids_give(&ids, IMAGE_FIRST + IDS_WIPE - 1, now);               /* now there are enough to wipe */
	assert_int_equal(slots[7].flags, UNWIND_PROC_QUIET);                 /* and nobody uses what is remembered */
	assert_int_equal(cache_wiper_flags(&w), 0);
	assert_int_equal(image_ids_take(&ids, now + REUSE_NS - 1), IMAGE_FIRST + IDS_WIPE + 1);
	assert_true(image_ids_take(&ids, now + REUSE_NS) < IMAGE_FIRST + IDS_WIPE);
	assert_int_equal(slots[7].flags, UNWIND_PROC_QUIET | UNWIND_PROC_CACHED);
	assert_int_equal(cache_wiper_flags(&w), UNWIND_PROC_CACHED);
	image_ids_release(&ids);
	free(slots);
}

static void test_all_taken(void **state)
{
	struct unwind_proc *slots = xcalloc(PROC_SLOTS, sizeof *slots);
	struct cache_wiper w;
	struct image_ids ids;

	cache_wiper_init(&w, slots, -1);
	image_ids_init(&ids, &w);
	for (uint32_t i = IMAGE_FIRST; i < IMAGES_MAX; i++)
		assert_int_equal(image_ids_take(&ids, 1), i);
	assert_int_equal(image_ids_take(&ids, 1), 0);
	image_ids_release(&ids);
	free(slots);
}

/* A wipe serves all orders, so it waits for the last; one that the kernel refuses is tried again. */
static void test_wipes(void **state)
{
	struct unwind_proc *slots = xcalloc(PROC_SLOTS, sizeof *slots);
	struct cache_wiper w;
	int64_t now = 1000;

	cache_wiper_init(&w, slots, -1);
	uint64_t first = cache_wiper_order(&w, now), second = cache_wiper_order(&w, now + REUSE_NS / 2);
	cache_wiper_advance(&w, now + REUSE_NS);
	assert_false(cache_wiper_done(&w, first) || cache_wiper_done(&w, second));
	assert_int_equal(cache_wiper_flags(&w), 0);
	cache_wiper_advance(&w, now + REUSE_NS / 2 + REUSE_NS);
	assert_true(cache_wiper_done(&w, first) && cache_wiper_done(&w, second));
	assert_int_equal(cache_wiper_flags(&w), UNWIND_PROC_CACHED);
	w.fd = 1 << 30;                      /* which nobody has opened */
	uint64_t third = cache_wiper_order(&w, now);
	cache_wiper_advance(&w, now + REUSE_NS);
	assert_false(cache_wiper_done(&w, third));
	assert_int_equal(cache_wiper_flags(&w), 0);
	w.fd = -1;
	cache_wiper_advance(&w, now + REUSE_NS);
	assert_true(cache_wiper_done(&w, third));
	free(slots);
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

/* --- the short form of a rule does what the rule does --- */

static uint64_t stack[64];

static const struct unwind_map *uw_recent(struct unwind *u)
{
	return NULL;
}

static void uw_met(struct unwind *u, const struct unwind_map *m)
{
}

static const struct unwind_map *uw_maps(struct unwind *u)
{
	return NULL;
}

static const struct unwind_image *uw_image(struct unwind *u, uint32_t id)
{
	return NULL;
}

static const __u64 *uw_pages(struct unwind *u)
{
	return NULL;
}

static const uint32_t *uw_chunk(struct unwind *u, uint32_t i)
{
	return NULL;
}

static const struct unwind_rule *uw_rule(struct unwind *u, uint32_t i)
{
	return NULL;
}

static bool uw_cache_get(struct unwind *u, uint64_t vaddr, uint32_t *code)
{
	return false;
}

static void uw_cache_put(struct unwind *u, uint64_t vaddr, uint32_t code)
{
}

static long uw_read(struct unwind *u, void *to, uint32_t n, uint64_t at)
{
	if (at < 4096 || at + n > 4096 + sizeof stack)
		return -1;
	memcpy(to, (const char *)stack + (at - 4096), n);
	return 0;
}

static long uw_code(struct unwind *u, uint8_t to[UW_CODE])
{
	return -1;
}

static bool uw_push(struct unwind *u, uint64_t frame)
{
	return true;
}

#define UW_OPAQUE(v) (void)(v)
static int uw_walk(struct unwind *u, uint32_t kind, uint64_t sp, uint64_t vaddr, uint64_t frame)
{
	return uw_push(u, frame) ? UW_STEP_ON : END_DEPTH;
}

static int uw_step_code(struct unwind *u, uint32_t kind, uint64_t frame)
{
	return UW_NO_CODE;
}

#include "bpf/unwind.h"

/* Rules around every limit of the short form, from two places on a stack: each ends alike, and most have one. */
static void test_short_rules(void **state)
{
	static const int32_t offs[] = { -16, -8, -1, 0, 1, 4, 8, 16, 24, 256, 131064, 131072, 131080, INT32_MIN, INT32_MAX };
	static const int32_t fps[] = { INT32_MIN, -256, -248, -24, -20, -16, -8, 0, 8, 16, INT32_MAX };
	unsigned n_short = 0;

	for (size_t i = 0; i < ARRAY_LEN(stack); i++)
		stack[i] = 5000 + i;
	for (unsigned cfa = CFA_NONE; cfa <= CFA_UNSUPPORTED; cfa++)
		for (unsigned fp = FP_SAME; fp <= FP_UNKNOWN; fp++)
			for (unsigned ra = RA_CFA_8; ra <= RA_CFA_ADD; ra++)
				for (size_t i = 0; i < ARRAY_LEN(offs) * ARRAY_LEN(fps) * 4; i++) {
					struct unwind_rule r = { .cfa = (uint8_t)cfa, .fp = (uint8_t)fp, .ra = (uint8_t)ra,
								 .cfa_off = offs[i / 4 / ARRAY_LEN(fps)], .fp_off = fps[i / 4 % ARRAY_LEN(fps)] };
					struct unwind a = { .ip = 1, .sp = i & 1 ? 4096 : 4200, .fp = 4400, .fp_unknown = i >> 1 & 1 }, b = a;
					uint32_t code = uw_shorten(&r, 77);
					if (!(code & SHORT_IS_RULE)) {
						assert_int_equal(code, 77);
						continue;
					}
					assert_int_equal(code >> SHORT_BITS, 0);
					assert_int_equal(uw_by_short(&a, code), uw_by_rule(&b, &r));
					assert_memory_equal(&a, &b, sizeof a);
					n_short++;
				}
	assert_true(n_short > 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_extents),
		cmocka_unit_test(test_given_back),
		cmocka_unit_test(test_all_taken),
		cmocka_unit_test(test_wipes),
		cmocka_unit_test(test_procs),
		cmocka_unit_test(test_short_rules),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
