/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of httpd share. A request goes: loop thread (reads it) → routed → quick handler on the loop, or
 * suspended and queued → worker (handler, compression) → resumed → loop thread (sends). Between "queued" and
 * "resumed" only the worker side touches it; before and after only the loop. */
#ifndef PYRRHA_HTTPD_INTERNAL_H
#define PYRRHA_HTTPD_INTERNAL_H

#include <microhttpd.h>
#include <pthread.h>

#include "base/vec.h"
#include "httpd/httpd.h"
#include "httpd/slots.h"

#define MAX_SEGMENTS 4    /* segments in braces of one route */
#define MAX_PARAMS 1024
#define GZIP_LEAST 1400   /* below about one packet compression gains nothing */

struct segment {
	struct view name, value;
};

struct header {
	char *name, *value; /* owned */
};

enum request_state { RQ_READING, RQ_AT_WORK, RQ_ANSWERED };

struct httpd_request {
	struct httpd *httpd;
	struct MHD_Connection *connection;
	struct slot *slot;                 /* of its connection */
	struct httpd_request *next, *prev; /* in work.c's list while at work */
	enum request_state state;
	enum httpd_method method;
	bool head, seen;
	char *uri;                         /* as sent, owned */
	struct view path, query;           /* into uri, prefix taken off */
	bool outside;                      /* the path does not have the prefix */
	struct buf body;
	size_t body_counted;               /* bytes of it in httpd.bodies */
	bool body_too_large, busy;         /* busy: no memory for its body */
	const struct httpd_route *route;   /* NULL: answered by httpd itself */
	const char *handler;               /* metric label */
	struct segment segments[MAX_SEGMENTS];
	size_t n_segments;
	VEC(struct httpd_param) params;
	struct arena arena;
	int fd;
	int64_t start_ns;
	uint64_t serial;
	atomic_bool canceled;
	bool left;                         /* canceled because the client went away */

	int status;
	const char *type;
	struct buf out;
	bool no_compress, bodyless;
	struct MHD_Response *response;     /* complete; queued by the loop thread */
	uint64_t answer_size;
	size_t answer_held;                /* bytes of it in httpd.answers */
	VEC(struct header) headers;
};

struct listener {
	struct httpd *httpd;
	struct slots *slots;
	int fd;
	char address[80];
	struct MHD_Daemon *daemon;
};

struct httpd_work;

struct httpd {
	struct httpd_options o;            /* strings and routes are pointed to by the copies below */
	char *prefix, *allow_hint;
	struct regex *cors;                /* NULL: none */
	bool cors_any;
	VEC(struct listener) listeners;
	struct httpd_work *work;
	atomic_size_t bodies, answers;     /* bytes held */
	bool draining;
};

/* listen.c: binds every address of one "host:port" and adds listeners. */
int httpd_listen_on(struct httpd *h, const char *address, struct err *e);

/* route.c: sets route and segments, or returns the status that answers the request (404, 405, ...). */
int httpd_route_request(struct httpd_request *rq);
/* Methods that some route takes for this path, as an Allow header. */
void httpd_route_allow(const struct httpd_request *rq, struct buf *out);

/* request.c */
struct httpd_request *httpd_request_new(struct httpd *h, struct MHD_Connection *c, const char *uri);
void httpd_request_free(struct httpd_request *rq);
/* Those of the answer, set so far. */
void httpd_request_drop_headers(struct httpd_request *rq);
/* Reads query and form into params. */
int httpd_request_parse(struct httpd_request *rq, struct err *e);
/* Runs the handler if there is one, then makes the response. */
void httpd_request_serve(struct httpd_request *rq);

/* response.c: from what the handler left to an MHD_Response in rq->response. */
void httpd_response_build(struct httpd_request *rq);
/* gzip; false if it does not get smaller or memory is out. */
bool httpd_gzip_bytes(struct view in, int level, char **ret, size_t *ret_n);

/* httpd.c: closes connections whose time is over, from the watcher. */
void httpd_tick(struct httpd *h);

/* work.c: workers, and the thread that watches sockets. */
struct httpd_work *httpd_work_new(struct httpd *h, struct err *e);
void httpd_work_free(struct httpd_work *w);
/* Suspended by the caller; the worker resumes the connection. False, and nothing done, after httpd_work_close. */
bool httpd_work_submit(struct httpd_work *w, struct httpd_request *rq);
unsigned httpd_work_in_flight(struct httpd_work *w);
/* Waits until nothing is in flight; false after timeout_ms (-1: for ever). */
bool httpd_work_wait_idle(struct httpd_work *w, int64_t timeout_ms);
void httpd_work_cancel_all(struct httpd_work *w);
/* Cancels all, and takes nothing more. */
void httpd_work_close(struct httpd_work *w);

/* metrics.c */
void httpd_metrics_register(void);
void httpd_metrics_observe(const struct httpd_request *rq);
void httpd_metrics_in_flight(int delta);
void httpd_metrics_connections(int delta);
/* A connection that we close, or do not take. */
void httpd_metrics_closed(const char *why);
/* A request that is answered without its handler. */
void httpd_metrics_refused(const char *why);

#endif
