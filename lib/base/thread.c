/* SPDX-License-Identifier: Apache-2.0 */
#include "base/thread.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/lock.h"
#include "base/num.h"

struct start {
	void *(*fn)(void *);
	void *arg;
	char name[16];
};

static void *run_named(void *p)
{
	struct start s = *(struct start *)p;
	free(p);
	pthread_setname_np(pthread_self(), s.name);
	return s.fn(s.arg);
}

void thread_make_give_way(pid_t tid, int steps)
{
	errno = 0;
	int now = getpriority(PRIO_PROCESS, (id_t)tid); /* on Linux: of a thread */
	if (!errno && setpriority(PRIO_PROCESS, (id_t)tid, MIN(now + steps, 19)))
		return; /* its priority stays unchanged */
}

void thread_give_way(int steps)
{
	thread_make_give_way(0, steps);
}

int thread_start(pthread_t *ret, const char *name, void *(*fn)(void *), void *arg, struct err *e)
{
	struct start *s = NEW(struct start);
	s->fn = fn;
	s->arg = arg;
	snprintf(s->name, sizeof s->name, "%s", name);
	sigset_t all, before;
	sigfillset(&all);
	sigdelset(&all, SIGPROF); /* a program that profiles itself stops its threads by this one (lib/selfprof) */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	int rc = pthread_attr_setstacksize(&attr, THREAD_STACK);
	if (!rc)
		rc = pthread_create(ret, &attr, run_named, s);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc) {
		free(s);
		return err_errno(e, rc, "cannot start thread %s", name);
	}
	return 0;
}

/* One call of pool_run: it is on its caller's stack, linked into the pool while work remains. */
struct job {
	struct job *next;
	void (*fn)(void *, size_t, unsigned);
	void *arg;
	size_t n;
	atomic_size_t taken;
	unsigned inside; /* pool threads at work on it; the pool's lock guards it */
};

struct pool {
	struct mutex lock;
	pthread_cond_t work, idle;
	struct job *jobs; /* in the order in which they came */
	pthread_t *threads;
	unsigned n;
	bool stop;
};

static void work_on(struct job *j, unsigned worker)
{
	for (;;) {
		size_t i = atomic_fetch_add(&j->taken, 1);
		if (i >= j->n)
			return;
		j->fn(j->arg, i, worker);
	}
}

struct worker_arg {
	struct pool *pool;
	unsigned number;
};

static void *worker_main(void *p)
{
	struct worker_arg a = *(struct worker_arg *)p;
	free(p);
	struct pool *pool = a.pool;
	mutex_lock(&pool->lock);
	for (;;) {
		struct job *j = pool->jobs;
		while (j && atomic_load(&j->taken) >= j->n)
			j = j->next;
		if (!j) {
			if (pool->stop)
				break;
			mutex_wait(&pool->lock, &pool->work);
			continue;
		}
		j->inside++;
		mutex_unlock(&pool->lock);
		work_on(j, a.number);
		mutex_lock(&pool->lock);
		if (--j->inside == 0)
			pthread_cond_broadcast(&pool->idle);
	}
	mutex_unlock(&pool->lock);
	return NULL;
}

struct pool *pool_new(unsigned n, const char *name)
{
	if (!n) {
		long cpus = sysconf(_SC_NPROCESSORS_ONLN);
		n = cpus > 0 ? (unsigned)cpus : 1;
	}
	struct pool *p = NEW(struct pool);
	mutex_init(&p->lock, LOCK_LEAF, "pool");
	pthread_cond_init(&p->work, NULL);
	pthread_cond_init(&p->idle, NULL);
	p->threads = xcalloc(n, sizeof *p->threads);
	for (unsigned i = 0; i < n; i++) {
		struct worker_arg *a = NEW(struct worker_arg);
		*a = (struct worker_arg){ p, i };
		if (thread_start(&p->threads[i], name, worker_main, a, NULL)) {
			free(a);
			break;
		}
		p->n++;
	}
	return p;
}

void pool_free(struct pool *p)
{
	if (!p)
		return;
	mutex_lock(&p->lock);
	p->stop = true;
	pthread_cond_broadcast(&p->work);
	mutex_unlock(&p->lock);
	for (unsigned i = 0; i < p->n; i++)
		pthread_join(p->threads[i], NULL);
	pthread_cond_destroy(&p->work);
	pthread_cond_destroy(&p->idle);
	mutex_destroy(&p->lock);
	free(p->threads);
	free(p);
}

unsigned pool_size(const struct pool *p)
{
	return p ? p->n : 0;
}

void pool_run(struct pool *p, size_t n, void (*fn)(void *, size_t, unsigned), void *arg)
{
	struct job j = { .fn = fn, .arg = arg, .n = n };
	if (!p || n < 2) {
		work_on(&j, pool_size(p));
		return;
	}
	struct job **at;
	mutex_lock(&p->lock);
	for (at = &p->jobs; *at; at = &(*at)->next)
		;
	*at = &j;
	pthread_cond_broadcast(&p->work);
	mutex_unlock(&p->lock);
	work_on(&j, p->n);
	mutex_lock(&p->lock);
	for (at = &p->jobs; *at != &j; at = &(*at)->next)
		;
	*at = j.next;
	while (j.inside)
		mutex_wait(&p->lock, &p->idle);
	mutex_unlock(&p->lock);
}
