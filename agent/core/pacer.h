/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the agent within --max-cost: how often CPUs are sampled, and how far watching waits is cut down. Pure: it is given
 * readings every COST_INTERVAL_NS and says what is to change. Drain thread only.
 *
 * The agent's cost, as shares of all CPUs, in four parts, each computed for the current frequency and step:
 *
 *	fixed    the agent itself: processes, tables, names, answers; changes with neither
 *	on       samples: goes with the frequency
 *	timing   off-CPU, at each switch of threads without any stack: all of it or, paused, nothing
 *	waits    off-CPU, stacks and what is done with them: halves with each step
 *
 * Samples have the rest of the limit after fixed, off-CPU the rest after both, and each has at least a quarter of it. If on exceeds
 * that, the frequency halves. If timing + waits exceed it, off-CPU is reduced to the first step that fits. If none fits, off-CPU
 * pauses, and the host's count of switches gives its likely cost. So off-CPU never lowers the frequency. A step up is taken when the
 * doubled part would fit, with a tenth of the limit to spare. This uses the most expensive of the last intervals; those of a load that
 * has ended no longer count. */
#ifndef PYRRHA_AGENT_PACER_H
#define PYRRHA_AGENT_PACER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OFF_STEPS 7                  /* the last one: paused */
#define PACER_RECENT 3              /* intervals */

struct pacer_part {
	double average;              /* of a minute, roughly: tables and names of new programs come in bursts */
	double recent[PACER_RECENT];
};

/* The cost so far. */
struct pacer_readings {
	int64_t now_ns;
	uint64_t own_ns;             /* CPU time of the process */
	uint64_t on_ns, off_ns;      /* of that, on samples; on waits */
	uint64_t sampling_ns;        /* the program at ticks */
	uint64_t switch_ns;          /* the program at switches */
	uint64_t stack_ns;           /* of that, where a stack was taken or a wait reported */
	uint64_t watched;            /* switches that program saw */
	uint64_t switches;           /* of the host; 0 = not known */
};

struct pacer {
	double max;                  /* a share of all CPUs */
	double nominal_hz, hz;       /* what is wanted; now */
	bool off_cpu;
	unsigned step;               /* of off-CPU, 0 ... OFF_STEPS */
	struct pacer_part fixed, on, timing, waits;
	double share;                /* paid in the last minute, roughly */
	double timing_ns, waits_ns;  /* of a switch: to time it; its part of waits, at the present step */
	struct pacer_readings last;
};

enum { PACER_HZ = 1, PACER_STEP = 2 };

void pacer_init(struct pacer *c, double max, double hz, bool off_cpu);
/* Takes the interval since the last call into account: which of hz and step changed. */
unsigned pacer_check(struct pacer *c, const struct pacer_readings *r, size_t cpus);

/* Says how the on-CPU or off-CPU profiles are reduced at the moment; empty if they are not. For off-CPU the shortest wait at step 0 is
 * given. */
#define PACER_NOTE 160
void pacer_note(const struct pacer *c, bool of_off_cpu, int64_t threshold_ns, char out[PACER_NOTE]);

#endif
