/* SPDX-License-Identifier: Apache-2.0 */
/* Off-CPU profiles: how long threads wait, and where. The program at thread switches (bpf/offcpu.bpf.h) reports each wait that reaches
 * the threshold, with the stack at which the thread left the CPU. Here it is finished, named and counted like a sample, with
 * nanoseconds as its value, in the window in which it ends.
 *
 * Costs go by steps (pacer.h). At step 0 recording may use three quarters of --max-cost of each CPU. Each further step halves that and
 * doubles the threshold. At the last one nothing is recorded, which also saves the program's own time at each switch. Unseen waits
 * appear in the profile as [lost: paused]. */
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
