/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/core/cost.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"

int64_t cost_own_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* "cpu3 user nice system idle iowait irq softirq steal guest guest_nice", in ticks; guests are counted in user. */
static bool busy_ticks(const char *line, uint32_t *ret_cpu, int64_t *ret)
{
	char *at;
	unsigned long cpu = strtoul(line + 3, &at, 10);

	if (at == line + 3 || cpu >= MAX_CPUS) /* "cpu " is all of them */
		return false;
	*ret_cpu = (uint32_t)cpu;
	*ret = 0;
	for (int i = 0; i < 7; i++) {
		int64_t v = (int64_t)strtoull(at, &at, 10);
		if (i != 3 && i != 4)
			*ret += v;
	}
	return true;
}

void cost_read_busy(FILE *f, int64_t ret_ns[MAX_CPUS])
{
	int64_t tick_ns = 1000000000 / MAX(sysconf(_SC_CLK_TCK), 1L), ticks;
	char line[512];
	uint32_t cpu;

	memset(ret_ns, 0, MAX_CPUS * sizeof *ret_ns);
	while (fgets(line, sizeof line, f) && strncmp(line, "cpu", 3) == 0)
		if (line[3] != ' ' && busy_ticks(line, &cpu, &ticks))
			ret_ns[cpu] = ticks * tick_ns;
}

uint64_t cost_read_switches(FILE *f)
{
	char line[512];

	while (fgets(line, sizeof line, f)) /* the line of interrupts is long: a piece of it begins with a space or a digit */
		if (strncmp(line, "ctxt ", 5) == 0)
			return strtoull(line + 5, NULL, 10);
	return 0;
}

void cost_sampled(struct agent_cost *c, uint32_t cpu, int64_t time_ns, int64_t value_ns)
{
	if (cpu < MAX_CPUS)
		*(c->pending && time_ns > c->read_ns ? &c->cpus[cpu].later_ns : &c->cpus[cpu].sampled_ns) += value_ns;
}

void cost_untaken(struct agent_cost *c, uint32_t cpu, uint64_t ticks, int64_t period_ns)
{
	if (cpu >= MAX_CPUS)
		return;
	c->cpus[cpu].sampled_ns += (int64_t)(ticks - c->cpus[cpu].untaken) * period_ns;
	c->cpus[cpu].untaken = ticks;
}

void cost_reading(struct agent_cost *c, FILE *f, int64_t now_ns)
{
	AUTOFREE int64_t *busy = xcalloc(MAX_CPUS, sizeof *busy);

	cost_read_busy(f, busy);
	c->switches = cost_read_switches(f);
	c->read_ns = now_ns;
	c->pending = true;
	for (uint32_t i = 0; i < MAX_CPUS; i++) {
		c->cpus[i].before_ns = c->cpus[i].busy_ns;
		c->cpus[i].busy_ns = busy[i];
	}
}

/* Samples of a busy share scatter by the root of their number; /proc/stat itself is in steps of a tick. */
static bool beyond_chance(int64_t unseen_ns, int64_t busy_ns, double period_ns)
{
	return (double)unseen_ns > 5 * sqrt((double)busy_ns / period_ns + 1) * period_ns + 0.02 * (double)busy_ns;
}

int64_t cost_unseen(struct agent_cost *c, double hz)
{
	int64_t found = 0, others = 0, others_busy = 0;
	double period = 1e9 / hz;

	c->pending = false;
	for (uint32_t i = 0; i < MAX_CPUS; i++) {
		struct cost_cpu *cpu = &c->cpus[i];
		int64_t busy = cpu->busy_ns - cpu->before_ns, unseen = busy - cpu->sampled_ns;
		cpu->sampled_ns = cpu->later_ns;
		cpu->later_ns = 0;
		if (cpu->busy_ns <= 0 || cpu->before_ns <= 0 || busy < 0)
			continue;
		if (beyond_chance(unseen, busy, period)) {
			found += unseen;
		} else {
			others += unseen;
			others_busy += busy;
		}
	}
	return found + (beyond_chance(others, others_busy, period) ? others : 0);
}
