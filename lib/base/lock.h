/* SPDX-License-Identifier: Apache-2.0 */
/* Mutexes and read-write locks whose rules are checked: by clang from annotations in the code, and at run time in builds with
 * checks.
 *
 *	void tsdb_publish(struct tsdb *db, struct version *v) REQUIRES(db->apply_lock);
 *
 * clang -Wthread-safety (tests/lint/locks) then reports a caller that does not hold it, a lock that is taken twice, and one that a
 * function does not release. It identifies a lock by the expression that names it. If one object has two names, the function
 * asserts (mutex_assert_held) instead.
 *
 * A lock has a name and a rank. A thread takes locks by ascending rank; of equal rank, by ascending order (rwlock_set_order), and
 * never two of the same. All ranks are in one enum, base/lock_ranks.h.
 *
 * With --enable-lock-checks, and so with --enable-sanitize, each thread has a list of the locks that it holds. The program aborts if
 * a lock is taken out of order, released by a thread that does not hold it, or missing at an assertion. Otherwise these functions
 * are only pthread's calls. */
#ifndef PYRRHA_BASE_LOCK_H
#define PYRRHA_BASE_LOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/lock_ranks.h"

#ifdef __clang__
#define CAPABILITY_(...) __attribute__((__VA_ARGS__))
#else
#define CAPABILITY_(...)
#endif
/* On a function: its callers hold these locks. */
#define REQUIRES(...) CAPABILITY_(requires_capability(__VA_ARGS__))
#define REQUIRES_SHARED(...) CAPABILITY_(requires_shared_capability(__VA_ARGS__))
/* ACQUIRES: takes them and returns with them held. RELEASES: releases them. EXCLUDES: its callers hold none of them. */
#define ACQUIRES(...) CAPABILITY_(acquire_capability(__VA_ARGS__))
#define ACQUIRES_SHARED(...) CAPABILITY_(acquire_shared_capability(__VA_ARGS__))
#define RELEASES(...) CAPABILITY_(release_capability(__VA_ARGS__))
#define RELEASES_SHARED(...) CAPABILITY_(release_shared_capability(__VA_ARGS__))
#define RELEASES_ANY(...) CAPABILITY_(release_generic_capability(__VA_ARGS__))
#define EXCLUDES(...) CAPABILITY_(locks_excluded(__VA_ARGS__))
/* It takes the second and those after it if it returns the first. */
#define TRY_ACQUIRES(...) CAPABILITY_(try_acquire_capability(__VA_ARGS__))
#define TRY_ACQUIRES_SHARED(...) CAPABILITY_(try_acquire_shared_capability(__VA_ARGS__))
/* clang does not look into this function. A comment says why. */
#define LOCKS_UNCHECKED CAPABILITY_(no_thread_safety_analysis)

#ifdef PYRRHA_LOCK_CHECKS
/* What the checks know about a lock. */
struct lock_rule {
	const char *name;
	unsigned rank;
	uint64_t order;
	bool gate; /* readers are not listed */
};
#define LOCK_RULE_ struct lock_rule rule;
#define LOCK_RULE_INIT_(rank_, name_) , .rule = { .name = (name_), .rank = (rank_) }
#else
#define LOCK_RULE_
#define LOCK_RULE_INIT_(rank_, name_)
#endif

struct CAPABILITY_(capability("mutex")) mutex {
	pthread_mutex_t raw;
	LOCK_RULE_
};

/* Waiting writers go before later readers, so that a stream of readers does not delay them. So a thread must not take it for reading
 * twice. */
struct CAPABILITY_(capability("rwlock")) rwlock {
	pthread_rwlock_t raw;
	LOCK_RULE_
};

/* The initializer of a mutex that is never destroyed. */
#define MUTEX_INIT(rank, name) { .raw = PTHREAD_MUTEX_INITIALIZER LOCK_RULE_INIT_(rank, name) }

void mutex_init(struct mutex *m, unsigned rank, const char *name);
void rwlock_init(struct rwlock *l, unsigned rank, const char *name);
/* A gate: readers go first, may take it again, and may have another thread release it. So only writers are listed. */
void rwlock_init_gate(struct rwlock *l, unsigned rank, const char *name);
/* For a reader: waiting writers go first now, and then the readers that wait behind them. */
void rwlock_let_in(struct rwlock *l) REQUIRES_SHARED(l);
/* Waits to write for so long; false: it did not get it. Not for a lock that the waiting thread itself could hold for
 * ever. */
bool rwlock_write_within(struct rwlock *l, int64_t ms) TRY_ACQUIRES(true, l);
/* Waits for the condition, whichever its clock is, until this moment of clock_mono_ms(); false: it has passed. */
bool mutex_wait_ms(struct mutex *m, pthread_cond_t *cond, int64_t until_mono_ms) REQUIRES(m);

#ifdef PYRRHA_LOCK_CHECKS

void mutex_destroy(struct mutex *m);
void mutex_lock(struct mutex *m) ACQUIRES(m);
bool mutex_try(struct mutex *m) TRY_ACQUIRES(true, m);
void mutex_unlock(struct mutex *m) RELEASES(m);
void mutex_wait(struct mutex *m, pthread_cond_t *cond) REQUIRES(m);
void rwlock_destroy(struct rwlock *l);
void rwlock_set_order(struct rwlock *l, uint64_t order);
void rwlock_read(struct rwlock *l) ACQUIRES_SHARED(l);
void rwlock_write(struct rwlock *l) ACQUIRES(l);
bool rwlock_try_write(struct rwlock *l) TRY_ACQUIRES(true, l);
void rwlock_unlock(struct rwlock *l) RELEASES_ANY(l);
void mutex_assert_held(const struct mutex *m) CAPABILITY_(assert_capability(m));
void rwlock_assert_held(const struct rwlock *l) CAPABILITY_(assert_shared_capability(l));
void rwlock_assert_writing(const struct rwlock *l) CAPABILITY_(assert_capability(l));

#else

static inline void mutex_destroy(struct mutex *m)
{
	pthread_mutex_destroy(&m->raw);
}

static inline void mutex_lock(struct mutex *m) ACQUIRES(m) LOCKS_UNCHECKED
{
	pthread_mutex_lock(&m->raw);
}

/* False: another thread has it. */
static inline bool mutex_try(struct mutex *m) TRY_ACQUIRES(true, m) LOCKS_UNCHECKED
{
	return !pthread_mutex_trylock(&m->raw);
}

static inline void mutex_unlock(struct mutex *m) RELEASES(m) LOCKS_UNCHECKED
{
	pthread_mutex_unlock(&m->raw);
}

static inline void mutex_wait(struct mutex *m, pthread_cond_t *cond) REQUIRES(m)
{
	pthread_cond_wait(cond, &m->raw);
}

static inline void rwlock_destroy(struct rwlock *l)
{
	pthread_rwlock_destroy(&l->raw);
}

/* Among locks of its rank. */
static inline void rwlock_set_order(struct rwlock *l, uint64_t order)
{
	(void)l, (void)order;
}

static inline void rwlock_read(struct rwlock *l) ACQUIRES_SHARED(l) LOCKS_UNCHECKED
{
	pthread_rwlock_rdlock(&l->raw);
}

static inline void rwlock_write(struct rwlock *l) ACQUIRES(l) LOCKS_UNCHECKED
{
	pthread_rwlock_wrlock(&l->raw);
}

/* False: other threads have it. */
static inline bool rwlock_try_write(struct rwlock *l) TRY_ACQUIRES(true, l) LOCKS_UNCHECKED
{
	return !pthread_rwlock_trywrlock(&l->raw);
}

static inline void rwlock_unlock(struct rwlock *l) RELEASES_ANY(l) LOCKS_UNCHECKED
{
	pthread_rwlock_unlock(&l->raw);
}

/* This thread holds it; in whichever mode; for writing. */
static inline void mutex_assert_held(const struct mutex *m) CAPABILITY_(assert_capability(m))
{
	(void)m;
}

static inline void rwlock_assert_held(const struct rwlock *l) CAPABILITY_(assert_shared_capability(l))
{
	(void)l;
}

static inline void rwlock_assert_writing(const struct rwlock *l) CAPABILITY_(assert_capability(l))
{
	(void)l;
}

#endif

#endif
