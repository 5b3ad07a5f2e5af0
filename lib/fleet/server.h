/* SPDX-License-Identifier: Apache-2.0 */
/* Another server as a peer: its questions go over HTTP as POST URL/api/v1/source/ask, all of them on one loop with one thread (struct fleet_loop), decoded by the thread that
 * waits. It keeps a mirror of the server's dictionary from question to question, and what is known of its health. */
#ifndef PYRRHA_FLEET_SERVER_H
#define PYRRHA_FLEET_SERVER_H

#include "fetch/fetch.h"
#include "fleet/peer.h"

#define FLEET_PATH "/api/v1/source/ask"

struct fleet_loop;
/* Starts the thread. */
int fleet_loop_new(struct fleet_loop **ret, struct err *e) MUST_USE;
/* No call may be at work. Ends the thread. */
void fleet_loop_free(struct fleet_loop *l);

struct fleet_server_options {
	struct fleet_loop *loop;     /* borrowed */
	struct fetch_client *client; /* a reference is taken: TLS, login, proxy */
	const char *url;             /* scheme://host:port/prefix; copied */
	int64_t timeout_ms;          /* of a call, besides the question's own; 0 = none */
	uint64_t max_answer_bytes;   /* 0 = 256 MiB */
	uint64_t max_dictionary_bytes; /* of the mirror; 0 = 256 MiB */
};

struct fleet_server;

/* Returns a reference (peer.unref). */
struct fleet_server *fleet_server_new(const struct fleet_server_options *o);
struct fleet_peer *fleet_server_peer(struct fleet_server *s);

/* What the page shows. */
struct fleet_server_status {
	char url[256];
	bool asked, up;              /* up: the last call came back with an answer */
	char error[512];             /* of the last that did not; "" if up */
	int64_t last_ok_ms, last_error_ms; /* wall clock; 0: never */
	int64_t last_ms;             /* how long the last call took */
	uint64_t calls, failures, bytes_received;
	uint64_t dictionary_bytes;
	struct labels *labels;       /* owned by the receiver, free(): external labels; NULL: not known yet */
};
void fleet_server_status(struct fleet_server *s, struct fleet_server_status *ret);
/* Sends FLEET_OPEN and FLEET_CLOSE, and waits at most timeout_ms: for the health of servers that nobody asks. */
int fleet_server_probe(struct fleet_server *s, int64_t timeout_ms, struct err *e) MUST_USE;
/* Metrics pyrrha_fleet_*: once, by main. */
void fleet_server_register_metrics(void);

#endif
