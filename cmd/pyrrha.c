/* SPDX-License-Identifier: Apache-2.0 */
/* The server: wires scraper, storage, queries and page together. main() only wires. It blocks the signals before the first thread
 * starts and then waits for them. Parts are started from right to left in the drawing (the page first: it says that the rest is not
 * ready yet) and stopped from left to right. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/thread.h"
#include "base/units.h"
#include "bucket/bucket.h"
#include "cmd/configuration.h"
#include "cmd/flags.h"
#include "cmd/program.h"
#include "config.h"
#include "discovery/discovery.h"
#include "fleet/answerer.h"
#include "fleet/fleet.h"
#include "fleet/server.h"
#include "httpd/web_config.h"
#include "promql-like/promql.h"
#include "remote/remote_write.h"
#include "rules/notifier/notifier.h"
#include "rules/rules.h"
#include "scraper/scraper.h"
#include "selfprof/heap.h"
#include "tsdb/tsdb.h"
#include "web/pins.h"
#include "web/web.h"

#define STOP_SECONDS 5     /* then the program ends whatever still runs; storage is safe against that */
#define WEB_GRACE_MS 1000  /* for requests at work, before they are canceled */

struct server {
	struct server_flags f;
	struct configuration *config;
	struct web *web;
	struct bucket *bucket;   /* NULL: none is configured */
	atomic_bool bucket_stop; /* tsdb raises it */
	struct tsdb *db;
	struct pool *pool;
	struct fleet *fleet;
	struct promql_engine *engine;
	struct fleet_answerer *answerer;
	struct scraper *scraper;
	struct notifier *notifier;
	struct remote_write *remote;
	struct rules *rules;
	struct pins *pins;
	char retention[DURATION_LEN + 32];
};

enum { M_READY };
static struct metric metrics[] = {
	[M_READY] = { "pyrrha_ready", "Whether the server can answer queries.", METRIC_GAUGE },
};

/* ---- what web asks of main ---- */

static int on_reload(void *arg, struct err *e)
{
	struct server *s = arg;
	return configuration_reload(s->config, e);
}

static void on_quit(void *arg)
{
	(void)arg;
	kill(getpid(), SIGTERM);
}

static void on_reload_state(void *arg, struct web_reload_state *ret)
{
	struct server *s = arg;
	configuration_state(s->config, ret);
}

static char *on_config_text(void *arg)
{
	struct server *s = arg;
	return configuration_text(s->config);
}

static struct source_links *on_source_links(void *arg)
{
	struct server *s = arg;
	return configuration_source_links(s->config);
}

static struct labels *on_external_labels(void *arg)
{
	struct server *s = arg;
	return configuration_external_labels(s->config);
}

/* Graphs over stacks are made by the engine, also for other servers. It is there before the first query. */
static int on_rows(void *arg, struct source_view *v, const struct source_graph *g, const struct source_limits *lim, bool *ret_fits, source_rows_fn fn,
		   void *fn_arg, struct err *e)
{
	struct server *s = arg;
	return promql_rows(s->engine, v, g, lim, ret_fits, fn, fn_arg, e);
}

/* What other servers ask takes memory of the budget of queries, as queries of people do. */
static void *on_question(void *arg, const atomic_uint_fast64_t *samples_read, const atomic_bool **ret_stopped)
{
	struct server *s = arg;
	return promql_guard_enter(s->engine, samples_read, ret_stopped);
}

static void on_answer(void *arg, void *guarded)
{
	struct server *s = arg;
	promql_guard_leave(s->engine, guarded);
}

static const char *on_address(void *arg, size_t i)
{
	struct server *s = arg;
	return web_address(s->web, i);
}

/* ---- start, from the right ---- */

static void describe_retention(struct server *s)
{
	char time[DURATION_LEN], size[24];
	snprintf(s->retention, sizeof s->retention, "%s%s%s",
		 s->f.retention_ms ? units_format_duration(s->f.retention_ms, time) : "",
		 s->f.retention_ms && s->f.retention_bytes ? " or " : "",
		 s->f.retention_bytes ? units_format_size(s->f.retention_bytes, size) : "");
}

static int start_web(struct server *s, struct err *e)
{
	describe_retention(s);
	struct web_options o = {
		.listen = s->f.listen.v, .n_listen = s->f.listen.n, .allow_insecure = s->f.allow_insecure,
		.web_config_file = s->f.web_config_file,
		.enable_lifecycle = s->f.enable_lifecycle, .enable_write = s->f.enable_write,
		.enable_admin = s->f.enable_admin, .external_url = s->f.external_url,
		.allowed_hosts = s->f.allowed_hosts.v, .n_allowed_hosts = s->f.allowed_hosts.n,
		.route_prefix = s->f.route_prefix, .cors_origin = s->f.cors_origin,
		.max_connections = (unsigned)s->f.max_connections, .answer_bytes = s->f.answer_bytes, .write_bytes = s->f.memory_bytes / 8,
		.spool_dir = s->f.storage_path,
		.idle_timeout_s = (unsigned)MAX(1, MIN(s->f.read_timeout_ms / 1000, 86400)),
		.query_timeout_ms = s->f.query_timeout_ms, .max_queries = (unsigned)s->f.max_concurrency,
		.max_waiting_queries = (unsigned)s->f.max_waiting, .storage_retention = s->retention,
		.object_store = configuration_bucket(s->config)->shown,
		.reload = on_reload, .quit = on_quit, .reload_state = on_reload_state, .config_text = on_config_text,
		.external_labels = on_external_labels, .source_links = on_source_links, .lookback_ms = s->f.lookback_ms, .arg = s,
	};
	o.flags = flags_table(&o.n_flags);
	int rc = web_start(&s->web, &o, e);
	for (size_t i = 0; !rc && web_address(s->web, i); i++)
		LOG_INFO("msg", "listening", "address", web_address(s->web, i));
	return rc;
}

/* It is at work as soon as the storage has read its log. */
static int make_remote_write(struct server *s, struct err *e)
{
	char *dir AUTOFREE = xasprintf("%s/remote", s->f.storage_path);
	struct remote_write_options o = { .dir = dir, .user_agent = "pyrrha/" PACKAGE_VERSION, .queue_bytes = s->f.remote_bytes };
	remote_write_register_metrics();
	remote_write_new(&s->remote, &o);
	return configuration_apply_to_remote_write(s->config, s->remote, e);
}

/* The bucket is opened before the storage: tsdb_open sends it requests. */
static int open_bucket(struct server *s, struct err *e)
{
	const struct bucket_config *c = configuration_bucket(s->config);
	bucket_register_metrics();
	if (c->type == BUCKET_NONE && s->f.local_retention_ms)
		return err_set(e, ERR_BAD_DATA, "--storage.local-retention.time needs object_storage in %s: without it, days that leave this disk are lost. "
			       "How long they are kept is --storage.tsdb.retention.time", s->f.config_file);
	if (c->type == BUCKET_NONE)
		return 0;
	LOG_INFO("msg", "sealed days go to object storage", "store", c->shown);
	return bucket_open(&s->bucket, c, &s->bucket_stop, e);
}

static void on_opening(void *arg, const char *what)
{
	web_set_opening(arg, what);
}

static int open_storage(struct server *s, struct err *e)
{
	const struct bucket_config *b = configuration_bucket(s->config);
	struct tsdb_options o = {
		.path = s->f.storage_path, .retention_ms = s->f.retention_ms ? s->f.retention_ms : -1,
		.retention_bytes = s->f.retention_bytes, .service_labels = s->f.service_labels,
		.head_bytes = s->f.head_bytes, .cache_bytes = s->f.cache_bytes, .dictionary_bytes = s->f.dictionary_bytes,
		.queue_bytes = s->f.queue_bytes, .log_bytes = s->f.log_bytes,
		.commit_interval_ms = s->f.commit_interval_ms ? s->f.commit_interval_ms : -1,
		.max_target_functions = (uint32_t)s->f.target_functions, .max_target_locations = (uint32_t)s->f.target_locations,
		.max_target_stacks = (uint32_t)s->f.target_stacks,
		.max_series = (uint32_t)s->f.partition_series, .max_label_sets = (uint32_t)s->f.label_sets,
		.objects = s->bucket ? bucket_objects(s->bucket) : NULL, .objects_stop = &s->bucket_stop,
		.objects_at_once = (size_t)b->requests, .opening = on_opening, .opening_arg = s->web,
		.server_id = b->server_id[0] ? b->server_id : NULL, .local_retention_ms = s->f.local_retention_ms,
		.bucket_cache_bytes = s->f.bucket_cache_bytes, .read_others = b->read_others,
		.external_labels = on_external_labels, .external_labels_arg = s,
		.seal_interval_ms = b->seal_interval_ms, .grace_ms = b->grace_ms,
		.tap = remote_write_tap(s->remote),
	};
	int64_t begin = clock_mono_ms();
	int rc = tsdb_open(&s->db, &o, e);
	if (rc)
		return rc;
	tsdb_register_metrics(s->db);
	LOG_INFO("msg", "storage is open", "path", s->f.storage_path, "ms", LOG_NUM(clock_mono_ms() - begin));
	return 0;
}

static int open_pins(struct server *s, struct err *e)
{
	char *dir AUTOFREE = xasprintf("%s/pins", s->f.storage_path);
	struct pins_options o = { .dir = dir, .max = (size_t)s->f.max_pins, .max_bytes = s->f.pin_bytes };
	return s->f.enable_pins ? pins_open(&s->pins, &o, e) : 0;
}

/* From the thread that ran the query. */
static void log_slow_query(void *arg, const char *query, int64_t duration_ms, uint64_t samples, const struct err *e)
{
	(void)arg;
	LOG_WARN("msg", "slow query", "query", query, "ms", LOG_NUM(duration_ms), "samples", LOG_NUM(samples),
		 "err", e && e->code ? e->msg : "");
}

/* Of an answer of another server, and of the stacks that are kept of it. */
#define SERVER_MEMORY_LEAST ((uint64_t)32 << 20)
#define SERVER_MEMORY_MOST ((uint64_t)256 << 20)

static int start_fleet(struct server *s, struct err *e)
{
	const struct fleet_options o = { .own = tsdb_source(s->db), .labels = on_external_labels, .rows = on_rows, .address = on_address, .arg = s,
					 .max_answer_bytes = MIN(s->f.max_bytes, SERVER_MEMORY_MOST),
					 .max_dictionary_bytes = MIN(MAX(s->f.memory_bytes / 64, SERVER_MEMORY_LEAST), SERVER_MEMORY_MOST),
					 .user_agent = "pyrrha/" PACKAGE_VERSION };
	s->fleet = fleet_new(&o);
	fleet_register_metrics(s->fleet);
	fleet_server_register_metrics();
	return configuration_apply_to_fleet(s->config, s->fleet, e);
}

static void start_engine(struct server *s)
{
	s->pool = pool_new(0, "query");
	char *active AUTOFREE = xasprintf("%s/queries.active", s->f.storage_path);
	struct promql_options o = {
		.lookback_ms = s->f.lookback_ms, .timeout_ms = s->f.query_timeout_ms,
		.max_samples = (uint64_t)s->f.max_samples, .max_concurrency = web_query_places((unsigned)s->f.max_concurrency),
		.max_bytes = s->f.max_bytes, .max_total_bytes = s->f.max_total_bytes, .memory_limit = s->f.memory_limit, .max_series = (uint32_t)s->f.max_series, .max_functions = (uint32_t)s->f.max_functions,
		.max_rule_concurrency = (unsigned)s->f.max_evals, .pool = s->pool, .active_query_file = active, .slow_query_ms = s->f.slow_query_ms, .slow_query = log_slow_query,
	};
	promql_register_metrics();
	s->engine = promql_engine_new(fleet_source(s->fleet), &o);
	configuration_apply_to_engine(s->config, s->engine);
	const char *crashed = promql_engine_crashed_queries(s->engine);
	if (*crashed)
		LOG_WARN("msg", "these queries were running when the server last ended without notice", "queries", crashed);
}

/* Other servers ask this one for its own data. */
static void start_answerer(struct server *s)
{
	struct fleet_answerer_options o = {
		.source = tsdb_source(s->db), .labels = on_external_labels, .arg = s, .rows = on_rows, .rows_arg = s, .pool = s->pool, .timeout_ms = s->f.query_timeout_ms,
		.max_samples = (uint64_t)s->f.max_samples, .max_bytes = s->f.max_bytes, .max_dictionary_bytes = s->f.memory_bytes / 32,
		.max_memory_bytes = s->f.memory_bytes / 32, .guard_enter = on_question, .guard_leave = on_answer, .guard_arg = s,
	};
	fleet_answerer_register_metrics();
	s->answerer = fleet_answerer_new(&o);
}

static int start_scraper(struct server *s, struct err *e)
{
	struct scraper_options o = { .user_agent = "pyrrha/" PACKAGE_VERSION, .memory_bytes = s->f.scrape_bytes,
				     .reload_interval_ms = s->f.discovery_ms, .replica = s->f.replica, .replicas = s->f.replicas };
	scraper_register_metrics();
	discovery_register_metrics();
	int rc = scraper_new(&s->scraper, tsdb_sink(s->db), &o, e);
	return rc ? rc : configuration_apply_to(s->config, s->scraper, e);
}

static int start_notifier(struct server *s, struct err *e)
{
	struct notifier_options o = { .user_agent = "pyrrha/" PACKAGE_VERSION, .queue_capacity = (size_t)s->f.notification_capacity,
				      .batch_size = (size_t)s->f.notification_batch, .drop_at_end = !s->f.notification_drain };
	notifier_register_metrics();
	int rc = notifier_new(&s->notifier, &o, e);
	return rc ? rc : configuration_apply_to_notifier(s->config, s->notifier, e);
}

static int start_rules(struct server *s, struct err *e)
{
	struct rules_options o = { .engine = s->engine, .source = tsdb_source(s->db), .queried = fleet_source(s->fleet), .sink = tsdb_sink(s->db),
				   .alerts = notifier_sink(s->notifier), .external_url = web_url(s->web),
				   .outage_tolerance_ms = s->f.outage_tolerance_ms, .grace_ms = s->f.grace_ms, .resend_ms = s->f.resend_ms,
				   .max_concurrent = (unsigned)s->f.max_evals, .memory_bytes = s->f.memory_bytes / 16 };
	rules_register_metrics();
	int rc = rules_new(&s->rules, &o, e);
	return rc ? rc : configuration_apply_to_rules(s->config, s->rules, web_url_is_guessed(s->web) ? web_url(s->web) : NULL, e);
}

static int start(struct server *s, struct err *e)
{
	metrics_register_process("pyrrha", PACKAGE_VERSION);
	metrics_register(metrics, ARRAY_LEN(metrics));
	int rc = configuration_load(&s->config, s->f.config_file, s->f.expand_env, e);
	if (!rc)
		rc = start_web(s, e);
	if (!rc)
		rc = make_remote_write(s, e);
	if (!rc)
		rc = open_bucket(s, e);
	if (!rc)
		rc = open_storage(s, e);
	if (!rc)
		rc = open_pins(s, e);
	if (rc)
		return rc;
	rc = configuration_apply_to_storage(s->config, s->db, s->f.storage, e);
	if (!rc)
		rc = start_fleet(s, e);
	if (rc)
		return rc;
	start_engine(s);
	start_answerer(s);
	rc = start_scraper(s, e);
	if (!rc)
		rc = start_notifier(s, e);
	if (!rc)
		rc = start_rules(s, e);
	if (!rc && s->f.auto_reload)
		rc = configuration_watch(s->config, s->f.auto_reload_ms, e);
	if (rc)
		return rc;
	web_set_parts(s->web, s->engine, fleet_source(s->fleet), scraper_status(s->scraper));
	web_set_own_source(s->web, tsdb_source(s->db));
	web_set_servers(s->web, fleet_status(s->fleet));
	web_set_sink(s->web, tsdb_sink(s->db));
	web_set_answerer(s->web, s->answerer);
	web_set_admin(s->web, tsdb_admin(s->db));
	web_set_rules(s->web, rules_status(s->rules));
	web_set_past(s->web, rules_past(s->rules));
	web_set_pins(s->web, s->pins);
	web_set_alertmanagers(s->web, notifier_status(s->notifier));
	web_set_ready(s->web, true);
	metric_set(&metrics[M_READY], 1);
	LOG_INFO("msg", "ready", "url", web_url(s->web));
	return 0;
}

/* ---- stop, from the left ---- */

static void *drain_web(void *arg)
{
	web_drain(arg, WEB_GRACE_MS);
	return NULL;
}

/* Requests end while the decoders do: both may need a second. */
static void stop_intake(struct server *s)
{
	pthread_t t;
	struct err e = { 0 };
	bool beside = s->web && thread_start(&t, "drain-web", drain_web, s->web, &e) == 0;
	configuration_leave_scraper(s->config);
	configuration_leave_rules(s->config);
	if (s->scraper)
		scraper_stop(s->scraper);
	rules_stop(s->rules);
	notifier_close(s->notifier); /* it sends the rest while the following parts stop */
	remote_write_close(s->remote);
	if (s->db)
		tsdb_flush(s->db);
	if (beside)
		pthread_join(t, NULL);
}

static int stop(struct server *s)
{
	struct err e = { 0 };
	program_end_within(STOP_SECONDS);
	metric_set(&metrics[M_READY], 0);
	if (s->web)
		web_set_ready(s->web, false);
	if (s->config)
		configuration_unwatch(s->config);
	if (s->db)
		tsdb_wind_down(s->db);
	stop_intake(s);
	web_stop(s->web, WEB_GRACE_MS); /* before what its handlers use goes */
	pins_close(s->pins);
	scraper_free(s->scraper);
	rules_free(s->rules);
	promql_engine_free(s->engine);
	fleet_free(s->fleet);
	fleet_answerer_free(s->answerer);
	pool_free(s->pool);
	int rc = tsdb_close(s->db, &e);
	if (rc)
		LOG_ERROR("msg", "closing the storage failed", "err", e.msg);
	bucket_free(s->bucket);
	remote_write_free(s->remote); /* it has all that the storage has */
	notifier_free(s->notifier); /* last: Alertmanagers have had as long as all this took */
	configuration_free(s->config);
	program_end_within(0);
	return rc;
}

/* ---- signals ---- */

/* While start() is at work (a large storage takes its time to open): storage is safe against sudden ends. SIGUSR1,
 * sent to this very thread, says that start() is done. */
static void *end_while_starting(void *arg)
{
	const sigset_t *signals = arg;
	int sig;
	while (sigwait(signals, &sig) || sig == SIGHUP)
		;
	if (sig == SIGUSR1)
		return NULL;
	LOG_INFO("msg", "stopped while starting");
	_exit(0);
}

static int start_interruptible(struct server *s, const sigset_t *signals, struct err *e)
{
	pthread_t t;
	sigset_t early = *signals;
	sigaddset(&early, SIGUSR1);
	int rc = thread_start(&t, "signals", end_while_starting, &early, e);
	if (rc)
		return rc;
	rc = start(s, e);
	pthread_kill(t, SIGUSR1);
	pthread_join(t, NULL);
	return rc;
}

static void reload(void *arg)
{
	const struct server *s = arg;
	struct err e = { 0 };
	if (configuration_reload(s->config, &e))
		LOG_ERROR("msg", "the configuration was not reloaded, the old one stays", "err", e.msg);
}

/* ---- the command line ---- */

static int print(struct buf *b)
{
	fwrite(b->ptr ? b->ptr : "", 1, b->len, stdout);
	buf_free(b);
	return 0;
}

/* Commands that only print something and exit; negative: the server should run. */
static int tell(const struct server_flags *f)
{
	struct buf b = { 0 };
	struct err e = { 0 };
	if (f->help) {
		flags_help(&b);
		return print(&b);
	}
	if (f->version) {
		buf_puts(&b, PACKAGE_STRING "\n");
		return print(&b);
	}
	if (!f->config_check)
		return -1;
	if (configuration_check(f->config_file, f->expand_env, false, &b, &e) ||
	    (*f->web_config_file && web_config_check(f->web_config_file, &b, &e))) {
		buf_free(&b);
		fprintf(stderr, "pyrrha: %s\n", e.msg);
		return 1;
	}
	return print(&b);
}

static int run(struct server *s, const sigset_t *signals)
{
	struct err e = { 0 };
	char memory[24];
	if (s->f.self_heap && selfprof_heap_start(heap_hooks(), &e))
		LOG_WARN("msg", "no heap profiles of this server", "err", e.msg);
	LOG_INFO("msg", "starting", "version", PACKAGE_VERSION, "memory", units_format_size(s->f.memory_bytes, memory));
	if (*s->f.memory_warning)
		LOG_WARN("msg", s->f.memory_warning);
	int rc = start_interruptible(s, signals, &e);
	if (rc)
		LOG_ERROR("msg", "cannot start", "err", e.msg);
	else
		program_wait(signals, reload, s);
	rc |= stop(s);
	if (!rc)
		LOG_INFO("msg", "bye");
	metrics_free();
	return rc ? 1 : 0;
}

int main(int argc, char **argv)
{
	struct server s = { 0 };
	struct err e = { 0 };
	sigset_t signals;
	program_block_signals(&signals); /* one that comes while flags are read is an end while starting, too */
	alloc_keep_freed();
	files_raise_limit(); /* a socket per request under way, and one per connection that is kept */
	int rc = flags_parse(&s.f, argc, argv, &e);
	if (!rc)
		rc = program_set_log(s.f.log_level, s.f.log_format, &e);
	if (rc) {
		fprintf(stderr, "pyrrha: %s\n", e.msg);
		rc = 2;
	} else {
		promql_enable(s.f.language_features);
		scraper_config_expect(s.f.replicas);
		if (s.f.help || s.f.version || s.f.config_check)
			pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
		if (!s.f.help && !s.f.version)
			flags_explain();
		rc = tell(&s.f);
		if (rc < 0)
			rc = run(&s, &signals);
	}
	flags_free();
	return rc;
}
