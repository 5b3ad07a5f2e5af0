/* SPDX-License-Identifier: Apache-2.0 */
/* pyrtool rules try: a server evaluates rule files over its past, and tells what their alerts would have done. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cmd/tool.h"
#include "config/config_top.h"
#include "model/labels.h"

#define TIMEOUT_MS 610000 /* the server gives up after ten minutes */

struct try_question {
	const char *url, *start, *end;
	bool as_json;
};

static const char *text_of(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));
	return s ? s : "";
}

static void put_labels(const json_t *metric, struct buf *out)
{
	struct labels_builder b;
	const char *name;
	json_t *value;
	labels_builder_init(&b, (struct labels){ 0 });
	json_object_foreach((json_t *)(uintptr_t)metric, name, value)
		labels_builder_set(&b, view_of(name), view_of(json_string_value(value) ? json_string_value(value) : ""));
	labels_format(labels_builder_finish(&b), out);
	labels_builder_free(&b);
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
		put_labels(json_object_get(a, "labels"), &out);
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

static int try_file(const char *path, const struct try_question *q)
{
	struct buf text = { .max = CONFIG_MAX_BYTES }, form = { 0 }, body = { 0 };
	struct err e = { 0 };
	if (buf_read_file(&text, path, &e)) {
		buf_free(&text);
		return tool_fail("rules try", &e);
	}
	buf_putc(&text, 0);
	tool_put_param(&form, "rules", text.ptr);
	tool_put_param(&form, "name", path);
	if (*q->start)
		tool_put_param(&form, "start", q->start);
	if (*q->end)
		tool_put_param(&form, "end", q->end);
	json_t *answer = tool_ask("rules try", q->url, "/api/v1/rules/try", &form, TIMEOUT_MS, &body);
	int status = TOOL_FAILED;
	if (answer && q->as_json)
		status = tool_print(&body) == TOOL_OK && puts("") >= 0 ? TOOL_OK : TOOL_FAILED;
	else if (answer) {
		tool_put_notes(answer);
		status = print_alerts(answer);
	}
	json_decref(answer);
	buf_free(&text);
	buf_free(&form);
	buf_free(&body);
	return status;
}

int tool_try_rules(int argc, char **argv)
{
	struct try_question q = { "http://127.0.0.1:7070", "", "" };
	const char *output = "text";
	struct opt flags[] = {
		{ "url", OPT_STRING, &q.url, "<url>", "The server." },
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
