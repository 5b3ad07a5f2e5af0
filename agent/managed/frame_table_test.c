/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of runtimes: identity, budgets, compaction, what the namer makes of codes. The runtime is made up: an object is the bytes of its
 * record in this process's memory, with its check word before them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/managed/namer.h"
#include "base/clock.h"
#include "base/testwait.h"

#define STUCK 12345                  /* check word of an object whose memory does not answer */
#define SLOW 12346                   /* of one that takes a millisecond of CPU time */
#define WATCHED 12347                /* when this one is read, it is noted how many slow ones were before */
static atomic_bool go_on, is_stuck;
static atomic_uint read_so_far, read_before_spam, slow_ones, slow_before;

static const char filler[RECORD_BYTES_MAX];

struct object {
	uint64_t check;
	uint32_t len;
	char text[64];               /* "name" */
};

static int read_code(const struct runtime_file *f, struct process_memory *m, uint64_t object, uint64_t check, struct buf *ret, struct err *e)
{
	struct object o;
	int r = process_memory_read(m, object, &o, sizeof o, e);

	(void)f;
	if (r)
		return r;
	if (strcmp(o.text, "spam") == 0)
		atomic_store(&read_before_spam, atomic_load(&read_so_far));
	atomic_fetch_add(&read_so_far, 1);
	if (o.check == STUCK)
		atomic_store(&is_stuck, true);
	for (int i = 0; o.check == STUCK && i < 20000 && !atomic_load(&go_on); i++)
		usleep(1000);
	for (int64_t until = clock_cpu_ns() + 1000000; o.check == SLOW && clock_cpu_ns() < until;)
		;
	slow_ones += o.check == SLOW;
	if (o.check == WATCHED)
		slow_before = slow_ones;
	if (check && o.check != check)
		return err_set(e, ERR_BAD_DATA, "another object");
	if (o.len > RECORD_BYTES_MAX)
		return err_set(e, ERR_LIMIT, "too long");
	buf_put(ret, o.text, MIN((size_t)o.len, sizeof o.text));
	if (o.len > sizeof o.text)
		buf_put(ret, filler, o.len - sizeof o.text);
	return 0;
}

static size_t frames_at(const struct runtime_file *f, struct view record, uint64_t at, struct runtime_name *out, size_t max)
{
	(void)f;
	if (!record.len || !max)
		return 0;
	out[0] = (struct runtime_name){ record, record, VIEW("file"), (int64_t)at, 1 };
	return 1;
}

static void free_file(struct runtime_file *f)
{
	(void)f;
}

static const struct runtime made_up = { .kind = RUNTIME_PYTHON, .name = "python", .mapping = "[python]", .free_file = free_file,
					.read_code = read_code, .frames_at = frames_at };
static struct runtime_file file = { .of = &made_up, .version = 0x30b };

static struct image *new_image(void)
{
	struct image *im = NEW(struct image);

	atomic_store(&im->refs, 1);
	atomic_store(&im->fd, -1);
	im->path = xstrdup("/python");
	im->runtime = &file;
	return im;
}

static void no_records(void)
{
	size_t bytes, n;

	runtime_records_held(&bytes, &n);
	assert_int_equal(bytes, 0);
	assert_int_equal(n, 0);
}

/* What each test begins with: an empty table, a namer, and two owners, both of them this process. */
static struct frame_table t;
static struct image *im;
static struct namer *n;
static struct runtime_owner *o, *p;

static int begin(void **state)
{
	struct err e;

	(void)state;
	frame_table_init(&t);
	im = new_image();
	n = namer_new(&e);
	o = runtime_owner_new((uint32_t)getpid(), im);
	p = runtime_owner_new((uint32_t)getpid(), im);
	return n ? 0 : -1;
}

static int end(void **state)
{
	(void)state;
	runtime_owner_end(o);
	runtime_owner_end(p);
	frame_table_release(&t);
	namer_free(n);
	assert_int_equal(atomic_load(&im->refs), 1);
	image_unref(im);
	no_records();
	return 0;
}

static uint64_t add(struct runtime_owner *owner, const void *object, uint64_t at, uint64_t check)
{
	return frame_table_add(&t, owner, &made_up, at, (uintptr_t)object, check, clock_mono_ns());
}

static void sweep(uint64_t keep)
{
	struct frame_sweep s;

	frame_sweep_begin(&s, &t);
	frame_sweep_mark(&s, &t, keep);
	frame_sweep_mark(&s, &t, 0x1234); /* a native frame */
	frame_sweep_run(&s, &t);
}

static void identity(void **state)
{
	(void)state;

	uint64_t a = add(o, &t, 4, 7), b = add(o, &t, 8, 7), c = add(o, &t, 4, 8), d = add(p, &t, 4, 7);
	assert_true(FRAME_IS_RUNTIME(a) && a >> 48 == RUNTIME_IMAGE(RUNTIME_PYTHON));
	assert_false(FRAME_IS_RUNTIME(0x3fffull << 48 | 5) || FRAME_IS_RUNTIME(UINT64_MAX) || FRAME_IS_RUNTIME(0xfffeull << 48));
	assert_true(a != b && a != c && a != d && b != c && b != d && c != d);
	assert_true(add(o, &t, 4, 7) == a && add(p, &t, 4, 7) == d);
	assert_ptr_equal(frame_table_at(&t, a).code, frame_table_at(&t, b).code);
	assert_int_equal(frame_table_at(&t, b).at, 8);
	assert_null(frame_table_at(&t, a + 1000).code);
	assert_int_equal(t.held_codes, 3);
	assert_int_equal(t.held_frames, 4);
	assert_int_equal(t.wanted.n, 3); /* each once */
	/* Without a process that is known: one frame for all of them. */
	uint64_t gone = add(NULL, &t, 4, 7);
	assert_true(add(NULL, &o, 8, 9) == gone);
	char text[64];
	assert_string_equal(runtime_code_mark(frame_table_at(&t, gone).code, text), "[python: process ended]");
	/* What nobody names goes, and its number is used again; the rest keeps its own. */
	sweep(b);
	assert_int_equal(t.held_frames, 1);
	assert_int_equal(t.held_codes, 1);
	assert_int_equal(o->codes, 1);
	assert_int_equal(p->codes, 0);
	assert_int_equal(frame_table_at(&t, b).at, 8);
	assert_null(frame_table_at(&t, d).code);
	assert_true(add(o, &t, 8, 7) == b);
	for (uint64_t i = 0; i < 10; i++)
		assert_true((add(p, &t, i, 7) & FRAME_ADDR_MASK) <= 10);
	sweep(0);
	assert_int_equal(t.held_frames, 0);
	assert_int_equal(t.held_codes, 0);
}

/* Codes without end: one process has half of the room, the next ones half of what is left. */
static void budget_of_codes(void **state)
{
	(void)state;
	uint64_t over = 0, first = 0;
	char text[64];

	for (uint64_t i = 0; i < 1000000; i++) {
		over = frame_table_add(&t, o, &made_up, 0, i * 64, 1, 1);
		first = first ? first : over;
	}
	assert_int_equal(t.held_codes, CODES_MAX / 2);
	assert_int_equal(t.held_frames, CODES_MAX / 2 + 1);
	assert_true(frame_table_full(&t));
	assert_string_equal(runtime_code_mark(frame_table_at(&t, over).code, text), "[python: over budget]");
	assert_true(frame_table_add(&t, o, &made_up, 9, 1 << 30, 2, 1) == over);
	assert_int_equal(t.over_budget[RUNTIME_PYTHON], 1000000 - CODES_MAX / 2 + 1);
	assert_true(frame_table_add(&t, o, &made_up, 0, 0, 1, 1) == first); /* what it has stays */
	for (uint64_t i = 0; i < 1000000; i++)
		frame_table_add(&t, p, &made_up, 0, i * 64, 1, 1);
	assert_int_equal(p->codes, CODES_MAX / 4);
	/* When its stacks are forgotten there is room again. */
	sweep(0);
	assert_false(frame_table_full(&t));
	assert_true(frame_table_add(&t, o, &made_up, 0, 1 << 30, 1, 1) != over);
	assert_int_equal(t.held_codes, 1);
}

static void take_all(void)
{
	assert_true(TEST_WAIT((namer_take(n, &t), !t.wanted.n)));
}

static void settle(void)
{
	take_all();
	namer_settle(n, 10000);
}

static enum code_state state_of(uint64_t word)
{
	return (enum code_state)atomic_load(&frame_table_at(&t, word).code->state);
}

static void names(void **state)
{
	(void)state;
	static struct object f = { 5, 4, "spam" }, g = { 6, 3, "egg" }, same = { 7, 4, "spam" }, huge = { 8, 1 << 30, "" };
	struct runtime_owner *ended = runtime_owner_new((uint32_t)getpid(), im);
	struct runtime_name name;
	struct namer_stats stats;
	size_t bytes, records;
	char text[64];

	uint64_t w[8] = { add(o, &f, 30, 5), add(o, &g, 31, 0), add(p, &same, 32, 7), add(o, &f, 33, 99),
			  add(o, (void *)16, 34, 5), add(o, &huge, 35, 8), add(ended, &f, 36, 5) };
	assert_string_equal(runtime_code_mark(frame_table_at(&t, w[0]).code, text), "[python: not read yet]");
	runtime_owner_end(ended);
	settle();
	static const enum code_state want[] = { CODE_NAMED, CODE_NAMED, CODE_NAMED, CODE_CHANGED, CODE_UNREADABLE, CODE_OVER_BUDGET, CODE_GONE };
	for (size_t i = 0; i < ARRAY_LEN(want); i++)
		assert_int_equal(state_of(w[i]), want[i]);
	namer_stats(n, &stats);
	assert_int_equal(stats.codes[RUNTIME_PYTHON][CODE_NAMED], 3);
	assert_int_equal(stats.codes[RUNTIME_PYTHON][CODE_CHANGED], 1);
	assert_int_equal(stats.codes[RUNTIME_PYTHON][CODE_GONE], 1);
	assert_int_equal(stats.waiting, 0);
	/* Two processes' function is one record. */
	runtime_records_held(&bytes, &records);
	assert_int_equal(records, 2);
	struct runtime_frame at = frame_table_at(&t, w[2]);
	assert_int_equal(runtime_code_frames(at.code, at.at, &name, 1), 1);
	assert_true(view_eqs(name.name, "spam") && name.line == 32);
	assert_int_equal(runtime_code_frames(frame_table_at(&t, w[3]).code, 1, &name, 1), 0);
	/* What was read stays known after the process has ended and the table has forgotten it, while somebody holds it. */
	struct runtime_code *held = runtime_code_ref(at.code);
	runtime_owner_end(p);
	p = NULL;
	sweep(w[1]);
	assert_int_equal(runtime_code_frames(held, 40, &name, 1), 1);
	assert_true(view_eqs(name.name, "spam") && name.line == 40);
	runtime_records_held(&bytes, &records);
	assert_int_equal(records, 2);
	runtime_code_unref(held);
	runtime_records_held(&bytes, &records);
	assert_int_equal(records, 1);
}

/* What failed is tried again when it is met a second later, a few times. */
static void tries_again(void **state)
{
	(void)state;
	static struct object f = { 5, 4, "spam" };
	int64_t now = 1;

	uint64_t w = frame_table_add(&t, o, &made_up, 1, (uintptr_t)&f, 6, now);
	settle();
	assert_int_equal(state_of(w), CODE_CHANGED);
	for (int i = 0; i < 10; i++) {
		frame_table_add(&t, o, &made_up, 1, (uintptr_t)&f, 6, now += 100000000);
		settle();
	}
	assert_int_equal(state_of(w), CODE_CHANGED);
	struct namer_stats stats;
	namer_stats(n, &stats);
	assert_int_equal(stats.codes[RUNTIME_PYTHON][CODE_CHANGED], 1);
	f.check = 6;
	frame_table_add(&t, o, &made_up, 1, (uintptr_t)&f, 6, now += 1000000000);
	settle();
	assert_int_equal(state_of(w), CODE_NAMED);
	f.check = 5;
	w = frame_table_add(&t, o, &made_up, 1, (uintptr_t)&f, 7, now);
	for (int i = 0; i < 10; i++) {
		frame_table_add(&t, o, &made_up, 1, (uintptr_t)&f, 7, now += 1000000001);
		settle();
	}
	namer_stats(n, &stats);
	assert_int_equal(stats.codes[RUNTIME_PYTHON][CODE_CHANGED], 1 + 4);
}

/* Records without end: half of the room is the first one's, and others still have theirs. */
static void budget_of_records(void **state)
{
	(void)state;
	static struct object big[400], small = { 5, 4, "spam" };
	size_t bytes, records;
	struct namer_stats stats;

	for (uint32_t i = 0; i < ARRAY_LEN(big); i++) {
		big[i].len = 100000;
		snprintf(big[i].text, sizeof big[i].text, "%u", i);
		add(o, &big[i], 0, 0);
	}
	settle();
	runtime_records_held(&bytes, &records);
	assert_in_range(bytes, RECORDS_BYTES_MAX / 2 - 101000, RECORDS_BYTES_MAX / 2);
	namer_stats(n, &stats);
	assert_int_equal(stats.codes[RUNTIME_PYTHON][CODE_NAMED], records);
	assert_int_equal(stats.codes[RUNTIME_PYTHON][CODE_OVER_BUDGET], ARRAY_LEN(big) - records);
	assert_true(frame_table_full(&t));
	uint64_t w = add(p, &small, 0, 5);
	settle();
	assert_int_equal(state_of(w), CODE_NAMED);
	sweep(w);
	runtime_records_held(&bytes, &records);
	assert_int_equal(records, 1);
	assert_int_equal(atomic_load(&o->record_bytes), 0);
}

static void slow_objects(struct runtime_owner *owner, struct object *made, uint32_t how_many)
{
	for (uint32_t i = 0; i < how_many; i++) {
		made[i] = (struct object){ SLOW, 10, "" };
		snprintf(made[i].text, sizeof made[i].text, "slow %u", i);
		add(owner, &made[i], 0, 0);
	}
}

/* Adds a code that cannot be read before hold_end, and waits until the namer is at it. */
static uint64_t hold_begin(struct object *bad)
{
	atomic_store(&go_on, false);
	atomic_store(&is_stuck, false);
	uint64_t w = add(o, bad, 1, 0);
	assert_true(TEST_WAIT((namer_take(n, &t), atomic_load(&is_stuck))));
	return w;
}

static void hold_end(void)
{
	take_all();
	atomic_store(&go_on, true);
	namer_settle(n, 10000);
}

/* Memory that does not answer keeps one process waiting, and no other. */
static void stuck(void **state)
{
	(void)state;
	static struct object bad = { STUCK, 3, "bad" }, f = { 5, 4, "spam" }, g = { 6, 4, "eggs" }, slow[9];
	pid_t child = fork();
	if (child == 0)
		for (;;)
			pause();
	runtime_owner_end(p);
	p = runtime_owner_new((uint32_t)child, im);
	struct namer_stats stats;

	uint64_t w = hold_begin(&bad);
	uint64_t v = add(p, &f, 1, 5), other = add(o, &f, 1, 5);
	for (int i = 0; i < STUCK_MS * 3 / 10 && state_of(v) != CODE_NAMED; i++) {
		namer_take(n, &t);
		usleep(10000);
	}
	assert_int_equal(state_of(v), CODE_NAMED);
	namer_settle(n, 10000);
	assert_int_equal(state_of(other), CODE_UNREADABLE);
	assert_int_equal(state_of(w), CODE_WANTED);
	/* That somebody waits for it stays known, whatever is not read of it meanwhile. */
	v = add(o, &g, 1, 6);
	settle();
	assert_int_equal(state_of(v), CODE_UNREADABLE);
	namer_stats(n, &stats);
	assert_int_equal(stats.stuck, 1);
	assert_int_equal(stats.waiting, 0);
	/* When it goes on at last nobody waits: what did was forgotten before its turn. */
	slow_objects(p, slow, ARRAY_LEN(slow) - 1);
	take_all();
	slow_objects(p, &slow[ARRAY_LEN(slow) - 1], 1);
	take_all();
	sweep(w);
	namer_settle(n, 10000);
	atomic_store(&go_on, true);
	assert_true(TEST_WAIT(state_of(w) == CODE_NAMED));
	usleep(50000);               /* it gives its references up */
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

/* A process with a thousand codes to read does not keep one with a few waiting. */
static void turns(void **state)
{
	(void)state;
	static struct object many[5000], f = { 5, 4, "spam" };
	struct namer_stats stats;

	for (uint32_t i = 0; i < ARRAY_LEN(many); i++) {
		many[i].len = 10;
		snprintf(many[i].text, sizeof many[i].text, "%u", i);
		add(o, &many[i], 0, 0);
	}
	uint64_t w = add(p, &f, 0, 5);
	atomic_store(&read_so_far, 0);
	settle();
	assert_int_equal(state_of(w), CODE_NAMED);
	assert_true(atomic_load(&read_before_spam) < ARRAY_LEN(many) - 1000);
	namer_stats(n, &stats);
	assert_int_equal(stats.codes[RUNTIME_PYTHON][CODE_NAMED], ARRAY_LEN(many) + 1);
}

/* Codes that left the table before they were read wait no longer, and are not read: what waits has a bound. */
static void forgotten(void **state)
{
	(void)state;
	static struct object bad = { STUCK, 3, "bad" }, many[1000];
	struct namer_stats stats;

	uint64_t kept = 0, w = hold_begin(&bad);
	for (uint32_t i = 0; i < ARRAY_LEN(many); i++) {
		many[i].len = 10;
		snprintf(many[i].text, sizeof many[i].text, "%u", i);
		kept = add(o, &many[i], 0, 0);
	}
	take_all();
	sweep(kept);
	atomic_store(&go_on, true);
	namer_settle(n, 10000);
	assert_int_equal(state_of(kept), CODE_NAMED);
	namer_stats(n, &stats);
	assert_int_equal(stats.codes[RUNTIME_PYTHON][CODE_NAMED], 2); /* with the first, which was being read */
	assert_int_equal(stats.waiting, 0);
	/* Nothing is left at all: whoever waits for that is told. */
	hold_begin(&bad);
	add(o, &many[0], 0, 0);
	take_all();
	sweep(w);
	atomic_store(&go_on, true);
	int64_t begun = clock_mono_ms();
	namer_settle(n, 60000);
	assert_true(clock_mono_ms() - begun < 30000);
}

/* One that has had much does not wait until another one, which has come since, has had as much; nor for all that this one wants, if it takes long. */
static void turns_by_time(void **state)
{
	(void)state;
	static struct object first[80], slow[100], f = { WATCHED, 7, "watched" };

	slow_objects(o, first, ARRAY_LEN(first));
	settle();
	slow_objects(p, slow, ARRAY_LEN(slow));
	add(o, &f, 0, 0);
	settle();
	assert_int_equal(slow_ones, ARRAY_LEN(first) + ARRAY_LEN(slow));
	assert_in_range(slow_before, ARRAY_LEN(first), ARRAY_LEN(first) + 40);
}

/* One that has had some waits its turn while processes come that have had nothing yet, and not for ever. */
static void newcomers(void **state)
{
	(void)state;
	static struct object first[5], f = { WATCHED, 7, "watched" }, slow[100][8];
	struct runtime_owner *came[ARRAY_LEN(slow)];
	struct namer_stats stats;
	uint32_t i = 0;

	slow_objects(o, first, ARRAY_LEN(first));
	settle();
	slow_ones = 1;
	slow_before = 0;
	add(o, &f, 0, 0);
	for (; !atomic_load(&slow_before) && i < ARRAY_LEN(slow); i++) {
		came[i] = runtime_owner_new((uint32_t)getpid(), im);
		slow_objects(came[i], slow[i], ARRAY_LEN(slow[i]));
		assert_true(TEST_WAIT((namer_take(n, &t), namer_stats(n, &stats), !t.wanted.n && stats.waiting < 3 * ARRAY_LEN(slow[0]))));
	}
	assert_true(i < 50);
	settle();
	while (i--)
		runtime_owner_end(came[i]);
}

/* Of one process, what is met most is read first. Of two, the one whose codes cannot be read waits. */
static void most_met_first(void **state)
{
	(void)state;
	static struct object bad[] = { { STUCK, 3, "bad" }, { STUCK, 4, "bad2" } }, many[1000], f = { 5, 4, "spam" }, wrong[100], slow[100], watched = { WATCHED, 7, "watched" };

	hold_begin(&bad[0]);
	atomic_store(&read_so_far, 0);
	for (uint32_t i = 0; i < ARRAY_LEN(many); i++) {
		many[i].len = 10;
		snprintf(many[i].text, sizeof many[i].text, "%u", i);
		add(o, &many[i], 0, 0);
	}
	for (uint32_t i = 0; i < 20; i++)
		add(o, &f, i, 5);
	hold_end();
	assert_int_equal(atomic_load(&read_before_spam), 0);
	assert_int_equal(atomic_load(&read_so_far), ARRAY_LEN(many) + 1);

	slow_ones = 0;
	hold_begin(&bad[1]);
	slow_objects(p, slow, ARRAY_LEN(slow));
	add(p, &watched, 0, 0);
	for (uint32_t i = 0; i < ARRAY_LEN(wrong); i++) {
		wrong[i] = (struct object){ SLOW, 5, "wrong" };
		add(o, &wrong[i], 0, SLOW + 1);
	}
	hold_end();
	assert_int_equal(slow_ones, ARRAY_LEN(slow) + ARRAY_LEN(wrong));
	assert_in_range(slow_before, ARRAY_LEN(slow), ARRAY_LEN(slow) + ARRAY_LEN(wrong) / 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(identity, begin, end),
		cmocka_unit_test_setup_teardown(budget_of_codes, begin, end),
		cmocka_unit_test_setup_teardown(names, begin, end),
		cmocka_unit_test_setup_teardown(tries_again, begin, end),
		cmocka_unit_test_setup_teardown(budget_of_records, begin, end),
		cmocka_unit_test_setup_teardown(turns, begin, end),
		cmocka_unit_test_setup_teardown(turns_by_time, begin, end),
		cmocka_unit_test_setup_teardown(newcomers, begin, end),
		cmocka_unit_test_setup_teardown(stuck, begin, end),
		cmocka_unit_test_setup_teardown(forgotten, begin, end),
		cmocka_unit_test_setup_teardown(most_met_first, begin, end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
