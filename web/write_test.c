/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1/write over a real socket, with a sink that answers as it is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/metrics.h"
#include "httpd/testclient.h"
#include "remote/remote.h"
#include "web/fake_test.h"
#include "web/web.h"

static struct {
	struct sink sink;
	enum err_code refuse, fail; /* before it is taken, and while it is written */
	struct sink_result result;
	size_t taken;
	double last;
} fake;

static int fake_append(struct sink *s, const struct sink_batch *b, struct sink_result *ret, struct err *e)
{
	(void)s;
	struct err done = { 0 };
	if (fake.refuse)
		return err_set(e, fake.refuse, "refused");
	fake.taken += b->n_floats;
	fake.last = b->floats[b->n_floats - 1].v;
	*ret = fake.result;
	if (fake.fail)
		err_set(&done, fake.fail, "failed");
	b->done(b->done_arg, &done);
	return 0;
}

static struct web *start(bool enabled)
{
	static const char *const listen[] = { "127.0.0.1:0" };
	struct web_options o = { .listen = listen, .n_listen = 1, .enable_write = enabled };
	struct web *w = NULL;
	struct err e = { 0 };
	assert_int_equal(web_start(&w, &o, &e), 0);
	fake.sink.append = fake_append;
	web_set_sink(w, &fake.sink);
	web_set_ready(w, true);
	return w;
}

static void message(struct buf *out)
{
	static const struct label up[] = { { { "__name__", 8 }, { "up", 2 } } };
	struct sink_float f[] = { { { up, 1 }, 1000, 1 }, { { up, 1 }, 2000, 2.5 } };
	struct err e;
	assert_int_equal(remote_encode(f, ARRAY_LEN(f), out, &e), 0);
}

/* Sends a body with bytes of any value; the status, and whether the answer has this text. */
/* Whether the last answer said when to try again. */
static bool told_when;

static int ask(struct web *w, const char *headers, struct view body, const char *text)
{
	int fd = test_connect(web_address(w, 0));
	assert_true(fd >= 0);
	struct buf b = { 0 };
	buf_printf(&b, "POST /api/v1/write HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%sContent-Length: %zu\r\n\r\n", headers,
		   body.len);
	buf_putv(&b, body);
	assert_true(test_send(fd, b.ptr, b.len));
	buf_free(&b);
	struct answer a = test_receive(fd);
	int status = a.status;
	told_when = test_header(&a, "Retry-After") != NULL;
	if (!strstr(a.body, text))
		print_message("%s\n", a.body);
	assert_non_null(strstr(a.body, text));
	answer_free(&a);
	return status;
}

#define USUAL "Content-Type: application/x-protobuf\r\nContent-Encoding: snappy\r\n"

static void test_statuses(void **state)
{
	(void)state;
	static const struct { struct sink_result result; enum err_code refuse, fail; int status; const char *text; } cases[] = {
		{ { .floats = 2 }, 0, 0, 204, "" },
		{ { .floats = 1, .duplicates = 1 }, 0, 0, 204, "" },
		{ { .floats = 1, .too_old = 1 }, 0, 0, 400, "1 of 2 samples were rejected" },
		{ { .over_series_limit = 2 }, 0, 0, 400, "2 of 2" },
		{ { 0 }, ERR_UNAVAILABLE, 0, 503, "refused" },
		{ { 0 }, ERR_BUSY, 0, 503, "refused" },
		{ { 0 }, ERR_LIMIT, 0, 413, "refused" },
		{ { 0 }, ERR_IO, 0, 503, "refused" },
		{ { .floats = 2 }, 0, ERR_IO, 503, "failed" },
	};
	struct web *w = start(true);
	struct buf b = { 0 };
	message(&b);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		fake.result = cases[i].result;
		fake.refuse = cases[i].refuse;
		fake.fail = cases[i].fail;
		assert_int_equal(ask(w, USUAL, buf_view(&b), cases[i].text), cases[i].status);
		assert_int_equal(told_when, cases[i].refuse == ERR_BUSY); /* it is known to pass */
	}
	assert_int_equal(fake.taken, 10);
	assert_true(fake.last == 2.5);
	fake.refuse = fake.fail = 0;
	buf_free(&b);
	web_stop(w, 0);
}

static void test_what_is_no_message(void **state)
{
	(void)state;
	static const struct { const char *headers; int status; } cases[] = {
		{ "", 204 }, { "Content-Type: application/x-protobuf;proto=prometheus.WriteRequest\r\n", 204 },
		{ "Content-Type: application/x-protobuf;proto=io.prometheus.write.v2.Request\r\n", 415 },
		{ "Content-Type: application/json\r\n", 415 }, { "Content-Encoding: gzip\r\n", 415 },
		{ "Sec-Fetch-Site: cross-site\r\n", 403 },
	};
	struct web *w = start(true);
	struct buf b = { 0 };
	message(&b);
	fake.result = (struct sink_result){ .floats = 2 };
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(ask(w, cases[i].headers, buf_view(&b), ""), cases[i].status);
	assert_int_equal(ask(w, USUAL, VIEW("nonsense"), ""), 400);
	assert_int_equal(ask(w, USUAL, view_make(b.ptr, b.len - 1), "damaged"), 400);
	/* the length of a block that says it is larger than what is taken: 2^32 - 1 */
	assert_int_equal(ask(w, USUAL, VIEW("\xff\xff\xff\xff\x0f"), "the limit is"), 413);
	buf_free(&b);
	web_stop(w, 0);
}

static void test_off(void **state)
{
	(void)state;
	struct web *w = start(false);
	fake.taken = 0;
	struct buf b = { 0 };
	message(&b);
	assert_int_equal(ask(w, USUAL, buf_view(&b), "--web.enable-remote-write-receiver"), 404);
	web_set_ready(w, false);
	assert_int_equal(ask(w, USUAL, buf_view(&b), ""), 503);
	assert_int_equal(fake.taken, 0);
	buf_free(&b);
	web_stop(w, 0);
}

static int teardown(void **state)
{
	(void)state;
	metrics_free();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_statuses), cmocka_unit_test(test_what_is_no_message),
					    cmocka_unit_test(test_off) };
	return cmocka_run_group_tests(tests, NULL, teardown);
}
