/* SPDX-License-Identifier: Apache-2.0 */
/* The server's life, and libmicrohttpd's callbacks. One daemon (a poll loop in a thread of its own) per listening
 * socket; they share the workers of work.c. Not its epoll loop: that loses a connection whose bytes and end come before
 * accept, and blocks after exactly as many events as it takes at a time (still in 1.0). A request's first callback has its URI, the second its
 * headers, the next ones its body in pieces. The last one asks for the answer, and is repeated after a resume. */
#include "httpd/httpd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files.h"
#include "base/num.h"
#include "httpd/internal.h"

#define DEFAULT_BODY ((size_t)4 << 20)
#define DEFAULT_WORKERS 64
#define DEFAULT_CONNECTIONS 512
#define DEFAULT_IDLE_S 60
#define DEFAULT_HEADERS_MS 10000
#define DEFAULT_BODY_MS 60000
#define DEFAULT_ANSWER_MS 60000
#define DEFAULT_BODIES ((size_t)64 << 20)
#define DEFAULT_ANSWERS ((size_t)256 << 20)
#define PARSED_EARLY 4096 /* bytes of parameters */
#define ACCEPTED_AT_ONCE 64 /* connections in a turn of the loop, at most; and an eighth of all, because they cannot make room for each other */
#define SPARE_CONNECTIONS (3 * ACCEPTED_AT_ONCE) /* libmicrohttpd has these while it closes those of earlier turns */
#define CONNECTION_MEMORY ((size_t)128 << 10) /* request line and headers must fit into part of it */
#define LOOP_STACK ((size_t)8 << 20) /* httpd_options.choose may parse */

static bool method_of(const char *name, enum httpd_method *ret, bool *ret_head)
{
	static const struct { const char *name; enum httpd_method method; } table[] = {
		{ "GET", HTTPD_GET }, { "HEAD", HTTPD_GET }, { "POST", HTTPD_POST }, { "PUT", HTTPD_PUT },
		{ "DELETE", HTTPD_DELETE },
	};
	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		if (strcmp(name, table[i].name) == 0) {
			*ret = table[i].method;
			*ret_head = i == 1;
			return true;
		}
	return false;
}

/* The server's own answers. */
static void answer(struct httpd_request *rq, int status, const char *method)
{
	const struct httpd_options *o = &rq->httpd->o;
	struct buf allow = { 0 };
	rq->route = NULL;
	switch (status) {
	case MHD_HTTP_NO_CONTENT: /* OPTIONS */
		httpd_route_allow(rq, &allow);
		httpd_set_header(rq, MHD_HTTP_HEADER_ALLOW, "%s", allow.ptr);
		rq->status = status;
		break;
	case MHD_HTTP_METHOD_NOT_ALLOWED:
		httpd_route_allow(rq, &allow);
		httpd_text(rq, status, "%s is not served here; these are: %s", method, allow.ptr);
		httpd_set_header(rq, MHD_HTTP_HEADER_ALLOW, "%s", allow.ptr);
		break;
	case MHD_HTTP_BAD_REQUEST:
		httpd_text(rq, status, "bad percent escape in the path");
		break;
	case MHD_HTTP_CONTENT_TOO_LARGE:
		httpd_text(rq, status, "the request's body is larger than %zu bytes", rq->body.max);
		break;
	case MHD_HTTP_SERVICE_UNAVAILABLE:
		httpd_text(rq, status, rq->busy ? "too many large requests at once; try again" : "the server is stopping");
		httpd_retry(rq);
		httpd_set_header(rq, MHD_HTTP_HEADER_CONNECTION, "close");
		break;
	default:
		if (o->not_found)
			o->not_found(rq, o->arg);
		else
			httpd_text(rq, status, "no such page: %.*s", (int)MIN(rq->path.len, 200), rq->path.ptr);
	}
	buf_free(&allow);
	httpd_request_serve(rq);
	rq->state = RQ_ANSWERED;
}

static enum MHD_Result send_answer(struct httpd_request *rq)
{
	if (!rq->response)
		return MHD_NO;
	if (rq->closes)
		MHD_add_response_header(rq->response, MHD_HTTP_HEADER_CONNECTION, "close");
	slot_answer(rq->slot, rq->answer_size, rq->answer_held);
	return MHD_queue_response(rq->connection, (unsigned)rq->status, rq->response);
}

/* A request that is small enough to be read on the loop may choose its lane by its parameters. A mistake in them is told by the
 * worker. */
static void choose_lane(struct httpd_request *rq)
{
	const struct httpd_options *o = &rq->httpd->o;
	rq->lane = rq->route->lane;
	if (!o->choose)
		return;
	if (!(rq->route->flags & HTTPD_RAW) && rq->query.len + rq->body.len <= PARSED_EARLY)
		rq->parsed = httpd_request_parse(rq, NULL) == 0;
	if (!rq->parsed)
		rq->params.n = 0;
	rq->lane = o->choose(rq, rq->lane, o->arg);
}

static int route(struct httpd_request *rq, const char *method)
{
	if (strcmp(method, "OPTIONS") == 0)
		return MHD_HTTP_NO_CONTENT;
	return method_of(method, &rq->method, &rq->head) ? httpd_route_request(rq) : MHD_HTTP_METHOD_NOT_ALLOWED;
}

static enum MHD_Result send_refusal(struct httpd_request *rq)
{
	rq->route = NULL;
	httpd_request_serve(rq);
	rq->state = RQ_ANSWERED;
	return send_answer(rq);
}

/* The request is complete: serve it. */
static enum MHD_Result dispatch(struct httpd_request *rq, const char *method)
{
	struct httpd *h = rq->httpd;
	int status = rq->body_too_large ? MHD_HTTP_CONTENT_TOO_LARGE : rq->busy ? MHD_HTTP_SERVICE_UNAVAILABLE : rq->routed;
	rq->arrived_ns = clock_mono_ns();
	if (rq->refused)
		httpd_admit_refuse(rq);
	if (rq->refused || httpd_refuse_stranger(rq))
		return send_refusal(rq);
	if (status == MHD_HTTP_NOT_FOUND && h->prefix[0] && (strcmp(rq->uri, "/") == 0 || !rq->path.len)) {
		char *to = xasprintf("%s/", h->prefix);
		httpd_redirect(rq, MHD_HTTP_FOUND, to);
		free(to);
		httpd_request_serve(rq);
		rq->state = RQ_ANSWERED;
		return send_answer(rq);
	}
	if (status) {
		answer(rq, status, method);
		return send_answer(rq);
	}
	if (rq->route->flags & HTTPD_QUICK) {
		httpd_request_serve(rq);
		rq->state = RQ_ANSWERED;
		return send_answer(rq);
	}
	choose_lane(rq);
	rq->state = RQ_AT_WORK;
	slot_set_phase(rq->slot, SLOT_WORK);
	MHD_suspend_connection(rq->connection);
	enum httpd_submitted how = httpd_work_submit(h->work, rq);
	if (how == SUBMIT_DONE)
		return MHD_YES;
	if (how == SUBMIT_FULL) {
		httpd_request_refuse(rq, HTTPD_FULL);
		rq->state = RQ_ANSWERED;
	} else {
		answer(rq, MHD_HTTP_SERVICE_UNAVAILABLE, method);
	}
	MHD_resume_connection(rq->connection);
	return MHD_YES;
}

/* No byte of an unauthorized body is stored, also where no login is needed. */
static bool keeps_body(const struct httpd_request *rq)
{
	return !rq->refused && !(rq->route && rq->route->right == HTTPD_RIGHT_NONE_NEEDED);
}

/* A length that is too large is refused before the body is read. */
static bool announced_too_large(struct httpd_request *rq)
{
	struct view v = httpd_header(rq, MHD_HTTP_HEADER_CONTENT_LENGTH);
	uint64_t n = 0;
	if (v.len && !num_parse_u64(v, &n))
		return true;
	return n > rq->body.max;
}

/* A piece of the body. False: it is not read on. */
static bool take_body(struct httpd_request *rq, const char *data, size_t n)
{
	struct httpd *h = rq->httpd;
	if (!keeps_body(rq))
		return httpd_admit_swallow(rq, n);
	if (rq->body_too_large)
		return false; /* told once that it is too large; the rest is not read for ever */
	if (rq->busy)
		return true;
	rq->body_counted += n;
	httpd_metrics_held(HTTPD_BODIES, (ptrdiff_t)n);
	if (atomic_fetch_add(&h->bodies, n) + n > h->o.max_bodies) {
		rq->busy = true;
		buf_free(&rq->body);
		httpd_metrics_refused("bodies");
		return true;
	}
	buf_put(&rq->body, data, n);
	rq->body_too_large = rq->body.overflow;
	return true;
}

/* The headers are here: for the first time, or again after a login was checked. */
static enum MHD_Result begin(struct httpd_request *rq, const char *method, const char *version)
{
	if (!rq->login_asked) {
		if (httpd_refuse_framing(rq, method, version)) {
			rq->seen = true;
			return send_refusal(rq);
		}
		rq->routed = route(rq, method);
		if (rq->route && rq->route->max_body)
			rq->body.max = rq->route->max_body;
	}
	if (!httpd_admit(rq))
		return MHD_YES;
	rq->seen = true;
	slot_set_phase(rq->slot, SLOT_BODY);
	if (!keeps_body(rq))
		rq->body.max = MIN(rq->body.max, HTTPD_SWALLOWED);
	if (!announced_too_large(rq))
		return MHD_YES;
	rq->body_too_large = true;
	return dispatch(rq, method);
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *c, const char *url, const char *method,
				  const char *version, const char *data, size_t *n_data, void **ctx)
{
	struct httpd_request *rq = *ctx;
	(void)arg, (void)c, (void)url;
	if (!rq || (rq->state != RQ_ANSWERED && slot_is_shut(rq->slot)))
		return MHD_NO;
	if (!rq->seen)
		return begin(rq, method, version);
	if (*n_data) {
		if (!take_body(rq, data, *n_data))
			return MHD_NO;
		*n_data = 0;
		return MHD_YES;
	}
	return rq->state == RQ_ANSWERED ? send_answer(rq) : dispatch(rq, method);
}

static void *on_uri(void *arg, const char *uri, struct MHD_Connection *c)
{
	const struct http_listener *l = arg;
	struct httpd_request *rq = httpd_request_new(l->httpd, c, uri);
	rq->loopback = l->loopback;
	slot_begin(rq->slot);
	return rq;
}

static void on_completed(void *arg, struct MHD_Connection *c, void **ctx, enum MHD_RequestTerminationCode why)
{
	struct httpd_request *rq = *ctx;
	(void)arg, (void)c;
	if (!rq)
		return;
	*ctx = NULL;
	if (why != MHD_REQUEST_TERMINATED_COMPLETED_OK && rq->state == RQ_ANSWERED)
		rq->left = true;
	if (rq->state == RQ_ANSWERED)
		httpd_metrics_observe(rq);
	slot_set_phase(rq->slot, SLOT_IDLE);
	httpd_request_free(rq);
}

/* ---- connections ---- */

static unsigned most_connections(const struct httpd *h)
{
	return h->o.max_connections + SPARE_CONNECTIONS;
}

/* How many connections libmicrohttpd may get in this turn of its loop, with the one that it accepts itself. Before version 1.0.0, a connection that
 * is handed over beyond its limit makes it keep a lock for ever (new_connection_process_), and nothing is served any more. When it accepts a
 * connection, it has counted all that were handed over in earlier turns, but not yet that connection. */
static unsigned room_for_more(const struct http_listener *l)
{
	unsigned has = MHD_get_daemon_info(l->daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS)->num_connections + 1, most = most_connections(l->httpd);
	return MIN(MIN(l->httpd->o.max_connections / 8, (unsigned)ACCEPTED_AT_ONCE), most - MIN(has, most));
}

/* libmicrohttpd accepts one connection in each turn of its loop. Beside hundreds of clients whose connections are closed and come
 * again, a new one would wait for hundreds of turns. The others are handed over from here; each comes by on_accept. */
static void accept_more(struct http_listener *l)
{
	struct MHD_Daemon *daemon = l->daemon;
	l->accepting = true;
	unsigned n = daemon ? room_for_more(l) : 0;
	for (unsigned i = 1; i < n; i++) {
		struct sockaddr_storage from;
		socklen_t len = sizeof from;
		int fd = accept4(l->accept_fd, (struct sockaddr *)&from, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0)
			break;
		MHD_add_connection(daemon, fd, (struct sockaddr *)&from, len); /* closes it if it fails */
	}
	l->accepting = false;
}

static enum MHD_Result on_accept(void *arg, const struct sockaddr *from, socklen_t len)
{
	struct http_listener *l = arg;
	(void)len;
	bool room = slots_admit(l->slots, from);
	if (!l->accepting)
		accept_more(l);
	return room ? MHD_YES : MHD_NO;
}

static void on_connection(void *arg, struct MHD_Connection *c, void **ctx, enum MHD_ConnectionNotificationCode what)
{
	struct http_listener *l = arg;
	if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
		httpd_peer_free(*ctx);
		*ctx = NULL;
		return;
	}
	*ctx = httpd_peer_new(l, c);
}

/* ---- start ---- */

static int start_daemon(struct httpd *h, struct http_listener *l, struct err *e)
{
	struct MHD_OptionItem tls[] = {
		{ h->tls ? MHD_OPTION_HTTPS_CERT_CALLBACK : MHD_OPTION_END, 0, (void *)(intptr_t)httpd_tls_no_certificate },
		{ MHD_OPTION_END, 0, NULL },
	};
	unsigned flags = MHD_USE_POLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | (h->tls ? MHD_USE_TLS : 0u);
	l->daemon = MHD_start_daemon(flags, 0, on_accept, l, on_request, h,
				     MHD_OPTION_LISTEN_SOCKET, l->fd,
				     MHD_OPTION_URI_LOG_CALLBACK, on_uri, l,
				     MHD_OPTION_NOTIFY_COMPLETED, on_completed, h,
				     MHD_OPTION_NOTIFY_CONNECTION, on_connection, l,
				     MHD_OPTION_CONNECTION_LIMIT, most_connections(h),
				     MHD_OPTION_CONNECTION_TIMEOUT, h->o.idle_timeout_s,
				     MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_MEMORY,
				     MHD_OPTION_THREAD_STACK_SIZE, LOOP_STACK,
				     MHD_OPTION_ARRAY, tls,
#if MHD_VERSION >= 0x00097701
				     MHD_OPTION_CLIENT_DISCIPLINE_LVL, 1, /* framing.c refuses the same requests where libmicrohttpd is older */
#endif
				     MHD_OPTION_END);
	if (!l->daemon)
		return err_set(e, ERR_IO, "cannot start the HTTP server on %s", l->address);
	return 0;
}

static void set_limits(struct httpd_options *o)
{
	if (!o->headers_ms)
		o->headers_ms = DEFAULT_HEADERS_MS;
	if (!o->body_ms)
		o->body_ms = DEFAULT_BODY_MS;
	if (!o->answer_ms)
		o->answer_ms = DEFAULT_ANSWER_MS;
	if (!o->max_bodies)
		o->max_bodies = DEFAULT_BODIES;
	if (!o->max_answers)
		o->max_answers = DEFAULT_ANSWERS;
}

static int set_options(struct httpd *h, const struct httpd_options *o, struct err *e)
{
	h->o = *o;
	set_limits(&h->o);
	h->prefix = xstrdup(o->prefix ? o->prefix : "");
	h->allow_hint = o->allow_hint ? xstrdup(o->allow_hint) : NULL;
	h->external_url = xstrdup(o->external_url ? o->external_url : "");
	h->spool_dir = o->spool_dir ? xstrdup(o->spool_dir) : NULL;
	for (size_t i = 0; i < o->n_allowed_hosts; i++)
		vec_push(&h->allowed_hosts, xstrdup(o->allowed_hosts[i]));
	if (!h->o.max_body)
		h->o.max_body = DEFAULT_BODY;
	if (!h->o.max_workers)
		h->o.max_workers = DEFAULT_WORKERS;
	if (!h->o.max_connections)
		h->o.max_connections = DEFAULT_CONNECTIONS;
	if (!h->o.idle_timeout_s)
		h->o.idle_timeout_s = DEFAULT_IDLE_S;
	if (o->cors_origin && o->cors_origin[0]) {
		h->cors_any = strcmp(o->cors_origin, ".*") == 0 || strcmp(o->cors_origin, "*") == 0;
		int rc = regex_new(&h->cors, view_of(h->cors_any ? ".*" : o->cors_origin), true, e);
		if (rc)
			return err_wrap(e, "allowed origins");
	}
	return 0;
}

static void make_slots(struct httpd *h)
{
	for (size_t i = 0; i < h->listeners.n; i++) {
		struct http_listener *l = &h->listeners.v[i];
		l->httpd = h;
		l->slots = slots_new(&(struct slots_options){ .max = h->o.max_connections, .headers_ms = h->o.headers_ms,
				     .body_ms = h->o.body_ms, .answer_ms = h->o.answer_ms,
				     .idle_ms = (int64_t)h->o.idle_timeout_s * 1000 });
	}
}

/* A row that leaves its right out must not be one that is open to everybody. */
static int check_rights(const struct httpd_options *o, struct err *e)
{
	for (size_t i = 0; i < o->n_routes; i++) {
		unsigned right = o->routes[i].right;
		if (right != HTTPD_RIGHT_NONE_NEEDED && right != HTTPD_RIGHT_READ && right != HTTPD_RIGHT_WRITE && right != HTTPD_RIGHT_READ_WRITE &&
		    right != HTTPD_RIGHT_ADMIN)
			return err_set(e, ERR_INTERNAL, "the route %s does not say which right it needs", o->routes[i].path);
	}
	return 0;
}

int httpd_start(struct httpd **ret, const struct httpd_options *o, struct err *e)
{
	struct httpd *h = NEW(struct httpd);
	httpd_metrics_register();
	int rc = set_options(h, o, e);
	/* A request that waits for its check keeps its connection, whoever else comes: half of them is the most. */
	h->login = login_new(httpd_admit_answered, MIN(LOGIN_WAITERS, MAX(h->o.max_connections / 2, 1u)));
	if (!rc && o->web_config_file && *o->web_config_file)
		rc = httpd_web_open(h, o->web_config_file, e);
	if (!rc)
		rc = check_rights(o, e);
	for (size_t i = 0; !rc && i < o->n_listen; i++)
		rc = httpd_listen_on(h, o->listen[i], e);
	if (!rc && !h->listeners.n)
		rc = err_set(e, ERR_BAD_DATA, "no listen address");
	if (!rc) {
		files_raise_limit(); /* each connection is a descriptor */
		make_slots(h);
		h->work = httpd_work_new(h);
		h->packer = packer_new();
		rc = httpd_watch_start(h, e);
	}
	/* h is complete before the first request can come. */
	for (size_t i = 0; !rc && i < h->listeners.n; i++)
		rc = start_daemon(h, &h->listeners.v[i], e);
	if (!rc)
		rc = httpd_web_watch(h, e);
	if (rc) {
		httpd_stop(h, 0);
		return rc;
	}
	*ret = h;
	return 0;
}

const char *httpd_address(const struct httpd *h, size_t i)
{
	return i < h->listeners.n ? h->listeners.v[i].address : NULL;
}

bool httpd_is_tls(const struct httpd *h)
{
	return h->tls;
}

unsigned httpd_in_flight(const struct httpd *h)
{
	return httpd_work_in_flight(h->work);
}

void httpd_drain(struct httpd *h, int64_t grace_ms)
{
	if (!h->draining)
		for (size_t i = 0; i < h->listeners.n; i++) {
			struct http_listener *l = &h->listeners.v[i];
			if (l->daemon)
				MHD_quiesce_daemon(l->daemon);
			shutdown(l->fd, SHUT_RDWR); /* accept_fd listens no more either */
			close(l->fd);
			l->fd = -1;
		}
	h->draining = true;
	if (h->work && !httpd_work_wait_idle(h->work, grace_ms))
		httpd_work_cancel_all(h->work);
}

void httpd_stop(struct httpd *h, int64_t grace_ms)
{
	if (!h)
		return;
	httpd_web_unwatch(h);
	httpd_drain(h, grace_ms);
	if (h->work) {
		httpd_work_close(h->work); /* open connections may still ask something */
		httpd_work_wait_idle(h->work, -1);
		login_close(h->login);
	}
	for (size_t i = 0; i < h->listeners.n; i++)
		if (h->listeners.v[i].daemon)
			MHD_stop_daemon(h->listeners.v[i].daemon);
	httpd_watch_stop(h);
	httpd_work_free(h->work);
	packer_free(h->packer);
	login_free(h->login);
	for (size_t i = 0; i < h->listeners.n; i++) {
		slots_free(h->listeners.v[i].slots);
		close(h->listeners.v[i].accept_fd);
	}
	httpd_web_close(h);
	regex_unref(h->cors);
	vec_free(&h->listeners);
	free(h->prefix);
	free(h->allow_hint);
	free(h->external_url);
	free(h->spool_dir);
	for (size_t i = 0; i < h->allowed_hosts.n; i++)
		free(h->allowed_hosts.v[i]);
	vec_free(&h->allowed_hosts);
	free(h);
}
