/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/core/pacer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/attrs.h"

/* Room that is left over when something is stepped up, so that it is not taken back at once. */
#define FULL 0.9
/* Older knowledge of waits counts less with each interval without recording: half after a minute. */
#define FADES 0.9
/* The shares of the limit that samples and off-CPU always keep. On a host that starts programs all the time, reducing them to zero
 * would not bring the agent below the limit, and there would be no profile. */
#define OWN 0.25

void pacer_init(struct pacer *c, double max, double hz, bool off_cpu)
{
	*c = (struct pacer){ .max = max, .nominal_hz = hz, .hz = hz, .off_cpu = off_cpu };
}

static void add(struct pacer_part *p, double share)
{
	p->average += (share - p->average) / 6;
	memmove(p->recent + 1, p->recent, sizeof p->recent - sizeof p->recent[0]);
	p->recent[0] = share;
}

static void scale(struct pacer_part *p, double by)
{
	p->average *= by;
	for (size_t i = 0; i < PACER_RECENT; i++)
		p->recent[i] *= by;
}

/* The likely cost of the part from here on. */
static double expected(const struct pacer_part *p)
{
	double most = 0;

	for (size_t i = 0; i < PACER_RECENT; i++)
		most = fmax(most, p->recent[i]);
	return fmin(most, p->average);
}

static double since(uint64_t now, uint64_t then)
{
	return now > then ? (double)(now - then) : 0;
}

/* Divides an interval of this many CPU nanoseconds among the parts. */
static void account(struct pacer *c, const struct pacer_readings *r, double cpu_ns)
{
	const struct pacer_readings *l = &c->last;
	double own = since(r->own_ns, l->own_ns), own_on = since(r->on_ns, l->on_ns), own_off = since(r->off_ns, l->off_ns);
	double sampling = since(r->sampling_ns, l->sampling_ns), stacks = since(r->stack_ns, l->stack_ns);
	double timing = fmax(0, since(r->switch_ns, l->switch_ns) - stacks), waits = stacks + own_off;
	double watched = since(r->watched, l->watched);

	c->share += ((own + sampling + timing + stacks) / cpu_ns - c->share) / 6;
	add(&c->fixed, fmax(0, own - own_on - own_off) / cpu_ns);
	add(&c->on, (sampling + own_on) / cpu_ns);
	if (c->step == OFF_STEPS) {
		timing = since(r->switches, l->switches) * c->timing_ns;
		waits = since(r->switches, l->switches) * c->waits_ns;
		c->waits_ns *= FADES;
	} else if (watched > 0) {
		c->timing_ns = timing / watched;
		c->waits_ns = waits / watched;
	}
	add(&c->timing, timing / cpu_ns);
	add(&c->waits, waits / cpu_ns);
}

/* The rest of a limit for a part after the others. */
static double room(double limit, double others)
{
	return fmax(limit - others, limit * OWN);
}

static bool check_hz(struct pacer *c)
{
	double hz = c->hz, on = expected(&c->on), fixed = expected(&c->fixed), up = fmin(c->nominal_hz, hz * 2);

	if (on > room(c->max, fixed))
		hz = fmax(1, hz / 2);
	else if (on * up / hz <= room(FULL * c->max, fixed))
		hz = up;
	if (hz >= c->hz && hz <= c->hz)
		return false;
	scale(&c->on, hz / c->hz);
	c->hz = hz;
	return true;
}

/* The first step beyond the present one that fits: each halves what waits cost. */
static unsigned step_that_fits(const struct pacer *c, double room_for_it)
{
	double waits = expected(&c->waits), timing = expected(&c->timing);
	unsigned step = c->step;

	do
		waits /= 2;
	while (++step < OFF_STEPS && timing + waits > room_for_it);
	return step;
}

static bool check_step(struct pacer *c)
{
	double others = expected(&c->fixed) + expected(&c->on), timing = expected(&c->timing), waits = expected(&c->waits);
	unsigned step = c->step;

	if (!c->off_cpu)
		return false;
	/* Paused, waits are kept as they would be at the step before it, which is the one to go back to. */
	if (step < OFF_STEPS && timing + waits > room(c->max, others))
		step = step_that_fits(c, room(c->max, others));
	else if (step > 0 && timing + (step < OFF_STEPS ? 2 * waits : waits) <= room(FULL * c->max, others))
		step--;
	if (step == c->step)
		return false;
	double by = ldexp(1, (int)MIN(c->step, OFF_STEPS - 1u) - (int)MIN(step, OFF_STEPS - 1u));
	scale(&c->waits, by);
	c->waits_ns *= by;
	c->step = step;
	return true;
}

unsigned pacer_check(struct pacer *c, const struct pacer_readings *r, size_t cpus)
{
	double elapsed = (double)(r->now_ns - c->last.now_ns);
	bool first = c->last.now_ns == 0;
	unsigned changed = 0;

	if (!first && elapsed > 0 && cpus) {
		account(c, r, elapsed * (double)cpus);
		changed = (check_hz(c) ? PACER_HZ : 0) | (check_step(c) ? PACER_STEP : 0);
	}
	c->last = *r;
	return changed;
}

void pacer_note(const struct pacer *c, bool of_off_cpu, int64_t threshold_ns, char out[PACER_NOTE])
{
	double ms = (double)threshold_ns / 1e6;

	out[0] = 0;
	if (of_off_cpu && c->step == OFF_STEPS)
		snprintf(out, PACER_NOTE, "waits are not watched: threads switch so often that it would cost more than --max-cost");
	else if (of_off_cpu && c->step > 0)
		snprintf(out, PACER_NOTE, "only waits of %g ms and longer, not of %g ms: more would cost more than --max-cost",
			 ldexp(ms, (int)c->step), ms);
	else if (!of_off_cpu && c->hz < c->nominal_hz)
		snprintf(out, PACER_NOTE, "%.3g samples a second, not %.3g: more would cost more than --max-cost", c->hz, c->nominal_hz);
}
