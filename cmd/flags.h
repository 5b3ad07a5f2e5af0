/* SPDX-License-Identifier: Apache-2.0 */
/* The server's command line. */
#ifndef PYRRHA_CMD_FLAGS_H
#define PYRRHA_CMD_FLAGS_H

#include "base/opts.h"

struct storage_config;

struct server_flags {
	const char *config_file, *web_config_file, *storage_path, *log_level, *log_format;
	const char *external_url, *route_prefix, *cors_origin, *port;
	struct opt_list listen, keep, allowed_hosts, features;
	unsigned language_features; /* enum promql_feature, of features */
	struct storage_config *storage; /* of keep */
	bool config_check, expand_env, auto_reload, allow_insecure, enable_lifecycle, enable_write, enable_admin, enable_pins, version, help;
	int64_t retention_ms, local_retention_ms, query_timeout_ms, lookback_ms, max_concurrency, max_waiting, max_samples, max_series, max_functions, max_connections, read_timeout_ms, max_pins;
	uint64_t memory_limit, memory_bytes, max_bytes, max_total_bytes, retention_bytes, bucket_cache_bytes, head_bytes, cache_bytes, dictionary_bytes, queue_bytes, log_bytes, remote_bytes, scrape_bytes, answer_bytes, pin_bytes;
	int64_t outage_tolerance_ms, grace_ms, resend_ms, max_evals; /* of rules */
	int64_t notification_capacity, notification_batch;
	bool notification_drain, self_heap;
	int64_t auto_reload_ms, slow_query_ms, commit_interval_ms, discovery_ms, partition_series, label_sets, target_functions, target_locations, target_stacks;
	const char *service_labels, *replica_text;
	unsigned replica, replicas; /* of replica_text */
	char memory_warning[300];   /* what is wrong with the budgets of memory; empty: nothing */
};

/* Defaults first, then argv. */
int flags_parse(struct server_flags *f, int argc, char **argv, struct err *e) MUST_USE;
/* Logs, for each flag of Parca that was given and does nothing here, what to use instead. */
void flags_explain(void);
void flags_help(struct buf *out);
/* The rows, for the flags API. */
const struct opt *flags_table(size_t *ret_n);
void flags_free(void);

#endif
