/* SPDX-License-Identifier: Apache-2.0 */
/* Workers run handlers. Each lane has its own, so that requests of one kind never delay those of another. They are started when a
 * request finds none idle, up to a maximum, and stay.
 *
 *	submit ─► waiting in its lane ─► a worker ─► resumed
 *	   │          │
 *	   full       late, or its client left: answered by who notices, on the loop or the watcher
 *
 * A request that waits holds no worker, only its connection and what was sent. A lane may run only some of its workers at normal
 * priority: while it has many requests, the others leave the CPU to the rest of the program. */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/thread.h"
#include "httpd/internal.h"

#define LOW_PRIORITY 10 /* nice: a tenth of the usual share */

struct lane {
	struct httpd_work *work;
	struct httpd_lane o;
	struct rank {                       /* usual priority, low priority */
		pthread_cond_t queued;
		unsigned n_idle;
	} ranks[2];
	struct httpd_request *first, *last; /* waiting, oldest first */
	unsigned n_waiting, n_workers;
};

struct httpd_work {
	struct httpd *httpd;
	struct mutex lock;
	pthread_cond_t idle;
	struct httpd_request *first, *last; /* in flight: waiting or at work */
	unsigned n_in_flight;
	uint64_t serial;
	VEC(pthread_t) threads;
	struct lane *lanes;
	size_t n_lanes;
	bool stop, closed;
};

/* ---- lists ---- */

static void list_append(struct httpd_work *w, struct httpd_request *rq) REQUIRES(w->lock)
{
	rq->next = NULL;
	rq->prev = w->last;
	if (w->last)
		w->last->next = rq;
	else
		w->first = rq;
	w->last = rq;
	w->n_in_flight++;
}

static void list_remove(struct httpd_work *w, struct httpd_request *rq) REQUIRES(w->lock)
{
	if (rq->prev)
		rq->prev->next = rq->next;
	else
		w->first = rq->next;
	if (rq->next)
		rq->next->prev = rq->prev;
	else
		w->last = rq->prev;
}

static void queue_append(struct lane *l, struct httpd_request *rq)
{
	mutex_assert_held(&l->work->lock);
	rq->waits = true;
	rq->wait_next = NULL;
	rq->wait_prev = l->last;
	if (l->last)
		l->last->wait_next = rq;
	else
		l->first = rq;
	l->last = rq;
	l->n_waiting++;
}

static void queue_remove(struct lane *l, struct httpd_request *rq)
{
	mutex_assert_held(&l->work->lock);
	rq->waits = false;
	if (rq->wait_prev)
		rq->wait_prev->wait_next = rq->wait_next;
	else
		l->first = rq->wait_next;
	if (rq->wait_next)
		rq->wait_next->wait_prev = rq->wait_prev;
	else
		l->last = rq->wait_prev;
	l->n_waiting--;
	if (rq->counted_waiting)
		httpd_metrics_waiting(l->o.name, -1);
}

/* ---- the end of a request ---- */

/* Its answer is made: back to the loop. */
static void finish(struct httpd_work *w, struct httpd_request *rq)
{
	httpd_watch_remove(w->httpd->watch, rq->fd);
	mutex_lock(&w->lock);
	list_remove(w, rq);
	mutex_unlock(&w->lock);
	rq->state = RQ_ANSWERED;
	httpd_metrics_in_flight(-1);
	MHD_resume_connection(rq->connection); /* from here on rq is the loop's */
	mutex_lock(&w->lock);
	if (--w->n_in_flight == 0)
		pthread_cond_broadcast(&w->idle);
	mutex_unlock(&w->lock);
}

static unsigned n_idle(const struct lane *l)
{
	mutex_assert_held(&l->work->lock);
	return l->ranks[0].n_idle + l->ranks[1].n_idle;
}

/* Whom a request wakes, those of the usual priority first. Woken after the lock is left, or it would wait for the lock at once. */
static pthread_cond_t *next_to_wake(struct lane *l)
{
	mutex_assert_held(&l->work->lock);
	return &l->ranks[l->ranks[0].n_idle ? 0 : 1].queued;
}

static void work(struct lane *l, struct rank *r)
{
	struct httpd_work *w = l->work;
	mutex_lock(&w->lock);
	for (;;) {
		if (!l->first) {
			if (w->stop)
				break;
			r->n_idle++;
			mutex_wait(&w->lock, &r->queued);
			r->n_idle--;
			continue;
		}
		struct httpd_request *rq = l->first;
		queue_remove(l, rq);
		pthread_cond_t *wake = l->first ? next_to_wake(l) : NULL; /* it may have been meant to wake this one again */
		mutex_unlock(&w->lock);
		if (wake)
			pthread_cond_signal(wake);
		rq->gives_way = r != l->ranks;
		if (atomic_load(&rq->canceled))
			httpd_request_refuse(rq, HTTPD_CANCELED);
		else
			httpd_request_serve(rq);
		finish(w, rq);
		mutex_lock(&w->lock);
	}
	mutex_unlock(&w->lock);
}

static void *worker_main(void *arg)
{
	struct lane *l = arg;
	work(l, &l->ranks[0]);
	return NULL;
}

static void *low_worker_main(void *arg)
{
	struct lane *l = arg;
	thread_give_way(LOW_PRIORITY);
	work(l, &l->ranks[1]);
	return NULL;
}

void httpd_work_left(struct httpd_work *w, uint64_t serial)
{
	struct httpd_request *rq, *waited = NULL;
	mutex_lock(&w->lock);
	for (rq = w->first; rq; rq = rq->next)
		if (rq->serial == serial) {
			rq->left = true;
			atomic_store(&rq->canceled, true);
			if (rq->waits) {
				queue_remove(&w->lanes[rq->lane], rq);
				waited = rq;
			}
			break;
		}
	mutex_unlock(&w->lock);
	if (waited) {
		httpd_request_refuse(waited, HTTPD_CANCELED);
		finish(w, waited);
	}
}

void httpd_work_tick(struct httpd_work *w, int64_t now_ns)
{
	struct httpd_request *late = NULL, *next;
	mutex_lock(&w->lock);
	for (size_t i = 0; i < w->n_lanes; i++)
		for (struct httpd_request *rq = w->lanes[i].first; rq; rq = next) {
			next = rq->wait_next;
			if (rq->late_ns && now_ns > rq->late_ns) {
				queue_remove(&w->lanes[i], rq);
				rq->wait_next = late;
				late = rq;
			}
		}
	mutex_unlock(&w->lock);
	for (; late; late = next) {
		next = late->wait_next;
		httpd_request_refuse(late, HTTPD_LATE);
		finish(w, late);
	}
}

/* ---- making ---- */

static void add_lanes(struct httpd_work *w, const struct httpd_options *o)
{
	static const struct httpd_lane one = { .name = "common" };
	w->n_lanes = o->n_lanes ? o->n_lanes : 1;
	w->lanes = xcalloc(w->n_lanes, sizeof *w->lanes);
	for (size_t i = 0; i < w->n_lanes; i++) {
		struct lane *l = &w->lanes[i];
		l->work = w;
		l->o = o->n_lanes ? o->lanes[i] : one;
		if (!l->o.workers)
			l->o.workers = o->max_workers;
		if (!l->o.max_waiting)
			l->o.max_waiting = UINT32_MAX; /* connections bound it */
		for (size_t k = 0; k < ARRAY_LEN(l->ranks); k++)
			pthread_cond_init(&l->ranks[k].queued, NULL);
		httpd_metrics_waiting(l->o.name, 0);
	}
}

struct httpd_work *httpd_work_new(struct httpd *h)
{
	struct httpd_work *w = NEW(struct httpd_work);
	w->httpd = h;
	mutex_init(&w->lock, RANK_HTTPD_WORK, "requests");
	pthread_cond_init(&w->idle, NULL);
	add_lanes(w, &h->o);
	return w;
}

void httpd_work_free(struct httpd_work *w)
{
	if (!w)
		return;
	mutex_lock(&w->lock);
	w->stop = true;
	for (size_t i = 0; i < w->n_lanes; i++)
		for (size_t k = 0; k < ARRAY_LEN(w->lanes[i].ranks); k++)
			pthread_cond_broadcast(&w->lanes[i].ranks[k].queued);
	mutex_unlock(&w->lock);
	for (size_t i = 0; i < w->threads.n; i++)
		pthread_join(w->threads.v[i], NULL);
	vec_free(&w->threads);
	for (size_t i = 0; i < w->n_lanes; i++)
		for (size_t k = 0; k < ARRAY_LEN(w->lanes[i].ranks); k++)
			pthread_cond_destroy(&w->lanes[i].ranks[k].queued);
	free(w->lanes);
	pthread_cond_destroy(&w->idle);
	mutex_destroy(&w->lock);
	free(w);
}

/* ---- the way in ---- */

/* For one more request. A thread that cannot be started is not missed as long as there is another. */
static bool has_workers(struct lane *l)
{
	mutex_assert_held(&l->work->lock);
	pthread_t t;
	bool low = l->o.usual_priority && l->n_workers >= l->o.usual_priority;
	if (l->n_waiting >= n_idle(l) && l->n_workers < l->o.workers &&
	    thread_start(&t, low ? "httpd-low" : "httpd-work", low ? low_worker_main : worker_main, l, NULL) == 0) {
		vec_push(&l->work->threads, t);
		l->n_workers++;
	}
	return l->n_workers > 0;
}

/* Whether a request would have to wait; requests that an idle worker is about to take do not count. */
static bool no_worker_free(const struct lane *l)
{
	mutex_assert_held(&l->work->lock);
	return l->n_waiting >= n_idle(l) && l->n_workers == l->o.workers;
}

enum httpd_submitted httpd_work_submit(struct httpd_work *w, struct httpd_request *rq)
{
	rq->lane = (unsigned)MIN(rq->lane, w->n_lanes - 1);
	struct lane *l = &w->lanes[rq->lane];
	enum httpd_submitted how = SUBMIT_DONE;
	pthread_cond_t *wake = NULL;
	mutex_lock(&w->lock);
	bool waits = no_worker_free(l);
	if (w->closed) {
		how = SUBMIT_CLOSED;
	} else if ((waits && l->n_waiting - n_idle(l) >= l->o.max_waiting) || !has_workers(l)) {
		how = SUBMIT_FULL;
	} else {
		rq->serial = ++w->serial;
		httpd_watch_add(w->httpd->watch, rq->fd, rq->serial);
		list_append(w, rq);
		queue_append(l, rq);
		rq->counted_waiting = waits;
		if (waits)
			httpd_metrics_waiting(l->o.name, 1);
		wake = next_to_wake(l);
		httpd_metrics_in_flight(1);
	}
	mutex_unlock(&w->lock);
	if (wake)
		pthread_cond_signal(wake);
	return how;
}

unsigned httpd_work_in_flight(struct httpd_work *w)
{
	mutex_lock(&w->lock);
	unsigned n = w->n_in_flight;
	mutex_unlock(&w->lock);
	return n;
}

bool httpd_work_wait_idle(struct httpd_work *w, int64_t timeout_ms)
{
	int64_t until = clock_mono_ms() + timeout_ms;
	bool in_time = true;
	mutex_lock(&w->lock);
	while (w->n_in_flight && in_time)
		if (timeout_ms < 0)
			mutex_wait(&w->lock, &w->idle);
		else
			in_time = mutex_wait_ms(&w->lock, &w->idle, until);
	bool idle = !w->n_in_flight;
	mutex_unlock(&w->lock);
	return idle;
}

void httpd_work_cancel_all(struct httpd_work *w)
{
	mutex_lock(&w->lock);
	for (struct httpd_request *rq = w->first; rq; rq = rq->next)
		atomic_store(&rq->canceled, true);
	mutex_unlock(&w->lock);
}

void httpd_work_close(struct httpd_work *w)
{
	mutex_lock(&w->lock);
	w->closed = true;
	mutex_unlock(&w->lock);
	httpd_work_cancel_all(w);
}
