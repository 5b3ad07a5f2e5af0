/* SPDX-License-Identifier: Apache-2.0 */
/* What is done with records and samples: a record changes a process, a sample is finished (stack_finish.c) and counted
 * (windows.c). Runs on the drain thread. */
#include "agent/core/agent_private.h"
#include "base/clock.h"
#include "base/log.h"

#define RELIEVE_NS 10000000ll        /* in which the rings do not fill, whatever comes */

void drain_tell_state(struct agent *a)
{
	const struct process_runtimes *r = processes_runtimes(a->processes);
	struct drain_state *s = &a->state;

	s->processes = processes_count(a->processes);
	s->kernel_processes = processes_in_kernel(a->processes);
	s->images = images_count(a->images);
	s->cpus = perf_events_cpus(a->events);
	s->maps_reads = processes_maps_reads(a->processes);
	s->tables = *unwind_tables_stats(a->tables);
	s->tables_postponed = images_postponed(a->images);
	memcpy(s->runtime_processes, r->known, sizeof s->runtime_processes);
	memcpy(s->runtime_failures, r->failed, sizeof s->runtime_failures);
}

static void apply(struct agent *a, const struct perf_record *r) REQUIRES(a->lock)
{
	if (!r->pid || r->pid == UINT32_MAX) /* of a process outside of the agent's pid namespace */
		return;
	switch (r->type) {
	case RECORD_FORK:
		processes_fork(a->processes, r->pid, r->parent);
		break;
	case RECORD_EXEC:
		processes_exec(a->processes, r->pid, r->comm);
		break;
	case RECORD_COMM:
		processes_comm(a->processes, r->pid, r->comm);
		break;
	case RECORD_EXIT:
		processes_exit(a->processes, r->pid);
		break;
	case RECORD_MMAP:
		if (r->anonymous)
			processes_mmap_code(a->processes, r->pid, r->start, r->len, r->key.path.ptr);
		else
			processes_mmap(a->processes, r->pid, r->start, r->len, r->file_offset, &r->key);
		break;
	}
}

static const char nobody[16];

static void take(struct agent *a, size_t at, int64_t now) REQUIRES(a->lock)
{
	const struct sample_head *h = a->sampler.samples.v[at];
	int64_t value = perf_events_value(a->events, h->cpu, (int64_t)h->time_ns);
	struct finished_stack d;

	cost_sampled(&a->cost, h->cpu, (int64_t)h->time_ns, value);
	a->samples++;
	if (UNLIKELY(h->pid == PID_OUTSIDE))
		windows_count(a, (int64_t)h->time_ns, NULL, nobody, stack_tree_add(&a->stacks, 0, FRAME_OF_MARK(END_OUTSIDE)), value);
	else if (stack_finish(a, at, 0, now, &d))
		windows_count(a, (int64_t)h->time_ns, d.who, h->comm, d.node, value);
	else
		a->dropped++;
}

void drain_count_unseen(struct agent *a, int64_t now, int64_t unseen_ns)
{
	uint32_t node = stack_tree_add(&a->stacks, 0, FRAME_OF_MARK(END_CODES_ + LOST_TICKS));
	windows_count(a, now, NULL, nobody, node, unseen_ns);
	a->unseen_ns += unseen_ns;
}

/* Samples that the ring had no room for stand in the profile as what they are. */
static void count_losses(struct agent *a, int64_t now) REQUIRES(a->lock)
{
	uint64_t s[STATS_MAX];

	if (!sampler_stats(&a->sampler, s))
		return;
	uint64_t lost = s[STAT_RING_FULL] - a->last_stats[STAT_RING_FULL];
	if (lost) {
		uint32_t node = stack_tree_add(&a->stacks, 0, FRAME_OF_MARK(END_CODES_ + LOST_RING));
		int64_t value = (int64_t)lost * perf_events_period(a->events);
		windows_count(a, now, NULL, nobody, node, value);
		a->lost_ring += lost;
	}
	offcpu_count_losses(a, s, now);
	a->sample_ns = sampler_cost_ns(&a->sampler);
	memcpy(a->last_stats, s, sizeof s);
}

/* The cost of a drain in itself, and per sample, in units of a frame's time. */
enum { DRAIN_WEIGHT = 128, SAMPLE_WEIGHT = 16 };

/* Shares the drain's CPU time out to what samples and waits had of it. They come mixed, too many to time each. The cost of newly found
 * programs, in bursts, is in neither: it does not depend on the number of samples. */
static void count_spent(struct agent *a, const uint64_t weight[2], int64_t spent_ns)
{
	spent_ns -= a->preparing_ns;
	a->preparing_ns = 0;
	double all = (double)(DRAIN_WEIGHT + weight[WINDOW_ON_CPU] + weight[WINDOW_OFF_CPU]);

	for (int kind = WINDOW_ON_CPU; kind <= WINDOW_OFF_CPU; kind++)
		a->spent_ns[kind] += (uint64_t)((double)MAX(spent_ns, (int64_t)0) * (double)weight[kind] / all);
}

/* The files of new programs take a while, and more where every CPU has much to do. The kernel's rings are not to fill up until then.
 * Samples before `next` are done. */
static void relieve(struct agent *a, size_t next) REQUIRES(a->lock)
{
	if (!a->preparing_ns)
		return;
	int64_t now = clock_mono_ns();
	if (now - a->relieved_ns < RELIEVE_NS)
		return;
	sampler_relieve(&a->sampler, next);
	perf_events_read(a->events, &a->later_records); /* after the samples: no sample is older than the records about its process */
	a->relieved_ns = clock_mono_ns();
}

void drain_tell_edition(struct agent *a)
{
	uint32_t edition = processes_runtimes(a->processes)->edition, before = a->sampler.control.runtimes;
	struct err e;

	if (edition == before)
		return;
	a->sampler.control.runtimes = edition;
	if (sampler_set_control(&a->sampler, &e)) {
		LOG_ERROR("msg", "runtimes that changed cannot be told", "err", e.msg);
		a->sampler.control.runtimes = before; /* tried again after the next drain */
	}
}

void drain_process(struct agent *a, int64_t now, int64_t from_ns)
{
	struct perf_records *r = &a->records;
	uint64_t weight[2] = { 0 };
	size_t i = 0;

	a->relieved_ns = now;
	if (r->lost) {
		a->lost_records += r->lost;
		r->lost = 0;
		processes_doubt(a->processes);
	}
	a->throttled += r->throttled;
	a->bad_records += r->bad;
	r->throttled = r->bad = 0;
	for (size_t k = 0; k < a->sampler.samples.n; k++) {
		const struct sample_head *h = a->sampler.samples.v[k];
		while (i < r->v.n && r->v.v[i].time_ns <= (int64_t)h->time_ns)
			apply(a, &r->v.v[i++]);
		if (h->flags & SAMPLE_MORE)
			continue;
		weight[h->off_ns ? WINDOW_OFF_CPU : WINDOW_ON_CPU] += SAMPLE_WEIGHT + (uint64_t)h->n_user + h->n_kernel;
		if (h->off_ns)
			offcpu_take(a, k, now);
		else
			take(a, k, now);
		relieve(a, k + 1);
		drain_let_in(a);
	}
	while (i < r->v.n)
		apply(a, &r->v.v[i++]);
	drain_tell_edition(a);
	count_losses(a, now);
	count_spent(a, weight, clock_cpu_ns() - from_ns);
	a->drains++;
}
