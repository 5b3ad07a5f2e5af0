/* SPDX-License-Identifier: Apache-2.0 */
/* The flags of Parca's server that have nothing to set here: X(name, its value or NULL for a switch, what to do instead).
 * The server starts with them and logs each with its text, so that a command line written for Parca works and says what it
 * lacks. Flags with the same meaning are aliases of rows of the server's own table. Flags that Parca hides in its --help,
 * and those of its old releases, are here, too. */
#ifndef PYRRHA_CMD_PARCA_FLAGS_H
#define PYRRHA_CMD_PARCA_FLAGS_H

#define PARCA_KEPT "everything is always kept on disk, in --storage.path. Leave it out"
#define PARCA_BUDGET "memory does not decide what is kept here; see --storage.tsdb.retention.time, --storage.tsdb.retention.size and --memory. Leave it out"
#define PARCA_LAYOUT "the storage chooses this by itself. Leave it out"
#define PARCA_NOT_FORWARDED "profiles are not forwarded: this server keeps what it scrapes (scrape_configs in --config.file). Leave it out"
#define PARCA_NO_TRACES "traces are not sent. Leave it out"
#define PARCA_NAMED_BEFORE "names are resolved where the profile is made (see pyrrha-agent --help). Leave it out"
#define PARCA_FOR_GO "that is for programs in Go. Leave it out"
#define PARCA_NO_CLICKHOUSE "profiles are kept in --storage.path, not in another database. Leave it out"

#define PARCA_FLAGS(X) \
	X("mode", "<mode>", "there is one mode: scrape, keep and serve. Leave it out") \
	X("http-write-timeout", "<duration>", "see --query.timeout and --web.read-timeout") \
	X("enable-persistence", NULL, PARCA_KEPT) \
	X("storage-enable-wal", NULL, PARCA_KEPT) \
	X("storage-index-on-disk", NULL, PARCA_KEPT) \
	X("storage-active-memory", "<bytes>", PARCA_BUDGET) \
	X("storage-snapshot-trigger-size", "<bytes>", PARCA_BUDGET) \
	X("storage-granule-size", "<bytes>", PARCA_LAYOUT) \
	X("storage-row-group-size", "<n>", PARCA_LAYOUT) \
	X("storage-debug-value-log", NULL, PARCA_LAYOUT) \
	X("storage-tsdb-retention-time", "<duration>", "use --storage.tsdb.retention.time") \
	X("storage-tsdb-expensive-metrics", NULL, "all metrics are served. Leave it out") \
	X("metastore", "<name>", PARCA_LAYOUT) \
	X("iceberg-storage", NULL, PARCA_LAYOUT) \
	X("clickhouse-enabled", NULL, PARCA_NO_CLICKHOUSE) \
	X("clickhouse-address", "<host:port>", PARCA_NO_CLICKHOUSE) \
	X("clickhouse-database", "<name>", PARCA_NO_CLICKHOUSE) \
	X("clickhouse-username", "<name>", PARCA_NO_CLICKHOUSE) \
	X("clickhouse-password", "<password>", PARCA_NO_CLICKHOUSE) \
	X("clickhouse-table", "<name>", PARCA_NO_CLICKHOUSE) \
	X("clickhouse-secure", NULL, PARCA_NO_CLICKHOUSE) \
	X("store-address", "<host:port>", PARCA_NOT_FORWARDED) \
	X("bearer-token", "<token>", PARCA_NOT_FORWARDED) \
	X("bearer-token-file", "<file>", PARCA_NOT_FORWARDED) \
	X("insecure", NULL, PARCA_NOT_FORWARDED) \
	X("insecure-skip-verify", NULL, PARCA_NOT_FORWARDED) \
	X("grpc-headers", "<k=v>", PARCA_NOT_FORWARDED) \
	X("external-label", "<k=v>", PARCA_NOT_FORWARDED) \
	X("otlp-address", "<host:port>", PARCA_NO_TRACES) \
	X("otlp-exporter", "<name>", PARCA_NO_TRACES) \
	X("otlp-insecure", NULL, PARCA_NO_TRACES) \
	X("debuginfo-cache-dir", "<dir>", PARCA_NAMED_BEFORE) \
	X("debuginfo-upload-max-size", "<bytes>", PARCA_NAMED_BEFORE) \
	X("debuginfo-upload-max-duration", "<duration>", PARCA_NAMED_BEFORE) \
	X("debuginfo-uploads-signed-url", NULL, PARCA_NAMED_BEFORE) \
	X("debuginfod-upstream-servers", "<hosts>", PARCA_NAMED_BEFORE) \
	X("debuginfod-http-request-timeout", "<duration>", PARCA_NAMED_BEFORE) \
	X("debug-infod-upstream-servers", "<hosts>", PARCA_NAMED_BEFORE) \
	X("debug-infod-http-request-timeout", "<duration>", PARCA_NAMED_BEFORE) \
	X("symbolizer-demangle-mode", "<mode>", PARCA_NAMED_BEFORE) \
	X("symbolizer-external-addr-2-line-path", "<file>", PARCA_NAMED_BEFORE) \
	X("symbolizer-external-addr2line-path", "<file>", PARCA_NAMED_BEFORE) \
	X("symbolizer-number-of-tries", "<n>", PARCA_NAMED_BEFORE) \
	X("debug-normalize-addresses", NULL, PARCA_NAMED_BEFORE) \
	X("mutex-profile-fraction", "<n>", PARCA_FOR_GO) \
	X("block-profile-rate", "<n>", PARCA_FOR_GO) \
	X("profile-share-server", "<host:port>", "nothing leaves this machine. Leave it out")

#endif
