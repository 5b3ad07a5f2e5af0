/* SPDX-License-Identifier: Apache-2.0 */
/* Mutexes and read-write locks whose rules are checked: by clang where the code says them, and by the program while its tests run.
 *
 *	void tsdb_publish(struct tsdb *db, struct version *v) REQUIRES(db->apply_lock);
 *
 * clang -Wthread-safety (tests/lint/locks) then complains of a caller that does not hold it, of a lock that is taken twice and of one
 * that a function keeps. It knows a lock by the expression that names it: where one object has two names, the function asserts
 * (mutex_assert_held) instead.
 *
 * A lock has a name and a rank. A thread takes locks by ascending rank; of equal rank, by ascending order (rwlock_set_order), and
 * never two of the same. All ranks are in one enum, base/lock_ranks.h.
 *
 * With --enable-lock-checks, and so with --enable-sanitize, each thread has a list of the locks that it holds, and the program aborts
 * at the first one that is taken out of order, released by who does not hold it, or missing where it is asserted. Otherwise all of
 * it is pthread's calls and nothing else. */
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
/* Of a function: who calls it holds these locks. */
#define REQUIRES(...) CAPABILITY_(requires_capability(__VA_ARGS__))
#define REQUIRES_SHARED(...) CAPABILITY_(requires_shared_capability(__VA_ARGS__))
/* It takes them and returns with them; it releases them; who calls it holds none of them. */
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
/* What the checks know of a lock. */
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

/* Whoever writes goes before readers that come later, so that a stream of readers does not hold it back: a thread must not take it for
 * reading twice. */
struct CAPABILITY_(capability("rwlock")) rwlock {
	pthread_rwlock_t raw;
	LOCK_RULE_
};

/* The initializer of a mutex that nobody destroys. */
#define MUTEX_INIT(rank, name) { .raw = PTHREAD_MUTEX_INITIALIZER LOCK_RULE_INIT_(rank, name) }

void mutex_init(struct mutex *m, unsigned rank, const char *name);
void rwlock_init(struct rwlock *l, unsigned rank, const char *name);
/* A gate: readers go first, may take it again, and may have another thread release it. So only who writes is listed. */
void rwlock_init_gate(struct rwlock *l, unsigned rank, const char *name);
/* Of a reader: those who wait to write go first now, and with them the readers behind them. */
void rwlock_let_in(struct rwlock *l) REQUIRES_SHARED(l);
/* Waits to write for so long; false: it did not get it. Not of a lock that could be held for ever by who waits here. */
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
