/* SPDX-License-Identifier: Apache-2.0 */
/* How much CPU time work may take in the long run that programs of others cause: an income of so much a second, saved up to a limit. Work is begun
 * while anything is left, and paid for afterwards, so a single piece may overdraw it. Times are CLOCK_MONOTONIC, amounts CPU time in ns. */
#ifndef PYRRHA_AGENT_PURSE_H
#define PYRRHA_AGENT_PURSE_H

#include <stdbool.h>
#include <stdint.h>

struct purse {
	double share;                /* income: ns of CPU time a ns; 0 = there is no limit */
	int64_t most_ns;             /* saved at most */
	int64_t left_ns;             /* below 0: overdrawn */
	int64_t at_ns;               /* income was added up to then */
};

/* first_ns: what is there at the start; it may be more than most_ns, and is then used up first. */
void purse_init(struct purse *p, double share, int64_t most_ns, int64_t first_ns, int64_t now_ns);
/* Whether anything is left. */
bool purse_open(struct purse *p, int64_t now_ns);
void purse_pay(struct purse *p, int64_t cpu_ns);

#endif
