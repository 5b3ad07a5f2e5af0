/* SPDX-License-Identifier: Apache-2.0 */
/* Windows and costs under clocks that the test moves: drift, steps, sleep of the machine; frequency and off-CPU steps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/core/agent_private.h"
#include "base/clock.h"

#define SECOND 1000000000ll
#define DRAIN (SECOND / 20)

/* The host's clocks, and the windows cut by them as the agent's thread does it. */
struct host {
	int64_t mono_ns, unix_ns;
	struct sample_counts *current;
	VEC(struct sample_counts *) past;
};

static void host_init(struct host *h, int64_t mono_ns, int64_t unix_ns)
{
	*h = (struct host){ .mono_ns = mono_ns, .unix_ns = unix_ns };
	h->current = sample_counts_open(mono_ns, unix_ns - mono_ns, false);
}

static void host_free(struct host *h)
{
	sample_counts_free(h->current);
	for (size_t i = 0; i < h->past.n; i++)
		sample_counts_free(h->past.v[i]);
	vec_free(&h->past);
}

/* Time passes; the wall clock is ppm millionths faster than the monotonic one. */
static void pass(struct host *h, int64_t ns, int64_t ppm)
{
	for (int64_t end = h->mono_ns + ns; h->mono_ns < end;) {
		int64_t cut;
		h->mono_ns += DRAIN;
		h->unix_ns += DRAIN + DRAIN * ppm / 1000000;
		while (sample_counts_over(h->current, h->mono_ns, h->unix_ns - h->mono_ns, &cut)) {
			bool follows = cut == h->current->end_ns;
			h->current->end_ns = cut;
			sample_counts_finish(h->current);
			vec_push(&h->past, h->current);
			h->current = sample_counts_open(cut, h->unix_ns - h->mono_ns, follows);
		}
	}
}

/* No time is in two windows or in none. */
static void assert_tiles(const struct host *h)
{
	for (size_t i = 0; i < h->past.n; i++) {
		const struct sample_counts *next = i + 1 < h->past.n ? h->past.v[i + 1] : h->current;
		assert_true(h->past.v[i]->end_ns == next->start_ns);
		assert_true(h->past.v[i]->end_ns > h->past.v[i]->start_ns);
	}
}

/* Whole windows from [first, n) on: multiples of ten seconds, one after the other. */
static void assert_regular(const struct host *h, size_t first, size_t n)
{
	assert_true(h->past.n >= n);
	for (size_t i = first; i < n; i++) {
		assert_int_equal(sample_counts_start_unix_ms(h->past.v[i]) % 10000, 0);
		if (i > first)
			assert_int_equal(sample_counts_start_unix_ms(h->past.v[i]) -
						 sample_counts_start_unix_ms(h->past.v[i - 1]), 10000);
	}
}

static void test_drift(void **state)
{
	static const int64_t drifts[] = { 0, 500, -500 }; /* the most that adjtime slews */
	for (size_t d = 0; d < 3; d++) {
		struct host h;
		host_init(&h, 77 * SECOND, 1700000003 * SECOND);
		pass(&h, 1000 * SECOND, drifts[d]);
		assert_tiles(&h);
		assert_in_range(h.past.n, 99, 101);
		assert_int_equal(sample_counts_start_unix_ms(h.past.v[0]), 1700000003000);
		assert_regular(&h, 1, h.past.n);
		host_free(&h);
	}
}

/* The wall clock is set an hour ahead, back, or by what a leap second is; the machine sleeps (which only the wall clock
 * notices): the window that was open ends there, the next one ends at a multiple again. */
static void test_steps(void **state)
{
	static const int64_t steps[] = { 3600 * SECOND, -3600 * SECOND, -SECOND, 8 * 3600 * SECOND + SECOND / 3, 4 * SECOND / 10 };
	for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
		struct host h;
		host_init(&h, 5 * SECOND, 1700000000 * SECOND);
		pass(&h, 24 * SECOND, 0);
		assert_int_equal(h.past.n, 2);
		h.unix_ns += steps[i];
		pass(&h, SECOND, 0);
		assert_int_equal(h.past.n, 3);
		assert_true(h.past.v[2]->end_ns - h.past.v[2]->start_ns < 5 * SECOND);
		assert_true(llabs(sample_counts_start_unix_ms(h.current) - (1700000024000 + steps[i] / 1000000)) < 100);
		/* What was cut off there still has the time that it had when it began, and the next one the new one. */
		assert_int_equal(sample_counts_start_unix_ms(h.past.v[2]), 1700000020000);
		pass(&h, 60 * SECOND, 0);
		assert_tiles(&h);
		assert_regular(&h, 4, h.past.n);
		int64_t after = sample_counts_start_unix_ms(h.past.v[4]) - (1700000024000 + steps[i] / 1000000);
		assert_true(after > 0 && after <= 10100);
		host_free(&h);
	}
}

/* A step too small to end a window: the next ones begin where they should all the same, and what lies between is in one. */
static void test_small_steps(void **state)
{
	static const int64_t steps[] = { SECOND / 5, -SECOND / 5, SECOND / 20, -SECOND / 20 };
	for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
		struct host h;
		host_init(&h, 5 * SECOND, 1700000000 * SECOND);
		pass(&h, 24 * SECOND, 0);
		h.unix_ns += steps[i];
		pass(&h, 60 * SECOND, 0);
		assert_tiles(&h);
		size_t irregular = 0;
		for (size_t k = 0; k < h.past.n; k++)
			irregular += sample_counts_start_unix_ms(h.past.v[k]) % 10000 != 0;
		assert_true(irregular <= 1);
		assert_regular(&h, h.past.n - 4, h.past.n);
		host_free(&h);
	}
}

static int64_t held_mono, held_turn;

static int64_t mono_clock(void)
{
	return held_mono;
}

/* The first looks at it find the thread held up for seconds. */
static int64_t wall_clock(void)
{
	int64_t now = 1700000000 * SECOND + held_mono;
	held_mono += held_turn++ < 3 ? 2 * SECOND : 100;
	return now;
}

static void test_held_up_between_clocks(void **state)
{
	int64_t offset = sample_counts_unix_offset(mono_clock, wall_clock);
	assert_true(llabs(offset - 1700000000 * SECOND) < 1000);
}

/* The thread did not run for a while: the windows are cut where they should have been. */
static void test_late_thread(void **state)
{
	struct host h;
	int64_t cut;
	host_init(&h, 0, 1700000000 * SECOND);
	int64_t offset = h.unix_ns - h.mono_ns;
	for (h.mono_ns = 35 * SECOND; sample_counts_over(h.current, h.mono_ns, offset, &cut);
	     h.current = sample_counts_open(cut, offset, true)) {
		h.current->end_ns = cut;
		vec_push(&h.past, h.current);
	}
	assert_int_equal(h.past.n, 3);
	assert_tiles(&h);
	assert_regular(&h, 0, 3);
	host_free(&h);
}

static int64_t sum(const struct sample_counts *t)
{
	int64_t n = 0;
	for (size_t i = 0; i < t->v.n; i++)
		n += t->v.v[i].value_ns;
	return n;
}

/* A drain reads past the end of a window, and CPUs' samples come a little out of order: each counts where its time is. */
static void test_sample_times(void **state)
{
	static const char thread[16] = "one";
	struct agent a = { .o = { .history_ms = 600000, .history_bytes = 1 << 20 }, .lock = MUTEX_INIT(RANK_AGENT, "agent") };
	mutex_lock(&a.lock);
	stack_tree_init(&a.stacks);
	uint32_t stack = stack_tree_add(&a.stacks, 0, 0x5000);
	a.current = sample_counts_open(1000 * SECOND, sample_counts_unix_offset(clock_mono_ns, clock_now_ns), false);
	/* A caller's, across the end. */
	struct sample_counts *mine = sample_counts_new(a.current->end_ns - 5, a.current->end_ns + 5, 0);
	int64_t end = a.current->end_ns;
	vec_push(&a.callers, mine);
	for (int64_t at = -10; at < 10; at++)
		windows_count(&a, end + (at * 7 + 1000) % 20 - 10, NULL, thread, stack, 1);
	windows_finish(&a, end - 1);
	assert_int_equal(a.history.n, 0);
	windows_finish(&a, end + 1);
	assert_int_equal(a.history.n, 1);
	assert_int_equal(sum(a.history.v[0]), 10);
	assert_int_equal(sum(a.current), 10);
	assert_int_equal(sum(mine), 10);
	assert_true(a.history.v[0]->end_ns == end && a.current->start_ns == end && !a.next);
	assert_int_equal(a.current->number, 1);
	windows_count(&a, end + 1, NULL, thread, stack, 1);
	windows_finish(&a, a.current->end_ns);
	assert_int_equal(a.history.n, 2);
	assert_int_equal(sum(a.history.v[1]), 11);
	assert_int_equal(sum(a.current), 0);
	for (size_t i = 0; i < a.history.n; i++)
		sample_counts_free(a.history.v[i]);
	sample_counts_free(a.current);
	sample_counts_free(mine);
	vec_free(&a.history);
	vec_free(&a.callers);
	stack_tree_release(&a.stacks);
	mutex_unlock(&a.lock);
}

static struct process_info *unnamed_process(uint32_t pid)
{
	struct process_info *p = calloc(1, sizeof *p);
	atomic_store(&p->refs, 1);
	p->pid = pid;
	p->waits = true;
	process_info_made(p);
	return p;
}

static void name_it(struct process_info *p, bool dropped)
{
	p->named = process_info_copy(p);
	p->named->dropped = dropped;
	process_info_made(p->named);
	p->waits = false;
}

/* A window of the history is not offered while one of its processes waits for its container's name. After that each of its samples counts once,
 * under the final labels, and samples that rules drop by the name are gone. The window of a profile with seconds= waits 1.5 s at most. */
static void test_names_that_come_late(void **state)
{
	static const char thread[16] = "one";
	struct agent a = { .o = { .history_ms = 1, .history_bytes = 1 << 20 }, .lock = MUTEX_INIT(RANK_AGENT, "agent") };
	struct process_info *kept = unnamed_process(1), *dropped = unnamed_process(2), *late = unnamed_process(3);
	struct process_info *whole[] = { kept, dropped };
	mutex_lock(&a.lock);
	stack_tree_init(&a.stacks);
	uint32_t stack = stack_tree_add(&a.stacks, 0, 0x5000);
	a.current = sample_counts_open(1000 * SECOND, sample_counts_unix_offset(clock_mono_ns, clock_now_ns), false);
	int64_t end = a.current->end_ns;
	struct sample_counts *mine = sample_counts_new(end - 10, end, 0);
	vec_push(&a.callers, mine);
	for (size_t i = 0; i < 20; i++)
		windows_count(&a, end - 10 + (int64_t)i, whole[i % 2], thread, stack, 1);
	windows_count(&a, end + 1, late, thread, stack, 1);
	windows_finish(&a, end + 1);
	assert_int_equal(a.history.n, 1);
	assert_int_equal(windows_named(&a), 0);
	assert_false(mine->finished);
	windows_finish(&a, end + CALLER_NAME_WAIT_NS);
	assert_true(mine->finished);
	name_it(kept, false);
	windows_name(&a, end + CALLER_NAME_WAIT_NS);
	assert_int_equal(windows_named(&a), 0);
	name_it(dropped, true);
	windows_name(&a, end + CALLER_NAME_WAIT_NS);
	assert_int_equal(windows_named(&a), 1);
	assert_int_equal(sum(a.history.v[0]), 5);
	assert_int_equal(sum(mine), 5);
	assert_int_equal(sum(a.current), 6);
	assert_int_equal(a.dropped, 10);
	assert_true(a.history.v[0]->v.v[0].who == kept->named && a.current->unnamed);
	/* Another sample of the named process is added to its entry: the window has an index of the new ones. */
	windows_count(&a, end + 2, kept->named, thread, stack, 1);
	assert_int_equal(a.current->v.n, 2);
	assert_int_equal(sum(a.current), 7);
	/* A window that waits is kept beyond the history's length. */
	windows_finish(&a, a.current->end_ns);
	windows_finish(&a, a.current->end_ns);
	windows_finish(&a, a.current->end_ns);
	assert_int_equal(a.history.n, 3);
	assert_int_equal(sum(a.history.v[0]), 7);
	assert_int_equal(windows_named(&a), 0);
	name_it(late, false);
	int64_t named = a.current->end_ns - 1;
	windows_name(&a, named);
	assert_int_equal(windows_named(&a), 3);
	/* The history's millisecond begins when the window can be offered. */
	windows_finish(&a, named + 1);
	assert_int_equal(a.history.n, 4);
	windows_finish(&a, a.current->end_ns);
	assert_int_equal(a.history.n, 1);
	windows_release(&a);
	sample_counts_free(mine);
	mutex_unlock(&a.lock);
	process_info_unref(kept);
	process_info_unref(dropped);
	process_info_unref(late);
	assert_int_equal(process_info_bytes(), 0);
}

static size_t kept_bytes(const struct agent *a)
{
	size_t n = stack_tree_bytes(&a->stacks) + sample_counts_bytes(a->current);
	for (size_t i = 0; i < a->history.n; i++)
		n += sample_counts_bytes(a->history.v[i]);
	return n;
}

/* The history's memory: the oldest windows go first, their stacks with them, and it is counted. What is left is whole. */
static void test_memory_budget(void **state)
{
	static const char thread[16] = "one";
	struct agent a = { .o = { .history_ms = 600000, .history_bytes = 512 << 10 }, .lock = MUTEX_INIT(RANK_AGENT, "agent") };
	uint64_t address = 0x1000;
	mutex_lock(&a.lock);
	stack_tree_init(&a.stacks);
	a.current = sample_counts_open(1000 * SECOND, sample_counts_unix_offset(clock_mono_ns, clock_now_ns), false);
	a.current->number = a.windows = 1;
	for (int w = 0; w < 20; w++) {
		int64_t at = a.current->start_ns;
		for (int i = 0; i < 1000; i++) /* stacks that no other window has */
			windows_count(&a, at + i, NULL, thread, stack_tree_add(&a.stacks, 0, address++), 1);
		windows_finish(&a, a.current->end_ns);
		assert_true(kept_bytes(&a) <= a.o.history_bytes || a.history.n == 1);
	}
	assert_in_range(a.history.n, 2, 18);
	assert_int_equal(a.history_cut, 20 - a.history.n);
	assert_true(a.history.v[0]->number == 21 - a.history.n && a.history.v[a.history.n - 1]->number == 20);
	for (size_t i = 0; i < a.history.n; i++) {
		assert_int_equal(sum(a.history.v[i]), 1000);
		for (size_t k = 0; k < 1000; k++) {
			uint64_t frame = a.stacks.nodes.v[a.history.v[i]->v.v[k].stack].frame;
			assert_true(frame == 0x1000 + (a.history.v[i]->number - 1) * 1000 + k);
		}
		sample_counts_free(a.history.v[i]);
	}
	sample_counts_free(a.current);
	vec_free(&a.history);
	stack_tree_release(&a.stacks);
	mutex_unlock(&a.lock);
}

/* --- frames of language runtimes --- */

#define CODES 100u

static struct runtime_owner *new_owner(void)
{
	static const struct runtime python = { .kind = RUNTIME_PYTHON, .name = "python" };
	static struct runtime_file file = { .of = &python };
	static struct image im = { .runtime = &file };

	atomic_store(&im.refs, 1000);
	return runtime_owner_new(7, &im);
}

/* Counts a stack of each of CODES functions at `object` and after it, in the window that is open. */
static void count_codes(struct agent *a, struct runtime_owner *o, uint64_t object) REQUIRES(a->lock)
{
	static const char thread[16] = "one";

	for (uint64_t i = 0; i < CODES; i++) {
		uint64_t word = frame_table_add(&a->frames, o, o->image->runtime->of, 3, object + i, 1, 1);
		windows_count(a, a->current->start_ns, NULL, thread, stack_tree_add(&a->stacks, 0, word), 1);
	}
}

/* Functions are kept for as long as a window has a stack of them, and their room is another's afterwards. */
static void test_runtime_frames(void **state)
{
	struct agent a = { .o = { .history_ms = 25000, .history_bytes = 8 << 20 }, .lock = MUTEX_INIT(RANK_AGENT, "agent") };
	struct runtime_owner *o = new_owner();

	mutex_lock(&a.lock);
	stack_tree_init(&a.stacks);
	frame_table_init(&a.frames);
	a.current = sample_counts_open(1000 * SECOND, sample_counts_unix_offset(clock_mono_ns, clock_now_ns), false);
	a.current->number = a.windows = 1;
	for (uint64_t w = 0; w < 10; w++) {
		count_codes(&a, o, (w + 1) << 20);
		a.frames.full = w == 9;      /* no room: what is not needed goes at the end of the window */
		windows_finish(&a, a.current->end_ns);
	}
	assert_in_range(a.history.n, 2, 4);
	assert_int_equal(a.frames.held_codes, a.history.n * CODES);
	assert_int_equal(a.frames.held_frames, a.history.n * CODES);
	assert_false(frame_table_full(&a.frames));
	for (size_t i = 0; i < a.history.n; i++) {
		for (size_t k = 0; k < CODES; k++) {
			struct runtime_frame f = frame_table_at(&a.frames, a.stacks.nodes.v[a.history.v[i]->v.v[k].stack].frame);
			assert_true(f.at == 3 && f.code->object == (a.history.v[i]->number << 20) + k);
		}
	}
	/* Numbers are used again, and lead to what they stand for now. */
	count_codes(&a, o, 1);
	assert_true(a.frames.frames.n <= 10 * CODES);
	struct profile_window *w = sample_counts_export(&a.current, 1, WINDOW_ON_CPU, &a.stacks, &a.frames, NULL);
	assert_int_equal(w->frames.n, CODES);
	for (size_t i = 0; i < CODES; i++)
		assert_true(w->frames.v[i].kind == FRAME_RUNTIME && w->frames.v[i].code->object == 1 + i);
	windows_release(&a);
	/* A window that was handed out holds its functions. */
	assert_true(w->frames.v[5].code->object == 6);
	profile_window_free(w);
	mutex_unlock(&a.lock);
	assert_int_equal(atomic_load(&o->refs), 1);
	runtime_owner_end(o);
}

/* --- ticks that were not seen --- */

static uint64_t read_stat(const char *text, int64_t busy[MAX_CPUS])
{
	FILE *f = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
	assert_non_null(f);
	cost_read_busy(f, busy);
	uint64_t switches = cost_read_switches(f);
	fclose(f);
	return switches;
}

static void test_busy_by_proc_stat(void **state)
{
	int64_t *busy = calloc(MAX_CPUS, sizeof *busy);

	/* user nice system idle iowait irq softirq steal guest guest_nice; CPU 1 is offline. */
	read_stat("cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 100 20 30 7777 888 4 5 66 50 0\ncpu2 1 0 0 5 0 0 0 0 0 0\n"
		  "cpu99999 1 1 1 1 1 1 1\nintr 77 88\ncpu3 5 5 5 5 5\n", busy);
	int64_t tick = SECOND / sysconf(_SC_CLK_TCK);
	assert_int_equal(busy[0], 159 * tick);
	assert_int_equal(busy[1], 0);
	assert_int_equal(busy[2], tick);
	assert_int_equal(busy[3], 0);
	assert_int_equal(read_stat("cpu  1 1 1 1\ncpu0 1 1 1 1\nintr 77 88\nctxt 123456789012\nbtime 5\n", busy), 123456789012);
	assert_int_equal(read_stat("cpu  1 1 1 1\ncpu0 1 1 1 1\nintr 77 88\n", busy), 0);
	read_stat("", busy);
	assert_int_equal(busy[0], 0);
	FILE *f = fopen("/proc/stat", "re");
	assert_non_null(f);
	cost_read_busy(f, busy);
	assert_true(cost_read_switches(f) > 0);
	fclose(f);
	int64_t sum = 0;
	for (int i = 0; i < MAX_CPUS; i++)
		sum += busy[i];
	assert_true(sum > 0);
	free(busy);
}

#define CPUS 64

struct ticking {
	struct agent_cost *cost;
	int64_t busy[MAX_CPUS];      /* ticks of the clock */
	int64_t now;
};

static void ticks_of(struct ticking *t, int64_t from, double first, double others)
{
	int64_t period = SECOND / 19;

	for (uint32_t i = 0; i < CPUS; i++) {
		int n = (int)(190 * (i ? others : first));
		for (int k = 0; k < n; k++)
			cost_sampled(t->cost, i, from + 1 + 10 * SECOND / n * k, period);
	}
}

static void ten_seconds(struct ticking *t)
{
	int64_t hz = sysconf(_SC_CLK_TCK);
	char text[CPUS * 64] = "cpu  0 0 0 0\n";
	size_t n = strlen(text);

	t->now += 10 * SECOND;
	for (uint32_t i = 0; i < CPUS; i++) {
		t->busy[i] += 10 * hz;
		if (t->busy[i] > 0)
			n += (size_t)snprintf(text + n, sizeof text - n, "cpu%u %lld 0 0 0 0 0 0\n", i, (long long)t->busy[i]);
	}
	FILE *f = fmemopen(text, n, "r");
	assert_non_null(f);
	cost_reading(t->cost, f, t->now);
	fclose(f);
}

/* Ten seconds of CPUs that are all busy; of the first one's ticks a share is seen, of the others' another. */
static int64_t tick(struct ticking *t, double first, double others)
{
	int64_t from = t->now;

	ten_seconds(t);
	ticks_of(t, from, first, others);
	return cost_unseen(t->cost, 19);
}

/* A CPU of many that is not seen is found, as is a loss too small to be sure of on any one CPU; chance is no loss. */
static void test_unseen_ticks(void **state)
{
	struct ticking *t = calloc(1, sizeof *t);
	t->cost = calloc(1, sizeof *t->cost);

	assert_int_equal(tick(t, 1, 1), 0);  /* there is nothing to compare with yet */
	assert_int_equal(tick(t, 1, 1), 0);
	assert_int_equal(tick(t, 0.9, 0.99), 0);
	assert_int_equal(tick(t, 1.1, 1.1), 0);
	int64_t lost = tick(t, 0, 1);
	assert_true(lost >= 10 * SECOND && lost <= 10 * SECOND + SECOND / 10);
	lost = tick(t, 0.9, 0.9);
	assert_true(lost > 60 * SECOND && lost < 68 * SECOND);
	assert_int_equal(tick(t, 1, 1), 0);
	/* What was filtered, or lost and counted, is not lost a second time. */
	cost_untaken(t->cost, 0, 190, SECOND / 19);
	assert_int_equal(tick(t, 0, 1), 0);
	cost_untaken(t->cost, 0, 380, SECOND / 19);
	assert_int_equal(tick(t, 0, 1), 0);
	/* A CPU that goes and one that comes are not known for that interval. */
	t->busy[5] = -10 * sysconf(_SC_CLK_TCK);
	assert_int_equal(tick(t, 1, 1), 0);
	t->busy[5] = 100 * sysconf(_SC_CLK_TCK);
	assert_int_equal(tick(t, 1, 1), 0);
	assert_int_equal(tick(t, 1, 1), 0);
	free(t->cost);
	free(t);
}

/* While a drain takes half a minute, the CPUs go on: what they do then is in the samples of the next one, and not lost before. */
static void test_a_long_drain(void **state)
{
	struct ticking *t = calloc(1, sizeof *t);
	t->cost = calloc(1, sizeof *t->cost);

	tick(t, 1, 1);
	assert_int_equal(tick(t, 1, 1), 0);
	for (int turn = 0; turn < 3; turn++) {
		int64_t from = t->now;
		ten_seconds(t);
		ticks_of(t, from, 1, 1);
		/* The drain took half a minute: it also counts samples from after the reading. */
		for (int k = 0; k < 3; k++)
			ticks_of(t, t->now + k * 10 * SECOND, 1, 1);
		assert_int_equal(cost_unseen(t->cost, 19), 0);
		t->now += 20 * SECOND;
		for (uint32_t i = 0; i < CPUS; i++)
			t->busy[i] += 20 * sysconf(_SC_CLK_TCK);
		ten_seconds(t);
		assert_int_equal(cost_unseen(t->cost, 19), 0);
		int64_t lost = tick(t, 0, 1); /* what is lost then is noticed, all of it */
		assert_true(lost >= 10 * SECOND && lost <= 10 * SECOND + SECOND / 10);
	}
	free(t->cost);
	free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_drift), cmocka_unit_test(test_steps), cmocka_unit_test(test_small_steps),
		cmocka_unit_test(test_held_up_between_clocks), cmocka_unit_test(test_late_thread),
		cmocka_unit_test(test_sample_times), cmocka_unit_test(test_names_that_come_late), cmocka_unit_test(test_memory_budget), cmocka_unit_test(test_runtime_frames),
		cmocka_unit_test(test_busy_by_proc_stat), cmocka_unit_test(test_unseen_ticks), cmocka_unit_test(test_a_long_drain),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
