/* SPDX-License-Identifier: Apache-2.0 */
/* Informers against a small API server: several subscribers, one watch; who comes later, who leaves, what breaks off. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/vec.h"
#include "kube/kube_private.h"

/* Objects o0 ... of a list; a watch that is told what is put into `news`. One thread per connection. */
static struct {
	int fd, port;
	pthread_t thread;
	VEC(pthread_t) connections;
	struct mutex lock;           /* guards the rest */
	size_t objects, version;
	bool cut;                    /* lists break off */
	bool forbid, missing;
	char news[4096];             /* lines for all watches, from the beginning of each */
	atomic_int lists, watches, probes, open_watches;
	atomic_bool stop, mute;      /* mute: accepts, and says nothing */
} api = { .lock = MUTEX_INIT(LOCK_ANY, "test") };

static bool send_all(int fd, const char *p, size_t n)
{
	while (n) {
		ssize_t w = send(fd, p, n, MSG_NOSIGNAL);
		if (w <= 0)
			return false;
		p += w;
		n -= (size_t)w;
	}
	return true;
}

static bool send_text(int fd, const char *s)
{
	return send_all(fd, s, strlen(s));
}

static void answer(int fd, const char *status, struct view body, size_t promised)
{
	struct buf b = { 0 };
	buf_printf(&b, "HTTP/1.1 %s\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n", status, promised);
	buf_putv(&b, body);
	send_all(fd, b.ptr, b.len);
	buf_free(&b);
}

static void answer_list(int fd)
{
	struct buf b = { 0 };
	mutex_lock(&api.lock);
	buf_printf(&b, "{\"kind\":\"List\",\"items\":[");
	for (size_t i = 0; i < api.objects; i++)
		buf_printf(&b, "%s{\"metadata\":{\"name\":\"o%zu\"}}", i ? "," : "", i);
	bool cut = api.cut;
	if (!cut)
		buf_printf(&b, "],\"metadata\":{\"resourceVersion\":\"%zu\"}}", api.version);
	atomic_fetch_add(&api.lists, 1);
	mutex_unlock(&api.lock);
	answer(fd, "200 OK", buf_view(&b), b.len + (cut ? 10 : 0));
	buf_free(&b);
}

static bool left(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char c;
	return poll(&p, 1, 5) > 0 && recv(fd, &c, 1, MSG_PEEK) <= 0;
}

static void answer_watch(int fd)
{
	size_t sent = 0;
	atomic_fetch_add(&api.watches, 1);
	atomic_fetch_add(&api.open_watches, 1);
	mutex_lock(&api.lock);
	sent = strlen(api.news);
	mutex_unlock(&api.lock);
	bool good = send_text(fd, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
	while (good && !atomic_load(&api.stop) && !left(fd)) {
		mutex_lock(&api.lock);
		good = send_text(fd, api.news + sent);
		sent = strlen(api.news);
		mutex_unlock(&api.lock);
	}
	atomic_fetch_sub(&api.open_watches, 1);
}

static void *serve_one(void *arg)
{
	int fd = (int)(intptr_t)arg;
	char request[8192] = "";
	size_t n = 0;
	while (n < sizeof request - 1 && !strstr(request, "\r\n\r\n")) {
		ssize_t r = read(fd, request + n, sizeof request - 1 - n);
		if (r <= 0)
			break;
		n += (size_t)r;
		request[n] = 0;
	}
	while (atomic_load(&api.mute) && !atomic_load(&api.stop) && !left(fd))
		;
	mutex_lock(&api.lock);
	bool forbid = api.forbid, missing = api.missing;
	mutex_unlock(&api.lock);
	if (strstr(request, "GET /version")) {
		atomic_fetch_add(&api.probes, 1);
		answer(fd, "200 OK", VIEW("{}"), 2);
	} else if (forbid || missing) {
		atomic_fetch_add(&api.lists, 1);
		answer(fd, forbid ? "403 Forbidden" : "404 Not Found", VIEW("{\"message\":\"no\"}"), 16);
	} else if (strstr(request, "watch=1")) {
		answer_watch(fd);
	} else if (strstr(request, "GET /")) {
		answer_list(fd);
	}
	close(fd);
	return NULL;
}

static void *serve(void *arg)
{
	for (;;) {
		pthread_t t;
		int fd = accept(api.fd, NULL, NULL);
		if (fd < 0)
			return NULL;
		assert_int_equal(pthread_create(&t, NULL, serve_one, (void *)(intptr_t)fd), 0);
		vec_push(&api.connections, t);
	}
}

static int start_api(void **state)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof a;
	api.objects = 3;
	api.version = 100;
	api.cut = api.forbid = api.missing = false;
	api.news[0] = 0;
	api.lists = api.watches = api.probes = 0;
	api.stop = api.mute = false;
	api.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(api.fd, (struct sockaddr *)&a, sizeof a) || listen(api.fd, 64) || getsockname(api.fd, (struct sockaddr *)&a, &len))
		return -1;
	api.port = ntohs(a.sin_port);
	return pthread_create(&api.thread, NULL, serve, NULL);
}

static int stop_api(void **state)
{
	atomic_store(&api.stop, true);
	shutdown(api.fd, SHUT_RDWR);
	close(api.fd);
	pthread_join(api.thread, NULL);
	for (size_t i = 0; i < api.connections.n; i++)
		pthread_join(api.connections.v[i], NULL);
	vec_free(&api.connections);
	return 0;
}

static void news(const char *type, const char *name, size_t version)
{
	char line[256];
	snprintf(line, sizeof line, "{\"type\":\"%s\",\"object\":{\"metadata\":{\"name\":\"%s\",\"resourceVersion\":\"%zu\"}}}\n", type, name,
		 version);
	mutex_lock(&api.lock);
	snprintf(api.news + strlen(api.news), sizeof api.news - strlen(api.news), "%s", line);
	mutex_unlock(&api.lock);
}

/* --- a subscriber that writes down what it is told --- */

struct diary {
	struct mutex lock;
	struct buf text;
	atomic_int calls, ends;
	atomic_bool left;            /* nothing may be called any more */
	struct kube_subscription *s;
};

static void note(struct diary *d, const char *what, const char *name)
{
	assert_false(atomic_load(&d->left));
	mutex_lock(&d->lock);
	buf_printf(&d->text, "%s%s ", what, name);
	mutex_unlock(&d->lock);
	atomic_fetch_add(&d->calls, 1);
}

static void on_begin(void *arg)
{
	note(arg, "begin", "");
}

static void on_put(void *arg, const json_t *o)
{
	note(arg, "", kube_text(o, "metadata.name"));
}

static void on_del(void *arg, const json_t *o)
{
	note(arg, "-", kube_text(o, "metadata.name"));
}

static void on_end(void *arg)
{
	struct diary *d = arg;
	note(d, "end", "");
	atomic_fetch_add(&d->ends, 1);
}

static void on_problem(void *arg, const struct err *e)
{
	note(arg, "!", e ? "problem" : "fine");
}

static void subscribe_to(struct diary *d, const char *path, const char *selector)
{
	char url[64];
	struct err e = { 0 };
	snprintf(url, sizeof url, "http://127.0.0.1:%d", api.port);
	*d = (struct diary){ .lock = MUTEX_INIT(LOCK_ANY, "test") };
	struct kube_informer_config c = { .client = { .api_server = url }, .path = path, .label_selector = selector };
	struct kube_events ev = { on_begin, on_put, on_del, on_end, on_problem, d };
	assert_int_equal(kube_subscribe(&d->s, &c, &ev, &e), 0);
}

static void subscribe(struct diary *d)
{
	subscribe_to(d, "/api/v1/pods", NULL);
}

static void unsubscribe(struct diary *d)
{
	int64_t begin = clock_mono_ms();
	kube_unsubscribe(d->s);
	atomic_store(&d->left, true);
	assert_true(clock_mono_ms() - begin < 5000); /* a second, and a slow machine */
}

static void expect(struct diary *d, const char *text)
{
	bool good = false;
	for (int i = 0; i < 4000 && !good; i++) {
		mutex_lock(&d->lock);
		good = d->text.ptr && strcmp(d->text.ptr, text) == 0;
		mutex_unlock(&d->lock);
		clock_sleep_ms(5);
	}
	if (!good)
		fail_msg("not \"%s\": \"%s\"", text, d->text.ptr ? d->text.ptr : "");
}

static bool has(struct diary *d, const char *text)
{
	mutex_lock(&d->lock);
	bool has = d->text.ptr && strstr(d->text.ptr, text);
	mutex_unlock(&d->lock);
	return has;
}

static void wait_int(atomic_int *what, int want)
{
	for (int i = 0; i < 4000 && atomic_load(what) != want; i++)
		clock_sleep_ms(5);
	assert_int_equal(atomic_load(what), want);
}

static void discard(struct diary *d)
{
	buf_free(&d->text);
}

static void test_one_watch_for_all(void **state)
{
	struct diary a, b, other, later;
	subscribe(&a);
	subscribe(&b);
	subscribe_to(&other, "/api/v1/pods", "x=y");
	wait_int(&a.ends, 1);
	wait_int(&b.ends, 1);
	wait_int(&other.ends, 1);
	wait_int(&api.open_watches, 2);
	subscribe(&later);
	expect(&later, "begin o0 o1 o2 end ");
	wait_int(&api.open_watches, 2);
	news("MODIFIED", "o1", 101);
	news("DELETED", "o2", 102);
	expect(&later, "begin o0 o1 o2 end o1 -o2 ");
	expect(&other, "begin o0 o1 o2 end o1 -o2 ");
	expect(&b, "begin o0 o1 o2 end o1 -o2 "); /* the list for who came later was not for those who were there */
	unsubscribe(&a);
	news("ADDED", "o9", 103);
	expect(&later, "begin o0 o1 o2 end o1 -o2 o9 ");
	unsubscribe(&later);
	unsubscribe(&b);
	wait_int(&api.open_watches, 1);
	unsubscribe(&other);
	wait_int(&api.open_watches, 0);
	discard(&a);
	discard(&b);
	discard(&later);
	discard(&other);
}

/* Many who come at once cost few lists. */
static void test_many_come(void **state)
{
	enum { N = 500 };
	struct diary *d = calloc(N, sizeof *d);
	for (size_t i = 0; i < N; i++)
		subscribe(&d[i]);
	for (size_t i = 0; i < N; i++)
		wait_int(&d[i].ends, 1);
	assert_true(atomic_load(&api.lists) < 20);
	for (size_t i = 0; i < N; i++) {
		unsubscribe(&d[i]);
		discard(&d[i]);
	}
	free(d);
}

/* Without an end nothing of a list counts; and who comes is told what is wrong. */
static void test_a_list_that_breaks_off(void **state)
{
	struct diary a, b;
	api.cut = true;
	subscribe(&a);
	while (atomic_load(&a.calls) < 2)
		clock_sleep_ms(5);
	subscribe(&b);
	while (atomic_load(&b.calls) < 2)
		clock_sleep_ms(5);
	assert_int_equal(a.ends + b.ends, 0);
	mutex_lock(&api.lock);
	api.cut = false;
	mutex_unlock(&api.lock);
	wait_int(&a.ends, 1);
	wait_int(&b.ends, 1);
	while (!has(&a, "!fine"))
		clock_sleep_ms(5);
	assert_true(has(&a, "!problem"));
	unsubscribe(&a);
	unsubscribe(&b);
	discard(&a);
	discard(&b);
}

/* --- kube_watch_run itself, with short times --- */

struct runner {
	struct diary d;
	struct kube_client *client;
	struct kube_watch w;
	atomic_bool cancel;
	pthread_t thread;
};

static void *run_watch(void *arg)
{
	struct runner *r = arg;
	kube_watch_run(&r->w);
	return NULL;
}

static void start_runner(struct runner *r)
{
	char url[64];
	struct err e = { 0 };
	snprintf(url, sizeof url, "http://127.0.0.1:%d", api.port);
	*r = (struct runner){ .d.lock = MUTEX_INIT(LOCK_ANY, "test") };
	assert_int_equal(kube_client_new(&r->client, url, NULL, "test", &e), 0);
	r->w = (struct kube_watch){ .client = r->client, .path = "/api/v1/pods", .cancel = &r->cancel, .begin = on_begin, .put = on_put,
				    .del = on_del, .end = on_end, .problem = on_problem, .arg = &r->d, .pause_ms = 4, .quiet_ms = 300 };
	assert_int_equal(pthread_create(&r->thread, NULL, run_watch, r), 0);
}

static void stop_runner(struct runner *r)
{
	int64_t begin = clock_mono_ms();
	atomic_store(&r->cancel, true);
	pthread_join(r->thread, NULL);
	assert_true(clock_mono_ms() - begin < 5000);
	kube_client_free(r->client);
	discard(&r->d);
}

static void wait_for(struct diary *d, const char *text)
{
	for (int i = 0; i < 4000 && !has(d, text); i++)
		clock_sleep_ms(5);
	if (!has(d, text))
		fail_msg("no \"%s\" in \"%s\"", text, d->text.ptr);
}

/* A quiet watch of a server that lives goes on; one that accepts and says nothing any more is noticed. */
static void test_silence(void **state)
{
	struct runner r;
	start_runner(&r);
	wait_int(&api.open_watches, 1);
	wait_int(&api.probes, 2);
	expect(&r.d, "begin o0 o1 o2 end ");
	assert_int_equal(api.watches, 1);
	atomic_store(&api.mute, true);
	wait_for(&r.d, "!problem");
	wait_int(&api.open_watches, 0);
	news("ADDED", "lost", 101);
	atomic_store(&api.mute, false);
	wait_int(&api.open_watches, 1);
	news("ADDED", "o9", 102);
	wait_for(&r.d, "!fine o9");
	assert_int_equal(api.lists, 1);
	stop_runner(&r);
}

/* So also while a list is awaited. */
static void test_silent_list(void **state)
{
	struct runner r;
	atomic_store(&api.mute, true);
	start_runner(&r);
	wait_for(&r.d, "!problem");
	assert_false(has(&r.d, "begin"));
	atomic_store(&api.mute, false);
	wait_for(&r.d, "begin o0 o1 o2 end !fine");
	stop_runner(&r);
}

/* What is not installed is asked for seldom, and told of once; also to who comes later. */
static void test_not_installed(void **state)
{
	struct diary a, b;
	api.missing = true;
	subscribe(&a);
	expect(&a, "!problem ");
	subscribe(&b);
	expect(&b, "!problem ");
	clock_sleep_ms(2500);
	assert_int_equal(api.lists, 1);
	unsubscribe(&a);
	unsubscribe(&b);
	discard(&a);
	discard(&b);

	/* Whoever counts failures is told of each. */
	api.missing = false;
	api.forbid = true;
	subscribe(&a);
	expect(&a, "!problem !problem !problem ");
	unsubscribe(&a);
	discard(&a);

	struct runner r;
	api.forbid = false;
	api.missing = true;
	atomic_store(&api.lists, 0);
	start_runner(&r);            /* 300 ms are a minute */
	wait_int(&api.lists, 3);
	mutex_lock(&api.lock);
	api.missing = false;
	mutex_unlock(&api.lock);
	wait_for(&r.d, "begin o0 o1 o2 end !fine");
	stop_runner(&r);
}

static void test_source(void **state)
{
	struct http_config a = { .follow_redirects = true, .enable_http2 = true }, b = a;
	b.proxy_url = "http://p";
	struct kube_source none = { 0 }, one = { .api_server = "https://h" }, two = { .api_server = "https://h", .http = &a },
			   three = { .api_server = "https://h", .http = &b }, file = { .kubeconfig_file = "f" };
	assert_true(kube_source_same(&none, &(struct kube_source){ .http = &b, .api_server = "" }));
	assert_true(kube_source_same(&one, &two));
	assert_false(kube_source_same(&one, &three));
	assert_false(kube_source_same(&one, &none));
	assert_false(kube_source_same(&file, &none));
	assert_true(kube_source_same(&file, &(struct kube_source){ .kubeconfig_file = "f" }));
	struct kube_subscription *s;
	struct kube_events ev = { on_begin, on_put, on_del, on_end, on_problem, NULL };
	struct err e = { 0 };
	assert_true(kube_subscribe(&s, &(struct kube_informer_config){ .client = { .kubeconfig_file = "/nonexistent" }, .path = "/x" }, &ev, &e) < 0);
	assert_non_null(strstr(e.msg, "/nonexistent"));
}

int main(void)
{
#define WITH_API(f) cmocka_unit_test_setup_teardown(f, start_api, stop_api)
	const struct CMUnitTest tests[] = { WITH_API(test_one_watch_for_all), WITH_API(test_many_come),
					    WITH_API(test_a_list_that_breaks_off),
					    WITH_API(test_silence), WITH_API(test_silent_list), WITH_API(test_not_installed),
					    cmocka_unit_test(test_source) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
