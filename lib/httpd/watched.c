/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets that the watcher (watch.c) looks at: in while their requests are at work. */
#include <sys/epoll.h>

#include "httpd/internal.h"

void httpd_watch_add(struct httpd_watch *w, int fd, uint64_t serial)
{
	struct epoll_event ev = { .events = EPOLLRDHUP | EPOLLONESHOT, .data.u64 = serial };
	if (fd >= 0)
		epoll_ctl(w->epoll, EPOLL_CTL_ADD, fd, &ev);
}

void httpd_watch_remove(struct httpd_watch *w, int fd)
{
	if (fd >= 0)
		epoll_ctl(w->epoll, EPOLL_CTL_DEL, fd, NULL);
}
