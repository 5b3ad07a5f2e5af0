/* SPDX-License-Identifier: Apache-2.0 */
#include "base/queue.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/lock.h"

struct item {
	void *ptr;
	size_t bytes;
};

struct queue {
	struct mutex lock;
	pthread_cond_t not_empty, not_full;
	struct item *ring; /* cap entries, n of them from head on */
	size_t cap, head, n, bytes, max_bytes;
	uint64_t dropped;
	bool closed;
};

struct queue *queue_new(size_t max_items, size_t max_bytes)
{
	struct queue *q = NEW(struct queue);
	q->cap = max_items ? max_items : 1;
	q->max_bytes = max_bytes;
	q->ring = xcalloc(q->cap, sizeof *q->ring);
	mutex_init(&q->lock, LOCK_LEAF, "queue");
	pthread_cond_init(&q->not_empty, NULL);
	pthread_cond_init(&q->not_full, NULL);
	return q;
}

void queue_free(struct queue *q)
{
	if (!q)
		return;
	pthread_cond_destroy(&q->not_empty);
	pthread_cond_destroy(&q->not_full);
	mutex_destroy(&q->lock);
	free(q->ring);
	free(q);
}

static bool full(const struct queue *q, size_t bytes) REQUIRES(q->lock)
{
	return q->n == q->cap || (q->max_bytes && q->n && q->bytes + bytes > q->max_bytes);
}

static void put(struct queue *q, void *ptr, size_t bytes) REQUIRES(q->lock)
{
	q->ring[(q->head + q->n++) % q->cap] = (struct item){ ptr, bytes };
	q->bytes += bytes;
	pthread_cond_signal(&q->not_empty);
}

bool queue_push(struct queue *q, void *ptr, size_t bytes)
{
	mutex_lock(&q->lock);
	while (!q->closed && full(q, bytes))
		mutex_wait(&q->lock, &q->not_full);
	bool ok = !q->closed;
	if (ok)
		put(q, ptr, bytes);
	mutex_unlock(&q->lock);
	return ok;
}

bool queue_try_push(struct queue *q, void *ptr, size_t bytes)
{
	mutex_lock(&q->lock);
	bool ok = !q->closed && !full(q, bytes);
	if (ok)
		put(q, ptr, bytes);
	else
		q->dropped++;
	mutex_unlock(&q->lock);
	return ok;
}

void *queue_pop(struct queue *q, int wait_ms)
{
	int64_t until = wait_ms > 0 ? clock_mono_ms() + wait_ms : 0;
	void *ptr = NULL;
	mutex_lock(&q->lock);
	while (!q->n && !q->closed && wait_ms) {
		if (wait_ms < 0)
			mutex_wait(&q->lock, &q->not_empty);
		else if (!mutex_wait_ms(&q->lock, &q->not_empty, until))
			break;
	}
	if (q->n) {
		struct item it = q->ring[q->head];
		q->head = (q->head + 1) % q->cap;
		q->n--;
		q->bytes -= it.bytes;
		ptr = it.ptr;
		/* Room in bytes may serve several waiting producers. */
		pthread_cond_broadcast(&q->not_full);
	}
	mutex_unlock(&q->lock);
	return ptr;
}

void queue_close(struct queue *q)
{
	mutex_lock(&q->lock);
	q->closed = true;
	pthread_cond_broadcast(&q->not_empty);
	pthread_cond_broadcast(&q->not_full);
	mutex_unlock(&q->lock);
}

#define LOCKED_READ(type, name, expr) \
	type name(const struct queue *cq) \
	{ \
		struct queue *q = (struct queue *)cq; \
		mutex_lock(&q->lock); \
		type v = (expr); \
		mutex_unlock(&q->lock); \
		return v; \
	}
LOCKED_READ(bool, queue_closed, q->closed)
LOCKED_READ(size_t, queue_len, q->n)
LOCKED_READ(size_t, queue_bytes, q->bytes)
LOCKED_READ(uint64_t, queue_dropped, q->dropped)
