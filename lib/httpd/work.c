/* SPDX-License-Identifier: Apache-2.0 */
/* Workers run handlers; they are started when a request finds none idle, up to a maximum, and stay. One watcher
 * thread waits in epoll for the sockets of requests at work to be shut by their clients: libmicrohttpd tells of a
 * client that left only when a suspended connection is resumed, long after it matters.
 *
 * A socket is taken out of epoll before its connection is resumed, and libmicrohttpd closes nothing that is
 * suspended; an event that was already on its way is told apart by the request's serial number. */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "httpd/internal.h"

#define TICK_MS 500   /* how exact the deadlines of connections are */
#define WAKE_SERIAL 0 /* epoll data of the eventfd that ends the watcher */

struct httpd_work {
	struct httpd *httpd;
	pthread_mutex_t lock;
	pthread_cond_t queued, idle;
	/* Requests in flight, oldest first; those from `waiting` on are not taken yet. */
	struct httpd_request *first, *last, *waiting;
	unsigned n_in_flight, n_waiting, n_idle, max_workers;
	uint64_t serial;
	VEC(pthread_t) workers;
	pthread_t watcher;
	int epoll, wake;
	bool stop, closed;
};

static void list_append(struct httpd_work *w, struct httpd_request *rq)
{
	rq->next = NULL;
	rq->prev = w->last;
	if (w->last)
		w->last->next = rq;
	else
		w->first = rq;
	w->last = rq;
	if (!w->waiting)
		w->waiting = rq;
}

static void list_remove(struct httpd_work *w, struct httpd_request *rq)
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

static void run(struct httpd_work *w, struct httpd_request *rq)
{
	httpd_request_serve(rq);
	if (rq->fd >= 0)
		epoll_ctl(w->epoll, EPOLL_CTL_DEL, rq->fd, NULL);
	pthread_mutex_lock(&w->lock);
	list_remove(w, rq);
	pthread_mutex_unlock(&w->lock);
	rq->state = RQ_ANSWERED;
	httpd_metrics_in_flight(-1);
	MHD_resume_connection(rq->connection); /* from here on rq is the loop's */
	pthread_mutex_lock(&w->lock);
	if (--w->n_in_flight == 0)
		pthread_cond_broadcast(&w->idle);
	pthread_mutex_unlock(&w->lock);
}

static void *worker_main(void *arg)
{
	struct httpd_work *w = arg;
	pthread_mutex_lock(&w->lock);
	for (;;) {
		if (!w->waiting) {
			if (w->stop)
				break;
			w->n_idle++;
			pthread_cond_wait(&w->queued, &w->lock);
			w->n_idle--;
			continue;
		}
		struct httpd_request *rq = w->waiting;
		w->waiting = rq->next;
		w->n_waiting--;
		pthread_mutex_unlock(&w->lock);
		run(w, rq);
		pthread_mutex_lock(&w->lock);
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

static void client_left(struct httpd_work *w, uint64_t serial)
{
	pthread_mutex_lock(&w->lock);
	for (struct httpd_request *rq = w->first; rq; rq = rq->next)
		if (rq->serial == serial) {
			rq->left = true;
			atomic_store(&rq->canceled, true);
			break;
		}
	pthread_mutex_unlock(&w->lock);
}

static void *watcher_main(void *arg)
{
	struct httpd_work *w = arg;
	struct epoll_event events[64];
	int64_t next_tick = 0;
	for (;;) {
		int64_t now = clock_mono_ms();
		if (now >= next_tick) {
			httpd_tick(w->httpd);
			next_tick = now + TICK_MS;
		}
		int n = epoll_wait(w->epoll, events, ARRAY_LEN(events), (int)MIN(next_tick - now, TICK_MS));
		if (n < 0 && errno != EINTR)
			return NULL;
		for (int i = 0; i < n; i++) {
			if (events[i].data.u64 == WAKE_SERIAL)
				return NULL;
			client_left(w, events[i].data.u64);
		}
	}
}

struct httpd_work *httpd_work_new(struct httpd *h, struct err *e)
{
	struct httpd_work *w = NEW(struct httpd_work);
	w->httpd = h;
	w->max_workers = h->o.max_workers;
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->queued, NULL);
	pthread_condattr_t ca;
	pthread_condattr_init(&ca);
	pthread_condattr_setclock(&ca, CLOCK_MONOTONIC);
	pthread_cond_init(&w->idle, &ca);
	pthread_condattr_destroy(&ca);
	w->epoll = epoll_create1(EPOLL_CLOEXEC);
	w->wake = eventfd(0, EFD_CLOEXEC);
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = WAKE_SERIAL };
	if (w->epoll < 0 || w->wake < 0 || epoll_ctl(w->epoll, EPOLL_CTL_ADD, w->wake, &ev)) {
		err_errno(e, errno, "cannot watch sockets");
	} else if (thread_start(&w->watcher, "httpd-watch", watcher_main, w, e) == 0) {
		return w;
	}
	w->watcher = 0;
	httpd_work_free(w);
	return NULL;
}

void httpd_work_free(struct httpd_work *w)
{
	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	w->stop = true;
	pthread_cond_broadcast(&w->queued);
	pthread_mutex_unlock(&w->lock);
	for (size_t i = 0; i < w->workers.n; i++)
		pthread_join(w->workers.v[i], NULL);
	if (w->watcher) {
		uint64_t one = 1;
		while (write(w->wake, &one, sizeof one) < 0 && errno == EINTR)
			;
		pthread_join(w->watcher, NULL);
	}
	if (w->wake >= 0)
		close(w->wake);
	if (w->epoll >= 0)
		close(w->epoll);
	vec_free(&w->workers);
	pthread_cond_destroy(&w->queued);
	pthread_cond_destroy(&w->idle);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

/* Under the lock. A thread that cannot be started is not missed as long as there is another. */
static void start_worker(struct httpd_work *w)
{
	pthread_t t;
	if (thread_start(&t, "httpd-work", worker_main, w, NULL) == 0)
		vec_push(&w->workers, t);
}

bool httpd_work_submit(struct httpd_work *w, struct httpd_request *rq)
{
	pthread_mutex_lock(&w->lock);
	if (w->closed) {
		pthread_mutex_unlock(&w->lock);
		return false;
	}
	rq->serial = ++w->serial;
	if (rq->fd >= 0) {
		struct epoll_event ev = { .events = EPOLLRDHUP | EPOLLONESHOT, .data.u64 = rq->serial };
		epoll_ctl(w->epoll, EPOLL_CTL_ADD, rq->fd, &ev);
	}
	list_append(w, rq);
	w->n_in_flight++;
	w->n_waiting++;
	if (w->n_waiting > w->n_idle && w->workers.n < w->max_workers)
		start_worker(w);
	pthread_cond_signal(&w->queued);
	httpd_metrics_in_flight(1);
	pthread_mutex_unlock(&w->lock);
	return true;
}

unsigned httpd_work_in_flight(struct httpd_work *w)
{
	pthread_mutex_lock(&w->lock);
	unsigned n = w->n_in_flight;
	pthread_mutex_unlock(&w->lock);
	return n;
}

bool httpd_work_wait_idle(struct httpd_work *w, int64_t timeout_ms)
{
	int64_t until = clock_mono_ns() + timeout_ms * 1000000;
	struct timespec ts = { until / 1000000000, until % 1000000000 };
	int rc = 0;
	pthread_mutex_lock(&w->lock);
	while (w->n_in_flight && rc != ETIMEDOUT)
		rc = timeout_ms < 0 ? pthread_cond_wait(&w->idle, &w->lock) :
		     pthread_cond_timedwait(&w->idle, &w->lock, &ts);
	bool idle = !w->n_in_flight;
	pthread_mutex_unlock(&w->lock);
	return idle;
}

void httpd_work_cancel_all(struct httpd_work *w)
{
	pthread_mutex_lock(&w->lock);
	for (struct httpd_request *rq = w->first; rq; rq = rq->next)
		atomic_store(&rq->canceled, true);
	pthread_mutex_unlock(&w->lock);
}

void httpd_work_close(struct httpd_work *w)
{
	pthread_mutex_lock(&w->lock);
	w->closed = true;
	pthread_mutex_unlock(&w->lock);
	httpd_work_cancel_all(w);
}
