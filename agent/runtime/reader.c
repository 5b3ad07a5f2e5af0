/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/runtime/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/num.h"
#include "base/thread.h"

static void unref(struct readers *x)
{
	if (atomic_fetch_sub(&x->refs, 1) != 1)
		return;
	pthread_cond_destroy(&x->asked);
	pthread_cond_destroy(&x->answered);
	mutex_destroy(&x->lock);
	vec_free(&x->left);
	x->user->release(x);
}

void readers_init(struct readers *x, const struct reader_limits *limits, const struct readers_user *user)
{
	x->limits = limits;
	x->user = user;
	atomic_store(&x->refs, 1);
	mutex_init(&x->lock, LOCK_LEAF, limits->name);
	pthread_cond_init(&x->asked, NULL);
	pthread_cond_init(&x->answered, NULL);
}

static void *reader_main(void *arg)
{
	struct memory_reader *r = arg;
	struct readers *x = r->of;

	/* Before what was sampled ends. It takes little, and without CAP_SYS_NICE it may come too late. */
	atomic_store(&r->tid, gettid());
	setpriority(PRIO_PROCESS, (id_t)gettid(), -10);
	x->user->work(r);
	mutex_lock(&x->lock);
	bool left = r->left;         /* nobody else knows it */
	for (size_t i = 0; left && i < x->left.n; i++)
		if (x->left.v[i] == r) {
			x->left.v[i] = x->left.v[--x->left.n];
			break;
		}
	r->ended = true;
	pthread_cond_broadcast(&x->answered);
	mutex_unlock(&x->lock);
	if (left)
		free(r);
	unref(x);
	return NULL;
}

int readers_start(struct readers *x, struct err *e)
{
	struct memory_reader *r = NEW(struct memory_reader);

	r->of = x;
	atomic_fetch_add(&x->refs, 1);
	int rc = thread_start(&r->thread, x->limits->name, reader_main, r, e);
	if (rc) {
		atomic_fetch_sub(&x->refs, 1);
		free(r);
		return rc;
	}
	x->now = r;
	return 0;
}

/* Whose process it is. Its directory may be root's; what this file says needs nothing of the process's memory. */
static uint32_t user_of(uint32_t pid)
{
	char path[32], line[128];
	uint64_t user = 0;

	snprintf(path, sizeof path, "/proc/%u/status", pid);
	FILE *f = fopen(path, "re");
	while (f && fgets(line, sizeof line, f))
		if (strncmp(line, "Uid:\t", 5) == 0) {
			(void)num_parse_u64(view_make(line + 5, strcspn(line + 5, "\t")), &user);
			break;
		}
	if (f)
		fclose(f);
	return (uint32_t)user;
}

void readers_leave(struct readers *x)
{
	struct memory_reader *r = x->now;

	r->left = true;
	r->user = user_of(r->pid);
	x->user->leave(x);
	pthread_detach(r->thread);
	x->now = NULL;
	vec_push(&x->left, r);
	x->stuck++;
}

void readers_leave_stuck(struct readers *x)
{
	int64_t since = x->now ? atomic_load(&x->now->since_ms) : 0;

	if (since && clock_mono_ms() - since > x->limits->stuck_ms)
		readers_leave(x);
}

bool readers_ready(struct readers *x)
{
	struct err e;

	readers_leave_stuck(x);
	return x->now || (x->left.n < x->limits->stuck_max && readers_start(x, &e) == 0);
}

bool readers_run(const struct readers *x)
{
	char path[64], text[64];
	int tid = x->now ? atomic_load(&x->now->tid) : 0;

	if (!tid)
		return true;
	snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
	FILE *f = fopen(path, "re");
	const char *state = f && fgets(text, sizeof text, f) ? strrchr(text, ')') : NULL;
	bool runs = state && strncmp(state, ") R", 3) == 0;
	if (f)
		fclose(f);
	return runs;
}

bool readers_bar(const struct readers *x, uint32_t pid)
{
	unsigned of_user = 0;
	uint32_t user = x->left.n ? user_of(pid) : 0;

	for (size_t i = 0; i < x->left.n; i++) {
		of_user += x->left.v[i]->user == user;
		if (x->left.v[i]->pid == pid)
			return true;
	}
	return of_user >= x->limits->user_max;
}

void readers_stop(struct readers *x)
{
	mutex_lock(&x->lock);
	x->stopping = true;
	pthread_cond_broadcast(&x->asked);
	pthread_cond_broadcast(&x->answered);
	while (x->now && !x->now->ended) {
		mutex_wait_ms(&x->lock, &x->answered, clock_mono_ms() + 100);
		readers_leave_stuck(x);
	}
	struct memory_reader *r = x->now;
	mutex_unlock(&x->lock);
	if (r) {
		pthread_join(r->thread, NULL);
		free(r);
	}
	unref(x);
}
