/* SPDX-License-Identifier: Apache-2.0 */
/* What holds for connections holds under TLS too: deadlines, clients that leave, several requests in one record, large bodies
 * and answers, files; and what a web configuration adds to it. A client of GnuTLS over real sockets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/testwait.h"
#include "httpd/testcert.h"
#include "httpd/testclient.h"

static char folder[64];
static struct testcert ca, server_cert, client_cert, stranger;
static atomic_int waiting, canceled;

/* ---- the server ---- */

static void quick(struct httpd_request *rq, void *arg)
{
	(void)arg;
	httpd_text(rq, 200, "quick");
}

static void length(struct httpd_request *rq, void *arg)
{
	(void)arg;
	httpd_text(rq, 200, "%zu", httpd_body(rq).len);
}

static void wait_for_cancel(struct httpd_request *rq, void *arg)
{
	(void)arg;
	atomic_fetch_add(&waiting, 1);
	int steps = httpd_param(rq, "short").ptr ? 60 : 2000;
	for (int i = 0; i < steps && !atomic_load(httpd_canceled(rq)); i++)
		clock_sleep_ms(5);
	atomic_fetch_add(&canceled, atomic_load(httpd_canceled(rq)));
	httpd_text(rq, 200, "waited");
}

#define LARGE ((size_t)3 << 20)

static void large(struct httpd_request *rq, void *arg)
{
	(void)arg;
	struct buf *b = httpd_out(rq);
	uint32_t x = 1;
	for (size_t i = 0; i < LARGE; i++)
		buf_putc(b, (char)('a' + (x = x * 1664525 + 1013904223) / (UINT32_MAX / 26 + 1)));
}

static char file_path[128];

static void send_file(struct httpd_request *rq, void *arg)
{
	(void)arg;
	int fd = open(file_path, O_RDONLY | O_CLOEXEC);
	httpd_send_file(rq, fd, (uint64_t)lseek(fd, 0, SEEK_END));
}

static const struct httpd_route routes[] = {
	{ "/quick", HTTPD_GET, HTTPD_RIGHT_READ, quick, HTTPD_QUICK }, { "/open", HTTPD_GET, HTTPD_RIGHT_NONE_NEEDED, quick, HTTPD_QUICK },
	{ "/length", HTTPD_POST, HTTPD_RIGHT_READ, length, HTTPD_RAW }, { "/wait", HTTPD_GET, HTTPD_RIGHT_READ, wait_for_cancel },
	{ "/large", HTTPD_GET, HTTPD_RIGHT_READ, large }, { "/file", HTTPD_GET, HTTPD_RIGHT_READ, send_file },
};

static void put_file(const char *name, const char *text)
{
	char path[128];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static struct httpd *start(struct httpd_options o, const char *web)
{
	static const char *const listen[] = { "127.0.0.1:0" };
	struct httpd *h = NULL;
	struct err e;
	char path[128];
	put_file("web.yml", web);
	snprintf(path, sizeof path, "%s/web.yml", folder);
	o.listen = listen;
	o.n_listen = 1;
	o.routes = routes;
	o.n_routes = ARRAY_LEN(routes);
	o.web_config_file = path;
	if (httpd_start(&h, &o, &e))
		fail_msg("%s", e.msg);
	return h;
}

#define TLS "tls_server_config: {cert_file: server.crt, key_file: server.key"

static int setup(void **state)
{
	(void)state;
	snprintf(folder, sizeof folder, "/tmp/tls_test.XXXXXX");
	assert_non_null(mkdtemp(folder));
	ca = testcert_new((struct testcert_how){ .name = "authority" });
	stranger = testcert_new((struct testcert_how){ .name = "client" });
	server_cert = testcert_new((struct testcert_how){ .name = "localhost", .signer = &ca });
	client_cert = testcert_new((struct testcert_how){ .name = "client", .signer = &ca });
	put_file("server.crt", server_cert.cert_pem);
	put_file("server.key", server_cert.key_pem);
	put_file("ca.crt", ca.cert_pem);
	snprintf(file_path, sizeof file_path, "%s/file", folder);
	struct buf b = { 0 };
	for (size_t i = 0; b.len < LARGE; i++)
		buf_printf(&b, "%zu,", i);
	put_file("file", b.ptr);
	buf_free(&b);
	return 0;
}

static int teardown(void **state)
{
	static const char *const names[] = { "server.crt", "server.key", "ca.crt", "web.yml", "file" };
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		char path[128];
		snprintf(path, sizeof path, "%s/%s", folder, names[i]);
		unlink(path);
	}
	rmdir(folder);
	testcert_free(&ca);
	testcert_free(&stranger);
	testcert_free(&server_cert);
	testcert_free(&client_cert);
	metrics_free();
	return 0;
}

/* ---- the client ---- */

struct client {
	int fd;
	gnutls_session_t tls;
	gnutls_certificate_credentials_t credentials;
};

/* cert: NULL = none. False: no handshake. */
static bool client_open(struct client *c, const char *address, const struct testcert *cert)
{
	c->fd = test_connect(address);
	assert_true(c->fd >= 0);
	assert_int_equal(gnutls_certificate_allocate_credentials(&c->credentials), 0);
	if (cert)
		assert_int_equal(gnutls_certificate_set_x509_key(c->credentials, (gnutls_x509_crt_t *)(uintptr_t)&cert->crt, 1, cert->key), 0);
	/* Also where the server's list of authorities has not this one's. */
	assert_int_equal(gnutls_init(&c->tls, GNUTLS_CLIENT | GNUTLS_FORCE_CLIENT_CERT), 0);
	gnutls_set_default_priority(c->tls);
	gnutls_credentials_set(c->tls, GNUTLS_CRD_CERTIFICATE, c->credentials);
	gnutls_transport_set_int(c->tls, c->fd);
	int rc;
	while ((rc = gnutls_handshake(c->tls)) < 0 && !gnutls_error_is_fatal(rc))
		;
	return rc == 0;
}

static void client_send(struct client *c, const char *p, size_t n)
{
	while (n) {
		ssize_t k = gnutls_record_send(c->tls, p, n);
		assert_true(k > 0);
		p += k;
		n -= (size_t)k;
	}
}

static void client_say(struct client *c, const char *text)
{
	client_send(c, text, strlen(text));
}

static void client_close(struct client *c)
{
	gnutls_deinit(c->tls);
	gnutls_certificate_free_credentials(c->credentials);
	close(c->fd);
}

/* Until the server ends the stream. */
static void client_receive(struct client *c, struct buf *ret)
{
	static char some[65536];
	ssize_t n;
	while ((n = gnutls_record_recv(c->tls, some, sizeof some)) > 0 || n == GNUTLS_E_AGAIN || n == GNUTLS_E_INTERRUPTED)
		if (n > 0)
			buf_put(ret, some, (size_t)n);
	buf_put(ret, "", 0);
}

/* The status of a GET; the body into *ret, may be NULL. */
static int get(const char *address, const char *path, const char *headers, const struct testcert *cert, struct buf *ret)
{
	struct client c;
	struct buf all = { 0 }, head = { 0 };
	assert_true(client_open(&c, address, cert));
	buf_printf(&head, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s\r\n", path, headers);
	client_send(&c, head.ptr, head.len);
	client_receive(&c, &all);
	client_close(&c);
	int status = strncmp(all.ptr, "HTTP/1.1 ", 9) == 0 ? (int)strtol(all.ptr + 9, NULL, 10) : 0;
	const char *body = strstr(all.ptr, "\r\n\r\n");
	if (ret && body)
		buf_put(ret, body + 4, all.len - (size_t)(body + 4 - all.ptr));
	buf_free(&all);
	buf_free(&head);
	return status;
}

/* ---- tests ---- */

static void wait_until(atomic_int *what, int n)
{
	assert_true(TEST_WAIT(atomic_load(what) >= n));
}

/* Milliseconds until the server ends this connection. */
static int64_t until_closed(int fd, const char *bytes, size_t n)
{
	int64_t begin = clock_mono_ms();
	char c[4096];
	for (size_t i = 0; i < n && i < 200; i++) {
		if (!test_send(fd, bytes + i, 1) || recv(fd, c, sizeof c, MSG_DONTWAIT) == 0)
			break;
		clock_sleep_ms(20);
	}
	while (recv(fd, c, sizeof c, 0) > 0)
		;
	close(fd);
	return clock_mono_ms() - begin;
}

/* Who never shakes hands, or byte by byte, has the time that headers have; it counts for the slots, too. */
static void test_handshakes_have_a_deadline(void **state)
{
	(void)state;
	struct httpd *h = start((struct httpd_options){ .headers_ms = 300, .max_connections = 8 }, TLS "}");
	const char *at = httpd_address(h, 0);
	assert_true(httpd_is_tls(h));
	assert_in_range(until_closed(test_connect(at), NULL, 0), 250, 5000);
	static const char hello[200] = "\x16\x03\x01\x01\x00\x01\x00\x00\xfc\x03\x03"; /* the beginning of one */
	assert_in_range(until_closed(test_connect(at), hello, sizeof hello), 250, 5000);
	int many[20];
	for (size_t i = 0; i < ARRAY_LEN(many); i++)
		many[i] = test_connect(at);
	assert_int_equal(get(at, "/quick", "", NULL, NULL), 200); /* one of those made room */
	for (size_t i = 0; i < ARRAY_LEN(many); i++)
		close(many[i]);
	httpd_stop(h, 0);
	/* Junk ends at once. */
	h = start((struct httpd_options){ 0 }, TLS "}");
	int fd = test_connect(httpd_address(h, 0));
	test_send(fd, "\x01\x02\x03\x04\x05junk", 9);
	assert_in_range(until_closed(fd, NULL, 0), 0, 5000);
	httpd_stop(h, 0);
}

/* With a notice of TLS, of TCP, or of neither. */
static void test_clients_leave(void **state)
{
	(void)state;
	struct httpd *h = start((struct httpd_options){ 0 }, TLS "}");
	for (int how = 0; how < 3; how++) {
		struct client c;
		int before = atomic_load(&waiting), left = atomic_load(&canceled);
		assert_true(client_open(&c, httpd_address(h, 0), NULL));
		client_say(&c, "GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
		wait_until(&waiting, before + 1);
		if (how == 0)
			gnutls_bye(c.tls, GNUTLS_SHUT_WR);
		if (how < 2)
			shutdown(c.fd, SHUT_WR);
		else
			shutdown(c.fd, SHUT_RDWR);
		wait_until(&canceled, left + 1);
		client_close(&c);
	}
	httpd_stop(h, 0);
}

static int64_t cpu_ms(void)
{
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	return (int64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000 + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1000;
}

/* Three requests in one record: the first waits for a worker's answer, and the others for it, without anybody turning in circles. */
static void test_requests_in_one_record(void **state)
{
	(void)state;
	struct httpd *h = start((struct httpd_options){ 0 }, TLS "}");
	struct client c;
	struct buf all = { 0 }, head = { 0 };
	assert_true(client_open(&c, httpd_address(h, 0), NULL));
	buf_puts(&head, "GET /wait?short=1 HTTP/1.1\r\nHost: localhost\r\n\r\n");
	for (int i = 0; i < 60; i++)
		buf_printf(&head, "GET /quick?%0200d HTTP/1.1\r\nHost: localhost\r\n\r\n", i);
	buf_puts(&head, "GET /quick HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
	int64_t cpu = cpu_ms();
	client_send(&c, head.ptr, head.len); /* 16 KB: one record */
	client_receive(&c, &all);
	assert_in_range(cpu_ms() - cpu, 0, 200); /* of the 300 that it waits */
	int answers = 0;
	for (const char *p = all.ptr; (p = strstr(p, "HTTP/1.1 200")); p++)
		answers++;
	assert_int_equal(answers, 62);
	client_close(&c);
	buf_free(&all);
	buf_free(&head);
	httpd_stop(h, 0);
}

static void test_large(void **state)
{
	(void)state;
	struct httpd *h = start((struct httpd_options){ .max_body = LARGE }, TLS "}");
	const char *at = httpd_address(h, 0);
	struct buf plain = { 0 }, packed = { 0 }, file = { 0 }, sent = { 0 }, head = { 0 }, all = { 0 };
	struct err e;
	assert_int_equal(get(at, "/large", "", NULL, &plain), 200);
	assert_int_equal(plain.len, LARGE);
	assert_int_equal(get(at, "/large", "Accept-Encoding: gzip\r\n", NULL, &packed), 200);
	assert_in_range(packed.len, LARGE / 4, LARGE * 3 / 4);
	assert_int_equal(get(at, "/file", "", NULL, &sent), 200);
	assert_int_equal(buf_read_file(&file, file_path, &e), 0);
	assert_true(view_eq(buf_view(&file), buf_view(&sent)));
	struct client c;
	assert_true(client_open(&c, at, NULL));
	buf_printf(&head, "POST /length HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n", plain.len);
	client_send(&c, head.ptr, head.len);
	client_send(&c, plain.ptr, plain.len);
	client_receive(&c, &all);
	assert_non_null(strstr(all.ptr, "\r\n\r\n3145728\n"));
	client_close(&c);
	buf_free(&plain);
	buf_free(&packed);
	buf_free(&file);
	buf_free(&sent);
	buf_free(&head);
	buf_free(&all);
	httpd_stop(h, 0);
}

/* Who takes nothing of a large answer loses it when another needs the memory. */
static void test_slow_readers(void **state)
{
	(void)state;
	struct httpd *h = start((struct httpd_options){ .max_answers = LARGE + LARGE / 2 }, TLS "}");
	const char *at = httpd_address(h, 0);
	struct client slow;
	int status = 0;
	assert_true(client_open(&slow, at, NULL));
	int small = 4096;
	setsockopt(slow.fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
	client_say(&slow, "GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n");
	for (int i = 0; i < 40 && status != 200; i++) {
		clock_sleep_ms(50);
		status = get(at, "/large", "", NULL, NULL);
	}
	assert_int_equal(status, 200);
	client_close(&slow);
	httpd_stop(h, 0);
}

/* Wrong ones get a handshake and no answer but what needs no login. */
static void test_client_certificates(void **state)
{
	(void)state;
	struct testcert expired = testcert_new((struct testcert_how){ .name = "client", .signer = &ca, .expired = true }),
			for_servers = testcert_new((struct testcert_how){ .name = "client", .signer = &ca, .for_servers = true }),
			other = testcert_new((struct testcert_how){ .name = "other", .signer = &ca });
	const struct { const struct testcert *cert; int status; } cases[] = {
		{ NULL, 401 }, { &client_cert, 200 }, { &stranger, 401 }, { &expired, 401 }, { &for_servers, 401 }, { &other, 401 },
	};
	struct httpd *h = start((struct httpd_options){ 0 }, TLS ", client_auth_type: RequireAndVerifyClientCert, client_ca_file: ca.crt, "
				"client_allowed_sans: [nobody, client]}");
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_int_equal(get(httpd_address(h, 0), "/quick", "", cases[i].cert, NULL), cases[i].status);
		assert_int_equal(get(httpd_address(h, 0), "/none", "", cases[i].cert, NULL), cases[i].status == 200 ? 404 : 401);
		assert_int_equal(get(httpd_address(h, 0), "/open", "", cases[i].cert, NULL), 200);
	}
	httpd_stop(h, 0);
	/* Names of other kinds: an address, and none of a kind that begins alike. */
	static const struct { const char *name; int status; } names[] = { { "127.0.0.1", 200 }, { "127.0.0", 401 }, { "clien", 401 } };
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		char web[256];
		snprintf(web, sizeof web, TLS ", client_auth_type: RequireAnyClientCert, client_allowed_sans: ['%s']}", names[i].name);
		h = start((struct httpd_options){ 0 }, web);
		assert_int_equal(get(httpd_address(h, 0), "/quick", "", &client_cert, NULL), names[i].status);
		httpd_stop(h, 0);
	}
	testcert_free(&expired);
	testcert_free(&for_servers);
	testcert_free(&other);
}

/* Passwords give way to certificates while a request is on its way: it is not let in by neither. */
static void test_policies_are_exchanged(void **state)
{
	(void)state;
	struct httpd *h = start((struct httpd_options){ 0 }, TLS "}\nbasic_auth_users: {alice: "
				"$2b$04$VgC47UCEbpmNfGzRI4xRVO7proVowVLvrK.qp1UVwStVkJV2An7jy}");
	const char *at = httpd_address(h, 0);
	struct client c;
	struct buf all = { 0 };
	assert_int_equal(get(at, "/quick", "", &client_cert, NULL), 401);
	assert_true(client_open(&c, at, NULL));
	client_say(&c, "GET /quick HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
	put_file("web.yml", TLS ", client_auth_type: RequireAndVerifyClientCert, client_ca_file: ca.crt}");
	for (int i = 0; i < 400 && get(at, "/quick", "", &client_cert, NULL) != 200; i++)
		clock_sleep_ms(25);
	client_say(&c, "\r\n");
	client_receive(&c, &all);
	assert_int_equal(strncmp(all.ptr, "HTTP/1.1 401", 12), 0);
	client_close(&c);
	buf_free(&all);
	httpd_stop(h, 0);
}

static void test_plain_http(void **state)
{
	(void)state;
	struct httpd *h = start((struct httpd_options){ 0 }, TLS "}");
	struct answer a = test_get(httpd_address(h, 0), "/quick");
	assert_int_equal(strncmp(a.all.ptr, "HTTP/1.0 400", 12), 0);
	assert_string_equal(a.body, "Client sent an HTTP request to an HTTPS server.\n");
	answer_free(&a);
	httpd_stop(h, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_handshakes_have_a_deadline), cmocka_unit_test(test_clients_leave), cmocka_unit_test(test_requests_in_one_record),
		cmocka_unit_test(test_large), cmocka_unit_test(test_slow_readers), cmocka_unit_test(test_client_certificates),
		cmocka_unit_test(test_policies_are_exchanged), cmocka_unit_test(test_plain_http),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
