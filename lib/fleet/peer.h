/* SPDX-License-Identifier: Apache-2.0 */
/* A peer is one of the holders that a union asks: the storage of this process, or another server. Calls are in two halves, so that all peers work at once:
 *
 *	v[i] = open(peer i)                  for all: nothing is sent yet
 *	a[i] = start(v[i], call i, limits)   for all
 *	finish(a[i], &result i, &error i)    for all: waits
 *	close(v[i])
 *
 * All calls of a view see one state of the peer, as far as it can (fleet_answer.view_lost). */
#ifndef PYRRHA_FLEET_PEER_H
#define PYRRHA_FLEET_PEER_H

#include "fleet/call.h"

struct fleet_peer;
struct fleet_peer_view;
struct fleet_ask;

struct fleet_peer_ops {
	struct fleet_peer_view *(*open)(struct fleet_peer *p);
	void (*close)(struct fleet_peer_view *v);
	/* Any thread; several calls of a view may be under way. call, what it refers to, and lim stay until finish. */
	struct fleet_ask *(*start)(struct fleet_peer_view *v, const struct fleet_call *call, const struct source_limits *lim);
	/* Waits until the answer is here, the call is canceled, or its time is over: a moment before lim's deadline, so that the others' answers can still be
	 * used. Statistics and samples were added to lim; what the answer lacks was added to lim->damage. Frees the ask. Strings of the result are valid until
	 * close. ERR_UNAVAILABLE, ERR_TIMEOUT, ERR_CORRUPT, ERR_IO, ERR_DENIED, ERR_INTERNAL, ERR_BAD_DATA: the peer's share is missing, and the message says
	 * why, without the peer's name. Other codes: the question itself fails (limits, canceled, sums that do not fit); if a server said so, the message
	 * names it. */
	int (*finish)(struct fleet_ask *a, struct fleet_result *ret, struct err *e);
	/* Waits at most until that moment (monotonic) for finish to have work to do: an answer is here, the time is over, the question was canceled, or the ask
	 * has to do something itself. Returns whether it has. */
	bool (*wait)(struct fleet_ask *a, int64_t until_ms);
	/* In place of finish: nobody wants the answer any more. Does not wait for the peer. */
	void (*cancel)(struct fleet_ask *a);
	/* The peer's external labels; known after the first call that came back. Valid until close. */
	struct labels (*labels)(struct fleet_peer_view *v);
};

/* What one call may name. */
struct fleet_call_max {
	size_t refs;
	size_t tiles;                /* of covers: (series + 1) x tiles */
	size_t parts, groups;
};

struct fleet_peer {
	const struct fleet_peer_ops *ops;
	const char *name;            /* for warnings: a server's URL without user info; NULL: this process */
	void (*unref)(struct fleet_peer *p);
	struct fleet_peer *(*ref)(struct fleet_peer *p);
	const struct fleet_call_max *max; /* a union sends several calls in place of a larger one; NULL: any number */
};

/* The storage of this process. Calls run in finish, on the caller's thread and lim->pool. labels(arg) returns owned (labels_dup) or NULL: the external labels now. rows: for a
 * source without that operation (call.h); may be NULL. Returns a reference. Borrows the source. */
struct fleet_peer *fleet_local_peer_new(struct source *s, struct labels *(*labels)(void *arg), void *arg, fleet_rows_fn rows, void *rows_arg);

#endif
