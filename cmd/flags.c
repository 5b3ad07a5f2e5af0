/* SPDX-License-Identifier: Apache-2.0 */
/* The table of the server's flags. Names are Prometheus's where it has one. Parca's are aliases where the meaning is the same;
 * its other flags are accepted, and the log says what to use instead. */
#include "cmd/flags.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/memory_limit.h"
#include "base/memory_parts.h"
#include "base/num.h"
#include "base/units.h"
#include "cmd/parca_flags.h"
#include "cmd/storage_config.h"
#include "httpd/httpd.h"
#include "promql-like/promql.h"
#include "tsdb/tsdb.h"

#define REPLICAS_MAX 100
#define MEMORY_LEAST (UINT64_C(128) << 20)
#define LOG_MOST (UINT64_C(192) << 20) /* of the head log's buffers: more holds no more of a log that is trimmed each hour */
#define SERIES_LEAST (INT64_C(2) << 10) /* half a KiB with short labels, one and a half with long ones; two days are there after midnight */
#define QUERY_LEAST (INT64_C(32) << 20) /* a query over a fleet's day holds several times as much for moments: not many at a time where there is little */

/* Every row points into this, the one set of flags of the process. */
static struct server_flags set = {
	.service_labels = TSDB_SERVICE_LABELS, .auto_reload_ms = 30000, .config_file = "pyrrha.yml", .web_config_file = "", .storage_path = "data", .log_level = "info", .log_format = "logfmt",
	.external_url = "", .route_prefix = "", .cors_origin = "", .port = "", .replica_text = "", .replicas = 1,
	.retention_ms = INT64_C(15) * 86400000, .query_timeout_ms = 120000, .slow_query_ms = 10000, .lookback_ms = 300000, .commit_interval_ms = 20, .max_concurrency = 20, .max_waiting = 100,
	.outage_tolerance_ms = 3600000, .grace_ms = 600000, .resend_ms = 60000, .bucket_cache_bytes = UINT64_C(10) << 30, .max_evals = 4, .notification_capacity = 10000, .notification_batch = 256, .notification_drain = true, .self_heap = true,
	.remote_bytes = 1 << 30, .discovery_ms = 5000, .max_pins = 100, .pin_bytes = 256 << 20, .partition_series = 1000000, .label_sets = 10000,
	.target_functions = 200000, .target_locations = 500000, .target_stacks = 1000000,
	.max_samples = 50000000, .max_series = 100000, .max_functions = 1000000, .max_connections = 512, .read_timeout_ms = 300000,
};

#define REFUSED(names_first, names_more, text) { names_first, OPT_REFUSED, NULL, NULL, text, names_more }

static struct opt table[] = {
	{ "Configuration", OPT_GROUP },
	{ "config.file", OPT_STRING, &set.config_file, "<file>", "Configuration file. SIGHUP reads it again: a bad or empty one, or a pipe, is refused, and the old one stays.", "config-path" },
	{ "config.check", OPT_BOOL, &set.config_check, NULL, "Read the configuration, print what it says, and exit." },
	{ "config.expand-env", OPT_BOOL, &set.expand_env, NULL,
	  "Replace ${NAME} in the values of the configuration by the environment variable, which must be set; $${NAME} is the text itself. $1 and ${1} of relabelling are not replaced." },
	{ "config.auto-reload", OPT_BOOL, &set.auto_reload, NULL,
	  "Reload when what the files of the configuration hold has changed, those of scrape_config_files included." },
	{ "config.auto-reload-interval", OPT_DURATION, &set.auto_reload_ms, "<duration>",
	  "How often to look, besides when something happens in the folders of these files." },

	{ "Memory of all parts", OPT_GROUP },
	{ "memory", OPT_SIZE, &set.memory_bytes, "<size>",
	  "The memory of all budgets together. Not given: half of what the process may use, by its control group or the machine. "
	  "Each part has a share of it, or the size of its own flag: --storage.cache-memory a quarter, --query.memory 7/32, --storage.dictionary-memory 5/32, --storage.head-memory 1/8, --scrape.memory 3/32, --web.answer-memory and --storage.queue-memory 1/32 each; 3/32 is for parts without a flag, half of that for the buffers of the head log (at most 192MiB). If flags ask for more, the others have less. If given, the process keeps below twice this size: queries are stopped, and answers refused, before." },

	{ "Storage", OPT_GROUP },
	{ "storage.path", OPT_STRING, &set.storage_path, "<dir>", "Where profiles are kept. One server per directory.",
	  "storage.tsdb.path,storage-path" },
	{ "storage.tsdb.retention.time", OPT_DURATION, &set.retention_ms, "<duration>",
	  "How long profiles are kept; whole days (UTC) go at a time. 0 keeps them for ever.", "storage.tsdb.retention" },
	{ "storage.tsdb.retention.size", OPT_SIZE, &set.retention_bytes, "<size>",
	  "The oldest days go until the rest is smaller than this; the newest stays, and the log of the last hours comes on top. "
	  "0 means no limit.", NULL },
	{ "storage.local-retention.time", OPT_DURATION, &set.local_retention_ms, "<duration>",
	  "How long days stay on this disk once they are in the bucket of object_storage in --config.file; older ones are in the bucket alone. 0: as "
	  "long as --storage.tsdb.retention.time, which counts on disk and in the bucket." },
	{ "storage.bucket-cache.size", OPT_SIZE, &set.bucket_cache_bytes, "<size>",
	  "Disk for what queries read of days that are in the bucket alone; above it the days that were used longest ago go." },
	{ "storage.service-labels", OPT_STRING, &set.service_labels, "<labels>",
	  "Labels that make a service, separated by commas. Series that agree in them are also stored as one sum a minute, which makes graphs and profiles of whole services fast; it costs about a tenth more space. Empty means none." },

	{ "storage.tsdb.retention.selector", OPT_LIST, &set.keep, "<selector>: <duration>",
	  "Matching series are kept for less: '{namespace=\"dev\"}: 2d'; may be repeated, the shortest counts. The same as "
	  "storage.retention in --config.file." },

	{ "storage.head-memory", OPT_SIZE, &set.head_bytes, "<size>",
	  "Memory of the hours that are not sealed yet, and of sealing them. Above half of it the largest are sealed early, above "
	  "all of it what comes in waits." },
	{ "storage.cache-memory", OPT_SIZE, &set.cache_bytes, "<size>",
	  "Memory of the cache of what was read from the disk. Questions about a time that does not fit in it take several times as long." },
	{ "storage.dictionary-memory", OPT_SIZE, &set.dictionary_bytes, "<size>",
	  "Memory of the names and stacks of the days that queries or profiles need. Above it, days that no query used for a while leave memory; a later query loads them again." },
	{ "storage.queue-memory", OPT_SIZE, &set.queue_bytes, "<size>",
	  "Decoded profiles that wait to be written. Above it what comes in waits." },
	{ "storage.commit-interval", OPT_DURATION, &set.commit_interval_ms, "<duration>",
	  "A commit collects samples of rules and remote-write for this long before it writes and syncs them together, and profiles of scrapes ten times as long, at most a second: fewer syncs of a slow disk, and less CPU. Unsynced data is neither visible to queries nor safe: a crash loses at most this much of the scraped data. 0 writes whatever came while the last sync was under way." },
	{ "storage.max-series", OPT_INT, &set.partition_series, "<n>",
	  "Series of a day. Those of more are refused and counted. Not given: 1,000,000, or as many as have 2KiB each of --memory. From half of them on each target may add its equal share of the rest." },
	{ "storage.max-target-functions", OPT_INT, &set.target_functions, "<n>",
	  "Functions that a target (job and instance) may add to a day. Functions beyond this, or the next two limits, or a quarter of --storage.dictionary-memory, become one function, (other), and are counted; totals stay exact." },
	{ "storage.max-target-locations", OPT_INT, &set.target_locations, "<n>", "The same of places in the code." },
	{ "storage.max-target-stacks", OPT_INT, &set.target_stacks, "<n>", "The same of stacks, with their sample labels." },
	{ "storage.max-label-sets", OPT_INT, &set.label_sets, "<n>",
	  "Different sets of sample labels in a series and day. The labels of more are left out, marked and counted." },

	{ "Scraping", OPT_GROUP },
	{ "scrape.memory", OPT_SIZE, &set.scrape_bytes, "<size>",
	  "Memory of all scrapes together: bodies on their way and waiting, what they are decoded in, the last values of cumulative "
	  "types. Above it a scrape that is due does not begin: up is 0, and the targets page says why. No target is skipped twice before each other one was skipped once." },

	{ "scrape.discovery-reload-interval", OPT_DURATION, &set.discovery_ms, "<duration>",
	  "Least time between two times that a job follows its discovery. The first time, and when its configuration changed, it "
	  "does at once." },

	{ "scrape.replica", OPT_STRING, &set.replica_text, "<I/N>",
	  "This is server I of N with the same targets, counted from 0: 0/2 and 1/2. All its scrapes begin I/N of the interval later, so "
	  "that each of the N gets its profiles of targets that give one CPU profile at a time, as programs in Go do; "
	  "`seconds` of these must be below scrape_interval/N." },

	{ "Page and API", OPT_GROUP },
	{ "web.listen-address", OPT_LIST, &set.listen, "<host:port>",
	  "Where to listen, 127.0.0.1:7070 if not given; may be repeated. [::1]:7070 is IPv6, port 0 a free one (the log "
	  "tells which). Addresses that other machines can reach need a login in --web.config.file.", "http-address" },
	{ "port", OPT_STRING, &set.port, "<host:port>", "As Parca has it: unless it is empty, it replaces all of --web.listen-address." },
	{ "web.config.file", OPT_STRING, &set.web_config_file, "<file>",
	  "TLS, who may log in and what for, headers: Prometheus's web configuration, and tokens. It, and the files that it names, are read "
	  "again when they change. pyrtool check web-config reads one." },
	{ "web.allow-insecure", OPT_BOOL, &set.allow_insecure, NULL,
	  "Listen beyond loopback without a login: anyone who reaches the port can read all profiles." },
	{ "web.enable-lifecycle", OPT_BOOL, &set.enable_lifecycle, NULL,
	  "Serve POST /-/reload and /-/quit. SIGHUP and SIGTERM do the same without this." },
	{ "web.enable-remote-write-receiver", OPT_BOOL, &set.enable_write, NULL,
	  "Accept floats at /api/v1/write (remote-write 1.0), so that expressions can combine them with profiles." },
	{ "web.enable-admin-api", OPT_BOOL, &set.enable_admin, NULL,
	  "Serve POST /api/v1/admin/tsdb/delete_series, clean_tombstones and snapshot: whoever reaches the port can then "
	  "delete what is kept." },
	{ "web.enable-pins", OPT_BOOL, &set.enable_pins, NULL,
	  "People may pin profiles on the page: they are kept as files in --storage.path, whatever the retention. With a login this takes the "
	  "right to write." },
	{ "web.max-pins", OPT_INT, &set.max_pins, "<n>", "Profiles that may be pinned at a time." },
	{ "web.max-pin-bytes", OPT_SIZE, &set.pin_bytes, "<size>", "Bytes that all pinned profiles may have on disk." },
	{ "web.external-url", OPT_STRING, &set.external_url, "<URL>",
	  "The URL under which people reach this server: links of alerts begin with it. Its path is the route prefix. If it is not given, links have "
	  "the first listening address, or the host's name if that is on all interfaces." },
	{ "web.allowed-host", OPT_LIST, &set.allowed_hosts, "<name>",
	  "A name that a request's Host may have on addresses of loopback, besides localhost, IP addresses and the host of "
	  "--web.external-url; may be repeated. Others are refused: a web page could have let its own name point here." },
	{ "web.route-prefix", OPT_STRING, &set.route_prefix, "<path>",
	  "Prefix of all addresses, if it is not the path of --web.external-url.", "path-prefix" },
	{ "web.cors.origin", OPT_STRING, &set.cors_origin, "<regexp>",
	  "Pages of these origins may read the API, an anchored expression: https://(a|b)\\.example\\.org. None if not "
	  "given.", "cors-allowed-origins" },
	{ "web.max-connections", OPT_INT, &set.max_connections, "<n>", "Connections at a time of each listening address. When they are used up, the one idle longest is closed; one client address has at most three quarters." },
	{ "web.answer-memory", OPT_SIZE, &set.answer_bytes, "<size>",
	  "Memory for answers until their clients have taken them. Above it, clients that take nothing lose theirs, and further answers are sent from files." },
	{ "web.read-timeout", OPT_DURATION, &set.read_timeout_ms, "<duration>", "Connections that are idle for this long "
	  "are closed. Headers have 10s and bodies 1m in any case.", "http-read-timeout" },

	{ "Queries", OPT_GROUP },
	{ "query.timeout", OPT_DURATION, &set.query_timeout_ms, "<duration>", "Longest time a query may take." },
	{ "query.log-slower-than", OPT_DURATION, &set.slow_query_ms, "<duration>",
	  "Queries that take longer are logged, with what they read. 0 logs none." },
	{ "query.max-concurrency", OPT_INT, &set.max_concurrency, "<n>",
	  "Queries at a time; more wait. Not given: 20, or as many as have 32MiB each of --query.memory. A quarter as many again, at least 2, are reserved for small queries." },
	{ "query.max-waiting", OPT_INT, &set.max_waiting, "<n>", "Queries that wait for a place; more are answered with 503." },
	{ "query.max-samples", OPT_INT, &set.max_samples, "<n>", "Samples that one query may hold at a time." },
	{ "query.max-bytes", OPT_SIZE, &set.max_bytes, "<size>", "Memory for the samples and stacks that one query holds. Not given: half of --query.memory." },
	{ "query.memory", OPT_SIZE, &set.max_total_bytes, "<size>",
	  "Memory for the samples and stacks of all queries together. When three quarters of it are taken, queries that hold more than their share of the rest get no more." },
	{ "query.max-series", OPT_INT, &set.max_series, "<n>", "Series that one query may answer with." },
	{ "query.max-functions", OPT_INT, &set.max_functions, "<n>",
	  "Number of functions, lines or files in the result of one self(), total() or share()." },
	{ "enable-feature", OPT_LIST, &set.features, "<names>",
	  "Experimental features of Prometheus's language, names separated by commas: promql-binop-fill-modifiers (fill, fill_left, fill_right), promql-extended-range-selectors (anchored, smoothed), promql-experimental-functions (info). May be repeated." },
	{ "query.lookback-delta", OPT_DURATION, &set.lookback_ms, "<duration>",
	  "How old a series' newest sample may be for a query to see it." },

	{ "Rules and alerts", OPT_GROUP },
	{ "rules.alert.for-outage-tolerance", OPT_DURATION, &set.outage_tolerance_ms, "<duration>",
	  "How long ago alerts may have been active for their \"for\" to go on after a restart that lost their state." },
	{ "rules.alert.for-grace-period", OPT_DURATION, &set.grace_ms, "<duration>",
	  "The least that such an alert waits before it fires again. One with a shorter \"for\" starts again as pending." },
	{ "rules.alert.resend-delay", OPT_DURATION, &set.resend_ms, "<duration>",
	  "How often receivers are told again of an alert that fires, or that was resolved less than 15m ago." },
	{ "rules.max-concurrent-evals", OPT_INT, &set.max_evals, "<n>",
	  "Groups of rules that are evaluated at a time. They have places of their own beside --query.max-concurrency." },

	{ "alertmanager.notification-queue-capacity", OPT_INT, &set.notification_capacity, "<n>",
	  "Alerts that wait for each Alertmanager. When there are more, the oldest are dropped and counted." },
	{ "alertmanager.notification-batch-size", OPT_INT, &set.notification_batch, "<n>", "Alerts of one request to an Alertmanager." },
	{ "alertmanager.drain-notification-queue-on-shutdown", OPT_BOOL, &set.notification_drain, NULL,
	  "At the end, send what waits for Alertmanagers; it may take 3s." },

	{ "Remote-write", OPT_GROUP },
	{ "remote-write.queue-size", OPT_SIZE, &set.remote_bytes, "<size>",
	  "Disk space of samples that wait for each receiver of remote_write, in --storage.path. When it is more, the oldest samples are dropped and counted." },

	{ "The program itself", OPT_GROUP },
	{ "log.level", OPT_STRING, &set.log_level, "<level>", "Least level that is logged: debug, info, warn or error.",
	  "log-level" },
	{ "log.format", OPT_STRING, &set.log_format, "<format>", "logfmt or json.", "log-format" },
	{ "self-profile.heap", OPT_BOOL, &set.self_heap, NULL,
	  "Sample what this server itself allocates, for /debug/pprof/heap. --no-self-profile.heap costs nothing at all." },
	{ "version", OPT_BOOL, &set.version, NULL, "Print the version and exit." },
	{ "help", OPT_BOOL, &set.help, NULL, "Print this and exit." },

	/* Parca's that have nothing to set here. */
#define EXPLAINED(name, arg, advice) { name, OPT_EXPLAINED, NULL, arg, advice },
	PARCA_FLAGS(EXPLAINED)
#undef EXPLAINED

	/* Prometheus's that are not here. */
	REFUSED("storage.tsdb.wal-compression", "storage.tsdb.no-lockfile,storage.tsdb.min-block-duration,"
		"storage.tsdb.max-block-duration,storage.tsdb.wal-segment-size",
		"the storage chooses this by itself. Leave it out"),
	REFUSED("web.console.templates", "web.console.libraries,"
		"web.user-assets", "not served here. Leave it out"),
};

static int read_features(struct err *e)
{
	for (size_t i = 0; i < set.features.n; i++)
		for (const char *p = set.features.v[i]; *p;) {
			struct view name = view_make(p, strcspn(p, ","));
			unsigned feature = promql_feature(name);
			if (name.len && !feature)
				return err_set(e, ERR_BAD_DATA, "--enable-feature: there is no \"%.*s\" to turn on here: only "
					       "promql-binop-fill-modifiers, promql-extended-range-selectors and promql-experimental-functions",
					       VIEW_ARG(name));
			set.language_features |= feature;
			p += name.len + (p[name.len] != 0);
		}
	return 0;
}

static int read_replica(struct err *e)
{
	struct view text = view_of(set.replica_text);
	const char *slash = strchr(text.ptr, '/');
	int64_t i, n;
	if (!text.len)
		return 0;
	if (!slash || !num_parse_i64(view_make(text.ptr, (size_t)(slash - text.ptr)), &i) || !num_parse_i64(view_of(slash + 1), &n))
		return err_set(e, ERR_BAD_DATA, "--scrape.replica: \"%s\" is not of the form I/N: of two servers one has 0/2, the other 1/2",
			       text.ptr);
	if (n < 1 || n > REPLICAS_MAX || i < 0 || i >= n)
		return err_set(e, ERR_BAD_DATA, "--scrape.replica: in \"%s\" N must be from 1 to %d, and I from 0 to N-1: of two servers "
			       "one has 0/2, the other 1/2", text.ptr, REPLICAS_MAX);
	set.replica = (unsigned)i;
	set.replicas = (unsigned)n;
	return 0;
}

/* Checks that need only the values, before anything is started. */
static int check_values(struct err *e)
{
	char host[256], port[8];
	for (size_t i = 0; i < set.listen.n; i++)
		if (!httpd_split_address(set.listen.v[i], host, port))
			return err_set(e, ERR_BAD_DATA, "--web.listen-address: \"%s\" is not of the form host:port, [IPv6]:port or "
				       ":port", set.listen.v[i]);
	if (strchr(set.cors_origin, ',') && !strchr(set.cors_origin, '{')) /* Parca's is a list */
		return err_set(e, ERR_BAD_DATA, "--web.cors.origin is one expression, not a list: write https://a|https://b");
	if (set.max_concurrency < 1 || set.max_concurrency > 10000)
		return err_set(e, ERR_BAD_DATA, "--query.max-concurrency must be from 1 to 10000");
	if (set.max_waiting < 1 || set.max_waiting > 100000)
		return err_set(e, ERR_BAD_DATA, "--query.max-waiting must be from 1 to 100000");
	if (set.max_samples < 1)
		return err_set(e, ERR_BAD_DATA, "--query.max-samples must be at least 1");
	if (set.max_bytes < 1 || set.max_total_bytes < 1)
		return err_set(e, ERR_BAD_DATA, "--query.max-bytes and --query.memory must be at least 1");
	if (set.max_series < 1 || set.max_series > UINT32_MAX || set.max_functions < 1 || set.max_functions > UINT32_MAX)
		return err_set(e, ERR_BAD_DATA, "--query.max-series and --query.max-functions must be from 1 to 4294967295");
	if (set.head_bytes < 1 << 20 || set.cache_bytes < 1 << 20 || set.queue_bytes < 1 << 20 || set.dictionary_bytes < 1 << 20)
		return err_set(e, ERR_BAD_DATA, "--storage.head-memory, --storage.cache-memory, --storage.dictionary-memory and "
			       "--storage.queue-memory must be at least 1MiB");
	if (set.discovery_ms < 1)
		return err_set(e, ERR_BAD_DATA, "--scrape.discovery-reload-interval must be longer than 0");
	if (set.scrape_bytes < 8 << 20)
		return err_set(e, ERR_BAD_DATA, "--scrape.memory must be at least 8MiB");
	if (set.commit_interval_ms < 0 || set.commit_interval_ms > 60000)
		return err_set(e, ERR_BAD_DATA, "--storage.commit-interval must be from 0 to 1m");
	if (set.local_retention_ms && set.retention_ms && set.local_retention_ms >= set.retention_ms)
		return err_set(e, ERR_BAD_DATA, "--storage.local-retention.time must be less than --storage.tsdb.retention.time: leave it out to keep days on "
			       "this disk as long");
	if (set.partition_series < 1 || set.partition_series > UINT32_MAX || set.label_sets < 1 || set.label_sets > UINT32_MAX)
		return err_set(e, ERR_BAD_DATA, "--storage.max-series and --storage.max-label-sets must be from 1 to 4294967295");
	if (set.answer_bytes < 1 << 20)
		return err_set(e, ERR_BAD_DATA, "--web.answer-memory must be at least 1MiB");
	if (MIN(MIN(set.target_functions, set.target_locations), set.target_stacks) < 1 ||
	    MAX(MAX(set.target_functions, set.target_locations), set.target_stacks) > UINT32_MAX)
		return err_set(e, ERR_BAD_DATA, "--storage.max-target-functions, --storage.max-target-locations and "
			       "--storage.max-target-stacks must be from 1 to 4294967295");
	if (set.max_pins < 1 || set.max_pins > 10000)
		return err_set(e, ERR_BAD_DATA, "--web.max-pins must be from 1 to 10000");
	if (set.max_connections < 1 || set.max_connections > 1000000)
		return err_set(e, ERR_BAD_DATA, "--web.max-connections must be from 1 to 1000000");
	if (set.auto_reload_ms < 1000)
		return err_set(e, ERR_BAD_DATA, "--config.auto-reload-interval must be at least 1s");
	if (set.query_timeout_ms < 1)
		return err_set(e, ERR_BAD_DATA, "--query.timeout must be longer than nothing");
	if (set.outage_tolerance_ms < 1 || set.grace_ms < 1 || set.resend_ms < 1)
		return err_set(e, ERR_BAD_DATA, "--rules.alert.for-outage-tolerance, --rules.alert.for-grace-period and "
			       "--rules.alert.resend-delay must be longer than nothing");
	if (set.max_evals < 1 || set.max_evals > 1000)
		return err_set(e, ERR_BAD_DATA, "--rules.max-concurrent-evals must be from 1 to 1000");
	if (set.notification_capacity < 1 || set.notification_capacity > 1000000)
		return err_set(e, ERR_BAD_DATA, "--alertmanager.notification-queue-capacity must be from 1 to 1000000");
	if (set.notification_batch < 1 || set.notification_batch > set.notification_capacity)
		return err_set(e, ERR_BAD_DATA, "--alertmanager.notification-batch-size must be at least 1, and at most the queue's capacity");
	if (set.remote_bytes < 1 << 20)
		return err_set(e, ERR_BAD_DATA, "--remote-write.queue-size must be at least 1MiB");
	if (set.lookback_ms < 1)
		return err_set(e, ERR_BAD_DATA, "--query.lookback-delta must be longer than nothing");
	int rc = read_features(e);
	if (!rc)
		rc = read_replica(e);
	return rc ? rc : storage_config_flags(&set.storage, &set.keep, e);
}

/* ---- memory ---- */

static bool is_given(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		if (strcmp(table[i].name, name) == 0)
			return table[i].given;
	return false;
}

static void warn_of_memory(uint64_t all, uint64_t limit)
{
	char a[24], b[24], c[24];
	units_format_size(all, a);
	units_format_size(set.memory_bytes, b);
	units_format_size(limit, c);
	if (MAX(all, set.memory_bytes) > limit)
		snprintf(set.memory_warning, sizeof set.memory_warning, "the budgets of memory come to %s, but the process may use %s: before they are "
			 "full the kernel ends it; lower --memory, or the flags of its parts", all > set.memory_bytes ? a : b, c);
	else if (all > set.memory_bytes)
		snprintf(set.memory_warning, sizeof set.memory_warning, "the budgets of memory come to %s, more than %s (--memory); %s is what the process "
			 "may use", a, b, c);
}

/* Sizes of budgets that were not given, from the whole. */
static int divide_memory(struct err *e)
{
	static const struct { const char *flag; unsigned share; uint64_t *bytes; } rows[] = {
		{ "storage.cache-memory", 16, &set.cache_bytes }, { "query.memory", 14, &set.max_total_bytes },
		{ "storage.dictionary-memory", 10, &set.dictionary_bytes }, { "storage.head-memory", 8, &set.head_bytes },
		{ "scrape.memory", 6, &set.scrape_bytes }, { "web.answer-memory", 2, &set.answer_bytes },
		{ "storage.queue-memory", 2, &set.queue_bytes },
	};
	struct memory_part parts[ARRAY_LEN(rows)];
	uint64_t limit = set.memory_limit = memory_limit(""), given, all;
	if (!is_given("memory"))
		set.memory_bytes = MAX(limit / 2 >> 20 << 20, MEMORY_LEAST);
	else
		set.memory_limit = MIN(limit, set.memory_bytes > UINT64_MAX / 2 ? UINT64_MAX : set.memory_bytes * 2);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		parts[i] = (struct memory_part){ rows[i].share, rows[i].bytes, is_given(rows[i].flag) };
	all = memory_divide(set.memory_bytes, parts, ARRAY_LEN(rows), &given);
	set.log_bytes = MIN(set.memory_bytes / 64 * 3, LOG_MOST); /* half of the share of the parts that have no flag of their own */
	if (!is_given("query.max-bytes"))
		set.max_bytes = set.max_total_bytes / 2;
	if (!is_given("storage.max-series"))
		set.partition_series = MAX(MIN(set.partition_series, (int64_t)(set.memory_bytes / SERIES_LEAST)), 1);
	if (!is_given("query.max-concurrency"))
		set.max_concurrency = MAX(MIN(set.max_concurrency, (int64_t)(set.max_total_bytes / QUERY_LEAST)), 1);
	if (is_given("memory") && set.memory_bytes < MEMORY_LEAST)
		return err_set(e, ERR_BAD_DATA, "--memory must be at least 128MiB");
	if (is_given("memory") && given > set.memory_bytes) {
		char a[24], b[24];
		return err_set(e, ERR_BAD_DATA, "the flags of single budgets ask for %s of memory, --memory is %s for all together: raise it, or leave "
			       "some of the others out", units_format_size(given, a), units_format_size(set.memory_bytes, b));
	}
	warn_of_memory(all, limit);
	return 0;
}

static void flags_listen_only_at(const char *address)
{
	set.listen.v = xreallocarray(set.listen.v, 1, sizeof *set.listen.v);
	set.listen.v[0] = address;
	set.listen.n = 1;
}

int flags_parse(struct server_flags *f, int argc, char **argv, struct err *e)
{
	int rest;
	int rc = opts_parse(table, ARRAY_LEN(table), argc, argv, &rest, e);
	if (!rc && rest)
		rc = err_set(e, ERR_BAD_DATA, "unexpected argument \"%s\": pyrrha takes only flags, --help lists them; commands are pyrtool's", argv[1]);
	if (!rc)
		rc = divide_memory(e);
	static const char *standard[] = { "127.0.0.1:7070" };
	if (*set.port)
		flags_listen_only_at(set.port);
	if (!rc)
		rc = check_values(e);
	if (!rc && !set.listen.n)
		flags_listen_only_at(standard[0]);
	*f = set;
	return rc;
}

static void flags_explain_one(const char *name, const char *advice)
{
	char flag[80];
	snprintf(flag, sizeof flag, "--%s", name);
	LOG_WARN("msg", "this flag of Parca does nothing here", "flag", flag, "instead", advice);
}

void flags_explain(void)
{
	opts_explain(table, ARRAY_LEN(table), flags_explain_one);
}

void flags_help(struct buf *out)
{
	opts_help(table, ARRAY_LEN(table),
		  "usage: pyrrha [flags]\n\n"
		  "Pyrrha pulls profiles from everything that serves pprof, keeps them, and answers queries about them:\n"
		  "a page on http://127.0.0.1:7070/, Prometheus's HTTP API, and pprof for go tool pprof.", out);
}

const struct opt *flags_table(size_t *ret_n)
{
	*ret_n = ARRAY_LEN(table);
	return table;
}

void flags_free(void)
{
	storage_config_free(set.storage);
	opts_free(table, ARRAY_LEN(table));
}
