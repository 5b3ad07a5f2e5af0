/* SPDX-License-Identifier: Apache-2.0 */
/* A program that burns known CPU time in known functions, and what its profile says of that. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"
#include "model/profile.h"
#include "selfprof/selfprof.h"
#include "selfprof/pieces.h"
#include "selfprof/ticks.h"

static atomic_bool enough;

static int64_t cpu_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static __attribute__((noipa)) uint64_t burn(uint64_t x)
{
	for (int i = 0; i < 100000; i++)
		x = x * 6364136223846793005u + 1442695040888963407u;
	return x;
}

static volatile uint64_t sink;

static __attribute__((noipa)) void burn_red(int64_t ns)
{
	for (int64_t end = cpu_ns(CLOCK_THREAD_CPUTIME_ID) + ns; cpu_ns(CLOCK_THREAD_CPUTIME_ID) < end && !atomic_load(&enough);)
		sink = burn(sink);
	__asm__ volatile("" ::: "memory");
}

static __attribute__((noipa)) void burn_blue(int64_t ns)
{
	for (int64_t end = cpu_ns(CLOCK_THREAD_CPUTIME_ID) + ns; cpu_ns(CLOCK_THREAD_CPUTIME_ID) < end && !atomic_load(&enough);)
		sink = burn(sink) + 1;
	__asm__ volatile("" ::: "memory");
}

static int by_pointer(const void *a, const void *b)
{
	burn_red(2000000);
	return (*(const int *)a > *(const int *)b) - (*(const int *)a < *(const int *)b);
}

struct worker {
	pthread_t thread;
	int64_t after_ms, used_ns, ended_ms;
	atomic_bool done, may_end;   /* it has used its time; the profile has ended */
};

/* Through the C library, which has no frame pointers. */
static void *red_main(void *arg)
{
	struct worker *w = arg;
	int v[64];

	while (!atomic_load(&enough)) {
		for (int i = 0; i < 64; i++)
			v[i] = (i * 37) % 64;
		qsort(v, 64, sizeof *v, by_pointer);
	}
	w->used_ns = cpu_ns(CLOCK_THREAD_CPUTIME_ID);
	return NULL;
}

static void *blue_main(void *arg)
{
	struct worker *w = arg;

	clock_sleep_ms(w->after_ms); /* it begins while the profile runs */
	burn_blue(INT64_C(200) * 1000000);
	w->used_ns = cpu_ns(CLOCK_THREAD_CPUTIME_ID);
	w->ended_ms = clock_mono_ms();
	while (!atomic_load(&w->may_end)) /* of a thread that is gone, nobody knows which ticks are missing */
		clock_sleep_ms(1);
	return NULL;
}

static bool has_frame(const struct profile *p, const struct profile_sample *s, const char *name)
{
	for (uint32_t i = 0; i < s->n_locations; i++) {
		const struct profile_location *l = &p->locations[p->stack[s->first_location + i]];
		for (uint32_t k = 0; k < l->n_lines; k++)
			if (view_eqs(profile_str(p, p->functions[p->lines[l->first_line + k].function - 1].name_str), name))
				return true;
	}
	return false;
}

/* CPU nanoseconds of stacks with both functions; NULL: any. */
static int64_t ns_of(const struct profile *p, const char *a, const char *b)
{
	int64_t sum = 0;

	for (uint32_t i = 0; i < p->n_samples; i++)
		if ((!a || has_frame(p, &p->samples[i], a)) && (!b || has_frame(p, &p->samples[i], b)))
			sum += p->values[2 * i + 1];
	return sum;
}

static int64_t incomplete_ns(const struct profile *p)
{
	return ns_of(p, "[truncated: stack copy]", NULL) + ns_of(p, "[truncated: bad frame]", NULL) +
	       ns_of(p, "[truncated: not mapped]", NULL) + ns_of(p, "[truncated: no progress]", NULL) +
	       ns_of(p, "[truncated: stack not readable]", NULL) + ns_of(p, "[truncated: unsupported unwind rule]", NULL);
}

/* Where stacks end, of which there are too many. */
static void show_incomplete(const struct profile *p)
{
	for (uint32_t i = 0; i < p->n_samples; i++) {
		const struct profile_sample *s = &p->samples[i];
		const struct profile_location *end = &p->locations[p->stack[s->first_location + s->n_locations - 1]];
		if (end->mapping)
			continue;
		for (uint32_t k = 0; k < s->n_locations; k++) {
			const struct profile_location *l = &p->locations[p->stack[s->first_location + k]];
			uint32_t f = l->n_lines ? p->functions[p->lines[l->first_line].function - 1].name_str : 0;
			printf("%llx %.*s; ", (unsigned long long)l->address, VIEW_ARG(profile_str(p, f)));
		}
		printf("%lld\n", (long long)p->values[2 * i]);
	}
}

static void assert_near(int64_t is, int64_t want, int64_t share, int64_t ticks)
{
	int64_t room = want / share + ticks * TICK_NS;

	if (is < want - room || is > want + room)
		fail_msg("%lld ms, want %lld ms", (long long)is / 1000000, (long long)want / 1000000);
}

/* Whether there is a line of this file in the profile: debug information was read. */
static bool has_line(const struct profile *p)
{
	for (uint32_t i = 0; i < p->n_lines; i++)
		if (p->lines[i].line > 0 && view_ends(profile_str(p, p->functions[p->lines[i].function - 1].filename_str), VIEW("selfprof_test.c")))
			return true;
	return false;
}

static void test_known_cpu(void **state)
{
	struct worker red = { 0 }, blue = { 0 };
	struct profile p;
	struct err e;
	int64_t cpu, began_ms;

	atomic_store(&enough, false);
	assert_int_equal(thread_start(&red.thread, "red", red_main, &red, &e), 0);
	/* The first one reads debug information, where libdw has frames of more than 64 KB. */
	profile_init(&p, 0);
	assert_int_equal(selfprof_cpu(INT64_C(100) * 1000000, NULL, &p, &e), 0);
	profile_release(&p);
	/* On a busy machine blue may go on after the profile's end: then all is measured again, for twice as long. Or its signals come only when it
	 * has burned its time and waits: then all is measured again. */
	int64_t for_ms = 700;
	for (int more = 20;; more--) {
		blue = (struct worker){ .after_ms = for_ms / 5 };
		began_ms = clock_mono_ms();
		assert_int_equal(thread_start(&blue.thread, "blue", blue_main, &blue, &e), 0);
		cpu = cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
		profile_init(&p, 0);
		if (selfprof_cpu(for_ms * 1000000, NULL, &p, &e))
			fail_msg("%s", e.msg);
		cpu = cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
		atomic_store(&blue.may_end, true);
		pthread_join(blue.thread, NULL);
		bool in_time = blue.ended_ms <= began_ms + for_ms;
		if (in_time && ns_of(&p, "burn_blue", "blue_main") >= blue.used_ns / 2)
			break;
		profile_release(&p);
		assert_true(more && for_ms < 40000);
		for_ms *= in_time ? 1 : 2;
	}
	atomic_store(&enough, true);
	pthread_join(red.thread, NULL);
	assert_int_equal(profile_check(&p, &e), 0);
	if (getenv("PYRRHA_SHOW"))
		for (uint32_t i = 0; i < p.n_comments; i++)
			printf("%.*s\n", VIEW_ARG(profile_str(&p, p.comments[i])));
	/* Naming is not in the profile and reads debug information: so much more may have been used. */
	int64_t of_burn = ns_of(&p, "burn_blue", "blue_main"), of_blue = ns_of(&p, "blue_main", NULL), lost = ns_of(&p, "[lost: no stack]", NULL);
	print_message("  blue burned %.0f, all %.0f, of %.0f ms, lost %.0f ms\n", (double)of_burn / 1e6, (double)of_blue / 1e6, (double)blue.used_ns / 1e6, (double)lost / 1e6);
	/* A late signal's ticks are with the stack that it meets, or lost at the end of the profile. */
	assert_true(of_burn <= blue.used_ns * 21 / 20 + 3 * TICK_NS);
	assert_true(of_blue + lost >= blue.used_ns * 19 / 20 - 3 * TICK_NS);
	int64_t all = ns_of(&p, NULL, NULL), of_red = ns_of(&p, "burn_red", "red_main");
	assert_true(all <= cpu + 10 * TICK_NS);
	assert_true(of_red > 0 && of_red <= red.used_ns + 3 * TICK_NS);
	assert_near(of_red, ns_of(&p, "burn_red", "by_pointer"), 20, 1);
	if (incomplete_ns(&p) > all / 20 + TICK_NS)
		show_incomplete(&p);
	assert_true(incomplete_ns(&p) <= all / 20 + TICK_NS);
	assert_true(p.n_mappings > 1 && profile_str(&p, p.mappings[0].build_id_str).len > 0);
	assert_true(has_line(&p));
	profile_release(&p);
}

/* Burns where a register was taken back from below the stack pointer already, and its table still says it is there: so it is
 * with the last instructions of most functions. */
void burn_after_pop(uint64_t times);
__asm__(".text\n\t.type burn_after_pop, @function\nburn_after_pop:\n\t.cfi_startproc\n\tpush %rbp\n\t.cfi_def_cfa_offset 16\n\t.cfi_offset 6, -16\n\t"
	"pop %rbp\n\t.cfi_def_cfa_offset 8\n1:\tdec %rdi\n\tjnz 1b\n\tret\n\t.cfi_endproc\n\t.size burn_after_pop, . - burn_after_pop\n");

static void *after_pop_main(void *arg)
{
	while (!atomic_load(&enough))
		burn_after_pop(1000000);
	return NULL;
}

static void test_below_the_stack(void **state)
{
	int64_t ns = 0, called = 0;
	pthread_t t;
	struct err e;

	atomic_store(&enough, false);
	assert_int_equal(thread_start(&t, "pop", after_pop_main, NULL, &e), 0);
	for (int i = 0; i < 100 && !ns; i++) { /* on a busy machine the thread may not run while a profile is taken */
		struct profile p;
		profile_init(&p, 0);
		assert_int_equal(selfprof_cpu(INT64_C(150) * 1000000, NULL, &p, &e), 0);
		ns = ns_of(&p, "burn_after_pop", NULL);
		called = ns_of(&p, "burn_after_pop", "after_pop_main");
		profile_release(&p);
	}
	atomic_store(&enough, true);
	pthread_join(t, NULL);
	assert_true(ns > 0);
	assert_int_equal(called, ns);
}

/* One that begins later and ends earlier, or later. */
struct second {
	int64_t after_ms, for_ms;
	int rc;
	int64_t own_ns, all_ns;      /* CPU time: what the profile says, and what the process took */
	struct err e;
};

static int64_t process_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void *second_main(void *arg)
{
	struct second *s = arg;
	struct profile p;

	clock_sleep_ms(s->after_ms);
	profile_init(&p, 0);
	s->all_ns = process_ns();
	s->rc = selfprof_cpu(s->for_ms * 1000000, NULL, &p, &s->e);
	s->all_ns = process_ns() - s->all_ns;
	for (uint32_t i = 0; i < p.n_samples; i++)
		s->own_ns += p.values[2 * i + 1];
	profile_release(&p);
	return NULL;
}

static void *burn_main(void *arg)
{
	for (volatile uint64_t n = 0; !atomic_load((atomic_bool *)arg); n++) {
	}
	return NULL;
}

/* Each has the CPU time of its own time, whoever else measures. */
static void test_several_at_once(void **state)
{
	struct second s[3] = { { 0, 600, .rc = 1 }, { 150, 200, .rc = 1 }, { 300, 500, .rc = 1 } };
	pthread_t t[3], burning;
	atomic_bool stop = false;
	struct err e;

	assert_int_equal(thread_start(&burning, "burning", burn_main, &stop, &e), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(thread_start(&t[i], "second", second_main, &s[i], &e), 0);
	for (int i = 0; i < 3; i++) {
		pthread_join(t[i], NULL);
		print_message("  %.0f of %.0f ms\n", (double)s[i].own_ns / 1e6, (double)s[i].all_ns / 1e6);
		assert_int_equal(s[i].rc, 0);
		assert_true(s[i].own_ns > s[i].all_ns * 8 / 10 - 40000000 && s[i].own_ns < s[i].all_ns * 11 / 10 + 40000000);
	}
	atomic_store(&stop, true);
	pthread_join(burning, NULL);
}

static void test_too_many(void **state)
{
	struct second s[9];
	pthread_t t[9];
	struct err e;
	int refused = 0;

	for (int i = 0; i < 9; i++) {
		s[i] = (struct second){ 0, 400, .rc = 1 };
		assert_int_equal(thread_start(&t[i], "second", second_main, &s[i], &e), 0);
	}
	for (int i = 0; i < 9; i++) {
		pthread_join(t[i], NULL);
		refused += s[i].rc == -ERR_CONFLICT;
		if (s[i].rc)
			assert_string_equal(s[i].e.msg, "8 CPU profiles are being taken already");
	}
	assert_int_equal(refused, 1);
}

static void test_stops(void **state)
{
	atomic_bool stop = true;
	struct profile p;
	struct err e;

	profile_init(&p, 0);
	assert_int_equal(selfprof_cpu(INT64_C(3600) * 1000000000, &stop, &p, &e), -ERR_CANCELED);
	profile_release(&p);
}

static void drop_tick(void *arg, const struct own_stack *s, uint32_t weight)
{
	*(uint64_t *)arg += weight;
}

/* A signal that did not come until the end: its ticks are owed. */
static void test_late(void **state)
{
	struct ticks_stats st;
	uint64_t got = 0;
	sigset_t prof;
	struct err e;

	sigemptyset(&prof);
	sigaddset(&prof, SIGPROF);
	assert_int_equal(ticks_start(&e), 0);
	int64_t begin = cpu_ns(CLOCK_THREAD_CPUTIME_ID), used;
	pthread_sigmask(SIG_BLOCK, &prof, NULL);
	while ((used = cpu_ns(CLOCK_THREAD_CPUTIME_ID) - begin) < INT64_C(100) * 1000000)
		sink = burn(sink);
	ticks_stop(drop_tick, &got, &st);
	pthread_sigmask(SIG_UNBLOCK, &prof, NULL);
	assert_int_equal(st.blocked, 1);
	assert_near((int64_t)(got + st.owed) * TICK_NS, used, 20, 1);
	assert_true(st.owed >= 9);
}

/* There is no room for a while: ticks are owed, and in the end none is missing. */
static void test_no_room(void **state)
{
	struct ticks_stats st;
	uint64_t got = 0;
	struct err e;

	assert_int_equal(ticks_start(&e), 0);
	struct pieces *p = ticks_pieces();
	struct stack_piece **taken = xcalloc(p->n, sizeof *taken);
	unsigned n = 0;
	for (unsigned i = 0; i < 100 * p->n && n < p->n; i++) {
		taken[n] = pieces_claim(p);
		n += taken[n] != NULL;
	}
	assert_in_range(n, p->n - 4, p->n); /* a tick of this thread may have one already */
	int64_t begin = cpu_ns(CLOCK_THREAD_CPUTIME_ID);
	raise(SIGPROF); /* not a timer's: passed over */
	int64_t now;
	do { /* on a busy machine, signals are late */
		sink = burn(sink);
		now = cpu_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
		ticks_stats(&st);
	} while (now < INT64_C(100) * 1000000 || (st.stackless < 3 && now < INT64_C(5000) * 1000000));
	for (unsigned i = 0; i < n; i++) {
		taken[i]->mark[0] = taken[i]->mark[1] = 0; /* of no profile */
		pieces_put(p, taken[i], 0, 0, 0);
	}
	free(taken);
	ticks_take(drop_tick, &got);
	/* Its children have no timers, and no handler after exec. */
	pid_t pid = fork();
	if (pid == 0)
		execl("/bin/sh", "sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done", (char *)NULL);
	int status = -1;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	for (int64_t half = cpu_ns(CLOCK_THREAD_CPUTIME_ID); cpu_ns(CLOCK_THREAD_CPUTIME_ID) - half < INT64_C(50) * 1000000;)
		sink = burn(sink);
	int64_t used = cpu_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
	ticks_stop(drop_tick, &got, &st);
	assert_int_equal(st.blocked, 0);
	print_message("  %llu ticks, %llu of them without a stack, %llu owed, in %lld ms\n", (unsigned long long)got, (unsigned long long)st.stackless,
		      (unsigned long long)st.owed, (long long)used / 1000000);
	assert_true(st.stackless >= 3); /* late signals stand for several */
	assert_near((int64_t)(got + st.owed) * TICK_NS, used, 20, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known_cpu),
		cmocka_unit_test(test_below_the_stack),
		cmocka_unit_test(test_several_at_once), cmocka_unit_test(test_too_many),
		cmocka_unit_test(test_stops),
		cmocka_unit_test(test_late), cmocka_unit_test(test_no_room),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
