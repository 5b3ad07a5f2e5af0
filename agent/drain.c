/* SPDX-License-Identifier: Apache-2.0 */
/* What is done with records and samples: a record changes a process, a sample is finished if the kernel could not, and
 * counted. Runs on the drain thread with the agent's lock held. */
#include <stdio.h>

#include "agent/agent_private.h"
#include "agent/unwind_native.h"
#include "base/alloc.h"

static void apply(struct agent *a, const struct record *r)
{
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
		processes_mmap(a->processes, r->pid, r->start, r->len, r->file_offset, r->anonymous ? NULL : &r->key);
		break;
	}
}

/* Kernel workers carry their queue and CPU in their name: they are one. */
static void set_comm(struct process_info *i, const char *comm)
{
	if (i->kernel_thread && strncmp(comm, "kworker/", 8) == 0)
		comm = "kworker";
	snprintf(i->comm, sizeof i->comm, "%.15s", comm);
}

/* Who the process is, as far as it can be found out now. */
static struct process_info *who(struct agent *a, struct process *p, const struct sample_head *h)
{
	bool kernel = h->flags & SAMPLE_KERNEL_THREAD;

	if (p->info && (p->info->cgroup_id != h->cgroup_id || p->info->kernel_thread != kernel ||
			p->info->generation != labeler_generation(a->labeler))) {
		process_info_unref(p->info);
		p->info = NULL;
	}
	if (p->info) {
		labeler_touch(a->labeler, p->info);
		return p->info;
	}
	struct process_info *i = NEW(struct process_info);
	atomic_store(&i->refs, 1);
	i->pid = p->pid;
	i->cgroup_id = h->cgroup_id;
	i->kernel_thread = kernel;
	set_comm(i, p->comm[0] ? p->comm : h->comm);
	i->exe = kernel || !p->exe ? NULL : image_ref(p->exe);
	i->exe_file = i->exe && p->as && p->as->exe_file ? image_ref(p->as->exe_file) : NULL;
	labeler_process(a->labeler, i);
	process_info_made(i);
	p->info = i;
	return i;
}

/* A stack on its way into the tree: user frames, and how it ends. */
struct finished {
	const uint64_t *user;
	uint32_t n_user;
	int end;
};

/* The kernel is at work for a process whose registers are still those of the program before the exec: there is no user
 * stack. */
static bool in_execve(const struct process *p, const struct sample_head *h, const struct native_unwind *nu)
{
	return h->flags & SAMPLE_IN_KERNEL && p->from_exec && nu->u.n == 0;
}

/* Goes on where the kernel stopped. nu holds the frames. */
static void finish_deferred(struct agent *a, struct process *p, size_t i, struct native_unwind *nu, struct finished *f,
			    int64_t now)
{
	const struct sample_head *h = a->sampler.samples.v[i];
	int64_t from_ns = cost_thread_ns();

	if (!processes_prepare(a->processes, p)) {
		a->preparing_ns += cost_thread_ns() - from_ns;
		return;
	}
	*nu = (struct native_unwind){
		.u = { .ip = h->ip, .sp = h->sp, .fp = h->fp, .n = h->n_user, .is_ra = (h->flags & SAMPLE_RA) != 0 },
		.tables = a->tables, .maps = p->as->unwind, .n_maps = (uint32_t)p->as->v.n,
		.stack_at = h->sp & ~(STACK_PAGE - 1ull),
		.code = h->flags & SAMPLE_CODE ? h->code : NULL,
	};
	memcpy(nu->frames, sample_user(h), (size_t)h->n_user * 8);
	sample_stack(&a->sampler, i, nu->stack);
	for (;;) {
		f->end = native_unwind(nu);
		if (f->end == END_NO_TABLE) {
			struct image *im = tables_image_by_id(a->tables, nu->u.image);
			if (!im || !images_load_table(a->images, im, native_vaddr(nu)))
				break;
		} else if (f->end == END_NO_MAPPING && in_execve(p, h, nu)) {
			f->end = END_BOTTOM;
			break;
		} else if (f->end == END_NO_MAPPING) {
			if (processes_reread(a->processes, p, nu->u.ip, now)) {
				nu->maps = p->as->unwind;
				nu->n_maps = (uint32_t)p->as->v.n;
			} else {
				processes_prepare(a->processes, p);
				nu->maps = p->as->unwind;
				nu->n_maps = (uint32_t)p->as->v.n;
				nu->u.quiet = 1;
			}
		} else {
			break;
		}
	}
	if (f->end == END_COPY_ENDED && h->flags & SAMPLE_IN_EXEC && !h->stack_pages)
		f->end = END_BOTTOM;         /* its memory was given up already */
	f->user = nu->frames;
	f->n_user = nu->u.n;
	a->deferred_finished++;
	a->preparing_ns += cost_thread_ns() - from_ns;
}

/* Code was mapped where other code had been, and the kernel did not know yet: from the first such frame on the stack is
 * a guess, so it ends there. */
static void cut_stale(const struct process *p, const struct sample_head *h, struct finished *f)
{
	if (!p->n_stale || !h->set)
		return;
	for (uint32_t i = 0; i < h->n_user; i++) {
		if (process_frame_stale(p, (uint32_t)(f->user[i] >> FRAME_IMAGE_SHIFT), h->set)) {
			f->n_user = i;
			f->end = END_STALE;
			return;
		}
	}
}

/* The images that a stack names were needed just now. */
static void touch(struct agent *a, const struct finished *f, int64_t now)
{
	uint32_t last = IMAGE_JIT;

	for (uint32_t i = 0; i < f->n_user; i++) {
		uint32_t id = (uint32_t)(f->user[i] >> FRAME_IMAGE_SHIFT);
		if (id == last)
			continue;
		last = id;
		struct image *im = tables_image_by_id(a->tables, id);
		if (im) {
			im->sampled_ns = now;
			tables_touch(a->tables, im);
			if (UNLIKELY(!im->names_wanted) && a->asked_ns && now - a->asked_ns < ASKED_FOR_NS)
				im->names_wanted = symbolizer_want(a->symbolizer, im);
		}
	}
}

/* Relabelling wants no samples of this process: it is not unwound any further. */
static bool drop_known(struct agent *a, const struct process *p, const struct sample_head *h)
{
	return p->info && p->info->dropped && p->info->cgroup_id == h->cgroup_id &&
	       p->info->generation == labeler_generation(a->labeler);
}

bool drain_stack(struct agent *a, size_t at, uint32_t skip_kernel, int64_t now, struct drained *ret)
{
	const struct sample_head *h = a->sampler.samples.v[at];
	struct process *p = processes_sampled(a->processes, h->pid, h->exec_id, now);
	struct finished f = { sample_user(h), h->n_user, h->end };
	struct native_unwind nu;
	uint32_t node = 0;

	if (drop_known(a, p, h))
		return false;
	if (h->set && h->set < p->min_set) {
		/* Unwound with the mappings of the program that the process ran before: only the kernel's part is true. */
		f.n_user = 0;
		f.end = END_STALE;
	} else if (h->flags & SAMPLE_DEFERRED) {
		finish_deferred(a, p, at, &nu, &f, now);
	}
	cut_stale(p, h, &f);
	touch(a, &f, now);
	ret->who = who(a, p, h);
	if (ret->who->dropped)
		return false;
	a->sampled_frames += f.n_user;
	a->ends[MIN(f.end, END_CODES_ - 1)]++;
	if (f.end != END_BOTTOM)
		node = stack_tree_add(&a->stacks, node, FRAME_OF_MARK(f.end));
	for (uint32_t i = f.n_user; i-- > 0;)
		node = stack_tree_add(&a->stacks, node, f.user[i]);
	for (uint32_t i = h->n_kernel; i-- > skip_kernel;)
		node = stack_tree_add(&a->stacks, node, sample_kernel(h)[i]);
	if (h->flags & SAMPLE_PREEMPTED && a->off.schedule)
		node = stack_tree_add(&a->stacks, node, a->off.schedule + 1);
	ret->stack = node;
	return true;
}

static void take(struct agent *a, size_t at, int64_t now)
{
	const struct sample_head *h = a->sampler.samples.v[at];
	int64_t value = perf_events_value(a->events, h->cpu, (int64_t)h->time_ns);
	struct drained d;

	cost_sampled(&a->cost, h->cpu, value);
	a->samples++;
	if (drain_stack(a, at, 0, now, &d))
		agent_count(a, (int64_t)h->time_ns, d.who, h->comm, d.stack, value);
	else
		a->dropped++;
}

static const char nobody[16];

void drain_count_unseen(struct agent *a, int64_t now, int64_t unseen_ns)
{
	uint32_t node = stack_tree_add(&a->stacks, 0, FRAME_OF_MARK(END_CODES_ + LOST_TICKS));
	agent_count(a, now, NULL, nobody, node, unseen_ns);
	a->unseen_ns += unseen_ns;
}

/* Samples that the ring had no room for stand in the profile as what they are. */
static void count_losses(struct agent *a, int64_t now)
{
	uint64_t s[STATS_MAX];

	if (!sampler_stats(&a->sampler, s))
		return;
	uint64_t lost = s[STAT_RING_FULL] - a->last_stats[STAT_RING_FULL];
	if (lost) {
		uint32_t node = stack_tree_add(&a->stacks, 0, FRAME_OF_MARK(END_CODES_ + LOST_RING));
		int64_t value = (int64_t)lost * perf_events_period(a->events);
		agent_count(a, now, NULL, nobody, node, value);
		a->lost_ring += lost;
	}
	for (uint32_t i = 0; i < a->sampler.n_cpus; i++)
		cost_untaken(&a->cost, i, a->sampler.untaken[i], perf_events_period(a->events));
	offcpu_count_losses(a, s, now);
	a->sample_ns = sampler_cost_ns(&a->sampler);
	memcpy(a->last_stats, s, sizeof s);
}

/* What a drain does, whatever came, and with each sample, in frames that take as long. */
enum { DRAIN_WEIGHT = 128, SAMPLE_WEIGHT = 16 };

/* Shares the drain's CPU time out to what samples and waits had of it. They come mixed, too many to time each. What made
 * programs known that were not, in bursts, is neither's: it does not go with how many are taken. */
static void count_spent(struct agent *a, const uint64_t weight[2], int64_t spent_ns)
{
	spent_ns -= a->preparing_ns;
	a->preparing_ns = 0;
	double all = (double)(DRAIN_WEIGHT + weight[WINDOW_ON_CPU] + weight[WINDOW_OFF_CPU]);

	for (int kind = WINDOW_ON_CPU; kind <= WINDOW_OFF_CPU; kind++)
		a->spent_ns[kind] += (uint64_t)((double)MAX(spent_ns, (int64_t)0) * (double)weight[kind] / all);
}

void drain_process(struct agent *a, int64_t now, int64_t from_ns)
{
	struct records *r = &a->records;
	uint64_t weight[2] = { 0 };
	size_t i = 0;

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
	}
	while (i < r->v.n)
		apply(a, &r->v.v[i++]);
	count_losses(a, now);
	count_spent(a, weight, cost_thread_ns() - from_ns);
	a->drains++;
}
