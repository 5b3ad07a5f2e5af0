/* SPDX-License-Identifier: Apache-2.0 */
/* One receiver at work.
 *
 *	floats ──► filter ──► backlog (disk) ──► round ──► batches, cut by series ──► requests ──► POST
 *
 * A round is cut into as many batches as may be sent in parallel. All samples of a series are in one batch, in order, and the requests
 * of a batch follow each other. The next round begins when all samples were accepted or permanently refused. A request that is refused
 * as malformed (400) is cut in halves, a few times: what is wrong with one sample costs no other. One thread, that of struct
 * remote_write, does all of this. */
#ifndef PYRRHA_REMOTE_OUTLET_H
#define PYRRHA_REMOTE_OUTLET_H

#include "base/metrics.h"
#include "fetch/fetch.h"
#include "remote/backlog.h"
#include "remote/write_filter.h"

/* A part of a batch: one request. */
struct outlet_range {
	size_t from, to;
};

struct outlet_batch {
	struct outlet *o;
	struct sink_float *v;     /* of the round's */
	VEC(struct outlet_range) todo; /* the last one is next, or under way */
	unsigned splits;          /* halvings that are left */
	struct fetch *fetch;      /* NULL: none is under way */
	int64_t retry_at_ms, backoff_ms, began_ns;
	size_t bytes;             /* of the request under way */
};

/* Where a sample of the round goes. */
struct outlet_place {
	uint64_t hash; /* of its labels */
	uint32_t part, index;
};

struct outlet {
	struct remote_write_config *owner; /* a reference */
	const struct receiver_config *config;
	struct fetch_client *client;
	struct fetch_loop *loop;  /* borrowed */
	char *dir, *name, *shown;
	struct backlog *backlog;
	uint64_t max_bytes;       /* of it */
	struct write_filter filter;
	uint64_t number;          /* it has all it wants of the records up to here */
	int64_t numbered_ms;      /* when that was last put on disk */
	struct backlog_floats floats; /* the round */
	struct outlet_batch *batches;
	size_t n_batches;
	int64_t waiting_ms;       /* since when something waits; 0 = nothing does */
	int64_t read_again_ms;
	char *problem;            /* why the last request was not taken; NULL: it was */
	bool write_failed, full;  /* logged */
	VEC(struct backlog_sample) chosen;
	VEC(struct outlet_place) order;
};

enum outlet_metric {
	RM_IN, RM_HIGHEST_IN, RM_SAMPLES, RM_FAILED, RM_RETRIED, RM_DROPPED, RM_PENDING, RM_BYTES, RM_HIGHEST_SENT, RM_SECONDS, RM_SHARDS,
	RM_SHARDS_MAX, RM_MAX_SAMPLES, RM_QUEUE_BYTES, RM_QUEUE_MAX, RM_WRITE_FAILURES, RM_COUNT_
};
extern struct metric outlet_metrics[RM_COUNT_];

/* Opens its backlog. client is taken. */
int outlet_new(struct outlet **ret, struct remote_write_config *owner, const struct receiver_config *c, struct fetch_client *client,
	       struct fetch_loop *loop, const char *dir, const struct backlog_options *o, struct err *e) MUST_USE;
/* Goes on as c says. client is taken. */
void outlet_configure(struct outlet *o, struct remote_write_config *owner, const struct receiver_config *c, struct fetch_client *client);
/* Cancels what is under way: after a restart it is sent again. NULL is fine. */
void outlet_free(struct outlet *o);

/* Puts on disk what it wants of these floats, which are all of the records up to number. end: also if it wants none. */
int outlet_append(struct outlet *o, uint64_t number, const struct sink_float *f, size_t n, bool end, struct err *e) MUST_USE;
/* They will not come again. */
void outlet_give_up(struct outlet *o, uint64_t number, uint64_t n);
/* This many samples were dropped before they arrived here. */
void outlet_count_lost(struct outlet *o, uint64_t n);
/* Starts what is due (closing: nothing). Returns when to look again, monotonic ms. */
int64_t outlet_step(struct outlet *o, int64_t now_ms, bool closing);
/* Whether requests are under way. */
bool outlet_is_sending(const struct outlet *o);

#endif
