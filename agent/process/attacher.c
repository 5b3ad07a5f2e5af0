/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/attacher.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"

/* What attaching may read of a process. */
#define ATTACH_READS 512u
#define ATTACH_BYTES (1u << 20)
#define WAITS_NS (ATTACH_WAITS_MS * INT64_C(1000000))

struct attacher {
	struct read_jobs *jobs;
	int64_t waits_left_ns;       /* of this drain */
};

int attach_now(const struct runtime_file *f, uint32_t pid, uint64_t bias, struct runtime_proc *ret, void **ret_facts)
{
	struct process_memory m;
	int r = process_memory_open(&m, pid, ATTACH_READS, ATTACH_BYTES, NULL);

	*ret_facts = NULL;
	if (r)
		return r;
	r = f->of->attach(f, &m, bias, ret, NULL);
	*ret_facts = m.facts;
	m.facts = NULL;
	process_memory_close(&m);
	return r;
}

static void run(struct read_job *job)
{
	struct attach_job *j = (struct attach_job *)job;

	j->error = attach_now(j->image->runtime, job->pid, j->bias, &j->found, &j->facts);
}

static void release(struct read_job *job)
{
	struct attach_job *j = (struct attach_job *)job;

	image_unref(j->image);
	free(j->facts);
	free(j);
}

struct attacher *attacher_new(void)
{
	static const struct reader_limits limits = { "attacher", ATTACH_STUCK_MS, ATTACH_STUCK_MAX, ATTACH_STUCK_USER_MAX };
	struct attacher *a = NEW(struct attacher);

	a->jobs = read_jobs_new(&limits);
	a->waits_left_ns = WAITS_NS;
	return a;
}

void attacher_free(struct attacher *a)
{
	if (!a)
		return;
	read_jobs_free(a->jobs);
	free(a);
}

struct attach_job *attacher_ask(struct attacher *a, uint32_t pid, struct image *im, uint64_t bias)
{
	struct attach_job *j = NEW(struct attach_job);

	read_job_init(&j->job, pid, run, release);
	j->image = image_ref(im);
	j->bias = bias;
	if (!read_jobs_ask(a->jobs, &j->job)) {
		read_job_unref(&j->job);
		return NULL;
	}
	if (a->waits_left_ns > 0) {
		int64_t from = clock_mono_ns();
		read_jobs_wait(a->jobs, &j->job, ATTACH_WAIT_MS);
		a->waits_left_ns -= clock_mono_ns() - from;
	}
	return j;
}

void attacher_tick(struct attacher *a)
{
	a->waits_left_ns = WAITS_NS;
	read_jobs_tick(a->jobs);
}
