/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/cpu_budget.h"

void cpu_budget_init(struct cpu_budget *b, double share, int64_t most_ns, int64_t first_ns, int64_t now_ns)
{
	*b = (struct cpu_budget){ .share = share, .most_ns = most_ns, .left_ns = first_ns, .at_ns = now_ns };
}

bool cpu_budget_open(struct cpu_budget *b, int64_t now_ns)
{
	if (b->share == 0)
		return true;
	double grown = b->share * (double)(now_ns - b->at_ns);
	if (b->left_ns < b->most_ns)
		b->left_ns = grown < (double)(b->most_ns - b->left_ns) ? b->left_ns + (int64_t)grown : b->most_ns;
	b->at_ns = now_ns;
	return b->left_ns > 0;
}

void cpu_budget_charge(struct cpu_budget *b, int64_t cpu_ns)
{
	b->left_ns -= cpu_ns;
}
