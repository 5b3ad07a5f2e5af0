/* SPDX-License-Identifier: Apache-2.0 */
/* Off-CPU profiles: how long threads wait, and where. The program at switches of threads (bpf/offcpu.bpf.h) reports each
 * wait that reaches the threshold, with the stack of the moment the thread left the CPU; here it is finished, named and
 * counted like a sample, with nanoseconds as its value, in the window in which it ends.
 *
 * Costs go by steps (pacer.h). At step 0 watching may use three quarters of --max-cost of each CPU; each further step
 * halves that and doubles the threshold; at the last one nothing is watched (the program's own time at each switch is what
 * is left to save). What is not seen meanwhile stands in the profile as [lost: paused]. */
#ifndef PYRRHA_AGENT_OFFCPU_H
#define PYRRHA_AGENT_OFFCPU_H

#include "base/attrs.h"

struct off_cpu {
	uint64_t schedule;           /* address of the kernel's __schedule(); 0 = not known */
	int64_t paused_ns;           /* accounted for up to there, while paused */
	/* Counted for the metrics. */
	uint64_t costly, evicted, dropped;
};

#endif
