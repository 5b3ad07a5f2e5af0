/* SPDX-License-Identifier: Apache-2.0 */
/* Locks: what they do, and each rule broken once in a child, which has to abort and say why. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/thread.h"

static struct mutex first, second, leaf, loose;
static struct rwlock rows, newer, older, gate;

static void init(void)
{
	mutex_init(&first, 1, "first");
	mutex_init(&second, 2, "second");
	mutex_init(&leaf, LOCK_LEAF, "leaf");
	mutex_init(&loose, LOCK_ANY, "loose");
	rwlock_init(&rows, 3, "rows");
	rwlock_init(&newer, 4, "newer");
	rwlock_init(&older, 4, "older");
	rwlock_set_order(&newer, 1);
	rwlock_set_order(&older, 2);
	rwlock_init_gate(&gate, LOCK_ANY, "gate");
}

/* ---- what they do ---- */

static void test_in_order(void **state)
{
	(void)state;
	mutex_lock(&first);
	mutex_lock(&second);
	rwlock_read(&rows);
	rwlock_let_in(&rows);
	rwlock_assert_held(&rows);
	rwlock_write(&newer);
	rwlock_read(&older);
	mutex_lock(&leaf);
	mutex_lock(&loose);
	mutex_assert_held(&first);
	rwlock_assert_writing(&newer);
	mutex_unlock(&first); /* released in any order */
	mutex_unlock(&loose);
	mutex_unlock(&leaf);
	rwlock_unlock(&older);
	rwlock_unlock(&newer);
	rwlock_unlock(&rows);
	mutex_unlock(&second);
	mutex_lock(&second);
	if (mutex_try(&first)) /* nobody waits: in any order */
		mutex_unlock(&first);
	else
		fail();
	mutex_unlock(&second);
}

static void *let_go(void *arg) LOCKS_UNCHECKED /* taken by another thread */
{
	rwlock_unlock(arg);
	return NULL;
}

static void test_gate(void **state) LOCKS_UNCHECKED /* taken twice */
{
	pthread_t t;
	(void)state;
	rwlock_read(&gate);
	rwlock_read(&gate);
	assert_false(rwlock_try_write(&gate));
	assert_int_equal(thread_start(&t, "lets go", let_go, &gate, NULL), 0);
	pthread_join(t, NULL);
	rwlock_unlock(&gate);
	assert_true(rwlock_try_write(&gate));
	rwlock_assert_writing(&gate);
	rwlock_unlock(&gate);
}

static void *tries(void *arg)
{
	if (!mutex_try(&first))
		return NULL;
	mutex_unlock(&first);
	return arg;
}

static bool is_free(void)
{
	pthread_t t;
	void *got;
	assert_int_equal(thread_start(&t, "tries", tries, &first, NULL), 0);
	pthread_join(t, &got);
	return got;
}

static void test_waiting(void **state)
{
	pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
	int64_t until = clock_mono_ms() + 20;
	(void)state;
	assert_true(is_free());
	mutex_lock(&first);
	assert_false(is_free());
	assert_false(mutex_wait_ms(&first, &cond, until));
	assert_true(clock_mono_ms() >= until);
	mutex_assert_held(&first);
	mutex_unlock(&first);
	assert_true(is_free());
}

#ifdef PYRRHA_LOCK_CHECKS

/* ---- what they refuse ---- */

static void out_of_order(void) LOCKS_UNCHECKED /* as all that follows: clang would see it, too */
{
	mutex_lock(&second);
	mutex_lock(&first);
}

static void under_a_leaf(void) LOCKS_UNCHECKED
{
	mutex_lock(&leaf);
	rwlock_read(&rows);
}

static void older_first(void) LOCKS_UNCHECKED
{
	rwlock_read(&older);
	rwlock_read(&newer);
}

static void twice(void) LOCKS_UNCHECKED
{
	mutex_lock(&loose);
	mutex_lock(&loose);
}

static void read_twice(void) LOCKS_UNCHECKED
{
	rwlock_read(&rows);
	rwlock_read(&rows);
}

static void not_held(void) LOCKS_UNCHECKED
{
	mutex_lock(&second);
	mutex_assert_held(&first);
}

static void *locks(void *arg) LOCKS_UNCHECKED
{
	mutex_lock(arg);
	return NULL;
}

static void held_by_another(void) LOCKS_UNCHECKED
{
	pthread_t t;
	if (!thread_start(&t, "locks", locks, &first, NULL))
		pthread_join(t, NULL);
	mutex_assert_held(&first);
}

static void only_read(void) LOCKS_UNCHECKED
{
	rwlock_read(&rows);
	rwlock_assert_writing(&rows);
}

static void not_read(void) LOCKS_UNCHECKED
{
	rwlock_assert_held(&rows);
}

static void released_twice(void) LOCKS_UNCHECKED
{
	mutex_lock(&first);
	mutex_unlock(&first);
	mutex_unlock(&first);
}

static void destroyed(void) LOCKS_UNCHECKED
{
	mutex_lock(&first);
	mutex_destroy(&first);
}

static const struct broken {
	void (*rule)(void);
	const char *says;
} BROKEN[] = {
	{ out_of_order, "lock first (rank 1, order 0): it is taken out of order; this thread holds: second (rank 2, order 0, writing)" },
	{ under_a_leaf, "lock rows (rank 3, order 0): it is taken out of order; this thread holds: leaf" },
	{ older_first, "lock newer (rank 4, order 1): it is taken out of order; this thread holds: older (rank 4, order 2, reading)" },
	{ twice, "lock loose (rank 0, order 0): it is taken twice" },
	{ read_twice, "lock rows (rank 3, order 0): it is taken twice" },
	{ not_held, "lock first (rank 1, order 0): it is not held; this thread holds: second" },
	{ held_by_another, "lock first (rank 1, order 0): it is not held" },
	{ only_read, "lock rows (rank 3, order 0): it is not held for writing; this thread holds: rows (rank 3, order 0, reading)" },
	{ not_read, "lock rows (rank 3, order 0): it is not held" },
	{ released_twice, "lock first (rank 1, order 0): it is released by a thread that does not hold it" },
	{ destroyed, "lock first (rank 1, order 0): it is destroyed while it is held" },
};

/* What the program says that breaks this rule; it is to abort. */
static void breaks(const struct broken *b, char *said, size_t size)
{
	int pipes[2], status;
	assert_int_equal(pipe(pipes), 0);
	pid_t pid = fork();
	if (!pid) {
		signal(SIGABRT, SIG_DFL);
		setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
		dup2(pipes[1], STDERR_FILENO);
		b->rule();
		_exit(0);
	}
	close(pipes[1]);
	size_t n = 0;
	for (ssize_t got; n + 1 < size && (got = read(pipes[0], said + n, size - 1 - n)) > 0;)
		n += (size_t)got;
	said[n] = 0;
	close(pipes[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT)
		fail_msg("no abort with: %s", b->says);
}

static void test_broken_rules(void **state)
{
	char said[4096];
	(void)state;
	for (size_t i = 0; i < sizeof BROKEN / sizeof *BROKEN; i++) {
		breaks(&BROKEN[i], said, sizeof said);
		if (strncmp(said, BROKEN[i].says, strlen(BROKEN[i].says)) != 0)
			fail_msg("instead of: %s\nit says: %s", BROKEN[i].says, said);
	}
}

#else

static void test_broken_rules(void **state)
{
	(void)state;
	assert_int_equal(sizeof(struct mutex), sizeof(pthread_mutex_t)); /* nothing is paid */
	assert_int_equal(sizeof(struct rwlock), sizeof(pthread_rwlock_t));
	skip();
}

#endif

int main(void)
{
	init();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_in_order),
		cmocka_unit_test(test_gate),
		cmocka_unit_test(test_waiting),
		cmocka_unit_test(test_broken_rules),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
