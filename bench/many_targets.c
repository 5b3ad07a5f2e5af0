/* SPDX-License-Identifier: Apache-2.0 */
/* Very many Go programs to scrape, for the price of one: a server that answers on each address of 127.0.0.0/8 at one port
 * with the same bodies, and lets `seconds=` pass before it does. One thread, epoll, connections that are kept.
 *
 *	many_targets PORT DIR        DIR/NAME is what .../NAME answers; prints one line when it listens
 *	many_targets PORT hostile    a third each never answers, resets, sends garbage
 *
 * Bound to the interface lo, so that nobody else can reach it. bench/many_targets starts it. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/heap.h"

#define BODIES 16
#define REQUEST 2048

struct answer {
	char name[64];
	struct buf bytes; /* with headers */
};

struct conn {
	int fd;
	unsigned kind;          /* of the hostile: last part of the address, modulo 3 */
	struct heap_node due;   /* when to answer; monotonic ms */
	const struct answer *answer;
	size_t sent, got;
	bool waits_to_write;
	char request[REQUEST];
};

static struct answer answers[BODIES];
static size_t n_answers;
static bool hostile;
static int epoll_fd, listen_fd;
static struct heap due;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void read_body(const char *dir, const char *name)
{
	char path[512], body[1 << 20];
	snprintf(path, sizeof path, "%s/%s", dir, name);
	FILE *f = fopen(path, "re");
	if (!f)
		die(path);
	size_t n = fread(body, 1, sizeof body, f);
	fclose(f);
	struct answer *a = &answers[n_answers++];
	snprintf(a->name, sizeof a->name, "%s", name);
	buf_printf(&a->bytes, "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: %zu\r\n\r\n", n);
	buf_put(&a->bytes, body, n);
}

static void read_bodies(const char *dir)
{
	DIR *d = opendir(dir);
	if (!d)
		die(dir);
	for (const struct dirent *e; (e = readdir(d)) && n_answers < BODIES;)
		if (e->d_name[0] != '.')
			read_body(dir, e->d_name);
	closedir(d);
}

static void make_hostile(void)
{
	answers[0] = (struct answer){ .name = "garbage" };
	buf_printf(&answers[0].bytes, "HTTP/1.1 200 OK\r\nContent-Length: 4096\r\n\r\n");
	for (size_t i = 0; i < 4096; i++)
		buf_putc(&answers[0].bytes, (char)(i * 2654435761u >> 7));
	n_answers = 1;
	hostile = true;
}

static void close_conn(struct conn *c)
{
	heap_remove(&due, &c->due);
	close(c->fd);
	free(c);
}

static void watch(struct conn *c, uint32_t events, int op)
{
	struct epoll_event ev = { .events = events, .data.ptr = c };
	if (epoll_ctl(epoll_fd, op, c->fd, &ev))
		die("epoll_ctl");
}

/* False: the connection is gone. */
static bool send_answer(struct conn *c)
{
	const struct buf *b = &c->answer->bytes;
	while (c->sent < b->len) {
		ssize_t n = send(c->fd, b->ptr + c->sent, b->len - c->sent, MSG_NOSIGNAL);
		if (n < 0 && errno == EAGAIN) {
			c->waits_to_write = true;
			watch(c, EPOLLIN | EPOLLOUT, EPOLL_CTL_MOD);
			return true;
		}
		if (n <= 0) {
			close_conn(c);
			return false;
		}
		c->sent += (size_t)n;
	}
	if (c->waits_to_write)
		watch(c, EPOLLIN, EPOLL_CTL_MOD);
	c->waits_to_write = false;
	c->answer = NULL;
	c->got = 0;
	return true;
}

static const struct answer *find_answer(const char *path, size_t n)
{
	for (size_t i = 0; i < n_answers; i++) {
		size_t len = strlen(answers[i].name);
		if (hostile || (n > len && path[n - len - 1] == '/' && memcmp(path + n - len, answers[i].name, len) == 0))
			return &answers[i];
	}
	return NULL;
}

static void reset(struct conn *c)
{
	setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &(struct linger){ 1, 0 }, sizeof(struct linger));
	close_conn(c);
}

static void on_request(struct conn *c)
{
	const char *path = strchr(c->request, ' '), *seconds = strstr(c->request, "seconds=");
	if (hostile && c->kind == 0)
		return;
	if (hostile && c->kind == 1) {
		reset(c);
		return;
	}
	c->answer = path ? find_answer(path + 1, strcspn(path + 1, " ?")) : NULL;
	c->sent = 0;
	if (!c->answer)
		close_conn(c);
	else if (seconds && !hostile)
		heap_put(&due, &c->due, clock_mono_ms() + 1000 * strtol(seconds + 8, NULL, 10));
	else
		send_answer(c);
}

static void on_readable(struct conn *c)
{
	ssize_t n = recv(c->fd, c->request + c->got, REQUEST - 1 - c->got, 0);
	if (n <= 0) {
		if (n == 0 || errno != EAGAIN)
			close_conn(c);
		return;
	}
	c->got += (size_t)n;
	c->request[c->got] = 0;
	if (!c->answer && strstr(c->request, "\r\n\r\n"))
		on_request(c);
}

static void on_connection(void)
{
	struct sockaddr_in to;
	socklen_t len = sizeof to;
	for (int fd, i = 0; i < 64 && (fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0; i++) {
		struct conn *c = NEW(struct conn);
		c->fd = fd;
		if (hostile && getsockname(fd, (struct sockaddr *)&to, &len) == 0)
			c->kind = ntohl(to.sin_addr.s_addr) % 3;
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
		watch(c, EPOLLIN, EPOLL_CTL_ADD);
	}
}

static void listen_on(int port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_ANY) };
	listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	setsockopt(listen_fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int));
	if (setsockopt(listen_fd, SOL_SOCKET, SO_BINDTODEVICE, "lo", 3))
		die("SO_BINDTODEVICE lo");
	if (bind(listen_fd, (struct sockaddr *)&a, sizeof a) || listen(listen_fd, 4096))
		die("listen");
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event ev = { .events = EPOLLIN };
	if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listen_fd, &ev))
		die("epoll_ctl");
}

static int answer_those_due(void)
{
	int64_t now = clock_mono_ms();
	struct heap_node *n;
	while ((n = heap_first(&due)) && n->key <= now) {
		struct conn *c = heap_entry(n, struct conn, due);
		heap_remove(&due, n);
		send_answer(c);
	}
	return n ? (int)MIN(n->key - now, 1000) : 1000;
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return fprintf(stderr, "usage: many_targets PORT DIR|hostile\n"), 2;
	files_raise_limit();
	if (strcmp(argv[2], "hostile") == 0)
		make_hostile();
	else
		read_bodies(argv[2]);
	listen_on((int)strtol(argv[1], NULL, 10));
	printf("listening\n");
	fflush(stdout);
	for (;;) {
		struct epoll_event ev[256];
		int n = epoll_wait(epoll_fd, ev, 256, answer_those_due());
		for (int i = 0; i < n; i++) {
			struct conn *c = ev[i].data.ptr;
			if (!c)
				on_connection();
			else if (ev[i].events & EPOLLOUT && c->answer && !(ev[i].events & EPOLLHUP))
				send_answer(c);
			else
				on_readable(c);
		}
	}
}
