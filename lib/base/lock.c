/* SPDX-License-Identifier: Apache-2.0 */
#include "base/lock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#ifdef PYRRHA_LOCK_CHECKS
#define SET_RULE(l, rank_, name_, gate_) ((l)->rule = (struct lock_rule){ .name = (name_), .rank = (rank_), .gate = (gate_) })
#else
#define SET_RULE(l, rank, name, gate) ((void)(rank), (void)(name))
#endif

void mutex_init(struct mutex *m, unsigned rank, const char *name)
{
	pthread_mutex_init(&m->raw, NULL);
	SET_RULE(m, rank, name, false);
}

void rwlock_init(struct rwlock *l, unsigned rank, const char *name)
{
	pthread_rwlockattr_t attr;
	pthread_rwlockattr_init(&attr);
	pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&l->raw, &attr);
	pthread_rwlockattr_destroy(&attr);
	SET_RULE(l, rank, name, false);
}

void rwlock_init_gate(struct rwlock *l, unsigned rank, const char *name)
{
	pthread_rwlock_init(&l->raw, NULL);
	SET_RULE(l, rank, name, true);
}

void rwlock_let_in(struct rwlock *l) LOCKS_UNCHECKED /* clang requires taking and releasing in the same mode */
{
	rwlock_unlock(l);
	rwlock_read(l);
}

static struct timespec timespec_of(int64_t ms)
{
	return (struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };
}

bool mutex_wait_ms(struct mutex *m, pthread_cond_t *cond, int64_t until_mono_ms)
{
	const struct timespec until = timespec_of(until_mono_ms);
	mutex_assert_held(m);
	return pthread_cond_clockwait(cond, &m->raw, CLOCK_MONOTONIC, &until) != ETIMEDOUT;
}

/* ThreadSanitizer of gcc 12 does not know the call with a chosen clock. */
static int write_within(pthread_rwlock_t *l, int64_t ms)
{
	struct timespec now, until;
#ifdef __SANITIZE_THREAD__
	clock_gettime(CLOCK_REALTIME, &now);
	until = timespec_of((int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 + ms);
	return pthread_rwlock_timedwrlock(l, &until);
#else
	clock_gettime(CLOCK_MONOTONIC, &now);
	until = timespec_of((int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 + ms);
	return pthread_rwlock_clockwrlock(l, CLOCK_MONOTONIC, &until);
#endif
}

#ifndef PYRRHA_LOCK_CHECKS

bool rwlock_write_within(struct rwlock *l, int64_t ms) LOCKS_UNCHECKED /* only the declaration matters to clang */
{
	return !write_within(&l->raw, ms);
}

#else

enum lock_mode { LOCK_READING, LOCK_WRITING };
static const char *const MODES[] = { [LOCK_READING] = "reading", [LOCK_WRITING] = "writing" };

/* The locks that this thread holds, in the order in which it took them. */
#define HELD_MAX 32
static _Thread_local struct held {
	const void *lock;
	const struct lock_rule *rule;
	enum lock_mode mode;
} held[HELD_MAX];
static _Thread_local unsigned n_held;

static _Noreturn void fault(const struct lock_rule *rule, const char *what)
{
	fprintf(stderr, "lock %s (rank %u, order %llu): %s; this thread holds:", rule->name, rule->rank, (unsigned long long)rule->order, what);
	for (unsigned i = 0; i < n_held; i++)
		fprintf(stderr, " %s (rank %u, order %llu, %s)", held[i].rule->name, held[i].rule->rank,
			(unsigned long long)held[i].rule->order, MODES[held[i].mode]);
	fputs("\n", stderr);
	abort();
}

static struct held *find(const void *lock)
{
	for (unsigned i = n_held; i--;)
		if (held[i].lock == lock)
			return &held[i];
	return NULL;
}

static bool comes_after(const struct lock_rule *next, const struct lock_rule *before)
{
	if (next->rank == LOCK_ANY || before->rank == LOCK_ANY)
		return true;
	return next->rank != before->rank ? next->rank > before->rank : next->order > before->order;
}

/* Before it is waited for. */
static void check_order(const void *lock, const struct lock_rule *rule)
{
	if (find(lock))
		fault(rule, "it is taken twice");
	for (unsigned i = 0; i < n_held; i++)
		if (!comes_after(rule, held[i].rule))
			fault(rule, "it is taken out of order");
}

static void note(const void *lock, const struct lock_rule *rule, enum lock_mode mode)
{
	if (n_held == HELD_MAX)
		fault(rule, "too many locks at once");
	held[n_held++] = (struct held){ lock, rule, mode };
}

static void forget(const void *lock, const struct lock_rule *rule)
{
	struct held *h = find(lock);
	if (!h)
		fault(rule, "it is released by a thread that does not hold it");
	for (n_held--; h < &held[n_held]; h++)
		*h = h[1];
}

static void check_free(const void *lock, const struct lock_rule *rule)
{
	if (find(lock))
		fault(rule, "it is destroyed while it is held");
}

void mutex_destroy(struct mutex *m)
{
	check_free(m, &m->rule);
	pthread_mutex_destroy(&m->raw);
}

void mutex_lock(struct mutex *m) LOCKS_UNCHECKED /* as what follows: it is what clang is told of them */
{
	check_order(m, &m->rule);
	pthread_mutex_lock(&m->raw);
	note(m, &m->rule, LOCK_WRITING);
}

bool mutex_try(struct mutex *m) LOCKS_UNCHECKED
{
	if (pthread_mutex_trylock(&m->raw))
		return false;
	note(m, &m->rule, LOCK_WRITING); /* in any order: nothing waits here */
	return true;
}

void mutex_unlock(struct mutex *m) LOCKS_UNCHECKED
{
	forget(m, &m->rule);
	pthread_mutex_unlock(&m->raw);
}

void mutex_wait(struct mutex *m, pthread_cond_t *cond)
{
	mutex_assert_held(m);
	pthread_cond_wait(cond, &m->raw);
}

void rwlock_destroy(struct rwlock *l)
{
	check_free(l, &l->rule);
	pthread_rwlock_destroy(&l->raw);
}

void rwlock_set_order(struct rwlock *l, uint64_t order)
{
	l->rule.order = order;
}

void rwlock_read(struct rwlock *l) LOCKS_UNCHECKED
{
	check_order(l, &l->rule);
	pthread_rwlock_rdlock(&l->raw);
	if (!l->rule.gate)
		note(l, &l->rule, LOCK_READING);
}

void rwlock_write(struct rwlock *l) LOCKS_UNCHECKED
{
	check_order(l, &l->rule);
	pthread_rwlock_wrlock(&l->raw);
	note(l, &l->rule, LOCK_WRITING);
}

bool rwlock_try_write(struct rwlock *l) LOCKS_UNCHECKED
{
	if (pthread_rwlock_trywrlock(&l->raw))
		return false;
	note(l, &l->rule, LOCK_WRITING);
	return true;
}

bool rwlock_write_within(struct rwlock *l, int64_t ms) LOCKS_UNCHECKED
{
	check_order(l, &l->rule);
	if (write_within(&l->raw, ms))
		return false;
	note(l, &l->rule, LOCK_WRITING);
	return true;
}

void rwlock_unlock(struct rwlock *l) LOCKS_UNCHECKED
{
	if (!l->rule.gate || find(l))
		forget(l, &l->rule);
	pthread_rwlock_unlock(&l->raw);
}

void mutex_assert_held(const struct mutex *m)
{
	if (!find(m))
		fault(&m->rule, "it is not held");
}

void rwlock_assert_held(const struct rwlock *l)
{
	if (!find(l))
		fault(&l->rule, "it is not held");
}

void rwlock_assert_writing(const struct rwlock *l)
{
	const struct held *h = find(l);
	if (!h || h->mode != LOCK_WRITING)
		fault(&l->rule, "it is not held for writing");
}

#endif
