/* SPDX-License-Identifier: Apache-2.0 */
/* The client against a small server: what it sends, what it makes of answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/files.h"
#include "fetch/fetch.h"

/* One connection at a time; /echo gives back the request itself. */
static struct {
	int fd, port;
	pthread_t thread;
	atomic_bool stop;
	atomic_int tokens, connections;
} server;

static void send_all(int fd, const char *p, size_t n)
{
	while (n) {
		ssize_t w = send(fd, p, n, MSG_NOSIGNAL);
		if (w <= 0)
			return;
		p += w;
		n -= (size_t)w;
	}
}

static void answer(int fd, const char *status, const char *headers, const char *body)
{
	struct buf b = { 0 };
	buf_printf(&b, "HTTP/1.1 %s\r\nContent-Length: %zu\r\nConnection: close\r\n%s\r\n%s", status, strlen(body), headers, body);
	send_all(fd, b.ptr, b.len);
	buf_free(&b);
}

static void give(int fd, const char *request)
{
	char body[256];
	if (strstr(request, " /echo"))
		answer(fd, "200 OK", "Content-Type: text/plain\r\n", request);
	else if (strstr(request, " /hop")) {
		snprintf(body, sizeof body, "Location: http://127.0.0.1:%d/echo\r\n", server.port);
		answer(fd, "302 Found", body, "");
	} else if (strstr(request, " /megabytes")) {
		char *text = xcalloc(1, (3 << 20) + 1);
		memset(text, 'x', 3 << 20);
		answer(fd, "200 OK", "", text);
		free(text);
	} else if (strstr(request, " /later"))
		answer(fd, "429 Slow", "Retry-After: 7\r\n", "slow down");
	else if (strstr(request, " /token")) {
		snprintf(body, sizeof body, "{\"token_type\":\"bearer\", \"access_token\" : \"tok%d\",\"expires_in\":3600}",
			 atomic_fetch_add(&server.tokens, 1));
		answer(fd, strstr(request, "grant_type=client_credentials&scope=a%20b") ? "200 OK" : "400 Bad", "", body);
	} else if (strstr(request, " /refuse"))
		answer(fd, "401 No", "", "{}");
	else if (strstr(request, " /hang"))
		for (int i = 0; i < 300 && !atomic_load(&server.stop); i++)
			clock_sleep_ms(10);
	else if (strstr(request, " /keep"))
		send_all(fd, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nkept", 42);
	else if (strstr(request, " /long"))
		answer(fd, "200 OK", "", "0123456789");
	else
		answer(fd, "404 None", "", "");
}

static char upload_byte(uint64_t offset)
{
	return (char)(offset * 31 >> 7);
}

/* A PUT, of which n bytes are there. /sink answers with the number of right bytes of the body, /deny before it has read any. */
static void take_upload(int fd, char *p, size_t n)
{
	char body[64];
	const char *len = strcasestr(p, "content-length: ");
	size_t head = (size_t)(strstr(p, "\r\n\r\n") + 4 - p), size = len ? strtoul(len + 16, NULL, 10) : 0, seen = 0, right = 0;
	if (strstr(p, " /deny")) {
		answer(fd, "403 No", "", "you may not");
		return;
	}
	if (strstr(p, " /hang")) {
		clock_sleep_ms(2500);
		return;
	}
	bool waits = strcasestr(p, "\r\nExpect:");
	memmove(p, p + head, n -= head);
	for (ssize_t r = 0; seen < size && r >= 0; n = r > 0 ? (size_t)r : 0) {
		for (size_t i = 0; i < n; i++)
			right += p[i] == upload_byte(seen + i);
		seen += n;
		r = seen < size ? read(fd, p, 8192) : -1;
		r = r ? r : -1;
	}
	snprintf(body, sizeof body, "%zu%s", right, waits ? " and waits" : "");
	answer(fd, "200 OK", "", body);
}

static bool request_complete(const char *r)
{
	if (strncmp(r, "PUT ", 4) == 0)
		return strstr(r, "\r\n\r\n");
	const char *end = strstr(r, "\r\n\r\n"), *len = strcasestr(r, "content-length: ");
	return end && (!len || strlen(end + 4) >= (size_t)strtol(len + 16, NULL, 10));
}

static void *serve_one(void *arg)
{
	int fd = (int)(intptr_t)arg;
	char request[8193] = "";
	size_t n = 0;
	atomic_fetch_add(&server.connections, 1);
again:
	while (n < sizeof request - 1 && !request_complete(request)) {
		ssize_t r = read(fd, request + n, sizeof request - 1 - n);
		if (r <= 0)
			break;
		n += (size_t)r;
		request[n] = 0;
	}
	if (strncmp(request, "PUT ", 4) == 0 && request_complete(request))
		take_upload(fd, request, n);
	else
		give(fd, request);
	if (strstr(request, " /keep")) {
		n = 0;
		request[0] = 0;
		goto again;
	}
	close(fd);
	return NULL;
}

static void *serve(void *arg)
{
	while (!atomic_load(&server.stop)) {
		pthread_t t;
		int fd = accept(server.fd, NULL, NULL);
		if (fd >= 0 && pthread_create(&t, NULL, serve_one, (void *)(intptr_t)fd) == 0)
			pthread_detach(t);
	}
	return NULL;
}

static int start(void **state)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof a;
	server.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(server.fd, (struct sockaddr *)&a, sizeof a), 0);
	assert_int_equal(listen(server.fd, 256), 0);
	assert_int_equal(getsockname(server.fd, (struct sockaddr *)&a, &len), 0);
	server.port = ntohs(a.sin_port);
	return pthread_create(&server.thread, NULL, serve, NULL);
}

static int stop(void **state)
{
	atomic_store(&server.stop, true);
	shutdown(server.fd, SHUT_RDWR);
	pthread_join(server.thread, NULL);
	close(server.fd);
	return 0;
}

/* One blocking GET of a path. */
static int get(const struct http_config *c, const char *path, struct fetch_request q, struct fetch_response *r,
	       struct err *e)
{
	char url[128];
	snprintf(url, sizeof url, "http://127.0.0.1:%d%s", server.port, path);
	q.url = url;
	if (!q.timeout_ms)
		q.timeout_ms = 5000;
	struct fetch_client *client = fetch_client_new(c, "test/1");
	int rc = fetch_do(client, &q, r, e);
	fetch_client_unref(client);
	return rc;
}

static void expect_in_request(const struct http_config *c, const char *path, const char *line)
{
	struct fetch_response r;
	struct err e = { 0 };
	if (get(c, path, (struct fetch_request){ 0 }, &r, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(r.status, 200);
	if (!strstr(r.body.ptr, line))
		fail_msg("%s is not in %s", line, r.body.ptr);
	fetch_response_release(&r);
}

static void what_is_sent(void **state)
{
	struct http_config c = { .follow_redirects = true, .enable_http2 = true };
	struct http_basic_auth basic = { .username = "u", .password = "p" };
	struct http_authorization auth = { .type = "Bearer", .credentials = "c" };
	const char *values[] = { "1", "" };
	struct http_header h = { "X-A", { values, 2 }, { 0 }, { 0 } };
	expect_in_request(&c, "/echo", "User-Agent: test/1\r\n");
	expect_in_request(&c, "/hop", "GET /echo ");
	c.basic_auth = &basic;
	expect_in_request(&c, "/echo", "Authorization: Basic dTpw\r\n");
	c.basic_auth = NULL;
	c.authorization = &auth;
	expect_in_request(&c, "/echo", "Authorization: Bearer c\r\n");
	c.headers = &h;
	c.n_headers = 1;
	expect_in_request(&c, "/echo", "X-A: 1\r\n");
	char file[] = "/tmp/pyrrha-fetch-XXXXXX";
	int fd = mkstemp(file);
	assert_int_equal(write(fd, " tok en\n", 8), 8);
	auth.credentials_file = file;
	expect_in_request(&c, "/echo", "Authorization: Bearer tok en\r\n");
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(pwrite(fd, "new", 3, 0), 3);
	expect_in_request(&c, "/echo", "Authorization: Bearer new\r\n");
	close(fd);
	unlink(file);
	struct fetch_response r;
	struct err e = { 0 };
	assert_true(get(&c, "/echo", (struct fetch_request){ 0 }, &r, &e) < 0);
	assert_non_null(strstr(e.msg, "authorization: cannot read /tmp/pyrrha-fetch-"));
}

static void what_a_redirect_makes_of_a_post(void **state)
{
	for (int keep = 0; keep < 2; keep++) {
		struct fetch_response r;
		struct err e = { 0 };
		assert_int_equal(get(NULL, "/hop", (struct fetch_request){ .body = VIEW("all of it"), .keep_method = keep }, &r, &e), 0);
		assert_int_equal(strstr(r.body.ptr, "POST /echo ") && strstr(r.body.ptr, "\r\n\r\nall of it"), keep);
		fetch_response_release(&r);
	}
}

static void what_comes_back(void **state)
{
	struct fetch_response r;
	struct err e = { 0 };
	assert_int_equal(get(NULL, "/later", (struct fetch_request){ .want_headers = { "X-None", "retry-after" } }, &r, &e), 0);
	assert_int_equal(r.status, 429);
	assert_int_equal(r.retry_after_s, 7);
	assert_string_equal(r.headers[1], "7");
	assert_string_equal(r.headers[0], "");
	assert_string_equal(r.body.ptr, "slow down");
	fetch_response_release(&r);
	assert_int_equal(get(NULL, "/echo", (struct fetch_request){ .body = VIEW("hello"), .want_headers = { "X-None" } }, &r, &e), 0);
	assert_string_equal(r.headers[0], "");
	assert_non_null(strstr(r.body.ptr, "POST /echo"));
	assert_non_null(strstr(r.body.ptr, "\r\n\r\nhello"));
	assert_string_equal(r.content_type, "text/plain");
	fetch_response_release(&r);
	assert_int_equal(get(NULL, "/long", (struct fetch_request){ .max_bytes = 9 }, &r, &e), -ERR_LIMIT);
	fetch_response_release(&r);
	assert_int_equal(get(NULL, "/long", (struct fetch_request){ .max_bytes = 10 }, &r, &e), 0);
	assert_int_equal(r.body.len, 10);
	fetch_response_release(&r);
	assert_int_equal(get(NULL, "/hang", (struct fetch_request){ .timeout_ms = 100 }, &r, &e), -ERR_TIMEOUT);
	fetch_response_release(&r);
	atomic_bool canceled = true;
	int64_t from = clock_mono_ms();
	assert_int_equal(get(NULL, "/hang", (struct fetch_request){ .cancel = &canceled }, &r, &e), -ERR_CANCELED);
	assert_true(clock_mono_ms() - from < 2000);
	fetch_response_release(&r);
	struct fetch_client *client = fetch_client_new(NULL, NULL);
	assert_true(fetch_do(client, &(struct fetch_request){ .url = "ftp://127.0.0.1/" }, &r, &e) < 0);
	assert_true(fetch_do(client, &(struct fetch_request){ .url = "http://nobody.invalid/", .timeout_ms = 3000 }, &r, &e) < 0);
	assert_true(e.code == ERR_UNAVAILABLE || e.code == ERR_TIMEOUT);
	fetch_client_unref(client);
}

struct upload_state {
	uint64_t fails_at, asked;
	int64_t sleep_ms;
};

static int read_upload(void *arg, uint64_t offset, char *p, size_t n, struct err *e)
{
	struct upload_state *s = arg;
	s->asked += n;
	if (offset + n > s->fails_at)
		return err_set(e, ERR_CORRUPT, "the file changed");
	clock_sleep_ms(s->sleep_ms);
	for (size_t i = 0; i < n; i++)
		p[i] = upload_byte(offset + i);
	return 0;
}

static int upload(const char *path, uint64_t size, struct upload_state *s, struct fetch_response *r, struct err *e)
{
	struct fetch_upload u = { size, read_upload, s };
	*e = (struct err){ 0 };
	return get(NULL, path, (struct fetch_request){ .upload = &u, .timeout_ms = 60000 }, r, e);
}

static void uploads_are_read_while_they_are_sent(void **state)
{
	const uint64_t size = (uint64_t)100 << 20;
	struct upload_state s = { .fails_at = UINT64_MAX };
	struct fetch_response r;
	struct err e;
	struct rusage before, after;
	assert_int_equal(getrusage(RUSAGE_SELF, &before), 0);
	assert_int_equal(upload("/sink", size, &s, &r, &e), 0);
	assert_int_equal(getrusage(RUSAGE_SELF, &after), 0);
	assert_string_equal(r.body.ptr, "104857600");
	assert_int_equal(s.asked, size);
	assert_true(after.ru_maxrss - before.ru_maxrss < 8 << 10); /* KiB */
	fetch_response_release(&r);
	/* An empty one. */
	assert_int_equal(upload("/sink", 0, &s, &r, &e), 0);
	assert_string_equal(r.body.ptr, "0");
	fetch_response_release(&r);
}

static void an_upload_that_fails(void **state)
{
	struct upload_state s = { .fails_at = 3 << 20 };
	struct fetch_response r;
	struct err e;
	assert_int_equal(upload("/sink", 10 << 20, &s, &r, &e), -ERR_CORRUPT);
	assert_string_equal(e.msg, "the file changed");
	fetch_response_release(&r);
	/* The server answers at once and closes, with the body unread: the answer counts, not the reset. */
	for (int i = 0; i < 100; i++) {
		s = (struct upload_state){ .fails_at = UINT64_MAX };
		if (upload("/deny", 50 << 20, &s, &r, &e))
			fail_msg("%d: %s", i, e.msg);
		assert_int_equal(r.status, 403);
		assert_string_equal(r.body.ptr, "you may not");
		assert_true(s.asked < 50 << 20);
		fetch_response_release(&r);
	}
}

/* An exchange that stalls ends; one whose reader is slow does not. */
static void stalls(void **state)
{
	struct upload_state s = { .fails_at = UINT64_MAX };
	struct fetch_upload u = { 50 << 20, read_upload, &s };
	struct fetch_response r;
	struct err e = { 0 };
	int64_t from = clock_mono_ms();
	assert_int_equal(get(NULL, "/hang", (struct fetch_request){ .stall_ms = 200, .timeout_ms = 60000 }, &r, &e), -ERR_TIMEOUT);
	assert_non_null(strstr(e.msg, "connected, but no answer came"));
	fetch_response_release(&r);
	assert_int_equal(get(NULL, "/hang", (struct fetch_request){ .stall_ms = 200, .timeout_ms = 60000, .upload = &u }, &r, &e), -ERR_TIMEOUT);
	assert_non_null(strstr(e.msg, "the peer stopped reading"));
	fetch_response_release(&r);
	assert_true(clock_mono_ms() - from < 6000);
	s = (struct upload_state){ .fails_at = UINT64_MAX, .sleep_ms = 700 };
	u.size = 200000;
	if (get(NULL, "/sink", (struct fetch_request){ .stall_ms = 500, .timeout_ms = 60000, .upload = &u }, &r, &e))
		fail_msg("%s", e.msg);
	assert_string_equal(r.body.ptr, "200000");
	fetch_response_release(&r);
}

static void connections_are_kept(void **state)
{
	char url[128];
	struct fetch_response r;
	struct err e = { 0 };
	for (int keep = 0; keep < 2; keep++) {
		struct fetch_client *client = fetch_client_new(NULL, NULL);
		if (keep)
			fetch_client_keep(client, 4, 60000);
		int before = atomic_load(&server.connections);
		for (int i = 0; i < 10; i++) {
			/* A server that closes after its answer, and one that fails, leave nothing to keep. */
			snprintf(url, sizeof url, "http://127.0.0.1:%d/%s", server.port, i == 3 ? "long" : "keep");
			struct fetch_request q = { .url = url, .timeout_ms = 5000, .max_bytes = i == 6 ? 3 : 0 };
			assert_int_equal(fetch_do(client, &q, &r, &e), i == 6 ? -ERR_LIMIT : 0);
			if (i != 6)
				assert_string_equal(r.body.ptr, i == 3 ? "0123456789" : "kept");
			fetch_response_release(&r);
		}
		assert_int_equal(atomic_load(&server.connections) - before, keep ? 3 : 10);
		fetch_client_unref(client);
	}
}

static void tokens(void **state)
{
	char url[128];
	const char *scopes[] = { "a", "b" };
	snprintf(url, sizeof url, "http://127.0.0.1:%d/token", server.port);
	struct http_oauth2 o = { .client_id = "id", .client_secret = "s3cret", .scopes = { scopes, 2 }, .token_url = url };
	struct http_config c = { .oauth2 = &o, .enable_http2 = true };
	expect_in_request(&c, "/echo", "Authorization: Bearer tok0\r\n");
	assert_int_equal(atomic_load(&server.tokens), 1);
	struct fetch_response r;
	struct err e = { 0 };
	snprintf(url, sizeof url, "http://127.0.0.1:%d/refuse", server.port);
	assert_int_equal(get(&c, "/echo", (struct fetch_request){ 0 }, &r, &e), -ERR_DENIED);
	assert_string_equal(e.msg, "oauth2: asking for a token: the token URL answered 401");
	/* One that hangs holds nobody up at the end. */
	snprintf(url, sizeof url, "http://127.0.0.1:%d/hang", server.port);
	int64_t from = clock_mono_ms();
	struct fetch_client *client = fetch_client_new(&c, NULL);
	fetch_client_unref(client);
	assert_true(clock_mono_ms() - from < 2500);
}

struct done_state {
	size_t n, errors;
};

static void on_done(void *arg, struct fetch_response *r, const struct err *e)
{
	struct done_state *d = arg;
	d->n++;
	d->errors += e->code != 0;
}

static void many_at_once(void **state)
{
	struct err e = { 0 };
	struct fetch_loop *l = fetch_loop_new(&e);
	struct done_state d = { 0 };
	struct fetch *hanging = NULL;
	char url[128];
	struct fetch_client *client = fetch_client_new(NULL, NULL);
	for (int i = 0; i < 20; i++) {
		snprintf(url, sizeof url, "http://127.0.0.1:%d/%s", server.port, i == 7 ? "hang" : "long");
		struct fetch_request q = { .url = url, .timeout_ms = 5000 };
		assert_int_equal(fetch_start(l, client, &q, on_done, &d, i == 7 ? &hanging : NULL, &e), 0);
	}
	assert_int_equal(fetch_loop_running(l), 20);
	int64_t end = clock_mono_ms() + 4000;
	while (d.n < 19 && clock_mono_ms() < end)
		assert_int_equal(fetch_loop_turn(l, 50, &e), 0);
	assert_int_equal(d.n, 19);
	assert_int_equal(d.errors, 0);
	fetch_cancel(hanging);
	assert_int_equal(fetch_loop_running(l), 0);
	fetch_loop_wake(l);
	assert_int_equal(fetch_loop_turn(l, 5000, &e), 0);
	fetch_loop_free(l);
	fetch_client_unref(client);
}

static void note_time(void *arg, struct fetch_response *r, const struct err *e)
{
	assert_int_equal(e->code, 0);
	assert_int_equal(r->bytes_received, r->body.len);
	*(int64_t *)arg = clock_mono_ms();
}

/* Two large bodies share 2 MiB a second, in whole or in pieces; a small one that began after them is not held up. */
static void large_bodies_are_paced(void **state)
{
	struct err e = { 0 };
	char url[64];
	int64_t done[3] = { 0 }, begin = clock_mono_ms();
	struct fetch_loop *l = fetch_loop_new(&e);
	struct fetch_client *client = fetch_client_new(NULL, NULL);
	fetch_loop_pace(l, 2 << 20);
	for (int i = 0; i < 3; i++) {
		struct fetch_request q = { .url = url, .timeout_ms = 60000 };
		snprintf(url, sizeof url, "http://127.0.0.1:%d/%s", server.port, i < 2 ? "megabytes" : "echo");
		assert_int_equal(fetch_start(l, client, &q, note_time, &done[i], NULL, &e), 0);
	}
	while (fetch_loop_running(l))
		assert_int_equal(fetch_loop_turn(l, 1000, &e), 0);
	int64_t large = MAX(done[0], done[1]) - begin, small = done[2] - begin;
	assert_in_range(large, 2300, 59000); /* 5.5 MiB above what is small */
	assert_true(small < large / 2);
	/* One that is paused can be cancelled. */
	struct fetch *f = NULL;
	struct fetch_request q = { .url = url, .timeout_ms = 60000 };
	snprintf(url, sizeof url, "http://127.0.0.1:%d/megabytes", server.port);
	assert_int_equal(fetch_start(l, client, &q, note_time, &done[0], &f, &e), 0);
	for (begin = clock_mono_ms(); clock_mono_ms() - begin < 500;)
		assert_int_equal(fetch_loop_turn(l, 10, &e), 0);
	fetch_cancel(f);
	assert_int_equal(fetch_loop_turn(l, 10, &e), 0);
	fetch_loop_free(l);
	fetch_client_unref(client);
}

struct reader {
	int64_t full_until_ms; /* monotonic: it has no room before */
	int asked, refused;
	struct buf got;
};

static enum fetch_data read_later(void *arg, const char *p, size_t n)
{
	struct reader *r = arg;
	if (clock_mono_ms() < r->full_until_ms || ++r->asked % 50 == 0) { /* also in the middle of a body */
		r->refused++;
		return FETCH_LATER;
	}
	buf_put(&r->got, p, n);
	return FETCH_TAKEN;
}

static void note_error(void *arg, struct fetch_response *r, const struct err *e)
{
	*(struct err *)arg = *e;
}

/* A receiver without room is asked again, now and then, and gets all bytes in their order. The exchange's timeout goes on. */
static void bytes_come_later(void **state)
{
	struct err e = { 0 }, end[3] = { { .code = ERR_INTERNAL }, { .code = ERR_INTERNAL }, { .code = ERR_INTERNAL } };
	char url[64];
	int64_t begin = clock_mono_ms();
	struct fetch_loop *l = fetch_loop_new(&e);
	struct fetch_client *client = fetch_client_new(NULL, NULL);
	struct reader r[3] = { { .full_until_ms = begin + 300 }, { .full_until_ms = INT64_MAX }, { .full_until_ms = INT64_MAX } };
	struct fetch *f[3];
	snprintf(url, sizeof url, "http://127.0.0.1:%d/megabytes", server.port);
	for (int i = 0; i < 3; i++) {
		struct fetch_request q = { .url = url, .timeout_ms = i == 1 ? 500 : 60000, .on_data = read_later, .on_data_arg = &r[i] };
		assert_int_equal(fetch_start(l, client, &q, note_error, &end[i], &f[i], &e), 0);
	}
	while (end[0].code == ERR_INTERNAL || end[1].code == ERR_INTERNAL)
		assert_int_equal(fetch_loop_turn(l, 1000, &e), 0);
	assert_int_equal(end[0].code, 0);
	assert_in_range(r[0].refused, 2, 300 / 20 + 1 + r[0].asked / 50);
	assert_true(r[0].asked > 100);
	assert_int_equal(end[1].code, ERR_TIMEOUT);
	assert_int_equal(r[1].got.len, 0);
	fetch_cancel(f[2]);
	assert_int_equal(end[2].code, ERR_INTERNAL);
	assert_int_equal(fetch_loop_running(l), 0);
	struct fetch_response whole;
	struct fetch_request q = { .url = url, .timeout_ms = 60000 };
	assert_int_equal(fetch_do(client, &q, &whole, &e), 0);
	assert_int_equal(whole.body.len, r[0].got.len);
	assert_memory_equal(whole.body.ptr, r[0].got.ptr, r[0].got.len);
	fetch_response_release(&whole);
	buf_free(&r[0].got);
	fetch_loop_free(l);
	fetch_client_unref(client);
}

/* As many as hang cost nothing: a turn with one small answer takes as long beside 3000 as beside 10, or nearly. In
 * thread CPU, generous: a walk over all of them takes 100 times as long. */
static int64_t cost_beside(size_t n)
{
	enum { ROUNDS = 50 };
	struct err e = { 0 };
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof a;
	char url[64];
	struct done_state hung = { 0 }, d = { 0 };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); /* accepts nobody: its backlog does */
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
	assert_int_equal(listen(fd, 4096), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	struct fetch_loop *l = fetch_loop_new(&e);
	struct fetch_client *client = fetch_client_new(NULL, NULL);
	snprintf(url, sizeof url, "http://127.0.0.1:%d/", ntohs(a.sin_port));
	for (size_t i = 0; i < n; i++)
		assert_int_equal(fetch_start(l, client, &(struct fetch_request){ .url = url, .timeout_ms = 60000 }, on_done, &hung, NULL, &e), 0);
	for (int64_t end = clock_mono_ms() + 300 + (int64_t)n / 2; clock_mono_ms() < end;)
		assert_int_equal(fetch_loop_turn(l, 10, &e), 0);
	snprintf(url, sizeof url, "http://127.0.0.1:%d/long", server.port);
	int64_t from = clock_cpu_ns();
	for (size_t i = 0; i < ROUNDS; i++) {
		assert_int_equal(fetch_start(l, client, &(struct fetch_request){ .url = url, .timeout_ms = 9000 }, on_done, &d, NULL, &e), 0);
		while (d.n == i)
			assert_int_equal(fetch_loop_turn(l, 100, &e), 0);
	}
	int64_t cost = (clock_cpu_ns() - from) / ROUNDS;
	assert_int_equal(d.errors, 0);
	assert_int_equal(fetch_loop_running(l), n);
	fetch_loop_free(l);
	fetch_client_unref(client);
	close(fd);
	return cost;
}

static void those_that_hang_cost_nothing(void **state)
{
	files_raise_limit();
	int64_t few = cost_beside(10), many = cost_beside(3000);
	if (many > 5 * few + 500000)
		fail_msg("%lld ns beside 10, %lld ns beside 3000", (long long)few, (long long)many);
}

/* curl closes and opens sockets at will, their numbers come again while events of the old ones are at hand. The users make
 * them different hosts to the loop. */
static void sockets_come_and_go(void **state)
{
	struct err e = { 0 };
	struct fetch_loop *l = fetch_loop_new(&e);
	struct done_state d = { 0 };
	struct fetch *hanging[8] = { 0 };
	size_t begun = 0;
	char url[64];
	struct fetch_client *client = fetch_client_new(NULL, NULL);
	for (int round = 0; round < 40; round++) {
		for (int i = 0; i < 8; i++) {
			snprintf(url, sizeof url, "http://u%d@127.0.0.1:%d/long", (round + i) % 20, server.port);
			begun++;
			assert_int_equal(fetch_start(l, client, &(struct fetch_request){ .url = url, .timeout_ms = 9000 }, on_done, &d, NULL, &e), 0);
			snprintf(url, sizeof url, "http://u%d@127.0.0.1:%d/hang", (round + i) % 20, server.port);
			assert_int_equal(fetch_start(l, client, &(struct fetch_request){ .url = url, .timeout_ms = 9000 }, on_done, &d, &hanging[i], &e), 0);
		}
		for (int i = 0; i < 3; i++)
			assert_int_equal(fetch_loop_turn(l, 2, &e), 0);
		for (int i = 0; i < 8; i++)
			fetch_cancel(hanging[i]);
	}
	for (int64_t end = clock_mono_ms() + 8000; d.n < begun && clock_mono_ms() < end;)
		assert_int_equal(fetch_loop_turn(l, 100, &e), 0);
	assert_int_equal(d.n, begun);
	assert_int_equal(d.errors, 0);
	fetch_loop_free(l);
	fetch_client_unref(client);
}

static void out_of_files(void **state)
{
	struct err e = { 0 }, told = { 0 };
	struct fetch_loop *l = fetch_loop_new(&e);
	struct rlimit was, none;
	char url[64];
	struct fetch_client *client = fetch_client_new(NULL, NULL);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	snprintf(url, sizeof url, "http://127.0.0.1:%d/long", server.port);
	assert_int_equal(fetch_start(l, client, &(struct fetch_request){ .url = url, .timeout_ms = 9000 }, note_error, &told, NULL, &e), 0);
	none = (struct rlimit){ 3, was.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	while (fetch_loop_running(l))
		assert_int_equal(fetch_loop_turn(l, 100, &e), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	assert_string_equal(told.msg, "cannot connect: this process has as many files open as it may, 3; raise the limit "
			    "(ulimit -n, LimitNOFILE= of systemd) or ask fewer targets");
	fetch_loop_free(l);
	fetch_client_unref(client);
}

/* Names beyond what may be looked up at a time fail, and say why; addresses do not. */
static void many_names(void **state)
{
	static const char *const hosts[] = { "localhost", "127.0.0.1", "u@127.0.0.1" };
	struct err e = { 0 }, told[3] = { 0 };
	struct fetch_loop *l = fetch_loop_new(&e);
	char url[64];
	struct fetch_client *client = fetch_client_new(NULL, NULL);
	for (size_t most = 0; most < 2; most++) {
		fetch_loop_names(l, most);
		for (size_t i = 0; i < 3; i++) {
			snprintf(url, sizeof url, "http://%s:%d/long", hosts[i], server.port);
			assert_int_equal(fetch_start(l, client, &(struct fetch_request){ .url = url, .timeout_ms = 9000 }, note_error, &told[i], NULL, &e), 0);
		}
		while (fetch_loop_running(l))
			assert_int_equal(fetch_loop_turn(l, 100, &e), 0);
		assert_string_equal(told[0].msg, most ? "" : "the name was not looked up: too many others are being resolved (does the name server answer?)");
		assert_int_equal(told[1].code, 0);
		assert_int_equal(told[2].code, 0);
	}
	fetch_loop_free(l);
	fetch_client_unref(client);
}

static void urls(void **state)
{
	struct buf b = { 0 };
	fetch_url_escape(VIEW("a b/\xc3\xa4~"), &b);
	assert_string_equal(b.ptr, "a%20b%2F%C3%A4~");
	buf_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(uploads_are_read_while_they_are_sent), /* first: it looks at the largest size of the process */
		cmocka_unit_test(an_upload_that_fails), cmocka_unit_test(stalls), cmocka_unit_test(connections_are_kept), cmocka_unit_test(what_is_sent), cmocka_unit_test(what_a_redirect_makes_of_a_post), cmocka_unit_test(what_comes_back), cmocka_unit_test(tokens),
		cmocka_unit_test(many_at_once), cmocka_unit_test(large_bodies_are_paced), cmocka_unit_test(bytes_come_later),
		cmocka_unit_test(those_that_hang_cost_nothing), cmocka_unit_test(sockets_come_and_go),
		cmocka_unit_test(out_of_files), cmocka_unit_test(many_names), cmocka_unit_test(urls),
	};
	return cmocka_run_group_tests(tests, start, stop);
}
