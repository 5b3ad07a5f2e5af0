/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/attach_job.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/thread.h"

/* What attaching may read of a process. */
#define ATTACH_READS 512u
#define ATTACH_BYTES (1u << 20)

struct attach_job {
	atomic_int refs;             /* its user's, its thread's */
	struct image *image;
	uint32_t pid;
	uint64_t bias;
	struct mutex lock;           /* guards what follows */
	pthread_cond_t settled;
	bool ended;
	int err;
	struct runtime_proc proc;
};

static atomic_int running;           /* threads */

static void unref(struct attach_job *j)
{
	if (atomic_fetch_sub(&j->refs, 1) != 1)
		return;
	image_unref(j->image);
	pthread_cond_destroy(&j->settled);
	mutex_destroy(&j->lock);
	free(j);
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

static void *job_main(void *arg)
{
	struct attach_job *j = arg;
	struct runtime_proc p = { 0 };
	int r = attach_now(j->image->runtime, j->pid, j->bias, &p);

	mutex_lock(&j->lock);
	j->err = r;
	j->proc = p;
	j->ended = true;
	pthread_cond_signal(&j->settled);
	mutex_unlock(&j->lock);
	unref(j);
	atomic_fetch_sub(&running, 1);
	return NULL;
}

struct attach_job *attach_job_start(struct image *im, uint32_t pid, uint64_t bias)
{
	struct attach_job *j;
	pthread_t thread;
	struct err e;

	if (atomic_fetch_add(&running, 1) >= ATTACH_JOBS_MAX) {
		atomic_fetch_sub(&running, 1);
		return NULL;
	}
	j = NEW(struct attach_job);
	atomic_store(&j->refs, 2);
	j->image = image_ref(im);
	j->pid = pid;
	j->bias = bias;
	mutex_init(&j->lock, LOCK_LEAF, "attach");
	pthread_cond_init(&j->settled, NULL);
	if (thread_start(&thread, "attach", job_main, j, &e) == 0) {
		pthread_detach(thread);
		return j;
	}
	atomic_fetch_sub(&running, 1);
	atomic_store(&j->refs, 1);
	unref(j);
	return NULL;
}

enum runtime_kind attach_job_kind(const struct attach_job *j)
{
	return j->image->runtime->of->kind;
}

bool attach_job_ended(struct attach_job *j, int64_t patience_ms, int *ret_err, struct runtime_proc *ret)
{
	int64_t until = clock_mono_ms() + patience_ms;

	mutex_lock(&j->lock);
	while (!j->ended && mutex_wait_ms(&j->lock, &j->settled, until))
		;
	bool ended = j->ended;
	if (ended) {
		*ret_err = j->err;
		*ret = j->proc;
	}
	mutex_unlock(&j->lock);
	return ended;
}

void attach_job_free(struct attach_job *j)
{
	if (j)
		unref(j);
}
