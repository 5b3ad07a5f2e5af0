/* SPDX-License-Identifier: Apache-2.0 */
/* Alerts on their way to one Alertmanager. A queue that is full loses its oldest: what is newer says more.
 *
 *	v:  │ . . . a b c d . . . │   first = 3, n = 4; the ring grows up to max
 */
#ifndef PYRRHA_RULES_NOTIFIER_QUEUE_H
#define PYRRHA_RULES_NOTIFIER_QUEUE_H

#include "base/buf.h"
#include "rules/rules.h"

/* An alert in the form that is sent, written once for all its queues. Immutable. */
struct outgoing {
	int refs; /* atomic */
	size_t len;
	char json[]; /* an object of the API, version 2 */
};

/* With these labels in place of its own. Returns owned. NULL: it is larger than OUTGOING_BYTES, which is logged. */
#define OUTGOING_BYTES ((size_t)4 << 20)
struct outgoing *outgoing_new(const struct alert *a, struct labels labels);
struct outgoing *outgoing_ref(struct outgoing *o);
void outgoing_unref(struct outgoing *o);

struct alert_queue {
	struct outgoing **v;
	size_t first, n, room;
	size_t bytes;
	size_t max, max_bytes; /* set by its creator; a single alert always has room */
};

/* Takes a reference. Returns how many of the oldest went. */
size_t alert_queue_push(struct alert_queue *q, struct outgoing *o);
/* The oldest, which stays; there is one. */
static inline const struct outgoing *alert_queue_first(const struct alert_queue *q)
{
	return q->v[q->first];
}
/* The oldest, whose reference becomes the caller's; NULL: it is empty. */
struct outgoing *alert_queue_pop(struct alert_queue *q);
/* Drops what is in it. */
void alert_queue_free(struct alert_queue *q);

/* A request's body: a list of these. */
void outgoing_batch(struct outgoing *const *v, size_t n, struct buf *out);

#endif
