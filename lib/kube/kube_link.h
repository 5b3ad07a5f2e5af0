/* SPDX-License-Identifier: Apache-2.0 */
/* Sequential requests to an API server, whose answers are read as they arrive. A dead connection is noticed within KUBE_SILENT_MS: a
 * small probe distinguishes a quiet watch from a stalled server.
 *
 *	request ──► answer, bytes, bytes ... ──► end
 *	               │ nothing for a while: GET /version ──► any answer: it lives, go on waiting
 *	               │                                  └──► none: the request is ended, ERR_TIMEOUT
 *	               └ the peer is gone: TCP's keepalive ends it
 *
 * One thread. */
#ifndef PYRRHA_KUBE_KUBE_LINK_H
#define PYRRHA_KUBE_KUBE_LINK_H

#include "fetch/fetch.h"

struct kube_client;

struct kube_link {
	struct kube_client *client;  /* borrowed */
	uint32_t quiet_ms;           /* without a byte, before it is asked whether it lives; 0 = 12 s. As much again for the answer */
	struct fetch_loop *loop;     /* its connections; gone after each failure */
};

struct kube_request {
	const char *url;
	int64_t timeout_ms;
	bool compressed;
	/* Body of a 200. false ends the request, with ERR_CANCELED. */
	void (*on_open)(void *arg);
	bool (*on_data)(void *arg, const char *p, size_t n);
	/* Asked at least twice a second; true ends the request, with ERR_CANCELED. */
	bool (*stop)(void *arg);
	void *arg;
};

struct kube_answer {
	int status;                  /* 0 = none came */
	int64_t retry_after_s;       /* -1 = not said */
	bool silent;                 /* the request was ended because the server was silent */
	struct buf error;            /* the beginning of the body, unless the status is 200 */
};

/* 0: the answer arrived completely, whatever its status; a status other than 200 is never an error. Else as fetch_do. */
int kube_link_ask(struct kube_link *l, const struct kube_request *q, struct kube_answer *ret, struct err *e) MUST_USE;
void kube_link_release(struct kube_link *l);

#endif
