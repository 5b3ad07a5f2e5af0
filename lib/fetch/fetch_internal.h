/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of lib/fetch share: a client, and one exchange while it lasts. */
#ifndef PYRRHA_FETCH_FETCH_INTERNAL_H
#define PYRRHA_FETCH_FETCH_INTERNAL_H

#include <curl/curl.h>

#include "fetch/fetch.h"

struct fetch_client {
	int refs; /* atomic */
	const struct http_config *config; /* borrowed; never NULL */
	char *user_agent;
	struct fetch_oauth2 *oauth2;      /* NULL unless configured */
	void (*release)(void *owner);
	void *owner;
};

struct fetch {
	struct fetch_client *client;
	CURL *easy;
	struct curl_slist *headers, *proxy_headers, *connect_to;
	struct fetch_response response;
	uint64_t max_bytes, seen;
	bool over_limit, stopped;
	bool wait;                        /* the caller's thread may be held up (for a token) */
	const char *want_headers[FETCH_HEADERS_MAX];
	const atomic_bool *cancel;
	void (*on_head)(void *arg, int status);
	bool (*on_data)(void *arg, const char *p, size_t n);
	void *on_data_arg;
	int64_t started_ns, timeout_ms;
	int socket_errno;                 /* of a socket that could not be made; 0 = all could */
	char problem[CURL_ERROR_SIZE];
	/* On a loop: */
	struct fetch_loop *loop;
	struct shard *shard;
	bool paused;
	bool resolving, too_many_names;   /* curl's thread looks its host's name up; was not let */
	struct fetch *prev, *next, *prev_paused, *next_paused;
	void (*done)(void *arg, struct fetch_response *r, const struct err *e);
	void *arg;
};

/* Makes the handle ready to run; on failure nothing is left. */
int fetch_prepare(struct fetch **ret, struct fetch_client *c, const struct fetch_request *q, bool wait, struct err *e)
	MUST_USE;
/* Reads the result out of the handle once curl is done with it; *e tells what went wrong, in words. */
int fetch_conclude(struct fetch *f, CURLcode rc, struct err *e);
void fetch_destroy(struct fetch *f);
/* fetch_loop.c: whether n more bytes of a large body may come now. If not, the loop goes on with it later. */
bool fetch_loop_may_take(struct fetch *f, size_t n);

/* The name is known: a socket is made. */
void fetch_loop_resolved(struct fetch *f);

/* Credentials, headers, TLS and proxy of the client's configuration, onto a handle. */
int fetch_apply_config(struct fetch *f, const char *url, struct err *e) MUST_USE;
/* A file's content without white space around it, into out; at most 1 MiB. */
int fetch_read_file(const char *path, struct buf *out, struct err *e) MUST_USE;

/* Tokens by client credentials, asked for by a thread of their own. */
struct fetch_oauth2 *fetch_oauth2_new(const struct http_oauth2 *c);
void fetch_oauth2_free(struct fetch_oauth2 *o);
/* Appends a token that is still good. Without one: waits for it (at most 10 s), or fails at once. */
int fetch_oauth2_token(struct fetch_oauth2 *o, bool wait, struct buf *out, struct err *e) MUST_USE;

#endif
