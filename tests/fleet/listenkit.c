/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fleet/listenkit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"

#define END_MS 10000

struct listener {
	bool (*serve)(void *arg, int fd, const char *request, struct view body);
	void *arg;
	int fd, port;
	pthread_t thread;
	atomic_bool ends;
	atomic_int running;          /* connections */
};

struct connection {
	struct listener *of;
	int fd;
};

void listener_send(int fd, const void *at, size_t n)
{
	for (const char *p = at; n;) {
		ssize_t w = send(fd, p, n, MSG_NOSIGNAL);
		if (w <= 0)
			return;
		p += w;
		n -= (size_t)w;
	}
}

void listener_answer(int fd, const char *status, const char *type, struct view body)
{
	struct buf b = { 0 };
	buf_printf(&b, "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n\r\n", status, type, body.len);
	buf_putv(&b, body);
	listener_send(fd, b.ptr, b.len);
	buf_free(&b);
}

/* The body of a request of which `in` is there; false: it is not all there. */
static bool connection_request(const struct buf *in, struct view *body)
{
	const char *end = in->len ? strstr(in->ptr, "\r\n\r\n") : NULL, *len = end ? strcasestr(in->ptr, "content-length: ") : NULL;
	if (!len)
		return false;
	size_t size = strtoul(len + 16, NULL, 10), head = (size_t)(end + 4 - in->ptr);
	*body = view_make(in->ptr + head, size);
	return in->len - head >= size;
}

static void *connection_main(void *arg)
{
	struct connection *c = arg;
	struct listener *l = c->of;
	struct buf in = { 0 };
	struct view body;
	char piece[16384];
	bool stays = true;
	while (stays && !listener_ends(l)) {
		ssize_t r = recv(c->fd, piece, sizeof piece, 0);
		if (r == 0 || (r < 0 && !listener_ends(l) && in.len))
			break;
		if (r < 0)
			continue; /* SO_RCVTIMEO: looks whether the test ends */
		buf_put(&in, piece, (size_t)r);
		if (!connection_request(&in, &body))
			continue;
		stays = l->serve(l->arg, c->fd, in.ptr, body);
		buf_reset(&in);
	}
	buf_free(&in);
	close(c->fd);
	free(c);
	atomic_fetch_sub(&l->running, 1);
	return NULL;
}

static void *listener_main(void *arg)
{
	struct listener *l = arg;
	const struct timeval half = { .tv_usec = 500000 };
	while (!listener_ends(l)) {
		pthread_t t;
		int fd = accept(l->fd, NULL, NULL);
		if (fd < 0)
			continue;
		struct connection *c = NEW(struct connection);
		*c = (struct connection){ l, fd };
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &half, sizeof half);
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &half, sizeof half);
		atomic_fetch_add(&l->running, 1);
		if (pthread_create(&t, NULL, connection_main, c))
			abort();
		pthread_detach(t);
	}
	return NULL;
}

struct listener *listener_new(bool (*serve)(void *arg, int fd, const char *request, struct view body), void *arg)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof a;
	struct listener *l = NEW(struct listener);
	l->serve = serve;
	l->arg = arg;
	l->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(l->fd, (struct sockaddr *)&a, sizeof a) || listen(l->fd, 512) || getsockname(l->fd, (struct sockaddr *)&a, &len) ||
	    pthread_create(&l->thread, NULL, listener_main, l))
		abort();
	l->port = ntohs(a.sin_port);
	return l;
}

void listener_free(struct listener *l)
{
	atomic_store(&l->ends, true);
	shutdown(l->fd, SHUT_RDWR);
	pthread_join(l->thread, NULL);
	close(l->fd);
	for (int64_t until = clock_mono_ms() + END_MS; atomic_load(&l->running);) {
		if (clock_mono_ms() > until)
			abort();
		clock_sleep_ms(10);
	}
	free(l);
}

int listener_port(const struct listener *l)
{
	return l->port;
}

bool listener_ends(const struct listener *l)
{
	return atomic_load(&l->ends);
}
