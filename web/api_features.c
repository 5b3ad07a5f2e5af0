/* SPDX-License-Identifier: Apache-2.0 */
/* features: what of Prometheus's the server has, and what a flag would turn on, by its categories. notifications: what is wrong
 * with the server itself. */
#include "base/clock.h"
#include "promql-like/promql.h"
#include "web/answer.h"
#include "web/internal.h"

struct feature {
	const char *name;
	bool on;
};

static void put_features(struct buf *b, const struct feature *f, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		json_key_view(b, view_of(f[i].name));
		json_bool(b, f[i].on);
	}
}

static void put_language(struct buf *b, bool aggregations)
{
	const struct promql_function_info *f;
	for (size_t i = 0; (f = promql_function_at(i)); i++)
		if (f->aggregation == aggregations)
			put_features(b, &(struct feature){ f->name, true }, 1);
}

void serve_features(struct httpd_request *rq, void *arg)
{
	const struct web *w = arg;
	const struct feature api[] = {
		{ "admin", w->o.enable_admin }, { "label_values_match", true }, { "lifecycle", w->o.enable_lifecycle },
		{ "otlp_write_receiver", false }, { "query_stats", true }, { "query_warnings", true },
		{ "remote_write_receiver", w->o.enable_write }, { "search", false }, { "time_range_labels", true },
		{ "time_range_series", true },
	};
	static const struct feature server[] = { { "agent_mode", false }, { "auto_reload_config", false }, { "server_mode", true } };
	bool fills = promql_enabled() & PROMQL_FILL, ranges = promql_enabled() & PROMQL_EXTENDED_RANGES;
	const struct feature language[] = {
		{ "anchored", ranges }, { "at_modifier", true }, { "bool", true }, { "by", true }, { "delayed_name_removal", true }, { "duration_expr", true },
		{ "fill", fills }, { "fill_left", fills }, { "fill_right", fills },
		{ "group_left", true }, { "group_right", true }, { "ignoring", true }, { "negative_offset", true }, { "offset", true },
		{ "on", true }, { "per_query_lookback_delta", true }, { "per_step_stats", false }, { "profiles", true },
		{ "smoothed", ranges }, { "subqueries", true }, { "type_and_unit_labels", false }, { "without", true },
	};
	static const struct feature operators[] = {
		{ "!=", true }, { "!~", true }, { "%", true }, { "*", true }, { "+", true }, { "-", true }, { "/", true }, { "<", true },
		{ "<=", true }, { "=", true }, { "==", true }, { "=~", true }, { ">", true }, { ">=", true }, { "@", true },
		{ "^", true }, { "and", true }, { "atan2", true }, { "or", true }, { "unless", true },
	};
	struct buf *b = answer_begin(rq);
	json_object_begin(b);
	json_object_begin_at(b, "api");
	put_features(b, api, ARRAY_LEN(api));
	json_object_end(b);
	json_object_begin_at(b, "prometheus");
	put_features(b, server, ARRAY_LEN(server));
	json_object_end(b);
	json_object_begin_at(b, "promql");
	put_features(b, language, ARRAY_LEN(language));
	json_object_end(b);
	json_object_begin_at(b, "promql_functions");
	put_language(b, false);
	json_object_end(b);
	json_object_begin_at(b, "promql_operators");
	put_features(b, operators, ARRAY_LEN(operators));
	put_language(b, true);
	json_object_end(b);
	json_object_end(b);
	answer_end(rq, NULL, 0, NULL, 0);
}

/* ---- notifications ---- */

static void put_notification(struct buf *b, const char *text, int64_t t_ms)
{
	char when[RFC3339_LEN];
	json_object_begin(b);
	json_field_text(b, "text", text);
	json_field_text(b, "date", clock_rfc3339_ms(t_ms, when));
	json_field_bool(b, "active", true);
	json_object_end(b);
}

/* Also before storage is open, and at the end. */
void serve_notifications(struct httpd_request *rq, void *arg)
{
	struct web *w = arg;
	struct web_reload_state state = { .ok = true };
	if (w->o.reload_state)
		w->o.reload_state(w->o.arg, &state);
	struct buf *b = answer_begin(rq);
	json_array_begin(b);
	if (!state.ok)
		put_notification(b, "Configuration reload has failed.", clock_now_ms());
	if (state.restart[0])
		put_notification(b, state.restart, state.t_ms);
	if (atomic_load(&w->stopping))
		put_notification(b, "Pyrrha is shutting down and gracefully stopping all operations.", clock_now_ms());
	else if (!atomic_load(&w->ready))
		put_notification(b, "Pyrrha is starting and reading its log.", w->start_ms);
	json_array_end(b);
	answer_end(rq, NULL, 0, NULL, 0);
}

/* A stream of notifications, which we do not have: 204 stops further requests. */
void serve_notifications_live(struct httpd_request *rq, void *arg)
{
	(void)arg;
	httpd_status(rq, 204);
}
