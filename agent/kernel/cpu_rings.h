/* SPDX-License-Identifier: Apache-2.0 */
/* The rings of struct cpu_ring (bpf/abi.h), one per CPU, which the sampling program writes and the agent empties: memory
 * shared with the kernel, without a lock and without calls. Drain thread only. */
#ifndef PYRRHA_AGENT_CPU_RINGS_H
#define PYRRHA_AGENT_CPU_RINGS_H

#include <stdint.h>

#include "base/err.h"
#include "bpf/abi.h"

struct cpu_rings {
	struct cpu_ring *ring;       /* n of them; NULL = none */
	uint64_t *at;                /* how far each was read */
	unsigned n;
};

/* Maps the rings of the BPF map `fd`, which has n. */
int cpu_rings_open(struct cpu_rings *r, int fd, unsigned n, struct err *e) MUST_USE;
void cpu_rings_release(struct cpu_rings *r);
/* The next record of CPU `cpu` (below n), and its bytes; NULL = that was all. It stays valid until cpu_rings_done. */
const void *cpu_rings_next(struct cpu_rings *r, unsigned cpu, uint32_t *ret_bytes);
/* Gives back the room of what was read. */
void cpu_rings_done(struct cpu_rings *r);

#endif
