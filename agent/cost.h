/* SPDX-License-Identifier: Apache-2.0 */
/* What the agent costs the host, and what of the host it did not see. Drain thread only.
 *
 * Cost is the agent's own CPU time and the sampling program's (by clock readings in it), as a share of all CPUs. Above
 * the limit the frequency is halved, well below it is doubled again; where waits are profiled and they are the larger
 * part of what the programs cost, it is those that are cut down first (offcpu.h).
 *
 * Ticks that were not seen (interrupts off, a throttled event, a virtual CPU that did not run) are told CPU by CPU, by the
 * time that /proc/stat counts as not idle, which the samples' values should add up to. */
#ifndef PYRRHA_AGENT_COST_H
#define PYRRHA_AGENT_COST_H

#include <stdio.h>

#include "base/attrs.h"
#include "bpf/abi.h"

#define COST_INTERVAL_NS 10000000000ll

struct cost {
	int64_t at_ns;               /* when it was last looked at */
	int64_t own_ns;              /* CPU time of the process then */
	uint64_t sampling_ns, off_ns; /* of the programs then: at ticks, at switches */
	bool mostly_off;             /* of the interval that ended: switches cost more than ticks */
	double share;                /* of the last minute, roughly */
	struct cost_cpu {
		int64_t busy_ns;     /* not idle, then; 0 = not known */
		int64_t sampled_ns;  /* value of the ticks since, of those without a sample too if they were counted */
		uint64_t untaken;    /* ticks without a sample so far */
	} cpus[MAX_CPUS];
};

/* What has been spent, up to now. */
struct cost_readings {
	int64_t now_ns;
	int64_t own_ns;              /* cost_own_ns() */
	uint64_t sampling_ns, off_ns;
};

int64_t cost_own_ns(void);
/* Takes the interval since the last call into account: -1 = spend less, 1 = there is room for more, 0 = go on. */
int cost_check(struct cost *c, const struct cost_readings *r, size_t cpus, double max_share);
/* The frequency after that advice. */
double cost_hz(double hz, double nominal_hz, int advice);
/* A tick of a CPU, and the time that it stands for. */
void cost_sampled(struct cost *c, uint32_t cpu, int64_t value_ns);
/* How many ticks of a CPU had no sample, since the start: filtered, or there was no room. */
void cost_untaken(struct cost *c, uint32_t cpu, uint64_t ticks, int64_t period_ns);
/* What each CPU was neither idle nor waiting for I/O nor stolen, since the start of the host; 0 = it is not in /proc/stat,
 * whose text is read from f. */
void cost_read_busy(FILE *f, int64_t ret_ns[MAX_CPUS]);
/* Time of the interval that just ended which no sample stands for, beyond what chance explains, on one CPU or on all
 * together; 0 = none. busy_ns: now. */
int64_t cost_unseen(struct cost *c, const int64_t busy_ns[MAX_CPUS], double hz);

#endif
