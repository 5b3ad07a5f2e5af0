/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of lib/fetch: a client, and one running exchange. */
#ifndef PYRRHA_FETCH_FETCH_INTERNAL_H
#define PYRRHA_FETCH_FETCH_INTERNAL_H

#include <curl/curl.h>
#include <pthread.h>

#include "base/lock.h"
#include "fetch/fetch.h"

struct fetch_client {
	int refs; /* atomic */
	const struct http_config *config; /* borrowed; never NULL */
	char *user_agent;
	struct fetch_token *token;        /* NULL unless oauth2 is configured */
	void (*release)(void *owner);
	void *owner;
	size_t max_kept;                  /* connections of blocking exchanges; 0 = none is kept */
	int64_t idle_ms;                  /* and for how long */
	struct mutex kept_lock;
	CURL *kept[FETCH_KEPT_MAX];       /* kept_lock guards it, as n_kept: handles, each with its connection */
	size_t n_kept;
};

/* A kept handle, or a new one. May be NULL. */
CURL *fetch_client_take(struct fetch_client *c, const struct fetch_request *q, bool blocking);
/* Keeps a handle that is not in use any more, or frees it. */
void fetch_client_leave(struct fetch_client *c, CURL *h);
void fetch_client_drop_kept(struct fetch_client *c);

struct fetch {
	struct fetch_client *client;
	CURL *easy;
	struct curl_slist *headers, *proxy_headers, *connect_to;
	struct fetch_response response;
	uint64_t max_bytes, seen;
	bool over_limit, stopped;
	bool keep;                        /* its handle may serve another exchange when this one has succeeded */
	bool wait;                        /* the caller's thread may be held up (for a token) */
	const char *want_headers[FETCH_HEADERS_MAX];
	const atomic_bool *cancel;
	void (*on_head)(void *arg, const struct fetch_response *r);
	enum fetch_data (*on_data)(void *arg, const char *p, size_t n);
	void *on_data_arg;
	const struct fetch_upload *upload;
	uint64_t uploaded;                /* bytes of it that curl has */
	struct err upload_error;          /* of its read; code 0 = none */
	int upload_socket;                /* a second descriptor of the connection; -1 = none */
	int64_t stall_ms, moved_ns;       /* of the request; monotonic: when a byte came or went, or a callback returned */
	curl_off_t moved;                 /* bytes that had come and gone then */
	bool stalled;
	int64_t started_ns, timeout_ms;
	int socket_errno;                 /* of a socket that could not be made; 0 = all could */
	bool connected;                   /* on a loop: TCP of the last connection is there; TLS or a tunnel may still be missing */
	bool requested;                   /* the last connection carries the request; false while a new one is made */
	curl_off_t connect_us, answer_us; /* what curl's sums of CONNECT_TIME and STARTTRANSFER_TIME were when the last connection, the last request began */
	char problem[CURL_ERROR_SIZE];
	/* On a loop: */
	struct fetch_loop *loop;
	struct fetch_share *share;
	struct shard *shard;
	bool paused;
	int64_t full_ns;                  /* monotonic: when its receiver had no room (FETCH_LATER); 0 = it had, or the exchange has none */
	bool resolving, too_many_names;   /* curl's thread looks its host's name up; was not let */
	struct fetch *prev, *next, *prev_paused, *next_paused;
	void (*done)(void *arg, struct fetch_response *r, const struct err *e);
	void *arg;
};

/* Shared by the exchanges of a loop. */
struct fetch_share {
	size_t resolving, max_resolving;  /* exchanges whose name is looked up */
	/* Bytes that large bodies may receive now; if it is below 0, they are paused until it has grown again. */
	uint64_t pace;                    /* bytes a second; 0 = no limit */
	int64_t allowed, grown_ns;
	struct fetch *first_paused, *last_paused; /* the exchange that waits longest is first */
	size_t n_paused;
};

/* The limit in bytes a second from now on (0 = no limit); the bytes that became allowed since the last call. */
void fetch_share_pace(struct fetch_share *s, uint64_t bytes_per_s);
void fetch_share_grow(struct fetch_share *s);
/* Whether n more bytes of a large body may come now. If not, the exchange is paused, and the loop goes on with it later. */
bool fetch_share_may_take(const struct fetch *f, size_t n);
/* They came, and count. */
void fetch_share_took(struct fetch *f, size_t n);
/* The exchange is paused for now: there is no room for its bytes. */
void fetch_share_pause(struct fetch *f);
/* It is paused no longer. */
void fetch_share_forget(struct fetch *f);
/* Whether its name may be looked up now; the name is known, or the exchange ends. */
bool fetch_share_resolve(struct fetch *f);
void fetch_share_resolved(struct fetch *f);

/* The state of a client's token. */
struct fetch_token {
	const struct http_oauth2 *config;
	pthread_t thread;
	bool thread_runs;
	atomic_bool stop;
	struct mutex lock;
	pthread_cond_t changed;
	char *text;                       /* lock guards it, as all below; NULL = none came yet */
	int64_t good_until_ms;            /* monotonic */
	struct err last;                  /* of the last failure; code 0: none since */
};
#define FETCH_TOKEN_MS 10000              /* timeout of a token URL, and the exchanges that wait for its answer */

/* Starts the thread; the failure to do so is what fetch_token_get says. c is borrowed. */
struct fetch_token *fetch_token_new(const struct http_oauth2 *c, void *(*keep_fresh)(void *token));
/* Ends the thread. */
void fetch_token_free(struct fetch_token *t);
/* Appends a token that is still good. Without one: waits for it (at most FETCH_TOKEN_MS), or fails at once. */
int fetch_token_get(struct fetch_token *t, bool wait, struct buf *out, struct err *e) MUST_USE;
/* For the thread: sets a token (takes text) or the error, then waits until that time (monotonic) or the end. */
void fetch_token_put(struct fetch_token *t, char *text, int64_t good_until_ms);
void fetch_token_fail(struct fetch_token *t, const struct err *why);
void fetch_token_rest(struct fetch_token *t, int64_t until_ms);

/* The upload of a request onto a handle. */
void fetch_upload_set(struct fetch *f, const struct fetch_request *q);
/* The socket of the connection that an upload goes to; -1 = there is none any more. */
void fetch_upload_watch(struct fetch *f, int fd);
/* Whether an answer can be read though sending failed; then it is the response. */
bool fetch_upload_late_answer(struct fetch *f);

/* Once for the process, as often as it is called. */
void fetch_set_curl_up(void);
/* A client without tokens. c is borrowed (NULL = defaults). */
struct fetch_client *fetch_client_plain(const struct http_config *c, const char *user_agent);

/* Makes the handle ready to run; on failure nothing is left. */
int fetch_prepare(struct fetch **ret, struct fetch_client *c, const struct fetch_request *q, bool wait, struct err *e)
	MUST_USE;
/* Reads the result out of the handle once curl is done with it; *e tells what went wrong, in words. */
int fetch_conclude(struct fetch *f, CURLcode rc, struct err *e);
void fetch_destroy(struct fetch *f);
/* Credentials, headers, TLS and proxy of the client's configuration, onto a handle. */
int fetch_apply_config(struct fetch *f, const char *url, struct err *e) MUST_USE;

/* The thread of a token (fetch_token_new): asks for it by client credentials, and again before it ends. */
void *fetch_oauth2_keep_fresh(void *token);

#endif
