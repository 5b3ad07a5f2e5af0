/* SPDX-License-Identifier: Apache-2.0 */
/* The stack of a sample: unwound to its end if the kernel could not, and whose it is. Runs on the drain thread with the
 * agent's lock held. */
#include <stdio.h>

#include "agent/core/agent_private.h"
#include "agent/managed/rows.h"
#include "agent/unwind/unwind_native.h"
#include "base/alloc.h"
#include "base/clock.h"

/* Kernel workers carry their queue and CPU in their name: they are one. */
static void set_comm(struct process_info *i, const char *comm)
{
	if (i->kernel_thread && strncmp(comm, "kworker/", 8) == 0)
		comm = "kworker";
	snprintf(i->comm, sizeof i->comm, "%.15s", comm);
}

/* The process has waited for its container's name, and has it now. */
static void use_name(struct process *p)
{
	struct process_info *waited = p->info;

	p->info = process_info_ref(waited->named);
	process_info_unref(waited);
}

/* Finds out the process, as far as it is still possible. */
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
	memcpy(i->runtime, p->runtime.label, sizeof i->runtime);
	i->exe_file = i->exe && p->as && p->as->exe_file ? image_ref(p->as->exe_file) : NULL;
	labeler_process(a->labeler, i);
	process_info_made(i);
	p->info = i;
	return i;
}

/* A stack on its way into the tree: user frames, and how it ends. */
struct user_stack {
	const uint64_t *user;
	uint32_t n_user, words;
	int end;
};

/* Where each of its frames begins; returns their number. Words that are no whole frame do not count. */
static uint32_t find_frames(const struct user_stack *f, uint16_t ret_at[MAX_USER_FRAMES])
{
	uint32_t n = 0;

	for (uint32_t at = 0; at < f->words && n < f->n_user && n < MAX_USER_FRAMES; n++) {
		if (f->words - at < FRAME_WORDS(f->user[at]))
			break;
		ret_at[n] = (uint16_t)at;
		at += FRAME_WORDS(f->user[at]);
	}
	return n;
}

/* Ends the stack below frame i of those. */
static void cut(struct user_stack *f, const uint16_t at[MAX_USER_FRAMES], uint32_t i, int end)
{
	f->n_user = i;
	f->words = at[i];
	f->end = end;
}

/* The kernel is running exec for a process whose registers are still those of the old program: there is no user stack. */
static bool in_execve(const struct process *p, const struct sample_head *h, const struct native_unwind *nu)
{
	return h->flags & SAMPLE_IN_KERNEL && p->from_exec && nu->u.n == 0;
}

/* Leaves out what the kernel has walked in advance: without the native frames nobody knows where it belongs. */
static void drop_rest(struct user_stack *f)
{
	uint32_t n = 0;

	for (uint32_t at = 0; at < f->words && n < f->n_user; n++) {
		if (FRAME_IS_RUNTIME(f->user[at]) && f->user[at] & RUNTIME_REST) {
			f->words = at;
			f->n_user = n;
			return;
		}
		at += FRAME_WORDS(f->user[at]);
	}
}

/* Goes on where the kernel stopped. nu holds the frames. False: nothing is known of the process. Without the lock, because it may read the files
 * that the process maps. */
static bool unwind_deferred(struct agent *a, struct process *p, size_t i, struct native_unwind *nu, struct user_stack *f,
			    int64_t now)
{
	const struct sample_head *h = a->sampler.samples.v[i];
	int64_t from_ns = clock_cpu_ns();
	struct runtime_proc hotspot, python, v8;

	drop_rest(f);
	if (!processes_prepare(a->processes, p)) {
		f->end = f->end == END_NO_TABLE ? END_NOT_BUILT : f->end; /* the kernel knew the process, which has ended since */
		a->preparing_ns += clock_cpu_ns() - from_ns;
		return false;
	}
	*nu = (struct native_unwind){
		.u = { .ip = h->ip, .sp = h->sp, .fp = h->fp, .n = h->n_user, .words = h->user_words,
		       .is_ra = (h->flags & SAMPLE_RA) != 0 },
		.tables = a->tables, .maps = p->as->unwind, .n_maps = (uint32_t)p->as->v.n,
		.stack_at = h->sp & ~(STACK_PAGE - 1ull),
		.code = h->flags & SAMPLE_CODE ? h->code : NULL,
	};
	memcpy(nu->words, sample_user(h), (size_t)h->user_words * 8);
	native_unwind_take_rest(nu);
	if (nu->n_rest && process_runtimes_get(processes_runtimes(a->processes), p, RUNTIME_PYTHON, &python))
		nu->python = &python;
	else
		nu->n_rest = 0;
	sample_stack(&a->sampler, i, nu->stack);
	if (process_runtimes_get(processes_runtimes(a->processes), p, RUNTIME_HOTSPOT, &hotspot)) {
		nu->unfollowed_from = hotspot.hotspot.low;
		nu->unfollowed_bytes = hotspot.hotspot.high - hotspot.hotspot.low;
	}
	nu->unfollowed_v8 = process_runtimes_get(processes_runtimes(a->processes), p, RUNTIME_V8, &v8);
	for (;;) {
		f->end = native_unwind(nu);
		if (f->end == END_NO_TABLE && !nu->at_unfollowed) {
			struct image *im = unwind_tables_image_by_id(a->tables, nu->u.image);
			if (im && images_load_table(a->images, im, native_vaddr(nu)))
				continue;
			f->end = im ? images_why_no_table(a->images, im) : END_NOT_BUILT;
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
	if (f->end == END_COPY_ENDED && (h->flags & (SAMPLE_IN_EXEC | SAMPLE_NO_COPY)) == SAMPLE_IN_EXEC && !h->stack_pages)
		f->end = END_BOTTOM;         /* its memory was given up already */
	/* The kernel itself follows that code: it stopped before it, where the table of some library was missing. */
	if (f->end == END_NO_TABLE && nu->at_unfollowed)
		f->end = END_NOT_BUILT;
	nu->python = NULL;
	f->user = nu->words;
	f->n_user = nu->u.n;
	f->words = nu->u.words;
	a->preparing_ns += clock_cpu_ns() - from_ns;
	return true;
}

static void finish_deferred(struct agent *a, struct process *p, size_t i, struct native_unwind *nu, struct user_stack *f, int64_t now)
	REQUIRES(a->lock)
{
	mutex_unlock(&a->lock);
	bool finished = unwind_deferred(a, p, i, nu, f, now);
	drain_lock(a);
	a->deferred_finished += finished;
}

/* Code was mapped over other code, and the kernel did not know it yet. From the first such frame on the stack is a guess, so it ends
 * there. */
static void cut_stale(const struct process *p, const struct sample_head *h, struct user_stack *f, const uint16_t *at)
{
	if (!p->n_stale || !h->set)
		return;
	for (uint32_t i = 0; i < f->n_user && at[i] < h->user_words; i++) {
		if (process_frame_stale(p, (uint32_t)(f->user[at[i]] >> FRAME_IMAGE_SHIFT), h->set)) {
			cut(f, at, i, END_STALE);
			return;
		}
	}
}

/* The images that a stack names were needed just now. */
static void touch(struct agent *a, const struct user_stack *f, const uint16_t *at, int64_t now)
{
	uint32_t last = IMAGE_JIT;

	for (uint32_t i = 0; i < f->n_user; i++) {
		uint32_t id = (uint32_t)(f->user[at[i]] >> FRAME_IMAGE_SHIFT);
		if (id == last)
			continue;
		last = id;
		struct image *im = unwind_tables_image_by_id(a->tables, id);
		if (im) {
			im->sampled_ns = now;
			unwind_tables_touch(a->tables, im);
			if (UNLIKELY(!im->names_wanted) && a->asked_ns && now - a->asked_ns < ASKED_FOR_NS)
				im->names_wanted = symbolizer_want(a->symbolizer, im);
		}
	}
}

/* Relabelling wants no samples of this process: it is not unwound any further. */
static bool drop_known(struct agent *a, const struct process *p, const struct sample_head *h)
{
	return p->info && p->info->dropped && !p->info->waits && p->info->cgroup_id == h->cgroup_id &&
	       p->info->generation == labeler_generation(a->labeler);
}

/* The mark for how a stack ends. One that is lost in code without a file says what memory that is: a JIT, mostly, and which. */
static uint64_t mark_of(struct agent *a, struct process *p, const struct user_stack *f, const uint16_t *at, int64_t now)
{
	uint64_t last = f->n_user ? f->user[at[f->n_user - 1]] : 0;

	if (last >> FRAME_IMAGE_SHIFT != IMAGE_JIT || !f->n_user || !p->as ||
	    (f->end != END_BAD_FRAME && f->end != END_STACK_READ && f->end != END_NO_PROGRESS && f->end != END_UNSUPPORTED))
		return FRAME_OF_MARK(f->end);
	uint8_t region = processes_region_at(a->processes, p, last & FRAME_ADDR_MASK, now);
	return stack_marks_in(&a->stacks.marks, (enum stack_end)f->end, region, processes_region_name(a->processes, region));
}

/* The word of the stack tree for the frame at `user`. */
static uint64_t tree_word(struct agent *a, const struct process *p, const uint64_t *user, int64_t now)
{
	if (LIKELY(!FRAME_IS_RUNTIME(user[0])))
		return user[0];
	if (user[0] & RUNTIME_CUT)
		return FRAME_OF_MARK(END_CODES_ + LOST_FRAMES);
	enum runtime_kind kind = FRAME_RUNTIME(user[0]);
	const struct runtime *of = runtime_of(kind);
	if (!of)
		return user[1] & FRAME_ADDR_MASK; /* code without a file, of a runtime that this agent does not name */
	return frame_table_add(&a->frames, p->runtimes[kind], of, user[0] & FRAME_ADDR_MASK, user[1], user[2], now);
}

bool stack_finish(struct agent *a, size_t at, uint32_t skip_kernel, int64_t now, struct finished_stack *ret)
{
	const struct sample_head *h = a->sampler.samples.v[at];
	struct process *p = processes_sampled(a->processes, h->pid, h->exec_id, now);
	struct user_stack f = { sample_user(h), h->n_user, h->user_words, h->end };
	struct native_unwind nu UNINITIALIZED; /* only of a stack that the kernel deferred */
	uint16_t frame_at[MAX_USER_FRAMES] UNINITIALIZED;
	uint32_t node = 0;

	if (UNLIKELY(p->info && p->info->named))
		use_name(p);
	if (drop_known(a, p, h))
		return false;
	if (h->set && h->set < p->min_set) {
		/* Unwound with the mappings of the program that the process ran before: only the kernel's part is true. */
		f.n_user = f.words = 0;
		f.end = END_STALE;
	} else if (h->flags & SAMPLE_DEFERRED) {
		finish_deferred(a, p, at, &nu, &f, now);
	}
	f.n_user = find_frames(&f, frame_at);
	cut_stale(p, h, &f, frame_at);
	touch(a, &f, frame_at, now);
	ret->who = who(a, p, h);
	if (ret->who->dropped && !ret->who->waits)
		return false;
	a->sampled_frames += f.n_user;
	a->ends[MIN(f.end, END_CODES_ - 1)]++;
	if (f.end != END_BOTTOM)
		node = stack_tree_add(&a->stacks, node, mark_of(a, p, &f, frame_at, now));
	for (uint32_t i = f.n_user; i-- > 0;)
		node = stack_tree_add(&a->stacks, node, tree_word(a, p, f.user + frame_at[i], now));
	for (uint32_t i = h->n_kernel; i-- > skip_kernel;)
		node = stack_tree_add(&a->stacks, node, sample_kernel(h)[i]);
	if (h->flags & SAMPLE_PREEMPTED && a->off.schedule)
		node = stack_tree_add(&a->stacks, node, a->off.schedule + 1);
	ret->node = node;
	return true;
}
