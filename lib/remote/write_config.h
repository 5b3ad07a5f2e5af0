/* SPDX-License-Identifier: Apache-2.0 */
/* The decoded section `remote_write`. Immutable once parsed. */
#ifndef PYRRHA_REMOTE_WRITE_CONFIG_H
#define PYRRHA_REMOTE_WRITE_CONFIG_H

#include "config/config_http.h"
#include "config/config_relabel.h"
#include "remote/remote_write.h"

struct queue_config {
	int64_t capacity, min_shards, max_shards, max_samples;
	int64_t deadline_ms, min_backoff_ms, max_backoff_ms, age_limit_ms; /* age: 0 = none */
	bool retry_429;
};

/* One item: a receiver. */
struct receiver_config {
	const char *url;            /* with http:// or https:// */
	const char *shown;          /* without secrets */
	const char *name;           /* its own, or one made of its URL and the number of equal ones before */
	int64_t timeout_ms;
	struct config_map headers;
	const char **header_lines;  /* "Name: value": those of the protocol, then of headers */
	size_t n_header_lines;
	struct relabel_config relabel;
	struct http_config http;
	struct queue_config queue;
};

struct remote_write_config {
	int refs; /* atomic */
	struct arena arena;
	struct labels external_labels;
	struct receiver_configs {
		struct receiver_config *v;
		size_t n;
	} receivers;
};

#endif
