/* SPDX-License-Identifier: Apache-2.0 */
/* The server's HTTP interface: the HTTP API (Prometheus's, and profiles in several formats), its own metrics, and the page. It reads
 * storage through model/source.h and the running system through model/status.h; what changes the system (reload, quit) are callbacks
 * of main. */
#ifndef PYRRHA_WEB_WEB_H
#define PYRRHA_WEB_WEB_H

#include "base/err.h"
#include "base/opts.h"
#include "model/alertmanagers.h"
#include "model/servers.h"
#include "model/source.h"
#include "model/status.h"

struct web;
struct promql_engine;
struct sink;
struct fleet_answerer;
struct storage_admin;
struct status_rules;
struct rules_past;
struct pins;
struct source_links;

/* The last time the configuration was read. */
struct web_reload_state {
	bool ok;
	int64_t t_ms;    /* of the last one that worked */
	char error[512]; /* of the last one, "" if it worked */
	char restart[200]; /* sections of the configuration whose changes take effect after a restart; "" = none changed */
};

struct web_options {
	const char *const *listen;      /* see httpd.h */
	size_t n_listen;
	bool allow_insecure;            /* listen beyond loopback, without a login */
	const char *web_config_file;    /* httpd/web_config.h; NULL or "" = none */
	bool enable_lifecycle;          /* /-/reload and /-/quit */
	bool enable_admin;              /* /api/v1/admin/tsdb/… */
	bool enable_write;              /* /api/v1/write takes floats in */
	const char *external_url;       /* "https://example.org/pyrrha/"; NULL or "" = as the client asked */
	const char *const *allowed_hosts; /* names by which loopback listeners are asked, besides localhost and external_url's */
	size_t n_allowed_hosts;
	const char *route_prefix;       /* NULL or "" = the path of external_url */
	const char *cors_origin;        /* anchored expression; NULL or "" = none */
	unsigned max_connections;       /* per address; 0 = 512 */
	uint64_t write_bytes;           /* memory of all messages of /api/v1/write while they are decoded; 0 = 256 MiB */
	uint64_t answer_bytes;          /* memory of answers that clients have not taken yet; 0 = 256 MiB */
	const char *spool_dir;          /* where large answers are files without names while they are sent; NULL: they are in memory */
	unsigned idle_timeout_s;        /* of a connection; 0 = 60 */

	/* Borrowed until web_stop; each may be NULL, then what needs it answers "unavailable". */
	struct promql_engine *engine;
	struct source *source;
	struct status_targets *targets;
	const struct opt *flags;        /* for /api/v1/status/flags */
	size_t n_flags;
	int64_t query_timeout_ms;       /* upper bound and default of `timeout` */
	int64_t lookback_ms;            /* how far back /federate looks; 0 = 5 minutes */
	unsigned max_queries;           /* at work; 0 = 20. Small ones have a quarter as many places besides */
	unsigned max_waiting_queries;   /* beyond: 503; 0 = 100 */
	const char *storage_retention;  /* as /api/v1/status/runtimeinfo shows it; NULL = "" */
	const char *object_store;       /* which store sealed days go to, as /api/v1/status/bucket shows it, without secrets; NULL = "" */

	/* Callbacks, from worker threads. */
	int (*reload)(void *arg, struct err *e); /* returns when the new configuration is at work, or why not */
	void (*quit)(void *arg);                 /* returns at once; the program ends soon */
	void (*reload_state)(void *arg, struct web_reload_state *ret);
	struct labels *(*external_labels)(void *arg); /* returns owned, labels_dup: of the configuration at work. NULL = none */
	struct source_links *(*source_links)(void *arg); /* returns owned: a reference, of the configuration at work. NULL = none */
	char *(*config_text)(void *arg);         /* returns owned: the configuration at work as YAML, without secrets */
	void *arg;
};

/* How many queries may run in all, for the engine to admit: further ones wait in web. */
unsigned web_query_places(unsigned max_queries);
/* Listens; /-/ready and the API answer 503 until web_set_ready. Registers the metrics of httpd and web. */
int web_start(struct web **ret, const struct web_options *o, struct err *e) MUST_USE;
/* Set once the storage is open: before the first web_set_ready(true). */
void web_set_parts(struct web *w, struct promql_engine *engine, struct source *source, struct status_targets *targets);
/* For /federate, which has this server's own data: its storage, if `source` is more than that; borrowed until web_stop. Before the first
 * web_set_ready(true). */
void web_set_own_source(struct web *w, struct source *own);
/* For /api/v1/status/servers; borrowed until web_stop. Before the first web_set_ready(true). NULL: nobody. */
void web_set_servers(struct web *w, struct status_servers *s);
/* Where /api/v1/write puts its samples; borrowed until web_stop. Before the first web_set_ready(true). */
void web_set_sink(struct web *w, struct sink *sink);
/* What answers /api/v1/source/ask; borrowed until web_stop. Before the first web_set_ready(true). */
void web_set_answerer(struct web *w, struct fleet_answerer *answerer);
/* For /api/v1/admin/tsdb/… and /api/v1/status/tsdb; borrowed until web_stop. Before the first web_set_ready(true). */
void web_set_admin(struct web *w, struct storage_admin *admin);
/* For /api/v1/rules and alerts; borrowed until web_stop. Before the first web_set_ready(true). */
void web_set_rules(struct web *w, struct status_rules *rules);
/* For /api/v1/rules/try; borrowed until web_stop. Before the first web_set_ready(true). */
void web_set_past(struct web *w, struct rules_past *past);
/* The pins; borrowed until web_stop. Before the first web_set_ready(true). NULL: nowhere. */
void web_set_pins(struct web *w, struct pins *pins);
/* For /api/v1/alertmanagers; borrowed until web_stop. Before the first web_set_ready(true). NULL: nobody. */
void web_set_alertmanagers(struct web *w, struct status_alertmanagers *s);
/* What the start waits for, as /-/ready says it. Any thread. */
void web_set_opening(struct web *w, const char *what);
/* From when storage is open and the engine can answer. */
void web_set_ready(struct web *w, bool ready);
/* The i-th bound address; NULL past the last. */
const char *web_address(const struct web *w, size_t i);
/* The URL people use, ending in "/". */
const char *web_url(const struct web *w);
/* Whether nobody gave it, and its host is the name of this machine, because the server listens on all interfaces. */
bool web_url_is_guessed(const struct web *w);
/* Stops listening and ends requests (canceled after grace_ms); what was set above is used until web_stop. */
void web_drain(struct web *w, int64_t grace_ms);
/* Stops listening, ends requests (canceled after grace_ms), frees w; NULL is fine. */
void web_stop(struct web *w, int64_t grace_ms);

#endif
