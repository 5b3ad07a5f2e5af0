/* SPDX-License-Identifier: Apache-2.0 */
/* What a server has under its lock: references, health, and the metrics of it. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "fleet/server_internal.h"

struct metric server_metrics[SERVER_METRICS] = {
	[SERVER_CALLS] = { "pyrrha_fleet_calls_total", "Calls to other servers that have ended, with an answer or without.", METRIC_COUNTER,
			   "server" },
	[SERVER_FAILURES] = { "pyrrha_fleet_call_failures_total", "Calls to other servers that no answer came to. A query without them lacks the server's share.",
			      METRIC_COUNTER, "server" },
	[SERVER_SECONDS] = { "pyrrha_fleet_call_duration_seconds", "How long calls to other servers took, with an answer or without.",
			     METRIC_HISTOGRAM },
	[SERVER_RECEIVED] = { "pyrrha_fleet_received_bytes_total", "Bytes of answers of other servers.", METRIC_COUNTER, "server" },
	[SERVER_SENT] = { "pyrrha_fleet_sent_bytes_total", "Bytes of questions to other servers.", METRIC_COUNTER, "server" },
	[SERVER_REOPENED] = { "pyrrha_fleet_views_lost_total", "Views that another server forgot before the question was done; they are opened again.",
			      METRIC_COUNTER, "server" },
	[SERVER_FORGOTTEN] = { "pyrrha_fleet_dictionaries_dropped_total", "Mirrors of another server's dictionary that were dropped: its answer did not fit.",
			       METRIC_COUNTER, "server" },
};

void fleet_server_register_metrics(void)
{
	metrics_register(server_metrics, SERVER_METRICS);
}

struct fleet_server *server_ref(struct fleet_server *s)
{
	__atomic_add_fetch(&s->refs, 1, __ATOMIC_RELAXED);
	return s;
}

void server_unref(struct fleet_server *s)
{
	if (__atomic_sub_fetch(&s->refs, 1, __ATOMIC_ACQ_REL))
		return;
	for (size_t i = 0; i < SERVER_METRICS; i++)
		if (server_metrics[i].labels)
			metric_forget(&server_metrics[i], s->name);
	fleet_dictionary_in_free(s->dictionary);
	fetch_client_unref(s->client);
	free(s->status.labels);
	mutex_destroy(&s->lock);
	free(s->ask_url);
	free(s->name);
	free(s);
}

/* ---- health ---- */

static void server_note_call(struct fleet_server *s, int64_t took_ms) REQUIRES(s->lock)
{
	s->status.asked = true;
	s->status.calls++;
	s->status.last_ms = took_ms;
}

void server_note_answer(struct fleet_server *s, int64_t took_ms)
{
	metric_add(&server_metrics[SERVER_CALLS], 1, s->name);
	metric_observe(&server_metrics[SERVER_SECONDS], (double)took_ms / 1e3);
	mutex_lock(&s->lock);
	server_note_call(s, took_ms);
	s->status.up = true;
	s->status.error[0] = 0;
	s->status.last_ok_ms = clock_now_ms();
	mutex_unlock(&s->lock);
}

void server_note_hurry(struct fleet_server *s, int64_t took_ms)
{
	metric_add(&server_metrics[SERVER_CALLS], 1, s->name);
	metric_add(&server_metrics[SERVER_FAILURES], 1, s->name);
	metric_observe(&server_metrics[SERVER_SECONDS], (double)took_ms / 1e3);
}

void server_note_failure(struct fleet_server *s, int64_t took_ms, const struct err *why)
{
	server_note_hurry(s, took_ms);
	mutex_lock(&s->lock);
	server_note_call(s, took_ms);
	s->status.up = false;
	s->status.failures++;
	s->status.last_error_ms = clock_now_ms();
	size_t n = strnlen(why->msg, sizeof s->status.error - 1);
	memcpy(s->status.error, why->msg, n);
	s->status.error[n] = 0;
	mutex_unlock(&s->lock);
}

void server_note_received(struct fleet_server *s, uint64_t bytes)
{
	metric_add(&server_metrics[SERVER_RECEIVED], (double)bytes, s->name);
	mutex_lock(&s->lock);
	s->status.bytes_received += bytes;
	mutex_unlock(&s->lock);
}

void server_note_labels(struct fleet_server *s, struct labels l)
{
	mutex_lock(&s->lock);
	if (!s->status.labels || !labels_eq(*s->status.labels, l)) {
		free(s->status.labels);
		s->status.labels = labels_dup(l);
	}
	mutex_unlock(&s->lock);
}

bool server_is_up(struct fleet_server *s)
{
	mutex_lock(&s->lock);
	bool up = s->status.up;
	mutex_unlock(&s->lock);
	return up;
}

void fleet_server_status(struct fleet_server *s, struct fleet_server_status *ret)
{
	mutex_lock(&s->lock);
	*ret = s->status;
	if (ret->labels)
		ret->labels = labels_dup(*ret->labels);
	mutex_unlock(&s->lock);
	size_t n = strnlen(s->name, sizeof ret->url - 1);
	memcpy(ret->url, s->name, n);
	ret->url[n] = 0;
	ret->dictionary_bytes = fleet_dictionary_in_bytes(s->dictionary);
}
