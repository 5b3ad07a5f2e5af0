/* SPDX-License-Identifier: Apache-2.0 */
/* The table of routes, and the start and end of it all. Handlers run on httpd's workers, several at once; what they
 * share (engine, source, status) is thread-safe by its own contract, and struct web does not change after start, but for `opening`. */
#include "web/web.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/redact.h"
#include "fleet/wire.h"
#include "selfprof/pages.h"
#include "web/answer.h"
#include "web/profiles/flame_columns.h"
#include "web/internal.h"

#define API "/api/v1/"
#define WRITES_DEFAULT ((size_t)256 << 20)
#define FRAMES_OF_CLIENTS ((size_t)1 << 19) /* about 12 MB */

static const struct httpd_route routes[] = {
	{ "/-/healthy", HTTPD_GET, HTTPD_RIGHT_NONE_NEEDED, serve_healthy, HTTPD_QUICK | HTTPD_ANY_HOST,
	  .text = "Answers 200 while the program runs." },
	{ "/-/ready", HTTPD_GET, HTTPD_RIGHT_NONE_NEEDED, serve_ready, HTTPD_QUICK | HTTPD_ANY_HOST,
	  .text = "Answers 200 once the storage is open and queries are answered, else 503." },
	{ "/-/reload", HTTPD_POST | HTTPD_PUT, HTTPD_RIGHT_ADMIN, serve_reload,
	  .text = "Reads the configuration again, with --web.enable-lifecycle." },
	{ "/-/quit", HTTPD_POST | HTTPD_PUT, HTTPD_RIGHT_ADMIN, serve_quit,
	  .text = "Ends the server, with --web.enable-lifecycle." },
	{ "/metrics", HTTPD_GET, HTTPD_RIGHT_READ, serve_metrics,
	  .text = "The server's own metrics as text." },
	{ "/version", HTTPD_GET, HTTPD_RIGHT_READ, serve_version, HTTPD_QUICK,
	  .text = "The version, as JSON." },
	{ "/federate", HTTPD_GET, HTTPD_RIGHT_READ, serve_federate, 0, LANE_LOOKUP,
	  .text = "The newest values of selected series as text metrics, for another server to scrape." },

	{ API "query", HTTPD_GET | HTTPD_POST, HTTPD_RIGHT_READ, serve_query, 0, LANE_QUERY,
	  .text = "The value of an expression at one time; format= makes a profile of it: pprof, a flame graph, stacks." },
	{ API "query_range", HTTPD_GET | HTTPD_POST, HTTPD_RIGHT_READ, serve_query_range, 0, LANE_QUERY,
	  .text = "The values of an expression over a range of times." },
	{ API "format_query", HTTPD_GET | HTTPD_POST, HTTPD_RIGHT_READ, serve_format_query, 0, LANE_LOOKUP,
	  .text = "A query laid out over lines." },
	{ API "parse_query", HTTPD_GET | HTTPD_POST, HTTPD_RIGHT_READ, serve_parse_query, 0, LANE_LOOKUP,
	  .text = "A query as a tree." },
	{ API "language", HTTPD_GET, HTTPD_RIGHT_READ, serve_language,
	  .text = "All of the language for people: types, selectors, operators, aggregations and functions." },
	{ API "functions", HTTPD_GET, HTTPD_RIGHT_READ, serve_functions,
	  .text = "The functions and aggregations of the language, for completion." },
	{ API "symbolz", HTTPD_GET | HTTPD_POST, HTTPD_RIGHT_READ, serve_symbolz, HTTPD_QUICK | HTTPD_RAW,
	  .text = "Answers go tool pprof that there are no symbols: profiles have their names already." },
	{ "/symbolz", HTTPD_GET | HTTPD_POST, HTTPD_RIGHT_READ, serve_symbolz, HTTPD_QUICK | HTTPD_RAW,
	  .text = "The same, where the pprof of Go 1.19 (Debian 12) asks." },
	{ API "labels", HTTPD_GET | HTTPD_POST, HTTPD_RIGHT_READ, serve_labels, 0, LANE_LOOKUP,
	  .text = "The names of labels." },
	{ API "label/{name}/values", HTTPD_GET, HTTPD_RIGHT_READ, serve_label_values, 0, LANE_LOOKUP,
	  .text = "The values of a label." },
	{ API "frame/{key}/values", HTTPD_GET, HTTPD_RIGHT_READ, serve_frame_values, 0, LANE_QUERY,
	  .text = "Functions, files or binaries in the profiles of selected series, the most used first." },
	{ API "series", HTTPD_GET | HTTPD_POST, HTTPD_RIGHT_READ, serve_series, 0, LANE_LOOKUP,
	  .text = "The label sets of selected series." },
	{ API "source_links", HTTPD_GET, HTTPD_RIGHT_READ, serve_source_links, 0, LANE_LOOKUP,
	  .text = "Links to the source of a frame, by the source_links of the configuration." },
	{ API "pins", HTTPD_GET, HTTPD_RIGHT_READ, serve_pins, 0, LANE_LOOKUP,
	  .text = "The list of pinned profiles." },
	{ API "pins", HTTPD_POST, HTTPD_RIGHT_READ_WRITE, serve_pin_make, 0, LANE_QUERY,
	  .text = "Pins the profile of a query, with --web.enable-pins." },
	{ API "pins/{id}", HTTPD_GET, HTTPD_RIGHT_READ, serve_pin, 0, LANE_LOOKUP,
	  .text = "A pinned profile, as a pprof file." },
	{ API "pins/{id}", HTTPD_DELETE, HTTPD_RIGHT_WRITE, serve_pin_remove, 0, LANE_CHANGE,
	  .text = "Removes a pinned profile." },
	{ API "query_exemplars", HTTPD_GET | HTTPD_POST, HTTPD_RIGHT_READ, serve_no_exemplars, 0, LANE_LOOKUP,
	  .text = "An empty list: there are no exemplars." },
	{ API "profile_types", HTTPD_GET, HTTPD_RIGHT_READ, serve_profile_types, 0, LANE_LOOKUP,
	  .text = "The profile types that the storage has, with their aliases and units." },
	{ API "metadata", HTTPD_GET, HTTPD_RIGHT_READ, serve_metadata, 0, LANE_LOOKUP,
	  .text = "Type and help of profile types and of metrics." },
	{ API "write", HTTPD_POST, HTTPD_RIGHT_WRITE, serve_write, 0, LANE_CHANGE,
	  .text = "Takes floats by remote-write 1.0, with --web.enable-remote-write-receiver." },
	{ API "source/ask", HTTPD_POST, HTTPD_RIGHT_READ, serve_source_ask, HTTPD_RAW, LANE_SOURCE, .max_body = FLEET_QUESTION_MAX,
	  .text = "Answers a question of another server about the data of this one." },
	{ API "targets", HTTPD_GET, HTTPD_RIGHT_READ, serve_targets, 0, LANE_LOOKUP,
	  .text = "Targets with their labels, health, last error and what to do about it." },
	{ API "scrape_pools", HTTPD_GET, HTTPD_RIGHT_READ, serve_scrape_pools,
	  .text = "The names of the scrape jobs." },
	{ API "scrape_pools/config", HTTPD_GET, HTTPD_RIGHT_READ, serve_scrape_pool_config,
	  .text = "The configuration of one scrape job, as YAML without secrets." },
	{ API "discovery", HTTPD_GET, HTTPD_RIGHT_READ, serve_discovery,
	  .text = "What discovery found for each scrape job." },
	{ API "rules", HTTPD_GET, HTTPD_RIGHT_READ, serve_rules, 0, LANE_LOOKUP,
	  .text = "The groups of rules and the state of each rule." },
	{ API "rules/try", HTTPD_POST, HTTPD_RIGHT_READ, serve_rules_try, 0, LANE_CHANGE,
	  .text = "Evaluates a rule file over the past, and tells what its alerts would have done." },
	{ API "alerts", HTTPD_GET, HTTPD_RIGHT_READ, serve_alerts, 0, LANE_LOOKUP,
	  .text = "The alerts that are pending or firing." },
	{ API "alertmanagers", HTTPD_GET, HTTPD_RIGHT_READ, serve_alertmanagers,
	  .text = "The Alertmanagers that alerts are sent to, as configured and discovered." },
	{ API "targets/relabel_steps", HTTPD_GET | HTTPD_POST, HTTPD_RIGHT_READ, serve_relabel_steps, 0, LANE_LOOKUP,
	  .text = "Each relabelling rule of a job, and what it makes of given labels." },
	{ API "targets/metadata", HTTPD_GET, HTTPD_RIGHT_READ, serve_target_metadata, 0, LANE_LOOKUP,
	  .text = "Type and help of metrics, target by target." },
	{ API "status/walreplay", HTTPD_GET, HTTPD_RIGHT_READ, serve_walreplay,
	  .text = "The progress of the start; always done when it answers." },
	{ API "status/buildinfo", HTTPD_GET, HTTPD_RIGHT_READ, serve_buildinfo,
	  .text = "The version and how it was built." },
	{ API "status/flags", HTTPD_GET, HTTPD_RIGHT_READ, serve_flags,
	  .text = "The values of all flags." },
	{ API "status/flags/details", HTTPD_GET, HTTPD_RIGHT_READ, serve_flag_details,
	  .text = "All flags with their help texts, and whether each was given." },
	{ API "status/config", HTTPD_GET, HTTPD_RIGHT_READ, serve_config,
	  .text = "The configuration, as YAML without secrets." },
	{ API "status/runtimeinfo", HTTPD_GET, HTTPD_RIGHT_READ, serve_runtimeinfo,
	  .text = "The process: start, memory, threads, steps of the clock." },
	{ API "status/tsdb", HTTPD_GET, HTTPD_RIGHT_READ, serve_tsdb_status, 0, LANE_LOOKUP,
	  .text = "The numbers of series, labels and bytes of the storage." },
	{ API "status/tsdb/blocks", HTTPD_GET, HTTPD_RIGHT_READ, serve_tsdb_blocks, 0, LANE_LOOKUP,
	  .text = "The sealed parts of the storage." },
	{ API "status/bucket", HTTPD_GET, HTTPD_RIGHT_READ, serve_bucket_status, 0, LANE_LOOKUP,
	  .text = "The bucket of object_storage: what is there, what waits, and the last error." },
	{ API "status/servers", HTTPD_GET, HTTPD_RIGHT_READ, serve_servers,
	  .text = "The other servers that queries ask, by query.servers: their health, last error and cost." },
	{ API "features", HTTPD_GET, HTTPD_RIGHT_READ, serve_features,
	  .text = "The features of Prometheus that this server has." },
	{ API "notifications", HTTPD_GET, HTTPD_RIGHT_READ, serve_notifications, HTTPD_QUICK,
	  .text = "Errors of the server as a whole." },
	{ API "notifications/live", HTTPD_GET, HTTPD_RIGHT_READ, serve_notifications_live, HTTPD_QUICK,
	  .text = "Answers 204: there is no stream of notifications." },
	{ API "admin/tsdb/delete_series", HTTPD_POST | HTTPD_PUT, HTTPD_RIGHT_ADMIN, serve_delete_series, 0, LANE_CHANGE,
	  .text = "Deletes data of selected series, with --web.enable-admin-api." },
	{ API "admin/tsdb/clean_tombstones", HTTPD_POST | HTTPD_PUT, HTTPD_RIGHT_ADMIN, serve_clean_tombstones, 0, LANE_CHANGE,
	  .text = "Frees the space of deleted data, with --web.enable-admin-api." },
	{ API "admin/tsdb/snapshot", HTTPD_POST | HTTPD_PUT, HTTPD_RIGHT_ADMIN, serve_snapshot, 0, LANE_CHANGE,
	  .text = "Makes a copy of the storage, with --web.enable-admin-api." },
	{ API "admin/rules/backfill", HTTPD_POST | HTTPD_PUT, HTTPD_RIGHT_ADMIN, serve_rules_backfill, 0, LANE_CHANGE,
	  .text = "Stores what recording rules would have recorded in the past, with --web.enable-admin-api." },
	{ "/debug/pprof", HTTPD_GET, HTTPD_RIGHT_READ, selfprof_serve_redirect, HTTPD_QUICK,
	  .text = "Redirects to /debug/pprof/." },
	{ "/debug/pprof/", HTTPD_GET, HTTPD_RIGHT_READ, selfprof_serve_index, HTTPD_QUICK,
	  .text = "The list of profiles that the server takes of itself." },
	{ "/debug/pprof/profile", HTTPD_GET, HTTPD_RIGHT_READ, selfprof_serve_profile, 0, LANE_SELF,
	  .text = "The server's own CPU profile over the next seconds." },
	{ "/debug/pprof/heap", HTTPD_GET, HTTPD_RIGHT_READ, selfprof_serve_heap, 0, LANE_SELF,
	  .text = "The memory that the server holds, by where it was allocated." },
	{ "/debug/pprof/allocs", HTTPD_GET, HTTPD_RIGHT_READ, selfprof_serve_allocs, 0, LANE_SELF,
	  .text = "All memory that the server allocated since its start." },
	{ "/debug/pprof/cmdline", HTTPD_GET, HTTPD_RIGHT_READ, selfprof_serve_cmdline, HTTPD_QUICK,
	  .text = "The server's command line, without secrets." },
	{ "/debug/pprof/{*}", HTTPD_GET, HTTPD_RIGHT_READ, selfprof_serve_unknown, HTTPD_QUICK,
	  .text = "Answers 404: there is no such profile." },
	{ "/api/{*}", HTTPD_ANY, HTTPD_RIGHT_READ, serve_unknown_api,
	  .text = "Answers 404, as JSON." },

	/* The page: every address of its own is index.html, but /runbooks. */
	{ "/", HTTPD_GET, HTTPD_RIGHT_READ, serve_index, HTTPD_QUICK | HTTPD_PAGE,
	  .text = "The page: Explore." },
	{ "/query", HTTPD_GET, HTTPD_RIGHT_READ, serve_index, HTTPD_QUICK | HTTPD_PAGE,
	  .text = "The same, at Prometheus's address." },
	{ "/graph", HTTPD_GET, HTTPD_RIGHT_READ, serve_index, HTTPD_QUICK | HTTPD_PAGE,
	  .text = "The same, at Prometheus's old address." },
	{ "/targets", HTTPD_GET, HTTPD_RIGHT_READ, serve_index, HTTPD_QUICK | HTTPD_PAGE,
	  .text = "The page: Targets." },
	{ "/explore", HTTPD_GET, HTTPD_RIGHT_READ, serve_index, HTTPD_QUICK | HTTPD_PAGE,
	  .text = "The page: Explore." },
	{ "/discovery", HTTPD_GET, HTTPD_RIGHT_READ, serve_index, HTTPD_QUICK | HTTPD_PAGE,
	  .text = "The page: Discovery." },
	{ "/service-discovery", HTTPD_GET, HTTPD_RIGHT_READ, serve_index, HTTPD_QUICK | HTTPD_PAGE,
	  .text = "The same, at Prometheus's address." },
	{ "/rules", HTTPD_GET, HTTPD_RIGHT_READ, serve_index, HTTPD_QUICK | HTTPD_PAGE,
	  .text = "The page: Rules." },
	{ "/alerts", HTTPD_GET, HTTPD_RIGHT_READ, serve_index, HTTPD_QUICK | HTTPD_PAGE,
	  .text = "The page: Alerts." },
	{ "/agents", HTTPD_GET, HTTPD_RIGHT_READ, serve_index, HTTPD_QUICK | HTTPD_PAGE,
	  .text = "The page: Agents." },
	{ "/language", HTTPD_GET, HTTPD_RIGHT_READ, serve_index, HTTPD_QUICK | HTTPD_PAGE,
	  .text = "The page: Language." },
	{ "/status", HTTPD_GET, HTTPD_RIGHT_READ, serve_index, HTTPD_QUICK | HTTPD_PAGE,
	  .text = "The page: Status." },
	{ "/flags", HTTPD_GET, HTTPD_RIGHT_READ, serve_index, HTTPD_QUICK | HTTPD_PAGE,
	  .text = "The page: Status." },
	{ "/config", HTTPD_GET, HTTPD_RIGHT_READ, serve_index, HTTPD_QUICK | HTTPD_PAGE,
	  .text = "The page: Status." },
	{ "/help", HTTPD_GET, HTTPD_RIGHT_READ, serve_index, HTTPD_QUICK | HTTPD_PAGE,
	  .text = "The page: Language." },
	{ "/runbooks", HTTPD_GET, HTTPD_RIGHT_READ, serve_runbooks, HTTPD_QUICK | HTTPD_PAGE,
	  .text = "What to do about each alert of the starter rules." },
	{ "/{file}", HTTPD_GET, HTTPD_RIGHT_READ, serve_file, HTTPD_QUICK | HTTPD_PAGE,
	  .text = "Scripts, styles and pictures of the page." },
};

/* Until the storage is open, only the paths about its start are available. */
static bool ready_for(struct httpd_request *rq, void *arg)
{
	struct web *w = arg;
	struct view path = httpd_path(rq);
	bool stored = view_starts(path, VIEW("/api/")) || view_eqs(path, "/federate");
	if (!stored || view_starts(path, VIEW(API "notifications")) || atomic_load(&w->ready))
		return true;
	httpd_text(rq, 503, "Service Unavailable");
	return false;
}

static void bad_request(struct httpd_request *rq, const struct err *e, void *arg)
{
	(void)arg;
	if (view_starts(httpd_path(rq), VIEW("/api/")))
		answer_error(rq, e);
	else
		httpd_text_error(rq, e);
}

/* "https://host/pyrrha/" -> "/pyrrha", without the last slash; "" for a URL without a path. */
static char *path_of_url(const char *url)
{
	const char *host = strstr(url, "://");
	const char *path = strchr(host ? host + 3 : url, '/');
	size_t n = path ? strcspn(path, "?#") : 0;
	while (n && path[n - 1] == '/')
		n--;
	return xstrndup(path ? path : "", n);
}

static int check_url(const char *url, struct err *e)
{
	struct view v = view_of(url);
	if (!view_starts(v, VIEW("http://")) && !view_starts(v, VIEW("https://")))
		return err_set(e, ERR_BAD_DATA, "external URL \"%s\" begins with neither http:// nor https://", url);
	return 0;
}

static char *prefix_of(const char *given)
{
	size_t n = strlen(given);
	while (n && given[n - 1] == '/')
		n--;
	return xasprintf("%s%.*s", n && given[0] != '/' ? "/" : "", (int)n, given);
}

static int set_paths(struct web *w, struct err *e)
{
	const char *url = w->o.external_url ? w->o.external_url : "", *prefix = w->o.route_prefix ? w->o.route_prefix : "";
	if (url[0]) {
		int rc = check_url(url, e);
		if (rc)
			return rc;
	}
	char *path AUTOFREE = path_of_url(url);
	w->prefix = prefix[0] ? prefix_of(prefix) : xstrdup(path);
	/* All addresses of the page have one segment: a proxy's prefix, which is unknown here, comes before it. */
	w->base = url[0] ? xasprintf("%s/", path) : xstrdup("./");
	return 0;
}

/* All interfaces: no address to link to. Returns the port. */
static const char *port_of_wildcard(const char *address)
{
	static const char *const wildcards[] = { "[::]:", "0.0.0.0:" };
	for (size_t i = 0; i < ARRAY_LEN(wildcards); i++)
		if (view_starts(view_of(address), view_of(wildcards[i])))
			return address + strlen(wildcards[i]);
	return NULL;
}

/* For links of a server that was not told its address: the first one that it listens on. On all interfaces that is the host's name, as in
 * Prometheus; other machines may know the host by another one. */
static char *address_for_links(struct web *w)
{
	const char *address = httpd_address(w->httpd, 0), *port = port_of_wildcard(address);
	char host[HOST_NAME_MAX + 1] = "";
	if (!port || gethostname(host, sizeof host - 1) || !host[0])
		return xstrdup(address);
	w->url_guessed = true;
	return xasprintf("%s:%s", host, port);
}

/* The form for links, which people see: without user info. */
static void set_url(struct web *w)
{
	struct buf shown = { 0 };
	redact_user_info(view_of(w->o.external_url ? w->o.external_url : ""), false, "", &shown);
	const char *url = shown.ptr;
	size_t n = strcspn(url, "?#");
	while (n && url[n - 1] == '/')
		n--;
	char *address AUTOFREE = n ? NULL : address_for_links(w);
	w->url = n ? xasprintf("%.*s/", (int)n, url) : xasprintf("http%s://%s%s/", httpd_is_tls(w->httpd) ? "s" : "", address, w->prefix);
	buf_free(&shown);
}

int web_start(struct web **ret, const struct web_options *o, struct err *e)
{
	struct web *w = NEW(struct web);
	w->writes.max = o->write_bytes ? (size_t)o->write_bytes : WRITES_DEFAULT;
	w->o = *o;
	w->start_ms = clock_now_ms();
	mutex_init(&w->opening_lock, LOCK_LEAF, "web opening");
	w->frames = frame_lists_new(FRAMES_OF_CLIENTS);
	int rc = set_paths(w, e);
	if (!rc) {
		pages_init(w);
		lanes_init(w);
		struct httpd_options ho = {
			.listen = o->listen, .n_listen = o->n_listen, .allow_beyond_loopback = o->allow_insecure,
			.web_config_file = o->web_config_file,
			.allow_hint = "--web.allow-insecure", .routes = routes, .n_routes = ARRAY_LEN(routes), .arg = w, .before = ready_for,
			.bad_request = bad_request, .not_found = serve_no_page,
			.lanes = w->lanes, .n_lanes = LANES, .choose = choose_lane, .refuse = refuse_request,
			.external_url = o->external_url, .has_external_url = true, .allowed_hosts = o->allowed_hosts,
			.n_allowed_hosts = o->n_allowed_hosts, .prefix = w->prefix, .cors_origin = o->cors_origin, .max_connections = o->max_connections,
			.idle_timeout_s = o->idle_timeout_s, .max_answers = (size_t)o->answer_bytes, .spool_dir = o->spool_dir,
		};
		rc = httpd_start(&w->httpd, &ho, e);
	}
	if (rc) {
		web_stop(w, 0);
		return rc;
	}
	set_url(w);
	*ret = w;
	return 0;
}

void web_set_parts(struct web *w, struct promql_engine *engine, struct source *source, struct status_targets *targets)
{
	w->o.engine = engine;
	w->o.source = source;
	w->o.targets = targets;
}

void web_set_own_source(struct web *w, struct source *own)
{
	w->own = own;
}

void web_set_servers(struct web *w, struct status_servers *s)
{
	w->servers = s;
}

void web_set_sink(struct web *w, struct sink *sink)
{
	w->sink = sink;
}

void web_set_answerer(struct web *w, struct fleet_answerer *answerer)
{
	w->answerer = answerer;
}

void web_set_admin(struct web *w, struct storage_admin *admin)
{
	w->admin = admin;
}

void web_set_rules(struct web *w, struct status_rules *rules)
{
	w->rules = rules;
}

void web_set_past(struct web *w, struct rules_past *past)
{
	w->past = past;
}

void web_set_pins(struct web *w, struct pins *pins)
{
	w->pins = pins;
}

void web_set_alertmanagers(struct web *w, struct status_alertmanagers *s)
{
	w->alertmanagers = s;
}

void web_set_opening(struct web *w, const char *what)
{
	mutex_lock(&w->opening_lock);
	snprintf(w->opening, sizeof w->opening, "%s", what);
	mutex_unlock(&w->opening_lock);
}

void web_set_ready(struct web *w, bool ready)
{
	if (!ready && atomic_load(&w->ready))
		atomic_store(&w->stopping, true);
	atomic_store(&w->ready, ready);
}

const char *web_address(const struct web *w, size_t i)
{
	return httpd_address(w->httpd, i);
}

const char *web_url(const struct web *w)
{
	return w->url;
}

bool web_url_is_guessed(const struct web *w)
{
	return w->url_guessed;
}

void web_drain(struct web *w, int64_t grace_ms)
{
	httpd_drain(w->httpd, grace_ms);
}

void web_stop(struct web *w, int64_t grace_ms)
{
	if (!w)
		return;
	atomic_store(&w->ready, false);
	httpd_stop(w->httpd, grace_ms);
	pages_release(w);
	frame_lists_free(w->frames);
	mutex_destroy(&w->opening_lock);
	free(w->prefix);
	free(w->base);
	free(w->url);
	free(w);
}
