/* SPDX-License-Identifier: Apache-2.0 */
/* The server over real sockets on loopback. */
#include <setjmp.h>
#include <stdarg.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <zlib.h>
#include <zstd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/testwait.h"
#include "base/thread.h"
#include "httpd/internal.h"
#include "httpd/testclient.h"

static struct httpd *server;
static const char *address;
static atomic_int waiting, ended, canceled;
static atomic_bool release_waiters;
static struct httpd_asset asset;
static char asset_text[5000];

static void echo(struct httpd_request *rq, void *arg)
{
	struct buf *b = httpd_out(rq);
	size_t n;
	const struct httpd_param *p = httpd_params(rq, &n);
	(void)arg;
	for (size_t i = 0; i < n; i++)
		buf_printf(b, "[%.*s=%.*s]", VIEW_ARG(p[i].name), VIEW_ARG(p[i].value));
}

static void segment(struct httpd_request *rq, void *arg)
{
	(void)arg;
	struct view name = httpd_segment(rq, "name"), rest = httpd_segment(rq, "*");
	buf_printf(httpd_out(rq), "%s:%.*s", name.ptr ? "name" : "rest", VIEW_ARG(name.ptr ? name : rest));
}

static void large(struct httpd_request *rq, void *arg)
{
	(void)arg;
	httpd_type(rq, "application/json");
	for (int i = 0; i < 20000; i++)
		buf_printf(httpd_out(rq), "line %d\n", i % 100);
}

static atomic_size_t most_in_memory; /* the largest size of the buffer of an answer that is written in pieces, bytes */

/* ?pieces=: of 100 KB each; ?random=: of bytes that do not get smaller; ?fail=: an error at the end; ?max=: bytes it may have;
 * ?once=: whole at the end only; ?file=: a gzip file of it. */
static void in_pieces(struct httpd_request *rq, void *arg)
{
	size_t pieces = strtoull(httpd_param(rq, "pieces").ptr, NULL, 10);
	bool random = httpd_param(rq, "random").ptr;
	uint64_t x = 1;
	struct err e;
	(void)arg;
	if (httpd_param(rq, "max").ptr)
		httpd_out(rq)->max = strtoull(httpd_param(rq, "max").ptr, NULL, 10);
	httpd_type(rq, "application/json");
	if (httpd_param(rq, "file").ptr)
		httpd_out_gzip_file(rq);
	for (size_t i = 0; i < pieces * 12500; i++) {
		x = x * UINT64_C(6364136223846793005) + 1442695040888963407;
		if (random)
			buf_put(httpd_out(rq), &x, sizeof x);
		else
			buf_printf(httpd_out(rq), "%07u,", (unsigned)(x >> 54));
		if (i % 12500 == 12499 && !httpd_param(rq, "once").ptr) {
			if (httpd_out_stays(rq, &e)) {
				httpd_text(rq, err_info(e.code)->http, "%s", e.msg);
				return;
			}
			atomic_store(&most_in_memory, MAX(atomic_load(&most_in_memory), httpd_out(rq)->len));
		}
	}
	if (httpd_param(rq, "fail").ptr)
		httpd_text(rq, 500, "no %02000d", 0);
}

static void wait_for_cancel(struct httpd_request *rq, void *arg)
{
	(void)arg;
	atomic_fetch_add(&waiting, 1);
	for (int i = 0; i < 2000 && !atomic_load(httpd_canceled(rq)) && !atomic_load(&release_waiters); i++)
		clock_sleep_ms(5);
	if (atomic_load(httpd_canceled(rq)))
		atomic_fetch_add(&canceled, 1);
	atomic_fetch_add(&ended, 1);
	httpd_text(rq, 200, "waited");
}

static void quick(struct httpd_request *rq, void *arg)
{
	(void)arg;
	httpd_text(rq, 200, "quick");
}

static void refused(struct httpd_request *rq, void *arg)
{
	(void)arg;
	httpd_set_header(rq, "X-Evil", "a\r\nX-Split: yes");
	httpd_text(rq, 200, "handler");
}

static void send_asset(struct httpd_request *rq, void *arg)
{
	(void)arg;
	httpd_send_asset(rq, &asset);
}

#define FILE_BYTES 3000001
static char file_path[] = "/tmp/httpd_test.XXXXXX";

/* ?size=: what is said of it. */
static void send_file(struct httpd_request *rq, void *arg)
{
	(void)arg;
	struct view size = httpd_param(rq, "size");
	httpd_type(rq, "application/octet-stream");
	httpd_send_file(rq, open(file_path, O_RDONLY | O_CLOEXEC), size.ptr ? strtoull(size.ptr, NULL, 10) : FILE_BYTES);
}

static bool before(struct httpd_request *rq, void *arg)
{
	(void)arg;
	if (!httpd_param(rq, "stop").ptr)
		return true;
	httpd_text(rq, 418, "stopped before");
	return false;
}

static const struct httpd_route routes[] = {
	{ "/echo", HTTPD_GET | HTTPD_POST, HTTPD_RIGHT_READ, echo },
	{ "/name/{name}/values", HTTPD_GET, HTTPD_RIGHT_READ, segment },
	{ "/large", HTTPD_GET, HTTPD_RIGHT_READ, large },
	{ "/pieces", HTTPD_GET, HTTPD_RIGHT_READ, in_pieces },
	{ "/wait", HTTPD_GET, HTTPD_RIGHT_READ, wait_for_cancel },
	{ "/quick", HTTPD_GET, HTTPD_RIGHT_READ, quick, HTTPD_QUICK },
	{ "/header", HTTPD_GET, HTTPD_RIGHT_READ, refused },
	{ "/asset", HTTPD_GET, HTTPD_RIGHT_READ, send_asset, HTTPD_PAGE | HTTPD_QUICK },
	{ "/api/{*}", HTTPD_ANY, HTTPD_RIGHT_READ, segment },
	{ "/file", HTTPD_GET, HTTPD_RIGHT_READ, send_file },
};

static struct httpd *start(const char *listen_on, const char *prefix, struct err *e)
{
	struct httpd *h = NULL;
	const char *const listen[] = { listen_on };
	struct httpd_options o = { .listen = listen, .n_listen = 1, .routes = routes, .n_routes = ARRAY_LEN(routes),
				   .prefix = prefix, .cors_origin = "https://(a|b)\\.example", .max_body = 1000,
				   .before = before, .allow_hint = "--allow", .max_workers = 4 };
	err_clear(e);
	return httpd_start(&h, &o, e) ? NULL : h;
}

static int setup(void **state)
{
	(void)state;
	struct err e;
	for (size_t i = 0; i < sizeof asset_text - 1; i++)
		asset_text[i] = (char)('a' + i % 7);
	httpd_asset_init(&asset, "text/css", view_of(asset_text), false);
	server = start("127.0.0.1:0", "", &e);
	address = server ? httpd_address(server, 0) : NULL;
	return server ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	httpd_stop(server, 100);
	httpd_asset_release(&asset);
	metrics_free();
	return 0;
}

static void check_get(const char *path, int status, const char *body)
{
	struct answer a = test_get(address, path);
	assert_int_equal(a.status, status);
	assert_string_equal(a.body, body);
	answer_free(&a);
}

static void check_form(const char *type, const char *body, int status, const char *want)
{
	struct buf head = { 0 };
	buf_printf(&head, "POST /echo?late=1 HTTP/1.1\r\nContent-Type: %s", type);
	struct answer a = test_ask(address, head.ptr, body);
	if (a.status != status || strcmp(a.body, want) != 0)
		print_message("%s: %s\n", type, body);
	assert_string_equal(a.body, want);
	assert_int_equal(a.status, status);
	answer_free(&a);
	buf_free(&head);
}

#define PART(name, value) "Content-Disposition: form-data; name=\"" name "\"\r\n\r\n" value "\r\n"

static void test_multipart(void)
{
	const char *form = "multipart/form-data; boundary=xyz", *bad = "the multipart form ends before its last boundary\n";
	check_form(form, "--xyz\r\n" PART("query", "sum(x)+y%20&a\r\n--xy") "--xyz\r\n" PART("match[]", "") "--xyz--\r\n", 200,
		   "[late=1][query=sum(x)+y%20&a\r\n--xy][match[]=]");
	check_form("Multipart/Form-Data; charset=x; Boundary=\"x y\"", "before\r\n--x y\r\ncontent-type: text/plain\r\n"
		   "CONTENT-DISPOSITION: form-data;name=q\r\n\r\n1\r\n--x y--after", 200, "[late=1][q=1]");
	/* files, parts without a name or without headers are for nobody */
	check_form(form, "--xyz\r\nContent-Disposition: form-data; name=\"f\"; filename=\"n\"\r\n\r\n1\r\n--xyz\r\n\r\n2\r\n--xyz\r\n"
		   PART("q", "3") "--xyz--", 200, "[late=1][q=3]");
	check_form(form, "--xyz--", 200, "[late=1]");
	check_form("multipart/form-data", "--xyz--", 400, "the Content-Type of the multipart form names no boundary\n");
	check_form("multipart/form-data; boundary=\"x", "--x--", 400, "the Content-Type of the multipart form names no boundary\n");
	static const char *const cut[] = { "x", "--xyz", "--xyz\r", "--xyz\r\n", "--xyz\r\n\r\n", "--xyz\r\n" PART("q", "3"),
					   "--xyz\r\n" PART("q", "3") "--xyz", "--xyz\r\n" PART("q", "3") "--xyz-" };
	for (size_t i = 0; i < ARRAY_LEN(cut); i++)
		check_form(form, cut[i], 400, bad);
}

static void test_params(void **state)
{
	(void)state;
	check_get("/echo?a=1&b=x%20y+z&a=2&empty=&bare", 200, "[a=1][b=x y z][a=2][empty=][bare=]");
	check_get("/echo?q=%7Ba%3D%22b%22%7D&&", 200, "[q={a=\"b\"}]");
	check_get("/echo?q=%zz", 400, "bad percent escape in parameter \"q=%zz\"\n");
	struct answer a = test_post_form(address, "/echo?late=1", "query=sum(x)%2By&match%5B%5D=up");
	assert_string_equal(a.body, "[query=sum(x)+y][match[]=up][late=1]");
	answer_free(&a);
	test_multipart();
	a = test_ask(address, "POST /echo HTTP/1.1\r\nContent-Type: text/plain", "a=1");
	assert_string_equal(a.body, "");
	answer_free(&a);
}

static void test_routes(void **state)
{
	(void)state;
	check_get("/name/a%2Fb%20c/values", 200, "name:a/b c");
	check_get("/name//values", 404, "no such page: /name//values\n");
	check_get("/name/x/values/", 404, "no such page: /name/x/values/\n");
	check_get("/api/v1/x%20y", 200, "rest:v1/x y");
	check_get("/name/%zz/values", 400, "bad percent escape in the path\n");
	check_get("/echo?stop", 418, "stopped before\n");
	struct answer a = test_ask(address, "DELETE /echo HTTP/1.1", NULL);
	assert_int_equal(a.status, 405);
	assert_string_equal(test_header(&a, "Allow"), "GET, HEAD, POST, OPTIONS");
	answer_free(&a);
	a = test_ask(address, "BREW /echo HTTP/1.1", NULL);
	assert_int_equal(a.status, 405);
	answer_free(&a);
	a = test_ask(address, "OPTIONS /large HTTP/1.1", NULL);
	assert_int_equal(a.status, 204);
	answer_free(&a);
	a = test_ask(address, "HEAD /quick HTTP/1.1", NULL);
	assert_int_equal(a.status, 200);
	assert_string_equal(test_header(&a, "Content-Length"), "6");
	assert_int_equal(a.n_body, 0);
	answer_free(&a);
}

static void test_headers(void **state)
{
	(void)state;
	struct answer a = test_get(address, "/header");
	assert_string_equal(test_header(&a, "X-Evil"), "aX-Split: yes");
	assert_null(test_header(&a, "X-Split"));
	assert_string_equal(test_header(&a, "X-Content-Type-Options"), "nosniff");
	assert_string_equal(test_header(&a, "Content-Security-Policy"), "default-src 'none'; frame-ancestors 'none'");
	assert_null(test_header(&a, "Access-Control-Allow-Origin"));
	answer_free(&a);
	a = test_ask(address, "GET /quick HTTP/1.1\r\nOrigin: https://b.example", NULL);
	assert_string_equal(test_header(&a, "Access-Control-Allow-Origin"), "https://b.example");
	answer_free(&a);
	a = test_ask(address, "GET /quick HTTP/1.1\r\nOrigin: https://b.example.evil", NULL);
	assert_null(test_header(&a, "Access-Control-Allow-Origin"));
	answer_free(&a);
}

static void test_compressed(void **state)
{
	(void)state;
	struct answer plain = test_get(address, "/large");
	assert_null(test_header(&plain, "Content-Encoding"));
	assert_int_equal(plain.n_body, 10 * 20000 / 100 * 7 + 90 * 20000 / 100 * 8);
	struct answer a = test_ask(address, "GET /large HTTP/1.1\r\nAccept-Encoding: br, gzip;q=0.5", NULL);
	assert_string_equal(test_header(&a, "Content-Encoding"), "gzip");
	assert_true(a.n_body < plain.n_body / 10);
	z_stream z = { .next_in = (Bytef *)(uintptr_t)a.body, .avail_in = (uInt)a.n_body };
	char *out = malloc(plain.n_body + 1);
	z.next_out = (Bytef *)out;
	z.avail_out = (uInt)plain.n_body + 1;
	assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
	assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
	inflateEnd(&z);
	assert_int_equal(z.total_out, plain.n_body);
	assert_memory_equal(out, plain.body, plain.n_body);
	free(out);
	answer_free(&a);
	a = test_ask(address, "GET /large HTTP/1.1\r\nAccept-Encoding: gzip, deflate, br, zstd", NULL);
	assert_string_equal(test_header(&a, "Content-Encoding"), "zstd");
	assert_string_equal(test_header(&a, "Vary"), "Accept-Encoding");
	out = malloc(plain.n_body + 1);
	assert_int_equal(ZSTD_decompress(out, plain.n_body + 1, a.body, a.n_body), plain.n_body);
	assert_memory_equal(out, plain.body, plain.n_body);
	free(out);
	answer_free(&a);
	a = test_ask(address, "GET /large HTTP/1.1\r\nAccept-Encoding: zstd;q=0, gzip", NULL);
	assert_string_equal(test_header(&a, "Content-Encoding"), "gzip");
	answer_free(&a);
	a = test_ask(address, "GET /large HTTP/1.1\r\nAccept-Encoding: gzip;q=0.0, identity", NULL);
	assert_null(test_header(&a, "Content-Encoding"));
	answer_free(&a);
	answer_free(&plain);
}

enum packed { WRONG, AT_THE_END, BESIDE };

/* Asks for the answer, in zstd, and unpacks it. BESIDE: it was compressed while it was written, then the frame does not say how long it is. */
static enum packed ask_packed(const char *path, const struct answer *plain)
{
	char request[200];
	snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nAccept-Encoding: gzip, zstd", path);
	struct answer a = test_ask(address, request, NULL);
	size_t all = plain->n_body;
	char *out = malloc(all + 1);
	bool same = a.status == plain->status && strstr(a.all.ptr, "Content-Encoding: zstd\r\n") &&
		    ZSTD_findFrameCompressedSize(a.body, a.n_body) == a.n_body && /* one frame: not all clients read on behind it */
		    ZSTD_decompress(out, all + 1, a.body, a.n_body) == all && memcmp(out, plain->body, all) == 0;
	bool beside = same && ZSTD_getFrameContentSize(a.body, a.n_body) == ZSTD_CONTENTSIZE_UNKNOWN;
	free(out);
	answer_free(&a);
	return same ? beside ? BESIDE : AT_THE_END : WRONG;
}

static void *ask_often(void *plain)
{
	bool same = true;
	for (int i = 0; i < 4; i++)
		same = same && ask_packed("/pieces?pieces=30", plain) != WRONG;
	return same ? plain : NULL;
}

static void test_compressed_beside(void **state)
{
	static const char *const others[] = { "/pieces?pieces=9", "/pieces?pieces=30&fail=1", "/pieces?pieces=30&once=1", "/large" };
	static const char leaves[] = "GET /pieces?pieces=50 HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: zstd\r\n\r\n";
	enum packed how = sysconf(_SC_NPROCESSORS_ONLN) > 1 ? BESIDE : AT_THE_END;
	pthread_t threads[3];
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		struct answer small = test_get(address, others[i]);
		assert_int_equal(ask_packed(others[i], &small), AT_THE_END);
		answer_free(&small);
	}
	struct answer plain = test_get(address, "/pieces?pieces=30");
	assert_int_equal(plain.n_body, 3000000);
	assert_int_equal(ask_packed("/pieces?pieces=30", &plain), how);
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		assert_int_equal(thread_start(&threads[i], "ask", ask_often, &plain, NULL), 0);
	int fd = test_connect(address);
	assert_true(test_send(fd, leaves, sizeof leaves - 1));
	clock_sleep_ms(20);
	close(fd);
	for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
		void *same;
		pthread_join(threads[i], &same);
		assert_non_null(same);
	}
	struct answer a = test_ask(address, "HEAD /pieces?pieces=30 HTTP/1.1\r\nAccept-Encoding: zstd", NULL);
	assert_string_equal(test_header(&a, "Content-Encoding"), "zstd");
	assert_int_equal(a.n_body, 0);
	answer_free(&a);
	a = test_ask(address, "GET /pieces?pieces=30&max=2900000 HTTP/1.1\r\nAccept-Encoding: zstd", NULL); /* each piece is less */
	assert_int_equal(a.status, 422);
	answer_free(&a);
	a = test_get(address, "/pieces?pieces=20&random=1"); /* it is begun before it is known that it does not get smaller */
	assert_int_equal(a.n_body, 2000000);
	assert_int_equal(ask_packed("/pieces?pieces=20&random=1", &a), how);
	answer_free(&a);
	while (httpd_in_flight(server)) /* who left */
		clock_sleep_ms(5);
	assert_int_equal(ask_packed("/pieces?pieces=30", &plain), how); /* nobody has kept it */
	answer_free(&plain);
}

static bool gunzips_to(const struct answer *a, const struct answer *plain)
{
	char *out = malloc(plain->n_body + 1);
	z_stream z = { .next_in = (Bytef *)(uintptr_t)a->body, .avail_in = (uInt)a->n_body, .next_out = (Bytef *)out, .avail_out = (uInt)plain->n_body + 1 };
	assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
	bool same = inflate(&z, Z_FINISH) == Z_STREAM_END && !z.avail_in && z.total_out == plain->n_body && memcmp(out, plain->body, plain->n_body) == 0;
	inflateEnd(&z);
	free(out);
	return same;
}

/* The open files without a name in this folder. */
static unsigned n_spools(void)
{
	unsigned n = 0;
	char path[64], target[300];
	for (int fd = 0; fd < 256; fd++) {
		snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
		ssize_t k = readlink(path, target, sizeof target - 1);
		target[MAX(k, (ssize_t)0)] = 0;
		n += k > 0 && strstr(target, "(deleted)") && target[0] == '/' && !strstr(target, "/memfd:");
	}
	return n;
}

#define GZIP_FROM(path) "GET " path " HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n\r\n"

/* The client reads nothing, so the file is there until the client leaves. */
static void wait_for_file(const struct httpd *h, const char *request)
{
	int fd = test_connect(httpd_address(h, 0));
	assert_true(test_send(fd, request, strlen(request)));
	for (int i = 0; i < 4000 && !n_spools(); i++)
		clock_sleep_ms(5);
	assert_int_equal(n_spools(), 1);
	close(fd);
	for (int i = 0; i < 4000 && (httpd_in_flight(h) || n_spools()); i++)
		clock_sleep_ms(5);
	assert_int_equal(n_spools(), 0);
}

/* An answer that came in one piece is compressed into a file if it is large, also where there is memory for it. */
static void test_one_piece_in_file(void **state)
{
	static const char *const listen[] = { "127.0.0.1:0" };
	struct httpd_options o = { .listen = listen, .n_listen = 1, .routes = routes, .n_routes = ARRAY_LEN(routes), .spool_dir = ".", .max_answers = 40000000 };
	struct httpd *h = NULL;
	struct err e;
	(void)state;
	assert_int_equal(httpd_start(&h, &o, &e), 0);
	wait_for_file(h, GZIP_FROM("/pieces?pieces=210&random=1&once=1"));
	httpd_stop(h, 0);
}

/* A large answer is a file while it is made and sent, in each coding, with the same bytes; nothing is left of it. */
static void test_answers_in_files(void **state)
{
	static const char *const listen[] = { "127.0.0.1:0" };
	static const char large[] = "/pieces?pieces=120", all_at_once[] = "/pieces?pieces=200&once=1";
	struct httpd_options o = { .listen = listen, .n_listen = 1, .routes = routes, .n_routes = ARRAY_LEN(routes), .max_workers = 4, .spool_dir = ".",
				   .max_answers = 2000000 };
	struct httpd *h = NULL;
	struct err e;
	(void)state;
	assert_int_equal(httpd_start(&h, &o, &e), 0);
	const char *before = address;
	struct answer plain[] = { test_get(before, large), test_get(before, all_at_once) };
	assert_int_equal(plain[0].n_body, 12000000);
	address = httpd_address(h, 0);
	atomic_store(&most_in_memory, 0);
	for (size_t i = 0; i < 2; i++) {
		const char *path = i ? all_at_once : large;
		char request[100];
		struct answer a = test_get(address, path); /* plain, as the client takes nothing else */
		assert_int_equal(a.n_body, plain[i].n_body);
		assert_memory_equal(a.body, plain[i].body, a.n_body);
		answer_free(&a);
		assert_int_not_equal(ask_packed(path, &plain[i]), WRONG);
		snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nAccept-Encoding: gzip", path);
		a = test_ask(address, request, NULL);
		assert_string_equal(test_header(&a, "Content-Encoding"), "gzip");
		assert_true(gunzips_to(&a, &plain[i]));
		answer_free(&a);
		snprintf(request, sizeof request, "GET %s&file=1 HTTP/1.1\r\nAccept-Encoding: zstd", path);
		a = test_ask(address, request, NULL);
		assert_null(test_header(&a, "Content-Encoding"));
		assert_true(gunzips_to(&a, &plain[i]));
		answer_free(&a);
	}
	struct answer small = test_get(before, "/pieces?pieces=1"), a = test_get(address, "/pieces?pieces=1&file=1");
	assert_true(gunzips_to(&a, &small));
	answer_free(&a);
	answer_free(&small);
	/* An error at the end, after most of another answer was in the file. */
	a = test_get(address, "/pieces?pieces=120&fail=1");
	assert_int_equal(a.status, 500);
	assert_true(a.n_body < 3000);
	answer_free(&a);
	/* Answers that do not get smaller are too large together, each by itself: it is sent from a file. */
	a = test_ask(address, "GET /pieces?pieces=30&random=1 HTTP/1.1\r\nAccept-Encoding: gzip", NULL);
	assert_int_equal(a.status, 200);
	assert_int_equal(a.n_body, 3000000);
	answer_free(&a);
	static const char leaves[] = GZIP_FROM("/pieces?pieces=400");
	int fd = test_connect(address);
	assert_true(test_send(fd, leaves, sizeof leaves - 1));
	close(fd);
	for (int i = 0; i < 4000 && (httpd_in_flight(h) || n_spools()); i++)
		clock_sleep_ms(5);
	assert_int_equal(n_spools(), 0);
	assert_int_equal(atomic_load(&h->spooled), 0); /* nothing counts against what others may have of the disk */
	assert_in_range(atomic_load(&most_in_memory), 1, 4500000);
	httpd_stop(h, 0);
	address = before;
	answer_free(&plain[0]);
	answer_free(&plain[1]);
}

/* Where no file can be made the answer says so; a small one does not need it. */
static void test_no_files_for_answers(void **state)
{
	static const char *const listen[] = { "127.0.0.1:0" };
	struct httpd_options o = { .listen = listen, .n_listen = 1, .routes = routes, .n_routes = ARRAY_LEN(routes), .spool_dir = "/nowhere", .max_answers = 3000000 };
	struct httpd *h = NULL;
	struct err e;
	(void)state;
	assert_int_equal(httpd_start(&h, &o, &e), 0);
	struct answer a = test_ask(httpd_address(h, 0), "GET /pieces?pieces=120 HTTP/1.1\r\nAccept-Encoding: gzip", NULL);
	assert_int_equal(a.status, 503);
	assert_non_null(strstr(a.body, "/nowhere"));
	assert_null(test_header(&a, "Content-Encoding"));
	answer_free(&a);
	/* In one piece: its headers are set already when there is no file. */
	a = test_ask(httpd_address(h, 0), "GET /pieces?pieces=120&once=1 HTTP/1.1\r\nAccept-Encoding: gzip", NULL);
	assert_int_equal(a.status, 503);
	assert_non_null(strstr(a.body, "/nowhere"));
	assert_null(test_header(&a, "Content-Encoding"));
	answer_free(&a);
	a = test_get(httpd_address(h, 0), "/pieces?pieces=20");
	assert_int_equal(a.n_body, 2000000);
	answer_free(&a);
	httpd_stop(h, 0);
}

static void test_accepts(void **state)
{
	static const char *const yes[] = { "zstd", "gzip, zstd", "ZSTD", "\tzstd", "gzip,\tzstd ;\tq=0.001 , br", "zstd;q=0.5;x=0", "zstd;freq=0", "zstd;q=1" };
	static const char *const no[] = { "", ",,", "zst", "zstdx", "gzip;zstd", "zstd;q=0", "zstd;Q=0", "zstd; q=0.000 ", "zstd;q=0;version=1", "zstd;x=q=1;q=0",
					  "zstd;q=0, zstd" };
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(yes); i++)
		if (!httpd_accepts(view_of(yes[i]), "zstd"))
			fail_msg("not taken: %s", yes[i]);
	for (size_t i = 0; i < ARRAY_LEN(no); i++)
		if (httpd_accepts(view_of(no[i]), "zstd"))
			fail_msg("taken: %s", no[i]);
}

static void test_assets(void **state)
{
	(void)state;
	struct answer a = test_ask(address, "GET /asset HTTP/1.1\r\nAccept-Encoding: gzip", NULL);
	assert_string_equal(test_header(&a, "Content-Encoding"), "gzip");
	assert_string_equal(test_header(&a, "Content-Type"), "text/css");
	assert_non_null(strstr(test_header(&a, "Content-Security-Policy"), "script-src 'self'"));
	char head[200];
	snprintf(head, sizeof head, "GET /asset HTTP/1.1\r\nIf-None-Match: W/%s", test_header(&a, "ETag"));
	answer_free(&a);
	a = test_ask(address, head, NULL);
	assert_int_equal(a.status, 304);
	assert_int_equal(a.n_body, 0);
	answer_free(&a);
	a = test_get(address, "/asset");
	assert_int_equal(a.n_body, sizeof asset_text - 1);
	answer_free(&a);
}

static char file_byte(size_t i)
{
	return (char)(i * 2654435761u >> 24);
}

static bool has_file_open(void)
{
	for (int fd = 0; fd < 256; fd++) {
		char name[32], target[64] = "";
		snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
		if (readlink(name, target, sizeof target - 1) > 0 && strcmp(target, file_path) == 0)
			return true;
	}
	return false;
}

/* A file goes out byte by byte as it is, more than any buffer holds; its descriptor is closed whatever happens. */
static void test_files(void **state)
{
	(void)state;
	char *bytes = malloc(FILE_BYTES);
	for (size_t i = 0; i < FILE_BYTES; i++)
		bytes[i] = file_byte(i);
	int fd = mkstemp(file_path);
	for (size_t done = 0; done < FILE_BYTES;) {
		ssize_t n = write(fd, bytes + done, FILE_BYTES - done);
		assert_true(n > 0);
		done += (size_t)n;
	}
	close(fd);
	struct answer a = test_ask(address, "GET /file HTTP/1.1\r\nAccept-Encoding: gzip", NULL);
	assert_int_equal(a.status, 200);
	assert_null(test_header(&a, "Content-Encoding"));
	assert_string_equal(test_header(&a, "Content-Type"), "application/octet-stream");
	assert_string_equal(test_header(&a, "Content-Length"), "3000001");
	assert_int_equal(a.n_body, FILE_BYTES);
	assert_memory_equal(a.body, bytes, FILE_BYTES);
	answer_free(&a);
	a = test_get(address, "/file?size=10"); /* no more than was said */
	assert_int_equal(a.n_body, 10);
	assert_memory_equal(a.body, bytes, 10);
	answer_free(&a);
	a = test_get(address, "/file?size=0");
	assert_int_equal(a.status, 200);
	assert_int_equal(a.n_body, 0);
	answer_free(&a);
	a = test_ask(address, "HEAD /file HTTP/1.1", NULL);
	assert_int_equal(a.status, 200);
	assert_string_equal(test_header(&a, "Content-Length"), "3000001");
	assert_int_equal(a.n_body, 0);
	answer_free(&a);
	/* It became shorter: the stream ends early, which a client can tell by the length. */
	a = test_get(address, "/file?size=3000100");
	assert_string_equal(test_header(&a, "Content-Length"), "3000100");
	assert_int_equal(a.n_body, FILE_BYTES);
	answer_free(&a);
	/* A client that goes away in the middle. */
	static const char head[] = "GET /file HTTP/1.1\r\nHost: localhost\r\n\r\n";
	fd = test_connect(address);
	test_send(fd, head, sizeof head - 1);
	char some[100];
	assert_true(recv(fd, some, sizeof some, 0) > 0);
	close(fd);
	for (int i = 0; i < 4000 && has_file_open(); i++)
		clock_sleep_ms(5);
	assert_false(has_file_open());
	unlink(file_path);
	free(bytes);
	check_get("/quick", 200, "quick\n");
}

static void test_body_caps(void **state)
{
	(void)state;
	char *body = calloc(1, 5001);
	memset(body, 'x', 5000);
	struct answer a = test_post_form(address, "/echo", body);
	assert_int_equal(a.status, 413);
	answer_free(&a);
	/* Chunked: the size shows only while it comes. */
	int fd = test_connect(address);
	struct buf b = { 0 };
	buf_puts(&b, "POST /echo HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n");
	for (int i = 0; i < 3; i++)
		buf_printf(&b, "258\r\n%.600s\r\n", body);
	buf_puts(&b, "0\r\n\r\n");
	test_send(fd, b.ptr, b.len);
	a = test_receive(fd);
	assert_true(a.status == 413 || a.status == 0); /* an answer, or the connection is closed on it */
	answer_free(&a);
	buf_free(&b);
	free(body);
	check_get("/quick", 200, "quick\n");
}

static void wait_until(atomic_int *what, int n)
{
	assert_true(TEST_WAIT(atomic_load(what) >= n));
}

static void test_client_leaves(void **state)
{
	(void)state;
	static const char head[] = "GET /wait HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
	int stays = test_connect(address), leaves = test_connect(address);
	test_send(stays, head, sizeof head - 1);
	test_send(leaves, head, sizeof head - 1);
	wait_until(&waiting, 2);
	check_get("/quick", 200, "quick\n"); /* while others are at work */
	assert_int_equal(atomic_load(&canceled), 0);
	close(leaves);
	wait_until(&canceled, 1);
	assert_int_equal(atomic_load(&ended), 1);
	atomic_store(&release_waiters, true);
	struct answer a = test_receive(stays);
	assert_int_equal(a.status, 200);
	answer_free(&a);
	atomic_store(&release_waiters, false);
}

/* More requests than workers: they queue, and all are answered. */
static void *ask_many(void *arg)
{
	int *good = arg;
	for (int i = 0; i < 50; i++) {
		struct answer a = test_get(address, "/echo?n=1");
		*good += a.status == 200 && strcmp(a.body, "[n=1]") == 0;
		answer_free(&a);
	}
	return NULL;
}

static void test_many(void **state)
{
	(void)state;
	pthread_t t[8];
	int good[8] = { 0 };
	for (size_t i = 0; i < ARRAY_LEN(t); i++)
		assert_int_equal(thread_start(&t[i], "ask", ask_many, &good[i], NULL), 0);
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		pthread_join(t[i], NULL);
		assert_int_equal(good[i], 50);
	}
}

static void test_addresses(void **state)
{
	(void)state;
	struct err e;
	assert_null(start("0.0.0.0:0", "", &e));
	assert_int_equal(e.code, ERR_DENIED);
	assert_non_null(strstr(e.msg, "--allow"));
	assert_null(start(":0", "", &e));
	assert_int_equal(e.code, ERR_DENIED);
	static const char *const wrong[] = { "nonsense", "127.0.0.1:70000", "::1:7070", "127.0.0.1:", "127.0.0.1:x" };
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		assert_null(start(wrong[i], "", &e));
		assert_int_equal(e.code, ERR_BAD_DATA);
		assert_non_null(strstr(e.msg, wrong[i]));
	}
	assert_null(start(address, "", &e)); /* taken */
	assert_int_equal(e.code, ERR_IO);
	struct httpd *h = start("localhost:0", "", &e);
	assert_non_null(h);
	struct answer a = test_get(httpd_address(h, 0), "/quick");
	assert_int_equal(a.status, 200);
	answer_free(&a);
	httpd_stop(h, 0);
	h = start("[::1]:0", "", &e);
	if (!h) {
		print_message("no IPv6 here: %s\n", e.msg);
		return;
	}
	assert_memory_equal(httpd_address(h, 0), "[::1]:", 6);
	a = test_get(httpd_address(h, 0), "/quick");
	assert_int_equal(a.status, 200);
	answer_free(&a);
	httpd_stop(h, 0);
}

static void test_prefix(void **state)
{
	(void)state;
	struct err e;
	struct httpd *h = start("127.0.0.1:0", "/pyrrha", &e);
	assert_non_null(h);
	struct answer a = test_get(httpd_address(h, 0), "/pyrrha/quick");
	assert_int_equal(a.status, 200);
	answer_free(&a);
	a = test_get(httpd_address(h, 0), "/quick");
	assert_int_equal(a.status, 404);
	answer_free(&a);
	a = test_get(httpd_address(h, 0), "/pyrrhaquick");
	assert_int_equal(a.status, 404);
	answer_free(&a);
	a = test_get(httpd_address(h, 0), "/");
	assert_int_equal(a.status, 302);
	assert_string_equal(test_header(&a, "Location"), "/pyrrha/");
	answer_free(&a);
	httpd_stop(h, 0);
}

/* Stopping cancels what is at work after the grace, answers it, and does not wait for idle connections. */
static void test_stop(void **state)
{
	(void)state;
	struct err e;
	struct httpd *h = start("127.0.0.1:0", "", &e);
	assert_non_null(h);
	int idle = test_connect(httpd_address(h, 0)), busy = test_connect(httpd_address(h, 0));
	int before_stop = atomic_load(&waiting), canceled_before = atomic_load(&canceled);
	static const char head[] = "GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n";
	test_send(busy, head, sizeof head - 1);
	wait_until(&waiting, before_stop + 1);
	assert_int_equal(httpd_in_flight(h), 1);
	int64_t begin = clock_mono_ms();
	httpd_stop(h, 50);
	assert_true(clock_mono_ms() - begin < 5000);
	assert_int_equal(atomic_load(&canceled), canceled_before + 1);
	close(idle);
	close(busy);
}

static void test_metrics(void **state)
{
	(void)state;
	struct buf b = { 0 };
	metrics_render(&b);
	assert_non_null(strstr(b.ptr, "pyrrha_http_requests_total{handler=\"/name/{name}/values\",code=\"200\"} 1"));
	assert_non_null(strstr(b.ptr, "pyrrha_http_request_duration_seconds_count{handler=\"/echo\"}"));
	assert_non_null(strstr(b.ptr, "pyrrha_http_requests_canceled_total 1"));
	assert_non_null(strstr(b.ptr, "pyrrha_http_requests_in_flight 0"));
	buf_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_params), cmocka_unit_test(test_routes), cmocka_unit_test(test_headers),
		cmocka_unit_test(test_compressed), cmocka_unit_test(test_accepts), cmocka_unit_test(test_assets), cmocka_unit_test(test_body_caps),
		cmocka_unit_test(test_client_leaves), cmocka_unit_test(test_metrics), cmocka_unit_test(test_compressed_beside), cmocka_unit_test(test_many),
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_addresses), cmocka_unit_test(test_prefix), cmocka_unit_test(test_stop),
		cmocka_unit_test(test_answers_in_files), cmocka_unit_test(test_one_piece_in_file), cmocka_unit_test(test_no_files_for_answers),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
