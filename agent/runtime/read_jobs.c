/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/runtime/read_jobs.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"

struct read_jobs {
	struct readers readers;      /* its lock guards the others */
	VEC(struct read_job *) queue; /* references; the oldest first */
	struct read_job *job;        /* the reader's; its reference */
};

void read_job_init(struct read_job *j, uint32_t pid, void (*run)(struct read_job *), void (*release)(struct read_job *))
{
	atomic_store(&j->refs, 1);
	atomic_store(&j->state, READ_WAITS);
	j->pid = pid;
	j->run = run;
	j->release = release;
}

void read_job_unref(struct read_job *j)
{
	if (j && atomic_fetch_sub(&j->refs, 1) == 1)
		j->release(j);
}

enum read_state read_job_state(const struct read_job *j)
{
	return (enum read_state)atomic_load_explicit(&j->state, memory_order_acquire);
}

/* ---- the thread ---- */

/* Waits for a job; NULL: the thread is to end. */
static struct read_job *next(struct memory_reader *r)
{
	struct read_jobs *x = (struct read_jobs *)r->of;
	struct read_job *j = NULL;

	mutex_lock(&x->readers.lock);
	while (!x->readers.stopping && !x->queue.n)
		mutex_wait(&x->readers.lock, &x->readers.asked);
	if (!x->readers.stopping) {
		j = x->queue.v[0];
		memmove(x->queue.v, x->queue.v + 1, --x->queue.n * sizeof *x->queue.v);
		x->job = j;
		r->pid = j->pid;
		atomic_store(&r->since_ms, clock_mono_ms());
	}
	mutex_unlock(&x->readers.lock);
	return j;
}

/* False: the thread was left behind meanwhile. */
static bool finish(struct memory_reader *r, struct read_job *j)
{
	struct read_jobs *x = (struct read_jobs *)r->of;

	mutex_lock(&x->readers.lock);
	bool left = r->left;
	if (!left) {
		x->job = NULL;
		atomic_store(&r->since_ms, 0);
		atomic_store_explicit(&j->state, READ_DONE, memory_order_release);
	}
	pthread_cond_broadcast(&x->readers.answered);
	mutex_unlock(&x->readers.lock);
	read_job_unref(j);
	return !left;
}

static void work(struct memory_reader *r)
{
	struct read_job *j;

	while ((j = next(r))) {
		if (atomic_load(&j->refs) > 1) /* somebody still asks */
			j->run(j);
		if (!finish(r, j))
			break;
	}
}

static void leave(struct readers *r)
{
	struct read_jobs *x = (struct read_jobs *)r;

	atomic_store_explicit(&x->job->state, READ_STUCK, memory_order_release);
	x->job = NULL;
}

static void release(struct readers *r)
{
	struct read_jobs *x = (struct read_jobs *)r;

	for (size_t i = 0; i < x->queue.n; i++)
		read_job_unref(x->queue.v[i]);
	vec_free(&x->queue);
	free(x);
}

/* ---- for others ---- */

static const struct readers_user jobs_user = { work, leave, release };

struct read_jobs *read_jobs_new(const struct reader_limits *limits)
{
	struct read_jobs *x = NEW(struct read_jobs);

	readers_init(&x->readers, limits, &jobs_user);
	return x;
}

void read_jobs_free(struct read_jobs *x)
{
	if (x)
		readers_stop(&x->readers);
}

/* The lock is held. */
static bool take(struct read_jobs *x, struct read_job *j) REQUIRES(x->readers.lock)
{
	if (!readers_ready(&x->readers) || readers_bar(&x->readers, j->pid))
		return false;
	atomic_fetch_add(&j->refs, 1);
	vec_push(&x->queue, j);
	pthread_cond_signal(&x->readers.asked);
	return true;
}

bool read_jobs_ask(struct read_jobs *x, struct read_job *j)
{
	mutex_lock(&x->readers.lock);
	bool taken = take(x, j);
	mutex_unlock(&x->readers.lock);
	return taken;
}

void read_jobs_wait(struct read_jobs *x, const struct read_job *j, int64_t ms)
{
	int64_t until = clock_mono_ms() + ms;

	mutex_lock(&x->readers.lock);
	while (read_job_state(j) == READ_WAITS && (x->job == j || (!x->job && x->queue.n && x->queue.v[0] == j)))
		if (!mutex_wait_ms(&x->readers.lock, &x->readers.answered, until))
			break;
	mutex_unlock(&x->readers.lock);
}

/* Those behind one whose thread was left have another thread. */
static void go_on(struct read_jobs *x) REQUIRES(x->readers.lock)
{
	if (x->queue.n)
		(void)readers_ready(&x->readers);
}

#define BUSY_WAITS 10                /* so many times as long is waited for a thread that runs, as on an overloaded host */

bool read_jobs_do(struct read_jobs *x, struct read_job *j, int64_t ms)
{
	mutex_lock(&x->readers.lock);
	bool taken = take(x, j);
	for (int i = 0; taken && i < BUSY_WAITS && read_job_state(j) == READ_WAITS && (i == 0 || readers_run(&x->readers)); i++) {
		int64_t until = clock_mono_ms() + ms;
		while (read_job_state(j) == READ_WAITS && mutex_wait_ms(&x->readers.lock, &x->readers.answered, until))
			;
	}
	if (taken && read_job_state(j) == READ_WAITS && x->job)
		readers_leave(&x->readers);
	go_on(x);
	mutex_unlock(&x->readers.lock);
	return read_job_state(j) == READ_DONE;
}

void read_jobs_tick(struct read_jobs *x)
{
	mutex_lock(&x->readers.lock);
	readers_leave_stuck(&x->readers);
	go_on(x);
	mutex_unlock(&x->readers.lock);
}

uint64_t read_jobs_stuck(struct read_jobs *x)
{
	mutex_lock(&x->readers.lock);
	uint64_t n = x->readers.stuck;
	mutex_unlock(&x->readers.lock);
	return n;
}
