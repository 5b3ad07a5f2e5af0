/* SPDX-License-Identifier: Apache-2.0 */
/* Batches from queues to Alertmanagers: one request under way to each. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "rules/notifier/notifier_internal.h"

#define ANSWER_BYTES ((uint64_t)64 << 10)
#define BATCH_BYTES ((size_t)8 << 20) /* of a request; a single alert may be larger */
#define SAID 200 /* bytes of an answer that are logged */

struct metric notifier_metrics[] = {
	[NM_LENGTH] = { "pyrrha_notifications_queue_length", "Alerts that wait to be sent to an Alertmanager.", METRIC_GAUGE, "alertmanager" },
	[NM_CAPACITY] = { "pyrrha_notifications_queue_capacity", "How many alerts each queue holds.", METRIC_GAUGE },
	[NM_ERRORS] = { "pyrrha_notifications_errors_total", "Alerts of requests that failed.", METRIC_COUNTER, "alertmanager" },
	[NM_SENT] = { "pyrrha_notifications_sent_total", "Alerts that an Alertmanager took.", METRIC_COUNTER, "alertmanager" },
	[NM_DROPPED] = { "pyrrha_notifications_dropped_total", "Alerts that were not sent: their request failed, the queue was full, the "
			 "Alertmanager was gone or the program ended.", METRIC_COUNTER, "alertmanager" },
	[NM_LATENCY] = { "pyrrha_notifications_latency_seconds", "How long an Alertmanager took to take a batch.", METRIC_HISTOGRAM,
			 "alertmanager" },
	[NM_DISCOVERED] = { "pyrrha_notifications_alertmanagers_discovered", "Alertmanagers that get alerts.", METRIC_GAUGE },
};

void notifier_register_metrics(void)
{
	metrics_register(notifier_metrics, NM_COUNT_);
}

void receiver_count(struct receiver *r)
{
	metric_set(&notifier_metrics[NM_LENGTH], (double)r->queue.n, r->shown);
}

static void release_sending(struct receiver *r)
{
	for (size_t i = 0; i < r->sending.n; i++)
		outgoing_unref(r->sending.v[i]);
	r->sending.n = 0;
}

void receiver_drop_all(struct receiver *r)
{
	size_t n = r->queue.n + r->sending.n;
	if (r->fetch)
		fetch_cancel(r->fetch);
	r->fetch = NULL;
	release_sending(r);
	alert_queue_free(&r->queue);
	if (!n)
		return;
	receiver_count(r);
	metric_add(&notifier_metrics[NM_DROPPED], (double)n, r->shown);
}

/* ---- what became of a batch ---- */

static void note_failed(struct receiver *r, const char *why)
{
	double n = (double)r->sending.n;
	metric_add(&notifier_metrics[NM_ERRORS], n, r->shown);
	metric_add(&notifier_metrics[NM_DROPPED], n, r->shown);
	if (!r->problem || !err_same_but_for_numbers(r->problem, why))
		LOG_WARN("msg", "an Alertmanager did not take alerts; they are sent again after the resend delay", "alertmanager", r->shown,
			 "alerts", LOG_NUM(r->sending.n), "err", why);
	free(r->problem);
	r->problem = xstrdup(why);
}

static void note_taken(struct receiver *r)
{
	metric_add(&notifier_metrics[NM_SENT], (double)r->sending.n, r->shown);
	metric_observe(&notifier_metrics[NM_LATENCY], (double)(clock_mono_ns() - r->began_ns) / 1e9, r->shown);
	if (r->problem)
		LOG_INFO("msg", "an Alertmanager takes alerts again", "alertmanager", r->shown);
	free(r->problem);
	r->problem = NULL;
}

static void on_done(void *arg, struct fetch_response *answer, const struct err *e)
{
	struct receiver *r = arg;
	r->fetch = NULL;
	if (!e->code && answer->status / 100 == 2) {
		note_taken(r);
	} else {
		struct view said = view_make(answer->body.ptr, MIN(answer->body.len, (size_t)SAID));
		char *why AUTOFREE = e->code ? xstrdup(e->msg) : xasprintf("HTTP status %d: %.*s", answer->status, VIEW_ARG(said));
		note_failed(r, why);
	}
	release_sending(r);
}

/* ---- the next batch ---- */

static void take_batch(struct receiver *r, size_t most)
{
	size_t bytes = 0;
	while (r->sending.n < most && r->queue.n) {
		bytes += alert_queue_first(&r->queue)->len;
		if (r->sending.n && bytes > BATCH_BYTES)
			break;
		vec_push(&r->sending, alert_queue_pop(&r->queue));
	}
	r->overflowed &= r->queue.n > 0;
	receiver_count(r);
}

static void start_batch(struct receiver *r)
{
	static const char *const headers[] = { "Content-Type: application/json" };
	struct buf body = { 0 };
	struct err e = { 0 };
	outgoing_batch(r->sending.v, r->sending.n, &body);
	const struct fetch_request q = { .method = "POST", .url = r->url, .headers = headers, .n_headers = ARRAY_LEN(headers),
					 .body = buf_view(&body), .timeout_ms = r->set->config->timeout_ms, .max_bytes = ANSWER_BYTES, .keep_method = true };
	r->began_ns = clock_mono_ns();
	if (fetch_start(r->set->n->loop, endpoint_set_client(r->set->endpoints), &q, on_done, r, &r->fetch, &e)) {
		r->fetch = NULL;
		note_failed(r, e.msg);
		release_sending(r);
	}
	buf_free(&body);
}

void notifier_start_batches(struct notifier *n)
{
	VEC(struct receiver *) ready = { 0 };
	mutex_lock(&n->lock);
	for (size_t i = 0; i < n->sets.n; i++)
		for (size_t k = 0; k < n->sets.v[i]->receivers.n; k++) {
			struct receiver *r = n->sets.v[i]->receivers.v[k];
			if (r->fetch || !r->queue.n)
				continue;
			take_batch(r, n->o.batch_size);
			vec_push(&ready, r);
		}
	mutex_unlock(&n->lock);
	for (size_t i = 0; i < ready.n; i++)
		start_batch(ready.v[i]);
	vec_free(&ready);
}
