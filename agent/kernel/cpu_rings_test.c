/* SPDX-License-Identifier: Apache-2.0 */
/* Every record that was put in a CPU's ring comes out, once, in order, wherever the ring's end falls; nothing that is not
 * complete does. The writer here does what bpf/send.bpf.h does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>

#include "agent/kernel/cpu_rings.h"
#include "base/alloc.h"

/* As the program does; whether there was room. */
static bool put(struct cpu_ring *r, uint64_t *at, uint64_t bytes, uint64_t fill)
{
	uint64_t off = *at % CPU_RING_BYTES, skip = off > CPU_RING_BYTES - 8 - CPU_RECORD_MAX ? CPU_RING_BYTES - off : 0;

	if (*at + skip + 8 + bytes > r->taken + CPU_RING_BYTES)
		return false;
	if (skip) {
		*(uint64_t *)(void *)(r->b + off) = CPU_RING_SKIP;
		off = 0;
	}
	for (uint64_t i = 0; i < bytes; i += 8)
		*(uint64_t *)(void *)(r->b + off + 8 + i) = fill;
	*(uint64_t *)(void *)(r->b + off) = bytes;
	*at += skip + 8 + bytes;
	return true;
}

static struct cpu_rings two_rings(void)
{
	return (struct cpu_rings){ xcalloc(2, sizeof(struct cpu_ring)), xcalloc(2, sizeof(uint64_t)), 2 };
}

static void forget(struct cpu_rings *r)
{
	free(r->ring);
	free(r->at);
}

/* Sizes from the smallest to the largest, which the ring's end meets in many places; read in gulps of changing size. */
static void test_all_come_once(void **state)
{
	struct cpu_rings r = two_rings();
	uint64_t at = 0, put_n = 0, got_n = 0, refused = 0;

	for (unsigned turn = 0; turn < 5000; turn++) {
		for (unsigned i = 0; i < turn % 7; i++) {
			uint64_t bytes = put_n * 8 * 13 % (CPU_RECORD_MAX + 8 - sizeof(struct sample_head)) + sizeof(struct sample_head);
			bool ok = put(&r.ring[1], &at, bytes, put_n + 1);
			put_n += ok;
			refused += !ok;
		}
		const uint64_t *p;
		uint32_t n;
		for (unsigned i = 0; i < turn % 5 && (p = cpu_rings_next(&r, 1, &n)); i++) {
			assert_int_equal(n, got_n * 8 * 13 % (CPU_RECORD_MAX + 8 - sizeof(struct sample_head)) + sizeof(struct sample_head));
			got_n++;
			assert_int_equal(p[0], got_n);
			assert_int_equal(p[n / 8 - 1], got_n);
		}
		assert_null(cpu_rings_next(&r, 0, &n));
		cpu_rings_done(&r);
	}
	assert_true(refused > 0);
	assert_true(put_n > 5000);
	const void *p;
	uint32_t n;
	while ((p = cpu_rings_next(&r, 1, &n)))
		got_n++;
	assert_int_equal(got_n, put_n);
	forget(&r);
}

/* The length is written last; what stood there in the round before must not be taken for one. */
static void test_unfinished(void **state)
{
	struct cpu_rings r = two_rings();
	uint64_t at = 0, *word = (uint64_t *)(void *)r.ring[0].b;
	uint32_t n;

	while (put(&r.ring[0], &at, 512, 512))
		;
	while (cpu_rings_next(&r, 0, &n))
		;
	cpu_rings_done(&r);
	uint64_t next = r.at[0] % CPU_RING_BYTES / 8;
	word[next + 1] = 77;         /* under way */
	assert_null(cpu_rings_next(&r, 0, &n));
	word[next] = 8;
	assert_int_equal(*(const uint64_t *)cpu_rings_next(&r, 0, &n), 77);
	assert_int_equal(n, 8);
	forget(&r);
}

/* Sizes that no program of ours writes. */
static void test_nonsense(void **state)
{
	static const uint64_t sizes[] = { 3, 12, CPU_RECORD_MAX + 8, UINT64_MAX - 7 };
	struct cpu_rings r = two_rings();
	uint32_t n;

	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		*(uint64_t *)(void *)r.ring[0].b = sizes[i];
		assert_null(cpu_rings_next(&r, 0, &n));
	}
	forget(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_come_once),
		cmocka_unit_test(test_unfinished),
		cmocka_unit_test(test_nonsense),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
