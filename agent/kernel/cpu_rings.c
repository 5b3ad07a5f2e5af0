/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/kernel/cpu_rings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"

int cpu_rings_open(struct cpu_rings *r, int fd, unsigned n, struct err *e)
{
	void *p = mmap(NULL, n * sizeof *r->ring, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	*r = (struct cpu_rings){ 0 };
	if (p == MAP_FAILED)
		return err_errno(e, errno, "map the CPUs' rings of samples");
	*r = (struct cpu_rings){ p, xcalloc(n, sizeof *r->at), n };
	return 0;
}

void cpu_rings_release(struct cpu_rings *r)
{
	if (r->ring)
		munmap(r->ring, r->n * sizeof *r->ring);
	free(r->at);
	*r = (struct cpu_rings){ 0 };
}

const void *cpu_rings_next(struct cpu_rings *r, unsigned cpu, uint32_t *ret_bytes)
{
	const uint8_t *b = r->ring[cpu].b;
	uint64_t at = r->at[cpu];

	/* All of it may be unread, and then nothing in it is 0. */
	if (at - r->ring[cpu].taken >= CPU_RING_BYTES)
		return NULL;
	uint64_t n = __atomic_load_n((const uint64_t *)(const void *)(b + at % CPU_RING_BYTES), __ATOMIC_ACQUIRE);
	if (n == CPU_RING_SKIP) {
		r->at[cpu] += CPU_RING_BYTES - at % CPU_RING_BYTES;
		return cpu_rings_next(r, cpu, ret_bytes);
	}
	if (n == 0 || n % 8 || n > CPU_RECORD_MAX || at % CPU_RING_BYTES > CPU_RING_BYTES - 8 - n)
		return NULL;
	r->at[cpu] += 8 + n;
	*ret_bytes = (uint32_t)n;
	return b + at % CPU_RING_BYTES + 8;
}

void cpu_rings_done(struct cpu_rings *r)
{
	for (unsigned i = 0; i < r->n; i++) {
		struct cpu_ring *ring = &r->ring[i];
		uint64_t from = ring->taken % CPU_RING_BYTES, n = r->at[i] - ring->taken;
		uint64_t first = n < CPU_RING_BYTES - from ? n : CPU_RING_BYTES - from;

		if (!n)
			continue;
		/* The place of the next record is 0 until that record is complete. */
		memset(ring->b + from, 0, first);
		memset(ring->b, 0, n - first);
		__atomic_store_n(&ring->taken, r->at[i], __ATOMIC_RELEASE);
	}
}
