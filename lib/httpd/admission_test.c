/* SPDX-License-Identifier: Apache-2.0 */
/* Who gets what of a server: connections, workers, names; over real sockets on loopback. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>

#include <cmocka.h>
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/testwait.h"
#include "httpd/slots.h"
#include "httpd/testclient.h"

static atomic_int waiting;
static atomic_bool release_waiters;

static void echo(struct httpd_request *rq, void *arg)
{
	size_t n;
	const struct httpd_param *p = httpd_params(rq, &n);
	(void)arg;
	for (size_t i = 0; i < n; i++)
		buf_printf(httpd_out(rq), "[%.*s=%.*s]", VIEW_ARG(p[i].name), VIEW_ARG(p[i].value));
}

static void quick(struct httpd_request *rq, void *arg)
{
	(void)arg;
	httpd_text(rq, 200, "quick");
}

static void wait_for_cancel(struct httpd_request *rq, void *arg)
{
	(void)arg;
	atomic_fetch_add(&waiting, 1);
	for (int i = 0; i < 2000 && !atomic_load(httpd_canceled(rq)) && !atomic_load(&release_waiters); i++)
		clock_sleep_ms(5);
	httpd_text(rq, 200, "waited");
}

static atomic_int held_loops, released_loops, counted;

/* Holds up the loop of all connections, until it is released so often. */
static void hold_loop(struct httpd_request *rq, void *arg)
{
	(void)arg;
	int mine = atomic_fetch_add(&held_loops, 1) + 1;
	for (int i = 0; i < 6000 && atomic_load(&released_loops) < mine; i++)
		clock_sleep_ms(5);
	httpd_text(rq, 200, "held");
}

static void count(struct httpd_request *rq, void *arg)
{
	(void)arg;
	atomic_fetch_add(&counted, 1);
	httpd_text(rq, 200, "counted");
}

static const struct httpd_route routes[] = {
	{ "/hold", HTTPD_GET, HTTPD_RIGHT_READ, hold_loop, HTTPD_QUICK }, { "/count", HTTPD_GET, HTTPD_RIGHT_READ, count, HTTPD_QUICK },
	{ "/echo", HTTPD_GET | HTTPD_POST, HTTPD_RIGHT_READ, echo }, { "/wait", HTTPD_GET, HTTPD_RIGHT_READ, wait_for_cancel },
	{ "/quick", HTTPD_GET, HTTPD_RIGHT_READ, quick, HTTPD_QUICK }, { "/open", HTTPD_GET, HTTPD_RIGHT_NONE_NEEDED, quick, HTTPD_QUICK },
};

static void wait_until(atomic_int *what, int n)
{
	assert_true(TEST_WAIT(atomic_load(what) >= n));
}

/* Milliseconds until the server ends this connection, while a byte is sent every 20. */
static int64_t drip(int fd, const char *beginning)
{
	int64_t begin = clock_mono_ms();
	char c;
	test_send(fd, beginning, strlen(beginning));
	for (int i = 0; i < 500; i++) {
		clock_sleep_ms(20);
		ssize_t n = recv(fd, &c, 1, MSG_DONTWAIT);
		if (n == 0 || !test_send(fd, "a", 1))
			break;
	}
	close(fd);
	return clock_mono_ms() - begin;
}

/* Bytes do not move a deadline; beyond its share an address takes the places of its own. */
static void test_slots(void **state)
{
	(void)state;
	struct err e;
	struct httpd *h = NULL;
	const char *const listen[] = { "127.0.0.1:0" };
	struct httpd_options o = { .listen = listen, .n_listen = 1, .routes = routes, .n_routes = ARRAY_LEN(routes),
				   .max_connections = 8, .headers_ms = 300, .body_ms = 600, .max_bodies = 1000 };
	assert_int_equal(httpd_start(&h, &o, &e), 0);
	const char *at = httpd_address(h, 0);
	assert_in_range(drip(test_connect(at), "GET /quick HTTP/1.1\r\nX: "), 250, 5000);
	assert_in_range(drip(test_connect(at), "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900\r\n\r\n"), 550, 5000);
	/* The second request of a connection has its own deadline. */
	int fd = test_connect(at);
	static const char one[] = "GET /quick HTTP/1.1\r\nHost: localhost\r\n\r\n";
	char some[4096];
	test_send(fd, one, sizeof one - 1);
	assert_true(recv(fd, some, sizeof some, 0) > 0);
	assert_in_range(drip(fd, "GET /quick HTTP/1.1\r\nX: "), 250, 5000);
	/* One that waits for its answer stays, whoever else comes. */
	static const char wait[] = "GET /wait HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
	int many[20], before_wait = atomic_load(&waiting), busy = test_connect(at);
	test_send(busy, wait, sizeof wait - 1);
	wait_until(&waiting, before_wait + 1);
	for (size_t i = 0; i < ARRAY_LEN(many); i++)
		many[i] = test_connect(at);
	struct answer a = test_get(at, "/quick");
	assert_int_equal(a.status, 200);
	answer_free(&a);
	assert_int_equal(recv(many[0], some, 1, 0), 0);
	atomic_store(&release_waiters, true);
	a = test_receive(busy);
	assert_int_equal(a.status, 200);
	answer_free(&a);
	atomic_store(&release_waiters, false);
	for (size_t i = 0; i < ARRAY_LEN(many); i++)
		close(many[i]);
	/* Bodies together: the second has no room beside the first, and has it afterwards. */
	static const char half[] = "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900\r\n\r\n";
	char body[901] = { 0 };
	memset(body, 'x', 900);
	fd = test_connect(at);
	test_send(fd, half, sizeof half - 1);
	test_send(fd, body, 800);
	clock_sleep_ms(100);
	a = test_post_form(at, "/echo", body);
	assert_int_equal(a.status, 503);
	assert_non_null(test_header(&a, "Retry-After"));
	answer_free(&a);
	close(fd);
	clock_sleep_ms(100);
	a = test_post_form(at, "/echo", body);
	assert_int_equal(a.status, 200);
	answer_free(&a);
	httpd_stop(h, 0);
}

static int connect_from(const char *at, const char *from)
{
	char host[256], port[8];
	struct sockaddr_in a = { .sin_family = AF_INET }, to = { .sin_family = AF_INET };
	assert_true(httpd_split_address(at, host, port));
	inet_pton(AF_INET, from, &a.sin_addr);
	inet_pton(AF_INET, host, &to.sin_addr);
	to.sin_port = htons((uint16_t)strtoul(port, NULL, 10));
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
	return fd;
}

static struct sockaddr_in address_in(const char *text)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	assert_int_equal(inet_pton(AF_INET, text, &a.sin_addr), 1);
	return a;
}

/* Connections of a flood are admitted, and the loop has not told their sockets yet: they cannot be closed. The next one of the flood is refused; it
 * does not take the place of another network. */
static void test_a_burst(void **state)
{
	(void)state;
	int ends[2];
	struct sockaddr_in quiet = address_in("127.20.0.1"), flood = address_in("127.10.0.1");
	struct slots *s = slots_new(&(struct slots_options){ .max = 8, .headers_ms = 1000, .body_ms = 1000, .answer_ms = 1000, .idle_ms = 1000 });
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	assert_true(slots_admit(s, (struct sockaddr *)&quiet));
	struct slot *c = slots_add(s, ends[0], (struct sockaddr *)&quiet);
	for (unsigned i = 1; i <= 10; i++) {
		flood.sin_addr.s_addr = htonl(INADDR_LOOPBACK + (10 << 16) + i);
		assert_int_equal(slots_admit(s, (struct sockaddr *)&flood), i <= 7);
	}
	assert_false(slot_is_shut(c));
	slots_remove(c);
	slots_free(s);
	close(ends[0]);
	close(ends[1]);
}

/* A connection is shut after the loop learned that a request has arrived on it, and before the loop reads it: it is not served. */
static void test_shut_ones_are_not_served(void **state)
{
	(void)state;
	static const char hold[] = "GET /hold HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
	static const char one[] = "GET /count HTTP/1.1\r\nHost: localhost\r\n\r\n";
	struct err e;
	struct httpd *h = NULL;
	const char *const listen[] = { "127.0.0.1:0" };
	struct httpd_options o = { .listen = listen, .n_listen = 1, .routes = routes, .n_routes = ARRAY_LEN(routes), .headers_ms = 2000 };
	char some[4096];
	int late[4];
	assert_int_equal(httpd_start(&h, &o, &e), 0);
	const char *at = httpd_address(h, 0);
	int holds[] = { test_connect(at), test_connect(at) };
	for (size_t i = 0; i < ARRAY_LEN(late); i++)
		late[i] = test_connect(at);
	struct answer a = test_get(at, "/quick"); /* all of them were accepted */
	assert_int_equal(a.status, 200);
	answer_free(&a);
	test_send(holds[0], hold, sizeof hold - 1);
	wait_until(&held_loops, 1);
	test_send(holds[1], hold, sizeof hold - 1);
	for (size_t i = 0; i < ARRAY_LEN(late); i++)
		test_send(late[i], one, sizeof one - 1);
	atomic_store(&released_loops, 1); /* it learns of all of them, and serves the oldest connection first */
	wait_until(&held_loops, 2);
	for (size_t i = 0; i < ARRAY_LEN(late); i++)
		assert_int_equal(recv(late[i], some, sizeof some, 0), 0); /* shut at the deadline of its headers */
	atomic_store(&released_loops, 2);
	for (size_t i = 0; i < ARRAY_LEN(holds); i++) {
		a = test_receive(holds[i]);
		assert_int_equal(a.status, 200);
		answer_free(&a);
	}
	a = test_get(at, "/quick");
	assert_int_equal(a.status, 200);
	answer_free(&a);
	httpd_stop(h, 0);
	assert_int_equal(atomic_load(&counted), 0);
	for (size_t i = 0; i < ARRAY_LEN(late); i++)
		close(late[i]);
}

/* When all slots are taken, a new connection replaces one of the network that holds most slots, not an idle connection of another network. */
static void test_slots_of_networks(void **state)
{
	(void)state;
	static const char one[] = "GET /quick HTTP/1.1\r\nHost: localhost\r\n\r\n";
	struct err e;
	struct httpd *h = NULL;
	const char *const listen[] = { "127.0.0.1:0" };
	struct httpd_options o = { .listen = listen, .n_listen = 1, .routes = routes, .n_routes = ARRAY_LEN(routes), .max_connections = 12 };
	char some[4096], from[32];
	int quiet[4], flood[300];
	assert_int_equal(httpd_start(&h, &o, &e), 0);
	const char *at = httpd_address(h, 0);
	for (size_t i = 0; i < ARRAY_LEN(quiet); i++) {
		snprintf(from, sizeof from, "127.%zu.0.1", 20 + i);
		quiet[i] = connect_from(at, from);
		test_send(quiet[i], one, sizeof one - 1);
		assert_true(recv(quiet[i], some, sizeof some, 0) > 0);
	}
	for (size_t i = 0; i < ARRAY_LEN(flood); i++) {
		snprintf(from, sizeof from, "127.10.%zu.%zu", i / 250, 1 + i % 250);
		flood[i] = connect_from(at, from);
	}
	struct answer a = test_get(at, "/quick"); /* all of them were accepted */
	assert_int_equal(a.status, 200);
	answer_free(&a);
	for (size_t i = 0; i < ARRAY_LEN(quiet); i++) {
		test_send(quiet[i], one, sizeof one - 1);
		ssize_t n = recv(quiet[i], some, sizeof some, 0);
		if (n <= 0)
			fail_msg("the connection %zu of a network of its own: %zd, %s", i, n, strerror(errno));
		close(quiet[i]);
	}
	for (size_t i = 0; i < ARRAY_LEN(flood); i++)
		close(flood[i]);
	httpd_stop(h, 0);
}

/* Whoever may ask without a login takes no room from those who have one: what is sent along is passed over. */
static void test_open_bodies(void **state)
{
	(void)state;
	static const char head[] = "GET /open HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 900\r\n\r\n";
	static const char large[] = "GET /open HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 262145\r\n\r\n";
	struct err e;
	struct httpd *h = NULL;
	const char *const listen[] = { "127.0.0.1:0" };
	struct httpd_options o = { .listen = listen, .n_listen = 1, .routes = routes, .n_routes = ARRAY_LEN(routes), .max_bodies = 1000 };
	char body[901] = { 0 };
	memset(body, 'x', 900);
	assert_int_equal(httpd_start(&h, &o, &e), 0);
	const char *at = httpd_address(h, 0);
	int fd = test_connect(at);
	test_send(fd, head, sizeof head - 1);
	test_send(fd, body, 800);
	clock_sleep_ms(100);
	struct answer a = test_post_form(at, "/echo", body);
	assert_int_equal(a.status, 200);
	answer_free(&a);
	test_send(fd, body, 100);
	a = test_receive(fd);
	assert_int_equal(a.status, 200);
	answer_free(&a);
	fd = test_connect(at);
	test_send(fd, large, sizeof large - 1);
	a = test_receive(fd);
	assert_int_equal(a.status, 413);
	answer_free(&a);
	httpd_stop(h, 0);
}

static unsigned choose(struct httpd_request *rq, unsigned lane, void *arg)
{
	(void)arg;
	struct view patience = httpd_parsed(rq) ? httpd_param(rq, "patience") : VIEW("");
	if (patience.len)
		httpd_wait_at_most(rq, strtoll(patience.ptr, NULL, 10));
	return lane;
}

static void refuse(struct httpd_request *rq, unsigned lane, enum httpd_refusal why, void *arg)
{
	(void)arg;
	httpd_text(rq, 503, "lane %u: %s", lane, why == HTTPD_FULL ? "full" : "late");
}

/* A lane of one worker and two that wait: the next is refused, one is late, one's client leaves; the other lane answers
 * all the while, and no thread is held by who waits. */
static void test_lanes(void **state)
{
	(void)state;
	static const struct httpd_lane lanes[] = { { "fast", 1, 0, 0 }, { "slow", 1, 2, 0 } };
	static const struct httpd_route two[] = {
		{ "/wait", HTTPD_GET, HTTPD_RIGHT_READ, wait_for_cancel, 0, 1 }, { "/echo", HTTPD_GET, HTTPD_RIGHT_READ, echo },
	};
	static const char ask[] = "GET /wait?patience=300 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
	static const char patient[] = "GET /wait?patience=60000 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
	struct err e;
	struct httpd *h = NULL;
	const char *const listen[] = { "127.0.0.1:0" };
	struct httpd_options o = { .listen = listen, .n_listen = 1, .routes = two, .n_routes = 2, .lanes = lanes, .n_lanes = 2,
				   .choose = choose, .refuse = refuse };
	assert_int_equal(httpd_start(&h, &o, &e), 0);
	const char *at = httpd_address(h, 0);
	int before_wait = atomic_load(&waiting), busy = test_connect(at);
	test_send(busy, ask, sizeof ask - 1);
	wait_until(&waiting, before_wait + 1);
	int late = test_connect(at), leaves = test_connect(at);
	test_send(late, ask, sizeof ask - 1);
	test_send(leaves, patient, sizeof patient - 1);
	assert_true(TEST_WAIT(httpd_in_flight(h) >= 3));
	struct answer a = test_get(at, "/wait");
	assert_int_equal(a.status, 503);
	assert_string_equal(a.body, "lane 1: full\n");
	assert_non_null(test_header(&a, "Retry-After"));
	answer_free(&a);
	a = test_get(at, "/echo?a=b");
	assert_string_equal(a.body, "[a=b]");
	answer_free(&a);
	close(leaves);
	a = test_receive(late);
	assert_int_equal(a.status, 503);
	assert_string_equal(a.body, "lane 1: late\n");
	answer_free(&a);
	assert_true(TEST_WAIT(httpd_in_flight(h) == 1)); /* who left gave its place back before a worker was free */
	assert_int_equal(atomic_load(&waiting), before_wait + 1); /* neither was ever run */
	atomic_store(&release_waiters, true);
	a = test_receive(busy);
	assert_int_equal(a.status, 200);
	answer_free(&a);
	atomic_store(&release_waiters, false);
	httpd_stop(h, 0);
}

static struct {
	atomic_int n;             /* so many have begun */
	atomic_int path[4], nice[4]; /* which one, in the order in which they began; and the priority it had then and has now */
	atomic_int nice_later[4];
	atomic_bool end[4];
} begun;

static void begin(struct httpd_request *rq, void *arg)
{
	(void)arg;
	int number = (int)strtol(httpd_param(rq, "n").ptr, NULL, 10), at = atomic_load(&begun.n);
	atomic_store(&begun.path[at], number);
	atomic_store(&begun.nice[at], getpriority(PRIO_PROCESS, 0));
	atomic_fetch_add(&begun.n, 1);
	while (!atomic_load(&begun.end[number])) {
		atomic_store(&begun.nice_later[at], getpriority(PRIO_PROCESS, 0));
		clock_sleep_ms(5);
	}
	httpd_text(rq, 200, "%d", number);
}

static int ask_number(const char *at, int n)
{
	char ask[99];
	int fd = test_connect(at);
	test_send(fd, ask, (size_t)snprintf(ask, sizeof ask, "GET /begin?n=%d HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", n));
	return fd;
}

/* One at a time begins, in the order in which they came; one that takes long makes place for the next and goes on at a low priority. Each has
 * the usual one at first, also where a thread had a low one before. */
static void test_turns(void **state)
{
	(void)state;
	static const struct httpd_lane lanes[] = { { "turns", 2, 8, 1 } };
	static const struct httpd_route one[] = { { "/begin", HTTPD_GET, HTTPD_RIGHT_READ, begin } };
	struct err e;
	struct httpd *h = NULL;
	const char *const listen[] = { "127.0.0.1:0" };
	struct httpd_options o = { .listen = listen, .n_listen = 1, .routes = one, .n_routes = 1, .lanes = lanes, .n_lanes = 1, .choose = choose, .refuse = refuse };
	assert_int_equal(httpd_start(&h, &o, &e), 0);
	const char *at = httpd_address(h, 0);
	int fds[4], usual = getpriority(PRIO_PROCESS, 0);
	int64_t from = clock_mono_ms();
	for (int i = 0; i < 3; i++) {
		fds[i] = ask_number(at, i);
		for (int k = 0; k < 4000 && httpd_in_flight(h) <= (unsigned)i; k++)
			clock_sleep_ms(5);
	}
	wait_until(&begun.n, 1);
	assert_true(atomic_load(&begun.n) == 1 || clock_mono_ms() - from >= 1000); /* not before its turn is over */
	wait_until(&begun.n, 2);
	assert_true(clock_mono_ms() - from >= 1000);
	for (int k = 0; k < 4000 && atomic_load(&begun.nice_later[0]) == usual; k++)
		clock_sleep_ms(5);
	assert_int_equal(atomic_load(&begun.nice_later[0]), MIN(usual + 10, 19));
	clock_sleep_ms(50);
	assert_int_equal(atomic_load(&begun.n), 2); /* the lane has no third worker */
	atomic_store(&begun.end[0], true);
	wait_until(&begun.n, 3);
	fds[3] = ask_number(at, 3);
	for (int i = 1; i < 4; i++)
		atomic_store(&begun.end[i], true);
	for (int i = 0; i < 4; i++) {
		struct answer a = test_receive(fds[i]);
		assert_int_equal(a.status, 200);
		answer_free(&a);
		assert_int_equal(atomic_load(&begun.path[i]), i);
		assert_int_equal(atomic_load(&begun.nice[i]), usual);
	}
	httpd_stop(h, 0);
}

/* A route that does not say who may ask it is no open one: there is no server. */
static void test_rights_are_said(void **state)
{
	(void)state;
	static const struct httpd_route some[] = {
		{ "/read", HTTPD_GET, HTTPD_RIGHT_READ, quick }, { "/forgotten", HTTPD_GET, 0, quick },
	}, mixed[] = { { "/mixed", HTTPD_GET, HTTPD_RIGHT_ALL, quick } };
	struct err e;
	struct httpd *h = NULL;
	const char *const listen[] = { "127.0.0.1:0" };
	struct httpd_options o = { .listen = listen, .n_listen = 1, .routes = some, .n_routes = ARRAY_LEN(some) };
	assert_int_not_equal(httpd_start(&h, &o, &e), 0);
	assert_non_null(strstr(e.msg, "/forgotten"));
	o.routes = mixed;
	o.n_routes = 1;
	assert_int_not_equal(httpd_start(&h, &o, &e), 0);
}

/* Who may ask what, on a listener of loopback. */
static void test_strangers(void **state)
{
	(void)state;
	static const struct httpd_route some[] = {
		{ "/read", HTTPD_GET | HTTPD_POST, HTTPD_RIGHT_READ, quick }, { "/page", HTTPD_GET, HTTPD_RIGHT_READ, quick, HTTPD_QUICK },
		{ "/change", HTTPD_POST, HTTPD_RIGHT_READ, quick }, { "/-/healthy", HTTPD_GET, HTTPD_RIGHT_READ, quick, HTTPD_ANY_HOST },
	};
	static const struct { const char *head; int status; } cases[] = {
		/* names */
		{ "GET /read HTTP/1.1\r\nHost: localhost", 200 }, { "GET /read HTTP/1.1\r\nHost: LOCALHOST:8080", 200 },
		{ "GET /read HTTP/1.1\r\nHost: localhost.:8080", 200 }, { "GET /read HTTP/1.1\r\nHost: pyrrha.localhost:1", 200 },
		{ "GET /read HTTP/1.1\r\nHost: 127.0.0.1:7070", 200 }, { "GET /read HTTP/1.1\r\nHost: 10.1.2.3", 200 },
		{ "GET /read HTTP/1.1\r\nHost: [::1]:7070", 200 }, { "GET /read HTTP/1.1\r\nHost: [::ffff:127.0.0.1]", 200 },
		{ "GET /read HTTP/1.1\r\nHost: example.org", 200 }, { "GET /read HTTP/1.1\r\nHost: Example.org:444", 200 },
		{ "GET /read HTTP/1.1\r\nHost: my-host:7070", 200 }, { "GET /read HTTP/1.1\r\nHost: my-host.", 200 },
		{ "GET /read HTTP/1.0", 200 }, { "GET /-/healthy HTTP/1.1\r\nHost: evil.example:7070", 200 },
		{ "GET /read HTTP/1.1\r\nHost: evil.example:7070", 403 }, { "GET /page HTTP/1.1\r\nHost: evil.example:7070", 403 },
		{ "GET /none HTTP/1.1\r\nHost: evil.example:7070", 403 }, { "OPTIONS /read HTTP/1.1\r\nHost: evil.example", 403 },
		{ "GET /read HTTP/1.1\r\nHost: localhost.evil.example", 403 }, { "GET /read HTTP/1.1\r\nHost: notlocalhost", 403 },
		{ "GET /read HTTP/1.1\r\nHost: .localhost", 403 }, { "GET /read HTTP/1.1\r\nHost: 127.0.0.1.evil.example", 403 },
		{ "GET /read HTTP/1.1\r\nHost: [evil.example]", 403 }, { "GET /read HTTP/1.1\r\nHost: [::1", 403 },
		{ "GET /read HTTP/1.1\r\nHost: evil.example@localhost", 403 }, { "GET /read HTTP/1.1\r\nHost: localhost:80:80", 403 },
		{ "GET /read HTTP/1.1\r\nHost: evil.example\r\nX-Forwarded-Host: localhost", 403 },
		{ "GET /read HTTP/1.1\r\nHost: xexample.org", 403 }, { "GET /read HTTP/1.1\r\nHost: localhost:x", 403 },
		/* origins: only of what changes something */
		{ "POST /read HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example", 200 },
		{ "POST /change HTTP/1.1\r\nHost: localhost", 200 }, { "POST /change HTTP/1.1\r\nHost: localhost:8080", 200 },
		{ "POST /change HTTP/1.1\r\nHost: localhost:8080\r\nOrigin: http://localhost:8080", 200 },
		{ "POST /change HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://127.0.0.1:80\r\nSec-Fetch-Site: same-origin", 200 },
		{ "POST /change HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: none", 200 },
		{ "POST /change HTTP/1.1\r\nHost: [::1]:7070\r\nOrigin: http://[::1]:7070", 200 },
		{ "POST /change HTTP/1.1\r\nHost: example.org\r\nOrigin: https://example.org", 200 },
		{ "POST /change HTTP/1.1\r\nHost: 127.0.0.1:7070\r\nOrigin: https://example.org", 200 },
		{ "POST /change HTTP/1.1\r\nHost: 127.0.0.1:7070\r\nOrigin: https://other.example:8443\r\nX-Forwarded-Host: other.example:8443, b", 200 },
		{ "POST /change HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: cross-site", 403 },
		{ "POST /change HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: same-site", 403 },
		{ "POST /change HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: cross-site\r\nOrigin: http://localhost", 403 },
		{ "POST /change HTTP/1.1\r\nHost: localhost\r\nOrigin: null", 403 },
		{ "POST /change HTTP/1.1\r\nHost: localhost\r\nOrigin: ", 403 },
		{ "POST /change HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example", 403 },
		{ "POST /change HTTP/1.1\r\nHost: localhost:8080\r\nOrigin: http://localhost:8081", 403 },
		{ "POST /change HTTP/1.1\r\nHost: 127.0.0.1:7070\r\nOrigin: http://example.org", 403 }, /* not https */
		{ "POST /change HTTP/1.1\r\nHost: 127.0.0.1:7070\r\nOrigin: https://example.org:444", 403 },
		{ "POST /change HTTP/1.1\r\nHost: 127.0.0.1:7070\r\nOrigin: https://other.example\r\nX-Forwarded-Host: b, other.example", 403 },
		{ "POST /change HTTP/1.1\r\nHost: localhost\r\nOrigin: chrome-extension://localhost", 403 },
	};
	struct err e;
	struct httpd *h = NULL;
	const char *const listen[] = { "127.0.0.1:0" }, *const allowed[] = { "my-host" };
	struct httpd_options o = { .listen = listen, .n_listen = 1, .routes = some, .n_routes = ARRAY_LEN(some), .allowed_hosts = allowed,
				   .n_allowed_hosts = 1, .external_url = "https://example.org/pyrrha/" };
	assert_int_equal(httpd_start(&h, &o, &e), 0);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct buf b = { 0 };
		bool post = cases[i].head[0] == 'P';
		int fd = test_connect(httpd_address(h, 0));
		buf_printf(&b, "%s\r\nConnection: close\r\n%s\r\n", cases[i].head, post ? "Content-Length: 0\r\n" : "");
		test_send(fd, b.ptr, b.len);
		struct answer a = test_receive(fd);
		int status = a.status ? a.status : strncmp(a.all.ptr, "HTTP/1.0 200", 12) == 0 ? 200 : 0;
		if (status != cases[i].status)
			fail_msg("%s: %d instead of %d: %s", cases[i].head, status, cases[i].status, a.body);
		answer_free(&a);
		buf_free(&b);
	}
	httpd_stop(h, 0);
}

static int teardown(void **state)
{
	(void)state;
	metrics_free();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_slots), cmocka_unit_test(test_slots_of_networks), cmocka_unit_test(test_a_burst), cmocka_unit_test(test_shut_ones_are_not_served), cmocka_unit_test(test_open_bodies), cmocka_unit_test(test_lanes), cmocka_unit_test(test_turns), cmocka_unit_test(test_rights_are_said), cmocka_unit_test(test_strangers),
	};
	return cmocka_run_group_tests(tests, NULL, teardown);
}
