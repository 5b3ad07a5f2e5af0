/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of httpd. The path of a request: loop thread (reads it) → routed → quick handler on the loop, or suspended and
 * queued in its lane → worker (handler, compression) → resumed → loop thread (sends). Between "queued" and "resumed" only the worker
 * uses it (or the watcher, while it waits); before and after only the loop. */
#ifndef PYRRHA_HTTPD_INTERNAL_H
#define PYRRHA_HTTPD_INTERNAL_H

#include <gnutls/abstract.h>
#include <microhttpd.h>
#include <pthread.h>
#include <zstd.h>

#include "base/vec.h"
#include "httpd/httpd.h"
#include "httpd/login.h"
#include "httpd/slots.h"
#include "httpd/web_tls.h"

#define MAX_SEGMENTS 4    /* number of segments in braces per route */
#define MAX_PARAMS 1024
#define COMPRESS_LEAST 1400   /* below about one packet compression gains nothing */

struct path_segment {
	struct view name, value;
};

struct response_header {
	char *name, *value; /* owned */
};

enum refused { REFUSED_NOT, REFUSED_BY_LOGIN, REFUSED_BY_RATE, REFUSED_BY_CERTIFICATE };
enum request_state { RQ_READING, RQ_AT_WORK, RQ_ANSWERED };

struct httpd_request {
	struct httpd *httpd;
	struct MHD_Connection *connection;
	struct peer *peer;                 /* its connection */
	struct slot *slot;                 /* of that */
	struct web_config *web;            /* as it began; a reference. NULL: none */
	struct httpd_request *next, *prev; /* in work.c's list while in flight */
	struct httpd_request *wait_next, *wait_prev; /* in its lane's queue */
	unsigned lane;
	bool waits, counted_waiting;
	enum request_state state;
	enum httpd_method method;
	bool head, seen;
	char *uri;                         /* as sent, owned */
	struct view path, query;           /* into uri, prefix taken off */
	bool loopback;                     /* its listener is: Host is looked at */
	bool outside;                      /* the path does not have the prefix */
	struct buf body;
	size_t body_counted;               /* bytes of it in httpd.bodies */
	bool body_too_large, busy;         /* busy: no memory for its body */
	bool closes;                       /* its connection is closed after the answer */
	const struct httpd_route *route;   /* NULL: answered by httpd itself */
	int routed;                        /* 0, or the status that answers what there is no route for */
	const char *handler;               /* metric label */
	struct login_waiter login;
	bool login_asked;                  /* its password is, or was, being checked */
	enum refused refused;              /* the reason why it is refused */
	size_t swallowed;                  /* bytes of its body, once it is refused */
	struct path_segment segments[MAX_SEGMENTS];
	size_t n_segments;
	VEC(struct httpd_param) params;
	struct arena arena;
	int fd;
	int64_t start_ns;
	int64_t arrived_ns;                /* all of it is here; 0: not yet */
	int64_t late_ns;                   /* it waits for a worker until then; 0: no limit */
	bool parsed;                       /* params are filled in */
	uint64_t serial;
	atomic_bool canceled;
	bool left;                         /* canceled because the client went away */

	int status;
	const char *type;
	struct buf out;
	struct packer *packer;             /* has what was before `out`; NULL: none */
	atomic_bool gives_way;             /* its worker has a low priority */
	struct buf stages;                 /* of Server-Timing */
	int64_t stage_ns;                  /* when the last of them ended */
	struct spool *spool;               /* the file with what was before `out`, and what the packer put out; NULL: none */
	bool no_compress, bodyless;
	bool is_page;                      /* what HTTPD_PAGE says of a route */
	bool is_gzip_file;                 /* out is the content of a gzip file, which is the answer */
	struct MHD_Response *response;     /* complete; queued by the loop thread */
	uint64_t answer_size;
	size_t answer_held;                /* bytes of it in httpd.answers; while it is made, those that were announced */
	size_t beside;                     /* bytes that the handler holds beside `out`: the highest number that it gave to httpd_out_needs */
	VEC(struct response_header) headers;
};

struct http_listener {
	struct httpd *httpd;
	struct slots *slots;
	int fd;                            /* -1: it listens no more */
	int accept_fd;                     /* the same socket, for the loop alone; open until its daemon has ended */
	bool accepting;                    /* the loop's: it takes more connections than the one that it was told */
	bool loopback;
	char address[80];
	struct MHD_Daemon *_Atomic daemon; /* NULL: it has not started yet */
};

struct httpd_work;
struct httpd_web;

struct httpd {
	struct httpd_options o;            /* strings and routes are pointed to by the copies below */
	char *prefix, *allow_hint, *external_url;
	VEC(char *) allowed_hosts;
	struct regex *cors;                /* NULL: none */
	bool cors_any;
	VEC(struct http_listener) listeners;
	struct httpd_work *work;
	struct packer *packer;             /* NULL: none */
	struct httpd_watch *watch;
	struct login *login;
	struct httpd_web *web;             /* NULL: there is no web configuration */
	bool tls;
	bool login_wanted;                 /* others can reach it, and that was not allowed for itself */
	char *spool_dir;                   /* of files of large answers; NULL: they stay in memory */
	atomic_size_t bodies, answers;     /* bytes held */
	atomic_uint_fast64_t spooled;      /* bytes in files of answers */
	bool draining;
};

/* listen.c: binds every address of one "host:port" and adds listeners. */
int httpd_listen_on(struct httpd *h, const char *address, struct err *e) MUST_USE;

/* route.c: sets route and segments, or returns the status that answers the request (404, 405, ...). */
int httpd_route_request(struct httpd_request *rq);
/* Methods that some route takes for this path, as an Allow header. */
void httpd_route_allow(const struct httpd_request *rq, struct buf *out);

/* framing.c: whether its headers, or where it ends, can be read in another way than ours; then its answer is set. Its headers are here.
 * method, version: as libmicrohttpd hands them over. */
bool httpd_refuse_framing(struct httpd_request *rq, const char *method, const char *version);

/* admit.c: whether it is let in, its headers being here; sets rq->refused. False: it is suspended until that is known, then checked
 * again. */
bool httpd_admit(struct httpd_request *rq);
void httpd_admit_answered(struct login_waiter *w);
/* The answer to a refused request. */
void httpd_admit_refuse(struct httpd_request *rq);
#define HTTPD_SWALLOWED ((size_t)256 << 10) /* of a body that is not kept, so that its client reads the answer and keeps its connection */
/* A piece of its body. False: it is not read on. */
bool httpd_admit_swallow(struct httpd_request *rq, size_t n);

/* origin.c: whether a page of another site may be behind it, then it is answered with 403. Routed already. */
bool httpd_refuse_stranger(struct httpd_request *rq);

/* request.c, request_fields.c */
struct httpd_request *httpd_request_new(struct httpd *h, struct MHD_Connection *c, const char *uri);
void httpd_request_free(struct httpd_request *rq);
/* Those of the answer, set so far. */
void httpd_request_drop_headers(struct httpd_request *rq);
void httpd_request_drop_header(struct httpd_request *rq, const char *name);
/* Retry-After, once: another time it may succeed. */
void httpd_retry(struct httpd_request *rq);
/* Reads query and form into params. */
int httpd_request_parse(struct httpd_request *rq, struct err *e) MUST_USE;
int httpd_param_add(struct httpd_request *rq, struct view name, struct view value, struct err *e) MUST_USE;
/* multipart.c: type is the body's Content-Type. */
int httpd_multipart_parse(struct httpd_request *rq, struct view type, struct err *e) MUST_USE;
/* Runs the handler if there is one, then makes the response. */
void httpd_request_serve(struct httpd_request *rq);
/* Makes the response of a request that gets no worker. */
void httpd_request_refuse(struct httpd_request *rq, enum httpd_refusal why);

/* response.c: from what the handler left to an MHD_Response in rq->response. */
void httpd_response_build(struct httpd_request *rq);

/* encoding.c. */
enum httpd_coding { HTTPD_PLAIN, HTTPD_GZIP, HTTPD_ZSTD };
/* *ret is malloc'd. level: of gzip 1..12, of zstd 1..19. False if it does not get smaller or memory is out. */
bool httpd_compress(enum httpd_coding coding, struct view in, int level, char **ret, size_t *ret_n);
/* A gzip file of it, whatever its size. False: memory is out. */
bool httpd_gzip_file(struct view in, int level, struct buf *ret);

/* Sets up a new or used context for answers. False: libzstd has no memory. */
bool httpd_zstd_set(ZSTD_CCtx *c, int level);

/* packer.c: zstd on other threads than the caller's, for large answers, also while they are still being written. */
struct packer;
/* NULL: there is one CPU only. */
struct packer *packer_new(void);
void packer_free(struct packer *p);
/* False: it is at work for another answer, or NULL. Who takes it drops it in the end. */
bool packer_take(struct packer *p, int level);
void packer_drop(struct packer *p);
/* Takes the answer's bytes so far out of its buffer, if there are enough, except the last byte, which json.h reads. bounded: what
 * was taken counts against the buffer's ceiling. False: compressing failed, and so does the answer. */
bool packer_feed(struct packer *p, struct buf *answer, bool bounded);
/* Takes what was put out so far, if that is much, for the caller to keep: *ret is owned. False: it is not. */
bool packer_take_out(struct packer *p, struct buf *ret);
/* Whether some of the answer is only here. NULL: no. */
bool packer_has(const struct packer *p);
/* The answer, of which this is the rest, without what was taken out. False if memory is out; else *ret is owned. */
bool packer_end(struct packer *p, struct view rest, struct buf *ret);

/* spool.c: an answer on its way into a file. */
struct spool;
/* In h->spool_dir, which is not NULL. An error is told by the first call of spool_put. canceled is borrowed. */
struct spool *spool_new(struct httpd *h, enum httpd_coding coding, const atomic_bool *canceled);
/* NULL is fine. */
void spool_free(struct spool *s);
/* ERR_UNAVAILABLE, ERR_BUSY: the file cannot take it; ERR_CANCELED. last: the answer is complete. */
int spool_put(struct spool *s, struct view in, bool last, struct err *e) MUST_USE;
/* Takes the answer's bytes so far out of its buffer, if there are enough, except the last byte, which json.h reads. */
int spool_feed(struct spool *s, struct buf *answer, struct err *e) MUST_USE;
/* After the last was put: the descriptor, and the bytes in httpd.spooled, are the caller's. */
int spool_take(struct spool *s, uint64_t *ret_size);

/* watch.c: the thread that watches sockets. */
struct httpd_watch {
	struct httpd *httpd;
	pthread_t thread;
	int epoll, wake;
};

int httpd_watch_start(struct httpd *h, struct err *e) MUST_USE;
void httpd_watch_stop(struct httpd *h);
/* watched.c */
void httpd_watch_add(struct httpd_watch *w, int fd, uint64_t serial);
void httpd_watch_remove(struct httpd_watch *w, int fd);

/* work.c: lanes of workers. */
struct httpd_work *httpd_work_new(struct httpd *h);
void httpd_work_free(struct httpd_work *w);
enum httpd_submitted { SUBMIT_DONE, SUBMIT_FULL, SUBMIT_CLOSED };
/* Suspended by the caller; whoever answers it resumes the connection. Does nothing if its lane is full, or after httpd_work_close. */
enum httpd_submitted httpd_work_submit(struct httpd_work *w, struct httpd_request *rq);
/* From the watcher: a client left; time passes. */
void httpd_work_left(struct httpd_work *w, uint64_t serial);
void httpd_work_tick(struct httpd_work *w, int64_t now_ns);
unsigned httpd_work_in_flight(struct httpd_work *w);
/* Waits until no request is in flight; false after timeout_ms (-1: no limit). */
bool httpd_work_wait_idle(struct httpd_work *w, int64_t timeout_ms);
void httpd_work_cancel_all(struct httpd_work *w);
/* Cancels all, and takes nothing more. */
void httpd_work_close(struct httpd_work *w);

/* web_current.c: the web configuration that counts now. */
int httpd_web_open(struct httpd *h, const char *path, struct err *e) MUST_USE;
/* Reads it again when it changes, until _unwatch. */
int httpd_web_watch(struct httpd *h, struct err *e) MUST_USE;
void httpd_web_unwatch(struct httpd *h);
void httpd_web_close(struct httpd *h);
/* Returns a reference; NULL: there is none. */
struct web_config *httpd_web_config(struct httpd *h);
/* Gives the request the current configuration, and holds off its replacement, and that of login.c's state, until the release.
 * Otherwise, of two configurations, the one with certificates and the one with passwords might each rely on the other. */
void httpd_web_hold(struct httpd_request *rq);
void httpd_web_release(struct httpd_request *rq);
/* Whether the connection is within the limits; and the answer to one that is not. */
bool httpd_rate_allows(struct httpd_request *rq, int64_t now_ns);
void httpd_rate_refuse(struct httpd_request *rq);

/* tls.c: the other end of a connection. */
struct peer;
struct peer *httpd_peer_new(struct http_listener *l, struct MHD_Connection *c);
void httpd_peer_free(struct peer *p);
struct slot *httpd_peer_slot(const struct peer *p);
/* For MHD_OPTION_HTTPS_CERT_CALLBACK. */
int httpd_tls_no_certificate(gnutls_session_t s, const gnutls_datum_t *req, int n_req, const gnutls_pk_algorithm_t *pk, int n_pk,
			     gnutls_pcert_st **pcert, unsigned *n_pcert, gnutls_privkey_t *key);
/* Whether its client's certificate is what is wanted now; and the answer if not. On the loop. */
bool httpd_client_cert_does(struct httpd_request *rq);
void httpd_client_cert_refuse(struct httpd_request *rq);

/* metrics.c */
void httpd_metrics_register(void);
void httpd_metrics_observe(const struct httpd_request *rq);
void httpd_metrics_in_flight(int delta);
enum httpd_held { HTTPD_BODIES, HTTPD_ANSWERS };
void httpd_metrics_held(enum httpd_held what, ptrdiff_t delta);
void httpd_metrics_waiting(const char *lane, int delta);
void httpd_metrics_connections(int delta);
/* A connection that we close, or do not take. */
void httpd_metrics_closed(const char *why);
void httpd_metrics_login_refused(const char *reason);
/* A password, by bcrypt. */
void httpd_metrics_login_checked(void);
/* A request that is answered without its handler. */
void httpd_metrics_refused(const char *why);

#endif
