/* SPDX-License-Identifier: Apache-2.0 */
/* What an answer lacks: damage of the storage, and the shares of other servers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "model/source.h"

#define T0 INT64_C(1700000000000) /* 2023-11-14T22:13:20Z */

static void put_line(void *arg, const char *text)
{
	buf_printf(arg, "%s\n", text);
}

static void check_warnings(const struct source_damage *d, const char *want)
{
	struct buf b CLEANUP(buf_free) = { 0 };
	source_damage_warnings(d, put_line, &b);
	buf_putc(&b, 0);
	assert_string_equal(b.ptr, want);
}

static void test_nothing(void **state)
{
	struct source_damage d = { 0 };
	(void)state;
	check_warnings(&d, "");
	assert_int_equal(source_damage_met(&d), 0);
	source_damage_release(&d);
}

/* The same server and reason are one warning over all of the ranges; another reason is another one. */
static void test_missing(void **state)
{
	struct source_damage d = { 0 };
	(void)state;
	source_damage_add(&d, T0, T0 + 1000);
	source_missing_add(&d, "https://eu-1:7070", "connection refused", T0, T0 + 1000);
	source_missing_add(&d, "https://eu-2:7070", "connection refused", T0, T0 + 1000);
	source_missing_add(&d, "https://eu-1:7070", "connection refused", T0 + 5000, T0 + 9000);
	source_missing_add(&d, "https://eu-1:7070", "timed out", T0 - 1000, T0);
	assert_int_equal(source_damage_met(&d), 5);
	check_warnings(&d,
		       "stored data between 2023-11-14T22:13:20.000Z and 2023-11-14T22:13:21.000Z is damaged or lost: what cannot be read is missing from this answer\n"
		       "server https://eu-1:7070: what it has between 2023-11-14T22:13:19.000Z and 2023-11-14T22:13:20.000Z is missing from this answer: timed out\n"
		       "server https://eu-2:7070: what it has between 2023-11-14T22:13:20.000Z and 2023-11-14T22:13:21.000Z is missing from this answer: connection refused\n"
		       "server https://eu-1:7070: what it has between 2023-11-14T22:13:20.000Z and 2023-11-14T22:13:29.000Z is missing from this answer: connection refused\n");
	source_damage_release(&d);
	assert_int_equal(source_damage_met(&d), 0);
	check_warnings(&d, "");
}

/* Who asks for labels may name no times. */
static void test_all_times(void **state)
{
	const int64_t far = INT64_MAX / 4;
	struct source_damage d = { 0 };
	(void)state;
	source_missing_add(&d, "a", "away", -far, far);
	source_missing_add(&d, "b", "away", T0, far);
	source_missing_add(&d, "c", "away", -far, T0);
	check_warnings(&d, "server c: what it has until 2023-11-14T22:13:20.000Z is missing from this answer: away\n"
			   "server b: what it has since 2023-11-14T22:13:20.000Z is missing from this answer: away\n"
			   "server a: what it has is missing from this answer: away\n");
	source_damage_release(&d);
}

/* Names and reasons of any length are cut, and found again. */
static void test_long_names(void **state)
{
	struct source_damage d = { 0 };
	char text[1000];
	(void)state;
	memset(text, 'x', sizeof text - 1);
	text[sizeof text - 1] = 0;
	for (size_t i = 0; i < 3; i++)
		source_missing_add(&d, text, text, T0, T0 + 1000);
	assert_null(atomic_load(&d.missing)->next);
	assert_int_equal(source_damage_met(&d), 3);
	source_damage_release(&d);
}

#define THREADS 4
#define SERVERS 40
#define ROUNDS 500

static void *add_many(void *arg)
{
	for (int i = 0; i < ROUNDS * SERVERS; i++) {
		char name[32];
		snprintf(name, sizeof name, "http://s%d", i % SERVERS);
		source_missing_add(arg, name, "away", T0, T0 + 1000 * (i + 1));
	}
	return NULL;
}

struct counted {
	size_t named, rest;
	char names[SOURCE_MISSING_MAX][SOURCE_WARNING_LEN];
};

static void count_warning(void *arg, const char *text)
{
	struct counted *c = arg;
	if (strncmp(text, "other servers: ", 15) == 0) {
		c->rest++;
		return;
	}
	assert_true(c->named < SOURCE_MISSING_MAX);
	for (size_t i = 0; i < c->named; i++)
		assert_string_not_equal(c->names[i], text);
	snprintf(c->names[c->named++], SOURCE_WARNING_LEN, "%s", text);
}

/* More servers than have places: nothing is lost or twice, whichever thread comes first. */
static void test_many_servers(void **state)
{
	struct source_damage d = { 0 };
	struct counted c = { 0 };
	pthread_t t[THREADS];
	(void)state;
	for (size_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&t[i], NULL, add_many, &d), 0);
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	assert_int_equal(source_damage_met(&d), THREADS * ROUNDS * SERVERS);
	source_damage_warnings(&d, count_warning, &c);
	assert_int_equal(c.named, SOURCE_MISSING_MAX);
	assert_int_equal(c.rest, 1);
	source_damage_release(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing), cmocka_unit_test(test_missing), cmocka_unit_test(test_all_times),
		cmocka_unit_test(test_long_names), cmocka_unit_test(test_many_servers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
