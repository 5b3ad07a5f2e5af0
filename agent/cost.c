/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cost.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int64_t cost_own_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

int64_t cost_busy_ns(void)
{
	char text[512], *at = text;
	long tick = sysconf(_SC_CLK_TCK);
	int64_t busy = 0;

	FILE *f = fopen("/proc/stat", "re");
	if (!f)
		return -1;
	bool ok = fgets(text, sizeof text, f) && strncmp(text, "cpu ", 4) == 0;
	fclose(f);
	if (!ok || tick <= 0)
		return -1;
	at += 4;
	/* user nice system idle iowait irq softirq steal guest guest_nice; guests are counted in user. */
	for (int i = 0; i < 7; i++) {
		int64_t v = (int64_t)strtoull(at, &at, 10);
		if (i != 3 && i != 4)
			busy += v;
	}
	return busy * (1000000000 / tick);
}

int cost_check(struct cost *c, const struct cost_readings *r, size_t cpus, double max_share)
{
	int64_t elapsed = r->now_ns - c->at_ns;
	int advice = 0;

	if (c->at_ns && elapsed > 0) {
		double sampling = (double)(r->sampling_ns - c->sampling_ns), off = (double)(r->off_ns - c->off_ns);
		double spent = (double)(r->own_ns - c->own_ns) + sampling + off;
		/* Over a minute or so: building tables and names of new programs comes in bursts. */
		c->share += (spent / ((double)elapsed * (double)cpus) - c->share) / 6;
		c->mostly_off = off > sampling;
		advice = c->share > max_share ? -1 : c->share < max_share / 4 ? 1 : 0;
	}
	c->at_ns = r->now_ns;
	c->own_ns = r->own_ns;
	c->sampling_ns = r->sampling_ns;
	c->off_ns = r->off_ns;
	return advice;
}

double cost_hz(double hz, double nominal_hz, int advice)
{
	return advice < 0 ? fmax(1, hz / 2) : advice > 0 ? fmin(nominal_hz, hz * 2) : hz;
}

int64_t cost_unseen(struct cost *c, int64_t interval_ns, double hz)
{
	int64_t busy = cost_busy_ns(), before = c->busy_ns, sampled = c->sampled_ns;

	c->busy_ns = busy;
	c->sampled_ns = 0;
	if (busy < 0 || before <= 0 || busy < before || interval_ns <= 0)
		return 0;
	int64_t unseen = busy - before - sampled;
	/* Samples of a busy share scatter by the root of their number; /proc/stat itself is in steps of a tick. */
	double period = 1e9 / hz, expected = (double)(busy - before) / period;
	double chance = 5 * sqrt(expected + 1) * period + 0.02 * (double)(busy - before);
	return (double)unseen > chance ? unseen : 0;
}
