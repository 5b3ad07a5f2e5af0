/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to other servers as requests on one loop of lib/fetch, which has one thread (server.h: fleet_loop_new). Any thread posts and cancels; libcurl
 * is only used by the loop's thread. Between them are two lists under one lock:
 *
 *	post ───► queue ────► fetch_start ─► done(), release()
 *	cancel ─► canceled ─► fetch_cancel ─► release()                                                      */
#ifndef PYRRHA_FLEET_FLEET_LOOP_H
#define PYRRHA_FLEET_FLEET_LOOP_H

#include "fetch/fetch.h"
#include "fleet/server.h"

/* One POST. It lies in a struct of its owner, who sets the first fields and keeps it until release. */
struct fleet_post {
	struct fetch_client *client; /* borrowed until release, as the URL */
	const char *url;
	struct buf body;             /* owned; the loop's thread does not touch it any more once it has called done */
	int64_t until_ms;            /* monotonic: the request ends as timed out; 0 = never */
	uint64_t max_bytes;          /* of the answer */
	/* Called once when the request has ended, unless it was canceled before; status and body, or err are set. The loop's thread. */
	void (*done)(struct fleet_post *p);
	/* The loop holds no reference to the post any more: called once, also after a cancel. The loop's thread, or that of fleet_loop_free. */
	void (*release)(struct fleet_post *p);

	/* What came of it. Written before done, by the loop's thread: */
	struct err err;              /* code 0: an HTTP answer came */
	int status;
	char content_type[128];
	int64_t retry_after_s;       /* -1 = not said */
	uint64_t bytes_received;
	struct buf answer;           /* its memory belongs to the owner of the post */

	/* Of the loop: */
	bool canceled, over;         /* fleet_loop.lock guards them, and next_queued, next_canceled */
	struct fleet_post *next_queued, *next_canceled;
	struct fleet_loop *loop;     /* of the loop's thread, as all below */
	struct fetch *fetch;         /* NULL: not started, or ended */
	struct fleet_post *prev, *next; /* those that run */
	bool again;                  /* it was sent a second time */
};

/* Starts the request, on the loop's thread. A request that fails before the first byte of its answer is sent once more at once, unless its time was over: a
 * server that was restarted has closed the connections that were kept. */
void fleet_loop_post(struct fleet_loop *l, struct fleet_post *p);
/* Cancels the request; does nothing if it has ended. done may be called while this runs. The owner must not free p before this returns. */
void fleet_loop_cancel(struct fleet_loop *l, struct fleet_post *p);
/* Whether so many requests are under way that no more should be posted: 2,000, or half of the files that the process may open. */
bool fleet_loop_is_full(const struct fleet_loop *l);

#endif
