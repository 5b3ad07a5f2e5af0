/* SPDX-License-Identifier: Apache-2.0 */
/* The metrics of the HTTP server. */
#include <stdio.h>

#include "base/clock.h"
#include "base/metrics.h"
#include "httpd/internal.h"

enum { M_REQUESTS, M_DURATION, M_CANCELED, M_IN_FLIGHT, M_WAITING, M_HELD, M_REFUSED, M_CONNECTIONS, M_CLOSED, M_LOGINS, M_CHECKS };
static struct metric table[] = {
	[M_REQUESTS] = { "pyrrha_http_requests_total", "HTTP requests answered, by route and status.", METRIC_COUNTER,
			 "handler,code" },
	[M_DURATION] = { "pyrrha_http_request_duration_seconds", "Time from the first byte of a request to its answer.",
			 METRIC_HISTOGRAM, "handler" },
	[M_CANCELED] = { "pyrrha_http_requests_canceled_total", "Requests whose client left before the answer.",
			 METRIC_COUNTER },
	[M_IN_FLIGHT] = { "pyrrha_http_requests_in_flight", "HTTP requests at work now, or waiting.", METRIC_GAUGE },
	[M_WAITING] = { "pyrrha_http_requests_waiting", "HTTP requests that wait for a worker, by lane.", METRIC_GAUGE, "lane" },
	[M_HELD] = { "pyrrha_http_memory_bytes", "Bodies of requests, and answers that clients have not taken yet.", METRIC_GAUGE, "of" },
	[M_REFUSED] = { "pyrrha_http_requests_refused_total", "Requests answered without being handled, by reason.", METRIC_COUNTER,
			"reason" },
	[M_CONNECTIONS] = { "pyrrha_http_connections", "Open connections.", METRIC_GAUGE },
	[M_CLOSED] = { "pyrrha_http_connections_closed_total",
		       "Connections that the server closed on a client or did not take, by reason.", METRIC_COUNTER, "reason" },
	[M_LOGINS] = { "pyrrha_http_logins_refused_total", "Requests not let in, by reason: no login (none), one that cannot be read "
		       "(malformed), a wrong password or token, a right that it has not, an address that waits after failures, or too many that "
		       "wait to be checked (busy).", METRIC_COUNTER, "reason" },
	[M_CHECKS] = { "pyrrha_http_password_checks_total", "Passwords compared with a bcrypt hash.", METRIC_COUNTER },
};

/* For all servers of the process. Shown when asked for: a gauge per request would cost more than the counting. */
static atomic_size_t held[2];

static void collect(void *arg)
{
	(void)arg;
	metric_set(&table[M_HELD], (double)atomic_load(&held[HTTPD_BODIES]), "bodies");
	metric_set(&table[M_HELD], (double)atomic_load(&held[HTTPD_ANSWERS]), "answers");
}

void httpd_metrics_register(void)
{
	if (!table[0].state)
		metrics_on_collect(collect, NULL);
	metrics_register(table, ARRAY_LEN(table));
}

void httpd_metrics_held(enum httpd_held what, ptrdiff_t delta)
{
	atomic_fetch_add(&held[what], (size_t)delta);
}

void httpd_metrics_observe(const struct httpd_request *rq)
{
	char code[16];
	snprintf(code, sizeof code, "%d", rq->status);
	metric_add(&table[M_REQUESTS], 1, rq->handler, code);
	metric_observe(&table[M_DURATION], (double)(clock_mono_ns() - rq->start_ns) / 1e9, rq->handler);
	if (rq->left)
		metric_inc(&table[M_CANCELED]);
}

void httpd_metrics_in_flight(int delta)
{
	metric_add(&table[M_IN_FLIGHT], delta);
}

void httpd_metrics_waiting(const char *lane, int delta)
{
	metric_add(&table[M_WAITING], delta, lane);
}

void httpd_metrics_connections(int delta)
{
	metric_add(&table[M_CONNECTIONS], delta);
}

void httpd_metrics_closed(const char *why)
{
	metric_add(&table[M_CLOSED], 1, why);
}

void httpd_metrics_login_refused(const char *reason)
{
	metric_add(&table[M_LOGINS], 1, reason);
}

void httpd_metrics_login_checked(void)
{
	metric_inc(&table[M_CHECKS]);
}

void httpd_metrics_refused(const char *why)
{
	metric_add(&table[M_REFUSED], 1, why);
}
