/* SPDX-License-Identifier: Apache-2.0 */
/* Servers that have it, that have something else, too much, or nothing to say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/names/debuginfod.h"
#include "elf/elf_file.h"

enum manners { SENDS_FILE, SENDS_ENDLESSLY, SAYS_NOTHING, HAS_NOTHING };

struct server {
	enum manners manners;
	int listening;
	pthread_t thread;
	char url[64];
};

static bool send_all(int fd, const void *p, size_t n)
{
	for (size_t done = 0; done < n;) {
		ssize_t k = send(fd, (const char *)p + done, n - done, MSG_NOSIGNAL);
		if (k <= 0)
			return false;
		done += (size_t)k;
	}
	return true;
}

/* This program. */
static void send_file(int to)
{
	char piece[65536];
	struct stat st;
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0 || fstat(fd, &st))
		return;
	snprintf(piece, sizeof piece, "HTTP/1.1 200 OK\r\nContent-Length: %lld\r\nConnection: close\r\n\r\n", (long long)st.st_size);
	send_all(to, piece, strlen(piece));
	while ((n = read(fd, piece, sizeof piece)) > 0 && send_all(to, piece, (size_t)n)) {
	}
	close(fd);
}

/* Does not say how much it will be. */
static void send_endlessly(int to)
{
	static const char head[] = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
	static const char zeros[65536];

	for (bool on = send_all(to, head, sizeof head - 1); on;)
		on = send_all(to, zeros, sizeof zeros);
}

static void *serve(void *arg)
{
	struct server *s = arg;
	char request[4096];

	for (int fd; (fd = accept(s->listening, NULL, NULL)) >= 0; close(fd)) {
		static const char none[] = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
		if (recv(fd, request, sizeof request, 0) <= 0)
			continue;
		if (s->manners == SENDS_FILE)
			send_file(fd);
		else if (s->manners == SENDS_ENDLESSLY)
			send_endlessly(fd);
		else if (s->manners == HAS_NOTHING)
			send_all(fd, none, sizeof none - 1);
		else
			while (recv(fd, request, sizeof request, 0) > 0) { /* until the client goes */
			}
	}
	return NULL;
}

static void start(struct server *s, enum manners m)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t n = sizeof a;

	s->manners = m;
	s->listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(s->listening, (struct sockaddr *)&a, sizeof a), 0);
	assert_int_equal(listen(s->listening, 8), 0);
	assert_int_equal(getsockname(s->listening, (struct sockaddr *)&a, &n), 0);
	snprintf(s->url, sizeof s->url, "http://127.0.0.1:%d", ntohs(a.sin_port));
	assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
}

static void stop(struct server *s)
{
	shutdown(s->listening, SHUT_RDWR);
	pthread_join(s->thread, NULL);
	close(s->listening);
}

static const char *own_build_id(void)
{
	static char hex[65];
	uint8_t id[32];
	struct elf_file f;
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	assert_int_equal(elf_open(&f, fd, NULL), 0);
	size_t n = elf_build_id(&f, id, sizeof id);
	for (size_t i = 0; i < n; i++)
		snprintf(hex + 2 * i, 3, "%02x", id[i]);
	elf_close(&f);
	close(fd);
	return hex;
}

/* What comes of asking such a server; the size of what it delivered, or an error's code. */
static int64_t fetch(enum manners m, const char *build_id, const struct debuginfod_limits *l)
{
	struct server s;
	struct err e = { 0 };
	struct stat st;

	start(&s, m);
	int fd = debuginfod_fetch(s.url, NULL, build_id, l, NULL, &e);
	stop(&s);
	if (fd < 0)
		return -(int64_t)e.code;
	assert_int_equal(fstat(fd, &st), 0);
	close(fd);
	return st.st_size;
}

static const char other[] = "00112233445566778899aabbccddeeff00112233";

static void test_answers(void **state)
{
	struct stat st;
	assert_int_equal(stat("/proc/self/exe", &st), 0);
	if (own_build_id()[0])
		assert_int_equal(fetch(SENDS_FILE, own_build_id(), &debuginfod_limits), st.st_size);
	assert_int_equal(fetch(SENDS_FILE, other, &debuginfod_limits), -ERR_BAD_DATA);
	assert_int_equal(fetch(HAS_NOTHING, other, &debuginfod_limits), -ERR_NOT_FOUND);
}

/* What the agent has already reserved, such as stacks of its threads, is no memory of the client. */
static void test_large_agent(void **state)
{
	void *more = mmap(NULL, (size_t)2 << 30, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_true(more != MAP_FAILED);
	assert_int_equal(fetch(HAS_NOTHING, other, &debuginfod_limits), -ERR_NOT_FOUND);
	munmap(more, (size_t)2 << 30);
}

static void test_size(void **state)
{
	static const struct debuginfod_limits small = { 100000, 60, 90000 };
	/* Told in advance, and not told: neither is taken, and neither fills a disk. What the client calls it depends on how
	 * much had come by then. */
	assert_true(fetch(SENDS_FILE, own_build_id(), &small) < 0);
	assert_true(fetch(SENDS_ENDLESSLY, other, &small) < 0);
}

static void test_time(void **state)
{
	/* The client itself would wait for ten seconds without a byte. */
	static const struct debuginfod_limits hasty = { 1 << 20, 60, 300 };
	assert_int_equal(fetch(SAYS_NOTHING, other, &hasty), -ERR_TIMEOUT);
}

/* Without a cache it needs a folder for what comes: where the root is read only, as in a container, that is not /tmp. */
static void test_temporary_folder(void **state)
{
	char folder[] = "/tmp/pyrrha-debuginfod-test-XXXXXX";

	setenv("TMPDIR", "/proc", 1);
	assert_int_equal(fetch(HAS_NOTHING, other, &debuginfod_limits), -ERR_IO);
	assert_non_null(mkdtemp(folder));
	setenv("TMPDIR", folder, 1);
	assert_int_equal(fetch(HAS_NOTHING, other, &debuginfod_limits), -ERR_NOT_FOUND);
	unsetenv("TMPDIR");
	assert_int_equal(rmdir(folder), 0);  /* nothing is left in it */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers), cmocka_unit_test(test_large_agent), cmocka_unit_test(test_size), cmocka_unit_test(test_time),
		cmocka_unit_test(test_temporary_folder),
	};
	if (!dlopen("libdebuginfod.so.1", RTLD_NOW)) {
		print_message("libdebuginfod1 is not installed\n");
		return 77;
	}
	unsetenv("http_proxy");
	unsetenv("HTTP_PROXY");
	unsetenv("all_proxy");
	unsetenv("ALL_PROXY");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
