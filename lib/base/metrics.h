/* SPDX-License-Identifier: Apache-2.0 */
/* The program's own metrics, in the text format 0.0.4. A module defines its metrics as one static table and
 * registers it at start; nothing else makes a metric appear.
 *
 *	static struct metric table[] = {
 *		[M_APPENDED] = { "pyrrha_appended_profiles_total", "Profiles that are durable.", METRIC_COUNTER },
 *		[M_REQUESTS] = { "pyrrha_http_requests_total", "Requests.", METRIC_COUNTER, "handler,code" },
 *	};
 *	metrics_register(table, ARRAY_LEN(table));
 *	metric_inc(&table[M_APPENDED]);
 *	metric_add(&table[M_REQUESTS], 1, "query", "200");
 *
 * Label values are given in the order of the names. There are at most METRIC_MAX_CHILDREN combinations; all
 * others share one whose values are "(other)". Everything is thread-safe. */
#ifndef PYRRHA_BASE_METRICS_H
#define PYRRHA_BASE_METRICS_H

#include "base/buf.h"

#define METRIC_MAX_CHILDREN 10000

enum metric_type { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

struct metric_state;

struct metric {
	const char *name, *help;
	enum metric_type type;
	const char *labels;   /* "a,b"; NULL = none */
	const double *bounds; /* histogram: upper bounds, ascending, ended by +Inf; NULL = for durations, 1 ms to 60 s */
	struct metric_state *state; /* owned by the registry */
};

void metrics_register(struct metric *table, size_t n);
/* Called before each rendering, to set gauges. */
void metrics_on_collect(void (*fn)(void *arg), void *arg);
void metrics_render(struct buf *out);
/* Frees the registry (tests, clean exits). */
void metrics_free(void);

/* The macros end the list of label values by themselves. */
void metric_add_(struct metric *m, double v, ...) __attribute__((sentinel));
void metric_set_(struct metric *m, double v, ...) __attribute__((sentinel));
void metric_observe_(struct metric *m, double v, ...) __attribute__((sentinel));
#define metric_inc(m) metric_add_((m), 1, (char *)NULL)
#define metric_add(m, ...) metric_add_((m), __VA_ARGS__, (char *)NULL)
#define metric_set(m, ...) metric_set_((m), __VA_ARGS__, (char *)NULL)
#define metric_observe(m, ...) metric_observe_((m), __VA_ARGS__, (char *)NULL)
/* The labelled thing no longer exists: these values are no longer written, and begin at 0 if they return. */
void metric_forget_(struct metric *m, ...) __attribute__((sentinel));
#define metric_forget(...) metric_forget_(__VA_ARGS__, (char *)NULL)
/* The value of a counter or gauge; 0 if it was never set. */
double metric_get_(struct metric *m, ...) __attribute__((sentinel));
#define metric_get(...) metric_get_(__VA_ARGS__, (char *)NULL)

/* process_cpu_seconds_total, process_resident_memory_bytes, process_virtual_memory_bytes, process_open_fds,
 * process_max_fds, process_start_time_seconds, and NAME_build_info{version}. */
void metrics_register_process(const char *program_prefix, const char *version);

#endif
