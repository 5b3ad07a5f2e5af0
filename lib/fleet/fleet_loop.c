/* SPDX-License-Identifier: Apache-2.0 */
/* The loop that carries the questions of this process to other servers. A post is in the queue, is running, or is over. A post that is canceled before it
 * is over is in the list `canceled` as well. The thread releases it when it empties that list, also if its request has ended meanwhile. */
#include "fleet/fleet_loop.h"

#include <stdlib.h>
#include <sys/resource.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/thread.h"
#include "fleet/wire.h"

#define LOOP_MOST_POSTS 2000
#define TURN_MS 1000
#define AFTER_FAILURE_MS 100

struct fleet_loop {
	struct fetch_loop *fetch;    /* of the thread, as running */
	pthread_t thread;
	struct fleet_post *running;
	atomic_size_t posts;         /* posted and not over */
	size_t most;                 /* of them: each has a connection, which is a file */
	struct mutex lock;
	struct fleet_post *queue, **queue_end; /* lock guards them, as all below; the oldest is first */
	struct fleet_post *canceled;
	bool ends;
};

static void loop_release(struct fleet_post *p)
{
	struct fleet_loop *l = p->loop;
	atomic_fetch_sub(&l->posts, 1);
	p->release(p);
}

static void loop_take_out(struct fleet_post *p)
{
	*(p->prev ? &p->prev->next : &p->loop->running) = p->next;
	if (p->next)
		p->next->prev = p->prev;
}

/* The request has ended. If it was canceled meanwhile, loop_cancel_all releases it. */
static void loop_end(struct fleet_post *p)
{
	struct fleet_loop *l = p->loop;
	p->fetch = NULL;
	mutex_lock(&l->lock);
	p->over = !p->canceled;
	bool over = p->over;
	mutex_unlock(&l->lock);
	if (!over)
		return;
	loop_take_out(p);
	p->done(p);
	loop_release(p);
}

static void loop_start(struct fleet_post *p);

/* fetch.h: an exchange has ended. */
static void loop_on_done(void *arg, struct fetch_response *r, const struct err *e)
{
	struct fleet_post *p = arg;
	if (e->code == ERR_UNAVAILABLE && !r->status && !p->again) {
		p->again = true;
		p->fetch = NULL;
		loop_start(p);
		return;
	}
	p->err = *e;
	p->status = r->status;
	p->retry_after_s = r->retry_after_s;
	p->bytes_received = r->bytes_received;
	memcpy(p->content_type, r->content_type, sizeof p->content_type);
	p->answer = r->body;
	r->body = (struct buf){ 0 };
	loop_end(p);
}

static void loop_start(struct fleet_post *p)
{
	static const char *const headers[] = { "Content-Type: " FLEET_WIRE_TYPE, "Accept: " FLEET_WIRE_TYPE, "Expect:" };
	struct fetch_request q = { .url = p->url, .headers = headers, .n_headers = ARRAY_LEN(headers), .body = buf_view(&p->body), .max_bytes = p->max_bytes,
				   .keep_method = true, .keepalive = true };
	if (p->until_ms)
		q.timeout_ms = MAX(p->until_ms - clock_mono_ms(), 1);
	if (fetch_start(p->loop->fetch, p->client, &q, loop_on_done, p, &p->fetch, &p->err))
		loop_end(p);
}

static bool loop_is_canceled(struct fleet_post *p)
{
	mutex_lock(&p->loop->lock);
	bool canceled = p->canceled;
	mutex_unlock(&p->loop->lock);
	return canceled;
}

/* Starts posts, the oldest first. */
static void loop_start_all(struct fleet_loop *l, struct fleet_post *p)
{
	for (struct fleet_post *next; p; p = next) {
		next = p->next_queued;
		p->prev = NULL;
		p->next = l->running;
		if (p->next)
			p->next->prev = p;
		l->running = p;
		if (!loop_is_canceled(p))
			loop_start(p);
	}
}

static void loop_cancel_all(struct fleet_post *p)
{
	for (struct fleet_post *next; p; p = next) {
		next = p->next_canceled;
		if (p->fetch)
			fetch_cancel(p->fetch);
		loop_take_out(p);
		loop_release(p);
	}
}

/* Does what other threads want. Both lists are taken at once, so that each post that is canceled has been taken from the queue. */
static void loop_serve(struct fleet_loop *l)
{
	mutex_lock(&l->lock);
	struct fleet_post *queue = l->queue, *canceled = l->canceled;
	l->queue = l->canceled = NULL;
	l->queue_end = &l->queue;
	mutex_unlock(&l->lock);
	loop_start_all(l, queue);
	loop_cancel_all(canceled);
}

static bool loop_at_end(struct fleet_loop *l)
{
	mutex_lock(&l->lock);
	bool ends = l->ends;
	mutex_unlock(&l->lock);
	return ends;
}

static void *loop_main(void *arg)
{
	struct fleet_loop *l = arg;
	struct err e = { 0 };
	while (!loop_at_end(l)) {
		loop_serve(l);
		if (fetch_loop_turn(l->fetch, TURN_MS, &e)) {
			LOG_ERROR("msg", "the loop of questions to other servers failed; it goes on", "err", e.msg);
			clock_sleep_ms(AFTER_FAILURE_MS);
		}
	}
	return NULL;
}

int fleet_loop_new(struct fleet_loop **ret, struct err *e)
{
	struct fleet_loop *l = NEW(struct fleet_loop);
	mutex_init(&l->lock, LOCK_LEAF, "fleet_loop");
	l->queue_end = &l->queue;
	struct rlimit files = { 0 };
	getrlimit(RLIMIT_NOFILE, &files);
	l->most = MIN(files.rlim_cur / 2, LOOP_MOST_POSTS);
	l->fetch = fetch_loop_new(e);
	int rc = l->fetch ? thread_start(&l->thread, "fleet", loop_main, l, e) : -(int)e->code;
	if (rc) {
		fetch_loop_free(l->fetch);
		mutex_destroy(&l->lock);
		free(l);
		return rc;
	}
	*ret = l;
	return 0;
}

void fleet_loop_free(struct fleet_loop *l)
{
	if (!l)
		return;
	mutex_lock(&l->lock);
	l->ends = true;
	mutex_unlock(&l->lock);
	fetch_loop_wake(l->fetch);
	pthread_join(l->thread, NULL);
	loop_serve(l);
	for (struct fleet_post *p; (p = l->running);) { /* closes of views that nobody waits for */
		if (p->fetch)
			fetch_cancel(p->fetch);
		loop_take_out(p);
		loop_release(p);
	}
	fetch_loop_free(l->fetch);
	mutex_destroy(&l->lock);
	free(l);
}

void fleet_loop_post(struct fleet_loop *l, struct fleet_post *p)
{
	p->loop = l;
	p->retry_after_s = -1;
	atomic_fetch_add(&l->posts, 1);
	mutex_lock(&l->lock);
	*l->queue_end = p;
	l->queue_end = &p->next_queued;
	mutex_unlock(&l->lock);
	fetch_loop_wake(l->fetch);
}

void fleet_loop_cancel(struct fleet_loop *l, struct fleet_post *p)
{
	mutex_lock(&l->lock);
	if (!p->over && !p->canceled) {
		p->canceled = true;
		p->next_canceled = l->canceled;
		l->canceled = p;
	}
	mutex_unlock(&l->lock);
	fetch_loop_wake(l->fetch);
}

bool fleet_loop_is_full(const struct fleet_loop *l)
{
	return atomic_load(&l->posts) >= l->most;
}
