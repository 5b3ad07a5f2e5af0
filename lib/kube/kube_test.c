/* SPDX-License-Identifier: Apache-2.0 */
/* Lists and watches against a server that plays a script, request by request; and who we are to it, from files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "kube/kube_private.h"

#define POD(name, version) "{\"metadata\":{\"name\":\"" name "\",\"resourceVersion\":\"" version "\"}}"
#define EVENT(type, object) "{\"type\":\"" type "\",\"object\":" object "}\n"
#define STATUS(code, message) "{\"kind\":\"Status\",\"status\":\"Failure\",\"message\":\"" message "\",\"code\":" code "}"

#define NUL_KEY "{\"metadata\":{\"name\":\"evil\",\"resourceVersion\":\"501.2\"},\"spec\":{\"a\\u0000b\":\"1\"}}"

/* A page that is empty and not the last. */
#define EMPTY(query) { query, "200 OK", "{\"metadata\":{\"resourceVersion\":\"400\",\"continue\":\"c\"},\"items\":[]}" }

/* What is asked for, and what is answered. cut: the connection ends before all of it was sent; late: a good second after. */
static const struct step {
	const char *query, *status, *body;
	bool cut, hold, late;
} script[] = {
	{ "fieldSelector=spec.nodeName%3Dn1&limit=2&resourceVersion=0 ", "200 OK",
	  "{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"100\",\"continue\":\"c/1\"},\"items\":[" POD("a", "5") "," POD("b", "6") "]}" },
	{ "fieldSelector=spec.nodeName%3Dn1&limit=2&continue=c%2F1 ", "200 OK",
	  "{\"metadata\":{\"resourceVersion\":\"100\"},\"items\":[" POD("c", "7") "]}" },
	{ "watch=1&allowWatchBookmarks=true&resourceVersion=100&timeoutSeconds=240 ", "200 OK",
	  EVENT("ADDED", POD("d", "101")) EVENT("MODIFIED", POD("a", "102")) "{\"type\":\"DELETED\",\"obj", true },
	{ "resourceVersion=102&", "200 OK", EVENT("DELETED", POD("b", "103")) EVENT("BOOKMARK", "{\"metadata\":{\"resourceVersion\":\"200\"}}") },
	{ "resourceVersion=200&", "200 OK", EVENT("ERROR", STATUS("410", "too old resource version")) },
	/* the newest now, not what is in the cache */
	{ "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1&limit=2 ", "200 OK", "{\"metadata\":{\"resourceVersion\":\"300\"},\"items\":[" POD("x", "299") "]}" },
	{ "resourceVersion=300&", "410 Gone", STATUS("410", "gone") },
	{ "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1&limit=2 ", "200 OK", "{\"metadata\":{\"resourceVersion\":\"301\"},\"items\":[]}" },
	{ "resourceVersion=301&", "403 Forbidden", STATUS("403", "pods is forbidden: User u cannot watch") },
	{ "resourceVersion=301&", "200 OK", EVENT("ADDED", POD("y", "302")) "no json\n" EVENT("ADDED", POD("z", "303")) },
	/* what came after it cannot be trusted: list */
	{ "limit=2&resourceVersion=0 ", "500 Oops", "<html>" },
	{ "limit=2&resourceVersion=0 ", "200 OK", "{\"items\":{}}" },
	/* a list without end */
	EMPTY("limit=2&resourceVersion=0 "), EMPTY("continue=c "), EMPTY("continue=c "), EMPTY("continue=c "), EMPTY("continue=c "),
	EMPTY("continue=c "), EMPTY("continue=c "), EMPTY("continue=c "), EMPTY("continue=c "), EMPTY("continue=c "),
	EMPTY("continue=c "), EMPTY("continue=c "), EMPTY("continue=c "), EMPTY("continue=c "),
	/* what is no event, or has nothing in it */
	{ "limit=2&resourceVersion=0 ", "200 OK", "{\"metadata\":{\"resourceVersion\":\"401\"},\"items\":[]}" },
	{ "resourceVersion=401&", "200 OK", EVENT("ADDED", POD("u", "402")) "\n{\"type\":\"DELETED\",\"object\":3}\n" EVENT("ADDED", POD("v", "403")) },
	{ "limit=2&resourceVersion=0 ", "200 OK", "{\"metadata\":{\"resourceVersion\":\"402\"},\"items\":[]}" },
	{ "resourceVersion=402&", "200 OK", EVENT("BOOKMARK", "{}") "[]\n" },
	{ "limit=2&resourceVersion=0 ", "200 OK", "{\"metadata\":{\"resourceVersion\":\"402\"},\"items\":[]}" },
	{ "resourceVersion=402&", "200 OK", "{\"type\":\"ERROR\"}\n" },
	{ "limit=2&resourceVersion=0 ", "200 OK", "{\"metadata\":{\"resourceVersion\":\"400\",\"continue\":\"c2\"},\"items\":[" POD("p", "1") "]}" },
	/* a page that is gone: nothing of the list counts */
	{ "continue=c2 ", "410 Gone", STATUS("410", "expired") },
	{ "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1&limit=2 ", "200 OK",
	  "{\"metadata\":{\"resourceVersion\":\"500\"},\"items\":[" POD("q", "1") "," POD("r", "1") "," POD("s", "1") "," POD("t", "1") "]}" },
	{ "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1&limit=2 ", "200 OK", "{\"metadata\":{\"resourceVersion\":\"501\"},\"items\":[" POD("q", "1") "]}" },
	/* what a list would leave out: the watch goes on from what was read */
	{ "resourceVersion=501&", "200 OK", EVENT("ADDED", NUL_KEY) EVENT("ADDED", POD("w", "501.5")) EVENT("MODIFIED", "{\"x\":123456789012345678901}") },
	{ "resourceVersion=501.5&", "200 OK", EVENT("MODIFIED", POD("q", "502")), false, true },
};

/* What was left out may have said that something is gone: list, once for all of it. */
static const struct step left_out[] = {
	{ "resourceVersion=0 ", "200 OK", "{\"metadata\":{\"resourceVersion\":\"100\"},\"items\":[" POD("a", "1") "]}" },
	{ "resourceVersion=100&", "200 OK", EVENT("DELETED", NUL_KEY) EVENT("DELETED", NUL_KEY) EVENT("ADDED", POD("b", "101")), .late = true },
	{ "resourceVersion=0 ", "200 OK", "{\"metadata\":{\"resourceVersion\":\"102\"},\"items\":[" POD("b", "101") "]}" },
	{ "resourceVersion=102&", "200 OK", EVENT("MODIFIED", POD("b", "502")), .hold = true },
};

static const char expected[] =
	"begin a b c end d a -b begin x end begin end !HTTP 403: pods is forbidden: User u cannot watch! fine y !no JSON! "
	"!HTTP 500: no reason given! begin !no list! begin !14 pages and no end! begin end fine u !an event DELETED without an object! "
	"begin end fine !an event of type! begin end !the watch ended! begin p !the list changed! begin q r s !more than 3 objects! begin q end !left out! w q ";

static struct {
	int fd, port;
	pthread_t thread;
	const struct step *script;
	size_t steps, at;
	char wrong[2048];
	struct buf log;
	atomic_bool cancel, held;
} t;

static void send_text(int fd, const char *p, size_t n)
{
	while (n) {
		ssize_t w = send(fd, p, n, MSG_NOSIGNAL);
		if (w <= 0)
			return;
		p += w;
		n -= (size_t)w;
	}
}

static void play(int fd)
{
	char request[8192] = "";
	size_t n = 0;
	while (n < sizeof request - 1 && !strstr(request, "\r\n\r\n")) {
		ssize_t r = read(fd, request + n, sizeof request - 1 - n);
		if (r <= 0)
			return;
		n += (size_t)r;
		request[n] = 0;
	}
	const struct step *s = &t.script[MIN(t.at, t.steps - 1)];
	if (t.at++ >= t.steps || !strstr(request, s->query) || !strstr(request, "Authorization: Bearer secret")) {
		snprintf(t.wrong, sizeof t.wrong, "request %zu: %.1500s", t.at, request);
		atomic_store(&t.cancel, true);
	}
	struct buf b = { 0 };
	size_t len = strlen(s->body);
	buf_printf(&b, "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n%s", s->status,
		   s->cut || s->hold || s->late ? len + 100 : len, s->body);
	send_text(fd, b.ptr, b.len);
	buf_free(&b);
	atomic_store(&t.held, s->hold);
	if (s->late)
		clock_sleep_ms(1200);
	while (s->hold && !atomic_load(&t.cancel))
		clock_sleep_ms(5);
}

static void *serve(void *arg)
{
	while (!atomic_load(&t.cancel)) {
		int fd = accept(t.fd, NULL, NULL);
		if (fd < 0)
			break;
		play(fd);
		close(fd);
	}
	return NULL;
}

static void start_server(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof a;
	t.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(t.fd, (struct sockaddr *)&a, sizeof a), 0);
	assert_int_equal(listen(t.fd, 16), 0);
	assert_int_equal(getsockname(t.fd, (struct sockaddr *)&a, &len), 0);
	t.port = ntohs(a.sin_port);
	assert_int_equal(pthread_create(&t.thread, NULL, serve, NULL), 0);
}

static void on_begin(void *arg)
{
	buf_puts(&t.log, "begin ");
}

static void on_put(void *arg, const json_t *o)
{
	buf_printf(&t.log, "%s ", kube_text(o, "metadata.name"));
	if (strcmp(kube_text(o, "metadata.resourceVersion"), "502") == 0)
		atomic_store(&t.cancel, true);
}

static void on_del(void *arg, const json_t *o)
{
	buf_printf(&t.log, "-%s ", kube_text(o, "metadata.name"));
}

static void on_end(void *arg)
{
	buf_puts(&t.log, "end ");
}

static void on_problem(void *arg, const struct err *e)
{
	static const char *const known[] = { "HTTP 403: pods is forbidden: User u cannot watch", "no JSON", "HTTP 500: no reason given",
					     "no list", "the list changed", "more than 3 objects", "14 pages and no end",
					     "an event of type", "left out", "an event DELETED without an object", "the watch ended" };
	if (!e) {
		buf_puts(&t.log, "fine ");
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		if (strstr(e->msg, known[i])) {
			buf_printf(&t.log, "!%s! ", known[i]);
			return;
		}
	}
	buf_printf(&t.log, "!?%s! ", e->msg);
}

static void run_script(const struct step *steps, size_t n, uint32_t watch_seconds, const char *gives)
{
	struct http_authorization token = { .type = "Bearer", .credentials = "secret" };
	struct http_config http = { .authorization = &token };
	struct kube_client *c;
	char url[64];
	struct err e = { 0 };

	t.script = steps;
	t.steps = n;
	t.at = 0;
	t.cancel = t.held = false;
	start_server();
	snprintf(url, sizeof url, "http://127.0.0.1:%d/", t.port);
	assert_int_equal(kube_client_new(&c, url, &http, "test", &e), 0);
	struct kube_watch w = { .client = c, .path = "/api/v1/pods", .field_selector = "spec.nodeName=n1", .cancel = &t.cancel,
				.begin = on_begin, .put = on_put, .del = on_del, .end = on_end, .problem = on_problem, .page = 2,
				.max_objects = 3, .pause_ms = 1, .watch_seconds = watch_seconds };
	kube_watch_run(&w);
	shutdown(t.fd, SHUT_RDWR);
	close(t.fd);
	pthread_join(t.thread, NULL);
	kube_client_free(c);
	assert_string_equal(t.wrong, "");
	assert_string_equal(t.log.ptr, gives);
	buf_free(&t.log);
}

static void test_list_and_watch(void **state)
{
	run_script(script, ARRAY_LEN(script), 0, expected);
}

static void test_left_out(void **state)
{
	run_script(left_out, ARRAY_LEN(left_out), 1, "begin a end !left out! b begin b end fine b ");
}

/* --- who we are --- */

static char dir[] = "/tmp/pyrrha-kube-XXXXXX", file[64];

static void put_file(const char *name, const char *text)
{
	snprintf(file, sizeof file, "%s/%s", dir, name);
	FILE *f = fopen(file, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

#define CLUSTER "clusters:\n- name: c\n  cluster: {server: 'https://10.0.0.1:6443/', certificate-authority-data: Q0EK}\n"
#define CONTEXT "apiVersion: v1\nkind: Config\npreferences: {}\ncontexts:\n- name: x\n  context: {cluster: c, user: u}\n"

static void test_kubeconfig(void **state)
{
	struct kube_client *c;
	struct err e = { 0 };

	put_file("config", CONTEXT CLUSTER "current-context: x\nusers:\n- name: u\n  user: {tokenFile: tok, token: old}\n");
	assert_int_equal(kube_client_kubeconfig(&c, file, NULL, "test", &e), 0);
	assert_string_equal(kube_client_server(c), "https://10.0.0.1:6443");
	assert_string_equal(c->http.tls.ca, "CA\n");
	char want[64];
	snprintf(want, sizeof want, "%s/tok", dir);
	assert_string_equal(c->http.authorization->credentials_file, want);
	kube_client_free(c);
	put_file("config", CONTEXT CLUSTER "users:\n- name: u\n  user: {client-certificate-data: QUI=, client-key: /k}\n");
	assert_int_equal(kube_client_kubeconfig(&c, file, "x", "test", &e), 0);
	assert_string_equal(c->http.tls.cert, "AB");
	assert_string_equal(c->http.tls.key_file, "/k");
	kube_client_free(c);

	static const struct { const char *text, *says; } bad[] = {
		{ CONTEXT CLUSTER, "current-context" },
		{ CONTEXT CLUSTER "current-context: y\n", "there is no context \"y\"" },
		{ CONTEXT "current-context: x\nclusters: []\n", "there is no cluster \"c\"" },
		{ CONTEXT CLUSTER "current-context: x\nusers: []\n", "there is no user \"u\"" },
		{ CONTEXT CLUSTER "current-context: x\nusers:\n- name: u\n  user: {exec: {command: aws}}\n", "from a program" },
		{ CONTEXT CLUSTER "current-context: x\nusers:\n- name: u\n  user: {client-certificate-data: '%'}\n", "is not base64" },
		{ CONTEXT CLUSTER "current-context: x\nusers:\n- name: u\n  user: {client-certificate: a}\n", "its key" },
		{ CONTEXT "current-context: x\nclusters:\n- name: c\n  cluster: {server: 'ftp://x'}\nusers:\n- name: u\n  user: {}\n", "no URL" },
		{ "a: [", "config:" },
	};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		put_file("config", bad[i].text);
		assert_true(kube_client_kubeconfig(&c, file, NULL, "test", &e) < 0);
		if (!strstr(e.msg, bad[i].says))
			fail_msg("%s is not in: %s", bad[i].says, e.msg);
	}
}

static void test_in_cluster(void **state)
{
	struct kube_client *c;
	struct err e = { 0 };

	unsetenv("KUBERNETES_SERVICE_HOST");
	assert_int_equal(kube_client_in_cluster(&c, dir, "test", &e), -ERR_NOT_FOUND);
	setenv("KUBERNETES_SERVICE_HOST", "fd00::1", 1);
	setenv("KUBERNETES_SERVICE_PORT", "443", 1);
	assert_true(kube_client_in_cluster(&c, "/nonexistent", "test", &e) < 0);
	assert_non_null(strstr(e.msg, "/nonexistent/token"));
	put_file("token", "t");
	assert_int_equal(kube_client_in_cluster(&c, dir, "test", &e), 0);
	assert_string_equal(kube_client_server(c), "https://[fd00::1]:443");
	kube_client_free(c);
}

static int begin(void **state)
{
	return mkdtemp(dir) ? 0 : -1;
}

static int end(void **state)
{
	put_file("token", "");
	unlink(file);
	put_file("config", "");
	unlink(file);
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_list_and_watch), cmocka_unit_test(test_left_out), cmocka_unit_test(test_kubeconfig),
					    cmocka_unit_test(test_in_cluster) };
	return cmocka_run_group_tests(tests, begin, end);
}
