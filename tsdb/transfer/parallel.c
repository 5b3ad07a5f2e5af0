/* SPDX-License-Identifier: Apache-2.0 */
/* Work that waits for the bucket more than it computes, as fetching the objects of a day: in several threads, so that it costs the
 * bandwidth and not the round trips. The store bounds how many requests run at once. A thread inherits the priority of its maker. */
#include "base/lock.h"
#include "base/thread.h"
#include "tsdb/transfer/transfer_private.h"

#define THREADS_MAX 64

struct parallel {
	int (*run)(void *arg, size_t i, struct err *e);
	void *arg;
	struct mutex lock;     /* of what follows; a leaf */
	size_t next, n;        /* numbers from next on are not begun */
	int rc;                /* the first error */
	struct err first;
};

/* False: nothing is left. */
static bool parallel_take(struct parallel *p, size_t *ret)
{
	mutex_lock(&p->lock);
	bool some = p->next < p->n;
	*ret = p->next;
	p->next += some;
	mutex_unlock(&p->lock);
	return some;
}

static void parallel_fail(struct parallel *p, int rc, const struct err *e)
{
	mutex_lock(&p->lock);
	if (!p->rc) {
		p->rc = rc;
		p->first = *e;
	}
	p->next = p->n;
	mutex_unlock(&p->lock);
}

static void *parallel_run(void *arg)
{
	struct parallel *p = arg;
	struct err e;
	for (size_t i; parallel_take(p, &i);) {
		int rc = p->run(p->arg, i, &e);
		if (rc)
			parallel_fail(p, rc, &e);
	}
	return NULL;
}

int parallel_each(size_t threads, size_t n, int (*run)(void *arg, size_t i, struct err *e), void *arg, struct err *e)
{
	struct parallel p = { .run = run, .arg = arg, .n = n };
	pthread_t t[THREADS_MAX];
	size_t started = 0;
	struct err none;
	mutex_init(&p.lock, LOCK_LEAF, "bucket parallel");
	threads = MIN(MIN(threads, n), (size_t)THREADS_MAX);
	while (started + 1 < threads && !thread_start(&t[started], "bucket fetch", parallel_run, &p, &none)) /* fewer do as well */
		started++;
	parallel_run(&p);
	for (size_t i = 0; i < started; i++)
		pthread_join(t[i], NULL);
	mutex_destroy(&p.lock);
	return p.rc ? err_set(e, p.first.code, "%s", p.first.msg) : 0;
}
