/* SPDX-License-Identifier: Apache-2.0 */
/* Every reader of a parameter: what it takes, and that what is not of its form is refused in the same words by all pages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

#include "base/metrics.h"
#include "httpd/testclient.h"
#include "model/admin.h"
#include "model/rules_past.h"
#include "web/fake_test.h"
#include "web/params.h"
#include "web/web.h"

static struct web *web;
static int64_t asked_timeout_ms;
static size_t asked_limit;

static int evaluate(struct rules_past *p, const struct past_question *q, struct past_answer *ret, struct err *e)
{
	(void)p;
	(void)ret;
	asked_timeout_ms = q->timeout_ms;
	return err_set(e, ERR_CANCELED, "asked");
}

static int snapshot(struct storage_admin *a, char ret_name[ADMIN_NAME_LEN], struct err *e)
{
	(void)a;
	(void)ret_name;
	return err_set(e, ERR_CANCELED, "asked");
}

static struct admin_status *status(struct storage_admin *a, size_t limit)
{
	(void)a;
	asked_limit = limit;
	return xcalloc(1, sizeof(struct admin_status));
}

static int setup(void **state)
{
	(void)state;
	static const char *const listen[] = { "127.0.0.1:0" };
	static struct rules_past past = { evaluate };
	static struct storage_admin admin = { .snapshot = snapshot, .status = status };
	struct web_options o = { .listen = listen, .n_listen = 1, .enable_admin = true, .query_timeout_ms = 120000 };
	struct err e = { 0 };
	if (web_start(&web, &o, &e)) {
		print_message("%s\n", e.msg);
		return -1;
	}
	web_set_parts(web, (struct promql_engine *)&past /* never looked into */, &fake_source, &fake_targets);
	web_set_past(web, &past);
	web_set_admin(web, &admin);
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

#define LONG10 "0123456789"
#define LONG100 LONG10 LONG10 LONG10 LONG10 LONG10 LONG10 LONG10 LONG10 LONG10 LONG10

/* A path, what its form holds if it is a POST, and the error; NULL: it is none of a parameter. */
static const struct row {
	const char *path, *form, *want;
} rows[] = {
	{ "query?query=1&time=x", NULL, "\"time\": cannot parse \"x\" to a valid timestamp" },
	{ "query?query=1&time=" LONG100 "x", NULL, "\"time\": cannot parse \"" LONG100 "\" to a valid timestamp" },
	{ "query?query=1&timeout=1e300", NULL, "\"timeout\": cannot parse \"1e300\" to a valid duration. It overflows int64" },
	{ "query?query=1&limit=1.5", NULL, "\"limit\": \"1.5\" is not a whole number from 0" },
	{ "query?query=1&limit=9223372036854775808", NULL, "\"limit\": \"9223372036854775808\" is not a whole number from 0" },
	{ "query?query=1&explain=maybe", NULL, "\"explain\": \"maybe\" is neither true nor false" },
	{ "query?query=1&explain=", NULL, NULL },
	{ "query?query=1&explain=False", NULL, NULL },
	{ "query?query=one&format=flamegraph&width=nan", NULL, "\"width\": \"nan\" is not a number of pixels" },
	{ "query?query=one&format=gif", NULL, "\"format\": \"gif\" is none of pprof, flamegraph, json, folded, speedscope, svg, dot, prometheus" },
	{ "query_range?query=1&start=0&end=1", NULL, "\"step\": cannot parse \"\" to a valid duration" },
	{ "query_range?query=1&end=1&step=1", NULL, "\"start\": cannot parse \"\" to a valid timestamp" },
	{ "series?match[]=one&match[]=bad", NULL, "\"match[]\": 1:4: parse error: unexpected end of input" },
	{ "series?match[]=one&start=x", NULL, "\"start\": cannot parse \"x\" to a valid timestamp" },
	{ "source_links?line=y", NULL, "\"line\": \"y\" is not a whole number from 0" },
	{ "source_links?line=-1", NULL, "\"line\": \"-1\" is not a whole number from 0" },
	{ "source_links?line=1", NULL, NULL },
	{ "targets?health=up,,down", NULL, "\"health\": \"\" is none of up, down, unknown" },
	{ "targets?health=UP", NULL, "\"health\": \"UP\" is none of up, down, unknown" },
	{ "targets?health=up,unknown&state=DROPPED", NULL, NULL },
	{ "targets?state=other", NULL, NULL },
	{ "rules?type=x", NULL, "\"type\": not supported value \"x\"" },
	{ "rules?exclude_alerts=2", NULL, "\"exclude_alerts\": error converting exclude_alerts: \"2\" is neither true nor false" },
	{ "rules?group_limit=", NULL, NULL },
	{ "rules?type=Alert&exclude_alerts=T", NULL, NULL },
	{ "status/tsdb?limit=0", NULL, "\"limit\": \"0\" is not a whole number from 1 to 10000" },
	{ "status/tsdb?limit=10001", NULL, "\"limit\": \"10001\" is not a whole number from 1 to 10000" },
	{ "admin/tsdb/snapshot", "skip_head=maybe", "\"skip_head\": \"maybe\" is neither true nor false" },
	{ "admin/tsdb/snapshot", "skip_head=true", "\"skip_head\": a snapshot always has the head; leave it out" },
	{ "admin/tsdb/snapshot", "skip_head=f", NULL },
	{ "rules/try", "rules=x&timeout=-5", "\"timeout\": \"-5\" is less than 1ms" },
	{ "rules/try", "rules=x&timeout=0", "\"timeout\": \"0\" is less than 1ms" },
	{ "rules/try", "rules=x&start=-1", "\"start\": it is before 1970" },
	{ "rules/try", "rules=x&end=99999999999", "\"end\": it is not in the past" },
	{ "rules/try", "timeout=1", "\"rules\": the text of a rule file is needed" },
	{ "admin/rules/backfill", "rules=x&timeout=-1m", "\"timeout\": cannot parse \"-1m\" to a valid duration" },
};

static struct answer ask(const struct row *r)
{
	char path[512];
	snprintf(path, sizeof path, "/api/v1/%s", r->path);
	return r->form ? test_post_form(web_address(web, 0), path, r->form) : test_get(web_address(web, 0), path);
}

static void test_words(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct answer a = ask(&rows[i]);
		struct buf want CLEANUP(buf_free) = { 0 };
		if (rows[i].want) {
			struct buf text CLEANUP(buf_free) = { 0 };
			buf_printf(&text, "invalid parameter %s", rows[i].want);
			buf_puts(&want, "{\"status\":\"error\",\"errorType\":\"bad_data\",\"error\":");
			buf_json_string(&want, buf_view(&text));
			buf_putc(&want, '}');
			assert_string_equal(a.body, want.ptr);
			assert_int_equal(a.status, 400);
		} else if (strstr(a.body, "invalid parameter")) {
			fail_msg("%s: %s", rows[i].path, a.body);
		}
		answer_free(&a);
	}
}

static void test_bounds(void **state)
{
	(void)state;
	static const struct {
		const char *form;
		int64_t want;
	} timeouts[] = { { "rules=x", 600000 }, { "rules=x&timeout=", 600000 }, { "rules=x&timeout=2h", 600000 }, { "rules=x&timeout=1.5", 1500 },
			 { "rules=x&timeout=1ms", 1 } };
	for (size_t i = 0; i < ARRAY_LEN(timeouts); i++) {
		struct answer a = ask(&(struct row){ "rules/try", timeouts[i].form, NULL });
		assert_int_equal(asked_timeout_ms, timeouts[i].want);
		answer_free(&a);
	}
	struct answer a = ask(&(struct row){ "status/tsdb", NULL, NULL });
	assert_int_equal(asked_limit, 10);
	answer_free(&a);
	a = ask(&(struct row){ "status/tsdb?limit=10000", NULL, NULL });
	assert_int_equal(asked_limit, 10000);
	answer_free(&a);
}

/* The list of frames that the page has: a list that is none was taken for no list. */
static void test_hex(void **state)
{
	(void)state;
	static const struct {
		const char *list;
		int status;
	} lists[] = { { "", 200 }, { "0123456789abcdef", 200 }, { "0123456789ABCDEF", 400 }, { "0123456789abcde", 400 }, { "0123456789abcdef0", 400 } };
	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		char head[256];
		snprintf(head, sizeof head, "GET /api/v1/query?query=one&time=60&format=flamegraph&list=%s HTTP/1.1\r\nHost: localhost\r\n"
			 "Accept: application/vnd.pyrrha.flame\r\nConnection: close\r\n\r\n", lists[i].list);
		struct answer a = test_ask(web_address(web, 0), head, "");
		assert_int_equal(a.status, lists[i].status);
		answer_free(&a);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_words), cmocka_unit_test(test_bounds), cmocka_unit_test(test_hex) };
	return cmocka_run_group_tests(tests, setup, teardown);
}
