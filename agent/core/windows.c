/* SPDX-License-Identifier: Apache-2.0 */
/* The windows being filled: the history's, and each caller's. Counts are compacted and finished here; agent.c returns them. */
#include "agent/core/agent_private.h"
#include "base/clock.h"

int64_t windows_unix_offset(void)
{
	return sample_counts_unix_offset(clock_mono_ns, clock_now_ns);
}

static void begin(struct agent *a, int64_t start_ns, bool follows)
{
	a->current = a->next ? a->next : sample_counts_open(start_ns, windows_unix_offset(), follows);
	a->current->number = ++a->windows;
	a->next = NULL;
}

void windows_start(struct agent *a)
{
	stack_tree_init(&a->stacks);
	frame_table_init(&a->frames);
	begin(a, clock_mono_ns(), false);
}

void windows_release(struct agent *a)
{
	for (size_t i = 0; i < a->history.n; i++)
		sample_counts_free(a->history.v[i]);
	vec_free(&a->history);
	vec_free(&a->callers);
	sample_counts_free(a->current);
	sample_counts_free(a->next);
	stack_tree_release(&a->stacks);
	frame_table_release(&a->frames);
}

/* The window of the history that a sample of that time belongs to. A drain may read past the end of a window. A sample older than the
 * window (which was just finished) counts in the open one. */
static struct sample_counts *window_of(struct agent *a, int64_t time_ns) REQUIRES(a->lock)
{
	if (time_ns < a->current->end_ns)
		return a->current;
	if (!a->next)
		a->next = sample_counts_open(a->current->end_ns, windows_unix_offset(), true);
	return a->next;
}

/* What all windows keep in memory. */
static size_t history_bytes(const struct agent *a) REQUIRES(a->lock)
{
	size_t n = stack_tree_bytes(&a->stacks) + frame_table_bytes(&a->frames) + process_info_bytes() + sample_counts_bytes(a->current) +
		   (a->next ? sample_counts_bytes(a->next) : 0);
	for (size_t i = 0; i < a->history.n; i++)
		n += sample_counts_bytes(a->history.v[i]);
	return n;
}

static void drop_oldest(struct agent *a) REQUIRES(a->lock)
{
	sample_counts_free(a->history.v[0]);
	memmove(a->history.v, a->history.v + 1, (a->history.n - 1) * sizeof *a->history.v);
	a->history.n--;
}

static void mark_all(const struct sample_counts *t, struct stack_sweep *s, const struct stack_tree *tree)
{
	for (size_t i = 0; i < t->v.n; i++)
		stack_sweep_mark(s, tree, t->v.v[i].stack);
}

static void renumber(struct sample_counts *t, const struct stack_sweep *s)
{
	for (size_t i = 0; i < t->v.n; i++)
		t->v.v[i].stack = s->new_id[t->v.v[i].stack];
}

/* Frames of runtimes that no stack names. */
static void compact_frames(struct agent *a) REQUIRES(a->lock)
{
	struct frame_sweep s;

	frame_sweep_begin(&s, &a->frames);
	for (size_t i = 0; i < a->stacks.nodes.n; i++)
		frame_sweep_mark(&s, &a->frames, a->stacks.nodes.v[i].frame);
	frame_sweep_run(&s, &a->frames);
}

/* Drops the stacks that no window names; the windows being filled lose their index, which is made anew. */
static void compact_stacks(struct agent *a) REQUIRES(a->lock)
{
	struct stack_sweep s;

	stack_sweep_begin(&s, &a->stacks);
	for (size_t i = 0; i < a->history.n; i++)
		mark_all(a->history.v[i], &s, &a->stacks);
	for (size_t i = 0; i < a->callers.n; i++)
		mark_all(a->callers.v[i], &s, &a->stacks);
	mark_all(a->current, &s, &a->stacks);
	if (a->next)
		mark_all(a->next, &s, &a->stacks);
	stack_sweep_run(&s, &a->stacks);
	for (size_t i = 0; i < a->history.n; i++)
		renumber(a->history.v[i], &s);
	for (size_t i = 0; i < a->callers.n; i++) {
		renumber(a->callers.v[i], &s);
		sample_counts_reindex(a->callers.v[i]);
	}
	renumber(a->current, &s);
	sample_counts_reindex(a->current);
	if (a->next) {
		renumber(a->next, &s);
		sample_counts_reindex(a->next);
	}
	stack_sweep_release(&s);
	a->compacted_nodes = a->stacks.nodes.n;
	compact_frames(a);
}

int64_t windows_caller_due_ns(const struct sample_counts *t)
{
	return t->end_ns + (t->unnamed ? CALLER_NAME_WAIT_NS : 0);
}

void windows_name(struct agent *a, int64_t now)
{
	uint64_t dropped[2] = { 0 }, of_callers[2] = { 0 };

	for (size_t i = 0; i < a->history.n; i++)
		if (a->history.v[i]->unnamed) {
			sample_counts_name(a->history.v[i], dropped);
			a->history.v[i]->named_ns = now;
		}
	sample_counts_name(a->current, dropped);
	if (a->next)
		sample_counts_name(a->next, dropped);
	for (size_t i = 0; i < a->callers.n; i++)
		sample_counts_name(a->callers.v[i], of_callers);
	a->dropped += dropped[WINDOW_ON_CPU];
	a->off.dropped += dropped[WINDOW_OFF_CPU];
}

size_t windows_named(const struct agent *a)
{
	size_t n = 0;

	while (n < a->history.n && !a->history.v[n]->unnamed)
		n++;
	return n;
}

/* Scrapers were offered the window for as long as the history is: since its end or, if it had processes that waited for names, since those had
 * them. */
static bool is_old(const struct agent *a, const struct sample_counts *t, int64_t now)
{
	return !t->unnamed && now - MAX(t->end_ns, t->named_ns) > a->o.history_ms * 1000000;
}

void windows_finish(struct agent *a, int64_t now)
{
	bool woke = false, finished = false;
	int64_t cut;

	while (sample_counts_over(a->current, now, windows_unix_offset(), &cut)) {
		struct sample_counts *t = a->current;
		bool follows = cut == t->end_ns;
		if (!follows && a->next)
			break;       /* the clock was set a moment before its end, which will do */
		t->end_ns = cut;
		sample_counts_finish(t);
		vec_push(&a->history, t);
		finished = true;
		begin(a, cut, follows);
		while (a->history.n > 1 && is_old(a, a->history.v[0], now))
			drop_oldest(a);
		while (a->history.n > 1 && history_bytes(a) > a->o.history_bytes) {
			drop_oldest(a);
			compact_stacks(a);
			a->history_cut++;
		}
	}
	if (a->stacks.nodes.n > 2 * a->compacted_nodes + 10000 || (finished && frame_table_full(&a->frames)))
		compact_stacks(a);
	for (size_t i = 0; i < a->callers.n; i++) {
		if (!a->callers.v[i]->finished && now >= windows_caller_due_ns(a->callers.v[i])) {
			a->callers.v[i]->finished = true;
			woke = true;
		}
	}
	if (woke)
		pthread_cond_broadcast(&a->finished);
}

static void count(struct agent *a, enum window_kind kind, enum wait_state state, int64_t time_ns, struct process_info *who,
		  const char thread[16], uint32_t stack, int64_t value_ns, uint32_t n) REQUIRES(a->lock)
{
	sample_counts_add(window_of(a, time_ns), kind, state, who, thread, stack, value_ns, n);
	for (size_t i = 0; i < a->callers.n; i++) {
		struct sample_counts *t = a->callers.v[i];
		if (!t->finished && t->kinds & 1u << kind && time_ns >= t->start_ns && time_ns < t->end_ns)
			sample_counts_add(t, kind, state, who, thread, stack, value_ns, n);
	}
}

void windows_count(struct agent *a, int64_t time_ns, struct process_info *who, const char thread[16], uint32_t stack,
		   int64_t value_ns)
{
	count(a, WINDOW_ON_CPU, WAIT_UNKNOWN, time_ns, who, thread, stack, value_ns, 1);
}

void windows_count_wait(struct agent *a, enum wait_state state, int64_t time_ns, struct process_info *who,
			const char thread[16], uint32_t stack, int64_t value_ns, uint32_t n)
{
	count(a, WINDOW_OFF_CPU, state, time_ns, who, thread, stack, value_ns, n);
}
