/* SPDX-License-Identifier: Apache-2.0 */
/* Workers run handlers. Each lane has its own, so that requests of one kind never delay those of another. They are started when a
 * request finds none idle, up to a maximum, and stay.
 *
 *	submit ─► waiting in its lane ─► a worker ─► resumed
 *	   │          │
 *	   full       late, or its client left: answered by who notices, on the loop or the watcher
 *
 * A request that waits holds no worker, only its connection and what was sent. Requests of a lane start in order of
 * arrival. A lane may run only a few at a time (`at_once`). A long one does not hold up the others: it has a turn of TURN_NS. Then,
 * if others wait, it continues beside them at a low priority, and the next one starts:
 *
 *	waiting ─► at work, usual priority ─────────────► answered
 *	                    └─► turn over: low priority ──► answered, its thread ends: it could not take its priority back
 *
 * Every request has such a turn, so no client is served before another one again and again. A request that finds out that it is a long one
 * says so (httpd_turn_is_over), and has no more of it. */
#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/flag.h"
#include "base/lock.h"
#include "base/thread.h"
#include "httpd/internal.h"

#define LOW_PRIORITY 10 /* nice: a tenth of the usual share */
#define TURN_NS INT64_C(1000000000)

/* A thread. Lies on its stack. */
struct worker {
	struct worker *next, *prev; /* of its lane, those at work */
	struct httpd_request *rq;
	pid_t tid;
	int64_t since_ns;           /* it is at work on rq */
	bool is_low;
};

struct lane {
	struct httpd_work *work;
	struct httpd_lane o;
	pthread_cond_t queued;
	struct httpd_request *first, *last; /* waiting, oldest first */
	struct worker *first_at_work, *last_at_work; /* longest first */
	unsigned n_waiting, n_workers, n_at_work, n_low;
};

struct httpd_work {
	struct httpd *httpd;
	struct mutex lock;
	pthread_cond_t idle;
	struct httpd_request *first, *last; /* in flight: waiting or at work */
	unsigned n_in_flight;
	uint64_t serial;
	VEC(pthread_t) threads;
	pthread_t ended;                    /* the last thread that ended, to be joined; it joined the one before */
	bool has_ended;
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

/* ---- workers ---- */

static void *worker_main(void *arg);

/* Whether one more may begin. */
static bool has_place(const struct lane *l)
{
	mutex_assert_held(&l->work->lock);
	return l->n_workers < l->o.workers && l->n_workers - l->n_low < l->o.at_once;
}

/* How many would wait if `coming` more came, beside those that a worker is about to take. */
static unsigned n_kept_waiting(const struct lane *l, unsigned coming)
{
	mutex_assert_held(&l->work->lock);
	unsigned n_free = l->n_workers - l->n_at_work, n = l->n_waiting + coming;
	return n > n_free ? n - n_free : 0;
}

static void start_worker(struct lane *l, unsigned coming)
{
	pthread_t t;
	mutex_assert_held(&l->work->lock);
	if (n_kept_waiting(l, coming) && has_place(l) && thread_start(&t, "httpd-work", worker_main, l, NULL) == 0) {
		vec_push(&l->work->threads, t);
		l->n_workers++;
	}
}

/* Those whose turn is over make place for those that wait. */
static void end_turns(struct lane *l, unsigned coming, int64_t now_ns)
{
	mutex_assert_held(&l->work->lock);
	unsigned n = l->o.at_once < l->o.workers ? n_kept_waiting(l, coming) : 0;
	for (struct worker *w = l->first_at_work; w && n && now_ns - w->since_ns >= TURN_NS; w = w->next) {
		if (w->is_low)
			continue;
		w->is_low = true;
		atomic_store(&w->rq->gives_way, true);
		thread_make_give_way(w->tid, LOW_PRIORITY);
		l->n_low++;
		n--;
		start_worker(l, coming);
	}
}

static void at_work(struct lane *l, struct worker *w, struct httpd_request *rq)
{
	mutex_assert_held(&l->work->lock);
	w->rq = rq;
	w->since_ns = clock_mono_ns();
	w->next = NULL;
	w->prev = l->last_at_work;
	*(w->prev ? &w->prev->next : &l->first_at_work) = w;
	l->last_at_work = w;
	l->n_at_work++;
}

static void not_at_work(struct lane *l, struct worker *w)
{
	mutex_assert_held(&l->work->lock);
	*(w->prev ? &w->prev->next : &l->first_at_work) = w->next;
	*(w->next ? &w->next->prev : &l->last_at_work) = w->prev;
	l->n_at_work--;
}

void httpd_turn_is_over(struct httpd_request *rq)
{
	struct httpd_work *w = rq->httpd->work;
	mutex_lock(&w->lock);
	struct lane *l = &w->lanes[rq->lane];
	struct worker *me = l->first_at_work;
	while (me && me->rq != rq)
		me = me->next;
	if (me) { /* the first of the list is the one that is at work for the longest */
		not_at_work(l, me);
		l->n_at_work++;
		me->since_ns = 0;
		me->prev = NULL;
		me->next = l->first_at_work;
		*(me->next ? &me->next->prev : &l->last_at_work) = me;
		l->first_at_work = me;
		end_turns(l, 0, clock_mono_ns());
	}
	mutex_unlock(&w->lock);
}

/* A thread whose turn was over ends. True: the one that ended before is the caller's to join, without the lock. */
static bool end_low_worker(struct lane *l, pthread_t *ret_before)
{
	struct httpd_work *w = l->work;
	pthread_t self = pthread_self();
	mutex_assert_held(&l->work->lock);
	bool join = w->has_ended;
	size_t i = 0;
	while (!pthread_equal(w->threads.v[i], self))
		i++;
	w->threads.v[i] = w->threads.v[--w->threads.n];
	*ret_before = w->ended;
	w->ended = self;
	w->has_ended = true;
	l->n_workers--;
	l->n_low--;
	start_worker(l, 0);
	return join;
}

static void *worker_main(void *arg)
{
	struct lane *l = arg;
	struct httpd_work *w = l->work;
	struct worker me = { .tid = gettid() };
	pthread_t before;
	mutex_lock(&w->lock);
	while (!me.is_low || w->stop) {
		if (!l->first) {
			if (w->stop)
				break;
			mutex_wait(&w->lock, &l->queued);
			continue;
		}
		struct httpd_request *rq = l->first;
		queue_remove(l, rq);
		at_work(l, &me, rq);
		bool more = l->first;
		mutex_unlock(&w->lock);
		if (more) /* it may have been meant to wake this one again */
			pthread_cond_signal(&l->queued);
		if (atomic_load(&rq->canceled))
			httpd_request_refuse(rq, HTTPD_CANCELED);
		else
			httpd_request_serve(rq);
		mutex_lock(&w->lock);
		not_at_work(l, &me); /* its client may ask again as soon as it is finished */
		mutex_unlock(&w->lock);
		finish(w, rq);
		mutex_lock(&w->lock);
	}
	bool join = me.is_low && !w->stop && end_low_worker(l, &before);
	mutex_unlock(&w->lock);
	if (join)
		pthread_join(before, NULL);
	return NULL;
}

void httpd_work_left(struct httpd_work *w, uint64_t serial)
{
	struct httpd_request *rq, *waited = NULL;
	const atomic_bool *flag = NULL;
	mutex_lock(&w->lock);
	for (rq = w->first; rq; rq = rq->next)
		if (rq->serial == serial) {
			rq->left = true;
			atomic_store(&rq->canceled, true);
			flag = &rq->canceled;
			if (rq->waits) {
				queue_remove(&w->lanes[rq->lane], rq);
				waited = rq;
			}
			break;
		}
	mutex_unlock(&w->lock);
	if (flag) /* by now it may be finished */
		flag_wake(flag);
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
	for (size_t i = 0; i < w->n_lanes; i++) {
		end_turns(&w->lanes[i], 0, now_ns);
		start_worker(&w->lanes[i], 0); /* if the system had no thread before */
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
		if (!l->o.at_once || l->o.at_once > l->o.workers)
			l->o.at_once = l->o.workers;
		pthread_cond_init(&l->queued, NULL);
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
		pthread_cond_broadcast(&w->lanes[i].queued);
	mutex_unlock(&w->lock);
	for (size_t i = 0; i < w->threads.n; i++)
		pthread_join(w->threads.v[i], NULL);
	vec_free(&w->threads);
	if (w->has_ended)
		pthread_join(w->ended, NULL);
	for (size_t i = 0; i < w->n_lanes; i++)
		pthread_cond_destroy(&w->lanes[i].queued);
	free(w->lanes);
	pthread_cond_destroy(&w->idle);
	mutex_destroy(&w->lock);
	free(w);
}

/* ---- the way in ---- */

/* Whether as many are at work and wait as may be. */
static bool is_full(const struct lane *l)
{
	mutex_assert_held(&l->work->lock);
	return (uint64_t)l->n_waiting + l->n_at_work >= (uint64_t)l->o.workers + l->o.max_waiting;
}

enum httpd_submitted httpd_work_submit(struct httpd_work *w, struct httpd_request *rq)
{
	rq->lane = (unsigned)MIN(rq->lane, w->n_lanes - 1);
	struct lane *l = &w->lanes[rq->lane];
	enum httpd_submitted how = SUBMIT_DONE;
	mutex_lock(&w->lock);
	if (!w->closed) {
		start_worker(l, 1);
		end_turns(l, 1, clock_mono_ns());
	}
	if (w->closed) {
		how = SUBMIT_CLOSED;
	} else if (is_full(l) || !l->n_workers) {
		how = SUBMIT_FULL;
	} else {
		rq->serial = ++w->serial;
		httpd_watch_add(w->httpd->watch, rq->fd, rq->serial);
		list_append(w, rq);
		rq->counted_waiting = n_kept_waiting(l, 1);
		if (rq->counted_waiting)
			httpd_metrics_waiting(l->o.name, 1);
		queue_append(l, rq);
		httpd_metrics_in_flight(1);
	}
	mutex_unlock(&w->lock);
	if (how == SUBMIT_DONE) /* after the lock is left, or it would wait for the lock at once */
		pthread_cond_signal(&l->queued);
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
	flag_wake(NULL);
}

void httpd_work_close(struct httpd_work *w)
{
	mutex_lock(&w->lock);
	w->closed = true;
	mutex_unlock(&w->lock);
	httpd_work_cancel_all(w);
}
