/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1/source/ask over a real socket, with an answerer over a source of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/sha256.h"
#include "base/testwait.h"
#include "fleet/answerer.h"
#include "httpd/testclient.h"
#include "web/web.h"

#define ASK "POST /api/v1/source/ask HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
#define TYPE "Content-Type: " FLEET_WIRE_TYPE "\r\n"

/* ---- a source with one name, whose calls wait while `hold` ---- */

static atomic_bool hold, held, saw_canceled;

static void name_release(struct source_view *v)
{
	(void)v;
}

static int name_list(struct source_view *v, const struct matcher *m, size_t n, int64_t after_ms, int64_t until_ms, const struct source_limits *lim,
		     struct view **ret, size_t *ret_n, struct err *e)
{
	int rc = 0;
	(void)v, (void)m, (void)n, (void)after_ms, (void)until_ms;
	while (atomic_load(&hold) && !rc) {
		atomic_store(&held, true);
		clock_sleep_ms(1);
		rc = source_limits_check(lim, e);
		atomic_store(&saw_canceled, rc == -ERR_CANCELED);
	}
	if (rc)
		return rc;
	*ret = xcalloc(1, sizeof **ret);
	**ret = VIEW("pod");
	*ret_n = 1;
	return 0;
}

static int name_open(struct source *s, struct source_view **ret, struct err *e)
{
	static const struct source_ops ops = { .release = name_release, .label_names = name_list };
	static struct source_view v = { &ops };
	(void)s, (void)e;
	*ret = &v;
	return 0;
}

static struct source names = { name_open };

/* ---- a server ---- */

static struct web *web;
static struct fleet_answerer *answerer;
static char config_file[] = "/tmp/source_ask_test.XXXXXX";

static void start(const char *config, bool with_answerer)
{
	static const char *const listen[] = { "127.0.0.1:0" };
	struct web_options o = { .listen = listen, .n_listen = 1, .query_timeout_ms = 120000 };
	struct err e = { 0 };
	if (config) {
		int fd = mkstemp(config_file);
		assert_int_equal(write(fd, config, strlen(config)), strlen(config));
		close(fd);
		o.web_config_file = config_file;
	}
	if (web_start(&web, &o, &e))
		fail_msg("%s", e.msg);
	answerer = with_answerer ? fleet_answerer_new(&(struct fleet_answerer_options){ .source = &names }) : NULL;
	web_set_answerer(web, answerer);
	web_set_ready(web, true);
}

static void stop(void)
{
	web_stop(web, 0);
	fleet_answerer_free(answerer);
	unlink(config_file);
	memset(config_file + strlen(config_file) - 6, 'X', 6);
	metrics_free();
}

static struct answer send_bytes(const char *headers, struct view body)
{
	int fd = test_connect(web_address(web, 0));
	assert_true(fd >= 0);
	struct buf b = { 0 };
	buf_printf(&b, ASK "%sContent-Length: %zu\r\n\r\n", headers, body.len);
	buf_putv(&b, body);
	assert_true(test_send(fd, b.ptr, b.len));
	buf_free(&b);
	return test_receive(fd);
}

static void assert_answer(const char *headers, struct view body, int status, const char *text)
{
	struct answer a = send_bytes(headers, body);
	assert_int_equal(a.status, status);
	if (!strstr(a.body, text))
		fail_msg("%s", a.body);
	answer_free(&a);
}

/* The names of labels, asked on this view; *view is the answer's. Returns the code of its error. */
static enum err_code ask_names(const char *headers, uint64_t *view)
{
	struct fleet_question q = { .call = { .op = FLEET_LABEL_NAMES, .until_ms = 1000 }, .view = *view };
	struct fleet_answer answer;
	struct fleet_result result;
	struct arena arena;
	struct err e = { 0 };
	struct buf body = { 0 };
	arena_init(&arena, 1 << 20);
	fleet_question_encode(&body, &q);
	struct answer a = send_bytes(headers, buf_view(&body));
	assert_int_equal(a.status, 200);
	assert_string_equal(test_header(&a, "Content-Type"), FLEET_WIRE_TYPE);
	if (fleet_answer_decode(&answer, &result, view_make(a.body, a.n_body), &q.call, NULL, &arena, &e))
		fail_msg("%s", e.msg);
	if (!answer.err.code)
		assert_true(result.n == 1 && view_eqs(result.names[0], "pod"));
	*view = answer.view;
	fleet_result_release(&result);
	arena_free(&arena);
	answer_free(&a);
	buf_free(&body);
	return answer.err.code;
}

/* ---- tests ---- */

static void test_answers(void **state)
{
	(void)state;
	uint64_t view = 0, first;
	start(NULL, true);
	assert_int_equal(ask_names(TYPE, &view), 0);
	first = view;
	assert_true(first);
	assert_int_equal(ask_names(TYPE, &view), 0); /* the same view, by another connection of the same address */
	assert_true(view == first);
	view = first + 1;
	assert_int_equal(ask_names(TYPE, &view), ERR_NOT_FOUND);
	stop();
}

static void test_refusals(void **state)
{
	(void)state;
	char *large = calloc(1, (5 << 20) + 1);
	start(NULL, true);
	assert_answer(TYPE, VIEW(""), 400, "not a question");
	assert_answer(TYPE, VIEW("PYRQ\001 and so on, and so on, and so on"), 400, "not a question");
	assert_answer("Content-Type: application/x-www-form-urlencoded\r\n", VIEW("a=%zz"), 415, FLEET_WIRE_TYPE);
	assert_answer("", VIEW("x"), 415, FLEET_WIRE_TYPE);
	assert_answer(TYPE, view_make(large, 5 << 20), 400, "not a question"); /* larger than other bodies may be */
	int fd = test_connect(web_address(web, 0));
	struct buf b = { 0 };
	buf_printf(&b, ASK TYPE "Content-Length: %zu\r\n\r\n", FLEET_QUESTION_MAX + 1);
	assert_true(test_send(fd, b.ptr, b.len));
	struct answer a = test_receive(fd);
	assert_int_equal(a.status, 413);
	answer_free(&a);
	buf_free(&b);
	a = test_get(web_address(web, 0), "/api/v1/source/ask");
	assert_int_equal(a.status, 405);
	answer_free(&a);
	web_set_ready(web, false);
	assert_answer(TYPE, VIEW("x"), 503, "Service Unavailable");
	stop();
	start(NULL, false);
	assert_answer(TYPE, VIEW("x"), 503, "there is no storage");
	stop();
	free(large);
}

/* A view is its login's, whatever the address; the right to read is needed. */
static void test_logins(void **state)
{
	(void)state;
	struct buf config = { 0 };
	static const char *const tokens[] = { "one", "two", "three" };
	uint64_t view = 0, first;
	buf_puts(&config, "tokens:\n");
	for (size_t i = 0; i < ARRAY_LEN(tokens); i++) {
		uint8_t hash[SHA256_LEN];
		char hex[SHA256_HEX];
		sha256_of(view_of(tokens[i]), hash);
		sha256_hex(hash, hex);
		buf_printf(&config, "- {name: name%zu, sha256: %s, rights: [%s]}\n", i, hex, i == 2 ? "write" : "read");
	}
	start(config.ptr, true);
	buf_free(&config);
	assert_int_equal(ask_names(TYPE "Authorization: Bearer one\r\n", &view), 0);
	first = view;
	assert_int_equal(ask_names(TYPE "Authorization: Bearer two\r\n", &view), ERR_NOT_FOUND);
	view = first;
	assert_int_equal(ask_names(TYPE "Authorization: Bearer one\r\n", &view), 0);
	assert_answer(TYPE "Authorization: Bearer three\r\n", VIEW("x"), 403, "read");
	assert_answer(TYPE, VIEW("x"), 401, "");
	stop();
}

/* A client that leaves ends the work. */
static void test_canceled(void **state)
{
	(void)state;
	struct fleet_question q = { .call = { .op = FLEET_LABEL_NAMES, .until_ms = 1000 } };
	struct buf body = { 0 }, b = { 0 };
	start(NULL, true);
	atomic_store(&hold, true);
	fleet_question_encode(&body, &q);
	buf_printf(&b, ASK TYPE "Content-Length: %zu\r\n\r\n", body.len);
	buf_putv(&b, buf_view(&body));
	int fd = test_connect(web_address(web, 0));
	assert_true(test_send(fd, b.ptr, b.len));
	assert_true(TEST_WAIT(atomic_load(&held)));
	close(fd);
	assert_true(TEST_WAIT(atomic_load(&saw_canceled)));
	atomic_store(&hold, false);
	buf_free(&body);
	buf_free(&b);
	stop();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers), cmocka_unit_test(test_refusals), cmocka_unit_test(test_logins), cmocka_unit_test(test_canceled),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
