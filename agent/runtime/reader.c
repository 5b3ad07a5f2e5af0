/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/runtime/reader.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"

static void unref(struct readers *x)
{
	if (atomic_fetch_sub(&x->refs, 1) != 1)
		return;
	pthread_cond_destroy(&x->asked);
	pthread_cond_destroy(&x->answered);
	mutex_destroy(&x->lock);
	x->user->release(x);
}

void readers_init(struct readers *x, const struct readers_user *user)
{
	x->user = user;
	atomic_store(&x->refs, 1);
	mutex_init(&x->lock, LOCK_LEAF, user->name);
	pthread_cond_init(&x->asked, NULL);
	pthread_cond_init(&x->answered, NULL);
}

static void *reader_main(void *arg)
{
	struct memory_reader *r = arg;
	struct readers *x = r->of;

	/* Before what was sampled ends. It takes little, and without CAP_SYS_NICE it may come too late. */
	setpriority(PRIO_PROCESS, (id_t)gettid(), -10);
	x->user->work(r);
	mutex_lock(&x->lock);
	bool left = r->left;         /* nobody else knows it */
	x->n_left -= left;
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
	int rc = thread_start(&r->thread, x->user->name, reader_main, r, e);
	if (rc) {
		atomic_fetch_sub(&x->refs, 1);
		free(r);
		return rc;
	}
	x->now = r;
	return 0;
}

void readers_leave_stuck(struct readers *x)
{
	struct memory_reader *r = x->now;
	int64_t since = r ? atomic_load(&r->since_ms) : 0;

	if (!since || clock_mono_ms() - since <= x->user->stuck_ms)
		return;
	r->left = true;
	x->user->leave(x);
	pthread_detach(r->thread);
	x->now = NULL;
	x->n_left++;
	x->stuck++;
}

bool readers_ready(struct readers *x)
{
	struct err e;

	readers_leave_stuck(x);
	return x->now || (x->n_left < x->user->stuck_max && readers_start(x, &e) == 0);
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
