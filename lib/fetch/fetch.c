/* SPDX-License-Identifier: Apache-2.0 */
/* One exchange: sets up a curl handle from client and request, collects the body under its cap, and turns curl's error into a message
 * with a remedy. Blocking exchanges run here, others on a loop (fetch_loop.c). */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
#include "fetch/fetch_internal.h"

#define MAX_REDIRECTS 10L
#define CONNECT_MS 10000

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;

static void start_curl(void)
{
	curl_global_init(CURL_GLOBAL_DEFAULT);
}

void fetch_set_curl_up(void)
{
	pthread_once(&curl_once, start_curl);
}

struct fetch_client *fetch_client_plain(const struct http_config *c, const char *user_agent)
{
	static const struct http_config defaults = { .follow_redirects = true, .enable_http2 = true };
	fetch_set_curl_up();
	struct fetch_client *n = NEW(struct fetch_client);
	n->refs = 1;
	mutex_init(&n->kept_lock, LOCK_LEAF, "fetch_client");
	n->config = c ? c : &defaults;
	n->user_agent = xstrdup(user_agent ? user_agent : "pyrrha");
	return n;
}

struct fetch_client *fetch_client_ref(struct fetch_client *c)
{
	__atomic_add_fetch(&c->refs, 1, __ATOMIC_RELAXED);
	return c;
}

void fetch_client_unref(struct fetch_client *c)
{
	if (!c || __atomic_sub_fetch(&c->refs, 1, __ATOMIC_ACQ_REL))
		return;
	fetch_token_free(c->token);
	fetch_client_drop_kept(c);
	free(c->user_agent);
	if (c->release)
		c->release(c->owner);
	free(c);
}

void fetch_response_release(struct fetch_response *r)
{
	buf_free(&r->body);
}

static size_t on_body(char *p, size_t size, size_t n, void *arg)
{
	struct fetch *f = arg;
	n *= size;
	if (n > f->max_bytes - f->seen) {
		f->over_limit = true;
		return 0;
	}
	f->full_ns = 0;
	if (f->share && !fetch_share_may_take(f, n)) {
		fetch_share_pause(f);
		return CURL_WRITEFUNC_PAUSE;
	}
	enum fetch_data took = f->on_data ? f->on_data(f->on_data_arg, p, n) : FETCH_TAKEN;
	if (took == FETCH_LATER && f->share) {
		f->full_ns = clock_mono_ns();
		fetch_share_pause(f);
		return CURL_WRITEFUNC_PAUSE;
	}
	f->seen += n;
	if (f->stall_ms)
		f->moved_ns = clock_mono_ns();
	if (f->share)
		fetch_share_took(f, n);
	if (!f->on_data)
		buf_put(&f->response.body, p, n);
	f->stopped = took != FETCH_TAKEN;
	return f->stopped || f->response.body.overflow ? 0 : n;
}

static void put_text(char *to, size_t size, const char *from)
{
	size_t n = MIN(strlen(from), size - 1);
	memcpy(to, from, n);
	to[n] = 0;
}

static void read_headers(struct fetch *f)
{
	struct curl_header *h = NULL;
	for (size_t i = 0; i < FETCH_HEADERS_MAX && f->want_headers[i]; i++) {
		f->response.headers[i][0] = 0;
		if (!curl_easy_header(f->easy, f->want_headers[i], 0, CURLH_HEADER, -1, &h))
			put_text(f->response.headers[i], sizeof f->response.headers[i], h->value);
	}
}

/* A line of the headers; the empty one is the last. */
static size_t on_header(char *p, size_t size, size_t n, void *arg)
{
	struct fetch *f = arg;
	long status = 0;
	n *= size;
	if (n > 2 || (*p != '\r' && *p != '\n'))
		return n;
	curl_easy_getinfo(f->easy, CURLINFO_RESPONSE_CODE, &status);
	if (status >= 200) {
		f->response.status = (int)status;
		read_headers(f);
		f->on_head(f->on_data_arg, &f->response);
	}
	return n;
}

/* Called by curl in each of its turns, and once a second while nothing happens. */
static int on_progress(void *arg, curl_off_t to_come, curl_off_t came, curl_off_t to_go, curl_off_t gone)
{
	struct fetch *f = arg;
	int64_t now = f->stall_ms ? clock_mono_ns() : 0;
	if (came + gone != f->moved || !f->requested) {
		f->moved = came + gone;
		f->moved_ns = now;
	}
	f->stalled = now - f->moved_ns > f->stall_ms * 1000000;
	return f->stalled || (f->cancel && atomic_load(f->cancel));
}

/* curl does not tell why a socket could not be made. */
static curl_socket_t open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *a)
{
	struct fetch *f = arg;
	fetch_share_resolved(f);
	f->requested = f->connected = false;
	curl_easy_getinfo(f->easy, CURLINFO_CONNECT_TIME_T, &f->connect_us);
	int fd = socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
	fetch_upload_watch(f, fd);
	if (fd < 0)
		f->socket_errno = errno;
	return fd < 0 ? CURL_SOCKET_BAD : fd;
}

/* Called by curl before it sends a request, when a new or kept connection is ready. A redirect leads to a second call. */
static int on_request(void *arg, char *peer, char *own, int peer_port, int own_port)
{
	struct fetch *f = arg;
	f->requested = true;
	curl_easy_getinfo(f->easy, CURLINFO_STARTTRANSFER_TIME_T, &f->answer_us);
	return CURL_PREREQFUNC_OK;
}

static void set_protocols(CURL *h)
{
#if LIBCURL_VERSION_NUM >= 0x075500
	curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(h, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
#else
	curl_easy_setopt(h, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
	curl_easy_setopt(h, CURLOPT_REDIR_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
}

static void set_method(struct fetch *f, const struct fetch_request *q)
{
	CURL *h = f->easy;
	if (q->upload) {
		fetch_upload_set(f, q);
		return;
	}
	if (q->body.ptr) {
		curl_easy_setopt(h, CURLOPT_POST, 1L);
		curl_easy_setopt(h, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)q->body.len);
		curl_easy_setopt(h, CURLOPT_COPYPOSTFIELDS, q->body.ptr);
		curl_easy_setopt(h, CURLOPT_POSTREDIR, q->keep_method ? (long)CURL_REDIR_POST_ALL : 0L);
	}
	if (q->method && strcmp(q->method, "HEAD") == 0)
		curl_easy_setopt(h, CURLOPT_NOBODY, 1L);
	else if (q->method && strcmp(q->method, q->body.ptr ? "POST" : "GET") != 0)
		curl_easy_setopt(h, CURLOPT_CUSTOMREQUEST, q->method);
}

static void set_request(struct fetch *f, const struct fetch_request *q)
{
	CURL *h = f->easy;
	int64_t connect = q->connect_timeout_ms ? q->connect_timeout_ms : CONNECT_MS;
	if (q->timeout_ms && connect > q->timeout_ms)
		connect = q->timeout_ms;
	curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(h, CURLOPT_PRIVATE, f);
	curl_easy_setopt(h, CURLOPT_ERRORBUFFER, f->problem);
	curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(h, CURLOPT_WRITEDATA, f);
	curl_easy_setopt(h, CURLOPT_OPENSOCKETFUNCTION, open_socket);
	curl_easy_setopt(h, CURLOPT_OPENSOCKETDATA, f);
	curl_easy_setopt(h, CURLOPT_PREREQFUNCTION, on_request);
	curl_easy_setopt(h, CURLOPT_PREREQDATA, f);
	curl_easy_setopt(h, CURLOPT_URL, q->url);
	curl_easy_setopt(h, CURLOPT_USERAGENT, f->client->user_agent);
	curl_easy_setopt(h, CURLOPT_TIMEOUT_MS, (long)q->timeout_ms);
	curl_easy_setopt(h, CURLOPT_CONNECTTIMEOUT_MS, (long)connect);
	curl_easy_setopt(h, CURLOPT_MAXREDIRS, MAX_REDIRECTS);
	if (q->compressed)
		curl_easy_setopt(h, CURLOPT_ACCEPT_ENCODING, "gzip");
	if (q->unix_socket)
		curl_easy_setopt(h, CURLOPT_UNIX_SOCKET_PATH, q->unix_socket);
#if LIBCURL_VERSION_NUM >= 0x075700
	curl_easy_setopt(h, CURLOPT_QUICK_EXIT, 1L); /* a resolver that hangs does not hold up the end */
#endif
	f->cancel = q->cancel;
	f->stall_ms = q->stall_ms;
	if (f->cancel || f->stall_ms) {
		curl_easy_setopt(h, CURLOPT_NOPROGRESS, 0L);
		curl_easy_setopt(h, CURLOPT_XFERINFOFUNCTION, on_progress);
		curl_easy_setopt(h, CURLOPT_XFERINFODATA, f);
	}
	if (f->on_head) {
		curl_easy_setopt(h, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
		curl_easy_setopt(h, CURLOPT_HEADERFUNCTION, on_header);
		curl_easy_setopt(h, CURLOPT_HEADERDATA, f);
	}
	if (q->own_connection) {
		curl_easy_setopt(f->easy, CURLOPT_FRESH_CONNECT, 1L);
		curl_easy_setopt(f->easy, CURLOPT_FORBID_REUSE, 1L);
	}
	if (q->keepalive) {          /* with Linux's nine probes: 26 s */
		curl_easy_setopt(h, CURLOPT_TCP_KEEPALIVE, 1L);
		curl_easy_setopt(h, CURLOPT_TCP_KEEPIDLE, 8L);
		curl_easy_setopt(h, CURLOPT_TCP_KEEPINTVL, 2L);
	}
	if (f->client->idle_ms)
		curl_easy_setopt(h, CURLOPT_MAXAGE_CONN, (long)MAX(f->client->idle_ms / 1000, 1));
	set_protocols(h);
	set_method(f, q);
	for (size_t i = 0; i < q->n_headers; i++)
		f->headers = curl_slist_append(f->headers, q->headers[i]);
}

int fetch_prepare(struct fetch **ret, struct fetch_client *c, const struct fetch_request *q, bool wait, struct err *e)
{
	struct fetch *f = NEW(struct fetch);
	f->wait = wait;
	f->client = fetch_client_ref(c);
	f->max_bytes = q->max_bytes ? q->max_bytes : FETCH_MAX_BYTES;
	f->response.body.max = f->max_bytes + 1;
	f->on_head = q->on_head;
	f->on_data = q->on_data;
	f->on_data_arg = q->on_data_arg;
	memcpy(f->want_headers, q->want_headers, sizeof f->want_headers);
	f->timeout_ms = q->timeout_ms;
	f->upload_socket = -1;
	f->easy = fetch_client_take(c, q, wait);
	f->keep = wait && c->max_kept && !q->upload && !q->own_connection;
	int rc = f->easy ? 0 : err_set(e, ERR_INTERNAL, "curl gives no handle");
	if (!rc) {
		set_request(f, q);
		rc = fetch_apply_config(f, q->url, e);
	}
	if (rc) {
		f->keep = false;
		fetch_destroy(f);
		return rc;
	}
	f->started_ns = clock_mono_ns();
	*ret = f;
	return 0;
}

void fetch_destroy(struct fetch *f)
{
	if (f->keep && f->easy)
		fetch_client_leave(f->client, f->easy);
	else
		curl_easy_cleanup(f->easy);
	curl_slist_free_all(f->headers);
	curl_slist_free_all(f->proxy_headers);
	curl_slist_free_all(f->connect_to);
	fetch_client_unref(f->client);
	fetch_upload_watch(f, -1);
	buf_free(&f->response.body);
	free(f);
}

/* The state at the timeout tells where to look. curl's times are sums over all connections and answers of the exchange, and one that
 * uses a kept connection has no CONNECT_TIME. So they are compared with what they were before the last connection and request. */
static int say_timeout(struct fetch *f, struct err *e)
{
	char t[DURATION_LEN];
	curl_off_t resolved = 0, connect_us = 0, answer_us = 0;
	curl_easy_getinfo(f->easy, CURLINFO_NAMELOOKUP_TIME_T, &resolved);
	curl_easy_getinfo(f->easy, CURLINFO_CONNECT_TIME_T, &connect_us);
	curl_easy_getinfo(f->easy, CURLINFO_STARTTRANSFER_TIME_T, &answer_us);
	int64_t ms = (f->response.duration_ns + 500000) / 1000000;
	units_format_duration(ms, t);
	if (f->seen)
		return err_set(e, ERR_TIMEOUT, "timed out after %s, %llu bytes into the body", t, (unsigned long long)f->seen);
	if (f->requested && f->upload && f->uploaded < f->upload->size)
		return err_set(e, ERR_TIMEOUT, "timed out after %s: the peer stopped reading, %llu bytes into the upload", t,
			       (unsigned long long)f->uploaded);
	if (f->requested && answer_us > f->answer_us)
		return err_set(e, ERR_TIMEOUT, "timed out after %s: the headers came, the body did not", t);
	if (f->requested || f->connected || connect_us > f->connect_us)
		return err_set(e, ERR_TIMEOUT, "timed out after %s: connected, but no answer came", t);
	if (resolved)
		return err_set(e, ERR_TIMEOUT, "timed out after %s: no connection (is a firewall dropping packets?)", t);
	return err_set(e, ERR_TIMEOUT, "timed out after %s: the name was not resolved", t);
}

static int say_write_error(struct fetch *f, struct err *e)
{
	char size[24];
	if (f->stopped)
		return err_set(e, ERR_CANCELED, "ended by the reader");
	return err_set(e, ERR_LIMIT, "the body is larger than the limit of %s", units_format_size(f->max_bytes, size));
}

static int say_partial(struct fetch *f, struct err *e)
{
	curl_off_t want = -1;
	curl_easy_getinfo(f->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &want);
	if (want > 0)
		return err_set(e, ERR_BAD_DATA, "the answer was cut short: %llu of %lld bytes came",
			       (unsigned long long)f->response.bytes_received, (long long)want);
	return err_set(e, ERR_BAD_DATA, "the answer was cut short after %llu bytes", (unsigned long long)f->seen);
}

static bool no_files(void)
{
	int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
	if (fd >= 0)
		close(fd);
	return fd < 0 && (errno == EMFILE || errno == ENFILE);
}

/* The two limits that many targets at once run into. */
static int say_no_room(struct fetch *f, long number, struct err *e)
{
	struct rlimit r = { 0 };
	if (number == EADDRNOTAVAIL)
		return err_set(e, ERR_UNAVAILABLE, "cannot connect: no local port is left for that address (net.ipv4.ip_local_port_range)");
	if (f->socket_errno == ENFILE)
		return err_set(e, ERR_UNAVAILABLE, "cannot connect: the system has as many files open as it may; raise fs.file-max");
	if (f->socket_errno != EMFILE && !no_files())
		return 0;
	getrlimit(RLIMIT_NOFILE, &r);
	return err_set(e, ERR_UNAVAILABLE, "cannot connect: this process has as many files open as it may, %llu; raise the limit "
		       "(ulimit -n, LimitNOFILE= of systemd) or ask fewer targets", (unsigned long long)r.rlim_cur);
}

static int say_no_connection(struct fetch *f, const char *text, struct err *e)
{
	char why[128];
	long number = 0;
	curl_easy_getinfo(f->easy, CURLINFO_OS_ERRNO, &number);
	int rc = say_no_room(f, number, e);
	if (rc)
		return rc;
	if (!number)
		return err_set(e, ERR_UNAVAILABLE, "%s", text);
	return err_set(e, ERR_UNAVAILABLE, "cannot connect: %s (%s)", strerror_r((int)number, why, sizeof why), text);
}

static int say_error(struct fetch *f, CURLcode rc, struct err *e)
{
	const char *text = f->problem[0] ? f->problem : curl_easy_strerror(rc);
	if (rc && f->too_many_names)
		return err_set(e, ERR_UNAVAILABLE, "the name was not looked up: too many others are being resolved (does the name server answer?)");
	switch (rc) {
	case CURLE_OK:
		return 0;
	case CURLE_OPERATION_TIMEDOUT:
		return say_timeout(f, e);
	case CURLE_WRITE_ERROR:
		return f->over_limit || f->stopped || f->response.body.overflow
			       ? say_write_error(f, e)
			       : err_set(e, ERR_BAD_DATA, "the body's Content-Encoding does not decode: %s", text);
	case CURLE_PARTIAL_FILE:
		return say_partial(f, e);
	case CURLE_BAD_CONTENT_ENCODING:
		return err_set(e, ERR_BAD_DATA, "the body's Content-Encoding does not decode: %s", text);
	case CURLE_URL_MALFORMAT:
	case CURLE_UNSUPPORTED_PROTOCOL:
	case CURLE_TOO_MANY_REDIRECTS:
	case CURLE_WEIRD_SERVER_REPLY:
		return err_set(e, ERR_BAD_DATA, "%s", text);
	case CURLE_COULDNT_CONNECT:
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_RESOLVE_PROXY:
	case CURLE_OUT_OF_MEMORY: /* also: no files for the thread that resolves names */
		return say_no_connection(f, text, e);
	case CURLE_ABORTED_BY_CALLBACK:
		if (f->stalled)
			return say_timeout(f, e);
		if (f->upload_error.code)
			return err_set(e, f->upload_error.code, "%s", f->upload_error.msg);
		return err_set(e, ERR_CANCELED, "canceled");
	case CURLE_GOT_NOTHING:
		return err_set(e, ERR_UNAVAILABLE, "the connection was closed without an answer");
	default:
		return err_set(e, ERR_UNAVAILABLE, "%s", text);
	}
}

int fetch_conclude(struct fetch *f, CURLcode rc, struct err *e)
{
	struct fetch_response *r = &f->response;
	long status = 0;
	char *type = NULL;
	curl_off_t got = 0, retry = -1;
	curl_easy_getinfo(f->easy, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_getinfo(f->easy, CURLINFO_CONTENT_TYPE, &type);
	curl_easy_getinfo(f->easy, CURLINFO_SIZE_DOWNLOAD_T, &got);
	curl_easy_getinfo(f->easy, CURLINFO_RETRY_AFTER, &retry);
	r->status = (int)status;
	r->bytes_received = (uint64_t)got;
	r->retry_after_s = retry > 0 ? (int64_t)retry : -1;
	r->duration_ns = clock_mono_ns() - f->started_ns;
	if (type)
		put_text(r->content_type, sizeof r->content_type, type);
	read_headers(f);
	if (rc == CURLE_SEND_ERROR && !status && f->upload && fetch_upload_late_answer(f))
		return 0;
	return say_error(f, rc, e);
}

int fetch_do(struct fetch_client *c, const struct fetch_request *q, struct fetch_response *ret, struct err *e)
{
	struct fetch *f = NULL;
	*ret = (struct fetch_response){ .retry_after_s = -1 };
	int rc = fetch_prepare(&f, c, q, true, e);
	if (rc)
		return rc;
	rc = fetch_conclude(f, curl_easy_perform(f->easy), e);
	f->keep &= !rc;
	*ret = f->response;
	f->response.body = (struct buf){ 0 };
	fetch_destroy(f);
	return rc;
}

void fetch_url_escape(struct view v, struct buf *out)
{
	for (size_t i = 0; i < v.len; i++) {
		unsigned char c = (unsigned char)v.ptr[i];
		if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr("-._~", c)))
			buf_putc(out, (char)c);
		else
			buf_printf(out, "%%%02X", c);
	}
}
