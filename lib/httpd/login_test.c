/* SPDX-License-Identifier: Apache-2.0 */
/* Logins: the header, the hashes, who has to wait. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <sys/resource.h>
#include <time.h>

#include "base/clock.h"
#include "httpd/authorization.h"
#include "httpd/bcrypt.h"
#include "base/metrics.h"
#include "base/testwait.h"
#include "httpd/internal.h"
#include "httpd/login_failures.h"
#include "httpd/login_known.h"
#include "httpd/login_proven.h"
#include "httpd/testclient.h"

#define SECRET_4 "$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW" /* "secret" */
#define OTHER_5 "$2b$05$abcdefghijklmnopqrstuuVQd15VhR/oN1H3pzUR5lME0fZO6.qRW"  /* "other" */
#define LONG_4 "$2b$04$abcdefghijklmnopqrstuubzadhGtS2zEF.gu0yd0opP6cVzb.e0i"   /* 72 times "x" and more */

static void test_authorization(void **state)
{
	static const struct { const char *header; enum authorization_kind kind; const char *user, *secret; } rows[] = {
		{ "Basic YWxpY2U6c2VjcmV0", AUTHORIZATION_BASIC, "alice", "secret" },
		{ "basic   YWxpY2U6c2VjcmV0", AUTHORIZATION_BASIC, "alice", "secret" },
		{ "BASIC YTpiOmM=", AUTHORIZATION_BASIC, "a", "b:c" }, { "Basic Og==", AUTHORIZATION_BASIC, "", "" },
		{ "Bearer abc", AUTHORIZATION_BEARER, "", "abc" }, { "bearer a b", AUTHORIZATION_BEARER, "", "a b" },
		{ "", AUTHORIZATION_MALFORMED }, { "Basic", AUTHORIZATION_MALFORMED }, { "Basic ", AUTHORIZATION_MALFORMED },
		{ "Basic YWI=", AUTHORIZATION_MALFORMED }, { "Basic YTpi!", AUTHORIZATION_MALFORMED }, { "Basic YTpiO", AUTHORIZATION_MALFORMED },
		{ "BasicYTpi", AUTHORIZATION_MALFORMED }, { "Bearer", AUTHORIZATION_MALFORMED }, { "Bearer  ", AUTHORIZATION_MALFORMED },
		{ "Digest x", AUTHORIZATION_MALFORMED },
	};
	struct authorization a;
	(void)state;
	authorization_parse(view_make(NULL, 0), &a);
	assert_int_equal(a.kind, AUTHORIZATION_NONE);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		authorization_parse(view_of(rows[i].header), &a);
		if (a.kind != rows[i].kind || !view_eqs(a.user, rows[i].user) || !view_eqs(a.secret, rows[i].secret))
			fail_msg("%s: %d \"%.*s\" \"%.*s\"", rows[i].header, (int)a.kind, VIEW_ARG(a.user), VIEW_ARG(a.secret));
	}
	static char large[AUTHORIZATION_MAX + 100];
	memset(large, 'A', sizeof large);
	memcpy(large, "Basic ", 6);
	authorization_parse(view_make(large, sizeof large), &a);
	assert_int_equal(a.kind, AUTHORIZATION_MALFORMED);
}

static void test_bcrypt(void **state)
{
	static const struct { const char *hash, *password; bool right; } rows[] = {
		{ SECRET_4, "secret", true }, { SECRET_4, "Secret", false }, { SECRET_4, "secret ", false }, { SECRET_4, "", false },
		{ "$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW", "secret", true },
		{ "$2a$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW", "secret", true },
		{ "$2b$04$abcdefghijklmnopqrstuv2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW", "secret", true }, /* the same salt */
		{ "$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrX", "secret", false },
		{ OTHER_5, "other", true },
		{ LONG_4, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", true },
		{ LONG_4, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxother", true }, /* as bcrypt has it */
		{ LONG_4, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", false },
	};
	struct bcrypt *b = bcrypt_new();
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (bcrypt_check(b, rows[i].hash, view_of(rows[i].password)) != rows[i].right)
			fail_msg("row %zu", i);
	assert_false(bcrypt_check(b, SECRET_4, VIEW("secret\0more"))); /* crypt alone would take that */
	assert_false(bcrypt_check(b, SECRET_4, view_make(NULL, 0)));
	/* One that is made here. */
	char made[2][BCRYPT_CHARS + 1], long_one[74] = { 0 };
	struct err e;
	unsigned cost;
	assert_int_equal(bcrypt_make(VIEW("secret"), 4, made[0], &e), 0);
	assert_int_equal(bcrypt_make(VIEW("secret"), 4, made[1], &e), 0);
	assert_string_not_equal(made[0], made[1]); /* the salt */
	assert_int_equal(bcrypt_cost(view_of(made[0]), &cost, &e), 0);
	assert_int_equal(cost, 4);
	assert_true(bcrypt_check(b, made[0], VIEW("secret")) && bcrypt_check(b, made[1], VIEW("secret")));
	assert_false(bcrypt_check(b, made[0], VIEW("Secret")));
	memset(long_one, 'x', sizeof long_one - 1);
	assert_true(bcrypt_make(view_of(long_one), 4, made[0], &e) < 0 && strstr(e.msg, "72 bytes"));
	assert_true(bcrypt_make(VIEW("a\0b"), 4, made[0], &e) < 0);
	assert_true(bcrypt_make(VIEW("secret"), 31, made[0], &e) < 0);
	bcrypt_free(b);
}

static void test_cost(void **state)
{
	static const struct { const char *hash, *problem; unsigned cost; } rows[] = {
		{ SECRET_4, NULL, 4 }, { OTHER_5, NULL, 5 }, { "$2y$18$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW", NULL, 18 },
		{ "$2y$19$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW", "cost of 19" },
		{ "$2y$31$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW", "cost of 31" },
		{ "$2y$03$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW", "cost of 3" },
		{ "$2x$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW", "not a bcrypt hash" },
		{ "$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIr", "not a bcrypt hash" },
		{ "$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIr ", "not a bcrypt hash" }, { "", "not a bcrypt hash" },
		{ "secret", "not a bcrypt hash" },
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		unsigned cost = 0;
		struct err e = { 0 };
		int rc = bcrypt_cost(view_of(rows[i].hash), &cost, &e);
		if (rows[i].problem ? !rc || !strstr(e.msg, rows[i].problem) : rc || cost != rows[i].cost)
			fail_msg("%s: %u, %s", rows[i].hash, cost, e.msg);
		assert_false(rc && rows[i].hash[0] && strstr(e.msg, rows[i].hash)); /* it may be a password */
	}
}

/* Of this thread, the shortest of a few. */
static int64_t check_ns(struct bcrypt *b, const char *password)
{
	int64_t best = INT64_MAX;
	for (int i = 0; i < 5; i++) {
		struct timespec from, to;
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
		bcrypt_check(b, OTHER_5, view_of(password));
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
		best = MIN(best, (to.tv_sec - from.tv_sec) * 1000000000 + to.tv_nsec - from.tv_nsec);
	}
	return best;
}

static void test_same_time(void **state)
{
	struct bcrypt *b = bcrypt_new();
	(void)state;
	int64_t right = check_ns(b, "other"), wrong = check_ns(b, "wrong"), empty = check_ns(b, "");
	if (wrong < right / 2 || wrong > right * 2 || empty < right / 2 || empty > right * 2)
		fail_msg("right %lld, wrong %lld, empty %lld ns", (long long)right, (long long)wrong, (long long)empty);
	bcrypt_free(b);
}

static struct in6_addr ip(const char *text)
{
	struct in6_addr a;
	assert_int_equal(inet_pton(AF_INET6, text, &a), 1);
	return a;
}

static struct login_key numbered_key(uint32_t number)
{
	struct login_key key = { { 0 } };
	memcpy(key.bytes, &number, sizeof number);
	return key;
}

static void test_failures(void **state)
{
	struct login_failures *f = login_failures_new(7);
	struct in6_addr a = ip("::ffff:10.0.0.1"), b = ip("::ffff:10.0.0.2"), c = ip("2001:db8::1"), d = ip("2001:db8::2:0:0:1"),
			other = ip("2001:db8:0:1::1");
	int64_t now = 1000000;
	struct login_key first = numbered_key(0);
	(void)state;
	assert_int_equal(login_failures_wait(f, &a, now), 0);
	for (unsigned i = 0; i < LOGIN_FAILURES; i++) {
		struct login_key key = numbered_key(i);
		assert_int_equal(login_failures_wait(f, &a, now + i * 1000), 0);
		assert_false(login_failures_has(f, &a, &key, now + i * 1000));
		assert_int_equal(login_failures_add(f, &a, &key, now + i * 1000), i + 1);
		assert_true(login_failures_has(f, &a, &key, now + i * 1000) && login_failures_has(f, &a, &first, now + i * 1000));
		login_failures_add(f, i % 2 ? &c : &d, &key, now);
	}
	assert_true(login_failures_has(f, &a, &first, now + 59999));
	assert_false(login_failures_has(f, &a, &first, now + 60000)); /* it counts once a minute */
	assert_false(login_failures_has(f, &b, &first, now));
	assert_int_equal(login_failures_wait(f, &a, now + 10000), 50); /* until the first is a minute old */
	assert_int_equal(login_failures_wait(f, &a, now + 59001), 1);
	assert_int_equal(login_failures_wait(f, &a, now + 60000), 0);
	login_failures_add(f, &a, &first, now + 60000);
	assert_int_equal(login_failures_wait(f, &a, now + 60000), 1); /* and then until the second is */
	assert_int_equal(login_failures_wait(f, &b, now), 0);
	assert_int_equal(login_failures_wait(f, &c, now), 60); /* two of one network */
	assert_int_equal(login_failures_wait(f, &other, now), 0);
	for (uint32_t i = 0; i < 100000; i++) { /* a table that does not grow */
		memcpy(&b.s6_addr[12], &i, 4);
		login_failures_add(f, &b, &first, now + 61000);
	}
	login_failures_free(f);
}

static void test_known(void **state)
{
	const uint8_t secret[LOGIN_KEY_BYTES] = { 1, 2, 3 }, another[LOGIN_KEY_BYTES] = { 4 };
	struct login_known *k = login_known_new(secret), *other = login_known_new(another);
	struct in6_addr a = ip("::ffff:10.0.0.1"), b = ip("::ffff:10.0.0.2");
	(void)state;
	struct login_key key = login_known_key(k, &a, VIEW("Basic x"), VIEW("hash"));
	struct login_key not[] = {
		login_known_key(k, &b, VIEW("Basic x"), VIEW("hash")), login_known_key(k, &a, VIEW("Basic y"), VIEW("hash")),
		login_known_key(k, &a, VIEW("Basic x"), VIEW("changed")), login_known_key(k, &a, VIEW("Basic xh"), VIEW("ash")),
		login_known_key(other, &a, VIEW("Basic x"), VIEW("hash")),
	};
	assert_false(login_known_has(k, &key));
	login_known_add(k, &key);
	assert_true(login_known_has(k, &key));
	for (size_t i = 0; i < ARRAY_LEN(not); i++)
		assert_false(login_known_has(k, &not[i]));
	for (uint32_t i = 0; i < 100000; i++) { /* a table that does not grow, and keeps what is used */
		struct login_key some = { { 0 } };
		memcpy(some.bytes, &i, 4);
		login_known_add(k, &some);
		if (i % 100 == 0)
			assert_true(login_known_has(k, &key));
	}
	login_known_free(k);
	login_known_free(other);
}

/* ---- the server ---- */

static void say(struct httpd_request *rq, void *arg)
{
	(void)arg;
	httpd_text(rq, 200, "%.*s, %zu bytes", VIEW_ARG(httpd_path(rq)), httpd_body(rq).len);
}

static const struct httpd_route routes[] = {
	{ "/open", HTTPD_GET, HTTPD_RIGHT_NONE_NEEDED, say }, { "/read", HTTPD_GET | HTTPD_POST, HTTPD_RIGHT_READ, say, HTTPD_RAW },
	{ "/write", HTTPD_POST, HTTPD_RIGHT_WRITE, say, HTTPD_RAW }, { "/admin", HTTPD_POST, HTTPD_RIGHT_ADMIN, say, HTTPD_QUICK },
	{ "/both", HTTPD_POST, HTTPD_RIGHT_READ_WRITE, say },
};

#define ALL "Basic YWxsOnNlY3JldA=="     /* all:secret */
#define READER "Basic cmVhZGVyOm90aGVy"  /* reader:other */
#define WRONG "Basic YWxsOndyb25n"       /* all:wrong */
#define NOBODY "Basic bm9ib2R5OnNlY3JldA==" /* nobody:secret */
#define WRITER "Bearer writer-token"

#define USERS "basic_auth_users: {all: '" SECRET_4 "', reader: '" OTHER_5 "'}\nuser_rights: {reader: [read]}\n" \
	"tokens: [{name: w, rights: [write], sha256: 3590c0a59f72ce02700194a05f228a725c1f135a6dcb3ded9b2d86ab6a6f52cb}]\n"

static void set(struct httpd *h, const char *yaml)
{
	struct web_config *w;
	struct err e = { 0 };
	if (web_config_parse(&w, view_of(yaml), "web.yml", NULL, &e))
		fail_msg("%s", e.msg);
	login_set_config(h->login, w);
	web_config_unref(w);
}

static struct httpd *start(const char *yaml)
{
	const char *const listen[] = { "127.0.0.1:0" };
	struct httpd_options o = { .listen = listen, .n_listen = 1, .routes = routes, .n_routes = ARRAY_LEN(routes) };
	struct httpd *h = NULL;
	struct err e = { 0 };
	if (httpd_start(&h, &o, &e))
		fail_msg("%s", e.msg);
	if (yaml)
		set(h, yaml);
	return h;
}

static struct answer ask_with(struct httpd *h, const char *line, const char *authorization, const char *body)
{
	struct buf head = { 0 };
	buf_printf(&head, "%s HTTP/1.1%s%s", line, authorization ? "\r\nAuthorization: " : "", authorization ? authorization : "");
	struct answer a = test_ask(httpd_address(h, 0), head.ptr, body);
	buf_free(&head);
	return a;
}

static int status_of(struct httpd *h, const char *line, const char *authorization, const char *body)
{
	struct answer a = ask_with(h, line, authorization, body);
	int status = a.status;
	answer_free(&a);
	return status;
}

static void test_rights(void **state)
{
	static const struct { const char *line; int none, all, reader, writer; } rows[] = {
		{ "GET /open", 200, 200, 200, 200 }, { "HEAD /open", 200, 200, 200, 200 }, { "POST /open", 401, 405, 405, 405 },
		{ "GET /read", 401, 200, 200, 403 }, { "HEAD /read", 401, 200, 200, 403 }, { "POST /read", 401, 200, 200, 403 },
		{ "POST /write", 401, 200, 403, 200 }, { "POST /admin", 401, 200, 403, 403 }, { "POST /both", 401, 200, 403, 403 }, { "GET /admin", 401, 405, 405, 405 },
		{ "GET /nothing", 401, 404, 404, 404 }, { "OPTIONS /read", 401, 204, 204, 204 }, { "PROPFIND /read", 401, 405, 405, 405 },
		{ "GET /%zz", 401, 404, 404, 404 },
	};
	struct httpd *h = start(NULL);
	(void)state;
	assert_int_equal(status_of(h, "POST /admin", NULL, ""), 200); /* no configuration: all may all */
	set(h, USERS);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *body = rows[i].line[0] == 'P' ? "x" : NULL;
		int got[] = { status_of(h, rows[i].line, NULL, body), status_of(h, rows[i].line, ALL, body),
			      status_of(h, rows[i].line, READER, body), status_of(h, rows[i].line, WRITER, body) };
		if (got[0] != rows[i].none || got[1] != rows[i].all || got[2] != rows[i].reader || got[3] != rows[i].writer)
			fail_msg("%s: %d %d %d %d", rows[i].line, got[0], got[1], got[2], got[3]);
	}
	struct answer a = ask_with(h, "GET /read", NULL, NULL);
	assert_string_equal(test_header(&a, "WWW-Authenticate"), "Basic");
	answer_free(&a);
	a = ask_with(h, "POST /admin", READER, "");
	assert_non_null(strstr(a.body, "has not the right \"admin\""));
	assert_null(test_header(&a, "WWW-Authenticate"));
	answer_free(&a);
	assert_int_equal(status_of(h, "GET /read", "Basic !", NULL), 401);
	assert_int_equal(status_of(h, "GET /read", WRONG, NULL), 401);
	assert_int_equal(status_of(h, "GET /read", NOBODY, NULL), 401);
	assert_int_equal(status_of(h, "GET /read", "Bearer other", NULL), 401);
	/* A changed password ends, and so does a user. */
	set(h, "basic_auth_users: {all: '" OTHER_5 "'}");
	assert_int_equal(status_of(h, "GET /read", ALL, NULL), 401);
	assert_int_equal(status_of(h, "GET /read", READER, NULL), 401);
	set(h, "tokens: [{name: w, rights: [read], sha256: 3590c0a59f72ce02700194a05f228a725c1f135a6dcb3ded9b2d86ab6a6f52cb}]");
	assert_int_equal(status_of(h, "GET /read", ALL, NULL), 401);
	assert_int_equal(status_of(h, "GET /read", WRITER, NULL), 200); /* its rights are those of now */
	a = ask_with(h, "GET /read", NULL, NULL);
	assert_string_equal(test_header(&a, "WWW-Authenticate"), "Bearer");
	answer_free(&a);
	httpd_stop(h, 0);
}

/* Bodies: of a request that waits for its password, in pieces, with Expect; of one that is refused; connections stay. */
static void test_bodies(void **state)
{
	struct httpd *h = start(USERS);
	struct buf b = { 0 };
	(void)state;
	struct answer a = ask_with(h, "POST /read", ALL, "0123456789");
	assert_string_equal(a.body, "/read, 10 bytes\n");
	answer_free(&a);
	set(h, USERS);
	int fd = test_connect(httpd_address(h, 0));
	buf_printf(&b, "POST /read HTTP/1.1\r\nHost: localhost\r\nAuthorization: " READER "\r\nExpect: 100-continue\r\nContent-Length: 6\r\n\r\n");
	test_send(fd, b.ptr, b.len);
	char some[1024];
	ssize_t n = recv(fd, some, sizeof some - 1, 0);
	assert_true(n > 0 && strncmp(some, "HTTP/1.1 100", 12) == 0);
	test_send(fd, "abc", 3);
	clock_sleep_ms(20);
	test_send(fd, "def", 3);
	/* The same connection without a login, with a body that is thrown away, then with one again. */
	buf_reset(&b);
	buf_printf(&b, "POST /read HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200000\r\n\r\n%200000s"
		   "GET /read HTTP/1.1\r\nHost: localhost\r\nAuthorization: " READER "\r\nConnection: close\r\n\r\n", "x");
	test_send(fd, b.ptr, b.len);
	a = test_receive(fd);
	assert_non_null(strstr(a.all.ptr, "/read, 6 bytes"));
	assert_non_null(strstr(a.all.ptr, "HTTP/1.1 401"));
	assert_non_null(strstr(a.all.ptr, "/read, 0 bytes"));
	answer_free(&a);
	/* One that would be large is refused before it is sent. */
	fd = test_connect(httpd_address(h, 0));
	buf_reset(&b);
	buf_printf(&b, "POST /read HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3000000\r\n\r\n");
	test_send(fd, b.ptr, b.len);
	a = test_receive(fd);
	assert_int_equal(a.status, 401);
	answer_free(&a);
	/* One of a length that is not said ends with its connection, long before what a body may be. */
	static const char chunked[] = "POST /read HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
	size_t sent = 0;
	fd = test_connect(httpd_address(h, 0));
	test_send(fd, chunked, sizeof chunked - 1);
	buf_reset(&b);
	buf_printf(&b, "10000\r\n%65536s\r\n", "x");
	while (sent < 3000000 && recv(fd, some, 1, MSG_DONTWAIT) < 0 && test_send(fd, b.ptr, b.len)) {
		sent += 65536;
		clock_sleep_ms(5);
	}
	close(fd);
	assert_in_range(sent, 262144, 2900000);
	buf_free(&b);
	httpd_stop(h, 0);
}

static void test_waiting(void **state)
{
	struct httpd *h = start(USERS);
	(void)state;
	assert_int_equal(status_of(h, "GET /read", ALL, NULL), 200);
	for (int i = 0; i < LOGIN_FAILURES; i++) {
		static const char digits[] = "QRSTUVWXYZ"; /* in base64: other last characters of a name or password */
		char wrong[40];
		snprintf(wrong, sizeof wrong, i % 2 ? "Basic YWxsOndyb25%c" : i % 4 ? "Basic bm9ib2R5OnNlY3%c0" : "Bearer no%c", digits[i]);
		assert_int_equal(status_of(h, "GET /read", wrong, NULL), 401);
	}
	struct answer a = ask_with(h, "GET /read", WRONG, NULL);
	assert_int_equal(a.status, 429);
	assert_in_range(strtol(test_header(&a, "Retry-After"), NULL, 10), 50, 60);
	answer_free(&a);
	assert_int_equal(status_of(h, "GET /read", READER, NULL), 429); /* right, but not known from there */
	assert_int_equal(status_of(h, "GET /read", WRITER, NULL), 429);
	assert_int_equal(status_of(h, "GET /read", NULL, NULL), 401);
	assert_int_equal(status_of(h, "GET /read", ALL, NULL), 200); /* known: others cannot shut it out */
	assert_int_equal(status_of(h, "GET /open", WRONG, NULL), 200);
	httpd_stop(h, 0);
}

/* A program that goes on with a wrong login does not make the others at its address wait, and takes no more checks. */
static void test_the_same_again(void **state)
{
	struct httpd *h = start(USERS);
	(void)state;
	for (int i = 0; i < 3 * LOGIN_FAILURES; i++) {
		assert_int_equal(status_of(h, "GET /read", WRONG, NULL), 401);
		assert_int_equal(status_of(h, "GET /read", NOBODY, NULL), 401);
		assert_int_equal(status_of(h, "GET /read", "Bearer no", NULL), 401);
	}
	assert_int_equal(status_of(h, "GET /read", ALL, NULL), 200);
	/* A login that a change of the configuration makes right is right at once. */
	assert_int_equal(status_of(h, "GET /read", "Basic YWxsOm90aGVy", NULL), 401); /* all:other */
	set(h, "basic_auth_users: {all: '" OTHER_5 "', nobody: '" SECRET_4 "'}\n"
	    "tokens: [{name: n, rights: [read], sha256: 9390298f3fb0c5b160498935d79cb139aef28e1c47358b4bbba61862b9c26e59}]"); /* "no" */
	assert_int_equal(status_of(h, "GET /read", "Basic YWxsOm90aGVy", NULL), 200);
	assert_int_equal(status_of(h, "GET /read", NOBODY, NULL), 200);
	assert_int_equal(status_of(h, "GET /read", "Bearer no", NULL), 200);
	/* A password where no users are configured is a wrong one: it, too, counts once however often it comes. */
	set(h, "tokens: [{name: w, rights: [read], sha256: 3590c0a59f72ce02700194a05f228a725c1f135a6dcb3ded9b2d86ab6a6f52cb}]");
	for (int i = 0; i < 3 * LOGIN_FAILURES; i++)
		assert_int_equal(status_of(h, "GET /read", WRONG, NULL), 401);
	assert_int_equal(status_of(h, "GET /read", WRITER, NULL), 200);
	httpd_stop(h, 0);
}

/* Many at once wait for one check; one at its end answers all; the server stops while some wait. */
static void test_many(void **state)
{
	/* cost 9: some 30 ms */
	struct httpd *h = start("basic_auth_users: {all: $2b$09$abcdefghijklmnopqrstuu7QB7NqGJ5PvZ8lPdVg6vQyNEdvGyIQO}");
	int fds[100];
	char ask[300];
	(void)state;
	int n = snprintf(ask, sizeof ask, "GET /read HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: %s\r\n\r\n", WRONG);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		test_send(fds[i] = test_connect(httpd_address(h, 0)), ask, (size_t)n);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		struct answer a = test_receive(fds[i]);
		if (a.status != 401 && a.status != 429)
			fail_msg("%zu: %d", i, a.status);
		answer_free(&a);
	}
	httpd_stop(h, 0);
	h = start("basic_auth_users: {all: $2b$09$abcdefghijklmnopqrstuu7QB7NqGJ5PvZ8lPdVg6vQyNEdvGyIQO}");
	static const char *const passwords[] = { "YTox", "YToy", "YToz", "YTo0", "YTo1", "YTo2", "YTo3", "YTo4" };
	for (size_t i = 0; i < ARRAY_LEN(passwords); i++) {
		n = snprintf(ask, sizeof ask, "GET /read HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic %s\r\n\r\n", passwords[i]);
		test_send(fds[i] = test_connect(httpd_address(h, 0)), ask, (size_t)n);
	}
	clock_sleep_ms(20);
	httpd_stop(h, 0);
	for (size_t i = 0; i < ARRAY_LEN(passwords); i++)
		close(fds[i]);
}

static atomic_int n_answered;

static void count_answer(struct login_waiter *w)
{
	n_answered++;
}

static struct login *login_of(void (*answered)(struct login_waiter *w), const char *yaml)
{
	struct web_config *c;
	struct err e = { 0 };
	if (web_config_parse(&c, view_of(yaml), "web.yml", NULL, &e))
		fail_msg("%s", e.msg);
	struct login *l = login_new(answered, LOGIN_WAITERS);
	login_set_config(l, c);
	web_config_unref(c);
	return l;
}

/* Requests that wait for a check hold connections: not all there are. */
static void test_waiters_are_bounded(void **state)
{
	static struct login_waiter w[LOGIN_WAITERS + 10];
	struct in6_addr from = ip("::ffff:127.0.0.1");
	int busy = 0;
	(void)state;
	struct login *l = login_of(count_answer, "basic_auth_users: {all: $2b$12$abcdefghijklmnopqrstuu7QB7NqGJ5PvZ8lPdVg6vQyNEdvGyIQO}");
	for (size_t i = 0; i < ARRAY_LEN(w); i++)
		busy += login_ask(l, view_of(WRONG), &from, HTTPD_RIGHT_READ, true, &w[i]) == LOGIN_BUSY;
	assert_int_equal(busy, 10);
	assert_true(TEST_WAIT(n_answered == LOGIN_WAITERS));
	assert_int_equal(login_ask(l, view_of(NOBODY), &from, HTTPD_RIGHT_READ, true, &w[0]), LOGIN_ASKED); /* there is room again */
	login_close(l);
	login_free(l);
}

/* ---- floods: who gets in beside them ---- */

#define NINE "$2b$09$abcdefghijklmnopqrstuuHGaj8X0gyV0nNYEM.J5pTQDq3AfkM3W" /* "secret"; 30 ms */

/* A request of a flood or of a person, and when it was answered. */
struct asking {
	struct login_waiter w; /* must be first */
	bool person;
};

static atomic_int n_checked, n_dropped; /* answers to the flood: after a check, without one */
static atomic_int person_at;            /* n_checked when the person was answered; -1: not yet */

static void flood_answer(struct login_waiter *w)
{
	struct asking *a = (struct asking *)(void *)w;
	if (a->person)
		person_at = n_checked;
	else if (w->answer == LOGIN_NEEDED)
		n_checked++;
	else
		n_dropped++;
}

static void flood_begin(void)
{
	n_checked = n_dropped = 0;
	person_at = -1;
}

/* Sends n wrong passwords from addresses in so many /16 networks and /24 subnets. Returns how many were refused without being checked. */
static int flood(struct login *l, struct asking *a, size_t n, unsigned networks, unsigned subnets)
{
	int busy = 0;
	for (size_t i = 0; i < n; i++) {
		struct in6_addr from = ip("::ffff:10.0.0.1");
		from.s6_addr[13] = (uint8_t)(10 + i % networks);
		from.s6_addr[14] = (uint8_t)(i / networks % subnets);
		from.s6_addr[15] = (uint8_t)(i / networks / subnets + 1);
		busy += login_ask(l, view_of(WRONG), &from, HTTPD_RIGHT_READ, true, &a[i].w) == LOGIN_BUSY;
	}
	return busy;
}

/* The number of checks of others before the person's own. */
static int checks_before(struct login *l, struct asking *person, const char *authorization, const char *at)
{
	struct in6_addr from = ip(at);
	person->person = true;
	if (login_ask(l, view_of(authorization), &from, HTTPD_RIGHT_READ, true, &person->w) != LOGIN_ASKED)
		fail_msg("%s: refused at once", at);
	int begin = n_checked;
	assert_true(TEST_WAIT(person_at >= 0));
	assert_int_equal(person->w.answer, LOGIN_PASS);
	return person_at - begin;
}

/* One network, however many addresses it has, delays another by one check, and what is too much of it is dropped. */
static void test_flood_of_a_network(void **state)
{
	static struct asking a[LOGIN_WAITERS + 100];
	struct asking person = { 0 };
	(void)state;
	struct login *l = login_of(flood_answer, "basic_auth_users: {all: " NINE "}");
	flood_begin();
	assert_true(flood(l, a, ARRAY_LEN(a), 1, 4) > 0);
	int dropped = n_dropped;
	assert_in_range(checks_before(l, &person, ALL, "::ffff:10.9.0.1"), 0, 1);
	assert_true(n_dropped <= dropped + 1);
	/* From another subnet, another address of it; four subnets wait. */
	flood_begin();
	assert_in_range(checks_before(l, &person, ALL, "::ffff:10.10.99.1"), 0, 5);
	login_close(l);
	login_free(l);
}

/* Of many networks, each gets its turn: who comes waits for a round of them. */
static void test_flood_of_networks(void **state)
{
	static struct asking a[LOGIN_WAITERS + 100];
	struct asking person = { 0 };
	(void)state;
	struct login *l = login_of(flood_answer, "basic_auth_users: {all: " NINE "}");
	flood_begin();
	flood(l, a, ARRAY_LEN(a), 40, 1);
	assert_in_range(checks_before(l, &person, ALL, "::ffff:10.9.0.1"), 0, 40);
	login_close(l);
	login_free(l);
}

/* Who was here before comes first, whatever the flood, also with another password and after the configuration was read again. */
static void test_flood_and_proven(void **state)
{
	static struct asking a[LOGIN_WAITERS + 100];
	struct asking person = { 0 };
	struct web_config *c;
	struct err e;
	(void)state;
	struct login *l = login_of(flood_answer, "basic_auth_users: {all: '" OTHER_5 "'}");
	flood_begin();
	assert_int_equal(checks_before(l, &person, "Basic YWxsOm90aGVy", "::ffff:10.9.0.1"), 0); /* all:other */
	assert_int_equal(web_config_parse(&c, VIEW("basic_auth_users: {all: " NINE "}"), "web.yml", NULL, &e), 0);
	login_set_config(l, c);
	web_config_unref(c);
	flood_begin();
	assert_true(flood(l, a, ARRAY_LEN(a), 200, 1) > 0);
	assert_in_range(checks_before(l, &person, ALL, "::ffff:10.9.0.1"), 0, 2);
	login_close(l);
	login_free(l);
}

/* On a busy machine a nicer thread would get no time. */
static void test_priority(void **state)
{
	struct asking person = { 0 };
	int found = 0;
	(void)state;
	struct login *l = login_of(flood_answer, "basic_auth_users: {all: '" SECRET_4 "'}");
	flood_begin();
	assert_int_equal(checks_before(l, &person, ALL, "::ffff:10.9.0.1"), 0);
	DIR *tasks = opendir("/proc/self/task");
	for (struct dirent *t; (t = readdir(tasks)) != NULL;) {
		char path[300], comm[32] = "";
		snprintf(path, sizeof path, "/proc/self/task/%s/comm", t->d_name);
		FILE *f = fopen(path, "r");
		if (f && fgets(comm, sizeof comm, f) && strcmp(comm, "httpd-login\n") == 0) {
			found++;
			assert_int_equal(getpriority(PRIO_PROCESS, (id_t)strtoul(t->d_name, NULL, 10)), getpriority(PRIO_PROCESS, 0));
		}
		if (f)
			fclose(f);
	}
	closedir(tasks);
	assert_int_equal(found, 1);
	login_close(l);
	login_free(l);
}

/* However few connections there are, those that wait for a check leave half of them to others. */
static void test_waiters_leave_connections(void **state)
{
	const char *const listen[] = { "127.0.0.1:0" };
	struct httpd_options o = { .listen = listen, .n_listen = 1, .routes = routes, .n_routes = ARRAY_LEN(routes), .max_connections = 16 };
	struct httpd *h = NULL;
	struct err e = { 0 };
	int fds[12];
	(void)state;
	if (httpd_start(&h, &o, &e))
		fail_msg("%s", e.msg);
	set(h, "basic_auth_users: {all: $2b$13$abcdefghijklmnopqrstuu7QB7NqGJ5PvZ8lPdVg6vQyNEdvGyIQO}\n"
	    "tokens: [{name: w, rights: [read], sha256: 3590c0a59f72ce02700194a05f228a725c1f135a6dcb3ded9b2d86ab6a6f52cb}]"); /* half a second */
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		char request[200];
		int n = snprintf(request, sizeof request, "GET /read HTTP/1.1\r\nHost: localhost\r\nAuthorization: " WRONG "\r\n\r\n");
		test_send(fds[i] = test_connect(httpd_address(h, 0)), request, (size_t)n);
	}
	char some[16] = "";
	assert_true(recv(fds[8], some, 12, MSG_WAITALL) == 12 && strcmp(some, "HTTP/1.1 503") == 0); /* the first beyond half */
	assert_int_equal(status_of(h, "GET /read", WRITER, NULL), 200);
	assert_int_equal(status_of(h, "GET /open", NULL, NULL), 200);
	httpd_stop(h, 0);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		close(fds[i]);
}

static void test_proven(void **state)
{
	struct login_proven *p = login_proven_new(7);
	struct in6_addr a = ip("::ffff:10.0.0.1"), b = ip("::ffff:10.0.0.2"), c = ip("2001:db8::1"), d = ip("2001:db8::2:0:0:1"), other = ip("2001:db8:0:1::1");
	(void)state;
	assert_false(login_proven_has(p, &a));
	login_proven_add(p, &a);
	login_proven_add(p, &c);
	assert_true(login_proven_has(p, &a) && login_proven_has(p, &c) && login_proven_has(p, &d)); /* the last two are of one /64 */
	assert_false(login_proven_has(p, &b) || login_proven_has(p, &other));
	for (uint32_t i = 0; i < 100000; i++) { /* a table that does not grow, and keeps what is used */
		memcpy(&b.s6_addr[12], &i, 4);
		login_proven_add(p, &b);
		if (i % 100 == 0) {
			assert_true(login_proven_has(p, &a));
			login_proven_add(p, &a);
		}
	}
	assert_false(login_proven_has(p, &c));
	login_proven_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_authorization), cmocka_unit_test(test_bcrypt), cmocka_unit_test(test_cost), cmocka_unit_test(test_same_time),
		cmocka_unit_test(test_failures), cmocka_unit_test(test_known), cmocka_unit_test(test_rights), cmocka_unit_test(test_bodies),
		cmocka_unit_test(test_waiting), cmocka_unit_test(test_the_same_again), cmocka_unit_test(test_many), cmocka_unit_test(test_waiters_are_bounded),
		cmocka_unit_test(test_proven), cmocka_unit_test(test_flood_of_a_network), cmocka_unit_test(test_flood_of_networks),
		cmocka_unit_test(test_flood_and_proven), cmocka_unit_test(test_priority), cmocka_unit_test(test_waiters_leave_connections),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
