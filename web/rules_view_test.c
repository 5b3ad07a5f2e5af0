/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1/rules and alerts, byte by byte, of groups that are known by heart. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

#include "base/metrics.h"
#include "httpd/testclient.h"
#include "model/rules_status.h"
#include "web/answer.h"
#include "web/fake_test.h"
#include "web/web.h"

static struct web *web;
static bool asked_alerts;
static size_t annotation_bytes = 1;

#define L(n, v) { { n, sizeof n - 1 }, { v, sizeof v - 1 } }
static struct label team[] = { L("team", "core") }, hostile[] = { L("alertname", "A"), L("x", "</script>\"\xff") };
static struct label summary[] = { L("summary", "{{ $value }}") };

/* Two groups of one file, one of another: of an alert that fires, one that is pending and one that was resolved; of a rule that failed. */
static void groups(struct status_rules *s, const struct status_rules_query *q)
{
	(void)s;
	asked_alerts = q->alerts;
	char *text AUTOFREE = xmalloc(annotation_bytes);
	memset(text, '<', annotation_bytes);
	struct label annotation = { VIEW("summary"), { text, annotation_bytes } };
	const struct status_alert alerts[] = {
		{ .labels = { hostile, 2 }, .annotations = { &annotation, 1 }, .state = ALERT_FIRING, .value = 0.35, .active_at_ms = 1000,
		  .fired_at_ms = 2000, .keep_firing_since_ms = 3500 },
		{ .labels = { hostile, 1 }, .state = ALERT_PENDING, .value = INFINITY, .active_at_ms = 2000 },
		{ .labels = { team, 1 }, .state = ALERT_INACTIVE, .resolved_at_ms = 2000, .active_at_ms = 1000 },
	};
	const struct status_rule rules[] = {
		{ .name = VIEW("one"), .query = VIEW("vector(1)"), .labels = { team, 1 }, .health = RULE_OK, .last_evaluation_ms = 1500,
		  .evaluation_ns = 250000 },
		{ .alerting = true, .name = VIEW("A"), .query = VIEW("one > 0"), .for_ms = 1500, .keep_firing_for_ms = 60000, .state = ALERT_FIRING,
		  .annotations = { summary, 1 }, .health = RULE_OK, .last_evaluation_ms = 1500, .evaluation_ns = 1000000,
		  .alerts = alerts, .n_alerts = q->alerts ? 3 : 0 },
		{ .alerting = true, .name = VIEW("B"), .query = VIEW("x"), .health = RULE_ERR, .last_error = VIEW("many-to-many"), .state = ALERT_UNKNOWN },
	};
	const struct status_rule_group all[] = {
		{ .name = VIEW("g"), .file = VIEW("a.yml"), .interval_ms = 15000, .limit = 10, .last_evaluation_ms = 1500, .evaluation_ns = 1250000,
		  .rules = rules, .n_rules = 2 },
		{ .name = VIEW("h"), .file = VIEW("a.yml"), .interval_ms = 500, .rules = rules + 2, .n_rules = 1 },
		{ .name = VIEW("g"), .file = VIEW("b.yml"), .interval_ms = 15000, .rules = rules, .n_rules = 1 },
	};
	for (size_t i = 0; i < 3 && q->group(q->arg, &all[i]); i++)
		;
}

static int setup(void **state)
{
	(void)state;
	static const char *const listen[] = { "127.0.0.1:0" };
	static struct status_rules status = { groups };
	const struct web_options o = { .listen = listen, .n_listen = 1, .query_timeout_ms = 120000 };
	struct err e;
	if (web_start(&web, &o, &e))
		return -1;
	web_set_parts(web, (struct promql_engine *)&web /* never looked into */, &fake_source, &fake_targets);
	web_set_rules(web, &status);
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

static void check(const char *path, int status, const char *want)
{
	struct answer a = test_get(web_address(web, 0), path);
	if (a.status != status || strcmp(a.body, want) != 0)
		print_message("%s\n", path);
	assert_string_equal(a.body, want);
	assert_int_equal(a.status, status);
	answer_free(&a);
}

#define SUCCESS(data) "{\"status\":\"success\",\"data\":" data "}"
#define ERROR(text) "{\"status\":\"error\",\"errorType\":\"bad_data\",\"error\":\"" text "\"}"
#define FIRING "{\"labels\":{\"alertname\":\"A\",\"x\":\"\\u003c/script\\u003e\\\"\xef\xbf\xbd\"},\"annotations\":{\"summary\":\"\\u003c\"}," \
	"\"state\":\"firing\",\"activeAt\":\"1970-01-01T00:00:01.000Z\",\"keepFiringSince\":\"1970-01-01T00:00:03.500Z\",\"value\":\"3.5e-01\"}"
#define PENDING "{\"labels\":{\"alertname\":\"A\"},\"annotations\":{},\"state\":\"pending\",\"activeAt\":\"1970-01-01T00:00:02.000Z\",\"value\":\"+Inf\"}"
#define ONE "{\"name\":\"one\",\"query\":\"vector(1)\",\"labels\":{\"team\":\"core\"},\"health\":\"ok\",\"evaluationTime\":0.00025," \
	"\"lastEvaluation\":\"1970-01-01T00:00:01.500Z\",\"type\":\"recording\"}"
#define A(alerts) "{\"state\":\"firing\",\"name\":\"A\",\"query\":\"one \\u003e 0\",\"duration\":1.5,\"keepFiringFor\":60,\"labels\":{}," \
	"\"annotations\":{\"summary\":\"{{ $value }}\"},\"alerts\":" alerts ",\"health\":\"ok\",\"evaluationTime\":0.001," \
	"\"lastEvaluation\":\"1970-01-01T00:00:01.500Z\",\"type\":\"alerting\"}"
#define B(alerts) "{\"state\":\"unknown\",\"name\":\"B\",\"query\":\"x\",\"duration\":0,\"keepFiringFor\":0,\"labels\":{},\"annotations\":{}," \
	"\"alerts\":" alerts ",\"health\":\"err\",\"lastError\":\"many-to-many\",\"evaluationTime\":0,\"lastEvaluation\":\"0001-01-01T00:00:00Z\"," \
	"\"type\":\"alerting\"}"
#define G(rules) "{\"name\":\"g\",\"file\":\"a.yml\",\"rules\":[" rules "],\"interval\":15,\"limit\":10,\"evaluationTime\":0.00125," \
	"\"lastEvaluation\":\"1970-01-01T00:00:01.500Z\"}"
#define H(alerts) "{\"name\":\"h\",\"file\":\"a.yml\",\"rules\":[" B(alerts) "],\"interval\":0.5,\"limit\":0,\"evaluationTime\":0," \
	"\"lastEvaluation\":\"0001-01-01T00:00:00Z\"}"
#define OTHER "{\"name\":\"g\",\"file\":\"b.yml\",\"rules\":[" ONE "],\"interval\":15,\"limit\":0,\"evaluationTime\":0," \
	"\"lastEvaluation\":\"0001-01-01T00:00:00Z\"}"
#define GROUPS(groups) SUCCESS("{\"groups\":[" groups "]}")

static void test_fields(void **state)
{
	(void)state;
	check("/api/v1/rules", 200, GROUPS(G(ONE "," A("[" FIRING "," PENDING "]")) "," H("[]") "," OTHER));
	check("/api/v1/alerts", 200, SUCCESS("{\"alerts\":[" FIRING "," PENDING "]}"));
}

static void test_which(void **state)
{
	(void)state;
	check("/api/v1/rules?type=Record", 200, GROUPS(G(ONE) "," OTHER));
	check("/api/v1/rules?type=alert&exclude_alerts=T", 200, GROUPS(G(A("null")) "," H("null")));
	assert_false(asked_alerts);
	check("/api/v1/rules?rule_name[]=B&rule_name[]=C&exclude_alerts=0", 200, GROUPS(H("[]")));
	assert_true(asked_alerts);
	check("/api/v1/rules?rule_group[]=h&rule_group[]=x", 200, GROUPS(H("[]")));
	check("/api/v1/rules?file[]=b.yml", 200, GROUPS(OTHER));
	check("/api/v1/rules?file[]=a.yml&rule_name[]=one", 200, GROUPS(G(ONE)));
	check("/api/v1/rules?file[]=", 200, GROUPS(""));
	check("/api/v1/rules?match[]=nobody", 200, GROUPS("")); /* the fake one's __name__="nobody" */
	check("/api/v1/rules?match[]=bad", 400, ERROR("invalid parameter \\\"match[]\\\": 1:4: parse error: unexpected end of input"));
	check("/api/v1/rules?type=x", 400, ERROR("invalid parameter \\\"type\\\": not supported value \\\"x\\\""));
	check("/api/v1/rules?exclude_alerts=x", 400, ERROR("invalid parameter \\\"exclude_alerts\\\": error converting exclude_alerts: \\\"x\\\" is neither true nor false"));
}

static void test_pages(void **state)
{
	(void)state;
	char path[200], token[17];
	struct answer a = test_get(web_address(web, 0), "/api/v1/rules?type=record&group_limit=1");
	const char *at = strstr(a.body, ",\"groupNextToken\":\"");
	assert_non_null(at);
	snprintf(token, sizeof token, "%s", at + strlen(",\"groupNextToken\":\""));
	answer_free(&a);
	snprintf(path, sizeof path, "/api/v1/rules?type=record&group_limit=1&group_next_token=%s", token);
	check(path, 200, GROUPS(OTHER)); /* the group between has no such rule, and is no page */
	check("/api/v1/rules?type=record&group_limit=2", 200, GROUPS(G(ONE) "," OTHER));
	check("/api/v1/rules?group_limit=1&rule_group[]=h", 200, GROUPS(H("[]")));
	check("/api/v1/rules?group_next_token=x", 400, ERROR("invalid parameter \\\"group_next_token\\\": group_limit needs to be present in order to paginate over the groups"));
	check("/api/v1/rules?group_limit=1&group_next_token=x", 400, ERROR("invalid parameter \\\"group_next_token\\\": invalid group_next_token 'x'. were rule groups changed?"));
	check("/api/v1/rules?group_limit=x", 400, ERROR("invalid parameter \\\"group_limit\\\": group_limit needs to be a valid number: \\\"x\\\""));
	check("/api/v1/rules?group_limit=0", 400, ERROR("invalid parameter \\\"group_limit\\\": group_limit needs to be greater than 0"));
	check("/api/v1/rules?group_limit=3000000000", 400, ERROR("invalid parameter \\\"group_limit\\\": group_limit needs to be a valid number: \\\"3000000000\\\""));
}

/* An annotation of 12 MiB, of which each byte takes six in JSON: the answer ends after it, is JSON, and says so. */
static void test_too_long(void **state)
{
	(void)state;
	annotation_bytes = (size_t)12 << 20;
	struct answer a = test_get(web_address(web, 0), "/api/v1/alerts");
	const char *end = "\"value\":\"3.5e-01\"}]},\"warnings\":[\"results truncated due to limit\"]}";
	assert_int_equal(a.status, 200);
	assert_string_equal(a.body + strlen(a.body) - strlen(end), end);
	answer_free(&a);
	a = test_get(web_address(web, 0), "/api/v1/rules");
	assert_null(strstr(a.body, "pending"));
	assert_non_null(strstr(a.body, "\"warnings\":[\"results truncated due to limit\"]}"));
	answer_free(&a);
	annotation_bytes = 1;
}

static void test_values(void **state)
{
	(void)state;
	static const struct {
		double v;
		const char *want;
	} values[] = { { 1, "\"1e+00\"" }, { 0, "\"0e+00\"" }, { -0.0, "\"-0e+00\"" }, { -12.5, "\"-1.25e+01\"" }, { 1e100, "\"1e+100\"" }, { 5e-324, "\"5e-324\"" },
		       { 0.1, "\"1e-01\"" }, { 1700000000, "\"1.7e+09\"" }, { 1e21, "\"1e+21\"" }, { 0.30000000000000004, "\"3.0000000000000004e-01\"" },
		       { (double)NAN, "\"NaN\"" }, { -INFINITY, "\"-Inf\"" } };
	for (size_t i = 0; i < ARRAY_LEN(values); i++) {
		struct buf b = { 0 };
		json_exponent(&b, values[i].v);
		buf_putc(&b, 0);
		assert_string_equal(b.ptr, values[i].want);
		buf_free(&b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_fields), cmocka_unit_test(test_which), cmocka_unit_test(test_pages),
					    cmocka_unit_test(test_too_long), cmocka_unit_test(test_values) };
	return cmocka_run_group_tests(tests, setup, teardown);
}
