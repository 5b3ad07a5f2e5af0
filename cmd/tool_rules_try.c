/* SPDX-License-Identifier: Apache-2.0 */
/* pyrtool rules try and backfill: a server evaluates rule files over its past. It reports what their alerts would have done, or stores
 * what they record, one part of the time after the other. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cmd/tool.h"
#include "config/config_top.h"

#define TIMEOUT_MS 610000 /* the server gives up after ten minutes */

struct try_question {
	struct tool_server server;
	const char *start, *end;
	bool as_json;
};

static const char *text_of(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));
	return s ? s : "";
}

static void put_moment(const json_t *alert, const char *key, const char *word, struct buf *out)
{
	if (*text_of(alert, key))
		buf_printf(out, "  %s %s", word, text_of(alert, key));
}

/* {alertname="A"}  pending TIME  firing TIME  resolved TIME */
static int print_alerts(const json_t *answer)
{
	const json_t *data = json_object_get(answer, "data");
	struct buf out = { 0 };
	size_t i;
	json_t *a;
	json_array_foreach(json_object_get(data, "alerts"), i, a) {
		tool_put_series_name(&out, json_object_get(a, "labels"));
		put_moment(a, "activeAt", "pending", &out);
		put_moment(a, "firedAt", "firing", &out);
		put_moment(a, "endedAt", *text_of(a, "firedAt") ? "resolved" : "gone", &out);
		buf_putc(&out, '\n');
	}
	buf_printf(&out, "%zu alerts in %lld evaluations\n", json_array_size(json_object_get(data, "alerts")),
		   (long long)json_integer_value(json_object_get(data, "evaluations")));
	int status = tool_print(&out);
	buf_free(&out);
	return status;
}

/* The answer about a file, from start on; NULL: it was told what is wrong. */
static json_t *ask_file(const char *name, const char *path, const struct try_question *q, const char *start, const char *api, struct buf *ret_body)
{
	struct buf text = { .max = CONFIG_MAX_BYTES }, form = { 0 };
	struct err e = { 0 };
	json_t *answer = NULL;
	if (buf_read_file(&text, path, &e)) {
		tool_fail(name, &e);
	} else {
		buf_putc(&text, 0);
		tool_put_param(&form, "rules", text.ptr);
		tool_put_param(&form, "name", path);
		if (*start)
			tool_put_param(&form, "start", start);
		if (*q->end)
			tool_put_param(&form, "end", q->end);
		answer = tool_ask(name, &q->server, api, &form, TIMEOUT_MS, ret_body);
	}
	buf_free(&text);
	buf_free(&form);
	return answer;
}

static int try_file(const char *path, const struct try_question *q)
{
	struct buf body = { 0 };
	json_t *answer = ask_file("rules try", path, q, q->start, "/api/v1/rules/try", &body);
	int status = TOOL_FAILED;
	if (answer && q->as_json)
		status = tool_print(&body) == TOOL_OK && puts("") >= 0 ? TOOL_OK : TOOL_FAILED;
	else if (answer) {
		tool_put_notes(answer);
		status = print_alerts(answer);
	}
	json_decref(answer);
	buf_free(&body);
	return status;
}

/* Part after part, with a line of progress for each. */
static int backfill_file(const char *path, const struct try_question *q)
{
	long long written = 0, there = 0, refused = 0;
	char start[RFC3339_LEN];
	snprintf(start, sizeof start, "%s", q->start);
	for (bool more = true; more;) {
		struct buf body = { 0 };
		json_t *answer = ask_file("rules backfill", path, q, start, "/api/v1/admin/rules/backfill", &body);
		const json_t *data = json_object_get(answer, "data");
		buf_free(&body);
		if (!answer)
			return TOOL_FAILED;
		tool_put_notes(answer);
		written += json_integer_value(json_object_get(data, "written"));
		there += json_integer_value(json_object_get(data, "there"));
		refused += json_integer_value(json_object_get(data, "refused"));
		more = *text_of(data, "next") != 0;
		snprintf(start, sizeof start, "%s", text_of(data, "next"));
		json_decref(answer);
		if (more)
			fprintf(stderr, "%s: up to %s, %lld samples written\n", path, start, written);
	}
	printf("%s: %lld samples written, %lld were there already, %lld refused\n", path, written, there, refused);
	return refused ? TOOL_FAILED : TOOL_OK;
}

int tool_backfill_rules(int argc, char **argv)
{
	struct try_question q = { { .url = "http://127.0.0.1:7070" }, "", "" };
	struct opt flags[] = {
		{ "url", OPT_STRING, &q.server.url, "<url>", "The server; it runs with --web.enable-admin-api." },
		TOOL_HTTP_CONFIG(&q.server.http_config_file),
		{ "start", OPT_STRING, &q.start, "<time>", "RFC 3339 or Unix seconds." },
		{ "end", OPT_STRING, &q.end, "<time>", "RFC 3339 or Unix seconds." },
	};
	int words, status = TOOL_OK;
	int64_t t_ms;
	if (!tool_flags(tool_command("rules backfill"), flags, ARRAY_LEN(flags), argc, argv, &words, &status))
		return status;
	if (!words || strlen(q.start) >= RFC3339_LEN || !clock_parse_time_ms(view_of(q.start), &t_ms) || !clock_parse_time_ms(view_of(q.end), &t_ms)) {
		fprintf(stderr, "pyrtool rules backfill: a rule file, --start and --end are needed; times are RFC 3339 or Unix seconds\n");
		return TOOL_USAGE;
	}
	status = TOOL_OK;
	for (int i = 1; i <= words && status == TOOL_OK; i++)
		status = backfill_file(argv[i], &q);
	return status;
}

int tool_try_rules(int argc, char **argv)
{
	struct try_question q = { { .url = "http://127.0.0.1:7070" }, "", "" };
	const char *output = "text";
	struct opt flags[] = {
		{ "url", OPT_STRING, &q.server.url, "<url>", "The server." },
		TOOL_HTTP_CONFIG(&q.server.http_config_file),
		{ "start", OPT_STRING, &q.start, "<time>", "RFC 3339 or Unix seconds; an hour before the end if not given." },
		{ "end", OPT_STRING, &q.end, "<time>", "RFC 3339 or Unix seconds; now if not given." },
		{ "output", OPT_STRING, &output, "<form>", "text or json." },
	};
	int words, status;
	int64_t t_ms;
	if (!tool_flags(tool_command("rules try"), flags, ARRAY_LEN(flags), argc, argv, &words, &status))
		return status;
	if (!tool_json("rules try", output, &q.as_json))
		return TOOL_USAGE;
	if (!words || (*q.start && !clock_parse_time_ms(view_of(q.start), &t_ms)) || (*q.end && !clock_parse_time_ms(view_of(q.end), &t_ms))) {
		fprintf(stderr, "pyrtool rules try: a rule file is needed; times are RFC 3339 or Unix seconds\n");
		return TOOL_USAGE;
	}
	for (int i = 1; i <= words; i++)
		status = MAX(i > 1 ? status : TOOL_OK, try_file(argv[i], &q));
	return status;
}
