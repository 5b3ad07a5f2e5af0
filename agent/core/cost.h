/* SPDX-License-Identifier: Apache-2.0 */
/* Measures the agent's cost (pacer.h has the limit and its effects), and the host's CPU time that it did not see. Drain thread only.
 *
 * Unseen ticks (interrupts off, a throttled event, a virtual CPU that did not run) are found CPU by CPU: the samples' values should
 * add up to the time that /proc/stat counts as not idle. A drain may take long, so /proc/stat is read before the rings are, and its
 * numbers are compared with the samples that are not later than the reading, once all of them were taken. */
#ifndef PYRRHA_AGENT_COST_H
#define PYRRHA_AGENT_COST_H

#include <stdio.h>

#include "base/attrs.h"
#include "bpf/abi.h"

#define COST_INTERVAL_NS 10000000000ll

struct agent_cost {
	int64_t read_ns;             /* CLOCK_MONOTONIC of the last reading */
	uint64_t switches;           /* context switches of the host since it started, as /proc/stat had them at the last reading; 0 = it has none */
	bool pending;                /* cost_unseen has not looked at the last reading yet */
	struct cost_cpu {
		int64_t before_ns;   /* CPU time that was not idle, at the reading before the last; 0 = not known */
		int64_t busy_ns;     /* by the last one */
		int64_t sampled_ns;  /* value of the ticks in between, of those without a sample too if they were counted */
		int64_t later_ns;    /* of the ticks since */
		uint64_t untaken;    /* ticks without a sample so far */
	} cpus[MAX_CPUS];
};

/* CPU time of the process. */
int64_t cost_own_ns(void);
/* Counts a sample of a CPU: taken at time_ns, it stands for so much CPU time. */
void cost_sampled(struct agent_cost *c, uint32_t cpu, int64_t time_ns, int64_t value_ns);
/* To be called before cost_reading: how many ticks of a CPU had no sample since the agent started, because a filter leaves the process out or the
 * ring had no room. */
void cost_untaken(struct agent_cost *c, uint32_t cpu, uint64_t ticks, int64_t period_ns);
/* The time that each CPU was neither idle nor waiting for I/O nor stolen, since the start of the host; 0 = it is not in /proc/stat,
 * whose text is read from f. */
void cost_read_busy(FILE *f, int64_t ret_ns[MAX_CPUS]);
/* Context switches of the host since it started, further down in the same text; 0 = it has no such line. */
uint64_t cost_read_switches(FILE *f);
/* Reads /proc/stat from f, at now_ns. cost_unseen must have been called after the reading before, which this one replaces. */
void cost_reading(struct agent_cost *c, FILE *f, int64_t now_ns);
/* All ticks up to the last reading were told. Returns the time between it and the one before that no sample accounts for, beyond random
 * error, on one CPU or on all together; 0 = none. */
int64_t cost_unseen(struct agent_cost *c, double hz);

#endif
