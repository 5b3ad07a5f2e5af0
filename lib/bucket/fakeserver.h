/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: an HTTP server on 127.0.0.1 that gives prepared answers in turn and remembers what it was asked. One connection at a time. */
#ifndef PYRRHA_BUCKET_FAKESERVER_H
#define PYRRHA_BUCKET_FAKESERVER_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/lock.h"

#define FAKE_ANSWERS 64

static struct {
	int fd, port;
	pthread_t thread;
	atomic_bool stop;
	atomic_int asked;           /* requests so far */
	struct mutex lock;
	char *answers[FAKE_ANSWERS]; /* of the next requests; the last one stays */
	size_t lengths[FAKE_ANSWERS], first, n;
	struct buf requests;        /* heads and bodies, one after the other */
} fake = { .lock = MUTEX_INIT(LOCK_LEAF, "fake") };

/* The bytes of one more answer; NULL: none, the connection is closed. */
static void fake_raw(const char *bytes, size_t n)
{
	mutex_lock(&fake.lock);
	if (fake.n == FAKE_ANSWERS)
		abort();
	fake.answers[fake.n] = bytes ? memcpy(xmalloc(n + 1), bytes, n) : NULL;
	fake.lengths[fake.n++] = n;
	mutex_unlock(&fake.lock);
}

static UNUSED void fake_answer(const char *status, const char *headers, const char *body)
{
	struct buf b = { 0 };
	buf_printf(&b, "HTTP/1.1 %s\r\nContent-Length: %zu\r\n%s\r\n%s", status, strlen(body), headers, body);
	fake_raw(b.ptr, b.len);
	buf_free(&b);
}

/* Forgets answers and requests. */
static UNUSED void fake_reset(void)
{
	mutex_lock(&fake.lock);
	for (size_t i = 0; i < fake.n; i++)
		free(fake.answers[i]);
	fake.n = fake.first = 0;
	buf_reset(&fake.requests);
	atomic_store(&fake.asked, 0);
	mutex_unlock(&fake.lock);
}

/* What came since the last reset. */
static UNUSED const char *fake_requests(void)
{
	return buf_view(&fake.requests).ptr;
}

static void fake_send(int fd)
{
	mutex_lock(&fake.lock);
	size_t i = fake.first, n = fake.n ? fake.lengths[i] : 0;
	char *bytes = fake.n && fake.answers[i] ? memcpy(xmalloc(n + 1), fake.answers[i], n) : NULL;
	if (fake.first + 1 < fake.n)
		fake.first++;
	mutex_unlock(&fake.lock);
	for (size_t sent = 0; bytes && sent < n;) {
		ssize_t w = send(fd, bytes + sent, n - sent, MSG_NOSIGNAL);
		if (w <= 0)
			break;
		sent += (size_t)w;
	}
	free(bytes);
}

/* Whether the head is there, and as many bytes after it as it says. */
static bool fake_complete(const struct buf *b)
{
	const char *end = b->len ? strstr(b->ptr, "\r\n\r\n") : NULL, *length = b->len ? strcasestr(b->ptr, "content-length: ") : NULL;
	return end && b->len >= (size_t)(end + 4 - b->ptr) + (length && length < end ? strtoul(length + 16, NULL, 10) : 0);
}

static void fake_serve_one(int fd)
{
	struct buf b = { 0 };
	char piece[8192];
	while (!fake_complete(&b)) {
		ssize_t got = read(fd, piece, sizeof piece);
		if (got <= 0)
			break;
		buf_put(&b, piece, (size_t)got);
	}
	mutex_lock(&fake.lock);
	buf_putv(&fake.requests, buf_view(&b));
	atomic_fetch_add(&fake.asked, 1);
	mutex_unlock(&fake.lock);
	buf_free(&b);
	fake_send(fd);
	close(fd);
}

static void *fake_serve(void *arg)
{
	while (!atomic_load(&fake.stop)) {
		int fd = accept(fake.fd, NULL, NULL);
		if (fd >= 0)
			fake_serve_one(fd);
	}
	return arg;
}

static int fake_start(void **state)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof a;
	fake.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(fake.fd, (struct sockaddr *)&a, sizeof a) || listen(fake.fd, 64) || getsockname(fake.fd, (struct sockaddr *)&a, &len))
		return -1;
	fake.port = ntohs(a.sin_port);
	return pthread_create(&fake.thread, NULL, fake_serve, NULL);
}

static int fake_stop(void **state)
{
	fake_reset();
	atomic_store(&fake.stop, true);
	shutdown(fake.fd, SHUT_RDWR);
	pthread_join(fake.thread, NULL);
	close(fake.fd);
	buf_free(&fake.requests);
	return 0;
}

#endif
