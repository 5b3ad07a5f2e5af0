/* SPDX-License-Identifier: Apache-2.0 */
/* The API over real sockets, byte by byte, with an engine that answers by rote. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <glob.h>
#include <jansson.h>
#include <math.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/testwait.h"
#include "httpd/testclient.h"
#include "model/flame.h"
#include "pprof/pprof.h"
#include "web/answer.h"
#include "model/admin.h"
#include "web/fake_test.h"
#include "web/remedies.h"
#include "web/web.h"

static struct web *web;
static const char *address;
static int reloads;

static int reload(void *arg, struct err *e)
{
	(void)arg;
	return ++reloads == 2 ? err_set(e, ERR_BAD_DATA, "c.yml:1:1: it is wrong") : 0;
}

static void reload_state(void *arg, struct web_reload_state *ret)
{
	(void)arg;
	*ret = (struct web_reload_state){ .ok = true, .restart = "object_storage waits" };
	if (reloads < 3)
		ret->restart[0] = 0;
}

static char *config_text(void *arg)
{
	(void)arg;
	return xstrdup("global:\n  scrape_interval: 5s\n");
}

static struct web *start(bool lifecycle, const char *external_url)
{
	static bool yes = true;
	static struct opt flags[] = { { "Group", OPT_GROUP }, { "web.flag", OPT_BOOL, &yes, NULL, "x" }, { "gone", OPT_REFUSED, NULL, NULL, "x" },
				      { "theirs", OPT_EXPLAINED, NULL, NULL, "x" } };
	static const char *const listen[] = { "127.0.0.1:0" };
	struct web_options o = { .listen = listen, .n_listen = 1, .enable_lifecycle = lifecycle, .external_url = external_url,
				 .flags = flags, .n_flags = ARRAY_LEN(flags), .query_timeout_ms = 120000, .reload = reload, .reload_state = reload_state,
				 .object_store = "directory b", .config_text = config_text };
	struct web *w = NULL;
	struct err e = { 0 };
	if (web_start(&w, &o, &e)) {
		print_message("%s\n", e.msg);
		return NULL;
	}
	web_set_parts(w, (struct promql_engine *)&reloads /* never looked into */, &fake_source, &fake_targets);
	return w;
}

static int setup(void **state)
{
	(void)state;
	web = start(false, NULL);
	address = web ? web_address(web, 0) : NULL;
	return web ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	web_stop(web, 0);
	metrics_free();
	return 0;
}

static void check_at(const char *where, const char *path, int status, const char *want)
{
	struct answer a = test_get(where, path);
	if (a.status != status || strcmp(a.body, want) != 0)
		print_message("%s\n", path);
	assert_string_equal(a.body, want);
	assert_int_equal(a.status, status);
	answer_free(&a);
}

static void check(const char *path, int status, const char *want)
{
	check_at(address, path, status, want);
}

#define SUCCESS(data) "{\"status\":\"success\",\"data\":" data "}"
#define ERROR(type, text) "{\"status\":\"error\",\"errorType\":\"" type "\",\"error\":\"" text "\"}"

/* Each class of error has its next step. */
static void test_remedies(void **state)
{
	(void)state;
	static const struct {
		const char *url, *error, *advice;
	} rows[] = {
		{ "http://10.0.0.1:6060/debug/pprof/allocs", "cannot connect: Connection refused (x)", "Nothing listens at 10.0.0.1:6060. " },
		{ "http://10.0.0.1:6060/debug/pprof/profile?seconds=10", "timed out after 5s: connected, but no answer came", "raise scrape_timeout (5s) above" },
		{ "http://10.0.0.1/a?seconds=1", "timed out after 5s: the name was not resolved", "It takes longer than scrape_timeout (5s)" },
		{ "http://db:1/a", "timed out after 5s: the name was not resolved", "getent hosts db" },
		{ "http://db:1/a", "timed out after 5s: no connection (is a firewall dropping packets?)", "db:1 get lost" },
		{ "http://[::1]:1/", "Could not resolve host: x", "the name [::1]." },
		{ "http://h/", "the server answered HTTP status 401: timed out", "basic_auth" },
		{ "http://h/", "the server answered HTTP status 400: Client sent an HTTP request to an HTTPS server.", "scheme: https" },
		{ "http://h", "not served there (HTTP status 404)", "nothing at /." },
		{ "https://h", "SSL: no alternative certificate subject name matches target host name 'x'", "server_name" },
		{ "https://h", "SSL certificate problem: unable to get local issuer certificate", "ca_file" },
		{ "http://h/", "the server answered HTTP status 400: <html> <title>400 The plain HTTP request was sent to HTTPS port</title>", "scheme: https" },
		{ "http://h/", "the server answered HTTP status 400: Reason: You're speaking plain HTTP to an SSL-enabled server port.", "scheme: https" },
		{ "https://h:1/", "CONNECT tunnel failed, response 407", "put it into proxy_url" },
		{ "https://h:1/", "oauth2: asking for a token: the token URL answered 401", "check oauth2" },
		{ "h", "not stored: storage has no room for 3 more series", "page Status" },
		{ "", "what nobody thought of", "curl -v URL" },
		/* What a target says, and its name, do not choose the advice. */
		{ "http://h/", "line 1 of the metrics: no value: alertmanager_alerts{state=\"tls\" 5", "text format 0.0.4" },
		{ "http://h/", "line 1 of the metrics: no value: certificate_dns_resolve_{ 5", "text format 0.0.4" },
		{ "http://h/", "a series alertmanager_build_info is over label_limit", "more or longer than the job takes" },
		{ "http://h/", "a series x{a=\" is over tls\"} is over label_limit", "more or longer than the job takes" },
		{ "http://h/", "the server answered HTTP status 500: upstream https server unavailable", "The target itself has trouble" },
		{ "http://h/", "the server answered HTTP status 500: session not stored: quota", "The target itself has trouble" },
		{ "http://h/", "not served there (HTTP status 404): refused by tls", "nothing at /." },
		{ "http://dns-resolve.tls.alert/", "cannot connect: Connection refused (Failed to connect to dns-resolve.tls.alert port 80 after 0 ms: Couldn't connect to server)",
		  "Nothing listens at dns-resolve.tls.alert:80." },
		{ "http://target:1/", "cannot connect: Connection refused (Failed to connect to 10.0.0.9 port 3128 after 0 ms: Couldn't connect to server)",
		  "Nothing listens at 10.0.0.9:3128." },
		{ "http://dns-resolver:1/", "Could not resolve host: dns-resolver", "the name dns-resolver." },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct buf b = { 0 };
		remedy_put(&b, &(struct status_target){ .scrape_url = view_of(rows[i].url), .last_error = view_of(rows[i].error), .timeout_ms = 5000 });
		if (!view_contains(buf_view(&b), view_of(rows[i].advice)))
			fail_msg("%s: %.*s", rows[i].error, VIEW_ARG(buf_view(&b)));
		buf_free(&b);
	}
	static const struct { const char *error, *advice; } by_socket[] = {
		{ "Failed to connect to h port 80 after 0 ms: Couldn't connect to server", "Nothing listens on the target's unix socket." },
		{ "cannot connect: Connection refused (x)", "Try there: curl -v --unix-socket /run/x.sock URL" },
		{ "cannot connect: Permission denied (x)", "As the server's user, try: curl -v --unix-socket /run/x.sock URL" },
		{ "what nobody thought of", ": curl -v --unix-socket /run/x.sock URL" },
		{ "timed out after 5s: connected, but no answer came", "-w '%{time_total}' --unix-socket /run/x.sock URL" },
		{ "cannot connect: this process has as many files open as it may, 3", "a limit of its machine" },
	};
	for (size_t i = 0; i < ARRAY_LEN(by_socket); i++) {
		struct buf b = { 0 };
		remedy_put(&b, &(struct status_target){ .scrape_url = VIEW("http://h/"), .socket = VIEW("/run/x.sock"), .last_error = view_of(by_socket[i].error), .timeout_ms = 5000 });
		if (!view_contains(buf_view(&b), view_of(by_socket[i].advice)))
			fail_msg("%s: %.*s", by_socket[i].error, VIEW_ARG(buf_view(&b)));
		buf_free(&b);
	}
	struct buf none = { 0 };
	remedy_put(&none, &(struct status_target){ .note = VIEW("the agent samples less"), .timeout_ms = 1 });
	assert_int_equal(none.len, 0);
}

static void test_readiness(void **state)
{
	(void)state;
	check("/-/healthy", 200, "Pyrrha is Healthy.\n");
	check("/api/v1/query?query=1", 503, "Service Unavailable\n");
	check("/federate", 503, "Service Unavailable\n");
	struct answer a = test_get(address, "/-/ready");
	assert_int_equal(a.status, 503);
	answer_free(&a);
	a = test_get(address, "/api/v1/notifications");
	assert_non_null(strstr(a.body, "[{\"text\":\"Pyrrha is starting and reading its log.\",\"date\":\""));
	answer_free(&a);
	web_set_ready(web, true);
	check("/-/ready", 200, "Pyrrha is Ready.\n");
}

static void test_query(void **state)
{
	(void)state;
	check("/api/v1/query?query=1&time=1700000000.12", 200,
	      SUCCESS("{\"resultType\":\"scalar\",\"result\":[1700000000.120,\"1\"]}"));
	check("/api/v1/query?query=nan&time=-1.5", 200, SUCCESS("{\"resultType\":\"scalar\",\"result\":[-1.500,\"NaN\"]}"));
	check("/api/v1/query?query=text&time=1970-01-01T00:01:00Z", 200,
	      SUCCESS("{\"resultType\":\"string\",\"result\":[60,\"say \\\"x\\\"\"]}"));
	check("/api/v1/query?query=vector&time=60", 200,
	      SUCCESS("{\"resultType\":\"vector\",\"result\":[{\"metric\":{\"__name__\":\"cpu\",\"pod\":\"a\"},"
		      "\"value\":[60,\"1.5\"]},{\"metric\":{\"__name__\":\"cpu\",\"pod\":\"b\\u003cc\"},"
		      "\"value\":[60,\"1e-07\"]}]},\"warnings\":[\"it is \\\"fake\\\"\"]"));
	check("/api/v1/query?query=vector&time=60&limit=1", 200,
	      SUCCESS("{\"resultType\":\"vector\",\"result\":[{\"metric\":{\"__name__\":\"cpu\",\"pod\":\"a\"},"
		      "\"value\":[60,\"1.5\"]}]},\"warnings\":[\"results truncated due to limit\",\"it is \\\"fake\\\"\"]"));
	check("/api/v1/query?query=none&time=60", 200, SUCCESS("{\"resultType\":\"vector\",\"result\":[]}"));
	check("/api/v1/query?query=range&time=60", 200,
	      SUCCESS("{\"resultType\":\"matrix\",\"result\":[{\"metric\":{\"__name__\":\"cpu\",\"pod\":\"a\"},"
		      "\"values\":[[60,\"1.5\"],[61,\"1.5\"]]}]}"));
	struct answer a = test_post_form(address, "/api/v1/query", "query=1&time=1");
	assert_string_equal(a.body, SUCCESS("{\"resultType\":\"scalar\",\"result\":[1,\"1\"]}"));
	answer_free(&a);
}

static void test_query_errors(void **state)
{
	(void)state;
	check("/api/v1/query?query=bad", 400,
	      ERROR("bad_data", "invalid parameter \\\"query\\\": 1:4: parse error: unexpected end of input"));
	check("/api/v1/query?query=timeout", 503, ERROR("timeout", "query timed out in expression evaluation"));
	check("/api/v1/query?query=limit", 422, ERROR("execution", "query processing would load too many samples into memory "
						      "(--query.max-samples)"));
	check("/api/v1/query?query=1&time=noon", 400,
	      ERROR("bad_data", "invalid parameter \\\"time\\\": cannot parse \\\"noon\\\" to a valid timestamp"));
	check("/api/v1/query?query=1&timeout=x", 400,
	      ERROR("bad_data", "invalid parameter \\\"timeout\\\": cannot parse \\\"x\\\" to a valid duration"));
	check("/api/v1/query?query=1&limit=-1", 400,
	      ERROR("bad_data", "invalid parameter \\\"limit\\\": \\\"-1\\\" is not a whole number from 0"));
	check("/api/v1/nothing", 404, ERROR("not_found", "there is no /api/v1/nothing"));
	struct answer a = test_get(address, "/api/v1/query?query=1&timeout=1h");
	assert_int_equal(atomic_load(&fake_timeout_ms), 120000); /* --query.timeout bounds it */
	answer_free(&a);
	a = test_get(address, "/api/v1/query?query=1&timeout=1.5");
	assert_int_equal(atomic_load(&fake_timeout_ms), 1500);
	answer_free(&a);
}

static void test_query_range(void **state)
{
	(void)state;
	check("/api/v1/query_range?query=x&start=0&end=60&step=15&limit=1", 200,
	      SUCCESS("{\"resultType\":\"matrix\",\"result\":[{\"metric\":{\"__name__\":\"cpu\",\"pod\":\"a\"},"
		      "\"values\":[[0,\"1.5\"],[1,\"1.5\"]]}]},\"warnings\":[\"results truncated due to limit\"]"));
	check("/api/v1/query_range?query=x&start=60&end=0&step=15", 400,
	      ERROR("bad_data", "invalid parameter \\\"end\\\": end timestamp must not be before start time"));
	check("/api/v1/query_range?query=x&start=0&end=60&step=0", 400,
	      ERROR("bad_data", "invalid parameter \\\"step\\\": zero or negative query resolution step widths are not accepted. "
		    "Try a positive integer"));
	check("/api/v1/query_range?query=x&start=0&end=60", 400,
	      ERROR("bad_data", "invalid parameter \\\"step\\\": cannot parse \\\"\\\" to a valid duration"));
	check("/api/v1/query_range?query=x&start=0&end=11001&step=1", 400,
	      ERROR("bad_data", "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution "
		    "(?step=XX)"));
	struct answer a = test_get(address, "/api/v1/query_range?query=x&start=0&end=11000&step=1s");
	assert_int_equal(a.status, 200);
	answer_free(&a);
}

/* An answer of that type, asked for as the page does. */
static struct answer ask_columns(const char *path, const char *params, const char *type)
{
	struct buf line = { 0 };
	buf_printf(&line, "GET /api/v1/%s%s HTTP/1.1\r\nAccept: %s, application/json;q=0.5", path, params, type);
	struct answer a = test_ask(address, line.ptr, NULL);
	assert_int_equal(a.status, 200);
	assert_string_equal(test_header(&a, "Content-Type"), type);
	buf_free(&line);
	return a;
}

/* From there to the answer's end, as hexadecimal digits. */
static void check_bytes(const struct answer *a, const char *from, const char *hex)
{
	struct buf b = { 0 };
	for (const char *p = from; p < a->body + a->n_body; p++)
		buf_printf(&b, "%02x", (uint8_t)*p);
	assert_string_equal(b.ptr, hex);
	buf_free(&b);
}

/* A graph as columns; wire.test.ts reads the same. */
static void check_graph(const char *params, const char *head, const char *hex)
{
	struct buf b = { 0 };
	struct answer a = ask_columns("query_range?", params, "application/vnd.pyrrha.matrix");
	const char *end = memchr(a.body, '\n', a.n_body);
	assert_non_null(end);
	buf_put(&b, a.body, (size_t)(end - a.body));
	assert_string_equal(b.ptr, head);
	buf_free(&b);
	check_bytes(&a, end + 1, hex);
	answer_free(&a);
}

static void test_graph_columns(void **state)
{
	(void)state;
	/* 1.5 and 1e-7, twice each */
	check_graph("query=x&start=0&end=60&step=1",
		    SUCCESS("{\"resultType\":\"matrix\",\"columns\":{\"startMs\":0,\"stepMs\":1000},\"result\":["
			    "{\"metric\":{\"__name__\":\"cpu\",\"pod\":\"a\"},\"runs\":[0,2]},{\"metric\":{\"__name__\":\"cpu\",\"pod\":\"b\\u003cc\"},\"runs\":[0,2]}]}"),
		    "000000000000f83f" "000000000000f83f" "48afbc9af2d77a3e" "48afbc9af2d77a3e");
	check_graph("query=x&start=0&end=60&step=0.25&limit=1",
		    SUCCESS("{\"resultType\":\"matrix\",\"columns\":{\"startMs\":0,\"stepMs\":250},\"result\":["
			    "{\"metric\":{\"__name__\":\"cpu\",\"pod\":\"a\"},\"runs\":[0,1,3,1]}]},\"warnings\":[\"results truncated due to limit\"]"),
		    "000000000000f83f" "000000000000f83f");
}

static void test_cancel(void **state)
{
	(void)state;
	static const char head[] = "GET /api/v1/query?query=slow HTTP/1.1\r\nHost: localhost\r\n\r\n";
	int fd = test_connect(address);
	test_send(fd, head, sizeof head - 1);
	assert_true(TEST_WAIT(atomic_load(&fake_slow_runs)));
	close(fd);
	assert_true(TEST_WAIT(atomic_load(&fake_slow_canceled)));
}

static void test_labels_and_series(void **state)
{
	(void)state;
	check("/api/v1/labels", 200, SUCCESS("[\"__name__\",\"pod\"]"));
	check("/api/v1/labels?match[]=up", 200, SUCCESS("[\"__name__\"]"));
	check("/api/v1/labels?match[]=up&match[]=cpu", 200, SUCCESS("[\"__name__\",\"pod\"]"));
	check("/api/v1/labels?limit=1", 200, SUCCESS("[\"__name__\"],\"warnings\":[\"results truncated due to limit\"]"));
	check("/api/v1/labels?match[]=bad", 400,
	      ERROR("bad_data", "invalid parameter \\\"match[]\\\": 1:4: parse error: unexpected end of input"));
	check("/api/v1/label/pod/values", 200, SUCCESS("[\"a\",\"b\"]"));
	check("/api/v1/label/U__my_2e_name/values", 200, SUCCESS("[\"dotted\"]"));
	check("/api/v1/label/my%2ename/values", 200, SUCCESS("[\"dotted\"]"));
	check("/api/v1/label/%ff/values", 400, ERROR("bad_data", "invalid label name: \\\"\xef\xbf\xbd\\\""));
	check("/api/v1/series", 400, ERROR("bad_data", "no match[] parameter provided"));
	check("/api/v1/series?match[]=up&match[]=up", 200, SUCCESS("[{\"__name__\":\"up\"}]"));
	check("/api/v1/series?match[]=up&start=2&end=3", 200, SUCCESS("[]"));
	check("/api/v1/series?match[]=up&start=1&end=3", 200, SUCCESS("[{\"__name__\":\"up\"}]"));
	check("/api/v1/series?match[]=up&start=3&end=1", 200, SUCCESS("[{\"__name__\":\"up\"}]")); /* as Prometheus: either way round */
	check("/api/v1/series?match[]=up&start=3&end=2", 200, SUCCESS("[]"));
}

static void test_frame_values(void **state)
{
	(void)state;
	check("/api/v1/frame/function/values?match[]=one&start=0&end=60", 200, SUCCESS("[\"main\",\"Work\"]"));
	check("/api/v1/frame/function/values?match[]=one&match[]=two&start=0&end=60", 200, SUCCESS("[\"more\",\"main\",\"Work\"]"));
	check("/api/v1/frame/function/values?match[]=one&start=0&end=60&search=wOr", 200, SUCCESS("[\"Work\"]"));
	check("/api/v1/frame/function/values?match[]=one&start=0&end=60&limit=1", 200,
	      SUCCESS("[\"main\"],\"warnings\":[\"results truncated due to limit\"]"));
	check("/api/v1/frame/function/values?start=0&end=60", 400, ERROR("bad_data", "no match[] parameter provided"));
	check("/api/v1/frame/function/values?match[]=bad&start=0&end=60", 400,
	      ERROR("bad_data", "invalid parameter \\\"match[]\\\": 1:4: parse error: unexpected end of input"));
	check("/api/v1/frame/function/values?match[]=one&start=60&end=60", 400,
	      ERROR("bad_data", "invalid parameter \\\"end\\\": end timestamp must be after start timestamp"));
	check("/api/v1/frame/job/values?match[]=one", 400,
	      ERROR("bad_data", "frames have no \\\"job\\\" to list: ask for function, file or binary"));
}

#define SHOP_ROW \
	"{\"discoveredLabels\":{\"__address__\":\"h:1\"},\"labels\":{\"job\":\"shop\"},\"scrapePool\":\"shop\"," \
	"\"scrapeUrl\":\"http://h:1/debug/pprof/allocs\",\"globalUrl\":\"http://h:1/debug/pprof/allocs\",\"profile\":\"memory\"," \
	"\"lastError\":\"server returned HTTP status 500\",\"note\":\"sampled less\",\"remedy\":\"The target itself has trouble: look into its log. Open the URL to see what it says.\",\"lastScrape\":\"1970-01-01T00:00:01.500Z\"," \
	"\"lastScrapeDuration\":0.25,\"health\":\"down\",\"scrapeInterval\":\"10s\",\"scrapeTimeout\":\"13s\"," \
	"\"lastBytes\":0,\"lastSamples\":0}"
#define DROPPED_ROW \
	"{\"discoveredLabels\":{\"__address__\":\"h:1\"},\"scrapePool\":\"shop\",\"profile\":\"memory\"," \
	"\"reason\":\"relabel_configs, rule 1: drop\",\"failed\":false}"
#define COUNTS "{\"shop\":1,\"other\":0}"

static void test_targets(void **state)
{
	(void)state;
	const char *only_shop = SUCCESS("{\"activeTargets\":[" SHOP_ROW "],\"droppedTargets\":[],\"droppedTargetCounts\":{},"
					"\"activeTargetCount\":1,\"droppedTargetCount\":0}");
	check("/api/v1/targets?state=active&scrapePool=shop", 200, only_shop);
	check("/api/v1/targets?state=ACTIVE&health=up,down", 200, only_shop);
	check("/api/v1/targets?state=active&search=SHOP&health=down&limit=1", 200, only_shop);
	check("/api/v1/targets?state=active&limit=1&offset=2", 200,
	      SUCCESS("{\"activeTargets\":[],\"droppedTargets\":[],\"droppedTargetCounts\":{},\"activeTargetCount\":2,"
		      "\"droppedTargetCount\":0}"));
	check("/api/v1/targets?state=dropped", 200,
	      SUCCESS("{\"activeTargets\":[],\"droppedTargets\":[" DROPPED_ROW "],\"droppedTargetCounts\":" COUNTS ","
		      "\"activeTargetCount\":0,\"droppedTargetCount\":1}"));
	check("/api/v1/targets?scrapePool=shop&search=RULE", 200,
	      SUCCESS("{\"activeTargets\":[],\"droppedTargets\":[" DROPPED_ROW "],\"droppedTargetCounts\":" COUNTS ","
		      "\"activeTargetCount\":0,\"droppedTargetCount\":1}"));
	check("/api/v1/targets?health=well", 400,
	      ERROR("bad_data", "invalid parameter \\\"health\\\": \\\"well\\\" is none of up, down, unknown"));
	check("/api/v1/targets?offset=-1", 400,
	      ERROR("bad_data", "invalid parameter \\\"offset\\\": \\\"-1\\\" is not a whole number from 0"));
}

static void test_jobs(void **state)
{
	(void)state;
	check("/api/v1/scrape_pools", 200, SUCCESS("{\"scrapePools\":[\"other\",\"shop\"]}"));
	check("/api/v1/scrape_pools/config?scrapePool=shop", 200, SUCCESS("{\"yaml\":\"job_name: shop\\n\"}"));
	check("/api/v1/scrape_pools/config", 400, ERROR("bad_data", "no scrapePool parameter provided"));
	check("/api/v1/scrape_pools/config?scrapePool=x", 400, ERROR("bad_data", "there is no job \\\"x\\\""));
	check("/api/v1/discovery", 200,
	      SUCCESS("{\"jobs\":[{\"scrapePool\":\"shop\",\"targets\":1,\"up\":0,\"down\":1,\"profiles\":1,\"dropped\":1,\"droppedProfiles\":5,\"failedProfiles\":0,"
		      "\"sources\":[{\"kind\":\"http_sd_configs\",\"name\":\"http://sd/\",\"groups\":1,\"targets\":2,\"ready\":true,"
		      "\"error\":\"HTTP status 500\",\"since\":\"1970-01-01T00:00:02.000Z\",\"lastChange\":\"1970-01-01T00:00:01.000Z\"},"
		      "{\"kind\":\"kubernetes_sd_configs\",\"role\":\"pod\",\"name\":\"\",\"groups\":0,\"targets\":0,\"ready\":false,"
		      "\"error\":\"\",\"lastChange\":\"0001-01-01T00:00:00Z\"}]},"
		      "{\"scrapePool\":\"other\",\"targets\":1,\"up\":0,\"down\":0,\"profiles\":1,\"dropped\":0,\"droppedProfiles\":0,\"failedProfiles\":0,"
		      "\"sources\":[]}]}"));
}

static void test_relabel_steps(void **state)
{
	(void)state;
	check("/api/v1/targets/relabel_steps?scrapePool=shop&labels={\"b\":\"1\",\"a\":\"2\"}", 200,
	      SUCCESS("{\"steps\":[{\"rule\":{\"source_labels\":[\"a\",\"b\"],\"separator\":\";\",\"regex\":\"(.*)\","
		      "\"target_label\":\"__param_token\",\"replacement\":\"\\u003csecret\\u003e\",\"action\":\"replace\"},"
		      "\"output\":{\"a\":\"2\",\"b\":\"1\"},\"keep\":true},"
		      "{\"rule\":{\"separator\":\";\",\"regex\":\"x\",\"modulus\":2,\"replacement\":\"$1\",\"action\":\"drop\"},"
		      "\"output\":{},\"keep\":false}]}"));
	check("/api/v1/targets/relabel_steps?scrapePool=shop", 400, ERROR("bad_data", "no labels parameter provided"));
	check("/api/v1/targets/relabel_steps?labels={}", 400, ERROR("bad_data", "no scrapePool parameter provided"));
	check("/api/v1/targets/relabel_steps?scrapePool=x&labels={}", 400, ERROR("bad_data", "there is no job \\\"x\\\""));
	check("/api/v1/targets/relabel_steps?scrapePool=shop&labels={", 400,
	      ERROR("bad_data", "error parsing labels: they are not JSON"));
	check("/api/v1/targets/relabel_steps?scrapePool=shop&labels=[]", 400,
	      ERROR("bad_data", "error parsing labels: they are not a JSON object"));
	check("/api/v1/targets/relabel_steps?scrapePool=shop&labels={\"a\":1}", 400,
	      ERROR("bad_data", "error parsing labels: a value is not a string"));
}

static void test_status(void **state)
{
	(void)state;
	check("/api/v1/status/flags/details", 200, SUCCESS("[{\"name\":\"web.flag\",\"value\":\"true\",\"given\":false,\"help\":\"x\"}]"));
	check("/api/v1/status/flags", 200, SUCCESS("{\"web.flag\":\"true\"}"));
	check("/api/v1/status/config", 200, SUCCESS("{\"yaml\":\"global:\\n  scrape_interval: 5s\\n\"}"));
	check("/api/v1/profile_types", 200,
	      SUCCESS("[{\"name\":\"process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta\",\"alias\":\"cpu\","
		      "\"title\":\"Process CPU Nanoseconds\",\"help\":\"CPU time as the process's own profiler saw it.\","
		      "\"sampleType\":\"cpu\",\"unit\":\"nanoseconds\",\"baseUnit\":\"seconds\",\"kind\":\"delta\","
		      "\"series\":2}]"));
	check("/api/v1/metadata?metric=up", 200,
	      SUCCESS("{\"up\":[{\"type\":\"gauge\",\"unit\":\"\",\"help\":\"1 if the metrics of the target were scraped, or, "
		      "without metrics, every enabled profile type; else 0. Default types that it does not serve (HTTP 404) are left out.\"},"
		      "{\"type\":\"gauge\",\"unit\":\"\",\"help\":\"of two targets\"}]}"));
	check("/api/v1/metadata?metric=x_total", 200, SUCCESS("{\"x_total\":[{\"type\":\"counter\",\"unit\":\"\",\"help\":\"a \\\"help\\\"\"}]}"));
	check("/api/v1/metadata?metric=none", 200, SUCCESS("{}"));
	check("/api/v1/metadata?limit_per_metric=x", 400,
	      ERROR("bad_data", "invalid parameter \\\"limit_per_metric\\\": \\\"x\\\" is not a whole number from 0"));
	check("/api/v1/metadata?metric=up&limit_per_metric=1&limit=1", 200,
	      SUCCESS("{\"up\":[{\"type\":\"gauge\",\"unit\":\"\",\"help\":\"1 if the metrics of the target were scraped, or, "
		      "without metrics, every enabled profile type; else 0. Default types that it does not serve (HTTP 404) are left out.\"}]}"));
	check("/api/v1/rules?type=x", 400, ERROR("bad_data", "invalid parameter \\\"type\\\": not supported value \\\"x\\\""));
	check("/api/v1/query_exemplars?query=x&start=0&end=1", 200, SUCCESS("[]"));
	check("/api/v1/query_exemplars?query=bad&start=0&end=1", 400,
	      ERROR("bad_data", "invalid parameter \\\"query\\\": 1:4: parse error: unexpected end of input"));
	check("/api/v1/query_exemplars?query=x&start=2&end=1", 400,
	      ERROR("bad_data", "end timestamp must not be before start timestamp"));
	check("/api/v1/query?query=1&timeout=-1", 503,
	      ERROR("timeout", "query timed out in query queue: \\\"timeout\\\" leaves it no time"));
	check("/api/v1/query_range?query=x&start=-9.2e15&end=9.2e15&step=1", 400, /* a difference that does not fit in 64 bits */
	      ERROR("bad_data", "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution (?step=XX)"));
	check("/api/v1/query?query=bad&timeout=0", 400,
	      ERROR("bad_data", "invalid parameter \\\"query\\\": 1:4: parse error: unexpected end of input"));
	check("/api/v1/query?query=one&timeout=-1&format=json", 503,
	      ERROR("timeout", "query timed out in query queue: \\\"timeout\\\" leaves it no time"));
	check("/api/v1/query?query=one&limit=-1&format=folded", 400, "invalid parameter \"limit\": \"-1\" is not a whole number from 0\n");
	check("/api/v1/query?query=1&time=60&lookback_delta=-1", 200, SUCCESS("{\"resultType\":\"scalar\",\"result\":[60,\"1\"]}"));
	assert_int_equal(atomic_load(&fake_lookback_ms), 0);
	check("/api/v1/query?query=%zz", 400, ERROR("bad_data", "bad percent escape in parameter \\\"query=%zz\\\""));
	check("/-/healthy?x=%zz", 400, "bad percent escape in parameter \"x=%zz\"\n");
	check("/api/v1/notifications", 200, SUCCESS("[]"));
	check("/api/v1/notifications/live", 204, "");
	check("/api/v1/functions", 200,
	      SUCCESS("[{\"name\":\"rate\",\"signature\":\"rate(range)\",\"doc\":\"Per second.\",\"returns\":\"the same\","
		      "\"example\":\"rate(cpu[5m])\",\"aggregation\":false,\"profiles\":true}]"));
	check("/api/v1/status/tsdb/blocks", 503, ERROR("unavailable", "there is no storage"));
	check("/api/v1/status/bucket", 503, ERROR("unavailable", "there is no storage"));
	struct answer features = test_get(address, "/api/v1/features");
	assert_non_null(strstr(features.body, "{\"status\":\"success\",\"data\":{\"api\":{\"admin\":false,"));
	assert_non_null(strstr(features.body, "\"promql_functions\":{\"rate\":true}"));
	json_t *whole = json_loads(features.body, JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(whole);
	json_decref(whole);
	answer_free(&features);
	check("/api/v1/targets/metadata?metric=up", 200,
	      SUCCESS("[{\"target\":{\"job\":\"shop\"},\"type\":\"gauge\",\"help\":\"of two targets\",\"unit\":\"\"},"
		      "{\"target\":{\"job\":\"other\"},\"type\":\"gauge\",\"help\":\"of two targets\",\"unit\":\"\"}]"));
	check("/api/v1/targets/metadata?limit=1", 200, /* whole targets */
	      SUCCESS("[{\"target\":{\"job\":\"shop\"},\"metric\":\"up\",\"type\":\"gauge\",\"help\":\"of two targets\",\"unit\":\"\"},"
		      "{\"target\":{\"job\":\"shop\"},\"metric\":\"x_total\",\"type\":\"counter\",\"help\":\"a \\\"help\\\"\",\"unit\":\"\"}]"));
	check("/api/v1/status/walreplay", 200, SUCCESS("{\"min\":0,\"max\":0,\"current\":0,\"state\":\"done\"}"));
	check("/api/v1/format_query?query=x", 200, SUCCESS("\"formatted \\\"x\\\"\""));
	check("/api/v1/parse_query?query=x", 200, SUCCESS("{\"type\":\"numberLiteral\"}"));
	struct answer a = test_get(address, "/api/v1/status/buildinfo");
	assert_non_null(strstr(a.body, "\"version\":\""));
	assert_null(strstr(a.body, "features"));
	answer_free(&a);
	a = test_get(address, "/api/v1/status/runtimeinfo");
	assert_non_null(strstr(a.body, "\"reloadConfigSuccess\":true"));
	answer_free(&a);
}

/* ---- formats ---- */

/* An answer of columns: its head's part about them, and the bytes behind it as hexadecimal digits; wire.test.ts reads the same. */
static void check_columns(const char *params, const char *head, const char *hex)
{
	struct buf b = { 0 };
	struct answer a = ask_columns("query?format=flamegraph&time=60&", params, "application/vnd.pyrrha.flame");
	const char *end = memchr(a.body, '\n', a.n_body), *columns = memmem(a.body, a.n_body, "\"columns\":", 10);
	assert_true(end && columns && columns < end);
	buf_put(&b, columns, (size_t)(end - columns));
	char *list = b.ptr ? strstr(b.ptr, ",\"list\":\"") : NULL; /* a hash with a key of the process */
	if (list)
		memmove(list, list + 26, strlen(list + 26) + 1);
	assert_string_equal(b.ptr, head);
	buf_free(&b);
	check_bytes(&a, end + 1, hex);
	answer_free(&a);
}

/* Three new frames: total, main, work;1 */
#define FRAMES "00030504060f746f74616c6d61696e776f726b3b310206040a64656d6f2e6364656d6f03000200030004000300000003"

static void test_columns(void **state)
{
	(void)state;
	check_columns("query=one&functions=10",
		      "\"columns\":{\"version\":1,\"nodes\":3,\"rows\":2,\"all\":2,\"diff\":false,\"integers\":true,\"scale\":100,\"known\":0,\"new\":3,\"texts\":2}}}",
		      FRAMES "00030303000102020e0e020214000000000201000202140214000000020000");
	check_columns("query=diff&functions=10",
		      "\"columns\":{\"version\":1,\"nodes\":3,\"rows\":2,\"all\":2,\"diff\":true,\"integers\":true,\"scale\":20,\"known\":0,\"new\":3,\"texts\":2}}}",
		      FRAMES "00070703000102020e0e020a64020428000000020100020a64026400020428022800020000");
	/* beyond what doubles hold */
	check_columns("query=minus:9223372036854775807&functions=10",
		      "\"columns\":{\"version\":1,\"nodes\":3,\"rows\":2,\"all\":2,\"diff\":true,\"integers\":true,\"scale\":2,\"known\":0,\"new\":3,\"texts\":2}}}",
		      FRAMES "00070703000102020e0e0a64ffffffffffffffff7f12e5cc99b3e6cc99b306ffffffffffffffff3f0000000201000a64ffffffffffffffff7f0affffffffffffffff7f0012e5cc99b3e6cc99b306ffffffffffffffff3f0affffffffffffffff3f00020000");
	/* no integers, but multiples of one number */
	check_columns("query=times:0.3&functions=10&search=ork",
		      "\"columns\":{\"version\":1,\"nodes\":3,\"rows\":2,\"all\":2,\"diff\":false,\"integers\":false,\"scale\":30,\"known\":0,\"new\":3,\"texts\":2,\"found\":1}}}",
		      FRAMES "00030303000102020e0e020214000000000201000202140214000000021400");
	/* a path: what the calls on it have beside what is there */
	check_columns("query=one&root=main&root=work%3B1",
		      "\"columns\":{\"version\":1,\"nodes\":3,\"rows\":0,\"all\":0,\"diff\":false,\"integers\":true,\"scale\":100,\"known\":0,\"new\":3,\"texts\":2}}}",
		      FRAMES "00030303000102020e0e0202140000020000000000000000020000");
	check_columns("query=none",
		      "\"columns\":{\"version\":1,\"nodes\":1,\"rows\":0,\"all\":0,\"diff\":false,\"integers\":true,\"scale\":1,\"known\":0,\"new\":1,\"texts\":0}}}",
		      "00010505746f74616c0000010001000100010001000000000000000000000000020000");
}

static void test_flamegraph(void **state)
{
	(void)state;
	struct answer a = test_get(address, "/api/v1/query?format=flamegraph&query=one&time=60");
	assert_int_equal(a.status, 200);
	json_t *j = json_loads(a.body, 0, NULL), *data = json_object_get(j, "data");
	assert_non_null(data);
	assert_string_equal(json_string_value(json_object_get(data, "unit")), "nanoseconds");
	assert_int_equal(json_integer_value(json_object_get(data, "total")), 1100);
	assert_true(json_number_value(json_object_get(data, "weight")) == 1 && json_is_false(json_object_get(data, "mixedWeights")));
	json_decref(j);
	const char *nodes = strstr(a.body, "\"nodes\":");
	assert_non_null(nodes);
	assert_string_equal(nodes, "\"nodes\":{\"depth\":[0,1,2],\"frame\":[0,1,2],\"line\":[0,7,7],\"total\":[1100,1100,1000],"
			    "\"self\":[0,100,1000]},\"hidden\":0,\"root\":0}}");
	assert_non_null(strstr(a.body, "\"strings\":[\"\",\"total\",\"main\",\"demo.c\",\"demo\",\"work;1\"],"
			       "\"frames\":{\"name\":[1,2,5],\"file\":[0,3,3],\"binary\":[0,4,4],\"startLine\":[0,0,0]}"));
	answer_free(&a);
	a = test_get(address, "/api/v1/query?format=flamegraph&query=diff&time=60");
	assert_non_null(strstr(a.body, "\"base\":{\"total\":[440,440,400],\"self\":[0,40,400]}"));
	answer_free(&a);
	a = test_get(address, "/api/v1/query?format=flamegraph&query=none&time=60");
	assert_non_null(strstr(a.body, "\"nodes\":{\"depth\":[0],\"frame\":[0],\"line\":[0],\"total\":[0],"));
	answer_free(&a);
	/* All of a box is below a quarter of a pixel: its function's row is there, whole, and no name that nobody uses. */
	a = test_get(address, "/api/v1/query?format=flamegraph&query=one&time=60&width=0.0000001e7&functions=10");
	assert_non_null(strstr(a.body, "\"functions\":{\"frame\":[2,1],\"total\":[1000,1100],\"self\":[1000,100],\"all\":2}"));
	answer_free(&a);
	a = test_get(address, "/api/v1/query?format=flamegraph&query=one&time=60&functions=10&root=main&root=work%3B1&root=gone&width=1e9");
	assert_non_null(strstr(a.body, "\"depth\":[0,1,2],"));
	assert_non_null(strstr(a.body, "\"functions\":{\"frame\":[2],\"total\":[1000],\"self\":[1000],\"all\":1},\"root\":2}"));
	answer_free(&a);
	a = test_get(address, "/api/v1/query?format=flamegraph&query=one&time=60&functions=10&path=main%0Awork%3B1%0A%0Agone&width=1e9");
	assert_non_null(strstr(a.body, "\"functions\":{\"frame\":[2],\"total\":[1000],\"self\":[1000],\"all\":1},\"root\":2}"));
	answer_free(&a);
	a = test_get(address, "/api/v1/query?format=flamegraph&query=one&time=60&search=ork&width=1");
	assert_non_null(strstr(a.body, "\"found\":{\"total\":1000,\"functions\":1}"));
	answer_free(&a);
	check("/api/v1/query?format=flamegraph&query=one&search=a(", 400,
	      ERROR("bad_data", "invalid parameter \\\"search\\\": error parsing regexp: missing closing ): `a(` at offset 0 of \\\"a(\\\""));
	check("/api/v1/query?format=flamegraph&query=vector", 422,
	      ERROR("execution", "this format shows profiles, and cpu{pod=\\\"a\\\"} is a number"));
	check("/api/v1/query?format=flamegraph&query=range", 422,
	      ERROR("execution", "this format shows profiles, and the query is a matrix: a range becomes a profile with merge(...)"));
	check("/api/v1/query?format=flamegraph&query=types", 422,
	      ERROR("execution", "one profile has one type, and the query selects several: "
		    "process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta and memory:inuse_space:bytes:space:bytes; name one of them"));
	check("/api/v1/query?format=flamegraph&query=bad", 400,
	      ERROR("bad_data", "invalid parameter \\\"query\\\": 1:4: parse error: unexpected end of input"));
	check("/api/v1/query?format=flamegraph&query=one&width=0", 400,
	      ERROR("bad_data", "invalid parameter \\\"width\\\": \\\"0\\\" is not a number of pixels"));
	check("/api/v1/query?format=gif&query=one", 400,
	      ERROR("bad_data", "invalid parameter \\\"format\\\": \\\"gif\\\" is none of pprof, flamegraph, json, folded, speedscope, svg, dot, prometheus"));
}

static void test_folded(void **state)
{
	(void)state;
	check("/api/v1/query?format=folded&query=one", 200, "main 100\nmain;work:1 1000\n");
	check("/api/v1/query?format=folded&query=two", 200, "main 300\nmain;work:1 3000\n");
	check("/api/v1/query?format=folded&query=diff", 200, "main 60\nmain;work:1 600\n");
	check("/api/v1/query?format=folded&query=none", 200, "");
}

/* Files for other programs: speedscope, a picture, graphviz. */
static void test_files(void **state)
{
	(void)state;
	check("/api/v1/query?format=speedscope&query=diff&time=60", 200,
	      "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":\"pyrrha\",\"name\":\"diff\","
	      "\"activeProfileIndex\":0,\"shared\":{\"frames\":[{\"name\":\"main\",\"file\":\"demo.c\"},{\"name\":\"work;1\",\"file\":\"demo.c\"}]},"
	      "\"profiles\":[{\"type\":\"sampled\",\"name\":\"Process CPU Nanoseconds\",\"unit\":\"nanoseconds\",\"samples\":[[0],[0,1]],"
	      "\"weights\":[100,1000],\"startValue\":0,\"endValue\":1100},"
	      "{\"type\":\"sampled\",\"name\":\"Process CPU Nanoseconds, compared with\",\"unit\":\"nanoseconds\",\"samples\":[[0],[0,1]],"
	      "\"weights\":[40,400],\"startValue\":0,\"endValue\":440}]}\n");
	struct answer a = test_get(address, "/api/v1/query?format=svg&query=one&time=60");
	assert_int_equal(a.status, 200);
	assert_non_null(strstr(a.body, "<g><title>work;1, 1.00us (90.91%)</title><rect x=\"0.00\" y=\"80\" width=\"1090.91\""));
	assert_non_null(strstr(a.body, "</svg>\n"));
	answer_free(&a);
	a = test_get(address, "/api/v1/query?format=svg&query=none&time=60");
	assert_non_null(strstr(a.body, "no profile"));
	answer_free(&a);
	a = test_get(address, "/api/v1/query?format=dot&query=two&time=60");
	assert_int_equal(a.status, 200);
	assert_non_null(strstr(a.body, "N1 [label=\"main\\n0.30us (9.09%)\\nof 3.30us (100.00%)\""));
	assert_non_null(strstr(a.body, "N1 -> N2 [label=\" 3.00us\" weight=91"));
	answer_free(&a);
	check("/api/v1/query?format=dot&query=none&time=60", 404, "no profile matches the query at that time\n");
}

static void test_json(void **state)
{
	(void)state;
	struct answer a = test_get(address, "/api/v1/query?format=json&query=two&time=60");
	json_t *j = json_loads(a.body, 0, NULL);
	json_t *profiles = json_object_get(json_object_get(j, "data"), "profiles");
	assert_int_equal(json_array_size(profiles), 2);
	json_t *second = json_array_get(profiles, 1);
	assert_int_equal(json_integer_value(json_object_get(second, "total")), 2200);
	assert_int_equal(json_array_size(json_object_get(second, "samples")), 2);
	assert_true(json_number_value(json_object_get(second, "weight")) == 1 && json_is_false(json_object_get(second, "mixedWeights")));
	json_decref(j);
	answer_free(&a);
}

static void get_profile(const char *query, struct profile *p)
{
	struct err e = { 0 };
	struct buf path = { 0 };
	buf_printf(&path, "/api/v1/query?format=pprof&time=100&query=%s", query);
	struct answer a = test_get(address, path.ptr);
	assert_int_equal(a.status, 200);
	assert_string_equal(test_header(&a, "Content-Type"), "application/octet-stream");
	assert_string_equal(test_header(&a, "Content-Disposition"), "attachment; filename=\"cpu.pb.gz\"");
	profile_init(p, 0);
	assert_int_equal(pprof_decode(a.body, a.n_body, NULL, p, &e), 0);
	buf_free(&path);
	answer_free(&a);
}

static void test_pprof(void **state)
{
	(void)state;
	struct profile p;
	get_profile("one", &p);
	assert_int_equal(p.n_samples, 2);
	assert_int_equal(p.values[0] + p.values[1], 1100);
	assert_true(view_eqs(profile_str(&p, p.sample_types[0].type_str), "cpu"));
	assert_true(view_eqs(profile_str(&p, p.period_type.unit_str), "nanoseconds"));
	assert_true(view_eqs(profile_str(&p, p.comments[0]), "query: one"));
	assert_int_equal(p.period, 10000000);
	assert_int_equal(p.duration_ns, INT64_C(60000000000));
	assert_int_equal(p.time_ns, INT64_C(40000000000));
	assert_int_equal(p.n_labels, 0);
	profile_release(&p);

	get_profile("two", &p); /* the elements' labels become those of their samples */
	assert_int_equal(p.n_samples, 4);
	int64_t of_a = 0;
	for (uint32_t i = 0; i < p.n_samples; i++) {
		assert_int_equal(p.samples[i].n_labels, 1);
		const struct profile_label *l = &p.labels[p.samples[i].first_label];
		assert_true(view_eqs(profile_str(&p, l->key_str), "pod"));
		of_a += view_eqs(profile_str(&p, l->str), "a") ? p.values[i] : 0;
	}
	assert_int_equal(of_a, 1100);
	profile_release(&p);

	get_profile("diff", &p);
	int64_t sum = 0, base = 0;
	for (uint32_t i = 0; i < p.n_samples; i++) {
		sum += p.values[i];
		base += p.samples[i].n_labels ? p.values[i] : 0;
	}
	assert_int_equal(sum, 660);
	assert_int_equal(base, -440);
	profile_release(&p);
}

static void test_pprof_errors(void **state)
{
	(void)state;
	struct answer a = test_get(address, "/api/v1/query?format=pprof&query=bad");
	assert_int_equal(a.status, 400);
	assert_string_equal(test_header(&a, "X-Go-Pprof"), "1");
	assert_string_equal(test_header(&a, "Content-Type"), "text/plain; charset=utf-8");
	assert_string_equal(a.body, "invalid parameter \"query\": 1:4: parse error: unexpected end of input\n");
	answer_free(&a);
	check("/api/v1/query?format=pprof&query=none", 404, "no profile matches the query at that time\n");
}

/* ---- the page, and what changes the system ---- */

static void test_page(void **state)
{
	(void)state;
	struct answer a = test_get(address, "/graph?g0.expr=cpu");
	assert_int_equal(a.status, 200);
	assert_non_null(strstr(a.body, "<base href=\"./\">"));
	assert_non_null(strstr(test_header(&a, "Content-Security-Policy"), "script-src 'self'"));
	answer_free(&a);
	struct web *w = start(true, "https://example.org/my/pyrrha/");
	assert_non_null(w);
	assert_string_equal(web_url(w), "https://example.org/my/pyrrha/");
	a = test_get(web_address(w, 0), "/my/pyrrha/");
	assert_non_null(strstr(a.body, "<base href=\"/my/pyrrha/\">"));
	answer_free(&a);
	web_stop(w, 0);
}

/* The URL of links if no external URL is given. */
static void check_url(const char *listen, const char *host, bool guessed)
{
	struct web_options o = { .listen = &listen, .n_listen = 1, .allow_insecure = true, .route_prefix = "/prof" };
	struct web *w = NULL;
	struct err e = { 0 };
	assert_int_equal(web_start(&w, &o, &e), 0);
	const char *port = strrchr(web_address(w, 0), ':');
	char *want AUTOFREE = xasprintf("http://%s%s/prof/", host, port);
	assert_string_equal(web_url(w), want);
	assert_int_equal(web_url_is_guessed(w), guessed);
	web_stop(w, 0);
}

static void test_url_of_links(void **state)
{
	(void)state;
	char host[256] = "";
	assert_int_equal(gethostname(host, sizeof host - 1), 0);
	check_url("127.0.0.1:0", "127.0.0.1", false);
	check_url(":0", host, true);
	check_url("0.0.0.0:0", host, true);
}

/* Each link of these rules to a runbook leads to a heading of the page. Returns the number of links. */
static size_t check_runbook_links(const char *rules, const char *page)
{
	size_t n = 0;
	for (const char *at = rules; (at = strstr(at, "/runbooks#")); n++) {
		at += strlen("/runbooks#");
		char *id AUTOFREE = xasprintf("<h2 id=\"%.*s\">", (int)strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789-"), at);
		if (!strstr(page, id))
			fail_msg("the page has no %s", id);
	}
	return n;
}

static void test_runbooks(void **state)
{
	(void)state;
	const char *top = getenv("top_srcdir");
	char *pattern AUTOFREE = xasprintf("%s/deploy/rules/*.yml", top ? top : ".");
	struct answer a = test_get(address, "/runbooks");
	glob_t files;
	size_t links = 0;
	assert_int_equal(a.status, 200);
	assert_string_equal(test_header(&a, "Content-Type"), "text/html; charset=utf-8");
	assert_non_null(strstr(test_header(&a, "Content-Security-Policy"), "script-src 'self'"));
	assert_non_null(strstr(a.body, "<base href=\"./\">"));
	assert_int_equal(glob(pattern, 0, NULL, &files), 0);
	for (size_t i = 0; i < files.gl_pathc; i++) {
		struct buf text = { 0 };
		struct err e = { 0 };
		assert_int_equal(buf_read_file(&text, files.gl_pathv[i], &e), 0);
		buf_puts(&text, "\n");
		links += check_runbook_links(text.ptr, a.body);
		buf_free(&text);
	}
	assert_true(files.gl_pathc >= 3 && links >= files.gl_pathc);
	globfree(&files);
	answer_free(&a);
	struct web *w = start(true, "https://example.org/my/pyrrha/");
	assert_non_null(w);
	a = test_get(web_address(w, 0), "/my/pyrrha/runbooks");
	assert_non_null(strstr(a.body, "<base href=\"/my/pyrrha/\">"));
	answer_free(&a);
	web_stop(w, 0);
}

/* What a browser gets for an address that is none of the page's: a page whose link leads to `home`. */
static void check_no_page(const char *where, const char *path, const char *home)
{
	struct buf line = { 0 };
	buf_printf(&line, "GET %s HTTP/1.1\r\nAccept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", path);
	struct answer a = test_ask(where, line.ptr, NULL);
	assert_int_equal(a.status, 404);
	assert_string_equal(test_header(&a, "Content-Type"), "text/html; charset=utf-8");
	assert_non_null(strstr(test_header(&a, "Content-Security-Policy"), "style-src 'self'"));
	assert_non_null(strstr(a.body, "<a href=\"./\">"));
	buf_reset(&line);
	buf_printf(&line, "<base href=\"%s\">", home);
	if (!strstr(a.body, line.ptr))
		fail_msg("%s: %s", path, a.body);
	answer_free(&a);
	buf_free(&line);
}

static void test_no_page(void **state)
{
	(void)state;
	static const char *const pages[] = { "/", "/discovery", "/service-discovery", "/explore" };
	for (size_t i = 0; i < ARRAY_LEN(pages); i++) {
		struct answer a = test_get(address, pages[i]);
		assert_int_equal(a.status, 200);
		assert_non_null(strstr(a.body, "<base href=\"./\">"));
		answer_free(&a);
	}
	check("/nothing", 404, "no such page: /nothing\n");
	check("/no/such", 404, "no such page: /no/such\n");
	check_no_page(address, "/nothing", "./");
	check_no_page(address, "/targets/", "../");
	check_no_page(address, "/no/such/%3Cpage?x=%zz", "../../");
	struct buf deep = { 0 };
	for (int i = 0; i < 100; i++)
		buf_puts(&deep, "/x");
	check_no_page(address, deep.ptr, "/");
	buf_free(&deep);
	/* of the API it is an error as all of its are */
	struct answer a = test_ask(address, "GET /api/v1/nothing HTTP/1.1\r\nAccept: text/html", NULL);
	assert_string_equal(a.body, ERROR("not_found", "there is no /api/v1/nothing"));
	answer_free(&a);
	struct web *w = start(true, "https://example.org/my/pyrrha/");
	assert_non_null(w);
	check_no_page(web_address(w, 0), "/my/pyrrha/no/such", "/my/pyrrha/");
	check_no_page(web_address(w, 0), "/elsewhere", "/my/pyrrha/");
	web_stop(w, 0);
}

static struct admin_bucket bucket_now;

static void bucket_status(struct storage_admin *a, struct admin_bucket *ret)
{
	(void)a;
	*ret = bucket_now;
}

static void check_bucket(struct web *w, const char *want)
{
	struct answer a = test_get(web_address(w, 0), "/api/v1/status/bucket");
	assert_int_equal(a.status, 200);
	assert_string_equal(a.body, want);
	answer_free(&a);
}

static void test_bucket(void **state)
{
	(void)state;
	static struct storage_admin admin = { .bucket = bucket_status };
	struct web *w = start(false, NULL);
	web_set_opening(w, "the bucket is asked");
	struct answer a = test_get(web_address(w, 0), "/-/ready");
	assert_int_equal(a.status, 503);
	assert_string_equal(a.body, "Service Unavailable: storage is still being opened: the bucket is asked\n");
	answer_free(&a);
	web_set_admin(w, &admin);
	web_set_ready(w, true);
	check_bucket(w, SUCCESS("{\"configured\":false}"));
	bucket_now = (struct admin_bucket){ .configured = true, .state = "unreachable" };
	check_bucket(w, SUCCESS("{\"configured\":true,\"store\":\"directory b\",\"state\":\"unreachable\",\"id\":\"\",\"why\":\"\",\"days\":0,\"bytes\":0,"
				"\"waiting\":{\"parts\":0,\"bytes\":0,\"since\":\"\",\"deletes\":0},\"lastSuccess\":\"\",\"lastError\":\"\",\"lastErrorTime\":\"\","
				"\"absent\":{\"days\":0,\"from\":\"\",\"until\":\"\"},\"cache\":{\"bytes\":0,\"maxBytes\":0,\"requests\":0,\"fetchedBytes\":0,\"failures\":0},\"damagedObjects\":0}"));
	bucket_now = (struct admin_bucket){ .configured = true, .state = "stopped", .id = "a", .why = "b", .days = 1, .bytes = 2, .waiting_parts = 3, .waiting_bytes = 4,
					    .waiting_since_ms = 1000, .waiting_deletes = 6, .last_success_ms = 2000, .last_error = "c", .last_error_ms = 3000, .absent_days = 5,
					    .absent_from_ms = 4000, .absent_until_ms = 5000, .cache_bytes = 6, .cache_max_bytes = 7, .reads = 8, .read_bytes = 9,
					    .read_failures = 10, .reads_others = true, .other_servers = 11, .other_days = 12, .other_bytes = 13, .other_from_ms = 6000,
					    .other_until_ms = 7000, .other_looked_ms = 8000, .other_error = "d", .damaged_objects = 7 };
	check_bucket(w, SUCCESS("{\"configured\":true,\"store\":\"directory b\",\"state\":\"stopped\",\"id\":\"a\",\"why\":\"b\",\"days\":1,\"bytes\":2,"
				"\"waiting\":{\"parts\":3,\"bytes\":4,\"since\":\"1970-01-01T00:00:01.000Z\",\"deletes\":6},\"lastSuccess\":\"1970-01-01T00:00:02.000Z\",\"lastError\":\"c\","
				"\"lastErrorTime\":\"1970-01-01T00:00:03.000Z\",\"absent\":{\"days\":5,\"from\":\"1970-01-01T00:00:04.000Z\",\"until\":\"1970-01-01T00:00:05.000Z\"},"
				"\"cache\":{\"bytes\":6,\"maxBytes\":7,\"requests\":8,\"fetchedBytes\":9,\"failures\":10},\"others\":{\"servers\":11,\"days\":12,\"bytes\":13,"
				"\"from\":\"1970-01-01T00:00:06.000Z\",\"until\":\"1970-01-01T00:00:07.000Z\",\"lastSuccess\":\"1970-01-01T00:00:08.000Z\",\"lastError\":\"d\"},"
				"\"damagedObjects\":7}"));
	web_stop(w, 0);
}

static void test_lifecycle(void **state)
{
	(void)state;
	struct answer a = test_ask(address, "POST /-/reload HTTP/1.1", "");
	assert_int_equal(a.status, 403);
	answer_free(&a);
	struct web *w = start(true, NULL);
	assert_non_null(w);
	a = test_ask(web_address(w, 0), "POST /-/reload HTTP/1.1\r\nSec-Fetch-Site: cross-site", "");
	assert_int_equal(a.status, 403);
	answer_free(&a);
	assert_int_equal(reloads, 0);
	a = test_ask(web_address(w, 0), "PUT /-/reload HTTP/1.1", "");
	assert_int_equal(a.status, 200);
	assert_string_equal(a.body, "");
	answer_free(&a);
	a = test_ask(web_address(w, 0), "POST /-/reload HTTP/1.1", "");
	assert_int_equal(a.status, 500);
	assert_string_equal(a.body, "failed to reload config: c.yml:1:1: it is wrong\n");
	answer_free(&a);
	a = test_ask(web_address(w, 0), "POST /-/reload HTTP/1.1", "");
	assert_int_equal(a.status, 200);
	assert_string_equal(a.body, "object_storage waits\n");
	answer_free(&a);
	web_set_ready(w, true);
	a = test_get(web_address(w, 0), "/api/v1/notifications");
	assert_non_null(strstr(a.body, "\"text\":\"object_storage waits\""));
	answer_free(&a);
	a = test_get(web_address(w, 0), "/-/reload");
	assert_int_equal(a.status, 405);
	answer_free(&a);
	web_stop(w, 0);
}

static void test_floats(void **state)
{
	(void)state;
	static const struct {
		double v;
		const char *text;
	} cases[] = {
		{ 0.1, "0.1" }, { 1.0 / 3, "0.3333333333333333" }, { 1e21, "1e+21" }, { 1e20, "100000000000000000000" },
		{ 1e-6, "0.000001" }, { 1.25e-7, "1.25e-07" }, { -2.5, "-2.5" }, { 123456789012345680, "123456789012345680" },
		{ 5e-324, "5e-324" }, { 1.7976931348623157e308, "1.7976931348623157e+308" }, { -0.0, "-0" }, { 1e15, "1000000000000000" },
		{ 9007199254740993, "9007199254740992" }, { 0.30000000000000004, "0.30000000000000004" },
	};
	static const struct {
		double v;
		const char *text;
	} bare[] = {
		{ 0.1, "0.1" }, { 1e18, "1000000000000000000" }, { 1e19, "1e+19" }, { -1e20, "-1e+20" }, { NAN, "\"NaN\"" },
		{ INFINITY, "\"+Inf\"" }, { -INFINITY, "\"-Inf\"" },
	};
	struct buf b = { 0 }, want = { 0 };
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		buf_reset(&b);
		buf_reset(&want);
		json_point(&b, 1000, cases[i].v);
		buf_printf(&want, "[1,\"%s\"]", cases[i].text);
		assert_string_equal(b.ptr, want.ptr);
	}
	for (size_t i = 0; i < ARRAY_LEN(bare); i++) {
		buf_reset(&b);
		json_float(&b, bare[i].v);
		assert_string_equal(b.ptr, bare[i].text);
	}
	buf_free(&want);
	buf_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_remedies), cmocka_unit_test(test_readiness), cmocka_unit_test(test_query), cmocka_unit_test(test_query_errors),
		cmocka_unit_test(test_query_range), cmocka_unit_test(test_graph_columns), cmocka_unit_test(test_cancel), cmocka_unit_test(test_frame_values), cmocka_unit_test(test_labels_and_series),
		cmocka_unit_test(test_targets), cmocka_unit_test(test_jobs), cmocka_unit_test(test_relabel_steps), cmocka_unit_test(test_status), cmocka_unit_test(test_flamegraph), cmocka_unit_test(test_columns), cmocka_unit_test(test_folded),
		cmocka_unit_test(test_files), cmocka_unit_test(test_json), cmocka_unit_test(test_pprof), cmocka_unit_test(test_pprof_errors),
		cmocka_unit_test(test_page), cmocka_unit_test(test_url_of_links), cmocka_unit_test(test_runbooks), cmocka_unit_test(test_no_page), cmocka_unit_test(test_bucket), cmocka_unit_test(test_lifecycle), cmocka_unit_test(test_floats),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
