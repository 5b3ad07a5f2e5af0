/* SPDX-License-Identifier: Apache-2.0 */
/* Serves HTTP: a table of routes; requests are read completely, responses are written into a buffer.
 *
 * libmicrohttpd's loop thread (one per listening address) reads and writes; a handler runs on a worker thread, which
 * may block. Workers are started when they are needed, up to a maximum for each lane (kind of requests). A request that waits for a
 * worker uses only its connection. While a request is at work its socket is
 * watched, and httpd_canceled turns true when the client leaves or the server stops. A client that only ends its side of
 * the connection (a half-close) has left, as with Go's net/http.
 *
 *	static const struct httpd_route routes[] = {
 *		{ "/metrics", HTTPD_GET, HTTPD_RIGHT_READ, serve_metrics },
 *		{ "/api/v1/label/{name}/values", HTTPD_GET, HTTPD_RIGHT_READ, serve_values },
 *		{ "/-/reload", HTTPD_POST, HTTPD_RIGHT_ADMIN, serve_reload },
 *	};
 *	httpd_start(&h, &(struct httpd_options){ .routes = routes, ... }, e);
 *
 * A path in braces is one segment, "{*}" at the end is everything below and is tried last. HEAD is answered where
 * GET is. Metrics: pyrrha_http_requests_total{handler,code} and its relatives; the handler is the route's path. */
#ifndef PYRRHA_HTTPD_HTTPD_H
#define PYRRHA_HTTPD_HTTPD_H

#include <stdatomic.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/regex.h"

struct httpd;
struct httpd_request;

/* HEAD and OPTIONS are not listed: the server answers them from the rest. */
enum httpd_method { HTTPD_GET = 1, HTTPD_POST = 2, HTTPD_PUT = 4, HTTPD_DELETE = 8, HTTPD_ANY = 15 };

enum httpd_route_flags {
	HTTPD_QUICK = 1, /* runs on the loop thread, so that it answers while all workers are busy: must not block */
	HTTPD_PAGE = 2,  /* HTML of ours: gets the policy that lets it load its own scripts */
	HTTPD_RAW = 4,   /* query and body are no parameters: not decoded, and nothing in them is an error */
	HTTPD_ANY_HOST = 8, /* served under any host name: nothing in it is worth protecting from DNS rebinding */
};

/* The right that a login needs. No route is without one: httpd_start refuses a table that leaves it out. */
enum httpd_right {
	HTTPD_RIGHT_NONE_NEEDED = 1, /* not even a login; a body is passed over */
	HTTPD_RIGHT_READ = 2,
	HTTPD_RIGHT_WRITE = 4,       /* adds data */
	HTTPD_RIGHT_READ_WRITE = 6,  /* both: adds what it read */
	HTTPD_RIGHT_ADMIN = 8,       /* changes or ends the program, deletes data */
	HTTPD_RIGHT_ALL = HTTPD_RIGHT_READ | HTTPD_RIGHT_WRITE | HTTPD_RIGHT_ADMIN
};

struct httpd_route {
	const char *path;
	unsigned methods;       /* one that leaves out GET changes something, and is refused to pages of other sites (origin.c) */
	enum httpd_right right;
	void (*handle)(struct httpd_request *rq, void *arg);
	unsigned flags;
	unsigned lane;          /* index of httpd_options.lanes */
	const char *text;       /* what it does, for docs/reference/routes.md; may be NULL */
	size_t max_body;        /* bytes of a request's body; 0 = max_body of httpd_options */
};

/* A kind of requests with its own workers: those of one lane never delay those of another. */
struct httpd_lane {
	const char *name;       /* as metrics show it; borrowed */
	unsigned workers;       /* at most; 0 = max_workers */
	unsigned max_waiting;   /* requests that wait for one of them; beyond: 503 at once. 0 = all connections may */
	unsigned at_once;       /* requests that run at a time. While others wait, one that has run for a second continues at a low
	                         * priority (nice 10), and the next one starts. 0 = workers */
};

enum httpd_refusal {
	HTTPD_FULL,     /* its lane's queue is */
	HTTPD_LATE,     /* it waited for as long as httpd_wait_at_most said */
	HTTPD_CANCELED  /* its client left, or the server stops */
};

struct httpd_options {
	const char *const *listen;  /* "127.0.0.1:7070", "[::1]:7070", "localhost:0", ":7070" (all interfaces) */
	size_t n_listen;
	bool allow_beyond_loopback; /* else an address that others can reach is ERR_DENIED, unless the web configuration has a login */
	const char *web_config_file; /* web_config.h; NULL or "": none. It and what it names are read again when they change */
	const char *allow_hint;     /* what the user sets to allow it, for that error: "--web.allow-insecure" */
	const struct httpd_route *routes; /* borrowed until httpd_stop */
	size_t n_routes;
	/* Called before each handler; false: it has answered, the handler is not called. May be NULL. */
	bool (*before)(struct httpd_request *rq, void *arg);
	const struct httpd_lane *lanes; /* borrowed; NULL: one without a bound */
	size_t n_lanes;
	/* Chooses the lane of a request that goes to a worker; `lane` is its route's. On the loop thread: must be quick. The
	 * parameters are there if httpd_parsed. May be NULL. */
	unsigned (*choose)(struct httpd_request *rq, unsigned lane, void *arg);
	/* Answers, with 503, what is HTTPD_FULL or HTTPD_LATE; httpd adds Retry-After. On the loop or the watcher. May be NULL. */
	void (*refuse)(struct httpd_request *rq, unsigned lane, enum httpd_refusal why, void *arg);
	/* Answers, with 404, requests for a path without a route. On the loop: must be quick. NULL: with a line of text. */
	void (*not_found)(struct httpd_request *rq, void *arg);
	/* Answers what has parameters that cannot be read, instead of the handler; NULL: with the error as text. */
	void (*bad_request)(struct httpd_request *rq, const struct err *e, void *arg);
	void *arg;                  /* handed to every handler */
	const char *prefix;         /* of all paths, "" or "/pyrrha": taken off before routing */
	const char *external_url;   /* "https://example.org/pyrrha": an origin and a host of this server; NULL or "" = none */
	bool has_external_url;      /* there is a flag to set it, which an error may name */
	const char *const *allowed_hosts; /* other names that a loopback listener is asked by, without port */
	size_t n_allowed_hosts;
	const char *cors_origin;    /* anchored expression for origins that may read; NULL or "" = none */
	size_t max_body;            /* bytes of a request's body; 0 = 4 MiB */
	size_t max_arena;           /* bytes of a request's arena; 0 = 64 MiB */
	unsigned max_workers;       /* of a lane that does not say; 0 = 64 */
	unsigned max_connections;   /* of a listening address; 0 = 512 */
	unsigned idle_timeout_s;    /* of a connection that neither sends nor takes; 0 = 60 */
	/* Time limits of a connection for each part of a request; see slots.h. */
	int64_t headers_ms;         /* 0 = 10 s */
	int64_t body_ms;            /* 0 = 60 s */
	int64_t answer_ms;          /* 0 = 60 s, and a second more for each 64 KiB */
	size_t max_bodies;          /* bytes of all requests' bodies together; 0 = 64 MiB. Beyond: 503 */
	size_t max_answers;         /* bytes of all answers in memory that are complete, or announce what they take; 0 = 256 MiB. Beyond, clients that take nothing lose
	                             * theirs, and what is still too much is sent from a file, or answered with 503 */
	const char *spool_dir;      /* where a large answer is a file without a name while it is made and sent; all of them together have an eighth
	                             * of what is free there. NULL: answers are in memory */
};

/* Starts listening. allow_hint, prefix, external_url, allowed_hosts, cors_origin, spool_dir and listen are copied. */
int httpd_start(struct httpd **ret, const struct httpd_options *o, struct err *e) MUST_USE;
/* The i-th bound address as a client writes it ("127.0.0.1:7070", "[::1]:41234"), NULL past the last. */
const char *httpd_address(const struct httpd *h, size_t i);
/* Whether it is asked by https. */
bool httpd_is_tls(const struct httpd *h);
/* Stops listening, lets requests at work end for grace_ms, then sets their cancel flag and waits for them.
 * Frees h; NULL is fine. */
void httpd_stop(struct httpd *h, int64_t grace_ms);
/* Only the first two steps: no new connections, and after grace_ms what is at work is canceled. */
void httpd_drain(struct httpd *h, int64_t grace_ms);
/* Number of requests at work. */
unsigned httpd_in_flight(const struct httpd *h);

/* ---- the request; views live as long as it does ---- */

enum httpd_method httpd_method(const struct httpd_request *rq);
/* As sent, without prefix and query. */
struct view httpd_path(const struct httpd_request *rq);
/* The text after the '?', as sent. */
struct view httpd_query(const struct httpd_request *rq);
/* A segment that the route names in braces ("*" for the rest), percent-decoded. */
struct view httpd_segment(const struct httpd_request *rq, const char *name);

/* Parameters of a POSTed form first, then those of the query, then those of a multipart form (as Go has them), in their
 * order; decoded. */
struct httpd_param {
	struct view name, value;
};
const struct httpd_param *httpd_params(const struct httpd_request *rq, size_t *ret_n);
/* The first of that name; {NULL, 0} if there is none. */
struct view httpd_param(const struct httpd_request *rq, const char *name);
/* {NULL, 0} if there is none. */
struct view httpd_header(const struct httpd_request *rq, const char *name);
/* Whether one coding of an Accept-Encoding list, or one type of an Accept list, is wanted by its name: "gzip;q=0" says no. */
bool httpd_accepts(struct view list, const char *coding);
struct view httpd_body(const struct httpd_request *rq);
/* Who sent it, for state that is kept from request to request of one client: "user NAME" or "token NAME" of a login that was checked, else "address ADDRESS".
 * In the request's arena; {NULL, 0} past its cap. */
struct view httpd_sender(struct httpd_request *rq);
/* True once the client is gone; who waits for something else meanwhile watches it (base/flag.h). Valid as long as the request. */
const atomic_bool *httpd_canceled(const struct httpd_request *rq);
struct arena *httpd_arena(struct httpd_request *rq);
/* When all of it was here, CLOCK_MONOTONIC: what a time-out counts from. */
int64_t httpd_arrived_ns(const struct httpd_request *rq);
/* For httpd_options.choose: small requests are parsed before they wait. */
bool httpd_parsed(const struct httpd_request *rq);
/* For httpd_options.choose: how long it may wait for a worker, from its arrival. */
void httpd_wait_at_most(struct httpd_request *rq, int64_t ms);

/* For handlers on a worker: the answer will take long. If others of its lane wait, it continues beside them at a low priority (see struct
 * httpd_lane), now or as soon as one comes. */
void httpd_turn_is_over(struct httpd_request *rq);

/* ---- the response: 200 and text/plain unless said otherwise ---- */

void httpd_status(struct httpd_request *rq, int status);
/* The status of an error, and Retry-After if it is ERR_BUSY. Borrows e. */
void httpd_status_error(struct httpd_request *rq, const struct err *e);
/* Borrowed: a literal. */
void httpd_type(struct httpd_request *rq, const char *content_type);
/* The header Server-Timing reports how long the stage that ended now took (name: letters). The time from the last stage to the handler's
 * return is reported as `encode`, and compression as `compress`. Without stages there is no such header. */
void httpd_stage(struct httpd_request *rq, const char *name, int64_t ns);
/* Copied; what could split a header (control bytes) is left out. */
void httpd_set_header(struct httpd_request *rq, const char *name, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* The body is what is in this buffer when the handler returns. Large text is compressed if the client takes it. */
struct buf *httpd_out(struct httpd_request *rq);
/* Called now and then while a large answer is written: its bytes so far will not change. They are compressed, maybe by other threads, moved to a file
 * once they are many, and removed from the buffer except the last one. ERR_BUSY, ERR_UNAVAILABLE: there is no room for them, the
 * answer cannot be completed; ERR_CANCELED. */
int httpd_out_stays(struct httpd_request *rq, struct err *e) MUST_USE;
/* For answers that grow with what the server has, which no query's budget counts. Called before each row: the memory of the buffer is counted in
 * max_answers before it grows. An answer that is large, or finds no room there, moves to a file as with httpd_out_stays, which this calls; so its
 * bytes so far must not change any more. ERR_LIMIT, ERR_BUSY, ERR_UNAVAILABLE: there is neither room nor a file; ERR_CANCELED. */
int httpd_out_grows(struct httpd_request *rq, struct err *e) MUST_USE;
/* Before a handler allocates memory for such an answer beside the buffer: bytes, at a time at most, until it returns. An answer of less than 1 MiB is
 * not counted. ERR_LIMIT: more than max_answers; ERR_BUSY: other answers take the room. */
int httpd_out_needs(struct httpd_request *rq, size_t bytes, struct err *e) MUST_USE;
/* Bytes of an answer that are in memory at a time, at most, if its writer calls httpd_out_stays often; 0: all of it. */
uint64_t httpd_out_in_memory(const struct httpd_request *rq);
/* What is written is the content of a gzip file, which is the answer: the file has the same content whatever the client accepts. */
void httpd_out_gzip_file(struct httpd_request *rq);
/* Empties it, and forgets what was compressed: another answer takes its place. Texts (httpd_text) do. */
void httpd_out_anew(struct httpd_request *rq);
/* The answer is HTML of ours, as if its route had HTTPD_PAGE. */
void httpd_set_page(struct httpd_request *rq);
/* Bytes that are compressed already, or would not get smaller: sent as they are. */
void httpd_no_compress(struct httpd_request *rq);
/* Status, text/plain, a line of text. */
void httpd_text(struct httpd_request *rq, int status, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* The same of an error: its status, its message, and Retry-After if it is ERR_BUSY. Borrows e. */
void httpd_text_error(struct httpd_request *rq, const struct err *e);
void httpd_redirect(struct httpd_request *rq, int status, const char *location);

/* A regular file as the body, from its beginning, a piece at a time. Takes the descriptor. A file that ends before `size`
 * ends the connection. */
void httpd_send_file(struct httpd_request *rq, int fd, uint64_t size);

/* A file that never changes while the program runs: compressed once, with an ETag from its content. */
struct httpd_asset {
	const char *type;       /* content type, borrowed */
	struct view body, gzip; /* gzip.ptr NULL: not worth it */
	char etag[24];
	bool immutable;         /* its name contains its content's hash: may be cached for ever */
};
/* body is borrowed for the asset's life. */
void httpd_asset_init(struct httpd_asset *a, const char *type, struct view body, bool immutable);
void httpd_asset_release(struct httpd_asset *a);
/* The asset, or 304. */
void httpd_send_asset(struct httpd_request *rq, const struct httpd_asset *a);

/* ---- small things that callers of httpd need too ---- */

/* Percent-decoding in place of a copy in the arena; plus: '+' is a blank. False: a bad escape, or the arena's cap. */
bool httpd_decode(struct arena *a, struct view v, bool plus, struct view *ret);
/* Splits "host:port", "[v6]:port", ":port"; false if it has another form. Out hold 256 and 8 bytes. */
bool httpd_split_address(const char *s, char host[256], char port[8]);

#endif
