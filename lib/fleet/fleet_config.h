/* SPDX-License-Identifier: Apache-2.0 */
/* The section `query` of the server's file: which other servers queries ask, and whether an answer may lack the share of one. Immutable once parsed.
 *
 *	query:
 *	  partial_response: warn
 *	  rules_partial_response: refuse
 *	  timeout: 30s
 *	  servers:
 *	    - static_configs: [{targets: ['eu-1:7070', 'eu-2:7070']}]
 *	      scheme: https
 */
#ifndef PYRRHA_FLEET_CONFIG_H
#define PYRRHA_FLEET_CONFIG_H

#include "config/config.h"
#include "discovery/endpoint.h"

/* An item of `servers`. */
struct fleet_server_config {
	struct endpoint_config endpoints;
};

struct fleet_config {
	int refs; /* atomic */
	struct arena arena;
	int partial, rules_partial;  /* 0 warn, 1 refuse */
	int64_t timeout_ms;          /* of a call to a server */
	struct fleet_server_configs {
		struct fleet_server_config *v;
		size_t n;
	} servers;
};

/* warn may be NULL. Returns owned: one reference. */
int fleet_config_parse(struct fleet_config **ret, const struct config_tree *t, void (*warn)(void *arg, const char *text), void *warn_arg,
		       struct err *e) MUST_USE;
struct fleet_config *fleet_config_ref(struct fleet_config *c);
void fleet_config_unref(struct fleet_config *c); /* NULL does nothing */
/* "query: servers by static_configs" for --config.check. */
void fleet_config_check(const struct fleet_config *c, struct buf *out);

#endif
