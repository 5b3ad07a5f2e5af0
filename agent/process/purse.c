/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/purse.h"

void purse_init(struct purse *p, double share, int64_t most_ns, int64_t first_ns, int64_t now_ns)
{
	*p = (struct purse){ .share = share, .most_ns = most_ns, .left_ns = first_ns, .at_ns = now_ns };
}

bool purse_open(struct purse *p, int64_t now_ns)
{
	if (p->share == 0)
		return true;
	double income = p->share * (double)(now_ns - p->at_ns);
	if (p->left_ns < p->most_ns)
		p->left_ns = income < (double)(p->most_ns - p->left_ns) ? p->left_ns + (int64_t)income : p->most_ns;
	p->at_ns = now_ns;
	return p->left_ns > 0;
}

void purse_pay(struct purse *p, int64_t cpu_ns)
{
	p->left_ns -= cpu_ns;
}
