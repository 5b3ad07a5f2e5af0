/* SPDX-License-Identifier: Apache-2.0 */
/* The top level of the server's file as one table: a row per section, ours, Prometheus's and Parca's. Keys that do not apply but are
 * harmless are accepted with a warning that names what to use instead, so that existing files load. */
#include "config/config_top.h"

#include "base/utf8.h"
#include "base/vec.h"

#define OURS(key) { key, CONFIG_NODE, 0 }
#define PASSED_OVER(key, text) { key, CONFIG_IGNORED, .words = text }
/* Ours one day: the file loads, and says that this part of it does nothing. */
#define NOT_YET(key) { key, CONFIG_IGNORED, .words = "ignored; this version cannot do it yet" }

static const struct config_field sections[] = {
	OURS("global"),
	OURS("scrape_configs"),
	OURS("scrape_config_files"),
	OURS("kubernetes_scrape_configs"),
	OURS("rule_files"),
	OURS("alerting"),
	OURS("query"),
	OURS("remote_write"),
	OURS("storage"),
	OURS("object_storage"),
	OURS("aliases"),
	OURS("replica_labels"),
	OURS("web"),
	NOT_YET("symbolizer"),
	PASSED_OVER("runtime", "ignored; there is nothing to tune"),
	PASSED_OVER("remote_read", "ignored; queries read what this server keeps"),
	PASSED_OVER("tracing", "ignored; this server does not send traces"),
	PASSED_OVER("otlp", "ignored; this server scrapes pprof"),
	PASSED_OVER("grpc_address", "ignored; there is no gRPC, all is HTTP on --web.listen-address"),
	PASSED_OVER("http_address", "ignored; the address is the flag --web.listen-address"),
	PASSED_OVER("port", "ignored; the address is the flag --web.listen-address"),
	PASSED_OVER("cors_allowed_origins", "ignored; the flag is --web.cors.origin"),
	PASSED_OVER("path_prefix", "ignored; the flag is --web.route-prefix"),
	PASSED_OVER("log_level", "ignored; the flag is --log.level"),
	PASSED_OVER("log_format", "ignored; the flag is --log.format"),
	PASSED_OVER("mode", "ignored; this server always scrapes, keeps and answers"),
	PASSED_OVER("storage_active_memory", "ignored; memory is bounded by itself and nothing is lost when it is full"),
	PASSED_OVER("storage_path", "ignored; the flag is --storage.path"),
	PASSED_OVER("storage_enable_wal", "ignored; everything is logged and synced before it can be queried"),
	PASSED_OVER("storage_granule_size", "ignored; not needed here"),
	PASSED_OVER("storage_row_group_size", "ignored; not needed here"),
	PASSED_OVER("storage_snapshot_trigger_size", "ignored; not needed here"),
	PASSED_OVER("storage_index_on_disk", "ignored; the index is always on disk"),
	PASSED_OVER("enable_persistence", "ignored; profiles always persist, in --storage.path"),
	PASSED_OVER("symbolizer_demangle_mode", "ignored; names are shown as stored"),
	PASSED_OVER("symbolizer_number_of_tries", "ignored; not needed here"),
	PASSED_OVER("debuginfo", "ignored; profiles arrive with their symbols"),
	PASSED_OVER("debug_info", "ignored; profiles arrive with their symbols"),
	PASSED_OVER("debuginfo_cache_dir", "ignored; profiles arrive with their symbols"),
	PASSED_OVER("debuginfo_upload_max_size", "ignored; profiles arrive with their symbols"),
	PASSED_OVER("debuginfo_upload_max_duration", "ignored; profiles arrive with their symbols"),
	PASSED_OVER("debuginfod_upstream_servers", "ignored; profiles arrive with their symbols"),
	PASSED_OVER("debuginfod_http_request_timeout", "ignored; profiles arrive with their symbols"),
	PASSED_OVER("metastore", "ignored; not needed here"),
	PASSED_OVER("profile_share_server", "ignored; nothing leaves this machine"),
};

/* Sections that other modules decode: their rows store the node here. */
struct section {
	const struct config_node *node;
};
static const struct config_table top_table = CONFIG_TABLE(struct section, sections, NULL);

int config_check_top(const struct config_tree *t, struct config_ctx *c, struct err *e)
{
	struct section unused = { 0 };
	return config_decode(c, &top_table, config_root(t), &unused, e);
}

#define ROW(key, type, member, def) { key, type, offsetof(struct config_global, member), def }

static int check_global(struct config_ctx *c, const struct config_node *n, void *at, struct err *e)
{
	const struct config_global *g = at;
	if (g->scrape_interval_ms <= 0 || g->evaluation_interval_ms <= 0)
		return config_error(c, n, e, "an interval must be longer than zero");
	for (size_t i = 0; i < g->external_labels.n; i++)
		if (!utf8_valid(view_of(g->external_labels.v[i].value)) || !g->external_labels.v[i].key[0])
			return config_error(c, n, e, "external_labels: a name is empty or a value is not UTF-8");
	return 0;
}

/* $V and ${V} from the environment, $$ is a dollar sign, what is not set is empty. */
static void expand_env(struct buf *out, const char *s)
{
	while (*s) {
		if (*s != '$') {
			buf_putc(out, *s++);
			continue;
		}
		if (*++s == '$') {
			buf_putc(out, *s++);
			continue;
		}
		bool braces = *s == '{';
		s += braces;
		size_t len = braces ? strcspn(s, "}")
				    : strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
		char *name = xstrndup(s, len);
		const char *v = getenv(name);
		buf_puts(out, v ? v : "");
		free(name);
		s += len + (braces && s[len]);
	}
}

static int get_external_labels(struct config_ctx *c, const struct config_node *n, void *at, struct err *e)
{
	static const struct config_field as_map = { .type = CONFIG_MAP };
	struct config_map *m = at;
	int rc = config_decode_value(c, &as_map, n, m, e);
	for (size_t i = 0; i < m->n && !rc; i++) {
		struct buf v = { 0 };
		expand_env(&v, m->v[i].value);
		m->v[i].value = arena_strndup(c->arena, v.ptr ? v.ptr : "", v.len);
		buf_free(&v);
	}
	return rc;
}

static const struct config_field global_rows[] = {
	ROW("scrape_interval", CONFIG_DURATION, scrape_interval_ms, "10s"),
	ROW("scrape_timeout", CONFIG_DURATION, scrape_timeout_ms, "0"),
	ROW("evaluation_interval", CONFIG_DURATION, evaluation_interval_ms, "1m"),
	ROW("rule_query_offset", CONFIG_DURATION, rule_query_offset_ms, "0"),
	{ "external_labels", CONFIG_CUSTOM, offsetof(struct config_global, external_labels), .custom = get_external_labels },
	ROW("body_size_limit", CONFIG_SIZE, body_size_limit, "0"),
	ROW("sample_limit", CONFIG_COUNT, sample_limit, "0"),
	ROW("target_limit", CONFIG_COUNT, target_limit, "0"),
	ROW("label_limit", CONFIG_COUNT, label_limit, "0"),
	ROW("label_name_length_limit", CONFIG_COUNT, label_name_length_limit, "0"),
	ROW("label_value_length_limit", CONFIG_COUNT, label_value_length_limit, "0"),
	ROW("keep_dropped_targets", CONFIG_COUNT, keep_dropped_targets, "0"),
	PASSED_OVER("query_log_file", "ignored; slow queries are in the log, see --query.log-slower-than"),
	PASSED_OVER("scrape_failure_log_file", "ignored; failures are in the log and on /targets"),
	PASSED_OVER("scrape_protocols", "ignored; profiles have one format, pprof"),
	PASSED_OVER("extra_scrape_metrics", "ignored; those series are always there"),
	PASSED_OVER("metric_name_validation_scheme", "ignored; names may be any UTF-8"),
	PASSED_OVER("metric_name_escaping_scheme", "ignored; names may be any UTF-8"),
	PASSED_OVER("convert_classic_histograms_to_nhcb", "ignored; a profile has no histograms"),
	PASSED_OVER("always_scrape_classic_histograms", "ignored; a profile has no histograms"),
	PASSED_OVER("scrape_native_histograms", "ignored; a profile has no histograms"),
	PASSED_OVER("runtime", "ignored; there is nothing to tune"),
};
static const struct config_table global_table = CONFIG_TABLE(struct config_global, global_rows, check_global);

int config_global_decode(const struct config_tree *t, struct config_ctx *c, struct config_global *ret, struct err *e)
{
	*ret = (struct config_global){ 0 };
	return config_decode_at(c, "global", &global_table, config_get(config_root(t), "global"), ret, e);
}

struct labels config_external_labels(const struct config_global *g, struct arena *a)
{
	struct labels_builder b;
	labels_builder_init(&b, (struct labels){ 0 });
	for (size_t i = 0; i < g->external_labels.n; i++)
		labels_builder_set(&b, view_of(g->external_labels.v[i].key), view_of(g->external_labels.v[i].value));
	struct labels l = labels_copy(a, labels_builder_finish(&b));
	labels_builder_free(&b);
	return l;
}
