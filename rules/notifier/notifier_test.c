/* SPDX-License-Identifier: Apache-2.0 */
/* Alerts on their way to Alertmanagers, which are small servers here: what they are sent, what becomes of it if they do not take it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/testwait.h"
#include "base/thread.h"
#include "discovery/discovery.h"
#include "rules/notifier/notifier_internal.h"

/* ---- an Alertmanager: one connection at a time ---- */

struct receiver_server {
	int fd, port;
	pthread_t thread;
	atomic_bool stop;
	atomic_int status;   /* of its answers */
	atomic_int delay_ms;
	struct mutex lock;
	struct buf bodies;   /* a line each */
	unsigned requests;
};

static void answer(struct receiver_server *s, int fd, struct view body)
{
	char text[128];
	for (int ms = 0; ms < atomic_load(&s->delay_ms) && !atomic_load(&s->stop); ms += 10)
		clock_sleep_ms(10);
	mutex_lock(&s->lock);
	buf_putv(&s->bodies, body);
	buf_putc(&s->bodies, '\n');
	s->requests++;
	mutex_unlock(&s->lock);
	int n = snprintf(text, sizeof text, "HTTP/1.1 %d X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", atomic_load(&s->status));
	if (send(fd, text, (size_t)n, MSG_NOSIGNAL) < 0)
		return;
}

static void serve(struct receiver_server *s, int fd)
{
	struct buf b = { .max = 16 << 20 };
	size_t head = 0, want = 0;
	while (!head || b.len < head + want) {
		char part[65536];
		ssize_t n = recv(fd, part, sizeof part, 0);
		if (n <= 0)
			break;
		buf_put(&b, part, (size_t)n);
		/* Megabytes of body are not searched again with each part: that took longer than the sender waits. */
		const char *end = head ? NULL : strstr(b.ptr, "\r\n\r\n");
		if (end) {
			const char *length = strcasestr(b.ptr, "content-length: ");
			head = (size_t)(end + 4 - b.ptr);
			want = length ? strtoul(length + 16, NULL, 10) : 0;
			if (strcasestr(b.ptr, "expect: 100") && send(fd, "HTTP/1.1 100 Continue\r\n\r\n", 25, MSG_NOSIGNAL) < 0)
				break;
		}
	}
	if (head && b.len >= head + want)
		answer(s, fd, view_make(b.ptr + head, want));
	buf_free(&b);
}

static void *server_main(void *arg)
{
	struct receiver_server *s = arg;
	while (!atomic_load(&s->stop)) {
		struct pollfd p = { s->fd, POLLIN, 0 };
		if (poll(&p, 1, 20) <= 0)
			continue;
		int fd = accept(s->fd, NULL, NULL);
		if (fd < 0)
			continue;
		serve(s, fd);
		close(fd);
	}
	return NULL;
}

static void server_start(struct receiver_server *s)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof a;
	struct err e;
	memset(s, 0, sizeof *s);
	atomic_store(&s->status, 200);
	mutex_init(&s->lock, LOCK_LEAF, "test");
	s->fd = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(s->fd, (struct sockaddr *)&a, sizeof a), 0);
	assert_int_equal(listen(s->fd, 16), 0);
	getsockname(s->fd, (struct sockaddr *)&a, &len);
	s->port = ntohs(a.sin_port);
	assert_int_equal(thread_start(&s->thread, "receiver", server_main, s, &e), 0);
}

static void server_stop(struct receiver_server *s)
{
	atomic_store(&s->stop, true);
	pthread_join(s->thread, NULL);
	close(s->fd);
	buf_free(&s->bodies);
}

static unsigned requests(struct receiver_server *s)
{
	mutex_lock(&s->lock);
	unsigned n = s->requests;
	mutex_unlock(&s->lock);
	return n;
}

static void await_requests(struct receiver_server *s, unsigned n)
{
	assert_true(TEST_WAIT(requests(s) >= n));
}

/* ---- what tests say ---- */

#define AT(s) "127.0.0.1:%d", (s)->port

static struct notifier_config *configure(const char *fmt, ...)
{
	struct config_tree *t;
	struct notifier_config *c = NULL;
	struct err e = { 0 };
	va_list ap;
	char text[4096];
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	if (config_parse(&t, view_of(text), "p.yml", &e) || notifier_config_parse(&c, t, NULL, NULL, &e))
		fail_msg("%s", e.msg);
	config_free(t);
	return c;
}

static void apply(struct notifier *n, struct notifier_config *c)
{
	struct err e = { 0 };
	if (notifier_apply(n, c, &e))
		fail_msg("%s", e.msg);
	notifier_config_unref(c);
}

static struct notifier *notifier(size_t capacity, size_t batch, bool drop_at_end)
{
	struct notifier *n;
	struct err e = { 0 };
	const struct notifier_options o = { .queue_capacity = capacity, .batch_size = batch, .drop_at_end = drop_at_end, .drain_ms = 2000 };
	if (notifier_new(&n, &o, &e))
		fail_msg("%s", e.msg);
	return n;
}

static void tell(struct notifier *n, const char *name, const char *value)
{
	const struct label l[] = { { VIEW("alertname"), view_of(name) }, { VIEW("x"), view_of(value) } };
	const struct label note[] = { { VIEW("summary"), VIEW("it is \"hot\"\n") } };
	const struct alert a = { .labels = { l, 2 }, .annotations = { note, 1 }, .starts_at_ms = 1700000000123, .ends_at_ms = 1700000240000,
				 .generator_url = VIEW("http://h:7070/graph?g0.expr=a") };
	notifier_sink(n)->send(notifier_sink(n)->arg, &a, 1);
}

static double count(int metric, const struct receiver_server *s)
{
	char url[64];
	snprintf(url, sizeof url, "http://127.0.0.1:%d/api/v2/alerts", s->port);
	return metric_get(&notifier_metrics[metric], url);
}

static void expect_bodies(struct receiver_server *s, const char *want)
{
	mutex_lock(&s->lock);
	assert_string_equal(s->bodies.ptr, want);
	mutex_unlock(&s->lock);
}

/* ---- what is sent ---- */

#define REST "\"annotations\":{\"summary\":\"it is \\\"hot\\\"\\n\"},\"startsAt\":\"2023-11-14T22:13:20.123Z\",\"endsAt\":\"2023-11-14T22:17:20.000Z\"," \
	     "\"generatorURL\":\"http://h:7070/graph?g0.expr=a\"}"

static void what_is_sent(void **state)
{
	struct receiver_server a, b;
	(void)state;
	server_start(&a);
	server_start(&b);
	struct notifier *n = notifier(0, 0, false);
	apply(n, configure("global: {external_labels: {cluster: c, x: own}}\n"
			   "alerting:\n"
			   "  alert_relabel_configs: [{action: drop, source_labels: [x], regex: drop}, {action: labeldrop, regex: cluster2}]\n"
			   "  alertmanagers:\n"
			   "  - static_configs: [{targets: ['127.0.0.1:%d']}]\n"
			   "  - static_configs: [{targets: ['127.0.0.1:%d']}]\n"
			   "    alert_relabel_configs: [{target_label: to, replacement: b}, {action: drop, source_labels: [x], regex: only-a}]\n",
			   a.port, b.port));
	tell(n, "A", "drop");
	tell(n, "A", "only-a");
	await_requests(&a, 1);
	tell(n, "B", "\xff");
	await_requests(&a, 2);
	await_requests(&b, 1);
	notifier_free(n);
	expect_bodies(&a, "[{\"labels\":{\"alertname\":\"A\",\"cluster\":\"c\",\"x\":\"only-a\"}," REST "]\n"
			  "[{\"labels\":{\"alertname\":\"B\",\"cluster\":\"c\",\"x\":\"\xef\xbf\xbd\"}," REST "]\n");
	expect_bodies(&b, "[{\"labels\":{\"alertname\":\"B\",\"cluster\":\"c\",\"to\":\"b\",\"x\":\"\xef\xbf\xbd\"}," REST "]\n");
	assert_int_equal((int)count(NM_SENT, &a), 2);
	assert_int_equal((int)count(NM_DROPPED, &a), 0);
	server_stop(&a);
	server_stop(&b);
}

#define ONE(s) configure("alerting: {alertmanagers: [{timeout: 5s, static_configs: [{targets: ['127.0.0.1:%d']}]}]}", (s)->port)

/* What an Alertmanager refuses is counted and not sent again; one that is slow holds up no other. */
static void refused_and_slow(void **state)
{
	struct receiver_server bad, slow, good;
	(void)state;
	server_start(&bad);
	server_start(&slow);
	server_start(&good);
	atomic_store(&bad.status, 500);
	atomic_store(&slow.delay_ms, 60000);
	struct notifier *n = notifier(0, 0, false);
	apply(n, configure("alerting: {alertmanagers: [{timeout: 300ms, static_configs: [{targets: ['127.0.0.1:%d']}]}, "
			   "{static_configs: [{targets: ['127.0.0.1:%d', '127.0.0.1:%d', '127.0.0.1:1']}]}]}", slow.port, bad.port, good.port));
	assert_int_equal((int)metric_get(&notifier_metrics[NM_DISCOVERED]), 4);
	tell(n, "A", "1");
	await_requests(&good, 1);
	tell(n, "A", "2");
	await_requests(&good, 2);
	await_requests(&bad, 2);
	assert_true(TEST_WAIT(count(NM_ERRORS, &slow) >= 1));
	notifier_free(n);
	assert_int_equal((int)count(NM_SENT, &good), 2);
	assert_int_equal((int)count(NM_ERRORS, &good), 0);
	assert_int_equal((int)count(NM_ERRORS, &bad), 2);
	assert_int_equal((int)count(NM_DROPPED, &bad), 2);
	assert_int_equal((int)count(NM_SENT, &bad), 0);
	assert_true(count(NM_ERRORS, &slow) >= 1);
	assert_int_equal((int)metric_get(&notifier_metrics[NM_ERRORS], "http://127.0.0.1:1/api/v2/alerts"), 2);
	server_stop(&bad);
	server_stop(&slow);
	server_stop(&good);
}

/* While a request is under way the rest waits: batches of two, and of five the oldest goes. */
static void batches_and_overflow(void **state)
{
	struct receiver_server s;
	(void)state;
	server_start(&s);
	atomic_store(&s.delay_ms, 60000);
	struct notifier *n = notifier(4, 2, false);
	apply(n, ONE(&s));
	tell(n, "first", "0");
	assert_true(TEST_WAIT(!(count(NM_LENGTH, &s) > 0)));
	tell(n, "A", "1");
	tell(n, "A", "2");
	tell(n, "A", "3");
	tell(n, "A", "4");
	tell(n, "A", "5");
	assert_int_equal((int)count(NM_DROPPED, &s), 1);
	assert_int_equal((int)count(NM_LENGTH, &s), 4);
	atomic_store(&s.delay_ms, 0);
	notifier_free(n); /* what is queued is sent at the end */
	assert_int_equal(requests(&s), 3);
	assert_null(strstr(s.bodies.ptr, "\"x\":\"1\""));
	assert_non_null(strstr(s.bodies.ptr, "\"x\":\"2\"}," REST ",{"));
	assert_non_null(strstr(s.bodies.ptr, "\"x\":\"5\""));
	assert_int_equal((int)count(NM_SENT, &s), 5);
	assert_int_equal((int)count(NM_LENGTH, &s), 0);
	server_stop(&s);
}

/* A request has a size that fits into memory, too. */
static void large_alerts(void **state)
{
	struct receiver_server s;
	char *large = xmalloc((3 << 20) + 1), *larger = xmalloc((5 << 20) + 1);
	(void)state;
	memset(large, 'x', 3 << 20);
	memset(larger, 'x', 5 << 20);
	large[3 << 20] = larger[5 << 20] = 0;
	server_start(&s);
	atomic_store(&s.delay_ms, 60000);
	struct notifier *n = notifier(0, 0, false);
	apply(n, ONE(&s));
	tell(n, "first", "0");
	assert_true(TEST_WAIT(!(count(NM_LENGTH, &s) > 0)));
	for (int i = 0; i < 5; i++)
		tell(n, "A", large);
	tell(n, "A", larger);
	atomic_store(&s.delay_ms, 0);
	notifier_free(n);
	assert_int_equal(requests(&s), 4); /* 1, 2, 2, 1 */
	assert_int_equal((int)count(NM_SENT, &s), 6);
	server_stop(&s);
	free(large);
	free(larger);
}

/* The end waits no longer than it may, and not at all if nothing is to be sent then. */
static void the_end(void **state)
{
	(void)state;
	for (int drop = 0; drop < 2; drop++) {
		struct receiver_server s;
		server_start(&s);
		atomic_store(&s.delay_ms, 60000);
		struct notifier *n = notifier(0, 1, drop);
		apply(n, ONE(&s));
		tell(n, "A", "1");
		tell(n, "A", "2");
		int64_t begin = clock_mono_ms();
		notifier_close(n);
		tell(n, "A", "too late");
		notifier_free(n);
		int64_t ms = clock_mono_ms() - begin;
		assert_true(drop ? ms < 1800 : ms >= 1800 && ms < 10000);
		assert_int_equal((int)count(NM_DROPPED, &s), 2);
		server_stop(&s);
	}
}

static bool shows_metrics_of(const char *text)
{
	struct buf b = { 0 };
	metrics_render(&b);
	const char *at = strstr(b.ptr, "alertmanager=\"");
	bool shows = at && strstr(at, text);
	buf_free(&b);
	return shows;
}

/* What is queued for an Alertmanager that is still there is sent, whether its item changed or not. */
static void reloads(void **state)
{
	struct receiver_server s;
	(void)state;
	server_start(&s);
	atomic_store(&s.delay_ms, 60000);
	struct notifier *n = notifier(0, 1, false);
	apply(n, ONE(&s));
	struct receiver *same = n->sets.v[0]->receivers.v[0];
	tell(n, "A", "1");
	tell(n, "A", "2");
	apply(n, ONE(&s));
	assert_ptr_equal(n->sets.v[0]->receivers.v[0], same);
	apply(n, configure("alerting: {alertmanagers: [{timeout: 4s, static_configs: [{targets: ['127.0.0.1:%d']}]}]}", s.port));
	assert_ptr_not_equal(n->sets.v[0]->receivers.v[0], same);
	assert_int_equal((int)count(NM_DROPPED, &s), 0);
	atomic_store(&s.delay_ms, 0);
	assert_true(TEST_WAIT(count(NM_SENT, &s) >= 2));
	assert_non_null(strstr(s.bodies.ptr, "\"x\":\"1\""));
	assert_non_null(strstr(s.bodies.ptr, "\"x\":\"2\""));
	apply(n, configure("alerting: {alertmanagers: [{timeout: 4s, static_configs: [{targets: ['127.0.0.1:1', '127.0.0.1:%d']}]}]}", s.port));
	assert_true(shows_metrics_of(":1/"));
	apply(n, configure("alerting: {alertmanagers: [{timeout: 4s, static_configs: [{targets: ['127.0.0.1:%d']}]}]}", s.port));
	assert_true(TEST_WAIT(!shows_metrics_of(":1/"))); /* it is gone, from an item that stays or with it */
	assert_int_equal((int)count(NM_SENT, &s), 2);
	char port[32];
	snprintf(port, sizeof port, ":%d/", s.port);
	assert_true(shows_metrics_of(port));
	apply(n, configure("alerting: {}"));
	assert_int_equal((int)metric_get(&notifier_metrics[NM_DISCOVERED]), 0);
	assert_true(TEST_WAIT(!shows_metrics_of(port)));
	notifier_free(n);
	server_stop(&s);
}

struct many {
	struct notifier *n;
	atomic_bool done;
};

static void *tell_many(void *arg)
{
	struct many *m = arg;
	char text[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab";
	const struct label l[] = { { VIEW("alertname"), VIEW("A") }, { VIEW("x"), view_of(text) } };
	struct alert a[101] = { 0 };
	for (size_t i = 0; i < 101; i++)
		a[i] = (struct alert){ .labels = { l, i < 100 ? 2 : 1 }, .starts_at_ms = 1700000000123, .ends_at_ms = 1700000240000 };
	notifier_sink(m->n)->send(notifier_sink(m->n)->arg, a, 101);
	atomic_store(&m->done, true);
	return NULL;
}

static void no_url(void *arg, struct view url)
{
	(void)url;
	++*(int *)arg;
}

/* Relabelling that takes long holds up nobody who looks, and costs those alerts alone. */
static void slow_relabelling(void **state)
{
	struct receiver_server s;
	struct many m = { 0 };
	pthread_t t;
	struct err e = { 0 };
	int urls = 0;
	(void)state;
	server_start(&s);
	m.n = notifier(0, 0, false);
	apply(m.n, configure("alerting: {alert_relabel_configs: [{source_labels: [x], regex: '(a+a+)+', action: drop}], "
			     "alertmanagers: [{timeout: 5s, static_configs: [{targets: ['127.0.0.1:%d']}]}]}", s.port));
	assert_int_equal(thread_start(&t, "tell", tell_many, &m, &e), 0);
	for (int i = 0; i < 3; i++) {
		clock_sleep_ms(5);
		notifier_status(m.n)->each(notifier_status(m.n), false, no_url, &urls);
	}
	assert_true(!atomic_load(&m.done) && urls == 3);
	pthread_join(t, NULL);
	assert_true(TEST_WAIT(count(NM_SENT, &s) >= 1));
	assert_int_equal((int)count(NM_SENT, &s), 1);
	notifier_free(m.n);
	server_stop(&s);
}

/* An Alertmanager would refuse it, and what comes with it. */
static void without_labels(void **state)
{
	struct receiver_server a, b;
	(void)state;
	server_start(&a);
	server_start(&b);
	struct notifier *n = notifier(0, 0, false);
	apply(n, configure("alerting: {alertmanagers: [{static_configs: [{targets: ['127.0.0.1:%d']}]}, {static_configs: [{targets: ['127.0.0.1:%d']}], "
			   "alert_relabel_configs: [{action: labeldrop, regex: '.*'}]}]}", a.port, b.port));
	tell(n, "A", "1");
	apply(n, configure("alerting: {alert_relabel_configs: [{action: labeldrop, regex: '.*'}], alertmanagers: [{static_configs: [{targets: "
			   "['127.0.0.1:%d']}]}]}", a.port));
	tell(n, "A", "2");
	notifier_free(n);
	assert_int_equal(requests(&a), 1);
	assert_int_equal(requests(&b), 0);
	server_stop(&a);
	server_stop(&b);
}

/* ---- the queue alone ---- */

static struct outgoing *numbered(unsigned i)
{
	char text[16];
	snprintf(text, sizeof text, "%u", i);
	const struct label l = { VIEW("i"), view_of(text) };
	const struct alert a = { .labels = { &l, 1 } };
	return outgoing_new(&a, a.labels);
}

static void queue_keeps_the_newest(void **state)
{
	struct alert_queue q = { .max = 10 };
	size_t dropped = 0;
	char want[32];
	(void)state;
	for (unsigned i = 0; i < 1000; i++) {
		struct outgoing *o = numbered(i);
		dropped += alert_queue_push(&q, o);
		outgoing_unref(o);
		if (i % 7 == 3)
			outgoing_unref(alert_queue_pop(&q));
	}
	assert_int_equal(q.n, 10);
	assert_int_equal(dropped, 1000 - 10 - 143);
	for (unsigned i = 990; i < 1000; i++) {
		struct outgoing *o = alert_queue_pop(&q);
		snprintf(want, sizeof want, "\"i\":\"%u\"", i);
		assert_non_null(memmem(o->json, o->len, want, strlen(want)));
		outgoing_unref(o);
	}
	assert_null(alert_queue_pop(&q));
	assert_int_equal(q.bytes, 0);
	q.max_bytes = 1; /* less than one alert: still one has room */
	for (unsigned i = 0; i < 3; i++) {
		struct outgoing *o = numbered(i);
		assert_int_equal(alert_queue_push(&q, o), i > 0);
		outgoing_unref(o);
	}
	alert_queue_free(&q);
}

/* ---- the configuration ---- */

static void bad_sections(void **state)
{
	static const struct { const char *text, *says; } rows[] = {
		{ "alerting: []", "p.yml:1:11: field alerting" },
		{ "alerting: {alertmanager: []}", "p.yml:1:12: field alerting.alertmanager: unknown" },
		{ "alerting: {alertmanagers: {}}", "p.yml:1:27: field alerting.alertmanagers: a list of Alertmanagers is wanted" },
		{ "alerting:\n  alertmanagers:\n  - api_version: v1\n", "p.yml:3:18: field alerting.alertmanagers[0].api_version" },
		{ "alerting:\n  alertmanagers:\n  - {}\n  - nosuch: 1\n", "p.yml:4:5: field alerting.alertmanagers[1].nosuch: unknown" },
		{ "alerting:\n  alertmanagers:\n  - timeout: 0s\n", "p.yml:3:14: field alerting.alertmanagers[0]" },
		{ "alerting:\n  alertmanagers:\n  - scheme: ftp\n", "p.yml:3:13:" },
		{ "alerting:\n  alertmanagers:\n  - sigv4: {}\n", "not signed" },
		{ "alerting:\n  alertmanagers:\n  - ec2_sd_configs: [{}]\n", "not built in" },
		{ "alerting:\n  alertmanagers:\n  - basic_auth: {username: a}\n    authorization: {credentials: b}\n", "p.yml:3:" },
		{ "alerting:\n  alert_relabel_configs:\n  - regex: '('\n", "p.yml:3:" },
		{ "alerting:\n  alertmanagers:\n  - alert_relabel_configs: [{action: hashmod, target_label: a}]\n", "p.yml:3:" },
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct config_tree *t;
		struct notifier_config *c = NULL;
		struct err e = { 0 };
		assert_int_equal(config_parse(&t, view_of(rows[i].text), "p.yml", &e), 0);
		assert_int_not_equal(notifier_config_parse(&c, t, NULL, NULL, &e), 0);
		if (!strstr(e.msg, rows[i].says))
			fail_msg("%s: %s", rows[i].text, e.msg);
		config_free(t);
	}
}

static void expect_place(const char *rules, const char *group, const char *address, const char *want)
{
	struct notifier_config *c = configure("alerting: {alertmanagers: [{%s}]}", rules);
	const struct label g = { VIEW("__scheme__"), view_of(group) }, t = { VIEW("__address__"), view_of(address) };
	struct endpoint_place p;
	struct arena a;
	struct err e = { 0 };
	arena_init(&a, 1 << 20);
	int rc = endpoint_place_make(&notifier_endpoints, &c->sets.v[0].endpoints, (struct labels){ &g, 1 }, (struct labels){ &t, 1 }, &a, &p, &e);
	char *got = rc ? xstrdup(e.msg) : xasprintf("%s%s", p.dropped ? "dropped " : "", p.url);
	assert_string_equal(got, want);
	free(got);
	free(p.url);
	arena_free(&a);
	notifier_config_unref(c);
}

static void places(void **state)
{
	(void)state;
	expect_place("", "https", "h:9093", "http://h:9093/api/v2/alerts"); /* the configuration decides, then relabelling */
	expect_place("path_prefix: /", "", "h", "http://h/api/v2/alerts");
	expect_place("path_prefix: am/eu/, scheme: https", "", "h", "https://h/am/eu/api/v2/alerts");
	expect_place("path_prefix: '/a b?', scheme: https", "", "[::1]:1", "https://[::1]:1/a%20b%3F/api/v2/alerts");
	expect_place("relabel_configs: [{target_label: __scheme__, replacement: https}, {target_label: __alerts_path__, replacement: x}]", "", "h",
		     "https://h/x");
	expect_place("relabel_configs: [{action: drop, source_labels: [__address__], regex: 'h.*'}]", "", "h2", "dropped http://h2/api/v2/alerts");
	expect_place("", "", "http://h", "__address__ of an Alertmanager is not host:port: \"http://h\"");
	expect_place("", "", "u:p@h", "__address__ of an Alertmanager is not host:port: \"u:p@h\"");
	expect_place("relabel_configs: [{target_label: __address__, replacement: ''}]", "", "h", "an Alertmanager has no __address__");
	expect_place("relabel_configs: [{target_label: __scheme__, replacement: ftp}]", "", "h",
		     "__scheme__ of the Alertmanager h is neither http nor https");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_sent), cmocka_unit_test(slow_relabelling), cmocka_unit_test(refused_and_slow), cmocka_unit_test(batches_and_overflow),
		cmocka_unit_test(large_alerts), cmocka_unit_test(the_end), cmocka_unit_test(reloads), cmocka_unit_test(without_labels), cmocka_unit_test(queue_keeps_the_newest), cmocka_unit_test(bad_sections),
		cmocka_unit_test(places),
	};
	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_LOGFMT);
	notifier_register_metrics();
	int rc = cmocka_run_group_tests(tests, NULL, NULL);
	discovery_finish();
	metrics_free();
	return rc;
}
