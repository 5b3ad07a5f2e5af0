/* SPDX-License-Identifier: Apache-2.0 */
/* The agent over HTTP: /debug/pprof as Go serves it, metrics, health. */
#ifndef PYRRHA_AGENT_SERVE_H
#define PYRRHA_AGENT_SERVE_H

#include "agent/core/agent.h"

struct agent_server;

struct agent_server_options {
	const char *const *listen;   /* "127.0.0.1:7071" */
	size_t n_listen;
	bool allow_insecure;         /* listen where others can reach it, without a login */
	const char *web_config_file; /* httpd/web_config.h; NULL or "" = none */
	bool enable_lifecycle;       /* serve POST /-/reload */
	struct agent *agent;         /* borrowed */
	bool enable_debuginfod;      /* serve /buildid/ */
	const char *const *allowed_hosts; /* names by which a loopback address is asked, besides localhost */
	size_t n_allowed_hosts;
};

int agent_serve(struct agent_server **ret, const struct agent_server_options *o, struct err *e) MUST_USE;
/* The i-th bound address, "127.0.0.1:7071"; NULL past the last. */
const char *agent_server_address(const struct agent_server *s, size_t i);
void agent_server_stop(struct agent_server *s);

#endif
