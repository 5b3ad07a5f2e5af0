/* SPDX-License-Identifier: Apache-2.0 */
/* A budget of CPU time for work that the profiled programs cause, such as building their unwind tables. It grows by a share of the time that passes. What is not
 * spent is kept, up to a limit. Work may begin while the balance is above 0 and is charged when it is done, so one piece of work may take the balance
 * below 0. Times are CLOCK_MONOTONIC, amounts are ns of CPU time. */
#ifndef PYRRHA_AGENT_CPU_BUDGET_H
#define PYRRHA_AGENT_CPU_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

struct cpu_budget {
	double share;                /* ns of CPU time that it grows by for each ns that passes; 0 = no limit */
	int64_t most_ns;             /* it does not grow beyond this balance */
	int64_t left_ns;             /* the balance at at_ns */
	int64_t at_ns;
};

/* first_ns: the balance at the start. It may be above most_ns. */
void cpu_budget_init(struct cpu_budget *b, double share, int64_t most_ns, int64_t first_ns, int64_t now_ns);
/* Whether the balance is above 0. */
bool cpu_budget_open(struct cpu_budget *b, int64_t now_ns);
void cpu_budget_charge(struct cpu_budget *b, int64_t cpu_ns);

#endif
