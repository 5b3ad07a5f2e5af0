/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of consul_sd_configs: the configuration, and making targets of a service's instances. */
#ifndef PYRRHA_DISCOVERY_SD_CONSUL_H
#define PYRRHA_DISCOVERY_SD_CONSUL_H

#include "config/config_http.h"
#include "discovery/answer.h"
#include "discovery/target_list.h"

struct consul_config {
	const char *server, *scheme, *path_prefix;
	const char *token;                         /* a secret */
	const char *datacenter, *namespace, *partition;
	const char *username, *password;           /* password is a secret; become http.basic_auth */
	const char *tag_separator;
	struct config_strings services, tags;
	struct config_map node_meta;
	const char *filter, *health_filter;        /* of the catalog, of a service */
	bool allow_stale;
	int64_t refresh_ms;
	struct http_config http;
	/* Made of scheme, server and path_prefix: */
	const char *base;                          /* the beginning of URLs, "http://localhost:8500/prefix" */
	const char *unix_socket;                   /* NULL = none */
};

extern const struct config_table consul_config_table;

/* Adds a target for each item of a list as /v1/health/service/NAME answers; strings are borrowed from it. */
int consul_targets(struct target_list *t, const char *tag_separator, json_t *instances, struct err *e) MUST_USE;

#endif
