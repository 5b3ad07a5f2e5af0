/* SPDX-License-Identifier: Apache-2.0 */
/* Other servers that queries ask: their table, and answers that lack the share of one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>

#include "base/metrics.h"
#include "httpd/testclient.h"
#include "promql-like/promql.h"
#include "web/fake_test.h"
#include "web/web.h"

static struct web *web;

static int setup(void **state)
{
	(void)state;
	static const char *const listen[] = { "127.0.0.1:0" };
	struct web_options o = { .listen = listen, .n_listen = 1, .query_timeout_ms = 120000 };
	struct err e = { 0 };
	if (web_start(&web, &o, &e)) {
		print_message("%s\n", e.msg);
		return -1;
	}
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

static void check(const char *path, int status, const char *want)
{
	struct answer a = test_get(web_address(web, 0), path);
	if (a.status != status || strcmp(a.body, want) != 0)
		print_message("%s\n", path);
	assert_string_equal(a.body, want);
	assert_int_equal(a.status, status);
	answer_free(&a);
}

/* The end of the answer. */
static void check_end(const char *path, int status, const char *want)
{
	struct answer a = test_get(web_address(web, 0), path);
	size_t len = strlen(a.body), n = strlen(want);
	if (a.status != status || len < n || strcmp(a.body + len - n, want) != 0)
		fail_msg("%s: %d %s", path, a.status, a.body);
	answer_free(&a);
}

static const char *const lookups[] = {
	"/api/v1/labels?", "/api/v1/label/pod/values?", "/api/v1/series?match[]=up&", "/api/v1/profile_types?", "/api/v1/metadata?",
};

static void test_server_away(void **state)
{
	(void)state;
	static const char *const allow[] = { "", "partial_response=allow", "partial_response=true", "partial_response=1" };
	static const char *const refuse[] = { "partial_response=refuse", "partial_response=False", "partial_response=0" };
	atomic_store(&fake_server_away, true);
	for (size_t i = 0; i < ARRAY_LEN(lookups); i++) {
		char path[200];
		for (size_t k = 0; k < ARRAY_LEN(allow); k++) {
			snprintf(path, sizeof path, "%s%s", lookups[i], allow[k]);
			check_end(path, 200, ",\"warnings\":[\"" FAKE_AWAY "\"]}");
		}
		for (size_t k = 0; k < ARRAY_LEN(refuse); k++) {
			snprintf(path, sizeof path, "%s%s", lookups[i], refuse[k]);
			check(path, 503, "{\"status\":\"error\",\"errorType\":\"unavailable\",\"error\":\"" FAKE_AWAY "\"}");
		}
	}
	check_end("/api/v1/label/pod/values?limit=1", 200, ",\"warnings\":[\"results truncated due to limit\",\"" FAKE_AWAY "\"]}");
	atomic_store(&fake_server_away, false);
	check("/api/v1/labels?partial_response=refuse", 200, "{\"status\":\"success\",\"data\":[\"__name__\",\"pod\"]}");
}

static void test_queries(void **state)
{
	(void)state;
	static const struct {
		const char *params;
		enum promql_partial want;
	} rows[] = {
		{ "", PROMQL_PARTIAL_DEFAULT }, { "&partial_response=", PROMQL_PARTIAL_DEFAULT }, { "&partial_response=allow", PROMQL_PARTIAL_ALLOW },
		{ "&partial_response=t", PROMQL_PARTIAL_ALLOW }, { "&partial_response=refuse", PROMQL_PARTIAL_REFUSE },
		{ "&partial_response=false", PROMQL_PARTIAL_REFUSE },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char path[200];
		atomic_store(&fake_partial, -1);
		snprintf(path, sizeof path, "/api/v1/query?query=one&time=60%s", rows[i].params);
		check_end(path, 200, "}");
		assert_int_equal(atomic_load(&fake_partial), rows[i].want);
	}
	check("/api/v1/query?query=one&partial_response=perhaps", 400,
	      "{\"status\":\"error\",\"errorType\":\"bad_data\",\"error\":\"invalid parameter \\\"partial_response\\\": \\\"perhaps\\\" is neither allow nor refuse\"}");
	check("/api/v1/labels?partial_response=abort", 400,
	      "{\"status\":\"error\",\"errorType\":\"bad_data\",\"error\":\"invalid parameter \\\"partial_response\\\": \\\"abort\\\" is neither allow nor refuse\"}");
}

static void each(struct status_servers *s, void (*one)(void *arg, const struct status_server *x), void *arg)
{
	static const struct label l[] = { { VIEW("region"), VIEW("eu") } };
	static const struct labels labels = { (struct label *)(uintptr_t)l, 1 };
	(void)s;
	one(arg, &(struct status_server){ .url = "https://eu-1:7070", .health = SERVER_UP, .last_error = "", .last_answer_ms = 1000, .last_duration_ms = 12,
					  .external_labels = &labels, .calls = 1, .failures = 2, .bytes = 3, .dictionary_bytes = 4 });
	one(arg, &(struct status_server){ .url = "http://eu-2:7070", .health = SERVER_DOWN, .last_error = "connection \"refused\"" });
	one(arg, &(struct status_server){ .url = "http://eu-3:7070", .last_error = "" });
}

#define NEVER "\"lastAnswer\":\"\",\"lastDuration\":0,\"externalLabels\":{},\"calls\":0,\"failures\":0,\"receivedBytes\":0,\"dictionaryBytes\":0}"

static void test_table(void **state)
{
	(void)state;
	static struct status_servers servers = { each };
	check("/api/v1/status/servers", 200, "{\"status\":\"success\",\"data\":{\"servers\":[]}}");
	web_set_servers(web, &servers);
	check("/api/v1/status/servers", 200,
	      "{\"status\":\"success\",\"data\":{\"servers\":["
	      "{\"url\":\"https://eu-1:7070\",\"health\":\"up\",\"lastError\":\"\",\"lastAnswer\":\"1970-01-01T00:00:01.000Z\",\"lastDuration\":0.012,"
	      "\"externalLabels\":{\"region\":\"eu\"},\"calls\":1,\"failures\":2,\"receivedBytes\":3,\"dictionaryBytes\":4},"
	      "{\"url\":\"http://eu-2:7070\",\"health\":\"down\",\"lastError\":\"connection \\\"refused\\\"\"," NEVER ","
	      "{\"url\":\"http://eu-3:7070\",\"health\":\"unknown\",\"lastError\":\"\"," NEVER "]}}");
}

/* What this server has itself: whoever federates it asks the others, too. */
static int open_none(struct source *s, struct source_view **ret, struct err *e)
{
	(void)s;
	(void)ret;
	return err_set(e, ERR_CANCELED, "asked");
}

static void test_federate(void **state)
{
	(void)state;
	static struct source own = { open_none };
	web_set_own_source(web, &own);
	struct answer a = test_get(web_address(web, 0), "/federate?match[]=up");
	assert_non_null(strstr(a.body, "asked"));
	answer_free(&a);
	check("/api/v1/labels", 200, "{\"status\":\"success\",\"data\":[\"__name__\",\"pod\"]}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_server_away), cmocka_unit_test(test_queries), cmocka_unit_test(test_table), cmocka_unit_test(test_federate),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
