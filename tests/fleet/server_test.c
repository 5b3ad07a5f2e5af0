/* SPDX-License-Identifier: Apache-2.0 */
/* Another server as a peer, against a small server of this test. The path of a peer's URL names the server's fault. Its series have other numbers in each
 * view, so that a number of one view means another series in the next. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/flag.h"
#include "base/lock.h"
#include "fleet/dictionary.h"
#include "fleet/server.h"
#include "fleet/wire.h"
#include "tests/fleet/listenkit.h"

#define SERIES 20
#define VIEWS 64
#define SECOND_MS INT64_C(1000)

/* ---- the server ---- */

static struct {
	struct listener *listener;
	atomic_int requests, opens, closes, broken;
	struct mutex lock;
	uint64_t views[VIEWS];       /* lock guards them; tokens, 0 = none */
	uint64_t next_view;
	bool gone[SERIES];           /* not there any more */
} far;

/* The number of series k in a view. */
static uint64_t far_ref(uint64_t view, size_t k)
{
	return (k + view) % SERIES + 1;
}

static size_t far_series(uint64_t view, uint64_t ref)
{
	return (ref - 1 + SERIES * 1000 - view % SERIES) % SERIES;
}

static struct source_series far_make_series(uint64_t view, size_t k, struct label l[2], char text[16])
{
	snprintf(text, 16, "%02zu", k); /* in the order of their labels */
	l[0] = (struct label){ VIEW(LABEL_NAME), VIEW("x") };
	l[1] = (struct label){ VIEW("k"), view_of(text) };
	return (struct source_series){ .labels = { l, 2 }, .ref = far_ref(view, k) };
}

static void far_select(uint64_t view, struct fleet_result *r, struct label l[SERIES][2], char text[SERIES][16])
{
	r->series = xcalloc(SERIES, sizeof *r->series);
	for (size_t k = 0; k < SERIES; k++)
		if (!far.gone[k])
			r->series[r->n++] = far_make_series(view, k, l[k], text[k]);
}

/* One point for each series: its number in the test, whatever the view calls it. */
static void far_floats(uint64_t view, const struct fleet_call *c, struct fleet_result *r)
{
	r->n = c->n_refs;
	r->floats = xcalloc(r->n + 1, sizeof *r->floats);
	for (size_t i = 0; i < r->n; i++) {
		r->floats[i] = (struct fleet_floats){ xcalloc(1, sizeof(struct point)), 1 };
		r->floats[i].v[0] = (struct point){ .t_ms = c->until_ms, .v = (double)far_series(view, c->refs[i]) };
	}
}

/* A row for each series of the graph, of its number in the test. */
static void far_rows(uint64_t view, const struct fleet_call *c, struct fleet_result *r)
{
	r->n = c->graph->n_refs;
	r->fits = true;
	r->rows = xcalloc(r->n + 1, sizeof *r->rows);
	for (size_t i = 0; i < r->n; i++) {
		const struct source_graph_term *t = &c->graph->terms[c->graph->first[i]];
		r->rows[i] = (struct fleet_row){ .lane = t->lane, .function = VIEW("f"), .n = 1, .steps = xcalloc(1, sizeof(uint32_t)), .ints = xcalloc(1, sizeof(int64_t)) };
		r->rows[i].steps[0] = t->step;
		r->rows[i].ints[0] = 1 + (int64_t)far_series(view, c->graph->refs[i]);
	}
}

static bool far_has_view(uint64_t token)
{
	bool has = false;
	mutex_lock(&far.lock);
	for (size_t i = 0; i < VIEWS && !has; i++)
		has = far.views[i] == token;
	mutex_unlock(&far.lock);
	return has;
}

static uint64_t far_open_view(void)
{
	atomic_fetch_add(&far.opens, 1);
	mutex_lock(&far.lock);
	uint64_t token = ++far.next_view;
	far.views[token % VIEWS] = token;
	mutex_unlock(&far.lock);
	return token;
}

static void far_forget_views(void)
{
	mutex_lock(&far.lock);
	memset(far.views, 0, sizeof far.views);
	mutex_unlock(&far.lock);
}

/* What an honest server answers; forget: it has forgotten the view. */
static void far_answer(struct view body, bool forget, struct buf *out)
{
	const struct label external[] = { { VIEW("region"), VIEW("eu") } };
	struct fleet_question q = { 0 };
	struct fleet_answer a = { .samples = 3 };
	struct fleet_result r = { 0 };
	struct err e = { 0 };
	struct label l[SERIES][2];
	char text[SERIES][16];
	if (fleet_question_decode(&q, body, NULL, &e))
		fail_msg("%s", e.msg);
	r.op = q.call.op;
	a.view = q.view;
	if (q.call.op == FLEET_CLOSE) {
		atomic_fetch_add(&far.closes, 1);
		a.view = 0;
	} else if (q.view && (forget || !far_has_view(q.view))) {
		a.view = 0;
		a.view_lost = true;
		err_set(&a.err, ERR_NOT_FOUND, "the view is not there");
	} else if (!q.view) {
		a.view = far_open_view();
		a.opened = true;
		a.labels = (struct labels){ external, 1 };
	}
	if (!a.err.code && q.call.op == FLEET_SELECT && q.call.n_m && view_eq(q.call.m[0].value, VIEW("bad")))
		err_set(&a.err, ERR_BAD_DATA, "bad, as it was said");
	else if (!a.err.code && q.call.op == FLEET_SELECT && q.call.n_m && view_eq(q.call.m[0].value, VIEW("large")))
		err_set(&a.err, ERR_LIMIT, "more than %llu samples", (unsigned long long)q.max_samples);
	else if (!a.err.code && q.call.op == FLEET_SELECT)
		far_select(a.view, &r, l, text);
	else if (!a.err.code && q.call.op == FLEET_FLOATS)
		far_floats(a.view, &q.call, &r);
	else if (!a.err.code && q.call.op == FLEET_ROWS)
		far_rows(a.view, &q.call, &r);
	if (q.call.after_ms == -1)
		a.damaged = (struct fleet_lacks){ 2, .until_ms = 200, .from_ms = 100 };
	if (fleet_answer_encode(out, &a, a.err.code ? NULL : &r, NULL, &q, &e))
		fail_msg("%s", e.msg);
	fleet_result_release(&r);
	fleet_question_release(&q);
}

/* Sleeps, unless the test ends. */
static void far_sleep(int64_t ms)
{
	for (int64_t until = clock_mono_ms() + ms; clock_mono_ms() < until && !listener_ends(far.listener);)
		clock_sleep_ms(10);
}

static void far_send_endless(int fd)
{
	const struct view head = VIEW("HTTP/1.1 200 OK\r\nContent-Type: " FLEET_WIRE_TYPE "\r\n\r\n");
	char block[65536];
	memset(block, 'x', sizeof block);
	listener_send(fd, head.ptr, head.len);
	while (!listener_ends(far.listener) && send(fd, block, sizeof block, MSG_NOSIGNAL) > 0)
		;
}

static bool far_is(const char *request, const char *path)
{
	return strncmp(request + 5, path, strlen(path)) == 0;
}

/* Answers a request as its path says. False: the connection ends. */
static bool far_serve(void *arg, int fd, const char *request, struct view body)
{
	struct buf out = { 0 };
	bool stays = true;
	int nth = atomic_fetch_add(&far.requests, 1);
	far_answer(body, far_is(request, "/forgets-always") || (far_is(request, "/forgets") && nth % 4 == 0), &out);
	const char *head = "HTTP/1.1 200 OK\r\nContent-Type: " FLEET_WIRE_TYPE "\r\n";
	if (far_is(request, "/slow"))
		far_sleep(3000);
	if (far_is(request, "/late"))
		far_sleep(100);
	if (far_is(request, "/cut")) {
		struct buf b = { 0 };
		buf_printf(&b, "%sContent-Length: %zu\r\n\r\n", head, out.len);
		buf_put(&b, out.ptr, out.len / 2);
		listener_send(fd, b.ptr, b.len);
		buf_free(&b);
		stays = false;
	} else if (far_is(request, "/half")) {
		listener_answer(fd, "200 OK", FLEET_WIRE_TYPE, view_make(out.ptr, out.len / 2));
	} else if (far_is(request, "/garbage")) {
		for (size_t i = 0; i < out.len; i++)
			out.ptr[i] = (char)(i * 7919 >> 3);
		listener_answer(fd, "200 OK", FLEET_WIRE_TYPE, buf_view(&out));
	} else if (far_is(request, "/flip")) {
		out.ptr[(size_t)nth % out.len] ^= (char)(1 << nth % 8);
		listener_answer(fd, "200 OK", FLEET_WIRE_TYPE, buf_view(&out));
	} else if (far_is(request, "/gigantic")) {
		struct buf b = { 0 };
		buf_printf(&b, "%sContent-Length: 1000000000000000\r\n\r\nxxxx", head);
		listener_send(fd, b.ptr, b.len);
		buf_free(&b);
		far_sleep(3000);
		stays = false;
	} else if (far_is(request, "/endless")) {
		far_send_endless(fd);
		stays = false;
	} else if (far_is(request, "/broken")) { /* each second request */
		stays = atomic_fetch_add(&far.broken, 1) % 2;
		if (stays)
			listener_answer(fd, "200 OK", FLEET_WIRE_TYPE, buf_view(&out));
	} else if (far_is(request, "/html")) {
		listener_answer(fd, "200 OK", "text/html", VIEW("<p>welcome"));
	} else if (far_is(request, "/401")) {
		listener_answer(fd, "401 Unauthorized", "application/json", VIEW("{\"status\":\"error\",\"error\":\"no \\\"login\\\"\"}"));
	} else if (far_is(request, "/404")) {
		listener_answer(fd, "404 Not Found", "text/plain", VIEW("not found"));
	} else if (far_is(request, "/503")) {
		listener_answer(fd, "503 Busy", "text/plain", VIEW("is starting\nsecond line"));
	} else {
		listener_answer(fd, "200 OK", FLEET_WIRE_TYPE, buf_view(&out));
	}
	buf_free(&out);
	return stays;
}

/* ---- the loop and its peers ---- */

static struct fleet_loop *loop;
static struct fetch_client *client;

static int set_up(void **state)
{
	struct err e = { 0 };
	mutex_init(&far.lock, LOCK_LEAF, "far");
	far.next_view = 1000;
	far.listener = listener_new(far_serve, NULL);
	client = fetch_client_new(NULL, "test/1");
	if (fleet_loop_new(&loop, &e))
		fail_msg("%s", e.msg);
	return 0;
}

static int tear_down(void **state)
{
	fleet_loop_free(loop);
	fetch_client_unref(client);
	listener_free(far.listener);
	return 0;
}

static struct fleet_peer *peer_at(const char *path, int port, uint64_t max_answer, int64_t timeout_ms)
{
	char url[128];
	snprintf(url, sizeof url, "http://u:p@127.0.0.1:%d/%s/", port, path);
	const struct fleet_server_options o = { .loop = loop, .client = client, .url = url, .max_answer_bytes = max_answer, .timeout_ms = timeout_ms };
	return fleet_server_peer(fleet_server_new(&o));
}

static struct fleet_peer *peer_new(const char *path)
{
	return peer_at(path, listener_port(far.listener), 0, 0);
}

static struct source_limits limits_for(int64_t ms)
{
	return (struct source_limits){ .deadline_mono_ns = clock_mono_ns() + ms * 1000000 };
}

static int ask(struct fleet_peer_view *v, struct fleet_peer *p, const struct fleet_call *c, const struct source_limits *lim, struct fleet_result *r,
	       struct err *e)
{
	*r = (struct fleet_result){ 0 };
	*e = (struct err){ 0 };
	return p->ops->finish(p->ops->start(v, c, lim), r, e);
}

static const struct fleet_call select_all = { .op = FLEET_SELECT, .until_ms = 1000 };

/* The series by their numbers in the test. */
static void refs_of(const struct fleet_result *r, uint64_t refs[SERIES])
{
	for (size_t i = 0; i < r->n; i++) {
		char text[16] = "";
		struct view k = labels_get(r->series[i].labels, VIEW("k"));
		memcpy(text, k.ptr, MIN(k.len, sizeof text - 1));
		refs[strtoul(text, NULL, 10)] = r->series[i].ref;
	}
}

static void expect_floats(const struct fleet_result *r, size_t n)
{
	assert_int_equal(r->n, n);
	for (size_t k = 0; k < n; k++) {
		if (far.gone[k]) {
			assert_int_equal(r->floats[k].n, 0);
			continue;
		}
		assert_int_equal(r->floats[k].n, 1);
		assert_float_equal(r->floats[k].v[0].v, (double)k, 0);
	}
}

/* A select, and floats of all series. An error of the first that fails. */
static int question(struct fleet_peer *p, const struct source_limits *lim, int calls, struct err *e)
{
	struct fleet_result r;
	uint64_t refs[SERIES] = { 0 };
	const struct fleet_call floats = { .op = FLEET_FLOATS, .until_ms = 1000, .refs = refs, .n_refs = SERIES };
	struct fleet_peer_view *v = p->ops->open(p);
	int rc = ask(v, p, &select_all, lim, &r, e);
	if (!rc) {
		assert_int_equal(r.n, SERIES);
		refs_of(&r, refs);
		fleet_result_release(&r);
		assert_true(view_eq(labels_get(p->ops->labels(v), VIEW("region")), VIEW("eu")));
	}
	for (int i = 0; i < calls && !rc; i++) {
		rc = ask(v, p, &floats, lim, &r, e);
		if (rc)
			break;
		expect_floats(&r, SERIES);
		fleet_result_release(&r);
	}
	p->ops->close(v);
	return rc;
}

/* ---- tests ---- */

static void an_honest_server_is_asked(void **state)
{
	struct fleet_peer *p = peer_new("ok");
	struct source_stats stats = { 0 };
	struct source_limits lim = limits_for(5000);
	struct fleet_server_status st;
	struct err e;
	char name[64];
	int opens = atomic_load(&far.opens), closes = atomic_load(&far.closes);
	lim.stats = &stats;
	if (question(p, &lim, 3, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(atomic_load(&far.opens), opens + 1);
	assert_int_equal(atomic_load(&stats.samples), 4 * 3);
	snprintf(name, sizeof name, "http://127.0.0.1:%d/ok", listener_port(far.listener));
	assert_string_equal(p->name, name);
	fleet_server_status((struct fleet_server *)(void *)p, &st);
	assert_true(st.asked && st.up && st.calls == 4 && !st.failures && st.bytes_received > 0 && st.last_ok_ms > 0);
	assert_string_equal(st.url, name);
	assert_non_null(st.labels);
	free(st.labels);
	for (int i = 0; i < 200 && atomic_load(&far.closes) == closes; i++)
		clock_sleep_ms(10);
	assert_int_equal(atomic_load(&far.closes), closes + 1);
	p->unref(p);
}

/* Calls that are started before the view has a token, and finished in the other order, are of one view. */
static void a_view_is_opened_once(void **state)
{
	struct fleet_peer *p = peer_new("late");
	struct fleet_peer_view *v = p->ops->open(p);
	struct source_limits lim = limits_for(5000);
	struct fleet_ask *a[10];
	struct fleet_result r;
	struct err e = { 0 };
	int opens = atomic_load(&far.opens);
	for (size_t i = 0; i < 10; i++)
		a[i] = p->ops->start(v, &select_all, &lim);
	for (size_t i = 10; i-- > 0;) {
		if (p->ops->finish(a[i], &r, &e))
			fail_msg("%s", e.msg);
		assert_int_equal(r.n, SERIES);
		fleet_result_release(&r);
	}
	assert_int_equal(atomic_load(&far.opens), opens + 1);
	p->ops->close(v);
	p->unref(p);
}

/* The opener is not waited for any longer: another ask opens the view. */
static void the_opener_is_abandoned(void **state)
{
	struct fleet_peer *p = peer_new("late");
	struct fleet_peer_view *v = p->ops->open(p);
	atomic_bool canceled = true;
	struct source_limits lim = limits_for(5000), gone = limits_for(5000);
	struct fleet_result r;
	struct err e = { 0 };
	gone.canceled = &canceled;
	struct fleet_ask *a = p->ops->start(v, &select_all, &gone), *b = p->ops->start(v, &select_all, &lim);
	assert_int_equal(p->ops->finish(a, &r, &e), -ERR_CANCELED);
	if (p->ops->finish(b, &r, &e))
		fail_msg("%s", e.msg);
	fleet_result_release(&r);
	p->ops->close(v);
	p->unref(p);
}

/* What is tested is that waits end by themselves; a busy host may be late by this. */
#define LATE_MS 15000

static void expect_failure(const char *path, uint64_t max_answer, enum err_code code, const char *text)
{
	int64_t timeout = code == ERR_TIMEOUT ? 800 : LATE_MS;
	struct fleet_peer *p = peer_at(path, listener_port(far.listener), max_answer, timeout);
	struct source_limits lim = limits_for(timeout + 200);
	struct fleet_server_status st;
	struct err e;
	int64_t began = clock_mono_ms();
	assert_int_equal(question(p, &lim, 1, &e), -(int)code);
	if (!strstr(e.msg, text))
		fail_msg("%s: %s", path, e.msg);
	assert_true(clock_mono_ms() - began < 1000 + LATE_MS);
	fleet_server_status((struct fleet_server *)(void *)p, &st);
	assert_false(st.up);
	assert_int_equal(st.failures, 1);
	assert_true(strstr(st.error, text) != NULL);
	free(st.labels);
	p->unref(p);
}

static void servers_that_are_ill(void **state)
{
	expect_failure("slow", 0, ERR_TIMEOUT, "");
	expect_failure("cut", 0, ERR_UNAVAILABLE, "cut short");
	expect_failure("half", 0, ERR_CORRUPT, "");
	expect_failure("garbage", 0, ERR_CORRUPT, "");
	expect_failure("gigantic", 0, ERR_TIMEOUT, "");
	expect_failure("endless", 1 << 20, ERR_CORRUPT, "sent more than the 1.0MiB");
	expect_failure("html", 0, ERR_CORRUPT, "text/html");
	expect_failure("401", 0, ERR_DENIED, "no \"login\"");
	expect_failure("404", 0, ERR_UNAVAILABLE, "is it older");
	expect_failure("503", 0, ERR_UNAVAILABLE, "is starting");
}

static void a_server_that_is_away(void **state)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof a;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct err e;
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	struct fleet_peer *p = peer_at("ok", ntohs(a.sin_port), 0, 0);
	struct source_limits lim = limits_for(1000);
	assert_int_equal(question(p, &lim, 1, &e), -ERR_UNAVAILABLE);
	assert_non_null(strstr(e.msg, "connect"));
	p->unref(p);
	close(fd);
}

/* The deadline is kept, with time left for the answers of others. */
static void deadlines_are_kept(void **state)
{
	struct fleet_peer *p = peer_new("slow");
	struct err e;
	for (int64_t ms = 100; ms <= 800; ms *= 2) {
		struct source_limits lim = limits_for(ms);
		int64_t began = clock_mono_ms(), until = ms - MAX(ms / 10, 50);
		assert_int_equal(question(p, &lim, 1, &e), -ERR_TIMEOUT);
		assert_in_range(clock_mono_ms() - began, until - 5, until + LATE_MS);
	}
	struct source_limits lim = limits_for(20);
	assert_int_equal(question(p, &lim, 1, &e), -ERR_TIMEOUT);
	assert_non_null(strstr(e.msg, "no time was left"));
	struct fleet_server_status st;
	fleet_server_status((struct fleet_server *)(void *)p, &st);
	assert_true(!st.asked && !st.failures); /* questions in a hurry say nothing about the server */
	p->unref(p);
}

struct canceler {
	atomic_bool *flag;
	bool raise; /* or it is only set */
};

static void *cancel_soon(void *arg)
{
	struct canceler *c = arg;
	clock_sleep_ms(100);
	if (c->raise)
		flag_raise(c->flag);
	else
		atomic_store(c->flag, true);
	return NULL;
}

static void canceled_asks_end_at_once(void **state)
{
	for (int raise = 0; raise < 2; raise++) {
		struct fleet_peer *p = peer_new("slow");
		atomic_bool canceled = false;
		struct canceler c = { &canceled, raise };
		struct source_limits lim = { .canceled = &canceled };
		pthread_t t;
		struct err e;
		int64_t began = clock_mono_ms();
		assert_int_equal(pthread_create(&t, NULL, cancel_soon, &c), 0);
		assert_int_equal(question(p, &lim, 1, &e), -ERR_CANCELED);
		assert_in_range(clock_mono_ms() - began, 95, LATE_MS);
		pthread_join(t, NULL);
		struct fleet_server_status st;
		fleet_server_status((struct fleet_server *)(void *)p, &st);
		assert_int_equal(st.failures, 0);
		p->unref(p);
	}
}

/* A connection that broke before an answer came is tried once more. */
static void a_restarted_server_is_asked_again(void **state)
{
	struct fleet_peer *p = peer_new("broken");
	struct source_limits lim = limits_for(5000);
	struct err e;
	if (question(p, &lim, 5, &e))
		fail_msg("%s", e.msg);
	p->unref(p);
}

/* Bits that are wrong anywhere: the answer is an error, as its hash does not fit. */
static void flipped_bits_are_noticed(void **state)
{
	struct fleet_peer *p = peer_new("flip");
	struct err e;
	for (int i = 0; i < 300; i++) {
		struct source_limits lim = limits_for(5000);
		assert_int_equal(question(p, &lim, 0, &e), -ERR_CORRUPT);
	}
	p->unref(p);
}

/* The errors of the question itself are those that the server says. */
static void errors_of_questions_pass(void **state)
{
	struct fleet_peer *p = peer_new("ok");
	struct fleet_peer_view *v = p->ops->open(p);
	struct source_limits lim = limits_for(5000);
	struct matcher m = { 0 };
	const struct fleet_call bad = { .op = FLEET_SELECT, .until_ms = 1000, .m = &m, .n_m = 1 };
	struct fleet_result r;
	struct err e = { 0 };
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW("a"), VIEW("bad"), &e), 0);
	assert_int_equal(ask(v, p, &bad, &lim, &r, &e), -ERR_BAD_DATA);
	assert_string_equal(e.msg, "bad, as it was said");
	if (ask(v, p, &select_all, &lim, &r, &e))
		fail_msg("%s", e.msg);
	fleet_result_release(&r);
	matcher_release(&m);
	p->ops->close(v);
	p->unref(p);
}

/* A server that stops at the limit of the question has read a little more: no lie, and no partial answer. */
static void limits_of_questions_pass(void **state)
{
	struct fleet_peer *p = peer_new("ok");
	struct fleet_peer_view *v = p->ops->open(p);
	struct source_limits lim = limits_for(5000);
	atomic_uint_fast64_t read = 0;
	struct matcher m = { 0 };
	const struct fleet_call large = { .op = FLEET_SELECT, .until_ms = 1000, .m = &m, .n_m = 1 };
	struct fleet_result r;
	struct err e = { 0 };
	char want[128];
	lim.samples_read = &read;
	lim.max_samples = 2;
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW("a"), VIEW("large"), &e), 0);
	assert_int_equal(ask(v, p, &large, &lim, &r, &e), -ERR_LIMIT);
	snprintf(want, sizeof want, "server %s: more than 2 samples", p->name);
	assert_string_equal(e.msg, want);
	assert_int_equal(atomic_load(&read), 2);
	matcher_release(&m);
	p->ops->close(v);
	p->unref(p);
}

/* Views of the tests before are closed without anybody waiting for it. Returns how many requests there were. */
static int far_settle(void)
{
	int before;
	do {
		before = atomic_load(&far.requests);
		clock_sleep_ms(200);
	} while (atomic_load(&far.requests) != before);
	return before;
}

/* Matchers that a server would refuse are an error of the question, not of the server. */
static void too_many_matchers(void **state)
{
	struct fleet_peer *p = peer_new("ok");
	struct fleet_peer_view *v = p->ops->open(p);
	struct source_limits lim = limits_for(5000);
	struct matcher *m = xcalloc(FLEET_MATCHERS_MAX + 1, sizeof *m);
	struct fleet_call c = { .op = FLEET_SELECT, .until_ms = 1000, .m = m, .n_m = FLEET_MATCHERS_MAX + 1 };
	struct fleet_result r;
	struct err e = { 0 };
	for (size_t i = 0; i <= FLEET_MATCHERS_MAX; i++)
		assert_int_equal(matcher_init(&m[i], MATCH_NE, VIEW("a"), VIEW("b"), &e), 0);
	int requests = far_settle();
	assert_int_equal(ask(v, p, &c, &lim, &r, &e), -ERR_LIMIT);
	assert_int_equal(atomic_load(&far.requests), requests);
	c.n_m--;
	if (ask(v, p, &c, &lim, &r, &e))
		fail_msg("%s", e.msg);
	fleet_result_release(&r);
	for (size_t i = 0; i <= FLEET_MATCHERS_MAX; i++)
		matcher_release(&m[i]);
	free(m);
	p->ops->close(v);
	p->unref(p);
}

/* An ask is waited for in slices, or not any longer. */
static void asks_are_waited_for_in_slices(void **state)
{
	struct fleet_peer *p = peer_new("slow"), *late = peer_new("late");
	struct fleet_peer_view *v = p->ops->open(p), *late_v = late->ops->open(late);
	struct source_limits lim = limits_for(5000);
	struct fleet_result r;
	struct err e = { 0 };
	int64_t began = clock_mono_ms();
	struct fleet_ask *slow_ask = p->ops->start(v, &select_all, &lim), *held = p->ops->start(v, &select_all, &lim);
	struct fleet_ask *late_ask = late->ops->start(late_v, &select_all, &lim);
	assert_false(p->ops->wait(slow_ask, 0));
	assert_false(p->ops->wait(held, began + 20));
	assert_in_range(clock_mono_ms() - began, 20, LATE_MS);
	assert_true(late->ops->wait(late_ask, began + LATE_MS));
	assert_true(clock_mono_ms() - began < LATE_MS);
	assert_int_equal(late->ops->finish(late_ask, &r, &e), 0);
	fleet_result_release(&r);
	p->ops->cancel(held);
	p->ops->cancel(slow_ask);
	assert_true(clock_mono_ms() - began < LATE_MS);
	p->ops->close(v);
	p->unref(p);
	late->ops->close(late_v);
	late->unref(late);
}

static void damage_and_samples_are_counted(void **state)
{
	struct fleet_peer *p = peer_new("ok");
	struct fleet_peer_view *v = p->ops->open(p);
	struct source_limits lim = limits_for(5000);
	struct source_damage damage = { 0 };
	atomic_uint_fast64_t read = 0;
	const struct fleet_call c = { .op = FLEET_SELECT, .after_ms = -1, .until_ms = 1000 };
	struct fleet_result r;
	struct err e;
	assert_int_equal(ask(v, p, &c, &lim, &r, &e), -ERR_CORRUPT); /* nobody would say that something is missing */
	lim.damage = &damage;
	lim.samples_read = &read;
	lim.max_samples = 8;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ask(v, p, &c, &lim, &r, &e), 0);
		fleet_result_release(&r);
	}
	assert_int_equal(atomic_load(&read), 6);
	struct source_missing *missing = atomic_load(&damage.missing);
	assert_non_null(missing);
	assert_string_equal(missing->server, p->name);
	assert_string_equal(missing->why, "has damaged data there");
	assert_int_equal(ask(v, p, &c, &lim, &r, &e), -ERR_CORRUPT); /* 3 samples, as 2 were allowed */
	source_damage_release(&damage);
	p->ops->close(v);
	p->unref(p);
}

/* A view that is lost is opened again, and the numbers of its series are those that callers have. */
static void lost_views_are_opened_again(void **state)
{
	struct fleet_peer *p = peer_new("ok");
	struct fleet_peer_view *v = p->ops->open(p);
	struct source_limits lim = limits_for(20000);
	struct fleet_result r;
	struct err e;
	uint64_t refs[SERIES], later[SERIES];
	const struct fleet_call floats = { .op = FLEET_FLOATS, .until_ms = 1000, .refs = refs, .n_refs = SERIES };
	far.gone[7] = true; /* appears later */
	if (ask(v, p, &select_all, &lim, &r, &e))
		fail_msg("%s", e.msg);
	refs_of(&r, refs);
	fleet_result_release(&r);
	refs[7] = refs[6];
	far.gone[7] = false;
	far.gone[3] = true;
	for (int round = 0; round < 5; round++) {
		far_forget_views();
		if (ask(v, p, &floats, &lim, &r, &e))
			fail_msg("%s", e.msg);
		assert_int_equal(r.n, SERIES);
		for (size_t k = 0; k < SERIES; k++) {
			assert_int_equal(r.floats[k].n, k != 3);
			if (k != 3 && k != 7)
				assert_float_equal(r.floats[k].v[0].v, (double)k, 0);
		}
		fleet_result_release(&r);
	}
	if (ask(v, p, &select_all, &lim, &r, &e))
		fail_msg("%s", e.msg);
	refs_of(&r, later);
	fleet_result_release(&r);
	for (size_t k = 0; k < SERIES; k++)
		if (k != 3 && k != 7)
			assert_int_equal(later[k], refs[k]);
		else if (k == 7)
			for (size_t i = 0; i < SERIES; i++)
				assert_true(later[7] != refs[i]);
	refs[7] = later[7];
	far_forget_views();
	if (ask(v, p, &floats, &lim, &r, &e))
		fail_msg("%s", e.msg);
	expect_floats(&r, SERIES);
	fleet_result_release(&r);
	far.gone[3] = false;
	p->ops->close(v);
	p->unref(p);
}

/* Rows are of the series that callers mean, also by the numbers of another view. */
static void rows_of_a_lost_view(void **state)
{
	struct fleet_peer *p = peer_new("ok");
	struct fleet_peer_view *v = p->ops->open(p);
	struct source_limits lim = limits_for(20000);
	struct fleet_result r;
	struct err e;
	static const int bits[1];
	uint64_t refs[SERIES];
	uint32_t first[SERIES + 1] = { 0 };
	struct source_graph_term terms[SERIES];
	const struct source_graph g = { .readout = VIEW("self(x)"), .n_steps = SERIES, .refs = refs, .first = first, .n_refs = SERIES, .terms = terms, .bits = bits, .n_lanes = 1 };
	const struct fleet_call rows = { .op = FLEET_ROWS, .graph = &g };
	for (uint32_t k = 0; k < SERIES; k++) {
		terms[k] = (struct source_graph_term){ 0, 1000, 1, k, 0 };
		first[k + 1] = k + 1;
	}
	if (ask(v, p, &select_all, &lim, &r, &e))
		fail_msg("%s", e.msg);
	refs_of(&r, refs);
	fleet_result_release(&r);
	far.gone[3] = true;
	far_forget_views();
	if (ask(v, p, &rows, &lim, &r, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(r.n, SERIES - 1);
	for (size_t i = 0; i < r.n; i++) {
		assert_int_equal(r.rows[i].ints[0], 1 + r.rows[i].steps[0]);
		assert_int_not_equal(r.rows[i].steps[0], 3);
	}
	fleet_result_release(&r);
	memset(far.gone, true, sizeof far.gone);
	far_forget_views();
	if (ask(v, p, &rows, &lim, &r, &e))
		fail_msg("%s", e.msg);
	assert_true(r.fits && !r.n && r.op == FLEET_ROWS);
	fleet_result_release(&r);
	memset(far.gone, false, sizeof far.gone);
	p->ops->close(v);
	p->unref(p);
}

static void a_view_that_is_always_lost(void **state)
{
	struct fleet_peer *p = peer_new("forgets-always");
	struct source_limits lim = limits_for(5000);
	struct err e;
	assert_int_equal(question(p, &lim, 1, &e), -ERR_UNAVAILABLE);
	assert_string_equal(e.msg, "lost its state twice: is it restarted again and again, or asked by more than it has room for?");
	p->unref(p);
}

static void probes(void **state)
{
	struct fleet_peer *p = peer_new("ok"), *slow = peer_new("slow");
	struct err e = { 0 };
	struct fleet_server_status st;
	if (fleet_server_probe((struct fleet_server *)(void *)p, 5000, &e))
		fail_msg("%s", e.msg);
	fleet_server_status((struct fleet_server *)(void *)p, &st);
	assert_true(st.up);
	assert_non_null(st.labels);
	free(st.labels);
	int64_t began = clock_mono_ms();
	assert_int_equal(fleet_server_probe((struct fleet_server *)(void *)slow, 300, &e), -ERR_TIMEOUT);
	assert_true(clock_mono_ms() - began < LATE_MS);
	p->unref(p);
	slow->unref(slow);
}

/* Threads that ask one peer, each in views of its own, and all in one. */
struct asker {
	struct fleet_peer *p;
	struct fleet_peer_view *v; /* NULL: views of its own */
	int asked, failed;
	struct err e;
};

static void asker_shares(struct asker *a, const struct source_limits *lim)
{
	struct fleet_result r;
	uint64_t refs[SERIES] = { 0 };
	const struct fleet_call floats = { .op = FLEET_FLOATS, .until_ms = 1000, .refs = refs, .n_refs = SERIES };
	int rc = ask(a->v, a->p, &select_all, lim, &r, &a->e);
	if (!rc) {
		refs_of(&r, refs);
		fleet_result_release(&r);
		rc = ask(a->v, a->p, &floats, lim, &r, &a->e);
	}
	if (!rc) {
		expect_floats(&r, SERIES);
		fleet_result_release(&r);
	}
	a->failed += rc < 0;
}

static void *asker_main(void *arg)
{
	struct asker *a = arg;
	for (int i = 0; i < 10; i++) {
		struct source_limits lim = limits_for(20 * SECOND_MS);
		a->asked++;
		if (a->v)
			asker_shares(a, &lim);
		else
			a->failed += question(a->p, &lim, 3, &a->e) < 0;
	}
	return NULL;
}

static void ask_by_threads(struct fleet_peer *p, struct fleet_peer_view *v, size_t n, struct asker *askers)
{
	pthread_t t[50];
	for (size_t i = 0; i < n; i++) {
		askers[i] = (struct asker){ .p = p, .v = v };
		assert_int_equal(pthread_create(&t[i], NULL, asker_main, &askers[i]), 0);
	}
	for (size_t i = 0; i < n; i++)
		pthread_join(t[i], NULL);
}

static void fifty_threads_ask_at_once(void **state)
{
	struct asker askers[50];
	struct fleet_peer *p = peer_new("ok");
	ask_by_threads(p, NULL, 50, askers);
	for (size_t i = 0; i < 50; i++)
		if (askers[i].failed)
			fail_msg("%s", askers[i].e.msg);
	struct fleet_peer_view *v = p->ops->open(p);
	int opens = atomic_load(&far.opens);
	ask_by_threads(p, v, 50, askers);
	for (size_t i = 0; i < 50; i++)
		if (askers[i].failed)
			fail_msg("%s", askers[i].e.msg);
	assert_int_equal(atomic_load(&far.opens), opens + 1);
	p->ops->close(v);
	p->unref(p);
}

/* A server that forgets each fourth view: answers are right, or say why there is none. */
static void views_are_forgotten_at_random(void **state)
{
	struct asker askers[50];
	struct fleet_peer *p = peer_new("forgets");
	struct fleet_peer_view *v = p->ops->open(p);
	int failed = 0;
	ask_by_threads(p, v, 20, askers);
	for (size_t i = 0; i < 20; i++) {
		failed += askers[i].failed;
		if (askers[i].failed)
			assert_non_null(strstr(askers[i].e.msg, "twice"));
	}
	assert_true(failed < 200);
	p->ops->close(v);
	p->unref(p);
}

/* Many servers on one loop: all are asked before one is waited for. */
static void two_hundred_servers(void **state)
{
	struct fleet_peer *p[200];
	struct fleet_peer_view *v[200];
	struct fleet_ask *a[200];
	struct source_limits lim = limits_for(30 * SECOND_MS);
	struct fleet_result r;
	struct err e = { 0 };
	int64_t began = clock_mono_ms();
	for (size_t i = 0; i < 200; i++) {
		p[i] = peer_new(i % 10 ? "late" : "503");
		v[i] = p[i]->ops->open(p[i]);
	}
	for (size_t i = 0; i < 200; i++)
		a[i] = p[i]->ops->start(v[i], &select_all, &lim);
	for (size_t i = 0; i < 200; i++) {
		int rc = p[i]->ops->finish(a[i], &r, &e);
		assert_int_equal(rc, i % 10 ? 0 : -ERR_UNAVAILABLE);
		if (!rc)
			fleet_result_release(&r);
	}
	assert_true(clock_mono_ms() - began < LATE_MS); /* 18 s one after the other */
	for (size_t i = 0; i < 200; i++) {
		p[i]->ops->close(v[i]);
		p[i]->unref(p[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_honest_server_is_asked),
		cmocka_unit_test(a_view_is_opened_once),
		cmocka_unit_test(the_opener_is_abandoned),
		cmocka_unit_test(servers_that_are_ill),
		cmocka_unit_test(a_server_that_is_away),
		cmocka_unit_test(deadlines_are_kept),
		cmocka_unit_test(canceled_asks_end_at_once),
		cmocka_unit_test(a_restarted_server_is_asked_again),
		cmocka_unit_test(flipped_bits_are_noticed),
		cmocka_unit_test(errors_of_questions_pass),
		cmocka_unit_test(too_many_matchers),
		cmocka_unit_test(asks_are_waited_for_in_slices),
		cmocka_unit_test(limits_of_questions_pass),
		cmocka_unit_test(damage_and_samples_are_counted),
		cmocka_unit_test(lost_views_are_opened_again),
		cmocka_unit_test(rows_of_a_lost_view),
		cmocka_unit_test(a_view_that_is_always_lost),
		cmocka_unit_test(probes),
		cmocka_unit_test(fifty_threads_ask_at_once),
		cmocka_unit_test(views_are_forgotten_at_random),
		cmocka_unit_test(two_hundred_servers),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
