/* SPDX-License-Identifier: Apache-2.0 */
/* What the agent costs the host, and what of the host it did not see. Drain thread only.
 *
 * Cost is the agent's own CPU time and the sampling program's (by clock readings in it), as a share of all CPUs. Above
 * the limit the frequency is halved, well below it is doubled again; where waits are profiled and they are the larger
 * part of what the programs cost, it is those that are cut down first (offcpu.h).
 *
 * Ticks that were not seen (interrupts off, a throttled event, a virtual CPU that did not run) are told by the time
 * that /proc/stat counts as not idle, which the samples' values should add up to. */
#ifndef PYRRHA_AGENT_COST_H
#define PYRRHA_AGENT_COST_H

#include "base/attrs.h"

#define COST_INTERVAL_NS 10000000000ll

struct cost {
	int64_t at_ns;               /* when it was last looked at */
	int64_t own_ns;              /* CPU time of the process then */
	uint64_t sampling_ns, off_ns; /* of the programs then: at ticks, at switches */
	bool mostly_off;             /* of the interval that ended: switches cost more than ticks */
	double share;                /* of the last minute, roughly */
	int64_t busy_ns;             /* of the host, not idle, then; -1 = /proc/stat cannot be read */
	int64_t sampled_ns;          /* value of the samples since */
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
/* Time of the interval that just ended which no sample stands for, beyond what chance explains; 0 = none. */
int64_t cost_unseen(struct cost *c, int64_t interval_ns, double hz);
/* Sum over CPUs of what is neither idle nor waiting for I/O nor stolen; -1 if it cannot be read. */
int64_t cost_busy_ns(void);

#endif
