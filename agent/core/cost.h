/* SPDX-License-Identifier: Apache-2.0 */
/* Measures the agent's cost (pacer.h has the limit and its effects), and the host's CPU time that it did not see. Drain thread only.
 *
 * Unseen ticks (interrupts off, a throttled event, a virtual CPU that did not run) are found CPU by CPU: the samples' values should
 * add up to the time that /proc/stat counts as not idle. */
#ifndef PYRRHA_AGENT_COST_H
#define PYRRHA_AGENT_COST_H

#include <stdio.h>

#include "base/attrs.h"
#include "bpf/abi.h"

#define COST_INTERVAL_NS 10000000000ll

struct agent_cost {
	struct cost_cpu {
		int64_t busy_ns;     /* not idle, then; 0 = not known */
		int64_t sampled_ns;  /* value of the ticks since, of those without a sample too if they were counted */
		uint64_t untaken;    /* ticks without a sample so far */
	} cpus[MAX_CPUS];
};

/* CPU time of the process. */
int64_t cost_own_ns(void);
/* A tick of a CPU, and the time that it represents. */
void cost_sampled(struct agent_cost *c, uint32_t cpu, int64_t value_ns);
/* How many ticks of a CPU had no sample, since the start: filtered, or there was no room. */
void cost_untaken(struct agent_cost *c, uint32_t cpu, uint64_t ticks, int64_t period_ns);
/* The time that each CPU was neither idle nor waiting for I/O nor stolen, since the start of the host; 0 = it is not in /proc/stat,
 * whose text is read from f. */
void cost_read_busy(FILE *f, int64_t ret_ns[MAX_CPUS]);
/* Switches of threads since the start of the host, further down in the same text; 0 = not said. */
uint64_t cost_read_switches(FILE *f);
/* Time in the interval that just ended that no sample accounts for, beyond random error, on one CPU or on all together; 0 = none.
 * busy_ns: now. */
int64_t cost_unseen(struct agent_cost *c, const int64_t busy_ns[MAX_CPUS], double hz);

#endif
