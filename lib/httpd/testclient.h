/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: a client that sends bytes over a real socket and reads until the server closes. */
#ifndef PYRRHA_HTTPD_TESTCLIENT_H
#define PYRRHA_HTTPD_TESTCLIENT_H

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "httpd/httpd.h"

struct answer {
	struct buf all;
	int status;
	const char *body; /* in all; "" if there is none */
	size_t n_body;
};

static inline int test_connect(const char *address)
{
	char host[256], port[8];
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *ai;
	if (!httpd_split_address(address, host, port) || getaddrinfo(host, port, &hints, &ai))
		return -1;
	int fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, ai->ai_addr, ai->ai_addrlen)) {
		close(fd);
		fd = -1;
	}
	struct timeval limit = { .tv_sec = 30 };
	if (fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	freeaddrinfo(ai);
	return fd;
}

static inline bool test_send(int fd, const char *p, size_t n)
{
	while (n) {
		ssize_t k = send(fd, p, n, MSG_NOSIGNAL);
		if (k <= 0)
			return false;
		p += k;
		n -= (size_t)k;
	}
	return true;
}

/* Reads until the end of the stream, closes, finds status and body. */
static inline struct answer test_receive(int fd)
{
	struct answer a = { .body = "" };
	char tmp[16384];
	ssize_t k;
	while ((k = recv(fd, tmp, sizeof tmp, 0)) > 0)
		buf_put(&a.all, tmp, (size_t)k);
	close(fd);
	buf_put(&a.all, "", 0);
	if (strncmp(a.all.ptr, "HTTP/1.1 ", 9) == 0)
		a.status = (int)strtol(a.all.ptr + 9, NULL, 10);
	char *blank = strstr(a.all.ptr, "\r\n\r\n");
	if (blank) {
		a.body = blank + 4;
		a.n_body = a.all.len - (size_t)(a.body - a.all.ptr);
	}
	return a;
}

/* head: request line and headers without the last empty line; body may be NULL. */
static inline struct answer test_ask(const char *address, const char *head, const char *body)
{
	struct answer none = { .body = "" };
	int fd = test_connect(address);
	if (fd < 0)
		return none;
	struct buf b = { 0 };
	buf_printf(&b, "%s\r\nHost: localhost\r\nConnection: close\r\n", head);
	if (body)
		buf_printf(&b, "Content-Length: %zu\r\n", strlen(body));
	buf_printf(&b, "\r\n%s", body ? body : "");
	test_send(fd, b.ptr, b.len);
	buf_free(&b);
	return test_receive(fd);
}

/* GET of a path. */
static inline struct answer test_get(const char *address, const char *path)
{
	struct buf head = { 0 };
	buf_printf(&head, "GET %s HTTP/1.1", path);
	struct answer a = test_ask(address, head.ptr, NULL);
	buf_free(&head);
	return a;
}

static inline struct answer test_post_form(const char *address, const char *path, const char *form)
{
	struct buf head = { 0 };
	buf_printf(&head, "POST %s HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded", path);
	struct answer a = test_ask(address, head.ptr, form);
	buf_free(&head);
	return a;
}

/* The value of a header of the answer, or NULL; in a buffer of its own that the next call overwrites. */
static inline const char *test_header(const struct answer *a, const char *name)
{
	static char value[1024];
	size_t n = strlen(name);
	for (const char *p = strstr(a->all.ptr, "\r\n"); p && p + 4 <= a->body; p = strstr(p + 2, "\r\n"))
		if (strncasecmp(p + 2, name, n) == 0 && p[2 + n] == ':') {
			p += n + 3;
			p += strspn(p, " ");
			snprintf(value, sizeof value, "%.*s", (int)strcspn(p, "\r"), p);
			return value;
		}
	return NULL;
}

static inline void answer_free(struct answer *a)
{
	buf_free(&a->all);
}

#endif
