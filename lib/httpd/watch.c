/* SPDX-License-Identifier: Apache-2.0 */
/* One thread that waits in epoll until clients close the sockets of requests in flight. libmicrohttpd reports a client that left only
 * when a suspended connection is resumed, which is too late. It also ticks: deadlines of connections and of requests that wait.
 *
 * A socket is taken out of epoll before its connection is resumed, and libmicrohttpd closes nothing that is
 * suspended; an event that was already on its way is told apart by the request's serial number. */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "httpd/internal.h"

#define TICK_MS 500   /* how exact deadlines are */
#define WAKE_SERIAL 0 /* epoll data of the eventfd that ends the thread */

/* Ends what is beyond its time. */
static void tick(struct httpd *h)
{
	int64_t now = clock_mono_ns();
	for (size_t i = 0; i < h->listeners.n; i++)
		slots_tick(h->listeners.v[i].slots, now);
	httpd_work_tick(h->work, now);
}

static void *watcher_main(void *arg)
{
	struct httpd_watch *w = arg;
	struct epoll_event events[64];
	int64_t next_tick = 0;
	for (;;) {
		int64_t now = clock_mono_ms();
		if (now >= next_tick) {
			tick(w->httpd);
			next_tick = now + TICK_MS;
		}
		int n = epoll_wait(w->epoll, events, ARRAY_LEN(events), (int)MIN(next_tick - now, TICK_MS));
		if (n < 0 && errno != EINTR)
			return NULL;
		for (int i = 0; i < n; i++) {
			if (events[i].data.u64 == WAKE_SERIAL)
				return NULL;
			httpd_work_left(w->httpd->work, events[i].data.u64);
		}
	}
}

int httpd_watch_start(struct httpd *h, struct err *e)
{
	struct httpd_watch *w = NEW(struct httpd_watch);
	w->httpd = h;
	w->epoll = epoll_create1(EPOLL_CLOEXEC);
	w->wake = eventfd(0, EFD_CLOEXEC);
	h->watch = w;
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = WAKE_SERIAL };
	if (w->epoll < 0 || w->wake < 0 || epoll_ctl(w->epoll, EPOLL_CTL_ADD, w->wake, &ev))
		return err_errno(e, errno, "cannot watch sockets");
	int rc = thread_start(&w->thread, "httpd-watch", watcher_main, w, e);
	if (rc)
		w->thread = 0;
	return rc;
}

void httpd_watch_stop(struct httpd *h)
{
	struct httpd_watch *w = h->watch;
	if (!w)
		return;
	if (w->thread) {
		uint64_t one = 1;
		while (write(w->wake, &one, sizeof one) < 0 && errno == EINTR)
			;
		pthread_join(w->thread, NULL);
	}
	if (w->wake >= 0)
		close(w->wake);
	if (w->epoll >= 0)
		close(w->epoll);
	h->watch = NULL;
	free(w);
}
