/* SPDX-License-Identifier: Apache-2.0 */
/* The notifier at work.
 *
 *	rules ── alert ──► external labels, alert_relabel_configs ──► one queue per receiver ──► batches ──► POST
 *
 * Locks: `apply` guards which sets there are, and what discovery says of each; `lock` guards queues, and the lists that others than
 * the thread look at. Neither is held while anything waits for the network. Receivers come and go on the thread alone. */
#ifndef PYRRHA_RULES_NOTIFIER_INTERNAL_H
#define PYRRHA_RULES_NOTIFIER_INTERNAL_H

#include <stdatomic.h>

#include "base/lock.h"
#include "base/metrics.h"
#include "base/vec.h"
#include "fetch/fetch.h"
#include "rules/notifier/notifier_config.h"
#include "rules/notifier/notifier_queue.h"

/* One Alertmanager. */
struct receiver {
	struct receiver_set *set;
	char *url, *shown;           /* shown: without secrets */
	struct alert_queue queue;    /* lock guards it */
	bool overflowed;             /* since it was last empty; lock guards it */
	/* the thread's: */
	VEC(struct outgoing *) sending; /* references; what the request under way carries */
	struct fetch *fetch;         /* NULL: none is under way */
	int64_t began_ns;
	char *problem;               /* why the last batch was not taken; NULL: it was */
	bool kept;                   /* while a set is synced */
};

/* An item of `alertmanagers` at work. */
struct receiver_set {
	struct notifier *n;
	struct notifier_config *owner; /* a reference: owner of config's memory */
	const struct alertmanager_config *config;
	struct endpoint_set *endpoints;
	atomic_bool dirty;           /* discovery has news */
	VEC(struct receiver *) receivers; /* lock guards them; changed by the thread */
	VEC(char *) dropped;         /* URLs of what relabelling dropped; lock guards them */
	char *problem;               /* the thread's: what is wrong with one that was discovered */
};

struct notifier {
	struct status_alertmanagers status; /* first: the seam's function gets its address */
	struct alert_sink sink;
	struct notifier_options o;
	char *user_agent;
	struct fetch_loop *loop;
	pthread_t thread;
	bool thread_runs;
	struct mutex apply, lock;
	struct notifier_config *config; /* whose labels and rules hold of all; a reference. lock guards it, and all below but the atomic */
	VEC(struct receiver_set *) sets; /* changed under both locks */
	VEC(struct receiver_set *) gone; /* the thread ends them */
	atomic_bool stale;           /* some set is dirty */
	unsigned asked, answered;    /* syncs that notifier_apply waits for */
	pthread_cond_t synced;
	bool closing;
	int64_t deadline_ms;         /* monotonic; of closing */
};

/* notifier_intake.c: what alert_sink calls. */
void notifier_take(void *arg, const struct alert *a, size_t n);

/* notifier_sync.c, on the thread: receivers as discovery and relabelling have them. */
void notifier_sync(struct notifier *n);
void receiver_set_free(struct receiver_set *s);

/* notifier_send.c, on the thread. */
void notifier_start_batches(struct notifier *n);
/* Drops what is in the queue and on its way, and counts it. Of one that others know: with the lock. */
void receiver_drop_all(struct receiver *r);

/* Counts its queue. Of one that others know: with the lock. */
void receiver_count(struct receiver *r);

enum { NM_LENGTH, NM_CAPACITY, NM_ERRORS, NM_SENT, NM_DROPPED, NM_LATENCY, NM_DISCOVERED, NM_COUNT_ };
extern struct metric notifier_metrics[];

#endif
