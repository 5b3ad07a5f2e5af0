/* SPDX-License-Identifier: Apache-2.0 */
/* A program that holds known memory, and what its heap profile says of that. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"
#include "model/profile.h"
#include "selfprof/heap.h"

#define SMALL 1000
#define N_SMALL 40000
#define BIG ((size_t)3 << 20)
#define N_BIG 8
#define ODD ((size_t)600000)         /* between the smallest and the largest gap between samples */
#define N_ODD 60
#define CREPT ((size_t)100000)
#define N_CREPT 200
#define PAGES ((size_t)6 * 4096)
#define N_PAGES 1000

enum { ALLOC_OBJECTS, ALLOC_SPACE, INUSE_OBJECTS, INUSE_SPACE };

static bool sampled;

static __attribute__((noipa)) void hold_small(void **v)
{
	for (size_t i = 0; i < N_SMALL; i++)
		v[i] = malloc(SMALL);
}

static __attribute__((noipa)) void hold_odd(void **v)
{
	for (size_t i = 0; i < N_ODD; i++)
		v[i] = calloc(1, ODD);
}

static __attribute__((noipa)) void hold_big(void **v)
{
	for (size_t i = 0; i < N_BIG; i++)
		if (posix_memalign(&v[i], 64, BIG))
			v[i] = NULL;
}

/* In the C library, which calls our malloc; and grown bit by bit. */
static __attribute__((noipa)) char *hold_grown(void)
{
	char *p = strdup("a");
	for (size_t n = 1000; n <= 8000000; n += 1000) {
		p = realloc(p, n);
		p[n - 1] = (char)(n / 1000);
	}
	return p;
}

/* Nothing is held of what it asks for. */
static __attribute__((noipa)) void churn(void)
{
	for (size_t i = 0; i < N_SMALL; i++) {
		void *p = malloc(SMALL);
		__asm__ volatile("" : : "r"(p) : "memory"); /* or the compiler does without it */
		free(p);
	}
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

static int64_t value_of(const struct profile *p, const char *function, unsigned type)
{
	int64_t sum = 0;

	for (uint32_t i = 0; i < p->n_samples; i++)
		if (has_frame(p, &p->samples[i], function))
			sum += p->values[4 * i + type];
	return sum;
}

/* All of it, where somebody looks for what is wrong. */
static void show(const struct profile *p)
{
	for (uint32_t i = 0; i < p->n_samples; i++) {
		const struct profile_sample *s = &p->samples[i];
		for (uint32_t k = 0; k < s->n_locations; k++) {
			const struct profile_location *l = &p->locations[p->stack[s->first_location + k]];
			uint32_t f = l->n_lines ? p->functions[p->lines[l->first_line].function - 1].name_str : 0;
			printf("%llx %.*s; ", (unsigned long long)l->address, VIEW_ARG(profile_str(p, f)));
		}
		for (unsigned k = 0; k < 4; k++)
			printf("%lld ", (long long)p->values[4 * i + k]);
		printf("\n");
	}
}

static void take(struct profile *p)
{
	struct err e;

	profile_init(p, 0);
	if (selfprof_heap(HEAP_INUSE, 0, NULL, p, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(profile_check(p, &e), 0);
	if (getenv("PYRRHA_SHOW"))
		show(p);
}

/* Makes room for stacks, as the heap profile's thread does as soon as it has a CPU. */
static void make_room(void)
{
	struct profile p;

	take(&p);
	profile_release(&p);
}

#define NEAR(is, want) do { \
	int64_t is_ = (is), want_ = (want); \
	if (is_ < want_ - want_ / 20 - 600000 || is_ > want_ + want_ / 20 + 600000) \
		fail_msg("%s is %lld, want %lld", #is, (long long)is_, (long long)want_); \
} while (0)
#define NEAR_OBJECTS(is, want) do { \
	int64_t is_ = (is), want_ = (want); \
	if (is_ < want_ - want_ / 20 - 1 || is_ > want_ + want_ / 20 + 1) \
		fail_msg("%s is %lld, want %lld", #is, (long long)is_, (long long)want_); \
} while (0)

static void *free_all(void *arg)
{
	void **v = arg;
	for (size_t i = 0; i < N_SMALL / 2; i++)
		free(v[i]);
	return NULL;
}

static void test_known_memory(void **state)
{
	void **small, *odd[N_ODD], *big[N_BIG];
	struct profile p;
	pthread_t t;
	struct err e;

	if (!sampled)
		skip();
	small = xcalloc(N_SMALL, sizeof *small);
	hold_small(small);
	make_room();
	hold_odd(odd);
	make_room();
	hold_big(big);
	make_room();
	churn();
	take(&p);
	NEAR(value_of(&p, "hold_small", INUSE_SPACE), SMALL * N_SMALL);
	NEAR_OBJECTS(value_of(&p, "hold_small", INUSE_OBJECTS), N_SMALL);
	NEAR(value_of(&p, "hold_odd", INUSE_SPACE), (int64_t)ODD * N_ODD);
	NEAR(value_of(&p, "hold_big", INUSE_SPACE), (int64_t)BIG * N_BIG);
	NEAR_OBJECTS(value_of(&p, "hold_big", INUSE_OBJECTS), N_BIG);
	NEAR(value_of(&p, "churn", ALLOC_SPACE), SMALL * N_SMALL);
	assert_int_equal(value_of(&p, "churn", INUSE_SPACE), 0);
	assert_int_equal(value_of(&p, "[lost: no stack]", ALLOC_SPACE), 0);
	assert_true(view_eqs(profile_str(&p, p.default_sample_type_str), "inuse_space"));
	profile_release(&p);
	for (size_t i = 0; i < N_BIG; i++)
		free(big[i]);
	for (size_t i = 0; i < N_ODD; i++)
		free(odd[i]);
	assert_int_equal(thread_start(&t, "free", free_all, small, &e), 0);
	pthread_join(t, NULL);
	take(&p);
	assert_int_equal(value_of(&p, "hold_big", INUSE_SPACE), 0);
	NEAR(value_of(&p, "hold_big", ALLOC_SPACE), (int64_t)BIG * N_BIG);
	assert_int_equal(value_of(&p, "hold_odd", INUSE_SPACE), 0);
	NEAR(value_of(&p, "hold_small", INUSE_SPACE), SMALL * N_SMALL / 2);
	profile_release(&p);
	for (size_t i = N_SMALL / 2; i < N_SMALL; i++)
		free(small[i]);
	take(&p);
	assert_int_equal(value_of(&p, "hold_small", INUSE_OBJECTS), 0);
	profile_release(&p);
	free(small);
}

static void test_grown(void **state)
{
	struct profile p;

	if (!sampled)
		skip();
	char *grown = hold_grown();
	for (size_t n = 1000; n <= 8000000; n += 1000)
		assert_int_equal(grown[n - 1], (char)(n / 1000));
	take(&p);
	NEAR(value_of(&p, "hold_grown", INUSE_SPACE), 8000000);
	profile_release(&p);
	free(grown);
	take(&p);
	assert_int_equal(value_of(&p, "hold_grown", INUSE_SPACE), 0);
	profile_release(&p);
}

/* Of 1 byte each, which is less than the C library rounds to. */
static __attribute__((noipa)) void hold_crept(char **v)
{
	for (size_t i = 0; i < N_CREPT; i++)
		for (size_t n = 1; n <= CREPT; n++)
			v[i] = realloc(n == 1 ? NULL : v[i], n);
}

static void test_crept(void **state)
{
	char *crept[N_CREPT];
	struct profile p;

	if (!sampled)
		skip();
	hold_crept(crept);
	take(&p);
	NEAR(value_of(&p, "hold_crept", INUSE_SPACE), (int64_t)CREPT * N_CREPT);
	profile_release(&p);
	for (size_t i = 0; i < N_CREPT; i++)
		free(crept[i]);
	take(&p);
	assert_int_equal(value_of(&p, "hold_crept", INUSE_SPACE), 0);
	profile_release(&p);
}

static __attribute__((noipa)) void hold_pages(void **v)
{
	for (size_t i = 0; i < N_PAGES; i++)
		v[i] = i % 2 ? pvalloc(PAGES - 5000) : valloc(PAGES - 4096);
}

static void test_pages(void **state)
{
	void *pages[N_PAGES];
	struct profile p;

	if (!sampled)
		skip();
	hold_pages(pages);
	take(&p);
	NEAR(value_of(&p, "hold_pages", INUSE_SPACE), (int64_t)(PAGES - 4096) * N_PAGES);
	profile_release(&p);
	for (size_t i = 0; i < N_PAGES; i++) {
		assert_int_equal((uintptr_t)pages[i] % 4096, 0);
		free(pages[i]);
	}
	volatile size_t many = SIZE_MAX;
	assert_null(pvalloc(many));
}

struct later {
	void *held[N_BIG];
	int64_t wait_ms;
};

static void *hold_later(void *arg)
{
	struct later *x = arg;
	clock_sleep_ms(x->wait_ms);
	hold_big(x->held);
	return NULL;
}

/* While another thread allocates, which may come too early or too late on a busy machine: false. */
static bool try_delta(int64_t ms)
{
	struct later later = { .wait_ms = ms / 5 };
	struct profile p;
	pthread_t t;
	struct err e;

	profile_init(&p, 0);
	assert_int_equal(thread_start(&t, "later", hold_later, &later, &e), 0);
	assert_int_equal(selfprof_heap(HEAP_INUSE, ms * 1000000, NULL, &p, &e), 0);
	assert_true(p.duration_ns >= ms * 1000000);
	pthread_join(t, NULL);
	bool in_time = value_of(&p, "hold_later", INUSE_OBJECTS) == N_BIG;
	if (in_time)
		NEAR(value_of(&p, "hold_big", INUSE_SPACE), (int64_t)BIG * N_BIG);
	profile_release(&p);
	for (size_t i = 0; i < N_BIG; i++)
		free(later.held[i]);
	return in_time;
}

static void test_delta(void **state)
{
	void *first[N_BIG];
	int64_t ms = 150;

	if (!sampled)
		skip();
	hold_big(first);
	while (!try_delta(ms) && ms < 10000)
		ms *= 4;
	assert_true(ms < 10000);
	for (size_t i = 0; i < N_BIG; i++)
		free(first[i]);
}

static void *churn_main(void *arg)
{
	for (int i = 0; i < 20; i++)
		churn();
	return NULL;
}

/* Children go on while other threads sample. */
static void test_forks(void **state)
{
	pthread_t t[2];
	struct err e;

	if (!sampled)
		skip();
	for (int i = 0; i < 2; i++)
		assert_int_equal(thread_start(&t[i], "churn", churn_main, NULL, &e), 0);
	for (int i = 0; i < 20; i++) {
		int status = -1;
		pid_t pid = fork();
		if (pid == 0) {
			alarm(20);
			churn();
			_exit(0);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
}

/* An allocator that was preloaded in the C library's place: its blocks do not look like those. */
static void test_another_allocator(void **state)
{
	char other[4096];
	ssize_t n = readlink("/proc/self/exe", other, sizeof other - 1);

	if (!sampled || n < 0 || getenv("LD_PRELOAD"))
		skip();
	other[n] = 0;
	char *folder AUTOFREE = xasprintf("%.*s", (int)(strrchr(other, '/') - other), other);
	char *library AUTOFREE = xasprintf("%s/heap_other_%d.so", folder, (int)getpid());
	char *make AUTOFREE = xasprintf("echo 'void *__libc_malloc(unsigned long n) { static char v[64 << 20]; static unsigned long at; "
					"n = (n + 15) / 16 * 16; return v + __atomic_fetch_add(&at, n, 5); }' "
					"'void __libc_free(void *p) { }' | cc -x c -shared -fPIC -O2 -w -o '%s' - 2>/dev/null", library);
	if (system(make))
		skip();
	char *run AUTOFREE = xasprintf("LD_PRELOAD='%s' '%s' is_sampled", library, other);
	int status = system(run);
	unlink(library);
	assert_int_equal(status, 0);
}

static void test_refusals(void **state)
{
	void *p = (void *)1;

	if (!sampled)
		skip(); /* a sanitizer's malloc ends the program */
	assert_int_equal(posix_memalign(&p, 3, 10), 22);
	volatile size_t many = SIZE_MAX / 2 - 100;
	assert_null(calloc(many, 4));
	assert_null(malloc(many));
	free(NULL);
	p = realloc(NULL, 100);
	assert_non_null(p);
	free(p);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known_memory),
		cmocka_unit_test(test_grown),
		cmocka_unit_test(test_crept),
		cmocka_unit_test(test_pages),
		cmocka_unit_test(test_delta),
		cmocka_unit_test(test_forks),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_another_allocator),
	};
	struct err e;

	sampled = heap_hooks() != NULL;
	if (argc > 1)
		return sampled;
	if (selfprof_heap_start(heap_hooks(), &e))
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
