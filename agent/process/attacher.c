/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/attacher.h"

#include "agent/runtime/reader.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/vec.h"

/* What attaching may read of a process. */
#define ATTACH_READS 512u
#define ATTACH_BYTES (1u << 20)

struct attacher {
	struct readers readers;      /* its lock guards the next two */
	VEC(struct attach_job *) queue; /* references; the oldest first */
	struct attach_job *job;      /* the reader's; its reference */
	int64_t waits_left_ns;       /* of this drain; the drain thread's */
};

enum attach_state attach_job_state(const struct attach_job *j)
{
	return (enum attach_state)atomic_load_explicit(&j->state, memory_order_acquire);
}

void attach_job_unref(struct attach_job *j)
{
	if (!j || atomic_fetch_sub(&j->refs, 1) != 1)
		return;
	image_unref(j->image);
	free(j);
}

static void release(struct readers *x)
{
	struct attacher *a = (struct attacher *)x;

	for (size_t i = 0; i < a->queue.n; i++)
		attach_job_unref(a->queue.v[i]);
	vec_free(&a->queue);
	free(a);
}

int attach_now(const struct runtime_file *f, uint32_t pid, uint64_t bias, struct runtime_proc *ret)
{
	struct process_memory m;
	int r = process_memory_open(&m, pid, ATTACH_READS, ATTACH_BYTES, NULL);

	if (r)
		return r;
	r = f->of->attach(f, &m, bias, ret, NULL);
	process_memory_close(&m);
	return r;
}

/* Waits for a job; NULL: the thread is to end. */
static struct attach_job *next(struct memory_reader *r)
{
	struct attacher *a = (struct attacher *)r->of;
	struct attach_job *j = NULL;

	mutex_lock(&a->readers.lock);
	while (!a->readers.stopping && !a->queue.n)
		mutex_wait(&a->readers.lock, &a->readers.asked);
	if (!a->readers.stopping) {
		j = a->queue.v[0];
		memmove(a->queue.v, a->queue.v + 1, --a->queue.n * sizeof *a->queue.v);
		a->job = j;
		atomic_store(&r->since_ms, clock_mono_ms());
	}
	mutex_unlock(&a->readers.lock);
	return j;
}

/* False: the thread was left behind meanwhile. */
static bool finish(struct memory_reader *r, struct attach_job *j)
{
	struct attacher *a = (struct attacher *)r->of;

	mutex_lock(&a->readers.lock);
	bool left = r->left;
	if (!left) {
		a->job = NULL;
		atomic_store(&r->since_ms, 0);
		atomic_store_explicit(&j->state, ATTACH_DONE, memory_order_release);
	}
	pthread_cond_broadcast(&a->readers.answered);
	mutex_unlock(&a->readers.lock);
	attach_job_unref(j);
	return !left;
}

static void work(struct memory_reader *r)
{
	struct attach_job *j;

	while ((j = next(r))) {
		if (atomic_load(&j->refs) > 1) /* somebody still asks */
			j->error = attach_now(j->image->runtime, j->pid, j->bias, &j->found);
		if (!finish(r, j))
			break;
	}
}

static void leave(struct readers *x)
{
	struct attacher *a = (struct attacher *)x;

	atomic_store_explicit(&a->job->state, ATTACH_STUCK, memory_order_release);
	a->job = NULL;
}

static const struct readers_user attacher_user = { "attacher", ATTACH_STUCK_MS, ATTACH_STUCK_MAX, work, leave, release };

struct attacher *attacher_new(void)
{
	struct attacher *a = NEW(struct attacher);

	a->waits_left_ns = ATTACH_WAITS_MS * INT64_C(1000000);
	readers_init(&a->readers, &attacher_user);
	return a;
}

void attacher_free(struct attacher *a)
{
	if (a)
		readers_stop(&a->readers);
}

/* The lock is held; waits for the answer, unless the thread is busy with another process or has been waited for too long. */
static void wait_for(struct attacher *a, const struct attach_job *j, bool idle) REQUIRES(a->readers.lock)
{
	int64_t from = clock_mono_ns(), until = clock_mono_ms() + ATTACH_WAIT_MS;

	while (idle && a->waits_left_ns > 0 && attach_job_state(j) == ATTACH_WAITS)
		if (!mutex_wait_ms(&a->readers.lock, &a->readers.answered, until))
			break;
	a->waits_left_ns -= clock_mono_ns() - from;
}

struct attach_job *attacher_ask(struct attacher *a, uint32_t pid, struct image *im, uint64_t bias)
{
	struct attach_job *j = NULL;

	mutex_lock(&a->readers.lock);
	if (readers_ready(&a->readers)) {
		bool idle = !a->job && !a->queue.n;
		j = NEW(struct attach_job);
		atomic_store(&j->refs, 2);
		j->pid = pid;
		j->image = image_ref(im);
		j->bias = bias;
		vec_push(&a->queue, j);
		pthread_cond_signal(&a->readers.asked);
		wait_for(a, j, idle);
	}
	mutex_unlock(&a->readers.lock);
	return j;
}

void attacher_tick(struct attacher *a)
{
	a->waits_left_ns = ATTACH_WAITS_MS * INT64_C(1000000);
	mutex_lock(&a->readers.lock);
	readers_leave_stuck(&a->readers);
	if (a->queue.n)
		(void)readers_ready(&a->readers);
	mutex_unlock(&a->readers.lock);
}
