/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of web/remedies.c that are about the transport, met by real targets: what lib/fetch says of a target that fails in each way, and
 * the remedy that this selects. A target is a small server of this test, one thread for each connection. Each way is tried on a new
 * connection, and on one that has already brought an answer and is kept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "fetch/fetch.h"
#include "httpd/testcert.h"
#include "web/remedies.h"

#define SOON_MS 1000   /* timeout of requests that are not answered */
#define LATE_MS 20000  /* of the others */
#define BODY_MAX 64
/* No name server is asked for it: a label has at most 63 letters. */
#define NO_NAME "http://a-name-with-a-label-that-is-too-long-for-any-server-to-be-asked-for-it-at-all"

enum manner {
	HANG, HANG_BEFORE_BODY, HANG_IN_BODY, LEAD_TO_HANG, LEAD_TO_FULL, CLOSE, RESET, CUT_SHORT, NO_HTTP, LARGE, GONE, FULL, NO_FILES, WANTS_TLS,
	FIRST_TLS, OTHER_NAME = FIRST_TLS, EXPIRED, UNKNOWN_AUTHORITY, WANTS_CERTIFICATE, ENDS_HANDSHAKE, NO_TLS, HANG_IN_TLS,
};

static const struct row {
	enum manner manner;
	const char *error, *remedy;
} rows[] = {
	{ NO_FILES, "as many files open as it may", "a limit of its machine" }, /* first: it disturbs requests that run beside it */
	{ HANG, "s: connected, but no answer came", "It takes longer than scrape_timeout (1s)." },
	{ HANG_IN_TLS, "s: connected, but no answer came", "It takes longer than scrape_timeout (1s)." },
	{ HANG_BEFORE_BODY, "s: the headers came, the body did not", "It takes longer than scrape_timeout (1s)." },
	{ HANG_IN_BODY, ", 5 bytes into the body", "It takes longer than scrape_timeout (1s)." },
	{ LEAD_TO_HANG, "s: connected, but no answer came", "It takes longer than scrape_timeout (1s)." },
	{ LEAD_TO_FULL, "s: no connection (is a firewall dropping packets?)", "get lost" },
	{ FULL, "s: no connection (is a firewall dropping packets?)", "get lost" },
	{ CLOSE, "the connection was closed without an answer", "It closes the connection." },
	{ RESET, "reset by peer", "It closes the connection." },
	{ NO_HTTP, "HTTP/0.9", "It closes the connection." },
	{ CUT_SHORT, "the answer was cut short: 10 of 50 bytes came", "The target ended its answer early." },
	{ LARGE, "the body is larger than the limit of 64", "raise its body_size_limit" },
	{ GONE, "cannot connect: Connection refused", "Nothing listens at 127.0.0.1:" },
	{ WANTS_TLS, "HTTP status 400: Client sent an HTTP request to an HTTPS server.", "write scheme: https" },
	{ OTHER_NAME, "SSL: no alternative certificate subject name matches", "set server_name in tls_config" },
	{ EXPIRED, "certificate has expired", "out of date" },
	{ UNKNOWN_AUTHORITY, "SSL certificate problem", "name the authority by ca_file" },
	{ WANTS_CERTIFICATE, "alert", "set cert_file and key_file" },
	{ ENDS_HANDSHAKE, "SSL", "TLS does not come about" },
	{ NO_TLS, "wrong version number", "write scheme: http into the job" },
};

/* ---- targets ---- */

struct bad_target {
	enum manner manner;
	int fd, port, filler[2];
	pthread_t thread;
	bool listens;
	atomic_bool failing;           /* from now on it behaves as `manner` says; before, it answers each request */
	atomic_bool failing_again;     /* a request came, while the target fails, on a connection that had brought an answer before */
	atomic_int open;               /* threads of connections */
	gnutls_certificate_credentials_t good, bad; /* NULL: no TLS */
};

struct peer {
	struct bad_target *target;
	int fd;
	gnutls_session_t tls;          /* NULL: none, or not yet */
};

static struct testcert authority, stranger, certificates[4];
static struct bad_target full;             /* its queue of connections is full, as if its packets were lost */

static ssize_t peer_read(struct peer *p, char *to, size_t n)
{
	ssize_t got;
	if (!p->tls)
		return read(p->fd, to, n);
	do
		got = gnutls_record_recv(p->tls, to, n);
	while (got < 0 && !gnutls_error_is_fatal((int)got));
	return got;
}

static void peer_write(struct peer *p, const char *text)
{
	for (size_t n = strlen(text), done = 0; done < n;) {
		ssize_t k = p->tls ? gnutls_record_send(p->tls, text + done, n - done) : send(p->fd, text + done, n - done, MSG_NOSIGNAL);
		if (k <= 0)
			return;
		done += (size_t)k;
	}
}

static bool peer_read_request(struct peer *p, char *request, size_t size)
{
	size_t n = 0;
	request[0] = 0;
	while (!strstr(request, "\r\n\r\n")) {
		ssize_t got = n + 1 < size ? peer_read(p, request + n, size - 1 - n) : 0;
		if (got <= 0)
			return false;
		n += (size_t)got;
		request[n] = 0;
	}
	return true;
}

static void peer_lead(struct peer *p, int port, const char *path)
{
	char answer[200];
	snprintf(answer, sizeof answer, "HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: http://127.0.0.1:%d%s\r\n\r\n", port, path);
	peer_write(p, answer);
}

/* Fails in its manner; false: the connection ends. One that hangs waits for a request that never comes. */
static bool peer_fail(struct peer *p, const char *request)
{
	switch (p->target->manner) {
	case HANG:
	case HANG_IN_TLS: /* on a kept connection TLS is there already */
		return true;
	case HANG_BEFORE_BODY:
		peer_write(p, "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n");
		return true;
	case HANG_IN_BODY:
		peer_write(p, "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n12345");
		return true;
	case LEAD_TO_HANG:
		if (strstr(request, "GET /there"))
			return true;
		peer_lead(p, p->target->port, "/there");
		return true;
	case LEAD_TO_FULL:
		peer_lead(p, full.port, "/");
		return true;
	case RESET:
		setsockopt(p->fd, SOL_SOCKET, SO_LINGER, &(struct linger){ 1, 0 }, sizeof(struct linger));
		return false;
	case CUT_SHORT:
		peer_write(p, "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n0123456789");
		return false;
	case NO_HTTP:
		peer_write(p, "\x15\x03\x03 what a TLS server says\n");
		return false;
	case LARGE:
		peer_write(p, "HTTP/1.1 200 OK\r\nContent-Length: 70\r\n\r\n"
			      "0123456789012345678901234567890123456789012345678901234567890123456789");
		return true;
	case WANTS_TLS:
		peer_write(p, "HTTP/1.1 400 Bad Request\r\nContent-Length: 48\r\n\r\nClient sent an HTTP request to an HTTPS server.\n");
		return true;
	default:
		return false;
	}
}

/* Returns false if the connection carries no TLS. */
static bool peer_handshake(struct peer *p)
{
	struct bad_target *t = p->target;
	bool failing = atomic_load(&t->failing);
	char some[4096];
	int rc;
	if (failing && t->manner == HANG_IN_TLS)
		while (read(p->fd, some, sizeof some) > 0)
			;
	if (failing && (t->manner == HANG_IN_TLS || t->manner == ENDS_HANDSHAKE || t->manner == NO_TLS)) {
		if (t->manner != HANG_IN_TLS && read(p->fd, some, sizeof some) > 0 && t->manner == NO_TLS)
			peer_write(p, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
		return false;
	}
	gnutls_init(&p->tls, GNUTLS_SERVER | GNUTLS_NO_SIGNAL);
	gnutls_set_default_priority(p->tls);
	gnutls_credentials_set(p->tls, GNUTLS_CRD_CERTIFICATE, failing ? t->bad : t->good);
	if (failing && t->manner == WANTS_CERTIFICATE)
		gnutls_certificate_server_set_request(p->tls, GNUTLS_CERT_REQUIRE);
	gnutls_transport_set_int(p->tls, p->fd);
	do
		rc = gnutls_handshake(p->tls);
	while (rc < 0 && !gnutls_error_is_fatal(rc));
	if (!rc)
		return true;
	/* What was not read would make a reset of the end, and the alert might be lost. */
	gnutls_alert_send_appropriate(p->tls, rc);
	shutdown(p->fd, SHUT_WR);
	while (read(p->fd, some, sizeof some) > 0)
		;
	return false;
}

static void *peer_run(void *arg)
{
	struct peer *p = arg;
	struct bad_target *t = p->target;
	char request[4096];
	bool go_on = !t->good || peer_handshake(p);
	for (int n = 0; go_on && peer_read_request(p, request, sizeof request); n++) {
		bool failing = atomic_load(&t->failing);
		if (failing && n)
			atomic_store(&t->failing_again, true);
		if (!failing)
			peer_write(p, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
		else
			go_on = peer_fail(p, request);
	}
	if (p->tls)
		gnutls_deinit(p->tls);
	close(p->fd);
	free(p);
	atomic_fetch_sub(&t->open, 1);
	return NULL;
}

/* Until the socket is shut down, or the queue is to become full. */
static void *target_run(void *arg)
{
	struct bad_target *t = arg;
	for (;;) {
		pthread_t thread;
		int fd = accept(t->fd, NULL, NULL);
		if (fd < 0)
			return NULL;
		if (atomic_load(&t->failing) && t->manner == FULL) {
			close(fd);
			return NULL;
		}
		struct peer *p = NEW(struct peer);
		*p = (struct peer){ .target = t, .fd = fd };
		atomic_fetch_add(&t->open, 1);
		if (pthread_create(&thread, NULL, peer_run, p))
			abort();
		pthread_detach(thread);
	}
}

static gnutls_certificate_credentials_t credentials_of(const struct testcert *c)
{
	gnutls_certificate_credentials_t made;
	gnutls_certificate_allocate_credentials(&made);
	assert_int_equal(gnutls_certificate_set_x509_key(made, (gnutls_x509_crt_t *)(uintptr_t)&c->crt, 1, c->key), 0);
	return made;
}

static void target_start(struct bad_target *t, enum manner manner)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof a;
	*t = (struct bad_target){ .manner = manner, .filler = { -1, -1 }, .listens = true };
	t->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(t->fd, (struct sockaddr *)&a, sizeof a), 0);
	assert_int_equal(listen(t->fd, manner == FULL ? 0 : 16), 0);
	assert_int_equal(getsockname(t->fd, (struct sockaddr *)&a, &len), 0);
	t->port = ntohs(a.sin_port);
	if (manner >= FIRST_TLS) {
		t->good = credentials_of(&certificates[3]);
		t->bad = credentials_of(&certificates[manner <= UNKNOWN_AUTHORITY ? manner - FIRST_TLS : 3]);
	}
	assert_int_equal(pthread_create(&t->thread, NULL, target_run, t), 0);
}

static void target_stop_listening(struct bad_target *t)
{
	if (t->listens) {
		shutdown(t->fd, SHUT_RDWR);
		pthread_join(t->thread, NULL);
		close(t->fd);
	}
	t->listens = false;
}

/* The target accepts no more: its thread ends with the first connection, and the second one takes the only place in the queue of those not accepted.
 * The system drops the packets of further ones. */
static void target_fill(struct bad_target *t)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)t->port) };
	for (size_t i = 0; i < 2; i++) {
		t->filler[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_int_equal(connect(t->filler[i], (struct sockaddr *)&a, sizeof a), 0);
		if (!i)
			pthread_join(t->thread, NULL);
	}
}

static void target_fail(struct bad_target *t)
{
	atomic_store(&t->failing, true);
	if (t->manner == GONE)
		target_stop_listening(t);
	if (t->manner == FULL)
		target_fill(t);
}

/* All clients have left. */
static void target_stop(struct bad_target *t)
{
	bool is_full = t->filler[0] >= 0;
	for (size_t i = 0; i < 2 && is_full; i++)
		close(t->filler[i]);
	if (is_full)
		close(t->fd);
	else
		target_stop_listening(t);
	while (atomic_load(&t->open))
		clock_sleep_ms(1);
	if (t->good)
		gnutls_certificate_free_credentials(t->good);
	if (t->bad)
		gnutls_certificate_free_credentials(t->bad);
}

/* ---- asking ---- */

struct outcome {
	bool done;
	char text[1200]; /* of the error, or of an answer other than 200, as the scraper words it; empty: a good answer */
};

static void outcome_set(void *arg, struct fetch_response *r, const struct err *e)
{
	struct outcome *o = arg;
	o->done = true;
	if (e->code)
		snprintf(o->text, sizeof o->text, "%s", e->msg);
	else if (r->status != 200)
		snprintf(o->text, sizeof o->text, "the server answered HTTP status %d: %.*s", r->status, VIEW_ARG(buf_view(&r->body)));
}

static void outcome_start(struct outcome *o, struct fetch_loop *l, struct fetch_client *c, const char *url, int64_t timeout_ms)
{
	struct err e = { 0 };
	struct fetch_request q = { .url = url, .timeout_ms = timeout_ms, .max_bytes = BODY_MAX };
	*o = (struct outcome){ .done = false };
	if (fetch_start(l, c, &q, outcome_set, o, NULL, &e))
		outcome_set(o, NULL, &e);
}

static void outcome_wait(const struct outcome *o, struct fetch_loop *l)
{
	struct err e = { 0 };
	while (!o->done)
		assert_int_equal(fetch_loop_turn(l, 100, &e), 0);
}

static void outcome_wait_without_files(const struct outcome *o, struct fetch_loop *l)
{
	struct rlimit was;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 3, was.rlim_max }), 0);
	outcome_wait(o, l);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
}

static void outcome_expect(const struct outcome *o, const char *what, const char *url, const char *error, const char *remedy)
{
	struct buf b = { 0 };
	remedy_put(&b, &(struct status_target){ .scrape_url = view_of(url), .last_error = view_of(o->text), .timeout_ms = SOON_MS });
	if (!strstr(o->text, error) || !view_contains(buf_view(&b), view_of(remedy)))
		fail_msg("%s: the error is \"%s\", the remedy \"%.*s\"", what, o->text, VIEW_ARG(buf_view(&b)));
	buf_free(&b);
}

/* A row and its target. */
struct meeting {
	const struct row *row;
	struct bad_target t;
	struct outcome o;
	char url[64];
};

static void meeting_begin(struct meeting *m, const struct row *row, struct fetch_loop *l, struct fetch_client *c, bool kept)
{
	bool waits = row->manner <= LEAD_TO_FULL || row->manner == FULL || row->manner == HANG_IN_TLS;
	m->row = row;
	target_start(&m->t, row->manner);
	snprintf(m->url, sizeof m->url, "http%s://%s:%d/debug/pprof", m->t.good ? "s" : "", row->manner == OTHER_NAME ? "localhost" : "127.0.0.1", m->t.port);
	if (kept) {
		outcome_start(&m->o, l, c, m->url, LATE_MS);
		outcome_wait(&m->o, l);
		if (m->o.text[0])
			fail_msg("row %zu, at first: %s", (size_t)(row - rows), m->o.text);
	}
	target_fail(&m->t);
	outcome_start(&m->o, l, c, m->url, waits ? SOON_MS : LATE_MS);
	if (row->manner == NO_FILES)
		outcome_wait_without_files(&m->o, l);
}

/* All requests run at the same time, because most of them take a second. */
static void meet_all(bool kept)
{
	struct err e = { 0 };
	struct meeting m[ARRAY_LEN(rows)];
	struct http_config config = { .follow_redirects = true, .enable_http2 = true, .tls.ca = authority.cert_pem };
	struct fetch_loop *l = fetch_loop_new(&e);
	struct fetch_client *c = fetch_client_new(&config, "test");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		meeting_begin(&m[i], &rows[i], l, c, kept);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		outcome_wait(&m[i].o, l);
	fetch_loop_free(l);
	fetch_client_unref(c);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char what[64];
		target_stop(&m[i].t);
		snprintf(what, sizeof what, "row %zu, %s connection", i, kept ? "kept" : "new");
		outcome_expect(&m[i].o, what, m[i].url, rows[i].error, rows[i].remedy);
		if (atomic_load(&m[i].t.failing_again) != kept && rows[i].manner != LEAD_TO_HANG)
			fail_msg("%s: another connection was asked", what);
	}
}

static void on_new_connections(void **state)
{
	(void)state;
	meet_all(false);
}

static void on_kept_connections(void **state)
{
	(void)state;
	meet_all(true);
}

/* Where no connection to the target ever comes about, there is none to keep. */
static void before_a_connection(void **state)
{
	char proxy[64], closed[64], nothing[64];
	struct http_oauth2 oauth2 = { .client_id = "id", .client_secret = "s", .token_url = closed };
	struct http_config none = { .follow_redirects = true }, refusing = { .proxy_url = proxy }, unknown = { .proxy_url = NO_NAME },
			   by_token = { .oauth2 = &oauth2 }, no_proxy = { .proxy_url = closed };
	const struct {
		const struct http_config *config;
		const char *url, *error, *remedy;
		size_t names;
	} cases[] = {
		{ &none, "http://255.255.255.255:1/", "cannot connect: Network is unreachable", "There is no way to 255.255.255.255:1 ", 1 },
		{ &none, "http://localhost:1/", "the name was not looked up", "The name server does not answer in time.", 0 },
		{ &none, NO_NAME "/", "resolve host", "does not know the name a-name-", 1 },
		{ &unknown, "http://127.0.0.1:1/", "resolve proxy", "does not know the name of the proxy", 1 },
		{ &no_proxy, "http://127.0.0.1:1/", "cannot connect: Connection refused", nothing, 1 },
		{ &refusing, "https://127.0.0.1:1/", "response 400", "The proxy does not connect to 127.0.0.1:1:", 1 },
		{ &by_token, "http://127.0.0.1:1/", "oauth2: ", "check oauth2 of the job", 1 },
		{ &by_token, "http://127.0.0.1:1/", "oauth2: asking for a token: cannot connect: Connection refused", "check oauth2 of the job", 1 },
	};
	struct err e = { 0 };
	struct bad_target t, gone;
	(void)state;
	target_start(&t, WANTS_TLS); /* as a proxy it refuses each request for a tunnel */
	target_fail(&t);
	target_start(&gone, GONE);
	target_fail(&gone);
	snprintf(proxy, sizeof proxy, "http://127.0.0.1:%d", t.port);
	snprintf(closed, sizeof closed, "http://127.0.0.1:%d", gone.port);
	snprintf(nothing, sizeof nothing, "Nothing listens at 127.0.0.1:%d.", gone.port);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct fetch_loop *l = fetch_loop_new(&e);
		struct fetch_client *c = fetch_client_new(cases[i].config, "test");
		struct outcome o;
		fetch_loop_names(l, cases[i].names);
		do {
			outcome_start(&o, l, c, cases[i].url, LATE_MS);
			outcome_wait(&o, l);
		} while (strstr(o.text, "has not answered yet") && i + 1 == ARRAY_LEN(cases)); /* the token's own thread waits for the answer of the token URL */
		outcome_expect(&o, cases[i].error, cases[i].url, cases[i].error, cases[i].remedy);
		fetch_loop_free(l);
		fetch_client_unref(c);
	}
	target_stop(&t);
	target_stop(&gone);
}

/* A unix socket that is not there, and one that nothing listens on. */
static void on_a_socket(void **state)
{
	char path[64], advice[128];
	struct err e = { 0 };
	struct http_config none = { .follow_redirects = true };
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	(void)state;
	snprintf(path, sizeof path, "/tmp/remedies-%d.sock", (int)getpid());
	snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
	snprintf(advice, sizeof advice, "curl -v --unix-socket %s URL", path);
	unlink(path);
	for (int there = 0; there < 2; there++) {
		struct fetch_loop *l = fetch_loop_new(&e);
		struct fetch_client *c = fetch_client_new(&none, "test");
		struct fetch_request q = { .url = "http://localhost/", .unix_socket = path, .timeout_ms = LATE_MS };
		struct outcome o = { .done = false };
		int fd = there ? socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
		assert_int_equal(there ? bind(fd, (struct sockaddr *)&a, sizeof a) : 0, 0);
		assert_int_equal(fetch_start(l, c, &q, outcome_set, &o, NULL, &e), 0);
		outcome_wait(&o, l);
		struct buf b = { 0 };
		remedy_put(&b, &(struct status_target){ .scrape_url = view_of(q.url), .socket = view_of(path), .last_error = view_of(o.text) });
		if (!view_starts(buf_view(&b), VIEW("Nothing listens on the target's unix socket.")) || !view_contains(buf_view(&b), view_of(advice)))
			fail_msg("the error is \"%s\", the remedy \"%.*s\"", o.text, VIEW_ARG(buf_view(&b)));
		buf_free(&b);
		fetch_loop_free(l);
		fetch_client_unref(c);
		if (fd >= 0)
			close(fd);
	}
	unlink(path);
}

static int start(void **state)
{
	(void)state;
	authority = testcert_new((struct testcert_how){ .name = "authority" });
	stranger = testcert_new((struct testcert_how){ .name = "stranger" });
	certificates[OTHER_NAME - FIRST_TLS] = testcert_new((struct testcert_how){ .name = "other.example", .signer = &authority });
	certificates[EXPIRED - FIRST_TLS] = testcert_new((struct testcert_how){ .name = "localhost", .signer = &authority, .expired = true });
	certificates[UNKNOWN_AUTHORITY - FIRST_TLS] = testcert_new((struct testcert_how){ .name = "localhost", .signer = &stranger });
	certificates[3] = testcert_new((struct testcert_how){ .name = "localhost", .signer = &authority });
	target_start(&full, FULL);
	target_fail(&full);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	target_stop(&full);
	for (size_t i = 0; i < ARRAY_LEN(certificates); i++)
		testcert_free(&certificates[i]);
	testcert_free(&authority);
	testcert_free(&stranger);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(on_new_connections),
		cmocka_unit_test(on_kept_connections),
		cmocka_unit_test(before_a_connection),
		cmocka_unit_test(on_a_socket),
	};
	return cmocka_run_group_tests(tests, start, stop);
}
