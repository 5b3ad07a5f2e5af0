/* SPDX-License-Identifier: Apache-2.0 */
/* Values that not every format can say, infinite, huge, no number at all, through each of them: an answer is right or an error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/metrics.h"
#include "base/num.h"
#include "httpd/testclient.h"
#include "pprof/pprof.h"
#include "web/fake_test.h"
#include "web/web.h"

static struct web *web;

static int setup(void **state)
{
	(void)state;
	static const char *const listen[] = { "127.0.0.1:0" };
	struct web_options o = { .listen = listen, .n_listen = 1, .query_timeout_ms = 120000 };
	struct err e = { 0 };
	if (web_start(&web, &o, &e))
		return -1;
	web_set_parts(web, (struct promql_engine *)&web /* never looked into */, &fake_source, &fake_targets);
	web_set_ready(web, true);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	web_stop(web, 0);
	metrics_free();
	return 0;
}

static struct answer ask(const char *format, const char *query, const char *time)
{
	struct buf path = { 0 };
	buf_printf(&path, "/api/v1/query?format=%s&query=%s&time=%s", format, query, time);
	struct answer a = test_get(web_address(web, 0), path.ptr);
	buf_free(&path);
	return a;
}

static bool valid_json(const struct answer *a)
{
	json_t *j = json_loadb(a->body, a->n_body, 0, NULL);
	json_decref(j);
	return j != NULL;
}

static bool valid_pprof(const struct answer *a)
{
	struct profile p;
	struct err e = { 0 };
	profile_init(&p, 0);
	bool ok = pprof_decode(a->body, a->n_body, NULL, &p, &e) == 0;
	profile_release(&p);
	return ok;
}

static bool has_number(const struct answer *a)
{
	return !strstr(a->body, "inf") && !strstr(a->body, "nan") && !strstr(a->body, "Inf") && !strstr(a->body, "NaN");
}

/* Lines end in a whole number. */
static bool valid_folded(const struct answer *a)
{
	for (const char *p = a->body, *end; *p; p = end + 1) {
		int64_t n;
		end = strchr(p, '\n');
		const char *blank = end ? memrchr(p, ' ', (size_t)(end - p)) : NULL;
		if (!blank || !num_parse_i64(view_make(blank + 1, (size_t)(end - blank - 1)), &n))
			return false;
	}
	return true;
}

static const struct {
	const char *name;
	bool (*valid)(const struct answer *a);
} formats[] = {
	{ "pprof", valid_pprof }, { "folded", valid_folded }, { "json", valid_json }, { "flamegraph", valid_json },
	{ "speedscope", valid_json }, { "svg", has_number }, { "dot", has_number },
};

static void test_every_format(void **state)
{
	(void)state;
	static const struct {
		const char *query, *fit; /* by format, in the order above: y, or n for an error */
	} cases[] = {
		{ "times:Inf", "nnynnnn" }, { "times:-Inf", "nnynnnn" }, { "times:NaN", "nnynnnn" },
		{ "times:1e300", "nnyyyyy" }, { "times:-1e300", "nnyyyyy" },
		{ "times:1.7e305", "nnynnnn" }, /* each value is finite, their sum is not */
		{ "times:1e16", "nnyyyyy" }, { "times:9e15", "yyyyyyy" }, { "times:0.001", "yyyyyyy" }, { "times:1e-320", "yyyyyyy" },
		{ "times:-1", "yyyyyyy" }, { "times:0", "yyyyyyy" },
		{ "minus:1000", "nnynnny" }, /* the base's total does not fit, nor does what is negated */
		{ "minus:9e18", "ynyyyyy" }, /* a difference does not fit */
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		for (size_t k = 0; k < ARRAY_LEN(formats); k++) {
			struct answer a = ask(formats[k].name, cases[i].query, "60");
			bool good = cases[i].fit[k] == 'y' ? a.status == 200 && formats[k].valid(&a) : a.status == 422;
			if (!good)
				print_message("%s as %s: %d %.300s\n", cases[i].query, formats[k].name, a.status, a.body);
			assert_true(good);
			answer_free(&a);
		}
}

static void test_what_is_said(void **state)
{
	(void)state;
	struct answer a = ask("json", "times:-Inf", "60");
	assert_non_null(strstr(a.body, "\"total\":\"-Inf\",\"samples\":[{\"stack\":[0],\"value\":\"-Inf\"},{\"stack\":[0,1],\"value\":\"-Inf\"}]"));
	answer_free(&a);
	a = ask("flamegraph", "times:NaN", "60");
	assert_string_equal(a.body, "{\"status\":\"error\",\"errorType\":\"execution\",\"error\":\"a value of the profile is NaN, which no "
				    "flame graph can show\"}");
	answer_free(&a);
	a = ask("folded", "times:Inf", "60");
	assert_string_equal(a.body, "a value of the profile is +Inf, which no flame graph can show\n");
	answer_free(&a);
	a = ask("folded", "times:1e16", "60");
	assert_string_equal(a.body, "a value of work;1 does not fit in 64 bits: this format has whole numbers\n");
	answer_free(&a);
	a = ask("pprof", "times:-Inf", "60");
	assert_string_equal(a.body, "a value of -Inf does not fit in a profile\n");
	answer_free(&a);
	a = ask("svg", "times:1e300", "60"); /* 1e303 ns */
	assert_non_null(strstr(a.body, "<title>work;1, 1e+294s (90.91%)</title>"));
	answer_free(&a);
}

/* A time that nanoseconds cannot say is left out. */
static void test_far_times(void **state)
{
	(void)state;
	static const char *const times[] = { "9.2e15", "-9.2e15", "9223372036.854", "-9223372036" };
	for (size_t i = 0; i < ARRAY_LEN(times); i++) {
		struct answer a = ask("pprof", "one", times[i]);
		struct profile p;
		struct err e = { 0 };
		profile_init(&p, 0);
		assert_int_equal(pprof_decode(a.body, a.n_body, NULL, &p, &e), 0);
		assert_int_equal(p.time_ns, i == 2 ? INT64_C(9223371976854000000) : 0);
		profile_release(&p);
		answer_free(&a);
	}
}

/* Each format asks for its memory, and whether its answer is still wanted. */
static void test_answers_that_are_not_made(void **state)
{
	(void)state;
	static const struct {
		atomic_bool *flag;
		int status;
		const char *words;
	} cases[] = { { &fake_answers_fail, 422, "takes too much of memory" }, { &fake_answers_late, 503, "timed out while its answer was made" } };
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		atomic_store(cases[i].flag, true);
		for (size_t k = 0; k < ARRAY_LEN(formats); k++)
			for (size_t n = 0; n < 2; n++) {
				struct answer a = ask(formats[k].name, n ? "two" : "one", "60");
				if (a.status != cases[i].status || !strstr(a.body, cases[i].words))
					fail_msg("%s: %d %s", formats[k].name, a.status, a.body);
				answer_free(&a);
			}
		struct answer a = test_get(web_address(web, 0), "/api/v1/query_range?query=range&start=0&end=60&step=60");
		assert_int_equal(a.status, cases[i].status);
		answer_free(&a);
		atomic_store(cases[i].flag, false);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_format), cmocka_unit_test(test_what_is_said), cmocka_unit_test(test_far_times),
		cmocka_unit_test(test_answers_that_are_not_made),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
