/* SPDX-License-Identifier: Apache-2.0 */
/* Logins: the header, the hashes, who has to wait. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <time.h>

#include "base/clock.h"
#include "httpd/authorization.h"
#include "httpd/bcrypt.h"
#include "httpd/login_failures.h"

#define SECRET_4 "$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW" /* "secret" */
#define OTHER_5 "$2b$05$abcdefghijklmnopqrstuuVQd15VhR/oN1H3pzUR5lME0fZO6.qRW"  /* "other" */
#define LONG_4 "$2b$04$abcdefghijklmnopqrstuubzadhGtS2zEF.gu0yd0opP6cVzb.e0i"   /* 72 times "x" and more */

static void test_header(void **state)
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

static struct in6_addr address(const char *text)
{
	struct in6_addr a;
	assert_int_equal(inet_pton(AF_INET6, text, &a), 1);
	return a;
}

static void test_failures(void **state)
{
	struct login_failures *f = login_failures_new(7);
	struct in6_addr a = address("::ffff:10.0.0.1"), b = address("::ffff:10.0.0.2"), c = address("2001:db8::1"), d = address("2001:db8::2:0:0:1"),
			other = address("2001:db8:0:1::1");
	int64_t now = 1000000;
	(void)state;
	assert_int_equal(login_failures_wait(f, &a, now), 0);
	for (unsigned i = 0; i < LOGIN_FAILURES; i++) {
		assert_int_equal(login_failures_wait(f, &a, now + i * 1000), 0);
		assert_int_equal(login_failures_add(f, &a, now + i * 1000), i + 1);
		login_failures_add(f, i % 2 ? &c : &d, now);
	}
	assert_int_equal(login_failures_wait(f, &a, now + 10000), 50); /* until the first is a minute old */
	assert_int_equal(login_failures_wait(f, &a, now + 59001), 1);
	assert_int_equal(login_failures_wait(f, &a, now + 60000), 0);
	login_failures_add(f, &a, now + 60000);
	assert_int_equal(login_failures_wait(f, &a, now + 60000), 1); /* and then until the second is */
	assert_int_equal(login_failures_wait(f, &b, now), 0);
	assert_int_equal(login_failures_wait(f, &c, now), 60); /* two of one network */
	assert_int_equal(login_failures_wait(f, &other, now), 0);
	for (uint32_t i = 0; i < 100000; i++) { /* a table that does not grow */
		memcpy(&b.s6_addr[12], &i, 4);
		login_failures_add(f, &b, now + 61000);
	}
	login_failures_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_header), cmocka_unit_test(test_bcrypt), cmocka_unit_test(test_cost), cmocka_unit_test(test_same_time),
		cmocka_unit_test(test_failures),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
