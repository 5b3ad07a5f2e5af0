/* SPDX-License-Identifier: Apache-2.0 */
/* Asking others over HTTP, on libcurl. A client is made from a configuration (auth, TLS, proxy, headers) and may be shared by threads.
 * A request is one exchange: either blocking (fetch_do), or on a loop that one thread runs and that carries any number at once. Bodies
 * have a cap that is enforced while they arrive, compressed or not. */
#ifndef PYRRHA_FETCH_FETCH_H
#define PYRRHA_FETCH_FETCH_H

#include <stdatomic.h>

#include "base/buf.h"
#include "base/err.h"
#include "config/config_http.h"

struct fetch_client;

/* c is borrowed for the life of the client (NULL = defaults). Files (tokens, passwords, certificates) are read for
 * each request, so that rotated ones work. user_agent: copied or NULL. Returns owned. */
struct fetch_client *fetch_client_new(const struct http_config *c, const char *user_agent);
/* release(owner) is called when the client is freed: it keeps the memory of c alive. */
void fetch_client_owner(struct fetch_client *c, void (*release)(void *owner), void *owner);
/* Makes blocking exchanges that succeed leave their connection, at most n of them, to later ones of this client, until it has been idle for that long.
 * Uploads still have connections of their own. Before the first exchange. */
void fetch_client_keep(struct fetch_client *c, size_t n, int64_t idle_ms);
#define FETCH_KEPT_MAX 32
struct fetch_client *fetch_client_ref(struct fetch_client *c);
void fetch_client_unref(struct fetch_client *c);

#define FETCH_HEADERS_MAX 5

/* What a receiver of data does with a piece. */
enum fetch_data {
	FETCH_END,   /* it ends the exchange */
	FETCH_TAKEN, /* it has taken the piece */
	FETCH_LATER  /* only for an exchange on a loop: the receiver has no room now. It gets the same bytes again after 20 ms or so, perhaps together with later ones */
};

/* A body that is read piece by piece while it is sent, of any size. */
struct fetch_upload {
	uint64_t size;               /* bytes */
	/* Copies n bytes from `offset` on to p. Offsets rise, and begin at 0 again when the request is sent once more (a redirect, a kept connection
	 * that was dead). An error ends the exchange and is its result. Called by the thread of fetch_do, or of the loop. */
	int (*read)(void *arg, uint64_t offset, char *p, size_t n, struct err *e);
	void *arg;
};

struct fetch_response;

struct fetch_request {
	const char *method;          /* NULL = GET, POST with a body, PUT with an upload */
	const char *url;
	const char *unix_socket;     /* NULL, or a path to dial instead of the address */
	const char *const *headers;  /* "Name: value" */
	size_t n_headers;
	struct view body;            /* copied */
	const struct fetch_upload *upload; /* NULL, or the body instead: borrowed until the exchange has ended */
	int64_t timeout_ms;          /* for the whole exchange; 0 = none */
	int64_t stall_ms;            /* how long no byte may come or go, once it is connected; the time in callbacks does not count; 0 = for ever */
	int64_t connect_timeout_ms;  /* 0 = the timeout, at most 10 s */
	uint64_t max_bytes;          /* of the body after Content-Encoding; 0 = FETCH_MAX_BYTES */
	bool compressed;             /* accept gzip and inflate it */
	const atomic_bool *cancel;   /* NULL, or: fetch_do ends within a second of it being set; on a loop: fetch_cancel */
	bool keep_method;            /* a redirect (301, 302, 303) of a POST is another POST with the body, not a GET without it */
	bool own_connection;         /* not shared with requests before and after it */
	bool keepalive;              /* a dead peer is noticed within half a minute, also on an idle connection */
	/* NULL, or called when the headers of an answer are complete, before its body; again after a redirect. Of r only status and headers are set. */
	void (*on_head)(void *on_data_arg, const struct fetch_response *r);
	const char *want_headers[FETCH_HEADERS_MAX]; /* names of answer headers whose values are needed; literals; NULL after the last */
	/* Instead of collecting the body: called as it arrives. */
	enum fetch_data (*on_data)(void *arg, const char *p, size_t n);
	void *on_data_arg;
};
#define FETCH_MAX_BYTES ((uint64_t)64 << 20)

struct fetch_response {
	int status;                  /* 0 = none came */
	struct buf body;             /* what came, also of an error */
	char content_type[128];
	char headers[FETCH_HEADERS_MAX][128]; /* the values of want_headers; "" = none came */
	int64_t retry_after_s;       /* -1 = not said */
	uint64_t bytes_received;     /* on the wire, body only */
	int64_t duration_ns;         /* from start to end */
};
void fetch_response_release(struct fetch_response *r);

/* Waits for the answer. 0: an HTTP answer came, whatever its status. Negative, with words that help: ERR_TIMEOUT,
 * ERR_LIMIT (body over max_bytes), ERR_UNAVAILABLE (name, connection, TLS), ERR_BAD_DATA (cut short, bad encoding),
 * ERR_CANCELED; or the error of an upload's read. Without TLS, an answer that comes before an upload was sent is an answer, a
 * redirect as well, which is not followed then. Secrets are not in messages. */
int fetch_do(struct fetch_client *c, const struct fetch_request *q, struct fetch_response *ret, struct err *e) MUST_USE;

struct fetch_loop;
struct fetch; /* one exchange on a loop */

struct fetch_loop *fetch_loop_new(struct err *e);
/* Cancels what still runs, without calling done. */
void fetch_loop_free(struct fetch_loop *l);
/* Starts an exchange; all strings of q are copied. done is called once, from fetch_loop_turn, with the result (e->code 0: an answer).
 * The callback may take bytes from r, which is released afterwards. It may start others. */
int fetch_start(struct fetch_loop *l, struct fetch_client *c, const struct fetch_request *q,
		void (*done)(void *arg, struct fetch_response *r, const struct err *e), void *arg, struct fetch **ret,
		struct err *e) MUST_USE;
/* Ends it now; done is not called. Not from within another thread than the loop's. */
void fetch_cancel(struct fetch *f);
/* Bodies above FETCH_SMALL_BODY get this many bytes a second all together (0 = no limit). One thread runs the loop; without a limit, a
 * few fast or highly compressed bodies would delay all others. The default is none. */
void fetch_loop_pace(struct fetch_loop *l, uint64_t bytes_per_s);
#define FETCH_SMALL_BODY ((uint64_t)256 << 10)
/* How many names may be looked up at a time; the default is FETCH_NAMES. Each uses a thread and three files until the name server has
 * answered or the look-up was abandoned. When the server is down, further requests fail at once. */
void fetch_loop_names(struct fetch_loop *l, size_t most);
#define FETCH_NAMES 512
/* Processes pending events, waiting at most wait_ms for one. */
int fetch_loop_turn(struct fetch_loop *l, int wait_ms, struct err *e) MUST_USE;
/* Makes a waiting turn return; from any thread. */
void fetch_loop_wake(struct fetch_loop *l);
size_t fetch_loop_running(const struct fetch_loop *l);

/* Percent-encodes all but unreserved characters (a query's key or value). */
void fetch_url_escape(struct view v, struct buf *out);

#endif
