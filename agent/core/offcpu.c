/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/core/offcpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/agent_private.h"
#include "base/clock.h"
#include "base/log.h"

static const char nobody[16];

#define SCHEDULE_BYTES 8192          /* more than the function has; what follows it in its section is its callers */

#define TOLD_APART_NS 100000ll       /* a part of a wait that is shorter counts with the other: it takes a while to be woken */

/* The function in which the kernel switches threads. Without CAP_SYSLOG there are no names to trim either. */
static uint64_t find_schedule(void)
{
	static const char name[] = " t __schedule";
	char line[512];
	uint64_t ret = 0;

	FILE *f = fopen("/proc/kallsyms", "re");
	while (f && !ret && fgets(line, sizeof line, f)) {
		const char *at = strstr(line, name);
		if (at && (at[sizeof name - 1] == '\n' || at[sizeof name - 1] == '.'))
			ret = strtoull(line, NULL, 16);
	}
	if (f)
		fclose(f);
	return ret;
}

/* How many of the innermost kernel frames are of the measuring itself: those inside of __schedule(). */
static uint32_t own_frames(const struct agent *a, const struct sample_head *h)
{
	if (a->off.schedule)
		for (uint32_t i = 0; i < h->n_kernel && i < 8; i++)
			if (sample_kernel(h)[i] - a->off.schedule < SCHEDULE_BYTES)
				return i;
	return 0;
}

/* What it waited for: the wait itself counts as what most of it was. */
static void count_states(struct agent *a, const struct sample_head *h, const struct finished_stack *d, uint32_t n) REQUIRES(a->lock)
{
	int64_t runnable = (int64_t)MIN(h->runnable_ns, h->off_ns), blocked = (int64_t)h->off_ns - runnable;
	bool mostly = runnable > blocked;

	if (MIN(runnable, blocked) < TOLD_APART_NS) {
		runnable = mostly ? (int64_t)h->off_ns : 0;
		blocked = mostly ? 0 : (int64_t)h->off_ns;
	}
	if (blocked)
		windows_count_wait(a, WAIT_BLOCKED, (int64_t)h->time_ns, d->who, h->comm, d->node, blocked, mostly ? 0 : n);
	if (runnable)
		windows_count_wait(a, WAIT_RUNNABLE, (int64_t)h->time_ns, d->who, h->comm, d->node, runnable, mostly ? n : 0);
}

void offcpu_take(struct agent *a, size_t at, int64_t now)
{
	const struct sample_head *h = a->sampler.samples.v[at];
	struct finished_stack d;

	uint64_t more = h->end == END_COSTLY && h->ip ? h->ip - 1 : 0; /* waits than one */
	if (!stack_finish(a, at, own_frames(a, h), now, &d)) {
		a->off.dropped += 1 + more;
		return;
	}
	a->off.costly += h->end == END_COSTLY ? 1 + more : 0;
	a->off.evicted += h->end == END_EVICTED;
	count_states(a, h, &d, (uint32_t)MIN(1 + more, UINT64_C(1) << 20));
}

static void count_lost(struct agent *a, enum lost_reason why, int64_t ns, int64_t now) REQUIRES(a->lock)
{
	uint32_t node = stack_tree_add(&a->stacks, 0, FRAME_OF_MARK(END_CODES_ + why));
	windows_count_wait(a, WAIT_UNKNOWN, now, NULL, nobody, node, ns, 1);
}

void offcpu_count_losses(struct agent *a, const uint64_t s[STATS_MAX], int64_t now)
{
	uint64_t lost_ns = s[STAT_OFF_RING_NS] - a->last_stats[STAT_OFF_RING_NS];

	if (lost_ns)
		count_lost(a, LOST_RING, (int64_t)lost_ns, now);
	if (a->o.off_cpu && a->pacer.step == OFF_STEPS && now > a->off.paused_ns) {
		count_lost(a, LOST_PAUSE, now - a->off.paused_ns, now);
		a->off.paused_ns = now;
	}
}

/* Tells the programs what the step means. */
static int apply(struct agent *a, int64_t now, struct err *e)
{
	struct control *c = &a->sampler.control;
	unsigned step = a->pacer.step;
	bool on = step < OFF_STEPS;
	bool was_on = a->sampler.switch_link != NULL;

	c->off_threshold_ns = (uint64_t)a->o.off_threshold_ns << step;
	c->off_share = (uint64_t)(a->o.max_cost * 3 / 4 * (1 << 20)) >> step;
	if (on && !was_on)
		c->off_from_ns = (uint64_t)now;
	a->off.paused_ns = now;
	int r = sampler_set_control(&a->sampler, e);
	return r || on == was_on ? r : sampler_watch_switches(&a->sampler, on, e);
}

int offcpu_start(struct agent *a, struct err *e)
{
	a->off.schedule = find_schedule();
	return apply(a, clock_mono_ns(), e);
}

void offcpu_step(struct agent *a, unsigned before, int64_t now)
{
	unsigned step = a->pacer.step;
	struct err e = { 0 };
	char threshold[32];

	if (apply(a, now, &e)) {
		LOG_ERROR("msg", "off-CPU profiling cannot be changed", "err", e.msg);
		a->pacer.step = before;
		return;
	}
	snprintf(threshold, sizeof threshold, "%.3f", (double)a->sampler.control.off_threshold_ns / 1e6);
	if (step == OFF_STEPS)
		LOG_WARN("msg", "too costly, off-CPU profiling pauses");
	else
		LOG_WARN("msg", step > before ? "too costly, fewer waits are profiled" : "more waits are profiled again", "threshold_ms",
			 threshold);
}
