/* SPDX-License-Identifier: Apache-2.0 */
/* pyrtool query: asks a server over its HTTP API and prints the answer as the language writes series. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/num.h"
#include "base/units.h"
#include "cmd/tool.h"
#include "config/config_http.h"
#include "fetch/fetch.h"
#include "model/labels.h"

static void put_escaped(struct buf *out, const char *s)
{
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;
		if ((c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || strchr("-_.~", c))
			buf_putc(out, (char)c);
		else
			buf_printf(out, "%%%02X", c);
	}
}

void tool_put_param(struct buf *form, const char *name, const char *value)
{
	if (form->len)
		buf_putc(form, '&');
	buf_printf(form, "%s=", name);
	put_escaped(form, value);
}

static const char *text_of(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));
	return s ? s : "";
}

void tool_put_series_name(struct buf *out, const json_t *metric)
{
	struct labels_builder b;
	labels_builder_init(&b, (struct labels){ 0 });
	const char *name;
	json_t *value;
	json_object_foreach((json_t *)(uintptr_t)metric, name, value)
		labels_builder_set(&b, view_of(name), view_of(json_string_value(value) ? json_string_value(value) : ""));
	labels_format(labels_builder_finish(&b), out);
	labels_builder_free(&b);
}

static void put_point(struct buf *out, const json_t *p)
{
	char when[RFC3339_LEN];
	const char *v = json_string_value(json_array_get(p, 1));
	int64_t t_ms;
	bool known = num_round_i64(json_number_value(json_array_get(p, 0)) * 1000, &t_ms);
	buf_printf(out, "%s @[%s]\n", v ? v : "?", known ? clock_rfc3339_ms(t_ms, when) : "?");
}

static void put_result(struct buf *out, const json_t *data)
{
	const json_t *result = json_object_get(data, "result");
	const char *type = text_of(data, "resultType");
	if (strcmp(type, "scalar") == 0 || strcmp(type, "string") == 0) {
		put_point(out, result);
		return;
	}
	size_t i, k;
	json_t *series, *point;
	json_array_foreach((json_t *)(uintptr_t)result, i, series) {
		tool_put_series_name(out, json_object_get(series, "metric"));
		buf_puts(out, " => ");
		const json_t *values = json_object_get(series, "values");
		if (!values) {
			put_point(out, json_object_get(series, "value"));
			continue;
		}
		buf_putc(out, '\n');
		json_array_foreach((json_t *)(uintptr_t)values, k, point) {
			buf_puts(out, "  ");
			put_point(out, point);
		}
	}
}

static void put_kind(const json_t *answer, const char *key)
{
	size_t i;
	json_t *note;
	json_array_foreach(json_object_get(answer, key), i, note)
		fprintf(stderr, "%.*s: %s\n", (int)strlen(key) - 1, key, json_string_value(note) ? json_string_value(note) : "");
}

void tool_put_notes(const json_t *answer)
{
	put_kind(answer, "warnings");
	put_kind(answer, "infos");
}

/* The answer of the API; NULL for an error, which it tells. */
static json_t *read_answer(const char *name, const struct buf *body, int http)
{
	json_t *answer = json_loadb(body->ptr ? body->ptr : "", body->len, 0, NULL);
	if (!answer) {
		fprintf(stderr, "pyrtool %s: the server answered %d, and no JSON: %.200s\n", name, http, body->ptr ? body->ptr : "");
	} else if (strcmp(text_of(answer, "status"), "success") != 0) {
		fprintf(stderr, "pyrtool %s: %s: %s\n", name, text_of(answer, "errorType"), text_of(answer, "error"));
		json_decref(answer);
		answer = NULL;
	}
	return answer;
}

/* Takes the answer; body is its text. */
static int print_answer(json_t *answer, const struct buf *body, bool as_json)
{
	struct buf out = { 0 };
	int status;
	if (!answer)
		return TOOL_FAILED;
	if (as_json) {
		status = tool_print(body) == TOOL_OK && puts("") >= 0 ? TOOL_OK : TOOL_FAILED;
	} else {
		tool_put_notes(answer);
		put_result(&out, json_object_get(answer, "data"));
		status = tool_print(&out);
	}
	json_decref(answer);
	buf_free(&out);
	return status;
}

/* The content of the file, in the arena; *ret NULL: there is no file. */
static int read_http_config(const char *path, struct arena *a, struct http_config **ret, struct err *e)
{
	struct config_tree *t;
	*ret = NULL;
	if (!path || !*path)
		return 0;
	int rc = config_load(&t, path, e);
	if (rc)
		return rc;
	struct config_ctx c = { .arena = a, .dir = config_dirname(a, path) };
	*ret = arena_calloc(a, 1, sizeof **ret);
	rc = config_decode(&c, &config_http_table, config_root(t), *ret, e);
	config_ctx_release(&c);
	config_free(t);
	return rc;
}

static int send_form(const struct tool_server *server, const char *path, const struct buf *form, int64_t timeout_ms, struct fetch_response *r,
		     struct err *e)
{
	static const char *const headers[] = { "Content-Type: application/x-www-form-urlencoded" };
	struct arena a;
	struct http_config *http;
	struct fetch_client *c = NULL;
	struct buf url = { 0 };
	size_t n = strlen(server->url);
	arena_init(&a, 0);
	int rc = read_http_config(server->http_config_file, &a, &http, e);
	if (!rc)
		c = fetch_client_new(http, "pyrtool");
	buf_printf(&url, "%s%.*s%s", strstr(server->url, "://") ? "" : "http://", (int)(n && server->url[n - 1] == '/' ? n - 1 : n), server->url, path);
	const struct fetch_request q = { .method = "POST", .url = url.ptr, .headers = headers, .n_headers = 1, .body = buf_view(form),
					 .timeout_ms = timeout_ms, .compressed = true };
	if (!rc)
		rc = fetch_do(c, &q, r, e);
	fetch_client_unref(c);
	buf_free(&url);
	arena_free(&a);
	return rc;
}

json_t *tool_ask(const char *name, const struct tool_server *server, const char *path, const struct buf *form, int64_t timeout_ms, struct buf *ret_body)
{
	struct fetch_response r = { 0 };
	struct err e;
	json_t *answer = NULL;
	if (send_form(server, path, form, timeout_ms, &r, &e))
		tool_fail(name, &e);
	else
		answer = read_answer(name, &r.body, r.status);
	buf_put(ret_body, r.body.ptr, r.body.len);
	fetch_response_release(&r);
	return answer;
}

static int ask(const char *name, const struct tool_server *server, const char *path, const struct buf *form, bool as_json)
{
	struct buf body = { 0 };
	int status = print_answer(tool_ask(name, server, path, form, 130000, &body), &body, as_json);
	buf_free(&body);
	return status;
}

int tool_query_instant(int argc, char **argv)
{
	const char *time = "", *output = "text";
	struct tool_server server = { 0 };
	bool as_json;
	struct opt flags[] = {
		TOOL_HTTP_CONFIG(&server.http_config_file),
		{ "time", OPT_STRING, &time, "<time>", "RFC 3339 or Unix seconds; now if not given." },
		{ "output", OPT_STRING, &output, "<form>", "text or json." },
	};
	int words, status;
	if (!tool_flags(tool_command("query instant"), flags, ARRAY_LEN(flags), argc, argv, &words, &status))
		return status;
	if (!tool_json("query instant", output, &as_json))
		return TOOL_USAGE;
	if (words != 2) {
		fprintf(stderr, "pyrtool query instant: a URL and an expression are needed\n");
		return TOOL_USAGE;
	}
	struct buf form = { 0 };
	server.url = argv[1];
	tool_put_param(&form, "query", argv[2]);
	if (*time)
		tool_put_param(&form, "time", time);
	status = ask("query instant", &server, "/api/v1/query", &form, as_json);
	buf_free(&form);
	return status;
}

int tool_query_range(int argc, char **argv)
{
	const char *start = "", *end = "", *output = "text";
	struct tool_server server = { 0 };
	int64_t step_ms = 0;
	bool as_json;
	struct opt flags[] = {
		TOOL_HTTP_CONFIG(&server.http_config_file),
		{ "start", OPT_STRING, &start, "<time>", "RFC 3339 or Unix seconds; five minutes before the end if not given." },
		{ "end", OPT_STRING, &end, "<time>", "RFC 3339 or Unix seconds; now if not given." },
		{ "step", OPT_DURATION, &step_ms, "<duration>", "Between points; a 250th of the range if not given." },
		{ "output", OPT_STRING, &output, "<form>", "text or json." },
	};
	int words, status;
	if (!tool_flags(tool_command("query range"), flags, ARRAY_LEN(flags), argc, argv, &words, &status))
		return status;
	if (!tool_json("query range", output, &as_json))
		return TOOL_USAGE;
	int64_t end_ms = clock_now_ms(), start_ms;
	bool ok = words == 2 && (!*end || clock_parse_time_ms(view_of(end), &end_ms));
	start_ms = end_ms - 300000;
	if (!ok || (*start && !clock_parse_time_ms(view_of(start), &start_ms))) {
		fprintf(stderr, "pyrtool query range: a URL and an expression are needed; times are RFC 3339 or Unix seconds\n");
		return TOOL_USAGE;
	}
	if (!step_ms)
		step_ms = MAX((end_ms - start_ms) / 250000 * 1000, 1000);
	struct buf form = { 0 };
	char number[32];
	server.url = argv[1];
	tool_put_param(&form, "query", argv[2]);
	snprintf(number, sizeof number, "%.3f", (double)start_ms / 1000);
	tool_put_param(&form, "start", number);
	snprintf(number, sizeof number, "%.3f", (double)end_ms / 1000);
	tool_put_param(&form, "end", number);
	snprintf(number, sizeof number, "%.3f", (double)step_ms / 1000);
	tool_put_param(&form, "step", number);
	status = ask("query range", &server, "/api/v1/query_range", &form, as_json);
	buf_free(&form);
	return status;
}
